package report

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/freshet/freshet/internal/swarm"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// Read reads recorded events to the end of r. Events of unknown kinds, broken
// lines and events that contradict their run (a piece that the object does not
// have) are skipped and counted in Skipped. The error is r's, that of ctx once it
// has ended, or ErrTooMuch.
func Read(ctx context.Context, r io.Reader) (*Recording, error) {
	b := &builder{rec: &Recording{}, runs: map[string]*draft{}}
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, whole, err := readLine(in)
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("read recording: %w", err)
		}
		if len(bytes.TrimSpace(line)) > 0 || !whole {
			var e Event
			switch bad := !whole || json.Unmarshal(line, &e) != nil; {
			case bad && err == io.EOF:
				b.rec.Truncated = true
			case bad || !b.add(&e):
				b.rec.Skipped++
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("read recording: %w", ctx.Err())
		case b.arrivals > MaxArrivals:
			return nil, fmt.Errorf("read recording: %w: more than %d pieces arrived in it; make a report of fewer runs or nodes", ErrTooMuch, MaxArrivals)
		case b.laid > maxFilePieces:
			return nil, fmt.Errorf("read recording: %w: runs of several files have more than %d pieces together; make a report of fewer runs", ErrTooMuch, maxFilePieces)
		}
		if err == io.EOF {
			return b.finish(), nil
		}
	}
}

// readLine returns the next line without its newline, and whether it is the
// whole line: of one longer than MaxLine only the length of what is returned
// is bounded. err is io.EOF with the last line, which may be empty.
func readLine(in *bufio.Reader) (line []byte, whole bool, err error) {
	whole = true
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) <= MaxLine {
			line = append(line, part...)
		} else {
			whole = false
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSuffix(line, []byte("\n")), whole, err
		}
	}
}

// builder gathers events; runs and nodes are made as they are first named,
// since the events come in any order.
type builder struct {
	rec      *Recording
	runs     map[string]*draft
	arrivals int
	laid     int // pieces of runs of several files, which are laid out one by one
}

// draft is a run while it is read.
type draft struct {
	run    *Run
	told   bool             // a run event has been seen
	ranks  []string         // its nodes
	nodes  map[string]*Node // by name
	givers map[string]int32 // index into run.givers
	phase2 map[*Node]bool   // a node may enter it at time zero
}

// add takes one event into account, or says that it is of no use.
func (b *builder) add(e *Event) bool {
	if math.IsNaN(e.T) || e.T > maxSeconds || e.T < -maxSeconds || !okName(e.Job) {
		return false
	}
	at := max(0, e.T) // the clock of a node may be a little behind the one that accepted the job
	d, ok := b.runs[e.Job]
	if !ok {
		if len(b.runs) >= maxRuns || !known(e.Kind) {
			return false
		}
		d = &draft{
			run:   &Run{Job: clean(e.Job)},
			nodes: map[string]*Node{}, givers: map[string]int32{}, phase2: map[*Node]bool{},
		}
		b.runs[e.Job] = d
	}
	if e.Kind == "bound" {
		if !(e.BoundS > 0 && e.BoundS <= maxSeconds) || d.run.Bound > 0 {
			return false
		}
		d.run.Bound, d.run.BoundBy = e.BoundS, cut(e.By)
		return true
	}
	if e.Kind == "account" {
		return d.run.takeAccount(e.Account)
	}
	n := d.node(e.Node)
	if n == nil {
		return false
	}
	switch e.Kind {
	case "run":
		if !b.begin(d, &e.Event) {
			return false
		}
	case "piece":
		if e.Piece == nil || *e.Piece < 0 || *e.Piece > math.MaxInt32 || e.Bytes < 0 || e.Bytes > maxObject {
			return false
		}
		from, ok := d.giver(e.From)
		if !ok {
			return false
		}
		n.arrivals = append(n.arrivals, arrival{at: at, bytes: e.Bytes, piece: int32(*e.Piece), from: from})
		b.arrivals++
	case "work":
		if e.Lo < 0 || e.Hi <= e.Lo || e.Hi > math.MaxInt32 || len(n.taken) >= 1<<16 {
			return false
		}
		n.taken = append(n.taken, piece.Range{Lo: e.Lo, Hi: e.Hi})
	case "phase":
		switch {
		case e.Phase != 1 && e.Phase != 2:
			return false
		case e.Phase == 2 && (!d.phase2[n] || at < n.Phase2At):
			d.phase2[n], n.Phase2At = true, at
		}
	case "fault":
		if len(n.Faults) >= maxFaults {
			n.More++
			break
		}
		n.Faults = append(n.Faults, Fault{At: at, Peer: cut(e.Peer), Cause: cut(e.Cause)})
	case "course":
		return n.takeCourse(e)
	case "done":
		if n.State != Done { // a node that failed and was resumed has it all the same
			n.State, n.DoneAt, n.Verified, n.Cause = Done, at, cut(e.Verified), ""
		}
	case "failed":
		if n.State == Unfinished {
			n.State, n.DoneAt, n.Cause = Failed, at, cut(e.Cause)
		}
	default:
		return false
	}
	d.run.last = max(d.run.last, at)
	return true
}

func known(kind string) bool {
	switch kind {
	case "run", "piece", "work", "phase", "fault", "done", "failed", "bound", "course", "account":
		return true
	}
	return false
}

// begin takes what the first run event of a job says; the other nodes' repeat it,
// which is to cost nothing.
func (b *builder) begin(d *draft, e *swarm.Event) bool {
	l, ok := plainOf(e)
	if !ok || len(e.Nodes) > maxNames {
		return false
	}
	if d.told {
		return true
	}
	for _, name := range e.Nodes {
		if d.node(name) == nil {
			return false
		}
	}
	if len(e.Files) > 0 && l.Count() <= maxFilePieces {
		if b.laid += l.Count(); b.laid > maxFilePieces {
			return false
		}
		l, d.run.files = filesOf(e, l)
	}
	d.told, d.ranks = true, e.Nodes
	d.run.Algorithm, d.run.Source, d.run.Layout, d.run.Start = cut(e.Algorithm), cut(e.Source), l, e.Start
	return true
}

func (d *draft) node(name string) *Node {
	if n, ok := d.nodes[name]; ok {
		return n
	}
	if !okName(name) || len(d.nodes) >= maxNames {
		return nil
	}
	n := &Node{Name: clean(name)}
	d.nodes[name] = n
	return n
}

func (d *draft) giver(name string) (int32, bool) {
	if name == storeName {
		return fromStore, true
	}
	i, ok := d.givers[name]
	if !ok {
		if !okName(name) || len(d.givers) >= maxNames {
			return 0, false
		}
		i = int32(len(d.run.givers))
		d.givers[name] = i
		d.run.givers = append(d.run.givers, clean(name))
	}
	return i, true
}

func okName(s string) bool { return s != "" && len(s) <= maxName }

// clean makes s fit to be shown: what cannot be printed (control characters,
// which SVG may not hold, and marks that change the direction of writing)
// becomes U+FFFD.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r != ' ' && !unicode.IsPrint(r) || r == utf8.RuneError {
			return '\uFFFD'
		}
		return r
	}, s)
}

func cut(s string) string {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	return clean(s)
}

// finish puts nodes into rank order and works out the numbers.
func (b *builder) finish() *Recording {
	for _, d := range b.runs {
		b.rec.Skipped += d.finish()
		b.rec.Runs = append(b.rec.Runs, d.run)
	}
	slices.SortFunc(b.rec.Runs, func(x, y *Run) int {
		return cmp.Or(x.Start.Compare(y.Start), cmp.Compare(x.Job, y.Job))
	})
	b.rec.name()
	return b.rec
}

// name calls the runs by their algorithms, and where two have the same one by
// their jobs too.
func (rec *Recording) name() {
	uses := map[string]int{}
	for _, r := range rec.Runs {
		uses[r.Algorithm]++
	}
	for _, r := range rec.Runs {
		switch {
		case r.Algorithm == "":
			r.label = "job " + r.Job
		case uses[r.Algorithm] > 1:
			r.label = r.Algorithm + " (job " + r.Job + ")"
		default:
			r.label = r.Algorithm
		}
	}
}

// finish returns how many events contradicted the run.
func (d *draft) finish() (skipped int) {
	rank := make(map[*Node]int, len(d.ranks))
	for i, name := range d.ranks {
		if _, twice := rank[d.nodes[name]]; !twice {
			rank[d.nodes[name]] = i
		}
	}
	r := d.run
	for _, n := range d.nodes {
		if _, ok := rank[n]; !ok {
			rank[n] = len(d.ranks) // told without having been named: after all that were
		}
		r.Nodes = append(r.Nodes, n)
	}
	slices.SortFunc(r.Nodes, func(x, y *Node) int {
		return cmp.Or(cmp.Compare(rank[x], rank[y]), cmp.Compare(x.Name, y.Name))
	})
	for _, n := range r.Nodes {
		skipped += n.finish(r, d.told)
	}
	r.total()
	return skipped
}

// finish sorts the node's arrivals, drops those of pieces that the object does
// not have, and adds up bytes. It returns how many it dropped.
func (n *Node) finish(r *Run, told bool) (dropped int) {
	all := len(n.arrivals)
	if told {
		count := r.Layout.Count()
		n.arrivals = slices.DeleteFunc(n.arrivals, func(a arrival) bool {
			return int(a.piece) >= count || unit.Bytes(a.bytes) > r.Layout.Piece
		})
	}
	slices.SortStableFunc(n.arrivals, func(x, y arrival) int { return cmp.Compare(x.at, y.at) })
	slices.SortStableFunc(n.Faults, func(x, y Fault) int { return cmp.Compare(x.At, y.At) })
	n.taken = merge(n.taken)
	for _, a := range n.arrivals {
		if a.from == fromStore {
			n.Store = sum(n.Store, a.bytes)
			continue
		}
		if n.From == nil {
			n.From = map[string]unit.Bytes{}
		}
		n.Peers = sum(n.Peers, a.bytes)
		n.From[r.givers[a.from]] = sum(n.From[r.givers[a.from]], a.bytes)
	}
	if len(n.arrivals) == 0 { // nothing was recorded, or nothing came
		n.Store, n.Peers = n.told[0], n.told[1]
	}
	r.arrivals += len(n.arrivals)
	return all - len(n.arrivals)
}

// merge sorts ranges and joins those that touch, so that tookOver can search.
func merge(rs []piece.Range) []piece.Range {
	slices.SortFunc(rs, func(x, y piece.Range) int { return cmp.Compare(x.Lo, y.Lo) })
	out := rs[:0]
	for _, r := range rs {
		if last := len(out) - 1; last >= 0 && r.Lo <= out[last].Hi {
			out[last].Hi = max(out[last].Hi, r.Hi)
			continue
		}
		out = append(out, r)
	}
	return out
}

// sum adds without wrapping around, since the summands are somebody else's.
func sum(a unit.Bytes, b int64) unit.Bytes {
	if a > math.MaxInt64-unit.Bytes(b) {
		return math.MaxInt64
	}
	return a + unit.Bytes(b)
}

func (r *Run) total() {
	seconds := 0.0
	for _, n := range r.Nodes {
		r.StoreBytes = sum(r.StoreBytes, int64(n.Store))
		r.PeerBytes = sum(r.PeerBytes, int64(n.Peers))
		if n.State != Done {
			continue
		}
		if r.Done == 0 || n.DoneAt < r.Fastest {
			r.Fastest = n.DoneAt
		}
		if r.Done > 0 && n.Verified != r.Verified {
			r.Verified = "mixed"
		} else {
			r.Verified = n.Verified
		}
		r.Slowest = max(r.Slowest, n.DoneAt)
		seconds += n.DoneAt
		r.Done++
	}
	if r.Done > 0 {
		r.Mean = seconds / float64(r.Done)
	}
	if r.Complete() {
		r.Makespan = r.Slowest
	}
	if r.Bound > 0 {
		r.Ratio = min(r.Makespan/r.Bound, math.MaxFloat32) // whatever somebody says that the bound is
	}
}
