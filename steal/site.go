package steal

import (
	"fmt"
	"slices"
	"time"

	"github.com/freshet/freshet/piece"
)

// Nodes of one site share what crosses into it, as in Robber, the exchange that Chiba et al. 2010
// (section 4) ran: no piece crosses twice, and the crossing is work that is stolen like any other.
//
//	other sites        0 3 6 …   1 4 7 …   2 5 8 …
//	─ thin link ──────────│─────────│─────────│─────
//	this site             A <─────> B <─────> C       all else comes from inside
//
// Each piece has one importer in a site, which alone may ask other sites for it. At first the pieces are
// dealt out in turn, so that whatever is there first keeps all busy, and nobody waits for a
// division. An importer that could take more asks the one that has most to do for half of what it has not
// begun. The ledger is that of Node, a work being a piece and the nodes those of the site: who is dead is
// inherited from, and whatever is lost or said late, every piece has a living importer that knows of it. A
// piece that a node of the site reads from the store, or has from before, nobody needs to ask for.
//
// An Imports is a value without clock, socket or lock; one event loop owns it.
type Imports struct {
	ledger
	mate  []bool // by rank: is of this site
	mates int
	turn  int // our index among them

	mine  *piece.Set
	stale bool // mine is older than the ledger

	begged time.Time   // since when an answer is awaited
	held   []time.Time // by rank: when it last had an open piece
	clings []int       // by rank: the only one that it had, when we last looked, which nobody asks it for; -1: it had none, or several
	open   int         // pieces that were open then, and up to others
	again  []time.Time // by rank: not to be asked before
	deaf   []time.Time // by rank: since when we know that it does not answer; zero: it does, or has said something since
	seen   map[int]time.Time
	spent  int // times that we have overtaken somebody

	vain    []int       // by rank: so many questions in a row have brought nothing
	robs    []bool      // by rank: has claimed pieces that were ours, and that we had not given it: what it gives may be gone soon
	over    []bool      // by rank: is passed over
	since   []time.Time // by rank: since when it is watched whether it gets enough; zero: it is not
	had     []int       // by rank: how many pieces it had then
	instead []int       // those that import in the place of those that are; nil: not worked out since anybody was, or died
}

const (
	askAgain   = time.Second      // one that has refused: it may have more to do by then
	deafFor    = 10 * time.Second // one that does not answer,
	answers    = leastWait        // for as long
	mostImport = 4096             // pieces that change hands at a time, so that a message has a legal length
	fewOf      = 100              // of so many pieces all nodes together may overtake one that crosses, but slowly
	barren     = 30 * time.Second // one that gives nothing of what it has not begun, and gets hardly anything itself, for as long imports nothing
)

// NewImports returns the pool of the site whose nodes have the ranks mates, ascending, as node self
// among them sees it, of an object of so many pieces in a job of so many nodes.
func NewImports(self, nodes int, mates []int, pieces int) *Imports {
	turn := slices.Index(mates, self)
	if turn < 0 {
		panic(fmt.Sprintf("steal: node %d imports for a site of %v", self, mates))
	}
	mate, owner := make([]bool, nodes), make([]int, pieces)
	for _, rank := range mates {
		mate[rank] = true
	}
	for p := range owner {
		owner[p] = mates[p%len(mates)]
	}
	return &Imports{
		ledger: newLedger(self, owner, slices.Clone(mate)), mate: mate, mates: len(mates), turn: turn,
		mine: piece.NewSet(pieces), stale: true, held: make([]time.Time, nodes), clings: slices.Repeat([]int{-1}, nodes), again: make([]time.Time, nodes), deaf: make([]time.Time, nodes), seen: map[int]time.Time{}, vain: make([]int, nodes), robs: make([]bool, nodes), over: make([]bool, nodes), since: make([]time.Time, nodes), had: make([]int, nodes),
	}
}

// AtOnce is how many pieces a site of so many nodes is to import at a time, of so many sites; zero: whatever its nodes want to. Were it
// many, all would be there late, and at the same time. So few nodes that they want no more by themselves are limited only where a few sites fetch
// from one, and would all fetch the same.
func AtOnce(mates, sites, pieces int) (most int, few bool) {
	const least, part = 16, 16 // enough for links to be full; few enough for the first to be there soon
	most = max(least, pieces/part)
	if few = mates <= most; few && sites != 3 && sites != 4 {
		return 0, true
	}
	return most, few
}

// Importer is the rank of the living node of the site that a piece is up to.
func (m *Imports) Importer(p int) int {
	o := m.owner(p)
	if !m.over[o] {
		return o
	}
	if m.instead == nil {
		for rank, lives := range m.living {
			if lives && !m.over[rank] {
				m.instead = append(m.instead, rank)
			}
		}
	}
	return m.instead[p/m.mates%len(m.instead)]
}

// Mine are the pieces that we are to ask other sites for. Not to be changed by the caller, and good until
// the next call of a method. O(pieces) if anything changed hands.
func (m *Imports) Mine() *piece.Set {
	if m.stale {
		m.stale = false
		m.mine = piece.NewSet(m.mine.Len())
		for p := range m.mine.Len() {
			if m.Importer(p) == m.self {
				m.mine.Add(p)
			}
		}
	}
	return m.mine
}

// Open answers whether a piece could be asked for: another site has it, nobody in ours does, and the asker
// does not have it under way.
type Open func(piece int) bool

// Ask returns whom to ask for pieces to import, and notes that its answer is awaited: the node that has the
// most of those which are open. It is for a node that could ask other sites for more than it is the importer
// of, to be called every now and then while that is so. ok is false if there is nobody to ask, or one is still waited for. O(pieces + nodes).
func (m *Imports) Ask(now time.Time, open Open) (victim int, ok bool) {
	if m.asked >= 0 && now.Sub(m.begged) >= answers {
		m.again[m.asked], m.deaf[m.asked] = now.Add(deafFor), now
		m.vain[m.asked]++
		m.asked = -1
	}
	if m.asked >= 0 {
		return 0, false
	}
	left, holds, last := make([]int, len(m.mate)), make([]int, len(m.mate)), make([]int, len(m.mate))
	m.open = 0
	for p := range m.mine.Len() {
		o, i := m.owner(p), m.Importer(p)
		if o == m.self || !open(p) {
			continue
		}
		m.open++
		holds[o], last[o] = holds[o]+1, p
		if i == m.self {
			continue
		}
		if i != o { // who imports in the place of another is to get on with it, too: it may not know
			holds[i], last[i] = holds[i]+1, p
		}
		if !now.Before(m.again[i]) {
			left[i]++
		}
	}
	for rank, n := range holds {
		if n > 0 {
			m.held[rank] = now
		}
		if n != 1 {
			last[rank] = -1
		}
		if m.clings[rank] != last[rank] {
			m.clings[rank] = last[rank]
			if m.vain[rank] < mostVain {
				m.since[rank] = time.Time{} // it has got on
			}
		}
	}
	if victim, ok = m.ask(left); ok {
		m.begged = now
	}
	return victim, ok
}

// Give answers a thief: half of the pieces that we are the importer of and could ask for, but have not, rounded
// down. (We ask for the last one ourselves. Were it given away, two that have nothing else could give it to each other for
// ever.) The answer may be empty, but is never silence.
func (m *Imports) Give(thief int, open Open) []Hand {
	if !m.another(thief) {
		return nil
	}
	var list []int
	mine := m.Mine()
	for r := range mine.Ranges() {
		for p := r.Lo; p < r.Hi; p++ {
			if open(p) && m.term[p] < maxTerm {
				list = append(list, p)
			}
		}
	}
	tail := list[(len(list)+1)/2:]
	tail = tail[:min(len(tail), mostImport)]
	m.stale = m.stale || len(tail) > 0
	return m.handOver(tail, thief)
}

// Receive takes a victim's answer, whether or not it is still waited for. It returns what to tell all nodes
// of the site, and an error if the answer names pieces that do not exist. An answer of pieces that are not open is as good as an empty one.
func (m *Imports) Receive(victim int, answer []Hand, now time.Time, open Open) (tell []Claim, err error) {
	tell, news, err := m.receive(victim, answer)
	if err != nil {
		return nil, err
	}
	m.deaf[victim] = time.Time{}
	gives := slices.ContainsFunc(news, open)
	if m.asked == victim {
		m.asked = -1
		m.vain[victim]++
		if !gives {
			m.again[victim] = now.Add(askAgain)
		}
	}
	if gives && !m.robs[victim] {
		m.vain[victim] = 0
	}
	return tell, nil
}

// Gave notes pieces that another node says it has given us to import, as Node.Gave does works.
func (m *Imports) Gave(by int, hands []Hand) (tell []Claim, err error) {
	tell, _, err = m.receive(by, hands)
	return tell, err
}

func (m *Imports) receive(by int, hands []Hand) (tell []Claim, news []int, err error) {
	tell, news, err = m.gave(by, hands)
	m.stale = m.stale || len(news) > 0
	return tell, news, err
}

// Unanswered notes that the connection to a node was lost: what it was asked will not be answered on it. It may be asked again; but that is as good as
// an answer that does not come: who hangs up whenever it is asked gives nothing.
func (m *Imports) Unanswered(node int) {
	if m.asked == node {
		m.vain[node]++
	}
	m.ledger.Unanswered(node)
}

// Took notes another node's claim in the ledger. It returns what to tell all nodes of the site: claims of the dead have to
// be passed on.
func (m *Imports) Took(c Claim) (tell []Claim, err error) {
	if m.valid(c.Node) && !m.mate[c.Node] {
		return nil, fmt.Errorf("the node of rank %d imports for another site", c.Node)
	}
	mine := m.Mine()
	tell, news, err := m.took(c)
	m.stale = m.stale || len(news) > 0
	if err == nil {
		m.deaf[c.Node] = time.Time{}
		m.robs[c.Node] = m.robs[c.Node] || slices.ContainsFunc(news, mine.Has)
	}
	return tell, err
}

// Dead notes that a node is gone, and returns what to tell all nodes of the site: what it had claimed.
func (m *Imports) Dead(node int) (tell []Claim) {
	if !m.mate[node] {
		return nil
	}
	m.stale = true
	m.deaf[node], m.over[node], m.instead = time.Time{}, false, nil
	clear(m.vain)
	return m.dead(node, func(int) bool { return true }) // also what is here: it may be lost again
}

// Overtake claims a piece whose importer hardly gets on with it. It is for a node that could ask for more
// and finds nobody to steal from, to be called every now and then while that is so. own is how long a piece takes us to
// import, zero if that is not known; waited says of each rank how long ago it last had a piece more than before. What an overtaken
// importer has had of a piece has crossed for nothing, and what keeps it may be who has the piece, which we would
// wait for as well: so all nodes together overtake a hundredth of the pieces at most. Who hangs is another matter: it has neither
// answered nor got anything for a while, and of what it has not asked for nothing crosses for nothing. Its pieces are dealt out
// among the others until it is back, or given up and inherited from. It returns the importer and what to tell all nodes of the site. O(pieces).
func (m *Imports) Overtake(now time.Time, own time.Duration, open Open, waited func(rank int) time.Duration) (victim int, tell []Claim) {
	if m.asked >= 0 {
		return 0, nil
	}
	if victim, tell := m.relieve(now, open, waited); tell != nil {
		return victim, tell
	}
	if (m.spent*m.mates+m.turn)*fewOf >= m.mine.Len() {
		return 0, nil
	}
	for p := range m.mine.Len() {
		o := m.Importer(p)
		if o == m.self || !open(p) {
			delete(m.seen, p)
			continue
		}
		since, ok := m.seen[p]
		if !ok {
			since = now
			m.seen[p] = now
		}
		if m.term[p] >= maxTerm || !Lags(min(now.Sub(since), waited(o))-m.delay(p), own) {
			continue
		}
		delete(m.seen, p)
		m.spent++
		m.stale = true
		return o, []Claim{{m.self, m.handOver([]int{p}, m.self)}}
	}
	return 0, nil
}

// PassOver finds those that import nothing of what they claim, or next to nothing. One that has nothing to give, each time that it is asked, has begun all that is its own, and
// so gets a piece every few times as long as one takes us. One that has a single piece left, which it is not asked for, has begun that, and gets it in twice that time, and
// more if others cross beside it. If it gets fewer, its own are those of its heirs, all others of the site, until it
// does. Nothing is claimed for that, and no term grows: one that lies could claim all again, and for good. Each finds out by itself. own is how long a
// piece takes us, one that is on its way for as long as it is: where all wait for a thin link nobody is to blame; zero if we have got none and none is on its way. has says of each rank how
// many pieces it has, wherever they came from. It is to be called every now and then, and says whether we import other pieces than before. O(nodes).
func (m *Imports) PassOver(now time.Time, own time.Duration, has func(rank int) int) (changed bool) {
	each := tolerated(own)
	for rank, lives := range m.living {
		over := m.over[rank]
		switch lasted := now.Sub(m.since[rank]); {
		case !lives || m.vain[rank] < mostVain && m.clings[rank] < 0:
			over, m.since[rank] = false, time.Time{}
		case !over && now.Sub(m.held[rank]) > deafFor+2*answers: // it has had nothing to do
			m.since[rank] = time.Time{}
		case m.since[rank].IsZero():
			m.since[rank], m.had[rank] = now, has(rank)
		case m.vain[rank] < mostVain:
			if over = lasted > max(barren, 2*each)*time.Duration(min(m.open, mostImport)); over {
				m.vain[rank] = mostVain // it is, once the one to which it clings comes from elsewhere
				m.since[rank], m.had[rank] = now, has(rank)
			}
		case lasted > max(barren, 2*each):
			over = time.Duration(has(rank)-m.had[rank]+1)*each < lasted
			if m.over[rank] && !over {
				m.vain[rank] = 0
			}
			m.since[rank], m.had[rank] = now, has(rank)
		}
		if over != m.over[rank] {
			m.over[rank], m.instead, m.stale, changed = over, nil, true, true
		}
	}
	return changed
}

// relieve claims our part of what one that hangs was to import, and the others' parts if they do not in time. Each finds out by
// itself who hangs, and later than others if it had enough to import until then. Were the others' parts claimed as soon as they would be by
// who had known it as long as we have, two would claim the same at once, and it would cross for both. So they have as long as an
// answer is waited for: by then they know it as well, or have something better to do.
func (m *Imports) relieve(now time.Time, open Open, waited func(rank int) time.Duration) (victim int, tell []Claim) {
	victim = slices.IndexFunc(m.deaf, func(since time.Time) bool { return !since.IsZero() })
	if victim < 0 {
		return 0, nil
	}
	var list []int
	for p := 0; p < m.mine.Len() && len(list) < mostImport; p++ {
		o := m.Importer(p)
		if o == m.self || m.deaf[o].IsZero() || len(list) > 0 && o != victim { // one at a time
			continue
		}
		if waited(o) > leastWait && now.Sub(m.deaf[o]) >= m.heir(p/m.mates, o) && open(p) && m.term[p] < maxTerm {
			victim, list = o, append(list, p)
		}
	}
	if list == nil {
		return 0, nil
	}
	m.stale = true
	return victim, []Claim{{m.self, m.handOver(list, m.self)}}
}

// heir is how long after we know that one hangs we claim the pieces of its part number part: at once if that is ours of those into which the
// others deal it, else after each of them should have.
func (m *Imports) heir(part, hangs int) time.Duration {
	heirs, ours := 0, 0
	for rank, lives := range m.living {
		if !lives || rank == hangs {
			continue
		}
		if rank == m.self {
			ours = heirs
		}
		heirs++
	}
	turn := ((ours-part)%heirs + heirs) % heirs
	if turn == 0 {
		return 0
	}
	return answers + time.Duration(min(turn, lastTurn))*turnTime
}

// delay is how much later than others we overtake a piece, so that not all who are idle claim the same.
func (m *Imports) delay(p int) time.Duration {
	return time.Duration(min(((m.turn-p)%m.mates+m.mates)%m.mates, lastTurn)) * turnTime
}
