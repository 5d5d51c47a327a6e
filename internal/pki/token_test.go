package pki

import (
	"errors"
	"strings"
	"testing"
)

// goldenToken is all bytes in order: version 01, id 01…07, secret 08…17,
// authority 18…37, checksum.
const goldenToken = "freshet_aeaqeayeaudaocajbifqydiob4ibceqtcqkrmfyydenbwha5dypsaijcemsckjrhfausukzmfuxc6mbrgiztinjwg6p3oqwq"

func TestTokenRoundTrip(t *testing.T) {
	a := authority(t)
	token, err := NewToken(a.Fingerprint())
	if err != nil {
		t.Fatal(err)
	}
	text := token.Encode()
	if len(text) != len(tokenPrefix)+tokenChars || !strings.HasPrefix(text, tokenPrefix) {
		t.Errorf("token is %q, want %d characters after %q", text, tokenChars, tokenPrefix)
	}
	for _, s := range []string{text, " " + text + "\n"} {
		if got, err := ParseToken(s); err != nil || got != token {
			t.Errorf("parsed %v, %v, want %v", got, err, token)
		}
	}
	if again, _ := NewToken(a.Fingerprint()); again.ID == token.ID || again.Secret == token.Secret {
		t.Error("two tokens are alike")
	}
	if !SecretMatches(HashSecret(token.Secret), token.Secret) {
		t.Error("secret does not match its hash")
	}
	if SecretMatches(HashSecret(token.Secret), Secret{}) || SecretMatches("", token.Secret) {
		t.Error("a wrong secret matches")
	}
}

func TestTokenGolden(t *testing.T) {
	token := Token{ID: "01020304050607", CAFingerprint: "18191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637"}
	for i := range token.Secret {
		token.Secret[i] = byte(8 + i)
	}
	if got := token.Encode(); got != goldenToken {
		t.Errorf("token is %s, want %s", got, goldenToken)
	}
}

func TestDamagedTokens(t *testing.T) {
	token, _ := NewToken(authority(t).Fingerprint())
	text := token.Encode()
	for n := len(tokenPrefix); n < len(text); n++ {
		if _, err := ParseToken(text[:n]); !errors.Is(err, ErrDamagedToken) {
			t.Errorf("first %d characters: %v, want ErrDamagedToken", n, err)
		}
	}
	for i := len(tokenPrefix); i < len(text); i++ {
		other := byte('a')
		if text[i] == other {
			other = 'b'
		}
		if _, err := ParseToken(text[:i] + string(other) + text[i+1:]); !errors.Is(err, ErrDamagedToken) {
			t.Errorf("character %d changed: %v, want ErrDamagedToken", i, err)
		}
	}
	for _, s := range []string{text + "a", strings.Replace(text, "a", "\n", 1) + "\n", strings.ToUpper(text), "", "hello", text[1:]} {
		_, err := ParseToken(s)
		if err == nil {
			t.Errorf("parsed %q", s)
		} else if len(s) > 20 && strings.Contains(err.Error(), s[10:20]) {
			t.Errorf("error repeats the token: %v", err)
		}
	}
}

func TestNewTokenWantsAFingerprint(t *testing.T) {
	for _, s := range []string{"", "abc", strings.Repeat("g", 64), strings.Repeat("a", 62)} {
		if _, err := NewToken(s); err == nil {
			t.Errorf("made a token for the authority %q", s)
		}
	}
}

func FuzzToken(f *testing.F) {
	token, _ := NewToken(strings.Repeat("5a", 32))
	f.Add(token.Encode())
	f.Add(token.Encode()[:50])
	f.Add("freshet_")
	f.Fuzz(func(t *testing.T, s string) {
		token, err := ParseToken(s)
		if err != nil {
			return
		}
		if got, want := token.Encode(), strings.TrimSpace(s); got != want {
			t.Errorf("parsed and encoded again: %q, want %q", got, want)
		}
	})
}

func FuzzCredentials(f *testing.F) {
	a, err := NewAuthority()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(a.CertificatePEM()))
	req, err := NewRequest()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(req.CSR())
	f.Fuzz(func(t *testing.T, b []byte) {
		parsePEM(b)
		requestedKey(b)
	})
}
