package piece

import (
	"sort"

	"github.com/freshet/freshet/unit"
)

// mostShared is how many objects one piece holds at most: each costs its reader a request to the store.
const mostShared = 64

// objects is how several objects lie in the pieces of one Layout, one behind the other.
//
//	objects  |------------ 0 ------------|------ 1 ------|-2-|3|-4-|--- 5 ---|
//	pieces   |-- 0 --|-- 1 --|-- 2 --|-3-|-- 4 --|-- 5 --|--- 6 ---|-- 7 ----|
//
// A piece ends where an object of at least its size does, so that digests of its pieces alone combine to an
// object's. What is smaller than a piece is never cut: such objects share pieces, as far as they fit. An empty object
// has no piece.
type objects struct {
	ends   []unit.Bytes // by object: where it ends
	first  []int        // by object: the piece in which it begins; of an empty one, that in which it would
	starts []unit.Bytes // by piece: where it begins; and, one more, where the last one ends
	shared []bool       // by piece: it holds several objects
}

// Cut is the layout of objects that lie one behind the other in pieces of a
// size; sizes[i] is the i-th object's. Of one object it is the plain Layout. As with that, sizes that make no
// sense are what Validate says.
func Cut(sizes []unit.Bytes, size unit.Bytes) Layout {
	l := Layout{Piece: size}
	for _, n := range sizes {
		if n < 0 || l.Size+n < 0 {
			return Layout{Size: -1}
		}
		l.Size += n
	}
	if len(sizes) == 1 || l.Validate() != nil {
		return l
	}
	o := &objects{}
	at := unit.Bytes(0)
	room, in := unit.Bytes(0), 0 // of the last piece, if it can be shared, and the objects in it
	for _, n := range sizes {
		switch {
		case n == 0:
			o.first = append(o.first, len(o.starts))
		case n <= room && in < mostShared:
			o.first = append(o.first, len(o.starts)-1)
			o.shared[len(o.starts)-1] = true
			room, in = room-n, in+1
		default:
			o.first = append(o.first, len(o.starts))
			for off := unit.Bytes(0); off < n; off += size {
				o.starts, o.shared = append(o.starts, at+off), append(o.shared, false)
			}
			room, in = max(0, size-n), 1
		}
		at += n
		o.ends = append(o.ends, at)
	}
	o.starts = append(o.starts, at)
	l.objects = o
	return l
}

// Objects is the number of objects that l cuts.
func (l Layout) Objects() int {
	if l.objects == nil {
		return 1
	}
	return len(l.objects.ends)
}

// Object is where object i lies: its offset, and its length.
func (l Layout) Object(i int) (off, n unit.Bytes) {
	if l.objects == nil {
		return 0, l.Size
	}
	if i > 0 {
		off = l.objects.ends[i-1]
	}
	return off, l.objects.ends[i] - off
}

// Alone is the layout of object i by itself: a checksum of it is held against that.
func (l Layout) Alone(i int) Layout {
	_, n := l.Object(i)
	return Layout{Size: n, Piece: l.Piece}
}

// Pieces are the pieces in which object i lies; if it shares one with others, that one.
func (l Layout) Pieces(i int) Range {
	n := l.Alone(i).Count()
	if l.objects == nil {
		return Range{0, n}
	}
	return Range{l.objects.first[i], l.objects.first[i] + n}
}

// Shared says whether piece p holds several objects, all of each.
func (l Layout) Shared(p int) bool { return l.objects != nil && l.objects.shared[p] }

// Within are the objects lo ≤ i < hi that have bytes among the n behind off, which lie within
// l; empty ones may be among them.
func (l Layout) Within(off, n unit.Bytes) (lo, hi int) {
	if n <= 0 {
		return 0, 0
	}
	if l.objects == nil {
		return 0, 1
	}
	ends := l.objects.ends
	lo = sort.Search(len(ends), func(i int) bool { return ends[i] > off })
	hi = lo + sort.Search(len(ends)-lo, func(i int) bool { return ends[lo+i] >= off+n }) + 1
	return lo, hi
}
