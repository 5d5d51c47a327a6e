package swarm

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

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

// A reader whose word did not count says the same again, and nobody loses anything for it; nor for its first word if the store's checksum proves what others have said that it
// says. However often it speaks, what is kept of it does not grow.
func TestWhoWasOverruledIsNotHeardAgain(t *testing.T) {
	const reader, honest, other = 1, 2, 3
	for _, noAccess := range []bool{false, true} {
		for _, proved := range []bool{false, true} {
			swarmOf(t, 4, unit.MiB, steal.Stream, func(b *bench) {
				c := b.configs[0]
				c.Log = slog.New(slog.DiscardHandler)
				c.Members[0].NoAccess, c.Layout.Piece = noAccess, 256*unit.KiB
				if !proved {
					c.Object.Checksum = piece.Checksum{}
				}
				n := newNode(c)
				var right uint64
				for p := c.Layout.Count() - 1; p >= 0; p-- {
					off, size := c.Layout.Span(p)
					right = n.algorithm(p).Update(0, b.data[off:off+size])
					if p > 0 {
						n.learn(other, digest{p, exchange.Entry{Sum: right, Reader: other}})
						n.got(p, right, nodeName(other))
					}
				}
				lies := func(sum uint64) {
					if err := n.learn(reader, digest{0, exchange.Entry{Sum: sum, Reader: reader}}); err != nil {
						t.Fatal(err)
					}
				}
				if !proved {
					lies(666)
					lies(7)
				}
				if err := n.learn(honest, digest{0, exchange.Entry{Sum: right, Reader: reader}}); err != nil {
					t.Fatal(err)
				}
				if i := slices.IndexFunc(n.words[0], func(w word) bool { return w.from == honest }); i >= 0 { // as where bytes have come that fit it
					n.swap(0, n.words[0][i])
				}
				n.got(0, right, nodeName(honest))
				for range 5 {
					lies(666)
					n.weigh()
				}
				if e, _ := n.man.Entry(0); e.Sum != right || !n.ex.Have().Has(0) {
					t.Errorf("without access %v, proved %v: %d counts; what we have is had: %v", noAccess, proved, e.Sum, n.ex.Have().Has(0))
				}
				if len(n.words[0]) != 1 {
					t.Errorf("without access %v, proved %v: kept are %v", noAccess, proved, n.words[0])
				}
			})
		}
	}
}
