// Package pace holds bytes to a rate: of one connection, of a process, or of
// both at once.
//
// A Limiter is a token bucket (golang.org/x/time/rate) whose tokens are bytes.
// The bucket is deep enough for a read or write of ordinary size and shallow
// enough that a burst does not show in the queue of a switch: 10 ms at the
// limiter's rate, at least 64 KiB. Everything that asks for more waits in
// instalments, so no amount is too large.
//
// Reading is paid for afterwards, since nobody knows how much a read will
// deliver; keeping the next one back does as well. The receive window then
// fills and TCP holds the sender down. Writing is paid for beforehand, one
// bucketful at a time, so that the bytes leave evenly.
package pace

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/freshet/freshet/unit"
)

const (
	minBurst = 64 * unit.KiB
	burstFor = 10 * time.Millisecond
)

// Limiter lets bytes through at a rate. All methods may be called at once from
// several goroutines, which then share the rate. A nil *Limiter has no limit.
type Limiter struct {
	bucket *rate.Limiter
}

// New returns a limiter of r bytes a second, whose bucket is full. r ≤ 0 means
// no limit, for which New returns nil.
func New(r unit.Bandwidth) *Limiter {
	if !(r > 0) || math.IsInf(float64(r), 1) {
		return nil
	}
	burst := min(max(float64(r)*burstFor.Seconds(), float64(minBurst)), math.MaxInt32)
	return &Limiter{rate.NewLimiter(rate.Limit(r), int(burst))}
}

// Rate is the limiter's rate; 0 of a nil Limiter, which has none.
func (l *Limiter) Rate() unit.Bandwidth {
	if l == nil {
		return 0
	}
	return unit.Bandwidth(l.bucket.Limit())
}

// Burst is how many bytes pass at once when the bucket is full; 0 of a nil
// Limiter, which lets everything pass.
func (l *Limiter) Burst() int {
	if l == nil {
		return 0
	}
	return l.bucket.Burst()
}

// Wait returns when n bytes may pass, which may be many bucketfuls. If ctx
// ends first it returns ctx's error; what had been paid for until then stays
// paid.
func (l *Limiter) Wait(ctx context.Context, n int) error {
	if l == nil {
		return ctx.Err()
	}
	for n > 0 {
		part := min(n, l.bucket.Burst())
		if err := l.take(ctx, part); err != nil {
			return err
		}
		n -= part
	}
	return ctx.Err()
}

// take waits for n ≤ burst tokens. rate.Limiter.WaitN is not used since it
// refuses at once, with an error of its own, when ctx's deadline lies before
// the tokens' time: callers know context.DeadlineExceeded, and only when it is.
func (l *Limiter) take(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now := time.Now()
	due := l.bucket.ReserveN(now, n)
	if !due.OK() {
		return fmt.Errorf("pace: %d bytes do not fit a burst of %d", n, l.bucket.Burst())
	}
	delay := due.DelayFrom(now)
	if delay == 0 {
		return nil
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		due.Cancel()
		return ctx.Err()
	}
}

// wait waits for all of ls, one after the other: the slowest decides.
func wait(ctx context.Context, ls []*Limiter, n int) error {
	for _, l := range ls {
		if err := l.Wait(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// burst is the smallest burst of ls; math.MaxInt if none of them has a limit.
func burst(ls []*Limiter) int {
	n := math.MaxInt
	for _, l := range ls {
		if l != nil {
			n = min(n, l.Burst())
		}
	}
	return n
}

// present returns ls without its nils.
func present(ls []*Limiter) (out []*Limiter) {
	for _, l := range ls {
		if l != nil {
			out = append(out, l)
		}
	}
	return out
}

// Reader returns r at the rate of the slowest of ls; r itself if none of them
// has a limit. A read that ctx cuts short returns what it got and ctx's error.
func Reader(ctx context.Context, r io.Reader, ls ...*Limiter) io.Reader {
	ls = present(ls)
	if len(ls) == 0 {
		return r
	}
	return &reader{ctx, r, ls, burst(ls)}
}

type reader struct {
	ctx context.Context
	r   io.Reader
	ls  []*Limiter
	max int // bytes of one read at most
}

func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.r.Read(p[:min(len(p), r.max)])
	if waitErr := wait(r.ctx, r.ls, n); waitErr != nil && (err == nil || err == io.EOF) {
		err = waitErr
	}
	return n, err
}
