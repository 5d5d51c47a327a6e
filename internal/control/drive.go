package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/objstore"
)

// driven is a job that has not ended. Its machine belongs to one goroutine,
// drive; all others send it events and read its snapshots.
type driven struct {
	events chan event
	done   chan struct{}            // closed when drive has returned
	saved  atomic.Pointer[Job]      // as it is on disk
	latest atomic.Pointer[Job]      // as it was at the last tick or save
	lost   atomic.Pointer[[]string] // members of which there is no sign of life
	rev    uint64                   // drive's: the record's revision in its bucket
	files  Files                    // of a job of several; set before anybody else has it

	mu      sync.Mutex // guards courses
	courses map[string]account.Course
}

func newDriven(j Job) *driven {
	d := &driven{events: make(chan event, 4096), done: make(chan struct{})}
	d.saved.Store(&j)
	d.latest.Store(&j)
	return d
}

// offer hands over an event that will come again if it gets lost.
func (d *driven) offer(e event) {
	select {
	case d.events <- e:
	default:
	}
}

// send hands over an event that must arrive.
func (d *driven) send(ctx context.Context, e event) {
	select {
	case d.events <- e:
	case <-d.done:
	case <-ctx.Done():
	}
}

// lastWrite is how long a hub that ends tries to write down what nodes have told it.
const lastWrite = 2 * time.Second

// ownNode is the node in the hub's process; empty: there is none.
func (h *Hub) ownNode() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.own
}

// drive runs a job's machine until the job has ended or ctx has.
// changed says that the machine is ahead of the record.
//
// The record is written, and watchers are told, once for all that has happened since the last tick: where a
// thousand nodes end, each with two reports that have to be on disk, a record of a thousand nodes is not written for each of them.
// It is written before that where a command follows from what has to be on disk first, and at the end.
func (h *Hub) drive(ctx context.Context, d *driven, m *machine, changed bool) {
	defer close(d.done)
	tick := time.NewTicker(recordEvery)
	defer tick.Stop()
	var (
		cmds      []command // to be carried out
		unsaved   = changed // the record on disk lacks something that has to be there
		urgent    bool      // and some of the commands follow from that
		news      = true    // watchers do, of what they see
		said      []byte    // what they get: latest, as JSON
		published time.Time
		shortened bool
	)
	take := func(now time.Time, e event) {
		more, changed, durable := m.step(now, e)
		cmds, news, unsaved = append(cmds, more...), news || changed, unsaved || durable
		urgent = urgent || durable && len(more) > 0
	}
	show := func(j Job, b []byte) {
		d.latest.Store(&j)
		said = b
	}
	publish := func() {
		published = time.Now()
		h.nc.Publish("watch.job."+m.job.ID, said)
	}
	save := func(ctx context.Context) bool {
		if m.job.State.Ended() { // who sees the end finds them
			h.saveCourses(ctx, d)
		}
		j, b, cut := fitting(m.snapshot(), h.recordLimit())
		if cut && !shortened {
			shortened = true
			h.log.Warn("a job's record is larger than NATS takes, so it has not all that nodes say", "job", j.ID, "nodes", len(j.Nodes), "max_payload", h.store.nc.MaxPayload())
		}
		rev, ok := h.save(ctx, j, d.rev)
		if !ok {
			return false
		}
		d.rev, unsaved, urgent = rev, false, false
		d.saved.Store(&j)
		show(j, b)
		return true
	}
	if unsaved && !save(ctx) {
		return
	}
	woke := time.Now()
	m.own = h.ownNode()
	for !m.job.State.Ended() {
		var first event
		ticking := false
		select {
		case first = <-d.events:
		case <-tick.C:
			ticking = true
		case <-ctx.Done():
			for range len(d.events) { // what nodes have said, and were answered
				take(time.Now(), <-d.events)
			}
			if unsaved {
				last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
				defer cancel()
				save(last)
			}
			return
		}
		now := time.Now()
		if gap := now.Sub(woke); gap > awayAfter { // stopped, or writing to a store that was away
			take(now, wasAway{gap})
		}
		woke = now
		if first != nil {
			take(now, first)
		}
		for range len(d.events) { // nobody else receives
			take(now, <-d.events)
		}
		if ticking { // what has been heard counts before what has not
			m.own = h.ownNode()
			take(now, ticked{})
		}
		lost := slices.Sorted(maps.Keys(m.lost))
		d.lost.Store(&lost)
		if unsaved && (ticking || urgent || m.job.State.Ended()) && !save(ctx) {
			return
		}
		h.carryOut(ctx, d, m, cmds)
		cmds = nil
		if !ticking {
			continue
		}
		if news {
			j, b, _ := fitting(m.snapshot(), maxPayload)
			show(j, b)
		}
		if news || time.Since(published) > 2*time.Second {
			publish()
			news = false
		}
	}
	publish()
	h.retire(ctx, m.job)
}

// recordLimit is how many bytes NATS takes in a message: a job's record, and around.
func (h *Hub) recordLimit() int { return min(int(h.store.nc.MaxPayload()), maxPayload) }

// around is what a message has around a record, in bytes.
const around = 1024

// fewestLetters is how many letters of a node's error are left where there is no room: as many as wasLost needs.
const fewestLetters = len("lost: …")

// fullest is a record of a job that is as large as any can become that fitting has made fit: as if all nodes that are up took part, and
// all that can be said of each were so at the same time.
func (m *machine) fullest() Job {
	j := m.snapshot()
	words := strings.Repeat("<", maxErrorText+100) // JSON makes six letters of each, as of no other
	j.Stopping, j.Error = words, words
	for i, n := range j.Nodes {
		if addr, up := m.addrs[n.Name]; up {
			j.Members = append(j.Members, Member{Name: n.Name, Addr: addr, Held: true, NoAccess: true, Site: m.sites[n.Name]})
		}
		j.Nodes[i] = NodeStatus{Name: n.Name, State: Cancelled, Serving: true, Have: j.Object.Size, NoAccess: true, Error: words[:fewestLetters]}
	}
	return j
}

// fitting is j as it fits a message of limit bytes, and its JSON. Where its nodes say too much for that, first what they
// saw of others is left out, then their words are cut short, and at last their figures are left out, and most of their words; cut says that something is.
func fitting(j Job, limit int) (_ Job, b []byte, cut bool) {
	b, _ = json.Marshal(j)
	for _, keep := range []struct {
		faults, letters int
		figures         bool
	}{{4, maxErrorText, true}, {1, 200, true}, {0, 200, true}, {0, 64, true}, {0, 64, false}, {0, fewestLetters, false}} {
		if len(b)+around <= limit {
			break
		}
		cut = true
		j.Nodes = slices.Clone(j.Nodes)
		for i := range j.Nodes {
			n := &j.Nodes[i]
			if !keep.figures {
				*n = NodeStatus{Name: n.Name, State: n.State, Serving: n.Serving, Have: n.Have, NoAccess: n.NoAccess, Error: n.Error}
			}
			n.Error, n.Waiting = peer.Printable(n.Error, keep.letters), peer.Printable(n.Waiting, keep.letters)
			n.Faults = slices.Clone(n.Faults[:min(len(n.Faults), keep.faults)])
			for k := range n.Faults {
				n.Faults[k].Cause = peer.Printable(n.Faults[k].Cause, keep.letters)
			}
		}
		b, _ = json.Marshal(j)
	}
	return j, b, cut
}

// save writes a record, trying until it succeeds. ok is false if ctx ended or
// somebody else writes the same records.
func (h *Hub) save(ctx context.Context, j Job, rev uint64) (next uint64, ok bool) {
	for failing := false; ; failing = true {
		next, err := putOwn(ctx, h.store.jobs, j.ID, j, rev)
		if err == nil {
			return next, true
		}
		if ctx.Err() != nil {
			return 0, false
		}
		if errors.Is(err, errChangedByOther) {
			h.fatal(fmt.Errorf("record of job %s: %w: two control planes must not run on the same records", j.ID, err))
			return 0, false
		}
		if !failing {
			h.log.Warn("cannot write a job's record, trying again", "job", j.ID, "err", err)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return 0, false
		}
	}
}

// retire files a job that has ended, and forgets the oldest of the others beyond keepJobs.
func (h *Hub) retire(ctx context.Context, j Job) {
	h.log.Info("job ended", "job", j.ID, "state", j.State, "err", j.Error)
	h.mu.Lock()
	delete(h.active, j.ID)
	i, _ := slices.BinarySearch(h.ended, j.ID)
	h.ended = slices.Insert(h.ended, i, j.ID)
	h.outcomes[j.ID] = j.State
	kept, old := outlived(h.ended, j.ID)
	h.ended = kept
	for _, id := range old {
		delete(h.outcomes, id)
	}
	h.mu.Unlock()
	for _, id := range old {
		for _, kv := range []jetstream.KeyValue{h.store.jobs, h.store.courses, h.store.files} {
			if err := drop(ctx, kv, id); err != nil && ctx.Err() == nil {
				h.log.Warn("cannot remove an old job's record", "job", id, "err", err)
			}
		}
	}
}

// outlived parts the IDs of ended jobs, the oldest first, into keepJobs that are kept and the others. Of these is not the one that has
// just ended: while the clock was ahead others got IDs by which it looks like the oldest.
func outlived(ended []string, just string) (kept, old []string) {
	for _, id := range ended {
		if len(old) < len(ended)-keepJobs && id != just {
			old = append(old, id)
		} else {
			kept = append(kept, id)
		}
	}
	return kept, old
}

// carryOut sends the commands of a step, each in its own goroutine.
func (h *Hub) carryOut(ctx context.Context, d *driven, m *machine, cmds []command) {
	if len(cmds) == 0 {
		return
	}
	describe := func(files Files) []byte {
		job := m.job
		job.Nodes, job.NodeCount = nil, len(job.Nodes) // a node needs the members, not how the others are doing
		job.Files = files
		b, _ := json.Marshal(job)
		return b
	}
	var prepare []byte      // with the files, of which there may be thousands
	var begin func() []byte // without: whoever has prepared has them
	for _, c := range cmds {
		switch c.(type) {
		case cmdPrepare:
			if prepare == nil {
				prepare = describe(d.files)
			}
		case cmdStart:
			if begin == nil {
				begin = startBody(describe(nil), m.accepted, m.timeout)
			}
		}
	}
	for _, c := range cmds {
		switch c := c.(type) {
		case cmdPrepare:
			h.spawn(func() {
				var p Prepared
				e := wasPrepared{node: c.node}
				switch err := h.ask(ctx, c.node, "prepare", prepare, prepareWithin, &p); {
				case errors.Is(err, errSilent): // the machine has the same deadline, and the words for it
					return
				case err != nil:
					e.err = err.Error()
				default:
					e.present, e.noAccess = p.Present, oneLine(p.NoAccess)
				}
				d.send(ctx, e)
			})
		case cmdStart:
			h.spawn(func() {
				answer, err := h.askRaw(ctx, c.node, "start", begin, beatEvery)
				if err == nil {
					err = answered(answer, nil)
				}
				if err != nil && !errors.Is(err, errSilent) {
					d.send(ctx, notStarted{c.node, err.Error()})
				}
			})
		case cmdStop:
			b, _ := json.Marshal(stop{Job: m.job.ID, Reason: c.reason, Failed: c.failed})
			h.spawn(func() { h.ask(ctx, c.node, "cancel", b, beatEvery, nil) }) // told again at its next beat
		}
	}
}

// startBody makes the body of a request to start job, which is marshalled. It is
// made for each attempt, since it tells how long ago the job was accepted, and how
// long it has yet.
func startBody(job []byte, accepted, timeout time.Time) (body func() []byte) {
	return func() []byte {
		t := startTimes{Age: Duration(max(time.Since(accepted), time.Nanosecond))}
		if !timeout.IsZero() {
			t.Left = Duration(max(time.Until(timeout), time.Millisecond))
		}
		b, _ := json.Marshal(struct {
			Job json.RawMessage `json:"job"`
			startTimes
		}{job, t})
		return b
	}
}

// errSilent is a node that did not answer.
var errSilent = errors.New("no answer")

// ask sends a request to a node and reads the answer into out. errSilent if
// there is none in time; any other error is the node's own.
func (h *Hub) ask(ctx context.Context, node, verb string, body []byte, wait time.Duration, out any) error {
	m, err := h.askRaw(ctx, node, verb, func() []byte { return body }, wait)
	if err != nil {
		return err
	}
	if len(m.Data) > maxUp {
		return fmt.Errorf("answered with %d bytes, more than the %d that it may", len(m.Data), maxUp)
	}
	return answered(m, out)
}

// askRaw asks again while no agent of that name listens; body makes what each
// attempt says.
func (h *Hub) askRaw(ctx context.Context, node, verb string, body func() []byte, wait time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		m, err := h.nc.RequestWithContext(ctx, "down."+node+"."+verb, body())
		if err == nil {
			return m, nil
		}
		if !errors.Is(err, nats.ErrNoResponders) { // those are agents between two connections
			return nil, fmt.Errorf("%w: %w", errSilent, err)
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return nil, errSilent
		}
	}
}

// stat asks a node that is up what the source is now. Nodes have credentials
// of their own, so one that may not read it, or is not there, is not the last
// word; that an object store has no such object is, if two of them say so: who lies
// is not to keep all jobs from beginning. by is the node whose word was taken.
func (h *Hub) stat(ctx context.Context, spec Spec, up []string) (o Source, by string, err error) {
	body, err := json.Marshal(spec)
	if err != nil {
		return Source{}, "", err
	}
	var first error
	absent := 0
	for _, node := range up[:min(len(up), statAsked)] {
		var o Source
		err := h.ask(ctx, node, "stat", body, spec.statLimit(), &o)
		switch {
		case err == nil:
			if err = o.check(spec); err == nil {
				return o, node, nil
			}
			err = &wireError{kind: err, text: node + ": " + err.Error()}
		case errors.Is(err, errSilent):
			err = fail(ErrDown, "%s: did not answer within %v when asked about the source", node, spec.statLimit())
		default:
			err = &wireError{kind: err, text: node + ": " + err.Error()}
		}
		if first == nil {
			first = err
		}
		if errors.Is(err, objstore.ErrNotExist) && !isFile(spec.Source) {
			absent++
		}
		if ctx.Err() != nil || absent == 2 {
			break
		}
	}
	return Source{}, "", first
}
