package swarm

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// The jobs of a node share one pool of blocks. What rests until it is its turn holds none, wherever in a piece it was stopped: else those
// of a few jobs would keep each other, and all that comes from peers, from any. Then it goes on where it was.
func TestWhatRestsHoldsNoBlock(t *testing.T) {
	const size, pieceSize, rate = 8 * unit.MiB, 2 * unit.MiB, unit.Bandwidth(unit.MiB)
	swarmOf(t, 2, size, steal.Stream, func(b *bench) {
		t, pool := b.t, peer.NewPool(1)
		job := func(i int) (*node, order) {
			c := b.configs[i]
			c.Layout.Piece, c.Receive, c.Store = pieceSize, pool, slow{b.store, rate}
			all := order{span: piece.Range{Lo: 0, Hi: c.Layout.Count()}, take: map[int]bool{}, gate: &gate{}}
			for p := range c.Layout.Count() {
				all.take[p] = true
			}
			return newNode(c), all
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		one, first := job(0)
		other, second := job(1)
		ended := make(chan error, 1)
		go func() { ended <- one.readSpan(ctx, first) }()
		time.Sleep(4500 * time.Millisecond) // in the third piece, and in a block
		first.gate.set(false)
		time.Sleep(time.Second) // what was being read comes
		had := one.fromStore.Load()
		if had < int64(size)/2 || had >= int64(size)*3/4 || had%int64(piece.BlockSize) == 0 {
			t.Fatalf("%d bytes are read: the test is none", had)
		}
		if err := other.readSpan(ctx, second); err != nil {
			t.Fatalf("the other job: %v", err)
		}
		if got := one.fromStore.Load(); got != had {
			t.Errorf("what rests has read %d bytes more", got-had)
		}
		first.gate.set(true)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for i, n := range []*node{one, other} {
			if !bytes.Equal(b.disks[i].b, b.data) {
				t.Errorf("job %d: the file differs", i)
			}
			for p := range n.Layout.Count() {
				off, size := n.Layout.Span(p)
				ev, ok := (<-n.events).(evFetched)
				if want := n.algorithm(p).Update(0, b.data[off:off+size]); !ok || ev.piece != p || ev.sum != want {
					t.Errorf("job %d: after piece %d it says %+v, want the digest %x", i, p, ev, want)
				}
			}
		}
		if pool.Free() != pool.Size() {
			t.Errorf("%d blocks of %d are back", pool.Free(), pool.Size())
		}
		n, o := job(0) // and one that is stopped while it rests gives back what it has, too
		stopped, stop := context.WithCancel(ctx)
		o.gate.set(false)
		go func() { ended <- n.readSpan(stopped, o) }()
		synctest.Wait()
		stop()
		if err := <-ended; err == nil || pool.Free() != pool.Size() {
			t.Errorf("stopped: %v, and %d blocks of %d are back", err, pool.Free(), pool.Size())
		}
	})
}
