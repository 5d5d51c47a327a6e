package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/freshet/freshet/unit"
)

// What all BitTorrent clients share: who makes the torrent, where peers meet,
// and where the first bytes come from, which is
//
//	web    the store as web seed (BEP 19): every client may read ranges of it
//	seed   the first node, which downloads all beforehand; its download is in the time
const trackerPort = 6969

var mktorrent = debian("mktorrent")

// torrent is a Prepare: it makes the torrent where the object lies, and times
// that, and has a tracker up.
func torrent(source string) func(context.Context, *Trial) error {
	return func(ctx context.Context, t *Trial) error {
		announce := fmt.Sprintf("http://%v:%d/announce", t.lab.Addr(hubHost), trackerPort)
		args := []string{"mktorrent", "-d", "-a", announce, "-l", strconv.Itoa(pieceBits(t.Size())), "-o", t.torrent()}
		what := filepath.Join(t.dir, "s3", "b", prefix)
		web := t.Base() // the client appends the torrent's name and the file's
		if len(t.Files) == 1 {
			what = filepath.Join(what, t.Files[0])
			web += prefix + "/" + t.Files[0]
		}
		if source == "web" {
			args = append(args, "-w", web)
		}
		began := time.Now()
		if err := t.wait(ctx, storeHost, append(args, what)); err != nil {
			return err
		}
		t.made = time.Since(began)
		ln, err := t.lab.Listen(hubHost, fmt.Sprintf(":%d", trackerPort))
		if err != nil {
			return err
		}
		server := &http.Server{Handler: &tracker{}, ReadTimeout: time.Minute, WriteTimeout: time.Minute}
		t.running.Go(func() { server.Serve(ln) }) // close ends it, and waits
		t.closers = append(t.closers, server.Close)
		return nil
	}
}

// pieceBits is the size of a torrent's pieces, as a power of two.
func pieceBits(size unit.Bytes) int {
	switch {
	case size >= 128*unit.MiB:
		return 20
	case size >= 64*unit.MiB:
		return 19
	}
	return 18
}

func (t *Trial) torrent() string { return filepath.Join(t.dir, "object.torrent") }

// save is the directory in which a client finds or makes what the torrent names.
func (t *Trial) save(node string) string {
	if len(t.Files) == 1 {
		return t.Dir(node)
	}
	return filepath.Dir(t.Dir(node))
}

// swarm starts a client on every node; where the first one seeds, that one
// downloads before.
func (t *Trial) swarm(source string, client func(node string, seeds bool) string) error {
	return t.everywhere(func(node string) string {
		if source != "seed" || node != t.Nodes[0] {
			return client(node, false)
		}
		return fmt.Sprintf("%s | %s\n%s", t.Fetch(), t.Store(node), client(node, true))
	})
}

// tracker tells BitTorrent peers of each other (BEP 3, with the compact lists of
// BEP 23). There is one torrent. It answers at once and to everybody, so that
// no client waits for others.
type tracker struct {
	mu    sync.Mutex // guards what follows
	peers []netip.AddrPort
}

func (k *tracker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
func (k *tracker) announce(who netip.AddrPort) []byte {
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
