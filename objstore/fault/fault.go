// Package fault breaks a store by readable rules: a decorator for tests and
// for trying out what a job does when its source misbehaves. It follows
// Pebble's vfs/errorfs: what goes wrong stands in the test as a line of text.
//
//	s := fault.New(mem.New(), fault.MustParse(`
//		read first=10s -> 503 1s                      # busy for ten seconds
//		read offset=[1MiB,2MiB) nth=2 -> truncate 4096
//		stat key=secret/* -> denied
//	`))
//
// A rule is
//
//	[operation] [condition…] -> action
//
//	operation            which calls
//	stat read list put   that one
//	any, or nothing      all of them
//
//	condition            holds for
//	key=PATTERN          keys that path.Match finds to match; for list, the prefix
//	offset=[FROM,TO)     reads whose range has a byte in that one
//	first=10s            calls in the first 10 s of the Store's life
//	after=10s            calls later than that
//	nth=2                the second call for which all of the above holds
//	every=3              the third, the sixth, …
//	times=2              at most two calls (of those that every leaves)
//
//	action               what befalls the call
//	busy [1s], 503 [1s]  objstore.Busy, asking for so long a pause
//	429 [1s]             the same, in other words
//	500                  an error that is worth a retry and names no pause
//	reset [N]            the connection breaks: at once, or after N bytes of the reader
//	denied, missing      ErrDenied, ErrNotExist
//	replace [N]          a read gets ErrChanged: at once, or after N bytes of the reader
//	truncate N           a reader ends after N bytes with io.ErrUnexpectedEOF
//	flip N               a reader that covers byte N of the object delivers it with its lowest bit flipped
//	delay 2s             the call begins that much later; the rules after it still count
//	stall                the call, or the first read of its reader, takes until the context ends
//
// Sizes are written as package unit reads them, durations as time does. The
// rules of a Store are tried in their order, for each call anew: the first that
// fails the call decides, flips and delays add up, and nth and every count the
// calls that another rule decided too. There is no chance in it:
// the same calls in the same order meet the same faults, and Events tells which.
package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"sync"
	"syscall"
	"time"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/unit"
)

// Event is one fault that happened.
type Event struct {
	Rule string // as Rule.String prints it
	Op   string
	Key  string
	Off  unit.Bytes // of a read's range
	N    unit.Bytes // length of a read's range
	At   time.Duration
}

// Store is the broken store.
type Store struct {
	objstore.Store
	born time.Time

	mu     sync.Mutex // guards what follows
	rules  []armed
	events []Event
}

// armed is a rule with what it has seen.
type armed struct {
	Rule
	met  int // calls for which the conditions but nth, every and times held
	done int // those among them that it acted on
}

// New breaks s by rules; first and after count from now.
func New(s objstore.Store, rules []Rule) *Store {
	f := &Store{Store: s, born: time.Now()}
	f.Break(rules)
	return f
}

// Break puts rules in the place of those in force, with new counts; nil mends
// the store. The time that first and after count from stays.
func (s *Store) Break(rules []Rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = nil
	for _, r := range rules {
		s.rules = append(s.rules, armed{Rule: r})
	}
}

// Events lists the faults that happened, in their order.
func (s *Store) Events() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Event(nil), s.events...)
}

// fate is what the rules have for one call.
type fate struct {
	delay time.Duration
	flips []unit.Bytes // offsets in the object
	fatal Rule         // Action "" if there is none
}

// meet asks the rules about a call; off and n are a read's.
func (s *Store) meet(op, key string, off, n unit.Bytes) (f fate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	age := time.Since(s.born)
	for i := range s.rules {
		r := &s.rules[i]
		if !r.concerns(op, key, off, n, age) {
			continue
		}
		r.met++
		if f.fatal.Action != "" {
			continue // another has decided; the call is counted all the same
		}
		if r.Nth > 0 && r.met != r.Nth || r.Every > 0 && r.met%r.Every != 0 || r.Times > 0 && r.done == r.Times {
			continue
		}
		r.done++
		s.events = append(s.events, Event{Rule: r.String(), Op: op, Key: key, Off: off, N: n, At: age})
		switch r.Action {
		case "delay":
			f.delay += r.Wait
		case "flip":
			f.flips = append(f.flips, r.At)
		default:
			f.fatal = r.Rule
		}
	}
	return f
}

func (r *Rule) concerns(op, key string, off, n unit.Bytes, age time.Duration) bool {
	if r.Op != "any" && r.Op != op {
		return false
	}
	if r.Key != "" {
		if ok, _ := path.Match(r.Key, key); !ok {
			return false
		}
	}
	if r.Hi > 0 && (off >= r.Hi || off+n <= r.Lo) {
		return false
	}
	if r.Action == "flip" && (r.At < off || r.At >= off+n) {
		return false
	}
	return (r.First == 0 || age < r.First) && age >= r.After
}

// err is the action as the error of a call.
func (r Rule) err(op, key string) error {
	wrap := func(err error) error { return fmt.Errorf("%s %s: %w", op, key, err) }
	switch r.Action {
	case "busy", "503":
		return wrap(&objstore.Busy{After: r.Wait, Err: errors.New("503 Slow Down")})
	case "429":
		return wrap(&objstore.Busy{After: r.Wait, Err: errors.New("429 Too Many Requests")})
	case "500":
		return wrap(errors.New("500 Internal Server Error"))
	case "reset":
		return wrap(syscall.ECONNRESET)
	case "denied":
		return wrap(objstore.ErrDenied)
	case "missing":
		return wrap(objstore.ErrNotExist)
	case "replace":
		return wrap(objstore.ErrChanged)
	case "truncate":
		return wrap(io.ErrUnexpectedEOF)
	}
	panic("fault: action " + r.Action + " is no error")
}

// before does what comes before a call that is not a read; an error is the
// call's.
func (s *Store) before(ctx context.Context, op, key string) error {
	f := s.meet(op, key, 0, 0)
	if err := f.wait(ctx, op, key); err != nil {
		return err
	}
	switch f.fatal.Action {
	case "":
		return nil
	case "stall":
		<-ctx.Done()
		return fmt.Errorf("%s %s: %w", op, key, ctx.Err())
	}
	return f.fatal.err(op, key)
}

func (f fate) wait(ctx context.Context, op, key string) error {
	if f.delay == 0 {
		return nil
	}
	timer := time.NewTimer(f.delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("%s %s: %w", op, key, ctx.Err())
	case <-timer.C:
		return nil
	}
}

// Stat, List and Put fail as the rules want it, or are the store's own.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Object, error) {
	if err := s.before(ctx, "stat", key); err != nil {
		return objstore.Object{}, err
	}
	return s.Store.Stat(ctx, key)
}

func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		if err := s.before(ctx, "list", prefix); err != nil {
			yield(objstore.Entry{}, err)
			return
		}
		for e, err := range s.Store.List(ctx, prefix) {
			if !yield(e, err) {
				return
			}
		}
	}
}

func (s *Store) Put(ctx context.Context, key string, r io.Reader, size unit.Bytes) (objstore.Object, error) {
	if err := s.before(ctx, "put", key); err != nil {
		return objstore.Object{}, err
	}
	return s.Store.Put(ctx, key, r, size)
}

// ReadRange fails at once for an error without a position, and returns a
// reader that fails for the rest.
func (s *Store) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	f := s.meet("read", o.Key, off, n)
	if err := f.wait(ctx, "read", o.Key); err != nil {
		return nil, err
	}
	inner := f.fatal.Action == "" || f.fatal.Action == "stall" || f.fatal.Action == "truncate" || f.fatal.At > 0
	if !inner {
		return nil, f.fatal.err("read", o.Key)
	}
	body, err := s.Store.ReadRange(ctx, o, off, n)
	if err != nil || f.fatal.Action == "" && len(f.flips) == 0 {
		return body, err
	}
	return &reader{body: body, ctx: ctx, key: o.Key, off: off, fate: f}, nil
}

// reader is a body that goes wrong.
type reader struct {
	body io.ReadCloser
	ctx  context.Context // of the call: it covers the reading, by Store's contract
	key  string
	off  unit.Bytes // in the object, of the next byte
	done unit.Bytes // bytes delivered
	fate
}

func (r *reader) Read(p []byte) (int, error) {
	switch r.fatal.Action {
	case "":
	case "stall":
		<-r.ctx.Done()
		return 0, fmt.Errorf("read %s: %w", r.key, r.ctx.Err())
	default:
		if r.done >= r.fatal.At {
			return 0, r.fatal.err("read", r.key)
		}
		p = p[:min(unit.Bytes(len(p)), r.fatal.At-r.done)]
	}
	n, err := r.body.Read(p)
	for _, at := range r.flips {
		if i := at - r.off; i >= 0 && i < unit.Bytes(n) {
			p[i] ^= 1
		}
	}
	r.off += unit.Bytes(n)
	r.done += unit.Bytes(n)
	return n, err
}

func (r *reader) Close() error { return r.body.Close() }
