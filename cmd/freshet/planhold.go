package main

import (
	"fmt"
	"slices"

	"github.com/freshet/freshet/planner"
	"github.com/freshet/freshet/topo"
)

// offered is what a source would give beside what a destination has.
type offered int

const (
	offersMore offered = iota
	offersAsMuch
	offersLess
	offersNothing
	offersNoWay
)

// beside compares an offer with what a destination has. A thousandth is no difference.
func beside(r *planner.Reason, o *planner.Offer) offered {
	const near = 1e-3
	switch {
	case o.Bottleneck.Channel < 0:
		return offersNoWay
	case o.Rate <= planner.Negligible*r.Alone:
		return offersNothing
	case o.Rate > r.Rate*(1+near):
		return offersMore
	case o.Rate >= r.Rate*(1-near):
		return offersAsMuch
	}
	return offersLess
}

// gives says whether a destination has something from a source.
func gives(r *planner.Reason, source int) bool {
	return slices.ContainsFunc(r.From, func(o planner.Origin) bool { return o.Source == source })
}

// planHold is a link that holds destinations back.
type planHold struct {
	planner.Bottleneck
	own   bool // it is that into the destination
	count int  // how many destinations
}

// key is the same for what is called the same.
func (h *planHold) key() string {
	if h.own {
		return fmt.Sprint("own", h.Others, h.Full())
	}
	return fmt.Sprint(h.Channel, h.Beyond, h.Full())
}

// holds are the links that hold these destinations back, those first that hold most. Own links with the same users are one.
func (v *planView) holds(of []planner.Reason) (holds []planHold) {
	at := map[string]int{}
	for i := range of {
		r := &of[i]
		told := map[string]bool{}
		for _, b := range bottlenecks(r) {
			h := planHold{Bottleneck: b, own: !b.Beyond && v.g.To(topo.Channel(b.Channel)) == r.Destination}
			key := h.key()
			if told[key] {
				continue
			}
			told[key] = true
			k, known := at[key]
			if !known {
				k = len(holds)
				at[key] = k
				holds = append(holds, h)
			}
			holds[k].count++
		}
	}
	slices.SortStableFunc(holds, func(a, b planHold) int { return b.count - a.count })
	return holds
}

// bottlenecks are those of a destination's flows, or if it has none of the ways from its sources over which nothing would come.
func bottlenecks(r *planner.Reason) (all []planner.Bottleneck) {
	for _, o := range r.From {
		if o.Rate >= 1e-3*r.Rate {
			all = append(all, o.Bottleneck)
		}
	}
	for _, o := range r.Offers {
		if len(r.From) == 0 && beside(r, &o) == offersNothing {
			all = append(all, o.Bottleneck)
		}
	}
	return all
}
