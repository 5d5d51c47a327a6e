package bench

import (
	"os"
	"path/filepath"
	"testing"
	"time"

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
	b, err := NewBallast(size)
	if err != nil {
		t.Fatal(err)
	}
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
