package picture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/freshet/freshet/topo"
)

// folding says which places are drawn as one.
type folding struct {
	of    []int32 // by place: its node. Of a host with one link that of what it is joined to
	nodes []node
}

// node is what is drawn as one: a switch with its hosts, a site, a host with several links.
type node struct {
	name     string
	top      int   // the place that stands for it
	hosts    []int // that belong to it
	switches int
}

// foldSites makes nodes. With sites, switches of a site are one; a switch is of a site if it says so, or if all
// its hosts are. Switches with the same neighbours, as those at the top of a fat tree, are one, too.
func foldSites(g *topo.Graph, sites bool) folding {
	n := g.Network()
	f := folding{of: make([]int32, g.Places())}
	hosts := g.Hosts()
	single := func(p int) bool { return p < hosts && len(g.Out(p)) == 1 && g.To(g.Out(p)[0]) >= hosts }
	byGroup, like := map[string]int32{}, twins(g)
	for p := range f.of {
		f.of[p] = -1
		if single(p) {
			continue
		}
		site, group := "", "" // what it is folded by
		if p >= hosts && sites {
			if site = siteOf(g, p, single); site != "" {
				group = "site " + site
			} else if like[p] != "" {
				group = "like " + like[p]
			}
		}
		if k, ok := byGroup[group]; ok && group != "" {
			f.of[p] = k
			nd := &f.nodes[k]
			nd.switches++
			nd.top = higher(g, nd.top, p)
			if site == "" {
				first, _, _ := strings.Cut(nd.name, " … ")
				nd.name = first + " … " + g.Name(p)
			}
			continue
		}
		nd := node{name: g.Name(p), top: p}
		if p >= hosts {
			nd.switches = 1
		} else {
			nd.hosts = []int{p}
		}
		if site != "" {
			nd.name = site
		}
		if group != "" {
			byGroup[group] = int32(len(f.nodes))
		}
		f.of[p] = int32(len(f.nodes))
		f.nodes = append(f.nodes, nd)
	}
	for h := range n.Hosts {
		if single(h) {
			k := f.of[g.To(g.Out(h)[0])]
			f.of[h] = k
			f.nodes[k].hosts = append(f.nodes[k].hosts, h)
		}
	}
	return f
}

// twins are switches without hosts that are joined to the same two or more places: by place, what they have in common.
func twins(g *topo.Graph) []string {
	like := make([]string, g.Places())
	if g.Tree() != nil {
		return like
	}
	count := map[string]int{}
	for p := g.Hosts(); p < g.Places(); p++ {
		var next []int
		for _, c := range g.Out(p) {
			next = append(next, g.To(c))
		}
		slices.Sort(next)
		if len(next) >= 2 && next[0] >= g.Hosts() {
			like[p] = fmt.Sprint(next)
			count[like[p]]++
		}
	}
	for p := range like {
		if count[like[p]] < 2 {
			like[p] = ""
		}
	}
	return like
}

// siteOf is the site of a switch, or "".
func siteOf(g *topo.Graph, p int, single func(int) bool) string {
	n := g.Network()
	if s := n.Switches[p-len(n.Hosts)].Site; s != "" {
		return s
	}
	site, some := "", false
	for _, c := range g.Out(p) {
		h := g.To(c)
		if !single(h) {
			continue
		}
		if some && n.Hosts[h].Site != site {
			return ""
		}
		site, some = n.Hosts[h].Site, true
	}
	return site
}

// higher is the one of two switches that stands for both: on a tree that nearer to the root, else the first.
func higher(g *topo.Graph, a, b int) int {
	if t := g.Tree(); t != nil && t.Depth[b] < t.Depth[a] {
		return b
	}
	return a
}

// bundle is the channels from one node to another.
type bundle struct {
	from, to int32
	channels []topo.Channel
}

// bundles are the links between nodes, each once, the smaller node first.
func (f *folding) bundles(g *topo.Graph) (bs []bundle) {
	at := map[[2]int32]int{}
	for l := range g.Network().Links {
		c := topo.Channel(2 * l)
		a, b := f.of[g.From(c)], f.of[g.To(c)]
		if a == b {
			continue
		}
		if a > b {
			a, b, c = b, a, c^1
		}
		i, ok := at[[2]int32{a, b}]
		if !ok {
			i = len(bs)
			at[[2]int32{a, b}] = i
			bs = append(bs, bundle{from: a, to: b})
		}
		bs[i].channels = append(bs[i].channels, c)
	}
	slices.SortFunc(bs, func(x, y bundle) int { return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.to, y.to)) })
	return bs
}
