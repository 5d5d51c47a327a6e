package planner

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/freshet/freshet/internal/lp"
	"github.com/freshet/freshet/topo"
)

// The modes, from the plainest to the best.
const (
	Flat     = "flat"     // each destination from a source by chance, directly
	Random   = "random"   // from the source with the widest way, in pipelines in an order by chance
	Pipeline = "pipeline" // the paper's initial plan: the widest pipelines, each transfer by itself
	Paper    = "paper"    // that, and re-planned until nothing improves
	Exact    = "exact"    // the widest pipelines there are, each transfer by itself; trees only
	Single   = "single"   // one pipeline for each destination, rounded from the optimum
	Optimal  = "optimal"  // destinations take disjoint ranges from several pipelines
)

// Modes are all modes.
var Modes = []string{Flat, Random, Pipeline, Paper, Exact, Single, Optimal}

// Options are how a Planner plans. The zero value plans for throughput alone.
type Options struct {
	Mode   string  // empty: Optimal
	Floor  float64 // share, 0 to 1, of the largest rate that all pairs can have at once, that each is to have
	MaxMin bool    // fairness alone: rates rise together until links are full
	Seed   uint64  // of what Flat and Random draw

	Second lp.Solver // asked about a program where our own method fails; nil: that is an error

	// When planning may end before there is nothing to gain. A plan made so is the same each time, as one that ends with
	// a time is not.
	Gap  float64 // share of the bound that may be missing; 0: nothing on trees, a thousandth elsewhere, a hundredth where floors are of very many pairs
	Work int     // exchanges of the simplex method and columns, together; 0: any number

	Enough func() bool // asked now and then by Step, Plan and Finish, which end soon after it says so; nil: each goes on to its end
}

// Planner plans transfers on a network, and plans again when some come, some go, or
// a rate changes, from the pipelines that it has. It is not for concurrent use.
//
//	p.Add(…)
//	plan := p.First()                 // at once, without a linear program
//	for more := true; more; {         // each step better, and with a better bound
//		more, err = p.Step()
//	}
//	plan, err := p.Plan()
type Planner struct {
	net     *Network
	o       Options
	demands []demand // by transfer; one that is gone has no destinations
	live    []bool
	lost    []Unreachable
	given   []Transfer

	first   []pipe             // the widest pipelines of each transfer
	pool    []pipe             // what the last plan used
	had     map[string]float64 // by name, of those in pool: bytes per second
	theta   *concurrent
	share   float64 // bytes per second that each pair is to have
	floored *colgen // the optimum with floors
	free    *colgen // and without; the same as floored if there are none
	weighed *colgen // what is planned by, if that is not throughput of equal weights
	maxMin  *maxMin // and if it is fairness alone
	rest    []pipe  // pipelines that give the floor, where it is taken off the capacities of free beforehand
	rates   []float64
	proofs  []proof // of each class that has been planned
	stage   int
	known   bool              // rates are those of these transfers, see clip
	warm    bool              // the programs have been solved before, for other transfers or rates
	begun   bool              // the one with floors knows the floor
	early   bool              // and goes first
	spent   int               // work so far
	drawn   map[string][]pipe // by mode; Single's until the next step

	many      int // see manyPairs
	crossings int // see mostCrossed
	patience  int // see there
}

// manyPairs is from where on floors are taken off the capacities beforehand: that gives a plan soon. As
// rows of the program they follow if that plan is not near enough to the bound.
const manyPairs = 6000

// errNoTree is what is wrong with mode Exact elsewhere.
var errNoTree = errors.New("mode exact: the network is not a tree whose hosts have one link each; take optimal")

// New returns a planner for a network, without transfers. The network is this planner's alone from then on. An error names the option that is not as
// its field says, or is that Exact is for trees.
func New(net *Network, o Options) (*Planner, error) {
	if o.Mode == "" {
		o.Mode = Optimal
	}
	switch {
	case !slices.Contains(Modes, o.Mode):
		return nil, fmt.Errorf("mode %q: want %v", o.Mode, Modes)
	case !(o.Floor >= 0 && o.Floor <= 1):
		return nil, fmt.Errorf("floor %g: want a share from 0 to 1", o.Floor)
	case !(o.Gap >= 0 && o.Gap < 1):
		return nil, fmt.Errorf("gap %g: want a share from 0 to less than 1", o.Gap)
	case o.Work < 0:
		return nil, fmt.Errorf("work %d: want a number of exchanges, not negative", o.Work)
	case o.Mode == Exact && !net.tree:
		return nil, errNoTree
	}
	net.second, net.enough = o.Second, o.Enough
	return &Planner{net: net, o: o, many: manyPairs, crossings: mostCrossed, patience: patience}, nil
}

// Add adds a transfer and returns its number, under which plans have it: 0, 1, … in the order in which they come, whatever has gone. An error says what is
// wrong with it: its weight is out of range, it has no source, a place is not a host; or that planning would take gigabytes with it. Then nothing has changed. A destination that cannot be
// reached is no error; plans list it (Plan.Unreachable).
func (p *Planner) Add(t Transfer) (int, error) {
	k := len(p.demands)
	d, lost, err := p.net.normal(k, t)
	if err != nil {
		return 0, err
	}
	p.net.believe()
	had := p.demands
	p.demands = append(p.demands, d)
	first := append(p.first, p.initial(k)...)
	if n := crossed(first); n > p.crossings {
		p.demands = had
		return 0, fmt.Errorf("transfer %s: with it pipelines cross %d links in all, and more than %d are not planned at once: they would take gigabytes; plan fewer transfers, or of fewer destinations", t.Name, n, p.crossings)
	}
	p.given, p.live, p.first = append(p.given, t), append(p.live, true), first
	p.lost = append(p.lost, lost...)
	p.again(false)
	return k, nil
}

// mostCrossed is how many links the first pipelines of all transfers may cross together, each once for each pipeline. Programs hold some times as much: 300 bytes for
// each have been seen.
const mostCrossed = 15_000_000

// crossed is how many links pipelines cross together.
func crossed(pipes []pipe) (n int) {
	for i := range pipes {
		n += len(pipes[i].use)
	}
	return n
}

// Remove takes a transfer out, by the number that Add gave it; no other number will do. It leaves its number behind, and its columns in the programs.
func (p *Planner) Remove(transfer int) {
	gone := func(q pipe) bool { return q.demand == transfer }
	p.demands[transfer] = demand{weight: 1}
	if p.net.tree {
		p.demands[transfer].sub = p.net.subtree(nil, nil)
	}
	p.live[transfer] = false
	p.lost = slices.DeleteFunc(p.lost, func(u Unreachable) bool { return u.Transfer == transfer })
	p.first = slices.DeleteFunc(p.first, gone)
	p.pool = slices.DeleteFunc(p.pool, gone)
	p.again(false)
}

// SetRate changes what a channel of the topology carries, in bytes per second; of a half-duplex link both directions change. From or to 0 destinations come
// within reach or out of it, and programs begin anew. A rate that a topology may not have, or a channel that it has not, is an error, and changes nothing.
func (p *Planner) SetRate(channel int, rate float64) error {
	if channel < 0 || channel >= len(p.net.capacity) {
		return fmt.Errorf("channel %d: want one of the topology, 0 to %d", channel, len(p.net.capacity)-1)
	}
	if !(rate == 0 || rate >= float64(topo.LeastRate) && rate <= float64(topo.MostRate)) {
		return fmt.Errorf("rate %g: want 0, or %g to %g bytes per second", rate, float64(topo.LeastRate), float64(topo.MostRate))
	}
	c := p.net.capacity[channel]
	opens := (p.net.rate[c] == 0) != (rate == 0)
	p.net.believe()
	p.net.rate[c], p.net.said[c] = rate, rate
	p.first = p.first[:0]
	if opens {
		p.lost = nil
		p.pool = slices.DeleteFunc(p.pool, func(q pipe) bool {
			return slices.ContainsFunc(q.use, func(u use) bool { return p.net.rate[u.capacity] == 0 })
		})
	}
	for k := range p.demands {
		if opens && p.live[k] {
			d, lost, err := p.net.normal(k, p.given[k])
			if err != nil {
				return err
			}
			p.demands[k], p.lost = d, append(p.lost, lost...)
		}
		p.first = append(p.first, p.initial(k)...)
	}
	p.again(opens)
	return nil
}

// again makes planning go on from what it has, after a change: the programs stay, with their pipelines and their
// bases, unless anew.
func (p *Planner) again(anew bool) {
	p.weighed, p.maxMin, p.rest, p.rates, p.proofs, p.stage, p.drawn, p.share, p.begun, p.spent = nil, nil, nil, nil, nil, finding, nil, 0, false, 0
	if p.floored == p.free {
		p.floored = nil
	}
	p.known = false
	p.warm = p.free != nil && !anew && !p.uneven() && (p.Pairs() <= p.many || p.o.Floor == 0)
	if !p.warm {
		p.free, p.floored, p.theta = nil, nil, nil
		return
	}
	p.clip()
	if p.theta != nil {
		p.theta.change(p.demands, p.first)
	}
	for _, g := range []*colgen{p.free, p.floored} {
		if g != nil {
			g.change(p.demands, p.live)
			for _, q := range p.first {
				g.take(q)
			}
		}
	}
}

// clip makes rates those that the transfers that there are now are planned by.
func (p *Planner) clip() {
	if !p.known {
		p.net.usable(p.demands)
		p.known = true
	}
}

// initial are one transfer's pipelines of the first plan, the widest: on trees the widest there are, where they share nothing; else the paper's.
func (p *Planner) initial(k int) (pipes []pipe) {
	d := &p.demands[k]
	if len(d.dests) == 0 {
		return nil
	}
	if d.sub != nil {
		if walks, _, ok := p.net.widest(d.sub); ok {
			for _, w := range walks {
				if q, ok := p.net.pipe(k, w); ok {
					pipes = append(pipes, q)
				}
			}
			return pipes
		}
	}
	return p.net.laid(k, d, p.net.rate, fewAhead)
}

// First is a plan at once, without a linear program: the widest pipelines of each transfer, at
// rates that are fair. Its bound is what the destinations' links let in. It has no floor. O(uses of the pipelines × log capacities), see fill.
func (p *Planner) First() *Plan {
	p.clip()
	rates := p.fair(p.first, slices.Clone(p.net.rate), p.weight)
	plan := p.result(p.first, rates)
	g := &colgen{net: p.net, demands: p.demands, weight: p.ones()}
	plan.bound(g.access(), "downlinks")
	return plan
}

// fair gives pipelines their max-min rates of what is left, by weight, higher priorities first. left is by capacity, and becomes what is left over.
func (p *Planner) fair(pipes []pipe, left []float64, weight func(q *pipe) float64) []float64 {
	rates := make([]float64, len(pipes))
	for _, class := range p.classes() {
		var of []pipe
		var at []int
		for i := range pipes {
			if p.demands[pipes[i].demand].priority == class {
				of, at = append(of, pipes[i]), append(at, i)
			}
		}
		for i, r := range p.net.fill(of, weight, left) {
			rates[at[i]] = r
		}
	}
	return rates
}

// weight is that of a pipeline's transfer.
func (p *Planner) weight(q *pipe) float64 { return p.demands[q.demand].weight }

// classes are the priorities that there are, highest first.
func (p *Planner) classes() (cs []int) {
	for k := range p.demands {
		if c := p.demands[k].priority; p.live[k] && !slices.Contains(cs, c) {
			cs = append(cs, c)
		}
	}
	slices.Sort(cs)
	slices.Reverse(cs)
	return cs
}

// Pairs is how many pairs of a transfer and a destination there are to plan.
func (p *Planner) Pairs() (n int) {
	for k := range p.demands {
		n += len(p.demands[k].dests)
	}
	return n
}

// ones is a weight of 1 for everybody.
func (p *Planner) ones() []float64 {
	w := make([]float64, len(p.demands))
	for k := range w {
		w[k] = 1
	}
	return w
}

// uneven says whether something else than throughput is wanted: weights or priorities.
func (p *Planner) uneven() bool {
	first := -1
	for k := range p.demands {
		if p.live[k] {
			if first < 0 {
				first = k
			}
			if p.demands[k].weight != 1 || p.demands[k].priority != p.demands[first].priority {
				return true
			}
		}
	}
	return false
}

// Plan is the plan as good as the steps so far have made it. It takes a linear program of the pipelines that there are;
// those that it uses are what planning begins from after a change. An error is that no solver has an answer to a program that passes lp.Program.Check.
func (p *Planner) Plan() (*Plan, error) { return p.In(p.o.Mode) }

// In is Plan in another mode, for the same transfers and options. Steps before make Optimal and Single better, and find the floor of all. An error is as of
// Plan, or that there is no such mode, or not on this network.
func (p *Planner) In(mode string) (*Plan, error) {
	if mode == Exact && !p.net.tree {
		return nil, errNoTree
	}
	p.clip()
	var pipes []pipe
	var rates []float64
	var err error
	if mode == Optimal {
		pipes, rates, err = p.optimum()
	} else if pipes, err = p.lay(mode); err == nil {
		rates, err = p.allot(pipes)
	}
	if err != nil {
		return nil, err
	}
	p.net.fit(pipes, rates)
	p.net.dropNegligible(pipes, rates, p.share)
	plan := p.result(pipes, rates)
	plan.Mode = mode
	p.prove(plan)
	if mode == Optimal {
		p.class(plan)
		p.pool, p.had = p.pool[:0], map[string]float64{}
		for i, r := range rates {
			if r > 0 {
				if p.had[name(&pipes[i])] == 0 {
					p.pool = append(p.pool, pipes[i])
				}
				p.had[name(&pipes[i])] += r
			}
		}
	}
	return plan, nil
}

// optimum are the pipelines of the best program so far, with its rates.
func (p *Planner) optimum() ([]pipe, []float64, error) {
	several := len(p.classes()) > 1
	beforehand := func() float64 { return p.free.value + p.net.brought(p.rest, p.rates) } // with the floors taken off
	switch {
	case p.o.MaxMin:
		pipes, rates := p.risen()
		return pipes, rates, nil
	case p.classed(), !several && p.holds(p.weighed):
		return p.rated(p.weighed)
	case (!several || len(p.proofs) == len(p.classes())) && p.begins(p.weighed):
		return p.mended(p.weighed, p.weighed.pipes, p.weighed.rates())
	case !several && p.holds(p.floored) && (p.rest == nil || p.floored.value >= beforehand()):
		return p.rated(p.floored)
	case !several && p.rest != nil && p.free != nil && p.free.solved():
		if p.begins(p.floored) && p.floored.value >= beforehand() {
			if pipes, rates, err := p.mended(p.floored, p.floored.pipes, p.floored.rates()); err != nil || p.net.brought(pipes, rates) >= beforehand() {
				return pipes, rates, err
			}
		}
		return append(slices.Clone(p.free.pipes), p.rest...), append(p.free.rates(), p.rates...), nil
	case !several && p.begins(p.floored):
		return p.mended(p.floored, p.floored.pipes, p.floored.rates())
	case !several && p.share == 0 && p.free != nil && p.free.solved():
		return p.rated(p.free)
	case !several && p.goesOn() != nil:
		return p.kept(p.goesOn())
	}
	return p.unfinished()
}

// rated are the pipelines of a program with its rates. Where exchanges ended early, when many may still have nothing, what is left over is shared out as well.
func (p *Planner) rated(g *colgen) ([]pipe, []float64, error) {
	switch {
	case !g.master.sol.Early || g.pdhg != nil:
		return g.pipes, g.rates(), nil
	case p.share > 0 || len(p.classes()) > 1:
		return p.mended(g, g.pipes, g.rates())
	}
	var pipes []pipe
	var rates []float64
	for i, r := range g.rates() {
		if q := g.pipes[i]; !g.gone[q.demand] {
			pipes, rates = append(pipes, q), append(rates, r)
		}
	}
	return pipes, p.finished(pipes, rates, slices.Clone(p.net.rate)), nil
}

// risen are max-min fair rates as far as planning has come; in the middle of their first program they are below theta, and all have that. Those that
// could rise on share what is left.
func (p *Planner) risen() (pipes []pipe, rates []float64) {
	switch {
	case p.maxMin != nil && p.maxMin.g.solved() && (p.uneven() || p.maxMin.height > 0 || p.maxMin.high() >= p.theta.theta*(1-1e-6)):
		pipes, rates = slices.Clone(p.maxMin.g.pipes), p.maxMin.g.rates()
		p.net.fit(pipes, rates)
	case p.theta != nil && !p.uneven(): // theta knows no weights, and gives lower priorities what higher ones would have
		pipes, rates = p.theta.plan(p.theta.theta)
	}
	if p.maxMin == nil || len(p.maxMin.rising) > 0 {
		left := p.net.left(p.net.rate, pipes, rates)
		pipes = append(pipes, p.first...)
		rates = append(rates, p.fair(p.first, left, p.weight)...)
		direct := p.direct(pipes, rates, left)
		pipes = append(pipes, direct...)
		rates = append(rates, p.fair(direct, left, p.weight)...)
	}
	return pipes, rates
}

// direct are pipelines of one destination each, from the source with the widest way over what is left, for those who have nothing: the widest pipelines of
// a transfer may all cross a link that a higher class fills.
func (p *Planner) direct(pipes []pipe, rates, left []float64) (direct []pipe) {
	has := arrivals(pipes, rates)
	for k := range p.demands {
		d := &p.demands[k]
		for _, h := range d.dests {
			nothing := 1e-9 * p.net.brings(h)
			if has[member{k, h}] > nothing {
				continue
			}
			var best pipe
			most := nothing
			for _, s := range d.sources {
				q, ok := p.net.pipe(k, []int32{s, h})
				if !ok {
					continue
				}
				width := math.Inf(1)
				for _, u := range q.use {
					width = min(width, left[u.capacity])
				}
				if width > most {
					best, most = q, width
				}
			}
			if most > nothing {
				direct = append(direct, best)
			}
		}
	}
	return direct
}

// unfinished is what can be had in the middle of planning: of the pipelines that there are, floors taken off, one class after the other.
func (p *Planner) unfinished() ([]pipe, []float64, error) {
	pipes := append(slices.Clone(p.pool), p.first...) // after a change what was in use is nearly as good
	switch {
	case p.weighed != nil:
		pipes = p.weighed.pipes
	case p.free != nil && !p.warm:
		pipes = p.free.pipes
	}
	var rest []pipe
	var floor []float64
	if p.share > 0 {
		rest, floor = p.theta.plan(p.share)
	}
	rates, err := p.shares(pipes, p.net.left(p.net.rate, rest, floor))
	return append(slices.Clone(pipes), rest...), append(rates, floor...), err
}

// allot gives fixed pipelines their rates: to each the floor, or as much of it as all can have; what is left by
// the program, one class after the other.
func (p *Planner) allot(pipes []pipe) ([]float64, error) {
	if p.o.MaxMin {
		return p.fair(pipes, slices.Clone(p.net.rate), p.weight), nil
	}
	floors := make([]float64, len(pipes))
	for i := range floors {
		floors[i] = 1
	}
	floor := p.share
	for c, l := range p.net.load(pipes, floors) {
		if l > 0 {
			floor = min(floor, p.net.rate[c]/l)
		}
	}
	for i := range floors {
		floors[i] = floor
	}
	rates, err := p.shares(pipes, p.net.left(p.net.rate, pipes, floors))
	for i := range rates {
		rates[i] += floor
	}
	return rates, err
}

// patience is how often shares asks whether somebody has enough before it listens, once in 64 exchanges: programs that take
// less than a second come to their end.
const patience = 30

// shares gives pipelines what the program gives them of what capacities have, one class after the other, in bytes per second; have becomes what is left over. When somebody has enough in the middle of it,
// what is left over is shared out fairly; or all is, if that is more.
func (p *Planner) shares(pipes []pipe, have []float64) ([]float64, error) {
	rates := make([]float64, len(pipes))
	asked := 0
	enough := func() bool {
		asked++
		return asked > p.patience && p.enough()
	}
	for _, class := range p.classes() {
		m := p.net.master(have, &lp.Simplex{Seed: 3, Enough: enough})
		var of []pipe
		var columns []int32
		var at []int
		for i := range pipes {
			if d := &p.demands[pipes[i].demand]; d.priority == class {
				columns = append(columns, m.add(d.weight*float64(pipes[i].served()), pipes[i].use))
				of, at = append(of, pipes[i]), append(at, i)
			}
		}
		if len(columns) == 0 {
			continue
		}
		if _, err := m.solve(); err != nil {
			return nil, err
		}
		got := make([]float64, len(columns))
		for i, c := range columns {
			got[i] = m.rate(c)
		}
		if m.sol.Early {
			got = p.finished(of, got, have)
		}
		for i, r := range got {
			rates[at[i]] = r
			for _, u := range of[i].use {
				have[u.capacity] = max(have[u.capacity]-r*u.times, 0)
			}
		}
	}
	return rates, nil
}

// finished are rates with a fair share of what they leave over of have, by capacity, or fair shares of all of it, whichever is worth more.
func (p *Planner) finished(pipes []pipe, rates, have []float64) []float64 {
	value := func(rates []float64) (sum float64) {
		for i := range pipes {
			sum += p.weight(&pipes[i]) * float64(pipes[i].served()) * rates[i]
		}
		return sum
	}
	more := p.net.fill(pipes, p.weight, p.net.left(have, pipes, rates))
	for i := range more {
		more[i] += rates[i]
	}
	if fair := p.net.fill(pipes, p.weight, slices.Clone(have)); value(fair) > value(more) {
		return fair
	}
	return more
}

// lay are the pipelines of a mode that gives each destination one.
func (p *Planner) lay(mode string) ([]pipe, error) {
	if pipes, ok := p.drawn[mode]; ok {
		return pipes, nil
	}
	rng := rand.New(rand.NewPCG(p.o.Seed, 0x706c616e))
	var pipes []pipe
	var err error
	switch mode {
	case Flat:
		pipes = p.net.flat(p.demands, rng)
	case Random:
		pipes = p.net.random(p.demands, rng)
	case Pipeline:
		pipes = p.net.grow(p.demands)
	case Paper:
		pipes, err = p.net.replan(p.demands, p.net.grow(p.demands), &lp.Simplex{Seed: 4, Enough: p.net.enough}, func(k int, have []float64) []pipe {
			return p.net.laid(k, &p.demands[k], have, len(p.demands[k].dests))
		})
	case Exact:
		pipes = p.first
	case Single:
		pipes, err = p.single()
	default:
		return nil, fmt.Errorf("mode %q: want %v", mode, Modes)
	}
	if err != nil || p.enough() { // what was cut short is laid anew when somebody asks again
		return pipes, err
	}
	if p.drawn == nil {
		p.drawn = map[string][]pipe{}
	}
	p.drawn[mode] = pipes
	return pipes, nil
}
