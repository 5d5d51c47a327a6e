package swarm

import (
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/exchange"
)

// yielding holds blocks back that go to a peer which is ahead of others (exchange.State.Ahead), so that these get more of our uplink. Each rests
// for as long as it was from the last one to this, so that the peer gets half of what it did, on links of whatever rate.
type yielding struct {
	ahead  atomic.Bool   // the loop says so
	began  time.Time     // when the last block went
	rested time.Duration // before it
	until  time.Time     // when the next one goes; zero: it is not waiting yet
}

// rest is for how long the next block is to wait from now on.
func (y *yielding) rest(now time.Time) time.Duration {
	if !y.ahead.Load() || y.began.IsZero() {
		return 0
	}
	if y.until.IsZero() {
		y.rested = min(exchange.MostRest, max(0, now.Sub(y.began)-y.rested))
		y.until = now.Add(y.rested)
	}
	return y.until.Sub(now)
}

// went notes that a block goes.
func (y *yielding) went(now time.Time) {
	if y.until.IsZero() {
		y.rested = 0
	}
	y.began, y.until = now, time.Time{}
}

// yield tells the writers who is ahead.
func (n *node) yield() {
	if !n.policy.Adapts {
		return
	}
	for rank, ahead := range n.ex.Ahead() {
		if l := n.neighbours[rank].link; l != nil {
			l.yielding.ahead.Store(ahead)
		}
	}
}
