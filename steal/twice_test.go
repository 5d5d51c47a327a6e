package steal

import (
	"testing"
	"time"

	"github.com/freshet/freshet/unit"
)

// A node reads with up to store beside peers, both through a link, for three seconds, and has
// nothing to read for three more. Whether it is to read more then depends on what the store would give it.
func TestTwice(t *testing.T) {
	const link = 100 * unit.MBps
	for _, tt := range []struct {
		name   string
		store  unit.Bandwidth // while peers leave room
		ramp   bool           // peers have nothing in the first half second
		peers  unit.Bandwidth
		copies float64
		want   bool
	}{
		{"narrow store", 6 * unit.MBps, true, 94 * unit.MBps, 0, false},
		{"a quarter of the link, and peers fill it", 25 * unit.MBps, true, 95 * unit.MBps, 0, false},
		{"a quarter of the link, and peers hardly give", 25 * unit.MBps, true, 10 * unit.MBps, 0, true},
		{"wide store, and peers have narrow uplinks", link, true, 60 * unit.MBps, 0, true},
		{"wide store, and peers all but fill the link", link, true, 95 * unit.MBps, 0, false},
		{"wide store, and never any room beside peers", link, false, 60 * unit.MBps, 0, true},
		{"capped at one copy", link, true, 10 * unit.MBps, 1, false},
		{"capped at a little more", link, true, 10 * unit.MBps, 1.5, true},
		{"peers alone", 0, true, 10 * unit.MBps, 0, false},
	} {
		tw := NewTwice(unit.GiB, 16, tt.copies)
		now := time.Unix(1, 0)
		var store, peers float64
		const step = 50 * time.Millisecond
		for i := range 120 {
			reads, idle := i < 60 && tt.store > 0, i >= 60
			p := tt.peers
			if tt.ramp && i < 10 {
				p = 0
			}
			if reads {
				p = min(p, link-min(tt.store, link/2))
				store += float64(min(tt.store, link-p)) * step.Seconds()
			}
			peers += float64(p) * step.Seconds()
			now = now.Add(step)
			if tw.Note(unit.Bytes(store), unit.Bytes(peers), reads, idle, now); !idle && tw.Pays(unit.MiB) {
				t.Errorf("%s: reads again while there is something to read", tt.name)
			}
		}
		if got := tw.Pays(unit.MiB); got != tt.want {
			t.Errorf("%s: the store is said to give %v, peers gave %v, reads again: %v", tt.name, tw.Rate(), tw.gave, got)
		}
	}
}

// Each node may read its part of the copies beyond the first, and nothing more.
func TestCopiesAreCapped(t *testing.T) {
	tw := NewTwice(160*unit.MiB, 16, 1.5)
	read := unit.Bytes(0)
	for tw.May(unit.MiB) {
		tw.Spend(unit.MiB)
		read += unit.MiB
	}
	if read != 5*unit.MiB {
		t.Errorf("one of 16 nodes reads %v of 160 MiB twice, want 5 MiB", read)
	}
}

// What was in hand and did not come is read next, unless somebody else claimed it meanwhile.
func TestBack(t *testing.T) {
	n := NewNode(0, 2, Divide(8, []int{0, 1}, 1), true)
	works, _ := n.Next(2, none)
	if _, err := n.Took(Claim{1, []Hand{{Lo: works[0], Hi: works[0] + 1, Term: 1}}}); err != nil {
		t.Fatal(err)
	}
	n.Back(works)
	if again, r := n.Next(1, none); len(again) != 1 || again[0] != works[1] || r.Lo != works[1] || len(works) != 2 {
		t.Errorf("of %v in hand, the first of them claimed by another, %v is next", works, again)
	}
	if n.Left() != 2 || n.inHand != 1 {
		t.Errorf("%d works left and %d in hand", n.Left(), n.inHand)
	}
}
