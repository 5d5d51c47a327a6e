package piece

import (
	"fmt"
	"iter"
	"math/bits"
)

// Set is a possession set: which pieces of an object somebody has. It is
// made by NewSet for a fixed number of pieces; adding a piece outside panics,
// so bytes that came from elsewhere go through ParseSet. Not for concurrent use.
type Set struct {
	words []uint64
	len   int // pieces in the object
	count int // pieces in the set
}

// NewSet returns the empty set over pieces pieces.
func NewSet(pieces int) *Set {
	return &Set{words: make([]uint64, (pieces+63)/64), len: pieces}
}

// Len is the number of pieces in the object.
func (s *Set) Len() int { return s.len }

// Count is the number of pieces in the set.
func (s *Set) Count() int { return s.count }

// Full says whether every piece is in the set.
func (s *Set) Full() bool { return s.count == s.len }

// Has says whether piece i is in the set; a piece outside the object is not.
func (s *Set) Has(i int) bool {
	return i >= 0 && i < s.len && s.words[i>>6]>>(i&63)&1 == 1
}

// Add puts piece i into the set and says whether it was new.
func (s *Set) Add(i int) bool {
	if i < 0 || i >= s.len {
		panic(fmt.Sprintf("piece: %d added to a set of %d", i, s.len))
	}
	w, b := i>>6, uint64(1)<<(i&63)
	if s.words[w]&b != 0 {
		return false
	}
	s.words[w] |= b
	s.count++
	return true
}

// Remove takes piece i out of the set and says whether it was in.
func (s *Set) Remove(i int) bool {
	if !s.Has(i) {
		return false
	}
	s.words[i>>6] &^= 1 << (i & 63)
	s.count--
	return true
}

// AddRange puts the pieces of r, which must lie within the object, into the set.
func (s *Set) AddRange(r Range) {
	for i := r.Lo; i < r.Hi; i++ {
		s.Add(i)
	}
}

// Covers says whether s has every piece that o, of the same object, has. O(pieces/64).
func (s *Set) Covers(o *Set) bool {
	for i, w := range o.words {
		if w&^s.words[i] != 0 {
			return false
		}
	}
	return true
}

// Ranges yields the maximal runs of pieces in the set, in order.
func (s *Set) Ranges() iter.Seq[Range] { return s.runs(true) }

// Missing yields the maximal runs of pieces not in the set, in order.
func (s *Set) Missing() iter.Seq[Range] { return s.runs(false) }

func (s *Set) runs(in bool) iter.Seq[Range] {
	return func(yield func(Range) bool) {
		for lo := s.next(0, in); lo < s.len; {
			hi := s.next(lo, !in)
			if !yield(Range{lo, hi}) {
				return
			}
			lo = s.next(hi, in)
		}
	}
}

// next is the first piece ≥ i whose being in the set equals in, or s.len.
func (s *Set) next(i int, in bool) int {
	for i < s.len {
		w := s.words[i>>6]
		if !in {
			w = ^w
		}
		if w >>= i & 63; w != 0 {
			return min(s.len, i+bits.TrailingZeros64(w))
		}
		i = (i>>6 + 1) << 6
	}
	return s.len
}

// Clone returns a copy.
func (s *Set) Clone() *Set {
	c := *s
	c.words = append([]uint64(nil), s.words...)
	return &c
}

// Append appends the set's ⌈Len/8⌉ bytes to b: piece i is bit i mod 8, least
// significant first, of byte i div 8; bits past the last piece are zero.
func (s *Set) Append(b []byte) []byte {
	for i := range (s.len + 7) / 8 {
		b = append(b, byte(s.words[i>>3]>>(i&7*8)))
	}
	return b
}

// ParseSet reads what Append wrote for an object of pieces pieces. Wrong
// length and bits past the last piece are errors.
func ParseSet(b []byte, pieces int) (*Set, error) {
	if len(b) != (pieces+7)/8 {
		return nil, fmt.Errorf("possession set of %d bytes for %d pieces", len(b), pieces)
	}
	s := NewSet(pieces)
	for i, v := range b {
		s.words[i>>3] |= uint64(v) << (i & 7 * 8)
		s.count += bits.OnesCount8(v)
	}
	if r := pieces & 63; r != 0 && s.words[len(s.words)-1]>>r != 0 {
		return nil, fmt.Errorf("possession set names pieces past the last of %d", pieces)
	}
	return s, nil
}
