package steal

import (
	"math"
	"time"
)

// Pace is when a node begins the next of its works, and how long one takes it.
type Pace struct {
	Free time.Duration // from now until it has read what it has in hand, or one of its connections has
	Each time.Duration // from one work to the next; zero: it has read nothing yet, and nobody knows
}

// Reading is what a node is reading over one of its connections.
type Reading struct {
	Left  int           // pieces that it still lacks of it
	Since time.Duration // how long ago the connection began it, or a piece last came
}

// NewPace is the pace of a node that needs so long for each piece, zero if it has read none, that may read over so many connections at once, and
// that has this in hand. A connection that is not used can begin at once; where all are, they share what the node reads, so each piece that is left takes as long as
// one on every connection.
func NewPace(each time.Duration, perWork, streams int, inHand []Reading) Pace {
	p := Pace{Each: each * time.Duration(perWork)}
	if len(inHand) < streams {
		return p
	}
	p.Free = math.MaxInt64
	for _, h := range inHand {
		p.Free = min(p.Free, max(0, each*time.Duration(h.Left*streams)-h.Since))
	}
	return p
}

// Loot is how many works an owner with so many on its list gives a thief that asks for at most so many. They come from the tail:
//
//	owner  in hand ──┤ 1 │ 2 │ 3 │ 4 │        each as long as it takes the owner
//	thief  in hand ────────────┤ 4 │          it is through with it before the owner would have been
//
// It gives half, as in the paper, but none that the thief would end later than itself. So a node may ask before it has nothing left to
// do, which hides the way of question and answer; and two that are left with one work do not pass it to and fro. O(1): the thief names the numbers.
func Loot(list, most int, owner, thief Pace) int {
	k := max(0, min((list+1)/2, most))
	if k == 0 || owner.Each <= 0 || thief.Each <= 0 {
		return k
	}
	// k works are too many from thief.Free + k × thief.Each ≥ owner.Free + (list - k + 1) × owner.Each on
	ahead := owner.Free - thief.Free + time.Duration(list+1)*owner.Each
	if ahead <= 0 {
		return 0
	}
	return int(min(time.Duration(k), (ahead-1)/(owner.Each+thief.Each)))
}
