package picture

import "fmt"

// role is what a host is in a transfer: a source, or a destination.
type role struct {
	transfer int
	source   bool
	without  bool // a destination that nothing comes to
}

// roleSays names the transfer and the role in it.
func (d *drawing) roleSays(h int, r role) string {
	t := d.Transfers[r.transfer]
	switch {
	case r.source:
		return t.Name + ": source"
	case r.without:
		return t.Name + ": destination, " + t.Without[h]
	}
	return t.Name + ": destination"
}

// rolesMost is how many roles of a host it says on a touch.
const rolesMost = 6

// giveRoles finds the roles of each host, in the order of the transfers, one for each of them.
func (d *drawing) giveRoles() {
	d.roles = make([][]role, d.Hosts())
	for k, t := range d.Transfers {
		give := func(hosts []int, source bool) {
			for _, h := range hosts {
				if n := len(d.roles[h]); n == 0 || d.roles[h][n-1].transfer != k {
					_, without := t.Without[h]
					d.roles[h] = append(d.roles[h], role{k, source, without && !source})
				}
			}
		}
		give(t.Sources, true)
		give(t.Destinations, false)
	}
}

// mark is how a host is drawn for its roles. The zero value is that of a host without any.
type mark struct {
	source, destination string // colours of the first transfers that it is that of, of those with a colour of their own if there are any; "": it is none
	without             bool   // of one of the transfers that it is a destination of
}

func (m mark) String() string {
	switch {
	case m.without:
		return "starved or unreachable"
	case m.source == "":
		return "destination"
	case m.destination == "":
		return "source"
	}
	return "source of one, destination of another"
}

// mark is that of a host.
func (d *drawing) mark(h int) (m mark) {
	source, destination := len(d.coloured)+1, len(d.coloured)+1
	for _, r := range d.roles[h] {
		first := &destination
		if r.source {
			first = &source
		}
		*first = min(*first, d.colourOf(r.transfer))
		m.without = m.without || r.without
	}
	if source <= len(d.coloured) {
		m.source = d.transferColour(source)
	}
	if destination <= len(d.coloured) {
		m.destination = d.transferColour(destination)
	}
	return m
}

// marks are those that the legend explains.
func (d *drawing) marks() (ms []mark) {
	if len(d.Transfers) == 0 {
		return nil
	}
	const line = "#445"
	ms = []mark{{source: line}, {destination: line}}
	both, without := false, false
	for h := range d.roles {
		m := d.mark(h)
		both = both || m.source != "" && m.destination != ""
		without = without || m.without
	}
	if both {
		ms = append(ms, mark{source: line, destination: line})
	}
	if without {
		ms = append(ms, mark{destination: line, without: true})
	}
	return ms
}

// host draws a host of that size around a point.
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
	told := 0
	for _, without := range []bool{true, false} { // why nothing comes is said first
		for _, r := range d.roles[h] {
			if r.without == without && told < rolesMost {
				says += "\n" + d.roleSays(h, r)
				told++
			}
		}
	}
	if more := len(d.roles[h]) - told; more > 0 {
		says += fmt.Sprintf("\nand %d more", more)
	}
	d.printf("<g><title>%s</title>", escape(says))
	d.shape(d.mark(h), x, y, size, fill)
	d.printf("</g>\n")
}

// shape draws a host: a square, for a source a diamond, for who is both a square in a diamond; and a cross over who is without.
func (d *drawing) shape(m mark, x, y, size float64, fill string) {
	inner := size
	if m.source != "" {
		half, inside := size*0.75, fill
		if m.destination != "" {
			half, inside = size*0.9, "#fff"
		}
		d.printf(`<path d="M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz" fill="%s" stroke="%s" stroke-width="2"/>`, x-half, y, half, -half, half, half, -half, half, inside, m.source)
		inner = size * 0.55
	}
	stroke, wide := "#9aa5b1", 0.5
	switch {
	case m.destination != "" && m.source != "":
		stroke, wide = m.destination, 1.5
	case m.destination != "":
		stroke, wide = m.destination, 2
	}
	if m.source == "" || m.destination != "" {
		d.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s" stroke="%s" stroke-width="%g"/>`, x-inner/2, y-inner/2, inner, inner, fill, stroke, wide)
	}
	if m.without {
		arm := size * 0.5
		for _, line := range []struct {
			colour string
			wide   float64
		}{{"#fff", 2.8}, {crossColour, 1.4}} {
			d.printf(`<path d="M%.1f %.1fl%.1f %.1fm%.1f 0l%.1f %.1f" fill="none" stroke="%s" stroke-width="%g"/>`, x-arm, y-arm, 2*arm, 2*arm, -2*arm, 2*arm, -2*arm, line.colour, line.wide)
		}
	}
}

const crossColour = "#000"
