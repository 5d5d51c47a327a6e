// Command cpu measures what processor time it takes a node to have an object
// and to pass it on: received, checked, written, and given to one other node.
//
//	store ═══▶ first ═══▶ second
//
// The first node reads the object from the store, in plain HTTP, writes it to a
// file and gives one copy to the second one, which may not read the store. So the first
// node's processor time by GB is that of one that does all there is to do in a
// swarm; the second one's is that of receiving alone.
//
//	go run ./bench/cpu [run|report] [flags]
//
// Without a word it runs what is missing in results.jsonl and makes the report;
// "report" makes the latter alone, from that file. It needs root, for a laboratory of
// networks and for control groups, and what scripts/rivals installs; a program that is
// not installed is left out.
//
// Freshet with TLS and without stands beside curl, which checks nothing and has a
// web server on the first node give the file on when it is there, and beside BitTorrent clients. All
// are run on links at a rate that leaves processors idle, in packets as an Ethernet
// has them, and on links without a rate, where as much goes at a time as the processors can do.
package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/unit"
)

func main() { bench.Main("cpu", command) }

// settings are what is run.
type settings struct {
	size    unit.Bytes
	rates   []unit.Bandwidth // of the nodes' links; 0: none
	systems string           // names, with commas; empty: all
	seeds   int
}

func command(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "serve" {
		return serve(ctx, args[1:])
	}
	typed, run, args := bench.Words("cpu", args)
	s := settings{size: unit.GiB}
	f := bench.Flags("cpu", bench.RunOrReport, `cpu measures what processor time it takes a node to have an object and to pass it on to one
other, beside curl and BitTorrent clients. It needs root, and what scripts/rivals installs; a
program that is not installed is left out.`)
	f.Func("size", "`size` of the object (default 1GiB)", func(v string) error { return s.size.Set(v) })
	rates := f.String("rates", "400Mbit,0", "`rates` of the nodes' links, each way, with commas; 0: as fast as it goes")
	f.StringVar(&s.systems, "systems", "", "only these `systems`, with commas")
	f.IntVar(&s.seeds, "runs", bench.Enough, "runs of each system at each rate")
	out := f.String("out", "bench/cpu", "`directory` of the results and the report")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 || s.seeds < 1 || s.size < unit.MiB {
		return fmt.Errorf("%q, --runs %d, --size %v: want run or report, and then flags; at least 1 run and 1 MiB", f.Args(), s.seeds, s.size)
	}
	for text := range strings.SplitSeq(*rates, ",") {
		var r unit.Bandwidth
		if text != "0" {
			if err := r.Set(text); err != nil {
				return fmt.Errorf("--rates: %w", err)
			}
		}
		s.rates = append(s.rates, r)
	}
	file := filepath.Join(*out, "results.jsonl")
	var failed error
	if run {
		failed = measure(ctx, file, typed, s)
		if ctx.Err() != nil {
			return failed
		}
	}
	return errors.Join(failed, write(file, *out))
}

// Systems by name, in the order of the report.
const (
	withTLS    = "freshet tls"
	trusted    = "freshet trusted"
	curlTLS    = "curl, https"
	curlPlain  = "curl, http"
	libtorrent = "libtorrent tuned"
	aria       = "aria2"
)

var order = []string{withTLS, trusted, curlTLS, curlPlain, libtorrent, aria}

// cells are the runs of some systems.
func (s settings) cells(systems []string) (out []bench.Cell) {
	for seed := range s.seeds {
		for _, r := range s.rates {
			for i := range systems { // another one begins with each seed
				out = append(out, bench.Cell{Params: params(s.size, r), Algorithm: systems[(seed+i)%len(systems)], Seed: uint64(seed + 1)})
			}
		}
	}
	return out
}

func params(size unit.Bytes, rate unit.Bandwidth) bench.Params {
	return bench.Params{
		"mbit": strconv.FormatFloat(float64(rate)/float64(unit.Mbit), 'f', -1, 64), // 0: no rate
		"mib":  strconv.Itoa(int(size / unit.MiB)),
	}
}
