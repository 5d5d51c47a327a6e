package planner

import (
	"cmp"
	"slices"
	"testing"

	"github.com/freshet/freshet/topo"
	"github.com/freshet/freshet/unit"
)

// Where there are many pairs, a plan is near its bound and holds the floors before there has been an exchange; in the end it is as near as ever. After a change
// a plan is there again without exchanges, too.
func TestFirstOrder(t *testing.T) {
	for _, kind := range []string{"intrigger", "fattree"} {
		for _, floor := range []float64{0, 0.5} {
			n, ts := problem(t, topo.Shape{Kind: kind, Hosts: 100, Seed: 5}, 22, 4, 10)
			p, err := New(n, Options{Floor: floor})
			if err != nil {
				t.Fatal(err)
			}
			for _, tr := range ts[:21] {
				if _, err := p.Add(tr); err != nil {
					t.Fatal(err)
				}
			}
			var soon *Plan
			var g *colgen
			for more := true; more && soon == nil; {
				if more, err = p.Step(); err != nil {
					t.Fatal(err)
				}
				if g = p.floored; floor == 0 {
					g = p.free
				}
				if value, bound := p.Bound(); g != nil && g.solved() && value > 0.985*bound {
					if soon, err = p.Plan(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if soon == nil {
				t.Fatalf("%s, floor %v: it never came near its bound", kind, floor)
			}
			sound(t, p, soon)
			if g.master.steps.Steps > 0 || soon.Throughput < 0.97*soon.Bound || soon.MinRate < p.share*(1-1e-5) {
				t.Errorf("%s, floor %v: %.4f of the bound after %d exchanges, least rate %v of %v", kind, floor, soon.Throughput/soon.Bound, g.master.steps.Steps, soon.MinRate, p.share)
			}
			t.Logf("%s, floor %v: %.4f", kind, floor, soon.Throughput/soon.Bound)
			plan := finished(t, p)
			if plan.Throughput < plan.Bound*(1-1e-3) || floor == 0 && n.tree && plan.Throughput < plan.Bound*(1-1e-5) {
				t.Errorf("%s, floor %v: %v in the end, the bound is %v", kind, floor, plan.Throughput, plan.Bound)
			}
			busy := slices.MaxFunc(plan.Links, func(a, b Load) int { return cmp.Compare(a.Load/a.Rate, b.Load/b.Rate) })
			for _, change := range []func() error{
				func() error { p.Remove(2); return nil },
				func() error { _, err := p.Add(ts[21]); return err },
				func() error { return p.SetRate(busy.Channel, busy.Rate/2) },
			} {
				if err := change(); err != nil {
					t.Fatal(err)
				}
				for more := true; more && p.stage == finding; {
					if more, err = p.Step(); err != nil {
						t.Fatal(err)
					}
				}
				if g = p.goesOn(); g == nil {
					t.Fatalf("%s, floor %v: there is no program to go on with", kind, floor)
				}
				before := g.master.steps.Steps
				quick, err := p.Plan()
				if err != nil {
					t.Fatal(err)
				}
				sound(t, p, quick)
				if g.master.steps.Steps != before || quick.MinRate < p.share*(1-1e-5) {
					t.Errorf("%s, floor %v: %d exchanges, least rate %v of %v", kind, floor, g.master.steps.Steps-before, quick.MinRate, p.share)
				}
				done := finished(t, p)
				if quick.Throughput < 0.9*done.Throughput {
					t.Errorf("%s, floor %v: at once %v, in the end %v", kind, floor, quick.Throughput, done.Throughput)
				}
				t.Logf("%s, floor %v: at once %.4f of the end", kind, floor, quick.Throughput/done.Throughput)
			}
		}
	}
}

// Whenever one stops, a plan of many pairs holds the floor, also after a change.
func TestFirstOrderHoldsFloors(t *testing.T) {
	for _, kind := range []string{"intrigger", "fattree"} {
		n, ts := problem(t, topo.Shape{Kind: kind, Hosts: 100, Seed: 6, Lo: 10 * unit.Gbit, Hi: 100 * unit.Gbit}, 22, 4, 10)
		p, err := New(n, Options{Floor: 0.5})
		if err != nil {
			t.Fatal(err)
		}
		for _, tr := range ts[:21] {
			if _, err := p.Add(tr); err != nil {
				t.Fatal(err)
			}
		}
		for _, change := range []func() error{func() error { return nil }, func() error { _, err := p.Add(ts[21]); return err }} {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			rounds := 0
			for more := true; more; {
				if more, err = p.Step(); err != nil {
					t.Fatal(err)
				}
				if p.floored == nil || p.floored.pdhg == nil || !p.floored.solved() {
					continue
				}
				if rounds++; rounds > 4 {
					continue // as long as there are few pipelines
				}
				plan, err := p.Plan()
				if err != nil {
					t.Fatal(err)
				}
				sound(t, p, plan)
				if !(plan.Throughput > 0.3*plan.Bound) {
					t.Errorf("%s: %v of %v", kind, plan.Throughput, plan.Bound)
				}
			}
			if rounds == 0 {
				t.Errorf("%s: no round of PDHG", kind)
			}
		}
	}
}

// A class has as much beside lower ones as by itself, also where programs begin with PDHG.
func TestFirstOrderClasses(t *testing.T) {
	for _, kind := range []string{"intrigger", "fattree"} {
		n, ts := problem(t, topo.Shape{Kind: kind, Hosts: 100, Seed: 7}, 42, 4, 10)
		for k := range ts[:21] {
			ts[k].Priority = 1
		}
		_, alone := planned(t, n, Options{}, ts[:21]...)
		_, plan := planned(t, n, Options{}, ts...)
		if got := plan.Classes[0].Throughput; got < alone.Throughput*(1-2e-3) {
			t.Errorf("%s: %v beside another class, %v alone", kind, got, alone.Throughput)
		}
		for _, c := range plan.Classes {
			if !(c.Gap < 2e-3) {
				t.Errorf("%s: %+v", kind, c)
			}
		}
	}
}
