package planner

import (
	"cmp"
	"math"
	"slices"
)

// ahead is a destination that may come next, by index, and the way to it: the least of what the capacities on it have, in bytes per second, and of how many links it is.
type ahead struct {
	dest  int32
	links int32
	rate  float64 // less than 0: there is no way
}

// compare is the order in which ways are taken: the widest first, of even ones that of fewest links.
func (a ahead) compare(b ahead) int {
	return cmp.Or(-cmp.Compare(a.rate, b.rate), cmp.Compare(a.links, b.links))
}

// chain is a pipeline that grows.
type chain struct {
	source int // by index
	hosts  []int32
	links  int32   // from its source to its last host
	next   []ahead // from its last host, the best first
	rest   []ahead // of those that its source knows: to these nobody has looked from its last host
}

// fewAhead is how many destinations are compared from the end of a chain where a plan is to be there at once. With all of 50 it takes three times
// as long, and has as much.
const fewAhead = 8

// chained are the pipelines of one transfer on what capacities have where data follows routes: there a link between switches is nothing to grow over, and
// the paper's growth (section 4) is on the overlay, whose links are the routes between the transfer's hosts. From the ends of all chains, which are the
// sources at first, the widest route is taken to a destination that is in none, of even ones that which ends fewest links from its source, then that of the source
// that has fewest destinations so far, then of the first one; and the chain goes on from there. Where no end has a way on, one begins at a source anew. What crosses a rate of 0
// is no route, but what other transfers fill up comes last.
//
// From each end look destinations are compared, of those that its source reaches best, and more only if others have taken all of these.
// O(destinations · (sources + look)) routes.
func (n *Network) chained(d *demand, have []float64, look int) (walks [][]int32) {
	served := make([]bool, len(d.dests))
	direct := make([][]ahead, len(d.sources))
	used := make([]int, len(d.sources))
	chains := make([]*chain, len(d.sources))
	begin := func(s int) *chain {
		return &chain{source: s, hosts: []int32{d.sources[s]}, next: direct[s]}
	}
	for i := range d.dests { // one after the other, since a router does not keep what it knows of ways to all of very many
		for s, from := range d.sources {
			direct[s] = append(direct[s], n.ahead(d, from, int32(i), have))
		}
	}
	for s := range chains {
		slices.SortStableFunc(direct[s], ahead.compare)
		chains[s] = begin(s)
	}
	// best is where a chain would go.
	best := func(c *chain) (a ahead, ok bool) {
		for {
			for len(c.next) > 0 && c.next[0].rate >= 0 {
				if !served[c.next[0].dest] {
					return c.next[0], true
				}
				c.next = c.next[1:]
			}
			c.next = nil
			for len(c.next) < look && len(c.rest) > 0 {
				if to := c.rest[0].dest; !served[to] {
					c.next = append(c.next, n.ahead(d, c.hosts[len(c.hosts)-1], to, have))
				}
				c.rest = c.rest[1:]
			}
			if len(c.next) == 0 {
				return a, false
			}
			slices.SortStableFunc(c.next, ahead.compare)
		}
	}
	for range d.dests {
		var to *chain
		var by ahead
		choose := func(c *chain) {
			a, ok := best(c)
			a.links += c.links
			if ok && (to == nil || cmp.Or(a.compare(by), cmp.Compare(used[c.source], used[to.source])) < 0) {
				to, by = c, a
			}
		}
		for _, c := range chains {
			choose(c)
		}
		if to == nil {
			for s := range d.sources {
				choose(begin(s))
			}
			if to == nil {
				break
			}
			chains = append(chains, to)
		}
		served[by.dest] = true
		used[to.source]++
		to.hosts, to.links = append(to.hosts, d.dests[by.dest]), by.links
		to.next, to.rest = nil, direct[to.source]
	}
	for _, c := range chains {
		if len(c.hosts) > 1 {
			walks = append(walks, c.hosts)
		}
	}
	return walks
}

// ahead is how wide the way from a host to a destination is.
func (n *Network) ahead(d *demand, from, dest int32, have []float64) ahead {
	path, ok := n.way(n.path[:0], from, d.dests[dest])
	n.path = path
	a := ahead{dest: dest, links: int32(len(path)), rate: math.Inf(1)}
	if !ok {
		a.rate = -1
	}
	for _, c := range path {
		if n.of(c) == 0 {
			a.rate = -1
			break
		}
		a.rate = min(a.rate, have[n.capacity[c]])
	}
	return a
}
