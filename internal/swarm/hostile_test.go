package swarm

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
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
