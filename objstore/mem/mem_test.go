package mem_test

import (
	"errors"
	"testing"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/mem"
	"github.com/freshet/freshet/objstore/objstoretest"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name    string
		options []mem.Option
		h       objstoretest.Harness
	}{
		{"default", nil, objstoretest.Harness{Checksum: piece.CRC64NVME}},
		{"CRC32C", []mem.Option{mem.Checksum(piece.CRC32C)}, objstoretest.Harness{Checksum: piece.CRC32C}},
		{"no checksum", []mem.Option{mem.Checksum("")}, objstoretest.Harness{}},
		{"no ranges", []mem.Option{mem.Checksum(""), mem.NoRanges()}, objstoretest.Harness{NoRanges: true}},
		{"no validator", []mem.Option{mem.Checksum(""), mem.NoValidator()}, objstoretest.Harness{Unpinned: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s *mem.Store
			c.h.Open = func(*testing.T) objstore.Store { s = mem.New(c.options...); return s }
			c.h.Deny = func(_ *testing.T, name string) { s.Deny(name) }
			c.h.Keys = 2500
			objstoretest.Run(t, c.h)
		})
	}
}

func TestComposite(t *testing.T) {
	s := mem.New(mem.Composite(piece.CRC32C, 8*unit.KiB))
	data := objstoretest.Bytes(1, 20*unit.KiB)
	o := s.Set("object", data)
	l := piece.Layout{Size: o.Size, Piece: 4 * unit.KiB}
	var sums []uint64
	for i := range l.Count() {
		off, n := l.Span(i)
		sums = append(sums, piece.CRC32C.Update(0, data[off:off+n]))
	}
	if n, ok := o.Checksum.Composite(); n != 3 || !ok || !o.Checksum.Usable(l) {
		t.Fatalf("checksum %+v", o.Checksum)
	}
	if err := o.Checksum.Verify(l, sums); err != nil {
		t.Error(err)
	}
	if o := s.Set("empty", nil); o.Checksum.Value != "" {
		t.Errorf("empty: %+v", o.Checksum)
	}
}

func TestDelete(t *testing.T) {
	s := mem.New()
	s.Set("object", objstoretest.Bytes(1, 10))
	s.Delete("object")
	if _, err := s.Stat(t.Context(), "object"); !errors.Is(err, objstore.ErrNotExist) {
		t.Error(err)
	}
}
