package exchange

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// One that shares a link of whatever rate among all that it serves at once, and gives each a block in turn, is not said to hoard; one that
// gives nothing any more is, after HoardAfter where links are not slow, and at last after mostHoard.
func TestHoardingIsAMatterOfRate(t *testing.T) {
	const usual = 25 * unit.Mbit
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 3))
		rate := unit.Bandwidth(math.Exp(rng.Float64()*math.Log(1e4))) * 128 * unit.Bandwidth(unit.KiB)
		nodes := 2 + rng.IntN(40)
		size := unit.Bytes(64*unit.KiB) << rng.IntN(7)
		const pieces = 100
		s := New(Config{Nodes: nodes, Layout: piece.Layout{Size: pieces * size, Piece: size}, Rand: rng})
		for i := range pieces {
			s.Known(i)
		}
		s.peers[1].partner = true
		s.Up(1)
		s.Choked(1, false)
		s.Announced(1, piece.Range{Lo: 0, Hi: pieces})
		served := min(DefaultSlots+3, nodes-1)
		each := time.Duration(float64(served) * float64(2*min(size, piece.BlockSize)) / float64(rate) * 1e9)
		gives := t0.Add(each)
		const stops = 5 * time.Minute
		for d := time.Duration(0); ; d += 250 * time.Millisecond {
			now := at(d)
			s.Asks(now)
			s.Carried(unit.Bytes(float64(rate)*d.Seconds()), now)
			if d < stops && now.After(gives) {
				s.Block(1, 0, 0, now)
				gives = now.Add(time.Duration(float64(each) * (0.5 + 1.5*rng.Float64())))
			}
			_, within, hoards := s.Hoards(1, now)
			if !hoards && d < stops+2*mostHoard {
				continue
			}
			last := s.peers[1].gave
			if !hoards || d < stops || now.Sub(last) > within+time.Second {
				t.Fatalf("seed %d, %d nodes, pieces of %v, %v: said to hoard: %v, after %v, when it had given nothing for %v", seed, nodes, size, rate, hoards, d, now.Sub(last))
			}
			if rate >= usual && within != HoardAfter {
				t.Errorf("seed %d: waits for %v at %v", seed, within, rate)
			}
			break
		}
	}
}

// Who is no partner of ours, serves nobody and has all that it says alone is found out, also in a large swarm; and so is who has one piece alone, and says
// now and then that it has one more of those that others have.
func TestHoarderAmongMany(t *testing.T) {
	const pieces, nodes = 100, 1000
	for _, drips := range []bool{false, true} {
		s := state(nodes, pieces, false)
		s.Asks(t0)
		s.Up(1)
		s.peers[1].partner = false
		first := pieces
		if drips {
			first = 1
			s.Announced(2, piece.Range{Lo: 1, Hi: pieces})
		}
		s.Announced(1, piece.Range{Lo: 0, Hi: first})
		for d := time.Duration(0); ; d += time.Second {
			if d > 10*time.Minute {
				t.Fatalf("drips %v: not within %v", drips, d)
			}
			if k := int(d / (100 * time.Second)); drips && d%(100*time.Second) == 0 {
				s.Announced(1, piece.Range{Lo: k + 1, Hi: k + 2})
			}
			s.Asks(at(d))
			if _, _, hoards := s.Hoards(1, at(d)); hoards {
				break
			}
		}
	}
}

// Nobody hoards a piece that we keep from being asked for, because it is being read from the store. Once it is to be asked for again its holder may be found to.
func TestWhatIsReservedIsNotHoarded(t *testing.T) {
	for _, known := range []bool{false, true} {
		s := New(Config{Nodes: 3, Layout: layout(1), Rand: rand.New(rand.NewPCG(1, 2))})
		s.Asks(t0)
		s.Up(1)
		s.Choked(1, false)
		if known {
			s.Known(0)
		}
		s.Announced(1, piece.Range{Lo: 0, Hi: 1})
		if !s.Reserve(0) {
			t.Fatal("the piece cannot be reserved")
		}
		for d, found := time.Duration(0), false; !found; d += time.Second {
			const read = HoardAfter + 5*time.Second
			if d == read {
				s.Unreserve(0)
			}
			s.Asks(at(d))
			if _, _, found = s.Hoards(1, at(d)); found && d <= read || d > read+mostHoard {
				t.Fatalf("digest known %v: it is said to hoard %v after %v", known, found, d)
			}
		}
	}
}

// Of a piece whose digest nobody has told us we know no holder, so nobody has been given it.
func TestWhatHasNoDigestIsNotGiven(t *testing.T) {
	s := New(Config{Nodes: 3, Layout: layout(2), Rand: rand.New(rand.NewPCG(1, 2))})
	s.Announced(1, piece.Range{Lo: 0, Hi: 1})
	if s.gives(1) {
		t.Error("it is said to give it")
	}
}

// What a peer owes, and does not send, is asked of another, also where it is asked of one peer at a time only, and though that other serves us only later. Blocks that nobody
// asked for are no sign of life, and those that were cancelled are one for a while.
func TestWhatIsOwedIsNotKept(t *testing.T) {
	for _, sites := range [][]int{nil, {0, 1, 1}, {0, 0, 0, 1}} {
		for _, does := range []string{"sends what nobody asked for", "is silent", "is silent, and then sends the same piece again and again"} {
			s := New(Config{Nodes: max(3, len(sites)), Layout: piece.Layout{Size: 160 * unit.MiB, Piece: 16 * unit.MiB}, Sites: sites, Rand: rand.New(rand.NewPCG(1, 2))})
			s.Known(0)
			ours := piece.NewSet(10)
			ours.Add(0)
			s.Importing(ours)
			s.Asks(t0)
			for rank := 1; rank <= 2; rank++ {
				s.Up(rank)
				s.Announced(rank, piece.Range{Lo: 0, Hi: 1})
			}
			const liar, other = 1, 2
			s.Choked(liar, false)
			ask, _ := s.Asks(t0)
			if s.near(liar) {
				s.Spoiled(0)
				ask, _ = s.Asks(t0)
			}
			if len(ask) == 0 {
				t.Fatal("nobody is asked")
			}
			late := -1
			for d := time.Second; d < 90*time.Second && late < 0; d += time.Second {
				if does == "sends what nobody asked for" || does != "is silent" && d > 2*SnubAfter && d%(4*time.Second) == 0 {
					s.Discarded(liar, 9, 0, at(d))
				}
				if d == 10*time.Second {
					s.Choked(other, false)
				}
				ask, _ := s.Asks(at(d))
				if slices.ContainsFunc(ask, func(a Ask) bool { return a.Peer == other }) {
					late = int(d.Seconds())
				}
			}
			if late < 0 {
				t.Errorf("sites %v: what one owes that %s is asked of nobody else", sites, does)
			}
		}
	}
}

// A message may announce tens of thousands of runs. All pieces are gone through once for it, not once for each.
func TestManyRunsAreAnnouncedAtOnce(t *testing.T) {
	const pieces, runs = 1 << 20, 20_000
	s := New(Config{Nodes: 3, Layout: piece.Layout{Size: pieces * unit.KiB, Piece: unit.KiB}, Rand: rand.New(rand.NewPCG(1, 2))})
	s.Asks(t0)
	s.Up(1)
	s.Up(2)
	for i := range pieces {
		s.Known(i)
	}
	s.Announced(2, piece.Range{Lo: 0, Hi: pieces - 1})
	s.Announced(1, piece.Range{Lo: pieces - 1, Hi: pieces})
	s.Asks(at(HoardAfter * 2 / 3))
	began := time.Now()
	for i := range runs {
		s.Announced(1, piece.Range{Lo: 2 * i, Hi: 2*i + 1})
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it takes %v", took)
	}
}

// Who alone has what we lack and connects again and again instead of giving it is given up; who has to connect once more has all its time again.
func TestHoarderConnectsAgain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		every time.Duration
		times int
		want  time.Duration
	}{
		{"never", time.Hour, 0, HoardAfter},
		{"once", HoardAfter - time.Second, 1, 2*HoardAfter - time.Second},
		{"again and again", 10 * time.Second, 1000, HoardAfter + 10*time.Second},
	} {
		s := state(2, 4, false)
		s.Asks(t0)
		s.Up(1)
		s.Announced(1, piece.Range{Lo: 0, Hi: 1})
		for d := time.Duration(0); ; d += time.Second {
			s.Asks(at(d))
			if _, _, hoards := s.Hoards(1, at(d)); hoards {
				if d < tt.want || d > tt.want+2*time.Second {
					t.Errorf("connects again %s: given up after %v, want %v", tt.name, d, tt.want)
				}
				break
			}
			if d > 5*time.Minute {
				t.Errorf("connects again %s: not given up within %v", tt.name, d)
				break
			}
			if d > 0 && d%tt.every == 0 && d/tt.every <= time.Duration(tt.times) {
				s.Down(1)
				s.Up(1)
			}
		}
	}
}

// hoarding is a site in which node 1 says that it has what other sites have, and has given none of it for so long that it does not count.
func hoarding(t *testing.T, chokes bool) *State {
	t.Helper()
	s := alone(0)
	s.Choked(1, chokes)
	s.Announced(1, piece.Range{Lo: 0, Hi: 2})
	s.Announced(2, piece.Range{Lo: 0, Hi: 2})
	for d := time.Duration(0); d < HoardAfter+3*time.Second; d += 100 * time.Millisecond {
		if d%time.Second == 0 {
			s.Discarded(1, 9, 0, at(d))
		}
		ask, _ := s.Asks(at(d))
		for _, a := range ask {
			for b := a.Lo; b < a.Hi && a.Peer == 2; b++ {
				s.Block(2, a.Piece, b, at(d))
			}
			if w := s.want(a.Piece); w != nil && w.left == 0 {
				s.Got(a.Piece)
			}
		}
		if _, _, hoards := s.Hoards(1, at(d)); hoards {
			t.Fatalf("chokes %v: given up after %v, and others have what it has", chokes, d)
		}
	}
	return s
}

// A mate that says that it has what other sites have, and gives none of it, does not keep its site from importing that, whatever else it sends; when it gives something it
// counts again.
func TestMateThatHoardsDoesNotCount(t *testing.T) {
	for _, chokes := range []bool{true, false} {
		s := hoarding(t, chokes)
		if got := s.Have().Count(); got != 2 {
			t.Errorf("chokes %v: %d of 2 pieces are imported", chokes, got)
		}
		if s.Announced(1, piece.Range{Lo: 2, Hi: 3}) || s.Possesses(1) != 0 {
			t.Errorf("chokes %v: it gets on by what it says", chokes)
		}
		s.Announced(2, piece.Range{Lo: 2, Hi: 3})
		if !s.foreign(2) {
			t.Errorf("chokes %v: what it says that it has is not to be imported", chokes)
		}
		s.Choked(1, false)
		s.Block(1, 0, 0, at(HoardAfter+4*time.Second))
		if s.foreign(2) || !s.Announced(1, piece.Range{Lo: 3, Hi: 4}) || s.Possesses(1) != 4 {
			t.Errorf("chokes %v: it gives, and does not count", chokes)
		}
	}
}

// From one that has all nothing can be kept: then who was taken for a hoarder gets on by what it says, as anybody does.
func TestHoarderBesideOneThatHasAll(t *testing.T) {
	s := hoarding(t, true)
	for p := range s.Layout.Count() {
		s.Got(p)
	}
	if !s.Announced(1, piece.Range{Lo: 2, Hi: 3}) {
		t.Error("what it says does not count")
	}
}
