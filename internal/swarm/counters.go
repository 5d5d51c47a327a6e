package swarm

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/internal/account"
)

// Counters are what all jobs of a process have done since it began, for
// whoever watches it. They are counted per block, piece and tick, by all jobs
// into the same. The zero value is ready to use.
type Counters struct {
	FromStore atomic.Int64 // bytes of payload read, thrown away ones included
	Verified  atomic.Int64 // pieces on our disk whose digest is the manifest's
	Spoiled   atomic.Int64 // bytes of pieces from peers that had another digest
	Unasked   atomic.Int64 // bytes of blocks that nobody waited for any more
	Broken    atomic.Int64 // bytes of frames that break the protocol

	Events atomic.Int64 // that wait for the loops of the running jobs; as of their last tick
	Queued atomic.Int64 // blocks that peers have asked for and wait for; likewise

	spent [len(account.Times{})]atomic.Int64 // nanoseconds, by account.Doing
	peers sync.Map                           // name → *PeerCounters
}

// PeerCounters are a peer's share.
type PeerCounters struct {
	Received, Sent atomic.Int64 // bytes of payload
}

// Spend notes for how long a job was at something, while its file was not in its place.
func (c *Counters) Spend(is account.Doing, d time.Duration) { c.spent[is].Add(int64(d)) }

// Spent is the time of jobs that were at something.
func (c *Counters) Spent(is account.Doing) time.Duration { return time.Duration(c.spent[is].Load()) }

// Peer is the share of the peer of that name.
func (c *Counters) Peer(name string) *PeerCounters {
	if p, ok := c.peers.Load(name); ok {
		return p.(*PeerCounters)
	}
	p, _ := c.peers.LoadOrStore(name, &PeerCounters{})
	return p.(*PeerCounters)
}

// Peers calls f for each peer there has been. They are members of the cluster.
func (c *Counters) Peers(f func(name string, p *PeerCounters)) {
	c.peers.Range(func(name, p any) bool {
		f(name.(string), p.(*PeerCounters))
		return true
	})
}

// sample is what of a job's state is in the counters right now.
type sample struct{ events, queued int64 }

// count adds what has changed since the last tick.
func (n *node) count() {
	c, last := n.Counters, n.sampled
	now := sample{events: int64(len(n.events))}
	for rank := range n.neighbours {
		if l := n.neighbours[rank].link; l != nil {
			now.queued += int64(l.out.depth())
		}
	}
	c.Events.Add(now.events - last.events)
	c.Queued.Add(now.queued - last.queued)
	n.sampled = now
	if !n.done {
		n.note()
	}
}

// note enters the time since the last note into the diary.
func (n *node) note() {
	store, peers := n.fromStore.Load(), n.arrived.Load()
	n.diary.Note(n.now.Sub(n.Start).Seconds(), store > n.noted.store, peers > n.noted.peers, n.waitsFor())
	n.noted.store, n.noted.peers = store, peers
	n.spend()
}

// spend counts what has been judged since the last time.
func (n *node) spend() {
	times := n.diary.Times()
	for is, s := range times {
		n.Counters.Spend(account.Doing(is), time.Duration((s-n.noted.times[is])*float64(time.Second)))
	}
	n.noted.times = times
}

// noted is how far the diary has come.
type noted struct {
	store, peers int64
	times        account.Times // that are in the counters
}

// counting counts bytes as they come: on a slow link a block takes long.
type counting struct {
	r io.Reader
	n *atomic.Int64
}

func (c counting) Read(p []byte) (int, error) {
	k, err := c.r.Read(p)
	c.n.Add(int64(k))
	return k, err
}

// uncount takes a job that ends out of the counters of what is.
func (n *node) uncount() {
	n.Counters.Events.Add(-n.sampled.events)
	n.Counters.Queued.Add(-n.sampled.queued)
}

// waitsFor is what keeps us, if nothing comes.
func (n *node) waitsFor() account.Doing {
	switch {
	case n.commits, n.Members[n.Self].Held && len(n.fetches) > 0: // who held the object reads it from there
		return account.ForDisk
	case len(n.fetches) > 0:
		return account.ForStore
	case !n.ex.Open():
		return account.ForBarrier
	}
	return account.ForPeers
}
