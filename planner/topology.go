package planner

import "github.com/freshet/freshet/topo"

// On returns the network that a topology describes. Places and channels have the same numbers in both.
func On(g *topo.Graph) *Network {
	names := make([]string, g.Places())
	for i := range names {
		names[i] = g.Name(i)
	}
	n := g.Network()
	links := make([]edge, len(n.Links))
	for i, l := range n.Links {
		c := topo.Channel(2 * i)
		links[i] = edge{g.From(c), g.To(c), float64(l.Rate), float64(l.Back), l.Half}
	}
	router := g.Router()
	var way []topo.Channel
	return newNetwork(g.Hosts(), names, links, func(path []int32, from, to int32) ([]int32, bool) {
		var ok bool
		if way, _, ok = router.Route(way[:0], int(from), int(to)); !ok {
			return path, false
		}
		for _, c := range way {
			path = append(path, int32(c))
		}
		return path, true
	})
}
