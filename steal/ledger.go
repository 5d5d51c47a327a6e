package steal

import (
	"fmt"
	"slices"
)

// A ledger is what a node knows of whose each work is: a Node's of what is to be read from the store, an Imports' of the
// pieces that come into a site. A work begins in term 0 with its first owner; whoever it is handed to claims it, in a term one higher:
//
//	            at first       A gives B the last two    B dies, A and C live
//	claimant    A A A A A A    A A A A B B               A A A A B B
//	term        0 0 0 0 0 0    0 0 0 0 1 1               0 0 0 0 1 1
//	owner       A A A A A A    A A A A B B               A A A A C C
//
// The higher (term, claimant) wins, so the order in which messages of different
// nodes arrive does not matter. The owner of a work is its claimant or, if that one is dead, its heir: the
// first living node in a ring that starts at the work's own number. What a dead
// node claimed is passed on to all by everybody who knows of it, so all survivors
// come to hold the same ledger, and with it the same idea of who owns what.
type ledger struct {
	self     int
	claimant []int    // by work
	term     []uint32 // by work
	living   []bool   // by rank
	heirs    []int    // by rank: the first living node from there on, in a ring; nil: not worked out since somebody died
	owes     []int    // by rank: so many works it may yet give us: all that there are when it was asked, be its answer late or told on another connection
	passed   []int    // by work: how often a claim to it by one that was dead was passed on
	asked    int      // whose answer to giveWork is awaited, or -1
}

// maxTerm is more often than any work changes hands; a term beyond it is a lie
// that would make the next one overflow. A work of that term is given to nobody.
const maxTerm = 1 << 24

// mostPassed is how often a claim to the same work is passed on for the dead: more often than it was theirs. One that goes on claiming for them
// would else have everybody say so to everybody. Whoever asks is told all the same (Claims).
const mostPassed = 8

// Hand is a run of works that changes hands: the works Lo ≤ w < Hi, which all
// have the same term from now on.
type Hand struct {
	Lo, Hi int
	Term   uint32
}

// Claim says whose these works are (the message took).
type Claim struct {
	Node  int
	Hands []Hand
}

// newLedger returns that of node self before anything has changed hands: owner is by work, living by rank. It keeps living.
func newLedger(self int, owner []int, living []bool) ledger {
	works, nodes := len(owner), len(living)
	return ledger{
		self: self, claimant: slices.Clone(owner), term: make([]uint32, works), passed: make([]int, works),
		living: living, owes: make([]int, nodes), asked: -1,
	}
}

// owner is the rank of the living node that a work is up to.
func (l *ledger) owner(work int) int {
	if c := l.claimant[work]; l.living[c] {
		return c
	}
	if l.heirs == nil {
		l.inherit()
	}
	return l.heirs[work%len(l.heirs)]
}

// inherit works out who inherits from whom: ourselves, if nobody lives. It is done once for all works, since of those next to each other many may
// be dead. O(nodes).
func (l *ledger) inherit() {
	nodes, heir := len(l.living), l.self
	l.heirs = make([]int, nodes)
	for i := 2*nodes - 1; i >= 0; i-- { // twice around: behind the last comes the first
		if l.living[i%nodes] {
			heir = i % nodes
		}
		l.heirs[i%nodes] = heir
	}
}

// ask chooses whom to ask for works, and notes that its answer is awaited: who has most left, of so many by rank. ok is false if nobody has
// any to give.
func (l *ledger) ask(left []int) (victim int, ok bool) {
	for i := 1; i < len(left); i++ { // from the next rank on, so that thieves spread
		if o := (l.self + i) % len(left); left[o] > 1 && (!ok || left[o] > left[victim]) { // one alone is in its hand
			victim, ok = o, true
		}
	}
	if ok {
		l.asked, l.owes[victim] = victim, len(l.claimant)
	}
	return victim, ok
}

// Unanswered notes that the connection to a node was lost: what it was asked
// will not be answered on it.
func (l *ledger) Unanswered(node int) {
	if l.asked == node {
		l.asked = -1
	}
}

// handOver enters that works, none of which has maxTerm, are a node's from now on, and returns them so.
func (l *ledger) handOver(works []int, to int) []Hand {
	for _, w := range works {
		l.claimant[w] = to
		l.term[w]++
	}
	return l.hands(works)
}

// gave enters what another node says it has given us (Node.Gave), and returns of which works that is news, too.
func (l *ledger) gave(by int, hands []Hand) (tell []Claim, news []int, err error) {
	if err := l.check(hands); err != nil {
		return nil, nil, err
	}
	count := 0
	for _, h := range hands {
		for w := h.Lo; w < h.Hi; w++ {
			if l.isNews(l.self, w, h.Term) {
				count++
			}
		}
	}
	if count == 0 || count > l.owes[by] { // what was heard before nobody needs to hear again, however often it is said
		return nil, nil, nil
	}
	l.owes[by] -= count
	c := Claim{l.self, hands}
	return []Claim{c}, l.record(c), nil
}

// took enters another node's claim (Node.Took), and returns of which works it is news, too.
func (l *ledger) took(c Claim) (tell []Claim, news []int, err error) {
	if !l.valid(c.Node) {
		return nil, nil, fmt.Errorf("no node of rank %d", c.Node)
	}
	if err := l.check(c.Hands); err != nil {
		return nil, nil, err
	}
	if c.Node == l.self {
		return nil, nil, nil
	}
	news = l.record(c)
	if l.living[c.Node] {
		return nil, news, nil
	}
	var more []int
	for _, w := range news {
		if l.passed[w] < mostPassed {
			l.passed[w]++
			more = append(more, w)
		}
	}
	return l.claim(c.Node, more), news, nil
}

// isNews says whether a node's claim to a work is higher than what the ledger has.
func (l *ledger) isNews(node, work int, term uint32) bool {
	return term > l.term[work] || term == l.term[work] && node > l.claimant[work]
}

// record enters c where it is higher than what the ledger has, and returns the works of which that was news.
func (l *ledger) record(c Claim) (news []int) {
	for _, h := range c.Hands {
		for w := h.Lo; w < h.Hi; w++ {
			if l.isNews(c.Node, w, h.Term) {
				news = append(news, w)
				l.term[w], l.claimant[w] = h.Term, c.Node
			}
		}
	}
	return news
}

// dead enters that a node is gone, and returns what to tell everybody: what it claimed of the works that matter.
func (l *ledger) dead(node int, matters func(work int) bool) (tell []Claim) {
	l.living[node], l.heirs = false, nil
	l.Unanswered(node)
	var claimed []int
	for w, c := range l.claimant {
		if c == node && l.term[w] > 0 && matters(w) { // term 0 is known to all
			claimed = append(claimed, w)
		}
	}
	return l.claim(node, claimed)
}

// Claims returns the whole ledger beyond its beginning, for a node that may
// have missed messages.
func (l *ledger) Claims() (claims []Claim) {
	by := map[int][]int{}
	for w, term := range l.term {
		if term > 0 {
			by[l.claimant[w]] = append(by[l.claimant[w]], w)
		}
	}
	for node := range l.living {
		claims = append(claims, l.claim(node, by[node])...)
	}
	return claims
}

// claim is what to tell of a node's works; nothing if there are none.
func (l *ledger) claim(node int, works []int) []Claim {
	if len(works) == 0 {
		return nil
	}
	return []Claim{{node, l.hands(works)}}
}

// hands packs works, with the terms they have now, into runs.
func (l *ledger) hands(works []int) (hs []Hand) {
	for _, w := range works {
		if k := len(hs) - 1; k >= 0 && hs[k].Hi == w && hs[k].Term == l.term[w] {
			hs[k].Hi++
		} else {
			hs = append(hs, Hand{Lo: w, Hi: w + 1, Term: l.term[w]})
		}
	}
	return hs
}

// check refuses hands that name works which do not exist, a run twice over included.
func (l *ledger) check(hands []Hand) error {
	works, total := len(l.claimant), 0
	for _, h := range hands {
		if h.Lo < 0 || h.Hi <= h.Lo || h.Hi > works || h.Term == 0 || h.Term > maxTerm {
			return fmt.Errorf("works %d to %d of %d, term %d", h.Lo, h.Hi, works, h.Term)
		}
		if total += h.Hi - h.Lo; total > works {
			return fmt.Errorf("more works than the %d there are", works)
		}
	}
	return nil
}

// another says whether a rank is that of a living node other than ours.
func (l *ledger) another(rank int) bool { return l.valid(rank) && rank != l.self && l.living[rank] }

func (l *ledger) valid(rank int) bool { return rank >= 0 && rank < len(l.living) }
