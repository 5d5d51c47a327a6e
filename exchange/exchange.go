// Package exchange decides which piece a node asks of which peer, and whom it
// serves, once pieces of an object have left the store.
//
// It is the second phase of Chiba et al. 2010, section 4: nodes tell each
// other what they possess, ask for what they lack, announce what they got, and
// choking moves connections to the peers with the best throughput. Choices that the paper leaves open are
// BitTorrent's (Cohen, "Incentives build robustness in BitTorrent", 2003),
// without its incentives, since all nodes here work for one job:
//
//	rarest first   of the pieces a peer can give, the one with the fewest
//	               holders; ties are broken at random, so that nodes differ
//	in flight      per peer as much as it delivers in a quarter second, at
//	               least two blocks: the pipe never drains, little is lost if it dies
//	choking        at most Slots peers are served at a time: those with the best
//	               measured throughput, and one, in turn, whoever it is
//	end-game       when every missing piece is on its way, an idle peer is asked
//	               for the second half of what a busy one still owes; what comes twice is cancelled
//	hoarding       who alone has a piece and gives nothing for HoardAfter does not count
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
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// Choices that were measured rather than left to users.
const (
	DefaultSlots  = 8                      // peers served at once
	SnubAfter     = 5 * time.Second        // owes blocks and sends none
	HoardAfter    = 30 * time.Second       // has a piece alone, and gives nothing
	rechokeEvery  = time.Second            // slots move to better peers
	optimisticFor = 3 * time.Second        // the slot given in turn
	inFlight      = 250 * time.Millisecond // of a peer's rate
	leastInFlight = 2 * piece.BlockSize
)

// Config says what is exchanged among whom.
type Config struct {
	Self    int // our rank
	Nodes   int
	Layout  piece.Layout
	Barrier bool       // ask for nothing until every piece has a living holder
	Slots   int        // peers served at once; zero: DefaultSlots
	Rand    *rand.Rand // breaks ties and picks the optimistic slot; not nil
	Sites   []int      // by rank: the site that it is in, numbered from 0, -1 for none; nil: there are no sites
}

// Request asks a peer for the blocks Lo ≤ b < Hi of a piece.
type Request struct{ Piece, Lo, Hi int }

// Ask is a request and whom it goes to.
type Ask struct {
	Peer int
	Request
}

// State is one node's view of the exchange.
type State struct {
	Config
	have    *piece.Set
	known   *piece.Set // pieces whose digest is known
	holders []int      // by piece: living nodes that have it, ourselves included
	covered int        // pieces with a holder
	open    bool       // the barrier has been passed
	peers   []peer     // by rank; our own place is unused
	wants   map[int]*want
	fresh   []int // pieces neither had nor wanted, in no order
	place   []int // by piece: its index in fresh, or -1
	loose   bool  // some want may have blocks that are neither here nor asked for
	site    *site // nil: there are no sites

	rechoked, rotated time.Time
	optimistic        int       // the rank served in turn, or -1
	now               time.Time // when we were last asked for anything
}

type peer struct {
	up      bool
	has     piece.Set
	chokes  bool // it does not serve us
	choked  bool // we do not serve it
	owes    unit.Bytes
	heard   time.Time // of the last block, or of the first request after none were owed
	gave    time.Time // when it last gave us anything, or began to have a piece alone
	snubbed bool
	dry     bool // it has nothing that we could ask for, since anything last changed
	in, out meter
}

// want is a piece on its way from peers.
type want struct {
	blocks []blockState
	left   int  // blocks not yet here
	alone  bool // to be asked of one peer at a time: blocks of several made a wrong piece

	imports bool      // it was first asked of another site
	began   time.Time // when
}

type blockState struct {
	here  bool
	asked []int // ranks that owe it
}

// New returns the state of a node that has nothing and knows of nobody.
func New(c Config) *State {
	if c.Slots == 0 {
		c.Slots = DefaultSlots
	}
	n := c.Layout.Count()
	s := &State{
		Config: c, have: piece.NewSet(n), known: piece.NewSet(n), holders: make([]int, n),
		peers: make([]peer, c.Nodes), wants: map[int]*want{}, fresh: make([]int, n), place: make([]int, n),
		optimistic: -1, open: !c.Barrier || n == 0,
	}
	for i := range s.fresh {
		s.fresh[i], s.place[i] = i, i
	}
	for i := range s.peers {
		s.peers[i] = peer{has: *piece.NewSet(n), chokes: true, choked: true}
	}
	s.site = newSite(c)
	return s
}

// Have is the set of pieces that we possess. Not to be changed by the caller.
func (s *State) Have() *piece.Set { return s.have }

// Open says whether pieces are exchanged yet: phase 2 of the paper.
func (s *State) Open() bool { return s.open }

// Held says whether some living node, ourselves included, possesses piece p.
func (s *State) Held(p int) bool { return s.holders[p] > 0 }

// Possesses says whether a peer has announced piece p.
func (s *State) Possesses(rank, p int) bool { return s.peers[rank].has.Has(p) }

// AloneWith returns a piece that we lack, only that peer has, and we may ask it for.
func (s *State) AloneWith(rank int) (piece int, ok bool) {
	for r := range s.have.Missing() {
		for i := r.Lo; i < r.Hi; i++ {
			if s.holders[i] == 1 && s.peers[rank].has.Has(i) && s.may(rank, i) {
				return i, true
			}
		}
	}
	return 0, false
}

// Hoards returns a piece that we lack and only that peer has, if it has given us nothing for
// HoardAfter, though others may give all the while: it does not have what it announces, or serves nobody. One that chokes us and may
// be serving others gets as long as it takes it to go round twice. O(missing pieces) for those that have
// given nothing for as long.
func (s *State) Hoards(rank int, now time.Time) (piece int, ok bool) {
	p := &s.peers[rank]
	wait := HoardAfter
	if p.chokes && s.Nodes-1 > s.Slots {
		wait += 2 * optimisticFor * time.Duration(s.Nodes)
	}
	switch {
	case p.gave.IsZero(): // it came before there was a time
		p.gave = now
		return 0, false
	case !s.open || !p.up || now.Sub(p.gave) <= wait:
		return 0, false
	case !p.chokes && p.owes == 0 && !s.near(rank): // we have asked others for as much as crosses
		p.gave = now
		return 0, false
	}
	return s.AloneWith(rank)
}

// Up notes that a peer is connected. Both sides begin choked.
func (s *State) Up(rank int) {
	p := &s.peers[rank]
	p.up, p.chokes, p.choked, p.snubbed, p.owes, p.gave = true, true, true, false, 0, s.now
}

// Down notes that a connection is lost. What the peer owed is free to be asked
// of others; its possessions still count until Gone.
func (s *State) Down(rank int) {
	s.release(rank)
	p := &s.peers[rank]
	p.up, p.chokes, p.choked = false, true, true
}

// Gone notes that a peer is dead or has left: nothing it has counts any more.
func (s *State) Gone(rank int) {
	s.Down(rank)
	p := &s.peers[rank]
	for r := range p.has.Ranges() {
		for i := r.Lo; i < r.Hi; i++ {
			s.held(rank, i, -1)
		}
	}
	p.has = *piece.NewSet(s.have.Len())
	s.deserted(rank)
}

// held notes that one node more (d = 1) or fewer (-1) has piece i.
func (s *State) held(rank, i, d int) {
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
// object. It says whether any of them was news.
func (s *State) Announced(rank int, r piece.Range) (news bool) {
	if p := &s.peers[rank]; s.now.Sub(p.gave) > HoardAfter/2 {
		if _, alone := s.AloneWith(rank); !alone {
			p.gave = s.now
		}
	}
	for i := r.Lo; i < r.Hi; i++ {
		if s.peers[rank].has.Add(i) {
			s.held(rank, i, 1)
			news = true
		}
	}
	if news {
		s.peers[rank].dry = false
	}
	return news
}

// Withdrawn notes that a peer's piece i does not count: it was found to be wrong.
func (s *State) Withdrawn(rank, i int) {
	if s.peers[rank].has.Remove(i) {
		s.held(rank, i, -1)
		s.deserted(rank)
	}
}

// Known notes that the digest of piece i is known, so that it may be asked for.
func (s *State) Known(i int) {
	if s.known.Add(i) {
		s.wet()
	}
}

// wet notes that any peer may have something to ask for again.
func (s *State) wet() {
	for rank := range s.peers {
		s.peers[rank].dry = false
	}
}

// Covered says whether every piece has a living holder.
func (s *State) Covered() bool { return s.covered == len(s.holders) }

// Got notes that we possess piece i, wherever it came from. It returns what to
// cancel: blocks of it that peers still owe.
func (s *State) Got(i int) (cancel []Ask) {
	if s.have.Add(i) {
		s.held(s.Self, i, 1)
	}
	if w := s.wants[i]; w != nil {
		s.imported(w)
		for b := range w.blocks {
			for _, rank := range w.blocks[b].asked {
				s.peers[rank].owes -= s.blockSize(i, b)
				cancel = addBlock(cancel, rank, i, b)
			}
		}
		delete(s.wants, i)
	}
	s.unfresh(i)
	return cancel
}

// Lost notes that our piece i was found to be wrong and is to be got again.
func (s *State) Lost(i int) {
	if s.have.Remove(i) {
		s.held(s.Self, i, -1)
		s.deserted(s.Self)
		s.refresh(i)
	}
}

// Spoiled notes that the blocks of piece i, from several peers, did not make
// the piece: it is fetched again, from one peer only. It returns what to cancel.
func (s *State) Spoiled(i int) (cancel []Ask) {
	w := s.wants[i]
	if w == nil {
		return nil
	}
	for b := range w.blocks {
		for _, rank := range w.blocks[b].asked {
			s.peers[rank].owes -= s.blockSize(i, b)
			cancel = addBlock(cancel, rank, i, b)
		}
		w.blocks[b] = blockState{}
	}
	w.left, w.alone, s.loose = len(w.blocks), true, true
	s.wet()
	return cancel
}

// Choked notes whether a peer serves us. One that stops owes nothing any more.
func (s *State) Choked(rank int, chokes bool) {
	s.peers[rank].chokes = chokes
	if chokes {
		s.release(rank)
	}
}

// Block notes that block b of piece i came from a peer. It returns what to
// cancel: the same block, if somebody else owes it too.
func (s *State) Block(rank, i, b int, now time.Time) (cancel []Ask) {
	p := &s.peers[rank]
	p.heard, p.gave, p.snubbed = now, now, false
	p.in.add(s.blockSize(i, b), now)
	w := s.wants[i]
	if w == nil || b >= len(w.blocks) {
		return nil
	}
	k := &w.blocks[b]
	for _, other := range k.asked {
		s.peers[other].owes -= s.blockSize(i, b)
		if other != rank {
			cancel = addBlock(cancel, other, i, b)
		}
	}
	k.asked = nil
	if !k.here {
		k.here = true
		w.left--
	}
	return cancel
}

// Discarded notes that a block came from a peer and was thrown away: somebody
// else was faster, or it was not wanted any more. If the peer owed it, it may be asked again.
func (s *State) Discarded(rank, i, b int, now time.Time) {
	p := &s.peers[rank]
	p.heard, p.gave, p.snubbed = now, now, false
	if w := s.wants[i]; w != nil && b < len(w.blocks) {
		if x := slices.Index(w.blocks[b].asked, rank); x >= 0 {
			w.blocks[b].asked = slices.Delete(w.blocks[b].asked, x, x+1)
			p.owes -= s.blockSize(i, b)
			s.loose = true
			s.wet()
		}
	}
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
	if s.wants[i] == nil && !s.have.Has(i) {
		s.refresh(i)
	}
}

// Abandon gives up a piece on its way from peers. It returns what to cancel.
func (s *State) Abandon(i int) (cancel []Ask) {
	cancel = s.Spoiled(i)
	if s.wants[i] != nil {
		delete(s.wants, i)
		s.refresh(i)
	}
	return cancel
}

// Sent notes that n bytes were served to a peer.
func (s *State) Sent(rank int, n unit.Bytes, now time.Time) { s.peers[rank].out.add(n, now) }

// Serves says whether a peer's request is to be answered: we have the piece, the blocks
// exist and the peer is not choked. Otherwise it is ignored, as the peer has been told.
func (s *State) Serves(rank int, r Request) bool {
	return !s.peers[rank].choked && s.have.Has(r.Piece) &&
		0 <= r.Lo && r.Lo < r.Hi && r.Hi <= s.Layout.Blocks(r.Piece)
}

// Asks returns the requests to send now, and those to cancel because their peer was
// found to be snubbing us. O(peers), plus O(missing pieces) for each new piece asked for and
// for each peer that turns out to have nothing new.
func (s *State) Asks(now time.Time) (ask, cancel []Ask) {
	s.now = now
	if !s.open {
		return nil, nil
	}
	for rank := range s.peers {
		p := &s.peers[rank]
		if p.up && !p.snubbed && p.owes > 0 && now.Sub(p.heard) > SnubAfter && s.replaceable(rank) {
			cancel = append(cancel, s.release(rank)...)
			p.snubbed = true
		}
	}
	order := s.Rand.Perm(len(s.peers)) // so that no peer is always first to be asked
	cancel = append(cancel, s.crossing(order, now)...)
	for _, rank := range order {
		p := &s.peers[rank]
		if !p.up || p.chokes || p.snubbed && p.owes > 0 || !s.lane(rank) {
			continue
		}
		limit := max(leastInFlight, unit.Bytes(float64(p.in.at(now))*inFlight.Seconds()))
		if p.snubbed {
			limit = 1 // one try, so that it can show that it is back
		}
		for p.owes < limit {
			if p.dry {
				s.nothing(rank)
				break
			}
			r, ok := s.pick(rank)
			if !ok {
				p.dry = len(s.fresh) > 0 // else there is an end-game, which changes with every request
				s.nothing(rank)
				break
			}
			before := p.owes
			if before == 0 {
				p.heard = now
			}
			w := s.wants[r.Piece]
			for b := r.Lo; b < r.Hi; b++ {
				w.blocks[b].asked = append(w.blocks[b].asked, rank)
				p.owes += s.blockSize(r.Piece, b)
			}
			s.asksFor(rank, before, p.owes)
			ask = append(ask, Ask{rank, r})
		}
	}
	return ask, cancel
}

// pick chooses what to ask of a peer: the rest of a piece already begun, else
// the rarest of the pieces nobody was asked for, else a share of the end-game.
func (s *State) pick(rank int) (Request, bool) {
	has := &s.peers[rank].has
	if s.loose {
		bestWant, loose := Request{Piece: -1}, false
		for i, w := range s.wants {
			lo, hi := w.unasked()
			loose = loose || lo < hi
			if lo < hi && has.Has(i) && s.may(rank, i) && (bestWant.Piece < 0 || i < bestWant.Piece) && !(w.alone && w.anyAsked()) {
				bestWant = Request{i, lo, hi}
			}
		}
		if s.loose = loose; bestWant.Piece >= 0 {
			return bestWant, true
		}
	}
	best, ties, holders := -1, 0, s.rarity(rank)
	for _, i := range s.fresh {
		if !has.Has(i) || !s.known.Has(i) || !s.may(rank, i) {
			continue
		}
		switch {
		case best < 0 || holders[i] < holders[best]:
			best, ties = i, 1
		case holders[i] == holders[best]:
			if ties++; s.Rand.IntN(ties) == 0 {
				best = i
			}
		}
	}
	if best >= 0 {
		s.unfresh(best)
		n := s.Layout.Blocks(best)
		s.wants[best] = &want{blocks: make([]blockState, n), left: n, imports: !s.near(rank), began: s.now}
		return Request{best, 0, n}, true
	}
	if s.peers[rank].owes > 0 || len(s.fresh) > 0 || !s.near(rank) {
		return Request{}, false
	}
	return s.endgame(rank)
}

// endgame chooses, for a peer that owes nothing, the second half of the longest
// run of blocks that one other peer still owes.
func (s *State) endgame(rank int) (r Request, ok bool) {
	longest := 0
	for i, w := range s.wants {
		if w.alone || !s.peers[rank].has.Has(i) {
			continue
		}
		for lo := 0; lo < len(w.blocks); {
			hi := lo
			for hi < len(w.blocks) && len(w.blocks[hi].asked) == 1 && w.blocks[hi].asked[0] != rank {
				hi++
			}
			if n := hi - lo; n > longest || n == longest && n > 0 && i < r.Piece {
				longest, r, ok = n, Request{i, lo + n/2, hi}, true
			}
			lo = hi + 1
		}
	}
	return r, ok
}

// unasked is the first run of blocks that are neither here nor owed by anybody.
func (w *want) unasked() (lo, hi int) {
	for lo < len(w.blocks) && (w.blocks[lo].here || len(w.blocks[lo].asked) > 0) {
		lo++
	}
	for hi = lo; hi < len(w.blocks) && !w.blocks[hi].here && len(w.blocks[hi].asked) == 0; {
		hi++
	}
	return lo, hi
}

func (w *want) anyAsked() bool {
	return slices.ContainsFunc(w.blocks, func(b blockState) bool { return len(b.asked) > 0 })
}

// release frees what a peer owes, so that it can be asked of others.
func (s *State) release(rank int) (freed []Ask) {
	for _, i := range slices.Sorted(maps.Keys(s.wants)) {
		w := s.wants[i]
		for b := range w.blocks {
			k := &w.blocks[b]
			if x := slices.Index(k.asked, rank); x >= 0 {
				k.asked = slices.Delete(k.asked, x, x+1)
				freed = addBlock(freed, rank, i, b)
			}
		}
	}
	s.peers[rank].owes = 0
	s.loose = s.loose || len(freed) > 0
	s.wet()
	return freed
}

func (s *State) unfresh(i int) {
	if at := s.place[i]; at >= 0 {
		last := len(s.fresh) - 1
		s.fresh[at] = s.fresh[last]
		s.place[s.fresh[at]] = at
		s.fresh, s.place[i] = s.fresh[:last], -1
	}
}

func (s *State) refresh(i int) {
	if s.place[i] < 0 {
		s.place[i] = len(s.fresh)
		s.fresh = append(s.fresh, i)
		s.wet()
	}
}

func (s *State) blockSize(i, b int) unit.Bytes {
	_, n := s.Layout.Span(i)
	return min(piece.BlockSize, n-unit.Bytes(b)*piece.BlockSize)
}

// addBlock appends block b of piece i to the last run, or begins a new one.
func addBlock(asks []Ask, rank, i, b int) []Ask {
	if k := len(asks) - 1; k >= 0 && asks[k].Peer == rank && asks[k].Piece == i && asks[k].Hi == b {
		asks[k].Hi++
		return asks
	}
	return append(asks, Ask{rank, Request{i, b, b + 1}})
}
