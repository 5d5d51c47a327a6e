package peer

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"
)

// golden reads annotated hex: bytes on the left of "|", words on the right;
// a line without "|" is a comment; "## name" begins an item.
func golden(t *testing.T) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/wire.hex")
	if err != nil {
		t.Fatal(err)
	}
	items, name := map[string][]byte{}, ""
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "## "); ok {
			name = strings.TrimSpace(n)
			continue
		}
		left, _, ok := strings.Cut(line, "|")
		if !ok {
			continue
		}
		b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(left), " ", ""))
		if err != nil {
			t.Fatalf("testdata/wire.hex: %q: %v", line, err)
		}
		items[name] = append(items[name], b...)
	}
	return items
}

func TestGoldenWire(t *testing.T) {
	want := golden(t)
	for name, got := range map[string][]byte{
		"hello":   hello{Name: "node-37", Job: "b-01JX"}.Append(nil),
		"frame":   header{Kind: 3, Len: 262148}.Append(nil),
		"ping":    header{Kind: KindPing}.Append(nil),
		"welcome": header{Kind: kindWelcome}.Append(nil),
		"refusal": appendRefusal(header{Kind: kindRefusal, Len: 14}.Append(nil), UnknownJob, "b-01JX is\x00"),
	} {
		if !bytes.Equal(got, want[name]) {
			t.Errorf("%s is\n%swant\n%s", name, hex.Dump(got), hex.Dump(want[name]))
		}
	}
}

func TestEveryTruncationFails(t *testing.T) {
	h := hello{Name: "node-37", Job: "b-01JX"}.Append(nil)
	for n := range h {
		if _, _, err := parseHello(h[:n]); err == nil {
			t.Errorf("parsed the first %d of %d bytes of a hello", n, len(h))
		}
	}
	f := header{Kind: 3, Len: 5}.Append(nil)
	for n := range f {
		if _, _, err := parseHeader(f[:n]); err == nil {
			t.Errorf("parsed the first %d of %d bytes of a frame header", n, len(f))
		}
	}
	r := appendRefusal(nil, Busy, "")
	for n := range r {
		if _, _, err := parseRefusal(r[:n]); err == nil {
			t.Errorf("parsed the first %d of %d bytes of a refusal", n, len(r))
		}
	}
}

func TestParseRefuses(t *testing.T) {
	good := hello{Name: "node-37", Job: "b-01JX"}.Append(nil)
	change := func(i int, v byte) []byte { b := bytes.Clone(good); b[i] = v; return b }
	for name, b := range map[string][]byte{
		"magic":           change(0, 'G'),
		"length":          change(7, 131),
		"reserved":        change(8, 1),
		"empty name":      change(10, 0),
		"long name":       change(10, 65),
		"name in capital": change(12, 'N'),
		"name not padded": change(70, 'x'),
		"job with slash":  change(76, '/'),
		"job not padded":  change(139, 'x'),
	} {
		if h, _, err := parseHello(b); err == nil {
			t.Errorf("%s: parsed %+v, want an error", name, h)
		}
	}
	_, _, err := parseHello(change(5, 9))
	if v, ok := errors.AsType[*VersionError](err); !ok || v.Theirs != 9 || v.Ours != Version {
		t.Errorf("hello of version 9: %v, want a VersionError of 9 and %d", err, Version)
	}
	for name, b := range map[string][]byte{
		"too long":       {1, 0, 0, 0, 0, 4, 0, 65},
		"huge":           {1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff},
		"flags":          {1, 1, 0, 0, 0, 0, 0, 0},
		"reserved":       {1, 0, 0, 1, 0, 0, 0, 0},
		"ping with body": {0, 0, 0, 0, 0, 0, 0, 1},
		"short refusal":  {255, 0, 0, 0, 0, 0, 0, 3},
		"long refusal":   {255, 0, 0, 0, 0, 0, 2, 5},
	} {
		if h, _, err := parseHeader(b); err == nil {
			t.Errorf("%s: parsed %+v, want an error", name, h)
		}
	}
	if h, _, err := parseHeader([]byte{1, 0, 0, 0, 0, 4, 0, 64}); err != nil || h.Len != MaxFrame {
		t.Errorf("longest frame: %+v, %v, want it parsed", h, err)
	}
}

func TestPrintable(t *testing.T) {
	for _, tc := range []struct {
		in   string
		n    int
		want string
	}{
		{"plain", 10, "plain"},
		{"\x1b[31mred\r\n", 20, "?[31mred"},
		{" two\t\r\n lines\u2028", 10, "two lines"},
		{"two lines and more", 10, "two lin…"},
		{"a line", 2, "a"},
		{"\xff\xfe", 10, "??"},
		{"grün", 10, "grün"},
		{"right\u202eto left", 20, "right?to left"},
		{"üüü", 6, "üüü"},
		{"üüü", 5, "ü…"},
	} {
		if got := Printable(tc.in, tc.n); got != tc.want {
			t.Errorf("Printable(%q, %d) = %q, want %q", tc.in, tc.n, got, tc.want)
		} else if again := Printable(got, tc.n); again != got {
			t.Errorf("Printable(%q, %d) = %q, want the same again", got, tc.n, again)
		}
	}
}

func FuzzHello(f *testing.F) {
	f.Add(hello{Name: "node-37", Job: "b-01JX"}.Append(nil))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := parseHello(b)
		if err != nil {
			return
		}
		if got := h.Append(nil); !bytes.Equal(got, b[:n]) {
			t.Errorf("parsed and appended again:\n%swant\n%s", hex.Dump(got), hex.Dump(b[:n]))
		}
	})
}

func FuzzFrameHeader(f *testing.F) {
	f.Add(header{Kind: 3, Len: MaxFrame}.Append(nil))
	f.Add(header{Kind: KindPing}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := parseHeader(b)
		if err != nil {
			return
		}
		if got := h.Append(nil); !bytes.Equal(got, b[:n]) {
			t.Errorf("parsed and appended again: %x, want %x", got, b[:n])
		}
	})
}

func FuzzRefusal(f *testing.F) {
	f.Add(appendRefusal(nil, Busy, "try later"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, text, err := parseRefusal(b)
		if err != nil {
			return
		}
		got := appendRefusal(nil, c, text)
		if len(got) > refusalBytes+maxText {
			t.Errorf("%d bytes appended, want at most %d", len(got), refusalBytes+maxText)
		}
		if Printable(text, maxText) == text && !bytes.Equal(got, b) {
			t.Errorf("parsed and appended again: %x, want %x", got, b)
		}
		// What is not printable is made so on the way out, and stays so.
		if _, again, _ := parseRefusal(got); Printable(again, maxText) != again {
			t.Errorf("%q is not printable", again)
		}
	})
}
