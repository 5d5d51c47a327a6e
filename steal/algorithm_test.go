package steal

import (
	"math"
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
		{Stream, 0, Policy{PerWork: 1, Steals: true, Adapts: true}},
		{Stream, 7, Policy{PerWork: 7, Steals: true, Adapts: true}},
	} {
		if got := PolicyOf(tt.algorithm, l, 4, tt.perWork); got != tt.want {
			t.Errorf("%s, %d pieces a work: %+v, want %+v", tt.algorithm, tt.perWork, got, tt.want)
		}
	}
	if got := PolicyOf(NonSteal, piece.Layout{Piece: unit.MiB}, 4, 0); got.PerWork != 1 {
		t.Errorf("an object of nothing: %d pieces a work, want 1", got.PerWork)
	}
}

func TestWhatAdapts(t *testing.T) {
	l := piece.Layout{Size: 256 * unit.MiB, Piece: unit.MiB}
	a := &Appetite{work: unit.MiB, streams: 4, rate: unit.Bandwidth(40 * unit.MiB)}
	for _, tt := range []struct {
		algorithm               string
		turns                   *Turns
		streams, request, theft int
	}{
		{Stream, &Turns{}, 4, 10, 40},
		{Stream, &Turns{state: inTurn}, 1, 1, 40},
		{Steal, &Turns{}, 1, 1, math.MaxInt32},
	} {
		p := PolicyOf(tt.algorithm, l, 4, 0)
		if streams, request, theft := p.Streams(a, tt.turns), p.Request(a, tt.turns, 800*unit.MiB, 2), p.Theft(a); streams != tt.streams || request != tt.request || theft != tt.theft {
			t.Errorf("%s, together: %v: %d connections, %d works a request, %d a theft; want %d, %d, %d",
				tt.algorithm, tt.turns.Together(), streams, request, theft, tt.streams, tt.request, tt.theft)
		}
	}
	for _, tt := range []struct {
		algorithm  string
		busy, rest int
		want       bool
	}{
		{Stream, 0, 0, true}, {Stream, 2, 0, true}, {Stream, 2, 1, false},
		{Steal, 0, 0, true}, {Steal, 1, 0, false},
	} {
		if got := PolicyOf(tt.algorithm, l, 4, 0).MayAsk(tt.busy, tt.rest); got != tt.want {
			t.Errorf("%s with %d requests, of which %d rest, may ask: %v", tt.algorithm, tt.busy, tt.rest, got)
		}
	}
}
