package steal

import (
	"testing"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

func TestPolicyOf(t *testing.T) {
	l := piece.Layout{Size: 256 * unit.MiB, Piece: unit.MiB}
	for _, tt := range []struct {
		algorithm string
		perWork   int // that was asked for
		want      Policy
	}{
		{Flat, 0, Policy{PerWork: 256}},
		{NonSteal, 7, Policy{PerWork: 256, Barrier: true}},
		{Steal, 0, Policy{PerWork: DefaultPerWork(l, 4), Steals: true, Barrier: true}},
		{Steal, 7, Policy{PerWork: 7, Steals: true, Barrier: true}},
		{Stream, 0, Policy{PerWork: 1, Steals: true}},
		{Stream, 7, Policy{PerWork: 7, Steals: true}},
	} {
		if got := PolicyOf(tt.algorithm, l, 4, tt.perWork); got != tt.want {
			t.Errorf("%s, %d pieces a work: %+v, want %+v", tt.algorithm, tt.perWork, got, tt.want)
		}
	}
	if got := PolicyOf(NonSteal, piece.Layout{Piece: unit.MiB}, 4, 0); got.PerWork != 1 {
		t.Errorf("an object of nothing: %d pieces a work, want 1", got.PerWork)
	}
}
