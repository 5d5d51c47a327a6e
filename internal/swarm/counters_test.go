package swarm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// A node that is stopped says so, and the others take its work over at once:
// they neither dial it again nor wait for it to be silent.
func TestStoppedNodeSaysGoodbye(t *testing.T) {
	stopped := errors.New("stopped by its operator")
	for _, stop := range []int{0, 1, 2} { // who dialed whom must not matter
		swarmOf(t, 3, 24*unit.MiB, steal.Steal, func(b *bench) {
			for i := range b.configs {
				b.configs[i].Store = slow{b.store, 2 << 20}
			}
			b.after(2*time.Second, func() { b.cancel[stop](stopped) })
			b.run()
			if err := b.errs[stop]; !errors.Is(err, stopped) {
				t.Errorf("n%d ended with %v, want %v", stop, err, stopped)
			}
			for i := range b.configs {
				if i == stop {
					continue
				}
				b.complete(BySource, i)
				want := fmt.Sprintf("n%d: left the job: %v\n", stop, stopped)
				if got := b.faultsOf(i); got != want {
					b.t.Errorf("n%d saw %q, want %q", i, got, want)
				}
			}
		})
	}
}

// Counters of all nodes agree with each other and with what each reports, and
// nothing of a job that has ended is in the gauges.
func TestCountersSayWhatWasMoved(t *testing.T) {
	swarmOf(t, 3, 8*unit.MiB, steal.Steal, func(b *bench) {
		counters := make([]Counters, len(b.configs))
		for i := range b.configs {
			b.configs[i].Counters = &counters[i]
			b.configs[i].Store = slow{b.store, 2 << 20}
		}
		b.run()
		b.complete(BySource, 0, 1, 2)
		for i := range counters {
			c, p := &counters[i], b.results[i]
			var received, sent int64
			c.Peers(func(name string, share *PeerCounters) {
				received += share.Received.Load()
				sent += share.Sent.Load()
				for j := range counters {
					// A block that nobody needs any more may be cut off on its way.
					if nodeName(j) == name && counters[j].Peer(nodeName(i)).Sent.Load() < share.Received.Load() {
						t.Errorf("n%d got %d bytes from %s, which has sent it %d", i, share.Received.Load(), name, counters[j].Peer(nodeName(i)).Sent.Load())
					}
				}
			})
			if got := c.FromStore.Load(); got != int64(p.StoreBytes) || got == 0 {
				t.Errorf("n%d: %d bytes from the store, and it reports %d", i, got, p.StoreBytes)
			}
			if received != int64(p.PeerBytes) || sent != int64(p.SentBytes) || received == 0 {
				t.Errorf("n%d: %d bytes from and %d to peers, and it reports %d and %d", i, received, sent, p.PeerBytes, p.SentBytes)
			}
			if got, want := c.Verified.Load(), int64(b.configs[i].Layout.Count()); got != want {
				t.Errorf("n%d: %d pieces verified, want %d", i, got, want)
			}
			if e, q := c.Events.Load(), c.Queued.Load(); e != 0 || q != 0 {
				t.Errorf("n%d: %d events and %d blocks are queued by no job", i, e, q)
			}
			var spent time.Duration
			for is, s := range p.Spent {
				if d := c.Spent(account.Doing(is)); (d - time.Duration(s*float64(time.Second))).Abs() > time.Microsecond {
					t.Errorf("n%d: %v at %q, and it reports %v s", i, d, account.Doing(is).Letter(), s)
				}
				spent += c.Spent(account.Doing(is))
			}
			if d := b.took[i] - spent; d.Abs() > 2*exchange.TickEvery { // the first tick is a moment after its beginning
				t.Errorf("n%d: took %v and was at something for %v", i, b.took[i], spent)
			}
		}
	})
}

// What a node is at is one thing at a time. With a barrier it reads, waits for the others and then gets the rest; without one it reads
// and gets pieces at the same time, which is not waiting for the store.
func TestWhatNodesAreAt(t *testing.T) {
	const nodes, size, link = 4, 24 * unit.MiB, unit.Bandwidth(2 * unit.MiB)
	for _, algorithm := range []string{steal.NonSteal, steal.Stream} {
		swarmOf(t, nodes, size, algorithm, func(b *bench) {
			rates := []unit.Bandwidth{0.25, 0.25, 0.25, 0.125} // of its link; the others have read before the last
			b.onStar(all(link), all(link), func(i int) unit.Bandwidth { return rates[i] * link })
			b.run()
			b.complete(BySource, seq(nodes)...)
			for i, p := range b.results {
				took := b.took[i].Seconds()
				share := func(of ...account.Doing) float64 { return p.Spent.Sum(of...) / took }
				first, last := strings.Trim(p.Do, "-"), strings.TrimRight(p.Do, "D-")
				switch {
				case algorithm == steal.Stream && (share(account.FromBoth) < 0.5 || share(account.ForStore, account.ForBarrier) > 0.1):
					t.Errorf("stream: n%d was at %s in steps of %v s, %v", i, p.Do, p.DoStep, p.Spent)
				case algorithm == steal.NonSteal && (share(account.FromBoth) > 0.05 || share(account.FromStore) < 0.2 || share(account.FromPeers) < 0.2 || first[0] != 's' || last[len(last)-1] != 'p'):
					t.Errorf("non-steal: n%d was at %s in steps of %v s, %v", i, p.Do, p.DoStep, p.Spent)
				case algorithm == steal.NonSteal && (i < 3) != (share(account.ForBarrier) > 0.1):
					t.Errorf("non-steal: n%d waited for the others for %.2f of the time: %s", i, share(account.ForBarrier), p.Do)
				}
			}
		})
	}
}

// Who is done says once a second how much it gives those who are not, which are as fast as their links.
func TestWhoIsDoneRests(t *testing.T) {
	const nodes, size, link = 4, 24 * unit.MiB, unit.Bandwidth(8 * unit.MiB)
	swarmOf(t, nodes, size, steal.Stream, func(b *bench) {
		down := func(i int) unit.Bandwidth {
			if i == nodes-1 {
				return link / 10
			}
			return link
		}
		b.onStar(all(link), down, all(link))
		var told [nodes]int // reports that said that it was done
		for i := range b.configs {
			b.configs[i].Report = func(p Progress) {
				if p.Done {
					told[i]++
				}
			}
		}
		b.run()
		b.complete(BySource, seq(nodes)...)
		slow := float64(size) / float64(link/10)
		if d := b.took[nodes-1].Seconds(); d > 1.1*slow {
			t.Errorf("the slow node took %.1f s, its link %.1f s", d, slow)
		}
		for i := range nodes - 1 {
			rest := b.results[nodes-1].DoneAt.Sub(b.results[i].DoneAt)
			if n, most := told[i], int(rest/idleEvery)+2; n > most || 2*n < most {
				t.Errorf("n%d said %d times that it was done, in %v", i, n, rest)
			}
			if b.results[i].SentBytes == 0 {
				t.Errorf("n%d gave nothing", i)
			}
		}
	})
}

// Who idles looks once a second, and soon after something has come, however soon after the last look that was.
func TestNextLook(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		what    string
		doneFor time.Duration // 0: it is not done
		stirred bool
		want    time.Duration
	}{
		{"not done", 0, false, exchange.TickEvery},
		{"just done", idleEvery / 2, false, exchange.TickEvery},
		{"done for long", 2 * idleEvery, false, idleEvery},
		{"done for long, and something has come", 2 * idleEvery, true, exchange.TickEvery},
	} {
		n := &node{now: now, ticked: now.Add(-10 * time.Millisecond), done: c.doneFor > 0, doneAt: now.Add(-c.doneFor), stirred: c.stirred}
		if got := n.nextLook().Sub(n.ticked); got != c.want {
			t.Errorf("%s: a look %v after the last, want %v", c.what, got, c.want)
		}
	}
}

// What is thrown away is counted by why.
func TestCountersOfWrongBytes(t *testing.T) {
	swarmOf(t, 2, 8*unit.MiB, steal.Steal, func(b *bench) {
		var c Counters
		b.configs[1].Counters = &c
		bad := false
		b.disks[0].corrupt = func(off int64, p []byte) { // once, of what n0 sends
			if !bad {
				p[0] ^= 1
				bad = true
			}
		}
		b.run()
		if got := c.Spoiled.Load(); got == 0 || got%int64(b.configs[1].Layout.Piece) != 0 {
			t.Errorf("%d bytes were thrown away for their digest, want a piece or more; n1 saw %q", got, strings.TrimSpace(b.faultsOf(1)))
		}
	})
}

// Frames that break the protocol, and blocks that nobody asked for, are counted
// with all their bytes.
func TestCountersOfUselessFrames(t *testing.T) {
	for name, bad := range map[string]struct {
		kind    byte
		payload []byte
	}{
		"a message":                {kindHave, make([]byte, 3)},
		"a block without a header": {kindBlock, make([]byte, 5)},
		"a block of no piece":      {kindBlock, append(appendBlockHeader(nil, blockHeader{Piece: 1 << 20}), 1, 2, 3)},
	} {
		swarmOf(t, 3, 4*unit.MiB, steal.Steal, func(b *bench) {
			ctx, cancel := context.WithCancel(b.t.Context())
			counters := make([]Counters, 2)
			for i := range counters {
				b.configs[i].Counters = &counters[i]
			}
			_, block := blockSpan(b.configs[0].Layout, 0, 0)
			wait := b.stranger(ctx, func(c *peer.Conn) {
				c.WriteFrame(kindBlock, appendBlockHeader(nil, blockHeader{}), make([]byte, block))
				c.WriteFrame(bad.kind, bad.payload)
			}, nil)
			b.run()
			cancel()
			wait()
			b.complete(BySource, 0, 1)
			for i := range counters {
				if got, want := counters[i].Broken.Load(), int64(len(bad.payload)); got != want {
					t.Errorf("%s: n%d counts %d bytes of broken frames, want %d; it saw %q", name, i, got, want, b.faultsOf(i))
				}
				if got, want := counters[i].Unasked.Load(), int64(block); got != want {
					t.Errorf("%s: n%d counts %d bytes that it has not asked for, want %d", name, i, got, want)
				}
			}
		})
	}
}

// The gauges are what waits in all jobs of a process together.
func TestGaugesSayWhatIsQueued(t *testing.T) {
	swarmOf(t, 2, 4*unit.MiB, steal.Steal, func(b *bench) {
		var c Counters
		b.configs[0].Counters = &c
		var jobs []*node
		for _, waiting := range []int{2, 3} {
			n := newNode(b.configs[0])
			n.neighbours[1].link = &link{rank: 1, out: newOutbox(n.mostUnread())}
			n.neighbours[1].link.out.serve(exchange.Request{Hi: 10 * waiting})
			for range waiting {
				n.events <- struct{}{}
			}
			n.count()
			n.count() // what still waits is not more for it
			jobs = append(jobs, n)
		}
		for _, want := range []int64{5, 3, 0} {
			if e, q := c.Events.Load(), c.Queued.Load(); e != want || q != 10*want {
				t.Errorf("%d events and %d blocks are queued, want %d and %d", e, q, want, 10*want)
			}
			if len(jobs) > 0 {
				jobs[0].uncount()
				jobs = jobs[1:]
			}
		}
	})
}

// While the file is made durable a node waits for its disk, and for nothing else.
func TestWaitForTheDisk(t *testing.T) {
	const disk = 10 * time.Second // in simulated time
	swarmOf(t, 2, 4*unit.MiB, steal.Steal, func(b *bench) {
		counters := make([]Counters, 2)
		for i := range counters {
			b.configs[i].Counters = &counters[i]
			b.configs[i].Commit = func() error { time.Sleep(disk); return nil }
		}
		b.run()
		b.complete(BySource, 0, 1)
		for i := range counters {
			if got := counters[i].Spent(account.ForDisk); (got - disk).Abs() > 2*exchange.TickEvery {
				t.Errorf("n%d waited for its disk for %v, which took %v", i, got, disk)
			}
		}
	})
}
