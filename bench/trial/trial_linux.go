package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/internal/lab"
	"github.com/freshet/freshet/internal/lab/cluster"
	"github.com/freshet/freshet/unit"
)

// Hosts of the network that are no nodes.
const (
	Store = "store" // runs the store
	Hub   = "hub"   // runs the control plane
)

// Buffer is what lies in front of a node's link, in each direction.
const Buffer = 512 * unit.KiB

const (
	firstSeed = 1 // of the first object's bytes; the next one's is one more
	look      = 10 * time.Millisecond
)

// Config says what a trial is made of.
type Config struct {
	Name      string   // of the experiment: what directories and control groups begin with
	Network   lab.Spec // with Store, Hub and the nodes
	Nodes     []string // that are to get the objects
	Objects   []string // by their names in the store
	Each      unit.Bytes
	Public    bool                // everybody may read the objects, without a key
	StoreArgs []string            // flags of "freshet s3"
	Agents    []string            // of Freshet's agents, which are up beforehand; nil: there are none
	AgentsOf  map[string][]string // by node, in addition
	Env       map[string][]string // by host: what the environment of processes there has in addition

	// Group names the control group of a host's processes.
	Group func(host string) string
}

// Trial is one that is built.
type Trial struct {
	Lab     *lab.Lab
	Cluster *cluster.Cluster
	Root    string                  // the directory that all files are below
	URLs    []string                // of the objects, as S3 has them
	Groups  map[string]*bench.Group // by name

	config  Config
	running sync.WaitGroup
	ended   chan error     // of programs that ended badly
	closers []func() error // of what is up in this process

	mu   sync.Mutex // guards what follows
	logs int
}

// Sweep removes what trials of this name left whose processes were killed.
func Sweep(ctx context.Context, name string) error {
	return errors.Join(bench.SweepGroups(ctx, name), bench.Sweep(bench.Memory, name))
}

// New builds a trial. What there is of one that cannot be built is gone when it returns.
func New(ctx context.Context, c Config) (_ *Trial, err error) {
	t := &Trial{config: c, Groups: map[string]*bench.Group{}, ended: make(chan error, 256)}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	if t.Root, err = os.MkdirTemp(bench.Memory, fmt.Sprintf("%s-%d-", c.Name, os.Getpid())); err != nil {
		return nil, err
	}
	if err := os.Chmod(t.Root, 0o755); err != nil {
		return nil, err
	}
	for _, node := range c.Nodes {
		for _, object := range c.Objects {
			if err := os.MkdirAll(filepath.Dir(t.File(node, object)), 0o755); err != nil {
				return nil, err
			}
		}
	}
	for _, host := range c.Network.Hosts {
		name := c.Group(host)
		if t.Groups[name] != nil {
			continue
		}
		g, err := bench.NewGroup(filepath.Base(t.Root) + "-" + name)
		if err != nil {
			return nil, err
		}
		t.Groups[name] = g
	}
	if t.Lab, err = lab.Up(c.Network); err != nil {
		return nil, err
	}
	all := cluster.Config{Lab: t.Lab, Hub: Hub, Store: Store, Dir: t.Root, Launch: t.launch, StoreArgs: c.StoreArgs}
	if c.Agents != nil {
		all.Nodes, all.AgentArgs, all.AgentArgsOf = c.Nodes, c.Agents, c.AgentsOf
	}
	if t.Cluster, err = cluster.Start(ctx, all); err != nil {
		return nil, err
	}
	for i, object := range c.Objects {
		url, err := t.Cluster.Put(object, c.Each, firstSeed+uint64(i))
		if err != nil {
			return nil, err
		}
		t.URLs = append(t.URLs, url)
	}
	if c.Public {
		err = t.Cluster.OpenToAll(ctx)
	}
	return t, err
}

// launch starts a process in a host, in its group.
func (t *Trial) launch(host string, cmd *exec.Cmd) error {
	t.Groups[t.config.Group(host)].Adopt(cmd)
	if more := t.config.Env[host]; more != nil {
		cmd.Env = append(slices.Clone(cmd.Env), more...)
	}
	return t.Lab.Start(host, cmd)
}

// File is where an object is to stand on a node, or what the names of several begin with.
func (t *Trial) File(node, object string) string { return filepath.Join(t.Root, node, "data", object) }

// Mark is what a program on a node makes when all objects are there, complete and synced.
func (t *Trial) Mark(node string) string { return filepath.Join(t.Root, node, "done") }

// Stored is the file in which the store has an object.
func (t *Trial) Stored(object string) string { return filepath.Join(t.Root, "s3", "b", object) }

// Web is the URL at which an object can be had without a key, if it is public.
func (t *Trial) Web(object string) string { return t.Cluster.Endpoint() + "/b/" + object }

// Start starts a program on a host, in the trial's directory. That it ends with another status than 0 is a failure, which Await returns.
func (t *Trial) Start(host string, argv ...string) error {
	ended, err := t.process(host, argv)
	if err != nil {
		return err
	}
	t.running.Go(func() { // Close kills all, and waits
		if err := <-ended; err != nil {
			select {
			case t.ended <- err:
			default: // so many have failed that one more says nothing
			}
		}
	})
	return nil
}

// Shell starts a script of bash on a host, which ends with the first command that fails.
func (t *Trial) Shell(host, script string) error {
	return t.Start(host, "bash", "-euo", "pipefail", "-c", script)
}

// Run runs a program on a host to its end.
func (t *Trial) Run(ctx context.Context, host string, argv ...string) error {
	ended, err := t.process(host, argv)
	if err != nil {
		return err
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s: %s has not ended: %w", host, argv[0], ctx.Err())
	}
}

// process starts a program; how it ended comes through the channel.
func (t *Trial) process(host string, argv []string) (<-chan error, error) {
	path, err := bench.Program(argv[0])
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.logs++
	name := filepath.Join(t.Root, "log", fmt.Sprintf("%s-%d", host, t.logs))
	t.mu.Unlock()
	log, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(path, argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = t.Root, t.env(), log, log
	if err := t.launch(host, cmd); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	t.running.Go(func() { // Close kills all, and waits
		err := cmd.Wait()
		if err != nil {
			err = fmt.Errorf("%s: %s: %w: %s", host, filepath.Base(path), err, saying(name))
		}
		ended <- err
	})
	return ended, nil
}

// env is what a program finds: Debian's programs, the store's address and keys.
func (t *Trial) env() (env []string) {
	for _, v := range t.Cluster.Env() {
		if !strings.HasPrefix(v, "PATH=") {
			env = append(env, v)
		}
	}
	return append(env, "PATH="+bench.Home, "TMPDIR="+t.Root, "LANG=C.UTF-8")
}

// saying is the beginning and the end of what a process said.
func saying(log string) string {
	b, _ := os.ReadFile(log)
	b = bytes.TrimSpace(b)
	const most = 400
	if len(b) <= 2*most {
		return string(b)
	}
	return string(b[:most]) + " … " + string(b[len(b)-most:])
}

// Await returns nil when something is so, the error of a program that has failed, or that of ctx.
func (t *Trial) Await(ctx context.Context, so func() bool) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for !so() {
		select {
		case err := <-t.ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// Serve has a web server of this process on a host until the trial's end, and returns its URL.
func (t *Trial) Serve(host string, port int, h http.Handler) (url string, err error) {
	ln, err := t.Lab.Listen(host, fmt.Sprintf(":%d", port))
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: h, ReadTimeout: time.Minute, WriteTimeout: time.Minute}
	t.running.Go(func() { server.Serve(ln) }) // Close ends it, and waits
	t.closers = append(t.closers, server.Close)
	return fmt.Sprintf("http://%v:%d", t.Lab.Addr(host), port), nil
}

// Ballast has memory that this machine owns come free while all nodes' files grow, until the trial's end; see bench.Ballast.
func (t *Trial) Ballast() error {
	b, err := bench.NewBallast(t.config.Each * unit.Bytes(len(t.config.Objects)*len(t.config.Nodes)))
	if err != nil {
		return err
	}
	t.closers = append(t.closers, b.Close)
	return nil
}

// CPU is the processor time that each group has used, by its name.
func (t *Trial) CPU() (map[string]time.Duration, error) {
	used := map[string]time.Duration{}
	for name, g := range t.Groups {
		d, err := g.CPU()
		if err != nil {
			return nil, err
		}
		used[name] = d
	}
	return used, nil
}

// Verify compares every node's files with the objects.
func (t *Trial) Verify() error {
	for i, object := range t.config.Objects {
		want, err := cluster.Digest(cluster.Bytes(t.config.Each, firstSeed+uint64(i)))
		if err != nil {
			return err
		}
		for _, node := range t.config.Nodes {
			f, err := os.Open(t.File(node, object))
			if err != nil {
				return fmt.Errorf("node %s said that it was through: %w", node, err)
			}
			got, err := cluster.Digest(f)
			f.Close()
			if err != nil {
				return err
			}
			if got != want {
				return fmt.Errorf("node %s said that it was through, and its %s is not what the store has: SHA-256 %.16s…, want %.16s…", node, filepath.Base(object), got, want)
			}
		}
	}
	return nil
}

// Close ends all that the trial started, and removes what it made.
func (t *Trial) Close() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, g := range t.Groups {
		err = errors.Join(err, g.Kill(ctx))
	}
	if t.Cluster != nil {
		err = errors.Join(err, t.Cluster.Close())
	}
	for _, end := range t.closers {
		err = errors.Join(err, end())
	}
	t.running.Wait()
	if t.Lab != nil {
		err = errors.Join(err, t.Lab.Close())
	}
	for _, g := range t.Groups {
		err = errors.Join(err, g.Remove())
	}
	if t.Root != "" {
		err = errors.Join(err, os.RemoveAll(t.Root))
	}
	return err
}
