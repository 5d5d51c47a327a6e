package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/internal/pace"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/pki"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/mem"
	"github.com/freshet/freshet/unit"
)

// credentials are made once: keys cost time.
var credentials = sync.OnceValues(func() (list []*pki.Credentials, err error) {
	ca, err := pki.NewAuthority()
	for i := 0; err == nil && i < 4; i++ {
		var c *pki.Credentials
		c, err = ca.NewCredentials(pki.Node, fmt.Sprint("n", i))
		list = append(list, c)
	}
	return list, err
})

// pipes is a listener whose connections are pipes, so that time is the bubble's.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// link is what a node's link carries; zero: so much that no test sends it.
type link struct{ in, out unit.Bandwidth }

const ample = 20 * unit.MBps

// inBubble runs f with the ports of nodes n0, n1, … that have such links.
func inBubble(t *testing.T, links []link, f func(t *testing.T, ports []*peer.Port)) {
	creds, err := credentials()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(creds[0].Expires().Add(-24 * time.Hour))) // certificates are of today
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer stop()
		listeners := map[string]*pipes{}
		var ports []*peer.Port
		for i, l := range links {
			limit := func(r unit.Bandwidth) *pace.Limiter {
				if r == 0 {
					r = ample
				}
				return pace.New(r)
			}
			in, out := limit(l.in), limit(l.out)
			ln := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
			listeners[fmt.Sprint("n", i)] = ln
			port, err := peer.New(ln, peer.Options{
				Credentials: creds[i], In: in, Out: out, Log: slog.New(slog.DiscardHandler),
				Dial: func(ctx context.Context, _, addr string) (net.Conn, error) {
					to := listeners[addr]
					if to == nil {
						<-ctx.Done() // a machine that is off
						return nil, ctx.Err()
					}
					here, there := net.Pipe()
					select {
					case to.conns <- there:
						return pace.Conn(here, []*pace.Limiter{in}, []*pace.Limiter{out}), nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() { port.Run(ctx) })
			ports = append(ports, port)
		}
		f(t, ports)
	})
}

// all carries out the parts of all nodes in a step: by node to whom it sends.
func all(t *testing.T, ports []*peer.Port, to map[int][]int) (results []Result, errs []error) {
	steps := make([]Step, len(ports))
	for i := range steps {
		steps[i].ID = "probe-1"
	}
	for from, list := range to {
		for _, k := range list {
			steps[from].To = append(steps[from].To, Peer{fmt.Sprint("n", k), fmt.Sprint("n", k)})
			if k < len(steps) {
				steps[k].From = append(steps[k].From, fmt.Sprint("n", from))
			}
		}
	}
	results, errs = make([]Result, len(ports)), make([]error, len(ports))
	var wg sync.WaitGroup
	for i, port := range ports {
		wg.Go(func() { results[i], errs[i] = Run(t.Context(), port, steps[i]) })
	}
	wg.Wait()
	return results, errs
}

func near(t *testing.T, what string, got, want unit.Bandwidth) {
	t.Helper()
	if math.Abs(float64(got-want)) > 0.1*float64(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// Both ends say what the narrowest link in between carries, all of a node's connections together.
func TestRatesOfLinks(t *testing.T) {
	inBubble(t, []link{{out: 2 * unit.MBps}, {out: 6 * unit.MBps}, {in: 4 * unit.MBps}, {}}, func(t *testing.T, ports []*peer.Port) {
		for _, c := range []struct {
			to      map[int][]int
			in, out map[int]unit.Bandwidth // in MB/s
		}{
			{map[int][]int{0: {3}, 1: {2}}, map[int]unit.Bandwidth{3: 2, 2: 4}, map[int]unit.Bandwidth{0: 2, 1: 4}},
			{map[int][]int{0: {2, 3}, 1: {2, 3}}, nil, map[int]unit.Bandwidth{0: 2, 1: 6}},
			{map[int][]int{2: {0, 1, 3}}, nil, map[int]unit.Bandwidth{2: 20}},
			{map[int][]int{0: {3}, 1: {3}, 2: {3}}, map[int]unit.Bandwidth{3: 20}, nil},
		} {
			results, errs := all(t, ports, c.to)
			var sent, received unit.Bytes
			for i, r := range results {
				if errs[i] != nil {
					t.Errorf("%v: n%d: %v", c.to, i, errs[i])
				}
				if want, ok := c.in[i]; ok {
					near(t, fmt.Sprint(c.to, ": into n", i), r.In, want*unit.MBps)
				}
				if want, ok := c.out[i]; ok {
					near(t, fmt.Sprint(c.to, ": out of n", i), r.Out, want*unit.MBps)
				}
				if len(c.to[i]) == 0 && r.Out != 0 || r.In != 0 && len(c.to[i]) > 0 {
					t.Errorf("%v: n%d did what it was not to do: %+v", c.to, i, r)
				}
				sent, received = sent+r.Sent, received+r.Received
			}
			if sent == 0 || sent > received {
				t.Errorf("%v: %v were sent and %v received", c.to, sent, received)
			}
		}
	})
}

// Who is not there is named, and the others are measured all the same. Nobody else gets in.
func TestWhoIsNotThere(t *testing.T) {
	inBubble(t, []link{{}, {}, {}, {}}, func(t *testing.T, ports []*peer.Port) {
		results, errs := all(t, ports[:2], map[int][]int{0: {1, 9}})
		near(t, "to who is there", results[0].Out, ample)
		near(t, "from who is there", results[1].In, ample)
		if errs[1] != nil || errs[0] == nil || !strings.Contains(errs[0].Error(), "connect to n9 at n9: no answer in time") {
			t.Errorf("got %v, and %v at the other end", errs[0], errs[1])
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			conn, err := ports[2].Dial(t.Context(), "n1", "n1", "probe-1")
			if err == nil {
				_, _, err = conn.ReadFrame()
				conn.Close()
			}
			if _, ok := errors.AsType[*peer.Refused](err); !ok {
				t.Errorf("who is not expected: got %v", err)
			}
		})
		r, err := Run(t.Context(), ports[1], Step{ID: "probe-1", From: []string{"n0", "n3"}})
		if err == nil || err.Error() != "nothing came from n0, n3 within 4s" || r != (Result{}) {
			t.Errorf("nobody came: got %+v, %v", r, err)
		}
		wg.Wait()
	})
}

// A sender that says something else, or nothing, and a receiver that says too much, end it and do no harm.
func TestHostileEnds(t *testing.T) {
	for name, say := range map[string]func(c *peer.Conn){
		"nothing":       func(c *peer.Conn) {},
		"closes":        func(c *peer.Conn) { c.Close() },
		"other frames":  func(c *peer.Conn) { c.WriteFrame(99, []byte("boo")) },
		"a short count": func(c *peer.Conn) { c.WriteFrame(kindGo); c.WriteFrame(kindGot, []byte{1}) },
		"go and go":     func(c *peer.Conn) { c.WriteFrame(kindGo); c.WriteFrame(kindGo) },
		"all there is":  func(c *peer.Conn) { c.WriteFrame(kindGo); c.WriteFrame(kindGot, []byte(strings.Repeat("\xff", 8))) },
	} {
		inBubble(t, []link{{}, {}}, func(t *testing.T, ports []*peer.Port) {
			incoming, withdraw := ports[1].Offer("probe-1")
			defer withdraw()
			var wg sync.WaitGroup
			wg.Go(func() {
				c := <-incoming
				defer c.Close()
				say(c)
				for { // until the other end has had enough
					_, n, err := c.ReadFrame()
					if err == nil {
						_, err = io.CopyN(io.Discard, c, int64(n))
					}
					if err != nil {
						return
					}
				}
			})
			began := time.Now()
			r, err := Run(t.Context(), ports[0], Step{ID: "probe-1", To: []Peer{{"n1", "n1"}}})
			if name != "all there is" && (err == nil || r.Out != 0) {
				t.Errorf("a receiver says %s: got %+v, %v", name, r, err)
			}
			if r.Sent > most || time.Since(began) > Within+time.Second {
				t.Errorf("a receiver says %s: %v sent in %v", name, r.Sent, time.Since(began))
			}
			wg.Wait()
		})
		inBubble(t, []link{{}, {}}, func(t *testing.T, ports []*peer.Port) {
			var wg sync.WaitGroup
			wg.Go(func() {
				c, err := ports[0].Dial(t.Context(), "n1", "n1", "probe-1")
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				say(c)
				for {
					if _, n, err := c.ReadFrame(); err != nil {
						return
					} else if _, err := io.CopyN(io.Discard, c, int64(n)); err != nil {
						return
					}
				}
			})
			r, err := Run(t.Context(), ports[1], Step{ID: "probe-1", From: []string{"n0"}})
			if err == nil || r != (Result{}) {
				t.Errorf("a sender says %s: got %+v, %v", name, r, err)
			}
			wg.Wait()
		})
	}
}

// shared is a store all of whose readers together have a rate.
type shared struct {
	objstore.Store
	limit *pace.Limiter
	fails error // from the third read on
	reads *atomic.Int64
}

func (s shared) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	if k := s.reads.Add(1); s.fails != nil && k > 2 {
		return nil, s.fails
	}
	r, err := s.Store.ReadRange(ctx, o, off, n)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{pace.Reader(ctx, r, s.limit), r}, nil
}

func TestRateOfAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mem.New()
		o := m.Set("k", make([]byte, 9*unit.MiB))
		s := shared{Store: m, limit: pace.New(3 * unit.MBps), reads: new(atomic.Int64)}
		rate, read, err := Store(t.Context(), s, o)
		if near(t, "of the store", rate, 3*unit.MBps); err != nil || read < 3e6 || s.reads.Load() < 8 {
			t.Errorf("%v were read in %d requests, %v", read, s.reads.Load(), err)
		}
		s.limit = pace.New(30 * unit.MBps) // so that it begins anew
		if rate, read, err = Store(t.Context(), s, o); err != nil || read < o.Size {
			t.Errorf("of a faster one: %v, %v, %v", rate, read, err)
		}
		near(t, "of a faster one", rate, 30*unit.MBps)
		o.Ranges = false
		if rate, _, err = Store(t.Context(), s, o); err != nil || rate == 0 {
			t.Errorf("without ranges: %v, %v", rate, err)
		}
		o.Ranges, s.reads, s.fails = true, new(atomic.Int64), errors.New("no more")
		if rate, _, err = Store(t.Context(), s, o); rate != 0 || err == nil || err.Error() != "no more" {
			t.Errorf("of one that fails: got %v, %v", rate, err)
		}
		if _, _, err = Store(t.Context(), s, m.Set("small", make([]byte, 1000))); err == nil || !strings.Contains(err.Error(), "want one of 4 MiB or more") {
			t.Errorf("of a small object: %v", err)
		}
	})
}
