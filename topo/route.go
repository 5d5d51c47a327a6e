package topo

import (
	"slices"
	"time"

	"github.com/freshet/freshet/internal/heap"
)

// Router finds routes. Where the graph is no tree it keeps a table for each end that
// was asked for, of 4 bytes for each switch and each host with several links, and forgets the oldest when they
// are more than mostTables. So who wants routes to many places asks for all that lead to
// one of them before the next. Not for concurrent use; routers of one graph share the graph.
type Router struct {
	*Graph
	listed map[[2]int32][]Channel
	core   *core
}

// NewRouter returns a router of n, which must be valid.
func NewRouter(n *Network) *Router { return NewGraph(n).Router() }

// Router returns a new router of g.
func (g *Graph) Router() *Router {
	r := &Router{Graph: g}
	if g.tree != nil {
		return r // there is one way at most, so listed routes say nothing new
	}
	r.listed = make(map[[2]int32][]Channel, len(g.net.Routes))
	for _, route := range g.net.Routes {
		from := g.number[route.From]
		at := int(from)
		path := make([]Channel, 0, len(route.Via)+1)
		for i := range len(route.Via) + 1 {
			next := route.To
			if i < len(route.Via) {
				next = route.Via[i]
			}
			path = append(path, g.between(at, int(g.number[next])))
			at = g.To(path[i])
		}
		r.listed[[2]int32{from, int32(at)}] = path
	}
	return r
}

// Route appends the channels from one place to another to path, and returns their delay. ok is
// false if there is no way. From a place to itself there are no channels. O(length of the
// route) on a tree, and elsewhere once the table of the destination exists.
//
// Rates are not looked at: a channel of the route may carry nothing.
func (r *Router) Route(path []Channel, from, to int) (_ []Channel, delay time.Duration, ok bool) {
	if from == to {
		return path, 0, true
	}
	whole := len(path)
	if r.tree != nil {
		path, ok = r.climb(path, from, to)
	} else if listed, is := r.listed[[2]int32{int32(from), int32(to)}]; is {
		path, ok = append(path, listed...), true
	} else {
		path, ok = r.follow(path, from, to)
	}
	for _, c := range path[whole:] {
		delay += r.net.Links[c.Link()].Delay
	}
	return path, delay, ok
}

// climb goes from both ends to where their ways to the root meet.
func (r *Router) climb(path []Channel, from, to int) ([]Channel, bool) {
	t := r.tree
	if t.Root[from] != t.Root[to] {
		return path, false
	}
	a, b := from, to
	for ; t.Depth[a] > t.Depth[b]; a = r.To(t.Up[a]) {
		path = append(path, t.Up[a])
	}
	steps := 0
	for ; t.Depth[b] > t.Depth[a]; b = r.To(t.Up[b]) {
		steps++
	}
	for ; a != b; a, b = r.To(t.Up[a]), r.To(t.Up[b]) {
		path = append(path, t.Up[a])
		steps++
	}
	path = slices.Grow(path, steps)[:len(path)+steps]
	for i, b := len(path)-1, to; steps > 0; i, steps = i-1, steps-1 {
		path[i] = t.Up[b] ^ 1
		b = r.To(t.Up[b])
	}
	return path, true
}

// follow goes by the table of the destination. A host with one link is left and reached by
// that, so tables are of what lies between.
func (r *Router) follow(path []Channel, from, to int) ([]Channel, bool) {
	hosts, whole := r.Hosts(), len(path)
	single := func(p int) bool { return p < hosts && len(r.Out(p)) == 1 }
	at, goal, last := from, to, Channel(-1)
	if single(to) {
		last = r.Out(to)[0] ^ 1
		goal = r.From(last)
		if goal != from && goal < hosts { // hosts pass nothing on
			return path, false
		}
	}
	if at != goal && single(from) {
		path = append(path, r.Out(from)[0])
		if at = r.To(r.Out(from)[0]); at != goal && at < hosts {
			return path[:whole], false
		}
	}
	if at != goal {
		if r.core == nil {
			r.core = r.newCore()
		}
		next := r.core.table(r.core.of[goal])
		for at != goal {
			c := next[r.core.of[at]]
			if c < 0 {
				return path[:whole], false
			}
			path = append(path, c)
			at = r.To(c)
		}
	}
	if last >= 0 {
		path = append(path, last)
	}
	return path, true
}

// mostTables is how many bytes the tables of a router may have together, unless one alone has more. The largest fat tree that is drawn has
// 11,045 switches, and all of its tables have 488 MB.
const mostTables = 1 << 30

// core is a graph without its hosts of one link, and the tables of routes over it.
type core struct {
	of     []int32     // by place: its number here, or -1
	start  []int32     // by number: where its hops begin
	hops   []hop       // what leads to where
	rank   []int32     // by number: its place in the order of names
	passes []bool      // by number: it is a switch
	tables [][]Channel // by number: the table to it, if it was a destination and that is kept
	kept   []int32     // whose tables are kept; from oldest on in the order in which they were made, and then from the beginning
	oldest int         // index in kept; 0 until there are most
	most   int         // how many tables are kept

	// of the search
	delay   []time.Duration
	links   []int32 // -1: not reached
	settled []bool
	queue   heap.Heap[time.Duration, int32, int32] // delay, links, number
}

// hop is a channel as the place sees it where it begins.
type hop struct {
	to      int32 // number in the core
	channel Channel
	delay   time.Duration
}

func (g *Graph) newCore() *core {
	k := &core{of: make([]int32, g.Places())}
	var places []int32
	for p := range g.Places() {
		k.of[p] = -1
		if p >= g.Hosts() || len(g.Out(p)) != 1 {
			k.of[p] = int32(len(places))
			places = append(places, int32(p))
			k.passes = append(k.passes, p >= g.Hosts())
		}
	}
	for _, p := range places {
		k.start = append(k.start, int32(len(k.hops)))
		for _, c := range g.Out(int(p)) {
			if to := k.of[g.To(c)]; to >= 0 {
				k.hops = append(k.hops, hop{to, c, g.net.Links[c.Link()].Delay})
			}
		}
	}
	n := len(places)
	k.start = append(k.start, int32(len(k.hops)))
	byName := slices.Clone(places)
	slices.SortFunc(byName, func(a, b int32) int {
		if g.names[a] < g.names[b] {
			return -1
		}
		return 1
	})
	k.rank = make([]int32, n)
	for i, p := range byName {
		k.rank[k.of[p]] = int32(i)
	}
	k.tables = make([][]Channel, n)
	k.most = max(1, mostTables/(4*max(1, n)))
	k.delay, k.links, k.settled = make([]time.Duration, n), make([]int32, n), make([]bool, n)
	return k
}

func (k *core) out(at int32) []hop { return k.hops[k.start[at]:k.start[at+1]] }

// table is, by number, the channel that leads on to one place, or -1; until the next call, which may
// put another into its memory. A link delays both directions alike, so the search may begin at the destination.
func (k *core) table(to int32) []Channel {
	if k.tables[to] != nil {
		return k.tables[to]
	}
	for i := range k.links {
		k.links[i], k.settled[i] = -1, false
	}
	k.links[to], k.delay[to] = 0, 0
	k.queue.Put(0, 0, to)
	for len(k.queue) > 0 {
		delay, links, at := k.queue.Take()
		if k.settled[at] {
			continue
		}
		k.settled[at] = true
		if at != to && !k.passes[at] {
			continue
		}
		for _, h := range k.out(at) {
			d, l := delay+h.delay, links+1
			if !k.settled[h.to] && (k.links[h.to] < 0 || d < k.delay[h.to] || d == k.delay[h.to] && l < k.links[h.to]) {
				k.delay[h.to], k.links[h.to] = d, l
				k.queue.Put(d, l, h.to)
			}
		}
	}
	// Of the next places on a shortest way the first by name: so the whole way is the first by name.
	next := k.room(to)
	for p := range next {
		next[p] = -1
		if int32(p) == to || k.links[p] < 0 {
			continue
		}
		best := int32(-1)
		for _, h := range k.out(int32(p)) {
			v := h.to
			if k.links[v] < 0 || v != to && !k.passes[v] || k.delay[v]+h.delay != k.delay[p] || k.links[v]+1 != k.links[p] {
				continue
			}
			if best < 0 || k.rank[v] < best {
				best, next[p] = k.rank[v], h.channel
			}
		}
	}
	return next
}

// room is the memory of a table to one place, which is kept from now on: new, or that of the oldest table
// if there are as many as may be.
func (k *core) room(to int32) []Channel {
	if len(k.kept) < k.most {
		k.kept = append(k.kept, to)
		k.tables[to] = make([]Channel, len(k.links))
		return k.tables[to]
	}
	old := k.kept[k.oldest]
	k.kept[k.oldest] = to
	k.oldest = (k.oldest + 1) % k.most
	k.tables[to], k.tables[old] = k.tables[old], nil
	return k.tables[to]
}
