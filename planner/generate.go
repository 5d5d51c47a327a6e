package planner

import (
	"math"
	"slices"

	"github.com/freshet/freshet/internal/lp"
)

// generation finds the optimum over all pipelines of all transfers by column generation: it solves
// the linear program of some pipelines, asks at its prices for pipelines that are worth
// more than they cost, adds them, and solves again, until there are none.
//
// On trees that question is answered exactly (pricer.best), and so the prices prove a bound
// at every step; elsewhere greedily (legs.best), and a weaker bound is proved (loosely).
type generation struct {
	net     *Network
	demands []demand
	worth   []float64 // by demand: of a byte per second at one destination; 0: not in this program
	market  *market
	pricer  *pricer
	pipes   []pipe           // by column
	at      map[string]int32 // column by demand and hosts
	columns []int32          // of the program, by pipe

	floor  float64          // bytes per second that every pair is to have; 0: none
	floors map[member]int32 // rows of pairs that would not have it by themselves
	missed map[member]int32 // columns of what they lack
	extra  []float64        // by place, while a transfer is priced

	bound float64 // the best proved so far, bytes per second
	by    string  // how
	free  float64 // the same for the whole network without floors
	value float64 // of the last solution
	mark  float64 // the value when it was last much better than before
	slow  int     // rounds since
}

// member is a destination of a demand.
type member struct {
	demand int
	host   int32
}

// generate begins with these pipelines.
func (n *Network) generate(demands []demand, worth []float64, have []float64, begin []pipe) *generation {
	g := &generation{
		net: n, demands: demands, worth: worth, at: map[string]int32{}, floors: map[member]int32{}, missed: map[member]int32{},
		market: n.market(have, &lp.Simplex{Seed: 1}), bound: math.Inf(1), extra: make([]float64, n.hosts),
	}
	g.pricer = &pricer{net: n, price: g.market.price}
	g.bound, g.by = g.access(), "downlinks"
	g.free = g.bound
	for i := range begin {
		g.take(begin[i])
	}
	return g
}

// access is what the destinations' own links let in at most.
func (g *generation) access() (sum float64) {
	most := map[int32]float64{}
	for k := range g.demands {
		for _, d := range g.demands[k].dests {
			most[d] = max(most[d], g.worth[k])
		}
	}
	for h := range int32(g.net.hosts) { // in one order, so that the sum is the same each time
		if w := most[h]; w > 0 {
			for _, c := range g.net.out[h] {
				sum += w * g.net.of(c^1)
			}
		}
	}
	return sum
}

// name is what a pipe is known by.
func name(p *pipe) string {
	b := make([]byte, 0, 4*len(p.hosts)+4)
	put := func(v int32) { b = append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24)) }
	put(int32(p.demand))
	for _, h := range p.hosts {
		put(h)
	}
	return string(b)
}

// take adds a pipe, unless it is there.
func (g *generation) take(p pipe) bool {
	if _, known := g.at[name(&p)]; known || g.worth[p.demand] == 0 {
		return false
	}
	var more []lp.Entry
	if len(g.floors) > 0 {
		for _, h := range p.hosts[1:] {
			if row, ok := g.floors[member{p.demand, h}]; ok {
				more = append(more, lp.Entry{At: row, Value: -1})
			}
		}
	}
	g.at[name(&p)] = int32(len(g.pipes))
	g.columns = append(g.columns, g.market.add(g.worth[p.demand]*float64(p.served()), p.use, more...))
	g.pipes = append(g.pipes, p)
	return true
}

// solve solves the program of the pipes that there are.
func (g *generation) solve() error {
	value, _, err := g.market.solve()
	g.value = value
	return err
}

// rates are the last solution's, by pipe.
func (g *generation) rates() []float64 {
	r := make([]float64, len(g.pipes))
	for i, c := range g.columns {
		r[i] = g.market.rate(c)
	}
	return r
}

// value of a destination: its worth, and the price of the floor under it.
func (g *generation) valueOf(k int, h int32) float64 {
	v := g.worth[k]
	if row, ok := g.floors[member{k, h}]; ok {
		v += g.market.sol.Y[row]
	}
	return v
}

// values are those of all destinations of a demand, as its pricing wants them, less a share of worth.
func (g *generation) values(k int, less float64) []float64 {
	d := &g.demands[k]
	if d.sub == nil {
		v := make([]float64, len(d.dests))
		for i, h := range d.dests {
			v[i] = g.valueOf(k, h) - less
		}
		return v
	}
	v := make([]float64, len(d.sub.place))
	for i, h := range d.sub.place {
		if d.sub.kind[i] == dest {
			v[i] = g.valueOf(k, h) - less
		}
	}
	return v
}

// least is what a pipeline must be worth more than it costs, to be worth a column.
const least = 1e-7

// price adds pipelines that are worth more than they cost, of each transfer the best set, and proves a bound. It says how many
// it has added.
func (g *generation) price() (added int) {
	raise := map[int32]float64{} // by host
	sum, whole := g.charged()    // before the program grows
	for k := range g.demands {
		d := &g.demands[k]
		if g.worth[k] == 0 || len(d.dests) == 0 {
			continue
		}
		if d.sub == nil {
			walks, _ := d.legs.best(g.market.price, g.values(k, 0), false)
			n, _ := g.offer(k, walks)
			added += n
			continue
		}
		// By how much the value of each destination must fall for no pipeline to gain: Dinkelbach's method, each step exact.
		less := 0.0
		for try := 0; ; try++ {
			walks, profit := g.pricer.best(d.sub, g.values(k, less))
			if profit <= least {
				less += max(profit, 0) // a pipeline gains less than all together, and has a destination at least
				break
			}
			n, most := 0, 0.0
			if try == 0 {
				n, most = g.offer(k, walks)
			} else {
				_, most = g.gains(k, walks)
			}
			added += n
			if try == 8 || most <= less+1e-12 {
				less += profit
				break
			}
			less = most
		}
		if less > 0 {
			for _, h := range d.dests {
				raise[h] = max(raise[h], less)
			}
		}
	}
	if g.net.tree {
		for h := range int32(g.net.hosts) {
			if r := raise[h]; r > 0 {
				sum += r * g.net.brings(h)
				whole += r * g.net.brings(h)
			}
		}
		if sum < g.bound {
			g.bound, g.by = sum, "pipelines"
		}
		g.free = min(g.free, whole) // floors make destinations dearer, not cheaper
	} else {
		g.loosely(sum, whole)
	}
	return added
}

// charged is what all capacity costs at the prices, less what floors are paid; and what the whole network would cost.
func (g *generation) charged() (sum, whole float64) {
	for i, b := range g.market.prog.B {
		sum += b * g.market.sol.Y[i]
	}
	for c, r := range g.market.row {
		if r >= 0 {
			whole += g.net.rate[c] * g.market.price[c]
		}
	}
	return sum * g.market.unit, whole
}

// gains are walks as pipes, those that gain something at the prices, and the most that one gains for each of its destinations.
func (g *generation) gains(k int, walks [][]int32) (gain []pipe, most float64) {
	for _, w := range walks {
		p, ok := g.net.pipe(k, w)
		if !ok {
			continue
		}
		v := 0.0
		for _, h := range w[1:] {
			v += g.valueOf(k, h)
		}
		for _, u := range p.use {
			v -= u.times * g.market.price[u.capacity]
		}
		most = max(most, v/float64(p.served()))
		if v > least {
			gain = append(gain, p)
		}
	}
	return gain, most
}

// offer takes those of the walks that gain something.
func (g *generation) offer(k int, walks [][]int32) (added int, most float64) {
	gain, most := g.gains(k, walks)
	for _, p := range gain {
		if g.take(p) {
			added++
		}
	}
	return added, most
}

// loosely proves a bound where pricing is not exact: every destination of a pipeline has a way by which its data
// comes, from one of the others or a source; so a pipeline costs at least the cheapest such ways of its destinations. What
// a destination is worth beyond that is charged to the host's own links.
func (g *generation) loosely(sum, whole float64) {
	type need struct{ value, cheapest float64 }
	needs := map[int32][]need{}
	for k := range g.demands {
		d := &g.demands[k]
		if g.worth[k] == 0 || len(d.dests) == 0 {
			continue
		}
		cost := d.legs.costs(g.market.price)
		for i, h := range d.dests {
			cheapest := math.Inf(1)
			for a := range d.legs.hosts {
				cheapest = min(cheapest, cost[a*len(d.dests)+i])
			}
			needs[h] = append(needs[h], need{g.valueOf(k, h), cheapest})
		}
	}
	// All prices times a factor are as good; the best factor is one at which some destination is just paid.
	for _, factor := range []float64{1, 0.95, 0.9, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2, 2.5, 3, 4, 6, 0.8, 0.5} {
		if len(g.floors) > 0 && factor != 1 {
			break // the prices of floors do not scale
		}
		raised := 0.0
		for h := range int32(g.net.hosts) {
			raise := 0.0
			for _, n := range needs[h] {
				raise = max(raise, n.value-factor*n.cheapest)
			}
			raised += raise * g.net.brings(h)
		}
		if total := factor*sum + raised; total < g.bound {
			g.bound, g.by = total, "cheapest ways"
		}
		g.free = min(g.free, factor*whole+raised)
	}
}

// raise sets the floor, also that of the pairs that have a row.
func (g *generation) raise(floor float64) {
	g.floor = floor
	for m, row := range g.floors {
		if g.worth[m.demand] > 0 {
			g.market.prog.B[row] = -floor * (1 + 1e-6) / g.market.unit
		}
	}
}

// change takes up that transfers have come and gone, and rates have changed to others that are not 0. Those that have gone leave their columns behind,
// which cost now, and their floors, which may be missed.
func (g *generation) change(demands []demand, live []bool) {
	g.demands = demands
	for k := len(g.worth); k < len(demands); k++ {
		g.worth = append(g.worth, 1)
	}
	for i, p := range g.pipes {
		if g.worth[p.demand] > 0 && !live[p.demand] {
			g.market.prog.Cost[g.columns[i]] = -1
		}
	}
	for m, j := range g.missed {
		if !live[m.demand] {
			g.market.prog.Cost[j] = 0
		}
	}
	for k := range g.worth {
		if !live[k] {
			g.worth[k] = 0
		}
	}
	for c, r := range g.market.row {
		if r >= 0 {
			g.market.prog.B[r] = g.net.rate[c] / g.market.unit
		}
	}
	g.bound, g.by, g.value, g.mark, g.slow = g.access(), "downlinks", 0, 0, 0
	g.free = g.bound
	g.market.sol = lp.Solution{}
}

// solved says whether there are rates to speak of.
func (g *generation) solved() bool { return len(g.market.sol.X) > 0 }

// secure gives every pair that has less than the floor a row of its own. It says how many.
func (g *generation) secure() (added int) {
	got := map[member]float64{}
	columns := map[member][]lp.Entry{}
	for i, r := range g.rates() {
		p := &g.pipes[i]
		for _, h := range p.hosts[1:] {
			got[member{p.demand, h}] += r
			columns[member{p.demand, h}] = append(columns[member{p.demand, h}], lp.Entry{At: g.columns[i], Value: 1})
		}
	}
	for k := range g.demands {
		for _, h := range g.demands[k].dests {
			m := member{k, h}
			if _, has := g.floors[m]; has || g.worth[k] == 0 || got[m] >= g.floor {
				continue
			}
			row, missed := g.market.prog.Floor(g.floor*(1+1e-6)/g.market.unit, penalty, columns[m]...)
			g.floors[m] = row
			g.missed[m] = missed
			added++
		}
	}
	return added
}

// penalty is what a floor that is missed costs, in destinations: more than any link is ever worth.
const penalty = 1e5

// lacks is by how much floors are missed in the last solution.
func (g *generation) lacks() (sum float64) {
	for m, j := range g.missed {
		if g.worth[m.demand] > 0 {
			sum += g.market.rate(j)
		}
	}
	return sum
}

// common finds the largest rate that all pairs can have at once, theta: the most of a program whose columns are
// sets of pipelines that serve all destinations of a transfer.
type common struct {
	net     *Network
	demands []demand
	market  *market
	pricer  *pricer
	rows    []int32  // by demand
	sets    [][]pipe // by column; the first column is theta
	of      []int
	theta   float64 // that the sets reach
	bound   float64 // that it is below
}

func (n *Network) common(demands []demand, begin []pipe) *common {
	c := &common{net: n, demands: demands, market: n.market(n.rate, &lp.Simplex{Seed: 2}), bound: math.Inf(1)}
	c.pricer = &pricer{net: n, price: c.market.price}
	var entries []lp.Entry
	for k := range demands {
		c.rows = append(c.rows, -1)
		if len(demands[k].dests) > 0 {
			c.rows[k] = c.market.prog.Row(0)
			entries = append(entries, lp.Entry{At: c.rows[k], Value: 1})
		}
	}
	c.market.prog.Column(1, entries...)
	c.sets, c.of = append(c.sets, nil), append(c.of, -1)
	// Nobody can have more than what comes to a host, shared by those that want it.
	wanted := make(map[int32]int)
	for k := range demands {
		for _, h := range demands[k].dests {
			wanted[h]++
		}
	}
	for h, times := range wanted {
		c.bound = min(c.bound, n.brings(h)/float64(times))
	}
	by := make([][]pipe, len(demands))
	for _, p := range begin {
		by[p.demand] = append(by[p.demand], p)
	}
	for k, set := range by {
		if len(set) > 0 {
			c.add(k, set)
		}
	}
	return c
}

func (c *common) add(k int, set []pipe) {
	total := map[int32]float64{}
	for i := range set {
		for _, u := range set[i].use {
			total[u.capacity] += u.times
		}
	}
	var uses []use
	for cap, times := range total {
		uses = append(uses, use{cap, times})
	}
	slices.SortFunc(uses, func(a, b use) int { return int(a.capacity - b.capacity) })
	c.market.add(0, uses, lp.Entry{At: c.rows[k], Value: -1})
	c.sets, c.of = append(c.sets, set), append(c.of, k)
}

// round solves, and adds the cheapest set of each transfer. It says whether there is more to gain.
func (c *common) round() (more bool, err error) {
	if _, _, err := c.market.solve(); err != nil {
		return false, err
	}
	got := make([]float64, len(c.demands))
	for j := 1; j < len(c.sets); j++ {
		got[c.of[j]] += c.market.rate(int32(j))
	}
	c.theta = math.Inf(1)
	worth := 0.0
	for cap, r := range c.market.row {
		if r >= 0 {
			worth += c.market.price[cap] * c.net.rate[cap]
		}
	}
	cost := 0.0
	for k := range c.demands {
		d := &c.demands[k]
		if len(d.dests) == 0 {
			continue
		}
		c.theta = min(c.theta, got[k])
		set, spent := c.cheapest(k)
		cost += spent
		if spent < c.market.sol.Y[c.rows[k]]-1e-9 {
			c.add(k, set)
			more = true
		}
	}
	if c.net.tree && cost > 0 { // elsewhere the cheapest set is only a cheap one
		c.bound = min(c.bound, worth/cost)
	}
	return more && c.theta < c.bound*(1-1e-7), nil
}

// cheapest is a set of pipelines that serves all of a transfer, and what it costs at the prices.
func (c *common) cheapest(k int) (set []pipe, cost float64) {
	d := &c.demands[k]
	all := 1.0
	for _, p := range c.market.price {
		if p < dear {
			all += p
		}
	}
	all *= 10
	var walks [][]int32
	if d.sub != nil {
		value := make([]float64, len(d.sub.place))
		for i := range value {
			value[i] = all
		}
		walks, _ = c.pricer.best(d.sub, value)
	} else {
		walks, _ = d.legs.best(c.market.price, make([]float64, len(d.dests)), true)
	}
	for _, w := range walks {
		p, _ := c.net.pipe(k, w)
		for _, u := range p.use {
			cost += u.times * c.market.price[u.capacity]
		}
		set = append(set, p)
	}
	return set, cost
}

// plan are pipelines that give every pair this rate, at most theta, together.
func (c *common) plan(rate float64) (pipes []pipe, rates []float64) {
	got := make([]float64, len(c.demands))
	for j := 1; j < len(c.sets); j++ {
		got[c.of[j]] += c.market.rate(int32(j))
	}
	for j := 1; j < len(c.sets); j++ {
		if r := c.market.rate(int32(j)); r > 1e-12*got[c.of[j]] {
			for _, p := range c.sets[j] {
				pipes, rates = append(pipes, p), append(rates, r*rate/got[c.of[j]])
			}
		}
	}
	return pipes, rates
}
