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

	route func(path []int32, from, to int32) ([]int32, bool) // elsewhere than in trees

	// listed are the places to which the topology lists a route, elsewhere than in trees: from where that begins they may be reached otherwise than what is next to them.
	listed map[int32]bool

	second lp.Solver   // asked where our own method fails; nil: nobody
	enough func() bool // see Options

	growth *growth // see there; nil before the first
	path   []int32 // memory of width and pipe, from one call to the next

	tree  bool
	up    []int32 // by place, in a tree: the channel to its parent; -1 at the root of its part
	depth []int32
	root  []int32 // by place: the root of its part; elsewhere than in trees the number of that
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
