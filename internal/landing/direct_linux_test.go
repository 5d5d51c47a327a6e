//go:build !race && (amd64 || arm64)

package landing

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What lies in memory is read and written without telling the runtime; what lies on a disk is not.
func TestDirectInMemory(t *testing.T) {
	var system unix.Sysinfo_t
	if err := unix.Sysinfo(&system); err != nil || system.Totalswap > 0 {
		t.Skip("this machine swaps, and a file in memory may have to wait for its disk: ", err)
	}
	memory, err := os.MkdirTemp("/dev/shm", "freshet-direct-")
	if err != nil {
		t.Skip("no file system in memory that we may write to: ", err)
	}
	t.Cleanup(func() { os.RemoveAll(memory) })
	var disk unix.Statfs_t
	if err := unix.Statfs(t.TempDir(), &disk); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{memory: true, t.TempDir(): disk.Type == unix.TMPFS_MAGIC} {
		f, err := os.Create(filepath.Join(dir, "f"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		d := directly(f)
		if d.memory != want {
			t.Errorf("%s: in memory: %v, want %v", dir, d.memory, want)
		}
		written, read := []byte("what is written"), make([]byte, 15)
		if !want {
			if n := d.call(unix.SYS_PWRITE64, written, 3); n != 0 {
				t.Errorf("%s: %d bytes are written without telling", dir, n)
			}
			continue
		}
		if n := d.call(unix.SYS_PWRITE64, written, 3); n != len(written) {
			t.Errorf("%d bytes are written", n)
		}
		if n := d.call(unix.SYS_PREAD64, read, 3); n != len(read) || !bytes.Equal(read, written) {
			t.Errorf("%d bytes are read: %q", n, read)
		}
		if n := d.call(unix.SYS_PREAD64, read, 18); n != 0 {
			t.Errorf("%d bytes are read behind the end", n)
		}
	}
}
