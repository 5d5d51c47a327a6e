package planner

// queue is a binary heap: take has the element that comes before all others. container/heap would put each into an interface, and that into memory of its own, which
// is half of the time of a first plan.
type queue[T interface{ before(T) bool }] []T

func (q *queue[T]) put(x T) {
	*q = append(*q, x)
	h := *q
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !x.before(h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = x
}

func (q *queue[T]) take() T {
	h := *q
	first, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*q = h
	for i := 0; len(h) > 0; {
		down := 2*i + 1
		if down+1 < len(h) && h[down+1].before(h[down]) {
			down++
		}
		if down >= len(h) || !h[down].before(last) {
			h[i] = last
			break
		}
		h[i] = h[down]
		i = down
	}
	return first
}
