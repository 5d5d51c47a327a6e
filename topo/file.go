package topo

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/freshet/freshet/internal/form"
	"github.com/freshet/freshet/unit"
)

// Parse reads a network from YAML or JSON. docs/topology.md has the form:
//
//	hosts: [{name: h1, site: tokyo}, {name: h2, site: kyoto}]
//	switches: [s0, s1]
//	links: [{a: h1, b: s0, rate: 1Gbit, rate_back: 300Mbit, delay: 50us, buffer: 64KiB, duplex: full}]
//	routes: [{from: h1, to: h2, via: [s0]}]
//
// What is wrong is an error that names line and field. The network it returns is valid.
func Parse(text []byte) (*Network, error) {
	doc := form.Parse(text)
	n := &Network{}
	lines := map[string][]form.Value{}
	each := func(o form.Object, list string, f func(form.Value)) {
		lines[list] = o.Get(list).List()
		for _, v := range lines[list] {
			f(v)
		}
	}
	o := doc.Root().Object("hosts", "switches", "links", "routes")
	o.Need("hosts")
	each(o, "hosts", func(v form.Value) {
		h := v.Object("name", "site")
		n.Hosts = append(n.Hosts, Host{Name: h.Need("name").Name(), Site: h.Get("site").Text()})
	})
	each(o, "switches", func(v form.Value) { n.Switches = append(n.Switches, v.Name()) })
	each(o, "links", func(v form.Value) { n.Links = append(n.Links, link(v)) })
	each(o, "routes", func(v form.Value) {
		r := v.Object("from", "to", "via")
		route := Route{From: r.Need("from").Name(), To: r.Need("to").Name()}
		for _, p := range r.Need("via").List() {
			route.Via = append(route.Via, p.Name())
		}
		n.Routes = append(n.Routes, route)
	})
	if p := n.check(); p != nil && doc.Err() == nil {
		lines[p.list][p.index].Fail("%s", p.text)
	}
	if err := doc.Err(); err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	return n, nil
}

func link(v form.Value) Link {
	o := v.Object("a", "b", "rate", "rate_back", "delay", "buffer", "duplex")
	l := Link{
		A: o.Need("a").Name(), B: o.Need("b").Name(), Rate: o.Need("rate").Bandwidth(),
		Delay: o.Get("delay").Duration(), Buffer: o.Get("buffer").Bytes(),
	}
	l.Back = l.Rate
	if back := o.Get("rate_back"); back.Given() {
		l.Back = back.Bandwidth()
	}
	if duplex := o.Get("duplex"); duplex.Given() {
		l.Half = duplex.OneOf("full", "half") == "half"
	}
	return l
}

// MarshalJSON writes n in the form that Parse reads.
func (n *Network) MarshalJSON() ([]byte, error) {
	type host struct {
		Name string `json:"name"`
		Site string `json:"site,omitempty"`
	}
	type link struct {
		A      string `json:"a"`
		B      string `json:"b"`
		Rate   string `json:"rate"`
		Back   string `json:"rate_back,omitempty"`
		Delay  string `json:"delay,omitempty"`
		Buffer string `json:"buffer,omitempty"`
		Duplex string `json:"duplex,omitempty"`
	}
	type route struct {
		From string   `json:"from"`
		To   string   `json:"to"`
		Via  []string `json:"via"`
	}
	out := struct {
		Hosts    []host   `json:"hosts"`
		Switches []string `json:"switches,omitempty"`
		Links    []link   `json:"links,omitempty"`
		Routes   []route  `json:"routes,omitempty"`
	}{Hosts: []host{}, Switches: n.Switches}
	for _, h := range n.Hosts {
		out.Hosts = append(out.Hosts, host(h))
	}
	for _, l := range n.Links {
		w := link{A: l.A, B: l.B, Rate: rate(l.Rate)}
		if l.Back != l.Rate {
			w.Back = rate(l.Back)
		}
		if l.Delay > 0 {
			w.Delay = l.Delay.String()
		}
		if l.Buffer > 0 {
			w.Buffer = strconv.FormatInt(int64(l.Buffer), 10) + "B"
		}
		if l.Half {
			w.Duplex = "half"
		}
		out.Links = append(out.Links, w)
	}
	for _, r := range n.Routes {
		via := r.Via
		if via == nil {
			via = []string{}
		}
		out.Routes = append(out.Routes, route{r.From, r.To, via})
	}
	return json.Marshal(out)
}

// rate writes r so that it is read back as the same: in the largest unit of bits in
// which it has at most six decimals, else in bytes.
func rate(r unit.Bandwidth) string {
	for _, u := range []struct {
		one  unit.Bandwidth
		name string
	}{{unit.Tbit, "Tbit"}, {unit.Gbit, "Gbit"}, {unit.Mbit, "Mbit"}, {unit.Kbit, "kbit"}, {unit.BitPerSecond, "bit"}} {
		x := r / u.one
		if s := strconv.FormatFloat(float64(x), 'f', -1, 64); x >= 1 && len(s) <= 8 {
			if back, err := unit.ParseBandwidth(s + u.name); err == nil && back == r {
				return s + u.name
			}
		}
	}
	return strconv.FormatFloat(float64(r), 'g', -1, 64) + "B/s"
}
