package scenario

import (
	"fmt"
	"slices"
	"time"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/sim"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/topo"
	"github.com/freshet/freshet/unit"
)

// This file reads from the store, as internal/swarm does (fetch.go). What is read next is
// said in algorithm.go, as there in order.go.

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
	moved float64 // when it began, or a piece last came
	waits bool    // for the first byte
	rests bool    // others are to read first
}

// storeWay is the channels from the store to a node, until the next route, and their delay.
func (w *world) storeWay(i int) (path []topo.Channel, delay time.Duration, err error) {
	host := w.nodes[i].host
	if w.Store.At == "" {
		if out := w.router.Out(host); len(out) > 0 {
			path = []topo.Channel{out[0] ^ 1}
		}
		return path, 0, nil
	}
	from, _ := w.router.Place(w.Store.At)
	path, delay, ok := w.route(from, host)
	if !ok {
		return nil, 0, fmt.Errorf("there is no way from the store at %s to %s", w.Store.At, w.Network.Hosts[host].Name)
	}
	return path, delay, nil
}

// storeConnections makes a node's connections to the store.
func (w *world) storeConnections(i int) error {
	n := &w.nodes[i]
	path, d, err := w.storeWay(i)
	if err != nil {
		return err
	}
	way := []sim.Link{w.total}
	if r := w.Store.PerClient[n.host]; r > 0 {
		way = append(way, w.sim.AddLink(float64(r)))
	}
	for _, c := range path {
		way = append(way, w.links[c])
	}
	delay := w.Store.Delay.Seconds() + d.Seconds()
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
		case n.turns.May(n.works.PlaceOf(f.works[0]), n.ex.Had()):
			w.clock(n)
			f.rests = false
			w.ask(i, k)
		default:
			n.waits = true
		}
	}
	for n.busy() < min(w.streams(i)+n.resting(), len(n.fetches)) { // what a node inherits may be due before what rests
		works, span := w.take(i)
		if len(works) == 0 {
			if !w.again(i) {
				break
			}
		} else if !w.begins(i, works, span) {
			n.end(works)
		}
	}
	w.beg(i)
}

// busy is over how many connections a node is reading, those included that rest.
func (n *node) busy() (busy int) {
	for k := range n.fetches {
		if n.fetches[k].busy {
			busy++
		}
	}
	return busy
}

// resting is how many of these rest.
func (n *node) resting() (rest int) {
	for k := range n.fetches {
		if n.fetches[k].rests {
			rest++
		}
	}
	return rest
}

func (n *node) end(works []int) {
	for _, work := range works {
		n.works.End(work)
	}
}

// begins asks the store, over a connection that is free, for the pieces of span that are neither had nor on their way. It returns
// false if there are none.
func (w *world) begins(i int, works []int, span piece.Range) bool {
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
	if any {
		w.order(i, works, span, take)
	}
	return any
}

// order asks the store, over a connection that is free, for what is to be taken of span.
func (w *world) order(i int, works []int, span piece.Range, take []bool) {
	n := &w.nodes[i]
	w.clock(n)
	k := slices.IndexFunc(n.fetches, func(f fetch) bool { return !f.busy })
	f := &n.fetches[k]
	f.busy, f.works, f.span, f.take, f.at, f.came, f.moved = true, works, span, take, span.Lo, 0, w.sim.Now()
	w.ask(i, k)
}

// spare says whether there is nothing that a node was to read, and it may read what others have.
func (w *world) spare(i int) bool {
	n := &w.nodes[i]
	return w.policy.Adapts && !n.late && n.imports == nil && !n.turns.Shares() && !n.works.Busy()
}

// again begins to read a piece that others have, where peers give less than the store would (steal.Twice): rather one that nobody was asked for, else one
// that a peer still owes. It returns false if there is none.
func (w *world) again(i int) bool {
	n := &w.nodes[i]
	if !w.spare(i) || !n.works.Idle() || !n.twice.Pays(w.Layout.Piece) {
		return false
	}
	var held []int
	for r := range n.ex.Have().Missing() {
		for p := r.Lo; p < r.Hi; p++ {
			if n.ex.Held(p) && !slices.ContainsFunc(n.fetches, func(f fetch) bool { return f.busy && f.at <= p && p < f.span.Hi }) {
				held = append(held, p)
			}
		}
	}
	n.rng.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
	k := slices.IndexFunc(held, n.ex.Reserve)
	if k < 0 {
		k = slices.IndexFunc(held, func(p int) bool {
			n.drop(p)
			w.sendCancels(i, n.ex.Abandon(p))
			return n.ex.Reserve(p)
		})
	}
	if k < 0 {
		return false
	}
	_, size := w.Layout.Span(held[k])
	n.twice.Spend(size)
	w.order(i, nil, piece.Range{Lo: held[k], Hi: held[k] + 1}, []bool{true})
	return true
}

// clock brings up to now for how long a node has read from the store. It is to be called before it begins, or stops to.
func (w *world) clock(n *node) {
	now := w.sim.Now()
	if slices.ContainsFunc(n.fetches, func(f fetch) bool { return f.busy && !f.rests }) {
		n.read += now - n.clocked
	}
	n.clocked = now
}

// pieceTime is how long a piece from the store takes a node; zero if it has read none.
func (w *world) pieceTime(n *node) time.Duration {
	w.clock(n)
	bytes, _ := n.reading(w)
	if bytes == 0 {
		return 0
	}
	return time.Duration(n.read * float64(w.Layout.Piece) / float64(bytes) * 1e9)
}

// pace is when a node begins the next work, and how long one takes it; of other algorithms than stream nothing that others go by.
func (w *world) pace(i int) steal.Pace {
	if !w.policy.Adapts {
		return steal.Pace{}
	}
	n := &w.nodes[i]
	var inHand []steal.Reading
	for k := range n.fetches {
		f := &n.fetches[k]
		if !f.busy {
			continue
		}
		r := steal.Reading{Since: time.Duration((w.sim.Now() - f.moved) * 1e9)}
		for q := f.at; q < f.span.Hi; q++ {
			if f.take[q-f.span.Lo] && !n.ex.Held(q) {
				r.Left++
			}
		}
		inHand = append(inHand, r)
	}
	return steal.NewPace(w.pieceTime(n), w.policy.PerWork, w.streams(i), inHand)
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

// turn looks whether it is a node's turn to read. What it has begun when it is not rests, and goes on where it
// was.
func (w *world) turn(i int) {
	n := &w.nodes[i]
	if n.done >= 0 || n.ex.Covered() {
		return
	}
	read, busy := n.reading(w)
	n.turns.Note(read, busy > 0, n.ex.Had(), w.now)
	for k := range n.fetches {
		f := &n.fetches[k]
		if !f.busy || f.rests || len(f.works) == 0 || n.turns.May(n.works.PlaceOf(f.works[0]), n.ex.Had()) {
			continue
		}
		w.interrupt(i, k)
		w.clock(n)
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

// given is what has come to a node from peers so far, of blocks that are on their way, too.
func (w *world) given(i int) unit.Bytes {
	n := &w.nodes[i]
	sum := n.fromPeers
	for k := range n.peers {
		if in := n.peers[k].in; in >= 0 {
			sum += w.conns[in].carry + w.sim.SoFar(w.conns[in].flow)
		}
	}
	return unit.Bytes(sum)
}

// feel looks at how fast a node reads from the store, as long as there is anything to read, be it what others have; when nothing has come anywhere for
// long it leaves that until something does.
func (w *world) feel(i int) {
	n := &w.nodes[i]
	n.numb = false
	covered, spare := n.ex.Covered(), w.spare(i)
	switch {
	case n.killed || n.done >= 0 || covered && !spare:
		return
	case covered && w.sim.Now()-w.moved >= quiet:
		n.numb, w.dozes = true, true
		return
	}
	read, busy := n.reading(w)
	n.appetite.Read(read, busy, w.now)
	n.twice.Note(read, w.given(i), busy > 0, spare && n.ex.Offered() > 0, w.now)
	w.fetch(i)
	w.after(feelEvery, event{kind: evFeel, node: int32(i)})
}

// readOn lets a connection move to the end of the piece that is coming.
func (w *world) readOn(i, k int) {
	f := &w.nodes[i].fetches[k]
	_, size := w.Layout.Span(f.at)
	w.sim.Start(f.flow, float64(size)-f.came)
}

// interrupt takes in what has come over a connection, which stands still from now on.
func (w *world) interrupt(i, k int) {
	n := &w.nodes[i]
	f := &n.fetches[k]
	m := w.sim.Moved(f.flow)
	n.fromStore += m
	w.crosses(-1, i, m)
	f.came += m
	w.sim.Stop(f.flow)
}

// read notes that a piece has come from the store.
func (w *world) read(i, k int) {
	n := &w.nodes[i]
	f := &n.fetches[k]
	moved := w.sim.Moved(f.flow)
	n.fromStore += moved
	w.crosses(-1, i, moved)
	p := f.at
	f.came, f.moved = 0, w.sim.Now()
	if f.at++; f.at < f.span.Hi {
		w.readOn(i, k)
	} else {
		w.sim.Stop(f.flow)
	}
	if f.take[p-f.span.Lo] {
		w.got(i, p)
	}
	if f = &n.fetches[k]; f.at == f.span.Hi {
		w.clock(n)
		f.busy = false
		n.end(f.works)
		w.fetch(i)
	}
}
