package fault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/mem"
	"github.com/freshet/freshet/objstore/objstoretest"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// Without a rule that is met, a broken store is the store.
func TestConformance(t *testing.T) {
	var m *mem.Store
	objstoretest.Run(t, objstoretest.Harness{
		Checksum: piece.CRC64NVME, Big: 256 * unit.KiB,
		Open: func(*testing.T) objstore.Store {
			m = mem.New()
			return New(m, MustParse("key=nothing -> denied; read -> delay 1us"))
		},
		Deny: func(_ *testing.T, name string) { m.Deny(name) },
	})
}

func TestParse(t *testing.T) {
	for _, tt := range []struct{ in, want, bad string }{
		{in: "", want: ""},
		{in: "# nothing\n\n ; ;", want: ""},
		{in: "read offset=[1MiB,2MiB) nth=2 -> busy 1s", want: "read offset=[1048576,2097152) nth=2 -> busy 1s"},
		{in: "read -> truncate 4096", want: "read -> truncate 4096"},
		{in: "read first=10s -> 503", want: "read first=10s -> 503"},
		{in: "->429 500ms", want: "any -> 429 500ms"},
		{in: "key=a/* -> flip 12345 # one bit", want: "read key=a/* -> flip 12345"},
		{in: "read -> flip 0", want: "read -> flip 0"},
		{in: "stat -> denied; read -> delay 2s\nread -> stall", want: "stat -> denied\nread -> delay 2s\nread -> stall"},
		{in: "read every=3 times=2 after=1m -> reset 1KiB", want: "read every=3 times=2 after=1m0s -> reset 1024"},
		{in: "-> replace", want: "read -> replace"},

		{in: "read", bad: `no "->"`},
		{in: "\nwrite -> denied", bad: `"write -> denied" in line 2: unknown operation "write"`},
		{in: "read ->", bad: "no action"},
		{in: "read -> explode", bad: `unknown action "explode"`},
		{in: "read -> busy soon", bad: `"soon" is not a duration`},
		{in: "read -> busy 1s 2s", bad: `"1s 2s" is too much`},
		{in: "read -> denied 1s", bad: `"1s" is too much`},
		{in: "read -> delay", bad: "delay needs a duration"},
		{in: "read -> truncate", bad: "truncate needs a number of bytes"},
		{in: "stat -> truncate 1", bad: "truncate befalls a read, not a stat"},
		{in: "stat -> reset 5", bad: "only a read"},
		{in: "stat offset=[0,1) -> denied", bad: "only a read has an offset"},
		{in: "read offset=[2,1) -> denied", bad: "is empty"},
		{in: "read offset=0,1 -> denied", bad: "want [from,to)"},
		{in: "read offset=[x,1) -> denied", bad: `size "x"`},
		{in: "read nth=0 -> denied", bad: "nth=0: want a number from 1"},
		{in: "read nth=1 nth=2 -> denied", bad: "twice"},
		{in: "read nth=1 times=2 -> denied", bad: "nth goes with neither"},
		{in: "read size=3 -> denied", bad: `unknown condition "size"`},
		{in: "read key= -> denied", bad: "want name=value"},
		{in: "read key=[ -> denied", bad: "syntax error in pattern"},
		{in: "read first=-1s -> denied", bad: "not a duration"},
	} {
		rules, err := Parse(tt.in)
		if tt.bad != "" {
			if err == nil || !strings.Contains(err.Error(), tt.bad) {
				t.Errorf("Parse(%q): got %v, want an error with %q", tt.in, err, tt.bad)
			}
			continue
		}
		if got := lines(rules); err != nil || got != tt.want {
			t.Errorf("Parse(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
}

func lines(rules []Rule) string {
	var s []string
	for _, r := range rules {
		s = append(s, r.String())
	}
	return strings.Join(s, "\n")
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"read offset=[1MiB,2MiB) nth=2 -> busy 1s", "read -> truncate 4096;-> reset", "key=a?[b-c] -> flip 0",
		"read every=3 times=2 after=1m first=2h -> reset 1KiB # x\nlist -> stall",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		rules, err := Parse(s)
		if err != nil {
			return
		}
		again, err := Parse(lines(rules))
		if err != nil || fmt.Sprint(again) != fmt.Sprint(rules) {
			t.Fatalf("%q prints as %q, which reads as %v, %v", s, lines(rules), again, err)
		}
	})
}

// Each case is a sequence of reads of [off, off+n) of one object, and what
// becomes of them.
func TestReads(t *testing.T) {
	data := objstoretest.Bytes(1, 10_000)
	const whole = "10000 bytes"
	for _, tt := range []struct {
		rules  string
		reads  [][2]unit.Bytes // nil: thrice the whole
		want   []string
		events int
	}{
		{rules: "", want: []string{whole, whole, whole}},
		{rules: "read nth=2 -> busy 1s", want: []string{whole, "0 bytes, busy 1s", whole}, events: 1},
		{rules: "read times=2 -> 500", want: []string{"0 bytes, temporary", "0 bytes, temporary", whole}, events: 2},
		{rules: "read every=2 -> 429", want: []string{whole, "0 bytes, busy 0s", whole}, events: 1},
		{rules: "read nth=1 -> truncate 4096", want: []string{"4096 bytes, unexpected EOF", whole, whole}, events: 1},
		{rules: "read nth=1 -> reset 10", want: []string{"10 bytes, temporary", whole, whole}, events: 1},
		{rules: "read nth=2 -> reset", want: []string{whole, "0 bytes, temporary", whole}, events: 1},
		{rules: "read nth=3 -> replace 7", want: []string{whole, whole, "7 bytes, changed"}, events: 1},
		{rules: "read nth=1 -> flip 12; read nth=1 -> flip 9999", want: []string{"10000 bytes, wrong at 12 9999", whole, whole}, events: 2},
		{rules: "read -> flip 5000", reads: [][2]unit.Bytes{{0, 5000}, {5000, 1}, {4000, 2000}, {5001, 10}},
			want: []string{"5000 bytes", "1 bytes, wrong at 0", "2000 bytes, wrong at 1000", "10 bytes"}, events: 2},
		{rules: "read offset=[100,200) nth=2 -> denied", reads: [][2]unit.Bytes{{0, 100}, {99, 2}, {200, 5}, {199, 1}, {150, 1}},
			want: []string{"100 bytes", "2 bytes", "5 bytes", "0 bytes, denied", "1 bytes"}, events: 1},
		{rules: "read key=o* nth=1 -> missing; read key=other -> denied", want: []string{"0 bytes, missing", whole, whole}, events: 1},
		{rules: "read first=10s -> 503", want: []string{"0 bytes, busy 0s", "0 bytes, busy 0s", "0 bytes, busy 0s"}, events: 3},
		{rules: "read after=10s -> 503", want: []string{whole, whole, whole}},
		{rules: "read -> delay 4s; read after=10s -> 503", want: []string{whole, whole, whole}, events: 3},
		{rules: "read -> delay 6s; read after=10s -> 503", want: []string{whole, whole, "0 bytes, busy 0s"}, events: 4},
	} {
		t.Run(tt.rules, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mem.New()
				o := m.Set("obj", data)
				s := New(m, MustParse(tt.rules))
				if tt.reads == nil {
					tt.reads = [][2]unit.Bytes{{0, 10_000}, {0, 10_000}, {0, 10_000}}
				}
				for i, r := range tt.reads {
					if got := outcome(t, s, o, r[0], data[r[0]:r[0]+r[1]]); got != tt.want[i] {
						t.Errorf("read %d: got %s, want %s", i+1, got, tt.want[i])
					}
				}
				if got := len(s.Events()); got != tt.events {
					t.Errorf("%d events, want %d: %+v", got, tt.events, s.Events())
				}
			})
		})
	}
}

func outcome(t *testing.T, s objstore.Store, o objstore.Object, off unit.Bytes, want []byte) string {
	var got []byte
	r, err := s.ReadRange(t.Context(), o, off, unit.Bytes(len(want)))
	if err == nil {
		got, err = io.ReadAll(r)
		r.Close()
	}
	out := fmt.Sprintf("%d bytes", len(got))
	if !bytes.Equal(got, want[:len(got)]) {
		out += ", wrong at"
		for i := range got {
			if got[i] != want[i] {
				out += fmt.Sprint(" ", i)
			}
		}
	}
	var busy *objstore.Busy
	switch {
	case err == nil:
		return out
	case errors.As(err, &busy):
		return out + fmt.Sprint(", busy ", busy.After)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return out + ", unexpected EOF"
	case errors.Is(err, objstore.ErrChanged):
		return out + ", changed"
	case errors.Is(err, objstore.ErrDenied):
		return out + ", denied"
	case errors.Is(err, objstore.ErrNotExist):
		return out + ", missing"
	case objstore.Temporary(err):
		return out + ", temporary"
	}
	return out + ", " + err.Error()
}

func TestOtherCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mem.New()
		o := m.Set("obj", []byte("content"))
		s := New(m, MustParse("stat nth=1 -> denied; put -> 503 3s; list -> 500; stat nth=2 -> stall; read -> stall"))
		if _, err := s.Stat(t.Context(), "obj"); !errors.Is(err, objstore.ErrDenied) {
			t.Errorf("stat: got %v, want ErrDenied", err)
		}
		var busy *objstore.Busy
		if _, err := s.Put(t.Context(), "x", strings.NewReader("y"), 1); !errors.As(err, &busy) || busy.After != 3*time.Second {
			t.Errorf("put: got %v, want busy for 3s", err)
		}
		for _, err := range s.List(t.Context(), "") {
			if err == nil || !objstore.Temporary(err) {
				t.Errorf("list: got %v, want a temporary error", err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := s.Stat(ctx, "obj"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stalled stat: got %v", err)
		}
		s.Break(MustParse("read -> stall"))
		ctx, cancel = context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		r, err := s.ReadRange(ctx, o, 0, o.Size)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if n, err := r.Read(make([]byte, 8)); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stalled read: got %d bytes, %v", n, err)
		}
		s.Break(nil)
		if got, err := s.Stat(t.Context(), "obj"); err != nil || got.Version != o.Version {
			t.Errorf("mended: got %+v, %v", got, err)
		}
	})
}
