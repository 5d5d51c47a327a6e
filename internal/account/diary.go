package account

import (
	"math"
	"strings"
)

// Doing is what a node is at until it has the object. It is at one thing at a
// time, so its times add up. What comes in decides first, whatever else is waited for:
// a node that reads from the store while peers give it pieces is at FromBoth.
type Doing int

const (
	Other      Doing = iota // preparation, checks, and what nobody measures
	FromStore               // bytes come from the store, and none from peers
	FromBoth                // from the store and from peers
	FromPeers               // from peers alone
	ForStore                // nothing comes: it waits for the store,
	ForBarrier              // for others that read it, before which pieces are not passed on,
	ForPeers                // for peers,
	ForDisk                 // and for the file to be durable, whatever comes
	doings
)

// Coming and Waiting are the two kinds of Doing, but for Other.
var (
	Coming  = []Doing{FromStore, FromBoth, FromPeers}
	Waiting = []Doing{ForStore, ForBarrier, ForPeers, ForDisk}
)

// Of is from where bytes come, or what is waited for, in a word.
func (d Doing) Of() string {
	switch d {
	case FromStore, ForStore:
		return "store"
	case FromBoth:
		return "both"
	case FromPeers, ForPeers:
		return "peers"
	case ForBarrier:
		return "barrier"
	case ForDisk:
		return "disk"
	}
	return "other"
}

// Times are seconds by Doing.
type Times [doings]float64

// Sum is the time of some of them together.
func (t *Times) Sum(of ...Doing) (s float64) {
	for _, d := range of {
		s += t[d]
	}
	return s
}

// letters stand for each Doing in a Course.
const letters = "-sbpSBPD"

// Letter is what stands for d in a Course.
func (d Doing) Letter() byte { return letters[d] }

// DoingOf is the Doing that a letter of a Course stands for; Other if it stands for none.
func DoingOf(letter byte) Doing { return Doing(max(0, strings.IndexByte(letters, letter))) }

// lull is for how long nothing may come from a source that is still said to give, in
// seconds: blocks come one by one, and at low rates not in every moment.
const lull = 0.25

// rounding is by what share of a step times that are sums may be off.
const rounding = 1e-9

// firstMoment is the step of a Diary at its beginning, in seconds: as often as a node looks.
const firstMoment = 0.05

// Diary notes what one node is at, from one moment to the next, and keeps it as
// Times and as a line of a bounded number of steps: when they are used up, two become one.
//
// A moment in which nothing came from a source counts as one in which something did if it lies
// between two that are less than a lull apart. So each is judged only when it is known what followed.
type Diary struct {
	most  int
	step  float64
	steps []Times
	spent Times
	at    float64
	last  [2]float64 // the end of the last moment in which something came from the store, and from peers
	open  []moment   // not judged yet
}

type moment struct {
	from, to float64
	came     [2]bool // from the store, from peers
	wait     Doing
}

// NewDiary returns a Diary of at most so many steps that begins so many seconds
// after the job was accepted.
func NewDiary(most int, at float64) *Diary {
	if !(at > 0) || math.IsInf(at, 0) {
		at = 0
	}
	return &Diary{most: max(most, 2), step: firstMoment, at: at, last: [2]float64{math.Inf(-1), math.Inf(-1)}}
}

// Note takes the time since the last note: whether anything came from the store
// and from peers, and what is waited for if nothing did. at counts as in NewDiary; if it does not
// grow nothing is noted.
func (d *Diary) Note(at float64, store, peers bool, wait Doing) {
	if !(at > d.at) || math.IsInf(at, 0) {
		return
	}
	m := moment{from: d.at, to: at, came: [2]bool{store, peers}, wait: wait}
	d.at = at
	d.open = append(d.open, m)
	for source, came := range m.came {
		if !came {
			continue
		}
		if m.from-d.last[source] <= lull {
			for i := range d.open {
				if d.open[i].from >= d.last[source] {
					d.open[i].came[source] = true
				}
			}
		}
		d.last[source] = at
	}
	for len(d.open) > 0 && at-d.open[0].from > lull {
		d.judge(d.open[0])
		d.open = d.open[1:]
	}
}

// End judges what has not been judged: nothing follows.
func (d *Diary) End() {
	for _, m := range d.open {
		d.judge(m)
	}
	d.open = nil
}

// Times are those of all that has been judged.
func (d *Diary) Times() Times { return d.spent }

// Line is what the node was mostly at in each step of so many seconds since the
// job was accepted, a letter each.
func (d *Diary) Line() (step float64, line string) {
	b := make([]byte, len(d.steps))
	for i := range d.steps {
		most := Other
		for k, t := range d.steps[i] {
			if t > d.steps[i][most] {
				most = Doing(k)
			}
		}
		b[i] = most.Letter()
	}
	return d.step, string(b)
}

func (m *moment) doing() Doing {
	switch {
	case m.wait == ForDisk:
		return ForDisk
	case m.came[0] && m.came[1]:
		return FromBoth
	case m.came[0]:
		return FromStore
	case m.came[1]:
		return FromPeers
	}
	return m.wait
}

func (d *Diary) judge(m moment) {
	is := m.doing()
	d.spent[is] += m.to - m.from
	for m.to > (float64(d.most)+rounding)*d.step {
		d.step *= 2
		half := d.steps[:(len(d.steps)+1)/2]
		for i := range half {
			both := d.steps[2*i]
			if 2*i+1 < len(d.steps) {
				for k, t := range d.steps[2*i+1] {
					both[k] += t
				}
			}
			half[i] = both
		}
		d.steps = half
	}
	last := min(max(0, int(math.Ceil(m.to/d.step-rounding))-1), d.most-1)
	for len(d.steps) <= last {
		d.steps = append(d.steps, Times{})
	}
	for i := min(last, int(m.from/d.step)); i <= last; i++ {
		if t := min(m.to, float64(i+1)*d.step) - max(m.from, float64(i)*d.step); t > 0 {
			d.steps[i][is] += t
		}
	}
}
