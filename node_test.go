package freshet_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/unit"
)

func TestBroadcast(t *testing.T) {
	c := newCluster(t, 3)
	data := make([]byte, 10<<20+17)
	io.ReadFull(rand.NewChaCha8([32]byte{}), data)
	from := filepath.Join(t.TempDir(), "model.bin")
	if err := os.WriteFile(from, data, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, a := range freshet.Algorithms {
		spec := freshet.Spec{Source: "file://" + from, Dest: c.dest("model." + a), Algorithm: a}
		job := c.run(t, spec)
		if job.State != freshet.Done {
			t.Fatalf("%s: %s: %s", a, job.State, job.Error)
		}
		var total unit.Bytes
		for _, n := range job.Nodes {
			got, err := os.ReadFile(on(spec.Dest, n.Name))
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: the file on %s differs (%v)", a, n.Name, err)
			}
			total += n.StoreBytes
		}
		want := unit.Bytes(len(data))
		if a == freshet.Flat {
			want *= 3
		}
		if total != want {
			t.Errorf("%s: %d bytes were read, want %d", a, total, want)
		}
		if again := c.run(t, spec); again.State != freshet.Done || again.Nodes[0].State != freshet.Present {
			t.Errorf("%s, once more: %s, first node %s; want it present", a, again.State, again.Nodes[0].State)
		}
	}
}
