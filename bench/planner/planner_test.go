package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/bench"
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
	}
}

func TestProblems(t *testing.T) {
	all := cells(networks, 10, 100)
	if len(all) != 5*36*10 {
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
}

// TestReport: the page is made of the results alone, and a claim that is missed is an error.
func TestReport(t *testing.T) {
	for _, tt := range []struct {
		least float64
		want  string
	}{{0.995, ""}, {0.98, "missed: intrigger: optimal without a floor"}} {
		dir := t.TempDir()
		s := bench.Suite{Name: "planner"}
		f, err := os.Create(results(dir))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		s.Cells = cells([]string{"intrigger"}, 1, 10)
		s.Case = fake(tt.least)
		if err := s.Run(t.Context(), bench.Options{File: results(dir), Command: "go run it", Log: &strings.Builder{}}); err != nil {
			t.Fatal(err)
		}
		err = write(dir)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("with %v of the bound: error %v, want %q", tt.least, err, tt.want)
		}
		page, err := os.ReadFile(filepath.Join(dir, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"| intrigger | 2.00 / 2.00 |", "| 10 | 50 | 5 | 2.00 |", "9 of 18", "`go run it`"} {
			if !strings.Contains(string(page), want) {
				t.Errorf("the page lacks %q:\n%s", want, page)
			}
		}
		for _, g := range groups {
			if _, err := os.Stat(filepath.Join(dir, g.file)); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestRefuses(t *testing.T) {
	for _, args := range [][]string{{"again"}, {"--problems", "0"}, {"--networks", "ring"}, {"--most", "1"}} {
		if err := command(t.Context(), append(args, "--out", t.TempDir())); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// fake is a case whose paper mode is worse than flat with 5 transfers, and whose optimum is that near to the bound.
func fake(least float64) bench.Case {
	return func(_ context.Context, c *bench.Cell) (map[string]float64, error) {
		paper := 3.0
		if c.Params["transfers"] == "5" {
			paper = 0.9
		}
		return map[string]float64{
			"random": 2, "pipeline": 2, "paper": paper, "exact": 2, "single": 2, "optimal": 4, "floored": 3, "first": 1,
			"of bound, optimal": least, "of bound, paper": 0.7, "floored of bound": 1, "floored of free": 0.97, "least rate of floor": 1,
			"paper of pipeline": 1, "pipeline of random": 1, "first_s": 0.01, "paper_s": 1, "optimal_s": 1, "floored_s": 1,
		}, nil
	}
}
