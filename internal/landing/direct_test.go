package landing

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// A direct file is read and written as any other, on a disk and in memory, at its end, and when it is closed.
func TestDirect(t *testing.T) {
	dirs := map[string]string{"disk": t.TempDir()}
	if memory, err := os.MkdirTemp("/dev/shm", "freshet-direct-"); err == nil {
		t.Cleanup(func() { os.RemoveAll(memory) })
		dirs["memory"] = memory
	}
	for name, dir := range dirs {
		path := filepath.Join(dir, "f")
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		d := directly(f)
		rng := rand.New(rand.NewChaCha8([32]byte{1}))
		want := make([]byte, 1<<20)
		if err := f.Truncate(int64(len(want))); err != nil {
			t.Fatal(err)
		}
		for range 200 {
			off := rng.IntN(len(want))
			b := want[off : off+rng.IntN(min(300<<10, len(want)-off)+1)]
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			if n, err := d.WriteAt(b, int64(off)); n != len(b) || err != nil {
				t.Fatalf("%s: %d of %d bytes at %d were written: %v", name, n, len(b), off, err)
			}
			got := make([]byte, rng.IntN(300<<10))
			off = rng.IntN(len(want))
			n, err := d.ReadAt(got, int64(off))
			if left := len(want) - off; n != min(len(got), left) || (err == io.EOF) != (len(got) > left) || err != nil && err != io.EOF || !bytes.Equal(got[:n], want[off:off+n]) {
				t.Fatalf("%s: of %d bytes at %d %d were read: %v", name, len(got), off, n, err)
			}
		}
		if landed, err := os.ReadFile(path); err != nil || !bytes.Equal(landed, want) {
			t.Errorf("%s: the file is not what was written: %v", name, err)
		}
		if _, err := d.ReadAt(make([]byte, 1), -1); err == nil {
			t.Errorf("%s: something is read before the beginning", name)
		}
		reader, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := directly(reader).WriteAt([]byte("x"), 0); n != 0 || err == nil {
			t.Errorf("%s: %d bytes were written to a file that is open for reading: %v", name, n, err)
		}
		reader.Close()
		if n, err := directly(reader).ReadAt(make([]byte, 1), 0); n != 0 || !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: %d bytes were read from a closed file: %v", name, n, err)
		}
		f.Close()
		if n, err := d.WriteAt([]byte("x"), 0); n != 0 || !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: %d bytes were written to a closed file: %v", name, n, err)
		}
	}
}
