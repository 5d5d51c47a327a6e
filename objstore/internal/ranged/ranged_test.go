package ranged

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/unit"
)

func TestCheck(t *testing.T) {
	const size = 100
	for _, tt := range []struct {
		off, n unit.Bytes
		ranges bool
		ok     bool
	}{
		{0, 100, true, true}, {0, 100, false, true}, {0, 0, true, true}, {100, 0, true, true},
		{99, 1, true, true}, {99, 1, false, false}, {0, 99, false, false}, {100, 0, false, true},
		{100, 1, true, false}, {0, 101, true, false}, {-1, 1, true, false}, {0, -1, true, false},
		{1, 1<<63 - 1, true, false}, {1<<63 - 1, 1<<63 - 1, true, false},
	} {
		err := Check(objstore.Object{Size: size, Ranges: tt.ranges}, tt.off, tt.n)
		if got := err == nil; got != tt.ok {
			t.Errorf("%d+%d of %d, ranges %v: got %v, want ok %v", tt.off, tt.n, size, tt.ranges, err, tt.ok)
		}
		if objstore.Temporary(err) {
			t.Errorf("%v is temporary", err)
		}
	}
}

func TestReader(t *testing.T) {
	broken := errors.New("broken")
	for _, tt := range []struct {
		name string
		r    io.Reader
		n    unit.Bytes
		want string
		err  error
	}{
		{"exact", strings.NewReader("abcd"), 4, "abcd", nil},
		{"byte by byte", iotest.OneByteReader(strings.NewReader("abcd")), 4, "abcd", nil},
		{"end with data", iotest.DataErrReader(strings.NewReader("abcd")), 4, "abcd", nil},
		{"short", strings.NewReader("abc"), 4, "abc", io.ErrUnexpectedEOF},
		{"short with data", iotest.DataErrReader(strings.NewReader("abc")), 4, "abc", io.ErrUnexpectedEOF},
		{"empty", strings.NewReader(""), 4, "", io.ErrUnexpectedEOF},
		{"nothing", strings.NewReader(""), 0, "", nil},
		{"long", strings.NewReader("abcde"), 4, "", ErrLong},
		{"broken", io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(broken)), 4, "ab", broken},
	} {
		got, err := io.ReadAll(Reader(tt.r, tt.n))
		if string(got) != tt.want || !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
			t.Errorf("%s: got %q, %v; want %q, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
}
