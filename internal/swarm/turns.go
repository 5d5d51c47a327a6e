package swarm

import (
	"context"
	"io"
	"sync"

	"github.com/freshet/freshet/steal"
)

// Where the store is narrow for all nodes together these read in turn (steal.Turns). What was begun before it is our turn rests: its
// request stands, and nobody takes what the store has sent, so that no byte is read twice. A store that gives such a request up is asked
// for what is left (objstore/retry).

// newTurns returns the Turns of a job whose nodes all read from the store; else that of one that never waits.
func (n *node) newTurns(d steal.Division) *steal.Turns {
	if n.Algorithm != steal.Stream || !n.Object.Ranges || n.Members[n.sources[0]].Held {
		return &steal.Turns{}
	}
	return steal.NewTurns(d, n.Self, n.Layout)
}

// covered is how many pieces somebody has, as far as we know.
func (n *node) covered() int { return n.Layout.Count() - n.ex.Uncovered() }

// takeTurns lets what we read rest while others are to read first, and go on when it is our turn.
func (n *node) takeTurns() {
	for _, f := range n.fetches {
		rests := len(f.works) > 0 && !n.turns.May(n.works.PlaceOf(f.works[0]), n.covered())
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

// pass returns when the gate is open.
func (g *gate) pass(ctx context.Context) error {
	for {
		g.mu.Lock()
		shut := g.shut
		g.mu.Unlock()
		if shut == nil {
			return nil
		}
		select {
		case <-shut:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// gated reads while its gate is open.
type gated struct {
	ctx  context.Context
	gate *gate
	r    io.Reader
}

func (g gated) Read(p []byte) (int, error) {
	if err := g.gate.pass(g.ctx); err != nil {
		return 0, err
	}
	return g.r.Read(p)
}
