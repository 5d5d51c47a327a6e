package lp

import (
	"cmp"
	"errors"
	"math"
	"slices"
)

// Crossover makes s go on from a vertex that is worth no less than x, which must be feasible, but for floors; missing entries of x count as 0. Of the columns that
// are not 0 at x one after the other is made larger or smaller, whichever is worth more, until it comes into the basis or to 0 (Megiddo 1991). Each takes
// less than an exchange, and there are no more than such columns.
func (s *Simplex) Crossover(p *Program, x []float64) error {
	*s = s.anew(p)
	s.grow()
	at := make([]float64, len(p.Cost)) // what is neither in the basis nor 0, in units of scale
	var pending []int32
	for j, v := range x {
		at[j] = v / s.scale
	}
	for i, j := range p.first {
		if j < 0 {
			continue
		}
		at[j] = 0
		left := s.b[i]
		for _, e := range p.rows[i] {
			left -= e.Value * at[e.At]
		}
		if left >= 0 { // a floor that is held: what it lacks is not in the basis
			s.head[i] = ^int32(i)
		}
	}
	for j, v := range at {
		if v > 1e-9 {
			pending = append(pending, int32(j))
		}
	}
	slices.SortStableFunc(pending, func(a, b int32) int { return cmp.Compare(at[b], at[a]) })
	pushes := 3*len(pending) + 100 // so many, and then what a basis cannot hold is 0
	build := func() {
		head, sound := s.f.build(len(p.B), s.head, p.cols)
		if !sound && pushes > 0 { // what depends on the rest of the basis waits once more, with what it has
			stays := make(map[int32]bool, len(head))
			for _, j := range head {
				stays[j] = true
			}
			for i, j := range s.head {
				if j >= 0 && !stays[j] {
					at[j] = max(s.x[i], 0)
					pending = append(pending, j)
				}
			}
		}
		s.head = head
		copy(s.x, s.b)
		for _, j := range pending {
			for _, e := range p.cols[j] {
				s.x[e.At] -= e.Value * at[j]
			}
		}
		s.f.solve(s.x, nil)
	}
	build()
	for len(pending) > 0 {
		if len(s.f.etas) >= 100 || len(s.f.eRow) > 3*len(p.B)+len(s.f.uRow)+1000 {
			build()
		}
		j := pending[0]
		clear(s.alpha)
		for _, e := range p.cols[j] {
			s.alpha[e.At] = e.Value
		}
		s.f.solve(s.alpha, &s.half)
		reduced := p.Cost[j]
		for i, a := range s.alpha {
			if a != 0 && s.head[i] >= 0 {
				reduced -= p.Cost[s.head[i]] * a
			}
		}
		sign := 1.0
		if reduced < 0 {
			sign = -1
		}
		const rounding = 1e-10
		step := math.Inf(1)
		for i, a := range s.alpha {
			if a *= sign; a > 1e-9 {
				step = min(step, (max(s.x[i], 0)+rounding)/a)
			}
		}
		if sign < 0 && step >= at[j] || math.IsInf(step, 1) && at[j] < 1e-9 {
			for i, a := range s.alpha {
				s.x[i] += at[j] * a
			}
			pending = pending[1:]
			continue
		}
		if math.IsInf(step, 1) {
			s.prog = nil
			return errors.New("lp: the program has no bound")
		}
		r := -1
		for i, a := range s.alpha {
			if a *= sign; a > 1e-9 && max(s.x[i], 0)/a <= step && (r < 0 || a > sign*s.alpha[r]) {
				r = i
			}
		}
		if sign*s.alpha[r] < 1e-7*max(1, largest(s.alpha)) && len(s.f.etas) > 0 {
			build() // is it that small?
			continue
		}
		pending, pushes = pending[1:], pushes-1
		step = max(s.x[r], 0) / s.alpha[r] // with its sign
		clear(s.rho)
		s.rho[r] = 1
		s.f.solveT(s.rho, &s.halfRow)
		for i, a := range s.alpha {
			s.x[i] -= step * a
		}
		s.x[r] = at[j] + step
		s.head[r] = j
		s.Steps++
		s.f.exchange(int32(r), s.alpha[r], &s.half, &s.halfRow)
	}
	return nil
}
