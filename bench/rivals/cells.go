package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/unit"
)

// kind is a row of cells: what network, what store, what object.
type kind struct {
	name  string
	title string
	nodes int     // 0: as many as --nodes says
	store float64 // what it gives a node, as a part of the node's link, the mean of all; 0: it has no limit
	files int
	slow  bool    // one node's link has a quarter of the rate
	sites bool    // half of the nodes are behind a link of half the rate of a node's
	few   bool    // of the rivals only the three fastest are run
	fast  float64 // factor on the links' rates, and half of it on the size; 0: none
}

var kinds = []kind{
	{name: "narrow", title: "the store narrow", store: 0.06, files: 1},
	{name: "medium", title: "the store medium", store: 0.25, files: 1},
	{name: "wide", title: "the store wide", files: 1},
	{name: "8", title: "8 nodes", nodes: 8, store: 0.25, files: 1},
	{name: "32narrow", title: "32 nodes, the store narrow", nodes: 32, store: 0.06, files: 1, few: true},
	{name: "32", title: "32 nodes, the store medium", nodes: 32, store: 0.25, files: 1},
	{name: "slow", title: "one slow node", store: 0.25, files: 1, slow: true},
	{name: "sites", title: "two sites", store: 0.25, files: 1, sites: true},
	{name: "shards", title: "32 files", store: 0.25, files: 32},
	{name: "fast", title: "links four times as fast", store: 0.25, files: 1, fast: 4},
}

// first is how many of kinds are where every system is run before anything
// else, and by which the best are chosen.
const first = 3

// kindOf finds one by its name.
func kindOf(name string) (kind, error) {
	for _, k := range kinds {
		if k.name == name {
			return k, nil
		}
	}
	return kind{}, fmt.Errorf("cell %q: there are: %s", name, kindNames())
}

// titled is what a cell of this kind is called.
func (k kind) titled(p bench.Params) string {
	if k.nodes > 0 {
		return k.title
	}
	return p["nodes"] + " nodes, " + k.title
}

// others says whether all systems are run in a kind, at least once.
func (k kind) others() bool { return !k.few }

// kindNames are all names, with commas.
func kindNames() string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return strings.Join(names, ", ")
}

// scale is how large all is. What all links carry together is the same for any number of nodes, so that the processors of
// this machine have the same to do. What all nodes get together is so, too, but
// the object gets no smaller with more nodes: the start, which takes as long however much follows, would weigh more.
type scale struct {
	nodes int
	rate  unit.Bandwidth // of all nodes' links together, on the wire, each way
	size  unit.Bytes     // of all copies together, with as many nodes
	even  bool           // the store gives all nodes the same, and not what it draws for each
}

// standard is the scale of what is published.
var standard = scale{nodes: 16, rate: 800 * unit.Mbit, size: 3 * unit.GiB}

// params are a cell's, as they are printed.
func (s scale) params(k kind) bench.Params {
	n := cmp.Or(k.nodes, s.nodes)
	rate, size := float64(s.rate)/float64(n), float64(s.size)/float64(min(n, s.nodes))
	if k.fast > 0 {
		rate, size = rate*k.fast, size*k.fast/2
	}
	p := bench.Params{
		"cell": k.name, "nodes": strconv.Itoa(n),
		"mbit": strconv.FormatFloat(rate/float64(unit.Mbit), 'f', -1, 64),
		"mib":  strconv.Itoa(max(1, int(size/float64(unit.MiB)))), // 32 files of one are alike, too
	}
	if s.even {
		p["rates"] = "even"
	}
	return p
}

// cells are the runs of some systems in some kinds, with these seeds.
func (s scale) cells(systems []string, ks []kind, seeds ...uint64) (out []bench.Cell) {
	for _, seed := range seeds {
		for _, k := range ks {
			for i := range systems {
				// Another one begins with each seed.
				out = append(out, bench.Cell{Params: s.params(k), Algorithm: systems[(int(seed-1)+i)%len(systems)], Seed: seed})
			}
		}
	}
	return out
}

// leading is how many rivals are run as often as ours.
const leading = 3

// often are the systems of which several runs are wanted in a kind, by those that there are: ours, the best rivals, and
// who reads all from the store where that is not far behind.
func (s scale) often(rs []bench.Result, k kind) []string {
	if k.fast > 0 {
		return nil
	}
	names := append([]string{best}, s.leaders(rs, same(k))...)
	if flatNear(rs, s.params(k)) && !slices.Contains(names, flat) {
		names = append(names, flat)
	}
	return names
}

// flatNear says whether in a cell reading all from the store takes less than behind times its bound.
func flatNear(rs []bench.Result, p bench.Params) bool {
	span, _ := bench.Of(rs, at(flat, p), "ratio")
	return span.N > 0 && span.Median < behind
}

// leaders are the rivals that were fastest in a kind, by the runs with the first seed.
func (s scale) leaders(rs []bench.Result, k kind) (names []string) {
	p := s.params(k)
	var runs []bench.Result
	for _, r := range rs {
		if r.Seed == 1 && r.Error == "" && !own(r.Algorithm) && maps.Equal(r.Params, p) {
			runs = append(runs, r)
		}
	}
	slices.SortStableFunc(runs, func(a, b bench.Result) int {
		return cmp.Compare(a.Numbers["makespan_s"], b.Numbers["makespan_s"])
	})
	for _, r := range runs[:min(leading, len(runs))] {
		names = append(names, r.Algorithm)
	}
	return names
}

// same is the kind by whose leaders a kind's are chosen: itself, or the one of all systems with the same store.
func same(k kind) kind {
	for _, o := range kinds[:first] {
		if o.store == k.store {
			return o
		}
	}
	return k
}

// systemNames are those of all systems, ours first. What they do is in systems, where there is a laboratory.
func systemNames() (all []string) {
	for _, a := range slices.Backward(freshet.Algorithms) {
		all = append(all, nameOf(a, "tls"))
	}
	return append(all, nameOf(freshet.DefaultAlgorithm, "trusted"), "flat rclone", "flat aws-cli", "aria2 web", "aria2 seed",
		"libtorrent web", "libtorrent web tuned", "libtorrent seed", "libtorrent seed tuned", "anacrolix web", "anacrolix seed", "chain", "udpcast", "mpi bcast")
}

// nameOf is how freshet with an algorithm is called in the results.
func nameOf(algorithm, security string) string {
	name := "freshet " + algorithm
	if security != "tls" {
		name += " " + security
	}
	return name
}

// own says whether a system is freshet.
func own(name string) bool { return strings.HasPrefix(name, "freshet ") }

// best is what is held against the rivals.
var best = nameOf(freshet.DefaultAlgorithm, "tls")

// flat is freshet where every node reads all for itself: the least that ours must do.
var flat = nameOf("flat", "tls")
