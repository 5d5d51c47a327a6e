package freshet_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/unit"
)

// cluster is a control plane with an agent, and more agents, in this process.
// dest is the root of every node.
func cluster(t *testing.T, agents int) (client *freshet.Client, dest string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	all := t.TempDir()
	var first *freshet.Node
	for i := range agents {
		name := fmt.Sprintf("n%d", i)
		dir := filepath.Join(all, name)
		c := freshet.NodeConfig{
			State: filepath.Join(dir, "state"), Listen: "127.0.0.1:0", Agent: true, Name: name,
			Roots: []string{filepath.Join(dir, "data")}, Log: log, ControlPlane: i == 0,
		}
		if err := os.MkdirAll(c.Roots[0], 0o755); err != nil {
			t.Fatal(err)
		}
		if first != nil {
			token, err := first.NewToken(ctx, 1)
			if err != nil {
				t.Fatal(err)
			}
			c.Join, c.Token = first.Addr(), token
		}
		n, err := freshet.Start(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := n.Close(); err != nil {
				t.Errorf("close %s: %v", n.Name(), err)
			}
		})
		if first == nil {
			first = n
		}
	}
	var err error
	client, err = freshet.Connect(ctx, first.AdminFile(), freshet.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client, filepath.Join(all, "{node}", "data")
}

// run submits a job and watches it to its end.
func run(t *testing.T, c *freshet.Client, s freshet.Spec) freshet.Job {
	t.Helper()
	job, err := c.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for j, err := range c.Watch(t.Context(), job.ID) {
		if err != nil {
			t.Fatal(err)
		}
		job = j
	}
	return job
}

func TestBroadcast(t *testing.T) {
	client, dest := cluster(t, 3)
	data := make([]byte, 10<<20+17)
	io.ReadFull(rand.NewChaCha8([32]byte{}), data)
	from := filepath.Join(t.TempDir(), "model.bin")
	if err := os.WriteFile(from, data, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, a := range freshet.Algorithms {
		spec := freshet.Spec{Source: "file://" + from, Dest: filepath.Join(dest, "model."+a), Algorithm: a}
		job := run(t, client, spec)
		if job.State != freshet.Done {
			t.Fatalf("%s: %s: %s", a, job.State, job.Error)
		}
		var total unit.Bytes
		for _, n := range job.Nodes {
			got, err := os.ReadFile(strings.ReplaceAll(spec.Dest, "{node}", n.Name))
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
		if again := run(t, client, spec); again.State != freshet.Done || again.Nodes[0].State != freshet.Present {
			t.Errorf("%s, once more: %s, first node %s; want it present", a, again.State, again.Nodes[0].State)
		}
	}
}
