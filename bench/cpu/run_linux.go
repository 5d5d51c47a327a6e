package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/bench/rivals/bittorrent"
	"github.com/freshet/freshet/internal/lab"
	"github.com/freshet/freshet/internal/lab/cluster"
	"github.com/freshet/freshet/unit"
)

const (
	first, second      = "first", "second" // hosts, as the two that follow
	storeHost, hubHost = "store", "hub"
	buffer             = 512 * unit.KiB
	object             = "object"
	objectSeed         = 1
	runWithin          = 10 * time.Minute
	look               = 10 * time.Millisecond
)

// measure makes the runs that file does not have yet.
func measure(ctx context.Context, file, typed string, s settings) error {
	if err := bench.Sweep("freshet-cpu"); err != nil {
		return err
	}
	if _, err := cluster.Built(); err != nil { // once, and in nobody's time
		return err
	}
	var names []string
	for _, y := range systems {
		if s.systems != "" && !slices.Contains(strings.Split(s.systems, ","), y.name) {
			continue
		}
		if err := bench.Missing(y.programs); err != nil {
			fmt.Printf("%s is left out: %v\n", y.name, err)
			continue
		}
		names = append(names, y.name)
	}
	if len(names) == 0 {
		return fmt.Errorf("--systems %q: nothing is left to be run; there are: %s", s.systems, strings.Join(order, ", "))
	}
	all := suite(s.cells(names))
	all.Case = run
	return all.Run(ctx, bench.Options{File: file, Command: typed, Log: os.Stdout})
}

// trial is a run: a network, a store with the object, and two nodes, all of them new and gone afterwards.
type trial struct {
	system
	size   unit.Bytes
	dir    string
	lab    *lab.Lab
	all    *cluster.Cluster
	groups map[string]*bench.Group // by node
	url    string                  // of the object, as S3 has it

	running sync.WaitGroup
	ended   chan error // of processes that ended badly
	closers []func() error
	tracker bittorrent.Tracker
}

func run(ctx context.Context, c *bench.Cell) (_ map[string]float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, runWithin)
	defer cancel()
	i := slices.IndexFunc(systems, func(s system) bool { return s.name == c.Algorithm })
	if i < 0 {
		return nil, fmt.Errorf("there is no system %q", c.Algorithm)
	}
	t := &trial{system: systems[i], groups: map[string]*bench.Group{}, ended: make(chan error, 16)}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.build(ctx, c.Params); err != nil {
		return nil, err
	}
	c.Note("version", t.version(ctx))
	c.Note("tuning", t.tuning)
	if t.prepare != nil {
		if err := t.prepare(ctx, t); err != nil {
			return nil, fmt.Errorf("before the start: %w", err)
		}
	}
	ballast, err := bench.NewBallast(2 * t.size)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ballast.Close()) }()
	if t.agents != nil { // Freshet's files have their blocks before their bytes come
		if err := ballast.Release(); err != nil {
			return nil, err
		}
	}
	from, err := t.cpu()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	var took time.Duration
	if err := c.Measure(func() error {
		err := t.run(ctx, t)
		took = time.Since(began)
		return err
	}); err != nil {
		return nil, err
	}
	to, err := t.cpu()
	if err != nil {
		return nil, err
	}
	if err := t.verify(); err != nil {
		return nil, err
	}
	gb := float64(t.size) / 1e9
	return map[string]float64{
		"first_cpu_per_gb":  (to[first] - from[first]).Seconds() / gb,
		"second_cpu_per_gb": (to[second] - from[second]).Seconds() / gb,
		"seconds":           took.Seconds(),
	}, nil
}

// build makes network, store and object, and the agents if the system is Freshet.
func (t *trial) build(ctx context.Context, p bench.Params) (err error) {
	mbit, err := p.Float("mbit")
	if err != nil {
		return err
	}
	mib, err := p.Int("mib")
	if err != nil {
		return err
	}
	t.size = unit.Bytes(mib) * unit.MiB
	if t.dir, err = os.MkdirTemp(bench.Memory, fmt.Sprintf("freshet-cpu-%d-", os.Getpid())); err != nil {
		return err
	}
	link := lab.Link{Rate: unit.Bandwidth(mbit) * unit.Mbit}
	if mbit > 0 {
		link.Buffer = buffer
	}
	spec := lab.Star([]string{first, second}, link)
	spec.Attach("sw", storeHost, hubHost)
	if t.lab, err = lab.Up(spec); err != nil {
		return err
	}
	for _, node := range []string{first, second} {
		if t.groups[node], err = bench.NewGroup(filepath.Base(t.dir) + "-" + node); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(t.path(node)), 0o755); err != nil {
			return err
		}
	}
	config := cluster.Config{Lab: t.lab, Hub: hubHost, Store: storeHost, Dir: t.dir, Launch: t.launch, AgentArgs: t.agents}
	if t.agents != nil {
		config.Nodes = []string{first, second}
	}
	if t.all, err = cluster.Start(ctx, config); err != nil {
		return err
	}
	if t.url, err = t.all.Put(object, t.size, objectSeed); err != nil {
		return err
	}
	if t.agents != nil {
		return nil
	}
	return t.all.OpenToAll(ctx)
}

// launch starts a process in a host, in its group if that is a node. The second node has keys that the store does not know.
func (t *trial) launch(host string, cmd *exec.Cmd) error {
	if g := t.groups[host]; g != nil {
		g.Adopt(cmd)
	}
	if host == second {
		cmd.Env = append(slices.Clone(cmd.Env), "AWS_ACCESS_KEY_ID=nobody")
	}
	return t.lab.Start(host, cmd)
}

// path is where a node's file is to stand; mark what it makes when that is complete and synced.
func (t *trial) path(node string) string { return filepath.Join(t.dir, node, "data", object) }
func (t *trial) mark(node string) string { return filepath.Join(t.dir, node, "done") }

// web is where the store gives the object to everybody.
func (t *trial) web() string { return t.all.Endpoint() + "/b/" + object }

// start starts a program on a host. That it ends with another status than 0 is a failure.
func (t *trial) start(host string, argv ...string) error {
	path, err := bench.Program(argv[0])
	if err != nil {
		return err
	}
	log, err := os.CreateTemp(filepath.Join(t.dir, "log"), host+"-")
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(path, argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.dir, log, log
	cmd.Env = []string{"PATH=" + bench.Home, "HOME=" + t.dir, "TMPDIR=" + t.dir, "LANG=C.UTF-8"}
	if err := t.launch(host, cmd); err != nil {
		return err
	}
	t.running.Go(func() { // close kills all, and waits
		if err := cmd.Wait(); err != nil {
			said, _ := os.ReadFile(log.Name())
			select {
			case t.ended <- fmt.Errorf("%s: %s: %w: %.400s", host, strings.Join(argv, " "), err, said):
			default: // so many have failed that one more says nothing
			}
		}
	})
	return nil
}

// shell starts a script of bash on a host, which ends with the first command that fails.
func (t *trial) shell(host, script string) error {
	return t.start(host, "bash", "-euo", "pipefail", "-c", script)
}

// await returns when something is so, or a process has failed.
func (t *trial) await(ctx context.Context, what string, so func() bool) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for !so() {
		select {
		case err := <-t.ended:
			return err
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// through waits for a node's mark.
func (t *trial) through(ctx context.Context, node string) error {
	return t.await(ctx, "wait for the "+node+" node's file", func() bool {
		_, err := os.Stat(t.mark(node))
		return err == nil
	})
}

// cpu is what the nodes' processes have used.
func (t *trial) cpu() (map[string]time.Duration, error) {
	used := map[string]time.Duration{}
	for node, g := range t.groups {
		d, err := g.CPU()
		if err != nil {
			return nil, err
		}
		used[node] = d
	}
	return used, nil
}

// verify compares both nodes' files with the object.
func (t *trial) verify() error {
	want, err := cluster.Digest(cluster.Bytes(t.size, objectSeed))
	if err != nil {
		return err
	}
	for _, node := range []string{first, second} {
		f, err := os.Open(t.path(node))
		if err != nil {
			return fmt.Errorf("the %s node said that it was through: %w", node, err)
		}
		got, err := cluster.Digest(f)
		f.Close()
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("the %s node's file is not what the store has: SHA-256 %.16s…, want %.16s…", node, got, want)
		}
	}
	return nil
}

// close ends all that the trial started, and removes what it made.
func (t *trial) close() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, g := range t.groups {
		if g != nil {
			err = errors.Join(err, g.Kill(ctx))
		}
	}
	if t.all != nil {
		err = errors.Join(err, t.all.Close())
	}
	if t.lab != nil {
		err = errors.Join(err, t.lab.Kill(storeHost), t.lab.Kill(hubHost))
	}
	for _, end := range t.closers {
		err = errors.Join(err, end())
	}
	t.running.Wait()
	if t.lab != nil {
		err = errors.Join(err, t.lab.Close())
	}
	for _, g := range t.groups {
		if g != nil {
			err = errors.Join(err, g.Remove())
		}
	}
	if t.dir != "" {
		err = errors.Join(err, os.RemoveAll(t.dir))
	}
	return err
}
