package steal

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var noon = time.Unix(1e9, 0)

func whatever(int) bool { return true }

// From the first moment each piece has one importer in each site, and the shares are equal.
func TestImportsAreDealtOut(t *testing.T) {
	for _, mates := range [][]int{{0}, {1, 3}, {0, 2, 5}, {1, 2, 3, 4}} {
		count := make([]int, 10)
		for _, self := range mates {
			m := NewImports(self, 7, mates, 10)
			for r := range m.Mine().Ranges() {
				for p := r.Lo; p < r.Hi; p++ {
					count[p]++
				}
			}
			if n, least := m.Mine().Count(), 10/len(mates); n < least || n > least+1 {
				t.Errorf("node %d of %v imports %d of 10 pieces", self, mates, n)
			}
		}
		if !slices.Equal(count, slices.Repeat([]int{1}, 10)) {
			t.Errorf("site %v: importers of each piece: %v", mates, count)
		}
	}
}

// A, B and C import 0 3 6 …, 1 4 7 … and 2 5 8 … of 12 pieces. A has all of its own, B has 7 and 10 left to ask
// for, C has 2, 5, 8 and 11. A asks C, which keeps half.
func TestCrossingIsStolen(t *testing.T) {
	mates := []int{0, 1, 2}
	a, b, c := NewImports(0, 3, mates, 12), NewImports(1, 3, mates, 12), NewImports(2, 3, mates, 12)
	open := func(p int) bool { return p%3 == 2 || p == 7 || p == 10 }
	victim, ok := a.Ask(noon, open)
	if !ok || victim != 2 {
		t.Fatalf("asks %d, %v; want C, which has most to do", victim, ok)
	}
	if _, again := a.Ask(noon, open); again {
		t.Error("asks again while an answer is awaited")
	}
	answer := c.Give(0, open)
	if want := []Hand{{8, 9, 1}, {11, 12, 1}}; !slices.Equal(answer, want) {
		t.Fatalf("C gives %v, want %v", answer, want)
	}
	tell, err := a.Receive(2, answer, noon, whatever)
	if err != nil || len(tell) != 1 || tell[0].Node != 0 {
		t.Fatalf("tells %v, %v", tell, err)
	}
	if _, err := b.Took(tell[0]); err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*Imports{"A": a, "B": b, "C": c} {
		for p, want := range []int{0, 1, 2, 0, 1, 2, 0, 1, 0, 0, 1, 0} {
			if got := m.Importer(p); got != want {
				t.Errorf("%s says that node %d imports piece %d, want %d", name, got, p, want)
			}
		}
	}
	if got := a.Mine().Count(); got != 6 {
		t.Errorf("A imports %d pieces, want 6", got)
	}
}

// Two that have one piece each left do not give them to each other for ever.
func TestTheLastOneIsKept(t *testing.T) {
	a, b := NewImports(0, 2, []int{0, 1}, 4), NewImports(1, 2, []int{0, 1}, 4)
	open := func(p int) bool { return p == 3 }
	if victim, ok := a.Ask(noon, open); ok {
		t.Errorf("asks %d for the one piece that it has left", victim)
	}
	if got := b.Give(0, open); len(got) != 0 {
		t.Errorf("gives %v, its last one", got)
	}
}

// Whose pieces a liar has given the highest term there is says nothing that others take for a breach of the protocol.
func TestHighestTermIsNotGiven(t *testing.T) {
	mates := []int{0, 1, 2}
	a, b := NewImports(0, 3, mates, 12), NewImports(1, 3, mates, 12)
	if victim, ok := a.Ask(noon, func(p int) bool { return p%3 == 2 }); !ok || victim != 2 {
		t.Fatalf("asks %d, %v", victim, ok)
	}
	if _, err := a.Receive(2, []Hand{{0, 6, maxTerm}}, noon, whatever); err != nil {
		t.Fatal(err)
	}
	answer := a.Give(1, whatever)
	if _, err := b.Receive(0, answer, noon, whatever); err != nil || len(answer) == 0 {
		t.Errorf("gives %v: %v", answer, err)
	}
	if got := a.Mine().Count(); got < 6 {
		t.Errorf("has %d pieces left, want those 6 at least", got)
	}
}

func TestWhoHasNothingIsAskedLater(t *testing.T) {
	m := NewImports(0, 3, []int{0, 1, 2}, 30)
	ask := func(at time.Time, want int) {
		t.Helper()
		victim, ok := m.Ask(at, whatever)
		if ok != (want >= 0) || ok && victim != want {
			t.Errorf("asks %d, %v; want %d", victim, ok, want)
		}
	}
	ask(noon, 1)
	if _, err := m.Receive(1, nil, noon, whatever); err != nil {
		t.Fatal(err)
	}
	ask(noon, 2)
	ask(noon.Add(answers-1), -1)
	ask(noon.Add(answers), 1)
	m.Unanswered(1)
	ask(noon.Add(answers), 1)
	if _, err := m.Receive(1, nil, noon.Add(answers), whatever); err != nil {
		t.Fatal(err)
	}
	ask(noon.Add(answers), -1)
	ask(noon.Add(answers+deafFor), 1)
}

// The pieces of one that dies are its heirs', and what it had taken is known to who had not heard of it.
func TestImporterDies(t *testing.T) {
	mates := []int{0, 1, 2}
	a, b, c := NewImports(0, 4, mates, 12), NewImports(1, 4, mates, 12), NewImports(2, 4, mates, 12)
	if victim, ok := c.Ask(noon, func(p int) bool { return p%3 == 1 }); !ok || victim != 1 {
		t.Fatalf("asks %d, %v", victim, ok)
	}
	tell, err := c.Receive(1, b.Give(2, whatever), noon, whatever)
	if err != nil || len(tell) != 1 {
		t.Fatal(tell, err)
	}
	if _, err := b.Took(tell[0]); err != nil {
		t.Fatal(err)
	}
	if got := a.Dead(2); len(got) != 0 { // it has not heard that C took any
		t.Errorf("A tells %v", got)
	}
	for _, claim := range b.Dead(2) {
		if _, err := a.Took(claim); err != nil {
			t.Fatal(err)
		}
	}
	for p := range 12 {
		if x, y := a.Importer(p), b.Importer(p); x != y || x == 2 {
			t.Errorf("piece %d is imported by %d, say A, or %d, says B", p, x, y)
		}
	}
	if got := a.Dead(3); got != nil {
		t.Errorf("the death of a node of another site is told: %v", got)
	}
}

func TestForeignersImportNothing(t *testing.T) {
	m := NewImports(0, 3, []int{0, 2}, 6)
	if _, err := m.Took(Claim{1, []Hand{{0, 1, 1}}}); err == nil {
		t.Error("a node of another site takes a piece")
	}
	if _, err := m.Took(Claim{9, []Hand{{0, 1, 1}}}); err == nil {
		t.Error("a node that does not exist takes a piece")
	}
	if got := m.Give(1, whatever); got != nil {
		t.Errorf("gives %v to a node of another site", got)
	}
	if _, err := m.Receive(2, []Hand{{5, 9, 1}}, noon, whatever); err == nil {
		t.Error("receives pieces that do not exist")
	}
}

// One that is slow is overtaken where another would take a quarter of the time, but few times.
func TestOvertakenImporter(t *testing.T) {
	const pieces = 150
	waited := time.Hour
	overtakes := func(self int, own time.Duration, seconds int, silence func(now time.Time) time.Duration) (taken int) {
		m := NewImports(self, 3, []int{0, 1, 2}, pieces)
		open := func(p int) bool { return m.Importer(p) == 2 }
		for tick := range seconds * 20 {
			now := noon.Add(time.Duration(tick) * 50 * time.Millisecond)
			victim, tell := m.Overtake(now, own, open, func(int) time.Duration { return silence(now) })
			if tell == nil {
				continue
			}
			taken++
			if victim != 2 || tell[0].Node != self || m.Importer(tell[0].Hands[0].Lo) != self || tell[0].Hands[0].Term != 1 {
				t.Fatalf("overtakes %d and tells %v", victim, tell)
			}
		}
		return taken
	}
	still := func(time.Time) time.Duration { return waited }
	slow := func(now time.Time) time.Duration { return 4 * time.Second }
	for _, tt := range []struct {
		name    string
		self    int
		own     time.Duration
		seconds int
		silence func(time.Time) time.Duration
		want    int
	}{
		{"before long", 0, 100 * time.Millisecond, 2, still, 0},
		{"that crosses as slowly as others", 0, 3 * time.Second, 9, slow, 0},
		{"that is slow, by the first", 0, 100 * time.Millisecond, 30, slow, 1},
		{"that is slow, by the second, of 2 that may be", 1, 100 * time.Millisecond, 30, slow, 1},
		{"that gives what it has soon", 0, 100 * time.Millisecond, 30, func(time.Time) time.Duration { return time.Second }, 0},
		{"that hangs, by one that has imported nothing", 0, 0, 30, still, 0},
		{"that hangs, by another", 0, 100 * time.Millisecond, 30, still, 1},
	} {
		if got := overtakes(tt.self, tt.own, tt.seconds, tt.silence); got != tt.want {
			t.Errorf("one %s: %d pieces are overtaken, want %d", tt.name, got, tt.want)
		}
	}
}

// What one that hangs was to import the others deal out among themselves, once it has not answered for a while. One that is
// only slow, or starved, answers or gets something, and keeps its pieces.
func TestHungImporter(t *testing.T) {
	const pieces = 40
	mates := []int{0, 1, 2, 3}
	for _, tt := range []struct {
		name    string
		answers bool
		waited  time.Duration
		want    bool
	}{
		{"hangs", false, time.Minute, true},
		{"answers", true, time.Minute, false},
		{"does not answer, but gets what others import", false, time.Second, false},
	} {
		pools := make([]*Imports, 3)
		for i := range pools {
			pools[i] = NewImports(i, 4, mates, pieces)
		}
		taken := map[int]int{}
		hear := func(from int, claims []Claim) {
			for i, m := range pools {
				for _, c := range claims {
					if i == from {
						continue
					}
					if _, err := m.Took(c); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		for at := time.Duration(0); at <= answers+10*turnTime; at += 50 * time.Millisecond {
			now := noon.Add(at)
			for i, m := range pools {
				open := func(p int) bool { return m.Importer(p) == 3 } // all else is here, or as good as here
				victim, ok := m.Ask(now, open)
				switch {
				case ok && victim != 3:
					t.Fatalf("%s: node %d asks node %d", tt.name, i, victim)
				case ok && tt.answers:
					if _, err := m.Receive(3, nil, now, whatever); err != nil {
						t.Fatal(err)
					}
				case !ok:
					victim, tell := m.Overtake(now, 0, open, func(int) time.Duration { return tt.waited })
					for _, c := range tell {
						if at < answers || victim != 3 || c.Node != i {
							t.Errorf("%s: after %v node %d takes from %d: %v", tt.name, at, i, victim, c)
						}
						for _, h := range c.Hands {
							for p := h.Lo; p < h.Hi; p++ {
								taken[p]++
							}
						}
					}
					hear(i, tell)
				}
			}
		}
		if !tt.want {
			if len(taken) > 0 {
				t.Errorf("one that %s: %d of its pieces are taken", tt.name, len(taken))
			}
			continue
		}
		share := make([]int, 4)
		for p := 3; p < pieces; p += 4 {
			if taken[p] != 1 {
				t.Errorf("piece %d is taken %d times", p, taken[p])
			}
			share[pools[0].Importer(p)]++
		}
		if slices.Min(share[:3]) == 0 || share[3] > 0 {
			t.Errorf("of the pieces of one that hangs the nodes import %v", share)
		}
	}
}

// Nodes find out one after the other that one hangs, as they come to ask it, and hear what others claim only at the next tick. Nothing of it is claimed twice, and
// what one that is busy for longer should have claimed the others do.
func TestHeirsFindOutOneAfterTheOther(t *testing.T) {
	const tick, pieces = 50 * time.Millisecond, 60
	for nodes := 3; nodes <= 6; nodes++ {
		hangs := nodes - 2
		var mates []int
		for i := range nodes {
			mates = append(mates, i)
		}
		for _, busy := range []int{-1, 0, nodes - 1} {
			for apart := time.Duration(0); apart*time.Duration(nodes-1) < answers; apart += tick {
				pools := make([]*Imports, nodes)
				for i := range pools {
					pools[i] = NewImports(i, nodes, mates, pieces)
				}
				taken := make([]int, pieces)
				var said, heard []Claim
				for at := time.Duration(0); at <= 3*answers; at += tick {
					now := noon.Add(at)
					heard, said = said, nil
					for i, m := range pools {
						for _, c := range heard {
							if _, err := m.Took(c); err != nil {
								t.Fatal(err)
							}
						}
						open := func(p int) bool { return m.Importer(p) == hangs }
						if i == hangs || i == busy || at < time.Duration(i)*apart {
							continue
						}
						if _, ok := m.Ask(now, open); ok {
							continue
						}
						_, tell := m.Overtake(now, 0, open, func(int) time.Duration { return time.Minute })
						said = append(said, tell...)
						for _, c := range tell {
							for _, h := range c.Hands {
								for p := h.Lo; p < h.Hi; p++ {
									taken[p]++
								}
							}
						}
					}
				}
				for p, times := range taken {
					if want := (p%nodes - hangs + nodes) % nodes; want == 0 && times != 1 || want != 0 && times != 0 {
						t.Fatalf("%d nodes that ask %v apart, node %d busy: piece %d of node %d is claimed %d times", nodes, apart, busy, p, p%nodes, times)
					}
				}
			}
		}
	}
}

// Whatever the order in which nodes steal, die and hear of it, those that live come to agree on one living
// importer of each piece.
func TestImportersAgree(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 6))
		nodes, pieces := 2+rng.IntN(6), 1+rng.IntN(80)
		var mates []int
		for len(mates) < 2 {
			mates = nil
			for i := range nodes {
				if rng.IntN(3) > 0 {
					mates = append(mates, i)
				}
			}
		}
		type letter struct {
			from, to int
			kind     string
			hands    []Hand
			claim    Claim
		}
		pools, living := map[int]*Imports{}, map[int]bool{}
		for _, i := range mates {
			pools[i], living[i] = NewImports(i, nodes, mates, pieces), true
		}
		var mail []letter
		tell := func(from int, claims []Claim) {
			for _, c := range claims {
				for _, k := range mates {
					if k != from && living[k] {
						mail = append(mail, letter{from, k, "took", nil, c})
					}
				}
			}
		}
		open := func(p int) bool { return (p*7+int(seed))%5 > 0 }
		now := noon
		deaths := rng.IntN(len(mates))
		for step := 0; step < 400 || len(mail) > 0; step++ {
			now = now.Add(50 * time.Millisecond)
			i := mates[rng.IntN(len(mates))]
			switch {
			case step < 400 && rng.IntN(3) == 0 && living[i]:
				if victim, ok := pools[i].Ask(now, open); ok {
					mail = append(mail, letter{from: i, to: victim, kind: "ask"})
				} else if _, claims := pools[i].Overtake(now, time.Millisecond, open, func(int) time.Duration { return time.Minute }); claims != nil {
					tell(i, claims)
				}
			case step < 400 && deaths > 0 && rng.IntN(60) == 0 && living[i]:
				deaths--
				living[i] = false
				mail = slices.DeleteFunc(mail, func(l letter) bool { return l.to == i || l.from == i && rng.IntN(2) == 0 })
				for _, k := range mates {
					if living[k] {
						mail = append(mail, letter{from: i, to: k, kind: "gone"})
					}
				}
			case len(mail) > 0:
				at := rng.IntN(len(mail))
				at = slices.IndexFunc(mail, func(l letter) bool { return l.from == mail[at].from && l.to == mail[at].to })
				l := mail[at]
				mail = slices.Delete(mail, at, at+1)
				if !living[l.to] {
					continue
				}
				m := pools[l.to]
				var claims []Claim
				var err error
				switch l.kind {
				case "ask":
					if living[l.from] {
						mail = append(mail, letter{from: l.to, to: l.from, kind: "pieces", hands: m.Give(l.from, open)})
					}
				case "pieces":
					claims, err = m.Receive(l.from, l.hands, now, whatever)
				case "took":
					claims, err = m.Took(l.claim)
				case "gone":
					claims = m.Dead(l.from)
				}
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				tell(l.to, claims)
			}
		}
		for p := range pieces {
			importer := -1
			for _, i := range mates {
				if !living[i] {
					continue
				}
				if got := pools[i].Importer(p); !living[got] || importer >= 0 && got != importer {
					t.Fatalf("seed %d: piece %d of %d is imported by %d, says node %d; another says %d (living: %v)", seed, p, pieces, got, i, importer, living)
				} else {
					importer = got
				}
			}
		}
	}
}

// A site of many nodes imports few pieces at a time, one of few nodes whatever they want to, but where two or three others fetch from one.
func TestAtOnce(t *testing.T) {
	for _, tt := range []struct {
		mates, sites, pieces int
		most                 int
		few                  bool
	}{
		{0, 0, 1024, 0, true}, // of no site
		{8, 2, 1024, 0, true}, {8, 3, 1024, 64, true}, {8, 4, 256, 16, true}, {8, 5, 1024, 0, true},
		{30, 2, 256, 16, false}, {30, 3, 256, 16, false}, {30, 2, 1024, 0, true}, {100, 5, 1024, 64, false},
	} {
		if most, few := AtOnce(tt.mates, tt.sites, tt.pieces); most != tt.most || few != tt.few {
			t.Errorf("%d nodes in each of %d sites, %d pieces: %d at a time, few %v; want %d, %v", tt.mates, tt.sites, tt.pieces, most, few, tt.most, tt.few)
		}
	}
}

// One that has not answered, and then says what it has taken, does not hang.
func TestWhoTakesDoesNotHang(t *testing.T) {
	for _, says := range []bool{false, true} {
		m := NewImports(0, 3, []int{0, 1, 2}, 30)
		m.Ask(noon, whatever)
		if victim, ok := m.Ask(noon.Add(answers), whatever); !ok || victim != 2 {
			t.Fatalf("asks node %d, %v, when node 1 has not answered", victim, ok)
		}
		if _, err := m.Receive(2, nil, noon.Add(answers), whatever); err != nil {
			t.Fatal(err)
		}
		if says {
			if _, err := m.Took(Claim{1, []Hand{{2, 3, 1}}}); err != nil {
				t.Fatal(err)
			}
		}
		victim, tell := m.Overtake(noon.Add(answers), 0, whatever, func(int) time.Duration { return time.Minute })
		if took := tell != nil; took == says || took && victim != 1 {
			t.Errorf("node 1 has said something: %v; takes %v from node %d", says, tell, victim)
		}
	}
}

// Two that could both overtake one that is slow do not claim the same of it, if what one claims the other hears at the next tick.
func TestOneOvertakesAnImporter(t *testing.T) {
	const tick = 50 * time.Millisecond
	pools := []*Imports{NewImports(0, 3, []int{0, 1, 2}, 150), NewImports(1, 3, []int{0, 1, 2}, 150)}
	taken := map[int]int{}
	var said, heard []Claim
	for at := time.Duration(0); at < 10*time.Second; at += tick {
		heard, said = said, nil
		for _, m := range pools {
			for _, c := range heard {
				if _, err := m.Took(c); err != nil {
					t.Fatal(err)
				}
			}
			open := func(p int) bool { return m.Importer(p) == 2 }
			_, tell := m.Overtake(noon.Add(at), 100*time.Millisecond, open, func(int) time.Duration { return time.Hour })
			for _, c := range tell {
				taken[c.Hands[0].Lo]++
			}
			said = append(said, tell...)
		}
	}
	for p, times := range taken {
		if times != 1 {
			t.Errorf("piece %d is claimed %d times", p, times)
		}
	}
	if len(taken) != len(pools) {
		t.Errorf("pieces %v are claimed, want one by each", taken)
	}
}
