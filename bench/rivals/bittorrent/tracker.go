package bittorrent

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
)

// Tracker tells BitTorrent peers of each other (BEP 3, with the compact lists of
// BEP 23). There is one torrent. It answers at once and to everybody, so that
// no client waits for others. The zero value knows nobody.
type Tracker struct {
	mu    sync.Mutex // guards what follows
	peers []netip.AddrPort
}

// Peers is how many there are.
func (k *Tracker) Peers() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.peers)
}

func (k *Tracker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	addr, err := netip.ParseAddr(host)
	port, perr := strconv.ParseUint(r.URL.Query().Get("port"), 10, 16)
	if err = errors.Join(err, perr); err != nil || !addr.Is4() {
		http.Error(w, fmt.Sprintf("announce from %s: %v", r.RemoteAddr, err), http.StatusBadRequest)
		return
	}
	w.Write(k.announce(netip.AddrPortFrom(addr, uint16(port))))
}

// announce notes a peer and returns the others, bencoded.
func (k *Tracker) announce(who netip.AddrPort) []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	var others []byte
	known := false
	for _, p := range k.peers {
		if p == who {
			known = true
			continue
		}
		ip := p.Addr().As4()
		others = append(others, ip[:]...)
		others = append(others, byte(p.Port()>>8), byte(p.Port()))
	}
	if !known {
		k.peers = append(k.peers, who)
	}
	const interval = 10 // seconds
	return fmt.Appendf(nil, "d8:intervali%de12:min intervali%de5:peers%d:%se", interval, interval, len(others), others)
}
