package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/planner"
)

// claims are what the problems on these networks must show. Processors that are busy do not change a plan.
func claims(kinds []string) (all []bench.Claim) {
	add := func(name string, wanted bench.Wanted, number func(e *bench.Evidence) float64) {
		all = append(all, bench.Claim{Name: name, Number: number, Wanted: wanted, Busy: true})
	}
	for _, kind := range kinds {
		at := bench.Point{Params: bench.Params{"network": kind}}
		tree := kind != "fattree"
		if tree {
			add(kind+": optimal without a floor, of the bound, the least of all problems", bench.AtLeast(0.99), func(e *bench.Evidence) float64 { return e.Span(at, "of bound, "+planner.Optimal).Min })
			add(kind+": optimal with floor 0.5, of the bound with it, the least of all problems", bench.AtLeast(0.99), func(e *bench.Evidence) float64 { return e.Span(at, "floored of bound").Min })
		}
		add(kind+": the least rate with floor 0.5, of the floor, the least of all problems", bench.AtLeast(0.9999), func(e *bench.Evidence) float64 { return e.Span(at, "least rate of floor").Min })
		add(kind+": paper over flat, the median", bench.AtLeast(1), func(e *bench.Evidence) float64 { return e.Span(at, planner.Paper).Median })
		add(kind+": pipeline over random, the median", bench.AtLeast(1), func(e *bench.Evidence) float64 { return e.Span(at, "pipeline of random").Median })
		add(kind+": paper over pipeline, the least of all problems", bench.AtLeast(0.999), func(e *bench.Evidence) float64 { return e.Span(at, "paper of pipeline").Min })
	}
	return all
}

// write makes README.md and pictures from the results alone, and says which claim is missed.
func write(out string) error {
	rs, err := bench.Read(results(out))
	if err != nil {
		return err
	}
	rs = slices.DeleteFunc(rs, func(r bench.Result) bool { return r.Error != "" })
	if len(rs) == 0 {
		return fmt.Errorf("%s has no results; run first", results(out))
	}
	var kinds []string
	for _, r := range rs {
		if k := r.Params["network"]; !slices.Contains(kinds, k) {
			kinds = append(kinds, k)
		}
	}
	slices.SortStableFunc(kinds, func(a, b string) int { return cmp.Compare(slices.Index(networks, a), slices.Index(networks, b)) })
	s := bench.Suite{Name: "planner", Claims: claims(kinds)}
	if err := pictures(rs, kinds, out); err != nil {
		return err
	}
	if err := s.Publish(out, rs, page, map[string]any{
		"Summary": summary(rs, kinds), "Paper": beside(rs, kinds), "Bounds": bounds(rs, kinds), "Times": times(rs, kinds),
		"Conditions": byCondition(rs, kinds), "Hosts": hosts, "Draws": draws,
	}); err != nil {
		return err
	}
	return s.Missed(rs)
}

// means are the means of a number over the problems of each condition on a network, in the order of conditions; those
// without results are left out.
func means(rs []bench.Result, kind, number string) (of []float64, at []condition) {
	for _, c := range conditions() {
		sum, n := 0.0, 0
		for _, r := range bench.At(rs, bench.Point{Params: c.on(kind)}) {
			if v, ok := r.Numbers[number]; ok {
				sum += v
				n++
			}
		}
		if n > 0 {
			of, at = append(of, sum/float64(n)), append(at, c)
		}
	}
	return of, at
}

func mean(vs []float64) float64 {
	sum := 0.0
	for _, v := range vs {
		sum += v
	}
	return sum / float64(max(1, len(vs)))
}

func number(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }

// summary is the throughput of each planner over that of flat: mean and most over conditions.
func summary(rs []bench.Result, kinds []string) string {
	var b strings.Builder
	b.WriteString("| network |")
	for _, m := range modes {
		b.WriteString(" " + m + " |")
	}
	b.WriteString(" paper worse than flat in |\n|" + strings.Repeat(" --- |", len(modes)+2) + "\n")
	for _, kind := range kinds {
		b.WriteString("| " + kind + " |")
		for _, m := range modes {
			if of, _ := means(rs, kind, m); len(of) > 0 {
				fmt.Fprintf(&b, " %s / %s |", number(mean(of), 2), number(slices.Max(of), 2))
			} else {
				b.WriteString(" – |")
			}
		}
		of, at := means(rs, kind, planner.Paper)
		worse := 0
		var where []string
		for i, v := range of {
			if v < 1 {
				worse++
				where = append(where, fmt.Sprintf("S%d D%d T%d", at[i].sources, at[i].destinations, at[i].transfers))
			}
		}
		said := fmt.Sprintf("%d of %d", worse, len(of))
		if len(where) > 0 && len(where) <= 4 {
			said += ": " + strings.Join(where, ", ")
		}
		fmt.Fprintf(&b, " %s |\n", said)
	}
	return b.String()
}

// beside sets what the paper printed beside ours.
func beside(rs []bench.Result, kinds []string) string {
	over := func(kind, a, b string) string {
		of, at := means(rs, kind, a)
		under, _ := means(rs, kind, b)
		if len(of) == 0 || b != "" && len(under) != len(of) {
			return "–"
		}
		best := 0
		ratios := slices.Clone(of)
		for i := range of {
			if b != "" {
				ratios[i] /= under[i]
			}
			if ratios[i] > ratios[best] {
				best = i
			}
		}
		return fmt.Sprintf("%s, at most %s (S%d D%d T%d)", number(mean(ratios), 2), number(ratios[best], 2), at[best].sources, at[best].destinations, at[best].transfers)
	}
	var t strings.Builder
	t.WriteString("| | the paper |")
	for _, kind := range kinds {
		t.WriteString(" " + kind + " |")
	}
	t.WriteString("\n|" + strings.Repeat(" --- |", len(kinds)+2) + "\n")
	for _, row := range []struct{ name, paper, a, b string }{
		{"paper's over flat", "1.7, at most 2.9", planner.Paper, ""},
		{"paper's over random", "1.3, at most 1.7", planner.Paper, planner.Random},
		{"optimal over paper's", "", planner.Optimal, planner.Paper},
	} {
		fmt.Fprintf(&t, "| %s | %s |", row.name, cmp.Or(row.paper, "–"))
		for _, kind := range kinds {
			t.WriteString(" " + over(kind, row.a, row.b) + " |")
		}
		t.WriteString("\n")
	}
	return t.String()
}

// bounds is how near to the bound the planners come.
func bounds(rs []bench.Result, kinds []string) string {
	var b strings.Builder
	b.WriteString("| network |")
	rows := append([]string{planner.Flat}, modes...)
	for _, m := range rows {
		b.WriteString(" " + m + " |")
	}
	b.WriteString(" floor 0.5, of its bound | floor 0.5, of the free bound |\n|" + strings.Repeat(" --- |", len(rows)+3) + "\n")
	for _, kind := range kinds {
		b.WriteString("| " + kind + " |")
		for _, name := range rows {
			b.WriteString(" " + meanAndLeast(rs, kind, "of bound, "+name) + " |")
		}
		fmt.Fprintf(&b, " %s | %s |\n", meanAndLeast(rs, kind, "floored of bound"), meanAndLeast(rs, kind, "floored of free"))
	}
	return b.String()
}

func meanAndLeast(rs []bench.Result, kind, name string) string {
	of, _ := means(rs, kind, name)
	if len(of) == 0 {
		return "–"
	}
	return number(mean(of), 3) + " (" + number(slices.Min(of), 3) + ")"
}

// times are seconds of processor time by transfers and destinations.
func times(rs []bench.Result, kinds []string) string {
	var b strings.Builder
	b.WriteString("| network | transfers | destinations | first plan (ms) | paper (s) | optimal (s) | with floor 0.5 (s) |\n|" + strings.Repeat(" --- |", 7) + "\n")
	for _, kind := range kinds {
		for _, t := range transferCounts {
			for _, d := range hostCounts {
				p := bench.Point{Params: bench.Params{"network": kind, "transfers": strconv.Itoa(t), "destinations": strconv.Itoa(d)}}
				span := func(name string, scale float64) string {
					var v []float64
					for _, r := range bench.At(rs, p) {
						if x, ok := r.Numbers[name]; ok {
							v = append(v, x*scale)
						}
					}
					if len(v) == 0 {
						return "–"
					}
					s := bench.SpanOf(v)
					return strconv.FormatFloat(s.Median, 'g', 2, 64) + " (" + strconv.FormatFloat(s.Max, 'g', 2, 64) + ")"
				}
				if len(bench.At(rs, p)) > 0 {
					fmt.Fprintf(&b, "| %s | %d | %d | %s | %s | %s | %s |\n", kind, t, d, span("first_s", 1000), span("paper_s", 1), span("optimal_s", 1), span("floored_s", 1))
				}
			}
		}
	}
	return b.String()
}

// byCondition are all numbers, network by network.
func byCondition(rs []bench.Result, kinds []string) string {
	var b strings.Builder
	for _, kind := range kinds {
		fmt.Fprintf(&b, "### %s\n\n| transfers | sources | destinations |", kind)
		for _, m := range modes {
			b.WriteString(" " + m + " |")
		}
		b.WriteString(" floor 0.5 | optimal, of the bound | floor 0.5, of its bound | problems |\n|" + strings.Repeat(" --- |", len(modes)+7) + "\n")
		for _, c := range conditions() {
			of := bench.At(rs, bench.Point{Params: c.on(kind)})
			if len(of) == 0 {
				continue
			}
			fmt.Fprintf(&b, "| %d | %d | %d |", c.transfers, c.sources, c.destinations)
			show := func(name string, digits int) {
				var v []float64
				for _, r := range of {
					if x, ok := r.Numbers[name]; ok {
						v = append(v, x)
					}
				}
				if len(v) == 0 {
					b.WriteString(" – |")
					return
				}
				b.WriteString(" " + number(mean(v), digits) + " |")
			}
			for _, m := range modes {
				show(m, 2)
			}
			show("floored", 2)
			show("of bound, "+planner.Optimal, 4)
			show("floored of bound", 4)
			fmt.Fprintf(&b, " %d |\n", len(of))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// groups are the paper's Figs. 5 to 10.
var groups = []struct {
	file, title string
	in          func(c condition) bool
}{
	{"same.svg", "as many sources as destinations", func(c condition) bool { return c.sources == c.destinations }},
	{"more.svg", "more sources than destinations", func(c condition) bool { return c.sources > c.destinations }},
	{"fewer.svg", "fewer sources than destinations", func(c condition) bool { return c.sources < c.destinations }},
}

// pictures draws the paper's figures on the first network, and all networks beside each other.
func pictures(rs []bench.Result, kinds []string, out string) error {
	shown := []string{planner.Random, planner.Pipeline, planner.Paper, planner.Optimal}
	for _, g := range groups {
		p := bench.Picture{X: "transfers (" + g.title + ")", Y: "throughput (times flat's)", Joined: true}
		for _, t := range transferCounts {
			p.Groups = append(p.Groups, strconv.Itoa(t))
		}
		for _, m := range shown {
			s := bench.Series{Name: m}
			of, at := means(rs, kinds[0], m)
			for _, t := range transferCounts {
				var v []float64
				for i, c := range at {
					if c.transfers == t && g.in(c) {
						v = append(v, of[i])
					}
				}
				s.Marks = append(s.Marks, bench.Mark{Middle: bench.SpanOf(v)})
			}
			p.Series = append(p.Series, s)
		}
		if err := p.SVG(filepath.Join(out, g.file)); err != nil {
			return err
		}
	}
	p := bench.Picture{X: "network", Y: "throughput (times flat's)", Groups: kinds}
	for _, m := range shown {
		s := bench.Series{Name: m}
		for _, kind := range kinds {
			of, _ := means(rs, kind, m)
			s.Marks = append(s.Marks, bench.Mark{Middle: bench.SpanOf(of)})
		}
		p.Series = append(p.Series, s)
	}
	return p.SVG(filepath.Join(out, "networks.svg"))
}

var page = template.Must(template.New("README.md").Parse(`# Many transfers at once, planned in all ways

*Made by ` + "`go run ./bench/planner report`" + ` from [results.jsonl](results.jsonl); do not edit.*

The experiment of Takahashi, Taura and Chikayama ("A Data Transfer Scheduler Selecting Sources by Using Topology Information", section 6): transfers
from {5, 10, 50, 100}, sources and destinations of each from {5, 10, 50} of {{.Hosts}} hosts; links of 100 to 1000 Mbit. A problem is a network and transfers, drawn
from a seed. Throughput is the sum over all destinations of what arrives; numbers are times that of flat, where each destination takes from a source by
chance, directly. Flat and random draw {{.Draws}} times, and the mean counts. Rates are the linear program's for all.

| planner | what it does |
| --- | --- |
| random | from the source with the widest way, pipelines in an order by chance |
| pipeline | the paper's initial plan (section 5.1) |
| paper | that, and re-planned until nothing improves (section 5.3) |
| exact | the widest pipelines there are, each transfer by itself; on trees |
| single | one pipeline for each destination, rounded from the optimum |
| optimal | destinations take disjoint ranges from several pipelines |

## Claims

{{.Claims}}
A verdict takes at least {{.Enough}} problems. How busy the processors were does not matter here.

## Over flat

Mean / most over the conditions, of the means over problems.

{{.Summary}}
![All networks](networks.svg)

Median over the conditions, and from the least to the most.

## Beside the paper

{{.Paper}}
The paper's network was the map of a real platform, which was not published; how many thin links between sites it had, we do not know. Where there are many, pipelines
gain more.

| the paper's figure | ours, on the first network above |
| --- | --- |
| 5, 6 | ![as many sources as destinations](same.svg) |
| 7, 8 | ![more sources than destinations](more.svg) |
| 9, 10 | ![fewer sources than destinations](fewer.svg) |

## Of the bound

Mean (least) over the conditions. On trees the bound is that of every plan there is, proved by column generation with exact pricing; so it is on a fat tree for 5 and 10
destinations, and for 50 it is that of arborescences, a relaxation, and optimal is not proved to be. A floor of 0.5 gives every pair of a transfer and a destination half of what all can have at once.

{{.Bounds}}
## Time

Processor time, median (most) over sources and problems. Optimal is until the bound is reached; the first plan is there before.

{{.Times}}
## All conditions

Means over problems, times flat's.

{{.Conditions}}
## How it was made

{{.Made}}`))
