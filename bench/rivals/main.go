// Command rivals runs Freshet beside other ways of bringing a large object from
// a store to all nodes of a cluster: in a laboratory of networks on this
// machine, on the same links, everyone starting from the store and ending with
// files that are compared with the object.
//
//	             ┌────┐ unlimited
//	store ═══════╡    ╞══════ hub: control plane, tracker
//	  a node gets│ sw │ the same each way, each node its own
//	  so much n01┤    ├n02 … nN
//	             └────┘
//
//	go run ./bench/rivals [run|report] [flags]
//
// Without a word it runs what is missing in results.jsonl and makes the report;
// "report" makes the report alone, from that file. It needs root, for the
// laboratory, and what scripts/rivals installs; a rival that is not installed is
// left out, and one that fails or hangs is a result.
//
// What is alike for all. Each run has a network, a store and directories of its
// own, and the store's rates are by node, however many connections somebody
// opens. The clock runs from the moment before the first command is started
// until the last node is through, which it is when its files are complete and
// synced (files lie in memory); daemons that are up in a cluster anyway are up
// before: Freshet's agents, BitTorrent's tracker, sessions of the tuned
// libtorrent. The making of a torrent is timed apart, where the object lies, and
// added. Processor time is what a control group counts of all processes of the
// system, of its first to its last one. What left the store is the store's own
// count.
//
// All systems are run once where the store is narrow, medium and wide; then
// ours and the three rivals that were fastest there, five times in all cells,
// interleaved; then the others once, but not on 32 nodes where the store is narrow.
package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/freshet/freshet/bench"
)

func main() { bench.Main("rivals", command) }

// settings are what is run.
type settings struct {
	scale
	kinds    []kind
	systems  string // names and patterns; empty: all, in the order that is told above
	seeds    int
	patience time.Duration
}

func command(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "enter" {
		return enter(args[1:])
	}
	typed, run, args := bench.Words("rivals", args)
	s := settings{scale: standard}
	f := bench.Flags("rivals", bench.RunOrReport, `rivals runs Freshet beside other ways of bringing an object from a store to all nodes of a
cluster, on the same links, in a laboratory of networks on this machine. It needs root, and
what scripts/rivals installs; a rival that is not installed is left out.`)
	f.IntVar(&s.nodes, "nodes", s.nodes, "number of nodes where a cell does not say it")
	f.Func("rate", "`rate` of all nodes' links together, each way (default 800Mbit)", func(v string) error { return s.rate.Set(v) })
	f.Func("size", "`size` of the copies of as many nodes together (default 3GiB)", func(v string) error { return s.size.Set(v) })
	f.BoolVar(&s.even, "even", false, "the store gives every node the same, instead of rates as uneven as the paper found them")
	cells := f.String("cells", "", "only these `cells`, with commas: "+kindNames()+" (default: all)")
	f.StringVar(&s.systems, "systems", "", "only these `systems`, each as often as --seeds says: names and patterns, with commas")
	f.IntVar(&s.seeds, "seeds", bench.Enough, "runs of ours and of the best rivals in each cell")
	f.DurationVar(&s.patience, "patience", 25*time.Minute, "`time` for one run, after which it has failed")
	out := f.String("out", "bench/rivals", "`directory` of the results and the report")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%q: want run or report, and then flags", f.Arg(0))
	}
	if s.seeds < 1 || s.nodes < 2 || s.nodes > 64 || !(s.rate > 0) || s.size < 1 {
		return fmt.Errorf("--seeds %d, --nodes %d, --rate %v, --size %v: want all above zero, and from 2 to 64 nodes", s.seeds, s.nodes, s.rate, s.size)
	}
	s.kinds = kinds
	if *cells != "" {
		s.kinds = nil
		for name := range strings.SplitSeq(*cells, ",") {
			k, err := kindOf(name)
			if err != nil {
				return err
			}
			s.kinds = append(s.kinds, k)
		}
	}
	file := filepath.Join(*out, "results.jsonl")
	var failed error
	if run {
		failed = measure(ctx, file, typed, s)
		if ctx.Err() != nil {
			return failed
		}
	}
	return errors.Join(failed, write(file, *out, s.scale)) // a rival that fails has its place in the report
}
