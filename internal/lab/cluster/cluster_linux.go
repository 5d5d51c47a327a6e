package cluster

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/freshet/freshet/internal/lab"
	"github.com/freshet/freshet/objstore/s3"
	"github.com/freshet/freshet/unit"
)

const (
	bucket    = "b"
	accessKey = "lab"
	secretKey = "lab-secret"
	region    = "us-east-1"

	storePort, hubPort, agentPort = "9000", "7433", "7434"

	readyWithin = 60 * time.Second // for a process to say that it is ready; the machine may be busy
)

// Config says which hosts do what. Hub and Dir are needed.
type Config struct {
	Exe    string            // the freshet binary; empty: built from this module, once per process
	ExeOf  map[string]string // by node, instead of Exe
	Lab    *lab.Lab          // the network; nil: all are on this machine's loopback, and hosts mere names
	Hub    string            // host that runs "freshet up --no-agent"
	Nodes  []string          // hosts with an agent each; the node's name is the host's
	Store  string            // host that runs "freshet s3"; empty: there is none
	HubDir string            // the control plane's state; empty: below Dir

	StoreArgs   []string            // more flags of "freshet s3"
	HubArgs     []string            // of "freshet up"
	AgentArgs   []string            // of every agent
	AgentArgsOf map[string][]string // by node, in addition
	Dir         string              // everything lies below it; made if need be, and left to the caller to remove

	Launch func(host string, cmd *exec.Cmd) error // starts a process in a host, the clients' too; nil: Lab.Start, or with no lab a plain start
}

// Cluster is one that runs. Its methods may be called at once, but for those
// that end what others use.
type Cluster struct {
	config Config
	exe    string
	store  *Process
	hub    *Process
	nodes  map[string]*Process
	env    []string

	endpoint, hubAddr, admin string
}

// Start returns when all nodes are up. What it started ends with Close.
func Start(ctx context.Context, c Config) (_ *Cluster, err error) {
	k := &Cluster{config: c, exe: c.Exe, nodes: map[string]*Process{}}
	if k.exe == "" {
		if k.exe, err = Built(); err != nil {
			return nil, err
		}
	}
	if c.Launch == nil {
		k.config.Launch = onThisMachine
		if c.Lab != nil {
			k.config.Launch = c.Lab.Start
		}
	}
	if k.config.Dir, err = filepath.Abs(c.Dir); err != nil {
		return nil, err
	}
	dirs := []string{filepath.Join("s3", bucket), "log", "home"}
	for _, n := range c.Nodes {
		dirs = append(dirs, filepath.Join(n, "data"))
	}
	for _, d := range dirs {
		if err := os.MkdirAll(k.path(d), 0o755); err != nil {
			return nil, err
		}
	}
	k.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + k.path("home"), "FRESHET_STATE=" + k.path("home"),
		"AWS_ACCESS_KEY_ID=" + accessKey, "AWS_SECRET_ACCESS_KEY=" + secretKey, "AWS_REGION=" + region,
		"AWS_EC2_METADATA_DISABLED=true",
	}
	defer func() {
		if err != nil {
			k.Close()
		}
	}()
	if c.Store != "" {
		k.store = k.process("store", c.Store, k.exe,
			append([]string{"s3", "--dir", k.path("s3"), "--listen", k.at(c.Store, storePort), "--json"}, c.StoreArgs...))
		said, err := k.begin(ctx, k.store, "")
		if err != nil {
			return nil, err
		}
		k.endpoint = said.Endpoint
		k.env = append(k.env, "AWS_ENDPOINT_URL="+k.endpoint)
	}
	hubState := c.HubDir
	if hubState == "" {
		hubState = k.path("hub")
	}
	k.hub = k.process("hub", c.Hub, k.exe,
		append([]string{"up", "--no-agent", "--listen", k.at(c.Hub, hubPort), "--state", hubState, "--json"}, c.HubArgs...))
	said, err := k.begin(ctx, k.hub, "")
	if err != nil {
		return nil, err
	}
	k.hubAddr, k.admin = said.Addr, said.Admin
	if len(c.Nodes) == 0 {
		return k, nil
	}
	token, err := k.Token(ctx, len(c.Nodes))
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	for _, n := range c.Nodes {
		exe := k.exe
		if e := c.ExeOf[n]; e != "" {
			exe = e
		}
		p := k.process(n, n, exe, slices.Concat([]string{
			"agent", "--join", k.hubAddr, "--token", "-", "--name", n, "--listen", k.at(n, agentPort),
			"--state", k.path(n, "state"), "--root", k.path(n, "data"), "--json",
		}, c.AgentArgs, c.AgentArgsOf[n]))
		k.nodes[n] = p
		go func() { // waited for below
			_, err := k.begin(ctx, p, token)
			started <- err
		}()
	}
	for range c.Nodes {
		err = errors.Join(err, <-started)
	}
	if err != nil {
		return nil, err
	}
	if _, err := k.Run(ctx, "nodes", "--up", strconv.Itoa(len(c.Nodes)), "--wait", readyWithin.String()); err != nil {
		return nil, err
	}
	return k, nil
}

func (c *Cluster) path(parts ...string) string {
	return filepath.Join(append([]string{c.config.Dir}, parts...)...)
}

// at is where a process is told to listen: in a lab at a fixed port of its host, else at a free one.
func (c *Cluster) at(host, port string) string {
	if c.config.Lab == nil {
		return "127.0.0.1:0"
	}
	return net.JoinHostPort(c.config.Lab.Addr(host).String(), port)
}

// said is what a process tells of itself when it is ready, each what it has.
type said struct{ Addr, Admin, Endpoint string }

// begin starts a process, and returns when it is ready. A restart will have the address that it got.
func (c *Cluster) begin(ctx context.Context, p *Process, input string) (s said, err error) {
	if err := p.start(ctx, input); err != nil {
		return s, err
	}
	if err := json.Unmarshal(p.ready, &s); err != nil {
		return s, p.explain(fmt.Errorf("%s says that it is ready with %q: %w", p.name, p.ready, err))
	}
	if i := slices.Index(p.args, "--listen"); c.config.Lab == nil && i >= 0 {
		p.args[i+1] = cmp.Or(s.Addr, strings.TrimPrefix(s.Endpoint, "http://"))
	}
	return s, nil
}

// dial connects from the store's own host.
func (c *Cluster) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	if c.config.Lab == nil {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}
	return c.config.Lab.Dial(ctx, c.config.Store, addr)
}

func (c *Cluster) process(name, host, exe string, args []string) *Process {
	return &Process{name: name, host: host, exe: exe, args: args, env: c.env, launcher: c.config.Launch, log: c.path("log", name)}
}

// Endpoint is the store's URL.
func (c *Cluster) Endpoint() string { return c.endpoint }

// HubAddr is where agents join.
func (c *Cluster) HubAddr() string { return c.hubAddr }

// Admin is the admin's credential, a file.
func (c *Cluster) Admin() string { return c.admin }

// Token is one with which so many nodes can join.
func (c *Cluster) Token(ctx context.Context, uses int) (string, error) {
	out, err := c.Run(ctx, "token", "--wait", readyWithin.String(), "--uses", strconv.Itoa(uses))
	return strings.TrimSpace(string(out)), err
}

// Hub, Store and Node are the processes, the last one nil for a node that is not in the Config.
func (c *Cluster) Hub() *Process             { return c.hub }
func (c *Cluster) Store() *Process           { return c.store }
func (c *Cluster) Node(name string) *Process { return c.nodes[name] }
func (c *Cluster) Dest(node, name string) string { // where a job is to write; for node "{node}" as Broadcast takes it
	return c.path(node, "data", name)
}

// Put makes an object of random bytes, which depend on seed alone, in the
// store. It comes through the store's own front door, so that it has a checksum,
// and on the store's own host, so that no link delays it.
func (c *Cluster) Put(name string, size unit.Bytes, seed uint64) (url string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	store, err := s3.Open(ctx, s3.Config{
		Bucket: bucket, Region: region, Endpoint: c.Endpoint(),
		Credentials: credentials.NewStaticCredentialsProvider(accessKey, secretKey, ""),
		Dial:        c.dial,
	})
	if err != nil {
		return "", err
	}
	defer store.Close()
	if _, err = store.Put(ctx, name, Bytes(size, seed), size); err != nil {
		return "", c.store.explain(err)
	}
	return "s3://" + bucket + "/" + name, nil
}

// Bytes are those of an object that Put makes.
func Bytes(size unit.Bytes, seed uint64) io.Reader {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	return io.LimitReader(rand.NewChaCha8(key), int64(size))
}

// Digest is the SHA-256 of what r delivers, in hex.
func Digest(r io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// OpenToAll lets everybody read the objects without a key, by the plain URL
// Endpoint()/b/NAME, as a web server would give them.
func (c *Cluster) OpenToAll(ctx context.Context) error {
	transport := &http.Transport{DialContext: c.dial}
	defer transport.CloseIdleConnections()
	client := awss3.New(awss3.Options{
		Region: region, BaseEndpoint: aws.String(c.Endpoint()), UsePathStyle: true, HTTPClient: &http.Client{Transport: transport},
		Credentials: credentials.NewStaticCredentialsProvider(accessKey, secretKey, ""),
	})
	_, err := client.PutBucketPolicy(ctx, &awss3.PutBucketPolicyInput{Bucket: aws.String(bucket), Policy: aws.String(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::` + bucket + `/*"}]}`)})
	if err != nil {
		return c.store.explain(fmt.Errorf("open bucket %s to all: %w", bucket, err))
	}
	return nil
}

// Env is the environment of all processes: among it the store's address and keys.
func (c *Cluster) Env() []string { return slices.Clone(c.env) }

// Exe is the freshet binary.
func (c *Cluster) Exe() string { return c.exe }

// Run runs a client command of freshet on the control plane's host, as the
// admin, and returns its standard output.
func (c *Cluster) Run(ctx context.Context, args ...string) ([]byte, error) {
	out, errs, code, err := c.client(ctx, args)
	if err == nil && code != 0 {
		err = fmt.Errorf("freshet %s ended with %d: %s", args[0], code, bytes.TrimSpace(errs))
	}
	return out, err
}

// client runs a client command to its end. err tells only of what is not the
// command's own doing.
func (c *Cluster) client(ctx context.Context, args []string) (out, errs []byte, code int, err error) {
	cmd := exec.Command(c.exe, append(slices.Clone(args), "--admin", c.admin)...)
	var stdout, stderr bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = c.env, &stdout, &stderr
	if err := c.config.Launch(c.config.Hub, cmd); err != nil {
		return nil, nil, 0, fmt.Errorf("freshet %s: %w", args[0], err)
	}
	unwatch := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	err = cmd.Wait()
	unwatch()
	if ctx.Err() != nil {
		err = fmt.Errorf("freshet %s had not ended: %w; it said: %s", strings.Join(args, " "), context.Cause(ctx), stderr.Bytes())
		return stdout.Bytes(), stderr.Bytes(), -1, c.hub.explain(err)
	}
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		err = nil
	}
	return stdout.Bytes(), stderr.Bytes(), cmd.ProcessState.ExitCode(), err
}

// Broadcast runs "freshet broadcast --json" on the control plane's host, with
// these arguments after it, and returns what it says of the job, be it done or
// failed. There is an error if it says nothing of a job.
func (c *Cluster) Broadcast(ctx context.Context, args ...string) (Result, error) {
	out, errs, code, err := c.client(ctx, append([]string{"broadcast", "--json"}, args...))
	r := Result{Exit: code, Stderr: string(errs)}
	if err != nil {
		return r, err
	}
	var all struct{ Runs []Result }
	if err := json.Unmarshal(out, &all); err != nil || len(all.Runs) != 1 {
		return r, c.hub.explain(fmt.Errorf("freshet broadcast ended with %d and without a result: %s%s", code, out, errs))
	}
	all.Runs[0].Exit, all.Runs[0].Stderr = r.Exit, r.Stderr
	return all.Runs[0], nil
}

// Connection is one that the store had.
type Connection struct {
	Remote string         `json:"remote"`
	Rate   unit.Bandwidth `json:"rate"`   // its own, as drawn; zero: no limit
	Client unit.Bandwidth `json:"client"` // of all of its address together, likewise
	Bytes  unit.Bytes     `json:"bytes"`  // sent, headers included
	Opened time.Time      `json:"opened"`
	Closed time.Time      `json:"closed"` // zero: not before the store ended
}

// Reseed ends the store and starts it again, so that connections get the rates
// that this seed gives. It returns the connections that the ended one had, in
// the order of acceptance.
func (c *Cluster) Reseed(ctx context.Context, seed uint64) ([]Connection, error) {
	if err := c.store.End(ctx, syscall.SIGTERM); err != nil {
		return nil, err
	}
	out, err := os.ReadFile(c.store.out())
	if err != nil {
		return nil, err
	}
	var last struct{ Connections []Connection }
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil {
		return nil, c.store.explain(fmt.Errorf("what the store said at its end: %w", err))
	}
	if i := slices.Index(c.store.args, "--seed"); i >= 0 {
		c.store.args[i+1] = strconv.FormatUint(seed, 10)
	} else {
		c.store.args = append(c.store.args, "--seed", strconv.FormatUint(seed, 10))
	}
	return last.Connections, c.store.start(ctx, "")
}

// Close kills all processes.
func (c *Cluster) Close() (err error) {
	for _, p := range c.processes() {
		err = errors.Join(err, p.Kill())
	}
	return err
}

func (c *Cluster) processes() (all []*Process) {
	for _, n := range c.config.Nodes {
		if p := c.nodes[n]; p != nil {
			all = append(all, p)
		}
	}
	for _, p := range []*Process{c.hub, c.store} {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// Logs is the end of what each process said, for people.
func (c *Cluster) Logs() string {
	var b strings.Builder
	for _, p := range c.processes() {
		fmt.Fprintf(&b, "%s said at last:\n%s\n", p.name, p.tail())
	}
	return b.String()
}
