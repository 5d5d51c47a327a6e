package planner

import (
	"slices"

	"github.com/freshet/freshet/internal/lp"
)

// single rounds the optimum to one pipeline for each destination: the pipelines that carry most come
// first, each without the destinations that an earlier one serves. Then transfers are planned anew one after
// the other, at the prices of the links without them, as long as that helps.
func (p *Planner) single() ([]pipe, error) {
	g := p.free
	if g == nil {
		g = p.floored
	}
	if g == nil {
		return p.first, nil
	}
	rates := g.rates()
	order := make([]int, 0, len(rates))
	for i, r := range rates {
		if r > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := rates[a]*float64(g.pipes[a].served()), rates[b]*float64(g.pipes[b].served())
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return a - b
	})
	served := map[member]bool{}
	var pipes []pipe
	take := func(k int, hosts []int32) {
		row := hosts[:1:1]
		for _, h := range hosts[1:] {
			if !served[member{k, h}] {
				served[member{k, h}] = true
				row = append(row, h)
			}
		}
		if len(row) > 1 {
			pipes = append(pipes, p.net.split(k, row)...)
		}
	}
	for _, i := range order {
		take(g.pipes[i].demand, g.pipes[i].hosts)
	}
	for i := range p.first { // who has nothing in the optimum
		take(p.first[i].demand, p.first[i].hosts)
	}
	return p.net.replan(p.demands, pipes, &lp.Simplex{Seed: 5, Enough: p.net.enough}, p.spare)
}

// spare are pipelines for all of a transfer's destinations over what others leave. Of sets for different thresholds, below which a link
// counts as dear, that whose narrowest pipelines bring most is taken.
func (p *Planner) spare(k int, have []float64) (best []pipe) {
	d := &p.demands[k]
	if len(d.dests) == 0 {
		return nil
	}
	var widths []float64
	know := map[int32]bool{}
	note := func(c int32) {
		if c := p.net.capacity[c]; !know[c] && have[c] > 0 {
			know[c] = true
			widths = append(widths, have[c])
		}
	}
	if d.sub != nil {
		for _, c := range d.sub.up {
			if c >= 0 {
				note(c)
				note(c ^ 1)
			}
		}
	} else if d.legs != nil && d.legs.ways() {
		for _, c := range d.legs.found {
			if !know[c] && have[c] > 0 {
				know[c] = true
				widths = append(widths, have[c])
			}
		}
	}
	if len(widths) == 0 {
		return nil
	}
	slices.Sort(widths)
	price := make([]float64, len(p.net.rate))
	top := 0.0
	for step := 1; step <= 9 && !p.enough(); step++ {
		t := widths[(len(widths)-1)*step/10]
		for c, h := range have {
			switch {
			case p.net.rate[c] == 0:
				price[c] = dear
			case h >= t:
				price[c] = 1e-3 + t/h/float64(1+len(d.dests))
			default:
				price[c] = 1 + 4*(t-h)/t
			}
		}
		var walks [][]int32
		if d.sub != nil {
			value := make([]float64, len(d.sub.place))
			for i := range value {
				value[i] = 1e6
			}
			walks, _ = (&pricer{net: p.net, price: price}).best(d.sub, value)
		} else {
			walks, _ = (&pricer{net: p.net, price: price}).over(d.legs, make([]float64, len(d.dests)), true)
		}
		var pipes []pipe
		for _, w := range walks {
			pipes = append(pipes, p.net.split(k, w)...)
		}
		left := slices.Clone(have)
		sum := 0.0
		for i, r := range p.net.fill(pipes, func(q *pipe) float64 { return 1 }, left) {
			sum += r * float64(pipes[i].served())
		}
		if sum > top {
			best, top = pipes, sum
		}
	}
	return best
}
