package freshet

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/internal/metrics"
	"github.com/freshet/freshet/internal/pki"
)

// Bounds of a request over HTTP.
const (
	maxWebRequest = 32 << 10
	webWithin     = 20 * time.Second
	healthWithin  = 10 * time.Second // for a check of the health
	keepHealth    = 2 * time.Second  // how long what it found stands
)

// web is what a node's port serves over HTTP: one request a connection, since
// the callers are strangers and scrapers.
//
//	POST /v1/join  where the control plane runs; no certificate needed, but a token
//	GET  /healthz  no certificate needed: "ok", or 503 and what is wrong
//	GET  /livez    likewise: "ok" as long as the process answers at all
//	GET  /metrics  with the certificate of a monitor or an admin
type web struct {
	hub     *control.Hub      // nil: no control plane here
	asked   func(c *tls.Conn) // a request is there
	health  *health
	revoked func(key string) bool // whether a certificate was withdrawn, or its node removed
	metrics http.Handler
}

func (n *Node) web() *web {
	p := metrics.Process{Version: n.config.Version, Refusals: n.port.Refusals, Log: n.log}
	if n.hub != nil {
		p.Census = n.hub.Census
	}
	if w := n.worker; w != nil {
		p.Agent = &metrics.Agent{Swarm: &w.counters, Receive: w.receive, Send: w.send, Retries: w.retries.Load, Jobs: w.tally.counts}
	}
	revoked := func(key string) bool { return n.port.Revoked(key) || n.hub != nil && n.hub.Revoked(key) }
	return &web{hub: n.hub, asked: n.port.Asked, health: newHealth(n.Healthy), revoked: revoked, metrics: metrics.Handler(p)}
}

// serve answers the one request of a connection.
func (s *web) serve(ctx context.Context, c *tls.Conn, who pki.Identity) {
	defer c.Close()
	c.SetDeadline(time.Now().Add(webWithin))
	defer context.AfterFunc(ctx, func() { c.Close() })()
	req, err := http.ReadRequest(bufio.NewReader(io.LimitReader(c, maxWebRequest)))
	if err != nil {
		return
	}
	body, err := io.ReadAll(req.Body)                       // who sends half of it gets no further
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) { // which is that of one that is too long, and will not be understood
		return
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	s.asked(c)
	if req.URL.Path == control.JoinPath && s.hub != nil {
		s.hub.AnswerJoin(ctx, c, req)
		return
	}
	a := &answer{status: http.StatusOK, header: http.Header{}}
	s.answer(a, req.WithContext(ctx), who, pki.PeerKey(c.ConnectionState()))
	a.send(c, req)
}

func (s *web) answer(a *answer, req *http.Request, who pki.Identity, key string) {
	path := req.URL.Path
	switch {
	case path != "/healthz" && path != "/livez" && path != "/metrics":
		http.Error(a, "there are /healthz, /livez and /metrics here", http.StatusNotFound)
	case req.Method != http.MethodGet && req.Method != http.MethodHead:
		a.header.Set("Allow", "GET, HEAD")
		http.Error(a, path+" is only read", http.StatusMethodNotAllowed)
	case path == "/healthz" || path == "/livez":
		if path == "/healthz" {
			if err := s.health.ask(req.Context()); err != nil {
				http.Error(a, strings.ReplaceAll(err.Error(), "\n", "; "), http.StatusServiceUnavailable)
				return
			}
		}
		a.header.Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(a, "ok\n")
	case who == pki.Identity{}:
		http.Error(a, "metrics are for who presents a certificate: \"freshet monitor --out DIR\" makes one for Prometheus", http.StatusUnauthorized)
	case who.Role != pki.Monitor && who.Role != pki.Admin:
		http.Error(a, "metrics are for a monitor's or an admin's certificate, and this is that of "+who.String(), http.StatusForbidden)
	case s.revoked(key):
		http.Error(a, "the certificate of "+who.String()+" was withdrawn", http.StatusForbidden)
	default:
		s.metrics.ServeHTTP(a, req)
	}
}

// answer is a http.ResponseWriter that keeps what is written until it is sent.
type answer struct {
	status int
	header http.Header
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }

func (a *answer) send(c io.Writer, req *http.Request) {
	resp := http.Response{
		Request: req, StatusCode: a.status, ProtoMajor: 1, ProtoMinor: 1, Close: true, ContentLength: int64(a.body.Len()),
		Header: a.header, Body: io.NopCloser(&a.body),
	}
	resp.Write(c) // if this fails the caller hears nothing, and asks again
}

// health is what /healthz says. Anybody may ask, and a check touches disks and the control
// plane's records: so there is one at a time, and what it found stands for a while.
type health struct {
	check func(context.Context) error

	turn chan struct{} // holds a token while somebody has to do with what follows
	at   time.Time     // when the last check ended; zero: there was none
	err  error         // what it found
}

func newHealth(check func(context.Context) error) *health {
	return &health{check: check, turn: make(chan struct{}, 1)}
}

// ask returns what the last check found, which may be keepHealth ago.
func (h *health) ask(ctx context.Context) error {
	patience := time.NewTimer(healthWithin)
	defer patience.Stop()
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-patience.C:
		return fmt.Errorf("a look at the state directories and roots has not ended for %v: a disk or a mount hangs", healthWithin)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if h.at.IsZero() || time.Since(h.at) >= keepHealth {
		h.err = h.check(ctx)
		h.at = time.Now()
	}
	return h.err
}

// Healthy says whether this process can do its work: state directories that can
// be written, a control plane whose records answer, an agent that its control
// plane hears and whose roots can be written. The error says what is wrong.
//
// A process that is unhealthy may still be of use: a control plane that is away
// does not end the jobs that run. Who restarts what is not healthy wants to ask
// whether it lives instead.
func (n *Node) Healthy(ctx context.Context) error {
	dirs := []string{n.config.State}
	var errs []error
	if n.hub != nil {
		dirs = append(dirs, n.hub.Dirs()...)
		errs = append(errs, n.hub.Healthy(ctx))
	}
	for _, dir := range dirs {
		if err := writable(dir); err != nil {
			errs = append(errs, fmt.Errorf("state directory: %w", err))
		}
	}
	if n.worker != nil {
		if a := n.agent.Load(); a == nil {
			errs = append(errs, errors.New("starting"))
		} else {
			errs = append(errs, a.Healthy(ctx))
		}
		for _, dir := range n.worker.roots.Dirs() {
			_, err := n.worker.roots.Writable(dir)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// tally counts this node's parts of jobs.
type tally struct {
	mu      sync.Mutex // guards what follows
	running int64
	ended   map[control.State]int64
}

func (t *tally) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running++
}

func (t *tally) end(s control.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	if t.ended == nil {
		t.ended = map[control.State]int64{}
	}
	t.ended[s]++
}

func (t *tally) counts() (running int64, ended map[control.State]int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.running, maps.Clone(t.ended)
}
