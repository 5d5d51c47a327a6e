package planner

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/freshet/freshet/internal/heap"
	"github.com/freshet/freshet/internal/lp"
)

// flat is the paper's random flat tree: each destination gets from a source by chance, directly.
func (n *Network) flat(demands []demand, rng *rand.Rand) (pipes []pipe) {
	for k := range demands {
		for _, d := range demands[k].dests {
			if p, ok := n.pipe(k, []int32{pick(rng, demands[k].sources, func(s int32) bool { return n.width(s, d) > 0 }), d}); ok {
				pipes = append(pipes, p)
			}
		}
	}
	return pipes
}

// pick is one of hosts by chance, of those that are good if there are any.
func pick(rng *rand.Rand, hosts []int32, good func(int32) bool) int32 {
	i := rng.IntN(len(hosts))
	for k := range hosts {
		if h := hosts[(i+k)%len(hosts)]; good(h) {
			return h
		}
	}
	return hosts[i]
}

// random is the paper's random pipeline: each destination belongs to the source from which the way is widest,
// by chance where several are; the destinations of a source are in one pipeline in an order by chance.
func (n *Network) random(demands []demand, rng *rand.Rand) (pipes []pipe) {
	for k := range demands {
		rows := make([][]int32, len(demands[k].sources))
		for _, d := range demands[k].dests {
			widest, best, ties := 0.0, -1, 0
			for i, s := range demands[k].sources {
				switch w := n.width(s, d); {
				case w == 0 || w < widest:
				case w > widest:
					widest, best, ties = w, i, 1
				default:
					if ties++; rng.IntN(ties) == 0 {
						best = i
					}
				}
			}
			if best >= 0 {
				rows[best] = append(rows[best], d)
			}
		}
		for i, row := range rows {
			rng.Shuffle(len(row), func(a, b int) { row[a], row[b] = row[b], row[a] })
			if len(row) > 0 {
				pipes = append(pipes, n.split(k, append([]int32{demands[k].sources[i]}, row...))...)
			}
		}
	}
	return pipes
}

// split is the pipeline over these hosts, in pieces that begin at the source anew where there is no way from one
// destination to the next.
func (n *Network) split(demand int, hosts []int32) (pipes []pipe) {
	row := hosts[:1:1]
	put := func() {
		if p, ok := n.pipe(demand, row); ok && len(row) > 1 {
			pipes = append(pipes, p)
		}
	}
	for _, h := range hosts[1:] {
		if n.width(row[len(row)-1], h) == 0 {
			put()
			row = hosts[:1:1]
		}
		row = append(row, h)
	}
	put()
	return pipes
}

// growth is the paper's widest bottleneck (section 4): like Prim's tree it takes the
// widest channel that leaves what is reached already, until every
// destination is reached and pipelines over the channels taken so far can serve them.
//
// What differs from the print: sources are reached at the beginning; among channels of one rate those nearer to
// a source come first, then those of the source that has fewer destinations so far, since
// else one source takes all of an even network; a rate of 0 is left out, but what other
// transfers fill up comes last. Whether pipelines are there is asked at moments ever farther apart, and the first one at which they are is found by
// binary search, since they stay possible once they are: O(channels × log channels).
//
// A network keeps one, whose memory serves the next transfer: whatever is by place or by channel is as it was made when nothing grows.
type growth struct {
	net   *Network
	have  []float64 // by capacity
	queue candidates
	taken []int32 // channels in the order in which they were taken
	order []int32 // places as they were reached
	stem  []int32 // those of them that are sources or have a destination at or below

	time   []int32 // by channel: when it was taken, from 1; 0: it was not
	entry  []int32 // by place: the channel by which it was reached, or else
	owner  []int32 // by place: the source
	hops   []int32 // by place: from the source
	isDest []bool  // by place
	inside []bool  // by place: in a tree, the transfer's part of it
	stems  []bool  // by place: it is in stem
	first  []int32 // by place: the first of those reached from there that are in stem; -1: none
	last   []int32 // by place: the last of them
	next   []int32 // by place: the one after it that was reached from the same place; -1: none
	good   []bool  // by place, A: all below can be served, and the walk comes back
	able   []bool  // by place, B: all below can be served
}

// What entry is of places that no channel has reached.
const (
	begins  = -1 // a source
	unknown = -2
)

// candidates are channels that leave what is reached. The widest comes first, of even ones the nearest to its source, then that of the source that has the
// fewest destinations so far; the number tells the rest apart.
//
// Those of a source wait by themselves, and the first of each with the first ones of the others, as of the number of destinations that its source had then. One
// whose source has more when it comes up goes back.
type candidates struct {
	of    []heap.Heap[float64, int32, int32] // by place, of sources: less the rate, the hops, the channel
	first heap.Heap[float64, uint64, uint64] // less the rate, hops and destinations, channel and source
	used  []int32                            // by place, of sources: its destinations so far
}

func (q *candidates) put(rate float64, hops, source, channel int32) {
	q.of[source].Put(-rate, hops, channel)
	if _, _, c := q.of[source].First(); c == channel {
		q.wait(source)
	}
}

// wait lets the first one of a source wait with those of the others.
func (q *candidates) wait(source int32) {
	rate, hops, channel := q.of[source].First()
	q.first.Put(rate, uint64(hops)<<32|uint64(q.used[source]), uint64(channel)<<32|uint64(source))
}

// take takes the first one of all; ok is false if there is none.
func (q *candidates) take() (channel int32, ok bool) {
	for len(q.first) > 0 {
		_, key, of := q.first.Take()
		channel, source := int32(of>>32), int32(uint32(of))
		if len(q.of[source]) == 0 {
			continue
		}
		if _, _, c := q.of[source].First(); c != channel { // one before it came later, and waits, too
			continue
		}
		if int32(uint32(key)) != q.used[source] {
			q.wait(source)
			continue
		}
		q.of[source].Take()
		if len(q.of[source]) > 0 {
			q.wait(source)
		}
		return channel, true
	}
	return 0, false
}

// forget empties it, for these sources.
func (q *candidates) forget(sources []int32) {
	for _, s := range sources {
		q.of[s], q.used[s] = q.of[s][:0], 0
	}
	q.first = q.first[:0]
}

// grown are the pipelines of one transfer on what capacities have.
func (n *Network) grown(d *demand, have []float64) (walks [][]int32) {
	if len(d.dests) == 0 {
		return nil
	}
	if n.growth == nil {
		places := len(n.names)
		g := &growth{
			net: n, time: make([]int32, len(n.capacity)), entry: make([]int32, places), owner: make([]int32, places), hops: make([]int32, places),
			queue:  candidates{of: make([]heap.Heap[float64, int32, int32], places), used: make([]int32, places)},
			isDest: make([]bool, places), inside: make([]bool, places), stems: make([]bool, places),
			first: make([]int32, places), last: make([]int32, places), next: make([]int32, places), good: make([]bool, places), able: make([]bool, places),
		}
		for p := range g.entry {
			g.entry[p] = unknown
		}
		n.growth = g
	}
	g := n.growth
	g.have = have
	defer g.forget(d)
	for _, h := range d.dests {
		g.isDest[h] = true
	}
	if d.sub != nil {
		for _, p := range d.sub.place {
			g.inside[p] = true
		}
	}
	for _, s := range d.sources {
		g.reach(d, s, s, begins, 0)
	}
	now, served, need, look := int32(0), 0, int32(0), int32(0)
	for {
		c, ok := g.queue.take()
		if !ok {
			break
		}
		now++
		g.time[c] = now
		g.taken = append(g.taken, c)
		from, to := n.from(c), n.to(c)
		if g.entry[to] == unknown {
			if g.isDest[to] {
				g.queue.used[g.owner[from]]++
				served++
			}
			g.reach(d, to, g.owner[from], c, g.hops[from]+1)
		}
		if served == len(d.dests) && now >= look {
			if look == 0 {
				need = now
				g.branch()
			}
			if g.ready(now, d.sources) {
				break
			}
			look = now + 1 + (now - need)
		}
	}
	if look == 0 {
		need = now
		g.branch()
	}
	lo, hi := need, now // of these moments the first at which pipelines are there; if at none, the last
	for lo < hi {
		if mid := (lo + hi) / 2; g.ready(mid, d.sources) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	g.ready(lo, d.sources)
	for _, s := range d.sources {
		walks = append(walks, g.pipelines(s, lo)...)
	}
	return walks
}

// reach takes a place in, of the source from, by a channel, and what leaves it becomes a candidate.
func (g *growth) reach(d *demand, p, from, by, hops int32) {
	n := g.net
	g.entry[p], g.owner[p], g.hops[p] = by, from, hops
	g.order = append(g.order, p)
	for _, c := range n.out[p] {
		if q := n.to(c); n.of(c) > 0 && (d.sub == nil || g.inside[q]) && (q >= int32(n.hosts) || g.isDest[q]) {
			g.queue.put(g.width(c), hops, from, c)
		}
	}
}

// width is what a channel has; of a half-duplex link whose other direction is taken, half of it.
func (g *growth) width(c int32) float64 {
	have := g.have[g.net.capacity[c]]
	if g.time[c^1] > 0 && g.net.capacity[c^1] == g.net.capacity[c] {
		have /= 2
	}
	return have
}

// forget makes everything as it was before.
func (g *growth) forget(d *demand) {
	for _, p := range g.order {
		g.entry[p], g.stems[p] = unknown, false
	}
	for _, c := range g.taken {
		g.time[c] = 0
	}
	for _, h := range d.dests {
		g.isDest[h] = false
	}
	if d.sub != nil {
		for _, p := range d.sub.place {
			g.inside[p] = false
		}
	}
	g.queue.forget(d.sources)
	g.taken, g.order, g.stem, g.have = g.taken[:0], g.order[:0], g.stem[:0], nil
}

// branch finds out what of the forest has a destination below it. What is reached later has none.
func (g *growth) branch() {
	for k := len(g.order) - 1; k >= 0; k-- {
		p := g.order[k]
		switch c := g.entry[p]; {
		case c == begins:
			g.stems[p] = true
		case g.isDest[p] || g.stems[p]:
			g.stems[p], g.stems[g.net.from(c)] = true, true
		}
	}
	for _, p := range g.order {
		if !g.stems[p] {
			continue
		}
		g.stem = append(g.stem, p)
		g.first[p], g.next[p] = -1, -1
		if c := g.entry[p]; c != begins {
			from := g.net.from(c)
			if g.first[from] < 0 {
				g.first[from] = p
			} else {
				g.next[g.last[from]] = p
			}
			g.last[from] = p
		}
	}
}

// back says whether the way back over the channel by which p was reached is there at a moment.
func (g *growth) back(p int32, now int32) bool {
	t := g.time[g.entry[p]^1]
	return t > 0 && t <= now
}

// ready says whether one pipeline of each source can serve all that it has reached.
func (g *growth) ready(now int32, sources []int32) bool {
	for k := len(g.stem) - 1; k >= 0; k-- {
		p := g.stem[k]
		bad, last := 0, int32(-1)
		for c := g.first[p]; c >= 0; c = g.next[c] {
			if !g.good[c] || !g.back(c, now) {
				bad++
				last = c
			}
		}
		g.good[p] = bad == 0
		g.able[p] = bad == 0 || bad == 1 && g.able[last]
	}
	for _, s := range sources {
		if !g.able[s] {
			return false
		}
	}
	return true
}

// pipelines serve what source s has reached: one, or more of them where not even the whole network allows one.
func (g *growth) pipelines(s int32, now int32) (walks [][]int32) {
	begin := []int32{s}
	for len(begin) > 0 {
		walk := []int32{s}
		var visit func(p int32, back bool)
		visit = func(p int32, back bool) {
			if g.isDest[p] {
				walk = append(walk, p)
			}
			last, narrowest := int32(-1), math.Inf(1)
			var bad []int32
			for c := g.first[p]; c >= 0; c = g.next[c] {
				if !g.good[c] || !g.back(c, now) {
					bad = append(bad, c)
				}
			}
			if !back && len(bad) > 0 {
				k := max(0, slices.IndexFunc(bad, func(c int32) bool { return g.able[c] }))
				last = bad[k]
				bad = slices.Delete(bad, k, k+1)
			} else if !back { // all are good: the narrowest way back is not taken
				for c := g.first[p]; c >= 0; c = g.next[c] {
					if w := g.width(g.entry[c] ^ 1); w < narrowest {
						last, narrowest = c, w
					}
				}
			}
			for c := g.first[p]; c >= 0; c = g.next[c] {
				if c != last && !slices.Contains(bad, c) {
					visit(c, true)
				}
			}
			begin = append(begin, bad...)
			if last >= 0 {
				visit(last, false)
			}
		}
		p := begin[0]
		begin = begin[1:]
		visit(p, false)
		if len(walk) > 1 {
			walks = append(walks, walk)
		}
	}
	return walks
}

// grow returns the paper's initial plan (5.1): each transfer by itself on the whole network.
func (n *Network) grow(demands []demand) (pipes []pipe) {
	for k := range demands {
		pipes = append(pipes, n.laid(k, &demands[k], n.rate, len(demands[k].dests))...)
	}
	return pipes
}

// laid are the pipelines of one transfer on what capacities have: grown over links on trees, where these are what routes follow, and elsewhere over routes, of which
// look are compared at a time. Transfers that have too many routes to compare (vast) grow over links there, too, and what comes of it follows routes.
func (n *Network) laid(k int, d *demand, have []float64, look int) (pipes []pipe) {
	var walks [][]int32
	if d.legs != nil {
		walks = n.chained(d, have, look)
	} else {
		walks = n.grown(d, have)
	}
	for _, w := range walks {
		pipes = append(pipes, n.split(k, w)...)
	}
	return pipes
}

// replan is the paper's re-planning (5.3), by whatever plans one transfer on what the others leave (again): a plan that makes the whole better
// is kept, until no transfer's does, or somebody has enough. Two things save time and change nothing: a plan in which no pipeline is worth more than the present prices of what
// it uses cannot help, and the linear program goes on from where it was.
func (n *Network) replan(demands []demand, pipes []pipe, solver *lp.Simplex, again func(k int, have []float64) []pipe) ([]pipe, error) {
	var m *master
	var columns []int32
	var total float64
	var kept lp.Basis
	objective := func(p *pipe) float64 { return demands[p.demand].weight * float64(p.served()) }
	begin := func() (err error) {
		m = n.master(n.rate, solver)
		columns = make([]int32, len(pipes))
		for i := range pipes {
			columns[i] = m.add(objective(&pipes[i]), pipes[i].use)
		}
		total, err = m.solve()
		kept = solver.Keep()
		return err
	}
	if err := begin(); err != nil {
		return nil, err
	}
	for idle, k := 0, 0; idle < len(demands) && !(n.enough != nil && n.enough()); k = (k + 1) % len(demands) {
		idle++
		if len(m.prog.Cost) > 4*len(pipes)+1000 { // columns that nobody wants any more slow it down
			if err := begin(); err != nil {
				return nil, err
			}
		}
		have := slices.Clone(n.rate)
		for i := range pipes {
			if pipes[i].demand == k {
				continue
			}
			for _, u := range pipes[i].use {
				have[u.capacity] -= u.times * m.rate(columns[i])
			}
		}
		for c := range have {
			if have[c] < 1e-6*n.rate[c] {
				have[c] = 0
			}
		}
		fresh := again(k, have)
		gains := false
		for i := range fresh {
			gains = gains || objective(&fresh[i])-fresh[i].cost(m.price) > 1e-7
		}
		if !gains {
			continue
		}
		var nextPipes []pipe
		var next []int32
		var old []int
		for i := range pipes {
			if pipes[i].demand == k {
				old = append(old, i)
				m.prog.Cost[columns[i]] = -1
			} else {
				nextPipes, next = append(nextPipes, pipes[i]), append(next, columns[i])
			}
		}
		for i := range fresh {
			nextPipes, next = append(nextPipes, fresh[i]), append(next, m.add(objective(&fresh[i]), fresh[i].use))
		}
		sol, price := m.sol, slices.Clone(m.price)
		value, err := m.solve()
		if err != nil {
			return nil, err
		}
		if value > total*(1+1e-6) {
			pipes, columns, total, idle = nextPipes, next, value, 0
			kept = solver.Keep()
			continue
		}
		for i := range fresh {
			m.prog.Cost[next[len(next)-len(fresh)+i]] = -1
		}
		for _, i := range old {
			m.prog.Cost[columns[i]] = objective(&pipes[i])
		}
		m.sol, m.price = sol, price
		solver.Back(kept)
	}
	return pipes, nil
}
