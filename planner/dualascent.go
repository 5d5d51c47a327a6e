package planner

import (
	"math/bits"
)

// mostAscent is the most destinations for which sets are tried; beyond it each pays only its cheapest entry.
const mostAscent = 192

// dualAscent proves what pipelines of a transfer must cost where the cheapest of them cannot be found for certain. Every pipeline that
// serves a destination comes into every set of destinations that has it in, from outside; so each set may charge a toll at its border, its dual variable,
// as long as no leg has to pay more than it costs, and what destinations in the set pay for it they are not worth any more. Tolls are
// raised by the sets that nobody can reach as yet without paying: first each destination by itself, and where they reach each other in
// a circle for nothing, all of them together. That is Edmonds' algorithm for the cheapest arborescence, as a dual ascent (Wong 1984), with
// destinations that stop paying when their value is used up.
//
// rest is by destination what is left of its value: with values less by that no pipeline gains anything. paid is the sum of
// all tolls; if values are large it is what the cheapest arborescence costs, and no pipelines that serve all cost
// less. Legs cost factor times what t says. O(destinations³) at most, usually.
func dualAscent(t *legCosts, factor float64, value []float64) (rest []float64, paid float64) {
	n := t.n
	rest = make([]float64, n)
	for d, v := range value {
		rest[d] = max(v, 0)
	}
	if n > mostAscent {
		for d := range n {
			cheapest := t.enter[d]
			for _, c := range t.leg[d*n : d*n+n] {
				cheapest = min(cheapest, c)
			}
			toll := min(rest[d], factor*cheapest)
			rest[d] -= toll
			paid += toll
		}
		return rest, paid
	}
	// What legs do not yet pay.
	enter, leg := make([]float64, n), make([]float64, n*n)
	for d := range n {
		enter[d] = factor * t.enter[d]
	}
	for i, c := range t.leg {
		leg[i] = factor * c
	}
	var rooted set // who is reached from the root for nothing
	into := make([]set, n)
	const nothing = 1e-12
	take := func(d int, from int, left float64) {
		switch {
		case left > nothing:
		case from < 0:
			rooted.add(d)
		default:
			into[d].add(from)
		}
	}
	for d := range n {
		take(d, root, enter[d])
		for a, c := range leg[d*n : d*n+n] {
			take(d, a, c)
		}
	}
	var whole set
	members := make([]int, 0, n)
	for {
		// The smallest set from which a destination that still pays is reached for nothing, but not from the root.
		size := n + 1
		for d := range n {
			if rest[d] <= nothing {
				continue
			}
			var w set
			w.add(d)
			for next := w; next != (set{}); {
				var found set
				for i, word := range next {
					for ; word != 0; word &= word - 1 {
						found.join(&into[64*i+bits.TrailingZeros64(word)])
					}
				}
				for i := range found {
					next[i] = found[i] &^ w[i]
					w[i] |= found[i]
				}
			}
			if k := w.size(); k < size && !w.meets(&rooted) {
				whole, size = w, k
			}
		}
		if size > n {
			return rest, paid
		}
		members = members[:0]
		pays, toll := 0.0, 0.0
		for d := range n {
			if whole.has(d) {
				members = append(members, d)
				pays += rest[d]
			}
		}
		toll = pays
		for _, d := range members {
			toll = min(toll, enter[d])
			for a, c := range leg[d*n : d*n+n] {
				if c < toll && !whole.has(a) {
					toll = c
				}
			}
		}
		paid += toll
		for _, d := range members {
			rest[d] -= rest[d] / pays * toll
			if toll == pays {
				rest[d] = 0
			}
			enter[d] -= toll
			take(d, root, enter[d])
			for a := range n {
				if !whole.has(a) {
					leg[d*n+a] -= toll
					take(d, a, leg[d*n+a])
				}
			}
		}
	}
}

// set is one of destinations, by index.
type set [(mostAscent + 63) / 64]uint64

func (s *set) add(d int)      { s[d/64] |= 1 << (d % 64) }
func (s *set) has(d int) bool { return s[d/64]>>(d%64)&1 == 1 }
func (s *set) join(o *set) {
	for i := range s {
		s[i] |= o[i]
	}
}
func (s *set) meets(o *set) bool {
	for i := range s {
		if s[i]&o[i] != 0 {
			return true
		}
	}
	return false
}
func (s *set) size() (n int) {
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}
