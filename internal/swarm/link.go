package swarm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/internal/peer"
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
