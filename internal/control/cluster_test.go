package control

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/pki"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/steal"
)

// A cluster in one process, over real sockets.

func testLog(t *testing.T) *slog.Logger {
	if testing.Verbose() {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

// noLeaks fails the test if goroutines are left when it and its clean-ups have
// ended. It is to be called first.
func noLeaks(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for range 100 {
			if runtime.NumGoroutine() <= before {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		buf := make([]byte, 1<<20)
		t.Errorf("%d goroutines, %d before the test\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
	})
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

type testHub struct {
	*Hub
	addr, admin string
	stop        func() // as a crash of the process looks to the others
}

func startHub(t *testing.T, config Config, addr string) *testHub {
	t.Helper()
	config.Log = testLog(t)
	h, err := OpenHub(testContext(t), config)
	if err != nil {
		t.Fatal(err)
	}
	port, err := peer.Listen(addr, peer.Options{Hub: h.Credentials(), Log: testLog(t)})
	if err != nil {
		h.Close()
		t.Fatal(err)
	}
	port.Handle(peer.ProtocolControl, true, h.ServeControl)
	port.Handle(peer.ProtocolHTTP, false, func(ctx context.Context, c *tls.Conn, _ pki.Identity) { // as package freshet does
		c.SetDeadline(time.Now().Add(joinWithin))
		if req, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			h.AnswerJoin(ctx, c, req)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := port.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	wg.Go(func() {
		if err := h.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	th := &testHub{Hub: h, addr: port.Addr().String()}
	th.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(th.stop)
	if th.admin, err = h.WriteAdmin(testContext(t), th.addr); err != nil {
		t.Fatal(err)
	}
	return th
}

func (h *testHub) client(t *testing.T, o ClientOptions) *Client {
	t.Helper()
	a, err := LoadAdmin(h.admin)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Connect(testContext(t), a, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// fakeRunner is a node without disk and network: a job takes as long as the
// test wants.
type fakeRunner struct {
	object  objstore.Object
	statErr error
	prepErr error
	present bool
	record  string
	found   NodeCheck // what Check says
	course  account.Course

	mu      sync.Mutex
	finish  chan NodeStatus // what Run returns
	placed  chan NodeStatus // what Run reports from then on, while it serves others
	begun   chan string
	lost    chan []string // what Run was told
	started int
}

func newFakeRunner() *fakeRunner {
	return &fakeRunner{object: objstore.Object{Key: "k", Size: 1000, Version: "v1", Ranges: true}, finish: make(chan NodeStatus, 8), placed: make(chan NodeStatus, 8), begun: make(chan string, 8), lost: make(chan []string, 64)}
}

func (f *fakeRunner) Stat(context.Context, Spec) (objstore.Object, error) { return f.object, f.statErr }
func (f *fakeRunner) Prepare(context.Context, Job) (Prepared, error) {
	return Prepared{Present: f.present}, f.prepErr
}
func (f *fakeRunner) Check(context.Context, CheckRequest) NodeCheck { return f.found }
func (f *fakeRunner) Run(ctx context.Context, job Job, lost <-chan []string, report func(NodeStatus)) (NodeStatus, account.Course) {
	f.mu.Lock()
	f.started++
	f.mu.Unlock()
	f.begun <- job.ID
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	now := NodeStatus{State: Running, Phase: 1}
	for {
		select {
		case now = <-f.placed:
		case s := <-f.finish:
			return s, f.course
		case names := <-lost:
			select {
			case f.lost <- names:
			default:
			}
		case <-ctx.Done():
			return NodeStatus{State: Failed, Error: "interrupted"}, f.course
		case <-tick.C:
			now.Have = min(now.Have+1, job.Object.Size)
			report(now)
		}
	}
}

type stringRecording struct{ *strings.Reader }

func (stringRecording) Close() error { return nil }

func (f *fakeRunner) Recording(job string) (Recording, error) {
	if f.record == "" {
		return nil, fail(ErrNoRecording, "no recording of job %s here", job)
	}
	return stringRecording{strings.NewReader(f.record)}, nil
}

type testAgent struct {
	*fakeRunner
	name  string
	creds *pki.Credentials
	addr  string
	port  *peer.Port
	files string       // directory of what it keeps
	stop  func() error // returns what Run did
	wait  func() error // until Run ends by itself; likewise
	kill  func()       // cuts its connections for good, without a word

	registered chan struct{} // once for each time after the first
}

// startAgent starts the agent of a node that has credentials.
func startAgent(t *testing.T, hub string, creds *pki.Credentials, f *fakeRunner, r Registration) *testAgent {
	t.Helper()
	port, err := peer.Listen("127.0.0.1:0", peer.Options{Credentials: creds, Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	if r.Addr == "" {
		r.Addr = port.Addr().String()
	}
	a := &testAgent{fakeRunner: f, name: creds.Identity().Name, creds: creds, addr: r.Addr, port: port, files: t.TempDir()}
	ctx, cancel := context.WithCancel(context.Background())
	registered := make(chan struct{}, 16)
	var (
		wg   sync.WaitGroup
		err2 error
		mu   sync.Mutex
		last net.Conn
		dead bool
	)
	a.registered = registered
	ended := make(chan struct{})
	wg.Go(func() { port.Run(ctx) })
	r.Version = "test"
	wg.Go(func() {
		defer close(ended)
		err2 = (&Agent{Hub: hub, Credentials: creds, Runner: f, Registration: r, Log: testLog(t),
			Registered:      func() { poke(registered) },
			CredentialsFile: filepath.Join(a.files, "node.pem"), RevokedFile: filepath.Join(a.files, "revoked.json"), Revoke: port.Revoke,
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				if dead {
					return nil, errors.New("killed by the test")
				}
				c, err := new(net.Dialer).DialContext(ctx, network, addr)
				last = c
				return c, err
			},
		}).Run(ctx)
	})
	a.wait = func() error { <-ended; return err2 }
	a.stop = sync.OnceValue(func() error { cancel(); wg.Wait(); return err2 })
	a.kill = func() {
		mu.Lock()
		defer mu.Unlock()
		dead = true
		if last != nil {
			last.Close()
		}
	}
	t.Cleanup(func() { a.stop() })
	select {
	case <-registered:
	case <-ended:
		t.Logf("agent %s: %v", a.name, err2)
	case <-time.After(20 * time.Second):
		t.Fatalf("agent %s did not register", a.name)
	}
	return a
}

// joined starts the agent of a node that joins with a token.
func joined(t *testing.T, h *testHub, name string, r Registration) *testAgent {
	t.Helper()
	ctx := testContext(t)
	token, _, err := h.NewToken(ctx, 1, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	creds, err := Join(ctx, JoinConfig{Hub: h.addr, Token: token, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return startAgent(t, h.addr, creds, newFakeRunner(), r)
}

func threeNodes(t *testing.T, h *testHub) []*testAgent {
	t.Helper()
	var agents []*testAgent
	for i := range 3 {
		agents = append(agents, joined(t, h, fmt.Sprintf("n%d", i+1), Registration{Site: "here", Labels: map[string]string{"rack": fmt.Sprint(i)}}))
	}
	return agents
}

var aSpec = Spec{Source: "s3://bucket/key", Dest: "/data/file"}

func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !f(); {
		if time.Now().After(end) {
			t.Fatalf("waited 30s in vain: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (a *testAgent) awaitBegun(t *testing.T, job string) {
	t.Helper()
	select {
	case id := <-a.begun:
		if id != job {
			t.Fatalf("%s started job %q, want %q", a.name, id, job)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("%s did not start job %s", a.name, job)
	}
}

var done = NodeStatus{State: Done, Have: 1000, Verified: "source"}

// A request to start a job that is sent again, since the agent was between two
// connections, tells the age of the job at that moment.
func TestStartTellsTheTimeOfItsAttempt(t *testing.T) {
	noLeaks(t)
	h := startHub(t, Config{State: t.TempDir()}, "127.0.0.1:0")
	const before, away = time.Hour, 500 * time.Millisecond
	began := time.Now()
	heard := make(chan []byte, 1)
	timer := time.AfterFunc(away, func() {
		h.nc.Subscribe("down.n1.start", func(m *nats.Msg) { heard <- m.Data; m.Respond(nil) })
	})
	defer timer.Stop()
	body := startBody([]byte(`{"id":"some-job"}`), began.Add(-before), began.Add(before))
	if _, err := h.askRaw(testContext(t), "n1", "start", body, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	var s start
	if err := json.Unmarshal(<-heard, &s); err != nil {
		t.Fatal(err)
	}
	if s.Job.ID != "some-job" || time.Duration(s.Age) < before+away || time.Duration(s.Left) > before-away {
		t.Errorf("got job %q, accepted %v ago, %v left; want some-job, %v or more and %v or less", s.Job.ID, s.Age, s.Left, before+away, before-away)
	}
}

func TestJobEndToEnd(t *testing.T) {
	noLeaks(t)
	h := startHub(t, Config{State: t.TempDir()}, "127.0.0.1:0")
	agents := threeNodes(t, h)
	agents[0].record = strings.Repeat("0123456789abcdef", 100_000) // more than one chunk
	c := h.client(t, ClientOptions{})
	ctx := testContext(t)

	nodes, err := c.Nodes(ctx)
	if err != nil || len(nodes) != 3 || !nodes[0].Up || nodes[1].Site != "here" {
		t.Fatalf("got nodes %+v, %v", nodes, err)
	}
	job, err := c.Submit(ctx, aSpec)
	if err != nil {
		t.Fatal(err)
	}
	if job.State != Preparing || len(job.Nodes) != 3 || job.Spec.Algorithm != steal.Default {
		t.Fatalf("got %+v", job)
	}
	for _, a := range agents {
		a.awaitBegun(t, job.ID)
	}
	if _, err := c.Submit(ctx, Spec{Source: "s3://bucket/other", Dest: "/data//file", Nodes: []string{"n2"}}); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), job.ID) {
		t.Errorf("second job for the same destination: got %v", err)
	}
	finished, progress := false, false
	var final Job
	for j, err := range c.Watch(ctx, job.ID[:11]) {
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range j.Nodes {
			progress = progress || n.State == Running && n.Have > 0
		}
		if progress && !finished {
			finished = true
			for _, a := range agents {
				a.finish <- done
			}
		}
		final = j
	}
	if final.State != Done || final.Error != "" || len(final.Members) != 3 || final.Members[1].Addr != agents[1].addr || !progress {
		t.Errorf("got %+v", final)
	}
	var w strings.Builder
	if err := c.Recording(ctx, job.ID, "n1", &w); err != nil || w.String() != agents[0].record {
		t.Errorf("recording: got %d bytes, %v", w.Len(), err)
	}
	if err := c.Recording(ctx, job.ID, "n2", &w); !errors.Is(err, ErrNoRecording) {
		t.Errorf("recording: got %v", err)
	}
	if jobs, err := c.Jobs(ctx); err != nil || len(jobs) != 1 || jobs[0].State != Done {
		t.Errorf("got jobs %+v, %v", jobs, err)
	}
	if _, err := c.Cancel(ctx, job.ID); !errors.Is(err, ErrEnded) {
		t.Errorf("cancel an ended job: got %v", err)
	}
	if _, err := c.Job(ctx, "zzz"); !errors.Is(err, ErrNoSuchJob) {
		t.Errorf("got %v", err)
	}
	await(t, "agents forget the job", func() bool {
		v, err := c.Nodes(ctx)
		return err == nil && v[0].Jobs == 0
	})
}

func TestRefusals(t *testing.T) {
	noLeaks(t)
	h := startHub(t, Config{State: t.TempDir()}, "127.0.0.1:0")
	c := h.client(t, ClientOptions{})
	ctx := testContext(t)
	if _, err := c.Submit(ctx, aSpec); !errors.Is(err, ErrNoSuchNode) {
		t.Errorf("no nodes: got %v", err)
	}
	agents := threeNodes(t, h)
	for _, a := range agents {
		a.statErr = fmt.Errorf("stat s3://bucket/key: %w", objstore.ErrNotExist)
	}
	_, err := c.Submit(ctx, aSpec)
	if !errors.Is(err, objstore.ErrNotExist) || !strings.HasPrefix(err.Error(), "n1: ") {
		t.Errorf("object missing: got %v", err)
	}
	agents[1].statErr, agents[2].statErr = nil, nil
	if j, err := c.Submit(ctx, Spec{Source: "s3://b/k", Dest: "/there"}); err != nil {
		t.Errorf("one of three says that there is no such object: got %v", err)
	} else if _, err := c.Cancel(ctx, j.ID); err != nil {
		t.Error(err)
	}
	agents[0].statErr, agents[1].statErr = fmt.Errorf("stat: %w", objstore.ErrDenied), nil
	agents[1].object.Version = ""
	if _, err := c.Submit(ctx, aSpec); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "--unpinned") {
		t.Errorf("no validator: got %v", err)
	}
	for _, s := range []Spec{
		{Source: "s3://user:hunter2@bucket/key", Dest: "/d"}, {Source: "https://h/x?X-Amz-Signature=hunter2", Dest: "/d"},
		{Source: "ftp://x/y", Dest: "/d"}, {Source: "s3://b/k", Dest: "d"}, {Source: "s3://b/k", Dest: "/d/"}, {Source: "s3://b/k", Dest: "/d", Algorithm: "x"},
		{Source: "s3://b/k", Dest: "/d", Timeout: -1},
	} {
		if _, err := c.Submit(ctx, s); !errors.Is(err, ErrInvalid) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: got %v", s, err)
		}
	}
	_, err = c.Submit(ctx, Spec{Source: "s3://b/k", Dest: "/d", Nodes: []string{"n1", "n9"}})
	if got, want := fmt.Sprint(err), `no node matches "n9"; known nodes: n1, n2, n3`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCancelAndTimeout(t *testing.T) {
	noLeaks(t)
	h := startHub(t, Config{State: t.TempDir()}, "127.0.0.1:0")
	agents := threeNodes(t, h)
	agents[2].prepErr = errors.New("/data is read-only")
	c := h.client(t, ClientOptions{})
	ctx := testContext(t)
	run := func(s Spec, then func(Job)) Job {
		job, err := c.Submit(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		agents[0].awaitBegun(t, job.ID)
		agents[1].awaitBegun(t, job.ID)
		then(job)
		var final Job
		for j, err := range c.Watch(ctx, job.ID) {
			if err != nil {
				t.Fatal(err)
			}
			final = j
		}
		return final
	}
	j := run(aSpec, func(j Job) {
		if j, err := c.Cancel(ctx, j.ID); err != nil || j.Stopping == "" {
			t.Errorf("got %+v, %v", j, err)
		}
	})
	if j.State != Cancelled || j.Nodes[0].State != Cancelled || j.Nodes[2].State != Failed || j.Nodes[2].Error != "/data is read-only" {
		t.Errorf("got %+v", j)
	}
	s := aSpec
	s.Timeout = Duration(2 * time.Second)
	j = run(s, func(Job) {})
	if j.State != Failed || j.Error != "n1: timed out after 2s; and 2 more nodes" {
		t.Errorf("got %+v", j)
	}
}

// An agent that has just started registers once: the hub dials it for each time.
func TestAgentRegistersOnce(t *testing.T) {
	noLeaks(t)
	h := startHub(t, Config{State: t.TempDir()}, "127.0.0.1:0")
	a := joined(t, h, "n1", Registration{})
	select {
	case <-a.registered:
		t.Error("the agent registered a second time")
	case <-time.After(registerEvery + time.Second):
	}
}

func TestAgentLossAndReturn(t *testing.T) {
	noLeaks(t)
	h := startHub(t, Config{State: t.TempDir()}, "127.0.0.1:0")
	agents := threeNodes(t, h)
	c := h.client(t, ClientOptions{})
	ctx := testContext(t)
	job, err := c.Submit(ctx, aSpec)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range agents {
		a.awaitBegun(t, job.ID)
	}
	agents[0].kill()
	agents[1].kill() // and comes back as a new process
	agents[1].stop()
	again := startAgent(t, h.addr, agents[1].creds, newFakeRunner(), Registration{})
	select {
	case names := <-agents[2].lost:
		if !slices.Equal(names, []string{"n1"}) {
			t.Errorf("n3 is told that %q are lost, want n1", names)
		}
	case <-ctx.Done():
		t.Error("n3 is not told that n1 is lost")
	}
	agents[2].finish <- done
	var final Job
	for j, err := range c.Watch(ctx, job.ID) {
		if err != nil {
			t.Fatal(err)
		}
		final = j
	}
	if got, want := final.Error, "n1: lost: no sign of life for 10s; and 1 more node"; final.State != Failed || got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := final.Nodes[1].Error, "agent restarted during the job"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if final.Nodes[2].State != Done {
		t.Errorf("got %+v", final.Nodes[2])
	}
	// A job with a node that is down: the others go on.
	job, err = c.Submit(ctx, aSpec)
	if err != nil {
		t.Fatal(err)
	}
	if n := job.Nodes[0]; n.State != Failed || !strings.HasPrefix(n.Error, "down: last heard of ") {
		t.Errorf("got %+v", n)
	}
	again.awaitBegun(t, job.ID)
	agents[2].awaitBegun(t, job.ID)
	again.finish <- done
	agents[2].finish <- done
	// It can be removed, and then does not get in any more.
	if err := c.RemoveNode(ctx, "n1"); err != nil {
		t.Fatal(err)
	}
	agents[0].stop()
	a := startAgent(t, h.addr, agents[0].creds, newFakeRunner(), Registration{})
	if err := a.stop(); !errors.Is(err, ErrRemoved) {
		t.Errorf("removed node: got %v", err)
	}
	joined(t, h, "n1", Registration{}) // its name is free
}

// A node whose file is in its place is done for all to see while it serves
// others, and stays so when its agent ends.
func TestDoneWhileServing(t *testing.T) {
	noLeaks(t)
	h := startHub(t, Config{State: t.TempDir()}, "127.0.0.1:0")
	agents := threeNodes(t, h)
	c := h.client(t, ClientOptions{})
	ctx := testContext(t)
	job, err := c.Submit(ctx, aSpec)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range agents {
		a.awaitBegun(t, job.ID)
	}
	agents[0].placed <- done
	agents[1].placed <- done
	await(t, "n1 and n2 are done", func() bool {
		j, err := c.Job(ctx, job.ID)
		return err == nil && j.Nodes[0].State == Done && j.Nodes[1].State == Done
	})
	if err := agents[0].stop(); err != nil {
		t.Error(err)
	}
	await(t, "n1 no longer serves", func() bool {
		j, err := c.Job(ctx, job.ID)
		return err == nil && !j.Nodes[0].Serving
	})
	// A few beats: the hub must not tell n2 to forget what it serves.
	var beat time.Time
	await(t, "n2 has beaten", func() bool {
		v, err := c.Nodes(ctx)
		if err == nil && beat.IsZero() {
			beat = v[1].Seen
		}
		return err == nil && v[1].Seen.Sub(beat) > 2*beatEvery && v[1].Jobs == 1
	})
	if j, err := c.Job(ctx, job.ID); err != nil || j.State != Running || j.Nodes[0].State != Done || !j.Nodes[1].Serving {
		t.Errorf("got %+v, %v", j, err)
	}
	last := done
	last.SentBytes = 77
	agents[2].finish <- done
	agents[1].finish <- last
	await(t, "the job has ended", func() bool {
		job, err = c.Job(ctx, job.ID)
		return err == nil && job.State.Ended()
	})
	if job.State != Done || job.Nodes[0].State != Done || job.Nodes[1].SentBytes != 77 || job.Nodes[1].Serving {
		t.Errorf("got %+v", job)
	}
}

func TestHubRestart(t *testing.T) {
	noLeaks(t)
	state := t.TempDir()
	h := startHub(t, Config{State: state}, "127.0.0.1:0")
	agents := threeNodes(t, h)
	events := make(chan error, 16)
	c := h.client(t, ClientOptions{Hub: func(err error) { events <- err }})
	ctx := testContext(t)
	job, err := c.Submit(ctx, aSpec)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range agents {
		a.awaitBegun(t, job.ID)
	}
	agents[0].finish <- done
	await(t, "n1 is done", func() bool {
		j, err := c.Job(ctx, job.ID)
		return err == nil && j.Nodes[0].State == Done
	})
	final := make(chan Job, 1)
	go func() {
		var last Job
		for j, err := range c.Watch(ctx, job.ID) {
			if err != nil {
				t.Error(err)
			}
			last = j
		}
		final <- last
	}()
	h.stop()
	if err := <-events; !errors.Is(err, ErrLost) {
		t.Errorf("got %v", err)
	}
	agents[1].finish <- done // while nobody listens
	h2 := startHub(t, Config{State: state}, h.addr)
	if err := <-events; err != nil {
		t.Errorf("got %v", err)
	}
	if h2.Fingerprint() != h.Fingerprint() {
		t.Error("the cluster has another authority after a restart")
	}
	await(t, "n2 is done", func() bool {
		j, err := c.Job(ctx, job.ID)
		return err == nil && j.Nodes[1].State == Done
	})
	agents[2].finish <- done
	if j := <-final; j.State != Done || j.Nodes[0].State != Done {
		t.Errorf("got %+v", j)
	}
	for _, a := range agents {
		if a.started != 1 {
			t.Errorf("%s ran the job %d times", a.name, a.started)
		}
	}
	h2.stop()
	h3 := startHub(t, Config{State: state}, h.addr)
	if j, err := h3.job(ctx, job.ID); err != nil || j.State != Done {
		t.Errorf("after another restart: got %+v, %v", j, err)
	}
}

func TestPresent(t *testing.T) {
	noLeaks(t)
	h := startHub(t, Config{State: t.TempDir()}, "127.0.0.1:0")
	agents := threeNodes(t, h)
	for _, a := range agents {
		a.present = true
	}
	c := h.client(t, ClientOptions{})
	ctx := testContext(t)
	job, err := c.Submit(ctx, aSpec)
	if err != nil {
		t.Fatal(err)
	}
	for j, err := range c.Watch(ctx, job.ID) {
		if err != nil {
			t.Fatal(err)
		}
		job = j
	}
	if job.State != Done || job.Nodes[0].State != Present || job.Nodes[0].Have != 1000 || len(job.Members) != 0 {
		t.Errorf("got %+v", job)
	}
	for _, a := range agents {
		if a.started != 0 {
			t.Errorf("%s was started", a.name)
		}
	}
	// What was prepared in vain is forgotten, so the destination is free.
	agents[0].present = false
	agents[1].prepErr, agents[2].prepErr = errors.New("no"), errors.New("no")
	again, err := c.Submit(ctx, aSpec)
	if err != nil {
		t.Fatal(err)
	}
	agents[0].awaitBegun(t, again.ID)
	// An agent that is stopped says so.
	if err := agents[0].stop(); err != nil {
		t.Error(err)
	}
	await(t, "the job has ended", func() bool {
		job, err = c.Job(ctx, again.ID)
		return err == nil && job.State.Ended()
	})
	if got, want := job.Error, "n1: stopped by its operator; and 2 more nodes"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestConnectEndsWithItsContext(t *testing.T) {
	noLeaks(t)
	h := startHub(t, Config{State: t.TempDir()}, "127.0.0.1:0")
	admin, err := LoadAdmin(h.admin)
	if err != nil {
		t.Fatal(err)
	}
	mute, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	admin.Hub = mute.Addr().String()
	if _, err := Connect(ctx, admin, ClientOptions{}); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 5*time.Second {
		t.Errorf("got %v after %v", err, time.Since(start))
	}
}
