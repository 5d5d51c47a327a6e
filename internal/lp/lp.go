// Package lp solves linear programs that grow while they are solved: column
// generation adds some columns, solves again, and asks for the prices of the rows.
//
//	max c·x   A x ≤ b, x ≥ 0              a Program: its rows and columns
//	min y·b   yA ≥ c,  y ≥ 0              its dual: y are the prices of the rows
//
// Every row has b ≥ 0 or is a floor (Program.Floor), which may be missed at a
// penalty: so there is always a point to begin at, x = 0, and no search for one. A caller
// that sees a floor missed had too small a penalty, or wants what cannot be.
//
// An answer is worth what Check says of it: x is feasible, y is feasible in the
// dual, and so the optimum lies between c·x and y·b, which meet, whoever computed them. A Solver must not be
// believed; Simplex is ours, and goes on from where it was when a program has grown. HiGHS (package highs) is the reference: the tests hold
// Simplex against it and against glpsol, and Or asks it where Simplex fails.
//
// PDHG, a first-order method, comes near the optimum in many cheap steps, and Simplex stops short of it when it is told to (Most, Enough). Such answers come early
// (Solution.Early): x can be done, but y proves no bound by itself. Simplex.Crossover finds a vertex from which Simplex goes on where PDHG has ended.
package lp

import (
	"fmt"
	"math"
)

// Entry is one number of the matrix. In a column At is the row, in a row the column.
type Entry struct {
	At    int32
	Value float64
}

// Program is a linear program. The zero Program has no rows and columns. Rows and
// columns are only ever added; costs and right sides may change.
type Program struct {
	B     []float64 // by row; negative only for floors
	Cost  []float64 // by column
	cols  [][]Entry
	rows  [][]Entry
	first []int32 // by row: the column that fills it at the beginning, or -1: what is left over does
}

// Row adds the row Σ entries ≤ b, of columns that exist. b must not be negative.
func (p *Program) Row(b float64, entries ...Entry) int32 {
	return p.row(b, -1, entries)
}

// Floor adds the row Σ entries ≥ b. What lacks of it costs penalty for each unit. It returns the row,
// whose price is never above the penalty and says what the objective would gain if b were smaller,
// and the column that is what lacks.
func (p *Program) Floor(b, penalty float64, entries ...Entry) (row, missed int32) {
	flipped := make([]Entry, len(entries))
	for i, e := range entries {
		flipped[i] = Entry{e.At, -e.Value}
	}
	row = p.row(-b, -1, flipped)
	missed = p.Column(-penalty, Entry{row, -1})
	p.first[row] = missed
	return row, missed
}

func (p *Program) row(b float64, first int32, entries []Entry) int32 {
	i := int32(len(p.B))
	p.B = append(p.B, b)
	p.first = append(p.first, first)
	p.rows = append(p.rows, append([]Entry(nil), entries...))
	for _, e := range entries {
		p.cols[e.At] = append(p.cols[e.At], Entry{i, e.Value})
	}
	return i
}

// Column adds a column with these entries, of rows that exist, each at most once. In a floor the
// sign is that of ≤: a column that helps to reach it has a negative value there.
func (p *Program) Column(cost float64, entries ...Entry) int32 {
	j := int32(len(p.Cost))
	p.Cost = append(p.Cost, cost)
	p.cols = append(p.cols, append([]Entry(nil), entries...))
	for _, e := range entries {
		p.rows[e.At] = append(p.rows[e.At], Entry{j, e.Value})
	}
	return j
}

// scale is the largest right side, or 1 if there is none.
func (p *Program) scale() (most float64) {
	for _, b := range p.B {
		most = max(most, math.Abs(b))
	}
	if most == 0 {
		return 1
	}
	return most
}

// Entries are those of a column, by row. They belong to p.
func (p *Program) Entries(column int32) []Entry { return p.cols[column] }

// Solution is an answer to a Program.
type Solution struct {
	X []float64 // by column
	Y []float64 // by row: its price

	Early bool // it is not the optimum: x can be done, but prices prove no bound by themselves
}

// Solver answers programs. One that is asked again about a program that has grown may go on
// from where it was.
type Solver interface {
	Solve(*Program) (Solution, error)
}

// Or asks First, and Second if First fails: if it says so, or if its answer does not pass Check. Second may be nil.
type Or struct{ First, Second Solver }

// Solve solves p. An error is that of First, and that of Second, too.
func (o Or) Solve(p *Program) (Solution, error) {
	sol, err := o.First.Solve(p)
	if err == nil {
		_, _, err = p.Check(sol)
	}
	if err == nil || o.Second == nil {
		return sol, err
	}
	sol, other := o.Second.Solve(p)
	if other != nil {
		return Solution{}, fmt.Errorf("%w; and then %w", err, other)
	}
	return sol, nil
}

// Tolerance is by how much, in terms of the size of the numbers in it, a row of an answer
// may be off.
const Tolerance = 2e-6

// apart is how far the value of an answer and its bound may be from each other, as a share of what they are sums of: 50 times as much as right sides
// are moved by.
const apart = 1e-5

// Check is the proof of an answer: the value of x, and the bound that y sets, which is infinite if the answer came early. It is an error if either breaks its
// constraints by more than Tolerance, or if the two do not meet. O(entries).
func (p *Program) Check(s Solution) (value, bound float64, err error) {
	if len(s.X) != len(p.Cost) || len(s.Y) != len(p.B) {
		return 0, 0, fmt.Errorf("lp: an answer of %d columns and %d rows to a program of %d and %d", len(s.X), len(s.Y), len(p.Cost), len(p.B))
	}
	scale, size := 0.0, 0.0 // size is that of the numbers that value and bound are sums of
	for _, b := range p.B {
		scale = max(scale, math.Abs(b))
	}
	for j, x := range s.X {
		if !(x >= -Tolerance*scale) {
			return 0, 0, fmt.Errorf("lp: column %d is %g", j, x)
		}
		value += p.Cost[j] * x
		size += math.Abs(p.Cost[j] * x)
	}
	for i, b := range p.B {
		sum, most := 0.0, math.Abs(b)
		for _, e := range p.rows[i] {
			sum += e.Value * s.X[e.At]
			most = max(most, math.Abs(e.Value*s.X[e.At]))
		}
		if !(sum <= b+Tolerance*max(most, scale*1e-3)) {
			return 0, 0, fmt.Errorf("lp: row %d is %g, more than %g", i, sum, b)
		}
		if !(s.Y[i] >= -Tolerance) {
			return 0, 0, fmt.Errorf("lp: the price of row %d is %g", i, s.Y[i])
		}
		bound += b * s.Y[i]
		size += math.Abs(b * s.Y[i])
	}
	if s.Early {
		return value, math.Inf(1), nil
	}
	for j, c := range p.Cost {
		price, most := 0.0, math.Abs(c)
		for _, e := range p.cols[j] {
			price += e.Value * s.Y[e.At]
			most = max(most, math.Abs(e.Value*s.Y[e.At]))
		}
		if !(price >= c-Tolerance*max(most, 1)) {
			return 0, 0, fmt.Errorf("lp: the price of column %d is %g, less than the %g that it is worth", j, price, c)
		}
	}
	if !(bound <= value || bound-value < apart*size) {
		return 0, 0, fmt.Errorf("lp: the answer is worth %g, and its prices allow %g", value, bound)
	}
	return value, bound, nil
}
