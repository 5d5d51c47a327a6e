// Package objstoretest is the one suite of tests that every object store of
// ours must pass, whatever stands behind it. A driver's test describes its
// store in a Harness and calls Run; what a kind of store cannot do is said in
// the harness and then tested to be refused properly.
package objstoretest

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// Harness is one store as the suite sees it.
type Harness struct {
	// Open returns an empty store, which the suite closes.
	Open func(t *testing.T) objstore.Store

	// Reopen returns the same store, with what is in it, again. Nil: one that
	// was closed still works, having closed only what was idle.
	Reopen func(t *testing.T) objstore.Store

	// Key turns a plain name such as "a/b" into the store's key for it; nil
	// if they are the same.
	Key func(name string) string

	// Set makes data the content of the object behind the store's back, at
	// once. Nil: the suite uses Put.
	Set func(t *testing.T, name string, data []byte)

	// Deny makes the object unreadable. Nil: the harness cannot.
	Deny func(t *testing.T, name string)

	// Connections is how many connections the store's server has open. Nil:
	// it has none, or nobody can say.
	Connections func() int

	// Debris names what is left in the store beside its objects. Nil: nobody
	// can say.
	Debris func(t *testing.T) []string

	ReadOnly bool            // Put and List are refused
	NoRanges bool            // objects are read as a whole only
	Unpinned bool            // versions cannot be told apart
	Checksum piece.Algorithm // of the full-object checksums that the store keeps; empty: none
	Big      unit.Bytes      // size of the largest object the suite puts, multipart where that exists; 0: 3 MiB
	Keys     int             // keys to list beyond one page; 0: 20
}

// Run runs the whole suite against h.
func Run(t *testing.T, h Harness) {
	if h.Key == nil {
		h.Key = func(name string) string { return name }
	}
	if h.Big == 0 {
		h.Big = 3 * unit.MiB
	}
	if h.Keys == 0 {
		h.Keys = 20
	}
	for _, c := range []struct {
		name string
		run  func(*testing.T, Harness, objstore.Store)
	}{
		{"Stat", testStat},
		{"Missing", testMissing},
		{"Denied", testDenied},
		{"Ranges", testRanges},
		{"WholeOnly", testWholeOnly},
		{"ReplacedBeforeRead", testReplacedBeforeRead},
		{"ReplacedWhileRead", testReplacedWhileRead},
		{"Removed", testRemoved},
		{"Concurrent", testConcurrent},
		{"CloseEarly", testCloseEarly},
		{"Cancelled", testCancelled},
		{"List", testList},
		{"ListMany", testListMany},
		{"Put", testPut},
		{"PutFails", testPutFails},
		{"PutReplaces", testPutReplaces},
		{"ReadOnly", testReadOnly},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := h.Open(t)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			c.run(t, h, s)
		})
	}
}

// Bytes returns n bytes that look random and are the same for the same seed.
func Bytes(seed uint64, n unit.Bytes) []byte {
	b := make([]byte, n)
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	rand.NewChaCha8(key).Read(b)
	return b
}

// set makes data the content of name.
func (h Harness) set(t *testing.T, s objstore.Store, name string, data []byte) {
	t.Helper()
	if h.Set != nil {
		h.Set(t, name, data)
		return
	}
	if _, err := s.Put(t.Context(), h.Key(name), bytes.NewReader(data), unit.Bytes(len(data))); err != nil {
		t.Fatalf("put %s: %v", name, err)
	}
}

// stat is what the store says of name, which must be there.
func (h Harness) stat(t *testing.T, s objstore.Store, name string) objstore.Object {
	t.Helper()
	o, err := s.Stat(t.Context(), h.Key(name))
	if err != nil {
		t.Fatalf("stat %s: %v", name, err)
	}
	return o
}

// holds checks that o describes data under name.
func (h Harness) holds(t *testing.T, o objstore.Object, name string, data []byte) {
	t.Helper()
	if o.Key != h.Key(name) || o.Size != unit.Bytes(len(data)) {
		t.Errorf("got key %q of %d bytes, want %q of %d", o.Key, o.Size, h.Key(name), len(data))
	}
	if o.Pinned() == h.Unpinned {
		t.Errorf("%s: version %q, unpinned %v", name, o.Version, h.Unpinned)
	}
	if o.Ranges == h.NoRanges && len(data) > 0 {
		t.Errorf("%s: ranges %v, want %v", name, o.Ranges, !h.NoRanges)
	}
	if a := h.Checksum; a != "" {
		want := piece.Checksum{Algorithm: a, Value: a.Encode(a.Update(0, data))}
		if o.Checksum != want {
			t.Errorf("%s: checksum %+v, want %+v", name, o.Checksum, want)
		}
	} else if o.Checksum != (piece.Checksum{}) {
		t.Errorf("%s: checksum %+v, want none", name, o.Checksum)
	}
}
