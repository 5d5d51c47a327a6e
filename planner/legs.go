package planner

import (
	"math"
	"slices"
)

// legs are the ways between the hosts of a transfer in a network that is no tree: what a pipeline is made of there.
type legs struct {
	sources int
	hosts   []int32 // the sources, then the destinations
	way     [][]use // from host a (first index) to destination d, at a·len(dests)+d; nil: none
}

func (n *Network) legs(sources, dests []int32) *legs {
	l := &legs{sources: len(sources), hosts: append(slices.Clone(sources), dests...)}
	l.way = make([][]use, len(l.hosts)*len(dests))
	for a, from := range l.hosts {
		for d, to := range dests {
			if from == to {
				continue
			}
			if p, ok := n.pipe(0, []int32{from, to}); ok {
				l.way[a*len(dests)+d] = p.use
			}
		}
	}
	return l
}

// costs are the prices of all ways; infinite where there is none.
func (l *legs) costs(price []float64) []float64 {
	cost := make([]float64, len(l.way))
	for i, w := range l.way {
		if w == nil {
			cost[i] = math.Inf(1)
			continue
		}
		for _, u := range w {
			cost[i] += u.times * price[u.capacity]
		}
	}
	return cost
}

// best returns pipelines that are worth much at these prices, and their profit: value of each destination less the
// prices of what it takes to get there. It is greedy: the destination that costs least more is
// put where it costs that, between two others or at an end; then what does not pay is taken out again. With all set every destination
// is served, whatever it costs. It is not the optimum, which is hard to find where routes are free to
// be odd: on trees, where it is known, columns from here come to 0.99 of it on average. O(destinations³) at most.
func (l *legs) best(price, value []float64, all bool) (walks [][]int32, profit float64) {
	cost := l.costs(price)
	nd := len(l.hosts) - l.sources
	at := func(a, d int) float64 { return cost[a*nd+d] }
	type walk struct {
		source int
		dests  []int
	}
	var open []walk
	left := make([]bool, nd)
	for d := range left {
		left[d] = true
	}
	// cheapest is where d costs least: a new walk from a source (walk = -1-source), or before index place of a walk.
	type spot struct {
		cost        float64
		walk, place int
	}
	cheapest := func(d int) (s spot) {
		s.cost = math.Inf(1)
		for a := range l.sources {
			if c := at(a, d); c < s.cost {
				s = spot{c, -1 - a, 0}
			}
		}
		for w, o := range open {
			before := o.source
			for k := 0; k <= len(o.dests); k++ {
				c := at(before, d)
				if k < len(o.dests) {
					c += at(l.sources+d, o.dests[k]) - at(before, o.dests[k])
					before = l.sources + o.dests[k]
				}
				if c < s.cost {
					s = spot{c, w, k}
				}
			}
		}
		return s
	}
	spots := make([]spot, nd)
	for d := range spots {
		spots[d] = cheapest(d)
	}
	for range nd {
		d := -1
		for k := range nd {
			if left[k] && !math.IsInf(spots[k].cost, 1) && (d < 0 || spots[k].cost-value[k] < spots[d].cost-value[d]) {
				d = k
			}
		}
		if d < 0 {
			break
		}
		left[d] = false
		s := spots[d]
		w := s.walk
		if w < 0 {
			open = append(open, walk{-1 - w, []int{d}})
			w = len(open) - 1
		} else {
			open[w].dests = slices.Insert(open[w].dests, s.place, d)
		}
		for k := range nd {
			if left[k] { // places in other walks are as they were
				if spots[k].walk == w {
					spots[k] = cheapest(k)
					continue
				}
				before := open[w].source
				for i := 0; i <= len(open[w].dests); i++ {
					c := at(before, k)
					if i < len(open[w].dests) {
						next := open[w].dests[i]
						c += at(l.sources+k, next) - at(before, next)
						before = l.sources + next
					}
					if c < spots[k].cost {
						spots[k] = spot{c, w, i}
					}
				}
			}
		}
	}
	for _, o := range open {
		for !all { // the one that costs most more than it is worth goes first
			worst, loss := -1, 1e-12
			before := o.source
			for k, d := range o.dests {
				c := at(before, d)
				if k+1 < len(o.dests) {
					c += at(l.sources+d, o.dests[k+1]) - at(before, o.dests[k+1])
				}
				if c-value[d] > loss {
					worst, loss = k, c-value[d]
				}
				before = l.sources + d
			}
			if worst < 0 {
				break
			}
			o.dests = slices.Delete(o.dests, worst, worst+1)
		}
		// The end that does not pay as a whole.
		sum, top, keep, before := 0.0, 0.0, 0, o.source
		for k, d := range o.dests {
			sum += value[d] - at(before, d)
			if sum > top || all {
				top, keep = sum, k+1
			}
			before = l.sources + d
		}
		if keep == 0 {
			continue
		}
		profit += top
		hosts := []int32{l.hosts[o.source]}
		for _, d := range o.dests[:keep] {
			hosts = append(hosts, l.hosts[l.sources+d])
		}
		walks = append(walks, hosts)
	}
	return walks, profit
}
