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

// planAccount is what is said together of destinations of one transfer that fare alike.
type planAccount struct {
	*planView
	of []planner.Reason
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
		return "Higher priorities have the most that there is, lower ones what these leave" + v.floor() + "."
	}
	return "The plan has the flows that bring most to all together" + v.floor() + "."
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
	part := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	var names []string
	for _, c := range slices.SortedFunc(maps.Keys(links), func(a, b int) int { return cmp.Or(links[b]-links[a], a-b) }) {
		names = append(names, fmt.Sprintf("%s (%d)", v.link(c), links[c]))
	}
	part(own, "have all that their own links let in")
	part(over, "are held back by links further away, most by "+several(names, 3))
	part(beyond, "are held back by links that their data goes on over")
	part(free, "are held back by no full link")
	part(starved, "are starved")
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

// offered is what a source would give beside what a destination has.
type offered int

const (
	offersMore offered = iota
	offersAsMuch
	offersLess
	offersNothing
	offersNoWay
)

// beside compares an offer with what a destination has. A thousandth is no difference.
func beside(r *planner.Reason, o *planner.Offer) offered {
	const near = 1e-3
	switch {
	case o.Bottleneck.Channel < 0:
		return offersNoWay
	case o.Rate <= planner.Negligible*r.Alone:
		return offersNothing
	case o.Rate > r.Rate*(1+near):
		return offersMore
	case o.Rate >= r.Rate*(1-near):
		return offersAsMuch
	}
	return offersLess
}

// gives says whether a destination has something from a source.
func gives(r *planner.Reason, source int) bool {
	return slices.ContainsFunc(r.From, func(o planner.Origin) bool { return o.Source == source })
}

// planHold is a link that holds destinations back.
type planHold struct {
	planner.Bottleneck
	own   bool // it is that into the destination
	count int  // how many destinations
}

// key is the same for what is called the same.
func (h *planHold) key() string {
	if h.own {
		return fmt.Sprint("own", h.Others, h.Full())
	}
	return fmt.Sprint(h.Channel, h.Beyond, h.Full())
}

// holds are the links that hold these destinations back, those first that hold most. Own links with the same users are one.
func (v *planView) holds(of []planner.Reason) (holds []planHold) {
	at := map[string]int{}
	for i := range of {
		r := &of[i]
		told := map[string]bool{}
		for _, b := range bottlenecks(r) {
			h := planHold{Bottleneck: b, own: !b.Beyond && v.g.To(topo.Channel(b.Channel)) == r.Destination}
			key := h.key()
			if told[key] {
				continue
			}
			told[key] = true
			k, known := at[key]
			if !known {
				k = len(holds)
				at[key] = k
				holds = append(holds, h)
			}
			holds[k].count++
		}
	}
	slices.SortStableFunc(holds, func(a, b planHold) int { return b.count - a.count })
	return holds
}

// bottlenecks are those of a destination's flows, or if it has none of the ways from its sources over which nothing would come.
func bottlenecks(r *planner.Reason) (all []planner.Bottleneck) {
	for _, o := range r.From {
		if o.Rate >= 1e-3*r.Rate {
			all = append(all, o.Bottleneck)
		}
	}
	for _, o := range r.Offers {
		if len(r.From) == 0 && beside(r, &o) == offersNothing {
			all = append(all, o.Bottleneck)
		}
	}
	return all
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
	if slices.ContainsFunc(a.plan.Classes, func(c planner.Class) bool { return c.Weighted != c.Throughput }) {
		text += ", by weight"
	}
	return text
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

// sentence begins with a capital letter, unless what it begins with is a name.
func sentence(s string) string {
	if !strings.HasPrefix(s, "its ") && !strings.HasPrefix(s, "their ") {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// planWhy is why a destination has what it has, as --json with --explain prints it. Rates are bytes per second.
type planWhy struct {
	planPair
	Rate    float64      `json:"rate"`
	Alone   float64      `json:"alone"` // what it would have if nobody else sent anything
	Starved bool         `json:"starved"`
	From    []planOrigin `json:"from"`    // the flows that it is in, most first
	Sources []planOffer  `json:"sources"` // what each would give instead
}

type planOrigin struct {
	Source     string          `json:"source"`
	Before     string          `json:"before"` // who passes it on: the source, or a destination
	Rate       float64         `json:"rate"`
	Bottleneck *planBottleneck `json:"bottleneck"`
}

type planOffer struct {
	Source     string          `json:"source"`
	Rate       float64         `json:"rate"`
	Bottleneck *planBottleneck `json:"bottleneck"` // nil: there is no way
}

type planBottleneck struct {
	From   string   `json:"from"`
	To     string   `json:"to"`
	Rate   float64  `json:"rate"`
	Used   float64  `json:"used"`   // share of the rate
	Beyond bool     `json:"beyond"` // it comes after the destination
	Others []string `json:"others"` // transfers that use it, too
	Worth  float64  `json:"worth"`  // what a byte per second more of it would bring; 0: nothing, or nobody knows
}

// why is what explain says, for programs.
func (v *planView) why() (all []planWhy) {
	for _, r := range v.p.Explain(v.plan) {
		w := planWhy{planPair: planPair{v.transfers[r.Transfer].Name, v.g.Name(r.Destination)}, Rate: r.Rate, Alone: r.Alone, Starved: r.Starved, From: []planOrigin{}}
		for _, o := range r.From {
			w.From = append(w.From, planOrigin{v.g.Name(o.Source), v.g.Name(o.Before), o.Rate, v.bottleneck(o.Bottleneck)})
		}
		for _, o := range r.Offers {
			w.Sources = append(w.Sources, planOffer{v.g.Name(o.Source), o.Rate, v.bottleneck(o.Bottleneck)})
		}
		all = append(all, w)
	}
	return all
}

// bottleneck is a link that holds something back, for programs; nil: there is none.
func (v *planView) bottleneck(b planner.Bottleneck) *planBottleneck {
	if b.Channel < 0 {
		return nil
	}
	c := topo.Channel(b.Channel)
	return &planBottleneck{v.g.Name(v.g.From(c)), v.g.Name(v.g.To(c)), b.Rate, b.Used, b.Beyond, append([]string{}, v.called(b.Others)...), b.Worth}
}
