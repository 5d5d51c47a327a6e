// Package topo describes networks: hosts, switches, the links between them and
// the routes over them.
//
//	h1 ──1Gbit──> s0 ──100Mbit── s1 ── h3        hosts send and receive,
//	   <─300Mbit──                               switches pass on
//	h2 ────────── s0
//
// A link has two directions, each with its own rate; one of duplex half has a
// single capacity that both share. Rates are of payload: what headers take is
// not in them. A rate of 0 is legal and carries nothing.
//
// A network may have cycles. Between two places there is one route (Router): that of the smallest
// delay; of those the one with the fewest links; of those the one whose places
// come first by name, from its beginning on. It passes over switches only. Where the file lists a route, that one
// counts. The Internet's routes do not look at rates either.
//
// A Network is what a file says, by name. A Graph is the same by number, for algorithms:
//
//	ParseAny, Shape.Network ──> Network ──NewGraph──> Graph ── Router, Tree
//
// Nothing is computed for all pairs of hosts. On a tree a route climbs from both ends, and nothing is
// kept; elsewhere there is one table for each switch that is asked for as an end, and the latest are kept.
// A tree of 100,000 hosts takes 27 MB.
package topo

import (
	"fmt"
	"time"

	"github.com/freshet/freshet/unit"
)

// Network is a network. Names of hosts and switches are different from each other.
type Network struct {
	Hosts    []Host
	Switches []Switch
	Links    []Link
	Routes   []Route
}

// Host sends and receives.
type Host struct {
	Name string
	Site string // empty: it is in none
}

// Switch passes on.
type Switch struct {
	Name string
	Site string       // empty: it is in none
	At   *Coordinates // nil: not known; pictures use it
}

// Coordinates are a place on earth, in degrees, east and north positive.
type Coordinates struct {
	Lon, Lat float64
}

// Link joins two hosts or switches.
type Link struct {
	A, B   string
	Rate   unit.Bandwidth // A → B
	Back   unit.Bandwidth // B → A; of a half-duplex link the same as Rate
	Delay  time.Duration  // one way, in each direction
	Buffer unit.Bytes     // in front of each rate; zero: not said
	Half   bool           // both directions share Rate
	Cost   float64        // what a byte over it costs, in a unit of the user's; routes do not look at it
}

// Route overrules the shortest path from one place to another; for the way back there
// may be another route.
type Route struct {
	From, To string
	Via      []string // the switches between, in order
}

// places are the names of hosts and switches by number: first the hosts in their order, then the
// switches in theirs.
func (n *Network) places() (names []string, number map[string]int32) {
	names = make([]string, 0, len(n.Hosts)+len(n.Switches))
	for _, h := range n.Hosts {
		names = append(names, h.Name)
	}
	for _, s := range n.Switches {
		names = append(names, s.Name)
	}
	number = make(map[string]int32, len(names))
	for i, s := range names {
		if _, twice := number[s]; !twice {
			number[s] = int32(i)
		}
	}
	return names, number
}

// problem is what is wrong with a network, and where: a field of an element of one of its lists.
type problem struct {
	list  string // hosts, switches, links, routes
	index int
	field string // empty: the element as such
	text  string
	other *problem // the element that came first, where two are one too many
}

func (p *problem) Error() string {
	where := fmt.Sprintf("%s[%d]", p.list, p.index)
	if p.field != "" {
		where += "." + p.field
	}
	if p.other != nil {
		return fmt.Sprintf("%s: %s, %s[%d]", where, p.text, p.other.list, p.other.index)
	}
	return where + ": " + p.text
}

// What a link may have at most, so that sums over all links can be counted; and at least, unless it carries nothing, so that times can.
const (
	MostRate                 = 1e6 * unit.Tbit
	MostDelay                = time.Hour
	LeastRate unit.Bandwidth = 1e-3
)

// Validate says, in one line, why n cannot be a network.
func (n *Network) Validate() error {
	if p := n.check(); p != nil {
		return fmt.Errorf("topology: %w", p)
	}
	return nil
}

func (n *Network) check() *problem {
	names, number := n.places()
	element := func(i int) *problem {
		if i < len(n.Hosts) {
			return &problem{list: "hosts", index: i}
		}
		return &problem{list: "switches", index: i - len(n.Hosts)}
	}
	for i, name := range names {
		first := int(number[name])
		if name != "" && first == i {
			continue
		}
		p := element(i)
		if p.text = "it has no name"; name != "" {
			p.field, p.text, p.other = "name", fmt.Sprintf("the name %s is taken already", name), element(first)
		}
		return p
	}
	for i, s := range n.Switches {
		if at := s.At; at != nil && !(at.Lon >= -360 && at.Lon <= 360 && at.Lat >= -90 && at.Lat <= 90) {
			return &problem{list: "switches", index: i, field: "at", text: fmt.Sprintf("[%g, %g] is no place on earth: want [longitude, latitude] in degrees", at.Lon, at.Lat)}
		}
	}
	joined := make(map[[2]int32]int, len(n.Links)) // which link joins them, from 1
	for i, l := range n.Links {
		bad := func(field, format string, args ...any) *problem {
			return &problem{list: "links", index: i, field: field, text: fmt.Sprintf(format, args...)}
		}
		a, okA := number[l.A]
		b, okB := number[l.B]
		switch {
		case !okA:
			return bad("a", "there is no host or switch %q", l.A)
		case !okB:
			return bad("b", "there is no host or switch %q", l.B)
		case a == b:
			return bad("b", "joins %s to itself", l.A)
		case joined[pair(a, b)] > 0:
			p := bad("", "there is a link between %s and %s already", l.A, l.B)
			p.other = &problem{list: "links", index: joined[pair(a, b)] - 1}
			return p
		case !(l.Rate >= 0):
			return bad("rate", "is negative")
		case l.Rate > 0 && l.Rate < LeastRate:
			return bad("rate", "is less than 0.001 B/s, and not 0")
		case l.Rate > MostRate:
			return bad("rate", "is more than 1000000 Tbit")
		case !(l.Back >= 0):
			return bad("rate_back", "is negative")
		case l.Back > 0 && l.Back < LeastRate:
			return bad("rate_back", "is less than 0.001 B/s, and not 0")
		case l.Back > MostRate:
			return bad("rate_back", "is more than 1000000 Tbit")
		case l.Half && l.Rate != l.Back:
			return bad("rate_back", "a half-duplex link has one rate for both directions")
		case l.Delay < 0:
			return bad("delay", "is negative")
		case l.Delay > MostDelay:
			return bad("delay", "is more than an hour")
		case l.Buffer < 0:
			return bad("buffer", "is negative")
		case !(l.Cost >= 0):
			return bad("cost", "is negative")
		}
		joined[pair(a, b)] = i + 1
	}
	known := make(map[[2]int32]int, len(n.Routes)) // which route leads from one to the other, from 1
	for i, r := range n.Routes {
		p := n.checkRoute(r, number, joined)
		ends := [2]int32{number[r.From], number[r.To]}
		if p == nil && known[ends] > 0 {
			p = &problem{text: fmt.Sprintf("there is a route from %s to %s already", r.From, r.To), other: &problem{list: "routes", index: known[ends] - 1}}
		}
		if p != nil {
			p.list, p.index = "routes", i
			return p
		}
		known[ends] = i + 1
	}
	return nil
}

func (n *Network) checkRoute(r Route, number map[string]int32, joined map[[2]int32]int) *problem {
	bad := func(field, format string, args ...any) *problem {
		return &problem{field: field, text: fmt.Sprintf(format, args...)}
	}
	at, ok := number[r.From]
	if !ok {
		return bad("from", "there is no host or switch %q", r.From)
	}
	to, ok := number[r.To]
	if !ok {
		return bad("to", "there is no host or switch %q", r.To)
	}
	if at == to {
		return bad("to", "comes to %s twice", r.To)
	}
	seen := map[int32]bool{at: true, to: true}
	name := r.From
	for i := range len(r.Via) + 1 {
		next, field := r.To, "to"
		if i < len(r.Via) {
			next, field = r.Via[i], fmt.Sprintf("via[%d]", i)
		}
		p, ok := number[next]
		switch {
		case !ok:
			return bad(field, "there is no host or switch %q", next)
		case i < len(r.Via) && seen[p]:
			return bad(field, "comes to %s twice", next)
		case i < len(r.Via) && int(p) < len(n.Hosts):
			return bad(field, "%s is a host; a route passes over switches", next)
		case joined[pair(at, p)] == 0:
			return bad(field, "there is no link between %s and %s", name, next)
		}
		seen[p] = true
		at, name = p, next
	}
	return nil
}

// pair is two places, whichever comes first.
func pair(a, b int32) [2]int32 { return [2]int32{min(a, b), max(a, b)} }

// Channel is one direction of a link: 2·l from A to B of link l, 2·l+1 back. So c^1
// is the other direction.
type Channel int32

// Link is the index of the link that c is a direction of.
func (c Channel) Link() int { return int(c) / 2 }

// Back says whether c leads from B to A.
func (c Channel) Back() bool { return c&1 == 1 }

// Rate is what channel c carries; of a half-duplex link both channels carry it together.
func (n *Network) Rate(c Channel) unit.Bandwidth {
	if l := &n.Links[c.Link()]; c.Back() {
		return l.Back
	}
	return n.Links[c.Link()].Rate
}
