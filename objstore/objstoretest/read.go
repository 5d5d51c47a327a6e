package objstoretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/unit"
)

// soon is how long something that should happen at once may take on a machine
// that is busy with other tests.
const soon = 10 * time.Second

// read reads a range to its end.
func read(ctx context.Context, s objstore.Store, o objstore.Object, off, n unit.Bytes) ([]byte, error) {
	r, err := s.ReadRange(ctx, o, off, n)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	if closeErr := r.Close(); err == nil {
		err = closeErr
	}
	return b, err
}

// final checks that err is want and that no retry is called for.
func final(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
	if objstore.Temporary(err) {
		t.Errorf("%s: %v calls for a retry", what, err)
	}
}

func testStat(t *testing.T, h Harness, s objstore.Store) {
	for _, name := range []string{"plain", "a/b/c", "space and +plus", "häßlich/日本", "q?uestion&=#%41", "dots..in...name"} {
		data := Bytes(uint64(len(name)), 1000+unit.Bytes(len(name)))
		h.set(t, s, name, data)
		o := h.stat(t, s, name)
		h.holds(t, o, name, data)
		if got, err := read(t.Context(), s, o, 0, o.Size); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: read %d bytes, %v", name, len(got), err)
		}
		if again := h.stat(t, s, name); again.Version != o.Version {
			t.Errorf("%s: version %q became %q by itself", name, o.Version, again.Version)
		}
		if age := time.Since(o.Modified); !o.Modified.IsZero() && (age > 10*time.Minute || age < -10*time.Minute) {
			t.Errorf("%s: modified %v", name, o.Modified)
		}
	}
}

func testMissing(t *testing.T, h Harness, s objstore.Store) {
	h.set(t, s, "there", []byte("x"))
	for _, name := range []string{"missing", "a/missing", "there/below"} {
		_, err := s.Stat(t.Context(), h.Key(name))
		final(t, "stat "+name, err, objstore.ErrNotExist)
	}
}

func testDenied(t *testing.T, h Harness, s objstore.Store) {
	if h.Deny == nil {
		return
	}
	h.set(t, s, "secret", []byte("secret"))
	o := h.stat(t, s, "secret")
	h.Deny(t, "secret")
	_, err := s.Stat(t.Context(), h.Key("secret"))
	final(t, "stat", err, objstore.ErrDenied)
	_, err = read(t.Context(), s, o, 0, o.Size)
	final(t, "read", err, objstore.ErrDenied)
}

func testRanges(t *testing.T, h Harness, s objstore.Store) {
	const size = 300<<10 + 17
	data := Bytes(1, size)
	h.set(t, s, "object", data)
	h.set(t, s, "empty", nil)
	o, empty := h.stat(t, s, "object"), h.stat(t, s, "empty")
	h.holds(t, empty, "empty", nil)

	whole := []struct{ off, n unit.Bytes }{{0, size}, {0, 0}, {size, 0}, {1, 0}}
	parts := []struct{ off, n unit.Bytes }{
		{0, 1}, {size - 1, 1}, {1, size - 1}, {0, size - 1}, {4096, 8192}, {size - 17, 17}, {65535, 65537},
	}
	ranges := whole
	if !h.NoRanges {
		ranges = append(ranges, parts...)
	}
	for _, r := range ranges {
		got, err := read(t.Context(), s, o, r.off, r.n)
		if err != nil || !bytes.Equal(got, data[r.off:r.off+r.n]) {
			t.Errorf("%d+%d: got %d bytes, %v", r.off, r.n, len(got), err)
		}
	}
	if got, err := read(t.Context(), s, empty, 0, 0); err != nil || len(got) != 0 {
		t.Errorf("empty: got %d bytes, %v", len(got), err)
	}
	for _, r := range []struct{ off, n unit.Bytes }{{size, 1}, {0, size + 1}, {1, size}, {-1, 1}, {0, -1}, {1, 1<<63 - 1}} {
		if got, err := read(t.Context(), s, o, r.off, r.n); err == nil || objstore.Temporary(err) {
			t.Errorf("%d+%d of %d: got %d bytes, %v; want a lasting error", r.off, r.n, size, len(got), err)
		}
	}

	// A reader's contract, read by read.
	r, err := s.ReadRange(t.Context(), o, 0, size)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := iotest.TestReader(r, data); err != nil {
		t.Error(err)
	}
}

func testWholeOnly(t *testing.T, h Harness, s objstore.Store) {
	if !h.NoRanges {
		return
	}
	data := Bytes(2, 100<<10)
	h.set(t, s, "object", data)
	o := h.stat(t, s, "object")
	for _, r := range []struct{ off, n unit.Bytes }{{0, 1}, {1, o.Size - 1}, {0, o.Size - 1}} {
		_, err := read(t.Context(), s, o, r.off, r.n)
		final(t, fmt.Sprintf("%d+%d", r.off, r.n), err, objstore.ErrNoRange)
	}
}

func testReplacedBeforeRead(t *testing.T, h Harness, s objstore.Store) {
	if h.Unpinned {
		return
	}
	for _, tt := range []struct {
		name     string
		old, new unit.Bytes
	}{{"same size", 50000, 50000}, {"shorter", 50000, 20000}, {"longer", 50000, 70000}, {"emptied", 50000, 0}} {
		h.set(t, s, tt.name, Bytes(3, tt.old))
		o := h.stat(t, s, tt.name)
		h.set(t, s, tt.name, Bytes(4, tt.new))
		_, err := read(t.Context(), s, o, 0, o.Size)
		final(t, tt.name+", whole", err, objstore.ErrChanged)
		if !h.NoRanges {
			_, err = read(t.Context(), s, o, 30000, 10000)
			final(t, tt.name+", range", err, objstore.ErrChanged)
		}
		if now := h.stat(t, s, tt.name); now.Version == o.Version {
			t.Errorf("%s: version %q is still the same", tt.name, o.Version)
		}
	}
}

// Whatever comes after an object was replaced while it was read: it is the
// old object, then perhaps an error, never a byte of the new one.
func testReplacedWhileRead(t *testing.T, h Harness, s objstore.Store) {
	if h.Unpinned {
		return
	}
	const size = 8 << 20 // more than the buffers on the way hold
	old := Bytes(5, size)
	h.set(t, s, "object", old)
	o := h.stat(t, s, "object")
	r, err := s.ReadRange(t.Context(), o, 0, size)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got := make([]byte, 100<<10, size)
	if _, err := io.ReadFull(r, got); err != nil {
		t.Fatal(err)
	}
	h.set(t, s, "object", Bytes(6, size))
	rest, err := io.ReadAll(r)
	got = append(got, rest...)
	if !bytes.Equal(got, old[:len(got)]) {
		t.Error("bytes of two versions were mixed")
	}
	if err == nil && len(got) != size {
		t.Errorf("got %d bytes of %d and no error", len(got), size)
	}
	if err != nil && !errors.Is(err, objstore.ErrChanged) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want %v or nothing", err, objstore.ErrChanged)
	}
	_, err = read(t.Context(), s, o, 0, size)
	final(t, "the next read", err, objstore.ErrChanged)
}

func testRemoved(t *testing.T, h Harness, s objstore.Store) {
	o := objstore.Object{Key: h.Key("never was"), Size: 10, Version: "1", Ranges: true}
	_, err := read(t.Context(), s, o, 0, 10)
	if !errors.Is(err, objstore.ErrNotExist) && !errors.Is(err, objstore.ErrChanged) {
		t.Errorf("got %v, want %v", err, objstore.ErrNotExist)
	}
}

func testConcurrent(t *testing.T, h Harness, s objstore.Store) {
	const size, readers = 2 << 20, 16
	data := Bytes(7, size)
	h.set(t, s, "object", data)
	o := h.stat(t, s, "object")
	var wg sync.WaitGroup
	for i := range unit.Bytes(readers) {
		off, n := i*size/readers, unit.Bytes(size/readers)
		if h.NoRanges {
			off, n = 0, size
		}
		wg.Go(func() {
			got, err := read(t.Context(), s, o, off, n)
			if err != nil || !bytes.Equal(got, data[off:off+n]) {
				t.Errorf("%d+%d: got %d bytes, %v", off, n, len(got), err)
			}
		})
	}
	wg.Wait()
}

func testCloseEarly(t *testing.T, h Harness, s objstore.Store) {
	const size = 4 << 20
	h.set(t, s, "object", Bytes(8, size))
	o := h.stat(t, s, "object")
	if err := s.Close(); err != nil { // idle connections of what was before
		t.Fatal(err)
	}
	s = h.reopen(t, s)
	before := runtime.NumGoroutine()
	for range 8 {
		r, err := s.ReadRange(t.Context(), o, 0, size)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if n, err := r.Read(make([]byte, 10)); err == nil {
			t.Errorf("read %d bytes after Close", n)
		}
	}
	s.Close()
	eventually(t, func() error {
		if now := runtime.NumGoroutine(); now > before {
			buf := make([]byte, 1<<16)
			return fmt.Errorf("%d goroutines before, %d after:\n%s", before, now, buf[:runtime.Stack(buf, true)])
		}
		if h.Connections != nil {
			if n := h.Connections(); n > 0 {
				return fmt.Errorf("%d connections are open", n)
			}
		}
		return nil
	})
}

// reopen returns s where it is usable after Close.
func (h Harness) reopen(t *testing.T, s objstore.Store) objstore.Store {
	if h.Reopen == nil {
		return s
	}
	return h.Reopen(t)
}

// eventually waits until check is content.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(soon)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Error(err)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func testCancelled(t *testing.T, h Harness, s objstore.Store) {
	const size = 16 << 20
	h.set(t, s, "object", Bytes(9, size))
	o := h.stat(t, s, "object")

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Stat(gone, h.Key("object")); !errors.Is(err, context.Canceled) {
		t.Errorf("stat: got %v, want canceled", err)
	}
	if _, err := read(gone, s, o, 0, size); !errors.Is(err, context.Canceled) {
		t.Errorf("read: got %v, want canceled", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := s.ReadRange(ctx, o, 0, size)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	cancel()
	start := time.Now()
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, context.Canceled) {
		t.Errorf("reading on: got %v, want canceled", err)
	}
	if took := time.Since(start); took > soon {
		t.Errorf("reading ended %v after the context", took)
	}

	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if _, err := s.Stat(late, h.Key("object")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stat: got %v, want deadline exceeded", err)
	}
}
