package planner

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/internal/heap"
	"github.com/freshet/freshet/topo"
	"github.com/freshet/freshet/unit"
)

// A first plan looks for no ways but those of its pipelines.
func TestFirstPlanLooksForNoLegs(t *testing.T) {
	n, ts := problem(t, topo.Shape{Kind: "fattree", Hosts: 60, Seed: 4}, 3, 3, 8)
	p := having(t, n, Options{}, ts...)
	if sound(t, p, p.First()); p.demands[0].legs.found != nil {
		t.Error("the first plan has looked for all ways")
	}
	if _, err := p.Step(); err != nil || p.demands[0].legs.found == nil {
		if _, err = p.Step(); err != nil || p.demands[0].legs.found == nil {
			t.Errorf("pricing has not looked for ways: %v", err)
		}
	}
}

// What grows leaves nothing behind: the same transfer grows the same once more, after another one.
func TestGrownTwice(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 31))
		n := testGraph(rng, 3+rng.IntN(4), 8)
		s, d := n.draw(rng, 2, 4)
		one := demand{sources: s, dests: d}
		s, d = n.draw(rng, 1, 5)
		other := demand{sources: s, dests: d}
		first := n.grown(&one, n.rate)
		n.grown(&other, n.rate)
		again := n.grown(&one, n.rate)
		if !slices.EqualFunc(first, again, slices.Equal[[]int32]) {
			t.Fatalf("seed %d: %v, and then %v", seed, first, again)
		}
	}
}

// Wide channels go first, then those near a source, then those of a source that serves few by then; the number tells the rest apart.
func TestCandidates(t *testing.T) {
	type channel struct {
		rate           float64
		hops, of, name int32
	}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		sources := int32(1 + rng.IntN(4))
		q := candidates{of: make([]heap.Heap[float64, int32, int32], sources), used: make([]int32, sources)}
		var left []channel
		for name := range int32(200) {
			if rng.IntN(3) > 0 {
				left = append(left, channel{float64(rng.IntN(3)), rng.Int32N(2), rng.Int32N(sources), name})
				c := left[len(left)-1]
				q.put(c.rate, c.hops, c.of, c.name)
			} else if len(left) > 0 {
				want := slices.MinFunc(left, func(a, b channel) int {
					return cmp.Or(cmp.Compare(b.rate, a.rate), cmp.Compare(a.hops, b.hops), cmp.Compare(q.used[a.of], q.used[b.of]), cmp.Compare(a.name, b.name))
				})
				if got, ok := q.take(); !ok || got != want.name {
					t.Fatalf("seed %d: channel %d, %v; want %+v of %+v, sources have %v", seed, got, ok, want, left, q.used)
				}
				left = slices.DeleteFunc(left, func(c channel) bool { return c == want })
				q.used[want.of] += rng.Int32N(2)
			}
		}
		for range left {
			if _, ok := q.take(); !ok {
				t.Fatalf("seed %d: one is lost", seed)
			}
		}
		if _, ok := q.take(); ok {
			t.Fatalf("seed %d: one more than were put", seed)
		}
	}
}

// Where data follows routes a plan grows over these, whatever other links there are: d has the most from b, since the route from a goes by the link that
// is soonest there, a thin one.
func TestGrowsOverRoutes(t *testing.T) {
	link := func(a, b string, rate unit.Bandwidth, delay time.Duration) topo.Link {
		return topo.Link{A: a, B: b, Rate: rate, Back: rate, Delay: delay * time.Millisecond}
	}
	n := On(topo.NewGraph(&topo.Network{
		Hosts:    []topo.Host{{Name: "a"}, {Name: "b"}, {Name: "d"}},
		Switches: []topo.Switch{{Name: "s1"}, {Name: "s2"}, {Name: "s3"}, {Name: "s4"}},
		Links: []topo.Link{
			link("a", "s1", 100, 0), link("b", "s4", 50, 0), link("d", "s2", 100, 0),
			link("s1", "s2", 1, 1), link("s1", "s3", 100, 5), link("s3", "s2", 100, 5), link("s4", "s2", 50, 1), link("s4", "s3", 100, 9),
		},
	}))
	p, err := New(n, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Add(Transfer{Name: "x", Sources: []int{0, 1}, Destinations: []int{2}}); err != nil {
		t.Fatal(err)
	}
	if got := p.First().Throughput; got != 50 {
		t.Errorf("the first plan has %v, want 50", got)
	}
	for _, mode := range []string{Pipeline, Paper} {
		if plan, err := p.In(mode); err != nil || !near(plan.Throughput, 50) {
			t.Errorf("%s: %+v %v, want 50", mode, plan, err)
		}
	}
}

// Chains take the widest route first, of even ones that of fewest links from a source, then that of the source that serves fewest; each destination is in one, and however few are
// compared at a time all are served. What others fill up comes last, and a rate of 0 is no way.
func TestChains(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 77))
		n := testGraph(rng, 3+rng.IntN(5), 9)
		for c := range n.rate {
			if rng.IntN(12) == 0 {
				n.rate[c] = 0
			}
		}
		have := slices.Clone(n.rate)
		for c := range have {
			if rng.IntN(6) == 0 {
				have[c] = 0
			}
		}
		s, dests := n.draw(rng, 2, 5)
		d := demand{sources: s, dests: dests}
		for _, look := range []int{1, 2, 5} {
			walks := n.chained(&d, have, look)
			served := map[int32]bool{}
			for _, w := range walks {
				if !slices.Contains(s, w[0]) {
					t.Fatalf("seed %d: %v begins at none of %v", seed, w, s)
				}
				for i, h := range w[1:] {
					if served[h] || !slices.Contains(dests, h) {
						t.Fatalf("seed %d: %v, and %v are to be served once each", seed, walks, dests)
					}
					served[h] = true
					if n.width(w[i], h) == 0 {
						t.Fatalf("seed %d: %v goes from %d to %d, and there is no way", seed, w, w[i], h)
					}
				}
			}
			for _, h := range dests {
				direct := slices.ContainsFunc(s, func(from int32) bool { return n.width(from, h) > 0 })
				if direct && !served[h] {
					t.Errorf("seed %d, %d at a time: %d of %v is not served by %v", seed, look, h, dests, walks)
				}
			}
			// What is taken first is the widest from any source.
			if len(walks) > 0 && look == 5 {
				widest := -1.0
				for _, from := range s {
					for i := range dests {
						widest = max(widest, n.ahead(&d, from, int32(i), have).rate)
					}
				}
				if !slices.ContainsFunc(walks, func(w []int32) bool {
					return n.ahead(&d, w[0], int32(slices.Index(dests, w[1])), have).rate == widest
				}) {
					t.Errorf("seed %d: %v, and no pipeline begins as wide as %v", seed, walks, widest)
				}
			}
		}
	}
	// Even routes: a destination each.
	n, _ := problem(t, topo.Shape{Kind: "fattree", Hosts: 16, Lo: 1000, Hi: 1000, Seed: 1}, 0, 0, 0)
	if walks := n.chained(&demand{sources: []int32{0, 1}, dests: []int32{2, 3}}, n.rate, 2); len(walks) != 2 {
		t.Errorf("two sources beside two destinations, all even: %v, want one from each", walks)
	}
}

// On a fat tree the paper's pipelines bring more than what everybody takes directly from a source by chance. Grown over links they brought less than half of it.
func TestPaperOnRoutes(t *testing.T) {
	n, ts := problem(t, topo.Shape{Kind: "fattree", Hosts: 100, Seed: 1}, 10, 3, 20)
	p := having(t, n, Options{}, ts...)
	had := 0.0
	for _, mode := range []string{Flat, Pipeline, Paper} {
		plan, err := p.In(mode)
		if err != nil {
			t.Fatal(err)
		}
		if plan.Throughput < 1.2*had {
			t.Errorf("%s has %v, the one before %v", mode, plan.Throughput, had)
		}
		had = plan.Throughput
	}
}
