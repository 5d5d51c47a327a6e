package swarm

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/freshet/freshet/internal/pace"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/unit"
)

// star is a network in which each node has a link of its own to a switch, at one rate each
// way, and all its connections share it; its reading from the store included. Time is the bubble's, so what is measured on it
// is what the engine does, and nothing of the machine.
type star struct {
	up, down map[string]*pace.Limiter
	grain    int // bytes that a link carries at a time
	lanes    *sync.WaitGroup
	weak     string // connections to this node get less of the links that they share than others do
}

// onStar puts a swarm on a star before it runs: each node's link has its rates of up and down, and from the store
// it gets its rate of store, over all connections together. Links carry a sixteenth of a piece at a time, and half a piece waits in each socket.
func (b *bench) onStar(up, down, store func(node int) unit.Bandwidth) *star {
	s := &star{up: map[string]*pace.Limiter{}, down: map[string]*pace.Limiter{}, grain: int(b.configs[0].Layout.Piece / 16), lanes: &b.net.pipes}
	for i := range b.configs {
		s.up[nodeName(i)], s.down[nodeName(i)] = pace.New(up(i)), pace.New(down(i))
		b.configs[i].Store = client{b.configs[i].Store, []*pace.Limiter{pace.New(store(i)), s.down[nodeName(i)]}, s.grain}
	}
	b.net.pipe = s.pipe
	return s
}

// client is a store all of whose readers share what limits there are, and take turns.
type client struct {
	objstore.Store
	limits []*pace.Limiter
	grain  int // bytes that one reads at a time
}

func (c client) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	r, err := c.Store.ReadRange(ctx, o, off, n)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{pace.Reader(ctx, grained{r, c.grain}, c.limits...), r}, nil
}

// grained reads little at a time.
type grained struct {
	io.Reader
	grain int
}

func (g grained) Read(p []byte) (int, error) { return g.Reader.Read(p[:min(len(p), g.grain)]) }

func (s *star) pipe(a, b string) (net.Conn, net.Conn) {
	ab, ba := s.lane(b), s.lane(a)
	s.lanes.Go(func() { ab.run(s.up[a], s.down[b]) })
	s.lanes.Go(func() { ba.run(s.up[b], s.down[a]) })
	return &starConn{read: ba, write: ab, name: a}, &starConn{read: ab, write: ba, name: b}
}

func (s *star) lane(to string) *lane {
	l := newLane(s.grain)
	if to == s.weak {
		l.grain = l.grain * 7 / 8
	}
	return l
}

// lane is one direction of a connection: what was written, on its way through both links, and what can be read.
type lane struct {
	mu            sync.Mutex // guards the fields below
	changed       *sync.Cond
	sent, arrived []byte
	closed        bool // by either end
	late          bool // the reader's deadline is past

	grain, socket int // bytes that are carried at a time, and that each end holds at most
}

func newLane(grain int) *lane {
	l := &lane{grain: grain, socket: 8 * grain}
	l.changed = sync.NewCond(&l.mu)
	return l
}

func (l *lane) run(up, down *pace.Limiter) {
	for {
		l.mu.Lock()
		for len(l.sent) == 0 && !l.closed || len(l.arrived) >= l.socket && !l.closed {
			l.changed.Wait()
		}
		n := min(len(l.sent), l.grain)
		l.mu.Unlock()
		if n == 0 {
			return
		}
		up.Wait(context.Background(), n)
		down.Wait(context.Background(), n)
		l.mu.Lock()
		l.arrived = append(l.arrived, l.sent[:n]...)
		l.sent = append(l.sent[:0], l.sent[n:]...)
		l.changed.Broadcast()
		l.mu.Unlock()
	}
}

func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.changed.Broadcast()
}

// starConn is an end of a connection. Of deadlines it keeps those in the past.
type starConn struct {
	read, write *lane
	name        string
}

func (c *starConn) Read(p []byte) (int, error) {
	l := c.read
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.arrived) == 0 {
		switch {
		case l.late:
			return 0, os.ErrDeadlineExceeded
		case l.closed && len(l.sent) == 0:
			return 0, io.EOF
		}
		l.changed.Wait()
	}
	n := copy(p, l.arrived)
	l.arrived = append(l.arrived[:0], l.arrived[n:]...)
	l.changed.Broadcast()
	return n, nil
}

func (c *starConn) Write(p []byte) (n int, err error) {
	l := c.write
	l.mu.Lock()
	defer l.mu.Unlock()
	for n < len(p) {
		for len(l.sent) >= l.socket && !l.closed {
			l.changed.Wait()
		}
		if l.closed {
			return n, net.ErrClosed
		}
		k := min(len(p)-n, l.socket-len(l.sent))
		l.sent = append(l.sent, p[n:n+k]...)
		n += k
		l.changed.Broadcast()
	}
	return n, nil
}

func (c *starConn) Close() error {
	c.read.close()
	c.write.close()
	return nil
}

func (c *starConn) SetReadDeadline(t time.Time) error {
	c.read.mu.Lock()
	defer c.read.mu.Unlock()
	c.read.late = !t.IsZero() && !t.After(time.Now())
	c.read.changed.Broadcast()
	return nil
}

func (c *starConn) SetDeadline(t time.Time) error    { return c.SetReadDeadline(t) }
func (c *starConn) SetWriteDeadline(time.Time) error { return nil }
func (c *starConn) LocalAddr() net.Addr              { return &net.UnixAddr{Name: c.name, Net: "star"} }
func (c *starConn) RemoteAddr() net.Addr             { return &net.UnixAddr{Name: "other", Net: "star"} }
