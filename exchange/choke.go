package exchange

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Choke tells a peer whether it is served from now on.
type Choke struct {
	Peer   int
	Choked bool
}

// Partners are the ranks that node self serves all the time: all others if they are no more than slots, else
// its neighbours in a Graph of the whole swarm, or of its site if it is in one; and some in other sites (Abroad). sites may be nil.
func Partners(self, nodes, slots int, sites []int) []int {
	among, me := make([]int, 0, nodes), 0
	for rank := range nodes {
		if rank == self {
			me = len(among)
		} else if nodes-1 > slots && sites != nil && sites[self] >= 0 && sites[rank] != sites[self] {
			continue
		}
		among = append(among, rank)
	}
	if len(among)-1 <= slots {
		mine := slices.Delete(among, me, me+1)
		if len(among) < nodes {
			mine = append(mine, Abroad(self, sites)...)
		}
		return mine
	}
	var mine []int
	for _, k := range Graph(len(among), slots, rand.New(rand.NewPCG(1, 1)))[me] {
		mine = append(mine, among[k])
	}
	return append(mine, Abroad(self, sites)...)
}

// Abroad are the partners of node self in other sites, those numbered next to its own, so that an importer never waits until a node
// there has time for it. Of two sites the nodes of the larger one have two in the other each; one, where there are more sites than three. More would
// all want what one site alone has, share what leads out of that, and end late. O(nodes).
func Abroad(self int, sites []int) (mine []int) {
	if sites == nil || sites[self] < 0 {
		return nil
	}
	of, at := make([][]int, slices.Max(sites)+1), 0
	for rank, k := range sites {
		if k < 0 {
			continue
		}
		if rank == self {
			at = len(of[k])
		}
		of[k] = append(of[k], rank)
	}
	each := 2
	if Far(len(of)) {
		each = 1
	}
	ours := sites[self]
	for k, theirs := range of {
		d := max(k-ours, ours-k)
		if k == ours || d > 1 && d < len(of)-1 {
			continue
		}
		us, them := len(of[ours]), len(theirs)
		for other, rank := range theirs {
			a, b, few := at, other, them // of the larger site, of the other, which has so many
			if us < them || us == them && k < ours {
				a, b, few = other, at, us
			}
			for x := range each { // a's are x + d steps further on: a step is over a quarter of the smaller site, so they lie apart, and differ with d
				if (a+(x+d)*(1+few/4))%few == b {
					mine = append(mine, rank)
					break
				}
			}
		}
	}
	return mine
}

// Far says whether of so many sites some are not numbered next to each other: no node of one has a partner in the other.
func Far(sites int) bool { return sites > 3 }

// Partner says whether a rank is a partner of ours.
func (s *State) Partner(rank int) bool { return s.peers[rank].partner }

// Rechoke returns whom to tell that it is served, or no longer. Partners are, from when they are connected. In the
// places of those partners that are not connected, or need nothing any more, others are for turnFor each who
// lack something that we have. And one more is that has announced nothing for as long: that keeps a swarm
// going whose graph has fallen apart. With more sites than have partners of each other there are some places more, for those of other sites: what
// crosses is slower than what does not, and needs little. O(peers) for each place that changes hands.
func (s *State) Rechoke(now time.Time) (changes []Choke) {
	s.now = now
	if !s.stirred && (s.turns.IsZero() || now.Before(s.turns)) {
		return nil
	}
	s.stirred, s.turns = false, time.Time{}
	free, others := 0, 0
	if s.site != nil && Far(len(s.site.has)) {
		free = s.Slots / 4
	}
	for rank := range s.peers {
		switch p := &s.peers[rank]; {
		case rank == s.Self:
		case p.partner && (!p.up || p.has.Full()):
			free++
		case p.up && !p.partner:
			others++
		}
		if p := &s.peers[rank]; p.up && p.partner && p.choked {
			p.choked = false
			changes = append(changes, Choke{rank, false})
		}
	}
	if others == 0 {
		return changes
	}
	still := 1
	for rank := range s.peers { // who is served already, and goes on
		p := &s.peers[rank]
		p.waits = false
		if p.partner || !p.up || rank == s.Self {
			continue
		}
		if p.gained.IsZero() { // it came before there was a time
			p.gained = now
		}
		goesOn := !p.choked && now.Sub(p.served) < turnFor
		switch offers := s.offers(rank); {
		case offers && goesOn && free > 0:
			free--
			s.turn(p.served)
		case offers && goesOn && still > 0:
			still--
			s.turn(p.served)
		case offers:
			p.waits = true
			s.turn(p.gained)
		case !p.choked:
			p.choked = true
			changes = append(changes, Choke{rank, true})
		}
	}
	for { // who comes next, perhaps once more
		rank := s.next(free > 0)
		if rank < 0 || free == 0 && still == 0 {
			break
		}
		if free > 0 {
			free--
		} else {
			still--
		}
		p := &s.peers[rank]
		p.waits, p.served = false, now
		s.turn(now)
		if p.choked {
			p.choked = false
			changes = append(changes, Choke{rank, false})
		}
	}
	for rank := range s.peers {
		if p := &s.peers[rank]; p.waits && !p.choked {
			p.choked = true
			changes = append(changes, Choke{rank, true})
		}
	}
	return changes
}

// turn notes that what began then is over after turnFor, unless it is already.
func (s *State) turn(began time.Time) {
	if over := began.Add(turnFor); over.After(s.now) && (s.turns.IsZero() || over.Before(s.turns)) {
		s.turns = over
	}
}

// next is who has waited for its turn for longest, or -1; if not any, of those only who have announced
// nothing for turnFor.
func (s *State) next(any bool) int {
	best, ties := -1, 0
	for rank := range s.peers {
		p := &s.peers[rank]
		if !p.waits || !any && s.now.Sub(p.gained) < turnFor {
			continue
		}
		switch {
		case best < 0 || p.served.Before(s.peers[best].served):
			best, ties = rank, 1
		case p.served.Equal(s.peers[best].served):
			if ties++; s.Rand.IntN(ties) == 0 {
				best = rank
			}
		}
	}
	return best
}

// Stirred says whether Rechoke may have something to say before time goes on.
func (s *State) Stirred() bool { return s.stirred }

// Turning says whether Rechoke will have something to say once time has gone on, though nothing happens: somebody's turn will be over.
func (s *State) Turning() bool { return !s.turns.IsZero() }

// Serves says whether a peer's request is to be answered: we have the piece, the blocks
// exist and the peer is not choked. Otherwise it is ignored, as the peer has been told.
func (s *State) Serves(rank int, r Request) bool {
	return !s.peers[rank].choked && s.have.Has(r.Piece) &&
		0 <= r.Lo && r.Lo < r.Hi && r.Hi <= s.Layout.Blocks(r.Piece)
}

// Fed says whether a peer is served and lacks something: what it hears of it may ask us for at once.
func (s *State) Fed(rank int) bool {
	p := &s.peers[rank]
	return p.up && !p.choked && !p.has.Full()
}

// offers says whether we have a piece that a peer lacks, and nobody of its site has if that is another.
func (s *State) offers(rank int) bool {
	has := s.lacks(rank)
	if has.Full() || s.have.Count() == 0 {
		return false
	}
	return s.have.Count() > has.Count() || !has.Covers(s.have)
}
