package planner

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/freshet/freshet/topo"
)

// Where fairness comes to no end who shares a pipeline with somebody behind a link that a higher class fills has something all the same.
func TestFairnessCutOffBehindAFullLink(t *testing.T) {
	var links []edge
	for h := range 7 { // u, s, d1, d2, d3 on the first switch; v, d4 on the second
		links = append(links, edge{A: h, B: 7 + h/5, Rate: 1000, Back: 1000})
	}
	links = append(links, edge{A: 7, B: 8, Rate: 100, Back: 100})
	n := newNetwork(7, []string{"u", "s", "d1", "d2", "d3", "v", "d4", "a", "b"}, links, nil)
	p, plan := planned(t, n, Options{MaxMin: true, Work: 1},
		Transfer{Name: "y", Sources: []int{0}, Destinations: []int{5}, Priority: 1},
		Transfer{Name: "x", Sources: []int{1}, Destinations: []int{2, 3, 4, 6}})
	if len(p.first) != 2 {
		t.Fatalf("the widest pipelines are %v", p.first)
	}
	for _, h := range []int{2, 3, 4} {
		if got := plan.Rate(Pair{1, h}); got < 300 {
			t.Errorf("host %d has %v", h, got)
		}
	}
	if got := plan.Rate(Pair{0, 5}); !near(got, 100) {
		t.Errorf("the higher class has %v", got)
	}
}

// Where fairness comes to no end, since there are too many pairs or planning may not go on, higher priorities still have what they can, and weights count.
func TestFairnessCutOff(t *testing.T) {
	const hosts = 8 // as many on each of two switches
	var names []string
	var links []edge
	for h := range 2 * hosts {
		names = append(names, fmt.Sprintf("h%d", h))
		links = append(links, edge{A: h, B: 2*hosts + h/hosts, Rate: 1000, Back: 1000})
	}
	links = append(links, edge{A: 2 * hosts, B: 2*hosts + 1, Rate: 880, Back: 880})
	n := newNetwork(2*hosts, append(names, "a", "b"), links, nil)
	for _, c := range []struct {
		what     string
		priority int     // of every other transfer
		weight   float64 // of it
		want     [2]float64
	}{
		{"alike", 0, 1, [2]float64{110, 110}},
		{"a priority", 1, 1, [2]float64{220, 0}},
		{"a weight", 0, 10, [2]float64{200, 20}},
	} {
		for _, cut := range []string{"many pairs", "work", "enough", "no step"} {
			o := Options{MaxMin: true}
			switch cut {
			case "work":
				o.Work = 1
			case "enough":
				o.Enough = func() bool { return true }
			}
			p, err := New(n, o)
			if err != nil {
				t.Fatal(err)
			}
			if cut == "many pairs" {
				p.many = 1
			}
			for k := range hosts {
				tr := Transfer{Name: fmt.Sprint(k), Sources: []int{k}, Destinations: []int{hosts + k}}
				if k%2 == 0 {
					tr.Priority, tr.Weight = c.priority, c.weight
				}
				if _, err := p.Add(tr); err != nil {
					t.Fatal(err)
				}
			}
			if cut != "no step" {
				finished(t, p)
			}
			plan, err := p.Plan()
			if err != nil {
				t.Fatal(err)
			}
			sound(t, p, plan)
			for k := range hosts {
				if got, want := plan.Rate(Pair{k, hosts + k}), c.want[k%2]; !near(got, want) {
					t.Errorf("%s, %s: transfer %d has %v, want %v", c.what, cut, k, got, want)
				}
			}
		}
	}
}

// Who has enough in the middle of max-min's first program, where nearly all still have next to nothing, has what all can have at once; and who goes
// on after that comes to the same as ever.
func TestFairnessCutOffInItsFirstProgram(t *testing.T) {
	const copies = 64 // more exchanges than until somebody is asked
	var rates [][2]float64
	for range copies {
		rates = append(rates, [2]float64{110, 1000}, [2]float64{100, 1000}, [2]float64{1000, 1000}, [2]float64{1000, 1000})
	}
	for _, goesOn := range []bool{false, true} {
		enough := true
		var p *Planner
		p, err := New(star(rates...), Options{MaxMin: true, Enough: func() bool { return enough && p != nil && p.maxMin != nil }})
		if err != nil {
			t.Fatal(err)
		}
		for c := range copies {
			for _, tr := range []Transfer{{Sources: []int{4 * c, 4*c + 1}, Destinations: []int{4*c + 2}}, {Sources: []int{4 * c}, Destinations: []int{4*c + 3}}} {
				if _, err := p.Add(tr); err != nil {
					t.Fatal(err)
				}
			}
		}
		for p.maxMin == nil {
			if _, err := p.Step(); err != nil {
				t.Fatal(err)
			}
		}
		if !p.maxMin.g.master.sol.Early {
			t.Fatal("the first program has come to its end")
		}
		enough = !goesOn
		plan := finished(t, p)
		if !near(plan.Theta, 105) || plan.MinRate < plan.Theta*(1-1e-5) || plan.Throughput < 2*copies*105*(1-1e-4) {
			t.Errorf("goes on: %v; smallest %v, theta %v, throughput %v; want 105, 105 and %v", goesOn, plan.MinRate, plan.Theta, plan.Throughput, 2*copies*105)
		}
	}
}

// Weights say how pairs fare beside each other, however many pairs there are: where all weigh a thousand all fare as where all weigh 1.
func TestFairnessOfManyPairsByWeight(t *testing.T) {
	for _, c := range []struct {
		kind                             string
		hosts, transfers, sources, dests int
	}{{"star", 100, 1000, 1, 1}, {"skewed", 60, 100, 2, 5}} {
		n, ts := problem(t, topo.Shape{Kind: c.kind, Hosts: c.hosts, Seed: 4}, c.transfers, c.sources, c.dests)
		made := func(weights ...float64) (*Planner, *Plan) {
			t.Helper()
			for k := range ts {
				ts[k].Weight = weights[k%len(weights)]
			}
			return planned(t, n, Options{MaxMin: true}, ts...)
		}
		_, alike := made(1)
		_, heavy := made(1000)
		for pair, want := range alike.rates {
			if got := heavy.rates[pair]; math.Abs(got-want) > 1e-4*want {
				t.Errorf("%s: %v has %v where all weigh 1000, and %v where all weigh 1", c.kind, pair, got, want)
			}
		}
		if c.sources*c.dests > 1 {
			continue
		}
		// Each has one pipeline: fair is what they come to when all are filled together, and a little of what wide links keep free against rounding.
		spare := 1e-6 * slices.Max(n.rate)
		for _, weights := range [][]float64{{1}, {1000}, {100, 300, 1000}} {
			p, plan := made(weights...)
			rates := p.fair(p.first, slices.Clone(n.rate), p.weight)
			for i, want := range rates {
				q := p.first[i]
				if got := plan.Rate(Pair{q.demand, int(q.hosts[1])}); got < want*(1-1e-4) || got > want*(1+1e-4)+spare {
					t.Errorf("%s, weights %v: %d has %v, fair is %v", c.kind, weights, q.demand, got, want)
				}
			}
		}
	}
}

// Weights count in first plans, and in all modes where rates are shared by fairness alone.
func TestFairnessByWeightInAllModes(t *testing.T) {
	n := star([2]float64{100, 0}, [2]float64{0, 1000}, [2]float64{0, 1000}, [2]float64{0, 1000})
	ts := []Transfer{{Name: "x", Weight: 6, Sources: []int{0}, Destinations: []int{1}}, {Name: "y", Weight: 3, Sources: []int{0}, Destinations: []int{2}}, {Name: "z", Sources: []int{0}, Destinations: []int{3}}}
	for _, mode := range Modes {
		p, plan := planned(t, n, Options{Mode: mode, MaxMin: true}, ts...)
		for k, want := range []float64{60, 30, 10} {
			at := Pair{k, 1 + k}
			if got, first := plan.Rate(at), p.First().Rate(at); !near(got, want) || !near(first, want) {
				t.Errorf("%s: transfer %d has %v, at first %v; want %v", mode, k, got, first, want)
			}
		}
	}
}
