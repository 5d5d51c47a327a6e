package lp

import (
	"errors"
	"math"
)

// PDHG comes near the optimum of a Program in many cheap steps: the primal-dual hybrid gradient method of Chambolle and Pock (2011) with
// their diagonal step sizes. Rates rise where they are worth more than the prices of their rows, prices rise where rows are
// too full, and the mean of what they do on the way is near the optimum of both. Each step takes the entries once, where an exchange of
// the simplex method takes a factored basis.
//
// Its answers come early (Solution.Early): x can be done, and prices are near the best ones, which is what column
// generation wants of them while there are few columns. Asked again about the same Program, it goes on from where it was. It is for
// programs of rows without negative entries, and floors. The zero PDHG is ready but for Steps.
type PDHG struct {
	Steps int // in each call

	prog   *Program
	x, y   []float64 // by column, by row; x in units of the largest right side
	weight float64   // how much longer the steps of prices are, to those of rates
}

// Begin makes g go on from there, x by column and y by row, or as many as there were.
func (g *PDHG) Begin(p *Program, x, y []float64) {
	*g = PDHG{Steps: g.Steps, prog: p, weight: 1, y: append([]float64(nil), y...)}
	scale := p.scale()
	for _, v := range x {
		g.x = append(g.x, v/scale)
	}
}

// Solve makes so many steps.
func (g *PDHG) Solve(p *Program) (Solution, error) {
	if g.prog != p {
		*g = PDHG{Steps: g.Steps, prog: p, weight: 1}
	}
	m, n := len(p.B), len(p.Cost)
	g.x = append(g.x, make([]float64, n-len(g.x))...)
	g.y = append(g.y, make([]float64, m-len(g.y))...)
	scale := p.scale()
	b := make([]float64, m)
	for i := range b {
		b[i] = p.B[i] / scale
	}

	// Columns that are something, or would be.
	var columns []int32
	var entries []Entry
	var begin []int32
	sum := make([]float64, m)
	for j := range p.Cost {
		reduced := p.Cost[j]
		for _, e := range p.cols[j] {
			reduced -= e.Value * g.y[e.At]
		}
		if g.x[j] == 0 && reduced <= 0 || len(p.cols[j]) == 0 {
			continue
		}
		columns, begin = append(columns, int32(j)), append(begin, int32(len(entries)))
		entries = append(entries, p.cols[j]...)
		for _, e := range p.cols[j] {
			sum[e.At] += math.Abs(e.Value)
		}
	}
	begin = append(begin, int32(len(entries)))
	k := len(columns)
	x, y, tau, cost := make([]float64, k), append([]float64(nil), g.y...), make([]float64, k), make([]float64, k)
	for c, j := range columns {
		x[c], cost[c] = g.x[j], p.Cost[j]
		for _, e := range entries[begin[c]:begin[c+1]] {
			tau[c] += math.Abs(e.Value)
		}
		tau[c] = 1 / (tau[c] * g.weight)
	}
	sigma := make([]float64, m)
	for i, s := range sum {
		if s > 0 {
			sigma[i] = g.weight / s
		}
	}
	meanX, meanY, load := make([]float64, k), make([]float64, m), make([]float64, m)
	startX, startY := append([]float64(nil), x...), append([]float64(nil), y...)
	for range g.Steps {
		for i := range load {
			load[i] = -b[i]
		}
		for c := range x {
			es := entries[begin[c]:begin[c+1]]
			v := cost[c]
			for _, e := range es {
				v -= e.Value * y[e.At]
			}
			v = max(0, x[c]+tau[c]*v)
			if further := 2*v - x[c]; further != 0 {
				for _, e := range es {
					load[e.At] += e.Value * further
				}
			}
			x[c] = v
			meanX[c] += v
		}
		for i := range y {
			y[i] = max(0, y[i]+sigma[i]*load[i])
			meanY[i] += y[i]
		}
	}
	dx, dy := 0.0, 0.0
	share := 1 / float64(g.Steps)
	clear(g.x)
	for c, j := range columns {
		g.x[j] = meanX[c] * share
		dx += (g.x[j] - startX[c]) * (g.x[j] - startX[c])
	}
	for i := range y {
		g.y[i] = meanY[i] * share
		dy += (g.y[i] - startY[i]) * (g.y[i] - startY[i])
	}
	if dx > 0 && dy > 0 {
		g.weight = math.Sqrt(g.weight * math.Sqrt(dy/dx))
	}
	return g.answer(b, scale)
}

// answer is where g is, with rates as much lower as rows want it.
func (g *PDHG) answer(b []float64, scale float64) (Solution, error) {
	p := g.prog
	sol := Solution{X: append([]float64(nil), g.x...), Y: append([]float64(nil), g.y...), Early: true}
	load := func(i int) (sum float64) {
		for _, e := range p.rows[i] {
			sum += e.Value * sol.X[e.At]
		}
		return sum
	}
	share := make([]float64, len(b))
	for i := range b {
		share[i] = 1
		if p.first[i] < 0 {
			if l := load(i); l > b[i] {
				share[i] = b[i] / l
			}
		}
	}
	for j := range sol.X {
		least := 1.0
		for _, e := range p.cols[j] {
			if p.first[e.At] < 0 {
				if e.Value < 0 {
					return Solution{}, errors.New("lp: a row that is no floor has a negative entry")
				}
				least = min(least, share[e.At])
			}
		}
		sol.X[j] *= least
	}
	for i, missed := range p.first {
		if missed >= 0 {
			sol.X[missed] = 0
			sol.X[missed] = max(0, load(i)-b[i])
		}
	}
	for j := range sol.X {
		sol.X[j] *= scale
	}
	return sol, nil
}
