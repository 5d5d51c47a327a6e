package lp

import (
	"math"
	"math/rand/v2"
	"testing"
)

// basis is one of random columns, some of which are what rows have left over. It has a large nucleus.
func basis(rng *rand.Rand, m int) (vars []int32, cols [][]Entry) {
	for i := range m {
		if rng.IntN(4) == 0 {
			vars = append(vars, ^int32(i))
			continue
		}
		es := []Entry{{int32(i), 1 + rng.Float64()}} // a number of its own, so that columns are independent but by chance
		for _, r := range rng.Perm(m)[:rng.IntN(min(m, 9))] {
			if r != i {
				es = append(es, Entry{int32(r), rng.Float64() - 0.3})
			}
		}
		vars = append(vars, int32(len(cols)))
		cols = append(cols, es)
	}
	return vars, cols
}

// times is B·x, by row, for a basis by place.
func times(head []int32, cols [][]Entry, x []float64) []float64 {
	b := make([]float64, len(head))
	for i, v := range head {
		if v < 0 {
			b[^v] += x[i]
			continue
		}
		for _, e := range cols[v] {
			b[e.At] += e.Value * x[i]
		}
	}
	return b
}

// What is factored solves both ways what it was made from, and still does after exchanges.
func TestFactors(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 41))
		m := 1 + rng.IntN(150)
		vars, cols := basis(rng, m)
		f := factors{strict: seed%2 == 0}
		head, sound := f.build(m, vars, cols)
		if !sound {
			continue // by chance
		}
		right := func(after int) {
			t.Helper()
			want, z := make([]float64, m), make([]float64, m)
			for i := range want {
				want[i], z[i] = rng.Float64(), rng.Float64()
			}
			x := times(head, cols, want)
			y := append([]float64(nil), z...)
			f.solve(x, nil)
			f.solveT(y, nil)
			back := 0.0 // y·B·want is z·want
			for i, v := range times(head, cols, want) {
				back += y[i] * v
			}
			for i := range x {
				back -= z[i] * want[i]
				if math.Abs(x[i]-want[i]) > 1e-5 {
					t.Fatalf("seed %d, %d rows, after %d exchanges: %v at %d, want %v", seed, m, after, x[i], i, want[i])
				}
			}
			if math.Abs(back) > 1e-4 {
				t.Fatalf("seed %d, %d rows, after %d exchanges: the other way round it is off by %v", seed, m, after, back)
			}
		}
		right(0)
		for k := range 20 {
			_, more := basis(rng, m)
			if len(more) == 0 {
				break
			}
			j := int32(len(cols))
			cols = append(cols, more[rng.IntN(len(more))])
			alpha, rho := make([]float64, m), make([]float64, m)
			var half, row sparse
			for _, e := range cols[j] {
				alpha[e.At] = e.Value
			}
			f.solve(alpha, &half)
			place := 0
			for i := range alpha {
				if math.Abs(alpha[i]) > math.Abs(alpha[place]) {
					place = i
				}
			}
			rho[place] = 1
			f.solveT(rho, &row)
			f.exchange(int32(place), alpha[place], &half, &row)
			head[place] = j
			right(k + 1)
		}
	}
}

// Columns that depend on others are left out, and what rows have left over stands in.
func TestDependentColumns(t *testing.T) {
	cols := [][]Entry{{{0, 1}, {1, 1}, {2, 1}}, {{0, 1}, {1, 2}, {2, 1}}, {{0, 2}, {1, 3}, {2, 2}}}
	var f factors
	head, sound := f.build(3, []int32{0, 1, 2}, cols)
	left := 0
	for _, v := range head {
		if v < 0 {
			left++
		}
	}
	if sound || left != 1 {
		t.Errorf("sound: %v, with %v", sound, head)
	}
}

// ringed is a program of columns that are in two rows each, round in a circle. Its basis of all columns, in their order, is one where pivots of a tenth of what is beside
// them cost least, one after the other: what comes to the last row is ten times as much each time, beside its 1. At the optimum all columns and all prices are 1.
func ringed(m int) *Program {
	p := &Program{}
	for range m - 1 {
		p.Row(1.1)
	}
	last := p.Row(2)
	p.Column(2, Entry{last, 1}, Entry{last - 1, 1})
	for i := last - 1; i > 0; i-- {
		p.Column(1.1, Entry{i, 0.1}, Entry{i - 1, 1})
	}
	p.Column(1.1, Entry{0, 0.1}, Entry{last, 1})
	return p
}

// What factors lose is solved for once more, and if that does not help pivots are larger from then on.
func TestLostByRounding(t *testing.T) {
	for _, c := range []struct {
		rows   int
		strict bool
	}{{8, false}, {10, false}, {12, false}, {16, false}, {20, false}, {24, false}, {30, false}, {36, false}, {50, true}, {80, true}} {
		p := ringed(c.rows)
		s := &Simplex{prog: p}
		s.grow()
		for j := range s.head {
			s.head[j] = int32(j)
		}
		if !s.refresh() {
			t.Fatalf("%d rows: the basis is not feasible", c.rows)
		}
		if wrong := largest(s.wrong(s.b, s.x)); wrong > 1e-9 || s.f.strict != c.strict {
			t.Errorf("%d rows: equations are wrong by %v, strict: %v; want less than 1e-9, %v", c.rows, wrong, s.f.strict, c.strict)
		}
		sol := s.answer()
		for _, v := range append(sol.X, sol.Y...) {
			if math.Abs(v-1) > 1e-9 {
				t.Fatalf("%d rows: columns %v and prices %v are not all 1", c.rows, sol.X, sol.Y)
			}
		}
	}
}
