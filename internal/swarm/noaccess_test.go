package swarm

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

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

// Of those that it asks for that, one may have been told wrong itself, and have found that out since: what it says last counts.
func TestHearsayIsRevised(t *testing.T) {
	const liar, deceived, reader = 1, 2, 3
	swarmOf(t, 4, unit.MiB, steal.Stream, func(b *bench) {
		c := b.configs[0]
		c.Log = slog.New(slog.DiscardHandler)
		c.Members[0].NoAccess, c.Layout.Piece = true, 256*unit.KiB
		n := newNode(c)
		right := make([]uint64, c.Layout.Count())
		for p := range right {
			off, size := c.Layout.Span(p)
			right[p] = n.algorithm(p).Update(0, b.data[off:off+size])
			says := digest{p, exchange.Entry{Sum: right[p], Reader: reader}}
			if p == 0 {
				says.Entry = exchange.Entry{Sum: 666, Reader: liar}
			}
			n.learn(says.Reader, says)
			n.got(p, says.Sum, nodeName(says.Reader))
		}
		n.neighbours[liar].link = &link{rank: liar, out: newOutbox(n.mostUnread())}
		n.inquired = n.now
		for _, sum := range []uint64{7, right[0]} {
			if e, _ := n.man.Entry(0); e.Sum != 666 {
				t.Fatalf("%d counts", e.Sum)
			}
			if err := n.learn(deceived, digest{0, exchange.Entry{Sum: sum, Reader: liar}}); err != nil {
				t.Fatal(err)
			}
			n.now = n.now.Add(weighEvery)
			n.weigh()
		}
		if e, _ := n.man.Entry(0); e.Sum != right[0] {
			t.Errorf("%d counts", e.Sum)
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

// Nor is it forgotten as one that has the piece where another has been suspected of the same piece since.
func TestFormerSuspectWhomTheStoreProves(t *testing.T) {
	const giver, other, liar = 1, 2, 3
	swarmOf(t, 4, unit.MiB, steal.Stream, func(b *bench) {
		c := b.configs[0]
		c.Log, c.Report = slog.New(slog.DiscardHandler), func(Progress) {}
		c.Members[0].NoAccess, c.Layout.Piece = true, 256*unit.KiB
		n := newNode(c)
		right := make([]uint64, c.Layout.Count())
		for p := range right {
			off, size := c.Layout.Span(p)
			right[p] = n.algorithm(p).Update(0, b.data[off:off+size])
		}
		n.learn(liar, digest{0, exchange.Entry{Sum: 666, Reader: liar}})
		for _, rank := range []int{giver, liar} {
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
		give(giver, right[0])
		give(liar, 7)
		for p := 1; p < len(right); p++ {
			n.learn(other, digest{p, exchange.Entry{Sum: right[p], Reader: other}})
		}
		n.weigh()
		n.now = n.now.Add(2 * heardWithin)
		n.tick(b.t.Context())
		if !n.ex.Held(0) || !n.ex.Reserve(0) {
			t.Fatal("it is not asked for again")
		}
		n.ex.Unreserve(0)
		give(giver, right[0])
		n.tick(b.t.Context())
		if !n.ex.Have().Has(0) || n.neighbours[giver].dead {
			t.Errorf("the piece is here: %v; says %v", n.ex.Have().Has(0), n.faults)
		}
	})
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

// Who may not read waits longer for others where a piece takes long to come into its site: until one that clings to the last of them has been passed over.
func TestThinLinksAreWaitedFor(t *testing.T) {
	for _, took := range []time.Duration{0, time.Second, leaveAfter / 4} {
		swarmOf(t, 3, unit.MiB, steal.Stream, func(b *bench) {
			b.inSites([]string{"east", "west", "west"}, 0)
			c := b.configs[1]
			c.Log, c.Report, c.Layout.Piece = slog.New(slog.DiscardHandler), func(Progress) {}, 64*unit.KiB
			n := newNode(c)
			n.now = time.Now()
			n.moved = n.now
			for p := range c.Layout.Count() {
				n.ex.Known(p)
			}
			n.ex.Up(0)
			n.ex.Choked(0, false)
			n.ex.Announced(0, piece.Range{Lo: 0, Hi: c.Layout.Count()})
			if ask, _ := n.ex.Asks(n.now); took > 0 {
				n.ex.Asks(n.now.Add(took))
				n.ex.Got(ask[0].Piece)
			}
			until := leaveAfter
			if took == leaveAfter/4 {
				until = 16*took + time.Minute
			}
			for _, waits := range []bool{true, false} {
				if n.now = n.moved.Add(until); !waits {
					n.now = n.moved.Add(until + forsakenFor*took + time.Second)
				}
				if n.forsaken(); (n.fatal == nil) != waits {
					t.Errorf("a piece takes %v: after %v: %v", took, n.now.Sub(n.moved), n.fatal)
				}
			}
		})
	}
}
