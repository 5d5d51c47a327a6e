package peer

import (
	"net"
	"sync"

	"github.com/freshet/freshet/internal/wake"
)

const (
	gatherBytes = 288 << 10 // holds the records of the longest frame
	readAhead   = 128 << 10
	mostAwaited = readAhead // of what is due
)

// gatherBufs are shared by all connections: only those that write hold one.
var gatherBufs = sync.Pool{New: func() any { b := make([]byte, 0, gatherBytes); return &b }}

// aheadBufs are shared likewise: a connection holds one only while something
// lies in it, not while it waits. With hundreds of connections these few stay in the processor's cache, where
// one for each would not.
var aheadBufs = sync.Pool{New: func() any { b := make([]byte, readAhead); return &b }}

// wire lies between TLS and the socket, and makes large writes and reads of
// the many small ones of crypto/tls. It costs a copy each way and saves more:
// README.md has the numbers.
//
// Of a frame that has begun it is known how much there is still to come, so the reader is woken only when enough of
// it is there (package wake).
type wire struct {
	net.Conn

	mu  sync.Mutex // guards held; TLS may write by itself while a frame is gathered
	out *[]byte    // records of the frame being gathered; nil: writes go straight through

	ahead bool    // reads ahead: not before the caller is known, since the buffer is large
	due   int     // how much is to come for certain; who reads sets it. At most 1: nothing is known
	in    []byte  // read ahead, not yet asked for
	rbuf  *[]byte // what in lies in; nil: nothing was read ahead

	socket *wake.Socket // what it lies on; nil: none, as where rates are limited
}

func newWire(c net.Conn) *wire { return &wire{Conn: c, socket: wake.Of(c)} }

// hold starts to gather writes.
func (w *wire) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out = gatherBufs.Get().(*[]byte)
}

// flush sends what was gathered and ends the gathering.
func (w *wire) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	buf := w.out
	w.out = nil
	var err error
	if len(*buf) > 0 {
		_, err = w.send(*buf)
	}
	*buf = (*buf)[:0]
	gatherBufs.Put(buf)
	return err
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.out == nil {
		return w.send(p)
	}
	if len(*w.out)+len(p) > cap(*w.out) {
		if _, err := w.send(*w.out); err != nil {
			return 0, err
		}
		*w.out = (*w.out)[:0]
	}
	if len(p) > cap(*w.out) {
		return w.send(p)
	}
	*w.out = append(*w.out, p...)
	return len(p), nil
}

func (w *wire) send(p []byte) (int, error) {
	if w.socket == nil {
		return w.Conn.Write(p)
	}
	return w.socket.Write(p)
}

// Read is called by one goroutine at a time.
func (w *wire) Read(p []byte) (int, error) {
	if !w.ahead && len(w.in) == 0 {
		return w.Conn.Read(p)
	}
	if len(w.in) == 0 {
		if len(p) >= readAhead {
			return w.receive(p)
		}
		n, err := w.receive(nil)
		if n == 0 {
			w.release()
			return 0, err
		}
		w.in = (*w.rbuf)[:n] // an error beside data comes again with the next read (io.Reader)
	}
	n := copy(p, w.in)
	if w.in = w.in[n:]; len(w.in) == 0 {
		w.release()
	}
	return n, nil
}

// release gives the buffer back in which nothing lies any more.
func (w *wire) release() {
	if w.rbuf != nil {
		aheadBufs.Put(w.rbuf)
		w.rbuf = nil
	}
}

// receive reads into p, or into rbuf if p is nil, as much as there is, but waits for what is due, up to mostAwaited.
func (w *wire) receive(p []byte) (n int, err error) {
	own := p == nil
	take := func() []byte {
		if own && w.rbuf == nil {
			w.rbuf = aheadBufs.Get().(*[]byte)
			p = *w.rbuf
		}
		return p
	}
	if w.socket == nil {
		return w.Conn.Read(take())
	}
	n, _, err = w.socket.Read(max(1, min(w.due, mostAwaited)), take, func() {
		if own {
			w.release()
		}
	})
	return n, err
}

// CloseWrite tells the other end that nothing more comes, where the connection
// below can.
func (w *wire) CloseWrite() error {
	if half, ok := w.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
