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

// Wide channels go first, then those near a source, then those of a source that serves few; the number tells the rest apart.
func TestCandidates(t *testing.T) {
	order := []struct {
		rate                float64
		hops, used, channel int32
	}{{3, 9, 9, 9}, {2, 1, 9, 8}, {2, 2, 1, 7}, {2, 2, 2, 1}, {2, 2, 2, 2}, {0, 0, 0, 0}}
	for seed := range uint64(20) {
		var q candidates
		for _, i := range rand.New(rand.NewPCG(seed, 1)).Perm(len(order)) {
			q.put(order[i].rate, order[i].hops, order[i].used, order[i].channel)
		}
		for i, want := range order {
			if got := q.take(); got != want.channel {
				t.Errorf("seed %d: channel %d as number %d, want %d", seed, got, i, want.channel)
			}
		}
	}
}
