package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/peer"
)

// Why a job's context ends, for context.Cause and errors.Is.
var (
	ErrCancelled = errors.New("cancelled")
	ErrTimedOut  = errors.New("timed out")
	ErrStopped   = errors.New("stopped by its operator")
)

// part is this node's part of a job.
//
//	prepared ──> running ──> ended ──> the hub has it on its disk: forgotten
//
// While it runs its status may say done or present already: the file is in its
// place, and the node goes on giving to others.
type part struct {
	job      Job
	since    time.Time // of the preparation
	prepared Prepared
	status   NodeStatus
	course   *account.Course         // once the Runner has ended
	lost     chan []string           // for the Runner; has room for one
	cancel   context.CancelCauseFunc // nil: not started
	running  bool                    // the Runner is at it
	fresh    bool                    // status has changed since it was last sent
	dropped  bool                    // the hub wants no more of it
}

// serve answers one request of the hub.
func (m *member) serve(ctx context.Context, msg *nats.Msg) {
	verb := msg.Subject[len("down."+m.name+"."):]
	v, err := m.call(ctx, verb, msg.Data)
	if c, ok := v.(*nats.Msg); ok && err == nil {
		c.Subject = msg.Reply
		msg.RespondMsg(c)
		return
	}
	answer(msg, v, err)
}

func (m *member) call(ctx context.Context, verb string, body []byte) (any, error) {
	read := func(v any) error {
		if err := json.Unmarshal(body, v); err != nil {
			return fail(ErrInvalid, "unreadable request to %s: %v", verb, err)
		}
		return nil
	}
	switch verb {
	case "stat":
		var s Spec
		if err := read(&s); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, s.statLimit()-time.Second)
		defer cancel()
		return m.a.Runner.Stat(ctx, s)
	case "prepare":
		var j Job
		if err := read(&j); err != nil {
			return nil, err
		}
		return m.prepare(ctx, j)
	case "start":
		var s start
		if err := read(&s); err != nil {
			return nil, err
		}
		return nil, m.start(ctx, s)
	case "cancel":
		var s stop
		if err := read(&s); err != nil {
			return nil, err
		}
		m.stop(s)
		return nil, nil
	case "check":
		var r CheckRequest
		if err := read(&r); err != nil {
			return nil, err
		}
		return m.check(ctx, r)
	case "probe":
		var s ProbeStep
		if err := read(&s); err != nil {
			return nil, err
		}
		return m.probe(ctx, s)
	case "recording":
		var c chunk
		if err := read(&c); err != nil {
			return nil, err
		}
		return m.recording(c)
	}
	return nil, fail(ErrRefused, "this agent does not know the request %q: it runs another version of Freshet", oneLine(verb))
}

var errLeaving = fail(ErrRefused, "the node is being stopped by its operator")

func (m *member) prepare(ctx context.Context, j Job) (Prepared, error) {
	if len(j.ID) != idChars || !isIDPrefix(j.ID) {
		return Prepared{}, fail(ErrInvalid, "%q is no job's ID", peer.Printable(j.ID, 40))
	}
	m.mu.Lock()
	if m.leaving {
		m.mu.Unlock()
		return Prepared{}, errLeaving
	}
	for id, p := range m.parts {
		if id == j.ID {
			m.mu.Unlock()
			return p.prepared, nil
		}
		if p.job.Spec.Dest == j.Spec.Dest && p.running { // what was only prepared may be over for the hub
			m.mu.Unlock()
			return Prepared{}, fail(ErrConflict, "job %s is writing to %s already", id, j.Spec.Dest)
		}
	}
	if m.probing != nil {
		m.probing(errJobCame)
	}
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, prepareWithin-time.Second)
	defer cancel()
	p, err := m.a.Runner.Prepare(ctx, j)
	if err != nil {
		return Prepared{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leaving || m.closed { // Leave does not wait for what it has not seen
		return Prepared{}, errLeaving
	}
	if m.parts[j.ID] == nil {
		m.parts[j.ID] = &part{job: j, since: time.Now(), prepared: p, status: NodeStatus{Name: m.name, State: Preparing}}
	}
	return p, nil
}

// start starts a job that was prepared, once, however often it is told.
func (m *member) start(ctx context.Context, s start) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.parts[s.Job.ID]
	if p == nil {
		return fail(ErrRefused, "agent restarted during the job")
	}
	if p.cancel != nil || m.closed {
		return nil
	}
	if m.probing != nil {
		m.probing(errJobCame)
	}
	files := p.job.Files
	p.job = s.Job
	if len(p.job.Files) == 0 { // they were in what it prepared
		p.job.Files = files
	}
	if s.Age > 0 { // by our own clock, which may be another than the hub's
		p.job.Accepted = time.Now().Add(-time.Duration(s.Age))
	}
	p.status = NodeStatus{Name: m.name, State: Running}
	p.fresh, p.running, p.lost = true, true, make(chan []string, 1)
	poke(m.news)
	ctx, p.cancel = context.WithCancelCause(ctx)
	m.wg.Go(func() { m.run(ctx, p, time.Duration(s.Left)) })
	return nil
}

func (m *member) run(ctx context.Context, p *part, left time.Duration) {
	defer p.cancel(nil)
	if left > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, left, &stopped{kind: ErrTimedOut, failed: true, reason: fmt.Sprintf("timed out after %v", p.job.Spec.Timeout)})
		defer stop()
	}
	final, course := m.a.Runner.Run(ctx, p.job, p.lost, func(s NodeStatus) {
		m.mu.Lock()
		defer m.mu.Unlock()
		s.Name = m.name
		if next, ok := reported(p.status, s); ok && p.running {
			p.status, p.fresh = next, true
			poke(m.news)
		}
	})
	final = outcome(final, context.Cause(ctx))
	final.Name = m.name
	m.mu.Lock()
	p.status, p.course, p.fresh, p.running = settle(p.status, final), &course, true, false
	if p.dropped {
		delete(m.parts, p.job.ID)
	}
	m.noteIdle()
	m.mu.Unlock()
	poke(m.news) // a beat may be waiting for an answer that is lost
	poke(m.urge)
}

// waits says whether a part is prepared only.
func (p *part) waits() bool { return p.cancel == nil }

// told is what there is to tell of a part, with its course if there is room. The
// member's mutex is held.
func (p *part) told(id string, room bool) jobStatus {
	s := jobStatus{Job: id, Status: p.status}
	if room {
		s.Course = p.course
	}
	return s
}

// lose tells the Runner that the hub has no sign of life of these members. The
// member's mutex is held, so nobody else puts anything in.
func (p *part) lose(names []string) {
	select {
	case <-p.lost:
	default:
	}
	p.lost <- names
}

// reported is a part's status after a snapshot that its Runner gave. That it
// has failed only what Run returns can say.
func reported(last, s NodeStatus) (NodeStatus, bool) {
	switch s.State {
	case Running:
		return s, last.State == Running
	case Done, Present:
		s.Serving, s.Error = true, ""
		return s, true
	}
	return last, false
}

// settle is a part's last status: final, unless the node has said that it is
// done. Whatever became of its giving to others, its file is in its place; but if that turned out to be wrong it is not done.
func settle(last, final NodeStatus) NodeStatus {
	final.Serving = false
	if last.State != Done || final.State == Done || final.Wrong {
		return final
	}
	last.Serving, last.Waiting = false, ""
	last.StoreBytes, last.PeerBytes = max(last.StoreBytes, final.StoreBytes), max(last.PeerBytes, final.PeerBytes)
	last.SentBytes, last.StoreS = max(last.SentBytes, final.SentBytes), max(last.StoreS, final.StoreS)
	last.CrossedBytes = max(last.CrossedBytes, final.CrossedBytes)
	last.SHA256 = cmp.Or(last.SHA256, final.SHA256)
	return last
}

// outcome is a part's final status: what Run returned, in the words of what
// ended it early if something did.
func outcome(s NodeStatus, why error) NodeStatus {
	s.Waiting = ""
	if s.State == Done || s.State == Present || s.Wrong {
		return s
	}
	if e, ok := errors.AsType[*stopped](why); ok {
		s.State, s.Error = Cancelled, e.reason
		if e.failed {
			s.State = Failed
		}
		return s
	}
	if why != nil {
		s.State, s.Error = Failed, why.Error()
		return s
	}
	if !s.State.Ended() {
		s.State, s.Error = Failed, "the node's part ended without an outcome"
	}
	return s
}

// stopped is why a part was ended from outside.
type stopped struct {
	kind   error
	reason string
	failed bool // the part counts as failed, not as cancelled
}

func (s *stopped) Error() string { return s.reason }
func (s *stopped) Unwrap() error { return s.kind }

// stop ends a part. One that is prepared only is forgotten.
func (m *member) stop(s stop) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.parts[s.Job]
	switch {
	case p == nil:
	case p.waits():
		delete(m.parts, s.Job)
		m.noteIdle()
	case p.running:
		kind := ErrCancelled
		if s.Failed {
			kind = ErrTimedOut
		}
		p.cancel(&stopped{kind: kind, reason: oneLine(s.Reason), failed: s.Failed})
	}
}

// recording reads a chunk of what was recorded of a job.
func (m *member) recording(c chunk) (*nats.Msg, error) {
	if c.Off < 0 || c.N <= 0 || c.N > maxChunk {
		return nil, fail(ErrInvalid, "%d bytes at %d of a recording: want up to %d", c.N, c.Off, maxChunk)
	}
	r, err := m.a.Runner.Recording(c.Job)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b := make([]byte, c.N)
	n, err := r.ReadAt(b, c.Off)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: read the recording of job %s: %w", m.name, c.Job, err)
	}
	out := &nats.Msg{Data: b[:n], Header: nats.Header{}}
	if err != nil {
		out.Header.Set(headerEnd, "1")
	}
	return out, nil
}
