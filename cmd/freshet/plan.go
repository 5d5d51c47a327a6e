package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/internal/lp/highs"
	"github.com/freshet/freshet/internal/picture"
	"github.com/freshet/freshet/planner"
	"github.com/freshet/freshet/topo"
	"github.com/freshet/freshet/unit"
)

func newPlan() *cobra.Command {
	var o planner.Options
	var within time.Duration
	var svg string
	var explain, compare, asJSON bool
	cmd := &cobra.Command{
		Use:     "plan TOPOLOGY TRANSFERS",
		GroupID: "try",
		Short:   "Plan many transfers at once on a network",
		Long: `plan says who sends what to whom, at which rate, when several data sets that lie
on some hosts are needed on others: which source each destination takes, who
passes data on, and how transfers share links, such that as much as can be
arrives everywhere together. With the plan comes what no plan can exceed.
TOPOLOGY is a file as "freshet topo" writes it, TRANSFERS one like

  transfers:
  - {name: x, size: 10GiB, sources: [h1, h2], destinations: [h3, h4]}

and one of them may be -, which is standard input. Modes, from the plainest to the best:

  flat      from a source by chance, directly
  random    from the source with the widest way, in pipelines in an order by chance
  pipeline  the widest pipelines of each transfer by itself (Takahashi, Taura, Chikayama, 5.1)
  paper     as pipeline, then each planned anew on what others leave, until nothing improves (5.3)
  exact     the widest pipelines there are, each transfer by itself; on trees only
  single    one pipeline for each destination, rounded from the optimum
  optimal   destinations take different parts of the data from several pipelines (default)`,
		Example: `  freshet topo generate intrigger -o net.yaml
  freshet plan net.yaml transfers.yaml
  freshet plan net.yaml transfers.yaml --compare
  freshet plan net.yaml transfers.yaml --floor 0 --json
  freshet plan net.yaml transfers.yaml --explain --svg plan.svg`,
		Args: wantArgs("TOPOLOGY", "TRANSFERS"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := planFits(cmd, args, o); err != nil {
				return err
			}
			ctx := cmd.Context()
			net, err := readTopology(ctx, args[0])
			if err != nil {
				return err
			}
			g := topo.NewGraph(net)
			text, err := readText(ctx, args[1])
			if err != nil {
				return err
			}
			transfers, err := asLongAs(ctx, func() ([]planner.Transfer, error) { return planner.ParseTransfers(text, g) })
			if err != nil {
				return fmt.Errorf("%s: %w", args[1], err)
			}
			if explain {
				if err := explainable(transfers); err != nil {
					return fmt.Errorf("%s: %w", args[1], err)
				}
			}
			second := &highs.Solver{} // costs nothing unless it is asked
			defer second.Close()
			o.Second = second
			began, limit := time.Now(), within // until planning ends; 0: never
			if o.Mode == planner.Paper || o.Mode == planner.Single {
				limit -= limit / 2 // the bound first, and what these modes do then
			}
			o.Enough = func() bool { return limit > 0 && time.Since(began) >= limit || ctx.Err() != nil }
			p, err := planner.New(planner.On(g), o)
			if err != nil {
				return usageError{err}
			}
			add := func() (added int, err error) { // one transfer may take long where routes avoid no links that carry nothing
				for _, t := range transfers {
					if _, err := p.Add(t); err != nil {
						return added, fmt.Errorf("%s: %w", args[1], err)
					}
					if added++; ctx.Err() != nil {
						return added, errInterrupted
					}
				}
				return added, nil
			}
			if _, err := asLongAs(ctx, add); err != nil {
				return err
			}
			for more := true; more; more = more && !o.Enough() { // once in any case: the floor is found by it
				if more, err = p.Step(); err != nil {
					return err
				}
				if ctx.Err() != nil {
					return errInterrupted
				}
			}
			limit = within
			plan, err := p.Plan()
			if err != nil {
				return err
			}
			took := time.Since(began)
			limit = 0 // what follows is no planning
			v := newPlanView(g, p, plan, transfers, took)
			v.maxMin = o.MaxMin
			if ctx.Err() != nil {
				return errInterrupted
			}
			if svg != "" {
				drawn, err := asLongAs(ctx, func() ([]byte, error) { return v.picture(filepath.Base(args[1])), nil })
				if err != nil {
					return err
				}
				if err := writeFile(svg, drawn); err != nil {
					return err
				}
			}
			var modes []planMode
			if compare {
				if modes, err = v.compare(ctx, func(plan func()) {
					began, limit = time.Now(), within
					plan()
					limit = 0
				}); err != nil {
					return err
				}
			}
			var why []planWhy
			var told string
			switch {
			case explain && asJSON:
				why, err = asLongAs(ctx, func() ([]planWhy, error) { return v.why(), nil })
			case explain:
				told, err = asLongAs(ctx, func() (string, error) {
					b := &strings.Builder{}
					v.explain(b)
					return b.String(), nil
				})
			}
			if err != nil {
				return err
			}
			if asJSON {
				d := v.document()
				d.Modes, d.Why = modes, why
				err = printJSON(cmd.OutOrStdout(), d)
			} else {
				err = printed(cmd.OutOrStdout(), func(w io.Writer) {
					v.head(w)
					if !compare {
						v.flows(w)
						v.starved(w)
					}
					v.unreachable(w)
					fmt.Fprint(w, told)
					if compare {
						printModes(w, modes)
					}
					if svg != "" {
						fmt.Fprintf(w, "\nPicture: %s\n", svg)
					}
				})
			}
			if err == nil && p.Pairs() == 0 && len(plan.Unreachable) > 0 {
				err = errors.New("no destination can be reached")
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Mode, "mode", planner.Optimal, "one of "+strings.Join(planner.Modes, ", ")+"; with --compare the one that the head, --explain and --svg are of")
	f.Float64Var(&o.Floor, "floor", 0.5, "`share`, 0 to 1, of the largest rate that all destinations can have at once, that each gets at least, in modes other than optimal as far as their pipelines can; not with --max-min")
	f.BoolVar(&o.MaxMin, "max-min", false, "share by fairness alone, not for throughput: nobody can have more without one who has less having less still. In modes other than optimal over their pipelines")
	f.Float64Var(&o.Gap, "gap", 0, "`share`, 0 to 1, of the bound that may be missing for planning to end (default: 0 on trees, 0.001 elsewhere, 0.01 with a floor for more than 6,000 pairs of a transfer and a destination)")
	f.IntVar(&o.Work, "work", 0, "`number` of exchanges and columns of linear programs after which planning ends with what it has; what paper and single do besides does not count (default: no limit)")
	f.Uint64Var(&o.Seed, "seed", 1, "`number` that the randomness of modes flat and random begins with; the others draw nothing")
	f.DurationVar(&within, "within", 0, "`time` after which the plan is taken as it is, in every mode, with --compare of each; another plan each time, unlike with --work (default: no limit)")
	f.BoolVar(&explain, "explain", false, "say for each destination why it has its data from whom it has it, what holds it back, and what other sources would give; with --json as \"why\"")
	f.BoolVar(&compare, "compare", false, "show all modes beside each other, instead of the flows; with --json beside them, as \"modes\"")
	f.StringVar(&svg, "svg", "", "`file` to draw the plan into")
	jsonFlag(cmd, &asJSON)
	_ = cmd.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions(planner.Modes, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// planFits refuses what would be ignored, or makes no sense.
func planFits(cmd *cobra.Command, args []string, o planner.Options) error {
	given := cmd.Flags().Changed
	within, _ := cmd.Flags().GetDuration("within")
	svg, _ := cmd.Flags().GetString("svg")
	switch {
	case !slices.Contains(planner.Modes, o.Mode):
		return usage("mode %q: want %s", o.Mode, strings.Join(planner.Modes, ", "))
	case args[0] == "-" && args[1] == "-":
		return usage("TOPOLOGY and TRANSFERS are both standard input: want a file for one of them")
	case given("floor") && o.MaxMin:
		return usage("--floor with --max-min: fairness alone gives all as much as they can have at once, and has no floor; leave one of them out")
	case within < 0:
		return usage("--within %v: want a time, not negative", within)
	case given("svg") && svg == "":
		return usage("--svg is empty: want a file")
	}
	return overwrites("svg", svg, args...)
}

// planView is a plan with the names that people know things by.
type planView struct {
	g         *topo.Graph
	p         *planner.Planner
	plan      *planner.Plan
	transfers []planner.Transfer
	took      time.Duration
	finish    []float64 // by transfer, in seconds, see finishes
	arrives   []float64 // by transfer: the rate of all its destinations together
	flowing   []int     // by transfer: its flows
	maxMin    bool
}

func newPlanView(g *topo.Graph, p *planner.Planner, plan *planner.Plan, transfers []planner.Transfer, took time.Duration) *planView {
	v := &planView{g: g, p: p, plan: plan, transfers: transfers, took: took, finish: finishes(p, plan, transfers), arrives: make([]float64, len(transfers)), flowing: make([]int, len(transfers))}
	for _, f := range plan.Flows {
		v.arrives[f.Transfer] += f.Rate * float64(len(f.Hosts)-1)
		v.flowing[f.Transfer]++
	}
	return v
}

// finishes are when transfers are through, in seconds: NaN of one without a size, infinite of one that never is, since some
// destination is starved or none can be reached.
func finishes(p *planner.Planner, plan *planner.Plan, transfers []planner.Transfer) []float64 {
	finish := p.Finish(plan)
	for _, u := range plan.Unreachable {
		if finish[u.Transfer] == 0 { // nothing comes to any other
			finish[u.Transfer] = math.Inf(1)
		}
	}
	for k, t := range transfers {
		if t.Size == 0 {
			finish[k] = math.NaN()
		}
	}
	return finish
}

func (v *planView) path(hosts []int) (names []string) {
	for _, h := range hosts {
		names = append(names, v.g.Name(h))
	}
	return names
}

func (v *planView) picture(title string) []byte {
	load := make([]float64, v.g.Channels())
	for _, l := range v.plan.Links {
		c := topo.Channel(l.Channel)
		load[c] = l.Load / l.Rate
	}
	o := picture.Options{Title: fmt.Sprintf("%s: %s, %v in all", title, v.plan.Mode, unit.Bandwidth(v.plan.Throughput)), Load: load}
	for _, t := range v.transfers {
		o.Transfers = append(o.Transfers, picture.Transfer{Name: t.Name, Sources: t.Sources, Destinations: t.Destinations, Without: map[int]string{}})
	}
	for _, s := range v.plan.Starved {
		o.Transfers[s.Transfer].Without[s.Destination] = fmt.Sprintf("starved: %s, alone %s", rateOf(v.plan.Rate(s)), rateOf(v.p.Alone(s)))
	}
	for _, u := range v.plan.Unreachable {
		o.Transfers[u.Transfer].Without[u.Destination] = "unreachable: " + u.Reason
	}
	for _, f := range v.plan.Flows {
		o.Flows = append(o.Flows, picture.Flow{Transfer: f.Transfer, Path: f.Hosts, Rate: unit.Bandwidth(f.Rate)})
	}
	return picture.Draw(v.g, o)
}

func rateOf(x float64) string { return unit.Bandwidth(x).String() }

// compare plans in all modes. within calls what plans, with the time that it may take.
func (v *planView) compare(ctx context.Context, within func(plan func())) (modes []planMode, err error) {
	for _, mode := range planner.Modes {
		runtime.GC() // one mode's garbage is not collected in the next one's time
		began := time.Now()
		var plan *planner.Plan
		var err error
		within(func() { plan, err = v.p.In(mode) })
		if err != nil {
			if mode == planner.Exact && v.g.Tree() == nil {
				modes = append(modes, planMode{Mode: mode, Unfit: "on trees only"})
				continue
			}
			return nil, err
		}
		took := time.Since(began)
		if mode == planner.Optimal || mode == planner.Single {
			took += v.took
		}
		last := math.NaN()
		for _, f := range finishes(v.p, plan, v.transfers) {
			if f > last || math.IsNaN(last) {
				last = f
			}
		}
		if ctx.Err() != nil {
			return nil, errInterrupted
		}
		modes = append(modes, planMode{Mode: mode, Throughput: plan.Throughput, Bound: finite(plan.Bound), BoundBy: plan.BoundBy, MinRate: plan.MinRate,
			Starved: len(plan.Starved), FinishS: finite(last), Flows: len(plan.Flows), PlanningS: took.Seconds(), last: last, free: plan.Bound > v.plan.Bound*(1+5e-5)})
	}
	return modes, nil
}
