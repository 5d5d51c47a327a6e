package planner

import (
	"slices"

	"github.com/freshet/freshet/internal/lp"
)

// generation finds the optimum over all pipelines of all transfers by column generation: it solves
// the linear program of some pipelines, asks at its prices for pipelines that are worth
// more than they cost, adds them, and solves again, until there are none.
//
// On trees that question is answered exactly (pricer.best), and elsewhere for transfers of few destinations (pricer.surely); so the prices
// prove a bound at every step. For larger ones it is answered greedily, and the bound is one that even trees of
// copies, instead of pipelines, would not exceed (ascent).
type generation struct {
	net     *Network
	demands []demand
	worth   []float64 // by demand: of a byte per second at one destination; 0: it is there for floors alone
	gone    []bool    // by demand: it has been taken out
	market  *market
	glide   *lp.Glide   // what solves the program at first, see glides; nil: it is exact from now on
	had     lp.Solution // the last one before a change
	pricer  *pricer
	pipes   []pipe           // by column
	at      map[string]int32 // column by demand and hosts
	columns []int32          // of the program, by pipe

	floor  float64          // bytes per second that every pair is to have; 0: none
	floors map[member]int32 // rows of pairs that would not have it by themselves
	held   []held           // the same, in the order in which they came
	ranks  []rank

	bound  float64 // the best proved so far, bytes per second
	by     string  // how
	free   float64 // the same for the whole network without floors
	freeBy string
	value  float64 // of the last solution
	mark   float64 // the value when it was last much better than before, and while it glides
	low    float64 // the bound then
	slow   int     // rounds since
	turns  int     // rounds in all
}

// member is a destination of a demand.
type member struct {
	demand int
	host   int32
}

// held is a pair with a floor of its own.
type held struct {
	member
	row, missed int32 // of the program; the column is what the pair lacks
}

// margin is by how much floors are higher in the program than they are, as a share, so that rounding does not miss them.
const margin = 1e-6

// rank is what a class of transfers has reached, as a row that those after it must hold.
type rank struct {
	row, missed int32
	worth       []float64 // by demand: the share of what was reached that a byte per second at one destination is, in units of the program
}

// generate begins with these pipelines. worth is by demand, have by capacity what may be used of it, in bytes per second.
func (n *Network) generate(demands []demand, worth []float64, have []float64, begin []pipe) *generation {
	g := &generation{
		net: n, demands: demands, worth: worth, gone: make([]bool, len(demands)), at: map[string]int32{}, floors: map[member]int32{},
		market: n.market(have, &lp.Simplex{Seed: 1, Enough: n.enough}),
	}
	g.pricer = &pricer{net: n, price: g.market.price}
	if g.pairs() >= glidesFrom {
		g.glide = &lp.Glide{Steps: glideSteps}
	}
	g.anew()
	for i := range begin {
		g.take(begin[i])
	}
	return g
}

// anew forgets what was proved.
func (g *generation) anew() {
	g.bound, g.by = g.access(), "downlinks"
	g.free, g.freeBy = g.bound, g.by
	g.value, g.mark, g.low, g.slow, g.turns = 0, 0, g.bound, 0, 0
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
	for _, r := range g.ranks {
		if w := r.worth[p.demand]; w > 0 {
			more = append(more, lp.Entry{At: r.row, Value: -w * float64(p.served())})
		}
	}
	g.at[name(&p)] = int32(len(g.pipes))
	g.columns = append(g.columns, g.market.add(g.worth[p.demand]*float64(p.served()), p.use, more...))
	g.pipes = append(g.pipes, p)
	return true
}

// solve solves the program of the pipes that there are.
func (g *generation) solve() error {
	value, err := g.market.solve()
	g.value = value
	return err
}

// rates are the last solution's, by pipe. What is gone has none, also where exchanges ended before they had taken it out.
func (g *generation) rates() []float64 {
	r := make([]float64, len(g.pipes))
	for i, c := range g.columns {
		if !g.gone[g.pipes[i].demand] {
			r[i] = g.market.rate(c)
		}
	}
	return r
}

// valueOf a destination is its worth, and the prices of the floor under it and of what classes before have reached.
func (g *generation) valueOf(k int, h int32) float64 {
	v := g.worth[k]
	if row, ok := g.floors[member{k, h}]; ok {
		v += g.market.sol.Y[row]
	}
	for _, r := range g.ranks {
		v += r.worth[k] * g.market.sol.Y[r.row]
	}
	return v
}

// values are those of all destinations of a demand, as its pricing wants them, less a share of worth. some says whether there is any.
func (g *generation) values(k int, less float64) (v []float64, some bool) {
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
func (g *generation) price(last bool) (added int) {
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
	g.turns++
	by := "pipelines"
	switch {
	case unpriced: // whose destinations are charged for all that comes in over their own links
		by = "downlinks"
	case greedy:
		by = "arborescences"
	}
	switch {
	case !greedy:
		g.prove(1, charged, raise, by)
	case last || added == 0 || g.turns%8 == 1:
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
	rest     float64 // floors and ranks, which are negative: what is paid for them
	whole    float64 // the capacities of the whole network
}

func (g *generation) charged() (c charges) {
	paid := func(row int32) float64 { return g.market.prog.B[row] * g.market.sol.Y[row] * g.market.unit }
	for k, r := range g.market.row {
		if r >= 0 {
			c.whole += g.net.rate[k] * g.market.price[k]
			c.capacity += paid(r)
		}
	}
	for _, h := range g.held {
		if !g.gone[h.demand] { // what is proved is of plans that hold the floor, without the margin
			c.rest += paid(h.row) + margin*g.floor*g.market.sol.Y[h.row]
		}
	}
	for _, r := range g.ranks {
		c.rest += paid(r.row)
	}
	return c
}

// prove takes the bound of prices times factor at which nothing gains any more, if values fall by raise: by host, and the
// hosts' own links are charged for it.
func (g *generation) prove(factor float64, c charges, raise []float64, by string) {
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
func (g *generation) gains(k int, walks [][]int32) (gain []pipe, most float64) {
	for _, w := range walks {
		p, ok := g.net.pipe(k, w)
		if !ok {
			continue
		}
		v := -p.cost(g.market.price)
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
func (g *generation) offer(k int, walks [][]int32) (added int, most float64) {
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
func (g *generation) loosely(c charges, raise []float64, values [][]float64, by string) {
	for _, factor := range []float64{1, 1.003, 1.01, 1.03, 1.1, 1.3, 2} {
		raised := slices.Clone(raise) // what is dear enough at these prices is so at higher ones
		for k := range g.demands {
			if values[k] == nil {
				continue
			}
			d := &g.demands[k]
			g.pricer.tolls.of(d.legs, g.market.price)
			rest, _ := ascent(&g.pricer.tolls, factor, values[k])
			for i, h := range d.dests {
				raised[h] = max(raised[h], rest[i])
			}
		}
		g.prove(factor, c, raised, by)
	}
}

// raise sets the floor, also that of the pairs that have a row.
func (g *generation) raise(floor float64) {
	g.floor = floor
	for _, h := range g.held {
		if !g.gone[h.demand] {
			g.market.prog.B[h.row] = -floor * (1 + margin) / g.market.unit
		}
	}
}

// settle makes what has been reached a row, so that all that comes after has no less of it, and goes on to what counts next.
func (g *generation) settle(worth []float64) {
	reached := 0.0 // in units of the program
	rates := g.rates()
	for i := range g.pipes {
		reached += rates[i] / g.market.unit * g.worth[g.pipes[i].demand] * float64(g.pipes[i].served())
	}
	if reached > 0 {
		r := rank{worth: make([]float64, len(g.worth))}
		for k, w := range g.worth {
			r.worth[k] = w / reached
		}
		var entries []lp.Entry
		for i := range g.pipes {
			if w := r.worth[g.pipes[i].demand]; w > 0 {
				entries = append(entries, lp.Entry{At: g.columns[i], Value: w * float64(g.pipes[i].served())})
			}
		}
		// Some millionths less than all of it: rounding must not make it impossible. Each class after it gets some of its own.
		const slack = 2e-6
		for i := range g.ranks {
			g.market.prog.B[g.ranks[i].row] = -(1 - slack*float64(len(g.ranks)-i+1))
		}
		r.row, r.missed = g.market.prog.Floor(1-slack, penalty*max(1, reached), entries...)
		g.ranks = append(g.ranks, r)
	}
	g.worth = worth
	for i := range g.pipes {
		g.market.prog.Cost[g.columns[i]] = worth[g.pipes[i].demand] * float64(g.pipes[i].served())
	}
	g.anew()
}

// change takes up that transfers have come and gone, and rates have changed to others that are not 0. Those that have gone leave their columns behind,
// which cost now, and their floors, which may be missed.
func (g *generation) change(demands []demand, live []bool) {
	g.demands = demands
	for k := len(g.worth); k < len(demands); k++ {
		g.worth, g.gone = append(g.worth, 1), append(g.gone, false)
	}
	for i, p := range g.pipes {
		if !g.gone[p.demand] && !live[p.demand] {
			g.market.prog.Cost[g.columns[i]] = -1
		}
	}
	for _, h := range g.held {
		if !live[h.demand] {
			g.market.prog.Cost[h.missed] = 0
		}
	}
	for k := range g.worth {
		if !live[k] {
			g.worth[k], g.gone[k] = 0, true
		}
	}
	g.market.have = g.net.rate // floors that were taken off are no more, for rows that come later either
	for c, r := range g.market.row {
		if r >= 0 {
			g.market.prog.B[r] = g.net.rate[c] / g.market.unit
		}
	}
	g.anew()
	if g.solved() {
		g.had = g.market.sol
	}
	g.market.sol = lp.Solution{}
	if g.glide = nil; g.pairs() >= glidesFrom {
		g.glide = g.onwards()
	}
}

// pairs is how many pairs of a transfer and a destination there are.
func (g *generation) pairs() (n int) {
	for k := range g.demands {
		n += len(g.demands[k].dests)
	}
	return n
}

// onwards glides on from the last solution before a change, without what has gone since.
func (g *generation) onwards() *lp.Glide {
	had := slices.Clone(g.had.X)
	for i, c := range g.columns {
		if g.gone[g.pipes[i].demand] && int(c) < len(had) {
			had[c] = 0
		}
	}
	glide := &lp.Glide{Steps: glideSteps}
	glide.Begin(g.market.prog, had, g.had.Y)
	return glide
}

// copied is a generation with the pipelines that g uses, on all of the network, without floors.
func (g *generation) copied(worth []float64) *generation {
	var begin []pipe
	for i, r := range g.rates() {
		if r > 0 {
			begin = append(begin, g.pipes[i])
		}
	}
	c := g.net.generate(g.demands, worth, g.net.rate, begin)
	if c.glide != nil { // from where g was
		x, y := make([]float64, len(c.market.prog.Cost)), make([]float64, len(c.market.prog.B))
		for i := range c.pipes {
			x[c.columns[i]] = g.market.rate(g.columns[g.at[name(&c.pipes[i])]]) / c.market.unit
		}
		for k, r := range c.market.row {
			if r >= 0 {
				y[r] = g.market.price[k]
			}
		}
		c.glide.Begin(c.market.prog, x, y)
	}
	return c
}

// solved says whether there are rates to speak of.
func (g *generation) solved() bool { return len(g.market.sol.X) > 0 }

// greedy says whether some transfer is priced greedily.
func (g *generation) greedy() bool {
	for k := range g.demands {
		if !g.gone[k] && !g.demands[k].certain() {
			return true
		}
	}
	return false
}

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
func (g *generation) secured(m member, floor float64, columns []lp.Entry) {
	row, missed := g.market.prog.Floor(floor/g.market.unit, penalty, columns...)
	g.floors[m] = row
	g.held = append(g.held, held{m, row, missed})
}

// penalty is what a floor that is missed costs, in destinations: more than any link is ever worth.
const penalty = 1e5

// lacks is by how much floors that have rows are missed in the last solution.
func (g *generation) lacks() (sum float64) {
	for _, h := range g.held {
		if !g.gone[h.demand] {
			sum += g.market.rate(h.missed)
		}
	}
	return sum
}

// short is by how much a pair has less than the floor at most in the last solution, as far as it fits, whether it has a row or not.
func (g *generation) short() (most float64) {
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
func (g *generation) slips() bool {
	return slices.ContainsFunc(g.ranks, func(r rank) bool { return g.market.rate(r.missed) > 1e-5*g.market.unit })
}
