package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"golang.org/x/term"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/report"
	"github.com/freshet/freshet/internal/swarm"
	"github.com/freshet/freshet/objstore/open"
	"github.com/freshet/freshet/unit"
)

// result is what --json prints of broadcasts.
type result struct {
	Runs []run `json:"runs"`
}

// run is one broadcast in numbers: seconds from when the control plane accepted
// the job, and bytes of payload.
type run struct {
	Job       string    `json:"job"`
	State     string    `json:"state"`
	Error     string    `json:"error,omitempty"`
	Algorithm string    `json:"algorithm"`
	Source    string    `json:"source"`
	Dest      string    `json:"dest"`
	Bytes     int64     `json:"bytes"`           // of the object
	Files     []fileRun `json:"files,omitempty"` // of a job of several, the largest first
	MakespanS float64   `json:"makespan_s"`      // until the last node that got it had it
	BoundS    *float64  `json:"bound_s"`         // the fluid lower bound; nil: nothing is known to limit it
	BoundBy   string    `json:"bound_by,omitempty"`
	Unknown   string    `json:"bound_unknown,omitempty"` // why BoundS is nil, and what can be done about it
	Ratio     *float64  `json:"ratio"`                   // MakespanS / BoundS; nil without a bound, or unless the job is done
	FastestS  float64   `json:"fastest_s"`               // the first node that had it; those that had it before do not count
	SlowestS  float64   `json:"slowest_s"`

	BoundParts []boundPart    `json:"bound_parts"`  // each is a lower bound of its own; the largest of those that are known is BoundS
	HeldUpBy   *freshet.Cause `json:"held_up_by"`   // nil unless the job is done
	Stragglers []string       `json:"stragglers"`   // nodes far behind the others
	CPUPerGB   *float64       `json:"cpu_s_per_gb"` // processor seconds for 10⁹ bytes delivered to a node; nil: unknown

	Sites      []siteRun `json:"sites"`       // none unless the nodes are of several
	StoreBytes int64     `json:"store_bytes"` // of all nodes together
	PeerBytes  int64     `json:"peer_bytes"`
	Verified   string    `json:"verified"` // of all nodes the weakest: "peers", "source", "present", or "" unless the job is done
	Nodes      []nodeRun `json:"nodes"`

	account freshet.Account
}

// boundPart is a part of the bound; what is unknown is nil.
type boundPart struct {
	By      string   `json:"by"` // downlink, store, uplinks, site
	Name    string   `json:"name,omitempty"`
	Seconds *float64 `json:"seconds"`
	Rate    *float64 `json:"rate"`              // of the resource, bytes per second
	From    []string `json:"from"`              // declared, nic, probed, seen (in another job)
	Probed  string   `json:"probed,omitempty"`  // when, the oldest of them
	Used    *float64 `json:"used"`              // the share of it that was used, on the mean until the end
	Missing int      `json:"missing,omitempty"` // nodes of which nobody knows the capacity
	Unknown string   `json:"unknown,omitempty"` // why Seconds is nil, and what can be done about it
}

// siteRun is what came into a site.
type siteRun struct {
	Name       string  `json:"name"`
	Nodes      int     `json:"nodes"`
	InBytes    int64   `json:"in_bytes"`    // from outside, if the store is there
	StoreBytes int64   `json:"store_bytes"` // of these from the store,
	OtherBytes int64   `json:"other_bytes"` // and from nodes that are not of the site
	Copies     float64 `json:"copies"`      // InBytes in multiples of the object
}

// known is v, or nil for the zero that stands for unknown.
func known[T ~float64](v T) *float64 {
	if v <= 0 {
		return nil
	}
	f := float64(v)
	return &f
}

// fileRun is one file of several.
type fileRun struct {
	Name     string `json:"name"`
	Bytes    int64  `json:"bytes"`
	Version  string `json:"version"`            // in the store
	Checksum string `json:"checksum,omitempty"` // which the store keeps of it, and it was held against
}

func (r *run) tellFiles(files freshet.Files) {
	for _, f := range files {
		k := fileRun{Name: f.Key, Bytes: int64(f.Size), Version: f.Version}
		if f.Checksum.Value != "" {
			k.Checksum = string(f.Checksum.Algorithm) + " " + f.Checksum.Value
		}
		r.Files = append(r.Files, k)
	}
}

// nodeRun is one node's part.
type nodeRun struct {
	Name       string          `json:"name"`
	State      string          `json:"state"`
	Files      int             `json:"files,omitempty"`      // of several, of which it has all
	KeptBytes  int64           `json:"kept_bytes,omitempty"` // in files of several that it had before
	DoneS      *float64        `json:"done_s"`               // nil: it did not get the object; 0: it had it before
	StoreBytes int64           `json:"store_bytes"`
	StoreS     float64         `json:"store_s"`              // seconds for which it read from the store
	StoreSlow  string          `json:"store_slow,omitempty"` // where that gave less than a tenth of what the others got: how much
	PeerBytes  int64           `json:"peer_bytes"`
	Crossed    int64           `json:"crossed_bytes"` // of these from nodes that are not of its site
	SentBytes  int64           `json:"sent_bytes"`
	Course     *nodeCourse     `json:"course"`                // nil: it told none
	NoAccess   bool            `json:"no_access,omitempty"`   // it may not read the source; --share-access let it have the object
	PlainPeers int             `json:"plain_peers,omitempty"` // neighbours with which it exchanged in plain TCP (--security trusted)
	SHA256     string          `json:"sha256,omitempty"`
	Verified   string          `json:"verified,omitempty"`
	Error      string          `json:"error,omitempty"`
	Faults     []freshet.Fault `json:"faults,omitempty"`
}

// nodeCourse is how a node's part went, in seconds, and what its network carries; nil is unknown.
type nodeCourse struct {
	MovedS  map[string]float64 `json:"moved_s"`  // something came: from the store, from peers, from both
	WaitedS map[string]float64 `json:"waited_s"` // nothing did: for the store, the barrier, peers; and for the disk, whatever came
	WriteS  float64            `json:"write_s"`  // in writes to the disk, all writers added up
	BusyS   float64            `json:"busy_s"`   // for which the machine's processors were busy
	CPUS    float64            `json:"cpu_s"`    // processor time of the process
	In      *freshet.Capacity  `json:"in"`
	Out     *freshet.Capacity  `json:"out"`
	Store   *freshet.Capacity  `json:"store"`
	Line    *nodeLine          `json:"line"`
}

// nodeLine is how a node's part went over time, in steps since the job was accepted.
type nodeLine struct {
	StepS   float64 `json:"step_s,omitzero"`
	Store   []int64 `json:"store,omitempty"` // bytes in each step: read from the store,
	Peers   []int64 `json:"peers,omitempty"` // got from peers,
	Sent    []int64 `json:"sent,omitempty"`  // given to peers
	DoStepS float64 `json:"do_step_s,omitzero"`
	Do      string  `json:"do,omitempty"` // what it was mostly at in each of these steps, a letter each (docs/bound.md)
}

func newNodeCourse(c freshet.Course) *nodeCourse {
	capacity := func(k freshet.Capacity) *freshet.Capacity {
		if !k.Known() {
			return nil
		}
		return &k
	}
	out := &nodeCourse{
		MovedS: map[string]float64{}, WaitedS: map[string]float64{}, WriteS: c.WriteS, BusyS: c.BusyS, CPUS: c.CPUS,
		In: capacity(c.Carries.In), Out: capacity(c.Carries.Out), Store: capacity(c.Carries.Store),
	}
	if c.Step > 0 || c.DoStep > 0 {
		out.Line = &nodeLine{StepS: c.Step, Store: c.Store, Peers: c.Peers, Sent: c.Sent, DoStepS: c.DoStep, Do: c.Do}
	}
	for _, is := range freshet.Coming {
		out.MovedS[is.Of()] = c.Spent[is]
	}
	for _, is := range freshet.Waiting {
		out.WaitedS[is.Of()] = c.Spent[is]
	}
	return out
}

// newRun makes a run of a job. courses are how it went on its nodes; nil while that is unknown.
func newRun(job freshet.Job, courses map[string]freshet.Course) run {
	a := job.Account(courses)
	r := run{
		Job: job.ID, State: string(job.State), Error: job.Error, Algorithm: job.Spec.Algorithm,
		Source: job.Spec.Source, Dest: job.Spec.Dest, Bytes: int64(job.Object.Size),
		BoundS: known(a.Bound), BoundParts: []boundPart{}, Stragglers: append([]string{}, a.Stragglers...), CPUPerGB: known(a.CPUPerGB), Nodes: []nodeRun{},
		Sites: []siteRun{}, account: a,
	}
	ended := job.State.Ended() // before, nodes have not told what they know
	if ended {
		r.Unknown = a.Unknown()
	}
	if p := a.Binding(); p != nil {
		r.BoundBy = p.By
	}
	for _, p := range a.Parts {
		k := boundPart{By: p.By, Name: p.Name, Seconds: known(p.Seconds), Rate: known(p.Rate), From: []string{}, Used: known(p.Used), Missing: len(p.Missing)}
		for _, s := range p.From {
			k.From = append(k.From, string(s))
		}
		if !p.Probed.IsZero() {
			k.Probed = p.Probed.UTC().Format(time.RFC3339)
		}
		if ended {
			k.Unknown = p.Unknown()
		}
		r.BoundParts = append(r.BoundParts, k)
	}
	for _, e := range a.Entries {
		r.Sites = append(r.Sites, siteRun{Name: e.Site, Nodes: e.Nodes, InBytes: int64(account.Sum(e.Store, e.Others)), StoreBytes: int64(e.Store), OtherBytes: int64(e.Others), Copies: e.Copies})
	}
	if a.Seconds > 0 {
		r.HeldUpBy = &a.Cause
	}
	slow := job.SlowStores()
	var verified []string
	var times []float64
	for _, n := range job.Nodes {
		k := nodeRun{
			Name: n.Name, State: string(n.State), Files: n.Files, KeptBytes: int64(n.Kept), StoreBytes: int64(n.StoreBytes), PeerBytes: int64(n.PeerBytes),
			StoreS: n.StoreS, StoreSlow: slow[n.Name], NoAccess: n.NoAccess, PlainPeers: n.PlainPeers, SHA256: n.SHA256, Verified: n.Verified, Error: n.Error, Faults: n.Faults,
		}
		switch n.State {
		case freshet.Done:
			k.DoneS = &n.DoneS
			times = append(times, n.DoneS)
			verified = append(verified, n.Verified)
		case freshet.Present:
			k.DoneS = new(float64)
			k.Verified = string(freshet.Present)
			verified = append(verified, k.Verified)
		}
		k.SentBytes, k.Crossed = int64(n.SentBytes), int64(n.CrossedBytes)
		if c, ok := courses[n.Name]; ok {
			k.Course = newNodeCourse(c)
		}
		r.StoreBytes = int64(account.Sum(unit.Bytes(r.StoreBytes), n.StoreBytes))
		r.PeerBytes = int64(account.Sum(unit.Bytes(r.PeerBytes), n.PeerBytes))
		r.Nodes = append(r.Nodes, k)
	}
	if len(times) > 0 {
		r.FastestS, r.SlowestS = slices.Min(times), slices.Max(times)
		r.MakespanS = r.SlowestS
	}
	if job.State != freshet.Done {
		return r
	}
	for _, v := range []string{"peers", "source", string(freshet.Present)} {
		if slices.Contains(verified, v) {
			r.Verified = v
			break
		}
	}
	r.Ratio = known(a.Ratio)
	return r
}

// meanS is the mean of the times at which nodes had the object.
func (r run) meanS() float64 {
	var sum float64
	var n int
	for _, k := range r.Nodes {
		if k.State == string(freshet.Done) && k.DoneS != nil {
			sum += *k.DoneS
			n++
		}
	}
	return sum / float64(max(n, 1))
}

// record copies to w what the nodes have recorded of a job, and how it went on
// each of them. Of a node that recorded nothing, or cannot be asked, there is what
// the job's record says. got is how many had recorded it, missing why one had not.
func record(ctx context.Context, c *freshet.Client, job freshet.Job, courses map[string]freshet.Course, w io.Writer) (got int, missing, err error) {
	e := json.NewEncoder(w)
	a := job.Account(courses)
	if err := introduce(e, job, a); err != nil {
		return 0, nil, err
	}
	room := mostRecorded
	for _, n := range job.Nodes {
		why := freshet.ErrNoRecording
		if job.Spec.Record {
			var b bytes.Buffer // none of it, if it breaks off
			lines := &own{w: &b, job: job.ID, node: n.Name}
			in := &capped{lines, maxRecording, fmt.Errorf("its recording is longer than %v", unit.Bytes(maxRecording))}
			if room < in.left {
				in.left, in.full = room, fmt.Errorf("the recordings of all nodes are longer than %v together", unit.Bytes(mostRecorded))
			}
			if why = c.Recording(ctx, job.ID, n.Name, in); why == nil {
				why = lines.end()
			}
			if why == nil {
				if _, err := w.Write(b.Bytes()); err != nil {
					return got, missing, err
				}
				got++
				room -= b.Len()
				if lines.others > 0 {
					slog.Warn("lines of a recording were left out: they are not whole, or not of this node and job", "job", job.ID, "node", n.Name, "lines", lines.others)
				}
			} else if ctx.Err() != nil {
				return got, missing, why
			} else if n.State != freshet.Present { // such a node may have had no part in it
				slog.Warn("no recording", "job", job.ID, "node", n.Name, "err", why)
			}
		}
		var events []report.Event
		if why != nil {
			missing = why
			events = retold(job, n)
		}
		k := report.Event{StoreBytes: int64(n.StoreBytes), PeerBytes: int64(n.PeerBytes), SentBytes: int64(n.SentBytes)}
		k.Kind, k.Job, k.Node = "course", job.ID, n.Name
		if course, ok := courses[n.Name]; ok {
			k.Course = &course
		}
		if n.State != freshet.Present || n.SentBytes > 0 {
			events = append(events, k)
		}
		for _, k := range events {
			if err := e.Encode(k); err != nil {
				return got, missing, err
			}
		}
	}
	if unlisted(job) { // nodes that recorded it know the files, and have said so by now
		err = begin(e, job)
	}
	return got, missing, err
}

// unlisted says whether a job is of several files and nobody could tell here which.
func unlisted(job freshet.Job) bool { return job.FileCount > 0 && len(job.Files) == 0 }

// introduce writes what the control plane says of the job as a whole. It stands before what nodes say, since what is said first counts.
func introduce(e *json.Encoder, job freshet.Job, a freshet.Account) error {
	if !unlisted(job) {
		if err := begin(e, job); err != nil {
			return err
		}
	}
	k := report.Event{Account: &a}
	k.Kind, k.Job = "account", job.ID
	if err := e.Encode(k); err != nil {
		return err
	}
	if p := a.Binding(); p != nil {
		return e.Encode(swarm.Event{Kind: "bound", Job: job.ID, BoundS: a.Bound, By: p.By})
	}
	return nil
}

// begin writes what a job brings, and to whom; nothing if all had it. What is unlisted looks like one object.
func begin(e *json.Encoder, job freshet.Job) error {
	k := swarm.Event{
		Kind: "run", Job: job.ID, Algorithm: job.Spec.Algorithm, Source: open.Redact(job.Spec.Source), Start: job.Accepted,
		Size: int64(job.Object.Size), PieceSize: int64(freshet.Layout(job).Piece), Files: swarm.EventFiles(job.Files, ""),
	}
	for _, n := range job.Nodes {
		if n.State != freshet.Present {
			k.Nodes = append(k.Nodes, n.Name)
		}
	}
	if len(k.Nodes) == 0 {
		return nil
	}
	k.Node = k.Nodes[0]
	return e.Encode(k)
}

// retold are the events of a node's part that its status tells.
func retold(job freshet.Job, n freshet.NodeStatus) (events []report.Event) {
	if n.State == freshet.Present {
		return nil
	}
	for _, f := range n.Faults {
		events = append(events, report.Event{Event: swarm.Event{Kind: "fault", Job: job.ID, Node: n.Name, Peer: f.Node, Cause: f.Cause}})
	}
	switch n.State {
	case freshet.Done:
		return append(events, report.Event{Event: swarm.Event{Kind: "done", T: n.DoneS, Job: job.ID, Node: n.Name, Verified: n.Verified}})
	case freshet.Failed, freshet.Cancelled:
		return append(events, report.Event{Event: swarm.Event{Kind: "failed", T: max(0, job.Ended.Sub(job.Accepted).Seconds()), Job: job.ID, Node: n.Name, Cause: n.Error}})
	}
	return events
}

const (
	maxRecording = 512 << 20 // bytes of a node's recording: twice what it records of the most pieces that there can be
	mostRecorded = 1 << 30   // bytes of all that a job's nodes have recorded: what a page can hold (report.MaxArrivals). It is in memory
)

// capped takes so many bytes and no more: how long a recording is, a node says that may lie.
type capped struct {
	w    io.Writer
	left int
	full error // what Write says of more
}

func (c *capped) Write(b []byte) (int, error) {
	if len(b) > c.left {
		return 0, c.full
	}
	c.left -= len(b)
	return c.w.Write(b)
}

// own takes lines of events, and passes on those of one node's part of one job: a node
// that lies might tell of others, or of jobs that nobody has asked for.
type own struct {
	w         io.Writer
	job, node string
	line      []byte // what has come of one, up to report.MaxLine
	long      bool   // it is longer
	others    int    // lines that were not passed on
}

func (o *own) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		part, after, ends := bytes.Cut(rest, []byte("\n"))
		rest = after
		if o.long = o.long || len(o.line)+len(part) > report.MaxLine; !o.long {
			o.line = append(o.line, part...)
		}
		if ends {
			if err := o.end(); err != nil {
				return 0, err
			}
		}
	}
	return len(b), nil
}

// end says that the line is whole, or that nothing follows.
func (o *own) end() error {
	line, long := o.line, o.long
	o.line, o.long = o.line[:0], false
	var e struct{ Kind, Job, Node string }
	switch {
	case len(line) == 0 && !long:
		return nil
	case long || json.Unmarshal(line, &e) != nil || e.Job != o.job || e.Node != o.node:
		o.others++
		return nil
	}
	switch e.Kind {
	case "account", "bound", "course": // the control plane's words
		o.others++
		return nil
	}
	_, err := o.w.Write(append(line, '\n'))
	return err
}

// save writes a job's recording and its report to files, those that are asked
// for. A recording is only what nodes recorded; a report can be made of any job.
func save(ctx context.Context, c *freshet.Client, job freshet.Job, courses map[string]freshet.Course, recording, html string) error {
	if recording == "" && html == "" {
		return nil
	}
	if n := arrivals(job); job.Spec.Record && n > report.MaxArrivals {
		if recording != "" {
			return fmt.Errorf("recording of job %s: %d pieces arrived at its nodes, and no more than %d can be collected: broadcast in larger pieces (--piece)", job.ID, n, report.MaxArrivals)
		}
		job = unrecorded(job)
	}
	var b bytes.Buffer
	got, missing, err := record(ctx, c, job, courses, &b)
	if err != nil {
		return err
	}
	if recording != "" {
		if got == 0 {
			return fmt.Errorf("job %s has no recording (%w): broadcast with --record, --report or --keep-recording", job.ID, cmp.Or(missing, errors.New("no node took part")))
		}
		if err := writeFile(recording, b.Bytes()); err != nil {
			return fmt.Errorf("recording: %w", err)
		}
	}
	if html == "" {
		return nil
	}
	rec, err := report.Read(ctx, &b)
	if errors.Is(err, report.ErrTooMuch) && job.Spec.Record {
		return save(ctx, c, unrecorded(job), courses, "", html)
	}
	if err != nil {
		return fmt.Errorf("recording of job %s: %w", job.ID, err)
	}
	return writeReport(html, rec)
}

// arrivals is how many pieces a job brings to all its nodes together.
func arrivals(job freshet.Job) (n int) {
	pieces := freshet.Layout(job).Count()
	for _, k := range job.Nodes {
		if k.State != freshet.Present {
			n += pieces
		}
	}
	return n
}

// unrecorded is a job as if its nodes had recorded nothing, for a page that could not hold it.
func unrecorded(job freshet.Job) freshet.Job {
	slog.Warn("the page is made without what was recorded of single pieces: there is more of that than it can hold", "job", job.ID, "most", report.MaxArrivals)
	job.Spec.Record = false
	return job
}

// writeReport makes path the page of rec, all of it or nothing.
func writeReport(path string, rec *report.Recording) error {
	var page bytes.Buffer
	err := rec.HTML(&page)
	if err == nil {
		err = writeFile(path, page.Bytes())
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// isTerminal says whether w is a terminal that can move its cursor.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// multipleOf prints n as a multiple of an object.
func multipleOf(n, object unit.Bytes) string {
	if object == 0 {
		return n.String()
	}
	return fmt.Sprintf("%v (%.2f × the object)", n, float64(n)/float64(object))
}

// quiet is the log of what is not to be heard.
var quiet = slog.New(slog.DiscardHandler)
