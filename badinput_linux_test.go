package freshet_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/unit"
)

// mount puts a small file system into place until the test ends, when nothing of this process may
// be open there any more. It is detached and not just unmounted: a process that another test starts at that
// moment has a copy of every descriptor of ours until it runs its program, and would keep it busy.
func mount(t *testing.T, dir, size string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("freshet-test", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatalf("mount a tmpfs of %s: %v (this test needs root)", size, err)
	}
	t.Cleanup(func() {
		for _, path := range openBelow(t, dir) {
			t.Errorf("%s is still open", path)
		}
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
}

// openBelow lists what this process has open in a directory.
func openBelow(t *testing.T, dir string) (open []string) {
	t.Helper()
	const ours = "/proc/self/fd"
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Error(err)
		return nil
	}
	fds, err := os.ReadDir(ours)
	if err != nil {
		t.Error(err)
	}
	for _, fd := range fds {
		path, err := os.Readlink(filepath.Join(ours, fd.Name())) // an error: closed meanwhile
		if err == nil && (path == real || strings.HasPrefix(path, real+"/")) {
			open = append(open, path)
		}
	}
	return open
}

// TestBadDisk has one node whose disk is full or cannot be written.
func TestBadDisk(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount small file systems")
	}
	c := newCluster(t, 3)
	data := random(5, 3<<20)
	source := fileSource(t, data)

	t.Run("full", func(t *testing.T) {
		dest := c.dest("full", "new", "model")
		mount(t, filepath.Join(c.root("n1"), "full"), "2m")
		for _, a := range freshet.Algorithms {
			j := c.run(t, freshet.Spec{Source: source, Dest: dest + "-" + a + "/model", Algorithm: a})
			c.failedOnly(t, j, "n1", data, on(j.Spec.Dest, "n1"), "3 MiB", "2 MiB", "free")
		}
		if left, err := os.ReadDir(filepath.Join(c.root("n1"), "full")); err != nil || len(left) != 0 {
			t.Errorf("on the full disk: %v, %v, want nothing", left, err)
		}
	})
	t.Run("filled by another job", func(t *testing.T) {
		mount(t, filepath.Join(c.root("n1"), "filled"), "5m")
		store := newBucket(t)
		store.put(t, "model", data)
		g := newGate(t, 0)
		first := c.submit(t, freshet.Spec{Source: at(store.behind(t, front{before: g.before}), "model"), Dest: c.dest("filled", "first", "model")})
		<-g.held
		c.partFile(t, first, "n1")
		j := c.run(t, freshet.Spec{Source: source, Dest: c.dest("filled", "second", "model")})
		c.failedOnly(t, j, "n1", data, on(j.Spec.Dest, "n1"), "3 MiB", "2 MiB", "free")
		close(g.open)
		arrived(t, c.watch(t, first), data)
		if left, err := os.ReadDir(filepath.Join(c.root("n1"), "filled")); err != nil || len(left) != 1 {
			t.Errorf("on the disk: %v, %v, want the first job's directory only", left, err)
		}
	})
	t.Run("read-only", func(t *testing.T) {
		dir := filepath.Join(c.root("n1"), "read-only")
		mount(t, dir, "8m")
		if err := os.WriteFile(filepath.Join(dir, "model"), []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
		before := tree(t, dir)
		j := c.run(t, freshet.Spec{Source: source, Dest: c.dest("read-only", "model")})
		c.failedOnly(t, j, "n1", data, on(j.Spec.Dest, "n1"), "read-only")
		if after := tree(t, dir); after != before {
			t.Errorf("now there is\n%s\nwas\n%s", after, before)
		}
	})
	t.Run("fills up without anybody's fault", func(t *testing.T) {
		dir := filepath.Join(c.root("n1"), "sparse")
		mount(t, dir, "4m")
		store := newBucket(t)
		store.put(t, "model", data)
		g := newGate(t, int(unit.MiB))
		job := c.submit(t, freshet.Spec{Source: at(store.behind(t, front{before: g.before}), "model"), Dest: c.dest("sparse", "model"), Algorithm: freshet.NonSteal, Piece: 256 * unit.KiB})
		<-g.held
		c.partFile(t, job, "n1")
		// The space was set aside when the part file was made, so it does no harm.
		filler, err := os.Create(filepath.Join(dir, "filler"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = filler.Write(make([]byte, 4<<20))
		filler.Close()
		os.Remove(filler.Name())
		if err == nil {
			t.Error("4 MiB fit on a disk of 4 MiB beside the part file: its space was not set aside")
		}
		close(g.open)
		arrived(t, c.watch(t, job), data)
	})
}

// TestCheckOfSmallDisks is what a node says of itself, to the doctor and at
// /healthz, whose root is small and whose state directory has filled up.
func TestCheckOfSmallDisks(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount small file systems")
	}
	c := newCluster(t, 1)
	client, _ := c.monitor(t)
	config := c.config(t, "n1")
	mount(t, config.Roots[0], "1m")
	mount(t, config.State, "2m")
	n1 := c.start(t, config)
	found := func() map[string]freshet.Finding {
		t.Helper()
		check, err := c.client.Check(t.Context(), []string{"n1"}, "")
		if err != nil {
			t.Fatal(err)
		}
		by := map[string]freshet.Finding{}
		for _, f := range freshet.Diagnose(check, "test") {
			if f.Node != "n1" {
				t.Errorf("n1 was asked for, and there is %+v", f)
			}
			by[f.What] = f
		}
		return by
	}
	space := func(free string) {
		t.Helper()
		if f, want := found()["space"], free+" are free below "+config.Roots[0]; !f.Fails || f.Text != want || f.Do == "" {
			t.Errorf("got %+v, want that %s", f, want)
		}
	}
	space("1 MiB")
	if err := os.WriteFile(filepath.Join(config.Roots[0], "theirs"), make([]byte, 768<<10), 0o644); err != nil {
		t.Fatal(err)
	}
	space("256 KiB")
	if f, ok := found()["state"]; ok {
		t.Errorf("there is room for its state, and %+v", f)
	}

	filler := filepath.Join(config.State, "filler")
	if err := os.WriteFile(filler, make([]byte, 4<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("fill the state directory: %v, want ENOSPC", err)
	}
	const full = "cannot be written: no space left on device"
	if f := found()["state"]; !f.Fails || !strings.Contains(f.Text, config.State+" "+full) {
		t.Errorf("got %+v, want that the state directory %s", f, full)
	}
	if status, body := get(t, client, n1.Addr(), "/healthz"); status != http.StatusServiceUnavailable || body != "state directory: "+config.State+" "+full+"\n" {
		t.Errorf("/healthz: got %d %q, want 503 and that the state directory %s", status, body, full)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	eventually(t, "/healthz says that there is room again", func() bool {
		status, _ := get(t, client, n1.Addr(), "/healthz")
		return status == http.StatusOK
	})
}
