package peer

import (
	"fmt"

	"github.com/freshet/freshet/internal/pki"
)

const (
	maxStrangers = 256 // visits without a certificate, all together
	maxVisits    = 16  // of one holder of a certificate
)

// A visit is a connection of a protocol that needs no certificate. Whoever
// shows one all the same is counted by the name in it, so that no caller takes
// the places of others, and who was removed from the cluster is not let in with it.
func (p *Port) visit(who pki.Identity, key string) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if who.Role == pki.Node && p.revoked[key] { // others are told what became of theirs
		return nil, ErrRemoved
	}
	most := maxVisits
	if who == (pki.Identity{}) {
		most = maxStrangers
	}
	if p.visits[who] >= most {
		return nil, fmt.Errorf("%d such connections are open already", most)
	}
	p.visits[who]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.visits[who]--; p.visits[who] == 0 {
			delete(p.visits, who)
		}
	}, nil
}
