package control

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/pki"
)

// Bounds of joining.
const (
	maxJoin      = 32 << 10 // request or answer, headers included
	joinWithin   = 20 * time.Second
	joinPatience = time.Minute // with a hub that lets others in first
	maxUses      = 100_000
	maxTokenTTL  = 365 * 24 * time.Hour

	JoinPath = "/v1/join" // of the request
)

type joinRequest struct {
	Token  string `json:"token"`  // ID
	Secret string `json:"secret"` // hex
	Name   string `json:"name"`
	CSR    string `json:"csr"` // PEM
}

type joinAnswer struct {
	Certificate string `json:"certificate,omitempty"` // PEM
	Authority   string `json:"authority,omitempty"`   // PEM
	Error       string `json:"error,omitempty"`       // "number text"
}

// NewToken issues a token with which uses (0: one) nodes can join within ttl
// (0: an hour). The text is for the one who may join and nobody else.
func (h *Hub) NewToken(ctx context.Context, uses int, ttl time.Duration) (text string, expires time.Time, err error) {
	if uses == 0 {
		uses = 1
	}
	if ttl == 0 {
		ttl = time.Hour
	}
	if uses < 0 || uses > maxUses {
		return "", time.Time{}, fail(ErrInvalid, "%d uses of a token: want 1 to %d", uses, maxUses)
	}
	if ttl < time.Second || ttl > maxTokenTTL {
		return "", time.Time{}, fail(ErrInvalid, "a token for %v: want 1s to %v", ttl, maxTokenTTL)
	}
	h.sweepTokens(ctx)
	t, err := pki.NewToken(h.authority.Fingerprint())
	if err != nil {
		return "", time.Time{}, err
	}
	expires = time.Now().Add(ttl).UTC().Truncate(time.Millisecond) // never longer than was asked for
	if _, err := put(ctx, h.store.tokens, t.ID, tokenRecord{Hash: pki.HashSecret(t.Secret), Left: uses, Expires: expires, Made: time.Now().UTC()}, 0); err != nil {
		return "", time.Time{}, fail(ErrUnavailable, "cannot write the token's record: %s", oneLine(err.Error()))
	}
	return t.Encode(), expires, nil
}

// sweepTokens forgets tokens a day after they expired; until then their bearer
// is told that they have.
func (h *Hub) sweepTokens(ctx context.Context) {
	var old []string
	all(ctx, h.store.tokens, func(id string, value []byte, _ uint64) {
		var r tokenRecord
		if json.Unmarshal(value, &r) == nil && time.Since(r.Expires) > 24*time.Hour {
			old = append(old, id)
		}
	})
	for _, id := range old {
		drop(ctx, h.store.tokens, id)
	}
}

// join admits a node that has a token.
func (h *Hub) join(ctx context.Context, r joinRequest) (certPEM []byte, err error) {
	if err := pki.CheckName(r.Name); err != nil {
		return nil, fail(ErrInvalid, "%v", err)
	}
	var secret pki.Secret
	b, err := hex.DecodeString(r.Secret)
	id, err2 := hex.DecodeString(r.Token)
	if err != nil || err2 != nil || len(b) != len(secret) || len(id) != 7 {
		return nil, fail(ErrInvalid, "malformed token")
	}
	copy(secret[:], b)
	certPEM, err = h.authority.Issue(pki.Node, r.Name, []byte(r.CSR))
	if err != nil {
		return nil, fail(ErrInvalid, "%v", err)
	}
	giveBack, err := h.takeToken(ctx, strings.ToLower(r.Token), secret, r.Name)
	if err != nil {
		return nil, err
	}
	if err := h.admit(ctx, r.Name, certPEM); err != nil {
		giveBack()
		return nil, err
	}
	return certPEM, nil
}

// admit makes a node known under a name that is free: nobody's, or one whose
// certificates have all expired, since who held them can prove nothing any more.
func (h *Hub) admit(ctx context.Context, name string, certPEM []byte) error {
	key, expires, err := pki.IssuedKey(certPEM)
	if err != nil {
		return err
	}
	h.keys.Lock()
	defer h.keys.Unlock()
	now := time.Now()
	n := &node{nodeRecord: nodeRecord{Keys: []nodeKey{{key, expires}}, Joined: now.UTC()}}
	var replaced uint64
	h.mu.Lock()
	if old := h.nodes[name]; old != nil && len(old.live(now)) == 0 {
		replaced = old.rev
	}
	h.mu.Unlock()
	n.rev, err = put(ctx, h.store.nodes, name, n.nodeRecord, replaced)
	if errors.Is(err, errChangedByOther) && replaced == 0 {
		return fail(ErrNameTaken, "a node named %s is registered already: choose another --name, start that agent with its own --state, or remove the old node first", name)
	}
	if err != nil {
		return fail(ErrUnavailable, "cannot write the node's record; try again")
	}
	h.mu.Lock()
	h.cutOffLocked(name) // what was opened before the old certificate expired
	h.nodes[name] = n
	h.mu.Unlock()
	h.log.Info("node joined", "node", name)
	return nil
}

// Enroll gives the agent in the hub's own process its credentials: those in
// path, or new ones, which it writes there.
func (h *Hub) Enroll(ctx context.Context, name, path string) (*pki.Credentials, error) {
	if err := pki.CheckName(name); err != nil {
		return nil, err
	}
	h.mu.Lock()
	n := h.nodes[name]
	h.mu.Unlock()
	c, err := pki.Load(path)
	if err == nil && n != nil && n.accepts(c.Key()) && c.Identity() == (pki.Identity{Name: name, Role: pki.Node, Cluster: h.authority.Fingerprint()}) {
		h.setOwn(name)
		return c, nil // the agent will renew them when it is time
	}
	req, err := pki.NewRequest()
	if err != nil {
		return nil, err
	}
	certPEM, err := h.authority.Issue(pki.Node, name, req.CSR())
	if err != nil {
		return nil, err
	}
	if err := h.admit(ctx, name, certPEM); err != nil {
		return nil, err
	}
	c, err = req.Accept(certPEM, h.authority.CertificatePEM(), h.authority.Fingerprint())
	if err != nil {
		return nil, err
	}
	h.setOwn(name)
	return c, c.Save(path)
}

// setOwn notes which node is in the hub's process: if that were removed, the
// hub would end with it.
func (h *Hub) setOwn(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.own = name
}

// AnswerJoin answers a request of a client without certificate that has been
// read from c: POST /v1/join, and nothing else. The caller bounds its body, and
// closes the connection.
func (h *Hub) AnswerJoin(ctx context.Context, c net.Conn, req *http.Request) {
	select {
	case h.joins <- struct{}{}:
		defer func() { <-h.joins }()
	default:
		respond(c, http.StatusServiceUnavailable, joinAnswer{Error: encodeError(fail(ErrBusy, "too many nodes are joining at once; try again"))})
		return
	}
	if req.Method != http.MethodPost || req.URL.Path != JoinPath {
		respond(c, http.StatusNotFound, joinAnswer{Error: encodeError(fail(ErrInvalid, "only POST %s is served without a certificate", JoinPath))})
		return
	}
	from, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	limit := h.failures.of(from)
	if limit.Tokens() < 1 {
		respond(c, http.StatusTooManyRequests, joinAnswer{Error: encodeError(fail(ErrBusy, "too many failed attempts to join from %s; wait a minute", from))})
		return
	}
	var r joinRequest
	if err := json.NewDecoder(io.LimitReader(req.Body, maxJoin)).Decode(&r); err != nil {
		limit.Allow()
		respond(c, http.StatusBadRequest, joinAnswer{Error: encodeError(fail(ErrInvalid, "unreadable request"))})
		return
	}
	ctx, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	certPEM, err := h.join(ctx, r)
	if err != nil {
		limit.Allow()
		h.log.Warn("refused to let a node join", "name", peer.Printable(r.Name, 64), "from", from, "err", err)
		respond(c, http.StatusForbidden, joinAnswer{Error: encodeError(err)})
		return
	}
	respond(c, http.StatusOK, joinAnswer{Certificate: string(certPEM), Authority: string(h.authority.CertificatePEM())})
}

func respond(w io.Writer, status int, a joinAnswer) {
	b, _ := json.Marshal(a)
	resp := http.Response{
		StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Close: true, ContentLength: int64(len(b)),
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(b)),
	}
	resp.Write(w) // if this fails the caller hears nothing, and asks again
}

// failures hold back addresses that keep failing to join: ten at once, then
// one in three seconds.
type failures struct {
	mu sync.Mutex // guards by
	by map[string]*rate.Limiter
}

func (f *failures) of(addr string) *rate.Limiter {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l, ok := f.by[addr]; ok {
		return l
	}
	const most = 4096
	for old, l := range f.by { // forget those that behaved, and if nobody did, all
		if len(f.by) < most {
			break
		}
		if l.Tokens() >= 10 {
			delete(f.by, old)
		}
	}
	if len(f.by) >= most {
		clear(f.by)
	}
	l := rate.NewLimiter(rate.Every(3*time.Second), 10)
	f.by[addr] = l
	return l
}

// JoinConfig is what Join needs.
type JoinConfig struct {
	Hub   string // HOST:PORT
	Token string
	Name  string
	Log   *slog.Logger // nil: slog.Default()

	// Dial reaches the hub. nil: a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Join exchanges a token for credentials. The hub is verified against the
// token before it is shown the secret. The error is one of ErrTokenUnknown,
// ErrTokenExpired, ErrTokenUsed, ErrNameTaken, ErrBusy, ErrInvalid, a
// *pki.OtherClusterError, or that the hub cannot be reached. Where many nodes
// join at once the hub turns some away; they try on for a minute.
func Join(ctx context.Context, c JoinConfig) (*pki.Credentials, error) {
	token, err := pki.ParseToken(c.Token)
	if err != nil {
		return nil, err
	}
	if err := pki.CheckName(c.Name); err != nil {
		return nil, err
	}
	req, err := pki.NewRequest()
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(joinRequest{Token: token.ID, Secret: hex.EncodeToString(token.Secret[:]), Name: c.Name, CSR: string(req.CSR())})
	if err != nil {
		return nil, err
	}
	for n, began := 1, time.Now(); ; n++ {
		a, err := c.ask(ctx, token, body)
		if err == nil {
			creds, err := req.Accept([]byte(a.Certificate), []byte(a.Authority), token.CAFingerprint)
			if err != nil {
				return nil, fmt.Errorf("join the cluster at %s: %w", c.Hub, err)
			}
			return creds, nil
		}
		if !errors.Is(err, ErrBusy) && !errors.Is(err, errTurnedAway) || time.Since(began) > joinPatience {
			return nil, err
		}
		if n == 1 {
			cmp.Or(c.Log, slog.Default()).Warn("cannot join the cluster yet, trying on", "err", err)
		}
		select {
		case <-time.After(jitter(n)):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// errTurnedAway is a connection that the hub's port closed: it takes only so many of those who have no certificate.
var errTurnedAway = errors.New("it closes the connection without an answer: too many may be joining at once, or it is no control plane")

// turnedAway is err, or errTurnedAway if the other end closed the connection.
func turnedAway(err error) error {
	for _, e := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, e) {
			return errTurnedAway
		}
	}
	return err
}

// ask asks the hub once.
func (c *JoinConfig) ask(ctx context.Context, token pki.Token, body []byte) (a joinAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, joinWithin+dialBack)
	defer cancel()
	dial := c.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	began := time.Now()
	raw, err := dial(ctx, "tcp", c.Hub)
	if err != nil {
		return a, unreached(c.Hub, err, began)
	}
	defer raw.Close()
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	t := tls.Client(raw, pki.JoinTLS(token.CAFingerprint))
	if err := t.HandshakeContext(ctx); err != nil {
		return a, fmt.Errorf("join the cluster at %s: %w", c.Hub, turnedAway(err))
	}
	if a, err = post(t, c.Hub, body); err != nil {
		return a, fmt.Errorf("join the cluster at %s: %w", c.Hub, err)
	}
	return a, nil
}

func post(c net.Conn, host string, body []byte) (a joinAnswer, err error) {
	req, err := http.NewRequest(http.MethodPost, "https://"+host+JoinPath, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Close = true
	if err := req.Write(c); err != nil {
		return a, turnedAway(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(io.LimitReader(c, maxJoin)), req)
	if err != nil {
		return a, fmt.Errorf("read the hub's answer: %w", turnedAway(err))
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		return a, fmt.Errorf("read the hub's answer (%s): %w", resp.Status, err)
	}
	if a.Error != "" {
		return a, decodeError(a.Error)
	}
	return a, nil
}
