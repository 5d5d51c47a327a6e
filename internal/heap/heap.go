// Package heap is a binary heap that takes out the least of what was put in: an element is up to three numbers or strings, of which the first counts
// most.
//
//	var nearest heap.Heap[time.Duration, int32, int32] // how far, over how many links, which place
//	nearest.Put(0, 0, from)
//	for len(nearest) > 0 {
//		far, links, at := nearest.Take()
//		…
//	}
//
// It is not container/heap, which puts each element into an interface, and that into memory of its own; nor does it ask elements, by a method or a function,
// which of two comes first: from generic code such a call is never inlined, and takes longer than all else. What is to come first though it is more goes in as
// its negative, and two small numbers may share a word.
package heap

import "cmp"

// Heap is what was put in and not yet taken out, the least of it first; the zero value is empty. Whoever is to fill it again may empty it by h = h[:0] and
// so keep its memory. Not for concurrent use.
type Heap[A, B, C cmp.Ordered] []element[A, B, C]

type element[A, B, C cmp.Ordered] struct {
	a A
	b B
	c C
}

// before is the order: by a, among those of equal a by b, and then by c. A NaN comes before nothing, and nothing before it: there is to be none.
func (x *element[A, B, C]) before(y *element[A, B, C]) bool {
	return x.a < y.a || x.a == y.a && (x.b < y.b || x.b == y.b && x.c < y.c)
}

// Put adds an element, in O(log n).
func (q *Heap[A, B, C]) Put(a A, b B, c C) {
	x := element[A, B, C]{a, b, c}
	*q = append(*q, x)
	h := *q
	i := len(h) - 1
	for i > 0 {
		up := int(uint(i-1) / 2)
		if !x.before(&h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = x
}

// First is the least element, which stays. There must be one.
func (q Heap[A, B, C]) First() (A, B, C) { return q[0].a, q[0].b, q[0].c }

// Take removes the least element and returns it, in O(log n). There must be one.
func (q *Heap[A, B, C]) Take() (A, B, C) {
	h := *q
	first, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*q = h
	i := 0
	for {
		down := 2*i + 1
		if down >= len(h) {
			break
		}
		if next := down + 1; next < len(h) && h[next].before(&h[down]) {
			down = next
		}
		if !h[down].before(&last) {
			break
		}
		h[i] = h[down]
		i = down
	}
	if i < len(h) {
		h[i] = last
	}
	return first.a, first.b, first.c
}
