package planner

import (
	"cmp"
	"math"
	"slices"
)

// dear is the price of a capacity that carries nothing: no walk that is worth anything pays it.
const dear = 1e12

// pricer finds the pipelines of a transfer that are worth most at given prices. It keeps its memory
// from one call to the next.
type pricer struct {
	net   *Network
	price []float64 // by capacity, never negative

	numbers []float64
	chosen  []choice
	bands   []band
	sums    [2][tokens][]float64 // see sum

	legCosts           legCosts // elsewhere than in trees: see legs
	last, least, total []float64
}

// band is what a subtree is worth, the price of what is above it included, for each crossing.
type band struct {
	up, down float64 // what a walk pays that goes out, and one that comes in: on the link above, or all links of a chain (see chained)

	lo, hi  int32
	profit  []float64 // by n - lo: n walks go out, -n come in
	through float64
	lend    float64
	steps   []step
	begin   []int8 // by n - lo: the token with which the children's sum begins

	leaves       []int32 // children that are destinations
	ends, passes crowd   // of those
}

// Tokens say whether a switch's children have what their walks need: whoever lets a walk through needs the
// data first, from a child that gives, or from above.
const (
	quiet = iota // nobody needs, nobody gives
	needy        // somebody needs, nobody gives
	fed          // somebody gives
	tokens
)

// step is the sum over some children: for each token and number of walks what the last
// child has, or how many of the leaves end a walk, and the token before it.
type step struct {
	child  int32 // -1: all leaves
	lo, hi int32
	chosen []choice
}

// choice is a crossing and a token.
type choice int32

func chosen(have crossing, token int) choice { return choice(have)<<2 | choice(token) }
func (c choice) have() crossing              { return crossing(c >> 2) }
func (c choice) token() int8                 { return int8(c & 3) }

func (p *pricer) floats(n int) []float64 {
	k := len(p.numbers)
	if k+n > cap(p.numbers) {
		p.numbers = make([]float64, 0, 2*cap(p.numbers)+n+1024)
		k = 0
	}
	p.numbers = p.numbers[:k+n]
	return p.numbers[k : k+n : k+n]
}

func (p *pricer) choices(n int) []choice {
	k := len(p.chosen)
	if k+n > cap(p.chosen) {
		p.chosen = make([]choice, 0, 2*cap(p.chosen)+n+1024)
		k = 0
	}
	p.chosen = p.chosen[:k+n]
	return p.chosen[k : k+n : k+n]
}

// best returns the pipelines in which all together is worth most: value of each
// destination that is in one (by index in t) less the prices of what they use. Each destination is in
// one at most. It is exact: no set of pipelines is worth more, and so if profit is 0 none is worth anything.
//
// One pass from the leaves up keeps for each subtree what it is worth for each number of walks
// that leave or enter it. The number of walks in a switch's sum is never cut off at what its own link could use: a
// first child's surplus serves the next. O(sources + destinations × log) for each switch below a switch and for all leaves below one together, and nothing of that for
// the switches of a chain (see chained); only where the profits of several subtrees with sources below one switch are not concave, O(destinations²) for each.
func (p *pricer) best(t *subtree, value []float64) (walks [][]int32, profit float64) {
	p.numbers, p.chosen = p.numbers[:0], p.chosen[:0]
	if cap(p.bands) < len(t.place) {
		p.bands = make([]band, len(t.place))
	}
	p.bands = p.bands[:len(t.place)]
	have := make([]crossing, len(t.place))
	for i, c := range t.up {
		if b := &p.bands[i]; c >= 0 {
			b.up, b.down = p.price[p.net.capacity[c]], p.price[p.net.capacity[c^1]]
		} else {
			b.up, b.down = 0, 0
		}
	}
	for i := range t.place {
		if t.chained(i) {
			b, below := &p.bands[i], &p.bands[t.children[i][0]]
			below.up, below.down = below.up+b.up, below.down+b.down
		}
	}
	for i := len(t.place) - 1; i >= 0; i-- {
		b := &p.bands[i]
		up, down := b.up, b.down
		b.steps = b.steps[:0]
		switch {
		case t.chained(i): // what crosses the link below crosses that above as well, and pays for both there
			below := &p.bands[t.children[i][0]]
			b.lo, b.hi, b.profit, b.through, b.lend = below.lo, below.hi, below.profit, below.through, below.lend
		case t.kind[i] == dest:
			b.lo, b.hi, b.profit = -1, 0, p.floats(2)
			b.profit[0], b.profit[1] = value[i]-down, 0
			b.through, b.lend = value[i]-down-up, math.Inf(-1)
		case t.kind[i] == source:
			b.through, b.lend = up, math.Inf(-1) // a source's walks cost up each: see sum
			b.lo, b.hi = 0, 0
		case len(t.children[i]) == 0:
			b.lo, b.hi, b.profit = 0, 0, p.floats(1)
			b.profit[0] = 0
			b.through, b.lend = math.Inf(-1), math.Inf(-1)
		default:
			sum, lo, hi := p.sum(t, int32(i))
			b.lo, b.hi = lo, 0
			if t.fed[i] {
				b.hi = min(hi, t.all[i]-t.below[i])
			}
			at := func(token int, n int32) float64 {
				if n < lo || n > hi {
					return math.Inf(-1)
				}
				return sum[token][n-lo]
			}
			b.profit = p.floats(int(b.hi - b.lo + 1))
			if cap(b.begin) < int(b.hi-b.lo+1) {
				b.begin = make([]int8, b.hi-b.lo+1)
			}
			b.begin = b.begin[:b.hi-b.lo+1]
			for n := b.lo; n <= b.hi; n++ {
				best, with := at(fed, n), fed
				if v := at(quiet, n); v > best {
					best, with = v, quiet
				}
				if n < 0 {
					if v := at(needy, n); v > best {
						best, with = v, needy
					}
					best += float64(n) * down
				} else if n > 0 {
					best -= float64(n) * up
				}
				b.profit[n-b.lo], b.begin[n-b.lo] = best, int8(with)
			}
			b.through, b.lend = at(needy, 0)-up-down, at(fed, 0)-up-down
		}
		if t.up[i] == -1 {
			profit += b.profit[-b.lo]
		}
	}
	if profit <= 0 {
		return nil, 0
	}
	for i := range t.place {
		switch {
		case len(t.children[i]) == 0:
			continue
		case t.chained(i):
			have[t.children[i][0]] = have[i]
			continue
		}
		b := &p.bands[i]
		var n int32
		var token int8
		switch c := have[i]; c {
		case through:
			token = needy
		case lends:
			token = fed
		default:
			n = int32(c)
			token = b.begin[n-b.lo]
		}
		for k := len(b.steps) - 1; k >= 0; k-- {
			s := &b.steps[k]
			ch := s.chosen[int32(token)*(s.hi-s.lo+1)+n-s.lo]
			if s.child < 0 {
				b.assign(p, have, -int(ch.have()), token != quiet && len(b.passes.profit) > 0)
			} else {
				have[s.child] = ch.have()
			}
			if ch.have() != through && ch.have() != lends {
				n -= int32(ch.have())
			}
			token = ch.token()
		}
	}
	return t.tie(have), profit
}

// assign says what the leaves have of which so many end a walk.
func (b *band) assign(p *pricer, have []crossing, ending int, pass bool) {
	order := b.ends.order
	if pass {
		order = b.passes.order
	}
	for k, leaf := range order {
		switch {
		case k < ending:
			have[leaf] = -1
		case pass && p.bands[leaf].through > 0:
			have[leaf] = through
		}
	}
}

// sum is what the children of i are worth together, by token and by how many more walks they let
// out than in, from lo to hi. It is there until the next sum.
//
// Those that let most out come first, and of sources right below the switch only the one whose walks cost least. Destinations right below the switch come last, all at once: so many of them end a walk, and
// of the others those pass one on to which that is worth something; whom a walk gains most by ends it.
func (p *pricer) sum(t *subtree, i int32) (acc [tokens][]float64, lo, hi int32) {
	which := 0
	rows := func(width int32) [tokens][]float64 {
		which ^= 1
		for k := range tokens {
			row := slices.Grow(p.sums[which][k][:0], int(width))[:width]
			for n := range row {
				row[n] = math.Inf(-1)
			}
			p.sums[which][k] = row
		}
		return p.sums[which]
	}
	acc = rows(1)
	acc[quiet][0] = 0
	b := &p.bands[i]
	next := func(child, down, up int32) (put func(token int, n int32, v float64, have crossing, from int)) {
		nlo, nhi := lo-down, min(hi+up, t.all[i])
		width := nhi - nlo + 1
		s := step{child, nlo, nhi, p.choices(tokens * int(width))}
		sums := rows(width)
		b.steps = append(b.steps, s)
		acc, lo, hi = sums, nlo, nhi
		return func(token int, n int32, v float64, have crossing, from int) {
			if at := n - nlo; n <= nhi && v > sums[token][at] {
				sums[token][at] = v
				s.chosen[int32(token)*width+at] = chosen(have, from)
			}
		}
	}
	for turn := range 2 { // those with sources below, those without
		for _, ch := range t.children[i] {
			if t.kind[ch] != passer || t.fed[ch] != (turn == 0) {
				continue
			}
			c := &p.bands[ch]
			before, blo, bhi := acc, lo, hi
			put := next(ch, -c.lo, c.hi)
			in, out := c.profit[:1-c.lo], c.profit[1-c.lo:]
			concaveIn, concaveOut := turn == 1 || concave(in), concave(out)
			for k := range tokens {
				maxPlus(before[k], blo, in, c.lo, concaveIn, func(n int32, v float64, d int32) { put(k, n, v, crossing(d), k) })
				maxPlus(before[k], blo, out, 1, concaveOut, func(n int32, v float64, d int32) { put(fed, n, v, crossing(d), k) })
				for n := blo; n <= bhi; n++ {
					put(max(k, needy), n, before[k][n-blo]+c.through, through, k)
					put(fed, n, before[k][n-blo]+c.lend, lends, k)
				}
			}
		}
	}
	cheapest := int32(-1) // of the sources right below: any number of walks may begin there
	for _, ch := range t.children[i] {
		if t.kind[ch] == source && (cheapest < 0 || p.bands[ch].through < p.bands[cheapest].through) {
			cheapest = ch
		}
	}
	if cheapest >= 0 {
		before, blo, bhi := acc, lo, hi
		put := next(cheapest, 0, t.all[i])
		up := p.bands[cheapest].through
		run, from, count := math.Inf(-1), 0, crossing(0)
		for n := lo; n <= hi; n++ {
			// run: the best with some walks out of this source that come to n-1, before one more.
			for k := range tokens {
				if n <= bhi {
					put(k, n, before[k][n-blo], 0, k)
				}
				if n-1 >= blo && n-1 <= bhi && before[k][n-1-blo] > run {
					run, from, count = before[k][n-1-blo], k, 0
				}
			}
			run -= up
			count++
			put(fed, n, run, count, from)
		}
	}
	if p.gather(t, i); len(b.leaves) > 0 {
		before, blo := acc, lo
		put := next(-1, int32(len(b.leaves)), 0)
		ends, passes := b.ends.profit, b.passes.profit
		for k := range tokens {
			take := func(token int, profit []float64) {
				maxPlus(before[k], blo, profit, -int32(len(b.leaves)), true, func(n int32, v float64, d int32) { put(token, n, v, crossing(d), k) })
			}
			if k == quiet || len(passes) == 0 {
				take(k, ends)
			}
			if len(passes) > 0 {
				take(max(k, needy), passes)
			}
		}
	}
	return acc, lo, hi
}

// crowd is what destinations right below a switch are worth together, in one of two ways: all that do not end a walk have none, or pass one
// on to which that is worth something.
type crowd struct {
	order  []int32   // of the leaves: those come first that gain most by ending a walk
	profit []float64 // if none of them, up to all of them end one: all first, none last; empty: there is nothing worth passing on to
}

// gather makes what the destinations right below i are worth together.
func (p *pricer) gather(t *subtree, i int32) {
	b := &p.bands[i]
	b.leaves = b.leaves[:0]
	pays := false
	for _, ch := range t.children[i] {
		if t.kind[ch] == dest {
			b.leaves = append(b.leaves, ch)
			pays = pays || p.bands[ch].through > 0
		}
	}
	b.ends.sort(p, b.leaves, false)
	if b.passes.profit = b.passes.profit[:0]; pays {
		b.passes.sort(p, b.leaves, true)
	}
}

func (c *crowd) sort(p *pricer, leaves []int32, pass bool) {
	other := func(leaf int32) float64 {
		if pass {
			return max(p.bands[leaf].through, 0)
		}
		return 0
	}
	gain := func(leaf int32) float64 { return p.bands[leaf].profit[0] - other(leaf) }
	c.order = append(c.order[:0], leaves...)
	slices.SortStableFunc(c.order, func(a, b int32) int { return cmp.Compare(gain(b), gain(a)) })
	n := len(leaves)
	c.profit = slices.Grow(c.profit[:0], n+1)[:n+1]
	sum := 0.0
	for _, leaf := range leaves {
		sum += other(leaf)
	}
	c.profit[n] = sum
	for k, leaf := range c.order {
		sum += gain(leaf)
		c.profit[n-1-k] = sum
	}
}

// concave says whether each number is no more above the one before than that is above the one before it, but for rounding.
func concave(profit []float64) bool {
	size := 0.0
	for _, v := range profit {
		size = max(size, math.Abs(v))
	}
	rise := math.Inf(1)
	for k := 1; k < len(profit); k++ {
		d := profit[k] - profit[k-1]
		if !(d <= rise+1e-15*size) || math.IsInf(size, 1) {
			return false
		}
		rise = min(rise, d)
	}
	return true
}

// maxPlus is the (max,+) convolution of before, which begins at lo, and profit, which begins at first: it puts for each sum n of a number of the one and a number d of
// the other what they are worth together at most, and d. If profit is concave the larger n is the larger is the number of before that is best (Monge), so that
// halves are looked through by halves: O((before + profit) × log). Else each is put with each.
func maxPlus(before []float64, lo int32, profit []float64, first int32, isConcave bool, put func(n int32, v float64, d int32)) {
	for len(before) > 0 && math.IsInf(before[0], -1) {
		before, lo = before[1:], lo+1
	}
	for len(before) > 0 && math.IsInf(before[len(before)-1], -1) {
		before = before[:len(before)-1]
	}
	if len(before) == 0 || len(profit) == 0 {
		return
	}
	if !isConcave || len(before) == 1 || len(profit) <= 2 {
		for n, v := range before {
			for d, w := range profit {
				put(lo+first+int32(n+d), v+w, first+int32(d))
			}
		}
		return
	}
	var halve func(from, to, least, most int) // sums, and between which of before the best is
	halve = func(from, to, least, most int) {
		for from < to {
			mid := (from + to) / 2
			best, at := math.Inf(-1), -1
			for j := max(least, mid-len(profit)+1); j <= min(most, mid, len(before)-1); j++ {
				if v := before[j] + profit[mid-j]; v > best {
					best, at = v, j
				}
			}
			if at < 0 { // there is a hole
				halve(from, mid, least, most)
				from = mid + 1
				continue
			}
			put(lo+first+int32(mid), best, first+int32(mid-at))
			halve(from, mid, least, at)
			from, least = mid+1, at
		}
	}
	halve(0, len(before)+len(profit)-1, 0, len(before)-1)
}
