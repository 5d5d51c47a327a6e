package freshet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/objstore/objstoretest/versity"
)

// patience bounds every wait of these tests for something that must happen.
const patience = 60 * time.Second

// wrongKeys is a profile of the AWS shared files with keys that no server knows.
const wrongKeys = "wrong-keys"

func TestMain(m *testing.M) {
	if config := os.Getenv(childVariable); config != "" {
		os.Exit(childMain(config))
	}
	os.Exit(testMain(m))
}

// testMain sets the credentials that all S3 servers of these tests take. It is
// done once, before any test, so that tests can run at the same time.
func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "freshet-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	shared := filepath.Join(dir, "credentials")
	keys := "[" + wrongKeys + "]\naws_access_key_id = nobody\naws_secret_access_key = wrong\n"
	if err := os.WriteFile(shared, []byte(keys), 0o600); err != nil {
		panic(err)
	}
	for _, e := range (&versity.Server{AccessKey: "freshet-test", SecretKey: storeSecret, Region: "us-east-1"}).Env() {
		name, value, _ := strings.Cut(e, "=")
		os.Setenv(name, value)
	}
	os.Setenv("AWS_SHARED_CREDENTIALS_FILE", shared)
	flag.Parse()
	flag.Set("test.parallel", "8") // most of these tests wait for something
	return m.Run()
}

// storeSecret is versity's key, which must stand in no record and no log.
const storeSecret = "freshet-test-secret"

// nodes is a cluster in this process. Every node has a directory of its own,
// with its state and its root:
//
//	DIR/NAME/state
//	DIR/NAME/data
type nodes struct {
	dir    string
	log    *lines
	byName map[string]*freshet.Node
	first  *freshet.Node // runs the control plane
	client *freshet.Client

	mu      sync.Mutex // guards secrets
	secrets []string   // that must stand in no log and no record
}

// newNodes returns a cluster without nodes. When the test has ended, and all
// nodes with it, nothing half-done may be left in their directories.
func newNodes(t *testing.T) *nodes {
	t.Helper()
	c := &nodes{dir: t.TempDir(), log: new(lines), byName: map[string]*freshet.Node{}, secrets: []string{storeSecret}}
	t.Cleanup(func() {
		c.nothingLeft(t)
		if t.Failed() {
			t.Logf("log of the nodes:\n%s", c.log)
		}
	})
	return c
}

// newCluster is a control plane with an agent, and more agents: n0, n1, and so on.
func newCluster(t *testing.T, agents int) *nodes {
	t.Helper()
	c := newNodes(t)
	for i := range agents {
		c.add(t, fmt.Sprintf("n%d", i))
	}
	c.connect(t)
	return c
}

// config is that of a node that joins if there is a control plane, and is it otherwise.
func (c *nodes) config(t *testing.T, name string) freshet.NodeConfig {
	t.Helper()
	config := freshet.NodeConfig{
		State: filepath.Join(c.dir, name, "state"), Listen: "127.0.0.1:0", Agent: true, Name: name,
		Roots: []string{c.root(name)}, ControlPlane: c.first == nil, Version: "test",
		Log: slog.New(slog.NewTextHandler(c.log, &slog.HandlerOptions{Level: slog.LevelDebug})).With("at", name),
	}
	if err := os.MkdirAll(config.Roots[0], 0o755); err != nil {
		t.Fatal(err)
	}
	if c.first != nil {
		config.Join, config.Token = c.first.Addr(), c.token(t, 1)
	}
	return config
}

func (c *nodes) token(t *testing.T, uses int) string {
	t.Helper()
	token, err := c.first.NewToken(t.Context(), uses)
	if err != nil {
		t.Fatal(err)
	}
	c.secret(token)
	return token
}

func (c *nodes) secret(s string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.secrets = append(c.secrets, s)
}

func (c *nodes) add(t *testing.T, name string) *freshet.Node {
	t.Helper()
	return c.start(t, c.config(t, name))
}

// start starts a node and closes it when the test ends.
func (c *nodes) start(t *testing.T, config freshet.NodeConfig) *freshet.Node {
	t.Helper()
	n, err := tryStart(t, config)
	if err != nil {
		t.Fatal(err)
	}
	if c.first == nil {
		c.first = n
	}
	c.byName[config.Name] = n
	return n
}

func tryStart(t *testing.T, config freshet.NodeConfig) (*freshet.Node, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n, err := freshet.Start(ctx, config)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("close %s: %v", config.Name, err)
		}
	})
	return n, nil
}

func (c *nodes) connect(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := freshet.Connect(ctx, c.first.AdminFile(), freshet.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	c.client = client
}

func (c *nodes) root(name string) string { return filepath.Join(c.dir, name, "data") }

// dest is a path under the root of each node.
func (c *nodes) dest(elem ...string) string {
	return filepath.Join(append([]string{c.root("{node}")}, elem...)...)
}

// on is where dest lies on a node.
func on(dest, name string) string { return strings.ReplaceAll(dest, "{node}", name) }

func (c *nodes) names() []string {
	var names []string
	for name := range c.byName {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// run submits a job, which must be accepted, and watches it to its end.
func (c *nodes) run(t *testing.T, s freshet.Spec) freshet.Job {
	t.Helper()
	return c.watch(t, c.submit(t, s))
}

func (c *nodes) submit(t *testing.T, s freshet.Spec) freshet.Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	job, err := c.client.Submit(ctx, s)
	if err != nil {
		t.Fatalf("submit %s: %v", s.Source, err)
	}
	return job
}

func (c *nodes) watch(t *testing.T, job freshet.Job) freshet.Job {
	t.Helper()
	return c.await(t, job, "end", func(j freshet.Job) bool { return j.State.Ended() })
}

// await watches a job until it is as wanted.
func (c *nodes) await(t *testing.T, job freshet.Job, what string, wanted func(freshet.Job) bool) freshet.Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for j, err := range c.client.Watch(ctx, job.ID) {
		if err != nil {
			t.Fatalf("job %s: waiting for its %s: %v; it was %s", job.ID, what, err, describe(job))
		}
		job = j
		if wanted(j) {
			return j
		}
	}
	t.Fatalf("job %s ended before its %s: %s", job.ID, what, describe(job))
	return job
}

// partFile waits for the file into which a job's object comes on a node.
func (c *nodes) partFile(t *testing.T, job freshet.Job, name string) (path string) {
	t.Helper()
	dir, base := filepath.Split(on(job.Spec.Dest, name))
	path = filepath.Join(dir, "."+base+"."+job.ID+".part")
	eventually(t, path+" is there, with its space", func() bool {
		info, err := os.Stat(path)
		return err == nil && info.Size() == int64(job.Object.Size)
	})
	return path
}

// refused submits what must be refused at once, and returns why.
func (c *nodes) refused(t *testing.T, s freshet.Spec) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	job, err := c.client.Submit(ctx, s)
	if err == nil {
		c.watch(t, job)
		t.Fatalf("%s to %s was accepted as job %s", s.Source, s.Dest, job.ID)
	}
	return err.Error()
}

// describe is a job for a failed test's message.
func describe(j freshet.Job) string {
	b, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// status is a node's part of a job.
func status(t *testing.T, j freshet.Job, name string) freshet.NodeStatus {
	t.Helper()
	for _, n := range j.Nodes {
		if n.Name == name {
			return n
		}
	}
	t.Fatalf("job %s has no node %s", j.ID, name)
	return freshet.NodeStatus{}
}

// says fails the test unless text is one line of a bearable length that holds
// all of want, once.
func says(t *testing.T, text string, want ...string) {
	t.Helper()
	if text == "" || strings.ContainsAny(text, "\n\r\t\x00") || len(text) > 600 {
		t.Errorf("want one line of at most 600 characters, got %d: %q", len(text), text)
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q does not say %q", text, w)
		}
	}
}

// arrived checks that the job is done, and data at its destination.
func arrived(t *testing.T, j freshet.Job, data []byte) {
	t.Helper()
	if j.State != freshet.Done {
		t.Errorf("job is %s, want done: %s", j.State, describe(j))
	}
	for _, n := range j.Nodes {
		holds(t, on(j.Spec.Dest, n.Name), data)
	}
}

// holds checks that data is the file at path, and that no other file is beside it.
func holds(t *testing.T, path string, data []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	} else if !bytes.Equal(got, data) {
		t.Errorf("%s: %d bytes differ from the object's %d", path, len(got), len(data))
	}
	beside, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(beside) != 1 {
		t.Errorf("beside %s: %v, %v, want nothing", path, beside, err)
	}
}

// old puts a file at dest on each of the named nodes, and returns a check that
// nothing in dest's directory has changed since.
func old(t *testing.T, dest string, names ...string) (untouched func(*testing.T)) {
	t.Helper()
	before := map[string]string{}
	for _, name := range names {
		path := on(dest, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("what was here before, on "+name), 0o640); err != nil {
			t.Fatal(err)
		}
		before[filepath.Dir(path)] = tree(t, filepath.Dir(path))
	}
	return func(t *testing.T) {
		t.Helper()
		for dir, want := range before {
			if got := tree(t, dir); got != want {
				t.Errorf("%s is now\n%swas\n%s", dir, got, want)
			}
		}
	}
}

// tree is everything under dir, with what shows that a file was replaced or
// written.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v %d", path, info.Mode(), info.Sys().(*syscall.Stat_t).Ino)
		if !d.IsDir() {
			fmt.Fprintf(&b, " %d %v", info.Size(), info.ModTime())
		}
		fmt.Fprintln(&b)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return b.String()
}

// nothingLeft looks through the directories of nodes that have ended for what
// a job leaves only while it runs, and for secrets.
func (c *nodes) nothingLeft(t *testing.T) {
	t.Helper()
	for _, secret := range c.secrets {
		if strings.Contains(c.log.String(), secret) {
			t.Errorf("the log holds the secret %.12s…", secret)
		}
	}
	err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		journal := filepath.Base(filepath.Dir(path)) == "landings"
		if strings.HasSuffix(name, ".part") || strings.HasSuffix(name, ".new") || strings.Contains(name, "freshet-check") || journal {
			t.Errorf("%s is left", path)
		}
		if d.Type().IsRegular() && strings.Contains(path, "/state/") {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, secret := range c.secrets {
				if bytes.Contains(b, []byte(secret)) {
					t.Errorf("%s holds the secret %.12s…", path, secret)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// eventually polls for what must come true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", patience, what)
		}
	}
}

// random is n bytes of a generator with that seed.
func random(seed byte, n int) []byte {
	b := make([]byte, n)
	io.ReadFull(rand.NewChaCha8([32]byte{seed}), b)
	return b
}

// lines is a log that several nodes write.
type lines struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// childVariable holds the NodeConfig of a node that is to run in a process of
// its own, which can be killed.
const childVariable = "FRESHET_TEST_NODE"

// childMain is that process. It ends when its standard input does, so that it
// does not outlive the test, whatever happens to that.
func childMain(config string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, end := context.WithCancel(ctx)
	go func() { // ends with the process
		io.Copy(io.Discard, os.Stdin)
		end()
	}()
	var c freshet.NodeConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	n, err := freshet.Start(ctx, c)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("started")
	<-ctx.Done()
	if err := n.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child is a node in a process of its own.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{}
}

// startChild starts one and waits until it has its place in the cluster.
func (c *nodes) startChild(t *testing.T, config freshet.NodeConfig) *child {
	t.Helper()
	config.Log = nil
	b, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	var once sync.Once
	p := &child{cmd: exec.Command(os.Args[0]), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(b))
	p.cmd.Stderr = c.log
	p.cmd.Stdout = writerFunc(func(b []byte) (int, error) {
		if bytes.Contains(b, []byte("started")) {
			once.Do(func() { close(started) })
		}
		return len(b), nil
	})
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // kill and stop wait for it
		p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(p.stop)
	select {
	case <-started:
	case <-p.ended:
		t.Fatalf("node %s in a process of its own ended: %v\n%s", config.Name, p.cmd.ProcessState, c.log)
	case <-time.After(patience):
		t.Fatalf("node %s in a process of its own did not start", config.Name)
	}
	return p
}

// kill ends the process at this instant.
func (p *child) kill() {
	p.cmd.Process.Kill()
	<-p.ended
}

// stop ends it in order.
func (p *child) stop() {
	p.stdin.Close()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.kill()
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
