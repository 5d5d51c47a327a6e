package peer

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/freshet/freshet/internal/pki"
	"github.com/freshet/freshet/piece"
)

// cpu is the user and system time of this process, which runs both ends.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFrames moves frames of one block over loopback, both ends in this
// process. Under "plain-tls" nothing lies between crypto/tls and the socket; "trusted" is
// what --security trusted makes of a connection.
func BenchmarkFrames(b *testing.B) {
	for _, way := range []string{"tls", "plain-tls", "trusted"} {
		for _, conns := range []int{1, 4} {
			b.Run(fmt.Sprintf("%s/conns=%d", way, conns), func(b *testing.B) { benchFrames(b, way, conns, func(uintptr) {}) })
		}
	}
}

// benchFrames lets dialed see each socket before it connects.
func benchFrames(b *testing.B, way string, conns int, dialed func(fd uintptr)) {
	ca, err := pki.NewAuthority()
	if err != nil {
		b.Fatal(err)
	}
	creds := func(name string) *pki.Credentials {
		c, err := ca.NewCredentials(pki.Node, name)
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	ln, err := (&net.ListenConfig{Control: congestionControl("")}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	server, client := creds("a").ServerTLS(ProtocolData), creds("b").ClientTLS(pki.Node, "a", ProtocolData)
	server.DynamicRecordSizingDisabled, client.DynamicRecordSizingDisabled = true, true
	end := func(raw net.Conn, wrap func(net.Conn) *tls.Conn) *Conn {
		w := newWire(raw)
		switch way {
		case "tls":
			return newConn(wrap(w), w, "x", "j")
		case "plain-tls": // frames are gathered by a wire that nothing goes through
			return newConn(wrap(raw), &wire{Conn: raw}, "x", "j")
		}
		c := newConn(w, w, "x", "j")
		c.plain.Store(true)
		return c
	}

	sent := make(chan error, conns)
	received := make(chan error, conns)
	start := make(chan struct{})
	frames := (b.N + conns - 1) / conns
	var suite uint16
	for i := range conns {
		go func() {
			d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
				return c.Control(func(fd uintptr) { setCongestion(fd, DefaultCongestion); dialed(fd) })
			}}
			raw, err := d.DialContext(b.Context(), "tcp", ln.Addr().String())
			if err != nil {
				sent <- err
				return
			}
			c := end(raw, func(n net.Conn) *tls.Conn { return tls.Client(n, client) })
			block := make([]byte, piece.BlockSize)
			if t, ok := c.c.(*tls.Conn); ok {
				t.Handshake()
				if i == 0 {
					suite = t.ConnectionState().CipherSuite
				}
			}
			<-start
			var head [16]byte
			for range frames {
				if err := c.WriteFrame(7, head[:], block); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		raw, err := ln.Accept()
		if err != nil {
			b.Fatal(err)
		}
		c := end(raw, func(n net.Conn) *tls.Conn { return tls.Server(n, server) })
		if t, ok := c.c.(*tls.Conn); ok {
			if err := t.Handshake(); err != nil {
				b.Fatal(err)
			}
		}
		defer raw.Close()
		go func() {
			block := make([]byte, piece.BlockSize)
			var head [16]byte
			for range frames {
				if _, _, err := c.ReadFrame(); err != nil {
					received <- err
					return
				}
				io.ReadFull(c, head[:])
				if _, err := io.ReadFull(c, block); err != nil {
					received <- err
					return
				}
			}
			received <- nil
		}()
	}
	b.SetBytes(int64(piece.BlockSize))
	b.ResetTimer()
	began := cpu(b)
	close(start)
	for range conns {
		if err := <-sent; err != nil {
			b.Fatal(err)
		}
		if err := <-received; err != nil {
			b.Fatal(err)
		}
	}
	gb := float64(frames*conns) * float64(piece.BlockSize) / 1e9
	b.ReportMetric(gb*8/b.Elapsed().Seconds(), "Gbit/s")
	b.ReportMetric((cpu(b)-began).Seconds()/gb, "CPU-s/GB")
	if way == "tls" && conns == 1 {
		b.Logf("cipher suite %s", tls.CipherSuiteName(suite))
	}
}
