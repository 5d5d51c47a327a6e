package control

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/pki"
	"github.com/freshet/freshet/objstore"
)

// A cluster in one process, over real sockets: a hub, and agents whose runners do what the test says.

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

// newHub starts a hub with a state of its own. It is to be called first: nothing may be left
// running when the test and its clean-ups have ended.
func newHub(t *testing.T) *testHub {
	t.Helper()
	noLeaks(t)
	return startHub(t, Config{State: t.TempDir()}, "127.0.0.1:0")
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
	several Files
	statErr error
	prepErr error
	hold    chan struct{} // Prepare waits until it is closed; nil: not at all
	present bool
	record  string
	found   NodeCheck // what Check says
	course  account.Course
	probe   func(context.Context, ProbeStep) (NodeProbe, error)

	mu      sync.Mutex
	finish  chan NodeStatus // what Run returns
	placed  chan NodeStatus // what Run reports from then on, while it serves others
	begun   chan string
	lost    chan []string // what Run was told
	started int
	told    Files // of the last job that was run
}

func newFakeRunner() *fakeRunner {
	return &fakeRunner{object: objstore.Object{Key: "k", Size: 1000, Version: "v1", Ranges: true}, finish: make(chan NodeStatus, 8), placed: make(chan NodeStatus, 8), begun: make(chan string, 8), lost: make(chan []string, 64)}
}

func (f *fakeRunner) Stat(context.Context, Spec) (Source, error) {
	return Source{Object: f.object, Files: f.several}, f.statErr
}
func (f *fakeRunner) Prepare(ctx context.Context, _ Job) (Prepared, error) {
	if f.hold != nil {
		select {
		case <-f.hold:
		case <-ctx.Done():
		}
	}
	return Prepared{Present: f.present}, f.prepErr
}
func (f *fakeRunner) Check(context.Context, CheckRequest) NodeCheck { return f.found }
func (f *fakeRunner) Probe(ctx context.Context, s ProbeStep) (NodeProbe, error) {
	return f.probe(ctx, s)
}
func (f *fakeRunner) Run(ctx context.Context, job Job, lost <-chan []string, report func(NodeStatus)) (NodeStatus, account.Course) {
	f.mu.Lock()
	f.started++
	f.told = job.Files
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
	agent *Agent
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
	a.agent = &Agent{Hub: hub, Credentials: creds, Runner: f, Registration: r, Log: testLog(t),
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
	}
	wg.Go(func() {
		defer close(ended)
		err2 = a.agent.Run(ctx)
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

// runs submits aSpec, and returns when these agents have begun their parts of it.
func runs(t *testing.T, c *Client, agents ...*testAgent) Job {
	t.Helper()
	job, err := c.Submit(testContext(t), aSpec)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range agents {
		a.awaitBegun(t, job.ID)
	}
	return job
}

// watched is a job that was watched to its end.
func watched(t *testing.T, c *Client, id string) (last Job) {
	t.Helper()
	for j, err := range c.Watch(testContext(t), id) {
		if err != nil {
			t.Fatal(err)
		}
		last = j
	}
	return last
}
