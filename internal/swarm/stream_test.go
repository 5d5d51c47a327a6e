package swarm

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/internal/pace"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/retry"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

func all(r unit.Bandwidth) func(int) unit.Bandwidth { return func(int) unit.Bandwidth { return r } }

// On links of its own, and a small object, which makes beginning and end weigh more, a swarm whose store is narrow, and uneven as in the paper, is near the bound
// of what store and links can do, and reads nothing twice.
func TestStreamIsNearTheBound(t *testing.T) {
	measures(t)
	const nodes, size, link = 8, 24 * unit.MiB, unit.Bandwidth(2 * unit.MiB)
	for _, part := range []unit.Bandwidth{0.12, 0.4} { // of a link, in the mean
		swarmOf(t, nodes, size, steal.Stream, func(b *bench) {
			rates := steal.Rates{}
			for i := range b.configs {
				b.configs[i].Layout.Piece = 64 * unit.KiB
				rates.Down, rates.Up = append(rates.Down, link), append(rates.Up, link)
				rates.Store = append(rates.Store, uneven[i]*part*link)
			}
			b.onStar(all(link), all(link), func(i int) unit.Bandwidth { return rates.Store[i] })
			b.run()
			b.complete(BySource, seq(nodes)...)
			bound, by := steal.Bound(size, nodes, rates)
			if ratio := slices.Max(b.took).Seconds() / bound; ratio > 1.2 {
				t.Errorf("%v: %v, %.3f of the bound by %s", part, slices.Max(b.took), ratio, by)
			}
			if got := b.storeBytes(); got < size || got > size*102/100 {
				t.Errorf("%v: %d bytes left the store, want %d and at most 2 %% more", part, got, size)
			}
		})
	}
}

// Where the store is wide and nodes have narrow uplinks, nobody waits for peers: it is as fast as if all
// download by themselves, but for the time it takes to see that. One that is to read no copy but the first is not.
func TestStreamIsNoSlowerThanFlat(t *testing.T) {
	measures(t)
	const nodes, size, link = 4, 48 * unit.MiB, unit.Bandwidth(2 * unit.MiB)
	took, read := map[string]time.Duration{}, map[string]unit.Bytes{}
	for _, how := range []string{"flat", "stream", "one copy", "two copies"} {
		algorithm := steal.Stream
		if how == "flat" {
			algorithm = steal.Flat
		}
		swarmOf(t, nodes, size, algorithm, func(b *bench) {
			for i := range b.configs {
				b.configs[i].SourceCopies = map[string]float64{"one copy": 1, "two copies": 2}[how]
			}
			b.onStar(all(link/5), all(link), all(2*link))
			b.run()
			b.complete(BySource, seq(nodes)...)
			took[how], read[how] = slices.Max(b.took), b.storeBytes()
		})
	}
	if float64(took["stream"]) > 1.25*float64(took["flat"]) {
		t.Errorf("flat takes %v, stream %v", took["flat"], took["stream"])
	}
	if read["one copy"] != size || took["one copy"] < 2*took["flat"] {
		t.Errorf("with one copy it takes %v, and %d bytes leave the store; want %d and more than twice of %v", took["one copy"], read["one copy"], size, took["flat"])
	}
	if got := read["two copies"]; got <= size*3/2 || got > 2*size {
		t.Errorf("%d bytes leave the store for at most two copies of %d", got, size)
	}
}

// refusing is a store that asks its first reader after a while to leave it alone, and notes who asks when.
type refusing struct {
	objstore.Store
	mu      sync.Mutex // guards asked
	asked   []time.Time
	refuses time.Time // from then on, once
	refused bool
	pause   time.Duration
}

func (r *refusing) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	r.mu.Lock()
	r.asked = append(r.asked, time.Now())
	refuse := !r.refuses.IsZero() && !r.refused && !time.Now().Before(r.refuses)
	r.refused = r.refused || refuse
	r.mu.Unlock()
	if refuse {
		return nil, &objstore.Busy{After: r.pause, Err: errors.New("503 Slow Down")}
	}
	return r.Store.ReadRange(ctx, o, off, n)
}

// A store that asks one node to leave it alone is left alone by all, and though they come back one after the other, nothing is read twice.
func TestPauseIsShared(t *testing.T) {
	const nodes, size, pause = 4, 8 * unit.MiB, 6 * time.Second
	swarmOf(t, nodes, size, steal.Stream, func(b *bench) {
		at := time.Now().Add(2 * time.Second)
		stores := make([]*refusing, nodes)
		for i := range b.configs {
			stores[i] = &refusing{Store: slow{b.store, 256 << 10}, pause: pause}
			b.configs[i].Store = retry.New(stores[i], retry.Policy{})
		}
		stores[1].refuses = at
		b.run()
		b.complete(BySource, seq(nodes)...)
		if !stores[1].refused {
			t.Fatal("the store never refused anybody: the test is none")
		}
		if got := b.storeBytes(); got != size {
			t.Errorf("%d bytes left the store, want one copy of %d", got, size)
		}
		after := 0 // by all: the last works may all be the same node's
		for i, s := range stores {
			before := 0
			for _, when := range s.asked {
				switch since := when.Sub(at); {
				case since < time.Second: // what was under way when it heard
					before++
				case since < pause:
					t.Errorf("%s asks the store %v after the pause of %v began", nodeName(i), since, pause)
				default:
					after++
				}
			}
			if before == 0 {
				t.Errorf("%s did not ask before the pause: it shows nothing", nodeName(i))
			}
		}
		if after == 0 {
			t.Error("nobody asked after the pause: it shows nothing")
		}
	})
}

// Who is back from a pause before the others takes nobody for hung, and reads nothing in the place of those who still wait.
func TestPauseIsNoFault(t *testing.T) {
	const nodes, size, pause = 4, 32 * unit.MiB, 30 * time.Second
	swarmOf(t, nodes, size, steal.Stream, func(b *bench) {
		at := time.Now().Add(2200 * time.Millisecond) // of about 3 s
		var first *refusing
		for i := range b.configs {
			b.configs[i].Layout.Piece = 64 * unit.KiB
			rate := unit.Bandwidth(unit.MiB)
			if i == 1 { // it is through before the last of the others is back
				rate *= 8
			}
			s := &refusing{Store: client{b.store, []*pace.Limiter{pace.New(rate)}, 4 << 10}, pause: pause}
			if i == 1 {
				first, s.refuses = s, at
			}
			b.configs[i].Store = retry.New(s, retry.Policy{})
		}
		b.run()
		b.complete(BySource, seq(nodes)...)
		if !first.refused {
			t.Fatal("the store never refused anybody: the test is none")
		}
		if got := b.storeBytes(); got != size {
			t.Errorf("%d bytes left the store, want one copy of %d", got, size)
		}
		for i := range nodes {
			if f := b.faultsOf(i); f != "" {
				t.Errorf("%s says: %s", nodeName(i), f)
			}
		}
	})
}

// A store that asks one node to leave it alone is read over half as many connections afterwards, by that node and by who has heard of it;
// once for each pause, however often it is repeated.
func TestPauseHalvesConnections(t *testing.T) {
	const pause = 5 * time.Second
	for name, begins := range map[string]func(n *node, store *retry.Store){
		"our store asks for it": func(n *node, store *retry.Store) {
			store.Hold(n.now.Add(pause))
			n.backOff()
		},
		"another node tells of it": func(n *node, _ *retry.Store) {
			l := &link{rank: 1, out: newOutbox(1 << 20)}
			n.neighbours[1].link = l
			if err := n.message(evMessage{link: l, kind: kindBusy, payload: appendBusy(nil, pause)}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		n := lone(0, 2, 64)
		store := retry.New(nil, retry.Policy{})
		n.Store = store
		var read unit.Bytes // a store that gives each connection the same
		for k := 0; n.streams() < 4; k++ {
			if k == 1000 {
				t.Fatal("the node never reads over four connections")
			}
			read += unit.Bytes(n.streams()) * 256 * unit.KiB
			n.now = n.now.Add(exchange.TickEvery)
			n.appetite.Read(read, n.streams(), n.now)
		}
		begins(n, store)
		if got := n.streams(); got != 2 || !store.Quiet().After(n.now) {
			t.Errorf("%s: over %d connections afterwards, from %v on; want 2, after the pause", name, got, store.Quiet().Sub(n.now))
		}
		store.Hold(store.Quiet().Add(pause))
		n.backOff()
		n.busy(pause)
		if got := n.streams(); got != 2 {
			t.Errorf("%s: over %d connections when the pause has become longer, want 2 as before", name, got)
		}
		n.now = store.Quiet().Add(time.Second)
		begins(n, store)
		if got := n.streams(); got != 1 {
			t.Errorf("%s: over %d connections after another pause, want 1", name, got)
		}
	}
}

// tiring is a store one of whose connections stops delivering in the middle.
type tiring struct {
	objstore.Store
	mu     sync.Mutex // guards asked
	asked  int
	which  int
	silent bool // it delivers nothing at all
}

func (s *tiring) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	s.mu.Lock()
	s.asked++
	tires := s.asked == s.which
	s.mu.Unlock()
	r, err := s.Store.ReadRange(ctx, o, off, n)
	if err == nil && tires {
		first := int64(100)
		if s.silent {
			first = 0
		}
		return struct {
			io.Reader
			io.Closer
		}{io.MultiReader(io.LimitReader(r, first), never{ctx}), r}, nil
	}
	return r, err
}

// never delivers.
type never struct{ ctx context.Context }

func (n never) Read([]byte) (int, error) {
	<-n.ctx.Done()
	return 0, n.ctx.Err()
}

// A connection to the store that hardly delivers is not waited for: its node, or another, reads over
// another one what it should have brought.
func TestSlowConnectionIsHedged(t *testing.T) {
	const nodes, size = 4, 16 * unit.MiB
	took := map[string]time.Duration{}
	for _, how := range []string{"well", "tired"} {
		swarmOf(t, nodes, size, steal.Stream, func(b *bench) {
			for i := range b.configs {
				b.configs[i].Store = slow{b.store, 512 << 10}
			}
			if how == "tired" {
				b.configs[2].Store = &tiring{Store: b.configs[2].Store, which: 4}
			}
			b.run()
			b.complete(BySource, seq(nodes)...)
			took[how] = slices.Max(b.took)
			if got := b.storeBytes(); got < size || got > size*102/100 {
				t.Errorf("%s: %d bytes were read of %d, want at most 2 %% twice", how, got, size)
			}
		})
	}
	if took["tired"] > took["well"]*3/2 {
		t.Errorf("it takes %v when a connection hangs, and %v else", took["tired"], took["well"])
	}
}

// Nor does a node that is alone wait for it, though nobody else could read in its place.
func TestSlowConnectionOfALoneNodeIsHedged(t *testing.T) {
	swarmOf(t, 1, 8*unit.MiB, steal.Stream, func(b *bench) {
		b.configs[0].Store = &tiring{Store: slow{b.store, 512 << 10}, which: 4}
		b.within(time.Hour)
		b.run()
		b.complete(BySource, 0)
		if b.took[0] > time.Minute {
			t.Errorf("it takes %v, of which it has waited for a connection that delivers nothing", b.took[0])
		}
	})
}

// Nor where nothing is known of the store yet, since all there is to read is one request: it is made once more before the store's own patience ends.
func TestFirstConnectionIsHedged(t *testing.T) {
	const size = 256 * unit.KiB
	for _, silent := range []bool{true, false} {
		swarmOf(t, 1, size, steal.Stream, func(b *bench) {
			b.configs[0].Layout.Piece = size
			store := &tiring{Store: slow{b.store, 512 << 10}, which: 1, silent: silent}
			b.configs[0].Store = retry.New(store, retry.Policy{})
			b.within(time.Hour)
			b.run()
			b.complete(BySource, 0)
			if b.took[0] > 15*time.Second || store.asked != 2 {
				t.Errorf("silent from the beginning %v: it takes %v and %d requests", silent, b.took[0], store.asked)
			}
			if got := b.storeBytes(); got > size+100 {
				t.Errorf("silent from the beginning %v: %d bytes were read of %d", silent, got, size)
			}
		})
	}
}

// late is a store that thinks for a while before each answer.
type late struct {
	objstore.Store
	after time.Duration
}

func (s late) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	select {
	case <-time.After(s.after):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.Store.ReadRange(ctx, o, off, n)
}

// From a store that only answers late nothing is read twice.
func TestLateStoreIsReadOnce(t *testing.T) {
	for _, after := range []time.Duration{3 * time.Second, 9 * time.Second, 20 * time.Second} {
		for _, piece := range []unit.Bytes{256 * unit.KiB, 4 * unit.MiB} {
			swarmOf(t, 1, 4*unit.MiB, steal.Stream, func(b *bench) {
				b.configs[0].Layout.Piece = piece
				b.configs[0].Store = retry.New(late{slow{b.store, 512 << 10}, after}, retry.Policy{})
				b.within(time.Hour)
				b.run()
				b.complete(BySource, 0)
				if got := b.storeBytes(); got != 4*unit.MiB {
					t.Errorf("answers after %v, pieces of %v: %d bytes left the store, want one copy", after, piece, got)
				}
			})
		}
	}
}
