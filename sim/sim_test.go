package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

var inf = math.Inf(1)

// rates starts flows over these ways, each with a limit, and returns what they get.
func rates(capacities []float64, limits []float64, ways [][]Link) []float64 {
	s := New[int]()
	for _, c := range capacities {
		s.AddLink(c)
	}
	for i, w := range ways {
		limit := inf
		if limits != nil {
			limit = limits[i]
		}
		s.Start(s.AddFlow(limit, w...), 1e18)
	}
	s.At(1, 0)
	s.Next()
	var got []float64
	for i := range ways {
		got = append(got, s.Rate(Flow(i)))
	}
	return got
}

func TestMaxMin(t *testing.T) {
	for _, c := range []struct {
		name       string
		capacities []float64
		limits     []float64
		ways       [][]Link
		want       []float64
	}{
		{"alone", []float64{10}, nil, [][]Link{{0}}, []float64{10}},
		{"two share", []float64{10}, nil, [][]Link{{0}, {0}}, []float64{5, 5}},
		{"a cap leaves more", []float64{10}, []float64{2, inf}, [][]Link{{0}, {0}}, []float64{2, 8}},
		{"caps below the link", []float64{10}, []float64{2, 3}, [][]Link{{0}, {0}}, []float64{2, 3}},
		// Bertsekas and Gallager, section 6.5: one long flow over links that others use, too.
		{"parking lot", []float64{1, 2, 1}, nil, [][]Link{{0, 1, 2}, {0}, {1}, {2}}, []float64{.5, .5, 1.5, .5}},
		{"narrow first", []float64{1, 10}, nil, [][]Link{{0, 1}, {1}, {1}}, []float64{1, 4.5, 4.5}},
		{"three levels", []float64{3, 8, 20}, nil, [][]Link{{0, 1}, {0, 2}, {0}, {1, 2}, {2}}, []float64{1, 1, 1, 7, 12}},
		{"nothing passes", []float64{0, 4}, nil, [][]Link{{0, 1}, {1}}, []float64{0, 4}},
		{"a cap of very much", []float64{2e17}, []float64{1.25e17}, [][]Link{{0}}, []float64{1.25e17}},
		{"links of very much", []float64{2e17, 1.25e17}, nil, [][]Link{{0}, {0, 1}}, []float64{1e17, 1e17}},
		{"no limit but one", []float64{inf, 6}, nil, [][]Link{{0, 1}, {0, 1}}, []float64{3, 3}},
		// One sender at 6 to three receivers, one of which takes only 1.
		{"star", []float64{6, 1, 10, 10}, nil, [][]Link{{0, 1}, {0, 2}, {0, 3}}, []float64{1, 2.5, 2.5}},
	} {
		got := rates(c.capacities, c.limits, c.ways)
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-9 {
				t.Errorf("%s: got %v, want %v", c.name, got, c.want)
				break
			}
		}
	}
}

// One of half the weight gets half of what another does on the same full link; what it does not get others do, and where there is nobody
// else it gets as much as ever.
func TestWeights(t *testing.T) {
	for _, c := range []struct {
		name       string
		capacities []float64
		weights    []float64
		ways       [][]Link
		want       []float64
	}{
		{"two share", []float64{9}, []float64{0.5, 1}, [][]Link{{0}, {0}}, []float64{3, 6}},
		{"alone", []float64{9}, []float64{0.5}, [][]Link{{0}}, []float64{9}},
		{"all alike", []float64{9}, []float64{0.2, 0.2, 0.2}, [][]Link{{0}, {0}, {0}}, []float64{3, 3, 3}},
		{"held back elsewhere", []float64{10, 1}, []float64{0.5, 1, 1}, [][]Link{{0}, {0}, {0, 1}}, []float64{3, 6, 1}},
		{"at the far end", []float64{10, 10, 3}, []float64{0.5, 1, 1}, [][]Link{{0, 2}, {1, 2}, {0}}, []float64{1, 2, 9}},
	} {
		s := New[int]()
		for _, capacity := range c.capacities {
			s.AddLink(capacity)
		}
		for i, w := range c.ways {
			f := s.AddFlow(inf, w...)
			if i%2 == 0 { // before it moves
				s.Weigh(f, c.weights[i])
			}
			s.Start(f, 1e18)
		}
		s.At(1, 0)
		s.Next()
		for i, weight := range c.weights { // or while it does
			s.Weigh(Flow(i), weight)
		}
		s.At(2, 0)
		s.Next()
		for i, want := range c.want {
			if got := s.Rate(Flow(i)); math.Abs(got-want) > 1e-9 {
				t.Errorf("%s: flow %d has %g, want %g", c.name, i, got, want)
			}
		}
	}
}

// filling is the textbook's way: all rates grow alike, or as their weights; who meets a full link or its cap stops.
func filling(capacities, limits, weights []float64, ways [][]Link, on []bool) []float64 {
	rate := make([]float64, len(ways))
	frozen := make([]bool, len(ways))
	for i := range ways {
		frozen[i] = !on[i]
	}
	for slices.Contains(frozen, false) {
		free := slices.Clone(capacities)
		weight := make([]float64, len(capacities))
		for i, w := range ways {
			for _, l := range w {
				free[l] -= rate[i]
				if !frozen[i] {
					weight[l] += weights[i]
				}
			}
		}
		grow := inf
		for l := range free {
			if weight[l] > 0 {
				grow = min(grow, free[l]/weight[l])
			}
		}
		for i := range ways {
			if !frozen[i] {
				grow = min(grow, (limits[i]-rate[i])/weights[i])
			}
		}
		for i := range ways {
			if !frozen[i] {
				rate[i] += grow * weights[i]
			}
		}
		for i, w := range ways {
			if frozen[i] {
				continue
			}
			frozen[i] = rate[i] >= limits[i]-1e-9
			for _, l := range w {
				if free[l]-grow*weight[l] <= 1e-9*max(1, capacities[l]) {
					frozen[i] = true
				}
			}
		}
	}
	return rate
}

// Flows come and go on random networks; after every change all rates are those of the textbook. The
// bound on looks shows that a change does not touch everything.
func TestRatesStayMaxMin(t *testing.T) {
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := New[int]()
		capacities := make([]float64, 2+rng.IntN(20))
		for i := range capacities {
			capacities[i] = float64(1 + rng.IntN(1000))
			s.AddLink(capacities[i])
		}
		ways := make([][]Link, 1+rng.IntN(60))
		limits, weights := make([]float64, len(ways)), make([]float64, len(ways))
		on := make([]bool, len(ways))
		for i := range ways {
			weights[i] = 1
			for _, l := range rng.Perm(len(capacities))[:1+rng.IntN(min(4, len(capacities)))] {
				ways[i] = append(ways[i], Link(l))
			}
			limits[i] = 1e15
			if rng.IntN(3) == 0 {
				limits[i] = float64(1 + rng.IntN(100))
			}
			s.AddFlow(limits[i], ways[i]...)
		}
		for change := range 60 {
			switch i := rng.IntN(len(ways)); {
			case change%7 == 6:
				l := rng.IntN(len(capacities))
				capacities[l] = float64(rng.IntN(1000))
				s.SetCapacity(Link(l), capacities[l])
			case seed%2 == 1 && change%5 == 4:
				weights[i] = float64(1+rng.IntN(10)) / 10
				s.Weigh(Flow(i), weights[i])
			case on[i]:
				s.Stop(Flow(i))
				on[i] = false
			default:
				s.Start(Flow(i), 1e18)
				on[i] = true
			}
			s.At(s.Now()+1, 0)
			s.Next()
			for i, want := range filling(capacities, limits, weights, ways, on) {
				if got := s.Rate(Flow(i)); math.Abs(got-want) > 1e-6*max(1, want) {
					t.Fatalf("seed %d, change %d: flow %d over %v has %g, want %g", seed, change, i, ways[i], got, want)
				}
			}
		}
	}
}

// No flow can have more unless one that has no more has less: its cap or a full link holds
// it, and on that link nobody has more. And no link carries more than it can.
func TestNobodyCanHaveMore(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 2))
		const nodes, peers = 60, 8
		s := New[int]()
		capacity := make([]float64, 2*nodes) // up, down
		for l := range capacity {
			capacity[l] = float64(1+rng.IntN(4)) * 25
			s.AddLink(capacity[l])
		}
		var ways [][2]Link
		for i := range nodes {
			for range peers {
				k := (i + 1 + rng.IntN(nodes-1)) % nodes
				ways = append(ways, [2]Link{Link(2 * i), Link(2*k + 1)})
				s.Start(s.AddFlow(inf, ways[len(ways)-1][:]...), 1e18)
			}
		}
		s.At(1, 0)
		s.Next()
		load, most := make([]float64, len(capacity)), make([]float64, len(capacity))
		for f, w := range ways {
			for _, l := range w {
				load[l] += s.Rate(Flow(f))
				most[l] = max(most[l], s.Rate(Flow(f)))
			}
		}
		for l := range load {
			if load[l] > capacity[l]*(1+1e-9) {
				t.Errorf("seed %d: link %d carries %g of %g", seed, l, load[l], capacity[l])
			}
		}
		for f, w := range ways {
			held := false
			for _, l := range w {
				held = held || load[l] > capacity[l]*(1-1e-9) && s.Rate(Flow(f)) >= most[l]*(1-1e-9)
			}
			if !held {
				t.Errorf("seed %d: flow %d over %v could have more than %g", seed, f, w, s.Rate(Flow(f)))
			}
		}
	}
}

// With a tolerance the rates are near the exact ones, and no link carries more than it can.
func TestTolerance(t *testing.T) {
	const nodes, peers, tolerance = 200, 8, 0.02
	exact, rough := New[int](), New[int]()
	rough.Tolerance = tolerance
	for range 2 * nodes {
		exact.AddLink(100)
		rough.AddLink(100)
	}
	rng := rand.New(rand.NewPCG(3, 3))
	flows := 0
	for i := range nodes {
		for range 2 * peers {
			k := (i + 1 + rng.IntN(nodes-1)) % nodes
			exact.AddFlow(inf, Link(2*i), Link(2*k+1))
			rough.AddFlow(inf, Link(2*i), Link(2*k+1))
			flows++
		}
	}
	on := make([]bool, flows)
	for range 4000 {
		f := rng.IntN(flows)
		for _, s := range []*Sim[int]{exact, rough} {
			if on[f] {
				s.Stop(Flow(f))
			} else {
				s.Start(Flow(f), 1e18)
			}
			s.At(s.Now()+1, 0)
			s.Next()
		}
		on[f] = !on[f]
	}
	var sumExact, sumRough, off float64
	for f := range flows {
		sumExact += exact.Rate(Flow(f))
		sumRough += rough.Rate(Flow(f))
		off += math.Abs(exact.Rate(Flow(f)) - rough.Rate(Flow(f)))
	}
	if d := math.Abs(sumRough/sumExact - 1); d > tolerance {
		t.Errorf("together the flows have %g, exactly %g", sumRough, sumExact)
	}
	if off > 2*tolerance*sumExact {
		t.Errorf("the rates are off by %g of %g", off, sumExact)
	}
	load := make([]float64, 2*nodes)
	for _, s := range rough.steps {
		load[s.link] += rough.Rate(s.flow)
	}
	if most := slices.Max(load); most > 100*(1+1e-6) {
		t.Errorf("a link carries %g, which can carry 100", most)
	}
	if rough.looks*2 > exact.looks {
		t.Errorf("%d looks at links, exactly %d: the tolerance saves nothing", rough.looks, exact.looks)
	}
}

// Events come in order of time, at the same time flows first, then timers as they were set.
func TestOrder(t *testing.T) {
	s := New[string]()
	l := s.AddLink(10)
	a, b := s.AddFlow(inf, l), s.AddFlow(inf, l)
	s.Start(a, 10) // two share: 5 a second
	s.Start(b, 20)
	s.At(2, "x")
	s.At(2, "y")
	s.At(1, "w")
	s.At(0.5, "v")
	var got []string
	for {
		ev, ok := s.Next()
		if !ok {
			break
		}
		name := ev.Timer
		if ev.Flow != None {
			name = map[Flow]string{a: "a", b: "b"}[ev.Flow]
			s.Stop(ev.Flow)
		}
		got = append(got, fmt.Sprintf("%.3g%s", s.Now(), name))
	}
	// b has 10 to go when a is through at 2, and the link for itself then.
	if want := []string{"0.5v", "1w", "2a", "2x", "2y", "3b"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestMoved(t *testing.T) {
	s := New[int]()
	l := s.AddLink(10)
	f := s.AddFlow(4, l)
	s.Start(f, 100)
	s.At(3, 1)
	s.Next()
	if m := s.Moved(f); m != 12 {
		t.Errorf("moved %g, want 12", m)
	}
	if d := s.Due(); d != 25 {
		t.Errorf("it is due at %g, want 25", d)
	}
	s.SetCapacity(l, 2)
	s.At(4, 2)
	s.Next()
	s.Stop(f)
	if d := s.Due(); d != inf {
		t.Errorf("nothing moves, and something is due at %g", d)
	}
	s.At(9, 3)
	s.Next()
	if m := s.Moved(f); m != 2 {
		t.Errorf("moved %g, want 2", m)
	}
	s.Limit(f, 1)
	s.Start(f, 3)
	if ev, _ := s.Next(); ev.Flow != f || s.Now() != 12 {
		t.Errorf("event %+v at %g, want the flow at 12", ev, s.Now())
	}
	s.At(20, 4) // nobody has said how it goes on: it does not come again
	if ev, _ := s.Next(); ev.Timer != 4 {
		t.Errorf("event %+v, want timer 4", ev)
	}
	if _, ok := s.Next(); ok {
		t.Error("something happens although nothing moves")
	}
}

// Limits are what they are, however large, but for an infinite one: what has no other moves all the same.
func TestLimits(t *testing.T) {
	s := New[int]()
	l := s.AddLink(inf)
	for i, c := range []struct{ limit, want float64 }{{1e17, 1e17}, {inf, 1e15}, {5, 5}} {
		f := s.AddFlow(1, l)
		s.Start(f, 1e18)
		s.Limit(f, c.limit)
		s.At(float64(i+1), 0)
		s.Next()
		if got := s.Rate(f); got != c.want {
			t.Errorf("limit %g: rate %g, want %g", c.limit, got, c.want)
		}
	}
}

// A link that becomes as wide as links can be is used by flows that were there before, if they are without a limit.
func TestVeryWideLinks(t *testing.T) {
	s := New[int]()
	l := s.AddLink(1e9)
	f := s.AddFlow(inf, l)
	s.Start(f, 1e18)
	for i, c := range []float64{1e9, 1.25e17, 1e12} {
		s.SetCapacity(l, c)
		s.At(float64(i+1)/4, 0)
		s.Next()
		if got := s.Rate(f); got != c {
			t.Errorf("of a link of %g a flow has %g", c, got)
		}
	}
}

func BenchmarkChange(b *testing.B) {
	for _, nodes := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			s := New[int]()
			s.Tolerance = 0.02
			for range 2 * nodes {
				s.AddLink(100)
			}
			rng := rand.New(rand.NewPCG(3, 3))
			for i := range nodes {
				for range 8 {
					s.Start(s.AddFlow(inf, Link(2*i), Link(2*((i+1+rng.IntN(nodes-1))%nodes)+1)), 1e18)
				}
			}
			s.At(0.5, 0)
			s.Next()
			looks := s.looks
			for b.Loop() {
				f := Flow(rng.IntN(8 * nodes))
				if s.Moving(f) {
					s.Stop(f)
				} else {
					s.Start(f, 1e18)
				}
				s.At(s.Now()+1e-3, 0)
				s.Next()
			}
			b.ReportMetric(float64(s.looks-looks)/float64(b.N), "looks/change")
		})
	}
}
