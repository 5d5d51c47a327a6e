package planner

import (
	"math"

	"github.com/freshet/freshet/internal/heap"
)

// fill gives each pipeline what max-min fairness gives it, by progressive filling (Bertsekas and Gallager): all rates rise together, each by
// its weight, until a capacity is full; who uses it stays at that, the others go on. left is by capacity
// what there is, and becomes what is left over. O(uses × log capacities).
func (n *Network) fill(pipes []pipe, weight func(p *pipe) float64, left []float64) (rates []float64) {
	rates = make([]float64, len(pipes))
	type member struct {
		pipe  int32
		times float64
	}
	places := make([]int32, len(n.rate)) // by capacity: where it is in what follows, from 1; 0: nobody uses it
	var capacities []int32
	for i := range pipes {
		for _, u := range pipes[i].use {
			if places[u.capacity] == 0 {
				capacities = append(capacities, u.capacity)
				places[u.capacity] = int32(len(capacities))
			}
		}
	}
	at := func(capacity int32) int32 { return places[capacity] - 1 }
	users := make([][]member, len(capacities))
	pull := make([]float64, len(capacities)) // Σ weight · times of those that still rise
	used := make([]float64, len(capacities)) // what those that stay use of it
	stamp := make([]int32, len(capacities))
	weights := make([]float64, len(pipes))
	for i := range pipes {
		weights[i] = weight(&pipes[i])
		for _, u := range pipes[i].use {
			c := at(u.capacity)
			users[c] = append(users[c], member{int32(i), u.times})
			pull[c] += weights[i] * u.times
		}
	}
	var q heap.Heap[float64, int32, int32] // how high rates can rise before a capacity is full, the capacity, as of its stamp
	for c, capacity := range capacities {
		stamp[c] = 1
		q.Put(max(left[capacity], 0)/pull[c], capacity, 1)
	}
	stays := make([]bool, len(pipes))
	var changed []int32
	for len(q) > 0 {
		height, capacity, when := q.Take()
		full := at(capacity)
		if when != stamp[full] {
			continue
		}
		changed = changed[:0]
		for _, m := range users[full] {
			if stays[m.pipe] {
				continue
			}
			stays[m.pipe] = true
			rates[m.pipe] = height * weights[m.pipe]
			for _, u := range pipes[m.pipe].use {
				c := at(u.capacity)
				pull[c] -= weights[m.pipe] * u.times
				used[c] += rates[m.pipe] * u.times
				changed = append(changed, u.capacity)
			}
		}
		stamp[full] = -1
		for _, capacity := range changed {
			c := at(capacity)
			if stamp[c] < 0 {
				continue
			}
			stamp[c]++
			if pull[c] > 1e-12 {
				q.Put(max(height, (left[capacity]-used[c])/pull[c]), capacity, stamp[c])
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
