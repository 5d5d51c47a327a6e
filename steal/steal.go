// Package steal decides who fetches which part of an object from its store.
//
// The idea is that of Chiba, Kielmann, den Burger and Matsuoka, "Dynamic
// Optimization for Large Data Broadcast on Clouds" (IPSJ Trans. ACS, 2010),
// section 4. The object's pieces are divided equally among the nodes; each
// share is cut into works of consecutive pieces, numbered over all shares. A
// node fetches its works from the front of its list:
//
//	          in hand   list
//	A  done   [ 3 ]     4 5 6 7 8 9
//	                          └──┬──┘
//	B  done   [   ]  ──giveWork──┘  half, from the tail
//
// Non-steal (section 4.1) ends there. With stealing (section 4.2) a node
// whose list is empty sends giveWork to another, which gives away half of its
// list from the tail. The paper leaves open three things, which are decided
// here so:
//
//   - The work that a node is in the middle of stays with it, unless it hardly
//     gets on with it (Overtake).
//   - Half of an odd number is rounded up: the victim has one in hand besides.
//     (Both readings of the paper's example, 26 works on the list or 25 and one
//     in hand, then give the 13 works that it names.)
//   - The victim is the node with the most works left, as far as the thief knows.
//
// Nodes die, which the paper leaves out as well. So every node keeps a ledger of whose
// each work is (ledger.go), and says what changes hands:
//
//	giveWork   thief → victim   give me works
//	works      victim → thief   these are yours now (perhaps none: never silence)
//	took       thief → all      these are mine now
//
// Whoever dies, at any message, every work has a living owner that knows
// of it; the worst that a race costs is a work fetched twice.
//
// A Node is a value without clock, socket or lock; one event loop owns it.
package steal

import (
	"fmt"
	"math/bits"
	"slices"
	"sort"
	"time"

	"github.com/freshet/freshet/piece"
)

// Division says who begins with what.
type Division struct {
	Works []piece.Range // by work number: consecutive, together all pieces
	Owner []int         // by work number: the rank of its first owner
	Place []int         // by work number: how many pieces come before it where works are read in turn (Turns)
}

// Divide shares pieces equally among the owners (ranks, in order) and cuts
// each share into works of perWork pieces, of which the last of a share may be
// shorter. It panics without an owner or with perWork < 1.
func Divide(pieces int, owners []int, perWork int) Division {
	if len(owners) == 0 || perWork < 1 {
		panic(fmt.Sprintf("steal: %d owners, %d pieces a work", len(owners), perWork))
	}
	var d Division
	first := make([]int, 0, len(owners)+1) // by owner: its first work
	for i, owner := range owners {
		first = append(first, len(d.Works))
		share := piece.Share(pieces, i, len(owners))
		for lo := share.Lo; lo < share.Hi; lo += perWork {
			d.Works = append(d.Works, piece.Range{Lo: lo, Hi: min(lo+perWork, share.Hi)})
			d.Owner = append(d.Owner, owner)
		}
	}
	d.order(append(first, len(d.Works)))
	return d
}

// order fills in the places: the first works of all owners, then the second ones. Who comes after whom has
// nothing to do with rank: those that are near each other often share something.
func (d *Division) order(first []int) {
	d.Place = make([]int, len(d.Works))
	owners := spread(len(first) - 1)
	before := 0
	for k := 0; len(owners) > 0; k++ {
		more := owners[:0]
		for _, i := range owners {
			if w := first[i] + k; w < first[i+1] {
				d.Place[w] = before
				before += d.Works[w].Len()
				more = append(more, i)
			}
		}
		owners = more
	}
}

// spread is the numbers from 0 to n - 1 in an order in which the first few, however few, lie far apart: that of their
// bits read backwards.
func spread(n int) (order []int) {
	width := bits.Len(uint(max(0, n-1)))
	for k := range 1 << width {
		if i := int(bits.Reverse64(uint64(k)) >> (64 - width)); i < n {
			order = append(order, i)
		}
	}
	return order
}

// DefaultPerWork is how many pieces make a work unit when nobody says: as many
// as lie in 8 MiB, the range that object stores serve efficiently, but few
// enough that each of nodes shares has eight works to be stolen from.
func DefaultPerWork(l piece.Layout, nodes int) int {
	if l.Count() == 0 {
		return 1
	}
	const efficient = 8 << 20
	return max(1, min(int(efficient/l.Piece), l.Count()/(8*max(1, nodes))))
}

// AnswerWithin is how long a node waits for the answer to giveWork; then it is to GiveUp, and to ask another one.
const AnswerWithin = 5 * time.Second

// mostVain is how often in a row a node is asked for works in vain: while an answer is waited for nobody is overtaken, and who has many
// works and never gives any would keep a thief waiting for as long as it likes.
const mostVain = 4

// Node is one node's view: its ledger of everybody's works and its own list, which follows it.
type Node struct {
	ledger
	steals    bool
	works     []piece.Range
	place     []int
	list      []int  // own works not begun, in the order in which they will be
	listed    []bool // by work: on the list
	hand      []bool // by work: begun here and not ended
	inHand    int    // how many are
	overtaken []bool // by work: claimed while its owner had it in hand; given out from its tail, piece by piece
	refused   []bool // by rank: answered our last question with no works
	vain      []int  // by rank: so many questions in a row have brought nothing
	robbed    []bool // by rank: has claimed works on our list since we last asked it: what it gives may be gone soon
	early     bool   // it was asked while we had works in hand
	ended     bool   // we have been through with a work: our pace is known
}

// NewNode returns the node of rank self among nodes that start with division
// d. With steals false it neither asks nor gives (the paper's non-steal).
func NewNode(self, nodes int, d Division, steals bool) *Node {
	n := &Node{
		ledger: newLedger(self, d.Owner, slices.Repeat([]bool{true}, nodes)),
		steals: steals, works: d.Works, place: d.Place,
		listed: make([]bool, len(d.Works)), hand: make([]bool, len(d.Works)), overtaken: make([]bool, len(d.Works)),
		refused: make([]bool, nodes), vain: make([]int, nodes), robbed: make([]bool, nodes),
	}
	for w, o := range n.claimant {
		if o == self {
			n.push(w)
		}
	}
	return n
}

// Held answers whether a piece is in the possession of a living node, the asker included.
type Held func(piece int) bool

// Excuse takes a node out of the division before it begins: one that cannot
// fetch owns nothing, inherits nothing and is given nothing. All nodes have to
// excuse the same ones, and Divide must not have named them.
func (n *Node) Excuse(node int) { n.living[node], n.heirs = false, nil }

// Next takes from the front of the list up to most works that follow one
// another and have pieces nobody living holds, and returns their numbers and the
// shortest range over those pieces: what one request to the store covers. Of a work that was overtaken it
// is the last piece. They are in hand until End. It returns none if the list is empty.
//
// Where works are taken by the rate (more than one at a time), no more than
// half of the list goes into hand, so that what is left to be stolen, and the
// time until the last node ends, shrink together (guided self-scheduling,
// Polychronopoulos and Kuck 1987).
func (n *Node) Next(most int, held Held) (works []int, r piece.Range) {
	most = min(most, (len(n.list)+1)/2)
	for len(n.list) > 0 && len(works) < max(1, most) {
		work := n.list[0]
		more := n.missing(work, held)
		if len(works) > 0 && (more.Empty() || more.Lo != r.Hi || n.overtaken[work]) {
			break
		}
		n.list = n.list[1:]
		n.listed[work] = false
		if more.Empty() {
			continue
		}
		if len(works) == 0 {
			r.Lo = more.Lo
		}
		r.Hi = more.Hi
		n.hand[work] = true
		n.inHand++
		works = append(works, work)
		if n.overtaken[work] {
			r.Lo = r.Hi - 1
			break
		}
	}
	return works, r
}

// missing is the shortest range over the pieces of work that nobody living holds.
func (n *Node) missing(work int, held Held) piece.Range {
	r := n.works[work]
	for r.Lo < r.Hi && held(r.Lo) {
		r.Lo++
	}
	for r.Lo < r.Hi && held(r.Hi-1) {
		r.Hi--
	}
	return r
}

// End says that the node is through with a work it had in hand.
func (n *Node) End(work int) {
	if n.hand[work] {
		n.hand[work], n.ended = false, true
		n.inHand--
	}
}

// Back puts works that were in hand back at the front of the list, but for those that are others' by now: they are to be read
// over another connection.
func (n *Node) Back(works []int) {
	var back []int
	for _, w := range works {
		n.End(w)
		if n.owner(w) == n.self && !n.listed[w] {
			n.listed[w] = true
			back = append(back, w)
		}
	}
	n.list = append(back, n.list...)
}

// foremost brings to the front of the list the work that comes first where works are read in turn, and returns how many pieces come before
// it: what a node inherits may be due before its own. ok is false if there is no work.
func (n *Node) foremost(held Held) (place int, ok bool) {
	best := -1
	for k, w := range n.list {
		if (best < 0 || n.place[w] < n.place[n.list[best]]) && !n.missing(w, held).Empty() {
			best = k
		}
	}
	if best < 0 {
		return 0, false
	}
	w := n.list[best]
	copy(n.list[1:best+1], n.list[:best])
	n.list[0] = w
	return n.place[w], true
}

// PlaceOf is how many pieces come before a work.
func (n *Node) PlaceOf(work int) int { return n.place[work] }

// Left is the number of works on the list, the ones in hand not counted.
func (n *Node) Left() int { return len(n.list) }

// Busy says whether the node has works in hand or on its list.
func (n *Node) Busy() bool { return len(n.list)+n.inHand > 0 }

// Owner is the rank of the living node that a work is up to.
func (n *Node) Owner(work int) int { return n.owner(work) }

// Whose is the rank of the living node that a piece is up to. O(log works).
func (n *Node) Whose(piece int) int {
	return n.owner(sort.Search(len(n.works), func(w int) bool { return n.works[w].Hi > piece }))
}

// Work is the range of pieces of a work.
func (n *Node) Work(work int) piece.Range { return n.works[work] }

// Ask returns the victim to which giveWork should be sent now, and notes that
// its answer is awaited. ok is false if there is nothing to ask: the list is not empty, an
// answer is awaited, stealing is off, or everybody known to have works has
// refused since anything changed. Nor does a node ask early that has ended nothing yet: nobody knows its pace (Loot), and
// two such would pass a work to and fro. O(works + nodes).
func (n *Node) Ask(held Held) (victim int, ok bool) {
	if !n.steals || len(n.list) > 0 || n.asked >= 0 || n.inHand > 0 && !n.ended {
		return 0, false
	}
	if n.inHand == 0 && n.early { // who was refused because it was busy is not any more
		clear(n.refused)
	}
	n.early = n.inHand > 0
	left := make([]int, len(n.living))
	for w := range n.works {
		if o := n.owner(w); o != n.self && !n.refused[o] && n.vain[o] < mostVain && !n.missing(w, held).Empty() {
			left[o]++
		}
	}
	return n.ask(left)
}

// Give answers a thief's giveWork: half of the list, from the tail, but at most as
// many works as the thief asks for, and never silence. The answer is empty if the list is, or if the node does
// not steal.
func (n *Node) Give(thief, most int) []Hand {
	if !n.steals || !n.another(thief) {
		return nil
	}
	keep := max(len(n.list)/2, len(n.list)-max(0, most))
	kept, tail := n.list[:keep:keep], []int(nil)
	for _, w := range n.list[keep:] {
		if n.term[w] == maxTerm {
			kept = append(kept, w)
			continue
		}
		tail = append(tail, w)
		n.listed[w] = false
	}
	n.list = kept
	return n.handOver(tail, thief)
}

// Receive takes victim's answer to giveWork and appends the works to the
// list. It returns what to tell everybody (took), and an error if the answer
// names works that do not exist. An answer that comes when it is not waited for
// any more counts all the same: the victim's ledger says that the works are ours. One without a work that is still to be read is in vain.
func (n *Node) Receive(victim int, answer []Hand, held Held) (tell []Claim, err error) {
	tell, news, err := n.receive(victim, answer)
	if err == nil && n.asked == victim {
		n.asked = -1
		n.refused[victim] = len(answer) == 0
		gives := slices.ContainsFunc(news, func(w int) bool { return !n.missing(w, held).Empty() })
		if n.vain[victim]++; gives && !n.robbed[victim] {
			n.vain[victim] = 0
		}
		n.robbed[victim] = false
	}
	return tell, err
}

// Gave notes works that another node says it has given us: in its answer or, if that was lost, on its next connection. It returns what
// to tell everybody, so that of several who were given the same all but one hear of it; and an error if there are no such works. Who was not
// asked has given us nothing: it could have each node read all.
func (n *Node) Gave(by int, hands []Hand) (tell []Claim, err error) {
	tell, _, err = n.receive(by, hands)
	return tell, err
}

func (n *Node) receive(by int, hands []Hand) (tell []Claim, news []int, err error) {
	tell, news, err = n.gave(by, hands)
	if len(news) > 0 {
		clear(n.refused)
	}
	n.relist(news)
	return tell, news, err
}

// Unanswered notes that the connection to a node was lost: what it was asked will not be answered on it. It may be asked again, but not for ever:
// who hangs up whenever it is asked gives nothing.
func (n *Node) Unanswered(node int) {
	if n.asked == node {
		n.vain[node]++
	}
	n.ledger.Unanswered(node)
}

// GiveUp stops waiting for the answer of a victim, which counts as a refusal.
// It says whether one was waited for.
func (n *Node) GiveUp() bool {
	if n.asked < 0 {
		return false
	}
	n.refused[n.asked] = true
	n.vain[n.asked]++
	n.asked = -1
	return true
}

// Took notes another node's claim in the ledger. A work of our own that somebody else
// claims with a higher term leaves the list. It returns what to tell everybody:
// claims of the dead have to be passed on by those who hear of them first. What is said to be ours is not for Took: see Gave.
func (n *Node) Took(c Claim) (tell []Claim, err error) {
	tell, news, err := n.took(c)
	if len(news) > 0 {
		n.refused[c.Node] = false
		n.robbed[c.Node] = n.robbed[c.Node] || slices.ContainsFunc(news, func(w int) bool { return n.listed[w] })
	}
	n.relist(news)
	return tell, err
}

// relist puts those of works that are ours on the list, as push does, and takes the others off.
func (n *Node) relist(works []int) {
	lost := false
	for _, w := range works {
		if n.owner(w) == n.self {
			n.push(w)
		} else if n.listed[w] {
			n.listed[w], lost = false, true
		}
	}
	if lost {
		n.list = slices.DeleteFunc(n.list, func(w int) bool { return !n.listed[w] })
	}
}

// push puts w on the list unless it is there or in hand.
func (n *Node) push(w int) {
	if !n.listed[w] && !n.hand[w] {
		n.listed[w] = true
		n.list = append(n.list, w)
	}
}

// Dead notes that a node is gone. Works that are ours, now or before, come (back) on the
// list if nobody living holds all their pieces any more; held must not count
// the dead node. It returns what to tell everybody: what the dead node claimed.
func (n *Node) Dead(node int, held Held) (tell []Claim) {
	clear(n.refused)
	clear(n.vain)
	wanted := func(w int) bool { return !n.missing(w, held).Empty() }
	tell = n.dead(node, wanted)
	for w := range n.works {
		if n.owner(w) == n.self && wanted(w) {
			n.push(w)
		}
	}
	return tell
}
