package swarm

import (
	"slices"
	"sync"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/piece"
)

// maxQueued bounds what a peer may have asked for and not got: far more than
// what any node of ours asks ahead.
const maxQueued = 1 << 14 // blocks

// maxMessages bounds what waits for a peer that does not read: minutes of what is
// said in a swarm of a thousand nodes.
const maxMessages = 1 << 13

// outbox is what waits to be sent to a peer: messages first, then blocks, in
// the order in which they were asked for.
//
// News is what we have got since we last said so. It goes with whatever else goes to the peer, before it: a
// message of its own is a packet, and wakes a writer here and a reader there. Only where nothing
// else goes for as long as the news may wait it goes alone.
type outbox struct {
	mu       sync.Mutex // guards the fields below
	messages []peer.Frame
	unread   int                // bytes in them, and in the news
	most     int                // of unread
	blocks   []exchange.Request // runs
	queued   int                // blocks in them
	closing  bool               // send what there is, then end
	wake     chan struct{}      // has room for one

	news    []int     // pieces
	digests []digest  // of them and of others, to be said before them
	urgent  bool      // nobody else has some of it
	due     bool      // it goes though nothing else does
	told    time.Time // when news last went; zero: never
}

func newOutbox(most int) outbox { return outbox{most: most, wake: make(chan struct{}, 1)} }

// mostUnread is how many bytes may wait for a peer that does not read: twice all that can be told of the
// object at once, and what is said about works besides. What others make us say is
// bounded with it: no two of them fill our memory.
func (n *node) mostUnread() int {
	const besides = 8 << 20
	return besides + 2*n.Layout.Count()*(digestBytes+1)
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// send queues a message. It returns false if the peer leaves too many unread.
func (o *outbox) send(kind byte, payload []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing {
		return true
	}
	if len(o.messages) >= maxMessages || o.unread+len(payload) > o.most {
		return false
	}
	o.unread += len(payload)
	o.messages = append(o.messages, peer.Frame{Kind: kind, Payload: payload})
	o.signal()
	return true
}

const newsBytes = 8 // of a piece, at most: a run of its own

// tell adds to the news. It returns false if the peer leaves too much unread.
func (o *outbox) tell(pieces []int, digests []digest, urgent bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing {
		return true
	}
	size := newsBytes*len(pieces) + digestBytes*len(digests)
	if o.unread+size > o.most {
		return false
	}
	o.unread += size
	o.news, o.digests = append(o.news, pieces...), append(o.digests, digests...)
	o.urgent = o.urgent || urgent
	return true
}

// remind has news go that has waited for long enough: patience, or urgently if some of it is urgent.
func (o *outbox) remind(now time.Time, patience, urgently time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.urgent {
		patience = urgently
	}
	if len(o.news)+len(o.digests) > 0 && now.Sub(o.told) >= patience {
		o.due = true
		o.signal()
	}
}

// forget takes a piece out of the news that we turn out not to have.
func (o *outbox) forget(p int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := len(o.news)
	o.news = slices.DeleteFunc(o.news, func(q int) bool { return q == p })
	o.unread -= newsBytes * (all - len(o.news))
}

// sayNews makes the news the first of the messages: first the digests, then the pieces.
func (o *outbox) sayNews() {
	var said []peer.Frame
	for chunk := range slices.Chunk(o.digests, peer.MaxFrame/digestBytes) {
		said = append(said, peer.Frame{Kind: kindDigests, Payload: appendDigests(nil, chunk)})
	}
	slices.Sort(o.news)
	for chunk := range slices.Chunk(ranges(slices.Compact(o.news)), peer.MaxFrame/newsBytes) {
		said = append(said, peer.Frame{Kind: kindHave, Payload: appendHave(nil, chunk)})
	}
	o.unread -= newsBytes*len(o.news) + digestBytes*len(o.digests)
	for _, m := range said {
		o.unread += len(m.Payload)
	}
	o.messages = append(said, o.messages...)
	o.news, o.digests, o.urgent, o.due, o.told = o.news[:0], o.digests[:0], false, false, time.Now()
}

// serve queues blocks. It returns false if the peer has asked for too many.
func (o *outbox) serve(r exchange.Request) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.queued+r.Hi-r.Lo > maxQueued {
		return false
	}
	o.queued += r.Hi - r.Lo
	o.blocks = append(o.blocks, r)
	o.signal()
	return true
}

// cancel takes blocks out of the queue that the peer does not want any more.
func (o *outbox) cancel(r exchange.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	kept := o.blocks[:0:0]
	for _, q := range o.blocks {
		if q.Piece != r.Piece || q.Hi <= r.Lo || r.Hi <= q.Lo {
			kept = append(kept, q)
			continue
		}
		o.queued -= q.Hi - q.Lo
		for _, part := range []exchange.Request{{Piece: q.Piece, Lo: q.Lo, Hi: min(q.Hi, r.Lo)}, {Piece: q.Piece, Lo: max(q.Lo, r.Hi), Hi: q.Hi}} {
			if part.Lo < part.Hi {
				kept = append(kept, part)
				o.queued += part.Hi - part.Lo
			}
		}
	}
	o.blocks = kept
}

// depth is the number of blocks that wait.
func (o *outbox) depth() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.queued
}

// choke empties the queue of blocks.
func (o *outbox) choke() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.blocks, o.queued = nil, 0
}

// close lets the writer end when everything queued is sent.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closing = true
	o.signal()
}

// together is how many bytes of messages are taken from an outbox at a time, and mostTogether how many messages: those go
// out in one write, with a block if one waits.
const (
	together     = 16 << 10
	mostTogether = 256
)

// next takes the next messages, and says whether blocks wait, too. ended: nothing more will come.
func (o *outbox) next() (ms []peer.Frame, blocks, ended bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.news)+len(o.digests) > 0 && (o.due || len(o.messages) > 0 || len(o.blocks) > 0 || o.closing) {
		o.sayNews()
	}
	k, size := 0, 0
	for k < min(len(o.messages), mostTogether) && (k == 0 || size+len(o.messages[k].Payload) <= together) {
		size += len(o.messages[k].Payload)
		k++
	}
	ms, o.messages = o.messages[:k:k], o.messages[k:]
	o.unread -= size
	if o.closing {
		return ms, false, k == 0
	}
	return ms, len(o.blocks) > 0 && size <= together, false
}

// block takes the next block, if it is still wanted.
func (o *outbox) block() (block exchange.Request, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.blocks) == 0 {
		return block, false
	}
	r := &o.blocks[0]
	block = exchange.Request{Piece: r.Piece, Lo: r.Lo, Hi: r.Lo + 1}
	o.queued--
	if r.Lo++; r.Lo == r.Hi {
		o.blocks = o.blocks[1:]
	}
	return block, true
}

// ranges packs sorted pieces into runs.
func ranges(pieces []int) (rs []piece.Range) {
	for _, p := range pieces {
		if k := len(rs) - 1; k >= 0 && rs[k].Hi == p {
			rs[k].Hi++
		} else {
			rs = append(rs, piece.Range{Lo: p, Hi: p + 1})
		}
	}
	return rs
}
