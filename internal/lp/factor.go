package lp

import (
	"math"
	"slices"
)

// factors is the inverse of a basis B as a product: B = L·U, with an eta in the middle for
// each exchange of a column since.
//
// A place in the basis is named by the row that was its pivot. Columns are
// eliminated in an order that costs least: those of a single number (what rows
// have left over), then whatever is triangular as it stands, columns or rows with one number left, and
// only the rest, the nucleus, with a choice of pivots (nucleus.go). In pipelines on
// a tree the nucleus is small, with cycles it is hundreds of columns.
type factors struct {
	m      int
	strict bool // pivots are half of what is beside them at least: for programs that lose too much by rounding with smaller ones

	order []int32 // places of real columns, in the order of elimination
	unit  []bool  // by place: it holds what its row has left over

	lOrder     []int32 // places with something in L, in order
	lBeg, lEnd []int32 // by place
	lRow       []int32
	lVal       []float64

	diag       []float64
	uBeg, uEnd []int32 // by place: the column of U above the diagonal
	uRow       []int32
	uVal       []float64
	rBeg       []int32 // by place: the row of U to the right of the diagonal
	rCol       []int32
	rVal       []float64

	etas []eta
	eRow []int32
	eVal []float64
}

// eta is one exchange of a column, I + c·r in the middle between L and U: r is the row of the inverse of U at that place, and c what L and the etas before make of
// the new column, less what U has at that place. Neither has been through all of the basis, so they have far fewer numbers than
// the new column in terms of the basis has, which would do as well behind U (middle and plain product form; Huangfu and Hall 2015).
type eta struct {
	beg, mid, end int32 // c, then r, in eRow and eVal
	pivot         float64
}

// sparse are the numbers of a vector that are something.
type sparse struct {
	at  []int32
	val []float64
}

func (s *sparse) of(x []float64) {
	s.at, s.val = s.at[:0], s.val[:0]
	for i, v := range x {
		if math.Abs(v) > nothing {
			s.at, s.val = append(s.at, int32(i)), append(s.val, v)
		}
	}
}

const pivotTolerance = 1e-9

// build factors the basis of these variables, a column each, or ^i for what row i has left over.
// It returns them by place. Columns that depend on others are left out, and what a row has left over
// stands in; sound says that there were none.
func (f *factors) build(m int, vars []int32, cols [][]Entry) (head []int32, sound bool) {
	head = make([]int32, m)
	done := make([]bool, m)
	f.reset(m)
	var real []int32
	for _, v := range vars {
		if v < 0 {
			head[^v], done[^v], f.unit[^v] = v, true, true
		} else {
			real = append(real, v)
		}
	}

	// The part of the real columns in rows that are not taken, by rows.
	count := make([]int32, len(real)) // by column
	rowBeg := make([]int32, m+1)
	for k, j := range real {
		for _, e := range cols[j] {
			if !done[e.At] {
				count[k]++
				rowBeg[e.At+1]++
			}
		}
	}
	for i := range m {
		rowBeg[i+1] += rowBeg[i]
	}
	inRow := make([]int32, rowBeg[m])
	fill := slices.Clone(rowBeg[:m])
	rowCount := make([]int32, m)
	for k, j := range real {
		for _, e := range cols[j] {
			if !done[e.At] {
				inRow[fill[e.At]] = int32(k)
				fill[e.At]++
				rowCount[e.At]++
			}
		}
	}
	taken := make([]bool, len(real))

	// Columns with one number left.
	var queue []int32
	for k, c := range count {
		if c == 1 {
			queue = append(queue, int32(k))
		}
	}
	for len(queue) > 0 {
		k := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if taken[k] || count[k] != 1 {
			continue
		}
		j := real[k]
		pivot := int32(-1)
		for _, e := range cols[j] {
			if !done[e.At] {
				pivot = e.At
				f.diag[pivot] = e.Value
			}
		}
		if math.Abs(f.diag[pivot]) < pivotTolerance {
			f.diag[pivot] = 1
			continue
		}
		taken[k] = true
		f.place(pivot)
		for _, e := range cols[j] {
			if e.At != pivot {
				f.uRow, f.uVal = append(f.uRow, e.At), append(f.uVal, e.Value)
			}
		}
		f.uEnd[pivot] = int32(len(f.uRow))
		head[pivot], done[pivot] = j, true
		for _, k := range inRow[rowBeg[pivot]:rowBeg[pivot+1]] {
			if count[k]--; count[k] == 1 && !taken[k] {
				queue = append(queue, k)
			}
		}
	}

	// Rows with one number left.
	for i := range rowCount {
		rowCount[i] = 0
		if done[i] {
			continue
		}
		for _, k := range inRow[rowBeg[i]:rowBeg[i+1]] {
			if !taken[k] {
				rowCount[i]++
			}
		}
		if rowCount[i] == 1 {
			queue = append(queue, int32(i))
		}
	}
	for len(queue) > 0 {
		pivot := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if done[pivot] || rowCount[pivot] != 1 {
			continue
		}
		k := int32(-1)
		for _, c := range inRow[rowBeg[pivot]:rowBeg[pivot+1]] {
			if !taken[c] {
				k = c
			}
		}
		j := real[k]
		at, largest := 0.0, 0.0
		for _, e := range cols[j] {
			if e.At == pivot {
				at = e.Value
			}
			if !done[e.At] {
				largest = max(largest, math.Abs(e.Value))
			}
		}
		if share := f.share(0.01); math.Abs(at) < share*largest || math.Abs(at) < pivotTolerance {
			continue // the nucleus finds a better pivot
		}
		taken[k] = true
		f.place(pivot)
		f.diag[pivot] = at
		done[pivot] = true
		for _, e := range cols[j] {
			switch {
			case e.At == pivot:
			case done[e.At]:
				f.uRow, f.uVal = append(f.uRow, e.At), append(f.uVal, e.Value)
			default:
				f.lRow, f.lVal = append(f.lRow, e.At), append(f.lVal, e.Value/at)
				if rowCount[e.At]--; rowCount[e.At] == 1 {
					queue = append(queue, e.At)
				}
			}
		}
		f.close(pivot)
		head[pivot] = j
	}

	sound = f.nucleus(head, done, real, taken, cols)
	f.byRow()
	return head, sound
}

// share is what pivots have at least of the largest number beside them, usually that much.
func (f *factors) share(usual float64) float64 {
	if f.strict {
		return 0.5
	}
	return usual
}

func (f *factors) reset(m int) {
	f.m = m
	f.order, f.lOrder = f.order[:0], f.lOrder[:0]
	f.unit = cleared(f.unit, m)
	f.lBeg, f.lEnd = cleared(f.lBeg, m), cleared(f.lEnd, m)
	f.uBeg, f.uEnd = cleared(f.uBeg, m), cleared(f.uEnd, m)
	f.rBeg = cleared(f.rBeg, m+1)
	f.diag = cleared(f.diag, m)
	for i := range f.diag {
		f.diag[i] = 1
	}
	f.lRow, f.lVal, f.uRow, f.uVal = f.lRow[:0], f.lVal[:0], f.uRow[:0], f.uVal[:0]
	f.etas, f.eRow, f.eVal = f.etas[:0], f.eRow[:0], f.eVal[:0]
}

// cleared is s with n zeros.
func cleared[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, n+n/4)
	}
	s = s[:n]
	clear(s)
	return s
}

func (f *factors) place(i int32) {
	f.order = append(f.order, i)
	f.lBeg[i], f.lEnd[i] = int32(len(f.lRow)), int32(len(f.lRow))
	f.uBeg[i], f.uEnd[i] = int32(len(f.uRow)), int32(len(f.uRow))
}

func (f *factors) close(i int32) {
	f.lEnd[i], f.uEnd[i] = int32(len(f.lRow)), int32(len(f.uRow))
	if f.lEnd[i] > f.lBeg[i] {
		f.lOrder = append(f.lOrder, i)
	}
}

// byRow copies U row by row.
func (f *factors) byRow() {
	for _, i := range f.uRow {
		f.rBeg[i+1]++
	}
	for i := range f.m {
		f.rBeg[i+1] += f.rBeg[i]
	}
	f.rCol, f.rVal = cleared(f.rCol, len(f.uRow)), cleared(f.rVal, len(f.uRow))
	fill := slices.Clone(f.rBeg[:f.m])
	for _, c := range f.order {
		for e := f.uBeg[c]; e < f.uEnd[c]; e++ {
			i := f.uRow[e]
			f.rCol[fill[i]], f.rVal[fill[i]] = c, f.uVal[e]
			fill[i]++
		}
	}
}

// solve turns x, by row, into B⁻¹x, by place. Half of the way is what exchange wants; nil: nobody does.
func (f *factors) solve(x []float64, half *sparse) {
	for _, i := range f.lOrder {
		if v := x[i]; v != 0 {
			for e := f.lBeg[i]; e < f.lEnd[i]; e++ {
				x[f.lRow[e]] -= f.lVal[e] * v
			}
		}
	}
	for k := range f.etas {
		t := &f.etas[k]
		f.apply(x, t.mid, t.end, t.beg, t.mid, t.pivot)
	}
	if half != nil {
		half.of(x)
	}
	for k := len(f.order) - 1; k >= 0; k-- {
		i := f.order[k]
		if v := x[i]; v != 0 {
			v /= f.diag[i]
			x[i] = v
			for e := f.uBeg[i]; e < f.uEnd[i]; e++ {
				x[f.uRow[e]] -= f.uVal[e] * v
			}
		}
	}
}

// apply takes from x what is from beg to end, as often as what is from one to other is in x.
func (f *factors) apply(x []float64, one, other, beg, end int32, pivot float64) {
	v := 0.0
	for e := one; e < other; e++ {
		v += f.eVal[e] * x[f.eRow[e]]
	}
	if v == 0 {
		return
	}
	v /= pivot
	for e := beg; e < end; e++ {
		x[f.eRow[e]] -= f.eVal[e] * v
	}
}

// solveT turns z, by place, into z·B⁻¹, by row. Half of the way is what exchange wants; nil: nobody does.
func (f *factors) solveT(z []float64, half *sparse) {
	for i, u := range f.unit {
		if v := z[i]; u && v != 0 {
			for e := f.rBeg[i]; e < f.rBeg[i+1]; e++ {
				z[f.rCol[e]] -= f.rVal[e] * v
			}
		}
	}
	for _, i := range f.order {
		if v := z[i]; v != 0 {
			v /= f.diag[i]
			z[i] = v
			for e := f.rBeg[i]; e < f.rBeg[i+1]; e++ {
				z[f.rCol[e]] -= f.rVal[e] * v
			}
		}
	}
	if half != nil {
		half.of(z)
	}
	for k := len(f.etas) - 1; k >= 0; k-- {
		t := &f.etas[k]
		f.apply(z, t.beg, t.mid, t.mid, t.end, t.pivot)
	}
	for k := len(f.lOrder) - 1; k >= 0; k-- {
		i := f.lOrder[k]
		v := z[i]
		for e := f.lBeg[i]; e < f.lEnd[i]; e++ {
			v -= f.lVal[e] * z[f.lRow[e]]
		}
		z[i] = v
	}
}

// exchange puts a column at a place: pivot is what it has there in terms of the basis, column what it is half of the way to that, and row
// the place half of the way to its row of the inverse.
func (f *factors) exchange(place int32, pivot float64, column, row *sparse) {
	t := eta{beg: int32(len(f.eRow)), pivot: pivot}
	f.eRow, f.eVal = append(append(f.eRow, column.at...), place), append(append(f.eVal, column.val...), -f.diag[place])
	for e := f.uBeg[place]; e < f.uEnd[place]; e++ {
		f.eRow, f.eVal = append(f.eRow, f.uRow[e]), append(f.eVal, -f.uVal[e])
	}
	t.mid = int32(len(f.eRow))
	f.eRow, f.eVal = append(f.eRow, row.at...), append(f.eVal, row.val...)
	t.end = int32(len(f.eRow))
	f.etas = append(f.etas, t)
}
