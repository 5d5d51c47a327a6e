package report

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const timeTitle = "time since the job was accepted (s)"

// completion shows for each node when it had the object, as a bar that is cut
// where pieces from peers began, where those from the store ended and where the last piece was in,
// and the bound as a dashed line. end is the common end of time.
func completion(r *Run, nodes []*Node, end float64, f format) panel {
	h := rowHeight(len(nodes))
	p := newPlot(timeTitle, "node")
	spanX(p, end, f)
	rowsY(p, nodes, f, h)
	p.Add(drawn(func(c draw.Canvas, x, y func(float64) vg.Length) {
		vertical(c, p, x)
		var reads, overlaps, gets, last boxes
		for i, n := range nodes {
			bar := func(b *boxes, from, to float64) {
				if to > from {
					b.add(x(from), y(float64(i)+0.36), x(to), y(float64(i)-0.36))
				}
			}
			ends := n.DoneAt
			if n.State == Unfinished {
				ends = n.lastSeen()
			}
			in := ends
			if n.State == Done || len(n.arrivals) >= r.Layout.Count() {
				in = min(ends, n.lastPiece()) // else it wanted pieces to its end, however long none came
			}
			peersFrom, storeTo := n.sources(in)
			bar(&reads, 0, peersFrom)
			bar(&overlaps, peersFrom, storeTo)
			bar(&gets, max(peersFrom, storeTo), in)
			bar(&last, in, ends)
		}
		reads.fill(c, store)
		overlaps.fill(c, both)
		gets.fill(c, peers)
		last.fill(c, closing)
		bound := c.Min.X - 100
		if r.Bound > 0 && r.Bound <= end {
			bound = x(r.Bound)
			line(c, ink, 1.5, []vg.Length{5, 3}, bound, c.Min.Y, bound, c.Max.Y)
		}
		for i, n := range nodes {
			at, mid := x(n.DoneAt), y(float64(i))
			label, col := seconds(n.DoneAt), ink
			switch n.State {
			case Failed:
				cross(c, at, mid, min(4, h/3))
				label, col, at = "failed", bad, at+4
			case Unfinished:
				label, col, at = "no end recorded", bad, x(n.lastSeen())
			}
			if at < bound && bound < at+noteWidth(p, h, label)+8 {
				at = bound // the text would lie across the line
			}
			note(c, p, at+4, mid, h, col, label)
		}
	}))
	return panel{plot: p, height: h*vg.Length(len(nodes)) + 46,
		label: fmt.Sprintf("%s: when each of %d nodes had the object", r.label, len(r.Nodes))}
}

// sources are from when pieces from peers are to be reckoned with, and until when pieces from the store, of a node
// whose last piece was in then. Where the ones begin after the others have ended, they begin when the node began to exchange.
func (n *Node) sources(in float64) (peersFrom, storeTo float64) {
	peersFrom = in
	for _, a := range n.arrivals {
		if a.from == fromStore {
			storeTo = min(in, a.at)
		} else if a.at < peersFrom {
			peersFrom = a.at
		}
	}
	if n.Phase2At > 0 && storeTo <= n.Phase2At {
		peersFrom = min(peersFrom, n.Phase2At)
	}
	return peersFrom, storeTo
}

// lastPiece is when the node's last piece was in.
func (n *Node) lastPiece() float64 {
	if len(n.arrivals) == 0 {
		return n.lineEnd()
	}
	return n.arrivals[len(n.arrivals)-1].at
}

// lastSeen is the last that is known of the node.
func (n *Node) lastSeen() float64 { return max(n.lastPiece(), n.DoneAt, n.Phase2At) }

// vertical draws a thin line at each tick of the horizontal axis.
func vertical(c draw.Canvas, p *plot.Plot, x func(float64) vg.Length) {
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		line(c, grid, 0.75, nil, x(t.Value), c.Min.Y, x(t.Value), c.Max.Y)
	}
}

// note writes s from x on, in the middle of a row, if the row is high enough
// for text.
func note(c draw.Canvas, p *plot.Plot, x, mid, row vg.Length, h hue, s string) {
	if row < 9 {
		return
	}
	sty := noteStyle(p, row)
	sty.Color = h
	c.FillText(sty, vg.Point{X: x, Y: mid + sty.FontExtents().Descent/2}, s)
}

func noteWidth(p *plot.Plot, row vg.Length, s string) vg.Length { return noteStyle(p, row).Width(s) }

func noteStyle(p *plot.Plot, row vg.Length) text.Style {
	sty := p.Y.Tick.Label
	sty.XAlign, sty.YAlign = draw.XLeft, draw.YCenter
	sty.Font.Size = min(11, row-1)
	return sty
}

// rates is what one node got in each step of time, in bytes per second.
type rates struct{ store, peers []float64 }

// measure cuts time up to end into steps and says what each node got in them,
// and the most that any node got in a step.
func measure(nodes []*Node, end float64, steps int) (out []rates, most float64) {
	width := end / float64(steps)
	for _, n := range nodes {
		q := rates{store: make([]float64, steps), peers: make([]float64, steps)}
		for _, a := range n.arrivals {
			i := min(steps-1, int(a.at/width))
			if a.from == fromStore {
				q.store[i] += float64(a.bytes) / width
			} else {
				q.peers[i] += float64(a.bytes) / width
			}
		}
		if len(n.arrivals) == 0 {
			spread(q.store, width, n.course.Store, n.course.Step)
			spread(q.peers, width, n.course.Peers, n.course.Step)
		}
		for i := range steps {
			most = max(most, q.store[i]+q.peers[i])
		}
		out = append(out, q)
	}
	return out, most
}

// throughput shows for each node what it got from the store and, stacked on
// it, from peers. The height of every row stands for top bytes per second.
func throughput(r *Run, nodes []*Node, end, top float64, steps int, f format) panel {
	h := rowHeight(len(nodes)) * 5 / 4
	p := newPlot(timeTitle, "node")
	spanX(p, end, f)
	rowsY(p, nodes, f, h)
	p.Add(drawn(func(c draw.Canvas, x, y func(float64) vg.Length) {
		vertical(c, p, x)
		got, _ := measure(nodes, end, steps)
		width := end / float64(steps)
		var fromStore, fromPeers boxes
		level := func(i int, v float64) vg.Length { return y(float64(i) + 0.5 - 0.94*min(1, v/top)) }
		for i, q := range got {
			for k := range steps {
				x0, x1 := x(float64(k)*width), x(float64(k+1)*width)
				s, both := q.store[k], q.store[k]+q.peers[k]
				if s > 0 {
					fromStore.add(x0, y(float64(i)+0.5), x1, level(i, s))
				}
				if both > s {
					fromPeers.add(x0, level(i, s), x1, level(i, both))
				}
			}
		}
		fromStore.fill(c, store)
		fromPeers.fill(c, peers)
		for i, n := range nodes {
			line(c, grid, 0.75, nil, c.Min.X, y(float64(i)+0.5), c.Max.X, y(float64(i)+0.5))
			switch n.State {
			case Done:
				line(c, ink, 1.5, nil, x(n.DoneAt), y(float64(i)+0.5), x(n.DoneAt), y(float64(i)-0.3))
			case Failed:
				cross(c, x(n.DoneAt), y(float64(i)), min(4, h/3))
			}
		}
	}))
	return panel{plot: p, height: h*vg.Length(len(nodes)) + 46,
		label: fmt.Sprintf("%s: throughput of each of %d nodes over time, from the store and from peers", r.label, len(r.Nodes))}
}

// scale chooses how many steps of time to measure rates in, such that a step
// holds a few pieces of a node that reads steadily to the end, and the rate
// that the height of a row stands for in all runs.
func scale(runs []*Run, end float64) (steps int, top float64) {
	most := 0
	finest := 0.0 // step of a time line that stands for the pieces
	for _, r := range runs {
		most = max(most, r.Layout.Count())
		for _, n := range r.Nodes {
			if s := n.course.Step; len(n.arrivals) == 0 && s > 0 && (finest == 0 || s < finest) {
				finest = s
			}
		}
	}
	steps = max(16, min(120, most/3))
	if finest > 0 {
		steps = max(4, min(120, int(end/finest)))
	}
	for _, r := range runs {
		_, t := measure(r.pictured(), end, steps)
		top = max(top, t)
	}
	return steps, nextOf(top, 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
}

// seconds prints a time with as many digits as one wants to read.
func seconds(s float64) string {
	switch {
	case s >= 99.95:
		return fmt.Sprintf("%.0f\u00a0s", s)
	case s >= 9.995:
		return fmt.Sprintf("%.1f\u00a0s", s)
	case s >= 0.1 || s == 0:
		return fmt.Sprintf("%.2f\u00a0s", s)
	}
	return fmt.Sprintf("%.3g\u00a0ms", s*1000)
}

// endOfTime is where the common time axis ends: at the last event, or at a
// bound that is not far beyond it.
func endOfTime(runs []*Run) float64 {
	last, bound := 0.0, 0.0
	for _, r := range runs {
		last, bound = max(last, r.last), max(bound, r.Bound)
	}
	if bound <= 1.5*last {
		last = max(last, bound)
	}
	if last <= 0 {
		return 1
	}
	return max(last, shortest)
}

// shortest is the least that the time axis spans, in seconds: who records
// counts nanoseconds, and of less than these no step could be told from the next.
const shortest = 1e-6
