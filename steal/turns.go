package steal

import (
	"time"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// Turns says when a node is to wait before it reads from the store, because others are to read first.
//
// Where what is narrow is what the store delivers to all together, N nodes that all read get an N-th of it each. So all
// pieces come late, and at the same time: of an object of P pieces, the first after N/P of the time that all
// of them take. With as many nodes as pieces nothing can be exchanged before everything is read, and the
// broadcast takes twice as long as it has to. If a few read at once and the others
// wait, pieces come one after the other from the first moment:
//
//	all at once          ───────────────────────> 8 pieces     in turn  ──> 1 ──> 1 ──> 1 ──> 1 …
//
// Where it is what the store delivers to each client that is narrow, waiting gains nothing, and costs. A node cannot see which of
// the two it is, as long as all read; it can when some do not. So, where a piece takes long, all try it, each by its
// own clock, since all have begun at about the same time:
//
//	together ── a piece takes longer than tooLong ──> halves: one half rests, then the other
//	   ↑ ↑                                               │ who is gainful times as fast while the others rest
//	   │ └──────────── who is not ───────────────────────┤
//	   └────────────── after a while ──────────────── in turn
//
// In turn, works have an order (Division.Place): the first work of each node, the second of each, and so on. Of those that
// nobody has, the foremost may be read: at first one, and one more each time that the store could have
// delivered a piece, until the first is there. So they begin, and end, one after the other, and by then so many read as it
// takes to have all that the store gives. At least they are a 32nd of all pieces, and twice as many each time that pieces
// come more slowly than when all read. No node tells another anything: what is had by somebody is
// announced, and who decides differently from others reads sooner or later than its turn, and no more.
//
// A Turns is a value without clock; one event loop owns it. The zero value is that of a node that never waits.
type Turns struct {
	size    unit.Bytes // of a piece
	pieces  int
	readers int  // nodes that have something to read at first
	few     int  // pieces that are read at once at first, when they are read in turn
	second  bool // we are in the half that rests first

	state turning
	began time.Time // the state
	again time.Time // it does not end before
	half  int       // of halves: 0 while the first reads, 1 while the second does

	from  unit.Bytes     // what had been read at since
	since time.Time      // when something first came in this state, or half; zero: nothing has
	usual unit.Bandwidth // that we read while all did
	alone unit.Bandwidth // while half did; zero: not known

	among      int  // so many read while all did
	most, room int  // pieces that may be read at once; that may by now
	known      bool // most is; else it is all
	had        int  // pieces that somebody had at noted
	noted      time.Time
}

// turning is where a node stands.
type turning uint8

const (
	together turning = iota
	halves
	inTurn
)

const (
	tooLong  = 3 * time.Second        // for a piece: less is not worth a trial
	halfTime = 300 * time.Millisecond // that each half rests
	gainful  = 1.7                    // times as fast as when all read; with half of them twice, if all share one rate
	fewest   = 32                     // of all pieces, this part may be read at once
	whole    = 0.75                   // of what all together read: no more is to be had
	ofPieces = 16                     // as many are counted to know how fast they come
)

// NewTurns returns the Turns of node self, which begins with its part of d. One that has no part reads only what it steals, and
// never waits.
func NewTurns(d Division, self int, l piece.Layout) *Turns {
	t := &Turns{size: l.Piece, pieces: l.Count(), few: max(1, l.Count()/fewest)}
	last, mine := -1, false
	for w, owner := range d.Owner {
		if owner == last {
			continue
		}
		last = owner
		t.readers++
		if owner == self {
			t.second, mine = d.Place[w]/d.Works[w].Len()%2 == 1, true
		}
	}
	if !mine {
		return &Turns{}
	}
	return t
}

// Matters says whether the node may ever have to wait. Where each reads several pieces, the
// first ones come soon enough.
func (t *Turns) Matters() bool { return t.readers > 2*t.few }

// Together says that nobody waits.
func (t *Turns) Together() bool { return t.state == together }

// May says whether a work is to be read now whose place in the order is given, where somebody has so many of the pieces.
func (t *Turns) May(place, had int) bool {
	switch t.state {
	case halves:
		return t.second == (t.half == 1)
	case inTurn:
		return place < had+t.room
	}
	return true
}

// Note notes what has been read from the store in all, whether something is being read, and how many
// pieces somebody has. It is to be called several times in halfTime.
func (t *Turns) Note(read unit.Bytes, reads bool, had int, now time.Time) {
	if !t.Matters() {
		return
	}
	switch t.state {
	case together:
		lasted, rate := t.measure(read, reads, now)
		if lasted < shortPeriod {
			return
		}
		t.since, t.from = now, read
		if rate > 0 && time.Duration(float64(t.size)/float64(rate)*1e9) > tooLong && !now.Before(t.again) {
			t.usual, t.alone, t.half = rate, 0, 0
			t.among = max(1, min(t.readers, t.pieces-had))
			t.enter(halves, read, now)
		}
	case halves:
		if half := int(now.Sub(t.began) / halfTime); half != t.half {
			t.half, t.since, t.from = half, time.Time{}, read
		}
		if t.half < 2 {
			if lasted, rate := t.measure(read, reads, now); t.May(0, 0) && lasted >= halfTime/4 {
				t.alone = rate
			}
			return
		}
		if float64(t.alone) < gainful*float64(t.usual) {
			t.enter(together, read, now)
			t.again = now.Add(longest)
			return
		}
		t.enter(inTurn, read, now)
		t.again = now.Add(max(longest, 2*ofPieces*t.each()))
		t.most, t.had, t.known = t.among, had, false
		t.admit(now)
	case inTurn:
		if !now.Before(t.again) { // the store may give more by now
			t.enter(together, read, now)
			return
		}
		each, lasted := t.each(), now.Sub(t.noted)
		switch {
		case !t.known && had > t.had: // so many it takes until the first is through
			t.known, t.most = true, min(t.among, max(t.few, t.room+t.room/4))
			t.had, t.noted = had, now
		case t.room < t.most: // what those bring who begin now is not here yet
			t.had, t.noted = had, now
		case lasted >= max(period, ofPieces*each):
			if float64(had-t.had)*float64(each) < whole*float64(lasted) {
				t.most, t.began = min(2*t.most, t.among), now.Add(-time.Duration(t.room)*each)
			}
			t.had, t.noted = had, now
		}
		t.admit(now)
	}
}

func (t *Turns) enter(s turning, read unit.Bytes, now time.Time) {
	t.state, t.began, t.since, t.from = s, now, time.Time{}, read
}

// measure is how fast we have read, and for how long we have measured that. A time without anything to read, or before
// the first byte, does not count.
func (t *Turns) measure(read unit.Bytes, reads bool, now time.Time) (lasted time.Duration, rate unit.Bandwidth) {
	if !reads || t.since.IsZero() {
		t.since = time.Time{}
		if reads && read > t.from {
			t.since = now
		}
		t.from = read
		return 0, 0
	}
	lasted = now.Sub(t.since)
	return lasted, unit.Bandwidth(float64(read-t.from) / max(1e-9, lasted.Seconds()))
}

// each is how long the store takes for a piece if all nodes together read as fast as we did while all read.
func (t *Turns) each() time.Duration {
	return time.Duration(float64(t.size) / (float64(t.usual) * float64(t.among)) * 1e9)
}

// Takes is how long a piece takes with so many reading as may in turn; zero if all read together.
func (t *Turns) Takes() time.Duration {
	if t.state != inTurn {
		return 0
	}
	return time.Duration(t.room) * t.each()
}

// admit works out how many may read by now.
func (t *Turns) admit(now time.Time) {
	t.room = min(t.most, 1+int(now.Sub(t.began)/max(1, t.each())))
}
