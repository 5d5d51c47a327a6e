package swarm

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// This file decides what is read from the store next. Orders are carried out in fetch.go.

// order is what the loop wants read from the store.
type order struct {
	works []int        // of the steal ledger, or none
	span  piece.Range  // one request to the store
	take  map[int]bool // the pieces of it that are to be digested and, but for audits, written
	audit auditing
	store bool  // what is kept of them is not what the store has
	twice bool  // others have them
	lost  bool  // nobody had them, and they were not ours to read
	gate  *gate // shut while it rests
}

// auditing says whether an order reads pieces again that are in doubt: first
// only to compare, since most of them will be right; then, where one was wrong, to replace it.
type auditing int

const (
	notAuditing auditing = iota
	comparing
	replacing
	rechecking // a piece of a file from before the job, on our own disk, whose digest has changed in the manifest
)

// order makes the next order: audits first, then the next works of the list. What came wrong is read while other orders are under way:
// until then who sent it is asked for more.
func (n *node) order() (o order, ok bool) {
	if len(n.fetches) == 0 || len(n.wrong) > 0 {
		if o, ok := n.audit(); ok {
			return o, true
		}
	}
	if n.Members[n.Self].blind() {
		return o, false
	}
	again := n.stranded
	n.stranded = nil
	for i, p := range again {
		if n.ex.Held(p) {
			continue
		}
		if o, any := n.reserve(piece.Range{Lo: p, Hi: p + 1}); any {
			n.stranded = append(n.stranded, again[i+1:]...)
			return o, true
		}
	}
	if !n.turns.MayNext(n.works, n.ex.Held, n.ex.Had()) {
		n.waits = true
		return o, false
	}
	most := n.policy.Request(n.appetite, n.turns, unit.Bytes(n.ex.Uncovered())*n.Layout.Piece, len(n.Members))
	for {
		works, span := n.works.Next(most, n.ex.Held)
		if len(works) == 0 {
			break
		}
		if o, any := n.reserve(span); any {
			o.works = works
			n.rescuing = false
			return o, true
		}
		for _, w := range works {
			n.works.End(w)
		}
	}
	return n.again()
}

// reserve takes the pieces of span that are neither had nor on their way out
// of the exchange, and makes an order of them. A piece that was on its way from
// a node that died, and that nobody else has, comes no more and is taken too.
func (n *node) reserve(span piece.Range) (o order, any bool) {
	o = order{span: span, take: map[int]bool{}}
	for p := span.Lo; p < span.Hi; p++ {
		if !n.ex.Held(p) {
			if !n.asm.drop(p) { // its last block is being written right now
				n.stranded = append(n.stranded, p)
				continue
			}
			n.sendCancels(n.ex.Abandon(p))
		}
		if !n.ex.Reserve(p) {
			continue
		}
		if !n.asm.drop(p) { // it was asked for, and that was taken back: a block of it is being written right now
			n.ex.Unreserve(p)
			continue
		}
		o.take[p] = true
	}
	return o, len(o.take) > 0
}

// again makes an order of a piece that others have, where peers give less than the store would: rather one
// that nobody was asked for, else one that a peer still owes. What others are reading just now is theirs.
func (n *node) again() (o order, ok bool) {
	if !n.spare() || !n.works.Idle() || !n.twice.Pays(n.Layout.Piece) {
		return o, false
	}
	var held []int
	for r := range n.ex.Have().Missing() {
		for p := r.Lo; p < r.Hi; p++ {
			if n.ex.Held(p) && !n.underWay(p) {
				held = append(held, p)
			}
		}
	}
	rand.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
	take := func(p int) bool {
		if ok = n.ex.Reserve(p); ok {
			n.twice.Spend(n.pieceSize(p))
			o = order{span: piece.Range{Lo: p, Hi: p + 1}, take: map[int]bool{p: true}, twice: true}
		}
		return ok
	}
	if slices.ContainsFunc(held, take) {
		return o, true
	}
	for _, p := range held {
		if n.asm.drop(p) {
			n.sendCancels(n.ex.Abandon(p))
			if take(p) {
				return o, true
			}
		}
	}
	return o, false
}

// spare says whether there is nothing that we were to read, as far as we know. A node of a site leaves it at that: what it
// read though others have it might enter the site twice; and so does one of a job that reads in turn: what it read others would lack.
func (n *node) spare() bool {
	return n.imports == nil && !n.turns.Shares() && n.policy.Adapts && n.Object.Ranges && !n.Members[n.Self].Held && !n.works.Busy()
}

// underWay says whether a piece is being read from the store.
func (n *node) underWay(p int) bool {
	return slices.ContainsFunc(n.fetches, func(f *fetch) bool { return f.take[p] })
}

// audit makes an order of pieces in doubt that are ours to read again.
func (n *node) audit() (o order, ok bool) {
	if len(n.wrong) > 0 {
		p := n.wrong[0]
		n.wrong = n.wrong[1:]
		return order{span: piece.Range{Lo: p, Hi: p + 1}, take: map[int]bool{p: true}, audit: replacing}, true
	}
	if len(n.doubts) > 0 {
		p := n.doubts[0]
		return order{span: piece.Range{Lo: p, Hi: p + 1}, take: map[int]bool{p: true}, audit: rechecking}, true
	}
	if n.man.Known() < n.Layout.Count() {
		return o, false
	}
	if n.full.IsZero() && n.ex.Have().Full() {
		n.full = n.now
	}
	n.spareProved()
	if n.Members[n.Self].NoAccess {
		n.resign()
		return o, false
	}
	o = order{take: map[int]bool{}, audit: comparing}
	living := n.readers()
	due := n.man.Audits(n.Self, len(n.Members), func(rank, p int) bool { return living[rank] && !n.hasRead(rank, p) })
	switch full := n.ex.Have().Full(); { // whoever should have does not
	case !full && n.now.Sub(n.moved) > auditAfter:
		due = n.man.Due()
	case full && len(due) == 0 && n.now.Sub(n.full) > auditAfter: // whatever is announced meanwhile
		due = n.stretch()
	}
	if len(n.looks) > 0 {
		for p := range n.looks {
			if proved, _ := n.proof(p); !proved {
				due = append(due, p)
				continue
			}
			if e, _ := n.man.Entry(p); n.sums[p] != e.Sum { // as our file was read again before
				if n.Members[n.Self].Held {
					n.fail(heldWrong(p))
					return o, false
				}
				n.mend(p)
			}
			delete(n.looks, p)
			n.man.Spare(p)
		}
		slices.Sort(due)
		due = slices.Compact(due)
	}
	for _, p := range due {
		if n.believed.Has(p) { // what the store has is to be compared with our file
			n.doubt(p)
		}
	}
	if len(n.doubts) > 0 {
		return n.audit()
	}
	for _, p := range due {
		if !n.ex.Have().Has(p) && !n.Members[n.Self].Held { // there is nothing to compare with
			if len(o.take) > 0 {
				break
			}
			if !n.asm.drop(p) {
				continue
			}
			n.sendCancels(n.ex.Abandon(p))
			if r, any := n.reserve(piece.Range{Lo: p, Hi: p + 1}); any {
				r.audit = replacing
				return r, true
			}
			continue
		}
		if o.take[o.span.Hi-1] && o.span.Hi != p { // a run at a time
			break
		}
		if len(o.take) == 0 {
			o.span.Lo = p
		}
		o.span.Hi = p + 1
		o.take[p] = true
	}
	return o, len(o.take) > 0
}

// stretch is a run of the pieces due for audit, from some one of them on, for one request to the store. Others may do the same, so it is a small part of what is left for
// each of those that are not done, and the last pieces are read one by one: then little is read by two of them.
func (n *node) stretch() (run []int) {
	due, nodes := n.man.Due(), 0
	if len(due) == 0 {
		return nil
	}
	for rank, reads := range n.readers() {
		if reads && !n.neighbours[rank].done {
			nodes++
		}
	}
	for _, p := range due[rand.IntN(len(due)):] {
		if k := len(run); k > 0 && (p != run[k-1]+1 || k >= len(due)/(4*nodes)) {
			break
		}
		run = append(run, p)
	}
	return run
}

// spareProved has nobody read again what the store's checksum proves, we least of all: who should may not know it, and what is not here yet comes from
// peers. O(pieces) while any is in doubt.
func (n *node) spareProved() {
	if n.man.Known() < n.Layout.Count() || n.man.Settled() {
		return
	}
	for _, p := range n.man.Due() {
		if proved, _ := n.proof(p); proved {
			n.man.Spare(p)
		}
	}
}

// inDoubt says whether any of these pieces is.
func (n *node) inDoubt(pieces map[int]bool) bool {
	for p := range pieces {
		if n.man.IsDue(p) || n.looks[p] {
			return true
		}
	}
	return false
}

// resign has us wait no more for others to read again what is in doubt, where all is here and we may not read it ourselves: if nobody does. What else is put in doubt from
// then on is none of our business, or anybody could keep us for ever.
func (n *node) resign() {
	waits := !n.resigned && n.now.Sub(n.moved) <= auditAfter && n.now.Sub(n.full) <= leaveAfter/2
	if n.man.Settled() || !n.ex.Have().Full() || waits {
		return
	}
	n.resigned = true
	for _, p := range n.man.Due() {
		n.man.Spare(p)
	}
}

// standsStill says whether the swarm does: nothing has come from anywhere for long. While some pieces are in nobody's hands, and nothing but such as
// were read in the place of others has come since it was found to, it does so again at once. One that has held the object from before reads its own file, which takes nothing
// from anybody, so it is the first to find out.
func (n *node) standsStill() bool { return n.since(n.moved, n.quietAll) > n.patience() }

// patience is for how long nothing has come where the swarm stands still.
func (n *node) patience() time.Duration {
	held := n.Members[n.Self].Held
	patience := stallAfter
	switch {
	case n.rescuing && !n.ex.Covered() && held:
		patience = 0
	case n.rescuing && !n.ex.Covered():
		patience = rescueAfter
	case held:
		patience = stallAfter / 2
	}
	return patience + 2*n.turns.Takes()
}

// readsOwn says whether a peer has read any of these pieces as it was to.
func (n *node) readsOwn(rank int, r piece.Range) bool {
	for p := r.Lo; p < r.Hi; p++ {
		if e, known := n.man.Entry(p); known && e.Reader == rank && n.works.Whose(p) == rank {
			return true
		}
	}
	return false
}

// stirs notes that something has come from a peer. It ends a standstill, but if some pieces are in nobody's hands only if it is by one whose it is to read that.
func (n *node) stirs(own bool) {
	n.moved = n.now
	n.rescuing = n.rescuing && !own && !n.ex.Covered()
}

// rescue reads one missing piece from the store, whoever should have: the
// swarm stands still. Pieces that nobody has come first, and behind a barrier nothing else would help. Any node may do so at once, so each takes
// another, and where there are more nodes than such pieces not all begin together; of a source without ranges one after the other. Until
// something comes from peers one piece follows the other.
func (n *node) rescue(ctx context.Context) {
	if n.Members[n.Self].blind() {
		return
	}
	var lost, others []int
	for r := range n.ex.Have().Missing() {
		for p := r.Lo; p < r.Hi; p++ {
			if n.ex.Held(p) {
				others = append(others, p)
			} else {
				lost = append(lost, p)
			}
		}
	}
	stream := !n.Object.Ranges && !n.Members[n.Self].Held // to get at a piece it reads all that is before it: so it goes on to the end, and one is enough
	switch k := len(lost); {
	case k == 0 || n.Members[n.Self].Held:
	case stream && n.since(n.moved, n.quietAll) <= n.patience()+time.Duration(n.ahead(lost[0]))*stallAfter:
		return // of what another reads nothing can be seen until it has come to the first of them
	case !stream && rand.IntN(len(n.Members)) >= k:
		return // until the next tick
	}
	missing := lost
	shuffle := func(ps []int) { rand.Shuffle(len(ps), func(i, j int) { ps[i], ps[j] = ps[j], ps[i] }) }
	if !stream {
		shuffle(lost)
	}
	if n.ex.Open() {
		shuffle(others)
		missing = append(missing, others...)
	}
	for i, p := range missing {
		if !n.asm.drop(p) {
			continue
		}
		n.sendCancels(n.ex.Abandon(p))
		span := piece.Range{Lo: p, Hi: p + 1}
		if stream && i < len(lost) {
			span.Hi = n.Layout.Count()
		}
		if o, any := n.reserve(span); any {
			if !n.rescuing {
				n.Log.Warn("nothing arrives: reading from the store", "job", n.Job, "for", n.since(n.moved, n.quietAll).Round(time.Second))
			}
			o.lost = i < len(lost)
			n.rescuing = true
			n.start(ctx, o)
			return
		}
	}
}

// ahead is how many are to read a piece that nobody has before we do, where one is enough: the living nodes that may, by rank, and last the one that was to and has not. Who has held the
// object reads its own file.
func (n *node) ahead(p int) (k int) {
	late := n.works.Whose(p)
	for rank, reads := range n.readers() {
		if reads && !n.Members[rank].Held && rank != n.Self && rank != late && (rank < n.Self || n.Self == late) {
			k++
		}
	}
	return k
}

// overtake claims a work of a node that hardly gets on with it, if we have nothing else to do.
func (n *node) overtake() {
	waits := n.waits && n.turns.InTurn()
	if n.atStore() > 0 || !n.works.Idle() && !waits {
		n.idle = n.now
		return
	}
	if n.commits || n.done || n.fatal != nil || n.Members[n.Self].blind() || n.ex.Covered() || !n.twice.May(n.Layout.Piece) {
		return
	}
	waited := func(rank, place int) time.Duration {
		return min(n.since(n.neighbours[rank].gained, n.quietAll), n.turns.Due(place, n.now))
	}
	victim, tell := n.works.Overtake(n.ex.Held, n.expected(1), n.now.Sub(n.idle), waits, waited)
	for _, c := range tell {
		from := n.Members[victim].Name
		for _, h := range c.Hands {
			r := piece.Range{Lo: n.works.Work(h.Lo).Lo, Hi: n.works.Work(h.Hi - 1).Hi}
			n.Log.Info("reading in the place of a node that hardly gets on", "job", n.Job, "node", from, "for", waited(victim, n.works.PlaceOf(h.Lo)), "pieces", r)
			n.Recorder.Record(n.now, Event{Kind: "work", From: from, Lo: r.Lo, Hi: r.Hi})
		}
	}
	if len(tell) > 0 {
		n.twice.Spend(n.Layout.Piece) // what the other has begun
		if v := &n.neighbours[victim]; !v.overtaken {
			v.overtaken = true
			n.fault(n.Members[victim].Name, "hardly gets on with its part of the object, which others read in its place")
		}
	}
	n.tellClaims(tell)
}

// ask asks another node for works once our list is empty.
func (n *node) ask() {
	if n.commits || n.done || n.fatal != nil || n.ex.Covered() || n.Members[n.Self].blind() || !n.policy.MayAsk(len(n.fetches), len(n.fetches)-n.atStore()) {
		return
	}
	if victim, ok := n.works.Ask(n.ex.Held); ok {
		n.asked = n.now
		n.send(victim, kindGiveWork, appendGiveWork(nil, n.policy.Theft(n.appetite), n.pace()))
	}
}

// streams is how many orders may be under way at once.
func (n *node) streams() int {
	if !n.Object.Ranges {
		return 1
	}
	return n.policy.Streams(n.appetite, n.turns)
}

// pace is when we begin the next work, and how long one takes; of other algorithms than stream nothing that others go by.
func (n *node) pace() steal.Pace {
	if !n.policy.Adapts {
		return steal.Pace{}
	}
	var inHand []steal.Reading
	for _, f := range n.fetches {
		r := steal.Reading{Since: n.now.Sub(f.moved)}
		for piece := range f.take {
			if !n.ex.Held(piece) {
				r.Left++
			}
		}
		inHand = append(inHand, r)
	}
	return steal.NewPace(n.pieceTime(), n.policy.PerWork, n.streams(), inHand)
}
