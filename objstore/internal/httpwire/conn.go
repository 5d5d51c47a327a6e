package httpwire

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/internal/wake"
)

// conn is a connection to a server. While a body of known length comes over it, its reader sleeps until much
// of it is there: as much as comes in some tens of milliseconds, so that whoever watches it get on sees that it does.
type conn struct {
	*net.TCPConn
	socket *wake.Socket
	came   atomic.Int64 // bytes since the last request, headers included
	due    atomic.Int64 // how many are to come for certain
	most   int          // to be waited for at a time; who reads has it
}

const (
	leastAwaited = 4 << 10
	mostAwaited  = bufferSize
	quick        = 10 * time.Millisecond // what comes within it could be more
	slow         = 40 * time.Millisecond // what takes longer should be less
)

// awaiting makes a conn of c if it is a TCP socket.
func awaiting(c net.Conn) net.Conn {
	s := wake.Of(c)
	if s == nil {
		return c
	}
	return &conn{TCPConn: c.(*net.TCPConn), socket: s, most: leastAwaited}
}

func (c *conn) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	due := c.due.Load()
	least := max(1, min(due, int64(c.most)))
	began := time.Now()
	n, waited, err := c.socket.Read(int(least), func() []byte { return p }, func() {})
	c.came.Add(int64(n))
	if c.due.Add(-int64(n)); waited && due > 0 {
		switch took := time.Since(began); {
		case took < quick:
			c.most = min(2*c.most, mostAwaited)
		case took > slow:
			c.most = max(c.most/2, 1)
		}
	}
	return n, err
}

// begin notes that a request is about to go out.
func (c *conn) begin() {
	c.due.Store(0)
	c.came.Store(0)
}

// expect notes that the reply has a body of n bytes. As nobody has counted those of the header, some more are to come
// than are due.
func (c *conn) expect(n int64) { c.due.Store(n - c.came.Load()) }

// below is the conn that a transport has given out, over TLS or not; nil if there is none.
func below(c net.Conn) *conn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	k, _ := c.(*conn)
	return k
}
