// Package httpwire holds what the drivers that speak HTTP have in common: the
// transport, which must carry bulk data and never hang, and the reading of
// replies that cannot be taken on trust.
//
// HTTP/1.1 only: one connection carries one range at a time, which is what
// stores give their rate to, and costs a third of what HTTP/2 does. Nothing is
// asked for compressed, since offsets are offsets into the object.
package httpwire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/objstore"
)

// DialFunc opens a connection, as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Limits say how long a store may keep us waiting. Zero fields are 30 s.
type Limits struct {
	Header time.Duration // from the request sent to the reply's header received
	Stall  time.Duration // without a byte while a body is read or written
}

const (
	patience = 30 * time.Second
	dialing  = 10 * time.Second

	// One read of the kernel's buffer fills most of a 256 KiB block.
	bufferSize = 128 << 10

	longestHeader = 64 << 10 // of a reply, all its fields together; those of stores have some hundreds of bytes
)

// WithDefaults returns l with its zero fields filled in.
func (l Limits) WithDefaults() Limits {
	if l.Header <= 0 {
		l.Header = patience
	}
	if l.Stall <= 0 {
		l.Stall = patience
	}
	return l
}

// Configure makes t, which may be fresh, a transport for bulk data. A nil dial
// is a plain dialer.
func Configure(t *http.Transport, dial DialFunc, l Limits) {
	if dial == nil {
		dial = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialing)
		defer cancel()
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return awaiting(c), nil
	}
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	t.ForceAttemptHTTP2 = false
	t.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	t.Proxy = http.ProxyFromEnvironment
	t.DisableCompression = true
	t.MaxIdleConns = 0
	t.MaxIdleConnsPerHost = 256
	t.MaxConnsPerHost = 0
	t.IdleConnTimeout = 30 * time.Second
	t.TLSHandshakeTimeout = dialing
	t.ExpectContinueTimeout = time.Second
	t.ResponseHeaderTimeout = l.WithDefaults().Header
	t.MaxResponseHeaderBytes = longestHeader
	t.ReadBufferSize = bufferSize
	t.WriteBufferSize = bufferSize
}

// ErrStalled is the error of a transfer that brought no byte for too long.
var ErrStalled = errors.New("no byte came for too long")

// Failed turns the error of a request under ctx (as the caller of the driver
// gave it) and watched (as Watch made it) into one that may be shown: the
// address that net/http puts into its errors, which may hold a secret, is
// dropped, since callers name the key.
func Failed(ctx, watched context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(context.Cause(watched), ErrStalled) {
		return context.Cause(watched)
	}
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	var (
		unknown *x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
		verify  *tls.CertificateVerificationError
		plain   tls.RecordHeaderError
	)
	if errors.As(err, &unknown) || errors.As(err, &host) || errors.As(err, &invalid) ||
		errors.As(err, &verify) || errors.As(err, &plain) {
		return objstore.Permanent(err)
	}
	if errors.Is(err, io.EOF) { // a bare EOF looks like an end to some callers
		return fmt.Errorf("the server closed the connection: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// Watch is a context that ends with ErrStalled when a transfer stands still.
type Watch struct {
	limit  time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
	conn   atomic.Pointer[conn] // that the last request went out by; nil: none that could wait
}

// NewWatch returns a context below ctx and what ends it. The watch stands
// until Start; Stop must be called.
func NewWatch(ctx context.Context, limit time.Duration) (context.Context, *Watch) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &Watch{limit: limit, cancel: cancel}
	w.timer = time.AfterFunc(limit, func() { cancel(fmt.Errorf("%w (%v)", ErrStalled, limit)) })
	w.timer.Stop()
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		c := below(info.Conn)
		if c != nil {
			c.begin()
		}
		w.conn.Store(c)
	}}), w
}

// Start counts from now.
func (w *Watch) Start() { w.timer.Reset(w.limit) }

// Pause stops counting.
func (w *Watch) Pause() { w.timer.Stop() }

// expect notes that a body of n bytes has begun.
func (w *Watch) expect(n int64) {
	if c := w.conn.Load(); c != nil {
		c.expect(n)
	}
}

// Stop ends the context.
func (w *Watch) Stop() {
	w.timer.Stop()
	w.cancel(context.Canceled)
}
