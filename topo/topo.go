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
// Nothing is computed for all pairs of hosts: a host with one link takes
// the routes of its switch, so a star of 10,000 hosts needs a table of one switch.
package topo

import (
	"fmt"
	"slices"
	"time"

	"github.com/freshet/freshet/unit"
)

// Network is a network. Names of hosts and switches are different from each other.
type Network struct {
	Hosts    []Host
	Switches []string
	Links    []Link
	Routes   []Route
}

// Host sends and receives.
type Host struct {
	Name string
	Site string // empty: it is in none
}

// Link joins two hosts or switches.
type Link struct {
	A, B   string
	Rate   unit.Bandwidth // A → B
	Back   unit.Bandwidth // B → A; of a half-duplex link the same as Rate
	Delay  time.Duration  // one way, in each direction
	Buffer unit.Bytes     // in front of each rate; zero: not said
	Half   bool           // both directions share Rate
}

// Route overrules the shortest path from one place to another; for the way back there
// may be another route.
type Route struct {
	From, To string
	Via      []string // the switches between, in order
}

// Places are hosts and switches by number: first the hosts in their order, then the
// switches in theirs.
func (n *Network) places() (names []string, number map[string]int) {
	names = make([]string, 0, len(n.Hosts)+len(n.Switches))
	for _, h := range n.Hosts {
		names = append(names, h.Name)
	}
	names = append(names, n.Switches...)
	number = make(map[string]int, len(names))
	for i, s := range names {
		if _, twice := number[s]; !twice {
			number[s] = i
		}
	}
	return names, number
}

// problem is what is wrong with a network, and where: an element of one of its lists.
type problem struct {
	list  string // hosts, switches, links, routes
	index int
	text  string
}

func (p *problem) Error() string { return fmt.Sprintf("%s[%d]: %s", p.list, p.index, p.text) }

// Validate says, in one line, why n cannot be a network.
func (n *Network) Validate() error {
	if p := n.check(); p != nil {
		return fmt.Errorf("topology: %w", p)
	}
	return nil
}

func (n *Network) check() *problem {
	bad := func(list string, i int, format string, args ...any) *problem {
		return &problem{list, i, fmt.Sprintf(format, args...)}
	}
	names, number := n.places()
	for i, name := range names {
		list, at := "hosts", i
		if i >= len(n.Hosts) {
			list, at = "switches", i-len(n.Hosts)
		}
		if name == "" {
			return bad(list, at, "it has no name")
		}
		if number[name] != i {
			return bad(list, at, "the name %s is used twice", name)
		}
	}
	joined := make(map[[2]int]bool, len(n.Links))
	for i, l := range n.Links {
		a, b, err := ends(number, l.A, l.B)
		switch {
		case err != nil:
			return bad("links", i, "%v", err)
		case a == b:
			return bad("links", i, "joins %s to itself", l.A)
		case joined[[2]int{min(a, b), max(a, b)}]:
			return bad("links", i, "there is a link between %s and %s already", l.A, l.B)
		case !(l.Rate >= 0) || !(l.Back >= 0):
			return bad("links", i, "a rate is negative")
		case l.Half && l.Rate != l.Back:
			return bad("links", i, "a half-duplex link has one rate for both directions")
		case l.Delay < 0 || l.Buffer < 0:
			return bad("links", i, "a delay or a buffer is negative")
		}
		joined[[2]int{min(a, b), max(a, b)}] = true
	}
	for i, r := range n.Routes {
		if _, _, err := ends(number, r.From, r.To); err != nil {
			return bad("routes", i, "%v", err)
		}
		at := r.From
		seen := []string{r.From}
		for _, next := range append(slices.Clone(r.Via), r.To) {
			a, b, err := ends(number, at, next)
			switch {
			case err != nil:
				return bad("routes", i, "%v", err)
			case slices.Contains(seen, next):
				return bad("routes", i, "comes to %s twice", next)
			case next != r.To && b < len(n.Hosts):
				return bad("routes", i, "%s is a host; a route passes over switches", next)
			case !joined[[2]int{min(a, b), max(a, b)}]:
				return bad("routes", i, "there is no link between %s and %s", at, next)
			}
			at, seen = next, append(seen, next)
		}
	}
	return nil
}

func ends(number map[string]int, a, b string) (int, int, error) {
	i, oki := number[a]
	k, okk := number[b]
	if !oki {
		return 0, 0, fmt.Errorf("there is no host or switch %q", a)
	}
	if !okk {
		return 0, 0, fmt.Errorf("there is no host or switch %q", b)
	}
	return i, k, nil
}

// Channel is one direction of a link: 2·l from A to B of link l, 2·l+1 back.
type Channel int

// Link is the index of the link that c is a direction of.
func (c Channel) Link() int { return int(c) / 2 }

// Back says whether c leads from B to A.
func (c Channel) Back() bool { return c&1 == 1 }

// Rate is what channel c carries; of a half-duplex link both channels carry it together.
func (n *Network) Rate(c Channel) unit.Bandwidth {
	if l := n.Links[c.Link()]; c.Back() {
		return l.Back
	}
	return n.Links[c.Link()].Rate
}

// Ends are the names of where channel c begins and ends.
func (n *Network) Ends(c Channel) (from, to string) {
	if l := n.Links[c.Link()]; c.Back() {
		return l.B, l.A
	}
	return n.Links[c.Link()].A, n.Links[c.Link()].B
}
