package steal

import (
	"math"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// The algorithms of a broadcast: how nodes come by the object. All of them share the rules of this package and of package exchange:
//
//	Flat      every node reads the whole object from the store
//	NonSteal  shares, a barrier, exchange (Chiba et al. 2010, section 4.1)
//	Steal     the same, with works that change hands (section 4.2)
//	Stream    no barrier, several connections to the store, requests and thefts as
//	          large as a node's goodput makes them (named there as future work)
const (
	Flat     = "flat"
	NonSteal = "non-steal"
	Steal    = "steal"
	Stream   = "stream"
)

// Algorithms are all there are, the default last.
var Algorithms = []string{Flat, NonSteal, Steal, Stream}

// Default is the algorithm for who does not choose.
const Default = Stream

// Policy is what an algorithm sets in the rules.
type Policy struct {
	PerWork int  // pieces of a work
	Steals  bool // works change hands
	Barrier bool // pieces go from node to node only when all of them have left the store
	Adapts  bool // how much a node takes at a time follows its goodput (Appetite), nodes may read in turn (Turns), and who is ahead of others waits a little for them (exchange.State.Ahead)
}

// PolicyOf is an algorithm's, where so many nodes read. perWork is what was asked for; zero: nothing was.
func PolicyOf(algorithm string, l piece.Layout, readers, perWork int) Policy {
	switch algorithm {
	case Steal:
		if perWork <= 0 {
			perWork = DefaultPerWork(l, readers)
		}
		return Policy{PerWork: perWork, Steals: true, Barrier: true}
	case Stream:
		return Policy{PerWork: max(1, perWork), Steals: true, Adapts: true}
	default: // each share is one work
		return Policy{PerWork: max(1, l.Count()), Barrier: algorithm != Flat}
	}
}

// Streams is over how many connections a node reads from the store now.
func (p Policy) Streams(a *Appetite, t *Turns) int {
	if p.Adapts && t.Settled() { // else what more of them brought would be others' loss, or is not to be known yet
		return a.Streams()
	}
	return 1
}

// Request is how many works the next request to the store asks for, where so much is in the store alone and so many nodes share it.
func (p Policy) Request(a *Appetite, t *Turns, left unit.Bytes, nodes int) int {
	if p.Adapts && t.Together() {
		return a.Request(left, nodes)
	}
	return 1
}

// MayAsk says whether a node asks others for works that has so many requests at the store under way, of which so many rest: with Stream while the last of
// its own are still being read, since an answer may wait behind blocks on the links, both ways; in the paper when it has nothing left. What rests is its own to
// read yet.
func (p Policy) MayAsk(busy, rest int) bool { return rest == 0 && (p.Adapts || busy == 0) }

// Theft is how many works a theft may bring: in the paper half of what there is.
func (p Policy) Theft(a *Appetite) int {
	if p.Adapts {
		return a.Theft()
	}
	return math.MaxInt32
}
