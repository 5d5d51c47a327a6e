package bench

import (
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Rows compares many systems by one number, a row each: what is left is less.
// The axis is logarithmic, since the best and the worst may be far apart.
type Rows struct {
	X      string // title of the axis, the unit in brackets
	Rows   []Row
	Series []string // what the marks of a row stand for, in the order of the legend; four at most
	Limit  float64  // a dashed line down through all rows; zero: none
}

// Row is a system.
type Row struct {
	Name   string
	Strong bool   // stands out
	Spans  []Span // by series; what has no runs is left out
}

// rowLooks are those of the series, by their order.
var rowLooks = []look{
	{color.RGBA{0xd5, 0x5e, 0x00, 0xff}, draw.PyramidGlyph{}},
	{color.RGBA{0x00, 0x72, 0xb2, 0xff}, draw.BoxGlyph{}},
	{color.RGBA{0x00, 0x9e, 0x73, 0xff}, draw.CircleGlyph{}},
	{color.RGBA{0x8a, 0x93, 0x9e, 0xff}, draw.CrossGlyph{}},
}

// high is the space that a row has.
const high = vg.Length(20)

// SVG writes the picture to a file.
func (p Rows) SVG(file string) error {
	const above, below = vg.Length(34), vg.Length(46)
	return svg(file, width, above+below+high*vg.Length(len(p.Rows)), func(c draw.Canvas) {
		style := letters()
		labels := vg.Length(0)
		for _, r := range p.Rows {
			labels = max(labels, style.Width(r.Name))
		}
		lo, hi := p.ends()
		left, right := c.Min.X+labels+20, c.Max.X-16
		bottom, top := c.Min.Y+below, c.Max.Y-above
		x := func(v float64) vg.Length {
			return left + (right-left)*vg.Length((math.Log(v)-math.Log(lo))/(math.Log(hi)-math.Log(lo)))
		}
		centred := style
		centred.XAlign = -0.5
		for _, v := range round(lo, hi) {
			stroke(c, faint, 1, nil, x(v), bottom, x(v), top)
			c.FillText(centred, vg.Point{X: x(v), Y: bottom - 12}, strconv.FormatFloat(v, 'g', -1, 64))
		}
		if p.Limit >= lo && p.Limit <= hi {
			stroke(c, ink, 1.5, []vg.Length{4, 2}, x(p.Limit), bottom, x(p.Limit), top)
		}
		c.FillText(centred, vg.Point{X: (left + right) / 2, Y: bottom - 32}, p.X)
		for i, r := range p.Rows {
			y := top - high*(vg.Length(i)+0.5)
			if r.Strong {
				c.SetColor(faint)
				c.Fill(rectangle(c.Min.X+4, y-high/2+1, left-4, y+high/2-1))
			}
			name := style
			name.XAlign = text.XRight
			c.FillText(name, vg.Point{X: left - 10, Y: y}, r.Name)
			for k, s := range r.Spans {
				if s.N == 0 || !(s.Median > 0) {
					continue
				}
				look := rowLooks[k%len(rowLooks)]
				if s.Max > s.Min {
					stroke(c, look.colour, 1.5, nil, x(s.Min), y, x(s.Max), y)
				}
				c.DrawGlyph(draw.GlyphStyle{Color: look.colour, Radius: 4.5, Shape: look.shape}, vg.Point{X: x(s.Median), Y: y})
			}
		}
		at := left
		for k, name := range p.Series {
			look := rowLooks[k%len(rowLooks)]
			c.DrawGlyph(draw.GlyphStyle{Color: look.colour, Radius: 4.5, Shape: look.shape}, vg.Point{X: at + 5, Y: c.Max.Y - 14})
			c.FillText(style, vg.Point{X: at + 14, Y: c.Max.Y - 14}, name)
			at += 14 + style.Width(name) + 16
		}
	})
}

// ends are those of the axis: a little less than the least and more than the most.
func (p Rows) ends() (lo, hi float64) {
	lo, hi = math.Inf(1), 0
	take := func(v float64) {
		if v > 0 {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	take(p.Limit)
	for _, r := range p.Rows {
		for _, s := range r.Spans {
			take(s.Min)
			take(s.Max)
		}
	}
	if hi == 0 {
		return 1, 10
	}
	return lo / 1.1, max(hi*1.1, lo*1.5)
}

// round are the round numbers from lo to hi: 1, 2 and 5 times the powers of ten.
func round(lo, hi float64) (out []float64) {
	for p := math.Pow(10, math.Floor(math.Log10(lo))); p <= hi; p *= 10 {
		for _, m := range []float64{1, 2, 5} {
			if v := m * p; v >= lo && v <= hi {
				out = append(out, v)
			}
		}
	}
	return slices.Clip(out)
}
