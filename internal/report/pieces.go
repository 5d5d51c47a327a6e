package report

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// possession is the map of pieces over time: how many nodes hold each piece in
// the ground colour, and on it each piece's arrival from the store, which draws
// a line for every node that reads: N lines over the whole object when each
// node reads it all, one line within its share when they divide it, and lines
// that start anew where a node took over another's work.
func possession(r *Run, end float64, f format) panel {
	p := newPlot(timeTitle, "piece")
	spanX(p, end, f)
	count := r.Layout.Count()
	p.Y.Min, p.Y.Max = 0, float64(max(count, 1))
	p.Y.Scale = plot.InvertedScale{Normalizer: plot.LinearScale{}}
	p.Y.Tick.Marker = plot.ConstantTicks(ticks(p.Y.Max, 5))
	rows := min(f.rows, max(count, 1))
	p.Add(drawn(func(c draw.Canvas, x, y func(float64) vg.Length) {
		var classes [4]boxes
		edge := func(row int) vg.Length { return y(p.Y.Max * float64(row) / float64(rows)) }
		for row, steps := range r.holders(rows, f.cols, end) {
			for from := 0; from < len(steps); {
				to := from + 1
				for to < len(steps) && steps[to] == steps[from] {
					to++
				}
				if k := steps[from]; k > 0 {
					classes[k-1].add(x(end*float64(from)/float64(f.cols)), edge(row+1), x(end*float64(to)/float64(f.cols)), edge(row))
				}
				from = to
			}
		}
		for k := range classes {
			classes[k].fill(c, held1+hue(k))
		}
		vertical(c, p, x)
		var own, other boxes
		seen := map[[3]int]bool{}
		cell := vg.Length(1.5)
		tall := max(1.5, c.Size().Y/vg.Length(max(count, 1)))
		for _, n := range r.Nodes {
			for _, a := range n.arrivals {
				if a.from != fromStore {
					continue
				}
				ground, kind := &own, 0
				if n.tookOver(int(a.piece)) {
					ground, kind = &other, 1
				}
				at, mid := x(a.at), y(float64(a.piece)+0.5)
				key := [3]int{int(at / cell), int(mid / cell), kind}
				if seen[key] { // another mark is there already
					continue
				}
				seen[key] = true
				ground.add(at-cell/2, mid-tall/2, at+cell/2, mid+tall/2)
			}
		}
		own.fill(c, store)
		other.fill(c, taken)
	}))
	h := vg.Length(280)
	if f.class == "slim" {
		h = 240
	}
	return panel{plot: p, height: h, label: fmt.Sprintf("%s: how many nodes hold each piece over time, and when each was read from the store", r.label)}
}

// holders is, for each of rows runs of pieces and cols steps of time up to
// end, what share of the nodes holds the pieces at the end of the step: 0 for
// none, 1 to 3 for up to a third, two thirds and less than all, 4 for all.
func (r *Run) holders(rows, cols int, end float64) [][]int8 {
	count := r.Layout.Count()
	if count == 0 || len(r.Nodes) == 0 {
		return nil
	}
	came := make([][]int, rows) // arrivals of pieces new to their node
	for i := range came {
		came[i] = make([]int, cols)
	}
	for _, n := range r.Nodes {
		has := make(map[int32]bool, len(n.arrivals))
		for _, a := range n.arrivals {
			if int(a.piece) >= count || has[a.piece] {
				continue
			}
			has[a.piece] = true
			came[int(a.piece)*rows/count][min(cols-1, int(a.at/end*float64(cols)))]++
		}
	}
	out := make([][]int8, rows)
	for i := range out {
		out[i] = make([]int8, cols)
		all, have := sharing(i, count, rows)*len(r.Nodes), 0
		for k := range cols {
			have += came[i][k]
			switch {
			case have >= all:
				out[i][k] = 4
			case have > 0:
				out[i][k] = int8(1 + min(2, 3*have/all))
			}
		}
	}
	return out
}

// sharing is how many of count pieces fall into run i of runs, piece k into
// run ⌊k·runs/count⌋.
func sharing(i, count, runs int) int {
	first := func(i int) int { return (i*count + runs - 1) / runs }
	return first(i+1) - first(i)
}

// Where a node has a piece from, or most of a column of pieces.
const (
	missing = iota
	ownWork
	takenOver
	byPeer
	origins
)

// provenance shows for each node where it has every piece from: from the store
// as its own work, from the store as work taken over, or from a peer.
func provenance(r *Run, nodes []*Node, f format) panel {
	h := rowHeight(len(nodes))
	p := newPlot("piece", "node")
	count := r.Layout.Count()
	spanX(p, float64(max(count, 1)), f)
	rowsY(p, nodes, f, h)
	cols := min(max(count, 1), 3*f.cols)
	p.Add(drawn(func(c draw.Canvas, x, y func(float64) vg.Length) {
		var classes [origins]boxes
		for i, n := range nodes {
			top, bottom := y(float64(i)-0.42), y(float64(i)+0.42)
			strip := n.strip(count, cols)
			for from := 0; from < len(strip); {
				to := from + 1
				for to < len(strip) && strip[to] == strip[from] {
					to++
				}
				edge := func(col int) vg.Length { return x(p.X.Max * float64(col) / float64(cols)) }
				classes[strip[from]].add(edge(from), bottom, edge(to), top)
				from = to
			}
		}
		classes[ownWork].fill(c, store)
		classes[takenOver].fill(c, taken)
		classes[byPeer].fill(c, peers)
		for i := range nodes {
			line(c, grid, 0.75, nil, c.Min.X, y(float64(i)+0.5), c.Max.X, y(float64(i)+0.5))
		}
	}))
	return panel{plot: p, height: h*vg.Length(len(nodes)) + 46,
		label: fmt.Sprintf("%s: where each of %d nodes has each piece from", r.label, len(r.Nodes))}
}

// strip is, for each of cols runs of the object's pieces, where the node has
// most of them from.
func (n *Node) strip(count, cols int) []int8 {
	if count == 0 {
		return nil
	}
	votes := make([][origins]int, cols)
	for i := range votes {
		votes[i][missing] = sharing(i, count, cols)
	}
	has := make(map[int32]bool, len(n.arrivals))
	for _, a := range n.arrivals {
		if int(a.piece) >= count || has[a.piece] {
			continue
		}
		has[a.piece] = true
		v := &votes[int(a.piece)*cols/count]
		v[missing]--
		switch {
		case a.from != fromStore:
			v[byPeer]++
		case n.tookOver(int(a.piece)):
			v[takenOver]++
		default:
			v[ownWork]++
		}
	}
	out := make([]int8, cols)
	for i, v := range votes {
		for k := range v {
			if v[k] > v[out[i]] {
				out[i] = int8(k)
			}
		}
	}
	return out
}

// classLimits are the lower limits of the classes of the matrix, as shares of
// the object. They are far from even, since a flat run is all in one column
// and a swarm's bytes are spread over all.
var classLimits = [...]float64{0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5}

func class(share float64) int {
	k := 0
	for k+1 < len(classLimits) && share >= classLimits[k+1] {
		k++
	}
	return k
}

// matrix shows who got how much from whom, as a share of the object: a row for
// each node that got, a column for the store and each node that gave.
func matrix(r *Run, nodes []*Node, f format) panel {
	size := float64(r.Layout.Size)
	side := (f.width/2 - 6 - 90) / vg.Length(len(nodes)+1) // two runs fit beside each other
	if f.class == "slim" {
		side = (f.width - 90) / vg.Length(len(nodes)+1)
	}
	side = max(9, min(38, side))
	high := max(min(side, 26), 52/vg.Length(len(nodes))) // the title of the axis must fit
	p := newPlot("giver (% of the object)", "receiver")
	rowsY(p, nodes, f, high)
	p.X.Min, p.X.Max = -1.5, float64(len(nodes))-0.5
	p.X.Width, p.X.Tick.Length, p.X.Padding = 0, 0, 6
	p.X.Tick.Label.Font.Size = max(7, min(11, side-1))
	p.X.Tick.Label.Rotation = math.Pi / 2
	p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = draw.XRight, draw.YCenter
	marks := []plot.Tick{{Value: -1, Label: storeName}}
	step := int(math.Ceil(9 / side.Points()))
	for i, n := range nodes {
		if i%step == 0 && (step == 1 || i > 0) {
			marks = append(marks, plot.Tick{Value: float64(i), Label: tag(n.Name, i, f.name)})
		}
	}
	p.X.Tick.Marker = plot.ConstantTicks(marks)
	p.Add(drawn(func(c draw.Canvas, x, y func(float64) vg.Length) {
		var classes [len(classLimits)]boxes
		type cell struct {
			x, y  vg.Length
			share float64
		}
		var cells []cell
		for i, n := range nodes {
			for j := -1; j < len(nodes); j++ {
				got := n.Store
				if j >= 0 {
					got = n.From[nodes[j].Name]
				}
				if got <= 0 || size <= 0 {
					continue
				}
				share := float64(got) / size
				classes[class(share)].add(x(float64(j)-0.47), y(float64(i)+0.47), x(float64(j)+0.47), y(float64(i)-0.47))
				cells = append(cells, cell{x: x(float64(j)), y: y(float64(i)), share: share})
			}
		}
		for k := range classes {
			classes[k].fill(c, share1+hue(k))
		}
		for i := range nodes {
			line(c, grid, 0.75, nil, c.Min.X, y(float64(i)+0.5), c.Max.X, y(float64(i)+0.5))
		}
		line(c, muted, 1, nil, x(-0.5), c.Min.Y, x(-0.5), c.Max.Y)
		if side < 20 {
			return // too narrow for numbers
		}
		sty := p.Y.Tick.Label
		sty.XAlign, sty.YAlign = draw.XCenter, draw.YCenter
		for _, v := range cells {
			sty.Color = onPale
			if class(v.share) >= 5 {
				sty.Color = onDeep
			}
			c.FillText(sty, vg.Point{X: v.x, Y: v.y + sty.FontExtents().Descent/2}, percent(v.share))
		}
	}))
	return panel{plot: p, width: min(f.width, 90+side*vg.Length(len(nodes)+1)), height: high*vg.Length(len(nodes)) + 30 + nameWidth(p, marks),
		label: fmt.Sprintf("%s: how much of the object each of %d nodes got from whom", r.label, len(r.Nodes))}
}

func nameWidth(p *plot.Plot, marks []plot.Tick) (w vg.Length) {
	for _, m := range marks {
		w = max(w, p.X.Tick.Label.Font.Size*vg.Length(0.6*float64(len([]rune(m.Label)))))
	}
	return w
}

// percent is a share in percent; the text beside the picture says so, and
// cells are narrow.
func percent(share float64) string {
	if share < 0.01 {
		return "<1"
	}
	return fmt.Sprintf("%.0f", 100*share)
}
