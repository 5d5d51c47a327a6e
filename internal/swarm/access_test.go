package swarm

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/mem"
	"github.com/freshet/freshet/objstore/retry"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// impostors are members that claim to have access: what they show first.
var impostors = map[string]func(b *bench, c *peer.Conn, self string){
	"nothing": func(*bench, *peer.Conn, string) {},
	"guessed": func(_ *bench, c *peer.Conn, _ string) { c.WriteFrame(kindAccess, make([]byte, 32)) },
	"of the other end": func(b *bench, c *peer.Conn, _ string) {
		c.WriteFrame(kindAccess, b.witness.Proof(c.Name())) // what that one shows itself
	},
	"of a third": func(b *bench, c *peer.Conn, _ string) {
		c.WriteFrame(kindAccess, b.witness.Proof("n1"))
	},
	"too long": func(_ *bench, c *peer.Conn, _ string) { c.WriteFrame(kindAccess, make([]byte, peer.MaxFrame)) },
	"all it has": func(b *bench, c *peer.Conn, _ string) {
		full := piece.NewSet(b.configs[0].Layout.Count())
		full.AddRange(piece.Range{Hi: full.Len()})
		c.WriteFrame(kindBitfield, appendBitfield(nil, full))
	},
}

// whatTheyHear is what members say to an impostor beside their own proof.
type whatTheyHear struct {
	mu    sync.Mutex // guards kinds
	kinds []byte
}

// ask asks for all there is.
func ask(b *bench, c *peer.Conn) {
	for p := range b.configs[0].Layout.Count() {
		if c.WriteFrame(kindRequest, appendNumbers(nil, p, 0, b.configs[0].Layout.Blocks(p))) != nil {
			return
		}
	}
}

// listen reads until the connection ends.
func (h *whatTheyHear) listen(c *peer.Conn) {
	for {
		kind, n, err := c.ReadFrame()
		if err != nil {
			return
		}
		if kind != kindAccess {
			h.mu.Lock()
			h.kinds = append(h.kinds, kind)
			h.mu.Unlock()
		}
		if _, err := io.CopyN(io.Discard, c, int64(n)); err != nil {
			return
		}
	}
}

// A member that does not know what lies at the place of the challenge is told nothing,
// neither where it is called nor where it calls, and the job goes on without it.
func TestImpostorHearsNothing(t *testing.T) {
	for name, show := range impostors {
		for _, calls := range []bool{false, true} {
			swarmOf(t, 3, 4*unit.MiB, steal.Steal, func(b *bench) {
				var heard whatTheyHear
				rank := 2
				if calls {
					rank = 0
				}
				ctx, cancel := context.WithCancel(b.t.Context())
				var wg sync.WaitGroup
				self := b.configs[rank]
				talk := func(c *peer.Conn) {
					context.AfterFunc(ctx, func() { c.Close() })
					wg.Go(func() {
						if show(b, c, nodeName(rank)); name != "nothing" {
							ask(b, c)
						}
					})
					heard.listen(c)
				}
				met := make(chan struct{}, 16)
				if calls {
					for _, m := range self.Members[1:] {
						wg.Go(func() {
							if c, err := b.ports[rank].Dial(ctx, m.Addr, m.Name, "job"); err == nil {
								met <- struct{}{}
								talk(c)
							}
						})
					}
				} else {
					incoming, withdraw := b.ports[rank].Offer("job")
					wg.Go(func() {
						defer withdraw()
						for {
							select {
							case c := <-incoming:
								met <- struct{}{}
								wg.Go(func() { talk(c) })
							case <-ctx.Done():
								return
							}
						}
					})
				}
				all := b.configs
				b.configs = append(b.configs[:rank:rank], b.configs[rank+1:]...)
				b.run()
				cancel()
				wg.Wait()
				if len(met) == 0 {
					t.Fatal("nobody met the impostor")
				}
				if len(heard.kinds) > 0 {
					t.Errorf("%s, calls %v: heard messages of kinds %v", name, calls, heard.kinds)
				}
				for i, c := range b.configs {
					if b.errs[i] != nil || !b.results[i].Done {
						t.Errorf("%s, calls %v: %s: %v", name, calls, nodeName(c.Self), b.errs[i])
					}
					if f := b.faultsOf(i); !strings.Contains(f, nodeName(rank)+": ") || !strings.Contains(f, "has not proved that it may read "+key) {
						t.Errorf("%s, calls %v: %s does not say what is wrong with the impostor: %q", name, calls, nodeName(c.Self), f)
					}
				}
				b.configs = all
			})
		}
	}
}

// Who has not proved that it may read is not accused of wrong bytes: it would read its whole file again.
func TestUnprovedIsNoAccusation(t *testing.T) {
	swarmOf(t, 2, unit.MiB, steal.Steal, func(b *bench) {
		n := newNode(b.configs[0])
		incoming, withdraw := b.ports[1].Offer("job")
		defer withdraw()
		conn, err := b.ports[0].Dial(b.t.Context(), "n1", "n1", "job")
		if err != nil {
			b.t.Fatal(err)
		}
		there := <-incoming
		defer there.Close()
		n.wg.Go(func() { n.meet(b.t.Context(), 1, conn) })
		_, size, err := there.ReadFrame()
		if err == nil {
			_, err = io.CopyN(io.Discard, there, int64(size))
		}
		if err != nil {
			b.t.Fatal(err)
		}
		there.WriteFrame(kindAccess, b.witness.Proof("somebody else"))
		_, _, err = there.ReadFrame()
		if refused, ok := errors.AsType[*peer.Refused](err); !ok || refused.Code != peer.Other || !strings.Contains(refused.Text, "has not proved") {
			t.Errorf("hears %v", err)
		}
		n.wg.Wait()
	})
}

// A member that is right is not convinced by one whose bytes differ either: each checks the other.
func TestBothEndsProve(t *testing.T) {
	swarmOf(t, 2, unit.MiB, steal.Steal, func(b *bench) {
		other := mem.New()
		o := other.Set(key, make([]byte, b.object.Size))
		liar := b.configs[0] // dials, and has what it takes for the object
		c := b.challenge
		var err error
		if liar.Access, err = c.Read(b.t.Context(), "job", other, o); err != nil {
			t.Fatal(err)
		}
		b.configs[0] = liar
		b.run()
		for i := range 2 {
			if !b.results[i].Done || b.results[i].PeerBytes > 0 || b.results[i].SentBytes > 0 {
				t.Errorf("n%d: done %v with %v from peers, %v given; want each alone", i, b.results[i].Done, b.results[i].PeerBytes, b.results[i].SentBytes)
			}
		}
		if f := b.faultsOf(1); !strings.Contains(f, "n0: has not proved") {
			t.Errorf("n1: %q", f)
		}
		if f := b.faultsOf(0); !strings.Contains(f, "n1 says") {
			t.Errorf("n0 does not say that n1 refuses it: %q", f)
		}
	})
}

// forbidden is a store that lets nobody in.
type forbidden struct {
	objstore.Store
	t *testing.T
}

func (s forbidden) ReadRange(context.Context, objstore.Object, unit.Bytes, unit.Bytes) (io.ReadCloser, error) {
	s.t.Error("a node that may not read the store tried to")
	return nil, objstore.ErrDenied
}

// share makes the job one that shares access, and these nodes ones that have none.
func (b *bench) share(without ...int) {
	for i := range b.configs {
		b.configs[i].Access = nil
		for _, rank := range without {
			b.configs[i].Members[rank].NoAccess = true
		}
	}
	for _, rank := range without {
		b.configs[rank].Store = forbidden{b.store, b.t}
	}
}

// Who may not read gets all from those who may, which read the object once.
func TestSharedAccess(t *testing.T) {
	for name, options := range map[string][]mem.Option{"ranges": nil, "no ranges": {mem.NoRanges()}} {
		for _, a := range []string{steal.NonSteal, steal.Steal} {
			swarmOf(t, 4, 8*unit.MiB, a, func(b *bench) {
				b.share(0, 2)
				b.run()
				if b.complete("", 0, 1, 2, 3); b.storeBytes() != b.object.Size {
					t.Errorf("%s, %s: %v left the store", name, a, b.storeBytes())
				}
				for _, i := range []int{0, 2} {
					if p := b.results[i]; p.StoreBytes != 0 || p.PeerBytes < b.object.Size {
						t.Errorf("%s, %s: n%d read %v from the store and got %v from peers", name, a, i, p.StoreBytes, p.PeerBytes)
					}
				}
			}, options...)
		}
	}
}

// Its works go to those who may read when one of them dies; when none is left
// the others say so in bounded time.
func TestReadersOfSharedAccessDie(t *testing.T) {
	for _, left := range []bool{true, false} {
		swarmOf(t, 4, 8*unit.MiB, steal.Steal, func(b *bench) {
			without := []int{0, 2}
			if !left {
				without = []int{0, 1, 2}
			}
			b.share(without...)
			for i := range b.configs {
				b.configs[i].Store = slow{b.configs[i].Store, 512 << 10}
			}
			b.after(2*time.Second, func() {
				b.net.kill("n3")
				b.cancel[3](errors.New("killed"))
			})
			b.run()
			if left {
				b.complete(BySource, 0, 1, 2)
				return
			}
			for i := range 3 {
				if err := b.errs[i]; err == nil || !strings.Contains(err.Error(), "no node is left that may read") {
					t.Errorf("n%d: %v", i, err)
				}
			}
		})
	}
}

// An audit is up to those who may read.
func TestAuditOfSharedAccess(t *testing.T) {
	swarmOf(t, 3, 4*unit.MiB, steal.Steal, func(b *bench) {
		b.share(1)
		b.configs[0].Store = &lyingOnce{Store: b.store}
		b.run()
		b.complete(BySource, 0, 1, 2)
	})
}

// lyingOnce is a store whose first reading has a flipped bit.
type lyingOnce struct {
	objstore.Store
	once sync.Once
}

func (s *lyingOnce) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	r, err := s.Store.ReadRange(ctx, o, off, n)
	if err != nil {
		return nil, err
	}
	flip := false
	s.once.Do(func() { flip = true })
	if !flip {
		return r, nil
	}
	b, err := io.ReadAll(r)
	b[0] ^= 1
	return struct {
		io.Reader
		io.Closer
	}{strings.NewReader(string(b)), r}, err
}

// away is a store that cannot be reached for a while.
type away struct {
	objstore.Store
	from, until time.Time
	refused     *atomic.Int32
}

var errAway = errors.New("connection refused")

func (a away) away() bool {
	now := time.Now()
	gone := now.After(a.from) && now.Before(a.until)
	if gone {
		a.refused.Add(1)
	}
	return gone
}

func (a away) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	if a.away() {
		return nil, errAway
	}
	r, err := a.Store.ReadRange(ctx, o, off, n)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{breaking{r, a}, r}, nil
}

// breaking is a body that breaks off when the store is away.
type breaking struct {
	io.Reader
	store away
}

func (b breaking) Read(p []byte) (int, error) {
	if b.store.away() {
		return 0, errAway
	}
	return b.Reader.Read(p)
}

// Who may not read the store does not give up before those who may, and wait for it to come back.
func TestStoreIsAwayForLong(t *testing.T) {
	swarmOf(t, 3, 8*unit.MiB, steal.Stream, func(b *bench) {
		b.share(2)
		var refused atomic.Int32
		from := time.Now().Add(1500 * time.Millisecond)
		for i := range 2 {
			s := away{slow{b.store, 256 << 10}, from, from.Add(150 * time.Second), &refused}
			b.configs[i].Store = retry.New(s, retry.Policy{Patience: 4 * time.Minute}) // orders of a larger object would begin anew meanwhile, since they lag
		}
		b.run()
		b.complete(BySource, seq(3)...)
		if refused.Load() == 0 {
			t.Error("nobody asked the store while it was away: the test is none")
		}
	})
}

// But not for ever.
func TestReadersGetNowhere(t *testing.T) {
	swarmOf(t, 3, 8*unit.MiB, steal.Stream, func(b *bench) {
		b.share(2)
		c := b.configs[2]
		c.Log, c.Report = slog.New(slog.DiscardHandler), func(Progress) {}
		n := newNode(c)
		for _, late := range []time.Duration{0, time.Second} {
			n.now = n.moved.Add(outlasts*leaveAfter + late)
			if n.forsaken(); (n.fatal != nil) != (late > 0) {
				t.Errorf("after %v: %v", n.now.Sub(n.moved), n.fatal)
			}
		}
	})
}
