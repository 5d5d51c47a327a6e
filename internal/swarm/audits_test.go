package swarm

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// An audit that nothing called for costs nobody what he has, and sets nobody against the true reader: neither one that is told before anything
// else is known of a piece, nor one that contradicts at once whoever reads, twice; whether nodes read the object, or hold it already. Nor do those of one
// that has called for them itself, by another digest than the store's of what it was to read.
func TestAuditThatNobodyAskedFor(t *testing.T) {
	const liar = 3
	const first, contradicts, calls = "first", "contradicts", "calls"
	for _, holds := range []bool{false, true} {
		for _, how := range []string{first, contradicts, calls} {
			for _, verified := range []string{BySource, ByPeers} {
				swarmOf(t, liar+1, 4*unit.MiB, steal.Stream, func(b *bench) {
					if verified == ByPeers {
						b.object.Checksum = piece.Checksum{}
					}
					for i := range b.configs {
						b.configs[i].Object, b.configs[i].Store = b.object, slow{b.store, 1 << 20}
					}
					if holds {
						b.held(0, 1)
					}
					lie := func(c *peer.Conn, p int) {
						sendDigests(c, digest{p, exchange.Entry{Sum: 666, Reader: liar, Term: exchange.MaxTerm}})
					}
					ctx, cancel := context.WithCancel(b.t.Context())
					var mu sync.Mutex // guards conns and known
					var conns []*peer.Conn
					pieces, known := b.configs[0].Layout.Count(), map[int]bool{}
					wait := b.stranger(ctx, func(c *peer.Conn) {
						mu.Lock()
						conns = append(conns, c)
						mu.Unlock()
						for p := range pieces {
							if how == first {
								lie(c, p)
							}
						}
						if how == calls {
							sendDigests(c, digest{piece.Share(pieces, liar, liar+1).Lo, exchange.Entry{Sum: 667, Reader: liar}})
						}
					}, func(_ *peer.Conn, kind byte, payload []byte) {
						if kind != kindDigests || how == first {
							return
						}
						ds, err := parseDigests(payload, pieces, liar+1)
						if err != nil {
							t.Error(err)
						}
						mu.Lock()
						defer mu.Unlock()
						for _, d := range append(ds, ds...) {
							known[d.Piece] = true
							for _, c := range conns {
								if d.Term == 0 && how == contradicts {
									lie(c, d.Piece)
								}
								for p := range pieces {
									if how == calls && len(known) == pieces {
										lie(c, p)
									}
								}
							}
						}
					})
					b.within(time.Hour)
					b.run()
					cancel()
					wait()
					b.complete(verified, 0, 1, 2)
					for i := range liar {
						for _, f := range b.results[i].Faults {
							if strings.Contains(f.Cause, "had piece") && (how != calls || f.Node != nodeName(liar)) {
								t.Errorf("holds %v, it %s, %s: %s says: %s %s", holds, how, verified, nodeName(i), f.Node, f.Cause)
							}
						}
					}
					if got := b.storeBytes(); got > 5*b.object.Size { // once, and once by each who is told
						t.Errorf("holds %v, it %s, %s: %v left the store for an object of %v", holds, how, verified, got, b.object.Size)
					}
				})
			}
		}
	}
}

// One that tells one node alone another digest of a piece than its reader, so that this one waits for an audit of which nobody else knows, and
// that goes on announcing pieces, keeps it from nothing: neither where the store's checksum proves the piece, nor where there is none.
func TestContestedPieceKeepsNobody(t *testing.T) {
	const liar = 3
	for _, c := range []struct {
		verified string
		blind    bool          // n0 may not read the store
		within   time.Duration // nobody may take longer
	}{{BySource, false, 50 * time.Second}, {ByPeers, false, 50 * time.Second}, {ByPeers, true, 90 * time.Second}} {
		swarmOf(t, liar+1, 4*unit.MiB, steal.Stream, func(b *bench) {
			if c.verified == ByPeers {
				b.object.Checksum = piece.Checksum{}
			}
			for i := range b.configs {
				b.configs[i].Object = b.object
			}
			b.small()
			if c.blind {
				b.witness = nil // nobody proves anything
				b.share(0)
			}
			ctx, cancel := context.WithCancel(b.t.Context())
			victim := make(chan *peer.Conn, 1)
			var once sync.Once
			wait := b.stranger(ctx, func(conn *peer.Conn) {
				if conn.Name() != "n0" {
					return
				}
				victim <- conn
				share := piece.Share(b.configs[0].Layout.Count(), 1, liar+1)
				for p := share.Lo; p < share.Hi; p++ {
					if conn.WriteFrame(kindHave, appendHave(nil, []piece.Range{{Lo: p, Hi: p + 1}})) != nil {
						return
					}
					select {
					case <-time.After(10 * time.Second):
					case <-ctx.Done():
						return
					}
				}
			}, func(conn *peer.Conn, kind byte, payload []byte) {
				if kind != kindDigests || conn.Name() != "n1" {
					return
				}
				ds, err := parseDigests(payload, b.configs[0].Layout.Count(), liar+1)
				if err != nil {
					t.Error(err)
				}
				once.Do(func() {
					time.Sleep(time.Second) // so that n0 has heard it
					sendDigests(<-victim, digest{ds[0].Piece, exchange.Entry{Sum: 666, Reader: liar}})
				})
			})
			b.after(3*time.Minute, cancel)
			b.run()
			wait()
			b.complete(c.verified, 0, 1, 2)
			for i, took := range b.took {
				if took > c.within {
					t.Errorf("%+v: %s takes %v", c, nodeName(i), took)
				}
				if strings.Contains(b.faultsOf(i), "n0: ") {
					t.Errorf("%+v: %s says: %s", c, nodeName(i), b.faultsOf(i))
				}
			}
		})
	}
}

// Nor does one that tells all of them another digest of each piece have them read what the checksum proves, of which most is on its way to them yet.
func TestContestedPiecesComeFromPeers(t *testing.T) {
	const liar, size, link = 3, 4 * unit.MiB, unit.Bandwidth(2 * unit.MiB)
	swarmOf(t, liar+1, size, steal.Stream, func(b *bench) {
		b.held(0)
		for i := range b.configs {
			b.configs[i].Layout.Piece = 64 * unit.KiB
		}
		b.onStar(all(link), all(link), all(link))
		ctx, cancel := context.WithCancel(b.t.Context())
		pieces := b.configs[0].Layout.Count()
		var mu sync.Mutex // guards conns
		var conns []*peer.Conn
		heard := map[int]bool{} // from the holder
		wait := b.stranger(ctx, func(c *peer.Conn) {
			mu.Lock()
			defer mu.Unlock()
			conns = append(conns, c)
		}, func(c *peer.Conn, kind byte, payload []byte) {
			if kind != kindDigests || c.Name() != "n0" {
				return
			}
			ds, err := parseDigests(payload, pieces, liar+1)
			if err != nil {
				t.Error(err)
			}
			before := len(heard)
			for _, d := range ds {
				heard[d.Piece] = true
			}
			if before == pieces || len(heard) < pieces {
				return
			}
			time.Sleep(200 * time.Millisecond) // so that all have heard them
			mu.Lock()
			defer mu.Unlock()
			if len(conns) < liar {
				t.Errorf("of %d nodes: the test is none", len(conns))
			}
			for _, c := range conns {
				for p := range pieces {
					sendDigests(c, digest{p, exchange.Entry{Sum: 666, Reader: liar}})
				}
			}
		})
		b.after(time.Minute, cancel)
		b.run()
		wait()
		b.complete(BySource, 0, 1, 2)
		if len(heard) < pieces {
			t.Errorf("%d digests are heard: the test is none", len(heard))
		}
		if got := b.storeBytes(); got > 0 {
			t.Errorf("%v left the store although one has the object", got)
		}
	})
}

// While digests are still to come, nobody looks at all that is in doubt, which is many times a second.
func TestDoubtsWaitForAllDigests(t *testing.T) {
	swarmOf(t, 3, unit.MiB, steal.Stream, func(b *bench) {
		c := b.configs[0]
		c.Layout.Piece = 64 * unit.KiB
		n := newNode(c)
		for p := range c.Layout.Count() - 1 {
			n.enter(1, digest{p, exchange.Entry{Sum: 1, Reader: 1}})
			n.enter(2, digest{p, exchange.Entry{Sum: 2, Reader: 2}})
		}
		if due := len(n.man.Due()); due != c.Layout.Count()-1 {
			t.Fatalf("%d pieces are in doubt", due)
		}
		if got := testing.AllocsPerRun(10, n.spareProved); got > 0 {
			t.Errorf("%v allocations to spare nothing", got)
		}
	})
}

// Who has to read again what is in doubt, and is slow, keeps the others no longer than it takes them to share that out; each does not read all of it.
func TestSlowAuditIsSharedOut(t *testing.T) {
	const nodes, size, slowest = 6, 24 * unit.MiB, 5
	swarmOf(t, nodes, size, steal.NonSteal, func(b *bench) {
		for i := range b.configs {
			b.configs[i].Layout.Piece = 256 * unit.KiB
			b.configs[i].Store = slow{b.store, 4 << 20}
		}
		before := piece.Share(b.configs[0].Layout.Count(), slowest-1, nodes)
		b.configs[slowest-1].Store = &flipping{Store: b.configs[0].Store, times: 1, at: unit.Bytes(before.Hi-1) * 256 * unit.KiB}
		b.configs[slowest].Store = slow{b.store, 64 << 10}
		b.within(time.Hour)
		b.run()
		b.complete(BySource, seq(nodes)...)
		if got := b.storeBytes(); got > size*5/2 {
			t.Errorf("%v left the store for an object of %v that had to be read twice", got, size)
		}
	})
}

// What nobody is to read again any more is not put in doubt again by each audit of another piece.
func TestAuditsAreCalledForOnce(t *testing.T) {
	swarmOf(t, 4, unit.MiB, steal.Stream, func(b *bench) {
		c := b.configs[0]
		c.Log = slog.New(slog.DiscardHandler)
		c.Layout.Piece = 256 * unit.KiB
		n := newNode(c)
		for p := range c.Layout.Count() {
			n.learn(1, digest{p, exchange.Entry{Sum: 1, Reader: 1}})
		}
		const first, second, spared = 0, 1, 2
		n.learn(2, digest{first, exchange.Entry{Sum: 2, Reader: 2, Term: exchange.MaxTerm}})
		if due := len(n.man.Due()); due != c.Layout.Count() {
			t.Fatalf("%d pieces are to be read again", due)
		}
		n.man.Spare(spared)
		n.learn(2, digest{second, exchange.Entry{Sum: 2, Reader: 2, Term: exchange.MaxTerm}})
		if n.man.IsDue(spared) {
			t.Error("it is to be read again once more")
		}
	})
}

// What one alone has to read again is asked for in some large requests, not piece by piece: with as many connections, one after the other, it would take much longer than
// the object did.
func TestAuditOfAllIsFewRequests(t *testing.T) {
	swarmOf(t, 4, 4*unit.MiB, steal.Stream, func(b *bench) {
		c := b.configs[0]
		c.Log = slog.New(slog.DiscardHandler)
		c.Objects, c.Object.Checksum, c.Layout.Piece = nil, piece.Checksum{}, 16*unit.KiB
		n := newNode(c)
		pieces := c.Layout.Count()
		for p := range pieces {
			n.enter(1, digest{p, exchange.Entry{Sum: uint64(p), Reader: 1}})
			n.got(p, uint64(p), "n1")
		}
		n.man.Audit(piece.Range{Hi: pieces})
		n.neighbours[1].done, n.neighbours[2].done = true, true
		n.audit()
		n.now = n.now.Add(2 * auditAfter)
		requests := 0
		for !n.man.Settled() && requests <= pieces {
			requests++
			o, ok := n.audit()
			if !ok || len(o.take) != o.span.Hi-o.span.Lo {
				t.Fatalf("reads %v, %v", o, ok)
			}
			for p := range o.take {
				n.fetched(evFetched{piece: p, sum: uint64(p), audit: o.audit})
			}
		}
		if requests > pieces/2 {
			t.Errorf("%d requests for %d pieces", requests, pieces)
		}
	})
}

// Who has all and reads it again, since somebody has cast doubt on it, is not given up by those that are done, for as long as it gets on.
func TestWhoReadsAgainGetsOn(t *testing.T) {
	swarmOf(t, 2, unit.MiB, steal.Stream, func(b *bench) {
		c := b.configs[0]
		c.Log, c.Report, c.Layout.Piece = slog.New(slog.DiscardHandler), func(Progress) {}, 64*unit.KiB
		n := newNode(c)
		_, withdraw := b.ports[1].Offer("job")
		defer withdraw()
		conn, err := b.ports[0].Dial(b.t.Context(), "n1", "n1", "job")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		l := &link{rank: 1, conn: conn, out: newOutbox(n.mostUnread())}
		n.neighbours[1].link = l
		for p := range c.Layout.Count() {
			n.enter(1, digest{p, exchange.Entry{Sum: 1, Reader: 1}})
			n.got(p, 1, "n1")
		}
		n.done = true
		var last int
		hears := func(p int, term uint32) (givenUp bool) {
			n.now = n.now.Add(leaveAfter * 2 / 3)
			ds := []digest{{p, exchange.Entry{Sum: 1, Reader: 1, Term: term}}}
			if err := n.message(evMessage{link: l, kind: kindDigests, payload: appendDigests(nil, ds)}); err != nil {
				t.Fatal(err)
			}
			n.tick(b.t.Context())
			return n.neighbours[1].dead
		}
		for last = range c.Layout.Count() {
			if hears(last, exchange.MaxTerm) {
				t.Fatalf("it is given up when it has read piece %d again", last)
			}
		}
		if hears(last, exchange.MaxTerm); !hears(0, 0) {
			t.Error("it is not given up though it only repeats itself")
		}
		n.wg.Wait()
	})
}

// A piece that somebody else has read again while we compared ours with the store is had only when it has come, or was read once more: to compare it
// has written nothing, and what a peer still owes of it must not be written over what was.
func TestPieceIsLostWhileItIsCompared(t *testing.T) {
	for _, lies := range []bool{false, true} {
		swarmOf(t, 4, unit.MiB, steal.Stream, func(b *bench) {
			c := b.configs[0]
			c.Log = slog.New(slog.DiscardHandler)
			c.Layout.Piece = 256 * unit.KiB
			n := newNode(c)
			const misread = 1
			right := make([]uint64, c.Layout.Count())
			for p := range right {
				off, size := blockSpan(n.Layout, p, 0)
				right[p] = n.algorithm(p).Update(0, b.data[off:off+int64(size)])
				said := right[p]
				if p == misread {
					said++
				}
				n.enter(3, digest{p, exchange.Entry{Sum: said, Reader: 3}})
				n.got(p, said, "n3")
			}
			if _, again := n.verify(); !again || n.fatal != nil {
				t.Fatalf("not to be read again, %v", n.fatal)
			}
			o, ok := n.audit()
			if !ok || o.audit != comparing || !o.take[misread] {
				t.Fatalf("reads %v, %v", o, ok)
			}
			said := right[misread]
			if lies {
				said = 777
			}
			n.enter(2, digest{misread, exchange.Entry{Sum: said, Reader: 2, Term: exchange.MaxTerm}})
			n.ex.Up(2)
			n.ex.Choked(2, false)
			n.announced(2, piece.Range{Lo: misread, Hi: misread + 1})
			asks, _ := n.ex.Asks(n.now)
			if len(asks) != 1 || asks[0].Peer != 2 || asks[0].Piece != misread {
				t.Fatalf("asks %v", asks)
			}
			n.asm.expect(2, misread)
			for p := range o.take {
				n.fetched(evFetched{piece: p, sum: right[p], audit: comparing})
			}
			if n.ex.Have().Has(misread) {
				t.Errorf("lies %v: it is had, and the disk has what was read wrong", lies)
			}
			o, ok = n.audit()
			if !lies {
				if ok || !n.asm.claim(2, misread, 0) {
					t.Errorf("reads %v, %v, and the peer is to send it", o, ok)
				}
				return
			}
			if !ok || o.audit != replacing || !o.take[misread] {
				t.Fatalf("reads %v, %v", o, ok)
			}
			n.fetched(evFetched{piece: misread, sum: right[misread], audit: replacing})
			if !n.ex.Have().Has(misread) || n.asm.claim(2, misread, 0) {
				t.Errorf("it is had: %v, and is written over if the peer sends it now", n.ex.Have().Has(misread))
			}
		})
	}
}

// The file of one that holds the object is wrong if the store says so, too: be it that this is read from it, or that its checksum proves what another has read.
func TestHeldFileIsWrong(t *testing.T) {
	for _, proved := range []bool{false, true} {
		swarmOf(t, 2, unit.MiB, steal.Stream, func(b *bench) {
			c := b.configs[0]
			c.Members[0].Held, c.Layout.Piece = true, unit.MiB
			c.Log = slog.New(slog.DiscardHandler)
			n := newNode(c)
			n.enter(0, digest{0, exchange.Entry{Sum: 1}})
			n.got(0, 1, "n0")
			n.man.Audit(piece.Range{Hi: 1})
			said, readings := uint64(2), []uint64{1, 2} // of the file, of the store
			if proved {
				said, readings = n.algorithm(0).Update(0, b.data), readings[:1]
			}
			n.enter(1, digest{0, exchange.Entry{Sum: said, Reader: 1, Term: exchange.MaxTerm}})
			for _, sum := range readings {
				o, ok := n.audit()
				if !ok || n.fatal != nil {
					t.Fatalf("reads %v, %v; fails for %v", o, ok, n.fatal)
				}
				n.fetched(evFetched{piece: 0, sum: sum, audit: o.audit})
			}
			if o, ok := n.audit(); ok {
				t.Errorf("reads %v", o)
			}
			n.complete(b.t.Context())
			if !errors.Is(n.fatal, ErrHeldWrong) || n.commits {
				t.Errorf("proved %v: %v, want %v; it is committed: %v", proved, n.fatal, ErrHeldWrong, n.commits)
			}
			n.wg.Wait()
		})
	}
}

// What a file from before the job has is not known by what others say of it: before a piece of it counts as wrong it is read from there, and where that is not what its digest says the
// store decides. Nothing is written over that is right.
func TestKeptFileIsBelieved(t *testing.T) {
	const lie, right, rotten = 1, 2, 3 // digests
	reading := func(audit auditing, sum uint64) evFetched { return evFetched{piece: 0, sum: sum, audit: audit} }
	for _, tt := range []struct {
		name     string
		said     uint64 // by the first that speaks
		audited  uint64 // by another that has read it again; zero: that is up to us
		readings []evFetched
		lost     bool
		tells    bool // what the store has, as its reader
	}{
		{"an audit finds the lie", lie, right, []evFetched{reading(rechecking, right)}, false, false},
		{"an audit finds the lie, and the file is rotten", lie, right, []evFetched{reading(rechecking, rotten), reading(comparing, right)}, true, false},
		{"an audit lies", right, lie, []evFetched{reading(rechecking, right), reading(comparing, right)}, false, true},
		{"we find the lie", lie, 0, []evFetched{reading(rechecking, right), reading(comparing, right)}, false, true},
		{"we find the lie, and our file rotten", lie, 0, []evFetched{reading(rechecking, rotten), reading(comparing, right)}, true, false},
		{"we find nothing", right, 0, []evFetched{reading(rechecking, right), reading(comparing, right)}, false, true},
		{"we find our file rotten", right, 0, []evFetched{reading(rechecking, rotten), reading(comparing, right)}, true, false},
	} {
		swarmOf(t, 3, unit.MiB, steal.Stream, func(b *bench) {
			b.cutUp(unit.MiB/2, unit.MiB/2, unit.MiB/2)
			c := b.configs[0]
			c.Kept, c.Log = []bool{true, false}, slog.New(slog.DiscardHandler)
			n := newNode(c)
			n.enter(1, digest{1, exchange.Entry{Sum: 7, Reader: 1}})
			n.enter(1, digest{0, exchange.Entry{Sum: tt.said, Reader: 1}})
			if !n.ex.Have().Has(0) {
				t.Fatalf("%s: what is in its place is not had", tt.name)
			}
			if tt.audited > 0 {
				n.enter(2, digest{0, exchange.Entry{Sum: tt.audited, Reader: 2, Term: exchange.MaxTerm}})
			} else {
				n.looks[0] = true
			}
			for _, ev := range tt.readings {
				o, ok := n.audit()
				if !ok || o.audit != ev.audit || !o.take[0] || !n.ex.Have().Has(0) {
					t.Fatalf("%s: reads %v, %v, and has it: %v; want audit %d", tt.name, o, ok, n.ex.Have().Has(0), ev.audit)
				}
				n.fetched(ev)
			}
			e, _ := n.man.Entry(0)
			if rots := n.rots(order{take: map[int]bool{0: true}}); rots != tt.lost {
				t.Errorf("%s: it is read from the store and not from the file: %v", tt.name, rots)
			}
			if has := n.ex.Have().Has(0); n.fatal != nil || has == tt.lost || len(n.doubts) > 0 || (e.Reader == 0) != tt.tells || tt.tells && e.Sum != right {
				t.Errorf("%s: has it: %v, says of it %v, in doubt %v, fails for %v", tt.name, has, e, n.doubts, n.fatal)
			}
			n.wg.Wait()
		})
	}
}

// Where the store has no checksum, and two readers differ, either of whom some heard first, who is to read after either is believed, and nobody else: least of all one of
// the two.
func TestAuditorAfterEither(t *testing.T) {
	const first, second, right = 1, 3, 5
	for _, tt := range []struct {
		from int
		want uint64
	}{
		{2, right}, // after the first
		{4, right}, // after the second
		{second, 666},
	} {
		swarmOf(t, 5, unit.MiB, steal.Stream, func(b *bench) {
			c := b.configs[0]
			c.Object.Checksum = piece.Checksum{}
			c.Log = slog.New(slog.DiscardHandler)
			n := newNode(c)
			n.learn(first, digest{0, exchange.Entry{Sum: 666, Reader: first}})
			n.learn(second, digest{0, exchange.Entry{Sum: right, Reader: second}})
			for range 2 {
				n.learn(tt.from, digest{0, exchange.Entry{Sum: right, Reader: tt.from, Term: exchange.MaxTerm}})
			}
			if e, _ := n.man.Entry(0); e.Sum != tt.want {
				t.Errorf("n%d has read it again: %d counts, want %d", tt.from, e.Sum, tt.want)
			}
		})
	}
}

// Where the store has no checksum one that contradicts a reader, and then says to have read that again, is not believed: not where it comes after that reader, where
// another is to read it again, nor if it was heard first, nor by the reader, who looks itself; nor if it says something of one that nobody hears, before its own word, between the two or after
// them.
func TestNobodyAuditsItself(t *testing.T) {
	const self, reader, liar, other, absent, right = 0, 1, 2, 3, 4, 5
	const never = -1
	for _, tt := range []struct {
		name     string
		heard    []int // who reads it first, in the order in which we hear it
		hearsay  int   // before which of them the liar speaks of the absent one
		term     uint32
		noAccess bool
		looks    bool
	}{
		{"after the reader", []int{reader, liar}, never, 0, false, false},
		{"before it", []int{liar, reader}, never, 0, false, false},
		{"after us", []int{self, liar}, never, 0, false, true},
		{"after hearsay and the reader", []int{reader, liar}, 0, 0, false, false},
		{"after the reader and hearsay", []int{reader, liar}, 1, 0, false, false},
		{"after the reader, then hearsay", []int{reader, liar}, 2, 0, false, false},
		{"after hearsay, before it", []int{liar, reader}, 0, 0, false, false},
		{"before it, hearsay between", []int{liar, reader}, 1, 0, false, false},
		{"after the reader and hearsay of an audit", []int{reader, liar}, 1, exchange.MaxTerm, true, false},
		{"after the reader, then hearsay of an audit", []int{reader, liar}, 2, exchange.MaxTerm, true, false},
		{"before it, then hearsay of an audit", []int{liar, reader}, 2, exchange.MaxTerm, true, false},
	} {
		swarmOf(t, 5, unit.MiB, steal.Stream, func(b *bench) {
			c := b.configs[0]
			c.Object.Checksum = piece.Checksum{}
			c.Members[0].NoAccess = tt.noAccess
			c.Log = slog.New(slog.DiscardHandler)
			n := newNode(c)
			says := func(rank int, term uint32) {
				d := digest{0, exchange.Entry{Sum: right, Reader: rank, Term: term}}
				if rank == liar {
					d.Sum = 666
				}
				if rank == self {
					n.enter(self, d)
				} else if err := n.learn(rank, d); err != nil {
					t.Fatal(err)
				}
			}
			for i := range len(tt.heard) + 1 {
				if i == tt.hearsay {
					if err := n.learn(liar, digest{0, exchange.Entry{Sum: 7, Reader: absent, Term: tt.term}}); err != nil {
						t.Fatal(err)
					}
				}
				if i < len(tt.heard) {
					says(tt.heard[i], 0)
				}
			}
			before, _ := n.man.Entry(0)
			says(liar, exchange.MaxTerm)
			says(liar, exchange.MaxTerm)
			if e, _ := n.man.Entry(0); e != before || !n.man.IsDue(0) || n.looks[0] != tt.looks {
				t.Fatalf("%s: %v counts, and it is to be read again: %v, by us: %v", tt.name, e, n.man.IsDue(0), n.looks[0])
			}
			if tt.looks {
				return
			}
			says(other, exchange.MaxTerm)
			if e, _ := n.man.Entry(0); e.Sum != right || n.man.IsDue(0) {
				t.Errorf("%s: %v counts, and it is to be read again: %v", tt.name, e, n.man.IsDue(0))
			}
		})
	}
}
