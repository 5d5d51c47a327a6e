package account

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Cause is what held a job up, or the resource that was used as well as can be.
type Cause struct {
	What string `json:"what"`           // one of the constants below; empty: nothing stands out
	Name string `json:"name,omitempty"` // the node, where it is one node's
	Why  string `json:"why,omitempty"`  // what that is taken from, in words
}

// What can hold a job up.
const (
	ByStore     = "store"
	BySiteLink  = "site link"
	ByNIC       = "nic"
	ByDisk      = "disk"
	ByCPU       = "cpu"
	ByStraggler = "straggler"
	ByPeers     = "peers" // the exchange between nodes, of whose links nothing is known
)

// When something counts as the cause.
const (
	nearBound  = 1.15 // times the bound
	farBehind  = 1.3  // times the median of the nodes
	behindS    = 0.5  // seconds, so that small jobs' jitter names nobody
	mostTime   = 0.5  // of the time that nodes took
	mostlyUsed = 0.8  // of a capacity
)

// BusyAbove is the share of a machine's processors above which a second counts as busy.
const BusyAbove = 0.85

// resource is what a part of the bound is called as a cause.
func (p *Part) resource() string {
	switch p.By {
	case "store":
		return ByStore
	case "downlink", "uplinks":
		return ByNIC
	}
	return BySiteLink
}

// cause applies the rule of the package comment. a has all but the cause.
func (j *Job) cause(a Account) Cause {
	if p := a.Binding(); p != nil && a.Ratio <= nearBound {
		c := Cause{What: p.resource(), Name: p.Name, Why: fmt.Sprintf("%s sets the bound, and it took no more than %.2f times that", p.Title(), a.Ratio)}
		if why := a.Beaten(); why != "" {
			c.Why += ": " + why
		}
		return c
	}
	nodes := j.needers()
	if c, ok := held(nodes, ByCPU); ok {
		return c
	}
	if late := j.stragglers(); len(late) > 0 {
		last := slices.MaxFunc(late, func(x, y *Node) int { return cmp.Compare(x.DoneS, y.DoneS) })
		c := Cause{What: ByStraggler, Name: last.Name, Why: fmt.Sprintf("%s after %s, the median node after %s", last.Name, seconds(last.DoneS), seconds(median(nodes)))}
		if why := j.alone(last); why != "" {
			c.Why += "; " + why
		}
		return c
	}
	if c, ok := held(nodes, ByDisk); ok {
		return c
	}
	var most *Part
	for i := range a.Parts {
		if p := &a.Parts[i]; p.Used >= mostlyUsed && (most == nil || p.Used > most.Used) {
			most = p
		}
	}
	if most != nil {
		return Cause{What: most.resource(), Name: most.Name, Why: fmt.Sprintf("%s was used to %.0f %%", most.Title(), 100*min(most.Used, 1))}
	}
	for _, what := range []string{ByStore, ByPeers} {
		if c, ok := held(nodes, what); ok {
			return c
		}
	}
	return Cause{Why: "nothing that was measured stands out"}
}

// alone says what held one node up.
func (j *Job) alone(n *Node) string {
	for _, what := range []string{ByCPU, ByDisk, ByStore, ByPeers} {
		if c, ok := held([]*Node{n}, what); ok {
			return c.Why
		}
	}
	return ""
}

// held says whether something took most of the time that these nodes needed.
func held(nodes []*Node, what string) (Cause, bool) {
	words := map[string]string{
		ByCPU:   "its processors were busy",
		ByDisk:  "the disk was waited for",
		ByStore: "the store was read from or waited for",
		ByPeers: "there were only peers to wait for",
	}
	var took, all float64
	for _, n := range nodes {
		c := &n.Course
		if c.Seconds <= 0 {
			continue
		}
		all += c.Seconds
		switch what {
		case ByCPU:
			took += min(c.BusyS, c.Seconds)
		case ByDisk:
			took += min(c.Spent[ForDisk]+c.WriteS, c.Seconds)
		case ByStore: // while anybody reads there are pieces that only the store has, and others are waited for because they read
			took += min(c.Spent.Sum(FromStore, FromBoth, ForStore, ForBarrier), c.Seconds)
		case ByPeers:
			took += min(c.Spent.Sum(FromPeers, ForPeers), c.Seconds)
		}
	}
	if all == 0 || took < mostTime*all {
		return Cause{}, false
	}
	text := words[what]
	if what == ByCPU && len(nodes) != 1 {
		text = "the nodes' processors were busy"
	}
	return Cause{What: what, Why: fmt.Sprintf("%s during %.0f %% of the time", text, 100*took/all)}, true
}

// stragglers are the nodes far behind the others: a few, or they would not be others'.
func (j *Job) stragglers() (late []*Node) {
	nodes := slices.DeleteFunc(j.needers(), func(n *Node) bool { return n.DoneS <= 0 })
	if len(nodes) < 2 {
		return nil
	}
	limit := median(nodes)*farBehind + behindS
	for _, n := range nodes {
		if n.DoneS > limit {
			late = append(late, n)
		}
	}
	if len(late) > max(1, len(nodes)/8) {
		return nil
	}
	return late
}

// median is that of the times at which nodes had the object; of an even number of them the lower.
func median(nodes []*Node) float64 {
	var at []float64
	for _, n := range nodes {
		if n.DoneS > 0 {
			at = append(at, n.DoneS)
		}
	}
	if len(at) == 0 {
		return 0
	}
	slices.Sort(at)
	return at[(len(at)-1)/2]
}

// Beaten says of a job that took less than its bound how that can be; empty if
// it did not.
func (a *Account) Beaten() string {
	const told = 0.995 // below it a ratio is not printed as 1.00
	p := a.Binding()
	if p == nil || a.Ratio <= 0 || a.Ratio >= told {
		return ""
	}
	why := "more went through than " + p.Sources() // what was seen or probed may be less than there is
	if p.By == "site" {
		why += ", or the store is inside site " + p.Name + ": then leave out what leads into it (--declare)"
	}
	return why
}

// Refuted says of a part whose resource is known that it is none: the job has shown so.
func (p *Part) Refuted() bool { return p.Rate > 0 && p.Seconds == 0 }

// Title is what a part of the bound is called in a sentence.
func (p *Part) Title() string {
	switch p.By {
	case "downlink":
		if p.Name != "" {
			return "the link into " + p.Name
		}
		if p.Seconds > 0 {
			return "the links into the nodes"
		}
		return "the slowest link into a node"
	case "uplinks":
		return "what the store and all nodes can send"
	case "site":
		return "the link into site " + p.Name
	}
	return "the " + p.By
}

// Sources are where the part's capacities are from, in words.
func (p *Part) Sources() string {
	words := make([]string, len(p.From))
	for i, s := range p.From {
		words[i] = s.on(p.Probed)
	}
	return strings.Join(words, ", ")
}

// Source is from where the capacity is known, in words; empty if it is not known.
func (c Capacity) Source() string {
	if !c.Known() {
		return ""
	}
	return c.From.on(c.At)
}

// on is s in words, with the day of a probe.
func (s Source) on(probed time.Time) string {
	switch s {
	case Declared:
		return "declared"
	case NIC:
		return "network interface"
	case Probed:
		return "probed " + probed.UTC().Format(time.DateOnly)
	}
	return "seen in another job"
}

// Unknown says why the bound is unknown, and what can be done about it; empty if it is known.
func (a *Account) Unknown() string {
	switch {
	case a.Bound > 0:
		return ""
	case len(a.Parts) == 0:
		return "nothing had to be moved"
	}
	return a.Parts[0].Unknown()
}

// Unknown says of a part of which nobody knows what it carries why that is, and
// what can be done about it; empty if it is known.
func (p *Part) Unknown() string {
	if p.Seconds > 0 {
		return ""
	}
	of := ""
	if len(p.Missing) > 0 {
		const most = 3
		of = " of " + strings.Join(p.Missing[:min(len(p.Missing), most)], ", ")
		if more := len(p.Missing) - most; more > 0 {
			of += fmt.Sprintf(" and %d more", more)
		}
	}
	switch p.By {
	case "downlink":
		return "nobody knows what the links" + of + " carry: measure them (freshet probe), or declare them (--declare in=RATE of up and agent)"
	case "store":
		return "nobody knows what the store gives" + strings.Replace(of, " of", " to", 1) + ": measure it (freshet probe --source URL), or declare it (--declare store=RATE of broadcast)"
	case "uplinks":
		return "nobody knows what the store and the links" + of + " give: measure them (freshet probe --source URL), or declare them (--declare out=RATE,store=RATE of up and agent)"
	}
	if p.Refuted() {
		return fmt.Sprintf("%v into site %s cannot be what the object came over, which was there much sooner: leave it out of --declare if the store is inside that site, or declare what the link carries", p.Rate, p.Name)
	}
	return fmt.Sprintf("nobody knows what the link into site %s carries: declare it (--declare site.%s=RATE of broadcast)", p.Name, p.Name)
}

// String is the cause in a few words: "the store", "n3, a straggler".
func (c Cause) String() string {
	of := func(s string) string {
		if c.Name != "" {
			return s + " of " + c.Name
		}
		return s
	}
	switch c.What {
	case ByStore:
		return "the store"
	case BySiteLink:
		if c.Name != "" {
			return "the link into site " + c.Name
		}
		return "the link between sites"
	case ByNIC:
		if c.Name != "" {
			return "the network link of " + c.Name
		}
		return "the nodes' network links"
	case ByDisk:
		return of("the disk")
	case ByCPU:
		return of("the processors")
	case ByStraggler:
		return "a straggler, " + c.Name
	case ByPeers:
		return "the exchange between nodes"
	}
	return "nothing that stands out"
}

func seconds(s float64) string { return fmt.Sprintf("%.2f s", s) }
