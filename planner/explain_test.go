package planner

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/freshet/freshet/topo"
)

func TestExplain(t *testing.T) {
	g := graph(t, threeHosts)
	p, plan := planned(t, On(g), Options{}, Transfer{Name: "x", Sources: []int{0, 1}, Destinations: []int{2}})
	r := p.Explain(plan)
	if len(r) != 1 || len(r[0].From) == 0 || len(r[0].Offers) != 2 || r[0].Starved || !near(r[0].Rate, 25e6) || r[0].Alone != 25e6 {
		t.Fatalf("%+v", r)
	}
	b := r[0].From[0].Bottleneck
	if c := topo.Channel(b.Channel); g.Name(g.From(c)) != "s0" || g.Name(g.To(c)) != "h3" || !b.Full() || b.Beyond || !near(b.Worth, 1) || len(b.Others) > 0 {
		t.Errorf("held back by %+v, want s0 to h3", b)
	}
	for i, o := range r[0].Offers {
		if o.Source != i || !near(o.Rate, 25e6) || o.Bottleneck.Channel != b.Channel {
			t.Errorf("source %d would give %+v, want 25 MB/s over h3's own link", i, o)
		}
	}
}

// Each class has its own prices, and who has next to nothing is told which link is full on the way, and by whom.
func TestExplainClasses(t *testing.T) {
	g := graph(t, threeHosts)
	first, second := Transfer{Name: "x", Sources: []int{0}, Destinations: []int{2}, Priority: 1}, Transfer{Name: "y", Sources: []int{1}, Destinations: []int{2}}
	look := func(worth float64, ts ...Transfer) {
		t.Helper()
		p, plan := planned(t, On(g), Options{}, ts...)
		if !near(plan.Rate(Pair{0, 2}), 25e6) {
			t.Fatalf("x has %v", plan.Rate(Pair{0, 2}))
		}
		rs := p.Explain(plan)
		for _, r := range rs {
			b := r.Offers[0].Bottleneck
			if len(r.From) > 0 && r.From[0].Bottleneck.Channel != b.Channel {
				t.Errorf("it has its data over %+v, would have it over %+v", r.From[0].Bottleneck, b)
			}
			if c := topo.Channel(b.Channel); g.Name(g.To(c)) != "h3" || !b.Full() || !(b.Worth > 1-1e-6) || r.Transfer == 0 && !near(b.Worth, worth) {
				t.Errorf("transfer %d: %+v, want s0 to h3, which is worth %v to the first", r.Transfer, b, worth)
			}
		}
		if x, y := rs[0], rs[1]; x.Starved || !y.Starved || !slices.Equal(y.Offers[0].Bottleneck.Others, []int{0}) || y.Offers[0].Rate > Negligible*y.Alone {
			t.Errorf("x %+v, y %+v", x, y)
		}
	}
	look(1, first, second)
	heavy := first
	heavy.Priority, heavy.Weight = 0, 3
	look(3, heavy, second) // by weight
	// Where planning has not come to a class nobody knows its prices; nor do they say anything of other plans than the optimum.
	p, err := New(On(g), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range []Transfer{first, second} {
		if _, err := p.Add(tr); err != nil {
			t.Fatal(err)
		}
	}
	unknown := func(plan *Plan) {
		t.Helper()
		for _, r := range p.Explain(plan) {
			if r.Offers[0].Bottleneck.Worth != 0 {
				t.Errorf("prices of a plan without any: %+v", r)
			}
		}
	}
	unknown(p.First())
	finished(t, p)
	plan, err := p.In(Flat)
	if err != nil {
		t.Fatal(err)
	}
	unknown(plan)
}

// A pipeline is held back by its narrowest link, which comes after some of its destinations (example A: h2's way out).
func TestExplainBeyond(t *testing.T) {
	n := star([2]float64{800, 0}, [2]float64{300, 500}, [2]float64{600, 400}, [2]float64{200, 700})
	p, plan := planned(t, n, Options{Mode: Pipeline}, Transfer{Name: "x", Sources: []int{0}, Destinations: []int{1, 2, 3}})
	for _, r := range p.Explain(plan) {
		if b := r.From[0].Bottleneck; len(r.From) != 1 || b.Channel != 2 || !b.Full() || b.Beyond != (r.Destination == 1) {
			t.Errorf("%+v", r)
		}
		// h1's way out carries 300 of 800, and what leaves it serves h2 as well.
		want := map[int]float64{1: 500, 2: 400, 3: 500}[r.Destination]
		if o := r.Offers[0]; !near(o.Rate, want) {
			t.Errorf("host %d: directly %+v, want %v", r.Destination, o, want)
		}
	}
}

// What a source would give can be carried out, and no more; in the optimum it is no more than what there is. What holds a flow back is full, and on its way.
func TestOffersAndBottlenecks(t *testing.T) {
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 71))
		n := testTree(rng, 1+rng.IntN(4), 5+rng.IntN(4), false)
		if seed%3 == 2 {
			n = testGraph(rng, 3+rng.IntN(3), 5+rng.IntN(3))
		}
		o := []Options{{Gap: 1e-6}, {Gap: 1e-6, Floor: 0.5}, {MaxMin: true}}[seed/3%3]
		p, err := New(n, o)
		if err != nil {
			t.Fatal(err)
		}
		someTransfers(t, rng, p, 1+rng.IntN(3), 4, seed%2 == 0)
		finished(t, p)
		for _, mode := range Modes {
			if mode == Exact && !n.tree {
				continue
			}
			plan, err := p.In(mode)
			if err != nil {
				t.Fatal(err)
			}
			reasons := p.Explain(plan)
			if len(reasons) != p.Pairs() {
				t.Fatalf("seed %d, %s: %d reasons for %d pairs", seed, mode, len(reasons), p.Pairs())
			}
			for _, r := range reasons {
				rest := make([]float64, len(n.rate)) // what capacities carry without what comes to it
				for _, l := range plan.Links {
					rest[n.capacity[l.Channel]] += l.Load
				}
				sum := 0.0
				for _, f := range r.From {
					sum += f.Rate
					path, _ := n.way(nil, int32(f.Before), int32(r.Destination))
					for _, c := range path {
						rest[n.capacity[c]] -= f.Rate
					}
					if b := f.Bottleneck; !b.Full() && mode != Optimal && f.Rate > 1e-3*r.Rate {
						t.Errorf("seed %d, %s: %v is held back by %+v", seed, mode, r.Pair, b)
					}
				}
				if math.Abs(sum-r.Rate) > 1e-9*(1+r.Rate) || r.Starved != (r.Rate <= Negligible*r.Alone) {
					t.Errorf("seed %d, %s: %+v", seed, mode, r)
				}
				for _, o := range r.Offers {
					path, ok := n.way(nil, int32(o.Source), int32(r.Destination))
					if !ok != (o.Bottleneck.Channel < 0) {
						t.Fatalf("seed %d, %s: %+v", seed, mode, o)
					}
					least := math.Inf(1)
					for _, c := range path {
						least = min(least, n.of(c)-rest[n.capacity[c]])
					}
					if ok && math.Abs(o.Rate-least) > 1e-6*(1+least) {
						t.Errorf("seed %d, %s, %v: source %d would give %v, there is room for %v", seed, mode, r.Pair, o.Source, o.Rate, least)
					}
					if c := o.Bottleneck.Channel; ok && !slices.Contains(path, int32(c)) {
						t.Errorf("seed %d, %s, %v: channel %d is not on the way", seed, mode, r.Pair, c)
					}
					if mode == Optimal && o.Rate > r.Rate+1e-3*r.Alone {
						t.Errorf("seed %d: source %d would give %v more than %v in the optimum", seed, o.Source, r.Pair, o.Rate-r.Rate)
					}
				}
			}
		}
	}
}

// Where all flows of a destination cross a full link, that is what holds all of them back: its own one before others.
func TestOneBottleneckOfAllFlows(t *testing.T) {
	own, others := 0, 0
	for seed := range uint64(80) {
		rng := rand.New(rand.NewPCG(seed, 72))
		n := testTree(rng, 1+rng.IntN(4), 5+rng.IntN(4), false)
		p, err := New(n, Options{Floor: 0.5})
		if err != nil {
			t.Fatal(err)
		}
		someTransfers(t, rng, p, 1+rng.IntN(3), 4, false)
		plan := finished(t, p)
		load := make([]float64, len(n.rate))
		for _, l := range plan.Links {
			load[n.capacity[l.Channel]] += l.Load
		}
		for _, r := range p.Explain(plan) {
			var common []int32 // full channels on the ways of all flows up to it
			flows := 0
			for _, f := range plan.Flows {
				at := slices.Index(f.Hosts, r.Destination)
				if f.Transfer != r.Transfer || at < 1 {
					continue
				}
				var full []int32
				for i := range at {
					path, _ := n.way(nil, int32(f.Hosts[i]), int32(f.Hosts[i+1]))
					for _, c := range path {
						if load[n.capacity[c]] >= n.of(c)*(1-1e-3) {
							full = append(full, c)
						}
					}
				}
				if flows++; flows == 1 {
					common = full
				}
				common = slices.DeleteFunc(common, func(c int32) bool { return !slices.Contains(full, c) })
			}
			if len(common) == 0 {
				continue
			}
			last := common[len(common)-1]
			isOwn := n.to(last) == int32(r.Destination)
			for _, o := range r.From {
				c := int32(o.Bottleneck.Channel)
				if isOwn && c != last || !slices.Contains(common, c) || c != int32(r.From[0].Bottleneck.Channel) {
					t.Errorf("seed %d: %v is held back by %d in a flow, by %d in the first; all flows cross %v", seed, r.Pair, c, r.From[0].Bottleneck.Channel, common)
				}
			}
			if isOwn {
				own++
			} else if flows > 1 {
				others++
			}
		}
	}
	if own < 20 || others < 10 {
		t.Errorf("%d with a full link of their own, %d with another one: too few to tell", own, others)
	}
}
