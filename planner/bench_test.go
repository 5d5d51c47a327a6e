package planner

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/freshet/freshet/internal/lp"
	"github.com/freshet/freshet/internal/lp/highs"
	"github.com/freshet/freshet/topo"
)

// BenchmarkPlan is how long plans take on one core: until the first one, until one of 0.99 (of 0.95 beyond 400 hosts) of
// the bound that is proved in the end, until that proof, and until there is a plan again after a transfer has gone, has come back, and a link has
// become half as wide. "again" is the share of the optimum that those first plans have.
//
//	go test ./planner -run '^$' -bench Plan -benchtime 1x -cpu 1
func BenchmarkPlan(b *testing.B) {
	for _, c := range []struct {
		kind                             string
		hosts, transfers, sources, dests int
		floor                            float64
	}{
		{"intrigger", 400, 50, 10, 10, 0},
		{"intrigger", 400, 50, 10, 10, 0.5},
		{"intrigger", 400, 50, 10, 50, 0},
		{"intrigger", 400, 50, 10, 50, 0.5},
		{"intrigger", 400, 50, 5, 50, 0.5},
		{"big", 10000, 500, 5, 20, 0.5},
		{"big", 100000, 1000, 5, 20, 0.5},
		{"fattree", 400, 50, 10, 10, 0},
		{"fattree", 400, 50, 10, 10, 0.5},
		{"fattree", 400, 50, 10, 50, 0},
		{"fattree", 400, 50, 10, 50, 0.5},
	} {
		b.Run(fmt.Sprintf("%s/hosts=%d/transfers=%d/sources=%d/dests=%d/floor=%g", c.kind, c.hosts, c.transfers, c.sources, c.dests, c.floor), func(b *testing.B) {
			n, ts := problem(b, topo.Shape{Kind: c.kind, Hosts: c.hosts, Seed: 1}, c.transfers, c.sources, c.dests)
			share := 0.99
			if c.hosts > 400 {
				share = 0.95
			}
			var p *Planner
			step := func() bool {
				more, err := p.Step()
				if err != nil {
					b.Fatal(err)
				}
				return more
			}
			plan := func() *Plan {
				plan, err := p.Plan()
				if err != nil {
					b.Fatal(err)
				}
				return plan
			}
			ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
			for b.Loop() {
				var err error
				if p, err = New(n, Options{Floor: c.floor}); err != nil {
					b.Fatal(err)
				}
				began := time.Now()
				for _, t := range ts {
					if _, err := p.Add(t); err != nil {
						b.Fatal(err)
					}
				}
				p.First()
				b.ReportMetric(ms(time.Since(began)), "first-ms")
				type moment struct {
					after time.Duration
					value float64
				}
				var moments []moment
				for more := true; more; {
					more = step()
					if p.share > 0 == (c.floor > 0) && (p.floored != nil || p.rest != nil || p.share == 0) {
						v, _ := p.Bound()
						moments = append(moments, moment{time.Since(began), v})
					}
				}
				proved := time.Since(began)
				done := plan()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				good := proved
				for _, at := range moments {
					if at.value >= share*done.Bound {
						good = at.after
						break
					}
				}
				b.ReportMetric(ms(good), "good-ms")
				b.ReportMetric(ms(proved), "proved-ms")
				b.ReportMetric(done.Throughput/done.Bound, "of-bound")
				b.ReportMetric(done.Throughput/done.FreeBound, "of-free")
				b.ReportMetric(float64(m.HeapSys>>20), "heap-MiB")
				if c.hosts > 10000 {
					continue
				}
				slowest, worst := time.Duration(0), 1.0
				for _, change := range []func() error{
					func() error { p.Remove(3); return nil },
					func() error { _, err := p.Add(ts[3]); return err },
					func() error { return p.SetRate(done.Links[5].Channel, done.Links[5].Rate/2) },
				} {
					at := time.Now()
					if err := change(); err != nil {
						b.Fatal(err)
					}
					for step() && p.stage == finding {
					}
					quick := plan()
					slowest = max(slowest, time.Since(at))
					for step() {
					}
					worst = min(worst, quick.Throughput/plan().Throughput)
				}
				if err := p.SetRate(done.Links[5].Channel, done.Links[5].Rate); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(ms(slowest), "again-ms")
				b.ReportMetric(worst, "again")
			}
		})
	}
}

// BenchmarkSolver is how long column generation takes from the first pipelines to the proven optimum, without floors, where the one or the other solver has
// all of its programs; and with PDHG at first, as plans are made.
//
//	go test ./planner -run '^$' -bench Solver -benchtime 1x -cpu 1
func BenchmarkSolver(b *testing.B) {
	for _, dests := range []int{10, 50} {
		for _, name := range []string{"PDHG and simplex", "simplex", "HiGHS"} {
			b.Run(fmt.Sprintf("dests=%d/%s", dests, name), func(b *testing.B) {
				n, ts := problem(b, topo.Shape{Kind: "intrigger", Hosts: 400, Seed: 1}, 50, 10, dests)
				p, err := New(n, Options{})
				if err != nil {
					b.Fatal(err)
				}
				for _, t := range ts {
					if _, err := p.Add(t); err != nil {
						b.Fatal(err)
					}
				}
				p.clip()
				other := &highs.Solver{}
				defer other.Close()
				small := &lp.Program{}
				small.Column(1, lp.Entry{At: small.Row(1), Value: 1})
				if _, err := other.Solve(small); err != nil { // it is compiled at the first question
					b.Fatal(err)
				}
				for b.Loop() {
					g := n.colgen(p.demands, p.ones(), n.rate, p.first)
					if name != "PDHG and simplex" {
						g.pdhg = nil
					}
					var solving time.Duration
					g.master.solver = timed{g.master.solver, &solving}
					if name == "HiGHS" {
						g.master.solver = timed{other, &solving}
					}
					began := time.Now()
					rounds := 1
					for ; ; rounds++ {
						more, err := p.round(g)
						if err != nil {
							b.Fatal(err)
						}
						if !more {
							break
						}
					}
					b.ReportMetric(float64(time.Since(began).Microseconds())/1e3, "proved-ms")
					b.ReportMetric(float64(solving.Microseconds())/1e3, "solver-ms")
					b.ReportMetric(float64(rounds), "rounds")
					b.ReportMetric(g.value/g.bound, "of-bound")
				}
			})
		}
	}
}

// timed is how long a solver takes in all.
type timed struct {
	lp.Solver
	took *time.Duration
}

func (s timed) Solve(p *lp.Program) (lp.Solution, error) {
	began := time.Now()
	defer func() { *s.took += time.Since(began) }()
	return s.Solver.Solve(p)
}
