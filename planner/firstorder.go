package planner

// Programs of many pairs are not solved at first: prices of a few pipelines are far from those of many, whoever
// computes them exactly, and thousands of exchanges go into that each round. lp.PDHG, a first-order method, comes near them meanwhile, in a few
// milliseconds, and the pipelines that are asked for then are nearly those that the optimum has.
const (
	pdhgFrom   = 200  // pairs of a transfer and a destination
	pdhgSteps  = 200  // in each round
	pdhgEnds   = 2e-3 // of its bound that a program may be short of, from where on exchanges take over
	pdhgRounds = 60   // rounds at most
)

// roundPDHG is a round of a column generation whose program is not solved: PDHG comes near its optimum. From where that ends the simplex method goes on, if it has to.
func (p *Planner) roundPDHG(g *colgen) (more bool, err error) {
	before := g.master.work()
	if _, err := g.master.ask(g.pdhg); err != nil {
		return false, err
	}
	g.value = 0
	for i, r := range g.rates() {
		g.value += r * g.master.prog.Cost[g.columns[i]]
	}
	stop := p.exhausted()
	added, secured := 0, 0
	if !stop {
		added = g.price(false)
		if g.floor > 0 {
			secured = g.secure()
		}
	} else {
		g.price(true)
	}
	p.spent += g.master.work() - before + pdhgSteps/4
	if g.value > g.mark*(1+5e-4) || g.bound < g.low*(1-5e-4) {
		g.mark, g.low, g.slow = g.value, g.bound, 0
	} else {
		g.slow++
	}
	short := g.value < g.bound*(1-p.near()) || secured > 0 || g.lacks() > 0 || g.slips()
	switch {
	case stop || !short:
		return false, nil
	case added+secured > 0 && g.value < g.bound*(1-pdhgEnds) && g.slow < 6 && g.rounds < pdhgRounds:
		return true, nil
	}
	g.pdhg, g.slow, g.mark = nil, 0, 0
	_ = g.master.steps.Crossover(g.master.prog, g.master.sol.X) // where rounding does not let it, exchanges begin at the beginning
	return true, nil
}
