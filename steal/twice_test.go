package steal

import (
	"cmp"
	"testing"
	"time"

	"github.com/freshet/freshet/unit"
)

// A node reads with up to store beside peers, both through a link, for three seconds or for so long, and has
// nothing to read for three more, in which peers may give less. Whether it is to read more then depends on what the store would give it.
func TestTwice(t *testing.T) {
	const link = 100 * unit.MBps
	for _, tt := range []struct {
		name   string
		store  unit.Bandwidth // while peers leave room
		ramp   bool           // peers have nothing in the first half second
		peers  unit.Bandwidth
		copies float64
		want   bool
		long   int            // steps; 0: three seconds
		then   unit.Bandwidth // from peers; 0: as before
	}{
		{name: "narrow store", store: 6 * unit.MBps, ramp: true, peers: 94 * unit.MBps},
		{name: "narrow store, and peers give less after a long time", store: 6 * unit.MBps, ramp: true, peers: 94 * unit.MBps, long: 600, then: 60 * unit.MBps},
		{name: "a quarter of the link, and peers fill it", store: 25 * unit.MBps, ramp: true, peers: 95 * unit.MBps},
		{name: "a quarter of the link, and peers hardly give", store: 25 * unit.MBps, ramp: true, peers: 10 * unit.MBps, want: true},
		{name: "wide store, and peers have narrow uplinks", store: link, ramp: true, peers: 60 * unit.MBps, want: true},
		{name: "wide store, and peers all but fill the link", store: link, ramp: true, peers: 95 * unit.MBps},
		{name: "wide store, and never any room beside peers", store: link, peers: 60 * unit.MBps, want: true},
		{name: "capped at one copy", store: link, ramp: true, peers: 10 * unit.MBps, copies: 1},
		{name: "capped at a little more", store: link, ramp: true, peers: 10 * unit.MBps, copies: 1.5, want: true},
		{name: "peers alone", ramp: true, peers: 10 * unit.MBps},
	} {
		tw := NewTwice(unit.GiB, 16, tt.copies)
		now := time.Unix(1, 0)
		var store, peers float64
		const step = 50 * time.Millisecond
		long := cmp.Or(tt.long, 60)
		for i := range long + 60 {
			reads, idle := i < long && tt.store > 0, i >= long
			p := tt.peers
			if idle {
				p = cmp.Or(tt.then, p)
			}
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
