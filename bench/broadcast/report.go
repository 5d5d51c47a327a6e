package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/internal/lab"
	"github.com/freshet/freshet/objstore/limit"
	"github.com/freshet/freshet/unit"
)

// write makes README.md and the pictures in dir from the results in file alone.
func write(file, dir string) error {
	rs, err := bench.ReadAny(file)
	if err != nil {
		return err
	}
	// What is compared has one size and one scale: those of the last run.
	last := rs[len(rs)-1].Params
	all := len(rs)
	rs = slices.DeleteFunc(rs, func(r bench.Result) bool {
		return r.Params["size"] != last["size"] || r.Params["scale"] != last["scale"]
	})
	scale, err := last.Float("scale")
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	var counts []int
	for _, r := range rs {
		n, err := r.Params.Int("nodes")
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if !slices.Contains(counts, n) {
			counts = append(counts, n)
		}
	}
	slices.Sort(counts)
	var names []string
	for _, n := range counts {
		names = append(names, strconv.Itoa(n))
	}

	var order []bench.Cell
	for _, n := range names {
		for _, a := range algorithms {
			p := bench.Params{"nodes": n, "size": last["size"], "scale": last["scale"]}
			order = append(order, bench.Cell{Params: p, Algorithm: a})
		}
	}
	s := suite(order)
	for name, p := range map[string]bench.Picture{
		"completion.svg": completion(rs, names),
		"speedup.svg":    speedup(rs, names),
		"phases.svg":     phaseSplit(rs, names),
	} {
		if err := p.SVG(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return s.Publish(dir, rs, page, map[string]any{
		"Size": last["size"], "Nodes": listed(names), "Scale": last["scale"], "ForTwo": scale == defaultScale, "LeftOut": all - len(rs),
		"Drawn": limit.Paper.Scaled(scale).Words(),
		"Wire":  strconv.FormatFloat(float64(linkRate(scale)/unit.Mbit), 'g', -1, 64) + " Mbit/s", "Link": lab.Payload(linkRate(scale)), "Buffer": buffer,
		"Checked": checked(rs), "Speedups": speedups(rs, names), "Paper": beside(rs, names, scale), "Table": s.Table(rs, "nodes"),
	})
}

// listed is "4, 8 and 16".
func listed(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// completion shows, for each number of nodes and algorithm, from when to when
// nodes had the object: medians over the runs.
func completion(rs []bench.Result, nodes []string) bench.Picture {
	p := bench.Picture{X: "nodes", Y: "time since the job was accepted (s)", Groups: nodes,
		Legend: []bench.Key{{Name: "mean of the nodes", Kind: "dot"}, {Name: "lower bound", Kind: "dashed"}}}
	p.Series = series(algorithms, nodes, func(a, n string) bench.Mark {
		fastest, _ := bench.Of(rs, at(a, n), "fastest_s")
		slowest, _ := bench.Of(rs, at(a, n), "slowest_s")
		mean, counted := bench.Of(rs, at(a, n), "mean_s")
		bound, _ := bench.Of(rs, at(a, n), "bound_s")
		mean.Min, mean.Max = mean.Median, mean.Median
		return bench.Mark{Low: fastest.Median, High: slowest.Median, Middle: mean, Limit: bound.Median, Note: sign(counted, &p)}
	})
	return p
}

// series are one of each algorithm, with a mark for each number of nodes.
func series(algorithms, nodes []string, mark func(algorithm, nodes string) bench.Mark) (all []bench.Series) {
	for _, a := range algorithms {
		s := bench.Series{Name: a}
		for _, n := range nodes {
			s.Marks = append(s.Marks, mark(a, n))
		}
		all = append(all, s)
	}
	return all
}

// sign marks a point whose runs are all cpu-bound, and has the legend say so.
func sign(counted bool, p *bench.Picture) string {
	if counted {
		return ""
	}
	key := bench.Key{Name: "cpu-bound", Kind: "†"}
	if !slices.Contains(p.Legend, key) {
		p.Legend = append(p.Legend, key)
	}
	return key.Kind
}

// paper is what its authors measured at 32 nodes.
var paper = map[string]float64{"non-steal": 1.6, "steal": 1.7}

// speedup shows throughput against flat's: the ratio of mean completions, seed by seed.
func speedup(rs []bench.Result, nodes []string) bench.Picture {
	p := bench.Picture{X: "nodes", Y: "throughput over flat's (ratio)", Groups: nodes, Joined: true,
		Legend: []bench.Key{{Name: "the paper's 1.6 and 1.7 at 32 nodes", Kind: "dashed"}}}
	p.Series = series(algorithms[1:], nodes, func(a, n string) bench.Mark {
		ratio, bound := bench.Ratio(rs, "mean_s", at("flat", n), at(a, n))
		m := bench.Mark{Middle: ratio, Note: sign(ratio.N > 0 || bound == 0, &p)}
		if n == "32" {
			m.Limit = paper[a]
		}
		return m
	})
	return p
}

// phaseSplit shows how long the two phases took.
func phaseSplit(rs []bench.Result, nodes []string) bench.Picture {
	p := bench.Picture{X: "nodes", Y: "time of a phase, mean of the nodes (s)", Groups: nodes,
		Legend: []bench.Key{{Name: "phase 1: from the store", Kind: "full"}, {Name: "phase 2: from peers", Kind: "pale"}}}
	p.Series = series(algorithms, nodes, func(a, n string) bench.Mark {
		first, counted := bench.Of(rs, at(a, n), "phase1_s")
		second, _ := bench.Of(rs, at(a, n), "phase2_s")
		return bench.Mark{Stack: []float64{first.Median, second.Median}, Note: sign(counted, &p)}
	})
	return p
}

// speedups is the table of ratios to flat.
func speedups(rs []bench.Result, nodes []string) string {
	var b bytes.Buffer
	b.WriteString("| nodes | non-steal: mean | steal: mean | non-steal: makespan | steal: makespan |\n| --- | --- | --- | --- | --- |\n")
	for _, n := range nodes {
		fmt.Fprintf(&b, "| %s |", n)
		for _, number := range []string{"mean_s", "makespan_s"} {
			for _, a := range algorithms[1:] {
				s, _ := bench.Ratio(rs, number, at("flat", n), at(a, n))
				if s.N == 0 {
					b.WriteString(" – |")
					continue
				}
				fmt.Fprintf(&b, " %.2f (%.2f–%.2f) |", s.Median, s.Min, s.Max)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// beside is the paper's figures and ours, rates without our factor on them.
func beside(rs []bench.Result, nodes []string, scale float64) string {
	var b bytes.Buffer
	b.WriteString("| | the paper | ours, by number of nodes |\n| --- | --- | --- |\n")
	row := func(what, theirs string, digits int, unit string, ours func(n string) bench.Span) {
		var said []string
		for _, n := range nodes {
			if s := ours(n); s.N > 0 {
				said = append(said, fmt.Sprintf("%s: %.*f%s", n, digits, s.Median, unit))
			}
		}
		if len(said) == 0 {
			said = []string{"–"} // nothing, or nothing that counts
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", what, theirs, strings.Join(said, ", "))
	}
	of := func(algorithm, number string) func(string) bench.Span {
		return func(n string) bench.Span {
			s, counted := bench.Of(rs, at(algorithm, n), number)
			if !counted {
				return bench.Span{}
			}
			return s
		}
	}
	for _, a := range algorithms[1:] {
		row("mean completion of flat over that of "+a, fmt.Sprintf("%.1f at 32 nodes", paper[a]), 2, "", func(n string) bench.Span {
			s, _ := bench.Ratio(rs, "mean_s", at("flat", n), at(a, n))
			return s
		})
	}
	rate := func(number string) func(string) bench.Span {
		return func(n string) bench.Span {
			s := of("steal", number)(n)
			s.Median /= scale
			return s
		}
	}
	by := ""
	if scale != 1 {
		by = fmt.Sprintf(" (÷ %g)", scale)
	}
	row("phase 1, a node, with steal"+by, "4–5 MB/s at 4 and 8 nodes, 3–4 MB/s at 16 and 32", 1, " MB/s", rate("phase1_mbps"))
	row("phase 2, a node, with steal"+by, "about 10 MB/s", 1, " MB/s", rate("phase2_mbps"))
	row("phase 2's part of the time with steal", "about 90 % at 16 and 32 nodes", 0, " %", of("steal", "phase2_percent"))
	return b.String()
}

// checked is what iperf3 found of a link, in a sentence.
func checked(rs []bench.Result) string {
	var v []float64
	for _, r := range rs {
		if x, ok := r.Numbers["iperf3_mbps"]; ok {
			v = append(v, x/r.Numbers["link_mbps"])
		}
	}
	s := bench.SpanOf(v)
	return fmt.Sprintf("%.1f %% of that (%.1f–%.1f %%)", 100*s.Median, 100*s.Min, 100*s.Max)
}

var page = template.Must(template.New("README.md").Parse(`# Broadcast from an object store, as the paper measured it

*Made by ` + "`go run ./bench/broadcast report`" + ` from [results.jsonl](results.jsonl); do not edit.*

The experiment of Chiba, Kielmann, den Burger and Matsuoka (IPSJ Trans. ACS, 2010, section 5) in a laboratory of network
namespaces on one machine: an object of {{.Size}} leaves a store and arrives on {{.Nodes}} nodes, each a process on a host of its own.
Rates are the paper's × {{.Scale}}{{if .ForTwo}}: with × 0.8, 32 nodes keep two processors 93 to 95 % busy, and a run like that tells of the machine{{end}}.

## Claims

{{.Claims}}
A verdict takes at least {{.Enough}} runs that count at each point. A run in which the processors were busy for more than {{.Bound}} % of the
time is cpu-bound, and counts neither as met nor as missed. Ratios are taken seed by seed, and the median counts.

## Beside the paper

{{.Paper}}
The paper had 1 GB and EC2's network. Ours are medians of the runs that count{{if ne .Scale "1"}}; rates are divided by the factor that they were
measured with, {{.Scale}}{{end}}.

## Completion

![From the fastest node to the slowest, their mean, and the lower bound](completion.svg)

Bars reach from the fastest node to the slowest, at the median of the runs. The lower bound is that of the rates that were set.

## Throughput against flat

![Mean completion of flat over that of the others](speedup.svg)

How many times as fast as flat, median (least–most) over the seeds:

{{.Speedups}}
## The two phases

![How long the two phases took](phases.svg)

## All numbers

Medians over the seeds (least–most). † All runs of this point are cpu-bound.

{{.Table}}
## How it was made

{{.Made}}{{if .LeftOut}}- {{.LeftOut}} runs of another size or scale are in the file and not here.
{{end}}
Three caps are told apart:

- **Per connection.** What the store gives a connection is drawn when it is opened: {{.Drawn}}.
  The store is started anew for each run, so connections are new and drawn from the run's seed; the three algorithms meet the same draws.
- **Per client.** A node's own link carries {{.Wire}} on the wire in each direction, with a buffer of {{.Buffer}}: {{.Link}} of payload (× 1448/1514). r_i of the bound
  is the lesser of its connection's rate and that. iperf3, run between two nodes before each run, reached {{.Checked}}.
- **Total.** The store and its link have no limit of their own.

The lower bound is max(F / min d, F / Σ r, N·F / (Σ r + Σ u)) with these rates as they were set, never with what was reached. The clock runs
from when the control plane accepted the job to when a node's file is synced, has its name, and its directory is synced. Files lie in memory. Phase 1 is a node's time until it may take
pieces from peers, which is when every piece has left the store; the rate of phase 1 is that of the node's own reading, without its wait for the others.
`))
