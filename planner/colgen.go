package planner

import (
	"slices"

	"github.com/freshet/freshet/internal/lp"
)

// colgen finds the optimum over all pipelines of all transfers by column generation (Dantzig and Wolfe 1960): it solves
// the linear program of some pipelines, the restricted master problem (master.go), asks at its prices for pipelines that are worth
// more than they cost, adds them, and solves again, until there are none.
//
// On trees that question is answered exactly (pricer.best), and elsewhere for transfers of few destinations (pricer.heldKarp); so the prices
// prove a bound at every step, the Lagrangian one: what capacities cost at them, and what pipelines may still gain. For larger ones it is answered
// greedily, and the bound is one that even trees of copies, instead of pipelines, would not exceed (dualAscent). Prices times a factor prove one as well (A. A. Farley 1990).
type colgen struct {
	net     *Network
	demands []demand
	weight  []float64 // by demand: of a byte per second at one destination; 0: it is there for floors alone
	gone    []bool    // by demand: it has been taken out
	master  *master
	pdhg    *lp.PDHG    // what solves the program at first, see roundPDHG; nil: it is exact from now on
	had     lp.Solution // the last one before a change
	pricer  *pricer
	pipes   []pipe           // by column
	at      map[string]int32 // column by demand and hosts
	columns []int32          // of the program, by pipe

	floor     float64          // bytes per second that every pair is to have; 0: none
	floors    map[member]int32 // rows of pairs that would not have it by themselves
	floorRows []floorRow       // the same, in the order in which they came
	classRows []classRow

	bound  float64 // the best proved so far, bytes per second
	by     string  // how
	free   float64 // the same for the whole network without floors
	freeBy string
	value  float64 // of the last solution
	mark   float64 // the value when it was last much better than before; with PDHG, when it or the bound was
	low    float64 // the bound then
	slow   int     // rounds since
	rounds int     // rounds in all
}

// member is a destination of a demand.
type member struct {
	demand int
	host   int32
}

// floorRow is the row of a pair with a floor of its own.
type floorRow struct {
	member
	row, missed int32 // of the program; the column is what the pair lacks
}

// margin is by how much floors are higher in the program than they are, as a share, so that rounding does not miss them.
const margin = 1e-6

// classRow is what a class of transfers has reached, as a row that those after it must hold.
type classRow struct {
	row, missed int32
	weight      []float64 // by demand: the share of what was reached that a byte per second at one destination is, in units of the program
}

// colgen begins with these pipelines. weight is by demand, have by capacity what may be used of it, in bytes per second.
func (n *Network) colgen(demands []demand, weight []float64, have []float64, begin []pipe) *colgen {
	g := &colgen{
		net: n, demands: demands, weight: weight, gone: make([]bool, len(demands)), at: map[string]int32{}, floors: map[member]int32{},
		master: n.master(have, &lp.Simplex{Seed: 1, Enough: n.enough}),
	}
	g.pricer = &pricer{net: n, price: g.master.price}
	if g.pairs() >= pdhgFrom {
		g.pdhg = &lp.PDHG{Steps: pdhgSteps}
	}
	g.anew()
	for i := range begin {
		g.take(begin[i])
	}
	return g
}

// anew forgets what was proved.
func (g *colgen) anew() {
	g.bound, g.by = g.access(), "downlinks"
	g.free, g.freeBy = g.bound, g.by
	g.value, g.mark, g.low, g.slow, g.rounds = 0, 0, g.bound, 0, 0
}

// access is what the destinations' own links let in at most.
func (g *colgen) access() (sum float64) {
	most := map[int32]float64{}
	for k := range g.demands {
		for _, d := range g.demands[k].dests {
			most[d] = max(most[d], g.weight[k])
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
func (g *colgen) take(p pipe) bool {
	if _, known := g.at[name(&p)]; known || g.gone[p.demand] {
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
	for _, r := range g.classRows {
		if w := r.weight[p.demand]; w > 0 {
			more = append(more, lp.Entry{At: r.row, Value: -w * float64(p.served())})
		}
	}
	g.at[name(&p)] = int32(len(g.pipes))
	g.columns = append(g.columns, g.master.add(g.weight[p.demand]*float64(p.served()), p.use, more...))
	g.pipes = append(g.pipes, p)
	return true
}

// solve solves the program of the pipes that there are.
func (g *colgen) solve() error {
	value, err := g.master.solve()
	g.value = value
	return err
}

// rates are the last solution's, by pipe. What is gone has none, also where exchanges ended before they had taken it out.
func (g *colgen) rates() []float64 {
	r := make([]float64, len(g.pipes))
	for i, c := range g.columns {
		if !g.gone[g.pipes[i].demand] {
			r[i] = g.master.rate(c)
		}
	}
	return r
}

// valueOf a destination is its weight, and the prices of the floor under it and of what classes before have reached.
func (g *colgen) valueOf(k int, h int32) float64 {
	v := g.weight[k]
	if row, ok := g.floors[member{k, h}]; ok {
		v += g.master.sol.Y[row]
	}
	for _, r := range g.classRows {
		v += r.weight[k] * g.master.sol.Y[r.row]
	}
	return v
}

// values are those of all destinations of a demand, as its pricing wants them, each lower by less. some says whether there is any.
func (g *colgen) values(k int, less float64) (v []float64, some bool) {
	d := &g.demands[k]
	if d.sub == nil {
		v = make([]float64, len(d.dests))
		for i, h := range d.dests {
			v[i] = g.valueOf(k, h)
			some = some || v[i] > leastGain
			v[i] -= less
		}
		return v, some
	}
	v = make([]float64, len(d.sub.place))
	for i, h := range d.sub.place {
		if d.sub.kind[i] == dest {
			v[i] = g.valueOf(k, h)
			some = some || v[i] > leastGain
			v[i] -= less
		}
	}
	return v, some
}

// leastGain is what a pipeline must be worth more than it costs, to be worth a column.
const leastGain = 1e-7

// certain says whether pricing knows of nothing better for d.
func (d *demand) certain() bool { return d.sub != nil || d.legs == nil || d.legs.certain() }

// price adds pipelines that are worth more than they cost, of each transfer the best set, and proves a bound: at once where pricing is
// exact, else now and then, or if it adds none, and when last is set. It says how many it has added.
func (g *colgen) price(last bool) (added int) {
	raise := make([]float64, g.net.hosts)
	charged := g.charged() // before the program grows
	greedy, unpriced := false, false
	values := make([][]float64, len(g.demands)) // of those that are priced greedily
	for k := range g.demands {
		d := &g.demands[k]
		if g.gone[k] || len(d.dests) == 0 {
			continue
		}
		all, some := g.values(k, 0)
		if !some || d.sub == nil && d.legs == nil { // no destination is worth more than leastGain, or the transfer is not priced: at no value at all no pipeline gains
			for _, h := range d.dests {
				raise[h] = max(raise[h], g.valueOf(k, h))
			}
			unpriced = unpriced || some
			continue
		}
		if !d.certain() {
			greedy = true
			values[k] = all
			walks, _ := g.pricer.over(d.legs, all, false)
			n, _ := g.offer(k, walks)
			added += n
			continue
		}
		// By how much the value of each destination must fall for no pipeline to gain: Dinkelbach's method, each step exact.
		less := 0.0
		for try := 0; ; try++ {
			if try > 0 {
				all, _ = g.values(k, less)
			}
			walks, profit := g.pricer.of(d, all, false)
			if profit <= leastGain {
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
	g.rounds++
	by := "pipelines"
	switch {
	case unpriced: // whose destinations are charged for all that comes in over their own links
		by = "downlinks"
	case greedy:
		by = "arborescences"
	}
	switch {
	case !greedy:
		g.tighten(1, charged, raise, by)
	case last || added == 0 || g.rounds%8 == 1:
		g.loosely(charged, raise, values, by)
	}
	return added
}

// of is best or over, whichever the demand is for.
func (p *pricer) of(d *demand, value []float64, all bool) (walks [][]int32, profit float64) {
	if d.sub != nil {
		return p.best(d.sub, value)
	}
	return p.over(d.legs, value, all)
}

// charges are what rows cost at the prices, in bytes per second.
type charges struct {
	capacity float64 // all capacities that the program has
	rest     float64 // floors and classes, which are negative: what is paid for them
	whole    float64 // the capacities of the whole network
}

func (g *colgen) charged() (c charges) {
	paid := func(row int32) float64 { return g.master.prog.B[row] * g.master.sol.Y[row] * g.master.unit }
	for k, r := range g.master.row {
		if r >= 0 {
			c.whole += g.net.rate[k] * g.master.price[k]
			c.capacity += paid(r)
		}
	}
	for _, h := range g.floorRows {
		if !g.gone[h.demand] { // what is proved is of plans that hold the floor, without the margin
			c.rest += paid(h.row) + margin*g.floor*g.master.sol.Y[h.row]
		}
	}
	for _, r := range g.classRows {
		c.rest += paid(r.row)
	}
	return c
}

// tighten takes the bound of prices times factor where it is lower than the one before. Nothing gains at these any more if values fall by raise: by host, and the
// hosts' own links are charged for it.
func (g *colgen) tighten(factor float64, c charges, raise []float64, by string) {
	raised := 0.0
	for h, r := range raise {
		if r > 0 {
			raised += r * g.net.brings(int32(h))
		}
	}
	if sum := factor*c.capacity + c.rest + raised; sum < g.bound {
		g.bound, g.by = sum, by
	}
	if sum := factor*c.whole + raised; sum < g.free { // floors make destinations dearer, not cheaper
		g.free, g.freeBy = sum, by
	}
}

// gains are walks as pipes, those that gain something at the prices, and the most that one gains for each of its destinations.
func (g *colgen) gains(k int, walks [][]int32) (gain []pipe, most float64) {
	for _, w := range walks {
		p, ok := g.net.pipe(k, w)
		if !ok {
			continue
		}
		v := -p.cost(g.master.price)
		for _, h := range w[1:] {
			v += g.valueOf(k, h)
		}
		most = max(most, v/float64(p.served()))
		if v > leastGain {
			gain = append(gain, p)
		}
	}
	return gain, most
}

// offer takes those of the walks that gain something.
func (g *colgen) offer(k int, walks [][]int32) (added int, most float64) {
	gain, most := g.gains(k, walks)
	for _, p := range gain {
		if g.take(p) {
			added++
		}
	}
	return added, most
}

// loosely proves a bound where some transfers are priced greedily, those that have values. raise is by host what the others' destinations
// must fall by, and by what is proved then. All prices times a factor are as good: a little dearer, fewer destinations gain.
func (g *colgen) loosely(c charges, raise []float64, values [][]float64, by string) {
	for _, factor := range []float64{1, 1.003, 1.01, 1.03, 1.1, 1.3, 2} {
		raised := slices.Clone(raise) // what is dear enough at these prices is so at higher ones
		for k := range g.demands {
			if values[k] == nil {
				continue
			}
			d := &g.demands[k]
			g.pricer.legCosts.of(d.legs, g.master.price)
			rest, _ := dualAscent(&g.pricer.legCosts, factor, values[k])
			for i, h := range d.dests {
				raised[h] = max(raised[h], rest[i])
			}
		}
		g.tighten(factor, c, raised, by)
	}
}

// setFloor sets the floor, also that of the pairs that have a row.
func (g *colgen) setFloor(floor float64) {
	g.floor = floor
	for _, h := range g.floorRows {
		if !g.gone[h.demand] {
			g.master.prog.B[h.row] = -floor * (1 + margin) / g.master.unit
		}
	}
}

// settle makes what has been reached a row, so that all that comes after has no less of it, and goes on to what counts next.
func (g *colgen) settle(weight []float64) {
	reached := 0.0 // in units of the program
	rates := g.rates()
	for i := range g.pipes {
		reached += rates[i] / g.master.unit * g.weight[g.pipes[i].demand] * float64(g.pipes[i].served())
	}
	if reached > 0 {
		r := classRow{weight: make([]float64, len(g.weight))}
		for k, w := range g.weight {
			r.weight[k] = w / reached
		}
		var entries []lp.Entry
		for i := range g.pipes {
			if w := r.weight[g.pipes[i].demand]; w > 0 {
				entries = append(entries, lp.Entry{At: g.columns[i], Value: w * float64(g.pipes[i].served())})
			}
		}
		// Some millionths less than all of it: rounding must not make it impossible. Each class after it gets some of its own.
		const slack = 2e-6
		for i := range g.classRows {
			g.master.prog.B[g.classRows[i].row] = -(1 - slack*float64(len(g.classRows)-i+1))
		}
		r.row, r.missed = g.master.prog.Floor(1-slack, penalty*max(1, reached), entries...)
		g.classRows = append(g.classRows, r)
	}
	g.weight = weight
	for i := range g.pipes {
		g.master.prog.Cost[g.columns[i]] = weight[g.pipes[i].demand] * float64(g.pipes[i].served())
	}
	g.anew()
}

// change takes up that transfers have come and gone, and rates have changed to others that are not 0. Those that have gone leave their columns behind,
// which cost now, and their floors, which may be missed.
func (g *colgen) change(demands []demand, live []bool) {
	g.demands = demands
	for k := len(g.weight); k < len(demands); k++ {
		g.weight, g.gone = append(g.weight, 1), append(g.gone, false)
	}
	for i, p := range g.pipes {
		if !g.gone[p.demand] && !live[p.demand] {
			g.master.prog.Cost[g.columns[i]] = -1
		}
	}
	for _, h := range g.floorRows {
		if !live[h.demand] {
			g.master.prog.Cost[h.missed] = 0
		}
	}
	for k := range g.weight {
		if !live[k] {
			g.weight[k], g.gone[k] = 0, true
		}
	}
	g.master.have = g.net.rate // floors that were taken off are no more, for rows that come later either
	for c, r := range g.master.row {
		if r >= 0 {
			g.master.prog.B[r] = g.net.rate[c] / g.master.unit
		}
	}
	g.anew()
	if g.solved() {
		g.had = g.master.sol
	}
	g.master.sol = lp.Solution{}
	if g.pdhg = nil; g.pairs() >= pdhgFrom {
		g.pdhg = g.warmPDHG()
	}
}

// pairs is how many pairs of a transfer and a destination there are.
func (g *colgen) pairs() (n int) {
	for k := range g.demands {
		n += len(g.demands[k].dests)
	}
	return n
}

// warmPDHG goes on from the last solution before a change, without what has gone since.
func (g *colgen) warmPDHG() *lp.PDHG {
	had := slices.Clone(g.had.X)
	for i, c := range g.columns {
		if g.gone[g.pipes[i].demand] && int(c) < len(had) {
			had[c] = 0
		}
	}
	pdhg := &lp.PDHG{Steps: pdhgSteps}
	pdhg.Begin(g.master.prog, had, g.had.Y)
	return pdhg
}

// copied is a column generation with the pipelines that g uses, on all of the network, without floors.
func (g *colgen) copied(weight []float64) *colgen {
	var begin []pipe
	for i, r := range g.rates() {
		if r > 0 {
			begin = append(begin, g.pipes[i])
		}
	}
	c := g.net.colgen(g.demands, weight, g.net.rate, begin)
	if c.pdhg != nil { // from where g was
		x, y := make([]float64, len(c.master.prog.Cost)), make([]float64, len(c.master.prog.B))
		for i := range c.pipes {
			x[c.columns[i]] = g.master.rate(g.columns[g.at[name(&c.pipes[i])]]) / c.master.unit
		}
		for k, r := range c.master.row {
			if r >= 0 {
				y[r] = g.master.price[k]
			}
		}
		c.pdhg.Begin(c.master.prog, x, y)
	}
	return c
}

// solved says whether there are rates to speak of.
func (g *colgen) solved() bool { return len(g.master.sol.X) > 0 }

// greedy says whether some transfer is priced greedily.
func (g *colgen) greedy() bool {
	for k := range g.demands {
		if !g.gone[k] && !g.demands[k].certain() {
			return true
		}
	}
	return false
}

// secure gives every pair that has less than the floor a row of its own. It says how many.
func (g *colgen) secure() (added int) {
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
			if _, has := g.floors[m]; has || g.gone[k] || got[m] >= g.floor {
				continue
			}
			g.secured(m, g.floor*(1+margin), columns[m])
			added++
		}
	}
	return added
}

// secured gives a pair a row of its own.
func (g *colgen) secured(m member, floor float64, columns []lp.Entry) {
	row, missed := g.master.prog.Floor(floor/g.master.unit, penalty, columns...)
	g.floors[m] = row
	g.floorRows = append(g.floorRows, floorRow{m, row, missed})
}

// penalty is what a floor that is missed costs, in destinations: more than any link is ever worth.
const penalty = 1e5

// lacks is by how much floors that have rows are missed in the last solution.
func (g *colgen) lacks() (sum float64) {
	for _, h := range g.floorRows {
		if !g.gone[h.demand] {
			sum += g.master.rate(h.missed)
		}
	}
	return sum
}

// short is by how much a pair has less than the floor at most in the last solution, as far as it fits, whether it has a row or not.
func (g *colgen) short() (most float64) {
	if g.floor == 0 {
		return 0
	}
	rates := g.rates()
	g.net.fit(g.pipes, rates)
	got := arrivals(g.pipes, rates)
	for k := range g.demands {
		for _, h := range g.demands[k].dests {
			most = max(most, g.floor-got[member{k, h}])
		}
	}
	return most
}

// slips says whether a class has less in the last solution than it has reached before.
func (g *colgen) slips() bool {
	return slices.ContainsFunc(g.classRows, func(r classRow) bool { return g.master.rate(r.missed) > 1e-5*g.master.unit })
}
