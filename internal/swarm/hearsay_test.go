package swarm

import (
	"context"
	"errors"
	"fmt"
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
