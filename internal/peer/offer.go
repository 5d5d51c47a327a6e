package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/freshet/freshet/internal/pki"
)

// Offer returns a channel of the data connections that nodes open for job, and
// a function that withdraws the offer. The channel is not closed. A second
// offer of the same job takes the place of the first.
//
// A connection for a job that is not on offer waits for 10 s, since nodes learn
// of a job at different times, and is refused then.
func (p *Port) Offer(job string) (<-chan *Conn, func()) {
	o := &offer{conns: make(chan *Conn), withdrawn: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if old := p.offers[job]; old != nil {
		close(old.withdrawn)
	}
	p.offers[job] = o
	close(p.offered)
	p.offered = make(chan struct{})
	return o.conns, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.offers[job] == o {
			delete(p.offers, job)
			close(o.withdrawn)
		}
	}
}

// lookup finds the offer of job and, if there is none, what tells that there
// may be one.
func (p *Port) lookup(job string) (*offer, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.offers[job], p.offered
}

// receive is the accepting side of the hello. An error means that the
// connection was refused; greeted is to be called once the caller has said
// hello.
func (p *Port) receive(ctx context.Context, t *tls.Conn, w *wire, who pki.Identity, greeted func()) error {
	theirs, err := readHello(t)
	if errors.Is(err, errNotFreshet) {
		return err
	}
	c := newConn(t, w, who.Name, theirs.Job)
	mine := hello{Name: p.o.Credentials.Identity().Name, Job: theirs.Job}
	if err != nil {
		mine.Job = "-" // not what the caller said, whatever that was
	}
	// Our hello comes first in any case: it tells a caller of another version
	// what ours is, and one that is refused that what follows is a frame.
	if _, werr := t.Write(mine.Append(nil)); werr != nil {
		return errors.Join(err, werr)
	}
	switch {
	case isVersionError(err):
		return c.answer(OtherVer, err)
	case err != nil:
		return c.answer(BadFrame, err)
	case who.Role != pki.Node:
		return c.answer(NotANode, fmt.Errorf("%v is not a node", who))
	case theirs.Name != who.Name:
		return c.answer(WrongName, fmt.Errorf("hello from %q with the certificate of %q", theirs.Name, who.Name))
	}
	if err := p.enlist(c, pki.PeerKey(t.ConnectionState())); err != nil {
		c.Refuse(Removed, "")
		return err
	}
	greeted()
	if err := p.match(ctx, c); err != nil {
		c.abort()
		return err
	}
	return nil
}

// match gives c to whoever offers its job, and waits for such a one.
func (p *Port) match(ctx context.Context, c *Conn) error {
	o, err := p.await(ctx, c)
	if err != nil {
		return err
	}
	if err := p.crowd(c); err != nil {
		return c.answer(Busy, err)
	}
	if err := c.WriteFrame(kindWelcome); err != nil {
		return err
	}
	if err := p.settle(c, c.c.(*tls.Conn), false); err != nil {
		return err
	}
	c.c.SetDeadline(time.Time{})
	c.start()
	for {
		select {
		case o.conns <- c:
			return nil
		case <-o.withdrawn: // by another offer, or for good
			if o, _ = p.lookup(c.job); o == nil {
				return c.answer(UnknownJob, fmt.Errorf("job %s has ended here", c.job))
			}
		case <-ctx.Done():
			return c.answer(ShutDown, ctx.Err())
		}
	}
}

// await finds the offer of c's job, and waits for it if there is none yet. Only
// those that wait are counted: a job on offer takes its connections however
// many others wait for theirs. An error means that c was refused.
func (p *Port) await(ctx context.Context, c *Conn) (*offer, error) {
	if o, _ := p.lookup(c.job); o != nil {
		return o, nil
	}
	if err := p.waiting.enter(c.name); err != nil {
		return nil, c.answer(Busy, err)
	}
	defer p.waiting.leave(c.name)
	timer := time.NewTimer(offerTimeout)
	defer timer.Stop()
	for {
		o, changed := p.lookup(c.job)
		if o != nil {
			return o, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, c.answer(UnknownJob, fmt.Errorf("job %s is not known here", c.job))
		case <-ctx.Done():
			return nil, c.answer(ShutDown, ctx.Err())
		}
	}
}

// waiters counts the connections that wait for their jobs, by the certified
// name of the other end, so that one node cannot take the places of all.
type waiters struct {
	mu  sync.Mutex // guards what follows
	all int
	by  map[string]int
}

func (w *waiters) enter(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by[name] >= maxWaitingNode {
		return fmt.Errorf("%d connections of %s wait for their jobs already", maxWaitingNode, name)
	}
	if w.all >= maxWaiting {
		return fmt.Errorf("%d connections wait for their jobs already", maxWaiting)
	}
	if w.by == nil {
		w.by = map[string]int{}
	}
	w.all++
	w.by[name]++
	return nil
}

func (w *waiters) leave(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all--
	if w.by[name]--; w.by[name] == 0 {
		delete(w.by, name)
	}
}

// answer refuses, and returns why.
func (c *Conn) answer(code Code, why error) error {
	c.Refuse(code, why.Error())
	return why
}

func isVersionError(err error) bool {
	_, ok := errors.AsType[*VersionError](err)
	return ok
}

// readHello reads the other end's hello; the deadline has been set.
func readHello(r io.Reader) (hello, error) {
	var b [helloBytes]byte
	if _, err := io.ReadFull(r, b[:prefixBytes]); err != nil {
		return hello{}, fmt.Errorf("read hello: %w", err)
	}
	if _, err := parsePrefix(b[:]); err != nil {
		return hello{}, err
	}
	if _, err := io.ReadFull(r, b[prefixBytes:]); err != nil {
		return hello{}, fmt.Errorf("read hello: %w", err)
	}
	h, _, err := parseHello(b[:])
	return h, err
}
