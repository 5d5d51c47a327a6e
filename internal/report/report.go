// Package report reads recordings of broadcasts and turns them into numbers
// and into one HTML page with pictures.
//
// A recording is what package swarm writes: JSON, one event a line, of any
// number of nodes and runs in any order. Nothing else goes in, so a page can
// be made anywhere and at any later time from the recordings alone.
//
//	lines ─ Read ─▶ Recording ─ HTML ─▶ page
//	                └ Run, one a job
//	                   └ Node, in rank order: completion, phases, bytes by giver, faults
//
// A recording may come from a machine that was killed, or from somebody who
// wishes us ill: lines that cannot be used are skipped and counted, everything
// is bounded (limits are below), and names are escaped wherever they are shown.
//
// The pictures compare runs, so all runs share one time axis, one throughput
// scale and one order of nodes. They are drawn twice, for wide windows and for
// phones, since a shrunken picture has unreadable text; style sheets choose.
package report

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// What Read accepts. Beyond the first three, further events are skipped; more
// arrivals than MaxArrivals are an error, since the rest would be a lie.
const (
	MaxLine     = 2 << 20 // bytes
	maxRuns     = 256
	maxNames    = 4096    // nodes and givers of one run
	MaxArrivals = 8 << 20 // pieces that arrived anywhere, over all runs: 256 MiB of memory
	maxName     = 255     // bytes of a node's name
	maxText     = 500     // bytes of a cause; longer ones are cut
	maxFaults   = 20      // kept per node; the others are counted
	maxSeconds  = account.MostSeconds
	maxObject   = account.MostBytes
)

// ErrTooMuch is a recording of more than a report can hold.
var ErrTooMuch = errors.New("too much for a report")

// Recording is everything that a set of recorded events tells.
type Recording struct {
	Runs      []*Run // by start, then by job
	Skipped   int    // lines and events that could not be used
	Truncated bool   // the last line was cut short, as when a node is killed while it writes
}

// Run is one job: one object on its way to all its nodes.
type Run struct {
	Job       string
	Algorithm string // "flat", "non-steal", "steal", …; empty if no node told
	Source    string
	Layout    piece.Layout
	Start     time.Time
	Nodes     []*Node // in rank order

	StoreBytes unit.Bytes // that left the store, as the nodes counted it
	PeerBytes  unit.Bytes // that nodes got from nodes

	Done     int     // nodes that have the object
	Fastest  float64 // seconds until the first node had it; zero if none has
	Slowest  float64 // seconds until the last of those that have it had it
	Mean     float64 // seconds, over the nodes that have it
	Makespan float64 // seconds until all nodes had it; zero unless all have
	Bound    float64 // fluid lower bound of Makespan in seconds; zero if unknown
	BoundBy  string  // the resource that sets the bound
	Ratio    float64 // Makespan / Bound; zero if either is unknown
	Verified string  // what the nodes said; "mixed" if they differ; empty if none did

	account *account.Account // what it took and what held it up; nil: nobody told

	label    string   // what it is called on the page, unlike all other runs
	givers   []string // names by arrival.from
	files    []file   // that were moved, one behind the other; none: it was one object
	arrivals int
	last     float64 // time of the last event in seconds
}

// Node is one node's part in a run.
type Node struct {
	Name     string
	State    State
	DoneAt   float64 // seconds; when it was done or failed, and zero if it told neither
	Phase2At float64 // seconds; when it began to exchange with peers; zero if it never did
	Cause    string  // why it failed
	Verified string
	Store    unit.Bytes            // got from the store
	Peers    unit.Bytes            // got from peers
	From     map[string]unit.Bytes // got from each peer; the store is not in it
	Faults   []Fault
	More     int // faults beyond those kept

	course account.Course // how it went, by the node's own account; zero: it told none
	told   [3]unit.Bytes  // from the store, from peers, to peers, by the control plane's record

	arrivals []arrival     // by time
	taken    []piece.Range // ascending, not touching
}

// State is how a node's part ended.
type State int

// The states. A node that was killed, or whose recording is missing, is
// Unfinished.
const (
	Unfinished State = iota
	Done
	Failed
)

// Fault is one thing that a node saw go wrong.
type Fault struct {
	At    float64 // seconds
	Peer  string  // "store" or a node
	Cause string
}

// arrival is a piece that reached a node. There are millions, so it is small.
type arrival struct {
	at    float64 // seconds
	bytes int64
	piece int32
	from  int32 // fromStore or an index into Run.givers
}

const (
	fromStore = -1
	storeName = "store" // as recordings call it
)

// Complete says whether every node has the object.
func (r *Run) Complete() bool { return len(r.Nodes) > 0 && r.Done == len(r.Nodes) }

// StoreMultiple is how many times the object left the store; zero for an
// empty object.
func (r *Run) StoreMultiple() float64 { return r.multiple(r.StoreBytes) }

func (r *Run) multiple(b unit.Bytes) float64 {
	if r.Layout.Size <= 0 {
		return 0
	}
	return float64(b) / float64(r.Layout.Size)
}

// tookOver says whether the node got the work that piece i is in from another
// node.
func (n *Node) tookOver(i int) bool {
	k, ok := slices.BinarySearchFunc(n.taken, i, func(r piece.Range, i int) int { return cmp.Compare(r.Lo, i) })
	return ok || k > 0 && n.taken[k-1].Contains(i)
}
