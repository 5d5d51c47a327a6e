package swarm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/piece"
)

// This file decides whose word of a piece counts. What members say is kept; where they differ it is what makes the store's checksum that counts, without the word of one.

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
	if from != d.Reader && d.Reader != n.Self && !n.inquired.IsZero() {
		n.revise(from, d)
	}
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
	case known && d.Sum != e.Sum && from == d.Reader && n.stands(d):
		n.keep(from, d)
		return nil
	case !known && d.Term > 0 && from == d.Reader && !n.Members[n.Self].NoAccess:
		n.looks[d.Piece] = true
	}
	n.enter(from, d)
	return nil
}

// stands says whether what counts of a piece does so though its reader says something else now, as that has said so before, and it did not count, or the store's checksum
// proves what does. Else one that has been overruled could have us lose what we have as often as it says so.
func (n *node) stands(d digest) bool {
	if slices.ContainsFunc(n.words[d.Piece], func(w word) bool { return w.said(d.Reader, d.Reader) && w.Term >= d.Term }) {
		return true
	}
	proved := false
	if !n.man.Firsthand(d.Piece) { // it would count
		proved, _ = n.proof(d.Piece)
	}
	return proved
}

// word is what a member says of a piece, or gives for it, to one that may not read the store.
type word struct {
	from int
	gave bool
	exchange.Entry
}

// said says whether a member has said it: of its own reading, if reader is that member, else of another's.
func (w word) said(from, reader int) bool {
	return !w.gave && w.from == from && (w.Reader == from) == (reader == from)
}

// keep keeps what a member says of a piece besides what counts: of each one word of its own reading, which tells that it is not to audit the piece, and one of another's; and of one
// reading and another the later.
func (n *node) keep(from int, d digest) {
	said := n.words[d.Piece]
	i := slices.IndexFunc(said, func(w word) bool { return w.gave && w.from == from || w.said(from, d.Reader) })
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

// revise has what a member repeats of another, now that we have asked for it, be kept instead of what it repeated before: it may have been told that wrong itself.
func (n *node) revise(from int, d digest) {
	said := n.words[d.Piece]
	i := slices.IndexFunc(said, func(w word) bool { return w.said(from, d.Reader) && w.Term == d.Term && w.Sum != d.Sum })
	if i >= 0 {
		said[i].Entry = d.Entry
		n.weighed, n.unproved = false, false
		n.confirm(from, d)
	}
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
	return e.Reader == rank || slices.ContainsFunc(n.words[p], func(w word) bool { return w.said(rank, rank) })
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
	if w.gave { // and was suspected for it, perhaps before another was
		n.reinstate(w.from, p)
	}
	n.replaced(p)
	n.confirm(nobody, digest{p, w.Entry})
	if w.from == n.Self && !n.ex.Have().Has(p) { // we have read it, and it did not count
		n.stranded = append(n.stranded, p)
	}
}

// swap has one of the words that are kept of a piece count, and keeps the one that did, instead of what else its member has said.
func (n *node) swap(p int, w word) {
	e, _ := n.man.Entry(p)
	counted := word{from: n.man.Said(p), Entry: e}
	n.words[p] = slices.DeleteFunc(n.words[p], func(other word) bool { return other != w && other.said(counted.from, e.Reader) })
	n.words[p][slices.Index(n.words[p], w)] = counted
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
