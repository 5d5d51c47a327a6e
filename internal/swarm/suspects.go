package swarm

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/freshet/freshet/piece"
)

// This file is about pieces that came otherwise than their digests say: who has them wrong, the giver, or who said what they are. Who may read the store looks; who may not
// asks another, and gives up who gave what nobody else says.

// suspect is who has sent a piece that does not have the digest that it should, and which one it has.
type suspect struct {
	rank  int
	sum   uint64
	since time.Time
	asked bool // NoAccess: others, for the same piece
	alone bool // likewise: nobody else had it
	mixed bool // it has sent only some blocks of it, and sum is what the piece has without them: if that is right they are wrong
}

// medley is what several gave for a piece that came wrong. The blocks that differ when it comes right are the wrong ones.
type medley struct {
	sums []uint64 // by block
	from []int    // by block: who gave it
}

// heardWithin is how long one that may not read the store waits for another word of a piece that came otherwise than it was told: who has
// the piece has heard that already, and so should we.
const heardWithin = 2 * time.Second

// suspect takes a piece out of the exchange, and has it read from the store, if we may; else it is asked of others, if any have it.
func (n *node) suspect(p int, s suspect) {
	if n.Members[n.Self].NoAccess {
		n.keepGift(p, s)
		again := n.suspects[p].asked && n.suspects[p].rank == s.rank
		if n.ex.Withdrawn(s.rank, p); n.ex.Held(p) && !again {
			n.sendCancels(n.ex.Spoiled(p)) // blocks of several would tell of nobody
			s.asked = true
			n.suspects[p] = s
			return
		}
		s.alone = !n.ex.Held(p)
		n.reinstate(s.rank, p)
	}
	n.sendCancels(n.ex.Abandon(p))
	if !n.ex.Reserve(p) { // it is being read
		return
	}
	n.suspects[p] = s
	if !n.Members[n.Self].NoAccess {
		n.wrong = append(n.wrong, p)
	}
}

// mix keeps what came of a piece that several have given, until it comes right.
func (n *node) mix(p int, o outcome) {
	if n.mixed == nil {
		n.mixed = map[int]medley{}
	}
	n.mixed[p] = medley{o.sums, o.from}
}

// reveals finds who gave a block of a piece otherwise, among several, than it has come now that it has its digest. Whether that is right the store knows, if the digests do not
// prove it: then it says that the piece is to be read from there first, for one of them, unless that could convict nobody. Who may not read the store blames nobody for what is
// not proved.
func (n *node) reveals(p int, o outcome) (look bool) {
	m := n.mixed[p]
	delete(n.mixed, p)
	var wrong []int
	for b, sum := range m.sums {
		if sum != o.sums[b] && !slices.Contains(wrong, m.from[b]) {
			wrong = append(wrong, m.from[b])
		}
	}
	e, _ := n.man.Entry(p)
	proved, _ := n.proof(p)
	for _, rank := range wrong {
		told := slices.ContainsFunc(n.words[p], func(w word) bool { return !w.gave && w.from != rank && w.Sum != e.Sum })
		switch {
		case n.neighbours[rank].dead:
		case told: // perhaps what it gave, and it does not know yet that this is wrong
			n.ex.Withdrawn(rank, p)
		case n.alone(rank, p): // it has sent other bytes than it says itself
			n.expel(rank, fmt.Errorf("%w for piece %d", errWrongBytes, p))
		case n.neighbours[rank].deceivers[e.Reader]:
			n.repeats(rank, p)
		case proved:
			n.ex.Withdrawn(rank, p)
			n.blame(rank, p)
		case look || n.Members[n.Self].NoAccess:
		case n.excused(p):
			n.ex.Withdrawn(rank, p)
		default:
			n.suspect(p, suspect{rank: rank, sum: e.Sum, since: n.now, mixed: true})
			look = true
		}
	}
	return look
}

// alone says whether what counts of a piece is what a member has said itself, and nobody else has said anything of it: then nobody can have told it otherwise
// what it is. One that has read again what another had read may have had that wrong until then.
func (n *node) alone(rank, p int) bool {
	e, _ := n.man.Entry(p)
	return e.Reader == rank && n.man.Sure(p) && len(n.words[p]) == 0 && len(n.alike[p]) == 0
}

// confirm ends a suspicion where another says what came, if we may not read the store: the piece is asked for again.
func (n *node) confirm(from int, d digest) {
	if n.Members[n.Self].NoAccess && n.suspects[d.Piece].rank != from {
		n.clear(d.Piece, d.Sum)
	}
}

// clear ends the suspicion of who has sent a piece of this digest.
func (n *node) clear(p int, sum uint64) {
	if s, ok := n.suspects[p]; ok && s.sum == sum {
		n.dismiss(p)
	}
}

// dismiss ends a suspicion, whoever is wrong: what was withdrawn for it counts again.
func (n *node) dismiss(p int) {
	if s, ok := n.suspects[p]; ok {
		delete(n.suspects, p)
		n.ex.Unreserve(p)
		n.reinstate(s.rank, p)
	}
}

// reinstate has a member's copy of a piece count again, if the member lives.
func (n *node) reinstate(rank, p int) {
	if !n.neighbours[rank].dead {
		n.ex.Announced(rank, piece.Range{Lo: p, Hi: p + 1})
	}
}

// convict expels those whose bytes nobody has told us of for long enough, if we may not read the store, and nobody else gives, if others have the piece. What one has
// said of another is no reason to: then the piece is asked for again.
func (n *node) convict() {
	for p, s := range n.suspects {
		here := n.ex.Have().Has(p)
		if !n.Members[n.Self].NoAccess || n.now.Sub(s.since) <= heardWithin || s.asked && !here && n.ex.Held(p) {
			continue
		}
		if n.ex.Withdrawn(s.rank, p); s.alone && !here && n.ex.Held(p) { // others have got it meanwhile
			s.asked, s.alone = true, false
			n.suspects[p] = s
			n.ex.Unreserve(p)
			continue
		}
		n.dismiss(p)
		if here || n.man.Firsthand(p) || slices.ContainsFunc(n.words[p], func(w word) bool { return !w.gave }) {
			n.expel(s.rank, fmt.Errorf("%w for piece %d", errWrongBytes, p))
		}
	}
}

// judge says who is wrong about a piece that came otherwise than its digest says, now that we have read it. If what came is what the store has it was the digest. Else its giver has
// it wrong, and is given up unless it may have been told so.
func (n *node) judge(p int, sum uint64) {
	s, ok := n.suspects[p]
	delete(n.suspects, p)
	if !ok || (s.sum == sum) != s.mixed {
		return
	}
	nb := &n.neighbours[s.rank]
	n.ex.Withdrawn(s.rank, p)
	if s.mixed || !n.said(p, s) {
		n.blame(s.rank, p)
	}
	n.wrong = slices.DeleteFunc(n.wrong, func(q int) bool { // what else it sent so others may give
		more, ok := n.suspects[q]
		e, _ := n.man.Entry(q)
		if !ok || more.rank != s.rank || !nb.dead && !nb.deceivers[e.Reader] {
			return false
		}
		delete(n.suspects, q)
		n.ex.Unreserve(q)
		return true
	})
}

// blame gives up who has a piece wrong, unless it may have been told so: then it is asked no more for what it may have been told likewise.
func (n *node) blame(rank, p int) {
	if !n.deceived(rank, p) {
		n.expel(rank, fmt.Errorf("%w for piece %d", errWrongBytes, p))
		return
	}
	n.fault(n.Members[rank].Name, fmt.Sprintf("sent wrong bytes for piece %d, as another may have told it", p))
	for q := range n.Layout.Count() {
		if e, known := n.man.Entry(q); known && n.neighbours[rank].deceivers[e.Reader] {
			n.ex.Withdrawn(rank, q)
		}
	}
}

// repeats notes that a peer has given one more piece wrong of a reader that may have told it so: there is nothing to look up. It is given up if it has given that very
// piece wrong before: it has said again that it has it.
func (n *node) repeats(rank, p int) {
	nb := &n.neighbours[rank]
	n.ex.Withdrawn(rank, p)
	n.sendCancels(n.ex.Abandon(p))
	delete(n.mixed, p) // what it gave of it among others was that same copy
	if nb.wrong[p] {
		n.expel(rank, fmt.Errorf("%w for piece %d again", errWrongBytes, p))
		return
	}
	if nb.wrong == nil {
		nb.wrong = map[int]bool{}
	}
	nb.wrong[p] = true
}

// said says whether another than the giver of a piece has said that it is what came: then the giver believed that.
func (n *node) said(p int, s suspect) bool {
	e, _ := n.man.Entry(p)
	return e.Sum == s.sum && n.man.Said(p) != s.rank || n.others(p, s.sum, []int{s.rank})
}

// deceived says whether a peer that has given other bytes of a piece than the store has may have been told so: by one that has told us something else, or, of what one has read
// that it may not hear, by anybody. One member may deceive many; that two have deceived the same peer is not supposed. Where nobody is left that can have told it all that
// it has given wrong, it lies itself. It takes nobody into account that has said nothing of the piece to us.
func (n *node) deceived(rank, p int) bool {
	e, _ := n.man.Entry(p)
	if n.excused(p) {
		return true
	}
	by := map[int]bool{e.Reader: true}
	for _, reader := range n.alike[p] {
		by[reader] = true
	}
	for _, w := range n.words[p] {
		by[w.from] = by[w.from] || !w.gave
	}
	nb := &n.neighbours[rank]
	maps.DeleteFunc(by, func(other int, spoke bool) bool {
		return !spoke || other == rank || other == n.Self || nb.deceivers != nil && !nb.deceivers[other]
	})
	nb.deceivers = by
	return len(by) > 0
}

// excused says whether whoever gives other bytes of a piece may have been told so by anybody: we have not heard what it is from the one that has read it, or that may be heard no more.
func (n *node) excused(p int) bool {
	e, _ := n.man.Entry(p)
	return !n.man.Firsthand(p) || n.neighbours[e.Reader].dead
}

// acquit ends the suspicions that an order was to look into, and could not: nobody is given up, but those pieces come
// from others. It says whether that was what the order was for.
func (n *node) acquit(f *fetch) (any bool) {
	for p := range f.take {
		if s, ok := n.suspects[p]; ok {
			delete(n.suspects, p)
			n.ex.Withdrawn(s.rank, p)
			any = true
		}
	}
	return any
}
