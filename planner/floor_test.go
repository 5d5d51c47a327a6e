package planner

import (
	"cmp"
	"strings"
	"testing"

	"github.com/freshet/freshet/topo"
)

// Who has enough before the program has come to each transfer has a floor nevertheless.
func TestFloorCutOff(t *testing.T) {
	const transfers = 100 // more than exchanges until somebody is asked
	rates := make([][2]float64, 2*transfers)
	for h := range rates {
		rates[h] = [2]float64{1000, 1000}
	}
	p, err := New(star(rates...), Options{Floor: 0.5, Enough: func() bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	for k := range transfers {
		if _, err := p.Add(Transfer{Sources: []int{k}, Destinations: []int{transfers + k}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Step(); err != nil {
		t.Fatal(err)
	}
	plan, err := p.Plan()
	if err != nil {
		t.Fatal(err)
	}
	sound(t, p, plan)
	if !near(plan.Theta, 1000) || !near(plan.Floor, 500) || len(plan.Starved) > 0 {
		t.Errorf("theta %v, floor %v, %d starved; want 1000, 500 and none", plan.Theta, plan.Floor, len(plan.Starved))
	}
}

// Without a floor, too, all have something where there is room, and all together no less than at first.
func TestOptimumCutOff(t *testing.T) {
	const transfers = 100 // more than exchanges until somebody is asked
	rates := make([][2]float64, 2*transfers)
	for h := range rates {
		rates[h] = [2]float64{1000, 1000}
	}
	for _, c := range []struct {
		what   string
		change func(k int, tr *Transfer)
		cut    func(p *Planner) bool // enough from here on
	}{
		{"alike", func(int, *Transfer) {}, func(p *Planner) bool { return true }},
		{"weights", func(k int, tr *Transfer) { tr.Weight = float64(1 + k%3) }, func(p *Planner) bool { return p.weighed != nil }},
		{"classes", func(k int, tr *Transfer) {
			if k >= 90 {
				tr.Priority = 1
			}
		}, func(p *Planner) bool { return len(p.ranks) == 1 }},
	} {
		var p *Planner
		p, err := New(star(rates...), Options{Enough: func() bool { return p != nil && c.cut(p) }})
		if err != nil {
			t.Fatal(err)
		}
		for k := range transfers {
			tr := Transfer{Sources: []int{k}, Destinations: []int{transfers + k}}
			c.change(k, &tr)
			if _, err := p.Add(tr); err != nil {
				t.Fatal(err)
			}
		}
		var last *generation
		for more := true; more && (last == nil || !last.market.sol.Early); last = cmp.Or(p.weighed, p.free) {
			if more, err = p.Step(); err != nil {
				t.Fatal(err)
			}
		}
		if !last.market.sol.Early {
			t.Fatalf("%s: the program has come to its end", c.what)
		}
		plan, err := p.Plan()
		if err != nil {
			t.Fatal(err)
		}
		sound(t, p, plan)
		if first := p.First(); len(plan.Starved) > 0 || plan.Throughput < first.Throughput*(1-1e-6) {
			t.Errorf("%s: %d starved, throughput %v, at first %v", c.what, len(plan.Starved), plan.Throughput, first.Throughput)
		}
	}
}

// What has been taken out has no floor, and a price of it lowers no bound.
func TestFloorsOfTheGone(t *testing.T) {
	n, ts := problem(t, topo.Shape{Kind: "fattree", Hosts: 60, Seed: 4}, 12, 3, 8)
	p, _ := planned(t, n, Options{Floor: 0.9}, ts...)
	if len(p.floored.held) == 0 {
		t.Fatal("no floor has a row")
	}
	h := p.floored.held[0]
	p.Remove(h.demand)
	if err := p.floored.solve(); err != nil {
		t.Fatal(err)
	}
	y := p.floored.market.sol.Y
	y[h.row] = 0
	want := p.floored.charged()
	if y[h.row] = 1; p.floored.charged() != want {
		t.Errorf("with a price of a floor that is gone %+v, without %+v", p.floored.charged(), want)
	}
}

// What the program leaves one pair short of the floor is given to it, however little that is beside what all pairs together are to have.
func TestNobodyLacksAnythingOfTheFloor(t *testing.T) {
	for _, c := range []struct {
		weight   float64
		priority int
	}{{0, 0}, {2, 0}, {0, 1}} {
		n, ts := problem(t, topo.Shape{Kind: "fattree", Hosts: 60, Seed: 4}, 12, 3, 8)
		ts[0].Weight, ts[0].Priority = c.weight, c.priority
		p, before := planned(t, n, Options{Floor: 0.9}, ts...)
		g := p.floored
		if p.weighed != nil {
			g = p.weighed
		}
		// Whoever has least has a thousandth less than that.
		var least Pair
		for k, d := range p.demands {
			for _, h := range d.dests {
				if m := (Pair{k, int(h)}); least == (Pair{}) || before.Rate(m) < before.Rate(least) {
					least = m
				}
			}
		}
		for i, column := range g.columns {
			if q := &g.pipes[i]; q.demand == least.Transfer {
				for _, h := range q.hosts[1:] {
					if int(h) == least.Destination {
						g.market.sol.X[column] *= 1 - 5e-4
						break
					}
				}
			}
		}
		plan, err := p.Plan()
		if err != nil {
			t.Fatal(err)
		}
		sound(t, p, plan)
		if plan.MinRate < p.share*(1-1e-9) {
			t.Errorf("%+v: %v of %v has %v, the floor is %v", c, least.Destination, least.Transfer, plan.Rate(least), p.share)
		}
		if plan.Bound != before.Bound || plan.Throughput < before.Throughput*(1-5e-3) {
			t.Errorf("%+v: throughput %v, bound %v (%s); before %v, %v (%s)", c, plan.Throughput, plan.Bound, plan.BoundBy, before.Throughput, before.Bound, before.BoundBy)
		}
		if c.priority > 0 && !strings.Contains(plan.Classes[1].BoundBy, "lack a little of a floor") {
			t.Errorf("%+v: the class after has the bound %v by %s", c, plan.Classes[1].Bound, plan.Classes[1].BoundBy)
		}
		if c.priority > 0 { // as where the time ends before the program for all classes has begun
			p.weighed = nil
			if plan, err = p.Plan(); err != nil || !strings.Contains(plan.Classes[1].BoundBy, "planning ended before all had the floor") {
				t.Errorf("%+v: without that program the class after has the bound %v by %s, %v", c, plan.Classes[1].Bound, plan.Classes[1].BoundBy, err)
			}
		}
	}
}
