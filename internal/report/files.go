package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/freshet/freshet/internal/swarm"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// file is one of those that a run moved together.
type file struct {
	name string // empty: not told
	size unit.Bytes
}

const (
	maxFiles      = 10_000  // of one run
	maxFilePieces = 4 << 20 // pieces into which those of all runs are cut: tens of MiB of memory
)

// plainOf is how what a run event tells of was cut, if that was one object. It
// says whether the event can be true.
func plainOf(e *swarm.Event) (l piece.Layout, ok bool) {
	l = piece.Layout{Size: unit.Bytes(e.Size), Piece: unit.Bytes(e.PieceSize)}
	if l.Validate() != nil || e.Size > maxObject || len(e.Files) > maxFiles {
		return l, false
	}
	left := e.Size
	for _, f := range e.Files {
		if f.Size < 0 || f.Size > left {
			return l, false
		}
		left -= f.Size
	}
	return l, len(e.Files) == 0 || left == 0
}

// filesOf is how the files were cut of which a run event tells, and which they were; plain is what plainOf says.
func filesOf(e *swarm.Event, plain piece.Layout) (l piece.Layout, files []file) {
	var sizes []unit.Bytes
	for _, f := range e.Files {
		sizes = append(sizes, unit.Bytes(f.Size))
		files = append(files, file{cut(f.Name), unit.Bytes(f.Size)})
	}
	return piece.Cut(sizes, plain.Piece), files
}

// filesDetail is the table of a run's files, those that were whole last at its top.
func (r *Run) filesDetail() (rows [][]string, left int) {
	if len(r.files) == 0 {
		return nil, 0
	}
	type whole struct {
		i, nodes int
		last     float64
	}
	list := make([]whole, len(r.files))
	for i := range list {
		list[i].i = i
	}
	came := make([]float64, r.Layout.Count())
	for _, n := range r.Nodes {
		if len(n.arrivals) > 0 {
			for p := range came {
				came[p] = math.Inf(1)
			}
		}
		for _, a := range n.arrivals { // by time
			came[a.piece] = min(came[a.piece], a.at)
		}
		for i := range list {
			at := 0.0
			if len(n.arrivals) > 0 {
				pieces := r.Layout.Pieces(i)
				for p := pieces.Lo; p < pieces.Hi; p++ {
					at = max(at, came[p])
				}
			} else if n.State == Done {
				at = n.DoneAt
			} else {
				at = math.Inf(1)
			}
			if !math.IsInf(at, 1) {
				list[i].nodes, list[i].last = list[i].nodes+1, max(list[i].last, at)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b whole) int { return cmp.Or(cmp.Compare(a.nodes, b.nodes), cmp.Compare(b.last, a.last)) })
	for _, w := range list[:min(len(list), maxDetailed)] {
		f := r.files[w.i]
		when := "–"
		if w.nodes > 0 && f.size > 0 {
			when = seconds(w.last)
		}
		rows = append(rows, []string{cmp.Or(f.name, fmt.Sprintf("the %d. by size", w.i+1)), f.size.String(), fmt.Sprintf("%d of %d", w.nodes, len(r.Nodes)), when})
	}
	return rows, len(list) - len(rows)
}

// many says how many files a run moved, if it was several.
func (r *Run) many() string {
	if len(r.files) == 0 {
		return ""
	}
	return " in " + plural(len(r.files), "file")
}
