package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/internal/lab/cluster"
	"github.com/freshet/freshet/unit"
)

// newCluster starts agents n1, n2 and so on, each with flags of its own, as
// processes of the program as users build it; with a store if it has a name.
func newCluster(t *testing.T, store string, flags ...[]string) *cluster.Cluster {
	t.Helper()
	config := cluster.Config{Hub: "hub", Store: store, Dir: t.TempDir(), AgentArgsOf: map[string][]string{}}
	for i, more := range flags {
		name := fmt.Sprintf("n%d", i+1)
		config.Nodes = append(config.Nodes, name)
		config.AgentArgsOf[name] = more
	}
	c, err := cluster.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(c.Logs())
		}
	})
	return c
}

// bring brings an object to all nodes, and removes it there again.
func bring(t *testing.T, c *cluster.Cluster, source, algorithm string) cluster.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	r, err := c.Broadcast(ctx, source, c.Dest("{node}", "object"), "--algorithm", algorithm, "--timeout", patience.String())
	if err != nil {
		t.Fatal(err)
	}
	if r.Exit != 0 {
		t.Fatalf("the broadcast ended with %d: %s", r.Exit, r.Stderr)
	}
	for _, n := range r.Nodes {
		if err := os.Remove(c.Dest(n.Name, "object")); err != nil {
			t.Error(err)
		}
	}
	return r
}

// object makes a file of random bytes where reading it takes no time.
func object(t *testing.T, size unit.Bytes) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "freshet-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	f, err := os.Create(filepath.Join(dir, "object"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.Copy(f, cluster.Bytes(size, uint64(size))); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// TestAgentRates: of two agents one may receive, or send, a tenth of what the
// other one may. That is the least time that it takes whoever depends on it,
// and the other one is not held up.
func TestAgentRates(t *testing.T) {
	const size, slow, fast = 16 * unit.MiB, 4 * unit.MBps, 40 * unit.MBps
	for _, tt := range []struct {
		name, algorithm string
		held, free      string     // the node that waits for n1's cap, and the other one
		bytes           unit.Bytes // at the rate of the cap
	}{
		{"in", "flat", "n1", "n2", size},
		{"out", "non-steal", "n2", "n1", size / 2}, // n1's half comes from n1
	} {
		t.Run(tt.name, func(t *testing.T) {
			flag := "--rate-" + tt.name
			c := newCluster(t, "store", []string{flag, bitRate(slow)}, []string{flag, bitRate(fast)})
			source, err := c.Put("object", size, 1)
			if err != nil {
				t.Fatal(err)
			}
			r := bring(t, c, source, tt.algorithm)
			held, free := *r.Node(tt.held).DoneS, *r.Node(tt.free).DoneS
			t.Logf("%.2f s and %.2f s", held, free)
			if least := 0.9 * float64(tt.bytes) / float64(slow); held < least {
				t.Errorf("%v at %v took %.2f s, want at least %.2f s", tt.bytes, slow, held, least)
			}
			if held < 1.5*free {
				t.Errorf("with a tenth of the rate it took %.2f s, and %.2f s without; want at least 1.5 × as long", held, free)
			}
		})
	}
}

// highWater is the most memory that each process ever had.
func highWater(t *testing.T, of []*cluster.Process) (all []unit.Bytes) {
	t.Helper()
	for _, p := range of {
		peak, err := p.PeakMemory()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, peak)
	}
	return all
}

// TestMemoryIsBounded: an object twelve times as large takes a node no more
// memory.
func TestMemoryIsBounded(t *testing.T) {
	c := newCluster(t, "", nil, nil)
	agents := []*cluster.Process{c.Node("n1"), c.Node("n2")}
	bring(t, c, "file://"+object(t, 64*unit.MiB), freshet.DefaultAlgorithm)
	small := highWater(t, agents)
	bring(t, c, "file://"+object(t, 768*unit.MiB), freshet.DefaultAlgorithm)
	for i, large := range highWater(t, agents) {
		t.Logf("n%d: %v after 64 MiB, %v after 768 MiB", i+1, small[i], large)
		if large > 200*unit.MiB || large > small[i]+48*unit.MiB {
			t.Errorf("n%d: %v after 64 MiB, %v after 768 MiB; want at most 48 MiB more, and 200 MiB", i+1, small[i], large)
		}
	}
}
