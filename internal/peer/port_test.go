package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/internal/pace"
	"github.com/freshet/freshet/internal/pki"
	"github.com/freshet/freshet/unit"
)

func newAuthority(t *testing.T) *pki.Authority {
	t.Helper()
	a, err := pki.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func creds(t *testing.T, a *pki.Authority, role pki.Role, name string) *pki.Credentials {
	t.Helper()
	c, err := a.NewCredentials(role, name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// open runs a port on loopback until the test ends.
func open(t *testing.T, o Options, setup func(*Port)) *Port {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p, err := Listen("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	run(t, p, setup)
	return p
}

func run(t *testing.T, p *Port, setup func(*Port)) {
	if setup != nil {
		setup(p)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
}

// pair is a connection between two ports, from b to a.
func pair(t *testing.T, a, b *Port, job string) (atA, atB *Conn) {
	t.Helper()
	conns, withdraw := a.Offer(job)
	defer withdraw()
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { atB, err = b.Dial(t.Context(), a.Addr().String(), a.o.Credentials.Identity().Name, job) })
	select {
	case atA = <-conns:
	case <-time.After(20 * time.Second):
	}
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { atA.Close(); atB.Close() })
	return atA, atB
}

func readAll(c *Conn) (kind byte, payload []byte, err error) {
	kind, n, err := c.ReadFrame()
	if err != nil {
		return 0, nil, err
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(c, payload)
	return kind, payload, err
}

func TestFramesBothWays(t *testing.T) {
	ca := newAuthority(t)
	a := open(t, Options{Credentials: creds(t, ca, pki.Node, "node-a")}, nil)
	b := open(t, Options{Credentials: creds(t, ca, pki.Node, "node-b"), Out: pace.New(200 * unit.MBps)}, nil)
	atA, atB := pair(t, a, b, "job-1")
	if atA.Name() != "node-b" || atB.Name() != "node-a" || atA.Job() != "job-1" {
		t.Errorf("names are %q and %q for job %q, want node-b, node-a, job-1", atA.Name(), atB.Name(), atA.Job())
	}

	// Sizes around those of records and frames, in one and in several parts.
	sizes := []int{0, 1, recordBytes - headerBytes - 1, recordBytes - headerBytes, recordBytes, 3*recordBytes + 5, MaxFrame}
	payload := make([]byte, MaxFrame)
	for i := range payload {
		payload[i] = byte(i * 7 / 3)
	}
	var wg sync.WaitGroup
	for _, dir := range []struct{ from, to *Conn }{{atA, atB}, {atB, atA}} {
		wg.Go(func() {
			for i, n := range sizes {
				if err := dir.from.WriteFrame(byte(10+i), payload[:n/3], payload[n/3:n/2], payload[n/2:n]); err != nil {
					t.Errorf("write %d bytes: %v", n, err)
				}
			}
		})
		wg.Go(func() {
			for i, n := range sizes {
				kind, got, err := readAll(dir.to)
				if err != nil || kind != byte(10+i) || !bytes.Equal(got, payload[:n]) {
					t.Errorf("read frame of %d bytes: kind %d, %d bytes, %v", n, kind, len(got), err)
				}
			}
		})
	}
	wg.Wait()
}

func TestConcurrentWriters(t *testing.T) {
	ca := newAuthority(t)
	a := open(t, Options{Credentials: creds(t, ca, pki.Node, "a")}, nil)
	b := open(t, Options{Credentials: creds(t, ca, pki.Node, "b")}, nil)
	atA, atB := pair(t, a, b, "j")
	const writers, each = 8, 50
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for range each {
				if err := atB.WriteFrame(byte(1+i), bytes.Repeat([]byte{byte(1 + i)}, 1000*i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	count := map[byte]int{}
	for range writers * each {
		kind, p, err := readAll(atA)
		if err != nil {
			t.Fatal(err)
		}
		if len(p) != 1000*int(kind-1) || bytes.Count(p, []byte{kind}) != len(p) {
			t.Fatalf("frame of kind %d has %d bytes, or not its own", kind, len(p))
		}
		count[kind]++
	}
	wg.Wait()
	for k, n := range count {
		if n != each {
			t.Errorf("%d frames of kind %d, want %d", n, k, each)
		}
	}
}

func TestDialRefusals(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	a := open(t, Options{Credentials: creds(t, ca, pki.Node, "node-a")}, nil)
	b := open(t, Options{Credentials: creds(t, ca, pki.Node, "node-b")}, nil)
	stranger := open(t, Options{Credentials: creds(t, other, pki.Node, "node-b")}, nil)
	noNode := open(t, Options{Hub: creds(t, ca, pki.Hub, pki.HubName)}, nil)
	addr := a.Addr().String()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()

	for _, tc := range []struct {
		name       string
		from       *Port
		addr, node string
		want       []string
	}{
		{"another node there", b, addr, "node-c", []string{"node-c", addr, `is "node-a.node"`}},
		{"another cluster", stranger, addr, "node-a", []string{addr, "another cluster"}},
		{"nobody there", b, closed.Addr().String(), "node-a", []string{closed.Addr().String(), "connection refused"}},
		{"a hub that is no node", b, noNode.Addr().String(), "node-a", []string{`is "hub.hub"`}},
		{"from a hub", noNode, addr, "node-a", []string{"no node's credentials"}},
		{"bad name", b, addr, "Node A", []string{"want 1 to 63"}},
	} {
		_, err := tc.from.Dial(t.Context(), tc.addr, tc.node, "job")
		for _, want := range tc.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want it to say %q", tc.name, err, want)
			}
		}
	}
}

// rawHello makes the TLS connection that Dial makes and says b.
func rawHello(t *testing.T, p *Port, who *pki.Credentials, b []byte) *tls.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", p.Addr().String(), who.ClientTLS(pki.Node, p.o.Credentials.Identity().Name, ProtocolData))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestHelloRefusals(t *testing.T) {
	ca := newAuthority(t)
	p := open(t, Options{Credentials: creds(t, ca, pki.Node, "a")}, nil)
	node := creds(t, ca, pki.Node, "b")
	reserved := hello{Name: "b", Job: "j"}.Append(nil)
	reserved[8] = 1
	for _, tc := range []struct {
		name  string
		who   *pki.Credentials
		hello []byte
		code  Code
		text  string
	}{
		{"hello with another's name", node, hello{Name: "c", Job: "j"}.Append(nil), WrongName, `"c"`},
		{"an admin", creds(t, ca, pki.Admin, "root"), hello{Name: "root", Job: "j"}.Append(nil), NotANode, "root (admin)"},
		{"a monitor", creds(t, ca, pki.Monitor, "m"), hello{Name: "m", Job: "j"}.Append(nil), NotANode, "m (monitor)"},
		{"reserved bits", node, reserved, BadFrame, "reserved"},
		{"another version", node, appendPrefix(nil, 7, 0), OtherVer, "version 7"},
	} {
		c := rawHello(t, p, tc.who, tc.hello)
		mine, err := readHello(c)
		if err != nil || mine.Name != "a" {
			t.Errorf("%s: hello was %+v, %v, want a's", tc.name, mine, err)
			continue
		}
		conn := newConn(c, &wire{Conn: c.NetConn()}, "a", "j")
		_, _, err = conn.ReadFrame()
		r, ok := errors.AsType[*Refused](err)
		if !ok || r.Code != tc.code || r.Peer != "a" || !strings.Contains(r.Text, tc.text) {
			t.Errorf("%s: %v, want to be refused with %v and %q", tc.name, err, tc.code, tc.text)
		}
	}
	// What is no hello at all gets no answer.
	c := rawHello(t, p, node, []byte("GET / HTTP/1.1\r\n\r\n"))
	if b, err := io.ReadAll(c); len(b) > 0 {
		t.Errorf("garbage was answered with %q, %v, want nothing", b, err)
	}
}

// TestCallerSeesOtherVersion has a listener that answers as a later version would.
func TestCallerSeesOtherVersion(t *testing.T) {
	ca := newAuthority(t)
	p := open(t, Options{Credentials: creds(t, ca, pki.Node, "b")}, nil)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", creds(t, ca, pki.Node, "a").ServerTLS(ProtocolData))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.ReadFull(c, make([]byte, helloBytes))
		c.Write(appendPrefix(nil, 9, 4))
		c.Write([]byte("????"))
	})
	_, err = p.Dial(t.Context(), ln.Addr().String(), "a", "j")
	v, ok := errors.AsType[*VersionError](err)
	if !ok || v.Theirs != 9 || v.Ours != Version || !strings.Contains(err.Error(), "version 9") || !strings.Contains(err.Error(), fmt.Sprintf("version %d", Version)) {
		t.Errorf("dial: %v, want a VersionError that names 9 and %d", err, Version)
	}
}

func TestPortTellsProtocolsApart(t *testing.T) {
	ca := newAuthority(t)
	hub := creds(t, ca, pki.Hub, pki.HubName)
	seen := make(chan string, 10)
	p := open(t, Options{Credentials: creds(t, ca, pki.Node, "a"), Hub: hub}, func(p *Port) {
		p.Handle(ProtocolControl, true, func(ctx context.Context, c *tls.Conn, who pki.Identity) {
			seen <- "control " + who.String()
			io.WriteString(c, "c")
		})
		p.Handle(ProtocolHTTP, false, func(ctx context.Context, c *tls.Conn, who pki.Identity) {
			seen <- "join " + who.Name
			io.WriteString(c, "j")
		})
	})
	get := func(conf *tls.Config) (string, error) {
		c, err := tls.Dial("tcp", p.Addr().String(), conf)
		if err != nil {
			return "", err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(10 * time.Second))
		b, err := io.ReadAll(c)
		return string(b), err
	}
	admin := creds(t, ca, pki.Admin, "root")
	if got, err := get(admin.ClientTLS(pki.Hub, pki.HubName, ProtocolControl)); got != "c" || err != nil {
		t.Errorf("control answered %q, %v", got, err)
	}
	if got, want := <-seen, "control root (admin)"; got != want {
		t.Errorf("handler saw %q, want %q", got, want)
	}
	if got, err := get(pki.JoinTLS(ca.Fingerprint())); got != "j" || err != nil {
		t.Errorf("join answered %q, %v", got, err)
	}
	if got, want := <-seen, "join "; got != want {
		t.Errorf("handler saw %q, want %q", got, want)
	}
	noCert := admin.ClientTLS(pki.Hub, pki.HubName, ProtocolControl)
	noCert.GetClientCertificate = nil
	if got, err := get(noCert); err == nil {
		t.Errorf("control without a certificate answered %q", got)
	}
	unknown := admin.ClientTLS(pki.Hub, pki.HubName, "smtp")
	if got, err := get(unknown); err == nil {
		t.Errorf("unknown protocol answered %q", got)
	}
	none := admin.ClientTLS(pki.Hub, pki.HubName, "x")
	none.NextProtos, none.VerifyConnection = nil, nil
	if got, err := get(none); err == nil {
		t.Errorf("client that names no protocol got %q", got)
	}
}

func TestClientsThatDoNotSpeakTLS(t *testing.T) {
	p := open(t, Options{Credentials: creds(t, newAuthority(t), pki.Node, "a")}, nil)
	for _, tc := range []struct{ say, want string }{
		{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "it speaks TLS"},
		{"SSH-2.0-OpenSSH_9.9\r\n", ""},
		{"\x00\x00\x00\x00\x00\x00\x00\x00", ""},
		{"\x16\x03\x01\xff\xff\x01\xff\xff\xff", ""},
	} {
		c, err := net.Dial("tcp", p.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(5 * time.Second)) // half of what a silent client is given
		io.WriteString(c, tc.say)
		b, err := io.ReadAll(c)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q was not closed at once", tc.say)
		}
		if tc.want != "" && !strings.Contains(string(b), tc.want) {
			t.Errorf("%q was answered with %q, want %q in it", tc.say, b, tc.want)
		}
		c.Close()
	}
}

func TestRunEndsHandlersAndListener(t *testing.T) {
	ca := newAuthority(t)
	p, err := Listen("127.0.0.1:0", Options{Credentials: creds(t, ca, pki.Node, "a"), Hub: creds(t, ca, pki.Hub, pki.HubName), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	serving, returned := make(chan bool), make(chan error, 1)
	p.Handle(ProtocolControl, true, func(ctx context.Context, c *tls.Conn, who pki.Identity) {
		serving <- true
		_, err := c.Read(make([]byte, 1)) // nothing ever comes
		returned <- err
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	c, err := tls.Dial("tcp", p.Addr().String(), creds(t, ca, pki.Node, "b").ClientTLS(pki.Hub, pki.HubName, ProtocolControl))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	<-serving
	cancel()
	wg.Wait()
	if err := <-returned; err == nil {
		t.Error("handler's read ended without an error")
	}
	if c, err := net.Dial("tcp", p.Addr().String()); err == nil {
		c.Close()
		t.Error("port still listens")
	}
}

func TestListenErrorsNameTheAddress(t *testing.T) {
	p := open(t, Options{Credentials: creds(t, newAuthority(t), pki.Node, "a")}, nil)
	if _, err := Listen(p.Addr().String(), p.o); err == nil || !strings.Contains(err.Error(), p.Addr().String()) {
		t.Errorf("listen twice: %v, want the address in it", err)
	}
	if _, err := Listen("127.0.0.1:0", Options{}); err == nil {
		t.Error("opened a port without credentials")
	}
}

func TestPool(t *testing.T) {
	p := NewPool(2)
	a, _ := p.Get(t.Context())
	p.Put(a)
	if b := p.Try(); &b[0] != &a[0] {
		t.Error("got a new block while an old one was free")
	}
	b, _ := p.Get(t.Context())
	if p.Try() != nil || p.Free() != 0 || p.Size() != 2 {
		t.Errorf("%d of %d blocks are free when all are taken", p.Free(), p.Size())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Get(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("get from an empty pool: %v, want context.Canceled", err)
	}
	p.Put(a[:10])
	if c, err := p.Get(t.Context()); err != nil || len(c) != cap(a) || &c[0] != &a[0] {
		t.Errorf("got %d bytes, %v, want the block put before at its full length", len(c), err)
	}
	p.Put(b)
	p.Put(a)
	if c := p.Try(); &c[0] != &a[0] {
		t.Error("got another block than the one that was put last")
	}
	p.Put(a)
	if p.Waited() == 0 {
		t.Error("who waited for a block in vain has not waited")
	}
	defer func() {
		if recover() == nil {
			t.Error("a full pool took one more block")
		}
	}()
	p.Put(b)
}
