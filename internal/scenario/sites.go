package scenario

import (
	"time"

	"github.com/freshet/freshet/steal"
)

// This file shares what crosses between sites, as internal/swarm does (sites.go). It does where all nodes are
// neighbours, as they are there: an importer has to reach whoever has what it imports.

// places is which node is where.
type places struct {
	of    []int // by node: its site, -1 for none
	names []string
	mates [][]int // by site: those of its nodes that are there from the beginning

	store   int       // the site that the store is in, or -1
	crossed []float64 // by site: bytes that have come from other sites, and from a store outside
}

// locate finds the sites of a scenario. There are none if all nodes are of one, not all are neighbours, or every node is
// for itself.
func (w *world) locate() {
	if w.policy.alone || len(w.nodes) > w.Neighbours+1 {
		return
	}
	x, several := &places{store: -1}, false
	number := map[string]int{}
	for i := range w.nodes {
		name := w.Network.Hosts[w.nodes[i].host].Site
		several = several || name != w.Network.Hosts[w.nodes[0].host].Site
		if name == "" {
			x.of = append(x.of, -1)
			continue
		}
		k, ok := number[name]
		if !ok {
			k = len(x.names)
			number[name] = k
			x.names, x.mates = append(x.names, name), append(x.mates, nil)
		}
		x.of = append(x.of, k)
		if !w.nodes[i].late {
			x.mates[k] = append(x.mates[k], i)
		}
	}
	if !several {
		return
	}
	x.crossed = make([]float64, len(x.names))
	if k, ok := number[w.siteOfPlaces()[w.Store.At]]; ok && w.Store.At != "" {
		x.store = k
	}
	w.places = x
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
	return append(sites, x.of[i])
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
	n.looks = false
	if n.done >= 0 || !n.ex.Hungry() {
		return
	}
	if w.sim.Now()-n.begged > answerWithin {
		n.imports.GiveUp(w.now)
	}
	if victim, ok := n.imports.Ask(w.now, n.ex.Importable); ok {
		n.begged, n.look = w.sim.Now(), tickEvery
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
		claims, err := n.imports.Receive(int(e.peer), e.hands, w.now)
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
