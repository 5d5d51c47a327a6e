package topo

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/freshet/freshet/unit"
)

// Zoo says what a GraphML file of the Internet Topology Zoo does not have.
type Zoo struct {
	Hosts  int            // dealt out to the nodes in turn; 0: one to each
	Access Access         // of hosts; without rates: 1Gbit
	Rate   unit.Bandwidth // of edges without LinkSpeedRaw; 0: 10Gbit
}

const (
	maxGraphML = 16 << 20 // bytes; the largest of the Zoo has 0.3 MB
	maxDepth   = 32       // of elements; the Zoo has 4
	maxData    = 1 << 10  // of the text of an attribute, as far as it is kept
)

// ParseGraphML reads a network of the Internet Topology Zoo (Knight et al., IEEE JSAC 2011), or what else is
// GraphML of that kind. Its nodes are switches, with hosts on those that are neither another network's
// (Internal 0) nor a junction of cables (hyperedge 1); each is the site of its hosts. Names are labels as clean makes them, hosts' with a number.
// Rates are LinkSpeedRaw, in bit/s; edges between the same two nodes are one link with the sum of
// their rates. A delay is that of light in fibre, 200 km a millisecond, straight from one place to the
// other, or 1 ms if one is not known.
//
// What is wrong is an error that names line, element and attribute.
func ParseGraphML(text []byte, z Zoo) (*Network, error) {
	n, err := parseGraphML(text, z)
	if err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	return n, nil
}

// ParseAny reads a network as Parse does or, if the text IsXML, as ParseGraphML does; z is for the latter alone.
func ParseAny(text []byte, z Zoo) (*Network, error) {
	if IsXML(text) {
		return ParseGraphML(text, z)
	}
	return Parse(text)
}

// IsXML says whether a text begins as XML does, and as neither YAML nor JSON of ours.
func IsXML(text []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(bytes.TrimPrefix(text, []byte("\uFEFF")), " \t\r\n"), []byte("<"))
}

func parseGraphML(text []byte, z Zoo) (*Network, error) {
	if len(text) > maxGraphML {
		return nil, fmt.Errorf("%d bytes of GraphML; at most %d are read", len(text), maxGraphML)
	}
	g := &graphML{dec: xml.NewDecoder(bytes.NewReader(text)), keys: map[string]string{}, byID: map[string]int{}}
	for {
		token, err := g.dec.Token()
		if errors.Is(err, io.EOF) && len(g.inside) == 0 {
			break
		}
		if err != nil {
			var syntax *xml.SyntaxError
			if errors.As(err, &syntax) {
				return nil, fmt.Errorf("line %d: no XML: %s", syntax.Line, strings.Join(strings.Fields(syntax.Msg), " "))
			}
			return nil, g.wrong("%v", err)
		}
		if err := g.take(token); err != nil {
			return nil, err
		}
	}
	if g.line == 0 {
		return nil, errors.New("line 1: there is no graph in the file")
	}
	return g.network(z)
}

// graphML is a file while it is read.
type graphML struct {
	dec      *xml.Decoder
	keys     map[string]string // by id: the attribute's name
	inside   []string          // the elements around
	line     int               // of the graph; 0: none has been seen
	directed bool
	nodes    []zooNode
	byID     map[string]int
	edges    []zooEdge
	key      string // of the data that is read; empty: none is
	keyDepth int    // how many elements are around it
	data     []byte
}

type zooNode struct {
	id, label string
	at        Coordinates
	lon, lat  bool // are known
	foreign   bool // another network's
	junction  bool
}

type zooEdge struct {
	line         int
	source, dest string
	rate         unit.Bandwidth
	known        bool
}

func (g *graphML) wrong(format string, args ...any) error {
	line, _ := g.dec.InputPos()
	return fmt.Errorf("line %d: %s", line, strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "))
}

func (g *graphML) take(token xml.Token) error {
	switch t := token.(type) {
	case xml.StartElement:
		if len(g.inside) >= maxDepth {
			return g.wrong("%s: more than %d elements one in another", short(t.Name.Local), maxDepth)
		}
		g.inside = append(g.inside, t.Name.Local)
		return g.begin(t)
	case xml.EndElement:
		g.inside = g.inside[:len(g.inside)-1]
		if g.key != "" && len(g.inside) == g.keyDepth {
			err := g.attribute(g.inside[len(g.inside)-1], g.key, strings.TrimSpace(string(g.data)))
			g.key, g.data = "", g.data[:0]
			return err
		}
	case xml.CharData:
		if g.key != "" {
			g.data = append(g.data, t[:min(len(t), maxData-len(g.data))]...)
		}
	}
	return nil
}

func (g *graphML) begin(t xml.StartElement) error {
	attr := func(name string) (string, error) {
		for _, a := range t.Attr {
			if a.Name.Local == name && a.Value != "" {
				return a.Value, nil
			}
		}
		return "", g.wrong("%s: %s is missing", t.Name.Local, name)
	}
	const graph = "graphml graph"
	switch strings.Join(g.inside, " ") {
	case "graphml", graph, "graphml key", graph + " node", graph + " edge":
	case graph + " node data", graph + " edge data":
		id, err := attr("key")
		if err != nil {
			return err
		}
		name, ok := g.keys[id]
		if !ok {
			return g.wrong("%s: data: there is no key %s", g.inside[2], short(id))
		}
		g.key, g.keyDepth = name, len(g.inside)-1
		return nil
	case graph + " hyperedge", graph + " node graph", graph + " edge graph":
		return g.wrong("%s is not read", t.Name.Local)
	default:
		if len(g.inside) == 1 {
			return g.wrong("want graphml, not %s", short(t.Name.Local))
		}
		return nil // data of the graph, descriptions, what others add
	}
	switch t.Name.Local {
	case "key":
		id, err := attr("id")
		if err != nil {
			return err
		}
		name, err := attr("attr.name")
		if err != nil {
			name = id // as others than the Zoo may have it
		}
		g.keys[id] = name
	case "graph":
		if g.line > 0 {
			return g.wrong("graph: there is another before it, in line %d", g.line)
		}
		g.line, _ = g.dec.InputPos()
		way, err := attr("edgedefault")
		g.directed = err == nil && way == "directed"
	case "node":
		id, err := attr("id")
		if err != nil {
			return err
		}
		if _, twice := g.byID[id]; twice {
			return g.wrong("node: the id %s is used twice", short(id))
		}
		g.byID[id] = len(g.nodes)
		g.nodes = append(g.nodes, zooNode{id: id})
	case "edge":
		source, err := attr("source")
		if err != nil {
			return err
		}
		dest, err := attr("target")
		if err != nil {
			return err
		}
		line, _ := g.dec.InputPos()
		g.edges = append(g.edges, zooEdge{line: line, source: source, dest: dest})
	}
	return nil
}

// attribute is the text of a data element of the node or edge that was begun last.
func (g *graphML) attribute(of, name, text string) error {
	number := func(lo, hi float64) (float64, error) {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !(x >= lo && x <= hi) {
			return 0, g.wrong("%s: %s: %s: want a number from %g to %g", of, name, short(text), lo, hi)
		}
		return x, nil
	}
	if of == "edge" {
		if name != "LinkSpeedRaw" {
			return nil
		}
		x, err := number(0, 1e18)
		e := &g.edges[len(g.edges)-1]
		e.rate, e.known = unit.Bandwidth(x)*unit.BitPerSecond, true
		return err
	}
	n := &g.nodes[len(g.nodes)-1]
	var err error
	switch name {
	case "label":
		n.label = text
	case "Longitude":
		n.at.Lon, err = number(-360, 360)
		n.lon = true
	case "Latitude":
		n.at.Lat, err = number(-90, 90)
		n.lat = true
	case "Internal":
		n.foreign = text == "0"
	case "hyperedge":
		n.junction = text == "1"
	}
	return err
}

func (g *graphML) network(z Zoo) (*Network, error) {
	if len(g.nodes) == 0 {
		return nil, fmt.Errorf("line %d: graph: there are no nodes", g.line)
	}
	if len(g.nodes) > maxHosts {
		return nil, fmt.Errorf("line %d: graph: %d nodes; at most %d are read", g.line, len(g.nodes), maxHosts)
	}
	if z.Hosts < 0 || z.Hosts > maxHosts {
		return nil, fmt.Errorf("%d hosts: want 0 to %d", z.Hosts, maxHosts)
	}
	for _, r := range slices.Concat(z.Access.Rate, z.Access.Back, []unit.Bandwidth{z.Rate}) {
		if !(r >= 0 && r <= MostRate) {
			return nil, fmt.Errorf("rate %s of links that the file does not say: want 0 to 1000000 Tbit", r.Bits())
		}
		if r > 0 && r < LeastRate {
			return nil, fmt.Errorf("rate %g B/s of links that the file does not say: want 0.001 B/s or more, or 0", float64(r))
		}
	}
	if d := z.Access.Delay; d < 0 || d > MostDelay {
		return nil, fmt.Errorf("delay %v of hosts' links: want 0 to an hour", d)
	}
	if z.Rate == 0 {
		z.Rate = 10 * unit.Gbit
	}
	if len(z.Access.Rate) == 0 {
		z.Access.Rate = []unit.Bandwidth{unit.Gbit}
	}
	n, names := &Network{}, namer{}
	for i := range g.nodes {
		node := &g.nodes[i]
		label := clean(node.label)
		if label == "None" || label == "" {
			label = clean("n" + node.id)
		}
		s := Switch{Name: names.unique(label)}
		if node.lon && node.lat {
			s.At = &node.at
		}
		n.Switches = append(n.Switches, s)
	}
	var pops []int
	for i, node := range g.nodes {
		if !node.foreign && !node.junction {
			pops = append(pops, i)
		}
	}
	if len(pops) == 0 {
		for i := range g.nodes {
			pops = append(pops, i)
		}
	}
	if z.Hosts == 0 {
		z.Hosts = len(pops)
	}
	for k, pop := range pops {
		s := &n.Switches[pop]
		for i := k; i < z.Hosts; i += len(pops) {
			s.Site = s.Name
			h := Host{Name: names.unique(fmt.Sprintf("%s.%d", s.Name, i/len(pops)+1)), Site: s.Name}
			n.Links = append(n.Links, z.Access.link(len(n.Hosts), h.Name, s.Name))
			n.Hosts = append(n.Hosts, h)
		}
	}
	joined := map[[2]int32]int{} // by nodes: the link
	for _, e := range g.edges {
		a, ok := g.byID[e.source]
		if !ok {
			return nil, fmt.Errorf("line %d: edge: source: there is no node %s", e.line, short(e.source))
		}
		b, ok := g.byID[e.dest]
		if !ok {
			return nil, fmt.Errorf("line %d: edge: target: there is no node %s", e.line, short(e.dest))
		}
		if a == b {
			continue // it carries nothing to anywhere
		}
		if !e.known {
			e.rate = z.Rate
		}
		if e.rate > 0 && e.rate < LeastRate {
			return nil, fmt.Errorf("line %d: edge: LinkSpeedRaw: is less than 0.008 bit/s, and not 0", e.line)
		}
		both := pair(int32(a), int32(b))
		i, ok := joined[both]
		if !ok {
			i = len(n.Links)
			joined[both] = i
			n.Links = append(n.Links, Link{A: n.Switches[a].Name, B: n.Switches[b].Name, Delay: delayBetween(n.Switches[a].At, n.Switches[b].At)})
		}
		l := &n.Links[i]
		if l.A == n.Switches[a].Name || !g.directed {
			l.Rate += e.rate
		}
		if l.A != n.Switches[a].Name || !g.directed {
			l.Back += e.rate
		}
		if l.Rate > MostRate || l.Back > MostRate {
			return nil, fmt.Errorf("line %d: edge: LinkSpeedRaw: all edges from %s to %s have more than 1000000 Tbit together", e.line, short(e.source), short(e.dest))
		}
	}
	if p := n.check(); p != nil {
		return nil, p
	}
	return n, nil
}

// delayBetween is that of light in fibre on the great circle, in whole microseconds, at least 10.
func delayBetween(a, b *Coordinates) time.Duration {
	if a == nil || b == nil {
		return time.Millisecond
	}
	const radius, perMillisecond = 6371, 200 // km
	rad := func(degrees float64) float64 { return degrees * math.Pi / 180 }
	sinLat, sinLon := math.Sin(rad(b.Lat-a.Lat)/2), math.Sin(rad(b.Lon-a.Lon)/2)
	h := sinLat*sinLat + math.Cos(rad(a.Lat))*math.Cos(rad(b.Lat))*sinLon*sinLon
	km := 2 * radius * math.Asin(math.Sqrt(min(1, h)))
	return max(10*time.Microsecond, time.Duration(math.Round(km*1000/perMillisecond))*time.Microsecond)
}

// namer gives names, by name: how often something was to have it.
type namer map[string]int

// unique is the name, or if that is taken the name with a number.
func (n namer) unique(name string) string {
	for {
		n[name]++
		if n[name] == 1 {
			return name
		}
		next := fmt.Sprintf("%s-%d", name, n[name])
		if n[next] == 0 {
			n[next] = 1
			return next
		}
	}
}

// clean makes of a label what can stand for a host in a list of YAML and on a command line without quotes, and leaves room for what is added
// to it: letters and digits of any script, points, underscores, slashes and plus signs stay, apostrophes go, and one dash stands for all between
// words that is anything else.
func clean(s string) string {
	const most = 48
	s = strings.Map(func(r rune) rune {
		switch {
		case strings.ContainsRune("'`’", r):
			return -1
		case r != unicode.ReplacementChar && (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) || strings.ContainsRune("._/+", r)):
			return r
		}
		return '-'
	}, s)
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '-' }), "-")
	if len(s) > most {
		s = strings.TrimSuffix(strings.ToValidUTF8(s[:most], ""), "-")
	}
	return s
}

// short quotes s, and cuts it if it is long.
func short(s string) string {
	const most = 40
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return strconv.Quote(s)
}
