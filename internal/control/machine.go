package control

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/unit"
)

// machine is one job's life as the hub sees it: events in, the record and
// commands out. It has no clock and does no I/O; the hub's loop (drive.go)
// calls step, writes the record if told to, and then carries out the commands.
// A command may get lost: what matters is asked again when the next beat shows
// that it has not happened.
//
//	begin ──> prepare each node ──> every answer or the deadline ──> start each that is ready
//	      ──> statuses until every node's part has ended ──> done, failed or cancelled
//
// A node that is done may still serve others. Its part has not ended then, but
// its outcome stands, whatever becomes of it. When all that have not ended only
// serve, they are told to stop after a while: a disk that hangs, or a liar, may keep them.
type machine struct {
	job   Job
	addrs map[string]string // of the nodes that were up when the job was accepted
	sites map[string]string // of the same; empty: it has none

	accepted time.Time // when the job was: by a clock that nobody sets (time.Time, monotonic), or, after a restart, as the record has it

	due     time.Time            // preparing: who has not answered by then fails
	ready   map[string]bool      // preparing: answered; the value: it has the pinned version already
	blind   map[string]string    // preparing: answered that it may not read the source, and why
	begun   map[string]time.Time // running: when the member was last told to start
	heard   map[string]time.Time // running: the member's last sign of life
	missing map[string]time.Time // running: the member's first beat that did not list the job
	moved   map[string]time.Time // running: when the member's own word last told of something new
	placed  time.Time            // running: when the first node was heard to have the object in its place; zero: none has
	idle    time.Time            // running: since when all that have not ended only serve; zero: not all do
	lost    map[string]bool      // silent for too long: failed, unless it only served others; what it says when it is back still counts while the job runs
	silent  time.Time            // running: since when the hub has taken itself to be cut off; zero: it does not
	own     string               // the node in the hub's own process, which it hears even if it is cut off; empty: none
	anybody time.Time            // the last sign of life of any other node, of the job or not
	whose   string               // that node
	before  time.Time            // the last one of any but these two; zero: none
	timeout time.Time            // of the job as a whole; zero: none
	expired bool                 // the nodes were told to stop because of timeout
	giveUp  time.Time            // stopping: who has not ended by then is not waited for
}

// An event is what happened: one of the types below.
type event interface{}

type (
	begun       struct{}
	wasPrepared struct { // a node's answer to prepare
		node     string
		present  bool
		noAccess string
		err      string // not empty: it cannot take part
	}
	hasStatus struct{ status NodeStatus } // a node's report; status.Name is authenticated
	hasBeaten struct {                    // a sign of life
		node  string
		lists bool // the agent knows of this job
	}
	notStarted struct{ node, err string } // a node refused to start
	wasRemoved struct{ node string }      // from the cluster
	toCancel   struct{ reason string }
	wasAway    struct{ gap time.Duration } // the hub itself did nothing for so long, and so heard nobody
	ticked     struct{}
)

// A command is what to do: one of the types below.
type command interface{}

type (
	cmdPrepare struct{ node string }
	cmdStart   struct{ node string }
	cmdStop    struct {
		node, reason string
		failed       bool
	}
)

// newMachine is a job that has just been accepted. addrs has the address of
// every node that is up; down says of each of the others why it is not.
func newMachine(job Job, addrs, down map[string]string) *machine {
	m := &machine{job: job, accepted: job.Accepted, addrs: addrs, ready: map[string]bool{}, blind: map[string]string{}, begun: map[string]time.Time{}, heard: map[string]time.Time{}, missing: map[string]time.Time{}, moved: map[string]time.Time{}, lost: map[string]bool{}}
	m.job.State, m.job.Revision, m.job.Nodes = Preparing, 1, nil
	m.job.Accepted = job.Accepted.UTC()
	for name := range addrs {
		m.job.Nodes = append(m.job.Nodes, NodeStatus{Name: name, State: Preparing})
	}
	for name, why := range down {
		m.job.Nodes = append(m.job.Nodes, NodeStatus{Name: name, State: Failed, Error: why})
	}
	slices.SortFunc(m.job.Nodes, func(a, b NodeStatus) int { return cmp.Compare(a.Name, b.Name) })
	m.setTimeout()
	return m
}

// errRestarted is why a job that was being prepared ends when the hub starts.
const errRestarted = "control plane restarted while the job was being prepared; submit it again"

// resume continues a job from its record after the hub has been away. Nobody
// can have been heard meanwhile, so everybody is given time to come back.
// changed says that the record has to be written.
func resume(job Job, now time.Time) (m *machine, changed bool) {
	m = &machine{job: job, accepted: job.Accepted, ready: map[string]bool{}, blind: map[string]string{}, begun: map[string]time.Time{}, heard: map[string]time.Time{}, missing: map[string]time.Time{}, moved: map[string]time.Time{}, lost: map[string]bool{}}
	m.job.Nodes = slices.Clone(job.Nodes)
	switch job.State {
	case Preparing:
		for i := range m.job.Nodes {
			if n := &m.job.Nodes[i]; !n.State.Ended() {
				n.State, n.Error = Failed, errRestarted
			}
		}
		m.job.State, m.job.Error, m.job.Ended = Failed, errRestarted, now
		m.job.Revision++
		return m, true
	case Running:
		for _, mem := range m.job.Members {
			m.heard[mem.Name] = now.Add(restartGrace - lostAfter)
			m.moved[mem.Name] = now
			if n := m.node(mem.Name); n != nil && wasLost(*n) {
				m.lost[mem.Name] = true
			}
		}
		m.setTimeout()
		if m.job.Stopping != "" {
			m.giveUp = now.Add(restartGrace + stopWithin)
			m.expired = m.timeoutReason() == m.job.Stopping
		}
	}
	return m, false
}

func (m *machine) setTimeout() {
	if m.job.Spec.Timeout > 0 {
		m.timeout = m.accepted.Add(time.Duration(m.job.Spec.Timeout))
	}
}

func (m *machine) timeoutReason() string {
	return fmt.Sprintf("timed out after %v", m.job.Spec.Timeout)
}

// snapshot is the record as it is now; the caller may keep it.
func (m *machine) snapshot() Job {
	j := m.job
	j.Nodes, j.Members = slices.Clone(j.Nodes), slices.Clone(j.Members)
	return j
}

// step takes one event. changed says that a watcher sees a difference, durable
// that the record must be written before the commands are carried out.
func (m *machine) step(now time.Time, e event) (cmds []command, changed, durable bool) {
	if m.job.State.Ended() {
		return nil, false, false
	}
	switch e := e.(type) {
	case begun:
		cmds = m.prepare(now)
	case wasPrepared:
		if n := m.node(e.node); n == nil || m.job.State != Preparing || n.State != Preparing {
			break
		} else if e.err != "" {
			n.State, n.Error = Failed, oneLine(e.err)
			changed = true
		} else {
			m.ready[e.node] = e.present
			if e.noAccess != "" {
				m.blind[e.node] = e.noAccess
			}
		}
	case hasStatus:
		var again bool
		again, changed, durable = m.report(now, e.status)
		if again && now.Sub(m.begun[e.status.Name]) >= startAgain { // else its report may have been under way
			m.begun[e.status.Name] = now
			cmds = append(cmds, cmdStart{e.status.Name})
		}
	case hasBeaten:
		cmds, changed = m.beaten(now, e)
		durable = changed
	case notStarted:
		if n := m.node(e.node); n != nil && n.State == Running && n.Have == 0 {
			n.State, n.Error = Failed, oneLine(e.err)
			if m.job.Stopping != "" { // the command to stop overtook that to start
				n.State, n.Error = stoppedState(m.expired), m.job.Stopping
			}
			changed, durable = true, true
		}
	case wasRemoved:
		if n := m.node(e.node); n != nil && !n.over() {
			if n.State.Ended() { // its file is in its place
				n.Serving = false
			} else {
				n.State, n.Error, n.Waiting = Failed, "removed from the cluster", ""
			}
			delete(m.lost, e.node) // and what it may still say counts no more
			changed, durable = true, true
		}
	case toCancel:
		if m.job.Stopping == "" {
			cmds, changed, durable = m.stop(now, e.reason, false), true, true
		}
	case wasAway:
		m.forgive(now, e.gap)
		if m.job.State == Preparing && !m.due.IsZero() { // answers may have come too late; who has prepared says it again
			cmds = m.prepare(now)
		}
	case ticked:
		cmds, changed = m.tick(now)
		durable = changed
	}
	if m.job.State == Preparing {
		if more, started := m.start(now); started {
			cmds, changed, durable = append(cmds, more...), true, true
		}
	}
	if m.job.State == Running && !slices.ContainsFunc(m.job.Nodes, func(n NodeStatus) bool { return !n.over() && !(n.State.Ended() && m.lost[n.Name]) }) {
		m.end(now)
		changed, durable = true, true
	}
	if changed {
		m.job.Revision++
	}
	return cmds, changed, durable
}

// node is that node's status in the record, or nil.
func (m *machine) node(name string) *NodeStatus {
	i, ok := slices.BinarySearchFunc(m.job.Nodes, name, func(n NodeStatus, s string) int { return cmp.Compare(n.Name, s) })
	if !ok {
		return nil
	}
	return &m.job.Nodes[i]
}

// prepare asks all who have not answered.
func (m *machine) prepare(now time.Time) (cmds []command) {
	m.due = now.Add(prepareWithin)
	for _, n := range m.job.Nodes {
		if _, ok := m.ready[n.Name]; n.State == Preparing && !ok {
			cmds = append(cmds, cmdPrepare{n.Name})
		}
	}
	return cmds
}

// start ends the preparation once every node has answered: those that are
// ready become the members, in name order, which is their rank.
func (m *machine) start(now time.Time) (cmds []command, started bool) {
	needed, source := false, false
	for _, n := range m.job.Nodes {
		if n.State != Preparing {
			continue
		}
		present, answered := m.ready[n.Name]
		if !answered {
			return nil, false
		}
		needed = needed || !present
		source = source || present || m.blind[n.Name] == ""
	}
	m.job.State = Running
	for i := range m.job.Nodes {
		n := &m.job.Nodes[i]
		if n.State != Preparing {
			continue
		}
		if !needed { // nobody lacks it, so nobody has to give
			n.State, n.Have, n.Files = Present, m.job.Object.Size, m.job.FileCount
			continue
		}
		if why := m.blind[n.Name]; !source {
			n.State, n.Error = Failed, why+"; and no other node may read it either, which --share-access needs"
			continue
		}
		n.State, n.NoAccess = Running, m.blind[n.Name] != ""
		m.job.Members = append(m.job.Members, Member{Name: n.Name, Addr: m.addrs[n.Name], Held: m.ready[n.Name], NoAccess: n.NoAccess, Site: m.sites[n.Name]})
		m.begun[n.Name], m.heard[n.Name], m.moved[n.Name] = now, now, now
		cmds = append(cmds, cmdStart{n.Name})
	}
	return cmds, true
}

// report takes a node's own word. again says that it still waits for its start.
func (m *machine) report(now time.Time, s NodeStatus) (again, changed, durable bool) {
	m.hears(now, s.Name)
	n := m.node(s.Name)
	if n != nil && m.job.State == Preparing && n.State == Preparing && s.State == Failed { // stopped before the others have answered
		n.State, n.Error = Failed, bounded(s, 0).Error
		return false, true, false
	}
	if n == nil || m.job.State != Running || !m.member(s.Name) || n.over() && !m.lost[s.Name] {
		return false, false, false
	}
	m.alive(now, s.Name)
	delete(m.missing, s.Name)
	if s.State == Preparing {
		s = NodeStatus{Name: s.Name, State: Running}
		again = m.job.Stopping == ""
	}
	s = bounded(s, m.job.Object.Size)
	if s.State == Cancelled && m.job.Stopping == "" { // a word that only an admin can make true
		s.State, s.Error = Failed, oneLine("agent reported that it was cancelled, and nobody has cancelled the job: "+cmp.Or(s.Error, "it gave no reason"))
	}
	s.Files = min(max(s.Files, 0), m.job.FileCount)
	s.NoAccess = n.NoAccess                                                                  // what it said when it was prepared
	if n.Serving && (s.State == Running || n.State == Done && s.State != Done && !s.Wrong) { // overtaken, or what became of its serving
		keep := *n
		keep.Serving = s.State == Running
		s = keep
	}
	back := m.lost[s.Name]
	delete(m.lost, s.Name)
	same := s
	same.StoreS = n.StoreS // which goes on while a read hangs
	if !reflect.DeepEqual(*n, same) {
		m.moved[s.Name] = now
	}
	changed = back || !reflect.DeepEqual(*n, s)
	durable = back || s.State != n.State || s.Serving != n.Serving
	*n = s
	return again, changed, durable
}

// hears notes that the hub is not cut off.
func (m *machine) hears(now time.Time, name string) {
	if name == m.own {
		return
	}
	if name != m.whose {
		m.whose, m.before = name, m.anybody
	}
	m.anybody = now
}

// besides is the last sign of life of any node but that one and the hub's own; zero: none.
func (m *machine) besides(name string) time.Time {
	if name == m.whose {
		return m.before
	}
	return m.anybody
}

// alive notes a member's sign of life. What time it was given to come back it keeps.
func (m *machine) alive(now time.Time, name string) {
	if now.After(m.heard[name]) {
		m.heard[name] = now
	}
}

// beaten takes a sign of life of a node.
func (m *machine) beaten(now time.Time, e hasBeaten) (cmds []command, changed bool) {
	m.hears(now, e.node)
	n := m.node(e.node)
	if n == nil || m.job.State != Running || !m.member(e.node) || n.over() && !m.lost[e.node] {
		return nil, false
	}
	m.alive(now, e.node)
	if e.lists {
		delete(m.missing, e.node)
		if m.job.Stopping != "" { // it may not have got the command
			cmds = append(cmds, cmdStop{e.node, m.job.Stopping, m.expired})
		}
		return cmds, false
	}
	since, ok := m.missing[e.node]
	if !ok {
		m.missing[e.node] = now
		return nil, false
	}
	if now.Sub(since) < missingFor { // a beat may have been under way when the job was prepared
		return nil, false
	}
	delete(m.lost, e.node)
	n.Waiting = ""
	if n.Serving {
		n.Serving = false
		return nil, true
	}
	n.State, n.Error = Failed, "agent restarted during the job"
	return nil, true
}

// forgive makes up for a time in which the hub did nothing, as when its process is stopped: that it heard
// nothing then says nothing of the nodes.
func (m *machine) forgive(now time.Time, gap time.Duration) {
	for _, times := range []map[string]time.Time{m.heard, m.missing, m.moved} {
		for name, t := range times {
			times[name] = t.Add(gap)
		}
	}
	for _, t := range []*time.Time{&m.placed, &m.idle, &m.giveUp, &m.silent, &m.anybody, &m.before} {
		if !t.IsZero() {
			*t = t.Add(gap)
		}
	}
	if gap >= lostAfter { // connections have ended meanwhile
		m.await(now)
	}
}

// await gives every member the time that an agent needs to find the hub again.
func (m *machine) await(now time.Time) {
	for name, t := range m.heard {
		if again := now.Add(restartGrace - lostAfter); again.After(t) {
			m.heard[name] = again
		}
	}
}

// deaf says whether it may be the hub that is cut off: all members that have not ended are silent, and so are all other nodes but
// the one in its own process, and these are several that fell silent at the same time. Then none is given up until one is heard, after which the others have the time to
// come back, too, or deafFor is over.
func (m *machine) deaf(now time.Time) bool {
	open, silent, last := 0, 0, ""
	for i := range m.job.Nodes {
		n := &m.job.Nodes[i]
		if n.over() || m.lost[n.Name] || n.Name == m.own {
			continue
		}
		open, last = open+1, n.Name
		if now.Sub(m.heard[n.Name]) >= memberTTL {
			silent++
		}
	}
	several := open > 1 || open == 1 && m.heard[last].Sub(m.besides(last)) < memberTTL // another was up when the one was last heard
	switch all := several && silent == open && now.Sub(m.anybody) >= memberTTL; {
	case all && m.silent.IsZero():
		m.silent = now
	case !all && !m.silent.IsZero():
		gap := now.Sub(m.silent) + memberTTL
		for name, t := range m.moved { // that nothing was heard to move meanwhile says nothing of the nodes
			if t.Before(m.silent) {
				m.moved[name] = t.Add(gap)
			}
		}
		if !m.placed.IsZero() && m.placed.Before(m.silent) {
			m.placed = m.placed.Add(gap)
		}
		m.silent = time.Time{}
		m.await(now)
	}
	return !m.silent.IsZero() && now.Sub(m.silent) < deafFor
}

// tick looks at what did not happen.
func (m *machine) tick(now time.Time) (cmds []command, changed bool) {
	if m.job.State == Preparing && !m.due.IsZero() && !now.Before(m.due) {
		for i := range m.job.Nodes {
			n := &m.job.Nodes[i]
			if _, ok := m.ready[n.Name]; n.State == Preparing && !ok {
				n.State, n.Error = Failed, fmt.Sprintf("did not answer within %v when asked to prepare", prepareWithin)
				changed = true
			}
		}
	}
	if !m.timeout.IsZero() && !now.Before(m.timeout) && m.job.Stopping == "" {
		m.expired = true
		return m.stop(now, m.timeoutReason(), true), true
	}
	if m.job.State != Running {
		return nil, changed
	}
	if m.placed.IsZero() && slices.ContainsFunc(m.job.Nodes, func(n NodeStatus) bool { return n.State == Done || n.State == Present }) {
		m.placed = now
	}
	deaf := m.deaf(now)
	for i := range m.job.Nodes {
		n := &m.job.Nodes[i]
		if n.over() {
			continue
		}
		switch silent := !deaf && now.Sub(m.heard[n.Name]) >= lostAfter; {
		case n.Serving && m.job.Stopping != "" && !now.Before(m.giveUp):
			n.Serving = false
		case n.Serving && silent && !m.lost[n.Name]:
			m.lost[n.Name] = true
			continue // it is not waited for, and if it comes back it may serve on
		case n.Serving:
			continue
		case m.job.Stopping != "" && !now.Before(m.giveUp):
			n.State, n.Error = stoppedState(m.expired), m.job.Stopping+"; the node did not confirm that it stopped"
		case silent:
			n.State, n.Error = Failed, fmt.Sprintf("lost: no sign of life for %v", lostAfter)
			m.lost[n.Name] = true
		case m.job.Stopping == "" && m.silent.IsZero() && m.stuck(now, n):
			n.Error = fmt.Sprintf("stuck: nothing has moved for %v with %v of %v there, though the agent answers and other nodes have the object", now.Sub(m.moved[n.Name]).Round(time.Second), n.Have, m.job.Object.Size)
			if n.Waiting != "" {
				n.Error += "; it waits for " + n.Waiting
			}
			n.Error += ": look at its disk and its log"
			n.State = Failed
			cmds = append(cmds, cmdStop{n.Name, n.Error, true})
		default:
			continue
		}
		n.Waiting = ""
		changed = true
	}
	if more := m.release(now); more != nil {
		return append(cmds, more...), true
	}
	return cmds, changed
}

// release ends the parts of those that only serve, once that has been all that anybody does for serveFor, and nobody has been given anything: a node
// that has lost us, and not the others, may be getting on.
func (m *machine) release(now time.Time) (cmds []command) {
	if slices.ContainsFunc(m.job.Nodes, func(n NodeStatus) bool { return !n.State.Ended() }) {
		m.idle = time.Time{}
		return nil
	}
	if m.idle.IsZero() {
		m.idle = now
	}
	since := m.idle
	for _, n := range m.job.Nodes {
		if t := m.moved[n.Name]; n.Serving && t.After(since) {
			since = t
		}
	}
	if now.Sub(since) < serveFor {
		return nil
	}
	for i := range m.job.Nodes {
		if n := &m.job.Nodes[i]; n.Serving {
			n.Serving, n.Waiting = false, ""
			cmds = append(cmds, cmdStop{n.Name, fmt.Sprintf("nobody has needed what it gives for %v", serveFor), false})
		}
	}
	return cmds
}

// stuck says of a node that runs, and is heard, whether nothing has moved for so
// long that nothing will: others have the object and could give it. Its own
// deadlines, of which the longest is two minutes, come first, since it knows more of the cause. While
// it has all and its disk is to make it durable, or reads it again, there is nothing to be seen moving.
func (m *machine) stuck(now time.Time, n *NodeStatus) bool {
	if m.placed.IsZero() {
		return false
	}
	since, wait := m.moved[n.Name], stuckAfter
	if m.placed.After(since) {
		since = m.placed
	}
	if n.Have == m.job.Object.Size {
		wait += time.Duration(float64(n.Have) / float64(slowestDisk) * float64(time.Second))
	}
	return now.Sub(since) >= wait
}

func stoppedState(failed bool) State {
	if failed {
		return Failed
	}
	return Cancelled
}

// stop tells every node to. Nothing has been fetched while preparing, so then
// the job ends at once.
func (m *machine) stop(now time.Time, reason string, failed bool) (cmds []command) {
	m.job.Stopping = oneLine(reason)
	m.giveUp = now.Add(stopWithin)
	for i := range m.job.Nodes {
		n := &m.job.Nodes[i]
		if n.over() && !m.lost[n.Name] {
			continue
		}
		cmds = append(cmds, cmdStop{n.Name, m.job.Stopping, failed})
		if m.job.State == Preparing {
			n.State, n.Error = stoppedState(failed), m.job.Stopping
			if m.ready[n.Name] {
				n.State, n.Error = Present, ""
			}
		}
	}
	if m.job.State == Preparing {
		m.job.State = Running // all parts have ended: step ends the job
	}
	return cmds
}

// end sets the job's own outcome from its nodes'.
func (m *machine) end(now time.Time) {
	m.job.Ended = now
	var failed, cancelled []NodeStatus
	for i, n := range m.job.Nodes {
		m.job.Nodes[i].Serving = false
		switch n.State {
		case Failed:
			failed = append(failed, n)
		case Cancelled:
			cancelled = append(cancelled, n)
		}
	}
	switch {
	case len(cancelled) > 0 && m.job.Stopping != "" && !m.expired:
		m.job.State, m.job.Error = Cancelled, m.job.Stopping
	case len(failed)+len(cancelled) > 0:
		bad := append(failed, cancelled...)
		m.job.State, m.job.Error = Failed, bad[0].Name+": "+cmp.Or(bad[0].Error, "failed and gave no reason")
		if len(bad) > 1 {
			m.job.Error += "; and " + plural(len(bad)-1, "more node")
		}
	default:
		m.job.State = Done
		if a, b, differ := m.differing(); differ {
			m.job.State = Failed
			m.job.Error = fmt.Sprintf("the files on %s and %s differ (SHA-256 %.12s… and %.12s…), though each was verified piece by piece: a node has passed on forged pieces; look at the faults, remove the files and the node", a.Name, b.Name, a.SHA256, b.SHA256)
		}
	}
}

// differing returns two nodes whose files have different SHA-256, if the job asked for them.
func (m *machine) differing() (a, b NodeStatus, ok bool) {
	for _, n := range m.job.Nodes {
		if n.SHA256 == "" {
			continue
		}
		if a.SHA256 == "" {
			a = n
		} else if n.SHA256 != a.SHA256 {
			return a, n, true
		}
	}
	return a, b, false
}

func (m *machine) member(name string) bool {
	return slices.ContainsFunc(m.job.Members, func(x Member) bool { return x.Name == name })
}

// settled says whether the record's word on that node is final, so that its
// agent may forget the job.
func settled(j Job, node string) bool {
	if j.State.Ended() {
		return true
	}
	if j.State == Preparing {
		return false
	}
	i, ok := slices.BinarySearchFunc(j.Nodes, node, func(n NodeStatus, s string) int { return cmp.Compare(n.Name, s) })
	return !ok || j.Nodes[i].over() && !wasLost(j.Nodes[i])
}

// wasLost says whether a node has failed because nothing was heard of it.
func wasLost(n NodeStatus) bool { return n.State == Failed && strings.HasPrefix(n.Error, "lost: ") }

// bounded makes a status that a node sent fit for a record: what a node says
// about itself is believed, but not how long it says it.
func bounded(s NodeStatus, size unit.Bytes) NodeStatus {
	switch s.State {
	case Running, Done, Present, Failed, Cancelled:
	default:
		s.State, s.Error = Failed, fmt.Sprintf("agent reported a state %q that this control plane does not know", oneLine(string(s.State)))
	}
	s.Serving = s.Serving && (s.State == Done || s.State == Present)
	s.Wrong = s.Wrong && s.State == Failed
	if s.State == Failed && s.Error == "" {
		s.Error = "failed and gave no reason"
	}
	s.PlainPeers = max(s.PlainPeers, 0)
	for _, b := range []*unit.Bytes{&s.Have, &s.Kept, &s.StoreBytes, &s.PeerBytes, &s.SentBytes, &s.CrossedBytes} {
		*b = min(max(*b, 0), account.MostBytes)
	}
	s.CrossedBytes = min(s.CrossedBytes, s.PeerBytes)
	s.Have, s.Kept = min(s.Have, size), min(s.Kept, size)
	for _, t := range []*float64{&s.DoneS, &s.StoreS} {
		if !(*t >= 0 && *t <= account.MostSeconds) {
			*t = 0
		}
	}
	s.Error, s.Waiting = oneLine(s.Error), oneLine(s.Waiting)
	s.Verified, s.SHA256, s.KeptSet = peer.Printable(s.Verified, 16), peer.Printable(s.SHA256, 64), peer.Printable(s.KeptSet, 16)
	const mostFaults = 16
	if len(s.Faults) > mostFaults {
		s.Faults = s.Faults[:mostFaults]
	}
	s.Faults = slices.Clone(s.Faults)
	for i, f := range s.Faults {
		s.Faults[i] = Fault{Node: peer.Printable(f.Node, 64), Cause: oneLine(f.Cause)}
	}
	return s
}
