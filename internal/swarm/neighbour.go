package swarm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// link is one connection to a neighbour, from its hello to its loss: a reader
// that hands messages to the loop and blocks to the disk, and a writer that
// sends what the loop has queued.
type link struct {
	rank     int
	conn     *peer.Conn
	out      outbox
	yielding yielding     // the writer's, but for what is atomic
	sent     atomic.Int64 // bytes of payload; the writer counts
	counted  unit.Bytes   // of them, by the loop
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
	evSent struct{ link *link } // much since the last one; what is less the loop sees by itself, with each tick
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

// write sends what the outbox holds until it is closed, the connection fails or ctx ends.
func (l *link) write(ctx context.Context, n *node) error {
	much := int64(max(n.Layout.Size, unit.MiB)) / 4
	for noted := int64(0); ; {
		frames, blocks, ended := l.out.next()
		size, err := 0, error(nil)
		var rested <-chan time.Time
		if blocks {
			now := time.Now()
			if rest := l.yielding.rest(now); rest > 0 {
				blocks, rested = false, time.After(rest)
			} else {
				l.yielding.went(now)
			}
		}
		switch {
		case ended:
			return nil
		case blocks && n.stored != nil && l.conn.SendsFiles():
			size, err = l.passOn(n, frames)
		case blocks:
			size, err = l.readOut(ctx, n, frames)
		case len(frames) > 0:
			err = l.conn.WriteFrames(frames)
		default:
			select {
			case <-l.out.wake:
			case <-rested:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		if err != nil {
			return err
		}
		if sent := l.sent.Add(int64(size)); sent-noted >= much {
			noted = sent
			n.post(evSent{l})
		}
	}
}

// readOut writes frames and the next block, if there still is one, through a buffer. size is the block's; zero: there was none, our disk does not give
// it, or no buffer is free and there are frames, which do not wait until other peers have taken theirs.
func (l *link) readOut(ctx context.Context, n *node, frames []peer.Frame) (size int, err error) {
	buf := n.Send.Try()
	if buf == nil && len(frames) == 0 {
		if buf, err = n.Send.Get(ctx); err != nil {
			return 0, err
		}
	}
	if buf != nil {
		defer n.Send.Put(buf)
		if r, ok := l.out.block(); ok {
			off, length := blockSpan(n.Layout, r.Piece, r.Lo)
			if _, err := n.File.ReadAt(buf[:length], off); err != nil && !errors.Is(err, io.EOF) { // the object's end may be the file's
				n.post(evBroken{sendError(r, err)})
			} else {
				size = length
				frames = append(frames, peer.Frame{Kind: kindBlock, Payload: appendBlockHeader(nil, blockHeader{r.Piece, r.Lo}), Bulk: buf[:size]})
			}
		}
	}
	return size, l.conn.WriteFrames(frames)
}

// passOn is readOut from the file itself.
func (l *link) passOn(n *node, frames []peer.Frame) (size int, err error) {
	r, ok := l.out.block()
	if !ok {
		return 0, l.conn.WriteFrames(frames)
	}
	off, size := blockSpan(n.Layout, r.Piece, r.Lo)
	err = l.conn.WriteFile(frames, kindBlock, appendBlockHeader(nil, blockHeader{r.Piece, r.Lo}), n.stored, off, size)
	if errors.Is(err, peer.ErrFile) {
		n.post(evBroken{sendError(r, err)})
	}
	return size, err
}

func sendError(r exchange.Request, err error) error {
	return fmt.Errorf("read block %d of piece %d to send it: %w", r.Lo, r.Piece, err)
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
	if _, err := io.ReadFull(counting{l.conn, &n.arrived}, buf[:length]); err != nil {
		return err
	}
	wanted := n.asm.claim(l.rank, h.Piece, h.Block) // only now: who is slow must not keep others from it
	ev := evBlock{link: l, piece: h.Piece, block: h.Block, n: length, wanted: wanted}
	if wanted {
		sum := n.algorithm(h.Piece).Update(0, buf[:length])
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
