package planner

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/freshet/freshet/internal/heap"
	"github.com/freshet/freshet/topo"
)

// A first plan looks for no ways but those of its pipelines.
func TestFirstPlanLooksForNoLegs(t *testing.T) {
	n, ts := problem(t, topo.Shape{Kind: "fattree", Hosts: 60, Seed: 4}, 3, 3, 8)
	p, err := New(n, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range ts {
		if _, err := p.Add(tr); err != nil {
			t.Fatal(err)
		}
	}
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
