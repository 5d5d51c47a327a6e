package swarm

import (
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// Where uplinks are what is narrow, and the connections to one node get seven eighths of what others' do, it is not late by much, since others
// let it go first. The median of three: once in fifty times it has bad luck besides.
func TestWhoIsBehindGoesFirst(t *testing.T) {
	const nodes, size, link = 6, 48 * unit.MiB, unit.Bandwidth(2 * unit.MiB)
	var late []float64
	for range 3 {
		swarmOf(t, nodes, size, steal.Stream, func(b *bench) {
			for i := range b.configs {
				b.configs[i].Layout.Piece = 64 * unit.KiB
			}
			b.onStar(all(link), all(4*link), all(link/3)).weak = "n5"
			b.run()
			b.complete(BySource, seq(nodes)...)
			others := 0.0
			for _, took := range b.took[:nodes-1] {
				others += took.Seconds() / (nodes - 1)
			}
			late = append(late, slices.Max(b.took).Seconds()/others)
		})
	}
	slices.Sort(late)
	if late[1] > 1.015 {
		t.Errorf("the last one takes %.3f times as long as the others in the mean: nobody has waited for it", late)
	}
}

func TestYielding(t *testing.T) {
	now := time.Unix(1000, 0)
	var y yielding
	step := func(what string, want time.Duration) {
		t.Helper()
		if got := y.rest(now); got != want {
			t.Errorf("%s: it rests for %v, want %v", what, got, want)
		}
	}
	y.ahead.Store(true)
	step("the first block", 0)
	y.went(now)
	now = now.Add(20 * time.Millisecond)
	step("as long as it was from the last one", 20*time.Millisecond)
	now = now.Add(4 * time.Millisecond)
	step("what is left of that", 16*time.Millisecond)
	now = now.Add(16 * time.Millisecond)
	step("over", 0)
	y.went(now)
	now = now.Add(45 * time.Millisecond)
	step("the rest before it does not count", 25*time.Millisecond)
	y.went(now)
	now = now.Add(time.Second)
	step("no longer than this", mostRest)
	y.ahead.Store(false)
	step("no more ahead", 0)
}
