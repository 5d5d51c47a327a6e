package steal

import (
	"time"

	"github.com/freshet/freshet/unit"
)

// Choices that were measured rather than left to users.
const (
	period       = time.Second            // over which goodput is measured
	shortPeriod  = 250 * time.Millisecond // or over this, if that brings ample: a wide store is found to be so soon
	ample        = 16 * unit.MiB
	settled      = 10 * time.Second // from a probe that gained nothing to the next; twice as long after each further one
	longest      = 80 * time.Second
	aim          = time.Second // how long one request to the store, and what one theft brings, are to last
	firstStreams = 1           // pieces that come one by one enter the mesh sooner than as many that come side by side
	MostStreams  = 8
)

// Appetite says how much a node takes from the store at a time: over how many
// connections it reads, how many works one request asks for, and how many it steals.
// All three follow from its goodput.
//
// The number of connections is steered by marginal goodput. More of them are
// kept if they brought at least half of what they would have if all were equal; then as
// many again are tried. If they did not, they are given up, and after a while one less is
// tried, and kept if nothing was lost by it. A store caps single connections, or clients, or all
// together; from outside this is the only way to see which. A store that asks to be left alone is
// read over half as many afterwards, by all nodes of the job.
//
// An Appetite is a value without clock; one event loop owns it.
type Appetite struct {
	work    unit.Bytes // the size of one
	streams int
	before  int            // what streams was before the probe under way; zero: there is none
	fewer   bool           // the next probe is with one less
	again   time.Time      // when it is due
	pause   time.Duration  // from the last one that gained nothing to the next
	usual   unit.Bandwidth // goodput before the probe
	rate    unit.Bandwidth // goodput while something was read; zero: nothing is known

	began  time.Time     // of this period
	from   unit.Bytes    // what had been read when it began
	last   time.Time     // when we were last told anything
	worked time.Duration // of this period: some connection had something to read
	reads  bool          // something was being read then
	idle   bool          // in this period some connection had nothing to read
}

// NewAppetite returns that of a node that has read nothing yet, where works are so large.
func NewAppetite(work unit.Bytes) *Appetite {
	return &Appetite{work: work, streams: firstStreams, pause: settled}
}

// Streams is the number of connections over which to read at once.
func (a *Appetite) Streams() int { return a.streams }

// Request is how many works one request to the store should ask for, one as long as nothing is known. Of all pieces left are in the
// store alone, and nodes share them: towards the end requests are smaller, so that all end together.
func (a *Appetite) Request(left unit.Bytes, nodes int) int {
	rated := unit.Bytes(float64(a.rate) * aim.Seconds() / float64(a.streams))
	return a.works(min(rated, left/unit.Bytes(4*nodes)))
}

// Theft is how many works to steal at a time, one as long as nothing is known.
func (a *Appetite) Theft() int { return a.works(unit.Bytes(float64(a.rate) * aim.Seconds())) }

// works is how many make so many bytes, one at least.
func (a *Appetite) works(size unit.Bytes) int { return max(1, int(size/a.work)) }

// Read notes that so much has been read from the store in all, and how many connections are
// busy with it now. It is to be called several times a period.
func (a *Appetite) Read(total unit.Bytes, busy int, now time.Time) {
	if a.began.IsZero() {
		a.begin(total, now)
	}
	if busy > 0 || a.reads {
		a.worked += now.Sub(a.last)
	}
	a.last, a.reads = now, busy > 0
	a.idle = a.idle || busy < a.streams
	read := total - a.from
	lasted := now.Sub(a.began)
	if lasted < period && (lasted < shortPeriod || read < ample) {
		return
	}
	worked, idle := a.worked, a.idle
	a.begin(total, now)
	if idle { // tells of what there is to read, too, and at least this much of the store
		if worked >= shortPeriod/2 {
			a.rate = max(a.rate, unit.Bandwidth(float64(read)/worked.Seconds()))
		}
		if a.before > 0 {
			a.streams, a.before = a.before, 0
		}
		return
	}
	a.rate = unit.Bandwidth(float64(read) / lasted.Seconds())
	a.probe(now)
}

func (a *Appetite) begin(total unit.Bytes, now time.Time) {
	a.began, a.from, a.last, a.worked, a.idle = now, total, now, 0, false
}

// Refused notes that the store has asked to be left alone, us or another node of the job.
func (a *Appetite) Refused(now time.Time) {
	a.streams, a.before, a.fewer = max(1, a.streams/2), 0, false
	a.again = now.Add(a.pause)
	a.began = time.Time{} // what comes meanwhile tells nothing
}

// probe judges the probe under way, if there is one, and begins the next.
func (a *Appetite) probe(now time.Time) {
	const same = 0.97
	switch before := a.before; {
	case before > 0 && a.streams > before:
		more := float64(a.streams-before) / float64(before)
		if float64(a.rate) < float64(a.usual)*(1+more/2) {
			a.settle(before, now)
			return
		}
		a.pause = settled
	case before > 0:
		if float64(a.rate) < float64(a.usual)*same {
			a.settle(before, now)
			return
		}
		a.again = now.Add(a.pause)
	}
	a.before = 0
	if now.Before(a.again) {
		return
	}
	try := min(2*a.streams, MostStreams)
	if a.fewer {
		try = max(a.streams-1, 1)
	}
	a.fewer = false
	if try == a.streams {
		a.again = now.Add(a.pause)
		return
	}
	a.usual, a.before, a.streams = a.rate, a.streams, try
}

// settle gives a probe up: the next one, in the other direction, comes later.
func (a *Appetite) settle(streams int, now time.Time) {
	a.fewer = a.streams > streams
	a.streams, a.before, a.again = streams, 0, now.Add(a.pause)
	a.pause = min(2*a.pause, longest)
}
