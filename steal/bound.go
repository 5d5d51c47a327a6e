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
	Sites           []Inbound // of those whose nodes need the object from outside; nil: there are none, or nothing limits them
	Source          Outbound  // of the site inside which the store is, the only one that had the object before; zero: there is none, or nothing limits it
}

// Inbound is what can come into a site from outside, other sites and the store together. A site inside
// which the store is, or a node that had the object before, has none.
type Inbound struct {
	Site string
	Rate unit.Bandwidth // zero: no limit
}

// Outbound is what can leave a site, to all others together.
type Outbound struct {
	Site string
	Rate unit.Bandwidth // zero: no limit
}

// Bound is the fluid lower bound of a broadcast's makespan in seconds, and the
// resource that sets it: "downlink", "store", "uplinks" "what enters site …" or "what leaves site …". For an object of F
// bytes on N nodes, sites into each of which c_s come, and o that leaves the one which the store is in
//
//	T ≥ max( F / min d_i,  F / min(S, Σ r_i),  N·F / (min(S, Σ r_i) + Σ u_i),  F / min c_s,  F / o )
//
// (Kumar and Ross 2006 for one seed; Mundinger, Weber and Weiss 2008 for finite
// pieces). With nothing limited it is zero, and by is empty.
func Bound(size unit.Bytes, nodes int, r Rates) (seconds float64, by string) {
	for _, p := range Parts(size, nodes, r) {
		if p.Seconds > seconds {
			seconds, by = p.Seconds, p.By
		}
	}
	return seconds, by
}

// A Part of a bound is a time that a broadcast cannot go below, and the
// resource that sets it.
type Part struct {
	By      string
	Rate    unit.Bandwidth // what that resource carries; zero: no limit is known
	Seconds float64        // zero: no limit is known
}

// Parts are those of which Bound is the largest, in the order of the formula.
func Parts(size unit.Bytes, nodes int, r Rates) []Part {
	f := float64(size)
	part := func(by string, bytes, rate float64) Part {
		if math.IsInf(rate, 1) {
			return Part{By: by}
		}
		return Part{By: by, Rate: unit.Bandwidth(rate), Seconds: bytes / rate}
	}
	down := math.Inf(1)
	for _, d := range r.Down {
		if d > 0 {
			down = min(down, float64(d))
		}
	}
	store := sum(r.Store, nodes)
	if r.Total > 0 {
		store = min(store, float64(r.Total))
	}
	parts := []Part{
		part("downlink", f, down),
		part("store", f, store),
		part("uplinks", float64(nodes)*f, store+sum(r.Up, nodes)),
	}
	for _, s := range r.Sites {
		c := math.Inf(1)
		if s.Rate > 0 {
			c = float64(s.Rate)
		}
		parts = append(parts, part("what enters site "+s.Site, f, c))
	}
	if o := r.Source; o.Rate > 0 {
		parts = append(parts, part("what leaves site "+o.Site, f, float64(o.Rate)))
	}
	return parts
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
