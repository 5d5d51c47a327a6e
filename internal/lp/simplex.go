package lp

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// Simplex is the revised primal simplex method for the programs of this package,
// which begin at x = 0: there is no first phase. Columns are priced by devex
// weights (Forrest and Goldfarb 1992), rates that tie are told apart by moving each right side
// up by between one and two ten-millionths, and the answer is computed once more with the true ones.
//
// Asked again about the same Program it goes on from the basis where it was. After new columns, rows and costs that is
// feasible; after other right sides it is made so again (repair), or it begins anew.
//
// One step costs O(rows + columns + entries of the rows whose price changes). The zero Simplex is ready. Not for concurrent use.
type Simplex struct {
	Seed  uint64 // of what tells ties apart
	Steps int    // exchanges so far, for whoever wants to know
	Most  int    // exchanges in one call of Solve, which begins where the last one ended or fails; 0: any number, from wherever it takes

	Enough func() bool // asked once in 64 exchanges; when it says so the answer is what there is then. Nil: nobody has enough

	prog  *Program
	f     factors
	scale float64
	b     []float64 // by row: the right side, moved, in units of scale
	head  []int32   // by place: column, or ^i for what row i has left over
	x     []float64 // by place: its value
	y     []float64 // by row

	basic, spare []bool    // by column, by row: in the basis
	reduced      []float64 // by column: the reduced cost, which is what a unit of it gains; exact after refresh, else carried on
	weight       []float64
	rowWeight    []float64

	alpha, rho    []float64
	half, halfRow sparse // see factors.exchange
	across        []float64
	touched       []int32
	columns       []int32
}

// tie is how far right sides are moved, relatively.
const tie = 1e-7

// Basis is where a Simplex is; see Keep.
type Basis struct {
	head []int32
}

// Keep returns where s is, for Back.
func (s *Simplex) Keep() Basis { return Basis{append([]int32(nil), s.head...)} }

// Back makes s go on from b the next time. Rows and columns that were added since may stay; columns of b must not
// have changed.
func (s *Simplex) Back(b Basis) {
	s.head = append(s.head[:0], b.head...)
}

// anew is s as it was made, for a program.
func (s *Simplex) anew(p *Program) Simplex {
	return Simplex{Seed: s.Seed, Steps: s.Steps, Most: s.Most, Enough: s.Enough, prog: p}
}

// Solve solves p. An error means that the numbers got out of hand, or that p has no bound. After Most exchanges, or Enough, the answer is as good as it is then.
func (s *Simplex) Solve(p *Program) (Solution, error) {
	if s.prog != p {
		*s = s.anew(p)
	}
	s.grow()
	feasible := s.refresh()
	if s.flip() {
		feasible = s.refresh()
	}
	if !feasible && s.Most > 0 {
		return Solution{}, errors.New("lp: right sides have changed, and the basis is no longer feasible")
	}
	if !feasible && !s.repair() && !s.again() {
		return Solution{}, errors.New("lp: the program has no point to begin at")
	}
	// Rounding may make a basis infeasible by a little, where very many rows tie.
	mends := 0
	refreshed := func() bool {
		if s.refresh() {
			return true
		}
		mends++
		return mends <= 5 && (s.repair() || s.again())
	}
	limit := 200*(len(p.B)+len(p.Cost)) + 10000
	fresh, early, enough := true, false, false
	for step := 0; ; step++ {
		if step > limit {
			return Solution{}, fmt.Errorf("lp: no end after %d steps with %d rows and %d columns", step, len(p.B), len(p.Cost))
		}
		if len(s.f.etas) >= 100 || len(s.f.eRow) > 3*len(p.B)+len(s.f.uRow)+1000 {
			if !refreshed() {
				return Solution{}, errInfeasible
			}
			fresh = true
		}
		q := s.entering()
		if step%64 == 63 && s.Enough != nil {
			enough = enough || s.Enough()
		}
		early = q != none && (enough || s.Most > 0 && step >= s.Most)
		if q == none || early {
			if fresh && (early || mends >= 5 || s.lowest() >= -1e-9) {
				break
			}
			if fresh { // what is below zero is more than rows of small right sides may be off; prices are right, so a few exchanges mend it
				mends++
				s.repair()
			}
			if !refreshed() {
				return Solution{}, errInfeasible
			}
			fresh = true
			continue
		}
		ok, err := s.exchange(q)
		switch {
		case err != nil:
			return Solution{}, err
		case !ok && fresh:
			return Solution{}, errors.New("lp: the basis is singular to working precision")
		case !ok:
			if !refreshed() {
				return Solution{}, errInfeasible
			}
			fresh = true
		default:
			fresh = false
			s.Steps++
		}
	}
	sol := s.answer()
	sol.Early = early
	return sol, nil
}

var errInfeasible = errors.New("lp: the basis has become infeasible")

const none = math.MinInt32

// grow takes up what p got since the last time.
func (s *Simplex) grow() {
	p := s.prog
	for i := len(s.head); i < len(p.B); i++ {
		v := p.first[i]
		if v < 0 {
			v = ^int32(i)
		}
		s.head = append(s.head, v)
	}
	s.scale = p.scale()
	rng := rand.New(rand.NewPCG(s.Seed, 0x6c70))
	s.b = s.b[:0]
	for _, b := range p.B {
		b /= s.scale
		move := tie * (1 + rng.Float64())
		switch {
		case b < 0: // a floor rises, so that the answer still holds it when it is scaled down
			b *= 1 + 2*tie + move
		case b < 1e-9: // nothing, or what rounding has left of something
			b += move * 1e-3
		default:
			b += move * b
		}
		s.b = append(s.b, b)
	}
	m, n := len(p.B), len(p.Cost)
	s.basic, s.spare = cleared(s.basic, n), cleared(s.spare, m)
	s.reduced, s.weight, s.across = cleared(s.reduced, n), cleared(s.weight, n), cleared(s.across, n)
	s.x, s.y, s.rowWeight = cleared(s.x, m), cleared(s.y, m), cleared(s.rowWeight, m)
	s.alpha, s.rho = cleared(s.alpha, m), cleared(s.rho, m)
	for i := range s.weight {
		s.weight[i] = 1
	}
	for i := range s.rowWeight {
		s.rowWeight[i] = 1
	}
}

// refresh factors the basis anew and computes everything from it. It says whether x is feasible.
func (s *Simplex) refresh() bool {
	p := s.prog
	head, _ := s.f.build(len(p.B), s.head, p.cols)
	s.head = head
	clear(s.basic)
	clear(s.spare)
	for i, v := range s.head {
		if v < 0 {
			s.spare[^v] = true
			s.y[i] = 0
		} else {
			s.basic[v] = true
			s.y[i] = p.Cost[v]
		}
	}
	s.f.solveT(s.y, nil)
	copy(s.x, s.b)
	s.f.solve(s.x, nil)
	if !(s.refine() < 1e-7) && !s.f.strict { // the pivots were too small
		s.f.strict = true
		return s.refresh()
	}
	for j := range p.Cost {
		s.reduced[j] = s.gain(int32(j))
	}
	for _, x := range s.x {
		if !(x >= -1e-8) {
			return false
		}
	}
	return true
}

// refine takes from x and y what factors have lost by rounding: as long as the equations are wrong by much, what is wrong is solved for once
// more. It returns by how much they are wrong then, those of prices beside the largest price.
func (s *Simplex) refine() float64 {
	p := s.prog
	dear := s.rho
	for try := 0; ; try++ {
		wrong := s.wrong(s.b, s.x)
		for i, v := range s.head {
			if v < 0 {
				dear[i] = -s.y[i]
				continue
			}
			dear[i] = p.Cost[v]
			for _, e := range p.cols[v] {
				dear[i] -= e.Value * s.y[e.At]
			}
		}
		less, more := largest(wrong), largest(dear)
		if max(less, more) < 1e-9 || try == 3 {
			return max(less, more/max(1, largest(s.y)))
		}
		s.f.solve(wrong, nil)
		s.f.solveT(dear, nil)
		for i := range wrong {
			s.x[i] += wrong[i]
			s.y[i] += dear[i]
		}
	}
}

// wrong is by row what b has more than the columns of the basis take at x. It is alpha's memory.
func (s *Simplex) wrong(b, x []float64) []float64 {
	copy(s.alpha, b)
	for i, v := range s.head {
		if v < 0 {
			s.alpha[i] -= x[i]
			continue
		}
		for _, e := range s.prog.cols[v] {
			s.alpha[e.At] -= e.Value * x[i]
		}
	}
	return s.alpha
}

func largest(v []float64) (most float64) {
	for _, x := range v {
		most = max(most, math.Abs(x))
	}
	return most
}

// gain is what a unit of column j is worth at the prices y, more than it costs.
func (s *Simplex) gain(j int32) float64 {
	if s.basic[j] {
		return 0
	}
	d := s.prog.Cost[j]
	for _, e := range s.prog.cols[j] {
		d -= e.Value * s.y[e.At]
	}
	return d
}

// entering is the column, or ^i for what row i has left over, that is worth most for its weight; or none.
func (s *Simplex) entering() int32 {
	const least = 1e-9
	best, q := 0.0, int32(none)
	for j, d := range s.reduced {
		if d > least*(1+math.Abs(s.prog.Cost[j])) && !s.basic[j] {
			if v := d * d / s.weight[j]; v > best {
				best, q = v, int32(j)
			}
		}
	}
	for i, y := range s.y {
		if y < -least && !s.spare[i] {
			if v := y * y / s.rowWeight[i]; v > best {
				best, q = v, ^int32(i)
			}
		}
	}
	return q
}

// exchange brings q into the basis. ok is false if the basis has to be factored anew first.
func (s *Simplex) exchange(q int32) (ok bool, err error) {
	reduced, nonzero := s.load(q)
	weight := 0.0
	if q < 0 {
		weight = s.rowWeight[^q]
	} else {
		weight = s.weight[q]
	}

	// The row that leaves: of those that come to zero first, up to rounding, the one that divides best (Harris 1973).
	const rounding = 1e-10
	step, exact := math.Inf(1), 0.0
	for _, i := range nonzero {
		a := s.alpha[i]
		if v := s.head[i]; v >= 0 {
			exact -= s.prog.Cost[v] * a
		}
		if a > 1e-9 {
			step = min(step, (max(s.x[i], 0)+rounding)/a)
		}
	}
	if q >= 0 {
		exact += s.prog.Cost[q]
	}
	if math.Abs(exact-reduced) > 1e-7*(1+math.Abs(reduced)) {
		if len(s.f.etas) > 0 {
			return false, nil
		}
		reduced = exact
		if q >= 0 {
			s.reduced[q] = exact
		}
	}
	if math.IsInf(step, 1) {
		return false, fmt.Errorf("lp: the program has no bound: column %d may be as large as one likes", q)
	}
	r := int32(-1)
	for _, i := range nonzero {
		if a := s.alpha[i]; a > 1e-9 && max(s.x[i], 0)/a <= step && (r < 0 || a > s.alpha[r]) {
			r = i
		}
	}
	if s.alpha[r] < 1e-7*max(1, largest(s.alpha)) && len(s.f.etas) > 0 {
		return false, nil
	}
	columns := s.row(r)
	pivot := 0.0 // the same number, by way of the row
	if q < 0 {
		pivot = s.rho[^q]
	} else {
		pivot = s.across[q]
	}
	if !(math.Abs(pivot-s.alpha[r]) <= 1e-6*s.alpha[r]) && len(s.f.etas) > 0 {
		s.drop(columns)
		return false, nil
	}
	s.turn(q, r, reduced, weight, nonzero, columns)
	return true, nil
}

// load makes alpha what q is in terms of the basis. It returns what a unit of q gains, and the places where alpha is something.
func (s *Simplex) load(q int32) (reduced float64, nonzero []int32) {
	clear(s.alpha)
	if q < 0 {
		s.alpha[^q] = 1
		reduced = -s.y[^q]
	} else {
		for _, e := range s.prog.cols[q] {
			s.alpha[e.At] = e.Value
		}
		reduced = s.reduced[q]
	}
	s.f.solve(s.alpha, &s.half)
	nonzero = s.touched[:0]
	for i, a := range s.alpha {
		if a == 0 {
			continue
		}
		if math.Abs(a) < 1e-13 {
			s.alpha[i] = 0
			continue
		}
		nonzero = append(nonzero, int32(i))
	}
	s.touched = nonzero
	return reduced, nonzero
}

// drop clears across, which is something at these columns.
func (s *Simplex) drop(columns []int32) {
	for _, j := range columns {
		s.across[j] = 0
	}
}

// row makes rho the row of the inverse at a place, and across what each column is there; it returns those that are something.
func (s *Simplex) row(r int32) (columns []int32) {
	clear(s.rho)
	s.rho[r] = 1
	s.f.solveT(s.rho, &s.halfRow)
	columns = s.columns[:0]
	for i, v := range s.rho {
		if math.Abs(v) < 1e-13 {
			s.rho[i] = 0
			continue
		}
		for _, e := range s.prog.rows[i] {
			if s.across[e.At] == 0 {
				columns = append(columns, e.At)
			}
			s.across[e.At] += e.Value * v
		}
	}
	s.columns = columns
	return columns
}

// turn puts q, which is alpha in terms of the basis, at the place r, and carries everything on: rho and across are of that row.
func (s *Simplex) turn(q, r int32, reduced, weight float64, nonzero, columns []int32) {
	pivot := s.alpha[r]
	ratio := reduced / pivot
	for i, v := range s.rho {
		if v == 0 {
			continue
		}
		s.y[i] += ratio * v
		if !s.spare[i] {
			s.rowWeight[i] = max(s.rowWeight[i], v*v/(pivot*pivot)*weight)
		}
	}
	for _, j := range columns {
		a := s.across[j]
		s.across[j] = 0
		if s.basic[j] || a == 0 {
			continue
		}
		s.reduced[j] -= ratio * a
		s.weight[j] = max(s.weight[j], a*a/(pivot*pivot)*weight)
	}

	step := s.x[r] / pivot
	if pivot > 0 {
		step = max(step, 0)
	}
	for _, i := range nonzero {
		s.x[i] -= step * s.alpha[i]
	}
	s.x[r] = step
	out := s.head[r]
	s.head[r] = q
	gone := max(weight/(pivot*pivot), 1)
	if out < 0 {
		s.spare[^out] = false
		s.rowWeight[^out] = gone
	} else {
		s.basic[out] = false
		s.reduced[out] = -ratio
		s.weight[out] = gone
	}
	if q < 0 {
		s.spare[^q] = true
	} else {
		s.basic[q] = true
		s.reduced[q] = 0
	}
	s.f.exchange(r, s.alpha[r], &s.half, &s.halfRow)
}

// lowest is the lowest number of x.
func (s *Simplex) lowest() (least float64) {
	for _, x := range s.x {
		least = min(least, x)
	}
	return least
}

// again begins anew. It says whether there is a point to begin at.
func (s *Simplex) again() bool {
	s.head = s.head[:0]
	s.grow()
	return s.refresh()
}

// flip takes what a floor lacks out of the basis where that is nothing, or has become negative, which is where the floor is more than held: what
// its row has left over stands in, with the sign turned round, and nothing else changes. It says whether there were such.
func (s *Simplex) flip() (some bool) {
	for i, v := range s.head {
		if v >= 0 && v == s.prog.first[i] && s.x[i] <= 1e-9 {
			s.head[i], some = ^int32(i), true
		}
	}
	return some
}

// repair makes a basis feasible that was before right sides changed, by the dual simplex method: of what is below zero the lowest
// leaves, and what enters is what keeps most prices right. Few changes take few exchanges. It says whether it has succeeded.
func (s *Simplex) repair() bool {
	for range 200 + len(s.head)/4 {
		if len(s.f.etas) >= 100 && s.refresh() {
			return true
		}
		r := int32(-1)
		lowest := -1e-9
		for i, x := range s.x {
			if x < lowest {
				r, lowest = int32(i), x
			}
		}
		if r < 0 {
			return s.refresh()
		}
		columns := s.row(r)
		q, least, size := int32(none), math.Inf(1), 0.0
		consider := func(v int32, reduced, a float64) {
			if a > -1e-7 {
				return
			}
			switch t := max(-reduced, 0) / -a; {
			case t > least+1e-9:
			case t < least-1e-9 || -a > size:
				q, least, size = v, min(t, least), -a
			}
		}
		for _, j := range columns {
			if !s.basic[j] {
				consider(j, s.reduced[j], s.across[j])
			}
		}
		for i, v := range s.rho {
			if v != 0 && !s.spare[i] {
				consider(^int32(i), -s.y[i], v)
			}
		}
		if q == none {
			s.drop(columns)
			return false
		}
		reduced, nonzero := s.load(q)
		if s.alpha[r] > -1e-8 { // the row and the column do not agree on it: rounding
			s.drop(columns)
			return false
		}
		s.turn(q, r, min(reduced, 0), 1, nonzero, columns)
		s.Steps++
	}
	return false
}

// answer reads the solution off a fresh basis.
func (s *Simplex) answer() Solution {
	p := s.prog
	sol := Solution{X: make([]float64, len(p.Cost)), Y: make([]float64, len(p.B))}
	for i, y := range s.y {
		sol.Y[i] = max(y, 0)
	}
	// With the true right sides the basis may be infeasible by what moved them; then the moved ones, scaled down, serve.
	b := make([]float64, len(p.B))
	for i := range b {
		b[i] = p.B[i] / s.scale
	}
	x := append([]float64(nil), b...)
	s.f.solve(x, nil)
	for range 3 { // as often as refine
		wrong := s.wrong(b, x)
		if largest(wrong) < 1e-9 {
			break
		}
		s.f.solve(wrong, nil)
		for i := range x {
			x[i] += wrong[i]
		}
	}
	shrink := 1.0
	for _, v := range x {
		if v < -1e-11 {
			x, shrink = s.x, 1/(1+2*tie)
			break
		}
	}
	for i, v := range s.head {
		if v >= 0 {
			sol.X[v] = max(x[i], 0) * s.scale * shrink
		}
	}
	return sol
}
