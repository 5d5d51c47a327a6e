package peer

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"

	"github.com/freshet/freshet/internal/pki"
)

const (
	maxStrangers     = 256 // visits without a certificate, all together
	maxStrangersHost = 128 // of these from one host, which may run 64 nodes that all join at once
	maxVisits        = 16  // of one holder of a certificate
)

// A visit is a connection of a protocol that needs no certificate. Whoever
// shows one all the same is counted by the name in it, so that no caller takes
// the places of others, and who was removed from the cluster is not let in with it.
// Others are counted by the host that calls, and one that has not asked for anything yet makes room for who comes.
type visit struct {
	conn  *tls.Conn
	who   pki.Identity
	host  string // of a stranger; "": who shows a certificate
	asked bool
}

// visit counts a connection from now on, or refuses to.
func (p *Port) visit(c *tls.Conn, who pki.Identity, key string) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if who.Role == pki.Node && p.revoked[key] { // others are told what became of theirs
		return nil, ErrRemoved
	}
	v := &visit{conn: c, who: who}
	if who == (pki.Identity{}) {
		v.host = hostOf(c.RemoteAddr())
		err = p.admitLocked(v.host)
	} else if n := count(p.visits, func(o *visit) bool { return o.who == who }); n >= maxVisits {
		err = fmt.Errorf("%d such connections are open already", n)
	}
	if err != nil {
		return nil, err
	}
	p.visits = append(p.visits, v)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.visits = slices.DeleteFunc(p.visits, func(o *visit) bool { return o == v })
	}, nil
}

func count(l []*visit, is func(*visit) bool) (n int) {
	for _, v := range l {
		if is(v) {
			n++
		}
	}
	return n
}

// admitLocked sees that there is a place for a stranger from host: if that has its share, the oldest of its own that has not asked makes room; if
// all are taken, the oldest of the host with most of those.
func (p *Port) admitLocked(host string) error {
	all := count(p.visits, func(v *visit) bool { return v.host != "" })
	own := count(p.visits, func(v *visit) bool { return v.host == host })
	from := host
	switch {
	case own >= maxStrangersHost:
	case all >= maxStrangers:
		silent := map[string]int{}
		for _, v := range p.visits {
			if v.host == "" || v.asked {
				continue
			}
			if silent[v.host]++; silent[v.host] > silent[from] {
				from = v.host
			}
		}
	default:
		return nil
	}
	i := slices.IndexFunc(p.visits, func(v *visit) bool { return v.host == from && !v.asked })
	if i < 0 {
		return errors.New("too many connections without a certificate are being answered")
	}
	p.visits[i].conn.NetConn().Close() // no goodbye, for which the other end could keep us waiting
	p.visits = slices.Delete(p.visits, i, i+1)
	return nil
}

// Asked notes that all of a visit's request is there: it makes no room any more for others, and is to be answered soon.
func (p *Port) Asked(c *tls.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range p.visits {
		if v.conn == c {
			v.asked = true
		}
	}
}
