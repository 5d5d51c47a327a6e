package main

import (
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet"
)

func newAgent() *cobra.Command {
	n := &nodeFlags{}
	cmd := &cobra.Command{
		Use:     "agent --join HOST:PORT --token TOKEN --root DIR",
		GroupID: "cluster",
		Short:   "Join a cluster, and take part in its jobs",
		Long: `agent makes this machine a node of a cluster until it is interrupted. It joins
with a token, which "freshet token" prints where the control plane runs; what it
gets for it is kept in STATE, so a restart needs none. Jobs may write only below
the --root directories. Sources are read with this process's own credentials
(AWS_ACCESS_KEY_ID and the rest of the AWS environment, files and roles).

STATE is by default /var/lib/freshet/agent/NAME for root and
~/.local/state/freshet/agent/NAME for others (or agent/NAME in $FRESHET_STATE):
several agents on one machine need a --name and a port each.

A token on the command line can be seen in the list of processes: --token - reads
it from standard input, --token @FILE from a file.`,
		Example: `  freshet agent --join 10.0.0.5:7433 --token @/run/token --root /data
  freshet agent --join 10.0.0.5:7433 --root /data      # again, later
  freshet agent --join 10.0.0.5:7433 --token - --root /data --name gpu-07 --listen :0 <token`,
		Args: wantArgs(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			c := &n.config
			c.Agent = true
			switch host, _, err := net.SplitHostPort(c.Join); {
			case c.Join == "":
				return usage("--join is missing: want the HOST:PORT that \"freshet up\" printed")
			case err != nil && !strings.Contains(c.Join, ":"):
				c.Join = net.JoinHostPort(c.Join, freshet.DefaultPort)
			case err != nil || host == "":
				return usage("--join %q: want HOST:PORT", c.Join)
			}
			if len(c.Roots) == 0 {
				return usage("--root is missing: want a directory under which jobs may write")
			}
			if err := n.complete("agent"); err != nil {
				return err
			}
			if c.Token, err = readToken(c.Token, cmd.InOrStdin()); err != nil {
				return err
			}
			return n.serve(cmd.Context(), cmd.OutOrStdout(), func(w io.Writer, node *freshet.Node) {
				fmt.Fprintf(w, "Node %s of the cluster at %s is up at %s.\n", node.Name(), c.Join, node.Addr())
				fmt.Fprintf(w, "  jobs may write below  %s\n", strings.Join(c.Roots, ", "))
				fmt.Fprintf(w, "  state                 %s (a restart needs no token)\n", c.State)
				fmt.Fprintf(w, "Jobs are submitted with \"freshet broadcast\", where the admin's credential is. Ctrl-C ends this node.\n")
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&n.config.Join, "join", "", "`HOST:PORT` of the control plane")
	f.StringVar(&n.config.Token, "token", "", "`token` to join with, - for standard input, @FILE for a file; needed once")
	n.add(cmd)
	return cmd
}
