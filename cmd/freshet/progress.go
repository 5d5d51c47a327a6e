package main

import (
	"context"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/objstore/open"
	"github.com/freshet/freshet/unit"
)

// follower shows a job while it runs.
type follower struct {
	out, err io.Writer
	quiet    bool

	mu      sync.Mutex // guards what follows
	display display    // nil before there is something to show
}

// display is where progress is shown: bars on a terminal, lines elsewhere.
type display interface {
	update(job freshet.Job) // a newer snapshot
	say(line string)        // something worth a line of its own
	end()                   // nothing is shown any more
}

// none shows nothing, for --json.
type none struct{ err io.Writer }

func (none) update(freshet.Job) {}
func (n none) say(line string)  { fmt.Fprintln(n.err, "freshet: "+line) }
func (none) end()               {}

// hub is told when the control plane is lost (err) and when it is back (nil).
func (f *follower) hub(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.display == nil: // a call says so itself
	case err != nil:
		f.display.say(err.Error() + "; the job goes on meanwhile")
	default:
		f.display.say("the control plane is back")
	}
}

func (f *follower) show(d display) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.display = d
}

// How long a cancelled job may take to end everywhere.
const cancelWithin = 60 * time.Second

// follow shows the job until it has ended. When ctx ends first, it cancels the
// job and shows that, if cancels is set; else it leaves the job alone.
func (f *follower) follow(ctx context.Context, c *freshet.Client, id string, cancels bool) (job freshet.Job, err error) {
	var d display
	switch {
	case f.quiet:
		d = none{f.err}
	case isTerminal(f.out):
		d = newView(f.out)
	default:
		d = newLines(f.out)
	}
	f.show(d)
	defer func() {
		f.show(nil)
		d.end()
	}()

	watch, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	cancelled := make(chan error, 1)
	unwatch := context.AfterFunc(ctx, func() {
		if !cancels {
			cancelled <- nil
			stop()
			return
		}
		d.say("interrupted: cancelling job " + id + " on all nodes (Ctrl-C again leaves at once)")
		late, done := context.WithTimeout(watch, cancelWithin)
		defer done()
		_, err := c.Cancel(late, id)
		cancelled <- err
		if err != nil {
			stop()
			return
		}
		<-late.Done() // the job's end, or no more patience
		stop()
	})
	for j, e := range c.Watch(watch, id) {
		if e != nil {
			err = e
			break
		}
		job = j
		d.update(j)
	}
	if unwatch() {
		return job, err // not interrupted
	}
	why := <-cancelled
	switch {
	case job.State.Ended() && job.State != freshet.Cancelled && err == nil:
		return job, nil // it was through already
	case !cancels:
		return job, fmt.Errorf("%w; job %s goes on: \"freshet cancel %[2]s\" ends it", errInterrupted, id)
	case why != nil:
		return job, fmt.Errorf("%w, but job %s could not be cancelled (%w): try \"freshet cancel %[2]s\"", errInterrupted, id, why)
	case err != nil:
		return job, fmt.Errorf("%w; job %s was told to stop and had not within %v: see \"freshet job %[2]s\"", errInterrupted, id, cancelWithin)
	}
	return job, fmt.Errorf("%w: job %s is cancelled; %s", errInterrupted, id, had(job))
}

// heading says in a line what a job is.
func heading(j freshet.Job) string {
	source := open.Redact(j.Spec.Source)
	if !strings.HasPrefix(source, "file:") { // in which a question mark is part of a name
		source, _, _ = strings.Cut(source, "?") // what follows, an endpoint, has slashes
	}
	return fmt.Sprintf("job %s: %s, %s, to %s as %s (%s)", j.ID, path.Base(source), size(j),
		count(len(j.Nodes), "node"), j.Spec.Dest, j.Spec.Algorithm)
}

// size is that of a job's object, or of its files together.
func size(j freshet.Job) string {
	if j.FileCount == 0 {
		return j.Object.Size.String()
	}
	return fmt.Sprintf("%v in %s", j.Object.Size, count(j.FileCount, "file"))
}

func percent(n, of unit.Bytes) string {
	if of == 0 {
		return "-"
	}
	p := 100 * float64(n) / float64(of)
	if n < of {
		p = min(p, 99) // 100 % is all
	}
	return fmt.Sprintf("%.0f%%", p)
}

// meter measures how fast something grows, over the last few seconds.
type meter struct {
	at   []time.Time
	have []unit.Bytes
}

const meterSpan = 3 * time.Second

func (m *meter) note(now time.Time, have unit.Bytes) {
	m.at, m.have = append(m.at, now), append(m.have, have)
	for len(m.at) > 2 && now.Sub(m.at[1]) > meterSpan {
		m.at, m.have = m.at[1:], m.have[1:]
	}
}

// rate is bytes per second as of now; a stall lets it sink.
func (m *meter) rate(now time.Time) unit.Bandwidth {
	if len(m.at) == 0 {
		return 0
	}
	span := now.Sub(m.at[0]).Seconds()
	if span <= 0 {
		return 0
	}
	return unit.Bandwidth(float64(m.have[len(m.have)-1]-m.have[0]) / span)
}

// totals adds up what the nodes of a job have.
func totals(j freshet.Job) (have, store, peers unit.Bytes, ended int) {
	for _, n := range j.Nodes {
		if n.State == freshet.Present {
			have = account.Sum(have, j.Object.Size)
		} else {
			have = account.Sum(have, n.Have)
		}
		store, peers = account.Sum(store, n.StoreBytes), account.Sum(peers, n.PeerBytes)
		if n.State.Ended() {
			ended++
		}
	}
	return have, store, peers, ended
}
