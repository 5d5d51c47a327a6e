package steal

import (
	"testing"
	"time"
)

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
