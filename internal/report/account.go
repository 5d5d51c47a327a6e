package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/swarm"
	"github.com/freshet/freshet/unit"
)

// Event is a line of a recording. Beside what nodes record there are lines that
// whoever collects it adds, from what the control plane keeps of every job:
//
//	kind     fields                                        meaning
//	course   node store_bytes peer_bytes sent_bytes course  how the node's part went; course may be missing
//	account  account                                       what the job took and what held it up (one a job)
//
// With these alone, and run, done and failed events, there is a page too: what
// was recorded piece by piece is then not on it.
type Event struct {
	swarm.Event
	StoreBytes int64            `json:"store_bytes,omitzero"`
	PeerBytes  int64            `json:"peer_bytes,omitzero"`
	SentBytes  int64            `json:"sent_bytes,omitzero"`
	Course     *account.Course  `json:"course,omitzero"`
	Account    *account.Account `json:"account,omitzero"`
}

// maxSteps bounds a time line; a node's own has fewer.
const maxSteps = 1000

// takeCourse takes what a course event says of a node.
func (n *Node) takeCourse(e *Event) bool {
	for _, b := range []int64{e.StoreBytes, e.PeerBytes, e.SentBytes} {
		if b < 0 || b > maxObject {
			return false
		}
	}
	n.told = [3]unit.Bytes{unit.Bytes(e.StoreBytes), unit.Bytes(e.PeerBytes), unit.Bytes(e.SentBytes)}
	if e.Course != nil {
		if c := e.Course; c.Step > maxSeconds || c.DoStep > maxSeconds || c.Seconds > maxSeconds {
			return false
		}
		n.course = e.Course.Bounded(maxSteps)
	}
	return true
}

// takeAccount takes what an account event says, and nothing that a page could not show.
func (r *Run) takeAccount(a *account.Account) bool {
	if a == nil || r.account != nil || len(a.Parts) > maxNames || len(a.Entries) > maxNames || len(a.Stragglers) > maxNames {
		return false
	}
	good := func(v float64) bool { return v >= 0 && v <= math.MaxFloat32 }
	ok := good(a.Seconds) && good(a.Bound) && good(a.Ratio) && good(a.CPUPerGB)
	clone := *a
	clone.Cause = account.Cause{What: cut(a.Cause.What), Name: cut(a.Cause.Name), Why: cut(a.Cause.Why)}
	clone.Stragglers = nil
	for _, s := range a.Stragglers {
		clone.Stragglers = append(clone.Stragglers, cut(s))
	}
	clone.Entries = nil
	for _, e := range a.Entries {
		ok = ok && e.Nodes >= 0 && e.Store >= 0 && e.Others >= 0 && good(e.Copies)
		e.Site = cut(e.Site)
		clone.Entries = append(clone.Entries, e)
	}
	clone.Parts = nil
	for _, p := range a.Parts {
		ok = ok && good(p.Seconds) && good(float64(p.Rate)) && good(p.Used) && len(p.From) < 8 && len(p.Missing) <= maxNames
		p.By, p.Name, p.Missing = cut(p.By), cut(p.Name), slices.Clone(p.Missing)
		for i := range p.Missing {
			p.Missing[i] = cut(p.Missing[i])
		}
		clone.Parts = append(clone.Parts, p)
	}
	if !ok {
		return false
	}
	r.account = &clone
	return true
}

// hasLines says whether there is a time line of some node.
func (r *Run) hasLines() bool {
	return slices.ContainsFunc(r.Nodes, func(n *Node) bool { return n.course.Step > 0 })
}

// hasCourses says whether it is known of some node what its time went into.
func (r *Run) hasCourses() bool {
	return slices.ContainsFunc(r.Nodes, func(n *Node) bool { return n.course.Seconds > 0 })
}

// hasDoings says whether it is known of some node what it was at, and when.
func (r *Run) hasDoings() bool {
	return slices.ContainsFunc(r.Nodes, func(n *Node) bool { return n.course.DoStep > 0 })
}

// stretch is a time in which a node was at one thing, in seconds.
type stretch struct {
	from, to float64
	is       account.Doing
}

// stretches are what the node was at until it had the object, or failed.
func (n *Node) stretches() (out []stretch) {
	k, until := n.course, n.ended()
	add := func(s stretch) {
		if last := len(out) - 1; last >= 0 && out[last].is == s.is {
			out[last].to = s.to
		} else if s.to > s.from {
			out = append(out, s)
		}
	}
	at := 0.0
	for i := 0; i < len(k.Do) && at < until; i++ {
		to := min(float64(i+1)*k.DoStep, until)
		add(stretch{at, to, account.DoingOf(k.Do[i])})
		at = to
	}
	if at < until {
		add(stretch{at, until, account.Other})
	}
	return out
}

// ended is when the node had the object or failed or, if it told neither, how long its part took.
func (n *Node) ended() float64 { return cmp.Or(n.DoneAt, n.course.Seconds) }

// doingHues are the colours of what nodes are at.
var doingHues = []hue{
	account.Other: closing, account.FromStore: store, account.FromBoth: both, account.FromPeers: peers,
	account.ForStore: waitStore, account.ForBarrier: held3, account.ForPeers: waitPeers, account.ForDisk: taken,
}

// lineEnd is where the node's time line has its last bytes that came in.
func (n *Node) lineEnd() float64 {
	for i := len(n.course.Store) - 1; i >= 0; i-- {
		if n.course.Store[i]+n.course.Peers[i] > 0 {
			return float64(i+1) * n.course.Step
		}
	}
	return 0
}

// spread adds a line's bytes to steps of another width, as rates.
func spread(out []float64, width float64, line []int64, step float64) {
	for i, bytes := range line {
		from, to := float64(i)*step, float64(i+1)*step
		for k := max(0, int(from/width)); k < len(out) && float64(k)*width < to; k++ {
			share := (min(to, float64(k+1)*width) - max(from, float64(k)*width)) / step
			if share > 0 {
				out[k] += share * float64(bytes) / width
			}
		}
	}
}

// spent shows what each node was at until it had the object, and when, and the
// bound as a dashed line.
func spent(r *Run, nodes []*Node, end float64, f format) panel {
	h := rowHeight(len(nodes))
	p := newPlot(timeTitle, "node")
	spanX(p, end, f)
	rowsY(p, nodes, f, h)
	p.Add(drawn(func(c draw.Canvas, x, y func(float64) vg.Length) {
		vertical(c, p, x)
		all := make([]boxes, len(doingHues))
		for i, n := range nodes {
			for _, s := range n.stretches() {
				all[s.is].add(x(s.from), y(float64(i)+0.36), x(s.to), y(float64(i)-0.36))
			}
		}
		for is := range all {
			all[is].fill(c, doingHues[is])
		}
		bound := c.Min.X - 100
		if r.Bound > 0 && r.Bound <= end {
			bound = x(r.Bound)
			line(c, ink, 1.5, []vg.Length{5, 3}, bound, c.Min.Y, bound, c.Max.Y)
		}
		for i, n := range nodes {
			at, mid := x(n.ended()), y(float64(i))
			label, col := seconds(n.DoneAt), ink
			switch n.State {
			case Failed:
				cross(c, at, mid, min(4, h/3))
				label, col, at = "failed", bad, at+4
			case Unfinished:
				label, col = "no end recorded", bad
			}
			if at < bound && bound < at+noteWidth(p, h, label)+8 {
				at = bound
			}
			note(c, p, at+4, mid, h, col, label)
		}
	}))
	return panel{plot: p, height: h*vg.Length(len(nodes)) + 46,
		label: fmt.Sprintf("%s: what each of %d nodes was at, over time", r.label, len(r.Nodes))}
}

// limits are the parts of a run's bound as the page shows them.
type limits struct {
	Run     string
	Verdict string
	Rows    []limit
	Sites   [][]string // what came into each; none: nodes were of one, or of none
}

type limit struct {
	Title, Seconds, Rate, From, Used, Unknown string
	Binding                                   bool
}

// limit says of each run what bounds it, and what held it up.
func (v *view) limit(rec *Recording) {
	for _, r := range rec.Runs {
		a := r.account
		if a == nil {
			continue
		}
		l := limits{Run: r.label, Verdict: r.verdict()}
		binding := a.Binding()
		for i := range a.Parts {
			p := &a.Parts[i]
			k := limit{Title: upper(p.Title()), Seconds: unknown, Rate: unknown, From: cmp.Or(p.Sources(), "–"), Used: "–", Unknown: upper(p.Unknown()), Binding: p == binding}
			if p.Seconds > 0 {
				k.Seconds = seconds(p.Seconds)
				if len(p.Missing) > 0 {
					k.Unknown = "Not known of " + named(p.Missing)
				}
			}
			if p.Rate > 0 {
				k.Rate = p.Rate.String()
			}
			if p.Used > 0 {
				k.Used = fmt.Sprintf("%.0f\u00a0%%", 100*p.Used)
			}
			l.Rows = append(l.Rows, k)
		}
		for _, e := range a.Entries {
			l.Sites = append(l.Sites, []string{e.Site, fmt.Sprint(e.Nodes), fmt.Sprintf("%.2f\u00a0×", e.Copies), e.Store.String(), e.Others.String()})
		}
		v.Limits = append(v.Limits, l)
	}
}

// cameIn is in short what came into sites, in multiples of the object.
func cameIn(entries []account.Entry) string {
	var parts []string
	for _, e := range entries {
		parts = append(parts, fmt.Sprintf("%s %.2f\u00a0×", e.Site, e.Copies))
	}
	return named(parts)
}

// verdict is what is to be known of a run in one line; empty if there is nothing.
func (r *Run) verdict() string {
	a := r.account
	if a == nil || a.Seconds <= 0 {
		return ""
	}
	var parts []string
	if p := a.Binding(); p != nil {
		far := fmt.Sprintf("%s the bound, set by %s (%v, %s)", times(a.Ratio), p.Title(), p.Rate, p.Sources())
		if why := a.Beaten(); why != "" {
			far += ": " + why
		}
		parts = append(parts, far)
	} else {
		parts = append(parts, "the bound is unknown: nobody knows what the network carries")
	}
	if a.Cause.What != "" {
		parts = append(parts, fmt.Sprintf("held up by %v", a.Cause))
	} else {
		parts = append(parts, cmp.Or(a.Cause.Why, a.Cause.String()))
	}
	late := "none"
	if len(a.Stragglers) > 0 {
		late = named(a.Stragglers)
	}
	return upper(strings.Join(append(parts, "stragglers: "+late), "; ")) + "."
}

// upper is a sentence that begins with a capital letter.
func upper(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	if first == utf8.RuneError {
		return s
	}
	return string(unicode.ToUpper(first)) + s[n:]
}

// named is a list of names: a few of many.
func named(names []string) string {
	const most = 6
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// spending is what a node's time went into until it had the object.
func (n *Node) spending() []string {
	row, k := []string{n.Name}, n.course
	var times []float64
	for _, is := range slices.Concat(account.Coming, account.Waiting) {
		times = append(times, k.Spent[is])
	}
	for _, s := range append(times, k.WriteS, k.BusyS, k.CPUS) {
		if k.Seconds <= 0 {
			row = append(row, "–")
		} else {
			row = append(row, seconds(s))
		}
	}
	return row
}

// carries is what a node's network carries, and from where that is known.
func (n *Node) carries() []string {
	row := []string{n.Name}
	for _, c := range []account.Capacity{n.course.Carries.In, n.course.Carries.Out, n.course.Carries.Store} {
		if !c.Known() {
			row = append(row, unknown)
		} else {
			row = append(row, c.Rate.String()+" ("+c.Source()+")")
		}
	}
	return row
}
