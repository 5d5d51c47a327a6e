package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/internal/pki"
)

// nobody is a caller without a certificate.
var nobody = &tls.Config{InsecureSkipVerify: true, NextProtos: []string{ProtocolHTTP}}

// hosts is a listener whose callers seem to be from the host that is set.
type hosts struct {
	net.Listener
	now atomic.Pointer[string]
}

func (l *hosts) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return hosted{c, *l.now.Load()}, nil
}

// visited opens a port whose visitors have asked at once, or never ask. They are sent an "x", and what they send.
func visited(t *testing.T, ca *pki.Authority, o Options, asked bool) (*Port, func(host string, conf *tls.Config) (c *tls.Conn, served bool)) {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := &hosts{Listener: tcp}
	o.Credentials = creds(t, ca, pki.Node, "ours")
	p, err := New(ln, o)
	if err != nil {
		t.Fatal(err)
	}
	run(t, p, func(p *Port) {
		p.Handle(ProtocolHTTP, false, func(_ context.Context, c *tls.Conn, _ pki.Identity) {
			if asked {
				p.Asked(c)
			}
			io.WriteString(c, "x")
			io.Copy(c, c) // until the caller leaves
		})
	})
	return p, func(host string, conf *tls.Config) (*tls.Conn, bool) {
		t.Helper()
		ln.now.Store(&host)
		c, err := tls.Dial("tcp", tcp.Addr().String(), conf)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(20 * time.Second))
		_, err = io.ReadFull(c, make([]byte, 1))
		if err != nil {
			c.Close()
		}
		return c, err == nil
	}
}

// Where no certificate is needed, one caller has a bounded number of
// connections, whether it shows a certificate or not, others come in all the same, and
// a removed node does not with its own.
func TestVisits(t *testing.T) {
	ca := newAuthority(t)
	var log bytes.Buffer
	p, visit := visited(t, ca, Options{Log: slog.New(slog.NewTextHandler(&log, nil))}, true)
	as := func(c *pki.Credentials) *tls.Config { return c.ClientTLS(pki.Node, "ours", ProtocolHTTP) }

	removed := creds(t, ca, pki.Node, "removed")
	p.Revoke([]string{removed.Key()})
	if c, served := visit("10.0.0.1", as(removed)); served {
		c.Close()
		t.Error("a removed node was served")
	}
	greedy, monitor := as(creds(t, ca, pki.Node, "greedy")), as(creds(t, ca, pki.Monitor, "prometheus"))
	var held []*tls.Conn
	for _, tt := range []struct {
		who, host string
		conf      *tls.Config
		want      int
	}{
		{"one node", "10.0.0.1", greedy, maxVisits},
		{"who shows no certificate", "10.0.0.1", nobody, maxStrangersHost},
		{"another host", "10.0.0.2", nobody, maxStrangers - maxStrangersHost},
		{"a third one", "10.0.0.3", nobody, 0},
		{"a monitor, beside them", "10.0.0.1", monitor, maxVisits},
	} {
		served := 0
		for range tt.want + 20 {
			if c, ok := visit(tt.host, tt.conf); ok {
				held = append(held, c)
				served++
			}
		}
		if served != tt.want {
			t.Errorf("%s: %d connections were served at once, want %d", tt.who, served, tt.want)
		}
	}
	if strings.Contains(log.String(), "without a certificate") {
		t.Errorf("who shows no certificate fills the log:\n%.1000s", log.String())
	}
	for _, who := range []string{"removed", "greedy", "prometheus"} {
		if !strings.Contains(log.String(), who) {
			t.Errorf("that %s was refused is not in the log:\n%.1000s", who, log.String())
		}
	}
	for _, c := range held {
		c.Close()
	}
	for _, conf := range []*tls.Config{greedy, nobody, monitor} {
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			c, served := visit("10.0.0.3", conf)
			if served {
				c.Close()
				break
			}
			if time.Now().After(end) {
				t.Fatal("places of connections that were closed are not free")
			}
		}
	}
}

// Who has not asked for anything makes room: of one host that has its share for the next of its own, of the host with most of them for everybody.
func TestVisitsMakeRoom(t *testing.T) {
	_, visit := visited(t, newAuthority(t), Options{Log: slog.New(slog.DiscardHandler)}, false)
	come := func(host string, n int) (all []*tls.Conn) {
		t.Helper()
		for range n {
			c, served := visit(host, nobody)
			if !served {
				t.Fatalf("a caller from %s is refused", host)
			}
			all = append(all, c)
		}
		return all
	}
	wantOpen := func(what string, c *tls.Conn, want bool) {
		t.Helper()
		c.Write([]byte("y"))
		if _, err := io.ReadFull(c, make([]byte, 1)); (err == nil) != want {
			t.Errorf("%s: open %v (%v), want %v", what, err == nil, err, want)
		}
	}
	greedy := come("10.0.0.1", maxStrangersHost+2)
	wantOpen("the second of one host", greedy[1], false)
	wantOpen("its third", greedy[2], true)
	wantOpen("its last", greedy[len(greedy)-1], true)
	early := come("10.0.0.2", 1)
	come("10.0.0.3", maxStrangers-maxStrangersHost-1)
	wantOpen("the third, when all places are taken", greedy[2], true)
	late := come("10.0.0.2", 1)
	wantOpen("the third, when somebody else has come", greedy[2], false)
	wantOpen("the fourth", greedy[3], true)
	wantOpen("the first of another host", early[0], true)
	wantOpen("the last that came", late[0], true)
}
