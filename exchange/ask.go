package exchange

import (
	"slices"
	"time"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// This file chooses what to ask of whom, and keeps what is on its way.

// Request asks a peer for the blocks Lo ≤ b < Hi of a piece.
type Request struct{ Piece, Lo, Hi int }

// Ask is a request and whom it goes to.
type Ask struct {
	Peer int
	Request
}

// want is a piece on its way from peers.
type want struct {
	piece int32
	left  int32   // blocks not yet here
	free  int32   // of them, not asked for
	alone bool    // to be asked of one peer at a time: blocks of several made a wrong piece
	quit  int32   // the rank that last owed some of it and was let off, or nobody
	asked []int32 // by block: the rank that owes it, nobody, or here
	twice []owing // blocks that a second peer owes

	imports bool      // it was first asked of another site
	began   time.Time // when
}

type owing struct{ block, rank int32 }

const (
	nobody int32 = -1
	here   int32 = -2

	absent int32 = -1 // in State.place: had, or reserved
)

// wanted is the index in State.wants of a piece whose place is below absent, and the other way round.
func wanted(at int32) int32 { return -2 - at }

// Asks returns the requests to send now, and those to cancel because their peer was
// found to be snubbing us. O(peers that serve us), plus O(missing pieces) for each new piece asked for and
// for each peer that turns out to have nothing new.
func (s *State) Asks(now time.Time) (ask, cancel []Ask) {
	s.now = now
	if !s.open {
		return nil, nil
	}
	if now.Sub(s.snubs) >= SnubAfter/20 {
		s.snubs = now
		for rank := range s.peers {
			p := &s.peers[rank]
			patience := SnubAfter
			if p.snubbed {
				patience = HoardAfter // for its one try: a block may take long
			}
			if p.up && p.owes > 0 && now.Sub(p.heard) > patience && s.replaceable(rank) {
				cancel = append(cancel, s.release(rank)...)
				s.snub(rank, true)
			}
		}
	}
	order := s.order[:0]
	if n := len(s.serving); n > 0 {
		first := s.Rand.IntN(n) // so that no peer is always first to be asked
		order = append(append(order, s.serving[first:]...), s.serving[:first]...)
	}
	s.order = order
	cancel = append(cancel, s.crossing(order, now)...)
	if snubs := func(rank int32) bool { return s.peers[rank].snubbed }; s.site == nil && slices.ContainsFunc(order, snubs) {
		order = append(slices.DeleteFunc(slices.Clone(order), snubs), slices.DeleteFunc(order, func(rank int32) bool { return !snubs(rank) })...)
		s.order = order // they come last: what is tried with them is not what others give
	}
	for _, k := range order {
		rank := int(k)
		p := &s.peers[rank]
		if !p.up || p.snubbed && p.owes > 0 || !s.lane(rank) {
			continue
		}
		limit := s.least()
		if p.snubbed {
			limit = 1 // one try, so that it can show that it is back
		} else if p.owes >= limit && !p.dry {
			limit = max(limit, unit.Bytes(float64(p.in.at(now))*InFlight.Seconds()))
		}
		for p.owes < limit {
			if p.dry {
				s.nothing(rank)
				break
			}
			r, ok := s.pick(rank)
			if !ok {
				p.dry = len(s.fresh) > 0 && !p.snubbed // else there is an end-game, which changes with every request
				s.nothing(rank)
				break
			}
			before := p.owes
			if before == 0 {
				p.heard = now
			}
			w := s.want(r.Piece)
			for b := r.Lo; b < r.Hi; b++ {
				w.ask(b, int32(rank))
				p.owes += s.blockSize(r.Piece, b)
			}
			s.asksFor(rank, before, p.owes)
			ask = append(ask, Ask{rank, r})
		}
	}
	return ask, cancel
}

// least is what every peer that serves us owes, if there is as much to ask it for. Pieces may be smaller than blocks can be.
func (s *State) least() unit.Bytes { return leastInFlight * min(piece.BlockSize, s.Layout.Piece) }

func (w *want) ask(b int, rank int32) {
	if w.asked[b] == nobody {
		w.asked[b] = rank
		w.free--
	} else {
		w.twice = append(w.twice, owing{int32(b), rank})
	}
}

// pick chooses what to ask of a peer: the rest of a piece already begun, else
// the rarest of the pieces nobody was asked for, else a share of the end-game.
func (s *State) pick(rank int) (Request, bool) {
	has := &s.peers[rank].has
	if s.loose {
		var best *want
		loose := false
		for _, w := range s.wants {
			if w.free == 0 {
				continue
			}
			loose = true
			if has.Has(int(w.piece)) && s.may(rank, int(w.piece)) && (best == nil || w.left < best.left || w.left == best.left && w.piece < best.piece) && !(w.alone && (w.anyAsked() || s.shuns(w, rank))) {
				best = w
			}
		}
		s.loose = loose
		if best != nil {
			lo, hi := best.unasked()
			return Request{int(best.piece), lo, hi}, true
		}
	}
	best, ties, holders := -1, 0, s.rarity(rank)
	for _, k := range s.fresh {
		i := int(k)
		if !has.Has(i) || !s.known.Has(i) || !s.mayBegin(rank, i) {
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
		w := s.newWant(best, n)
		w.imports, w.began = !s.near(rank), s.now
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
	for _, w := range s.wants {
		i := int(w.piece)
		if w.alone || !s.peers[rank].has.Has(i) {
			continue
		}
		for lo := 0; lo < len(w.asked); {
			hi := lo
			for hi < len(w.asked) && w.asked[hi] >= 0 && w.asked[hi] != int32(rank) && !w.askedTwice(hi) {
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

func (w *want) askedTwice(b int) bool {
	return len(w.twice) > 0 && slices.ContainsFunc(w.twice, func(t owing) bool { return int(t.block) == b })
}

// take takes back the request for a block of one that owes it. ok is false if nobody does.
func (w *want) take(b int) (rank int32, ok bool) {
	rank = w.asked[b]
	if rank < 0 {
		return 0, false
	}
	w.untake(b, rank)
	return rank, true
}

// untake takes back the request for a block that a peer owes. It returns false if it does not owe it.
func (w *want) untake(b int, rank int32) bool {
	second := slices.IndexFunc(w.twice, func(t owing) bool { return int(t.block) == b && (t.rank == rank || w.asked[b] == rank) })
	switch {
	case w.asked[b] == rank && second >= 0:
		w.asked[b] = w.twice[second].rank
	case w.asked[b] == rank:
		w.asked[b] = nobody
		w.free++
		return true
	case second < 0:
		return false
	}
	w.twice = slices.Delete(w.twice, second, second+1)
	return true
}

// unasked is the first run of blocks that are neither here nor owed by anybody.
func (w *want) unasked() (lo, hi int) {
	for lo < len(w.asked) && w.asked[lo] != nobody {
		lo++
	}
	for hi = lo; hi < len(w.asked) && w.asked[hi] == nobody; {
		hi++
	}
	return lo, hi
}

func (w *want) anyAsked() bool {
	return slices.ContainsFunc(w.asked, func(rank int32) bool { return rank >= 0 })
}

// shuns says whether a peer is not to be asked for the rest of a piece that is to come from one: it did not give all of it before, and another that serves us has it. Who gives one wrong
// block each time, and leaves the rest to others, would else never be found.
func (s *State) shuns(w *want, rank int) bool {
	i := int(w.piece)
	return int(w.quit) == rank && slices.ContainsFunc(s.serving, func(k int32) bool {
		p := &s.peers[k]
		return int(k) != rank && !p.snubbed && p.has.Has(i) && s.may(int(k), i)
	})
}

// owesAlone says whether a peer owes any of a piece that is asked of nobody else.
func (s *State) owesAlone(rank int) bool {
	return slices.ContainsFunc(s.wants, func(w *want) bool { return w.alone && slices.Contains(w.asked, int32(rank)) })
}

// release frees what a peer owes, so that it can be asked of others.
func (s *State) release(rank int) (freed []Ask) {
	for _, w := range s.wants {
		for b := range w.asked {
			if w.untake(b, int32(rank)) {
				w.quit = int32(rank)
				freed = s.revoke(freed, rank, int(w.piece), b)
			}
		}
	}
	s.peers[rank].owes = 0
	s.loose = s.loose || len(freed) > 0
	s.wet()
	return freed
}

// want is what is on its way of piece i, or nil.
func (s *State) want(i int) *want {
	if at := s.place[i]; at < absent {
		return s.wants[wanted(at)]
	}
	return nil
}

func (s *State) newWant(i, blocks int) *want {
	var w *want
	if last := len(s.unused) - 1; last >= 0 {
		w, s.unused = s.unused[last], s.unused[:last]
	} else {
		w = new(want)
	}
	w.piece, w.alone, w.quit = int32(i), false, nobody
	w.begin(blocks)
	s.place[i] = wanted(int32(len(s.wants)))
	s.wants = append(s.wants, w)
	return w
}

func (w *want) begin(blocks int) {
	w.asked, w.twice = slices.Grow(w.asked[:0], blocks)[:blocks], w.twice[:0]
	for b := range w.asked {
		w.asked[b] = nobody
	}
	w.left, w.free = int32(blocks), int32(blocks)
}

func (s *State) unwant(w *want) {
	at, last := wanted(s.place[w.piece]), len(s.wants)-1
	s.wants[at] = s.wants[last]
	s.place[s.wants[at].piece] = wanted(at)
	s.place[w.piece] = absent
	s.wants[last] = nil
	s.wants = s.wants[:last]
	s.unused = append(s.unused, w)
}

func (s *State) unfresh(i int) {
	if at := s.place[i]; at >= 0 {
		last := len(s.fresh) - 1
		s.fresh[at] = s.fresh[last]
		s.place[s.fresh[at]] = at
		s.fresh, s.place[i] = s.fresh[:last], absent
	}
}

func (s *State) refresh(i int) {
	if s.place[i] == absent {
		s.place[i] = int32(len(s.fresh))
		s.fresh = append(s.fresh, int32(i))
		s.wet()
	}
}

func (s *State) blockSize(i, b int) unit.Bytes {
	_, n := s.Layout.Block(i, b)
	return n
}

// revoke is addBlock for what a peer owed, and may have begun to send.
func (s *State) revoke(cancel []Ask, rank, i, b int) []Ask {
	p := &s.peers[rank]
	p.late, p.revoked = p.late+1, s.now
	return addBlock(cancel, rank, i, b)
}

// addBlock appends block b of piece i to the last run, or begins a new one.
func addBlock(asks []Ask, rank, i, b int) []Ask {
	if k := len(asks) - 1; k >= 0 && asks[k].Peer == rank && asks[k].Piece == i && asks[k].Hi == b {
		asks[k].Hi++
		return asks
	}
	return append(asks, Ask{rank, Request{i, b, b + 1}})
}
