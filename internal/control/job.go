package control

import (
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/internal/access"
	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/unit"
)

// Spec is what a user asks for. It is part of the job's durable record, so it
// holds no secret: stores are opened with each node's own credentials.
type Spec struct {
	Source    string     `json:"source"`             // s3://bucket/key, http(s)://…, file:///path; without user info. With a slash at its end: all below it
	Dest      string     `json:"dest"`               // absolute path on every node, of several files their directory; {node} in it stands for the node's name
	Nodes     []string   `json:"nodes,omitempty"`    // selectors: name, glob, or label=value; none: every node
	Algorithm string     `json:"algorithm"`          // flat, non-steal, steal, stream
	Piece     unit.Bytes `json:"piece,omitempty"`    // piece size; zero: the default for the object's size
	PerWork   int        `json:"per_work,omitempty"` // pieces per work unit; zero: the default
	Unpinned  bool       `json:"unpinned,omitempty"` // accept a source without any validator
	SHA256    bool       `json:"sha256,omitempty"`   // report each node's SHA-256 of the file as it lies on its disk
	Record    bool       `json:"record,omitempty"`   // nodes keep a recording of their events for Client.Recording
	Timeout   Duration   `json:"timeout,omitempty"`  // of the whole job; zero: none

	Declared map[string]unit.Bandwidth `json:"declared,omitempty"` // what is known of the network, for the bound (internal/account): "store", all nodes together; "site.NAME", the line into a site

	// ShareAccess lets nodes take part that may not read the source themselves: they get all from the others.
	ShareAccess bool `json:"share_access,omitempty"`
	// SourceCopies is how many times the object may leave the source at most, where nodes share the reading out (stream).
	// Zero: as often as makes nodes faster.
	SourceCopies float64 `json:"source_copies,omitempty"`
}

// Duration is a time.Duration that JSON shows as text ("90s").
type Duration time.Duration

// Member is a node that takes part in a job. A job's members are in rank
// order: a member's index is its rank.
type Member struct {
	Name     string `json:"name"`
	Addr     string `json:"addr"`                // host:port of its one port, as other nodes reach it
	Held     bool   `json:"held,omitempty"`      // it had the pinned version before the job, and only gives
	NoAccess bool   `json:"no_access,omitempty"` // it may not read the source itself (Spec.ShareAccess)
	Site     string `json:"site,omitempty"`      // where it is; what crosses between sites is shared by the members of each
}

// Job is the durable record of a job.
type Job struct {
	ID        string           `json:"id"`
	Spec      Spec             `json:"spec"`
	Object    objstore.Object  `json:"object"`               // the version pinned at the start; of several the whole
	SeenBy    string           `json:"seen_by,omitempty"`    // the node whose word on the source that is
	FileCount int              `json:"file_count,omitempty"` // of a job of several objects
	Files     Files            `json:"files,omitempty"`      // what a node that prepares is told of them; Client.Files has them, too
	Challenge access.Challenge `json:"challenge,omitzero"`   // what nodes prove their access with; none with Spec.ShareAccess
	Accepted  time.Time        `json:"accepted"`             // when the control plane accepted it: the clock of every figure starts here
	Members   []Member         `json:"members,omitempty"`    // who takes part; set when the job starts
	State     State            `json:"state"`
	NodeCount int              `json:"node_count,omitempty"` // what a node is told instead of Nodes: how many were selected
	Nodes     []NodeStatus     `json:"nodes"`                // every selected node, in name order, those that could not take part included
	Stopping  string           `json:"stopping,omitempty"`   // why the nodes were told to stop; the job ends when they have
	Ended     time.Time        `json:"ended,omitzero"`
	Error     string           `json:"error,omitempty"` // why the job as a whole failed: one line
	Revision  uint64           `json:"revision"`        // grows with each change of the record
}

// Account gives an account of a job: what it took beside the least that it could
// have taken, and what held it up. courses are Client.Courses.
func (j Job) Account(courses map[string]account.Course) account.Account {
	facts := account.Job{Size: j.Object.Size, Done: j.State == Done, Store: account.Capacity{Rate: j.Spec.Declared["store"], From: account.Declared}}
	site := map[string]string{} // by node
	for _, m := range j.Members {
		site[m.Name] = m.Site
	}
	facts.Sites = j.sites()
	for _, n := range j.Nodes {
		k := account.Node{
			Name: n.Name, Site: site[n.Name], Held: n.State == Present, Kept: n.Kept, KeptSet: n.KeptSet, NoAccess: n.NoAccess, Course: courses[n.Name],
			Store: n.StoreBytes, Peers: n.PeerBytes, Crossed: n.CrossedBytes, Sent: n.SentBytes,
		}
		if n.State == Done {
			k.DoneS = n.DoneS
		}
		facts.Nodes = append(facts.Nodes, k)
	}
	return account.Of(facts)
}

// sites are those of the members, by name, if there are several and so a link
// between them. Members of no site are none of their own, and all of another.
func (j Job) sites() (list []account.Site) {
	held := map[string]bool{}
	for _, m := range j.Members {
		held[m.Site] = held[m.Site] || m.Held
	}
	for site, h := range held {
		if site != "" && len(held) > 1 {
			inbound := account.Capacity{Rate: account.Payload(j.Spec.Declared["site."+site], 0), From: account.Declared}
			list = append(list, account.Site{Name: site, Inbound: inbound, Held: h})
		}
	}
	slices.SortFunc(list, func(a, b account.Site) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// State is where a job or one node's part of it stands.
//
//	preparing ──> running ──> done
//	    │            ├──────> failed
//	    └────────────┴──────> cancelled
//
// A node's part may also end as present: it held the pinned version already.
type State string

const (
	Preparing State = "preparing"
	Running   State = "running"
	Done      State = "done"
	Present   State = "present" // of a node only
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Ended says whether s is final.
func (s State) Ended() bool { return s != Preparing && s != Running }

// NodeStatus is one node's part of a job, as last heard from it. It is a
// snapshot, never a difference, so a lost or repeated one does no harm.
type NodeStatus struct {
	Name         string     `json:"name"`
	State        State      `json:"state"`
	Serving      bool       `json:"serving,omitempty"`       // done or present, and still giving to others: the part has not ended
	Phase        int        `json:"phase,omitempty"`         // 1: reads from the store, 2: exchanges with peers
	Have         unit.Bytes `json:"have"`                    // bytes of checked pieces on its disk
	Files        int        `json:"files,omitempty"`         // of which all is, of Job.FileCount
	Kept         unit.Bytes `json:"kept,omitempty"`          // in files that it had before the job, of a job of several of which it had not all
	KeptSet      string     `json:"kept_set,omitempty"`      // which files those are: nodes of a job that say the same had the same
	StoreBytes   unit.Bytes `json:"store_bytes"`             // payload read from the store, thrown away ones included
	StoreS       float64    `json:"store_s,omitempty"`       // seconds for which it read them
	PeerBytes    unit.Bytes `json:"peer_bytes"`              // payload received from peers, likewise
	CrossedBytes unit.Bytes `json:"crossed_bytes,omitempty"` // of these from nodes that are not of its site, if it is of one
	SentBytes    unit.Bytes `json:"sent_bytes"`              // payload given to peers
	PlainPeers   int        `json:"plain_peers,omitempty"`   // neighbours with which it exchanged in plain TCP (--security trusted)
	Verified     string     `json:"verified,omitempty"`      // when done: "source" or "peers"
	SHA256       string     `json:"sha256,omitempty"`
	NoAccess     bool       `json:"no_access,omitempty"` // it may not read the source itself, and got all from others
	DoneS        float64    `json:"done_s,omitempty"`    // seconds from Accepted to the file in its place, by the node's clock
	Waiting      string     `json:"waiting,omitempty"`   // what it waits for at this moment, in words
	Faults       []Fault    `json:"faults,omitempty"`    // what it saw go wrong with others; the job may well succeed
	Wrong        bool       `json:"wrong,omitempty"`     // failed after it was done: its file is not the object
	Error        string     `json:"error,omitempty"`     // when failed: the cause and what to do, one line
}

// over says whether the node's part has ended, not only its own file's way.
func (s NodeStatus) over() bool { return s.State.Ended() && !s.Serving }

// Fault is something that one node saw another node or the store do wrong.
type Fault struct {
	Node  string `json:"node"` // the one at fault: a node's name or "store"
	Cause string `json:"cause"`
}

// NodeView is a node as the control plane knows it.
type NodeView struct {
	Name     string            `json:"name"`
	Addr     string            `json:"addr"`
	Site     string            `json:"site,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Roots    []string          `json:"roots,omitempty"`
	Version  string            `json:"version"` // of its freshet
	Up       bool              `json:"up"`
	Leaving  bool              `json:"leaving,omitempty"`   // up, but its operator stops it: it takes no more jobs
	Seen     time.Time         `json:"seen"`                // when it was last heard of
	Jobs     int               `json:"jobs"`                // running now
	RateIn   unit.Bandwidth    `json:"rate_in,omitempty"`   // declared cap, bytes per second; zero: none
	RateOut  unit.Bandwidth    `json:"rate_out,omitempty"`  // likewise
	Security string            `json:"security,omitempty"`  // tls, or trusted: plain TCP to and from others that trust the network
	Expires  time.Time         `json:"certificate_expires"` // the newest of its certificates; it renews itself at two thirds of its life
}
