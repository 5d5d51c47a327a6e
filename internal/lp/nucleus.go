package lp

import (
	"math"
	"slices"
)

// nucleus eliminates what is neither a column nor a row with one number left. Each time the number is taken that
// Markowitz (1957) would take: that which makes fewest others non-zero at most, (numbers in its row - 1) · (numbers in its column - 1), of those
// that are not small beside the rest of their row. It is looked for among the shortest rows and columns only.
type nucleus struct {
	rows []active  // by row of the nucleus
	cols [][]int32 // by column of the nucleus: rows in which it has a number
	row  lengths
	col  lengths
	most []float64 // by row: its largest number; 0: not known

	share float64 // of the largest number in its row that a pivot has at least

	work  []float64 // by column: the row that is subtracted
	fresh []bool    // by column: the row that is subtracted has it, and the other one not, as far as is known
}

// active is a row of the nucleus.
type active struct {
	cols []int32
	vals []float64
}

// What a pivot must be: as a share of the largest number in its row, and by itself.
const (
	pivotShare = 0.1
	pivotLeast = 1e-7
	nothing    = 1e-14 // less is nothing
	searched   = 4     // rows and columns in which pivots are looked for
)

// lengths are lists of what is left, rows or columns, by how many numbers they have.
type lengths struct {
	first      []int32 // by length; -1: none
	prev, next []int32 // -1: none
	of         []int32 // the length; -1: it is not left
}

func newLengths(n, most int) lengths {
	l := lengths{first: make([]int32, most+1), prev: make([]int32, n), next: make([]int32, n), of: make([]int32, n)}
	for i := range l.first {
		l.first[i] = -1
	}
	for i := range l.of {
		l.of[i] = -1
	}
	return l
}

// set makes something this long, and takes it out if that is negative.
func (l *lengths) set(i int32, length int) {
	if l.of[i] == int32(length) {
		return
	}
	if l.of[i] >= 0 {
		if l.prev[i] >= 0 {
			l.next[l.prev[i]] = l.next[i]
		} else {
			l.first[l.of[i]] = l.next[i]
		}
		if l.next[i] >= 0 {
			l.prev[l.next[i]] = l.prev[i]
		}
	}
	l.of[i] = int32(length)
	if length < 0 {
		return
	}
	l.prev[i], l.next[i] = -1, l.first[length]
	if l.next[i] >= 0 {
		l.prev[l.next[i]] = i
	}
	l.first[length] = i
}

// nucleus eliminates the columns that are not taken, in the rows that are not done. It says whether it could eliminate all of them.
func (f *factors) nucleus(head []int32, done []bool, real []int32, taken []bool, cols [][]Entry) (sound bool) {
	var left []int32 // by column of the nucleus: the variable
	var rows []int32 // by row of the nucleus: the row
	at := make([]int32, f.m)
	numbers := 0
	for k, j := range real {
		if taken[k] {
			continue
		}
		left = append(left, j)
		for _, e := range cols[j] {
			if !done[e.At] {
				if numbers++; at[e.At] == 0 {
					rows = append(rows, e.At)
					at[e.At] = int32(len(rows))
				}
			}
		}
	}
	n := &nucleus{rows: make([]active, len(rows)), cols: make([][]int32, len(left)), row: newLengths(len(rows), len(left)), col: newLengths(len(left), len(rows)),
		most: make([]float64, len(rows)), share: f.share(pivotShare), work: make([]float64, len(left)), fresh: make([]bool, len(left))}
	for k, j := range left {
		for _, e := range cols[j] {
			if !done[e.At] {
				i := at[e.At] - 1
				n.cols[k] = append(n.cols[k], i)
				n.rows[i].cols = append(n.rows[i].cols, int32(k))
				n.rows[i].vals = append(n.rows[i].vals, e.Value)
			}
		}
		n.col.set(int32(k), len(n.cols[k]))
	}
	for i := range n.rows {
		n.row.set(int32(i), len(n.rows[i].cols))
	}

	// upper is a number of U to the right of a pivot.
	type upper struct {
		col, row int32
		val      float64
	}
	uppers := make([]upper, 0, numbers)
	type pivot struct{ row, col int32 }
	pivots := make([]pivot, 0, len(left))
	for {
		r, c := n.best()
		if r < 0 {
			break
		}
		place := rows[r]
		pivots = append(pivots, pivot{place, c})
		f.order = append(f.order, place)
		head[place] = left[c]
		f.lBeg[place] = int32(len(f.lRow))
		value := n.begin(r, c)
		f.diag[place] = value
		p := &n.rows[r]
		for k, l := range p.cols {
			uppers = append(uppers, upper{l, place, p.vals[k]})
		}
		for _, i := range n.cols[c] {
			if v := n.subtract(i, r, c, value); v != 0 {
				f.lRow, f.lVal = append(f.lRow, rows[i]), append(f.lVal, v)
			}
		}
		n.end(r, c)
		if f.lEnd[place] = int32(len(f.lRow)); f.lEnd[place] > f.lBeg[place] {
			f.lOrder = append(f.lOrder, place)
		}
	}

	// U by columns: what was taken before is in them as it stands.
	begin := make([]int32, len(left)+1)
	for _, u := range uppers {
		begin[u.col+1]++
	}
	for k := range left {
		begin[k+1] += begin[k]
	}
	byCol := make([]int32, len(uppers))
	fill := slices.Clone(begin[:len(left)])
	for k, u := range uppers {
		byCol[fill[u.col]] = int32(k)
		fill[u.col]++
	}
	for _, p := range pivots {
		f.uBeg[p.row] = int32(len(f.uRow))
		for _, e := range cols[left[p.col]] {
			if done[e.At] {
				f.uRow, f.uVal = append(f.uRow, e.At), append(f.uVal, e.Value)
			}
		}
		for _, k := range byCol[begin[p.col]:begin[p.col+1]] {
			f.uRow, f.uVal = append(f.uRow, uppers[k].row), append(f.uVal, uppers[k].val)
		}
		f.uEnd[p.row] = int32(len(f.uRow))
	}
	for _, p := range pivots {
		done[p.row] = true
	}
	for i := range done {
		if !done[i] {
			head[i], f.unit[i] = ^int32(i), true
		}
	}
	return len(pivots) == len(left)
}

// best is the row and the column of the next pivot; -1 if there is none left.
func (n *nucleus) best() (row, col int32) {
	row, col = -1, -1
	cost, seen := math.Inf(1), 0
	consider := func(r, c int32, v float64) {
		if math.Abs(v) < max(pivotLeast, n.share*n.largest(r)) {
			return
		}
		if k := float64(n.row.of[r]-1) * float64(n.col.of[c]-1); k < cost {
			row, col, cost = r, c, k
		}
	}
	for length := 1; length < max(len(n.row.first), len(n.col.first)); length++ {
		if short := float64(length-1) * float64(length-1); cost <= short {
			break
		}
		if length < len(n.col.first) {
			for c := n.col.first[length]; c >= 0; c = n.col.next[c] {
				for _, r := range n.cols[c] {
					a := &n.rows[r]
					consider(r, c, a.vals[slices.Index(a.cols, c)])
				}
				if seen++; cost == 0 || seen >= searched && row >= 0 {
					return row, col
				}
			}
		}
		if length < len(n.row.first) {
			for r := n.row.first[length]; r >= 0; r = n.row.next[r] {
				a := &n.rows[r]
				for k, c := range a.cols {
					consider(r, c, a.vals[k])
				}
				if seen++; cost == 0 || seen >= searched && row >= 0 {
					return row, col
				}
			}
		}
	}
	return row, col
}

// largest is the largest number of a row.
func (n *nucleus) largest(r int32) float64 {
	if n.most[r] == 0 {
		for _, v := range n.rows[r].vals {
			n.most[r] = max(n.most[r], math.Abs(v))
		}
	}
	return n.most[r]
}

// begin takes the row and the column of a pivot out of what is left, and the pivot, which it returns, out of the row. The column keeps the other rows.
func (n *nucleus) begin(r, c int32) (value float64) {
	p := &n.rows[r]
	k := slices.Index(p.cols, c)
	value = p.vals[k]
	p.drop(k)
	n.row.set(r, -1)
	n.col.set(c, -1)
	for k, l := range p.cols {
		n.leave(l, r)
		n.work[l], n.fresh[l] = p.vals[k], true
	}
	n.leave(c, r)
	return value
}

// subtract takes so much of row r from row i that nothing is left of it in column c. It returns how many times.
func (n *nucleus) subtract(i, r, c int32, value float64) (times float64) {
	a, p := &n.rows[i], &n.rows[r]
	k := slices.Index(a.cols, c)
	times = a.vals[k] / value
	a.drop(k)
	for k := 0; k < len(a.cols); k++ {
		l := a.cols[k]
		if !n.fresh[l] {
			continue
		}
		n.fresh[l] = false
		if a.vals[k] -= times * n.work[l]; math.Abs(a.vals[k]) < nothing {
			n.leave(l, i)
			a.drop(k)
			k--
		}
	}
	for _, l := range p.cols {
		if n.fresh[l] {
			if v := -times * n.work[l]; math.Abs(v) >= nothing {
				a.cols, a.vals = append(a.cols, l), append(a.vals, v)
				n.cols[l] = append(n.cols[l], i)
			}
		}
		n.fresh[l] = true
	}
	n.most[i] = 0
	n.row.set(i, len(a.cols))
	return times
}

// end is after the pivot's column has been subtracted from all rows.
func (n *nucleus) end(r, c int32) {
	for _, l := range n.rows[r].cols {
		n.fresh[l] = false
		n.col.set(l, len(n.cols[l]))
	}
	n.rows[r], n.cols[c] = active{}, nil
}

// leave takes row r out of column c.
func (n *nucleus) leave(c, r int32) {
	rows := n.cols[c]
	k := slices.Index(rows, r)
	rows[k] = rows[len(rows)-1]
	n.cols[c] = rows[:len(rows)-1]
}

// drop takes the number at k out.
func (a *active) drop(k int) {
	last := len(a.cols) - 1
	a.cols[k], a.vals[k] = a.cols[last], a.vals[last]
	a.cols, a.vals = a.cols[:last], a.vals[:last]
}
