package report

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"image/color"
	"math"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// hue is a colour of the pictures by its meaning. In the SVG it becomes a
// custom property of the page, so that the style sheet has the last word: one
// set for light and print, one for dark.
type hue int

const (
	ink hue = iota + 1
	muted
	grid
	store // from the store
	taken // from the store, in the place of another node
	peers // from peers
	both  // from the store and from peers
	waitStore
	waitPeers
	closing // checks and publication
	bad
	onPale // text on the lower and upper classes of share
	onDeep
	held1 // how many nodes hold a piece; four classes up to all
	held2
	held3
	held4
	share1 // how much of an object somebody gave; seven classes
	share2
	share3
	share4
	share5
	share6
	share7
)

var hueNames = map[hue]string{
	ink: "ink", muted: "muted", grid: "grid", store: "store", taken: "taken", peers: "peers", both: "both", waitStore: "wait-store", waitPeers: "wait-peers",
	closing: "closing", bad: "bad",
	onPale: "on-pale", onDeep: "on-deep", held1: "held1", held2: "held2", held3: "held3", held4: "held4",
	share1: "share1", share2: "share2", share3: "share3", share4: "share4", share5: "share5", share6: "share6", share7: "share7",
}

// RGBA makes a hue a colour that vgsvg writes as #0000NN, NN being the hue.
func (h hue) RGBA() (r, g, b, a uint32) { return 0, 0, uint32(h) * 0x101, 0xffff }

var _ color.Color = hue(0)

// What vgsvg writes that the page says once for all, and the colours.
var (
	markup    = regexp.MustCompile(`<[^>]*>`) // text has its < and > escaped
	hueInTag  = regexp.MustCompile(`#0000[0-9A-Fa-f]{2}`)
	fontInTag = regexp.MustCompile(`font-family:[^;"]*;font-variant:[^;"]*;font-weight:[^;"]*;font-style:[^;"]*;`)
	spaces    = regexp.MustCompile(`\s+`)
)

// inline is the SVG of c as an element of the page, told to those who cannot
// see it as label.
func inline(c *vgsvg.Canvas, label, class string) (template.HTML, error) {
	var buf bytes.Buffer
	if _, err := c.WriteTo(&buf); err != nil {
		return "", fmt.Errorf("draw %s: %w", label, err)
	}
	_, body, ok := strings.Cut(buf.String(), "<svg")
	if ok {
		_, body, ok = strings.Cut(body, ">")
	}
	if !ok {
		return "", fmt.Errorf("draw %s: no svg element came of it", label)
	}
	body = markup.ReplaceAllStringFunc(body, func(tag string) string {
		tag = spaces.ReplaceAllString(tag, " ")
		tag = fontInTag.ReplaceAllString(tag, "")
		return hueInTag.ReplaceAllStringFunc(tag, func(s string) string {
			n, err := strconv.ParseInt(s[len("#0000"):], 16, 32)
			if name, ok := hueNames[hue(n)]; err == nil && ok {
				return "var(--" + name + ")"
			}
			return s
		})
	})
	w, h := c.Size()
	return template.HTML(fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" class="%s" width="%g" viewBox="0 0 %g %g" role="img" aria-label="%s">%s`,
		class, tenth(w), tenth(w), tenth(h), html.EscapeString(label), body)), nil
}

// format is one of the two sizes that every picture is drawn in.
type format struct {
	class string
	width vg.Length
	name  int // runes of a node's name
	cols  int // columns of what is aggregated over time or pieces
	rows  int // rows of what is aggregated over pieces
}

var formats = []format{
	{class: "wide", width: 880, name: 14, cols: 176, rows: 128},
	{class: "slim", width: 344, name: 9, cols: 88, rows: 96},
}

// newPlot returns a plot in our type and colours with titles on both axes.
func newPlot(x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil // the card behind it
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Color, a.Tick.Color = muted, muted
		a.Label.TextStyle.Color, a.Tick.Label.Color = ink, ink
		a.Label.TextStyle.Font = font.Font{Typeface: plot.DefaultFont.Typeface, Variant: "Sans", Size: 12}
		a.Tick.Label.Font = font.Font{Typeface: plot.DefaultFont.Typeface, Variant: "Sans", Size: 11}
		a.Tick.Length = 4
		a.Padding = 0
		a.Label.Padding = 3
	}
	p.X.Label.Text, p.Y.Label.Text = x, y
	return p
}

// spanX sets a linear horizontal axis from 0 to end.
func spanX(p *plot.Plot, end float64, f format) {
	p.X.Min, p.X.Max = 0, end
	p.X.Tick.Marker = plot.ConstantTicks(ticks(end, int(f.width/80)))
}

// rowsY gives the vertical axis one row for each of the nodes, the first on
// top. Row i lies between i-½ and i+½.
func rowsY(p *plot.Plot, nodes []*Node, f format, height vg.Length) {
	p.Y.Min, p.Y.Max = -0.5, float64(len(nodes))-0.5
	p.Y.Scale = plot.InvertedScale{Normalizer: plot.LinearScale{}}
	p.Y.Tick.Length = 0
	p.Y.Width = 0
	p.Y.Tick.Label.Font.Size = max(7, min(11, height-1))
	p.Y.Tick.Label.YAlign = -0.65               // the axis puts labels a descent above the middle
	step := int(math.Ceil(8 / height.Points())) // of names that are shown
	marks := make([]plot.Tick, 0, len(nodes))
	for i, n := range nodes {
		if i%step == 0 {
			marks = append(marks, plot.Tick{Value: float64(i), Label: tag(n.Name, i, f.name)})
		}
	}
	p.Y.Tick.Marker = plot.ConstantTicks(marks)
}

// rowHeight is how high a node's row is drawn: they all have to fit.
func rowHeight(nodes int) vg.Length {
	switch {
	case nodes <= 2:
		return 40 // the axis' title and its names want some height
	case nodes <= 10:
		return 24
	case nodes <= 16:
		return 18
	case nodes <= 32:
		return 13
	}
	return 9
}

// ticks are n or so round numbers from 0 to end.
func ticks(end float64, n int) []plot.Tick {
	step := roundUp(end / float64(max(n, 2)))
	var out []plot.Tick
	for i := 0; float64(i)*step <= end*(1+1e-9) && i < 100; i++ {
		out = append(out, plot.Tick{Value: float64(i) * step, Label: strconv.FormatFloat(float64(i)*step, 'g', 10, 64)})
	}
	return out
}

// roundUp is the next of 1, 2, 2.5, 5 times a power of ten.
func roundUp(v float64) float64 { return nextOf(v, 1, 2, 2.5, 5, 10) }

// nextOf is the least of ms times a power of ten that is not below v.
func nextOf(v float64, ms ...float64) float64 {
	if !(v > 0) || math.IsInf(v, 0) {
		return 1
	}
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range ms {
		if m*p >= v*(1-1e-9) {
			return m * p
		}
	}
	return 10 * p
}

// tag is a node's name as a picture shows it, at most n runes of its head and
// its tail: nodes of one cluster mostly differ in their last digits. Text is
// set with the widths of a font of the Latin, Greek and Cyrillic scripts; a
// name with others would lie across the picture, so its place stands for it.
func tag(name string, place, n int) string {
	name = strings.ReplaceAll(name, "\uFFFD", "?")
	if strings.ContainsFunc(name, func(r rune) bool { return r > 0x52F }) {
		return fmt.Sprintf("#%d", place+1)
	}
	r := []rune(name)
	if len(r) <= n {
		return name
	}
	tail := (n - 1) * 2 / 3
	return string(r[:n-1-tail]) + "…" + string(r[len(r)-tail:])
}

// panel is a picture of one run that has to line up with the others'.
type panel struct {
	plot   *plot.Plot
	width  vg.Length // zero is that of the format
	height vg.Length
	label  string
}

// render draws panels at one width with their data areas exactly below each
// other, which makes their horizontal axes comparable.
func render(panels []panel, f format) ([]template.HTML, error) {
	lefts, rights := make([]vg.Length, len(panels)), make([]vg.Length, len(panels))
	canvases := make([]*vgsvg.Canvas, len(panels))
	var left, right vg.Length
	for i, p := range panels {
		if p.width == 0 {
			p.width = f.width
		}
		canvases[i] = vgsvg.NewWith(vgsvg.UseWH(p.width, p.height))
		c := draw.New(canvases[i])
		d := p.plot.DataCanvas(c)
		lefts[i], rights[i] = d.Min.X-c.Min.X, c.Max.X-d.Max.X
		left, right = max(left, lefts[i]), max(right, rights[i])
	}
	out := make([]template.HTML, len(panels))
	for i, p := range panels {
		p.plot.Draw(draw.Crop(draw.New(canvases[i]), left-lefts[i], rights[i]-right, 0, -2))
		var err error
		if out[i], err = inline(canvases[i], p.label, f.class); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// drawn is a plotter made of a function, which gets the data area and the
// plot's transformations into it.
type drawn func(c draw.Canvas, x, y func(float64) vg.Length)

// Plot makes drawn a plot.Plotter.
func (d drawn) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	d(c, x, y)
}

// boxes are rectangles of one colour, drawn as a single path: thousands of
// elements would make the page large and slow.
type boxes struct{ path vg.Path }

func (b *boxes) add(x0, y0, x1, y1 vg.Length) {
	x0, y0, x1, y1 = tenth(x0), tenth(y0), tenth(x1), tenth(y1)
	b.path.Move(vg.Point{X: x0, Y: y0})
	b.path.Line(vg.Point{X: x1, Y: y0})
	b.path.Line(vg.Point{X: x1, Y: y1})
	b.path.Line(vg.Point{X: x0, Y: y1})
	b.path.Close()
}

func (b *boxes) fill(c draw.Canvas, h hue) {
	if len(b.path) > 0 {
		c.SetColor(h)
		c.Fill(b.path)
	}
}

// tenth rounds to what can be seen, which also makes numbers short.
func tenth(l vg.Length) vg.Length { return vg.Length(math.Round(float64(l)*10) / 10) }

// line draws a straight one.
func line(c draw.Canvas, h hue, width vg.Length, dashes []vg.Length, x0, y0, x1, y1 vg.Length) {
	c.StrokeLine2(draw.LineStyle{Color: h, Width: width, Dashes: dashes}, tenth(x0), tenth(y0), tenth(x1), tenth(y1))
}

// cross marks a failure.
func cross(c draw.Canvas, x, y, r vg.Length) {
	line(c, bad, 2, nil, x-r, y-r, x+r, y+r)
	line(c, bad, 2, nil, x-r, y+r, x+r, y-r)
}
