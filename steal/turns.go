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
// A rate is measured from one arrival of bytes to another, over as many as tell something: where little comes
// at a time it takes longer to know, and each half rests for longer. So that all find out the same at the same time nodes look at fixed
// moments, and until the first such look read over one connection.
//
// In turn, works have an order (Division.Place): the first work of each node, the second of each, and so on. Of those that
// nobody has, the foremost may be read: at first one, and one more each time that the store could have
// delivered a piece, until the first is there. So they begin, and end, one after the other, and by then so many read as it
// takes to have all that the store gives. At least they are a 32nd of all pieces, and twice as many each time that pieces
// come more slowly than when all read. No node tells another anything: what is had by somebody is
// announced, and who decides differently from others reads sooner or later than its turn, and no more. Who is gone, or hangs, while it
// is its turn leaves one place fewer for the others, until they see that pieces come more slowly.
//
// A Turns is a value without clock; one event loop owns it. The zero value is that of a node that never waits.
type Turns struct {
	size    unit.Bytes // of a piece
	pieces  int
	readers int  // nodes that have something to read at first
	few     int  // pieces that are read at once at first, when they are read in turn
	second  bool // we are in the half that rests first

	state  turning
	began  time.Time     // the state; in turn, when the first was to begin
	again  time.Time     // the next trial is not before, or the turns end
	look   time.Time     // together: whether to try is looked at then
	window time.Duration // from the last look to that one
	looked bool          // together: that has told something
	own    bool          // the last trial said that it is narrow for each
	rest   time.Duration // halves: for how long each rests
	half   int           // of halves: 0 while the first reads, 1 while the second does

	first    unit.Bytes     // that had been read when the state began
	from, to unit.Bytes     // that had been read at since and until
	since    time.Time      // when something first came of what is measured; zero: nothing has
	until    time.Time      // when something last came
	came     int            // so many times something came in between, the last one counted
	usual    unit.Bandwidth // that we read while all did
	alone    unit.Bandwidth // while half did; zero: not known

	among      int  // so many read while all did
	most, room int  // pieces that may be read at once; that may by now
	known      bool // most is; else it is all
	wide       bool // the last proof said that others get enough, too
	proof      proof
	gotOn      time.Time // when somebody last had a piece that nobody had before
	gotTo      int       // so many were had then
	had        int       // pieces that somebody had at noted
	noted      time.Time
	due        []time.Time // by place, of those who may read if all read in turn: since when
}

// proof is a time in which it may show that others get enough: when it began, and what was read and had by then.
type proof struct {
	since time.Time
	read  unit.Bytes
	had   int
}

// turning is where a node stands.
type turning uint8

const (
	together turning = iota
	halves
	inTurn
)

const (
	tooLong   = 3 * time.Second        // for a piece: less is not worth a trial
	warmUp    = 200 * time.Millisecond // after the beginning nothing is measured
	firstLook = 400 * time.Millisecond // after that; if it tells nothing, the next window is twice as long
	lastLook  = 8 * firstLook          // no window is longer
	halfTime  = 300 * time.Millisecond // that each half rests, at least
	enough    = 6                      // arrivals, to know a rate
	gainful   = 1.5                    // times as fast as when all read; with half of them twice, if all share one rate
	fewest    = 32                     // of all pieces, this part may be read at once
	whole     = 0.75                   // of what all together read: no more is to be had
	nearly    = 0.75                   // of the readers have got a piece: so much for all
	ofPieces  = 16                     // as many are counted to know how fast they come
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

// InTurn says that works are read in their order.
func (t *Turns) InTurn() bool { return t.state == inTurn }

// Settled says that nobody waits, and that the node need not find out how fast it reads over one connection.
func (t *Turns) Settled() bool { return t.state == together && (t.looked || !t.Matters()) }

// Shares says that what a node reads others do not get, or that this is not known yet: so nobody is to read what others have. How fast it
// reads does not tell, since others may wait meanwhile, nor does a trial at which others do not rest when it reckons with that: what they
// get has to show, too.
func (t *Turns) Shares() bool { return t.Matters() && (t.state != together || !t.wide) }

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

// MayNext says the same of the work that a node is to read next; where works are read in turn it brings that to the front of its list. It is true
// if there is none.
func (t *Turns) MayNext(n *Node, held Held, had int) bool {
	if t.state == together {
		return true
	}
	place, ok := n.foremost(held)
	return !ok || t.May(place, had)
}

// Due is for how long a work of that place has been one to read. Before that nobody can blame its owner, nor, where we do not know whether
// others wait for their turn, while they get on and that turn has not come.
func (t *Turns) Due(place int, now time.Time) time.Duration {
	due := now
	if place < len(t.due) {
		due = t.due[place]
	}
	switch {
	case t.state == halves:
		return 0
	case t.state == together && !(t.Shares() && t.gotOn.After(t.began)):
		due = t.began
	case t.state == together && t.gotOn.Before(due):
		due = t.gotOn
	}
	return now.Sub(due)
}

// Note notes what has been read from the store in all, whether something is being read, and how many
// pieces somebody has. It is to be called several times in halfTime.
func (t *Turns) Note(read unit.Bytes, reads bool, had int, now time.Time) {
	if !t.Matters() {
		return
	}
	if t.began.IsZero() {
		t.enter(together, read, now)
		t.proof = proof{now, read, had}
	}
	if had > t.gotTo {
		t.gotTo, t.gotOn = had, now
	}
	switch t.state {
	case together:
		t.dueTo(had+1, now) // for all that we know others may read one after the other
		t.noteOthers(read, had, now)
		t.noteTogether(read, reads, had, now)
	case halves:
		t.noteHalves(read, reads, had, now)
	case inTurn:
		t.noteInTurn(read, had, now)
	}
}

// noteOthers finds out whether others get as much as we. If pieces come to all as fast as to us, or fast enough, then almost as many come in the time of one
// as there are readers, whoever waits; where few read because others wait, or because it is the end, there are no more than the store gives to all.
func (t *Turns) noteOthers(read unit.Bytes, had int, now time.Time) {
	within := tooLong
	if t.own {
		within = max(within, 2*t.takes(t.usual))
	}
	switch {
	case now.Sub(t.proof.since) > within:
		t.proof = proof{now, read, had}
	case 2*(read-t.proof.read) >= t.size && float64(had-t.proof.had) >= nearly*float64(t.readers):
		t.wide = true
	}
}

// noteTogether measures while all read, and begins a trial at a look that says that a piece takes too long.
func (t *Turns) noteTogether(read unit.Bytes, reads bool, had int, now time.Time) {
	t.measure(read, reads && now.Sub(t.began) >= warmUp, now) // at first some have not begun
	if took := now.Sub(t.began); read-t.first >= t.size && took <= tooLong {
		t.looked = true
	}
	if now.Before(t.look) {
		return
	}
	rate, known := t.rate(enough)
	window := t.window
	if !known {
		t.window = min(2*t.window, lastLook)
	}
	t.look, t.since = now.Add(t.window), time.Time{}
	t.looked = t.looked || known || window == lastLook
	rest := max(halfTime, window*3/5)
	if !known || t.takes(rate) <= max(tooLong, 4*rest) || now.Before(t.again) {
		return
	}
	t.usual, t.alone, t.half, t.rest = rate, 0, 0, rest
	t.among = max(1, min(t.readers, t.pieces-had))
	t.enter(halves, read, now)
}

// noteHalves measures while one half rests, and at the end of the trial decides between all at once and in turn.
func (t *Turns) noteHalves(read unit.Bytes, reads bool, had int, now time.Time) {
	if half := int(now.Sub(t.began) / t.rest); half != t.half {
		t.half, t.since = half, time.Time{}
	}
	if t.half < 2 {
		if now.Sub(t.began)-time.Duration(t.half)*t.rest < t.rest/3 { // what was on its way still comes
			t.since, t.to = time.Time{}, read
			return
		}
		t.measure(read, reads, now)
		if rate, known := t.rate(2); known && t.May(0, 0) {
			t.alone = rate
		}
		return
	}
	if float64(t.alone) < gainful*float64(t.usual) {
		t.enter(together, read, now)
		t.again, t.own, t.known = now.Add(longest), true, false
		return
	}
	t.enter(inTurn, read, now)
	t.own, t.wide = false, false
	t.again = now.Add(max(longest, 2*ofPieces*t.each()))
	if t.known { // as many as before the trial
		t.began = now.Add(-time.Duration(t.most) * t.each())
	} else {
		t.most = t.among
	}
	t.had, t.noted = had, now
	t.admit(had, now)
}

// noteInTurn lets more read in turn as time goes by: twice as many where pieces come too slowly, and all at once after a while.
func (t *Turns) noteInTurn(read unit.Bytes, had int, now time.Time) {
	if !now.Before(t.again) && had < t.pieces { // the store may give more by now
		t.enter(together, read, now)
		t.proof = proof{now, read, had}
		t.looked = false
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
			t.most, t.began = min(2*t.most, t.pieces), now.Add(-time.Duration(t.room)*each) // not among: who hangs may have as many places
		}
		t.had, t.noted = had, now
	}
	t.admit(had, now)
}

func (t *Turns) enter(s turning, read unit.Bytes, now time.Time) {
	t.state, t.began, t.since, t.first, t.to, t.due = s, now, time.Time{}, read, read, t.due[:0]
	t.window, t.look = firstLook, now.Add(warmUp+firstLook)
}

// measure notes what has come. A time without anything to read, or before the first byte, does not count.
func (t *Turns) measure(read unit.Bytes, reads bool, now time.Time) {
	switch {
	case !reads:
		t.since = time.Time{}
	case read == t.to:
	case t.since.IsZero():
		t.since, t.until, t.from, t.came = now, now, read, 0
	default:
		t.until, t.came = now, t.came+1
	}
	t.to = read
}

// rate is how fast we have read, from one arrival to the last; known says that there were so many.
func (t *Turns) rate(arrivals int) (rate unit.Bandwidth, known bool) {
	if t.since.IsZero() || t.came < arrivals {
		return 0, false
	}
	return unit.Bandwidth(float64(t.to-t.from) / t.until.Sub(t.since).Seconds()), true
}

// takes is how long a piece takes at a rate.
func (t *Turns) takes(rate unit.Bandwidth) time.Duration {
	return time.Duration(float64(t.size) / float64(rate) * 1e9)
}

// each is how long the store takes for a piece if all nodes together read as fast as we did while all read.
func (t *Turns) each() time.Duration { return t.takes(t.usual * unit.Bandwidth(t.among)) }

// Takes is how long a piece takes with so many reading as may in turn; zero if all read together.
func (t *Turns) Takes() time.Duration {
	if t.state != inTurn {
		return 0
	}
	return time.Duration(min(t.room, t.among)) * t.each()
}

// admit works out how many may read by now.
func (t *Turns) admit(had int, now time.Time) {
	t.room = min(t.most, 1+int(now.Sub(t.began)/max(1, t.each())))
	t.dueTo(had+t.room, now)
}

// dueTo notes that so many places have come to their turn by now.
func (t *Turns) dueTo(places int, now time.Time) {
	for len(t.due) < min(places, t.pieces) {
		t.due = append(t.due, now)
	}
}
