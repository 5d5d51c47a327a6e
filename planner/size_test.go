package planner

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/topo"
)

// allocated is how many bytes f takes in all.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A link that is as wide as a file may say leaves a plan as good as any that is wide enough.
func TestUnlimitedLinks(t *testing.T) {
	const unlimited = 125e15
	names := []string{"h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "h9", "h10", "s0", "s1"}
	network := func(wide float64, servers []int) *Network {
		links := []edge{{A: 11, B: 12, Rate: wide, Back: wide}}
		for h := range 11 {
			rate := 125e5 * (0.5 + float64(h*7%10)/20)
			if slices.Contains(servers, h) {
				rate = wide
			}
			links = append(links, edge{A: h, B: 11 + h%2, Rate: rate, Back: rate})
		}
		return newNetwork(11, names, links, nil)
	}
	ts := []Transfer{
		{Name: "x", Sources: []int{0, 1}, Destinations: []int{3, 5, 6, 8}},
		{Name: "y", Sources: []int{4}, Destinations: []int{1, 2, 7}},
		{Name: "z", Sources: []int{9}, Destinations: []int{0, 2, 4}},
	}
	for _, servers := range [][]int{nil, {0}, {0, 1}, {0, 10}} { // h10 is in no transfer
		for _, o := range []Options{{}, {Floor: 0.5}, {MaxMin: true}} {
			_, want := planned(t, network(125e7, servers), o, ts...)
			p, plan := planned(t, network(unlimited, servers), o, ts...)
			sound(t, p, plan)
			same := func(got, want float64) bool { return math.Abs(got-want) <= 1e-5*want }
			if !same(plan.Throughput, want.Throughput) || !same(plan.Bound, want.Bound) || (o.Floor > 0 || o.MaxMin) && !same(plan.MinRate, want.MinRate) || !same(plan.Theta, want.Theta) {
				t.Errorf("%+v, servers %v: throughput %v, bound %v, smallest %v, theta %v; with wide links %v, %v, %v, %v", o, servers,
					plan.Throughput, plan.Bound, plan.MinRate, plan.Theta, want.Throughput, want.Bound, want.MinRate, want.Theta)
			}
			if i := slices.IndexFunc(plan.Links, func(l Load) bool { return l.Channel == 0 }); i < 0 || plan.Links[i].Rate != unlimited {
				t.Errorf("the trunk is not said to be as wide as it is")
			}
			if err := p.SetRate(0, 125e4); err != nil {
				t.Fatal(err)
			}
			if again := finished(t, p); again.Throughput >= plan.Throughput {
				t.Errorf("with a thin trunk %v, before %v", again.Throughput, plan.Throughput)
			}
		}
	}
}

// Of very many sources whose own links carry nothing each destination is told three, and how many more there are.
func TestUnreachableFromMany(t *testing.T) {
	const sources, dests = 2000, 300
	rates := make([][2]float64, sources+dests)
	all := make([]int, sources+dests)
	for h := range rates {
		all[h] = h
		if rates[h][1] = 1000; h >= sources {
			rates[h][0] = 1000
		}
	}
	n := star(rates...)
	var lost []Unreachable
	var err error
	got := allocated(func() { _, lost, err = n.normal(0, Transfer{Sources: all[:sources], Destinations: all[sources:]}) })
	if err != nil || len(lost) != dests {
		t.Fatalf("%d cannot be reached, %v", len(lost), err)
	}
	for _, u := range lost {
		if want := "every route from its sources crosses a link of rate 0: h1 → s0, h2 → s0, h3 → s0, 1997 more"; u.Reason != want {
			t.Fatalf("host %d: %s, want %s", u.Destination, u.Reason, want)
		}
	}
	if got > 5<<20 {
		t.Errorf("it took %d MB of memory", got>>20)
	}
}

// Of very many sources and destinations not each with each is asked for a way, whether there is one or not.
func TestAsksForFewWays(t *testing.T) {
	const sources, dests = 2000, 2000
	all := make([]int, sources+dests)
	for h := range all {
		all[h] = h
	}
	for _, feeds := range []int{-1, 0, sources - 1} { // the source whose own link carries something
		rates := make([][2]float64, sources+dests)
		for h := range rates {
			rates[h] = [2]float64{0, 1000}
		}
		if feeds >= 0 {
			rates[feeds][0] = 1000
		}
		n := star(rates...)
		asked := 0
		n.tree, n.route = false, func(path []int32, from, to int32) ([]int32, bool) { // up from a host, and down to another
			asked++
			path = append(path, n.out[from][0])
			if to < int32(n.hosts) {
				path = append(path, n.out[to][0]^1)
			}
			return path, true
		}
		d, lost, err := n.normal(0, Transfer{Sources: all[:sources], Destinations: all[sources:]})
		if err != nil {
			t.Fatal(err)
		}
		want := dests
		if feeds < 0 {
			want = 0
		}
		if len(d.dests) != want || len(d.dests)+len(lost) != dests {
			t.Errorf("%d can be reached, %d cannot; want %d", len(d.dests), len(lost), want)
		}
		if asked > 2*(sources+dests) {
			t.Errorf("asked for %d ways", asked)
		}
	}
}

// Who is reached is who has a way from a source, or from one who is, and each is told the reason of its own.
func TestReached(t *testing.T) {
	shared := 0
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 61))
		ns, nd := 1+rng.IntN(4), 2+rng.IntN(10)
		var n *Network
		if seed%2 == 0 {
			n = testTree(rng, 1+rng.IntN(6), ns+nd, true)
		} else {
			n = testGraph(rng, 3+rng.IntN(4), ns+nd)
		}
		for c := range n.rate {
			if rng.IntN(6) == 0 {
				n.rate[c], n.said[c] = 0, 0
			}
		}
		s, d := n.draw(rng, ns, nd)
		from := slices.Clone(s)
		want := map[int32]bool{}
		for len(from) > 0 {
			for _, h := range d {
				if !want[h] && n.width(from[0], h) > 0 {
					want[h] = true
					from = append(from, h)
				}
			}
			from = from[1:]
		}
		got, lost, err := n.normal(0, Transfer{Sources: ints(s), Destinations: ints(d)})
		if err != nil || len(got.dests) != len(want) || len(got.dests)+len(lost) != len(d) {
			t.Fatalf("seed %d: %d are reached and %d lost, %v; %d of %d can be reached", seed, len(got.dests), len(lost), err, len(want), len(d))
		}
		for _, h := range got.dests {
			if !want[h] {
				t.Fatalf("seed %d: nothing can come to %d", seed, h)
			}
		}
		reasons := map[string]bool{}
		for _, u := range lost {
			if why := n.whyNot(s, int32(u.Destination), make([]int32, len(n.capacity))); u.Reason != why {
				t.Fatalf("seed %d: %d is told %q, and its own reason is %q", seed, u.Destination, u.Reason, why)
			}
			if reasons[u.Reason] {
				shared++
			}
			reasons[u.Reason] = true
		}
	}
	if shared < 100 {
		t.Errorf("%d have the reason of another: too few to tell", shared)
	}
}

// A transfer that is refused changes nothing.
func TestRefusedChangesNoRate(t *testing.T) {
	n := star([2]float64{100, 100}, [2]float64{100, 100}, [2]float64{125e15, 125e15})
	p, before := planned(t, n, Options{}, Transfer{Name: "x", Sources: []int{0, 2}, Destinations: []int{1}})
	rate := slices.Clone(n.rate)
	if slices.Equal(rate, n.said) {
		t.Fatal("no link is planned for as a narrower one")
	}
	if _, err := p.Add(Transfer{Name: "y", Sources: []int{3}, Destinations: []int{1}}); err == nil {
		t.Fatal("no error")
	}
	if _, err := p.Step(); err != nil {
		t.Fatal(err)
	}
	if after := finished(t, p); !slices.Equal(n.rate, rate) || after.Throughput != before.Throughput {
		t.Errorf("rates %v, throughput %v; before %v, %v", n.rate, after.Throughput, rate, before.Throughput)
	}
}

// Who has enough is heard in all modes, and gets a plan that can be carried out.
func TestEnoughInAllModes(t *testing.T) {
	n, ts := problem(t, topo.Shape{Kind: "intrigger", Hosts: 200, Seed: 5}, 40, 3, 40)
	for _, mode := range Modes {
		asked := 0
		p := having(t, n, Options{Mode: mode, Enough: func() bool { asked++; return true }}, ts...)
		for range 3 {
			if _, err := p.Step(); err != nil {
				t.Fatal(err)
			}
		}
		asked = 0
		plan, err := p.Plan()
		if err != nil {
			t.Fatal(err)
		}
		sound(t, p, plan)
		if asked == 0 && (mode == Paper || mode == Single) || !(plan.Throughput > 0) || plan.Throughput > p.First().Bound*(1+1e-6) {
			t.Errorf("%s: asked %d times; throughput %v", mode, asked, plan.Throughput)
		}
		if mode == Paper {
			climbed, err := p.lay(Paper)
			if err != nil {
				t.Fatal(err)
			}
			if grown, _ := p.lay(Pipeline); !slices.EqualFunc(climbed, grown, func(a, b pipe) bool { return name(&a) == name(&b) }) {
				t.Error("planned anew although somebody has enough")
			}
		}
	}
}

// A program that is cut short gives each something, and all together no less than fair rates would.
func TestSharesCutOff(t *testing.T) {
	const transfers = 100 // more than exchanges until somebody is asked
	rates := make([][2]float64, 2*transfers)
	for h := range rates {
		rates[h] = [2]float64{1000, 1000}
	}
	asked := 0
	p, err := New(star(rates...), Options{Enough: func() bool { asked++; return true }})
	if err != nil {
		t.Fatal(err)
	}
	p.patience = 0
	for k := range transfers {
		if _, err := p.Add(Transfer{Sources: []int{k}, Destinations: []int{transfers + k}}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := p.shares(p.first, slices.Clone(p.net.rate))
	if err != nil {
		t.Fatal(err)
	}
	if fair := p.fair(p.first, slices.Clone(p.net.rate), p.weight); asked == 0 || slices.Min(got) == 0 || p.net.brought(p.first, got) < p.net.brought(p.first, fair)*(1-1e-6) {
		t.Errorf("asked %d times; %v in all, the least has %v; at fair rates %v", asked, p.net.brought(p.first, got), slices.Min(got), p.net.brought(p.first, fair))
	}
}

// What ended flows leave over is not shared out anew for each of very many.
func TestFinishOfMany(t *testing.T) {
	const flows = 800
	rates := make([][2]float64, 2*flows)
	ts := make([]Transfer, flows)
	for i := range ts {
		rates[2*i], rates[2*i+1] = [2]float64{1000, 1000}, [2]float64{1000, 1000}
		ts[i] = Transfer{Size: float64(1000 * (i + 1)), Sources: []int{2 * i}, Destinations: []int{2*i + 1}}
	}
	p, err := New(star(rates...), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range ts {
		if _, err := p.Add(tr); err != nil {
			t.Fatal(err)
		}
	}
	plan := p.First()
	var finish []float64
	if got := allocated(func() { finish = p.Finish(plan) }); got > 100<<20 {
		t.Errorf("it took %d MB of memory for %d flows", got>>20, flows)
	}
	for i, f := range finish {
		if !near(f, float64(i+1)) {
			t.Fatalf("%d is through after %v s", i, f)
		}
	}
}

// Flows over very many hosts are not simulated, nor are fewer that are as much to share out for: each has its rate.
func TestFinishOfLong(t *testing.T) {
	for _, c := range []struct{ flows, dests int }{{120, 8000}, {95, 300}} {
		p, plan := long(t, c.flows, c.dests, Options{})
		var finish []float64
		if got := allocated(func() { finish = p.Finish(plan) }); got > 200<<20 {
			t.Errorf("it took %d MB of memory", got>>20)
		}
		for k, f := range finish {
			if !near(f, float64(200*(k+1))) {
				t.Fatalf("%d flows: %d is through after %v s", c.flows, k, f)
			}
		}
	}
}

// Who has enough waits for no more to be shared out.
func TestEnoughOfFinish(t *testing.T) {
	asked := 0
	p, plan := long(t, 5, 3, Options{Enough: func() bool { asked++; return asked > 1 }})
	finish := p.Finish(plan)
	// The first is through after 200 s. Then four share what five had.
	for k, f := range finish {
		if want := 200 + float64(200*k)*4/5; !near(f, want) {
			t.Errorf("%d is through after %v s, want %v", k, f, want)
		}
	}
	if asked < 2 {
		t.Errorf("asked %d times", asked)
	}
}

// long is a plan of so many flows on one star, each from the same host to so many, one after the other in size.
func long(t *testing.T, flows, dests int, o Options) (*Planner, *Plan) {
	t.Helper()
	rates := make([][2]float64, dests+1)
	for i := range rates {
		rates[i] = [2]float64{5 * float64(flows), 5 * float64(flows)}
	}
	all := make([]int, dests+1)
	for i := range all {
		all[i] = i
	}
	p, err := New(star(rates...), o)
	if err != nil {
		t.Fatal(err)
	}
	plan := &Plan{rates: map[Pair]float64{}}
	for k := range flows {
		if _, err := p.Add(Transfer{Size: float64(1000 * (k + 1)), Sources: []int{0}, Destinations: all[1:]}); err != nil {
			t.Fatal(err)
		}
		plan.Flows = append(plan.Flows, Flow{k, all, 5})
		for _, h := range all[1:] {
			plan.rates[Pair{k, h}] = 5
		}
	}
	return p, plan
}

// A transfer with very many destinations on a network with cycles keeps its first pipelines, beside others that are planned for.
func TestVeryManyOnGraphs(t *testing.T) {
	g, err := topo.Shape{Kind: "fattree", Hosts: 1600, Seed: 3}.Network()
	if err != nil {
		t.Fatal(err)
	}
	dests := make([]int, 1599)
	for i := range dests {
		dests[i] = i + 1
	}
	for _, o := range []Options{{}, {Floor: 0.5}} {
		var plan *Plan
		var p *Planner
		got := allocated(func() {
			p, plan = planned(t, On(topo.NewGraph(g)), o, Transfer{Name: "x", Sources: []int{0}, Destinations: dests}, Transfer{Name: "y", Sources: []int{3, 4}, Destinations: []int{7, 8, 9}})
		})
		sound(t, p, plan)
		if got > 400<<20 {
			t.Errorf("it took %d MB", got>>20)
		}
		if first := p.First(); plan.Throughput < first.Throughput*(1-1e-6) || len(plan.Starved) > 0 && o.Floor > 0 {
			t.Errorf("throughput %v, at first %v; %d starved", plan.Throughput, first.Throughput, len(plan.Starved))
		}
	}
}

// A bound that charges destinations of a transfer that is not priced for their own links says so, whatever is proved of the others.
func TestBoundBesideVeryMany(t *testing.T) {
	const dests, fast = 1599, 40
	mbit := func(n float64) float64 { return n * 125e3 }
	rates := make([][2]float64, dests+2+fast)
	var names []string
	var links []edge
	for h := range rates { // a source and its destinations, a fast source and its fast destinations
		rates[h] = [2]float64{mbit(80), mbit(1e3)}
		switch {
		case h == dests+1:
			rates[h] = [2]float64{mbit(1e4), mbit(1e4)}
		case h > dests+1:
			rates[h] = [2]float64{mbit(1e6), mbit(1e6)}
		}
		names = append(names, fmt.Sprintf("h%d", h))
		links = append(links, edge{A: h, B: len(rates), Rate: rates[h][0], Back: rates[h][1]})
	}
	s := len(rates) // with two more switches a circle
	for k := range 3 {
		names = append(names, fmt.Sprintf("s%d", k))
		links = append(links, edge{A: s + k, B: s + (k+1)%3, Rate: mbit(1e3), Back: mbit(1e3)})
	}
	x, y := Transfer{Name: "x", Sources: []int{0}}, Transfer{Name: "y", Sources: []int{dests + 1}}
	for i := range dests {
		x.Destinations = append(x.Destinations, i+1)
	}
	for i := range fast {
		y.Destinations = append(y.Destinations, dests+2+i)
	}
	for _, c := range []struct {
		floor float64
		want  string
	}{{0, "downlinks"}, {0.5, "downlinks with floors"}} {
		p, plan := planned(t, newNetwork(len(rates), names, links, nil), Options{Floor: c.floor}, x, y)
		if p.demands[0].legs != nil || p.demands[1].legs == nil {
			t.Fatal("x is to have no legs, and y is")
		}
		access := dests*mbit(2*80) + fast*mbit(2*1e4) // what can come there is twice what their sources send: see usable
		if plan.BoundBy != c.want || plan.FreeBound >= access*0.9 || p.floored.freeBy != "downlinks" {
			t.Errorf("floor %v: bound %v by %s; want %s, and less than the %v that come in at most", c.floor, plan.Bound, plan.BoundBy, c.want, access)
		}
	}
}

// Who has enough while ways are looked for does not wait until all are there, and what is proved then is true.
func TestEnoughOfLegs(t *testing.T) {
	n, ts := problem(t, topo.Shape{Kind: "fattree", Hosts: 60, Seed: 5}, 3, 3, 40)
	_, whole := planned(t, n, Options{}, ts...)
	enough, asked := true, 0
	p, err := New(n, Options{Enough: func() bool {
		if enough {
			asked++
		}
		return enough
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range ts {
		if _, err := p.Add(tr); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if _, err := p.Step(); err != nil {
			t.Fatal(err)
		}
	}
	if asked == 0 || p.demands[0].legs.found != nil {
		t.Errorf("asked %d times; all ways are there", asked)
	}
	for range 5 {
		if _, err := p.Step(); err != nil {
			t.Fatal(err)
		}
	}
	plan, err := p.Plan()
	if err != nil {
		t.Fatal(err)
	}
	sound(t, p, plan)
	if plan.Bound < whole.Throughput*(1-1e-6) {
		t.Errorf("no plan has more than %v, but one has %v", plan.Bound, whole.Throughput)
	}
}

// What planning would take gigabytes for is refused when it comes, and changes nothing.
func TestTooManyCrossings(t *testing.T) {
	n, ts := problem(t, topo.Shape{Kind: "deep", Hosts: 60, Seed: 1}, 3, 2, 8)
	p, whole := planned(t, n, Options{}, ts[:2]...)
	p.crossings = crossed(p.first) + 1
	if _, err := p.Add(ts[2]); err == nil || !strings.Contains(err.Error(), "not planned at once") {
		t.Errorf("a third transfer: %v", err)
	}
	if again := finished(t, p); !near(again.Throughput, whole.Throughput) {
		t.Errorf("after a transfer that was refused %v, before %v", again.Throughput, whole.Throughput)
	}
	p.crossings = mostCrossed
	if k, err := p.Add(ts[2]); err != nil || k != 2 {
		t.Errorf("with room again: number %d, %v", k, err)
	}
}

// What a topology may not have is refused, and changes nothing.
func TestBadChanges(t *testing.T) {
	p, whole := planned(t, star([2]float64{100, 100}, [2]float64{100, 100}), Options{}, Transfer{Name: "x", Sources: []int{0}, Destinations: []int{1}})
	for _, c := range []struct {
		channel int
		rate    float64
	}{{-1, 1}, {4, 1}, {0, -1}, {0, math.NaN()}, {0, math.Inf(1)}, {0, 1e-9}, {0, 1e300}} {
		if err := p.SetRate(c.channel, c.rate); err == nil {
			t.Errorf("channel %d, rate %g: no error", c.channel, c.rate)
		}
	}
	if _, err := p.Add(Transfer{Name: "y", Size: -5, Sources: []int{0}, Destinations: []int{1}}); err == nil {
		t.Error("a size of -5: no error")
	}
	if again := finished(t, p); again.Throughput != whole.Throughput {
		t.Errorf("then %v, before %v", again.Throughput, whole.Throughput)
	}
}
