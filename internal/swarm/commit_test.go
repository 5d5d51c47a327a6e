package swarm

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// That the disks of some take minutes to make the file durable is no fault of theirs: those that are done go, and nobody reads its file again for that.
func TestSlowDisksAreNoFault(t *testing.T) {
	const nodes = 3
	swarmOf(t, nodes, 4*unit.MiB, steal.NonSteal, func(b *bench) {
		var again atomic.Int32
		for i := range b.configs {
			var placed atomic.Bool
			b.configs[i].Commit = func() error {
				time.Sleep(5*time.Minute + time.Duration(i)*time.Second) // in simulated time
				placed.Store(true)
				return nil
			}
			b.disks[i].corrupt = func(int64, []byte) {
				if placed.Load() {
					again.Add(1)
				}
			}
		}
		b.run()
		b.complete(BySource, seq(nodes)...)
		for i := range nodes {
			if f := b.faultsOf(i); f != "" {
				t.Errorf("%s says: %s", nodeName(i), f)
			}
		}
		if k := again.Load(); k > 0 {
			t.Errorf("files are read again when they are in their places: %d blocks", k)
		}
	})
}

// One that says that it has all, and is never done, keeps nobody who is.
func TestWhoIsNeverDoneIsLeft(t *testing.T) {
	swarmOf(t, 3, 4*unit.MiB, steal.NonSteal, func(b *bench) {
		ctx, cancel := context.WithCancel(b.t.Context())
		wait := b.stranger(ctx, func(c *peer.Conn) {
			select {
			case <-time.After(time.Minute): // the others have got everything by themselves
				c.WriteFrame(kindHave, appendHave(nil, []piece.Range{{Hi: b.configs[0].Layout.Count()}}))
			case <-ctx.Done():
			}
		}, nil)
		b.within(10 * time.Minute)
		b.run()
		cancel()
		wait()
		b.complete(BySource, 0, 1)
	})
}

// Who is done waits for one that stands still as long as another gets on, since it may be that which the one waits for. When nobody does, who lacks something is
// given up, and who has all is left.
func TestWhoStandsStillMayWaitForAnother(t *testing.T) {
	const still, moving = 1, 2
	swarmOf(t, 3, unit.MiB, steal.Stream, func(b *bench) {
		c := b.configs[0]
		c.Log, c.Report, c.Layout.Piece = slog.New(slog.DiscardHandler), func(Progress) {}, 64*unit.KiB
		n := newNode(c)
		for _, rank := range []int{still, moving} {
			_, withdraw := b.ports[rank].Offer("job")
			defer withdraw()
			conn, err := b.ports[0].Dial(b.t.Context(), nodeName(rank), nodeName(rank), "job")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			n.neighbours[rank].link = &link{rank: rank, conn: conn, out: newOutbox(n.mostUnread())}
		}
		for p := range c.Layout.Count() {
			n.enter(moving, digest{p, exchange.Entry{Sum: 1, Reader: moving}})
			n.got(p, 1, nodeName(moving))
		}
		n.done = true
		n.now = n.now.Add(leaveAfter + time.Second)
		n.announced(moving, piece.Range{Hi: c.Layout.Count()})
		if n.tick(b.t.Context()); n.neighbours[still].dead || n.finished() {
			t.Errorf("while another gets on: given up %v, left %v", n.neighbours[still].dead, n.finished())
		}
		n.now = n.now.Add(leaveAfter + time.Second)
		if n.tick(b.t.Context()); !n.neighbours[still].dead {
			t.Error("who lacks something is not given up when nobody gets on")
		}
		if n.neighbours[moving].dead || !n.finished() {
			t.Errorf("who has all: given up %v, left %v", n.neighbours[moving].dead, n.finished())
		}
		n.wg.Wait()
	})
}
