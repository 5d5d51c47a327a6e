package s3serve

import (
	"cmp"
	"context"
	"hash/fnv"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/internal/pace"
	"github.com/freshet/freshet/objstore/limit"
	"github.com/freshet/freshet/unit"
)

// Connection is what became of one TCP connection.
type Connection struct {
	Remote string         `json:"remote"`
	Rate   unit.Bandwidth `json:"rate"`   // its own, drawn when it was accepted; 0: no limit
	Client unit.Bandwidth `json:"client"` // what all connections of its address get together; 0: no limit
	Bytes  unit.Bytes     `json:"bytes"`  // sent to the client, headers included
	Opened time.Time      `json:"opened"`
	Closed time.Time      `json:"closed,omitzero"` // zero: still open
}

// How much is sent between two looks at the rates and counts: 10 ms' worth of
// the lowest rate, as pace allows bursts of, within these bounds.
const (
	least = 64 << 10
	most  = 4 << 20
)

// keep is how many closed connections are remembered.
const keep = 4096

// gate is the listener: it draws each connection's rate and remembers it.
type gate struct {
	net.Listener
	perConnection limit.Distribution
	perClient     limit.Distribution
	totalRate     unit.Bandwidth
	total         *pace.Limiter

	mu      sync.Mutex // guards what follows
	seed    uint64
	draw    func() unit.Bandwidth
	open    map[*conn]struct{}
	clients map[string]*client
	past    []Connection // the last ones closed, in the order of closing
}

// client is one address while it has connections.
type client struct {
	conns   int
	rate    unit.Bandwidth
	limiter *pace.Limiter
}

func (g *gate) reseed(seed uint64) {
	rng := limit.Rand(seed)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seed = seed
	g.draw = func() unit.Bandwidth { return g.perConnection.Draw(rng) }
	for host, cl := range g.clients {
		cl.rate, cl.limiter = g.client(host) // for connections to come
	}
}

// client is what an address gets: the same for one seed, in whatever order
// and how often it comes.
func (g *gate) client(host string) (unit.Bandwidth, *pace.Limiter) {
	h := fnv.New64a()
	h.Write([]byte(host))
	rate := g.perClient.Draw(limit.Rand(g.seed ^ h.Sum64()))
	return rate, pace.New(rate)
}

func (g *gate) Accept() (net.Conn, error) {
	nc, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	host, _, _ := net.SplitHostPort(nc.RemoteAddr().String())
	cl := g.clients[host]
	if cl == nil {
		cl = &client{}
		cl.rate, cl.limiter = g.client(host)
		g.clients[host] = cl
	}
	cl.conns++
	c := &conn{Conn: nc, gate: g, host: host, opened: time.Now(), rate: g.draw(), client: cl.rate, grain: most}
	for _, r := range []unit.Bandwidth{c.rate, cl.rate, g.totalRate} {
		if r > 0 {
			c.grain = max(least, min(c.grain, int64(r/100)))
		}
	}
	for _, l := range []*pace.Limiter{pace.New(c.rate), cl.limiter, g.total} {
		if l != nil {
			c.limits = append(c.limits, l)
		}
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	g.open[c] = struct{}{}
	return c, nil
}

func (g *gate) left(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, c)
	if cl := g.clients[c.host]; cl != nil {
		if cl.conns--; cl.conns == 0 {
			delete(g.clients, c.host)
		}
	}
	if len(g.past) >= keep {
		g.past = slices.Delete(g.past, 0, 1)
	}
	g.past = append(g.past, c.describe(time.Now()))
}

// connections lists those still remembered, in the order of acceptance.
func (g *gate) connections() []Connection {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := slices.Clone(g.past)
	for c := range g.open {
		all = append(all, c.describe(time.Time{}))
	}
	slices.SortStableFunc(all, func(a, b Connection) int {
		return cmp.Or(a.Opened.Compare(b.Opened), cmp.Compare(a.Remote, b.Remote))
	})
	return all
}

// hangUp closes all connections.
func (g *gate) hangUp() {
	g.mu.Lock()
	var all []*conn
	for c := range g.open {
		all = append(all, c)
	}
	g.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
}

// conn is one connection: its writes wait for its own rate, its client's and
// the total. One goroutine writes at a time, as the server does.
type conn struct {
	net.Conn
	gate   *gate
	host   string
	rate   unit.Bandwidth // its own
	client unit.Bandwidth // its address's
	limits []*pace.Limiter
	grain  int64 // bytes between two waits
	opened time.Time
	sent   atomic.Int64

	// ctx ends with the connection: it is what waits for a rate.
	ctx    context.Context
	cancel context.CancelFunc
	once   sync.Once
}

func (c *conn) describe(closed time.Time) Connection {
	return Connection{
		Remote: c.RemoteAddr().String(), Rate: c.rate, Client: c.client, Bytes: unit.Bytes(c.sent.Load()),
		Opened: c.opened, Closed: closed,
	}
}

func (c *conn) Close() error {
	c.once.Do(func() {
		c.cancel()
		c.gate.left(c)
	})
	return c.Conn.Close()
}

func (c *conn) wait(n int64) error {
	for _, l := range c.limits {
		if err := l.Wait(c.ctx, int(n)); err != nil {
			return net.ErrClosed // c.ctx ends in no other way
		}
	}
	return nil
}

func (c *conn) Write(p []byte) (n int, err error) {
	for n < len(p) {
		part := p[n:min(len(p), n+int(c.grain))]
		if err := c.wait(int64(len(part))); err != nil {
			return n, err
		}
		m, err := c.Conn.Write(part)
		n += m
		c.sent.Add(int64(m))
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// ReadFrom sends what r delivers; the body of an object goes from its file to
// the socket inside the kernel (net.TCPConn's sendfile).
func (c *conn) ReadFrom(r io.Reader) (n int64, err error) {
	b, isBody := r.(*body)
	tcp, isTCP := c.Conn.(*net.TCPConn)
	if !isBody || !isTCP {
		return io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{r}, make([]byte, least))
	}
	for b.left > 0 {
		part := min(b.left, c.grain)
		if err := c.wait(part); err != nil {
			return n, err
		}
		m, err := tcp.ReadFrom(&io.LimitedReader{R: b.f, N: part})
		n += m
		b.took(m)
		c.sent.Add(m)
		if err != nil {
			return n, err
		}
		if m < part {
			return n, io.ErrUnexpectedEOF // the file was cut short while it was sent
		}
	}
	return n, nil
}
