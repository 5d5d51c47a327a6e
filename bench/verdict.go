package bench

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Span is what the runs of one point gave for one number.
type Span struct {
	Min, Median, Max float64
	N                int // runs
}

// SpanOf is the span of values; without any it is zero.
func SpanOf(values []float64) Span {
	n := len(values)
	if n == 0 {
		return Span{}
	}
	v := slices.Sorted(slices.Values(values))
	return Span{Min: v[0], Median: (v[(n-1)/2] + v[n/2]) / 2, Max: v[n-1], N: n}
}

// Point is the runs that differ in nothing but the seed. Params may be a part
// of a cell's; it takes in all cells that have it.
type Point struct {
	Algorithm string
	Params    Params
}

// At are the results of a point.
func At(rs []Result, p Point) (out []Result) {
	for _, r := range rs {
		if r.Algorithm == p.Algorithm && p.Params.in(r.Params) {
			out = append(out, r)
		}
	}
	return out
}

// Of is the span of a number over the runs of a point that count; where all of
// them are cpu-bound, over those, and counted is false.
func Of(rs []Result, p Point, number string) (s Span, counted bool) {
	var good, bound []float64
	for _, r := range At(rs, p) {
		v, ok := r.Numbers[number]
		switch {
		case !ok || r.Error != "":
		case r.CPUBound():
			bound = append(bound, v)
		default:
			good = append(good, v)
		}
	}
	if len(good) == 0 && len(bound) > 0 {
		return SpanOf(bound), false
	}
	return SpanOf(good), true
}

// Claim is something that the results must show.
type Claim struct {
	Name   string
	Number func(*Evidence) float64
	Wanted Wanted
	Busy   bool // it must hold also where a run is cpu-bound: a busy machine is slow, and no excuse for taking much memory
}

// Wanted is a limit for a number.
type Wanted struct {
	sign  string
	limit float64
}

// AtLeast, AtMost and Below are the limits there are.
func AtLeast(v float64) Wanted { return Wanted{"≥", v} }
func AtMost(v float64) Wanted  { return Wanted{"≤", v} }
func Below(v float64) Wanted   { return Wanted{"<", v} }

// String is "≥ 1.6".
func (w Wanted) String() string { return w.sign + " " + strconv.FormatFloat(w.limit, 'f', -1, 64) }

func (w Wanted) met(v float64) bool {
	switch w.sign {
	case "≥":
		return v >= w.limit
	case "≤":
		return v <= w.limit
	}
	return v < w.limit
}

// Ratio is the span of a number at a over the same number at b, seed by seed:
// where both runs count. bound is how many pairs do not because the processors
// were busy in one of them.
func Ratio(rs []Result, number string, a, b Point) (s Span, bound int) {
	under := map[uint64]Result{}
	for _, r := range At(rs, b) {
		if v := r.Numbers[number]; r.Error == "" && v > 0 {
			under[r.Seed] = r
		}
	}
	var v []float64
	for _, r := range At(rs, a) {
		u, ok := under[r.Seed]
		x, has := r.Numbers[number]
		switch {
		case !ok || !has || r.Error != "":
		case r.CPUBound() || u.CPUBound():
			bound++
		default:
			v = append(v, x/u.Numbers[number])
		}
	}
	return SpanOf(v), bound
}

// Evidence hands a claim its numbers, and notes whether they are good enough.
type Evidence struct {
	rs    []Result
	fewer int // the fewest runs that count of any point asked for
	bound int // cpu-bound runs of that point
}

// Span is the span of a number at a point over the runs that count.
func (e *Evidence) Span(p Point, number string) Span {
	var v []float64
	bound := 0
	for _, r := range At(e.rs, p) {
		if x, ok := r.Numbers[number]; ok && r.counts() {
			v = append(v, x)
		} else if ok && r.Error == "" {
			bound++
		}
	}
	e.note(len(v), bound)
	return SpanOf(v)
}

// Ratio is the span of a number at a over the same number at b, seed by seed.
func (e *Evidence) Ratio(number string, a, b Point) Span {
	s, bound := Ratio(e.rs, number, a, b)
	e.note(s.N, bound)
	return s
}

func (e *Evidence) note(good, bound int) {
	if good < e.fewer {
		e.fewer, e.bound = good, bound
	}
}

// Verdict is what became of a claim.
type Verdict struct {
	Claim
	Value  float64
	Said   string // "met", "missed", "cpu-bound", "too few runs" or "not measured"
	Fewest int    // runs that count of the point that has the fewest
}

// Verdicts judges all claims of a suite.
func (s Suite) Verdicts(rs []Result) (out []Verdict) {
	for _, c := range s.Claims {
		e := &Evidence{rs: s.own(rs), fewer: math.MaxInt}
		if c.Busy {
			for i := range e.rs { // own has copied them
				e.rs[i].Busy = 0
			}
		}
		v := Verdict{Claim: c, Value: c.Number(e), Fewest: e.fewer}
		switch {
		case e.fewer < Enough && e.fewer+e.bound >= Enough:
			v.Said = "cpu-bound"
		case e.fewer+e.bound == 0:
			v.Said = "not measured"
		case e.fewer < Enough:
			v.Said = "too few runs"
		case c.Wanted.met(v.Value):
			v.Said = "met"
		default:
			v.Said = "missed"
		}
		out = append(out, v)
	}
	return out
}

// own are the results of s's cells, whatever their seeds.
func (s Suite) own(rs []Result) (out []Result) {
	for _, r := range rs {
		if r.Suite == s.Name {
			out = append(out, r)
		}
	}
	return out
}

// VerdictTable is the claims in Markdown.
func (s Suite) VerdictTable(rs []Result) string {
	var b strings.Builder
	b.WriteString("| claim | wanted | measured | verdict |\n| --- | --- | --- | --- |\n")
	for _, v := range s.Verdicts(rs) {
		value := "–"
		if v.Fewest > 0 && !math.IsNaN(v.Value) && !math.IsInf(v.Value, 0) {
			value = strconv.FormatFloat(v.Value, 'f', 3, 64)
		}
		said := v.Said
		if said == "too few runs" {
			said = fmt.Sprintf("too few runs (%d of %d)", v.Fewest, Enough)
		}
		fmt.Fprintf(&b, "| %s | %v | %s | %s |\n", v.Name, v.Wanted, value, said)
	}
	return b.String() + s.mixed(rs)
}

// mixed warns of a table that has results of more than one commit.
func (s Suite) mixed(rs []Result) string {
	var commits []string
	for _, r := range s.own(rs) {
		if r.Error == "" && !slices.Contains(commits, r.Commit) {
			commits = append(commits, r.Commit)
		}
	}
	if len(commits) < 2 {
		return ""
	}
	return fmt.Sprintf("\n**These are results of %d commits, of which one may be faster than another: %s.**\n", len(commits), strings.Join(commits, ", "))
}

// Column is a number as the table shows it.
type Column struct {
	Number string // its name
	Title  string // with the unit
	Digits int    // after the point
}

// points are the points of results, in the order of the suite's cells; what
// the cells do not have comes after, by parameters.
func (s Suite) points(rs []Result) (out []Point) {
	place := map[string]int{}
	for _, c := range s.Cells {
		c.Seed = 0
		if k := key(s.Name, c); place[k] == 0 {
			place[k] = len(place) + 1
		}
	}
	seen := map[string]bool{}
	rank := func(p Point) int {
		if n := place[key(s.Name, Cell{Params: p.Params, Algorithm: p.Algorithm})]; n > 0 {
			return n
		}
		return math.MaxInt
	}
	for _, r := range s.own(rs) {
		p := Point{r.Algorithm, r.Params}
		if k := key(s.Name, Cell{Params: p.Params, Algorithm: p.Algorithm}); !seen[k] {
			seen[k] = true
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b Point) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Params.String(), b.Params.String()))
	})
	return out
}

// Table is the results in Markdown, one row a point: medians, and behind them
// the least and the most. by names the parameters that make the first columns.
func (s Suite) Table(rs []Result, by ...string) string {
	var b strings.Builder
	titles := slices.Clone(by)
	titles = append(titles, "algorithm")
	for _, c := range s.Columns {
		titles = append(titles, c.Title)
	}
	load := Column{Title: "processors busy (%)"}
	titles = append(titles, load.Title, "runs")
	fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(titles, " | "), strings.Repeat(" --- |", len(titles)))
	for _, p := range s.points(rs) {
		var row []string
		for _, k := range by {
			row = append(row, p.Params[k])
		}
		row = append(row, p.Algorithm)
		for _, c := range s.Columns {
			span, counted := Of(s.own(rs), p, c.Number)
			row = append(row, c.show(span, counted))
		}
		var busy []float64 // also of runs that do not count: it is why
		for _, r := range At(s.own(rs), p) {
			if r.Error == "" {
				busy = append(busy, 100*r.Busy)
			}
		}
		row = append(row, load.show(SpanOf(busy), true), tally(At(s.own(rs), p)))
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	return b.String() + s.mixed(rs)
}

func (c Column) show(s Span, counted bool) string {
	if s.N == 0 {
		return "–"
	}
	f := func(v float64) string { return strconv.FormatFloat(v, 'f', c.Digits, 64) }
	out := f(s.Median)
	if lo, hi := f(s.Min), f(s.Max); lo != hi {
		out += " (" + lo + "–" + hi + ")"
	}
	if !counted {
		out += " †"
	}
	return out
}

// tally says what became of the runs of a point: "10", "7, 3 cpu-bound".
func tally(rs []Result) string {
	var good, bound, failed int
	for _, r := range rs {
		switch {
		case r.Error != "":
			failed++
		case r.CPUBound():
			bound++
		default:
			good++
		}
	}
	out := strconv.Itoa(good)
	if bound > 0 {
		out += fmt.Sprintf(", %d cpu-bound", bound)
	}
	if failed > 0 {
		out += fmt.Sprintf(", %d failed", failed)
	}
	return out
}

// Made says in Markdown how results came about: commands, commits, machines,
// seeds, processors' load, and what ran beside what.
func (s Suite) Made(rs []Result) string {
	var commands, commits, machines, seeds []string
	var busy []float64
	add := func(list *[]string, v string) {
		if !slices.Contains(*list, v) {
			*list = append(*list, v)
		}
	}
	rs = s.own(rs)
	for _, r := range rs {
		add(&commands, "`"+r.Command+"`")
		add(&commits, r.Commit)
		add(&machines, fmt.Sprintf("%d cores of %s, %v of memory, Linux %s", r.Machine.Cores, cmp.Or(r.Machine.CPU, "an unnamed processor"), r.Machine.Memory, r.Machine.Kernel))
		add(&seeds, strconv.FormatUint(r.Seed, 10))
		busy = append(busy, r.Busy)
	}
	if len(rs) == 0 {
		return "Nothing has been measured yet.\n"
	}
	load := SpanOf(busy)
	return fmt.Sprintf("- command: %s\n- commit: %s\n- machine: %s; busy at %.0f %% (%.0f–%.0f %%)\n- seeds: %s\n- schedule: %s\n",
		strings.Join(commands, ", "), strings.Join(commits, ", "), strings.Join(machines, "; "),
		100*load.Median, 100*load.Min, 100*load.Max, strings.Join(seeds, ", "), schedule(rs))
}

// mostTold is of how many points at most a page says which had the machine to themselves.
const mostTold = 36

// schedule says which runs had the machine to themselves.
func schedule(rs []Result) string {
	type tally struct {
		of           string
		beside, runs int
	}
	var points []*tally
	beside, most := 0, 0
	for _, r := range rs {
		of := differing(rs, r.Params).String()
		i := slices.IndexFunc(points, func(p *tally) bool { return p.of == of })
		if i < 0 {
			i, points = len(points), append(points, &tally{of: of})
		}
		points[i].runs++
		if r.Beside > 0 {
			beside++
			points[i].beside++
			most = max(most, r.Beside)
		}
	}
	if beside == 0 {
		return "one run at a time"
	}
	out := fmt.Sprintf("%d of %d runs were measured beside others on the same machine, up to %d at once; processor use is that of all of them together", beside, len(rs), most+1)
	if len(points) > 1 && len(points) <= mostTold {
		var of []string
		for _, p := range points {
			of = append(of, fmt.Sprintf("%s: %d of %d", p.of, p.beside, p.runs))
		}
		out += " (" + strings.Join(of, ", ") + ")"
	}
	return out
}

// differing is what of p is not the same in all results.
func differing(rs []Result, p Params) Params {
	out := Params{}
	for k, v := range p {
		if slices.ContainsFunc(rs, func(r Result) bool { return r.Params[k] != v }) {
			out[k] = v
		}
	}
	return out
}
