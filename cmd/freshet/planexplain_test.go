package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// Nor are thousands of flows, and a flow past very many hosts is one line all the same.
func TestFlowsFold(t *testing.T) {
	g, ts := drawn(t, topo.Shape{Kind: "flat", Hosts: 400, Seed: 1}, 103, 1, 1)
	ts[0] = planner.Transfer{Name: "long", Sources: []int{0}}
	ts[1] = planner.Transfer{Name: "short", Sources: []int{0}}
	for h := 1; h <= 20; h++ {
		ts[0].Destinations = append(ts[0].Destinations, h)
		if h < 12 {
			ts[1].Destinations = append(ts[1].Destinations, h)
		}
	}
	v := viewed(t, g, ts, planner.Pipeline, planner.Options{MaxMin: true}) // so that each has a flow
	var out strings.Builder
	v.flows(&out)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if got, want := lines[len(lines)-1], fmt.Sprintf("and %d more; --json has all", len(v.plan.Flows)-100); len(v.plan.Flows) < 102 || got != want || len(lines) != 2*102+1 {
		t.Errorf("%d lines of %d flows, the last %q, want %q", len(lines), len(v.plan.Flows), got, want)
	}
	for _, line := range lines {
		switch names := strings.Split(line, " → "); {
		case strings.HasPrefix(line, "long ") && len(names) > 1:
			if len(names) != 12 || names[6] != "… 10 …" {
				t.Errorf("%q, want 6 names, the last 5, and that 10 are between", line)
			}
		case strings.HasPrefix(line, "short ") && len(names) > 1 && len(names) != 12:
			t.Errorf("%q, want all 12 names", line)
		}
	}
}

// What steps took is time that the modes took which need them.
func TestCompareAddsSteps(t *testing.T) {
	g, ts := drawn(t, topo.Shape{Kind: "flat", Hosts: 10, Seed: 1}, 2, 2, 3)
	v := viewed(t, g, ts, planner.Optimal, planner.Options{})
	v.took = 1000 * time.Hour
	modes, err := v.compare(t.Context(), func(plan func()) { plan() })
	if err != nil || len(modes) != len(planner.Modes) {
		t.Fatal(modes, err)
	}
	for _, m := range modes {
		if got, want := m.PlanningS >= v.took.Seconds(), m.Mode == planner.Optimal || m.Mode == planner.Single; got != want {
			t.Errorf("%s: planned in %v s; what steps took is in it: %v, want %v", m.Mode, m.PlanningS, got, want)
		}
	}
}

// Paper and single have half of the time that they are given for what they do when the bound is there: on a problem whose bound takes longer than all of it,
// paper has still planned anew.
func TestWithinIsHalved(t *testing.T) {
	dir := t.TempDir()
	net, transfers := filepath.Join(dir, "net.yaml"), filepath.Join(dir, "transfers.yaml")
	_, ts := drawn(t, topo.Shape{Kind: "fattree", Hosts: 400, Seed: 1}, 20, 3, 40)
	text := "transfers:\n"
	hosts := func(list []int) string {
		var names []string
		for _, h := range list {
			names = append(names, fmt.Sprint("h", h+1))
		}
		return strings.Join(names, ", ")
	}
	for _, tr := range ts {
		text += fmt.Sprintf("- {name: %s, sources: [%s], destinations: [%s]}\n", tr.Name, hosts(tr.Sources), hosts(tr.Destinations))
	}
	if err := os.WriteFile(transfers, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) []byte {
		t.Helper()
		var out bytes.Buffer
		root := newRoot()
		root.SetOut(&out)
		root.SetArgs(args)
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	run("topo", "generate", "fattree", "--hosts", "400", "--seed", "1", "-o", net)
	throughput := func(args ...string) float64 {
		t.Helper()
		var d struct{ Throughput float64 }
		if err := json.Unmarshal(run(append([]string{"plan", net, transfers, "--floor", "0", "--json"}, args...)...), &d); err != nil {
			t.Fatal(err)
		}
		return d.Throughput
	}
	grown, climbed := throughput("--mode", "pipeline", "--work", "1"), throughput("--mode", "paper", "--within", "600ms")
	if climbed < 1.05*grown {
		t.Errorf("paper has %v within the time, and pipeline %v", climbed, grown)
	}
}
