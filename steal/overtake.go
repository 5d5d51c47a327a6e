package steal

import "time"

// The paper lets a work that a node has begun stay with it. Where that node's
// connection to the store gives a hundredth of what the others' give, all wait for one
// work. So a node that has nothing left to do, and nobody to ask, overtakes it:
//
//	B  in hand  [ 7 8 9 10 ]      since 6 s, and none of it has come
//	                 <───── A     claims it, and reads it from its tail
//
// B reads on from the front, and gives up what others have before it. That costs bytes
// that are read twice, so it is for the extreme alone (Lags): in the paper's
// figures the fastest connection gives 2.6 times what the slowest does.
const (
	patience  = 4               // as many of its own times for a piece does an idle node give another
	leastWait = 2 * time.Second // whatever the rates: stores and processes pause

	turnTime = 100 * time.Millisecond // enough for a claim to be heard
	lastTurn = 20                     // who would come later comes with it
)

// Lags says of a node that has been at a piece for as long as waited whether
// another one, that takes own for a piece, is to read in its place. It gives at most a piece in
// that time, so what it has left takes it more than patience times as long as the other.
// own is zero for one that has read nothing, which overtakes nobody.
func Lags(waited, own time.Duration) bool {
	return own > 0 && waited > tolerated(own)
}

func tolerated(own time.Duration) time.Duration { return max(leastWait, patience*own) }

// Mute says of a store that has given a node not even a piece, and nothing at all for as long as waited, whether to ask it over
// another connection: there is nothing to go by yet. Three requests for a connection that get lost take TCP 7 s.
func Mute(waited time.Duration) bool { return waited > patience*leastWait }

// Idle says whether the node has nothing to do and waits for no answer.
func (n *Node) Idle() bool { return !n.Busy() && n.asked < 0 }

// Overtake claims a work that its owner has in hand and hardly gets on with, the last of them. It
// returns that owner and what to tell everybody; nothing to tell if there is no such
// work, or the node is not idle, unless all it has waits for its turn, or does not steal. own is as in Lags, idle is for how long the node has been so,
// and waited says of each rank how long ago it last had a piece or works more than before, or for how long a work of that place (Turns) has been one to read, if that is
// less. Those that could overtake at once take turns, so that what one claims the next has heard: else each would read a piece
// for nothing. The turns begin when the other lags, or when the node has become idle, if that is later: who hangs is found out by all at
// once, however long they have been idle. A work whose term cannot grow is read without a word: somebody lies about it. O(works × pieces of one).
func (n *Node) Overtake(held Held, own, idle time.Duration, waits bool, waited func(rank, place int) time.Duration) (victim int, tell []Claim) {
	if !n.steals || !n.Idle() && !(waits && n.asked < 0) {
		return 0, nil
	}
	nodes := len(n.living)
	for w := len(n.works) - 1; w >= 0; w-- {
		turn := min((n.self-w%nodes+nodes)%nodes, lastTurn)
		o := n.owner(w)
		if o == n.self || n.listed[w] || n.hand[w] || n.missing(w, held).Empty() {
			continue
		}
		silent := waited(o, n.place[w])
		if !Lags(silent, own) || min(idle, silent-tolerated(own)) < time.Duration(turn)*turnTime {
			continue
		}
		n.overtaken[w] = true
		n.push(w)
		if n.term[w] == maxTerm {
			return o, nil
		}
		return o, []Claim{{n.self, n.handOver([]int{w}, n.self)}}
	}
	return 0, nil
}

// GoOn puts a work back on the list that the node has overtaken, when it has read a piece of it: Next
// gives it out piece by piece.
func (n *Node) GoOn(work int) {
	if n.overtaken[work] && n.owner(work) == n.self {
		n.push(work)
	}
}
