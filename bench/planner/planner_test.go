package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/bench/benchtest"
)

// TestPlan: one small problem of each kind from end to end. What a problem has is the same each time.
func TestPlan(t *testing.T) {
	for _, kind := range networks {
		c := bench.Cell{Params: condition{5, 10, 5}.on(kind), Seed: 1}
		got, err := plan(t.Context(), &c)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"random", "pipeline", "paper", "single", "optimal", "floored", "of bound, flat"} {
			if !(got[name] > 0) {
				t.Errorf("%s: %s is %v", kind, name, got[name])
			}
		}
		if got["paper of pipeline"] < 0.999 || got["optimal"] < got["paper"]*0.999 || got["optimal"] < got["floored"]*0.999 || got["least rate of floor"] < 0.999 {
			t.Errorf("%s: %v", kind, got)
		}
		if kind == "star" && got["paper of pipeline"] < 1.1 { // planning anew gains something here, not only loses nothing
			t.Errorf("%s: paper has %v of pipeline", kind, got["paper of pipeline"])
		}
		if _, ok := got["exact"]; ok != (kind != "fattree") {
			t.Errorf("%s: exact is there: %v", kind, ok)
		}
		if kind != "fattree" && (got["of bound, optimal"] < 0.99 || got["floored of bound"] < 0.99) {
			t.Errorf("%s: %v", kind, got)
		}
		for _, name := range []string{"of bound, optimal", "of bound, paper", "floored of bound", "floored of free"} {
			if got[name] > 1+1e-6 {
				t.Errorf("%s: %s is %v", kind, name, got[name])
			}
		}
		for _, name := range []string{"cut off, optimal", "cut off, floored"} {
			if v, ok := got[name]; !ok || v != 0 {
				t.Errorf("%s: %s is %v, there: %v", kind, name, v, ok)
			}
		}
	}
}

// TestPatience: a problem that takes too long has the plan that there is by then, and says so in the results and on the page.
func TestPatience(t *testing.T) {
	dir := t.TempDir()
	s := bench.Suite{Name: plansName, Cells: []bench.Cell{{Params: condition{10, 5, 10}.on("deep"), Seed: 1}}, Case: func(ctx context.Context, c *bench.Cell) (map[string]float64, error) {
		return planWithin(ctx, c, 1) // a step is made in any case
	}}
	if err := s.Run(t.Context(), bench.Options{File: results(dir), Log: io.Discard}); err != nil {
		t.Fatal(err)
	}
	rs, err := bench.Read(results(dir))
	if err != nil {
		t.Fatal(err)
	}
	for name, note := range map[string]string{"optimal": "cut off after", "floored": "left out"} {
		if _, ok := rs[0].Numbers[name]; rs[0].Numbers["cut off, "+name] != 1 || !strings.Contains(rs[0].Notes[name], note) || ok != (name == "optimal") {
			t.Errorf("%s: %v, note %q", name, rs[0].Numbers, rs[0].Notes[name])
		}
	}
	if rs[0].Numbers["of bound, optimal"] > 1 {
		t.Errorf("%v", rs[0].Numbers)
	}
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	if page := read(t, dir); !strings.Contains(page, "| 1, 1 of 1 | 0 |") || !strings.Contains(page, "| 1, cut off 1, 1 |") {
		t.Errorf("the page hides what was cut off:\n%s", page)
	}
}

func TestProblems(t *testing.T) {
	all := cells(networks, 10, 100)
	if len(all) != (4*10+5)*36 {
		t.Errorf("%d problems", len(all))
	}
	c := all[35] // 100 transfers from 50 to 50
	g, ts, err := problem(&c)
	if err != nil {
		t.Fatal(err)
	}
	if g.Hosts() != hosts || len(ts) != 100 || len(ts[99].Sources) != 50 || len(ts[99].Destinations) != 50 {
		t.Errorf("%v: %d transfers, %+v", c, len(ts), ts[len(ts)-1])
	}
	for _, tr := range ts {
		for _, h := range tr.Sources {
			if slices.Contains(tr.Destinations, h) {
				t.Errorf("%s: host %d is both", tr.Name, h)
			}
		}
	}
	if _, again, _ := problem(&c); !slices.Equal(again[7].Sources, ts[7].Sources) {
		t.Error("another problem the second time")
	}
	c.Seed++
	if _, other, _ := problem(&c); slices.Equal(other[7].Sources, ts[7].Sources) {
		t.Error("another seed makes the same problem")
	}
	c = bench.Cell{Params: sizes[0].on("star", 0)}
	c.Params["hosts"] = "100"
	if g, _, err := problem(&c); err != nil || g.Hosts() != 100 {
		t.Errorf("a problem of 100 hosts: %v", err)
	}
}

// TestSittings: what one call has solved, a later one that asks for more does not solve again, and a call that is cut off loses one problem.
func TestSittings(t *testing.T) {
	o := bench.Options{File: results(t.TempDir()), Log: io.Discard}
	made := map[string]int{}
	s := bench.Suite{Name: plansName, Case: func(_ context.Context, c *bench.Cell) (map[string]float64, error) {
		made[c.String()]++
		return map[string]float64{"x": 1}, nil
	}}
	s.Cells = cells([]string{"star"}, 1, 10)
	if err := s.Run(t.Context(), o); err != nil || len(made) != 18 {
		t.Fatalf("%d problems, %v", len(made), err)
	}
	ctx, stop := context.WithCancel(t.Context())
	s.Cells = cells([]string{"deep", "star"}, 2, 10)
	all := s.Case
	s.Case = func(ctx context.Context, c *bench.Cell) (map[string]float64, error) {
		if len(made) == 30 {
			stop()
			return nil, ctx.Err()
		}
		return all(ctx, c)
	}
	if err := s.Run(ctx, o); !errors.Is(err, context.Canceled) || len(made) != 30 {
		t.Fatalf("cut off after %d problems: %v", len(made), err)
	}
	s.Case = all
	if err := s.Run(t.Context(), o); err != nil || len(made) != 72 {
		t.Fatalf("%d problems in the end, %v", len(made), err)
	}
	for name, n := range made {
		if n != 1 {
			t.Errorf("%s was solved %d times", name, n)
		}
	}
}

// put writes results as runs of these cells would have.
func put(t *testing.T, dir, suite string, cells []bench.Cell, of func(c bench.Cell) map[string]float64) {
	t.Helper()
	f, err := os.OpenFile(results(dir), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	to := json.NewEncoder(f)
	for _, c := range cells {
		if err := to.Encode(bench.Result{Suite: suite, Cell: c, Numbers: of(c), Command: "go run it", Commit: "c0ffee"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// TestReport: the page is made of the results alone, and a claim that is missed is an error.
func TestReport(t *testing.T) {
	good := map[string]float64{"random": 1.5, "pipeline": 2, "exact": 2, "single": 2, "optimal": 4, "floored": 3, "first": 1,
		"of bound, optimal": 0.995, "of bound, single": 0.85, "of bound, paper": 0.7, "floored of bound": 1, "floored of free": 0.97, "least rate of floor": 1,
		"paper of pipeline": 1, "first_s": 0.01, "paper_s": 1, "optimal_s": 1, "floored_s": 1}
	for _, tt := range []struct {
		number   string // that is otherwise
		value    float64
		problems int
		want     string // as an error
		said     string // on the page
	}{
		{"", 0, 5, "", "| ≥ 0.99 | 0.995 | met |"},
		{"", 0, 4, "", "| ≥ 0.99 | 0.995 | too few runs (4 of 5) |"},
		{"of bound, optimal", 0.98, 5, "missed: intrigger: optimal without a floor", "| ≥ 0.99 | 0.980 | missed |"},
		{"floored of bound", 0.98, 5, "missed: intrigger: optimal with floor", ""},
		{"least rate of floor", 0.98, 5, "missed: intrigger: the least rate", ""},
		{"of bound, single", 0.83, 5, "missed: intrigger: single, of the bound, the least of all problems of 50 transfers", ""},
		{"pipeline", 1.4, 5, "missed: intrigger: the paper's order", ""},
		{"pipeline", 3.1, 5, "missed: intrigger: the paper's order", ""},
		{"random", 0.9, 5, "missed: intrigger: the paper's order", ""},
		{"paper of pipeline", 0.9, 5, "missed: intrigger: paper over pipeline", ""},
	} {
		dir := t.TempDir()
		put(t, dir, plansName, cells([]string{"intrigger"}, tt.problems, 100), func(c bench.Cell) map[string]float64 {
			n := map[string]float64{"paper": 3}
			for name, v := range good {
				n[name] = v
			}
			if c.Params["transfers"] == "5" && c.Params["sources"] == "5" && c.Params["destinations"] == "5" {
				n["paper"] = 0.9            // worse than flat
				n["of bound, single"] = 0.5 // nobody asks
			}
			if tt.number != "" {
				n[tt.number] = tt.value
			}
			return n
		})
		err := write(dir)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s %v: error %v, want %q", tt.number, tt.value, err, tt.want)
		}
		page := read(t, dir)
		if !strings.Contains(page, tt.said) {
			t.Errorf("%s %v: the page lacks %q:\n%s", tt.number, tt.value, tt.said, page)
		}
		if tt.number != "" {
			continue
		}
		for _, want := range []string{"| intrigger | 1.50 / 1.50 |", "| 10 | 50 | 5 | 1.50 |", "1 of 36: S5 D5 T5", "`go run it`"} {
			if !strings.Contains(page, want) {
				t.Errorf("the page lacks %q:\n%s", want, page)
			}
		}
		for _, f := range append([]string{"networks.svg"}, figures[0].file, figures[1].file, figures[2].file) {
			if _, err := os.Stat(filepath.Join(dir, f)); err != nil || !strings.Contains(page, "]("+f+")") {
				t.Errorf("%s: %v; or the page does not show it", f, err)
			}
		}
	}
}

// TestMissingConditions: a verdict wants all 36.
func TestMissingConditions(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, plansName, cells([]string{"star"}, 9, 50), func(bench.Cell) map[string]float64 {
		return map[string]float64{"random": 2, "pipeline": 3, "paper": 3, "optimal": 4, "of bound, optimal": 0.5, "floored of bound": 0.5, "least rate of floor": 1, "paper of pipeline": 1}
	})
	if err := write(dir); err != nil {
		t.Error(err)
	}
	if page := read(t, dir); strings.Contains(page, "| met |") || strings.Contains(page, "| missed |") {
		t.Errorf("verdicts on 27 of 36 conditions:\n%s", page)
	}
}

// TestFigure: every network has a panel for each pair of numbers in one of the figures, with all planners over all numbers of transfers.
func TestFigure(t *testing.T) {
	var rs []bench.Result
	for _, c := range cells(networks, 2, 100) {
		n := map[string]float64{"random": 2, "pipeline": 3, "paper": 6.9, "optimal": float64(c.Seed)}
		if c.Params["network"] == "deep" && c.Params["transfers"] == "5" {
			delete(n, "paper")
		}
		rs = append(rs, bench.Result{Cell: c, Numbers: n})
	}
	panels := map[string]int{}
	for _, f := range figures {
		p := figure(rs, networks, f.in)
		if !slices.Equal(p.Groups, []string{"5", "10", "50", "100"}) || !slices.Equal(p.Series, []string{"random", "pipeline", "paper", "optimal"}) || len(p.Rows) != len(networks) {
			t.Errorf("%s: %v, %v, %d networks", f.file, p.Groups, p.Series, len(p.Rows))
		}
		for i, r := range p.Rows {
			paper := 6.9
			if r.Name == "deep" {
				paper = 0 // is not drawn
			}
			want := [][]float64{{2, 2, 2, 2}, {3, 3, 3, 3}, {paper, 6.9, 6.9, 6.9}, {1.5, 1.5, 1.5, 1.5}}
			if r.Name != networks[i] || len(r.Lines) != len(p.Columns) || slices.ContainsFunc(r.Lines, func(got [][]float64) bool { return !reflect.DeepEqual(got, want) }) {
				t.Errorf("%s, row %d: %s has %v, want %v in %d panels", f.file, i, r.Name, r.Lines, want, len(p.Columns))
			}
		}
		for _, name := range p.Columns {
			panels[name]++
		}
		if err := p.SVG(filepath.Join(t.TempDir(), f.file)); err != nil {
			t.Error(err)
		}
	}
	if len(panels) != 9 || panels["5 → 50"] != 1 {
		t.Errorf("%v; want 9 pairs of sources and destinations, each in one figure", panels)
	}
}

// TestClock: one problem with a clock from end to end.
func TestClock(t *testing.T) {
	c := bench.Cell{Params: sizes[0].on("intrigger", floor), Seed: 1}
	got, err := clock(t.Context(), &c)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"first_s", "less_s", "more_s", "thin_s"} {
		if !(got[name] > 0) {
			t.Errorf("%s is %v", name, got[name])
		}
	}
	if got["good"] != 1 || got["cut off"] != 0 || got["of bound"] < 0.99 || got["of bound"] > 1+1e-9 || got["of free"] > got["of bound"]+1e-9 {
		t.Errorf("%v", got)
	}
	if got["good_s"] < got["first_s"] || got["whole_s"] < got["first_s"] {
		t.Errorf("a better plan is there before the first one: %v", got)
	}
	if got["again_s"] != max(got["less_s"], got["more_s"], got["thin_s"]) || !(got["again"] > 0.5) || got["again"] > 1+1e-6 {
		t.Errorf("after changes: %v", got)
	}
	if got["again, of floor"] < 1-1e-6 {
		t.Errorf("after changes somebody has %v of the floor", got["again, of floor"])
	}
	if got["memory"] < 1 || got["memory"] > 4096 {
		t.Errorf("%v MiB of memory", got["memory"])
	}
	c.Params["hosts"] = "401"
	if _, err := clock(t.Context(), &c); err == nil {
		t.Error("a size that there is not was taken")
	}
}

// TestTimesReport: each size has its row and its claims, one that is missed is an error, and so is a problem that never came to a good plan.
func TestTimesReport(t *testing.T) {
	all := clocked(append(slices.Clone(networks), "big"), 5)
	if len(all) != 5*(5*4+2) {
		t.Errorf("%d problems with a clock", len(all))
	}
	for _, tt := range []struct {
		number string // that is otherwise, with 50 destinations and without a floor, in the fifth problem on star
		value  float64
		want   string
	}{
		{"", 0, ""},
		{"first_s", 0.021, "missed: trees, 400 hosts, 50 transfers to 50 destinations: the first plan"},
		{"good_s", 3.1, "missed: trees, 400 hosts, 50 transfers to 50 destinations: 0.99 of the bound"},
		{"good", 0, "missed: trees, 400 hosts, 50 transfers to 50 destinations: 0.99 of the bound"},
		{"again_s", 0.151, "missed: trees, 400 hosts, 50 transfers to 50 destinations: a plan again"},
	} {
		dir := t.TempDir()
		put(t, dir, timesName, all, func(c bench.Cell) map[string]float64 {
			n := map[string]float64{"first_s": 0.011, "good": 1, "good_s": 0.9, "whole_s": 1.5, "again_s": 0.14, "again": 0.98, "of bound": 0.999, "memory": 31, "cut off": 0}
			if p := c.Params; tt.number != "" && p["network"] == "star" && p["destinations"] == "50" && p["floor"] == "0" && c.Seed == 5 {
				n[tt.number] = tt.value
				if n["good"] == 0 {
					delete(n, "good_s")
				}
			}
			return n
		})
		err := write(dir)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s %v: error %v, want %q", tt.number, tt.value, err, tt.want)
		}
		page := read(t, dir)
		wants := []string{"| fattree | 400 | 50, 10, 50 | 0.5 | 11 (11) | 0.9 (0.9) | 1.5 (1.5) | 0.9990 | 140 (140) | 0.9800 | 31 (31) | 5 |", "| big | 100000 | 1000, 5, 20 | 0.5 |",
			"| racks, 100000 hosts, 1000 transfers to 20 destinations: 0.95 of the bound proved, seconds | ≤ 120 | 0.900 | met |"}
		if tt.number == "good" {
			wants = []string{"0.9 (0.9), in 4 of 5"}
		}
		for _, want := range wants {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page lacks %q:\n%s", tt.number, want, page)
			}
		}
	}
}

func TestRefuses(t *testing.T) {
	for _, args := range [][]string{{"again"}, {"times", "again"}, {"--problems", "0"}, {"--networks", "ring"}, {"--most", "1"}} {
		if err := command(t.Context(), append(args, "--out", t.TempDir())); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v", args, err)
		}
	}
	if err := command(t.Context(), []string{"report", "--out", t.TempDir()}); err == nil || !strings.Contains(fmt.Sprint(err), "run first") {
		t.Errorf("a report of nothing: %v", err)
	}
}

// TestPublished: the page and its pictures are of the results that are there.
func TestPublished(t *testing.T) {
	benchtest.Published(t, write)
}
