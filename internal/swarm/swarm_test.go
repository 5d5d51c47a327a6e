package swarm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/mem"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

func TestAlgorithms(t *testing.T) {
	for _, a := range steal.Algorithms {
		for _, n := range []int{1, 2, 5} {
			t.Run(fmt.Sprintf("%s/%d", a, n), func(t *testing.T) {
				swarmOf(t, n, 20*unit.MiB+12345, a, func(b *bench) {
					b.run()
					b.complete(BySource, seq(n)...)
					want := b.object.Size
					if a == steal.Flat {
						want *= unit.Bytes(n)
					}
					if got := b.storeBytes(); got != want {
						t.Errorf("%d bytes left the store, want %d", got, want)
					}
					for i, p := range b.results {
						if p.StoreBytes+p.PeerBytes < b.object.Size || len(p.Faults) > 0 {
							t.Errorf("%s: %v from the store, %v from peers, faults %v", nodeName(i), p.StoreBytes, p.PeerBytes, p.Faults)
						}
					}
				})
			})
		}
	}
}

func TestEmptyObject(t *testing.T) {
	for _, a := range steal.Algorithms {
		swarmOf(t, 3, 0, a, func(b *bench) {
			b.run()
			b.complete(BySource, 0, 1, 2)
		})
	}
}

func TestNoChecksumMeansVerifiedByPeers(t *testing.T) {
	swarmOf(t, 3, 3*unit.MiB, steal.Steal, func(b *bench) {
		b.object.Checksum = piece.Checksum{}
		for i := range b.configs {
			b.configs[i].Object = b.object
		}
		b.run()
		b.complete(ByPeers, 0, 1, 2)
	})
}

func TestCompositeChecksum(t *testing.T) {
	swarmOf(t, 3, 9*unit.MiB+1, steal.Steal, func(b *bench) {
		if b.object.Checksum.Part != unit.MiB {
			t.Fatalf("checksum is %+v", b.object.Checksum)
		}
		b.run()
		b.complete(BySource, 0, 1, 2)
	}, mem.Composite(piece.CRC32C, unit.MiB))
}

// With rates as in the paper's example, 10, 2 and 2 MB/s, stealing ends the
// reading after 14 MB/s worth of time, not after the slowest's share.
func TestStealBeatsNonSteal(t *testing.T) {
	read := map[string]time.Duration{}
	for _, a := range []string{steal.NonSteal, steal.Steal} {
		swarmOf(t, 3, 30*unit.MiB, a, func(b *bench) {
			for i, rate := range []unit.Bandwidth{10 << 20, 2 << 20, 2 << 20} {
				b.configs[i].Store = slow{b.store, rate}
			}
			b.run()
			b.complete(BySource, 0, 1, 2)
			read[a] = slices.Max(b.took)
			if got := b.storeBytes(); got != b.object.Size {
				t.Errorf("%s: %d bytes left the store, want %d", a, got, b.object.Size)
			}
		})
	}
	// 10 MiB at 2 MiB/s take 5 s; 30 MiB at 14 MiB/s 2.1 s.
	if read[steal.NonSteal] < 4900*time.Millisecond || read[steal.Steal] > 3*time.Second {
		t.Errorf("non-steal takes %v, steal %v; want about 5 s and 2.2 s", read[steal.NonSteal], read[steal.Steal])
	}
}

// One node's connection to the store gives a hundredth, or nothing at all. The
// others read what it has begun, too, and it gets that from them.
func TestSlowReaderIsOvertaken(t *testing.T) {
	took := map[string]time.Duration{}
	for _, how := range []string{"well", "slow", "hanging"} {
		swarmOf(t, 4, 40*unit.MiB, steal.Steal, func(b *bench) {
			for i := range b.configs {
				b.configs[i].Store = slow{b.store, 4 << 20}
			}
			switch how {
			case "slow":
				b.configs[2].Store = slow{b.store, 40 << 10}
			case "hanging":
				b.configs[2].Store = hanging{b.store}
			}
			b.run()
			b.complete(BySource, 0, 1, 2, 3)
			took[how] = slices.Max(b.took)
			most := b.object.Size
			if how == "slow" {
				most += most / 50
			}
			if got := b.storeBytes(); got < b.object.Size || got > most {
				t.Errorf("%s: %d bytes left the store, want %d to %d", how, got, b.object.Size, most)
			}
			if p := b.results[2]; how == "slow" {
				if rate := float64(p.StoreBytes) / p.StoreTime.Seconds(); rate < 30<<10 || rate > 120<<10 {
					t.Errorf("it says that it read %d bytes in %v", p.StoreBytes, p.StoreTime)
				}
			}
		})
	}
	if took["slow"] > 2*took["well"] || took["hanging"] > 2*took["well"] {
		t.Errorf("all have it after %v", took)
	}
}

// hanging is a store whose bodies never come.
type hanging struct{ objstore.Store }

func (h hanging) ReadRange(ctx context.Context, _ objstore.Object, _, _ unit.Bytes) (io.ReadCloser, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// The paper's barrier: no piece passes between nodes before all have been read
// (Chiba et al. 2010, section 4.1).
func TestNothingIsExchangedBeforeAllIsRead(t *testing.T) {
	for _, a := range []string{steal.NonSteal, steal.Steal} {
		swarmOf(t, 3, 20*unit.MiB, a, func(b *bench) {
			for i, rate := range []unit.Bandwidth{10 << 20, 2 << 20, 5 << 20} {
				b.configs[i].Store = slow{b.store, rate}
			}
			b.run()
			b.complete(BySource, 0, 1, 2)
			if first, last := b.firstFromPeer(), b.lastFromStore(); first < last {
				t.Errorf("%s: a piece came from a peer at %v s, and the last from the store at %v s", a, first, last)
			}
		})
	}
}

// What is recorded accounts for every byte of every node.
func TestRecordingIsComplete(t *testing.T) {
	swarmOf(t, 3, 20*unit.MiB+5, steal.Steal, func(b *bench) {
		for i, rate := range []unit.Bandwidth{10 << 20, 2 << 20, 5 << 20} {
			b.configs[i].Store = slow{b.store, rate}
		}
		b.run()
		b.complete(BySource, 0, 1, 2)
		var store unit.Bytes
		bytes, kinds := map[string]unit.Bytes{}, map[string]int{}
		for _, e := range b.events() {
			kinds[e.Kind]++
			if e.Kind == "piece" {
				bytes[e.Node] += unit.Bytes(e.Bytes)
				if e.From == StoreName {
					store += unit.Bytes(e.Bytes)
				}
			}
		}
		for i := range 3 {
			if got := bytes[nodeName(i)]; got != b.object.Size {
				t.Errorf("%s recorded %d bytes, want %d", nodeName(i), got, b.object.Size)
			}
		}
		if store != b.object.Size {
			t.Errorf("%d bytes from the store are recorded, want %d", store, b.object.Size)
		}
		if kinds["run"] != 3 || kinds["done"] != 3 || kinds["phase"] != 6 || kinds["work"] == 0 {
			t.Errorf("recorded are %v; want 3 runs and ends, 6 phases and works that changed hands", kinds)
		}
	})
}

// A node with nothing to give says so.
func TestGiveWorkIsAlwaysAnswered(t *testing.T) {
	swarmOf(t, 2, 0, steal.Steal, func(b *bench) {
		n := newNode(b.configs[0])
		l := &link{rank: 1, out: newOutbox(1 << 20)}
		n.neighbours[1].link = l
		if err := n.message(evMessage{link: l, kind: kindGiveWork, payload: appendGiveWork(nil, 1<<20, steal.Pace{})}); err != nil {
			t.Fatal(err)
		}
		if ms, _, _ := l.out.next(); len(ms) != 1 || ms[0].Kind != kindWorks || len(ms[0].Payload) != 0 {
			t.Errorf("the answer is %v, want no works", ms)
		}
		for _, bad := range []evMessage{
			{link: l, kind: kindChoke, payload: []byte{1}}, {link: l, kind: kindDone, payload: []byte{1}},
			{link: l, kind: kindLeave, payload: make([]byte, maxLeave+1)}, {link: l, kind: 99},
		} {
			if n.message(bad) == nil {
				t.Errorf("kind %d with %d bytes passes", bad.kind, len(bad.payload))
			}
		}
	})
}

func TestNodeDies(t *testing.T) {
	for _, a := range []string{steal.NonSteal, steal.Steal} {
		for _, at := range []time.Duration{time.Millisecond, 300 * time.Millisecond, time.Second} {
			t.Run(fmt.Sprintf("%s/%v", a, at), func(t *testing.T) {
				swarmOf(t, 4, 20*unit.MiB, a, func(b *bench) {
					for i := range b.configs {
						b.configs[i].Store = slow{b.store, 4 << 20}
					}
					b.after(at, func() {
						b.net.kill("n2")
						b.cancel[2](errors.New("killed"))
					})
					b.run()
					b.complete(BySource, 0, 1, 3)
					if b.errs[2] == nil {
						t.Error("the killed node succeeded")
					}
					if last := max(b.took[0], b.took[1], b.took[3]); last > stallAfter/2 {
						t.Errorf("took %v: the dead node's works found no heir", last)
					}
					if !strings.Contains(b.faultsOf(0), "n2") {
						t.Errorf("n0 does not name the dead node: %q", b.faultsOf(0))
					}
				})
			})
		}
	}
}

// A member that falls silent is given up as soon as the control plane misses it,
// too. Of one that the control plane alone misses nothing is taken.
func TestMissedMemberIsGivenUp(t *testing.T) {
	took := map[bool]time.Duration{}
	for _, told := range []bool{false, true} {
		swarmOf(t, 3, 20*unit.MiB, steal.NonSteal, func(b *bench) {
			for i := range b.configs {
				b.configs[i].Store = slow{b.store, 4 << 20}
			}
			for i := range 2 {
				lost := make(chan []string, 1)
				b.configs[i].Lost = lost
				for _, at := range []time.Duration{time.Second, 11 * time.Second} {
					names := []string{"n0", "n1", "stranger"}
					if told {
						names = append(names, "n2")
					}
					b.after(at, func() { lost <- names })
				}
			}
			b.after(500*time.Millisecond, func() { b.net.mute("n2") })
			b.run()
			b.complete(BySource, 0, 1)
			took[told] = max(b.took[0], b.took[1])
			if said := b.faultsOf(0); strings.Contains(said, "n2: lost: no sign of life") != told || strings.Contains(said, "n1: ") {
				t.Errorf("told %v: n0 says %q", told, said)
			}
		})
	}
	if took[true] < 11*time.Second || took[true] > 14*time.Second || took[false] < 20*time.Second {
		t.Errorf("the others take %v when they are told after 11 s, and %v when not", took[true], took[false])
	}
}

func TestNodeNeverBegins(t *testing.T) {
	swarmOf(t, 3, 10*unit.MiB, steal.Steal, func(b *bench) {
		b.net.kill("n1")
		b.configs = slices.Delete(b.configs, 1, 2)
		b.disks = slices.Delete(b.disks, 1, 2)
		b.run()
		b.complete(BySource, 0, 1)
		if !strings.Contains(b.faultsOf(0), "n1: ") || !strings.Contains(b.faultsOf(1), "n1: ") {
			t.Errorf("the absent node is not named: %q, %q", b.faultsOf(0), b.faultsOf(1))
		}
	})
}

func TestLyingPeerIsDroppedAndNamed(t *testing.T) {
	swarmOf(t, 4, 20*unit.MiB, steal.Steal, func(b *bench) {
		b.disks[1].corrupt = func(off int64, p []byte) { p[0] ^= 1 }
		b.run()
		b.complete(BySource, 0, 2, 3)
		named := false
		for _, i := range []int{0, 2, 3} {
			named = named || strings.Contains(b.faultsOf(i), "n1: sent wrong bytes")
		}
		if !named {
			t.Errorf("nobody names the lying node: %q", b.faultsOf(0))
		}
	})
}

// flipping is a store that delivers one byte wrong to one node, the first times.
type flipping struct {
	objstore.Store
	mu    sync.Mutex // guards times
	times int
	at    unit.Bytes
}

func (s *flipping) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	r, err := s.Store.ReadRange(ctx, o, off, n)
	if err != nil || s.at < off || s.at >= off+n {
		return r, err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.times > 0 {
		s.times--
		b[s.at-off] ^= 4
	}
	return io.NopCloser(bytes.NewReader(b)), err
}

func TestWrongReadingIsReadAgainByAnother(t *testing.T) {
	for _, a := range steal.Algorithms {
		for _, n := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s/%d", a, n), func(t *testing.T) {
				swarmOf(t, n, 12*unit.MiB, a, func(b *bench) {
					b.configs[0].Store = &flipping{Store: b.store, times: 1, at: 100_000}
					b.run()
					b.complete(BySource, seq(n)...)
					by := "itself"
					if a != steal.Flat && n > 1 {
						by = "n1"
					}
					if want := "n0: had piece 0 wrong when it read it from the store; it was read again by " + by; !strings.Contains(b.faultsOf(0), want) {
						t.Errorf("the report says %q, want %q", b.faultsOf(0), want)
					}
				})
			})
		}
	}
}

func TestDamagedObject(t *testing.T) {
	damaged(t, piece.CRC64NVME.Encode(12345))
	damaged(t, piece.CRC32C.Encode(12345)+"-5", mem.Composite(piece.CRC32C, unit.MiB))
}

func damaged(t *testing.T, checksum string, options ...mem.Option) {
	swarmOf(t, 3, 5*unit.MiB, steal.Steal, func(b *bench) {
		b.object.Checksum.Value = checksum
		for i := range b.configs {
			b.configs[i].Object = b.object
		}
		b.run()
		for i, err := range b.errs {
			if err == nil || !strings.Contains(err.Error(), "damaged") {
				t.Errorf("%s: %v, want that the object is damaged", nodeName(i), err)
			}
		}
	}, options...)
}

func TestSourceWithoutRanges(t *testing.T) {
	swarmOf(t, 4, 20*unit.MiB, steal.Steal, func(b *bench) {
		for i := range b.configs {
			b.configs[i].Store = slow{b.store, 4 << 20}
		}
		b.run()
		b.complete(BySource, 0, 1, 2, 3)
		if got := b.results[0].StoreBytes; got != b.object.Size || b.storeBytes() != got {
			t.Errorf("the first node read %d bytes, all %d; want the object once", got, b.storeBytes())
		}
		if first, last := b.firstFromPeer(), b.lastFromStore(); first >= last {
			t.Errorf("the first piece came from a peer at %v, when the stream had ended at %v", first, last)
		}
	}, mem.NoRanges())
}

func TestReaderOfAStreamDies(t *testing.T) {
	swarmOf(t, 3, 10*unit.MiB, steal.Steal, func(b *bench) {
		for i := range b.configs {
			b.configs[i].Store = slow{b.store, 4 << 20}
		}
		b.after(time.Second, func() {
			b.net.kill("n0")
			b.cancel[0](errors.New("killed"))
		})
		b.run()
		b.complete(BySource, 1, 2)
	}, mem.NoRanges())
}

func TestHeldMemberGives(t *testing.T) {
	swarmOf(t, 4, 20*unit.MiB, steal.Steal, func(b *bench) {
		for i := range b.configs {
			b.configs[i].Members[1].Held = true
		}
		copy(b.disks[1].b, b.data)
		b.configs[1].Commit = nil
		b.run()
		b.complete(BySource, 0, 1, 2, 3)
		if got := b.storeBytes(); got != 0 {
			t.Errorf("%v left the store although a node has the object", got)
		}
	})
}

func TestObjectReplaced(t *testing.T) {
	swarmOf(t, 3, 20*unit.MiB, steal.Steal, func(b *bench) {
		for i := range b.configs {
			b.configs[i].Store = slow{b.store, 4 << 20}
		}
		b.after(500*time.Millisecond, func() { b.store.Set(key, bytes.Repeat([]byte{7}, len(b.data))) })
		b.run()
		for i, err := range b.errs {
			if !errors.Is(err, objstore.ErrChanged) && !strings.Contains(fmt.Sprint(err), objstore.ErrChanged.Error()) {
				t.Errorf("%s: %v, want that the object was replaced", nodeName(i), err)
			}
		}
	})
}

func TestDiskFull(t *testing.T) {
	swarmOf(t, 3, 20*unit.MiB, steal.Steal, func(b *bench) {
		for i := range b.configs {
			b.configs[i].Store = slow{b.store, 4 << 20}
		}
		b.disks[1].full = 10 << 20
		b.run()
		b.complete(BySource, 0, 2)
		if b.errs[1] == nil || !strings.Contains(b.errs[1].Error(), "no space") {
			t.Errorf("n1: %v, want that its disk is full", b.errs[1])
		}
		if !strings.Contains(b.faultsOf(0), "no space") {
			t.Errorf("n0 does not say why n1 left: %q", b.faultsOf(0))
		}
	})
}

var errStopped = errors.New("stopped by the test")

func TestCancelled(t *testing.T) {
	swarmOf(t, 3, 20*unit.MiB, steal.Steal, func(b *bench) {
		for i := range b.configs {
			b.configs[i].Store = slow{b.store, 1 << 20}
		}
		b.after(time.Second, func() {
			for i := range b.cancel {
				b.cancel[i](errStopped)
			}
		})
		begin := time.Now()
		b.run()
		for i, err := range b.errs {
			if !errors.Is(err, errStopped) {
				t.Errorf("%s: %v, want cancelled", nodeName(i), err)
			}
		}
		if d := time.Since(begin); d > 10*time.Second {
			t.Errorf("took %v to stop", d)
		}
	})
}

func TestBrokenConnectionComesBack(t *testing.T) {
	swarmOf(t, 3, 20*unit.MiB, steal.Steal, func(b *bench) {
		for i := range b.configs {
			b.configs[i].Store = slow{b.store, 4 << 20}
		}
		b.after(600*time.Millisecond, func() { // every connection of one node breaks, the node lives
			b.net.mu.Lock()
			defer b.net.mu.Unlock()
			for _, c := range b.net.conns["n1"] {
				c.Close()
			}
		})
		b.run()
		b.complete(BySource, 0, 1, 2)
		if got := b.storeBytes(); got != b.object.Size {
			t.Errorf("%d bytes left the store, want %d", got, b.object.Size)
		}
	})
}

// News goes along with whatever goes to a peer, before it, and alone when it has waited for long enough.
func TestNewsGoesAlong(t *testing.T) {
	o := newOutbox(1 << 20)
	const patience, urgently = time.Second, 50 * time.Millisecond
	said := func() (kinds []byte) {
		for {
			ms, _, _ := o.next()
			if len(ms) == 0 {
				return kinds
			}
			for _, m := range ms {
				kinds = append(kinds, m.Kind)
				if m.Kind == kindHave {
					rs, err := parseHave(m.Payload, 10)
					if want := []piece.Range{{Lo: 1, Hi: 4}, {Lo: 7, Hi: 8}}; err != nil || !slices.Equal(rs, want) {
						t.Errorf("pieces %v, %v; want %v", rs, err, want)
					}
				}
			}
		}
	}
	tell := func(urgent bool) {
		t.Helper()
		if !o.tell([]int{3, 1, 7, 2, 2, 5}, []digest{{Piece: 3}}, urgent) {
			t.Error("a little news is too much")
		}
		o.forget(5)
	}
	after := func(d time.Duration) { o.remind(o.told.Add(d), patience, urgently) }
	tell(false)
	if got := said(); got != nil {
		t.Errorf("news goes by itself: %v", got)
	}
	o.send(kindChoke, nil)
	if got := said(); !slices.Equal(got, []byte{kindDigests, kindHave, kindChoke}) {
		t.Errorf("with another message go %v", got)
	}
	if o.unread != 0 {
		t.Errorf("%d bytes are left when all is said", o.unread)
	}
	for _, c := range []struct {
		urgent bool
		waited time.Duration
		goes   bool
	}{{false, patience - 1, false}, {false, patience, true}, {true, urgently - 1, false}, {true, urgently, true}} {
		tell(c.urgent)
		after(c.waited)
		if got := said(); len(got) > 0 != c.goes {
			t.Errorf("urgent %v, after %v: %v goes", c.urgent, c.waited, got)
		}
		o.close()
		if got := said(); len(got) > 0 == c.goes {
			t.Errorf("at the end: %v goes", got)
		}
		o.closing = false
	}
	if o = newOutbox(100); o.tell(make([]int, 5), make([]digest, 5), false) || o.unread != 0 {
		t.Error("more news is kept than may be left unread")
	}
}

// stalled is an end of a connection over which nothing more goes out for a while once it is said so: its link is full.
type stalled struct {
	net.Conn
	until *atomic.Int64 // nanoseconds; zero: it is not
}

func (c stalled) Write(p []byte) (int, error) {
	if until := c.until.Load(); until > 0 {
		time.Sleep(time.Until(time.Unix(0, until)))
	}
	return c.Conn.Write(p)
}

// Who is done goes only when others have heard it, however long what is on its way takes: else these find a broken connection, and say so.
func TestFarewellIsHeardOverAFullLink(t *testing.T) {
	swarmOf(t, 3, 4*unit.MiB, steal.Stream, func(b *bench) {
		var until atomic.Int64
		b.net.pipe = func(from, to string) (net.Conn, net.Conn) {
			here, there := net.Pipe()
			if from == nodeName(0) && to == nodeName(1) {
				return here, stalled{there, &until}
			}
			return here, there
		}
		b.configs[1].Commit = func() error {
			until.Store(time.Now().Add(8 * time.Second).UnixNano())
			return nil
		}
		b.run()
		b.complete(BySource, 0, 1, 2)
		for i := range 3 {
			if f := b.faultsOf(i); f != "" {
				t.Errorf("%s says: %s", nodeName(i), f)
			}
		}
	})
}
