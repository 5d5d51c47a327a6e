package swarm

import (
	"bytes"
	"context"
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

// What one says of a member that we do not hear is not that one's word, by which it could have deceived anybody: who forges pieces of two readers is given up, whatever it
// has said before that a third has read them, too.
func TestHearsayDeceivesNobody(t *testing.T) {
	const giver, absent = 1, 4
	for _, first := range []bool{false, true} {
		swarmOf(t, 5, unit.MiB, steal.Stream, func(b *bench) {
			c := b.configs[0]
			c.Log = slog.New(slog.DiscardHandler)
			c.Layout.Piece = 64 * unit.KiB
			n := newNode(c)
			n.ex.Up(giver)
			for p, reader := range []int{2, 3} {
				says := []int{reader, giver}
				if first {
					says = []int{giver, reader}
				}
				for _, from := range says {
					e := exchange.Entry{Sum: 1, Reader: from}
					if from == giver {
						e.Reader = absent
					}
					if err := n.learn(from, digest{p, e}); err != nil {
						t.Fatal(err)
					}
				}
				n.announced(giver, piece.Range{Lo: p, Hi: p + 1})
				if n.neighbours[giver].dead {
					t.Fatalf("it speaks first %v: given up before piece %d", first, p)
				}
				n.suspect(p, suspect{rank: giver, sum: 666, since: n.now})
				n.fetched(evFetched{piece: p, sum: 1, audit: replacing})
			}
			if !n.neighbours[giver].dead {
				t.Errorf("it speaks first %v: it is not given up", first)
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

// gives has a node get blocks of piece 0 from a peer, of other bytes than the source has if wrong is not zero.
func (b *bench) gives(n *node, rank int, wrong uint64, blocks ...int) {
	b.t.Helper()
	for _, block := range blocks {
		n.ex.Asks(n.now)
		n.asm.expect(rank, 0)
		if !n.asm.claim(rank, 0, block) {
			b.t.Fatalf("block %d cannot be claimed", block)
		}
		off, size := blockSpan(n.Layout, 0, block)
		sum := n.algorithm(0).Update(0, b.data[off:off+int64(size)]) ^ wrong
		n.block(evBlock{link: &link{rank: rank}, block: block, n: size, wanted: true, outcome: n.asm.arrived(rank, 0, block, sum)})
	}
}

// Of several who gave a piece that came wrong the one is found whose block differs when it has come right: at once where it has read the piece itself, else when the store has said
// that this is right. If the store says something else it may be the one that is honest.
func TestMixedPieceTellsWhoIsWrong(t *testing.T) {
	const liar, honest, reader = 1, 2, 3
	for _, tt := range []struct {
		name   string
		reader int
		true   bool // what comes last is what the store has
	}{
		{"of another's reading", reader, true},
		{"of its own reading", liar, true},
		{"the reader lies", reader, false},
	} {
		swarmOf(t, 4, 2*unit.MiB, steal.Stream, func(b *bench) {
			c := b.configs[0]
			c.Log, c.Layout.Piece = slog.New(slog.DiscardHandler), unit.MiB
			n := newNode(c)
			right := n.algorithm(0).Update(0, b.data[:unit.MiB])
			n.enter(tt.reader, digest{0, exchange.Entry{Sum: right, Reader: tt.reader}})
			for _, rank := range []int{liar, honest} {
				n.ex.Up(rank)
				n.ex.Choked(rank, false)
				n.announced(rank, piece.Range{Hi: 1})
			}
			gives := func(block, rank int, wrong uint64) { b.gives(n, rank, wrong, block) }
			gives(0, liar, 1)
			for block := 1; block < 4; block++ {
				gives(block, honest, 0)
			}
			if n.neighbours[liar].dead || n.neighbours[honest].dead || n.ex.Have().Has(0) {
				t.Fatalf("%s: somebody is given up already, or the piece is taken for right", tt.name)
			}
			for block := range 4 {
				gives(block, honest, 0)
			}
			if tt.reader != liar {
				o, ok := n.audit()
				if !ok || o.audit != replacing || !o.take[0] {
					t.Fatalf("%s: reads %v, %v", tt.name, o, ok)
				}
				was := right
				if !tt.true {
					was++
				}
				n.fetched(evFetched{piece: 0, sum: was, audit: o.audit})
			}
			nb := &n.neighbours[liar]
			found := nb.dead || nb.deceivers[tt.reader] // until it gives something wrong of another's
			if found != tt.true || nb.dead != (tt.reader == liar) || n.neighbours[honest].dead || n.neighbours[honest].deceivers != nil || !n.ex.Have().Has(0) {
				t.Errorf("%s: found %v, given up %v; of the honest one %v; the piece is here: %v", tt.name, found, nb.dead, n.neighbours[honest].dead, n.ex.Have().Has(0))
			}
		})
	}
}

// given is a node with four peers that have announced piece 0, of four blocks, whose digest it returns.
func (b *bench) given() (n *node, right uint64) {
	c := b.configs[0]
	c.Log, c.Layout.Piece = slog.New(slog.DiscardHandler), unit.MiB
	n = newNode(c)
	for rank := 1; rank <= 4; rank++ {
		n.ex.Up(rank)
		n.ex.Choked(rank, false)
		n.announced(rank, piece.Range{Hi: 1})
	}
	return n, n.algorithm(0).Update(0, b.data[:unit.MiB])
}

// Who gave wrong blocks of a piece and then reads that piece again itself, as the one that told us what it is may have told it otherwise, has sent nothing else than it says itself.
func TestWhoAuditsWhatItGaveWrongIsNoLiar(t *testing.T) {
	const victim, honest, liar = 1, 2, 3
	for _, mixed := range []bool{true, false} {
		swarmOf(t, 5, 2*unit.MiB, steal.Stream, func(b *bench) {
			n, right := b.given()
			n.enter(liar, digest{0, exchange.Entry{Sum: right, Reader: liar}})
			b.gives(n, victim, 1, 0)
			if mixed {
				b.gives(n, honest, 0, 1, 2, 3)
			}
			if err := n.learn(victim, digest{0, exchange.Entry{Sum: right, Reader: victim, Term: exchange.MaxTerm}}); err != nil {
				b.t.Fatal(err)
			}
			if mixed {
				b.gives(n, honest, 0, 0, 1, 2, 3)
			} else {
				b.gives(n, victim, 0, 1, 2, 3)
			}
			o, ok := n.audit()
			if !ok || !o.take[0] {
				b.t.Fatalf("mixed %v: reads %v, %v", mixed, o, ok)
			}
			n.fetched(evFetched{piece: 0, sum: right, audit: o.audit})
			if nb := &n.neighbours[victim]; nb.dead || !nb.deceivers[liar] || !n.ex.Have().Has(0) {
				t.Errorf("mixed %v: given up %v; may have been told so by %v", mixed, nb.dead, nb.deceivers)
			}
		})
	}
}

// Who gives its copy of a piece among others and then alone has given it wrong once, not again.
func TestOneWrongCopyCountsOnce(t *testing.T) {
	const victim, honest, liar = 1, 2, 3
	swarmOf(t, 5, 2*unit.MiB, steal.Stream, func(b *bench) {
		n, right := b.given()
		n.enter(liar, digest{0, exchange.Entry{Sum: right, Reader: liar}})
		n.neighbours[victim].deceivers = map[int]bool{liar: true}
		b.gives(n, victim, 1, 0)
		b.gives(n, honest, 0, 1, 2, 3)
		b.gives(n, victim, 1, 0, 1, 2, 3)
		b.gives(n, honest, 0, 0, 1, 2, 3)
		if nb := &n.neighbours[victim]; nb.dead || !nb.wrong[0] || !n.ex.Have().Has(0) {
			t.Errorf("given up %v; has given wrong %v; the piece is here: %v", nb.dead, nb.wrong, n.ex.Have().Has(0))
		}
	})
}

// Nobody is blamed, and nothing is read from the store, for blocks of a piece of which another has said something else, or whoever has read it is not heard: who gave
// them may have been told so.
func TestSpoiledPieceConvictsNobody(t *testing.T) {
	const victim, honest, reader, other = 1, 2, 3, 4
	for name, say := range map[string]func(n *node, right uint64){
		"an audit has come out otherwise": func(n *node, right uint64) {
			n.enter(reader, digest{0, exchange.Entry{Sum: 666, Reader: reader}})
			n.enter(other, digest{0, exchange.Entry{Sum: right, Reader: other, Term: exchange.MaxTerm}})
			n.announced(victim, piece.Range{Hi: 1}) // it has not heard that
			n.announced(honest, piece.Range{Hi: 1})
		},
		"its reader is dead": func(n *node, right uint64) {
			n.enter(reader, digest{0, exchange.Entry{Sum: right, Reader: reader}})
			n.dead(reader, nil)
		},
		"hearsay": func(n *node, right uint64) {
			n.enter(other, digest{0, exchange.Entry{Sum: right, Reader: reader}})
		},
	} {
		swarmOf(t, 5, 2*unit.MiB, steal.Stream, func(b *bench) {
			n, right := b.given()
			say(n, right)
			b.gives(n, victim, 1, 0)
			b.gives(n, honest, 0, 1, 2, 3)
			b.gives(n, honest, 0, 0, 1, 2, 3)
			if len(n.wrong) > 0 || len(n.suspects) > 0 || !n.ex.Have().Has(0) {
				t.Errorf("%s: to be read are %v; the piece is here: %v", name, n.wrong, n.ex.Have().Has(0))
			}
			if nb := &n.neighbours[victim]; nb.dead || nb.deceivers != nil || n.ex.Possesses(victim) > 0 {
				t.Errorf("%s: given up %v; may have been told so by %v; what it has counts: %d", name, nb.dead, nb.deceivers, n.ex.Possesses(victim))
			}
		})
	}
}

// Of two who spoil a piece neither shields the other.
func TestAllWhoSpoilAPieceAreFound(t *testing.T) {
	const known, honest, reader, fresh = 1, 2, 3, 4
	for _, blocks := range [][]int{{0, 1}, {1, 0}} {
		swarmOf(t, 5, 2*unit.MiB, steal.Stream, func(b *bench) {
			n, right := b.given()
			n.enter(reader, digest{0, exchange.Entry{Sum: right, Reader: reader}})
			n.neighbours[known].deceivers = map[int]bool{reader: true}
			b.gives(n, known, 1, blocks[0])
			b.gives(n, fresh, 1, blocks[1])
			b.gives(n, honest, 0, 2, 3)
			b.gives(n, honest, 0, 0, 1, 2, 3)
			o, ok := n.audit()
			if !ok || !o.take[0] {
				b.t.Fatalf("reads %v, %v", o, ok)
			}
			n.fetched(evFetched{piece: 0, sum: right, audit: o.audit})
			if !n.neighbours[known].wrong[0] || !n.neighbours[fresh].deceivers[reader] || n.neighbours[honest].deceivers != nil || !n.ex.Have().Has(0) {
				t.Errorf("blocks %v: found are %v and %v", blocks, n.neighbours[known].wrong, n.neighbours[fresh].deceivers)
			}
		})
	}
}

// One that sends a wrong block of a piece and chokes, so that others send the rest, again and again, is given up, and nobody else.
func TestSpoilerOfPiecesIsFound(t *testing.T) {
	const liar = 3
	for _, a := range []string{steal.Steal, steal.Stream} {
		swarmOf(t, liar+1, 64*unit.MiB, a, func(b *bench) {
			ctx, cancel := context.WithCancel(b.t.Context())
			for i := range b.configs {
				b.configs[i].Layout.Piece = unit.MiB
				b.configs[i].Store = slow{b.store, unit.Bandwidth(8 * unit.MiB)}
				b.configs[i].Members[liar].NoAccess = true // it has read nothing, and gives what others have
			}
			l := b.configs[0].Layout
			var mu sync.Mutex // guards what follows, and what is said on them
			var links []*peer.Conn
			spoiled := 0
			wait := b.stranger(ctx, func(c *peer.Conn) {
				mu.Lock()
				defer mu.Unlock()
				links = append(links, c)
				c.WriteFrame(kindUnchoke, nil)
			}, func(c *peer.Conn, kind byte, payload []byte) {
				mu.Lock()
				defer mu.Unlock()
				switch kind {
				case kindHave:
					for _, other := range links {
						other.WriteFrame(kindHave, payload)
					}
				case kindRequest:
					r, err := parseRequest(payload, l)
					if err != nil {
						t.Error(err)
					}
					for block := r.Lo; block < r.Hi; block++ {
						off, size := blockSpan(l, r.Piece, block)
						data := bytes.Clone(b.data[off : off+int64(size)])
						if block == 0 {
							data[0] ^= 1
						}
						c.WriteFrame(kindBlock, appendBlockHeader(nil, blockHeader{r.Piece, block}), data)
						if block == 0 {
							spoiled++
							c.WriteFrame(kindChoke, nil)
							c.WriteFrame(kindUnchoke, nil)
							break
						}
					}
				}
			})
			b.within(time.Hour)
			b.run()
			cancel()
			wait()
			b.complete(BySource, 0, 1, 2)
			found := false
			for i := range liar {
				for _, f := range b.results[i].Faults {
					if !strings.Contains(f.Node, nodeName(liar)) {
						t.Errorf("%s: %s blames %v", a, nodeName(i), f)
					}
					found = found || f.Node == nodeName(liar) && strings.HasPrefix(f.Cause, "sent wrong bytes for piece") && !strings.Contains(f.Cause, "told")
				}
			}
			if !found || spoiled == 0 {
				t.Errorf("%s: of one that has spoiled %d pieces the others say: %s", a, spoiled, b.faultsOf(0)+b.faultsOf(1)+b.faultsOf(2))
			}
		})
	}
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
