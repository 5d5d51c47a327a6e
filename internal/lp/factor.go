package lp

import (
	"math"
	"slices"
)

// factors is the inverse of a basis B as a product: B = L·U, times an eta for
// each exchange of a column since.
//
// A place in the basis is named by the row that was its pivot. Columns are
// eliminated in an order that costs least: those of a single number (what rows
// have left over), then whatever is triangular as it stands, columns or rows with one number left, and
// only the rest, the nucleus, by Gilbert and Peierls' method (1988), which takes time in proportion to the multiplications. In pipelines on
// a tree the nucleus is small.
type factors struct {
	m     int
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

// eta is one exchange at a place: the new column in terms of the old basis.
type eta struct {
	place    int32
	beg, end int32
	pivot    float64
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
		if math.Abs(at) < 0.01*largest || math.Abs(at) < pivotTolerance {
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

	sound = f.nucleus(head, done, real, taken, rowCount, cols)
	f.byRow()
	return head, sound
}

// nucleus eliminates what is left, sparse columns first.
func (f *factors) nucleus(head []int32, done []bool, real []int32, taken []bool, rowCount []int32, cols [][]Entry) (sound bool) {
	sound = true
	var left []int32
	size := map[int32]int{}
	for k, j := range real {
		if taken[k] {
			continue
		}
		left = append(left, j)
		for _, e := range cols[j] {
			if !done[e.At] {
				size[j]++
			}
		}
	}
	slices.SortFunc(left, func(a, b int32) int {
		if d := size[a] - size[b]; d != 0 {
			return d
		}
		return int(a - b)
	})
	x := make([]float64, f.m)
	seen := make([]bool, f.m)
	var pattern, finished, stack []int32
	next := make([]int32, f.m) // by place, while on the stack: where in L it goes on
	for _, j := range left {
		// Which rows become non-zero, those that are eliminated in an order in which they may be.
		pattern, finished = pattern[:0], finished[:0]
		for _, e := range cols[j] {
			x[e.At] = e.Value
			if seen[e.At] {
				continue
			}
			seen[e.At] = true
			stack = append(stack[:0], e.At)
			next[e.At] = f.lBeg[e.At]
			for len(stack) > 0 {
				i := stack[len(stack)-1]
				if done[i] && next[i] < f.lEnd[i] {
					to := f.lRow[next[i]]
					next[i]++
					if !seen[to] {
						seen[to] = true
						next[to] = f.lBeg[to]
						stack = append(stack, to)
					}
					continue
				}
				stack = stack[:len(stack)-1]
				if done[i] {
					finished = append(finished, i)
				} else {
					pattern = append(pattern, i)
				}
			}
		}
		for k := len(finished) - 1; k >= 0; k-- {
			i := finished[k]
			if v := x[i]; v != 0 {
				for e := f.lBeg[i]; e < f.lEnd[i]; e++ {
					x[f.lRow[e]] -= f.lVal[e] * v
				}
			}
		}
		largest := 0.0
		for _, i := range pattern {
			largest = max(largest, math.Abs(x[i]))
		}
		pivot := int32(-1)
		if largest > 1e-7 {
			for _, i := range pattern {
				if math.Abs(x[i]) >= 0.1*largest && (pivot < 0 || rowCount[i] < rowCount[pivot] || rowCount[i] == rowCount[pivot] && i < pivot) {
					pivot = i
				}
			}
		}
		if pivot < 0 {
			sound = false
		} else {
			f.place(pivot)
			f.diag[pivot] = x[pivot]
			for _, i := range finished {
				if x[i] != 0 {
					f.uRow, f.uVal = append(f.uRow, i), append(f.uVal, x[i])
				}
			}
			for _, i := range pattern {
				if i != pivot && math.Abs(x[i]) > 1e-14 {
					f.lRow, f.lVal = append(f.lRow, i), append(f.lVal, x[i]/x[pivot])
				}
			}
			f.close(pivot)
			head[pivot], done[pivot] = j, true
		}
		for _, i := range pattern {
			x[i], seen[i] = 0, false
		}
		for _, i := range finished {
			x[i], seen[i] = 0, false
		}
	}
	for i := range done {
		if !done[i] {
			head[i], f.unit[i] = ^int32(i), true
		}
	}
	return sound
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

// solve turns x, by row, into B⁻¹x, by place.
func (f *factors) solve(x []float64) {
	for _, i := range f.lOrder {
		if v := x[i]; v != 0 {
			for e := f.lBeg[i]; e < f.lEnd[i]; e++ {
				x[f.lRow[e]] -= f.lVal[e] * v
			}
		}
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
	for k := range f.etas {
		t := &f.etas[k]
		if v := x[t.place]; v != 0 {
			v /= t.pivot
			x[t.place] = v
			for e := t.beg; e < t.end; e++ {
				x[f.eRow[e]] -= f.eVal[e] * v
			}
		}
	}
}

// solveT turns z, by place, into z·B⁻¹, by row.
func (f *factors) solveT(z []float64) {
	for k := len(f.etas) - 1; k >= 0; k-- {
		t := &f.etas[k]
		v := z[t.place]
		for e := t.beg; e < t.end; e++ {
			v -= f.eVal[e] * z[f.eRow[e]]
		}
		z[t.place] = v / t.pivot
	}
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
	for k := len(f.lOrder) - 1; k >= 0; k-- {
		i := f.lOrder[k]
		v := z[i]
		for e := f.lBeg[i]; e < f.lEnd[i]; e++ {
			v -= f.lVal[e] * z[f.lRow[e]]
		}
		z[i] = v
	}
}

// exchange puts a column at a place: alpha is it in terms of the basis, nonzero where it is not 0.
func (f *factors) exchange(place int32, alpha []float64, nonzero []int32) {
	t := eta{place: place, beg: int32(len(f.eRow)), pivot: alpha[place]}
	for _, i := range nonzero {
		if i != place {
			f.eRow, f.eVal = append(f.eRow, i), append(f.eVal, alpha[i])
		}
	}
	t.end = int32(len(f.eRow))
	f.etas = append(f.etas, t)
}
