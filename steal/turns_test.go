package steal

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// The first works of all owners come before all second ones, and so on; the first few places, however few, are far apart.
func TestPlaces(t *testing.T) {
	for _, tt := range []struct {
		pieces, owners, perWork int
		want                    []int
	}{
		{4, 1, 1, []int{0, 1, 2, 3}},
		{4, 4, 1, []int{0, 2, 1, 3}},
		{8, 4, 1, []int{0, 4, 2, 6, 1, 5, 3, 7}},
		{8, 4, 2, []int{0, 4, 2, 6}},
		{0, 3, 1, nil},
	} {
		if d := Divide(tt.pieces, seq(0, tt.owners), tt.perWork); !slices.Equal(d.Place, tt.want) {
			t.Errorf("%+v: places %v", tt, d.Place)
		}
	}
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 7))
		d := Divide(rng.IntN(300), seq(0, 1+rng.IntN(40)), 1+rng.IntN(5))
		end := 0
		order := seq(0, len(d.Works))
		slices.SortFunc(order, func(a, b int) int { return d.Place[a] - d.Place[b] })
		for _, w := range order {
			if d.Place[w] != end {
				t.Fatalf("seed %d: work %d comes after %d pieces, want %d", seed, w, d.Place[w], end)
			}
			end += d.Works[w].Len()
		}
	}
}

// shop is a store and nodes that read from it by their Turns, one piece at a time, in steps of a tick. What one has
// all hear after some ticks.
type shop struct {
	total, client unit.Bandwidth // of the store; zero: no limit
	link          unit.Bandwidth // of a node
	deaf          int            // ticks
	late          time.Duration  // the last node begins as much later than the first
	lump          float64        // bytes that come at a time; zero: any
	waits         bool           // else nobody waits for his turn

	when     []time.Duration // by piece: read
	rested   time.Duration   // of a node, at the most, before it had read its first piece
	everyone time.Duration   // until all were read
}

const tick = 50 * time.Millisecond

func (s *shop) run(t *testing.T, nodes, pieces int) {
	l := piece.Layout{Size: unit.Bytes(pieces) * unit.MiB, Piece: unit.MiB}
	d := Divide(pieces, seq(0, nodes), 1)
	type reader struct {
		list  []int
		turns *Turns
		read  float64
		left  float64 // of the piece that it is at
		rests time.Duration
		done  int
	}
	readers := make([]reader, nodes)
	for i := range readers {
		readers[i].turns = &Turns{}
		if s.waits {
			readers[i].turns = NewTurns(d, i, l)
		}
	}
	for w, owner := range d.Owner {
		readers[owner].list = append(readers[owner].list, w)
	}
	s.when = make([]time.Duration, pieces)
	heard := make([]int, s.deaf+1) // pieces had, by tick
	had := 0
	for at := time.Duration(0); had < pieces; at += tick {
		if at > 10*time.Hour {
			t.Fatalf("%d of %d pieces are read after %v", had, pieces, at)
		}
		now := noon.Add(at)
		copy(heard[1:], heard)
		heard[0] = had
		var busy []int
		for i := range readers {
			r := &readers[i]
			if at < s.late*time.Duration(i)/time.Duration(nodes) || len(r.list) == 0 {
				continue
			}
			reads, seen := r.turns.May(d.Place[r.list[0]], heard[s.deaf]), r.read
			if s.lump > 0 { // those of one node come between those of others
				seen = math.Floor(seen/s.lump+float64(i)/float64(nodes)) * s.lump
			}
			r.turns.Note(unit.Bytes(seen), reads && r.read > 0, heard[s.deaf], now)
			if r.turns.May(d.Place[r.list[0]], heard[s.deaf]) {
				busy = append(busy, i)
				if r.left == 0 {
					r.left = float64(l.Piece)
				}
			} else if r.done == 0 {
				r.rests += tick
				s.rested = max(s.rested, r.rests)
			}
		}
		rate := math.Inf(1)
		for _, most := range []unit.Bandwidth{s.client, s.link} {
			if most > 0 {
				rate = min(rate, float64(most))
			}
		}
		if s.total > 0 && len(busy) > 0 {
			rate = min(rate, float64(s.total)/float64(len(busy)))
		}
		for _, i := range busy {
			r := &readers[i]
			moved := min(r.left, rate*tick.Seconds())
			r.read += moved
			if r.left -= moved; r.left < 1 {
				r.left = 0
				s.when[r.list[0]] = at + tick
				r.list = r.list[1:]
				r.done++
				had++
			}
		}
		s.everyone = at + tick
	}
	slices.Sort(s.when)
}

// Where the store's total is narrow, pieces come one after the other from early on, and the last one hardly later. Where it is what each
// client gets, nobody waits for more than the trial takes.
func TestTurns(t *testing.T) {
	const mb = 1024 * 1024
	for _, tt := range []struct {
		name          string
		nodes, pieces int
		shop          shop
		turns         bool
	}{
		{"total, a piece each", 200, 200, shop{total: 4 * mb, link: 4 * mb}, true},
		{"total, heard late", 200, 200, shop{total: 4 * mb, link: 4 * mb, deaf: 5}, true},
		{"total, four links wide", 200, 200, shop{total: 16 * mb, link: 4 * mb, deaf: 2}, true},
		{"total, begun at different times", 200, 200, shop{total: 4 * mb, link: 4 * mb, late: 100 * time.Millisecond}, true},
		{"total, several pieces each", 64, 256, shop{total: 4 * mb, link: 4 * mb}, true},
		{"total, fewer pieces than nodes", 200, 64, shop{total: 4 * mb, link: 4 * mb}, true},
		{"total, so narrow that it takes long", 64, 64, shop{total: mb / 16, link: 4 * mb}, true},
		{"total, in lumps", 200, 800, shop{total: 4 * mb, link: 4 * mb, lump: mb / 128}, true},
		{"clients", 200, 200, shop{client: mb / 20, link: 4 * mb}, false},
		{"clients, in lumps", 200, 200, shop{client: mb / 20, link: 4 * mb, lump: mb / 128}, false},
		{"clients, heard late", 200, 200, shop{client: mb / 20, link: 4 * mb, deaf: 5}, false},
		{"clients, several pieces each", 64, 256, shop{client: mb / 10, link: 4 * mb}, false},
		{"total, and many pieces each", 8, 256, shop{total: 4 * mb, link: 4 * mb}, false},
		{"neither", 200, 200, shop{link: 4 * mb}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			without, with := tt.shop, tt.shop
			with.waits = true
			without.run(t, tt.nodes, tt.pieces)
			with.run(t, tt.nodes, tt.pieces)
			eighth := tt.pieces / 8
			t.Logf("an eighth after %v, and %v without; all after %v and %v", with.when[eighth], without.when[eighth], with.everyone, without.everyone)
			if float64(with.everyone) > 1.06*float64(without.everyone)+2e9 {
				t.Errorf("it takes %v, and %v if nobody waits", with.everyone, without.everyone)
			}
			if !tt.turns {
				most := 2 * halfTime
				if tt.shop.lump > 0 { // to know takes longer, but a quarter of a piece at most
					most = time.Duration(float64(unit.MiB) / float64(tt.shop.client) / 4 * 1e9)
				}
				if with.rested > most {
					t.Errorf("a node rested for %v before its first piece", with.rested)
				}
				return
			}
			// In step with the store: an eighth of all after an eighth of the time.
			if most := 0.2*float64(with.everyone) + float64(3*time.Second); float64(with.when[eighth]) > most {
				t.Errorf("an eighth is read after %v of %v", with.when[eighth], with.everyone)
			}
		})
	}
}

// Whatever rates nodes have, and however late they hear of each other, all is read, and in no more than a little over the time
// that it takes if nobody waits.
func TestTurnsHinderNobody(t *testing.T) {
	turned := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 8))
		rate := func() unit.Bandwidth { return unit.Bandwidth(math.Exp(rng.Float64()*6) * 64 * 1024) }
		s := shop{link: 64 * 1024 * 1024, deaf: rng.IntN(8), late: time.Duration(rng.IntN(3)) * 200 * time.Millisecond}
		if rng.IntN(3) > 0 {
			s.total = rate()
		}
		if s.total == 0 || rng.IntN(2) == 0 {
			s.client = rate() / 8
		}
		nodes, pieces := 1+rng.IntN(150), 1+rng.IntN(300)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			without, with := s, s
			with.waits = true
			without.run(t, nodes, pieces)
			with.run(t, nodes, pieces)
			if most := float64(without.everyone)*1.15 + 4e9; float64(with.everyone) > most {
				t.Errorf("%d nodes, %d pieces, %+v: %v, and %v if nobody waits", nodes, pieces, s, with.everyone, without.everyone)
			}
			if first := pieces / 8; with.when[first] < without.when[first]*3/4 {
				turned++
			}
		})
	}
	if turned == 0 {
		t.Error("nobody ever waited for his turn: the test is none")
	}
}

// In turn, what a node inherits is read before what is its own if it comes before it, and a work is late by its place only from when it was one to
// read.
func TestForemostAndDue(t *testing.T) {
	d := Divide(16, seq(0, 4), 1) // places 0, 4, 8, 12 are the first node's
	n := NewNode(0, 4, d, true)
	held := piece.NewSet(16)
	if place, ok := n.foremost(held.Has); !ok || place != 0 {
		t.Errorf("the first work has place %d, %v", place, ok)
	}
	held.Add(0)
	if place, ok := n.foremost(held.Has); !ok || place != 4 {
		t.Errorf("when that is had, the first has place %d, %v", place, ok)
	}
	n.Dead(2, held.Has) // which had places 1, 5, 9, 13
	order := []int{}
	for {
		place, ok := n.foremost(held.Has)
		if !ok {
			break
		}
		w, r := n.Next(1, held.Has)
		if len(w) != 1 || n.PlaceOf(w[0]) != place {
			t.Fatalf("next is %v, want what is at place %d", w, place)
		}
		held.AddRange(r)
		n.End(w[0])
		order = append(order, place)
	}
	if !slices.IsSorted(order) || len(order) < 4 {
		t.Errorf("reads places %v", order)
	}

	turns := &Turns{size: unit.MiB, pieces: 16, readers: 4, few: 1}
	turns.enter(inTurn, 0, noon)
	turns.usual, turns.among, turns.most, turns.again = unit.Bandwidth(unit.MiB)/4, 4, 2, noon.Add(time.Hour)
	for k := range 10 { // a piece a second
		turns.Note(0, false, k, noon.Add(time.Duration(k)*time.Second))
	}
	now := noon.Add(9 * time.Second)
	for place, want := range map[int]time.Duration{0: 9 * time.Second, 8: time.Second, 9: 0, 10: 0, 15: 0} {
		if got := turns.Due(place, now); got != want {
			t.Errorf("the work at place %d is one to read since %v, want %v", place, got, want)
		}
	}
	none := piece.NewSet(16)
	for self := range 5 { // the last one has no works
		n := NewNode(self, 5, d, true)
		want := self == 4 || n.place[n.list[0]] < turns.room
		if got := turns.MayNext(n, none.Has, 0); got != want {
			t.Errorf("node %d may read what comes next: %v, want %v, with %d at once", self, got, want, turns.room)
		}
	}
	if got := new(Turns).Due(15, now); got < longest {
		t.Errorf("where nobody waits a work is one to read since %v, want always", got)
	}
}

// What began in turn is asked again after a while: a store that gives each enough by then is read by all.
func TestTurnsEnd(t *testing.T) {
	l := piece.Layout{Size: 64 * unit.MiB, Piece: unit.MiB}
	d := Divide(64, seq(0, 64), 1)
	last := slices.Index(d.Place, 63)
	turns := NewTurns(d, d.Owner[last], l)
	read, now := 0.0, noon
	step := func(seconds float64, rate func(all bool) float64) {
		for end := now.Add(time.Duration(seconds * 1e9)); now.Before(end); now = now.Add(tick) {
			may := turns.May(63, 0)
			turns.Note(unit.Bytes(read), may, 0, now)
			if turns.May(63, 0) {
				read += rate(turns.Together()) * tick.Seconds()
			}
		}
	}
	if turns.Settled() {
		t.Error("reads over several connections before it knows how fast it reads over one")
	}
	step(2, func(all bool) float64 {
		if all {
			return 20_000
		}
		return 40_000
	})
	if turns.May(63, 0) || turns.May(8, 0) {
		t.Fatal("the last of 64 reads with the others, from a store that all share")
	}
	if !turns.May(0, 0) || !turns.May(63, 63) {
		t.Error("whose turn it is does not read")
	}
	again := false
	step(2*longest.Seconds(), func(all bool) float64 {
		if all && !again && (turns.Settled() || !turns.Shares()) {
			t.Error("takes the store for one that gives each enough before it has looked again")
		}
		again = again || all
		return 2e6
	})
	if !turns.Together() || !turns.May(63, 0) || !turns.Settled() {
		t.Error("waits still, though the store gives everybody enough")
	}
}

// However many of the foremost works are those of nodes that hang, the others come to their turn.
func TestHungWorksHoldNoTurns(t *testing.T) {
	turns := &Turns{size: unit.MiB, pieces: 64, readers: 4, few: 1}
	turns.enter(inTurn, 0, noon)
	turns.usual, turns.among, turns.most, turns.again = unit.Bandwidth(unit.MiB)/4, 4, 4, noon.Add(time.Hour)
	for k := range 200 {
		turns.Note(0, false, 10, noon.Add(time.Duration(k)*time.Second))
	}
	if !turns.May(63, 10) {
		t.Errorf("where 10 of 64 pieces are had, and no more come, %d may be read at once", turns.room)
	}
	if got := turns.Takes(); got != 4*time.Second {
		t.Errorf("a piece is to take %v with four readers, want 4 s", got)
	}
}

// That others lack what a node reads is taken for true until what they get shows that they do not: not what the node itself gets, and not what its trial
// says alone, since others may wait for their turn then. Rates are pieces a second, of 32 nodes that read one object.
func TestSharesUntilOthersGetOn(t *testing.T) {
	const nodes, pieces, slow = 32, 320, 0.1
	type phase struct {
		lasts       time.Duration
		alone       float64 // what we read if others rest
		own, others float64 // what we read else, and all others together
	}
	narrow := phase{time.Second, 2 * slow, slow, 0}
	later := phase{2 * longest, 0.9, 0.9, 1} // a place in turn, that all of a narrow store leave to us
	for _, tt := range []struct {
		name   string
		phases []phase
		shares bool
	}{
		{"each gets enough", []phase{{3 * time.Second, 2, 2, 62}}, false},
		{"some get less", []phase{{3 * time.Second, 2, 2, 40}}, false},
		{"we alone get enough, since others wait", []phase{{longest, 2, 2, 1}}, true},
		{"nothing is known yet", []phase{{500 * time.Millisecond, 2, 2, 0}}, true},
		{"each gets as little", []phase{{30 * time.Second, slow, slow, 31 * slow}}, false},
		{"our trial says so, and others wait", []phase{{30 * time.Second, slow, slow, 0.8}}, true},
		{"all share it", []phase{narrow, {10 * time.Second, slow, slow, 1}}, true},
		{"all share it, and wide for nobody later", []phase{narrow, later}, true},
		{"all share it, and wide for all later", []phase{narrow, {longest, 0.9, 0.9, 1}, {5 * time.Second, 2, 2, 45}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := piece.Layout{Size: pieces * unit.MiB, Piece: unit.MiB}
			turns := NewTurns(Divide(pieces, seq(0, nodes), 1), 0, l)
			if !turns.Matters() {
				t.Fatal("nobody ever waits in such a job")
			}
			now, read, had := noon, 0.0, 0.0
			for _, p := range tt.phases {
				for end := now.Add(p.lasts); now.Before(end); now = now.Add(tick) {
					turns.Note(unit.Bytes(read*float64(l.Piece)), true, int(had), now)
					rate := p.own
					switch {
					case turns.state == halves && !turns.May(0, 0):
						rate = 0
					case turns.state == halves:
						rate = p.alone
					}
					read += rate * tick.Seconds()
					had = min(had+(rate+p.others)*tick.Seconds(), pieces-1)
				}
			}
			if got := turns.Shares(); got != tt.shares {
				t.Errorf("others lack what we read: %v, want %v; %+v", got, tt.shares, turns)
			}
		})
	}
}

// Where others may wait for their turn, without our knowing, nobody can blame them while they get on, unless what comes after it in turn has been read.
func TestDueWhereOthersMayWait(t *testing.T) {
	l := piece.Layout{Size: 64 * unit.MiB, Piece: unit.MiB}
	turns := NewTurns(Divide(64, seq(0, 32), 1), 0, l)
	now := noon
	for k := range 300 { // a piece each second
		now = noon.Add(time.Duration(k) * tick)
		turns.Note(unit.Bytes(k)*unit.MiB/20, true, k/20, now)
	}
	if got := turns.Due(40, now); got > time.Second {
		t.Errorf("while a piece comes each second the work at place 40 is one to read since %v", got)
	}
	for place, want := range map[int]time.Duration{0: 14 * time.Second, 4: 10 * time.Second, 14: 0} {
		if got := turns.Due(place, now); got < want || got > want+time.Second {
			t.Errorf("where somebody has 14 pieces the work at place %d is one to read since %v, want %v", place, got, want)
		}
	}
	now = now.Add(time.Minute)
	if got := turns.Due(40, now); got < time.Minute {
		t.Errorf("a minute after the last piece the work at place 40 is one to read since %v", got)
	}
}
