package planner

import (
	"slices"

	"github.com/freshet/freshet/internal/lp"
)

// Network is what planning needs to know of a network: places, hosts first, and
// links between them, each with two channels: 2·l from the first end of link l to the second,
// 2·l+1 back. A channel takes from one capacity; both channels of a
// half-duplex link take from the same. Hosts pass nothing on. A Network is one Planner's, whose options and transfers
// it knows.
type Network struct {
	hosts    int
	names    []string
	ends     [][2]int32
	capacity []int32   // by channel
	rate     []float64 // by capacity: bytes per second that can be used; see usable
	said     []float64 // and those that it is said to have
	clipped  bool      // they are not the same
	out      [][]int32 // by place: channels that leave it

	route func(path []int32, from, to int32) ([]int32, bool) // in a tree there is only one

	second lp.Solver   // asked where our own method fails; nil: nobody
	enough func() bool // see Options

	growth *growth // see there; nil before the first
	path   []int32 // memory of width and pipe, from one call to the next

	tree  bool
	up    []int32 // by place: the channel to its parent; -1 at the root of its part
	depth []int32
	root  []int32
}

// edge is one link of newNetwork.
type edge struct {
	A, B       int     // places
	Rate, Back float64 // bytes per second, A → B and B → A
	Half       bool    // both directions share Rate
}

// newNetwork returns the network of these places, the first of which are hosts. route appends the channels from one
// place to another, and says whether there is a way; it may be nil if the network is a tree whose hosts
// have one link each.
func newNetwork(hosts int, names []string, links []edge, route func(path []int32, from, to int32) ([]int32, bool)) *Network {
	n := &Network{hosts: hosts, names: names, route: route, out: make([][]int32, len(names))}
	for i, l := range links {
		n.ends = append(n.ends, [2]int32{int32(l.A), int32(l.B)})
		k := int32(len(n.rate))
		if l.Half {
			n.rate = append(n.rate, l.Rate)
			n.capacity = append(n.capacity, k, k)
		} else {
			n.rate = append(n.rate, l.Rate, l.Back)
			n.capacity = append(n.capacity, k, k+1)
		}
		n.out[l.A] = append(n.out[l.A], int32(2*i))
		n.out[l.B] = append(n.out[l.B], int32(2*i+1))
	}
	n.said = slices.Clone(n.rate)
	n.plant()
	return n
}

// plant finds out whether the network is a tree, or several, and roots each in the middle.
func (n *Network) plant() {
	places := len(n.names)
	n.up, n.depth, n.root = make([]int32, places), make([]int32, places), make([]int32, places)
	n.tree = true
	for h := range n.hosts {
		n.tree = n.tree && len(n.out[h]) <= 1
	}
	for i := range n.root {
		n.root[i] = -1
	}
	// walk goes over a part from one place, and returns the last one of it, and whether there was a cycle.
	var seen []int32
	walk := func(from int32) (last int32, cycle bool) {
		for _, p := range seen {
			n.root[p] = -1
		}
		seen = append(seen[:0], from)
		n.up[from], n.depth[from], n.root[from] = -1, 0, from
		for k := 0; k < len(seen); k++ {
			p := seen[k]
			for _, c := range n.out[p] {
				if c == n.up[p] {
					continue
				}
				q := n.to(c)
				if n.root[q] >= 0 {
					cycle = true
					continue
				}
				n.up[q], n.depth[q], n.root[q] = c^1, n.depth[p]+1, from
				seen = append(seen, q)
			}
		}
		return seen[len(seen)-1], cycle
	}
	for p := range int32(places) {
		if n.root[p] >= 0 {
			continue
		}
		seen = seen[:0]
		a, cycle := walk(p)
		if cycle {
			n.tree = false
			continue
		}
		b, _ := walk(a)
		for range n.depth[b] / 2 {
			b = n.to(n.up[b])
		}
		walk(b)
	}
}

func (n *Network) from(c int32) int32 { return n.ends[c>>1][c&1] }
func (n *Network) to(c int32) int32   { return n.ends[c>>1][c&1^1] }

// of is what channel c carries.
func (n *Network) of(c int32) float64 { return n.rate[n.capacity[c]] }

// way appends the channels from one place to another.
func (n *Network) way(path []int32, from, to int32) ([]int32, bool) {
	if from == to {
		return path, true
	}
	if n.root[from] != n.root[to] {
		return path, false
	}
	if !n.tree {
		return n.route(path, from, to)
	}
	a, b := from, to
	for a != b {
		if n.depth[a] >= n.depth[b] {
			path = append(path, n.up[a])
			a = n.to(n.up[a])
		} else {
			b = n.to(n.up[b])
		}
	}
	turn := len(path)
	for b = to; b != a; b = n.to(n.up[b]) {
		path = append(path, n.up[b]^1)
	}
	slices.Reverse(path[turn:])
	return path, true
}

// width is the narrowest rate on the way from one place to another; 0 if there is none.
func (n *Network) width(from, to int32) float64 {
	path, ok := n.way(n.path[:0], from, to)
	n.path = path
	if !ok || len(path) == 0 {
		return 0
	}
	w := n.of(path[0])
	for _, c := range path[1:] {
		w = min(w, n.of(c))
	}
	return w
}

// brings is the sum of what the channels of a host bring it.
func (n *Network) brings(h int32) (sum float64) {
	for _, c := range n.out[h] {
		sum += n.of(c ^ 1)
	}
	return sum
}
