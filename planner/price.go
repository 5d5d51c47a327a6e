package planner

import "math"

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

	tolls              tolls // elsewhere than in trees: see legs
	last, least, total []float64
}

// band is what a subtree is worth, the price of the link above it included, for each crossing.
type band struct {
	lo, hi  int32
	worth   []float64 // by n - lo: n walks go out, -n come in
	through float64
	lend    float64
	steps   []step // by child
	begin   []int8 // by n - lo: the token with which the children's sum begins
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
// child has, and the token before it.
type step struct {
	lo, hi int32
	chosen []choice
}

// choice is a crossing and a token.
type choice int32

func chosen(have crossing, token int) choice { return choice(have)<<2 | choice(token) }
func (c choice) have() crossing              { return crossing(c >> 2) }
func (c choice) token() int8                 { return int8(c & 3) }

func (p *pricer) floats(n int32) []float64 {
	k := int32(len(p.numbers))
	if int(k+n) > cap(p.numbers) {
		p.numbers = make([]float64, 0, 2*cap(p.numbers)+int(n)+1024)
		k = 0
	}
	p.numbers = p.numbers[:k+n]
	return p.numbers[k : k+n : k+n]
}

func (p *pricer) choices(n int32) []choice {
	k := int32(len(p.chosen))
	if int(k+n) > cap(p.chosen) {
		p.chosen = make([]choice, 0, 2*cap(p.chosen)+int(n)+1024)
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
// first child's surplus serves the next. O(children × destinations²) at most, far
// less for destinations that are leaves.
func (p *pricer) best(t *subtree, value []float64) (walks [][]int32, profit float64) {
	p.numbers, p.chosen = p.numbers[:0], p.chosen[:0]
	if cap(p.bands) < len(t.place) {
		p.bands = make([]band, len(t.place))
	}
	p.bands = p.bands[:len(t.place)]
	have := make([]crossing, len(t.place))
	for i := len(t.place) - 1; i >= 0; i-- {
		up, down := 0.0, 0.0
		if c := t.up[i]; c >= 0 {
			up, down = p.price[p.net.capacity[c]], p.price[p.net.capacity[c^1]]
		}
		b := &p.bands[i]
		b.steps = b.steps[:0]
		switch {
		case t.kind[i] == dest:
			b.lo, b.hi, b.worth = -1, 0, p.floats(2)
			b.worth[0], b.worth[1] = value[i]-down, 0
			b.through, b.lend = value[i]-down-up, math.Inf(-1)
		case t.kind[i] == source:
			b.through, b.lend = up, math.Inf(-1) // a source's walks cost up each: see add
			b.lo, b.hi = 0, 0
		case len(t.children[i]) == 0:
			b.lo, b.hi, b.worth = 0, 0, p.floats(1)
			b.worth[0] = 0
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
			b.worth = p.floats(b.hi - b.lo + 1)
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
				b.worth[n-b.lo], b.begin[n-b.lo] = best, int8(with)
			}
			b.through, b.lend = at(needy, 0)-up-down, at(fed, 0)-up-down
			if t.up[i] == -1 {
				profit += b.worth[-b.lo]
			}
		}
	}
	if profit <= 0 {
		return nil, 0
	}
	for i := range t.place {
		if len(t.children[i]) == 0 {
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
			have[t.children[i][k]] = ch.have()
			if ch.have() != through && ch.have() != lends {
				n -= int32(ch.have())
			}
			token = ch.token()
		}
	}
	return t.tie(have), profit
}

// sum is what the children of i are worth together, by token and by how many more walks they let
// out than in, from lo to hi.
func (p *pricer) sum(t *subtree, i int32) (acc [tokens][]float64, lo, hi int32) {
	for k := range acc {
		acc[k] = p.floats(1)
		acc[k][0] = math.Inf(-1)
	}
	acc[quiet][0] = 0
	b := &p.bands[i]
	for _, ch := range t.children[i] {
		c := &p.bands[ch]
		most := hi + c.hi
		if t.kind[ch] == source {
			most = hi + t.all[i]
		}
		nlo, nhi := lo+c.lo, min(most, t.all[i])
		width := nhi - nlo + 1
		s := step{nlo, nhi, p.choices(tokens * width)}
		var next [tokens][]float64
		for k := range next {
			next[k] = p.floats(width)
			for m := range next[k] {
				next[k][m] = math.Inf(-1)
			}
		}
		put := func(token int, n int32, v float64, have crossing, from int) {
			if at := n - nlo; n <= nhi && v > next[token][at] {
				next[token][at] = v
				s.chosen[int32(token)*width+at] = chosen(have, from)
			}
		}
		if t.kind[ch] == source {
			up := c.through
			run, from, count := math.Inf(-1), 0, crossing(0)
			for n := nlo; n <= nhi; n++ {
				// run: the best with some walks out of this source that come to n-1, before one more.
				for k := range tokens {
					if n <= hi {
						put(k, n, acc[k][n-lo], 0, k)
					}
					if n-1 >= lo && n-1 <= hi && acc[k][n-1-lo] > run {
						run, from, count = acc[k][n-1-lo], k, 0
					}
				}
				run -= up
				count++
				put(fed, n, run, count, from)
			}
		} else {
			for k := range tokens {
				needs := max(k, needy)
				for n := lo; n <= hi; n++ {
					v := acc[k][n-lo]
					if math.IsInf(v, -1) {
						continue
					}
					for d := c.lo; d <= c.hi; d++ {
						token := k
						if d > 0 {
							token = fed
						}
						put(token, n+d, v+c.worth[d-c.lo], crossing(d), k)
					}
					put(needs, n, v+c.through, through, k)
					put(fed, n, v+c.lend, lends, k)
				}
			}
		}
		b.steps = append(b.steps, s)
		acc, lo, hi = next, nlo, nhi
	}
	return acc, lo, hi
}
