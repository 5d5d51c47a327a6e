package cluster_test

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/freshet/freshet/internal/lab"
	"github.com/freshet/freshet/internal/lab/cluster"
	"github.com/freshet/freshet/unit"
)

// memory is a directory in memory, removed at the end.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "freshet-lab-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// digest is the SHA-256 of what r delivers.
func digest(t *testing.T, r io.Reader) string {
	t.Helper()
	sum, err := cluster.Digest(r)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// A cluster of real processes does a job, survives the restart of each of its
// parts, and tells what connections the store had.
func TestCluster(t *testing.T) {
	const size = 8 * unit.MiB
	hosts := []string{"hub", "store", "n1", "n2"}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{
		Lab: lab.New(t, lab.Star(hosts, lab.Link{Rate: 20 * unit.MBps})),
		Hub: "hub", Store: "store", Nodes: hosts[2:], Dir: memory(t),
		StoreArgs: []string{"--rate-per-connection", "4MB/s-8MB/s"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	url, err := c.Put("o", size, 1)
	if err != nil {
		t.Fatal(err)
	}
	broadcast := func(name string) {
		t.Helper()
		r, err := c.Broadcast(ctx, url, c.Dest("{node}", name))
		if err != nil {
			t.Fatal(err)
		}
		if r.Exit != 0 || r.State != "done" || r.Verified != "source" || len(r.Nodes) != 2 {
			t.Fatalf("got %+v", r)
		}
		for _, n := range hosts[2:] {
			f, err := os.Open(c.Dest(n, name))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := digest(t, f), digest(t, cluster.Bytes(size, 1)); got != want {
				t.Errorf("%s: digest %s, want %s", n, got, want)
			}
			f.Close()
		}
	}
	broadcast("first")
	draws := func(seed uint64) (rates []unit.Bandwidth) {
		t.Helper()
		conns, err := c.Reseed(ctx, seed)
		if err != nil {
			t.Fatal(err)
		}
		var sent unit.Bytes
		for _, k := range conns {
			sent += k.Bytes
			if k.Rate < 4*unit.MBps || k.Rate > 8*unit.MBps {
				t.Errorf("rate %v", k.Rate)
			}
			rates = append(rates, k.Rate)
		}
		if sent < size {
			t.Errorf("%d connections carried %v of an object of %v", len(conns), sent, size)
		}
		return rates
	}
	draws(7)
	broadcast("second")
	a := draws(7)
	broadcast("third")
	if b := draws(8); a[0] != b[0] {
		t.Errorf("the same seed drew %v and %v", a[0], b[0])
	}
	for _, p := range []*cluster.Process{c.Node("n1"), c.Hub()} {
		if err := p.Restart(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Run(ctx, "nodes", "--up", "2", "--wait", "30s"); err != nil {
		t.Fatal(err)
	}
	broadcast("fourth")
}

// Without a lab a cluster is on this machine's loopback, and its parts come back where they were.
func TestOnThisMachine(t *testing.T) {
	const size = 4 * unit.MiB
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{Hub: "hub", Store: "store", Nodes: []string{"n1", "n2"}, Dir: memory(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	url, err := c.Put("o", size, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"first", "second"} {
		r, err := c.Broadcast(ctx, url, c.Dest("{node}", name), "--sha256")
		if err != nil {
			t.Fatal(err)
		}
		if r.State != "done" || r.Verified != "source" || len(r.Nodes) != 2 || r.Nodes[1].SHA256 != digest(t, cluster.Bytes(size, 1)) {
			t.Fatalf("%s: got %+v", name, r)
		}
		for _, p := range []*cluster.Process{c.Store(), c.Hub(), c.Node("n2")} {
			if peak, err := p.PeakMemory(); err != nil || peak < size {
				t.Errorf("peak memory: %v, %v", peak, err)
			}
			if err := p.Restart(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Run(ctx, "nodes", "--up", "2", "--wait", "30s"); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Hub().PeakMemory(); err == nil {
		t.Error("the control plane is still there")
	}
}
