package planner

// Programs of many pairs are not solved at first: prices of a few pipelines are far from those of many, whoever
// computes them exactly, and thousands of exchanges go into that each round. lp.Glide comes near them meanwhile, in a few milliseconds, and the
// pipelines that it asks for are nearly those that the optimum has.
const (
	glidesFrom = 200  // pairs of a transfer and a destination
	glideSteps = 200  // in each round
	glideEnds  = 2e-3 // of its bound that a program may be short of, from where on exchanges take over
	glideTurns = 60   // rounds at most
)

// glides is a round of a generation that is not solved, but glides. From where that ends the simplex method goes on, if it has to.
func (p *Planner) glides(g *generation) (more bool, err error) {
	before := g.market.work()
	if _, err := g.market.ask(g.glide); err != nil {
		return false, err
	}
	g.value = 0
	for i, r := range g.rates() {
		g.value += r * g.market.prog.Cost[g.columns[i]]
	}
	stop := p.over()
	added, secured := 0, 0
	if !stop {
		added = g.price(false)
		if g.floor > 0 {
			secured = g.secure()
		}
	} else {
		g.price(true)
	}
	p.spent += g.market.work() - before + glideSteps/4
	if g.value > g.mark*(1+5e-4) || g.bound < g.low*(1-5e-4) {
		g.mark, g.low, g.slow = g.value, g.bound, 0
	} else {
		g.slow++
	}
	short := g.value < g.bound*(1-p.near()) || secured > 0 || g.lacks() > 0 || g.slips()
	switch {
	case stop || !short:
		return false, nil
	case added+secured > 0 && g.value < g.bound*(1-glideEnds) && g.slow < 6 && g.turns < glideTurns:
		return true, nil
	}
	g.glide, g.slow, g.mark = nil, 0, 0
	_ = g.market.steps.Begin(g.market.prog, g.market.sol.X) // where rounding does not let it, exchanges begin at the beginning
	return true, nil
}
