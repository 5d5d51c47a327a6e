package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/bench/rivals/bittorrent"
	"github.com/freshet/freshet/bench/trial"
	"github.com/freshet/freshet/internal/lab"
	"github.com/freshet/freshet/internal/lab/cluster"
	"github.com/freshet/freshet/unit"
)

const (
	trials        = "freshet-cpu"     // what their directories and control groups begin with
	first, second = "first", "second" // hosts
	object        = "object"
	runWithin     = 10 * time.Minute
)

// measure makes the runs that file does not have yet.
func measure(ctx context.Context, file, typed string, s settings) error {
	if err := trial.Sweep(ctx, trials); err != nil {
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

// pair is a run with its two nodes, each in a control group of its own.
type pair struct {
	*trial.Trial
	system
	size    unit.Bytes
	tracker bittorrent.Tracker
}

// build makes network, store and object, and the agents if the system is Freshet. The second node has keys that the store does not know.
func build(ctx context.Context, y system, p bench.Params) (*pair, error) {
	mbit, err := p.Float("mbit")
	if err != nil {
		return nil, err
	}
	mib, err := p.Int("mib")
	if err != nil {
		return nil, err
	}
	link := lab.Link{Rate: unit.Bandwidth(mbit) * unit.Mbit}
	if mbit > 0 {
		link.Buffer = trial.Buffer
	}
	nodes := []string{first, second}
	network := lab.Star(nodes, link)
	network.Attach("sw", trial.Store, trial.Hub)
	t := &pair{system: y, size: unit.Bytes(mib) * unit.MiB}
	t.Trial, err = trial.New(ctx, trial.Config{
		Name: trials, Network: network, Nodes: nodes, Objects: []string{object}, Each: t.size,
		Public: y.agents == nil, Agents: y.agents, Env: map[string][]string{second: {"AWS_ACCESS_KEY_ID=nobody"}},
		Group: func(host string) string {
			if slices.Contains(nodes, host) {
				return host
			}
			return "others"
		},
	})
	return t, err
}

func run(ctx context.Context, c *bench.Cell) (_ map[string]float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, runWithin)
	defer cancel()
	i := slices.IndexFunc(systems, func(s system) bool { return s.name == c.Algorithm })
	if i < 0 {
		return nil, fmt.Errorf("there is no system %q", c.Algorithm)
	}
	t, err := build(ctx, systems[i], c.Params)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	c.Note("version", t.version(ctx))
	c.Note("tuning", t.tuning)
	if t.prepare != nil {
		if err := t.prepare(ctx, t); err != nil {
			return nil, fmt.Errorf("before the start: %w", err)
		}
	}
	if err := t.Ballast(); err != nil {
		return nil, err
	}
	from, err := t.CPU()
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
	to, err := t.CPU()
	if err != nil {
		return nil, err
	}
	if err := t.Verify(); err != nil {
		return nil, err
	}
	gb := float64(t.size) / 1e9
	return map[string]float64{
		"first_cpu_per_gb":  (to[first] - from[first]).Seconds() / gb,
		"second_cpu_per_gb": (to[second] - from[second]).Seconds() / gb,
		"seconds":           took.Seconds(),
	}, nil
}

// path is where a node's file is to stand.
func (t *pair) path(node string) string { return t.File(node, object) }

// through waits for a node's mark.
func (t *pair) through(ctx context.Context, node string) error {
	err := t.Await(ctx, func() bool {
		_, err := os.Stat(t.Mark(node))
		return err == nil
	})
	if err != nil {
		return fmt.Errorf("wait for the %s node's file: %w", node, err)
	}
	return nil
}
