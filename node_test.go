package freshet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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

// TestErrorsHaveNames: what a Client's methods say that they return can be told
// apart by who cannot import the control plane's package.
// TestShutdownEndsWhatRuns stops the process that has the control plane and a
// node in the middle of a job: it takes no other any more, and ends this one first.
func TestShutdownEndsWhatRuns(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	store := newBucket(t)
	data := random(35, 3<<20)
	store.put(t, "model", data)
	g := newGate(t, 0)
	dest := c.dest("shutdown", "model")
	c.submit(t, freshet.Spec{Source: at(store.behind(t, front{before: g.before}), "model"), Dest: dest, Algorithm: freshet.NonSteal, Piece: unit.MiB})
	<-g.held
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- c.first.Shutdown(ctx) }() // waited for below
	eventually(t, "the control plane takes no more jobs", func() bool {
		_, err := c.client.Submit(ctx, freshet.Spec{Source: at(store.Endpoint, "missing"), Dest: c.dest("shutdown", "other")})
		return errors.Is(err, freshet.ErrUnavailable) && strings.Contains(err.Error(), "takes no more jobs")
	})
	select {
	case err := <-ended:
		t.Fatalf("the process ended while its job ran: %v", err)
	default:
	}
	close(g.open)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	holds(t, on(dest, "n0"), data)
}

// TestStartAfterACrash starts a node where a killed one was putting files in their places, and one of these has become a directory: all
// else goes on.
func TestStartAfterACrash(t *testing.T) {
	t.Parallel()
	c := newNodes(t)
	config := c.config(t, "n0")
	root, err := filepath.EvalSymlinks(config.Roots[0])
	if err != nil {
		t.Fatal(err)
	}
	models, journal := filepath.Join(root, "models"), filepath.Join(config.State, "landing", "landings")
	part := filepath.Join(models, ".freshet.dead.part")
	if err := errors.Join(os.MkdirAll(filepath.Join(models, "a"), 0o755), os.Mkdir(part, 0o700), os.MkdirAll(journal, 0o700),
		os.WriteFile(filepath.Join(part, "0"), []byte("new a"), 0o644), os.WriteFile(filepath.Join(part, "1"), []byte("new b"), 0o644)); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(part)
	if err != nil {
		t.Fatal(err)
	}
	entry := fmt.Sprintf(`{"job":"dead","root":%q,"part":"models/.freshet.dead.part","inode":%d,"tree":true,"names":["a","b"]}`, root, info.Sys().(*syscall.Stat_t).Ino)
	if err := os.WriteFile(filepath.Join(journal, "dead.json"), []byte(entry), 0o600); err != nil {
		t.Fatal(err)
	}
	c.start(t, config)
	c.connect(t)
	if got, err := os.ReadFile(filepath.Join(models, "b")); string(got) != "new b" {
		t.Errorf("b holds %q, %v", got, err)
	}
	if log := c.log.String(); !strings.Contains(log, "left cannot be cleared up") || !strings.Contains(log, filepath.Join(models, "a")) {
		t.Errorf("the log does not say what is wrong")
	}
	data := random(36, 1<<16)
	source := fileSource(t, data)
	arrived(t, c.run(t, freshet.Spec{Source: source, Dest: c.dest("other", "model")}), data)
	spec := freshet.Spec{Source: source, Dest: c.dest("models", "model")}
	j := c.run(t, spec)
	says(t, j.Error, "job dead was cut short", filepath.Join(models, "a"))
	if err := os.Remove(filepath.Join(models, "a")); err != nil {
		t.Fatal(err)
	}
	if j = c.run(t, spec); j.State != freshet.Done {
		t.Errorf("job is %s, want done: %s", j.State, j.Error)
	}
	if got, err := os.ReadFile(filepath.Join(models, "a")); string(got) != "new a" {
		t.Errorf("a holds %q, %v", got, err)
	}
}

func TestErrorsHaveNames(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	from := filepath.Join(t.TempDir(), "object")
	if err := os.WriteFile(from, []byte("some bytes"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := freshet.Spec{Source: "file://" + from, Dest: c.dest("object")}
	job := c.run(t, spec)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, tt := range []struct {
		what string
		want error
		call func() error
	}{
		{"cancel a job that has ended", freshet.ErrEnded, func() error { _, err := c.client.Cancel(ctx, job.ID); return err }},
		{"a job that is not there", freshet.ErrNoSuchJob, func() error { _, err := c.client.Job(ctx, "nothing"); return err }},
		{"remove a node that is not there", freshet.ErrNoSuchNode, func() error { return c.client.RemoveNode(ctx, "nobody") }},
		{"remove the control plane's own", freshet.ErrRefused, func() error { return c.client.RemoveNode(ctx, "n0") }},
		{"withdraw a token that is not there", freshet.ErrNoSuchToken, func() error { _, err := c.client.WithdrawToken(ctx, "0000"); return err }},
		{"an algorithm that is none", freshet.ErrInvalid, func() error {
			wrong := spec
			wrong.Algorithm = "none"
			_, err := c.client.Submit(ctx, wrong)
			return err
		}},
	} {
		if err := tt.call(); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.what, err, tt.want)
		}
	}
}
