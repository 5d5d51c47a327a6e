package swarm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// order is what the loop wants read from the store.
type order struct {
	works []int        // of the steal ledger, or none
	span  piece.Range  // one request to the store
	take  map[int]bool // the pieces of it that are to be digested and, but for audits, written
	audit auditing
	twice bool  // others have them
	gate  *gate // shut while it rests
}

// fetch is an order under way.
type fetch struct {
	order
	relieve context.CancelCauseFunc // ends it, because others have what it reads, or it hardly gets on
	moved   time.Time               // when it began, or last gave a piece
	lagged  bool                    // it was ended for that; to be looked at when it has
	rests   bool                    // others are to read first (steal.Turns): its gate is shut
}

// auditing says whether an order reads pieces again that are in doubt: first
// only to compare, since most of them will be right; then, where one was wrong, to replace it.
type auditing int

const (
	notAuditing auditing = iota
	comparing
	replacing
	rechecking // a piece of a file from before the job, on our own disk, whose digest has changed in the manifest
)

// What the fetcher tells the loop.
type (
	evFetched struct {
		piece int
		sum   uint64
		audit auditing
	}
	evFetchEnd struct {
		*fetch
		err error
	}
)

// What ends an order early, and is no failure: others have all that is left of it, or its connection hardly delivers.
var (
	errRelieved = errors.New("others have it")
	errLags     = errors.New("the connection hardly delivers")
)

// fetch keeps the connections to the store busy.
func (n *node) fetch(ctx context.Context) {
	n.takeTurns()
	n.waits = false
	for n.atStore() < n.streams() && !n.commits && !n.done && n.fatal == nil {
		o, ok := n.order()
		if !ok {
			break
		}
		n.start(ctx, o)
	}
	n.ask()
}

// ask asks another node for works once our list is empty. An answer may wait behind blocks on the links, both ways. So stream
// asks while the last of its own is still being read; in the paper a node asks when it has nothing left.
func (n *node) ask() {
	if n.commits || n.done || n.fatal != nil || n.ex.Covered() || n.Members[n.Self].blind() || n.Algorithm != steal.Stream && len(n.fetches) > 0 {
		return
	}
	if n.atStore() < len(n.fetches) { // what rests is ours to read yet
		return
	}
	if victim, ok := n.works.Ask(n.ex.Held); ok {
		n.asked = n.now
		n.send(victim, kindGiveWork, appendGiveWork(nil, n.loot(), n.pace()))
	}
}

// streams is how many orders may be under way at once.
func (n *node) streams() int {
	if n.Algorithm == steal.Stream && n.Object.Ranges && n.turns.Settled() { // else what more of them brought would be others' loss, or is not to be known yet
		return n.appetite.Streams()
	}
	return 1
}

// order makes the next order: audits first, then the next works of the list.
func (n *node) order() (o order, ok bool) {
	if len(n.fetches) == 0 {
		if o, ok := n.audit(); ok {
			return o, true
		}
	}
	if n.Members[n.Self].blind() {
		return o, false
	}
	again := n.stranded
	n.stranded = nil
	for i, p := range again {
		if n.ex.Held(p) {
			continue
		}
		if o, any := n.reserve(piece.Range{Lo: p, Hi: p + 1}); any {
			n.stranded = append(n.stranded, again[i+1:]...)
			return o, true
		}
	}
	if !n.turns.Together() {
		if place, ok := n.works.Foremost(n.ex.Held); ok && !n.turns.May(place, n.covered()) {
			n.waits = true
			return o, false
		}
	}
	most := 1
	if n.Algorithm == steal.Stream && n.turns.Together() {
		most = n.appetite.Request(unit.Bytes(n.ex.Uncovered())*n.Layout.Piece, len(n.Members))
	}
	for {
		works, span := n.works.Next(most, n.ex.Held)
		if len(works) == 0 {
			break
		}
		if o, any := n.reserve(span); any {
			o.works = works
			return o, true
		}
		for _, w := range works {
			n.works.End(w)
		}
	}
	return n.again()
}

// spare says whether there is nothing that we were to read, as far as we know. A node of a site leaves it at that: what it
// read though others have it might enter the site twice; and so does one of a job that reads in turn: what it read others would lack.
func (n *node) spare() bool {
	return n.imports == nil && !n.turns.Shares() && n.Algorithm == steal.Stream && n.Object.Ranges && !n.Members[n.Self].Held && !n.works.Busy()
}

// again makes an order of a piece that others have, where peers give less than the store would: rather one
// that nobody was asked for, else one that a peer still owes. What others are reading just now is theirs.
func (n *node) again() (o order, ok bool) {
	if !n.spare() || !n.works.Idle() || !n.twice.Pays(n.Layout.Piece) {
		return o, false
	}
	var held []int
	for r := range n.ex.Have().Missing() {
		for p := r.Lo; p < r.Hi; p++ {
			if n.ex.Held(p) && !n.underWay(p) {
				held = append(held, p)
			}
		}
	}
	rand.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
	take := func(p int) bool {
		if ok = n.ex.Reserve(p); ok {
			n.twice.Spend(n.pieceSize(p))
			o = order{span: piece.Range{Lo: p, Hi: p + 1}, take: map[int]bool{p: true}, twice: true}
		}
		return ok
	}
	if slices.ContainsFunc(held, take) {
		return o, true
	}
	for _, p := range held {
		if n.asm.drop(p) {
			n.sendCancels(n.ex.Abandon(p))
			if take(p) {
				return o, true
			}
		}
	}
	return o, false
}

// underWay says whether a piece is being read from the store.
func (n *node) underWay(p int) bool {
	return slices.ContainsFunc(n.fetches, func(f *fetch) bool { return f.take[p] })
}

// loot is how many works a theft may bring: in the paper half of what there is.
func (n *node) loot() int {
	if n.Algorithm == steal.Stream {
		return n.appetite.Theft()
	}
	return math.MaxInt32
}

// pace is when we begin the next work, and how long one takes; of other algorithms than stream nothing that others go by.
func (n *node) pace() steal.Pace {
	if n.Algorithm != steal.Stream {
		return steal.Pace{}
	}
	var inHand []steal.Reading
	for _, f := range n.fetches {
		r := steal.Reading{Since: n.now.Sub(f.moved)}
		for piece := range f.take {
			if !n.ex.Held(piece) {
				r.Left++
			}
		}
		inHand = append(inHand, r)
	}
	return steal.NewPace(n.pieceTime(), n.perWork, n.streams(), inHand)
}

// audit makes an order of pieces in doubt that are ours to read again.
func (n *node) audit() (o order, ok bool) {
	for len(n.wrong) > 0 {
		p := n.wrong[0]
		n.wrong = n.wrong[1:]
		return order{span: piece.Range{Lo: p, Hi: p + 1}, take: map[int]bool{p: true}, audit: replacing}, true
	}
	if len(n.doubts) > 0 {
		p := n.doubts[0]
		return order{span: piece.Range{Lo: p, Hi: p + 1}, take: map[int]bool{p: true}, audit: rechecking}, true
	}
	if n.man.Known() < n.Layout.Count() || n.Members[n.Self].NoAccess {
		return o, false
	}
	o = order{take: map[int]bool{}, audit: comparing}
	due := n.man.Audits(n.Self, n.readers())
	if n.now.Sub(n.moved) > auditAfter { // whoever should have does not
		due = n.man.Due()
	}
	for _, p := range due {
		if !n.ex.Have().Has(p) && !n.Members[n.Self].Held { // there is nothing to compare with
			if len(o.take) > 0 {
				break
			}
			if !n.asm.drop(p) {
				continue
			}
			n.sendCancels(n.ex.Abandon(p))
			if r, any := n.reserve(piece.Range{Lo: p, Hi: p + 1}); any {
				r.audit = replacing
				return r, true
			}
			continue
		}
		if o.take[o.span.Hi-1] && o.span.Hi != p { // a run at a time
			break
		}
		if len(o.take) == 0 {
			o.span.Lo = p
		}
		o.span.Hi = p + 1
		o.take[p] = true
	}
	return o, len(o.take) > 0
}

// reserve takes the pieces of span that are neither had nor on their way out
// of the exchange, and makes an order of them. A piece that was on its way from
// a node that died, and that nobody else has, comes no more and is taken too.
func (n *node) reserve(span piece.Range) (o order, any bool) {
	o = order{span: span, take: map[int]bool{}}
	for p := span.Lo; p < span.Hi; p++ {
		if !n.ex.Held(p) {
			if !n.asm.drop(p) { // its last block is being written right now
				n.stranded = append(n.stranded, p)
				continue
			}
			n.sendCancels(n.ex.Abandon(p))
		}
		if n.ex.Reserve(p) {
			o.take[p] = true
		}
	}
	return o, len(o.take) > 0
}

// rescue reads one missing piece from the store, whoever should have: the
// swarm stands still. Any node may do so at once, so each takes another. Until
// something comes from peers one piece follows the other.
func (n *node) rescue(ctx context.Context) {
	if n.Members[n.Self].blind() {
		return
	}
	var missing []int
	for r := range n.ex.Have().Missing() {
		for p := r.Lo; p < r.Hi; p++ {
			missing = append(missing, p)
		}
	}
	rand.Shuffle(len(missing), func(i, j int) { missing[i], missing[j] = missing[j], missing[i] })
	for _, p := range missing {
		if !n.asm.drop(p) {
			continue
		}
		n.sendCancels(n.ex.Abandon(p))
		if o, any := n.reserve(piece.Range{Lo: p, Hi: p + 1}); any {
			if !n.rescuing {
				n.Log.Warn("nothing arrives: reading from the store", "job", n.Job, "for", stallAfter)
			}
			n.rescuing = true
			n.start(ctx, o)
			return
		}
	}
}

func (n *node) start(ctx context.Context, o order) {
	o.gate = &gate{}
	f := &fetch{order: o, moved: n.now}
	ctx, f.relieve = context.WithCancelCause(ctx)
	n.book()
	n.fetches = append(n.fetches, f)
	n.wg.Go(func() {
		err := n.readSpan(ctx, o)
		if cause := context.Cause(ctx); cause == errRelieved || cause == errLags {
			err = nil
			f.lagged = cause == errLags
		}
		n.post(evFetchEnd{fetch: f, err: err})
	})
}

// overtake claims a work of a node that hardly gets on with it, if we have nothing else to do.
func (n *node) overtake() {
	waits := n.waits && n.turns.InTurn()
	if n.atStore() > 0 || !n.works.Idle() && !waits {
		n.idle = n.now
		return
	}
	if n.commits || n.done || n.fatal != nil || n.Members[n.Self].blind() || n.ex.Covered() || !n.twice.May(n.Layout.Piece) {
		return
	}
	waited := func(rank, place int) time.Duration {
		return min(n.since(n.neighbours[rank].gained, n.quietAll), n.turns.Due(place, n.now))
	}
	victim, tell := n.works.Overtake(n.ex.Held, n.expected(1), n.now.Sub(n.idle), waits, waited)
	for _, c := range tell {
		from := n.Members[victim].Name
		for _, h := range c.Hands {
			r := piece.Range{Lo: n.works.Work(h.Lo).Lo, Hi: n.works.Work(h.Hi - 1).Hi}
			n.Log.Info("reading in the place of a node that hardly gets on", "job", n.Job, "node", from, "for", waited(victim, n.works.PlaceOf(h.Lo)), "pieces", r)
			n.Recorder.Record(n.now, Event{Kind: "work", From: from, Lo: r.Lo, Hi: r.Hi})
		}
	}
	if len(tell) > 0 {
		n.twice.Spend(n.Layout.Piece) // what the other has begun
		if v := &n.neighbours[victim]; !v.overtaken {
			v.overtaken = true
			n.fault(n.Members[victim].Name, "hardly gets on with its part of the object, which others read in its place")
		}
	}
	n.tellClaims(tell)
}

// since is how long ago something moved, but for a time in which the store asked to be left alone, until quiet, unless it is very long ago.
func (n *node) since(moved, quiet time.Time) time.Duration {
	if quiet.After(moved) && (quiet.After(n.now) || n.now.Sub(moved) < mostExcused) {
		moved = quiet
	}
	return n.now.Sub(moved)
}

// lagging breaks off what comes over a connection that hardly delivers, as measured by our others and by
// this one's past: what is left is read over another. Each time that this brings nothing the next waits for twice as long.
func (n *node) lagging() {
	if n.Algorithm != steal.Stream || !n.Object.Ranges || n.now.Before(n.quiet) || n.Members[n.Self].Held || !n.twice.May(n.Layout.Piece) {
		return
	}
	own := n.expected(n.streams()) << min(n.broken, 10)
	for _, f := range n.fetches {
		if f.audit == notAuditing && !f.rests && steal.Lags(n.since(f.moved, n.quiet), own) {
			n.Log.Info("reading over another connection: this one hardly delivers", "job", n.Job, "for", n.now.Sub(f.moved), "pieces", f.span)
			f.moved = n.now // once
			n.broken++
			n.twice.Spend(n.Layout.Piece)
			f.relieve(errLags)
		}
	}
}

// relieved ends the reading of works of which others have got all that is left:
// it comes from them.
func (n *node) relieved() {
	for _, f := range n.fetches {
		left := false
		for p := range f.take {
			if !n.ex.Held(p) {
				left = true
				break
			}
		}
		if left || len(f.works) == 0 {
			continue
		}
		for p := range f.take {
			if !n.ex.Have().Has(p) {
				f.relieve(errRelieved)
				break
			}
		}
	}
}

// reading is for how long we have read from the store so far.
func (n *node) reading() time.Duration {
	switch {
	case n.Members[n.Self].Held:
		return 0
	case n.atStore() > 0:
		return n.read + n.now.Sub(n.began)
	}
	return n.read
}

// book notes for how long we have read, before there is another order to carry out, or one fewer.
func (n *node) book() { n.read, n.began = n.reading(), n.now }

// expected is how long a piece is to take us over one of so many connections: as long as they have taken, or as
// those that are read in turn do now. Zero if we have read nothing.
func (n *node) expected(streams int) time.Duration {
	if own := n.pieceTime(); own > 0 {
		return max(own*time.Duration(streams), 2*n.turns.Takes()) // a reader's link is its peers', too
	}
	return 0
}

// pieceTime is how long a piece from the store takes us; zero if we have read none.
func (n *node) pieceTime() time.Duration {
	bytes := n.fromStore.Load()
	if bytes == 0 {
		return 0
	}
	return time.Duration(float64(n.reading()) * float64(n.Layout.Piece) / float64(bytes))
}

// fetched notes that a piece was read from the store, or from our own file if we held it before.
func (n *node) fetched(ev evFetched) {
	n.broken = 0
	n.judge(ev.piece, ev.sum)
	for _, f := range n.fetches {
		if f.span.Lo <= ev.piece && ev.piece < f.span.Hi {
			f.moved = n.now
		}
	}
	old, _ := n.man.Entry(ev.piece)
	e := exchange.Entry{Sum: ev.sum, Reader: n.Self, Term: old.Term}
	switch {
	case ev.audit == rechecking:
		n.doubts = n.doubts[1:]
		if ev.sum != old.Sum {
			n.fail(heldWrong(ev.piece))
		} else {
			n.news = append(n.news, ev.piece) // nobody reckoned with our copy any more
		}
		return
	case ev.audit == comparing && ev.sum != old.Sum && n.Members[n.Self].Held:
		e.Term = exchange.MaxTerm // the reader had it wrong; whether we have it right is to be seen
		n.doubts = append(n.doubts, ev.piece)
	case ev.audit == comparing && ev.sum != old.Sum:
		n.lose(ev.piece)
		n.ex.Reserve(ev.piece)
		n.wrong = append(n.wrong, ev.piece)
		return
	case ev.audit != notAuditing:
		e.Term = exchange.MaxTerm
	}
	n.enter(n.Self, digest{ev.piece, e})
	if now, _ := n.man.Entry(ev.piece); now.Sum != ev.sum && now.Term == exchange.MaxTerm && !n.ex.Have().Has(ev.piece) {
		other := n.man.Overrule(n.Self, ev.piece, ev.sum)
		n.fault(n.Members[other].Name, fmt.Sprintf("says that piece %d has other bytes than the store has given us", ev.piece))
		e.Term = exchange.MaxTerm
	}
	n.digests = append(n.digests, digest{ev.piece, e})
	if now, _ := n.man.Entry(ev.piece); now.Sum == ev.sum && !n.ex.Have().Has(ev.piece) { // else another reads it once more
		from := StoreName
		if n.has(ev.piece) {
			from = n.Members[n.Self].Name
		}
		n.got(ev.piece, ev.sum, from)
	}
}

func (n *node) fetchEnd(ev evFetchEnd) {
	n.book()
	n.fetches = slices.DeleteFunc(n.fetches, func(f *fetch) bool { return f == ev.fetch })
	ev.fetch.relieve(nil)
	for p := range ev.take {
		if !slices.Contains(n.wrong, p) { // those stay out of the exchange until they are replaced
			n.ex.Unreserve(p)
		}
	}
	if ev.lagged {
		n.works.Back(ev.works)
		ev.works = nil
	}
	for _, w := range ev.works {
		n.works.End(w)
		if n.ex.Held(ev.span.Hi - 1) { // else there is something wrong with it, and others may try
			n.works.GoOn(w)
		}
	}
	if ev.twice && ev.err != nil && n.fatal == nil && !errors.Is(ev.err, objstore.ErrChanged) { // peers have it still
		n.Log.Warn("reading no more of what others have", "job", n.Job, "error", ev.err)
		n.twice.Stop()
		return
	}
	n.fail(ev.err)
}

// readSpan carries out an order with one request to the store, or, of several objects, with one each.
func (n *node) readSpan(ctx context.Context, o order) error {
	for again := false; ; again = true {
		err, bad := n.readOnce(ctx, o), new(objectError)
		if !errors.As(err, &bad) || !bad.misread || again {
			return err
		}
		n.Log.Warn("checksum", "job", n.Job, "object", bad.object, "error", bad.err)
	}
}

func (n *node) readOnce(ctx context.Context, o order) error {
	if n.Members[n.Self].Held && (o.audit == notAuditing || o.audit == rechecking) {
		err := n.readOwn(ctx, o)
		if bad := new(objectError); errors.As(err, &bad) {
			return fmt.Errorf("%s: %w: remove it and broadcast again", bad.object, ErrHeldWrong)
		}
		return err
	}
	if n.keeps == nil || o.audit != notAuditing {
		return n.readStore(ctx, o)
	}
	for _, run := range n.runs(o.span) {
		part := o
		part.span = run
		if err := n.readRun(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// readOwn reads pieces that are in their place here.
func (n *node) readOwn(ctx context.Context, o order) error {
	o.gate = &gate{} // others need nothing of it
	off, size := n.Layout.RangeSpan(o.span)
	return n.readPieces(ctx, n.check(io.NewSectionReader(n.File, int64(off), int64(size)), off, size), o, false)
}

func (n *node) readStore(ctx context.Context, o order) error {
	off, size := n.Layout.RangeSpan(o.span)
	skip := unit.Bytes(0)
	if !n.Object.Ranges { // one stream, from its first byte
		off, size, skip = 0, n.Object.Size, off
	}
	body, err := n.openStore(ctx, off, size)
	if err != nil {
		return n.sourceError(o.span, err)
	}
	defer body.Close()
	r := counting{body, &n.fromStore, &n.Counters.FromStore}
	if _, err := io.CopyN(io.Discard, r, int64(skip)); err != nil {
		return n.sourceError(o.span, err)
	}
	return n.readPieces(ctx, n.check(r, off, size), o, o.audit != comparing)
}

func (n *node) sourceError(span piece.Range, err error) error {
	source, bad := n.Source, new(objectError)
	if errors.As(err, &bad) {
		source = bad.object
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, objstore.ErrChanged):
		return fmt.Errorf("%s: %w while it was read; nothing was put in place: run the job again for the new version", source, objstore.ErrChanged)
	case bad.misread:
		return damage(source, err)
	}
	return fmt.Errorf("read pieces %v of %s from the store: %w", span, source, err)
}

// counting counts the bytes read from the store.
type counting struct {
	r      io.Reader
	n, all *atomic.Int64
}

func (c counting) Read(p []byte) (int, error) {
	k, err := c.r.Read(p)
	c.n.Add(int64(k))
	c.all.Add(int64(k))
	return k, err
}

// readPieces reads the pieces of an order, writes them to their place if write
// says so, and tells the loop of each.
func (n *node) readPieces(ctx context.Context, r io.Reader, o order, write bool) error {
	var buf []byte
	defer func() {
		if buf != nil {
			n.Receive.Put(buf)
		}
	}()
	for p := o.span.Lo; p < o.span.Hi; p++ {
		sum, algorithm := uint64(0), n.algorithm(p)
		off, size := n.Layout.Span(p)
		for end := off + size; off < end; {
			var err error
			if buf, err = n.turn(ctx, o.gate, buf); err != nil {
				return err
			}
			k, err := o.gate.fill(r, buf[:min(piece.BlockSize, end-off)])
			if err != nil {
				return n.sourceError(o.span, err)
			}
			if o.take[p] {
				sum = algorithm.Update(sum, buf[:k])
				if write {
					if _, err := n.File.WriteAt(buf[:k], int64(off)); err != nil {
						return fmt.Errorf("write piece %d: %w", p, err)
					}
				}
			}
			off += unit.Bytes(k)
		}
		if o.take[p] {
			n.post(evFetched{piece: p, sum: sum, audit: o.audit})
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}
