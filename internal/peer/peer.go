// Package peer connects the machines of a cluster: one TCP port a process,
// authenticated connections between nodes, and frames on them.
//
//	              ┌──────────────── Port ────────────────┐
//	TCP accept ─▶ │ TLS 1.3, ALPN ─┬─ freshet-data/1 ────┼─▶ hello ─▶ Offer(job) ─▶ *Conn
//	              │                ├─ freshet-plain/1 ───┼─▶ likewise, then plain TCP
//	              │                ├─ freshet-control/1 ─┼─▶ handler
//	              │                └─ http/1.1 ──────────┼─▶ handler, with or without a certificate
//	              └──────────────────────────────────────┘
//	Dial(addr, name, job) ─▶ TLS 1.3, hello, verdict ─▶ *Conn
//
// A Conn is one neighbour in one job and is kept for as long as the job lasts.
// README.md has the wire format as tables.
//
// Who the other end is, its certificate decides (package pki); the hello adds
// what a certificate cannot say: the version of the protocol and the job. An
// end that refuses says why, with a numbered reason and a text, so that the
// other one can tell its user; what arrives that way is a *Refused, never to
// be confused with what we found ourselves.
//
// Bulk goes through crypto/tls in records of 16 KiB, each of which it writes
// with a system call of its own. wire (wire.go) gathers the records of a frame
// into one write, and reads many records at once.
package peer

import (
	"fmt"
	"time"
)

// The protocols of the port, by their ALPN names.
const (
	ProtocolData    = "freshet-data/1"
	ProtocolPlain   = "freshet-plain/1" // as data, and no TLS behind the verdict: where both ends were told so
	ProtocolControl = "freshet-control/1"
	ProtocolHTTP    = "http/1.1"
)

const (
	helloTimeout     = 3 * time.Second  // for a caller's first message, the ClientHello
	handshakeTimeout = 10 * time.Second // TLS and hello
	offerTimeout     = 10 * time.Second // a connection for a job that we do not know yet
	verdictTimeout   = offerTimeout + 5*time.Second
	frameTimeout     = 30 * time.Second // for a frame, beside what its bytes need at slowest
	slowest          = 4 << 10          // bytes per second: slower than this is broken
	pingEvery        = 5 * time.Second
	silence          = 20 * time.Second // nothing heard for so long: the other end is dead
	quiet            = 8 * time.Second  // nothing heard for so long: a ping at least is overdue
	lingerTimeout    = time.Second      // for the other end to read why we close
)

// frameTime is how long a frame of n bytes may take once it has begun.
func frameTime(n int) time.Duration {
	return frameTimeout + time.Duration(n)*time.Second/slowest
}

// CheckJob says whether s can be the name of a job on the wire: 1 to 64
// letters, digits, and the signs - _ .
func CheckJob(s string) error {
	ok := len(s) >= 1 && len(s) <= maxJob
	for i := 0; ok && i < len(s); i++ {
		c := s[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
	}
	if !ok {
		return fmt.Errorf("job %q: want 1 to %d letters, digits, dots, hyphens and underscores", Printable(s, 80), maxJob)
	}
	return nil
}
