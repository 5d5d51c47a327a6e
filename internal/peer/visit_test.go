package peer

import (
	"context"
	"crypto/tls"
	"io"
	"testing"
	"time"

	"github.com/freshet/freshet/internal/pki"
)

// Where no certificate is needed, one caller has a bounded number of
// connections, whether it shows a certificate or not, others come in all the same, and
// a removed node does not with its own.
func TestVisits(t *testing.T) {
	ca := newAuthority(t)
	p := open(t, Options{Credentials: creds(t, ca, pki.Node, "ours")}, func(p *Port) {
		p.Handle(ProtocolHTTP, false, func(_ context.Context, c *tls.Conn, _ pki.Identity) {
			io.WriteString(c, "x")
			io.Copy(io.Discard, c) // until the caller leaves
		})
	})
	addr := p.Addr().String()
	visit := func(conf *tls.Config) (c *tls.Conn, served bool) {
		t.Helper()
		c, err := tls.Dial("tcp", addr, conf)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(20 * time.Second))
		b := make([]byte, 1)
		_, err = io.ReadFull(c, b)
		if err != nil {
			c.Close()
		}
		return c, err == nil
	}
	as := func(c *pki.Credentials) *tls.Config { return c.ClientTLS(pki.Node, "ours", ProtocolHTTP) }
	nobody := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{ProtocolHTTP}}

	removed := creds(t, ca, pki.Node, "removed")
	p.Revoke([]string{removed.Key()})
	if c, served := visit(as(removed)); served {
		c.Close()
		t.Error("a removed node was served")
	}
	greedy, monitor := as(creds(t, ca, pki.Node, "greedy")), as(creds(t, ca, pki.Monitor, "prometheus"))
	var held []*tls.Conn
	for _, tt := range []struct {
		who  string
		conf *tls.Config
		want int
	}{
		{"one node", greedy, maxVisits},
		{"who shows no certificate", nobody, maxStrangers},
		{"a monitor, beside them", monitor, maxVisits},
	} {
		served := 0
		for range tt.want + 20 {
			if c, ok := visit(tt.conf); ok {
				defer c.Close()
				held = append(held, c)
				served++
			}
		}
		if served != tt.want {
			t.Errorf("%s: %d connections were served at once, want %d", tt.who, served, tt.want)
		}
	}
	for _, c := range held {
		c.Close()
	}
	for _, conf := range []*tls.Config{greedy, nobody, monitor} {
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			c, served := visit(conf)
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
