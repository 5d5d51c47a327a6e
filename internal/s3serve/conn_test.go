package s3serve

import (
	"net"
	"testing"

	"github.com/freshet/freshet/objstore/limit"
	"github.com/freshet/freshet/unit"
)

// caller is a connection that has been accepted from an address.
type caller struct {
	net.Conn
	from net.Addr
}

func (c caller) RemoteAddr() net.Addr { return c.from }

// callers accepts from these addresses, one after the other.
type callers struct {
	net.Listener
	from []string
}

func (c *callers) Accept() (net.Conn, error) {
	here, _ := net.Pipe()
	addr := &net.TCPAddr{IP: net.ParseIP(c.from[0]), Port: 1000 + len(c.from)}
	c.from = c.from[1:]
	return caller{here, addr}, nil
}

// TestClientRates: an address has one rate for a seed, whoever else comes and in whatever
// order, and another one for another seed.
func TestClientRates(t *testing.T) {
	rates := func(seed uint64, from ...string) map[string]unit.Bandwidth {
		g := &gate{Listener: &callers{from: from}, perClient: limit.Paper, open: map[*conn]struct{}{}, clients: map[string]*client{}}
		g.reseed(seed)
		got := map[string]unit.Bandwidth{}
		for range from {
			nc, err := g.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			c := nc.(*conn)
			if before, any := got[c.host]; any && before != c.client {
				t.Errorf("%s gets %v and then %v", c.host, before, c.client)
			}
			got[c.host] = c.client
		}
		return got
	}
	a := rates(1, "10.0.0.1", "10.0.0.2", "10.0.0.1")
	b := rates(1, "10.0.0.3", "10.0.0.2", "10.0.0.1")
	other := rates(2, "10.0.0.1")
	if a["10.0.0.1"] != b["10.0.0.1"] || a["10.0.0.2"] != b["10.0.0.2"] {
		t.Errorf("with one seed %v and %v", a, b)
	}
	if a["10.0.0.1"] == a["10.0.0.2"] || a["10.0.0.1"] == other["10.0.0.1"] {
		t.Errorf("all the same: %v, with another seed %v", a, other)
	}
}
