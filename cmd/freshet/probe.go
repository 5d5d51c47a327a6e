package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/unit"
)

func newProbe(o *options) *cobra.Command {
	var nodes []string
	var source string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "probe",
		GroupID: "cluster",
		Short:   "Measure what the nodes' links and the store carry, for the bounds of later jobs",
		Long: `probe fills the links between the nodes for some seconds, and with --source
reads that object on all of them at once, each with its own credentials. Nodes keep
what they have measured, with the date. A job is then held against it where
nothing is declared (--declare of up, agent and broadcast), no network card tells
its speed, and no other job has seen more; its report says so.

Each node sends to up to four others and gets from up to four, of its own site, for
a second and a half at a time; what went through in the best second counts. All read
from the store at the same time, as in a job, over eight connections each. A node that
is much faster than the others is measured as fast as these are. While a job
runs on a node it is not probed, and a job that begins ends the probe.`,
		Example: `  freshet probe
  freshet probe --source s3://models/llama.bin --nodes site=east`,
		Args: wantArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := o.connect(cmd.Context(), nil)
			if err != nil {
				return err
			}
			defer c.Close()
			p, err := c.Probe(cmd.Context(), nodes, source)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), newProbeResult(p))
			} else {
				err = printProbe(cmd.OutOrStdout(), p, source != "")
			}
			if err == nil && probeFailed(p) {
				err = errShown
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&nodes, "nodes", nil, "`selectors` of the nodes to measure: names, globs, label=value (default: all)")
	f.StringVar(&source, "source", "", "`URL` of an object of 4 MiB or more, or of a prefix with one below, in the store that is to be measured")
	jsonFlag(cmd, &asJSON)
	o.clientFlags(cmd)
	return cmd
}

// probeFailed says whether something could not be measured.
func probeFailed(p freshet.Probe) bool {
	for _, n := range p.Nodes {
		if len(n.Errors) > 0 || n.Down != "" {
			return true
		}
	}
	return false
}

// probeResult is what --json prints; rates are bytes per second, and what was not measured is nil.
type probeResult struct {
	OK         bool          `json:"ok"`
	MovedBytes int64         `json:"moved_bytes"` // between the nodes
	ReadBytes  int64         `json:"read_bytes"`  // from the store
	Nodes      []probeOfNode `json:"nodes"`
}

type probeOfNode struct {
	Name   string   `json:"name"`
	In     *float64 `json:"in"`
	Out    *float64 `json:"out"`
	Store  *float64 `json:"store"`
	Errors []string `json:"errors"`
}

func newProbeResult(p freshet.Probe) probeResult {
	r := probeResult{OK: !probeFailed(p), MovedBytes: int64(p.Moved), ReadBytes: int64(p.Read), Nodes: []probeOfNode{}}
	for _, n := range p.Nodes {
		k := probeOfNode{Name: n.Name, In: known(n.In), Out: known(n.Out), Store: known(n.Store), Errors: append([]string{}, n.Errors...)}
		if n.Down != "" {
			k.Errors = append(k.Errors, n.Down)
		}
		r.Nodes = append(r.Nodes, k)
	}
	return r
}

// printProbe prints for people.
func printProbe(out io.Writer, p freshet.Probe, withStore bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	rate := func(r unit.Bandwidth) string {
		if r <= 0 {
			return "–"
		}
		return r.String()
	}
	fmt.Fprint(w, "NODE\tIN\tOUT")
	if withStore {
		fmt.Fprint(w, "\tFROM THE STORE")
	}
	fmt.Fprintln(w)
	for _, n := range p.Nodes {
		fmt.Fprintf(w, "%s\t%s\t%s", n.Name, rate(n.In), rate(n.Out))
		if withStore {
			fmt.Fprintf(w, "\t%s", rate(n.Store))
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, n := range p.Nodes {
		if n.Down != "" {
			fmt.Fprintf(out, "%s is %s: nothing of it was measured\n", n.Name, n.Down)
		}
		for _, e := range n.Errors {
			fmt.Fprintf(out, "%s: %s\n", n.Name, e)
		}
	}
	if !withStore {
		fmt.Fprintln(out, "The store was not measured: --source URL of an object.")
	}
	_, err := fmt.Fprintf(out, "%v went between the nodes, %v came from the store. Later jobs are held against this where nothing better is known.\n", p.Moved, p.Read)
	return err
}
