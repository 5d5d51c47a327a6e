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

// openRoots opens one root, and returns the directory.
func openRoots(t *testing.T) (*Roots, string) {
	t.Helper()
	dir := t.TempDir()
	r := openAt(t, t.TempDir(), dir)
	return r, dir
}

func openAt(t *testing.T, state string, dirs ...string) *Roots {
	t.Helper()
	r, err := OpenRoots(dirs, state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// tree lists what lies under dir, directories with a slash.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if d.IsDir() {
			rel += "/"
		}
		names = append(names, rel)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func wantTree(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := tree(t, dir); !slices.Equal(got, want) {
		t.Errorf("%s holds %q, want %q", dir, got, want)
	}
}

func wantError(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one that says %q", texts)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error is %q, want it to say %q", err, text)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q has more than one line", err)
	}
}

// land puts data at path.
func land(t *testing.T, r *Roots, path string, data []byte, m Meta) {
	t.Helper()
	f, err := r.Create("job-1", path, unit.Bytes(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(m); err != nil {
		t.Fatal(err)
	}
}

func TestLandsWholeOrNotAtAll(t *testing.T) {
	r, dir := openRoots(t)
	path := filepath.Join(dir, "a", "b", "model.bin")
	f, err := r.Create("job-1", path, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("world"), 5); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("hello"), 0); err != nil {
		t.Fatal(err)
	}
	wantTree(t, dir, "a/", "a/b/", "a/b/.model.bin.job-1.part")
	if err := f.Commit(Meta{"s3://b/k", "v1"}); err != nil {
		t.Fatal(err)
	}
	wantTree(t, dir, "a/", "a/b/", "a/b/model.bin")
	if got, _ := os.ReadFile(path); string(got) != "helloworld" {
		t.Errorf("file holds %q, want helloworld", got)
	}
	if info, _ := os.Stat(path); info.Mode() != 0o644 {
		t.Errorf("mode is %v, want -rw-r--r--", info.Mode())
	}
	b := make([]byte, 5)
	if n, err := f.ReadAt(b, 5); err != nil || string(b[:n]) != "world" {
		t.Errorf("read after commit: %q, %v, want world", b[:n], err)
	}
	if err := f.Abort(); err != nil {
		t.Errorf("abort after commit: %v", err)
	}
	if err := f.Commit(Meta{}); err == nil {
		t.Error("committed twice")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("after abort and close: %v", err)
	}
	got, err := r.OpenHeld(path, "s3://b/k", "v1", 10)
	if err != nil {
		t.Fatal(err)
	}
	got.Close()
}

func TestEmptyObject(t *testing.T) {
	r, dir := openRoots(t)
	land(t, r, filepath.Join(dir, "empty"), nil, Meta{"s", "v"})
	if info, err := os.Stat(filepath.Join(dir, "empty")); err != nil || info.Size() != 0 {
		t.Errorf("empty file: %v, %v", info, err)
	}
}

func TestReplacingKeepsTheOldFileAndItsMode(t *testing.T) {
	r, dir := openRoots(t)
	path := filepath.Join(dir, "f")
	os.WriteFile(path, []byte("old"), 0o600)
	os.Chmod(path, 0o750)
	f, err := r.Create("j", path, 3)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteAt([]byte("new"), 0)
	if err := f.Abort(); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("after abort the file holds %q, want old", got)
	}
	wantTree(t, dir, "f")
	land(t, r, path, []byte("new"), Meta{})
	if got, _ := os.ReadFile(path); string(got) != "new" {
		t.Errorf("after commit the file holds %q, want new", got)
	}
	if info, _ := os.Stat(path); info.Mode() != 0o750 {
		t.Errorf("mode is %v, want -rwxr-x---", info.Mode())
	}
}

// A file of somebody else's stays his, alone or with others.
func TestReplacingKeepsTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give files away")
	}
	r, dir := openRoots(t)
	const uid, gid = 1234, 5678
	m := filepath.Join(dir, "m")
	if err := os.Mkdir(m, 0o755); err != nil {
		t.Fatal(err)
	}
	paths := []string{filepath.Join(dir, "f"), filepath.Join(m, "config.json")}
	for _, path := range paths {
		if err := errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Chown(path, uid, gid)); err != nil {
			t.Fatal(err)
		}
	}
	land(t, r, paths[0], []byte("new"), Meta{})
	if err := begin(t, r, m).Commit(); err != nil {
		t.Fatal(err)
	}
	for _, path := range append(paths, filepath.Join(m, "shard-1")) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		wantUID, wantGID, mode := uint32(uid), uint32(gid), fs.FileMode(0o600)
		if path == filepath.Join(m, "shard-1") { // it was not there
			wantUID, wantGID, mode = uint32(os.Geteuid()), uint32(os.Getegid()), 0o644
		}
		if is := info.Sys().(*syscall.Stat_t); is.Uid != wantUID || is.Gid != wantGID || info.Mode() != mode {
			t.Errorf("%s: %d:%d, %v, want %d:%d, %v", path, is.Uid, is.Gid, info.Mode(), wantUID, wantGID, mode)
		}
	}
}

// TestCommitLasts: what has been written is on the disk before the file gets
// its name, and the name before Commit returns, with those of the parents.
func TestCommitLasts(t *testing.T) {
	r, dir := openRoots(t)
	var steps []string
	note := func(step, path string, got int64) {
		rel, _ := filepath.Rel(r.roots[0].real, path)
		steps = append(steps, fmt.Sprintf("%s %s %d", step, rel, got))
	}
	defer func(s func(*os.File) error, m func(*os.Root, string, *os.Root, string) error) {
		syncFile, rename = s, m
	}(syncFile, rename)
	failing := ""
	syncFile = func(f *os.File) error {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		size, what := info.Size(), "sync"
		if info.IsDir() {
			size, what = 0, "sync directory"
		} else if b, err := os.ReadFile(f.Name()); err != nil || string(b) != "hello" {
			t.Errorf("synced with %q, %v, want hello", b, err)
		}
		note(what, f.Name(), size)
		if what == failing {
			return syscall.EIO
		}
		return f.Sync()
	}
	rename = func(from *os.Root, name string, to *os.Root, as string) error {
		note("rename", filepath.Join(to.Name(), as), 0)
		return renameBetween(from, name, to, as)
	}
	land(t, r, filepath.Join(dir, "a", "f"), []byte("hello"), Meta{})
	want := []string{"sync a/.f.job-1.part 5", "rename a/f 0", "sync directory a 0", "sync directory . 0"}
	if !slices.Equal(steps, want) {
		t.Errorf("steps are %q, want %q", steps, want)
	}

	for _, failing = range []string{"sync", "sync directory"} {
		path := filepath.Join(dir, strings.ReplaceAll(failing, " ", "-"))
		f, err := r.Create("j", path, 5)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("hello"), 0); err != nil {
			t.Fatal(err)
		}
		if err := f.Commit(Meta{}); !errors.Is(err, syscall.EIO) {
			t.Errorf("commit with a failing %s: %v, want EIO", failing, err)
		}
		f.Close()
		if _, err := os.Stat(path); failing == "sync" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a file that was not synced has its name: %v", err)
		}
	}
}

// TestFileSystemThatCannotAllocate: the file gets its size, and is written as
// it comes; what cannot fit is refused all the same.
func TestFileSystemThatCannotAllocate(t *testing.T) {
	defer func(a func(*os.File, int64, int64) error) { allocate = a }(allocate)
	asked := 0
	allocate = func(*os.File, int64, int64) error { asked++; return errors.ErrUnsupported }
	r, dir := openRoots(t)
	path := filepath.Join(dir, "f")
	data := bytes.Repeat([]byte("hello"), 1000)
	f, err := r.Create("j", path, unit.Bytes(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := f.f.Stat(); err != nil || info.Size() != int64(len(data)) || asked != 1 {
		t.Errorf("part file: %v, %v after %d allocations, want all of its size and one", info, err, asked)
	}
	for _, off := range []int64{3000, 0} { // the end first
		if _, err := f.WriteAt(data[off:min(off+3000, int64(len(data)))], off); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Commit(Meta{}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("landed %d bytes, %v, want the %d written", len(got), err, len(data))
	}

	const exbibyte = 1 << 60
	_, err = r.Create("j", filepath.Join(dir, "g"), exbibyte)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("create a file larger than the disk: %v, want ENOSPC", err)
	}
	wantTree(t, dir, "f")
}

func TestAbortRemovesOnlyParentsItMade(t *testing.T) {
	r, dir := openRoots(t)
	os.Mkdir(filepath.Join(dir, "mine"), 0o755)
	one, err := r.Create("j", filepath.Join(dir, "mine", "x", "y", "one"), 1)
	if err != nil {
		t.Fatal(err)
	}
	two, err := r.Create("j", filepath.Join(dir, "mine", "x", "two"), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Abort(); err != nil {
		t.Fatal(err)
	}
	wantTree(t, dir, "mine/", "mine/x/", "mine/x/.two.j.part")
	if err := two.Close(); err != nil { // as Abort
		t.Fatal(err)
	}
	wantTree(t, dir, "mine/")
	three, err := r.Create("j", filepath.Join(dir, "mine", "x", "three"), 1)
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(dir, "mine", "x", "theirs"), nil, 0o644)
	three.Abort()
	wantTree(t, dir, "mine/", "mine/x/", "mine/x/theirs")
}

func TestRefusedDestinations(t *testing.T) {
	r, dir := openRoots(t)
	outside := t.TempDir()
	os.Mkdir(filepath.Join(dir, "d"), 0o755)
	os.WriteFile(filepath.Join(dir, "file"), nil, 0o644)
	os.Symlink("file", filepath.Join(dir, "link"))
	os.Symlink(outside, filepath.Join(dir, "out"))
	os.Symlink("..", filepath.Join(dir, "up"))
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	for path, want := range map[string][]string{
		"":                                   {"not a path"},
		"a\x00b":                             {"not a path"},
		"rel/ative":                          {"absolute"},
		dir:                                  {"is a directory", "add a file name"},
		dir + "/":                            {"names a directory", "add a file name"},
		dir + "/new/":                        {"names a directory", filepath.Join(dir, "new", "NAME")},
		dir + "/d":                           {"is a directory", "add a file name"},
		dir + "/link":                        {"symbolic link"},
		dir + "/fifo":                        {"not a regular file"},
		dir + "/file/x":                      {"not a directory"},
		dir + "/../x":                        {"outside the roots", dir},
		dir + "x/y":                          {"outside the roots", dir},
		"/etc/passwd":                        {"outside the roots", dir},
		dir + "/out/x":                       {"leads out of the root"},
		dir + "/out/new/x":                   {"leads out of the root"},
		dir + "/up/x":                        {"leads out of the root"},
		dir + "/" + strings.Repeat("n", 256): {"too long"},
		dir + "/" + strings.Repeat("n", 256) + "/x": {"too long"},
	} {
		err := r.Check(path)
		wantError(t, err, want...)
		f, err := r.Create("j", path, 1)
		wantError(t, err, want...)
		if f != nil {
			f.Close()
		}
	}
	wantTree(t, dir, before...)
	wantTree(t, outside)

	for _, path := range []string{"/x", "/d/x", "/file", "/new/new/x", "/d/../x", "/" + strings.Repeat("n", 255)} {
		if err := r.Check(dir + path); err != nil {
			t.Errorf("check %s: %v", path, err)
		}
	}
	wantTree(t, dir, before...)
	if _, err := r.OpenHeld(filepath.Join(dir, "fifo"), "s", "v", 0); err == nil {
		t.Error("opened a FIFO")
	}
	if _, err := r.OpenHeld("/etc/passwd", "s", "v", 0); err == nil {
		t.Error("opened a file outside the roots")
	}
	for _, job := range []string{"", "a/b", strings.Repeat("j", 65)} {
		if _, err := r.Create(job, filepath.Join(dir, "x"), 1); err == nil {
			t.Errorf("created for job %q", job)
		}
	}
	if _, err := r.Create("j", filepath.Join(dir, "x"), -1); err == nil {
		t.Error("created a file of negative size")
	}
}

func TestRootsMayBeSymlinksAndNested(t *testing.T) {
	dir := t.TempDir()
	os.MkdirAll(filepath.Join(dir, "real", "in"), 0o755)
	os.Symlink("real", filepath.Join(dir, "link"))
	os.Symlink("in", filepath.Join(dir, "real", "within"))
	r := openAt(t, t.TempDir(), filepath.Join(dir, "link"), filepath.Join(dir, "real", "in"))
	for _, path := range []string{"link/a", "real/b", "link/in/c", "real/within/d"} {
		land(t, r, filepath.Join(dir, path), []byte("x"), Meta{"s", "v"})
		if held, err := r.Held(filepath.Join(dir, path), "s", "v", 1); !held || err != nil {
			t.Errorf("%s: held is %v, %v, want true", path, held, err)
		}
		if _, err := os.Stat(filepath.Join(dir, path)); err != nil {
			t.Error(err)
		}
	}
	// The same file by another way.
	if held, err := r.Held(filepath.Join(dir, "real/in/d"), "s", "v", 1); !held || err != nil {
		t.Errorf("by another path: held is %v, %v, want true", held, err)
	}
	f, err := r.Create("one", filepath.Join(dir, "link/within/e"), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := r.Create("two", filepath.Join(dir, "real/in/e"), 1); !errors.Is(err, ErrBusy) {
		t.Errorf("create by another path: %v, want ErrBusy", err)
	}

	if _, err := OpenRoots([]string{filepath.Join(dir, "absent")}, t.TempDir()); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("open a root that is absent: %v", err)
	}
	none := openAt(t, t.TempDir())
	wantError(t, none.Check("/x"), "no root")
}

// probeName is that of the file which the nth probe from now on makes.
func probeName(n uint64) string {
	return fmt.Sprintf(".freshet-check.%d.%d", os.Getpid(), probes.Load()+n)
}

// What lies in a root already does not keep it from being written.
func TestWritable(t *testing.T) {
	outer := t.TempDir()
	inner := filepath.Join(outer, "inner")
	for _, dir := range []string{inner, filepath.Join(outer, "x"), filepath.Join(inner, "x")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	left := filepath.Join(inner, probeName(2)) // by a killed process, where the inner root is tried below
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := openAt(t, t.TempDir(), outer, inner)
	for _, dir := range r.Dirs() {
		if free, err := r.Writable(dir); err != nil || free <= 0 {
			t.Errorf("%s: %v free, %v; want that it can be written", dir, free, err)
		}
	}
	wantTree(t, outer, "inner/", "inner/x/", "x/")
	_, err := r.Writable(filepath.Join(outer, "x"))
	wantError(t, err, filepath.Join(outer, "x")+" is no root of this node", inner)
	if err := os.RemoveAll(inner); err != nil {
		t.Fatal(err)
	}
	_, err = r.Writable(inner)
	wantError(t, err, inner, "no such file")
	if _, err := r.Writable(outer); err != nil {
		t.Errorf("without the inner root: %v", err)
	}
}

// inTime wants that f ends, without an error.
func inTime(t *testing.T, what string, f func() error) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(20 * time.Second):
		t.Errorf("%s: it waits for what has nothing to do with it", what)
	}
}

func TestBusyNamesTheJob(t *testing.T) {
	r, dir := openRoots(t)
	path := filepath.Join(dir, "new", "f")
	f, err := r.Create("job-1", path, 1)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Create("job-2", path, 1)
	if !errors.Is(err, ErrBusy) {
		t.Errorf("create twice: %v, want ErrBusy", err)
	}
	wantError(t, err, "job-1", path)
	f.Abort()
	land(t, r, path, []byte("x"), Meta{}) // free again

	// Many at once for one new directory: none in the other's way.
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			f, err := r.Create("j", filepath.Join(dir, "d", "e", fmt.Sprint(i%10)), 1)
			if err != nil {
				if !errors.Is(err, ErrBusy) {
					t.Error(err)
				}
				return
			}
			f.Close()
		})
	}
	wg.Wait()
	wantTree(t, dir, "new/", "new/f")
}

func TestWritesStayWithinTheSize(t *testing.T) {
	r, dir := openRoots(t)
	f, err := r.Create("j", filepath.Join(dir, "f"), 10)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, off := range []int64{-1, 8, 10, 11, 1 << 62, -1 << 63} {
		if _, err := f.WriteAt([]byte("abc"), off); err == nil {
			t.Errorf("wrote 3 bytes at %d of 10", off)
		}
	}
	if _, err := f.WriteAt([]byte("abc"), 7); err != nil {
		t.Error(err)
	}
	os.Truncate(filepath.Join(dir, ".f.j.part"), 5)
	wantError(t, f.Commit(Meta{}), "somebody else")
}

func TestHeld(t *testing.T) {
	state, dir := t.TempDir(), t.TempDir()
	r := openAt(t, state, dir)
	path := filepath.Join(dir, "f")
	check := func(what string, want bool, source, version string, size unit.Bytes) {
		t.Helper()
		if got, err := r.Held(path, source, version, size); got != want || err != nil {
			t.Errorf("%s: held is %v, %v, want %v", what, got, err, want)
		}
	}
	check("nothing there", false, "s", "v1", 3)
	os.WriteFile(path, []byte("abc"), 0o644)
	check("a file of other origin", false, "s", "v1", 3)
	land(t, r, path, []byte("abc"), Meta{"s", "v1"})
	check("landed", true, "s", "v1", 3)
	check("other version", false, "s", "v2", 3)
	check("other source", false, "t", "v1", 3)
	check("other size", false, "s", "v1", 4)
	check("no version", false, "s", "", 3)

	r.Close() // and after a restart
	r = openAt(t, state, dir)
	check("landed before a restart", true, "s", "v1", 3)
	os.Chmod(path, 0o600)
	check("other mode", true, "s", "v1", 3)
	os.WriteFile(path, []byte("xyz"), 0o644)
	os.Chtimes(path, time.Now(), time.Now().Add(time.Second))
	check("overwritten", false, "s", "v1", 3)

	land(t, r, path, []byte("abc"), Meta{"s", "v1"})
	info, _ := os.Stat(path)
	os.Rename(path, path+".old")
	os.WriteFile(path, []byte("xyz"), 0o644)
	os.Chtimes(path, time.Time{}, info.ModTime())
	check("replaced by a file of the same size and time", false, "s", "v1", 3)
	os.Remove(path)
	check("removed", false, "s", "v1", 3)

	if _, err := r.Held("/elsewhere", "s", "v", 1); err == nil {
		t.Error("held outside the roots, want an error")
	}
}

// overwrite writes text to a file that is there, which keeps its number, and gives it a time of its own.
func overwrite(t *testing.T, path, text string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o644), os.Chtimes(path, time.Time{}, info.ModTime().Add(time.Second))); err != nil {
		t.Fatal(err)
	}
}

// wantChanged wants a *ChangedError, of one line, that names path.
func wantChanged(t *testing.T, err error, path string) {
	t.Helper()
	wantError(t, err, path+" was written to, replaced or removed after it had landed")
	if changed, ok := errors.AsType[*ChangedError](err); ok && changed.Path != path {
		t.Errorf("%s has changed, want %s", changed.Path, path)
	} else if err != nil && !ok {
		t.Errorf("error is %v, want a *ChangedError", err)
	}
}

// A file that is not what landed is not opened, and of one that changes while it is open nothing more is read.
func TestOpenHeld(t *testing.T) {
	r, dir := openRoots(t)
	path := filepath.Join(dir, "f")
	open := func(version string, size unit.Bytes) (*HeldFile, error) {
		f, err := r.OpenHeld(path, "s", version, size)
		if err == nil {
			t.Cleanup(func() { f.Close() })
		}
		return f, err
	}
	begin := func() *HeldFile {
		t.Helper()
		land(t, r, path, []byte("abc"), Meta{"s", "v1"})
		f, err := open("v1", 3)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	read := func(f *HeldFile) (string, error) {
		b := make([]byte, 4)
		n, err := f.ReadAt(b, 0)
		return string(b[:n]), err
	}
	_, err := open("v1", 3)
	wantChanged(t, err, path)
	f := begin()
	if got, err := read(f); got != "abc" || err != io.EOF {
		t.Errorf("read %q, %v, want abc and the end", got, err)
	}
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("what was there before is written to")
	}
	if _, err := f.SyscallConn(); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct {
		version string
		size    unit.Bytes
	}{{"v2", 3}, {"v1", 4}, {"", 3}} {
		_, err := open(tt.version, tt.size)
		wantChanged(t, err, path)
	}
	overwrite(t, path, "xyz")
	got, err := read(f)
	if wantChanged(t, err, path); got != "" {
		t.Errorf("read %q of a file that was written to", got)
	}
	_, err = open("v1", 3)
	wantChanged(t, err, path)

	f = begin()
	if err := os.Truncate(path, 1); err != nil {
		t.Fatal(err)
	}
	_, err = read(f)
	wantChanged(t, err, path)

	f = begin()
	land(t, r, path, []byte("xyz"), Meta{"s", "v2"})
	if got, err := read(f); got != "abc" || err != io.EOF {
		t.Errorf("after another was put in its place: read %q, %v, want abc and the end", got, err)
	}
	_, err = open("v1", 3)
	wantChanged(t, err, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err = open("v2", 3)
	wantChanged(t, err, path)
}

func TestSweep(t *testing.T) {
	state, dir := t.TempDir(), t.TempDir()
	r := openAt(t, state, dir)
	for _, path := range []string{"made/deep/a", "b", "keep/c", "swapped"} {
		if _, err := r.Create("dead", filepath.Join(dir, path), 1000); err != nil {
			t.Fatal(err)
		}
	}
	land(t, r, filepath.Join(dir, "done"), []byte("x"), Meta{})
	os.WriteFile(filepath.Join(dir, "keep", "theirs"), nil, 0o644)
	os.WriteFile(filepath.Join(dir, ".foreign.job.part"), nil, 0o644)
	os.WriteFile(filepath.Join(dir, "new"), []byte("somebody else's"), 0o644)
	os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, ".swapped.dead.part"))

	if _, err := OpenRoots([]string{dir}, state); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("open a state directory twice: %v, want that it is in use", err)
	}
	if err := r.Sweep(); err != nil { // its own landings are not swept
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, ".b.dead.part")); err != nil {
		t.Errorf("swept a landing under way: %v", err)
	}
	r.Close() // as if killed: nothing is aborted

	// A process without that root leaves it alone.
	other := openAt(t, state, t.TempDir())
	if err := other.Sweep(); err != nil {
		t.Error(err)
	}
	other.Close()

	r = openAt(t, state, dir)
	if err := r.Sweep(); err != nil {
		t.Error(err)
	}
	wantTree(t, dir, ".foreign.job.part", ".swapped.dead.part", "done", "keep/", "keep/theirs")
	wantTree(t, filepath.Join(state, journalDir))
	if err := r.Sweep(); err != nil {
		t.Error(err)
	}
}

// An agent may begin before its disk is mounted. What was left on that disk is not forgotten.
func TestSweepBeforeTheRootIsMounted(t *testing.T) {
	state, above := t.TempDir(), t.TempDir()
	dir, unmounted := filepath.Join(above, "data"), filepath.Join(above, "unmounted")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r := openAt(t, state, dir)
	if _, err := r.Create("dead", filepath.Join(dir, "made", "f"), 1000); err != nil {
		t.Fatal(err)
	}
	r.Close() // as if killed: nothing is aborted
	sweep := func() {
		t.Helper()
		r := openAt(t, state, dir)
		if err := r.Sweep(); err != nil {
			t.Error(err)
		}
		r.Close()
	}
	if err := errors.Join(os.Rename(dir, unmounted), os.Mkdir(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	sweep()
	if err := errors.Join(os.Remove(dir), os.Rename(unmounted, dir)); err != nil {
		t.Fatal(err)
	}
	wantTree(t, dir, "made/", "made/.f.dead.part")
	sweep()
	wantTree(t, dir)
	wantTree(t, filepath.Join(state, journalDir))
}

func TestSweepOfADamagedJournal(t *testing.T) {
	state, dir := t.TempDir(), t.TempDir()
	r := openAt(t, state, dir)
	os.WriteFile(filepath.Join(dir, "f"), nil, 0o644)
	os.WriteFile(filepath.Join(state, journalDir, "x.json"), []byte(`{"job":`), 0o600)
	escape := fmt.Sprintf(`{"job":"j","root":%q,"part":"../../etc/passwd","made":["..",".","f"]}`, r.roots[0].real)
	os.WriteFile(filepath.Join(state, journalDir, "y.json"), []byte(escape), 0o600)
	if err := r.Sweep(); err == nil {
		t.Error("swept a part file outside its root, want an error")
	}
	wantTree(t, dir, "f")
}

func TestPartNames(t *testing.T) {
	if got, want := partName("model.bin", "b-1"), ".model.bin.b-1.part"; got != want {
		t.Errorf("part name is %s, want %s", got, want)
	}
	job := strings.Repeat("j", 64)
	seen := map[string]bool{}
	for _, name := range []string{strings.Repeat("n", 185), strings.Repeat("n", 186), strings.Repeat("n", 255), strings.Repeat("ü", 127), strings.Repeat("n", 254) + "x"} {
		got := partName(name, job)
		if len(got) > maxNameBytes || seen[got] || !strings.HasPrefix(got, "."+name[:4]) || !strings.HasSuffix(got, job+".part") || !bytes.Equal([]byte(got), []byte(strings.ToValidUTF8(got, ""))) {
			t.Errorf("part name of %d bytes is %q (%d bytes), want one of at most %d, unique and valid UTF-8", len(name), got, len(got), maxNameBytes)
		}
		seen[got] = true
	}
	r, dir := openRoots(t)
	long := filepath.Join(dir, strings.Repeat("n", 255))
	land(t, r, long, []byte("x"), Meta{})
	wantTree(t, dir, filepath.Base(long))
}

// TestProbeOfAPipe: others who may write in a root cannot have a node wait for ever in it.
func TestProbeOfAPipe(t *testing.T) {
	r, dir := openRoots(t)
	pipe := filepath.Join(dir, probeName(1))
	if err := syscall.Mkfifo(pipe, 0o666); err != nil {
		t.Fatal(err)
	}
	checked := make(chan error, 1)
	go func() { checked <- r.Check(filepath.Join(dir, "model.bin")) }() // ends with the pipe's other end at the latest
	select {
	case err := <-checked:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the check waits for somebody to read from a pipe")
		f, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		<-checked
		f.Close()
	}
}

// What is in the place of the part file and is not that does not get the name of what landed, and who gives the name of the directory to another just then
// does not have the file land there.
func TestPartFileIsReplaced(t *testing.T) {
	r, dir := openRoots(t)
	file, unharmed := theirs(t, dir)
	m := filepath.Join(dir, "m")
	path := filepath.Join(m, "0")
	begin := func() *File {
		f, err := r.Create("job-1", path, 3)
		must(t, err)
		t.Cleanup(func() { f.Close() })
		_, err = f.WriteAt([]byte("new"), 0)
		must(t, err)
		return f
	}
	f := begin()
	part := filepath.Join(m, ".0.job-1.part")
	must(t, os.Remove(part), os.Link(file, part))
	wantError(t, f.Commit(Meta{}), path, "something else")
	f.Close()
	unharmed()
	wantTree(t, dir, "alice/", "alice/0")

	defer func(m func(*os.Root, string, *os.Root, string) error) { rename = m }(rename)
	rename = func(from *os.Root, name string, to *os.Root, as string) error {
		must(t, os.Rename(m, m+".away"), os.Symlink("alice", m), os.WriteFile(filepath.Join(dir, "alice", name), []byte("x"), 0o644))
		return renameBetween(from, name, to, as)
	}
	must(t, begin().Commit(Meta{}))
	unharmed()
	wantFiles(t, m+".away", map[string]string{"0": "new"})
}
