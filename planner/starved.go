package planner

// Negligible is the share of what a pair would have alone, see Planner.Alone, up to which it counts as starved: what takes
// a minute alone takes a week. Floors that a thin link elsewhere makes tiny are below it, and so is what linear programs keep free against rounding,
// some millionths of what others have (colgen.settle, maxMin.round), which often is all that a lower priority gets.
const Negligible = 1e-4

// Alone is the most that one way brings a pair where nobody else sends anything, in bytes per second: the narrowest link of the widest way from one
// of its sources, or where none has a way to it, over other destinations of the transfer. 0: it cannot be reached. A pair of a transfer that Add did not number panics.
func (p *Planner) Alone(pair Pair) float64 {
	return p.net.alone(&p.demands[pair.Transfer], int32(pair.Destination))
}

// starves says whether rate, in bytes per second, is nothing or next to nothing for destination h.
func (n *Network) starves(d *demand, h int32, rate float64) bool {
	switch {
	case rate == 0:
		return true
	case rate > Negligible*n.brings(h): // no way is wider
		return false
	}
	return rate <= Negligible*n.alone(d, h)
}

// alone is Planner.Alone. O(sources) ways; where only destinations have one to h, O(destinations²).
func (n *Network) alone(d *demand, h int32) float64 {
	if w := n.widestFrom(d.sources, h); w > 0 {
		return w
	}
	// As Prim's tree grows: whoever is reached over the widest links passes on first.
	width, passed := make([]float64, len(d.dests)), make([]bool, len(d.dests))
	for i, to := range d.dests {
		width[i] = n.widestFrom(d.sources, to)
	}
	for {
		next := -1
		for i, w := range width {
			if !passed[i] && w > 0 && (next < 0 || w > width[next]) {
				next = i
			}
		}
		switch {
		case next < 0:
			return 0
		case d.dests[next] == h:
			return width[next]
		}
		passed[next] = true
		for i, to := range d.dests {
			if !passed[i] {
				width[i] = max(width[i], min(width[next], n.width(d.dests[next], to)))
			}
		}
	}
}

// widestFrom is the width of the widest way from one of these hosts; 0 if there is none.
func (n *Network) widestFrom(hosts []int32, to int32) (widest float64) {
	for _, s := range hosts {
		widest = max(widest, n.width(s, to))
	}
	return widest
}
