package steal

import (
	"time"

	"github.com/freshet/freshet/unit"
)

// Choices that were measured rather than left to users.
const (
	period       = time.Second      // over which goodput is measured
	settled      = 10 * time.Second // from a probe that gained nothing to the next
	aim          = time.Second      // how long one request to the store, and what one theft brings, are to last
	firstStreams = 1
	MostStreams  = 8
)

// Appetite says how much a node takes from the store at a time: over how many
// connections it reads, how much one request asks for, and how much it steals.
// All three follow from its goodput.
//
// The number of connections is steered by marginal goodput. More of them are
// kept if they brought at least half of what they would have if all were equal; then as
// many again are tried. If they did not, they are given up, and after a while one less is
// tried, and kept if nothing was lost by it. A store caps single connections, or clients, or all
// together; from outside this is the only way to see which.
//
// An Appetite is a value without clock; one event loop owns it.
type Appetite struct {
	streams int
	before  int            // what streams was before the probe under way; zero: there is none
	fewer   bool           // the next probe is with one less
	again   time.Time      // when it is due
	usual   unit.Bandwidth // goodput before the probe
	rate    unit.Bandwidth // goodput of the last whole period
	began   time.Time      // of this period
	from    unit.Bytes     // what had been read when it began
	idle    bool           // some connection had nothing to read in it
}

// NewAppetite returns that of a node that has read nothing yet.
func NewAppetite() *Appetite { return &Appetite{streams: firstStreams} }

// Streams is the number of connections over which to read at once.
func (a *Appetite) Streams() int { return a.streams }

// Request is how much one request to the store should ask for; zero: as
// little as possible, since nothing is known.
func (a *Appetite) Request() unit.Bytes {
	return unit.Bytes(float64(a.rate) * aim.Seconds() / float64(a.streams))
}

// Theft is how much to steal at a time; zero likewise.
func (a *Appetite) Theft() unit.Bytes { return unit.Bytes(float64(a.rate) * aim.Seconds()) }

// Rate is the goodput from the store when last all connections were busy.
func (a *Appetite) Rate() unit.Bandwidth { return a.rate }

// Read notes that so much has been read from the store in all, and whether all connections are
// busy. It is to be called several times a period.
func (a *Appetite) Read(total unit.Bytes, busy bool, now time.Time) {
	if a.began.IsZero() {
		a.begin(total, now)
	}
	a.idle = a.idle || !busy
	lasted := now.Sub(a.began)
	if lasted < period {
		return
	}
	rate, idle := unit.Bandwidth(float64(total-a.from)/lasted.Seconds()), a.idle
	a.begin(total, now)
	a.idle = !busy
	if idle { // tells of what there is to read, not of the store
		a.rate = max(a.rate, rate)
		if a.before > 0 {
			a.streams, a.before = a.before, 0
		}
		return
	}
	a.rate = rate
	a.probe(now)
}

func (a *Appetite) begin(total unit.Bytes, now time.Time) {
	a.began, a.from, a.idle = now, total, false
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
	case before > 0:
		if float64(a.rate) < float64(a.usual)*same {
			a.settle(before, now)
			return
		}
		a.again = now.Add(settled)
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
		a.again = now.Add(settled)
		return
	}
	a.usual, a.before, a.streams = a.rate, a.streams, try
}

// settle gives a probe up: the next one, in the other direction, comes later.
func (a *Appetite) settle(streams int, now time.Time) {
	a.fewer = a.streams > streams
	a.streams, a.before, a.again = streams, 0, now.Add(settled)
}
