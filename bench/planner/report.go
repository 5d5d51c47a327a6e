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

// claims are what the problems on these networks must show, in all conditions: where one of them has too few problems, there is no verdict.
// Processors that are busy do not change a plan.
func claims(rs []bench.Result, kinds []string) (all []bench.Claim) {
	for _, kind := range kinds {
		add := func(name string, wanted bench.Wanted, number string, value func(spans []bench.Span) float64) {
			all = append(all, bench.Claim{Name: kind + ": " + name, Wanted: wanted, Busy: true, Number: func(e *bench.Evidence) float64 {
				at := conditions()
				if !slices.Contains(trees, kind) { // some are cut off before they have the number
					_, at = means(rs, kind, number)
				}
				spans := []bench.Span{e.Span(bench.Point{Params: bench.Params{"network": kind}}, number)}
				for _, c := range at {
					spans = append(spans, e.Span(bench.Point{Params: c.on(kind)}, number))
				}
				return value(spans)
			}})
		}
		least := func(spans []bench.Span) float64 {
			return slices.MinFunc(spans, func(a, b bench.Span) int { return cmp.Compare(a.Min, b.Min) }).Min
		}
		if slices.Contains(trees, kind) { // what the paper's planner is made for, and where the bound is one that can be reached
			add("optimal without a floor, of the bound, the least of all problems", bench.AtLeast(0.99), "of bound, "+planner.Optimal, least)
			add("optimal with floor 0.5, of the bound with it, the least of all problems", bench.AtLeast(0.99), "floored of bound", least)
			add("the paper's order, flat, random, pipeline, paper: the least of each over the one before, means over conditions", bench.AtLeast(1), planner.Paper, func([]bench.Span) float64 {
				return inOrder(rs, kind)
			})
			all = append(all, bench.Claim{Name: kind + ": single, of the bound, the least of all problems of 50 transfers", Wanted: bench.AtLeast(0.84), Busy: true, Number: func(e *bench.Evidence) float64 {
				var spans []bench.Span
				for _, c := range conditions() {
					if c.transfers == 50 { // with fewer there is more that only several pipelines of a destination can use
						spans = append(spans, e.Span(bench.Point{Params: c.on(kind)}, "of bound, "+planner.Single))
					}
				}
				return least(spans)
			}})
		}
		add("paper over pipeline, the least of all problems", bench.AtLeast(0.999), "paper of pipeline", least)
		add("the least rate with floor 0.5, of the floor, the least of all problems", bench.AtLeast(0.9999), "least rate of floor", least)
	}
	return all
}

// inOrder is the least that a planner of the paper's has over the one before, in means over conditions.
func inOrder(rs []bench.Result, kind string) float64 {
	before, least := 1.0, 0.0
	for i, mode := range []string{planner.Random, planner.Pipeline, planner.Paper} {
		of, _ := means(rs, kind, mode)
		over := mean(of) / before
		if i == 0 || over < least {
			least = over
		}
		before = mean(of)
	}
	return least
}

// against are the conditions in which another planner of the paper's is better than its own.
func against(rs []bench.Result, kind string) (where []condition) {
	paper, at := means(rs, kind, planner.Paper)
	for i, c := range at {
		best := 1.0 // flat
		for _, mode := range []string{planner.Random, planner.Pipeline} {
			of, _ := means(rs, kind, mode) // of the same conditions
			best = max(best, of[i])
		}
		if paper[i] < best*(1-1e-6) {
			where = append(where, c)
		}
	}
	return where
}

// write makes README.md and pictures from the results alone, and says which claim is missed.
func write(out string) error {
	all, err := bench.ReadAny(results(out))
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(r bench.Result) bool { return r.Error != "" })
	of := func(suite string) (rs []bench.Result, kinds []string) {
		for _, r := range all {
			if r.Suite == suite {
				rs = append(rs, r)
				if k := r.Params["network"]; !slices.Contains(kinds, k) {
					kinds = append(kinds, k)
				}
			}
		}
		slices.SortStableFunc(kinds, func(a, b string) int { return cmp.Compare(slices.Index(networks, a), slices.Index(networks, b)) })
		return rs, kinds
	}
	rs, kinds := of(plansName)
	timed, _ := of(timesName)
	if len(rs)+len(timed) == 0 {
		return fmt.Errorf("%s has runs that failed and no others; run again", results(out))
	}
	if err := pictures(rs, kinds, out); err != nil {
		return err
	}
	plans := bench.Suite{Name: plansName, Claims: claims(rs, kinds)}
	times := bench.Suite{Name: timesName, Claims: timeClaims(timed)}
	if len(timed) > 0 {
		fmt.Println(times.VerdictTable(timed))
	}
	if err := plans.Publish(out, rs, page, map[string]any{
		"Summary": summary(rs, kinds), "Paper": beside(rs, kinds), "Bounds": bounds(rs, kinds), "Took": took(rs, kinds),
		"Conditions": byCondition(rs, kinds), "Hosts": hosts, "Draws": draws, "Patience": patience, "Figures": shown(), "Some": len(rs) > 0,
		"Timed": len(timed) > 0, "TimeClaims": times.VerdictTable(timed), "Times": timeTable(timed), "TimesMade": times.Made(timed), "Impatience": impatience,
	}); err != nil {
		return err
	}
	if err := plans.Missed(rs); err != nil {
		return err
	}
	return times.Missed(timed)
}

// means are the means of a number over the problems of each condition on a network, in the order of conditions; those
// without results are left out.
func means(rs []bench.Result, kind, number string) (of []float64, at []condition) {
	for _, c := range conditions() {
		if v := values(bench.At(rs, bench.Point{Params: c.on(kind)}), number); len(v) > 0 {
			of, at = append(of, mean(v)), append(at, c)
		}
	}
	return of, at
}

// values are a number of those results that have it.
func values(rs []bench.Result, number string) (vs []float64) {
	for _, r := range rs {
		if v, ok := r.Numbers[number]; ok {
			vs = append(vs, v)
		}
	}
	return vs
}

func mean(vs []float64) float64 { return sum(vs) / float64(max(1, len(vs))) }

func sum(vs []float64) (s float64) {
	for _, v := range vs {
		s += v
	}
	return s
}

// asking is how many problems asked the second solver.
func asking(rs []bench.Result) (n int) {
	for _, r := range rs {
		if r.Numbers["second solver asked"] > 0 {
			n++
		}
	}
	return n
}

func number(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }

// significant are two digits that say something, and more before the point.
func significant(v float64) string {
	if v >= 100 {
		return number(v, 0)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// summary is the throughput of each planner over that of flat: mean and most over conditions.
func summary(rs []bench.Result, kinds []string) string {
	var b strings.Builder
	b.WriteString("| network |")
	for _, m := range modes {
		b.WriteString(" " + m + " |")
	}
	b.WriteString(" paper worse than flat in | problems |\n|" + strings.Repeat(" --- |", len(modes)+3) + "\n")
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
		var worse []string
		for i, c := range at {
			if of[i] < 1 {
				worse = append(worse, fmt.Sprintf("S%d D%d T%d", c.sources, c.destinations, c.transfers))
			}
		}
		said := fmt.Sprintf("%d of %d", len(worse), len(of))
		if len(worse) > 0 && len(worse) <= 4 {
			said += ": " + strings.Join(worse, ", ")
		}
		fmt.Fprintf(&b, " %s | %d |\n", said, len(bench.At(rs, bench.Point{Params: bench.Params{"network": kind}})))
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
	t.WriteString("| conditions in which the paper's is not the best of its four | 2 of 36 |")
	for _, kind := range kinds {
		of, _ := means(rs, kind, planner.Paper)
		fmt.Fprintf(&t, " %d of %d |", len(against(rs, kind)), len(of))
	}
	t.WriteString("\n")
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
	b.WriteString(" floor 0.5, of its bound | floor 0.5, of the free bound | problems cut off: optimal, floor 0.5 | that asked the second solver |\n|" + strings.Repeat(" --- |", len(rows)+5) + "\n")
	for _, kind := range kinds {
		b.WriteString("| " + kind + " |")
		for _, name := range rows {
			b.WriteString(" " + meanAndLeast(rs, kind, "of bound, "+name) + " |")
		}
		of := bench.At(rs, bench.Point{Params: bench.Params{"network": kind}})
		fmt.Fprintf(&b, " %s | %s | %g, %g of %d | %d |\n", meanAndLeast(rs, kind, "floored of bound"), meanAndLeast(rs, kind, "floored of free"),
			sum(values(of, "cut off, "+planner.Optimal)), sum(values(of, "cut off, floored")), len(of), asking(of))
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

// took are seconds of processor time by transfers and destinations.
func took(rs []bench.Result, kinds []string) string {
	var b strings.Builder
	b.WriteString("| network | transfers | destinations | first plan (ms) | paper (s) | optimal (s) | with floor 0.5 (s) |\n|" + strings.Repeat(" --- |", 7) + "\n")
	for _, kind := range kinds {
		for _, t := range transferCounts {
			for _, d := range hostCounts {
				p := bench.Point{Params: bench.Params{"network": kind, "transfers": strconv.Itoa(t), "destinations": strconv.Itoa(d)}}
				of := bench.At(rs, p)
				span := func(name string, scale float64) string {
					s := bench.SpanOf(values(of, name))
					if s.N == 0 {
						return "–"
					}
					return significant(s.Median*scale) + " (" + significant(s.Max*scale) + ")"
				}
				if len(of) > 0 {
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
		b.WriteString(" floor 0.5 | optimal, of the bound | floor 0.5, of its bound | of the free bound | problems |\n|" + strings.Repeat(" --- |", len(modes)+8) + "\n")
		for _, c := range conditions() {
			of := bench.At(rs, bench.Point{Params: c.on(kind)})
			if len(of) == 0 {
				continue
			}
			fmt.Fprintf(&b, "| %d | %d | %d |", c.transfers, c.sources, c.destinations)
			show := func(name string, digits int) {
				v := values(of, name)
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
			show("floored of free", 4)
			said := strconv.Itoa(len(of))
			if free, floored := sum(values(of, "cut off, "+planner.Optimal)), sum(values(of, "cut off, floored")); free+floored > 0 {
				said += fmt.Sprintf(", cut off %g, %g", free, floored)
			}
			fmt.Fprintf(&b, " %s |\n", said)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// shown are the figures in Markdown.
func shown() string {
	var b strings.Builder
	for _, f := range figures {
		fmt.Fprintf(&b, "### The paper's figures %s: %s\n\n![Throughput by number of transfers](%s)\n\n", f.number, f.title, f.file)
	}
	return b.String()
}

// pictures draws the paper's figures, and all networks beside each other.
func pictures(rs []bench.Result, kinds []string, out string) error {
	if len(rs) == 0 {
		return nil
	}
	for _, f := range figures {
		if err := figure(rs, kinds, f.in).SVG(filepath.Join(out, f.file)); err != nil {
			return err
		}
	}
	p := bench.Picture{X: "network", Y: "throughput (times flat's)", Groups: kinds}
	for _, mode := range drawn {
		s := bench.Series{Name: mode}
		for _, kind := range kinds {
			of, _ := means(rs, kind, mode)
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
| single | one pipeline for each destination, rounded from the optimum, unless that was cut off |
| optimal | destinations take disjoint ranges from several pipelines |
{{if .Some}}
## Claims

{{.Claims}}
A verdict takes at least {{.Enough}} problems of each of the 36 conditions, or of those that the claim is about. How busy the processors were does not matter here.

## Over flat

Mean / most over the conditions, of the means over problems.

{{.Summary}}
![All networks](networks.svg)

Median over the conditions, and from the least to the most.

## Beside the paper

{{.Paper}}
The paper's network was the map of a real platform, a tree, which was not published; how many thin links between sites it had, we do not know. Where there are many, pipelines
gain more. Its four planners are flat, random, pipeline and paper. On a fat tree, where data follows routes, its growth is over these instead of links.

{{.Figures}}## Of the bound

Mean (least) over the conditions. On trees the bound is that of every plan there is, proved by column generation with exact pricing; so it is on a fat tree for 5 and 10
destinations, and for 50 it is that of arborescences, a relaxation, and optimal is not proved to be. A floor of 0.5 gives every pair of a transfer and a destination half of what all can have at once;
of the free bound it has what is left after the price of that. Optimal is cut off after {{.Patience}} of processor time: plans that were still getting better count as they were then, and the floor, which takes longer still, is left out there; where it is not, it is cut off in the same way. Where our solver has no good answer to a linear program, HiGHS is asked, as in freshet plan.

{{.Bounds}}
## Time

Processor time, median (most) over sources and problems. Optimal is until nothing is to be gained any more; the first plan is there before.

{{.Took}}{{end}}{{if .Timed}}
## With a clock

On one core, in a process that has planned before: processor time from a topology in memory, without transfers, until there is a first plan; until there is a good one, which is *proved* to have 0.99 of its
bound, 0.95 beyond 400 hosts, and to give everybody the floor; and until there is nothing more to gain, or it is cut off, after {{.Impatience}}. Changes are a transfer that goes, one that comes, and the fullest
link at half its rate; that plan holds the floor, too. Memory is the most that the process held. Times are medians (most) over problems. † The processors were busy for more than {{.Bound}} % of the time.

{{.TimeClaims}}
Each is the most of all problems.

{{.Times}}{{end}}{{if .Some}}
## All conditions

Means over problems, times flat's.

{{.Conditions}}{{end}}
## How it was made
{{if .Some}}
{{.Made}}{{end}}{{if .Timed}}
With a clock:

{{.TimesMade}}{{end}}`))
