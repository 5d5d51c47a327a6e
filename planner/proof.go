package planner

import (
	"math"
	"slices"
)

// This file says what is proved of a plan: what no plan exceeds, for all transfers and for each class, and what capacities are worth.

// proof is what no plan exceeds, and why, and the prices that prove it, by capacity: only the non-zero ones.
type proof struct {
	bound float64
	by    string
	price map[int32]float64
}

// Bound is the best bound on throughput that is proved so far, and the throughput of the columns so far, in bytes per second: infinite and 0 before the
// first program has been solved.
func (p *Planner) Bound() (value, bound float64) {
	bound = math.Inf(1)
	if p.free != nil && p.free.solved() {
		value, bound = p.free.value+p.net.brought(p.rest, p.rates), p.free.free
	}
	if p.floored != nil && p.floored.solved() {
		value, bound = max(value, p.floored.value), min(bound, p.floored.bound)
		if p.rest == nil {
			value = p.floored.value
		}
	}
	return value, bound
}

// prove sets a plan's bound: that of the problem with floors if it holds them, else that without.
func (p *Planner) prove(plan *Plan) {
	plan.Floor = p.share
	if p.theta != nil {
		plan.Theta = max(p.theta.theta, plan.MinRate) // what is found greedily is less, sometimes, than fairness gives all
	}
	g := &colgen{net: p.net, demands: p.demands, weight: p.ones()}
	access := g.access()
	bound, by := access, "downlinks"
	for _, g := range []*colgen{p.floored, p.free} {
		if g != nil && g.solved() && g.free < bound {
			bound, by = g.free, g.freeBy
		}
	}
	if value, _ := p.Bound(); by == "downlinks" && value >= bound*(1-1e-6) {
		by = "pipelines" // there are such as have all of it
	}
	plan.FreeBound = bound
	if g := p.floored; g != nil && g.solved() && g.floor > 0 && g.bound < access && plan.MinRate >= p.share*(1-mayLack) && g.bound <= bound*(1+1e-9) {
		bound, by = min(bound, g.bound), g.by+" with floors"
	}
	plan.bound(bound, by)
}

// priced says of each transfer what a byte per second more of capacities would be worth to its class, by weight, beside what those before it have.
func (p *Planner) priced() func(transfer int) prices {
	if p.uneven() && !p.o.MaxMin {
		proofs, classes := p.proofs, p.classes()
		heaviest := make([]float64, len(classes)) // for which the programs take 1
		for i, class := range classes {
			heaviest[i] = p.heaviest(class)
		}
		return func(transfer int) prices {
			i := slices.Index(classes, p.demands[transfer].priority)
			if i < 0 || i >= len(proofs) {
				return nil
			}
			return func(capacity int32) float64 { return proofs[i].price[capacity] * heaviest[i] }
		}
	}
	for _, g := range []*colgen{p.floored, p.free} {
		if g != nil && g.solved() {
			price := slices.Clone(g.master.price) // whose memory the next solution takes
			return func(int) prices { return func(capacity int32) float64 { return price[capacity] } }
		}
	}
	return func(int) prices { return nil }
}

// class says how each class fares, if there are several or weights.
func (p *Planner) class(plan *Plan) {
	if !p.uneven() || p.o.MaxMin {
		return
	}
	classed, classes := p.classed(), p.classes()
	for i, class := range classes {
		c := Class{Priority: class, Bound: math.Inf(1), BoundBy: "nothing: planning ended before it came to this class", Gap: math.NaN()}
		switch all := len(p.proofs) == len(classes); {
		case all && p.begins(p.weighed): // see mended
			c.BoundBy = "nothing: what the program proves is of plans that lack a little of a floor"
		case all:
			c.BoundBy = "nothing: planning ended before all had the floor, and each class what it can have"
		}
		for _, f := range plan.Flows {
			if d := &p.demands[f.Transfer]; d.priority == class {
				v := f.Rate * float64(len(f.Hosts)-1)
				c.Throughput, c.Weighted = c.Throughput+v, c.Weighted+v*d.weight
			}
		}
		// What is proved of a class is of plans in which those before have what they have in the program.
		switch {
		case i == 0 && len(p.proofs) == 0 && p.weighed != nil && p.weighed.solved():
			c.Bound, c.BoundBy = p.weighed.bound, p.weighed.by
		case i < len(p.proofs) && (i == 0 || classed):
			c.Bound, c.BoundBy = p.proofs[i].bound, p.proofs[i].by
		}
		if !math.IsInf(c.Bound, 1) {
			c.Bound = max(c.Bound*p.heaviest(class), c.Weighted) // millionths are kept free so that rounding is no obstacle
			c.Gap = 0
			if c.Bound > 0 {
				c.Gap = max(0, 1-c.Weighted/c.Bound)
			}
		}
		plan.Classes = append(plan.Classes, c)
	}
}

// classed says whether there is a plan for all classes that holds the floor.
func (p *Planner) classed() bool {
	return p.weighed != nil && len(p.proofs) == len(p.classes()) && p.holds(p.weighed)
}

// holds says whether a program has been solved, and gives everybody the floor, and classes before the last what they had.
func (p *Planner) holds(g *colgen) bool {
	return p.begins(g) && g.short() <= mayLack*p.share
}

// begins says the same of a program that may miss floors.
func (p *Planner) begins(g *colgen) bool {
	return g != nil && g.solved() && g.floor >= p.share && !g.slips()
}

// mayLack is the share of a floor that a pair may lack.
const mayLack = 1e-9
