package control

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/freshet/freshet/internal/pki"
)

// Config of a Hub.
type Config struct {
	State     string // directory of the authority, the hub's and the admin's credentials, and the records; made if need be
	NATS      string // URLs of a NATS cluster with JetStream, separated by commas, that keeps the records; "": the embedded one does
	NATSCreds string // credentials file for it; "": none
	Log       *slog.Logger

	// Dial reaches the addresses that nodes advertise. nil: a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	Life time.Duration // of the certificates that are issued; zero: a year
}

// keepJobs is how many ended jobs are remembered.
const keepJobs = 1000

// Hub is the control plane of a cluster. OpenHub, hand ServeControl to the port
// and requests for JoinPath to AnswerJoin, Run.
type Hub struct {
	config    Config
	log       *slog.Logger
	authority *pki.Authority
	creds     *pki.Credentials
	core      *core
	nc        *nats.Conn // to the embedded server: agents and admins
	store     *buckets
	external  *nats.Conn // nil: the records are in the embedded server
	joins     chan struct{}
	failures  failures
	probing   atomic.Bool // a probe is under way

	keys  sync.Mutex              // held while certificates are issued or revoked, so that none slips past a removal; taken before mu
	wg    sync.WaitGroup          // everything that Run waits for
	fatal context.CancelCauseFunc // ends Run; set by it

	mu     sync.Mutex // guards what follows
	closed bool
	nodes  map[string]*node
	conns  map[pki.Identity]map[*tls.Conn]bool
	active map[string]*driven // jobs that have not ended, by ID
	ended  []string           // IDs of the jobs that have, oldest first

	outcomes       map[string]State // of these
	leaving        bool             // no more jobs are taken
	own            string           // the node in this process; empty: none
	revoked        revocations
	revokedVersion string
	adminAddr      string           // as the admin's file says
	adminCreds     *pki.Credentials // that it holds; nil: not written
}

// node is a registered node and what is known of it right now.
type node struct {
	nodeRecord
	rev     uint64
	heard   time.Time // last sign of life; zero: none since the hub started
	left    time.Time // when its last control connection ended
	noted   time.Time // when the members bucket last heard of it
	running int       // jobs, by its own account
	leaving bool      // it takes no more of them, likewise

	registering bool      // a registration is under way
	tried       time.Time // when the last one began

	said     *rate.Limiter // what it says unasked; nil: nothing yet
	renewals *rate.Limiter // of certificates that it asks for; nil: none yet
}

// patient says whether the hub listens to one more message of the node, of so many bytes. An
// agent sends about five a second, short ones; what is left out it says again with the next beat,
// or asks once more.
func (n *node) patient(bytes int) bool {
	if n.said == nil {
		n.said = rate.NewLimiter(40, 80)
	}
	return n.said.AllowN(time.Now(), 1+bytes>>16)
}

// up says whether the node is to be reckoned with. A connection that ended is
// given two seconds to come back.
func (n *node) up(now time.Time) bool {
	if n.Addr == "" || n.heard.IsZero() || now.Sub(n.heard) >= memberTTL {
		return false
	}
	return !n.left.After(n.heard) || now.Sub(n.left) < 2*time.Second
}

func (n *node) seen() time.Time {
	if n.heard.After(n.Seen) {
		return n.heard
	}
	return n.Seen
}

func (n *node) view(name string, now time.Time) NodeView {
	return NodeView{
		Name: name, Addr: n.Addr, Site: n.Site, Labels: n.Labels, Roots: n.Roots, Version: n.Version,
		Up: n.up(now), Seen: n.seen(), Leaving: n.leaving, Jobs: n.running, RateIn: n.RateIn, RateOut: n.RateOut, Security: n.Security,
		Expires: n.expires(),
	}
}

// OpenHub opens or founds a cluster in config.State and starts its NATS
// server. The caller runs it, or closes it if it never comes to that.
func OpenHub(ctx context.Context, config Config) (_ *Hub, err error) {
	h := &Hub{
		config: config, log: config.Log, joins: make(chan struct{}, 32),
		nodes: map[string]*node{}, conns: map[pki.Identity]map[*tls.Conn]bool{}, active: map[string]*driven{}, outcomes: map[string]State{},
		failures: failures{by: map[string]*rate.Limiter{}},
	}
	if h.log == nil {
		h.log = slog.Default()
	}
	if err := h.openAuthority(); err != nil {
		return nil, err
	}
	dir := h.records()
	if config.NATS != "" {
		dir = ""
	}
	defer func() {
		if err != nil {
			h.Close()
		}
	}()
	if h.core, err = startCore(dir, h.log); err != nil {
		return nil, err
	}
	if h.nc, err = h.core.connect(); err != nil {
		return nil, err
	}
	records := h.nc
	if config.NATS != "" {
		if h.external, err = connectNATS(ctx, config.NATS, config.NATSCreds); err != nil {
			return nil, err
		}
		records = h.external
	}
	if h.store, err = openBuckets(ctx, records, h.authority.Fingerprint()); err != nil {
		return nil, fmt.Errorf("open the cluster's records: %w", err)
	}
	if err := h.loadNodes(ctx); err != nil {
		return nil, fmt.Errorf("read the registered nodes: %w", err)
	}
	if err := h.loadRevoked(ctx); err != nil {
		return nil, fmt.Errorf("read who was removed: %w", err)
	}
	if err := h.loadJobs(ctx); err != nil {
		return nil, fmt.Errorf("read the job records: %w", err)
	}
	return h, nil
}

// records is the directory of the embedded server's records.
func (h *Hub) records() string { return filepath.Join(h.config.State, "nats") }

// openAuthority loads the cluster's authority and the hub's certificate, or
// makes them.
func (h *Hub) openAuthority() (err error) {
	dir := h.config.State
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the control plane's state directory: %w", err)
	}
	h.authority, err = pki.LoadAuthority(dir)
	if errors.Is(err, os.ErrNotExist) {
		if h.authority, err = pki.NewAuthority(); err != nil {
			return err
		}
		err = h.authority.Save(dir)
	}
	if err != nil {
		return err
	}
	h.authority.Life = h.config.Life
	h.creds, err = h.renewed(filepath.Join(dir, hubFile), pki.Hub, pki.HubName)
	return err
}

// hubFile holds the hub's own credentials.
const hubFile = "hub.pem"

// renewed is the credential in path, or a new one, which it writes there, if
// that is missing, to be renewed or another cluster's.
func (h *Hub) renewed(path string, role pki.Role, name string) (*pki.Credentials, error) {
	if c := h.young(path, role, name); c != nil {
		return c, nil
	}
	c, err := h.authority.NewCredentials(role, name)
	if err != nil {
		return nil, err
	}
	return c, c.Save(path)
}

// young is the credential in path, or nil if that is missing, to be renewed or
// another's.
func (h *Hub) young(path string, role pki.Role, name string) *pki.Credentials {
	c, err := pki.Load(path)
	if err != nil || !time.Now().Before(c.RenewAt(0)) || c.Identity() != (pki.Identity{Name: name, Role: role, Cluster: h.authority.Fingerprint()}) {
		return nil
	}
	return c
}

// Credentials are the hub's own, for the port.
func (h *Hub) Credentials() *pki.Credentials { return h.creds }

// Fingerprint names the cluster.
func (h *Hub) Fingerprint() string { return h.authority.Fingerprint() }

// Close ends a hub that was not run. Run does so itself.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	for _, cs := range h.conns {
		for c := range cs {
			c.NetConn().Close()
		}
	}
	h.mu.Unlock()
	if h.external != nil {
		h.external.Close()
	}
	if h.nc != nil {
		h.nc.Close()
	}
	if h.core != nil {
		h.core.close()
	}
}

func (h *Hub) loadNodes(ctx context.Context) error {
	err := all(ctx, h.store.nodes, func(name string, value []byte, rev uint64) {
		n := &node{rev: rev}
		if err := json.Unmarshal(value, &n.nodeRecord); err != nil {
			h.log.Error("unreadable record of a node", "node", name, "err", err)
			return
		}
		h.nodes[name] = n
	})
	if err != nil {
		return err
	}
	now := time.Now()
	return all(ctx, h.store.members, func(name string, _ []byte, _ uint64) { // who beat just now, if the records outlived us
		if n := h.nodes[name]; n != nil {
			n.heard = now
		}
	})
}

// Run serves the cluster until ctx ends, which is no error, or its records can
// no longer be trusted.
func (h *Hub) Run(ctx context.Context) error {
	defer h.Close()
	ctx, h.fatal = context.WithCancelCause(ctx)
	defer func() { // before Close, after the subscriptions are gone
		h.fatal(nil)
		h.mu.Lock()
		h.closed = true
		h.mu.Unlock()
		h.wg.Wait()
	}()
	h.resumeJobs(ctx)
	notes := make(chan string, 4096)
	h.spawn(func() { h.noteMembers(ctx, notes) })
	h.spawn(func() { h.keepOwn(ctx) })

	up, err := h.nc.Subscribe("up.>", func(m *nats.Msg) { h.heardFrom(ctx, m, notes) })
	if err != nil {
		return err
	}
	defer up.Unsubscribe()
	up.SetPendingLimits(64<<10, 64<<20)
	slots := make(chan struct{}, 64)
	api, err := h.nc.Subscribe("api.>", func(m *nats.Msg) {
		onlyTo(m, inbox(string(pki.Admin), ""))
		select {
		case slots <- struct{}{}:
			h.spawn(func() { defer func() { <-slots }(); h.serveAPI(ctx, m) })
		default:
			answer(m, nil, fail(ErrBusy, "the control plane is busy with %d requests; try again", cap(slots)))
		}
	})
	if err != nil {
		return err
	}
	defer api.Unsubscribe()
	if err := h.nc.Flush(); err != nil {
		return err
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// spawn runs f in a goroutine that Run waits for, unless Run is ending.
func (h *Hub) spawn(f func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.wg.Go(f)
	}
	return !h.closed
}

// errNoFiles is why a job that runs is stopped when the hub starts.
const errNoFiles = "the list of its files is missing in the control plane's records, or unreadable; submit it again"

// loadJobs reads the job records. One whose files are missing or unreadable is given up: it is not to keep the hub from starting.
func (h *Hub) loadJobs(ctx context.Context) error {
	known := map[string]bool{}
	err := all(ctx, h.store.jobs, func(id string, value []byte, rev uint64) {
		known[id] = true
		var j Job
		if err := json.Unmarshal(value, &j); err != nil || j.ID != id {
			h.log.Error("unreadable record of a job", "job", id, "err", err)
			return
		}
		if j.State.Ended() {
			h.ended = append(h.ended, id)
			h.outcomes[id] = j.State
			return
		}
		d := newDriven(j)
		d.rev = rev
		h.active[id] = d
	})
	if err != nil {
		return err
	}
	slices.Sort(h.ended)
	for id, d := range h.active {
		if d.latest.Load().FileCount == 0 {
			continue
		}
		_, err := get(ctx, h.store.files, id, &d.files)
		if errors.Is(err, jetstream.ErrKeyNotFound) || errors.Is(err, errUnreadable) {
			h.log.Error("no list of a job's files", "job", id, "err", err)
			d.files = nil                 // of which some may have been read
			d.offer(toCancel{errNoFiles}) // one that was being prepared fails anyway
		} else if err != nil {
			return err
		}
	}
	h.dropStrays(ctx, known)
	return nil
}

// dropStrays removes what belongs to no job: a hub that ended between two writes left it behind.
func (h *Hub) dropStrays(ctx context.Context, known map[string]bool) {
	for _, kv := range []jetstream.KeyValue{h.store.courses, h.store.files} {
		var strays []string
		err := all(ctx, kv, func(id string, _ []byte, _ uint64) {
			if !known[id] {
				strays = append(strays, id)
			}
		}, jetstream.MetaOnly())
		for _, id := range strays {
			if err == nil {
				err = drop(ctx, kv, id)
			}
		}
		if err != nil {
			h.log.Warn("cannot remove what is left of jobs", "bucket", kv.Bucket(), "err", err)
		}
	}
}

// resumeJobs takes up the jobs that had not ended when the last hub did.
func (h *Hub) resumeJobs(ctx context.Context) {
	h.mu.Lock()
	open := slices.Collect(maps.Values(h.active))
	h.mu.Unlock()
	known := h.views()
	for _, d := range open {
		m, changed := resume(*d.saved.Load(), time.Now())
		for _, n := range m.job.Nodes {
			if _, ok := known[n.Name]; !ok { // removed, and the last hub died before the job heard of it
				d.offer(wasRemoved{n.Name})
			}
		}
		h.log.Info("job taken up again", "job", m.job.ID, "state", m.job.State)
		h.spawn(func() { h.drive(ctx, d, m, changed) })
	}
}

// heardFrom takes a message of a node. NATS has seen to it that only that node
// can have sent it. It is called for one message after the other, so a node's
// snapshots keep their order; and since all nodes wait for that, what one says too
// often is dropped before anything is done about it.
func (h *Hub) heardFrom(ctx context.Context, m *nats.Msg, notes chan<- string) {
	parts := strings.Split(m.Subject, ".") // up, the node's name (as the server has checked), and what it wants
	onlyTo(m, inbox(string(pki.Node), parts[1]))
	if len(parts) != 3 || len(m.Data) > maxUp {
		answer(m, nil, fail(ErrInvalid, "message of %d bytes to %q makes no sense", len(m.Data), oneLine(m.Subject)))
		return
	}
	name := parts[1]
	h.mu.Lock()
	n := h.nodes[name]
	heed := n == nil || n.patient(len(m.Data))
	h.mu.Unlock()
	if !heed {
		return
	}
	switch parts[2] {
	case "register":
		done, err := h.letRegister(name, time.Now())
		if err != nil {
			answer(m, nil, err)
			return
		}
		h.spawn(func() { defer done(); answer(m, nil, h.register(ctx, name, m.Data)) })
	case "beat":
		var b beat
		if err := json.Unmarshal(m.Data, &b); err != nil {
			answer(m, nil, fail(ErrInvalid, "unreadable beat: %v", err))
			return
		}
		answer(m, h.beaten(name, b, notes), nil)
	case "renew":
		h.spawn(func() {
			a, err := h.renew(ctx, name, m.Data)
			answer(m, a, err)
		})
	case "revoked":
		h.mu.Lock()
		list := h.revoked
		h.mu.Unlock()
		answer(m, append(revocations{}, list...), nil)
	case "status":
		var r report
		if err := json.Unmarshal(m.Data, &r); err == nil { // nobody waits for an answer; the next beat says it again
			h.reported(name, r)
		}
	}
}

// reported hands on what a node says of its jobs: one word of each.
func (h *Hub) reported(name string, r report) {
	h.mu.Lock()
	defer h.mu.Unlock()
	told := map[string]bool{}
	for _, s := range r.Jobs {
		if d := h.active[s.Job]; d != nil && !told[s.Job] {
			told[s.Job] = true
			s.Status.Name = name
			if s.Course != nil { // before the status, with which the job may end
				d.noteCourse(name, *s.Course)
			}
			d.offer(hasStatus{s.Status})
		}
	}
}

// beaten takes a node's beat, and says what its agent may forget and whom it need not wait for.
func (h *Hub) beaten(name string, b beat, notes chan<- string) beatAnswer {
	h.reported(name, b.report)
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.nodes[name]
	if n == nil || n.Addr == "" {
		return beatAnswer{Unregistered: true}
	}
	now := time.Now()
	n.heard, n.running, n.leaving = now, max(b.Running, 0), b.Leaving
	if now.Sub(n.noted) > memberTTL/3 {
		select {
		case notes <- name:
			n.noted = now
		default:
		}
	}
	a := beatAnswer{Revoked: h.revokedVersion}
	lists := map[string]bool{}
	for _, s := range b.Jobs {
		lists[s.Job] = true
		d := h.active[s.Job]
		if d == nil || settled(*d.saved.Load(), name) {
			a.Drop = append(a.Drop, s.Job)
		} else if lost := d.lost.Load(); lost != nil && len(*lost) > 0 {
			if a.Lost == nil {
				a.Lost = map[string][]string{}
			}
			a.Lost[s.Job] = *lost
		}
	}
	for id, d := range h.active {
		d.offer(hasBeaten{name, lists[id]})
	}
	return a
}

// noteMembers keeps the members bucket, and notes on disk when a node was last
// seen once it has gone.
func (h *Hub) noteMembers(ctx context.Context, notes <-chan string) {
	tick := time.NewTicker(memberTTL)
	defer tick.Stop()
	failing := false
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case name := <-notes:
			h.mu.Lock()
			n := h.nodes[name]
			var r Registration
			if n != nil {
				r = n.Registration
			}
			h.mu.Unlock()
			if n == nil {
				continue
			}
			b, _ := json.Marshal(r)
			ctx, cancel := context.WithTimeout(ctx, within)
			_, err = h.store.members.Put(ctx, name, b)
			cancel()
		case <-tick.C:
			err = h.noteGone(ctx)
		}
		if err != nil && ctx.Err() == nil && !failing {
			h.log.Warn("cannot write the members' records", "err", err)
		}
		failing = err != nil
	}
}

func (h *Hub) noteGone(ctx context.Context) error {
	now := time.Now()
	var gone []string
	h.mu.Lock()
	for name, n := range h.nodes {
		if !n.up(now) && n.heard.After(n.Seen) {
			gone = append(gone, name)
		}
	}
	h.mu.Unlock()
	for _, name := range gone {
		err := h.changeNode(ctx, name, func(r *nodeRecord, n *node) { r.Seen = n.heard })
		if err != nil && !errors.Is(err, ErrNoSuchNode) {
			return err
		}
	}
	return nil
}

// changeNode changes a node's record, on disk first.
func (h *Hub) changeNode(ctx context.Context, name string, change func(*nodeRecord, *node)) error {
	for range 5 {
		h.mu.Lock()
		n := h.nodes[name]
		if n == nil {
			h.mu.Unlock()
			return fail(ErrNoSuchNode, "no node %q", name)
		}
		r, rev := n.nodeRecord, n.rev
		change(&r, n)
		h.mu.Unlock()
		next, err := put(ctx, h.store.nodes, name, r, rev)
		if errors.Is(err, errChangedByOther) { // by another of our goroutines, if its result is not in the map yet
			var theirs nodeRecord
			rev, err := get(ctx, h.store.nodes, name, &theirs)
			if err != nil {
				return err
			}
			h.mu.Lock()
			if n := h.nodes[name]; n != nil && rev > n.rev {
				n.nodeRecord, n.rev = theirs, rev
			}
			h.mu.Unlock()
			continue
		}
		if err != nil {
			return err
		}
		h.mu.Lock()
		if n := h.nodes[name]; n != nil && next > n.rev {
			n.nodeRecord, n.rev = r, next
		}
		h.mu.Unlock()
		return nil
	}
	return fmt.Errorf("record of node %s: %w", name, errChangedByOther)
}

// views are all nodes as of now, by name.
func (h *Hub) views() map[string]NodeView {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	v := make(map[string]NodeView, len(h.nodes))
	for name, n := range h.nodes {
		v[name] = n.view(name, now)
	}
	return v
}

func sortedViews(v map[string]NodeView) []NodeView {
	nodes := make([]NodeView, 0, len(v))
	for _, n := range v {
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b NodeView) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}
