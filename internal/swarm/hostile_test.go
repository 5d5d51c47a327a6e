package swarm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// stranger plays the highest rank, with valid credentials and ideas of its own:
// talk says what it says on a new connection, hear what it does about a frame.
func (b *bench) stranger(ctx context.Context, talk func(c *peer.Conn), hear func(c *peer.Conn, kind byte, p []byte)) (wait func()) {
	rank := len(b.configs) - 1
	b.configs = b.configs[:rank]
	incoming, withdraw := b.ports[rank].Offer("job")
	var wg sync.WaitGroup
	wg.Go(func() {
		defer withdraw()
		for {
			select {
			case c := <-incoming:
				context.AfterFunc(ctx, func() { c.Close() })
				wg.Go(func() {
					if b.witness != nil {
						c.WriteFrame(kindAccess, b.witness.Proof(nodeName(rank)))
					}
					talk(c)
				})
				wg.Go(func() {
					for {
						kind, n, err := c.ReadFrame()
						if err != nil {
							return
						}
						p := make([]byte, n)
						if _, err := io.ReadFull(c, p); err != nil {
							return
						}
						if hear != nil && kind != kindAccess {
							hear(c, kind, p)
						}
					}
				})
			case <-ctx.Done():
				return
			}
		}
	})
	return wg.Wait
}

func sendDigests(c *peer.Conn, ds ...digest) { c.WriteFrame(kindDigests, appendDigests(nil, ds)) }

// A node that is done, or about to be, is not talked out of it.
func TestLateDigestsChangeNothing(t *testing.T) {
	for _, term := range []uint32{exchange.MaxTerm, exchange.MaxTerm + 6} {
		for _, committing := range []bool{false, true} {
			swarmOf(t, 3, 4*unit.MiB, steal.NonSteal, func(b *bench) {
				ctx, cancel := context.WithCancel(b.t.Context())
				fire := make(chan struct{})
				var once sync.Once
				wait := b.stranger(ctx, func(c *peer.Conn) {
					select {
					case <-fire:
						sendDigests(c, digest{0, exchange.Entry{Sum: 1, Reader: 2, Term: term}})
						c.WriteFrame(kindHave, appendHave(nil, []piece.Range{{Lo: 0, Hi: 1}}))
					case <-ctx.Done():
					}
				}, nil)
				for i := range b.configs {
					if committing {
						b.configs[i].Commit = func() error {
							once.Do(func() { close(fire) })
							time.Sleep(10 * time.Second) // a slow disk, in simulated time
							return nil
						}
					}
				}
				if !committing {
					b.after(60*time.Second, func() { close(fire) })
				}
				b.run()
				cancel()
				wait()
				b.complete(BySource, 0, 1)
			})
		}
	}
}

// flipOnce is a store whose second reading of a range has a flipped bit.
type flipOnce struct {
	objstore.Store
	at    unit.Bytes
	reads *atomic.Int32
}

func (s flipOnce) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	r, err := s.Store.ReadRange(ctx, o, off, n)
	if err != nil || s.at < off || s.at >= off+n || s.reads.Add(1) != 2 {
		return r, err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	b[s.at-off] ^= 1
	return io.NopCloser(bytes.NewReader(b)), err
}

// A piece that is read twice, since its first reader died, and the second time
// wrong, is never taken for right on a disk that does not have it.
func TestSecondReadingIsWrong(t *testing.T) {
	swarmOf(t, 3, 4*unit.MiB, steal.NonSteal, func(b *bench) {
		var reads atomic.Int32
		for i := range b.configs {
			b.configs[i].Store = flipOnce{slow{b.store, 512 << 10}, unit.Bytes(piece.Share(b.configs[i].Layout.Count(), 2, 3).Lo) * b.configs[i].Layout.Piece, &reads}
		}
		b.after(2*time.Second, func() {
			b.net.kill("n2")
			b.cancel[2](errors.New("killed"))
		})
		b.run()
		b.complete(BySource, 0, 1)
		if reads.Load() < 3 {
			t.Errorf("the piece was read %d times: the wrong reading was not noticed", reads.Load())
		}
	})
}

// An audit that overtakes the last block of a piece: the block counts for the
// digest of now, and its giver, who sent what was right before, is not blamed.
func TestDigestChangesUnderWay(t *testing.T) {
	swarmOf(t, 3, unit.MiB, steal.Steal, func(b *bench) {
		c := b.configs[0]
		c.Log = slog.New(slog.DiscardHandler)
		n := newNode(c)
		l := &link{rank: 1, out: newOutbox(n.mostUnread())}
		n.neighbours[1].link = l
		n.ex.Up(1)
		off, size := blockSpan(n.Layout, 0, 0)
		sum := n.algorithm(0).Update(0, b.data[off:off+int64(size)])
		n.enter(1, digest{0, exchange.Entry{Sum: sum, Reader: 1}})
		n.asm.expect(1, 0)
		if !n.asm.claim(1, 0, 0) {
			t.Fatal("an expected block cannot be claimed")
		}
		arrived := n.asm.arrived(1, 0, 0, sum)
		n.enter(2, digest{0, exchange.Entry{Sum: sum ^ 1, Reader: 2, Term: exchange.MaxTerm}})
		n.block(evBlock{link: l, n: size, wanted: true, outcome: arrived})
		if n.ex.Have().Has(0) {
			t.Error("a piece of the old digest counts")
		}
		if n.neighbours[1].dead {
			t.Error("its giver was expelled for it")
		}
	})
}

// Hearsay about a reader that speaks for itself counts for nothing, also if it
// comes first.
func TestHearsayDoesNotStick(t *testing.T) {
	swarmOf(t, 3, 4*unit.MiB, steal.Steal, func(b *bench) {
		ctx, cancel := context.WithCancel(b.t.Context())
		for i := range b.configs {
			b.configs[i].Store = slow{b.store, 1 << 20}
		}
		wait := b.stranger(ctx, func(c *peer.Conn) {
			for p := range b.object.Size / b.configs[0].Layout.Piece {
				for reader := range 2 {
					sendDigests(c, digest{int(p), exchange.Entry{Sum: 666, Reader: reader}})
				}
			}
		}, nil)
		b.run()
		cancel()
		wait()
		b.complete(BySource, 0, 1)
		for i := range 2 {
			if got := b.results[i].PeerBytes; got > b.object.Size {
				t.Errorf("%s received %v of an object of %v", nodeName(i), got, b.object.Size)
			}
		}
	})
}

// What one says of a member that nobody hears sets the others against nobody, and keeps them from nothing: who gets other bytes than
// those of hearsay looks in the store, once; who may not goes by what others say.
func TestHearsayOfTheAbsent(t *testing.T) {
	for _, noAccess := range []bool{false, true} {
		for _, holds := range []bool{false, true} {
			for _, term := range []uint32{0, exchange.MaxTerm} {
				swarmOf(t, 4, 4*unit.MiB, steal.Stream, func(b *bench) {
					ctx, cancel := context.WithCancel(b.t.Context())
					if noAccess {
						b.witness = nil // nobody proves anything
					}
					wait := b.slanders(ctx, 2, term, func(int) bool { return true })
					if noAccess {
						b.share(0)
					}
					if holds {
						b.held(0)
					}
					b.net.kill("n2")
					b.configs = b.configs[:2]
					b.within(time.Hour)
					b.run()
					cancel()
					wait()
					b.complete(BySource, 0, 1)
					b.peaceful(2)
					if t.Failed() {
						t.Fatalf("without access %v, holds %v, term %d", noAccess, holds, term)
					}
				})
			}
		}
	}
}

// Of what a member has read that is dead now, several tell one that may not read the store, and one of them lies, before or after the others. Who gives the
// piece is told from who gives something else.
func TestHearsayOfTheDead(t *testing.T) {
	const giver, reader, liar, other, right = 1, 2, 3, 4, 5
	for _, term := range []uint32{0, exchange.MaxTerm} {
		for _, first := range []bool{false, true} {
			swarmOf(t, 5, unit.MiB, steal.Stream, func(b *bench) {
				c := b.configs[0]
				c.Log, c.Report = slog.New(slog.DiscardHandler), func(Progress) {}
				c.Members[0].NoAccess = true
				n := newNode(c)
				n.ex.Up(giver)
				n.announced(giver, piece.Range{Hi: 1})
				say := func(from int, sum uint64, term uint32) {
					if err := n.learn(from, digest{0, exchange.Entry{Sum: sum, Reader: reader, Term: term}}); err != nil {
						t.Fatal(err)
					}
				}
				give := func() {
					n.asm.expect(giver, 0)
					if !n.asm.claim(giver, 0, 0) {
						t.Fatal("an expected block cannot be claimed")
					}
					_, size := blockSpan(n.Layout, 0, 0)
					n.block(evBlock{link: &link{rank: giver}, n: size, wanted: true, outcome: n.asm.arrived(giver, 0, 0, right)})
				}
				if first {
					say(liar, 666, term)
					give()
					if n.ex.Have().Has(0) || n.ex.Reserve(0) {
						t.Fatal("what nobody else says counts, or is asked for again at once")
					}
					say(other, right, 0)
				} else {
					say(other, right, 0)
					say(liar, 666, term)
				}
				if !n.ex.Held(0) || !n.ex.Reserve(0) {
					t.Fatalf("term %d, first %v: the piece is not asked for", term, first)
				}
				n.ex.Unreserve(0)
				give()
				n.now = n.now.Add(2 * heardWithin)
				n.tick(b.t.Context())
				if !n.ex.Have().Has(0) || n.neighbours[giver].dead || len(n.man.Blamed()) > 0 || strings.Contains(fmt.Sprint(n.faults), "wrong bytes") {
					t.Errorf("term %d, first %v: the piece is here: %v; says %v", term, first, n.ex.Have().Has(0), n.faults)
				}
			})
		}
	}
}

// One that tells one node otherwise than all others what it says to have read sets that one against nobody who sends what the store has.
func TestLiarSetsNobodyAgainstOthers(t *testing.T) {
	for _, term := range []uint32{0, exchange.MaxTerm} {
		swarmOf(t, 4, 4*unit.MiB, steal.Stream, func(b *bench) {
			ctx, cancel := context.WithCancel(b.t.Context())
			own := piece.Share(b.configs[0].Layout.Count(), 0, 4) // what n0 reads it finds out about anyway
			wait := b.slanders(ctx, 3, term, func(p int) bool { return p < own.Lo || p >= own.Hi })
			b.within(time.Hour)
			b.run()
			cancel()
			wait()
			b.complete(BySource, 0, 1, 2)
			b.peaceful(3)
		})
	}
}

// slanders has the stranger tell n0 wrong digests of some pieces, as read by a node, and leave.
func (b *bench) slanders(ctx context.Context, reader int, term uint32, of func(piece int) bool) (wait func()) {
	for i := range b.configs {
		b.configs[i].Store = slow{b.store, 1 << 20}
	}
	return b.stranger(ctx, func(c *peer.Conn) {
		for p := range b.configs[0].Layout.Count() {
			if c.Name() == "n0" && of(p) {
				sendDigests(c, digest{p, exchange.Entry{Sum: 666, Reader: reader, Term: term}})
			}
		}
		c.WriteFrame(kindLeave, []byte("all is said"))
	}, nil)
}

// peaceful demands that of the first so many nodes none was given up by another, and none received or read much more than it had to.
func (b *bench) peaceful(nodes int) {
	b.t.Helper()
	for i := range nodes {
		for k := range nodes {
			if f := b.faultsOf(i); strings.Contains(f, nodeName(k)+": sent wrong bytes") || strings.Contains(f, nodeName(k)+": was sent the object") || strings.Contains(f, nodeName(k)+" says: ") {
				b.t.Errorf("%s says: %s", nodeName(i), f)
			}
		}
		got := b.results[i].PeerBytes - unit.Bytes(b.configs[i].Counters.Unasked.Load()) // what was taken back comes all the same, as nothing takes time here
		if got > 2*b.object.Size {
			b.t.Errorf("%s received %v of an object of %v", nodeName(i), got, b.object.Size)
		}
	}
	if got := b.storeBytes(); got > 3*b.object.Size {
		b.t.Errorf("%v left the store for an object of %v", got, b.object.Size)
	}
}

// Where two readers differ about a piece, who sent it is judged by what the store has.
func TestWrongBytesOfAContestedPiece(t *testing.T) {
	for _, lies := range []bool{false, true} {
		swarmOf(t, 4, unit.MiB, steal.Stream, func(b *bench) {
			c := b.configs[0]
			c.Log = slog.New(slog.DiscardHandler)
			n := newNode(c)
			off, size := blockSpan(n.Layout, 0, 0)
			sum := n.algorithm(0).Update(0, b.data[off:off+int64(size)])
			n.enter(2, digest{0, exchange.Entry{Sum: 666, Reader: 2}})
			n.enter(3, digest{0, exchange.Entry{Sum: sum, Reader: 3}})
			n.ex.Up(1)
			n.asm.expect(1, 0)
			if !n.asm.claim(1, 0, 0) {
				t.Fatal("an expected block cannot be claimed")
			}
			sent := sum
			if lies {
				sent++
			}
			n.block(evBlock{link: &link{rank: 1}, n: size, wanted: true, outcome: n.asm.arrived(1, 0, 0, sent)})
			if n.neighbours[1].dead || !slices.Equal(n.wrong, []int{0}) {
				t.Fatalf("lies %v: given up at once: %v, to be read again are %v", lies, n.neighbours[1].dead, n.wrong)
			}
			o, ok := n.audit()
			if !ok || o.audit != replacing || !o.take[0] {
				t.Fatalf("reads %v, %v", o, ok)
			}
			n.fetched(evFetched{piece: 0, sum: sum, audit: o.audit})
			if n.neighbours[1].dead || !n.ex.Have().Has(0) {
				t.Errorf("lies %v: given up: %v; the piece is here: %v", lies, n.neighbours[1].dead, n.ex.Have().Has(0))
			}
			for p, reader := range map[int]int{1: 2, 2: 3} { // either alone may have told it so of the first, and of one of these
				n.enter(reader, digest{p, exchange.Entry{Sum: 1, Reader: reader}})
				n.suspect(p, suspect{rank: 1, sum: sent, since: n.now})
				was := sent
				if lies {
					was = 1
				}
				n.fetched(evFetched{piece: p, sum: was, audit: replacing})
			}
			if n.neighbours[1].dead != lies {
				t.Errorf("lies %v: given up: %v", lies, n.neighbours[1].dead)
			}
		})
	}
}

// tried is a node with a peer that has sent wrong bytes of four pieces, of two readers, while it reads from the store.
func (b *bench) tried() *node {
	c := b.configs[0]
	c.Log = slog.New(slog.DiscardHandler)
	c.Layout.Piece = 64 * unit.KiB
	n := newNode(c)
	n.ex.Up(1)
	for p, reader := range []int{2, 2, 3, 3} {
		n.enter(reader, digest{p, exchange.Entry{Sum: 1, Reader: reader}})
		n.announced(1, piece.Range{Lo: p, Hi: p + 1})
	}
	n.start(b.t.Context(), order{span: piece.Range{Lo: 9, Hi: 10}, take: map[int]bool{9: true}})
	for p := range 4 {
		n.suspect(p, suspect{rank: 1, sum: 666, since: n.now})
	}
	return n
}

// Who sends wrong bytes is judged while other pieces are read from the store, and what else it sent is not read from there for that: one of a reader's
// that may have told it so, and another to find out that this was not all.
func TestForgerIsJudgedSoon(t *testing.T) {
	swarmOf(t, 4, unit.MiB, steal.Stream, func(b *bench) {
		n := b.tried()
		for i, p := range []int{0, 2} {
			o, ok := n.order()
			if !ok || o.audit != replacing || !o.take[p] {
				t.Fatalf("reads %v, %v", o, ok)
			}
			n.fetched(evFetched{piece: p, sum: 1, audit: o.audit})
			if n.neighbours[1].dead != (i == 1) || slices.Contains(n.wrong, p+1) || n.ex.Held(p+1) || !n.ex.Reserve(p+1) {
				t.Errorf("given up: %v; to be read again are %v", n.neighbours[1].dead, n.wrong)
			}
		}
		if len(n.wrong) > 0 {
			t.Errorf("to be read again are %v", n.wrong)
		}
		n.wg.Wait()
	})
}

// Who gives other bytes than the store has is given up only if nobody can have told it so.
func TestGiverMayHaveBeenToldSo(t *testing.T) {
	const giver, first, second, third = 1, 2, 3, 4
	for _, tt := range []struct {
		name    string
		readers []int // by piece that it gives wrong
		says    int   // who says that it is what came, too; zero: nobody
		again   int   // who has read it again, and says the same as the reader; zero: nobody
		gone    int   // is dead; zero: nobody
		givenUp bool
	}{
		{"all of one reader's", []int{first, first, first}, 0, 0, 0, false},
		{"of two readers'", []int{first, first, second}, 0, 0, 0, true},
		{"of two readers', one of which has read all", []int{first, second, first}, 0, second, 0, false},
		{"its own", []int{giver}, 0, 0, 0, true},
		{"as a third says, too", []int{first, second, first}, third, 0, 0, false},
		{"as it says itself", []int{first, second}, giver, 0, 0, true},
		{"of one that is dead", []int{first, second, first}, 0, 0, second, false},
	} {
		swarmOf(t, 5, unit.MiB, steal.Stream, func(b *bench) {
			c := b.configs[0]
			c.Log = slog.New(slog.DiscardHandler)
			c.Layout.Piece = 64 * unit.KiB
			n := newNode(c)
			n.ex.Up(giver)
			if tt.gone > 0 {
				n.dead(tt.gone, nil)
			}
			for p, reader := range tt.readers {
				n.enter(reader, digest{p, exchange.Entry{Sum: 1, Reader: reader}})
				n.announced(giver, piece.Range{Lo: p, Hi: p + 1})
				if tt.again > 0 {
					n.enter(tt.again, digest{p, exchange.Entry{Sum: 1, Reader: tt.again, Term: exchange.MaxTerm}})
				}
				if tt.says > 0 {
					n.enter(tt.says, digest{p, exchange.Entry{Sum: 666, Reader: tt.says}})
				}
				if n.neighbours[giver].dead {
					t.Fatalf("%s: given up before piece %d", tt.name, p)
				}
				n.suspect(p, suspect{rank: giver, sum: 666, since: n.now})
				n.fetched(evFetched{piece: p, sum: 1, audit: replacing})
				if n.ex.Possesses(giver) > 0 || !n.ex.Have().Has(p) {
					t.Errorf("%s: what it gave counts, or piece %d is not here", tt.name, p)
				}
			}
			if n.neighbours[giver].dead != tt.givenUp {
				t.Errorf("%s: given up: %v", tt.name, n.neighbours[giver].dead)
			}
		})
	}
}

// What a peer gives wrong of a reader that may have told it so is read from the store once, not each piece of it; if it gives one wrong twice it is given up.
func TestWrongBytesAreReadOnce(t *testing.T) {
	const giver, reader = 1, 2
	swarmOf(t, 4, unit.MiB, steal.Stream, func(b *bench) {
		c := b.configs[0]
		c.Log = slog.New(slog.DiscardHandler)
		c.Layout.Piece = 64 * unit.KiB
		n := newNode(c)
		n.ex.Up(giver)
		n.announced(giver, piece.Range{Hi: 3})
		give := func(p int) {
			n.asm.expect(giver, p)
			if !n.asm.claim(giver, p, 0) {
				t.Fatal("an expected block cannot be claimed")
			}
			_, size := blockSpan(n.Layout, p, 0)
			n.block(evBlock{link: &link{rank: giver}, piece: p, n: size, wanted: true, outcome: n.asm.arrived(giver, p, 0, 666)})
		}
		n.enter(reader, digest{0, exchange.Entry{Sum: 1, Reader: reader}})
		n.enter(reader, digest{1, exchange.Entry{Sum: 1, Reader: reader}})
		give(0)
		if o, ok := n.audit(); !ok || !o.take[0] {
			t.Fatalf("reads %v, %v", o, ok)
		}
		n.fetched(evFetched{piece: 0, sum: 1, audit: replacing})
		if n.ex.Held(1) {
			t.Error("what else it has of that reader counts")
		}
		n.enter(reader, digest{2, exchange.Entry{Sum: 1, Reader: reader}}) // later
		give(2)
		if len(n.wrong) > 0 || n.ex.Held(2) || n.neighbours[giver].dead || !n.ex.Reserve(2) {
			t.Errorf("to be read again are %v; given up: %v", n.wrong, n.neighbours[giver].dead)
		}
		n.ex.Unreserve(2)
		n.announced(giver, piece.Range{Lo: 2, Hi: 3})
		if give(2); !n.neighbours[giver].dead {
			t.Error("it is not given up though it says again that it has what it has given wrong")
		}
	})
}

// One that tells a node of what it alone has read another digest than all others, and gives it bytes that fit, has nobody give up that one for passing them on.
func TestWhoPassesOnALieIsNotTheLiar(t *testing.T) {
	const victim, liar = 2, 3
	swarmOf(t, liar+1, 4*unit.MiB, steal.Stream, func(b *bench) {
		for i := range b.configs {
			b.configs[i].Store = slow{b.store, 1 << 20}
		}
		c := b.configs[0]
		share := piece.Share(c.Layout.Count(), liar, liar+1)
		lies := bytes.Clone(b.data)
		for p := share.Lo; p < share.Hi; p++ {
			off, _ := c.Layout.Span(p)
			lies[off] ^= 1
		}
		ctx, cancel := context.WithCancel(b.t.Context())
		var told atomic.Int32 // blocks of lies
		wait := b.stranger(ctx, func(conn *peer.Conn) {
			says := b.data
			if conn.Name() == nodeName(victim) {
				says = lies
			}
			for p := share.Lo; p < share.Hi; p++ {
				off, size := c.Layout.Span(p)
				sendDigests(conn, digest{p, exchange.Entry{Sum: b.object.Checksum.Algorithm.Update(0, says[off:off+size]), Reader: liar}})
			}
			if conn.Name() == nodeName(victim) {
				conn.WriteFrame(kindHave, appendHave(nil, []piece.Range{share}))
				conn.WriteFrame(kindUnchoke, nil)
			}
		}, func(conn *peer.Conn, kind byte, payload []byte) {
			if kind != kindRequest {
				return
			}
			r, err := parseRequest(payload, c.Layout)
			if err != nil {
				t.Error(err)
			}
			for block := r.Lo; block < r.Hi; block++ {
				off, size := blockSpan(c.Layout, r.Piece, block)
				conn.WriteFrame(kindBlock, appendBlockHeader(nil, blockHeader{r.Piece, block}), lies[off:off+int64(size)])
				told.Add(1)
			}
		})
		b.within(time.Hour)
		b.run()
		cancel()
		wait()
		b.complete(BySource, 0, 1, 2)
		if f := b.faultsOf(0) + b.faultsOf(1); !strings.Contains(f, nodeName(victim)+": sent wrong bytes") || told.Load() == 0 {
			t.Errorf("nobody is passed on a lie: the test is none: %s", f)
		}
		for _, of := range []string{"n0", "n1"} {
			if f := b.faultsOf(victim); strings.Contains(f, of+" says: ") {
				t.Errorf("it is given up: %s", f)
			}
		}
		if got := b.storeBytes(); got > 3*b.object.Size {
			t.Errorf("%v left the store for an object of %v", got, b.object.Size)
		}
	})
}

// A store that cannot be read now ends nobody's part for what a peer has sent: the piece comes from others.
func TestStoreThatDoesNotJudge(t *testing.T) {
	swarmOf(t, 4, unit.MiB, steal.Stream, func(b *bench) {
		n := b.tried()
		o, _ := n.audit()
		f := &fetch{order: o, relieve: func(error) {}}
		n.fetches = append(n.fetches, f)
		n.fetchEnd(evFetchEnd{f, objstore.ErrChanged})
		if n.fatal != nil || n.neighbours[1].dead {
			t.Errorf("fails for %v; given up: %v", n.fatal, n.neighbours[1].dead)
		}
		if n.ex.Held(0) || !n.ex.Held(1) || !n.ex.Reserve(0) {
			t.Error("the piece is to come from the same peer, or from nobody")
		}
		n.wg.Wait()
	})
}

// An audit by one that we do not hear, told by a third, costs nobody what he has: we look ourselves, if we may.
func TestAuditByHearsay(t *testing.T) {
	for _, noAccess := range []bool{false, true} {
		swarmOf(t, 4, unit.MiB, steal.Steal, func(b *bench) {
			c := b.configs[0]
			c.Log = slog.New(slog.DiscardHandler)
			c.Members[0].NoAccess = noAccess
			n := newNode(c)
			n.enter(1, digest{0, exchange.Entry{Sum: 1, Reader: 1}})
			n.ex.Up(1)
			n.announced(1, piece.Range{Hi: 1})
			if err := n.learn(3, digest{0, exchange.Entry{Sum: 2, Reader: 2, Term: exchange.MaxTerm}}); err != nil {
				t.Fatal(err)
			}
			due := len(n.man.Due()) > 0
			if blamed := len(n.man.Blamed()) > 0; blamed || due == noAccess || !n.ex.Held(0) {
				t.Errorf("without access %v: the reader is blamed: %v, the piece is to be read again: %v, somebody has it: %v", noAccess, blamed, due, n.ex.Held(0))
			}
		})
	}
}

// islander is a network in which one node cannot be reached.
type islander struct {
	Network
	name string
}

func (p islander) Dial(ctx context.Context, addr, name, job string) (*peer.Conn, error) {
	if name == p.name {
		return nil, errors.New("no route to host")
	}
	return p.Network.Dial(ctx, addr, name, job)
}

// Two nodes that cannot reach each other get what they need through a third.
func TestPairThatCannotConnect(t *testing.T) {
	swarmOf(t, 3, 16*unit.MiB, steal.Steal, func(b *bench) {
		b.configs[0].Network = islander{b.configs[0].Network, "n1"}
		for i := range b.configs {
			b.configs[i].Store = slow{b.store, 256 << 10}
		}
		b.run()
		b.complete(BySource, 0, 1, 2)
		if got := b.storeBytes(); got > b.object.Size*5/4 {
			t.Errorf("%v left the store for an object of %v", got, b.object.Size)
		}
		if !strings.Contains(b.faultsOf(0), "n1: no route") {
			t.Errorf("n0 does not say whom it cannot reach: %q", b.faultsOf(0))
		}
	})
}

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

// One that has the digests not make the store's checksum, and says then to have read all again, with another outcome, is found out by the first
// piece that who is to reads again: nobody else is to blame for anything, or loses anything.
func TestLiarThatCallsForAudits(t *testing.T) {
	for _, noAccess := range []bool{false, true} {
		swarmOf(t, 4, unit.MiB, steal.Stream, func(b *bench) {
			c := b.configs[1]
			c.Log = slog.New(slog.DiscardHandler)
			c.Layout.Piece = 256 * unit.KiB
			c.Members[1].NoAccess = noAccess
			n := newNode(c)
			const wrong, liar = 2, 3
			sums := make([]uint64, c.Layout.Count())
			for p, reader := range []int{0, 2, liar, 0} { // the liar is to read again what 2 has read
				off, _ := blockSpan(n.Layout, p, 0)
				sums[p] = n.algorithm(p).Update(0, b.data[off:off+int64(c.Layout.Piece)])
				says := digest{p, exchange.Entry{Sum: sums[p], Reader: reader}}
				if p == wrong {
					says.Sum++
				}
				n.learn(reader, says)
				n.got(p, says.Sum, nodeName(reader))
			}
			for p := range sums {
				if p != wrong {
					n.learn(liar, digest{p, exchange.Entry{Sum: 666, Reader: liar, Term: exchange.MaxTerm}})
				}
			}
			n.weigh()
			n.complete(b.t.Context())
			if !n.ex.Have().Full() || len(n.faults) > 0 || n.fatal != nil || !n.man.IsDue(wrong) {
				t.Fatalf("without access %v: has %d pieces of %d; says %v", noAccess, n.ex.Have().Count(), len(sums), n.faults)
			}
			n.learn(0, digest{wrong, exchange.Entry{Sum: sums[wrong], Reader: 0, Term: exchange.MaxTerm}})
			n.now = n.now.Add(weighEvery)
			n.weigh()
			if n.ex.Have().Has(wrong) || n.ex.Have().Count() != len(sums)-1 || len(n.faults) != 1 || n.faults[0].Node != nodeName(liar) {
				t.Fatalf("without access %v: has %d pieces of %d; says %v", noAccess, n.ex.Have().Count(), len(sums), n.faults)
			}
			n.got(wrong, sums[wrong], "n0")
			n.spareProved()
			if n.complete(b.t.Context()); !n.commits {
				t.Errorf("without access %v: not complete", noAccess)
			}
			n.wg.Wait()
		})
	}
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

// Where all have been contradicted it is not tried without the word of each of them: one that contradicts many, or is contradicted by many, is among the few.
func TestFewAreLeftOut(t *testing.T) {
	const nodes, liar = 30, 29
	for _, contradicts := range []bool{false, true} {
		swarmOf(t, nodes, 4*unit.MiB, steal.Stream, func(b *bench) {
			c := b.configs[0]
			c.Log = slog.New(slog.DiscardHandler)
			c.Layout.Piece = 64 * unit.KiB
			n := newNode(c)
			for p := range c.Layout.Count() {
				n.enter(1+p%(nodes-2), digest{p, exchange.Entry{Sum: 1, Reader: 1 + p%(nodes-2)}})
				from := 1 + (p+1)%(nodes-2)
				if contradicts {
					from = liar
				} else {
					n.man.Prefer(liar, p, exchange.Entry{Sum: 1, Reader: liar})
				}
				n.keep(from, digest{p, exchange.Entry{Sum: 2, Reader: from}})
			}
			left := n.contradict(piece.Range{Hi: c.Layout.Count()})
			if len(left) != 1+mostLeft || left[0] != nobody || left[1] != liar {
				t.Errorf("it contradicts %v: without the word of %v", contradicts, left)
			}
		})
	}
}

// One that contradicts again and again what it has said has a node without access weigh that no more than once a second.
func TestWeighingTakesItsTime(t *testing.T) {
	const liar = 1
	swarmOf(t, 4, unit.MiB, steal.Stream, func(b *bench) {
		c := b.configs[0]
		c.Log = slog.New(slog.DiscardHandler)
		c.Members[0].NoAccess, c.Layout.Piece = true, 256*unit.KiB
		n := newNode(c)
		var right uint64
		for p := range c.Layout.Count() {
			off, size := c.Layout.Span(p)
			right = n.algorithm(p).Update(0, b.data[off:off+size])
			says, reader := right, 2
			if p == c.Layout.Count()-1 {
				says, reader = 666, liar
			}
			n.enter(reader, digest{p, exchange.Entry{Sum: says, Reader: reader}})
			n.got(p, says, nodeName(reader))
		}
		last := c.Layout.Count() - 1
		n.keep(liar, digest{0, exchange.Entry{Sum: 666, Reader: liar}})
		n.weigh() // in vain
		n.keep(3, digest{last, exchange.Entry{Sum: right, Reader: 3}})
		n.weigh()
		n.verify()
		if e, _ := n.man.Entry(last); e.Sum == right {
			t.Fatal("it is weighed again at once")
		}
		n.now = n.now.Add(weighEvery)
		n.weigh()
		if e, _ := n.man.Entry(last); e.Sum != right {
			t.Error("it is not weighed again")
		}
	})
}

// Where an audit was called for, and one that lies was the first to say how it came out, nobody fails for it: what one alone says
// is read once more before the object is given up as damaged, or the file of one that holds it.
func TestLyingAudit(t *testing.T) {
	for _, holds := range []bool{false, true} {
		swarmOf(t, 4, unit.MiB, steal.Stream, func(b *bench) {
			c := b.configs[0]
			c.Log = slog.New(slog.DiscardHandler)
			c.Layout.Piece = 256 * unit.KiB
			c.Members[0].Held = holds
			n := newNode(c)
			sums := make([]uint64, c.Layout.Count())
			for p := range sums {
				off, size := blockSpan(n.Layout, p, 0)
				sums[p] = n.algorithm(p).Update(0, b.data[off:off+int64(size)])
				said := sums[p]
				if p == 1 {
					said++ // so that there is an audit
				}
				n.enter(1, digest{p, exchange.Entry{Sum: said, Reader: 1}})
				if !holds {
					n.got(p, said, "n1")
				}
			}
			if _, again := n.verify(); !again || n.fatal != nil {
				t.Fatalf("not to be read again, %v", n.fatal)
			}
			for p := range sums {
				says := digest{p, exchange.Entry{Sum: sums[p], Reader: 2, Term: exchange.MaxTerm}}
				if p == 2 {
					says.Sum, says.Reader = 666, 3
				}
				if err := n.learn(says.Reader, says); err != nil {
					t.Fatal(err)
				}
				if !n.ex.Have().Has(p) {
					n.got(p, says.Sum, "n3")
				}
			}
			for range 20 {
				for p := range sums {
					if e, _ := n.man.Entry(p); !n.ex.Have().Has(p) && n.ex.Reserve(p) { // it comes from a peer
						n.got(p, e.Sum, "n3")
					}
				}
				n.weigh()
				n.complete(b.t.Context())
				o, _ := n.audit()
				if n.fatal != nil || n.commits {
					break
				}
				for p := range o.take {
					n.fetched(evFetched{piece: p, sum: sums[p], audit: o.audit})
				}
			}
			if n.fatal != nil || !n.commits {
				t.Errorf("holds %v: not complete, %v", holds, n.fatal)
			}
			n.wg.Wait()
		})
	}
}

// Our own reading counts for more than an audit that came out otherwise, until the store's checksum says that the audit was right.
func TestOwnReadingIsWrong(t *testing.T) {
	swarmOf(t, 4, unit.MiB, steal.Stream, func(b *bench) {
		c := b.configs[0]
		c.Log = slog.New(slog.DiscardHandler)
		c.Layout.Piece = 256 * unit.KiB
		n := newNode(c)
		right := make([]uint64, c.Layout.Count())
		for p := range right {
			off, size := c.Layout.Span(p)
			right[p] = n.algorithm(p).Update(0, b.data[off:off+size])
			e := exchange.Entry{Sum: right[p], Reader: 1}
			if p == 0 {
				e.Term = exchange.MaxTerm
			}
			n.enter(1, digest{p, e})
		}
		n.weigh()
		n.fetched(evFetched{piece: 0, sum: 666})
		if e, _ := n.man.Entry(0); e.Sum != 666 || !n.ex.Have().Has(0) {
			t.Fatalf("%v counts", e)
		}
		n.weigh()
		if e, _ := n.man.Entry(0); e.Sum != right[0] || n.ex.Have().Has(0) {
			t.Errorf("%v counts; what we have read is had: %v", e, n.ex.Have().Has(0))
		}
	})
}

// Whatever changes what counts is a reason to look once more whose word does, if nothing new is said, too.
func TestWhatCountsIsWeighedAgain(t *testing.T) {
	swarmOf(t, 4, unit.MiB, steal.Stream, func(b *bench) {
		c := b.configs[0]
		c.Log = slog.New(slog.DiscardHandler)
		n := newNode(c)
		n.enter(3, digest{0, exchange.Entry{Sum: 666, Reader: 2}})
		n.keep(3, digest{0, exchange.Entry{Sum: 7, Reader: 3}})
		n.weighed, n.unproved = true, true
		n.enter(2, digest{0, exchange.Entry{Sum: 5, Reader: 2}})
		if n.weighed || n.unproved {
			t.Errorf("weighed %v, unproved %v", n.weighed, n.unproved)
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

// Who may not read the store, and lacks the true digest of something, does not fail as long as others get on with reading the object again; if they only repeat
// themselves it does.
func TestOthersReadAgainForOneWithoutAccess(t *testing.T) {
	swarmOf(t, 3, unit.MiB, steal.Stream, func(b *bench) {
		c := b.configs[0]
		c.Log, c.Report, c.Layout.Piece = slog.New(slog.DiscardHandler), func(Progress) {}, 64*unit.KiB
		c.Members[0].NoAccess = true
		n := newNode(c)
		l := &link{rank: 1, out: newOutbox(n.mostUnread())}
		n.neighbours[1].link = l
		for p := range c.Layout.Count() {
			n.enter(1, digest{p, exchange.Entry{Sum: 1, Reader: 1}})
			n.got(p, 1, "n1")
		}
		n.unproved = true
		hears := func(p int) {
			n.now = n.now.Add(leaveAfter * 2 / 3)
			ds := []digest{{p, exchange.Entry{Sum: 1, Reader: 1, Term: exchange.MaxTerm}}}
			if err := n.message(evMessage{link: l, kind: kindDigests, payload: appendDigests(nil, ds)}); err != nil {
				t.Fatal(err)
			}
			n.forsaken()
		}
		for p := range c.Layout.Count() {
			if hears(p); n.fatal != nil {
				t.Fatalf("it fails when piece %d has been read again: %v", p, n.fatal)
			}
		}
		for range 2 {
			hears(0)
		}
		if n.fatal == nil {
			t.Error("it does not fail")
		}
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

// Nor does one that may not read the store itself lose its part for a liar that tells it alone other digests than the true readers.
func TestLiarToOneWithoutAccess(t *testing.T) {
	for _, term := range []uint32{0, exchange.MaxTerm} {
		swarmOf(t, 4, 4*unit.MiB, steal.Stream, func(b *bench) {
			ctx, cancel := context.WithCancel(b.t.Context())
			b.witness = nil // nobody proves anything
			wait := b.slanders(ctx, 3, term, func(int) bool { return true })
			b.share(0)
			b.within(time.Hour)
			b.run()
			cancel()
			wait()
			b.complete(BySource, 0, 1, 2)
			b.peaceful(3)
		})
	}
}

// Nor if that one has bytes that fit what it says, and gives them before anybody else gives any.
func TestLiarThatServesItsLies(t *testing.T) {
	const liar = 3
	for _, term := range []uint32{0, exchange.MaxTerm} {
		swarmOf(t, liar+1, 4*unit.MiB, steal.Stream, func(b *bench) {
			ctx, cancel := context.WithCancel(b.t.Context())
			b.witness = nil // nobody proves anything
			c := b.configs[0]
			lies := bytes.Clone(b.data)
			var ds []digest
			for p := range c.Layout.Count() {
				off, size := c.Layout.Span(p)
				lies[off] ^= 1
				ds = append(ds, digest{p, exchange.Entry{Sum: b.object.Checksum.Algorithm.Update(0, lies[off:off+size]), Reader: liar, Term: term}})
			}
			b.held(1, 2) // so that nobody asks n0 for anything
			wait := b.stranger(ctx, func(c *peer.Conn) {
				if c.Name() != "n0" {
					c.WriteFrame(kindLeave, nil)
					return
				}
				sendDigests(c, ds...)
				c.WriteFrame(kindHave, appendHave(nil, []piece.Range{{Hi: len(ds)}}))
				c.WriteFrame(kindUnchoke, nil)
			}, func(conn *peer.Conn, kind byte, payload []byte) {
				if kind != kindRequest {
					return
				}
				r, err := parseRequest(payload, c.Layout)
				if err != nil {
					t.Error(err)
				}
				for block := r.Lo; block < r.Hi; block++ {
					off, size := blockSpan(c.Layout, r.Piece, block)
					conn.WriteFrame(kindBlock, appendBlockHeader(nil, blockHeader{r.Piece, block}), lies[off:off+int64(size)])
				}
			})
			b.share(0)
			b.within(time.Hour)
			b.run()
			cancel()
			wait()
			b.complete(BySource, 0, 1, 2)
			if f := b.faultsOf(0); strings.Contains(f, "n1: ") || strings.Contains(f, "n2: ") {
				t.Errorf("term %d: n0 says: %s", term, f)
			}
		})
	}
}

// Nor if it tells that one alone another digest than all others of what only it has read, and gives it bytes that fit: then it asks the others.
func TestLiarAboutItsOwnShare(t *testing.T) {
	const liar = 3
	swarmOf(t, liar+1, 4*unit.MiB, steal.Stream, func(b *bench) {
		ctx, cancel := context.WithCancel(b.t.Context())
		b.witness = nil // nobody proves anything
		for i := range b.configs {
			b.configs[i].Store = slow{b.store, 1 << 20}
		}
		c := b.configs[0]
		share := piece.Share(c.Layout.Count(), liar-1, liar) // n0 reads nothing
		lies := bytes.Clone(b.data)
		for p := share.Lo; p < share.Hi; p++ {
			off, _ := c.Layout.Span(p)
			lies[off] ^= 1
		}
		says := func(c *peer.Conn) []byte {
			if c.Name() == "n0" {
				return lies
			}
			return b.data
		}
		wait := b.stranger(ctx, func(conn *peer.Conn) {
			if conn.Name() != "n0" { // which is to get it from nobody else first
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
			}
			for p := share.Lo; p < share.Hi; p++ {
				off, size := c.Layout.Span(p)
				sendDigests(conn, digest{p, exchange.Entry{Sum: b.object.Checksum.Algorithm.Update(0, says(conn)[off:off+size]), Reader: liar}})
			}
			conn.WriteFrame(kindHave, appendHave(nil, []piece.Range{share}))
			conn.WriteFrame(kindUnchoke, nil)
		}, func(conn *peer.Conn, kind byte, payload []byte) {
			if kind != kindRequest {
				return
			}
			r, err := parseRequest(payload, c.Layout)
			if err != nil {
				t.Error(err)
			}
			for block := r.Lo; block < r.Hi; block++ {
				off, size := blockSpan(c.Layout, r.Piece, block)
				conn.WriteFrame(kindBlock, appendBlockHeader(nil, blockHeader{r.Piece, block}), says(conn)[off:off+int64(size)])
			}
		})
		b.share(0)
		b.within(time.Hour)
		b.run()
		cancel()
		wait()
		b.complete(BySource, 0, 1, 2)
		if f := b.faultsOf(0); !strings.Contains(f, "n3: says that piece") || strings.Contains(f, "n1: ") || strings.Contains(f, "n2: ") {
			t.Errorf("n0 says: %s", f)
		}
	})
}

// One that may not read the store, and to which nobody says what of that which has come is wrong, says so in the end, whatever else is said meanwhile.
func TestNobodySaysWhatIsWrong(t *testing.T) {
	for name, says := range map[string]exchange.Entry{
		"nothing":         {},
		"another reading": {Sum: 7, Reader: 2},
		"an audit":        {Sum: 7, Reader: 2, Term: exchange.MaxTerm},
	} {
		swarmOf(t, 3, unit.MiB, steal.Stream, func(b *bench) {
			c := b.configs[0]
			c.Log, c.Report = slog.New(slog.DiscardHandler), func(Progress) {}
			c.Members[0].NoAccess, c.Layout.Piece = true, 256*unit.KiB
			n := newNode(c)
			for p := range c.Layout.Count() {
				n.learn(1, digest{p, exchange.Entry{Sum: 1, Reader: 1}})
				n.got(p, 1, "n1")
			}
			for s := 0; s < 600 && n.fatal == nil; s++ {
				n.now = n.now.Add(time.Second)
				if s == 100 && says.Sum > 0 {
					n.learn(2, digest{0, says})
				}
				n.forsaken()
				n.order()
				n.complete(b.t.Context())
			}
			if n.fatal == nil || !strings.Contains(n.fatal.Error(), "is not what the store has") {
				t.Errorf("%s is said: fails for %v", name, n.fatal)
			}
		})
	}
}

// One that may not read the store gives up who sends what nobody else says, though not before such a word could have come.
func TestForgerToOneWithoutAccess(t *testing.T) {
	const giver, other, reader = 1, 2, 4
	for _, tt := range []struct {
		name    string
		from    int // who says what came; zero: nobody
		of      int // that who has read it
		cleared bool
	}{
		{"nobody", 0, 0, false},
		{"its reader", other, other, true},
		{"one that repeats what a dead reader said", other, reader, true},
		{"the giver itself", giver, reader, false},
	} {
		swarmOf(t, 5, unit.MiB, steal.Stream, func(b *bench) {
			c := b.configs[0]
			c.Log, c.Report = slog.New(slog.DiscardHandler), func(Progress) {}
			c.Members[0].NoAccess = true
			n := newNode(c)
			n.ex.Up(giver)
			n.announced(giver, piece.Range{Hi: 1})
			n.enter(3, digest{0, exchange.Entry{Sum: 666, Reader: 3}})
			n.asm.expect(giver, 0)
			if !n.asm.claim(giver, 0, 0) {
				t.Fatal("an expected block cannot be claimed")
			}
			sum := uint64(5)
			_, size := blockSpan(n.Layout, 0, 0)
			n.block(evBlock{link: &link{rank: giver}, n: size, wanted: true, outcome: n.asm.arrived(giver, 0, 0, sum)})
			n.tick(b.t.Context())
			if n.neighbours[giver].dead {
				t.Fatal("given up at once")
			}
			if tt.from > 0 {
				n.message(evMessage{link: &link{rank: tt.from}, kind: kindDigests, payload: appendDigests(nil, []digest{{0, exchange.Entry{Sum: sum, Reader: tt.of}}})})
				if asked := n.ex.Reserve(0); asked != tt.cleared {
					t.Errorf("%s says what came: the piece is asked for again: %v", tt.name, asked)
				}
				if tt.cleared {
					n.ex.Unreserve(0)
				}
			}
			n.now = n.now.Add(2 * heardWithin)
			n.tick(b.t.Context())
			if n.neighbours[giver].dead == tt.cleared || !n.ex.Reserve(0) {
				t.Errorf("%s says what came: given up: %v", tt.name, n.neighbours[giver].dead)
			}
		})
	}
}

// Where one has told a node without access another digest than all others of what it alone has read, who sends the true bytes is not given up: another is
// asked, and two that give the same are right. One that forges is found out by the next, but not by the word of who said it alone.
func TestSecondGiverDecides(t *testing.T) {
	const first, second, reader = 1, 2, 3
	const said, other = 666, 5
	for _, tt := range []struct {
		name  string
		then  int // who is asked next
		gives uint64
		had   bool // then
		dead  int  // zero: nobody
	}{
		{"another gives the same", second, other, true, 0},
		{"another gives what was said", second, said, true, first},
		{"who said it gives that", reader, said, true, 0},
		{"another gives something else", second, 7, false, 0},
		{"the same one gives it again", first, other, false, first},
	} {
		swarmOf(t, 4, unit.MiB, steal.Stream, func(b *bench) {
			c := b.configs[0]
			c.Log, c.Report = slog.New(slog.DiscardHandler), func(Progress) {}
			c.Members[0].NoAccess = true
			n := newNode(c)
			n.enter(reader, digest{0, exchange.Entry{Sum: said, Reader: reader}})
			for rank := 1; rank < 4; rank++ {
				n.ex.Up(rank)
				n.announced(rank, piece.Range{Hi: 1})
			}
			give := func(rank int, sum uint64) {
				n.asm.expect(rank, 0)
				if !n.asm.claim(rank, 0, 0) {
					t.Fatal("an expected block cannot be claimed")
				}
				_, size := blockSpan(n.Layout, 0, 0)
				n.block(evBlock{link: &link{rank: rank}, n: size, wanted: true, outcome: n.asm.arrived(rank, 0, 0, sum)})
			}
			give(first, other)
			if n.ex.Have().Has(0) || !n.ex.Held(0) || !n.ex.Reserve(0) {
				t.Fatal("nobody else is asked")
			}
			n.ex.Unreserve(0)
			give(tt.then, tt.gives)
			n.now = n.now.Add(2 * heardWithin)
			n.tick(b.t.Context())
			for rank := 1; rank < 4; rank++ {
				if n.neighbours[rank].dead != (rank == tt.dead) {
					t.Errorf("%s: n%d is given up: %v", tt.name, rank, n.neighbours[rank].dead)
				}
			}
			if n.ex.Have().Has(0) != tt.had {
				t.Errorf("%s: the piece is here: %v", tt.name, n.ex.Have().Has(0))
			}
		})
	}
}

// Who has given one without access what the store has is not given up for it once the store's checksum says so, and is asked again.
func TestGiverWhomTheStoreProves(t *testing.T) {
	const giver, other, liar = 1, 2, 3
	for _, holders := range [][]int{{giver}, {giver, other}} { // the last is asked for it then
		swarmOf(t, 4, unit.MiB, steal.Stream, func(b *bench) {
			c := b.configs[0]
			c.Log, c.Report = slog.New(slog.DiscardHandler), func(Progress) {}
			c.Members[0].NoAccess, c.Layout.Piece = true, 256*unit.KiB
			n := newNode(c)
			right := make([]uint64, c.Layout.Count())
			for p := range right {
				off, size := c.Layout.Span(p)
				right[p] = n.algorithm(p).Update(0, b.data[off:off+size])
				if p > 0 {
					n.learn(other, digest{p, exchange.Entry{Sum: right[p], Reader: other}})
				}
			}
			n.learn(liar, digest{0, exchange.Entry{Sum: 666, Reader: liar}})
			for _, rank := range holders {
				n.ex.Up(rank)
				n.announced(rank, piece.Range{Hi: 1})
			}
			give := func(rank int) {
				n.asm.expect(rank, 0)
				if !n.asm.claim(rank, 0, 0) {
					t.Fatal("an expected block cannot be claimed")
				}
				_, size := blockSpan(n.Layout, 0, 0)
				n.block(evBlock{link: &link{rank: rank}, n: size, wanted: true, outcome: n.asm.arrived(rank, 0, 0, right[0])})
			}
			give(giver)
			n.weigh()
			if e, _ := n.man.Entry(0); e.Sum != right[0] || !n.ex.Reserve(0) {
				t.Fatalf("held by %v: what it gave does not count, or is not asked for again", holders)
			}
			n.ex.Unreserve(0)
			give(holders[len(holders)-1])
			n.now = n.now.Add(2 * heardWithin)
			n.tick(b.t.Context())
			if !n.ex.Have().Has(0) || n.neighbours[giver].dead || n.neighbours[other].dead {
				t.Errorf("held by %v: the piece is here: %v; says %v", holders, n.ex.Have().Has(0), n.faults)
			}
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
// another is to read it again, nor if it was heard first, nor by the reader, who looks itself.
func TestNobodyAuditsItself(t *testing.T) {
	const self, reader, liar, other, right = 0, 1, 2, 3, 5
	for _, tt := range []struct {
		name  string
		heard []int // who reads it first, in the order in which we hear it
		looks bool
	}{
		{"after the reader", []int{reader, liar}, false},
		{"before it", []int{liar, reader}, false},
		{"after us", []int{self, liar}, true},
	} {
		swarmOf(t, 4, unit.MiB, steal.Stream, func(b *bench) {
			c := b.configs[0]
			c.Object.Checksum = piece.Checksum{}
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
			for _, rank := range tt.heard {
				says(rank, 0)
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

// Who is dead has nothing, whatever becomes of the suspicion that it sent wrong bytes.
func TestSuspectDies(t *testing.T) {
	swarmOf(t, 4, unit.MiB, steal.Stream, func(b *bench) {
		c := b.configs[0]
		c.Log, c.Report = slog.New(slog.DiscardHandler), func(Progress) {}
		c.Members[0].NoAccess = true
		n := newNode(c)
		n.ex.Up(1)
		n.announced(1, piece.Range{Hi: 1})
		n.learn(3, digest{0, exchange.Entry{Sum: 666, Reader: 3}})
		n.suspect(0, suspect{rank: 1, sum: 5, since: n.now})
		n.dead(1, nil)
		n.learn(2, digest{0, exchange.Entry{Sum: 5, Reader: 2}})
		if n.ex.Held(0) {
			t.Error("what it had still counts")
		}
	})
}

// Where a suspicion comes to nothing who was suspected counts as having the piece again: it may be the only one that has.
func TestSuspectCountsAgain(t *testing.T) {
	const first, second, tells, reader = 1, 2, 3, 4
	swarmOf(t, 5, unit.MiB, steal.Stream, func(b *bench) {
		c := b.configs[0]
		c.Log, c.Report = slog.New(slog.DiscardHandler), func(Progress) {}
		c.Members[0].NoAccess = true
		n := newNode(c)
		for rank := first; rank <= second; rank++ {
			n.ex.Up(rank)
			n.announced(rank, piece.Range{Hi: 1})
		}
		n.learn(tells, digest{0, exchange.Entry{Sum: 666, Reader: reader}})
		n.suspect(0, suspect{rank: first, sum: 5, since: n.now})
		if !n.ex.Held(0) {
			t.Fatal("nobody else is asked")
		}
		n.dead(second, nil) // before it has given anything
		n.now = n.now.Add(2 * heardWithin)
		n.tick(b.t.Context())
		if n.neighbours[first].dead || len(n.suspects) > 0 || !n.ex.Held(0) || !n.ex.Reserve(0) {
			t.Errorf("given up: %v; somebody has the piece: %v", n.neighbours[first].dead, n.ex.Held(0))
		}
	})
}

// Who had a piece alone when it gave it is not given up for it where others have got it since: they are asked first.
func TestOthersAreAskedWhenTheyHaveIt(t *testing.T) {
	const first, second, reader = 1, 2, 3
	swarmOf(t, 4, unit.MiB, steal.Stream, func(b *bench) {
		c := b.configs[0]
		c.Log, c.Report = slog.New(slog.DiscardHandler), func(Progress) {}
		c.Members[0].NoAccess = true
		n := newNode(c)
		n.learn(reader, digest{0, exchange.Entry{Sum: 666, Reader: reader}})
		give := func(rank int) {
			n.ex.Up(rank)
			n.announced(rank, piece.Range{Hi: 1})
			n.asm.expect(rank, 0)
			if !n.asm.claim(rank, 0, 0) {
				t.Fatal("an expected block cannot be claimed")
			}
			_, size := blockSpan(n.Layout, 0, 0)
			n.block(evBlock{link: &link{rank: rank}, n: size, wanted: true, outcome: n.asm.arrived(rank, 0, 0, 5)})
		}
		give(first)
		n.announced(second, piece.Range{Hi: 1})
		n.now = n.now.Add(2 * heardWithin)
		n.tick(b.t.Context())
		if n.neighbours[first].dead || !n.ex.Reserve(0) {
			t.Fatalf("given up: %v, or nobody is asked", n.neighbours[first].dead)
		}
		n.ex.Unreserve(0)
		give(second)
		n.now = n.now.Add(2 * heardWithin)
		n.tick(b.t.Context())
		if !n.ex.Have().Has(0) || n.neighbours[first].dead || n.neighbours[second].dead {
			t.Errorf("the piece is here: %v; says %v", n.ex.Have().Has(0), n.faults)
		}
	})
}

// What came otherwise than it was said is asked of one other, not of several: blocks of the one that lies, among those of others, would make its
// word look right, and who gave the piece first look like the liar.
func TestSecondGiverIsOne(t *testing.T) {
	const first, reader = 1, 3
	swarmOf(t, 4, unit.MiB, steal.Stream, func(b *bench) {
		c := b.configs[0]
		c.Log, c.Report = slog.New(slog.DiscardHandler), func(Progress) {}
		c.Members[0].NoAccess, c.Layout.Piece = true, unit.MiB
		n := newNode(c)
		n.learn(reader, digest{0, exchange.Entry{Sum: 666, Reader: reader}})
		for rank := 1; rank < 4; rank++ {
			n.ex.Up(rank)
			n.ex.Choked(rank, false)
		}
		n.announced(first, piece.Range{Hi: 1})
		n.ex.Asks(n.now)
		var whole outcome
		for block := range c.Layout.Blocks(0) {
			n.asm.expect(first, 0)
			if !n.asm.claim(first, 0, block) {
				t.Fatal("an expected block cannot be claimed")
			}
			_, size := blockSpan(n.Layout, 0, block)
			whole = n.asm.arrived(first, 0, block, 5)
			n.block(evBlock{link: &link{rank: first}, n: size, block: block, wanted: true, outcome: whole})
			n.announced(2, piece.Range{Hi: 1})
			n.announced(reader, piece.Range{Hi: 1})
		}
		if _, doubted := n.suspects[0]; !doubted || !whole.whole {
			t.Fatal("what came is taken for right")
		}
		asked := map[int]bool{}
		asks, _ := n.ex.Asks(n.now)
		for _, a := range asks {
			asked[a.Peer] = true
		}
		if len(asked) != 1 || asked[first] {
			t.Errorf("asked of %v", asked)
		}
	})
}
