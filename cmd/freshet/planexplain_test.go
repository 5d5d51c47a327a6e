package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/freshet/freshet/planner"
	"github.com/freshet/freshet/topo"
)

// drawn is a topology, and transfers between so many of its hosts each.
func drawn(t *testing.T, s topo.Shape, transfers, sources, dests int) (*topo.Graph, []planner.Transfer) {
	t.Helper()
	net, err := s.Network()
	if err != nil {
		t.Fatal(err)
	}
	g := topo.NewGraph(net)
	rng := rand.New(rand.NewPCG(s.Seed, 81))
	var ts []planner.Transfer
	for k := range transfers {
		hosts := rng.Perm(g.Hosts())[:sources+dests]
		ts = append(ts, planner.Transfer{Name: fmt.Sprint("t", k), Sources: hosts[:sources], Destinations: hosts[sources:]})
	}
	return g, ts
}

// viewed is a plan of transfers as people see it.
func viewed(t *testing.T, g *topo.Graph, ts []planner.Transfer, mode string, o planner.Options) *planView {
	t.Helper()
	p, err := planner.New(planner.On(g), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range ts {
		if _, err := p.Add(tr); err != nil {
			t.Fatal(err)
		}
	}
	for more := true; more; {
		if more, err = p.Step(); err != nil {
			t.Fatal(err)
		}
	}
	plan, err := p.In(mode)
	if err != nil {
		t.Fatal(err)
	}
	v := newPlanView(g, p, plan, ts, 0)
	v.maxMin = o.MaxMin
	return v
}

// In every mode each destination is told once why it has what it has, by a link and by what other sources would give.
func TestExplainTellsEachDestination(t *testing.T) {
	for seed, o := range []planner.Options{{}, {Floor: 0.5}, {MaxMin: true}, {}} {
		g, ts := drawn(t, topo.Shape{Kind: []string{"intrigger", "fattree"}[seed%2], Hosts: 30, Seed: uint64(seed)}, 4, 3, 5)
		if seed == 3 {
			ts[0].Priority, ts[1].Priority = 2, 1
		}
		for _, mode := range planner.Modes {
			if mode == planner.Exact && g.Tree() == nil {
				continue
			}
			v := viewed(t, g, ts, mode, o)
			var out strings.Builder
			v.explain(&out)
			told, starved := map[string]int{}, 0
			lines := strings.Split(out.String(), "\n")
			for i, line := range lines {
				transfer, rest, ok := strings.Cut(line, " to ")
				if !ok || strings.HasPrefix(line, " ") || strings.ContainsAny(transfer, " ") {
					continue
				}
				names, what, _ := strings.Cut(rest, ": ")
				for name := range strings.SplitSeq(names, ", ") {
					told[transfer+" to "+name]++
					if strings.HasPrefix(what, "starved, ") {
						starved++
					}
				}
				why := lines[i+1]
				if !strings.HasPrefix(why, "  ") || !strings.HasSuffix(why, ".") || !strings.Contains(why, "full") && !strings.Contains(why, "in use") && !strings.Contains(why, "would give more") ||
					!strings.Contains(why, " would give ") && !strings.Contains(why, "each of its sources") && !strings.Contains(why, "all sources") {
					t.Errorf("%+v, %s: %q is told %q", o, mode, line, why)
				}
			}
			if len(told) != v.p.Pairs() || starved != len(v.plan.Starved) {
				t.Errorf("%+v, %s: %d of %d destinations are told, %d of %d starved:\n%s", o, mode, len(told), v.p.Pairs(), starved, len(v.plan.Starved), &out)
			}
			for pair, times := range told {
				if times != 1 {
					t.Errorf("%+v, %s: %s is told %d times", o, mode, pair, times)
				}
			}
			if len(v.why()) != v.p.Pairs() {
				t.Errorf("%+v, %s: programs are told of %d destinations", o, mode, len(v.why()))
			}
		}
	}
}

// What would take all of a machine's memory is not explained.
func TestExplainIsBounded(t *testing.T) {
	of := func(sources, dests int) planner.Transfer {
		return planner.Transfer{Sources: make([]int, sources), Destinations: make([]int, dests)}
	}
	for _, c := range []struct {
		transfers []planner.Transfer
		fits      bool
	}{
		{nil, true},
		{[]planner.Transfer{of(1000, 10_000)}, true},
		{[]planner.Transfer{of(1000, 10_000), of(1, 1)}, false},
		{[]planner.Transfer{of(20_000, 20_000)}, false},
		{[]planner.Transfer{of(1, 2_000_000), of(2_000_000, 1), of(1, 0)}, true},
	} {
		err := explainable(c.transfers)
		if c.fits != (err == nil) || err != nil && !strings.HasSuffix(err.Error(), "10000000 are the most: leave it out, or have fewer sources or destinations") {
			t.Errorf("%d transfers: got %v", len(c.transfers), err)
		}
	}
}

// Thousands of destinations are no wall of text.
func TestExplainFolds(t *testing.T) {
	g, ts := drawn(t, topo.Shape{Kind: "intrigger", Hosts: 400, Seed: 1}, 50, 10, 50)
	for _, mode := range []string{planner.Flat, planner.Pipeline, planner.Optimal} {
		v := viewed(t, g, ts, mode, planner.Options{Work: 3000})
		var out strings.Builder
		v.explain(&out)
		lines := strings.Split(out.String(), "\n")
		if len(lines) > 60 {
			t.Errorf("%s: %d lines", mode, len(lines))
		}
		for _, line := range lines {
			if len(line) > 500 {
				t.Errorf("%s: a line of %d characters: %s", mode, len(line), line)
			}
		}
		if !strings.Contains(out.String(), "Of 2500 destinations ") {
			t.Errorf("%s: there is no overview:\n%s", mode, &out)
		}
	}
}
