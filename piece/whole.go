package piece

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/freshet/freshet/unit"
)

// Checksum is what a store keeps for a whole object. The zero Checksum means
// that the store has none that digests of pieces could prove.
type Checksum struct {
	Algorithm Algorithm  `json:"algorithm,omitempty"`
	Value     string     `json:"value,omitempty"` // base64; "…-N" is composite: the digest of the N parts' digests
	Part      unit.Bytes `json:"part,omitempty"`  // size of every part but the last; only for composite values
}

// Composite says whether the value is a digest of parts' digests, and of how many.
func (c Checksum) Composite() (parts int, ok bool) {
	_, n, found := strings.Cut(c.Value, "-")
	if !found {
		return 0, false
	}
	parts, err := strconv.Atoi(n)
	return parts, err == nil && parts > 0
}

// Usable says whether digests of pieces of layout l, made with c.Algorithm,
// combine to something that c can be held against.
func (c Checksum) Usable(l Layout) bool {
	if c.Value == "" || !c.Algorithm.Valid() {
		return false
	}
	parts, composite := c.Composite()
	if !composite {
		return !strings.Contains(c.Value, "-")
	}
	return c.Part > 0 && l.Piece > 0 && c.Part%l.Piece == 0 &&
		unit.Bytes(parts) == (l.Size+c.Part-1)/c.Part
}

// Digest is the digest of the whole object from those of its pieces: sums[i]
// is piece i's, len(sums) = l.Count().
func (l Layout) Digest(a Algorithm, sums []uint64) uint64 {
	return l.combiner(a).digest(sums, Range{0, len(sums)})
}

// combiner combines digests of neighbouring pieces of a layout. What a length costs it works out once, as long as the next piece has it, too: most have.
type combiner struct {
	layout    Layout
	algorithm Algorithm
	join      func(sum1, sum2 uint64) uint64
	size      unit.Bytes // that join is for
}

func (l Layout) combiner(a Algorithm) *combiner { return &combiner{layout: l, algorithm: a} }

// digest is that of the pieces of r, sums[i] being piece i's.
func (c *combiner) digest(sums []uint64, r Range) (sum uint64) {
	for i := r.Lo; i < r.Hi; i++ {
		if i == r.Lo {
			sum = sums[i]
			continue
		}
		if _, n := c.layout.Span(i); n != c.size {
			c.join, c.size = c.algorithm.Combiner(n), n
		}
		sum = c.join(sum, sums[i])
	}
	return sum
}

// Verify holds the digests of all pieces, sums[i] being piece i's, against c.
// It returns nil if they prove it, and an error that names both values if
// not. c must be Usable with l.
func (c Checksum) Verify(l Layout, sums []uint64) error {
	if len(sums) != l.Count() {
		return fmt.Errorf("digests of %d pieces for an object of %d", len(sums), l.Count())
	}
	got := ""
	if parts, composite := c.Composite(); composite {
		perPart, whole := int(c.Part/l.Piece), l.combiner(c.Algorithm)
		var all []byte
		for p := range parts {
			r := Range{p * perPart, min((p+1)*perPart, len(sums))}
			b := binary.BigEndian.AppendUint64(nil, whole.digest(sums, r))
			all = append(all, b[8-c.Algorithm.Size():]...)
		}
		b := binary.BigEndian.AppendUint64(nil, c.Algorithm.Update(0, all))
		got = base64.StdEncoding.EncodeToString(b[8-c.Algorithm.Size():]) + "-" + strconv.Itoa(parts)
	} else {
		got = c.Algorithm.Encode(l.Digest(c.Algorithm, sums))
	}
	if got != c.Value {
		return fmt.Errorf("the pieces make %s %s, the store says %s", c.Algorithm, got, c.Value)
	}
	return nil
}
