package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/pki"
)

// Agent is a node's side of the control plane. All fields but the first three
// may be left out.
type Agent struct {
	Hub         string           // HOST:PORT
	Credentials *pki.Credentials // of role node
	Runner      Runner

	Registration                                                                   // what to register; Addr is needed
	Dial         func(ctx context.Context, network, addr string) (net.Conn, error) // reaches the hub; nil: a net.Dialer
	Log          *slog.Logger
	Registered   func() // called after each registration

	CredentialsFile string              // where renewed Credentials are written; empty: nowhere
	RevokedFile     string              // where the list of removed nodes is kept for LoadRevoked; empty: nowhere
	Revoke          func(keys []string) // called with the keys (pki.PeerKey) of all removed nodes' certificates whenever they change

	current atomic.Pointer[member] // while Run runs
}

// Runner does the work of a node. All methods may be called at once. Their
// errors are shown to users as they are: one line, what and where and what to
// do.
type Runner interface {
	// Stat says what the source is now.
	Stat(ctx context.Context, spec Spec) (Source, error)

	// Prepare sees whether the node can take part: the destination can be
	// written, the store can be read. No more is fetched than the place of the job's challenge.
	Prepare(ctx context.Context, job Job) (Prepared, error)

	// Run takes part until this node's part has ended, well or badly; what it
	// returns is final. It calls report with snapshots as often as it likes; one
	// that says Done or Present means that the file is in its place, and only
	// others are still served. From lost come the names of members of which the hub
	// has no sign of life, all of them, again each second while there are any. When
	// ctx ends it cleans up and returns; context.Cause(ctx) says why. The course is
	// how it went; the zero one if there is nothing to tell.
	Run(ctx context.Context, job Job, lost <-chan []string, report func(NodeStatus)) (NodeStatus, account.Course)

	// Recording opens what the node has recorded of a job so far. ErrNoRecording.
	Recording(job string) (Recording, error)
}

// Recording is a file to read from.
type Recording interface {
	io.ReaderAt
	io.Closer
}

// member is a running Agent.
type member struct {
	a    *Agent
	name string
	log  *slog.Logger
	nc   *nats.Conn

	again chan struct{} // register again
	urge  chan struct{} // beat at once
	news  chan struct{} // a part is fresh

	removals chan struct{} // fetch the list of removed nodes

	wg sync.WaitGroup // requests and parts

	mu      sync.Mutex // guards what follows
	closed  bool
	leaving bool
	idle    chan struct{} // closed when leaving and no part is running; nil: not leaving
	beaten  time.Time     // when the hub last answered a beat
	parts   map[string]*part
	probing context.CancelCauseFunc // ends the part in a probe that is under way; nil: none is
	removed string                  // version of the list of removed nodes that is in force
}

// Run serves the hub until ctx ends, which is no error, or the hub refuses
// this node for good: ErrRemoved, ErrExpired, ErrRefused, *pki.OtherClusterError, and at the
// first registration also ErrUnreachable and ErrInvalid. A hub that is away is
// waited for; jobs go on meanwhile.
func (a *Agent) Run(ctx context.Context) error {
	m := &member{a: a, name: a.Credentials.Identity().Name, log: a.Log, parts: map[string]*part{}, again: make(chan struct{}, 1), urge: make(chan struct{}, 1), news: make(chan struct{}, 1), removals: make(chan struct{}, 1)}
	if m.log == nil {
		m.log = slog.Default()
	}
	if a.Credentials.Identity().Role != pki.Node {
		return fmt.Errorf("an agent needs a node's credentials, and these are %v's", a.Credentials.Identity())
	}
	if err := a.Registration.check(); err != nil {
		return err
	}
	if a.RevokedFile != "" {
		list, err := loadRevoked(a.RevokedFile)
		if err != nil {
			return err
		}
		m.removed = list.version()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := &link{hub: a.Hub, creds: a.Credentials, dial: a.Dial, final: func(err error) { cancel(err) },
		lost: func(error) {
			if ctx.Err() == nil {
				m.log.Warn("lost the control plane; running jobs go on", "hub", a.Hub)
			}
		},
		back: func() { m.log.Info("control plane is back", "hub", a.Hub); poke(m.again); poke(m.urge) },
	}
	if err := m.connect(ctx, l); err != nil {
		return ended(ctx, err)
	}
	defer m.nc.Close()
	a.current.Store(m)
	defer a.current.Store(nil)
	runs, stopRuns := context.WithCancelCause(context.WithoutCancel(ctx)) // outlive ctx until they have been told why
	defer stopRuns(nil)
	sub, err := m.nc.Subscribe("down."+m.name+".*", func(msg *nats.Msg) {
		m.spawn(func() { m.serve(runs, msg) })
	})
	if err != nil {
		return fmt.Errorf("listen to the hub: %w", err)
	}
	var loops sync.WaitGroup
	loops.Go(func() { m.register(ctx, cancel) })
	loops.Go(func() { m.beat(ctx) })
	loops.Go(func() { m.reportLoop(ctx) })
	loops.Go(func() { m.renewLoop(ctx, cancel) })
	loops.Go(func() { m.heedRemovals(ctx) })
	<-ctx.Done()
	sub.Unsubscribe()
	loops.Wait()
	why := cmp.Or(ended(ctx, nil), ErrStopped)
	m.close(why)
	stopRuns(why)
	m.wg.Wait()
	last, cancelLast := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancelLast()
	m.beatOnce(last, true)
	return ended(ctx, nil)
}

// ended is why a Run ended: err, or what ended ctx if that is more than a
// caller's own wish.
func ended(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == nil {
		return err
	}
	if errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
		return nil
	}
	return cause
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (m *member) spawn(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.wg.Go(f)
	}
}

// connect tries until it succeeds or it is of no use.
func (m *member) connect(ctx context.Context, l *link) error {
	for n := 1; ; n++ {
		nc, err := l.connect(ctx, ctx)
		if err == nil {
			m.nc = nc
			return nil
		}
		if ctx.Err() != nil || hopeless(err) {
			return err
		}
		if n == 1 {
			m.log.Warn("cannot connect to the control plane, trying on", "err", err)
		}
		select {
		case <-time.After(jitter(n)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// register registers at the start and whenever it is asked to.
func (m *member) register(ctx context.Context, cancel context.CancelCauseFunc) {
	body, err := json.Marshal(m.a.Registration)
	if err != nil {
		cancel(err)
		return
	}
	for first := true; ; {
		err := m.request(ctx, "register", body, dialBack+within, nil)
		wait := 500 * time.Millisecond
		switch {
		case err == nil:
			first = false
			poke(m.urge)
			if m.a.Registered != nil {
				m.a.Registered()
			}
			wait = 0
		case errors.Is(err, ErrNoSuchNode):
			cancel(removedFromCluster(m.name))
			return
		case first && (errors.Is(err, ErrUnreachable) || errors.Is(err, ErrInvalid)):
			cancel(err)
			return
		case errors.Is(err, ErrUnreachable):
			m.log.Warn("cannot register", "err", err)
			wait = 10 * time.Second
		}
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-timer:
		case <-m.again:
		case <-ctx.Done():
			return
		}
	}
}

func (m *member) request(ctx context.Context, verb string, body []byte, wait time.Duration, out any) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	r, err := m.nc.RequestWithContext(ctx, "up."+m.name+"."+verb, body)
	if err != nil {
		return err
	}
	return answered(r, out)
}

// beat says once a second that we live, and how our jobs are.
func (m *member) beat(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-m.urge: // at first by register: the hub knows us
		case <-ctx.Done():
			return
		}
		m.beatOnce(ctx, false)
	}
}

// beatOnce sends the state of all jobs and forgets those that need nothing
// more. With last set it is a farewell: only if there is something to say.
func (m *member) beatOnce(ctx context.Context, last bool) {
	var b beat
	now := time.Now()
	m.mu.Lock()
	b.Leaving = m.leaving
	for id, p := range m.parts {
		if p.waits() && now.Sub(p.since) > holdPrepared { // the hub never came back to start it
			delete(m.parts, id)
			continue
		}
		b.Jobs = append(b.Jobs, p.told(id, len(b.Jobs) < coursesAtOnce))
		p.fresh = false
		if p.running {
			b.Running++
		}
	}
	m.noteIdle()
	m.mu.Unlock()
	if last && len(b.Jobs) == 0 {
		return
	}
	body, err := json.Marshal(b)
	if err != nil {
		m.log.Error("cannot report", "err", err)
		return
	}
	var a beatAnswer
	if err := m.request(ctx, "beat", body, 3*time.Second, &a); err != nil {
		return // the hub is away; the next beat says it all again
	}
	if a.Unregistered {
		poke(m.again)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !a.Unregistered {
		m.beaten = time.Now()
	}
	if a.Revoked != m.removed {
		poke(m.removals)
	}
	for id, names := range a.Lost {
		if p := m.parts[id]; p != nil && p.running {
			p.lose(names)
		}
	}
	for _, id := range a.Drop {
		p := m.parts[id]
		if p == nil {
			continue
		}
		if p.running {
			p.dropped = true
			p.cancel(&stopped{reason: "the control plane has ended the job", kind: ErrCancelled})
			continue
		}
		delete(m.parts, id)
	}
	m.noteIdle()
}

// reportLoop sends what has changed, but not more often than every reportGap. One part changes more seldom
// itself, so its reports wait for no timer.
func (m *member) reportLoop(ctx context.Context) {
	for next := time.Now(); ; {
		select {
		case <-m.news:
		case <-ctx.Done():
			return
		}
		if wait := time.Until(next); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
		}
		next = time.Now().Add(reportGap)
		var r report
		m.mu.Lock()
		for id, p := range m.parts {
			if p.fresh {
				r.Jobs = append(r.Jobs, p.told(id, len(r.Jobs) < coursesAtOnce))
				p.fresh = false
			}
		}
		m.mu.Unlock()
		if len(r.Jobs) == 0 {
			continue
		}
		if body, err := json.Marshal(r); err == nil {
			m.nc.Publish("up."+m.name+".status", body)
		}
	}
}
