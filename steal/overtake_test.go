package steal

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/piece"
)

func TestLags(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name        string
		waited, own time.Duration
		want        bool
	}{
		{"as fast", 200 * ms, 200 * ms, false},
		// Chiba et al. 2010, section 5: 4 to 10.5 MB/s, here for pieces of 32 MiB.
		{"the paper's slowest to its fastest", 8389 * ms, 3196 * ms, false},
		{"a fifth", 16 * time.Second, 3196 * ms, true},
		{"a hundredth", 25 * time.Second, 250 * ms, true},
		{"a pause of a second and a half", 1500 * ms, 10 * ms, false},
		{"a pause of two seconds and more", 2001 * ms, 10 * ms, true},
		{"nothing is known of oneself", time.Hour, 0, false},
		{"slow oneself", 25 * time.Second, 25 * time.Second, false},
	} {
		if got := Lags(tt.waited, tt.own); got != tt.want {
			t.Errorf("%s: Lags(%v, %v) = %v", tt.name, tt.waited, tt.own, got)
		}
	}
}

func TestMute(t *testing.T) {
	for waited, want := range map[time.Duration]bool{0: false, 7 * time.Second: false, 8001 * time.Millisecond: true, time.Minute: true} {
		if got := Mute(waited); got != want {
			t.Errorf("Mute(%v) = %v", waited, got)
		}
	}
}

func TestOvertakeFromTheTail(t *testing.T) {
	d := Divide(8, []int{0, 1}, 4)
	a, b := NewNode(0, 2, d, true), NewNode(1, 2, d, true)
	late := func(_, _ int) time.Duration { return time.Minute }
	next(b, none)
	if _, tell := a.Overtake(none, time.Second, time.Second, false, late); tell != nil {
		t.Fatalf("overtakes %v with work of its own", tell)
	}
	w, r, _ := next(a, none)
	held := piece.NewSet(8)
	held.AddRange(r)
	a.End(w)
	a.GoOn(w) // which is for what was overtaken
	if a.Busy() {
		t.Fatalf("goes on with %v", a.list)
	}
	if _, tell := a.Overtake(held.Has, time.Second, time.Second, false, func(_, _ int) time.Duration { return 3 * time.Second }); tell != nil {
		t.Fatalf("overtakes %v of one that is in time", tell)
	}
	if _, tell := a.Overtake(held.Has, time.Second, turnTime-1, false, late); tell != nil {
		t.Fatalf("overtakes %v before its turn", tell)
	}
	victim, tell := a.Overtake(held.Has, time.Second, turnTime, false, late)
	if victim != 1 || len(tell) != 1 || tell[0].Node != 0 || !slices.Equal(tell[0].Hands, []Hand{{Lo: 1, Hi: 2, Term: 1}}) {
		t.Fatalf("overtakes node %d and tells %v, want that work 1 of node 1 is its own", victim, tell)
	}
	if _, err := b.Took(tell[0]); err != nil || b.Owner(1) != 0 || !b.Busy() {
		t.Errorf("the other says that it is up to %d, busy %v, %v", b.Owner(1), b.Busy(), err)
	}
	held.Add(6)
	for _, want := range []int{7, 5, 4} { // the other has 6 meanwhile
		w, r, ok := next(a, held.Has)
		if !ok || w != 1 || r != (piece.Range{Lo: want, Hi: want + 1}) {
			t.Fatalf("next is %v of work %d, %v; want piece %d", r, w, ok, want)
		}
		held.AddRange(r)
		a.End(w)
		a.GoOn(w)
	}
	if _, r, ok := next(a, held.Has); ok {
		t.Errorf("next is %v, and all is read", r)
	}
	non := NewNode(0, 2, d, false)
	next(non, none)
	non.End(0)
	if _, tell := non.Overtake(none, time.Second, time.Second, false, late); tell != nil {
		t.Errorf("overtakes %v without stealing", tell)
	}
}

// Nodes that answer and read nothing any more keep no piece from being read;
// others read it once, though all of them are idle. Where nobody lags nobody is overtaken.
func TestWhoHangsIsOvertaken(t *testing.T) {
	overtaken := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 4))
		nodes, pieces := 2+rng.IntN(8), 1+rng.IntN(120)
		m := newMesh(t, seed, nodes, pieces, 1+rng.IntN(5), true)
		m.lags = make([]bool, nodes)
		slow := 0
		m.run(100_000, func(step int) {
			if i := rng.IntN(nodes); slow < nodes-1 && rng.IntN(20) == 0 && !m.lags[i] {
				m.lags[i] = true
				slow++
			}
		})
		for p, times := range m.fetched {
			if times != 1 {
				t.Fatalf("seed %d: piece %d of %d among %d nodes, %d of them slow, was fetched %d times", seed, p, pieces, nodes, slow, times)
			}
		}
		overtaken += m.overtaken
	}
	if overtaken == 0 {
		t.Error("nobody was overtaken: the test is none")
	}
}

// All nodes but one are idle, some since long before it lags and some only since then. However many they are, one reads its last piece in its place.
func TestOneOvertakes(t *testing.T) {
	const tick, own = turnTime / 2, time.Second
	for _, since := range []struct {
		name string
		idle func(i int) time.Duration
	}{
		{"idle from the beginning", func(int) time.Duration { return 0 }},
		{"idle when it lags", func(int) time.Duration { return tolerated(own) + tick }},
		{"idle later", func(int) time.Duration { return 2 * tolerated(own) }},
		{"idle one after the other", func(i int) time.Duration { return tolerated(own) + time.Duration(i)*tick }},
	} {
		for nodes := 2; nodes <= 64; nodes++ {
			for _, hangs := range []int{0, nodes / 2, nodes - 1} {
				var swarm []*Node
				for i := range nodes {
					swarm = append(swarm, NewNode(i, nodes, Divide(1, []int{hangs}, 1), true))
				}
				next(swarm[hangs], none)
				gained := make([]time.Duration, nodes)
				var said, heard []Claim
				reads := 0
				for now := time.Duration(0); now < 4*tolerated(own) && !(reads > 0 && len(said) == 0); now += tick {
					heard, said = said, nil
					for i, n := range swarm {
						for _, c := range heard {
							gained[c.Node] = now
							if _, err := n.Took(c); err != nil {
								t.Fatal(err)
							}
						}
						if i == hangs || now < since.idle(i) {
							continue
						}
						_, tell := n.Overtake(none, own, now-since.idle(i), false, func(rank, _ int) time.Duration { return now - gained[rank] })
						if _, _, ok := next(n, none); ok {
							reads++
						}
						said = append(said, tell...)
					}
				}
				if reads != 1 {
					t.Fatalf("%s, node %d of %d hangs: %d nodes read its piece", since.name, hangs, nodes, reads)
				}
			}
		}
	}
}

// What waits for its turn does not keep a node from reading in the place of one that hangs; what it is to read now does.
func TestOvertakeWhileWaiting(t *testing.T) {
	d := Divide(8, []int{0, 1}, 1)
	n := NewNode(0, 2, d, true)
	late := func(_, place int) time.Duration { return time.Minute }
	if _, tell := n.Overtake(none, time.Second, time.Minute, false, late); tell != nil {
		t.Errorf("overtakes %v while it has works to read", tell)
	}
	victim, tell := n.Overtake(none, time.Second, time.Minute, true, late)
	if victim != 1 || len(tell) != 1 || n.Owner(tell[0].Hands[0].Lo) != 0 {
		t.Fatalf("overtakes node %d and tells %v, want a work of node 1", victim, tell)
	}
	if _, more := n.Overtake(none, time.Second, time.Minute, true, late); len(more) != 1 || more[0].Hands[0] == tell[0].Hands[0] {
		t.Errorf("overtakes %v, and then %v", tell, more)
	}
}

// A work of the highest term changes hands no more: nobody says what others must take for a lie. But it is read.
func TestHighestTerm(t *testing.T) {
	d := Divide(8, []int{0, 1}, 1)
	a, b := NewNode(0, 2, d, true), NewNode(1, 2, d, true)
	a.owes[1], b.owes[0] = 8, 8 // each has asked the other
	lie := []Hand{{Lo: 0, Hi: 3, Term: maxTerm}}
	if _, err := a.Receive(1, lie, none); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := b.Receive(0, a.Give(1, all), none); err != nil {
			t.Fatalf("node 1 takes what node 0 gives for a lie: %v", err)
		}
	}
	if got := a.list; !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("it has kept %v, want works 0 to 2", got)
	}
	if _, err := b.Took(Claim{0, lie}); err != nil {
		t.Fatal(err)
	}
	for b.Left() > 0 {
		w, _, _ := next(b, none)
		b.End(w)
	}
	held := piece.NewSet(8)
	held.AddRange(piece.Range{Lo: 3, Hi: 8})
	for range 3 {
		_, tell := b.Overtake(held.Has, time.Second, time.Minute, false, func(_, _ int) time.Duration { return time.Minute })
		w, r, ok := next(b, held.Has)
		if tell != nil || !ok {
			t.Fatalf("tells %v, and has something to read: %v", tell, ok)
		}
		held.AddRange(r)
		b.End(w)
		b.GoOn(w)
	}
	if !held.Full() {
		t.Errorf("%d pieces of 8 are read", held.Count())
	}
}

// Who never gives anything is not asked for ever, whatever it takes meanwhile; who gives is.
func TestAskedInVain(t *testing.T) {
	for _, does := range []string{"refuses", "is silent", "hangs up", "gives what has been read", "takes back what it gives"} {
		n := NewNode(0, 2, Divide(9, []int{1}, 1), true)
		read := func(p int) bool { return p == 0 }
		for k := range uint32(3 * mostVain) {
			victim, ok := n.Ask(none)
			most := uint32(mostVain)
			if does == "takes back what it gives" {
				most++ // the first time it is believed
			}
			if ok != (k < most) {
				t.Fatalf("it %s: after %d questions in vain it is asked: %v", does, k, ok)
			}
			if !ok {
				continue
			}
			var answer []Hand
			switch does {
			case "is silent":
				n.GiveUp()
			case "hangs up":
				n.Unanswered(victim)
				continue
			case "takes back what it gives":
				if _, err := n.Receive(victim, []Hand{{Lo: 0, Hi: 9, Term: 2*k + 1}}, none); err != nil {
					t.Fatal(err)
				}
				if _, err := n.Took(Claim{1, []Hand{{Lo: 0, Hi: 9, Term: 2*k + 2}}}); err != nil {
					t.Fatal(err)
				}
				continue
			case "gives what has been read":
				answer = []Hand{{Lo: 0, Hi: 1, Term: k + 1}}
				fallthrough
			default:
				if _, err := n.Receive(victim, answer, read); err != nil {
					t.Fatal(err)
				}
				n.Next(1, read) // of what it gave nothing is left to do
			}
			if _, err := n.Took(Claim{Node: 1}); err != nil {
				t.Fatal(err)
			}
			if does == "refuses" || does == "is silent" {
				if _, ok := n.Ask(none); ok {
					t.Fatal("asks again one that has refused and has taken nothing since")
				}
			}
			if _, err := n.Took(Claim{1, []Hand{{Lo: 0, Hi: 9, Term: k + 1}}}); err != nil {
				t.Fatal(err)
			}
		}
		if !n.Idle() {
			t.Error("still waits for an answer")
		}
	}
}

// Who has asked for works waits for the answer before it reads in anybody's place.
func TestWhoHasAskedOvertakesNobody(t *testing.T) {
	n := NewNode(0, 3, Divide(9, []int{0, 1, 2}, 1), true)
	for n.Left() > 0 {
		w, _, _ := next(n, none)
		n.End(w)
	}
	late := func(_, _ int) time.Duration { return time.Minute }
	victim, ok := n.Ask(none)
	if _, tell := n.Overtake(none, time.Second, time.Minute, false, late); !ok || tell != nil {
		t.Errorf("has asked node %d, %v, and overtakes %v", victim, ok, tell)
	}
	if _, err := n.Receive(victim, nil, none); err != nil {
		t.Fatal(err)
	}
	if _, tell := n.Overtake(none, time.Second, time.Minute, false, late); tell == nil {
		t.Error("overtakes nobody when it is refused")
	}
}
