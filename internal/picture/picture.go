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
// Everything is the same for the same network. Squares, circles and lines say on a touch what they are.
package picture

import (
	"bytes"
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
	Title string
	Load  []float64 // by channel: share of its capacity that goes that way, 0 to 1, shown as colour; nil: rates are shown
	Flows []Flow    // drawn along the links that they use
}

// Flow is a pipeline: from the source through all destinations.
type Flow struct {
	Name  string
	Path  []int // hosts in order, the source first
	Group int   // flows of a group, as those of a transfer, have one colour
	Rate  unit.Bandwidth
}

const (
	foldBeyond = 100 // hosts
	groupsMost = 8   // that have a colour; of more none is drawn, and the loads tell
	fontSize   = 12.0
)

// Draw returns an SVG document.
func Draw(g *topo.Graph, o Options) []byte {
	d := &drawing{Graph: g, Options: o, fold: foldSites(g, g.Hosts() > foldBeyond)}
	d.rateRange()
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
	lo, hi        unit.Bandwidth // of all rates but 0
	groups        []int          // that are drawn, in order
	using         map[topo.Channel][]int
	roles         map[int]role // by host
	b             strings.Builder
	width, height float64
}

// role is what a host does in the first flow that it is in.
type role struct {
	group  int // index into groups
	source bool
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

// useLinks finds what the flows use.
func (d *drawing) useLinks() {
	d.using, d.roles = map[topo.Channel][]int{}, map[int]role{}
	for _, f := range d.Flows {
		if !slices.Contains(d.groups, f.Group) {
			d.groups = append(d.groups, f.Group)
		}
	}
	slices.Sort(d.groups)
	if len(d.groups) > groupsMost {
		return
	}
	router := d.Router()
	for _, f := range d.Flows {
		k := slices.Index(d.groups, f.Group)
		for i, host := range f.Path {
			if _, ok := d.roles[host]; !ok {
				d.roles[host] = role{k, i == 0}
			}
			if i == 0 {
				continue
			}
			path, _, _ := router.Route(nil, f.Path[i-1], host)
			for _, c := range path {
				if !slices.Contains(d.using[c], k) {
					d.using[c] = append(d.using[c], k)
				}
			}
		}
	}
	for _, ks := range d.using {
		slices.Sort(ks)
	}
}

// groupName is what the first flow of the k-th group is called.
func (d *drawing) groupName(k int) string {
	i := slices.IndexFunc(d.Flows, func(f Flow) bool { return f.Group == d.groups[k] })
	return d.Flows[i].Name
}

// groupColours are told apart by most people (Okabe and Ito; yellow left out, it is hard to see on white).
var groupColours = [groupsMost]string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f3fbf", "#444444"}

// loadColour goes from grey over green and amber to red.
func loadColour(load float64) string {
	stops := []struct {
		at      float64
		r, g, b float64
	}{{0, 205, 210, 216}, {0.02, 140, 190, 160}, {0.5, 60, 160, 90}, {0.8, 235, 170, 40}, {1, 205, 40, 40}}
	if !(load > 0) {
		load = 0
	}
	for i := 1; i < len(stops); i++ {
		if a, b := stops[i-1], stops[i]; load <= b.at {
			x := (load - a.at) / (b.at - a.at)
			return fmt.Sprintf("#%02x%02x%02x", int(a.r+x*(b.r-a.r)), int(a.g+x*(b.g-a.g)), int(a.b+x*(b.b-a.b)))
		}
	}
	return "#cd2828"
}

// place of a rate between the smallest and the largest, by its logarithm, 0 to 1.
func (d *drawing) share(r unit.Bandwidth) float64 {
	if r <= d.lo || d.lo >= d.hi {
		if r > 0 && d.lo >= d.hi {
			return 0.5
		}
		return 0
	}
	return math.Log(float64(r/d.lo)) / math.Log(float64(d.hi/d.lo))
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

// host draws a host as a square of that size around a point.
func (d *drawing) host(h int, x, y, size float64) {
	says, fill := d.Name(h), "#e8e8e8"
	for i, c := range d.Out(h) { // in: the reverse
		says += "\n" + d.says(c)
		switch {
		case d.Load != nil && i == 0:
			fill = loadColour(max(d.load(c), d.load(c^1)))
		case i == 0:
			fill = d.rateColour(min(d.Rate(c), d.Rate(c^1)))
		}
	}
	stroke, wide := "#9aa5b1", 0.5
	if r, ok := d.roles[h]; ok {
		stroke, wide = groupColours[r.group], 2
		says += "\ndestination"
		if r.source {
			says = strings.TrimSuffix(says, "destination") + "source"
			d.printf(`<path d="M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz" fill="%s" stroke="%s" stroke-width="2">`,
				x-size*0.75, y, size*0.75, -size*0.75, size*0.75, size*0.75, -size*0.75, size*0.75, fill, stroke)
			d.printf("<title>%s</title></path>\n", escape(says))
			return
		}
	}
	d.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s" stroke="%s" stroke-width="%g">`, x-size/2, y-size/2, size, size, fill, stroke, wide)
	d.printf("<title>%s</title></rect>\n", escape(says))
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

// cut shortens s to n runes.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

const headHeight = 74.0

// document is the whole file: what was drawn, below a head with title and legend.
func (d *drawing) document() []byte {
	body := d.b.String()
	d.b.Reset()
	d.width = max(d.width, 760)
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" font-family="Helvetica, Arial, sans-serif" font-size="%g" fill="#222">`+"\n",
		d.width, d.height+headHeight, d.width, d.height+headHeight, fontSize)
	d.printf("<style>.t{font-size:16px;font-weight:bold}.s{font-size:10px;fill:#667}.n{font-weight:bold}.h{paint-order:stroke;stroke:#fff;stroke-width:3px}</style>\n")
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
	d.legend()
	d.printf(`<g transform="translate(0 %g)">`+"\n%s</g>\n</svg>\n", headHeight, body)
	return []byte(d.b.String())
}

func (d *drawing) legend() {
	x, y := 16.0, 60.0
	if d.Load != nil {
		d.text(x, y, "start", "s", "in use")
		x += 36
		for _, load := range []float64{0, 0.25, 0.5, 0.75, 0.9, 1} {
			d.printf(`<rect x="%.1f" y="%.1f" width="12" height="12" fill="%s"/>`+"\n", x, y-6, loadColour(load))
			label := fmt.Sprintf("%.0f %%", 100*load)
			d.text(x+16, y, "start", "s", label)
			x += 28 + textWidth(label)*0.8
		}
	} else if d.hi > 0 {
		d.text(x, y, "start", "s", "rate")
		x += 28
		rs := []unit.Bandwidth{d.lo, unit.Bandwidth(math.Sqrt(float64(d.lo * d.hi))), d.hi}
		if d.lo == d.hi {
			rs = rs[:1]
		}
		for _, r := range rs {
			d.printf(`<rect x="%.1f" y="%.1f" width="12" height="12" fill="%s" stroke="#9aa5b1" stroke-width="0.5"/>`+"\n", x, y-6, d.rateColour(r))
			d.printf(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#8a97a6" stroke-width="%.1f"/>`+"\n", x+17, x+37, y, y, d.thickness(r))
			d.text(x+42, y, "start", "s", r.Bits())
			x += 54 + textWidth(r.Bits())*0.9
		}
	}
	x += 8
	if len(d.groups) > groupsMost {
		d.text(x, y, "start", "s", fmt.Sprintf("%d transfers: too many to be told apart by colour", len(d.groups)))
		return
	}
	for k := range d.groups {
		name := cut(d.groupName(k), 16)
		d.printf(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="%s" stroke-width="2.5"/>`+"\n", x, x+16, y, y, groupColours[k])
		d.text(x+20, y, "start", "s", name)
		x += 30 + textWidth(name)*0.9
	}
	if len(d.groups) > 0 {
		d.text(x, y, "start", "s", "◇ source  □ destination")
		x += 130
	}
	d.width = max(d.width, x+16)
}
