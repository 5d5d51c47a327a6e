package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet"
)

func newNodes(o *options) *cobra.Command {
	var asJSON bool
	var up int
	cmd := &cobra.Command{
		Use:     "nodes",
		GroupID: "cluster",
		Short:   "List the nodes of the cluster",
		Long: `nodes lists the nodes of the cluster: whether each is up and since when it was
not heard of, where the others reach it, and how it can be selected. A node's
certificate renews itself long before it expires; when that fails the state says
so. With --up N it first waits until that many are up, as long as --wait says.`,
		Example: "  freshet nodes\n  freshet nodes --up 200 --wait 5m\n  freshet nodes remove gpu-07",
		Args:    wantArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			deadline := time.Now().Add(o.wait)
			c, err := o.connect(cmd.Context(), nil)
			if err != nil {
				return err
			}
			defer c.Close()
			nodes, err := awaitNodes(cmd.Context(), c, up, deadline)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]any{"nodes": nodes})
			}
			return printNodes(cmd.OutOrStdout(), nodes, time.Now())
		},
	}
	cmd.Flags().IntVar(&up, "up", 0, "wait until this `number` of nodes is up")
	jsonFlag(cmd, &asJSON)
	o.clientFlags(cmd)
	cmd.AddCommand(newNodesRemove(o))
	return cmd
}

// awaitNodes lists the nodes once so many are up.
func awaitNodes(ctx context.Context, c *freshet.Client, want int, deadline time.Time) ([]freshet.NodeView, error) {
	for {
		nodes, err := c.Nodes(ctx)
		if err != nil {
			return nil, err
		}
		up := 0
		for _, n := range nodes {
			if n.Up {
				up++
			}
		}
		if up >= want {
			return nodes, nil
		}
		if !time.Now().Before(deadline) {
			return nil, fmt.Errorf("%d of the %d nodes asked for are up: see \"freshet nodes\", or give more time with --wait", up, want)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, errInterrupted
		}
	}
}

func newNodesRemove(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Take a node out of the cluster",
		Long: `remove takes a node out of the cluster, whether it is up or down. Within seconds
no node accepts its certificates any longer: its connections are closed, running
jobs go on without it, and its agent ends. Nodes that are down learn it when they
are back. Its name is free. Its agent does not come back by itself; tokens with which
who has the machine could join it again are listed.`,
		Example: "  freshet nodes remove gpu-07",
		Args:    wantArgs("NAME"),
		RunE: o.connected(func(cmd *cobra.Command, c *freshet.Client, args []string) error {
			if err := c.RemoveNode(cmd.Context(), args[0]); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Node %s is removed.\n", args[0])
			tokens, err := c.Tokens(cmd.Context())
			if err != nil {
				return fmt.Errorf("node %s is removed, but which tokens would let it in again is not known: %w", args[0], err)
			}
			printGood(cmd.OutOrStdout(), tokens, time.Now())
			return nil
		}),
	}
	o.clientFlags(cmd)
	return cmd
}

// printGood warns of the tokens that are good.
func printGood(out io.Writer, tokens []freshet.TokenView, now time.Time) {
	for _, t := range tokens {
		if t.Left > 0 && now.Before(t.Expires) {
			fmt.Fprintf(out, "Token %s is still good for %s and would let it in again: freshet token withdraw %s\n", t.ID, count(t.Left, "use"), t.ID)
		}
	}
}

// printNodes prints a table for people.
func printNodes(out io.Writer, nodes []freshet.NodeView, now time.Time) error {
	if len(nodes) == 0 {
		_, err := fmt.Fprintln(out, "No nodes yet: \"freshet token\" prints a token, and \"freshet agent\" joins with it.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATE\tADDRESS\tSITE\tLABELS\tJOBS\tVERSION\tROOTS")
	for _, n := range nodes {
		state := "up"
		if n.Leaving {
			state = "leaving"
		}
		if !n.Up {
			state = "down, last seen " + ago(now.Sub(n.Seen))
		}
		state += expiry(n.Expires.Sub(now))
		var labels []string
		for _, k := range slices.Sorted(maps.Keys(n.Labels)) {
			labels = append(labels, k+"="+n.Labels[k])
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", n.Name, state, n.Addr, dash(n.Site), dash(strings.Join(labels, ",")),
			n.Jobs, n.Version, dash(strings.Join(n.Roots, ",")))
	}
	return w.Flush()
}

// expiry is what there is to say about a certificate that is good for so long
// yet: nothing until it should have been renewed a month ago.
func expiry(left time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case left <= 0:
		return ", certificate expired"
	case left > 90*day:
		return ""
	case left < 2*day:
		return fmt.Sprintf(", certificate expires in %.0f h", left.Hours())
	}
	return fmt.Sprintf(", certificate expires in %d days", int(left/day))
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// ago is a time that has passed, as people say it.
func ago(d time.Duration) string {
	switch {
	case d < 2*time.Second:
		return "just now"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}
