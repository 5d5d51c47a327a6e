package topo

import "github.com/freshet/freshet/unit"

// Graph is a network by numbers. A place is a host or a switch: first come the hosts in their
// order, then the switches in theirs. What is indexed by Channel has length Channels. It does not change,
// nor may the network that it was made from, and is safe for concurrent use.
type Graph struct {
	net    *Network
	names  []string
	number map[string]int32
	ends   []int32   // by channel: where it begins
	start  []int32   // by place: where its channels begin in out; one more than places
	out    []Channel // the channels that leave a place, in the order of links
	tree   *Tree
}

// NewGraph returns the graph of n, which must be valid. O(places + links).
func NewGraph(n *Network) *Graph {
	g := &Graph{net: n}
	g.names, g.number = n.places()
	g.ends = make([]int32, 2*len(n.Links))
	g.start = make([]int32, len(g.names)+1)
	for i := range n.Links {
		a, b := g.number[n.Links[i].A], g.number[n.Links[i].B]
		g.ends[2*i], g.ends[2*i+1] = a, b
		g.start[a+1]++
		g.start[b+1]++
	}
	for p := range g.names {
		g.start[p+1] += g.start[p]
	}
	g.out = make([]Channel, len(g.ends))
	free := make([]int32, len(g.names))
	copy(free, g.start)
	for c, p := range g.ends {
		g.out[free[p]] = Channel(c)
		free[p]++
	}
	g.tree = g.findTree()
	return g
}

// Network is what g was made from.
func (g *Graph) Network() *Network { return g.net }

// Hosts is how many hosts there are: a place below it is a host.
func (g *Graph) Hosts() int { return len(g.net.Hosts) }

// Places is how many hosts and switches there are.
func (g *Graph) Places() int { return len(g.names) }

// Channels is twice the number of links.
func (g *Graph) Channels() int { return len(g.ends) }

// Name is what a place is called.
func (g *Graph) Name(place int) string { return g.names[place] }

// Place is the number of a host or a switch.
func (g *Graph) Place(name string) (place int, ok bool) {
	p, ok := g.number[name]
	return int(p), ok
}

// From is the place where c begins.
func (g *Graph) From(c Channel) int { return int(g.ends[c]) }

// To is the place where c ends.
func (g *Graph) To(c Channel) int { return int(g.ends[c^1]) }

// Out are the channels that leave a place, in the order of the links. Not to be changed.
func (g *Graph) Out(place int) []Channel {
	return g.out[g.start[place]:g.start[place+1]:g.start[place+1]]
}

// between is the channel from one place to another that a link joins it to. O(links of the one that has fewer).
func (g *Graph) between(from, to int) Channel {
	if len(g.Out(from)) > len(g.Out(to)) {
		return g.between(to, from) ^ 1
	}
	for _, c := range g.Out(from) {
		if g.To(c) == to {
			return c
		}
	}
	panic("topo: no link joins them")
}

// Rate is what c carries.
func (g *Graph) Rate(c Channel) unit.Bandwidth { return g.net.Rate(c) }

// Half says whether c is of a half-duplex link: then what goes the other way takes from what c carries.
func (g *Graph) Half(c Channel) bool { return g.net.Links[c.Link()].Half }

// Parts says for each place which part of the network it is in, and how many parts there are: places of
// one part are joined by links, whatever their rates. Part 0 is that of place 0. O(places + links).
func (g *Graph) Parts() (part []int32, parts int) {
	part = make([]int32, g.Places())
	for p := range part {
		part[p] = -1
	}
	var queue []int
	for p := range part {
		if part[p] >= 0 {
			continue
		}
		part[p] = int32(parts)
		for queue = append(queue[:0], p); len(queue) > 0; {
			at := queue[len(queue)-1]
			queue = queue[:len(queue)-1]
			for _, c := range g.Out(at) {
				if q := g.To(c); part[q] < 0 {
					part[q] = int32(parts)
					queue = append(queue, q)
				}
			}
		}
		parts++
	}
	return part, parts
}

// Cycles says whether some two places are joined by more than one way. Where none are g is a tree or several, unless a host has
// more than one link. O(places + links).
func (g *Graph) Cycles() bool {
	_, parts := g.Parts()
	return g.Channels()/2 > g.Places()-parts
}

// Tree is the tree of g, or nil if there is a cycle or a host with more than one link, which
// would pass on what it may not. A network in parts has a tree for each.
func (g *Graph) Tree() *Tree { return g.tree }

// Tree is a graph seen from roots, which are in the middle, one in each part.
// Hosts are leaves; only where a part has no switch a host is the root.
type Tree struct {
	Up    []Channel // by place: to its parent; -1: it is a root. Up^1 comes down
	Depth []int32   // by place: how many channels to its root
	Root  []int32   // by place: the root of its part. There is a way between two places if it is the same
	Order []int32   // all places, parents before children
}

// findTree takes away places with one link, the outermost first, until in each part one is left.
func (g *Graph) findTree() *Tree {
	n := g.Places()
	for h := range g.Hosts() {
		if len(g.Out(h)) > 1 {
			return nil
		}
	}
	t := &Tree{Up: make([]Channel, n), Depth: make([]int32, n), Root: make([]int32, n), Order: make([]int32, 0, n)}
	left := make([]int32, n) // links to places that are not taken away; -1: it is itself
	for p := range n {
		t.Up[p] = -1
		left[p] = int32(len(g.Out(p)))
		if left[p] <= 1 {
			t.Order = append(t.Order, int32(p))
		}
	}
	for i := 0; i < len(t.Order); i++ {
		p := int(t.Order[i])
		for _, c := range g.Out(p) {
			if q := g.To(c); left[q] >= 0 {
				t.Up[p] = c
				if left[q]--; left[q] == 1 {
					t.Order = append(t.Order, int32(q))
				}
			}
		}
		left[p] = -1
	}
	if len(t.Order) < n {
		return nil
	}
	for i, k := 0, n-1; i < k; i, k = i+1, k-1 {
		t.Order[i], t.Order[k] = t.Order[k], t.Order[i]
	}
	for _, p := range t.Order {
		if up := t.Up[p]; up < 0 {
			t.Root[p] = p
		} else {
			q := g.To(up)
			t.Root[p], t.Depth[p] = t.Root[q], t.Depth[q]+1
		}
	}
	return t
}
