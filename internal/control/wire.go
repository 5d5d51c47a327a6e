package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/unit"
)

// Times of the control plane.
const (
	beatEvery     = time.Second
	recordEvery   = 250 * time.Millisecond // a job is written down, and watchers are told
	reportGap     = 200 * time.Millisecond // between two reports of a member
	memberTTL     = 6 * time.Second        // of a member that no longer beats
	lostAfter     = 10 * time.Second       // a job's member
	stuckAfter    = 150 * time.Second      // a job's member that is heard, and nothing moves there
	serveFor      = 150 * time.Second      // a job's members that only serve, when nobody is left to be served; they themselves leave others after two minutes
	missingFor    = 2 * time.Second        // an agent that beats without the job
	prepareWithin = 15 * time.Second
	statWithin    = 15 * time.Second // what a source of one object is
	statAllWithin = 45 * time.Second // what one of several is: 10,000 objects, of each of which a store is asked three times and takes 300 ms
	stopWithin    = 10 * time.Second // to report after being told to stop
	dialBack      = 5 * time.Second
	registerEvery = 2 * time.Second  // at most, of one node
	restartGrace  = 15 * time.Second // more than lostAfter for agents to find a restarted hub again
	startAgain    = 3 * time.Second  // for a node that still waits for its start
	awayAfter     = 2 * time.Second  // a hub that has done nothing for so long is not the one to say who was silent
	deafFor       = 2 * time.Minute  // how long several members may be silent at once before they are given up
	holdPrepared  = 2 * time.Minute  // how long an agent waits for the start of what it has prepared
)

// statAsked is how many nodes are asked what a source is at most, one after the other.
const statAsked = 3

// statLimit is how long each of them may take.
func (s Spec) statLimit() time.Duration {
	if s.Several() {
		return statAllWithin
	}
	return statWithin
}

// slowestDisk is what the disk of a node is reckoned to write and read at least.
const slowestDisk = 10 * unit.MBps

// Sizes on the wire.
const (
	maxPayload = 8 << 20   // a record of 20,000 nodes
	maxUp      = 1 << 20   // from a node, recordings included
	maxSelf    = 64 << 10  // what a node says of itself in an answer to an admin, who gets those of all in one of maxPayload
	maxChunk   = 512 << 10 // of a recording
	maxLine    = 4 << 10   // CONNECT
	maxHello   = 1 << 10   // the hub's first line

	// coursesAtOnce bounds how many courses are in a beat, each up to 5 KiB, so that it stays
	// below maxUp after the hub has been away while many jobs ended.
	coursesAtOnce = 50
)

const (
	headerError = "Freshet-Error"
	headerEnd   = "Freshet-End"
)

// Registration is what a node says about itself when it connects.
type Registration struct {
	Addr     string            `json:"addr"` // host:port at which the other nodes and the hub reach it
	Site     string            `json:"site,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Roots    []string          `json:"roots,omitempty"`
	Version  string            `json:"version"`
	RateIn   unit.Bandwidth    `json:"rate_in,omitempty"`
	RateOut  unit.Bandwidth    `json:"rate_out,omitempty"`
	Security string            `json:"security,omitempty"` // tls, trusted
}

// report is the state of some of a node's jobs.
type report struct {
	Jobs jobStatuses `json:"jobs,omitempty"`
}

type jobStatuses []jobStatus

// mostStatuses is more than a message has room for of those that say something.
const mostStatuses = maxUp / 64

func (s *jobStatuses) UnmarshalJSON(b []byte) (err error) {
	*s, err = elements[jobStatus](bytes.NewReader(b), mostStatuses, maxUp)
	return err
}

type jobStatus struct {
	Job    string          `json:"job"`
	Status NodeStatus      `json:"status"`
	Course *account.Course `json:"course,omitempty"` // with the final status
}

// beat is a report of every job that the agent knows of.
type beat struct {
	report
	Running int  `json:"running"`
	Leaving bool `json:"leaving,omitempty"` // no more jobs, please
}

// beatAnswer tells an agent which of its jobs need nothing more from it: its
// final status is on the hub's disk, or the job ended without it.
type beatAnswer struct {
	Drop []string `json:"drop,omitempty"`
	// Lost are members of running jobs of which the hub has no sign of life, by job.
	Lost map[string][]string `json:"lost,omitempty"`
	// Unregistered asks the agent to register again.
	Unregistered bool `json:"unregistered,omitempty"`
	// Revoked is the version of the list of removed nodes.
	Revoked string `json:"revoked,omitempty"`
}

// Prepared is a node that can take part in a job.
type Prepared struct {
	Present  bool   `json:"present"`             // the destination holds the pinned version already
	NoAccess string `json:"no_access,omitempty"` // why the node may not read the source, with Spec.ShareAccess; empty: it may
}

// start begins a job that is prepared. drive.go puts it together.
type start struct {
	Job Job `json:"job"` // without Files
	startTimes
}

// startTimes count from the moment at which they are sent: clocks differ.
type startTimes struct {
	Left Duration `json:"left,omitempty"` // until the job's timeout
	Age  Duration `json:"age,omitempty"`  // since the job was accepted
}

type stop struct {
	Job    string `json:"job"`
	Reason string `json:"reason"`
	Failed bool   `json:"failed,omitempty"` // the node's part counts as failed for Reason, not as cancelled
}

type chunk struct {
	Job string `json:"job"`
	Off int64  `json:"off"`
	N   int    `json:"n"`
}

func inbox(role, name string) string { return "_INBOX." + role + "." + name }

// onlyTo takes the reply subject from a message that is to be answered
// somewhere else than below inbox. The server checks where a client publishes, but the
// answer goes out with the hub's rights: to a stream's interface it would be a command.
func onlyTo(m *nats.Msg, inbox string) {
	if !strings.HasPrefix(m.Reply, strings.TrimSuffix(inbox, ".")+".") {
		m.Reply = ""
	}
}

// answer replies to m with v as JSON, or with err.
func answer(m *nats.Msg, v any, err error) {
	if m.Reply == "" {
		return
	}
	out := nats.NewMsg(m.Reply)
	if err == nil && v != nil {
		out.Data, err = json.Marshal(v)
	}
	if err == nil && len(out.Data) > maxPayload {
		err = fmt.Errorf("the answer of %d bytes is larger than %d", len(out.Data), maxPayload)
	}
	if err != nil {
		out.Data = nil
		out.Header.Set(headerError, encodeError(err))
	}
	m.RespondMsg(out) // fails only if the connection is gone; who asked will time out
}

// answered reads what answer wrote.
func answered(m *nats.Msg, v any) error {
	if e := m.Header.Get(headerError); e != "" {
		return decodeError(e)
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(m.Data, v); err != nil {
		return fmt.Errorf("unreadable answer: %w", err)
	}
	return nil
}

// elements reads an array of at most so many elements, of up to size bytes each, as JSON. It reads one after the other: an empty one is three bytes on
// the wire, or hardly any when it is compressed, and a hundred times as many when it is read.
func elements[T any](r io.Reader, most int, size int64) (list []T, err error) {
	room := &io.LimitedReader{R: r, N: size}
	d := json.NewDecoder(room)
	if t, err := d.Token(); err != nil || t == nil { // null
		return nil, err
	} else if t != json.Delim('[') {
		return nil, fmt.Errorf("want an array, got %v", t)
	}
	for d.More() {
		if len(list) == most {
			return nil, fmt.Errorf("more than %d elements", most)
		}
		room.N = size
		var v T
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err = d.Token()
	return list, err
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
