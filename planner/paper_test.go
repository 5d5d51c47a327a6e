package planner

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/freshet/freshet/internal/lp"
	"github.com/freshet/freshet/topo"
	"github.com/freshet/freshet/unit"
)

// By itself x takes the wider of its two ways, over a link that y has more use for. Planned anew on what y leaves it takes the other one.
func TestReplan(t *testing.T) {
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

// Transfers are planned anew in passes: x can move only once y, which comes after it, has.
func TestReplanInPasses(t *testing.T) {
	// The ways out of a, b and c, and the ways in: x1 is x's, and so on.
	n := star([2]float64{110, 0}, [2]float64{100, 0}, [2]float64{50, 0}, [2]float64{0, 1000}, [2]float64{0, 1000},
		[2]float64{1000, 60}, [2]float64{1000, 60}, [2]float64{1000, 90}, [2]float64{1000, 90})
	ts := []Transfer{
		{Name: "x", Sources: []int{0, 1}, Destinations: []int{3}}, // v leaves it 20 of a, and z and y nothing of b
		{Name: "y", Sources: []int{1, 2}, Destinations: []int{4}}, // z leaves it 40 of b; c has 50
		{Name: "z", Sources: []int{1}, Destinations: []int{5, 6}},
		{Name: "v", Sources: []int{0}, Destinations: []int{7, 8}},
	}
	for _, c := range []struct {
		mode    string
		x, y    float64
		through float64
	}{{Pipeline, 20, 40, 360}, {Paper, 40, 50, 390}} {
		_, plan := planned(t, n, Options{Mode: c.mode}, ts...)
		if x, y := plan.Rate(Pair{0, 3}), plan.Rate(Pair{1, 4}); !near(x, c.x) || !near(y, c.y) || !near(plan.Throughput, c.through) {
			t.Errorf("%s: x has %v, y %v, throughput %v; want %v, %v, %v", c.mode, x, y, plan.Throughput, c.x, c.y, c.through)
		}
	}
}

// What others leave of a link is a millionth of it at least, or nothing: less is rounding, over which no way should lead.
func TestReplanOverNoRounding(t *testing.T) {
	some := 0
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 71))
		n := testTree(rng, 1+rng.IntN(4), 10, false)
		for c := range n.rate { // sums of these are not what they seem
			n.rate[c] /= 30 + rng.Float64()
		}
		p, err := New(n, Options{})
		if err != nil {
			t.Fatal(err)
		}
		someTransfers(t, rng, p, 4, 4, false)
		if _, err := n.replan(p.demands, p.first, &lp.Simplex{}, func(k int, have []float64) []pipe {
			for c, h := range have {
				if h != 0 && h < 1e-6*n.rate[c] {
					t.Fatalf("seed %d: others leave %v of capacity %d, which has %v", seed, h, c, n.rate[c])
				}
				if h == 0 {
					some++
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if some < 100 {
		t.Errorf("%d capacities are full: too few to tell", some)
	}
}

// A plan of which no pipeline is worth more than it costs is not tried; and a program in which very many columns are that nobody wants begins anew. Exchanges
// tell: nothing else does.
func TestReplanSavesTime(t *testing.T) {
	n := star([2]float64{100, 0}, [2]float64{150, 0}, [2]float64{500, 1000}, [2]float64{500, 1000}, [2]float64{400, 0}, [2]float64{0, 300})
	p, err := New(n, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range []Transfer{{Name: "x", Sources: []int{0, 1}, Destinations: []int{2, 3}}, {Name: "y", Sources: []int{4}, Destinations: []int{5}}} {
		if _, err := p.Add(tr); err != nil {
			t.Fatal(err)
		}
	}
	row := func(k int, hosts ...int32) pipe {
		q, ok := n.pipe(k, hosts)
		if !ok {
			t.Fatal(hosts)
		}
		return q
	}
	begin := []pipe{row(0, 0, 2, 3), row(1, 4, 5)} // x is worth 200
	steps := func(fresh func(k int) []pipe) int {
		t.Helper()
		solver := &lp.Simplex{}
		pipes, err := n.replan(p.demands, begin, solver, func(k int, have []float64) []pipe { return fresh(k) })
		if err != nil || !slices.EqualFunc(pipes, begin, func(a, b pipe) bool { return name(&a) == name(&b) }) {
			t.Fatal("a worse plan was taken", pipes, err)
		}
		return solver.Steps
	}
	// From the other source, but to one destination alone: a byte of that costs nothing, and there are 150 only.
	copies := func(times int) func(k int) []pipe {
		return func(k int) (fresh []pipe) {
			for range times {
				fresh = append(fresh, row(0, 1, 2))
			}
			return fresh[:times*(1-k)]
		}
	}
	none := steps(func(int) []pipe { return nil })
	if got := steps(func(k int) []pipe { return begin[k : k+1] }); got != none {
		t.Errorf("planned as before: %d exchanges, without that %d", got, none)
	}
	tried := steps(copies(900))
	if many := steps(copies(1100)); tried <= none || many != tried+none {
		t.Errorf("%d exchanges to begin with, %d when a plan of 900 pipelines is tried, %d of 1100; want more, and more by as many as to begin with", none, tried, many)
	}
}

// Of sources that are as near as each other that goes on which has fewer destinations so far: a has one on its own switch when the switch in the middle comes.
func TestGrownByFewestDestinations(t *testing.T) {
	var links []edge
	for _, ends := range [][2]int{{0, 5}, {1, 6}, {5, 2}, {5, 7}, {6, 7}, {7, 3}, {7, 4}} {
		links = append(links, edge{A: ends[0], B: ends[1], Rate: 1000, Back: 1000})
	}
	n := newNetwork(5, []string{"a", "b", "a1", "d1", "d2", "sa", "sb", "middle"}, links, nil)
	_, walks := grownOn(t, n, Transfer{Sources: []int{0, 1}, Destinations: []int{2, 3, 4}})
	if want := [][]int32{{0, 2}, {1, 3, 4}}; !slices.EqualFunc(walks, want, slices.Equal[[]int32]) {
		t.Errorf("%v, want %v", walks, want)
	}
}

// Flat draws no source from which there is no way.
func TestDrawsWhoHasAWay(t *testing.T) {
	n := star([2]float64{0, 300}, [2]float64{100, 100}, [2]float64{0, 300}, [2]float64{1000, 1000})
	for seed := range uint64(20) {
		_, plan := planned(t, n, Options{Mode: Flat, Seed: seed}, Transfer{Name: "x", Sources: []int{0, 1, 2}, Destinations: []int{3}})
		if len(plan.Flows) != 1 || plan.Flows[0].Hosts[0] != 1 {
			t.Errorf("seed %d: %v, want one flow from host 1", seed, plan.Flows)
		}
	}
}

// The paper's experiment (section 6), on 400 hosts: how much each planner has, beside random flat trees. The rows are those of the same name in section 2 of
// the specification, which has means over 36 conditions; here are the 18 of 5 and 10 transfers, a problem each, so a quarter more or less is the same. One answer is meant
// to be another: where all links are even the growth does not give everything to one source, as it did there (0.70).
func TestPaperExperiment(t *testing.T) {
	type means map[string]float64
	for _, c := range []struct {
		row  string
		on   topo.Shape
		want means
	}{
		{"intrigger", topo.Shape{Kind: "intrigger"}, means{Random: 2.19, Pipeline: 2.63, Exact: 3.03, Paper: 3.27}},
		{"same, backbone links x4", topo.Shape{Kind: "intrigger", Backbone: 4}, means{Random: 0.95, Pipeline: 1, Exact: 1.90, Paper: 1.69}},
		{"same, U(500,1000)", topo.Shape{Kind: "intrigger", Lo: unit.Gbit / 2, Hi: unit.Gbit}, means{Random: 1.77, Pipeline: 2.38, Exact: 2.90, Paper: 3.29}},
		{"same, all 1000", topo.Shape{Kind: "intrigger", Lo: unit.Gbit, Hi: unit.Gbit}, means{Random: 0.70, Pipeline: 2.90, Exact: 2.90, Paper: 3.22}},
		{"one flat switch", topo.Shape{Kind: "flat"}, means{Random: 1.22, Pipeline: 0.60, Exact: 1.17, Paper: 0.61}}, // one source captures it
	} {
		got, problems := means{}, 0.0
		for _, transfers := range []int{5, 10} {
			for _, sources := range []int{5, 10, 50} {
				for _, dests := range []int{5, 10, 50} {
					problems++
					c.on.Seed = uint64(problems)
					n, ts := problem(t, c.on, transfers, sources, dests)
					p := having(t, n, Options{}, ts...)
					flat, err := p.In(Flat)
					if err != nil {
						t.Fatal(err)
					}
					for mode := range c.want {
						plan, err := p.In(mode)
						if err != nil {
							t.Fatal(err)
						}
						got[mode] += plan.Throughput / flat.Throughput
					}
				}
			}
		}
		for mode, want := range c.want {
			if v := got[mode] / problems; v < want*0.75 || v > want*1.25 {
				t.Errorf("%s: %s has %.2f times as much as flat trees, want %.2f", c.row, mode, v, want)
			}
		}
	}
}
