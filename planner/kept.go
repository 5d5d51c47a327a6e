package planner

import "slices"

// atOnce is how many exchanges of the simplex method there are before a plan after a change: half of what is to be gained by all of them
// takes a tenth.
const atOnce = 200

// goesOn is the program that planning goes on with after a change on a network with cycles, where a program of the same pipelines would take
// half a second from its beginning; nil if there is none, or it has been solved since.
func (p *Planner) goesOn() *colgen {
	g := p.free
	if p.o.Floor > 0 && p.floored != nil {
		g = p.floored
	}
	if !p.warm || p.net.tree && p.Pairs() < pdhgFrom || p.o.MaxMin || g == nil || g.solved() {
		return nil
	}
	return g
}

// kept is what a change leaves of the last plan, at once. What came and went is taken up by some exchanges from where the program was, or some steps. Where a rate has
// become smaller that is no point for exchanges to begin at; then the pipelines of the last plan are what there is. Transfers of which a pair has less than the floor
// get what they lack, all of their pairs, and whatever crosses a capacity that then carries too much is made slower. What is left over goes
// to the pipelines in which it is worth most.
func (p *Planner) kept(g *colgen) ([]pipe, []float64, error) {
	var had []pipe
	var rates []float64
	if x, ok := p.soon(g); ok {
		for i, c := range g.columns {
			if q := g.pipes[i]; x[c] > 0 && !g.gone[q.demand] {
				had, rates = append(had, q), append(rates, x[c])
			}
		}
	} else {
		for i := range p.pool {
			had, rates = append(had, p.pool[i]), append(rates, p.had[name(&p.pool[i])])
		}
	}
	return p.mended(g, had, rates)
}

// soon are rates of g's columns that few exchanges find from where it was, or where there are many pairs as many steps of PDHG as a
// round of it has, which change nothing in g. ok is false if there is no point to begin at.
func (p *Planner) soon(g *colgen) (rates []float64, ok bool) {
	if p.Pairs() < pdhgFrom {
		return g.master.soon(atOnce)
	}
	return g.master.try(g.warmPDHG())
}

// mended are pipelines at these rates, or less where capacities want it, with what the floor lacks, and what is left over.
func (p *Planner) mended(g *colgen, had []pipe, rates []float64) ([]pipe, []float64, error) {
	var pipes, all []pipe
	var each, of []float64
	if p.share > 0 {
		all, of = p.theta.plan(p.share)
	}
	laid := make([]float64, len(p.demands)) // the part of the floor that is given beforehand
	for {
		pipes, each = nil, nil
		for i := range all {
			if part := laid[all[i].demand]; part > 0 {
				pipes, each = append(pipes, all[i]), append(each, part*of[i])
			}
		}
		pipes, each = append(pipes, had...), append(each, p.net.slower(had, rates, p.net.load(pipes, each))...)
		if p.share == 0 || !p.lacking(laid, pipes, each) {
			break
		}
	}
	left := p.net.left(p.net.rate, pipes, each)
	var more []pipe
	for _, list := range [][]pipe{g.pipes, p.first} {
		for _, q := range list {
			if !g.gone[q.demand] && !slices.ContainsFunc(q.use, func(u use) bool { return left[u.capacity] < 1e-4*p.net.rate[u.capacity] }) {
				more = append(more, q)
			}
		}
	}
	if p.Pairs() >= pdhgFrom { // a program of all that has a little left over would take longest
		others := p.fair(more, left, func(q *pipe) float64 { return p.weight(q) * float64(q.served()) })
		for i := range others {
			others[i] *= 1 - 1e-6
		}
		return append(pipes, more...), append(each, others...), nil
	}
	others, err := p.shares(more, left)
	for i := range others {
		others[i] *= 1 - 1e-6 // rounding takes nothing from the floors
	}
	return append(pipes, more...), append(each, others...), err
}

// lacking raises what is given beforehand to the transfers of which a pair has less than the floor, by what it lacks and a little. It says whether there are
// any; nobody is who is given all of it.
func (p *Planner) lacking(laid []float64, pipes []pipe, rates []float64) (some bool) {
	got := arrivals(pipes, rates)
	for k := range p.demands {
		least := p.share
		for _, h := range p.demands[k].dests {
			least = min(least, got[member{k, h}])
		}
		if lack := 1 - least/p.share; laid[k] < 1 && lack > mayLack {
			laid[k], some = min(1, laid[k]+1.05*lack+min(max(laid[k], 1e-4), 0.05)), true
		}
	}
	return some
}

// slower are rates of pipelines, as much lower as it takes for no capacity to carry more than it has beside load.
func (n *Network) slower(pipes []pipe, rates, load []float64) []float64 {
	lower := slices.Clone(rates)
	for c, l := range n.load(pipes, rates) { // from here on load is the share that there is room for
		room := max(n.rate[c]-load[c], 0)
		if load[c] = 1; l > room {
			load[c] = room / l
		}
	}
	for i := range pipes {
		for _, u := range pipes[i].use {
			lower[i] = min(lower[i], rates[i]*load[u.capacity])
		}
	}
	return lower
}
