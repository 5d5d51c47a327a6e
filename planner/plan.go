package planner

import (
	"math"
	"slices"
)

// Plan is who sends what to whom, and how good that is. Rates are bytes per second.
type Plan struct {
	Mode       string
	Throughput float64 // Σ over flows of destinations × rate
	Bound      float64 // no plan has more throughput; +Inf: nothing is proved
	BoundBy    string  // what proves it
	FreeBound  float64 // that of plans without floors
	Gap        float64 // 1 - Throughput/Bound
	MinRate    float64 // the smallest rate of a pair that can be reached
	Theta      float64 // what all pairs can have at once; 0: nobody asked
	Floor      float64 // what each pair was to have
	Classes    []Class // by priority, highest first, if there are several or weights; of Optimal alone

	Starved     []Pair // pairs that can be reached and have nothing, or next to nothing: see Negligible
	Unreachable []Unreachable
	Flows       []Flow
	Links       []Load // what is in use

	net    *Network
	rates  map[Pair]float64
	prices func(transfer int) prices
}

// prices are what a byte per second more of a capacity would be worth, in bytes per second of throughput; nil if nobody knows.
type prices func(capacity int32) float64

// Class is how the transfers of one priority fare beside all others.
type Class struct {
	Priority   int
	Throughput float64
	Weighted   float64 // the same by weight, which is what is planned for
	Bound      float64 // no plan that leaves the classes before this one what they have, and everybody the floor, has more of Weighted; +Inf: nothing is proved
	BoundBy    string  // what proves it, or why nothing is
	Gap        float64 // 1 - Weighted/Bound; NaN if nothing is proved
}

// Flow is a pipeline at a rate. A destination that is in several flows of a transfer gets other bytes from each.
type Flow struct {
	Transfer int   // as Add numbered it
	Hosts    []int // the source, then the destinations in order
	Rate     float64
}

// Load is what one direction of a link carries, in bytes per second.
type Load struct {
	Channel int
	Load    float64
	Rate    float64 // what it could carry
}

// result is the plan of pipelines at these rates, in bytes per second, without a bound.
func (p *Planner) result(pipes []pipe, rates []float64) *Plan {
	plan := &Plan{net: p.net, rates: map[Pair]float64{}, MinRate: math.Inf(1), prices: p.priced()}
	top := 0.0
	for _, r := range rates {
		top = max(top, r)
	}
	load := make([]float64, len(p.net.capacity))
	at := map[string]int{}
	var path []int32
	for i := range pipes {
		q := &pipes[i]
		narrowest := top
		for _, u := range q.use {
			narrowest = min(narrowest, p.net.rate[u.capacity])
		}
		if rates[i] <= max(1e-15*top, 1e-12*narrowest) { // rounding
			continue
		}
		plan.Throughput += rates[i] * float64(q.served())
		for k, h := range q.hosts {
			if k > 0 {
				plan.rates[Pair{q.demand, int(h)}] += rates[i]
				path, _ = p.net.way(path[:0], q.hosts[k-1], h)
				for _, c := range path {
					load[c] += rates[i]
				}
			}
		}
		if f, same := at[name(q)]; same {
			plan.Flows[f].Rate += rates[i]
			continue
		}
		at[name(q)] = len(plan.Flows)
		f := Flow{Transfer: q.demand, Rate: rates[i]}
		for _, h := range q.hosts {
			f.Hosts = append(f.Hosts, int(h))
		}
		plan.Flows = append(plan.Flows, f)
	}
	slices.SortStableFunc(plan.Flows, func(a, b Flow) int { return a.Transfer - b.Transfer })
	for c, l := range load {
		if l > 0 {
			plan.Links = append(plan.Links, Load{c, l, p.net.said[p.net.capacity[c]]})
		}
	}
	for k := range p.demands {
		for _, h := range p.demands[k].dests {
			r := plan.rates[Pair{k, int(h)}]
			plan.MinRate = min(plan.MinRate, r)
			if p.net.starves(&p.demands[k], h, r) {
				plan.Starved = append(plan.Starved, Pair{k, int(h)})
			}
		}
	}
	if math.IsInf(plan.MinRate, 1) {
		plan.MinRate = 0
	}
	plan.Unreachable = slices.Clone(p.lost) // by transfer, as they come
	return plan
}

// bound sets what no plan exceeds, in bytes per second, and what proves it.
func (plan *Plan) bound(bound float64, by string) {
	plan.Bound, plan.BoundBy, plan.Gap = bound, by, 0
	if bound > 0 {
		plan.Gap = max(0, 1-plan.Throughput/bound)
	}
}

// Rate is what a destination gets, in bytes per second; 0 if it is in no flow.
func (plan *Plan) Rate(p Pair) float64 { return plan.rates[p] }
