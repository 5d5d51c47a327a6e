package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
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

Modes, from the plainest to the best:

  flat      from a source by chance, directly
  random    from the source with the widest way, in pipelines in an order by chance
  pipeline  the widest pipelines of each transfer by itself (Takahashi, Taura, Chikayama, 5.1)
  paper     and planned anew one after the other until nothing improves (5.3)
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
			if err := planFits(cmd, args, o, compare); err != nil {
				return err
			}
			net, err := readTopology(args[0])
			if err != nil {
				return err
			}
			g := topo.NewGraph(net)
			text, err := readText(args[1])
			if err != nil {
				return err
			}
			transfers, err := planner.ParseTransfers(text, g)
			if err != nil {
				return fmt.Errorf("%s: %w", args[1], err)
			}
			second := &highs.Solver{} // costs nothing unless it is asked
			defer second.Close()
			o.Second = second
			began, limit := time.Now(), within // until planning ends; 0: never
			if o.Mode == planner.Paper || o.Mode == planner.Single {
				limit -= limit / 2 // the bound first, and what these modes do then
			}
			o.Enough = func() bool { return limit > 0 && time.Since(began) >= limit || cmd.Context().Err() != nil }
			p, err := planner.New(planner.On(g), o)
			if err != nil {
				return usageError{err}
			}
			for _, t := range transfers {
				if _, err := p.Add(t); err != nil {
					return fmt.Errorf("%s: %w", args[1], err)
				}
			}
			for more := true; more; more = more && !o.Enough() { // once in any case: the floor is found by it
				if more, err = p.Step(); err != nil {
					return err
				}
				if err := cmd.Context().Err(); err != nil {
					return err
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
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if svg != "" {
				if err := os.WriteFile(svg, v.picture(filepath.Base(args[1])), 0o666); err != nil {
					return err
				}
			}
			var modes []planMode
			if compare {
				if modes, err = v.compare(cmd.Context(), func(plan func()) {
					began, limit = time.Now(), within
					plan()
					limit = 0
				}); err != nil {
					return err
				}
			}
			if asJSON {
				d := v.document()
				d.Modes = modes
				if explain {
					d.Why = v.why()
				}
				err = printJSON(w, d)
			} else {
				v.head(w)
				if !compare {
					v.flows(w)
					v.starved(w)
				}
				v.unreachable(w)
				if explain {
					v.explain(w)
				}
				if compare {
					err = printModes(w, modes)
				}
				if svg != "" {
					fmt.Fprintf(w, "\nPicture: %s\n", svg)
				}
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
	f.Uint64Var(&o.Seed, "seed", 1, "`number` that the randomness of flat and random begins with; with these modes or --compare only")
	f.DurationVar(&within, "within", 0, "`time` after which the plan is taken as it is, in every mode, with --compare of each; another plan each time, unlike with --work (default: no limit)")
	f.BoolVar(&explain, "explain", false, "say for each destination why it has its data from whom it has it, what holds it back, and what other sources would give; with --json as \"why\"")
	f.BoolVar(&compare, "compare", false, "show all modes beside each other, instead of the flows; with --json beside them, as \"modes\"")
	f.StringVar(&svg, "svg", "", "`file` to draw the plan into")
	jsonFlag(cmd, &asJSON)
	_ = cmd.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions(planner.Modes, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// planFits refuses what would be ignored, or makes no sense.
func planFits(cmd *cobra.Command, args []string, o planner.Options, compare bool) error {
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
	case given("seed") && o.Mode != planner.Flat && o.Mode != planner.Random && !compare:
		return usage("--seed with --mode %s: nothing is drawn; only flat and random do, and --compare has them", o.Mode)
	case within < 0:
		return usage("--within %v: want a time, not negative", within)
	case given("svg") && svg == "":
		return usage("--svg is empty: want a file")
	}
	return nil
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

// planDocument is what --json prints. Rates are bytes per second.
type planDocument struct {
	Mode        string            `json:"mode"`
	Throughput  float64           `json:"throughput"`
	Bound       *float64          `json:"bound"` // nil: nothing is proved
	BoundBy     string            `json:"bound_by"`
	FreeBound   *float64          `json:"free_bound"` // of plans without floors
	Gap         *float64          `json:"gap"`
	MinRate     float64           `json:"min_rate"`
	Theta       float64           `json:"theta"` // what all pairs can have at once; 0 without a floor
	Floor       float64           `json:"floor"` // what each pair gets at least
	PlanningS   float64           `json:"planning_s"`
	Classes     []planClass       `json:"classes,omitempty"` // with priorities or weights, in mode optimal
	Starved     []planStarved     `json:"starved"`
	Unreachable []planUnreachable `json:"unreachable"`
	Flows       []planFlow        `json:"flows"`
	Links       []planLink        `json:"links"`
	Transfers   []planTransfer    `json:"transfers"`
	Modes       []planMode        `json:"modes,omitempty"` // with --compare
	Why         []planWhy         `json:"why,omitempty"`   // with --explain
}

type planClass struct {
	Priority   int      `json:"priority"`
	Throughput float64  `json:"throughput"`
	Weighted   float64  `json:"weighted"` // by weight: what is planned for
	Bound      *float64 `json:"bound"`    // of weighted, while classes before have what they have; nil: nothing is proved
	BoundBy    string   `json:"bound_by"` // or why nothing is
	Gap        *float64 `json:"gap"`
}

type planPair struct {
	Transfer    string `json:"transfer"`
	Destination string `json:"destination"`
}

type planStarved struct {
	planPair
	Rate  float64 `json:"rate"`
	Alone float64 `json:"alone"` // what it would have if nobody else sent anything
}

type planUnreachable struct {
	planPair
	Reason string `json:"reason"`
}

type planFlow struct {
	Transfer string   `json:"transfer"`
	Path     []string `json:"path"`
	Rate     float64  `json:"rate"`
}

// planLink is a direction of a link, or both of one that is half duplex: those share its rate.
type planLink struct {
	From   string  `json:"from"`
	To     string  `json:"to"`
	Duplex string  `json:"duplex"` // full, half
	Load   float64 `json:"load"`
	Rate   float64 `json:"rate"`
}

type planTransfer struct {
	Name    string   `json:"name"`
	Size    float64  `json:"size"`
	Rate    float64  `json:"rate"`     // of all destinations together
	FinishS *float64 `json:"finish_s"` // estimate; nil: no size, or never
}

// planMode is how a mode fares beside the others.
type planMode struct {
	Mode       string   `json:"mode"`
	Unfit      string   `json:"unfit,omitempty"` // why it has no plan here; all that follows is 0 then
	Throughput float64  `json:"throughput"`
	Bound      *float64 `json:"bound"` // of its plan; nil: nothing is proved
	MinRate    float64  `json:"min_rate"`
	Starved    int      `json:"starved"`  // destinations that could be reached and have next to nothing
	FinishS    *float64 `json:"finish_s"` // when the last transfer would be through; nil: no sizes, or never
	Flows      int      `json:"flows"`
	PlanningS  float64  `json:"planning_s"`
	last       float64  // finish_s, infinite if never, NaN without sizes
}

func finite(x float64) *float64 {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return nil
	}
	return &x
}

func (v *planView) document() planDocument {
	plan := v.plan
	d := planDocument{
		Mode: plan.Mode, Throughput: plan.Throughput, Bound: finite(plan.Bound), BoundBy: plan.BoundBy, FreeBound: finite(plan.FreeBound),
		MinRate: plan.MinRate, Theta: plan.Theta, Floor: plan.Floor, PlanningS: v.took.Seconds(),
		Starved: []planStarved{}, Unreachable: []planUnreachable{}, Flows: []planFlow{}, Links: []planLink{}, Transfers: []planTransfer{},
	}
	if d.Bound != nil {
		d.Gap = &plan.Gap
	}
	for _, c := range plan.Classes {
		d.Classes = append(d.Classes, planClass{c.Priority, c.Throughput, c.Weighted, finite(c.Bound), c.BoundBy, finite(c.Gap)})
	}
	for _, s := range plan.Starved {
		d.Starved = append(d.Starved, planStarved{planPair{v.transfers[s.Transfer].Name, v.g.Name(s.Destination)}, plan.Rate(s), v.p.Alone(s)})
	}
	for _, u := range plan.Unreachable {
		d.Unreachable = append(d.Unreachable, planUnreachable{planPair{v.transfers[u.Transfer].Name, v.g.Name(u.Destination)}, u.Reason})
	}
	for _, f := range plan.Flows {
		d.Flows = append(d.Flows, planFlow{v.transfers[f.Transfer].Name, v.path(f.Hosts), f.Rate})
	}
	for _, l := range plan.Links {
		c := topo.Channel(l.Channel)
		one := planLink{v.g.Name(v.g.From(c)), v.g.Name(v.g.To(c)), "full", l.Load, l.Rate}
		if v.g.Half(c) {
			one.Duplex = "half"
			if last := len(d.Links) - 1; last >= 0 && d.Links[last].From == one.To && d.Links[last].To == one.From { // the other direction is just before it
				d.Links[last].Load += one.Load
				continue
			}
		}
		d.Links = append(d.Links, one)
	}
	for k, t := range v.transfers {
		d.Transfers = append(d.Transfers, planTransfer{Name: t.Name, Size: t.Size, Rate: v.arrives[k], FinishS: finite(v.finish[k])})
	}
	return d
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
	for _, f := range v.plan.Flows {
		o.Flows = append(o.Flows, picture.Flow{Name: v.transfers[f.Transfer].Name, Path: f.Hosts, Group: f.Transfer, Rate: unit.Bandwidth(f.Rate)})
	}
	return picture.Draw(v.g, o)
}

func rateOf(x float64) string { return unit.Bandwidth(x).String() }

// through is how people read when a transfer is through, in seconds as finishes has it.
func through(seconds float64) string {
	const year = 365.25 * 24 * 3600
	switch {
	case math.IsNaN(seconds):
		return "-"
	case math.IsInf(seconds, 1):
		return "never"
	case seconds > 100*year: // a Duration ends at 292
		return "over 100 years"
	}
	d, digit := time.Duration(seconds*1e9), 100*time.Millisecond
	for d < 10*digit && digit > time.Microsecond { // two digits at least
		digit /= 10
	}
	return d.Round(digit).String()
}

// most is how many lines of a kind people get.
const most = 100

// head prints how good the plan is.
func (v *planView) head(w io.Writer) {
	plan := v.plan
	fmt.Fprintf(w, "throughput  %s in all, %s", rateOf(plan.Throughput), plan.Mode)
	if !math.IsInf(plan.Bound, 1) {
		fmt.Fprintf(w, "; no plan has more than %s (gap %.2f %%, proved by: %s)", rateOf(plan.Bound), 100*plan.Gap, plan.BoundBy)
	}
	if why := relaxed(plan); why != "" {
		fmt.Fprintf(w, "\nbound       %s", why)
	}
	fmt.Fprintf(w, "\nsmallest    %s", rateOf(plan.MinRate))
	if plan.Floor > 0 {
		if plan.MinRate < plan.Floor*(1-1e-6) {
			fmt.Fprintf(w, "; not everybody has the floor of %s, all at once could have %s", rateOf(plan.Floor), rateOf(plan.Theta))
		} else {
			fmt.Fprintf(w, "; each gets at least %s, all at once could have %s", rateOf(plan.Floor), rateOf(plan.Theta))
		}
		if plan.FreeBound > plan.Bound {
			fmt.Fprintf(w, ", which costs %.2f %% of the throughput", 100*(1-plan.Bound/plan.FreeBound))
		}
	}
	if n := len(plan.Starved); n > 0 {
		fmt.Fprintf(w, "; starved: %d of %s", n, count(v.p.Pairs(), "destination"))
	}
	for _, c := range plan.Classes {
		fmt.Fprintf(w, "\npriority %-2d %s", c.Priority, rateOf(c.Throughput))
		by := ""
		if c.Weighted != c.Throughput {
			by = fmt.Sprintf(", %s by weight", rateOf(c.Weighted))
		}
		if math.IsInf(c.Bound, 1) {
			fmt.Fprintf(w, "%s; proved is %s", by, c.BoundBy)
			continue
		}
		fmt.Fprintf(w, "%s; beside what those before have it cannot have more than %s (gap %.2f %%, proved by: %s)", by, rateOf(c.Bound), 100*c.Gap, c.BoundBy)
	}
	fmt.Fprintf(w, "\nplanned     in %.3f s: %s over %s\n", v.took.Seconds(), count(len(plan.Flows), "flow"), counted(len(plan.Links), "direction of a link", "directions of links"))
}

// relaxed says in words why not even the best plan may reach a bound; nothing if it is reached, or is what the best plan has.
func relaxed(plan *planner.Plan) string {
	if plan.Gap < 5e-5 || math.IsInf(plan.Bound, 1) {
		return ""
	}
	switch by, _, _ := strings.Cut(plan.BoundBy, " "); by {
	case "arborescences":
		return "holds for trees of copies, too, which may carry more than pipelines can (the network has cycles): less than the gap may be missing"
	case "downlinks":
		return "is what the destinations' own links let in, whatever lies before them: less than the gap may be missing"
	}
	return ""
}

// flows prints what the plan does, by transfer and by flow.
func (v *planView) flows(w io.Writer) {
	plan := v.plan
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\nTRANSFER\tSIZE\tRATE\tFINISH\tFLOWS\n")
	for k, tr := range v.transfers {
		if k == most {
			fmt.Fprintf(t, "and %d more\n", len(v.transfers)-k)
			break
		}
		size := "-"
		if tr.Size > 0 {
			size = unit.Bytes(tr.Size).String()
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\n", tr.Name, size, rateOf(v.arrives[k]), through(v.finish[k]), v.flowing[k])
	}
	fmt.Fprintf(t, "\nTRANSFER\tRATE\tFLOW\n")
	for i, f := range plan.Flows {
		if i == most {
			fmt.Fprintf(t, "and %d more; --json has all\n", len(plan.Flows)-i)
			break
		}
		names := v.path(f.Hosts)
		if len(names) > 12 {
			names = append(append(names[:6:6], fmt.Sprintf("… %d …", len(names)-11)), names[len(names)-5:]...)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", v.transfers[f.Transfer].Name, rateOf(f.Rate), strings.Join(names, " → "))
	}
	t.Flush()
}

// starved prints who could have something and has next to nothing, those of a transfer together.
func (v *planView) starved(w io.Writer) {
	for i, of := range runs(v.plan.Starved, func(s planner.Pair) int { return s.Transfer }) {
		if i == most {
			fmt.Fprintln(w, "and more of other transfers; --json has all")
			break
		}
		var names []string
		rate, alone := nobody, nobody
		for _, s := range of {
			names = append(names, v.g.Name(s.Destination))
			rate, alone = rate.with(v.plan.Rate(s)), alone.with(v.p.Alone(s))
		}
		fmt.Fprintf(w, "starved: %s to %s: %v, alone %v\n", v.transfers[of[0].Transfer].Name, listed(names), rate, alone)
	}
}

// runs are the parts of a list in which what by says stays the same.
func runs[E any, K comparable](list []E, by func(E) K) (parts [][]E) {
	for i, e := range list {
		if i == 0 || by(e) != by(list[i-1]) {
			parts = append(parts, nil)
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], e)
	}
	return parts
}

// span is from the least to the most of some rates, in bytes per second.
type span struct{ least, most float64 }

// nobody is the span of no rate.
var nobody = span{math.Inf(1), 0}

func (s span) with(rate float64) span { return span{min(s.least, rate), max(s.most, rate)} }

func (s span) String() string {
	least, most := rateOf(s.least), rateOf(s.most)
	if least == most {
		return most
	}
	return least + " to " + most
}

// unreachable prints who can have nothing in any plan, those of a transfer with the same reason together.
func (v *planView) unreachable(w io.Writer) {
	type cause struct {
		transfer int
		reason   string
	}
	all := slices.SortedStableFunc(slices.Values(v.plan.Unreachable), func(a, b planner.Unreachable) int {
		return cmp.Or(a.Transfer-b.Transfer, cmp.Compare(a.Reason, b.Reason))
	})
	for i, of := range runs(all, func(u planner.Unreachable) cause { return cause{u.Transfer, u.Reason} }) {
		if i == most {
			fmt.Fprintln(w, "and more, for other reasons or of other transfers; --json has all")
			break
		}
		var names []string
		for _, u := range of {
			names = append(names, v.g.Name(u.Destination))
		}
		fmt.Fprintf(w, "unreachable: %s to %s: %s\n", v.transfers[of[0].Transfer].Name, listed(names), of[0].Reason)
	}
}

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
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		modes = append(modes, planMode{Mode: mode, Throughput: plan.Throughput, Bound: finite(plan.Bound), MinRate: plan.MinRate,
			Starved: len(plan.Starved), FinishS: finite(last), Flows: len(plan.Flows), PlanningS: took.Seconds(), last: last})
	}
	return modes, nil
}

// printModes prints how all modes fare.
func printModes(w io.Writer, modes []planMode) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\nMODE\tTHROUGHPUT\tOF BOUND\tSMALLEST\tSTARVED\tLAST FINISH\tFLOWS\tPLANNED IN\t\n")
	for _, m := range modes {
		if m.Unfit != "" {
			fmt.Fprintf(t, "%s\t%s\t\t\t\t\t\t\t\n", m.Mode, m.Unfit)
			continue
		}
		of := ""
		if m.Bound != nil && *m.Bound > 0 {
			of = fmt.Sprintf("%.1f %%", 100*m.Throughput / *m.Bound)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%d\t%.3f s\t\n", m.Mode, rateOf(m.Throughput), of, rateOf(m.MinRate), m.Starved, through(m.last), m.Flows, m.PlanningS)
	}
	return t.Flush()
}
