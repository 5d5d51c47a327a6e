// Command planner repeats the experiment of Takahashi, Taura and Chikayama, "A Data Transfer Scheduler Selecting
// Sources by Using Topology Information", section 6: many transfers at once on 400 hosts, planned in all
// ways that package planner has, on networks of several kinds. And it says how soon plans are there.
//
//	go run ./bench/planner [run|times|report] [--problems 10] [--networks intrigger,star,deep,skewed,fattree] [--most 100]
//
// There are 36 conditions: transfers from {5, 10, 50, 100}, sources and destinations of each from {5, 10, 50};
// problems of each condition, which are networks and transfers from a seed; the planners that draw by chance are averaged over
// 10 draws. Without a word it makes the runs that are missing in bench/planner/results.jsonl and then README.md and pictures beside
// it; "times" does the same with the runs that have a clock, and "report" makes the page alone. It exits with 1 if a claim is missed.
//
// It may be ended at any time, and called again: each problem is in the file as soon as it is solved, and is not solved again.
// All first problems come before all second ones. On one core all of them take about four hours, of which the fat tree takes two; with a clock it is
// twenty minutes.
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/internal/lp"
	"github.com/freshet/freshet/internal/lp/highs"
	"github.com/freshet/freshet/planner"
	"github.com/freshet/freshet/topo"
)

// networks are the kinds of topo.Shape, of 400 hosts, whose links have 100 Mbit to 1 Gbit.
var (
	trees    = []string{"intrigger", "star", "deep", "skewed"}
	networks = append(slices.Clone(trees), "fattree")
)

// The conditions.
var (
	transferCounts = []int{5, 10, 50, 100}
	hostCounts     = []int{5, 10, 50}
)

const (
	hosts = 400
	draws = 10  // of a planner that draws
	floor = 0.5 // the default of freshet plan
)

// patience is the processor time that optimal may take, and paper on a fat tree. What it has then counts, the problem is marked, and what takes longer still is left out: single,
// and optimal with a floor, which else has as much once more. On a fat tree they could take hours.
const patience = 30 * time.Second

// modes are the planners that are compared with flat, in the order of the tables.
var modes = []string{planner.Random, planner.Pipeline, planner.Paper, planner.Exact, planner.Single, planner.Optimal}

func main() { bench.Main("planner", command) }

func command(ctx context.Context, args []string) error {
	typed, run, args := bench.Words("planner", args)
	timed := len(args) > 0 && args[0] == "times"
	if timed {
		args = args[1:]
	}
	f := bench.Flags("planner", "[run|times|report]", `planner plans the 36 conditions of Takahashi, Taura and Chikayama, section 6, in all modes: many
transfers at once on networks of 400 hosts. It exits with 1 if a claim is missed.

  run     plan what results.jsonl does not have, and then make the report (also without a word)
  times   the same with the runs that have a clock: how soon plans are there, up to 100,000 hosts
  report  make README.md and pictures from results.jsonl, and plan nothing`)
	problems := f.Int("problems", 10, fmt.Sprintf("problems of each condition; on a fat tree, and with a clock, %d at most", bench.Enough))
	list := f.String("networks", "", "`kinds` of networks, with commas (default: "+strings.Join(networks, ",")+"; with a clock also big)")
	most := f.Int("most", transferCounts[len(transferCounts)-1], "the most transfers of a condition: fewer are sooner done")
	out := f.String("out", "bench/planner", "`directory` of the results and the report")
	if err := f.Parse(args); err != nil {
		return err
	}
	kinds := append(slices.Clone(networks), "big")
	if *list != "" {
		kinds = strings.Split(*list, ",")
	} else if !timed {
		kinds = networks
	}
	if f.NArg() > 0 || *problems < 1 || *most < transferCounts[0] || slices.ContainsFunc(kinds, func(k string) bool { return !slices.Contains(topo.Kinds, k) }) {
		return fmt.Errorf("%q, --problems %d, --most %d, --networks %s: want run, times or report, and then flags; at least 1 problem of %d transfers, on networks of %v",
			f.Args(), *problems, *most, *list, transferCounts[0], topo.Kinds)
	}
	if run {
		s := bench.Suite{Name: plansName, Cells: cells(kinds, *problems, *most), Case: plan}
		if timed {
			s = bench.Suite{Name: timesName, Cells: clocked(kinds, min(*problems, bench.Enough)), Case: clock}
		}
		if err := s.Run(ctx, bench.Options{File: results(*out), Command: typed, Log: os.Stdout}); err != nil {
			return err
		}
	}
	return write(*out)
}

// The suites, whose results are in one file.
const (
	plansName = "planner"
	timesName = "planner, times"
)

func results(out string) string { return filepath.Join(out, "results.jsonl") }

// cells are all problems: of each seed all conditions on all networks. A fat tree, of which one takes as long as all trees, has no more
// problems of a condition than a verdict wants.
func cells(kinds []string, problems, most int) (all []bench.Cell) {
	for seed := range problems {
		for _, kind := range kinds {
			if kind == "fattree" && seed >= bench.Enough {
				continue
			}
			for _, c := range conditions() {
				if c.transfers <= most {
					all = append(all, bench.Cell{Params: c.on(kind), Seed: uint64(seed + 1)})
				}
			}
		}
	}
	return all
}

// condition is how many transfers there are, and how many hosts have and want each.
type condition struct{ transfers, sources, destinations int }

func conditions() (all []condition) {
	for _, t := range transferCounts {
		for _, s := range hostCounts {
			for _, d := range hostCounts {
				all = append(all, condition{t, s, d})
			}
		}
	}
	return all
}

func (c condition) on(kind string) bench.Params {
	return bench.Params{"network": kind, "transfers": strconv.Itoa(c.transfers), "sources": strconv.Itoa(c.sources), "destinations": strconv.Itoa(c.destinations)}
}

// problem is the network of a cell and its transfers. A cell that does not say how many hosts there are has 400.
func problem(c *bench.Cell) (*topo.Graph, []planner.Transfer, error) {
	total := hosts
	if h, ok := c.Params["hosts"]; ok {
		var err error
		if total, err = strconv.Atoi(h); err != nil {
			return nil, nil, fmt.Errorf("hosts %q: want a number", h)
		}
	}
	n, err := topo.Shape{Kind: c.Params["network"], Hosts: total, Seed: c.Seed}.Network()
	if err != nil {
		return nil, nil, err
	}
	var of [3]int
	for i, name := range []string{"transfers", "sources", "destinations"} {
		if of[i], err = strconv.Atoi(c.Params[name]); err != nil || of[i] < 1 || i > 0 && of[i] > total/2 {
			return nil, nil, fmt.Errorf("%s %q: want a number from 1 to %d", name, c.Params[name], total/2)
		}
	}
	rng := rand.New(rand.NewPCG(c.Seed, uint64(of[0]<<32|of[1]<<16|of[2])))
	var ts []planner.Transfer
	for k := range of[0] {
		drawn := rng.Perm(total)
		ts = append(ts, planner.Transfer{
			Name: fmt.Sprintf("t%d", k+1), Sources: slices.Clone(drawn[:of[1]]), Destinations: slices.Clone(drawn[of[1] : of[1]+of[2]]), // not all of drawn: hosts may be many
		})
	}
	return topo.NewGraph(n), ts, nil
}

// second is the solver that is asked where the planner's own fails, as in freshet plan. It counts how often.
type second struct {
	highs.Solver
	asked int
}

func (s *second) Solve(p *lp.Program) (lp.Solution, error) {
	s.asked++
	return s.Solver.Solve(p)
}

// ready is a planner that has all transfers.
func ready(g *topo.Graph, ts []planner.Transfer, o planner.Options) (*planner.Planner, error) {
	p, err := planner.New(planner.On(g), o)
	if err != nil {
		return nil, err
	}
	for _, t := range ts {
		if _, err := p.Add(t); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// plan plans one problem in all ways. Its numbers are by mode, times the throughput of flat; shares of bounds; and seconds
// of processor time.
func plan(ctx context.Context, c *bench.Cell) (map[string]float64, error) {
	return planWithin(ctx, c, patience)
}

func planWithin(ctx context.Context, c *bench.Cell, patience time.Duration) (map[string]float64, error) {
	g, ts, err := problem(c)
	if err != nil {
		return nil, err
	}
	numbers := map[string]float64{}
	timed := func(name string, f func() error) error {
		began := processor()
		err := f()
		numbers[name+"_s"] = (processor() - began).Seconds()
		return err
	}
	// improve goes on until nothing is to be gained any more, or patience is at its end.
	improve := func(name string, p *planner.Planner) error {
		whole, err := steps(ctx, p, processor()+patience)
		numbers["cut off, "+name] = 0
		if !whole && err == nil {
			numbers["cut off, "+name] = 1
			c.Note(name, fmt.Sprintf("cut off after %v of processor time, when there was still something to gain", patience))
		}
		return err
	}
	other := &second{}
	defer other.Close()
	var until time.Duration // of processor time, when it is enough; 0: never
	enough := func() bool { return until > 0 && processor() >= until }

	for _, mode := range []string{planner.Flat, planner.Random} {
		for draw := range draws {
			p, err := ready(g, ts, planner.Options{Mode: mode, Seed: uint64(draw), Second: other})
			if err != nil {
				return nil, err
			}
			plan, err := p.Plan()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", mode, err)
			}
			numbers[mode] += plan.Throughput / draws
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
	}
	flat := numbers[planner.Flat]

	// All others from one planner without floors.
	var p *planner.Planner
	var bound float64
	if err := timed("first", func() error {
		p, err = ready(g, ts, planner.Options{Second: other, Enough: enough})
		if err == nil {
			numbers["first"] = p.First().Throughput
		}
		return err
	}); err != nil {
		return nil, err
	}
	for _, mode := range []string{planner.Pipeline, planner.Paper, planner.Exact, planner.Optimal, planner.Single} {
		if mode == planner.Exact && g.Tree() == nil || mode == planner.Single && numbers["cut off, "+planner.Optimal] > 0 {
			continue // single is rounded from the optimum, and where that takes long it takes longer
		}
		if err := timed(mode, func() error {
			if mode == planner.Optimal {
				if err := improve(mode, p); err != nil {
					return err
				}
			}
			if mode == planner.Paper && g.Tree() == nil { // on trees it takes a minute at most
				until = processor() + patience
			}
			plan, err := p.In(mode)
			if err != nil {
				return err
			}
			if enough() {
				c.Note(mode, fmt.Sprintf("cut off after %v of processor time", patience))
			}
			until = 0
			numbers[mode] = plan.Throughput
			if mode == planner.Optimal {
				bound = plan.Bound // proved by now, as far as it will be
			}
			return nil
		}); err != nil {
			return nil, fmt.Errorf("%s: %w", mode, err)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	for _, mode := range append([]string{planner.Flat}, modes...) {
		if v, ok := numbers[mode]; ok {
			numbers["of bound, "+mode] = v / bound
		}
	}

	// With a floor it takes longer still, and a plan in the middle of it takes a linear program of all pipelines from the beginning: minutes.
	if numbers["cut off, "+planner.Optimal] > 0 {
		numbers["cut off, floored"] = 1
		c.Note("floored", "left out: optimal was cut off without a floor")
	} else if err := timed("floored", func() error {
		p, err := ready(g, ts, planner.Options{Floor: floor, Second: other})
		if err != nil {
			return err
		}
		if err := improve("floored", p); err != nil {
			return err
		}
		plan, err := p.Plan()
		if err != nil {
			return err
		}
		numbers["floored"] = plan.Throughput
		numbers["floored of bound"] = plan.Throughput / plan.Bound
		numbers["floored of free"] = plan.Throughput / bound
		numbers["least rate of floor"] = 0 // nobody knows the floor, if it was cut off so soon
		if plan.Theta > 0 {
			numbers["least rate of floor"] = plan.MinRate / (floor * plan.Theta)
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("with a floor: %w", err)
	}

	numbers["paper of pipeline"] = numbers[planner.Paper] / numbers[planner.Pipeline]
	for _, mode := range append([]string{"first", "floored"}, modes...) {
		if v, ok := numbers[mode]; ok {
			numbers[mode] = v / flat
		}
	}
	delete(numbers, planner.Flat)
	numbers["second solver asked"] = float64(other.asked)
	return numbers, nil
}

// steps goes on until nothing is to be gained any more, or this process has used so much processor time. It says which: whether
// the steps are whole.
func steps(ctx context.Context, p *planner.Planner, until time.Duration) (whole bool, err error) {
	for {
		more, err := p.Step()
		if err != nil || !more {
			return err == nil, err
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if processor() >= until {
			return false, nil
		}
	}
}

// processor is the processor time that this process has used.
func processor() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err) // it has no way to fail
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
