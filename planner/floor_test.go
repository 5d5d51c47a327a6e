package planner

import (
	"cmp"
	"math"
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
		}, func(p *Planner) bool { return len(p.proofs) == 1 }},
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
		var last *colgen
		for more := true; more && (last == nil || !last.master.sol.Early); last = cmp.Or(p.weighed, p.free) {
			if more, err = p.Step(); err != nil {
				t.Fatal(err)
			}
		}
		if !last.master.sol.Early {
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
	if len(p.floored.floorRows) == 0 {
		t.Fatal("no floor has a row")
	}
	h := p.floored.floorRows[0]
	p.Remove(h.demand)
	if err := p.floored.solve(); err != nil {
		t.Fatal(err)
	}
	y := p.floored.master.sol.Y
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
						g.master.sol.X[column] *= 1 - 5e-4
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

// However wide some links are beside others, theta is found and floors are held.
func TestThinBesideWide(t *testing.T) {
	for _, c := range []struct {
		net, transfers string
		theta          float64
	}{
		{ // a tree
			`{hosts: [{name: h0}, {name: h1}, {name: h2}, {name: h3}, {name: h4}, {name: h5}, {name: h6}], switches: [s0, s1, s2, s3, s4, s5], links: [
			{a: s1, b: s0, rate: 3144636B/s}, {a: s2, b: s0, rate: 1.84B/s}, {a: s3, b: s1, rate: 5821B/s}, {a: s4, b: s2, rate: 0.2168B/s, rate_back: 4228B/s},
			{a: s5, b: s1, rate: 12208B/s, rate_back: 0.18582B/s}, {a: h2, b: s3, rate: 4276041B/s}, {a: h6, b: s3, rate: 29595B/s, rate_back: 28184522643B/s},
			{a: h1, b: s4, rate: 0.2627B/s, rate_back: 3415860B/s}, {a: h5, b: s3, rate: 1062B/s, rate_back: 1634664B/s}, {a: h0, b: s3, rate: 522481039B/s, duplex: half},
			{a: h4, b: s5, rate: 0.2077B/s}, {a: h3, b: s0, rate: 1187B/s, rate_back: 9286977B/s}]}`,
			`transfers: [{name: t0, sources: [h6], destinations: [h4, h1, h5]}, {name: t1, sources: [h3, h1, h4], destinations: [h3, h0, h1]},
			{name: t2, sources: [h6, h1, h5], destinations: [h3, h4, h1, h5]}, {name: t3, sources: [h0, h3, h1], destinations: [h2, h6, h5, h0]}]`,
			0.18582 / 2,
		},
		{ // with cycles
			`{hosts: [{name: h0}, {name: h1}, {name: h2}, {name: h3}, {name: h4}, {name: h5}, {name: h6}, {name: h7}], switches: [s0], links: [
			{a: h5, b: s0, rate: 39.3B/s, duplex: half}, {a: h0, b: s0, rate: 3230B/s, rate_back: 63938466B/s}, {a: h4, b: s0, rate: 19930B/s, duplex: half},
			{a: h6, b: s0, rate: 363859355B/s, rate_back: 0.876B/s}, {a: h1, b: s0, rate: 1412384376B/s, rate_back: 917.6B/s},
			{a: h7, b: s0, rate: 317858871B/s, rate_back: 6651193196B/s}, {a: h2, b: s0, rate: 724339278B/s}, {a: h3, b: s0, rate: 337639B/s},
			{a: h7, b: h1, rate: 15179181232B/s, duplex: half}, {a: h0, b: h3, rate: 42651567B/s, duplex: half}, {a: h3, b: h7, rate: 14106080214B/s}]}`,
			`transfers: [{name: t0, sources: [h7, h1, h2], destinations: [h2, h5, h3, h6]}, {name: t1, sources: [h4, h1, h5], destinations: [h5, h6, h2, h7]},
			{name: t2, sources: [h6], destinations: [h1, h2]}]`,
			0.876 / 2,
		},
		{ // whose programs no solver had an answer for
			`{hosts: [{name: h0}, {name: h2}, {name: h4}, {name: h5}, {name: h6}], switches: [s0, s1, s2, s3], links: [
			{a: s1, b: s0, rate: 50e9B/s}, {a: s2, b: s1, rate: 4e6B/s}, {a: s3, b: s1, rate: 4e6B/s}, {a: h4, b: s0, rate: 2e9B/s}, {a: h0, b: s2, rate: 2e6B/s},
			{a: h5, b: s0, rate: 144B/s}, {a: h2, b: s1, rate: 3e8B/s}, {a: h6, b: s3, rate: 148B/s}]}`,
			`transfers: [{name: t1, sources: [h2], destinations: [h0, h4, h5]}, {name: t2, sources: [h6], destinations: [h0]}]`,
			144,
		},
	} {
		net, err := topo.Parse([]byte(c.net))
		if err != nil {
			t.Fatal(err)
		}
		g := topo.NewGraph(net)
		ts, err := ParseTransfers([]byte(c.transfers), g)
		if err != nil {
			t.Fatal(err)
		}
		for _, floor := range []float64{0.5, 1} {
			_, plan := planned(t, On(g), Options{Floor: floor}, ts...)
			if math.Abs(plan.Theta/c.theta-1) > 1e-3 || plan.MinRate < floor*c.theta*(1-1e-3) || plan.Gap > 2e-3 {
				t.Errorf("floor %v: theta %v, want %v; smallest %v, gap %v", floor, plan.Theta, c.theta, plan.MinRate, plan.Gap)
			}
		}
	}
}
