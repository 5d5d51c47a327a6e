package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/planner"
	"github.com/freshet/freshet/topo"
)

// size is how large a problem with a clock is, and what its times must be.
type size struct {
	hosts int
	condition
	floors []float64
	share  float64 // of the bound, that a plan must be proved to have to be a good one
	first  float64 // seconds until there is a plan
	good   float64 // until there is a good one
	again  float64 // until there is one again after a change; 0: nobody asks
}

// sizes are those on the networks of the 36 conditions, and larger ones in racks.
var (
	sizes = []size{
		{400, condition{50, 10, 10}, []float64{floor, 0}, 0.99, 0.020, 1, 0.150},
		{400, condition{50, 10, 50}, []float64{floor, 0}, 0.99, 0.020, 3, 0.150},
	}
	largeSizes = []size{
		{10_000, condition{500, 5, 20}, []float64{floor}, 0.95, 0.5, 10, 0},
		{100_000, condition{1000, 5, 20}, []float64{floor}, 0.95, 5, 120, 0},
	}
)

func sizesOn(kind string) []size {
	if kind == "big" {
		return largeSizes
	}
	return sizes
}

// on are the parameters of a size on a network.
func (s size) on(kind string, floor float64) bench.Params {
	p := s.condition.on(kind)
	p["hosts"], p["floor"] = strconv.Itoa(s.hosts), strconv.FormatFloat(floor, 'g', -1, 64)
	return p
}

// clocked are all problems with a clock: of each seed all sizes on all networks.
func clocked(kinds []string, problems int) (all []bench.Cell) {
	for seed := range problems {
		for _, kind := range kinds {
			for _, s := range sizesOn(kind) {
				for _, floor := range s.floors {
					all = append(all, bench.Cell{Params: s.on(kind, floor), Seed: uint64(seed + 1)})
				}
			}
		}
	}
	return all
}

// impatience is the processor time after which a plan with a clock is taken as it is: the longest that may be asked for.
const impatience = 2 * time.Minute

// clock plans one problem on one core. Its numbers are seconds of processor time from a topology in memory and no transfers
//
//	first_s    until there is a plan
//	good_s     until there is one that is proved to have share of its bound, and every pair has its floor; good is 0 if it does not come to that
//	whole_s    until there is nothing more to gain
//	less_s     until there is a plan again, that holds the floor, after a transfer has gone,
//	more_s     has come back,
//	thin_s     and the link that carries most has become half as wide; again_s is the longest of the three
//
// and what the plans are: in the end "of bound", and "of free" bound, and of those after changes "again", the least share of the optimum, and "again, of floor",
// the least rate as a share of the floor. "memory" is the most MiB that the process held while it planned.
func clock(ctx context.Context, c *bench.Cell) (map[string]float64, error) {
	i := slices.IndexFunc(sizesOn(c.Params["network"]), func(s size) bool { return strconv.Itoa(s.hosts) == c.Params["hosts"] })
	floor, err := strconv.ParseFloat(c.Params["floor"], 64)
	if i < 0 || err != nil {
		return nil, fmt.Errorf("%v: there is no such size", c.Params)
	}
	s := sizesOn(c.Params["network"])[i]
	if err := warm(); err != nil {
		return nil, err
	}
	g, ts, err := problem(c)
	if err != nil {
		return nil, err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	debug.FreeOSMemory() // what those before have left behind
	numbers := map[string]float64{}
	err = c.Measure(func() error { return s.clock(ctx, g, ts, floor, numbers) })
	if numbers["cut off"] > 0 {
		c.Note("cut off", fmt.Sprintf("after %v of processor time, when there was still something to gain", impatience))
	}
	return numbers, err
}

// warm plans once, before anything counts.
var warm = sync.OnceValue(func() error {
	g, ts, err := problem(&bench.Cell{Params: sizes[0].on("intrigger", floor)})
	if err != nil {
		return err
	}
	p, err := ready(g, ts, planner.Options{Floor: floor})
	if err != nil {
		return err
	}
	_, err = steps(context.Background(), p, processor()+impatience)
	return err
})

// clock makes the numbers.
func (s size) clock(ctx context.Context, g *topo.Graph, ts []planner.Transfer, floor float64, numbers map[string]float64) error {
	other := &second{}
	defer other.Close()
	var w watch
	var p *planner.Planner
	took, err := w.lap(func() (err error) {
		if p, err = ready(g, ts, planner.Options{Floor: floor, Second: other}); err == nil {
			p.First()
		}
		return err
	})
	if err != nil {
		return err
	}
	spent := took
	numbers["first_s"], numbers["good"], numbers["cut off"] = spent.Seconds(), 0, 0

	var plan *planner.Plan
	look := func() (took time.Duration, err error) {
		return w.lap(func() (err error) {
			plan, err = p.Plan()
			return err
		})
	}
	more := true
	step := func() (took time.Duration, err error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return w.lap(func() (err error) {
			more, err = p.Step()
			return err
		})
	}

	// To look at a plan takes time that one who looks once does not lose: only the look that finds a good one counts.
	for more && spent < impatience {
		took, err := step()
		if err != nil {
			return err
		}
		spent += took
		if value, bound := p.Bound(); numbers["good"] > 0 || value < s.share*bound {
			continue
		}
		if took, err = look(); err != nil {
			return err
		}
		if plan.Throughput >= s.share*plan.Bound && holds(plan, floor) {
			numbers["good"], numbers["good_s"] = 1, (spent + took).Seconds()
		}
	}
	if took, err = look(); err != nil {
		return err
	}
	numbers["whole_s"] = (spent + took).Seconds()
	numbers["of bound"], numbers["of free"] = plan.Throughput/plan.Bound, plan.Throughput/plan.FreeBound
	if more {
		numbers["cut off"] = 1
	}
	if s.again > 0 {
		fullest := slices.MaxFunc(plan.Links, func(a, b planner.Load) int { return cmp.Compare(a.Load, b.Load) })
		for _, change := range []struct {
			name string
			make func() error
		}{
			{"less_s", func() error { p.Remove(3); return nil }},
			{"more_s", func() error { _, err := p.Add(ts[3]); return err }},
			{"thin_s", func() error { return p.SetRate(fullest.Channel, fullest.Rate/2) }},
		} {
			spent, err := w.lap(change.make)
			if err != nil {
				return err
			}
			for more = true; more && spent < impatience; {
				took, err := step()
				if err != nil {
					return err
				}
				spent += took
				if took, err = look(); err != nil {
					return err
				}
				if holds(plan, floor) { // at first it does not know what the floor is
					spent += took
					break
				}
			}
			if plan.Floor > 0 {
				if least, ok := numbers["again, of floor"]; !ok || plan.MinRate/plan.Floor < least {
					numbers["again, of floor"] = plan.MinRate / plan.Floor
				}
			}
			numbers[change.name] = spent.Seconds()
			numbers["again_s"] = max(numbers["again_s"], spent.Seconds())
			if numbers["cut off"] > 0 {
				continue // nor is what these plans might become known
			}
			soon := plan
			for spent := time.Duration(0); more && spent < impatience; {
				took, err := step()
				if err != nil {
					return err
				}
				spent += took
			}
			if _, err := look(); err != nil {
				return err
			}
			if least, ok := numbers["again"]; !ok || soon.Throughput/plan.Throughput < least {
				numbers["again"] = soon.Throughput / plan.Throughput
			}
		}
	}
	numbers["second solver asked"] = float64(other.asked)
	numbers["memory"] = float64(w.most) / (1 << 20)
	return nil
}

// holds says whether everybody has the floor.
func holds(plan *planner.Plan, floor float64) bool {
	return floor == 0 || plan.Floor > 0 && plan.MinRate >= plan.Floor*(1-1e-6)
}

// watch times laps, and sees the most memory that the process holds after one.
type watch struct{ most uint64 }

func (w *watch) lap(f func() error) (took time.Duration, err error) {
	began := processor()
	err = f()
	took = processor() - began
	at := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(at)
	w.most = max(w.most, at[0].Value.Uint64()-at[1].Value.Uint64())
	return took, err
}

// timeClaims are how soon plans must be there, at every problem.
func timeClaims(rs []bench.Result) (all []bench.Claim) {
	most := func(name string, limit float64, points []bench.Params, number string) {
		all = append(all, bench.Claim{Name: name, Wanted: bench.AtMost(limit), Number: func(e *bench.Evidence) (v float64) {
			for _, p := range points {
				at := bench.Point{Params: p}
				if number == "good_s" && e.Span(at, "good").Min < 1 {
					return math.Inf(1) // one never came to it
				}
				v = max(v, e.Span(at, number).Max)
			}
			return v
		}})
	}
	measured := func(kinds []string, s size) (points []bench.Params) {
		for _, kind := range kinds {
			for _, floor := range s.floors {
				if p := s.on(kind, floor); len(bench.At(rs, bench.Point{Params: p})) > 0 {
					points = append(points, p)
				}
			}
		}
		return points
	}
	for _, of := range []struct {
		name  string
		kinds []string
	}{{"trees", trees}, {"fat tree", []string{"fattree"}}, {"racks", []string{"big"}}} {
		for _, s := range sizesOn(of.kinds[0]) {
			points := measured(of.kinds, s)
			if len(points) == 0 {
				continue
			}
			what := fmt.Sprintf("%s, %d hosts, %d transfers to %d destinations: ", of.name, s.hosts, s.transfers, s.destinations)
			most(what+"the first plan, seconds", s.first, points, "first_s")
			most(fmt.Sprintf("%s%g of the bound proved, seconds", what, s.share), s.good, points, "good_s")
			if s.again > 0 {
				most(what+"a plan again after a change, seconds", s.again, points, "again_s")
			}
		}
	}
	return all
}

// timeTable is the times and what the plans were.
func timeTable(rs []bench.Result) string {
	var b strings.Builder
	b.WriteString("| network | hosts | transfers, sources, destinations | floor | first plan (ms) | good plan (s) | nothing more to gain (s) | of its bound then, least | again after a change (ms) | of the optimum, least | memory (MiB) | problems |\n|" + strings.Repeat(" --- |", 12) + "\n")
	for _, kind := range append(slices.Clone(networks), "big") {
		for _, s := range sizesOn(kind) {
			for _, floor := range s.floors {
				p := bench.Point{Params: s.on(kind, floor)}
				of := bench.At(rs, p)
				if len(of) == 0 {
					continue
				}
				show := func(number string, scale float64) string {
					span, counted := bench.Of(of, p, number)
					if span.N == 0 {
						return "–"
					}
					said := significant(span.Median*scale) + " (" + significant(span.Max*scale) + ")"
					if span.N < len(of) && number == "good_s" {
						said += fmt.Sprintf(", in %d of %d", span.N, len(of))
					}
					if !counted {
						said += " †"
					}
					return said
				}
				least := func(name string) string {
					span, _ := bench.Of(of, p, name)
					if span.N == 0 {
						return "–"
					}
					return number(span.Min, 4)
				}
				problems := strconv.Itoa(len(of))
				if cut := sum(values(of, "cut off")); cut > 0 {
					problems += fmt.Sprintf(", %g cut off", cut)
				}
				if asked := asking(of); asked > 0 {
					problems += fmt.Sprintf(", %d asked the second solver", asked)
				}
				fmt.Fprintf(&b, "| %s | %d | %d, %d, %d | %g | %s | %s | %s | %s | %s | %s | %s | %s |\n", kind, s.hosts, s.transfers, s.sources, s.destinations, floor,
					show("first_s", 1000), show("good_s", 1), show("whole_s", 1), least("of bound"), show("again_s", 1000), least("again"), show("memory", 1), problems)
			}
		}
	}
	return b.String()
}
