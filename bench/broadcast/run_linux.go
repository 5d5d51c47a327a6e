package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/internal/lab"
	"github.com/freshet/freshet/internal/lab/cluster"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

const (
	storeHost, hubHost = "store", "hub"
	objectSeed         = 1
	runWithin          = 15 * time.Minute
)

// experiment runs cells, and keeps the network and the cluster of one while
// the number of nodes stays the same.
type experiment struct {
	size  unit.Bytes
	scale float64

	nodes []string // of what stands; none: nothing does
	dir   string
	lab   *lab.Lab
	all   *cluster.Cluster
	url   string
}

func (e *experiment) run(ctx context.Context, c *bench.Cell) (_ map[string]float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, runWithin)
	defer cancel()
	n, err := c.Params.Int("nodes")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil { // the next run begins with nothing of this one
			err = errors.Join(err, e.close())
		}
	}()
	if n != len(e.nodes) {
		if err := errors.Join(e.close(), e.build(ctx, n)); err != nil {
			return nil, err
		}
	}
	iperf, err := e.lab.Iperf(ctx, e.nodes[0], e.nodes[len(e.nodes)-1])
	if err != nil {
		return nil, err
	}
	// The store anew: its connections are, and draw their rates from the seed.
	if _, err := e.all.Reseed(ctx, c.Seed); err != nil {
		return nil, err
	}
	// The last run's files go right before this one begins, so that its pages
	// are the same ones: pages that a virtual machine gave back to its host
	// cost four times as much.
	for _, node := range e.nodes {
		if err := os.Remove(e.all.Dest(node, "object")); err != nil {
			return nil, err
		}
	}
	recording := filepath.Join(e.dir, "recording.jsonl")
	var r cluster.Result
	if err := c.Measure(func() (err error) {
		r, err = e.all.Broadcast(ctx, e.url, e.all.Dest("{node}", "object"), "--algorithm", c.Algorithm, "--record", recording, "--timeout", (runWithin - time.Minute).String())
		return err
	}); err != nil {
		return nil, err
	}
	if r.State != "done" || r.Verified != "source" {
		return nil, fmt.Errorf("the job is %s, verified by %q: %s", r.State, r.Verified, r.Error)
	}
	connections, err := e.all.Reseed(ctx, c.Seed)
	if err != nil {
		return nil, err
	}
	numbers, err := e.judge(r, connections)
	if err != nil {
		return nil, err
	}
	events, err := os.ReadFile(recording)
	if err != nil {
		return nil, err
	}
	if err := split(bytes.NewReader(events), e.nodes, numbers); err != nil {
		return nil, err
	}
	numbers["iperf3_mbps"] = float64(iperf) / 1e6
	return numbers, nil
}

// build makes network, cluster and object for n nodes.
func (e *experiment) build(ctx context.Context, n int) (err error) {
	if err := bench.Sweep(bench.Memory, "freshet-bench"); err != nil {
		return err
	}
	e.dir = filepath.Join(bench.Memory, fmt.Sprintf("freshet-bench-%d", os.Getpid()))
	if err := os.Mkdir(e.dir, 0o755); err != nil {
		return err
	}
	e.nodes = nil
	for i := range n {
		e.nodes = append(e.nodes, fmt.Sprintf("n%02d", i+1))
	}
	spec := lab.Star(e.nodes, lab.Link{Rate: linkRate(e.scale), Buffer: buffer})
	spec.Attach("sw", storeHost, hubHost)
	if e.lab, err = lab.Up(spec); err != nil {
		return err
	}
	e.all, err = cluster.Start(ctx, cluster.Config{
		Lab: e.lab, Hub: hubHost, Store: storeHost, Nodes: e.nodes, Dir: filepath.Join(e.dir, "cluster"),
		StoreArgs: []string{"--rate-per-connection", fmt.Sprintf("paper*%g", e.scale)},
	})
	if err != nil {
		return err
	}
	if e.url, err = e.all.Put("object", e.size, objectSeed); err != nil {
		return err
	}
	for _, node := range e.nodes { // the first run, too, finds files to remove
		if err := allocate(e.all.Dest(node, "object"), e.size); err != nil {
			return err
		}
	}
	return nil
}

// allocate makes a file of that size, its pages included.
func allocate(path string, size unit.Bytes) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return unix.Fallocate(int(f.Fd()), 0, 0, int64(size))
}

// close removes all that build made.
func (e *experiment) close() (err error) {
	if e.all != nil {
		err = e.all.Close()
	}
	if e.lab != nil {
		err = errors.Join(err, e.lab.Close())
	}
	if e.dir != "" {
		err = errors.Join(err, os.RemoveAll(e.dir))
	}
	*e = experiment{size: e.size, scale: e.scale}
	return err
}

// judge makes the job's numbers, and holds it against its bound: that of the
// rates that were set, not of what was reached.
func (e *experiment) judge(r cluster.Result, connections []cluster.Connection) (map[string]float64, error) {
	mean := 0.0
	for _, n := range r.Nodes {
		if n.DoneS == nil {
			return nil, fmt.Errorf("node %s did not say when it was done", n.Name)
		}
		mean += *n.DoneS / float64(len(r.Nodes))
	}
	link := lab.Payload(linkRate(e.scale))
	var rates steal.Rates
	var sum, sent float64
	for _, node := range e.nodes {
		busiest := cluster.Connection{}
		for _, c := range connections {
			host, _, err := net.SplitHostPort(c.Remote)
			if err != nil {
				return nil, fmt.Errorf("a connection of the store: %w", err)
			}
			if host != e.lab.Addr(node).String() {
				continue
			}
			sent += float64(c.Bytes)
			if c.Bytes > busiest.Bytes {
				busiest = c
			}
		}
		if busiest.Rate <= 0 {
			return nil, fmt.Errorf("the store had no connection of node %s with a rate", node)
		}
		rates.Down, rates.Up = append(rates.Down, link), append(rates.Up, link)
		rates.Store = append(rates.Store, min(link, busiest.Rate))
		sum += float64(min(link, busiest.Rate))
	}
	bound, _ := steal.Bound(unit.Bytes(r.Bytes), len(e.nodes), rates)
	return map[string]float64{
		"makespan_s": r.MakespanS, "mean_s": mean, "fastest_s": r.FastestS, "slowest_s": r.SlowestS, "spread_s": r.SlowestS - r.FastestS,
		"bound_s": bound, "ratio": r.MakespanS / bound,
		"store_multiple":      float64(r.StoreBytes) / float64(r.Bytes),
		"store_sent_multiple": sent / float64(r.Bytes), // by the store's own count, headers included
		"store_rates_mbps":    sum / 1e6,               // of the connections that carried the object
		"link_mbps":           float64(link) / 1e6,     // payload
	}, nil
}
