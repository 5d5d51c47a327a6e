package account

import (
	"math"
	"strings"
	"time"

	"github.com/freshet/freshet/unit"
)

// Course is how one node's part of a job went: what it moved in each step of
// time since the job was accepted, and what its time went into until it had the
// object.
type Course struct {
	Step  float64 `json:"step_s,omitempty"` // seconds; zero: no time line
	Store []int64 `json:"store,omitempty"`  // bytes read from the store in each step
	Peers []int64 `json:"peers,omitempty"`  // bytes got from peers; as many steps
	Sent  []int64 `json:"sent,omitempty"`   // bytes given to peers

	Seconds float64 `json:"seconds,omitempty"`   // from its start to the object in its place, or to its end
	Spent   Times   `json:"spent_s,omitzero"`    // what these went into, as a Diary says; the rest was Other
	DoStep  float64 `json:"do_step_s,omitempty"` // seconds; zero: nothing is known of when
	Do      string  `json:"do,omitempty"`        // what it was mostly at in each of these, a Doing.Letter each, since the job was accepted
	WriteS  float64 `json:"write_s,omitempty"`   // writing to the disk took so long, all writers added up
	BusyS   float64 `json:"busy_s,omitempty"`    // the machine's processors were busier than BusyAbove
	CPUS    float64 `json:"cpu_s,omitempty"`     // processor time of the process, to the end of the part

	Carries Capacities `json:"carries,omitzero"` // what the node's network does
}

// mostSteps is how fine a time line is.
const mostSteps = 120

// firstStep is that of a Line at its beginning, in seconds: as often as a node that is not done
// tells how far it is.
const firstStep = 0.25

// Steps bounds the time line of each node of a job: all of a job's together make
// one record, however many nodes it has.
func Steps(nodes int) int {
	const together = 16 << 10
	return max(8, min(mostSteps, together/max(nodes, 1)))
}

// Line gathers a node's totals into a time line of a bounded number of steps:
// when they are used up, two become one.
type Line struct {
	most               int
	step               float64
	last               reading
	store, peers, sent []float64
	window             []reading // of the last second
	peak               Peak
}

type reading struct{ at, store, peers, sent float64 }

// Peak is the most that went through within a second, in bytes per second; zero
// of a job that did not last one.
type Peak struct {
	In    unit.Bandwidth `json:"in"`
	Out   unit.Bandwidth `json:"out"`
	Store unit.Bandwidth `json:"store"`
}

// NewLine returns a Line of at most so many steps.
func NewLine(most int) *Line {
	return &Line{most: max(most, 2), step: firstStep, window: []reading{{}}}
}

// Note takes the totals as of so many seconds after the job was accepted.
// Neither time nor totals go back; if they do, it is as if they stood still.
func (l *Line) Note(at float64, store, peers, sent unit.Bytes) {
	now := reading{
		max(at, l.last.at), max(float64(store), l.last.store), max(float64(peers), l.last.peers), max(float64(sent), l.last.sent),
	}
	if math.IsNaN(now.at) || math.IsInf(now.at, 0) {
		return
	}
	for now.at > float64(l.most)*l.step {
		l.step *= 2
		l.store, l.peers, l.sent = halve(l.store), halve(l.peers), halve(l.sent)
	}
	from, to := l.last.at, now.at
	last := max(0, int(math.Ceil(to/l.step))-1)
	for len(l.store) <= last {
		l.store, l.peers, l.sent = append(l.store, 0), append(l.peers, 0), append(l.sent, 0)
	}
	for i := min(last, int(from/l.step)); i <= last; i++ {
		share := 1.0
		if to > from {
			share = (min(to, float64(i+1)*l.step) - max(from, float64(i)*l.step)) / (to - from)
		}
		l.store[i] += share * (now.store - l.last.store)
		l.peers[i] += share * (now.peers - l.last.peers)
		l.sent[i] += share * (now.sent - l.last.sent)
	}
	l.last = now
	l.window = append(l.window, now)
	for len(l.window) > 2 && now.at-l.window[1].at >= 1 {
		l.window = l.window[1:]
	}
	if old := l.window[0]; now.at-old.at >= 1 {
		span := now.at - old.at
		rate := func(x float64) unit.Bandwidth { return unit.Bandwidth(x / span) }
		l.peak.Store = max(l.peak.Store, rate(now.store-old.store))
		l.peak.In = max(l.peak.In, rate(now.store+now.peers-old.store-old.peers))
		l.peak.Out = max(l.peak.Out, rate(now.sent-old.sent))
	}
}

// Peak is the most so far.
func (l *Line) Peak() Peak { return l.peak }

// Course is a Course with the time line so far, whose steps add up to the totals.
func (l *Line) Course() Course {
	return Course{Step: l.step, Store: whole(l.store), Peers: whole(l.peers), Sent: whole(l.sent)}
}

// halve makes two steps one.
func halve(s []float64) []float64 {
	out := s[:(len(s)+1)/2]
	for i := range out {
		out[i] = s[2*i]
		if 2*i+1 < len(s) {
			out[i] += s[2*i+1]
		}
	}
	return out
}

// whole rounds such that every beginning of the line adds up right.
func whole(s []float64) []int64 {
	out := make([]int64, len(s))
	sum, told := 0.0, int64(0)
	for i, v := range s {
		sum += v
		out[i] = int64(math.Round(sum)) - told
		told += out[i]
	}
	return out
}

// What a node may say of itself: with more, sums and quotients would be no numbers any more.
const (
	MostSeconds = 1e8 // three years
	MostBytes   = 1 << 50
)

// Plausible says whether something may carry so much.
func Plausible(r unit.Bandwidth) bool { return r >= 1 && r <= 1e15 }

// Sum is a and b together, of what is counted from zero on; where that is more than there can be, the most that there can be.
func Sum(a, b unit.Bytes) unit.Bytes {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Bounded makes a course that somebody sent fit for a record of at most so many
// steps: what a node says about itself is believed as far as it can be, but not how long it says it.
func (c Course) Bounded(most int) Course {
	n := len(c.Store)
	if !(c.Step > 0 && c.Step <= MostSeconds) || n > most || len(c.Peers) != n || len(c.Sent) != n {
		c.Step, c.Store, c.Peers, c.Sent = 0, nil, nil, nil
	}
	for _, line := range [][]int64{c.Store, c.Peers, c.Sent} {
		for i, v := range line {
			const sane = 1 << 53
			line[i] = min(max(v, 0), sane)
		}
	}
	if len(c.Do) == 0 || strings.Trim(c.Do, letters) != "" {
		c.DoStep, c.Do = 0, ""
	}
	for len(c.Do) > max(most, 1) { // of flat, say, for which a node reckons with no other
		c.DoStep, c.Do = 2*c.DoStep, thinner(c.Do)
	}
	if !(c.DoStep > 0 && c.DoStep <= MostSeconds) {
		c.DoStep, c.Do = 0, ""
	}
	times := []*float64{&c.Seconds, &c.WriteS, &c.BusyS, &c.CPUS}
	for i := range c.Spent {
		times = append(times, &c.Spent[i])
	}
	for _, s := range times {
		if !(*s >= 0 && *s <= MostSeconds) {
			*s = 0
		}
	}
	for _, k := range []*Capacity{&c.Carries.In, &c.Carries.Out, &c.Carries.Store} {
		if !Plausible(k.Rate) || k.From != Declared && k.From != NIC && k.From != Probed && k.From != Seen {
			*k = Capacity{}
		}
		if k.From != Probed {
			k.At = time.Time{}
		}
	}
	return c
}

// Thinner is c with half as many steps, for where all do not fit.
func (c Course) Thinner() Course {
	thin := func(s []int64) []int64 {
		f := make([]float64, len(s))
		for i, v := range s {
			f[i] = float64(v)
		}
		return whole(halve(f))
	}
	c.Step, c.Store, c.Peers, c.Sent = 2*c.Step, thin(c.Store), thin(c.Peers), thin(c.Sent)
	c.DoStep, c.Do = 2*c.DoStep, thinner(c.Do)
	return c
}

// thinner is half of the letters: of two the first, unless it is nothing.
func thinner(do string) string {
	var out []byte
	for i := 0; i < len(do); i += 2 {
		k := do[i]
		if k == Other.Letter() && i+1 < len(do) {
			k = do[i+1]
		}
		out = append(out, k)
	}
	return string(out)
}
