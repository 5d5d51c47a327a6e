package control

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/pki"
)

func TestTokens(t *testing.T) {
	h := newHub(t)
	other := startHub(t, Config{State: t.TempDir()}, "127.0.0.1:0")
	ctx := testContext(t)
	token := func(uses int, ttl time.Duration) string {
		s, _, err := h.NewToken(ctx, uses, ttl)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	join := func(token, name string) error {
		_, err := Join(ctx, JoinConfig{Hub: h.addr, Token: token, Name: name})
		return err
	}
	one := token(0, 0)
	if err := join(one, "a"); err != nil {
		t.Fatal(err)
	}
	if err := join(one, "b"); !errors.Is(err, ErrTokenUsed) {
		t.Errorf("used twice: got %v", err)
	}
	wrong, _ := pki.ParseToken(token(1, 0))
	wrong.Secret[3]++
	if err := join(wrong.Encode(), "b"); !errors.Is(err, ErrTokenUnknown) {
		t.Errorf("wrong secret: got %v", err)
	}
	wrong.ID = "00000000000000"
	if err := join(wrong.Encode(), "b"); !errors.Is(err, ErrTokenUnknown) {
		t.Errorf("wrong id: got %v", err)
	}
	fresh := token(1, 0)
	if err := join(fresh, "a"); !errors.Is(err, ErrNameTaken) {
		t.Errorf("name taken: got %v", err)
	}
	if err := join(fresh, "b"); err != nil {
		t.Errorf("after a failure that was not the token's: got %v", err)
	}
	short := token(1, time.Second)
	await(t, "the token expires", func() bool {
		id, _ := pki.ParseToken(short)
		var r tokenRecord
		get(ctx, h.store.tokens, id.ID, &r)
		return time.Now().After(r.Expires)
	})
	if err := join(short, "c"); !errors.Is(err, ErrTokenExpired) {
		t.Errorf("expired: got %v", err)
	}
	_, err := Join(ctx, JoinConfig{Hub: other.addr, Token: token(1, 0), Name: "c"})
	if e, _ := errors.AsType[*pki.OtherClusterError](err); e == nil {
		t.Errorf("another cluster's hub: got %v", err)
	}
	if _, err := Join(ctx, JoinConfig{Hub: "127.0.0.1:1", Token: fresh, Name: "c"}); err == nil || !strings.Contains(err.Error(), "cannot reach the control plane at 127.0.0.1:1: connection refused; ") {
		t.Errorf("no hub: got %v", err)
	}
	for name, f := range map[string]func() error{
		"uses": func() error { _, _, err := h.NewToken(ctx, -1, 0); return err },
		"ttl":  func() error { _, _, err := h.NewToken(ctx, 0, -1); return err },
	} {
		if err := f(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if b := h.store; b != nil { // no secret is kept
		all(ctx, b.tokens, func(_ string, value []byte, _ uint64) {
			tok, _ := pki.ParseToken(one)
			if bytes.Contains(value, []byte(fmt.Sprintf("%x", [16]byte(tok.Secret)))) {
				t.Error("a record holds a token's secret")
			}
		})
	}
}

// Two at once cannot both use a token for one.
func TestTokenRace(t *testing.T) {
	h := newHub(t)
	ctx := testContext(t)
	token, _, err := h.NewToken(ctx, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = Join(ctx, JoinConfig{Hub: h.addr, Token: token, Name: fmt.Sprintf("n%d", i)})
		})
	}
	wg.Wait()
	in := 0
	for _, err := range errs {
		if err == nil {
			in++
		} else if !errors.Is(err, ErrTokenUsed) {
			t.Errorf("got %v", err)
		}
	}
	if in != 2 {
		t.Errorf("%d joined with a token for 2", in)
	}
}

// Where many nodes join at once the hub's port closes the connections of some, before the handshake or after it, and the hub
// turns others away. They try on.
func TestJoinWhereManyDo(t *testing.T) {
	h := newHub(t)
	ctx := testContext(t)
	token, _, err := h.NewToken(ctx, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	full, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer full.Close()
	wg.Go(func() {
		for greet := true; ; greet = false {
			c, err := full.Accept()
			if err != nil {
				return
			}
			if greet {
				tls.Server(c, h.creds.JoinServerTLS(peer.ProtocolHTTP)).HandshakeContext(ctx)
			}
			c.Close()
		}
	})
	attempts := 0
	_, err = Join(ctx, JoinConfig{Hub: h.addr, Token: token, Name: "n1", Log: testLog(t), Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		switch attempts++; attempts {
		case 1, 2:
			addr = full.Addr().String()
		case 3:
			for range cap(h.joins) {
				h.joins <- struct{}{}
			}
		case 4:
			for range cap(h.joins) {
				<-h.joins
			}
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}})
	if err != nil || attempts != 4 {
		t.Errorf("after %d attempts: %v, want 4 and no error", attempts, err)
	}
}

// raw is a NATS client with whatever certificate, that says about itself
// whatever it likes.
func raw(t *testing.T, hub string, creds *pki.Credentials, opts ...nats.Option) (*nats.Conn, chan error) {
	t.Helper()
	l := &link{hub: hub, creds: creds}
	errs := make(chan error, 64)
	nc, err := nats.Connect("nats://x", append([]nats.Option{
		nats.SetCustomDialer(dialer(func(string, string) (net.Conn, error) { return l.attempt(context.Background()) })),
		nats.SkipHostLookup(), nats.NoReconnect(), nats.CustomInboxPrefix(inbox(string(creds.Identity().Role), creds.Identity().Name)),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { errs <- err }),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc, errs
}

func TestPermissions(t *testing.T) {
	h := newHub(t)
	ctx := testContext(t)
	n1, n2 := joined(t, h, "n1", Registration{}), joined(t, h, "n2", Registration{})
	nc, errs := raw(t, h.addr, n1.creds, nats.UserInfo("hub", "x"), nats.Token("x"), nats.Name("admin admin"))
	denied := func(what string) {
		t.Helper()
		nc.Flush()
		select {
		case err := <-errs:
			if !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s: got %v", what, err)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s: was allowed", what)
		}
	}
	spec, _ := json.Marshal(aSpec)
	for _, subject := range []string{"api.submit", "api.token", "api.tokens", "api.withdraw", "api.remove", "up.n2.renew", "up.n2.revoked", "up.n2.beat", "up.n2.register", "down.n2.start", "down.n1.start",
		"watch.job.x", "$JS.API.INFO", "$KV.jobs.x", "_INBOX.admin.admin.x", "_INBOX.x", "$SYS.REQ.SERVER.PING"} {
		nc.PublishRequest(subject, inbox("node", "n1")+".x", spec)
		denied("publish " + subject)
	}
	for _, subject := range []string{">", "*.>", "api.>", "up.>", "up.n1.>", "down.>", "down.*.stat", "down.n2.>", "_INBOX.>", "_INBOX.admin.>", "watch.>", "$KV.>", "$SYS.>"} {
		sub, err := nc.SubscribeSync(subject)
		if err != nil {
			t.Fatal(err)
		}
		denied("subscribe " + subject)
		sub.Unsubscribe()
	}
	if jobs, err := h.jobs(ctx, ""); err != nil || len(jobs) != 0 {
		t.Errorf("got %v, %v", jobs, err)
	}

	a, err := LoadAdmin(h.admin)
	if err != nil {
		t.Fatal(err)
	}
	nc, errs = raw(t, h.addr, a.Credentials)
	for _, subject := range []string{"up.n1.beat", "down.n1.start", "$JS.API.INFO", "watch.job.x"} {
		nc.Publish(subject, spec)
		denied("admin: publish " + subject)
	}
	if _, err := Connect(ctx, Admin{h.addr, n2.creds}, ClientOptions{}); err == nil {
		t.Error("a node's credentials make an admin")
	}
	if err := n2.stop(); err != nil {
		t.Error(err)
	}
}

// What is not CONNECT does not get to the server, and a second one ends the
// connection.
func TestPipe(t *testing.T) {
	h := newHub(t)
	creds := joined(t, h, "n1", Registration{}).creds
	for _, first := range []string{"PUB api.submit 2\r\n{}\r\n", "CONNECT {\r\n", strings.Repeat("x", 2*maxLine), "CONNECT []\r\n", "CONNECT {\"user\":\"hub\"}\r\nCONNECT {\"user\":\"hub\",\"pass\":\"\"}\r\nPING\r\n"} {
		c, err := (&link{hub: h.addr, creds: creds}).attempt(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(10 * time.Second))
		io.WriteString(c, first)
		b, err := io.ReadAll(c)
		if ne, ok := err.(net.Error); ok && ne.Timeout() || strings.Contains(string(b), "PONG") {
			t.Errorf("%.20q: was let in: %q, %v", first, b, err)
		}
		c.Close()
	}
	// The hub itself has no business here, nor has somebody without certificate.
	if _, err := (&link{hub: h.addr, creds: h.creds}).attempt(t.Context()); err == nil {
		t.Error("a hub was let in as a client")
	}
	c, err := tls.Dial("tcp", h.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{peer.ProtocolControl}})
	if err == nil {
		if _, err = c.Read(make([]byte, 1)); err == nil {
			t.Error("somebody without certificate was let in")
		}
		c.Close()
	}
}

// A node that opens one control connection after the other keeps nobody else out,
// and is let in again when it has closed some.
func TestControlConnectionsOfANode(t *testing.T) {
	h := newHub(t)
	l := &link{hub: h.addr, creds: joined(t, h, "n1", Registration{}).creds} // the agent has one
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	for i := range 20 {
		c, err := l.attempt(t.Context())
		if err == nil {
			open = append(open, c)
		} else if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "n1 has 4 control connections") {
			t.Fatalf("connection %d: %v, want ErrBusy", i, err)
		}
	}
	if len(open) != 3 {
		t.Errorf("%d more connections were let in, want 3", len(open))
	}
	joined(t, h, "n2", Registration{})
	for _, c := range open {
		c.Close()
	}
	await(t, "a place", func() bool {
		c, err := l.attempt(t.Context())
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

func FuzzIdentify(f *testing.F) {
	f.Add([]byte(`CONNECT {"verbose":false,"user":"hub","PASS":"x","jwt":"y","echo":true}` + "\r\n"))
	f.Add([]byte("CONNECT {}\n"))
	f.Add([]byte("PING\r\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		out, err := identify(line, "node n1", "secret")
		if err != nil {
			return
		}
		arg, ok := bytes.CutPrefix(out, []byte("CONNECT "))
		if !ok || bytes.Count(out, []byte("\n")) != 1 || !bytes.HasSuffix(out, []byte("\r\n")) {
			t.Fatalf("got %q", out)
		}
		var who struct { // as the server reads it: without regard to case
			User, Pass, Auth_Token, JWT, NKey, Sig, Account string
		}
		if json.Unmarshal(arg, &who) == nil && (who.User != "node n1" || who.Pass != "secret" || who.Auth_Token+who.JWT+who.NKey+who.Sig+who.Account != "") {
			t.Fatalf("got %q", out)
		}
	})
}

func TestUnreachable(t *testing.T) {
	h := newHub(t)
	ctx := testContext(t)
	n2 := joined(t, h, "n2", Registration{})
	for addr, want := range map[string]string{
		"127.0.0.1:1":   "hub cannot reach n1 at 127.0.0.1:1: connection refused; give --advertise an address that the other nodes can reach",
		"0.0.0.0:7":     `advertised address "0.0.0.0:7" is no node's address: give --advertise one that the other nodes can reach`,
		"[::1%\x1bc]:7": `advertised address "[::1%?c]:7": want HOST:PORT`,
		"n1":            `advertised address "n1": want HOST:PORT`,
		n2.addr:         "hub cannot reach n1 at " + n2.addr + `: the other end is "n2.node", not "n1.node": the address leads to another machine; give --advertise an address that the other nodes can reach`,
	} {
		token, _, err := h.NewToken(ctx, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		creds, err := Join(ctx, JoinConfig{Hub: h.addr, Token: token, Name: "n1"})
		if err != nil {
			t.Fatal(err)
		}
		a := startAgent(t, h.addr, creds, newFakeRunner(), Registration{Addr: addr})
		if err := a.stop(); fmt.Sprint(err) != want {
			t.Errorf("%s: got %q, want %q", addr, fmt.Sprint(err), want)
		}
		if err := h.removeNode(ctx, "n1"); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := LoadAdmin(h.admin)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Connect(ctx, Admin{Hub: "127.0.0.1:1", Credentials: admin.Credentials}, ClientOptions{}); err == nil || err.Error() != `cannot reach the control plane at 127.0.0.1:1: connection refused; is "freshet up" running there, and its port open?` {
		t.Errorf("got %v", err)
	}
}

// Who gives up a hub that does not answer says for how long it has tried.
func TestSilentHub(t *testing.T) {
	authority, err := pki.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	creds, err := authority.NewCredentials(pki.Node, "n1")
	if err != nil {
		t.Fatal(err)
	}
	token, err := pki.NewToken(authority.Fingerprint())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		const want = `cannot reach the control plane at hub:7433: no answer within %v; is "freshet up" running there, and its port open?`
		l := &link{hub: "hub:7433", creds: creds, dial: dial}
		if _, err := l.attempt(t.Context()); fmt.Sprint(err) != fmt.Sprintf(want, dialWithin) {
			t.Errorf("an agent: got %v", err)
		}
		_, err := Join(t.Context(), JoinConfig{Hub: "hub:7433", Token: token.Encode(), Name: "n1", Dial: dial})
		if fmt.Sprint(err) != fmt.Sprintf(want, joinWithin+dialBack) {
			t.Errorf("who joins: got %v", err)
		}
	})
}

// A node cannot make the hub dial one address after the other.
func TestRegistrationsAreHeldBack(t *testing.T) {
	h := &Hub{nodes: map[string]*node{"n1": {}, "n2": {}}}
	t0 := time.Unix(1e9, 0)
	done, err := h.letRegister("n1", t0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.letRegister("n1", t0.Add(time.Minute)); !errors.Is(err, ErrBusy) {
		t.Errorf("while one is under way: got %v, want ErrBusy", err)
	}
	if _, err := h.letRegister("n2", t0); err != nil {
		t.Errorf("another node: got %v", err)
	}
	done()
	if _, err := h.letRegister("n1", t0.Add(registerEvery-1)); !errors.Is(err, ErrBusy) {
		t.Errorf("just after one: got %v, want ErrBusy", err)
	}
	if _, err := h.letRegister("n1", t0.Add(registerEvery)); err != nil {
		t.Errorf("%v later: got %v", registerEvery, err)
	}
	if _, err := h.letRegister("n3", t0); !errors.Is(err, ErrNoSuchNode) {
		t.Errorf("nobody: got %v, want ErrNoSuchNode", err)
	}
}

// The agent of the hub's own process needs no token, and keeps its credentials.
func TestEnroll(t *testing.T) {
	h := newHub(t)
	ctx := testContext(t)
	path := filepath.Join(t.TempDir(), "node.pem")
	c, err := h.Enroll(ctx, "n1", path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := h.Enroll(ctx, "n1", path)
	if err != nil || !again.Expires().Equal(c.Expires()) {
		t.Errorf("got %v, %v", again, err)
	}
	if _, err := h.Enroll(ctx, "n1", filepath.Join(t.TempDir(), "node.pem")); !errors.Is(err, ErrNameTaken) {
		t.Errorf("a second n1: got %v", err)
	}
}
