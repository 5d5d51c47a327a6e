package swarm

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// A block that two bring is written by one, and the other waits for the end of that: it writes the block if the first one failed.
func TestOneWritesABlock(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(a *assembly)
		want bool // the second one may write it
	}{
		"it arrives":     {func(a *assembly) { a.arrived(1, 0, 0, 7) }, false},
		"it is given up": {func(a *assembly) { a.giveUp(0, 0) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAssembly(piece.Layout{Size: unit.MiB, Piece: unit.MiB}, func(int) piece.Algorithm { return piece.CRC64NVME })
				a.expect(1, 0)
				a.expect(2, 0)
				if !a.claim(1, 0, 0) || !a.claim(2, 0, 1) || a.claim(3, 0, 2) {
					t.Fatal("who was asked may not write, or who was not may")
				}
				said := make(chan bool, 1)
				go func() { said <- a.claim(2, 0, 0) }()
				synctest.Wait()
				if len(said) > 0 {
					t.Fatal("the second one does not wait for the first one")
				}
				c.end(a)
				if got := <-said; got != c.want {
					t.Errorf("the second one may write: %v", got)
				}
			})
		})
	}
}

// A block of which the loop hears only when its piece has come wrong and is begun anew is asked for again like all others.
func TestLateBlockOfAPieceBegunAnew(t *testing.T) {
	swarmOf(t, 3, unit.MiB, steal.Stream, func(b *bench) {
		c := b.configs[0]
		c.Log, c.Layout.Piece = slog.New(slog.DiscardHandler), unit.MiB
		n := newNode(c)
		n.enter(1, digest{0, exchange.Entry{Sum: 1, Reader: 1}})
		for rank := 1; rank <= 2; rank++ {
			n.ex.Up(rank)
			n.ex.Choked(rank, false)
			n.announced(rank, piece.Range{Hi: 1})
			n.asm.expect(rank, 0)
		}
		n.ex.Asks(n.now)
		arrived := func(rank, block int) evBlock {
			if !n.asm.claim(rank, 0, block) {
				t.Fatalf("block %d cannot be claimed", block)
			}
			_, size := blockSpan(n.Layout, 0, block)
			return evBlock{link: &link{rank: rank}, block: block, n: size, wanted: true, outcome: n.asm.arrived(rank, 0, block, 666)}
		}
		late := arrived(1, 0)
		for block := 1; block < 4; block++ {
			n.block(arrived(2, block))
		}
		n.block(late)
		ask, _ := n.ex.Asks(n.now)
		if len(ask) != 1 || ask[0].Lo != 0 || ask[0].Hi != 4 {
			t.Errorf("asks %v, want all blocks", ask)
		}
	})
}

// On a disk that is slow, what one peer has brought and is being written is not asked of another again and again.
func TestSlowDiskIsNotSentMore(t *testing.T) {
	swarmOf(t, 4, 4*unit.MiB, steal.Stream, func(b *bench) {
		b.disks[2].slow = 7 * time.Second
		b.run()
		b.complete("", 0, 1, 2)
		for i := range b.configs {
			for _, f := range b.results[i].Faults {
				if !strings.Contains(f.Cause, "hardly gets on") { // nor does it: what it was to read others read
					t.Errorf("%s saw %v", nodeName(i), f)
				}
			}
		}
		for i := range 2 {
			if sent := b.net.carried[[2]string{nodeName(i), nodeName(2)}]; sent > 2*len(b.data) {
				t.Errorf("%s sent %d bytes of an object of %d", nodeName(i), sent, len(b.data))
			}
		}
	})
}
