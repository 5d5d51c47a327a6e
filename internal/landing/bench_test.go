package landing

import (
	"math/rand"
	"path/filepath"
	"testing"
	"time"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// BenchmarkCommit lands 512 MiB that come in at 1 Gbit/s, block by block in
// any order, and reports how long Commit takes. What matters is the file
// system: set TMPDIR to one on the disk in question.
func BenchmarkCommit(b *testing.B) {
	const size, rate = 512 * unit.MiB, 125e6
	dir := b.TempDir()
	r, err := OpenRoots([]string{dir}, b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	block := make([]byte, piece.BlockSize)
	order := rand.New(rand.NewSource(1)).Perm(int(size / piece.BlockSize))
	var commit time.Duration
	for b.Loop() {
		f, err := r.Create("j", filepath.Join(dir, "f"), size)
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		for i, at := range order {
			if _, err := f.WriteAt(block, int64(at)*int64(len(block))); err != nil {
				b.Fatal(err)
			}
			due := time.Duration(float64(i*len(block)) / rate * float64(time.Second))
			time.Sleep(due - time.Since(began))
		}
		began = time.Now()
		if err := f.Commit(Meta{}); err != nil {
			b.Fatal(err)
		}
		commit += time.Since(began)
		f.Close()
	}
	b.ReportMetric(float64(commit.Milliseconds())/float64(b.N), "ms/commit")
}
