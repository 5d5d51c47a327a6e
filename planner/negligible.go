package planner

import (
	"cmp"
	"slices"
)

// negligibleFlow is the share of a destination's rate below which nobody would carry out a flow: a connection for some bytes per
// second beside others of megabytes. They come from rounding, mostly that which fairness keeps free (see maxMin). What Negligible says is of all flows of a
// destination together.
const negligibleFlow = 1e-5

// dropNegligible takes out the pipelines that are negligible to all of their destinations. What these lose they get from the other
// pipelines that they are in, the widest first, as far as capacities have room. Where somebody would
// not come to the floor again one stays. rates are changed in place.
func (n *Network) dropNegligible(pipes []pipe, rates []float64, floor float64) {
	has := arrivals(pipes, rates)
	var small []int
	for i := range pipes {
		if rates[i] > 0 && !slices.ContainsFunc(pipes[i].hosts[1:], func(h int32) bool { return rates[i] >= negligibleFlow*has[member{pipes[i].demand, h}] }) {
			small = append(small, i)
		}
	}
	if len(small) == 0 {
		return
	}
	in := map[member][]int{} // the pipelines that those are in who lose something
	for _, i := range small {
		for _, h := range pipes[i].hosts[1:] {
			in[member{pipes[i].demand, h}] = nil
		}
	}
	for i := range pipes {
		for _, h := range pipes[i].hosts[1:] {
			if at, loses := in[member{pipes[i].demand, h}]; loses && rates[i] > 0 {
				in[member{pipes[i].demand, h}] = append(at, i)
			}
		}
	}
	left := n.load(pipes, rates)
	for c := range left {
		left[c] = n.rate[c] - left[c]
	}
	add := func(i int, rate float64) {
		rates[i] += rate
		for _, u := range pipes[i].use {
			left[u.capacity] -= u.times * rate
		}
		for _, h := range pipes[i].hosts[1:] {
			has[member{pipes[i].demand, h}] += rate
		}
	}
	slices.SortStableFunc(small, func(a, b int) int { return cmp.Compare(rates[a], rates[b]) })
	type change struct {
		pipe int
		rate float64 // before
	}
	for _, i := range small {
		took := rates[i]
		done := []change{{i, took}}
		wants := make([]float64, len(pipes[i].hosts))
		for k, h := range pipes[i].hosts[1:] {
			wants[k] = has[member{pipes[i].demand, h}]
		}
		add(i, -took)
		rates[i] = 0
		short := false
		for k, h := range pipes[i].hosts[1:] {
			m, want := member{pipes[i].demand, h}, wants[k]
			others := in[m]
			slices.SortStableFunc(others, func(a, b int) int { return cmp.Compare(rates[b], rates[a]) })
			for _, k := range others {
				more := want - has[m]
				if more <= 0 || rates[k] == 0 {
					break
				}
				for _, u := range pipes[k].use {
					more = min(more, left[u.capacity]/u.times)
				}
				if more > 0 {
					done = append(done, change{k, rates[k]})
					add(k, more)
				}
			}
			short = short || has[m] < min(want, floor)*(1-1e-10)
		}
		if short {
			for _, d := range slices.Backward(done) {
				add(d.pipe, d.rate-rates[d.pipe])
			}
		}
	}
}
