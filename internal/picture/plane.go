package picture

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/freshet/freshet/topo"
	"github.com/freshet/freshet/unit"
)

// point is where something is, in pixels.
type point struct{ x, y float64 }

// plane draws a network that is no tree.
func (d *drawing) plane() {
	f := &d.fold
	bs := f.bundles(d.Graph)
	k := len(f.nodes)
	radius := make([]float64, k)
	for i, n := range f.nodes {
		radius[i] = 5
		if hosts := len(n.hosts); hosts > 0 {
			radius[i] = min(6+4*math.Sqrt(float64(hosts)), 38)
		}
	}
	size := 900 * math.Sqrt(max(1, float64(k)/90))
	d.width, d.height = size*1.4, size
	at := d.positions(bs, radius)
	degree := make([]int, k)
	for _, b := range bs {
		degree[b.from]++
		degree[b.to]++
	}
	single := len(bs) > max(bundlesMost, bundlesEach*k)
	if single && d.Load != nil {
		d.notes = append(d.notes, "a line: the fullest link between two places, either way; transfers have no lines")
		slices.SortStableFunc(bs, func(a, b bundle) int { return cmp.Compare(d.fullest(a), d.fullest(b)) }) // the fullest on top
	}
	for _, b := range bs {
		d.bundle(b, at[b.from], at[b.to], single)
	}
	for i := range f.nodes {
		d.node(&f.nodes[i], at[i], radius[i])
	}
	d.labels(at, radius, degree)
}

// Of more bundles than these, or than so many for each node, each is a single line: they cross so often that lines side by side are a mat.
const (
	bundlesMost = 24
	bundlesEach = 2
)

// fullest is the largest load of a bundle, in either direction.
func (d *drawing) fullest(b bundle) (most float64) {
	for _, c := range b.channels {
		most = max(most, d.load(c), d.load(c^1))
	}
	return most
}

// bundleSays is what the links of a bundle are, the fullest first, and which transfers use them.
func (d *drawing) bundleSays(b bundle) string {
	const linksMost, namesMost = 6, 6
	channels := slices.SortedStableFunc(slices.Values(b.channels), func(x, y topo.Channel) int {
		return cmp.Compare(max(d.load(y), d.load(y^1)), max(d.load(x), d.load(x^1)))
	})
	var says []string
	for _, c := range channels[:min(len(channels), linksMost)] {
		says = append(says, d.says(c))
	}
	if more := len(channels) - linksMost; more > 0 {
		says = append(says, fmt.Sprintf("and %s more", count(more, "link")))
	}
	var names []string
	transfers := d.crossing(channels...)
	for _, k := range transfers[:min(len(transfers), namesMost)] {
		names = append(names, d.Transfers[k].Name)
	}
	if more := len(transfers) - namesMost; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	if len(names) > 0 {
		says = append(says, "used by "+strings.Join(names, ", "))
	}
	return strings.Join(says, "\n")
}

// bundle draws all links between two nodes: as a single line, or as one for each direction with those of transfers beside them.
func (d *drawing) bundle(b bundle, p, q point, single bool) {
	var there, back unit.Bandwidth
	loadThere, loadBack := 0.0, 0.0
	half := true // all of them are half duplex
	for _, c := range b.channels {
		there += d.Rate(c)
		back += d.Rate(c ^ 1)
		loadThere, loadBack = max(loadThere, d.load(c)), max(loadBack, d.load(c^1))
		half = half && d.Half(c)
	}
	says := d.bundleSays(b)
	length := math.Hypot(q.x-p.x, q.y-p.y)
	if length == 0 {
		return
	}
	// To the right of who goes from p to q.
	nx, ny := -(q.y-p.y)/length, (q.x-p.x)/length
	line := func(off float64, colour string, wide float64) {
		d.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%.1f"><title>%s</title></line>`+"\n",
			p.x+nx*off, p.y+ny*off, q.x+nx*off, q.y+ny*off, colour, wide, escape(says))
	}
	switch {
	case d.Load == nil:
		line(0, d.colour(b.channels[0]), d.thickness(max(there, back)))
	case single || half:
		load := max(loadThere, loadBack)
		line(0, loadColour(load), d.loadWidth(max(there, back), load))
	default: // side by side
		w, v := d.loadWidth(there, loadThere), d.loadWidth(back, loadBack)
		line(max(1.5, w/2), loadColour(loadThere), w)
		line(-max(1.5, v/2), loadColour(loadBack), v)
	}
	if single {
		return
	}
	for i, k := range d.lanes(b.channels...) {
		line(lane(i), d.transferColour(k), laneWidth)
	}
}

// node draws a switch or a site as a circle, with its hosts in it.
func (d *drawing) node(n *node, p point, r float64) {
	says := n.name
	switch {
	case n.top < d.Hosts():
		d.host(n.top, p.x, p.y, 12)
		return
	case n.switches > 1 && len(n.hosts) == 0:
		says += fmt.Sprintf("\n%d switches with the same neighbours", n.switches)
	case n.switches > 1:
		says += "\n" + count(len(n.hosts), "host") + ", " + count(n.switches, "switch")
	case len(n.hosts) > 0:
		says += "\n" + count(len(n.hosts), "host")
	}
	fill := "#fff"
	if n.switches > 1 || len(n.hosts) > 0 {
		fill = "#eef2f7"
	}
	d.printf(`<circle cx="%.1f" cy="%.1f" r="%.1f" fill="%s" stroke="#445" stroke-width="1.2"><title>%s</title></circle>`+"\n", p.x, p.y, r, fill, escape(says))
	if len(n.hosts) == 0 {
		return
	}
	// Hosts on the spiral of a sunflower: evenly, however many they are.
	shown := d.some(n.hosts)
	size := min(6.0, 1.4*(r-2)/math.Sqrt(float64(len(shown))+0.5))
	for _, marked := range []bool{false, true} { // hosts of transfers are not to be covered by others
		for i, h := range shown {
			if len(d.roles[h]) > 0 != marked {
				continue
			}
			a, away := float64(i)*2.399963, (r-1-size*0.6)*math.Sqrt((float64(i)+0.5)/float64(len(shown)))
			if len(shown) == 1 {
				away = 0
			}
			wide := size
			if marked {
				wide = max(size, 7)
			}
			d.host(h, p.x+away*math.Cos(a), p.y+away*math.Sin(a), wide)
		}
	}
}

// some are hosts of a circle: of those that are too many for it every so manieth, and all that are in a transfer.
func (d *drawing) some(hosts []int) (shown []int) {
	const most = 120
	n := len(hosts)
	if n <= most {
		return hosts
	}
	for i, h := range hosts {
		k := (i*most + n - 1) / n // the first of most that is not before i
		if len(d.roles[h]) > 0 || k*n/most == i {
			shown = append(shown, h)
		}
	}
	return shown
}

type box struct{ x1, y1, x2, y2 float64 }

func (a box) meets(b box) bool { return a.x1 < b.x2 && b.x1 < a.x2 && a.y1 < b.y2 && b.y1 < a.y2 }

// crowd is boxes by the squares of a grid that they are in, so that a box is compared with those near it alone.
type crowd map[[2]int][]box

func (c crowd) add(b box) {
	c.squares(b, func(at [2]int) bool { c[at] = append(c[at], b); return false })
}

// meets says whether b meets any of the boxes.
func (c crowd) meets(b box) bool {
	return c.squares(b, func(at [2]int) bool { return slices.ContainsFunc(c[at], b.meets) })
}

// squares says whether something is so in one of the squares that b is in.
func (c crowd) squares(b box, is func(at [2]int) bool) bool {
	const side = 64 // pixels: about as wide as a name
	square := func(x float64) int { return int(math.Floor(x / side)) }
	for x := square(b.x1); x <= square(b.x2); x++ {
		for y := square(b.y1); y <= square(b.y2); y++ {
			if is([2]int{x, y}) {
				return true
			}
		}
	}
	return false
}

// labels writes names where there is room; the most connected first.
func (d *drawing) labels(at []point, radius []float64, degree []int) {
	order := make([]int, len(at))
	taken := crowd{}
	for i, p := range at {
		order[i] = i
		r := radius[i]
		taken.add(box{p.x - r, p.y - r, p.x + r, p.y + r})
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := len(d.fold.nodes[a].hosts)+degree[a]*3, len(d.fold.nodes[b].hosts)+degree[b]*3
		return y - x
	})
	for _, i := range order {
		name := cut(d.fold.nodes[i].name, 22)
		w, p, r := textWidth(name)*0.9, at[i], radius[i]+3
		for _, c := range []struct {
			x, y   float64
			anchor string
		}{
			{p.x + r, p.y, "start"}, {p.x, p.y + r + 6, "middle"}, {p.x, p.y - r - 6, "middle"}, {p.x - r, p.y, "end"},
			{p.x + r*0.7, p.y + r*0.7 + 4, "start"}, {p.x + r*0.7, p.y - r*0.7 - 4, "start"},
			{p.x - r*0.7, p.y + r*0.7 + 4, "end"}, {p.x - r*0.7, p.y - r*0.7 - 4, "end"},
		} {
			left := c.x
			switch c.anchor {
			case "middle":
				left -= w / 2
			case "end":
				left -= w
			}
			b := box{left, c.y - 6, left + w, c.y + 6}
			if b.x1 < 2 || b.x2 > d.width-2 || taken.meets(b) {
				continue
			}
			taken.add(b)
			d.printf(`<text x="%.1f" y="%.1f" text-anchor="%s" font-size="11" class="h">%s</text>`+"\n", c.x, c.y+3.8, c.anchor, escape(name))
			break
		}
	}
}

// positions finds where nodes are.
func (d *drawing) positions(bs []bundle, radius []float64) []point {
	k := len(d.fold.nodes)
	const margin = 60.0
	high := margin / 2
	for _, r := range radius {
		high = max(high, r+2)
	}
	frame := box{margin, high, d.width - margin, d.height - high}
	next := neighbours(k, bs)
	if at, ok := d.onEarth(next, frame); ok {
		apart(at, radius, frame)
		return at
	}
	if at, ok := d.layered(bs, next, &frame); ok {
		return at
	}
	at := stress(next, frame)
	apart(at, radius, frame)
	return at
}

// onEarth are the places that the file has, if it has at least half of them. Dense regions are drawn wider.
func (d *drawing) onEarth(next [][]int32, frame box) ([]point, bool) {
	n := d.Network()
	k := len(d.fold.nodes)
	at, count := make([]point, k), make([]int, k)
	for i, s := range n.Switches {
		if s.At != nil {
			f := d.fold.of[len(n.Hosts)+i]
			at[f].x += s.At.Lon
			at[f].y -= s.At.Lat
			count[f]++
		}
	}
	known := make([]bool, k)
	some, lat := 0, 0.0
	for i := range at {
		if count[i] > 0 {
			at[i].x /= float64(count[i])
			at[i].y /= float64(count[i])
			known[i] = true
			some++
			lat -= at[i].y
		}
	}
	if 2*some < k || some < 2 {
		return nil, false
	}
	wide := math.Cos(lat / float64(some) * math.Pi / 180)
	for i := range at {
		at[i].x *= wide
	}
	// Who is nowhere is between its neighbours, unless it is in a part of which all are.
	for placed := true; placed; {
		placed = false
		for i := range at {
			if known[i] {
				continue
			}
			sum, m := point{}, 0.0
			for _, q := range next[i] {
				if known[q] {
					sum.x, sum.y, m = sum.x+at[q].x, sum.y+at[q].y, m+1
				}
			}
			if m > 0 {
				at[i], known[i], placed = point{sum.x / m, sum.y / m}, true, true
			}
		}
	}
	fit(at, frame, true)
	even(at, frame, 0.45)
	return at, true
}
