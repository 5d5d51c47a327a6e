package scenario

import (
	"fmt"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/sim"
	"github.com/freshet/freshet/unit"
)

// This file reads from the store, as internal/swarm does (fetch.go). What is read next is
// said in algorithm.go.

// fetch is one connection of a node to the store.
type fetch struct {
	flow  sim.Flow
	delay float64 // from a request to its first byte
	busy  bool
	works []int // of the steal ledger
	span  piece.Range
	take  []bool  // by piece of the span: it is to be kept
	at    int     // the piece that is coming
	came  float64 // of it, before the node was stopped
	waits bool    // for the first byte
	rests bool    // others are to read first
}

// storeConnections makes a node's connections to the store.
func (w *world) storeConnections(i int) error {
	n := &w.nodes[i]
	way := []sim.Link{w.total}
	if r := w.Store.PerClient[n.host]; r > 0 {
		way = append(way, w.sim.AddLink(float64(r)))
	}
	delay := w.Store.Delay.Seconds()
	if w.Store.At == "" {
		if out := w.router.Out(n.host); len(out) > 0 {
			way = append(way, w.links[out[0]^1])
		}
	} else {
		from, _ := w.router.Place(w.Store.At)
		links, d, ok := w.way(from, n.host)
		if !ok {
			return fmt.Errorf("there is no way from the store at %s to %s", w.Store.At, w.Network.Hosts[n.host].Name)
		}
		way = append(way, links...)
		delay += d
	}
	for range w.policy.connections {
		f := w.sim.AddFlow(limited(w.Store.PerConnection[n.host].Draw(w.drawn)), way...)
		w.own(f, owner{conn: int32(len(n.fetches)), store: true, node: int32(i)})
		n.fetches = append(n.fetches, fetch{flow: f, delay: 2 * delay})
	}
	return nil
}

// fetch gives every free connection of a node its next range, and has those go on that rested, if it is their turn.
func (w *world) fetch(i int) {
	n := &w.nodes[i]
	n.waits = false
	if n.killed || n.dead || n.stopped || n.absent || n.done >= 0 {
		return
	}
	for k := range n.fetches {
		switch f := &n.fetches[k]; {
		case !f.rests:
		case n.turns.May(n.works.PlaceOf(f.works[0]), w.had(n)):
			f.rests = false
			w.ask(i, k)
		default:
			n.waits = true
		}
	}
	for k := range w.streams(i) {
		for !n.fetches[k].busy {
			works, span := w.take(i)
			if len(works) == 0 {
				w.idle(i)
				return
			}
			if !w.begins(i, k, works, span) {
				n.end(works)
			}
		}
	}
}

func (n *node) end(works []int) {
	for _, work := range works {
		n.works.End(work)
	}
}

// begins asks the store for the pieces of span that are neither had nor on their way. It returns
// false if there are none.
func (w *world) begins(i, k int, works []int, span piece.Range) bool {
	n := &w.nodes[i]
	take := make([]bool, span.Len())
	any := false
	for p := span.Lo; p < span.Hi; p++ {
		if !n.ex.Held(p) { // it was on its way from a node that died: it comes no more
			n.drop(p)
			w.sendCancels(i, n.ex.Abandon(p))
		}
		if n.ex.Reserve(p) {
			take[p-span.Lo], any = true, true
		}
	}
	if !any {
		return false
	}
	f := &n.fetches[k]
	f.busy, f.works, f.span, f.take, f.at, f.came = true, works, span, take, span.Lo, 0
	w.ask(i, k)
	return true
}

// ask asks the store for what a connection is to read.
func (w *world) ask(i, k int) {
	f := &w.nodes[i].fetches[k]
	if f.delay > 0 {
		f.waits = true
		w.after(f.delay, event{kind: evRead, node: int32(i), peer: int32(k)})
	} else {
		w.readOn(i, k)
	}
}

// begun notes that the first byte has come.
func (w *world) begun(i, k int) {
	f := &w.nodes[i].fetches[k]
	if !f.waits {
		return
	}
	f.waits = false
	if !f.rests {
		w.readOn(i, k)
	}
}

// had is how many pieces a node knows somebody to have.
func (w *world) had(n *node) int { return w.Layout.Count() - n.ex.Uncovered() }

// turn looks whether it is a node's turn to read. What it has begun when it is not rests, and goes on where it
// was.
func (w *world) turn(i int) {
	n := &w.nodes[i]
	if n.done >= 0 || n.ex.Covered() {
		return
	}
	read, busy := n.reading(w)
	n.turns.Note(read, busy > 0, w.had(n), w.now)
	for k := range n.fetches {
		f := &n.fetches[k]
		if !f.busy || f.rests || n.turns.May(n.works.PlaceOf(f.works[0]), w.had(n)) {
			continue
		}
		m := w.sim.Moved(f.flow)
		n.fromStore += m
		w.crosses(-1, i, m)
		f.came += m
		w.sim.Stop(f.flow)
		f.rests = true
	}
	w.fetch(i)
	w.after(tickEvery, event{kind: evTurn, node: int32(i)})
}

// next has a node read that has waited for its turn, if it is.
func (w *world) next(i int) {
	if w.nodes[i].waits {
		w.fetch(i)
	}
}

// reading is what a node has read so far, and over how many connections it is reading.
func (n *node) reading(w *world) (read unit.Bytes, busy int) {
	sum := n.fromStore
	for k := range n.fetches {
		if f := &n.fetches[k]; f.busy && !f.rests {
			busy++
			sum += w.sim.SoFar(f.flow)
		}
	}
	return unit.Bytes(sum), busy
}

// feel looks at how fast a node reads from the store, as long as there is anything to read.
func (w *world) feel(i int) {
	n := &w.nodes[i]
	if n.killed || n.done >= 0 || n.ex.Covered() {
		return
	}
	read, busy := n.reading(w)
	n.appetite.Read(read, busy, w.now)
	w.fetch(i)
	w.after(feelEvery, event{kind: evFeel, node: int32(i)})
}

// readOn lets a connection move to the end of the piece that is coming.
func (w *world) readOn(i, k int) {
	f := &w.nodes[i].fetches[k]
	w.sim.Start(f.flow, w.rest(f))
}

// read notes that a piece has come from the store.
func (w *world) read(i, k int) {
	n := &w.nodes[i]
	f := &n.fetches[k]
	moved := w.sim.Moved(f.flow)
	n.fromStore += moved
	w.crosses(-1, i, moved)
	p := f.at
	f.came = 0
	if f.at++; f.at < f.span.Hi {
		w.readOn(i, k)
	} else {
		w.sim.Stop(f.flow)
	}
	if f.take[p-f.span.Lo] {
		w.got(i, p)
	}
	if f = &n.fetches[k]; f.at == f.span.Hi {
		f.busy = false
		n.end(f.works)
		w.fetch(i)
	}
}
