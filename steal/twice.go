package steal

import (
	"math"
	"slices"
	"time"

	"github.com/freshet/freshet/unit"
)

// Twice says when a node reads from the store what other nodes have.
//
// One copy of an object leaves the store as long as nodes pass it on faster than they could
// read it themselves. Where they do not, because uplinks are narrow and the store is wide, a node that has
// nothing left to take or to steal is no slower than one that downloads all by itself: it reads from the store
// whatever is not on its way yet, for as long as peers give it less than the store would, and leave room for it. With a narrow store that never happens.
// Where they all but fill its link it gains nothing: what it reads is one byte less from them, which they have begun to send.
//
// What peers gave tells of them only for as long as they have something more: who has everything that others have waits for what they
// read, and no store would bring that sooner.
//
// What the store would give is what it gave while there was room beside it; while peers filled the
// node's link it could have given more, nobody knows how much. Whether there was room shows when more came in at another time.
//
// What is read so, or to overtake another node, is capped: each of N nodes may
// read its N-th part of what MAX copies are more than one.
//
// A Twice is a value without clock; one event loop owns it.
type Twice struct {
	left unit.Bytes // that may be read so

	short, whole window
	reads        bool // in all of short something was read from the store
	idle         bool // in all of whole there was nothing to take or steal, and peers had more than we

	samples []sample
	most    unit.Bandwidth // that came in a short period, from the store and from peers
	gave    unit.Bandwidth // peers, in the last whole period
	known   bool           // the node was idle for all of that
}

// window is a period that has begun: when, and what had come by then.
type window struct {
	began        time.Time
	store, peers unit.Bytes
}

// sample is a short period in which something was read from the store.
type sample struct{ store, all unit.Bandwidth }

const (
	mostSamples = 32
	full        = 0.9 // of the most that ever came in: there is no room for more
)

// NewTwice is for one of so many nodes that read an object of size bytes, of which at most copies times
// its size is to leave the store. Zero copies: as much as is of use.
func NewTwice(size unit.Bytes, nodes int, copies float64) *Twice {
	t := &Twice{left: math.MaxInt64}
	if copies > 0 {
		t.left = unit.Bytes(max(0, copies-1) * float64(size) / float64(max(1, nodes)))
	}
	return t
}

// Note notes what has come from the store and from peers in all, whether something is being
// read from the store, and idle: whether there is nothing to take or to steal, though peers have something that the node lacks. It is
// to be called several times a second.
func (t *Twice) Note(store, peers unit.Bytes, reads, idle bool, now time.Time) {
	here := window{now, store, peers}
	if t.whole.began.IsZero() {
		t.short, t.whole = here, here
	}
	if store == 0 { // the first byte has its own time
		t.short = here
	}
	if reads = reads && store > 0; reads != t.reads {
		t.short, t.reads = here, reads
	} else if lasted := now.Sub(t.short.began); lasted >= shortPeriod {
		s, p := t.short.rates(here)
		t.most = max(t.most, s+p)
		if reads {
			if len(t.samples) == mostSamples {
				k := max(0, slices.IndexFunc(t.samples, t.crowded)) // what was learnt while there was room is known for longer
				t.samples = slices.Delete(t.samples, k, k+1)
			}
			t.samples = append(t.samples, sample{s, s + p})
		}
		t.short = here
	}
	if !idle || !t.idle {
		t.whole, t.idle, t.known = here, idle, false
	} else if now.Sub(t.whole.began) >= period {
		_, t.gave = t.whole.rates(here)
		t.whole, t.known = here, true
	}
}

// rates are what came from the store and from peers between two moments.
func (w window) rates(end window) (store, peers unit.Bandwidth) {
	s := end.began.Sub(w.began).Seconds()
	return unit.Bandwidth(float64(end.store-w.store) / s), unit.Bandwidth(float64(end.peers-w.peers) / s)
}

// crowded says that there was no room for more.
func (t *Twice) crowded(s sample) bool { return s.all >= full*t.most }

// Rate is what the store would give, as far as is known.
func (t *Twice) Rate() (r unit.Bandwidth) {
	room := false
	for _, s := range t.samples {
		if !t.crowded(s) {
			room = true
			r = max(r, s.store)
		}
	}
	if !room && len(t.samples) > 0 {
		return t.most
	}
	return r
}

// Pays says whether to read so many bytes though others have them: peers leave room, and the store would give more than they do.
func (t *Twice) Pays(size unit.Bytes) bool {
	return t.known && t.gave < min(t.Rate(), full*t.most) && t.May(size)
}

// May says whether so many bytes may be read twice at all.
func (t *Twice) May(size unit.Bytes) bool { return size <= t.left }

// Stop ends it: nothing is read twice any more.
func (t *Twice) Stop() { t.left = 0 }

// Spend notes that so many bytes are read though others have them or are reading them.
func (t *Twice) Spend(size unit.Bytes) {
	if t.left < math.MaxInt64 {
		t.left = max(0, t.left-size)
	}
}
