package planner

import (
	"slices"

	"github.com/freshet/freshet/topo"
)

// On returns the network that a topology describes. Places and channels have the same numbers in both. The graph stays as it is, whatever SetRate says.
// O(places + links).
func On(g *topo.Graph) *Network {
	n := &Network{hosts: g.Hosts(), names: make([]string, g.Places()), out: make([][]int32, g.Places())}
	for p := range n.names {
		n.names[p] = g.Name(p)
		for _, c := range g.Out(p) {
			n.out[p] = append(n.out[p], int32(c))
		}
	}
	for i, l := range g.Network().Links {
		c := topo.Channel(2 * i)
		n.ends = append(n.ends, [2]int32{int32(g.From(c)), int32(g.To(c))})
		k := int32(len(n.rate))
		if l.Half {
			n.rate = append(n.rate, float64(l.Rate))
			n.capacity = append(n.capacity, k, k)
		} else {
			n.rate = append(n.rate, float64(l.Rate), float64(l.Back))
			n.capacity = append(n.capacity, k, k+1)
		}
	}
	n.said = slices.Clone(n.rate)
	if t := g.Tree(); t != nil {
		n.tree, n.depth, n.root = true, t.Depth, t.Root
		for _, c := range t.Up {
			n.up = append(n.up, int32(c))
		}
		return n
	}
	n.root, _ = g.Parts()
	n.listed = map[int32]bool{}
	for _, r := range g.Network().Routes {
		to, _ := g.Place(r.To)
		n.listed[int32(to)] = true
	}
	router := g.Router()
	var way []topo.Channel
	n.route = func(path []int32, from, to int32) ([]int32, bool) {
		var ok bool
		if way, _, ok = router.Route(way[:0], int(from), int(to)); !ok {
			return path, false
		}
		for _, c := range way {
			path = append(path, int32(c))
		}
		return path, true
	}
	return n
}
