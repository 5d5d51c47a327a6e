// Package account gives an account of a broadcast: the least time that it could
// have taken, how long it took, and what held it up.
//
//	each node:  totals of bytes ─ Line ─▶ Course ─┐   what it carries: Capacities
//	                                              ├─▶ Job ─ Of ─▶ Account
//	the job's record: sizes, times, bytes ────────┘
//
// The bound is that of package steal. What goes into it are capacities, and a
// capacity is never taken from the job that it is held against: it was declared,
// is the speed of the network interface, was measured by a probe, or was seen in
// another job (Source). One that nobody knows is no limit, and the part of the bound that needs it is unknown. So is that of a
// link into a site whose nodes had the object much sooner than it can have come that way: the store is inside.
//
// What held a job up is a rule over what was measured (Cause), the first of these
// that holds:
//
//	the time is near the bound          the resource that sets the bound
//	processors busy most of the time    cpu
//	few nodes far behind the others     straggler, by name, and what that one waited for
//	waiting for the disk                disk
//	a capacity used up                  store, site link or nic
//	waiting for the store or for peers  store, peers
//
// It is a statement of where to look first, not a proof.
package account

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// Source says where a capacity is from.
type Source string

// The sources, the best first.
const (
	Declared Source = "declared" // by whoever runs the node or the job
	NIC      Source = "nic"      // the speed of the network interface, without the headers
	Probed   Source = "probed"   // the most that went through in one second of a probe
	Seen     Source = "seen"     // the most that went through in one second of another job
)

// Capacity is what something carries, in bytes of payload per second. The zero
// Capacity is unknown.
type Capacity struct {
	Rate unit.Bandwidth `json:"rate"`
	From Source         `json:"from"`
	At   time.Time      `json:"at,omitzero"` // when it was probed; zero of other sources
}

// Known says whether there is one.
func (c Capacity) Known() bool { return c.Rate > 0 }

// Payload is what of a line's rate is left for the bytes of TCP streams: an Ethernet
// header takes 14 bytes of each frame, IPv4 and TCP with a timestamp 52 of the mtu
// (0: Ethernet's 1500).
func Payload(line unit.Bandwidth, mtu int) unit.Bandwidth {
	const ethernet, frame, packet = 1500, 14, 52
	if mtu <= packet {
		mtu = ethernet
	}
	return line * unit.Bandwidth(mtu-packet) / unit.Bandwidth(mtu+frame)
}

// Capacities are what a node's network carries. Unknown ones are left out of JSON.
type Capacities struct {
	In    Capacity `json:"in,omitzero"`    // all that comes in, from the store too
	Out   Capacity `json:"out,omitzero"`   // to other nodes
	Store Capacity `json:"store,omitzero"` // what the store gives it
}

// Job is what there is to know of a broadcast that has ended.
type Job struct {
	Size  unit.Bytes // of the object
	Done  bool       // every node has the object
	Store Capacity   // what the store gives to all nodes together
	Sites []Site     // where its nodes are, if that is more than one place
	Nodes []Node
}

// Site is what nodes share that stand together.
type Site struct {
	Name    string
	Inbound Capacity // what can come into it from outside
	Held    bool     // a node there had the object before: none of it has to come in
}

// Node is one node's part.
type Node struct {
	Name     string
	Site     string     // empty: of none
	Held     bool       // it had the object before, and only gave
	Kept     unit.Bytes // of it that it had before, where it had some
	KeptSet  string     // which part that was: nodes of the same had the same; empty: nobody knows
	NoAccess bool       // it may not read the store
	DoneS    float64    // seconds until it had the object; zero: it did not get it
	Store    unit.Bytes
	Peers    unit.Bytes
	Crossed  unit.Bytes // of these from nodes that are not of its site
	Sent     unit.Bytes
	Course   Course // zero: it told none
}

// Account is what Of makes of a Job. Of what is unknown it has zero.
type Account struct {
	Seconds    float64  `json:"seconds,omitzero"`  // until the last node had it; zero unless all have
	Bound      float64  `json:"bound,omitzero"`    // seconds: the least possible, as far as capacities are known
	Ratio      float64  `json:"ratio,omitzero"`    // Seconds / Bound
	Parts      []Part   `json:"parts,omitempty"`   // of the bound, unknown ones too
	Entries    []Entry  `json:"entries,omitempty"` // by site, if there are several
	Cause      Cause    `json:"cause,omitzero"`
	Stragglers []string `json:"stragglers,omitempty"`   // nodes far behind the others
	CPUPerGB   float64  `json:"cpu_s_per_gb,omitempty"` // processor seconds for 10⁹ bytes that a node got, with what it gave, and a hub in its process
}

// Part is one part of the bound.
type Part struct {
	By      string         `json:"by"`                // downlink, store, uplinks, site
	Name    string         `json:"name,omitempty"`    // the node's or the site's, where it is not all nodes'
	Seconds float64        `json:"seconds,omitzero"`  // zero: unknown, or Refuted
	Rate    unit.Bandwidth `json:"rate,omitzero"`     // of the resource; zero: unknown
	From    []Source       `json:"from,omitempty"`    // of the capacities in it, each once
	Probed  time.Time      `json:"probed,omitzero"`   // when the oldest of those that were probed was
	Used    float64        `json:"used,omitzero"`     // the share of it that was used until the end, on the mean; zero if unknown
	Missing []string       `json:"missing,omitempty"` // nodes whose capacity is unknown
}

// Entry is what came into a site, in payload. Nobody says where the store is: what
// the site's nodes read from it counts as coming in, and stands apart.
type Entry struct {
	Site   string     `json:"site"`
	Nodes  int        `json:"nodes"`
	Store  unit.Bytes `json:"store"`  // from the store
	Others unit.Bytes `json:"others"` // from nodes that are not of the site
	Copies float64    `json:"copies"` // both together, in multiples of the object
}

// Of works the account out.
func Of(j Job) Account {
	var a Account
	for _, n := range j.Nodes {
		if !n.Held {
			a.Seconds = max(a.Seconds, n.DoneS)
		}
	}
	if a.Seconds = figure(a.Seconds); !j.Done {
		a.Seconds = 0
	}
	j = j.counted()
	a.Entries = j.entries()
	a.Parts = j.parts(a.Seconds, a.Entries)
	for i := range a.Parts {
		a.Parts[i].figures()
	}
	for _, p := range a.Parts {
		a.Bound = max(a.Bound, p.Seconds)
	}
	if a.Bound > 0 {
		a.Ratio = a.Seconds / a.Bound
	}
	a.CPUPerGB = j.cpuPerGB()
	if a.Seconds > 0 {
		for _, n := range j.stragglers() {
			a.Stragglers = append(a.Stragglers, n.Name)
		}
		a.Cause = j.cause(a)
	}
	a.Ratio, a.CPUPerGB = figure(a.Ratio), figure(a.CPUPerGB) // not before: a ratio that is too large is not one near the bound
	return a
}

// figure is v, or zero, which is unknown, where that is no number that JSON and pages have: a job may declare any rate, and old records may have any time.
func figure(v float64) float64 {
	if !(v >= 0 && v <= math.MaxFloat32) {
		return 0
	}
	return v
}

// figures makes p unknown where its numbers are none that can be shown.
func (p *Part) figures() {
	if rate := float64(p.Rate); figure(rate) != rate || figure(p.Seconds) != p.Seconds {
		p.Rate, p.Seconds, p.Used = 0, 0, 0
	}
	p.Used = figure(p.Used)
}

// Binding is the part that sets the bound; nil if it is unknown.
func (a *Account) Binding() *Part {
	for i := range a.Parts {
		if p := &a.Parts[i]; p.Seconds > 0 && p.Seconds == a.Bound {
			return p
		}
	}
	return nil
}

// needers are the nodes that the object is brought to.
func (j *Job) needers() (out []*Node) {
	for i := range j.Nodes {
		if n := &j.Nodes[i]; !n.Held {
			out = append(out, n)
		}
	}
	return out
}

// counted is j where who lacked nothing but empty files held the object: nothing has to be moved to it, or to come into its site.
func (j Job) counted() Job {
	j.Nodes, j.Sites = slices.Clone(j.Nodes), slices.Clone(j.Sites)
	for i := range j.Nodes {
		n := &j.Nodes[i]
		if n.Held || j.Size == 0 || n.Kept < j.Size {
			continue
		}
		n.Held = true
		for k := range j.Sites {
			j.Sites[k].Held = j.Sites[k].Held || j.Sites[k].Name == n.Site
		}
	}
	return j
}

// slowest are the needers over whose links, of those that are known, what they lacked takes the longest, and how long that is.
func (j *Job) slowest() (nodes []*Node, seconds float64) {
	takes := func(n *Node) float64 {
		if in := n.Course.Carries.In; in.Known() {
			return float64(j.Size-n.Kept) / float64(in.Rate)
		}
		return 0
	}
	for _, n := range j.needers() {
		seconds = max(seconds, takes(n))
	}
	for _, n := range j.needers() {
		if took := takes(n); took > 0 && took >= seconds*(1-same) {
			nodes = append(nodes, n)
		}
	}
	return nodes, seconds
}

// fresh is how much of the object, at least, none of the needers that are meant had before: that much had to come from elsewhere to them. What several
// had is taken off once. Of parts that are not the same nobody knows how much is in both: each is taken off whole.
func (j *Job) fresh(meant func(n *Node) bool) unit.Bytes {
	type part struct {
		set   string
		bytes unit.Bytes
	}
	left, off := j.Size, map[part]bool{}
	for _, n := range j.needers() {
		p := part{n.KeptSet, n.Kept}
		if !meant(n) || p.set != "" && off[p] {
			continue
		}
		off[p] = true
		left = max(left-n.Kept, 0)
	}
	return left
}

// entries are what came into each site.
func (j *Job) entries() (out []Entry) {
	for _, s := range j.Sites {
		e := Entry{Site: s.Name}
		for _, n := range j.Nodes {
			if n.Site == s.Name {
				e.Nodes++
				e.Store, e.Others = Sum(e.Store, n.Store), Sum(e.Others, n.Crossed)
			}
		}
		if j.Size > 0 {
			e.Copies = (float64(e.Store) + float64(e.Others)) / float64(j.Size)
		}
		out = append(out, e)
	}
	return out
}

// parts are those of the bound. Where nodes held the object before, they give
// beside the store, so their uplinks stand beside its capacity. To a node that had some of several files before the others have to come; from the
// store, or into a site, what none of its nodes had.
func (j *Job) parts(seconds float64, entries []Entry) []Part {
	needers := j.needers()
	if len(needers) == 0 || j.Size <= 0 {
		return nil
	}
	var down, store, up Part
	var rates steal.Rates
	slowest, longest := j.slowest()
	lacked := 0.0             // by all of them, bytes
	total, givers := 0.0, 0.0 // infinite where one is unknown
	for i := range j.Nodes {
		n := &j.Nodes[i]
		c := n.Course.Carries
		if n.Held {
			givers += up.take(n.Name, c.Out)
			continue
		}
		down.take(n.Name, c.In)
		lacked += float64(j.Size - n.Kept)
		up.take(n.Name, c.Out)
		rates.Up = append(rates.Up, c.Out.Rate)
		if !n.NoAccess {
			total += store.take(n.Name, c.Store)
		}
	}
	if j.Store.Known() && (float64(j.Store.Rate) <= total || slices.ContainsFunc(store.From, Source.AtLeast)) {
		store, total = Part{}, float64(j.Store.Rate)
		store.name(j.Store)
	}
	var fed []int // the sites that the object has to come into
	for i, s := range j.Sites {
		if !s.Held {
			fed = append(fed, i)
			rates.Sites = append(rates.Sites, steal.Inbound{Site: s.Name, Rate: s.Inbound.Rate})
		}
	}
	if total += givers; !math.IsInf(total, 1) {
		rates.Total = unit.Bandwidth(total)
	}
	up.From, up.Probed = union(up.From, store.From), older(up.Probed, store.Probed)
	up.Missing = union(up.Missing, store.Missing)

	var read, sent unit.Bytes
	for _, n := range j.Nodes {
		read = Sum(read, n.Store)
		if n.Held {
			read = Sum(read, n.Sent)
		} else {
			sent = Sum(sent, n.Sent)
		}
	}
	var out []Part
	for i, p := range steal.Parts(j.Size, len(needers), rates) {
		part := Part{By: p.By, Seconds: p.Seconds, Rate: p.Rate}
		share := 1.0 // of what that reckons with, what has to come over it
		switch {
		case p.By == "store":
			share = float64(j.fresh(func(*Node) bool { return true })) / float64(j.Size)
		case p.By == "uplinks":
			share = lacked / (float64(len(needers)) * float64(j.Size))
		case i >= 3:
			site := j.Sites[fed[i-3]].Name
			share = float64(j.fresh(func(n *Node) bool { return n.Site == site })) / float64(j.Size)
		}
		if share == 0 { // it may be as narrow as it likes
			continue
		}
		part.Seconds *= share
		var moved unit.Bytes
		over := seconds
		switch p.By {
		case "downlink": // each link for what its node lacked
			part.Missing, part.Seconds = down.Missing, longest
			carries := 0.0 // these links, until the nodes had it; bytes
			for _, n := range slowest {
				in := n.Course.Carries.In
				part.name(in)
				if part.Rate == 0 || in.Rate < part.Rate {
					part.Rate = in.Rate
				}
				moved, carries = Sum(moved, Sum(n.Store, n.Peers)), carries+float64(in.Rate)*n.DoneS
			}
			if slowest != nil {
				over = carries / float64(part.Rate)
			}
			if len(slowest) < len(needers) {
				part.Name = few(slowest)
			}
		case "store":
			part.From, part.Probed, part.Missing, moved = store.From, store.Probed, store.Missing, read
		case "uplinks":
			part.From, part.Probed, part.Missing, moved = up.From, up.Probed, up.Missing, Sum(read, sent)
		default: // after those three the sites, in their order
			k := fed[i-3]
			part.By, part.Name = "site", j.Sites[k].Name
			moved = Sum(entries[k].Store, entries[k].Others)
			if took := j.took(part.Name); seconds > 0 && took > 0 && took < refuted*part.Seconds {
				part.Seconds = 0
			}
			if in := j.Sites[k].Inbound; in.Known() {
				part.name(in)
			}
		}
		if part.Seconds > 0 && over > 0 && seconds > 0 {
			part.Used = float64(moved) / (float64(part.Rate) * over)
		}
		out = append(out, part)
	}
	return out
}

// took is how long it was until the last node of a site had the object.
func (j *Job) took(site string) (seconds float64) {
	for _, n := range j.needers() {
		if n.Site == site {
			seconds = max(seconds, n.DoneS)
		}
	}
	return seconds
}

// refuted is the share of a site's part of the bound in which its nodes cannot have
// had the object if that is right, whatever buffers and limiters let through at once.
const refuted = 0.9

// same is by how much links of the same speed may differ.
const same = 0.01

// few names nodes: all of a few, some of many.
func few(nodes []*Node) string {
	const most = 3
	var names []string
	for _, n := range nodes[:min(len(nodes), most)] {
		names = append(names, n.Name)
	}
	text := strings.Join(names, ", ")
	if len(nodes) > most {
		text += fmt.Sprintf(" and %d more", len(nodes)-most)
	}
	return text
}

// take notes one of the capacities that make up a part, and returns it; infinite if it is unknown.
func (p *Part) take(node string, c Capacity) float64 {
	if !c.Known() {
		p.Missing = append(p.Missing, node)
		return math.Inf(1)
	}
	p.name(c)
	return float64(c.Rate)
}

// name notes where a capacity in the part is from.
func (p *Part) name(c Capacity) {
	p.From = union(p.From, []Source{c.From})
	if c.From == Probed {
		p.Probed = older(p.Probed, c.At)
	}
}

// AtLeast says whether there may be more than such a capacity: then a job may be
// faster than a bound that was made of it.
func (s Source) AtLeast() bool { return s == Seen || s == Probed }

// older is the earlier of two times that are known.
func older(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// union is what is in a or in b, each once.
func union[T comparable](a, b []T) []T {
	for _, x := range b {
		if !slices.Contains(a, x) {
			a = append(a, x)
		}
	}
	return a
}

// cpuPerGB counts nodes that told how much processor time they took; zero if none did.
func (j *Job) cpuPerGB() float64 {
	var cpu, bytes float64
	for _, n := range j.Nodes {
		if n.Course.CPUS > 0 && !n.Held && n.DoneS > 0 {
			cpu += n.Course.CPUS
			bytes += float64(j.Size - n.Kept)
		}
	}
	if bytes == 0 {
		return 0
	}
	return cpu / (bytes / 1e9)
}
