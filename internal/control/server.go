package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/freshet/freshet/internal/pki"
)

// core is the embedded NATS server. It listens nowhere; its connections are
// pipes made by connect, each admitted by a nonce.
type core struct {
	srv *server.Server

	mu     sync.Mutex              // guards nonces
	nonces map[string]*server.User // one-time password → who comes with it
}

// startCore starts the server. With a directory it has JetStream, in it, and
// syncs each record before it acknowledges it.
func startCore(dir string, log *slog.Logger) (*core, error) {
	c := &core{nonces: map[string]*server.User{}}
	opts := &server.Options{
		ServerName:                 "freshet",
		DontListen:                 true,
		NoLog:                      true,
		NoSigs:                     true,
		NoSystemAccount:            true,
		MaxPayload:                 maxPayload,
		MaxPending:                 32 << 20, // of a connection that reads too slowly, before it is closed
		WriteDeadline:              10 * time.Second,
		PingInterval:               10 * time.Second,
		MaxPingsOut:                2,
		MaxSubs:                    256,
		MaxControlLine:             2 * maxLine,
		AuthTimeout:                10,
		DisableShortFirstPing:      true,
		CustomClientAuthentication: c,
	}
	if dir != "" {
		opts.JetStream = true
		opts.StoreDir = dir
		opts.SyncAlways = true // an acknowledged record survives a crash
		opts.JetStreamMaxMemory = 256 << 20
		opts.JetStreamMaxStore = 8 << 30
		opts.DisableJetStreamBanner = true
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("start the embedded NATS server: %w", err)
	}
	srv.SetLoggerV2(natsLog{log}, false, false, false)
	c.srv = srv
	srv.Start()
	if !srv.ReadyForConnections(10 * time.Second) {
		c.close()
		return nil, errors.New("start the embedded NATS server: not ready after 10s")
	}
	if dir != "" && !srv.JetStreamEnabled() {
		c.close()
		return nil, fmt.Errorf("start the embedded NATS server: cannot store records in %s: is the directory writable, and has the disk space?", dir)
	}
	return c, nil
}

func (c *core) close() {
	c.srv.Shutdown()
	c.srv.WaitForShutdown()
}

// admit returns the one-time password for a connection of u, and what takes it
// back if it has not been used.
func (c *core) admit(u *server.User) (password string, revoke func()) {
	password = rand.Text() + rand.Text()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nonces[password] = u
	return password, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.nonces, password)
	}
}

// Check is the server's question whether a connection may come in
// (server.Authentication). Also a second CONNECT on one connection gets here,
// and fails since its nonce is gone.
func (c *core) Check(conn server.ClientAuthentication) bool {
	c.mu.Lock()
	u, ok := c.nonces[conn.GetOpts().Password]
	delete(c.nonces, conn.GetOpts().Password)
	c.mu.Unlock()
	if !ok || u.Username != conn.GetOpts().Username {
		return false
	}
	conn.RegisterUser(u)
	return true
}

// connect is the hub's own connection, which may do everything.
func (c *core) connect() (*nats.Conn, error) {
	const name = "hub"
	password, revoke := c.admit(&server.User{Username: name})
	defer revoke()
	nc, err := nats.Connect("nats://embedded", nats.InProcessServer(c.srv), nats.UserInfo(name, password),
		nats.Name("freshet hub"), nats.NoReconnect(), nats.SkipHostLookup(), nats.Timeout(10*time.Second),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // a full subscription loses snapshots, which are repeated
	if err != nil {
		return nil, fmt.Errorf("connect to the embedded NATS server: %w", err)
	}
	return nc, nil
}

// permissions is what a client of that identity may do.
func permissions(who pki.Identity) *server.Permissions {
	own := inbox(string(who.Role), who.Name) + ".>"
	switch who.Role {
	case pki.Node:
		return &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{"up." + who.Name + ".>"}},
			Subscribe: &server.SubjectPermission{Allow: []string{"down." + who.Name + ".>", own}},
			Response:  &server.ResponsePermission{MaxMsgs: 1, Expires: 2 * time.Minute},
		}
	case pki.Admin:
		return &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{"api.>"}},
			Subscribe: &server.SubjectPermission{Allow: []string{"watch.>", own}},
		}
	}
	none := &server.SubjectPermission{Deny: []string{">"}}
	return &server.Permissions{Publish: none, Subscribe: none}
}

// natsLog passes on what the server finds wrong.
type natsLog struct{ log *slog.Logger }

func (l natsLog) say(level slog.Level, format string, args []any) {
	l.log.Log(context.Background(), level, "embedded NATS server", "says", oneLine(fmt.Sprintf(format, args...)))
}

func (l natsLog) Noticef(string, ...any)            {}
func (l natsLog) Debugf(string, ...any)             {}
func (l natsLog) Tracef(string, ...any)             {}
func (l natsLog) Warnf(format string, args ...any)  { l.say(slog.LevelDebug, format, args) }
func (l natsLog) Fatalf(format string, args ...any) { l.say(slog.LevelError, format, args) }
func (l natsLog) Errorf(format string, args ...any) {
	level := slog.LevelDebug // about a client, which is told itself
	if text := fmt.Sprintf(format, args...); strings.Contains(text, "JetStream") || strings.Contains(text, "ilestore") {
		level = slog.LevelError
	}
	l.say(level, format, args)
}
