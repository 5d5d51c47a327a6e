package planner

import (
	"cmp"
	"slices"
	"testing"

	"github.com/freshet/freshet/topo"
)

// After a change on a network with cycles there is a plan again within few exchanges, which holds the floors and is nearly as good as the one in the end.
func TestPlanAtOnceAfterAChange(t *testing.T) {
	for _, floor := range []float64{0, 0.5} {
		n, ts := problem(t, topo.Shape{Kind: "fattree", Hosts: 60, Seed: 4}, 8, 3, 8)
		p, plan := planned(t, n, Options{Floor: floor}, ts[:7]...)
		busy := slices.MaxFunc(plan.Links, func(a, b Load) int { return cmp.Compare(a.Load/a.Rate, b.Load/b.Rate) })
		for _, c := range []struct {
			what   string
			change func() error
		}{
			{"one less", func() error { p.Remove(2); return nil }},
			{"one more", func() error { _, err := p.Add(ts[7]); return err }},
			{"a narrower link", func() error { return p.SetRate(busy.Channel, busy.Rate/2) }},
			{"a wider link", func() error { return p.SetRate(busy.Channel, busy.Rate) }},
		} {
			if err := c.change(); err != nil {
				t.Fatal(err)
			}
			for more := true; more && p.stage == finding; {
				var err error
				if more, err = p.Step(); err != nil {
					t.Fatal(err)
				}
			}
			g := p.goesOn()
			if g == nil {
				t.Fatalf("floor %v, %s: there is no program to go on with", floor, c.what)
			}
			before := g.master.steps.Steps
			quick, err := p.Plan()
			if err != nil {
				t.Fatal(err)
			}
			sound(t, p, quick)
			if steps := g.master.steps.Steps - before; steps > atOnce || p.goesOn() != g {
				t.Errorf("floor %v, %s: %d exchanges until there is a plan", floor, c.what, steps)
			}
			if quick.MinRate < p.share*(1-1e-5) {
				t.Errorf("floor %v, %s: a pair has %v, less than the %v that all are to have", floor, c.what, quick.MinRate, p.share)
			}
			done := finished(t, p)
			if quick.Throughput < 0.85*done.Throughput {
				t.Errorf("floor %v, %s: at once %v, in the end %v", floor, c.what, quick.Throughput, done.Throughput)
			}
			t.Logf("floor %v, %s: at once %.4f of the end", floor, c.what, quick.Throughput/done.Throughput)
		}
	}
}

// What has been taken out is in no plan, also if exchanges end before they have come to it, and those that there are have what it had.
func TestGoneIsInNoPlan(t *testing.T) {
	const transfers, stay = 150, 10 // more go than exchanges until somebody is asked
	rates := make([][2]float64, 2*transfers)
	for h := range rates {
		rates[h] = [2]float64{1000, 1000}
	}
	for _, floor := range []float64{0, 0.5} {
		enough := false
		p, err := New(star(rates...), Options{Floor: floor, Enough: func() bool { return enough }})
		if err != nil {
			t.Fatal(err)
		}
		for k := range transfers {
			if _, err := p.Add(Transfer{Sources: []int{k}, Destinations: []int{transfers + k}}); err != nil {
				t.Fatal(err)
			}
		}
		finished(t, p)
		for k := range transfers - stay {
			p.Remove(k)
		}
		enough = true
		for range 4 {
			if _, err := p.Step(); err != nil {
				t.Fatal(err)
			}
		}
		if !p.free.master.sol.Early {
			t.Fatal("the program has come to its end")
		}
		for _, mode := range []string{Optimal, Single} {
			plan, err := p.In(mode)
			if err != nil {
				t.Fatal(err)
			}
			if !near(plan.Throughput, 1000*stay) || len(plan.Flows) != stay || len(plan.Starved) > 0 {
				t.Errorf("floor %v, %s: throughput %v in %d flows, %d starved; want %d in %d", floor, mode, plan.Throughput, len(plan.Flows), len(plan.Starved), 1000*stay, stay)
			}
			sound(t, p, plan)
		}
	}
}

// Rates of nothing stay so, however wide the links.
func TestSlower(t *testing.T) {
	n := star([2]float64{1e12, 1e12}, [2]float64{1e12, 1e12}, [2]float64{1e12, 1e12})
	var pipes []pipe
	for _, hosts := range [][]int32{{0, 1}, {0, 1, 2}, {1, 2}, {2, 0}} {
		q, ok := n.pipe(0, hosts)
		if !ok {
			t.Fatal("no pipeline")
		}
		pipes = append(pipes, q)
	}
	load := make([]float64, len(n.rate))
	load[0] = 4e11 // of the first host's way out
	if got, want := n.slower(pipes, []float64{8e11, 4e11, 0, 0}, load), []float64{4e11, 2e11, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
