package freshet_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/unit"
)

// TestBadNode selects nodes that are not there, and lets some go while a job runs.
func TestBadNode(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	data := random(6, 2<<20+3)
	source := fileSource(t, data)

	t.Run("unknown", func(t *testing.T) {
		dest := c.dest("unknown", "model")
		untouched := old(t, dest, c.names()...)
		for _, selector := range []string{"n9", "gpu-*", "site=mars"} {
			says(t, c.refused(t, freshet.Spec{Source: source, Dest: dest, Nodes: []string{"n0", selector}}), `"`+selector+`"`, "n0, n1, n2")
		}
		says(t, c.refused(t, freshet.Spec{Source: source, Dest: dest, Nodes: []string{"[n"}}), `"[n"`, "unfinished")
		untouched(t)
	})
	t.Run("present", func(t *testing.T) {
		spec := freshet.Spec{Source: source, Dest: c.dest("present", "model")}
		arrived(t, c.run(t, spec), data)
		if err := os.Remove(on(spec.Dest, "n1")); err != nil {
			t.Fatal(err)
		}
		some := c.run(t, spec) // two hold it and give it to the third
		arrived(t, some, data)
		if n := status(t, some, "n1"); n.StoreBytes != 0 || n.PeerBytes < unit.Bytes(len(data)) {
			t.Errorf("n1 read %v from the store and %v from peers, want all from peers", n.StoreBytes, n.PeerBytes)
		}
		again := c.run(t, spec)
		arrived(t, again, data)
		for _, n := range again.Nodes {
			if n.State != freshet.Present || n.StoreBytes+n.PeerBytes != 0 {
				t.Errorf("%s is %s and got %v, want it present", n.Name, n.State, n.StoreBytes+n.PeerBytes)
			}
		}
	})
	t.Run("changed behind our back", func(t *testing.T) {
		store := newBucket(t)
		store.put(t, "model", data)
		spec := freshet.Spec{Source: at(store.Endpoint, "model"), Dest: c.dest("changed", "model"), Piece: 256 * unit.KiB}
		arrived(t, c.run(t, spec), data)
		path := on(spec.Dest, "n1")
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		for off := int64(1000); off < info.Size(); off += 256 << 10 { // every piece, whoever reads it
			if _, err := f.WriteAt([]byte("a failing disk"), off); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(f.Close(), os.Chtimes(path, time.Now(), info.ModTime()), os.Remove(on(spec.Dest, "n2"))); err != nil {
			t.Fatal(err)
		}
		j := c.run(t, spec)
		holds(t, on(spec.Dest, "n0"), data)
		holds(t, on(spec.Dest, "n2"), data)
		says(t, j.Error, "n1: ", "is not what the store has", "remove the file")
		for name, want := range map[string]freshet.State{"n0": freshet.Present, "n1": freshet.Failed, "n2": freshet.Done} {
			if n := status(t, j, name); n.State != want {
				t.Errorf("%s is %s, want %s: %s", name, n.State, want, n.Error)
			}
		}
	})
	t.Run("down", func(t *testing.T) {
		if err := c.byName["n2"].Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "n2 is known to be down", func() bool {
			nodes, err := c.client.Nodes(t.Context())
			return err == nil && len(nodes) == 3 && !nodes[2].Up
		})
		dest := c.dest("down", "model")
		untouched := old(t, dest, "n2")
		j := c.run(t, freshet.Spec{Source: source, Dest: dest})
		c.failedOnly(t, j, "n2", data, "down", "last heard of")
		says(t, c.refused(t, freshet.Spec{Source: source, Dest: dest, Nodes: []string{"n2"}}), "n2", "down")
		untouched(t)
	})
}

// TestHeldFileChanges has a file written over, at its size, when its node has said that it holds the object and before the job begins there.
// The source has no checksum that could tell.
func TestHeldFileChanges(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	data := random(9, 1<<20)
	dest := c.dest("held", "model")
	var changes atomic.Bool
	var proofs atomic.Int32
	changed := make(chan struct{})
	change := sync.OnceFunc(func() { close(changed) })
	defer change()
	source := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if lo, hi, _ := span(r); changes.Load() && hi-lo == 4<<10 { // which a node reads when it has looked at what it holds
			if proofs.Add(1) == 2 {
				if err := os.WriteFile(on(dest, "n1"), random(10, len(data)), 0o644); err != nil {
					t.Error(err)
				}
				change()
			}
			<-changed
		}
		w.Header().Set("ETag", `"v1"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}) + "/model"
	spec := freshet.Spec{Source: source, Dest: dest, Piece: 256 * unit.KiB}
	arrived(t, c.run(t, spec), data)
	if err := os.Remove(on(dest, "n0")); err != nil {
		t.Fatal(err)
	}
	changes.Store(true)
	j := c.run(t, spec)
	changes.Store(false)
	holds(t, on(dest, "n0"), data)
	if n := status(t, j, "n0"); n.State != freshet.Done {
		t.Errorf("n0 is %s, want done: %s", n.State, n.Error)
	}
	n := status(t, j, "n1")
	if n.State != freshet.Failed {
		t.Errorf("n1 is %s, want failed", n.State)
	}
	says(t, n.Error, "the file on this node is not what the store has: "+on(dest, "n1")+" was written to", "broadcast again")
	arrived(t, c.run(t, spec), data)
}

// TestNodeDies kills one node half-way, in the middle of everything. Its share
// is got by the others, and what it left is gone when it is back.
func TestNodeDies(t *testing.T) {
	t.Parallel()
	store := newBucket(t)
	data := random(7, 6<<20)
	store.put(t, "model", data)
	c := newCluster(t, 2)
	config := c.config(t, "n2")
	victim := c.startChild(t, config)

	for _, algorithm := range []string{freshet.Steal, freshet.NonSteal} {
		endpoint := store.behind(t, front{after: slow(0.5 * unit.MBps)})
		dest := c.dest("dies-"+algorithm, "new", "model")
		job := c.submit(t, freshet.Spec{Source: at(endpoint, "model"), Dest: dest, Algorithm: algorithm, Piece: 256 * unit.KiB, PerWork: 1})
		job = c.await(t, job, "first pieces on n2", func(j freshet.Job) bool { return status(t, j, "n2").Have > 0 })
		part := c.partFile(t, job, "n2")
		victim.kill()
		job = c.watch(t, job)
		c.failedOnly(t, job, "n2", data, "no sign of life")
		named := false
		for _, name := range []string{"n0", "n1"} {
			for _, f := range status(t, job, name).Faults {
				named = named || f.Node == "n2"
			}
		}
		if !named {
			t.Errorf("neither n0 nor n1 names n2: %s", describe(job))
		}
		if _, err := os.Stat(part); err != nil {
			t.Errorf("%v: a killed process cannot remove its part file", err)
		}

		config.Token = "" // it has credentials by now
		victim = c.startChild(t, config)
		if left, err := os.ReadDir(filepath.Join(c.root("n2"), "dies-"+algorithm)); err == nil {
			t.Errorf("after a restart there is still %v", left)
		}
		arrived(t, c.run(t, freshet.Spec{Source: at(store.Endpoint, "model"), Dest: dest}), data)
	}
}

// TestAgentRestarts has an agent that is back before anybody has missed it.
func TestAgentRestarts(t *testing.T) {
	t.Parallel()
	store := newBucket(t)
	data := random(8, 3<<20)
	store.put(t, "model", data)
	c := newCluster(t, 2)
	config := c.config(t, "n2")
	victim := c.startChild(t, config)
	g := newGate(t, 2<<20) // n2's share
	dest := c.dest("restarts", "model")
	untouched := old(t, dest, "n2")
	job := c.submit(t, freshet.Spec{Source: at(store.behind(t, front{before: g.before}), "model"), Dest: dest, Algorithm: freshet.NonSteal, Piece: unit.MiB})
	<-g.held
	c.partFile(t, job, "n2")
	victim.kill()
	config.Token = ""
	c.startChild(t, config)
	untouched(t)
	close(g.open)
	c.failedOnly(t, c.watch(t, job), "n2", data, "restarted during the job")
	untouched(t)
}

// TestConflictAndCancel has a job that stands still while others come near it.
func TestConflictAndCancel(t *testing.T) {
	t.Parallel()
	store := newBucket(t)
	data := random(9, 3<<20)
	store.put(t, "model", data)
	c := newCluster(t, 3)
	all := c.names()
	if err := os.Symlink("there", filepath.Join(c.root("n1"), "alias")); err != nil {
		t.Fatal(err)
	}

	for _, algorithm := range freshet.Algorithms {
		dest := c.dest("there", "model")
		untouched := old(t, dest, all...)
		g := newGate(t, 1<<20)
		spec := freshet.Spec{Source: at(store.behind(t, front{before: g.before}), "model"), Dest: dest, Algorithm: algorithm, Piece: 256 * unit.KiB, PerWork: 1}
		if algorithm == freshet.Flat {
			g.from = 0
		}
		job := c.submit(t, spec)
		<-g.held
		for _, name := range all {
			c.partFile(t, job, name)
		}
		says(t, c.refused(t, spec), job.ID, dest, "wait for it or cancel it")
		spec.Nodes, spec.Source = []string{"n1"}, at(store.Endpoint, "model")
		says(t, c.refused(t, spec), job.ID, dest, "n1")
		// The same file by other names: only the node can know that.
		for _, other := range []string{on(dest, "n1"), c.dest("alias", "model")} {
			spec.Dest = other
			j := c.run(t, spec)
			if j.State != freshet.Failed {
				t.Errorf("%s: a second job for the same file is %s, want failed", other, j.State)
			}
			says(t, j.Error, "n1: ", job.ID, "being written")
		}

		if _, err := c.client.Cancel(t.Context(), job.ID); err != nil {
			t.Fatal(err)
		}
		job = c.watch(t, job)
		if job.State != freshet.Cancelled {
			t.Errorf("%s: job is %s, want cancelled", algorithm, job.State)
		}
		says(t, job.Error, "cancelled")
		for _, n := range job.Nodes {
			if n.State != freshet.Cancelled {
				t.Errorf("%s: %s is %s, want cancelled: %s", algorithm, n.Name, n.State, n.Error)
			}
		}
		untouched(t)
		if _, err := c.client.Cancel(t.Context(), job.ID); err == nil || !strings.Contains(err.Error(), "has ended") {
			t.Errorf("cancelled once more: %v, want that it has ended", err)
		}
		close(g.open)
	}
	t.Run("timeout", func(t *testing.T) {
		dest := c.dest("timeout", "model")
		untouched := old(t, dest, all...)
		g := newGate(t, 0)
		job := c.run(t, freshet.Spec{Source: at(store.behind(t, front{before: g.before}), "model"), Dest: dest, Timeout: freshet.Duration(time.Second)})
		if job.State != freshet.Failed {
			t.Errorf("job is %s, want failed", job.State)
		}
		says(t, job.Error, "timed out after 1s")
		untouched(t)
	})
}

// TestControlPlaneAway ends the control plane while a job runs. The agents
// carry on, and the control plane hears of it when it is back.
func TestControlPlaneAway(t *testing.T) {
	t.Parallel()
	store := newBucket(t)
	data := random(10, 3<<20)
	store.put(t, "model", data)
	c := newNodes(t)
	hub := c.config(t, "hub")
	hub.Agent, hub.Name, hub.Roots = false, "", nil
	first, err := tryStart(t, hub)
	if err != nil {
		t.Fatal(err)
	}
	c.first = first
	hub.Listen = first.Addr() // to come back to
	c.connect(t)
	for _, name := range []string{"n0", "n1", "n2"} {
		c.add(t, name)
	}

	g := newGate(t, 2<<20)
	dest := c.dest("away", "model")
	job := c.submit(t, freshet.Spec{Source: at(store.behind(t, front{before: g.before}), "model"), Dest: dest, Piece: unit.MiB, PerWork: 1})
	<-g.held
	watching, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	seen := make(chan freshet.Job, 1)
	go func() { // a client that stays: seen waits for it
		var last freshet.Job
		for j, err := range c.client.Watch(watching, job.ID) {
			if err == nil {
				last = j
			}
		}
		seen <- last
	}()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	close(g.open)
	for _, name := range c.names() {
		eventually(t, "the object is on "+name, func() bool {
			info, err := os.Stat(on(dest, name))
			return err == nil && info.Size() == int64(len(data))
		})
	}
	if _, err := tryStart(t, hub); err != nil {
		t.Fatal(err)
	}
	arrived(t, <-seen, data)
	j, err := c.client.Job(t.Context(), job.ID)
	if err != nil {
		t.Fatal(err)
	}
	arrived(t, j, data)
	var total unit.Bytes
	for _, n := range j.Nodes {
		total += n.StoreBytes
	}
	if total != unit.Bytes(len(data)) {
		t.Errorf("%v were read from the store, want %d bytes", total, len(data))
	}
	arrived(t, c.run(t, freshet.Spec{Source: at(store.Endpoint, "model"), Dest: c.dest("back", "model")}), data)
}
