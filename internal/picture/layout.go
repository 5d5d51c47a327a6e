package picture

import (
	"cmp"
	"math"
	"slices"
)

// neighbours are, by node, the nodes that it is joined to.
func neighbours(k int, bs []bundle) [][]int32 {
	next := make([][]int32, k)
	for _, b := range bs {
		next[b.from] = append(next[b.from], b.to)
		next[b.to] = append(next[b.to], b.from)
	}
	return next
}

// fit scales points into a frame; with both axes alike if they are to keep their shape.
func fit(at []point, frame box, alike bool) {
	if len(at) == 0 {
		return
	}
	lo, hi := at[0], at[0]
	for _, p := range at {
		lo = point{min(lo.x, p.x), min(lo.y, p.y)}
		hi = point{max(hi.x, p.x), max(hi.y, p.y)}
	}
	sx, sy := (frame.x2-frame.x1)/max(hi.x-lo.x, 1e-9), (frame.y2-frame.y1)/max(hi.y-lo.y, 1e-9)
	if alike {
		sx, sy = min(sx, sy), min(sx, sy)
	}
	for i, p := range at {
		at[i].x = (frame.x1+frame.x2)/2 + (p.x-(lo.x+hi.x)/2)*sx
		at[i].y = (frame.y1+frame.y2)/2 + (p.y-(lo.y+hi.y)/2)*sy
	}
}

// even moves points, by that share, to where they were if they lay evenly along each axis: who is
// left of whom stays so, and dense regions get room.
func even(at []point, frame box, share float64) {
	axis := func(get func(i int) *float64, lo, hi float64) {
		order := make([]int, len(at))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(*get(a), *get(b)) })
		for rank, i := range order {
			to := (lo + hi) / 2
			if len(at) > 1 {
				to = lo + (hi-lo)*float64(rank)/float64(len(at)-1)
			}
			*get(i) = (1-share)*(*get(i)) + share*to
		}
	}
	axis(func(i int) *float64 { return &at[i].x }, frame.x1, frame.x2)
	axis(func(i int) *float64 { return &at[i].y }, frame.y1, frame.y2)
}

// apart pushes nodes away from each other until they do not overlap, or for a while. O(nodes² × rounds).
func apart(at []point, radius []float64, frame box) {
	const rounds, room = 80, 10.0
	if len(at) > 2500 {
		return
	}
	for range rounds {
		moved := false
		for i := range at {
			for k := range i {
				dx, dy := at[i].x-at[k].x, at[i].y-at[k].y
				need := radius[i] + radius[k] + room
				if math.Abs(dx) >= need || math.Abs(dy) >= need {
					continue
				}
				away := math.Hypot(dx, dy)
				if away >= need {
					continue
				}
				if away < 1e-6 { // in the same place: each pair in a direction of its own
					a := float64(i*31+k) * 2.399963
					dx, dy, away = math.Cos(a), math.Sin(a), 1
				}
				push := min((need-away)/2, need/4) / away
				at[i].x, at[i].y = at[i].x+dx*push, at[i].y+dy*push
				at[k].x, at[k].y = at[k].x-dx*push, at[k].y-dy*push
				moved = true
			}
		}
		for i, p := range at {
			at[i] = point{min(max(p.x, frame.x1), frame.x2), min(max(p.y, frame.y1), frame.y2)}
		}
		if !moved {
			return
		}
	}
}

// layered puts nodes in layers by how far they are from those with hosts, if links join neighbouring layers only and
// the layers are few.
func (d *drawing) layered(bs []bundle, next [][]int32, frame *box) ([]point, bool) {
	k := len(next)
	layer := make([]int, k)
	var queue []int32
	for i, n := range d.fold.nodes {
		layer[i] = -1
		if len(n.hosts) > 0 {
			layer[i] = 0
			queue = append(queue, int32(i))
		}
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, q := range next[at] {
			if layer[q] < 0 {
				layer[q] = layer[at] + 1
				queue = append(queue, q)
			}
		}
	}
	layers := make([][]int, slices.Max(layer)+1)
	for i, l := range layer {
		if l < 0 {
			return nil, false
		}
		layers[l] = append(layers[l], i)
	}
	if len(layers) < 2 || len(layers) > 5 {
		return nil, false
	}
	for _, b := range bs {
		if layer[b.from]-layer[b.to] != 1 && layer[b.to]-layer[b.from] != 1 {
			return nil, false
		}
	}
	d.height = 260 * (float64(len(layers)) - 0.5)
	frame.y2 = d.height - frame.y1
	// Each node in the middle of its neighbours, a few times up and down.
	at := make([]point, k)
	spread := func(l int) {
		for rank, i := range layers[l] {
			at[i].x = frame.x1 + (frame.x2-frame.x1)*(float64(rank)+0.5)/float64(len(layers[l]))
			at[i].y = frame.y2 - (frame.y2-frame.y1)*float64(l)/float64(len(layers)-1)
		}
	}
	for l := range layers {
		spread(l)
	}
	for range 4 {
		for l := range layers {
			middle := make(map[int]float64, len(layers[l]))
			for _, i := range layers[l] {
				for _, q := range next[i] {
					middle[i] += at[q].x / float64(len(next[i]))
				}
			}
			slices.SortStableFunc(layers[l], func(a, b int) int { return cmp.Compare(middle[a], middle[b]) })
			spread(l)
		}
	}
	return at, true
}

// stress puts nodes as far from each other as the links between them are many, as well as it can: stress
// majorisation (Gansner, Koren, North: Graph Drawing by Stress Majorization, 2004), one node after the
// other. O(nodes² × rounds).
func stress(next [][]int32, frame box) []point {
	const rounds, exactly = 60, 1500
	k := len(next)
	at := make([]point, k)
	for i := range at { // a spiral, so that no two are in one place
		a, away := float64(i)*2.399963, math.Sqrt(float64(i)+0.5)
		at[i] = point{away * math.Cos(a), away * math.Sin(a)}
	}
	if k <= exactly {
		far := distances(next)
		for range rounds {
			for i := range at {
				var sum point
				total := 0.0
				for q := range at {
					if q == i {
						continue
					}
					want := float64(far[i][q])
					w := 1 / (want * want)
					dx, dy := at[i].x-at[q].x, at[i].y-at[q].y
					away := max(math.Hypot(dx, dy), 1e-9)
					sum.x += w * (at[q].x + want*dx/away)
					sum.y += w * (at[q].y + want*dy/away)
					total += w
				}
				if total > 0 {
					at[i] = point{sum.x / total, sum.y / total}
				}
			}
		}
	}
	fit(at, frame, true)
	return at
}

// distances are links from each node to each; parts are a little farther from each other than any two of one.
func distances(next [][]int32) [][]int32 {
	far := make([][]int32, len(next))
	most := int32(1)
	for i := range far {
		far[i] = make([]int32, len(next))
		for q := range far[i] {
			far[i][q] = -1
		}
		far[i][i] = 0
		for queue := []int32{int32(i)}; len(queue) > 0; queue = queue[1:] {
			for _, q := range next[queue[0]] {
				if far[i][q] < 0 {
					far[i][q] = far[i][queue[0]] + 1
					most = max(most, far[i][q])
					queue = append(queue, q)
				}
			}
		}
	}
	for i := range far {
		for q := range far[i] {
			if far[i][q] < 0 {
				far[i][q] = most + 1
			}
		}
	}
	return far
}
