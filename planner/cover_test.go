package planner

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/freshet/freshet/internal/lp"
)

// testHubs is a switch that all hosts hear and only the first can use to send, some others perhaps, and direct links between hosts that carry both ways:
// few destinations can pass on to each other, and not all in one row.
func testHubs(hosts int, up func(h int) float64, down func(h int) float64, direct func(a, b int) float64) *Network {
	var names []string
	var links []edge
	for h := range hosts {
		names = append(names, fmt.Sprintf("h%d", h))
		links = append(links, edge{A: h, B: hosts, Rate: up(h), Back: down(h)})
	}
	at := map[[2]int32]int32{}
	for a := range hosts {
		for b := range a {
			if r := direct(a, b); r > 0 {
				at[[2]int32{int32(a), int32(b)}], at[[2]int32{int32(b), int32(a)}] = int32(2*len(links)), int32(2*len(links)+1)
				links = append(links, edge{A: a, B: b, Rate: r, Back: r})
			}
		}
	}
	n := newNetwork(hosts, append(names, "w"), links, func(path []int32, from, to int32) ([]int32, bool) {
		if c, ok := at[[2]int32{from, to}]; ok {
			return append(path, c), true
		}
		return append(path, 2*from, 2*to+1), true
	})
	return n
}

// claw is a network of hosts that pass on to the second one alone, and it to each of them; what the first one has goes out by a link of 900.
func claw(hosts int) *Network {
	return testHubs(hosts, func(h int) float64 {
		if h == 0 {
			return 900
		}
		return 0
	}, func(int) float64 { return 10000 }, func(a, b int) float64 {
		if a > 1 && b == 1 {
			return 10000
		}
		return 0
	})
}

// Three hosts can pass on to a fourth alone, and it to each of them. Where each is served once the source's link is crossed twice at least; but
// three pipelines that cross it once each serve everybody with two thirds of it.
func TestThetaOfSeveralPipelines(t *testing.T) {
	n := claw(5)
	x := Transfer{Name: "x", Sources: []int{0}, Destinations: []int{1, 2, 3, 4}}
	_, plan := planned(t, n, Options{Floor: 1}, x)
	if !near(plan.Theta, 600) || !near(plan.MinRate, 600) || !near(plan.Bound, plan.Throughput) {
		t.Errorf("theta %v, smallest rate %v, throughput %v, bound %v (%s); want 600, 600", plan.Theta, plan.MinRate, plan.Throughput, plan.Bound, plan.BoundBy)
	}
	if _, plan := planned(t, n, Options{MaxMin: true}, x); !near(plan.Theta, 600) || !near(plan.MinRate, 600) {
		t.Errorf("max-min: theta %v, smallest rate %v; want 600", plan.Theta, plan.MinRate)
	}
}

// With more destinations pipelines are found greedily, but not only those that serve each destination once.
func TestThetaOfManyDestinations(t *testing.T) {
	n := claw(few + 4)
	x := Transfer{Name: "x", Sources: []int{0}}
	for h := 1; h < few+4; h++ {
		x.Destinations = append(x.Destinations, h)
	}
	// Each pipeline has two hosts beside the one that passes on; there are few + 2 of them.
	if p, plan := planned(t, n, Options{Floor: 1}, x); !near(plan.Theta, 900/(float64(few+2)/2)) || p.theta.bound < plan.Theta {
		t.Errorf("theta %v, at most %v; want %v", plan.Theta, p.theta.bound, 900/(float64(few+2)/2))
	}
}

// With very many each is served once: to look for covers would take minutes.
func TestThetaOfVeryManyDestinations(t *testing.T) {
	n := claw(mostCovered + 4)
	x := Transfer{Name: "x", Sources: []int{0}}
	for h := 1; h < mostCovered+4; h++ {
		x.Destinations = append(x.Destinations, h)
	}
	p, plan := planned(t, n, Options{Floor: 1}, x)
	if !near(plan.Theta, 900./(mostCovered+1)) {
		t.Errorf("theta %v, want %v", plan.Theta, 900./(mostCovered+1))
	}
	for _, shares := range p.theta.shares {
		if shares != nil {
			t.Fatal("a cover was looked for")
		}
	}
}

// randomHubs has links and rates by chance.
func randomHubs(rng *rand.Rand, hosts int) *Network {
	rate := func() float64 { return float64(100 * (1 + rng.IntN(10))) }
	return testHubs(hosts, func(h int) float64 {
		if h > 1 && rng.IntN(4) > 0 {
			return 0
		}
		return rate()
	}, func(int) float64 { return 10 * rate() }, func(int, int) float64 {
		if rng.IntN(2) == 0 {
			return 0
		}
		return 10 * rate()
	})
}

// The optimum and theta where destinations have to take from several pipelines.
func TestOptimumOnHubs(t *testing.T) {
	several := 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 71))
		share := []float64{0.5, 0.9}[seed%2]
		p, err := New(randomHubs(rng, 5+rng.IntN(2)), Options{Floor: share, Gap: 1e-7})
		if err != nil {
			t.Fatal(err)
		}
		someTransfers(t, rng, p, 1+rng.IntN(3), 5, false)
		plan := finished(t, p)
		if p.Pairs() == 0 {
			continue
		}
		want, theta := brute(t, p, share)
		if math.Abs(plan.Theta-theta) > 2e-4*(1+theta) || p.theta.bound < theta*(1-1e-7) {
			t.Fatalf("seed %d: theta %v, at most %v; want %v", seed, plan.Theta, p.theta.bound, theta)
		}
		if math.Abs(plan.Throughput-want) > 2e-4*(1+want) || math.Abs(plan.Bound-want) > 2e-4*(1+want) {
			t.Fatalf("seed %d, floor %v: throughput %v, bound %v (%s); the optimum over all pipelines is %v", seed, share, plan.Throughput, plan.Bound, plan.BoundBy, want)
		}
		for j, r := range p.theta.rates {
			if p.theta.shares[j] != nil && r > 1e-6*theta {
				several++
				break
			}
		}
	}
	if several < 20 {
		t.Errorf("in %d of 400 cases destinations had to take from several pipelines: too few to tell", several)
	}
}

// What all can have at once is found greedily where destinations are many, and may be less than what the plan gives to each: then it is that.
func TestThetaIsNoLessThanAllHave(t *testing.T) {
	for _, o := range []Options{{Floor: 1}, {MaxMin: true}} {
		rng := rand.New(rand.NewPCG(6, 79))
		n := randomHubs(rng, few+3)
		s, d := n.draw(rng, 1, few+1)
		p, plan := planned(t, n, o, Transfer{Sources: ints(s), Destinations: ints(d)})
		if p.theta.theta > plan.MinRate*(1-1e-3) {
			t.Fatalf("%+v: theta %v, the smallest rate %v: nothing to tell", o, p.theta.theta, plan.MinRate)
		}
		if plan.Theta != plan.MinRate || plan.Theta > p.theta.bound {
			t.Errorf("%+v: theta %v, at most %v; the smallest rate is %v", o, plan.Theta, p.theta.bound, plan.MinRate)
		}
	}
}

// A cover is the cheapest that there is, and what is proved of it is no more than that.
func TestCover(t *testing.T) {
	cheaper := 0
	for seed := range uint64(1000) {
		rng := rand.New(rand.NewPCG(seed, 72))
		ns, nd := 1+rng.IntN(2), 1+rng.IntN(5)
		n := randomHubs(rng, ns+nd+rng.IntN(2))
		var s, d []int32
		for h := range int32(ns + nd) { // the first can send
			if int(h) < ns {
				s = append(s, h)
			} else {
				d = append(d, h)
			}
		}
		p := &pricer{net: n, price: testPrices(rng, n)}
		l := n.legs(s, d)
		p.legCosts.of(l, p.price)
		got, least := p.cover(&p.legCosts, true)
		greedy, _ := p.cover(&p.legCosts, false)
		want := cheapestCover(t, p, s, d)
		if math.Abs(got.cost-want) > 1e-6*(1+want) || least > want+1e-9 || least < want-1e-6*(1+want) || greedy.cost < want-1e-6*(1+want) {
			t.Fatalf("seed %d: a cover of %v, at least %v, greedily %v; the cheapest is %v", seed, got.cost, least, greedy.cost, want)
		}
		for _, c := range []cover{got, greedy} {
			has, cost := make([]float64, nd), 0.0
			for i, row := range c.rows {
				before := int32(root)
				for _, k := range row {
					has[k] += c.shares[i]
					cost += c.shares[i] * p.legCosts.step(before, k)
					before = k
				}
			}
			for k, h := range has {
				if h < 1-1e-12 {
					t.Fatalf("seed %d: destination %d has %v", seed, k, h)
				}
			}
			if math.Abs(cost-c.cost) > 1e-9*(1+cost) {
				t.Fatalf("seed %d: it costs %v, said was %v", seed, cost, c.cost)
			}
		}
		if _, profit := p.over(l, make([]float64, nd), true); want < -profit-1e-6 {
			cheaper++
		}
	}
	if cheaper < 20 {
		t.Errorf("%d of 1000 covers are cheaper than serving each once: too few to tell", cheaper)
	}
}

// Who has enough waits for no cover: the cheapest ways to all are one.
func TestEnoughOfCover(t *testing.T) {
	const hosts = 100 // more than exchanges until somebody is asked
	n := claw(hosts)
	var dests []int32
	for h := range int32(hosts - 1) {
		dests = append(dests, h+1)
	}
	price := make([]float64, len(n.rate))
	price[n.capacity[0]] = 1
	p := &pricer{net: n, price: price}
	p.legCosts.of(n.legs([]int32{0}, dests), price)
	whole, _ := p.cover(&p.legCosts, false)
	asked := 0
	greedily(&p.legCosts, make([]float64, p.legCosts.n), true, func() bool { asked++; return false })
	n.enough = func() bool { asked--; return asked < 0 } // once those that serve each once are there
	if got, _ := p.cover(&p.legCosts, false); got.cost != hosts-1 || whole.cost > hosts-2 || asked != -1 {
		t.Errorf("a cover of %v, want %v; the whole one is %v", got.cost, hosts-1, whole.cost)
	}
}

// cheapestCover is what the cheapest one costs, of all pipelines that there are.
func cheapestCover(t *testing.T, p *pricer, sources, dests []int32) float64 {
	t.Helper()
	prog := &lp.Program{}
	rows := map[int32]int32{}
	for _, h := range dests {
		rows[h], _ = prog.Floor(1, 1000)
	}
	for _, q := range all(p.net, 0, sources, dests) {
		cost := 0.0
		for _, u := range q.use {
			cost += u.times * p.price[u.capacity]
		}
		var entries []lp.Entry
		for _, h := range q.hosts[1:] {
			entries = append(entries, lp.Entry{At: rows[h], Value: -1})
		}
		prog.Column(-cost, entries...)
	}
	sol, err := (&lp.Simplex{}).Solve(prog)
	if err != nil {
		t.Fatal(err)
	}
	value, _, err := prog.Check(sol)
	if err != nil {
		t.Fatal(err)
	}
	return -value
}
