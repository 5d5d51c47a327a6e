package control

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/freshet/freshet/internal/pki"
	"github.com/freshet/freshet/objstore"
)

// existing starts a NATS server as a user may have one.
func existing(t *testing.T, o server.Options) string {
	t.Helper()
	o.Host, o.Port, o.NoLog, o.NoSigs, o.StoreDir = "127.0.0.1", -1, true, true, t.TempDir()
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("NATS server is not ready")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s.Addr().String()
}

func TestExternalNATS(t *testing.T) {
	noLeaks(t)
	addr := existing(t, server.Options{JetStream: true, Username: "u", Password: "hunter2"})
	state := t.TempDir()
	config := Config{State: state, NATS: "nats://u:hunter2@" + addr}
	h := startHub(t, config, "127.0.0.1:0")
	agents := threeNodes(t, h)
	c := h.client(t, ClientOptions{})
	job := runs(t, c, agents...)
	h.stop()
	if entries, err := os.ReadDir(state + "/nats"); err == nil {
		t.Errorf("records are in the state directory too: %v", entries)
	}
	startHub(t, config, h.addr)
	for _, a := range agents {
		a.finish <- done
	}
	job = watched(t, c, job.ID)
	if job.State != Done {
		t.Errorf("got %+v", job)
	}
}

func TestExternalNATSRefused(t *testing.T) {
	noLeaks(t)
	plain := existing(t, server.Options{Username: "u", Password: "hunter2"})
	for _, c := range []struct{ url, want string }{
		{"nats://u:hunter2@" + plain, "open the cluster's records: NATS has no JetStream (for this account): the control plane keeps its records there; enable it"},
		{"nats://u:hunter3@" + plain, "NATS at " + plain + ": nats: Authorization Violation"},
		{"nats://u:hunter2@127.0.0.1:1", "NATS at 127.0.0.1:1: nats: no servers available for connection"},
		{"nats://u:hunter2@%zz:1", "NATS: unreadable URL: want nats://HOST:4222, several separated by commas"},
		{"http://u:hunter2@h:1", `NATS: URL scheme "http": want nats or tls`},
	} {
		_, err := OpenHub(testContext(t), Config{State: t.TempDir(), NATS: c.url, Log: testLog(t)})
		if got := fmt.Sprint(err); got != c.want || strings.Contains(got, "hunter") {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// A job of which nodes tell more than NATS takes in a message ends as any other.
func TestRecordLargerThanNATSTakes(t *testing.T) {
	noLeaks(t)
	const most = 32 << 10
	h := startHub(t, Config{State: t.TempDir(), NATS: existing(t, server.Options{JetStream: true, MaxPayload: most})}, "127.0.0.1:0")
	agents := threeNodes(t, h)
	c := h.client(t, ClientOptions{})
	job := runs(t, c, agents...)
	last := done
	for i := range 16 {
		last.Faults = append(last.Faults, Fault{Node: fmt.Sprintf("m%d", i), Cause: strings.Repeat("x", maxErrorText)})
	}
	for _, a := range agents {
		a.finish <- last
	}
	if j := watched(t, c, job.ID); j.State != Done {
		t.Errorf("the job is %s: %s", j.State, j.Error)
	}
	await(t, "the job is filed", func() bool { _, d, err := h.find(job.ID); return err == nil && d == nil })
	j, err := c.Job(testContext(t), job.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range j.Nodes {
		if n.State != Done || n.Have != done.Have || len(n.Faults) == 0 || n.Faults[0].Cause != last.Faults[0].Cause {
			t.Errorf("the record has of %s: %.200s", n.Name, fmt.Sprintf("%+v", n))
		}
	}
	h.mu.Lock()
	for i := range 200 { // of which a record says enough when it is accepted, and too much later
		h.nodes[fmt.Sprintf("z%d", i)] = &node{nodeRecord: nodeRecord{Registration: Registration{Addr: "h:1"}}, heard: time.Now()}
	}
	h.mu.Unlock()
	if _, err := c.Submit(testContext(t), aSpec); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "max_payload") {
		t.Errorf("of more nodes than a record can hold: got %v, want that it is refused", err)
	}
}

// No record that has been made to fit is larger than the one by which a job is refused.
func TestFullest(t *testing.T) {
	addrs, down := map[string]string{}, map[string]string{}
	for i := range 100 {
		addrs[fmt.Sprintf("n%d", i)], down[fmt.Sprintf("d%d", i)] = "10.0.0.1:7000", "down: last heard of 1000h0m0s ago"
	}
	job := Job{ID: "some-job", Spec: aSpec, Object: objstore.Object{Size: 1e15}, Accepted: time.Now()}
	m := newMachine(job, addrs, down)
	most, err := json.Marshal(m.fullest())
	if err != nil {
		t.Fatal(err)
	}
	limit := len(most) + around
	check := func(when string) {
		t.Helper()
		if _, b, _ := fitting(m.snapshot(), limit); len(b)+around > limit {
			t.Errorf("%s: %d bytes, want %d at most", when, len(b), len(most))
		}
	}
	check("accepted")
	now := time.Now()
	for name := range addrs {
		p := wasPrepared{node: name, present: true, noAccess: "no"}
		if name == "n0" {
			p = wasPrepared{node: name}
		}
		m.step(now, p)
	}
	if len(m.job.Members) != len(addrs) {
		t.Fatalf("%d take part", len(m.job.Members))
	}
	check("started")
	words := strings.Repeat("<&>\"", maxErrorText)
	m.step(now, toCancel{words})
	for _, s := range []NodeStatus{{State: Running}, {State: Present, Serving: true}, {State: Failed}} {
		for name := range addrs {
			m.step(now, hasStatus{NodeStatus{Name: name, State: s.State, Serving: s.Serving, Have: 1e15, Kept: 1e15, StoreBytes: 1e18, PeerBytes: 1e18, Waiting: words, Error: words, Faults: []Fault{{words, words}}}})
		}
		check(string(s.State))
	}
	if !m.job.State.Ended() {
		t.Errorf("the job is %s", m.job.State)
	}
}

// What is left out of a record so that it fits is what can best be done without.
func TestFitting(t *testing.T) {
	var j Job
	for i := range 100 {
		n := NodeStatus{Name: fmt.Sprint(i), State: Failed, Have: 7, StoreBytes: 1e12, PeerBytes: 1e12, SentBytes: 1e12, Error: "lost: " + strings.Repeat("y", 300)}
		for range 16 {
			n.Faults = append(n.Faults, Fault{Node: "store", Cause: strings.Repeat("x", 300)})
		}
		j.Nodes = append(j.Nodes, n)
	}
	whole, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		limit, faults, letters int
		figures                bool
	}{{1 << 20, 16, 306, true}, {256 << 10, 4, 306, true}, {96 << 10, 1, 200, true}, {48 << 10, 0, 200, true}, {24 << 10, 0, 64, true}, {20 << 10, 0, 64, false}, {14 << 10, 0, 9, false}} {
		got, b, cut := fitting(j, tt.limit)
		n := got.Nodes[99]
		if len(b) > tt.limit || cut != (tt.faults < 16) || len(n.Faults) != tt.faults || len(n.Error) != tt.letters || (n.SentBytes > 0) != tt.figures || n.Have != 7 || n.State != Failed || settled(Job{State: Running, Nodes: got.Nodes[:1]}, "0") {
			t.Errorf("of at most %d bytes: %d, %v, with %d faults, an error of %d, and %+v", tt.limit, len(b), cut, len(n.Faults), len(n.Error), n)
		}
		if again, _ := json.Marshal(j); !bytes.Equal(again, whole) {
			t.Fatal("the job itself has changed")
		}
	}
}

const crashState = "FRESHET_TEST_CRASH_STATE"

// TestCrashingHub is the process that TestDurable kills.
func TestCrashingHub(t *testing.T) {
	state := os.Getenv(crashState)
	if state == "" {
		t.Skip("a part of TestDurable, which runs it")
	}
	h := startHub(t, Config{State: state}, "127.0.0.1:0")
	joined(t, h, "n1", Registration{})
	c := h.client(t, ClientOptions{})
	for i := 0; ; i++ {
		job, err := c.Submit(testContext(t), Spec{Source: "s3://bucket/key", Dest: fmt.Sprintf("/data/%d", i)})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("accepted", job.ID)
	}
}

// What was acknowledged is there after a kill -9 a moment later.
func TestDurable(t *testing.T) {
	noLeaks(t)
	state := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx := testContext(t)
	cmd := exec.CommandContext(ctx, exe, "-test.run=^TestCrashingHub$")
	cmd.Env = append(os.Environ(), crashState+"="+state)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var accepted []string
	lines := bufio.NewScanner(out)
	for len(accepted) < 5 && lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "accepted "); ok {
			accepted = append(accepted, id)
		} else {
			t.Log(lines.Text())
		}
	}
	cmd.Process.Kill()
	for lines.Scan() { // accepted and told before the signal arrived
		if id, ok := strings.CutPrefix(lines.Text(), "accepted "); ok {
			accepted = append(accepted, id)
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the process ended by itself")
	}
	if len(accepted) < 5 {
		t.Fatalf("%d jobs were accepted", len(accepted))
	}
	h := startHub(t, Config{State: state}, "127.0.0.1:0")
	for _, id := range accepted {
		j, err := h.job(ctx, id)
		if err != nil {
			t.Errorf("job %s is lost: %v", id, err)
		} else if j.State == Preparing {
			await(t, "job "+id+" is failed", func() bool { j, _ := h.job(ctx, id); return j.State == Failed && j.Error == errRestarted })
		}
	}
	if n := h.views()["n1"]; n.Name == "" || n.Up {
		t.Errorf("got %+v", n)
	}
	// Written through: the server says so itself.
	if o := h.core.srv; !o.JetStreamConfig().SyncAlways {
		t.Error("records are not synced")
	}
}

// Two control planes on the same records: the one that finds out ends.
func TestTwoHubs(t *testing.T) {
	h := newHub(t)
	ctx := testContext(t)
	rev, err := putOwn(ctx, h.store.jobs, "x", Job{ID: "x"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := putOwn(ctx, h.store.jobs, "x", Job{ID: "x"}, 0); err != nil || again != rev {
		t.Errorf("an answer that got lost: got %d, %v, want %d", again, err, rev)
	}
	if _, err := putOwn(ctx, h.store.jobs, "x", Job{ID: "x", State: Done}, rev+7); !errors.Is(err, errChangedByOther) {
		t.Errorf("got %v", err)
	}
	if _, err := put(ctx, h.store.jobs, "x", Job{ID: "x"}, 0); !errors.Is(err, errChangedByOther) {
		t.Errorf("got %v", err)
	}
}

// TestLogOfTheEmbeddedServer has what the NATS server complains of in our log, in
// its form, and not beside it.
func TestLogOfTheEmbeddedServer(t *testing.T) {
	var log syncedBuffer
	c, err := startCore("", slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	password, revoke := c.admit(&server.User{Username: "n1", Permissions: permissions(pki.Identity{Name: "n1", Role: pki.Node})})
	defer revoke()
	refused := make(chan error, 1)
	nc, err := nats.Connect("nats://embedded", nats.InProcessServer(c.srv), nats.UserInfo("n1", password), nats.NoReconnect(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := nc.Publish("up.n2.beat", nil); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(20 * time.Second)
	select {
	case <-refused:
	case <-deadline:
		t.Fatal("a node spoke for another one, and was not refused")
	}
	for !strings.Contains(log.String(), "Publish Violation") { // the server says it first, and logs it then
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatal("a node was refused, and the log does not have it")
		}
	}
	natsLog{slog.New(slog.NewJSONHandler(&log, nil))}.Errorf("JetStream %s\nof %d", "out of resources", 7)
	levels := map[string]string{}
	for line := range strings.Lines(log.String()) {
		var l struct{ Level, Msg, Says string }
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Msg != "embedded NATS server" {
			t.Errorf("line %q: %v, want JSON with the server's name", line, err)
		}
		if strings.Contains(l.Says, "Publish Violation") && strings.Contains(l.Says, "up.n2.beat") {
			levels["violation"] = l.Level
		}
		if l.Says == "JetStream out of resources of 7" {
			levels["store"] = l.Level
		}
	}
	if levels["violation"] != "DEBUG" || levels["store"] != "ERROR" {
		t.Errorf("levels are %v, want DEBUG for a client and ERROR for the store, in\n%s", levels, log.String())
	}
}

// syncedBuffer is one that several goroutines write to.
type syncedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (s *syncedBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncedBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
