package swarm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// dial tries to connect to a member of higher rank until it succeeds or the
// time is over. A refused connection may mean that the other end has not begun.
func (n *node) dial(ctx context.Context, rank int, within time.Duration) {
	m := n.Members[rank]
	n.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
			conn, err := n.Network.Dial(ctx, m.Addr, m.Name, n.Job)
			if err == nil {
				n.meet(ctx, rank, conn)
				return
			}
			if ctx.Err() == nil {
				n.post(evUnreachable{rank, err})
			}
			if errors.Is(err, peer.ErrRemoved) {
				return
			}
			t := time.NewTimer(wait)
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				return
			}
		}
	})
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
	if nb.link != nil { // the other end knows better that the old one is lost
		n.lost(ev.rank)
	}
	l := &link{rank: ev.rank, conn: ev.conn, out: newOutbox(n.unread())}
	nb.link, nb.why, nb.moved, nb.unheard = l, nil, n.now, false
	n.links[l] = true
	nb.plain = nb.plain || ev.conn.Plain()
	n.wg.Go(func() { l.run(ctx, n) })
	n.ex.Up(ev.rank)
	n.spread()

	var known []digest
	for p := range n.Layout.Count() {
		if e, ok := n.man.Entry(p); ok && (e.Reader == n.Self || nb.misses[e.Reader]) {
			known = append(known, digest{p, e})
		}
	}
	n.sendDigests(known, l)
	l.out.send(kindBitfield, appendBitfield(nil, n.ex.Have()))
	for _, c := range n.works.Claims() {
		n.sendClaim(l, kindTook, c)
	}
	if n.mate(ev.rank) {
		for _, c := range n.imports.Claims() {
			n.sendClaim(l, kindTookImports, c)
		}
	}
	if n.done {
		l.out.send(kindDone, nil)
	}
	n.sayUnheard(l)
	n.rechoke()
}

// lost forgets a neighbour's connection.
func (n *node) lost(rank int) {
	nb := &n.neighbours[rank]
	l := nb.link
	nb.link, nb.lost = nil, n.now
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
		n.accused(ctx, refused)
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
			n.dial(ctx, rank, exchange.ReconnectFor)
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

// expel closes the connection to a member that does what it must not.
func (n *node) expel(rank int, why error) {
	if l := n.neighbours[rank].link; l != nil {
		n.wg.Go(func() { l.conn.CloseWithReason(why.Error()) })
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

// sendDigests sends lines of the manifest in frames of legal length.
func (n *node) sendDigests(ds []digest, l *link) {
	const most = peer.MaxFrame / digestBytes
	for chunk := range slices.Chunk(ds, most) {
		n.sendOn(l, kindDigests, appendDigests(nil, chunk))
	}
}

// spread adds what we got since the last time to what all peers are to be told.
func (n *node) spread() {
	if len(n.news) == 0 && len(n.digests) == 0 {
		return
	}
	for rank := range n.neighbours {
		nb := &n.neighbours[rank]
		if nb.link == nil {
			continue
		}
		digests := n.digests
		if more := nb.lacks(n.hearsay); len(more) > 0 {
			digests = append(more, digests...)
		}
		if !nb.link.out.tell(n.news, digests, len(n.digests) > 0) {
			n.deafen(nb.link)
		}
	}
	n.news, n.digests, n.hearsay = n.news[:0], n.digests[:0], n.hearsay[:0]
	n.remind()
}

// remind has news go that nothing has taken along for long enough. What nobody else has does not wait: a digest
// has to come from who has read the piece.
func (n *node) remind() {
	for rank := range n.neighbours {
		l := n.neighbours[rank].link
		if l == nil {
			continue
		}
		patience, urgently := gatherApart, exchange.TickEvery
		switch {
		case n.ex.Have().Full():
			patience = exchange.TickEvery
		case n.ex.Fed(rank) || n.mate(rank):
			patience = gatherFor
		case n.foreign(rank):
			urgently = gatherAbroad
		}
		l.out.remind(n.now, patience, urgently)
	}
}

// message acts on a peer's message. An error means that the peer broke the protocol.
func (n *node) message(ev evMessage) error {
	rank, b := ev.link.rank, ev.payload
	nb := &n.neighbours[rank]
	switch ev.kind {
	case kindChoke, kindUnchoke, kindDone, kindGiveImports:
		if len(b) > 0 {
			return fmt.Errorf("message of kind %d with %d bytes, want none", ev.kind, len(b))
		}
	}
	switch ev.kind {
	case kindBitfield:
		set, err := parseBitfield(b, n.Layout.Count())
		if err != nil {
			return err
		}
		for r := range set.Ranges() {
			n.announced(rank, r)
		}
	case kindHave:
		rs, err := parseHave(b, n.Layout.Count())
		if err != nil {
			return err
		}
		for _, r := range rs {
			n.announced(rank, r)
		}
	case kindDigests:
		ds, err := parseDigests(b, n.Layout.Count(), len(n.Members))
		if err != nil {
			return err
		}
		for _, d := range ds {
			if err := n.learn(rank, d); err != nil {
				return err
			}
		}
	case kindRequest, kindCancel:
		r, err := parseRequest(b, n.Layout)
		if err != nil {
			return err
		}
		if ev.kind == kindCancel {
			ev.link.out.cancel(r)
		} else if n.ex.Serves(rank, r) && !ev.link.out.serve(r) {
			return fmt.Errorf("asks for more than %d blocks at once", maxQueued)
		}
	case kindChoke, kindUnchoke:
		n.ex.Choked(rank, ev.kind == kindChoke)
	case kindGiveWork:
		most, pace, err := parseGiveWork(b)
		if err != nil {
			return err
		}
		for hs := range inFrames(n.works.Give(rank, steal.Loot(n.works.Left(), most, n.pace(), pace))) {
			n.send(rank, kindWorks, appendWorks(nil, hs))
		}
	case kindWorks:
		hands, err := parseWorks(b)
		if err != nil {
			return err
		}
		tell, err := n.works.Receive(rank, hands)
		if err != nil {
			return err
		}
		if len(tell) == 0 { // nothing, or nothing new
			return nil
		}
		for _, h := range hands {
			n.Recorder.Record(n.now, Event{
				Kind: "work", From: n.Members[rank].Name,
				Lo: n.works.Work(h.Lo).Lo, Hi: n.works.Work(h.Hi - 1).Hi,
			})
		}
		n.tellClaims(tell)
	case kindTook:
		c, err := parseTook(b)
		if err != nil {
			return err
		}
		if n.hears(c.Node, rank) {
			return nil
		}
		tell, err := n.works.Took(c)
		if err != nil {
			return err
		}
		if by := &n.neighbours[c.Node]; c.Node == rank && !by.took { // once for each time that it announces something; what others say is no sign of it
			by.took, by.gained = true, n.now
		}
		n.tellClaims(tell)
	case kindGiveImports, kindImports, kindTookImports:
		return n.importMessage(ev)
	case kindBusy:
		pause, err := parseBusy(b)
		if err != nil {
			return err
		}
		n.busy(pause)
	case kindUnheard:
		ranks, err := parseUnheard(b, len(n.Members))
		if err != nil {
			return err
		}
		n.repeat(ev.link, ranks)
	case kindDone:
		nb.done = true
	case kindLeave:
		if len(b) > maxLeave {
			return fmt.Errorf("leaves with %d bytes of reasons, at most %d are read", len(b), maxLeave)
		}
		if nb.done {
			n.dead(rank, nil)
		} else {
			n.dead(rank, fmt.Errorf("left the job: %s", peer.Printable(string(b), maxLeave)))
		}
	default:
		return fmt.Errorf("message of unknown kind %d", ev.kind)
	}
	return nil
}

// announced notes that a peer has pieces.
func (n *node) announced(rank int, r piece.Range) {
	if n.ex.Announced(rank, r) { // who only repeats itself makes no progress
		nb := &n.neighbours[rank]
		nb.moved, nb.gained, n.moved = n.now, n.now, n.now
		nb.took, nb.imports, n.rescuing = false, false, false
	}
}

// learn enters a line of a peer's into the manifest. What a member has read it
// says itself; others are believed only of members that we do not hear. If they say that one of these has read what we have
// heard of its reader otherwise, we look ourselves, if we may: nobody is blamed, and loses what he has, on the word of a third.
// When our file has been proved nothing that is said changes it any more.
func (n *node) learn(from int, d digest) error {
	if d.Term > exchange.MaxTerm {
		return fmt.Errorf("piece %d was never audited %d times", d.Piece, d.Term)
	}
	if from != d.Reader && (d.Reader == n.Self || n.neighbours[d.Reader].link != nil) || n.commits || n.done {
		return nil
	}
	if e, _ := n.man.Entry(d.Piece); from != d.Reader && d.Term > e.Term && d.Sum != e.Sum && n.man.Firsthand(d.Piece) && !n.Members[n.Self].NoAccess {
		n.man.Audit(piece.Range{Lo: d.Piece, Hi: d.Piece + 1})
		return nil
	}
	n.enter(from, d)
	return nil
}

// enter enters a line into the manifest and does what follows from it.
func (n *node) enter(from int, d digest) {
	switch n.man.Add(from, d.Piece, d.Entry) {
	case exchange.News:
		n.ex.Known(d.Piece)
		if n.kept(d.Piece) && from != n.Self { // another has read it, from the store or from its file; ours is there, too
			n.got(d.Piece, d.Sum, n.Members[n.Self].Name)
		}
	case exchange.Replaced:
		for rank := range n.neighbours {
			if rank != d.Reader {
				n.ex.Withdrawn(rank, d.Piece)
			}
		}
		n.replaced(d.Piece)
	case exchange.Corrected:
		n.replaced(d.Piece)
	}
}

// replaced notes that the manifest has another digest for a piece than it had.
// Our copy counts only if it has that digest; what is under way may be of the old one.
func (n *node) replaced(p int) {
	e, _ := n.man.Entry(p)
	if n.asm.under(p) {
		n.shaken[p] = true
	}
	switch {
	case !n.ex.Have().Has(p):
	case n.sums[p] == e.Sum:
		n.news = append(n.news, p) // others do not reckon with ours any more
	case n.Members[n.Self].Held:
		n.doubts = append(n.doubts, p)
	default:
		n.lose(p)
	}
	for _, b := range n.man.Blamed()[n.blamed:] {
		by := n.Members[e.Reader].Name
		if e.Reader == b.Reader { // alone, as every node is with flat
			by = "itself"
		}
		n.fault(n.Members[b.Reader].Name, fmt.Sprintf("had piece %d wrong when it read it from the store; it was read again by %s", b.Piece, by))
	}
	n.blamed = len(n.man.Blamed())
}

// ErrHeldWrong says that the file which this node has in its place is not the object.
var ErrHeldWrong = errors.New("the file on this node is not what the store has")

func heldWrong(p int) error {
	return fmt.Errorf("piece %d: %w: remove the file and broadcast again", p, ErrHeldWrong)
}

// block notes the arrival of a block, and of its piece with the last one.
func (n *node) block(ev evBlock) {
	rank := ev.link.rank
	n.fromPeers += unit.Bytes(ev.n)
	if n.foreign(rank) {
		n.crossed += unit.Bytes(ev.n)
	}
	n.Counters.Peer(n.Members[rank].Name).Received.Add(int64(ev.n))
	if !ev.wanted {
		n.Counters.Unasked.Add(int64(ev.n))
		n.ex.Discarded(rank, ev.piece, ev.block, n.now)
		return
	}
	n.moved, n.neighbours[rank].moved, n.rescuing = n.now, n.now, false
	n.sendCancels(n.ex.Block(rank, ev.piece, ev.block, n.now))
	if !ev.outcome.whole {
		return
	}
	n.asm.drop(ev.piece)
	givers := slices.Compact(slices.Sorted(slices.Values(ev.outcome.from)))
	e, _ := n.man.Entry(ev.piece)
	shaken := n.shaken[ev.piece]
	delete(n.shaken, ev.piece)
	if ev.outcome.sum != e.Sum {
		n.Counters.Spoiled.Add(int64(n.pieceSize(ev.piece)))
	}
	switch {
	case ev.outcome.sum == e.Sum:
		n.got(ev.piece, ev.outcome.sum, n.Members[most(ev.outcome.from)].Name)
	case shaken: // of an old digest: no one's fault
		n.sendCancels(n.ex.Spoiled(ev.piece))
	case len(givers) == 1 && n.man.Sure(ev.piece):
		n.sendCancels(n.ex.Spoiled(ev.piece))
		n.expel(givers[0], fmt.Errorf("sent wrong bytes for piece %d", ev.piece))
	case len(givers) == 1 && !n.Members[n.Self].NoAccess: // it lies, or who said that this is the digest: the store knows
		n.suspect(ev.piece, suspect{givers[0], ev.outcome.sum})
	default: // nobody knows who of several: next time it comes from one
		n.sendCancels(n.ex.Spoiled(ev.piece))
		n.fault(n.nameAll(givers), fmt.Sprintf("one of them sent wrong bytes for piece %d", ev.piece))
	}
}

// suspect is who has sent a piece that does not have the digest that it should, and which one it has.
type suspect struct {
	rank int
	sum  uint64
}

// suspect takes a piece out of the exchange, and has it read from the store.
func (n *node) suspect(p int, s suspect) {
	n.sendCancels(n.ex.Abandon(p))
	if n.ex.Reserve(p) { // else it is being read
		n.wrong, n.suspects[p] = append(n.wrong, p), s
	}
}

// judge expels who has sent other bytes of a piece than we have read now. If they are the same it was the digest that was wrong.
func (n *node) judge(p int, sum uint64) {
	s, ok := n.suspects[p]
	delete(n.suspects, p)
	if ok && s.sum != sum {
		n.expel(s.rank, fmt.Errorf("sent wrong bytes for piece %d", p))
	}
}

// most is the rank that gave most of the blocks of a piece: a recording names one giver a piece.
func most(from []int) (rank int) {
	count := map[int]int{}
	for _, r := range from {
		if count[r]++; count[r] > count[rank] {
			rank = r
		}
	}
	return rank
}

func (n *node) nameAll(ranks []int) string {
	var names []string
	for _, r := range ranks {
		names = append(names, n.Members[r].Name)
	}
	return strings.Join(names, ", ")
}

// got notes that a piece is on our disk, and that its digest, sum, is the
// manifest's. It is announced to all, and with that digest to those who do not hear the reader.
func (n *node) got(p int, sum uint64, from string) {
	size := n.pieceSize(p)
	n.have += size
	n.countObjects(p, -1)
	n.Counters.Verified.Add(1)
	n.sums[p] = sum
	n.sendCancels(n.ex.Got(p))
	n.news = append(n.news, p)
	if e, _ := n.man.Entry(p); e.Reader != n.Self {
		n.hearsay = append(n.hearsay, digest{p, e})
	}
	n.Recorder.Record(n.now, Event{Kind: "piece", Piece: &p, Bytes: int64(size), From: from})
}

// lose notes that our copy of a piece does not count any more.
func (n *node) lose(p int) {
	if n.ex.Have().Has(p) {
		n.have -= n.pieceSize(p)
		n.countObjects(p, 1)
		n.ex.Lost(p)
		n.news = slices.DeleteFunc(n.news, func(q int) bool { return q == p })
		for rank := range n.neighbours {
			if l := n.neighbours[rank].link; l != nil {
				l.out.forget(p)
			}
		}
	}
}
