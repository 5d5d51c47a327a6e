package swarm

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/internal/pace"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// shared is a store that delivers its total to all together, a little at a time to each, over the link of each, which it shares with peers
// grain by grain as they do among themselves.
type shared struct {
	objstore.Store
	total, down   *pace.Limiter
	little, grain int       // bytes
	stops         time.Time // from then on it delivers nothing; zero: never
}

func (s shared) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	r, err := s.Store.ReadRange(ctx, o, off, n)
	if err != nil {
		return nil, err
	}
	return &sharedBody{s, ctx, r, 0}, nil
}

type sharedBody struct {
	shared
	ctx  context.Context
	body io.ReadCloser
	paid int // bytes that the link has room for
}

func (b *sharedBody) Read(p []byte) (int, error) {
	if !b.stops.IsZero() && !time.Now().Before(b.stops) {
		return never{b.ctx}.Read(p)
	}
	if b.paid == 0 {
		if err := b.down.Wait(b.ctx, b.grain); err != nil {
			return 0, err
		}
		b.paid = b.grain
	}
	n, err := b.body.Read(p[:min(len(p), b.little, b.paid)])
	b.paid -= n
	if late := b.total.Wait(b.ctx, n); err == nil {
		err = late
	}
	return n, err
}

func (b *sharedBody) Close() error { return b.body.Close() }

// narrow puts a swarm on a star whose store delivers no more to all together than the link of one carries, and returns the bound in seconds.
func (b *bench) narrow() (bound float64) {
	const link, size = unit.Bandwidth(512 * unit.KiB), 64 * unit.KiB
	rates, nodes := steal.Rates{Total: link}, len(b.configs)
	for i := range b.configs {
		b.configs[i].Layout.Piece = size
		rates.Down, rates.Up = append(rates.Down, link), append(rates.Up, link)
	}
	s, total := b.onStar(all(link), all(link), all(0)), pace.New(link)
	s.grain = int(size) / 64
	for i := range b.configs {
		b.configs[i].Store = shared{Store: b.store, total: total, down: s.down[nodeName(i)], little: int(size) / 512, grain: s.grain}
	}
	bound, _ = steal.Bound(unit.Bytes(len(b.data)), nodes, rates)
	return bound
}

// Where the store is as narrow for all nodes together as the link of one, they read in turn: pieces come one after the other from early on, and it takes
// much less time than if all read at once, which is 1.97 times the bound here: 4 of its 8 seconds bring nobody a piece. Each byte leaves the store once,
// and nobody takes who waits for its turn for one that hangs.
func TestNarrowStoreIsReadInTurn(t *testing.T) {
	const nodes, size = 32, 4 * unit.MiB
	swarmOf(t, nodes, size, steal.Stream, func(b *bench) {
		bound := b.narrow()
		var waited atomic.Int32
		for i := range b.configs {
			b.configs[i].Report = func(p Progress) {
				if strings.Contains(p.Waiting, "its turn") {
					waited.Add(1)
				}
			}
		}
		b.run()
		b.complete(BySource, seq(nodes)...)
		if ratio := slices.Max(b.took).Seconds() / bound; ratio > 1.6 {
			t.Errorf("%v, %.3f of the bound", slices.Max(b.took), ratio)
		}
		if got := b.storeBytes(); got < size || got > size*102/100 {
			t.Errorf("%d bytes left the store, want %d and at most 2 %% more", got, size)
		}
		for i := range nodes {
			if f := b.faultsOf(i); f != "" {
				t.Errorf("%s says: %s", nodeName(i), f)
			}
		}
		if waited.Load() == 0 {
			t.Error("nobody has waited for its turn: the test is none")
		}
	})
}

// Who dies or hangs while it is its turn leaves no turn unused: others read in its place, and all as fast as they did.
func TestDeadLeaveNoTurnUnused(t *testing.T) {
	const nodes, size, most = 32, 8 * unit.MiB, 96
	const dies, hangs = 1, 17                // number 16 and 17 in the order (steal.Division)
	stored := func(b *bench) (s []float64) { // when pieces had been read from the store
		for _, e := range b.events() {
			if e.Kind == "piece" && e.From == StoreName {
				s = append(s, e.T)
			}
		}
		slices.Sort(s)
		return s
	}
	var usual, got []float64
	swarmOf(t, nodes, size, steal.Stream, func(b *bench) {
		b.narrow()
		b.run()
		b.complete(BySource, seq(nodes)...)
		usual = stored(b)
	})
	swarmOf(t, nodes, size, steal.Stream, func(b *bench) {
		b.narrow()
		then := time.Duration(usual[14] * 1e9)
		hung := b.configs[hangs].Store.(shared)
		hung.stops = time.Now().Add(then)
		b.configs[hangs].Store = hung
		b.after(then, func() {
			b.net.kill(nodeName(dies))
			b.cancel[dies](nil)
			b.net.mute(nodeName(hangs))
		})
		b.after(time.Minute, func() { b.cancel[hangs](nil) })
		b.run()
		b.complete(BySource, slices.DeleteFunc(seq(nodes), func(i int) bool { return i == dies || i == hangs })...)
		got = stored(b)
	})
	if len(got) < most || got[most-1] > 1.2*usual[most-1] {
		t.Errorf("%d pieces are read after %.2f s, and %.2f if nobody dies", most, got[most-1], usual[most-1])
	}
}
