package steal

import "github.com/freshet/freshet/piece"

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
		return Policy{PerWork: max(1, perWork), Steals: true}
	default: // each share is one work
		return Policy{PerWork: max(1, l.Count()), Barrier: algorithm != Flat}
	}
}
