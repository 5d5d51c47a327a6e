package exchange

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// alone is a State of site 0 that imports all of ten pieces; node 1 is of its site, node 2 of another.
func alone(atOnce int) *State {
	s := New(Config{Nodes: 3, Layout: layout(10), Sites: []int{0, 0, 1}, AtOnce: atOnce, Rand: rand.New(rand.NewPCG(1, 2))})
	all := piece.NewSet(10)
	for p := range 10 {
		s.Known(p)
		all.Add(p)
	}
	s.Importing(all)
	for _, rank := range []int{1, 2} {
		s.Up(rank)
		s.Choked(rank, false)
	}
	return s
}

// A site that imports two pieces at a time asks for no more than two, whoever imports them.
func TestFewAreImportedAtOnce(t *testing.T) {
	s := alone(2)
	s.Announced(2, piece.Range{Lo: 0, Hi: 10})
	now := t0
	for round := 0; !s.Have().Full(); round++ {
		if round == 20 {
			t.Fatalf("%d of 10 pieces after %d rounds", s.Have().Count(), round)
		}
		now = now.Add(queueEvery)
		ask, _ := s.Asks(now)
		if len(ask) == 0 || len(ask) > 2 {
			t.Errorf("round %d: asks for %v", round, ask)
		}
		begin := 0
		for p := range 10 {
			if s.site.begins(p) {
				begin++
			}
		}
		if begin > 2 {
			t.Errorf("round %d: %d pieces may be begun", round, begin)
		}
		for _, a := range ask {
			for b := range s.Layout.Blocks(a.Piece) {
				s.Block(2, a.Piece, b, now)
			}
			s.Got(a.Piece)
		}
	}
}

// A site has what its living nodes have, whatever they get, lose and are said to have.
func TestWhatSitesHave(t *testing.T) {
	sites := []int{0, 0, 0, 1, 1, 2, -1}
	const pieces = 8
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 7))
		s := New(Config{Nodes: len(sites), Layout: layout(pieces), Sites: sites, Rand: rng})
		for rank := 1; rank < len(sites); rank++ {
			s.Up(rank)
		}
		for range 200 {
			rank, i := 1+rng.IntN(len(sites)-1), rng.IntN(pieces)
			switch rng.IntN(20) {
			case 0:
				s.Gone(rank)
			case 1, 2, 3:
				s.Known(i)
			case 4, 5:
				s.Got(i)
			case 6, 7:
				s.Lost(i)
			case 8, 9, 10, 11:
				s.Withdrawn(rank, i)
			default:
				s.Announced(rank, piece.Range{Lo: i, Hi: i + 1})
			}
			for k := range s.site.has {
				for p := range pieces {
					want := k == sites[0] && s.have.Has(p)
					for rank := 1; rank < len(sites); rank++ {
						want = want || sites[rank] == k && s.peers[rank].has.Has(p) && s.known.Has(p)
					}
					if got := s.site.has[k].Has(p); got != want {
						t.Fatalf("seed %d: site %d has piece %d: %v, want %v", seed, k, p, got, want)
					}
				}
			}
		}
	}
}

// That a piece is found to be wrong, which all have, is not worked out for all pieces of all nodes, once for each node.
func TestManyAreWithdrawn(t *testing.T) {
	const nodes, pieces, wrong = 60, 10_000, 2000
	sites := make([]int, nodes)
	for rank := range sites {
		sites[rank] = rank % 2
	}
	s := New(Config{Nodes: nodes, Layout: layout(pieces), Sites: sites, Rand: rand.New(rand.NewPCG(1, 2))})
	for i := range pieces {
		s.Known(i)
	}
	for rank := 1; rank < nodes; rank++ {
		s.Up(rank)
		s.Announced(rank, piece.Range{Hi: pieces})
	}
	began := time.Now()
	for i := range wrong {
		for rank := 1; rank < nodes; rank++ {
			s.Withdrawn(rank, i)
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it takes %v", took)
	}
	if s.site.has[1].Count() != pieces-wrong {
		t.Errorf("the other site has %d pieces, want %d", s.site.has[1].Count(), pieces-wrong)
	}
}

// What is worked out for all pieces of an object is, of one with very many, less often.
func TestManyPiecesAreQueuedSeldom(t *testing.T) {
	for _, tt := range []struct {
		pieces int
		every  time.Duration
	}{{10, queueEvery}, {1 << 16, queueEvery}, {1 << 20, 4 * queueEvery}} {
		l := piece.Layout{Size: unit.Bytes(tt.pieces) * unit.KiB, Piece: unit.KiB}
		s := New(Config{Nodes: 3, Layout: l, Sites: []int{0, 0, 1}, AtOnce: 16, Rand: rand.New(rand.NewPCG(1, 2))})
		s.Asks(t0)
		s.Asks(at(tt.every - time.Millisecond))
		if got := s.site.looked; !got.Equal(t0) {
			t.Errorf("%d pieces: worked out again after %v", tt.pieces, got.Sub(t0))
		}
		s.Asks(at(2 * tt.every))
		if got := s.site.looked; got.Equal(t0) {
			t.Errorf("%d pieces: not worked out again within %v", tt.pieces, 2*tt.every)
		}
	}
}

// What is imported at a time comes from all sites that have anything, wherever in the object that lies; and two sites
// do not want the same of a third.
func TestImportsComeFromAllSites(t *testing.T) {
	const pieces = 90
	sites := []int{0, 1, 2}
	var of [3][]bool
	for self := range sites {
		s := New(Config{Self: self, Nodes: 3, Layout: layout(pieces), Sites: sites, AtOnce: 8, Rand: rand.New(rand.NewPCG(1, 2))})
		for p := range pieces {
			s.Known(p)
		}
		for rank := range sites {
			if rank != self {
				s.Up(rank)
				s.Announced(rank, piece.Range{Lo: 30 * rank, Hi: 30*rank + 30})
			}
		}
		for p := 30 * self; p < 30*self+30; p++ {
			s.Got(p)
		}
		s.Asks(t0)
		from := [3]int{}
		for p := range pieces {
			if s.site.begins(p) {
				from[p/30]++
			}
		}
		want := [3]int{4, 4, 4}
		want[self] = 0
		if from != want {
			t.Errorf("site %d imports %v from sites 0 to 2, want %v", self, from, want)
		}
		of[self] = s.site.begin
	}
	for p := range pieces {
		if n := p / 30; of[(n+1)%3][p] && of[(n+2)%3][p] {
			t.Errorf("both others want piece %d of site %d", p, n)
		}
	}
}

// What only one site has leaves it once: the others do not choose the same, whatever comes to be there meanwhile, and what one of them has is asked of that.
func TestOthersShareWhatOneSiteHas(t *testing.T) {
	const pieces = 90
	sites := []int{0, 1, 2}
	chosen := map[int]int{} // by piece: the site
	for self := 1; self < 3; self++ {
		s := New(Config{Self: self, Nodes: 3, Layout: layout(pieces), Sites: sites, AtOnce: 8, Rand: rand.New(rand.NewPCG(1, 2))})
		all := piece.NewSet(pieces)
		for p := range pieces {
			s.Known(p)
			all.Add(p)
		}
		s.Importing(all)
		for rank := range sites {
			if rank != self {
				s.Up(rank)
				s.Choked(rank, false)
			}
		}
		now := t0
		had := 0
		for p := range pieces / 18 {
			s.Announced(0, piece.Range{Lo: 18 * p, Hi: 18*p + 18})
			s.Asks(now)
			now = now.Add(queueEvery)
		}
		for p := range pieces {
			if s.site.begins(p) {
				had++
				if other, ok := chosen[p]; ok {
					t.Errorf("sites %d and %d both choose piece %d", other, self, p)
				}
				chosen[p] = self
			}
			if s.want(p) != nil && !s.site.begins(p) {
				t.Errorf("site %d has asked for piece %d, and has chosen others since", self, p)
			}
		}
		if had != 8 {
			t.Errorf("site %d has chosen %d pieces at a time, want 8", self, had)
		}
		other := 3 - self
		for p := range pieces {
			if !s.site.begins(p) && p%2 == 1 {
				s.Announced(other, piece.Range{Lo: p, Hi: p + 1})
			}
		}
		for p := range pieces {
			if s.site.begins(p) {
				s.Got(p)
			}
		}
		ask, _ := s.Asks(now.Add(queueEvery))
		if len(ask) == 0 {
			t.Errorf("site %d asks for nothing", self)
		}
		for _, a := range ask {
			if a.Peer != other && s.peers[other].has.Has(a.Piece) {
				t.Errorf("site %d asks site %d for piece %d, which site %d has as well", self, a.Peer, a.Piece, other)
			}
		}
	}
}

// Where no site alone has most of what is to be imported, a small one has its nodes import whatever they want to.
func TestSmallSitesImportWhatTheyWant(t *testing.T) {
	s := New(Config{Nodes: 3, Layout: layout(90), Sites: []int{0, 1, 2}, AtOnce: 8, Few: true, Rand: rand.New(rand.NewPCG(1, 2))})
	for p := range 90 {
		s.Known(p)
	}
	begin := func(now time.Time) (n int) {
		s.Asks(now)
		for p := range 90 {
			if s.site.begins(p) {
				n++
			}
		}
		return n
	}
	s.Announced(1, piece.Range{Lo: 0, Hi: 40})
	if n := begin(t0); n != 8 {
		t.Errorf("%d pieces may be begun, all of one site, want 8", n)
	}
	s.Announced(2, piece.Range{Lo: 40, Hi: 80})
	if n := begin(t0.Add(queueEvery)); n != 80 {
		t.Errorf("%d pieces may be begun, half of them of each site, want 80", n)
	}
}

// What only a node has of our site that sends nothing any more is asked of another site; when it sends
// something after all, of it again.
func TestMateThatHangsIsNotWaitedFor(t *testing.T) {
	s := alone(0)
	s.Announced(1, piece.Range{Lo: 0, Hi: 2})
	s.Announced(2, piece.Range{Lo: 0, Hi: 10})
	asked := func(now time.Time) (of [3][]int) {
		ask, _ := s.Asks(now)
		for _, a := range ask {
			of[a.Peer] = append(of[a.Peer], a.Piece)
		}
		return of
	}
	for now := t0; now.Before(t0.Add(SnubAfter)); now = now.Add(100 * time.Millisecond) {
		for _, p := range asked(now)[2] {
			if p < 2 {
				t.Fatalf("after %v: asks another site for piece %d, which a mate has", now.Sub(t0), p)
			}
			for b := range s.Layout.Blocks(p) {
				s.Block(2, p, b, now)
			}
			s.Got(p)
		}
	}
	if s.Importable(0) || s.Importable(1) || s.Have().Count() != 8 {
		t.Fatalf("of %d pieces the first ones could be imported: %v, %v", s.Have().Count(), s.Importable(0), s.Importable(1))
	}
	of := asked(t0.Add(SnubAfter + time.Second))
	if len(of[2]) == 0 || of[2][0] > 1 || len(of[1]) > 0 {
		t.Fatalf("asks the mate that hangs for %v, another site for %v", of[1], of[2])
	}
	s.Block(1, 9, 0, t0.Add(SnubAfter+2*time.Second))
	if _, cancel := s.Asks(t0.Add(SnubAfter + 2*time.Second)); len(cancel) == 0 || cancel[0].Peer != 2 || s.Importable(1-of[2][0]) {
		t.Errorf("the mate is back: cancels %v, and the other piece could be imported: %v", cancel, s.Importable(1-of[2][0]))
	}
}

// What crosses slowly from the only one that has it is not asked for again; it is when another has it, too.
func TestWhoAloneHasItIsWaitedFor(t *testing.T) {
	s := New(Config{Nodes: 4, Layout: layout(4), Sites: []int{0, 0, 1, 1}, Rand: rand.New(rand.NewPCG(1, 2))})
	all := piece.NewSet(4)
	for p := range 4 {
		s.Known(p)
		all.Add(p)
	}
	s.Importing(all)
	for rank := 1; rank < 4; rank++ {
		s.Up(rank)
	}
	s.Choked(2, false)
	s.Announced(2, piece.Range{Lo: 0, Hi: 4})
	if ask, _ := s.Asks(t0); len(ask) == 0 || ask[0].Peer != 2 {
		t.Fatalf("asks %v, want the only one that has anything", ask)
	}
	if _, cancel := s.Asks(at(2 * SnubAfter)); len(cancel) > 0 {
		t.Errorf("cancels %v, which nobody else has", cancel)
	}
	s.Announced(3, piece.Range{Lo: 0, Hi: 4})
	if _, cancel := s.Asks(at(3 * SnubAfter)); len(cancel) == 0 || cancel[0].Peer != 2 {
		t.Errorf("cancels %v, want what one owes that sends nothing", cancel)
	}
}

// Who alone has what we lack hoards it if it gives nothing. Not if it is of another site, and we have not asked it since others send as much as crosses.
func TestWhoWasNotAskedDoesNotHoard(t *testing.T) {
	for _, rank := range []int{1, 2} {
		s := alone(0)
		s.Announced(rank, piece.Range{Lo: 0, Hi: 10})
		if _, _, hoards := s.Hoards(rank, t0); hoards {
			t.Errorf("peer %d hoards at once", rank)
		}
		if _, _, hoards := s.Hoards(rank, at(HoardAfter+1)); hoards != s.near(rank) {
			t.Errorf("peer %d, which is of our site: %v, has given nothing for %v, and hoards: %v", rank, s.near(rank), HoardAfter, hoards)
		}
	}
}

// How long a piece takes to cross is no matter of what a mate sends of it that says afterwards that it has it.
func TestMateDoesNotStretchImports(t *testing.T) {
	s := alone(0)
	s.Announced(2, piece.Range{Lo: 0, Hi: 1})
	s.Asks(t0)
	s.Block(2, 0, 0, at(time.Second))
	if s.Asks(at(time.Second)); s.ImportTakes() != time.Second {
		t.Fatal("nothing is imported")
	}
	s.Announced(1, piece.Range{Lo: 0, Hi: 1})
	for d := 2 * time.Second; d < time.Minute; d += time.Second {
		s.Asks(at(d))
		if got := s.ImportTakes(); got > 2*time.Second {
			t.Fatalf("after %v a piece is said to take %v", d, got)
		}
	}
	if s.Got(0); s.ImportTook() != 0 {
		t.Errorf("it took %v", s.ImportTook())
	}
}
