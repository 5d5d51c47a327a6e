package peer

import (
	"net"
	"slices"
	"sync"
	"time"
)

// door counts the handshakes under way by the host that calls, so that one
// host cannot keep all others out. Who does not get on makes room for who comes:
// at once if it has said nothing, and after a second if it has. So a
// caller waits a second at most, however many hold the line or stall half way.
type door struct {
	mu    sync.Mutex // guards what follows
	hosts map[string]*host
}

type host struct {
	under  int       // handshakes under way, those of closed connections included until they know it
	silent []*caller // of these, no ClientHello yet; oldest first
	spoken []*caller // the others, in order of their ClientHello
}

// caller is a connection in its handshake.
type caller struct {
	host  string
	raw   net.Conn
	spoke time.Time // when its ClientHello came; zero: not yet
}

// stalled is how long after its ClientHello a handshake is let alone when others
// wait for its place. It takes two round trips, and a few milliseconds of processor time.
const stalled = time.Second

// enter says whether raw may have a handshake, which is counted from now on. If
// so, leave must follow. A host that has its share loses one that does not get on.
func (d *door) enter(raw net.Conn, now time.Time) (*caller, bool) {
	c := &caller{host: hostOf(raw.RemoteAddr()), raw: raw}
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
		switch {
		case len(h.silent) > 0:
			h.silent = dismiss(h.silent)
		case len(h.spoken) > 0 && now.Sub(h.spoken[0].spoke) >= stalled:
			h.spoken = dismiss(h.spoken)
		default:
			return nil, false
		}
	}
	h.under++
	return c, true
}

// begin notes that c's handshake begins.
func (d *door) begin(c *caller) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.hosts[c.host]
	h.silent = append(h.silent, c)
}

// makeRoom closes a connection that does not get on, if there is one: the oldest
// silent one of the host that has most of those; if all have spoken, the oldest
// of the host that has most under way. It returns when to ask again if that
// was of no use.
func (d *door) makeRoom(now time.Time) (again time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var silent, slow *host
	again = stalled
	for _, h := range d.hosts {
		if len(h.silent) > 0 && (silent == nil || len(h.silent) > len(silent.silent)) {
			silent = h
		}
		if len(h.spoken) == 0 {
			continue
		}
		if left := stalled - now.Sub(h.spoken[0].spoke); left > 0 {
			again = min(again, left)
		} else if slow == nil || h.under > slow.under {
			slow = h
		}
	}
	switch {
	case silent != nil:
		silent.silent = dismiss(silent.silent)
	case slow != nil:
		slow.spoken = dismiss(slow.spoken)
	default:
		return again
	}
	return stalled
}

// dismiss closes the first of l, and returns the others.
func dismiss(l []*caller) []*caller {
	l[0].raw.Close()
	return slices.Delete(l, 0, 1)
}

// heard notes that c's ClientHello is there.
func (d *door) heard(c *caller, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.hosts[c.host]
	h.silent = without(h.silent, c)
	c.spoke = now
	h.spoken = append(h.spoken, c)
}

// leave ends c's handshake, whatever its outcome.
func (d *door) leave(c *caller) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.hosts[c.host]
	h.silent, h.spoken = without(h.silent, c), without(h.spoken, c)
	if h.under--; h.under == 0 {
		delete(d.hosts, c.host)
	}
}

func without(l []*caller, c *caller) []*caller {
	if i := slices.Index(l, c); i >= 0 {
		return slices.Delete(l, i, i+1)
	}
	return l
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
