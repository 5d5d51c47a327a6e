package control

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/pki"
)

// link is how an agent or an admin gets to the hub, again and again.
type link struct {
	hub   string // HOST:PORT
	creds *pki.Credentials
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)

	lost  func(err error) // the connection broke; err may be nil
	back  func()          // it is there again
	final func(err error) // the hub will not have us, now or later

	mu  sync.Mutex // guards err
	err error      // of the last attempt
}

const dialWithin = 10 * time.Second

// connect connects once, within ctx; from then on the connection comes back by
// itself whenever it breaks. The end of life ends attempts to do so that are
// under way; the connection is ended by closing it.
func (l *link) connect(ctx, life context.Context) (*nats.Conn, error) {
	who := l.creds.Identity()
	var opening net.Conn // until the NATS library has said hello over it, nothing else ends it
	stop := func() bool { return true }
	defer func() { stop() }()
	nc, err := nats.Connect("nats://hub.freshet:4222", // a name for the library only: dialer knows where the hub is
		nats.Name(who.String()),
		nats.SetCustomDialer(dialer(func(string, string) (net.Conn, error) {
			first := opening == nil
			if !first {
				ctx = life
			}
			c, err := l.attempt(ctx)
			if first && err == nil {
				opening = c
				stop = context.AfterFunc(ctx, func() { c.Close() })
			}
			l.mu.Lock()
			l.err = err
			l.mu.Unlock()
			if err != nil && hopeless(err) && l.final != nil {
				l.final(err)
			}
			return c, err
		})),
		nats.SkipHostLookup(),
		nats.IgnoreDiscoveredServers(),
		nats.IgnoreAuthErrorAbort(),
		nats.CustomInboxPrefix(inbox(string(who.Role), who.Name)),
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(jitter),
		nats.ReconnectBufSize(-1), // what is said while the hub is away is said again, by whoever still means it
		nats.PingInterval(5*time.Second),
		nats.MaxPingsOutstanding(2),
		nats.Timeout(dialWithin),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if l.lost != nil {
				l.lost(err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			if l.back != nil {
				l.back()
			}
		}),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // a snapshot that did not fit is followed by the next
	)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.err != nil {
			return nil, l.err
		}
		return nil, fmt.Errorf("connect to the hub at %s: %w", l.hub, err)
	}
	return nc, nil
}

// dialer is a function as nats.CustomDialer.
type dialer func(network, addr string) (net.Conn, error)

func (d dialer) Dial(network, addr string) (net.Conn, error) { return d(network, addr) }

// jitter is how long to wait before the next attempt: a little at first, two
// seconds at most, and never the same for all.
func jitter(attempts int) time.Duration {
	most := min(100*time.Millisecond<<min(max(attempts-1, 0), 10), 2*time.Second)
	return most/2 + rand.N(most/2)
}

// hopeless says whether trying again cannot help.
func hopeless(err error) bool {
	other, _ := errors.AsType[*pki.OtherClusterError](err)
	return other != nil || errors.Is(err, ErrRemoved) || errors.Is(err, ErrExpired) || errors.Is(err, ErrRefused)
}

// attempt opens one connection and reads the hub's first line.
func (l *link) attempt(ctx context.Context) (_ net.Conn, err error) {
	if err := expired(l.creds, time.Now()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	dial := l.dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	began := time.Now()
	raw, err := dial(ctx, "tcp", l.hub)
	if err != nil {
		if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, ctx.Err()
		}
		return nil, unreached(l.hub, err, began)
	}
	t := tls.Client(raw, l.creds.ClientTLS(pki.Hub, pki.HubName, peer.ProtocolControl))
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer func() {
		if !stop() && err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			raw.Close()
		}
	}()
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("hub at %s: %w", l.hub, l.creds.Explain(err))
	}
	line, err := readLine(t, maxHello)
	if err != nil {
		return nil, fmt.Errorf("hub at %s: %w", l.hub, l.creds.Explain(err))
	}
	if line == "+OK" {
		return t, nil
	}
	if e, ok := strings.CutPrefix(line, "-ERR "); ok {
		return nil, decodeError(e)
	}
	return nil, fmt.Errorf("hub at %s: it began with %q: is that a Freshet hub?", l.hub, peer.Printable(line, 60))
}

// unreached says that the hub, which was dialed when it began, is not there, and where to look.
func unreached(hub string, err error, began time.Time) error {
	return fmt.Errorf("cannot reach the control plane at %s: %s; is \"freshet up\" running there, and its port open?", hub, oneLine(cause(err, began)))
}

// readLine reads up to the first line feed and not a byte beyond.
func readLine(r io.Reader, most int) (string, error) {
	var line []byte
	var b [1]byte
	for len(line) < most {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return "", err
		}
		if b[0] == '\n' {
			return strings.TrimSuffix(string(line), "\r"), nil
		}
		line = append(line, b[0])
	}
	return "", fmt.Errorf("first line is longer than %d bytes", most)
}
