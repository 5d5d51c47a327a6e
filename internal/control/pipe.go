package control

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/time/rate"

	"github.com/freshet/freshet/internal/pki"
)

// ServeControl serves one control connection (peer.ProtocolControl), whose other end
// has proved to be who, until it ends or ctx does.
func (h *Hub) ServeControl(ctx context.Context, c *tls.Conn, who pki.Identity) {
	defer c.Close()
	if err := h.serveControl(ctx, c, who); err != nil {
		h.log.Debug("control connection", "from", who.String(), "addr", c.RemoteAddr().String(), "err", err)
	}
}

func (h *Hub) serveControl(ctx context.Context, c *tls.Conn, who pki.Identity) error {
	leave, err := h.enter(c, who)
	c.SetWriteDeadline(time.Now().Add(10 * time.Second))
	if err != nil {
		fmt.Fprintf(c, "-ERR %s\n", encodeError(err))
		return err
	}
	defer leave()
	if _, err := io.WriteString(c, "+OK\n"); err != nil {
		return err
	}
	in, err := h.core.srv.InProcessConn()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { in.Close(); c.Close() })
	defer stop()

	out := make(chan struct{})
	go func() { // from the server to the client
		defer close(out)
		defer c.Close()
		io.Copy(deadlined{c}, in)
	}()
	err = h.forward(ctx, in, c, who)
	in.Close()
	<-out
	return err
}

// forward copies from the client to the server, and makes the client's CONNECT
// say who it is.
func (h *Hub) forward(ctx context.Context, in net.Conn, c net.Conn, who pki.Identity) error {
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	r := bufio.NewReaderSize(c, maxLine)
	line, err := r.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("first line: %w", err)
	}
	user := string(who.Role) + " " + who.Name
	password, revoke := h.core.admit(&server.User{Username: user, Permissions: permissions(who)})
	defer revoke()
	line, err = identify(line, user, password)
	if err != nil {
		return err
	}
	if _, err := in.Write(line); err != nil {
		return err
	}
	c.SetReadDeadline(time.Time{}) // the server's pings find a dead client
	return pass(ctx, in, r)
}

// How much a client may say: far more than agents do, whose recordings are most of
// it, and less than keeps the server from listening to others. All nodes' messages wait in one queue.
const (
	messagesPerSecond = 100
	messagesAtOnce    = 500
	bytesPerSecond    = 8 << 20
	bytesAtOnce       = 64 << 10
)

// pass copies what a client says, no faster than it may say it. What has to wait waits in the
// client's own socket. Of the protocol of NATS it needs to know where a message ends.
func pass(ctx context.Context, to io.Writer, from *bufio.Reader) error {
	messages, volume := rate.NewLimiter(messagesPerSecond, messagesAtOnce), rate.NewLimiter(bytesPerSecond, bytesAtOnce)
	for {
		line, err := from.ReadSlice('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if err := cmp.Or(messages.Wait(ctx), volume.WaitN(ctx, len(line))); err != nil {
			return err
		}
		left := payload(line)
		if _, err := to.Write(line); err != nil {
			return err
		}
		for left > 0 {
			n := min(left, bytesAtOnce)
			if err := volume.WaitN(ctx, n); err != nil {
				return err
			}
			if _, err := io.CopyN(to, from, int64(n)); err != nil {
				return err
			}
			left -= n
		}
	}
}

// payload is how many bytes follow a line of the protocol of NATS that belong to it:
// PUB and HPUB end with the size of what is published, which "\r\n" follows. A size that is none,
// or too large, is the server's to refuse: it closes the connection.
func payload(line []byte) int {
	f := bytes.Fields(line)
	if len(f) < 3 || !bytes.EqualFold(f[0], []byte("PUB")) && !bytes.EqualFold(f[0], []byte("HPUB")) {
		return 0
	}
	n, err := strconv.ParseUint(string(f[len(f)-1]), 10, 31)
	if err != nil {
		return 0
	}
	return int(n) + len("\r\n")
}

// identify rewrites a CONNECT line of the NATS client protocol, so that it
// carries these credentials and no others.
func identify(line []byte, user, password string) ([]byte, error) {
	arg, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("CONNECT "))
	if !ok {
		return nil, errors.New("first line is not CONNECT")
	}
	var opts map[string]json.RawMessage
	if err := json.Unmarshal(arg, &opts); err != nil {
		return nil, fmt.Errorf("malformed CONNECT: %w", err)
	}
	// Only what a client has to say about its protocol. Anything that could
	// name an identity in some way is left out, by any spelling: the server
	// matches names without regard to case.
	kept := map[string]json.RawMessage{}
	for _, name := range []string{"verbose", "pedantic", "echo", "lang", "version", "protocol", "headers", "no_responders", "name"} {
		if v, ok := opts[name]; ok {
			kept[name] = v
		}
	}
	kept["user"], _ = json.Marshal(user)
	kept["pass"], _ = json.Marshal(password)
	b, err := json.Marshal(kept)
	if err != nil {
		return nil, err
	}
	return append(append([]byte("CONNECT "), b...), '\r', '\n'), nil
}

// deadlined gives every write its own deadline: a client that does not read is
// cut off.
type deadlined struct{ net.Conn }

func (d deadlined) Write(b []byte) (int, error) {
	d.SetWriteDeadline(time.Now().Add(10 * time.Second))
	return d.Conn.Write(b)
}

// enter decides whether a client may come in, and keeps account of it, so that
// a node that is removed can be cut off.
func (h *Hub) enter(c *tls.Conn, who pki.Identity) (leave func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, fail(ErrUnavailable, "the control plane is shutting down")
	}
	switch who.Role {
	case pki.Admin:
		if h.revokedLocked(pki.PeerKey(c.ConnectionState())) {
			return nil, fail(ErrRefused, "this admin's credential was withdrawn: the new one is %s in the control plane's state directory, copy that one", AdminFile)
		}
		if h.conns[who] == nil {
			h.conns[who] = map[*tls.Conn]bool{}
		}
	case pki.Node:
		n, ok := h.nodes[who.Name]
		if !ok || !n.accepts(pki.PeerKey(c.ConnectionState())) {
			return nil, removedFromCluster(who.Name)
		}
		if h.conns[who] == nil {
			h.conns[who] = map[*tls.Conn]bool{}
		}
		const most = 4 // a connection that is dead may take a while to be found so
		if len(h.conns[who]) >= most {
			return nil, fail(ErrBusy, "node %s has %d control connections already: do several agents use the same credentials?", who.Name, most)
		}
	default:
		return nil, fail(ErrRefused, "a %s has no business with the control plane", who.Role)
	}
	h.conns[who][c] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.conns[who], c)
		if len(h.conns[who]) > 0 {
			return
		}
		delete(h.conns, who)
		if n := h.nodes[who.Name]; n != nil && who.Role == pki.Node {
			n.left = time.Now()
		}
	}, nil
}
