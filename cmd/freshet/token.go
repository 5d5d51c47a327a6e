package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet"
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
	cmd.AddCommand(newTokenList(o), newTokenWithdraw(o))
	return cmd
}

func newTokenList(o *options) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tokens",
		Long: `list shows the tokens of the cluster, newest first, without their secrets, which
nobody has but whom they were given to. A token is forgotten a day after it
expired.`,
		Example: "  freshet token list",
		Args:    wantArgs(),
		RunE: o.connected(func(cmd *cobra.Command, c *freshet.Client, _ []string) error {
			tokens, err := c.Tokens(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]any{"tokens": tokens})
			}
			return printTokens(cmd.OutOrStdout(), tokens, time.Now())
		}),
	}
	jsonFlag(cmd, &asJSON)
	o.clientFlags(cmd)
	return cmd
}

func printTokens(out io.Writer, tokens []freshet.TokenView, now time.Time) error {
	if len(tokens) == 0 {
		_, err := fmt.Fprintln(out, "No tokens: \"freshet token\" makes one.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATE\tUSES LEFT\tMADE\tEXPIRES\tLAST USED BY")
	for _, t := range tokens {
		state, last := "good", "-"
		switch {
		case now.After(t.Expires):
			state = "expired"
		case t.Left == 0:
			state = "used up"
		}
		if t.UsedBy != "" {
			last = t.UsedBy + ", " + ago(now.Sub(t.Used))
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\n", t.ID, state, t.Left, ago(now.Sub(t.Made)), t.Expires.Local().Format("2006-01-02 15:04:05"), last)
	}
	return w.Flush()
}

func newTokenWithdraw(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "withdraw ID",
		Short: "Make a token useless",
		Long: `withdraw makes a token useless at once, whatever it was still good for. ID is as
"freshet token list" shows it, or the beginning of it. Nodes that have joined with
it stay: see "freshet nodes remove".`,
		Example: "  freshet token withdraw 1f0c9a",
		Args:    wantArgs("ID"),
		RunE: o.connected(func(cmd *cobra.Command, c *freshet.Client, args []string) error {
			t, err := c.WithdrawToken(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Token %s is withdrawn.\n", t.ID)
			return nil
		}),
	}
	o.clientFlags(cmd)
	return cmd
}
