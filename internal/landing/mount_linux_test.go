package landing

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/freshet/freshet/unit"
)

// tmpfs mounts a small file system until the test ends.
func tmpfs(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("freshet-test", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatalf("mount a tmpfs of %s: %v (this test needs root)", size, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

func TestFullDisk(t *testing.T) {
	dir := tmpfs(t, "4m")
	r, err := OpenRoots([]string{dir}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	path := filepath.Join(dir, "new", "big")
	if free, err := r.Free(path); err != nil || free != 4*unit.MiB {
		t.Errorf("free is %v, %v, want 4 MiB", free, err)
	}
	_, err = r.Create("j", path, 8*unit.MiB)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("create: %v, want ENOSPC", err)
	}
	wantError(t, err, path, "needs 8 MiB", "4 MiB free")
	wantTree(t, dir)

	land(t, r, path, make([]byte, 3<<20), Meta{})
	old, err := r.Create("j", path, 3*unit.MiB) // the old file is there until the new one is
	wantError(t, err, "needs 3 MiB", "1 MiB free")
	if old != nil {
		old.Close()
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 3<<20 {
		t.Errorf("old file: %v, %v, want it untouched", info, err)
	}
	wantTree(t, dir, "new/", "new/big")
}

// TestDiskThatFillsLater is what happens where space cannot be allocated.
func TestDiskThatFillsLater(t *testing.T) {
	dir := tmpfs(t, "2m")
	r, err := OpenRoots([]string{dir}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f, err := r.Create("j", filepath.Join(dir, "f"), 1*unit.MiB)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.f.Truncate(0); err != nil { // take the allocation back
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "theirs"), make([]byte, 3<<19), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(make([]byte, 1<<20), 0)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write: %v, want ENOSPC", err)
	}
	wantError(t, err, "needs 1 MiB", f.Path())
}

func TestReadOnlyFileSystem(t *testing.T) {
	dir := tmpfs(t, "1m")
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatalf("remount read-only: %v (this test needs root)", err)
	}
	r, err := OpenRoots([]string{dir}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, name := range []string{"f", "g", "new/h"} {
		path := filepath.Join(dir, name)
		wantError(t, r.Check(path), path, "read-only")
		_, err := r.Create("j", path, 1)
		wantError(t, err, path, "read-only")
	}
	if b, err := os.ReadFile(filepath.Join(dir, "f")); string(b) != "old" || err != nil {
		t.Errorf("file holds %q, %v, want old", b, err)
	}
}

// TestNotWritable does file access as an ordinary user does: modes do not stop
// root.
func TestNotWritable(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	r, err := OpenRoots([]string{dir}, state)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if os.Geteuid() == 0 {
		const nobody = 65534
		for _, d := range []string{state, filepath.Join(state, journalDir)} {
			if err := os.Chown(d, nobody, nobody); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		runtime.LockOSThread() // whose rights change; they are given back below
		defer runtime.UnlockOSThread()
		if _, err := unix.SetfsuidRetUid(nobody); err != nil {
			t.Fatal(err)
		}
		defer unix.SetfsuidRetUid(0)
	}
	path := filepath.Join(dir, "x")
	wantError(t, r.Check(path), path, "may not write")
	_, err = r.Create("j", path, 1)
	wantError(t, err, path, "may not write")
	wantTree(t, dir)
	wantTree(t, filepath.Join(state, journalDir))
}

// A file that is kept, and of which there is no room for a copy when it is written to, stays as it is.
func TestFullDiskForACopy(t *testing.T) {
	dir := tmpfs(t, "4m")
	r, err := OpenRoots([]string{dir}, t.TempDir())
	must(t, err)
	defer r.Close()
	files := []TreeFile{{Name: "big", Size: 3 * unit.MiB, Version: "v1"}}
	tr, err := r.CreateTree("job-1", dir, "s", files)
	must(t, err)
	defer tr.Close()
	_, err = tr.WriteAt(make([]byte, 3<<20), 0)
	must(t, err, tr.Commit())
	files[0].Kept = true
	next, err := r.CreateTree("job-2", dir, "s", files)
	must(t, err)
	defer next.Close()
	_, err = next.WriteAt([]byte("x"), 0)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write: %v, want ENOSPC", err)
	}
	wantError(t, err, filepath.Join(dir, "big")+": needs 3 MiB, 1 MiB free: no space left on device")
	must(t, next.Abort())
	wantTree(t, dir, "big")
	if info, err := os.Stat(filepath.Join(dir, "big")); err != nil || info.Size() != 3<<20 {
		t.Errorf("the file: %v, %v, want it untouched", info, err)
	}
}

// By the place where its file system begins a file that is gone is told from one whose disk is not mounted, also if that is below the root.
func TestMountOf(t *testing.T) {
	dir := tmpfs(t, "1m")
	must(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755))
	r, err := OpenRoots([]string{filepath.Dir(dir)}, t.TempDir())
	must(t, err)
	defer r.Close()
	for _, tt := range []struct{ of, want string }{
		{filepath.Join(dir, "a", "b"), dir},
		{dir, dir},
		{filepath.Dir(dir), filepath.Dir(dir)},
	} {
		p, err := r.under(tt.of)
		must(t, err)
		info, err := os.Stat(tt.want)
		must(t, err)
		want, err := filepath.EvalSymlinks(tt.want)
		must(t, err)
		got := p.mountOf(filepath.Join(p.real, p.rel))
		if got != (mount{want, inode(info)}) {
			t.Errorf("mount of %s is %+v, want %s, %d", tt.of, got, want, inode(info))
		}
		if !r.mounted(got) || r.mounted(mount{got.Mount, got.MountInode + 1}) {
			t.Errorf("%+v, or another in its place: not told apart", got)
		}
	}
}

// TestRootThatHangs: a file system that does not answer, as of a server that is away, keeps nothing from landing in another root, and
// nobody from asking what can be written.
func TestRootThatHangs(t *testing.T) {
	defer func(m func(*os.Root, string, *os.Root, string) error) { rename = m }(rename)
	state, hung, dir := t.TempDir(), tmpfs(t, "4m"), t.TempDir()
	killed := openAt(t, state, hung, dir)
	m := filepath.Join(hung, "m")
	tr := begin(t, killed, m)
	rename = func(*os.Root, string, *os.Root, string) error {
		killed.state.Close()
		return syscall.EIO
	}
	tr.Commit()
	killed.Close() // nothing is aborted
	r := openAt(t, state, hung, dir)
	wantError(t, r.Sweep(), m) // and is tried again by who wants to land there

	real, hangs, answer := r.roots[0].real, make(chan struct{}), make(chan struct{})
	var once sync.Once
	rename = func(from *os.Root, name string, to *os.Root, as string) error {
		if within(to.Name(), real) {
			once.Do(func() { close(hangs) })
			<-answer
		}
		return renameBetween(from, name, to, as)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.Check(filepath.Join(m, "shard-1")); err != nil {
			t.Error(err)
		}
	})
	<-hangs
	tries := map[string]func() error{
		"check":         func() error { return r.Check(filepath.Join(dir, "new", "f")) },
		"check a tree":  func() error { return r.CheckTree(filepath.Join(dir, "new"), model) },
		"writable":      func() error { _, err := r.Writable(dir); return err },
		"writable, too": func() error { _, err := r.Writable(hung); return err },
	}
	for name, create := range landers {
		tries[name] = func() error {
			f, commit, err := create(r, filepath.Join(dir, name), 2)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte("xx"), 0)
			return errors.Join(err, commit(), f.Close())
		}
		tries["abort a "+name] = func() error {
			f, _, err := create(r, filepath.Join(dir, name, "aborted"), 2)
			if err != nil {
				return err
			}
			return f.Abort()
		}
	}
	for what, try := range tries {
		inTime(t, what, try)
	}
	close(answer)
	wg.Wait()
	wantTree(t, dir, "file/", "file/f", "tree/", "tree/f", "tree/g")
	wantFiles(t, m, whole)
}

// Roots of one file system make and remove directories in turns, since they may have some in common; those of another one wait for nobody.
func TestLocksOfRoots(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"a", "a/b", "c"} {
		must(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	r := openAt(t, t.TempDir(), filepath.Join(dir, "a"), filepath.Join(dir, "a", "b"), filepath.Join(dir, "c"), tmpfs(t, "4m"))
	for i, want := range []bool{true, true, true, false} {
		if got := r.roots[i].dirs == r.roots[0].dirs; got != want {
			t.Errorf("%s has the lock of %s: %v, want %v", r.roots[i].dir, r.roots[0].dir, got, want)
		}
	}
}
