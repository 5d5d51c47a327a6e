// Package picture draws networks, and plans on them, as SVG that a person can read at 400 hosts.
//
// A tree is drawn from left to right, its root on the left. A row is a switch with its hosts, each a
// square; beyond a hundred hosts a row is a site, with the switches that only it uses:
//
//	         ┌─ region1 ─┬─ site1   25 hosts on 3 switches  ■■■■■■■■■■■■■■■
//	core ────┤           └─ site5   31 hosts on 3 switches  ■■■■■■■■■■■■■■■■■■■
//	         └─ region2 ─── site2   …
//
// Any other network is a map: its switches, or sites, are circles with their hosts in them. They are where the
// file has them; if it does not say, they are in layers if links join only neighbouring ones (as in a fat tree),
// and else as far from each other as the links between them are many (layout.go).
//
// Loads are greys, transfers are colours: hosts are marked by what they are in them (hosts.go), links have a line for each beside
// that of their load, but on maps where so many lines would cross.
//
// Everything is the same for the same network. Hosts, circles and lines say on a touch what they are.
package picture

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/freshet/freshet/topo"
	"github.com/freshet/freshet/unit"
)

// Options are what is drawn besides the network.
type Options struct {
	Title     string
	Load      []float64  // by channel: share of its capacity that goes that way, 0 to 1, the darker the more; nil: rates are shown
	Transfers []Transfer // hosts are marked by what they are in these
	Flows     []Flow     // drawn along the links that they use
}

// Transfer is data that some hosts have and others need. Each has a colour.
type Transfer struct {
	Name         string
	Sources      []int          // hosts
	Destinations []int          // hosts; one that is a source needs nothing
	Without      map[int]string // destinations that nothing or next to nothing comes to, and why
}

// Flow is a pipeline: from the source through all destinations.
type Flow struct {
	Transfer int   // index into Transfers
	Path     []int // hosts in order, the source first
	Rate     unit.Bandwidth
}

const (
	foldBeyond   = 100 // hosts
	colouredMost = 8   // transfers that have a colour; of more those that carry most, and the others one together
	fontSize     = 12.0
)

// Draw returns an SVG document.
func Draw(g *topo.Graph, o Options) []byte {
	d := &drawing{Graph: g, Options: o, fold: foldSites(g, g.Hosts() > foldBeyond)}
	d.rateRange()
	d.chooseColoured()
	d.giveRoles()
	d.useLinks()
	if g.Tree() != nil {
		d.tree()
	} else {
		d.plane()
	}
	return d.document()
}

// drawing is a picture while it is made.
type drawing struct {
	*topo.Graph
	Options
	fold          folding
	lo, hi        unit.Bandwidth         // of all rates but 0
	coloured      []int                  // transfers that have a colour of their own, in order
	using         map[topo.Channel][]int // transfers, in order
	roles         [][]role               // by host
	notes         []string               // what else the legend has to say
	b             strings.Builder
	width, height float64
}

func (d *drawing) rateRange() {
	for c := range topo.Channel(d.Channels()) {
		r := d.Rate(c)
		if r > 0 && (d.lo == 0 || r < d.lo) {
			d.lo = r
		}
		d.hi = max(d.hi, r)
	}
}

// chooseColoured finds which transfers have a colour of their own: those that carry most, Σ over flows of destinations × rate.
func (d *drawing) chooseColoured() {
	carried := make([]float64, len(d.Transfers))
	for _, f := range d.Flows {
		carried[f.Transfer] += float64(f.Rate) * float64(len(f.Path)-1)
	}
	for k := range d.Transfers {
		d.coloured = append(d.coloured, k)
	}
	slices.SortStableFunc(d.coloured, func(a, b int) int { return cmp.Compare(carried[b], carried[a]) })
	d.coloured = d.coloured[:min(len(d.coloured), colouredMost)]
	slices.Sort(d.coloured)
}

// colourOf is the index of a transfer in coloured, or the one after the last of one of the others.
func (d *drawing) colourOf(transfer int) int {
	if k := slices.Index(d.coloured, transfer); k >= 0 {
		return k
	}
	return len(d.coloured)
}

// useLinks finds what the flows use.
func (d *drawing) useLinks() {
	d.using = map[topo.Channel][]int{}
	router := d.Router()
	flows := slices.SortedStableFunc(slices.Values(d.Flows), func(a, b Flow) int { return cmp.Compare(a.Transfer, b.Transfer) })
	for _, f := range flows {
		for i, host := range f.Path[1:] {
			path, _, _ := router.Route(nil, f.Path[i], host)
			for _, c := range path {
				if n := len(d.using[c]); n == 0 || d.using[c][n-1] != f.Transfer {
					d.using[c] = append(d.using[c], f.Transfer)
				}
			}
		}
	}
}

// crossing are the transfers that use links, in either direction, in order.
func (d *drawing) crossing(links ...topo.Channel) (transfers []int) {
	for _, c := range links {
		transfers = append(append(transfers, d.using[c]...), d.using[c^1]...)
	}
	slices.Sort(transfers)
	return slices.Compact(transfers)
}

// lanes are the colours of the transfers that use links, each of which is drawn beside them. Others are drawn where they are alone:
// elsewhere a link's colour says enough of them.
func (d *drawing) lanes(links ...topo.Channel) (colours []int) {
	for _, transfer := range d.crossing(links...) {
		colours = append(colours, d.colourOf(transfer))
	}
	slices.Sort(colours)
	colours = slices.Compact(colours)
	if last := len(colours) - 1; last > 0 && colours[last] == len(d.coloured) {
		colours = colours[:last]
	}
	return colours
}

// lane is how far from the middle of a link the i-th transfer is drawn.
func lane(i int) float64 { return 5.5 + 2.6*float64(i) }

const laneWidth = 1.6

// colourName is the transfer that has the k-th colour, or how many others there are.
func (d *drawing) colourName(k int) string {
	if k == len(d.coloured) {
		return count(len(d.Transfers)-k, "other")
	}
	return d.Transfers[d.coloured[k]].Name
}

// transferColour is the k-th of transfers, or that of the others.
func (d *drawing) transferColour(k int) string {
	if k == len(d.coloured) {
		return othersColour
	}
	return transferColours[k]
}

// transferColours and othersColour are told apart, and from the greys of loads, by most people, and by those who see no red or no green: four are
// Okabe and Ito's, whose green and pink would be greys to the latter.
var transferColours = [colouredMost]string{"#0072b2", "#d55e00", "#8bca62", "#b96bff", "#56b4e9", "#e69f00", "#7a0000", "#3a0ca3"}

const othersColour = "#8f6433"

// loadColour goes from light grey to near black: no transfer has a colour of that scale.
func loadColour(load float64) string {
	const idle, full = 220, 16
	if !(load > 0) {
		load = 0
	}
	grey := int(math.Round(idle + (full-idle)*min(load, 1)))
	return fmt.Sprintf("#%02x%02x%02x", grey, grey, grey)
}

// place of a rate between the smallest and the largest, by its logarithm, 0 to 1.
func (d *drawing) share(r unit.Bandwidth) float64 {
	if r <= d.lo || d.lo >= d.hi {
		if r > 0 && d.lo >= d.hi {
			return 0.5
		}
		return 0
	}
	if span := float64(d.hi / d.lo); !math.IsInf(span, 1) {
		return min(1, math.Log(float64(r/d.lo))/math.Log(span)) // several links drawn as one have more than the largest
	}
	lo := math.Log(float64(d.lo))
	return min(1, (math.Log(float64(r))-lo)/(math.Log(float64(d.hi))-lo))
}

// rateColour goes from pale to dark blue; what carries nothing is white.
func (d *drawing) rateColour(r unit.Bandwidth) string {
	if r == 0 {
		return "#ffffff"
	}
	x := d.share(r)
	return fmt.Sprintf("#%02x%02x%02x", int(200-170*x), int(220-150*x), int(240-90*x))
}

func (d *drawing) thickness(r unit.Bandwidth) float64 {
	if r == 0 {
		return 0.5
	}
	return 1 + 3*d.share(r)
}

// width of a line in a picture of loads: what is idle is thin.
func (d *drawing) loadWidth(r unit.Bandwidth, load float64) float64 {
	if load <= 0 {
		return 1
	}
	return max(1.5, d.thickness(r)*0.8)
}

// load of a channel; of half-duplex links that of both directions.
func (d *drawing) load(c topo.Channel) float64 {
	switch {
	case int(c|1) >= len(d.Load):
		return 0
	case d.Half(c):
		return d.Load[c] + d.Load[c^1]
	}
	return d.Load[c]
}

func (d *drawing) colour(c topo.Channel) string {
	if d.Load != nil {
		return loadColour(d.load(c))
	}
	if d.Rate(c) == 0 {
		return "#d0d0d0"
	}
	return "#8a97a6"
}

// says what a link is, in both directions.
func (d *drawing) says(c topo.Channel) string {
	from, to := d.Name(d.From(c)), d.Name(d.To(c))
	l := d.Network().Links[c.Link()]
	one := func(c topo.Channel) string {
		s := d.Rate(c).Bits()
		if d.Load != nil {
			s += fmt.Sprintf(", %.0f %% used", 100*d.load(c))
		}
		return s
	}
	s := fmt.Sprintf("%s → %s: %s", from, to, one(c))
	if l.Half {
		s = fmt.Sprintf("%s — %s: %s, half duplex", from, to, one(c))
	} else if d.Load != nil || d.Rate(c) != d.Rate(c^1) {
		s += fmt.Sprintf("\n%s → %s: %s", to, from, one(c^1))
	}
	if l.Delay > 0 {
		s += fmt.Sprintf("\n%v one way", l.Delay)
	}
	return s
}

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(&d.b, format, args...) }

// text writes s with its middle line at y. anchor is start, middle or end.
func (d *drawing) text(x, y float64, anchor, class, s string) {
	d.printf(`<text x="%.1f" y="%.1f" text-anchor="%s"`, x, y+fontSize*0.35, anchor)
	if class != "" {
		d.printf(` class="%s"`, class)
	}
	d.printf(">%s</text>\n", escape(s))
}

// escape makes s a text of XML; what cannot be in one becomes a question mark.
func escape(s string) string {
	var b bytes.Buffer
	if err := xml.EscapeText(&b, []byte(s)); err != nil {
		panic(err) // memory can be written to
	}
	return strings.ReplaceAll(b.String(), "\uFFFD", "?")
}

// textWidth is about how wide a text is.
func textWidth(s string) float64 {
	w := 0.0
	for _, r := range s {
		switch {
		case strings.ContainsRune("ijl.,:;|'! ", r):
			w += 3.6
		case r >= 0x2e80: // full width
			w += 12
		default:
			w += 7
		}
	}
	return w
}

// count says how many there are of a thing.
func count(n int, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case strings.HasSuffix(thing, "ch"):
		return fmt.Sprintf("%d %ses", n, thing)
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// cut shortens s to n runes, in the middle: names of one kind begin alike, and end in their numbers.
func cut(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	last := (n - 1) / 2
	return string(r[:n-1-last]) + "…" + string(r[len(r)-last:])
}

const (
	headHeight = 74.0 // with one row of the legend
	rowHeight  = 18.0
)

// document is the whole file: what was drawn, below a head with title and legend.
func (d *drawing) document() []byte {
	body := d.b.String()
	d.b.Reset()
	d.width = max(d.width, 760)
	legend := d.rows(d.legend())
	head := headHeight + rowHeight*float64(len(legend)-1)
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" font-family="Helvetica, Arial, sans-serif" font-size="%g" fill="#222">`+"\n",
		d.width, d.height+head, d.width, d.height+head, fontSize)
	d.printf("<style>.t{font-size:16px;font-weight:bold}.s{font-size:10px;fill:#667}.n{font-weight:bold}.h{paint-order:stroke;stroke:#fff;stroke-width:4px;stroke-linejoin:round}</style>\n")
	d.printf(`<rect width="100%%" height="100%%" fill="#fff"/>` + "\n")
	title := d.Title
	if title == "" {
		title = "Network"
	}
	d.text(16, 20, "start", "t", cut(title, 80))
	kind := "no tree"
	switch {
	case d.Tree() != nil:
		kind = "a tree"
	case d.Cycles():
		kind = "with cycles"
	}
	n := d.Network()
	d.text(16, 40, "start", "s", fmt.Sprintf("%s, %s, %s; %s", count(len(n.Hosts), "host"), count(len(n.Switches), "switch"), count(len(n.Links), "link"), kind))
	for i, row := range legend {
		x := edge
		for _, k := range row {
			k.draw(x, 60+rowHeight*float64(i))
			x += k.wide
		}
	}
	d.printf(`<g transform="translate(0 %g)">`+"\n%s</g>\n</svg>\n", head, body)
	return []byte(d.b.String())
}

const edge = 16.0 // on both sides of the head

// key is an entry of the legend.
type key struct {
	wide float64
	draw func(x, y float64)
}

// rows are the entries of the legend in rows that fit, one at least.
func (d *drawing) rows(keys []key) [][]key {
	rows, x := [][]key{nil}, edge
	for _, k := range keys {
		if x+k.wide > d.width && x > edge {
			rows, x = append(rows, nil), edge
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], k)
		x += k.wide
	}
	return rows
}

// legend says what colours and shapes are.
func (d *drawing) legend() (keys []key) {
	says := func(before float64, text string, draw func(x, y float64)) {
		keys = append(keys, key{before + textWidth(text)*0.85 + 14, func(x, y float64) {
			draw(x, y)
			d.text(x+before, y, "start", "s", text)
		}})
	}
	patch := func(fill string) func(x, y float64) {
		return func(x, y float64) {
			d.printf(`<rect x="%.1f" y="%.1f" width="12" height="12" fill="%s" stroke="#9aa5b1" stroke-width="0.5"/>`+"\n", x, y-6, fill)
		}
	}
	line := func(from, to float64, colour string, wide float64) func(x, y float64) {
		return func(x, y float64) {
			d.printf(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="%s" stroke-width="%.1f"/>`+"\n", x+from, x+to, y, y, colour, wide)
		}
	}
	nothing := func(x, y float64) {}
	if d.Load != nil {
		says(0, "in use", nothing)
		for _, load := range []float64{0, 0.25, 0.5, 0.75, 0.9, 1} {
			says(16, fmt.Sprintf("%.0f %%", 100*load), patch(loadColour(load)))
		}
	} else if d.hi > 0 {
		says(0, "rate", nothing)
		rs := []unit.Bandwidth{d.lo, unit.Bandwidth(math.Sqrt(float64(d.lo * d.hi))), d.hi}
		if d.lo == d.hi {
			rs = rs[:1]
		}
		for _, r := range rs {
			says(42, r.Bits(), func(x, y float64) {
				patch(d.rateColour(r))(x, y)
				line(17, 37, "#8a97a6", d.thickness(r))(x, y)
			})
		}
	}
	for _, note := range d.notes {
		says(0, note, nothing)
	}
	for k := range d.coloured {
		says(20, cut(d.colourName(k), 24), line(0, 16, d.transferColour(k), 2.5))
	}
	if k := len(d.coloured); k < len(d.Transfers) {
		says(20, d.colourName(k), line(0, 16, d.transferColour(k), 2.5))
	}
	for _, m := range d.marks() {
		says(20, m.String(), func(x, y float64) { d.shape(m, x+8, y, square, "#fff") })
	}
	return keys
}
