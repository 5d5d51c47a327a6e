// Package limit slows a store down: a decorator that gives each connection,
// each client and the whole store a rate. It is how a fast disk in a test or a
// simulation behaves like the object store of the paper, where what one
// connection gets differs from download to download (Chiba et al. 2010,
// section 3), and how an agent is kept from filling somebody's link.
//
//	store ──► Total, shared by all clients ──► PerClient, this Store ──► drawn rate, one reader ──► caller
//
// A connection is one reader that ReadRange returned: that is what would be a
// connection to a real store. Its rate is drawn when it is opened, from an
// explicit source of randomness, so that runs with one seed are comparable as
// long as readers are opened in the same order. Only bytes read are limited;
// Stat, List and Put pass through.
//
// It costs one lock and no copy per read; see package pace for its grain.
package limit

import (
	"context"
	"io"
	"math/rand/v2"
	"sync"

	"github.com/freshet/freshet/internal/pace"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/unit"
)

// Rates are the limits of one client of a store. The zero Rates limit nothing.
type Rates struct {
	PerConnection Distribution   // zero: no limit
	PerClient     unit.Bandwidth // all readers of this Store together; ≤ 0: no limit
	Total         *pace.Limiter  // given to all clients of one store; nil: no limit
	Rand          *rand.Rand     // what PerConnection is drawn with, used by this Store alone; nil: one with seed 0
}

// Store is the limited store.
type Store struct {
	objstore.Store
	perConnection Distribution
	shared        []*pace.Limiter // this client's and the total

	mu  sync.Mutex // guards rng
	rng *rand.Rand
}

// New limits s to r.
func New(s objstore.Store, r Rates) *Store {
	if r.Rand == nil {
		r.Rand = Rand(0)
	}
	return &Store{
		Store:         s,
		perConnection: r.PerConnection,
		shared:        []*pace.Limiter{pace.New(r.PerClient), r.Total},
		rng:           r.Rand,
	}
}

// Rand is a source of randomness for drawing rates; the same seed draws the
// same rates.
func Rand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x66726573686574)) }

// ReadRange opens the range at the store at once and hands its bytes on no
// faster than the rates allow. A wait that ctx ends is ctx's error.
func (s *Store) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	r, err := s.Store.ReadRange(ctx, o, off, n)
	if err != nil {
		return nil, err
	}
	return &reader{Reader: pace.Reader(ctx, r, append([]*pace.Limiter{pace.New(s.draw())}, s.shared...)...), close: r.Close}, nil
}

func (s *Store) draw() unit.Bandwidth {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.perConnection.Draw(s.rng)
}

type reader struct {
	io.Reader
	close func() error
}

func (r *reader) Close() error { return r.close() }
