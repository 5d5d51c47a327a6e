package peer

import (
	"errors"
	"sync"
)

// ErrRemoved is a node that was removed from the cluster: it is neither
// listened to nor talked to.
var ErrRemoved = errors.New("removed from the cluster")

// Revoke tells the port whose certificates are no longer good, by their keys
// (pki.PeerKey); they are all of them, those of earlier calls included. Open data
// connections with these nodes are closed, and new ones refused, whoever dials.
// It returns when they are closed, which takes two seconds where the network is
// stuck.
func (p *Port) Revoke(keys []string) {
	revoked := make(map[string]bool, len(keys))
	for _, k := range keys {
		revoked[k] = true
	}
	p.mu.Lock()
	p.revoked = revoked
	var cut []*Conn
	for c := range p.open {
		if revoked[c.key] {
			cut = append(cut, c)
		}
	}
	p.mu.Unlock()
	var wg sync.WaitGroup
	for _, c := range cut {
		p.o.Log.Info("data connection closed", "node", c.name, "err", ErrRemoved)
		c.removed.Store(true)
		wg.Go(func() { c.Refuse(Removed, "") })
	}
	wg.Wait()
}

// Revoked says whether the certificate of that key is on the list of the last Revoke.
func (p *Port) Revoked(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.revoked[key]
}

// enlist notes a connection with the holder of that key until it is closed, or
// refuses to. Both under one lock: no connection is past the look at the list
// and not yet on it when the list changes.
func (p *Port) enlist(c *Conn, key string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.revoked[key] {
		return ErrRemoved
	}
	c.key, c.port = key, p
	p.open[c] = true
	return nil
}

func (p *Port) strike(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}
