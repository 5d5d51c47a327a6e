package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet"
)

func newDoctor(o *options) *cobra.Command {
	var nodes []string
	var source string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "doctor",
		GroupID: "cluster",
		Short:   "Look for what is wrong with the cluster, and say what to do",
		Long: `doctor lets every node look at itself and at the others: its clock against the
control plane's, whether it reaches each of the others at the address that they
advertise, free space below its roots, limits on open files, congestion control,
versions, its certificate's time and its state directory; with --source also whether
it can read that object, with its own credentials. What is wrong is listed with what
to do about it. The exit code is 0 if nothing failed; warnings do not count.`,
		Example: `  freshet doctor
  freshet doctor --source s3://models/llama.bin --nodes site=east`,
		Args: wantArgs(),
		RunE: o.connected(func(cmd *cobra.Command, c *freshet.Client, _ []string) error {
			check, err := c.Check(cmd.Context(), nodes, source)
			if err != nil {
				return err
			}
			found := freshet.Diagnose(check, version())
			fails := 0
			for _, f := range found {
				if f.Fails {
					fails++
				}
			}
			if asJSON {
				if found == nil {
					found = []freshet.Finding{}
				}
				err = printJSON(cmd.OutOrStdout(), map[string]any{"ok": fails == 0, "findings": found, "nodes": check.Nodes})
			} else {
				err = printFindings(cmd.OutOrStdout(), check, found, fails, source != "")
			}
			if err == nil && fails > 0 {
				err = errShown
			}
			return err
		}),
	}
	f := cmd.Flags()
	f.StringSliceVar(&nodes, "nodes", nil, "`selectors` of the nodes to look at: names, globs, label=value (default: all)")
	f.StringVar(&source, "source", "", "`URL` of an object or a prefix that the nodes are to be able to read")
	jsonFlag(cmd, &asJSON)
	o.clientFlags(cmd)
	return cmd
}

// printFindings prints for people: what is wrong, and how much is not.
func printFindings(w io.Writer, c freshet.Check, found []freshet.Finding, fails int, withStore bool) error {
	if len(c.Nodes) == 0 {
		_, err := fmt.Fprintln(w, "The control plane answers. There are no nodes yet: \"freshet token\" prints a token, and \"freshet agent\" joins with it.")
		return err
	}
	for _, f := range found {
		word := "warning"
		if f.Fails {
			word = "FAILED "
		}
		fmt.Fprintf(w, "%s  %s: %s\n         → %s\n", word, f.Node, f.Text, f.Do)
	}
	answered, pairs, reached := 0, 0, 0
	for _, n := range c.Nodes {
		if n.Found != nil {
			answered++
			reached += n.Found.Reached
			pairs += n.Found.Reached + n.Found.Missed
		}
	}
	if !withStore {
		fmt.Fprintln(w, "The store was not looked at: --source URL of an object.")
	}
	_, err := fmt.Fprintf(w, "%d of %d nodes looked at, %d of %d connections between them work: %d failed, %d warnings.\n",
		answered, len(c.Nodes), reached, pairs, fails, len(found)-fails)
	return err
}
