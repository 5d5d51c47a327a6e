package peer

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"time"
)

// Plain TCP behind an authenticated handshake. Hellos and verdict go through TLS in any
// case; what changes is what follows, and neither end's TLS may have read any of it:
//
//	caller                        called
//	  ── hello ──────────────────> │   TLS
//	  <─ hello, welcome ────────── │   TLS: the last that it says before it has heard something plain
//	  ── ping ───────────────────> │   plain: the caller's TLS has read all there was, and reads no more
//	  <─ frames ─────────────────> │   plain
//
// Session tickets are off (package pki), so TLS says nothing by itself in between.

// dataProtocols are what we ask for when we dial, the best first.
func (p *Port) dataProtocols() []string {
	if p.o.Trusted {
		return []string{ProtocolPlain, ProtocolData}
	}
	return []string{ProtocolData}
}

// settle takes TLS off a connection whose ends agreed on that, behind the
// verdict. Who was told to trust the network hears once of each peer what became of it.
func (p *Port) settle(c *Conn, t *tls.Conn, caller bool) error {
	plain := t.ConnectionState().NegotiatedProtocol == ProtocolPlain
	p.noteSecurity(c.name, plain)
	if !plain {
		return nil
	}
	for _, token := range []chan struct{}{c.writing, c.reading} {
		select {
		case token <- struct{}{}:
			defer func() { <-token }()
		case <-c.closed:
			return net.ErrClosed
		}
	}
	w := c.wire
	w.SetDeadline(time.Now().Add(handshakeTimeout))
	ping := header{Kind: KindPing}.Append(nil)
	if caller {
		if _, err := w.Write(ping); err != nil {
			return err
		}
	} else {
		var b [headerBytes]byte
		if _, err := io.ReadFull(w, b[:]); err != nil {
			return fmt.Errorf("wait for the first plain frame: %w", err)
		}
		if h, _, err := parseHeader(b[:]); err != nil || h.Kind != KindPing {
			return fmt.Errorf("the first plain frame is none that was agreed on (kind %d): %w", b[0], errNotFreshet)
		}
	}
	c.c = w
	c.plain.Store(true)
	return w.SetDeadline(time.Time{})
}

// Plain says whether the connection's frames travel without encryption.
func (c *Conn) Plain() bool { return c.plain.Load() }

// writePlain writes frames as they are: their small parts in one
// piece, large ones from where they lie. It needs the writing token.
func (c *Conn) writePlain(parts [][]byte) error {
	b := c.scratch[:0]
	var out net.Buffers
	for _, p := range parts {
		if len(p) <= cap(b)-len(b) {
			b = append(b, p...)
			continue
		}
		if len(b) > 0 {
			out = append(out, b)
		}
		out = append(out, p)
		b = b[len(b):]
	}
	if len(b) > 0 {
		out = append(out, b)
	}
	_, err := out.WriteTo(c.wire.Conn) // one writev where nothing paces it
	return err
}

// ErrFile says that a file did not give what was to be sent of it.
var ErrFile = errors.New("the file does not give what was written to it")

// SendsFiles says whether WriteFile can be used.
func (c *Conn) SendsFiles() bool {
	return canSendFile && c.Plain() && c.wire.socket != nil && !c.noFiles.Load()
}

// WriteFile is WriteFrames with one frame more, whose payload is head and behind it n bytes of a file from off, which
// the system takes from its cache to the socket. That is for connections that SendsFiles.
func (c *Conn) WriteFile(frames []Frame, kind byte, head []byte, file syscall.RawConn, off int64, n int) error {
	return c.write(func() error {
		tcp, ok := c.wire.Conn.(*net.TCPConn)
		if !ok {
			return errors.ErrUnsupported
		}
		socket, err := tcp.SyscallConn()
		if err != nil {
			return err
		}
		b := c.scratch[:0]
		c.heads = slices.Grow(c.heads[:0], headerBytes*(1+len(frames)))
		for _, f := range frames {
			b = append(append(append(b, c.head(f.Kind, len(f.Payload)+len(f.Bulk))...), f.Payload...), f.Bulk...)
		}
		b = append(append(b, c.head(kind, len(head)+n)...), head...)
		if err := c.c.SetWriteDeadline(time.Now().Add(frameTime(len(b) + n))); err != nil {
			return err
		}
		defer func() { c.wrote.Store(int64(c.clock())) }()
		if err := sendMore(socket, b); err != nil {
			return err
		}
		sent, err := sendFile(socket, file, off, n)
		if sent == 0 && (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS)) { // there are such file systems
			c.noFiles.Store(true)
			err = copyFile(tcp, file, off, n)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EIO) {
			err = fmt.Errorf("%w: %w", ErrFile, err)
		}
		return err
	})
}

// copyFile is sendFile through a buffer.
func copyFile(w io.Writer, file syscall.RawConn, off int64, n int) (err error) {
	b := make([]byte, n)
	gone := file.Control(func(fd uintptr) {
		for read := 0; read < n && err == nil; {
			var k int
			k, err = syscall.Pread(int(fd), b[read:], off+int64(read))
			switch {
			case err == syscall.EINTR:
				err = nil
			case err == nil && k == 0:
				err = io.ErrUnexpectedEOF
			case err == nil:
				read += k
			}
		}
	})
	if err == nil {
		err = gone
	}
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

// noteSecurity logs what a peer's connections are like, when that is new.
func (p *Port) noteSecurity(name string, plain bool) {
	if !p.o.Trusted {
		return
	}
	p.mu.Lock()
	was, known := p.security[name]
	p.security[name] = plain
	p.mu.Unlock()
	switch {
	case known && was == plain:
	case plain:
		p.o.Log.Info("data travels in plain TCP: both ends were told to trust the network", "node", name)
	default:
		p.o.Log.Info("data travels in TLS: the other end was not told to trust the network", "node", name)
	}
}
