package bench

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/freshet/freshet/unit"
)

// What is written while a ballast is there takes its place; what is in use grows by no more than that one is ahead.
func TestBallastGivesWay(t *testing.T) {
	dir, err := os.MkdirTemp(Memory, "freshet-ballast-test-")
	if err != nil {
		t.Skip("no file system in memory that we may write to: ", err)
	}
	defer os.RemoveAll(dir)
	const size = 2 * ballastAhead
	b := newBallast(t, size)
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	if fi, err := b.file.Stat(); err != nil || fi.Size() != int64(size-ballastAhead) {
		t.Fatalf("%v, %v: want %v of ballast", fi.Size(), err, size-ballastAhead)
	}
	if err := os.WriteFile(filepath.Join(dir, "written"), make([]byte, ballastAhead/2), 0o600); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(ballastEvery) {
		fi, err := b.file.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if fi.Size() <= int64(size-ballastAhead-ballastAhead/2) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes of ballast are left after %v was written", fi.Size(), unit.Bytes(ballastAhead/2))
		}
	}
}

// Files of 3 GiB together take their space at once beside a ballast of as much, as agents do, and are written in blocks: what that takes of
// processor time where the rest of the memory is not this machine's.
func BenchmarkWritesBesideBallast(b *testing.B) {
	const files, each, block = 16, 192 * unit.MiB, 128 * unit.KiB
	var took time.Duration
	for b.Loop() {
		ballast := newBallast(b, files*each)
		var fs []*os.File
		for range files {
			f, err := os.CreateTemp(Memory, "freshet-ballast-bench-")
			if err != nil {
				b.Fatal(err)
			}
			if err := os.Remove(f.Name()); err != nil {
				b.Fatal(err)
			}
			fs = append(fs, f)
		}
		var wg sync.WaitGroup
		for _, f := range fs {
			wg.Go(func() {
				const step = 4 * unit.MiB
				for off := unit.Bytes(0); off < each; off += step {
					if err := syscall.Fallocate(int(f.Fd()), 0, int64(off), int64(step)); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		before, data := processorTime(b), make([]byte, block)
		for off := unit.Bytes(0); off < each; off += block {
			for _, f := range fs {
				if _, err := f.WriteAt(data, int64(off)); err != nil {
					b.Fatal(err)
				}
			}
		}
		took += processorTime(b) - before
		for _, f := range fs {
			f.Close()
		}
		if err := ballast.Close(); err != nil {
			b.Error(err)
		}
	}
	b.ReportMetric(took.Seconds()/float64(b.N), "CPU-s/op")
}

// newBallast is skipped where there is no room for it in memory, or no right to come first.
func newBallast(tb testing.TB, size unit.Bytes) *Ballast {
	b, err := NewBallast(size)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOSPC) {
		tb.Skip("needs CAP_SYS_NICE, and twice as much room in memory: ", err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func processorTime(tb testing.TB) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
