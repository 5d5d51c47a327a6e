package planner

import (
	"math"
	"slices"
	"testing"

	"github.com/freshet/freshet/topo"
)

// The destinations of a negligible flow get from their other pipelines what it brought, where there is room; where not they go without,
// unless that is below the floor.
func TestDropNegligible(t *testing.T) {
	const little = 1e-4
	for _, tt := range []struct {
		name      string
		up, floor float64
		want      []float64
	}{
		{"room for both", 1000, 0, []float64{50 + little, 50 + little, 0}},
		{"room for the first", 100 + little, 0, []float64{50 + little, 50, 0}},
		{"a floor that needs it", 100 + little, 50 + little, []float64{50, 50, little}},
		{"a floor below", 100 + little, 50, []float64{50 + little, 50, 0}},
	} {
		n := star([2]float64{tt.up, 0}, [2]float64{200, 200}, [2]float64{200, 200})
		var pipes []pipe
		for _, hosts := range [][]int32{{0, 1}, {0, 2}, {0, 1, 2}} {
			p, ok := n.pipe(0, hosts)
			if !ok {
				t.Fatal("no pipeline")
			}
			pipes = append(pipes, p)
		}
		rates := []float64{50, 50, little}
		n.dropNegligible(pipes, rates, tt.floor)
		for i := range rates {
			if math.Abs(rates[i]-tt.want[i]) > 1e-9 {
				t.Errorf("%s: got %v, want %v", tt.name, rates, tt.want)
				break
			}
		}
	}
	// A little that is all that somebody has is not negligible.
	n := star([2]float64{1000, 0}, [2]float64{200, 200}, [2]float64{200, 200})
	a, _ := n.pipe(0, []int32{0, 1})
	b, _ := n.pipe(0, []int32{0, 1, 2})
	rates := []float64{50, little}
	if n.dropNegligible([]pipe{a, b}, rates, 0); rates[1] != little {
		t.Errorf("got %v, and the last destination has nothing", rates)
	}
}

// Plans have no flow that nobody would carry out, and nobody has noticeably less for that.
func TestNoNegligibleFlows(t *testing.T) {
	dropped := 0
	for _, kind := range []string{"intrigger", "star", "fattree"} {
		for seed := range uint64(3) {
			n, ts := problem(t, topo.Shape{Kind: kind, Hosts: 60, Seed: seed}, 5, 2, 6)
			for _, o := range []Options{{MaxMin: true}, {Floor: 0.9}, {}} {
				p, plan := planned(t, n, o, ts...)
				for _, f := range plan.Flows {
					large := func(h int) bool { return f.Rate >= 0.99*negligibleFlow*plan.Rate(Pair{f.Transfer, h}) }
					if o.Floor == 0 && !slices.ContainsFunc(f.Hosts[1:], large) {
						t.Errorf("%s, seed %d, %+v: flow %v", kind, seed, o, f)
					}
				}
				if plan.MinRate < plan.Floor*(1-1e-9) {
					t.Errorf("%s, seed %d, %+v: smallest %v, floor %v", kind, seed, o, plan.MinRate, plan.Floor)
				}
				pipes, rates, err := p.optimum()
				if err != nil {
					t.Fatal(err)
				}
				n.fit(pipes, rates)
				had, has := map[member]float64{}, map[member]float64{}
				sum := func(into map[member]float64) (flows int) {
					for i, q := range pipes {
						for _, h := range q.hosts[1:] {
							into[member{q.demand, h}] += rates[i]
						}
						if rates[i] > 0 {
							flows++
						}
					}
					return flows
				}
				before := sum(had)
				n.dropNegligible(pipes, rates, p.share)
				dropped += before - sum(has)
				for m, before := range had {
					if has[m] < before*(1-10*negligibleFlow) {
						t.Errorf("%s, seed %d, %+v: %v had %v and has %v", kind, seed, o, m, before, has[m])
					}
				}
			}
		}
	}
	if dropped < 20 {
		t.Errorf("%d negligible flows in all plans together: too few to tell", dropped)
	}
}
