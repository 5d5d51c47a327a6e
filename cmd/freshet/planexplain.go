package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/freshet/freshet/planner"
	"github.com/freshet/freshet/topo"
)

// mostAccounts is how many accounts of destinations people get. Of more than these each transfer has a line.
const mostAccounts = 40

// mostOffers is of how many sources to how many destinations is told, all together. Each takes some 100 bytes.
const mostOffers = 10_000_000

// explainable refuses transfers of which explain and why would have more to say.
func explainable(transfers []planner.Transfer) error {
	offers := 0
	for _, t := range transfers {
		offers += len(t.Sources) * len(t.Destinations)
	}
	if offers > mostOffers {
		return fmt.Errorf("--explain would tell of %d pairs of a source and a destination of one transfer, and %d are the most: leave it out, or have fewer sources or destinations", offers, mostOffers)
	}
	return nil
}

// explain says for each destination why it gets what it gets from whom, the starved first, those that fare alike together.
func (v *planView) explain(w io.Writer) {
	reasons := v.p.Explain(v.plan)
	fmt.Fprintf(w, "\nWhy. %s\n", v.rule())
	if len(reasons) > 10 {
		fmt.Fprintln(w, v.overview(reasons))
	}
	if accounts := v.accounts(reasons); len(accounts) <= mostAccounts {
		fmt.Fprintln(w, `"Instead" is what another source would give directly, in place of all that a destination has, while all others keep what they have.`)
		for _, a := range accounts {
			fmt.Fprintf(w, "%s\n  %s\n", a.title(), strings.Join(slices.Concat(a.held(), a.instead()), " "))
		}
	} else {
		for i, of := range runs(reasons, func(r planner.Reason) int { return r.Transfer }) {
			if i == most {
				fmt.Fprintln(w, "and more transfers")
				break
			}
			fmt.Fprintln(w, v.inShort(of))
		}
		fmt.Fprintln(w, "--json has each destination by itself.")
	}
	if len(v.plan.Starved) > 0 && v.plan.Floor == 0 && !v.maxMin {
		fmt.Fprintln(w, "With --floor above 0 the starved have a part, too.")
	}
}

// rule is by what the plan chooses.
func (v *planView) rule() string {
	switch v.plan.Mode {
	case planner.Flat:
		return "Mode flat draws each destination's source by chance, and passes nothing on."
	case planner.Random:
		return "Mode random takes the source with the widest way, and draws by chance who passes on to whom."
	case planner.Pipeline, planner.Exact:
		return "Mode " + v.plan.Mode + " takes the sources and ways that are widest for each transfer alone."
	case planner.Paper:
		return "Mode paper takes the widest sources and ways on what other transfers leave, one transfer after the other."
	case planner.Single:
		return "Mode single has one flow for each destination, as near as it comes to those that bring most to all together."
	}
	switch {
	case v.maxMin:
		return "All rates rise together, by weight, until links are full; who can have more has more."
	case len(v.plan.Classes) > 1:
		return "Higher priorities have the most that there is" + v.byWeight() + ", lower ones what these leave" + v.floor() + "."
	}
	return "The plan has the flows that bring most to all together" + v.byWeight() + v.floor() + "."
}

// byWeight says that a byte counts what its transfer weighs, where some weigh more than others, as the end of a sentence.
func (v *planView) byWeight() string {
	if slices.ContainsFunc(v.plan.Classes, func(c planner.Class) bool { return c.Weighted != c.Throughput }) {
		return ", by weight"
	}
	return ""
}

// floor is what everybody gets at least, as the end of a sentence.
func (v *planView) floor() string {
	if v.plan.Floor == 0 {
		return ""
	}
	return ", and for each " + rateOf(v.plan.Floor) + " at least"
}

// overview is how many destinations are held back by what, and by which links.
func (v *planView) overview(reasons []planner.Reason) string {
	var starved, own, over, beyond, free int
	links := map[int]int{} // by channel: destinations that it holds back
	for _, r := range reasons {
		first := v.holds([]planner.Reason{r})
		switch {
		case r.Starved:
			starved++
		case len(first) == 0 || !first[0].Full():
			free++
		case first[0].Beyond:
			beyond++
		case first[0].own:
			own++
		default:
			over++
			links[first[0].Channel]++
		}
	}
	var parts []string
	part := func(n int, one, many, what string) {
		if n > 0 {
			parts = append(parts, counted(n, one, many)+" "+what)
		}
	}
	var names []string
	for _, c := range slices.SortedFunc(maps.Keys(links), func(a, b int) int { return cmp.Or(links[b]-links[a], a-b) }) {
		names = append(names, fmt.Sprintf("%s (%d)", v.link(c), links[c]))
	}
	part(own, "has", "have", "all that their own links let in")
	part(over, "is", "are", "held back by links further away, most by "+several(names, 3))
	part(beyond, "is", "are", "held back by links that their data goes on over")
	part(free, "is", "are", "held back by no full link")
	part(starved, "is", "are", "starved")
	return fmt.Sprintf("Of %s %s.", count(len(reasons), "destination"), strings.Join(parts, "; "))
}

// inShort says of all destinations of a transfer how they fare.
func (v *planView) inShort(all []planner.Reason) string {
	var served, starved []planner.Reason
	rate, more := nobody, 0
	for i := range all {
		r := &all[i]
		if r.Starved {
			starved = append(starved, *r)
		} else {
			served, rate = append(served, *r), rate.with(r.Rate)
		}
		if slices.ContainsFunc(r.Offers, func(o planner.Offer) bool { return beside(r, &o) == offersMore }) {
			more++
		}
	}
	var parts []string
	if len(served) > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d %s %v%s, held back by %s", len(served), len(all), have(len(served)), rate, (&planAccount{v, served}).sources(), v.heldMost(served)))
	}
	if len(starved) > 0 {
		parts = append(parts, fmt.Sprintf("%d starved, held back by %s", len(starved), v.heldMost(starved)))
	}
	if more > 0 {
		parts = append(parts, fmt.Sprintf("%d would have more from another source", more))
	}
	return fmt.Sprintf("%s: %s.", v.transfers[all[0].Transfer].Name, strings.Join(parts, "; "))
}

// heldMost are the links that hold most of these destinations back, and how many each.
func (v *planView) heldMost(of []planner.Reason) string {
	tally := map[string]int{}
	for _, r := range of {
		for _, h := range v.holds([]planner.Reason{r}) {
			name := "own links"
			if !h.own {
				name = v.link(h.Channel)
			}
			tally[name]++
		}
	}
	if len(tally) == 0 {
		return "no link"
	}
	var names []string
	for _, name := range slices.SortedFunc(maps.Keys(tally), func(a, b string) int { return cmp.Or(tally[b]-tally[a], cmp.Compare(a, b)) }) {
		names = append(names, fmt.Sprintf("%s (%d)", name, tally[name]))
	}
	return several(names, 3)
}

// link is what one direction of a link is called.
func (v *planView) link(channel int) string {
	c := topo.Channel(channel)
	return v.g.Name(v.g.From(c)) + " → " + v.g.Name(v.g.To(c))
}

// called are the names of transfers.
func (v *planView) called(transfers []int) (names []string) {
	for _, k := range transfers {
		names = append(names, v.transfers[k].Name)
	}
	return names
}

// several are words as a sentence has them: the first most of them, and how many more.
func several(words []string, most int) string {
	n := len(words)
	if n > most+1 { // "and 1 more" is no shorter than its name
		return fmt.Sprintf("%s and %d more", strings.Join(words[:most], ", "), n-most)
	}
	if n < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
}
