package swarm

import (
	"sync"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// assembly puts pieces together from blocks that come from several peers at
// once. It stands between the loop, which knows what was asked of whom, and the readers of
// connections, which write to disk: a reader may write a block only after
// claiming it here, and no block can be claimed twice, so a byte on disk is never
// overwritten by somebody who was not asked, or by the slower of two.
//
//	nobody's ──claim──> claimed ──arrived──> here      all here: digests combine to the piece's
//	    ^──────────────────┘ given up
//
// Who brings a block that another is writing waits for that: if it said at once that it was of no use, the loop would ask it for the same again, and on
// a disk that stalls again and again.
//
// A whole piece stays, and nothing of it can be claimed, until the loop has
// heard of it and drops it.
type assembly struct {
	layout    piece.Layout
	algorithm func(p int) piece.Algorithm

	mu       sync.Mutex // guards what follows
	written  *sync.Cond // nobody writes a block any more that somebody wrote
	partials map[int]*partial
	joins    map[piece.Algorithm]func(sum1, sum2 uint64) uint64 // the digests of what is before a whole block, and of it
}

type partial struct {
	left  int
	state []byte
	sums  []uint64
	from  []int        // by block: who gave it
	asked map[int]bool // ranks that may give blocks
}

const (
	nobodys byte = iota
	claimed
	here
)

func newAssembly(l piece.Layout, a func(p int) piece.Algorithm) *assembly {
	made := &assembly{layout: l, algorithm: a, partials: map[int]*partial{}, joins: map[piece.Algorithm]func(sum1, sum2 uint64) uint64{}}
	made.written = sync.NewCond(&made.mu)
	return made
}

// expect allows rank to give blocks of a piece.
func (a *assembly) expect(rank, p int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	x := a.partials[p]
	if x == nil {
		n := a.layout.Blocks(p)
		x = &partial{left: n, state: make([]byte, n), sums: make([]uint64, n), from: make([]int, n), asked: map[int]bool{}}
		a.partials[p] = x
	}
	x.asked[rank] = true
}

// under says whether a piece is being put together.
func (a *assembly) under(p int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.partials[p] != nil
}

// claim gives a reader the right to write a block, or says that it is not wanted from it. While another one writes it, it waits.
func (a *assembly) claim(rank, p, block int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		x := a.partials[p]
		switch {
		case x == nil || !x.asked[rank] || x.state[block] == here:
			return false
		case x.state[block] == nobodys:
			x.state[block] = claimed
			return true
		}
		a.written.Wait()
	}
}

// giveUp returns a claimed block that did not arrive.
func (a *assembly) giveUp(p, block int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x := a.partials[p]; x != nil && x.state[block] == claimed {
		x.state[block] = nobodys
		a.written.Broadcast()
	}
}

// outcome is what the arrival of a block made of its piece.
type outcome struct {
	of    *partial // what the block is of; nil: of nothing
	whole bool
	sum   uint64   // the digest of the piece, if whole
	sums  []uint64 // by block, likewise
	from  []int    // by block, likewise: who gave it
}

// arrived notes that a claimed block is on disk, with its digest.
func (a *assembly) arrived(rank, p, block int, sum uint64) outcome {
	a.mu.Lock()
	defer a.mu.Unlock()
	x := a.partials[p]
	if x == nil || x.state[block] != claimed {
		return outcome{}
	}
	x.state[block], x.sums[block], x.from[block] = here, sum, rank
	a.written.Broadcast()
	if x.left--; x.left > 0 {
		return outcome{of: x}
	}
	whole, algorithm := uint64(0), a.algorithm(p)
	join := a.joins[algorithm]
	if join == nil {
		join = algorithm.Combiner(piece.BlockSize)
		a.joins[algorithm] = join
	}
	for b, s := range x.sums {
		if _, n := blockSpan(a.layout, p, b); n < int(piece.BlockSize) {
			whole = algorithm.Combine(whole, s, unit.Bytes(n))
		} else {
			whole = join(whole, s)
		}
	}
	return outcome{of: x, whole: true, sum: whole, sums: x.sums, from: x.from}
}

// current says whether a piece is still being put together of that. It is not if it was dropped meanwhile, and perhaps begun anew.
func (a *assembly) current(p int, of *partial) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.partials[p] == of
}

// drop forgets a piece, whole or not. It returns false if a block is being written at this
// moment, and the piece stays.
func (a *assembly) drop(p int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x := a.partials[p]; x != nil {
		for _, s := range x.state {
			if s == claimed {
				return false
			}
		}
		delete(a.partials, p)
	}
	return true
}
