package control

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/pki"
)

// letRegister lets a node's registration begin, if none of the same node is under way
// or has only just been: each makes the hub dial an address of the node's
// choice and say how that went, and it is not to scan networks for anybody.
func (h *Hub) letRegister(name string, now time.Time) (done func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.nodes[name]
	switch {
	case n == nil:
		return nil, fail(ErrNoSuchNode, "no node %q", name)
	case n.registering:
		return nil, fail(ErrBusy, "a registration of %s is under way", name)
	case now.Sub(n.tried) < registerEvery:
		return nil, fail(ErrBusy, "%s has registered less than %v ago", name, registerEvery)
	}
	n.registering, n.tried = true, now
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		n.registering = false
	}, nil
}

// register takes what a node says about itself, if the address it gives leads
// to it: an address that only works on the node itself is the most common
// mistake, and would show as a job that hangs.
func (h *Hub) register(ctx context.Context, name string, body []byte) error {
	var r Registration
	if err := json.Unmarshal(body, &r); err != nil {
		return fail(ErrInvalid, "unreadable registration of %s: %v", name, err)
	}
	if err := r.check(); err != nil {
		return err
	}
	began := time.Now()
	if err := h.reach(ctx, name, r.Addr); err != nil {
		if ctx.Err() != nil {
			return fail(ErrUnavailable, "the control plane is shutting down")
		}
		return fail(ErrUnreachable, "hub cannot reach %s at %s: %s; give --advertise an address that the other nodes can reach", name, r.Addr, oneLine(cause(err, began)))
	}
	now := time.Now()
	err := h.changeNode(ctx, name, func(rec *nodeRecord, n *node) { rec.Registration, rec.Seen = r, now })
	if err != nil {
		return err
	}
	h.mu.Lock()
	if n := h.nodes[name]; n != nil {
		n.heard, n.noted = now, time.Time{}
	}
	h.mu.Unlock()
	h.log.Info("node registered", "node", name, "addr", r.Addr, "version", r.Version)
	return nil
}

func (r *Registration) check() error {
	host, port, err := net.SplitHostPort(r.Addr)
	if err != nil || host == "" || len(r.Addr) > 300 || oneLine(r.Addr) != r.Addr { // a zone (RFC 4007) may hold anything
		return fail(ErrInvalid, "advertised address %q: want HOST:PORT", peer.Printable(r.Addr, 300))
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fail(ErrInvalid, "advertised address %q: want a port from 1 to 65535", r.Addr)
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return fail(ErrInvalid, "advertised address %q is no node's address: give --advertise one that the other nodes can reach", r.Addr)
	}
	if len(r.Labels) > 64 || len(r.Roots) > 256 {
		return fail(ErrInvalid, "%d labels and %d roots are too many", len(r.Labels), len(r.Roots))
	}
	for k, v := range r.Labels {
		if k == "" || k == "site" || len(k) > 64 || len(v) > 128 || oneLine(k) != k || oneLine(v) != v {
			return fail(ErrInvalid, "label %q: want NAME=VALUE of at most 64 and 128 characters, and --site for the site", peer.Printable(k, 64))
		}
	}
	if len(r.Site) > 64 || oneLine(r.Site) != r.Site {
		return fail(ErrInvalid, "site %q: want at most 64 characters", peer.Printable(r.Site, 64))
	}
	for i := range r.Roots {
		r.Roots[i] = peer.Printable(r.Roots[i], maxDest)
	}
	r.Version, r.Security = peer.Printable(r.Version, 64), peer.Printable(r.Security, 16)
	if b, err := json.Marshal(r); err != nil || len(b) > maxSelf { // of a letter JSON may make six
		return fail(ErrInvalid, "a registration with %d labels and %d roots has %d bytes, more than the %d that it may: have fewer of them, or shorter ones", len(r.Labels), len(r.Roots), len(b), maxSelf)
	}
	return nil
}

// reach opens a connection to a node and sees whether it is that node. In TLS
// 1.3 the server has proved who it is before the client says anything, so that
// is all that it takes.
func (h *Hub) reach(ctx context.Context, name, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, dialBack)
	defer cancel()
	dial := h.config.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	raw, err := dial(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer raw.Close()
	t := tls.Client(raw, h.creds.ClientTLS(pki.Node, name, peer.ProtocolData))
	if err := t.HandshakeContext(ctx); err != nil {
		return h.creds.Explain(err)
	}
	return nil
}

// cause is the part of a network error that a person needs: not the address
// again, and no more of what answered there than whether it is of this cluster.
// began is when that network was first asked for something.
func cause(err error, began time.Time) string {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ETIMEDOUT) {
		return fmt.Sprintf("no answer within %v", time.Since(began).Round(100*time.Millisecond))
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return "host " + dns.Name + ": " + dns.Err
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, io.EOF) {
		return "what answers there is no node of Freshet"
	}
	return err.Error()
}
