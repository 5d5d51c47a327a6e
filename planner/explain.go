package planner

import (
	"cmp"
	"math"
	"slices"
)

// Reason says why a destination gets what it gets from whom.
type Reason struct {
	Pair
	Rate float64
	From []Origin // the flows that it is in, most first
	Full []Full   // full links on their ways up to it, or if there are none on those directly from its sources; those first that are worth most
	Cost []Cost   // of each source, the cheapest first; empty if nobody knows the prices: planning ended before it came to the transfer's class
}

// Origin is a flow that serves a destination.
type Origin struct {
	Source int
	Before int // the host that it comes from: the source, or a destination that passes it on
	Rate   float64
}

// Full is a link in whose direction nothing more goes.
type Full struct {
	Channel int
	Rate    float64
	Worth   float64 // of a byte per second more of it to the transfer's class: bytes per second of throughput; 0 if nobody knows
}

// Cost is what a byte per second directly from a source would take from other transfers of its class, in bytes per
// second of throughput. A destination is worth one: by weight, as much of it as the transfer weighs beside the heaviest of the class.
type Cost struct {
	Source int
	Price  float64 // infinite: there is no way
}

// Explain says for each pair of a plan why it is so, in the order of transfers.
func (p *Planner) Explain(plan *Plan) (reasons []Reason) {
	load := make([]float64, len(p.net.rate))
	for _, l := range plan.Links {
		load[p.net.capacity[l.Channel]] += l.Load
	}
	full := func(c int32) bool {
		k := p.net.capacity[c]
		return load[k] >= p.net.rate[k]*(1-1e-5)
	}
	flows := map[Pair][]Flow{}
	for _, f := range plan.Flows {
		for _, h := range f.Hosts[1:] {
			flows[Pair{f.Transfer, h}] = append(flows[Pair{f.Transfer, h}], f)
		}
	}
	var path []int32
	for k := range p.demands {
		price := plan.prices(k)
		for _, h := range p.demands[k].dests {
			r := Reason{Pair: Pair{k, int(h)}}
			r.Rate = plan.rates[r.Pair]
			known := map[int32]bool{}
			look := func(from, to int32) {
				path, _ = p.net.way(path[:0], from, to)
				for _, c := range path {
					if full(c) && !known[c] {
						known[c] = true
						f := Full{Channel: int(c), Rate: p.net.of(c)}
						if price != nil {
							f.Worth = price(p.net.capacity[c])
						}
						r.Full = append(r.Full, f)
					}
				}
			}
			for _, f := range flows[r.Pair] {
				at := slices.Index(f.Hosts[1:], int(h)) + 1
				r.From = append(r.From, Origin{f.Hosts[0], f.Hosts[at-1], f.Rate})
				for i := 1; i <= at; i++ {
					look(int32(f.Hosts[i-1]), int32(f.Hosts[i]))
				}
			}
			if len(r.From) == 0 {
				for _, s := range p.demands[k].sources {
					look(s, h)
				}
			}
			slices.SortStableFunc(r.From, func(a, b Origin) int { return cmp.Compare(b.Rate, a.Rate) })
			slices.SortStableFunc(r.Full, func(a, b Full) int { return cmp.Compare(b.Worth, a.Worth) })
			for _, s := range p.demands[k].sources {
				if price == nil {
					break
				}
				c := Cost{int(s), math.Inf(1)}
				if q, ok := p.net.pipe(k, []int32{s, h}); ok {
					c.Price = 0
					for _, u := range q.use {
						c.Price += u.times * price(u.capacity)
					}
				}
				r.Cost = append(r.Cost, c)
			}
			slices.SortStableFunc(r.Cost, func(a, b Cost) int { return cmp.Compare(a.Price, b.Price) })
			reasons = append(reasons, r)
		}
	}
	return reasons
}
