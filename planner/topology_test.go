package planner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/freshet/freshet/topo"
)

// problem is a network and transfers on it, from a seed.
func problem(t testing.TB, s topo.Shape, transfers, sources, dests int) (*Network, []Transfer) {
	t.Helper()
	net, err := s.Network()
	if err != nil {
		t.Fatal(err)
	}
	n := On(topo.NewGraph(net))
	rng := rand.New(rand.NewPCG(s.Seed, 6))
	var ts []Transfer
	for k := range transfers {
		var hosts []int
		known := map[int]bool{}
		for len(hosts) < sources+dests {
			if h := rng.IntN(n.hosts); !known[h] {
				known[h] = true
				hosts = append(hosts, h)
			}
		}
		ts = append(ts, Transfer{Name: fmt.Sprint("t", k), Sources: hosts[:sources], Destinations: hosts[sources:]})
	}
	return n, ts
}

// On trees and on graphs, whatever comes and goes, plans can be carried out; on trees they are as good as those that begin anew.
func TestChanges(t *testing.T) {
	for _, kind := range []string{"intrigger", "skewed", "fattree"} {
		t.Run(kind, func(t *testing.T) {
			n, ts := problem(t, topo.Shape{Kind: kind, Hosts: 60, Seed: 3}, 6, 3, 8)
			p, plan := planned(t, n, Options{Floor: 0.5}, ts[:5]...)
			if len(plan.Starved) > 0 || !(plan.MinRate > 0) {
				t.Errorf("starved: %v, smallest rate %v", plan.Starved, plan.MinRate)
			}
			if n.tree && plan.Gap > 1e-5 || plan.Gap > 0.5 {
				t.Errorf("gap %v", plan.Gap)
			}
			anew := func(what string, now []Transfer) {
				t.Helper()
				changed := finished(t, p)
				_, fresh := planned(t, n, Options{Floor: 0.5}, now...)
				if n.tree && !near(changed.Throughput, fresh.Throughput) {
					t.Errorf("%s: %v, planned anew %v", what, changed.Throughput, fresh.Throughput)
				}
				if changed.Throughput < 0.9*fresh.Throughput {
					t.Errorf("%s: %v, planned anew %v", what, changed.Throughput, fresh.Throughput)
				}
			}
			if _, err := p.Add(ts[5]); err != nil {
				t.Fatal(err)
			}
			anew("one more", ts)
			p.Remove(1)
			left := append([]Transfer{ts[0]}, ts[2:]...)
			anew("one less", left)
			busy := plan.Links[0].Channel
			if err := p.SetRate(busy, plan.Links[0].Rate/3); err != nil {
				t.Fatal(err)
			}
			anew("a narrower link", left)
			if err := p.SetRate(busy, 0); err != nil {
				t.Fatal(err)
			}
			anew("a link of 0", left)
			if p.SetRate(busy, -1) == nil {
				t.Error("a rate below 0 is taken")
			}
		})
	}
}

// One pipeline for each destination has nearly what several have.
func TestSingleIsNearTheBound(t *testing.T) {
	for _, c := range []struct {
		kind string
		want float64 // of the bound
	}{{"intrigger", 0.94}, {"skewed", 0.86}} {
		n, ts := problem(t, topo.Shape{Kind: c.kind, Hosts: 400, Seed: 1}, 50, 10, 10)
		p, _ := planned(t, n, Options{}, ts...)
		plan, err := p.In(Single)
		if err != nil {
			t.Fatal(err)
		}
		sound(t, p, plan)
		if plan.Throughput < c.want*plan.Bound {
			t.Errorf("%s: %.3f of the bound, want %v", c.kind, plan.Throughput/plan.Bound, c.want)
		}
	}
}

// Who has nothing in the optimum has a pipeline all the same, over which the floor comes.
func TestSingleServesEverybody(t *testing.T) {
	n := star([2]float64{900, 0}, [2]float64{900, 900}, [2]float64{900, 900}, [2]float64{0, 900}) // all want what the first one sends
	x, y := Transfer{Name: "x", Sources: []int{0}, Destinations: []int{1, 2}}, Transfer{Name: "y", Sources: []int{0}, Destinations: []int{3}}
	if _, plan := planned(t, n, Options{}, x, y); plan.Rate(Pair{1, 3}) > 1 {
		t.Fatal("y has something in the optimum: nothing to tell")
	}
	if _, plan := planned(t, n, Options{Mode: Single, Floor: 0.5}, x, y); !near(plan.Floor, 225) || !near(plan.Rate(Pair{1, 3}), 225) || !near(plan.Rate(Pair{0, 1}), 675) {
		t.Errorf("floor %v, x has %v, y %v; want 225, 675, 225", plan.Floor, plan.Rate(Pair{0, 1}), plan.Rate(Pair{1, 3}))
	}
}

// Who is out of reach is listed by transfer, each once, as long as the transfer is there and the link carries nothing.
func TestUnreachableComesAndGoes(t *testing.T) {
	n := star([2]float64{100, 100}, [2]float64{100, 100}, [2]float64{100, 100}, [2]float64{100, 0})
	p, _ := planned(t, n, Options{}, Transfer{Name: "x", Sources: []int{0}, Destinations: []int{1, 2}}, Transfer{Name: "y", Sources: []int{1}, Destinations: []int{0, 3}}, Transfer{Name: "z", Sources: []int{1}, Destinations: []int{2}})
	down := func(h int) int { return int(n.out[h][0] ^ 1) } // the channel by which h gets what it gets
	for _, c := range []struct {
		what   string
		change func() error
		want   []Pair
	}{
		{"at first", func() error { return nil }, []Pair{{1, 3}}},
		{"nothing comes to h3", func() error { return p.SetRate(down(2), 0) }, []Pair{{0, 2}, {1, 3}, {2, 2}}},
		{"still nothing", func() error { return p.SetRate(down(2), 0) }, []Pair{{0, 2}, {1, 3}, {2, 2}}},
		{"one more", func() error {
			_, err := p.Add(Transfer{Name: "w", Sources: []int{0}, Destinations: []int{3, 1, 2}})
			return err
		}, []Pair{{0, 2}, {1, 3}, {2, 2}, {3, 3}, {3, 2}}},
		{"one less", func() error { p.Remove(0); return nil }, []Pair{{1, 3}, {2, 2}, {3, 3}, {3, 2}}},
		{"something comes to h3 again", func() error { return p.SetRate(down(2), 50) }, []Pair{{1, 3}, {3, 3}}},
		{"and nothing again", func() error { return p.SetRate(down(2), 0) }, []Pair{{1, 3}, {2, 2}, {3, 3}, {3, 2}}},
	} {
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		plan := finished(t, p)
		var got []Pair
		for _, u := range plan.Unreachable {
			got = append(got, Pair{u.Transfer, u.Destination})
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}

// A pipeline that is there twice is one flow.
func TestOneFlowOfEachPipeline(t *testing.T) {
	n := star([2]float64{100, 100}, [2]float64{100, 100}, [2]float64{100, 100})
	p, _ := planned(t, n, Options{}, Transfer{Name: "x", Sources: []int{0}, Destinations: []int{1, 2}})
	there, _ := n.pipe(0, []int32{0, 1, 2})
	round, _ := n.pipe(0, []int32{0, 2, 1})
	plan := p.result([]pipe{there, round, there}, []float64{10, 20, 30})
	plan.bound(200, "")
	sound(t, p, plan)
	if got, want := fmt.Sprint(plan.Flows), "[{0 [0 1 2] 40} {0 [0 2 1] 20}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestSameSeedSamePlan(t *testing.T) {
	for _, mode := range Modes {
		made := func(seed uint64) string {
			n, ts := problem(t, topo.Shape{Kind: "skewed", Hosts: 40, Seed: 9}, 4, 2, 6)
			_, plan := planned(t, n, Options{Mode: mode, Floor: 0.5, Seed: seed}, ts...)
			return fmt.Sprint(plan.Flows, plan.Bound, plan.Links)
		}
		first := made(4)
		if got := made(4); got != first {
			t.Errorf("%s: two plans from one seed differ:\n%s\n%s", mode, first, got)
		}
		if drawn := mode == Flat || mode == Random; (made(5) == first) == drawn {
			t.Errorf("%s: is drawn: %v; another seed makes another plan: %v", mode, drawn, !drawn)
		}
	}
}

// Who has enough in the middle of a step gets a plan that can be carried out.
func TestEnough(t *testing.T) {
	n, ts := problem(t, topo.Shape{Kind: "fattree", Hosts: 60, Seed: 5}, 22, 3, 12)
	for _, floor := range []float64{0, 0.5} {
		_, whole := planned(t, n, Options{Floor: floor}, ts...)
		for asks := 1; ; asks *= 4 {
			left := asks
			p := having(t, n, Options{Floor: floor, Enough: func() bool { left--; return left < 0 }}, ts...)
			for more := true; more && left >= 0; {
				var err error
				if more, err = p.Step(); err != nil {
					t.Fatal(err)
				}
			}
			plan, err := p.Plan()
			if err != nil {
				t.Fatal(err)
			}
			sound(t, p, plan)
			if !(plan.Throughput > 0) || plan.Throughput > whole.Bound*(1+1e-6) && floor == 0 {
				t.Errorf("floor %v, after %d times: %v, in the end %v", floor, asks, plan.Throughput, whole.Throughput)
			}
			if left >= 0 {
				break
			}
		}
	}
}

// The same of many pairs, whose programs begin with PDHG, with cycles, classes, and fairness alone.
func TestSameSeedSamePlanOfMany(t *testing.T) {
	for _, c := range []struct {
		kind    string
		o       Options
		classes bool
	}{{"fattree", Options{Floor: 0.5}, false}, {"fattree", Options{Floor: 0.5, Work: 3000}, true}, {"star", Options{MaxMin: true, Work: 20000}, true}} {
		var first string
		for i := range 2 {
			n, ts := problem(t, topo.Shape{Kind: c.kind, Hosts: 60, Seed: 8}, 22, 3, 10)
			for k := range ts {
				if c.classes && k%3 == 0 {
					ts[k].Priority = 1
				}
			}
			p, plan := planned(t, n, c.o, ts...)
			if got := fmt.Sprint(plan.Flows, plan.Bound, plan.Links, plan.Classes, p.Explain(plan)); i == 0 {
				first = got
			} else if got != first {
				t.Errorf("%s, %+v: two plans from one seed differ", c.kind, c.o)
			}
		}
	}
}

// A first plan is there without a step, and stopping at any of them leaves a plan that can be carried out.
func TestAnyTime(t *testing.T) {
	n, ts := problem(t, topo.Shape{Kind: "intrigger", Hosts: 60, Seed: 5}, 5, 3, 8)
	ts[2].Priority = 1
	for _, tr := range [][]Transfer{ts[:2], ts} {
		p := having(t, n, Options{Floor: 0.5}, tr...)
		sound(t, p, p.First())
		for more := true; more; {
			plan, err := p.Plan()
			if err != nil {
				t.Fatal(err)
			}
			sound(t, p, plan)
			if !(plan.Throughput > 0) {
				t.Error("a plan of nothing")
			}
			if more, err = p.Step(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A plan that is asked for early, or cut short, is no other in the end: each mode has the same as who asks once.
func TestAskedEarly(t *testing.T) {
	first := graph(t, `
hosts: [{name: a1}, {name: a2}, {name: b1}, {name: b2}]
switches: [sa, sb]
links:
- {a: a1, b: sa, rate: 1Gbit}
- {a: a2, b: sa, rate: 1Gbit}
- {a: b1, b: sb, rate: 1Gbit}
- {a: b2, b: sb, rate: 200Mbit}
- {a: sa, b: sb, rate: 500Mbit}
`)
	few := []Transfer{{Name: "model", Sources: []int{0}, Destinations: []int{1, 2, 3}}, {Name: "logs", Sources: []int{2}, Destinations: []int{1}}}
	n, many := problem(t, topo.Shape{Kind: "intrigger", Hosts: 60, Seed: 5}, 8, 3, 8)
	for _, c := range []struct {
		n       *Network
		ts      []Transfer
		cut     bool // the plan at first ends at once
		differs []string
	}{{On(first), few, false, []string{Single}}, {n, many, false, []string{Single}}, {n, many, true, []string{Paper, Single}}} {
		for _, mode := range Modes {
			_, want := planned(t, c.n, Options{Mode: mode}, c.ts...)
			enough := c.cut
			p, err := New(c.n, Options{Mode: mode, Enough: func() bool { return enough }})
			if err != nil {
				t.Fatal(err)
			}
			for _, tr := range c.ts {
				if _, err := p.Add(tr); err != nil {
					t.Fatal(err)
				}
			}
			early, err := p.Plan()
			if err != nil {
				t.Fatal(err)
			}
			enough = false
			again, err := p.Plan()
			if err != nil {
				t.Fatal(err)
			}
			if got := finished(t, p); !near(got.Throughput, want.Throughput) || mode == Paper && !near(again.Throughput, want.Throughput) {
				t.Errorf("%s: %v in the end, and %v before; who asks then has %v", mode, got.Throughput, again.Throughput, want.Throughput)
			}
			if slices.Contains(c.differs, mode) && near(early.Throughput, want.Throughput) {
				t.Errorf("%s: %v at first already: too much to tell", mode, early.Throughput)
			}
		}
	}
}

// Why a host cannot be reached is said of the route to it, which need not be that to its switch where routes are listed.
func TestReasonsAreOfTheRoute(t *testing.T) {
	for _, c := range []struct{ routes, want string }{
		{"", "m1 → s"},
		{"{from: a, to: h, via: [sa, m2, s]}", "sa → m2"},
		{"{from: a, to: h, via: [sa, m1, s]}", "m1 → s"},
		{"{from: a, to: s, via: [sa, m2]}", "m1 → s"},
	} {
		n := On(graph(t, `
hosts: [{name: a}, {name: h}]
switches: [sa, m1, m2, s]
links:
- {a: a, b: sa, rate: 1Gbit}
- {a: sa, b: m1, rate: 1Gbit}
- {a: m1, b: s, rate: 0, rate_back: 1Gbit}
- {a: sa, b: m2, rate: 0, rate_back: 1Gbit}
- {a: m2, b: s, rate: 1Gbit}
- {a: s, b: h, rate: 1Gbit}
routes: [`+c.routes+`]`))
		_, lost, err := n.normal(0, Transfer{Sources: []int{0}, Destinations: []int{1}})
		if want := "every route from its sources crosses a link of rate 0: " + c.want; err != nil || len(lost) != 1 || lost[0].Reason != want {
			t.Errorf("with routes [%s]: %+v, %v, want %s", c.routes, lost, err, want)
		}
	}
}
