package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/internal/pace"
	"github.com/freshet/freshet/internal/pki"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// tap records what goes over a connection, both ways.
type tap struct {
	net.Conn
	seen *recording
}

type recording struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (r *recording) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.Write(p)
}

func (r *recording) holds(p []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Contains(r.b.Bytes(), p)
}

func (r *recording) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.b.String()
}

func (c tap) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.seen.Write(p[:n])
	return n, err
}

func (c tap) Write(p []byte) (int, error) {
	c.seen.Write(p)
	return c.Conn.Write(p)
}

func noise(seed byte, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// Frames travel in plain TCP only where both ends were told to trust the network: then what
// is on the wire is the payload, and what went before, hello and names, is not.
func TestTrustedNetwork(t *testing.T) {
	ca := newAuthority(t)
	for _, tt := range []struct{ caller, called bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
		var wireTap, logA, logB recording
		logger := func(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
		a := open(t, Options{Credentials: creds(t, ca, pki.Node, "a"), Trusted: tt.called, Log: logger(&logA)}, nil)
		b := open(t, Options{
			Credentials: creds(t, ca, pki.Node, "b"), Trusted: tt.caller, Log: logger(&logB),
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := Dialer("", nil, nil)(ctx, network, addr)
				return tap{c, &wireTap}, err
			},
		}, nil)
		for range 2 { // the log says it once
			atA, atB := pair(t, a, b, "secret-job")
			plain := tt.caller && tt.called
			if atA.Plain() != plain || atB.Plain() != plain {
				t.Errorf("%+v: plain at the called end %v, at the caller %v; want %v", tt, atA.Plain(), atB.Plain(), plain)
			}
			for i, way := range []struct{ from, to *Conn }{{atA, atB}, {atB, atA}} {
				small, large := noise(byte(i), 20), noise(byte(2+i), int(piece.BlockSize))
				done := make(chan error, 1)
				go func() { done <- way.from.WriteFrame(7, small, large, small) }() // waited for below
				kind, payload, err := readAll(way.to)
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				if err != nil || kind != 7 || !bytes.Equal(payload, append(append(bytes.Clone(small), large...), small...)) {
					t.Fatalf("%+v: way %d: kind %d, %d bytes, %v", tt, i, kind, len(payload), err)
				}
				if got := wireTap.holds(large); got != plain {
					t.Errorf("%+v: way %d: the payload is seen on the wire: %v, want %v", tt, i, got, plain)
				}
			}
			refused := make(chan error, 1)
			go func() { refused <- atA.Refuse(Misbehaved, "enough") }() // waited for below
			if _, _, err := atB.ReadFrame(); err == nil || !strings.Contains(err.Error(), "enough") {
				t.Errorf("%+v: the reason for closing arrives as %v", tt, err)
			}
			atB.Close()
			if err := <-refused; err != nil {
				t.Error(err)
			}
		}
		if wireTap.holds([]byte("secret-job")) {
			t.Errorf("%+v: the hello is seen on the wire", tt)
		}
		for end, log := range map[string]struct {
			told bool
			text string
		}{"called": {tt.called, logA.String()}, "caller": {tt.caller, logB.String()}} {
			want := map[bool]int{true: 1}[log.told]
			if got := strings.Count(log.text, "data travels in"); got != want {
				t.Errorf("%+v: the %s end's log says it %d times, want %d: %s", tt, end, got, want, log.text)
			}
			if says := "plain TCP"; log.told && strings.Contains(log.text, says) != (tt.caller && tt.called) {
				t.Errorf("%+v: the %s end's log: %s", tt, end, log.text)
			}
		}
	}
}

// A called end does not go plain for one that does not follow.
func TestPlainWithoutItsFirstFrame(t *testing.T) {
	for name, first := range map[string][]byte{"another frame": {9, 0, 0, 0, 0, 0, 0, 0}, "still TLS": {23, 3, 3, 0, 20, 1, 2, 3}} {
		ca := newAuthority(t)
		a := open(t, Options{Credentials: creds(t, ca, pki.Node, "a"), Trusted: true}, nil)
		conns, withdraw := a.Offer("j")
		mallory := creds(t, ca, pki.Node, "m")
		raw, err := net.Dial("tcp", a.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		tc := tlsClient(t, raw, mallory.ClientTLS(pki.Node, "a", ProtocolPlain))
		tc.Write(hello{Name: "m", Job: "j"}.Append(nil))
		if _, err := io.ReadFull(tc, make([]byte, helloBytes+headerBytes)); err != nil { // hello and welcome
			t.Fatal(err)
		}
		raw.Write(first)
		if b, err := io.ReadAll(raw); len(b) > 0 {
			t.Errorf("%s: heard %q, %v", name, b, err)
		}
		select {
		case c := <-conns:
			t.Errorf("%s: a connection was handed out: %v", name, c.Name())
		default:
		}
		withdraw()
	}
}

func tlsClient(t *testing.T, raw net.Conn, conf *tls.Config) *tls.Conn {
	t.Helper()
	raw.SetDeadline(time.Now().Add(10 * time.Second))
	c := tls.Client(raw, conf)
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	return c
}

// Part of a file goes out as the payload of a frame, with the frames before it, also to one who takes his time; a file that is shorter than
// it was is told apart from a connection that failed. Encrypted connections, and those with a limit, do not do it.
func TestFilesGoOut(t *testing.T) {
	ca := newAuthority(t)
	a := open(t, Options{Credentials: creds(t, ca, pki.Node, "a"), Trusted: true}, nil)
	b := open(t, Options{Credentials: creds(t, ca, pki.Node, "b"), Trusted: true}, nil)
	slow := open(t, Options{Credentials: creds(t, ca, pki.Node, "slow"), Trusted: true, Out: pace.New(100 * unit.MBps)}, nil)
	secret := open(t, Options{Credentials: creds(t, ca, pki.Node, "secret")}, nil)
	for _, other := range []*Port{slow, secret} {
		if _, at := pair(t, a, other, "j"); at.SendsFiles() {
			t.Errorf("%s sends files past its limits, or its cipher", other.o.Credentials.Identity().Name)
		}
	}
	atA, atB := pair(t, a, b, "j")
	if !atB.SendsFiles() {
		if canSendFile {
			t.Fatal("a plain connection does not send files")
		}
		t.Skip("this system does not send files")
	}
	content := noise(1, 1<<20)
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	raw, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	const times = 40 // more than sockets hold
	head, off, n := noise(2, 8), 1000, int(piece.BlockSize)
	done := make(chan error, 1)
	go func() { // waited for below
		for range times {
			if err := atB.WriteFile([]Frame{{Kind: 5}, {Kind: 6, Payload: []byte("before")}}, 7, head, raw, int64(off), n); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	time.Sleep(50 * time.Millisecond)
	for range times {
		for i, want := range []string{"", "before", string(head) + string(content[off:off+n])} {
			kind, got, err := readAll(atA)
			if err != nil || kind != byte(5+i) || string(got) != want {
				t.Fatalf("kind %d with %d bytes, %v; want kind %d with %d", kind, len(got), err, 5+i, len(want))
			}
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}

	var copied bytes.Buffer
	if err := copyFile(&copied, raw, int64(off), n); err != nil || !bytes.Equal(copied.Bytes(), content[off:off+n]) {
		t.Errorf("through a buffer: %d bytes, %v", copied.Len(), err)
	}
	if err := copyFile(&copied, raw, 1<<20-5, 10); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("through a buffer, past the end: %v", err)
	}
	if err := atB.WriteFile(nil, 7, head, raw, 1<<20-5, 10); !errors.Is(err, ErrFile) {
		t.Errorf("past the end of the file: %v, want that it is the file's", err)
	}
	atA.Close()
	_, atB = pair(t, a, b, "j")
	atB.Close()
	if err := atB.WriteFile(nil, 7, head, raw, 0, 10); errors.Is(err, ErrFile) || !errors.Is(err, net.ErrClosed) {
		t.Errorf("on a closed connection: %v", err)
	}
}
