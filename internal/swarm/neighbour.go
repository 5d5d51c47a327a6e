package swarm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/piece"
)

// link is one connection to a neighbour, from its hello to its loss: a reader
// that hands messages to the loop and blocks to the disk, and a writer that
// sends what the loop has queued.
type link struct {
	rank int
	conn *peer.Conn
	out  outbox
}

// What a link tells the loop. Everything of one link arrives in order; evDown
// is last, when nothing of the link touches the part file any more.
type (
	evMessage struct {
		link    *link
		kind    byte
		payload []byte
	}
	evBlock struct {
		link         *link
		piece, block int
		n            int
		wanted       bool // false: nobody had asked for it any more, and it was thrown away
		outcome      outcome
	}
	evSent struct {
		link *link
		n    int
	}
	evDown struct {
		link *link
		err  error
	}
)

// maxQueued bounds what a peer may have asked for and not got: far more than
// what any node of ours asks ahead.
const maxQueued = 1 << 14 // blocks

// maxMessages bounds what waits for a peer that does not read: minutes of what is
// said in a swarm of a thousand nodes.
const maxMessages = 1 << 13

// outbox is what waits to be sent to a peer: messages first, then blocks, in
// the order in which they were asked for.
type outbox struct {
	mu       sync.Mutex // guards the fields below
	messages []peer.Frame
	unread   int                // bytes in them
	most     int                // of unread
	blocks   []exchange.Request // runs
	queued   int                // blocks in them
	closing  bool               // send what there is, then end
	wake     chan struct{}      // has room for one
}

func newOutbox(most int) outbox { return outbox{most: most, wake: make(chan struct{}, 1)} }

// unread is how many bytes may wait for a peer that does not read: twice all that can be told of the
// object at once, and what is said about works besides. What others make us say is
// bounded with it: no two of them fill our memory.
func (n *node) unread() int {
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

// together is how many bytes of messages are taken from an outbox at a time: those go out in one write.
const together = 16 << 10

// next takes the next messages, or else the next block. ended: nothing more will come.
func (o *outbox) next() (ms []peer.Frame, block exchange.Request, ended bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.messages) > 0 {
		k, size := 0, 0
		for k < len(o.messages) && (k == 0 || size+len(o.messages[k].Payload) <= together) {
			size += len(o.messages[k].Payload)
			k++
		}
		ms, o.messages = o.messages[:k:k], o.messages[k:]
		o.unread -= size
		return ms, block, false
	}
	if o.closing {
		return nil, block, true
	}
	if len(o.blocks) > 0 {
		r := &o.blocks[0]
		block = exchange.Request{Piece: r.Piece, Lo: r.Lo, Hi: r.Lo + 1}
		o.queued--
		if r.Lo++; r.Lo == r.Hi {
			o.blocks = o.blocks[1:]
		}
	}
	return nil, block, false
}

// write sends what the outbox holds until it is closed, the connection fails or ctx ends.
func (l *link) write(ctx context.Context, n *node) error {
	header := make([]byte, 0, blockHeaderBytes)
	for {
		ms, r, ended := l.out.next()
		switch {
		case ended:
			return nil
		case len(ms) > 0:
			if err := l.conn.WriteFrames(ms); err != nil {
				return err
			}
		case r.Hi > 0:
			off, size := blockSpan(n.Layout, r.Piece, r.Lo)
			buf, err := n.Send.Get(ctx)
			if err != nil {
				return err
			}
			_, err = n.File.ReadAt(buf[:size], off)
			if errors.Is(err, io.EOF) {
				err = nil // the object's end may be the file's
			}
			if err != nil {
				n.post(evBroken{fmt.Errorf("read block %d of piece %d to send it: %w", r.Lo, r.Piece, err)})
			} else {
				err = l.conn.WriteFrame(kindBlock, appendBlockHeader(header[:0], blockHeader{r.Piece, r.Lo}), buf[:size])
			}
			n.Send.Put(buf)
			if err != nil {
				return err
			}
			n.post(evSent{l, size})
		default:
			select {
			case <-l.out.wake:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// read hands what arrives to the loop and the disk until the connection ends.
func (l *link) read(ctx context.Context, n *node) error {
	for {
		kind, size, err := l.conn.ReadFrame()
		if err != nil {
			return err
		}
		if kind == kindBlock {
			if err := l.readBlock(ctx, n, size); err != nil {
				return err
			}
			continue
		}
		payload := make([]byte, size)
		if _, err := io.ReadFull(l.conn, payload); err != nil {
			return err
		}
		n.post(evMessage{l, kind, payload})
		if kind == kindLeave {
			return nil
		}
	}
}

// readBlock reads one block, writes it to its place if it was asked for, and tells the loop.
func (l *link) readBlock(ctx context.Context, n *node, size int) error {
	var head [blockHeaderBytes]byte
	if size < len(head) {
		n.Counters.Broken.Add(int64(size))
		return &violation{errShort}
	}
	if _, err := io.ReadFull(l.conn, head[:]); err != nil {
		return err
	}
	h, err := parseBlockHeader(head[:], size, n.Layout)
	if err != nil {
		n.Counters.Broken.Add(int64(size))
		return &violation{err}
	}
	buf, err := n.Receive.Get(ctx)
	if err != nil {
		return err
	}
	defer n.Receive.Put(buf)
	off, length := blockSpan(n.Layout, h.Piece, h.Block)
	if _, err := io.ReadFull(l.conn, buf[:length]); err != nil {
		return err
	}
	wanted := n.asm.claim(l.rank, h.Piece, h.Block) // only now: who is slow must not keep others from it
	ev := evBlock{link: l, piece: h.Piece, block: h.Block, n: length, wanted: wanted}
	if wanted {
		sum := n.digest.Update(0, buf[:length])
		if _, err := n.File.WriteAt(buf[:length], off); err != nil {
			n.asm.giveUp(h.Piece, h.Block)
			n.post(evBroken{fmt.Errorf("write piece %d: %w", h.Piece, err)})
			return err
		}
		ev.outcome = n.asm.arrived(l.rank, h.Piece, h.Block, sum)
	}
	n.post(ev)
	return nil
}

// violation is a peer's breach of the protocol: it is not dialed again.
type violation struct{ error }

func (v *violation) Unwrap() error { return v.error }

// run runs a link until it ends, and tells the loop that it did. The end of ctx
// alone does not end it: the loop still says goodbye over it then, so that the other end
// need not find out by silence. The loop's own end does.
func (l *link) run(ctx context.Context, n *node) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { l.conn.Close() })
	var writer error
	var wg sync.WaitGroup
	wg.Go(func() {
		writer = l.write(ctx, n)
		if writer == nil { // all is said: give the other end time to take it in
			t := time.NewTimer(lingerFor)
			defer t.Stop()
			select {
			case <-t.C:
			case <-ctx.Done():
			}
		}
		cancel()
	})
	wg.Go(func() {
		select {
		case <-n.ended:
			cancel()
		case <-ctx.Done():
		}
	})
	err := l.read(ctx, n)
	cancel()
	wg.Wait()
	stop()
	l.conn.Close()
	if writer != nil && !errors.Is(writer, context.Canceled) && !errors.As(err, new(*violation)) && !errors.As(err, new(*peer.Refused)) {
		err = writer
	}
	n.post(evDown{l, err})
}

// lingerFor is how long a link that has said all waits for the other end to
// close, so that what was sent last is not lost in a reset.
const lingerFor = 2 * time.Second

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
