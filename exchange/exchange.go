// Package exchange decides which piece a node asks of which peer, and whom it
// serves, once pieces of an object have left the store.
//
// It is the second phase of Chiba et al. 2010, section 4: nodes tell each
// other what they possess, ask for what they lack, announce what they got,
// and choking decides who is served. Choices that the paper leaves open are
// BitTorrent's (Cohen, "Incentives build robustness in BitTorrent", 2003),
// without its incentives, since all nodes here work for one job:
//
//	rarest first   of the pieces a peer can give, the one with the fewest
//	               holders; ties are broken at random, so that nodes differ
//	in flight      per peer as much as it delivers in a quarter second, at
//	               least two blocks: the pipe never drains, little is lost if it dies, and
//	               what is rarest is chosen late
//	partners       in a large swarm a node serves Slots others, its partners, all the time. The partners
//	               of all make a random graph in which everybody has as many (Graph)
//	end-game       when every missing piece is on its way, an idle peer is asked
//	               for the second half of what a busy one still owes; what comes twice is cancelled
//	hoarding       who alone has a piece and gives nothing for HoardAfter, more on slow links, does not count
//	snubbing       a peer that owes blocks and sent none for SnubAfter loses its
//	               requests to others until it delivers again
//	sites          what a node of our site has is asked of our site only; the rest
//	               of other sites, each piece by the one node that imports it
//
// The barrier between the paper's phases is a policy: with Barrier set nothing is
// asked for until every piece is in the hands of some living node.
//
// A piece is asked for only when its digest is known (Manifest), so everything
// that arrives can be checked. A State is a value without clock, socket or
// lock; one event loop owns it, and gives it the time.
package exchange

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// Choices that were measured rather than left to users.
const (
	DefaultSlots  = 8                      // partners
	SnubAfter     = 5 * time.Second        // owes blocks and sends none
	InFlight      = 250 * time.Millisecond // of a peer's rate
	turnFor       = 3 * time.Second        // who is no partner is served for as long, in turn
	leastInFlight = 2                      // blocks
)

// What is up to whoever drives a State.
const (
	TickEvery    = 50 * time.Millisecond // it looks at slots and deadlines; news of what nobody else has is gathered for as long
	ReconnectFor = 3 * time.Second       // a connection that was lost (Down) comes back, or its node is dead (Gone)
)

// Config says what is exchanged among whom.
type Config struct {
	Self    int // our rank
	Nodes   int
	Layout  piece.Layout
	Barrier bool       // ask for nothing until every piece has a living holder
	Slots   int        // partners of a node that has no fewer peers; zero: DefaultSlots
	Rand    *rand.Rand // breaks ties; not nil
	Sites   []int      // by rank: the site that it is in, numbered from 0, -1 for none; nil: there are no sites

	AtOnce   int   // pieces that our site imports at a time; zero: all that it could
	Few      bool  // of a site with so few nodes that this holds only while one other site alone has most
	Partners []int // ranks, of which each has us among its own; nil: what the function Partners says
}

// State is one node's view of the exchange.
type State struct {
	Config
	have    *piece.Set
	known   *piece.Set // pieces whose digest is known
	holders []int32    // by piece of known digest: living nodes that have it, ourselves included
	covered int        // pieces with a holder
	open    bool       // the barrier has been passed
	peers   []peer     // by rank; our own place is unused
	serving []int32    // ranks that serve us, in no order
	order   []int32    // of these, of the last call of Asks
	wants   []*want    // in no order
	unused  []*want
	fresh   []int32 // pieces neither had nor wanted, in no order
	place   []int32 // by piece: its index in fresh; that in wants, as wanted says; or absent
	loose   bool    // some want may have blocks that are neither here nor asked for

	site *site // nil: there are no sites

	stirred bool      // there may be something for Rechoke to do
	turns   time.Time // when slots go round next; zero: when something stirs
	snubs   time.Time // when we last looked for who snubs us
	now     time.Time // when we were last asked for anything

	carried carried
}

type peer struct {
	up      bool
	chokes  bool // it does not serve us
	choked  bool // we do not serve it
	partner bool
	waits   bool // for its turn; only during Rechoke
	snubbed bool
	hoards  bool // it is snubbed for having said that it has what it alone of our site has, and given nothing, and has given nothing since
	dry     bool // it has nothing that we could ask for, since anything last changed
	owes    unit.Bytes
	has     piece.Set
	served  time.Time  // when its turn last began; zero: never
	gained  time.Time  // when it last announced a piece
	heard   time.Time  // of the last block, or of the first request after none were owed
	gave    time.Time  // when it last gave us anything that it owed, or began to have a piece alone
	excused bool       // it has connected again since it last gave anything
	serves  time.Time  // since when it serves us; only while it does not choke us
	late    int        // blocks that were cancelled, and may be on their way all the same,
	revoked time.Time  // the last of them then
	only    *piece.Set // pieces that it had alone when gives was last asked; nil: it was not
	stalls  bool       // and others have got none of them since the time before
	looked  time.Time  // when Announced last looked whether it has a piece alone
	in      meter
}

// New returns the state of a node that has nothing and knows of nobody.
func New(c Config) *State {
	if c.Slots == 0 {
		c.Slots = DefaultSlots
	}
	n := c.Layout.Count()
	s := &State{
		Config: c, have: piece.NewSet(n), known: piece.NewSet(n), holders: make([]int32, n),
		peers: make([]peer, c.Nodes), fresh: make([]int32, n), place: make([]int32, n), open: !c.Barrier || n == 0,
	}
	for i := range s.fresh {
		s.fresh[i], s.place[i] = int32(i), int32(i)
	}
	for i := range s.peers {
		s.peers[i] = peer{has: *piece.NewSet(n), chokes: true, choked: true}
	}
	if c.Partners == nil {
		c.Partners = Partners(c.Self, c.Nodes, c.Slots, c.Sites)
	}
	for _, rank := range c.Partners {
		s.peers[rank].partner = true
	}
	s.site = newSite(c)
	return s
}

// Have is the set of pieces that we possess. Not to be changed by the caller.
func (s *State) Have() *piece.Set { return s.have }

// Open says whether pieces are exchanged yet: phase 2 of the paper.
func (s *State) Open() bool { return s.open }

// Held says whether some living node, ourselves included, possesses piece p. What a node says that it
// has counts once the digest is known by which it can be checked.
func (s *State) Held(p int) bool { return s.holders[p] > 0 }

// Up notes that a peer is connected. Both sides begin choked.
func (s *State) Up(rank int) {
	s.Choked(rank, true)
	s.snub(rank, false)
	p := &s.peers[rank]
	p.up, p.choked, p.owes, p.gained = true, true, 0, s.now
	if !p.excused { // who connects again and again and gives nothing does not begin anew each time
		p.excused = !p.gave.IsZero()
		p.gave = s.now
	}
	s.stirred = true
}

// Down notes that a connection is lost. What the peer owed is free to be asked
// of others; its possessions still count until Gone.
func (s *State) Down(rank int) {
	s.Choked(rank, true)
	p := &s.peers[rank]
	p.up, p.choked = false, true
	s.stirred = true
}

// Gone notes that a peer is dead or has left: nothing it has counts any more.
func (s *State) Gone(rank int) {
	s.Down(rank)
	p := &s.peers[rank]
	for r := range p.has.Ranges() {
		for i := r.Lo; i < r.Hi; i++ {
			if s.known.Has(i) {
				s.held(rank, i, -1)
			}
		}
	}
	had := p.has.Count() > 0
	p.has = *piece.NewSet(s.have.Len())
	if had {
		s.deserted(rank)
	}
}

// held notes that one node more (d = 1) or fewer (-1) has piece i.
func (s *State) held(rank, i int, d int32) {
	s.heldAt(rank, i, d)
	before := s.holders[i] > 0
	s.holders[i] += d
	if after := s.holders[i] > 0; after && !before {
		s.covered++
	} else if before && !after {
		s.covered--
	}
	if s.covered == len(s.holders) && !s.open {
		s.open = true
		for rank := range s.peers { // until now nobody was asked
			s.peers[rank].gave = s.now
		}
	}
}

// Announced notes that a peer has the pieces of r, which must lie within the
// object. It says whether any of them was news; of one that hoards nothing is.
func (s *State) Announced(rank int, r piece.Range) (news bool) {
	p := &s.peers[rank]
	if s.now.Sub(p.gave) > HoardAfter/2 && !s.now.Equal(p.looked) { // once for all runs of a message
		p.looked = s.now
		if _, _, alone := s.aloneWith(rank); !alone {
			p.gave = s.now
		}
	}
	for i := r.Lo; i < r.Hi; i++ {
		if p.has.Add(i) {
			if s.known.Has(i) {
				s.held(rank, i, 1)
			}
			news = true
		}
	}
	if news {
		p.dry, p.gained = false, s.now
		s.stirred = s.stirred || p.has.Full() || !p.partner && !p.choked
	}
	return news && (!p.hoards || s.have.Full()) // nothing can be kept from who has all
}

// Possesses is how many pieces a peer says that it has; none, if it hoards.
func (s *State) Possesses(rank int) int {
	if p := &s.peers[rank]; !p.hoards {
		return p.has.Count()
	}
	return 0
}

// Full says whether a peer says that it has all pieces.
func (s *State) Full(rank int) bool { return s.peers[rank].has.Full() }

// Withdrawn notes that a peer's piece i does not count: it was found to be wrong.
func (s *State) Withdrawn(rank, i int) {
	if s.peers[rank].has.Remove(i) && s.known.Has(i) {
		s.held(rank, i, -1)
		s.bereft(rank, i)
	}
}

// Known notes that the digest of piece i is known, so that it may be asked for, and counts as held
// by those who have it.
func (s *State) Known(i int) {
	if !s.known.Add(i) {
		return
	}
	for rank := range s.peers {
		p := &s.peers[rank]
		if p.has.Has(i) {
			s.held(rank, i, 1)
		}
		p.dry = false
	}
}

// wet notes that any peer may have something to ask for again.
func (s *State) wet() {
	for rank := range s.peers {
		s.peers[rank].dry = false
	}
}

// Had is the number of pieces that have a living holder.
func (s *State) Had() int { return s.covered }

// Covered says whether every piece has a living holder.
func (s *State) Covered() bool { return s.covered == len(s.holders) }

// Offered is the number of pieces that we lack and some living node has: what there is to ask others for.
func (s *State) Offered() int { return s.covered - s.have.Count() }

// Uncovered is the number of pieces that have no living holder.
func (s *State) Uncovered() int { return len(s.holders) - s.covered }

// Got notes that we possess piece i, wherever it came from, and so know its digest. It returns what to
// cancel: blocks of it that peers still owe.
func (s *State) Got(i int) (cancel []Ask) {
	s.Known(i)
	if s.have.Add(i) {
		s.held(s.Self, i, 1)
		s.stirred = true
	}
	if w := s.want(i); w != nil {
		s.imported(w)
		cancel = s.void(w)
		s.unwant(w)
	}
	s.unfresh(i)
	return cancel
}

// void takes back all that is asked for of a piece, and returns what to cancel.
func (s *State) void(w *want) (cancel []Ask) {
	i := int(w.piece)
	for b, rank := range w.asked {
		if rank == here {
			continue
		}
		if rank != nobody {
			s.peers[rank].owes -= s.blockSize(i, b)
			cancel = s.revoke(cancel, int(rank), i, b)
		}
		for _, t := range w.twice {
			if int(t.block) == b {
				s.peers[t.rank].owes -= s.blockSize(i, b)
				cancel = s.revoke(cancel, int(t.rank), i, b)
			}
		}
	}
	return cancel
}

// Lost notes that our piece i was found to be wrong and is to be got again.
func (s *State) Lost(i int) {
	if s.have.Remove(i) {
		s.held(s.Self, i, -1)
		s.bereft(s.Self, i)
		s.refresh(i)
	}
}

// Spoiled notes that the blocks of piece i, from several peers, did not make
// the piece: it is fetched again, from one peer only, if that gives all of it. It returns what to cancel.
func (s *State) Spoiled(i int) (cancel []Ask) {
	w := s.want(i)
	if w == nil {
		return nil
	}
	cancel = s.void(w)
	w.begin(len(w.asked))
	w.alone, s.loose = true, true
	s.wet()
	return cancel
}

// Choked notes whether a peer serves us. One that stops owes nothing any more.
func (s *State) Choked(rank int, chokes bool) {
	if at := slices.Index(s.serving, int32(rank)); at >= 0 && chokes {
		s.serving = slices.Delete(s.serving, at, at+1)
	} else if at < 0 && !chokes {
		s.serving = append(s.serving, int32(rank))
		s.peers[rank].serves = s.now
	}
	s.peers[rank].chokes = chokes
	if chokes {
		s.release(rank)
		s.peers[rank].late = 0 // what it had begun to send was here before
	}
}

// Block notes that block b of piece i came from a peer. It returns what to
// cancel: the same block, if somebody else owes it too.
func (s *State) Block(rank, i, b int, now time.Time) (cancel []Ask) {
	p := &s.peers[rank]
	p.heard, p.gave, p.excused, p.hoards = now, now, false, false
	s.snub(rank, false)
	p.in.add(s.blockSize(i, b), now)
	w := s.want(i)
	if w == nil || b >= len(w.asked) || w.asked[b] == here {
		return nil
	}
	for other, ok := w.take(b); ok; other, ok = w.take(b) {
		s.peers[other].owes -= s.blockSize(i, b)
		if int(other) != rank {
			cancel = s.revoke(cancel, int(other), i, b)
		}
	}
	w.asked[b] = here
	w.left--
	w.free--
	return cancel
}

// Discarded notes that a block came from a peer and was thrown away: somebody
// else was faster, or it was not wanted any more. If the peer owed it, it may be asked again. If not, it has
// given us nothing, and unless it had owed as much before it is no sign of life either: anybody can send what nobody asked for. (A mate
// in a site that does so Hoards finds, who says as well that what it announces counts no more; but it keeps no piece that is asked of it alone.)
func (s *State) Discarded(rank, i, b int, now time.Time) {
	p := &s.peers[rank]
	switch w := s.want(i); {
	case w != nil && b < len(w.asked) && w.untake(b, int32(rank)):
		p.gave, p.excused, p.hoards = now, false, false
		p.owes -= s.blockSize(i, b)
		s.loose = true
		s.wet()
	case p.late > 0 && now.Sub(p.revoked) < HoardAfter:
		p.late--
	case s.site == nil || !s.near(rank) || s.owesAlone(rank):
		return
	}
	p.heard = now
	s.snub(rank, false)
}

// Reserve takes piece i out of the exchange, because it is being read from the store; it
// returns false if it is had or on its way from peers already.
func (s *State) Reserve(i int) bool {
	if s.place[i] < 0 {
		return false
	}
	s.unfresh(i)
	return true
}

// Unreserve puts a reserved piece back that the store did not deliver.
func (s *State) Unreserve(i int) {
	if s.place[i] == absent && !s.have.Has(i) {
		s.refresh(i)
	}
}

// Abandon gives up a piece on its way from peers. It returns what to cancel.
func (s *State) Abandon(i int) (cancel []Ask) {
	if w := s.want(i); w != nil {
		cancel = s.void(w)
		s.unwant(w)
		s.refresh(i)
	}
	return cancel
}
