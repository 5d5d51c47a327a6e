package planner

import (
	"math"

	"github.com/freshet/freshet/internal/lp"
)

// maxMin makes rates max-min fair over all pipelines that there are, each by its weight: all rise together as far as a
// linear program lets them; those that its prices say cannot have more then stay, and the others rise on. So no pair can have
// more unless one that has less, or as much, has less still. That is lexicographic max-min by successive linear programs, whose duals say who is
// saturated (Nace and Pióro 2008). Higher priorities rise first, lower ones on what they leave.
//
// Each level is a program of column generation: every pair has a floor, which is what it has for certain, and all that
// still rise have to be above theirs by what is to be as large as can be.
type maxMin struct {
	g         *colgen
	above     int32      // the column of how far, for the heaviest
	heavy     float64    // what that weighs
	objective float64    // of the column
	height    float64    // what those that rise have for certain, for each unit of weight; bytes per second
	rising    []member   // and all that are to have the same
	later     [][]member // classes whose turn has not come
	slow      int
	mark      float64
}

// maxMin begins with these pipelines; classes are priorities, the highest first.
func (n *Network) maxMin(demands []demand, classes []int, begin []pipe) *maxMin {
	t := &maxMin{g: n.colgen(demands, make([]float64, len(demands)), n.rate, begin)}
	columns := map[member][]lp.Entry{}
	for i := range t.g.pipes {
		for _, h := range t.g.pipes[i].hosts[1:] {
			m := member{t.g.pipes[i].demand, h}
			columns[m] = append(columns[m], lp.Entry{At: t.g.columns[i], Value: 1})
		}
	}
	for _, class := range classes {
		var of []member
		for k := range demands {
			for _, h := range demands[k].dests {
				if demands[k].priority == class {
					of = append(of, member{k, h})
					t.g.secured(member{k, h}, 0, columns[member{k, h}])
				}
			}
		}
		if len(of) > 0 {
			t.later = append(t.later, of)
		}
	}
	t.next()
	return t
}

// next lets the next class rise.
func (t *maxMin) next() {
	if len(t.later) > 0 {
		t.rising, t.later, t.height = t.later[0], t.later[1:], 0
		t.lift()
	}
}

// lift makes a column of how far those that rise are above what they have for certain. It counts in the objective as much as they are many, by weights of which the
// largest is 1: so a byte per second at one of them has a price of 1 on average, as where throughput is planned for, and is not
// rounding beside what pricing and programs take for nothing. The lightest may have all of that price, for its part of a byte; a
// floor that is missed must cost far more.
func (t *maxMin) lift() {
	light := math.Inf(1)
	t.heavy = 0
	for _, m := range t.rising {
		w := t.g.demands[m.demand].weight
		t.heavy, light = max(t.heavy, w), min(light, w)
	}
	t.objective = min(float64(len(t.rising)), penalty/100*light/t.heavy)
	entries := make([]lp.Entry, len(t.rising))
	for i, m := range t.rising {
		entries[i] = lp.Entry{At: t.g.floors[m], Value: t.g.demands[m.demand].weight / t.heavy}
	}
	if t.above > 0 {
		t.g.master.prog.Cost[t.above] = 0
	}
	t.above = t.g.master.prog.Column(t.objective, entries...)
	t.g.bound, t.slow, t.mark = math.Inf(1), 0, 0
}

// high is what those that rise have in the last solution for each unit of weight, in bytes per second.
func (t *maxMin) high() float64 { return t.height + t.g.master.rate(t.above)/t.heavy }

// round is one round of column generation. A level that is proved but for near of its height is taken. It says whether
// any pair still rises.
func (t *maxMin) round(near float64) (more bool, err error) {
	if len(t.rising) == 0 {
		return false, nil
	}
	if err := t.g.solve(); err != nil {
		return false, err
	}
	if t.g.master.sol.Early { // its prices say nothing about who can have more
		return true, nil
	}
	prices := t.g.master.sol.Y
	added := t.g.price(false)
	high := t.high()
	if high > t.mark*(1+1e-3) {
		t.mark, t.slow = high, 0
	} else {
		t.slow++
	}
	if added > 0 && t.height+t.g.bound/t.objective/t.heavy > high*(1+near) && !(t.slow > 3 && t.g.greedy()) {
		return true, nil
	}
	// Who has a price is as high as can be. One has: their parts of the objective are 1 together.
	part := func(m member) float64 {
		return prices[t.g.floors[m]] * t.g.demands[m.demand].weight / t.heavy / t.objective
	}
	var on []member
	dearest := 0.0
	for _, m := range t.rising {
		dearest = max(dearest, part(m))
	}
	const rounding = 1e-6 // as far as this below, so that it is no obstacle to those that rise on
	for _, m := range t.rising {
		w := t.g.demands[m.demand].weight
		t.g.master.prog.B[t.g.floors[m]] = -(1 - rounding) * w * high / t.g.master.unit
		if v := part(m); v <= 1e-7 && v < dearest {
			on = append(on, m)
		}
	}
	t.rising, t.height = on, high*(1-rounding)
	if len(on) > 0 {
		t.lift()
	} else {
		t.next()
	}
	return len(t.rising) > 0, nil
}
