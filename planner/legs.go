package planner

import (
	"math"
	"math/bits"
	"slices"
)

// legs are the ways between the hosts of a transfer in a network that is no tree: what a pipeline is made of there. A first plan does without
// them, so they are looked for when they are asked for first.
type legs struct {
	net     *Network
	sources int
	hosts   []int32 // the sources, then the destinations
	found   []int32 // capacities of one way after the other; nil: nobody has looked
	begins  []int   // by way, those to the first destination first: where it begins in found, and at the end where the last one ends
}

// vast is from how many ways between the hosts of a transfer on it is not priced: to look for them and to put pipelines together from them would take minutes, and
// gigabytes. It keeps the pipelines of the first plan.
const vast = 1500 * 1500

func (n *Network) legs(sources, dests []int32) *legs {
	if len(dests) == 0 || len(sources)+len(dests) > vast/len(dests) {
		return nil
	}
	return &legs{net: n, sources: len(sources), hosts: append(slices.Clone(sources), dests...)}
}

// ways looks for all ways, unless they are there. ok is false if somebody has enough meanwhile.
func (l *legs) ways() (ok bool) {
	if l.found != nil {
		return true
	}
	dests := l.hosts[l.sources:]
	found, begins := []int32{}, make([]int, 1, len(l.hosts)*len(dests)+1)
	n := l.net
	path := n.path
	defer func() { n.path = path }()
	for _, to := range dests { // one after the other, since a router does not keep what it knows of ways to all of very many
		if !l.certain() && n.enough != nil && n.enough() {
			return false
		}
		for _, from := range l.hosts {
			if path, ok = n.way(path[:0], from, to); ok && !slices.ContainsFunc(path, func(c int32) bool { return n.of(c) == 0 }) {
				for _, c := range path {
					found = append(found, n.capacity[c])
				}
			}
			begins = append(begins, len(found))
		}
	}
	l.found, l.begins = found, begins
	return true
}

// way is what the one from host a to destination d takes from, once each; nothing: there is none.
func (l *legs) way(a, d int) []int32 {
	i := d*len(l.hosts) + a
	return l.found[l.begins[i]:l.begins[i+1]]
}

// few is up to how many destinations of a transfer the pipelines that are worth most are found for certain: the
// time doubles with each one more.
const few = 12

// certain says whether pipelines over l are found by heldKarp, so that there is nothing better.
func (l *legs) certain() bool { return len(l.hosts)-l.sources <= few }

// legCosts is what legs cost at some prices. The sources are one root, since a pipeline begins at
// whichever is cheapest.
type legCosts struct {
	n     int       // destinations, by index from 0
	enter []float64 // by destination: from the root
	from  []int32   // by destination: the source that is the cheapest, by index
	leg   []float64 // from destination a to b, at b·n+a; infinite: no way, or the same
}

// of sets t to what l costs. If somebody has enough before that is known nothing costs anything, which is true of all bounds.
func (t *legCosts) of(l *legs, price []float64) (known bool) {
	n := len(l.hosts) - l.sources
	t.n = n
	t.enter, t.from, t.leg = slices.Grow(t.enter[:0], n)[:n], slices.Grow(t.from[:0], n)[:n], slices.Grow(t.leg[:0], n*n)[:n*n]
	for d := range n {
		t.enter[d], t.from[d] = math.Inf(1), 0
	}
	if !l.ways() {
		clear(t.enter)
		clear(t.leg)
		return false
	}
	for d := range n {
		for a := range l.hosts {
			cost := math.Inf(1)
			if w := l.way(a, d); len(w) > 0 {
				cost = 0
				for _, c := range w {
					cost += price[c]
				}
			}
			if a >= l.sources {
				t.leg[d*n+a-l.sources] = cost
			} else if cost < t.enter[d] {
				t.enter[d], t.from[d] = cost, int32(a)
			}
		}
	}
	return true
}

// root and end stand for destinations before the first and after the last of a pipeline.
const (
	root = -1
	end  = -1
)

// step is what it costs to go on from a to b; nothing at the end.
func (t *legCosts) step(a, b int32) float64 {
	switch {
	case b < 0:
		return 0
	case a < 0:
		return t.enter[b]
	}
	return t.leg[int(b)*t.n+int(a)]
}

// walk is a row of destinations by index as hosts, from the source that is the cheapest for the first.
func (l *legs) walk(t *legCosts, row []int32) []int32 {
	hosts := append(make([]int32, 0, len(row)+1), l.hosts[t.from[row[0]]])
	for _, d := range row {
		hosts = append(hosts, l.hosts[l.sources+int(d)])
	}
	return hosts
}

// over returns the pipelines over l that are worth most all together, and their profit: value of each destination that is in one (it is in one at
// most) less the prices of what they use. With all set as many destinations are served as can be, whatever that costs. It is exact if l is certain;
// else it is greedy and then made better bit by bit, until somebody has enough.
func (p *pricer) over(l *legs, value []float64, all bool) (walks [][]int32, profit float64) {
	if l == nil || !p.legCosts.of(l, p.price) {
		return nil, 0
	}
	var rows [][]int32
	if l.certain() {
		rows, profit = p.heldKarp(&p.legCosts, value, all)
	} else {
		rows, profit = greedily(&p.legCosts, value, all, p.net.enough)
	}
	for _, row := range rows {
		walks = append(walks, l.walk(&p.legCosts, row))
	}
	return walks, profit
}

// heldKarp is exact, by dynamic programming over sets of destinations, of which it knows for each that may be the last one what it costs to serve
// them (Held and Karp 1962, with new pipelines from the root anywhere). O(destinations² · 2^destinations).
func (p *pricer) heldKarp(t *legCosts, value []float64, all bool) (rows [][]int32, profit float64) {
	n := t.n
	sets := 1 << n
	if len(p.last) < sets*n {
		p.last, p.least, p.total = make([]float64, sets*n), make([]float64, sets), make([]float64, sets)
	}
	last, least, sum := p.last, p.least, p.total // by set and last destination; by set; the values in a set
	least[0], sum[0] = 0, 0
	best, most := 0, 0.0
	for s := 1; s < sets; s++ {
		row := last[s*n : s*n+n]
		sum[s] = sum[s&(s-1)] + value[bits.TrailingZeros(uint(s))]
		least[s] = math.Inf(1)
		for d := range row {
			row[d] = math.Inf(1)
			if s>>d&1 == 0 {
				continue
			}
			rest := s &^ (1 << d)
			cost := least[rest] + t.enter[d]
			if rest > 0 {
				before := last[rest*n : rest*n+n]
				for a, c := range t.leg[d*n : d*n+n] {
					if c += before[a]; c < cost {
						cost = c
					}
				}
			}
			row[d] = cost
			least[s] = min(least[s], cost)
		}
		v := sum[s] - least[s]
		if all && !math.IsInf(least[s], 1) {
			v = float64(bits.OnesCount(uint(s))) - least[s]/(1+least[s])/2 // more before cheaper
		}
		if v > most {
			best, most = s, v
		}
	}
	return p.rows(t, best), sum[best] - least[best]
}

// rows are the pipelines that serve a set of destinations for least, each once, as the tables of heldKarp have them.
func (p *pricer) rows(t *legCosts, set int) (rows [][]int32) {
	n, last, least := t.n, p.last, p.least
	for s := set; s > 0; {
		d := slices.Index(last[s*n:s*n+n], least[s])
		var row []int32
		for d >= 0 {
			row = append(row, int32(d))
			cost := last[s*n+d]
			s &^= 1 << d
			if least[s]+t.enter[d] == cost {
				break
			}
			next := -1
			for a := range n {
				if s>>a&1 == 1 && last[s*n+a]+t.leg[d*n+a] == cost {
					next = a
					break
				}
			}
			d = next
		}
		slices.Reverse(row)
		rows = append(rows, row)
	}
	slices.Reverse(rows)
	return rows
}

// chains are pipelines while they are put together: by destination which one it comes after, and which one goes on from it.
type chains struct {
	t          *legCosts
	prev, next []int32
	in         []bool
}

// put puts the row from first to last between a and b, which are neighbours, or root and end.
func (c *chains) put(first, last, a, b int32) {
	c.prev[first], c.next[last] = a, b
	if a >= 0 {
		c.next[a] = first
	}
	if b >= 0 {
		c.prev[b] = last
	}
}

// cut takes the row from first to last out; its neighbours become each other's.
func (c *chains) cut(first, last int32) {
	a, b := c.prev[first], c.next[last]
	if a >= 0 {
		c.next[a] = b
	}
	if b >= 0 {
		c.prev[b] = a
	}
}

// detour is what it costs more to have the row from first to last between a and b than not.
func (c *chains) detour(first, last, a, b int32) float64 {
	cost := c.t.step(a, first) + c.t.step(last, b)
	if a >= 0 || b >= 0 {
		cost -= c.t.step(a, b)
	}
	return cost
}

// greedily puts the destination that costs least more where it costs that, then the next; moves what is better off elsewhere; and then takes out what does not
// pay. O(destinations³) at most. When somebody has enough who is not in yet stays out.
func greedily(t *legCosts, value []float64, all bool, enough func() bool) (rows [][]int32, profit float64) {
	n := int32(t.n)
	c := &chains{t: t, prev: make([]int32, n), next: make([]int32, n), in: make([]bool, n)}
	type spot struct {
		a, b int32
		cost float64
	}
	try := func(s *spot, d, a, b int32) {
		if cost := c.detour(d, d, a, b); cost < s.cost {
			*s = spot{a, b, cost}
		}
	}
	cheapest := func(d int32) (s spot) {
		s = spot{root, end, t.enter[d]}
		for k := range n {
			if c.in[k] {
				try(&s, d, c.prev[k], k)
				if c.next[k] < 0 {
					try(&s, d, k, end)
				}
			}
		}
		return s
	}
	spots := make([]spot, n)
	for d := range n {
		spots[d] = cheapest(d)
	}
	stopped := false
	for range n {
		if stopped = enough != nil && enough(); stopped {
			break
		}
		d := int32(-1)
		for k := range n {
			if !c.in[k] && !math.IsInf(spots[k].cost, 1) && (d < 0 || spots[k].cost-value[k] < spots[d].cost-value[d]) {
				d = k
			}
		}
		if d < 0 {
			break
		}
		s := spots[d]
		c.in[d] = true
		c.put(d, d, s.a, s.b)
		for k := range n {
			switch {
			case c.in[k]:
			case spots[k].a == s.a && spots[k].b == s.b && (s.a >= 0 || s.b >= 0):
				spots[k] = cheapest(k)
			default:
				try(&spots[k], k, s.a, d)
				try(&spots[k], k, d, s.b)
			}
		}
	}
	if !stopped {
		c.improve(enough)
	}
	if !all {
		c.prune(value)
	}
	for h := range n {
		if !c.in[h] || c.prev[h] >= 0 {
			continue
		}
		var row []int32
		gain := 0.0
		for d := h; d >= 0; d = c.next[d] {
			gain += value[d] - t.step(c.prev[d], d)
			row = append(row, d)
		}
		if all || gain > 0 {
			rows, profit = append(rows, row), profit+gain
		}
	}
	return rows, profit
}

// improve moves rows of one to three destinations to where they cost less, and exchanges what comes after in two
// pipelines, until neither helps, or somebody has enough.
func (c *chains) improve(enough func() bool) {
	n := int32(len(c.in))
	const rounds = 12
	of := make([]int32, n) // by destination: the first one of its pipeline
	for range rounds {
		if enough != nil && enough() {
			return
		}
		better := false
		for first := range n {
			if !c.in[first] {
				continue
			}
			last := first
			for length := 1; length <= 3 && last >= 0; length, last = length+1, c.next[last] {
				a, b := c.prev[first], c.next[last]
				saved := c.detour(first, last, a, b)
				if !(saved > 1e-9) || math.IsInf(saved, 1) {
					continue
				}
				cost, toA, toB := saved-1e-9*(1+saved), int32(-2), int32(-2)
				try := func(x, y int32) {
					if v := c.detour(first, last, x, y); v < cost {
						cost, toA, toB = v, x, y
					}
				}
				if a >= 0 || b >= 0 {
					try(root, end)
				}
				inside := func(k int32) bool {
					for d, i := first, 0; i < length; d, i = c.next[d], i+1 {
						if d == k {
							return true
						}
					}
					return false
				}
				for k := range n {
					if !c.in[k] || inside(k) {
						continue
					}
					if k != b {
						try(c.prev[k], k)
					}
					if c.next[k] < 0 {
						try(k, end)
					}
				}
				if toA != -2 {
					c.cut(first, last)
					c.put(first, last, toA, toB)
					better = true
				}
			}
		}
		for h := range n {
			if c.in[h] && c.prev[h] < 0 {
				for d := h; d >= 0; d = c.next[d] {
					of[d] = h
				}
			}
		}
		// swap lets what follows x come after y and the other way round. x is root where a whole pipeline, from its first destination on, goes.
		swap := func(x, nx, y int32) {
			ny := c.next[y]
			if nx < 0 && ny < 0 || c.t.step(x, ny)+c.t.step(y, nx) >= c.t.step(x, nx)+c.t.step(y, ny)-1e-9 {
				return
			}
			hx, hy := of[y], of[y]
			if x >= 0 {
				hx = of[x]
			} else if ny >= 0 {
				hx = ny
			}
			for d := nx; d >= 0; d = c.next[d] {
				of[d] = hy
			}
			for d := ny; d >= 0; d = c.next[d] {
				of[d] = hx
			}
			c.next[y] = nx
			if nx >= 0 {
				c.prev[nx] = y
			}
			if x >= 0 {
				c.next[x] = ny
			}
			if ny >= 0 {
				c.prev[ny] = x
			}
			better = true
		}
		for x := range n {
			for y := range n {
				if c.in[x] && c.in[y] && of[x] != of[y] {
					if swap(x, c.next[x], y); of[x] != of[y] && c.prev[x] < 0 {
						swap(root, x, y)
					}
				}
			}
		}
		if !better {
			return
		}
	}
}

// prune takes out rows that cost more than they are worth, the worst first.
func (c *chains) prune(value []float64) {
	for h := range int32(len(c.in)) {
		if !c.in[h] || c.prev[h] >= 0 {
			continue
		}
		for head := h; head >= 0; {
			loss, first, last := 1e-12, int32(-1), int32(-1)
			for i := head; i >= 0; i = c.next[i] {
				sum := 0.0
				for j := i; j >= 0; j = c.next[j] {
					sum += c.t.step(c.prev[j], j) - value[j]
					if v := sum + c.t.step(j, c.next[j]) - c.t.step(c.prev[i], c.next[j]); v > loss {
						loss, first, last = v, i, j
					}
				}
			}
			if first < 0 {
				break
			}
			if first == head {
				head = c.next[last]
			}
			stop := c.next[last]
			c.cut(first, last)
			for d := first; d != stop; d = c.next[d] {
				c.in[d] = false
			}
		}
	}
}
