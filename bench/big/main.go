// Command big sees that an agent's memory does not grow with the object: it
// broadcasts objects of growing size to 8 agents, processes of this machine
// with their files on its disk, and compares the peaks of their resident memory.
//
//	go run ./bench/big [--sizes 1GiB,4GiB] [--nodes 8] [--dir DIR]
//
// Each size has a store, a control plane and agents of its own. Results are
// added to bench/big/results.jsonl. It exits with 1 if a peak is
// over 200 MiB, or that of the largest object more than 10 % above that of
// the smallest one. Nothing but the results stays behind.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"

	"golang.org/x/sys/unix"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/unit"
)

// What must hold.
const (
	mostMemory = 200 * unit.MiB
	mostGrowth = 1.10
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "big:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	typed := strings.Join(append([]string{"go run ./bench/big"}, args...), " ")
	f := flag.NewFlagSet("big", flag.ExitOnError)
	sizeList := f.String("sizes", "1GiB,4GiB", "sizes of the objects, growing")
	nodes := f.Int("nodes", 8, "number of agents")
	place := f.String("dir", os.TempDir(), "directory for the files, on a disk with room for them")
	out := f.String("out", "bench/big/results.jsonl", "file that results are added to")
	f.Parse(args)
	if f.NArg() > 0 || *nodes < 2 {
		return fmt.Errorf("%q, --nodes %d: want flags alone, and at least 2 nodes", f.Args(), *nodes)
	}
	sizes, err := parseSizes(*sizeList)
	if err != nil {
		return err
	}
	largest := sizes[len(sizes)-1]
	free, err := freeSpace(*place)
	if err != nil {
		return err
	}
	// The store's copy, one a node, and a ninth of that to spare: 40 GiB for 4 GiB on 8 nodes.
	if need := largest * unit.Bytes(*nodes+1) * 10 / 9; free < need {
		return fmt.Errorf("%s has %v free and %v are needed; name a directory with more by --dir", *place, free, need)
	}
	dir, err := os.MkdirTemp(*place, "freshet-big-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	exe, err := build(ctx, dir)
	if err != nil {
		return err
	}

	run := seedAfter(*out)
	var cells []bench.Cell
	for _, size := range sizes {
		cells = append(cells, bench.Cell{Params: bench.Params{"size": size.String(), "nodes": strconv.Itoa(*nodes)}, Algorithm: "steal", Seed: run})
	}
	s := bench.Suite{Name: "big", Cells: cells, Case: func(ctx context.Context, c *bench.Cell) (map[string]float64, error) {
		return broadcast(ctx, exe, filepath.Join(dir, "run"), c)
	}}
	fmt.Printf("%d agents, objects of %s, files in %s\n", *nodes, *sizeList, *place)
	if err := s.Run(ctx, bench.Options{File: *out, Command: typed, Log: os.Stdout}); err != nil {
		return err
	}
	return judge(*out, sizes, cells)
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

// seedAfter is a seed that the results do not have: each call is a run of its own.
func seedAfter(file string) (seed uint64) {
	rs, _ := bench.Read(file) // if it cannot be read, Run says so
	for _, r := range rs {
		seed = max(seed, r.Seed)
	}
	return seed + 1
}

// judge prints the runs just made, and says whether memory kept its bounds.
func judge(file string, sizes []unit.Bytes, cells []bench.Cell) error {
	rs, err := bench.Read(file)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nobject\tmakespan\tbytes from the store\tpeak memory of an agent: least\tmedian\tmost\t")
	var most []float64 // by size
	for i, c := range cells {
		for _, r := range bench.At(rs, bench.Point{Algorithm: c.Algorithm, Params: c.Params}) {
			if r.Seed != c.Seed || r.Error != "" {
				continue
			}
			n := r.Numbers
			fmt.Fprintf(w, "%v\t%.1f s\t%.3f ×\t%.1f MiB\t%.1f MiB\t%.1f MiB\t\n", sizes[i], n["makespan_s"], n["store_multiple"], n["least_mib"], n["median_mib"], n["most_mib"])
			most = append(most, n["most_mib"])
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return bounded(sizes, most)
}

// bounded says in what the peaks, in MiB by size, exceed what is allowed.
func bounded(sizes []unit.Bytes, most []float64) error {
	limit := float64(mostMemory) / float64(unit.MiB)
	for i, m := range most {
		if m >= limit {
			return fmt.Errorf("missed: with %v an agent's memory reached %.1f MiB, and %.0f are allowed", sizes[i], m, limit)
		}
	}
	first, last := most[0], most[len(most)-1]
	if last > first*mostGrowth {
		return fmt.Errorf("missed: with %v an agent's memory reached %.1f MiB, %.0f %% more than with %v; 10 %% are allowed", sizes[len(sizes)-1], last, 100*(last/first-1), sizes[0])
	}
	fmt.Printf("\nmet: under %.0f MiB, and with %v %+.0f %% of what %v took\n", limit, sizes[len(sizes)-1], 100*(last/first-1), sizes[0])
	return nil
}
