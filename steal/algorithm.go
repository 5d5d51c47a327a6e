package steal

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
