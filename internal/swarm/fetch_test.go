package swarm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// lone is a node that is connected with nobody, of so many that each have the same part of an object to read, in pieces of 1 MiB. It has read
// one of them, in a second.
func lone(self, nodes, pieces int) *node {
	l := piece.Layout{Size: unit.Bytes(pieces) * unit.MiB, Piece: unit.MiB}
	now := time.Unix(1e9, 0)
	n := &node{
		Config: Config{Self: self, Layout: l, Object: objstore.Object{Ranges: true}, Log: slog.New(slog.DiscardHandler)},
		policy: steal.PolicyOf(steal.Stream, l, nodes, 1), now: now, began: now, read: time.Second,
		neighbours: make([]neighbour, nodes), man: exchange.NewManifest(l),
		ex:       exchange.New(exchange.Config{Self: self, Nodes: nodes, Layout: l, Rand: rand.New(rand.NewPCG(1, 1))}),
		works:    steal.NewNode(self, nodes, steal.Divide(pieces, seq(nodes), 1), true),
		appetite: steal.NewAppetite(l.Piece), turns: &steal.Turns{}, twice: steal.NewTwice(l.Size, nodes, 0),
	}
	for i := range nodes {
		n.Members = append(n.Members, Member{Name: nodeName(i)})
	}
	n.asm = newAssembly(l, n.algorithm)
	n.fromStore.Store(int64(l.Piece))
	return n
}

// crowd is a store that counts over how many connections it is read at once.
type crowd struct {
	objstore.Store
	mu        sync.Mutex // guards the fields below
	now, most int
}

func (c *crowd) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	r, err := c.Store.ReadRange(ctx, o, off, n)
	if err != nil {
		return nil, err
	}
	c.more(1)
	return &counted{ReadCloser: r, of: c}, nil
}

func (c *crowd) more(k int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += k
	c.most = max(c.most, c.now)
}

type counted struct {
	io.ReadCloser
	of   *crowd
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.of.more(-1) })
	return c.ReadCloser.Close()
}

// A store that limits each connection is read over several.
func TestStoreIsReadOverSeveralConnections(t *testing.T) {
	const nodes, size, each = 2, 32 * unit.MiB, unit.Bandwidth(unit.MiB)
	const alone = 16 * time.Second // over one connection each
	swarmOf(t, nodes, size, steal.Stream, func(b *bench) {
		stores := make([]*crowd, nodes)
		for i := range b.configs {
			b.configs[i].Layout.Piece = 512 * unit.KiB // of a small one much comes before the limit is felt
			stores[i] = &crowd{Store: slow{b.store, each}}
			b.configs[i].Store = stores[i]
		}
		b.run()
		b.complete(BySource, seq(nodes)...)
		if took := slices.Max(b.took); took > alone*2/3 {
			t.Errorf("it takes %v, and %v over one connection each", took, alone)
		}
		for i, s := range stores {
			if s.most < 4 || s.most > steal.MostStreams {
				t.Errorf("%s reads over %d connections at once, want 4 to %d", nodeName(i), s.most, steal.MostStreams)
			}
		}
		if got := b.storeBytes(); got != size {
			t.Errorf("%v left the store, want one copy of %v", got, size)
		}
	})
}

// With stream a node asks for works while it reads the last of its own, and for what it reads in a second; in the paper when it has nothing left, and for half
// of what there is.
func TestWhenWorksAreAskedFor(t *testing.T) {
	for _, tt := range []struct {
		algorithm      string
		reads, commits bool
		most           int // works that are asked for; zero: it does not ask
	}{
		{steal.Stream, true, false, 1}, // nothing is known of its rate
		{steal.Stream, false, false, 1},
		{steal.Steal, true, false, 0},
		{steal.Steal, false, false, math.MaxInt32},
		{steal.Stream, false, true, 0},
	} {
		n := lone(0, 2, 8)
		n.policy, n.commits = steal.PolicyOf(tt.algorithm, n.Layout, 2, 1), tt.commits
		for n.works.Left() > 0 {
			works, _ := n.works.Next(1, n.ex.Held)
			if tt.reads && n.works.Left() == 0 {
				n.fetches = []*fetch{{order: order{works: works}}}
			} else {
				n.works.End(works[0])
			}
		}
		l := &link{rank: 1, out: newOutbox(1 << 20)}
		n.neighbours[1].link = l
		n.ask()
		most, pace, each := 0, steal.Pace{}, time.Duration(0)
		if ms, _, _ := l.out.next(); len(ms) > 0 {
			var err error
			if most, pace, err = parseGiveWork(ms[0].Payload); err != nil || ms[0].Kind != kindGiveWork {
				t.Fatalf("%+v: says %v, %v", tt, ms, err)
			}
		}
		if tt.most == 1 {
			each = time.Second
		}
		if most != tt.most || pace.Each != each {
			t.Errorf("%+v: asks for %d works, each of which takes it %v; want that they take %v", tt, most, pace.Each, each)
		}
	}
}

// A thief gets as many works as it asks for, half of what there is at most, and with stream none that it would end later.
func TestThiefGetsWhatItAsksFor(t *testing.T) {
	for _, tt := range []struct {
		algorithm string
		most      int
		pace      steal.Pace
		want      int
	}{
		{steal.Stream, 100, steal.Pace{}, 4},
		{steal.Stream, 3, steal.Pace{}, 3},
		{steal.Stream, 100, steal.Pace{Each: time.Second}, 4},
		{steal.Stream, 100, steal.Pace{Free: time.Hour, Each: time.Second}, 0},
		{steal.Steal, 100, steal.Pace{Free: time.Hour, Each: time.Second}, 4},
	} {
		n := lone(0, 2, 16)
		n.policy = steal.PolicyOf(tt.algorithm, n.Layout, 2, 1)
		l := &link{rank: 1, out: newOutbox(1 << 20)}
		n.neighbours[1].link = l
		if err := n.message(evMessage{link: l, kind: kindGiveWork, payload: appendGiveWork(nil, tt.most, tt.pace)}); err != nil {
			t.Fatal(err)
		}
		ms, _, _ := l.out.next()
		if len(ms) != 1 || ms[0].Kind != kindWorks {
			t.Fatalf("%+v: says %v", tt, ms)
		}
		hands, err := parseWorks(ms[0].Payload)
		got := 0
		for _, h := range hands {
			got += h.Hi - h.Lo
		}
		if err != nil || got != tt.want || n.works.Left() != 8-tt.want {
			t.Errorf("%+v: gives %v of 8 works and keeps %d, %v", tt, hands, n.works.Left(), err)
		}
	}
}

// One request to the store is for as many works as are read in a second, shared by all connections; in the paper for one.
func TestRequestsFollowTheRate(t *testing.T) {
	for algorithm, want := range map[string]int{steal.Stream: 5, steal.Steal: 1} {
		n := lone(0, 2, 256)
		n.policy = steal.PolicyOf(algorithm, n.Layout, 2, 1)
		for k := range 21 { // 10 MiB/s, for a second; then a second connection is tried
			n.appetite.Read(unit.Bytes(k)*unit.MiB/2, 1, n.now.Add(time.Duration(k)*exchange.TickEvery))
		}
		if o, ok := n.order(); !ok || len(o.works) != want || o.span.Len() != want || len(o.take) != want {
			t.Errorf("%s: asks for works %v, pieces %v, over %d connections; want %d works", algorithm, o.works, o.span, n.appetite.Streams(), want)
		}
	}
}

// In turn a node begins with what it has inherited, if that comes before its own; and with nothing, if it is not the turn of that.
func TestInheritedTurnComesFirst(t *testing.T) {
	const nodes = 32
	n := lone(1, nodes, 2*nodes)
	n.turns = steal.NewTurns(steal.Divide(2*nodes, seq(nodes), 1), n.Self, n.Layout)
	read := 0.0
	for k := 0; !n.turns.InTurn(); k++ {
		if k == 200 {
			t.Fatal("the nodes do not read in turn")
		}
		rate := 20_000.0
		if !n.turns.Together() { // half of them rest
			rate = 40_000
		}
		n.now = n.now.Add(exchange.TickEvery)
		read += rate * exchange.TickEvery.Seconds()
		n.turns.Note(unit.Bytes(read), true, 0, n.now)
	}
	n.works.Dead(0, n.ex.Held)
	if o, ok := n.order(); !ok || !slices.Equal(o.works, []int{0}) || n.waits {
		t.Errorf("begins with works %v, %v, and waits %v; want 0, whose turn it is, and which the first node had", o.works, ok, n.waits)
	}
	if o, ok := n.order(); ok || !n.waits {
		t.Errorf("goes on with works %v, %v, and waits %v; want that it waits for its turn", o.works, ok, n.waits)
	}
}

// A node that has nothing to read, and nobody to ask for works, reads in the place of another only if that one hardly gets on: by
// what a piece takes itself, while the store answers, and as far as more than one copy may leave the store.
func TestWhoIsOvertaken(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(n *node)
		want   bool
	}{
		{"it hangs", func(*node) {}, true},
		{"it has got on", func(n *node) { n.neighbours[1].gained = n.now.Add(-3 * time.Second) }, false},
		{"the store was to be left alone", func(n *node) { n.quietAll = n.now.Add(-3 * time.Second) }, false},
		{"we are as slow", func(n *node) { n.read = time.Minute }, false},
		{"we have read nothing", func(n *node) { n.fromStore.Store(0) }, false},
		{"we are reading", func(n *node) { n.fetches = []*fetch{{}} }, false},
		{"we have only just become idle", func(n *node) { n.idle = n.now }, false},
		{"only one copy may leave the store", func(n *node) { n.twice = steal.NewTwice(n.Layout.Size, 2, 1) }, false},
		{"we may not read the store", func(n *node) { n.Members[0].NoAccess = true }, false},
		{"we have the object, but for its place", func(n *node) { n.commits = true }, false},
	} {
		n := lone(0, 2, 2)
		works, _ := n.works.Next(1, n.ex.Held)
		n.works.End(works[0])
		n.ex.Got(0)
		n.idle, n.neighbours[1].gained = n.now.Add(-time.Minute), n.now.Add(-time.Minute)
		n.twice = steal.NewTwice(n.Layout.Size, 2, 2) // a piece each
		tt.change(n)
		n.overtake()
		if got := n.works.Owner(1) == 0; got != tt.want || n.neighbours[1].overtaken != tt.want {
			t.Errorf("%s: we read in its place: %v, want %v", tt.name, got, tt.want)
		}
		if tt.want && n.twice.May(n.Layout.Piece) {
			t.Errorf("%s: what is read twice does not count", tt.name)
		}
	}
}

// What comes over a connection that delivers nothing for four times as long as a piece should take is read over another: as long as it takes
// with so many connections, and twice as long each time that this was of no use; where less than a piece has been read so far, once,
// when nothing has come for eight seconds. Not with the paper's algorithms, nor where the
// source has no ranges, nor of what is read again to see who is right.
func TestWhichConnectionsLag(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(n *node, f *fetch)
		want   bool
	}{
		{"it hangs", func(*node, *fetch) {}, true},
		{"it delivers", func(n *node, f *fetch) { f.moved = n.now.Add(-3 * time.Second) }, false},
		{"it has been of no use once", func(n *node, _ *fetch) { n.broken = 1 }, false},
		{"there are two connections", func(n *node, _ *fetch) {
			for k := 0; n.appetite.Streams() == 1; k++ {
				n.appetite.Read(unit.Bytes(k)*unit.MiB, 1, n.now.Add(time.Duration(k)*exchange.TickEvery))
			}
		}, false},
		{"nothing has been read", func(n *node, _ *fetch) { n.fromStore.Store(0) }, false},
		{"nothing has been read for long", func(n *node, f *fetch) { n.fromStore.Store(0); f.moved = n.now.Add(-9 * time.Second) }, true},
		{"nothing has been read but a part of a piece, for long", func(n *node, f *fetch) {
			n.fromStore.Store(100)
			f.moved, n.came = n.now.Add(-10*time.Second), n.now.Add(-9*time.Second)
		}, true},
		{"a part of a piece comes", func(n *node, f *fetch) {
			n.fromStore.Store(100)
			f.moved, n.came = n.now.Add(-time.Minute), n.now.Add(-3*time.Second)
		}, false},
		{"nothing has been read for long, and another connection was of no use", func(n *node, f *fetch) {
			n.fromStore.Store(0)
			f.moved, n.broken = n.now.Add(-time.Minute), 1
		}, false},
		{"nothing has been read since the store wanted to be left alone", func(n *node, f *fetch) {
			n.fromStore.Store(0)
			f.moved, n.quiet = n.now.Add(-9*time.Second), n.now.Add(-5*time.Second)
		}, false},
		{"the store wants to be left alone", func(n *node, _ *fetch) { n.quiet = n.now.Add(time.Second) }, false},
		{"the store wanted to be left alone", func(n *node, _ *fetch) { n.quiet = n.now.Add(-time.Second) }, false},
		{"it waits for its turn", func(_ *node, f *fetch) { f.rests = true }, false},
		{"it is read again", func(_ *node, f *fetch) { f.audit = comparing }, false},
		{"only one copy may leave the store", func(n *node, _ *fetch) { n.twice = steal.NewTwice(n.Layout.Size, 2, 1) }, false},
		{"the algorithm is the paper's", func(n *node, _ *fetch) { n.policy = steal.PolicyOf(steal.Steal, n.Layout, 2, 1) }, false},
		{"the source has no ranges", func(n *node, _ *fetch) { n.Object.Ranges = false }, false},
	} {
		n := lone(0, 2, 8)
		n.twice = steal.NewTwice(n.Layout.Size, 2, 1.25) // a piece each
		var cause error
		f := &fetch{order: order{span: piece.Range{Lo: 0, Hi: 1}, take: map[int]bool{0: true}}, moved: n.now.Add(-5 * time.Second), relieve: func(why error) { cause = why }}
		n.fetches = []*fetch{f}
		tt.change(n, f)
		broken := n.broken
		n.lagging()
		if got := cause == errLags; got != tt.want || cause != nil != tt.want {
			t.Errorf("%s: broken off %v (%v), want %v", tt.name, got, cause, tt.want)
		}
		if tt.want && (n.broken != broken+1 || n.twice.May(n.Layout.Piece) || f.moved != n.now) {
			t.Errorf("%s: %d were broken off, more may be read twice: %v, it is to deliver from %v on", tt.name, n.broken, n.twice.May(n.Layout.Piece), f.moved)
		}
	}
}

// What was to come over a connection that was broken off is read next.
func TestWorksOfABrokenConnectionComeNext(t *testing.T) {
	for _, lagged := range []bool{true, false} {
		n := lone(0, 2, 8)
		works, _ := n.works.Next(1, n.ex.Held)
		f := &fetch{order: order{works: works, span: piece.Range{Lo: 0, Hi: 1}, take: map[int]bool{0: true}}, lagged: lagged, relieve: func(error) {}}
		n.ex.Reserve(0)
		n.fetches = []*fetch{f}
		n.fetchEnd(evFetchEnd{fetch: f})
		next, _ := n.works.Next(1, n.ex.Held)
		if again := slices.Equal(next, works); again != lagged || len(next) != 1 || len(n.fetches) > 0 || n.fatal != nil {
			t.Errorf("broken off %v: works %v and then %v, %v", lagged, works, next, n.fatal)
		}
		if !n.ex.Reserve(0) {
			t.Errorf("broken off %v: its piece can be had of nobody any more", lagged)
		}
	}
}

// Works of which others have all that we lack are read no further. What is read though they have it is.
func TestWhatOthersHaveIsReadNoFurther(t *testing.T) {
	for _, tt := range []struct {
		name         string
		ours, theirs []int
		works        []int
		want         bool
	}{
		{"nobody has any", nil, nil, []int{0, 1}, false},
		{"others have a part", nil, []int{1}, []int{0, 1}, false},
		{"others have all", nil, []int{0, 1}, []int{0, 1}, true},
		{"others have the rest", []int{0}, []int{1}, []int{0, 1}, true},
		{"we have all", []int{0, 1}, nil, []int{0, 1}, false},
		{"others had it before", nil, []int{0, 1}, nil, false},
	} {
		n := lone(0, 2, 4)
		for _, p := range tt.ours {
			n.ex.Got(p)
		}
		for _, p := range tt.theirs {
			n.ex.Known(p)
			n.ex.Announced(1, piece.Range{Lo: p, Hi: p + 1})
		}
		var cause error
		n.fetches = []*fetch{{order: order{works: tt.works, take: map[int]bool{0: true, 1: true}}, relieve: func(why error) { cause = why }}}
		n.relieved()
		if got := cause == errRelieved; got != tt.want || cause != nil != tt.want {
			t.Errorf("%s: it is read no further: %v (%v)", tt.name, got, cause)
		}
	}
}

// Only a node that has nothing to read, and that takes from nobody what it reads, thinks of reading what others have.
func TestWhoMayReadTwice(t *testing.T) {
	const nodes = 40
	for _, tt := range []struct {
		name   string
		change func(n *node)
		want   bool
	}{
		{"it has read its part", func(*node) {}, true},
		{"it has works left", func(n *node) { n.works = steal.NewNode(0, nodes, steal.Divide(nodes, seq(nodes), 1), true) }, false},
		{"it is of a site", func(n *node) { n.imports = steal.NewImports(0, nodes, []int{0, 1}, nodes) }, false},
		{"others may wait for their turn", func(n *node) { n.turns = steal.NewTurns(steal.Divide(nodes, seq(nodes), 1), 0, n.Layout) }, false},
		{"the algorithm is the paper's", func(n *node) { n.policy = steal.PolicyOf(steal.Steal, n.Layout, 2, 1) }, false},
		{"the source has no ranges", func(n *node) { n.Object.Ranges = false }, false},
		{"it has had the object before", func(n *node) { n.Members[0].Held = true }, false},
	} {
		n := lone(0, nodes, nodes)
		works, _ := n.works.Next(1, n.ex.Held)
		n.works.End(works[0])
		tt.change(n)
		if got := n.spare(); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Of what others have a node reads first what it has asked nobody for, and then what it is owed; nothing twice at a time, and nothing
// before it is known that peers give less than the store.
func TestWhatIsReadTwice(t *testing.T) {
	n := lone(0, 2, 4)
	for p := range 4 {
		n.ex.Known(p)
	}
	n.ex.Up(1)
	n.ex.Choked(1, false)
	n.ex.Announced(1, piece.Range{Lo: 0, Hi: 4})
	n.works.Next(1, n.ex.Held) // there is nothing to read
	asks, _ := n.ex.Asks(n.now)
	if len(asks) != 1 {
		t.Fatalf("asks %v, want one piece", asks)
	}
	owed := asks[0].Piece
	n.asm.expect(1, owed)
	if o, ok := n.again(); ok {
		t.Errorf("reads %v again, and nothing is known", o.span)
	}
	var store, peers unit.Bytes
	for k := range 120 { // 20 MiB/s from the store, and then little from peers
		reads := k < 60
		if reads {
			store += unit.MiB
		} else {
			peers += 64 * unit.KiB
		}
		n.twice.Note(store, peers, reads, !reads, n.now.Add(time.Duration(k)*exchange.TickEvery))
	}
	var read []int
	for len(read) <= 4 {
		o, ok := n.again()
		if !ok {
			break
		}
		if !o.twice || !o.take[o.span.Lo] || o.span.Len() != 1 || slices.Contains(read, o.span.Lo) {
			t.Errorf("reads %v again after %v, of which it takes %v", o.span, read, o.take)
		}
		read = append(read, o.span.Lo)
		n.fetches = append(n.fetches, &fetch{order: o})
	}
	if len(read) != 4 || read[3] != owed || n.asm.under(owed) {
		t.Errorf("reads %v again, and still expects piece %d of peers: %v; want all, and that piece last", read, owed, n.asm.under(owed))
	}
}

// What is read though others have it may fail: nothing more is read so. What nobody has may not, nor may the object change.
func TestReadingTwiceMayFail(t *testing.T) {
	broken := errors.New("no route to host")
	for _, tt := range []struct {
		name  string
		twice bool
		err   error
		fails bool
	}{
		{"others have it", true, broken, false},
		{"nobody has it", false, broken, true},
		{"the object has changed", true, fmt.Errorf("read: %w", objstore.ErrChanged), true},
	} {
		n := lone(0, 2, 4)
		n.ex.Reserve(0)
		f := &fetch{order: order{span: piece.Range{Lo: 0, Hi: 1}, take: map[int]bool{0: true}, twice: tt.twice}, relieve: func(error) {}}
		n.fetches = []*fetch{f}
		n.fetchEnd(evFetchEnd{fetch: f, err: tt.err})
		if failed := n.fatal != nil; failed != tt.fails || n.twice.May(n.Layout.Piece) != tt.fails {
			t.Errorf("%s: it fails with %v, and may read more twice: %v", tt.name, n.fatal, n.twice.May(n.Layout.Piece))
		}
		if !n.ex.Reserve(0) {
			t.Errorf("%s: its piece can be had of nobody any more", tt.name)
		}
	}
}

// News that nobody else has goes alone at once, but to who is of another site and not served; other news later, and later still to those who could not ask
// for it.
func TestWhenNewsGoesAlone(t *testing.T) {
	for _, tt := range []struct {
		name                     string
		urgent, fed, mate, sites bool
		want                     time.Duration
	}{
		{"to who is served", false, true, false, false, gatherFor},
		{"to who is not", false, false, false, false, gatherApart},
		{"to one of our site, who is not", false, false, true, true, gatherFor},
		{"to one of another site, who is not", false, false, false, true, gatherApart},
		{"what nobody else has, to who is served", true, true, false, false, exchange.TickEvery},
		{"what nobody else has, to who is not", true, false, false, false, exchange.TickEvery},
		{"what nobody else has, to one of our site, who is not", true, false, true, true, exchange.TickEvery},
		{"what nobody else has, to one of another site, who is served", true, true, false, true, exchange.TickEvery},
		{"what nobody else has, to one of another site, who is not", true, false, false, true, gatherAbroad},
	} {
		n := lone(0, 3, 4)
		peer := 2
		if tt.sites {
			for i, site := range []string{"east", "east", "west"} {
				n.Members[i].Site = site
			}
			n.imports = steal.NewImports(0, 3, []int{0, 1}, 4)
			if tt.mate {
				peer = 1
			}
		}
		if tt.fed {
			n.ex.Up(peer)
			n.ex.Rechoke(n.now)
		}
		l := &link{rank: peer, out: newOutbox(1 << 20)}
		n.neighbours[peer].link = l
		l.out.tell([]int{0}, []digest{{Piece: 0}}, tt.urgent)
		l.out.told = n.now
		n.now = n.now.Add(tt.want - 1)
		n.remind()
		early := l.out.due
		n.now = n.now.Add(1)
		n.remind()
		if early || !l.out.due {
			t.Errorf("%s: goes before %v: %v; goes then: %v", tt.name, tt.want, early, l.out.due)
		}
	}
}
