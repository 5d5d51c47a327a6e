package control

import (
	"crypto/rand"
	"encoding/binary"
	"time"
)

// A job's ID is 12 characters of Crockford's base32 in lower case: 8 of time
// since 2025 in steps of 10 ms, so that IDs sort by age, and 4 random ones. It
// is safe in file names, subjects and keys.
const (
	idChars  = 12
	idDigits = "0123456789abcdefghjkmnpqrstvwxyz"
)

var idEpoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

func newID(now time.Time) string {
	var r [4]byte
	rand.Read(r[:]) // never fails (crypto/rand)
	v := uint64(max(now.Sub(idEpoch), 0)/(10*time.Millisecond))<<20 | uint64(binary.BigEndian.Uint32(r[:])&(1<<20-1))
	var b [idChars]byte
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = idDigits[v&31]
		v >>= 5
	}
	return string(b[:])
}

// isIDPrefix says whether s could be a job's ID or the beginning of one.
func isIDPrefix(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= idChars
}
