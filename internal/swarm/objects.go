package swarm

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// A job may be of several objects, as a model of many files is: they lie one behind the other, and all that the
// rules know is the pieces of the whole (piece.Cut). Here is what is different: where the store is read, and what proves it.
//
//	pieces of one object   their digests combine to what the store keeps for it, on every node, as with a job of one
//	a piece that objects   each of them is held against what the store keeps for it by whoever reads
//	share                  the piece from the store, before anybody hears of the piece

// shares says whether object i lies in a piece with others.
func (n *node) shares(i int) bool {
	r := n.Layout.Pieces(i)
	return !r.Empty() && n.Layout.Shared(r.Lo)
}

// usable says whether the store's checksum of object i proves it.
func (n *node) usable(i int) bool { return n.Objects[i].Checksum.Usable(n.Layout.Alone(i)) }

// algorithm is that of a piece's digest: of its object's checksum, so that they combine to it.
func (n *node) algorithm(p int) piece.Algorithm {
	i := 0
	if len(n.Objects) > 1 {
		if n.Layout.Shared(p) {
			return piece.CRC64NVME
		}
		i = n.objectOf(p)
	}
	if !n.usable(i) {
		return piece.CRC64NVME
	}
	return n.Objects[i].Checksum.Algorithm
}

// called is what object i is called in what people read.
func (n *node) called(i int) string {
	if len(n.Objects) == 1 {
		return n.Source
	}
	return strings.TrimPrefix(n.Objects[i].Key, n.Object.Key) + " of " + n.Source
}

// verify holds all objects against the store's checksums. again says that some are to be read once more.
func (n *node) verify() (verified string, again bool) {
	verified = BySource
	for i, o := range n.Objects {
		switch {
		case len(n.Objects) > 1 && o.Size == 0: // there is nothing to prove
		case !n.usable(i):
			verified = ByPeers
		case n.shares(i): // its reader has
		default:
			err := n.man.Verify(i, o.Checksum)
			if err == nil {
				continue
			}
			switch r := n.Layout.Pieces(i); {
			case (!n.Members[n.Self].NoAccess || !n.now.Before(n.weighs)) && n.outvote(i): // else weigh does it soon
			case n.Members[n.Self].NoAccess && n.resigned:
				n.unproved = true
			case n.man.Audit(r), n.look(r):
			case n.Members[n.Self].NoAccess: // others may still say something else
				n.unproved = true
			default:
				n.fail(damage(n.called(i), err))
				return "", true
			}
			n.Log.Warn("checksum", "job", n.Job, "object", n.called(i), "error", err)
			again = true
		}
	}
	return verified, again
}

// look has us read again what one node alone says of pieces. It returns false if there is none, or we may not.
func (n *node) look(r piece.Range) (any bool) {
	if n.Members[n.Self].NoAccess {
		return false
	}
	for _, p := range n.man.Unconfirmed(r, n.Self) {
		n.looks[p], any = true, true
	}
	return any
}

func damage(object string, err error) error {
	return fmt.Errorf("%s: read twice, and still %w; the object in the store is damaged", object, err)
}

// countObjects notes of how many objects all is here, after one piece more (d = -1) or fewer (1).
func (n *node) countObjects(p, d int) {
	lo, hi := n.Layout.Within(n.Layout.Span(p))
	for i := lo; i < hi; i++ {
		if n.Objects[i].Size == 0 {
			continue
		}
		if n.missing[i] == 0 {
			n.whole--
		}
		if n.missing[i] += d; n.missing[i] == 0 {
			n.whole++
		}
	}
}

// objectError is what went wrong with one of several objects.
type objectError struct {
	object  string
	misread bool // what came is not what the store keeps for it
	err     error
}

func (e *objectError) Error() string { return e.err.Error() }
func (e *objectError) Unwrap() error { return e.err }

// openStore opens the size bytes behind off, of one object or of several that follow each other.
func (n *node) openStore(ctx context.Context, off, size unit.Bytes) (io.ReadCloser, error) {
	if len(n.Objects) == 1 {
		return n.Store.ReadRange(ctx, n.Objects[0], off, size)
	}
	c := &chain{n: n}
	c.ctx, c.cancel = context.WithCancel(ctx)
	lo, hi := n.Layout.Within(off, size)
	for i := lo; i < hi; i++ {
		start, length := n.Layout.Object(i)
		from, to := max(off, start), min(off+size, start+length)
		if from < to {
			c.parts = append(c.parts, &part{object: i, off: from - start, left: to - from})
		}
	}
	return c, nil
}

// Of small objects so many are asked for ahead of the one that is read, else each would cost the time that the
// store takes to begin its answer.
const (
	aheadParts = 16
	aheadBytes = 2 * piece.BlockSize
)

// chain reads parts of objects one after the other.
type chain struct {
	n      *node
	ctx    context.Context // of the call: it covers the reading, as with objstore.Store
	cancel context.CancelFunc
	wg     sync.WaitGroup // of the requests
	parts  []*part        // still to be read
}

// part is a run of bytes of one object.
type part struct {
	object    int
	off, left unit.Bytes  // in the object
	answer    chan opened // nil: not asked for; has room for one
	heard     bool        // the answer
	body      io.ReadCloser
}

type opened struct {
	body io.ReadCloser
	err  error
}

// ask asks for the first part, and for those behind it that are small.
func (c *chain) ask() {
	ahead := unit.Bytes(0)
	for i, p := range c.parts[:min(len(c.parts), aheadParts)] {
		if ahead += p.left; i > 0 && ahead > aheadBytes {
			return
		}
		if p.answer != nil {
			continue
		}
		p.answer = make(chan opened, 1)
		off, size := p.off, p.left
		c.wg.Go(func() {
			body, err := c.n.Store.ReadRange(c.ctx, c.n.Objects[p.object], off, size)
			p.answer <- opened{body, err}
		})
	}
}

func (c *chain) Read(b []byte) (int, error) {
	if len(c.parts) == 0 {
		return 0, io.EOF
	}
	p := c.parts[0]
	if p.body == nil {
		c.ask()
		a := <-p.answer // it comes, if only because ctx has ended
		if p.heard = true; a.err != nil {
			return 0, c.wrong(p, a.err)
		}
		p.body = a.body
	}
	k, err := p.body.Read(b[:min(unit.Bytes(len(b)), p.left)])
	p.left -= unit.Bytes(k)
	switch {
	case p.left == 0 && (err == nil || err == io.EOF):
		if err := c.end(p); err != nil {
			return 0, err // with bytes io.ReadFull would not pass it on
		}
		c.parts = c.parts[1:]
		return k, nil
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	case err == nil:
		return k, nil
	}
	return k, c.wrong(p, err)
}

// end reads a part's body to its own end: a store may know only there that the object was replaced, and a connection can be
// used again only after it.
func (c *chain) end(p *part) error {
	_, err := p.body.Read(make([]byte, 1))
	p.body.Close()
	p.body = nil
	if err != nil && err != io.EOF && !objstore.Temporary(err) {
		return c.wrong(p, err)
	}
	return nil
}

func (c *chain) wrong(p *part, err error) error {
	return &objectError{object: c.n.called(p.object), err: err}
}

// Close ends the reading, and what was asked for ahead.
func (c *chain) Close() error {
	c.cancel()
	c.wg.Wait()
	for _, p := range c.parts {
		if p.answer != nil && !p.heard {
			p.body = (<-p.answer).body
		}
		if p.body != nil {
			p.body.Close()
		}
	}
	c.parts = nil
	return nil
}

// checking passes on the bytes behind at, and holds each object that shares a piece against the store's checksum
// when it has gone by.
type checking struct {
	io.Reader
	n      *node
	at     unit.Bytes
	object int    // in which at lies
	sum    uint64 // of what has gone by of it
}

// check is a reader of the bytes behind off.
func (n *node) check(r io.Reader, off, size unit.Bytes) io.Reader {
	if len(n.Objects) == 1 {
		return r
	}
	lo, _ := n.Layout.Within(off, size)
	return &checking{Reader: r, n: n, at: off, object: lo}
}

func (c *checking) Read(b []byte) (int, error) {
	k, err := c.Reader.Read(b)
	for rest := b[:k]; len(rest) > 0; {
		off, size := c.n.Layout.Object(c.object)
		end := off + size
		if c.at == end {
			c.object, c.sum = c.object+1, 0
			continue
		}
		here := rest[:min(unit.Bytes(len(rest)), end-c.at)]
		rest, c.at = rest[len(here):], c.at+unit.Bytes(len(here))
		if !c.n.shares(c.object) || !c.n.usable(c.object) {
			continue
		}
		sum := c.n.Objects[c.object].Checksum
		if c.sum = sum.Algorithm.Update(c.sum, here); c.at < end {
			continue
		}
		if wrong := sum.Verify(c.n.Layout.Alone(c.object), []uint64{c.sum}); wrong != nil {
			return 0, &objectError{object: c.n.called(c.object), misread: true, err: wrong} // with bytes io.ReadFull would not pass it on
		}
	}
	return k, err
}
