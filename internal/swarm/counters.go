package swarm

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/piece"
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

	waits [waitKinds]atomic.Int64 // nanoseconds
	peers sync.Map                // name → *PeerCounters
}

// PeerCounters are a peer's share.
type PeerCounters struct {
	Received, Sent atomic.Int64 // bytes of payload
}

// Wait is what a node's part of a job can wait for, while its file is not in its place.
type Wait int

const (
	ForStore   Wait = iota // it reads from the store
	ForBarrier             // others do, and pieces are not passed on before they have ended
	ForPeers
	ForDisk // the file is made durable
	waitKinds
)

// Waits are times by what was waited for.
type Waits [waitKinds]time.Duration

var waitNames = [waitKinds]string{ForStore: "store", ForBarrier: "barrier", ForPeers: "peers", ForDisk: "disk"}

// Waited notes that a job has waited.
func (c *Counters) Waited(w Wait, d time.Duration) { c.waits[w].Add(int64(d)) }

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

// Waits calls f with the time that jobs have waited, by what for.
func (c *Counters) Waits(f func(what string, d time.Duration)) {
	for k, name := range waitNames {
		f(name, time.Duration(c.waits[k].Load()))
	}
}

// sample is what of a job's state is in the counters right now.
type sample struct {
	at             time.Time
	events, queued int64
}

// count adds what has changed since the last tick.
func (n *node) count() {
	c, last := n.Counters, n.sampled
	now := sample{at: n.now, events: int64(len(n.events))}
	for rank := range n.neighbours {
		if l := n.neighbours[rank].link; l != nil {
			now.queued += int64(l.out.depth())
		}
	}
	c.Events.Add(now.events - last.events)
	c.Queued.Add(now.queued - last.queued)
	if !n.done {
		what, d := n.waitsFor(), now.at.Sub(last.at)
		c.Waited(what, d)
		n.waited[what] += d
	}
	n.sampled = now
}

// uncount takes a job that ends out of the counters of what is.
func (n *node) uncount() {
	n.Counters.Events.Add(-n.sampled.events)
	n.Counters.Queued.Add(-n.sampled.queued)
}

func (n *node) waitsFor() Wait {
	switch {
	case n.commits:
		return ForDisk
	case len(n.fetches) > 0:
		return ForStore
	case !n.ex.Open():
		return ForBarrier
	}
	return ForPeers
}

// pieceBytes is the size of a piece as a count.
func pieceBytes(l piece.Layout, p int) int64 {
	_, size := l.Span(p)
	return int64(size)
}
