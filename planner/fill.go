package planner

import (
	"container/heap"
	"math"
)

// fill gives each pipeline what max-min fairness gives it: all rates rise together, each by
// its weight, until a capacity is full; who uses it stays at that, the others go on. left is by capacity
// what there is, and becomes what is left over. O(uses × log capacities).
func (n *Network) fill(pipes []pipe, weight func(p *pipe) float64, left []float64) (rates []float64) {
	rates = make([]float64, len(pipes))
	type member struct {
		pipe  int32
		times float64
	}
	users := make(map[int32][]member)
	pull := make(map[int32]float64) // by capacity: Σ weight · times of those that still rise
	stamp := make(map[int32]int)
	held := make(map[int32]float64) // what those that stay use of it
	weights := make([]float64, len(pipes))
	for i := range pipes {
		weights[i] = weight(&pipes[i])
		for _, u := range pipes[i].use {
			users[u.capacity] = append(users[u.capacity], member{int32(i), u.times})
			pull[u.capacity] += weights[i] * u.times
		}
	}
	var q levels
	for i := range pipes { // in the order of pipelines, not of a map
		for _, u := range pipes[i].use {
			if stamp[u.capacity] == 0 {
				stamp[u.capacity] = 1
				q = append(q, level{max(left[u.capacity], 0) / pull[u.capacity], u.capacity, 1})
			}
		}
	}
	heap.Init(&q)
	stays := make([]bool, len(pipes))
	for len(q) > 0 {
		l := heap.Pop(&q).(level)
		if l.stamp != stamp[l.capacity] {
			continue
		}
		var changed []int32
		for _, m := range users[l.capacity] {
			if stays[m.pipe] {
				continue
			}
			stays[m.pipe] = true
			rates[m.pipe] = l.height * weights[m.pipe]
			for _, u := range pipes[m.pipe].use {
				pull[u.capacity] -= weights[m.pipe] * u.times
				held[u.capacity] += rates[m.pipe] * u.times
				changed = append(changed, u.capacity)
			}
		}
		stamp[l.capacity] = -1
		for _, c := range changed {
			if stamp[c] < 0 {
				continue
			}
			stamp[c]++
			if pull[c] > 1e-12 {
				heap.Push(&q, level{max(l.height, (left[c]-held[c])/pull[c]), c, stamp[c]})
			}
		}
	}
	for i := range pipes {
		if math.IsInf(rates[i], 1) {
			rates[i] = 0
		}
		for _, u := range pipes[i].use {
			left[u.capacity] = max(left[u.capacity]-rates[i]*u.times, 0)
		}
	}
	return rates
}

// level is how high rates can rise before a capacity is full, as of its stamp.
type level struct {
	height   float64
	capacity int32
	stamp    int
}

type levels []level

func (q levels) Len() int      { return len(q) }
func (q levels) Swap(a, b int) { q[a], q[b] = q[b], q[a] }
func (q levels) Less(a, b int) bool {
	if q[a].height != q[b].height {
		return q[a].height < q[b].height
	}
	return q[a].capacity < q[b].capacity
}
func (q *levels) Push(x any) { *q = append(*q, x.(level)) }
func (q *levels) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}
