package bench

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"regexp"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Colours are Okabe and Ito's, which those who see few colours tell apart, as in
// the reports of single jobs. An algorithm has the same one in every picture.
var (
	ink   = color.RGBA{0x24, 0x29, 0x2f, 0xff}
	muted = color.RGBA{0x6b, 0x74, 0x80, 0xff}
	faint = color.RGBA{0xe3, 0xe6, 0xea, 0xff}

	looks = map[string]look{
		"flat":      {color.RGBA{0x8a, 0x93, 0x9e, 0xff}, draw.CircleGlyph{}},
		"non-steal": {color.RGBA{0x00, 0x72, 0xb2, 0xff}, draw.BoxGlyph{}},
		"steal":     {color.RGBA{0xd5, 0x5e, 0x00, 0xff}, draw.PyramidGlyph{}},
		"random":    {color.RGBA{0x56, 0xb4, 0xe9, 0xff}, draw.CircleGlyph{}},
		"pipeline":  {color.RGBA{0x00, 0x72, 0xb2, 0xff}, draw.BoxGlyph{}},
		"paper":     {color.RGBA{0xd5, 0x5e, 0x00, 0xff}, draw.PyramidGlyph{}},
		"optimal":   {color.RGBA{0x00, 0x9e, 0x73, 0xff}, ring{}},
	}
)

// look is how an algorithm is drawn; the shape is for those who see no colours.
type look struct {
	colour color.RGBA
	shape  draw.GlyphDrawer
}

// ring is a circle with white in it, which a line of its own colour does not hide.
type ring struct{}

func (ring) DrawGlyph(c *draw.Canvas, g draw.GlyphStyle, at vg.Point) {
	c.SetColor(color.White)
	draw.CircleGlyph{}.DrawGlyph(c, g, at)
	c.SetLineStyle(draw.LineStyle{Color: g.Color, Width: 1.8})
	var p vg.Path
	p.Move(vg.Point{X: at.X + g.Radius, Y: at.Y})
	p.Arc(at, g.Radius, 0, 2*math.Pi)
	p.Close()
	c.Stroke(p)
}

func lookOf(algorithm string) look {
	if l, ok := looks[algorithm]; ok {
		return l
	}
	return look{color.RGBA{0x00, 0x9e, 0x73, 0xff}, draw.CrossGlyph{}}
}

// pale is c mixed with white.
func pale(c color.RGBA) color.RGBA {
	mix := func(v uint8) uint8 { return uint8(0.45*float64(v) + 0.55*255) }
	return color.RGBA{mix(c.R), mix(c.G), mix(c.B), 0xff}
}

// Picture compares algorithms over groups of runs, such as numbers of nodes,
// that stand beside each other in equal steps.
type Picture struct {
	X, Y   string   // titles of the axes, the unit in brackets
	Groups []string // ticks of the horizontal axis
	Series []Series // in the order of the legend
	Joined bool     // marks of a series are joined by lines, instead of standing beside each other
	Legend []Key    // more entries, of what is not a series
}

// Series is what one algorithm did, group by group.
type Series struct {
	Name  string
	Marks []Mark
}

// Mark is what is drawn of one series in one group. What is zero is left out.
type Mark struct {
	Low, High float64   // a bar from one to the other
	Stack     []float64 // bars upon each other from zero, the first one full, the second one pale
	Middle    Span      // a dot at the median, with a whisker from the least to the most
	Limit     float64   // a dashed line across
	Note      string    // a sign above all that
}

// top is the highest number in the mark.
func (m Mark) top() (sum float64) {
	for _, part := range m.Stack {
		sum += part
	}
	return max(m.High, sum, m.Middle.Max)
}

// Key is an entry of the legend without a series.
type Key struct {
	Name string
	Kind string // "dashed", "dot", "full", "pale" or "†"
}

// pictureSteps is how many steps of its scale the largest number of a picture may be.
const pictureSteps = 6

// A page that is as wide as a phone shows letters of 12 points at 9 pixels.
const width, height = vg.Length(500), vg.Length(330)

// SVG writes the picture to a file.
func (p Picture) SVG(file string) error {
	return svg(file, width, height, func(c draw.Canvas) {
		p.plot().Draw(draw.Crop(c, 8, -12, 8, -p.legend(c)))
	})
}

// svg writes what f draws to a file.
func svg(file string, w, h vg.Length, f func(draw.Canvas)) error {
	canvas := vgsvg.NewWith(vgsvg.UseWH(w, h))
	c := draw.New(canvas)
	c.SetColor(color.White)
	c.Fill(rectangle(c.Min.X, c.Min.Y, c.Max.X, c.Max.Y))
	f(c)
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return fmt.Errorf("draw %s: %w", file, err)
	}
	// Fonts are what the reader has.
	svg := fonts.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
	if err := os.WriteFile(file, svg, 0o644); err != nil {
		return fmt.Errorf("picture: %w", err)
	}
	return nil
}

var fonts = regexp.MustCompile(`font-family:[^;"]*;(font-variant:[^;"]*;)?`)

func sans(size vg.Length) font.Font {
	return font.Font{Typeface: plot.DefaultFont.Typeface, Variant: "Sans", Size: size}
}

func (p Picture) plot() *plot.Plot {
	g := plot.New()
	g.BackgroundColor = nil
	for _, a := range []*plot.Axis{&g.X, &g.Y} {
		a.Color, a.Tick.Color = muted, muted
		a.Label.TextStyle.Color, a.Tick.Label.Color = ink, ink
		a.Label.TextStyle.Font, a.Tick.Label.Font = sans(13), sans(12)
		a.Tick.Length, a.Padding, a.Label.Padding = 4, 0, 5
	}
	g.X.Label.Text, g.Y.Label.Text = p.X, p.Y
	g.X.Min, g.X.Max = -0.5, float64(len(p.Groups))-0.5
	var names []plot.Tick
	for i, name := range p.Groups {
		names = append(names, plot.Tick{Value: float64(i), Label: name})
	}
	g.X.Tick.Marker = plot.ConstantTicks(names)
	g.X.Tick.Color = color.Transparent // a group is not a point
	step, top := scale(p.most(), pictureSteps)
	var values []plot.Tick
	for _, v := range upTo(top, step) {
		values = append(values, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 6, 64)})
	}
	g.Y.Min, g.Y.Max, g.Y.Tick.Marker = 0, top, plot.ConstantTicks(values)
	g.Add(marks{p, values})
	return g
}

// most is the largest number in the picture.
func (p Picture) most() (top float64) {
	for _, s := range p.Series {
		for _, m := range s.Marks {
			top = max(top, m.top(), m.Limit)
		}
	}
	return top
}

// scale is a round step and a round end of an axis from 0 on which v has its place, and is no more than so many steps.
func scale(v, steps float64) (step, top float64) {
	if !(v > 0) || math.IsInf(v, 0) {
		return 1, 1
	}
	p := math.Pow(10, math.Floor(math.Log10(v/5)))
	for _, m := range []float64{1, 2, 2.5, 5, 10, 20} {
		if step = m * p; v/step <= steps {
			break
		}
	}
	return step, step * math.Ceil(v*1.02/step)
}

// upTo are the ticks of an axis from 0.
func upTo(top, step float64) (ticks []float64) {
	for i := 0; float64(i)*step <= top*(1+1e-9); i++ {
		ticks = append(ticks, float64(i)*step)
	}
	return ticks
}

// marks draws the data area.
type marks struct {
	Picture
	values []plot.Tick
}

// Plot makes marks a plot.Plotter.
func (m marks) Plot(c draw.Canvas, g *plot.Plot) {
	x, y := g.Transforms(&c)
	for _, t := range m.values {
		stroke(c, faint, 1, nil, c.Min.X, y(t.Value), c.Max.X, y(t.Value))
	}
	step := x(1) - x(0)
	n := vg.Length(len(m.Series))
	slot := min(46, step*0.84/max(n, 1))
	at := func(series, group int) vg.Length {
		if m.Joined {
			return x(float64(group)) + 9*(vg.Length(series)-(n-1)/2) // whiskers side by side
		}
		return x(float64(group)) + slot*(vg.Length(series)-(n-1)/2)
	}
	half := slot * 0.36
	for i, s := range m.Series {
		look := lookOf(s.Name)
		col := look.colour
		var before vg.Point
		joins := false
		for k, mark := range s.Marks {
			mid := at(i, k)
			if mark.High > mark.Low {
				c.SetColor(pale(col))
				c.Fill(rectangle(mid-half, y(mark.Low), mid+half, y(mark.High)))
				stroke(c, col, 1.5, nil, mid-half, y(mark.Low), mid+half, y(mark.Low))
				stroke(c, col, 1.5, nil, mid-half, y(mark.High), mid+half, y(mark.High))
			}
			from := 0.0
			for part, v := range mark.Stack {
				c.SetColor([]color.RGBA{col, pale(col)}[part%2])
				c.Fill(rectangle(mid-half, y(from), mid+half, y(from+v)))
				from += v
			}
			if mark.Note != "" {
				style := letters()
				style.XAlign = -0.5
				c.FillText(style, vg.Point{X: mid, Y: y(mark.top()) + 9}, mark.Note)
			}
			if mark.Limit > 0 {
				centre, reach, colour := mid, slot/2, ink
				if m.Joined { // each series has its own
					centre, reach, colour = x(float64(k)), step/4, col
				}
				stroke(c, colour, 1.5, []vg.Length{4, 2}, centre-reach, y(mark.Limit), centre+reach, y(mark.Limit))
			}
			if mark.Middle.N == 0 {
				joins = false
				continue
			}
			here := vg.Point{X: mid, Y: y(mark.Middle.Median)}
			if m.Joined && joins {
				stroke(c, col, 2, nil, before.X, before.Y, here.X, here.Y)
			}
			if mark.Middle.Max > mark.Middle.Min {
				lo, hi := y(mark.Middle.Min), y(mark.Middle.Max)
				stroke(c, col, 1.5, nil, mid, lo, mid, hi)
				stroke(c, col, 1.5, nil, mid-4, lo, mid+4, lo)
				stroke(c, col, 1.5, nil, mid-4, hi, mid+4, hi)
			}
			c.DrawGlyph(draw.GlyphStyle{Color: col, Radius: 4.5, Shape: look.shape}, here)
			before, joins = here, true
		}
	}
}

// legend is above the data, in as many rows as it needs. It returns how high it is.
func (p Picture) legend(c draw.Canvas) vg.Length {
	const row = vg.Length(19)
	style := letters()
	start := c.Min.X + 44
	left, mid := start, c.Max.Y-14
	put := func(name string, sample func(x vg.Length)) {
		long := 22 + style.Width(name)
		if left > start && left+long > c.Max.X-8 {
			left, mid = start, mid-row
		}
		sample(left)
		c.FillText(style, vg.Point{X: left + 22, Y: mid}, name)
		left += long + 16
	}
	for _, s := range p.Series {
		put(s.Name, func(x vg.Length) {
			col := lookOf(s.Name).colour
			if p.Joined {
				stroke(c, col, 2, nil, x, mid, x+16, mid)
				c.DrawGlyph(draw.GlyphStyle{Color: col, Radius: 4.5, Shape: lookOf(s.Name).shape}, vg.Point{X: x + 8, Y: mid})
				return
			}
			c.SetColor(col)
			c.Fill(rectangle(x+2, mid-6, x+14, mid+6))
		})
	}
	for _, k := range p.Legend {
		put(k.Name, func(x vg.Length) {
			switch k.Kind {
			case "dashed":
				stroke(c, ink, 1.5, []vg.Length{4, 2}, x, mid, x+16, mid)
			case "†":
				c.FillText(style, vg.Point{X: x + 8, Y: mid}, k.Kind)
			case "dot":
				c.DrawGlyph(draw.GlyphStyle{Color: ink, Radius: 4.5, Shape: draw.CircleGlyph{}}, vg.Point{X: x + 8, Y: mid})
			default:
				c.SetColor(muted)
				if k.Kind == "pale" {
					c.SetColor(pale(muted))
				}
				c.Fill(rectangle(x+2, mid-6, x+14, mid+6))
			}
		})
	}
	return c.Max.Y - mid + row
}

func letters() text.Style {
	return text.Style{Color: ink, Font: sans(12), Handler: plot.DefaultTextHandler, YAlign: -0.38}
}

func rectangle(x0, y0, x1, y1 vg.Length) (p vg.Path) {
	p.Move(vg.Point{X: x0, Y: y0})
	p.Line(vg.Point{X: x1, Y: y0})
	p.Line(vg.Point{X: x1, Y: y1})
	p.Line(vg.Point{X: x0, Y: y1})
	p.Close()
	return p
}

func stroke(c draw.Canvas, col color.Color, width vg.Length, dashes []vg.Length, x0, y0, x1, y1 vg.Length) {
	c.StrokeLine2(draw.LineStyle{Color: col, Width: width, Dashes: dashes}, x0, y0, x1, y1)
}
