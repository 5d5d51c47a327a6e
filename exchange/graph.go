package exchange

import (
	"math/rand/v2"
	"slices"
)

// Graph says who is whose neighbour in a swarm of so many nodes, too many for everybody to be
// everybody's: a random graph in which every node has exactly degree neighbours (one less of one node, if
// both numbers are odd). By node: its neighbours' ranks, sorted. Every member computes the same from the same seed.
//
// That it is regular matters more than that it is random. A node has as much of the swarm's bandwidth as it has neighbours,
// so the one with the fewest ends last.
//
// It begins as a ring in which each node knows the next ones, and has pairs of
// edges swapped at random, which changes nobody's degree. With two neighbours each it stays a ring: swaps would make several of it. O(nodes × degree²).
func Graph(nodes, degree int, rng *rand.Rand) [][]int32 {
	with := make([][]int32, nodes)
	degree = min(degree, nodes-1)
	join := func(a, b int32) {
		with[a] = append(with[a], b)
		with[b] = append(with[b], a)
	}
	var edges [][2]int32
	edge := func(a, b int) {
		if int32(a) != int32(b) && !slices.Contains(with[a], int32(b)) {
			join(int32(a), int32(b))
			edges = append(edges, [2]int32{int32(a), int32(b)})
		}
	}
	for d := 1; d <= degree/2; d++ {
		for i := range nodes {
			edge(i, (i+d)%nodes)
		}
	}
	if degree%2 == 1 { // and the one opposite
		for i := range nodes / 2 {
			edge(i, i+nodes/2)
		}
	}
	swap := func(a, old, new int32) { with[a][slices.Index(with[a], old)] = new }
	swaps := 4 * len(edges)
	if degree == 2 {
		swaps = 0
	}
	for range swaps {
		x, y := &edges[rng.IntN(len(edges))], &edges[rng.IntN(len(edges))]
		a, b, c, d := x[0], x[1], y[0], y[1]
		if rng.IntN(2) == 0 {
			c, d = d, c
		}
		if a == c || a == d || b == c || b == d || slices.Contains(with[a], d) || slices.Contains(with[c], b) {
			continue
		}
		swap(a, b, d)
		swap(d, c, a)
		swap(c, d, b)
		swap(b, a, c)
		*x, *y = [2]int32{a, d}, [2]int32{c, b}
	}
	for i := range with {
		slices.Sort(with[i])
	}
	return with
}
