package planner

import (
	"math/rand/v2"
	"slices"
	"testing"

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

func TestQueue(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 32))
	for n := range 200 {
		var q queue[level]
		for i := range n {
			q.put(level{height: float64(rng.IntN(20)), capacity: int32(i)})
		}
		var last level
		for i := range n {
			l := q.take()
			if i > 0 && !last.before(l) {
				t.Fatalf("%v after %v", l, last)
			}
			last = l
		}
		if len(q) > 0 {
			t.Errorf("%d of %d are left", len(q), n)
		}
	}
}

// Wide channels go first, then those near a source, then those of a source that serves few; the number tells the rest apart.
func TestCandidates(t *testing.T) {
	order := []candidate{{rate: 3, hops: 9, used: 9, channel: 9}, {rate: 2, hops: 1, used: 9, channel: 9}, {rate: 2, hops: 2, used: 1, channel: 9}, {rate: 2, hops: 2, used: 2, channel: 1}, {rate: 2, hops: 2, used: 2, channel: 2}}
	for i, a := range order {
		for k, b := range order {
			if a.before(b) != (i < k) {
				t.Errorf("%+v before %+v: %v", a, b, a.before(b))
			}
		}
	}
}
