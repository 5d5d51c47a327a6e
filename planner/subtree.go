package planner

import "slices"

// subtree is the part of a tree that a transfer's ways can lie in: its hosts and
// everything above them. The same passes go over it, leaves first, to find the widest
// bottleneck (exact.go) and the pipelines that are worth most (price.go).
type subtree struct {
	place    []int32 // parents before their children
	up       []int32 // channel to the parent; -1 at a root; free where a root is a host itself
	kind     []kind
	below    []int32 // destinations at or below
	fed      []bool  // there is a source at or below
	children [][]int32
	all      []int32 // by index: destinations of its whole part
}

// free is the link between a host that is the root of its part and itself as a leaf: so all hosts of interest are leaves.
const free = -2

type kind uint8

const (
	passer kind = iota
	source
	dest
)

// subtree returns the part of the tree that these hosts span. O(hosts × depth).
func (n *Network) subtree(sources, dests []int32) *subtree {
	t := &subtree{}
	kinds := make(map[int32]kind, len(sources)+len(dests))
	known := map[int32]bool{}
	climb := func(p int32, k kind) {
		kinds[p] = k
		for !known[p] {
			known[p] = true
			t.place = append(t.place, p)
			if n.up[p] < 0 {
				break
			}
			p = n.to(n.up[p])
		}
	}
	for _, s := range sources {
		climb(s, source)
	}
	for _, d := range dests {
		climb(d, dest)
	}
	slices.SortFunc(t.place, func(a, b int32) int {
		if d := n.depth[a] - n.depth[b]; d != 0 {
			return int(d)
		}
		return int(a - b)
	})
	at := make(map[int32]int32, len(t.place))
	m := len(t.place)
	for i := range m { // roots come first
		p := t.place[i]
		if n.up[p] >= 0 {
			break
		}
		if kinds[p] != passer {
			t.place = append(t.place, p)
		}
	}
	roots := m
	m = len(t.place)
	parent := make([]int32, m) // index into place; -1: the root of its part
	t.up, t.kind = make([]int32, m), make([]kind, m)
	t.below, t.fed, t.children, t.all = make([]int32, m), make([]bool, m), make([][]int32, m), make([]int32, m)
	for i, p := range t.place {
		if i >= roots {
			t.up[i], parent[i], t.kind[i] = free, at[p], kinds[p]
			t.kind[at[p]] = passer
			t.children[at[p]] = append(t.children[at[p]], int32(i))
			continue
		}
		at[p] = int32(i)
		t.up[i], parent[i], t.kind[i] = n.up[p], -1, kinds[p]
		if t.up[i] >= 0 {
			parent[i] = at[n.to(t.up[i])]
			t.children[parent[i]] = append(t.children[parent[i]], int32(i))
		}
	}
	for i := m - 1; i >= 0; i-- {
		switch t.kind[i] {
		case source:
			t.fed[i] = true
		case dest:
			t.below[i]++
		}
		if p := parent[i]; p >= 0 {
			t.below[p] += t.below[i]
			t.fed[p] = t.fed[p] || t.fed[i]
		}
	}
	for i := range m {
		if p := parent[i]; p >= 0 {
			t.all[i] = t.all[p]
		} else {
			t.all[i] = t.below[i]
		}
	}
	return t
}

// chained says whether there is another switch below i and nothing else: one chain of links, on all of which the same walks cross.
func (t *subtree) chained(i int) bool {
	return len(t.children[i]) == 1 && t.kind[t.children[i][0]] == passer
}

// At the link above a subtree the walks of a plan cross in one of these ways. A walk that
// crosses it several times, or several walks that cross it both ways, can be
// rearranged so that they use no link more often than before; so there are no others.
type crossing int32 // 0: none. n > 0: n walks go out. n < 0: -n walks come in.

const (
	through crossing = 1<<28 + iota // a walk comes in, serves, and goes out again: it needs the data first
	lends                           // a walk goes out, and one comes in: it can give first and take later
)

// loose are the ends of walks at the link above a subtree.
type loose struct {
	out  [][]int32 // walks that go out: the source, and the destinations so far
	in   [][]int32 // walks that are to come in: the destinations that they go on to
	pass []int32   // a walk that comes in and goes out: the destinations that it serves meanwhile
}

// leaf is what hangs at the link above a host.
func leaf(host int32, k kind, c crossing) (l loose) {
	switch {
	case k == source:
		for range c {
			l.out = append(l.out, []int32{host})
		}
	case k == dest && c == through:
		l.pass = []int32{host}
	case k == dest && c == -1:
		l.in = [][]int32{{host}}
	}
	return l
}

// join ties the walks of a switch's children together such that those which it is to
// have above itself stay loose. Finished walks go to done. Every walk begins at a source: what passes through a
// child is hung onto a walk that has its data from elsewhere.
func join(children []loose, c crossing, done func([]int32)) (l loose) {
	var out, in [][]int32
	var pass []int32
	for _, ch := range children {
		out = append(out, ch.out...)
		in = append(in, ch.in...)
		pass = append(pass, ch.pass...)
	}
	switch {
	case len(pass) == 0:
	case len(out) > 0:
		out[0] = append(slices.Clip(out[0]), pass...)
	case c == through:
		return loose{pass: pass}
	case len(in) > 0 && c < 0:
		in[0] = append(pass, in[0]...)
	default:
		panic("planner: walks without a source")
	}
	keep := 0 // walks that go out and are not tied to one that comes in
	switch {
	case c == lends:
		keep = 1
	case c > 0:
		keep = int(c)
	}
	tied := len(out) - keep
	if tied < 0 || tied > len(in) {
		panic("planner: walks do not match")
	}
	for i := range tied {
		done(append(slices.Clip(out[keep+i]), in[i]...))
	}
	return loose{out: out[:keep], in: in[tied:]}
}
