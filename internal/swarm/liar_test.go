package swarm

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/internal/pace"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/objstore/retry"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// within ends all nodes after a while of simulated time: what hangs is to fail.
func (b *bench) within(d time.Duration) {
	b.after(d, func() {
		for _, end := range b.cancel {
			end(errors.New("it hangs"))
		}
	})
}

// One that says that all works are its own, and reads none of them, costs the others some patience and no more, whatever else it does to
// seem busy: in vain they would ask it for works, or wait for what it has just taken.
func TestLiarHoldsWorks(t *testing.T) {
	const nodes, size, rate = 5, 4 * unit.MiB, 64 * unit.KiB
	const liar = nodes - 1
	var honest time.Duration
	for _, how := range []string{"honest", "says no more", "takes nothing, again and again", "takes all, again and again", "and answers nobody", "for good", "gives what has been read", "gives and takes back", "hangs up"} {
		swarmOf(t, nodes, size, steal.Stream, func(b *bench) {
			ctx, cancel := context.WithCancel(b.t.Context())
			for i := range b.configs {
				b.configs[i].Layout.Piece = 64 * unit.KiB
				b.configs[i].Store = client{b.store, []*pace.Limiter{pace.New(unit.Bandwidth(rate))}, 4 << 10}
			}
			wait := func() {}
			if how != "honest" {
				works := b.configs[0].Layout.Count()
				var gifts atomic.Uint32
				took := func(c *peer.Conn, hands ...steal.Hand) error {
					return c.WriteFrame(kindTook, appendTook(nil, steal.Claim{Node: liar, Hands: hands}))
				}
				wait = b.stranger(ctx, func(c *peer.Conn) {
					first := uint32(1)
					if how == "for good" {
						first = 1 << 24 // the highest term there is
					}
					var err error
					if !strings.HasPrefix(how, "gives") && how != "hangs up" { // it keeps its share
						err = took(c, steal.Hand{Lo: 0, Hi: works, Term: first})
					}
					for term := first; err == nil; {
						select {
						case <-time.After(500 * time.Millisecond):
						case <-ctx.Done():
							return
						}
						switch how {
						case "takes nothing, again and again":
							err = took(c)
						case "takes all, again and again", "and answers nobody":
							term += 2
							err = took(c, steal.Hand{Lo: 0, Hi: works, Term: term})
						}
					}
				}, func(c *peer.Conn, kind byte, _ []byte) {
					if kind != kindGiveWork || how == "and answers nobody" {
						return
					}
					time.Sleep(4 * time.Second)
					switch how {
					case "hangs up":
						c.Close()
					case "gives what has been read":
						c.WriteFrame(kindWorks, appendWorks(nil, []steal.Hand{{Lo: 0, Hi: 1, Term: gifts.Add(1)}}))
					case "gives and takes back":
						k := gifts.Add(2)
						all := []steal.Hand{{Lo: 0, Hi: works, Term: k}}
						c.WriteFrame(kindWorks, appendWorks(nil, all))
						all[0].Term++
						took(c, all...)
					default:
						c.WriteFrame(kindWorks, nil)
					}
				})
			}
			b.within(time.Hour)
			b.run()
			cancel()
			wait()
			b.complete(BySource, seq(len(b.configs))...)
			took := slices.Max(b.took)
			if how == "honest" {
				honest = took
			}
			if took > 4*honest {
				t.Errorf("%s: it takes %v, and %v if nobody lies", how, took, honest)
			}
		})
	}
}

// Where works are read in turn, and the store gives one of a few nodes nothing any more, the others do not stand still for
// as long as its works come before theirs.
func TestHungReaderKeepsNoTurns(t *testing.T) {
	const nodes, pieces, size, link = 4, 60, 64 * unit.KiB, unit.Bandwidth(512 * unit.KiB)
	took := map[bool]time.Duration{}
	for _, hangs := range []bool{false, true} {
		swarmOf(t, nodes, pieces*size, steal.Stream, func(b *bench) {
			b.shares(size, link, unit.Bandwidth(size), 128)
			if hangs {
				s := b.configs[2].Store.(shared)
				s.stops = time.Now().Add(5 * time.Second)
				b.configs[2].Store = s
			}
			b.within(time.Hour)
			b.run()
			b.complete(BySource, seq(nodes)...)
			took[hangs] = slices.Max(b.took)
		})
	}
	if took[true] > took[false]*19/10 {
		t.Errorf("it takes %v when one hangs, and %v else", took[true], took[false])
	}
}

// shares gives a swarm links of one rate each, and a store of one rate for all together that delivers so many bytes at a time.
func (b *bench) shares(size unit.Bytes, link, total unit.Bandwidth, little int) {
	for i := range b.configs {
		b.configs[i].Layout.Piece = size
	}
	s, all := b.onStar(all(link), all(link), all(0)), pace.New(total)
	s.grain = int(size) / 64
	for i := range b.configs {
		b.configs[i].Store = shared{Store: b.store, total: all, down: s.down[nodeName(i)], little: little, grain: s.grain}
	}
}

// A store that takes longer for a piece than a swarm may stand still is no reason to read out of turn what others are reading.
func TestSlowestStoreIsReadInTurn(t *testing.T) {
	const nodes, size = 16, 64 * unit.KiB
	swarmOf(t, nodes, nodes*size, steal.Stream, func(b *bench) {
		b.shares(size, 512*unit.Bandwidth(unit.KiB), unit.Bandwidth(size)/45, 16)
		b.within(3 * time.Hour)
		b.run()
		b.complete(BySource, seq(nodes)...)
		if got := b.storeBytes(); got > nodes*size*3/2 {
			t.Errorf("%v left the store for an object of %v", got, nodes*size)
		}
	})
}

// Nor is that an excuse for ever for one that says that all works are its own, and reads none of them.
func TestPausesExcuseNobodyForEver(t *testing.T) {
	const liar = 3
	swarmOf(t, liar+1, 4*unit.MiB, steal.Stream, func(b *bench) {
		ctx, cancel := context.WithCancel(b.t.Context())
		b.small()
		works := b.configs[0].Layout.Count()
		wait := b.stranger(ctx, func(c *peer.Conn) {
			c.WriteFrame(kindTook, appendTook(nil, steal.Claim{Node: liar, Hands: []steal.Hand{{Lo: 0, Hi: works, Term: 1 << 24}}}))
			moan(ctx, c, time.Second)
		}, nil)
		b.within(time.Hour)
		b.run()
		cancel()
		wait()
		b.complete(BySource, 0, 1, 2)
		if took := slices.Max(b.took); took > 20*time.Minute {
			t.Errorf("it takes %v", took)
		}
	})
}

// One that says again and again that the store wants to be left alone keeps nobody from reading it.
func TestEndlessPause(t *testing.T) {
	swarmOf(t, 4, 16*unit.MiB, steal.Stream, func(b *bench) {
		ctx, cancel := context.WithCancel(b.t.Context())
		b.small()
		wait := b.stranger(ctx, func(c *peer.Conn) {
			moan(ctx, c, time.Hour)
		}, nil)
		b.within(time.Hour)
		b.run()
		cancel()
		wait()
		b.complete(BySource, 0, 1, 2)
	})
}

// small has all read small pieces, at 1 MiB/s each.
func (b *bench) small() {
	for i := range b.configs {
		b.configs[i].Layout.Piece = 64 * unit.KiB
		b.configs[i].Store = retry.New(client{b.store, []*pace.Limiter{pace.New(unit.Bandwidth(unit.MiB))}, 4 << 10}, retry.Policy{})
	}
}

// moan says again and again that the store wants to be left alone for so long.
func moan(ctx context.Context, c *peer.Conn, pause time.Duration) {
	for c.WriteFrame(kindBusy, appendBusy(nil, pause)) == nil {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// Nor does one of a site keep the others from importing by saying that it imports all.
func TestLiarHoldsImports(t *testing.T) {
	const liar = 4
	for _, how := range []string{"says no more", "takes all, again and again", "takes nothing, again and again", "for good", "for good, and announces a piece now and then", "gives one when it is asked, and takes all again",
		"gives all but one, and keeps that for good", "tells a single mate that it keeps one for good", "gives each what it has", "hangs up"} {
		swarmOf(t, liar+1, 4*unit.MiB, steal.Stream, func(b *bench) {
			ctx, cancel := context.WithCancel(b.t.Context())
			b.inSites([]string{"east", "east", "west", "west", "west"}, 0, 1)
			b.small()
			pieces := b.configs[0].Layout.Count()
			kept := (pieces-1)/3*3 - 1 // three nodes are dealt the pieces in turn: the last of those of the third
			var gifts atomic.Uint32
			wait := b.stranger(ctx, func(c *peer.Conn) {
				if c.Name() == "n0" || c.Name() == "n1" {
					return
				}
				took := func(hands ...steal.Hand) error {
					if len(hands) == 0 && how != "takes nothing, again and again" {
						return nil
					}
					return c.WriteFrame(kindTookImports, appendTook(nil, steal.Claim{Node: liar, Hands: hands}))
				}
				term, pause := uint32(1), 500*time.Millisecond
				if strings.HasPrefix(how, "for good") {
					term, pause = 1<<24, 29*time.Second
				}
				claims, announced := []steal.Hand{{Lo: 0, Hi: pieces, Term: term}}, 0
				switch {
				case how == "gives all but one, and keeps that for good":
					claims = []steal.Hand{{Lo: kept, Hi: kept + 1, Term: 1 << 24}}
				case how == "tells a single mate that it keeps one for good" && c.Name() == "n2":
					claims = []steal.Hand{{Lo: 3, Hi: 4, Term: 1 << 24}} // which that one is dealt
				case how == "tells a single mate that it keeps one for good" || how == "gives each what it has" || how == "hangs up":
					claims = nil // it keeps its share
				}
				for err := took(claims...); err == nil; {
					select {
					case <-time.After(pause):
					case <-ctx.Done():
						return
					}
					switch how {
					case "for good, and announces a piece now and then":
						err = c.WriteFrame(kindHave, appendHave(nil, []piece.Range{{Lo: announced, Hi: announced + 1}}))
						announced++
					case "takes all, again and again":
						term += 2
						err = took(steal.Hand{Lo: 0, Hi: pieces, Term: term})
					case "takes nothing, again and again":
						err = took()
					}
				}
			}, func(c *peer.Conn, kind byte, _ []byte) {
				switch {
				case kind != kindGiveImports || how == "takes nothing, again and again":
				case how == "gives one when it is asked, and takes all again":
					k := gifts.Add(1)
					p, term := int(k)%pieces, 2*k
					c.WriteFrame(kindImports, appendWorks(nil, []steal.Hand{{Lo: p, Hi: p + 1, Term: term}}))
					c.WriteFrame(kindTookImports, appendTook(nil, steal.Claim{Node: liar, Hands: []steal.Hand{{Lo: 0, Hi: pieces, Term: term + 1}}}))
				case how == "hangs up":
					time.Sleep(time.Second)
					c.Close()
				case how == "gives each what it has":
					p := 0 // which n2 is dealt
					if c.Name() == "n3" {
						p = 1
					}
					c.WriteFrame(kindImports, appendWorks(nil, []steal.Hand{{Lo: p, Hi: p + 1, Term: gifts.Add(1)}}))
				case (how == "gives all but one, and keeps that for good" || how == "tells a single mate that it keeps one for good") && gifts.Add(1) == 1:
					var hands []steal.Hand
					for p := liar - 2; p < kept || p == kept && how == "tells a single mate that it keeps one for good"; p += 3 {
						hands = append(hands, steal.Hand{Lo: p, Hi: p + 1, Term: 1})
					}
					c.WriteFrame(kindImports, appendWorks(nil, hands))
				default:
					c.WriteFrame(kindImports, nil)
				}
			})
			const lies = 10 * time.Minute // then it is gone: who has all waits for one that still announces something
			b.after(lies, cancel)
			b.within(2 * lies)
			b.run()
			cancel()
			wait()
			b.complete(BySource, seq(liar)...)
			if took := slices.Max(b.took); took > lies/2 {
				t.Errorf("it takes %v", took)
			}
			if t.Failed() {
				t.Errorf("of one that says that it imports all, and %s", how)
			}
		})
	}
}

// Nor by saying that it has whatever other sites have, and giving none of it: not even if it sends something else.
func TestLiarHoardsForItsSite(t *testing.T) {
	const liar = 4
	for _, how := range []string{"chokes all", "chokes all, and sends what nobody asked for", "gives nothing"} {
		swarmOf(t, liar+1, 4*unit.MiB, steal.Stream, func(b *bench) {
			ctx, cancel := context.WithCancel(b.t.Context())
			b.inSites([]string{"east", "east", "west", "west", "west"}, 0, 1)
			b.small()
			var mu sync.Mutex // guards mates
			var mates []*peer.Conn
			wait := b.stranger(ctx, func(c *peer.Conn) {
				if c.Name() == "n0" || c.Name() == "n1" {
					return
				}
				mu.Lock()
				mates = append(mates, c)
				mu.Unlock()
				if how == "gives nothing" {
					c.WriteFrame(kindUnchoke, nil)
				}
				_, size := blockSpan(b.configs[0].Layout, 0, 0)
				for how == "chokes all, and sends what nobody asked for" && c.WriteFrame(kindBlock, appendBlockHeader(nil, blockHeader{}), make([]byte, size)) == nil {
					select {
					case <-time.After(time.Second):
					case <-ctx.Done():
						return
					}
				}
			}, func(c *peer.Conn, kind byte, payload []byte) {
				if c.Name() != "n0" && c.Name() != "n1" || kind != kindHave {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				for _, m := range mates {
					m.WriteFrame(kindHave, payload)
				}
			})
			b.within(20 * time.Minute)
			b.run()
			cancel()
			wait()
			b.complete(BySource, seq(liar)...)
			if t.Failed() {
				t.Errorf("of one that says that it has what others have, and %s", how)
			}
		})
	}
}
