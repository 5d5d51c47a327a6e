package swarm

import (
	"errors"
	"testing"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// held makes the nodes of those ranks hold the object from before the job. What
// is written to their files is an error, since nothing may be.
func (b *bench) held(ranks ...int) {
	for _, r := range ranks {
		for i := range b.configs {
			b.configs[i].Members[r].Held = true
		}
		copy(b.disks[r].b, b.data)
		b.disks[r].full = 1
		b.configs[r].Commit = nil
	}
}

func TestSeveralHoldersGive(t *testing.T) {
	swarmOf(t, 5, 40*unit.MiB, steal.Steal, func(b *bench) {
		b.held(0, 2, 3)
		b.run()
		b.complete(BySource, seq(5)...)
		if got := b.storeBytes(); got != 0 {
			t.Errorf("%v left the store although three nodes have the object", got)
		}
	})
}

func TestOneHolderIsWrong(t *testing.T) {
	swarmOf(t, 4, 20*unit.MiB, steal.Steal, func(b *bench) {
		b.held(0, 1, 2)
		for off := 0; off < len(b.data); off += 100_000 {
			b.disks[1].b[off] ^= 1
		}
		b.run()
		b.complete(BySource, 0, 2, 3)
		if !errors.Is(b.errs[1], ErrHeldWrong) {
			t.Errorf("n1: %v, want %v", b.errs[1], ErrHeldWrong)
		}
	})
}

// One that holds the object, but for a bit of what it is to give, is not done for what others have read in its place.
func TestHolderHasOneBitWrong(t *testing.T) {
	swarmOf(t, 4, 20*unit.MiB, steal.Steal, func(b *bench) {
		b.held(0, 1, 2)
		l := b.configs[0].Layout
		b.disks[1].b[unit.Bytes(piece.Share(l.Count(), 1, 3).Lo)*l.Piece] ^= 1
		b.run()
		b.complete(BySource, 0, 2, 3)
		if !errors.Is(b.errs[1], ErrHeldWrong) {
			t.Errorf("n1: %v, verified %q, want %v", b.errs[1], b.results[1].Verified, ErrHeldWrong)
		}
	})
}

// TestHoldersDie has what only they had read from the store at once, though it
// was on its way from them: a connection that is lost may come back for a while, and no other wait is due, least of all that for a node which
// was never connected.
func TestHoldersDie(t *testing.T) {
	const size, link, dies = 20 * unit.MiB, unit.Bandwidth(16 * unit.MiB), 800 * time.Millisecond
	swarmOf(t, 3, size, steal.Steal, func(b *bench) {
		b.held(0, 2)
		b.onStar(all(link), all(link), all(link))
		b.after(dies, func() {
			for _, r := range []int{0, 2} {
				b.net.mu.Lock()
				sent := b.net.carried[[2]string{nodeName(r), nodeName(1)}]
				b.net.mu.Unlock()
				if sent < int(2*b.configs[r].Layout.Piece) {
					t.Errorf("%s has sent %d bytes: the test is none", nodeName(r), sent)
				}
				b.net.kill(nodeName(r))
				b.cancel[r](errors.New("killed"))
			}
		})
		b.run()
		b.complete(BySource, 1)
		whole := time.Duration(float64(size) / float64(link) * float64(time.Second)) // what was left takes less
		if most := dies + exchange.ReconnectFor + exchange.TickEvery + whole; b.took[1] > most || b.results[1].StoreBytes == 0 || b.results[1].StoreBytes == size {
			t.Errorf("n1 took %v and read %v from the store, want less than %v and some", b.took[1], b.results[1].StoreBytes, most)
		}
	})
}
