package planner

import (
	"math/bits"
	"slices"

	"github.com/freshet/freshet/internal/lp"
)

// cover is what serves all destinations of a transfer where each may take disjoint parts from several pipelines.
type cover struct {
	rows   [][]int32 // destinations in the order in which a pipeline serves them, by index
	shares []float64 // by row: of what each destination is to have. Those of its rows come to 1, or more
	cost   float64
}

// mostCovered is up to how many destinations of a transfer a cover is looked for: seconds for as many as that, minutes for twice as many.
const mostCovered = 500

// cover finds the cheapest one where legs cost t; none costs less than least. Pipelines that serve each destination once may have to cost more: where three can
// pass on to a fourth alone, and that to each of them, two pipelines serve all four, and so do halves of the three that lead over the fourth to another.
//
// It is a linear program of pipelines with a row for each destination, whose price is what the destination pays. More pipelines come as in all programs
// here: those that cost less than their destinations pay. If certain is set the tables of heldKarp say which do, and the
// answer is exact; else they are found greedily, and least is not known: 0. When somebody has enough it is the cheapest so far.
func (p *pricer) cover(t *legCosts, certain bool) (c cover, least float64) {
	price := func(row []int32) (sum float64) {
		before := int32(root)
		for _, d := range row {
			sum += t.step(before, d)
			before = d
		}
		return sum
	}
	begin := t.cheapestWays()
	unit := 0.0 // of the program
	for _, row := range begin {
		unit = max(unit, price(row))
		c.rows, c.shares, c.cost = append(c.rows, row), append(c.shares, 1), c.cost+price(row)
	}
	if unit == 0 {
		return c, 0
	}
	var once [][]int32
	if value := make([]float64, t.n); certain {
		once, _ = p.heldKarp(t, value, true)
	} else {
		once, _ = greedily(t, value, true, p.net.enough)
	}
	begin = append(begin, once...)

	prog, solver := &lp.Program{}, &lp.Simplex{Seed: 6, Enough: p.net.enough}
	for range t.n {
		prog.Floor(1, 2) // what no destination pays: one of those to begin with costs 1 at most
	}
	var rows [][]int32
	var columns []int32
	known := map[string]bool{}
	take := func(row []int32) bool {
		key := name(&pipe{hosts: row})
		if known[key] {
			return false
		}
		known[key] = true
		entries := make([]lp.Entry, len(row))
		for i, d := range row {
			entries[i] = lp.Entry{At: d, Value: -1}
		}
		rows, columns = append(rows, row), append(columns, prog.Column(-price(row)/unit, entries...))
		return true
	}
	for _, row := range begin {
		take(row)
	}
	const rounding = 1e-9
	value := make([]float64, t.n)
	for {
		sol, err := solver.Solve(prog)
		if err == nil {
			_, _, err = prog.Check(sol)
		}
		if err != nil { // what there is serves all, if not for least
			return c, least
		}
		var now cover
		has := make([]float64, t.n)
		for i, row := range rows {
			if x := sol.X[columns[i]]; x > rounding {
				now.rows, now.shares, now.cost = append(now.rows, row), append(now.shares, x), now.cost+x*price(row)
				for _, d := range row {
					has[d] += x
				}
			}
		}
		if fewest := slices.Min(has); now.cost < c.cost*fewest {
			for i := range now.shares {
				now.shares[i] /= fewest
			}
			now.cost /= fewest
			c = now
		}
		if sol.Early {
			return c, least
		}
		paid := 0.0
		for d := range value {
			value[d] = max(sol.Y[d], 0) * unit
			paid += value[d]
		}
		var found [][]int32
		if certain {
			var most float64
			found, most = p.dearest(t, value)
			sum := 0.0 // if each pays less by as much as any set pays too much, none does
			for _, v := range value {
				sum += max(0, v-most)
			}
			least = max(least, sum)
		} else {
			found, _ = greedily(t, value, false, p.net.enough)
		}
		added := false
		for _, row := range found {
			gain := -price(row)
			for _, d := range row {
				gain += value[d]
			}
			if gain > rounding*unit && take(row) {
				added = true
			}
		}
		if !added {
			return c, least
		}
	}
}

// dearest are pipelines of sets of destinations that pay more than they cost, and by how much one does at most: of those with the same
// highest destination the one that does most. The tables are those that heldKarp has left behind.
func (p *pricer) dearest(t *legCosts, value []float64) (rows [][]int32, most float64) {
	sum := p.total
	best, gain := make([]int, t.n), make([]float64, t.n)
	for s := 1; s < 1<<t.n; s++ {
		sum[s] = sum[s&(s-1)] + value[bits.TrailingZeros(uint(s))]
		if d := bits.Len(uint(s)) - 1; sum[s]-p.least[s] > gain[d] {
			best[d], gain[d] = s, sum[s]-p.least[s]
		}
	}
	for d, s := range best {
		if s > 0 {
			most = max(most, gain[d])
			rows = append(rows, p.rows(t, s)...)
		}
	}
	return rows, most
}
