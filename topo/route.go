package topo

import (
	"container/heap"
	"slices"
	"time"
)

// Router finds the routes of a network, which must be valid and not change any
// more. It keeps one table for each switch, and for each host with several links, that
// was asked for as a destination: O(places) each. Not for concurrent use.
type Router struct {
	net    *Network
	hosts  int
	names  []string
	order  []int32 // by place: its place in the order of names
	number map[string]int
	out    [][]hop // by place: its links
	to     map[int]*table
	listed map[[2]int][]Channel
}

// hop is a link as one of its ends sees it.
type hop struct {
	place   int32
	channel Channel
	delay   time.Duration
}

// table leads from every place to one destination.
type table struct {
	next  []int32 // by place: index into out of the next hop; -1: none
	delay []time.Duration
}

// NewRouter returns the router of n.
func NewRouter(n *Network) *Router {
	r := &Router{net: n, hosts: len(n.Hosts), to: map[int]*table{}, listed: map[[2]int][]Channel{}}
	r.names, r.number = n.places()
	r.out = make([][]hop, len(r.names))
	for i, l := range n.Links {
		a, b := r.number[l.A], r.number[l.B]
		r.out[a] = append(r.out[a], hop{int32(b), Channel(2 * i), l.Delay})
		r.out[b] = append(r.out[b], hop{int32(a), Channel(2*i + 1), l.Delay})
	}
	byName := make([]int, len(r.names))
	for i := range byName {
		byName[i] = i
	}
	slices.SortFunc(byName, func(a, b int) int {
		if r.names[a] < r.names[b] {
			return -1
		}
		return 1
	})
	r.order = make([]int32, len(r.names))
	for k, i := range byName {
		r.order[i] = int32(k)
	}
	for _, route := range n.Routes {
		at := r.number[route.From]
		path := []Channel{}
		for _, name := range append(slices.Clone(route.Via), route.To) {
			next := r.number[name]
			k := slices.IndexFunc(r.out[at], func(h hop) bool { return int(h.place) == next })
			path = append(path, r.out[at][k].channel)
			at = next
		}
		r.listed[[2]int{r.number[route.From], at}] = path
	}
	return r
}

// Place is the number of a host (its index) or a switch (the number of hosts and its index).
func (r *Router) Place(name string) (place int, ok bool) {
	place, ok = r.number[name]
	return place, ok
}

// Out are the channels that leave a place, in the order of its links. O(links of the place).
func (r *Router) Out(place int) (cs []Channel) {
	for _, h := range r.out[place] {
		cs = append(cs, h.channel)
	}
	return cs
}

// Route appends the channels from one place to another to path. ok is false if there is
// no way. From a place to itself there are no channels. O(length of the route) once
// the tables of the destination's switch exist.
func (r *Router) Route(path []Channel, from, to int) (_ []Channel, delay time.Duration, ok bool) {
	if from == to {
		return path, 0, true
	}
	if len(r.listed) > 0 {
		if listed, ok := r.listed[[2]int{from, to}]; ok {
			for _, c := range listed {
				delay += r.net.Links[c.Link()].Delay
			}
			return append(path, listed...), delay, true
		}
	}
	goal, last := to, hop{place: -1}
	if len(r.out[to]) == 1 { // all routes to a host with one link end with that
		h := r.out[to][0]
		goal, last = int(h.place), hop{int32(to), h.channel ^ 1, h.delay}
		if goal != from && goal < r.hosts { // a host, and hosts pass nothing on
			return path, 0, false
		}
	}
	if goal != from {
		t := r.table(goal)
		if t.next[from] < 0 {
			return path, 0, false
		}
		delay = t.delay[from]
		for at := from; at != goal; {
			h := r.out[at][t.next[at]]
			path = append(path, h.channel)
			at = int(h.place)
		}
	}
	if last.place >= 0 {
		path = append(path, last.channel)
		delay += last.delay
	}
	return path, delay, true
}

// table is how to come to a place from everywhere.
func (r *Router) table(to int) *table {
	if t := r.to[to]; t != nil {
		return t
	}
	n := len(r.names)
	t := &table{next: make([]int32, n), delay: make([]time.Duration, n)}
	hops := make([]int32, n)
	for i := range t.next {
		t.next[i], hops[i] = -1, -1
	}
	hops[to] = 0
	q := queue{{place: int32(to)}}
	settled := make([]bool, n)
	for len(q) > 0 {
		at := heap.Pop(&q).(reach)
		if settled[at.place] {
			continue
		}
		settled[at.place] = true
		if int(at.place) != to && int(at.place) < r.hosts { // hosts pass nothing on
			continue
		}
		for _, h := range r.out[at.place] {
			d, k := at.delay+h.delay, at.hops+1
			if p := h.place; !settled[p] && (hops[p] < 0 || d < t.delay[p] || d == t.delay[p] && k < hops[p]) {
				t.delay[p], hops[p] = d, k
				heap.Push(&q, reach{d, k, p})
			}
		}
	}
	// Of the next places on a shortest way the first by name: so the whole way is the first by name.
	for p := range r.out {
		if p == to || hops[p] < 0 {
			continue
		}
		for i, h := range r.out[p] {
			v := int(h.place)
			if hops[v] < 0 || v != to && v < r.hosts || t.delay[v]+h.delay != t.delay[p] || hops[v]+1 != hops[p] {
				continue
			}
			if t.next[p] < 0 || r.order[v] < r.order[r.out[p][t.next[p]].place] {
				t.next[p] = int32(i)
			}
		}
	}
	r.to[to] = t
	return t
}

// reach is how far a place is from the destination.
type reach struct {
	delay time.Duration
	hops  int32
	place int32
}

type queue []reach

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(a, b int) { q[a], q[b] = q[b], q[a] }
func (q queue) Less(a, b int) bool {
	if q[a].delay != q[b].delay {
		return q[a].delay < q[b].delay
	}
	return q[a].hops < q[b].hops
}
func (q *queue) Push(x any) { *q = append(*q, x.(reach)) }
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}
