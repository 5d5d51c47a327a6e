package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/internal/s3serve"
	"github.com/freshet/freshet/unit"
)

// cluster is a control plane and agents that are processes of
// the program as users build it.
type cluster struct {
	exe, dir     string
	hub, admin   string   // the control plane's address, and its admin's file
	hubs, agents children // of hubs there is one
}

// newCluster starts agents n1, n2 and so on, each with flags of its own.
func newCluster(t *testing.T, exe string, flags ...[]string) *cluster {
	t.Helper()
	c := &cluster{exe: exe, dir: t.TempDir()}
	t.Cleanup(func() {
		c.agents.stop()
		c.hubs.stop()
		if t.Failed() {
			var b bytes.Buffer
			c.agents.explain(&b)
			c.hubs.explain(&b)
			t.Logf("processes said at last:\n%s", &b)
		}
	})
	log := filepath.Join(c.dir, "hub.log")
	if err := c.hubs.start(c.exe, "hub", log, "", nil, "up", "--no-agent", "--listen", "127.0.0.1:0", "--state", filepath.Join(c.dir, "hub"), "--json"); err != nil {
		t.Fatal(err)
	}
	var hub ready
	for deadline := time.Now().Add(patience); hub.Addr == ""; time.Sleep(10 * time.Millisecond) {
		said, err := os.ReadFile(log)
		for line := range bytes.Lines(said) { // some may be of its log, and the last one cut short
			if json.Unmarshal(line, &hub) == nil {
				break
			}
		}
		if hub.Addr == "" && time.Now().After(deadline) {
			t.Fatalf("the control plane is not ready: %s, %v", said, err)
		}
	}
	c.hub, c.admin = hub.Addr, hub.Admin
	token := c.token(t, len(flags))
	for i, more := range flags {
		name := fmt.Sprintf("n%d", i+1)
		if err := os.MkdirAll(filepath.Join(c.dir, name, "data"), 0o755); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"agent", "--join", c.hub, "--token", "-", "--name", name, "--listen", "127.0.0.1:0",
			"--state", filepath.Join(c.dir, name, "state"), "--root", filepath.Join(c.dir, name, "data")}, more...)
		if err := c.agents.start(c.exe, name, filepath.Join(c.dir, name+".log"), token, nil, args...); err != nil {
			t.Fatal(err)
		}
	}
	c.run(t, "nodes", "--up", strconv.Itoa(len(flags)), "--wait", patience.String())
	return c
}

// token makes one that is good for so many nodes.
func (c *cluster) token(t *testing.T, uses int) string {
	t.Helper()
	return strings.TrimSpace(string(c.run(t, "token", "--uses", strconv.Itoa(uses))))
}

// run runs a client command, and returns what it prints.
func (c *cluster) run(t *testing.T, args ...string) []byte {
	t.Helper()
	var errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), c.exe, append(args, "--admin", c.admin)...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("freshet %s: %v: %s", args[0], err, &errs)
	}
	return out
}

// broadcast brings an object to all nodes, and removes it there again.
func (c *cluster) broadcast(t *testing.T, source, algorithm string) run {
	t.Helper()
	dest := filepath.Join(c.dir, "{node}", "data", "object")
	out := c.run(t, "broadcast", source, dest, "--algorithm", algorithm, "--json", "--timeout", "60s")
	var r result
	if err := json.Unmarshal(out, &r); err != nil || len(r.Runs) != 1 {
		t.Fatalf("%v, %d runs, in\n%s", err, len(r.Runs), out)
	}
	for _, n := range r.Runs[0].Nodes {
		if err := os.Remove(strings.ReplaceAll(dest, "{node}", n.Name)); err != nil {
			t.Error(err)
		}
	}
	return r.Runs[0]
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
	if _, err := io.CopyN(f, rand.NewChaCha8([32]byte{byte(size >> 20)}), int64(size)); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// TestAgentRates: of two agents one may receive, or send, a tenth of what the
// other one may. That is the least time that it takes whoever depends on it,
// and the other one is not held up.
func TestAgentRates(t *testing.T) {
	const size, slow, fast = 16 * unit.MiB, 4 * unit.MBps, 40 * unit.MBps
	exe, store := built(t), t.TempDir()
	data, err := os.ReadFile(object(t, size))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"in", "out"} {
		if err := os.MkdirAll(filepath.Join(store, "b"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(store, "b", name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	server, err := s3serve.Start(t.Context(), s3serve.Config{Dir: store, Listen: "127.0.0.1:0", Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	access, secret := server.Keys()
	for k, v := range map[string]string{
		"AWS_ENDPOINT_URL": server.Endpoint(), "AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret,
		"AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(k, v)
	}
	for _, tt := range []struct {
		name, algorithm string
		held            int        // the node that waits for n1's cap
		bytes           unit.Bytes // at the rate of the cap
	}{
		{"in", "flat", 0, size},
		{"out", "non-steal", 1, size / 2}, // n1's half comes from n1
	} {
		t.Run(tt.name, func(t *testing.T) {
			flag := "--rate-" + tt.name
			c := newCluster(t, exe, []string{flag, bitRate(slow)}, []string{flag, bitRate(fast)})
			r := c.broadcast(t, "s3://b/"+tt.name, tt.algorithm)
			held, free := *r.Nodes[tt.held].DoneS, *r.Nodes[1-tt.held].DoneS
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
func highWater(t *testing.T, of []*child) (all []unit.Bytes) {
	t.Helper()
	for _, k := range of {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", k.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(b), "\nVmHWM:")
		line, _, _ := strings.Cut(rest, "\n")
		n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(line, "kB")), 10, 64)
		if err != nil {
			t.Fatalf("VmHWM of %s: %v", k.name, err)
		}
		all = append(all, unit.Bytes(n)*unit.KiB)
	}
	return all
}

// TestMemoryIsBounded: an object twelve times as large takes a node no more
// memory.
func TestMemoryIsBounded(t *testing.T) {
	c := newCluster(t, built(t), nil, nil)
	c.broadcast(t, "file://"+object(t, 64*unit.MiB), freshet.DefaultAlgorithm)
	small := highWater(t, c.agents.all)
	c.broadcast(t, "file://"+object(t, 768*unit.MiB), freshet.DefaultAlgorithm)
	for i, large := range highWater(t, c.agents.all) {
		t.Logf("n%d: %v after 64 MiB, %v after 768 MiB", i+1, small[i], large)
		if large > 200*unit.MiB || large > small[i]+48*unit.MiB {
			t.Errorf("n%d: %v after 64 MiB, %v after 768 MiB; want at most 48 MiB more, and 200 MiB", i+1, small[i], large)
		}
	}
}
