package peer

import (
	"net"
	"slices"
	"sync"
)

// door counts the handshakes under way by the host that calls, so that one
// host cannot keep all others out. A host that has reached its share loses its
// oldest connection on which nothing has been said: those who speak come in
// however many of their neighbours only hold the line.
type door struct {
	mu    sync.Mutex // guards what follows
	hosts map[string]*host
}

type host struct {
	under  int       // handshakes under way, those of closed connections included until they know it
	silent []*caller // of these, no ClientHello yet; oldest first
}

// caller is a connection in its handshake.
type caller struct {
	host string
	raw  net.Conn
}

// enter says whether raw may begin its handshake. If so, leave must follow.
func (d *door) enter(raw net.Conn) (*caller, bool) {
	c := &caller{hostOf(raw.RemoteAddr()), raw}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hosts == nil {
		d.hosts = map[string]*host{}
	}
	h := d.hosts[c.host]
	if h == nil {
		h = &host{}
		d.hosts[c.host] = h
	}
	if h.under >= maxHandshakesHost {
		if len(h.silent) == 0 {
			return nil, false
		}
		h.silent[0].raw.Close()
		h.silent = slices.Delete(h.silent, 0, 1)
	}
	h.under++
	h.silent = append(h.silent, c)
	return c, true
}

// makeRoom closes the oldest silent connection of the host that has most of
// them, if there is one: many hosts that only hold the line do not keep out those who speak.
func (d *door) makeRoom() {
	d.mu.Lock()
	defer d.mu.Unlock()
	var most *host
	for _, h := range d.hosts {
		if most == nil || len(h.silent) > len(most.silent) {
			most = h
		}
	}
	if most != nil && len(most.silent) > 0 {
		most.silent[0].raw.Close()
		most.silent = slices.Delete(most.silent, 0, 1)
	}
}

// heard notes that c's ClientHello is there.
func (d *door) heard(c *caller) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hosts[c.host].speaks(c)
}

// leave ends c's handshake, whatever its outcome.
func (d *door) leave(c *caller) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.hosts[c.host]
	h.speaks(c)
	if h.under--; h.under == 0 {
		delete(d.hosts, c.host)
	}
}

func (h *host) speaks(c *caller) {
	if i := slices.Index(h.silent, c); i >= 0 {
		h.silent = slices.Delete(h.silent, i, i+1)
	}
}

// hostOf is what counts as one host: an IPv4 address, or the 64 bits of an IPv6
// address below which a host chooses as it likes (RFC 4291, section 2.5.4).
func hostOf(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return a.String()
	}
	ip := tcp.AddrPort().Addr().Unmap()
	if ip.Is4() {
		return ip.String()
	}
	p, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return a.String()
	}
	return p.String()
}
