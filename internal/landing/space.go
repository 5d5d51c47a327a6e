package landing

import (
	"errors"
	"sync/atomic"
	"time"
)

// space takes the disk's space for what lands, from front to back.
//
// Most file systems only write down whose the blocks are. Then all of it is taken before anything is written, and a
// disk that is full is found out at once. Others clear the blocks, as those in memory do: 16 agents that took 3 GiB so on two
// processors began 0.8 s later. There the rest is taken beside the transfer, by steps that keep writers waiting for
// some milliseconds only, and with rests between them: short ones, since who fills the disk meanwhile takes what is not taken yet. That such a disk is full is found out early all the same: by whoever writes next.
type space struct {
	size int64
	take func(off, n int64) error // for the n bytes from off on; errors.ErrUnsupported: the file system cannot, for any that need some
	at   int64                    // so much has been taken
	step int64

	failed atomic.Pointer[error] // that which ended the rest
	stop   chan struct{}
	ended  chan struct{} // nil: nothing goes on
}

const (
	firstStep = 1 << 20
	quick     = time.Millisecond // a step that took no longer is followed by a larger one
	slow      = 8 * quick        // and one that took longer than this by a smaller one
	rests     = 3                // as long as the step took, so many times
)

// begin takes what can be taken quickly, and leaves the rest to a goroutine, for which end is to be called.
func (s *space) begin() error {
	s.step = firstStep
	for s.at < s.size {
		lasted, err := s.next()
		if errors.Is(err, errors.ErrUnsupported) {
			return nil
		}
		if err != nil {
			return err
		}
		if lasted > quick {
			s.stop, s.ended = make(chan struct{}), make(chan struct{})
			go s.rest(lasted)
			return nil
		}
	}
	return nil
}

// next makes one step, and says how long it took.
func (s *space) next() (time.Duration, error) {
	n := min(s.step, s.size-s.at)
	began := time.Now()
	if err := s.take(s.at, n); err != nil {
		return 0, err
	}
	s.at += n
	lasted := time.Since(began)
	switch {
	case lasted < quick:
		s.step = min(4*s.step, s.size)
	case lasted > slow:
		s.step = max(s.step/2, firstStep/4)
	}
	return lasted, nil
}

// rest takes what is left.
func (s *space) rest(lasted time.Duration) {
	defer close(s.ended)
	for s.at < s.size {
		select {
		case <-s.stop:
			return
		case <-time.After(rests * lasted):
		}
		var err error
		if lasted, err = s.next(); err != nil {
			if !errors.Is(err, errors.ErrUnsupported) { // found out as late as this where a Tree begins with files that need none
				s.failed.Store(&err)
			}
			return
		}
	}
}

// err is why there is not space for all.
func (s *space) err() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// end stops it, and returns when no more is taken. What has been written has its space.
func (s *space) end() {
	if s.ended == nil {
		return
	}
	close(s.stop)
	<-s.ended
	s.ended = nil
}
