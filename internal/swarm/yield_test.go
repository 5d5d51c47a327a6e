package swarm

import (
	"io"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// Where uplinks are what is narrow, and the connections to one node get seven eighths of what others' do, it is not late by much, since others
// let it go first. The median of three: once in fifty times it has bad luck besides.
func TestWhoIsBehindGoesFirst(t *testing.T) {
	measures(t)
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
	step("no longer than this", exchange.MostRest)
	y.ahead.Store(false)
	step("no more ahead", 0)
}

// What is said does not wait behind a block that rests.
func TestMessagesGoWhileBlocksRest(t *testing.T) {
	swarmOf(t, 2, unit.MiB, steal.Stream, func(b *bench) {
		t, ctx := b.t, b.t.Context()
		incoming, withdraw := b.ports[1].Offer("job")
		defer withdraw()
		called := make(chan *peer.Conn, 1)
		go func() { called <- <-incoming }()
		near, err := b.ports[0].Dial(ctx, nodeName(1), nodeName(1), "job")
		if err != nil {
			t.Fatal(err)
		}
		defer near.Close()
		far := <-called
		defer far.Close()

		l := &link{conn: near, out: newOutbox(1 << 20)}
		l.yielding.ahead.Store(true)
		done, nobody := make(chan error), make(chan struct{})
		close(nobody) // listens to what the writer tells
		go func() { done <- l.write(ctx, &node{Config: b.configs[0], ended: nobody}) }()
		ask := func(block int) { l.out.serve(exchange.Request{Piece: block, Lo: 0, Hi: 1}) }
		const apart, spoken = 60 * time.Millisecond, 10 * time.Millisecond
		begin := time.Now()
		ask(0)
		for _, step := range []struct {
			what string
			kind byte
			do   func()
			at   time.Duration
		}{
			{"the first block", kindBlock, func() {}, 0},
			{"a message", kindUnchoke, func() {
				time.Sleep(apart)
				ask(1)
				time.Sleep(spoken)
				l.out.send(kindUnchoke, nil)
			}, apart + spoken},
			{"the second block, which rests as long as the first took", kindBlock, func() {}, 2 * apart},
		} {
			step.do()
			kind, size, err := far.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			if at := time.Since(begin); kind != step.kind || at != step.at {
				t.Errorf("%s: kind %d after %v; want kind %d after %v", step.what, kind, at, step.kind, step.at)
			}
			if _, err := io.CopyN(io.Discard, far, int64(size)); err != nil {
				t.Fatal(err)
			}
		}
		l.out.close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
