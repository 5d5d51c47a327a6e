package swarm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// This file keeps what is known of pieces: their digests, who gave them, and which of ours count.

// learn enters a line of a peer's into the manifest. What a member has read it
// says itself; others are believed only of members that we do not hear.
// When our file has been proved nothing that is said changes it any more.
func (n *node) learn(from int, d digest) error {
	if d.Term > exchange.MaxTerm {
		return fmt.Errorf("piece %d was never audited %d times", d.Piece, d.Term)
	}
	if from != d.Reader && (d.Reader == n.Self || n.neighbours[d.Reader].link != nil) || n.commits || n.done {
		return nil
	}
	e, known := n.man.Entry(d.Piece)
	switch {
	case known && d.Term > e.Term && d.Sum != e.Sum && n.doubtful(from, d):
		return nil
	case !known && d.Term > 0 && from == d.Reader && !n.Members[n.Self].NoAccess:
		n.looks[d.Piece] = true
	case known && d.Term <= e.Term && d.Sum != e.Sum && from == d.Reader && n.man.Firsthand(d.Piece):
		n.rival(d)
	}
	n.enter(from, d)
	return nil
}

// rival keeps what a reader has said of a piece besides the one that counts, if we may not look ourselves: bytes may come that it fits.
func (n *node) rival(d digest) {
	e, _ := n.man.Entry(d.Piece)
	same := func(r digest) bool { return r.Reader == d.Reader }
	if n.Members[n.Self].NoAccess && d.Reader != e.Reader && !slices.ContainsFunc(n.rivals[d.Piece], same) {
		n.rivals[d.Piece] = append(n.rivals[d.Piece], d)
		n.confirm(d.Piece, d.Sum)
	}
}

// prefer has the rival count that has said this digest of a piece. It returns false if there is none.
func (n *node) prefer(p int, sum uint64) bool {
	i := slices.IndexFunc(n.rivals[p], func(r digest) bool { return r.Sum == sum })
	if i < 0 {
		return false
	}
	e, _ := n.man.Entry(p)
	r := n.rivals[p][i]
	n.rivals[p][i] = digest{p, e}
	n.man.Prefer(p, r.Entry)
	delete(n.proved, n.objectOf(p))
	return true
}

// audits makes pieces that were read only once due for audit. Those of which we have heard already how it came out are replaced.
func (n *node) audits(r piece.Range) (any bool) {
	any = n.man.Audit(r)
	for p := r.Lo; p < r.Hi && len(n.rivals) > 0; p++ {
		for _, d := range n.rivals[p] {
			if e, _ := n.man.Entry(p); d.Term > e.Term {
				n.enter(d.Reader, d)
			}
		}
	}
	return any
}

// doubtful says whether an audit that came out otherwise than what we know does not count: nobody is blamed, and loses what he has, on the word
// of one, unless the store's checksum calls for an audit, or two readers differ. Where nothing tells who is right we look ourselves, if we may.
func (n *node) doubtful(from int, d digest) bool {
	hearsay := from != d.Reader
	proved, wrong := false, false
	if asked := n.man.IsDue(d.Piece) && !n.looks[d.Piece]; !asked {
		proved, wrong = n.proof(d.Piece)
	} else if !hearsay {
		return false
	}
	switch {
	case proved:
		return true
	case wrong && !hearsay && len(n.looks) == 0: // as we would find out when all is here; with looks it may be what these are for
		n.audits(n.Layout.Pieces(n.objectOf(d.Piece)))
		return false
	case n.Members[n.Self].NoAccess && !hearsay && n.man.Firsthand(d.Piece):
		n.rival(d)
		return true
	case n.Members[n.Self].NoAccess || hearsay && !n.man.Firsthand(d.Piece):
		return false
	case hearsay:
		n.man.Audit(piece.Range{Lo: d.Piece, Hi: d.Piece + 1})
	}
	n.looks[d.Piece] = true
	return true
}

// proof says whether the digests of a piece's object make what the store says of it, or do not; neither is so while they are not all known,
// and where the store does not say.
func (n *node) proof(p int) (proved, wrong bool) {
	if n.man.Known() < n.Layout.Count() || n.Layout.Shared(p) {
		return false, false
	}
	i := n.objectOf(p)
	if !n.usable(i) {
		return false, false
	}
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
	change := n.man.Add(from, d.Piece, d.Entry)
	if change != exchange.Nothing {
		delete(n.proved, n.objectOf(d.Piece))
		n.confirm(d.Piece, d.Sum)
	}
	switch change {
	case exchange.News:
		n.ex.Known(d.Piece)
		if n.kept(d.Piece) && from != n.Self { // another has read it, from the store or from its file; ours is there, too
			n.got(d.Piece, d.Sum, n.Members[n.Self].Name)
		}
	case exchange.Replaced:
		for rank := range n.neighbours {
			if rank != d.Reader {
				n.ex.Withdrawn(rank, d.Piece)
			}
		}
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
	if ev.outcome.sum != e.Sum && !shaken && n.prefer(ev.piece, ev.outcome.sum) {
		e, _ = n.man.Entry(ev.piece)
	}
	if ev.outcome.sum != e.Sum {
		n.Counters.Spoiled.Add(int64(n.pieceSize(ev.piece)))
	}
	switch {
	case ev.outcome.sum == e.Sum:
		n.got(ev.piece, ev.outcome.sum, n.Members[most(ev.outcome.from)].Name)
	case shaken: // of an old digest: no one's fault
		n.sendCancels(n.ex.Spoiled(ev.piece))
	case len(givers) == 1 && n.man.Sure(ev.piece) && len(n.rivals[ev.piece]) == 0 && givers[0] == e.Reader: // it sends other bytes than it says itself
		n.sendCancels(n.ex.Spoiled(ev.piece))
		n.expel(givers[0], fmt.Errorf("sent wrong bytes for piece %d", ev.piece))
	case len(givers) == 1 && (!n.Members[n.Self].NoAccess || n.man.Firsthand(ev.piece)): // it lies, or who said that this is the digest: the store knows, or another reader
		n.suspect(ev.piece, suspect{givers[0], ev.outcome.sum, n.now})
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
}

// heardWithin is how long one that may not read the store waits for another reader's word of a piece that came otherwise than it was told: who has
// the piece has heard that already, and so should we.
const heardWithin = 2 * time.Second

// suspect takes a piece out of the exchange, and has it read from the store, if we may.
func (n *node) suspect(p int, s suspect) {
	n.sendCancels(n.ex.Abandon(p))
	if !n.ex.Reserve(p) { // it is being read
		return
	}
	n.suspects[p] = s
	if !n.Members[n.Self].NoAccess {
		n.wrong = append(n.wrong, p)
	}
}

// confirm ends a suspicion where a reader says what came, if we may not read the store: the piece is asked for again.
func (n *node) confirm(p int, sum uint64) {
	if s, ok := n.suspects[p]; ok && s.sum == sum && n.Members[n.Self].NoAccess {
		delete(n.suspects, p)
		n.ex.Unreserve(p)
	}
}

// convict expels those whose bytes no reader has told us of for long enough, if we may not read the store.
func (n *node) convict() {
	for p, s := range n.suspects {
		if n.Members[n.Self].NoAccess && n.now.Sub(s.since) > heardWithin {
			delete(n.suspects, p)
			n.ex.Unreserve(p)
			n.expel(s.rank, fmt.Errorf("sent wrong bytes for piece %d", p))
		}
	}
}

// judge expels who has sent other bytes of a piece than we have read now. If they are the same it was the digest that was wrong.
func (n *node) judge(p int, sum uint64) {
	s, ok := n.suspects[p]
	delete(n.suspects, p)
	if !ok || s.sum == sum {
		return
	}
	n.expel(s.rank, fmt.Errorf("sent wrong bytes for piece %d", p))
	n.wrong = slices.DeleteFunc(n.wrong, func(q int) bool { // what else it sent so others may give
		more, ok := n.suspects[q]
		if !ok || more.rank != s.rank {
			return false
		}
		delete(n.suspects, q)
		n.ex.Unreserve(q)
		return true
	})
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
