package swarm

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/steal"
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
