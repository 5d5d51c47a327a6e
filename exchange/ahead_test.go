package exchange

import (
	"maps"
	"testing"

	"github.com/freshet/freshet/piece"
)

func TestAhead(t *testing.T) {
	for _, tt := range []struct {
		name   string
		pieces int
		has    []int // by rank, from 1
		want   []bool
	}{
		{"nobody has anything", 1600, []int{0, 0, 0}, []bool{false, false, false}},
		{"a lead is no more than 0.6 %", 1600, []int{1010, 1005, 1000}, []bool{false, false, false}},
		{"one is behind", 1600, []int{1011, 1010, 1000}, []bool{true, false, false}},
		{"two are ahead", 1600, []int{1020, 1020, 1000}, []bool{true, true, false}},
		{"nobody waits for who is slow by itself", 1600, []int{800, 795, 759}, []bool{false, false, false}},
		{"of few pieces a lead has four", 200, []int{184, 185, 180}, []bool{false, true, false}},
		{"who has all is waited for by nobody, and waits", 1600, []int{1600, 1590, 1589}, []bool{true, false, false}},
		{"all have all", 1600, []int{1600, 1600, 1600}, []bool{false, false, false}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := state(4, tt.pieces, false)
			for i, n := range tt.has {
				s.Announced(i+1, piece.Range{Lo: 0, Hi: n})
			}
			got := maps.Collect(s.Ahead())
			if len(got) != 3 {
				t.Fatalf("%v: want three peers", got)
			}
			for i, want := range tt.want {
				if got[i+1] != want {
					t.Errorf("peer %d of %v: ahead %v, want %v", i+1, tt.has, got[i+1], want)
				}
			}
		})
	}
}

// Who is not served all the time is behind for that reason, and who is not connected for another.
func TestAheadOfPartners(t *testing.T) {
	s := New(Config{Self: 0, Nodes: 4, Layout: layout(1600), Partners: []int{1, 2}})
	for rank, n := range []int{0, 1120, 1130, 1100} {
		if rank > 0 {
			s.Up(rank)
			s.Announced(rank, piece.Range{Lo: 0, Hi: n})
		}
	}
	for rank, ahead := range s.Ahead() {
		if ahead {
			t.Errorf("%d is ahead, of no partner", rank)
		}
	}
	s.Announced(2, piece.Range{Lo: 0, Hi: 1131})
	s.Down(1)
	for rank, ahead := range s.Ahead() {
		if ahead || rank == 1 {
			t.Errorf("peer %d, ahead %v, of one who is not connected", rank, ahead)
		}
	}
}
