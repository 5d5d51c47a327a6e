package planner

import "slices"

// far is how many times as wide as the narrowest link the widest is at most for all of them to be taken as they are.
const far = 1000

// usable sets the rates that these transfers are planned by. A link that is there to be no obstacle may be said to be as wide as one likes; beside it the numbers of all others
// would be rounding to the linear program. So where some links are far wider than others none is more than twice as wide as all that transfers can ever send over
// it. No plan can tell the difference.
//
// A transfer brings no more to any of its hosts than all of its sources together can send, and every byte on any link comes in at a destination. What can come over a
// channel is no more than that; and no more than can come to the switch from elsewhere, or leave it at the
// other end. That is asked again until nothing changes, mostly as often as there are links between two hosts: O(channels) each time.
func (n *Network) usable(demands []demand) {
	n.believe()
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
	goes, comes := make([]float64, n.hosts), make([]float64, n.hosts)
	for k := range demands {
		d := &demands[k]
		from, into := 0.0, 0.0
		for _, s := range d.sources {
			from += sends[s]
		}
		for _, h := range d.dests {
			comes[h] += from
			goes[h] += from
			into += min(takes[h], from)
		}
		for _, s := range d.sources {
			goes[s] += into
		}
	}
	all := 0.0
	for h := range n.hosts {
		comes[h] = min(takes[h], comes[h])
		all += comes[h]
	}
	if all == 0 {
		return
	}
	for h := range n.hosts {
		for _, c := range n.out[h] {
			most[c], most[c^1] = min(most[c], goes[h]), min(most[c^1], comes[h])
		}
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
	n.clipped = true
	for k, r := range n.said {
		can := come[k]
		if can == 0 { // nobody uses it
			can = all
		}
		n.rate[k] = min(r, 2*can)
	}
}

// believe takes all links to be as wide as they are said to be.
func (n *Network) believe() {
	if n.clipped {
		copy(n.rate, n.said)
		n.clipped = false
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
