package swarm

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// This file keeps what is known of pieces: their digests, who gave them, and which of ours count.

// learn enters a line of a peer's into the manifest. What a member has read it
// says itself; others are believed only of members that we do not hear; what they say of another is kept, if we have asked for it (inquire).
// When our file has been proved nothing that is said changes it any more.
func (n *node) learn(from int, d digest) error {
	if d.Term > exchange.MaxTerm {
		return fmt.Errorf("piece %d was never audited %d times", d.Piece, d.Term)
	}
	if n.commits || n.done {
		return nil
	}
	e, known := n.man.Entry(d.Piece)
	if from != d.Reader && (d.Reader == n.Self || n.neighbours[d.Reader].link != nil) {
		if known && d.Sum != e.Sum && d.Reader != n.Self && !n.inquired.IsZero() {
			n.keep(from, d)
		}
		return nil
	}
	switch {
	case known && d.Term > e.Term && d.Sum != e.Sum && !n.audited(from, d):
		n.keep(from, d)
		return nil
	case known && d.Term > e.Term && d.Reader == e.Reader && n.man.IsDue(d.Piece) && !n.provable(d.Piece): // it says once more what another reader has contradicted
		return nil
	case !known && d.Term > 0 && from == d.Reader && !n.Members[n.Self].NoAccess:
		n.looks[d.Piece] = true
	}
	n.enter(from, d)
	return nil
}

// word is what a member says of a piece, or gives for it, to one that may not read the store.
type word struct {
	from int
	gave bool
	exchange.Entry
}

// keep keeps what a member says of a piece besides what counts: one word of each, and of one reading and another the later.
func (n *node) keep(from int, d digest) {
	said := n.words[d.Piece]
	i := slices.IndexFunc(said, func(w word) bool { return w.from == from })
	switch {
	case i < 0:
		n.words[d.Piece] = append(said, word{from: from, Entry: d.Entry})
	case said[i].gave || d.Term > said[i].Term:
		said[i] = word{from: from, Entry: d.Entry}
	default:
		return
	}
	n.weighed, n.unproved = false, false
	n.confirm(from, d)
}

// keepGift keeps what a member has given for a piece, if it has said nothing: its bytes are its word.
func (n *node) keepGift(p int, s suspect) {
	if !slices.ContainsFunc(n.words[p], func(w word) bool { return w.from == s.rank }) {
		e, _ := n.man.Entry(p)
		n.words[p] = append(n.words[p], word{s.rank, true, exchange.Entry{Sum: s.sum, Reader: e.Reader, Term: e.Term}})
		n.weighed = false
	}
}

// audited says whether an audit that came out otherwise than what we know counts at once: nobody is blamed, and loses what he has, on the word
// of one. Where the store has a checksum that decides (weigh), when all is known that it is of; where it has none the word of the one that we would ask to read the
// piece again does, if two readers have differed. Else we look ourselves, if we may.
func (n *node) audited(from int, d digest) bool {
	hearsay := from != d.Reader
	proved, wrong := n.proof(d.Piece)
	if wrong && !hearsay && len(n.looks) == 0 && !n.resigned && !n.man.IsDue(d.Piece) { // as we would find out when all is here; with looks it may be what these are for
		n.man.Audit(n.Layout.Pieces(n.objectOf(d.Piece)))
	}
	asked, provable := n.man.IsDue(d.Piece) && !n.looks[d.Piece], n.provable(d.Piece)
	switch {
	case proved:
	case asked && !hearsay && (provable || !n.hasRead(n.Self, d.Piece)): // rather than another we believe the store
		return !provable && n.audits(d.Piece, from)
	case n.Members[n.Self].NoAccess:
	default:
		if hearsay && n.man.Firsthand(d.Piece) {
			n.man.Audit(piece.Range{Lo: d.Piece, Hi: d.Piece + 1})
		}
		n.looks[d.Piece] = true
	}
	return false
}

// audits says whether a member is to read a piece again that is due for audit, because readers have said different things of it: after which of them
// it comes depends on whom it has heard first.
func (n *node) audits(p, rank int) bool {
	living := n.readers()
	may := func(rank int) bool { return living[rank] && !n.hasRead(rank, p) }
	after := func(reader int) bool { return exchange.Auditor(reader, len(living), may) == rank }
	e, _ := n.man.Entry(p)
	return may(rank) && (after(e.Reader) || slices.ContainsFunc(n.words[p], func(w word) bool {
		return w.from == w.Reader && !w.gave && w.Term == 0 && after(w.Reader)
	}))
}

// hasRead says whether a member has said itself what a piece is. Where readers differ none of them decides who is right.
func (n *node) hasRead(rank, p int) bool {
	e, _ := n.man.Entry(p)
	return e.Reader == rank || slices.ContainsFunc(n.words[p], func(w word) bool { return w.from == rank && w.Reader == rank && !w.gave })
}

// weighEvery is how long it is not looked at whose word counts after that has come to nothing: it takes a while, and one that lies could have it looked at for each piece.
const weighEvery = time.Second

// weigh finds out whose word counts where members say different things, and the digests are all known.
func (n *node) weigh() {
	if n.weighed || n.now.Before(n.weighs) || n.man.Known() < n.Layout.Count() || n.commits || n.done {
		return
	}
	n.weighed = true
	tried := map[int]bool{}
	for p := range n.words {
		i := n.objectOf(p)
		if tried[i] {
			continue
		}
		tried[i] = true
		if _, wrong := n.proof(p); wrong && !n.outvote(i) {
			n.weighs = n.now.Add(weighEvery)
		}
	}
}

const (
	nobody   = -1 // no member's rank
	mostLeft = 8  // members without whose word it is tried: each costs a product for each piece
)

// outvote finds out who is wrong about object i, whose digests do not make what the store says of it: without the word of one member, or of none, what all others
// have said last does. That counts from now on. It returns false if there is none. O(mostLeft × pieces).
func (n *node) outvote(i int) bool {
	r := n.Layout.Pieces(i)
	sums := make([]uint64, r.Len())
	for _, but := range n.contradict(r) {
		for p := r.Lo; p < r.Hi; p++ {
			sums[p-r.Lo] = n.last(p, but).Sum
		}
		if n.Objects[i].Checksum.Verify(n.Layout.Alone(i), sums) != nil {
			continue
		}
		for p := r.Lo; p < r.Hi; p++ {
			n.prevail(p, n.last(p, but))
		}
		return true
	}
	return false
}

// contradict are nobody and those members that contradict others about most of these pieces, or are contradicted, most first. One that lies alone has a part in all
// contradictions. O(pieces + words).
func (n *node) contradict(r piece.Range) []int {
	times := map[int]int{}
	for p := r.Lo; p < r.Hi; p++ {
		e, _ := n.man.Entry(p)
		for _, w := range n.words[p] {
			if w.Sum != e.Sum {
				times[n.man.Said(p)]++
				times[w.from]++
			}
		}
	}
	most := slices.SortedFunc(maps.Keys(times), func(a, b int) int {
		return cmp.Or(cmp.Compare(times[b], times[a]), cmp.Compare(a, b))
	})
	return append([]int{nobody}, most[:min(len(most), mostLeft)]...)
}

// last is what was said last of a piece, in terms of readings, by all but one member.
func (n *node) last(p, but int) word {
	e, _ := n.man.Entry(p)
	w := word{from: n.man.Said(p), Entry: e}
	for _, other := range n.words[p] {
		if other.from != but && (w.from == but || other.Term > w.Term) {
			w = other
		}
	}
	return w
}

// prevail has a member's word of a piece count instead of another's.
func (n *node) prevail(p int, w word) {
	e, _ := n.man.Entry(p)
	if w.Sum == e.Sum {
		return
	}
	said := n.man.Said(p)
	if w.Term > e.Term { // who has it right from before says so to all, as we do
		n.man.Blame(p)
		n.withdraw(p, w.from)
	} else {
		n.ex.Withdrawn(said, p)
		if n.man.Firsthand(p) {
			n.fault(n.Members[said].Name, fmt.Sprintf("says that piece %d has other bytes than the store has", p))
		}
	}
	n.swap(p, w)
	n.replaced(p)
	n.confirm(nobody, digest{p, w.Entry})
	if w.from == n.Self && !n.ex.Have().Has(p) { // we have read it, and it did not count
		n.stranded = append(n.stranded, p)
	}
}

// swap has one of the words that are kept of a piece count, and keeps the one that did.
func (n *node) swap(p int, w word) {
	e, _ := n.man.Entry(p)
	i := slices.Index(n.words[p], w)
	n.words[p][i] = word{from: n.man.Said(p), Entry: e}
	n.man.Prefer(w.from, p, w.Entry)
	n.weighed, n.unproved = false, false
	delete(n.proved, n.objectOf(p))
}

// prefer has the word count that says this digest of a piece, or the bytes that another gave, if we may not look ourselves, and the store does not say otherwise. It
// returns false if there is none.
func (n *node) prefer(p int, sum uint64, givers []int) bool {
	i := slices.IndexFunc(n.words[p], func(w word) bool { return w.Sum == sum && !(w.gave && slices.Contains(givers, w.from)) })
	proved, _ := n.proof(p)
	if i < 0 || proved || !n.Members[n.Self].NoAccess {
		return false
	}
	n.swap(p, n.words[p][i])
	return true
}

// others says whether a member that is none of these has said this digest of a piece.
func (n *node) others(p int, sum uint64, ranks []int) bool {
	return slices.ContainsFunc(n.words[p], func(w word) bool { return w.Sum == sum && !slices.Contains(ranks, w.from) })
}

// withdraw has nobody's copy of a piece count but one's.
func (n *node) withdraw(p, but int) {
	for rank := range n.neighbours {
		if rank != but {
			n.ex.Withdrawn(rank, p)
		}
	}
}

// provable says whether the store has something to hold the digest of a piece against, together with those of the same object.
func (n *node) provable(p int) bool { return !n.Layout.Shared(p) && n.usable(n.objectOf(p)) }

// proof says whether the digests of a piece's object make what the store says of it, or do not; neither is so while they are not all known,
// and where the store does not say.
func (n *node) proof(p int) (proved, wrong bool) {
	if n.man.Known() < n.Layout.Count() || !n.provable(p) {
		return false, false
	}
	i := n.objectOf(p)
	proved, known := n.proved[i]
	if !known {
		proved = n.man.Proof(i, n.Objects[i].Checksum) == nil
		n.proved[i] = proved
	}
	return proved, !proved
}

// objectOf is the object that a piece is of, or the first of several that share it.
func (n *node) objectOf(p int) int {
	off, _ := n.Layout.Span(p)
	i, _ := n.Layout.Within(off, 1)
	return i
}

// enter enters a line into the manifest and does what follows from it.
func (n *node) enter(from int, d digest) {
	old, known := n.man.Entry(d.Piece)
	said := n.man.Said(d.Piece)
	change := n.man.Add(from, d.Piece, d.Entry)
	if change != exchange.Nothing {
		n.weighed, n.unproved = false, false
		delete(n.proved, n.objectOf(d.Piece))
		n.confirm(from, d)
	}
	switch {
	case !known:
	case d.Sum == old.Sum:
		for _, reader := range []int{old.Reader, d.Reader} {
			if old.Reader != d.Reader && !slices.Contains(n.alike[d.Piece], reader) {
				n.alike[d.Piece] = append(n.alike[d.Piece], reader)
			}
		}
	case change == exchange.Nothing:
		n.keep(from, d)
	default:
		n.keep(said, digest{d.Piece, old})
	}
	switch change {
	case exchange.News:
		n.ex.Known(d.Piece)
		if n.kept(d.Piece) && from != n.Self { // another has read it, from the store or from its file; ours is there, too
			n.got(d.Piece, d.Sum, n.Members[n.Self].Name)
		}
	case exchange.Replaced:
		n.withdraw(d.Piece, d.Reader)
		n.replaced(d.Piece)
	case exchange.Corrected:
		n.replaced(d.Piece)
	}
}

// replaced notes that the manifest has another digest for a piece than it had.
// Our copy counts only if it has that digest; what is under way may be of the old one.
func (n *node) replaced(p int) {
	e, _ := n.man.Entry(p)
	if n.asm.under(p) {
		n.shaken[p] = true
	}
	switch {
	case !n.ex.Have().Has(p):
	case n.sums[p] == e.Sum:
		n.news = append(n.news, p) // others do not reckon with ours any more
	case n.Members[n.Self].Held:
		n.doubts = append(n.doubts, p)
	default:
		n.lose(p)
	}
	for _, b := range n.man.Blamed()[n.blamed:] {
		by := n.Members[e.Reader].Name
		if e.Reader == b.Reader { // alone, as every node is with flat
			by = "itself"
		}
		n.fault(n.Members[b.Reader].Name, fmt.Sprintf("had piece %d wrong when it read it from the store; it was read again by %s", b.Piece, by))
	}
	n.blamed = len(n.man.Blamed())
}

// ErrHeldWrong says that the file which this node has in its place is not the object.
var ErrHeldWrong = errors.New("the file on this node is not what the store has")

func heldWrong(p int) error {
	return fmt.Errorf("piece %d: %w: remove the file and broadcast again", p, ErrHeldWrong)
}

// block notes the arrival of a block, and of its piece with the last one.
func (n *node) block(ev evBlock) {
	rank := ev.link.rank
	n.fromPeers += unit.Bytes(ev.n)
	if n.foreign(rank) {
		n.crossed += unit.Bytes(ev.n)
	}
	n.Counters.Peer(n.Members[rank].Name).Received.Add(int64(ev.n))
	if !ev.wanted {
		n.Counters.Unasked.Add(int64(ev.n))
		n.ex.Discarded(rank, ev.piece, ev.block, n.now)
		return
	}
	n.moved, n.neighbours[rank].moved, n.rescuing = n.now, n.now, false
	n.sendCancels(n.ex.Block(rank, ev.piece, ev.block, n.now))
	if !ev.outcome.whole {
		return
	}
	n.asm.drop(ev.piece)
	givers := slices.Compact(slices.Sorted(slices.Values(ev.outcome.from)))
	e, _ := n.man.Entry(ev.piece)
	shaken := n.shaken[ev.piece]
	delete(n.shaken, ev.piece)
	if ev.outcome.sum != e.Sum && !shaken && n.prefer(ev.piece, ev.outcome.sum, givers) {
		e, _ = n.man.Entry(ev.piece)
		n.clear(ev.piece, ev.outcome.sum)
	}
	if ev.outcome.sum != e.Sum {
		n.Counters.Spoiled.Add(int64(n.pieceSize(ev.piece)))
	}
	proved, _ := n.proof(ev.piece)
	switch {
	case ev.outcome.sum == e.Sum:
		n.got(ev.piece, ev.outcome.sum, n.Members[most(ev.outcome.from)].Name)
		if len(givers) == 1 && givers[0] == n.man.Said(ev.piece) { // word against word
			n.dismiss(ev.piece)
		}
	case shaken: // of an old digest: no one's fault
		n.sendCancels(n.ex.Spoiled(ev.piece))
	case proved && n.others(ev.piece, ev.outcome.sum, givers): // they were told so, and do not know yet that it is wrong
		for _, rank := range givers {
			n.ex.Withdrawn(rank, ev.piece)
		}
		n.sendCancels(n.ex.Abandon(ev.piece))
	case len(givers) == 1 && n.man.Sure(ev.piece) && len(n.words[ev.piece]) == 0 && givers[0] == e.Reader: // it sends other bytes than it says itself
		n.sendCancels(n.ex.Spoiled(ev.piece))
		n.expel(givers[0], fmt.Errorf("sent wrong bytes for piece %d", ev.piece))
	case len(givers) == 1 && n.neighbours[givers[0]].deceivers[e.Reader]:
		n.repeats(givers[0], ev.piece)
	case len(givers) == 1: // it lies, or who said that this is the digest: the store knows, or others
		n.suspect(ev.piece, suspect{rank: givers[0], sum: ev.outcome.sum, since: n.now})
	default: // nobody knows who of several: next time it comes from one
		n.sendCancels(n.ex.Spoiled(ev.piece))
		n.fault(n.nameAll(givers), fmt.Sprintf("one of them sent wrong bytes for piece %d", ev.piece))
	}
}

// suspect is who has sent a piece that does not have the digest that it should, and which one it has.
type suspect struct {
	rank  int
	sum   uint64
	since time.Time
	asked bool // NoAccess: others, for the same piece
	alone bool // likewise: nobody else had it
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
			n.expel(s.rank, fmt.Errorf("sent wrong bytes for piece %d", p))
		}
	}
}

// judge says who is wrong about a piece that came otherwise than its digest says, now that we have read it. If what came is what the store has it was the digest. Else its giver has
// it wrong, and is given up unless it may have been told so.
func (n *node) judge(p int, sum uint64) {
	s, ok := n.suspects[p]
	delete(n.suspects, p)
	if !ok || s.sum == sum {
		return
	}
	nb := &n.neighbours[s.rank]
	n.ex.Withdrawn(s.rank, p)
	switch {
	case n.said(p, s):
	case n.deceived(s.rank, p):
		n.fault(n.Members[s.rank].Name, fmt.Sprintf("sent wrong bytes for piece %d, as another may have told it", p))
		for q := range n.Layout.Count() {
			if e, known := n.man.Entry(q); known && nb.deceivers[e.Reader] {
				n.ex.Withdrawn(s.rank, q)
			}
		}
	default:
		n.expel(s.rank, fmt.Errorf("sent wrong bytes for piece %d", p))
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

// repeats notes that a peer has given one more piece wrong of a reader that may have told it so: there is nothing to look up. It is given up if it has given that very
// piece wrong before: it has said again that it has it.
func (n *node) repeats(rank, p int) {
	nb := &n.neighbours[rank]
	n.ex.Withdrawn(rank, p)
	n.sendCancels(n.ex.Abandon(p))
	if nb.wrong[p] {
		n.expel(rank, fmt.Errorf("sent wrong bytes for piece %d again", p))
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

// deceived says whether a peer that has given other bytes of a piece than the store has may have been told so, by one that has told us something else, or by anybody, of one that it may not hear.
// One member may deceive many. That two have deceived the same peer is not supposed: of all that a peer has given wrong, that nobody is left who can have told it so tells that it lies itself.
func (n *node) deceived(rank, p int) bool {
	e, _ := n.man.Entry(p)
	if !n.man.Firsthand(p) || n.neighbours[e.Reader].dead {
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

// most is the rank that gave most of the blocks of a piece: a recording names one giver a piece.
func most(from []int) (rank int) {
	count := map[int]int{}
	for _, r := range from {
		if count[r]++; count[r] > count[rank] {
			rank = r
		}
	}
	return rank
}

func (n *node) nameAll(ranks []int) string {
	var names []string
	for _, r := range ranks {
		names = append(names, n.Members[r].Name)
	}
	return strings.Join(names, ", ")
}

// got notes that a piece is on our disk, and that its digest, sum, is the
// manifest's. It is announced to all, and with that digest to those who do not hear the reader.
func (n *node) got(p int, sum uint64, from string) {
	size := n.pieceSize(p)
	n.have += size
	n.countObjects(p, -1)
	n.Counters.Verified.Add(1)
	n.sums[p] = sum
	n.sendCancels(n.ex.Got(p))
	n.news = append(n.news, p)
	if e, _ := n.man.Entry(p); e.Reader != n.Self {
		n.hearsay = append(n.hearsay, digest{p, e})
	}
	n.Recorder.Record(n.now, Event{Kind: "piece", Piece: &p, Bytes: int64(size), From: from})
}

// lose notes that our copy of a piece does not count any more.
func (n *node) lose(p int) {
	if n.ex.Have().Has(p) {
		n.have -= n.pieceSize(p)
		n.countObjects(p, 1)
		n.ex.Lost(p)
		n.news = slices.DeleteFunc(n.news, func(q int) bool { return q == p })
		for rank := range n.neighbours {
			if l := n.neighbours[rank].link; l != nil {
				l.out.forget(p)
			}
		}
	}
}
