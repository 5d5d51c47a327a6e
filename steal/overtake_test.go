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

func TestOvertakeFromTheTail(t *testing.T) {
	d := Divide(8, []int{0, 1}, 4)
	a, b := NewNode(0, 2, d, true), NewNode(1, 2, d, true)
	late := func(_, _ int) time.Duration { return time.Minute }
	next(b, none)
	if _, tell := a.Overtake(none, time.Second, time.Second, late); tell != nil {
		t.Fatalf("overtakes %v with work of its own", tell)
	}
	w, r, _ := next(a, none)
	held := piece.NewSet(8)
	held.AddRange(r)
	a.End(w)
	a.GoOn(w) // which is for what was overtaken
	if a.Busy() {
		t.Fatalf("goes on with %v", a.List())
	}
	if _, tell := a.Overtake(held.Has, time.Second, time.Second, func(_, _ int) time.Duration { return 3 * time.Second }); tell != nil {
		t.Fatalf("overtakes %v of one that is in time", tell)
	}
	if _, tell := a.Overtake(held.Has, time.Second, turnTime-1, late); tell != nil {
		t.Fatalf("overtakes %v before its turn", tell)
	}
	victim, tell := a.Overtake(held.Has, time.Second, turnTime, late)
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
	if _, tell := non.Overtake(none, time.Second, time.Second, late); tell != nil {
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
