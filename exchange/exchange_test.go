package exchange

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

var t0 = time.Unix(1_000_000, 0)

func at(d time.Duration) time.Time { return t0.Add(d) }

// layout has pieces of four blocks.
func layout(pieces int) piece.Layout {
	return piece.Layout{Size: unit.Bytes(pieces) * unit.MiB, Piece: unit.MiB}
}

func state(nodes, pieces int, barrier bool) *State {
	s := New(Config{Self: 0, Nodes: nodes, Layout: layout(pieces), Barrier: barrier, Rand: rand.New(rand.NewPCG(1, 2))})
	for i := range pieces {
		s.Known(i)
	}
	for i := 1; i < nodes; i++ {
		s.Up(i)
		s.Choked(i, false)
	}
	return s
}

func TestBarrier(t *testing.T) {
	s := state(3, 4, true)
	s.Announced(1, piece.Range{Lo: 0, Hi: 2})
	s.Announced(2, piece.Range{Lo: 1, Hi: 3})
	if ask, _ := s.Asks(t0); ask != nil || s.Open() {
		t.Fatalf("asks %v although nobody has piece 3", ask)
	}
	s.Got(3)
	if ask, _ := s.Asks(t0); len(ask) == 0 || !s.Open() {
		t.Fatal("every piece is held, and nothing is asked")
	}
	s.Gone(1)
	if s.Held(0) || !s.Held(1) {
		t.Error("the possessions of a dead node count")
	}
}

func TestOffered(t *testing.T) {
	s := state(3, 4, false)
	offered := func(want int) {
		t.Helper()
		if got := s.Offered(); got != want {
			t.Fatalf("%d pieces are offered, want %d", got, want)
		}
	}
	offered(0)
	s.Announced(1, piece.Range{Lo: 0, Hi: 3})
	s.Announced(2, piece.Range{Lo: 0, Hi: 1})
	offered(3)
	s.Got(0)
	offered(2)
	s.Got(3) // ours alone
	offered(2)
	s.Gone(1)
	offered(0)
	s.Lost(0) // node 2 has it
	offered(1)
}

func TestRarestFirst(t *testing.T) {
	for seed := range uint64(20) {
		s := New(Config{Nodes: 4, Layout: layout(6), Rand: rand.New(rand.NewPCG(seed, 2))})
		for i := range 6 {
			s.Known(i)
		}
		for i := 1; i < 4; i++ {
			s.Up(i)
		}
		s.Choked(1, false) // the only one that serves us
		s.Announced(1, piece.Range{Lo: 0, Hi: 6})
		s.Announced(2, piece.Range{Lo: 0, Hi: 5})
		s.Announced(3, piece.Range{Lo: 2, Hi: 4})
		var holders []int // of the pieces, in the order in which they are asked for
		for len(holders) < 6 {
			ask, _ := s.Asks(t0)
			if len(ask) != 1 || ask[0].Peer != 1 {
				t.Fatalf("asks %v after %v", ask, holders)
			}
			holders = append(holders, int(s.holders[ask[0].Piece]))
			s.Got(ask[0].Piece)
		}
		if want := []int{1, 2, 2, 2, 3, 3}; !slices.Equal(holders, want) {
			t.Errorf("seed %d: asks for pieces that %v nodes have, want %v", seed, holders, want)
		}
	}
}

func TestUnknownDigestIsNotAsked(t *testing.T) {
	s := New(Config{Nodes: 2, Layout: layout(2), Rand: rand.New(rand.NewPCG(1, 1))})
	s.Up(1)
	s.Choked(1, false)
	s.Announced(1, piece.Range{Lo: 0, Hi: 2})
	if ask, _ := s.Asks(t0); len(ask) != 0 {
		t.Fatalf("asks %v, which could not be checked", ask)
	}
	s.Known(1)
	if ask, _ := s.Asks(t0); len(ask) != 1 || ask[0].Piece != 1 {
		t.Fatalf("asks %v, want piece 1", ask)
	}
}

func TestInFlight(t *testing.T) {
	s := state(2, 100, false)
	s.Announced(1, piece.Range{Lo: 0, Hi: 100})
	ask, _ := s.Asks(t0)
	if len(ask) != 1 || ask[0].Hi != 4 {
		t.Fatalf("an unmeasured peer is asked %v, want one piece", ask)
	}
	if more, _ := s.Asks(t0); more != nil {
		t.Fatalf("asks %v although two blocks are on their way", more)
	}
	for b := range 3 { // one block is left: less than two
		s.Block(1, ask[0].Piece, b, at(time.Duration(b)*time.Millisecond))
	}
	if more, _ := s.Asks(at(3 * time.Millisecond)); len(more) != 1 {
		t.Fatalf("asks %v when the pipe is about to drain", more)
	}
	// At 40 MiB/s a quarter second is ten pieces.
	now := at(time.Second)
	for i := range 160 {
		now = now.Add(25 * time.Millisecond)
		for range 4 {
			s.Block(1, 99, i%4, now)
		}
	}
	s.Asks(now)
	if owes := s.peers[1].owes; owes < 9*unit.MiB || owes > 12*unit.MiB {
		t.Errorf("%v in flight at 40 MiB/s, want about 10 MiB", owes)
	}
}

// Pieces that are smaller than a block can be are no more at once for that: at a slow peer they would wait for long.
func TestInFlightOfSmallPieces(t *testing.T) {
	const pieces = 100
	s := New(Config{Nodes: 2, Layout: piece.Layout{Size: pieces * piece.PaperSize, Piece: piece.PaperSize}, Rand: rand.New(rand.NewPCG(1, 1))})
	for p := range pieces {
		s.Known(p)
	}
	s.Up(1)
	s.Choked(1, false)
	s.Announced(1, piece.Range{Lo: 0, Hi: pieces})
	if ask, _ := s.Asks(t0); len(ask) != 2 || s.peers[1].owes != 2*piece.PaperSize {
		t.Errorf("an unmeasured peer is asked %v, want two pieces", ask)
	}
}

func TestEndgame(t *testing.T) {
	s := state(3, 1, false)
	s.Announced(1, piece.Range{Lo: 0, Hi: 1})
	ask, _ := s.Asks(t0)
	if len(ask) != 1 || ask[0] != (Ask{1, Request{0, 0, 4}}) {
		t.Fatalf("asks %v", ask)
	}
	s.Announced(2, piece.Range{Lo: 0, Hi: 1})
	ask, _ = s.Asks(t0)
	if len(ask) != 1 || ask[0] != (Ask{2, Request{0, 2, 4}}) {
		t.Fatalf("end-game asks %v, want the second half of node 2", ask)
	}
	if cancel := s.Block(2, 0, 2, t0); !slices.Equal(cancel, []Ask{{1, Request{0, 2, 3}}}) {
		t.Errorf("cancels %v, want block 2 of node 1", cancel)
	}
	if s.peers[1].owes != 3*piece.BlockSize || s.peers[2].owes != piece.BlockSize {
		t.Errorf("owed are %v and %v", s.peers[1].owes, s.peers[2].owes)
	}
	if cancel := s.Got(0); !slices.Equal(cancel, []Ask{{1, Request{0, 0, 2}}, {1, Request{0, 3, 4}}, {2, Request{0, 3, 4}}}) {
		t.Errorf("the piece is here, cancels %v", cancel)
	}
	if s.peers[1].owes != 0 || s.peers[2].owes != 0 {
		t.Errorf("still owed: %v and %v", s.peers[1].owes, s.peers[2].owes)
	}
}

func TestSnubbed(t *testing.T) {
	s := state(3, 1, false)
	s.Announced(1, piece.Range{Lo: 0, Hi: 1})
	s.Asks(t0)
	if _, cancel := s.Asks(at(SnubAfter + 1)); len(cancel) != 1 || cancel[0].Peer != 1 {
		t.Fatalf("cancels %v, want what the silent node owes", cancel)
	}
	s.Announced(2, piece.Range{Lo: 0, Hi: 1})
	ask, _ := s.Asks(at(SnubAfter + 2))
	if i := slices.IndexFunc(ask, func(a Ask) bool { return a.Peer == 2 }); i < 0 {
		s.Down(1)
		if ask, _ = s.Asks(at(SnubAfter + 3)); len(ask) != 1 || ask[0].Peer != 2 {
			t.Fatalf("asks %v, want node 2", ask)
		}
	}
}

func TestSpoiledPieceComesFromOnePeer(t *testing.T) {
	s := state(3, 1, false)
	s.Announced(1, piece.Range{Lo: 0, Hi: 1})
	s.Asks(t0)
	s.Announced(2, piece.Range{Lo: 0, Hi: 1})
	s.Asks(t0)
	s.Spoiled(0)
	var got []Ask
	for range 5 {
		ask, _ := s.Asks(t0)
		got = append(got, ask...)
	}
	if len(got) != 1 || got[0].Lo != 0 || got[0].Hi != 4 {
		t.Fatalf("asks %v, want all blocks of one node", got)
	}
	first := got[0].Peer
	s.Block(first, 0, 0, t0)
	s.Down(first)
	got, _ = s.Asks(t0)
	if len(got) != 1 || got[0].Peer == first || got[0].Lo != 1 || got[0].Hi != 4 {
		t.Fatalf("asks %v, want the other blocks of the other node", got)
	}
}

// Who lets go of a piece each time that it has given a block of it is not asked again for one that was spoiled, unless nobody else gives it.
func TestWhoLetsGoIsNotAskedAgain(t *testing.T) {
	const liar, other = 1, 2
	s := state(3, 1, false)
	s.Choked(other, true)
	s.Announced(liar, piece.Range{Lo: 0, Hi: 1})
	s.Announced(other, piece.Range{Lo: 0, Hi: 1})
	asked := func(want int) {
		t.Helper()
		var got []Ask
		for range 5 {
			ask, _ := s.Asks(t0)
			got = append(got, ask...)
		}
		if len(got) != 1 || got[0].Peer != want {
			t.Fatalf("asks %v, want one of %d", got, want)
		}
	}
	asked(liar)
	s.Block(liar, 0, 0, t0)
	s.Choked(liar, true)
	s.Choked(other, false)
	asked(other)
	s.Choked(liar, false)
	for range 20 {
		s.Spoiled(0)
		asked(other)
	}
	s.Spoiled(0)
	s.Choked(other, true)
	asked(liar)
}

// A peer that alone has a piece and gives nothing is found, though others give
// all the while; one that gives now and then, or has others to serve, is not.
func TestHoards(t *testing.T) {
	const last = 70 * time.Second
	for _, tt := range []struct {
		name  string
		nodes int
		does  func(s *State, now time.Time, second int) // peer 1, which has all 100 pieces
		found time.Duration                             // zero: not within last
	}{
		{"silent", 4, func(*State, time.Time, int) {}, HoardAfter},
		{"gives us a block now and then", 4, func(s *State, now time.Time, second int) {
			if second%20 == 0 {
				s.Block(1, 99, 0, now)
			}
		}, 0},
		{"serves others before us", 30, func(s *State, _ time.Time, _ int) {
			s.peers[1].partner = false
			s.Choked(1, true)
		}, 0},
		{"serves others before us, for longer than it takes to go round", 10, func(s *State, _ time.Time, _ int) {
			s.peers[1].partner = false
			s.Choked(1, true)
		}, 0},
		{"serves us when our turn comes", 30, func(s *State, now time.Time, second int) {
			s.peers[1].partner = false
			s.Choked(1, second < 50)
			if second >= 60 {
				s.Block(1, 99, 0, now)
			}
		}, 0},
		{"sends what nobody asked for", 4, func(s *State, now time.Time, _ int) {
			s.Discarded(1, 0, 0, now)
		}, HoardAfter},
		{"does not serve us, its partner", 30, func(s *State, _ time.Time, _ int) {
			s.peers[1].partner = true
			s.Choked(1, true)
		}, HoardAfter},
		{"gives up what it had alone", 4, func(s *State, _ time.Time, second int) {
			if second == 20 {
				s.Announced(3, piece.Range{Lo: 0, Hi: 100})
			}
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state(tt.nodes, 100, false)
			s.Asks(t0)
			s.Up(1)
			s.Choked(1, false)
			s.Announced(1, piece.Range{Lo: 0, Hi: 100})
			var found time.Duration
			for second := 0; found == 0 && time.Duration(second)*time.Second <= last; second++ {
				now := at(time.Duration(second) * time.Second)
				s.Asks(now)
				s.Rechoke(now)
				s.Announced(2, piece.Range{Lo: second, Hi: second + 1}) // what peer 2 reads, say
				s.Got(second)
				tt.does(s, now, second)
				for rank := 1; rank < tt.nodes; rank++ {
					if p, _, hoards := s.Hoards(rank, now); hoards {
						if rank != 1 || s.Have().Has(p) {
							t.Fatalf("after %d s, node %d is said to hoard piece %d", second, rank, p)
						}
						found = now.Sub(t0)
					}
				}
			}
			if tt.found == 0 && found > 0 || tt.found > 0 && (found < tt.found || found > tt.found+5*time.Second) {
				t.Errorf("found after %v, want after %v", found, tt.found)
			}
		})
	}
}

func TestServes(t *testing.T) {
	s := state(2, 2, false)
	s.Got(0)
	if s.Serves(1, Request{0, 0, 4}) {
		t.Error("serves a choked peer")
	}
	if ch := s.Rechoke(t0); !slices.Equal(ch, []Choke{{1, false}}) {
		t.Fatalf("Rechoke() = %v, want node 1 unchoked", ch)
	}
	for _, tt := range []struct {
		r    Request
		want bool
	}{
		{Request{0, 0, 4}, true}, {Request{0, 3, 4}, true}, {Request{0, 0, 5}, false}, {Request{0, 2, 2}, false},
		{Request{0, -1, 2}, false}, {Request{1, 0, 4}, false}, {Request{-1, 0, 4}, false}, {Request{2, 0, 4}, false},
	} {
		if got := s.Serves(1, tt.r); got != tt.want {
			t.Errorf("Serves(%v) = %v", tt.r, got)
		}
	}
	s.Up(1)
	if s.Serves(1, Request{0, 0, 4}) {
		t.Error("serves a peer that has just come back, before it is told")
	}
}

// Partners are served all the time, others in the places of those that need none, in turn, and one of those
// that stand still.
func TestChoking(t *testing.T) {
	const nodes, slots = 30, 4
	s := New(Config{Nodes: nodes, Layout: layout(100), Slots: slots, Rand: rand.New(rand.NewPCG(5, 5))})
	var partners, others []int
	for i := 1; i < nodes; i++ {
		s.Up(i)
		if s.peers[i].partner {
			partners = append(partners, i)
		} else {
			others = append(others, i)
		}
	}
	s.Got(99)
	tick := 0
	run := func(ticks, most int) (served map[int]int) {
		t.Helper()
		served = map[int]int{}
		for range ticks {
			tick++
			s.Rechoke(at(time.Duration(tick) * 100 * time.Millisecond))
			n := 0
			for i := 1; i < nodes; i++ {
				if !s.peers[i].choked {
					n++
					served[i]++
				} else if s.peers[i].partner && s.peers[i].up {
					t.Fatalf("tick %d: partner %d is not served", tick, i)
				}
			}
			if n != most {
				t.Fatalf("tick %d: %d peers are served, want %d", tick, n, most)
			}
		}
		return served
	}
	inTurn := func(served map[int]int, ticks int) {
		t.Helper()
		for _, i := range others {
			if want := ticks / len(others); served[i] < want-60 || served[i] > want+60 {
				t.Errorf("node %d was served in %d of %d ticks, want its share of %d", i, served[i], ticks, want)
			}
		}
	}
	s.Rechoke(at(0))
	for k := range 90 { // all get on
		for i := 1; i < nodes; i++ {
			s.Announced(i, piece.Range{Lo: k, Hi: k + 1})
		}
		run(20, slots)
	}
	run(9, slots)
	run(40, slots+1)
	inTurn(run(4000, slots+1), 4000)
	s.Gone(partners[0])
	s.Announced(partners[1], piece.Range{Lo: 0, Hi: 100})
	inTurn(run(4000, slots-1+3), 3*4000) // the last one is still told what it may ask for, which is nothing
	for _, i := range others {
		s.Announced(i, piece.Range{Lo: 99, Hi: 100})
	}
	run(100, slots-1)
}

// Everybody has as many partners, they are partners of each other, and everybody can be reached.
func TestGraph(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		nodes, degree := 10+rng.IntN(300), 2+rng.IntN(8)
		g := Graph(nodes, degree, rand.New(rand.NewPCG(seed, 2)))
		odd := 0
		for i, with := range g {
			if len(with) != degree {
				odd++
			}
			for k, other := range with {
				if int(other) == i || k > 0 && with[k-1] >= other || !slices.Contains(g[other], int32(i)) {
					t.Fatalf("seed %d, %d nodes, degree %d: node %d has %v", seed, nodes, degree, i, with)
				}
			}
		}
		if odd > nodes*degree%2 {
			t.Errorf("seed %d, %d nodes: %d have not %d partners", seed, nodes, odd, degree)
		}
		reached := map[int32]bool{0: true}
		for queue := []int32{0}; len(queue) > 0; {
			i := queue[0]
			queue = queue[1:]
			for _, k := range g[i] {
				if !reached[k] {
					reached[k] = true
					queue = append(queue, k)
				}
			}
		}
		if len(reached) != nodes {
			t.Errorf("seed %d, %d nodes, degree %d: %d can be reached", seed, nodes, degree, len(reached))
		}
	}
}

// All nodes of a swarm, and of each of its sites, agree who is whose partner.
func TestPartnersAgree(t *testing.T) {
	sites := make([]int, 60)
	for i := range sites {
		sites[i] = i % 3
	}
	for _, sites := range [][]int{nil, sites} {
		var of []map[int]bool
		for self := range 60 {
			mine := map[int]bool{}
			in := map[int]int{} // by site
			for _, k := range Partners(self, 60, DefaultSlots, sites) {
				mine[k] = true
				if sites != nil {
					in[sites[k]]++
				}
			}
			for k, n := range in {
				if k == sites[self] && n != DefaultSlots || k != sites[self] && n != 2 {
					t.Errorf("node %d of site %d has %d partners of site %d", self, sites[self], n, k)
				}
			}
			of = append(of, mine)
		}
		for i, mine := range of {
			if sites == nil && len(mine) != DefaultSlots || sites != nil && len(mine) != DefaultSlots+4 {
				t.Errorf("node %d has %d partners", i, len(mine))
			}
			for k := range mine {
				if !of[k][i] {
					t.Errorf("node %d is partner of %d, which does not know it", i, k)
				}
			}
		}
	}
}

// What somebody says that he has does not count before it could be checked: nobody waits for it.
func TestUnknownDigestDoesNotCount(t *testing.T) {
	s := New(Config{Nodes: 3, Layout: layout(2), Barrier: true, Rand: rand.New(rand.NewPCG(1, 1))})
	s.Up(1)
	s.Announced(1, piece.Range{Lo: 0, Hi: 2})
	s.Announced(2, piece.Range{Lo: 0, Hi: 1})
	if s.Held(0) || s.Held(1) || s.Covered() || s.Open() {
		t.Error("pieces count as held whose digest nobody knows")
	}
	if p, _, alone := s.aloneWith(2); !alone || p != 0 {
		t.Error("node 2 owes a digest for piece 0, and nobody minds")
	}
	s.Known(0)
	if !s.Held(0) || s.Held(1) || s.holders[0] != 2 {
		t.Errorf("a digest became known: %d hold the piece, want 2", s.holders[0])
	}
	s.Gone(1)
	s.Known(1)
	if !s.Held(0) || s.Held(1) || s.holders[0] != 1 {
		t.Errorf("a node is gone: %d and %d hold the pieces, want 1 and none", s.holders[0], s.holders[1])
	}
	s.Withdrawn(2, 0)
	if s.Held(0) {
		t.Error("a piece that was found to be wrong counts")
	}
}

func TestManifest(t *testing.T) {
	m := NewManifest(layout(3))
	steps := []struct {
		from, piece int
		e           Entry
		want        Change
	}{
		{1, 0, Entry{10, 1, 0}, News},
		{2, 0, Entry{99, 1, 0}, Nothing},   // hearsay against the reader
		{2, 1, Entry{98, 3, 0}, News},      // hearsay
		{3, 1, Entry{11, 3, 0}, Corrected}, // the reader itself
		{1, 2, Entry{12, 1, 0}, News},
		{2, 2, Entry{12, 2, 0}, Nothing}, // read twice, alike
	}
	for i, s := range steps {
		if got := m.Add(s.from, s.piece, s.e); got != s.want {
			t.Fatalf("step %d: %v, want %v", i, got, s.want)
		}
	}
	if !m.Settled() {
		t.Fatal("all is known and nothing in doubt, but not settled")
	}
	m.Add(2, 2, Entry{77, 2, 0}) // a second reader differs
	if m.Settled() {
		t.Fatal("two readers differ and all is settled")
	}
	living := []bool{true, true, true, true}
	may := func(rank, _ int) bool { return living[rank] }
	if got := m.Audits(2, len(living), may); !slices.Equal(got, []int{2}) {
		t.Fatalf("node 2 audits %v, want piece 2", got)
	}
	living[2] = false
	if got := m.Audits(3, len(living), may); !slices.Equal(got, []int{2}) {
		t.Fatalf("node 3 audits %v when node 2 is dead", got)
	}
	if got := m.Add(3, 2, Entry{77, 3, 1}); got != Replaced || !m.Settled() {
		t.Fatalf("the audit gives %v", got)
	}
	if got := m.Blamed(); !slices.Equal(got, []Blame{{1, 2}}) {
		t.Errorf("blamed %v, want node 1 for piece 2", got)
	}
	if m.Audit(piece.Range{Lo: 2, Hi: 3}) {
		t.Error("a piece that was audited is due once more")
	}
	if !m.Audit(piece.Range{Lo: 1, Hi: 2}) || m.due != 1 {
		t.Errorf("%d pieces due, want the one that was asked for", m.due)
	}
	if !m.Audit(piece.Range{Lo: 0, Hi: 3}) || m.due != 2 {
		t.Errorf("%d pieces due, want the two that were read once", m.due)
	}
}

// What two have read alike is confirmed, and what we read ourselves; what one alone says is not, whatever it calls its reading.
func TestUnconfirmed(t *testing.T) {
	const self = 9
	m := NewManifest(layout(6))
	for i, said := range [][]Entry{
		{{10, 1, 0}, {10, 2, 0}},
		{{10, 2, 1}, {10, 1, 0}},
		{{10, 1, 0}, {11, 2, 1}},
		{{10, 1, 0}, {10, 1, 1}},
		{{11, 1, 0}, {10, self, 1}},
		{{10, 1, 0}, {10, 2, 0}, {11, 3, 1}},
	} {
		for _, e := range said {
			m.Add(e.Reader, i, e)
		}
	}
	if got := m.Unconfirmed(piece.Range{Hi: 6}, self); !slices.Equal(got, []int{2, 3, 5}) {
		t.Errorf("unconfirmed are %v", got)
	}
	m.Add(3, 0, Entry{10, 1, 0}) // hearsay
	m.Audit(piece.Range{Lo: 0, Hi: 1})
	m.Spare(0)
	if m.IsDue(0) || !m.Settled() {
		t.Error("due for audit still")
	}
}

// Who is to blame for wrong bytes is known only where the digest is the reader's own word and no other reader has said anything else,
// in whatever order.
func TestSure(t *testing.T) {
	for _, tt := range []struct {
		name string
		said []Entry // each by its reader
		want bool
	}{
		{"the reader's word", []Entry{{10, 1, 0}}, true},
		{"two that agree", []Entry{{10, 1, 0}, {10, 2, 0}}, true},
		{"an audit that agrees", []Entry{{10, 1, 0}, {10, 2, 1}}, true},
		{"two that do not", []Entry{{10, 1, 0}, {11, 2, 0}}, false},
		{"an audit that does not", []Entry{{10, 1, 0}, {11, 2, 1}}, false},
		{"which came first", []Entry{{11, 2, 1}, {10, 1, 0}}, false},
	} {
		m := NewManifest(layout(1))
		if m.Sure(0) {
			t.Fatal("sure of nothing")
		}
		for _, e := range tt.said {
			m.Add(e.Reader, 0, e)
		}
		if got := m.Sure(0); got != tt.want {
			t.Errorf("%s: sure is %v", tt.name, got)
		}
	}
	m := NewManifest(layout(1))
	m.Add(3, 0, Entry{10, 1, 0})
	if m.Sure(0) {
		t.Error("sure of hearsay")
	}
	m.Add(1, 0, Entry{11, 1, 0})
	if !m.Sure(0) {
		t.Error("not sure of the reader's word, for what others have said of it before")
	}
}

// Which of several that are equally rare is asked for is chance: were it the first for all nodes, they would have nothing to give to each other.
func TestTiesAreChance(t *testing.T) {
	chosen := map[int]bool{}
	for seed := range uint64(20) {
		s := New(Config{Nodes: 2, Layout: layout(6), Rand: rand.New(rand.NewPCG(seed, 2))})
		for i := range 6 {
			s.Known(i)
		}
		s.Up(1)
		s.Choked(1, false)
		s.Announced(1, piece.Range{Lo: 0, Hi: 6})
		ask, _ := s.Asks(t0)
		if len(ask) != 1 {
			t.Fatalf("asks %v, want one piece", ask)
		}
		chosen[ask[0].Piece] = true
	}
	if len(chosen) < 4 {
		t.Errorf("of 6 pieces 20 nodes ask for %v first", chosen)
	}
}

// In the end-game no block is asked of a third peer, each peer is asked for one share at a time, and nobody for any as long as there is a piece that nobody
// was asked for.
func TestEndgameIsBounded(t *testing.T) {
	s := state(6, 1, false)
	for rank, want := range []Request{{0, 0, 4}, {0, 2, 4}, {0, 1, 2}, {0, 0, 1}, {}} {
		s.Announced(rank+1, piece.Range{Lo: 0, Hi: 1})
		ask, _ := s.Asks(t0)
		if want == (Request{}) && len(ask) > 0 || want != (Request{}) && !slices.Equal(ask, []Ask{{rank + 1, want}}) {
			t.Errorf("asks %v of peer %d, want blocks %d to %d", ask, rank+1, want.Lo, want.Hi)
		}
	}
	s = state(3, 2, false)
	s.Announced(1, piece.Range{Lo: 0, Hi: 1})
	s.Asks(t0)
	s.Announced(2, piece.Range{Lo: 0, Hi: 1})
	if ask, _ := s.Asks(t0); len(ask) > 0 {
		t.Errorf("asks %v once more, while nobody has piece 1", ask)
	}
}

// A block that came and was thrown away is not owed any more, and asked for again if it is still wanted.
func TestDiscardedIsAskedAgain(t *testing.T) {
	s := state(2, 1, false)
	s.Announced(1, piece.Range{Lo: 0, Hi: 1})
	s.Asks(t0)
	for b := range 4 {
		s.Discarded(1, 0, b, t0)
		if want := unit.Bytes(3-b) * piece.BlockSize; s.peers[1].owes != want {
			t.Errorf("owes %v after %d blocks, want %v", s.peers[1].owes, b+1, want)
		}
	}
	s.Discarded(1, 0, 0, t0)
	if s.peers[1].owes != 0 {
		t.Errorf("owes %v after a block that it did not owe", s.peers[1].owes)
	}
	if ask, _ := s.Asks(t0); !slices.Equal(ask, []Ask{{1, Request{0, 0, 4}}}) {
		t.Errorf("asks %v, want all blocks again", ask)
	}
}
