package picture

import (
	"fmt"
	"slices"
	"strings"

	"github.com/freshet/freshet/topo"
)

const (
	rowsMost   = 90
	levelsMost = 12   // of switches from the left to the right
	bend       = 90.0 // of a link, from left to right; the rest of it is level
	drop       = 14.0 // of a switch with hosts, below these, if links leave it to the right
	square     = 9.0
	pitch      = 13.0 // of squares; a diamond beside one touches it
	perLine    = 40   // squares
	linesMost  = 5
	labelWide  = 180.0 // at least, of what is written of rows
)

// row is a line of a tree's picture: a switch, or all that is below it, with the hosts.
type row struct {
	top      int // -1: what is not shown one by one
	label    string
	hosts    []int
	switches int
	inside   []topo.Channel // links between its switches
	drop     float64        // how much lower its switch is than its hosts: none lies where links leave it
	y        float64        // of its hosts
	from, to float64        // its edges
}

// treeDrawing is how a tree is laid out.
type treeDrawing struct {
	*drawing
	tree  *topo.Tree
	below [][]int32 // by place: the switches below it, in their order
	site  []string  // by place: the site of all below it; "*" if there are several or none
	cut   int32     // what is that deep is a row with all below it
	rows  []row
	x, y  []float64 // by place, where it is drawn
	level []float64 // by depth: how long a link is level before its end; what is written of it stands there, where no other link is
	shown []int     // switches, in order
	rowOf map[int]int
}

func (d *drawing) tree() {
	t := &treeDrawing{drawing: d, tree: d.Tree(), below: make([][]int32, d.Places()), site: make([]string, d.Places()), rowOf: map[int]int{}}
	n := d.Network()
	for p := d.Hosts(); p < d.Places(); p++ {
		t.site[p] = "?" // nothing is known yet
		if s := n.Switches[p-len(n.Hosts)].Site; s != "" {
			t.site[p] = s
		}
	}
	deepest := int32(0)
	for _, p := range slices.Backward(t.tree.Order) {
		if int(p) < d.Hosts() {
			if t.site[p] = n.Hosts[p].Site; t.site[p] == "" {
				t.site[p] = "*"
			}
		} else {
			deepest = max(deepest, t.tree.Depth[p])
		}
		if up := t.tree.Up[p]; up >= 0 {
			q := d.To(up)
			switch {
			case t.site[q] == "?" || q < d.Hosts():
				t.site[q] = t.site[p]
			case t.site[p] != "?" && t.site[q] != t.site[p]:
				t.site[q] = "*"
			}
		}
	}
	for _, p := range t.tree.Order {
		if up := t.tree.Up[p]; up >= 0 && int(p) >= d.Hosts() {
			t.below[d.To(up)] = append(t.below[d.To(up)], p)
		}
	}
	for _, b := range t.below {
		slices.Sort(b)
	}
	for t.cut = min(deepest, levelsMost); ; t.cut-- {
		t.rows, t.shown = t.rows[:0], t.shown[:0]
		for p := range d.Places() {
			if t.tree.Up[p] < 0 {
				t.add(p)
			}
		}
		if len(t.rows) <= rowsMost || t.cut <= 1 {
			break
		}
	}
	t.cutRows()
	t.place()
	t.draw()
	t.notes = t.arrows()
}

// add makes the rows of a place and all below it.
func (t *treeDrawing) add(p int) {
	t.shown = append(t.shown, p)
	whole := t.tree.Depth[p] >= t.cut || t.Hosts() > foldBeyond && t.site[p] != "*" && t.site[p] != "?"
	r := row{top: p, label: t.Name(p)}
	if whole {
		t.gather(p, &r)
		if r.switches > 1 && t.site[p] != "*" && t.site[p] != "?" {
			r.label = t.site[p]
		}
	} else {
		for _, c := range t.Out(p) {
			if h := t.To(c); h < t.Hosts() && c != t.tree.Up[p] {
				r.hosts = append(r.hosts, h)
			}
		}
		r.switches = 1
		if len(t.below[p]) > 0 {
			r.drop = drop
		}
	}
	if p < t.Hosts() {
		r.hosts, r.switches = append([]int{p}, r.hosts...), 0
	}
	if whole || len(r.hosts) > 0 || len(t.below[p]) == 0 {
		t.rows = append(t.rows, r)
	}
	if !whole {
		for _, q := range t.below[p] {
			t.add(int(q))
		}
	}
}

// gather adds all hosts and switches at and below p to a row.
func (t *treeDrawing) gather(p int, r *row) {
	inner := []int{p}
	for len(inner) > 0 {
		at := inner[len(inner)-1]
		inner = inner[:len(inner)-1]
		if at >= t.Hosts() {
			r.switches++
		}
		for _, c := range t.Out(at) {
			q := t.To(c)
			switch {
			case c == t.tree.Up[at]:
			case q < t.Hosts():
				r.hosts = append(r.hosts, q)
			default:
				r.inside = append(r.inside, c)
				inner = append(inner, q)
			}
		}
	}
	slices.Sort(r.hosts)
}

// cutRows makes one row of all that are too many.
func (t *treeDrawing) cutRows() {
	if len(t.rows) <= rowsMost {
		return
	}
	rest := row{top: -1}
	gone := map[int]bool{}
	for _, r := range t.rows[rowsMost-1:] {
		gone[r.top] = true
		rest.hosts = append(rest.hosts, r.hosts...)
		rest.switches += r.switches
	}
	rest.label = fmt.Sprintf("and %d more", len(t.rows)-rowsMost+1)
	t.rows = append(t.rows[:rowsMost-1], rest)
	t.shown = slices.DeleteFunc(t.shown, func(p int) bool { return gone[p] })
}

// place finds where everything is.
func (t *treeDrawing) place() {
	t.y = make([]float64, t.Places())
	lanes := 0 // of the link that has most of them; they lie below its middle, and what it carries is written above
	for _, p := range t.shown {
		if up := t.tree.Up[p]; up >= 0 {
			lanes = max(lanes, len(t.lanes(up)))
		}
	}
	above, below := 18.0, 12.0
	if lanes > 0 {
		below = max(below, lane(lanes)+3)
	}
	y := 6.0
	for i := range t.rows {
		r := &t.rows[i]
		lines := (len(r.hosts) + perLine - 1) / perLine
		if lines > linesMost {
			lines = 1
		}
		hosts := float64(lines)*pitch/2 + 4
		r.from, r.y = y, y+max(above, hosts)
		y = r.y + max(r.drop+below, hosts)
		r.to = y
		if r.top >= 0 {
			t.y[r.top] = r.y + r.drop
			t.rowOf[r.top] = i
		}
	}
	// A switch stands in the middle of what is below it; one that has hosts, too, beside those.
	for _, p := range slices.Backward(t.shown) {
		if _, ok := t.rowOf[p]; ok {
			continue
		}
		first, last := -1.0, 0.0
		for _, q := range t.below[p] {
			if at := t.y[q]; at > 0 {
				if first < 0 || at < first {
					first = at
				}
				last = max(last, at)
			}
		}
		t.y[p] = (max(first, 6) + max(last, 6)) / 2
	}
	t.height = y + 10
}

// columns finds how far from the left switches are: a link is bent, and then level for as long as what is written above it.
func (t *treeDrawing) columns() {
	t.x, t.level = make([]float64, t.Places()), []float64{24}
	for _, p := range t.shown {
		d := int(t.tree.Depth[p])
		for len(t.level) <= d {
			t.level = append(t.level, 24)
		}
		need := t.nameWide(p)
		if up := t.tree.Up[p]; up >= 0 {
			need += textWidth(t.label(up))*0.85 + 18
		}
		t.level[d] = max(t.level[d], need)
	}
	at := make([]float64, len(t.level))
	for d := range at {
		if at[d] = edge + t.level[0]; d > 0 {
			at[d] = at[d-1] + bend + t.level[d]
		}
	}
	for _, p := range t.shown {
		t.x[p] = at[t.tree.Depth[p]]
	}
}

// nameWide is how much of the level part of its link a switch's name is above. That of a row is on the other side.
func (t *treeDrawing) nameWide(p int) float64 {
	if _, isRow := t.rowOf[p]; isRow {
		return 0
	}
	return textWidth(t.name(p)) * 1.1
}

func (t *treeDrawing) name(p int) string { return cut(t.Name(p), 18) }

func (t *treeDrawing) draw() {
	t.columns()
	hostsAt := 0.0
	for _, p := range t.shown {
		hostsAt = max(hostsAt, t.x[p]+labelWide)
	}
	for _, r := range t.rows {
		_, end := t.about(r)
		hostsAt = max(hostsAt, end+24)
	}
	t.width = hostsAt + perLine*pitch + 130
	for i, r := range t.rows {
		if i%2 == 1 {
			t.printf(`<rect x="0" y="%.1f" width="100%%" height="%.1f" fill="#f6f8fa"/>`+"\n", r.from, r.to-r.from)
		}
	}
	for _, p := range slices.Backward(t.shown) {
		if up := t.tree.Up[p]; up >= 0 {
			t.link(up)
		}
	}
	for _, p := range t.shown { // what is written is not crossed out
		if up := t.tree.Up[p]; up >= 0 {
			t.text(t.x[p]-t.nameWide(p)-9, t.y[p]-11, "end", "s h", t.label(up))
		}
		if _, ok := t.rowOf[p]; !ok {
			t.printf(`<circle cx="%.1f" cy="%.1f" r="4.5" fill="#fff" stroke="#445" stroke-width="1.5"><title>%s</title></circle>`+"\n", t.x[p], t.y[p], escape(t.Name(p)))
			t.text(t.x[p]+4, t.y[p]-14, "end", "n h", t.name(p))
		}
	}
	for _, r := range t.rows {
		t.row(r, hostsAt)
	}
}

// link draws the link of a switch to the one above it, which is on the left.
func (t *treeDrawing) link(up topo.Channel) {
	down, p, q := up^1, t.From(up), t.To(up)
	level := t.x[p] - t.level[t.tree.Depth[p]]
	line := func(off float64, colour string, wide float64, says string) {
		mid, y1, y2 := (t.x[q]+level)/2, t.y[q]+off, t.y[p]+off
		if t.y[p] < t.y[q] { // lines side by side are so where they are steep, too
			mid += off
		} else if t.y[p] > t.y[q] {
			mid -= off
		}
		t.printf(`<path d="M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1fH%.1f" fill="none" stroke="%s" stroke-width="%.1f"><title>%s</title></path>`+"\n",
			t.x[q], y1, mid, y1, mid, y2, level, y2, t.x[p], colour, wide, escape(says))
	}
	switch {
	case t.Load == nil:
		line(0, t.colour(down), t.thickness(max(t.Rate(down), t.Rate(up))), t.says(down))
	case t.Half(up):
		line(0, t.colour(up), t.loadWidth(t.Rate(up), t.load(up)), t.says(up))
	default:
		line(-1.5, t.colour(up), t.loadWidth(t.Rate(up), t.load(up)), t.says(up))
		line(1.5, t.colour(down), t.loadWidth(t.Rate(down), t.load(down)), t.says(down))
	}
	for i, k := range t.lanes(up) {
		line(lane(i), t.transferColour(k), laneWidth, t.colourName(k))
	}
}

// label is what is written of a link: its loads, or its rates.
func (t *treeDrawing) label(up topo.Channel) string {
	down := up ^ 1
	switch {
	case t.Load != nil && t.Half(up):
		return fmt.Sprintf("↕%.0f %%", 100*t.load(up))
	case t.Load != nil:
		return fmt.Sprintf("↑%.0f ↓%.0f %%", 100*t.load(up), 100*t.load(down))
	case t.Rate(down) != t.Rate(up):
		return "↑" + brief(t.Rate(up).Bits()) + " ↓" + brief(t.Rate(down).Bits())
	}
	return brief(t.Rate(down).Bits())
}

// arrows are those in labels of links: the legend explains them.
func (t *treeDrawing) arrows() (says []string) {
	for _, a := range []struct{ arrow, says string }{{"↑", "↑ to the left, ↓ to the right"}, {"↕", "↕ both ways together"}} {
		if slices.ContainsFunc(t.shown, func(p int) bool { return t.tree.Up[p] >= 0 && strings.Contains(t.label(t.tree.Up[p]), a.arrow) }) {
			says = append(says, a.says)
		}
	}
	return says
}

// brief leaves the unit's bit out: "540M".
func brief(rate string) string {
	return strings.ReplaceAll(strings.TrimSuffix(rate, "bit"), " ", "")
}

// about is what is written of a row beside its name, and where that ends.
func (t *treeDrawing) about(r row) (about string, end float64) {
	switch {
	case len(r.hosts) > 1 && r.switches > 1:
		about = count(len(r.hosts), "host") + ", " + count(r.switches, "switch")
	case len(r.hosts) > 1:
		about = count(len(r.hosts), "host")
	case len(r.hosts) == 1:
		about = t.Name(r.hosts[0])
	case r.switches > 1:
		about = count(r.switches, "switch")
	}
	return about, t.rowAt(r) + 22 + textWidth(cut(r.label, 20))*1.1 + textWidth(about)*0.85
}

// rowAt is where a row begins: at its switch.
func (t *treeDrawing) rowAt(r row) float64 {
	if r.top < 0 {
		return edge + t.level[0] + bend
	}
	return t.x[r.top]
}

func (t *treeDrawing) row(r row, hostsAt float64) {
	x, name := t.rowAt(r), cut(r.label, 20)
	if r.top >= 0 {
		t.printf(`<circle cx="%.1f" cy="%.1f" r="4.5" fill="#445"><title>%s</title></circle>`+"\n", x, t.y[r.top], escape(t.Name(r.top)))
	}
	about, end := t.about(r)
	t.text(x+10, r.y, "start", "n h", name)
	t.text(x+16+textWidth(name)*1.1, r.y, "start", "s h", about)
	if len(r.hosts) == 0 {
		return
	}
	if end < hostsAt-10 {
		t.printf(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#d5dbe1"/>`+"\n", end, hostsAt-8, r.y, r.y)
	}
	across := hostsAt
	if len(r.hosts) <= perLine*linesMost {
		lines := (len(r.hosts) + perLine - 1) / perLine
		for i, h := range r.hosts {
			y := r.y + (float64(i/perLine)-float64(lines-1)/2)*pitch
			t.host(h, hostsAt+float64(i%perLine)*pitch+square/2, y, square)
		}
		across += float64(min(len(r.hosts), perLine)) * pitch
	} else {
		t.strip(r.hosts, hostsAt, r.y)
		across += perLine * pitch
	}
	switch {
	case t.Load != nil && len(r.inside) > 0:
		most := 0.0
		for _, c := range r.inside {
			most = max(most, t.load(c), t.load(c^1))
		}
		t.text(across+8, r.y, "start", "s", fmt.Sprintf("inside up to %.0f %%", 100*most))
	case len(r.hosts) > 1 && t.Hosts() <= foldBeyond:
		t.text(across+8, r.y, "start", "s", t.names(r.hosts, t.width-across-16))
	}
}

// names of hosts, as their squares stand; where they do not fit, the first one's and the last one's.
func (t *treeDrawing) names(hosts []int, room float64) string {
	var names []string
	for _, h := range hosts {
		names = append(names, t.Name(h))
	}
	if all := strings.Join(names, ", "); textWidth(all)*0.85 <= room {
		return all
	}
	return cut(names[0], 10) + " … " + cut(names[len(names)-1], 10)
}

// strip draws many hosts as a bar: ordered, and each piece of it stands for the same number. On a piece with hosts of transfers there is one of these.
func (t *treeDrawing) strip(hosts []int, x, y float64) {
	worst := func(h int) topo.Channel { // the direction that says most
		c := t.Out(h)[0]
		if t.Load != nil && t.load(c^1) > t.load(c) || t.Load == nil && t.Rate(c^1) < t.Rate(c) {
			return c ^ 1
		}
		return c
	}
	key := func(h int) float64 {
		if t.Load != nil {
			return t.load(worst(h))
		}
		return float64(t.Rate(worst(h)))
	}
	ordered := slices.DeleteFunc(slices.Clone(hosts), func(h int) bool { return len(t.Out(h)) == 0 })
	slices.SortStableFunc(ordered, func(a, b int) int {
		switch ka, kb := key(a), key(b); {
		case ka < kb:
			return -1
		case ka > kb:
			return 1
		}
		return 0
	})
	if len(ordered) == 0 {
		return
	}
	for i := range perLine {
		h := ordered[(2*i+1)*len(ordered)/(2*perLine)]
		fill := t.rateColour(t.Rate(worst(h)))
		if t.Load != nil {
			fill = loadColour(key(h))
		}
		t.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x+float64(i)*pitch, y-5, pitch+0.3, 10.0, fill)
	}
	var marked [perLine]int // hosts with a mark, one on each piece that has any: one that is without if there is one
	for i := range marked {
		marked[i] = -1
	}
	for i, h := range ordered {
		if at := &marked[i*perLine/len(ordered)]; len(t.roles[h]) > 0 && (*at < 0 || t.mark(h).without && !t.mark(*at).without) {
			*at = h
		}
	}
	for i, h := range marked {
		if h >= 0 {
			t.host(h, x+(float64(i)+0.5)*pitch, y, square)
		}
	}
	what := fmt.Sprintf("%s to %s", t.Rate(worst(ordered[0])).Bits(), t.Rate(worst(ordered[len(ordered)-1])).Bits())
	if t.Load != nil {
		what = fmt.Sprintf("%.0f to %.0f %%", 100*key(ordered[0]), 100*key(ordered[len(ordered)-1]))
	}
	t.text(x+perLine*pitch+8, y, "start", "s", what)
}
