// Package probe measures what a node's network carries, outside of jobs: what
// comes in from other nodes, what goes out to others, and what a store gives it.
//
//	sender ── here I am ────────▶ receiver     connections as jobs have them: authenticated, and encrypted unless both trust the network
//	       ◀── go ───────────────              when all who are to send are there
//	       ── bytes, bytes, … ──▶              for Span
//	       ◀── so many have come ─             each look
//
// Both ends reckon with what the receiver has got: what a sender has written may still lie in
// buffers. As in jobs (account.Peak) a rate is the most that went through in one second, all connections
// together. What one step of a probe moves is bounded in time and in bytes, whatever the other ends do.
//
// Who is to send to whom is not decided here. A sender that finds receivers slower than itself is
// measured as fast as these are: what is measured is carried for certain, and there may be more.
package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

const (
	// Span is for how long a step moves bytes: a second, and time to come up to speed.
	Span = 1500 * time.Millisecond
	// Within is how long a step takes at most.
	Within = meetWithin + Span + 2*time.Second

	meetWithin = 4 * time.Second       // then a step goes on with those who are there
	lookEvery  = 50 * time.Millisecond // at what has come
	most       = 32 * unit.GiB         // in one step, in each direction: more than any link of a node carries in Span
)

// Kinds of frames, on the connections of a probe alone.
const (
	kindGo   byte = 1 + iota // no payload
	kindData                 // whatever bytes
	kindGot                  // 8 bytes, big endian: how many have come over this connection
)

// Network connects nodes. *peer.Port is one.
type Network interface {
	Dial(ctx context.Context, addr, name, job string) (*peer.Conn, error)
	Offer(job string) (incoming <-chan *peer.Conn, withdraw func())
}

// Peer is another node.
type Peer struct{ Name, Addr string }

// Step is one node's part in one step of a probe.
type Step struct {
	ID   string   // of the step; connections are for it as others are for a job
	From []string // nodes that send to this one, by name; none: it gets nothing
	To   []Peer   // nodes to which it sends
}

// Result is what a node's part of a step brought.
type Result struct {
	In, Out        unit.Bandwidth // zero: not measured
	Received, Sent unit.Bytes
}

// Run carries out a step. It takes Within at most. The error says with which nodes it did not
// succeed, and why; what could be measured is measured all the same.
func Run(ctx context.Context, network Network, s Step) (r Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, Within)
	defer cancel()
	var wg sync.WaitGroup
	var in, out error
	if len(s.From) > 0 {
		wg.Go(func() { r.In, r.Received, in = receive(ctx, network, s) })
	}
	if len(s.To) > 0 {
		wg.Go(func() { r.Out, r.Sent, out = send(ctx, network, s) })
	}
	wg.Wait()
	return r, errors.Join(in, out)
}

// receive takes what others send.
func receive(ctx context.Context, network Network, s Step) (rate unit.Bandwidth, got unit.Bytes, err error) {
	ctx, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	conns, missing := meet(ctx, &wg, network, s)
	if len(conns) == 0 {
		return 0, 0, absent(missing)
	}
	m := newMeter()
	var flows sync.WaitGroup
	for _, c := range conns {
		f := &flow{conn: c}
		wg.Go(func() { <-ctx.Done(); c.Close() })
		flows.Go(func() { f.take(m, end) })
		wg.Go(func() { f.tell(ctx) })
	}
	wg.Go(func() { flows.Wait(); end() }) // nothing more comes
	rate = m.watch(ctx)
	if len(missing) > 0 {
		err = absent(missing)
	} else if rate == 0 {
		err = errors.New("what was to come in broke off before a second was over")
	}
	return rate, unit.Bytes(m.bytes.Load()), err
}

// meet waits for those who are to send.
func meet(ctx context.Context, wg *sync.WaitGroup, network Network, s Step) (conns []*peer.Conn, missing []string) {
	incoming, withdraw := network.Offer(s.ID)
	defer withdraw()
	missing = slices.Clone(s.From)
	timer := time.NewTimer(meetWithin)
	defer timer.Stop()
	for len(missing) > 0 {
		select {
		case c := <-incoming:
			if i := slices.Index(missing, c.Name()); i >= 0 {
				missing = slices.Delete(missing, i, i+1)
				conns = append(conns, c)
			} else {
				wg.Go(func() { c.CloseWithReason("not expected in this probe") })
			}
		case <-timer.C:
			return conns, missing
		case <-ctx.Done():
			return conns, missing
		}
	}
	return conns, nil
}

// absent says who did not come.
func absent(names []string) error {
	const most = 3
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("nothing came from %s within %v", text, meetWithin)
}

// flow is one connection.
type flow struct {
	conn *peer.Conn
	got  atomic.Int64 // bytes that the receiver has
}

// take counts what comes, until the connection ends or is too much.
func (f *flow) take(m *meter, tooMuch func()) {
	buf := make([]byte, 64<<10)
	for {
		kind, size, err := f.conn.ReadFrame()
		if err != nil {
			return
		}
		for left := size; left > 0; {
			n, err := f.conn.Read(buf)
			if err != nil {
				return
			}
			left -= n
			if kind == kindData {
				f.got.Add(int64(n))
				if m.add(n) > most {
					tooMuch()
					return
				}
			}
		}
	}
}

// tell says go, and then how much has come.
func (f *flow) tell(ctx context.Context) {
	if f.conn.WriteFrame(kindGo) != nil {
		return
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if f.conn.WriteFrame(kindGot, binary.BigEndian.AppendUint64(nil, uint64(f.got.Load()))) != nil {
			return
		}
	}
}

// send sends to others, to all of them at once.
func send(ctx context.Context, network Network, s Step) (rate unit.Bandwidth, sent unit.Bytes, err error) {
	ctx, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	errs := make([]error, len(s.To))
	m := newMeter()
	var flows sync.WaitGroup
	for i, to := range s.To {
		flows.Go(func() {
			c, err := dial(ctx, network, to, s.ID)
			if err != nil {
				errs[i] = err
				return
			}
			defer c.Close()
			stop := context.AfterFunc(ctx, func() { c.Close() })
			defer stop()
			f, begin := &flow{conn: c}, make(chan struct{})
			ctx, cancel := context.WithCancel(ctx)
			var pouring sync.WaitGroup
			pouring.Go(func() { f.pour(ctx, begin, m, end) })
			f.hear(m, begin)
			cancel()
			c.Close()
			pouring.Wait()
		})
	}
	wg.Go(func() { flows.Wait(); end() }) // nobody is left who would say that anything has come
	rate = m.watch(ctx)
	end()
	flows.Wait()
	if err = errors.Join(errs...); err == nil && rate == 0 {
		err = errors.New("what was to go out broke off before a second was over")
	}
	return rate, unit.Bytes(m.bytes.Load()), err
}

func dial(ctx context.Context, network Network, to Peer, id string) (*peer.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, meetWithin)
	defer cancel()
	c, err := network.Dial(ctx, to.Addr, to.Name, id)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("connect to %s at %s: no answer in time", to.Name, to.Addr)
	}
	return c, err
}

// hear counts what the receiver says that it has got, until the connection ends or something else is said.
func (f *flow) hear(m *meter, begin chan struct{}) {
	begun := false
	for {
		kind, size, err := f.conn.ReadFrame()
		if err != nil {
			return
		}
		switch {
		case kind == kindGo && size == 0 && !begun:
			begun = true
			close(begin)
		case kind == kindGot && size == 8 && begun:
			var b [8]byte
			if _, err := io.ReadFull(f.conn, b[:]); err != nil {
				return
			}
			got := min(binary.BigEndian.Uint64(b[:]), uint64(most))
			if n := int64(got) - f.got.Load(); n > 0 {
				f.got.Add(n)
				m.add(int(n))
			}
		default:
			return
		}
	}
}

// block is what is sent: nothing that anything on the way could make less of.
var block = sync.OnceValue(func() []byte {
	b := make([]byte, piece.BlockSize)
	rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return b
})

// pour sends as much as goes, from when it may begin.
func (f *flow) pour(ctx context.Context, begin <-chan struct{}, m *meter, tooMuch func()) {
	select {
	case <-begin:
	case <-ctx.Done():
		return
	}
	for ctx.Err() == nil {
		if m.bytes.Load() > int64(most) {
			tooMuch()
			return
		}
		if f.conn.WriteFrame(kindData, block()) != nil {
			return
		}
	}
}

// meter measures the rate of what several flows carry together.
type meter struct {
	bytes atomic.Int64
	begun chan struct{} // closed with the first of them
	once  sync.Once
}

func newMeter() *meter { return &meter{begun: make(chan struct{})} }

// add counts bytes that have come, and returns all so far.
func (m *meter) add(n int) unit.Bytes {
	all := m.bytes.Add(int64(n))
	m.once.Do(func() { close(m.begun) })
	return unit.Bytes(all)
}

// watch looks at what comes for Span from the first byte on, or until ctx ends, and returns the most that
// came in a second; zero if it did not come to that.
func (m *meter) watch(ctx context.Context) unit.Bandwidth {
	select {
	case <-m.begun:
	case <-ctx.Done():
		return 0
	}
	began, already := time.Now(), m.bytes.Load()
	line := account.NewLine(2)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return line.Peak().In
		}
		come, at := m.bytes.Load()-already, time.Since(began)
		line.Note(at.Seconds(), unit.Bytes(come), 0, 0)
		if at >= Span {
			return line.Peak().In
		}
	}
}
