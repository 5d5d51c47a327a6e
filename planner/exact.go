package planner

import "slices"

// A set of crossings that a subtree can have, one bit each.
type crossings uint8

const (
	canOut crossings = 1 << iota
	canNone
	canThrough
	canIn
	canLend
)

func (s crossings) crossing() crossing {
	switch {
	case s&canOut != 0:
		return 1
	case s&canNone != 0:
		return 0
	case s&canThrough != 0:
		return through
	}
	return -1
}

// widest returns pipelines for one transfer in a tree that share no channel with each
// other and whose narrowest link is as wide as it can be, and the width of that. ok is false if there are none that
// share nothing.
//
// Whether links of at least a width t suffice is decided in one pass, from the
// leaves up: which crossings each subtree can have (Takahashi's pipelines, but
// exact with several sources). Binary search over t: O(hosts × log hosts).
func (n *Network) widest(t *subtree) (pipes [][]int32, width float64, ok bool) {
	var widths []float64
	for _, c := range t.up {
		if c >= 0 {
			for _, c := range []int32{c, c ^ 1} {
				widths = append(widths, n.of(c), n.shared(c))
			}
		}
	}
	slices.Sort(widths)
	widths = slices.Compact(widths)
	for len(widths) > 0 && widths[0] <= 0 {
		widths = widths[1:]
	}
	can := make([]crossings, len(t.place))
	// The widths that do are the first ones.
	found, _ := slices.BinarySearchFunc(widths, true, func(w float64, _ bool) int {
		if n.covers(t, w, can) {
			return -1
		}
		return 1
	})
	if found == 0 {
		return nil, 0, false
	}
	width = widths[found-1]
	n.covers(t, width, can)
	return t.walks(can), width, true
}

// shared is what each direction of a link has if both are used.
func (n *Network) shared(c int32) float64 {
	if n.capacity[c] == n.capacity[c^1] {
		return n.of(c) / 2
	}
	return min(n.of(c), n.of(c^1))
}

// covers says whether pipelines over links of at least that width, none used twice, can
// serve all destinations; can becomes what each subtree can have above itself.
func (n *Network) covers(t *subtree, width float64, can []crossings) bool {
	for i := len(t.place) - 1; i >= 0; i-- {
		s := canNone
		switch {
		case t.kind[i] == source:
			s = canNone | canOut
		case t.kind[i] == dest:
			s = canIn | canThrough
		case len(t.children[i]) > 0:
			s = t.combine(t.children[i], can)
		}
		up := t.up[i]
		if up == -1 {
			if s&canNone == 0 {
				return false
			}
			continue
		}
		if up != free {
			if n.of(up) < width {
				s &^= canOut
			}
			if n.of(up^1) < width {
				s &^= canIn
			}
			if n.shared(up) < width {
				s &^= canThrough | canLend
			}
		}
		if s == 0 {
			return false
		}
		can[i] = s
	}
	return true
}

// combine is what a switch can have above itself if its children can have what can says. Each child takes the
// first it can of: let a walk out, nothing, let one through, take one in.
func (t *subtree) combine(children []int32, can []crossings) (s crossings) {
	net, out, lend, needs := 0, 0, 0, false
	for _, ch := range children {
		switch can[ch].crossing() {
		case 1:
			net++
			out++
		case -1:
			net--
		case through:
			needs = true
		}
		if can[ch]&canLend != 0 {
			lend++
		}
	}
	given := out+lend > 0
	if net >= 0 {
		s |= canThrough
		if given {
			s |= canLend
		}
		if given || !needs {
			s |= canNone
		}
	}
	if net >= 1 {
		s |= canOut
	}
	if net >= -1 {
		s |= canIn
	}
	return s
}

// walks are pipelines that can allows.
func (t *subtree) walks(can []crossings) (walks [][]int32) {
	have := make([]crossing, len(t.place))
	for i := range t.place {
		if len(t.children[i]) > 0 {
			t.share(t.children[i], can, have, have[i])
		}
	}
	return t.tie(have)
}

// tie are the walks that cross the links as have says.
func (t *subtree) tie(have []crossing) (walks [][]int32) {
	ends := make([]loose, len(t.place))
	var of []loose
	for i := len(t.place) - 1; i >= 0; i-- {
		if len(t.children[i]) == 0 {
			ends[i] = leaf(t.place[i], t.kind[i], have[i])
			continue
		}
		if t.chained(i) && have[i] == have[t.children[i][0]] {
			ends[i] = ends[t.children[i][0]]
			continue
		}
		of = of[:0]
		for _, ch := range t.children[i] {
			of = append(of, ends[ch])
		}
		ends[i] = join(of, have[i], func(w []int32) { walks = append(walks, w) })
	}
	slices.Reverse(walks) // parts of the tree in their order
	return walks
}

// share says for each child of a switch what it is to have above it, where the switch
// is to have c.
func (t *subtree) share(children []int32, can []crossings, have []crossing, c crossing) {
	surplus := 0
	for _, ch := range children {
		have[ch] = can[ch].crossing()
		if have[ch] != through {
			surplus += int(have[ch])
		}
	}
	if c == 1 || c == -1 {
		surplus -= int(c)
	}
	// Walks too many end where they would have gone through, or do not leave at all.
	for _, ch := range children {
		if surplus > 0 && have[ch] == through {
			have[ch] = -1
			surplus--
		}
	}
	for _, ch := range children {
		if surplus > 0 && have[ch] == 1 {
			have[ch] = 0
			surplus--
		}
	}
	// Who goes through needs the data from somebody.
	given := c == through || c == -1
	needs := c == lends
	if needs {
		given = false
	}
	for _, ch := range children {
		given = given || have[ch] == 1
		needs = needs || have[ch] == through
	}
	if needs && !given {
		for _, ch := range children {
			if have[ch] == 0 && can[ch]&canLend != 0 {
				have[ch] = lends
				return
			}
		}
	}
}
