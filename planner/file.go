package planner

import (
	"fmt"

	"github.com/freshet/freshet/internal/form"
	"github.com/freshet/freshet/topo"
)

// ParseTransfers reads transfers between hosts of g from YAML or JSON:
//
//	transfers:
//	- {name: x, size: 10GiB, sources: [h1], destinations: [h2, h3], weight: 1, priority: 0}
//
// Only name, sources and destinations must be there. What is wrong is an error that names line and field.
func ParseTransfers(text []byte, g *topo.Graph) ([]Transfer, error) {
	doc := form.Parse(text)
	o := doc.Root().Object("transfers")
	var ts []Transfer
	known := map[string]int{} // the line of the transfer of that name
	for _, v := range o.Need("transfers").List() {
		f := v.Object("name", "size", "sources", "destinations", "weight", "priority")
		name := f.Need("name")
		t := Transfer{Name: name.Name(), Weight: 1}
		if line := known[t.Name]; line > 0 {
			name.Fail("there is a transfer %s already, in line %d", t.Name, line)
		}
		known[t.Name] = name.Line()
		t.Size = float64(f.Get("size").Bytes())
		from := f.Need("sources")
		t.Sources = hosts(from, g)
		if from.Given() && len(t.Sources) == 0 {
			from.Fail("there is no source")
		}
		t.Destinations = hosts(f.Need("destinations"), g)
		if w := f.Get("weight"); w.Given() {
			if t.Weight = w.Number(0); !(t.Weight >= LeastWeight && t.Weight <= MostWeight) {
				w.Fail("want a number from %g to %g", LeastWeight, MostWeight)
			}
		}
		if p := f.Get("priority"); p.Given() {
			t.Priority = p.Int(-1000, 1000)
		}
		ts = append(ts, t)
	}
	if err := doc.Err(); err != nil {
		return nil, fmt.Errorf("transfers: %w", err)
	}
	return ts, nil
}

func hosts(list form.Value, g *topo.Graph) (places []int) {
	for _, v := range list.List() {
		name := v.Name()
		if !v.Given() {
			return nil
		}
		p, ok := g.Place(name)
		switch {
		case !ok:
			v.Fail("there is no host %q in the topology", name)
		case p >= g.Hosts():
			v.Fail("%s is a switch; data is on hosts%s", name, such(g, p))
		}
		places = append(places, p)
	}
	return places
}

// such names a host of a switch, if it has one.
func such(g *topo.Graph, p int) string {
	for _, c := range g.Out(p) {
		if h := g.To(c); h < g.Hosts() {
			return ", such as " + g.Name(h)
		}
	}
	return ""
}
