package planner

import (
	"slices"
)

// Stages of planning. After a change the programs are as good as ready, and those that begin with PDHG are soon; there the one with floors goes first.
const (
	finding    = iota // theta, what all can have at once
	floorless         // the optimum without floors
	withFloors        // and with them
	weighing          // by weights and priorities
	rising            // fairness alone
	done
)

// Step makes the plan better, by one round of column generation, or its bound. It says whether there is more to do. An error is that no solver has an answer
// to a program that passes lp.Program.Check.
func (p *Planner) Step() (more bool, err error) {
	p.clip()
	delete(p.drawn, Single) // it is rounded from programs that get better now
	many := p.Pairs() > p.many
	switch p.stage {
	case finding:
		if p.o.Floor > 0 || p.o.MaxMin {
			if more, err := p.find(many); err != nil || more {
				return more, err
			}
		}
		p.stage = floorless
		if p.early = p.share > 0 && (p.warm && p.floored != nil || !p.warm && !many && p.Pairs() >= pdhgFrom); p.early {
			p.stage = withFloors
		}
	case floorless:
		if p.free == nil {
			have := p.net.rate
			if many && p.share > 0 {
				p.rest, p.rates = p.theta.plan(p.share)
				have = p.net.left(have, p.rest, p.rates)
			}
			if p.floored != nil {
				p.free = p.floored.copied(p.ones())
			} else {
				p.free = p.net.colgen(p.demands, p.ones(), have, append(slices.Clone(p.pool), p.first...))
			}
		}
		more, err := p.round(p.free)
		if err != nil || more {
			return more, err
		}
		switch value, bound := p.Bound(); {
		case p.share == 0:
			p.floored, p.stage = p.free, weighing
		case p.begun || p.rest != nil && value >= bound*(1-p.near()):
			p.stage = weighing
		default:
			p.stage = withFloors
		}
	case withFloors:
		if p.floored == nil {
			if p.free != nil {
				p.floored = p.free.copied(p.ones())
				for _, q := range p.rest {
					p.floored.take(q)
				}
			} else {
				p.floored = p.net.colgen(p.demands, p.ones(), p.net.rate, append(slices.Clone(p.pool), p.first...))
			}
		}
		if !p.begun {
			p.begun = true
			p.floors(p.floored)
		}
		more, err := p.round(p.floored)
		if err != nil || more {
			return more, err
		}
		p.stage = weighing
		if p.early {
			p.stage = floorless
		}
	case weighing:
		classes := p.classes()
		if !p.uneven() || p.o.MaxMin || len(p.proofs) == len(classes) {
			p.stage = rising
			break
		}
		if p.weighed == nil {
			g := p.floored
			if g == nil {
				g = p.free
			}
			p.weighed = g.copied(p.weights(classes[0]))
			p.floors(p.weighed)
		}
		more, err := p.round(p.weighed)
		if err != nil || more {
			return more, err
		}
		if p.exhausted() && len(p.proofs)+1 < len(classes) {
			p.stage = done
			break
		}
		p.proofs = append(p.proofs, proof{p.weighed.bound, p.weighed.by, p.weighed.master.scarce()})
		if len(p.proofs) < len(classes) {
			p.weighed.settle(p.weights(classes[len(p.proofs)]))
		}
	case rising:
		if !p.o.MaxMin || p.Pairs() == 0 || p.Pairs() > p.many || p.exhausted() {
			p.stage = done
			break
		}
		if p.maxMin == nil {
			pipes, _ := p.theta.plan(p.theta.theta)
			p.maxMin = p.net.maxMin(p.demands, p.classes(), append(pipes, p.first...))
		}
		before := p.maxMin.g.master.work()
		more, err := p.maxMin.round(p.near())
		p.spent += p.maxMin.g.master.work() - before
		if err != nil || more {
			return more, err
		}
		p.stage = done
	}
	return p.stage != done, nil
}

func (p *Planner) enough() bool { return p.o.Enough != nil && p.o.Enough() }

// weights are what the transfers of one priority weigh, the heaviest 1, and the others nothing.
func (p *Planner) weights(class int) []float64 {
	weights, most := make([]float64, len(p.demands)), p.heaviest(class)
	for k := range weights {
		if p.live[k] && p.demands[k].priority == class {
			weights[k] = p.demands[k].weight / most
		}
	}
	return weights
}

// heaviest is the largest weight of a priority.
func (p *Planner) heaviest(class int) (most float64) {
	for k := range p.demands {
		if p.live[k] && p.demands[k].priority == class {
			most = max(most, p.demands[k].weight)
		}
	}
	return most
}

// near is the share of a bound that may be missing.
func (p *Planner) near() float64 {
	switch {
	case p.o.Gap > 0:
		return max(p.o.Gap, 1e-7)
	case p.Pairs() > p.many && p.share > 0:
		return 1e-2
	case !p.net.tree:
		return 1e-3
	}
	return 1e-6
}

// exhausted says whether the work that may be done until the end of the present stage has been done: those that come after get theirs, too. Or somebody has enough.
func (p *Planner) exhausted() bool {
	if p.enough() {
		return true
	}
	part := 1.0
	switch further := p.uneven() || p.o.MaxMin; {
	case p.stage == finding:
		part = 0.25
	case p.stage == floorless && (p.share > 0 && !p.early || further):
		part = 0.5
	case p.stage == withFloors && (p.early || further):
		part = 0.75
	}
	return p.o.Work > 0 && float64(p.spent) >= part*float64(p.o.Work)
}

// allBut is the share of theta that even a floor of all of it leaves, so that rounding does not make it impossible.
const allBut = 2e-6

// find finds theta, a round at a time, and from it the floor.
func (p *Planner) find(many bool) (more bool, err error) {
	if p.Pairs() == 0 {
		return false, nil
	}
	if p.theta == nil {
		p.theta = p.net.concurrent(p.demands, p.first)
		if !p.net.tree {
			p.theta.near = 1e-4
			if p.o.Gap > 0 {
				p.theta.near = min(1e-4, p.near())
			}
		}
	}
	before := p.theta.master.work()
	more, err = p.theta.round()
	p.spent += p.theta.master.work() - before
	if err != nil {
		return false, err
	}
	off := 1e-4 // by how much theta may be larger than what is found of it; the floor is a share of the larger one
	if many {
		off = 1e-2
	}
	atMost := min(p.theta.bound, p.theta.theta*(1+off))
	if more && !(many && atMost == p.theta.bound) && !p.exhausted() {
		return true, nil
	}
	if !p.o.MaxMin { // which gives everybody all of theta
		p.share = min(p.o.Floor*atMost, p.theta.theta*(1-allBut))
	}
	return false, nil
}

// floors sets the floor of a column generation, and takes the pipelines into it that give it to everybody.
func (p *Planner) floors(g *colgen) {
	g.setFloor(p.share)
	if p.share > 0 {
		pipes, _ := p.theta.plan(p.share)
		for _, q := range pipes {
			g.take(q)
		}
	}
}

// round is one round of a column generation. It is at its end when nothing is to be gained any more; where pricing is greedy,
// when little was in several rounds.
func (p *Planner) round(g *colgen) (more bool, err error) {
	if g.pdhg != nil {
		return p.roundPDHG(g)
	}
	before := g.master.work()
	if err := g.solve(); err != nil {
		return false, err
	}
	for g.floor > 0 && !p.enough() && g.secure() > 0 {
		if err := g.solve(); err != nil {
			return false, err
		}
	}
	if g.value > g.mark*(1+3e-3) {
		g.mark, g.slow = g.value, 0
	} else {
		g.slow++
	}
	p.spent += g.master.work() - before
	stop := p.exhausted() || g.slow >= 4 && g.lacks() <= 1e-6*g.floor && g.greedy()
	before = g.master.work()
	added := g.price(stop)
	p.spent += g.master.work() - before
	return added > 0 && !stop && g.value < g.bound*(1-p.near()), nil
}
