package peer

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Conn is one neighbour in one job. Frames may be written by several
// goroutines at once; one goroutine reads. Whoever got it from Port closes it.
//
// Semaphores of one token stand where one would expect mutexes: what waits for
// them is waiting for the network, and Close has to be able to end that.
type Conn struct {
	name, job string
	c         net.Conn // TLS over wire; wire itself once settle has agreed on that. Changes under both tokens below
	wire      *wire

	writing chan struct{} // holds a token while a frame is written
	scratch []byte        // one TLS record, for a frame's beginning; whoever writes has it
	heads   []byte        // likewise, of the frames being written
	parts   [][]byte      // likewise, what they are made of
	began   time.Time     // a time to count from
	wrote   atomic.Int64  // when the last frame was written, by clock, in nanoseconds
	heard   atomic.Int64  // when anything last came, likewise

	reading chan struct{} // holds a token while a read is under way
	left    int           // of the payload that is being read
	until   time.Time     // when that has to have arrived; zero: not begun
	by      time.Time     // the deadline in force, while it is being read

	plain   atomic.Bool // c is wire
	noFiles atomic.Bool // its system does not take a file to a socket
	key     string      // of the other end's certificate
	place   uint64      // when it came, among those of port; guarded by its mutex; zero: we called, or it waits for its job
	port    *Port       // that has the connection on its list; nil: none
	removed atomic.Bool // the other end was removed from the cluster, which is why this is closed

	closing sync.Mutex    // guards the closing of closed, and that no pinger starts after it
	closed  chan struct{} // no more reads and writes
	pinger  sync.WaitGroup
}

func newConn(c net.Conn, w *wire, name, job string) *Conn {
	w.ahead = true
	return &Conn{
		name: name, job: job, c: c, wire: w,
		writing: make(chan struct{}, 1), reading: make(chan struct{}, 1), closed: make(chan struct{}),
		scratch: make([]byte, 0, recordBytes), began: time.Now(),
	}
}

// recordBytes is the largest payload of a TLS record (RFC 8446, section 5.1).
const recordBytes = 16 << 10

// Name is the name of the node at the other end, as its certificate says.
func (c *Conn) Name() string { return c.name }

// Job is the job that the connection belongs to.
func (c *Conn) Job() string { return c.job }

// RemoteAddr is the address of the other end.
func (c *Conn) RemoteAddr() net.Addr { return c.c.RemoteAddr() }

// Quiet says whether nothing has come from the other end for so long that its pings
// stay out, too. That is a suspicion only: after 20 s reads fail.
func (c *Conn) Quiet() bool {
	return c.clock()-time.Duration(c.heard.Load()) > quiet
}

// clock is how long there has been this connection, by a clock that nobody sets, as somebody may the machine's.
func (c *Conn) clock() time.Duration { return time.Since(c.began) }

// start begins to keep the connection alive.
func (c *Conn) start() {
	now := int64(c.clock())
	c.wrote.Store(now)
	c.heard.Store(now)
	c.closing.Lock()
	defer c.closing.Unlock()
	select {
	case <-c.closed:
	default:
		c.pinger.Go(c.ping)
	}
}

// ping writes a ping whenever nothing else was written for a while. An error
// ends it: the reader will see that the connection is gone.
func (c *Conn) ping() {
	tick := time.NewTimer(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.closed:
			return
		case <-tick.C:
		}
		idle := c.clock() - time.Duration(c.wrote.Load())
		if idle >= pingEvery {
			if c.WriteFrame(KindPing) != nil {
				return
			}
			idle = 0
		}
		tick.Reset(pingEvery - idle)
	}
}

// Frame is one that is written together with others. Its payload is Payload and, behind it, Bulk, which is
// not copied on its way.
type Frame struct {
	Kind    byte
	Payload []byte
	Bulk    []byte
}

// WriteFrames writes frames one after the other, in as few writes as they fit in. It is as WriteFrame otherwise.
func (c *Conn) WriteFrames(frames []Frame) error {
	if len(frames) == 0 {
		return nil
	}
	return c.write(func() error {
		c.heads = slices.Grow(c.heads[:0], headerBytes*len(frames)) // once: parts point into it
		parts, n := c.parts[:0], 0
		for _, f := range frames {
			h := c.head(f.Kind, len(f.Payload)+len(f.Bulk))
			parts = append(parts, h, f.Payload, f.Bulk)
			n += len(h) + len(f.Payload) + len(f.Bulk)
		}
		return c.writeParts(parts, n)
	})
}

// WriteFrame writes a frame whose payload is parts, one after the other. It
// returns when all of it was handed to the system, or after an error, which
// ends the connection; the error names the neighbour. A payload of more than
// MaxFrame bytes panics.
func (c *Conn) WriteFrame(kind byte, parts ...[]byte) error {
	return c.write(func() error {
		n := 0
		for _, p := range parts {
			n += len(p)
		}
		c.heads = c.heads[:0]
		return c.writeParts(append(append(c.parts[:0], c.head(kind, n)), parts...), headerBytes+n)
	})
}

// head appends a frame's header to c.heads, and returns it. It needs the writing token.
func (c *Conn) head(kind byte, n int) []byte {
	if n > MaxFrame {
		panic(fmt.Sprintf("peer: frame of %d bytes, at most %d are allowed", n, MaxFrame))
	}
	at := len(c.heads)
	c.heads = header{Kind: kind, Len: n}.Append(c.heads)
	return c.heads[at:]
}

// write calls f with the writing token.
func (c *Conn) write(f func() error) error {
	select {
	case c.writing <- struct{}{}:
	case <-c.closed:
		return c.wrap("write to", c.cause())
	}
	defer func() { <-c.writing }()
	select { // both may have been ready
	case <-c.closed:
		return c.wrap("write to", c.cause())
	default:
	}
	if err := f(); err != nil {
		c.abort()
		return c.wrap("write to", err)
	}
	return nil
}

// writeParts writes n bytes of frames; it needs the writing token. Small parts, and the beginning of a
// large one, are copied together to fill a TLS record; the rest of a large one
// is encrypted from where it lies.
func (c *Conn) writeParts(parts [][]byte, n int) error {
	c.parts = parts
	defer clear(parts) // so that nothing is kept that others go on with
	if err := c.c.SetWriteDeadline(time.Now().Add(frameTime(n))); err != nil {
		return err
	}
	defer func() { c.wrote.Store(int64(c.clock())) }()
	if c.Plain() {
		return c.writePlain(parts)
	}
	c.wire.hold()
	b := c.scratch[:0]
	var err error
	for _, p := range parts {
		for len(p) > 0 && err == nil {
			if len(b) == 0 && len(p) >= recordBytes {
				whole := len(p) &^ (recordBytes - 1)
				_, err = c.c.Write(p[:whole])
				p = p[whole:]
				continue
			}
			m := min(len(p), recordBytes-len(b))
			b = append(b, p[:m]...)
			p = p[m:]
			if len(b) == recordBytes {
				_, err = c.c.Write(b)
				b = b[:0]
			}
		}
	}
	if len(b) > 0 && err == nil {
		_, err = c.c.Write(b)
	}
	if ferr := c.wire.flush(); err == nil {
		err = ferr
	}
	return err
}

// ReadFrame reads the header of the next frame: its kind and the length of its
// payload, at most MaxFrame. All of the payload is then to be read from c
// before the next ReadFrame, which panics otherwise. Pings are not returned.
//
// Errors name the neighbour. It is a *Refused if the neighbour closed and said
// why, io.EOF if it closed without a word, os.ErrDeadlineExceeded if it was
// silent for 20 s, ErrRemoved if this end was closed because the neighbour was
// removed from the cluster, and net.ErrClosed if it was closed otherwise.
func (c *Conn) ReadFrame() (kind byte, n int, err error) {
	for {
		h, err := c.readHeader()
		if err != nil {
			return 0, 0, c.wrap("read from", err)
		}
		switch h.Kind {
		case KindPing:
		case kindRefusal:
			return 0, 0, c.readRefusal(h.Len)
		default:
			return h.Kind, h.Len, nil
		}
	}
}

func (c *Conn) readHeader() (h header, err error) {
	if c.left > 0 {
		panic(fmt.Sprintf("peer: ReadFrame with %d bytes of the last frame unread", c.left))
	}
	if err := c.lockReads(); err != nil {
		return header{}, err
	}
	defer func() { <-c.reading }()
	c.wire.due = 0
	var b [headerBytes]byte
	if err := c.readBy(time.Now().Add(silence), b[:]); err != nil {
		return header{}, err
	}
	h, _, err = parseHeader(b[:])
	c.left, c.until = h.Len, time.Time{}
	c.heard.Store(int64(c.clock()))
	return h, err
}

// readRefusal reads why the other end closes.
func (c *Conn) readRefusal(n int) error {
	b := make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		return err
	}
	code, text, err := parseRefusal(b)
	if err != nil {
		return c.wrap("read from", err)
	}
	return &Refused{Peer: c.name, Code: code, Text: Printable(text, maxText)}
}

// Read reads from the payload of the frame that ReadFrame announced, and
// returns io.EOF at its end. Its time begins with the first Read: a reader
// that waits for a free block beforehand does no harm.
func (c *Conn) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	if err := c.lockReads(); err != nil {
		return 0, c.wrap("read from", err)
	}
	defer func() { <-c.reading }()
	if err := c.extend(time.Now()); err != nil {
		return 0, c.wrap("read from", err)
	}
	c.wire.due = c.left
	if !c.Plain() {
		c.wire.due -= recordBytes // of it at most lies in TLS, as the part of a record that lacks the rest
	}
	n, err := c.c.Read(p[:min(len(p), c.left)])
	c.left -= n
	if n > 0 {
		c.heard.Store(int64(c.clock()))
		return n, nil // an error beside data comes again
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, c.wrap("read from", c.orClosed(err))
	}
	return 0, nil
}

// extend sets the deadline of a read within a frame. One that is good for nearly as long stays as it
// is: there are many reads to a frame.
func (c *Conn) extend(now time.Time) error {
	by := now.Add(silence)
	switch {
	case c.until.IsZero():
		c.until = now.Add(frameTime(c.left))
	case by.Sub(c.by) < silence/20 || !c.by.Before(c.until):
		return nil
	}
	if c.until.Before(by) {
		by = c.until
	}
	c.by = by
	return c.setReadDeadline(by)
}

// lockReads takes the reading token, or finds the connection closed.
func (c *Conn) lockReads() error {
	select {
	case c.reading <- struct{}{}:
	case <-c.closed:
		return c.cause()
	}
	select { // both may have been ready
	case <-c.closed:
		<-c.reading
		return c.cause()
	default:
		return nil
	}
}

// setReadDeadline does so unless the connection is closed: CloseWithReason
// marks it so, and then sets a deadline that must stay.
func (c *Conn) setReadDeadline(t time.Time) error {
	err := c.c.SetReadDeadline(t)
	select {
	case <-c.closed:
		return c.cause()
	default:
		return err
	}
}

// readBy fills b. An end of the stream before its first byte is io.EOF.
func (c *Conn) readBy(t time.Time, b []byte) error {
	if err := c.setReadDeadline(t); err != nil {
		return err
	}
	_, err := io.ReadFull(c.c, b)
	return c.orClosed(err)
}

// orClosed is net.ErrClosed in place of what a read says that was cut short
// because this end was closed.
func (c *Conn) orClosed(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-c.closed:
		return c.cause()
	default:
		return err
	}
}

func (c *Conn) wrap(what string, err error) error {
	switch {
	case err == io.EOF:
		return fmt.Errorf("%s closed the connection: %w", c.name, err)
	case what == "read from" && errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("nothing came from %s for %v: %w", c.name, silence, err)
	}
	return fmt.Errorf("%s %s: %w", what, c.name, err)
}

// shut marks the connection as closed, and says whether it was open.
func (c *Conn) shut() (first bool) {
	c.closing.Lock()
	defer c.closing.Unlock()
	select {
	case <-c.closed:
		return false
	default:
	}
	close(c.closed)
	if c.port != nil {
		c.port.strike(c)
	}
	return true
}

// cause is what reads and writes say when this end is closed.
func (c *Conn) cause() error {
	if c.removed.Load() {
		return ErrRemoved
	}
	return net.ErrClosed
}

// abort makes every read and write fail from now on.
func (c *Conn) abort() {
	c.shut()
	c.wire.Conn.Close()
}

// Close ends the connection without giving a reason, and what reads from it or
// writes to it. It may be called more than once.
func (c *Conn) Close() error {
	defer c.pinger.Wait()
	first := c.shut()
	if !first {
		c.wire.Conn.Close()
		return nil
	}
	select {
	case c.writing <- struct{}{}: // nobody writes: TLS can say goodbye
		defer func() { <-c.writing }()
		if err := c.c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return c.wrap("close connection to", err)
		}
		return nil
	default:
		return c.wire.Conn.Close()
	}
}

// CloseWithReason is Refuse with the code Other.
func (c *Conn) CloseWithReason(reason string) error { return c.Refuse(Other, reason) }

// Refuse closes the connection and tells the other end why: its reads return a
// *Refused. It takes a second, or some if
// the network is stuck.
func (c *Conn) Refuse(code Code, text string) error {
	defer c.pinger.Wait()
	deadline := time.NewTimer(lingerTimeout)
	defer deadline.Stop()
	select {
	case c.writing <- struct{}{}:
		defer func() { <-c.writing }()
	case <-c.closed:
		return nil
	case <-deadline.C: // somebody's frame does not get through, so would ours not
		return c.Close()
	}
	first := c.shut()
	defer c.wire.Conn.Close()
	if !first {
		return nil
	}
	// Whatever deadline somebody who has not noticed yet may set, it ends.
	force := time.AfterFunc(2*lingerTimeout, func() { c.wire.Conn.Close() })
	defer force.Stop()
	end := time.Now().Add(lingerTimeout)
	payload := appendRefusal(nil, code, text)
	frame := append(header{Kind: kindRefusal, Len: len(payload)}.Append(nil), payload...)
	c.c.SetWriteDeadline(end)
	if _, err := c.c.Write(frame); err != nil {
		return c.wrap("tell why the connection closes to", err)
	}
	if t, ok := c.c.(*tls.Conn); ok {
		t.CloseWrite()
	}
	c.wire.CloseWrite()
	// Closing a socket with unread data in it resets the connection, and what
	// we wrote would be lost. So the reader is sent away and we read on until
	// the other end closes.
	c.c.SetReadDeadline(time.Now().Add(-time.Second))
	c.reading <- struct{}{}
	c.c.SetReadDeadline(end)
	io.Copy(io.Discard, c.c)
	return nil
}
