package peer

import (
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/internal/pki"
)

// openConns is how many data connections a port keeps account of.
func openConns(p *Port) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// A node that was removed loses its connections, whoever had dialed, and gets
// no new ones, in either direction; all others keep theirs.
func TestRevoke(t *testing.T) {
	ca := newAuthority(t)
	ours := open(t, Options{Credentials: creds(t, ca, pki.Node, "ours")}, nil)
	gone := open(t, Options{Credentials: creds(t, ca, pki.Node, "gone")}, nil)
	other := open(t, Options{Credentials: creds(t, ca, pki.Node, "other")}, nil)
	in, theirOut := pair(t, ours, gone, "in")    // gone dialed us
	theirIn, out := pair(t, gone, ours, "out")   // we dialed it
	keep, theirKeep := pair(t, ours, other, "k") // is not concerned
	if got := openConns(ours); got != 3 {
		t.Fatalf("%d connections are on the list, want 3", got)
	}
	reads := make(chan error, 1)
	go func() { // a reader that waits is told, too
		_, _, err := in.ReadFrame()
		reads <- err
	}()
	key := gone.o.Credentials.Key()
	ours.Revoke([]string{key})
	select {
	case err := <-reads:
		if !errors.Is(err, ErrRemoved) {
			t.Errorf("read from a removed node: %v, want ErrRemoved", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the connection that a removed node had opened goes on")
	}
	if err := out.WriteFrame(1, []byte("x")); !errors.Is(err, ErrRemoved) {
		t.Errorf("write to a removed node: %v, want ErrRemoved", err)
	}
	for what, c := range map[string]*Conn{"it had dialed": theirOut, "it was dialed": theirIn} {
		_, _, err := c.ReadFrame()
		if r, ok := errors.AsType[*Refused](err); !ok || r.Code != Removed || r.Error() != "ours says: removed from the cluster" {
			t.Errorf("%s: the removed node reads %v, want to be told", what, err)
		}
	}
	if got := openConns(ours); got != 1 {
		t.Errorf("%d connections are on the list, want 1", got)
	}

	conns, withdraw := ours.Offer("j")
	defer withdraw()
	_, err := gone.Dial(t.Context(), ours.Addr().String(), "ours", "j")
	if r, ok := errors.AsType[*Refused](err); !ok || r.Code != Removed {
		t.Errorf("a removed node dials: %v, want Removed", err)
	}
	theirs, withdraw2 := gone.Offer("j")
	defer withdraw2()
	if _, err := ours.Dial(t.Context(), gone.Addr().String(), "gone", "j"); !errors.Is(err, ErrRemoved) {
		t.Errorf("dial a removed node: %v, want ErrRemoved", err)
	}
	select {
	case c := <-conns:
		t.Errorf("a connection of %s came in", c.Name())
	case c := <-theirs:
		t.Errorf("a connection of %s got to the removed node", c.Name())
	default:
	}

	// The others go on.
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := theirKeep.WriteFrame(7, []byte("still here")); err != nil {
			t.Error(err)
		}
	})
	if kind, b, err := readAll(keep); err != nil || kind != 7 || string(b) != "still here" {
		t.Errorf("another node's connection: %d, %q, %v", kind, b, err)
	}
	wg.Wait()

	// The same name with a new certificate is another node.
	again := open(t, Options{Credentials: creds(t, ca, pki.Node, "gone")}, nil)
	a, b := pair(t, ours, again, "again")
	a.Close()
	b.Close()

	// A list without the key takes the removal back.
	ours.Revoke(nil)
	a, b = pair(t, ours, gone, "back")
	a.Close()
	b.Close()
	keep.Close()
	if got := openConns(ours); got != 0 {
		t.Errorf("%d connections are on the list when all are closed", got)
	}
}

// A connection that waits for its job is closed as well.
func TestRevokeWhileWaiting(t *testing.T) {
	ca := newAuthority(t)
	ours := open(t, Options{Credentials: creds(t, ca, pki.Node, "ours")}, nil)
	gone := open(t, Options{Credentials: creds(t, ca, pki.Node, "gone")}, nil)
	dialed := make(chan error, 1)
	go func() {
		_, err := gone.Dial(t.Context(), ours.Addr().String(), "ours", "not-yet")
		dialed <- err
	}()
	for end := time.Now().Add(20 * time.Second); openConns(ours) == 0; {
		if time.Now().After(end) {
			t.Fatal("nobody waits")
		}
		time.Sleep(time.Millisecond)
	}
	ours.Revoke([]string{gone.o.Credentials.Key()})
	select {
	case err := <-dialed:
		if r, ok := errors.AsType[*Refused](err); (!ok || r.Code != Removed) && !errors.Is(err, io.EOF) {
			t.Errorf("dial: %v, want to be refused as removed", err)
		}
	case <-time.After(offerTimeout / 2):
		t.Error("a removed node goes on waiting for its job")
	}
}
