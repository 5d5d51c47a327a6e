package swarm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

const (
	gatherFor    = 200 * time.Millisecond // news goes alone after as long to those whom we serve; of what nobody else has after exchange.TickEvery
	gatherApart  = time.Second            // to others, who could not ask us for it
	gatherAbroad = 500 * time.Millisecond // to such ones in other sites, also of what nobody else has: there a piece takes longer to come
	reportEvery  = 250 * time.Millisecond // progress
	idleEvery    = time.Second            // who is done reports, and looks at its deadlines unless it is spoken to: each time wakes a processor thrice
	connectFor   = 15 * time.Second       // a member that cannot be reached at the start is dead
	redialAfter  = 50 * time.Millisecond  // a member that could not be reached is tried again; after twice as long each time, until it is steady
	steady       = time.Second            // which is how long a connection lasts that is none of those which end as soon as they are there
	dialEvery    = 5 * time.Millisecond   // handshakes take the processor: who makes all of them at once reads nothing meanwhile
	stallAfter   = 30 * time.Second       // nothing came from anywhere: read what is missing ourselves
	rescueAfter  = time.Second            // nothing came since, or only what others read so: read on
	leaveAfter   = 2 * time.Minute        // we are done, and peers that are not make no progress; or we may not read the store, and nothing comes
	auditAfter   = 15 * time.Second       // nothing came, or all is here, and pieces are in doubt that others should read again
)

// node is the state of one node's part. Only its loop touches it, but for what stands before now, which never changes or takes care of itself, and what is atomic.
type node struct {
	Config
	policy  steal.Policy // the algorithm's, as far as what there is to read from allows
	sources []int        // who reads from the store at first, or from what it has held, in order
	keeps   *piece.Set   // pieces that were in their place here before; nil: none
	asm     *assembly
	stored  syscall.RawConn // the file, if it can go to a socket without us; nil: it cannot
	events  chan any
	ended   chan struct{} // closed when the loop takes no more events
	wg      sync.WaitGroup

	now        time.Time
	ticked     time.Time // when the loop last looked at slots and deadlines
	stirred    bool      // something has come since
	ex         *exchange.State
	works      *steal.Node
	imports    *steal.Imports // of our site; nil: all are of one, or we are of none
	man        *exchange.Manifest
	neighbours []neighbour    // by rank; our own place is unused
	links      map[*link]bool // that have not told us of their end
	rank       map[string]int

	sums     []uint64        // by piece: the digest of our copy, if we have it
	missing  []int           // by object: how many of its pieces are
	whole    int             // objects of which none is
	shaken   map[int]bool    // pieces whose digest changed while they were put together
	suspects map[int]suspect // by piece that is being read again for that
	mixed    map[int]medley  // by piece: what came of it when it last came wrong
	looks    map[int]bool    // pieces that we read again ourselves, whoever else should: somebody says what nobody else does
	words    map[int][]word  // by piece: what members have said of it besides what counts
	alike    map[int][]int   // by piece that several have read: who has said the same
	weighed  bool            // whose word counts, since anything was last said
	weighs   time.Time       // before it that is not looked at again
	unproved bool            // NoAccess: what is here does not make what the store says, and nothing has been said since that could mend that
	inquired time.Time       // when we last asked a member what others have read, for that; zero: never
	asks     int             // the rank of that member
	proved   map[int]bool    // by object: whether its digests, which have not changed since, make what the store says of it
	asked    time.Time       // when giveWork was last sent
	deaf     []int           // peers that leave too much unread
	fetches  []*fetch
	appetite *steal.Appetite
	turns    *steal.Turns
	waits    bool          // there is something to read, and it is not our turn
	began    time.Time     // when the number of orders that are being carried out last changed
	read     time.Duration // before that
	twice    *steal.Twice
	broken   int        // how many connections to the store were broken off since one last delivered
	quiet    time.Time  // before it the store is not asked: it has asked for that, us or another node
	quietAll time.Time  // before it some other node may still not ask it
	heeds    time.Time  // from then on another node can keep us from it again
	idle     time.Time  // when there was last anything to read, or an answer to wait for
	wrong    []int      // pieces to be read again and replaced: ours that an audit found wrong, and what came otherwise than its digest
	stranded []int      // pieces of ours to read whose last holder died while it was sending them
	rotten   *piece.Set // of keeps: pieces that the store has otherwise
	believed *piece.Set // of keeps: pieces whose digests others have said, not our file
	doubts   []int      // pieces of a file from before the job, to be read from there and compared with their digests

	news    []int    // pieces got since outboxes were last told
	digests []digest // of what we have read ourselves since then
	hearsay []digest // of what others have read, and we have got

	claims, importClaims []steal.Claim // of the dead, to be passed on

	phase    int
	moved    time.Time // when anything last came from anywhere
	full     time.Time // when all was first here, and its digests known; zero: it has not been
	rescuing bool      // nothing has come from peers since we began to read what they should have, or only what they have read so
	resigned bool      // we have waited long enough for others to read again what is in doubt
	verified string
	commits  bool  // being committed
	placed   bool  // Commit has put the file in its place; its worker says so, and the loop looks when there are no workers left
	accuser  error // who refuses us and why, until our file has been read back
	rereads  bool  // it is being read back after it was put in place
	done     bool
	doneAt   time.Time

	have, fromPeers, sent unit.Bytes
	fromStore             atomic.Int64 // bytes read; the fetcher counts
	arrived               atomic.Int64 // bytes of blocks from peers so far, of those that have not come whole yet, too; the links count
	seenStore             int64        // fromStore when we last looked
	came                  time.Time    // when we last saw that it had grown
	faults                []Fault
	blamed                int
	reported              time.Time
	crossed               unit.Bytes // of fromPeers, from nodes that are not of our site, if we are of one
	sampled               sample
	diary                 *account.Diary
	noted                 noted
	fatal                 error
}

// What workers tell the loop, besides what links do.
type (
	evUp struct {
		rank int
		conn *peer.Conn
	}
	evUnreachable struct {
		rank int
		err  error
	}
	evUnproved struct { // and its connection is closed
		rank int
		err  error
	}
	evCommitted struct{ err error }
	evReadBack  struct{ err error } // of the file in its place
	evBroken    struct{ err error } // our own disk
)

func newNode(c Config) *node {
	now := time.Now()
	if c.Counters == nil {
		c.Counters = &Counters{}
	}
	if len(c.Objects) == 0 {
		c.Objects = []objstore.Object{c.Object}
	}
	n := &node{
		Config: c,
		events: make(chan any, 64), ended: make(chan struct{}),
		now: now, ticked: now, moved: now, idle: now, twice: steal.NewTwice(c.Object.Size, len(c.Members), c.SourceCopies), man: exchange.NewManifest(c.Layout),
		neighbours: make([]neighbour, len(c.Members)), links: map[*link]bool{}, rank: map[string]int{}, sums: make([]uint64, c.Layout.Count()), believed: piece.NewSet(c.Layout.Count()), rotten: piece.NewSet(c.Layout.Count()), shaken: map[int]bool{}, suspects: map[int]suspect{}, looks: map[int]bool{}, words: map[int][]word{}, alike: map[int][]int{}, proved: map[int]bool{},
		diary: account.NewDiary(account.Steps(len(c.Members)), now.Sub(c.Start).Seconds()),
	}
	n.policy, n.sources = c.policy()
	for i := range c.Objects {
		if n.missing = append(n.missing, c.Layout.Pieces(i).Len()); n.missing[i] == 0 {
			n.whole++
		}
	}
	if f, ok := c.File.(syscall.Conn); ok {
		n.stored, _ = f.SyscallConn() // without it blocks go through a buffer
	}
	n.asm = newAssembly(c.Layout, n.algorithm)
	n.keeps = keeps(c)
	sites, names := numberSites(c.Members)
	mates := mates(sites, c.Self)
	atOnce, few := steal.AtOnce(len(mates), len(names), c.Layout.Count())
	n.ex = exchange.New(exchange.Config{
		Self: c.Self, Nodes: len(c.Members), Layout: c.Layout, Barrier: n.policy.Barrier,
		Rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), Sites: sites, AtOnce: atOnce, Few: few,
	})
	if mates != nil {
		n.imports = steal.NewImports(c.Self, len(c.Members), mates, c.Layout.Count())
		n.ex.Importing(n.imports.Mine())
	}
	n.appetite = steal.NewAppetite(unit.Bytes(n.policy.PerWork) * c.Layout.Piece)
	d := steal.Divide(c.Layout.Count(), n.sources, n.policy.PerWork)
	n.works, n.turns = steal.NewNode(c.Self, len(c.Members), d, n.policy.Steals), n.newTurns(d)
	dialed := now.Add(time.Duration(len(c.Members)) * dialEvery) // by then all have dialed whom they are to
	for rank, m := range c.Members {
		if m.blind() {
			n.works.Excuse(rank)
		}
		n.rank[m.Name] = rank
		n.neighbours[rank] = neighbour{deadline: dialed.Add(connectFor), lost: dialed, moved: now, gained: now}
	}
	return n
}

// post hands an event to the loop. It returns false once the loop has ended.
func (n *node) post(ev any) bool {
	select {
	case n.events <- ev:
		return true
	case <-n.ended:
		return false
	}
}

// run is the loop and the life of all its workers.
func (n *node) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		n.wg.Wait()
		for l := range n.links { // what went last
			n.gave(l)
		}
		for rank := range n.neighbours {
			if conn := n.neighbours[rank].next; conn != nil {
				conn.Close()
			}
		}
		for len(n.events) > 0 { // connections that came too late
			if up, ok := (<-n.events).(evUp); ok {
				up.conn.Close()
			}
		}
		if n.placed && !n.done { // it was under way when we were told to end
			n.now = time.Now()
			n.committed(nil)
			err = n.fatal
		}
	}()
	defer cancel()
	defer close(n.ended)
	defer n.uncount()

	if len(n.Members) > 1 {
		incoming, withdraw := n.Network.Offer(n.Job)
		defer withdraw()
		n.wg.Go(func() { n.accept(ctx, incoming) })
		n.dialAll(ctx)
	}
	at := n.nextLook()
	look := time.NewTimer(time.Until(at))
	defer look.Stop()
	for {
		n.step(ctx)
		if next := n.nextLook(); !next.Equal(at) {
			at = next
			look.Reset(time.Until(at))
		}
		if n.fatal != nil {
			why := n.fatal
			n.abandon()
			if errors.Is(why, context.Canceled) && ctx.Err() != nil { // what was stopped failed before we saw the stop
				why = context.Cause(ctx)
			}
			n.leave(why.Error())
			n.drain(lingerFor)
			return n.fatal
		}
		if n.finished() {
			n.leave("")
			n.drain(farewellFor)
			return nil
		}
		select {
		case ev := <-n.events:
			n.now = time.Now()
			n.handle(ctx, ev)
			for k := len(n.events); k > 0; k-- { // what has come meanwhile asks the rules no more than once
				n.handle(ctx, <-n.events)
			}
			n.stirred = true
			if n.idles() && !n.now.Before(n.nextLook()) {
				n.tick(ctx)
			}
		case n.now = <-look.C:
			n.tick(ctx)
		case names := <-n.Lost:
			n.now = time.Now()
			n.missed(names)
		case <-ctx.Done():
			n.abandon()
			n.leave(context.Cause(ctx).Error())
			n.drain(lingerFor)
			return ctx.Err()
		}
	}
}

// abandon has no worker wait for what is not wanted any more.
func (n *node) abandon() {
	if n.Abandon != nil {
		n.Abandon()
	}
}

// idles says whether there is nothing left to do for us but to serve others, which may take long yet; all that we had to tell has gone.
func (n *node) idles() bool { return n.done && n.now.Sub(n.doneAt) > idleEvery }

// nextLook is when the loop looks at slots and deadlines again: every exchange.TickEvery, but who idles and has heard nothing since it last did need not.
func (n *node) nextLook() time.Time {
	if n.idles() && !n.stirred {
		return n.ticked.Add(idleEvery)
	}
	return n.ticked.Add(exchange.TickEvery)
}

// leave tells everybody that we go, and why if it is not that all is done.
func (n *node) leave(why string) {
	n.spread()
	for rank := range n.neighbours {
		if l := n.neighbours[rank].link; l != nil {
			l.out.send(kindLeave, []byte(peer.Printable(why, maxLeave)))
			l.out.close()
		}
	}
}

// farewellFor is how long a node that is done waits for others to hear so: all are there, but a link may be full of blocks that were on their
// way, and who does not hear it finds a connection that broke, and says so.
const farewellFor = 15 * time.Second

// drain waits, for at most so long, for what was said last to be sent.
func (n *node) drain(most time.Duration) {
	t := time.NewTimer(most)
	defer t.Stop()
	for {
		open := false
		for rank := range n.neighbours {
			open = open || n.neighbours[rank].link != nil
		}
		if !open {
			return
		}
		select {
		case ev := <-n.events:
			switch ev := ev.(type) {
			case evDown:
				if n.neighbours[ev.link.rank].link == ev.link {
					n.neighbours[ev.link.rank].link = nil
				}
			case evUp: // too late
				ev.conn.Close()
			}
		case <-t.C:
			return
		}
	}
}

// finished says whether we are done and nobody needs us any more.
func (n *node) finished() bool {
	if !n.done || n.rereads {
		return false
	}
	for rank := range n.neighbours {
		if nb := &n.neighbours[rank]; rank != n.Self && !nb.dead && !nb.done && !n.sated(rank) {
			return false
		}
	}
	return true
}

// sated says whether a neighbour has had all for so long that it needs nobody: what it still does, such as to make very many files durable, it does by
// itself. One that only says that it has all keeps us for no longer.
func (n *node) sated(rank int) bool {
	nb := &n.neighbours[rank]
	return nb.link != nil && n.ex.Full(rank) && n.now.Sub(nb.moved) > leaveAfter
}

// stuck says whether we are done, and for so long nothing has moved at any neighbour that is not. While something does, what stands still elsewhere
// may wait for that: for a piece that a mate imports.
func (n *node) stuck(within time.Duration) bool {
	for rank := range n.neighbours {
		if nb := &n.neighbours[rank]; rank != n.Self && !nb.dead && !nb.done && n.now.Sub(nb.moved) <= within {
			return false
		}
	}
	return n.done
}

func (n *node) handle(ctx context.Context, ev any) {
	switch ev := ev.(type) {
	case evUp:
		n.up(ctx, ev)
	case evRested:
		n.rested(ctx, ev.rank)
	case evUnproved:
		n.dead(ev.rank, ev.err)
	case evUnmet:
		n.unmet(ctx, ev)
	case evUnreachable:
		n.neighbours[ev.rank].why = ev.err
		if errors.As(ev.err, new(*peer.VersionError)) || errors.Is(ev.err, peer.ErrRemoved) { // waiting does not mend that
			n.dead(ev.rank, ev.err)
		}
	case evDown:
		n.down(ctx, ev)
	case evMessage:
		if n.current(ev.link) {
			if err := n.message(ev); err != nil {
				n.Counters.Broken.Add(int64(len(ev.payload)))
				n.expel(ev.link.rank, err)
			}
		}
	case evBlock:
		n.block(ev)
	case evSent:
		n.gave(ev.link)
		n.tire(ev.link.rank)
	case evFetched:
		n.fetched(ev)
	case evFetchEnd:
		n.fetchEnd(ev)
	case evCommitted:
		n.committed(ev.err)
		if n.accuser != nil && n.done { // meanwhile
			n.accused(ctx, n.accuser)
		}
	case evReadBack:
		n.rereads = false
		n.fail(ev.err)
		if n.accuser != nil { // once more
			n.accused(ctx, n.accuser)
		}
	case evBroken:
		n.fail(ev.err)
	}
}

// gave counts what a link has sent since it was last looked at.
func (n *node) gave(l *link) {
	sent := unit.Bytes(l.sent.Load()) - l.counted
	if sent == 0 {
		return
	}
	l.counted += sent
	n.sent += sent
	nb := &n.neighbours[l.rank]
	nb.sent += sent
	nb.moved = n.now
	n.Counters.Peer(n.Members[l.rank].Name).Sent.Add(int64(sent))
}

// tire closes with a peer that was sent far more than it can
// need: twice the object, if all of it was read once more. Of a small one some blocks may be asked for more often.
func (n *node) tire(rank int) {
	const times = 4
	nb := &n.neighbours[rank]
	if nb.sent > times*max(n.Layout.Size, unit.MiB) && nb.link != nil {
		n.expel(rank, fmt.Errorf("was sent the object %d times over and asks for more", times))
	}
}

func (n *node) current(l *link) bool { return n.neighbours[l.rank].link == l }

// fail ends our part. The first cause stands.
func (n *node) fail(err error) {
	if n.fatal == nil && err != nil {
		n.fatal = err
	}
}

// step does whatever the rules ask for after an event.
func (n *node) step(ctx context.Context) {
	phase := 1
	if n.ex.Open() && n.Algorithm != steal.Flat {
		phase = 2
	}
	if phase != n.phase {
		n.phase = phase
		n.Recorder.Record(n.now, Event{Kind: "phase", Phase: phase})
	}
	n.weigh()
	n.fetch(ctx)
	var ask, cancel []exchange.Ask
	if !n.Members[n.Self].Held && !n.commits && !n.done { // who needs nothing
		ask, cancel = n.ex.Asks(n.now)
	}
	n.sendCancels(cancel)
	for _, a := range ask {
		n.asm.expect(a.Peer, a.Piece)
		n.send(a.Peer, kindRequest, appendRequest(nil, a.Request))
	}
	n.complete(ctx)
	n.spread()
}

// tick looks at slots and deadlines.
func (n *node) tick(ctx context.Context) {
	n.ticked, n.stirred = n.now, false
	n.remind()
	n.yield()
	n.count()
	n.rechoke()
	if n.now.Sub(n.asked) > steal.AnswerWithin {
		n.works.GiveUp()
	}
	n.spareProved()
	n.relieved()
	n.overtake()
	n.stealImports()
	for len(n.deaf) > 0 { // what is told of those may be too much for others
		deaf := n.deaf
		n.deaf = nil
		for _, rank := range deaf {
			n.expel(rank, fmt.Errorf("does not read what it is told (%d messages)", maxMessages))
		}
	}
	within := max(leaveAfter, forsakenFor*n.ex.ImportTook())
	stuck := n.stuck(within)
	var silent []int
	for rank := range n.neighbours {
		nb := &n.neighbours[rank]
		if nb.link != nil {
			n.gave(nb.link)
			n.tire(rank)
		}
		if rank != n.Self && nb.link == nil && !nb.unheard && n.now.Sub(nb.lost) > unheardAfter {
			silent = append(silent, rank)
		}
		switch {
		case rank == n.Self || nb.dead:
		case nb.link == nil && n.now.After(nb.deadline):
			n.dead(rank, n.unreachable(rank))
		case stuck && !nb.done && nb.link != nil && !n.sated(rank):
			n.expel(rank, fmt.Errorf("has made no progress for %v", within.Round(time.Second)))
		}
	}
	n.unheard(silent...)
	n.repeatAgain()
	n.inquire()
	n.passOn()
	fromStore := unit.Bytes(n.fromStore.Load())
	n.turns.Note(fromStore, n.atStore() > 0 && !n.now.Before(n.quiet), n.ex.Had(), n.now)
	n.takeTurns()
	n.appetite.Read(fromStore, n.atStore(), n.now)
	idle := n.spare() && n.ex.Offered() > 0 && !n.now.Before(n.quiet) // a pause of the store says nothing of peers
	n.twice.Note(fromStore, n.fromPeers, n.atStore() > 0, idle, n.now)
	if read := n.fromStore.Load(); read != n.seenStore {
		n.seenStore, n.came = read, n.now
		if !n.rescuing {
			n.moved = n.now
		}
	}
	n.backOff()
	n.lagging()
	if n.standsStill() && !n.ex.Have().Full() && n.atStore() == 0 {
		n.rescue(ctx)
	}
	n.convict()
	n.forsaken()
	n.ex.Carried(fromStore+unit.Bytes(n.arrived.Load()), n.now)
	n.expelHoarders()
	every := reportEvery
	if n.done {
		every = idleEvery - exchange.TickEvery/2 // no look is left out that comes a little early
	}
	if n.now.Sub(n.reported) >= every {
		n.reported = n.now
		n.Report(n.progress())
	}
}

func (n *node) pieceSize(p int) unit.Bytes {
	_, size := n.Layout.Span(p)
	return size
}

func (n *node) unreachable(rank int) error {
	err := n.neighbours[rank].why
	if err == nil {
		err = fmt.Errorf("no connection from it at %s in time", n.Members[rank].Addr)
	}
	return err
}

// fault notes something that another did wrong, for the report.
func (n *node) fault(who, cause string) {
	const most = 100 // of one node's job: enough to see what went wrong
	if len(n.faults) < most {
		n.faults = append(n.faults, Fault{who, cause})
		n.Recorder.Record(n.now, Event{Kind: "fault", Peer: who, Cause: cause})
		n.Log.Warn("fault", "job", n.Job, "node", who, "cause", cause)
	}
}

func (n *node) progress() Progress {
	p := Progress{
		Phase: n.phase, Have: n.have, StoreBytes: unit.Bytes(n.fromStore.Load()), StoreTime: n.reading(), PeerBytes: n.fromPeers, SentBytes: n.sent,
		CrossedBytes: n.crossed, Objects: n.whole,
		Done: n.done, DoneAt: n.doneAt, Verified: n.verified, Spent: n.diary.Times(), Faults: append([]Fault(nil), n.faults...),
	}
	p.DoStep, p.Do = n.diary.Line()
	for rank := range n.neighbours {
		if n.neighbours[rank].plain {
			p.PlainPeers++
		}
	}
	switch {
	case n.done:
	case n.commits:
		p.Waiting = "the disk, to make the file durable"
	case n.ex.Have().Full():
		p.Waiting = "pieces in doubt to be read again"
	case n.atStore() > 0:
	case len(n.fetches) > 0 || n.waits:
		p.Waiting = "its turn to read from the store"
	case !n.ex.Open():
		p.Waiting = "others to end their reading from the store"
	}
	return p
}
