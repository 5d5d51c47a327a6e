package freshet_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// TestEveryFileIsEqual runs jobs of random sizes, pieces, nodes and algorithms
// in one cluster, some at the same time. Whatever they are, each file is the object,
// and each byte leaves the store as often as the algorithm says.
func TestEveryFileIsEqual(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	store := newBucket(t)
	c := newCluster(t, 5)

	const rounds = 24
	type run struct {
		job  freshet.Job
		data []byte
	}
	var running []run
	for round := range rounds {
		size := unit.Bytes(0)
		pieceSize := []unit.Bytes{0, 1, 1000, 32 * unit.KiB, 256*unit.KiB - 1, 256 * unit.KiB, 256*unit.KiB + 1, unit.MiB, 5_000_000}[rng.IntN(9)]
		most := unit.Bytes(6 << 20)
		if pieceSize > 0 { // at most a few thousand pieces
			most = min(most, 4000*pieceSize)
		}
		whole := cmp.Or(pieceSize, unit.MiB)
		switch k := unit.Bytes(1 + rng.IntN(4)); rng.IntN(6) {
		case 0:
			size = unit.Bytes(rng.IntN(2))
		case 1:
			size = k*whole - 1
		case 2:
			size = k * whole
		case 3:
			size = k*whole + 1
		default:
			size = unit.Bytes(rng.Int64N(int64(most)))
		}
		size = min(size, 6<<20)
		data := random(byte(round), int(size))
		key := fmt.Sprintf("object-%d", round)
		spec := freshet.Spec{
			Source: at(store.Endpoint, key), Dest: c.dest(key, "model"),
			Algorithm: freshet.Algorithms[rng.IntN(len(freshet.Algorithms))], Piece: pieceSize, PerWork: rng.IntN(4), SHA256: rng.IntN(2) == 0,
		}
		if spec.Algorithm == freshet.Stream {
			spec.SourceCopies = float64(rng.IntN(2))
		}
		if rng.IntN(3) == 0 {
			spec.Source = fileSource(t, data)
		} else {
			store.put(t, key, data)
		}
		for _, i := range rng.Perm(5)[:1+rng.IntN(5)] {
			spec.Nodes = append(spec.Nodes, fmt.Sprintf("n%d", i))
		}
		running = append(running, run{c.submit(t, spec), data})
		if len(running) <= rng.IntN(3) && round < rounds-1 {
			continue
		}
		for _, r := range running {
			job := c.watch(t, r.job)
			checkRun(t, job, r.data)
		}
		running = nil
		if t.Failed() {
			t.Fatalf("seed %d, round %d", seed, round)
		}
	}
}

func checkRun(t *testing.T, job freshet.Job, data []byte) {
	t.Helper()
	arrived(t, job, data)
	if len(job.Nodes) != len(job.Spec.Nodes) {
		t.Errorf("%d nodes took part, want %d", len(job.Nodes), len(job.Spec.Nodes))
	}
	size := unit.Bytes(len(data))
	var total unit.Bytes
	for _, n := range job.Nodes {
		total += n.StoreBytes
		if n.Have != size || n.Error != "" || len(n.Faults) > 0 {
			t.Errorf("%s has %v of %v, error %q, faults %v", n.Name, n.Have, size, n.Error, n.Faults)
		}
		want := "source"
		layout := piece.Layout{Size: size, Piece: cmp.Or(job.Spec.Piece, piece.DefaultSize(size, job.Object.Checksum.Part))}
		if strings.HasPrefix(job.Spec.Source, "file:") || !job.Object.Checksum.Usable(layout) {
			want = "peers"
		}
		if n.Verified != want {
			t.Errorf("%s is verified by %q, want %q", n.Name, n.Verified, want)
		}
		if job.Spec.SHA256 == (n.SHA256 == "") {
			t.Errorf("%s: SHA-256 is %q, asked for: %v", n.Name, n.SHA256, job.Spec.SHA256)
		}
	}
	least, most := size, size
	switch all := size * unit.Bytes(len(job.Nodes)); {
	case job.Spec.Algorithm == freshet.Flat:
		least, most = all, all
	case job.Spec.Algorithm == freshet.Stream && job.Spec.SourceCopies == 0: // it may read twice what peers give more slowly, as on a busy machine
		most = all
	}
	if total < least || total > most {
		t.Errorf("%v were read from the store, want %v to %v", total, least, most)
	}
	if t.Failed() {
		t.Logf("%s: %s", filepath.Base(job.Spec.Dest), describe(job))
	}
}
