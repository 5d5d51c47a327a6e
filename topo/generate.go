package topo

import (
	"fmt"
	"time"

	"github.com/freshet/freshet/unit"
)

// Access is how hosts are joined to their switch. Lists are dealt out in turn:
// host i has Rate[i mod len(Rate)].
type Access struct {
	Rate  []unit.Bandwidth // from the host
	Back  []unit.Bandwidth // to the host; empty: as Rate
	Delay time.Duration
}

func (a Access) link(i int, host, sw string) Link {
	l := Link{A: host, B: sw, Rate: a.Rate[i%len(a.Rate)], Delay: a.Delay}
	l.Back = l.Rate
	if len(a.Back) > 0 {
		l.Back = a.Back[i%len(a.Back)]
	}
	return l
}

// Star is hosts h1, h2, … on one switch, s0.
func Star(hosts int, a Access) *Network {
	n := &Network{Switches: []Switch{{Name: "s0"}}}
	for i := range hosts {
		name := fmt.Sprintf("h%d", i+1)
		n.Hosts = append(n.Hosts, Host{Name: name})
		n.Links = append(n.Links, a.link(i, name, "s0"))
	}
	return n
}

// Sites is that many sites of that many hosts each: h1 … on switch s1 in
// site1, and so on. Each site's switch has one link, like between, to the switch wan: Rate is what
// leaves the site, Back what enters it.
func Sites(sites, hosts int, a Access, between Link) *Network {
	n := &Network{Switches: []Switch{{Name: "wan"}}}
	for s := range sites {
		sw, site := fmt.Sprintf("s%d", s+1), fmt.Sprintf("site%d", s+1)
		n.Switches = append(n.Switches, Switch{Name: sw, Site: site})
		for range hosts {
			i := len(n.Hosts)
			name := fmt.Sprintf("h%d", i+1)
			n.Hosts = append(n.Hosts, Host{name, site})
			n.Links = append(n.Links, a.link(i, name, sw))
		}
		between.A, between.B = sw, "wan"
		n.Links = append(n.Links, between)
	}
	return n
}
