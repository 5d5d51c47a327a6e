package retry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/unit"
)

// ReadRange returns when the store has begun to answer; a body that breaks off
// later is resumed while it is read.
func (s *Store) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	r := &reader{s: s, ctx: ctx, o: o, off: off, left: n, t: s.try("read", o.Key)}
	if err := r.open(); err != nil {
		return nil, err
	}
	return r, nil
}

// reader is a range that is read by one attempt after the other.
type reader struct {
	s   *Store
	ctx context.Context // of the call: it covers the reading, by Store's contract
	o   objstore.Object
	t   *try

	off, left unit.Bytes // what is still to be read
	began     bool       // bytes have been delivered
	body      io.ReadCloser
	watch     *watch
	err       error // final
}

// open makes attempts until one has a body.
func (r *reader) open() error {
	for {
		if err := r.s.calm(r.ctx); err != nil {
			return fmt.Errorf("read %s: %w", r.o.Key, err)
		}
		w := r.s.watch(r.ctx)
		body, err := r.s.Store.ReadRange(w.ctx, r.o, r.off, r.left)
		err = w.verdict(err)
		if err == nil {
			r.body, r.watch = body, w
			return nil
		}
		if body != nil {
			body.Close() // it came when its time was over
		}
		w.stop()
		if err := r.t.again(r.ctx, err); err != nil {
			return err
		}
	}
}

func (r *reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.left == 0 {
		return 0, r.finish()
	}
	if len(p) == 0 {
		return 0, nil
	}
	r.t.progress = time.Now() // patience is with the store: our caller may have left us alone for long, and the store given up on us
	for {
		if r.body == nil {
			if err := r.open(); err != nil {
				r.err = err
				return 0, err
			}
		}
		r.watch.begin()
		n, err := r.body.Read(p[:min(unit.Bytes(len(p)), r.left)])
		r.watch.pause()
		if n > 0 {
			r.off, r.left, r.began = r.off+unit.Bytes(n), r.left-unit.Bytes(n), true
			r.t.progressed()
		}
		if err == nil && n > 0 || err == io.EOF && r.left == 0 {
			return n, nil
		}
		if r.left == 0 && objstore.Temporary(err) {
			return n, nil // what breaks behind the last byte is nobody's loss
		}
		if err == nil {
			continue
		}
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		err = r.watch.verdict(err)
		r.drop()
		if !r.o.Ranges && r.began {
			err = fmt.Errorf("read %s at %v: %w (and the store cannot resume)", r.o.Key, r.off, err)
		} else if err = r.t.again(r.ctx, err); err == nil {
			if n > 0 {
				return n, nil
			}
			continue
		}
		r.err = err
		return n, err
	}
}

// finish is what a reader says that has delivered everything. The body is read
// to its own end: a store may know only there that the object was replaced, and
// a connection can be used again only after it.
func (r *reader) finish() error {
	r.err = io.EOF
	if r.body != nil {
		r.watch.begin()
		if _, err := r.body.Read(make([]byte, 1)); err != nil && err != io.EOF && !objstore.Temporary(err) && r.ctx.Err() == nil {
			r.err = err
		}
		r.drop()
	}
	return r.err
}

func (r *reader) drop() {
	if r.body != nil {
		r.body.Close()
		r.watch.stop()
		r.body, r.watch = nil, nil
	}
}

// Close ends the reading; it is the store's own answer that it returns.
func (r *reader) Close() error {
	if r.err == nil {
		r.err = fmt.Errorf("read %s: reader is closed", r.o.Key)
	}
	if r.body == nil {
		return nil
	}
	err := r.body.Close()
	r.watch.stop()
	r.body, r.watch = nil, nil
	return err
}

// watch breaks an attempt off that delivers nothing. Its context is the
// attempt's; only while something is being waited for does its time run, since
// a reader that its caller leaves alone has not stalled.
type watch struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	after  time.Duration
	timer  *time.Timer // nil: for ever
}

// watch begins an attempt, its time running.
func (s *Store) watch(ctx context.Context) *watch {
	w := &watch{after: s.policy.Stall}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	if w.after > 0 {
		w.timer = time.AfterFunc(w.after, func() { w.cancel(ErrStalled) })
	}
	return w
}

func (w *watch) begin() {
	if w.timer != nil {
		w.timer.Reset(w.after)
	}
}

func (w *watch) pause() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// verdict ends the waiting and says why the attempt failed: a context that the
// watch ended is a stall and not the caller's wish. Once the context has been
// ended, an attempt has failed whatever it returned.
func (w *watch) verdict(err error) error {
	w.pause()
	if errors.Is(context.Cause(w.ctx), ErrStalled) {
		return fmt.Errorf("%w for %v", ErrStalled, w.after)
	}
	return err
}

func (w *watch) stop() {
	w.pause()
	w.cancel(nil)
}
