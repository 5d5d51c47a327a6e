package topo

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/freshet/freshet/internal/form"
	"github.com/freshet/freshet/unit"
)

// mostSite is how many bytes the name of a site may have.
const mostSite = 255

// Fields of the elements of a file's lists, in the order in which they are written.
var (
	hostFields   = []string{"name", "site"}
	switchFields = []string{"name", "site", "at"}
	linkFields   = []string{"a", "b", "rate", "rate_back", "delay", "buffer", "duplex", "cost"}
	routeFields  = []string{"from", "to", "via"}
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
	o := doc.Root().Object("hosts", "switches", "links", "routes")
	hosts, switches, links, routes := o.Need("hosts").List(), o.Get("switches").List(), o.Get("links").List(), o.Get("routes").List()
	if len(hosts) > maxHosts {
		o.Get("hosts").Fail("%d hosts; at most %d are read", len(hosts), maxHosts)
	}
	n := &Network{}
	for _, v := range hosts {
		h := v.Object(hostFields...)
		n.Hosts = append(n.Hosts, Host{Name: h.Need("name").Name(), Site: h.Get("site").Words(mostSite)})
	}
	for _, v := range switches {
		n.Switches = append(n.Switches, parseSwitch(v))
	}
	for _, v := range links {
		n.Links = append(n.Links, parseLink(v))
	}
	for _, v := range routes {
		r := v.Object(routeFields...)
		route := Route{From: r.Need("from").Name(), To: r.Need("to").Name()}
		for _, p := range r.Need("via").List() {
			route.Via = append(route.Via, p.Name())
		}
		n.Routes = append(n.Routes, route)
	}
	if doc.Err() == nil {
		if p := n.check(); p != nil {
			value := func(p *problem) form.Value {
				switch p.list {
				case "hosts":
					return field(hosts[p.index], hostFields, p.field)
				case "switches":
					if v := switches[p.index]; !v.IsObject() {
						return v
					}
					return field(switches[p.index], switchFields, p.field)
				case "links":
					return field(links[p.index], linkFields, p.field)
				}
				return field(routes[p.index], routeFields, p.field)
			}
			if p.other != nil {
				p.text += fmt.Sprintf(", in line %d", value(p.other).Line())
			}
			value(p).Fail("%s", p.text)
		}
	}
	if err := doc.Err(); err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	return n, nil
}

// field is a field of v, or an element of one: name is empty, "a" or "via[1]". If the field
// is not there it is v.
func field(v form.Value, fields []string, name string) form.Value {
	name, index, isElement := strings.Cut(strings.TrimSuffix(name, "]"), "[")
	f := v.Object(fields...).Get(name)
	if !f.Given() {
		return v
	}
	if i, err := strconv.Atoi(index); isElement && err == nil {
		return f.List()[i]
	}
	return f
}

func parseSwitch(v form.Value) Switch {
	if !v.IsObject() {
		return Switch{Name: v.Name()}
	}
	o := v.Object(switchFields...)
	s := Switch{Name: o.Need("name").Name(), Site: o.Get("site").Words(mostSite)}
	if at := o.Get("at"); at.Given() {
		c := at.List()
		if len(c) != 2 {
			at.Fail("want [longitude, latitude] in degrees")
			return s
		}
		s.At = &Coordinates{Lon: c[0].Number(-360), Lat: c[1].Number(-90)}
	}
	return s
}

func parseLink(v form.Value) Link {
	o := v.Object(linkFields...)
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
	if cost := o.Get("cost"); cost.Given() {
		l.Cost = cost.Number(0)
	}
	return l
}

// YAML writes n in the form that Parse reads, one element a line.
func (n *Network) YAML() []byte { return n.write(writer{}) }

// JSON writes n in the form that Parse reads, one element a line.
func (n *Network) JSON() []byte { return n.write(writer{json: true}) }

// MarshalJSON makes n JSON where it is a part of something.
func (n *Network) MarshalJSON() ([]byte, error) { return n.JSON(), nil }

func (n *Network) write(w writer) []byte {
	w.open()
	w.list("hosts", len(n.Hosts), func(i int) {
		h := n.Hosts[i]
		w.pair("name", w.text(h.Name))
		if h.Site != "" {
			w.pair("site", w.text(h.Site))
		}
	})
	w.list("switches", len(n.Switches), func(i int) {
		s := n.Switches[i]
		if s.Site == "" && s.At == nil {
			w.bare(w.text(s.Name))
			return
		}
		w.pair("name", w.text(s.Name))
		if s.Site != "" {
			w.pair("site", w.text(s.Site))
		}
		if s.At != nil {
			w.pair("at", "["+number(s.At.Lon)+", "+number(s.At.Lat)+"]")
		}
	})
	w.list("links", len(n.Links), func(i int) {
		l := &n.Links[i]
		w.pair("a", w.text(l.A))
		w.pair("b", w.text(l.B))
		w.pair("rate", w.text(rate(l.Rate)))
		if l.Back != l.Rate {
			w.pair("rate_back", w.text(rate(l.Back)))
		}
		if l.Delay > 0 {
			w.pair("delay", w.text(strings.Replace(l.Delay.String(), "µ", "u", 1)))
		}
		if l.Buffer > 0 {
			w.pair("buffer", w.text(size(l.Buffer)))
		}
		if l.Half {
			w.pair("duplex", w.text("half"))
		}
		if l.Cost > 0 {
			w.pair("cost", number(l.Cost))
		}
	})
	w.list("routes", len(n.Routes), func(i int) {
		r := n.Routes[i]
		w.pair("from", w.text(r.From))
		w.pair("to", w.text(r.To))
		via := make([]string, len(r.Via))
		for k, s := range r.Via {
			via[k] = w.text(s)
		}
		w.pair("via", "["+strings.Join(via, ", ")+"]")
	})
	w.close()
	return w.b
}

// writer writes a document of lists, as JSON or as YAML that differs from it in quotes and in
// what is around the elements.
type writer struct {
	json  bool
	b     []byte
	lists int
	pairs int // of the element
}

func (w *writer) open() {
	if w.json {
		w.b = append(w.b, '{')
	}
}

func (w *writer) close() {
	if w.json {
		w.b = append(w.b, "\n}\n"...)
	}
}

// list writes a list of n elements; each writes one. Only hosts are written if there are none.
func (w *writer) list(name string, n int, each func(i int)) {
	if n == 0 && name != "hosts" {
		return
	}
	if w.json {
		if w.lists > 0 {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, "\n"+w.text(name)+": ["...)
	} else {
		w.b = append(w.b, name+":"...)
		if n == 0 {
			w.b = append(w.b, " []"...)
		}
		w.b = append(w.b, '\n')
	}
	w.lists++
	for i := range n {
		if w.json {
			if i > 0 {
				w.b = append(w.b, ',')
			}
			w.b = append(w.b, "\n\t"...)
		} else {
			w.b = append(w.b, "- "...)
		}
		w.pairs = 0
		each(i)
		if w.pairs > 0 {
			w.b = append(w.b, '}')
		}
		if !w.json {
			w.b = append(w.b, '\n')
		}
	}
	if w.json {
		w.b = append(w.b, "\n]"...)
	}
}

func (w *writer) bare(value string) { w.b = append(w.b, value...) }

func (w *writer) pair(key, value string) {
	if w.pairs == 0 {
		w.b = append(w.b, '{')
	} else {
		w.b = append(w.b, ", "...)
	}
	w.pairs++
	w.b = append(w.b, w.text(key)...)
	w.b = append(w.b, ": "...)
	w.b = append(w.b, value...)
}

// plain is what YAML reads as this text without quotes. What it reads as nothing is not plain.
var plain = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+/-]*$`)

func (w *writer) text(s string) string {
	if !w.json && plain.MatchString(s) && !slices.Contains([]string{"null", "Null", "NULL"}, s) {
		return s
	}
	b := &strings.Builder{}
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string can be encoded
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// number writes x so that it is read back as the same, in JSON, too.
func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// size writes b in the largest unit of which it is a whole number.
func size(b unit.Bytes) string {
	for _, u := range []struct {
		one  unit.Bytes
		name string
	}{{unit.GiB, "GiB"}, {unit.MiB, "MiB"}, {unit.KiB, "KiB"}} {
		if s := strconv.FormatInt(int64(b/u.one), 10) + u.name; b >= u.one && b%u.one == 0 {
			if back, err := unit.ParseBytes(s); err == nil && back == b {
				return s
			}
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// rate writes r so that it is read back as the same: in the largest unit of bits in
// which it has at most six decimals, else in bytes.
func rate(r unit.Bandwidth) string {
	if r == 0 {
		return "0"
	}
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
