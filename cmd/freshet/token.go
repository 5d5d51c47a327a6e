package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func newToken(o *options) *cobra.Command {
	var uses int
	var ttl time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "token",
		GroupID: "cluster",
		Short:   "Print a token with which an agent can join",
		Long: `token prints a token with which one agent can join the cluster within an hour;
--uses and --ttl say otherwise. It carries the fingerprint of the cluster's
authority, so the agent knows that it joins this cluster and no other.`,
		Example: `  freshet token
  freshet token --uses 200 --ttl 8h >token
  freshet token | ssh gpu-07 freshet agent --join 10.0.0.5:7433 --token - --root /data`,
		Args: wantArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if uses < 1 {
				return usage("--uses %d: want at least 1", uses)
			}
			if ttl <= 0 {
				return usage("--ttl %v: want a time above zero, such as 30m", ttl)
			}
			c, err := o.connect(cmd.Context(), nil)
			if err != nil {
				return err
			}
			defer c.Close()
			token, expires, err := c.NewToken(cmd.Context(), uses, ttl)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), struct {
					Token   string    `json:"token"`
					Uses    int       `json:"uses"`
					Expires time.Time `json:"expires"`
				}{token, uses, expires})
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			return err
		},
	}
	f := cmd.Flags()
	f.IntVar(&uses, "uses", 1, "`number` of agents that can join with it")
	f.DurationVar(&ttl, "ttl", time.Hour, "`time` for which it is good")
	jsonFlag(cmd, &asJSON)
	o.clientFlags(cmd)
	return cmd
}
