package peer

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/freshet/freshet/internal/pace"
	"github.com/freshet/freshet/internal/pki"
)

const (
	maxHandshakes     = 256 // under way at once; then one that does not get on makes room (door), or callers wait in the listen backlog
	maxHandshakesHost = 128 // of these from one host, which may run 64 nodes that all call at once
	maxWaiting        = 256 // data connections for jobs that are not on offer yet
	maxWaitingNode    = 16  // of these from one node
)

// Options of a Port.
type Options struct {
	// Credentials are the node's, for data connections. nil: the process is no
	// node and has none.
	Credentials *pki.Credentials
	// Hub are the control plane's, for all other protocols. nil: Credentials.
	Hub *pki.Credentials
	// In and Out hold all connections together to a rate. nil: no limit.
	In, Out *pace.Limiter
	// Trusted lets data travel in plain TCP, once both ends have proved who they
	// are, to and from processes that were told the same.
	Trusted bool
	// Congestion control of all sockets; "" is DefaultCongestion.
	Congestion string
	// Dial replaces how Port.Dial reaches an address. nil: Dialer with the above.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Log gets what no caller hears of: callers refused. nil: slog.Default().
	Log *slog.Logger
}

// Handler serves a connection until it returns; the Port then closes it. The
// identity is zero if the client presented no certificate, where it need not. The end of ctx closes the
// connection.
type Handler func(ctx context.Context, c *tls.Conn, who pki.Identity)

// Port is the one TCP port of a process. What arrives is told apart by ALPN.
type Port struct {
	o        Options
	ln       net.Listener
	handlers map[string]handler
	refuse   *tls.Config // for those who ask for none of our protocols

	handshakes chan struct{} // holds a token for each
	waiting    waiters
	door       door
	refusals   [refusalKinds]atomic.Int64

	mu       sync.Mutex        // guards what follows
	offers   map[string]*offer // by job
	security map[string]bool   // by node, with Trusted: whether its connections are plain
	offered  chan struct{}     // closed and replaced at each new offer
	revoked  map[string]bool   // keys of nodes that were removed from the cluster
	open     map[*Conn]bool    // data connections that are not closed
	placed   uint64            // the last number given to a connection by crowd
	visits   []*visit          // that go on, oldest first
}

// Why callers were refused.
const (
	refusedCrowd = iota // too many of its kind, or a removed node among them
	refusedTLS          // no certificate of ours, no protocol of ours, no TLS at all
	refusedHello        // a data connection that was not accepted
	refusalKinds
)

var refusalNames = [refusalKinds]string{refusedCrowd: "crowd", refusedTLS: "tls", refusedHello: "hello"}

// Refusals calls f with the number of callers refused so far, by why.
func (p *Port) Refusals(f func(why string, n int64)) {
	for k, name := range refusalNames {
		f(name, p.refusals[k].Load())
	}
}

type handler struct {
	conf       *tls.Config
	clientCert bool
	serve      Handler
}

type offer struct {
	conns     chan *Conn
	withdrawn chan struct{}
}

// Listen opens the port at a TCP address.
func Listen(addr string, o Options) (*Port, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive, Control: congestionControl(o.Congestion)}
	ln, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", addr, err)
	}
	p, err := New(ln, o)
	if err != nil {
		ln.Close()
		return nil, err
	}
	return p, nil
}

// New makes a port of a listener, of whatever network.
func New(ln net.Listener, o Options) (*Port, error) {
	if o.Hub == nil {
		o.Hub = o.Credentials
	}
	if o.Hub == nil {
		return nil, errors.New("open a port: no credentials")
	}
	if o.Credentials != nil && o.Credentials.Identity().Role != pki.Node {
		return nil, fmt.Errorf("open a port: %v cannot take part in data connections", o.Credentials.Identity())
	}
	if o.Dial == nil {
		o.Dial = Dialer(o.Congestion, []*pace.Limiter{o.In}, []*pace.Limiter{o.Out})
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	p := &Port{
		o: o, ln: ln, handlers: map[string]handler{},
		handshakes: make(chan struct{}, maxHandshakes),
		security:   map[string]bool{}, offers: map[string]*offer{}, offered: make(chan struct{}), open: map[*Conn]bool{},
	}
	if o.Credentials != nil {
		conf := o.Credentials.ServerTLS(ProtocolData)
		conf.DynamicRecordSizingDisabled = true
		p.handlers[ProtocolData] = handler{conf: conf, clientCert: true}
		if o.Trusted {
			p.handlers[ProtocolPlain] = handler{conf: o.Credentials.ServerTLS(ProtocolPlain), clientCert: true}
		}
	}
	want := cmp.Or(p.o.Congestion, DefaultCongestion)
	if got := p.Congestion(); got != "" && got != want {
		p.o.Log.Info("the system does not have or allow the congestion control asked for", "asked", want, "in_force", got)
	}
	return p, nil
}

// Handle gives the connections of a protocol to serve. Clients present a
// certificate of the cluster; where clientCert is false they may also have none,
// and who is then zero. It is to be called before Run and panics if the protocol is taken.
func (p *Port) Handle(protocol string, clientCert bool, serve func(ctx context.Context, c *tls.Conn, who pki.Identity)) {
	if _, taken := p.handlers[protocol]; taken || protocol == ProtocolData || protocol == ProtocolPlain {
		panic(fmt.Sprintf("peer: protocol %s is taken", protocol))
	}
	h := handler{clientCert: clientCert, serve: serve}
	if clientCert {
		h.conf = p.o.Hub.ServerTLS(protocol)
	} else {
		h.conf = p.o.Hub.OpenServerTLS(protocol)
	}
	p.handlers[protocol] = h
}

// Addr is where the port listens.
func (p *Port) Addr() net.Addr { return p.ln.Addr() }

// Congestion is the congestion control in force; "" if that cannot be told.
func (p *Port) Congestion() (name string) {
	sc, ok := p.ln.(syscall.Conn)
	if !ok {
		return ""
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return ""
	}
	rc.Control(func(fd uintptr) { name = congestion(fd) })
	return name
}

// Close closes the port. Run does so too; this is for a port that is not run.
func (p *Port) Close() error { return p.ln.Close() }

// Run accepts connections until ctx ends, which is no error, or the listener
// fails. It returns when all handlers have. Connections that were taken from
// an Offer are their takers'.
func (p *Port) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	defer p.ln.Close()
	defer context.AfterFunc(ctx, func() { p.ln.Close() })()

	var protocols []string
	for name := range p.handlers {
		protocols = append(protocols, name)
	}
	p.refuse = p.o.Hub.JoinServerTLS(protocols...)

	var pause time.Duration
	for {
		raw, err := p.ln.Accept()
		if err == nil {
			pause = 0
			caller, ok := p.door.enter(raw, time.Now())
			if !ok {
				raw.Close()
				p.refusals[refusedCrowd].Add(1)
				p.o.Log.Debug("too many handshakes with one host", "from", raw.RemoteAddr(), "limit", maxHandshakesHost)
				continue
			}
			if !p.place(ctx) {
				p.door.leave(caller)
				raw.Close()
				return nil
			}
			p.door.begin(caller) // here, so that makeRoom sees all there are
			wg.Go(func() { p.serve(ctx, raw, caller) })
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, net.ErrClosed) || !passing(err) {
			return fmt.Errorf("accept connections at %v: %w", p.ln.Addr(), err)
		}
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		p.o.Log.Warn("cannot accept connections", "addr", p.ln.Addr(), "err", err, "again_in", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// place waits for a place for one more handshake, and has those that do not get
// on give up theirs. False says that ctx has ended.
func (p *Port) place(ctx context.Context) bool {
	for {
		select {
		case p.handshakes <- struct{}{}:
			return true
		default:
		}
		timer := time.NewTimer(p.door.makeRoom(time.Now()))
		select {
		case p.handshakes <- struct{}{}:
			timer.Stop()
			return true
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
	}
}

// passing says whether an error of accept is worth another try: out of file
// descriptors or memory, or a caller that left again.
func passing(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EINTR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// serve takes one connection from its first byte to its end or its taker. It
// comes with a token of p.handshakes, and has entered p.door.
func (p *Port) serve(ctx context.Context, raw net.Conn, caller *caller) {
	log := p.o.Log.With("from", raw.RemoteAddr())
	var release sync.Once
	done := func() { release.Do(func() { p.door.leave(caller); <-p.handshakes }) }
	defer done()
	began := time.Now()
	raw = pace.Conn(raw, []*pace.Limiter{p.o.In}, []*pace.Limiter{p.o.Out})
	w := newWire(raw)
	t := tls.Server(w, &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
		p.door.heard(caller, time.Now())
		raw.SetDeadline(began.Add(handshakeTimeout))
		return p.configFor(info)
	}})
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()

	t.SetDeadline(began.Add(helloTimeout))
	if err := t.Handshake(); err != nil {
		if rec, ok := errors.AsType[tls.RecordHeaderError](err); ok && rec.Conn != nil && looksLikeHTTP(rec.RecordHeader[:]) {
			io.WriteString(raw, "HTTP/1.0 400 Bad Request\r\nConnection: close\r\n\r\nThis is a Freshet port: it speaks TLS.\n")
		}
		raw.Close()
		p.refusals[refusedTLS].Add(1)
		log.Debug("handshake failed", "err", p.o.Hub.Explain(err))
		return
	}
	cs := t.ConnectionState()
	h := p.handlers[cs.NegotiatedProtocol]
	var who pki.Identity
	if h.clientCert || len(cs.PeerCertificates) > 0 {
		var err error
		if who, err = pki.PeerIdentity(cs); err != nil {
			t.Close()
			return
		}
	}
	if cs.NegotiatedProtocol == ProtocolData || cs.NegotiatedProtocol == ProtocolPlain {
		if err := p.receive(ctx, t, w, who, done); err != nil {
			raw.Close()
			if errors.Is(err, io.EOF) { // who only wanted to see that we are here
				log.Debug("data connection closed before its hello", "node", who.Name)
				return
			}
			p.refusals[refusedHello].Add(1)
			log.Info("data connection refused", "node", who.Name, "err", err)
		}
		return
	}
	defer t.Close()
	if !h.clientCert {
		leave, err := p.visit(t, who, pki.PeerKey(cs))
		if err != nil {
			p.refusals[refusedCrowd].Add(1)
			level := slog.LevelInfo
			if who == (pki.Identity{}) { // anybody could fill the log
				level = slog.LevelDebug
			}
			log.Log(ctx, level, "connection refused", "protocol", cs.NegotiatedProtocol, "who", who, "err", err)
			return
		}
		defer leave()
	}
	done()
	t.SetDeadline(time.Time{})
	h.serve(ctx, t, who)
}

// configFor finds the protocol that a client asks for: the first on its list
// that is ours.
func (p *Port) configFor(info *tls.ClientHelloInfo) (*tls.Config, error) {
	for _, proto := range info.SupportedProtos {
		if h, ok := p.handlers[proto]; ok {
			return h.conf, nil
		}
	}
	return p.refuse, nil // fails for want of a common protocol, with the alert that says so
}

func looksLikeHTTP(b []byte) bool {
	for _, m := range []string{"GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "CONNE", "PRI *"} {
		if strings.HasPrefix(string(b), m) {
			return true
		}
	}
	return false
}
