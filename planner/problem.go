package planner

import (
	"fmt"
	"slices"
	"strings"
)

// LeastWeight and MostWeight are what transfers may weigh. One that weighs a billionth of another would be rounding to the linear program,
// and get nothing where nobody else wants anything; what is far more important has a priority.
const (
	LeastWeight = 1e-3
	MostWeight  = 1e3
)

// Transfer is data that some hosts have and others need. Hosts are numbered as in the topology.
type Transfer struct {
	Name         string
	Size         float64 // bytes; 0: not said
	Sources      []int   // hosts that have all of it; any one is enough
	Destinations []int   // hosts that need it
	Weight       float64 // of a byte per second that arrives, beside other transfers: LeastWeight to MostWeight; 0: 1
	Priority     int     // higher ones are planned first, lower ones on what they leave
}

// demand is a transfer as it is planned: no host twice, no destination that is a source, and only
// destinations that can be reached.
type demand struct {
	sources  []int32
	dests    []int32
	weight   float64
	priority int
	sub      *subtree // in a tree
	legs     *legs    // elsewhere; nil: it has no destinations, or so many that it is not priced, see vast
}

// Unreachable is a destination that no source's data can come to.
type Unreachable struct {
	Transfer    int
	Destination int
	Reason      string
}

// Pair is a destination of a transfer.
type Pair struct {
	Transfer    int
	Destination int // host
}

// normal checks a transfer and takes out of it what is there twice or cannot be; index is its number. An error is what Add returns.
func (n *Network) normal(index int, t Transfer) (demand, []Unreachable, error) {
	d := demand{weight: t.Weight, priority: t.Priority}
	bad := func(format string, args ...any) (demand, []Unreachable, error) {
		return d, nil, fmt.Errorf("transfer %s: %s", t.Name, fmt.Sprintf(format, args...))
	}
	if !(t.Size >= 0) {
		return bad("its size of %g bytes: want 0, which is none said, or more", t.Size)
	}
	if d.weight == 0 {
		d.weight = 1
	}
	if !(d.weight >= LeastWeight && d.weight <= MostWeight) {
		return bad("its weight %g is not a number from %g to %g", t.Weight, LeastWeight, MostWeight)
	}
	if len(t.Sources) == 0 {
		return bad("it has no source")
	}
	is := make(map[int32]bool, len(t.Sources)+len(t.Destinations))
	for _, list := range []struct {
		hosts []int
		into  *[]int32
	}{{t.Sources, &d.sources}, {t.Destinations, &d.dests}} {
		for _, h := range list.hosts {
			if h < 0 || h >= n.hosts {
				return bad("place %d is not a host", h)
			}
			if !is[int32(h)] {
				is[int32(h)] = true
				*list.into = append(*list.into, int32(h))
			}
		}
	}
	apart, reached := n.apart(d.sources, d.dests)
	var lost []Unreachable
	if len(apart) > 0 {
		why := n.reasons(d.sources, reached)
		d.dests = slices.DeleteFunc(d.dests, func(h int32) bool {
			if apart[h] {
				lost = append(lost, Unreachable{index, int(h), why(h)})
			}
			return apart[h]
		})
	}
	if n.tree {
		d.sub = n.subtree(d.sources, d.dests)
	} else {
		d.legs = n.legs(d.sources, d.dests)
	}
	return d, lost, nil
}

// apart are the destinations that nothing can come to, and where there are any what flood says. Mostly each has a way from the source from which the one before
// has one, and nobody else is asked. On a tree flood knows of the others; elsewhere it knows of those for whom no source has to be asked, and O(ways) are.
func (n *Network) apart(sources, dests []int32) (apart map[int32]bool, reached []bool) {
	from := sources[0]
	direct := func(to int32) bool {
		if n.width(from, to) > 0 {
			return true
		}
		if reached == nil {
			reached = n.flood(sources, dests)
		}
		if n.tree || !reached[to] {
			return reached[to]
		}
		i := slices.IndexFunc(sources, func(s int32) bool { return n.width(s, to) > 0 })
		if i >= 0 {
			from = sources[i]
		}
		return i >= 0
	}
	var near, far []int32
	apart = map[int32]bool{}
	for _, h := range dests {
		if direct(h) {
			near = append(near, h)
			continue
		}
		apart[h] = true
		if reached[h] {
			far = append(far, h)
		}
	}
	// Where routes are free to be odd, a destination may have to pass on to another. Each that is reached is asked once.
	for len(near) > 0 && len(far) > 0 {
		last := near[len(near)-1]
		near = near[:len(near)-1]
		far = slices.DeleteFunc(far, func(h int32) bool {
			passes := n.width(last, h) > 0
			if passes {
				near = append(near, h)
				delete(apart, h)
			}
			return passes
		})
	}
	return apart, reached
}

// flood says by place whether the sources' data could come there if switches and destinations passed it on over all channels that carry something.
// On a tree, where ways are unique, it then does come there; elsewhere routes may lead over others. O(channels).
func (n *Network) flood(sources, dests []int32) []bool {
	reached, passes := make([]bool, len(n.out)), make([]bool, len(n.out))
	for _, h := range dests {
		passes[h] = true
	}
	for p := n.hosts; p < len(n.out); p++ {
		passes[p] = true
	}
	next := slices.Clone(sources)
	for _, s := range sources {
		reached[s] = true
	}
	for len(next) > 0 {
		p := next[len(next)-1]
		next = next[:len(next)-1]
		for _, c := range n.out[p] {
			if q := n.to(c); !reached[q] && n.of(c) > 0 {
				reached[q] = true
				if passes[q] {
					next = append(next, q)
				}
			}
		}
	}
	return reached
}

// reasons says why nothing comes to a host. reached is as flood has it: who has no link but to a switch that nothing comes to either shares the reason of that, unless
// routes are listed to one of the two. When somebody has enough, reasons that are not known yet are left out.
func (n *Network) reasons(sources []int32, reached []bool) func(h int32) string {
	told := make([]int32, len(n.capacity))
	known := map[int32]string{} // by place
	return func(h int32) string {
		at := h
		if len(n.out[h]) == 1 {
			if s := n.to(n.out[h][0]); s >= int32(n.hosts) && !reached[s] && !n.listed[h] && !n.listed[s] {
				at = s
			}
		}
		if why, ok := known[at]; ok {
			return why
		}
		if n.enough != nil && n.enough() {
			return "no route from any of its sources, or none that crosses no link of rate 0"
		}
		known[at] = n.whyNot(sources, at, told)
		return known[at]
	}
}

// whyNot says why nothing comes from any of the sources to a place. told is memory from one place to the next, by channel: 1 more than the last one for which
// it has been counted, 0 at first. O(the ways).
func (n *Network) whyNot(sources []int32, to int32, told []int32) string {
	var zero []string // three of them at most
	links, apart := 0, 0
	for _, s := range sources {
		path, ok := n.way(n.path[:0], s, to)
		n.path = path
		if !ok {
			apart++
			continue
		}
		i := slices.IndexFunc(path, func(c int32) bool { return n.of(c) == 0 })
		if i < 0 || told[path[i]] == to+1 {
			continue
		}
		told[path[i]] = to + 1
		if links++; links <= 3 {
			zero = append(zero, fmt.Sprintf("%s → %s", n.names[n.from(path[i])], n.names[n.to(path[i])]))
		}
	}
	if links > len(zero) {
		zero = append(zero, fmt.Sprintf("%d more", links-len(zero)))
	}
	switch {
	case len(zero) == 0:
		return "no route from any of its sources"
	case apart == 0:
		return "every route from its sources crosses a link of rate 0: " + strings.Join(zero, ", ")
	}
	return "no route from some of its sources, and the others' cross a link of rate 0: " + strings.Join(zero, ", ")
}

// pipe is a pipeline: a source, and the destinations that it serves in a row. Each passes on what it gets, all receive at one rate.
type pipe struct {
	demand int // index into the demands
	hosts  []int32
	use    []use
}

// use is how often a pipeline takes from a capacity.
type use struct {
	capacity int32
	times    float64
}

func (p *pipe) served() int { return len(p.hosts) - 1 }

// cost is what a byte per second of p costs at prices by capacity.
func (p *pipe) cost(price []float64) (sum float64) {
	for _, u := range p.use {
		sum += u.times * price[u.capacity]
	}
	return sum
}

// pipe returns the pipeline over these hosts with what it uses. ok is false if some part of it has no way, or
// crosses a rate of 0.
func (n *Network) pipe(demand int, hosts []int32) (_ pipe, ok bool) {
	p := pipe{demand: demand, hosts: hosts}
	path := n.path[:0]
	defer func() { n.path = path }()
	for i := 1; i < len(hosts); i++ {
		if path, ok = n.way(path, hosts[i-1], hosts[i]); !ok {
			return p, false
		}
	}
	for i, c := range path { // from here on capacities
		path[i] = n.capacity[c]
		if n.rate[path[i]] == 0 {
			return p, false
		}
	}
	slices.Sort(path)
	different := 0
	for i, c := range path {
		if i == 0 || c != path[i-1] {
			different++
		}
	}
	p.use = make([]use, 0, different)
	for _, c := range path {
		if k := len(p.use); k > 0 && p.use[k-1].capacity == c {
			p.use[k-1].times++
		} else {
			p.use = append(p.use, use{c, 1})
		}
	}
	return p, true
}
