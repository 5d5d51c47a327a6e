package swarm

import (
	"context"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/internal/pace"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// far is a network on which it takes so long to hear that a node was removed.
type far struct {
	Network
	takes time.Duration
	began func(addr string)
}

func (f far) Dial(ctx context.Context, addr, name, job string) (*peer.Conn, error) {
	f.began(addr)
	select {
	case <-time.After(f.takes):
		return nil, peer.ErrRemoved
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A node's handshakes do not all begin at once, since it has other things to do at the start; those with partners come first, and none is long waited for.
func TestDialsOneAfterTheOther(t *testing.T) {
	for _, tt := range []struct{ takes, between time.Duration }{
		{time.Second, dialEvery},
		{dialEvery / 5, dialEvery / 5},
	} {
		swarmOf(t, 24, 1000, steal.Stream, func(b *bench) {
			c, start := b.configs[3], time.Now()
			var mu sync.Mutex
			began := map[time.Duration]string{}
			c.Network = far{c.Network, tt.takes, func(addr string) {
				mu.Lock()
				defer mu.Unlock()
				began[time.Since(start)] = addr
			}}
			n := newNode(c)
			n.dialAll(b.t.Context())
			n.wg.Wait()
			partners := true
			for k := range 20 {
				rank, dials := n.rank[began[time.Duration(k)*tt.between]]
				if !dials || rank <= c.Self {
					t.Fatalf("where it takes %v no dial %d begins after %v: %v", tt.takes, k, time.Duration(k)*tt.between, began)
				}
				if nb := n.neighbours[rank]; nb.deadline.Sub(start) < time.Duration(k)*tt.between+connectFor || nb.lost.Sub(start) < time.Duration(k)*tt.between {
					t.Errorf("member %d, which is dialed after %v, is missed after %v and given up after %v", rank, time.Duration(k)*tt.between, nb.lost.Sub(start), nb.deadline.Sub(start))
				}
				if n.ex.Partner(rank) && !partners {
					t.Errorf("partner %d is dialed after others", rank)
				}
				partners = n.ex.Partner(rank)
			}
			if len(began) != 20 || partners {
				t.Errorf("it dials %v", began)
			}
		})
	}
}

// flapping is a network on which so many connections end, proved, before one lasts.
type flapping struct {
	Network
	proof func() []byte
	ends  int
}

func (f flapping) Dial(ctx context.Context, addr, name, job string) (*peer.Conn, error) {
	for range f.ends {
		c, err := f.Network.Dial(ctx, addr, name, job)
		if err != nil {
			return nil, err
		}
		c.WriteFrame(kindAccess, f.proof())
		_, n, err := c.ReadFrame()
		if err == nil {
			_, err = io.CopyN(io.Discard, c, int64(n))
		}
		go c.Close() // which waits until who does not read yet reads
		if err != nil {
			return nil, err
		}
	}
	return f.Network.Dial(ctx, addr, name, job)
}

// Of many connections of a member of which all but the last end at once the last one counts, and soon.
func TestLastConnectionCounts(t *testing.T) {
	const nodes, size, rate = 3, 4 * unit.MiB, 256 * unit.KiB
	took := map[int]time.Duration{}
	for _, ends := range []int{0, 20} {
		swarmOf(t, nodes, size, steal.Stream, func(b *bench) {
			for i := range b.configs {
				b.configs[i].Layout.Piece = 64 * unit.KiB
				b.configs[i].Store = client{b.store, []*pace.Limiter{pace.New(unit.Bandwidth(rate))}, 4 << 10}
			}
			b.configs[0].Network = flapping{b.configs[0].Network, func() []byte { return b.witness.Proof("n0") }, ends}
			b.within(time.Hour)
			b.run()
			b.complete(BySource, seq(nodes)...)
			for i := range b.results {
				if f := b.faultsOf(i); f != "" {
					t.Errorf("%d connections end: %s has seen %s", ends, nodeName(i), f)
				}
			}
			took[ends] = slices.Max(b.took)
		})
	}
	if took[20] > took[0]+2*time.Second {
		t.Errorf("it takes %v, and %v if none ends", took[20], took[0])
	}
}

// One that hangs up whenever it is dialed is not dialed more than once a second, and not for ever.
func TestWhoHangsUpIsLeftAlone(t *testing.T) {
	const nodes, size, rate = 4, 4 * unit.MiB, 32 * unit.KiB
	swarmOf(t, nodes, size, steal.Stream, func(b *bench) {
		ctx, cancel := context.WithCancel(b.t.Context())
		for i := range b.configs {
			b.configs[i].Layout.Piece = 64 * unit.KiB
			b.configs[i].Store = client{b.store, []*pace.Limiter{pace.New(unit.Bandwidth(rate))}, 4 << 10}
		}
		var calls atomic.Int64
		wait := b.stranger(ctx, func(c *peer.Conn) {
			calls.Add(1)
			c.Close()
		}, nil)
		b.within(time.Hour)
		b.run()
		cancel()
		wait()
		b.complete(BySource, 0, 1, 2)
		seconds := int64(slices.Max(b.took) / time.Second)
		if most := 3 * (seconds + int64(leaveAfter/time.Second) + 10); seconds < 20 || calls.Load() > most {
			t.Errorf("it is called %d times in %d s, want at most %d", calls.Load(), seconds, most)
		}
	})
}
