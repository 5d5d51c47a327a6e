package piece

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/freshet/freshet/unit"
)

// Chiba et al. 2010, section 4.1: 300 MB in pieces of 32 KB are 9,600 pieces
// (MB and KB binary there), of which three nodes own 3,200 each.
func TestPaperShares(t *testing.T) {
	l := Layout{Size: 300 * unit.MiB, Piece: PaperSize}
	if got := l.Count(); got != 9600 {
		t.Fatalf("Count() = %d, want 9600", got)
	}
	for i, want := range []Range{{0, 3200}, {3200, 6400}, {6400, 9600}} {
		if got := Share(9600, i, 3); got != want {
			t.Errorf("Share(9600, %d, 3) = %v, want %v", i, got, want)
		}
	}
}

func TestSharesCover(t *testing.T) {
	for pieces := range 200 {
		for n := 1; n < 40; n++ {
			at := 0
			for i := range n {
				r := Share(pieces, i, n)
				if r.Lo != at || r.Len() > (pieces+n-1)/n {
					t.Fatalf("Share(%d, %d, %d) = %v, want to start at %d", pieces, i, n, r, at)
				}
				at = r.Hi
			}
			if at != pieces {
				t.Fatalf("%d shares of %d pieces end at %d", n, pieces, at)
			}
		}
	}
}

func TestDefaultSize(t *testing.T) {
	for _, tt := range []struct{ size, part, want unit.Bytes }{
		{0, 0, 128 * unit.KiB},
		{unit.MiB, 0, 128 * unit.KiB},
		{192 * unit.MiB, 0, 128 * unit.KiB}, // 1,536; of 256 KiB there would be 768
		{256 * unit.MiB, 0, 256 * unit.KiB}, // 1,024 pieces
		{500 * unit.MiB, 0, 256 * unit.KiB}, // 2,000; of 512 KiB there would be 1,000
		{unit.GiB, 0, unit.MiB},
		{4 * unit.GiB, 0, 4 * unit.MiB},
		{100 * unit.GiB, 0, 4 * unit.MiB}, // 25,600
		{unit.TiB, 0, 16 * unit.MiB},      // 65,536
		{unit.GiB, 8 * unit.MiB, unit.MiB},
		{8 * unit.GiB, 5 * unit.MiB, 5 * unit.MiB / 2},
		{8 * unit.GiB, 15 * unit.MiB, 15 * unit.MiB / 4},
		{256 * unit.MiB, 5_000_000, 250_000}, // 20 of them: 19 would be larger than 256 KiB
		{256 * unit.MiB, 3_000_000, 250_000}, // 12 of them
		{256 * unit.MiB, 333_333, 333_333},   // two are no divisor, and three would be smaller than 128 KiB
		{unit.GiB, 104_857_601, unit.MiB},    // a prime
	} {
		got := DefaultSize(tt.size, tt.part)
		if got != tt.want {
			t.Errorf("DefaultSize(%v, %v) = %v, want %v", tt.size, tt.part, got, tt.want)
		}
	}
}

func TestLayout(t *testing.T) {
	l := Layout{Size: 10*unit.MiB + 1, Piece: 4 * unit.MiB}
	if l.Count() != 3 {
		t.Fatalf("Count() = %d, want 3", l.Count())
	}
	if off, n := l.Span(2); off != 8*unit.MiB || n != 2*unit.MiB+1 {
		t.Errorf("Span(2) = %d, %d", off, n)
	}
	if off, n := l.RangeSpan(Range{1, 3}); off != 4*unit.MiB || n != 6*unit.MiB+1 {
		t.Errorf("RangeSpan(1–2) = %d, %d", off, n)
	}
	if got := l.Blocks(2); got != 9 {
		t.Errorf("Blocks(2) = %d, want 9", got)
	}
	if off, n := l.Block(2, 7); off != 8*unit.MiB+7*BlockSize || n != BlockSize {
		t.Errorf("Block(2, 7) = %d, %d", off, n)
	}
	if off, n := l.Block(2, 8); off != 10*unit.MiB || n != 1 {
		t.Errorf("Block(2, 8) = %d, %d", off, n)
	}
	for _, bad := range []Layout{{Size: -1}, {Size: 1}, {Size: 1 << 60, Piece: 1}, {Size: 1, Piece: -1}} {
		if bad.Validate() == nil {
			t.Errorf("%+v passes", bad)
		}
	}
	if err := (Layout{}).Validate(); err != nil || (Layout{}).Count() != 0 {
		t.Errorf("the empty object: %v", err)
	}
}

func TestSetAgainstMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := rng.IntN(300)
		s, m := NewSet(n), map[int]bool{}
		for range n {
			i := rng.IntN(n)
			if rng.IntN(3) > 0 {
				if s.Add(i) == m[i] {
					t.Fatalf("Add(%d) on %d pieces is wrong about what was new", i, n)
				}
				m[i] = true
			} else {
				if s.Remove(i) != m[i] {
					t.Fatalf("Remove(%d) is wrong about what was there", i)
				}
				delete(m, i)
			}
		}
		if s.Count() != len(m) || s.Full() != (len(m) == n) {
			t.Fatalf("Count() = %d, want %d", s.Count(), len(m))
		}
		in := NewSet(n)
		for r := range s.Ranges() {
			in.AddRange(r)
			if s.Has(r.Lo-1) || s.Has(r.Hi) {
				t.Fatalf("run %v is not maximal", r)
			}
			for i := r.Lo; i < r.Hi; i++ {
				if !m[i] {
					t.Fatalf("Ranges has %d", i)
				}
			}
		}
		for r := range s.Missing() {
			for i := r.Lo; i < r.Hi; i++ {
				if m[i] {
					t.Fatalf("Missing has %d", i)
				}
			}
			in.AddRange(r)
		}
		if !in.Full() {
			t.Fatalf("runs in and out cover %d of %d", in.Count(), n)
		}
		if !in.Covers(s) || s.Covers(in) != s.Full() {
			t.Fatalf("%d of %d pieces cover all: %v; all cover them: %v", s.Count(), n, s.Covers(in), in.Covers(s))
		}
		back, err := ParseSet(s.Append(nil), n)
		if err != nil || !slices.Equal(back.words, s.words) || back.count != s.count {
			t.Fatalf("ParseSet(Append) over %d pieces: %v", n, err)
		}
	}
}

func FuzzParseSet(f *testing.F) {
	f.Add([]byte{0xff, 0x01}, uint16(9))
	f.Add([]byte{0xff, 0x03}, uint16(9))
	f.Fuzz(func(t *testing.T, b []byte, pieces uint16) {
		s, err := ParseSet(b, int(pieces))
		if err != nil {
			return
		}
		if got := s.Append(nil); !slices.Equal(got, b) {
			t.Fatalf("read %x, wrote %x", b, got)
		}
	})
}

var algorithms = []Algorithm{CRC64NVME, CRC32C, CRC32}

// The check values of the string "123456789" are those of the CRC catalogue
// (reveng.sourceforge.io, CRC-64/NVME, CRC-32/ISCSI, CRC-32/ISO-HDLC).
func TestCheckValues(t *testing.T) {
	for a, want := range map[Algorithm]uint64{CRC64NVME: 0xae8b14860a799888, CRC32C: 0xe3069283, CRC32: 0xcbf43926} {
		if got := a.Update(0, []byte("123456789")); got != want {
			t.Errorf("%s: %#x, want %#x", a, got, want)
		}
	}
}

func TestCombine(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, a := range algorithms {
		for range 300 {
			b := make([]byte, rng.IntN(5000))
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			k := 0
			if len(b) > 0 {
				k = rng.IntN(len(b) + 1)
			}
			got := a.Combine(a.Update(0, b[:k]), a.Update(0, b[k:]), unit.Bytes(len(b)-k))
			if want := a.Update(0, b); got != want {
				t.Fatalf("%s: combined %d + %d bytes to %#x, want %#x", a, k, len(b)-k, got, want)
			}
		}
	}
}

func TestChecksumVerify(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	data := make([]byte, 10_000)
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	for _, a := range algorithms {
		l := Layout{Size: 10_000, Piece: 512}
		sums := make([]uint64, l.Count())
		for i := range sums {
			off, n := l.Span(i)
			sums[i] = a.Update(0, data[off:off+n])
		}
		full := Checksum{Algorithm: a, Value: a.Encode(a.Update(0, data))}

		var parts []byte
		for off := 0; off < len(data); off += 2048 {
			h := a.New()
			h.Write(data[off:min(off+2048, len(data))])
			parts = h.Sum(parts)
		}
		composite := Checksum{Algorithm: a, Part: 2048, Value: a.Encode(a.Update(0, parts)) + "-5"}

		for _, c := range []Checksum{full, composite} {
			if !c.Usable(l) {
				t.Fatalf("%+v is not usable", c)
			}
			if err := c.Verify(l, sums); err != nil {
				t.Errorf("%+v: %v", c, err)
			}
			bad := slices.Clone(sums)
			bad[7] ^= 1
			if c.Verify(l, bad) == nil {
				t.Errorf("%+v: a wrong piece passes", c)
			}
		}
		if (Checksum{Algorithm: a, Value: composite.Value, Part: 2000}).Usable(l) {
			t.Error("parts that pieces do not divide are usable")
		}
		if (Checksum{Algorithm: a, Value: composite.Value}).Usable(l) {
			t.Error("a composite without its part size is usable")
		}
	}
	if (Checksum{Algorithm: "SHA256", Value: "x"}).Usable(Layout{Size: 1, Piece: 1}) {
		t.Error("SHA256 is usable")
	}
}

func BenchmarkCombine(b *testing.B) {
	for _, a := range algorithms {
		b.Run(string(a), func(b *testing.B) {
			for i := range b.N {
				a.Combine(uint64(i), 12345, 4*unit.MiB)
			}
		})
	}
}

func BenchmarkDigest(b *testing.B) {
	l := Layout{Size: unit.TiB, Piece: 16 * unit.MiB}
	sums := make([]uint64, l.Count())
	for b.Loop() {
		l.Digest(CRC64NVME, sums)
	}
}

func BenchmarkVerifyParts(b *testing.B) {
	l := Layout{Size: unit.TiB, Piece: 16 * unit.MiB}
	sums := make([]uint64, l.Count())
	c := Checksum{Algorithm: CRC64NVME, Part: 128 * unit.MiB, Value: "AAAAAAAAAAA=-8192"}
	for b.Loop() {
		c.Verify(l, sums)
	}
}
