package planner

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Who has only what linear programs keep free against rounding is starved, also where a thin link elsewhere makes a tiny floor of
// everybody's; who has all of a thin link is not.
func TestStarvedIsWhoHasNextToNothing(t *testing.T) {
	const wide, thin = 1e8, 1e4
	var rates [][2]float64
	for range 6 {
		rates = append(rates, [2]float64{wide, wide})
	}
	rates = append(rates, [2]float64{thin, thin})
	low := Transfer{Name: "low", Size: 1e9, Sources: []int{0}, Destinations: []int{3}}
	other := Transfer{Name: "other", Size: 1e3, Sources: []int{0}, Destinations: []int{6}, Priority: 2}
	for classes := 1; classes <= 3; classes++ {
		ts := []Transfer{low, other}
		for c := 1; c <= classes; c++ {
			ts = append(ts, Transfer{Name: fmt.Sprint("high", c), Sources: []int{1, 2}, Destinations: []int{3, 4, 5}[:classes-c+1], Priority: c})
		}
		for _, o := range []Options{{}, {Floor: 0.5}, {MaxMin: true}} {
			p, plan := planned(t, star(rates...), o, ts...)
			if pair := (Pair{0, 3}); !slices.Contains(plan.Starved, pair) || p.Alone(pair) != wide {
				t.Errorf("%d classes, %+v: who has %.3g of %.3g is not starved: %v", classes, o, plan.Rate(pair), p.Alone(pair), plan.Starved)
			}
			if pair := (Pair{1, 6}); slices.Contains(plan.Starved, pair) {
				t.Errorf("%d classes, %+v: who has %.3g of %v is starved", classes, o, plan.Rate(pair), thin)
			}
			if f := p.Finish(plan); !math.IsInf(f[0], 1) || math.IsInf(f[1], 1) {
				t.Errorf("%d classes, %+v: through after %v; want never, and some time", classes, o, f[:2])
			}
		}
	}
}

// In every mode those are starved who have next to nothing of the widest way from a source, and nobody else.
func TestStarvedInAllModes(t *testing.T) {
	starved, little := 0, 0
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 61))
		n := testTree(rng, 1+rng.IntN(4), 6+rng.IntN(4), false)
		if seed%3 == 2 {
			n = testGraph(rng, 3+rng.IntN(3), 6+rng.IntN(3))
		}
		o := []Options{{}, {Floor: 0.5}, {MaxMin: true}, {Work: 1}}[seed%4]
		p, err := New(n, o)
		if err != nil {
			t.Fatal(err)
		}
		someTransfers(t, rng, p, 2+rng.IntN(3), 4, true)
		finished(t, p)
		for _, mode := range Modes {
			if mode == Exact && !n.tree {
				continue
			}
			plan, err := p.In(mode)
			if err != nil {
				t.Fatal(err)
			}
			for k := range p.demands {
				d := &p.demands[k]
				for _, h := range d.dests {
					widest := 0.0
					for _, s := range d.sources {
						if path, ok := n.way(nil, s, h); ok {
							narrowest := math.Inf(1)
							for _, c := range path {
								narrowest = min(narrowest, n.of(c))
							}
							widest = max(widest, narrowest)
						}
					}
					pair := Pair{k, int(h)}
					rate := plan.Rate(pair)
					want := rate <= Negligible*widest
					if got := slices.Contains(plan.Starved, pair); got != want && widest > 0 {
						t.Errorf("seed %d, %+v, %s: %v has %.3g of %.3g, starved: %v", seed, o, mode, pair, rate, widest, got)
					}
					if want {
						starved++
						if rate > 0 {
							little++
						}
					}
				}
			}
			if plan.MinRate == 0 && p.Pairs() > 0 && len(plan.Starved) == 0 {
				t.Errorf("seed %d, %+v, %s: the smallest rate is 0, and nobody is starved", seed, o, mode)
			}
		}
	}
	t.Logf("%d starved, %d of them have a little", starved, little)
	if starved < 100 || little < 10 {
		t.Errorf("%d starved, %d of them with a little: too few to tell", starved, little)
	}
}

// Whom no source has a way to has over others what the narrowest link of the widest chain brings.
func TestAloneOverOthers(t *testing.T) {
	links := []edge{{0, 4, 100, 100, false}, {1, 4, 50, 80, false}, {2, 4, 30, 80, false}, {3, 4, 70, 70, false}}
	n := newNetwork(4, []string{"a", "b", "c", "d", "s"}, links, func(path []int32, from, to int32) ([]int32, bool) {
		if from == 0 && to == 3 { // only others come to d
			return path, false
		}
		return append(path, 2*from, 2*to+1), true
	})
	d, lost, err := n.normal(0, Transfer{Sources: []int{0}, Destinations: []int{1, 2, 3}})
	if err != nil || len(lost) > 0 {
		t.Fatal(lost, err)
	}
	for h, want := range map[int32]float64{1: 80, 2: 80, 3: 50} {
		if got := n.alone(&d, h); got != want {
			t.Errorf("host %d alone: got %v, want %v", h, got, want)
		}
	}
}
