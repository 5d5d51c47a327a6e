// Package swarm is the engine of a broadcast: one object from a store, or several as one, onto the
// disks of all nodes of a job, which share out the reading (package steal) and
// exchange pieces (package exchange).
//
// One loop owns all state of one node's part in one job. Around it are workers
// whose results come back as events: for each order a fetcher, which reads from the store, and per
// neighbour a dialer, a reader and a writer.
//
//	store ──> fetcher ──┐                     ┌──> writer ──> peer
//	                    ├─events─> loop ──────┤
//	peer  ──> reader ───┘   (steal, exchange) └──> fetcher
//	            │                                    │
//	            └────── blocks ──> part file <───────┘
//
// Bytes never pass through the loop: reader and fetcher write blocks of a fixed
// pool to their place in the part file, and the writer reads them from there.
// A node's memory is the pool, whatever the object's size, plus some tens of bytes a piece.
//
// The algorithms (steal.Algorithms) are settings of the same rules (steal.Policy); with flat every node is a swarm of one. The barrier, where pieces begin to
// enter the mesh, is off besides where one node streams a source that cannot be read in ranges, and where a node has had the object before the job.
//
// Where members are of several sites, a node of a site gets from inside it what somebody there has, and
// from others only the pieces that it imports for all (sites.go).
//
// Connections are between all pairs of nodes, the lower rank dials. A lost
// connection is dialed again for a few seconds; then that node is dead for this one, what it
// owed is asked of others, and what only it had is read from the store again.
package swarm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/freshet/freshet/internal/access"
	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// Member is a node of the job; its rank is its index among all.
type Member struct {
	Name     string
	Addr     string // host:port of its one port
	Held     bool   // it has had this version of the object from before: it gives and needs nothing
	NoAccess bool   // it may not read the store, and gets all from others
	Site     string // where it is: members of one site share what crosses into it; empty: nowhere in particular
}

// File is where the object lies on this node. *landing.File is one. One that is a syscall.Conn besides is
// passed on to peers by the system, where nothing is encrypted.
type File interface {
	io.ReaderAt
	io.WriterAt
}

// Network connects nodes. *peer.Port is one.
type Network interface {
	Dial(ctx context.Context, addr, name, job string) (*peer.Conn, error)
	Offer(job string) (incoming <-chan *peer.Conn, withdraw func())
}

// Config is one node's part in one job.
type Config struct {
	Job       string
	Start     time.Time // when the job was accepted; events count from here
	Self      int       // our rank
	Members   []Member
	Algorithm string
	Source    string            // for people and recordings; the store is asked for Object.Key
	Object    objstore.Object   // what is moved; of several objects the whole: what their keys begin with, and the sum of their sizes
	Objects   []objstore.Object // that it is made of, one behind the other as Layout cuts them; none: it is one
	Kept      []bool            // by object: its file is in its place here already, of this version, and can be read in File; none: no object is
	Layout    piece.Layout
	PerWork   int            // pieces per work unit; zero: as steal.PolicyOf has it
	Store     objstore.Store // retries and limits are its own business; a patient one shares its pauses with the job
	// SourceCopies is how many times the object may leave the store at most, by stream. One: nothing is read
	// twice unless something fails. Zero: where peers give a node less than the store would, and leave room on its link, it reads what others have, too.
	SourceCopies float64
	File         File
	Access       *access.Witness // what members show each other before anything else; nil: nothing, all may have the object
	Commit       func() error    // puts the whole, verified file in its place; nil if it is there (Held)
	Abandon      func()          // has nobody who writes to File wait for anything any more, since the part fails or is to end; nil: nothing
	Network      Network
	Receive      *peer.Pool      // of blocks on their way in, shared by all jobs of a process
	Send         *peer.Pool      // of blocks on their way out; apart, so that two nodes cannot wait for each other
	Lost         <-chan []string // names of members of which the control plane has no sign of life, again while that is so; nil: none
	Recorder     *Recorder       // nil: none
	Counters     *Counters       // shared by all jobs of a process; nil: counts into nowhere
	Report       func(Progress)  // called a few times a second, and once when it is done, by the loop; nil: none
	Log          *slog.Logger    // nil: none
}

// Progress is where a node's part stands.
type Progress struct {
	Phase      int           // 1: reads from the store; 2: exchanges with peers
	Have       unit.Bytes    // checked and on disk
	Objects    int           // of which all is
	StoreBytes unit.Bytes    // payload read from the store, thrown away payload included
	StoreTime  time.Duration // for which it did
	PeerBytes  unit.Bytes    // payload received from peers, likewise
	SentBytes  unit.Bytes    // payload sent to peers
	PlainPeers int           // neighbours whose connection was not encrypted
	Done       bool          // the file is in its place
	DoneAt     time.Time
	Verified   string // when Done: "source" or "peers"
	Waiting    string // for what, in words; empty if it is not
	Faults     []Fault

	CrossedBytes unit.Bytes    // of PeerBytes, from nodes that are not of this node's site, if it is of one
	Spent        account.Times // what the time went into until the file was in its place; the last quarter of a second follows at the end
	DoStep       float64       // seconds since Start, in
	Do           string        // each of which the node was mostly at this (account.Diary)
}

// Verified values: what proved the bytes.
const (
	BySource = "source" // the store's own checksum
	ByPeers  = "peers"  // the digests of the nodes that read it; the store has no checksum to compare with
)

// Fault is something that a node saw others do wrong.
type Fault struct {
	Node  string // a member's name, or "store"
	Cause string
}

// StoreName is the Fault.Node of the store, and the Event.From of pieces read from it.
const StoreName = "store"

func (c *Config) validate() error {
	if err := c.Layout.Validate(); err != nil {
		return err
	}
	switch {
	case c.Layout.Size != c.Object.Size:
		return fmt.Errorf("layout for %d bytes, object of %d", c.Layout.Size, c.Object.Size)
	case !c.fits():
		return fmt.Errorf("a layout of %d objects, of other number or sizes than the %d of the job", c.Layout.Objects(), len(c.Objects))
	case len(c.Kept) > 0 && len(c.Kept) != len(c.Objects):
		return fmt.Errorf("%d objects of %d are said to be kept or not", len(c.Kept), len(c.Objects))
	case len(c.Objects) > 1 && !c.Object.Ranges:
		return fmt.Errorf("%s: several objects of a store that cannot be read in ranges", c.Source)
	case c.Layout.Count() > maxPieces:
		return fmt.Errorf("%v in pieces of %v makes %d pieces; at most %d can be exchanged: choose larger pieces",
			c.Layout.Size, c.Layout.Piece, c.Layout.Count(), maxPieces)
	case c.Self < 0 || c.Self >= len(c.Members):
		return fmt.Errorf("rank %d of %d members", c.Self, len(c.Members))
	case !c.readable():
		return fmt.Errorf("no member may read %s: at least one has to", c.Source)
	case !slices.Contains(steal.Algorithms, c.Algorithm):
		return fmt.Errorf("algorithm %q: want one of %v", c.Algorithm, steal.Algorithms)
	}
	return nil
}

// fits says whether the layout is that of the objects.
func (c *Config) fits() bool {
	if c.Layout.Objects() != max(1, len(c.Objects)) {
		return false
	}
	for i, o := range c.Objects {
		if _, n := c.Layout.Object(i); n != o.Size {
			return false
		}
	}
	return true
}

// readable says whether a member can get at the object without the others.
func (c *Config) readable() bool {
	if c.Algorithm == steal.Flat {
		return !c.Members[c.Self].NoAccess || c.Members[c.Self].Held
	}
	return slices.ContainsFunc(c.Members, func(m Member) bool { return !m.NoAccess || m.Held })
}

// policy is what the algorithm sets in the rules, or what there is to read from, and who reads from that at first, in order.
func (c *Config) policy() (p steal.Policy, sources []int) {
	var held, readers []int
	for rank, m := range c.Members {
		if m.Held {
			held = append(held, rank)
		}
		if !m.NoAccess {
			readers = append(readers, rank)
		}
	}
	p = steal.PolicyOf(c.Algorithm, c.Layout, len(readers), c.PerWork)
	switch {
	case len(held) > 0: // who has it gives it, piece by piece
		p.PerWork, p.Steals, p.Barrier = steal.DefaultPerWork(c.Layout, len(held)), false, false
		return p, held
	case !c.Object.Ranges: // one stream, from the first byte to the last
		p.PerWork, p.Steals, p.Barrier = max(1, c.Layout.Count()), false, false
		return p, readers[:1]
	}
	return p, readers
}

// Run carries out this node's part. It returns when the object is in its
// place here and no member needs this node any more, or with an error when this node cannot get it: ctx's cause,
// objstore.ErrChanged, the store's or the disk's error, or that the bytes do not prove the
// store's checksum. The caller disposes of the part file after an error.
func Run(ctx context.Context, c Config) (Progress, error) {
	if c.Source == "" {
		c.Source = c.Object.Key
	}
	if err := c.validate(); err != nil {
		return Progress{}, err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Report == nil {
		c.Report = func(Progress) {}
	}
	if c.Algorithm == steal.Flat { // everybody for himself
		c.Members, c.Self = c.Members[c.Self:c.Self+1], 0
	}
	names := make([]string, len(c.Members))
	for i, m := range c.Members {
		names[i] = m.Name
	}
	c.Recorder.Record(time.Now(), Event{
		Kind: "run", Algorithm: c.Algorithm, Source: c.Source, Size: int64(c.Layout.Size),
		PieceSize: int64(c.Layout.Piece), Nodes: names, Start: c.Start, Files: EventFiles(c.Objects, c.Object.Key),
	})
	n := newNode(c)
	err := n.run(ctx)
	n.diary.End()
	n.spend()
	if err != nil {
		if errors.Is(err, context.Canceled) && context.Cause(ctx) != nil {
			err = context.Cause(ctx)
		}
		c.Recorder.Record(time.Now(), Event{Kind: "failed", Cause: err.Error()})
	}
	return n.progress(), err
}
