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

// fetch gives every free connection of a node its next range.
func (w *world) fetch(i int) {
	n := &w.nodes[i]
	if n.killed || n.dead || n.stopped || n.absent || n.done >= 0 {
		return
	}
	for k := range w.streams(i) {
		for !n.fetches[k].busy {
			works, span := w.next(i)
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
	f.busy, f.works, f.span, f.take, f.at = true, works, span, take, span.Lo
	if f.delay > 0 {
		f.waits = true
		w.after(f.delay, event{kind: evRead, node: int32(i), peer: int32(k)})
	} else {
		w.readOn(i, k)
	}
	return true
}

// feel looks at how fast a node reads from the store, as long as there is anything to read.
func (w *world) feel(i int) {
	n := &w.nodes[i]
	if n.killed || n.done >= 0 || n.ex.Covered() {
		return
	}
	total, busy := n.fromStore, 0
	for k := range n.fetches {
		if f := &n.fetches[k]; f.busy {
			busy++
			total += w.sim.SoFar(f.flow)
		}
	}
	n.appetite.Read(unit.Bytes(total), busy, w.now)
	w.fetch(i)
	w.after(feelEvery, event{kind: evFeel, node: int32(i)})
}

// readOn lets a connection move to the end of the piece that is coming.
func (w *world) readOn(i, k int) {
	f := &w.nodes[i].fetches[k]
	f.waits, f.came = false, 0
	_, size := w.Layout.Span(f.at)
	w.sim.Start(f.flow, float64(size))
}

// read notes that a piece has come from the store.
func (w *world) read(i, k int) {
	n := &w.nodes[i]
	f := &n.fetches[k]
	moved := w.sim.Moved(f.flow)
	n.fromStore += moved
	w.crosses(-1, i, moved)
	p := f.at
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
