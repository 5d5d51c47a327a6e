package swarm

import (
	"bytes"
	"encoding/hex"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/internal/access"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

var wireLayout = piece.Layout{Size: 10*unit.MiB + 100, Piece: unit.MiB}

// messages are one of each kind that has a payload: how it is written, and how
// it is read and written again.
var messages = []struct {
	name  string
	bytes []byte
	again func(b []byte) ([]byte, error)
}{
	{"bitfield", appendBitfield(nil, set(11, 0, 3, 10)), func(b []byte) ([]byte, error) {
		s, err := parseBitfield(b, 11)
		if err != nil {
			return nil, err
		}
		return appendBitfield(nil, s), nil
	}},
	{"have", appendHave(nil, []piece.Range{{Lo: 0, Hi: 2}, {Lo: 10, Hi: 11}}), func(b []byte) ([]byte, error) {
		rs, err := parseHave(b, 11)
		return appendHave(nil, rs), err
	}},
	{"digests", appendDigests(nil, []digest{{7, exchange.Entry{Sum: 0x0123456789abcdef, Reader: 2, Term: 1}}}), func(b []byte) ([]byte, error) {
		ds, err := parseDigests(b, 11, 3)
		return appendDigests(nil, ds), err
	}},
	{"request", appendRequest(nil, exchange.Request{Piece: 9, Lo: 1, Hi: 4}), func(b []byte) ([]byte, error) {
		r, err := parseRequest(b, wireLayout)
		return appendRequest(nil, r), err
	}},
	{"block", appendBlockHeader(nil, blockHeader{10, 0}), func(b []byte) ([]byte, error) {
		h, err := parseBlockHeader(b, len(b)+100, wireLayout)
		return appendBlockHeader(nil, h), err
	}},
	{"works", appendWorks(nil, []steal.Hand{{Lo: 51, Hi: 64, Term: 1}}), func(b []byte) ([]byte, error) {
		hs, err := parseWorks(b)
		return appendWorks(nil, hs), err
	}},
	{"access", bytes.Repeat([]byte{0xa5}, access.ProofBytes), parseAccess},
	{"giveWork", appendGiveWork(nil, 12, steal.Pace{Free: 300 * time.Millisecond, Each: time.Second}), func(b []byte) ([]byte, error) {
		most, pace, err := parseGiveWork(b)
		return appendGiveWork(nil, most, pace), err
	}},
	{"busy", appendBusy(nil, 1500*time.Millisecond), func(b []byte) ([]byte, error) {
		pause, err := parseBusy(b)
		if err != nil {
			return nil, err
		}
		return appendNumbers(nil, int(pause.Milliseconds())), nil
	}},
	{"unheard", appendNumbers(nil, 1, 4), func(b []byte) ([]byte, error) {
		ranks, err := parseUnheard(b, 5)
		return appendNumbers(nil, ranks...), err
	}},
	{"took", appendTook(nil, steal.Claim{Node: 2, Hands: []steal.Hand{{Lo: 51, Hi: 64, Term: 1}}}), func(b []byte) ([]byte, error) {
		c, err := parseTook(b)
		return appendTook(nil, c), err
	}},
}

func set(n int, pieces ...int) *piece.Set {
	s := piece.NewSet(n)
	for _, p := range pieces {
		s.Add(p)
	}
	return s
}

// testdata/wire.hex has each message in annotated hex: a name, then lines of
// bytes with what they mean behind a #.
func TestGoldenWire(t *testing.T) {
	text, err := os.ReadFile("testdata/wire.hex")
	if err != nil {
		t.Fatal(err)
	}
	golden, name := map[string][]byte{}, ""
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		if n, ok := strings.CutSuffix(line, ":"); ok {
			name = n
			continue
		}
		b, err := hex.DecodeString(strings.ReplaceAll(line, " ", ""))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		golden[name] = append(golden[name], b...)
	}
	for _, m := range messages {
		if !bytes.Equal(m.bytes, golden[m.name]) {
			t.Errorf("%s is %x, the file says %x", m.name, m.bytes, golden[m.name])
		}
		if got, err := m.again(m.bytes); err != nil || !bytes.Equal(got, m.bytes) {
			t.Errorf("%s: read and written again it is %x, %v", m.name, got, err)
		}
	}
}

func TestEveryTruncationFails(t *testing.T) {
	for _, m := range messages {
		for n := range m.bytes {
			if m.name == "have" && n%8 == 0 || m.name == "digests" && n == 0 || m.name == "works" && n == 0 || m.name == "took" && n == 4 || m.name == "unheard" && n == 4 {
				continue // fewer entries is a message too
			}
			if _, err := m.again(m.bytes[:n]); err == nil {
				t.Errorf("%s cut to %d of %d bytes passes", m.name, n, len(m.bytes))
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
	}{
		{"bitfield of another object", second(parseBitfield(appendBitfield(nil, set(12)), 11))},
		{"bitfield with a piece too many", second(parseBitfield(append(appendNumbers(nil, 11), 0, 0xff), 11))},
		{"have of a piece too many", second(parseHave(appendNumbers(nil, 10, 12), 11))},
		{"have of runs that touch", second(parseHave(appendNumbers(nil, 1, 3, 3, 5), 11))},
		{"have of runs out of order", second(parseHave(appendNumbers(nil, 5, 6, 1, 3), 11))},
		{"have of nothing", second(parseHave(appendNumbers(nil, 5, 5), 11))},
		{"digest of no piece", second(parseDigests(appendDigests(nil, []digest{{Piece: 11}}), 11, 3))},
		{"digest by nobody", second(parseDigests(appendDigests(nil, []digest{{Entry: exchange.Entry{Reader: 3}}}), 11, 3))},
		{"nobody unheard", second(parseUnheard(nil, 5))},
		{"unheard out of order", second(parseUnheard(appendNumbers(nil, 3, 3), 5))},
		{"unheard of no member", second(parseUnheard(appendNumbers(nil, 5), 5))},
		{"request of no piece", second(parseRequest(appendNumbers(nil, 11, 0, 1), wireLayout))},
		{"request of too many blocks", second(parseRequest(appendNumbers(nil, 10, 0, 2), wireLayout))},
		{"request of nothing", second(parseRequest(appendNumbers(nil, 1, 2, 2), wireLayout))},
		{"proof that is too long", second(parseAccess(make([]byte, access.ProofBytes+1)))},
		{"a number that is none", second(parseRequest(appendNumbers(nil, -1, 0, 1), wireLayout))},
		{"block of the wrong length", second(parseBlockHeader(appendNumbers(nil, 10, 0), 8+101, wireLayout))},
		{"block that does not exist", second(parseBlockHeader(appendNumbers(nil, 10, 1), 8, wireLayout))},
	} {
		if tt.err == nil {
			t.Errorf("%s passes", tt.name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// Whatever is read is written as it was.
func FuzzMessages(f *testing.F) {
	for i, m := range messages {
		f.Add(uint8(i), m.bytes)
	}
	f.Fuzz(func(t *testing.T, i uint8, b []byte) {
		m := messages[int(i)%len(messages)]
		if m.name == "block" && len(b) > blockHeaderBytes {
			b = b[:blockHeaderBytes]
		}
		got, err := m.again(slices.Clone(b))
		if err == nil && !bytes.Equal(got, b) {
			t.Fatalf("%s: read %x, wrote %x", m.name, b, got)
		}
	})
}

// Whatever a node takes its own pace for, it says nothing that others take for a lie.
func TestPacesAreInRange(t *testing.T) {
	for _, tt := range []struct{ d, want time.Duration }{
		{math.MinInt64, 0}, {-1, 0}, {0, 0}, {1, time.Microsecond}, {1000, time.Microsecond}, {1001, 2 * time.Microsecond}, {math.MaxInt64, math.MaxInt32 * time.Microsecond},
	} {
		_, p, err := parseGiveWork(appendGiveWork(nil, 1, steal.Pace{Free: tt.d, Each: tt.d}))
		if err != nil || p.Free != tt.want || p.Each != tt.want {
			t.Errorf("%d ns: %v, %v; want %v", tt.d, p, err, tt.want)
		}
	}
}
