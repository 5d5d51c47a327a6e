package cluster_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/internal/lab/cluster"
)

func goroot() (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	return strings.TrimSpace(string(out)), err
}

// gateway is a bad one between the nodes and the store, on the store's host.
type gateway struct {
	s *stage

	mu    sync.Mutex // guards what follows
	reads int        // reads of works so far

	before func(n int, w http.ResponseWriter, r *http.Request) bool // the nth read, from 0, before it is passed on; true: it is answered
	body   func(n int, r *http.Request, b io.ReadCloser) io.ReadCloser
	head   func(n int) // before the nth request for a header
	heads  int
}

// Keys in a request's context: a read's number, and the connection that it came by.
type (
	nth  struct{}
	conn struct{}
)

// through starts the gateway, and returns the object's URL by way of it.
func (s *stage) through(g *gateway) string {
	s.Helper()
	g.s = s
	target, err := url.Parse(s.c.Endpoint())
	s.must(err)
	ln, err := s.lab.Listen("store", net.JoinHostPort(s.lab.Addr("store").String(), "9001"))
	s.must(err)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // the signature covers it
		},
		Transport: &http.Transport{
			DialContext:        func(ctx context.Context, _, addr string) (net.Conn, error) { return s.lab.Dial(ctx, "store", addr) },
			DisableCompression: true, MaxIdleConnsPerHost: 16,
		},
		ModifyResponse: func(r *http.Response) error {
			if n, ok := r.Request.Context().Value(nth{}).(int); ok && g.body != nil {
				r.Body = g.body(n, r.Request, r.Body)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		ErrorLog:     silent,
	}
	server := &http.Server{ErrorLog: silent, ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, conn{}, c) }, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		n, h := g.reads, g.heads
		var lo, hi int64
		fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &lo, &hi)
		if r.Method == http.MethodGet && hi-lo >= 64<<10 { // not what proves that a node may read, which is short
			g.reads++
			r = r.WithContext(context.WithValue(r.Context(), nth{}, n))
		} else {
			g.heads++
			n = -1
		}
		g.mu.Unlock()
		if n < 0 && g.head != nil {
			g.head(h)
		}
		if n >= 0 && g.before != nil && g.before(n, w, r) {
			return
		}
		proxy.ServeHTTP(w, r)
	})}
	var wg sync.WaitGroup
	wg.Go(func() { server.Serve(ln) })
	s.Cleanup(func() { server.Close(); wg.Wait() })
	return s.url + "?endpoint=http://" + ln.Addr().String()
}

// A store that refuses everything for ten seconds, once with a word on when to
// come back and once without.
func TestStoreStorm(t *testing.T) {
	for _, tt := range []struct {
		code  int
		after string
	}{{503, ""}, {503, "2"}, {429, ""}, {429, "2"}} {
		t.Run(fmt.Sprintf("%d%s", tt.code, strings.Repeat("after", min(1, len(tt.after)))), func(t *testing.T) {
			s := set(t, nil)
			var once sync.Once
			var end time.Time
			refused := 0
			g := &gateway{}
			g.before = func(n int, w http.ResponseWriter, _ *http.Request) bool {
				if n < 3 { // so that the job is well under way
					return false
				}
				g.mu.Lock()
				defer g.mu.Unlock()
				once.Do(func() { end = time.Now().Add(10 * time.Second) })
				if time.Now().After(end) {
					return false
				}
				refused++
				if tt.after != "" {
					w.Header().Set("Retry-After", tt.after)
				}
				w.WriteHeader(tt.code)
				return true
			}
			wait := s.broadcast(s.through(g))
			s.until("a node says that the store refuses", func(j freshet.Job) bool {
				for _, n := range j.Nodes {
					if strings.Contains(n.Waiting, "the store: ") && strings.Contains(n.Waiting, fmt.Sprint(tt.code)) {
						return true
					}
				}
				return false
			})
			s.ended(wait(), nil)
			s.signs(fmt.Sprintf(`store: trying again.*%d`, tt.code))
			t.Logf("%d requests were refused in ten seconds", refused)
			if refused == 0 || refused > 3*60 {
				s.Errorf("%d requests in ten seconds of storm by three nodes: they should ask, and not hammer", refused)
			}
		})
	}
}

// Bodies that end early: in good order as far as HTTP goes, or by a reset.
func TestStoreTruncates(t *testing.T) {
	s := set(t, nil)
	g := &gateway{body: func(n int, r *http.Request, b io.ReadCloser) io.ReadCloser {
		if n >= 6 {
			return b
		}
		return struct {
			io.Reader
			io.Closer
		}{io.LimitReader(b, 100<<10), b} // less than any request asks for
	}}
	s.ended(s.broadcast(s.through(g))(), nil)
	s.signs("store: trying again")
}

func TestStoreResets(t *testing.T) {
	s := set(t, nil)
	g := &gateway{}
	g.body = func(n int, r *http.Request, b io.ReadCloser) io.ReadCloser {
		if n >= 6 {
			return b
		}
		return &resetting{ReadCloser: b, left: 100 << 10, conn: r.Context().Value(conn{}).(net.Conn)}
	}
	s.ended(s.broadcast(s.through(g))(), nil)
	s.signs("store: trying again.*reset")
}

// A bit that is wrong in one reading is found and read again; the report says who had it.
func TestStoreWrongBytes(t *testing.T) {
	s := set(t, nil)
	g := &gateway{body: func(n int, _ *http.Request, b io.ReadCloser) io.ReadCloser {
		if n != 1 {
			return b
		}
		return &flipping{ReadCloser: b, at: 100_000}
	}}
	r := s.broadcast(s.through(g))()
	s.ended(r, nil)
	found := false
	for _, n := range r.Nodes {
		for _, f := range n.Faults {
			found = found || regexp.MustCompile(`^had piece \d+ wrong when it read it from the store; it was read again by n\d$`).MatchString(f.Cause)
		}
	}
	if !found || r.Verified != "source" {
		s.Errorf("verified %q; no node's report tells of the wrong piece", r.Verified)
	}
}

// A store that always gives the same wrong bytes cannot be told from the object
// by asking again: the store's own checksum says so, and nothing lands.
func TestStoreAlwaysWrong(t *testing.T) {
	s := set(t, nil)
	g := &gateway{}
	g.body = func(n int, r *http.Request, b io.ReadCloser) io.ReadCloser {
		var lo, hi int64
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &lo, &hi); err != nil || lo > 12345 || hi < 12345 {
			return b
		}
		return &flipping{ReadCloser: b, at: 12345 - lo}
	}
	cause := "read twice, and still the pieces make .*, the store says .*; the object in the store is damaged"
	s.ended(s.broadcast(s.through(g))(), map[string]string{"n1": cause, "n2": cause, "n3": cause})
}

// One node's connection gives a hundredth of what the others get. They take
// over what it has not begun, and read what it has begun before it does. A job without the fault goes before.
func TestStoreSlowConnection(t *testing.T) {
	s := set(t, nil)
	var bad atomic.Bool
	g := &gateway{}
	slow := s.lab.Addr("n2").String()
	g.body = func(n int, r *http.Request, b io.ReadCloser) io.ReadCloser {
		if host, _, _ := net.SplitHostPort(r.Context().Value(conn{}).(net.Conn).RemoteAddr().String()); host != slow || !bad.Load() {
			return b
		}
		return trickle{b}
	}
	source := s.through(g)
	well := s.broadcast(source)()
	s.ended(well, nil)
	if most := faultSizeBytes + faultSizeBytes/50; well.StoreBytes > most {
		s.Errorf("%d bytes left the store without a fault, want at most %d", well.StoreBytes, most)
	}
	_, err := s.c.Put("o", faultSize, 2)
	s.must(err)
	s.sum = digest(t, cluster.Bytes(faultSize, 2))
	bad.Store(true)
	r := s.broadcast(source)()
	s.ended(r, nil)
	t.Logf("%.1f s without, %.1f s with a connection at a hundredth; %d and %d bytes from the store", well.MakespanS, r.MakespanS, well.StoreBytes, r.StoreBytes)
	if r.MakespanS > 2.5*well.MakespanS {
		s.Errorf("a connection at a hundredth makes it take %.1f s, where it takes %.1f s", r.MakespanS, well.MakespanS)
	}
	for _, n := range r.Nodes {
		if named := strings.Contains(n.StoreSlow, "its connection to the store gives"); named != (n.Name == "n2") {
			s.Errorf("of %s the report says %q", n.Name, n.StoreSlow)
		}
	}
	if n := r.Node("n2"); n.StoreBytes > faultSizeBytes/6 {
		s.Errorf("n2 read %d of its third by itself: nobody took over", n.StoreBytes)
	}
}

const faultSizeBytes = int64(faultSize)

// trickle reads at 40 kB/s.
type trickle struct{ io.ReadCloser }

func (t trickle) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p[:min(len(p), 4000)])
	time.Sleep(time.Duration(n) * time.Second / 40_000)
	return n, err
}

type flipping struct {
	io.ReadCloser
	at int64 // the byte that is wrong
}

func (f *flipping) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	if f.at >= 0 && f.at < int64(n) {
		p[f.at] ^= 1
	}
	f.at -= int64(n)
	return n, err
}

// resetting resets the client's connection after so many bytes.
type resetting struct {
	io.ReadCloser
	left int
	conn net.Conn
}

func (r *resetting) Read(p []byte) (int, error) {
	if r.left <= 0 {
		r.conn.(*net.TCPConn).SetLinger(0)
		r.conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	n, err := r.ReadCloser.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

var silent = log.New(io.Discard, "", 0)
