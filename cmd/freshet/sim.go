package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/internal/scenario"
	"github.com/freshet/freshet/unit"
)

func newSim() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "sim SCENARIO.yaml",
		GroupID: "try",
		Short:   "Simulate a broadcast to thousands of nodes",
		Long: `sim runs a broadcast in a simulation: the rules that real nodes obey, on a
network that a file describes, from one seed. It prints when the last node would have
the object, and how far that is from the bound that the rates set. docs/scenario.md
has the form of the file; a simulated node needs neither a machine nor a disk. One is

  network: {generate: star, hosts: 1000, rate: 1Gbit, delay: 50us}
  broadcast: {size: 10GiB, store: {total: 64Gbit, per_client: [60Mbit, 10Mbit]}}
  events: [{at: 3s, node: h7, do: die}]

and {file: net.yaml} as the network is one that "freshet topo" wrote. A scenario named -
is read from standard input.`,
		Example: `  freshet sim docs/scenarios/narrow.yaml
  freshet sim docs/scenarios/narrow.yaml --json`,
		Args: wantArgs("SCENARIO.yaml"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			if name == "-" {
				name = "/dev/stdin"
			}
			s, err := asLongAs(cmd.Context(), func() (*scenario.Scenario, error) { return scenario.Read(name) })
			if err != nil {
				return err
			}
			began := time.Now()
			r, err := asLongAs(cmd.Context(), func() (scenario.Result, error) { return s.Run(cmd.Context()) })
			switch {
			case cmd.Context().Err() != nil:
				return errInterrupted
			case err != nil:
				return fmt.Errorf("%s: %w", name, err)
			}
			r.Wall = time.Since(began).Seconds()
			if asJSON {
				return printJSON(cmd.OutOrStdout(), r)
			}
			return printSim(cmd.OutOrStdout(), s, r)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// boundWords say what sets a bound, as reports of real jobs do.
var boundWords = map[string]string{
	"downlink": "the slowest link into a node",
	"store":    "the store",
	"uplinks":  "what the store and all nodes can send",
}

// without names the nodes that have not got the object.
func without(nodes []scenario.NodeResult) string {
	const most = 10
	var names []string
	for _, n := range nodes {
		if n.Done == nil {
			names = append(names, n.Name)
		}
	}
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// printSim prints for people.
func printSim(w io.Writer, s *scenario.Scenario, r scenario.Result) error {
	fmt.Fprintf(w, "%v in %d pieces of %v to %d nodes, %s, seed %d\n\n", s.Layout.Size, s.Layout.Count(), s.Layout.Piece, len(r.Nodes), s.Algorithm, s.Seed)
	if r.Finished < len(r.Nodes) {
		fmt.Fprintf(w, "have it     %d of %d nodes\n", r.Finished, len(r.Nodes))
		fmt.Fprintf(w, "without it  %s\n", without(r.Nodes))
	}
	if r.Finished == 0 {
		fmt.Fprintln(w, "makespan    none: nobody has the object")
	} else {
		fmt.Fprintf(w, "makespan    %.2f s", r.Makespan)
		if r.Bound != nil {
			fmt.Fprintf(w, ", %.3f × the bound of %.2f s, which is set by: %s", *r.Ratio, *r.Bound, cmp.Or(boundWords[r.By], r.By))
		}
		fmt.Fprintf(w, "\nnodes       fastest %.2f s, mean %.2f s, slowest %.2f s\n", r.Fastest, r.Mean, r.Slowest)
	}
	times := func(b unit.Bytes) float64 { return float64(b) / float64(s.Layout.Size) }
	fmt.Fprintf(w, "from store  %v (%.2f × the object)\n", r.Store, times(r.Store))
	fmt.Fprintf(w, "from peers  %v (%.2f × the object)\n", r.Peers, times(r.Peers))
	for _, e := range r.Entered {
		fmt.Fprintf(w, "into %-7s%v (%.2f × the object)\n", e.Site, e.Bytes, times(e.Bytes))
	}
	_, err := fmt.Fprintf(w, "simulated in %.1f s\n", r.Wall)
	return err
}
