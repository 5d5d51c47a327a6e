package steal

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

func none(int) bool { return false }

const all = 1 << 30 // works: no bound of the thief's

// next takes one work, as in the paper.
func next(n *Node, held Held) (work int, r piece.Range, ok bool) {
	works, r := n.Next(1, held)
	if len(works) == 0 {
		return 0, r, false
	}
	return works[0], r, true
}

// Chiba et al. 2010, section 4.1: 300 MB are 9,600 pieces, a third each; at
// 10, 2 and 2 MB/s from the store the phase takes 10, 50 and 50 s, and the
// barrier makes that 50 s for all.
func TestPaperNonSteal(t *testing.T) {
	d := Divide(9600, []int{0, 1, 2}, 9600)
	want := []piece.Range{{Lo: 0, Hi: 3200}, {Lo: 3200, Hi: 6400}, {Lo: 6400, Hi: 9600}}
	if !slices.Equal(d.Works, want) {
		t.Fatalf("shares are %v, want %v", d.Works, want)
	}
	l := piece.Layout{Size: 300 * unit.MiB, Piece: piece.PaperSize}
	slowest := 0.0
	for i, tt := range []struct{ rate, seconds float64 }{{10, 10}, {2, 50}, {2, 50}} {
		n := NewNode(i, 3, d, false)
		_, r, ok := next(n, none)
		if !ok {
			t.Fatalf("node %d has no work", i)
		}
		_, size := l.RangeSpan(r)
		got := float64(size) / float64(unit.MiB) / tt.rate
		if got != tt.seconds {
			t.Errorf("node %d takes %v s, want %v", i, got, tt.seconds)
		}
		slowest = max(slowest, got)
		if _, ok := n.Ask(none); ok {
			t.Errorf("node %d asks for work without stealing", i)
		}
		if got := n.Give(0, all); got != nil {
			t.Errorf("node %d gives %v away without stealing", i, got)
		}
	}
	if slowest != 50 {
		t.Errorf("the phase takes %v s, want 50", slowest)
	}
}

// Chiba et al. 2010, section 4.2: works of 100 pieces, A has 0–31, B 32–63,
// C 64–95. A ends first and asks B, which has works 32–37 done and 38–63 left:
// 51–63 go to A, 38–50 stay with B. The paper does not say whether 38 is on
// the list or in hand; both must come out so.
func TestPaperSteal(t *testing.T) {
	d := Divide(9600, []int{0, 1, 2}, 100)
	if len(d.Works) != 96 || d.Owner[31] != 0 || d.Owner[32] != 1 || d.Owner[63] != 1 || d.Owner[64] != 2 {
		t.Fatalf("%d works, owners %v", len(d.Works), d.Owner)
	}
	for _, inHand := range []bool{false, true} {
		t.Run(fmt.Sprintf("in hand %v", inHand), func(t *testing.T) {
			a, b := NewNode(0, 3, d, true), NewNode(1, 3, d, true)
			held := piece.NewSet(9600)
			run := func(n *Node, works int) {
				for range works {
					w, r, ok := next(n, held.Has)
					if !ok {
						t.Fatal("the list ended too early")
					}
					held.AddRange(r)
					n.End(w)
				}
			}
			run(a, 32)
			run(b, 6) // 20 of 100 MB
			if inHand {
				if w, _, _ := next(b, held.Has); w != 38 {
					t.Fatalf("B has work %d in hand, want 38", w)
				}
			}
			held.AddRange(piece.Range{Lo: 6400, Hi: 9600}) // C is done, so A asks B
			if v, ok := a.Ask(held.Has); !ok || v != 1 {
				t.Fatalf("A asks %d, %v; want B", v, ok)
			}
			answer := b.Give(0, all)
			if want := []Hand{{Lo: 51, Hi: 64, Term: 1}}; !slices.Equal(answer, want) {
				t.Fatalf("B gives %v, want works 51–63", answer)
			}
			if _, err := a.Receive(1, answer, none); err != nil {
				t.Fatal(err)
			}
			if got := a.list; !slices.Equal(got, seq(51, 64)) {
				t.Errorf("workList_A = %v, want 51…63", got)
			}
			from := 38
			if inHand {
				from = 39
			}
			if got := b.list; !slices.Equal(got, seq(from, 51)) {
				t.Errorf("workList_B = %v, want %d…50", got, from)
			}
		})
	}
}

// Who asks while it has works in hand has ended one before. Two nodes of which nobody knows how fast they are
// would else pass a work to and fro until they have read something.
func TestNobodyAsksEarlyWithoutAPace(t *testing.T) {
	n := NewNode(1, 2, Division{Works: []piece.Range{{Lo: 0, Hi: 1}, {Lo: 1, Hi: 2}, {Lo: 2, Hi: 3}}, Owner: []int{0, 0, 1}, Place: []int{0, 2, 1}}, true)
	w, _, ok := next(n, none)
	if !ok {
		t.Fatal("there is nothing to read")
	}
	if v, ok := n.Ask(none); ok {
		t.Errorf("it asks %d, and has read nothing yet", v)
	}
	n.End(w)
	if v, ok := n.Ask(none); !ok || v != 0 {
		t.Fatalf("it is idle, and asks %d, %v", v, ok)
	}
	if _, err := n.Receive(0, []Hand{{Lo: 1, Hi: 2, Term: 1}}, none); err != nil {
		t.Fatal(err)
	}
	next(n, none)
	if _, err := n.Took(Claim{0, []Hand{{Lo: 1, Hi: 2, Term: 2}}}); err != nil { // a new beginning
		t.Fatal(err)
	}
	if v, ok := n.Ask(none); !ok || v != 0 {
		t.Errorf("it has read one work, is at another, and asks %d, %v", v, ok)
	}
}

func seq(lo, hi int) (s []int) {
	for i := lo; i < hi; i++ {
		s = append(s, i)
	}
	return s
}

func TestDivide(t *testing.T) {
	for pieces := range 130 {
		for _, owners := range [][]int{{0}, {2}, {0, 1, 2}, {4, 1, 3, 0, 2, 7, 6}} {
			for _, per := range []int{1, 2, 7, 100} {
				d := Divide(pieces, owners, per)
				at := 0
				for w, r := range d.Works {
					if r.Lo != at || r.Empty() || r.Len() > per || !slices.Contains(owners, d.Owner[w]) {
						t.Fatalf("Divide(%d, %v, %d): work %d is %v", pieces, owners, per, w, r)
					}
					at = r.Hi
				}
				if at != pieces {
					t.Fatalf("Divide(%d, %v, %d) ends at %d", pieces, owners, per, at)
				}
			}
		}
	}
}

func TestDefaultPerWork(t *testing.T) {
	for _, tt := range []struct {
		size  unit.Bytes
		nodes int
		want  int
	}{
		{0, 8, 1}, {unit.MiB, 8, 1},
		{256 * unit.MiB, 8, 16}, // 1,024 pieces of 256 KiB: 4 MiB a work, eight works a share
		{unit.GiB, 8, 8},        // of 1 MiB: 8 MiB a work
		{unit.TiB, 8, 1},        // of 16 MiB
		{256 * unit.MiB, 100, 1},
	} {
		l := piece.Layout{Size: tt.size, Piece: piece.DefaultSize(tt.size, 0)}
		if got := DefaultPerWork(l, tt.nodes); got != tt.want {
			t.Errorf("%v among %d: %d pieces a work, want %d", tt.size, tt.nodes, got, tt.want)
		}
	}
}

func TestEmptyListIsAnswered(t *testing.T) {
	d := Divide(4, []int{0, 1}, 1)
	a, b := NewNode(0, 2, d, true), NewNode(1, 2, d, true)
	for k := range 2 {
		w, _, _ := next(a, none)
		if k == 0 { // who has read nothing yet does not ask
			a.End(w)
		}
		next(b, none)
	}
	v, ok := a.Ask(none)
	if !ok || v != 1 {
		t.Fatalf("Ask() = %d, %v; want node 1", v, ok)
	}
	answer := b.Give(0, all)
	if len(answer) != 0 {
		t.Fatalf("an empty list gives %v", answer)
	}
	if _, err := a.Receive(1, answer, none); err != nil {
		t.Fatalf("no works is an answer: %v", err)
	}
	if _, ok := a.Ask(none); ok {
		t.Error("asks again a victim that has just refused")
	}
	if _, err := a.Took(Claim{1, []Hand{{Lo: 0, Hi: 1, Term: 1}}}); err != nil {
		t.Fatal(err)
	}
	if _, ok := a.Ask(none); !ok {
		t.Error("does not ask a victim that has taken works since it refused")
	}
}

// A victim that does not answer is not waited for; if it does after all, its
// works count, since it has given them away.
func TestLateAnswer(t *testing.T) {
	d := Divide(20, []int{0, 1}, 1)
	a, b := NewNode(0, 2, d, true), NewNode(1, 2, d, true)
	for a.Left() > 0 {
		w, _, _ := next(a, none)
		a.End(w)
	}
	held := func(p int) bool { return p < 10 }
	if a.GiveUp() {
		t.Error("gives up what was not asked")
	}
	if _, ok := a.Ask(held); !ok || !a.GiveUp() {
		t.Fatal("asks nobody")
	}
	if _, ok := a.Ask(held); ok {
		t.Error("asks one that did not answer at once again")
	}
	if tell, err := a.Receive(1, b.Give(0, all), none); err != nil || len(tell) != 1 || a.Left() != 5 {
		t.Errorf("late works: told %v, %v, %d on the list", tell, err, a.Left())
	}
}

func TestHostileMessages(t *testing.T) {
	d := Divide(100, []int{0, 1, 2}, 1)
	n := NewNode(0, 3, d, true)
	for _, h := range [][]Hand{
		{{Lo: -1, Hi: 2, Term: 1}}, {{Lo: 5, Hi: 5, Term: 1}}, {{Lo: 99, Hi: 101, Term: 1}}, {{Lo: 0, Hi: 1, Term: 0}}, {{Lo: 0, Hi: 1, Term: 1<<32 - 1}},
		{{Lo: 0, Hi: 100, Term: 1}, {Lo: 0, Hi: 1, Term: 2}},
	} {
		if _, err := n.Took(Claim{1, h}); err == nil {
			t.Errorf("Took(%v) passes", h)
		}
	}
	for _, node := range []int{3, -1} {
		if _, err := n.Took(Claim{Node: node}); err == nil {
			t.Error("took from a node that does not exist passes")
		}
	}
	if _, err := n.Receive(1, []Hand{{Lo: 40, Hi: 500, Term: 1}}, none); err == nil {
		t.Error("works that do not exist pass")
	}
	if got := n.Give(7, all); got != nil {
		t.Errorf("gives %v to a node that does not exist", got)
	}
}

// A node that missed an answer learns of it from the victim's ledger.
func TestClaimsMendALostAnswer(t *testing.T) {
	d := Divide(20, []int{0, 1}, 1)
	a, b := NewNode(0, 2, d, true), NewNode(1, 2, d, true)
	for a.Left() > 0 {
		w, _, _ := next(a, none)
		a.End(w)
	}
	if v, ok := a.Ask(func(p int) bool { return p < 10 }); !ok || v != 1 {
		t.Fatalf("Ask() = %d, %v", v, ok)
	}
	lost := b.Give(0, all)
	a.Unanswered(1)
	for _, c := range b.Claims() {
		if tell, err := a.Gave(1, c.Hands); err != nil || c.Node != 0 || len(tell) != 1 {
			t.Fatalf("claims of node %d: tells %v, %v", c.Node, tell, err)
		}
	}
	if a.Left() != 5 || a.list[0] != lost[0].Lo {
		t.Errorf("the list is %v, want %v", a.list, lost)
	}
}

func BenchmarkAsk(b *testing.B) {
	d := Divide(25_600, seq(0, 1000), 2)
	n := NewNode(0, 1000, d, true)
	for n.Left() > 0 {
		w, _, _ := next(n, none)
		n.End(w)
	}
	for range b.N {
		n.Ask(none)
		n.asked = -1
	}
}

// When half of a large swarm dies at once, as many next to each other, who has what left is worked out in moments.
func BenchmarkManyDie(b *testing.B) {
	const nodes = 2000
	d := Divide(4*nodes, seq(0, nodes), 1)
	for range b.N {
		n := NewNode(0, nodes, d, true)
		for rank := nodes / 2; rank < nodes; rank++ {
			n.Dead(rank, none)
		}
	}
}

// The heir of a work is the first living node in a ring that begins at the work's number, whoever has died by then.
func TestHeirs(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 5))
		nodes := 1 + rng.IntN(20)
		n := NewNode(0, nodes, Divide(3*nodes, seq(0, nodes), 1), true)
		dead := make([]bool, nodes)
		for _, rank := range rng.Perm(nodes)[:rng.IntN(nodes)] {
			if rank == 0 {
				continue
			}
			dead[rank] = true
			n.Dead(rank, none)
			for w := range 3 * nodes {
				want := n.claimant[w]
				for i := 0; dead[want]; i++ {
					want = (w + i) % nodes
				}
				if got := n.Owner(w); got != want {
					t.Fatalf("seed %d: work %d of %d is up to node %d, want %d", seed, w, n.claimant[w], got, want)
				}
			}
		}
	}
}

// A node that cannot fetch inherits nothing and is given nothing.
func TestExcused(t *testing.T) {
	d := Divide(64, []int{0, 2}, 4)
	none := func(int) bool { return false }
	nodes := make([]*Node, 3)
	for i := range nodes {
		nodes[i] = NewNode(i, 3, d, true)
		nodes[i].Excuse(1)
	}
	if got := nodes[0].Give(1, all); len(got) > 0 {
		t.Errorf("given works %v", got)
	}
	for _, n := range nodes[1:] {
		n.Dead(0, none)
		for w := range d.Works {
			if got := n.Owner(w); got != 2 {
				t.Errorf("node %d: work %d is up to node %d when node 0 is dead, want 2", n.self, w, got)
			}
		}
	}
	if n := nodes[1]; n.Busy() {
		t.Errorf("works %v are on its list", n.list)
	}
}

// What a victim repeats is not told again.
func TestRepeatedWorks(t *testing.T) {
	n := NewNode(1, 2, Divide(8, []int{0, 1}, 1), true)
	for n.Left() > 0 {
		w, _, _ := next(n, none)
		n.End(w)
	}
	if _, ok := n.Ask(none); !ok {
		t.Fatal("asks nobody")
	}
	hands := []Hand{{Lo: 2, Hi: 4, Term: 1}}
	for i, want := range []int{1, 0, 0} {
		tell, err := n.Receive(0, hands, none)
		if err != nil || len(tell) != want {
			t.Errorf("time %d: tells %v, %v; want %d claims", i, tell, err, want)
		}
	}
}

// A thief that says how much it can read in its time gets no more than that,
// from the tail, and never more than half.
func TestThiefBoundsItsTheft(t *testing.T) {
	for _, tt := range []struct{ most, want int }{{0, 0}, {1, 1}, {3, 3}, {10, 10}, {11, 10}, {all, 10}} {
		d := Divide(40, []int{0, 1}, 1)
		b := NewNode(1, 2, d, true)
		got := 0
		for _, h := range b.Give(0, tt.most) {
			got += h.Hi - h.Lo
		}
		if got != tt.want || b.Left() != 20-tt.want {
			t.Errorf("asked for %d of 20: gave %d and kept %d, want %d", tt.most, got, b.Left(), tt.want)
		}
	}
}

// One request covers works that follow one another, half of the list at most:
// 16 works in requests of up to 6 are 6, 5, 3, 1, 1.
func TestRequestsShrinkWithTheList(t *testing.T) {
	d := Divide(16, []int{0}, 1)
	n := NewNode(0, 1, d, true)
	var sizes []int
	next := 0
	for {
		works, r := n.Next(6, none)
		if len(works) == 0 {
			break
		}
		if r.Lo != next || r.Len() != len(works) {
			t.Fatalf("works %v are the pieces %v, want those from %d on", works, r, next)
		}
		next = r.Hi
		sizes = append(sizes, len(works))
		for _, w := range works {
			n.End(w)
		}
	}
	if want := []int{6, 5, 3, 1, 1}; !slices.Equal(sizes, want) {
		t.Errorf("requests of %v works, want %v", sizes, want)
	}
	if n.Busy() {
		t.Error("busy with nothing left")
	}
}

// A request stops at a piece that somebody has.
func TestRequestsHaveNoHoles(t *testing.T) {
	d := Divide(12, []int{0}, 1)
	n := NewNode(0, 1, d, true)
	held := func(p int) bool { return p == 0 || p == 3 }
	if works, r := n.Next(5, held); !slices.Equal(works, []int{1, 2}) || r != (piece.Range{Lo: 1, Hi: 3}) {
		t.Errorf("works %v, pieces %v; want 1 and 2", works, r)
	}
	if works, r := n.Next(3, held); !slices.Equal(works, []int{4, 5, 6}) || r != (piece.Range{Lo: 4, Hi: 7}) {
		t.Errorf("works %v, pieces %v; want 4 to 6", works, r)
	}
}

// Who asked early, and was given nothing since it would have ended nothing sooner, asks again when it has nothing left.
func TestRefusedEarlyAsksAgain(t *testing.T) {
	n := NewNode(0, 2, Divide(8, []int{0, 1}, 1), true)
	for n.Left() > 1 {
		w, _, _ := next(n, none)
		n.End(w)
	}
	last, _, _ := next(n, none)
	ask := func(want bool) {
		t.Helper()
		victim, ok := n.Ask(none)
		if ok != want || ok && victim != 1 {
			t.Fatalf("asks node %d, %v; want %v", victim, ok, want)
		}
		if ok {
			if _, err := n.Receive(1, nil, none); err != nil {
				t.Fatal(err)
			}
		}
	}
	ask(true)
	ask(false)
	n.End(last)
	ask(true)
	ask(false)
}

// A death is a reason to ask again those who had nothing: they may have inherited.
func TestHeirsAreAskedAgain(t *testing.T) {
	n := NewNode(0, 3, Divide(9, []int{0, 1, 2}, 1), true)
	for n.Left() > 0 {
		w, _, _ := next(n, none)
		n.End(w)
	}
	held := func(p int) bool { return p < 3 || p == 6 || p == 8 } // of the last node's all but what is up to node 1 then
	for range 2 {
		victim, ok := n.Ask(held)
		if !ok {
			break
		}
		if _, err := n.Receive(victim, nil, none); err != nil {
			t.Fatal(err)
		}
	}
	if victim, ok := n.Ask(held); ok {
		t.Fatalf("asks node %d again, and nothing has changed", victim)
	}
	n.Dead(2, held)
	if victim, ok := n.Ask(held); !ok || victim != 1 {
		t.Errorf("asks node %d, %v, when the last node is dead; want its heir", victim, ok)
	}
}

// A work that is alone is in its owner's hand: nobody is asked for it.
func TestNobodyIsAskedForOneWork(t *testing.T) {
	for works := range 4 {
		n := NewNode(0, 2, Divide(8, []int{0, 1}, 1), true)
		for n.Left() > 0 {
			w, _, _ := next(n, none)
			n.End(w)
		}
		if _, ok := n.Ask(func(p int) bool { return p < 8-works }); ok != (works > 1) {
			t.Errorf("another has %d works left, and is asked: %v", works, ok)
		}
	}
}

// What a dead node has claimed is passed on by who hears of it first, once; what a living one claims it says itself.
func TestClaimsOfTheDeadArePassedOn(t *testing.T) {
	n := NewNode(0, 3, Divide(9, []int{0, 1, 2}, 1), true)
	n.Dead(2, none)
	for _, tt := range []struct {
		claim Claim
		want  int
	}{
		{Claim{2, []Hand{{3, 4, 1}}}, 1}, {Claim{2, []Hand{{3, 4, 1}}}, 0}, {Claim{1, []Hand{{6, 7, 1}}}, 0},
	} {
		if tell, err := n.Took(tt.claim); err != nil || len(tell) != tt.want {
			t.Errorf("of %v it tells %v, %v; want %d claims", tt.claim, tell, err, tt.want)
		}
	}
}

// Nobody is given what he has not asked for, neither by a third nor by an answer that nobody waits for, and with one question no more than there is.
func TestGiftsAreRefused(t *testing.T) {
	const works = 9
	n := NewNode(0, 3, Divide(works, []int{0, 1, 2}, 1), true)
	term := uint32(0)
	for _, tt := range []struct {
		name string
		gift func(h []Hand) (tell []Claim, err error)
		asks bool
		want int
	}{
		{"a third says so", func(h []Hand) ([]Claim, error) { return n.Took(Claim{0, h}) }, false, 0},
		{"the giver says so", func(h []Hand) ([]Claim, error) { return n.Gave(1, h) }, false, 0},
		{"unasked", func(h []Hand) ([]Claim, error) { return n.Receive(1, h, none) }, false, 0},
		{"another answers", func(h []Hand) ([]Claim, error) { return n.Receive(2, h, none) }, true, 0},
		{"asked", func(h []Hand) ([]Claim, error) { return n.Receive(1, h, none) }, false, 1},
		{"once more", func(h []Hand) ([]Claim, error) { return n.Receive(1, h, none) }, false, 0},
	} {
		for n.Left() > 0 {
			w, _, _ := next(n, none)
			n.End(w)
		}
		if victim, ok := 1, true; tt.asks {
			if victim, ok = n.Ask(none); !ok || victim != 1 {
				t.Fatalf("asks node %d, %v", victim, ok)
			}
		}
		term++
		tell, err := tt.gift([]Hand{{Lo: 0, Hi: works, Term: term}})
		if err != nil || len(tell) != tt.want || n.Left() != works*tt.want {
			t.Errorf("%s: %d works on the list, tells %v, %v", tt.name, n.Left(), tell, err)
		}
	}
}

// One that goes on claiming for the dead does not have everybody pass that on to everybody for ever.
func TestClaimsOfTheDeadArePassedOnAFewTimes(t *testing.T) {
	const works = 9
	n := NewNode(0, 3, Divide(works, []int{0, 1, 2}, 1), true)
	n.Dead(2, none)
	told := 0
	for term := uint32(1); term < 100; term++ {
		tell, err := n.Took(Claim{2, []Hand{{Lo: 0, Hi: works, Term: term}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range tell {
			for _, h := range c.Hands {
				told += h.Hi - h.Lo
			}
		}
	}
	if told != mostPassed*works || n.Claims()[0].Hands[0].Term != 99 {
		t.Errorf("claims to %d works are passed on, want %d; the ledger has %v", told, mostPassed*works, n.Claims())
	}
}

func TestWhose(t *testing.T) {
	n := NewNode(0, 3, Divide(10, []int{0, 2}, 2), true) // works of two pieces and, the last of a share, of one
	for p := range 10 {
		want := 0
		if p >= 5 {
			want = 2
		}
		if got := n.Whose(p); got != want {
			t.Errorf("piece %d is up to node %d, want %d", p, got, want)
		}
	}
}
