package swarm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/internal/access"
	"github.com/freshet/freshet/internal/pace"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/pki"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/mem"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// detector is whether the race detector watches.
var detector bool

// measures says that a test runs whole swarms to see how much time they take. Under the race detector that takes ten times as long, and such a test is passed by: the
// detector sees the same engine at work in all others. "make unit" runs this package without it, too.
func measures(t *testing.T) {
	t.Helper()
	if detector {
		t.Skip("it is a matter of time, and takes minutes under the race detector: go test without -race runs it")
	}
}

// authority and credentials are made once: keys cost time.
var credentials = sync.OnceValues(func() (list []*pki.Credentials, err error) {
	ca, err := pki.NewAuthority()
	for i := 0; err == nil && i < 32; i++ {
		var c *pki.Credentials
		c, err = ca.NewCredentials(pki.Node, nodeName(i))
		list = append(list, c)
	}
	return list, err
})

func nodeName(i int) string { return fmt.Sprintf("n%d", i) }

// network connects nodes by net.Pipe, so that all runs under synctest.
type network struct {
	mu    sync.Mutex // guards the fields below
	ports map[string]*listener
	conns map[string][]net.Conn // by node: what touches it
	cut   map[string]bool
	muted map[string]bool

	carried map[[2]string]int                      // bytes, by who wrote and who was to read them
	pipe    func(a, b string) (net.Conn, net.Conn) // a connection; nil: net.Pipe
	pipes   sync.WaitGroup                         // of what moves bytes over them
}

type listener struct {
	name   string
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *listener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: l.name, Net: "pipe"} }

func (w *network) listen(name string) *listener {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ports[name] = &listener{name: name, conns: make(chan net.Conn), closed: make(chan struct{})}
	return w.ports[name]
}

func (w *network) dialer(from string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		w.mu.Lock()
		l, gone := w.ports[addr], w.cut[from] || w.cut[addr]
		w.mu.Unlock()
		if l == nil || gone {
			return nil, errors.New("connection refused")
		}
		pipe := w.pipe
		if pipe == nil {
			pipe = func(string, string) (net.Conn, net.Conn) { return net.Pipe() }
		}
		here, there := pipe(from, addr)
		select {
		case l.conns <- &wire{there, w, addr, from}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.conns[from] = append(w.conns[from], here)
		w.conns[addr] = append(w.conns[addr], there)
		return &wire{here, w, from, addr}, nil
	}
}

// kill cuts a node off: what it has not said by now is never heard.
func (w *network) kill(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[name] = true
	for _, c := range w.conns[name] {
		c.Close()
	}
}

// mute cuts a node off so that nobody notices: what is written to it and by it
// disappears, and new connections are refused.
func (w *network) mute(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[name], w.muted[name] = true, true
}

// wire is a's end of a connection to b.
type wire struct {
	net.Conn
	w    *network
	a, b string
}

func (x *wire) Write(p []byte) (int, error) {
	x.w.mu.Lock()
	muted := x.w.muted[x.a] || x.w.muted[x.b]
	x.w.carried[[2]string{x.a, x.b}] += len(p)
	x.w.mu.Unlock()
	if muted {
		return len(p), nil
	}
	return x.Conn.Write(p)
}

// disk is a file in memory.
type disk struct {
	mu      sync.Mutex // guards the fields below
	b       []byte
	corrupt func(off int64, b []byte) // changes what is read, as a lying node would
	full    int64                     // writes past this fail; zero: none
	slow    time.Duration             // what a write takes
}

func (d *disk) ReadAt(p []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := copy(p, d.b[off:])
	if d.corrupt != nil {
		d.corrupt(off, p[:n])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (d *disk) WriteAt(p []byte, off int64) (int, error) {
	time.Sleep(d.slow)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full > 0 && off+int64(len(p)) > d.full {
		return 0, errors.New("no space left on device")
	}
	return copy(d.b[off:], p), nil
}

// bench is a swarm on one simulated network, with one store.
type bench struct {
	t         *testing.T
	net       *network
	store     *mem.Store
	data      []byte
	object    objstore.Object
	challenge access.Challenge
	witness   *access.Witness // of all nodes, and of the stranger
	disks     []*disk
	ports     []*peer.Port
	configs   []Config
	results   []Progress
	errs      []error
	took      []time.Duration
	record    []bytes.Buffer

	recorded []Event
	cancel   []context.CancelCauseFunc
}

const key = "model.bin"

// swarmOf runs f in a bubble with n nodes prepared for an object of size bytes.
func swarmOf(t *testing.T, n int, size unit.Bytes, a string, f func(b *bench), options ...mem.Option) {
	creds, err := credentials()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(creds[0].Expires().Add(-24 * time.Hour))) // certificates are of today
		b := &bench{t: t, net: &network{ports: map[string]*listener{}, conns: map[string][]net.Conn{}, cut: map[string]bool{}, muted: map[string]bool{}, carried: map[[2]string]int{}}}
		b.store = mem.New(options...)
		b.data = make([]byte, size)
		rng := rand.NewChaCha8([32]byte{1})
		rng.Read(b.data)
		b.object = b.store.Set(key, b.data)
		b.challenge = access.Draw(b.object)
		if b.witness, err = b.challenge.Read(t.Context(), "job", b.store, b.object); err != nil {
			t.Fatal(err)
		}
		var members []Member
		for i := range n {
			members = append(members, Member{Name: nodeName(i), Addr: nodeName(i)})
		}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer b.net.pipes.Wait()
		defer wg.Wait()
		defer stop()
		b.record = make([]bytes.Buffer, n)
		for i := range n {
			port, err := peer.New(b.net.listen(nodeName(i)), peer.Options{
				Credentials: creds[i], Dial: b.net.dialer(nodeName(i)), Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() { port.Run(ctx) })
			d := &disk{b: make([]byte, size)}
			b.disks, b.ports = append(b.disks, d), append(b.ports, port)
			b.configs = append(b.configs, Config{
				Job: "job", Start: time.Now(), Self: i, Members: slices.Clone(members), Algorithm: a, Object: b.object,
				Layout: piece.Layout{Size: size, Piece: piece.DefaultSize(size, b.object.Checksum.Part)},
				Store:  b.store, File: d, Access: b.witness, Commit: func() error { return nil }, Network: port,
				Receive: peer.NewPool(16), Send: peer.NewPool(16),
				Recorder: NewRecorder(&b.record[i], "job", nodeName(i), time.Now()), Counters: new(Counters),
			})
		}
		f(b)
	})
}

// run runs all nodes to their end.
func (b *bench) run() {
	start := time.Now()
	b.results, b.errs, b.took = make([]Progress, len(b.configs)), make([]error, len(b.configs)), make([]time.Duration, len(b.configs))
	b.cancel = make([]context.CancelCauseFunc, len(b.configs))
	ctxs := make([]context.Context, len(b.configs))
	for i := range b.configs {
		ctxs[i], b.cancel[i] = context.WithCancelCause(b.t.Context())
	}
	var wg sync.WaitGroup
	for i, c := range b.configs {
		wg.Go(func() {
			defer b.cancel[i](nil)
			b.results[i], b.errs[i] = Run(ctxs[i], c)
			b.took[i] = b.results[i].DoneAt.Sub(start)
		})
	}
	wg.Wait()
}

// after lets f happen while the swarm runs.
func (b *bench) after(d time.Duration, f func()) { time.AfterFunc(d, f) }

// complete demands that these nodes have the object, verified so.
func (b *bench) complete(verified string, nodes ...int) {
	b.t.Helper()
	for _, i := range nodes {
		switch p := b.results[i]; {
		case b.errs[i] != nil:
			b.t.Errorf("%s: %v", nodeName(i), b.errs[i])
		case !p.Done || p.Have != unit.Bytes(len(b.data)) || verified != "" && p.Verified != verified:
			b.t.Errorf("%s: done %v, have %v, verified %q; want all, by %q", nodeName(i), p.Done, p.Have, p.Verified, verified)
		case b.disks[i] != nil && !bytes.Equal(b.disks[i].b, b.data): // a mirror has compared them
			b.t.Errorf("%s: the file differs", nodeName(i))
		}
	}
}

func (b *bench) storeBytes() (total unit.Bytes) {
	for _, p := range b.results {
		total += p.StoreBytes
	}
	return total
}

func (b *bench) faultsOf(i int) (s string) {
	for _, f := range b.results[i].Faults {
		s += f.Node + ": " + f.Cause + "\n"
	}
	return s
}

// events are what all nodes recorded.
func (b *bench) events() (all []Event) {
	for i := range b.record {
		for d := json.NewDecoder(&b.record[i]); ; {
			var e Event
			if err := d.Decode(&e); err == io.EOF {
				break
			} else if err != nil {
				b.t.Fatal(err)
			}
			all = append(all, e)
		}
		b.record[i].Reset()
	}
	b.recorded = append(b.recorded, all...)
	return b.recorded
}

// lastFromStore and firstFromPeer are when pieces came.
func (b *bench) lastFromStore() (t float64) {
	for _, e := range b.events() {
		if e.Kind == "piece" && e.From == StoreName {
			t = max(t, e.T)
		}
	}
	return t
}

func (b *bench) firstFromPeer() float64 {
	t := math.Inf(1)
	for _, e := range b.events() {
		if e.Kind == "piece" && e.From != StoreName {
			t = min(t, e.T)
		}
	}
	return t
}

func seq(n int) (s []int) {
	for i := range n {
		s = append(s, i)
	}
	return s
}

// slow is a store whose connections deliver at a fixed rate.
type slow struct {
	objstore.Store
	rate unit.Bandwidth
}

func (s slow) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	r, err := s.Store.ReadRange(ctx, o, off, n)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{pace.Reader(ctx, r, pace.New(s.rate)), r}, nil
}
