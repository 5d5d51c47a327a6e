package peer

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
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
