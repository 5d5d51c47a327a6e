package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/internal/lab/cluster"
	"github.com/freshet/freshet/unit"
)

// within is for all of one size: 4 GiB to 8 nodes on a slow disk.
const within = time.Hour

// broadcast brings an object of the cell's size to fresh agents, and returns
// what it took. All files are below dir, and gone afterwards.
func broadcast(ctx context.Context, dir string, c *bench.Cell) (_ map[string]float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	size, err := unit.ParseBytes(c.Params["size"])
	if err != nil {
		return nil, err
	}
	n, err := c.Params.Int("nodes")
	if err != nil {
		return nil, err
	}
	var nodes []string
	for i := range n {
		nodes = append(nodes, fmt.Sprintf("n%d", i+1))
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	all, err := cluster.Start(ctx, cluster.Config{Hub: "hub", Store: "store", Nodes: nodes, Dir: dir})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	if err := object(ctx, filepath.Join(dir, "s3", "b", "object"), size, c.Seed); err != nil {
		return nil, err
	}
	var r cluster.Result
	if err := c.Measure(func() (err error) {
		r, err = all.Broadcast(ctx, "s3://b/object", all.Dest("{node}", "object"), "--algorithm", c.Algorithm)
		return err
	}); err != nil {
		return nil, err
	}
	if r.State != "done" {
		return nil, fmt.Errorf("the job is %s: %s", r.State, r.Error)
	}
	var peaks []float64
	for _, node := range nodes {
		peak, err := all.Node(node).PeakMemory()
		if err != nil {
			return nil, err
		}
		peaks = append(peaks, float64(peak)/float64(unit.MiB))
	}
	span := bench.SpanOf(peaks)
	return map[string]float64{
		"makespan_s": r.MakespanS, "store_multiple": float64(r.StoreBytes) / float64(size),
		"least_mib": span.Min, "median_mib": span.Median, "most_mib": span.Max,
	}, nil
}

// object makes a file of bytes that depend on seed alone.
func object(ctx context.Context, path string, size unit.Bytes, seed uint64) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	from := cluster.Bytes(size, seed)
	for err == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		_, err = io.CopyN(f, from, int64(64*unit.MiB))
	}
	if err == io.EOF { // all of it is there
		return nil
	}
	return err
}
