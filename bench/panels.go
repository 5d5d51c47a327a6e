package bench

import (
	"math"
	"strconv"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Panels are small pictures over the same groups, in rows and columns, each with a line a series. A row has one scale.
type Panels struct {
	X, Y    string   // titles of the axes, the unit in brackets
	Columns []string // what each is
	Groups  []string // ticks of the horizontal axis of every panel
	Series  []string // in the order of the legend, which has one row
	Rows    []Strip
	Legend  []Key   // more entries, of what is not a series
	Limit   float64 // a dashed line across all panels; zero: none
}

// Strip is a row of panels.
type Strip struct {
	Name  string
	Lines [][][]float64 // by column, series and group; what is zero is left out
}

// most is the largest number in the row.
func (s Strip) most() (top float64) {
	for _, panel := range s.Lines {
		for _, line := range panel {
			for _, v := range line {
				top = max(top, v)
			}
		}
	}
	return top
}

// panelSteps is how many steps of its scale the largest number of a row may be: there is room for four.
const panelSteps = 3.9

// SVG writes the picture to a file.
func (p Panels) SVG(file string) error {
	const above, below, beside = vg.Length(52), vg.Length(44), vg.Length(50) // the panels: legend and columns; ticks and title; likewise
	const high, apart, between = vg.Length(96), vg.Length(14), vg.Length(32) // of a panel; columns; rows, with a name
	return svg(file, width, above+(between+high)*vg.Length(len(p.Rows))+below, func(c draw.Canvas) {
		legend := Picture{Joined: true, Legend: p.Legend}
		for _, name := range p.Series {
			legend.Series = append(legend.Series, Series{Name: name})
		}
		legend.legend(c)
		style, centred, right := letters(), letters(), letters()
		centred.XAlign, right.XAlign = text.XCenter, text.XRight
		left, columns := c.Min.X+beside, vg.Length(len(p.Columns))
		wide := (c.Max.X - 12 - left - apart*(columns-1)) / columns
		for row, r := range p.Rows {
			top := c.Max.Y - above - (between+high)*vg.Length(row) - between + 8
			c.FillText(style, vg.Point{X: left, Y: top + 12}, r.Name)
			step, end := scale(max(r.most(), p.Limit), panelSteps)
			for _, v := range upTo(end, step) {
				c.FillText(right, vg.Point{X: left - 6, Y: top - high + high*vg.Length(v/end)}, strconv.FormatFloat(v, 'g', 6, 64))
			}
			for k, name := range p.Columns {
				at := left + (wide+apart)*vg.Length(k)
				if row == 0 {
					c.FillText(centred, vg.Point{X: at + wide/2, Y: c.Max.Y - 38}, name)
				}
				panel := c
				panel.Rectangle = vg.Rectangle{Min: vg.Point{X: at, Y: top - high}, Max: vg.Point{X: at + wide, Y: top}}
				x := p.panel(panel, r.Lines[k], step, end)
				for i, name := range p.Groups {
					if row == len(p.Rows)-1 {
						c.FillText(centred, vg.Point{X: x(i), Y: top - high - 12}, name)
					}
				}
			}
		}
		c.FillText(centred, vg.Point{X: (left + c.Max.X - 12) / 2, Y: c.Min.Y + 12}, p.X)
		centred.Rotation = math.Pi / 2
		c.FillText(centred, vg.Point{X: c.Min.X + 12, Y: (c.Min.Y + below + c.Max.Y - above) / 2}, p.Y)
	})
}

// panel draws one on all of c, with a scale that ends at end, and returns where its groups are.
func (p Panels) panel(c draw.Canvas, lines [][]float64, step, end float64) (x func(group int) vg.Length) {
	x = func(group int) vg.Length {
		return c.Min.X + (c.Max.X-c.Min.X)*(vg.Length(group)+0.5)/vg.Length(len(p.Groups))
	}
	y := func(v float64) vg.Length { return c.Min.Y + (c.Max.Y-c.Min.Y)*vg.Length(v/end) }
	for _, v := range upTo(end, step) {
		stroke(c, faint, 1, nil, c.Min.X, y(v), c.Max.X, y(v))
	}
	if p.Limit > 0 {
		stroke(c, ink, 1.5, []vg.Length{4, 2}, c.Min.X, y(p.Limit), c.Max.X, y(p.Limit))
	}
	for s, name := range p.Series {
		look := lookOf(name)
		var points []vg.Point
		for group, v := range lines[s] {
			if v > 0 {
				points = append(points, vg.Point{X: x(group), Y: y(v)})
			}
		}
		c.StrokeLines(draw.LineStyle{Color: look.colour, Width: 1.8}, points)
		for _, at := range points {
			c.DrawGlyph(draw.GlyphStyle{Color: look.colour, Radius: 3.5, Shape: look.shape}, at)
		}
	}
	return x
}
