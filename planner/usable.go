package planner

import "slices"

// far is how many times as wide as all that can come over it a link is at least for planning to take it for narrower.
const far = 1000

// usable sets the rates that are planned by. A link that is there to be no obstacle may be said to be as wide as one likes; beside it the numbers of all others
// would be rounding to the linear program. So what is far wider than all that hosts can ever send over it is twice as wide as that. No
// plan can tell the difference.
//
// What can come over a channel is no more than all hosts together can send to others; and no more than can come to the switch from elsewhere, or leave it at the
// other end. That is asked again until nothing changes, mostly as often as there are links between two hosts: O(channels) each time.
func (n *Network) usable() {
	copy(n.rate, n.said)
	narrow, wide := 0.0, 0.0
	for _, r := range n.said {
		if r > 0 && (narrow == 0 || r < narrow) {
			narrow = r
		}
		wide = max(wide, r)
	}
	if wide <= far*narrow {
		return
	}
	most := make([]float64, len(n.capacity)) // by channel
	for c := range most {
		most[c] = n.of(int32(c))
	}
	sends, takes := make([]float64, n.hosts), make([]float64, n.hosts)
	for h := range n.hosts {
		for _, c := range n.out[h] {
			sends[h] += most[c]
			takes[h] += most[c^1]
		}
	}
	all := 0.0
	for h, others := range withoutOne(sends, nil) {
		all += min(takes[h], others)
	}
	for c := range most {
		most[c] = min(most[c], all)
	}
	const rounds = 30
	var in, out, rest []float64
	for range rounds {
		changed := false
		for p := n.hosts; p < len(n.out); p++ {
			in, out = in[:0], out[:0]
			for _, c := range n.out[p] {
				in, out = append(in, most[c^1]), append(out, most[c])
			}
			rest = withoutOne(in, rest)
			for k, c := range n.out[p] {
				if rest[k] < most[c] {
					most[c], changed = rest[k], true
				}
			}
			rest = withoutOne(out, rest)
			for k, c := range n.out[p] {
				if rest[k] < most[c^1] {
					most[c^1], changed = rest[k], true
				}
			}
		}
		if !changed {
			break
		}
	}
	come := make([]float64, len(n.rate))
	for c, m := range most {
		come[n.capacity[c]] += m
	}
	for k, r := range n.said {
		if come[k] > 0 && r > far*come[k] {
			n.rate[k] = 2 * come[k]
		}
	}
}

// withoutOne is for each number the sum of all others, into rest. The largest is never subtracted: what is beside it would be rounding.
func withoutOne(numbers, rest []float64) []float64 {
	rest = slices.Grow(rest[:0], len(numbers))[:len(numbers)]
	if len(numbers) == 0 {
		return rest
	}
	largest := 0
	for i, v := range numbers {
		if v > numbers[largest] {
			largest = i
		}
	}
	others := 0.0
	for i, v := range numbers {
		if i != largest {
			others += v
		}
	}
	for i, v := range numbers {
		rest[i] = numbers[largest] + max(others-v, 0)
	}
	rest[largest] = others
	return rest
}
