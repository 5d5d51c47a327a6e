package planner

import (
	"maps"
	"slices"
	"testing"
)

// By itself x takes the wider of its two ways, over a link that y has more use for. Planned anew on what y leaves it takes the other one.
func TestClimb(t *testing.T) {
	n := newNetwork(6, []string{"near", "far", "y", "x1", "y1", "y2", "s0", "s1"}, []edge{
		{0, 6, 1000, 1000, false}, {2, 6, 1000, 1000, false}, {6, 7, 100, 100, false},
		{1, 7, 60, 60, false}, {3, 7, 1000, 1000, false}, {4, 7, 1000, 1000, false}, {5, 7, 1000, 1000, false},
	}, nil)
	x, y := Transfer{Name: "x", Sources: []int{0, 1}, Destinations: []int{3}}, Transfer{Name: "y", Sources: []int{2}, Destinations: []int{4, 5}}
	for _, c := range []struct {
		mode   string
		x, all float64
	}{{Pipeline, 0, 200}, {Paper, 60, 260}} {
		for at, ts := range [][]Transfer{{x, y}, {y, x}} {
			_, plan := planned(t, n, Options{Mode: c.mode}, ts...)
			if got := plan.Rate(Pair{at, 3}); !near(got, c.x) || !near(plan.Throughput, c.all) || !near(plan.Bound, 260) {
				t.Errorf("%s, x as number %d: x has %v of %v, bound %v; want %v of %v, 260", c.mode, at, got, plan.Throughput, plan.Bound, c.x, c.all)
			}
		}
	}
}

// grownOn are the paper's pipelines of one transfer on a network where nobody else sends anything.
func grownOn(t *testing.T, n *Network, x Transfer) (d demand, walks [][]int32) {
	t.Helper()
	d, lost, err := n.normal(0, x)
	if err != nil || len(lost) > 0 {
		t.Fatal(err, lost)
	}
	walks = n.grown(&d, n.rate)
	served(t, d.sources, d.dests, walks)
	return d, walks
}

// Pipelines are of the first moment at which there are any, though that is asked later: with the channel that comes next the walk could come back from d1, and
// would, since both ways back below its switch are no wider than that.
func TestGrownNoFurther(t *testing.T) {
	n := newNetwork(3, []string{"s", "d1", "d2", "s0", "s1"}, []edge{
		{0, 3, 1000, 1000, false}, {3, 4, 1000, 500, false}, {1, 4, 10, 1000, false}, {2, 3, 100, 1000, false},
	}, nil)
	d, walks := grownOn(t, n, Transfer{Sources: []int{0}, Destinations: []int{1, 2}})
	if got := n.bottleneck(walks); len(walks) != 1 || got != 100 {
		t.Errorf("%v are as wide as %v, want 100", walks, got)
	}
	if _, width, _ := n.widest(d.sub); width != 100 {
		t.Errorf("the widest are as wide as %v, want 100", width)
	}
}

// Where the walk could come back from all destinations, since growing went on for another source, it ends where the way back is narrowest.
func TestNarrowestWayBack(t *testing.T) {
	n := newNetwork(6, []string{"a", "a1", "a2", "b", "b1", "b2", "s0", "s1"}, []edge{
		{0, 6, 1000, 1000, false}, {1, 6, 300, 900, false}, {2, 6, 200, 950, false},
		{3, 7, 1000, 1000, false}, {4, 7, 50, 900, false}, {5, 7, 20, 900, false}, {6, 7, 5, 5, false},
	}, nil)
	_, walks := grownOn(t, n, Transfer{Sources: []int{0, 3}, Destinations: []int{1, 2, 4, 5}})
	if want := [][]int32{{0, 1, 2}, {3, 4, 5}}; !slices.EqualFunc(walks, want, slices.Equal[[]int32]) {
		t.Errorf("%v, want %v", walks, want)
	}
}

// Flat draws from all sources, random from those with the widest way alone; and another seed draws otherwise.
func TestDraws(t *testing.T) {
	n := star([2]float64{300, 300}, [2]float64{100, 100}, [2]float64{300, 300}, [2]float64{1000, 1000})
	for mode, want := range map[string][]int{Flat: {0, 1, 2}, Random: {0, 2}} {
		drawn := map[int]bool{}
		for seed := range uint64(40) {
			_, plan := planned(t, n, Options{Mode: mode, Seed: seed}, Transfer{Name: "x", Sources: []int{0, 1, 2}, Destinations: []int{3}})
			drawn[plan.Flows[0].Hosts[0]] = true
		}
		if got := slices.Sorted(maps.Keys(drawn)); !slices.Equal(got, want) {
			t.Errorf("%s: from hosts %v, want %v", mode, got, want)
		}
	}
}

// The way back over a half-duplex link is half as wide as it is alone: the walk ends there.
func TestHalfDuplexWayBack(t *testing.T) {
	n := newNetwork(3, []string{"a", "b", "c", "s0"}, []edge{{A: 0, B: 3, Rate: 100, Back: 100}, {A: 1, B: 3, Rate: 100, Back: 100, Half: true}, {A: 2, B: 3, Rate: 100, Back: 100}}, nil)
	for _, mode := range []string{Pipeline, Paper} {
		if _, plan := planned(t, n, Options{Mode: mode}, Transfer{Name: "x", Sources: []int{0}, Destinations: []int{1, 2}}); !near(plan.Throughput, 200) {
			t.Errorf("%s: %v by %v, want 200", mode, plan.Throughput, plan.Flows)
		}
	}
}

// What some plan reaches is proved by it, whatever mode is asked: example A of the specification of the planner, whose optimum fills all downlinks.
func TestReachedBound(t *testing.T) {
	n := star([2]float64{800, 800}, [2]float64{300, 500}, [2]float64{600, 400}, [2]float64{200, 700})
	for _, mode := range []string{Flat, Optimal} {
		if _, plan := planned(t, n, Options{Mode: mode}, Transfer{Name: "x", Sources: []int{0}, Destinations: []int{1, 2, 3}}); plan.BoundBy != "pipelines" || !near(plan.Bound, 1600) {
			t.Errorf("%s: bound %v by %s, want 1600 by pipelines", mode, plan.Bound, plan.BoundBy)
		}
	}
}
