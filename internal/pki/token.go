package pki

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

// A token as text is "freshet_" and 96 characters of lower-case base32 (RFC
// 4648, no padding: one word, which a double click selects) of 60 bytes:
//
//	offset  size  field     meaning
//	0       1     version   1
//	1       7     id        names the token on the hub
//	8       16    secret    random
//	24      32    authority SHA-256 of the cluster's authority certificate
//	56      4     checksum  CRC-32C of what precedes, big endian: recognises a damaged paste, protects nothing
const (
	tokenPrefix  = "freshet_"
	tokenVersion = 1
	tokenBytes   = 60
	tokenChars   = 96
)

var (
	base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
	castagnoli  = crc32.MakeTable(crc32.Castagnoli)
)

// ErrDamagedToken is a token of which a part is missing or changed.
var ErrDamagedToken = errors.New("token is damaged")

// Secret is the part of a token that must not be told. It prints as
// "(secret)".
type Secret [16]byte

// Format hides the secret, whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { io.WriteString(f, "(secret)") }

// MarshalText hides the secret from encoders: a token travels only as Encode.
func (Secret) MarshalText() ([]byte, error) { return []byte("(secret)"), nil }

// Token lets a machine join the cluster of CAFingerprint.
type Token struct {
	ID            string // 14 hex digits; may be shown
	Secret        Secret
	CAFingerprint string // 64 hex digits
}

// NewToken makes a token for the cluster whose authority has that fingerprint.
func NewToken(caFingerprint string) (Token, error) {
	if b, err := hex.DecodeString(caFingerprint); err != nil || len(b) != sha256.Size {
		return Token{}, fmt.Errorf("make a token: %q is not an authority's fingerprint", cut(caFingerprint, 80))
	}
	var id [7]byte
	t := Token{CAFingerprint: strings.ToLower(caFingerprint)}
	rand.Read(id[:]) // never fails (crypto/rand)
	rand.Read(t.Secret[:])
	t.ID = hex.EncodeToString(id[:])
	return t, nil
}

// Encode is the token as text, secret and all: for the one who may join, and
// for nobody's log. ParseToken reads it. A token that neither NewToken nor
// ParseToken made panics.
func (t Token) Encode() string {
	b := make([]byte, 0, tokenBytes)
	b = append(b, tokenVersion)
	id, err := hex.DecodeString(t.ID)
	ca, err2 := hex.DecodeString(t.CAFingerprint)
	if err != nil || err2 != nil || len(id) != 7 || len(ca) != sha256.Size {
		panic("pki: token with a malformed id or fingerprint")
	}
	b = append(b, id...)
	b = append(b, t.Secret[:]...)
	b = append(b, ca...)
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return tokenPrefix + base32Lower.EncodeToString(b)
}

// String names the token without its secret.
func (t Token) String() string { return "token " + t.ID }

// ParseToken reads what Encode wrote, with or without white space around it.
// No error repeats the text, which may hold a secret.
func ParseToken(s string) (Token, error) {
	body, ok := strings.CutPrefix(strings.TrimSpace(s), tokenPrefix)
	if !ok {
		return Token{}, fmt.Errorf("this is not a token: want one that begins with %q, as \"freshet token\" prints it", tokenPrefix)
	}
	if len(body) != tokenChars {
		return Token{}, fmt.Errorf("%w: it has %d characters, not %d; copy it again", ErrDamagedToken, len(tokenPrefix)+len(body), len(tokenPrefix)+tokenChars)
	}
	b, err := base32Lower.DecodeString(body)
	if err != nil || len(b) != tokenBytes {
		return Token{}, fmt.Errorf("%w: it holds characters that no token has; copy it again", ErrDamagedToken)
	}
	if binary.BigEndian.Uint32(b[56:]) != crc32.Checksum(b[:56], castagnoli) {
		return Token{}, fmt.Errorf("%w: its checksum does not match; copy it again", ErrDamagedToken)
	}
	if b[0] != tokenVersion {
		return Token{}, fmt.Errorf("token is of version %d, this program knows version %d: the hub runs another version of Freshet", b[0], tokenVersion)
	}
	t := Token{ID: hex.EncodeToString(b[1:8]), CAFingerprint: hex.EncodeToString(b[24:56])}
	copy(t.Secret[:], b[8:24])
	return t, nil
}

// HashSecret is what the hub keeps of a token's secret: its SHA-256 in hex. The
// secret is 128 random bits, so it needs neither salt nor stretching.
func HashSecret(s Secret) string {
	sum := sha256.Sum256(s[:])
	return hex.EncodeToString(sum[:])
}

// SecretMatches says whether s is the secret of that hash, in a time that does
// not depend on where they differ.
func SecretMatches(hash string, s Secret) bool {
	return subtle.ConstantTimeCompare([]byte(HashSecret(s)), []byte(hash)) == 1
}
