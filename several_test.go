package freshet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/internal/access"
	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/fault"
	"github.com/freshet/freshet/objstore/mem"
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

// What a job says of one of its objects is looked at, too, by those as well that get a job in which access is shared; of so many that not all are looked at,
// each node takes others.
func TestWordOfOneNodeOnSeveral(t *testing.T) {
	store, w := mem.New(), new(worker)
	for i := range lookAgain {
		store.Set(fmt.Sprintf("m/%05d", i), []byte{byte(i)})
	}
	job := control.Job{Spec: control.Spec{Source: "s3://b/m/"}, SeenBy: "n7"}
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
	for i := range 3 * lookAgain {
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
		t.Errorf("one of %d objects, of which %d are looked at, was looked at %d times of 100", len(s.Files), lookAgain, found)
	}
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
