// Command broadcast repeats the experiment of Chiba, Kielmann, den Burger and
// Matsuoka, "Dynamic Optimization for Large Data Broadcast on Clouds" (IPSJ
// Trans. ACS, 2010, section 5), in a laboratory of networks on this machine: an
// object leaves a store and arrives on N nodes by three algorithms.
//
//	            ┌────┐ unlimited
//	store ══════╡    ╞══════ hub
//	            │ sw │ 100 Mbit/s × scale each way, each node its own
//	   n01 ─────┤    ├───── n02 … nN
//	            └────┘
//
// Three caps are told apart. Per connection: what the store gives one
// connection is drawn when it is opened, as the paper found it. Per client: a
// node gets from the store what its connection or its own link gives, whichever
// is less. Total: the store itself has no limit, as the paper's had none.
//
//	go run ./bench/broadcast [run|report] [flags]
//
// Without a word it runs what is missing in results.jsonl and makes the report;
// "report" makes the report alone, from that file. It needs root, for the laboratory,
// and iperf3, which checks each run's links.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/internal/lab"
	"github.com/freshet/freshet/objstore/limit"
	"github.com/freshet/freshet/unit"
)

// defaultScale is what two processors can do: at 0.8 and 32 nodes they were 93
// to 95 % busy, and such a run tells of the machine.
const defaultScale = 0.6

// algorithms in the order of the report, the one that others are held against first.
var algorithms = []string{"flat", "non-steal", "steal"}

func main() { bench.Main("broadcast", command) }

func command(ctx context.Context, args []string) error {
	typed, run, args := bench.Words("broadcast", args)
	f := bench.Flags("broadcast", bench.RunOrReport, `broadcast repeats the experiment of Chiba, Kielmann, den Burger and Matsuoka (2010): an
object leaves a store and arrives on N nodes by three algorithms, in a laboratory of networks
on this machine. It needs root, and iperf3, which checks each run's links.`)
	nodes := f.String("nodes", "4,8,16,32", "`numbers` of nodes, with commas")
	seeds := f.Int("seeds", 10, "runs of each cell; the seeds are 1, 2, …")
	size := 256 * unit.MiB
	f.Func("size", "`size` of the object (default 256MiB)", func(s string) error { return size.Set(s) })
	scale := f.Float64("scale", defaultScale, "factor on all rates, the links' and the store's; 0.8 at 32 nodes takes more than two processors")
	out := f.String("out", "bench/broadcast", "`directory` of the results and the report")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%q: want run or report, and then flags", f.Arg(0))
	}
	if *seeds < 1 || !(*scale > 0) || size < 1 {
		return fmt.Errorf("--seeds %d, --scale %g, --size %v: want all above zero", *seeds, *scale, size)
	}
	file := filepath.Join(*out, "results.jsonl")
	if run {
		counts, err := parseCounts(*nodes)
		if err != nil {
			return err
		}
		e := &experiment{size: size, scale: *scale}
		s := suite(cells(counts, *seeds, size, *scale))
		s.Case = e.run
		fmt.Printf("rates are the paper's × %g: of store connections %s; a link %v of payload each way\n", *scale, limit.Paper.Scaled(*scale).Words(), lab.Payload(linkRate(*scale)))
		err = s.Run(ctx, bench.Options{File: file, Command: typed, Log: os.Stdout})
		if e := e.close(); err == nil {
			err = e
		}
		if err != nil {
			return err
		}
	}
	return write(file, *out)
}

// parseCounts reads "4,8,16".
func parseCounts(s string) (out []int, err error) {
	for part := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 2 || n > 64 || slices.Contains(out, n) {
			return nil, fmt.Errorf("--nodes %q: want numbers from 2 to 64, each once, with commas between them", s)
		}
		out = append(out, n)
	}
	return out, nil
}

// cells are all runs: of each seed all numbers of nodes, of each of these all
// algorithms, beginning with another one for each seed.
func cells(counts []int, seeds int, size unit.Bytes, scale float64) (out []bench.Cell) {
	for seed := range seeds {
		for _, n := range counts {
			for i := range algorithms {
				out = append(out, bench.Cell{
					Params:    bench.Params{"nodes": strconv.Itoa(n), "size": size.String(), "scale": strconv.FormatFloat(scale, 'g', -1, 64)},
					Algorithm: algorithms[(seed+i)%len(algorithms)],
					Seed:      uint64(seed + 1),
				})
			}
		}
	}
	return out
}

// suite is the experiment with what it must show. Its cells may be results that
// are there already.
func suite(cells []bench.Cell) bench.Suite {
	s := bench.Suite{Name: "broadcast", Cells: cells, Columns: []bench.Column{
		{Number: "makespan_s", Title: "makespan (s)", Digits: 1},
		{Number: "ratio", Title: "over the bound", Digits: 2},
		{Number: "mean_s", Title: "mean (s)", Digits: 1},
		{Number: "fastest_s", Title: "fastest (s)", Digits: 1},
		{Number: "slowest_s", Title: "slowest (s)", Digits: 1},
		{Number: "spread_s", Title: "spread (s)", Digits: 2},
		{Number: "phase1_s", Title: "phase 1 (s)", Digits: 1},
		{Number: "phase2_s", Title: "phase 2 (s)", Digits: 1},
		{Number: "phase1_mbps", Title: "phase 1 (MB/s a node)", Digits: 1},
		{Number: "phase2_mbps", Title: "phase 2 (MB/s a node)", Digits: 1},
		{Number: "store_multiple", Title: "from the store, as nodes count (objects)", Digits: 3},
		{Number: "store_sent_multiple", Title: "sent, by the store's count (objects)", Digits: 4},
	}}
	for _, n := range []string{"16", "32"} {
		for _, c := range []struct {
			algorithm string
			least     float64
		}{{"non-steal", 1.5}, {"steal", 1.6}} {
			s.Claims = append(s.Claims, bench.Claim{
				Name:   fmt.Sprintf("mean completion at %s nodes: flat's over %s's", n, c.algorithm),
				Number: func(e *bench.Evidence) float64 { return e.Ratio("mean_s", at("flat", n), at(c.algorithm, n)).Median },
				Wanted: bench.AtLeast(c.least),
			})
		}
	}
	for _, n := range []string{"4", "8", "16", "32"} {
		s.Claims = append(s.Claims, bench.Claim{
			Name:   fmt.Sprintf("spread between fastest and slowest at %s nodes: steal's over flat's", n),
			Number: func(e *bench.Evidence) float64 { return e.Ratio("spread_s", at("steal", n), at("flat", n)).Median },
			Wanted: bench.Below(1),
		})
	}
	for _, n := range []string{"4", "8", "16", "32"} {
		s.Claims = append(s.Claims, bench.Claim{
			Name:   fmt.Sprintf("bytes sent by the store with steal at %s nodes, by its own count, the most of any run, in objects", n),
			Number: func(e *bench.Evidence) float64 { return e.Span(at("steal", n), "store_sent_multiple").Max },
			Wanted: bench.AtMost(1.02),
		})
	}
	return s
}

func at(algorithm, nodes string) bench.Point {
	return bench.Point{Algorithm: algorithm, Params: bench.Params{"nodes": nodes}}
}
