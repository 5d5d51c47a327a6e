package swarm

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/unit"
)

// This file keeps what is known of pieces: what their digests are, who gave them, and which of ours count. Whose digest counts is decided in words.go.

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
		if from != d.Reader || said != old.Reader || from == said { // hearsay, or the same once more
			break
		}
		for _, reader := range []int{said, from} {
			if !slices.Contains(n.alike[d.Piece], reader) {
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
			if !n.Members[n.Self].Held {
				n.believed.Add(d.Piece)
			}
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
	delete(n.mixed, p)
	if n.asm.under(p) {
		n.shaken[p] = true
	}
	switch {
	case !n.ex.Have().Has(p):
	case n.sums[p] == e.Sum:
		n.news = append(n.news, p) // others do not reckon with ours any more
	case n.Members[n.Self].Held || n.believed.Has(p):
		n.doubt(p)
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

// doubt has a piece of a file from before the job read from there: of what it has we know by another's word, or by what a reading long ago said.
func (n *node) doubt(p int) {
	if !slices.Contains(n.doubts, p) {
		n.doubts = append(n.doubts, p)
	}
}

// withdraw has nobody's copy of a piece count but one's.
func (n *node) withdraw(p, but int) {
	for rank := range n.neighbours {
		if rank != but {
			n.ex.Withdrawn(rank, p)
		}
	}
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
	n.neighbours[rank].moved = n.now
	n.stirs(false)
	if !n.asm.current(ev.piece, ev.outcome.of) { // the reader told us late, and what it is of was dropped before: if the piece is wanted again all of it has to come
		n.ex.Discarded(rank, ev.piece, ev.block, n.now)
		return
	}
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
		if n.reveals(ev.piece, ev.outcome) {
			return
		}
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
	case len(givers) == 1 && n.alone(givers[0], ev.piece): // it sends other bytes than it says itself
		n.sendCancels(n.ex.Spoiled(ev.piece))
		n.expel(givers[0], fmt.Errorf("%w for piece %d", errWrongBytes, ev.piece))
	case len(givers) == 1 && n.neighbours[givers[0]].deceivers[e.Reader]:
		n.repeats(givers[0], ev.piece)
	case len(givers) == 1: // it lies, or who said that this is the digest: the store knows, or others
		n.suspect(ev.piece, suspect{rank: givers[0], sum: ev.outcome.sum, since: n.now})
	default: // nobody knows who of several: next time it comes from one, and that tells
		n.sendCancels(n.ex.Spoiled(ev.piece))
		n.mix(ev.piece, ev.outcome)
		n.fault(n.nameAll(givers), fmt.Sprintf("one of them sent wrong bytes for piece %d", ev.piece))
	}
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
	delete(n.mixed, p)
	n.sendCancels(n.ex.Got(p))
	n.news = append(n.news, p)
	if e, _ := n.man.Entry(p); e.Reader != n.Self {
		n.hearsay = append(n.hearsay, digest{p, e})
	}
	n.Recorder.Record(n.now, Event{Kind: "piece", Piece: &p, Bytes: int64(size), From: from})
}

// mend has a piece come anew of which our file from before the job has something else than the store, whatever others take us to have: if nobody else has it, we read it.
func (n *node) mend(p int) {
	n.lose(p)
	if !n.ex.Held(p) && !n.Members[n.Self].NoAccess && n.ex.Reserve(p) {
		n.wrong = append(n.wrong, p)
	}
}

// lose notes that our copy of a piece does not count any more.
func (n *node) lose(p int) {
	if n.ex.Have().Has(p) {
		n.have -= n.pieceSize(p)
		n.countObjects(p, 1)
		n.ex.Lost(p)
		n.believed.Remove(p)
		if n.keeps != nil && n.keeps.Has(p) {
			n.rotten.Add(p)
		}
		n.news = slices.DeleteFunc(n.news, func(q int) bool { return q == p })
		for rank := range n.neighbours {
			if l := n.neighbours[rank].link; l != nil {
				l.out.forget(p)
			}
		}
	}
}
