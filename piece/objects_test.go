package piece

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/freshet/freshet/unit"
)

// Objects in pieces of 10 bytes: where each piece begins, and which pieces each object lies in.
func TestCut(t *testing.T) {
	many := slices.Repeat([]unit.Bytes{0, 0, 1}, 100) // 100 of a byte; 10 fit a piece
	for _, tt := range []struct {
		name   string
		sizes  []unit.Bytes
		starts []unit.Bytes // and the end
		pieces []Range
		shared []int
	}{
		{"one", []unit.Bytes{25}, []unit.Bytes{0, 10, 20, 25}, []Range{{0, 3}}, nil},
		{"one of nothing", []unit.Bytes{0}, []unit.Bytes{0}, []Range{{0, 0}}, nil},
		{"none", nil, []unit.Bytes{0}, nil, nil},
		{"of nothing", []unit.Bytes{0, 0}, []unit.Bytes{0}, []Range{{0, 0}, {0, 0}}, nil},
		{"pieces end with objects", []unit.Bytes{25, 10, 12}, []unit.Bytes{0, 10, 20, 25, 35, 45, 47}, []Range{{0, 3}, {3, 4}, {4, 6}}, nil},
		{"small ones share", []unit.Bytes{15, 3, 3, 4, 1}, []unit.Bytes{0, 10, 15, 25, 26}, []Range{{0, 2}, {2, 3}, {2, 3}, {2, 3}, {3, 4}}, []int{2}},
		{"a small one alone", []unit.Bytes{10, 9, 10}, []unit.Bytes{0, 10, 19, 29}, []Range{{0, 1}, {1, 2}, {2, 3}}, nil},
		{"nothing between", []unit.Bytes{3, 0, 3}, []unit.Bytes{0, 6}, []Range{{0, 1}, {1, 1}, {0, 1}}, []int{0}},
		{"hundred", many, []unit.Bytes{0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100}, nil, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
	} {
		l := Cut(tt.sizes, 10)
		if err := l.Validate(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		var starts, want []unit.Bytes
		for p := range l.Count() {
			off, _ := l.Span(p)
			starts = append(starts, off)
			if got := l.Shared(p); got != slices.Contains(tt.shared, p) {
				t.Errorf("%s: piece %d is shared: %v", tt.name, p, got)
			}
		}
		if want = tt.starts; !slices.Equal(append(starts, l.Size), want) {
			t.Errorf("%s: pieces begin at %v, want %v", tt.name, starts, want)
		}
		for i, want := range tt.pieces {
			if got := l.Pieces(i); got != want {
				t.Errorf("%s: object %d is in pieces %v, want %v", tt.name, i, got, want)
			}
		}
	}
	if l := Cut([]unit.Bytes{25}, 10); l != (Layout{Size: 25, Piece: 10}) {
		t.Errorf("one object is cut to %+v", l)
	}
	if n := Cut(slices.Repeat([]unit.Bytes{1}, 2*mostShared+1), unit.MiB).Count(); n != 3 {
		t.Errorf("%d objects of a byte lie in %d pieces, want 3: each costs a request", 2*mostShared+1, n)
	}
	for _, bad := range []struct {
		sizes []unit.Bytes
		size  unit.Bytes
	}{{[]unit.Bytes{1, -1}, 10}, {[]unit.Bytes{1 << 62, 1 << 62}, 10}, {[]unit.Bytes{1, 1}, 0}, {[]unit.Bytes{1 << 60, 1}, 1}} {
		if Cut(bad.sizes, bad.size).Validate() == nil {
			t.Errorf("%v in pieces of %v passes", bad.sizes, bad.size)
		}
	}
}

// Whatever the objects: pieces cover them without gap, an object of a piece's size or more has pieces of its own that combine to
// its digest, a smaller one is not cut, and Within finds who lies where.
func TestCutAnything(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		size := unit.Bytes(1 + rng.IntN(64))
		sizes := make([]unit.Bytes, 2+rng.IntN(40))
		var data []byte
		for i := range sizes {
			sizes[i] = unit.Bytes(rng.IntN(3) * rng.IntN(200))
			for range sizes[i] {
				data = append(data, byte(rng.Uint32()))
			}
		}
		l := Cut(sizes, size)
		if l.Size != unit.Bytes(len(data)) || l.Objects() != len(sizes) {
			t.Fatalf("%v: %d objects of %d bytes", sizes, l.Objects(), l.Size)
		}
		at, sums := unit.Bytes(0), make([]uint64, l.Count())
		for p := range sums {
			off, n := l.Span(p)
			if off != at || n <= 0 || n > size {
				t.Fatalf("%v in pieces of %d: piece %d is %d bytes at %d, want some at %d", sizes, size, p, n, off, at)
			}
			at, sums[p] = off+n, CRC64NVME.Update(0, data[off:off+n])
		}
		if at != l.Size {
			t.Fatalf("%v: pieces end at %d of %d", sizes, at, l.Size)
		}
		for i, want := range sizes {
			off, n := l.Object(i)
			r := l.Pieces(i)
			if n != want || r.Len() != l.Alone(i).Count() {
				t.Fatalf("%v: object %d has %d bytes in pieces %v", sizes, i, n, r)
			}
			if n == 0 {
				continue
			}
			if lo, hi := l.Within(off, n); lo > i || hi != i+1 || lo < i && sizes[lo] > 0 {
				t.Fatalf("%v: at object %d lie %d to %d", sizes, i, lo, hi)
			}
			if l.Shared(r.Lo) {
				if start, k := l.Span(r.Lo); n >= size || off < start || off+n > start+k {
					t.Fatalf("%v: object %d, %d bytes at %d, shares piece %v", sizes, i, n, off, r)
				}
				continue
			}
			c := Checksum{Algorithm: CRC64NVME, Value: CRC64NVME.Encode(CRC64NVME.Update(0, data[off:off+n]))}
			if err := c.Verify(l.Alone(i), sums[r.Lo:r.Hi]); err != nil {
				t.Fatalf("%v in pieces of %d: object %d: %v", sizes, size, i, err)
			}
		}
	}
}
