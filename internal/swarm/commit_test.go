package swarm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
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
	swarmOf(t, 3, 4*unit.MiB, steal.Stream, func(b *bench) {
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
		if slices.Max(b.took) >= time.Minute {
			t.Errorf("they take %v: the test is none", b.took)
		}
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

// Who is expelled for wrong bytes hears so, whatever else it may be expelled for.
func TestWrongBytesHaveACode(t *testing.T) {
	swarmOf(t, 2, unit.MiB, steal.Stream, func(b *bench) {
		for why, want := range map[error]peer.Code{
			fmt.Errorf("%w for piece 3", errWrongBytes):      peer.Misbehaved,
			errors.New("has made no progress for two years"): peer.Other,
		} {
			c := b.configs[0]
			c.Log = slog.New(slog.DiscardHandler)
			n := newNode(c)
			incoming, withdraw := b.ports[1].Offer("job")
			conn, err := b.ports[0].Dial(b.t.Context(), "n1", "n1", "job")
			if err != nil {
				t.Fatal(err)
			}
			there := <-incoming
			n.neighbours[1].link = &link{rank: 1, conn: conn, out: newOutbox(n.mostUnread())}
			n.expel(1, why)
			_, _, err = there.ReadFrame()
			if refused, ok := errors.AsType[*peer.Refused](err); !ok || refused.Code != want {
				t.Errorf("%v: hears %v, want %v", why, err, want)
			}
			there.Close()
			n.wg.Wait()
			withdraw()
		}
	})
}

// A node that is told to end while it puts its file in its place says whether the file is there.
func TestEndWhileCommitting(t *testing.T) {
	stopped, full := errors.New("stopped by its operator"), errors.New("no space left on device")
	for _, fails := range []error{nil, full} {
		swarmOf(t, 2, 4*unit.MiB, steal.Steal, func(b *bench) {
			var began, ended atomic.Int32
			for i := range b.configs {
				b.configs[i].Commit = func() error {
					began.Add(1)
					time.Sleep(10 * time.Second)
					ended.Add(1)
					return fails
				}
			}
			b.after(5*time.Second, func() {
				if began.Load() < 2 || ended.Load() > 0 {
					t.Error("they are not committing: the test is none")
				}
				for _, end := range b.cancel {
					end(stopped)
				}
			})
			b.run()
			if fails == nil {
				b.complete(BySource, 0, 1)
				return
			}
			for i := range 2 {
				if !errors.Is(b.errs[i], stopped) || b.results[i].Done {
					t.Errorf("%s ends with %v, done %v", nodeName(i), b.errs[i], b.results[i].Done)
				}
			}
		})
	}
}

// A job that is over puts nothing in its place.
func TestNothingIsCommittedAfterTheEnd(t *testing.T) {
	swarmOf(t, 2, unit.MiB, steal.Stream, func(b *bench) {
		c := b.configs[0]
		c.Log, c.Report, c.Layout.Piece = slog.New(slog.DiscardHandler), func(Progress) {}, 256*unit.KiB
		c.Commit = func() error {
			t.Error("the file is put in its place")
			return nil
		}
		n := newNode(c)
		for p := range c.Layout.Count() {
			off, size := c.Layout.Span(p)
			sum := n.algorithm(p).Update(0, b.data[off:off+size])
			n.enter(1, digest{p, exchange.Entry{Sum: sum, Reader: 1}})
			n.got(p, sum, nodeName(1))
		}
		ctx, cancel := context.WithCancel(b.t.Context())
		cancel()
		if n.complete(ctx); !n.commits {
			t.Fatal("it does not try: the test is none")
		}
		n.wg.Wait()
	})
}

// Only one that is said to have given wrong bytes reads its file again, and no longer than its part goes on.
func TestReadingBackEnds(t *testing.T) {
	for _, code := range []peer.Code{peer.Misbehaved, peer.Other} {
		swarmOf(t, 2, 4*unit.MiB, steal.NonSteal, func(b *bench) {
			ctx, cancel := context.WithCancel(b.t.Context())
			wait := b.stranger(ctx, func(c *peer.Conn) {
				select {
				case <-time.After(90 * time.Second): // the other has read all by itself
					c.Refuse(code, "enough")
				case <-ctx.Done():
				}
			}, nil)
			var reads, late atomic.Int32
			var over atomic.Bool
			b.disks[0].corrupt = func(int64, []byte) {
				if reads.Add(1); over.Load() {
					late.Add(1)
				}
				time.Sleep(time.Minute)
			}
			b.after(100*time.Second, func() {
				over.Store(true)
				b.cancel[0](errors.New("stopped by its operator"))
			})
			b.run()
			cancel()
			wait()
			if f := b.faultsOf(0); !b.results[0].Done || !strings.Contains(f, "enough") {
				t.Fatalf("done %v, says %q: the test is none", b.results[0].Done, f)
			}
			if accused := code == peer.Misbehaved; accused != (reads.Load() > 0) {
				t.Errorf("refused as one that is %v: %d blocks are read again", code, reads.Load())
			}
			if late.Load() > 0 {
				t.Errorf("%d blocks are read after the end", late.Load())
			}
		})
	}
}
