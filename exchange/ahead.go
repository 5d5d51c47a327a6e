package exchange

import (
	"iter"
	"time"
)

// MostRest is for how long a block that goes to a peer which is ahead waits at most: it waits for as long as the last one took.
const MostRest = 80 * time.Millisecond

const (
	leadPart  = 160  // a lead is this part of all pieces, 0.6 %,
	leadLeast = 4    // but so many pieces at least
	alike     = 0.95 // of what the first has: who has less is slow by itself, and nobody waits for it
)

// Ahead yields for each connected peer whether it can wait for a moment, since it is ahead of one of our partners:
//
//	pieces   ──────────────────────────────────────────┤ first of all that we are connected with
//	slow by itself   │       behind │ lead │  ahead
//
// Connections that share a link do so unevenly, and by chance for a long time. Where uplinks are what is narrow, a node whose connections get
// little is late in the end, when it has the link into itself for itself and nothing to gain by that; and as much as
// it is late the others were early, for nothing: a broadcast takes as long as its last node does. O(peers).
func (s *State) Ahead() iter.Seq2[int, bool] {
	total := s.have.Len()
	lead := max(leadLeast, total/leadPart)
	first, behind := 0, total
	for rank := range s.peers {
		if p := &s.peers[rank]; p.up && rank != s.Self {
			first = max(first, p.has.Count())
		}
	}
	for rank := range s.peers {
		if p := &s.peers[rank]; p.up && p.partner && float64(p.has.Count()) >= alike*float64(first) {
			behind = min(behind, p.has.Count())
		}
	}
	return func(yield func(int, bool) bool) {
		for rank := range s.peers {
			if p := &s.peers[rank]; p.up && rank != s.Self && !yield(rank, p.has.Count() > behind+lead) {
				return
			}
		}
	}
}
