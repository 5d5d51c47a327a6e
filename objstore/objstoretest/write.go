package objstoretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/unit"
)

// keys lists the keys that begin with prefix.
func keys(t *testing.T, s objstore.Store, prefix string) (got []string) {
	t.Helper()
	for e, err := range s.List(t.Context(), prefix) {
		if err != nil {
			t.Errorf("list %q: %v", prefix, err)
			continue
		}
		got = append(got, e.Key)
	}
	return got
}

func testList(t *testing.T, h Harness, s objstore.Store) {
	if h.ReadOnly {
		return
	}
	if got := keys(t, s, ""); len(got) != 0 {
		t.Errorf("an empty store lists %q", got)
	}
	// All stores that the suite is run against list in key order, though no caller may rely on it. There
	// the slash comes after the dot and before digits and letters.
	all := []string{"a.txt", "a/b", "a/b.c", "a/c/d", "a0", "b", "b c/é", "z"}
	for i, name := range slices.Backward(all) {
		h.set(t, s, name, Bytes(uint64(i), unit.Bytes(i)))
	}
	for _, tt := range []struct {
		prefix string
		want   []string
	}{
		{"", all}, {"a", all[:5]}, {"a/", all[1:4]}, {"a/b", all[1:3]}, {"a/c/", all[3:4]}, {"a/c/d", all[3:4]},
		{"b", all[5:7]}, {"b c/", all[6:7]}, {"y", nil}, {"zz", nil}, {"a/c/d/", nil}, {"../", nil}, {"/", nil},
	} {
		if got := keys(t, s, tt.prefix); !slices.Equal(got, tt.want) {
			t.Errorf("prefix %q: got %q, want %q", tt.prefix, got, tt.want)
		}
	}
	i := 0
	for e, err := range s.List(t.Context(), "") {
		if err != nil || e.Size != unit.Bytes(i) {
			t.Errorf("%s: size %d, %v; want %d", e.Key, e.Size, err, i)
		}
		i++
	}
	for range s.List(t.Context(), "") { // one may stop at any time
		break
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var last error
	for _, err := range s.List(gone, "") {
		if last != nil {
			t.Error("an error was not the last thing yielded")
		}
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("got %v, want canceled", last)
	}
}

func testListMany(t *testing.T, h Harness, s objstore.Store) {
	if h.ReadOnly {
		return
	}
	want := make([]string, h.Keys)
	for i := range want {
		want[i] = fmt.Sprintf("many/%02d/%05d", i%7, i)
	}
	var wg sync.WaitGroup
	for part := range slices.Chunk(want, (len(want)+7)/8) {
		wg.Go(func() {
			for _, name := range part {
				if _, err := s.Put(t.Context(), name, bytes.NewReader(nil), 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	slices.Sort(want)
	if got := keys(t, s, "many/"); !slices.Equal(got, want) {
		t.Errorf("got %d keys, want %d in order", len(got), len(want))
	}
}

func testPut(t *testing.T, h Harness, s objstore.Store) {
	if h.ReadOnly {
		return
	}
	for _, size := range []unit.Bytes{0, 1, 100 << 10, h.Big, h.Big + 12345} {
		data := Bytes(uint64(size), size)
		for _, known := range []bool{true, false} {
			name := fmt.Sprintf("put/%d-%v", size, known)
			announced := size
			if !known {
				announced = -1
			}
			o, err := s.Put(t.Context(), h.Key(name), onlyReader{bytes.NewReader(data)}, announced)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			h.holds(t, o, name, data)
			now := h.stat(t, s, name)
			if now.Version != o.Version || now.Checksum != o.Checksum || now.Size != o.Size || now.Ranges != o.Ranges {
				t.Errorf("%s: Put says %+v, Stat %+v", name, o, now)
			}
			got, err := read(t.Context(), s, o, 0, o.Size)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: read %d bytes back, %v", name, len(got), err)
			}
		}
	}
	o, err := s.Put(t.Context(), h.Key("drips"), iotest.OneByteReader(bytes.NewReader(Bytes(1, 5000))), -1)
	if err != nil || o.Size != 5000 {
		t.Errorf("byte by byte: %+v, %v", o, err)
	}
}

// onlyReader hides what else a reader can do.
type onlyReader struct{ io.Reader }

var errSource = errors.New("the source failed")

func testPutFails(t *testing.T, h Harness, s objstore.Store) {
	if h.ReadOnly {
		return
	}
	old := Bytes(10, 1000)
	for _, name := range []string{"put/new", "put/kept", "deep/er/new"} {
		if name == "put/kept" {
			h.set(t, s, name, old)
		}
		before := keys(t, s, "")
		for _, sent := range []unit.Bytes{0, 1000, h.Big, 2*h.Big + 1} {
			for _, size := range []unit.Bytes{-1, sent, sent + 1000} {
				r := io.MultiReader(bytes.NewReader(Bytes(11, sent)), iotest.ErrReader(errSource))
				if _, err := s.Put(t.Context(), h.Key(name), r, size); !errors.Is(err, errSource) {
					t.Errorf("%s, failing after %d of %d: got %v, want %v", name, sent, size, err, errSource)
				}
			}
			for _, size := range []unit.Bytes{sent + 1, sent - 1} {
				if size < 0 {
					continue
				}
				if _, err := s.Put(t.Context(), h.Key(name), bytes.NewReader(Bytes(11, sent)), size); err == nil {
					t.Errorf("%s: %d bytes announced, %d came: no error", name, size, sent)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			r := io.MultiReader(bytes.NewReader(Bytes(11, sent)), readFunc(func(p []byte) (int, error) {
				cancel()
				return copy(p, "x"), nil // goes on for ever
			}))
			if _, err := s.Put(ctx, h.Key(name), r, -1); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, cancelled after %d: got %v", name, sent, err)
			}
			cancel()
		}
		if after := keys(t, s, ""); !slices.Equal(before, after) {
			t.Errorf("%q before, %q after", before, after)
		}
		_, err := s.Stat(t.Context(), h.Key(name))
		if name != "put/kept" {
			final(t, name, err, objstore.ErrNotExist)
			continue
		}
		o := h.stat(t, s, name)
		if got, err := read(t.Context(), s, o, 0, o.Size); err != nil || !bytes.Equal(got, old) {
			t.Errorf("the old object: %d bytes, %v", len(got), err)
		}
	}
	if h.Debris != nil {
		if left := h.Debris(t); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func testPutReplaces(t *testing.T, h Harness, s objstore.Store) {
	if h.ReadOnly {
		return
	}
	var last objstore.Object
	for i := range uint64(3) {
		data := Bytes(i, 5000)
		o, err := s.Put(t.Context(), h.Key("object"), bytes.NewReader(data), 5000)
		if err != nil {
			t.Fatal(err)
		}
		if o.Version == last.Version && !h.Unpinned {
			t.Errorf("version %q twice", o.Version)
		}
		if got, err := read(t.Context(), s, o, 0, o.Size); err != nil || !bytes.Equal(got, data) {
			t.Errorf("version %d: %d bytes, %v", i, len(got), err)
		}
		last = o
	}
	for _, key := range []string{""} {
		if _, err := s.Put(t.Context(), key, bytes.NewReader(nil), 0); err == nil || objstore.Temporary(err) {
			t.Errorf("key %q: got %v, want a lasting error", key, err)
		}
	}
}

func testReadOnly(t *testing.T, h Harness, s objstore.Store) {
	if !h.ReadOnly {
		return
	}
	_, err := s.Put(t.Context(), h.Key("object"), bytes.NewReader(nil), 0)
	final(t, "put", err, objstore.ErrReadOnly)
	n := 0
	for _, err := range s.List(t.Context(), h.Key("")) {
		if err == nil || objstore.Temporary(err) {
			t.Errorf("list: got %v, want a lasting error", err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("list yielded %d times, want one error", n)
	}
}
