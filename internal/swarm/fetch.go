package swarm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// This file carries an order out: a worker of its own reads its span, the loop hears of each piece, and ends it early where that is better. What
// to read is decided in order.go.

// fetch is an order under way.
type fetch struct {
	order
	relieve context.CancelCauseFunc // ends it, because others have what it reads, or it hardly gets on
	moved   time.Time               // when it began, or last gave a piece
	lagged  bool                    // it was ended for that; to be looked at when it has
	rests   bool                    // others are to read first (steal.Turns): its gate is shut
}

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

func (n *node) start(ctx context.Context, o order) {
	o.gate, o.store = &gate{}, n.rots(o)
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

// rots says whether the store has something else than our file from before the job of what an order is to read.
func (n *node) rots(o order) bool {
	for p := range o.take {
		if n.rotten.Has(p) {
			return true
		}
	}
	return false
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
	if o.audit == rechecking && !n.Members[n.Self].Held { // whatever it has; what it should have is to be seen
		return n.readOwn(ctx, o, false)
	}
	if n.Members[n.Self].Held && (o.audit == notAuditing || o.audit == rechecking) {
		err := n.readOwn(ctx, o, true)
		if bad := new(objectError); errors.As(err, &bad) {
			return fmt.Errorf("%s: %w: remove it and broadcast again", bad.object, ErrHeldWrong)
		}
		return err
	}
	if n.keeps == nil || o.audit != notAuditing || o.store {
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

// readOwn reads pieces that are in their place here, and holds them against checksums of objects if check says so.
func (n *node) readOwn(ctx context.Context, o order, check bool) error {
	o.gate = &gate{} // others need nothing of it
	off, size := n.Layout.RangeSpan(o.span)
	var r io.Reader = io.NewSectionReader(n.File, int64(off), int64(size))
	if check {
		r = n.check(r, off, size)
	}
	return n.readPieces(ctx, r, o, false)
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
	r := counting{counting{body, &n.fromStore}, &n.Counters.FromStore}
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

// fetched notes that a piece was read from the store, or from our own file if we held it before.
func (n *node) fetched(ev evFetched) {
	n.broken = 0
	n.judge(ev.piece, ev.sum)
	if ev.audit == comparing || ev.audit == replacing {
		delete(n.looks, ev.piece)
	}
	for _, f := range n.fetches {
		if f.span.Lo <= ev.piece && ev.piece < f.span.Hi {
			f.moved = n.now
		}
	}
	old, _ := n.man.Entry(ev.piece)
	if ev.audit == rechecking {
		n.rechecked(ev, old)
		return
	}
	if ev.audit == comparing && n.compared(ev, old) {
		return
	}
	e := exchange.Entry{Sum: ev.sum, Reader: n.Self, Term: old.Term}
	if ev.audit != notAuditing {
		e.Term = exchange.MaxTerm
	}
	n.enter(n.Self, digest{ev.piece, e})
	if now, _ := n.man.Entry(ev.piece); now.Sum != ev.sum && now.Term == exchange.MaxTerm && !n.ex.Have().Has(ev.piece) {
		n.overrule(ev.piece, ev.sum)
		e.Term = exchange.MaxTerm
	}
	n.digests = append(n.digests, digest{ev.piece, e})
	if now, _ := n.man.Entry(ev.piece); now.Sum == ev.sum && !n.ex.Have().Has(ev.piece) { // else another reads it once more
		from := StoreName
		if n.kept(ev.piece) && !n.rotten.Has(ev.piece) {
			from = n.Members[n.Self].Name
		}
		n.got(ev.piece, ev.sum, from)
	}
}

// rechecked takes what our own file from before the job has of a piece whose digest has changed, or which others may have read wrong.
func (n *node) rechecked(ev evFetched, old exchange.Entry) {
	n.doubts = n.doubts[1:]
	if !n.ex.Have().Has(ev.piece) && !n.Members[n.Self].Held { // it was lost meanwhile, and comes anew
		return
	}
	n.sums[ev.piece] = ev.sum
	n.believed.Remove(ev.piece)
	switch {
	case ev.sum == old.Sum:
		n.news = append(n.news, ev.piece) // nobody reckoned with our copy any more
	case !n.Members[n.Self].Held && n.Members[n.Self].NoAccess:
		n.mend(ev.piece)
	case n.Members[n.Self].Held && (old.Reader == n.Self || n.Members[n.Self].NoAccess):
		n.fail(heldWrong(ev.piece))
	default: // or another says what the store does not have
		n.looks[ev.piece] = true
	}
}

// compared takes what the store has of a piece that others may have read wrong. It says whether nothing is to be told: our own copy is
// wrong, and is read again to be replaced, or cannot be; or it was lost meanwhile: then our disk has something else than was read now, or a peer is about to write it there.
func (n *node) compared(ev evFetched, old exchange.Entry) (over bool) {
	held := n.Members[n.Self].Held
	switch {
	case !held && !n.ex.Have().Has(ev.piece):
		n.looks[ev.piece] = true
		return true
	case ev.sum == old.Sum:
		switch {
		case n.sums[ev.piece] == ev.sum || slices.Contains(n.doubts, ev.piece):
		case held:
			n.fail(heldWrong(ev.piece))
			return true
		default:
			n.mend(ev.piece)
			return true
		}
	case held: // the reader had it wrong; whether we have it right is to be seen
		n.doubt(ev.piece)
		if old.Term == exchange.MaxTerm {
			n.overrule(ev.piece, ev.sum)
		}
	case n.sums[ev.piece] == ev.sum: // likewise, and our file from before the job has it right
		if old.Term == exchange.MaxTerm {
			n.overrule(ev.piece, ev.sum)
			n.news = append(n.news, ev.piece)
		}
	default:
		n.lose(ev.piece)
		n.ex.Reserve(ev.piece)
		n.wrong = append(n.wrong, ev.piece)
		return true
	}
	return false
}

// overrule has our own reading of a piece count, and not the audit that came out otherwise, which is kept: the store's checksum may say that it was right.
func (n *node) overrule(p int, sum uint64) {
	old, _ := n.man.Entry(p)
	said := n.man.Said(p)
	other := n.man.Overrule(n.Self, p, sum)
	n.weighed, n.unproved = false, false
	delete(n.proved, n.objectOf(p))
	n.keep(said, digest{p, old})
	n.fault(n.Members[other].Name, fmt.Sprintf("says that piece %d has other bytes than the store has given us", p))
}

func (n *node) fetchEnd(ev evFetchEnd) {
	n.book()
	n.fetches = slices.DeleteFunc(n.fetches, func(f *fetch) bool { return f == ev.fetch })
	ev.fetch.relieve(nil)
	for p := range ev.take {
		if !slices.Contains(n.wrong, p) && !n.underWay(p) { // those stay out of the exchange until they are replaced
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
	if ev.err != nil && n.fatal == nil && n.acquit(ev.fetch) { // peers have it, as they had if nobody had sent other bytes
		n.Log.Warn("the store does not say who is right about a piece", "job", n.Job, "piece", ev.span.Lo, "error", ev.err)
		return
	}
	n.fail(ev.err)
}

// relieved ends the reading of works of which others have got all that is left, and of what nobody had:
// it comes from them; and of what is in doubt no more.
func (n *node) relieved() {
	for _, f := range n.fetches {
		if f.audit == comparing && !n.inDoubt(f.take) {
			f.relieve(errRelieved)
		}
		if f.lost && !n.rescuing && !n.Object.Ranges { // whose stream it is gets on with it
			f.relieve(errRelieved)
		}
		left := false
		for p := range f.take {
			if !n.ex.Held(p) {
				left = true
				break
			}
		}
		if left || len(f.works) == 0 && !f.lost {
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

// lagging breaks off what comes over a connection that hardly delivers, as measured by our others and by
// this one's past: what is left is read over another. Each time that this brings nothing the next waits for twice as long. Before
// anything is measured that is done once: a store may be one that answers late.
func (n *node) lagging() {
	if !n.policy.Adapts || !n.Object.Ranges || n.now.Before(n.quiet) || n.Members[n.Self].Held || !n.twice.May(n.Layout.Piece) {
		return
	}
	own := n.expected(n.streams()) << min(n.broken, 10)
	for _, f := range n.fetches {
		if f.audit == notAuditing && !f.rests && (steal.Lags(n.since(f.moved, n.quiet), own) || n.mute(f)) {
			n.Log.Info("reading over another connection: this one hardly delivers", "job", n.Job, "for", n.now.Sub(f.moved), "pieces", f.span)
			f.moved = n.now // once
			n.broken++
			n.twice.Spend(n.Layout.Piece)
			f.relieve(errLags)
		}
	}
}

// mute says whether the store has not begun to give us what an order asks for, nor anything else for long.
func (n *node) mute(f *fetch) bool {
	moved := f.moved
	if n.came.After(moved) {
		moved = n.came
	}
	return n.broken == 0 && unit.Bytes(n.fromStore.Load()) < n.Layout.Piece && steal.Mute(n.since(moved, n.quiet))
}

// since is how long ago something moved, but for a time in which the store asked to be left alone, until quiet, unless it is very long ago.
func (n *node) since(moved, quiet time.Time) time.Duration {
	if quiet.After(moved) && (quiet.After(n.now) || n.now.Sub(moved) < mostExcused) {
		moved = quiet
	}
	return n.now.Sub(moved)
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
	return max(1, time.Duration(float64(n.reading())*float64(n.Layout.Piece)/float64(bytes))) // what came at once has come
}
