package planner

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/internal/lp"
	"github.com/freshet/freshet/topo"
	"github.com/freshet/freshet/unit"
)

// edge is one link of newNetwork.
type edge struct {
	A, B       int     // places
	Rate, Back float64 // bytes per second, A → B and B → A
	Half       bool    // both directions share Rate
}

// newNetwork returns the network of these places, the first of which are hosts. If there is a route, it is no tree.
func newNetwork(hosts int, names []string, links []edge, route func(path []int32, from, to int32) ([]int32, bool)) *Network {
	net := &topo.Network{}
	for p, name := range names {
		if p < hosts {
			net.Hosts = append(net.Hosts, topo.Host{Name: name})
		} else {
			net.Switches = append(net.Switches, topo.Switch{Name: name})
		}
	}
	for _, l := range links {
		net.Links = append(net.Links, topo.Link{A: names[l.A], B: names[l.B], Rate: unit.Bandwidth(l.Rate), Back: unit.Bandwidth(l.Back), Half: l.Half})
	}
	n := On(topo.NewGraph(net))
	if route != nil {
		n.tree, n.route = false, route
	}
	return n
}

// star is hosts on one switch: up and down rates by host.
func star(rates ...[2]float64) *Network {
	var names []string
	var links []edge
	for i, r := range rates {
		names = append(names, fmt.Sprintf("h%d", i+1))
		links = append(links, edge{A: i, B: len(rates), Rate: r[0], Back: r[1]})
	}
	return newNetwork(len(rates), append(names, "s0"), links, nil)
}

// having is a planner that has these transfers, and has planned nothing yet.
func having(t testing.TB, n *Network, o Options, ts ...Transfer) *Planner {
	t.Helper()
	p, err := New(n, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range ts {
		if _, err := p.Add(tr); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func planned(t *testing.T, n *Network, o Options, ts ...Transfer) (*Planner, *Plan) {
	t.Helper()
	p := having(t, n, o, ts...)
	return p, finished(t, p)
}

func finished(t *testing.T, p *Planner) *Plan {
	t.Helper()
	for more := true; more; {
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
	return plan
}

// sound fails unless a plan can be carried out and is what it says of itself.
func sound(t *testing.T, p *Planner, plan *Plan) {
	t.Helper()
	load := make([]float64, len(p.net.capacity)) // by channel
	sum := 0.0
	rates := map[Pair]float64{}
	for _, f := range plan.Flows {
		d := p.demands[f.Transfer]
		if !slices.Contains(d.sources, int32(f.Hosts[0])) || len(f.Hosts) < 2 || !(f.Rate > 0) {
			t.Fatalf("%v is no flow of transfer %d", f, f.Transfer)
		}
		for i, h := range f.Hosts {
			if i == 0 {
				continue
			}
			if !slices.Contains(d.dests, int32(h)) || slices.Contains(f.Hosts[:i], h) {
				t.Fatalf("%v: host %d", f, h)
			}
			path, ok := p.net.way(nil, int32(f.Hosts[i-1]), int32(h))
			if !ok {
				t.Fatalf("%v: no way to %d", f, h)
			}
			for _, c := range path {
				load[c] += f.Rate
			}
			rates[Pair{f.Transfer, h}] += f.Rate
			sum += f.Rate
		}
	}
	used := make([]float64, len(p.net.rate))
	for c, l := range load {
		used[p.net.capacity[c]] += l
	}
	for c, l := range used {
		if l > p.net.rate[c]*(1+1e-9) {
			t.Fatalf("capacity %d carries %v of %v", c, l, p.net.rate[c])
		}
	}
	listed := make([]bool, len(load))
	for _, l := range plan.Links {
		if want := load[l.Channel]; listed[l.Channel] || !(math.Abs(l.Load-want) <= 1e-9*want) || want == 0 || l.Rate != p.net.said[p.net.capacity[l.Channel]] {
			t.Fatalf("%+v: flows load it with %v of %v; listed before: %v", l, want, p.net.said[p.net.capacity[l.Channel]], listed[l.Channel])
		}
		listed[l.Channel] = true
	}
	for c, l := range load {
		if l > 0 && !listed[c] {
			t.Fatalf("channel %d carries %v and is not listed", c, l)
		}
	}
	if math.Abs(sum-plan.Throughput) > 1e-6*(1+sum) {
		t.Fatalf("throughput %v, flows have %v", plan.Throughput, sum)
	}
	if !(plan.Throughput <= plan.Bound*(1+1e-6)) {
		t.Fatalf("throughput %v above the bound %v (%s)", plan.Throughput, plan.Bound, plan.BoundBy)
	}
	least := math.Inf(1)
	for k, d := range p.demands {
		for _, h := range d.dests {
			least = min(least, rates[Pair{k, int(h)}])
		}
	}
	if !math.IsInf(least, 1) && math.Abs(least-plan.MinRate) > 1e-6*(1+least) {
		t.Fatalf("smallest rate %v, flows have %v", plan.MinRate, least)
	}
	if plan.Mode == Optimal && plan.Floor > 0 && plan.MinRate < plan.Floor*(1-1e-6) {
		t.Fatalf("smallest rate %v below the floor %v", plan.MinRate, plan.Floor)
	}
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-4*(1+math.Abs(want)) }

// One switch; the paper's growth serves all three in one pipeline of 300, though 1600 would come in with disjoint ranges.
func TestExampleA(t *testing.T) {
	n := star([2]float64{800, 0}, [2]float64{300, 500}, [2]float64{600, 400}, [2]float64{200, 700})
	x := Transfer{Name: "x", Sources: []int{0}, Destinations: []int{1, 2, 3}}
	p, plan := planned(t, n, Options{Mode: Pipeline}, x)
	if got := fmt.Sprint(plan.Flows); !near(plan.Throughput, 900) || len(plan.Flows) != 1 || plan.Flows[0].Hosts[3] != 3 {
		t.Errorf("the paper's plan: %s, throughput %v; want one pipeline ending at h4, 900", got, plan.Throughput)
	}
	if !near(plan.Bound, 1600) || !near(plan.Gap, 1-900./1600) {
		t.Errorf("bound %v, gap %v; want 1600 and %v", plan.Bound, plan.Gap, 1-900./1600)
	}
	best, err := p.In(Optimal)
	if err != nil {
		t.Fatal(err)
	}
	sound(t, p, best)
	if !near(best.Throughput, 1600) {
		t.Errorf("the optimum is %v, want 1600", best.Throughput)
	}
}

// Two sources: the paper's growth gives the switch to the first one.
func TestExampleB(t *testing.T) {
	n := star([2]float64{1000, 0}, [2]float64{900, 0}, [2]float64{100, 1000}, [2]float64{100, 1000})
	x := Transfer{Name: "x", Sources: []int{0, 1}, Destinations: []int{2, 3}}
	for mode, want := range map[string]float64{Pipeline: 200, Exact: 1900, Optimal: 2000} {
		if _, plan := planned(t, n, Options{Mode: mode}, x); !near(plan.Throughput, want) {
			t.Errorf("%s: %v, want %v", mode, plan.Throughput, want)
		}
	}
	d, _, _ := n.normal(0, x)
	if _, width, _ := n.widest(d.sub); width != 900 {
		t.Errorf("widest bottleneck %v, want 900", width)
	}
}

// X (3 destinations, one behind 600) and Y (1) share a link of 900.
func TestExampleC(t *testing.T) {
	var links []edge
	link := func(a, b int, rate float64) { links = append(links, edge{A: a, B: b, Rate: rate, Back: rate}) }
	link(0, 6, 2000) // x's source
	link(1, 6, 2000) // y's source
	link(2, 7, 2000)
	link(3, 7, 2000)
	link(4, 7, 600)
	link(5, 7, 2000) // y's destination
	link(6, 7, 900)
	n := newNetwork(6, []string{"x", "y", "x1", "x2", "x3", "y1", "s0", "s1"}, links, nil)
	x := Transfer{Name: "X", Sources: []int{0}, Destinations: []int{2, 3, 4}}
	y := Transfer{Name: "Y", Sources: []int{1}, Destinations: []int{5}}
	if _, plan := planned(t, n, Options{Mode: Pipeline}, x, y); !near(plan.Throughput, 2100) || !near(plan.Rate(Pair{0, 4}), 600) || !near(plan.Rate(Pair{1, 5}), 300) {
		t.Errorf("throughput %v, x %v, y %v; want 2100, 600, 300", plan.Throughput, plan.Rate(Pair{0, 4}), plan.Rate(Pair{1, 5}))
	}
	if _, plan := planned(t, n, Options{Mode: Pipeline, MaxMin: true}, x, y); !near(plan.Throughput, 1800) || !near(plan.MinRate, 450) {
		t.Errorf("max-min: throughput %v, smallest rate %v; want 1800, 450", plan.Throughput, plan.MinRate)
	}
	// All can have 450 at once. A floor of all of it leaves Y that.
	if _, plan := planned(t, n, Options{Floor: 1}, x, y); !near(plan.Theta, 450) || !near(plan.MinRate, 450) || !near(plan.Throughput, 1800) {
		t.Errorf("floor 1: theta %v, smallest %v, throughput %v; want 450, 450, 1800", plan.Theta, plan.MinRate, plan.Throughput)
	}
	// Weight and priority turn it round.
	y.Weight = 5
	if _, plan := planned(t, n, Options{}, x, y); !near(plan.Rate(Pair{1, 5}), 900) {
		t.Errorf("y of weight 5 has %v, want 900", plan.Rate(Pair{1, 5}))
	}
	y.Weight, y.Priority = 0, 1
	if _, plan := planned(t, n, Options{}, x, y); !near(plan.Rate(Pair{1, 5}), 900) {
		t.Errorf("y of priority 1 has %v, want 900", plan.Rate(Pair{1, 5}))
	}
}

// What is proved is of plans that hold the floor, not a little more.
func TestBoundIsOfTheFloorItself(t *testing.T) {
	// Example C: what Y has more takes three times as much from X.
	n := newNetwork(6, []string{"x", "y", "x1", "x2", "x3", "y1", "s0", "s1"}, []edge{
		{0, 6, 2000, 2000, false}, {1, 6, 2000, 2000, false}, {2, 7, 2000, 2000, false}, {3, 7, 2000, 2000, false}, {4, 7, 600, 600, false}, {5, 7, 2000, 2000, false}, {6, 7, 900, 900, false},
	}, nil)
	x, y := Transfer{Name: "X", Sources: []int{0}, Destinations: []int{2, 3, 4}}, Transfer{Name: "Y", Sources: []int{1}, Destinations: []int{5}}
	_, plan := planned(t, n, Options{Floor: 0.9}, x, y)
	if want := 2700 - 2*plan.Floor; plan.BoundBy != "pipelines with floors" || plan.Bound < want*(1-1e-9) || plan.Bound > want*(1+1e-6) {
		t.Errorf("bound %.9g (%s), the optimum is %.9g", plan.Bound, plan.BoundBy, want)
	}
}

// A floor of all that everybody can have at once is held, but for two millionths, and its bound is proved.
func TestFloorOfAll(t *testing.T) {
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 51))
		n := testTree(rng, 1+rng.IntN(4), 4+rng.IntN(4), false)
		if seed%3 == 2 {
			n = testGraph(rng, 3+rng.IntN(3), 4+rng.IntN(3))
		}
		p, err := New(n, Options{Floor: 1})
		if err != nil {
			t.Fatal(err)
		}
		someTransfers(t, rng, p, 1+rng.IntN(3), 4, false)
		plan := finished(t, p)
		if plan.MinRate < plan.Floor*(1-1e-9) || plan.Floor < plan.Theta*(1-1.01*allBut) || plan.Bound > p.floored.bound*(1+1e-9) {
			t.Errorf("seed %d: smallest %.9g, floor %.9g, theta %.9g, bound %.9g (%s), with floors %.9g", seed, plan.MinRate, plan.Floor, plan.Theta, plan.Bound, plan.BoundBy, p.floored.bound)
		}
	}
}

// What one very thin link lacks by rounding nobody else pays for, and who is behind it is not starved.
func TestThinLinks(t *testing.T) {
	for _, thin := range []float64{1, 1e3} { // of 10⁹
		for _, floor := range []float64{0, 0.5, 1} {
			var rates [][2]float64
			for range 12 {
				rates = append(rates, [2]float64{1e9, 1e9})
			}
			n := star(append(rates, [2]float64{thin, thin})...)
			_, plan := planned(t, n, Options{Floor: floor},
				Transfer{Name: "x", Sources: []int{0, 1}, Destinations: []int{2, 3, 4, 5, 6, 7}}, Transfer{Name: "y", Sources: []int{2, 3}, Destinations: []int{8, 9, 10, 11}},
				Transfer{Name: "z", Sources: []int{4}, Destinations: []int{12, 0}})
			if got := plan.Rate(Pair{2, 12}); plan.Throughput < plan.Bound*(1-1e-6) || len(plan.Starved) > 0 || got < thin*(1-1e-3) && floor == 0 || got < floor*thin*(1-1e-3) || plan.Throughput < 1e10 {
				t.Errorf("a link of %g, floor %g: throughput %.9g of %.9g, %.9g behind it, starved %v", thin, floor, plan.Throughput, plan.Bound, got, plan.Starved)
			}
		}
	}
}

// Everything that the paper's text leaves open or has wrong.
func TestCorrections(t *testing.T) {
	even := [2]float64{1000, 1000}
	t.Run("ties: a source nearby comes before one that is found first", func(t *testing.T) {
		var links []edge
		for _, ends := range [][2]int{{8, 9}, {0, 8}, {2, 8}, {3, 8}, {4, 8}, {1, 9}, {5, 9}, {6, 9}, {7, 9}} {
			links = append(links, edge{A: ends[0], B: ends[1], Rate: 1000, Back: 1000})
		}
		n := newNetwork(8, []string{"a", "b", "a1", "a2", "a3", "b1", "b2", "b3", "s0", "s1"}, links, nil)
		d, _, err := n.normal(0, Transfer{Sources: []int{0, 1}, Destinations: []int{2, 3, 4, 5, 6, 7}})
		if err != nil {
			t.Fatal(err)
		}
		walks := n.grown(&d, n.rate)
		served(t, d.sources, d.dests, walks)
		for _, w := range walks {
			for _, h := range w[1:] {
				if (h < 5) != (w[0] == 0) {
					t.Errorf("%v: %s is served from the other switch", walks, n.names[h])
				}
			}
		}
	})
	t.Run("one switch: the paper's growth gives it to one source, the exact plan does not", func(t *testing.T) {
		n := star(even, even, even, even, even, even)
		d, _, err := n.normal(0, Transfer{Sources: []int{0, 1, 2}, Destinations: []int{3, 4, 5}})
		if err != nil {
			t.Fatal(err)
		}
		if grown := n.grown(&d, n.rate); len(grown) != 1 {
			t.Errorf("grown: %v", grown)
		}
		if exact, width, _ := n.widest(d.sub); width != 1000 || len(exact) != 3 {
			t.Errorf("exact: %v of width %v", exact, width)
		}
	})
	t.Run("what others fill up comes last, but comes", func(t *testing.T) {
		n := star(even, even, even, even)
		d, _, err := n.normal(0, Transfer{Sources: []int{0, 1}, Destinations: []int{2, 3}})
		if err != nil {
			t.Fatal(err)
		}
		have := slices.Clone(n.rate)
		have[n.capacity[0]] = 0 // the first source's way out
		walks := n.grown(&d, have)
		served(t, d.sources, d.dests, walks)
		if len(walks) != 1 || walks[0][0] != 1 {
			t.Errorf("%v, want all from the second source", walks)
		}
		have[n.capacity[2]] = 0
		served(t, d.sources, d.dests, n.grown(&d, have))
	})
	t.Run("multiplicity: a link that is crossed twice counts twice", func(t *testing.T) {
		// From s over to far1, back to near, and over once more to far2.
		n := newNetwork(4, []string{"s", "near", "far1", "far2", "s0", "s1"}, []edge{
			{4, 5, 1000, 1000, false}, {0, 4, 1000, 1000, false}, {1, 4, 1000, 1000, false}, {2, 5, 1000, 1000, false}, {3, 5, 1000, 1000, false},
		}, nil)
		const over = 0 // the channel
		p, ok := n.pipe(0, []int32{0, 2, 1, 3})
		if !ok || len(p.use) != 8 {
			t.Fatalf("%v", p)
		}
		for _, u := range p.use {
			if want := map[bool]float64{true: 2, false: 1}[u.capacity == n.capacity[over]]; u.times != want {
				t.Errorf("capacity %d is used %v times, want %v", u.capacity, u.times, want)
			}
		}
		orders := map[string]bool{}
		for seed := range uint64(60) {
			_, plan := planned(t, n, Options{Mode: Random, Seed: seed}, Transfer{Name: "x", Sources: []int{0}, Destinations: []int{1, 2, 3}})
			order, want := fmt.Sprint(plan.Flows[0].Hosts), 1000.0
			if order == "[0 2 1 3]" || order == "[0 3 1 2]" {
				want = 500
			}
			orders[order] = true
			if i := slices.IndexFunc(plan.Links, func(l Load) bool { return l.Channel == over }); !near(plan.Flows[0].Rate, want) || !near(plan.Links[i].Load, 1000) {
				t.Errorf("%s at %v, want %v; the link carries %+v", order, plan.Flows[0].Rate, want, plan.Links[i])
			}
		}
		if len(orders) != 6 {
			t.Errorf("%d of 6 orders were drawn", len(orders))
		}
		half := newNetwork(2, []string{"a", "b", "s"}, []edge{{0, 2, 1000, 1000, true}, {1, 2, 1000, 1000, true}}, nil)
		if p, _ := half.pipe(0, []int32{0, 1, 0}); len(p.use) != 2 || p.use[0].times != 2 {
			t.Errorf("there and back over half-duplex links: %v", p.use)
		}
	})
	t.Run("a link of 0 is nobody's", func(t *testing.T) {
		n := star(even, even, [2]float64{1000, 0}, even)
		x := Transfer{Name: "x", Sources: []int{0}, Destinations: []int{1, 2, 3}}
		for _, mode := range Modes {
			_, plan := planned(t, n, Options{Mode: mode}, x)
			if len(plan.Unreachable) != 1 || plan.Unreachable[0].Destination != 2 || !strings.Contains(plan.Unreachable[0].Reason, "rate 0: s0 → h3") {
				t.Errorf("%s: unreachable %v", mode, plan.Unreachable)
			}
			if want := 2000.0; mode != Flat && !near(plan.Throughput, want) {
				t.Errorf("%s: throughput %v, want %v", mode, plan.Throughput, want)
			}
		}
	})
	t.Run("uplinks of 0: several pipelines of one source", func(t *testing.T) {
		n := star(even, [2]float64{0, 300}, [2]float64{0, 300}, [2]float64{0, 300})
		x := Transfer{Name: "x", Sources: []int{0}, Destinations: []int{1, 2, 3}}
		for _, mode := range Modes {
			if _, plan := planned(t, n, Options{Mode: mode, Floor: 0.5}, x); !near(plan.Throughput, 900) {
				t.Errorf("%s: throughput %v, want 900", mode, plan.Throughput)
			}
		}
	})
	t.Run("destinations that are sources, and hosts twice", func(t *testing.T) {
		n := star(even, even, even)
		_, plan := planned(t, n, Options{}, Transfer{Name: "x", Sources: []int{0, 0, 1}, Destinations: []int{1, 2, 2}})
		if !near(plan.Throughput, 1000) || plan.MinRate < 999 {
			t.Errorf("throughput %v", plan.Throughput)
		}
		_, plan = planned(t, n, Options{Floor: 0.5}, Transfer{Name: "x", Sources: []int{0}, Destinations: []int{0}})
		if plan.Throughput != 0 || plan.Bound != 0 || plan.Gap != 0 {
			t.Errorf("nothing to do: %+v", plan)
		}
	})
	t.Run("parts", func(t *testing.T) {
		n := newNetwork(4, []string{"a", "b", "c", "d"}, []edge{{0, 1, 500, 500, false}, {2, 3, 400, 400, false}}, nil)
		for _, mode := range Modes {
			_, plan := planned(t, n, Options{Mode: mode, Floor: 0.5}, Transfer{Name: "x", Sources: []int{0}, Destinations: []int{1, 3}}, Transfer{Name: "y", Sources: []int{2}, Destinations: []int{3}})
			if !near(plan.Throughput, 900) || len(plan.Unreachable) != 1 || !strings.Contains(plan.Unreachable[0].Reason, "no route") {
				t.Errorf("%s: %v, unreachable %v", mode, plan.Throughput, plan.Unreachable)
			}
		}
	})
}

func TestBadTransfers(t *testing.T) {
	n := star([2]float64{1, 1}, [2]float64{1, 1})
	for _, c := range []struct {
		t    Transfer
		want string
	}{
		{Transfer{Name: "x", Destinations: []int{1}}, "transfer x: it has no source"},
		{Transfer{Name: "x", Sources: []int{2}}, "transfer x: place 2 is not a host"},
		{Transfer{Name: "x", Sources: []int{0}, Weight: -1}, "transfer x: its weight -1"},
		{Transfer{Name: "x", Sources: []int{0}, Weight: math.NaN()}, "transfer x: its weight NaN"},
		{Transfer{Name: "x", Sources: []int{0}, Weight: 1e4}, "transfer x: its weight 10000 is not a number from 0.001 to 1000"},
	} {
		p, _ := New(n, Options{})
		if _, err := p.Add(c.t); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	for _, o := range []Options{{Mode: "best"}, {Floor: 2}, {Floor: math.NaN()}} {
		if _, err := New(n, o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

// all pipelines of a transfer: what column generation must come to without making them all.
func all(n *Network, k int, sources, dests []int32) (pipes []pipe) {
	var grow func(row []int32)
	grow = func(row []int32) {
		if len(row) > 1 {
			if p, ok := n.pipe(k, slices.Clone(row)); ok {
				pipes = append(pipes, p)
			}
		}
		for _, d := range dests {
			if !slices.Contains(row, d) {
				grow(append(row, d))
			}
		}
	}
	for _, s := range sources {
		grow([]int32{s})
	}
	return pipes
}

// brute is the optimum over all pipelines, with a floor, and theta.
func brute(t *testing.T, p *Planner, share float64) (best, theta float64) {
	t.Helper()
	solve := func(floor float64, common bool) float64 {
		m := p.net.master(p.net.rate, &lp.Simplex{})
		pairs := map[member][]lp.Entry{}
		var order []member
		for k := range p.demands {
			d := &p.demands[k]
			for _, h := range d.dests {
				order = append(order, member{k, h})
			}
			for _, q := range all(p.net, k, d.sources, d.dests) {
				objective := float64(q.served())
				if common {
					objective = 0
				}
				j := m.add(objective, q.use)
				for _, h := range q.hosts[1:] {
					pairs[member{k, h}] = append(pairs[member{k, h}], lp.Entry{At: j, Value: 1})
				}
			}
		}
		if common {
			// theta - what a pair has ≤ 0
			th := m.prog.Column(1)
			for _, o := range order {
				es := []lp.Entry{{At: th, Value: 1}}
				for _, e := range pairs[o] {
					es = append(es, lp.Entry{At: e.At, Value: -1})
				}
				m.prog.Row(0, es...)
			}
		} else if floor > 0 {
			for _, o := range order {
				m.prog.Floor(floor/m.unit, 1e5, pairs[o]...)
			}
		}
		v, err := m.solve()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if share > 0 && p.Pairs() > 0 {
		theta = solve(0, true)
	}
	return solve(share*theta, false), theta
}

func TestOptimumAgainstAllPipelines(t *testing.T) {
	for seed := range uint64(1500) {
		rng := rand.New(rand.NewPCG(seed, 5))
		n := testTree(rng, 1+rng.IntN(4), 4+rng.IntN(4), seed%4 == 0)
		share := []float64{0, 0.5, 0.9}[seed%3]
		p, err := New(n, Options{Floor: share})
		if err != nil {
			t.Fatal(err)
		}
		for k := range 1 + rng.IntN(3) {
			s, d := n.draw(rng, 1+rng.IntN(2), 1+rng.IntN(min(4, n.hosts-2)))
			if k == 0 && seed%5 == 0 {
				d = append(d, d[0], s[0])
			}
			if _, err := p.Add(Transfer{Name: fmt.Sprint(k), Sources: ints(s), Destinations: ints(d)}); err != nil {
				t.Fatal(err)
			}
		}
		plan := finished(t, p)
		want, theta := brute(t, p, share)
		if share > 0 && p.Pairs() > 0 && math.Abs(plan.Theta-theta) > 2e-5*(1+theta) {
			t.Fatalf("seed %d: theta %v, want %v", seed, plan.Theta, theta)
		}
		if math.Abs(plan.Throughput-want) > 1e-4*(1+want) || math.Abs(plan.Bound-want) > 1e-4*(1+want) {
			t.Fatalf("seed %d, floor %v: throughput %v, bound %v (%s); the optimum over all pipelines is %v", seed, share, plan.Throughput, plan.Bound, plan.BoundBy, want)
		}
		for _, mode := range Modes[:6] {
			other, err := p.In(mode)
			if err != nil {
				t.Fatal(err)
			}
			sound(t, p, other)
			if share == 0 && other.Throughput > want*(1+1e-5) {
				t.Fatalf("seed %d: %s has %v, more than the optimum %v", seed, mode, other.Throughput, want)
			}
			in := map[Pair]int{}
			for _, f := range other.Flows {
				for _, h := range f.Hosts[1:] {
					if in[Pair{f.Transfer, h}]++; in[Pair{f.Transfer, h}] > 1 {
						t.Fatalf("seed %d: %s has host %d in two flows of transfer %d", seed, mode, h, f.Transfer)
					}
				}
			}
		}
	}
}

func ints(s []int32) (out []int) {
	for _, v := range s {
		out = append(out, int(v))
	}
	return out
}
