package piece

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"strings"

	"github.com/minio/crc64nvme"

	"github.com/freshet/freshet/unit"
)

// Algorithm is a cyclic redundancy check whose values over neighbouring bytes
// combine to the value over both, which is what lets pieces that arrive in any
// order, from anywhere, prove the whole without reading it again.
type Algorithm string

// The algorithms that object stores keep for whole objects (Amazon S3,
// "Checking object integrity", full-object checksum types).
const (
	CRC64NVME Algorithm = "CRC64NVME" // the default
	CRC32C    Algorithm = "CRC32C"    // Castagnoli
	CRC32     Algorithm = "CRC32"     // IEEE 802.3
)

// reversed is the algorithm's polynomial, least significant bit first, and its
// width in bits.
func (a Algorithm) reversed() (poly uint64, width int) {
	switch a {
	case CRC64NVME:
		return 0x9a6c9329ac4bc9b5, 64
	case CRC32C:
		return crc32.Castagnoli, 32
	case CRC32:
		return crc32.IEEE, 32
	}
	panic("piece: unknown digest algorithm " + string(a))
}

// Valid says whether a is one of the three.
func (a Algorithm) Valid() bool { return a == CRC64NVME || a == CRC32C || a == CRC32 }

// Size is the length of a value in bytes: 8 or 4.
func (a Algorithm) Size() int {
	_, w := a.reversed()
	return w / 8
}

// castagnoli is Go's table with the processor's instruction behind it.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Update returns the digest of what sum covers followed by p. The digest of
// nothing is 0.
func (a Algorithm) Update(sum uint64, p []byte) uint64 {
	switch a {
	case CRC64NVME:
		return crc64nvme.Update(sum, p)
	case CRC32C:
		return uint64(crc32.Update(uint32(sum), castagnoli, p))
	case CRC32:
		return uint64(crc32.Update(uint32(sum), crc32.IEEETable, p))
	}
	panic("piece: unknown digest algorithm " + string(a))
}

// New returns the algorithm as a hash.Hash.
func (a Algorithm) New() hash.Hash {
	switch a {
	case CRC64NVME:
		return crc64nvme.New()
	case CRC32C:
		return crc32.New(castagnoli)
	case CRC32:
		return crc32.NewIEEE()
	}
	panic("piece: unknown digest algorithm " + string(a))
}

// Combine returns the digest of AB, given sum1 of A, and sum2 of B, which is
// n2 bytes long. It costs O(log n2) products of polynomials of the
// algorithm's width modulo its polynomial: appending n2 bytes multiplies
// A's remainder by x^(8·n2) (Williams, "A painless guide to CRC error
// detection algorithms"; zlib, crc32_combine).
func (a Algorithm) Combine(sum1, sum2 uint64, n2 unit.Bytes) uint64 {
	if n2 <= 0 {
		return sum1
	}
	return a.Combiner(n2)(sum1, sum2)
}

// Combiner is Combine for an n2 above zero: many parts of one length cost one product each.
func (a Algorithm) Combiner(n2 unit.Bytes) func(sum1, sum2 uint64) uint64 {
	poly, width := a.reversed()
	shift := uint64(1) << (width - 1)  // x^0, least significant bit first
	square := uint64(1) << (width - 9) // x^8
	for n := uint64(n2); n != 0; n >>= 1 {
		if n&1 != 0 {
			shift = mulmod(shift, square, poly, width)
		}
		square = mulmod(square, square, poly, width)
	}
	return func(sum1, sum2 uint64) uint64 { return mulmod(sum1, shift, poly, width) ^ sum2 }
}

// mulmod multiplies two polynomials over GF(2), modulo poly, all three with
// the highest power in the least significant bit.
func mulmod(a, b, poly uint64, width int) (p uint64) {
	for m := uint64(1) << (width - 1); m != 0; m >>= 1 {
		if a&m != 0 {
			p ^= b
		}
		if b&1 != 0 {
			b = b>>1 ^ poly
		} else {
			b >>= 1
		}
	}
	return p
}

// Encode prints sum as stores do: base64 of the big-endian value.
func (a Algorithm) Encode(sum uint64) string {
	b := binary.BigEndian.AppendUint64(nil, sum)
	return base64.StdEncoding.EncodeToString(b[8-a.Size():])
}

// Decode reads what Encode prints.
func (a Algorithm) Decode(s string) (uint64, error) {
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s))
	if err != nil || len(b) != a.Size() {
		return 0, fmt.Errorf("%q is not a %s value", s, a)
	}
	return binary.BigEndian.Uint64(append(make([]byte, 8-len(b)), b...)), nil
}
