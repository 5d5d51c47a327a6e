package control

import (
	"crypto/rand"
	"encoding/binary"
	"strings"
	"time"
)

// A job's ID is 12 characters of Crockford's base32 in lower case: 8 of time
// since 2025 in steps of idStep, so that IDs sort by age, and 4 random ones. It
// is safe in file names, subjects and keys.
const (
	idChars  = 12
	idDigits = "0123456789abcdefghjkmnpqrstvwxyz"
	idStep   = 10 * time.Millisecond
)

var idEpoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

func newID(now time.Time) string {
	var r [4]byte
	rand.Read(r[:]) // never fails (crypto/rand)
	v := uint64(max(now.Sub(idEpoch), 0)/idStep)<<20 | uint64(binary.BigEndian.Uint32(r[:])&(1<<20-1))
	var b [idChars]byte
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = idDigits[v&31]
		v >>= 5
	}
	return string(b[:])
}

// idTime is when an ID was made, in steps of idStep; of what is none it is the epoch.
func idTime(id string) time.Time {
	if len(id) != idChars {
		return idEpoch
	}
	var steps time.Duration
	for _, c := range []byte(id[:8]) {
		k := strings.IndexByte(idDigits, c)
		if k < 0 {
			return idEpoch
		}
		steps = steps<<5 | time.Duration(k)
	}
	return idEpoch.Add(steps * idStep)
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
