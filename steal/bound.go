package steal

import (
	"math"

	"github.com/freshet/freshet/unit"
)

// Rates are the capacities that a broadcast has to live with. By node: Down and
// Up are its own link, Store is what it gets from the store. Total is what the
// store delivers to all together. Zero or a missing slice is no limit.
type Rates struct {
	Down, Up, Store []unit.Bandwidth
	Total           unit.Bandwidth
}

// Bound is the fluid lower bound of a broadcast's makespan in seconds, and the
// resource that sets it: "downlink", "store" or "uplinks". For an object of F
// bytes on N nodes
//
//	T ≥ max( F / min d_i,  F / min(S, Σ r_i),  N·F / (min(S, Σ r_i) + Σ u_i) )
//
// (Kumar and Ross 2006 for one seed; Mundinger, Weber and Weiss 2008 for finite
// pieces). With nothing limited it is zero, and by is empty.
func Bound(size unit.Bytes, nodes int, r Rates) (seconds float64, by string) {
	f := float64(size)
	consider := func(bytes, rate float64, name string) {
		if t := bytes / rate; t > seconds {
			seconds, by = t, name
		}
	}
	for _, d := range r.Down {
		if d > 0 {
			consider(f, float64(d), "downlink")
		}
	}
	store := sum(r.Store, nodes)
	if r.Total > 0 {
		store = min(store, float64(r.Total))
	}
	consider(f, store, "store")
	consider(float64(nodes)*f, store+sum(r.Up, nodes), "uplinks")
	return seconds, by
}

// sum is what the nodes have together: infinite if one of them is not limited.
func sum(rates []unit.Bandwidth, nodes int) (total float64) {
	if len(rates) < nodes {
		return math.Inf(1)
	}
	for _, r := range rates {
		if r <= 0 {
			return math.Inf(1)
		}
		total += float64(r)
	}
	return total
}
