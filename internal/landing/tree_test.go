package landing

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/freshet/freshet/unit"
)

// model is files that belong together, and what they hold one behind the other.
var model = []TreeFile{{"shard-1", 6, "v1", false}, {"config.json", 2, "v2", false}, {"empty", 0, "v3", false}, {"sub/deep/vocab", 3, "v4", false}}

const modelBytes = "shard1{}voc"

// begin makes a tree and writes it, in two calls neither of which ends where a file does.
func begin(t *testing.T, r *Roots, dir string) *Tree {
	t.Helper()
	tr, err := r.CreateTree("job-1", dir, "s", model)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	for _, part := range []struct{ lo, hi int }{{7, 11}, {0, 7}} {
		if n, err := tr.WriteAt([]byte(modelBytes[part.lo:part.hi]), int64(part.lo)); err != nil || n != part.hi-part.lo {
			t.Fatalf("write %v: %d, %v", part, n, err)
		}
	}
	return tr
}

// heldAll says whether all files are held.
func heldAll(r *Roots, dir, source string, files []TreeFile) (bool, error) {
	held, err := r.HeldFiles(dir, source, files)
	return err == nil && !slices.Contains(held, false), err
}

func wantFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	for name, text := range want {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text {
			t.Errorf("%s holds %q, %v, want %q", name, got, err, text)
		}
	}
}

var whole = map[string]string{"shard-1": "shard1", "config.json": "{}", "empty": "", "sub/deep/vocab": "voc"}

func TestTreeLandsWholeOrNotAtAll(t *testing.T) {
	r, dir := openRoots(t)
	os.MkdirAll(filepath.Join(dir, "m", "sub"), 0o755)
	os.WriteFile(filepath.Join(dir, "m", "shard-1"), []byte("old"), 0o600)
	os.WriteFile(filepath.Join(dir, "m", "README"), []byte("mine"), 0o644)
	m := filepath.Join(dir, "m")
	if err := r.CheckTree(m, model); err != nil {
		t.Fatal(err)
	}
	before := []string{"README", "shard-1", "sub/"}
	wantTree(t, m, before...)
	tr := begin(t, r, m)
	wantFiles(t, m, map[string]string{"shard-1": "old"})
	if got, err := os.ReadFile(filepath.Join(m, ".freshet.job-1.part", "3")); err != nil || string(got) != "voc" {
		t.Errorf("the part file of the last holds %q, %v", got, err)
	}
	if held, err := heldAll(r, m, "s", model); held || err != nil {
		t.Errorf("held before it is there (%v)", err)
	}
	if err := tr.Commit(); err != nil {
		t.Fatal(err)
	}
	wantTree(t, m, "README", "config.json", "empty", "shard-1", "sub/", "sub/deep/", "sub/deep/vocab")
	wantFiles(t, m, whole)
	wantFiles(t, m, map[string]string{"README": "mine"})
	for name, want := range map[string]fs.FileMode{"shard-1": 0o600, "empty": 0o644} {
		if info, err := os.Stat(filepath.Join(m, name)); err != nil || info.Mode() != want {
			t.Errorf("%s: mode %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
	b := make([]byte, 20)
	if n, err := tr.ReadAt(b[:6], 4); err != nil || string(b[:n]) != modelBytes[4:10] {
		t.Errorf("read after commit: %q, %v", b[:n], err)
	}
	if n, err := tr.ReadAt(b, 5); err != io.EOF || string(b[:n]) != modelBytes[5:] {
		t.Errorf("read to the end: %q, %v", b[:n], err)
	}
	if err := tr.Commit(); err == nil {
		t.Error("committed twice")
	}
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
	wantFiles(t, m, whole)
	if left, _ := fs.Glob(r.state.FS(), journalDir+"/*"); len(left) > 0 {
		t.Errorf("the journal still has %q", left)
	}
}

func TestAbortedTreeLeavesNothing(t *testing.T) {
	r, dir := openRoots(t)
	os.WriteFile(filepath.Join(dir, "other"), nil, 0o644)
	tr := begin(t, r, filepath.Join(dir, "a", "m"))
	if err := tr.Close(); err != nil { // as Abort
		t.Error(err)
	}
	wantTree(t, dir, "other")
	if left, _ := fs.Glob(r.state.FS(), journalDir+"/*"); len(left) > 0 {
		t.Errorf("the journal still has %q", left)
	}
	tr = begin(t, r, dir) // a root itself
	tr.Close()
	wantTree(t, dir, "other")
	if _, err := r.CreateTree("j", filepath.Join(dir, "m"), "s", []TreeFile{{Name: "a", Size: 1}, {Name: "b", Size: 1 << 60}}); err == nil {
		t.Error("files larger than the disk are begun")
	} else {
		wantError(t, err, "needs", "free")
	}
	wantTree(t, dir, "other")
}

// Nothing is renamed before all is synced, and what cannot be synced leaves all old files.
func TestTreeIsSyncedBeforeItIsRenamed(t *testing.T) {
	defer func(s func(*os.File) error, m func(*os.Root, string, *os.Root, string) error) {
		syncFile, rename = s, m
	}(syncFile, rename)
	var mu sync.Mutex // guards what follows
	files, dirs, renames, bad := 0, 0, 0, false
	syncFile = func(f *os.File) error {
		mu.Lock()
		defer mu.Unlock()
		if info, err := f.Stat(); err != nil || info.IsDir() {
			dirs++
			return err
		}
		if files++; bad && files == 3 {
			return syscall.EIO
		}
		return nil
	}
	rename = func(from *os.Root, name string, to *os.Root, as string) error {
		if renames++; files != len(model) || dirs < 1 {
			t.Errorf("%s is put in its place after %d files and %d directories were synced", as, files, dirs)
		}
		return renameBetween(from, name, to, as)
	}
	r, dir := openRoots(t)
	m := filepath.Join(dir, "m")
	if err := begin(t, r, m).Commit(); err != nil {
		t.Fatal(err)
	}
	if renames != len(model) || dirs < 5 {
		t.Errorf("%d files renamed, %d directories synced; want %d, and that of the part files, sub/deep, sub, m and the root", renames, dirs, len(model))
	}
	files, dirs, renames, bad = 0, 0, 0, true
	tr := begin(t, r, m)
	if err := tr.Commit(); !errors.Is(err, syscall.EIO) || renames > 0 {
		t.Errorf("a file cannot be synced: %v after %d were renamed", err, renames)
	}
	tr.Close()
	wantFiles(t, m, whole)
}

// Where the names go, and the directories that were made for them, is on the disk before the first file is renamed: what comes first on another
// disk does not come first after a power cut.
func TestTreeIsWrittenDownBeforeItIsRenamed(t *testing.T) {
	defer func(s func(*os.File) error, m func(*os.Root, string, *os.Root, string) error) {
		syncFile, rename = s, m
	}(syncFile, rename)
	state, dir := t.TempDir(), t.TempDir()
	r := openAt(t, state, dir)
	real := r.roots[0].real
	synced, renamed := map[string]bool{}, false
	var mu sync.Mutex // guards synced
	noted := false    // the names had been written when the journal was synced
	syncFile = func(f *os.File) error {
		mu.Lock()
		defer mu.Unlock()
		rel, err := filepath.Rel(real, f.Name())
		if f.Name() == filepath.Join(state, journalDir) {
			rel = journalDir
			entries, _ := filepath.Glob(filepath.Join(state, journalDir, "*.json"))
			for _, path := range entries {
				b, _ := os.ReadFile(path)
				noted = noted || bytes.Contains(b, []byte("sub/deep/vocab"))
			}
		}
		synced[rel] = true
		return err
	}
	rename = func(from *os.Root, name string, to *os.Root, as string) error {
		if !renamed {
			for _, d := range []string{".", "new", "new/m", "new/m/sub", "new/m/.freshet.job-1.part", journalDir} {
				if !synced[d] {
					t.Errorf("%s is put in its place before the directory %s is synced", as, d)
				}
			}
			if !noted {
				t.Error("the journal was synced before it had the names, or not at all")
			}
		}
		renamed = true
		return renameBetween(from, name, to, as)
	}
	m := filepath.Join(dir, "new", "m")
	if err := begin(t, r, m).Commit(); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, m, whole)
}

// Killed while the files land they are removed; killed while they are put in their places they all get there.
func TestSweepOfATree(t *testing.T) {
	defer func(m func(*os.Root, string, *os.Root, string) error) { rename = m }(rename)
	for _, tt := range []struct {
		after int    // so many renames; -1: before it begins
		gone  string // directory that is missing afterwards: its making was not on the disk, or somebody has removed it
	}{{-1, ""}, {0, ""}, {2, ""}, {4, ""}, {0, "sub"}, {2, "sub/deep"}} {
		after := tt.after
		t.Run(fmt.Sprint(after, tt.gone), func(t *testing.T) {
			state, dir := t.TempDir(), t.TempDir()
			r := openAt(t, state, dir)
			m := filepath.Join(dir, "m")
			tr, err := r.CreateTree("dead", m, "s", model)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tr.WriteAt([]byte(modelBytes), 0); err != nil {
				t.Fatal(err)
			}
			if after >= 0 {
				done := 0
				rename = func(from *os.Root, name string, to *os.Root, as string) error {
					if done == after {
						r.state.Close() // it can neither write nor remove what it would
						return syscall.EIO
					}
					if done++; done == len(model) {
						defer r.state.Close()
					}
					return renameBetween(from, name, to, as)
				}
				tr.Commit()
				rename = renameBetween
			}
			r.Close() // as if killed: nothing is aborted
			if tt.gone != "" {
				if err := os.RemoveAll(filepath.Join(m, tt.gone)); err != nil {
					t.Fatal(err)
				}
			}
			r = openAt(t, state, dir)
			if err := r.Sweep(); err != nil {
				t.Fatal(err)
			}
			if after < 0 {
				wantTree(t, dir)
				return
			}
			wantTree(t, m, "config.json", "empty", "shard-1", "sub/", "sub/deep/", "sub/deep/vocab")
			wantFiles(t, m, whole)
			if left, _ := fs.Glob(r.state.FS(), journalDir+"/*"); len(left) > 0 {
				t.Errorf("the journal still has %q", left)
			}
		})
	}
}

// What cannot be put in its place after a crash keeps back nothing else, but for what is newer in the same directory: a later
// start would put the older files over it.
func TestSweepThatCannotEnd(t *testing.T) {
	defer func(m func(*os.Root, string, *os.Root, string) error) { rename = m }(rename)
	state, dir := t.TempDir(), t.TempDir()
	r := openAt(t, state, dir)
	m := filepath.Join(dir, "m")
	tr, err := r.CreateTree("dead", m, "s", model)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.WriteAt([]byte(modelBytes), 0); err != nil {
		t.Fatal(err)
	}
	rename = func(*os.Root, string, *os.Root, string) error {
		r.state.Close()
		return syscall.EIO
	}
	tr.Commit()
	rename = renameBetween
	r.Close() // as if killed: nothing is aborted
	path := filepath.Join(m, "config.json")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	r = openAt(t, state, dir)
	wantError(t, r.Sweep(), path)
	wantTree(t, m, ".freshet.dead.part/", ".freshet.dead.part/1", "config.json/", "empty", "shard-1", "sub/", "sub/deep/", "sub/deep/vocab")
	land(t, r, filepath.Join(dir, "other"), []byte("x"), Meta{})
	newer := model[:1]
	alias := filepath.Join(dir, "alias") // another way to the same directory
	if err := os.Symlink("m", alias); err != nil {
		t.Fatal(err)
	}
	for name, try := range map[string]func() error{
		"file by another way": func() error { _, err := r.Create("j", filepath.Join(alias, "shard-1"), 1); return err },
		"check":               func() error { return r.Check(filepath.Join(m, "sub", "x")) },
		"check tree":          func() error { return r.CheckTree(m, newer) },
		"file":                func() error { _, err := r.Create("j", filepath.Join(m, "shard-1"), 1); return err },
		"tree":                func() error { _, err := r.CreateTree("j", m, "s", newer); return err },
		"tree above": func() error {
			_, err := r.CreateTree("j", dir, "s", []TreeFile{{Name: "m/shard-1", Size: 1}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { wantError(t, try(), "job dead was cut short", path) })
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := r.CheckTree(m, newer); err != nil {
		t.Error(err)
	}
	wantTree(t, m, "config.json", "empty", "shard-1", "sub/", "sub/deep/", "sub/deep/vocab")
	wantFiles(t, m, whole)
	wantTree(t, filepath.Join(state, journalDir))
}

// A file that cannot be renamed when others have been is told of, and of directories that were made those go which are empty.
func TestTreeThatCannotBePutInItsPlace(t *testing.T) {
	defer func(m func(*os.Root, string, *os.Root, string) error) { rename = m }(rename)
	for fails, left := range map[int][]string{1: nil, 2: {"shard-1"}} {
		r, dir := openRoots(t)
		m, done := filepath.Join(dir, "m"), 0
		must(t, os.Mkdir(m, 0o755))
		rename = func(from *os.Root, name string, to *os.Root, as string) error {
			if done++; done == fails {
				return syscall.EIO
			}
			return renameBetween(from, name, to, as)
		}
		tr := begin(t, r, m)
		told := []string{"input/output error"}
		if fails > 1 {
			told = []string{"config.json", "1 of 4 files"}
		}
		wantError(t, tr.Commit(), told...)
		tr.Close()
		wantTree(t, m, left...)
		if held, err := heldAll(r, m, "s", model[:1]); held || err != nil {
			t.Errorf("held: %v, %v", held, err)
		}
	}
}

func TestTreeIsBusy(t *testing.T) {
	r, dir := openRoots(t)
	tr := begin(t, r, filepath.Join(dir, "m"))
	vocab := filepath.Join(dir, "m", "sub", "deep", "vocab")
	if _, err := r.Create("job-2", vocab, 1); !errors.Is(err, ErrBusy) {
		t.Errorf("a file of the tree: %v", err)
	}
	if _, err := r.CreateTree("job-2", filepath.Join(dir, "m", "sub"), "s", []TreeFile{{Name: "deep/vocab", Size: 1}}); !errors.Is(err, ErrBusy) {
		t.Errorf("another tree with one of its files: %v", err)
	}
	tr.Close()
	f, err := r.Create("job-2", vocab, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := r.CreateTree("job-3", filepath.Join(dir, "m"), "s", model); !errors.Is(err, ErrBusy) {
		t.Errorf("a file is landing where the tree wants to: %v", err)
	}
}

func TestRefusedTrees(t *testing.T) {
	r, dir := openRoots(t)
	os.WriteFile(filepath.Join(dir, "file"), nil, 0o644)
	os.Mkdir(filepath.Join(dir, "m"), 0o755)
	os.Mkdir(filepath.Join(dir, "m", "a"), 0o755)
	os.Symlink("/", filepath.Join(dir, "m", "out"))
	os.Symlink("a", filepath.Join(dir, "m", "b"))
	for _, tt := range []struct {
		dir   string
		files []TreeFile
		want  string
	}{
		{"m", []TreeFile{{Name: "x"}}, "absolute"},
		{"/elsewhere", []TreeFile{{Name: "x"}}, "outside the roots"},
		{filepath.Join(dir, "file"), []TreeFile{{Name: "x"}}, "not a directory"},
		{filepath.Join(dir, "m"), []TreeFile{{Name: "../x"}}, "cannot be a file"},
		{filepath.Join(dir, "m"), []TreeFile{{Name: "/x"}}, "cannot be a file"},
		{filepath.Join(dir, "m"), []TreeFile{{Name: "x", Size: -1}}, "cannot be a file"},
		{filepath.Join(dir, "m"), []TreeFile{{Name: "x"}, {Name: "a"}}, "is a directory"},
		{filepath.Join(dir, "m"), []TreeFile{{Name: "out/x"}}, "leads out"},
		{filepath.Join(dir, "m"), []TreeFile{{Name: "a/x"}, {Name: "b/x"}}, "same file"},
	} {
		wantError(t, r.CheckTree(tt.dir, tt.files), tt.want)
		if tr, err := r.CreateTree("j", tt.dir, "s", tt.files); err == nil {
			tr.Close()
			t.Errorf("%s: %+v is begun", tt.dir, tt.files)
		}
	}
}

func TestHeldTree(t *testing.T) {
	state, dir := t.TempDir(), t.TempDir()
	r := openAt(t, state, dir)
	m := filepath.Join(dir, "m")
	if err := begin(t, r, m).Commit(); err != nil {
		t.Fatal(err)
	}
	check := func(what string, want bool, source string, files []TreeFile) {
		t.Helper()
		if got, err := heldAll(r, m, source, files); got != want || err != nil {
			t.Errorf("%s: held is %v, %v, want %v", what, got, err, want)
		}
	}
	with := func(f TreeFile) []TreeFile { return append([]TreeFile{f}, model[1:]...) }
	check("landed", true, "s", model)
	check("in another order", true, "s", []TreeFile{model[3], model[0], model[2], model[1]})
	check("some of them", true, "s", model[1:3])
	check("other source", false, "t", model)
	check("other version", false, "s", with(TreeFile{"shard-1", 6, "v9", false}))
	check("other size", false, "s", with(TreeFile{"shard-1", 7, "v1", false}))
	check("no version", false, "s", with(TreeFile{"shard-1", 6, "", false}))
	check("one more", false, "s", with(TreeFile{"shard-2", 6, "v1", false}))
	r.Close() // and after a restart
	r = openAt(t, state, dir)
	check("landed before a restart", true, "s", model)

	tr, err := r.OpenTree(m, "s", model)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, len(modelBytes))
	if n, err := tr.ReadAt(b, 0); err != nil || string(b[:n]) != modelBytes {
		t.Errorf("read what is held: %q, %v", b[:n], err)
	}
	if _, err := tr.WriteAt(b, 0); err == nil {
		t.Error("what was there before is written to")
	}
	tr.Close()
	wantFiles(t, m, whole)

	path := filepath.Join(m, "config.json")
	overwrite(t, path, "[]")
	check("one overwritten", false, "s", model)
	_, err = r.OpenTree(m, "s", model)
	wantChanged(t, err, path)
	os.Remove(path)
	check("one removed", false, "s", model)
	_, err = r.OpenTree(m, "s", model)
	wantChanged(t, err, path)
}

// Of a file that changes while the tree is open nothing more is read, whether it has been read before or not.
func TestHeldTreeChanges(t *testing.T) {
	r, dir := openRoots(t)
	m := filepath.Join(dir, "m")
	path := filepath.Join(m, "config.json")
	for _, before := range []bool{false, true} {
		if err := begin(t, r, m).Commit(); err != nil {
			t.Fatal(err)
		}
		tr, err := r.OpenTree(m, "s", model)
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		b := make([]byte, len(modelBytes))
		if before {
			if _, err := tr.ReadAt(b, 0); err != nil {
				t.Fatal(err)
			}
		}
		overwrite(t, path, "[]")
		n, err := tr.ReadAt(b, 0)
		if wantChanged(t, err, path); n != 6 {
			t.Errorf("%d bytes are read, want the 6 before the file that was written to", n)
		}
		if n, err := tr.ReadAt(b[:3], 8); err != nil || string(b[:n]) != "voc" {
			t.Errorf("another file: %q, %v", b[:n], err)
		}
	}
}

// More files than are open at a time, of which many are used at once.
func TestTreeOfManyFiles(t *testing.T) {
	r, dir := openRoots(t)
	var files []TreeFile
	var data []byte
	for i := range 5 * mostOpen {
		text := fmt.Sprintf("file %d", i)
		files = append(files, TreeFile{Name: fmt.Sprintf("d%d/%d", i%7, i), Size: unit.Bytes(len(text)), Version: "v"})
		data = append(data, text...)
	}
	tr, err := r.CreateTree("j", filepath.Join(dir, "m"), "s", files)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	var wg sync.WaitGroup
	for off := 0; off < len(data); off += 100 {
		wg.Go(func() {
			if _, err := tr.WriteAt(data[off:min(off+100, len(data))], int64(off)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(tr.open.by); n > mostOpen {
		t.Errorf("%d files are open, want %d at most", n, mostOpen)
	}
	read := func(when string) {
		b := make([]byte, len(data))
		if _, err := tr.ReadAt(b, 0); err != nil || !bytes.Equal(b, data) {
			t.Errorf("%s it reads other bytes (%v)", when, err)
		}
	}
	read("before commit")
	if err := tr.Commit(); err != nil {
		t.Fatal(err)
	}
	read("after commit")
	for i, f := range files {
		if got, err := os.ReadFile(filepath.Join(dir, "m", f.Name)); err != nil || string(got) != fmt.Sprintf("file %d", i) {
			t.Fatalf("%s holds %q, %v", f.Name, got, err)
		}
	}
	os.Remove(filepath.Join(dir, "m", "d0", "0"))
	os.WriteFile(filepath.Join(dir, "m", "d0", "0"), []byte("another"), 0o644)
	if _, err := tr.ReadAt(make([]byte, 6), 0); err == nil {
		t.Error("a file that was replaced is read for the one that landed")
	}
}

// Files that are in their places already stay there, unless they are written to all the same.
func TestTreeKeepsFiles(t *testing.T) {
	for _, wrong := range []bool{false, true} {
		state, dir := t.TempDir(), t.TempDir()
		r := openAt(t, state, dir)
		m := filepath.Join(dir, "m")
		if err := begin(t, r, m).Commit(); err != nil {
			t.Fatal(err)
		}
		before, err := os.Stat(filepath.Join(m, "shard-1"))
		if err != nil {
			t.Fatal(err)
		}
		next := slices.Clone(model)
		next[1].Version = "v9" // config.json
		held, err := r.HeldFiles(m, "s", next)
		if err != nil || !slices.Equal(held, []bool{true, false, true, true}) {
			t.Fatalf("held: %v, %v", held, err)
		}
		for i := range next {
			next[i].Kept = held[i]
		}
		tr, err := r.CreateTree("job-2", m, "s", next)
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		wantTree(t, filepath.Join(m, ".freshet.job-2.part"), "1")
		if _, err := tr.WriteAt([]byte("[]"), 6); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, len(modelBytes))
		if _, err := tr.ReadAt(b, 0); err != nil || string(b) != "shard1[]voc" {
			t.Errorf("reads %q, %v", b, err)
		}
		want := map[string]string{"shard-1": "shard1", "config.json": "[]", "empty": "", "sub/deep/vocab": "voc"}
		if wrong {
			if _, err := tr.WriteAt([]byte("X"), 5); err != nil {
				t.Fatal(err)
			}
			want["shard-1"] = "shardX"
			wantFiles(t, m, whole)
		}
		if err := tr.Commit(); err != nil {
			t.Fatal(err)
		}
		wantFiles(t, m, want)
		wantTree(t, m, "config.json", "empty", "shard-1", "sub/", "sub/deep/", "sub/deep/vocab")
		after, err := os.Stat(filepath.Join(m, "shard-1"))
		if err != nil || os.SameFile(before, after) == wrong {
			t.Errorf("a file that was to be kept is another one: %v (%v)", !os.SameFile(before, after), err)
		}
		if held, err := heldAll(r, m, "s", next); !held || err != nil {
			t.Errorf("afterwards all are held: %v, %v", held, err)
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}

		overwrite(t, filepath.Join(m, "sub/deep/vocab"), "VOC")
		_, err = r.CreateTree("job-3", m, "s", next) // of which one has changed since it was looked at
		wantChanged(t, err, filepath.Join(m, "sub/deep/vocab"))
		wantTree(t, m, "config.json", "empty", "shard-1", "sub/", "sub/deep/", "sub/deep/vocab")
		next[3].Kept = false

		tr, err = r.CreateTree("job-3", m, "s", next) // and a file that is replaced while others land
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		if _, err := tr.ReadAt(b, 0); err != nil {
			t.Error(err)
		}
		overwrite(t, filepath.Join(m, "shard-1"), "theirs")
		_, err = tr.ReadAt(b, 0)
		wantChanged(t, err, filepath.Join(m, "shard-1"))
		os.Remove(filepath.Join(m, "shard-1"))
		os.WriteFile(filepath.Join(m, "shard-1"), []byte("theirs"), 0o644)
		os.Chtimes(filepath.Join(m, "shard-1"), time.Now(), time.Now().Add(time.Second))
		wantError(t, tr.Commit(), "shard-1", "replaced")
	}
}

// theirs makes a file of somebody else below the root, named as a part file is. unharmed sees that nothing was done to it.
func theirs(t *testing.T, root string) (file string, unharmed func()) {
	t.Helper()
	file = filepath.Join(root, "alice", "0")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return file, func() {
		t.Helper()
		now, err := os.Stat(file)
		if err != nil || !os.SameFile(now, before) || now.Mode() != 0o600 {
			t.Errorf("the file of another is not what it was: %v, %v", now, err)
		}
		wantFiles(t, filepath.Dir(file), map[string]string{"0": "secret"})
	}
}

// replacements put something else in the place of a directory of part files, for which another's file would be taken.
var replacements = map[string]func(t *testing.T, parts, file string){
	"directory of links": func(t *testing.T, parts, file string) {
		must(t, os.Rename(parts, parts+".away"), os.Mkdir(parts, 0o755))
		for i := range model {
			must(t, os.Symlink("../../alice/0", filepath.Join(parts, fmt.Sprint(i))))
		}
	},
	"link to a directory": func(t *testing.T, parts, file string) {
		must(t, os.Rename(parts, parts+".away"), os.Symlink("../alice", parts))
	},
	"directory of another": func(t *testing.T, parts, file string) {
		must(t, os.Rename(parts, parts+".away"), os.Mkdir(parts, 0o755), os.Link(file, filepath.Join(parts, "0")))
	},
	"part files that are links": func(t *testing.T, parts, file string) {
		for i := range model {
			name := filepath.Join(parts, fmt.Sprint(i))
			must(t, os.Remove(name), os.Symlink("../../alice/0", name))
		}
	},
	"part files that are others": func(t *testing.T, parts, file string) {
		for i := range model {
			name := filepath.Join(parts, fmt.Sprint(i))
			must(t, os.Remove(name), os.Link(file, name))
		}
	},
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// Whoever may write in the directory where a tree lands has nothing done to the files of others by putting them in the place of part files: neither
// before the first of them is written nor when all are.
func TestPartFilesAreReplaced(t *testing.T) {
	for name, replace := range replacements {
		for _, written := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " written ", written), func(t *testing.T) {
				r, dir := openRoots(t)
				file, unharmed := theirs(t, dir)
				m := filepath.Join(dir, "m")
				tr, err := r.CreateTree("job-1", m, "s", model)
				must(t, err)
				defer tr.Close()
				if written {
					_, err := tr.WriteAt([]byte(modelBytes), 0)
					must(t, err)
				}
				replace(t, filepath.Join(m, ".freshet.job-1.part"), file)
				if !written {
					tr.WriteAt([]byte(modelBytes), 0)
				}
				unharmed()
				wantError(t, tr.Commit(), m)
				unharmed()
				tr.Close()
				unharmed()
				if _, err := os.Stat(filepath.Join(m, ".freshet.job-1.part", "0")); strings.Contains(name, "directory") != (err == nil) {
					t.Errorf("afterwards what was put there: %v", err)
				}
				for _, f := range model {
					if _, err := os.Lstat(filepath.Join(m, f.Name)); !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%s is there, or: %v", f.Name, err)
					}
				}
			})
		}
	}
}

// Nor while the files are put in their places, by Commit or by the next start: then they get there all the same.
func TestPartFilesAreReplacedLate(t *testing.T) {
	defer func(m func(*os.Root, string, *os.Root, string) error) { rename = m }(rename)
	for _, name := range []string{"directory of links", "link to a directory", "directory of another"} {
		for _, swept := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " swept ", swept), func(t *testing.T) {
				state, dir := t.TempDir(), t.TempDir()
				r := openAt(t, state, dir)
				file, unharmed := theirs(t, dir)
				m := filepath.Join(dir, "m")
				tr := begin(t, r, m)
				if swept {
					rename = func(*os.Root, string, *os.Root, string) error {
						r.state.Close()
						return syscall.EIO
					}
					tr.Commit()
					r.Close() // as if killed: nothing is aborted
					r = openAt(t, state, dir)
				}
				replaced := false
				rename = func(from *os.Root, part string, to *os.Root, as string) error {
					if !replaced {
						replacements[name](t, filepath.Join(m, ".freshet.job-1.part"), file)
					}
					replaced = true
					return renameBetween(from, part, to, as)
				}
				if swept {
					must(t, r.Sweep())
				} else {
					must(t, tr.Commit(), tr.Close())
				}
				unharmed()
				wantFiles(t, m, whole)
			})
		}
	}
}

// Where somebody moves the destination away while files are synced, none is put anywhere.
func TestDestinationMovesDuringSync(t *testing.T) {
	defer func(s func(*os.File) error) { syncFile = s }(syncFile)
	r, dir := openRoots(t)
	m := filepath.Join(dir, "m")
	tr := begin(t, r, m)
	var once sync.Once
	syncFile = func(f *os.File) error {
		once.Do(func() { must(t, os.Rename(m, m+".old")) })
		return f.Sync()
	}
	wantError(t, tr.Commit(), m)
	if _, err := os.Lstat(m); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s was made again, or: %v", m, err)
	}
}

// What others have put among the part files, as indexers do, keeps nothing from its place, and goes with them.
func TestOthersAmongPartFiles(t *testing.T) {
	r, dir := openRoots(t)
	m := filepath.Join(dir, "m")
	tr := begin(t, r, m)
	must(t, os.MkdirAll(filepath.Join(m, ".freshet.job-1.part", "@eaDir", "0"), 0o755))
	must(t, tr.Commit(), tr.Close())
	wantFiles(t, m, whole)
	if _, err := os.Lstat(filepath.Join(m, ".freshet.job-1.part")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its part files' directory: %v", err)
	}
}

// What others have put among the part files and cannot be removed, as in a directory that is another user's, fails nothing whose files are all in their
// places, and keeps nothing newer back, after a restart neither; a start tries to remove it again.
func TestOthersThatCannotBeRemoved(t *testing.T) {
	defer func(f func(*os.Root, string) error) { removeAll = f }(removeAll)
	foreign := func(dir *os.Root, name string) error {
		if name == "@eaDir" {
			return &fs.PathError{Op: "unlinkat", Path: name, Err: syscall.EACCES}
		}
		return dir.RemoveAll(name)
	}
	for _, crashed := range []bool{false, true} {
		t.Run(fmt.Sprintf("crashed=%v", crashed), func(t *testing.T) {
			state, dir := t.TempDir(), t.TempDir()
			r := openAt(t, state, dir)
			m := filepath.Join(dir, "m")
			tr := begin(t, r, m)
			part := filepath.Join(m, ".freshet.job-1.part")
			must(t, os.MkdirAll(filepath.Join(part, "@eaDir", "0"), 0o755))
			removeAll = foreign
			if crashed {
				removeAll = func(*os.Root, string) error {
					r.state.Close()
					return syscall.EIO
				}
				tr.Commit()
				removeAll = foreign
				r.Close()
			} else {
				must(t, tr.Commit(), tr.Close())
				if held, err := heldAll(r, m, "s", model); !held || err != nil {
					t.Errorf("held: %v, %v", held, err)
				}
				must(t, r.Close())
			}
			wantFiles(t, m, whole)
			r = openAt(t, state, dir)
			wantError(t, r.Sweep(), m, "permission denied")
			must(t, r.CheckTree(m, model))
			land(t, r, filepath.Join(m, "shard-1"), []byte("newer"), Meta{})
			wantError(t, r.Sweep(), m)
			removeAll = (*os.Root).RemoveAll
			must(t, r.Sweep())
			wantTree(t, m, "config.json", "empty", "shard-1", "sub/", "sub/deep/", "sub/deep/vocab")
			wantFiles(t, m, map[string]string{"shard-1": "newer"})
			wantTree(t, filepath.Join(state, journalDir))
		})
	}
}

// Who reads after Commit does not look among the part files any more: NFS has a stale handle of a directory that is gone, and no file that is not there.
func TestPartFilesAreNotLookedFor(t *testing.T) {
	r, dir := openRoots(t)
	tr := begin(t, r, filepath.Join(dir, "m"))
	must(t, tr.Commit(), tr.parts.Close())
	for i := range model {
		tr.open.mu.Lock()
		tr.open.forget(i)
		tr.open.mu.Unlock()
	}
	got := make([]byte, len(modelBytes))
	if _, err := tr.ReadAt(got, 0); err != nil || string(got) != modelBytes {
		t.Errorf("read %q, %v", got, err)
	}
}

// keepOthers lands the model below dir, and begins another job that keeps all of its files but config.json.
func keepOthers(t *testing.T, r *Roots, dir string) *Tree {
	t.Helper()
	must(t, begin(t, r, dir).Commit())
	files := slices.Clone(model)
	for i := range files {
		files[i].Kept = files[i].Name != "config.json"
	}
	tr, err := r.CreateTree("job-2", dir, "s", files)
	must(t, err)
	t.Cleanup(func() { tr.Close() })
	return tr
}

// slowCopy has kept files copied byte by byte. Before the given one it closes asked, and waits for answer to be closed. steps is how often it was called.
func slowCopy(t *testing.T, at int) (asked, answer chan struct{}, steps *int) {
	t.Cleanup(func() { copySome = io.CopyN })
	asked, answer, steps = make(chan struct{}), make(chan struct{}), new(int)
	copySome = func(to io.Writer, from io.Reader, _ int64) (int64, error) {
		if *steps++; *steps == at {
			close(asked)
			<-answer
		}
		return io.CopyN(to, from, 1)
	}
	return asked, answer, steps
}

// While a kept file is copied, since it is written to, it is read as it was, and others are read and written. All who write to it wait for one copy.
func TestKeptFileIsCopiedBesideOthers(t *testing.T) {
	r, dir := openRoots(t)
	m := filepath.Join(dir, "m")
	tr := keepOthers(t, r, m)
	asked, answer, steps := slowCopy(t, 3)
	var wg sync.WaitGroup
	for off, text := range map[int64]string{0: "S", 5: "X"} { // of shard-1
		wg.Go(func() {
			if n, err := tr.WriteAt([]byte(text), off); n != 1 || err != nil {
				t.Errorf("write %s: %d, %v", text, n, err)
			}
		})
	}
	<-asked
	inTime(t, "write another file", func() error {
		_, err := tr.WriteAt([]byte("[]"), 6)
		return err
	})
	b := make([]byte, len(modelBytes))
	inTime(t, "read", func() error {
		if _, err := tr.ReadAt(b, 0); err != nil || string(b) != "shard1[]voc" {
			return fmt.Errorf("%q, %v", b, err)
		}
		return nil
	})
	close(answer)
	wg.Wait()
	if *steps != 7 {
		t.Errorf("6 bytes were copied in %d steps, want 7: once, and its end", *steps)
	}
	if _, err := tr.ReadAt(b, 0); err != nil || string(b) != "ShardX[]voc" {
		t.Errorf("reads %q, %v", b, err)
	}
	wantFiles(t, m, whole)
	must(t, tr.Commit())
	wantFiles(t, m, map[string]string{"shard-1": "ShardX", "config.json": "[]", "empty": "", "sub/deep/vocab": "voc"})
}

// An abort does not wait for the rest of a copy, and nothing of it is left.
func TestAbortWhileAKeptFileIsCopied(t *testing.T) {
	r, dir := openRoots(t)
	m := filepath.Join(dir, "m")
	tr := keepOthers(t, r, m)
	asked, answer, steps := slowCopy(t, 2)
	written, aborted := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := tr.WriteAt([]byte("X"), 5)
		written <- err
	}()
	<-asked
	wantTree(t, filepath.Join(m, ".freshet.job-2.part"), "0", "1")
	go func() { aborted <- tr.Abort() }()
	for deadline := time.Now().Add(10 * time.Second); !tr.open.ended() && time.Now().Before(deadline); time.Sleep(quick) {
	}
	close(answer)
	if err := <-aborted; err != nil {
		t.Error(err)
	}
	if err := <-written; !errors.Is(err, fs.ErrClosed) {
		t.Errorf("write: %v, want that it is closed", err)
	}
	if *steps != 2 {
		t.Errorf("it was copied on: %d steps, want 2", *steps)
	}
	wantTree(t, m, "config.json", "empty", "shard-1", "sub/", "sub/deep/", "sub/deep/vocab")
	wantFiles(t, m, whole)
	if left, _ := fs.Glob(r.state.FS(), journalDir+"/*"); len(left) > 0 {
		t.Errorf("the journal still has %q", left)
	}
}

// Nor is it copied on for a job that nobody wants any more; what has been written by then can be read.
func TestCopiesEndBeforeTheTree(t *testing.T) {
	r, dir := openRoots(t)
	tr := keepOthers(t, r, filepath.Join(dir, "m"))
	asked, answer, steps := slowCopy(t, 2)
	written := make(chan error, 1)
	go func() {
		_, err := tr.WriteAt([]byte("X"), 5)
		written <- err
	}()
	<-asked
	tr.StopCopies()
	close(answer)
	if err := <-written; !errors.Is(err, fs.ErrClosed) || *steps != 2 {
		t.Errorf("write: %v after %d steps, want that it is closed after 2", err, *steps)
	}
	if _, err := tr.WriteAt([]byte("X"), 5); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("write: %v, want that it is closed", err)
	}
	got := make([]byte, 6)
	if _, err := tr.ReadAt(got, 0); err != nil && err != io.EOF {
		t.Errorf("read: %v", err)
	}
	if err := tr.Abort(); err != nil {
		t.Error(err)
	}
}

// A copy that fails leaves nothing, says why, and is made anew by who writes next.
func TestKeptFileThatCannotBeCopied(t *testing.T) {
	defer func() { copySome = io.CopyN }()
	r, dir := openRoots(t)
	m := filepath.Join(dir, "m")
	tr := keepOthers(t, r, m)
	copySome = func(to io.Writer, from io.Reader, _ int64) (int64, error) {
		n, _ := io.CopyN(to, from, 2)
		return n, &fs.PathError{Op: "write", Path: "0", Err: os.NewSyscallError("copy_file_range", syscall.ENOSPC)}
	}
	_, err := tr.WriteAt([]byte("X"), 5)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write: %v, want ENOSPC", err)
	}
	wantError(t, err, filepath.Join(m, "shard-1")+": needs 6 B, ", " free: no space left on device")
	wantTree(t, filepath.Join(m, ".freshet.job-2.part"), "1")
	wantFiles(t, m, whole)
	copySome = io.CopyN
	_, err = tr.WriteAt([]byte("X[]"), 5)
	must(t, err, tr.Commit())
	wantFiles(t, m, map[string]string{"shard-1": "shardX", "config.json": "[]", "empty": "", "sub/deep/vocab": "voc"})
}
