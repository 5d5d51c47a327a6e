package swarm

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/internal/pace"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/piece"
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

const narrowLink = unit.Bandwidth(512 * unit.KiB)

// narrow puts a swarm on a star whose store delivers no more to all together than the link of one carries, and returns the bound in seconds.
func (b *bench) narrow(link unit.Bandwidth) (bound float64) {
	const size = 64 * unit.KiB
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
	readsInTurn(t, narrowLink)
}

// Four times as narrow, when one piece after another would be read again and the patience of those that wait is at its end, each byte still leaves the store once, and
// nobody takes another for one that hangs. How long it takes is a matter of who has to give what to all in the end.
func TestNarrowerStoreIsReadOnce(t *testing.T) {
	measures(t)
	readsInTurn(t, narrowLink/4)
}

func readsInTurn(t *testing.T, link unit.Bandwidth) {
	t.Helper()
	const nodes, size = 32, 4 * unit.MiB
	swarmOf(t, nodes, size, steal.Stream, func(b *bench) {
		bound := b.narrow(link)
		var waited atomic.Int32
		var said bytes.Buffer
		log := slog.New(slog.NewTextHandler(&said, nil))
		for i := range b.configs {
			b.configs[i].Log = log
			b.configs[i].Report = func(p Progress) {
				if strings.Contains(p.Waiting, "its turn") {
					waited.Add(1)
				}
			}
		}
		b.run()
		b.complete(BySource, seq(nodes)...)
		ratio := slices.Max(b.took).Seconds() / bound
		t.Logf("%.3f of the bound", ratio)
		if link == narrowLink && ratio > 1.6 {
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
		for line := range strings.Lines(said.String()) {
			if strings.Contains(line, "hardly") { // gets on, or delivers
				t.Errorf("somebody says: %s", line)
			}
		}
		if waited.Load() == 0 {
			t.Error("nobody has waited for its turn: the test is none")
		}
	})
}

// Who dies or hangs while it is its turn leaves no turn unused: others read in its place, and all as fast as they did.
func TestDeadLeaveNoTurnUnused(t *testing.T) {
	measures(t)
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
		b.narrow(narrowLink)
		b.run()
		b.complete(BySource, seq(nodes)...)
		usual = stored(b)
	})
	swarmOf(t, nodes, size, steal.Stream, func(b *bench) {
		b.narrow(narrowLink)
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

// Until a node knows how fast it reads over one connection, and in turn, it reads over one, whatever its appetite; and in turn it gives others twice
// the time that a piece takes there if all of the store is theirs.
func TestNodeInTurnReadsOverOneConnection(t *testing.T) {
	const nodes = 32
	l := piece.Layout{Size: 2 * nodes * unit.MiB, Piece: unit.MiB}
	n := &node{Config: Config{Self: nodes - 1, Layout: l, Members: make([]Member, nodes), Object: objstore.Object{Ranges: true}}, appetite: steal.NewAppetite(l.Piece)}
	n.policy = steal.PolicyOf(steal.Stream, l, nodes, 0)
	n.turns = steal.NewTurns(steal.Divide(l.Count(), seq(nodes), 1), nodes-1, l)
	now, read := time.Now(), 0.0
	step := func(rate float64) {
		now = now.Add(exchange.TickEvery)
		read += rate * exchange.TickEvery.Seconds()
		n.turns.Note(unit.Bytes(read), true, 0, now)
	}
	for k := 0; n.appetite.Streams() == 1; k++ {
		if k == 100 {
			t.Fatal("a node that reads all the time has no appetite for a second connection")
		}
		n.appetite.Read(unit.Bytes(k)*unit.MiB, 1, now.Add(time.Duration(k)*exchange.TickEvery))
	}
	if got := n.streams(); got != 1 {
		t.Errorf("reads over %d connections before it knows how fast it reads over one", got)
	}
	for range 100 {
		switch {
		case n.turns.Together():
			step(20_000)
		case !n.turns.InTurn():
			step(40_000)
		}
	}
	if !n.turns.InTurn() {
		t.Fatal("the nodes do not read in turn")
	}
	if got := n.streams(); got != 1 {
		t.Errorf("reads over %d connections in turn", got)
	}
	for range 100 {
		step(0)
	}
	n.fromStore.Store(int64(l.Piece))
	n.read = time.Millisecond
	if got, want := n.expected(1), 2*n.turns.Takes(); got != want || want < time.Second {
		t.Errorf("a piece is to take %v, want %v", got, want)
	}
}

// Who has read something, be it at once, overtakes others; who has read nothing does not.
func TestWhatComesAtOnceHasCome(t *testing.T) {
	l := piece.Layout{Size: 8 * unit.MiB, Piece: unit.MiB}
	n := &node{Config: Config{Layout: l, Members: make([]Member, 1)}, turns: &steal.Turns{}, now: time.Now()}
	if got := n.expected(1); got != 0 || steal.Lags(time.Hour, got) {
		t.Errorf("one that has read nothing takes %v for a piece", got)
	}
	n.fromStore.Store(int64(l.Piece))
	if got := n.expected(1); !steal.Lags(time.Hour, got) {
		t.Errorf("one that has read a piece in no time takes %v for one, and overtakes nobody", got)
	}
}

// Who waits for its turn with something that it has begun has enough to read, and asks nobody for works.
func TestWhoRestsAsksForNoWorks(t *testing.T) {
	const nodes = 4
	l := piece.Layout{Size: 2 * nodes * unit.MiB, Piece: unit.MiB}
	for _, rests := range []bool{true, false} {
		n := &node{Config: Config{Layout: l, Members: make([]Member, nodes)}, policy: steal.PolicyOf(steal.Stream, l, nodes, 0), appetite: steal.NewAppetite(l.Piece), turns: &steal.Turns{}, now: time.Now()}
		n.neighbours, n.works, n.ex = make([]neighbour, nodes), steal.NewNode(0, nodes, steal.Divide(l.Count(), seq(nodes), 1), true), exchange.New(exchange.Config{Nodes: nodes, Layout: l})
		first, _ := n.works.Next(1, n.ex.Held)
		n.works.End(first[0])
		works, _ := n.works.Next(1, n.ex.Held) // the last of its own
		n.fetches = []*fetch{{order: order{works: works}, rests: rests}}
		n.ask()
		if asked := !n.asked.IsZero(); asked == rests {
			t.Errorf("what it reads rests: %v, and it asks for more: %v", rests, asked)
		}
	}
}
