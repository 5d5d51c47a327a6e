package exchange

import (
	"fmt"
	"slices"

	"github.com/freshet/freshet/piece"
)

// Entry is what the manifest says of one piece: its digest, who read it from
// the store, and how often it had been read again before that.
type Entry struct {
	Sum    uint64
	Reader int    // rank
	Term   uint32 // 0: the first reading; each audit adds one
}

// Manifest holds the digests of all pieces, as their first readers published
// them. The reading node digests a piece while it comes from the store; every receiver
// checks against that; and together the digests prove the whole object
// against the store's own checksum, without reading it again.
//
// If they do not prove it, or if two readers differ about a piece, pieces are
// audited: read from the store again by another node than their reader, whose digest then
// counts (the higher term wins). Readers whose digests did not stand are to
// blame. What is heard from the reader itself replaces hearsay, and nothing is audited
// more than once (MaxTerm), so one that contradicts for ever is not heard for ever.
type Manifest struct {
	layout  piece.Layout
	entries []Entry
	said    []int    // by piece: the rank that said what counts; the reader itself, or one that repeats its word
	unsure  []bool   // by piece: readers have said different things of it themselves
	alike   []bool   // by piece: two readers have said its digest themselves
	wanted  []uint32 // by piece: the term that has to be reached
	known   int
	due     int // pieces whose term is below the wanted one
	blamed  []Blame
}

// MaxTerm is the highest term there is: that of an audit.
const MaxTerm = 1

// Blame says that a node read a piece wrong.
type Blame struct{ Reader, Piece int }

// NewManifest returns a manifest in which nothing is known.
func NewManifest(l piece.Layout) *Manifest {
	n := l.Count()
	m := &Manifest{layout: l, entries: make([]Entry, n), said: make([]int, n), unsure: make([]bool, n), alike: make([]bool, n), wanted: make([]uint32, n)}
	for i := range m.entries {
		m.entries[i].Reader = -1
	}
	return m
}

// Entry is what is known of piece i.
func (m *Manifest) Entry(i int) (e Entry, ok bool) {
	e = m.entries[i]
	return e, e.Reader >= 0
}

// Firsthand says whether the digest of piece i was heard from its reader itself.
func (m *Manifest) Firsthand(i int) bool { return m.said[i] == m.entries[i].Reader }

// Said is the rank that said what is known of piece i: its reader, or one that repeats what that said.
func (m *Manifest) Said(i int) int { return m.said[i] }

// Sure says whether the digest of piece i was heard from its reader itself, and no other reader has ever said anything else of it. Else
// it is not known whether who sends other bytes has them wrong, or who read the piece lies.
func (m *Manifest) Sure(i int) bool { return m.Firsthand(i) && !m.unsure[i] }

// Change is what an entry did to the manifest.
type Change int

const (
	Nothing   Change = iota // it was known, or hearsay against better knowledge
	News                    // the digest of a piece that had none
	Corrected               // hearsay was wrong: those who have the piece have it by the reader's own digest
	Replaced                // an audit came out otherwise: who has the piece by the old digest has it wrong
)

// Add enters what node from says of piece i, which must exist; e.Term is at
// most MaxTerm. Two first-hand first readings that differ make the piece due for audit.
//
//	known            said                                  becomes
//	nothing          anything                              News
//	any term         a lower one, or the same digest       Nothing
//	first reading    an audit with another digest          Replaced, its reader blamed if it said so itself
//	hearsay          another digest by the reader itself   Corrected
//	first-hand       another first-hand first reading      Nothing, but due for audit
//	otherwise                                              Nothing
func (m *Manifest) Add(from, i int, e Entry) Change {
	old, firsthand, first := m.entries[i], from == e.Reader, m.Firsthand(i)
	m.unsure[i] = m.unsure[i] || firsthand && first && e.Sum != old.Sum
	m.alike[i] = m.alike[i] || firsthand && first && e.Sum == old.Sum && e.Reader != old.Reader
	switch {
	case old.Reader < 0:
		m.set(i, from, e)
		m.known++
		return News
	case e.Term < old.Term:
		return Nothing
	case e.Sum == old.Sum:
		if e.Term > old.Term || firsthand && !first {
			m.set(i, from, e)
		}
		return Nothing
	case e.Term > old.Term:
		m.Blame(i)
		m.set(i, from, e)
		return Replaced
	case firsthand && !first:
		m.set(i, from, e)
		return Corrected
	case firsthand && e.Term < MaxTerm:
		m.want(i, MaxTerm)
	}
	return Nothing
}

// Overrule enters our own reading of piece i against an audit that came out
// otherwise: there is nothing that we could trust more, and no third reading.
// Where the store has a checksum, that decides in the end. It returns whom it contradicts.
func (m *Manifest) Overrule(self, i int, sum uint64) (reader int) {
	reader = m.entries[i].Reader
	m.set(i, self, Entry{Sum: sum, Reader: self, Term: MaxTerm})
	return reader
}

// Prefer has what node from says of piece i count, whatever was said before, with no lower term than that had.
func (m *Manifest) Prefer(from, i int, e Entry) {
	e.Term = max(e.Term, m.entries[i].Term)
	m.set(i, from, e)
}

// Blame notes that what the reader of piece i said itself has not stood.
func (m *Manifest) Blame(i int) {
	if m.Firsthand(i) {
		m.blamed = append(m.blamed, Blame{m.entries[i].Reader, i})
	}
}

func (m *Manifest) set(i, from int, e Entry) {
	wasDue := m.IsDue(i)
	m.alike[i] = m.alike[i] && e.Sum == m.entries[i].Sum
	m.entries[i], m.said[i] = e, from
	if wasDue && !m.IsDue(i) {
		m.due--
	}
}

// Unconfirmed returns the pieces of r whose digest one node alone has said, and not self.
func (m *Manifest) Unconfirmed(r piece.Range, self int) (pieces []int) {
	for i := r.Lo; i < r.Hi; i++ {
		if m.entries[i].Reader != self && !m.alike[i] {
			pieces = append(pieces, i)
		}
	}
	return pieces
}

// IsDue says whether piece i is due for audit.
func (m *Manifest) IsDue(i int) bool {
	return m.entries[i].Reader >= 0 && m.entries[i].Term < m.wanted[i]
}

func (m *Manifest) want(i int, term uint32) {
	if term > m.wanted[i] {
		wasDue := m.IsDue(i)
		m.wanted[i] = term
		if !wasDue && m.IsDue(i) {
			m.due++
		}
	}
}

// Settled says whether every piece has a digest and none is due for audit.
func (m *Manifest) Settled() bool { return m.known == len(m.entries) && m.due == 0 }

// Known is the number of pieces whose digest is known.
func (m *Manifest) Known() int { return m.known }

// Verify holds the digests of object i, which shares no piece and is settled, against the store's checksum of it. An error of the
// first reading calls for an audit of its pieces (Audit); after that it is final.
func (m *Manifest) Verify(i int, c piece.Checksum) error {
	r := m.layout.Pieces(i)
	for p := r.Lo; p < r.Hi; p++ {
		if m.entries[p].Reader < 0 || m.IsDue(p) {
			return fmt.Errorf("the digest of piece %d is unknown, or in doubt", p)
		}
	}
	return m.Proof(i, c)
}

// Proof is Verify of an object whose digests are all known, some of them perhaps in doubt.
func (m *Manifest) Proof(i int, c piece.Checksum) error {
	r := m.layout.Pieces(i)
	sums := make([]uint64, 0, r.Len())
	for p := r.Lo; p < r.Hi; p++ {
		sums = append(sums, m.entries[p].Sum)
	}
	return c.Verify(m.layout.Alone(i), sums)
}

// Spare has piece i be due for audit no more.
func (m *Manifest) Spare(i int) {
	if m.IsDue(i) {
		m.due--
	}
	m.wanted[i] = 0
}

// Audit makes every piece of r that was read only once due for audit. It returns false if there is none.
func (m *Manifest) Audit(r piece.Range) (any bool) {
	for i := r.Lo; i < r.Hi; i++ {
		m.want(i, MaxTerm)
		any = any || m.IsDue(i)
	}
	return any
}

// Due returns all pieces due for audit.
func (m *Manifest) Due() (pieces []int) {
	for i := range m.entries {
		if m.IsDue(i) {
			pieces = append(pieces, i)
		}
	}
	return pieces
}

// Audits returns the pieces due for audit that node self is to read, of so many nodes.
// may says whether a node may read piece i again.
func (m *Manifest) Audits(self, nodes int, may func(rank, i int) bool) (pieces []int) {
	if m.due == 0 {
		return nil
	}
	return slices.DeleteFunc(m.Due(), func(i int) bool {
		return Auditor(m.entries[i].Reader, nodes, func(rank int) bool { return may(rank, i) }) != self
	})
}

// Auditor is the node that is to read again what reader has read, if that is due for audit: the first
// after it that may, the reader itself only if there is none.
func Auditor(reader, nodes int, may func(rank int) bool) int {
	for k := 1; k < nodes; k++ {
		if a := (reader + k) % nodes; may(a) {
			return a
		}
	}
	return reader
}

// Blamed returns the readings that did not stand.
func (m *Manifest) Blamed() []Blame { return m.blamed }
