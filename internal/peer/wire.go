package peer

import (
	"net"
	"sync"
)

const (
	gatherBytes = 288 << 10 // holds the records of the longest frame
	readAhead   = 128 << 10
)

// gatherBufs are shared by all connections: only those that write hold one.
var gatherBufs = sync.Pool{New: func() any { b := make([]byte, 0, gatherBytes); return &b }}

// wire lies between TLS and the socket, and makes large writes and reads of
// the many small ones of crypto/tls. It costs a copy each way and saves more:
// README.md has the numbers.
type wire struct {
	net.Conn

	mu  sync.Mutex // guards held; TLS may write by itself while a frame is gathered
	out *[]byte    // records of the frame being gathered; nil: writes go straight through

	ahead bool   // reads ahead: not before the caller is known, since the buffer is large
	in    []byte // read ahead, not yet asked for
	rbuf  []byte // what in lies in
}

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
		_, err = w.Conn.Write(*buf)
	}
	*buf = (*buf)[:0]
	gatherBufs.Put(buf)
	return err
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.out == nil {
		return w.Conn.Write(p)
	}
	if len(*w.out)+len(p) > cap(*w.out) {
		if _, err := w.Conn.Write(*w.out); err != nil {
			return 0, err
		}
		*w.out = (*w.out)[:0]
	}
	if len(p) > cap(*w.out) {
		return w.Conn.Write(p)
	}
	*w.out = append(*w.out, p...)
	return len(p), nil
}

// Read is called by one goroutine at a time.
func (w *wire) Read(p []byte) (int, error) {
	if len(w.in) == 0 {
		if !w.ahead || len(p) >= readAhead {
			return w.Conn.Read(p)
		}
		if w.rbuf == nil {
			w.rbuf = make([]byte, readAhead)
		}
		n, err := w.Conn.Read(w.rbuf)
		w.in = w.rbuf[:n]
		if n == 0 {
			return 0, err
		}
		// An error beside data comes again with the next read (io.Reader).
	}
	n := copy(p, w.in)
	w.in = w.in[n:]
	return n, nil
}

// CloseWrite tells the other end that nothing more comes, where the connection
// below can.
func (w *wire) CloseWrite() error {
	if half, ok := w.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
