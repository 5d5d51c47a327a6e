package steal

import (
	"slices"
	"testing"
	"time"
)

// This file looks at who is passed over (Imports.PassOver), and who is not.

// One that claims all pieces, again and again or for good, and gives none and gets none, or hardly any, is passed over: the others import them, each piece one of them, until it gets
// as many as they would.
func TestBarrenImporterIsPassedOver(t *testing.T) {
	const pieces, liar = 40, 3
	mates := []int{0, 1, 2, liar}
	for _, tt := range []struct {
		name    string
		terms   []uint32
		answers bool
		own     time.Duration
		every   time.Duration // that it gets a piece; zero: never
		want    bool
	}{
		{"for good", []uint32{maxTerm}, true, 0, 0, true},
		{"again and again", []uint32{1, 5, 9, 13, 17, 21, 25}, true, time.Second, 0, true},
		{"and answers nobody", []uint32{maxTerm}, false, 0, 0, true},
		{"and gets something now and then", []uint32{1}, true, time.Second, barren - time.Second, true},
		{"and gets something now and then where nobody else does", []uint32{1}, true, 0, barren - time.Second, true},
		{"and gets something", []uint32{1}, true, time.Second, patience * time.Second, false},
		{"and gets something where nobody else does", []uint32{1}, true, 0, leastWait, false},
		{"where a piece takes long", []uint32{1}, true, barren, 0, false},
	} {
		pools := make([]*Imports, 3)
		for i := range pools {
			pools[i] = NewImports(i, 4, mates, pieces)
		}
		over := func() (count int) {
			for p := range pieces {
				o := pools[0].Importer(p)
				for _, m := range pools {
					if m.Importer(p) != o || m.Mine().Has(p) != (o == m.self) {
						t.Fatalf("%s: piece %d is up to %d or %d", tt.name, p, o, m.Importer(p))
					}
				}
				if o != liar {
					count++
				}
			}
			return count
		}
		at, got := time.Duration(0), 0
		run := func(until, own, every time.Duration) {
			t.Helper()
			for ; at < until; at += 50 * time.Millisecond {
				now := noon.Add(at)
				if every > 0 && at%every == 0 {
					got++
				}
				for _, m := range pools {
					if k := int(at / (5 * time.Second)); k < len(tt.terms) && at%(5*time.Second) == 0 {
						if _, err := m.Took(Claim{liar, []Hand{{0, pieces, tt.terms[k]}}}); err != nil {
							t.Fatal(err)
						}
					}
					m.PassOver(now, own, func(rank int) int {
						if rank == liar {
							return got
						}
						return int(at / time.Millisecond) // the others get on
					})
					if victim, ok := m.Ask(now, whatever); ok && (tt.answers || victim != liar) {
						if _, err := m.Receive(victim, nil, now, whatever); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
		}
		isOver := func(when string, want bool) {
			t.Helper()
			if got := over(); got != 0 && !want || got != pieces && want {
				t.Errorf("one that takes all %s%s: %d of %d pieces are imported by others", tt.name, when, got, pieces)
			}
		}
		run(mostVain*(answers+deafFor)+2*barren, tt.own, tt.every)
		isOver("", tt.want)
		if !tt.want {
			continue
		}
		share := make([]int, 3)
		for p := range pieces {
			share[pools[0].Importer(p)]++
		}
		if slices.Min(share) < pieces/4 {
			t.Errorf("%s: the others import %v", tt.name, share)
		}
		run(at+2*barren, time.Hour, tt.every)
		isOver(", while what the others import takes long", true)
		run(at+2*barren, time.Second, time.Second)
		isOver(", and then gets enough", false)
	}
}

// Who had nothing to give, and then gets nothing since there is nothing to be had, is not passed over.
func TestIdleImporterIsNotPassedOver(t *testing.T) {
	m := NewImports(0, 2, []int{0, 1}, 40)
	for at := time.Duration(0); at < 5*time.Minute; at += 50 * time.Millisecond {
		now := noon.Add(at)
		open := func(int) bool { return at < barren/2 }
		if m.PassOver(now, time.Second, func(int) int { return 0 }) {
			t.Fatalf("passed over after %v", at)
		}
		if victim, ok := m.Ask(now, open); ok {
			if _, err := m.Receive(victim, nil, now, whatever); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// One that gives a piece whenever it is asked is not passed over, though it gets none itself; one that claims each again is, and so are one that gives what nobody
// needs and one that hangs up.
func TestWhoTakesBackGivesNothing(t *testing.T) {
	const giver, pieces = 1, 1000
	for _, does := range []string{"gives", "takes back what it gives", "gives what is here", "hangs up"} {
		m, term, over := NewImports(0, 2, []int{0, giver}, pieces), uint32(0), false
		open := func(p int) bool { return p > 0 }
		for at := time.Duration(0); at < 4*barren; at += time.Second {
			now := noon.Add(at)
			m.PassOver(now, time.Second, func(int) int { return 0 })
			over = over || m.Importer(giver) != giver && m.Importer(pieces-1) != giver
			if victim, ok := m.Ask(now, open); !ok || victim != giver {
				continue
			}
			term++
			p := int(at/time.Second)*2 + 1
			switch does {
			case "hangs up":
				m.Unanswered(giver)
				continue
			case "gives what is here":
				p = 0
			}
			if tell, err := m.Receive(giver, []Hand{{p, p + 1, term}}, now, open); err != nil || tell == nil {
				t.Fatalf("%s, after %v: %v, %v", does, at, tell, err)
			}
			if term++; does != "takes back what it gives" {
				continue
			}
			if _, err := m.Took(Claim{giver, []Hand{{p, p + 1, term}}}); err != nil {
				t.Fatal(err)
			}
		}
		if want := does != "gives"; over != want {
			t.Errorf("%s: is passed over: %v", does, over)
		}
	}
}

// Who imports in the place of another need not know. If each of two believes that it is up to somebody else, one of them finds out.
func TestStandInsArePassedOver(t *testing.T) {
	const pieces, liar, open = 64, 4, 3
	mates := []int{2, 3, liar}
	a, b := NewImports(2, 5, mates, pieces), NewImports(3, 5, mates, pieces)
	if a.Importer(open) != 2 {
		t.Fatalf("piece %d is dealt to %d", open, a.Importer(open))
	}
	if _, err := a.Took(Claim{liar, []Hand{{open, open + 1, maxTerm}}}); err != nil { // and b hears nothing of it
		t.Fatal(err)
	}
	for at := time.Duration(0); at < 4*barren; at += 50 * time.Millisecond {
		for _, m := range []*Imports{a, b} {
			m.PassOver(noon.Add(at), time.Second, func(int) int { return 0 })
			if victim, ok := m.Ask(noon.Add(at), func(p int) bool { return p == open }); ok {
				t.Fatalf("%d asks %d", m.self, victim)
			}
		}
	}
	if !a.Mine().Has(open) && !b.Mine().Has(open) {
		t.Errorf("piece %d is up to %d, says %d, and to %d, says %d", open, a.Importer(open), a.self, b.Importer(open), b.self)
	}
}

// Nobody asks for the last piece that a node has. One that does not import it, either, is passed over, and stays so while it comes from elsewhere.
func TestWhoClingsToOneIsPassedOver(t *testing.T) {
	const clings, pieces, last = 1, 40, 37 // 37 is dealt to it
	const before = 31                      // is dealt to it, too
	for _, tt := range []struct {
		name   string
		every  time.Duration // it gets a piece of others; zero: never
		opens  time.Duration // so often the last one is to be had, and so often it is not; zero: always
		turns  time.Duration // so often it is another; zero: never
		beside int           // so many others have one open piece each beside it
		want   bool
	}{
		{"gets none", 0, 0, 0, 0, true},
		{"gets others", time.Second, 0, 0, 0, true},
		{"has none every other time", 0, 5 * time.Second, 0, 0, false},
		{"has another one after a while", 0, 0, 20 * time.Second, 0, false},
		{"shares what crosses with others", 0, 0, 0, 4, false},
	} {
		m, got, over, ever := NewImports(0, 6, []int{0, clings, 2, 3, 4, 5}, pieces), 0, false, false
		for at := time.Duration(0); at < 4*barren; at += 50 * time.Millisecond {
			now := noon.Add(at)
			if tt.every > 0 && at%tt.every == 0 {
				got++
			}
			m.PassOver(now, time.Second, func(int) int { return got })
			was := over
			over = m.Importer(last) != clings
			if ever = ever || over; was && !over && tt.every == 0 {
				t.Errorf("%s: it is not passed over any more after %v", tt.name, at)
			}
			underWay := over && at%time.Second != 0
			there := tt.opens == 0 || at/tt.opens%2 == 0
			one := last
			if tt.turns > 0 && at/tt.turns%2 == 1 {
				one = before
			}
			open := func(p int) bool { return p == one && there && !underWay || p > 1 && p < 2+tt.beside }
			if victim, ok := m.Ask(now, open); ok {
				t.Fatalf("%s: node %d is asked for one that it has in its hand", tt.name, victim)
			}
		}
		if ever != tt.want {
			t.Errorf("%s: is passed over: %v, want %v", tt.name, ever, tt.want)
		}
	}
}
