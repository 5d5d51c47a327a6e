package exchange

import (
	"cmp"
	"slices"
	"time"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// Where nodes have sites, what leads from one to another may be thin, and nothing is to cross it twice:
//
//	a peer of our site      is asked for whatever it has; rarest is what the fewest of the site have
//	a peer of another site  is asked only for what nobody in our site has, and of this only for what we
//	                        import: each piece has one importer in a site (steal.Imports)
//
// An importer has little on its way at once: two pieces, or as much as crosses in a quarter second. A piece is of use to the
// site when it is whole, and what all importers have begun shares what crosses. For the same reason a site of many nodes
// imports few pieces at a time (AtOnce).
// What only one site has leaves it once: the others share it, and have the rest from each other (queue, easier).
// Who crosses best is asked first, and blocks that another site owes are not asked for again in an end-game.

// NumberSites numbers the sites that nodes are in, whose names are given by rank (empty: in none), as Config.Sites has them; names are the sites' by number.
// Both are nil if not at least two nodes differ: then there are no sites.
func NumberSites(of []string) (sites []int, names []string) {
	number, several := map[string]int{}, false
	for _, name := range of {
		several = several || name != of[0]
		k := -1
		if name != "" {
			var known bool
			if k, known = number[name]; !known {
				k = len(names)
				number[name], names = k, append(names, name)
			}
		}
		sites = append(sites, k)
	}
	if !several {
		return nil, nil
	}
	return sites, names
}

// lanes are how many peers of other sites are asked at once, whatever they deliver.
const lanes = 2

// site is what a State knows because it is in one.
type site struct {
	near []int32     // by piece: living nodes of our site that have it and do not snub us, ourselves included
	has  []piece.Set // by site: what its living nodes have together
	ours piece.Set   // what we import

	begin  []bool      // by piece: it may be begun to be imported; nil: all may
	since  []time.Time // by piece: since when, if it may
	alone  []int       // by site, the last for nodes of none: pieces that nobody else has
	looked time.Time   // when that was worked out
	stride int         // from a piece to the one that may be begun after it

	shifted bool          // some want may be asked of another site that should not be
	hungry  bool          // we could have asked another site for more than we import
	took    time.Duration // from the first request for the last imported piece until it was here

	asked   int            // peers of other sites that owe us something, at this call of Asks
	flight  unit.Bytes     // what they owe
	crosses unit.Bandwidth // what comes from them

	rates []unit.Bandwidth // by rank: only during a call of Asks
}

func newSite(c Config) *site {
	if c.Sites == nil || c.Sites[c.Self] < 0 {
		return nil
	}
	n := c.Layout.Count()
	x := &site{near: make([]int32, n), ours: *piece.NewSet(n)}
	for _, k := range c.Sites {
		for len(x.has) <= k {
			x.has = append(x.has, *piece.NewSet(n))
		}
	}
	if c.AtOnce > 0 {
		x.begin, x.since, x.stride = make([]bool, n), make([]time.Time, n), stride(n)
		x.alone = make([]int, len(x.has)+1)
	}
	return x
}

// near says whether a peer is of our site, or there are no sites.
func (s *State) near(rank int) bool {
	return s.site == nil || s.Sites[rank] == s.Sites[s.Self]
}

// may says whether a peer may be asked for piece i, if it has it. One that snubs us is for a while not tried with what another site
// has: it is to be imported again.
func (s *State) may(rank, i int) bool {
	switch p := &s.peers[rank]; {
	case s.site == nil:
		return true
	case s.near(rank):
		return s.site.near[i] > 0 || s.now.Sub(p.heard) > 3*SnubAfter || !s.elsewhere(i)
	}
	return s.site.near[i] == 0 && s.site.ours.Has(i)
}

// mayBegin says the same of a piece that nobody was asked for yet.
func (s *State) mayBegin(rank, i int) bool {
	return s.may(rank, i) && (s.near(rank) || s.site.begins(i) && !s.easier(rank, i))
}

// elsewhere says whether a peer of another site that is connected has piece i.
func (s *State) elsewhere(i int) bool {
	for rank := range s.peers {
		if p := &s.peers[rank]; p.up && p.has.Has(i) && !s.near(rank) {
			return true
		}
	}
	return false
}

// snub notes that a peer owes blocks and sends none, or that it has sent something again. What only such nodes of our
// site have, the site has not: else it would wait for a node that hangs until that is given up. One that hoards is snubbed until it gives something.
func (s *State) snub(rank int, is bool) {
	p := &s.peers[rank]
	if is = is || p.hoards; p.snubbed == is {
		return
	}
	p.snubbed = is
	if s.site == nil || !s.near(rank) {
		return
	}
	d := int32(1)
	if is {
		d = -1
	}
	for r := range p.has.Ranges() {
		for i := r.Lo; i < r.Hi; i++ {
			if s.known.Has(i) {
				s.nearer(i, d)
			}
		}
	}
}

// nearer notes that one node more (d = 1) or fewer (-1) of our site has piece i and may be asked for it.
func (s *State) nearer(i int, d int32) {
	x := s.site
	x.near[i] += d
	x.shifted = x.shifted || s.want(i) != nil && (d > 0 && x.near[i] == 1 || d < 0 && x.near[i] == 0)
	if d < 0 && x.near[i] == 0 {
		s.wet()
	}
}

// rarity is by how many holders the pieces of a peer are chosen.
func (s *State) rarity(rank int) []int32 {
	if s.site != nil && s.near(rank) {
		return s.site.near
	}
	return s.holders
}

// Importing notes which pieces we are to ask other sites for.
func (s *State) Importing(ours *piece.Set) {
	if s.site != nil {
		s.site.ours, s.site.shifted = *ours.Clone(), true
		s.wet()
	}
}

// Importable says whether piece i is one to ask other sites for, whoever in our site is to do it: somebody has
// it, nobody in our site does, its digest is known, and it is not on its way to us.
func (s *State) Importable(i int) bool {
	if s.site == nil || !s.site.begins(i) || !s.foreign(i) || !s.known.Has(i) {
		return false
	}
	w := s.want(i)
	return s.place[i] >= 0 || w != nil && !w.anyAsked() // what had come of it came from one that hangs
}

// foreign says whether other sites have piece i, and ours does not.
func (s *State) foreign(i int) bool { return s.site.near[i] == 0 && s.holders[i] > 0 }

// Hungry says whether, when Asks was last called, a peer of another site could have been asked for more if
// only we imported more.
func (s *State) Hungry() bool { return s.site != nil && s.site.hungry }

// ImportTook is how long a piece took us to import, the last time; zero if there was none.
func (s *State) ImportTook() time.Duration {
	if s.site == nil {
		return 0
	}
	return s.site.took
}

// ImportTakes is how long a piece takes us to import: the last one, or one that is on its way, if that is longer by now; zero if there is none.
func (s *State) ImportTakes() time.Duration {
	takes := s.ImportTook()
	for _, w := range s.wants {
		if w.imports && w.anyAsked() {
			takes = max(takes, s.now.Sub(w.began))
		}
	}
	return takes
}

// heldAt is held, by site. What the site of one that has lost something still has bereft and deserted find out.
func (s *State) heldAt(rank, i int, d int32) {
	x := s.site
	if x == nil || s.Sites[rank] < 0 {
		return
	}
	k := s.Sites[rank]
	if k == s.Sites[s.Self] && !s.peers[rank].snubbed {
		s.nearer(i, d)
	}
	if d > 0 {
		x.has[k].Add(i)
	}
}

// bereft works out anew whether the site of a node has piece i, which that node has lost. O(nodes).
func (s *State) bereft(rank, i int) {
	x := s.site
	if x == nil || s.Sites[rank] < 0 {
		return
	}
	k := s.Sites[rank]
	for other := range s.peers {
		has := &s.peers[other].has
		if other == s.Self {
			has = s.have
		}
		if s.Sites[other] == k && has.Has(i) {
			return
		}
	}
	x.has[k].Remove(i)
}

// deserted works out anew what the site of a node has, that has lost all that it had. O(nodes × pieces).
func (s *State) deserted(rank int) {
	x := s.site
	if x == nil || s.Sites[rank] < 0 {
		return
	}
	k := s.Sites[rank]
	x.has[k] = *piece.NewSet(s.have.Len())
	for other := range s.peers {
		if s.Sites[other] != k {
			continue
		}
		has := &s.peers[other].has
		if other == s.Self {
			has = s.have
		}
		for r := range has.Ranges() {
			for i := r.Lo; i < r.Hi; i++ {
				if s.known.Has(i) {
					x.has[k].Add(i)
				}
			}
		}
	}
}

// lacks is what tells whether we have anything for a peer: what it has, or, of another site, what that one has.
func (s *State) lacks(rank int) *piece.Set {
	if s.near(rank) || s.Sites[rank] < 0 {
		return &s.peers[rank].has
	}
	return &s.site.has[s.Sites[rank]]
}

// crossing prepares a call of Asks: it frees what other sites owe that we have no business to ask them for
// any more, and puts the peers that cross best before the others, those of which that is not known yet first.
func (s *State) crossing(order []int32, now time.Time) (cancel []Ask) {
	x := s.site
	if x == nil {
		return nil
	}
	s.queue(now)
	if x.shifted {
		x.shifted = false
		cancel = s.withdraw()
	}
	x.asked, x.flight, x.crosses, x.hungry = 0, 0, 0, false
	if x.rates == nil {
		x.rates = make([]unit.Bandwidth, len(s.peers))
	}
	rates := x.rates // those of our site all alike, but for who snubs us
	clear(rates)
	for rank := range s.peers {
		p := &s.peers[rank]
		if s.near(rank) || !p.up {
			if p.snubbed {
				rates[rank] = -1
			}
			continue
		}
		rate := p.in.at(now)
		x.crosses += rate
		x.flight += p.owes
		if p.owes > 0 && !p.snubbed {
			x.asked++
		}
		switch {
		case p.snubbed:
			rates[rank] = -1
		case p.in.since.IsZero():
			rates[rank] = 1 << 62
		default:
			rates[rank] = rate
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(rates[b], rates[a]) })
	return cancel
}

// withdraw frees the blocks that we may not ask other sites for any more.
func (s *State) withdraw() (cancel []Ask) {
	for k := len(s.wants) - 1; k >= 0; k-- { // unwant puts the last one into the place of one that goes
		w := s.wants[k]
		i := int(w.piece)
		for b := range w.asked {
			owing := []int32{w.asked[b]}
			for _, t := range w.twice {
				if int(t.block) == b {
					owing = append(owing, t.rank)
				}
			}
			for _, rank := range owing {
				if rank >= 0 && !s.may(int(rank), i) && w.untake(b, rank) {
					s.peers[rank].owes -= s.blockSize(i, b)
					cancel = s.revoke(cancel, int(rank), i, b)
				}
			}
		}
		w.imports = w.imports && (slices.ContainsFunc(w.asked, func(rank int32) bool { return rank >= 0 && !s.near(int(rank)) }) ||
			slices.ContainsFunc(w.twice, func(t owing) bool { return !s.near(int(t.rank)) }))
		if int(w.left) == len(w.asked) && !w.anyAsked() { // as if we had never asked
			s.unwant(w)
			s.refresh(i)
		}
	}
	if len(cancel) > 0 {
		s.loose = true
		s.wet()
	}
	return cancel
}

// replaceable says whether somebody else has anything of what a peer owes. What crosses slowly from the only one that has
// it does not cross faster if it is asked for again.
func (s *State) replaceable(rank int) bool {
	if s.near(rank) {
		return true
	}
	for _, w := range s.wants {
		if s.holders[w.piece] > 1 && (slices.Contains(w.asked, int32(rank)) || slices.ContainsFunc(w.twice, func(t owing) bool { return int(t.rank) == rank })) {
			return true
		}
	}
	return false
}

// lane says whether a peer may be asked now, as far as what is on its way to us from other sites is concerned.
func (s *State) lane(rank int) bool {
	p := &s.peers[rank]
	if s.near(rank) || p.owes > 0 || p.snubbed {
		return true
	}
	enough := max(s.least(), unit.Bytes(float64(s.site.crosses)*InFlight.Seconds()))
	return s.site.asked < lanes || s.site.flight < enough
}

// asksFor notes that a peer owes more than before.
func (s *State) asksFor(rank int, before, owes unit.Bytes) {
	if !s.near(rank) {
		s.site.flight += owes - before
		if before == 0 {
			s.site.asked++
		}
	}
}

// nothing notes that there is nothing to ask a peer for.
func (s *State) nothing(rank int) {
	if p := &s.peers[rank]; !s.near(rank) && !p.snubbed {
		s.site.hungry = true
	}
}

// imported notes that a piece has come.
func (s *State) imported(w *want) {
	if s.site != nil && w.imports {
		s.site.took = max(time.Millisecond, s.now.Sub(w.began))
	}
}
