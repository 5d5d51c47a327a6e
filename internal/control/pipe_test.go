package control

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPayload(t *testing.T) {
	for line, want := range map[string]int{
		"PUB up.n1.beat 5\r\n":              7,
		"pub up.n1.beat _INBOX.x 0\r\n":     2,
		"HPUB\tup.n1.status\t12 300\n":      302,
		"PUB up.n1.beat -1\r\n":             0, // the server refuses these
		"PUB up.n1.beat 99999999999999\r\n": 0,
		"PUB up.n1.beat\r\n":                0,
		"SUB down.n1.* 5\r\n":               0,
		"PING\r\n":                          0,
		"\r\n":                              0,
	} {
		if got := payload([]byte(line)); got != want {
			t.Errorf("%q is followed by %d bytes, want %d", line, got, want)
		}
	}
}

// TestPassHoldsBack: messages and bytes each have a rate of their own, and the
// lines in what is published are no messages.
func TestPassHoldsBack(t *testing.T) {
	lines := strings.Repeat("a line\n", 20_000)
	for _, tt := range []struct {
		name, said string
		want       time.Duration
	}{
		{"one message of many lines", "PUB x 140000\r\n" + lines + "\r\n", 0},
		{"many messages", strings.Repeat("PUB x 1\r\n1\r\n", 1500), 10 * time.Second},
		{"many bytes", "PUB x 16777216\r\n" + strings.Repeat("1", 16<<20) + "\r\n", 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got bytes.Buffer
			began := time.Now()
			if err := pass(t.Context(), &got, bufio.NewReaderSize(strings.NewReader(tt.said), maxLine)); err != nil {
				t.Fatal(err)
			}
			if got.String() != tt.said {
				t.Errorf("%s: %d bytes arrived, and not those %d that were said", tt.name, got.Len(), len(tt.said))
			}
			if took := time.Since(began); took.Round(time.Second) != tt.want {
				t.Errorf("%s took %v, want %v", tt.name, took, tt.want)
			}
		})
	}
}

// FuzzPass: whatever a client says, the server hears nothing else.
func FuzzPass(f *testing.F) {
	f.Add([]byte("PING\r\nPUB a 3\r\nxyz\r\nSUB a 1\r\n"))
	f.Add([]byte("HPUB a 5 900\r\nxyz"))
	f.Add([]byte("PUB a 2147483647\r\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		if bytes.Count(said, []byte{'\n'}) > messagesAtOnce || len(said) > bytesAtOnce {
			return // would wait
		}
		var got bytes.Buffer
		err := pass(t.Context(), &got, bufio.NewReaderSize(bytes.NewReader(said), maxLine))
		if !bytes.HasPrefix(said, got.Bytes()) || err == nil && got.Len() != len(said) {
			t.Errorf("%q was said, and %q arrived (%v)", said, got.Bytes(), err)
		}
	})
}
