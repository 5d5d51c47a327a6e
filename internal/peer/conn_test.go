package peer

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/internal/pki"
)

// pipeListener accepts the far ends of net.Pipe, so that the port runs under
// synctest, whose clock goes on by itself when all are waiting.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// bubble runs f under synctest with ports a and b, where b reaches a.
func bubble(t *testing.T, f func(t *testing.T, a, b *Port)) {
	ca := newAuthority(t)
	nodeA, nodeB := creds(t, ca, pki.Node, "a"), creds(t, ca, pki.Node, "b")
	synctest.Test(t, func(t *testing.T) {
		// synctest's clock begins in 2000, before any certificate. Sleep up to now.
		time.Sleep(time.Until(nodeB.Expires().Add(-24 * time.Hour)))
		log := slog.New(slog.DiscardHandler)
		ln, nowhere := newPipeListener(), newPipeListener()
		a, err := New(ln, Options{Credentials: nodeA, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		b, err := New(nowhere, Options{Credentials: nodeB, Dial: ln.dial, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		run(t, a, nil)
		f(t, a, b)
	})
}

func TestConnectionWaitsForItsJob(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *Port) {
		type dialed struct {
			c   *Conn
			err error
		}
		done := make(chan dialed, 1)
		go func() {
			c, err := b.Dial(t.Context(), "a:1", "a", "late")
			done <- dialed{c, err}
		}()
		time.Sleep(offerTimeout - time.Second)
		conns, withdraw := a.Offer("late")
		defer withdraw()
		atA := <-conns
		got := <-done
		if got.err != nil {
			t.Fatal(got.err)
		}
		atA.Close()
		got.c.Close()
	})
}

func TestUnknownJobIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *Port) {
		_, withdraw := a.Offer("other")
		defer withdraw()
		began := time.Now()
		_, err := b.Dial(t.Context(), "a:1", "a", "unknown")
		r, ok := errors.AsType[*Refused](err)
		if !ok || r.Code != UnknownJob || r.Peer != "a" {
			t.Errorf("dial for an unknown job: %v, want UnknownJob from a", err)
		}
		if took := time.Since(began); took != offerTimeout {
			t.Errorf("refused after %v, want %v", took, offerTimeout)
		}
	})
}

func TestWithdrawnJobIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *Port) {
		_, withdraw := a.Offer("j")
		c, err := b.Dial(t.Context(), "a:1", "a", "j") // welcome, but nobody takes it
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		withdraw()
		_, _, err = c.ReadFrame()
		if r, ok := errors.AsType[*Refused](err); !ok || r.Code != UnknownJob {
			t.Errorf("read: %v, want UnknownJob", err)
		}
	})
}

func TestSecondOfferTakesOver(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *Port) {
		_, withdrawFirst := a.Offer("j")
		c, err := b.Dial(t.Context(), "a:1", "a", "j")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns, withdraw := a.Offer("j")
		withdrawFirst() // no longer has a say
		defer withdraw()
		(<-conns).Close()
	})
}

func TestTooManyWait(t *testing.T) {
	for _, tc := range []struct {
		name, who string // of those that wait already
		n         int
	}{
		{"all places taken", "", maxWaiting},
		{"all of one node", "b", maxWaitingNode},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, a, b *Port) {
				for i := range tc.n {
					who := cmp.Or(tc.who, fmt.Sprintf("x%d", i))
					if err := a.waiting.enter(who); err != nil {
						t.Fatal(err)
					}
					defer a.waiting.leave(who)
				}
				_, err := b.Dial(t.Context(), "a:1", "a", "j")
				if r, ok := errors.AsType[*Refused](err); !ok || r.Code != Busy {
					t.Errorf("dial for a job that is not on offer: %v, want Busy", err)
				}
				// One on offer needs no place among those that wait.
				_, withdraw := a.Offer("on-offer")
				defer withdraw()
				c, err := b.Dial(t.Context(), "a:1", "a", "on-offer")
				if err != nil {
					t.Fatalf("dial for a job on offer: %v", err)
				}
				c.Close()
			})
		})
	}
}

func TestWaitersAreCounted(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *Port) {
		for range 2 { // places are given back
			busy := make(chan bool, maxWaitingNode+1)
			for range maxWaitingNode + 1 {
				go func() {
					_, err := b.Dial(t.Context(), "a:1", "a", "invented")
					r, ok := errors.AsType[*Refused](err)
					busy <- ok && r.Code == Busy
				}()
			}
			n := 0
			for range maxWaitingNode + 1 {
				if <-busy {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%d of %d were told that we are busy, want 1", n, maxWaitingNode+1)
			}
			synctest.Wait() // those that were refused have left
		}
		if a.waiting.all != 0 || len(a.waiting.by) != 0 {
			t.Errorf("%d wait, by node %v, want none", a.waiting.all, a.waiting.by)
		}
	})
}

// TestSilentCallersDoNotKeepOthersOut has more silent connections from one
// host than may be in the handshake.
func TestSilentCallersDoNotKeepOthersOut(t *testing.T) {
	ca := newAuthority(t)
	a := open(t, Options{Credentials: creds(t, ca, pki.Node, "a")}, nil)
	b := open(t, Options{Credentials: creds(t, ca, pki.Node, "b")}, nil)
	for range maxHandshakes + 10 {
		c, err := net.Dial("tcp", a.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	began := time.Now()
	pair(t, a, b, "j")
	if took := time.Since(began); took > helloTimeout/2 {
		t.Errorf("connecting took %v, want less than %v", took, helloTimeout/2)
	}
}

// hosted is a connection from an address of its own.
type hosted struct {
	net.Conn
	host string
}

func (c hosted) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.host), Port: 1} }

// TestSilentHostsMakeRoom has many hosts that take all places together.
func TestSilentHostsMakeRoom(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *Port) {
		began := time.Now()
		for i := range maxHandshakes + 10 {
			here, there := net.Pipe()
			defer here.Close()
			a.ln.(*pipeListener).conns <- hosted{there, fmt.Sprintf("10.0.0.%d", i%8)}
		}
		atA, atB := connect(t, a, b)
		defer atA.Close()
		defer atB.Close()
		if waited := time.Since(began); waited > 0 { // by the bubble's clock
			t.Errorf("callers waited %v for the silent ones before them", waited)
		}
	})
}

// TestStalledHostsMakeRoom has two hosts that take all places together, with
// callers that begin a handshake as they should and then say no more.
func TestStalledHostsMakeRoom(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *Port) {
		begun := clientHello(t, b.o.Credentials.ClientTLS(pki.Node, "a", ProtocolData))
		began := time.Now()
		for i := range maxHandshakes {
			here, there := net.Pipe()
			defer here.Close()
			a.ln.(*pipeListener).conns <- hosted{there, fmt.Sprintf("10.0.0.%d", i%2)}
			if _, err := here.Write(begun); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for _, h := range a.door.hosts { // nobody else touches it now
			if len(h.spoken) != maxHandshakesHost {
				t.Fatalf("%d of a host's callers have spoken, want %d: the test is none", len(h.spoken), maxHandshakesHost)
			}
		}
		for range 2 { // one after the other
			atA, atB := connect(t, a, b)
			defer atA.Close()
			defer atB.Close()
		}
		if waited := time.Since(began); waited > stalled { // by the bubble's clock
			t.Errorf("callers waited %v for the stalled ones before them, want %v at most", waited, stalled)
		}
	})
}

// clientHello is the first that a client says: one record.
func clientHello(t *testing.T, conf *tls.Config) []byte {
	t.Helper()
	here, there := net.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() { tls.Client(here, conf).Handshake() })
	defer wg.Wait()
	defer there.Close()
	record := make([]byte, 5)
	if _, err := io.ReadFull(there, record); err != nil {
		t.Fatal(err)
	}
	record = append(record, make([]byte, binary.BigEndian.Uint16(record[3:]))...)
	if _, err := io.ReadFull(there, record[5:]); err != nil {
		t.Fatal(err)
	}
	return record
}

func TestDoor(t *testing.T) {
	conn := func(host string) (*brokenConn, net.Conn) {
		c := &brokenConn{host: host}
		return c, c
	}
	var d door
	now := time.Now()
	enter := func(raw net.Conn, now time.Time) (*caller, bool) {
		c, ok := d.enter(raw, now)
		if ok {
			d.begin(c)
		}
		return c, ok
	}
	first, raw := conn("10.0.0.1")
	enter(raw, now)
	var spoken []*caller
	var oldest *brokenConn
	for range maxHandshakesHost - 1 {
		c, raw := conn("10.0.0.1")
		last, _ := enter(raw, now)
		d.heard(last, now)
		spoken = append(spoken, last)
		oldest = cmp.Or(oldest, c)
	}
	if first.closed {
		t.Error("a silent caller was closed although there was room")
	}
	other, raw := conn("10.0.0.2")
	guest, ok := enter(raw, now)
	if !ok || first.closed {
		t.Errorf("another host: let in %v, the first one closed %v, want true, false", ok, first.closed)
	}
	d.heard(guest, now)
	_, raw = conn("10.0.0.1")
	next, ok := enter(raw, now)
	if !ok || !first.closed {
		t.Errorf("let in %v, the silent one closed %v, want both", ok, first.closed)
	}
	d.heard(next, now.Add(stalled/2))
	_, raw = conn("10.0.0.1")
	if _, ok := enter(raw, now.Add(stalled/2)); ok {
		t.Error("one too many was let in although nobody was silent, or slow")
	}
	if again := d.makeRoom(now.Add(stalled / 4)); again != stalled*3/4 || oldest.closed || other.closed {
		t.Errorf("asked to make room while all get on: again in %v, closed %v and %v; want %v and nobody", again, oldest.closed, other.closed, stalled*3/4)
	}
	if d.makeRoom(now.Add(stalled)); !oldest.closed || other.closed {
		t.Errorf("asked to make room: the oldest of the host with most is closed %v, the other host's %v; want true, false", oldest.closed, other.closed)
	}
	second := spoken[1].raw.(*brokenConn)
	if _, ok := enter(raw, now.Add(stalled)); !ok || !second.closed || other.closed {
		t.Errorf("the host that has its share: let in %v, its next one closed %v, the other host's %v; want true, true, false", ok, second.closed, other.closed)
	}
	for _, c := range append(spoken, next) { // those that were closed are still counted
		d.leave(c)
	}
	_, raw = conn("10.0.0.1")
	if _, ok := enter(raw, now); !ok {
		t.Error("there was room, but the caller was not let in")
	}
	if h := d.hosts["10.0.0.1"]; len(h.spoken) != 0 {
		t.Errorf("%d callers that have left are still on the list", len(h.spoken))
	}
	for addr, want := range map[string]string{"10.0.0.1": "10.0.0.1", "::ffff:10.0.0.1": "10.0.0.1", "2001:db8::1": "2001:db8::/64", "2001:db8::ffff:2": "2001:db8::/64"} {
		if got := hostOf(&net.TCPAddr{IP: net.ParseIP(addr), Port: 1}); got != want {
			t.Errorf("host of %s is %q, want %q", addr, got, want)
		}
	}
}

// brokenConn has an address and can be closed.
type brokenConn struct {
	net.Conn
	host   string
	closed bool
}

func (c *brokenConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.host), Port: 1} }
func (c *brokenConn) Close() error         { c.closed = true; return nil }

// connect is pair within a bubble.
func connect(t *testing.T, a, b *Port) (atA, atB *Conn) {
	t.Helper()
	conns, withdraw := a.Offer("j")
	defer withdraw()
	atB, err := b.Dial(t.Context(), "a:1", "a", "j")
	if err != nil {
		t.Fatal(err)
	}
	return <-conns, atB
}

func TestKeepAlive(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *Port) {
		atA, atB := connect(t, a, b)
		defer atA.Close()
		defer atB.Close()
		go func() { // b reads, which is what answers nothing but lets a's pings through
			atB.ReadFrame()
		}()
		go func() {
			time.Sleep(10 * time.Minute)
			atB.WriteFrame(9, []byte("after a long time"))
		}()
		kind, p, err := readAll(atA)
		if err != nil || kind != 9 || string(p) != "after a long time" {
			t.Errorf("after ten idle minutes: kind %d, %q, %v", kind, p, err)
		}
		if atA.Quiet() {
			t.Error("pings came all the time, and it is called quiet")
		}
	})
}

func TestSilenceIsDeath(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *Port) {
		atA, atB := connect(t, a, b)
		defer atA.Close()
		// b's process is gone without its kernel telling: nothing is written any more.
		atB.writing <- struct{}{}
		began := time.Now()
		for at, want := range map[time.Duration]bool{quiet: false, quiet + 1: true} {
			time.AfterFunc(at, func() {
				if got := atA.Quiet(); got != want {
					t.Errorf("after %v: quiet %v, want %v", at, got, want)
				}
			})
		}
		_, _, err := atA.ReadFrame()
		if !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "nothing came from b for 20s") {
			t.Errorf("read: %v, want a deadline exceeded that names b and the time", err)
		}
		if took := time.Since(began); took != silence {
			t.Errorf("noticed after %v, want %v", took, silence)
		}
		<-atB.writing
		atB.Close()
	})
}

func TestFrameThatNeverEnds(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *Port) {
		atA, atB := connect(t, a, b)
		defer atA.Close()
		defer atB.Close()
		stop := make(chan struct{})
		defer close(stop)
		go func() { // a byte a second: never silent, never done
			atB.writing <- struct{}{}
			defer func() { <-atB.writing }()
			atB.c.Write(header{Kind: 5, Len: 1000}.Append(nil))
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Second):
				}
				if _, err := atB.c.Write([]byte{0}); err != nil {
					return
				}
			}
		}()
		began := time.Now()
		_, _, err := readAll(atA)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %v, want os.ErrDeadlineExceeded", err)
		}
		if took := time.Since(began); took > frameTime(1000)+time.Second {
			t.Errorf("gave up after %v, want %v", took, frameTime(1000))
		}
	})
}

func TestStuckReaderEndsTheWriter(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *Port) {
		atA, atB := connect(t, a, b)
		defer atA.Close()
		defer atB.Close()
		began := time.Now()
		var err error
		for err == nil { // net.Pipe has no buffer: the first frame is stuck
			err = atB.WriteFrame(1, make([]byte, 1000))
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write: %v, want os.ErrDeadlineExceeded", err)
		}
		if took := time.Since(began); took > frameTime(1000)+time.Second {
			t.Errorf("gave up after %v, want %v", took, frameTime(1000))
		}
		if err := atB.WriteFrame(1); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write after that: %v, want net.ErrClosed", err)
		}
	})
}

func TestCloseEndsReadsAndWrites(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *Port) {
		atA, atB := connect(t, a, b)
		defer atA.Close()
		errs := make(chan error, 3)
		go func() { _, _, err := atB.ReadFrame(); errs <- err }()
		go func() { errs <- atB.WriteFrame(1, make([]byte, MaxFrame)) }()
		go func() { errs <- atB.WriteFrame(1, make([]byte, MaxFrame)) }()
		synctest.Wait()
		atB.Close()
		atB.Close()
		for range 3 {
			if err := <-errs; err == nil {
				t.Error("went on after Close, want an error")
			}
		}
		if _, _, err := atB.ReadFrame(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read after Close: %v, want net.ErrClosed", err)
		}
	})
}

func TestCloseIsEOFAtTheOtherEnd(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *Port) {
		atA, atB := connect(t, a, b)
		defer atA.Close()
		go atB.Close()
		if _, _, err := atA.ReadFrame(); !errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "b closed") {
			t.Errorf("read: %v, want io.EOF that names b", err)
		}
	})
}

func TestCloseWithReason(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *Port) {
		atA, atB := connect(t, a, b)
		reader := make(chan error)
		go func() { _, _, err := atB.ReadFrame(); reader <- err }() // is sent away
		go func() { atB.CloseWithReason("piece 7 was wrong\x1b[2J") }()
		_, _, err := atA.ReadFrame()
		if got, want := fmt.Sprint(err), "b says: refused: piece 7 was wrong?[2J"; got != want {
			t.Errorf("read: %s, want %s", got, want)
		}
		atA.Close()
		if err := <-reader; !errors.Is(err, net.ErrClosed) {
			t.Errorf("reader at the closing end: %v, want net.ErrClosed", err)
		}
	})
}

// TestReasonArrivesDespiteUnreadData closes a real socket that has data in it.
func TestReasonArrivesDespiteUnreadData(t *testing.T) {
	ca := newAuthority(t)
	a := open(t, Options{Credentials: creds(t, ca, pki.Node, "a")}, nil)
	b := open(t, Options{Credentials: creds(t, ca, pki.Node, "b")}, nil)
	atA, atB := pair(t, a, b, "j")
	for range 4 {
		if err := atB.WriteFrame(1, make([]byte, 100_000)); err != nil {
			t.Fatal(err)
		}
	}
	go atA.Refuse(Misbehaved, "enough")
	for {
		_, _, err := readAll(atB)
		if err == nil {
			continue
		}
		if r, ok := errors.AsType[*Refused](err); !ok || r.Code != Misbehaved {
			t.Errorf("read: %v, want Misbehaved", err)
		}
		return
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *Port) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		_, err := b.Dial(ctx, "a:1", "a", "unknown")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial: %v, want context.DeadlineExceeded", err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("took %v, want 3s", took)
		}
	})
}

func TestSilentClientIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *Port) {
		began := time.Now()
		c, err := b.o.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a silent client was told something")
		}
		if took := time.Since(began); took != helloTimeout {
			t.Errorf("closed after %v, want %v", took, helloTimeout)
		}
	})
}

// Frames that are written together arrive as they would one by one, with large ones among them.
func TestFramesWrittenTogether(t *testing.T) {
	bubble(t, func(t *testing.T, a, b *Port) {
		atA, atB := connect(t, a, b)
		defer atA.Close()
		defer atB.Close()
		var frames []Frame
		for i, n := range []int{0, 5, recordBytes - 40, 7, MaxFrame, 3, recordBytes, 0, 1} {
			text := []byte(strings.Repeat(string(rune('a'+i)), n))
			frames = append(frames, Frame{Kind: byte(20 + i), Payload: text[:n/3], Bulk: text[n/3:]})
		}
		wrote := make(chan error, 1)
		go func() { wrote <- atB.WriteFrames(frames) }()
		for _, f := range frames {
			kind, n, err := atA.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			got := make([]byte, n)
			if _, err := io.ReadFull(atA, got); err != nil || kind != f.Kind || string(got) != string(f.Payload)+string(f.Bulk) {
				t.Fatalf("kind %d with %d bytes, %v; want kind %d with %d", kind, n, err, f.Kind, len(f.Payload)+len(f.Bulk))
			}
		}
		if err := <-wrote; err != nil {
			t.Error(err)
		}
	})
}
