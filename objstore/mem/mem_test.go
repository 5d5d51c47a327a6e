package mem_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/synctest"

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

func TestReplaceAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		old := objstoretest.Bytes(1, 10000)
		o := s.Set("object", old)
		s.ReplaceAfter("object", 4000, objstoretest.Bytes(2, 10000))
		r, err := s.ReadRange(t.Context(), o, 0, o.Size)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 5000)
		if n, err := io.ReadFull(r, buf[:3000]); n != 3000 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if n, err := io.ReadFull(r, buf[3000:]); n != 2000 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if !bytes.Equal(buf, old[:5000]) {
			t.Error("not the old bytes")
		}
		if n, err := r.Read(buf); n != 0 || !errors.Is(err, objstore.ErrChanged) {
			t.Errorf("%d, %v; want %v", n, err, objstore.ErrChanged)
		}
		if got := s.Served(); got != 5000 {
			t.Errorf("served %d, want 5000", got)
		}
		s.Delete("object")
		if _, err := s.Stat(t.Context(), "object"); !errors.Is(err, objstore.ErrNotExist) {
			t.Error(err)
		}
	})
}
