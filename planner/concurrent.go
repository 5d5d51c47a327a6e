package planner

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/freshet/freshet/internal/lp"
)

// concurrent finds the largest rate that all pairs can have at once, theta, which is the maximum concurrent flow (Shahrokhi and Matula 1990) of
// pipelines: the most of a program whose columns are sets of pipelines that serve all destinations of a transfer. Its bound is what all capacities cost at the
// prices, divided by what the cheapest sets cost (A. A. Farley 1990). After a change it goes on from where it was.
//
// The sets that are looked for first serve each destination once. On trees none is cheaper; elsewhere one that has some of them in several pipelines
// may be (cover), and such sets come when the others have come to an end below what is proved.
type concurrent struct {
	net     *Network
	demands []demand
	master  *master
	pricer  *pricer
	rows    []int32         // by demand; -1: it has no destinations
	sets    [][]pipe        // by column; the first column is theta
	shares  [][]float64     // by column, of what the set has: what each of its pipelines has; nil: all of it
	of      []int           // by column: the demand; -1: none
	known   map[string]bool // sets, by the names of their pipelines, and shares
	rates   []float64       // by column, of the last solution; one that came later has none
	theta   float64         // that the sets reach
	bound   float64         // that it is below
	near    float64         // the share of the bound that may be missing
	mark    float64         // theta when it was last much better than before
	slow    int             // rounds since
}

func (n *Network) concurrent(demands []demand, begin []pipe) *concurrent {
	c := &concurrent{net: n, master: n.master(slices.Clone(n.rate), &lp.Simplex{Seed: 2, Enough: n.enough}), near: 1e-7, known: map[string]bool{}}
	c.pricer = &pricer{net: n, price: c.master.price}
	c.master.prog.Column(1)
	c.nobody()
	c.change(demands, begin)
	return c
}

// change takes up that transfers have come, begin among their pipelines, or gone, which have no destinations any more; and that rates are others.
func (c *concurrent) change(demands []demand, begin []pipe) {
	c.demands, c.theta, c.mark, c.slow = demands, 0, 0, 0
	fresh := make([]bool, len(demands))
	for k := range demands {
		if k == len(c.rows) {
			c.rows = append(c.rows, -1)
		}
		switch {
		case len(demands[k].dests) > 0 && c.rows[k] < 0:
			c.rows[k] = c.master.prog.Row(0, lp.Entry{At: 0, Value: 1})
			fresh[k] = true
		case len(demands[k].dests) == 0 && c.rows[k] >= 0: // what is wanted of it comes from nowhere
			c.master.prog.Column(0, lp.Entry{At: c.rows[k], Value: -1})
			c.nobody()
			c.rows[k] = -1
			for j, k2 := range c.of {
				if k2 == k {
					c.of[j] = -1
				}
			}
		}
	}
	// Nobody can have more than what comes to a host, shared by those that want it.
	wanted := make(map[int32]int)
	for k := range demands {
		for _, h := range demands[k].dests {
			wanted[h]++
		}
	}
	c.bound = math.Inf(1)
	for h, times := range wanted {
		c.bound = min(c.bound, c.net.brings(h)/float64(times))
	}
	c.clip()
	by := make([][]pipe, len(demands))
	for _, p := range begin {
		by[p.demand] = append(by[p.demand], p)
	}
	for k, set := range by {
		if fresh[k] && len(set) > 0 && c.serves(k, set) {
			c.add(k, set, nil)
		}
	}
}

// clip makes what capacities have twice what all pairs at the bound can use of them at most, and the largest of that the unit of the program: beside much more theta would be
// rounding. Each byte comes to a destination by a way that crosses a capacity once, or twice if it is half-duplex.
func (c *concurrent) clip() {
	most := math.Inf(1)
	if !math.IsInf(c.bound, 1) && c.bound > 0 {
		pairs := 0
		for k := range c.demands {
			pairs += len(c.demands[k].dests)
		}
		most = 4 * c.bound * float64(pairs)
	}
	m := c.master
	m.unit = 0
	for cap, r := range c.net.rate {
		m.have[cap] = min(r, most)
		m.unit = max(m.unit, m.have[cap])
	}
	if m.unit == 0 {
		m.unit = 1
	}
	for cap, r := range m.row {
		if r >= 0 {
			m.prog.B[r] = m.have[cap] / m.unit
		}
	}
}

// nobody notes a column that is no set: it keeps sets, shares and of parallel to the columns.
func (c *concurrent) nobody() {
	c.sets, c.shares, c.of = append(c.sets, nil), append(c.shares, nil), append(c.of, -1)
}

// serves says whether a set serves all destinations.
func (c *concurrent) serves(k int, set []pipe) bool {
	served := map[int32]bool{}
	for i := range set {
		for _, h := range set[i].hosts[1:] {
			served[h] = true
		}
	}
	return len(served) == len(c.demands[k].dests)
}

// add takes a set with these shares, unless it is there.
func (c *concurrent) add(k int, set []pipe, shares []float64) bool {
	share := func(i int) float64 {
		if shares == nil {
			return 1
		}
		return shares[i]
	}
	var names strings.Builder
	for i := range set {
		names.WriteRune(rune(len(set[i].hosts)))
		names.WriteString(name(&set[i]))
		fmt.Fprintf(&names, "%.9f", share(i))
	}
	if c.known[names.String()] {
		return false
	}
	c.known[names.String()] = true
	total := map[int32]float64{}
	for i := range set {
		for _, u := range set[i].use {
			total[u.capacity] += share(i) * u.times
		}
	}
	var uses []use
	for cap, times := range total {
		uses = append(uses, use{cap, times})
	}
	slices.SortFunc(uses, func(a, b use) int { return int(a.capacity - b.capacity) })
	c.master.add(0, uses, lp.Entry{At: c.rows[k], Value: -1})
	c.sets, c.shares, c.of = append(c.sets, set), append(c.shares, shares), append(c.of, k)
	return true
}

// round solves, and adds the cheapest set of each transfer. It says whether there is more to gain.
func (c *concurrent) round() (more bool, err error) {
	if _, err := c.master.solve(); err != nil {
		return false, err
	}
	c.rates = c.master.fitted()
	if c.master.sol.Early { // perhaps before each transfer has something
		if even := c.even(); c.least(even) > c.least(c.rates) {
			c.rates = even
		}
		c.theta = c.least(c.rates)
		return true, nil
	}
	c.theta = c.least(c.rates)
	has := make([]bool, len(c.demands))
	for _, k := range c.of {
		if k >= 0 {
			has[k] = true
		}
	}
	dual := 0.0
	for cap, r := range c.master.row {
		if r >= 0 {
			dual += c.master.price[cap] * c.master.have[cap]
		}
	}
	cost, all, certain := 0.0, true, true
	least := make([]float64, len(c.demands))
	spare := make([]bool, len(c.demands)) // a set may be cheaper that serves some destinations more than once
	for k := range c.demands {
		d := &c.demands[k]
		if len(d.dests) == 0 {
			continue
		}
		if d.sub == nil && d.legs == nil { // it keeps the set that it began with
			all, certain = all && has[k], false
			continue
		}
		var set []pipe
		var spent float64
		set, spent, least[k] = c.cheapest(k)
		cost += least[k]
		certain = certain && d.certain()
		if !c.serves(k, set) {
			all = false
			continue
		}
		spare[k] = least[k] < spent*(1-1e-9) && len(d.dests) <= mostCovered
		if (!has[k] || spent < c.master.sol.Y[c.rows[k]]-1e-9) && c.add(k, set, nil) {
			more = true
		}
	}
	if cost > 0 {
		c.bound = min(c.bound, dual/cost)
	}
	if math.IsInf(c.theta, 1) || !all {
		return false, nil
	}
	if c.theta > c.mark*(1+3e-3) {
		c.mark, c.slow = c.theta, 0
	} else if c.slow++; c.slow > 4 && !certain {
		more = false // sets that are only cheap come to an end slowly
	}
	if !more && c.theta < c.bound*(1-c.near) && (certain || c.slow <= 8) {
		for k := range c.demands {
			if spare[k] {
				set, shares, spent, now := c.covered(k)
				cost += max(now-least[k], 0)
				if spent < c.master.sol.Y[c.rows[k]]-1e-9 && c.add(k, set, shares) {
					more = true
				}
			}
		}
		if cost > 0 {
			c.bound = min(c.bound, dual/cost)
		}
	}
	return more && c.theta < c.bound*(1-c.near), nil
}

// covered is the cheapest set of pipelines that serves all of a transfer if destinations may be in several, with the share of each, and what it costs at the
// prices; no set costs less than least.
func (c *concurrent) covered(k int) (set []pipe, shares []float64, cost, least float64) {
	d := &c.demands[k]
	if !c.pricer.legCosts.of(d.legs, c.master.price) {
		return nil, nil, math.Inf(1), 0
	}
	all, least := c.pricer.cover(&c.pricer.legCosts, d.certain())
	for i, row := range all.rows {
		p, _ := c.net.pipe(k, d.legs.walk(&c.pricer.legCosts, row)) // of ways that there are
		set, shares = append(set, p), append(shares, all.shares[i])
	}
	return set, shares, all.cost, least
}

// got is what the sets of each demand bring at these rates.
func (c *concurrent) got(rates []float64) []float64 {
	got := make([]float64, len(c.demands))
	for j, r := range rates {
		if k := c.of[j]; k >= 0 {
			got[k] += r
		}
	}
	return got
}

// least is what all have at these rates; infinite if there is nobody.
func (c *concurrent) least(rates []float64) float64 {
	least := math.Inf(1)
	for k, v := range c.got(rates) {
		if len(c.demands[k].dests) > 0 {
			least = min(least, v)
		}
	}
	return least
}

// even are rates, by column, at which the first set of each demand brings the same, as much as there is.
func (c *concurrent) even() []float64 {
	rates, load := make([]float64, len(c.sets)), make([]float64, len(c.master.prog.B))
	has := make([]bool, len(c.demands))
	for j, k := range c.of {
		if k >= 0 && !has[k] {
			has[k], rates[j] = true, 1
			for _, e := range c.master.prog.Entries(int32(j)) {
				load[e.At] += e.Value
			}
		}
	}
	share := math.Inf(1)
	for capacity, r := range c.master.row {
		if r >= 0 && load[r] > 0 {
			share = min(share, c.master.have[capacity]/load[r])
		}
	}
	for j := range rates {
		if rates[j] > 0 {
			rates[j] = share
		}
	}
	return rates
}

// cheapest is a set of pipelines that serves all of a transfer, and what it costs at the prices; no set costs less than least.
func (c *concurrent) cheapest(k int) (set []pipe, cost, least float64) {
	d := &c.demands[k]
	all := 1.0
	for _, p := range c.master.price {
		if p < dear {
			all += p
		}
	}
	all *= 10
	value := make([]float64, len(d.dests))
	if d.sub != nil {
		value = make([]float64, len(d.sub.place))
	}
	for i := range value {
		value[i] = all
	}
	walks, _ := c.pricer.of(d, value, true)
	for _, w := range walks {
		p, ok := c.net.pipe(k, w)
		if !ok {
			continue
		}
		cost += p.cost(c.master.price)
		set = append(set, p)
	}
	whole := c.serves(k, set)
	if d.sub != nil && whole {
		return set, cost, cost
	}
	if d.legs == nil {
		return set, cost, 0
	}
	c.pricer.legCosts.of(d.legs, c.master.price)
	for i := range value {
		value[i] = all * float64(len(d.dests))
	}
	_, least = dualAscent(&c.pricer.legCosts, 1, value)
	if !whole {
		// Where routes are odd, no destination may be able to go on to all that only destinations can reach: then some are in several pipelines.
		served := make([]bool, len(d.dests))
		for i := range set {
			for _, h := range set[i].hosts[1:] {
				served[slices.Index(d.dests, h)] = true
			}
		}
		for _, row := range c.pricer.legCosts.cheapestWays() {
			if served[row[len(row)-1]] {
				continue
			}
			for _, i := range row {
				served[i] = true
			}
			if p, ok := c.net.pipe(k, d.legs.walk(&c.pricer.legCosts, row)); ok {
				cost += p.cost(c.master.price)
				set = append(set, p)
			}
		}
	}
	return set, cost, least
}

// cheapestWays are for each destination the cheapest pipeline that ends there, those with most destinations first. O(destinations³) at most.
func (t *legCosts) cheapestWays() (rows [][]int32) {
	cost, before := slices.Clone(t.enter), make([]int32, t.n)
	for d := range before {
		before[d] = root
	}
	for better := true; better; {
		better = false
		for b := range t.n {
			for a := range t.n {
				if v := cost[a] + t.leg[b*t.n+a]; v < cost[b]-1e-12 {
					cost[b], before[b], better = v, int32(a), true
				}
			}
		}
	}
	for d := range t.n {
		if cost[d] < dear {
			var row []int32
			for at := int32(d); at >= 0; at = before[at] {
				row = append(row, at)
			}
			slices.Reverse(row)
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b []int32) int { return len(b) - len(a) })
	return rows
}

// plan are pipelines that give every pair this rate, at most theta, together.
func (c *concurrent) plan(rate float64) (pipes []pipe, rates []float64) {
	got := c.got(c.rates)
	for j, r := range c.rates {
		k := c.of[j]
		if k < 0 || r <= 1e-12*got[k] {
			continue
		}
		for i, p := range c.sets[j] {
			share := 1.0
			if c.shares[j] != nil {
				share = c.shares[j][i]
			}
			pipes, rates = append(pipes, p), append(rates, r*rate/got[k]*share)
		}
	}
	return pipes, rates
}
