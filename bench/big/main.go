// Command big sees that an agent's memory does not grow with the object: it
// broadcasts objects of growing size to 8 agents, processes of this machine
// with their files on its disk, and compares the peaks of their resident memory.
//
//	go run ./bench/big [run|report] [--sizes 1GiB,4GiB] [--nodes 8] [--runs 5] [--dir DIR]
//
// Each run has a store, a control plane and agents of its own. Without a word
// it makes the runs that are missing in bench/big/results.jsonl and then
// README.md beside it; "report" makes the latter alone. It exits with 1 if a peak is
// over 200 MiB, or that of the largest object more than 10 % above that of
// the smallest one. Nothing but the results stays behind.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"golang.org/x/sys/unix"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/unit"
)

// What must hold.
const (
	mostMemory = 200 * unit.MiB
	mostGrowth = 1.10
)

const algorithm = "steal"

func main() { bench.Main("big", command) }

func command(ctx context.Context, args []string) error {
	typed, run, args := bench.Words("big", args)
	f := bench.Flags("big", bench.RunOrReport, `big sees that an agent's memory does not grow with the object: it broadcasts objects of growing
size to agents on this machine, and compares the peaks of their resident memory. It exits with 1
if one is over 200 MiB, or grows with the object by more than 10 %.`)
	sizeList := f.String("sizes", "1GiB,4GiB", "`sizes` of the objects, growing, with commas")
	nodes := f.Int("nodes", 8, "number of agents")
	runs := f.Int("runs", bench.Enough, "runs of each size")
	place := f.String("dir", os.TempDir(), "`directory` for the files, on a disk with room for them")
	out := f.String("out", "bench/big", "`directory` of the results and the report")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 || *nodes < 2 || *runs < 1 {
		return fmt.Errorf("%q, --nodes %d, --runs %d: want run or report, and then flags; at least 2 nodes, and 1 run", f.Args(), *nodes, *runs)
	}
	sizes, err := parseSizes(*sizeList)
	if err != nil {
		return err
	}
	if run {
		if err := measure(ctx, typed, sizes, *nodes, *runs, *place, *out); err != nil {
			return err
		}
	}
	return write(*out)
}

// measure makes the runs that are missing in out.
func measure(ctx context.Context, typed string, sizes []unit.Bytes, nodes, runs int, place, out string) error {
	if err := bench.Sweep(place, "freshet-big"); err != nil {
		return err
	}
	free, err := freeSpace(place)
	if err != nil {
		return err
	}
	// The store's copy, one a node, and a ninth of that to spare: 40 GiB for 4 GiB on 8 nodes.
	if need := sizes[len(sizes)-1] * unit.Bytes(nodes+1) * 10 / 9; free < need {
		return fmt.Errorf("%s has %v free and %v are needed; name a directory with more by --dir", place, free, need)
	}
	dir, err := os.MkdirTemp(place, fmt.Sprintf("freshet-big-%d-", os.Getpid()))
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := suite(sizes, strconv.Itoa(nodes))
	s.Cells = cells(sizes, nodes, runs)
	s.Case = func(ctx context.Context, c *bench.Cell) (map[string]float64, error) {
		return broadcast(ctx, filepath.Join(dir, "run"), c)
	}
	fmt.Printf("%d agents, objects of %v, %d runs of each, files in %s\n", nodes, sizes, runs, place)
	return s.Run(ctx, bench.Options{File: results(out), Command: typed, Log: os.Stdout})
}

func results(out string) string { return filepath.Join(out, "results.jsonl") }

// cells are all runs: of each seed all sizes.
func cells(sizes []unit.Bytes, nodes, runs int) (all []bench.Cell) {
	for seed := range runs {
		for _, size := range sizes {
			p := at(size, strconv.Itoa(nodes))
			all = append(all, bench.Cell{Params: p.Params, Algorithm: p.Algorithm, Seed: uint64(seed + 1)})
		}
	}
	return all
}

func at(size unit.Bytes, nodes string) bench.Point {
	return bench.Point{Algorithm: algorithm, Params: bench.Params{"size": size.String(), "nodes": nodes}}
}

// suite is what objects of these sizes, the smallest first, must show.
func suite(sizes []unit.Bytes, nodes string) bench.Suite {
	s := bench.Suite{Name: "big", Columns: []bench.Column{
		{Number: "most_mib", Title: "peak memory of an agent: most (MiB)", Digits: 1},
		{Number: "median_mib", Title: "median (MiB)", Digits: 1},
		{Number: "least_mib", Title: "least (MiB)", Digits: 1},
		{Number: "makespan_s", Title: "makespan (s)", Digits: 1},
		{Number: "store_multiple", Title: "from the store (objects)", Digits: 3},
	}}
	for _, size := range sizes {
		p := at(size, nodes)
		s.Cells = append(s.Cells, bench.Cell{Params: p.Params, Algorithm: p.Algorithm}) // the table's order
	}
	s.Claims = []bench.Claim{{
		Name: "peak memory of an agent, the most of any run, in MiB",
		Number: func(e *bench.Evidence) (most float64) {
			for _, size := range sizes {
				most = max(most, e.Span(at(size, nodes), "most_mib").Max)
			}
			return most
		},
		Wanted: bench.Below(float64(mostMemory / unit.MiB)),
		Busy:   true,
	}}
	if first, last := sizes[0], sizes[len(sizes)-1]; first != last {
		s.Claims = append(s.Claims, bench.Claim{
			Name:   fmt.Sprintf("the same with %v over that with %v, seed by seed, the median", last, first),
			Number: func(e *bench.Evidence) float64 { return e.Ratio("most_mib", at(last, nodes), at(first, nodes)).Median },
			Wanted: bench.AtMost(mostGrowth),
			Busy:   true,
		})
	}
	return s
}

func parseSizes(list string) (sizes []unit.Bytes, err error) {
	for part := range strings.SplitSeq(list, ",") {
		n, err := unit.ParseBytes(part)
		if err != nil || n == 0 || len(sizes) > 0 && n <= sizes[len(sizes)-1] {
			return nil, fmt.Errorf("--sizes %q: want sizes such as 1GiB,4GiB, each larger than the one before", list)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}

func freeSpace(dir string) (unit.Bytes, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return unit.Bytes(uint64(s.Bavail) * uint64(s.Bsize)), nil
}

// write makes README.md from the results alone, and says which claim is missed.
func write(out string) error {
	rs, err := bench.ReadAny(results(out))
	if err != nil {
		return err
	}
	// What is compared has one number of nodes: that of the last run.
	nodes := rs[len(rs)-1].Params["nodes"]
	rs = slices.DeleteFunc(rs, func(r bench.Result) bool { return r.Params["nodes"] != nodes })
	var sizes []unit.Bytes
	for _, r := range rs {
		size, err := unit.ParseBytes(r.Params["size"])
		if err != nil {
			return fmt.Errorf("%s: size %q: %w", results(out), r.Params["size"], err)
		}
		if !slices.Contains(sizes, size) {
			sizes = append(sizes, size)
		}
	}
	slices.SortFunc(sizes, cmp.Compare[unit.Bytes])
	s := suite(sizes, nodes)
	if err := s.Publish(out, rs, page, map[string]any{"Nodes": nodes, "Table": s.Table(rs, "size")}); err != nil {
		return err
	}
	return s.Missed(rs)
}

var page = template.Must(template.New("README.md").Parse(`# The memory of an agent, with large objects

*Made by ` + "`go run ./bench/big report`" + ` from [results.jsonl](results.jsonl); do not edit.*

Objects leave a store and arrive on {{.Nodes}} agents, processes of one machine with their files on its disk. Peak memory is the most that an
agent had resident at any time, as Linux counts it.

## Claims

{{.Claims}}
A verdict takes at least {{.Enough}} runs of each size. How busy the processors were does not matter here.

## All numbers

Medians over the runs (least–most). † In all runs of this size the processors were busy for more than 85 % of the time.

{{.Table}}
## How it was made

{{.Made}}`))
