package freshet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/internal/access"
	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/internal/pki"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/fault"
	"github.com/freshet/freshet/objstore/mem"
	"github.com/freshet/freshet/objstore/retry"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// directory makes files of these contents, all of the same time, and returns the source that they are.
func directory(t *testing.T, files map[string]string, at time.Time) (source string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	return "file://" + dir + "/"
}

// What lies below a directory is told with the largest first; another node's copy has to be the same, file by file.
func TestSeveralFilesOnAnotherNode(t *testing.T) {
	w := &worker{log: slog.New(slog.DiscardHandler)}
	at := time.Unix(1_700_000_000, 123_000)
	files := map[string]string{"config.json": "{}", "shard-1": "aaaa", "sub/shard-2": "bbbb", "sub/empty": ""}
	there, err := w.Stat(t.Context(), control.Spec{Source: directory(t, files, at)})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range there.Files {
		names = append(names, f.Key)
	}
	if got := strings.Join(names, " "); got != "shard-1 sub/shard-2 config.json sub/empty" || there.Size != 10 || !there.Ranges || there.Version == "" {
		t.Errorf("files %s, %+v", got, there.Object)
	}
	look := func(source string) error {
		job := control.Job{ID: "j", Spec: control.Spec{Source: source}, Object: there.Object, Files: there.Files, FileCount: len(there.Files)}
		store, key, err := w.hasten(t.Context(), job.Spec)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		own, err := w.objects(t.Context(), store, key, job, true)
		if err == nil && (own[0].Version == there.Files[0].Version || own[0].Key != "shard-1") {
			t.Errorf("the copy is %+v, the other node's %+v", own[0], there.Files[0])
		}
		return err
	}
	if err := look(directory(t, files, at)); err != nil {
		t.Errorf("the same files: %v", err)
	}
	files["sub/shard-2"] = "bbbbb"
	if err := look(directory(t, files, at)); err == nil || !strings.Contains(err.Error(), "sub/shard-2 of file://") || !strings.Contains(err.Error(), "rsync -t") {
		t.Errorf("another file: %v", err)
	}
	delete(files, "sub/shard-2")
	if err := look(directory(t, files, at)); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("a file is missing: %v", err)
	}
	if _, err := w.Stat(t.Context(), control.Spec{Source: directory(t, nil, at)}); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
}

// A directory as model caches have them, of links to files that lie elsewhere, is no source: a job that leaves one out would be done all the same.
func TestLinksAreNoSource(t *testing.T) {
	w := &worker{log: slog.New(slog.DiscardHandler)}
	source := directory(t, map[string]string{"blobs/x": "aaaa", "snapshot/config.json": "{}"}, time.Unix(1_700_000_000, 0))
	spec := control.Spec{Source: source + "snapshot/"}
	if err := os.Symlink("../blobs/x", filepath.Join(strings.TrimPrefix(spec.Source, "file://"), "shard")); err != nil {
		t.Fatal(err)
	}
	if s, err := w.Stat(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "snapshot/shard: is a symbolic link") || !strings.Contains(err.Error(), "cp -rL") {
		t.Errorf("got %d files, %v, want an error that names shard", len(s.Files), err)
	}
	if s, err := w.Stat(t.Context(), control.Spec{Source: source}); err != nil || len(s.Files) != 3 { // here it leads to where all are
		t.Errorf("got %d files, %v, want 3", len(s.Files), err)
	}
}

// As many files as a job can have are looked at in the time that a node has to say what they are, in a store that takes 50 ms to a
// request, of which the checksums of parts need three for each.
func TestManyFilesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mem.New()
		for i := range control.MaxFiles {
			m.Set(fmt.Sprintf("m/%05d", i), nil)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 14*time.Second)
		defer cancel()
		s, err := new(worker).list(ctx, fault.New(m, fault.MustParse("stat -> delay 150ms")), "m/", control.Spec{Source: "s3://b/m/"})
		if err != nil || len(s.Files) != control.MaxFiles {
			t.Errorf("got %d files, %v", len(s.Files), err)
		}
	})
}

// endless lists names of what would be a directory, one after the other, and counts them.
type endless struct {
	objstore.Store
	names *int
}

func (s endless) List(_ context.Context, prefix string) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		for *s.names = 1; yield(objstore.Entry{Key: fmt.Sprintf("%s%08d/", prefix, *s.names)}, nil); *s.names++ {
		}
	}
}

// A listing that has no end, and nothing in it, is not read for ever.
func TestListingWithoutEnd(t *testing.T) {
	n := 0
	store := retry.New(endless{mem.New(), &n}, retry.Policy{})
	_, err := new(worker).list(t.Context(), store, "m/", control.Spec{Source: "s3://b/m/"})
	_, none := firstBelow(t.Context(), store, "m/", 0)
	for _, err := range []error{err, none} {
		if err == nil || err.Error() != "more than 40000 names lie below m/: name a prefix with fewer below it" || objstore.Temporary(err) || n != mostNames+1 {
			t.Errorf("got %v after %d names", err, n)
		}
	}
	few := mem.New()
	for _, key := range []string{"m/", "m/a/", "m/a/x", "m/b/"} {
		few.Set(key, []byte("data"))
	}
	if s, err := new(worker).list(t.Context(), few, "m/", control.Spec{Source: "s3://b/m/"}); err != nil || len(s.Files) != 1 || s.Files[0].Key != "a/x" {
		t.Errorf("got %+v, %v, want a/x alone", s.Files, err)
	}
	if key, err := firstBelow(t.Context(), few, "m/", 4); err != nil || key != "m/a/x" {
		t.Errorf("got %q, %v, want m/a/x", key, err)
	}
}

// What a job says of one of its objects is looked at, too, by those as well that get a job in which access is shared; of so many that not all are looked at,
// each node takes others.
func TestWordOfOneNodeOnSeveral(t *testing.T) {
	store, w := mem.New(), &worker{creds: new(pki.Credentials)}
	for i := range lookedAtByOne {
		store.Set(fmt.Sprintf("m/%05d", i), []byte{byte(i)})
	}
	job := control.Job{Spec: control.Spec{Source: "s3://b/m/"}, SeenBy: "n7", NodeCount: 8}
	s, err := w.list(t.Context(), store, "m/", job.Spec)
	if err != nil {
		t.Fatal(err)
	}
	look := func(files control.Files, share bool) error {
		job.Object, job.Files, job.Spec.ShareAccess, job.Challenge = files.Whole("m/"), files, share, access.Challenge{}
		if !share {
			job.Challenge = access.DrawFrom(files)
		}
		_, err := w.witnessAll(t.Context(), store, "m/", job)
		return err
	}
	for _, share := range []bool{false, true} {
		if err := look(s.Files, share); err != nil {
			t.Errorf("what is so: %v", err)
		}
		for name, change := range wrongWords {
			wrong := slices.Clone(s.Files)
			change(&wrong[17])
			if err := look(wrong, share); err == nil || !strings.Contains(err.Error(), wrong[17].Key+" of s3://b/m/: this node finds") {
				t.Errorf("%s: %v, want an error that names the object", name, err)
			}
		}
	}
	for i := range 3 * lookedAtByOne {
		store.Set(fmt.Sprintf("m/x%05d", i), nil)
	}
	if s, err = w.list(t.Context(), store, "m/", job.Spec); err != nil {
		t.Fatal(err)
	}
	wrongWords["no checksum"](&s.Files[len(s.Files)-1])
	found := 0
	for range 100 {
		if look(s.Files, true) != nil {
			found++
		}
	}
	if found == 0 || found == 100 {
		t.Errorf("one of %d objects, of which %d are looked at, was looked at %d times of 100", len(s.Files), lookedAtByOne, found)
	}
}

// many is a store with so many objects below m/, and a job of them.
func many(t *testing.T, objects int, share bool) (*mem.Store, control.Job) {
	t.Helper()
	m := mem.New()
	for i := range objects {
		m.Set(fmt.Sprintf("m/%05d", i), []byte{byte(i)})
	}
	job := control.Job{Spec: control.Spec{Source: "s3://b/m/", ShareAccess: share}, SeenBy: "n7", NodeCount: 1}
	s, err := new(worker).list(t.Context(), m, "m/", job.Spec)
	if err != nil {
		t.Fatal(err)
	}
	if job.Object, job.Files = s.Object, s.Files; !share {
		job.Challenge = access.DrawFrom(s.Files)
	}
	return m, job
}

// What all nodes of a job look at together does not grow with their number, until it is one object each.
func TestManyNodesLookAtFewEach(t *testing.T) {
	for _, share := range []bool{false, true} {
		m, job := many(t, 2*lookedAtByOne, share)
		for _, tt := range []struct{ nodes, want int }{{0, 4}, {1, 64}, {16, 64}, {17, 60}, {300, 3}, {600, 1}, {1024, 1}, {10_000, 1}} {
			job.NodeCount = tt.nodes
			store := fault.New(m, fault.MustParse("stat -> delay 1ns"))
			if _, err := new(worker).witnessAll(t.Context(), store, "m/", job); err != nil {
				t.Error(err)
			}
			if got := len(store.Events()); got != tt.want {
				t.Errorf("%d nodes, access shared %v: each looks at %d objects, want %d", tt.nodes, share, got, tt.want)
			}
		}
	}
}

// inTurn is a store that takes one request after the other, as many as one prefix of Amazon's S3 takes in a second; what it is asked
// to say of an object costs three, as with checksums of parts.
type inTurn struct {
	objstore.Store
	mu   *sync.Mutex
	free *time.Time
}

func (s inTurn) wait(ctx context.Context, requests time.Duration) error {
	s.mu.Lock()
	if now := time.Now(); s.free.Before(now) {
		*s.free = now
	}
	*s.free = s.free.Add(requests * time.Second / 5500)
	turn := time.Until(*s.free)
	s.mu.Unlock()
	select {
	case <-time.After(turn):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s inTurn) Stat(ctx context.Context, key string) (objstore.Object, error) {
	if err := s.wait(ctx, 3); err != nil {
		return objstore.Object{}, err
	}
	return s.Store.Stat(ctx, key)
}

func (s inTurn) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	if err := s.wait(ctx, 1); err != nil {
		return nil, err
	}
	return s.Store.ReadRange(ctx, o, off, n)
}

// Hundreds of nodes look at what they were told of a job's objects in the time that they have to prepare, and all that they draw.
func TestManyNodesLookInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, job := many(t, lookedAtByOne, false)
		job.NodeCount = 500
		store := inTurn{m, new(sync.Mutex), new(time.Time)}
		var skipped atomic.Int64
		w := &worker{log: slog.New(logged(func(slog.Record) { skipped.Add(1) }))}
		var wg sync.WaitGroup
		for range job.NodeCount {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 14*time.Second)
				defer cancel()
				if _, err := w.witnessAll(ctx, store, "m/", job); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := skipped.Load(); n > 0 {
			t.Errorf("%d objects were drawn and not looked at", n)
		}
	})
}

// logged is told what is logged.
type logged func(slog.Record)

func (logged) Enabled(context.Context, slog.Level) bool { return true }
func (l logged) Handle(_ context.Context, r slog.Record) error {
	l(r)
	return nil
}
func (l logged) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l logged) WithGroup(string) slog.Handler      { return l }

// A node that the store keeps from looking again takes part as it did before it looked, unless nothing else shows that it may read.
// What it has seen it goes by.
func TestStoreRefusesToBeLookedAt(t *testing.T) {
	for _, tt := range []struct {
		rules     string
		share, ok bool
	}{
		{"stat -> 503 1s", false, true},
		{"stat -> stall", false, true},
		{"stat -> reset", false, true},
		{"stat -> denied", false, false},
		{"stat -> missing", false, false},
		{"stat -> 503 1s", true, false},
		{"stat nth=1 -> delay 1ns; stat after=1ns -> 503 1s", true, true},
		{"stat -> denied", true, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, job := many(t, 10, tt.share)
			var skipped atomic.Int64
			w := &worker{log: slog.New(logged(func(slog.Record) { skipped.Add(1) }))}
			look := func(rules string) error {
				ctx, cancel := context.WithTimeout(t.Context(), 14*time.Second)
				defer cancel()
				store := retry.New(fault.New(m, fault.MustParse(rules)), retry.Policy{Patience: statPatience, Max: statPatience / 8})
				_, err := w.witnessAll(ctx, store, "m/", job)
				return err
			}
			if err := look(tt.rules); (err == nil) != tt.ok || tt.ok && skipped.Load() == 0 {
				t.Errorf("%s, access shared %v: %v, %d not looked at, want that it does: %v", tt.rules, tt.share, err, skipped.Load(), tt.ok)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		m, job := many(t, 10, false)
		wrongWords["no checksum"](&job.Files[3])
		w := &worker{log: slog.New(slog.DiscardHandler), creds: new(pki.Credentials)}
		if _, err := w.witnessAll(t.Context(), fault.New(m, fault.MustParse("stat key=m/0000[0124-9] -> 503 1s")), "m/", job); err == nil || !strings.Contains(err.Error(), job.Files[3].Key+" of s3://b/m/: this node finds") {
			t.Errorf("what is wrong of one of few that the store shows: %v", err)
		}
	})
}

// The digest of many files is that of what sha256sum prints for them.
func TestDigestOfSeveral(t *testing.T) {
	job := Job{Spec: Spec{Source: "s3://b/m/"}, Files: Files{{Key: "z", Size: 4}, {Key: "b/a", Size: 2}, {Key: "a", Size: 2}, {Key: "c", Size: 0}}}
	job.Object = job.Files.Whole("m/")
	want := sha256.New()
	for _, f := range []struct{ name, text string }{{"a", "AA"}, {"b/a", "BB"}, {"c", ""}, {"z", "zzzz"}} {
		fmt.Fprintf(want, "%x  %s\n", sha256.Sum256([]byte(f.text)), f.name)
	}
	if got, err := sha256Of(bytes.NewReader([]byte("zzzzBBAA")), job); err != nil || got != fmt.Sprintf("%x", want.Sum(nil)) {
		t.Errorf("got %s, %v, want %x", got, err, want.Sum(nil))
	}
}

// Nodes that had the same files before say the same, whichever empty ones they lacked, and others say something else.
func TestWhichFilesWereKept(t *testing.T) {
	job := Job{Files: Files{{Key: "a", Size: 2}, {Key: "b", Size: 2}, {Key: "c", Size: 2}, {Key: "d"}}}
	said := keptSet(job, []bool{true, true, false, true})
	if len(said) != 16 || said != keptSet(job, []bool{true, true, false, false}) {
		t.Errorf("two files, and an empty one: %q; without it: %q", said, keptSet(job, []bool{true, true, false, false}))
	}
	for _, held := range [][]bool{{true, false, true, true}, {true, false, false, true}, {true, true, true, true}} {
		if other := keptSet(job, held); other == said || len(other) != 16 {
			t.Errorf("of %v: %q, and of two others: %q", held, other, said)
		}
	}
	if none := keptSet(job, []bool{false, false, false, true}); none != "" {
		t.Errorf("of nothing but an empty one: %q", none)
	}
}

// Pieces divide the parts for which a store keeps checksums, also where they differ from file to file.
func TestPiecesOfSeveral(t *testing.T) {
	with := func(parts ...unit.Bytes) (f control.Files) {
		for i, part := range parts {
			f = append(f, objstore.Object{Key: fmt.Sprint(i), Size: unit.GiB, Checksum: piece.Checksum{Part: part}})
		}
		return f
	}
	for _, tt := range []struct {
		files control.Files
		part  unit.Bytes // that all have in common
	}{
		{with(0, 0), 0}, {with(8*unit.MiB, 8*unit.MiB), 8 * unit.MiB}, {with(8*unit.MiB, 0), 8 * unit.MiB}, {with(0, 6*unit.MiB), 6 * unit.MiB},
		{with(8*unit.MiB, 12*unit.MiB), 4 * unit.MiB}, {with(8*unit.MiB, 5*unit.MiB), unit.MiB}, {with(8*unit.MiB, 5*unit.MiB+1), 0},
	} {
		l := Layout(Job{Object: tt.files.Whole("m/"), Files: tt.files})
		want := piece.DefaultSize(2*unit.GiB, tt.part)
		if l.Piece != want || l.Objects() != 2 || l.Size != 2*unit.GiB {
			t.Errorf("parts of %v and %v: pieces of %v, want %v (%d objects)", tt.files[0].Checksum.Part, tt.files[1].Checksum.Part, l.Piece, want, l.Objects())
		}
	}
}
