package scenario

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/steal"
)

// This file shares what crosses between sites, as internal/swarm does (sites.go). There all nodes are connected. Where they are not
// here, a node's neighbours are its partners, of its site and of others (exchange.Abroad); where sites are many it has some more, which it serves in turn. As to who has
// what, nodes that are no neighbours are one group for each site.

// places is which node is where.
type places struct {
	of    []int // by node: its site, -1 for none
	names []string
	mates [][]int // by site: those of its nodes that are there from the beginning

	store   int       // the site that the store is in, or -1
	crossed []float64 // by site: bytes that have come from other sites, and from a store outside
}

// abroad is how many neighbours in other groups a node looks for, where not all are neighbours and its partners are not of each. As many more find it.
const abroad = 2

// locate finds the sites of a scenario. There are none if all nodes are of one, or every node is for itself.
func (w *world) locate() {
	if w.policy.alone {
		return
	}
	of := make([]string, len(w.nodes))
	for i := range w.nodes {
		of[i] = w.Network.Hosts[w.nodes[i].host].Site
	}
	sites, names := exchange.NumberSites(of)
	if sites == nil {
		return
	}
	x := &places{of: sites, names: names, mates: make([][]int, len(names)), crossed: make([]float64, len(names)), store: -1}
	for i, k := range sites {
		if k >= 0 && !w.nodes[i].late {
			x.mates[k] = append(x.mates[k], i)
		}
	}
	if w.Store.At != "" {
		x.store = slices.Index(names, w.siteOfPlaces()[w.Store.At])
	}
	w.places = x
}

// groups is how many groups of nodes there are: those of no site, and each site's.
func (w *world) groups() int {
	if w.places == nil {
		return 1
	}
	return 1 + len(w.places.names)
}

// group is the group that a node is in.
func (w *world) group(i int) int {
	if w.places == nil {
		return 0
	}
	return 1 + w.places.of[i]
}

// elsewhere is a node's local rank for all nodes of a group together that are no neighbours of it.
func (n *node) elsewhere(group int) int { return len(n.peers) + 1 + group }

// graph says who is whose neighbour where not all are: within each group a regular graph, between sites those who are partners, and some random edges between groups if these are not enough.
func (w *world) graph(rng *rand.Rand) [][]int32 {
	with := make([][]int32, len(w.nodes))
	members := make([][]int32, w.groups())
	for i := range w.nodes {
		members[w.group(i)] = append(members[w.group(i)], int32(i))
	}
	for _, of := range members {
		for k, others := range exchange.Graph(len(of), w.Neighbours, rng) {
			for _, o := range others {
				with[of[k]] = append(with[of[k]], of[o])
			}
		}
	}
	for i := range w.nodes {
		if len(members[w.group(i)]) == len(w.nodes) {
			break
		}
		if w.places.of[i] >= 0 {
			for _, k := range exchange.Abroad(i, w.places.of) {
				if !slices.Contains(with[i], int32(k)) {
					with[i], with[k] = append(with[i], int32(k)), append(with[k], int32(i))
				}
			}
			if !exchange.Far(len(w.places.names)) { // it knows some in each
				continue
			}
		}
		for found := 0; found < abroad; found++ {
			k := rng.IntN(len(w.nodes))
			for w.group(k) == w.group(i) {
				k = rng.IntN(len(w.nodes))
			}
			if !slices.Contains(with[i], int32(k)) {
				with[i], with[k] = append(with[i], int32(k)), append(with[k], int32(i))
			}
		}
	}
	for i := range with {
		slices.Sort(with[i])
	}
	return with
}

// sitesOf are the sites of a node's local ranks; nil if it shares with nobody: it has no site, or nobody was
// in it from the beginning.
func (w *world) sitesOf(i int) (sites []int) {
	x := w.places
	if x == nil || x.of[i] < 0 || len(x.mates[x.of[i]]) == 0 {
		return nil
	}
	for _, p := range w.nodes[i].peers {
		sites = append(sites, x.of[p.node])
	}
	sites = append(sites, x.of[i])
	if w.hops > 0 {
		for g := range w.groups() {
			sites = append(sites, g-1)
		}
	}
	return sites
}

// importsAtOnce is how many pieces a node's site imports at a time.
func (w *world) importsAtOnce(i int) (most int, few bool) {
	if w.places == nil || w.places.of[i] < 0 {
		return 0, false
	}
	return steal.AtOnce(len(w.places.mates[w.places.of[i]]), len(w.places.names), w.Layout.Count())
}

// divideImports makes the pools of the sites.
func (w *world) divideImports() {
	if w.places == nil {
		return
	}
	for _, mates := range w.places.mates {
		for _, i := range mates {
			n := &w.nodes[i]
			n.imports = steal.NewImports(i, len(w.nodes), mates, w.Layout.Count())
			n.ex.Importing(n.imports.Mine())
		}
	}
}

// crosses counts what came to a node from another, or from the store (-1).
func (w *world) crosses(from, to int, bytes float64) {
	x := w.places
	if x == nil || x.of[to] < 0 {
		return
	}
	at := x.store
	if from >= 0 {
		at = x.of[from]
	}
	if at != x.of[to] {
		x.crossed[x.of[to]] += bytes
	}
}

// hunger has a node look at its next tick for more to import, if it could ask other sites for more.
func (w *world) hunger(i int) {
	if n := &w.nodes[i]; n.imports != nil && !n.looks && n.ex.Hungry() {
		n.looks, n.look = true, tickEvery
		w.after(n.look, event{kind: evHungry, node: int32(i)})
	}
}

// hungry steals pieces to import. A node that finds none looks again after twice as long, a second at most:
// to look costs as much as there are pieces.
func (w *world) hungry(i int) {
	n := &w.nodes[i]
	w.step(i) // it may be some piece's turn by now
	n.looks = false
	if n.done >= 0 || !n.ex.Hungry() {
		return
	}
	if n.imports.PassOver(w.now, n.ex.ImportTakes(), func(k int) int { return w.nodes[k].ex.Have().Count() }) {
		n.ex.Importing(n.imports.Mine())
	}
	if victim, ok := n.imports.Ask(w.now, n.ex.Importable); ok {
		n.look = tickEvery
		w.tell(i, victim, event{kind: evGiveImports})
	} else if _, claims := n.imports.Overtake(w.now, n.ex.ImportTook(), n.ex.Importable, func(k int) time.Duration {
		return time.Duration((w.sim.Now() - w.nodes[k].gained) * 1e9)
	}); len(claims) > 0 {
		n.look = tickEvery
		w.tellImports(i, claims)
		w.step(i)
	}
	n.looks, n.look = true, min(2*n.look, 1)
	w.after(n.look, event{kind: evHungry, node: int32(i)})
}

// tellImports tells the site of a node who imports what, after the node's pool has changed.
func (w *world) tellImports(i int, claims []steal.Claim) {
	n := &w.nodes[i]
	n.ex.Importing(n.imports.Mine())
	if len(claims) == 0 {
		return
	}
	n.gained = w.sim.Now()
	k := w.places.of[i]
	for _, m := range w.places.mates[k] {
		if m != i {
			w.tell(i, m, event{kind: evTookImports, claims: claims})
		}
	}
}

// importing acts on what another node says about who imports what.
func (w *world) importing(i int, e event) {
	n := &w.nodes[i]
	switch e.kind {
	case evGiveImports:
		w.tell(i, int(e.peer), event{kind: evImports, hands: n.imports.Give(int(e.peer), n.ex.Importable)})
		w.tellImports(i, nil)
	case evImports:
		claims, err := n.imports.Receive(int(e.peer), e.hands, w.now, n.ex.Importable)
		w.fail(err)
		w.tellImports(i, claims)
	case evTookImports:
		var claims []steal.Claim
		for _, c := range e.claims {
			more, err := n.imports.Took(c)
			w.fail(err)
			claims = append(claims, more...)
		}
		w.tellImports(i, claims)
	}
	w.step(i)
}

// deadAt notes for a node's site that it is given up.
func (w *world) deadAt(i int) {
	if w.nodes[i].imports == nil {
		return
	}
	for _, m := range w.places.mates[w.places.of[i]] {
		if o := &w.nodes[m]; m != i && !o.killed {
			w.tellImports(m, o.imports.Dead(i))
		}
	}
}

// unanswered notes that what a node was asked will not be answered.
func (w *world) unanswered(i int) {
	if w.places == nil {
		return
	}
	for k := range w.nodes {
		if o := &w.nodes[k]; o.imports != nil {
			o.imports.Unanswered(i)
		}
	}
}

// catchUp has a node and its site tell each other who imports what: it has been away.
func (w *world) catchUp(i int) {
	if w.nodes[i].imports == nil {
		return
	}
	for _, k := range w.places.mates[w.places.of[i]] {
		if o := &w.nodes[k]; k != i && !o.absent && !o.lost && !o.dead && !o.killed {
			w.tell(i, k, event{kind: evTookImports, claims: w.nodes[i].imports.Claims()})
			w.tell(k, i, event{kind: evTookImports, claims: o.imports.Claims()})
		}
	}
}
