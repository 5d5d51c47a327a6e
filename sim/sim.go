// Package sim is a discrete-event simulator: a clock, timers, and flows that
// share links max-min fairly. It knows neither nodes nor pieces; package
// internal/scenario runs the rules of a broadcast on it.
//
// Whoever simulates takes one event after the other. Between two events the clock jumps:
//
//	for {
//		ev, ok := s.Next()   // advances s.Now()
//		…                    // s.At, s.Start, s.Stop, s.SetCapacity
//	}
//
// A Sim is deterministic: events at the same time come in the order in which they were
// made, flows before timers. It is a value without goroutine or real clock, not for
// concurrent use. Links and flows are numbers, their state lies in slices: there
// is nothing for a garbage collector to follow.
package sim

import "math"

// Event is what happens next: a timer, or a flow that has moved its bytes.
type Event[E any] struct {
	Timer E
	Flow  Flow // None for a timer
}

// Sim is a simulation whose timers carry values of type E. Make one with New.
type Sim[E any] struct {
	Network
	timers []timer[E] // heap with four children, the earliest first
	seq    uint64
}

type timer[E any] struct {
	at  float64
	seq uint64
	e   E
}

// New returns a simulation at time 0 without links.
func New[E any]() *Sim[E] { return &Sim[E]{} }

// At sets a timer, at the earliest now. It cannot be taken back: who set it sees in e whether it still matters.
func (s *Sim[E]) At(seconds float64, e E) {
	s.seq++
	t := timer[E]{max(seconds, s.now), s.seq, e}
	s.timers = append(s.timers, t)
	i := len(s.timers) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !t.before(&s.timers[up]) {
			break
		}
		s.timers[i] = s.timers[up]
		i = up
	}
	s.timers[i] = t
}

func (t *timer[E]) before(o *timer[E]) bool {
	return t.at < o.at || t.at == o.at && t.seq < o.seq
}

// Next takes the next event and advances the clock to it. ok is false if nothing will
// ever happen any more: there is no timer, and no flow moves. A flow that has moved its bytes stays
// where it is, without moving, until it is started or stopped.
func (s *Sim[E]) Next() (ev Event[E], ok bool) {
	for {
		timer := math.Inf(1)
		if len(s.timers) > 0 {
			timer = s.timers[0].at
		}
		f, flow := s.earliest()
		next := min(timer, flow)
		if s.dirty() && next > s.now { // rates change before time goes on
			s.share()
			continue
		}
		switch {
		case math.IsInf(next, 1):
			return ev, false
		case flow <= timer:
			s.now = flow
			s.arrived(f)
			return Event[E]{Flow: f}, true
		}
		s.now = timer
		return Event[E]{Timer: s.pop(), Flow: None}, true
	}
}

func (s *Sim[E]) pop() E {
	e := s.timers[0].e
	last := len(s.timers) - 1
	t := s.timers[last]
	s.timers[last] = timer[E]{}
	s.timers = s.timers[:last]
	if last == 0 {
		return e
	}
	i := 0
	for {
		first := 4*i + 1
		if first >= last {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, last); c++ {
			if s.timers[c].before(&s.timers[least]) {
				least = c
			}
		}
		if !s.timers[least].before(&t) {
			break
		}
		s.timers[i] = s.timers[least]
		i = least
	}
	s.timers[i] = t
	return e
}
