package planner

import (
	"fmt"

	"github.com/freshet/freshet/internal/lp"
)

// master is the restricted master problem, the linear program of some pipelines over the capacities that they use: each
// pipeline's rate is a column, each capacity a row, and the price of a row says what a byte per second more of
// that capacity would be worth.
type master struct {
	net    *Network
	prog   *lp.Program
	solver lp.Solver
	steps  *lp.Simplex // that it takes
	unit   float64     // bytes per second that are 1 in the program
	have   []float64   // by capacity: bytes per second that may be used
	row    []int32     // by capacity; -1: nobody uses it yet
	price  []float64   // by capacity, as of the last solution
	sol    lp.Solution
}

func (n *Network) master(have []float64, solver *lp.Simplex) *master {
	m := &master{net: n, prog: &lp.Program{}, solver: lp.Or{First: solver, Second: n.second}, steps: solver, have: have, row: make([]int32, len(n.rate)), price: make([]float64, len(n.rate))}
	for i, r := range n.rate {
		m.row[i] = -1
		m.unit = max(m.unit, r)
	}
	if m.unit == 0 {
		m.unit = 1
	}
	return m
}

// add adds a column with its coefficient in the objective, these uses, and more entries.
func (m *master) add(objective float64, uses []use, more ...lp.Entry) int32 {
	entries := make([]lp.Entry, 0, len(uses)+len(more))
	for _, u := range uses {
		if m.row[u.capacity] < 0 {
			m.row[u.capacity] = m.prog.Row(max(m.have[u.capacity], 0) / m.unit)
		}
		entries = append(entries, lp.Entry{At: m.row[u.capacity], Value: u.times})
	}
	return m.prog.Column(objective, append(entries, more...)...)
}

// solve solves the program, and believes only what it has checked. value is that of the objective, in bytes per second.
func (m *master) solve() (value float64, err error) { return m.ask(m.solver) }

// ask is solve by whatever solver, which may end before the optimum.
func (m *master) ask(solver lp.Solver) (value float64, err error) {
	if m.sol, err = solver.Solve(m.prog); err != nil {
		return 0, fmt.Errorf("planner: %w", err)
	}
	if value, _, err = m.prog.Check(m.sol); err != nil {
		return 0, fmt.Errorf("planner: %w", err)
	}
	for _, v := range [][]float64{m.sol.X, m.sol.Y} { // what rounding has left below zero
		for i := range v {
			v[i] = max(v[i], 0)
		}
	}
	for c, r := range m.row {
		switch {
		case m.net.rate[c] == 0:
			m.price[c] = dear
		case r >= 0:
			m.price[c] = m.sol.Y[r]
		default:
			m.price[c] = 0
		}
	}
	return value * m.unit, nil
}

// soon is what so many exchanges from where the program was make of it; see try. ok is false if that is no longer a point to begin at.
func (m *master) soon(exchanges int) (rates []float64, ok bool) {
	m.steps.Most = exchanges
	defer func() { m.steps.Most = 0 }()
	return m.try(m.steps)
}

// try is what a solver makes of the program, by column in bytes per second. ok is false if that is no answer. Of the last solution and its prices nothing changes.
func (m *master) try(solver lp.Solver) (rates []float64, ok bool) {
	sol, err := solver.Solve(m.prog)
	if err != nil {
		return nil, false
	}
	if _, _, err := m.prog.Check(sol); err != nil {
		return nil, false
	}
	for i := range sol.X {
		sol.X[i] *= m.unit
	}
	return sol.X, true
}

// scarce are the non-zero prices, by capacity.
func (m *master) scarce() map[int32]float64 {
	some := map[int32]float64{}
	for c, p := range m.price {
		if p > 0 {
			some[int32(c)] = p
		}
	}
	return some
}

// work is how many exchanges and columns the program has taken so far.
func (m *master) work() int { return len(m.prog.Cost) + m.steps.Steps }

// rate is what the last solution gives a column, in bytes per second; one that came later has nothing yet.
func (m *master) rate(column int32) float64 {
	if int(column) >= len(m.sol.X) {
		return 0
	}
	return m.sol.X[column] * m.unit
}

// fitted are the rates of columns in the last solution, or less where a capacity would carry more than it has: see fit.
func (m *master) fitted() []float64 {
	rates, load, share := make([]float64, len(m.sol.X)), make([]float64, len(m.prog.B)), make([]float64, len(m.prog.B))
	for j := range rates {
		rates[j] = m.rate(int32(j))
		for _, e := range m.prog.Entries(int32(j)) {
			load[e.At] += e.Value * rates[j]
		}
	}
	for i := range share {
		share[i] = 1
	}
	for c, r := range m.row {
		if r >= 0 && load[r] > m.have[c] {
			share[r] = max(m.have[c], 0) / load[r]
		}
	}
	for j := range rates {
		least := 1.0
		for _, e := range m.prog.Entries(int32(j)) {
			least = min(least, share[e.At])
		}
		rates[j] *= least
	}
	return rates
}

// fit makes rates smaller where a capacity carries more than it has: what rounding left over. Beside wide links that may be much of what
// a very thin one has, so those that do not cross it keep theirs.
func (n *Network) fit(pipes []pipe, rates []float64) {
	copy(rates, n.slower(pipes, rates, make([]float64, len(n.rate))))
}

// brought is what pipelines at these rates bring to all destinations together.
func (n *Network) brought(pipes []pipe, rates []float64) (sum float64) {
	for i := range pipes {
		sum += rates[i] * float64(pipes[i].served())
	}
	return sum
}

// arrivals are by pair what pipelines at these rates bring, in bytes per second. Who is in none has no entry.
func arrivals(pipes []pipe, rates []float64) map[member]float64 {
	got := map[member]float64{}
	for i := range pipes {
		for _, h := range pipes[i].hosts[1:] {
			got[member{pipes[i].demand, h}] += rates[i]
		}
	}
	return got
}

// left is by capacity what pipelines at these rates leave over of what capacities have.
func (n *Network) left(have []float64, pipes []pipe, rates []float64) []float64 {
	left := n.load(pipes, rates)
	for c, l := range left {
		left[c] = max(have[c]-l, 0)
	}
	return left
}

// load is by capacity what pipelines at these rates use.
func (n *Network) load(pipes []pipe, rates []float64) []float64 {
	load := make([]float64, len(n.rate))
	for i := range pipes {
		for _, u := range pipes[i].use {
			load[u.capacity] += u.times * rates[i]
		}
	}
	return load
}
