package control

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/freshet/freshet/internal/access"
	"github.com/freshet/freshet/internal/peer"
)

// The requests of an admin, by verb.
//
//	verb       request            answer
//	submit     Spec               Job, in state preparing
//	jobs       jobsRequest        []Job, newest first, without members
//	job        jobRequest         Job
//	cancel     jobRequest         Job
//	courses    jobRequest         bytes: account.Courses by node of a job that has ended, JSON, compressed (gzip); none: null
//	files      jobRequest         Files: of a job of several, the largest first; none: null
//	nodes      –                  []NodeView, by name
//	remove     nodeRequest        nothing
//	token      tokenRequest       tokenAnswer
//	check      checkRequest       Check
//	probe      probeRequest       Probe
//	monitor    monitorRequest     monitorAnswer
//	tokens     –                  []TokenView, newest first
//	withdraw   withdrawRequest    TokenView, as it was
//	withdraw-monitor  nodeRequest  nothing
//	withdraw-admin    –            adminAnswer
//	recording  recordingRequest   bytes, and the header Freshet-End on the last
type (
	jobsRequest struct {
		Before string `json:"before,omitempty"` // only jobs older than that one
	}
	jobRequest struct {
		ID string `json:"id"` // or the beginning of it
	}
	nodeRequest struct {
		Name string `json:"name"`
	}
	tokenRequest struct {
		Uses int      `json:"uses"`
		TTL  Duration `json:"ttl"`
	}
	tokenAnswer struct {
		Token   string    `json:"token"`
		Expires time.Time `json:"expires"`
	}
	withdrawRequest struct {
		ID string `json:"id"` // or the beginning of it
	}
	adminAnswer struct {
		Path string `json:"path"` // of the new credential, where the control plane runs
	}
	recordingRequest struct {
		Node string `json:"node"`
		chunk
	}
)

// serveAPI answers one request of an admin.
func (h *Hub) serveAPI(ctx context.Context, m *nats.Msg) {
	verb := strings.TrimPrefix(m.Subject, "api.")
	v, err := h.call(ctx, verb, m)
	if v, ok := v.(*nats.Msg); ok && err == nil { // an answer that is passed on
		v.Subject, v.Reply = m.Reply, ""
		m.RespondMsg(v)
		return
	}
	answer(m, v, err)
}

func (h *Hub) call(ctx context.Context, verb string, m *nats.Msg) (any, error) {
	read := func(v any) error {
		if err := json.Unmarshal(m.Data, v); err != nil {
			return fail(ErrInvalid, "unreadable request to %s: %s", verb, oneLine(err.Error()))
		}
		return nil
	}
	switch verb {
	case "submit":
		var s Spec
		if err := read(&s); err != nil {
			return nil, err
		}
		return h.submit(ctx, s)
	case "jobs":
		var r jobsRequest
		if err := read(&r); err != nil {
			return nil, err
		}
		return h.jobs(ctx, r.Before)
	case "job", "cancel", "courses", "files":
		var r jobRequest
		if err := read(&r); err != nil {
			return nil, err
		}
		switch verb {
		case "cancel":
			return h.cancel(ctx, r.ID)
		case "courses":
			return h.courses(ctx, r.ID)
		case "files":
			return h.files(ctx, r.ID)
		}
		return h.job(ctx, r.ID)
	case "nodes":
		return sortedViews(h.views()), nil
	case "remove":
		var r nodeRequest
		if err := read(&r); err != nil {
			return nil, err
		}
		return nil, h.removeNode(ctx, r.Name)
	case "token":
		var r tokenRequest
		if err := read(&r); err != nil {
			return nil, err
		}
		text, expires, err := h.NewToken(ctx, r.Uses, time.Duration(r.TTL))
		return tokenAnswer{text, expires}, err
	case "check":
		var r checkRequest
		if err := read(&r); err != nil {
			return nil, err
		}
		return h.check(ctx, r)
	case "probe":
		var r probeRequest
		if err := read(&r); err != nil {
			return nil, err
		}
		return h.probe(ctx, r)
	case "monitor":
		var r monitorRequest
		if err := read(&r); err != nil {
			return nil, err
		}
		return h.monitor(ctx, r)
	case "withdraw-monitor":
		var r nodeRequest
		if err := read(&r); err != nil {
			return nil, err
		}
		return nil, h.withdrawMonitor(ctx, r.Name)
	case "withdraw-admin":
		path, err := h.withdrawAdmin(ctx)
		return adminAnswer{path}, err
	case "tokens":
		return h.tokens(ctx)
	case "withdraw":
		var r withdrawRequest
		if err := read(&r); err != nil {
			return nil, err
		}
		return h.withdrawToken(ctx, r.ID)
	case "recording":
		var r recordingRequest
		if err := read(&r); err != nil {
			return nil, err
		}
		return h.recording(ctx, r)
	}
	return nil, fail(ErrRefused, "this control plane does not know the request %q: it runs another version of Freshet", oneLine(verb))
}

// submit accepts a job: once it returns, the job's record is on disk.
func (h *Hub) submit(ctx context.Context, spec Spec) (Job, error) {
	if err := spec.check(); err != nil {
		return Job{}, err
	}
	if h.isLeaving() {
		return Job{}, fail(ErrUnavailable, "the control plane is shutting down and takes no more jobs; submit it when it is back")
	}
	accepted := time.Now()
	known := h.views()
	names, err := selectNodes(spec.Nodes, known)
	if err != nil {
		return Job{}, err
	}
	addrs, sites, down := map[string]string{}, map[string]string{}, map[string]string{}
	var up []string
	for _, name := range names {
		if n := known[name]; n.Up && n.Leaving {
			down[name] = "is being stopped by its operator"
		} else if n.Up {
			addrs[name], sites[name] = n.Addr, n.Site
			up = append(up, name)
		} else {
			down[name] = downSince(n, accepted)
		}
	}
	if len(up) == 0 {
		return Job{}, fail(ErrDown, "no selected node is up: %s %s", names[0], down[names[0]]+more(len(names)-1))
	}
	source, by, err := h.stat(ctx, spec, up)
	if err != nil {
		return Job{}, err
	}
	if !source.Pinned() && !spec.Unpinned && !isFile(spec.Source) {
		return Job{}, fail(ErrRefused, "source %s has no validator (no ETag, no date), so a change during the job could not be noticed; accept that with --unpinned", shown(spec.Source))
	}
	job := Job{ID: newID(h.later(accepted)), Spec: spec, Object: source.Object, SeenBy: by, FileCount: len(source.Files), Accepted: accepted}
	switch {
	case spec.ShareAccess:
	case spec.Several():
		job.Challenge = access.DrawFrom(source.Files)
	default:
		job.Challenge = access.Draw(source.Object)
	}
	m := newMachine(job, addrs, down)
	m.sites = sites
	if b, err := json.Marshal(m.fullest()); err != nil || len(b)+around > h.recordLimit() { // a record that cannot be written would neither end nor be cancelled
		return Job{}, fail(ErrRefused, "the record of a job of %s may become larger than the %d bytes that NATS takes in a message: select fewer with --nodes, or, with --nats, raise max_payload there, to 8MB at most", plural(len(names), "node"), h.recordLimit())
	}
	d := newDriven(m.snapshot())
	d.files = source.Files
	if err := h.reserve(d); err != nil {
		return Job{}, err
	}
	if len(d.files) > 0 { // first: a job that is taken up again needs them
		_, err = put(ctx, h.store.files, job.ID, d.files, 0)
	}
	rev := uint64(0)
	if err == nil {
		rev, err = put(ctx, h.store.jobs, job.ID, m.snapshot(), 0)
	}
	if err != nil {
		h.release(job.ID)
		if drop(ctx, h.store.jobs, job.ID) == nil { // it may be there, and only the answer late; while it is, it needs its files
			drop(ctx, h.store.files, job.ID)
		}
		return Job{}, fail(ErrUnavailable, "cannot write the job's record: %s", oneLine(err.Error()))
	}
	d.rev = rev
	d.events <- begun{}
	if !h.spawn(func() { h.drive(ctx, d, m, false) }) {
		return Job{}, fail(ErrUnavailable, "the control plane is shutting down; the job %s was not started", job.ID)
	}
	h.log.Info("job accepted", "job", job.ID, "source", shown(spec.Source), "dest", spec.Dest, "nodes", len(names), "bytes", int64(source.Size), "as_seen_by", by)
	return *d.latest.Load(), nil
}

// later is now, or as much later as it takes for a new job's ID to sort after all others: they may be from a time when the clock was ahead.
func (h *Hub) later(now time.Time) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := slices.Collect(maps.Keys(h.active))
	if n := len(h.ended); n > 0 {
		ids = append(ids, h.ended[n-1])
	}
	for _, id := range ids {
		if t := idTime(id).Add(idStep); t.After(now) {
			now = t
		}
	}
	return now
}

func isFile(source string) bool { return strings.HasPrefix(source, "file:") }

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return "; and " + plural(n, "more node")
}

// downSince says since when a node is down.
func downSince(n NodeView, now time.Time) string {
	if n.Seen.IsZero() {
		return "down: never heard of since it joined"
	}
	return "down: last heard of " + now.Sub(n.Seen).Round(time.Second).String() + " ago"
}

// reserve makes a job one of the active ones, unless another one is writing to
// the same place on one of its nodes.
func (h *Hub) reserve(d *driven) error {
	j := d.latest.Load()
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, other := range h.active {
		o := other.latest.Load()
		if o.Spec.Dest != j.Spec.Dest {
			continue
		}
		for _, n := range o.Nodes {
			if n.over() {
				continue
			}
			if i := slices.IndexFunc(j.Nodes, func(x NodeStatus) bool { return x.Name == n.Name && !x.State.Ended() }); i >= 0 {
				return fail(ErrConflict, "job %s is writing to %s on %s; wait for it or cancel it", id, j.Spec.Dest, n.Name)
			}
		}
	}
	h.active[j.ID] = d
	return nil
}

func (h *Hub) release(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.active, id)
}

const noJob = "no job %q: \"freshet jobs\" lists those that there are"

// find resolves the beginning of a job's ID. d is nil if the job has ended.
func (h *Hub) find(prefix string) (id string, d *driven, err error) {
	if !isIDPrefix(prefix) {
		return "", nil, fail(ErrNoSuchJob, "no job %q: an ID is %d letters and digits, or as many of the first as only one has; \"freshet jobs\" lists them", peer.Printable(prefix, 40), idChars)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if d := h.active[prefix]; d != nil {
		return prefix, d, nil
	}
	var found []string
	for id := range h.active {
		if strings.HasPrefix(id, prefix) {
			found = append(found, id)
		}
	}
	i, _ := slices.BinarySearch(h.ended, prefix)
	for ; i < len(h.ended) && strings.HasPrefix(h.ended[i], prefix) && len(found) < 4; i++ {
		found = append(found, h.ended[i])
	}
	switch {
	case len(found) == 0:
		return "", nil, fail(ErrNoSuchJob, noJob, prefix)
	case len(found) > 1:
		slices.Sort(found)
		return "", nil, fail(ErrInvalid, "%q is the beginning of several jobs' IDs: %s", prefix, strings.Join(found, ", "))
	}
	return found[0], h.active[found[0]], nil
}

func (h *Hub) job(ctx context.Context, prefix string) (Job, error) {
	id, d, err := h.find(prefix)
	if err != nil {
		return Job{}, err
	}
	if d != nil {
		return *d.latest.Load(), nil
	}
	var j Job
	_, err = get(ctx, h.store.jobs, id, &j)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return Job{}, fail(ErrNoSuchJob, noJob, id)
	}
	return j, err
}

// maxList bounds one page of a listing, in bytes of JSON.
const maxList = 2 << 20

// jobs is a page of the jobs older than before, newest first; an empty one is
// the end.
func (h *Hub) jobs(ctx context.Context, before string) ([]Job, error) {
	h.mu.Lock()
	ids := append(slices.Collect(maps.Keys(h.active)), h.ended...)
	h.mu.Unlock()
	slices.Sort(ids)
	if before != "" {
		i, _ := slices.BinarySearch(ids, before)
		ids = ids[:i]
	}
	page, size := []Job{}, 0
	for _, id := range slices.Backward(ids) {
		j, err := h.job(ctx, id)
		if errors.Is(err, ErrNoSuchJob) { // forgotten meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		j.Members = nil
		b, err := json.Marshal(j)
		if err != nil {
			return nil, err
		}
		if size += len(b); size > maxList && len(page) > 0 {
			break
		}
		page = append(page, j)
	}
	return page, nil
}

func (h *Hub) cancel(ctx context.Context, prefix string) (Job, error) {
	id, d, err := h.find(prefix)
	if err != nil {
		return Job{}, err
	}
	if d == nil {
		return Job{}, fail(ErrEnded, "job %s has ended already", id)
	}
	d.send(ctx, toCancel{reason: "cancelled"})
	for range 40 { // until the record says so
		if j := d.latest.Load(); j.Stopping != "" || j.State.Ended() {
			return *j, nil
		}
		select {
		case <-d.done:
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return Job{}, fail(ErrUnavailable, "the control plane is shutting down")
		}
	}
	return *d.latest.Load(), nil
}

// recording passes on a chunk of what a node recorded of a job.
func (h *Hub) recording(ctx context.Context, r recordingRequest) (*nats.Msg, error) {
	id, _, err := h.find(r.Job)
	if err != nil {
		return nil, err
	}
	if v, ok := h.views()[r.Node]; !ok {
		return nil, fail(ErrNoSuchNode, "no node %q", peer.Printable(r.Node, 64))
	} else if !v.Up {
		return nil, fail(ErrDown, "%s: %s", r.Node, downSince(v, time.Now()))
	}
	if r.Off < 0 || r.N <= 0 || r.N > maxChunk {
		return nil, fail(ErrInvalid, "%d bytes at %d of a recording: want up to %d", r.N, r.Off, maxChunk)
	}
	r.Job = id
	body, err := json.Marshal(r.chunk)
	if err != nil {
		return nil, err
	}
	m, err := h.askRaw(ctx, r.Node, "recording", func() []byte { return body }, 20*time.Second)
	if err != nil {
		return nil, fail(ErrDown, "%s did not send its recording: %v", r.Node, err)
	}
	if len(m.Data) > r.N {
		return nil, fail(ErrRefused, "%s sent more of its recording than was asked for", r.Node)
	}
	if e := m.Header.Get(headerError); e != "" {
		return nil, decodeError(e)
	}
	out := &nats.Msg{Data: m.Data, Header: nats.Header{}}
	if m.Header.Get(headerEnd) != "" {
		out.Header.Set(headerEnd, "1")
	}
	return out, nil
}
