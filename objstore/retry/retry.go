// Package retry makes a store that rides out what networks and busy servers
// do: a decorator that tries again what objstore.Temporary says may succeed
// later, with jittered exponential waits, and goes on with a body at the byte
// where it broke.
//
// # Why not the SDK's own
//
// A store's SDK retries requests, and a request has succeeded for it when the
// header of the reply is there; a body that breaks off after it is the
// caller's affair. But the body is where a bulk transfer spends its time. Nor
// would the drivers share anything: the plain HTTP and file drivers have no
// SDK. So the drivers try once, and this is the one place where a wait is
// decided, counted and shown.
//
// # The rule
//
//	attempt k failed, temporarily ── wait w = min(First·2^(k-1), Max), drawn from [w/2, w]; at least what Busy.After asks for
//	                              ── the wait would end later than Patience after the last progress: give up
//	a byte of the body arrived    ── progress: k = 0 and patience begins anew
//	nothing arrived for Stall     ── the attempt is broken off and has failed
//	any other error               ── returned at once, as it is
//
// A store that asks one reader to slow down (503, 429) is busy for all: no
// attempt of this Store begins before the time it named. Half of each wait is
// random ("equal jitter"), so that readers that failed together don't return
// together.
//
// A read is resumed with the same Object, so that the driver's check of the
// version covers the whole; ErrChanged ends it (an object that is not pinned is
// resumed too, by the same leave by which it is read in ranges at all). What cannot be repeated is not
// retried: the rest of a body from a store without ranges, and a Put whose
// reader has been read from and cannot seek back.
//
// Package cenkalti/backoff, which many use, would replace the five lines of
// arithmetic here and none of the rest.
package retry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/unit"
)

// Policy says how patient a Store is. The zero Policy is right for a transfer
// over a network.
type Policy struct {
	Patience time.Duration // without progress before giving up; 0: 2 minutes; negative: no second attempt
	First    time.Duration // the first wait; 0: 100 ms
	Max      time.Duration // the longest wait that nobody asked for; 0: 15 s
	Stall    time.Duration // how long an attempt to Stat or to read may deliver nothing; 0: 30 s; negative: for ever

	// OnRetry is told before each wait that attempt (1, 2, …, since the last
	// progress) of op ("stat", "read", "list", "put") failed with err. Nil: nobody
	// is. It may be called from several goroutines at once.
	OnRetry func(op, key string, attempt int, wait time.Duration, err error)
}

// Store is the patient store.
type Store struct {
	objstore.Store
	policy Policy

	mu    sync.Mutex // guards quiet
	quiet time.Time  // no attempt before it: the store asked for that
}

// New makes s patient.
func New(s objstore.Store, p Policy) *Store {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&p.Patience, 2 * time.Minute}, {&p.First, 100 * time.Millisecond}, {&p.Max, 15 * time.Second}, {&p.Stall, 30 * time.Second}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	p.First, p.Max = max(p.First, 1), max(p.Max, 1)
	return &Store{Store: s, policy: p}
}

// ErrStalled is the cause of an attempt's failure that delivered nothing for
// Policy.Stall.
var ErrStalled = errors.New("the store stopped delivering")

// try is one operation's patience.
type try struct {
	s        *Store
	op, key  string
	attempt  int       // failed ones since the last progress
	progress time.Time // the last
}

func (s *Store) try(op, key string) *try {
	return &try{s: s, op: op, key: key, progress: time.Now()}
}

func (t *try) progressed() { t.attempt, t.progress = 0, time.Now() }

// again is called with an attempt's error and returns nil when the next
// attempt may begin, otherwise the error to return.
func (t *try) again(ctx context.Context, err error) error {
	if ctx.Err() != nil || !objstore.Temporary(err) || t.s.policy.Patience < 0 {
		return err
	}
	t.attempt++
	wait := t.s.backoff(t.attempt)
	var busy *objstore.Busy
	isBusy := errors.As(err, &busy)
	if isBusy && busy.After > wait {
		wait = busy.After + wait/2 // so that not all come back at the same moment
	}
	now := time.Now()
	if now.Add(wait).After(t.progress.Add(t.s.policy.Patience)) {
		return fmt.Errorf("gave up after %d attempts in %v: %w", t.attempt, now.Sub(t.progress).Round(time.Millisecond), err)
	}
	if t.s.policy.OnRetry != nil {
		t.s.policy.OnRetry(t.op, t.key, t.attempt, wait, err)
	}
	if isBusy {
		t.s.mu.Lock()
		if until := now.Add(max(busy.After, wait)); until.After(t.s.quiet) {
			t.s.quiet = until
		}
		t.s.mu.Unlock()
	}
	if werr := sleep(ctx, wait); werr != nil {
		return fmt.Errorf("%s %s: %w while waiting to try again after: %w", t.op, t.key, werr, err)
	}
	return nil
}

// backoff is the wait after failure k ≥ 1.
func (s *Store) backoff(k int) time.Duration {
	w := s.policy.Max
	if k < 32 && s.policy.First<<(k-1) < w && s.policy.First<<(k-1) > 0 {
		w = s.policy.First << (k - 1)
	}
	return w/2 + rand.N(w/2+1)
}

// Quiet is the time before which no attempt begins, because the store or Hold asked for that.
func (s *Store) Quiet() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.quiet
}

// Hold lets no attempt begin before until: another reader was asked to leave the store alone.
func (s *Store) Hold(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until.After(s.quiet) {
		s.quiet = until
	}
}

// calm waits until the store is ready to be asked again.
func (s *Store) calm(ctx context.Context) error {
	for {
		s.mu.Lock()
		wait := time.Until(s.quiet)
		s.mu.Unlock()
		if wait <= 0 {
			return ctx.Err()
		}
		if err := sleep(ctx, wait+rand.N(s.policy.First)); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Stat tries until it has an answer.
func (s *Store) Stat(ctx context.Context, key string) (o objstore.Object, err error) {
	t := s.try("stat", key)
	for {
		if err := s.calm(ctx); err != nil {
			return o, fmt.Errorf("stat %s: %w", key, err)
		}
		w := s.watch(ctx)
		o, err = s.Store.Stat(w.ctx, key)
		err = w.verdict(err)
		w.stop()
		if err == nil {
			return o, nil
		}
		if err := t.again(ctx, err); err != nil {
			return objstore.Object{}, err
		}
	}
}

// List yields each key once. After a failure the store lists from the beginning
// again, and what has been yielded is left out, whatever order that store has. So it
// remembers each key that it has yielded: of a listing without end its caller takes no more than there is memory for.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		t, yielded := s.try("list", prefix), map[string]bool{}
		for {
			err := s.calm(ctx)
			if err == nil {
				for e, lerr := range s.Store.List(ctx, prefix) {
					if lerr != nil {
						err = lerr
						break
					}
					if yielded[e.Key] {
						continue
					}
					yielded[e.Key] = true
					if !yield(e, nil) {
						return
					}
					t.progressed()
				}
			}
			if err == nil {
				return
			}
			if err := t.again(ctx, err); err != nil {
				yield(objstore.Entry{}, err)
				return
			}
		}
	}
}

// Put tries again if r can be read again: if nothing has been read from it, or
// if it is an io.Seeker.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, size unit.Bytes) (o objstore.Object, err error) {
	start, seekable := int64(0), false
	seeker, ok := r.(io.Seeker)
	if ok {
		start, err = seeker.Seek(0, io.SeekCurrent)
		seekable = err == nil
	}
	t := s.try("put", key)
	for {
		if err := s.calm(ctx); err != nil {
			return o, fmt.Errorf("put %s: %w", key, err)
		}
		counted := &counter{Reader: r}
		if o, err = s.Store.Put(ctx, key, counted, size); err == nil {
			return o, nil
		}
		if counted.failed != nil {
			return objstore.Object{}, err // it is the caller's reader that failed
		}
		if counted.n > 0 {
			if !seekable {
				return objstore.Object{}, err
			}
			if _, serr := seeker.Seek(start, io.SeekStart); serr != nil {
				return objstore.Object{}, fmt.Errorf("%w (and going back for another attempt: %w)", err, serr)
			}
		}
		if err := t.again(ctx, err); err != nil {
			return objstore.Object{}, err
		}
	}
}

// counter counts what a Put has read, and remembers whose fault a failure was.
type counter struct {
	io.Reader
	n      int64
	failed error
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	if err != nil && err != io.EOF {
		c.failed = err
	}
	return n, err
}
