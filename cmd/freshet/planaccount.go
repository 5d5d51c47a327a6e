package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/freshet/freshet/planner"
)

// planAccount is what is said together of destinations of one transfer that fare alike.
type planAccount struct {
	*planView
	of []planner.Reason
}

// accounts puts those destinations together that fare alike. The starved come first.
func (v *planView) accounts(reasons []planner.Reason) (accounts []planAccount) {
	at := map[string]int{}
	for _, starved := range []bool{true, false} {
		for i := range reasons {
			r := &reasons[i]
			if r.Starved != starved {
				continue
			}
			k, known := at[v.key(r)]
			if !known {
				k = len(accounts)
				at[v.key(r)] = k
				accounts = append(accounts, planAccount{planView: v})
			}
			accounts[k].of = append(accounts[k].of, *r)
		}
	}
	return accounts
}

// key is the same for destinations of a transfer that have the same sources, are held back by the same links, or their own, and have as much from other sources.
func (v *planView) key(r *planner.Reason) string {
	var from, holds, offers []string
	for _, o := range r.From {
		from = append(from, fmt.Sprint(o.Source, o.Before == o.Source))
	}
	for _, h := range v.holds([]planner.Reason{*r}) {
		holds = append(holds, h.key())
	}
	for i := range r.Offers {
		if o := &r.Offers[i]; !gives(r, o.Source) {
			offers = append(offers, fmt.Sprint(o.Source, beside(r, o)))
		}
	}
	slices.Sort(from)
	slices.Sort(holds)
	return fmt.Sprint(r.Transfer, r.Starved, slices.Compact(from), holds, offers)
}

func (a *planAccount) one() bool { return len(a.of) == 1 }

// choose is one of two words: of one destination, of several.
func (a *planAccount) choose(one, more string) string {
	if a.one() {
		return one
	}
	return more
}

// title says who has how much from whom.
func (a *planAccount) title() string {
	var names []string
	rate, alone := nobody, nobody
	for _, r := range a.of {
		names = append(names, a.g.Name(r.Destination))
		rate, alone = rate.with(r.Rate), alone.with(r.Alone)
	}
	title := fmt.Sprintf("%s to %s: ", a.transfers[a.of[0].Transfer].Name, listed(names))
	if !a.of[0].Starved {
		return title + rate.String() + a.choose("", " each") + a.from()
	}
	return title + "starved, " + rate.String() + a.choose("", " each") + a.from() + a.choose("; alone it would have ", "; alone each would have ") + alone.String()
}

// from are the sources, and for one destination who passes on to it.
func (a *planAccount) from() string {
	if a.one() {
		var froms []string
		rate := map[string]float64{}
		for _, o := range a.of[0].From {
			from := " from " + a.g.Name(o.Source)
			if o.Before != o.Source {
				from += " by way of " + a.g.Name(o.Before)
			}
			if rate[from] == 0 {
				froms = append(froms, from)
			}
			rate[from] += o.Rate
		}
		if len(froms) < 2 {
			return strings.Join(froms, "")
		}
		slices.SortStableFunc(froms, func(x, y string) int { return cmp.Compare(rate[y], rate[x]) })
		for i, from := range froms {
			froms[i] = rateOf(rate[from]) + from
		}
		return ", " + several(froms, 3)
	}
	return a.sources()
}

// sources are those that serve most of them.
func (a *planAccount) sources() string {
	served := map[int]int{} // by source: destinations
	passed, flows := 0, 0
	for i := range a.of {
		had := map[int]bool{}
		for _, o := range a.of[i].From {
			flows++
			if o.Before != o.Source {
				passed++
			}
			if !had[o.Source] {
				had[o.Source] = true
				served[o.Source]++
			}
		}
	}
	if flows == 0 {
		return ""
	}
	var names []string
	for _, s := range slices.SortedFunc(maps.Keys(served), func(x, y int) int { return cmp.Or(served[y]-served[x], x-y) }) {
		names = append(names, a.g.Name(s))
	}
	text := " from " + several(names, 4)
	switch passed {
	case 0:
	case flows:
		text += ", by way of other destinations"
	default:
		text += ", some by way of other destinations"
	}
	return text
}

// held are sentences about the links that hold them back.
func (a *planAccount) held() (sentences []string) {
	var full, beyond, slack []planHold
	for _, h := range a.holds(a.of) {
		switch {
		case h.Full() && h.Beyond:
			beyond = append(beyond, h)
		case h.Full():
			full = append(full, h)
		default:
			slack = append(slack, h)
		}
	}
	if len(full) > 0 {
		is := " is full"
		if len(full) > 1 || full[0].own && !a.one() {
			is = " are full"
		}
		text := sentence(several(a.names(full), 3) + is)
		if len(full) == 1 {
			text += a.sharing(&full[0])
		}
		sentences = append(sentences, text+".")
		if h := &full[0]; len(full) == 1 && h.Worth >= 0.005 && (a.one() || !h.own) && (!h.own || len(h.Others) > 0) {
			sentences = append(sentences, fmt.Sprintf("One more byte per second on it would bring %.2f %s.", h.Worth, a.whom()))
		}
	}
	if len(beyond) > 0 {
		is := "which is full"
		if len(beyond) > 1 {
			is = "which are full"
		}
		sentences = append(sentences, fmt.Sprintf("What %s goes on over %s, %s, and a flow is as fast everywhere.", a.choose("it gets", "they get"), several(a.names(beyond), 3), is))
	}
	if len(full)+len(beyond) == 0 && len(slack) > 0 {
		h := slices.MaxFunc(slack, func(x, y planHold) int { return cmp.Compare(x.Used, y.Used) })
		sentences = append(sentences, fmt.Sprintf("No link on %s is full; of the fullest, %s, %.1f %% is in use.", a.choose("its way", "their ways"), a.name(&h), 100*h.Used))
	}
	return sentences
}

// names are what links are called.
func (a *planAccount) names(holds []planHold) (names []string) {
	for i := range holds {
		name := a.name(&holds[i])
		if holds[i].count < len(a.of) {
			name += fmt.Sprintf(" for %d of them", holds[i].count)
		}
		names = append(names, name)
	}
	return names
}

// name is what a link is called among those that hold these destinations back.
func (a *planAccount) name(h *planHold) string {
	switch {
	case !h.own:
		return fmt.Sprintf("%s (%s)", a.link(h.Channel), rateOf(h.Rate))
	case a.one():
		return fmt.Sprintf("its own link %s (%s)", a.link(h.Channel), rateOf(h.Rate))
	}
	return "their own links"
}

// sharing says who else uses a full link.
func (a *planAccount) sharing(h *planHold) string {
	others := a.called(h.Others)
	switch {
	case h.own && len(others) == 0:
		return ""
	case len(others) == 0:
		return " with this transfer alone"
	case !a.of[0].Starved:
		return ", shared with " + several(others, 3)
	}
	text := " with " + several(others, 3)
	mine := a.transfers[a.of[0].Transfer].Priority
	if !slices.ContainsFunc(h.Others, func(k int) bool { return a.transfers[k].Priority <= mine }) {
		text += ", of higher priority"
	}
	return text
}

// whom is who has what one more byte per second brings.
func (a *planAccount) whom() string {
	text := "in all"
	if len(a.plan.Classes) > 1 {
		text = "to its priority"
	}
	return text + a.byWeight()
}

// instead is a sentence about what the sources would give that give nothing.
func (a *planAccount) instead() []string {
	sources := a.of[0].Offers
	lists := map[offered][]string{}
	for i := range sources {
		if what, name, some := a.offer(i); some {
			lists[what] = append(lists[what], name)
		}
	}
	switch {
	case len(sources) == 1 && len(lists[offersMore]) == 0:
		return []string{"There is no other source."}
	case len(lists) == 0:
		return []string{a.choose("It has a part from each of its sources.", "Each has a part from all sources.")}
	}
	var parts []string
	for _, p := range []struct {
		what offered
		text string
	}{
		{offersMore, "would give more"}, {offersAsMuch, "would give as much"}, {offersLess, "would give less"},
		{offersNothing, "would give nothing"}, {offersNoWay, "would have no way"},
	} {
		if names := lists[p.what]; len(names) > 0 {
			parts = append(parts, several(names, 3)+" "+p.text)
		}
	}
	lead := "Instead, "
	if len(a.of[0].From) == 0 {
		lead = "Directly, "
	}
	return []string{lead + strings.Join(parts, "; ") + "."}
}

// offer is what the source with this index would give to those that have nothing from it, and what it is called then. some is false if all have something from it.
func (a *planAccount) offer(i int) (what offered, name string, some bool) {
	rate, why := nobody, ""
	for j := range a.of {
		r := &a.of[j]
		o := &r.Offers[i]
		if gives(r, o.Source) {
			continue
		}
		full := a.full(o)
		if slices.ContainsFunc(bottlenecks(r), func(b planner.Bottleneck) bool { return b.Channel == o.Bottleneck.Channel }) { // that has been said
			full = ""
		}
		if !some || why == full {
			why = full
		} else {
			why = ""
		}
		what, rate, some = beside(r, o), rate.with(o.Rate), true
	}
	if !some {
		return 0, "", false
	}
	var details []string
	if what == offersMore || what == offersLess {
		details = append(details, rate.String())
	}
	if why != "" && (what == offersLess || what == offersNothing) {
		details = append(details, why)
	}
	name = a.g.Name(a.of[0].Offers[i].Source)
	if len(details) > 0 {
		name += " (" + strings.Join(details, ": ") + ")"
	}
	return what, name, true
}

// full says that the link that bounds an offer is full, if it is.
func (a *planAccount) full(o *planner.Offer) string {
	b := &o.Bottleneck
	switch {
	case b.Channel < 0:
		return ""
	case b.Rate == 0:
		return a.link(b.Channel) + " carries nothing"
	case !b.Full():
		return ""
	}
	return a.link(b.Channel) + " is full"
}

// sentence begins with a capital letter, unless what it begins with is a name.
func sentence(s string) string {
	if !strings.HasPrefix(s, "its ") && !strings.HasPrefix(s, "their ") {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
