package steal

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestNewPace(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name    string
		each    time.Duration
		streams int
		inHand  []Reading
		want    Pace
	}{
		{"it has read nothing, and reads nothing", 0, 1, nil, Pace{0, 0}},
		{"it has read nothing yet", 0, 1, []Reading{{4, s}}, Pace{0, 0}},
		{"it reads nothing", s, 1, nil, Pace{0, 4 * s}},
		{"a connection is not used", s, 3, []Reading{{9, 0}, {9, 0}}, Pace{0, 4 * s}},
		{"three pieces are left", s, 1, []Reading{{3, 0}}, Pace{3 * s, 4 * s}},
		{"the first of them has been coming for a while", s, 1, []Reading{{3, s / 4}}, Pace{11 * s / 4, 4 * s}},
		{"the last of them is overdue", s, 1, []Reading{{1, 2 * s}}, Pace{0, 4 * s}},
		{"nothing is left", s, 1, []Reading{{0, 0}}, Pace{0, 4 * s}},
		{"two connections share what it reads", s, 2, []Reading{{3, 0}, {3, 0}}, Pace{6 * s, 4 * s}},
		{"the one that is through first", s, 2, []Reading{{3, 0}, {1, s / 2}}, Pace{3 * s / 2, 4 * s}},
		{"the one of which a piece came longer ago", s, 2, []Reading{{3, s}, {3, 2 * s}}, Pace{4 * s, 4 * s}},
		{"more are used than it needs by now", s, 1, []Reading{{3, 0}, {2, 0}}, Pace{2 * s, 4 * s}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := NewPace(c.each, 4, c.streams, c.inHand); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestLoot(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name         string
		list, most   int
		owner, thief Pace
		want         int
	}{
		{"half, as in the paper", 26, 100, Pace{s, s}, Pace{0, s}, 13},
		{"half of an odd number is rounded up", 25, 100, Pace{s, s}, Pace{0, s}, 13},
		{"what is asked for", 26, 4, Pace{s, s}, Pace{0, s}, 4},
		{"nothing is known of the thief", 25, 100, Pace{s, s}, Pace{}, 13},
		{"nothing is known of the owner", 25, 100, Pace{}, Pace{s, s}, 13},
		{"of nothing", 0, 100, Pace{}, Pace{0, s}, 0},
		{"nothing is asked for", 9, 0, Pace{}, Pace{}, 0},
		{"the last one, to a thief that is free", 1, 9, Pace{s / 2, s}, Pace{0, s}, 1},
		{"not to one that is as busy", 1, 9, Pace{s / 2, s}, Pace{s / 2, s}, 0},
		{"not to one that is busier", 1, 9, Pace{s / 2, s}, Pace{s, s}, 0},
		{"to one that is busy, and faster", 1, 9, Pace{s / 2, s}, Pace{s, s / 4}, 1},
		{"not to one that is free, and slower", 1, 9, Pace{s / 2, s}, Pace{0, 2 * s}, 0},
		{"a slow one gets as many as it ends in time", 10, 100, Pace{0, s}, Pace{0, 4 * s}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Loot(c.list, c.most, c.owner, c.thief); got != c.want {
				t.Errorf("%d works, want %d", got, c.want)
			}
		})
	}
}

// It is what counting down from half says, which takes as many steps as the thief likes.
func TestLootIsTheMostThatTheThiefEndsFirst(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		bound := 1 << (1 + rng.IntN(20)) // small numbers are often equal
		time := func() time.Duration { return time.Duration(rng.IntN(bound)) }
		list, most := rng.IntN(300), rng.IntN(200)
		owner, thief := Pace{time(), time()}, Pace{time(), time()}
		want := min((list+1)/2, most)
		late := func(k int) bool {
			return int(thief.Free)+k*int(thief.Each) >= int(owner.Free)+(list-k+1)*int(owner.Each)
		}
		for owner.Each > 0 && thief.Each > 0 && want > 0 && late(want) {
			want--
		}
		if got := Loot(list, most, owner, thief); got != want {
			t.Fatalf("of %d works of %+v at most %d go to %+v: %d, want %d", list, owner, most, thief, got, want)
		}
	}
}

// What was given comes back to nobody whose pace has not changed: else two nodes would pass it to and fro.
func TestLootStaysWhereItIs(t *testing.T) {
	for owner := range 6 {
		for thief := range 6 {
			for oFree := range 8 {
				for tFree := range 8 {
					for list := 1; list < 9; list++ {
						o, th := Pace{time.Duration(oFree), time.Duration(owner + 1)}, Pace{time.Duration(tFree), time.Duration(thief + 1)}
						k := Loot(list, list, o, th)
						if k == list && Loot(k, k, th, o) > 0 {
							t.Fatalf("%d works of %+v go to %+v, and back", list, o, th)
						}
					}
				}
			}
		}
	}
}
