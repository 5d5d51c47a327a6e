package s3serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/valyala/fasthttp"
	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3api"
	"github.com/versity/versitygw/s3api/middlewares"
	"github.com/versity/versitygw/s3api/utils"

	"github.com/freshet/freshet/internal/pace"
	"github.com/freshet/freshet/objstore/limit"
	"github.com/freshet/freshet/unit"
)

// Config says what to serve. The zero value of everything but Dir and Listen
// is right for most.
type Config struct {
	Dir    string // must exist; its directories are the buckets
	Listen string // host:port; port 0 takes a free one

	AccessKey, SecretKey string // both empty: random ones, see Server.Keys
	Region               string // empty: us-east-1

	PerConnection limit.Distribution // zero: no limit
	PerClient     limit.Distribution // all connections of one IP address, on loopback all there are; zero: no limit
	Total         unit.Bandwidth     // ≤ 0: no limit
	Seed          uint64             // what both are drawn with

	Log *slog.Logger // what the server complains of: of files as warnings, of clients at level debug; nil: nothing

	beside bool // tests: as if the file system had no extended attributes
}

// Server is a running store.
type Server struct {
	endpoint       string
	access, secret string
	gate           *gate
	bytes          atomic.Int64
	close          func() error
}

// connections and requests at a time; more are refused with 503.
const atOnce = 8192

// running holds a token while a Server is: the library and the current
// directory are the process's.
var running = make(chan struct{}, 1)

// Start serves cfg.Dir until Close, or until ctx ends. The current directory of
// the process is cfg.Dir meanwhile.
func Start(ctx context.Context, cfg Config) (_ *Server, err error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("serve directory %q: %w", cfg.Dir, err)
	}
	if fi, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("serve directory: %w", err)
	} else if !fi.IsDir() {
		return nil, fmt.Errorf("serve directory: %s is not a directory", dir)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{access: cfg.AccessKey, secret: cfg.SecretKey}
	switch {
	case s.access == "" && s.secret == "":
		s.access, s.secret = rand.Text(), rand.Text()+rand.Text()
	case s.access == "" || s.secret == "":
		return nil, errors.New("serve: access key and secret key must be given together, or neither")
	}
	select {
	case running <- struct{}{}:
	default:
		return nil, errors.New("serve: this process already serves a directory")
	}

	undo := []func() error{func() error { <-running; return nil }}
	stop := func() (err error) {
		for i := len(undo) - 1; i >= 0; i-- {
			err = errors.Join(err, undo[i]())
		}
		return err
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()

	ln, err := (&net.ListenConfig{Control: congestion}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	undo = append(undo, func() error {
		if err := ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	s.endpoint = "http://" + reachable(ln.Addr().(*net.TCPAddr))
	s.gate = &gate{
		Listener:      ln,
		perConnection: cfg.PerConnection, perClient: cfg.PerClient, totalRate: cfg.Total, total: pace.New(cfg.Total),
		open: make(map[*conn]struct{}), clients: make(map[string]*client),
	}
	s.gate.reseed(cfg.Seed)

	before, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("serve %s: current directory: %w", dir, err)
	}
	attrs, err := attributes(dir, cfg.beside)
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	px, err := posix.New(dir, attrs, posix.PosixOpts{IOBufferSize: 256 << 10})
	if err != nil {
		return nil, fmt.Errorf("serve %s: %w", dir, err)
	}
	undo = append(undo, func() error { px.Shutdown(); return os.Chdir(before) })
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("serve %s: %w", dir, err)
	}
	undo = append(undo, root.Close)

	srv, err := s.library(ctx, &bucket{Posix: px, root: root, attrs: attrs, bytes: &s.bytes, log: cfg.Log}, cfg)
	if err != nil {
		return nil, fmt.Errorf("serve %s: %w", dir, err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(s.gate) }()
	undo = append(undo, func() error {
		// The listener first: nothing is accepted behind hangUp's back.
		err := ln.Close()
		s.gate.hangUp()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if e := srv.ShutdownWithContext(ctx); e != nil && !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, fmt.Errorf("requests still under way: %w", e))
		}
		return errors.Join(err, <-served)
	})

	once := sync.OnceValue(func() error {
		if err := stop(); err != nil {
			return fmt.Errorf("stop serving %s: %w", dir, err)
		}
		return nil
	})
	unwatch := context.AfterFunc(ctx, func() { once() })
	s.close = func() error { unwatch(); return once() }
	return s, nil
}

// library builds versitygw's S3 server over b and returns its handler under a
// server of ours.
func (s *Server) library(ctx context.Context, b *bucket, cfg Config) (*fasthttp.Server, error) {
	region := cfg.Region
	if region == "" {
		region = "us-east-1"
	}
	utils.SetBucketNameValidationStrict(false) // a directory has the name it has
	root := middlewares.RootUserConfig{Access: s.access, Secret: s.secret}
	iam := auth.NewIAMServiceSingle(auth.Account{Access: s.access, Secret: s.secret, Role: auth.RoleAdmin})

	secret := "/" + rand.Text()
	got := make(chan *fiber.App, 1)
	bound := make(chan struct{})
	api, err := s3api.New(b, root, region, iam, nil, nil, nil, nil,
		s3api.WithQuiet(), s3api.WithKeepAlive(), s3api.WithDisableACL(),
		s3api.WithConcurrencyLimiter(atOnce, atOnce), s3api.WithMpMaxParts(10_000),
		s3api.WithOnListen(func() { close(bound) }),
		s3api.WithRoute(http.MethodGet, secret, func(c fiber.Ctx) error {
			select {
			case got <- c.App():
			default:
			}
			return c.SendStatus(http.StatusNoContent)
		}))
	if err != nil {
		return nil, err
	}
	app, err := handlerOf(ctx, api, bound, got, secret)
	if err != nil {
		return nil, fmt.Errorf("start of the S3 library: %w", err)
	}
	from := app.Server()
	return &fasthttp.Server{
		Handler:            app.Handler(),
		ErrorHandler:       from.ErrorHandler,
		Name:               from.Name,
		Concurrency:        from.Concurrency,
		ReadBufferSize:     from.ReadBufferSize,
		MaxRequestBodySize: from.MaxRequestBodySize,
		StreamRequestBody:  from.StreamRequestBody,
		IdleTimeout:        5 * time.Minute,
		// Its pool's sweeper outlives the server by as much as this.
		MaxIdleWorkerDuration: time.Second,
		Logger:                complaints{cfg.Log},
	}, nil
}

// handlerOf runs api on a socket nobody else can reach for as long as it takes
// to ask it for its application.
func handlerOf(ctx context.Context, api *s3api.S3ApiServer, bound <-chan struct{}, got <-chan *fiber.App, path string) (_ *fiber.App, err error) {
	tmp, err := os.MkdirTemp("", "freshet-s3-") // mode 0700
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	sock := filepath.Join(tmp, "s")
	served := make(chan error, 1)
	go func() { served <- api.ServeMultiPort([]string{sock}) }()
	select {
	case <-bound:
	case err := <-served:
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", sock)
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://s"+path, nil)
	if err == nil {
		var resp *http.Response
		if resp, err = tr.RoundTrip(req); err == nil {
			resp.Body.Close()
		}
	}
	tr.CloseIdleConnections()
	if err = errors.Join(err, api.ShutDown()); err != nil {
		return nil, err
	}
	<-served // says only that its listener was closed
	select {
	case app := <-got:
		return app, nil
	default:
		return nil, errors.New("it did not answer as expected")
	}
}

// complaints is fasthttp's logger.
type complaints struct{ log *slog.Logger }

func (c complaints) Printf(format string, args ...any) {
	c.log.Debug("S3 server", "says", fmt.Sprintf(format, args...))
}

// reachable is a as something on this machine can dial it.
func reachable(a *net.TCPAddr) string {
	if a.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", fmt.Sprint(a.Port))
	}
	return a.String()
}

// Endpoint is the server's URL, to be used with path-style addressing.
func (s *Server) Endpoint() string { return s.endpoint }

// Addr is the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.gate.Addr() }

// Keys are the access key and the secret key of the one account.
func (s *Server) Keys() (access, secret string) { return s.access, s.secret }

// Connections lists the open connections and the last few thousand closed ones,
// in the order in which they were accepted.
func (s *Server) Connections() []Connection { return s.gate.connections() }

// Bytes is how many bytes of objects were sent to clients, headers not counted.
func (s *Server) Bytes() unit.Bytes { return unit.Bytes(s.bytes.Load()) }

// Reseed starts the drawing of rates anew: connections accepted from now on get
// the rates that a server started with this seed would give.
func (s *Server) Reseed(seed uint64) { s.gate.reseed(seed) }

// Close stops the server: connections are cut off, and it returns when nothing
// of it is left. A second Close returns what the first did.
func (s *Server) Close() error { return s.close() }

var _ io.ReaderFrom = (*conn)(nil)
