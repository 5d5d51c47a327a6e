package freshet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/freshet/freshet/internal/access"
	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/internal/landing"
	"github.com/freshet/freshet/internal/pace"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/pki"
	"github.com/freshet/freshet/internal/swarm"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/open"
	"github.com/freshet/freshet/objstore/retry"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

const (
	receiveBlocks  = 64 // of 256 KiB: all that a node holds of what comes in, whatever the number and size of jobs
	sendBlocks     = 64 // likewise of what goes out
	keepRecordings = 50
	keepWitness    = 5 * time.Minute  // more than the control plane takes from a preparation to its start
	statPatience   = 12 * time.Second // with a busy store, while the user waits for the job to begin; less than the control plane waits
)

// worker does a node's part of jobs: it is the control plane's Runner.
type worker struct {
	creds         *pki.Credentials
	port          *peer.Port
	roots         *landing.Roots
	recordings    string // directory
	state         string // likewise
	version       string
	receive, send *peer.Pool
	dial          func(ctx context.Context, network, addr string) (net.Conn, error) // to stores
	log           *slog.Logger

	network account.Capacities // as declared, and as the network card says
	history *history
	probes  *probes

	counters swarm.Counters
	retries  atomic.Int64 // of requests to stores
	tally    tally

	mu        sync.Mutex      // guards witnesses
	witnesses map[string]kept // by job
}

func openWorker(c *NodeConfig, in, out *pace.Limiter) (*worker, error) {
	roots, err := openRoots(c)
	if err != nil {
		return nil, err
	}
	w := &worker{
		roots: roots, state: c.State, version: c.Version, recordings: filepath.Join(c.State, "recordings"), log: c.Log,
		receive: peer.NewPool(receiveBlocks), send: peer.NewPool(sendBlocks),
		dial: peer.Dialer("", limiters(in), limiters(out)), witnesses: map[string]kept{},
		history: openHistory(filepath.Join(c.State, "rates.json")), probes: openProbes(filepath.Join(c.State, "probe.json")),
	}
	if err := os.MkdirAll(w.recordings, 0o700); err != nil {
		roots.Close()
		return nil, fmt.Errorf("state directory: %w", err)
	}
	return w, nil
}

func limiters(l *pace.Limiter) []*pace.Limiter {
	if l == nil {
		return nil
	}
	return []*pace.Limiter{l}
}

func (w *worker) close() { w.roots.Close() }

// line is an error as a line of a record, no longer than the control plane keeps.
func line(err error) string { return peer.Printable(err.Error(), 900) }

// noteRetry logs that a store is asked again.
func (w *worker) noteRetry(op, key string, attempt int, wait time.Duration, err error) {
	w.retries.Add(1)
	w.log.Info("store: trying again", "op", op, "key", open.Redact(key), "attempt", attempt, "wait", wait, "err", err)
}

// hasty gives a server that is not there less time than one that is busy: it is
// a misspelled address more often than not, and somebody waits for the answer.
type hasty struct {
	objstore.Store
	since time.Time
}

const absencePatience = 2 * time.Second

func (h hasty) Stat(ctx context.Context, key string) (objstore.Object, error) {
	o, err := h.Store.Stat(ctx, key)
	dns, ok := errors.AsType[*net.DNSError](err)
	if (ok && dns.IsNotFound || errors.Is(err, syscall.ECONNREFUSED)) && time.Since(h.since) > absencePatience {
		err = objstore.Permanent(err)
	}
	return o, err
}

// Stat says what the source is now.
func (w *worker) Stat(ctx context.Context, spec control.Spec) (control.Source, error) {
	store, key, err := w.hasten(ctx, spec)
	if err != nil {
		return control.Source{}, err
	}
	defer store.Close()
	if spec.Several() {
		return w.list(ctx, store, key, spec)
	}
	o, err := stat(ctx, store, key, spec)
	return control.Source{Object: o}, hint(ctx, store, key, spec, err)
}

// open opens a job's store.
func (w *worker) open(ctx context.Context, source string) (objstore.Store, string, error) {
	if path, ok := strings.CutPrefix(source, "file://"); ok {
		if err := notOurs(path); err != nil {
			return nil, "", objstore.Permanent(err)
		}
	}
	return open.URL(ctx, source, open.Options{Dial: w.dial})
}

// notOurs is an error if path lies in a state directory, of whatever process of ours. Who
// submits jobs must neither get at the keys there, nor put others in their place.
func notOurs(path string) error {
	dir := filepath.Clean(path)
	for {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil {
			dir = real
			break
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir) // it is to be made
	}
	for ; ; dir = filepath.Dir(dir) {
		if isState(dir) {
			return fmt.Errorf("%s lies in Freshet's state directory %s, where no job reads or writes", path, dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// hasten opens a job's store for what somebody waits for.
func (w *worker) hasten(ctx context.Context, spec control.Spec) (objstore.Store, string, error) {
	store, key, err := w.open(ctx, spec.Source)
	if err != nil {
		return nil, "", err
	}
	return retry.New(hasty{store, time.Now()}, retry.Policy{Patience: statPatience, Max: statPatience / 8, OnRetry: w.noteRetry}), key, nil
}

func stat(ctx context.Context, store objstore.Store, key string, spec control.Spec) (objstore.Object, error) {
	o, err := store.Stat(ctx, key)
	if err != nil {
		return o, err
	}
	if !o.Pinned() && !spec.Unpinned {
		return o, objstore.Permanent(fmt.Errorf("%s has neither an ETag nor a date, so that a change during the broadcast could not be noticed; --unpinned takes it all the same", open.Redact(spec.Source)))
	}
	return o, nil
}

// dest is where a job's object lands on this node: {node} stands for its name.
func (w *worker) dest(spec control.Spec) string {
	return strings.ReplaceAll(spec.Dest, "{node}", w.creds.Identity().Name)
}

// Prepare sees whether this node can take part. It fetches no more than what
// proves that it may.
func (w *worker) Prepare(ctx context.Context, job control.Job) (p control.Prepared, err error) {
	dest := w.dest(job.Spec)
	if err := notOurs(dest); err != nil {
		return p, err
	}
	in, needed := dest, job.Object.Size
	if job.Spec.Several() {
		if err = notOursBelow(dest, job.Files); err == nil {
			err = w.roots.CheckTree(dest, treeFiles(job))
		}
		var held []bool
		if err == nil {
			held, err = w.roots.HeldFiles(dest, job.Spec.Source, treeFiles(job))
		}
		p.Present, needed = err == nil && !slices.Contains(held, false), needed-keptBytes(job, held)
		in = filepath.Join(dest, "file")
	} else if err = w.roots.Check(dest); err == nil {
		p.Present, err = w.roots.Held(dest, job.Spec.Source, job.Object.Version, job.Object.Size)
	}
	if err != nil {
		return p, err
	}
	if free, err := w.roots.Free(in); err == nil && free < needed && !p.Present {
		return p, fmt.Errorf("%s: %v are needed and %v are free; make room or choose another place", dest, needed, free)
	}
	witness, err := w.witness(ctx, job)
	switch denied := errors.Is(err, objstore.ErrDenied) || errors.Is(err, objstore.ErrNotExist); { // some stores say that there is nothing to those who may not see it
	case denied && job.Spec.ShareAccess:
		p.NoAccess = line(err)
		return p, nil
	case denied && job.Spec.Algorithm != Flat:
		return p, fmt.Errorf("%w: give this node credentials that may read it, or let it have the object from the others all the same with --share-access", err)
	case err != nil:
		return p, err
	}
	w.remember(job.ID, witness)
	return p, nil
}

// witness reads the job's object, as this node sees it, at the place of its challenge.
// Without one it only looks whether it could: nil.
func (w *worker) witness(ctx context.Context, job control.Job) (*access.Witness, error) {
	store, key, err := w.hasten(ctx, job.Spec)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	if job.Spec.Several() {
		return w.witnessAll(ctx, store, key, job)
	}
	own, err := w.source(ctx, store, key, job)
	if err != nil || job.Spec.ShareAccess {
		return nil, err
	}
	o := job.Object
	o.Key, o.Version = own.Key, own.Version
	return job.Challenge.Read(ctx, job.ID, store, o)
}

// remember keeps what a job's Run will need. What no Run came for is forgotten.
func (w *worker) remember(job string, witness *access.Witness) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for id, k := range w.witnesses {
		if now.Sub(k.since) > keepWitness {
			delete(w.witnesses, id)
		}
	}
	w.witnesses[job] = kept{witness, now}
}

// recall returns what Prepare kept, or reads it again.
func (w *worker) recall(ctx context.Context, job control.Job) (*access.Witness, error) {
	w.mu.Lock()
	k, ok := w.witnesses[job.ID]
	delete(w.witnesses, job.ID)
	w.mu.Unlock()
	if ok || job.Spec.ShareAccess {
		return k.witness, nil
	}
	return w.witness(ctx, job)
}

// kept is a witness between Prepare and Run.
type kept struct {
	witness *access.Witness
	since   time.Time
}

// source is the job's object as this node sees it. Of a file: source every node
// has its own, on a shared file system or a copy, whose version another
// cannot have pinned: size and time of change have to be the same.
func (w *worker) source(ctx context.Context, store objstore.Store, key string, job control.Job) (objstore.Object, error) {
	return w.own(ctx, store, key, job, job.Object, open.Redact(job.Spec.Source))
}

// own is an object as this node sees it, which is to be the pinned one. What was pinned is the word of one node, so all of it
// is held against what this one sees: with a checksum of its own making, or as the only one that reads an object which has no ranges, that node
// could have the others take anything for the object. Without a lie it may differ where what answers this node is not what answered that one: a cache
// or a mirror of each site's own, of which one leaves out checksums, or has others. Such a job is refused all the same, but for what
// caches before web servers do: they have no ranges of what they do not hold yet, and so the first look at an object finds none, and later ones do. It is read as a
// whole then. Who lies about that may be the only one to read all of an object without a checksum, where it would have been of its share.
func (w *worker) own(ctx context.Context, store objstore.Store, key string, job control.Job, pinned objstore.Object, name string) (objstore.Object, error) {
	o, err := stat(ctx, store, key, job.Spec)
	if err != nil {
		return o, err
	}
	if strings.HasPrefix(job.Spec.Source, "http") && !pinned.Ranges {
		o.Ranges = false
	}
	switch copied := local(job.Spec); {
	case copied && (o.Size != pinned.Size || !o.Modified.Equal(pinned.Modified)):
		return o, fmt.Errorf("%s on this node is not the file that another node has there (%v of %s, there %v of %s): put the same file on every node, with its time (rsync -t, cp -p), or on a file system that all share",
			name, o.Size, o.Modified.UTC().Format(time.RFC3339Nano), pinned.Size, pinned.Modified.UTC().Format(time.RFC3339Nano))
	case !copied && (o.Size != pinned.Size || o.Version != pinned.Version):
		return o, fmt.Errorf("%s: %w", name, objstore.ErrChanged)
	case o.Checksum != pinned.Checksum || o.Ranges != pinned.Ranges:
		finds, said := seen(o, pinned), seen(pinned, o)
		if job.SeenBy == w.creds.Identity().Name {
			return o, objstore.Permanent(fmt.Errorf("%s: this node finds %s, and found %s when it was asked for the job: the source, or what lies before it, has changed its answer, though the version is the same: broadcast again",
				name, finds, said))
		}
		return o, objstore.Permanent(fmt.Errorf("%s: this node finds %s, and %s, whose word the job was made from, says %s: broadcast again; if it is so then, too, that node lies, or what lies between nodes and store is not the same for all",
			name, finds, cmp.Or(job.SeenBy, "the node"), said))
	}
	return o, nil
}

// seen is what is seen of an object, of checksum and ranges, where other is not the same.
func seen(o, other objstore.Object) string {
	var list []string
	switch c := o.Checksum; {
	case c == other.Checksum:
	case c == (piece.Checksum{}):
		list = append(list, "no checksum")
	default:
		text := peer.Printable(fmt.Sprintf("checksum %s %s", c.Algorithm, c.Value), 100)
		if c.Part > 0 {
			text += fmt.Sprintf(" in parts of %v", c.Part)
		}
		list = append(list, text)
	}
	switch {
	case o.Ranges == other.Ranges:
	case o.Ranges:
		list = append(list, "ranges")
	default:
		list = append(list, "no ranges")
	}
	return strings.Join(list, " and ")
}

// local says whether a job's source is the path on each node.
func local(spec control.Spec) bool { return strings.HasPrefix(spec.Source, "file:") }

// Run carries out this node's part of a job.
func (w *worker) Run(ctx context.Context, job control.Job, lost <-chan []string, report func(control.NodeStatus)) (control.NodeStatus, account.Course) {
	p := &part{worker: w, job: job, lost: lost, status: control.NodeStatus{Name: w.creds.Identity().Name, State: control.Running}, report: report}
	p.course = newCourse(job, w.carries(job, p.status.Name))
	w.tally.begin()
	if err := p.run(ctx); err != nil {
		p.fail(ctx, err)
	}
	s := p.snapshot()
	w.tally.end(s.State)
	if err := w.history.add(past(job, s.Name, p.course.line.Peak())); err != nil {
		w.log.Warn("cannot write the rates that were seen", "err", err)
	}
	return s, p.course.end()
}

// part is a worker's part of one job.
type part struct {
	*worker
	job    control.Job
	lost   <-chan []string // members of which the control plane has no sign of life
	report func(control.NodeStatus)
	course *course

	mu     sync.Mutex // guards what follows
	status control.NodeStatus
	store  string     // what the store failed with, until it delivers again
	failed unit.Bytes // what it had delivered by then
}

// storeFailed notes what is wrong with the store while it is asked again.
func (p *part) storeFailed(op, key string, attempt int, wait time.Duration, err error) {
	p.noteRetry(op, key, attempt, wait, err)
	p.update(func(s *control.NodeStatus) {
		p.store, p.failed = "the store: "+line(err), s.StoreBytes
		s.Waiting = p.store
	})
}

func (p *part) snapshot() control.NodeStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

func (p *part) update(change func(*control.NodeStatus)) {
	p.mu.Lock()
	change(&p.status)
	s := p.status
	p.mu.Unlock()
	p.report(s)
}

func (p *part) fail(ctx context.Context, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wrong := errors.Is(err, swarm.ErrHeldWrong)
	if p.status.State.Ended() && !wrong { // done, and only the others were waited for
		return
	}
	if p.status.State == control.Done {
		p.status.Wrong, p.status.Verified, p.status.DoneS = true, "", 0
	}
	p.status.State, p.status.Error, p.status.Waiting = control.Failed, line(err), ""
	if errors.Is(context.Cause(ctx), control.ErrCancelled) && !p.status.Wrong {
		p.status.State = control.Cancelled
	}
}

func (p *part) run(ctx context.Context) (err error) {
	self := slices.IndexFunc(p.job.Members, func(m control.Member) bool { return m.Name == p.status.Name })
	if self < 0 {
		return fmt.Errorf("%s is no member of job %s", p.status.Name, p.job.ID)
	}
	if p.job.Members[self].Held {
		p.status.State = control.Present
	}
	recorder, closeRecording, err := p.recorder()
	if err != nil {
		return err
	}
	defer closeRecording()
	witness, err := p.recall(ctx, p.job)
	if err != nil {
		return err
	}
	store, key, err := p.open(ctx, p.job.Spec.Source)
	if err != nil {
		return err
	}
	defer store.Close()
	store = retry.New(store, retry.Policy{OnRetry: p.storeFailed})
	o := p.job.Object
	o.Key = key
	look, several := !p.job.Members[self].Held && !p.job.Members[self].NoAccess, p.job.Spec.Several()
	var objects []objstore.Object
	if several {
		if objects, err = p.objects(ctx, store, key, p.job, look); err != nil {
			return err
		}
	} else if local(p.job.Spec) && look {
		own, err := p.source(ctx, store, key, p.job)
		if err != nil {
			return err
		}
		o.Version = own.Version
	}
	config := swarm.Config{
		Lost: p.lost,
		Job:  p.job.ID, Start: p.job.Accepted, Self: self, Algorithm: p.job.Spec.Algorithm,
		Source: open.Redact(p.job.Spec.Source), Object: o, Objects: objects, Layout: Layout(p.job), PerWork: p.job.Spec.PerWork, Store: store,
		SourceCopies: p.job.Spec.SourceCopies,
		Access:       witness, Network: p.port, Receive: p.receive, Send: p.send, Recorder: recorder, Counters: &p.counters,
		Report: p.progress, Log: p.log,
	}
	for _, m := range p.job.Members {
		config.Members = append(config.Members, swarm.Member{Name: m.Name, Addr: m.Addr, Held: m.Held, NoAccess: m.NoAccess, Site: m.Site})
	}
	dest := p.dest(p.job.Spec)
	if err := notOurs(dest); err != nil { // links may have changed since it was prepared
		return err
	}
	switch held := p.job.Members[self].Held; {
	case several && held:
		t, err := p.roots.OpenTree(dest, p.job.Spec.Source, treeFiles(p.job))
		if err != nil {
			return plainly(err)
		}
		defer t.Close()
		config.File = t
	case several:
		files := treeFiles(p.job)
		if config.Kept, err = p.roots.HeldFiles(dest, p.job.Spec.Source, files); err != nil {
			return err
		}
		for i, kept := range config.Kept {
			files[i].Kept = kept
		}
		p.update(func(s *control.NodeStatus) {
			s.Kept, s.KeptSet = keptBytes(p.job, config.Kept), keptSet(p.job, config.Kept)
		})
		t, err := p.roots.CreateTree(p.job.ID, dest, p.job.Spec.Source, files)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, t.Close()) }()
		config.File = timed{t, &p.course.written}
		config.Commit, config.Abandon = t.Commit, t.StopCopies
	case held:
		f, err := p.roots.OpenHeld(dest, p.job.Spec.Source, p.job.Object.Version, p.job.Object.Size)
		if err != nil {
			return plainly(err)
		}
		defer f.Close()
		config.File = f
	default:
		f, err := p.roots.Create(p.job.ID, dest, o.Size)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		config.File = timed{f, &p.course.written}
		config.Commit = func() error { return f.Commit(landing.Meta{Source: p.job.Spec.Source, Version: p.job.Object.Version}) }
	}
	end, err := swarm.Run(ctx, config)
	p.progress(end) // what came or was sent since it last said so
	if err != nil && (!end.Done || fails(err, p.job.Members[self].Held)) {
		return plainly(err)
	}
	return plainly(p.digest(config.File))
}

// Layout is how a job's object is cut into pieces; of several objects it needs their list (Job.Files).
func Layout(job Job) piece.Layout {
	if len(job.Files) > 0 {
		return cutFiles(job)
	}
	return piece.Layout{Size: job.Object.Size, Piece: cmp.Or(job.Spec.Piece, piece.DefaultSize(job.Object.Size, job.Object.Checksum.Part))}
}

// digest reads the file as it lies on the disk and notes its SHA-256, if the
// job asks for it. The file is in its place by then, and its time is taken.
func (p *part) digest(f io.ReaderAt) error {
	if !p.job.Spec.SHA256 {
		return nil
	}
	sum, err := sha256Of(f, p.job)
	if err != nil {
		return fmt.Errorf("%s: %w", p.dest(p.job.Spec), err)
	}
	p.update(func(s *control.NodeStatus) {
		s.SHA256, s.Waiting = sum, ""
		if !s.State.Ended() {
			s.State = control.Done
		}
	})
	return nil
}

// progress passes on what the swarm says.
func (p *part) progress(s swarm.Progress) {
	p.course.note(time.Now(), s)
	p.update(func(n *control.NodeStatus) {
		n.Phase, n.Have, n.Files, n.StoreBytes, n.PeerBytes, n.SentBytes = s.Phase, s.Have, s.Objects, s.StoreBytes, s.PeerBytes, s.SentBytes
		n.CrossedBytes, n.StoreS, n.PlainPeers = s.CrossedBytes, s.StoreTime.Seconds(), s.PlainPeers
		if s.StoreBytes > p.failed || s.Done {
			p.store = ""
		}
		n.Waiting, n.Faults = cmp.Or(s.Waiting, p.store), nil
		for _, f := range s.Faults {
			n.Faults = append(n.Faults, control.Fault{Node: f.Node, Cause: f.Cause})
		}
		if s.Done && !n.State.Ended() {
			n.Verified, n.DoneS = s.Verified, s.DoneAt.Sub(p.job.Accepted).Seconds()
			if p.job.Spec.SHA256 {
				n.Waiting = "its SHA-256"
			} else {
				n.State = control.Done
			}
		}
	})
}

// fails says whether an error undoes that a node is done. Others alone were waited for since, so all does not but this: its file is not the object. That is so if the disk gives
// back something else than was checked; and if somebody has changed a file that was there beforehand. One that has landed is its owner's to change.
func fails(err error, held bool) bool {
	_, changed := errors.AsType[*landing.ChangedError](err)
	return errors.Is(err, swarm.ErrHeldWrong) || changed && held
}

// heldWrong is the error of a file that was to be in its place before the job, and is not.
func heldWrong(err error) error { return fmt.Errorf("%w: %w", swarm.ErrHeldWrong, err) }

// plainly is err, or only what it says of a file that was in its place before the job: where that was noticed is of no use to anybody.
func plainly(err error) error {
	if changed, ok := errors.AsType[*landing.ChangedError](err); ok {
		return heldWrong(changed)
	}
	return err
}

// recorder opens the recording of a job, if it is to have one.
func (p *part) recorder() (*swarm.Recorder, func(), error) {
	if !p.job.Spec.Record {
		return nil, func() {}, nil
	}
	f, err := os.OpenFile(p.recordingPath(p.job.ID), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("recording: %w", err)
	}
	p.forgetRecordings(f.Name())
	r := swarm.NewRecorder(f, p.job.ID, p.status.Name, p.job.Accepted)
	return r, func() {
		if err := cmp.Or(r.Err(), f.Close()); err != nil {
			p.log.Warn("recording is incomplete", "job", p.job.ID, "err", err)
		}
	}, nil
}

func (w *worker) recordingPath(job string) string {
	return filepath.Join(w.recordings, filepath.Base(job)+".jsonl")
}

// forgetRecordings removes the oldest recordings but for that at path just, which is to be written now. Names of jobs sort by time, as the control plane's
// clock had it.
func (w *worker) forgetRecordings(just string) {
	old, err := filepath.Glob(filepath.Join(w.recordings, "*.jsonl"))
	if err != nil {
		return
	}
	slices.Sort(old)
	left := len(old)
	for _, path := range old {
		if left > keepRecordings && path != just {
			os.Remove(path)
			left--
		}
	}
}

// Recording opens what this node has recorded of a job so far.
func (w *worker) Recording(job string) (control.Recording, error) {
	f, err := os.Open(w.recordingPath(job))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, control.ErrNoRecording
	}
	return f, err
}
