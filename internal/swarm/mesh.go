package swarm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// neighbour is what the loop knows of another member.
//
//	waiting ──evUp──> up ──evDown──> waiting (again, for exchange.ReconnectFor)
//	   └─ deadline ─> dead <── leave, violation ── up
type neighbour struct {
	link      *link // nil unless up
	dead      bool
	deadline  time.Time     // while waiting
	lost      time.Time     // while not up: since when
	why       error         // of the last failure to connect
	done      bool          // it has the object in its place
	plain     bool          // its connection is not encrypted, or was not
	silent    bool          // it has been silent once until its connection was given up
	since     time.Time     // when it was last up
	rest      time.Duration // before it is up again: its connections end as soon as they are there
	next      *peer.Conn    // the last that has come while it rests; nil: none
	moved     time.Time     // when it last announced or was sent anything, or had read a piece again
	gained    time.Time     // when it last announced a piece or took works
	took      bool          // it has taken works since it last announced a piece
	imports   bool          // likewise, pieces to import
	overtaken bool          // we have read in its place
	unheard   bool          // while not up: others know that we have not heard it for a while
	misses    map[int]bool  // members that it does not hear, or did not for a while: it is told at once what they read
	again     map[int]bool  // those of them of which it is to be told everything again
	repeated  time.Time     // when it last was
	sent      unit.Bytes    // to it
	reread    *piece.Set    // what it says to have read again; nil: nothing
	deceivers map[int]bool  // one of these may have told it otherwise than us what it has given wrong; nil: it has given nothing wrong
	wrong     map[int]bool  // pieces that it has given wrong since, of what these have read
}

// brief notes that a connection ended as soon as it was there. One that comes and goes for ever costs each of its peers no more than one a second.
func (nb *neighbour) brief() { nb.rest = min(max(2*nb.rest, redialAfter), steady) }

// rereads notes that it has read one of so many pieces again, of which it announces nothing. It returns false if it has said so before.
func (nb *neighbour) rereads(p, pieces int) bool {
	if nb.reread == nil {
		nb.reread = piece.NewSet(pieces)
	}
	return nb.reread.Add(p)
}

// dialAll connects to all members of higher rank, partners first, one after the other, but waits for none longer than dialEvery.
func (n *node) dialAll(ctx context.Context) {
	var ranks []int
	for _, partners := range []bool{true, false} {
		for rank := n.Self + 1; rank < len(n.Members); rank++ {
			if n.ex.Partner(rank) == partners {
				ranks = append(ranks, rank)
			}
		}
	}
	n.wg.Go(func() {
		for _, rank := range ranks {
			t := time.NewTimer(dialEvery)
			select {
			case <-n.dial(ctx, rank, 0, connectFor):
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				return
			}
			t.Stop()
		}
	})
}

// dial tries to connect to a member of higher rank, after a rest, until it succeeds or the
// time is over. A refused connection may mean that the other end has not begun. What it returns is closed after the first try.
func (n *node) dial(ctx context.Context, rank int, rest, within time.Duration) (tried <-chan struct{}) {
	m := n.Members[rank]
	first := make(chan struct{})
	n.wg.Go(func() {
		once := sync.OnceFunc(func() { close(first) })
		defer once()
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		if !pause(ctx, rest) {
			return
		}
		for wait := redialAfter; ; wait = min(2*wait, steady) {
			conn, err := n.Network.Dial(ctx, m.Addr, m.Name, n.Job)
			if err == nil {
				once()
				n.meet(ctx, rank, conn)
				return
			}
			if ctx.Err() == nil {
				n.post(evUnreachable{rank, err})
			}
			if errors.Is(err, peer.ErrRemoved) {
				return
			}
			once()
			if !pause(ctx, wait) {
				return
			}
		}
	})
	return first
}

// pause waits, and returns false if ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// accept hands incoming connections to the loop.
func (n *node) accept(ctx context.Context, incoming <-chan *peer.Conn) {
	for {
		select {
		case conn, ok := <-incoming:
			if !ok {
				return
			}
			rank, member := n.rank[conn.Name()]
			if !member || rank >= n.Self {
				n.wg.Go(func() { conn.CloseWithReason("not expected to connect for job " + n.Job) })
				continue
			}
			n.wg.Go(func() { n.meet(ctx, rank, conn) })
		case <-ctx.Done():
			return
		}
	}
}

// up takes a new connection to a member into use and tells it all that we know.
func (n *node) up(ctx context.Context, ev evUp) {
	nb := &n.neighbours[ev.rank]
	if nb.dead {
		n.wg.Go(func() { ev.conn.CloseWithReason("given up for job " + n.Job) })
		return
	}
	if wait := nb.since.Add(nb.rest).Sub(n.now); wait > 0 {
		if nb.next != nil {
			old := nb.next
			n.wg.Go(func() { old.Close() })
		} else {
			n.wg.Go(func() {
				if pause(ctx, wait) {
					n.post(evRested{ev.rank})
				}
			})
		}
		nb.next = ev.conn
		return
	}
	if nb.link != nil { // the other end knows better that the old one is lost
		n.lost(ev.rank)
	}
	l := &link{rank: ev.rank, conn: ev.conn, out: newOutbox(n.mostUnread())}
	if nb.since.IsZero() { // later ones tell of nothing that moves
		nb.moved = n.now
	}
	nb.link, nb.why, nb.since, nb.unheard = l, nil, n.now, false
	clear(nb.again) // all is said now
	n.links[l] = true
	nb.plain = nb.plain || ev.conn.Plain()
	n.wg.Go(func() { l.run(ctx, n) })
	n.ex.Up(ev.rank)
	n.spread()

	n.sayRead(l, func(reader int) bool { return reader == n.Self || nb.misses[reader] })
	l.out.send(kindBitfield, appendBitfield(nil, n.ex.Have()))
	n.sayClaimed(l, func(int) bool { return true })
	if n.done {
		l.out.send(kindDone, nil)
	}
	n.sayUnheard(l)
	n.rechoke()
}

// evRested is the end of a member's rest.
type evRested struct{ rank int }

// rested takes what has come from a member while it rested.
func (n *node) rested(ctx context.Context, rank int) {
	nb := &n.neighbours[rank]
	if conn := nb.next; conn != nil {
		nb.next = nil
		n.up(ctx, evUp{rank, conn})
	}
}

// lost forgets a neighbour's connection.
func (n *node) lost(rank int) {
	nb := &n.neighbours[rank]
	l := nb.link
	nb.link, nb.lost = nil, n.now
	if n.now.Sub(nb.since) < steady {
		nb.brief()
	} else {
		nb.rest = 0
	}
	l.out.close()
	n.ex.Down(rank)
	n.works.Unanswered(rank)
	if n.imports != nil {
		n.imports.Unanswered(rank)
	}
}

// down notes the end of a link. A member may come back within exchange.ReconnectFor,
// unless it left or broke the protocol.
func (n *node) down(ctx context.Context, ev evDown) {
	n.gave(ev.link)
	delete(n.links, ev.link)
	rank := ev.link.rank
	nb := &n.neighbours[rank]
	if nb.link != ev.link {
		return
	}
	n.lost(rank)
	var refused *peer.Refused
	var broken *violation
	switch {
	case errors.As(ev.err, &broken):
		n.dead(rank, fmt.Errorf("broke the protocol: %w", broken))
	case errors.As(ev.err, &refused):
		n.dead(rank, refused)
		if refused.Code == peer.Misbehaved {
			n.accused(ctx, refused)
		}
	case errors.Is(ev.err, peer.ErrRemoved):
		n.dead(rank, peer.ErrRemoved)
	case errors.Is(ev.err, os.ErrDeadlineExceeded) && nb.silent: // each time costs those who wait for it 20 s
		n.dead(rank, ev.err)
	default:
		if ev.err == nil {
			ev.err = errors.New("closed the connection")
		}
		nb.silent = nb.silent || errors.Is(ev.err, os.ErrDeadlineExceeded)
		nb.deadline, nb.why = n.now.Add(exchange.ReconnectFor), ev.err
		if rank > n.Self {
			n.dial(ctx, rank, nb.rest, exchange.ReconnectFor)
		}
	}
}

// dead gives a member up: what it has counts no more, its works go to others,
// and what it read and we did not hear of we ask these for. why is nil if it left in order.
func (n *node) dead(rank int, why error) {
	nb := &n.neighbours[rank]
	if nb.dead {
		return
	}
	nb.dead = true
	if nb.link != nil {
		n.lost(rank)
	}
	n.ex.Gone(rank)
	n.tellClaims(n.works.Dead(rank, n.ex.Held))
	if n.mate(rank) {
		n.tellImports(n.imports.Dead(rank))
	}
	if why != nil {
		n.unheard(rank)
		n.fault(n.Members[rank].Name, why.Error())
	}
}

// missed gives up the members of which neither the control plane nor we hear
// anything, sooner than their silence alone would have us do. One that we hear has lost the
// control plane, and no more.
func (n *node) missed(names []string) {
	for _, name := range names {
		rank, member := n.rank[name]
		if !member || rank == n.Self {
			continue
		}
		if l := n.neighbours[rank].link; l == nil || l.conn.Quiet() {
			n.dead(rank, errMissed)
		}
	}
}

var errMissed = errors.New("lost: no sign of life, neither at the control plane nor here")

// errWrongBytes is why a member is expelled that has given others than the piece has. It hears so by a code of its own, and looks at its disk (accused).
var errWrongBytes = errors.New("sent wrong bytes")

// expel closes the connection to a member that does what it must not.
func (n *node) expel(rank int, why error) {
	code := peer.Other
	if errors.Is(why, errWrongBytes) {
		code = peer.Misbehaved
	}
	if l := n.neighbours[rank].link; l != nil {
		n.wg.Go(func() { l.conn.Refuse(code, why.Error()) })
	}
	n.dead(rank, why)
}

// expelHoarders gives up those that alone have what we lack and do not give it:
// then it has no holder, and is read again.
func (n *node) expelHoarders() {
	for rank := range n.neighbours {
		if p, within, hoards := n.ex.Hoards(rank, n.now); hoards {
			n.expel(rank, fmt.Errorf("has announced piece %d and has given nothing for %v", p, within.Round(time.Second)))
		}
	}
}

// readers are the living nodes that may read the store.
func (n *node) readers() []bool {
	readers := make([]bool, len(n.neighbours))
	for rank := range n.neighbours {
		readers[rank] = !n.neighbours[rank].dead && !n.Members[rank].NoAccess
	}
	return readers
}
