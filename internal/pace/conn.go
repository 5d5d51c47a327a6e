package pace

import (
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// Conn returns c with its reads at the rate of the slowest of in and its
// writes at that of the slowest of out; c itself if none of them has a limit.
// Writes are cut into bursts, and what Write returns counts what has gone.
//
// What a Read delivers it delivers at once, and the next one waits for it: a
// short frame is not late because it came over a slow link. Deadlines end the
// waiting as they end the reading and writing, with os.ErrDeadlineExceeded;
// Close ends it with net.ErrClosed.
func Conn(c net.Conn, in, out []*Limiter) net.Conn {
	in, out = present(in), present(out)
	if len(in) == 0 && len(out) == 0 {
		return c
	}
	return &conn{
		Conn:   c,
		closed: make(chan struct{}),
		read:   newLane(in),
		write:  newLane(out),
	}
}

type conn struct {
	net.Conn
	closed      chan struct{}
	close       sync.Once
	read, write *lane
}

// lane is one direction of a conn.
type lane struct {
	ls    []*Limiter
	burst int           // bytes at once at most
	turn  chan struct{} // holds a token while someone reads or writes; not a mutex, which synctest cannot see through

	due time.Time // when what was moved last has been paid for; only whoever has the turn looks

	mu       sync.Mutex    // guards what follows
	deadline time.Time     // zero: none
	moved    chan struct{} // closed when deadline is set anew
}

func newLane(ls []*Limiter) *lane {
	return &lane{ls: ls, burst: burst(ls), turn: make(chan struct{}, 1), moved: make(chan struct{})}
}

func (c *conn) Read(p []byte) (int, error) {
	l := c.read
	if len(l.ls) == 0 || len(p) == 0 {
		return c.Conn.Read(p)
	}
	if err := c.take(l); err != nil {
		return 0, err
	}
	defer l.give()
	if err := c.sleep(l); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p[:min(len(p), l.burst)])
	if n > 0 {
		l.charge(n)
	}
	return n, err
}

func (c *conn) Write(p []byte) (n int, err error) {
	l := c.write
	if len(l.ls) == 0 || len(p) == 0 {
		return c.Conn.Write(p)
	}
	if err := c.take(l); err != nil {
		return 0, err
	}
	defer l.give()
	for n < len(p) {
		part := p[n:min(n+min(len(p)-n, l.burst), len(p))]
		if !l.due.After(time.Now()) { // else: still owing for one that a deadline cut short
			l.charge(len(part))
		}
		if err := c.sleep(l); err != nil {
			return n, err
		}
		m, err := c.Conn.Write(part)
		n += m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func (c *conn) Close() error {
	c.close.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// CloseWrite shuts down the writing side where the connection below can.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return fmt.Errorf("close write of %T: not supported", c.Conn)
}

// NetConn is the connection below.
func (c *conn) NetConn() net.Conn { return c.Conn }

func (c *conn) SetDeadline(t time.Time) error {
	c.read.setDeadline(t)
	c.write.setDeadline(t)
	return c.Conn.SetDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.read.setDeadline(t)
	return c.Conn.SetReadDeadline(t)
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.write.setDeadline(t)
	return c.Conn.SetWriteDeadline(t)
}

func (l *lane) setDeadline(t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline = t
	close(l.moved)
	l.moved = make(chan struct{})
}

// charge books n ≤ burst bytes on every limiter; due is then the time of the
// slowest of them.
func (l *lane) charge(n int) {
	now := time.Now()
	l.due = now
	for _, lim := range l.ls {
		if at := now.Add(lim.bucket.ReserveN(now, n).DelayFrom(now)); at.After(l.due) {
			l.due = at
		}
	}
}

// take waits for the turn on l.
func (c *conn) take(l *lane) error {
	return c.await(l, l.turn, time.Time{})
}

func (l *lane) give() { <-l.turn }

// sleep waits until l.due.
func (c *conn) sleep(l *lane) error {
	return c.await(l, nil, l.due)
}

// await waits until turn accepts a token or, turn being nil, until due. The
// connection's closing and the lane's deadline, which may be moved meanwhile,
// end it.
func (c *conn) await(l *lane, turn chan<- struct{}, due time.Time) error {
	for {
		l.mu.Lock()
		deadline, moved := l.deadline, l.moved
		l.mu.Unlock()
		now := time.Now()
		select {
		case <-c.closed:
			return net.ErrClosed
		default:
		}
		if !deadline.IsZero() && !deadline.After(now) {
			return os.ErrDeadlineExceeded
		}
		if turn == nil && !due.After(now) {
			return nil
		}
		var alarm <-chan time.Time
		until := due
		if turn != nil || !deadline.IsZero() && deadline.Before(due) {
			until = deadline
		}
		stop := func() bool { return false }
		if !until.IsZero() {
			timer := time.NewTimer(until.Sub(now))
			alarm, stop = timer.C, timer.Stop
		}
		select {
		case turn <- struct{}{}:
			stop()
			return nil
		case <-alarm: // looked at above
		case <-moved:
		case <-c.closed:
		}
		stop()
	}
}
