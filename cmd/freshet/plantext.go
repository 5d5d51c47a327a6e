package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/freshet/freshet/planner"
	"github.com/freshet/freshet/unit"
)

// most is how many lines of a kind people get.
const most = 100

// head prints how good the plan is.
func (v *planView) head(w io.Writer) {
	plan := v.plan
	fmt.Fprintf(w, "throughput  %s in all, %s", rateOf(plan.Throughput), plan.Mode)
	if !math.IsInf(plan.Bound, 1) {
		fmt.Fprintf(w, "; no plan%s has more than %s (gap %.2f %%, proved by: %s)", that(plan), rateOf(plan.Bound), 100*plan.Gap, plan.BoundBy)
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
			fmt.Fprintf(w, ", which costs %.2f %% of %s", 100*(1-plan.Bound/plan.FreeBound), rateOf(plan.FreeBound))
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

// that says of which plans a bound is: where the floor costs something, of those that hold it.
func that(plan *planner.Plan) string {
	if plan.FreeBound > plan.Bound*(1+5e-5) {
		return " that holds the floor"
	}
	return ""
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
		return "is what the destinations' own links let in, of some transfers if not of all, whatever lies before them: less than the gap may be missing"
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

// printModes prints how all modes fare.
func printModes(w io.Writer, modes []planMode) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\nMODE\tTHROUGHPUT\tOF BOUND\tSMALLEST\tSTARVED\tLAST FINISH\tFLOWS\tPLANNED IN\t\n")
	free := false
	for _, m := range modes {
		if m.Unfit != "" {
			fmt.Fprintf(t, "%s\t%s\t\t\t\t\t\t\t\n", m.Mode, m.Unfit)
			continue
		}
		of := ""
		if m.Bound != nil && *m.Bound > 0 {
			of = fmt.Sprintf("%.1f %%", 100*m.Throughput / *m.Bound)
			if m.free {
				of, free = of+" *", true
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%d\t%.3f s\t\n", m.Mode, rateOf(m.Throughput), of, rateOf(m.MinRate), m.Starved, through(m.last), m.Flows, m.PlanningS)
	}
	t.Flush()
	if free {
		fmt.Fprintln(w, "* of the bound without a floor, which is higher: it does not hold the floor")
	}
}

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
