package swarm

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/freshet/freshet/steal"
)

// Where the store is narrow for all nodes together these read in turn (steal.Turns). What was begun before it is our turn rests: its
// request stands, and nobody takes what the store has sent, so that no byte is read twice. A store that gives such a request up is asked
// for what is left (objstore/retry).

// newTurns returns the Turns of a job whose nodes all read from the store; else that of one that never waits.
func (n *node) newTurns(d steal.Division) *steal.Turns {
	if !n.policy.Adapts || !n.Object.Ranges || n.Members[n.sources[0]].Held {
		return &steal.Turns{}
	}
	return steal.NewTurns(d, n.Self, n.Layout)
}

// takeTurns lets what we read rest while others are to read first, and go on when it is our turn.
func (n *node) takeTurns() {
	for _, f := range n.fetches {
		rests := len(f.works) > 0 && !n.turns.May(n.works.PlaceOf(f.works[0]), n.ex.Had())
		if rests == f.rests {
			continue
		}
		n.book()
		f.rests, f.moved = rests, n.now
		f.gate.set(!rests)
	}
}

// atStore is how many orders are being carried out: those that rest are not.
func (n *node) atStore() (k int) {
	for _, f := range n.fetches {
		if !f.rests {
			k++
		}
	}
	return k
}

// gate keeps the worker of an order from reading on. The zero value is open.
type gate struct {
	mu   sync.Mutex    // guards shut
	shut chan struct{} // closed when the gate opens again; nil: it is open
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case open && g.shut != nil:
		close(g.shut)
		g.shut = nil
	case !open && g.shut == nil:
		g.shut = make(chan struct{})
	}
}

// closed is nil while the gate is open; else it is closed when the gate opens again.
func (g *gate) closed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut
}

// turn waits until the gate is open, and returns a block to read into: buf, or one of the pool if buf is nil. Who waits for its turn has
// none: all jobs share the pool, and while the orders of one rest others are to move. With an error buf is back in the pool.
func (n *node) turn(ctx context.Context, g *gate, buf []byte) ([]byte, error) {
	for {
		shut := g.closed()
		if shut == nil && buf != nil {
			return buf, nil
		}
		if shut == nil {
			var err error
			if buf, err = n.Receive.Get(ctx); err != nil {
				return nil, err
			}
			continue // it may have shut meanwhile
		}
		if buf != nil {
			n.Receive.Put(buf)
			buf = nil
		}
		select {
		case <-shut:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// fill reads until b is full or the gate shuts. An error says that less than b came, and why.
func (g *gate) fill(r io.Reader, b []byte) (k int, err error) {
	for {
		more, err := r.Read(b[k:])
		k += more
		switch {
		case k == len(b):
			return k, nil
		case errors.Is(err, io.EOF):
			return k, io.ErrUnexpectedEOF
		case err != nil || g.closed() != nil:
			return k, err
		}
	}
}
