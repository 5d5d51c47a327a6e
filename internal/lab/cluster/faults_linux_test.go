package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/internal/lab"
	"github.com/freshet/freshet/internal/lab/cluster"
	"github.com/freshet/freshet/unit"
)

// The fault suite: real processes in a lab, and something breaks while a job
// runs. Whatever it is, the job ends, those that are left have every byte right, the one
// that failed has its old file and nothing else, and the report names node and
// cause. docs/faults.md has the cases as a table.
//
// Rates are such that a job takes some six seconds: three nodes read a third
// each at 4 MB/s, and exchange at 16 MB/s.
const (
	faultSize   = 48 * unit.MiB
	faultLink   = 16 * unit.MBps
	faultStore  = "4MB/s"
	faultWithin = 4 * time.Minute // a case, its cluster included; what hangs is found by it
	old         = "what was here before"
)

func TestMain(m *testing.M) {
	if role := os.Getenv("FRESHET_FAULTS_ROLE"); role != "" {
		os.Exit(play(role)) // a node that misbehaves: faults_peer_linux_test.go
	}
	flag.Parse()
	if !isSet("test.parallel") { // the cases wait for deadlines most of the time
		flag.Set("test.parallel", "6")
	}
	os.Exit(m.Run())
}

func isSet(name string) (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

// stage is a cluster with an object in its store, and an old file at each
// node's destination.
type stage struct {
	*testing.T
	ctx   context.Context
	lab   *lab.Lab
	c     *cluster.Cluster
	nodes []string
	url   string
	sum   string // of the object
}

// set starts a cluster of n1, n2 and n3; change, if not nil, sees its Config first.
func set(t *testing.T, change func(*cluster.Config)) *stage {
	t.Parallel()
	if testing.Short() {
		t.Skip("real processes and real deadlines: go test without -short runs it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), faultWithin)
	t.Cleanup(cancel)
	s := &stage{T: t, ctx: ctx, nodes: []string{"n1", "n2", "n3"}}
	s.lab = lab.New(t, lab.Star(append([]string{"hub", "store"}, s.nodes...), lab.Link{Rate: faultLink}))
	config := cluster.Config{
		Lab: s.lab, Hub: "hub", Store: "store", Nodes: s.nodes, Dir: memory(t), StoreArgs: []string{"--rate-per-connection", faultStore},
	}
	if change != nil {
		change(&config)
	}
	var err error
	if s.c, err = cluster.Start(ctx, config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.c.Logs())
		}
		if err := s.c.Close(); err != nil {
			t.Error(err)
		}
	})
	if s.url, err = s.c.Put("o", faultSize, 1); err != nil {
		t.Fatal(err)
	}
	s.sum = digest(t, cluster.Bytes(faultSize, 1))
	for _, n := range config.Nodes {
		s.must(os.WriteFile(s.c.Dest(n, "o"), []byte(old), 0o644))
	}
	return s
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// broadcast begins a broadcast of source to all nodes, and returns what waits for its end.
func (s *stage) broadcast(source string, args ...string) (wait func() cluster.Result) {
	var r cluster.Result
	var err error
	var wg sync.WaitGroup
	began := time.Now()
	wg.Go(func() {
		r, err = s.c.Broadcast(s.ctx, append([]string{source, s.c.Dest("{node}", "o")}, args...)...)
	})
	s.Cleanup(wg.Wait)
	return func() cluster.Result {
		s.Helper()
		wg.Wait()
		s.must(err)
		s.Logf("the job ended after %.1f s as %s: %s", time.Since(began).Seconds(), r.State, strings.TrimSpace(r.Stderr))
		for _, n := range r.Nodes {
			s.Logf("  %s %s, %d from the store, %d from peers, error %q, faults %v", n.Name, n.State, n.StoreBytes, n.PeerBytes, n.Error, n.Faults)
		}
		return r
	}
}

// until waits until the newest job is as ok wants it. A job that ends first fails the test.
func (s *stage) until(what string, ok func(freshet.Job) bool) freshet.Job {
	s.Helper()
	for {
		var all struct{ Jobs []freshet.Job }
		out, err := s.c.Run(s.ctx, "jobs", "--json")
		if err == nil {
			s.must(json.Unmarshal(out, &all))
		}
		if len(all.Jobs) > 0 {
			if ok(all.Jobs[0]) {
				return all.Jobs[0]
			}
			if all.Jobs[0].State.Ended() {
				s.Fatalf("the job ended before %s: %+v", what, all.Jobs[0])
			}
		}
		select {
		case <-s.ctx.Done():
			s.Fatalf("waiting until %s: %v; the job: %+v, %v", what, s.ctx.Err(), all.Jobs, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// midway is in the middle of phase 1: all have something of their own part.
func midway(j freshet.Job) bool {
	return j.State == freshet.Running && !slices.ContainsFunc(j.Nodes, func(n freshet.NodeStatus) bool { return n.Have < faultSize/12 })
}

// exchanging is in phase 2.
func exchanging(j freshet.Job) bool {
	return j.State == freshet.Running && slices.ContainsFunc(j.Nodes, func(n freshet.NodeStatus) bool { return n.Phase == 2 })
}

// ended checks how a job ended: want has for each node that failed the cause, a
// regular expression; all others are to have the object. gone are nodes whose process is not
// there to clean up after itself.
func (s *stage) ended(r cluster.Result, want map[string]string, gone ...string) {
	s.Helper()
	state, code := "done", 0
	if len(want) > 0 {
		state, code = "failed", 1
	}
	if r.State != state || r.Exit != code {
		s.Errorf("the job is %q and the command ended with %d; want %q and %d", r.State, r.Exit, state, code)
	}
	if len(r.Nodes) == 0 {
		s.Errorf("no node in the result")
	}
	for _, n := range r.Nodes {
		cause, bad := want[n.Name]
		if !bad {
			if n.State != "done" && n.State != "present" {
				s.Errorf("%s is %q (%s), want it done", n.Name, n.State, n.Error)
			}
			s.has(n.Name)
			continue
		}
		if n.State != "failed" || !regexp.MustCompile(cause).MatchString(n.Error) {
			s.Errorf("%s is %q with %q, want it failed with %q", n.Name, n.State, n.Error, cause)
		}
		if !regexp.MustCompile("(?m)^freshet: .*\\b" + n.Name + "\\b.*" + cause).MatchString(r.Stderr) {
			s.Errorf("people are told %q, want %s and %q", r.Stderr, n.Name, cause)
		}
		if !slices.Contains(gone, n.Name) {
			s.untouched(n.Name)
		}
	}
}

// has checks that a node has the object, and nothing beside it.
func (s *stage) has(node string) {
	s.Helper()
	f, err := os.Open(s.c.Dest(node, "o"))
	s.must(err)
	defer f.Close()
	if got := digest(s.T, f); got != s.sum {
		s.Errorf("%s: the file's digest is %s, want %s", node, got, s.sum)
	}
	s.alone(node)
}

// untouched waits until a node has its old file, and nothing beside it: what
// was started again or continued clears up first.
func (s *stage) untouched(node string) {
	s.Helper()
	s.alone(node)
	b, err := os.ReadFile(s.c.Dest(node, "o"))
	if err != nil || string(b) != old {
		s.Errorf("%s: at the destination are %d bytes (%v), want the old file", node, len(b), err)
	}
}

// landed says whether a node has something new at the destination.
func (s *stage) landed(node string) bool {
	fi, err := os.Stat(s.c.Dest(node, "o"))
	return err == nil && fi.Size() == int64(faultSize)
}

func (s *stage) alone(node string) {
	s.Helper()
	s.aloneIn(node, filepath.Dir(s.c.Dest(node, "o")))
}

func (s *stage) aloneIn(node, dir string) {
	s.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		entries, err := os.ReadDir(dir)
		s.must(err)
		if len(entries) == 1 {
			return
		}
		if time.Now().After(deadline) {
			s.Errorf("%s: left behind: %v", node, entries)
			return
		}
	}
}

// blames checks that some node that is done tells in its report of this fault of that node.
func (s *stage) blames(r cluster.Result, who, cause string) {
	s.Helper()
	for _, n := range r.Nodes {
		for _, f := range n.Faults {
			if f.Node == who && n.Name != who && regexp.MustCompile(cause).MatchString(f.Cause) {
				return
			}
		}
	}
	s.Errorf("no node's report says of %s: %s", who, cause)
}

// signs checks that the log of some node has a match.
func (s *stage) signs(cause string) {
	s.Helper()
	for _, n := range s.nodes {
		if regexp.MustCompile(cause).MatchString(s.c.Node(n).Log()) {
			return
		}
	}
	s.Errorf("no node's log has %q", cause)
}

// Nodes.

func TestNodeKilled(t *testing.T) {
	s := set(t, nil)
	wait := s.broadcast(s.url)
	s.until("the middle of phase 1", midway)
	s.must(s.c.Node("n2").Kill())
	r := wait()
	s.ended(r, map[string]string{"n2": "lost: no sign of life for 10s"}, "n2")
	s.blames(r, "n2", `connect to n2 at \S+: connect: connection refused`)
	s.must(s.c.Node("n2").Restart(s.ctx))
	s.untouched("n2")
}

func TestNodeKilledInPhase2(t *testing.T) {
	s := set(t, nil)
	wait := s.broadcast(s.url)
	s.until("phase 2", exchanging)
	s.must(s.c.Node("n2").Kill())
	r := wait()
	s.ended(r, map[string]string{"n2": "lost: no sign of life for 10s"}, "n2")
	s.must(s.c.Node("n2").Restart(s.ctx))
	s.untouched("n2")
}

func TestNodeStopped(t *testing.T) {
	s := set(t, nil)
	wait := s.broadcast(s.url)
	s.until("the middle of phase 1", midway)
	s.must(s.c.Node("n2").Signal(syscall.SIGSTOP))
	r := wait()
	s.ended(r, map[string]string{"n2": "lost: no sign of life for 10s"}, "n2")
	s.blames(r, "n2", "lost: no sign of life, neither at the control plane nor here")
	s.must(s.c.Node("n2").Signal(syscall.SIGCONT))
	s.untouched("n2")
}

// A node that comes back before it is given up goes on where it was.
func TestNodePaused(t *testing.T) {
	s := set(t, nil)
	wait := s.broadcast(s.url)
	s.until("the middle of phase 1", midway)
	s.must(s.c.Node("n2").Signal(syscall.SIGSTOP))
	time.Sleep(4 * time.Second)
	s.must(s.c.Node("n2").Signal(syscall.SIGCONT))
	s.ended(wait(), nil)
}

func TestNodePartitioned(t *testing.T) {
	s := set(t, nil)
	wait := s.broadcast(s.url)
	s.until("the middle of phase 1", midway)
	s.must(s.lab.Partition("n2"))
	r := wait()
	s.ended(r, map[string]string{"n2": "lost: no sign of life for 10s"}, "n2")
	s.blames(r, "n2", "lost: no sign of life, neither at the control plane nor here")
	s.must(s.lab.Heal())
	s.untouched("n2")
}

func TestNodePartitionHealed(t *testing.T) {
	s := set(t, nil)
	wait := s.broadcast(s.url)
	s.until("the middle of phase 1", midway)
	s.must(s.lab.Partition("n2"))
	time.Sleep(4 * time.Second)
	s.must(s.lab.Heal())
	s.ended(wait(), nil)
}

func TestNodeRestarted(t *testing.T) {
	s := set(t, nil)
	wait := s.broadcast(s.url)
	s.until("the middle of phase 1", midway)
	s.must(s.c.Node("n2").Restart(s.ctx))
	r := wait()
	s.ended(r, map[string]string{"n2": "agent restarted during the job"})
	s.must(s.c.Node("n2").Signal(syscall.Signal(0))) // it lives: the same command now brings it the object
	s.ended(s.broadcast(s.url)(), nil)
}

// A node that is stopped in good order finishes its part first.
func TestNodeTerminated(t *testing.T) {
	s := set(t, nil)
	wait := s.broadcast(s.url)
	s.until("the middle of phase 1", midway)
	s.must(s.c.Node("n2").End(s.ctx, syscall.SIGTERM))
	s.ended(wait(), nil)
}

// Without the time for it, it says that it was stopped, and clears up.
func TestNodeTerminatedAtOnce(t *testing.T) {
	s := set(t, func(c *cluster.Config) { c.AgentArgsOf = map[string][]string{"n2": {"--drain", "0s"}} })
	wait := s.broadcast(s.url)
	s.until("the middle of phase 1", midway)
	s.must(s.c.Node("n2").End(s.ctx, syscall.SIGTERM))
	s.ended(wait(), map[string]string{"n2": "stopped by its operator"})
}

// Clocks.

// shifted is the path of a freshet binary whose wall clock is off by as many
// seconds as $FRESHET_TEST_SHIFT says: everything is the product's but the
// standard library's time.Now.
var shifted = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "freshet-clock-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	root, err := goroot()
	if err != nil {
		return "", err
	}
	name := filepath.Join(root, "src", "time", "time.go")
	src, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	const call = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if !bytes.Contains(src, []byte(call)) {
		return "", fmt.Errorf("%s: time.Now is not as it was: mend this test", name)
	}
	src = bytes.Replace(src, []byte(call), []byte(call+"\tsec += testShift\n"), 1)
	src = append(src, `
var testShift = func() (n int64) {
	s, _ := syscall.Getenv("FRESHET_TEST_SHIFT")
	back := len(s) > 0 && s[0] == '-'
	for i := range len(s) {
		if s[i] != '-' {
			n = 10*n + int64(s[i]-'0')
		}
	}
	if back {
		n = -n
	}
	return n
}()
`...)
	src = bytes.Replace(src, []byte("import ("), []byte("import (\n\t\"syscall\"\n"), 1)
	changed, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {name: changed}})
	if err != nil {
		return "", err
	}
	for path, b := range map[string][]byte{changed: src, overlay: text} {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			return "", err
		}
	}
	return cluster.Build("-overlay", overlay)
})

func TestClocksDiffer(t *testing.T) {
	s := set(t, func(c *cluster.Config) {
		exe, err := shifted()
		if err != nil {
			t.Fatal(err)
		}
		c.ExeOf = map[string]string{
			"n1": script(t, fmt.Sprintf("FRESHET_TEST_SHIFT=600 exec %s \"$@\"", exe)),
			"n2": script(t, fmt.Sprintf("FRESHET_TEST_SHIFT=-600 exec %s \"$@\"", exe)),
		}
	})
	found, err := s.c.Run(s.ctx, "doctor")
	if err == nil {
		s.Error("the doctor finds nothing wrong")
	}
	for n, way := range map[string]string{"n1": "ahead of", "n2": "behind"} {
		if want := regexp.MustCompile("FAILED +" + n + `: its clock is (10m0|9m59)\S* ` + way); !want.Match(found) {
			s.Errorf("the doctor says %q, want a match of %v", found, want)
		}
	}
	r := s.broadcast(s.url, "--timeout", "3m")()
	s.ended(r, nil)
	for _, n := range r.Nodes {
		if n.DoneS != nil && (*n.DoneS < 1 || *n.DoneS > faultWithin.Seconds()) {
			s.Errorf("%s is said to have had it after %.1f s: its clock was believed", n.Name, *n.DoneS)
		}
	}
	for _, n := range []string{"n1", "n2"} { // at its end an agent says something, with the time
		s.must(s.c.Node(n).End(s.ctx, syscall.SIGTERM))
	}
	stamp := regexp.MustCompile(`time=(\S+)`)
	ahead, behind := stamp.FindStringSubmatch(s.c.Node("n1").Log()), stamp.FindStringSubmatch(s.c.Node("n2").Log())
	if ahead == nil || behind == nil {
		s.Fatal("no times in the logs")
	}
	a, err := time.Parse(time.RFC3339, ahead[1])
	s.must(err)
	b, err := time.Parse(time.RFC3339, behind[1])
	s.must(err)
	if a.Sub(b) < 15*time.Minute {
		s.Errorf("the clocks of n1 and n2 are %v apart: the test is none", a.Sub(b))
	}
}

// script makes a shell script, to be run as an agent.
func script(t *testing.T, line string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+line+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// Disks and objects.

// onDisk sets the stage with n2's root and state on a file system of their
// own, in a mount namespace that is gone with the agent. mount returns the
// command that mounts it, but for the directory; what it is given is a place for an image. inside is
// the node's view of its directory.
func onDisk(t *testing.T, mount func(image string) string) (s *stage, inside func(parts ...string) string) {
	s = set(t, func(c *cluster.Config) {
		exe, err := cluster.Built()
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(c.Dir, "n2")
		c.ExeOf = map[string]string{"n2": script(t, fmt.Sprintf(
			`exec unshare --mount sh -c '%[4]s %[1]s && mkdir -p %[1]s/data && printf "%[3]s" >%[1]s/data/o && exec %[2]s "$@"' sh "$@"`,
			dir, exe, old, mount(filepath.Join(c.Dir, "n2.image"))))}
	})
	return s, func(parts ...string) string {
		dest := s.c.Dest("n2", "o")
		return filepath.Join(append([]string{fmt.Sprintf("/proc/%d/root", s.c.Node("n2").PID()), filepath.Dir(filepath.Dir(dest))}, parts...)...)
	}
}

// A node whose disk gets full while the job runs has its space already.
func TestDiskFull(t *testing.T) {
	s, inside := onDisk(t, func(string) string { return "mount -t tmpfs -o size=64m freshet" })
	wait := s.broadcast(s.url)
	s.until("the middle of phase 1", midway)
	if err := fill(inside("ballast")); err != nil {
		t.Fatal(err)
	}
	r := wait()
	if len(r.Nodes) != 3 || r.Node("n1").State != "done" || r.Node("n3").State != "done" {
		s.Errorf("the others did not get it: %+v", r)
	}
	s.has("n1")
	s.has("n3")
	f, err := os.Open(inside("data", "o"))
	s.must(err)
	defer f.Close()
	if got := digest(t, f); r.Node("n2").State != "done" || got != s.sum {
		s.Errorf("n2 is %q (%s), its file's digest %s", r.Node("n2").State, r.Node("n2").Error, got)
	}
	if entries, err := os.ReadDir(inside("data")); err != nil || len(entries) != 1 {
		s.Errorf("n2: left behind: %v, %v", entries, err)
	}
	// A second object has no room: that is said before a byte has moved.
	_, err = s.c.Put("second", faultSize, 2)
	s.must(err)
	s.must(os.Remove(inside("ballast")))
	second, err := s.c.Broadcast(s.ctx, "s3://b/second", s.c.Dest("{node}", "second"))
	s.must(err)
	if n := second.Node("n2"); n.State != "failed" || n.StoreBytes+n.PeerBytes != 0 ||
		!regexp.MustCompile(`node n2: .* are needed and .* are free; make room or choose another place`).MatchString(second.Stderr) {
		s.Errorf("without room n2 is %+v; people are told %q", n, second.Stderr)
	}
	for _, n := range []string{"n1", "n3"} {
		if second.Node(n).State != "done" {
			s.Errorf("%s did not get the second object: %+v", n, second.Node(n))
		}
	}
}

// Where the file system cannot allocate, a disk that gets full meanwhile is
// found by a write: the node fails, and clears up.
func TestDiskFullUnallocated(t *testing.T) {
	if _, err := os.Stat("/dev/loop-control"); err != nil && os.Getenv("CI") != "true" {
		t.Skip("no loop devices: ", err)
	}
	s, inside := onDisk(t, func(image string) string {
		// Of ext2 the kernel allocates no space ahead. None is kept for root.
		if out, err := exec.Command("mke2fs", "-q", "-t", "ext2", "-m", "0", "-F", image, "72m").CombinedOutput(); err != nil {
			t.Fatalf("mke2fs: %v: %s; scripts/setup test installs it", err, out)
		}
		return "mount -o loop -t ext2 " + image
	})
	wait := s.broadcast(s.url)
	s.until("the middle of phase 1", midway)
	if err := fill(inside("ballast")); err != nil {
		t.Fatal(err)
	}
	r := wait()
	if len(r.Nodes) != 3 || r.State != "failed" || r.Node("n1").State != "done" || r.Node("n3").State != "done" {
		s.Errorf("the job is %q; the others did not get it: %+v", r.State, r)
	}
	s.has("n1")
	s.has("n3")
	n := r.Node("n2")
	if n.State != "failed" || n.StoreBytes+n.PeerBytes == 0 ||
		!regexp.MustCompile(`node n2: .*needs 48 MiB, .* free: no space left on device`).MatchString(r.Stderr) {
		s.Errorf("n2 is %+v; people are told %q", n, r.Stderr)
	}
	if b, err := os.ReadFile(inside("data", "o")); err != nil || string(b) != old {
		s.Errorf("n2: at the destination are %d bytes (%v), want the old file", len(b), err)
	}
	s.aloneIn("n2", inside("data"))
	s.must(os.Remove(inside("ballast"))) // room is made: the same command now brings it the object
	if again := s.broadcast(s.url)(); again.Node("n2").State != "done" || again.State != "done" {
		s.Errorf("with room n2 is %+v", again.Node("n2"))
	}
}

// fill writes a file until its disk is full.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 64<<10); ; {
		if _, err := f.Write(block); err != nil {
			if pe, ok := err.(*fs.PathError); ok && pe.Err == syscall.ENOSPC {
				return nil
			}
			return err
		}
	}
}

// The versions of two objects are never mixed.
func TestObjectReplaced(t *testing.T) {
	s := set(t, nil)
	wait := s.broadcast(s.url)
	s.until("the middle of phase 1", midway)
	const size = unit.MiB // which is there at once; what is read goes on for seconds
	_, err := s.c.Put("o", size, 2)
	s.must(err)
	changed := "object was replaced in the store while it was read; nothing was put in place: run the job again for the new version"
	s.ended(wait(), map[string]string{"n1": changed, "n2": changed, "n3": changed})
	s.sum = digest(t, cluster.Bytes(size, 2))
	s.ended(s.broadcast(s.url)(), nil) // as it is told to
}
