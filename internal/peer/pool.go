package peer

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/piece"
)

// Pool is a fixed number of blocks of piece.BlockSize bytes, which bounds a
// node's memory: when none is left, reading stops and TCP pushes back. Who takes one gets the one that
// was given back last: it is still in the processor's cache, and blocks
// that are never needed at once are never allocated.
type Pool struct {
	taken  chan struct{} // has one for each block that somebody has
	waited atomic.Int64  // nanoseconds that takers have, all together
	mu     sync.Mutex    // guards given
	given  [][]byte      // back
}

// NewPool returns a pool of n blocks.
func NewPool(n int) *Pool { return &Pool{taken: make(chan struct{}, n)} }

// Get takes a block of piece.BlockSize bytes, with whatever is in it, and
// waits for one until ctx ends.
func (p *Pool) Get(ctx context.Context) ([]byte, error) {
	if b := p.Try(); b != nil {
		return b, nil
	}
	began := time.Now()
	defer func() { p.waited.Add(int64(time.Since(began))) }()
	select {
	case p.taken <- struct{}{}:
		return p.block(), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a free block: %w", ctx.Err())
	}
}

// Try takes a block as Get does if one is free, or returns nil.
func (p *Pool) Try() []byte {
	select {
	case p.taken <- struct{}{}:
		return p.block()
	default:
		return nil
	}
}

// block is the one that was given back last, or a new one.
func (p *Pool) block() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.given) == 0 {
		return make([]byte, piece.BlockSize)
	}
	last := len(p.given) - 1
	b := p.given[last]
	p.given = p.given[:last]
	return b
}

// Free and Size are how many blocks nobody has taken, and how many there are.
func (p *Pool) Free() int { return p.Size() - len(p.taken) }
func (p *Pool) Size() int { return cap(p.taken) }

// Waited is the time that takers have waited for a block, all together.
func (p *Pool) Waited() time.Duration { return time.Duration(p.waited.Load()) }

// Put gives back a block that Get returned, of whatever length by now. It
// panics if the block is none of a pool's or the pool is full.
func (p *Pool) Put(b []byte) {
	if cap(b) != int(piece.BlockSize) {
		panic(fmt.Sprintf("peer: block of %d bytes put into a pool", cap(b)))
	}
	p.mu.Lock()
	p.given = append(p.given, b[:cap(b)])
	p.mu.Unlock()
	select {
	case <-p.taken:
	default:
		panic("peer: more blocks put than taken")
	}
}
