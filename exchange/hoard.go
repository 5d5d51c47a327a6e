package exchange

import (
	"time"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// This file finds those who alone have a piece and give it to nobody. What is enough time for that depends on what links carry: one
// whose link is slow, and who has many to serve, gives each of them little for a long time.

const (
	HoardAfter = 30 * time.Second // has a piece alone, and gives nothing; links that are not slow carry enough in less
	mostHoard  = 4 * HoardAfter   // on the slowest of links
	hoardTimes = 4                // a hoarder could have served each of its peers so many times
	mostTurns  = 40               // turns of others that one who is no partner waits for, at most
)

// carried is what our link has been seen to carry.
type carried struct {
	most  unit.Bandwidth // that came in a second; zero: nothing is known
	since time.Time      // when this second began
	total unit.Bytes     // that had come by then
}

// Carried notes how much has come in all, from peers and from the store. It is to be called several times a second.
func (s *State) Carried(total unit.Bytes, now time.Time) {
	c := &s.carried
	if lasted := now.Sub(c.since); c.since.IsZero() {
		c.since, c.total = now, total
	} else if lasted >= time.Second {
		c.most = max(c.most, unit.Bandwidth(float64(total-c.total)/lasted.Seconds()))
		c.since, c.total = now, total
	}
}

// patience is how long a peer may take for so many bytes, if its link carries what ours has been seen to, and all that it serves at once are to
// have as many in that time.
func (s *State) patience(size unit.Bytes) time.Duration {
	if s.carried.most <= 0 {
		return HoardAfter
	}
	served := min(s.Slots+s.Slots/4+1, s.Nodes-1)
	takes := hoardTimes * float64(served) * float64(size) / float64(s.carried.most)
	return time.Duration(min(max(takes, HoardAfter.Seconds()), mostHoard.Seconds()) * float64(time.Second))
}

// aloneWith returns a piece that we lack, only that peer has, and we may ask it for; or one whose digest
// nobody has told us, which who has the piece should have; or, so that elsewhere is true, one that nobody else in our site has: for its sake other
// sites are not asked. What is reserved we ask nobody for, so nobody keeps it from us.
func (s *State) aloneWith(rank int) (piece int, elsewhere, ok bool) {
	for r := range s.have.Missing() {
		for i := r.Lo; i < r.Hi; i++ {
			switch {
			case !s.peers[rank].has.Has(i) || s.place[i] == absent:
			case (!s.known.Has(i) || s.open && s.holders[i] == 1) && s.may(rank, i):
				return i, false, true
			case s.open && s.site != nil && s.near(rank) && !s.peers[rank].hoards && s.known.Has(i) && s.others(rank, i) == 0:
				return i, true, true
			}
		}
	}
	return 0, false, false
}

// others is how many others have piece i, which a peer has: those of our site, if it is of ours.
func (s *State) others(rank, i int) int32 {
	n := s.rarity(rank)[i]
	if s.site == nil || !s.near(rank) || !s.peers[rank].snubbed { // it is counted itself
		n--
	}
	return n
}

// Hoards returns a piece that we lack and only that peer has, if it has given us nothing within the time that it is given: HoardAfter,
// or more where links are slow. Others may give all the while: it does not have what it announces, or serves nobody. One that is not our
// partner, and chokes us or has done so until just now, may be serving its own: it has as long as it takes to go round, and
// is waited for as long as others come by what it has. If other sites have the piece, too, that peer only counts no more as one of ours that has any, until it gives
// something. O(pieces) for those that have given nothing for as long.
func (s *State) Hoards(rank int, now time.Time) (piece int, within time.Duration, ok bool) {
	p := &s.peers[rank]
	within = s.patience(s.least())
	turns := !p.partner && (p.chokes || now.Sub(p.serves) <= within)
	if turns {
		within = s.patience(max(s.least(), s.Layout.Piece)) + turnFor*time.Duration(min(s.Nodes, mostTurns))
	}
	switch {
	case p.gave.IsZero(): // it came before there was a time
		p.gave = now
		return 0, 0, false
	case !p.up || now.Sub(p.gave) <= within:
		return 0, 0, false
	case !p.chokes && p.owes == 0 && !s.near(rank): // we have asked others for as much as crosses
		p.gave = now
		return 0, 0, false
	}
	piece, elsewhere, alone := s.aloneWith(rank)
	if !alone || turns && s.gives(rank) {
		p.gave = now
		return 0, 0, false
	}
	if elsewhere {
		p.hoards = true
		s.snub(rank, true)
		return 0, 0, false
	}
	return piece, within, true
}

// gives says whether others have any of what a peer had alone when this was last asked, or the time before: its link may be slow. The first time it is of what it
// has. (To have more in common with others it is enough to say that one has what they have.)
func (s *State) gives(rank int) (yes bool) {
	p := &s.peers[rank]
	before := p.only
	p.only = piece.NewSet(s.have.Len())
	for r := range p.has.Ranges() {
		for i := r.Lo; i < r.Hi; i++ {
			if s.others(rank, i) <= 0 { // less where nobody has told us the digest
				p.only.Add(i)
			} else if before == nil || before.Has(i) {
				yes = true
			}
		}
	}
	excused := before != nil && !yes && !p.stalls
	p.stalls = !yes
	return yes || excused
}
