package freshet_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/unit"
)

// mount puts a small file system into place until the test ends.
func mount(t *testing.T, dir, size string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("freshet-test", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatalf("mount a tmpfs of %s: %v (this test needs root)", size, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
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
