package peer

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/freshet/freshet/internal/pace"
	"github.com/freshet/freshet/internal/pki"
)

// DefaultCongestion is set on each of our sockets: on the networks inside a
// cluster it is what works, whatever the system's default is.
const DefaultCongestion = "cubic"

var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// Dialer returns a function that dials TCP with that congestion control (""
// is DefaultCongestion) and holds the connection's reads to the rates in and
// its writes to the rates out. Congestion control that the system does not
// have or allow is left as it is.
func Dialer(congestion string, in, out []*pace.Limiter) func(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: keepAlive, Timeout: handshakeTimeout, Control: congestionControl(congestion)}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return pace.Conn(c, in, out), nil
	}
}

// congestionControl is a Control function as of net.Dialer and net.ListenConfig.
// Sockets that a listener accepts inherit what is set on the listener.
func congestionControl(name string) func(network, addr string, c syscall.RawConn) error {
	name = cmp.Or(name, DefaultCongestion)
	return func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { setCongestion(fd, name) })
	}
}

// Dial connects to the node name at addr for a job. The other end must be that
// node and must have the job on offer, or offer it within 10 s; the error is a
// *Refused if it says that it does not. Errors name the node and the address.
func (p *Port) Dial(ctx context.Context, addr, name, job string) (*Conn, error) {
	c, err := p.dial(ctx, addr, name, job)
	if err != nil {
		return nil, fmt.Errorf("connect to %s at %s: %w", name, addr, err)
	}
	return c, nil
}

func (p *Port) dial(ctx context.Context, addr, name, job string) (*Conn, error) {
	if p.o.Credentials == nil {
		return nil, errors.New("this process has no node's credentials")
	}
	if err := errors.Join(pki.CheckName(name), CheckJob(job)); err != nil {
		return nil, err
	}
	dialCtx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	raw, err := p.o.Dial(dialCtx, "tcp", addr)
	cancel()
	if err != nil {
		return nil, withoutAddress(err)
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	c, err := p.greet(raw, name, job)
	if !stop() && err == nil {
		c.abort() // ctx ended, raw is closed
		err = ctx.Err()
	}
	if err != nil {
		raw.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, p.o.Credentials.Explain(err)
	}
	c.start()
	return c, nil
}

// withoutAddress takes "dial tcp 10.0.0.1:7000: " off an error whose reader is told that
// anyway.
func withoutAddress(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" && op.Err != nil {
		return op.Err
	}
	return err
}

// greet is the caller's side of the handshake: TLS, a hello each way, and the
// other end's verdict.
func (p *Port) greet(raw net.Conn, name, job string) (*Conn, error) {
	w := newWire(raw)
	conf := p.o.Credentials.ClientTLS(pki.Node, name, p.dataProtocols()...)
	conf.DynamicRecordSizingDisabled = true
	t := tls.Client(w, conf)
	if err := t.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, err
	}
	if err := t.Handshake(); err != nil {
		if err == io.EOF {
			return nil, fmt.Errorf("the other end closed the connection during the handshake: %w", err)
		}
		return nil, err
	}
	c := newConn(t, w, name, job)
	if err := p.enlist(c, pki.PeerKey(t.ConnectionState())); err != nil {
		return nil, err
	}
	err := p.introduce(c)
	if err == nil {
		err = p.settle(c, t, true)
	}
	if err != nil {
		c.abort()
		return nil, err
	}
	return c, nil
}

// introduce says hello, and hears the other end's and its verdict.
func (p *Port) introduce(c *Conn) error {
	if _, err := c.c.Write(hello{Name: p.o.Credentials.Identity().Name, Job: c.job}.Append(nil)); err != nil {
		return err
	}
	theirs, err := readHello(c.c)
	if err != nil {
		return err
	}
	if theirs.Name != c.name {
		return fmt.Errorf("the other end answered as %q", theirs.Name)
	}
	if err := c.verdict(); err != nil {
		return err
	}
	if theirs.Job != c.job {
		return fmt.Errorf("the other end answered for job %q instead of %q", theirs.Job, c.job)
	}
	return nil
}

// verdict waits for the other end to say whether it takes us.
func (c *Conn) verdict() error {
	deadline := time.Now().Add(verdictTimeout)
	if err := c.c.SetDeadline(deadline); err != nil {
		return err
	}
	var b [headerBytes]byte
	if err := c.readBy(deadline, b[:]); err != nil {
		return fmt.Errorf("wait for an answer to the hello: %w", err)
	}
	h, _, err := parseHeader(b[:])
	switch {
	case err != nil:
		return err
	case h.Kind == kindRefusal:
		c.left = h.Len
		return c.readRefusal(h.Len)
	case h.Kind != kindWelcome:
		return fmt.Errorf("the hello was answered with a frame of kind %d", h.Kind)
	}
	return c.c.SetDeadline(time.Time{})
}
