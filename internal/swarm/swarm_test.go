package swarm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/internal/pace"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/pki"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/mem"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// authority and credentials are made once: keys cost time.
var credentials = sync.OnceValues(func() (list []*pki.Credentials, err error) {
	ca, err := pki.NewAuthority()
	for i := 0; err == nil && i < 8; i++ {
		var c *pki.Credentials
		c, err = ca.NewCredentials(pki.Node, nodeName(i))
		list = append(list, c)
	}
	return list, err
})

func nodeName(i int) string { return fmt.Sprintf("n%d", i) }

// network connects nodes by net.Pipe, so that all runs under synctest.
type network struct {
	mu    sync.Mutex // guards the fields below
	ports map[string]*listener
	conns map[string][]net.Conn // by node: what touches it
	cut   map[string]bool
}

type listener struct {
	name   string
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *listener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: l.name, Net: "pipe"} }

func (w *network) listen(name string) *listener {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ports[name] = &listener{name: name, conns: make(chan net.Conn), closed: make(chan struct{})}
	return w.ports[name]
}

func (w *network) dialer(from string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		w.mu.Lock()
		l, gone := w.ports[addr], w.cut[from] || w.cut[addr]
		w.mu.Unlock()
		if l == nil || gone {
			return nil, errors.New("connection refused")
		}
		here, there := net.Pipe()
		select {
		case l.conns <- there:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.conns[from] = append(w.conns[from], here)
		w.conns[addr] = append(w.conns[addr], there)
		return here, nil
	}
}

// kill cuts a node off: what it has not said by now is never heard.
func (w *network) kill(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[name] = true
	for _, c := range w.conns[name] {
		c.Close()
	}
}

// disk is a file in memory.
type disk struct {
	mu      sync.Mutex // guards the fields below
	b       []byte
	corrupt func(off int64, b []byte) // changes what is read, as a lying node would
	full    int64                     // writes past this fail; zero: none
}

func (d *disk) ReadAt(p []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := copy(p, d.b[off:])
	if d.corrupt != nil {
		d.corrupt(off, p[:n])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (d *disk) WriteAt(p []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full > 0 && off+int64(len(p)) > d.full {
		return 0, errors.New("no space left on device")
	}
	return copy(d.b[off:], p), nil
}

// bench is a swarm on one simulated network, with one store.
type bench struct {
	t       *testing.T
	net     *network
	store   *mem.Store
	data    []byte
	object  objstore.Object
	disks   []*disk
	ports   []*peer.Port
	configs []Config
	results []Progress
	errs    []error
	took    []time.Duration
	record  []bytes.Buffer

	recorded []Event
	cancel   []context.CancelCauseFunc
}

const key = "model.bin"

// swarmOf runs f in a bubble with n nodes prepared for an object of size bytes.
func swarmOf(t *testing.T, n int, size unit.Bytes, a Algorithm, f func(b *bench), options ...mem.Option) {
	creds, err := credentials()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(creds[0].Expires().Add(-24 * time.Hour))) // certificates are of today
		b := &bench{t: t, net: &network{ports: map[string]*listener{}, conns: map[string][]net.Conn{}, cut: map[string]bool{}}}
		b.store = mem.New(options...)
		b.data = make([]byte, size)
		rng := rand.NewChaCha8([32]byte{1})
		rng.Read(b.data)
		b.object = b.store.Set(key, b.data)
		var members []Member
		for i := range n {
			members = append(members, Member{Name: nodeName(i), Addr: nodeName(i)})
		}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer stop()
		b.record = make([]bytes.Buffer, n)
		for i := range n {
			port, err := peer.New(b.net.listen(nodeName(i)), peer.Options{
				Credentials: creds[i], Dial: b.net.dialer(nodeName(i)), Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() { port.Run(ctx) })
			d := &disk{b: make([]byte, size)}
			b.disks, b.ports = append(b.disks, d), append(b.ports, port)
			b.configs = append(b.configs, Config{
				Job: "job", Start: time.Now(), Self: i, Members: slices.Clone(members), Algorithm: a, Object: b.object,
				Layout: piece.Layout{Size: size, Piece: piece.DefaultSize(size, b.object.Checksum.Part)},
				Store:  b.store, File: d, Commit: func() error { return nil }, Network: port,
				Receive: peer.NewPool(16), Send: peer.NewPool(16),
				Recorder: NewRecorder(&b.record[i], "job", nodeName(i), time.Now()),
			})
		}
		f(b)
	})
}

// run runs all nodes to their end.
func (b *bench) run() {
	start := time.Now()
	b.results, b.errs, b.took = make([]Progress, len(b.configs)), make([]error, len(b.configs)), make([]time.Duration, len(b.configs))
	b.cancel = make([]context.CancelCauseFunc, len(b.configs))
	ctxs := make([]context.Context, len(b.configs))
	for i := range b.configs {
		ctxs[i], b.cancel[i] = context.WithCancelCause(b.t.Context())
	}
	var wg sync.WaitGroup
	for i, c := range b.configs {
		wg.Go(func() {
			defer b.cancel[i](nil)
			b.results[i], b.errs[i] = Run(ctxs[i], c)
			b.took[i] = b.results[i].DoneAt.Sub(start)
		})
	}
	wg.Wait()
}

// after lets f happen while the swarm runs.
func (b *bench) after(d time.Duration, f func()) { time.AfterFunc(d, f) }

// complete demands that these nodes have the object, verified so.
func (b *bench) complete(verified string, nodes ...int) {
	b.t.Helper()
	for _, i := range nodes {
		switch p := b.results[i]; {
		case b.errs[i] != nil:
			b.t.Errorf("%s: %v", nodeName(i), b.errs[i])
		case !p.Done || p.Have != unit.Bytes(len(b.data)) || p.Verified != verified:
			b.t.Errorf("%s: done %v, have %v, verified %q; want all, by %q", nodeName(i), p.Done, p.Have, p.Verified, verified)
		case !bytes.Equal(b.disks[i].b, b.data):
			b.t.Errorf("%s: the file differs", nodeName(i))
		}
	}
}

func (b *bench) storeBytes() (total unit.Bytes) {
	for _, p := range b.results {
		total += p.StoreBytes
	}
	return total
}

func (b *bench) faultsOf(i int) (s string) {
	for _, f := range b.results[i].Faults {
		s += f.Node + ": " + f.Cause + "\n"
	}
	return s
}

// events are what all nodes recorded.
func (b *bench) events() (all []Event) {
	for i := range b.record {
		for d := json.NewDecoder(&b.record[i]); ; {
			var e Event
			if err := d.Decode(&e); err == io.EOF {
				break
			} else if err != nil {
				b.t.Fatal(err)
			}
			all = append(all, e)
		}
		b.record[i].Reset()
	}
	b.recorded = append(b.recorded, all...)
	return b.recorded
}

// lastFromStore and firstFromPeer are when pieces came.
func (b *bench) lastFromStore() (t float64) {
	for _, e := range b.events() {
		if e.Kind == "piece" && e.From == StoreName {
			t = max(t, e.T)
		}
	}
	return t
}

func (b *bench) firstFromPeer() float64 {
	t := math.Inf(1)
	for _, e := range b.events() {
		if e.Kind == "piece" && e.From != StoreName {
			t = min(t, e.T)
		}
	}
	return t
}

func seq(n int) (s []int) {
	for i := range n {
		s = append(s, i)
	}
	return s
}

// slow is a store whose connections deliver at a fixed rate.
type slow struct {
	objstore.Store
	rate unit.Bandwidth
}

func (s slow) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	r, err := s.Store.ReadRange(ctx, o, off, n)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{pace.Reader(ctx, r, pace.New(s.rate)), r}, nil
}

func TestAlgorithms(t *testing.T) {
	for _, a := range Algorithms {
		for _, n := range []int{1, 2, 5} {
			t.Run(fmt.Sprintf("%s/%d", a, n), func(t *testing.T) {
				swarmOf(t, n, 20*unit.MiB+12345, a, func(b *bench) {
					b.run()
					b.complete(BySource, seq(n)...)
					want := b.object.Size
					if a == Flat {
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
	for _, a := range Algorithms {
		swarmOf(t, 3, 0, a, func(b *bench) {
			b.run()
			b.complete(BySource, 0, 1, 2)
		})
	}
}

func TestNoChecksumMeansVerifiedByPeers(t *testing.T) {
	swarmOf(t, 3, 3*unit.MiB, Steal, func(b *bench) {
		b.object.Checksum = piece.Checksum{}
		for i := range b.configs {
			b.configs[i].Object = b.object
		}
		b.run()
		b.complete(ByPeers, 0, 1, 2)
	})
}

func TestCompositeChecksum(t *testing.T) {
	swarmOf(t, 3, 9*unit.MiB+1, Steal, func(b *bench) {
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
	read := map[Algorithm]time.Duration{}
	for _, a := range []Algorithm{NonSteal, Steal} {
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
	if read[NonSteal] < 4900*time.Millisecond || read[Steal] > 3*time.Second {
		t.Errorf("non-steal takes %v, steal %v; want about 5 s and 2.2 s", read[NonSteal], read[Steal])
	}
}

// The paper's barrier: no piece passes between nodes before all have been read
// (Chiba et al. 2010, section 4.1).
func TestNothingIsExchangedBeforeAllIsRead(t *testing.T) {
	for _, a := range []Algorithm{NonSteal, Steal} {
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
	swarmOf(t, 3, 20*unit.MiB+5, Steal, func(b *bench) {
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
	swarmOf(t, 2, 0, Steal, func(b *bench) {
		n := newNode(b.configs[0])
		l := &link{rank: 1, out: newOutbox()}
		n.neighbours[1].link = l
		if err := n.message(evMessage{link: l, kind: kindGiveWork}); err != nil {
			t.Fatal(err)
		}
		if m, _, _ := l.out.next(); m.kind != kindWorks || len(m.payload) != 0 {
			t.Errorf("the answer is kind %d with %d bytes, want no works", m.kind, len(m.payload))
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
	for _, a := range []Algorithm{NonSteal, Steal} {
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

func TestNodeNeverBegins(t *testing.T) {
	swarmOf(t, 3, 10*unit.MiB, Steal, func(b *bench) {
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
	swarmOf(t, 4, 20*unit.MiB, Steal, func(b *bench) {
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
	for _, a := range Algorithms {
		for _, n := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s/%d", a, n), func(t *testing.T) {
				swarmOf(t, n, 12*unit.MiB, a, func(b *bench) {
					b.configs[0].Store = &flipping{Store: b.store, times: 1, at: 100_000}
					b.run()
					b.complete(BySource, seq(n)...)
					by := "itself"
					if a != Flat && n > 1 {
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
	swarmOf(t, 3, 5*unit.MiB, Steal, func(b *bench) {
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
	swarmOf(t, 4, 20*unit.MiB, Steal, func(b *bench) {
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
	swarmOf(t, 3, 10*unit.MiB, Steal, func(b *bench) {
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
	swarmOf(t, 4, 20*unit.MiB, Steal, func(b *bench) {
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
	swarmOf(t, 3, 20*unit.MiB, Steal, func(b *bench) {
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
	swarmOf(t, 3, 20*unit.MiB, Steal, func(b *bench) {
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

func TestCancelled(t *testing.T) {
	swarmOf(t, 3, 20*unit.MiB, Steal, func(b *bench) {
		for i := range b.configs {
			b.configs[i].Store = slow{b.store, 1 << 20}
		}
		b.after(time.Second, func() {
			for i := range b.cancel {
				b.cancel[i](ErrCancelled)
			}
		})
		begin := time.Now()
		b.run()
		for i, err := range b.errs {
			if !errors.Is(err, ErrCancelled) {
				t.Errorf("%s: %v, want cancelled", nodeName(i), err)
			}
		}
		if d := time.Since(begin); d > 10*time.Second {
			t.Errorf("took %v to stop", d)
		}
	})
}

func TestBrokenConnectionComesBack(t *testing.T) {
	swarmOf(t, 3, 20*unit.MiB, Steal, func(b *bench) {
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
