// Package piece cuts an object into pieces and keeps count of them.
//
// A piece is what nodes verify and exchange: every piece has one digest. A
// piece crosses the network in blocks, and a run of consecutive pieces is what
// one fetch from the store covers (a work unit, package steal).
//
//	object  |------------------------------ Size ------------------------------|
//	pieces  |-- 0 --|-- 1 --|-- 2 --|-- 3 --|-- 4 --| … |-- P-2 --|- P-1 -|
//	blocks  |0|1|2|3|                                             the last may be short
//
// The paper (Chiba et al. 2010, section 4) uses pieces of 32 KiB; DefaultSize
// says what we use and why. Everything here is pure.
package piece

import (
	"fmt"

	"github.com/freshet/freshet/unit"
)

// BlockSize is the unit in which a piece crosses the network and is written to
// disk: large enough that a frame's cost vanishes, small enough that a fixed
// pool of blocks bounds a node's memory.
const BlockSize = 256 * unit.KiB

// PaperSize is the piece size of Chiba et al. 2010, section 4.
const PaperSize = 32 * unit.KiB

const (
	targetPieces = 1024          // at least, if they are no smaller than smallestSize: see DefaultSize
	smallestSize = BlockSize / 2 // half the size, an eighth more processor time for each byte
	usualSize    = 4 * unit.MiB  // 256 KiB blocks and 4 MiB pieces cost the least CPU per byte
	largestSize  = 16 * unit.MiB // a piece is the least that a failed check costs again
	manyPieces   = 1 << 16       // beyond this many, possession sets and announcements grow, so pieces do
)

// Layout says how an object is cut, or several that lie one behind the other (Cut). The zero Layout is that of an empty object.
type Layout struct {
	Size  unit.Bytes // of the object, or of all; zero has no pieces
	Piece unit.Bytes // of every piece but an object's last, and those that small objects share; positive unless Size is zero

	objects *objects // nil: it is one
}

// DefaultSize is the piece size for an object of size bytes: 4 MiB, halved
// until there are at least 1,024 pieces (never below 128 KiB), and doubled up to
// 16 MiB while there are more than 65,536.
//
// A piece is passed on when it is whole, so a swarm of N nodes cannot come nearer to the fluid bound than a
// factor of about 1 + log2(N)/P, and the first piece alone costs a link's rate over the store's, divided by P: of
// 1,000 nodes the former is 1.078 with P = 128 and 1.010 with 1,024, and the latter, with a store that gives a
// node 0.06 of its link, 1.130 and 1.016. What pieces cost: of each one a node hears from every other one, 28 bytes
// each time, which is 0.7 % of 128 KiB in a swarm of 32; its possession sets have P/8 bytes, 128 of them for 1,024; and its
// memory grows by some tens of bytes a piece. Requests to the store are as large as before, since they cover runs of pieces.
//
// Where the store's checksums are per part, part is the size of those parts and pieces are an equal division of
// it, so that the digests of pieces combine to those of parts: the largest one that is no larger than that,
// and no smaller than 128 KiB, or else the smallest of up to 4 MiB. Zero means no parts.
func DefaultSize(size, part unit.Bytes) unit.Bytes {
	want := usualSize
	for want > smallestSize && size/want < targetPieces {
		want /= 2
	}
	for want < largestSize && size/want > manyPieces {
		want *= 2
	}
	if part <= 0 || part >= size {
		return want
	}
	least := (part + want - 1) / want // pieces that a part is cut into
	for k := least; part/k >= smallestSize; k++ {
		if part%k == 0 {
			return part / k
		}
	}
	for k := least - 1; k > 0 && part/k <= usualSize; k-- {
		if part%k == 0 {
			return part / k
		}
	}
	return want // parts of a size that no piece divides: their checksums cannot be used
}

// Count is the number of pieces.
func (l Layout) Count() int {
	if l.Size <= 0 {
		return 0
	}
	if l.objects != nil {
		return len(l.objects.shared)
	}
	return int((l.Size + l.Piece - 1) / l.Piece)
}

// Span is where piece i lies: its offset and its length, which is l.Piece
// at most. It panics if there is no piece i.
func (l Layout) Span(i int) (off, n unit.Bytes) {
	if i < 0 || i >= l.Count() {
		panic(fmt.Sprintf("piece: no piece %d in an object of %d pieces", i, l.Count()))
	}
	if l.objects != nil {
		off = l.objects.starts[i]
		return off, l.objects.starts[i+1] - off
	}
	off = unit.Bytes(i) * l.Piece
	return off, min(l.Piece, l.Size-off)
}

// RangeSpan is where the pieces of r lie: the offset of the first and the
// length of all. An empty range has length zero.
func (l Layout) RangeSpan(r Range) (off, n unit.Bytes) {
	if r.Empty() {
		return 0, 0
	}
	off, _ = l.Span(r.Lo)
	last, k := l.Span(r.Hi - 1)
	return off, last + k - off
}

// Blocks is the number of blocks of piece i.
func (l Layout) Blocks(i int) int {
	_, n := l.Span(i)
	return int((n + BlockSize - 1) / BlockSize)
}

// Block is where block b of piece i lies: its offset and its length, which is BlockSize at most.
func (l Layout) Block(i, b int) (off, n unit.Bytes) {
	off, n = l.Span(i)
	before := unit.Bytes(b) * BlockSize
	return off + before, min(BlockSize, n-before)
}

// Validate says whether l can be used: sizes of either sign, absurd piece
// counts and pieces without a size are errors.
func (l Layout) Validate() error {
	switch {
	case l.Size < 0:
		return fmt.Errorf("object size %d is negative", l.Size)
	case l.Size > 0 && l.Piece <= 0:
		return fmt.Errorf("piece size %d is not positive", l.Piece)
	case l.Size > 0 && (l.Size-1)/l.Piece >= 1<<26:
		return fmt.Errorf("%v in pieces of %v makes more than 67 million pieces", l.Size, l.Piece)
	}
	return nil
}

// Range is the pieces Lo ≤ i < Hi.
type Range struct{ Lo, Hi int }

// Len is the number of pieces in r.
func (r Range) Len() int { return max(0, r.Hi-r.Lo) }

// Empty says whether r has no piece.
func (r Range) Empty() bool { return r.Hi <= r.Lo }

// Contains says whether piece i is in r.
func (r Range) Contains(i int) bool { return r.Lo <= i && i < r.Hi }

func (r Range) String() string {
	if r.Len() == 1 {
		return fmt.Sprintf("%d", r.Lo)
	}
	return fmt.Sprintf("%d–%d", r.Lo, r.Hi-1)
}

// Share is the run of pieces that is node i's of n in a first, equal division:
// ⌊i·P/n⌋ … ⌊(i+1)·P/n⌋−1 (Chiba et al. 2010, section 4.1).
func Share(pieces, i, n int) Range {
	return Range{Lo: i * pieces / n, Hi: (i + 1) * pieces / n}
}
