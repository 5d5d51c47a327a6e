package freshet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/internal/access"
	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/internal/landing"
	"github.com/freshet/freshet/internal/pki"
	"github.com/freshet/freshet/internal/swarm"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/mem"
	"github.com/freshet/freshet/piece"
)

// A file: source is each node's own: a copy of the same size and time will do,
// anything else will not.
func TestFileSourceOnAnotherNode(t *testing.T) {
	write := func(content string, at time.Time) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "model")
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		return "file://" + path
	}
	w := &worker{log: slog.New(slog.DiscardHandler)}
	at := time.Unix(1_700_000_000, 123_000)
	there, err := w.Stat(t.Context(), control.Spec{Source: write("same", at)})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		source string
		ok     bool
	}{
		{write("same", at), true},
		{write("same", at.Add(time.Second)), false},
		{write("longer", at), false},
	} {
		job := control.Job{Spec: control.Spec{Source: tt.source}, Object: there.Object}
		store, key, err := w.hasten(t.Context(), job.Spec)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		own, err := w.source(t.Context(), store, key, job)
		if (err == nil) != tt.ok || err != nil && !strings.Contains(err.Error(), "rsync -t") {
			t.Errorf("%s: %v, want it to do: %v", tt.source, err, tt.ok)
		}
		if err == nil && own.Version == there.Version {
			t.Errorf("the copy has the other node's version %q", own.Version)
		}
	}
}

// wrongWords are what one node may say of an object beside the truth, with its size and version as they are.
var wrongWords = map[string]func(*objstore.Object){
	"a checksum of something else": func(o *objstore.Object) { o.Checksum.Value = piece.CRC64NVME.Encode(1) },
	"another kind of checksum": func(o *objstore.Object) {
		o.Checksum = piece.Checksum{Algorithm: piece.CRC32C, Value: piece.CRC32C.Encode(1)}
	},
	"no checksum": func(o *objstore.Object) { o.Checksum = piece.Checksum{} },
	"no ranges":   func(o *objstore.Object) { o.Ranges = false },
}

// What a job says of its object is the word of one node. Each other looks at the store itself before it believes any of it.
func TestWordOfOneNode(t *testing.T) {
	store, w := mem.New(), &worker{creds: new(pki.Credentials)}
	bare := mem.New(mem.Checksum("")) // of whose objects there is no checksum
	job := control.Job{Spec: control.Spec{Source: "s3://b/k"}, SeenBy: "n7"}
	look := func(store objstore.Store, o objstore.Object) error {
		job.Object = o
		_, err := w.source(t.Context(), store, "k", job)
		return err
	}
	o, without := store.Set("k", []byte("data")), bare.Set("k", []byte("data"))
	if err := errors.Join(look(store, o), look(bare, without)); err != nil {
		t.Errorf("what is so: %v", err)
	}
	for name, change := range wrongWords {
		wrong := o
		change(&wrong)
		if err := look(store, wrong); err == nil || !strings.Contains(err.Error(), "n7, whose word") || errors.Is(err, objstore.ErrChanged) {
			t.Errorf("%s: %v, want an error that names n7", name, err)
		}
	}
	streams := mem.New(mem.NoRanges())
	for _, tt := range []struct {
		what   string
		store  objstore.Store
		change func(*objstore.Object)
		want   string
	}{
		{"a checksum where there is none", bare, func(o *objstore.Object) {}, "finds no checksum, and n7, whose word the job was made from, says checksum CRC64NVME " + o.Checksum.Value + ":"},
		{"no ranges", store, wrongWords["no ranges"], "finds ranges, and n7, whose word the job was made from, says no ranges:"},
		{"ranges where there are none", streams, func(o *objstore.Object) {}, "finds no ranges, and n7, whose word the job was made from, says ranges:"},
		{"nothing", store, func(o *objstore.Object) { o.Checksum, o.Ranges = piece.Checksum{}, false }, "finds checksum CRC64NVME " + o.Checksum.Value + " and ranges, and n7, whose word the job was made from, says no checksum and no ranges:"},
	} {
		tt.store.(*mem.Store).Set("k", []byte("data"))
		there, err := tt.store.Stat(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		wrong := o
		wrong.Version = there.Version
		tt.change(&wrong)
		if err := look(tt.store, wrong); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.what, err, tt.want)
		}
	}
	job.SeenBy = w.creds.Identity().Name
	wrong, err := store.Stat(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	wrong.Ranges = false
	if err := look(store, wrong); err == nil || !strings.Contains(err.Error(), "has changed its answer") || strings.Contains(err.Error(), "lies,") {
		t.Errorf("what this node has said itself: %v", err)
	}
}

// A cache before a web server sends a whole object on a miss, whatever is asked for, and ranges of what it holds. If it did so when the job was
// submitted, each node reads the whole; if it does so when a node prepares, that node cannot read what it is to read.
func TestCacheThatLearnsRanges(t *testing.T) {
	content, holds := []byte("data"), false
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !holds {
			r.Header.Del("Range")
		}
		rw.Header().Set("ETag", `"1"`)
		http.ServeContent(rw, r, "", time.Time{}, bytes.NewReader(content))
	}))
	defer server.Close()
	w := &worker{log: slog.New(slog.DiscardHandler), creds: new(pki.Credentials)}
	job := control.Job{ID: "j", Spec: control.Spec{Source: server.URL + "/key"}, SeenBy: "n7"}
	pin := func() {
		t.Helper()
		s, err := w.Stat(t.Context(), job.Spec)
		if err != nil || s.Ranges != holds {
			t.Fatalf("%+v, %v, want ranges %v", s.Object, err, holds)
		}
		job.Object, job.Challenge = s.Object, access.Draw(s.Object)
	}
	pin()
	holds = true
	if _, err := w.witness(t.Context(), job); err != nil {
		t.Errorf("no ranges were found before there were some: %v", err)
	}
	pin()
	holds = false
	if _, err := w.witness(t.Context(), job); err == nil || !strings.Contains(err.Error(), "finds no ranges, and n7") {
		t.Errorf("ranges were found and there are none: %v", err)
	}
}

// The recording that is to be written stays, also where older ones have names that sort behind it, from when the clock was ahead.
func TestOldRecordingsAreForgotten(t *testing.T) {
	w := &worker{recordings: t.TempDir()}
	write := func(job string) string {
		t.Helper()
		if err := os.WriteFile(w.recordingPath(job), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return w.recordingPath(job)
	}
	for i := range keepRecordings + 2 {
		write(fmt.Sprintf("n%03d", i))
	}
	for _, just := range []string{"a", "z"} {
		w.forgetRecordings(write(just))
		left, err := os.ReadDir(w.recordings)
		if err != nil || len(left) != keepRecordings {
			t.Fatalf("%d recordings are left, %v, want %d", len(left), err, keepRecordings)
		}
		if _, err := os.Stat(w.recordingPath(just)); err != nil || just == "a" && left[1].Name() != "n003.jsonl" {
			t.Errorf("%s is written: %v, and the oldest of the others is %s", just, err, left[1].Name())
		}
	}
}

// What is wrong with a file that was here before is said by itself, wherever that was noticed.
func TestPlainly(t *testing.T) {
	err := plainly(fmt.Errorf("read pieces 0–7 of s3://b/k from the store: %w", &landing.ChangedError{Path: "/data/model"}))
	const want = "the file on this node is not what the store has: /data/model was written to, replaced or removed after it had landed: broadcast again"
	if !errors.Is(err, swarm.ErrHeldWrong) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	other := errors.New("read pieces 0–7 of s3://b/k from the store: it is down")
	if got := plainly(other); got != other {
		t.Errorf("got %v, want %v", got, other)
	}
	if err := plainly(nil); err != nil {
		t.Errorf("got %v of nothing", err)
	}
}

// What has failed after it was done says so, for the control plane takes no other word on a file in its place.
func TestFailedAfterAll(t *testing.T) {
	p := &part{status: control.NodeStatus{State: control.Done, Verified: "source", DoneS: 3}}
	p.fail(t.Context(), errors.New("n2 is lost"))
	if p.status.State != control.Done || p.status.Wrong {
		t.Errorf("lost another: %+v, want done", p.status)
	}
	p.fail(t.Context(), heldWrong(errors.New("a bad disk")))
	if p.status.State != control.Failed || !p.status.Wrong || p.status.DoneS != 0 {
		t.Errorf("its file is wrong: %+v, want failed", p.status)
	}
}

// A node that is done has failed after all where its file turns out not to be the object; not where others are lost, or where its owner changes what has landed.
func TestFails(t *testing.T) {
	back := fmt.Errorf("piece 3: %w: the disk does not give back what was written to it", swarm.ErrHeldWrong)
	changed := fmt.Errorf("serve piece 3: %w", &landing.ChangedError{Path: "/data/model"})
	for _, tt := range []struct {
		err        error
		held, want bool
	}{
		{back, false, true},
		{back, true, true},
		{changed, false, false},
		{changed, true, true},
		{context.Canceled, true, false},
	} {
		if got := fails(tt.err, tt.held); got != tt.want {
			t.Errorf("%v, held %v: %v, want %v", tt.err, tt.held, got, tt.want)
		}
	}
}
