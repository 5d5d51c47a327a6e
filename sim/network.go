package sim

import "math"

// Flow is the number of a flow. None is no flow.
type Flow int32

// None is no flow.
const None Flow = -1

// rounding is by how much, as a share, the rates of a link's flows may seem more than it carries, since they are added up one by one.
const rounding = 1e-9

// Link is the number of a link: one direction, or both of a half-duplex one.
type Link int32

// Network is links and the flows over them, which share by max-min fairness: no flow
// can have more without another that has no more having less. Where flows have weights, more is more for its weight.
//
// Every link has a level: what a flow of weight 1 gets on it that is not held back
// elsewhere. A flow's rate is its own cap, or the lowest level on its way times its weight. A link's level is such that
// its flows together fill it; if they cannot, it has none (infinite). Where that holds of all
// links, the rates are max-min fair: each flow has a link that is full and on which
// nobody has more (Bertsekas and Gallager, Data Networks, section 6.5). So
// after a change only the levels of the links concerned are computed anew, then those of links
// on which a rate has thereby changed, until nothing changes; on each link in time linear in
// its flows. Levels settle from the narrowest link on (Charny, 1994, proves it for any order). No pass
// goes over all flows.
//
// Tolerance trades exactness for time: a link is looked at again only when the rates of
// its flows have changed by that share of its capacity since it was last, or are more than it carries, and a level that
// would rise by less stays. So no link carries more than it can, and some carry a little less than flows would take.
type Network struct {
	Tolerance float64 // 0: exact, but for rounding

	now    float64
	links  []link
	flows  []flow
	most   float64 // that any link has carried, but for those of infinite capacity
	steps  []step  // of all flows' ways
	heap   []entry // moving flows, by the time at which they have moved their bytes, or an earlier one
	queue  []Link  // links whose level is to be looked at
	rerate []Flow  // flows to be given their rate
	looks  int     // how often a level was computed
}

type link struct {
	capacity float64
	level    float64
	load     float64 // of its flows together
	change   float64 // by how much the rates of its flows have changed since it was looked at
	queued   bool
	weight   float64 // of the flows that are on it, together
	on       []int32 // their steps
}

type step struct {
	flow Flow
	link Link
	at   int32 // index in the link's on, if the flow is on
}

type flow struct {
	first, last int32 // its steps
	heap        int32 // index in the heap, or -1
	on          bool
	waits       bool // in rerate
	there       bool // its bytes are moved, and nobody has said yet how it goes on
	cap         float64
	weight      float64
	rate        float64
	left        float64 // bytes to go, at since
	moved       float64 // bytes since Moved was last asked, at since
	since       float64
}

type entry struct {
	at   float64
	flow Flow
}

// Now is the time in seconds since the beginning.
func (n *Network) Now() float64 { return n.now }

// AddLink returns a new link that carries capacity bytes a second. One of infinite capacity
// is allowed, and stays so: flows do not even note that they pass over it.
func (n *Network) AddLink(capacity float64) Link {
	n.links = append(n.links, link{capacity: capacity, level: math.Inf(1)})
	n.carries(capacity)
	return Link(len(n.links) - 1)
}

// SetCapacity changes what a link carries from now on.
func (n *Network) SetCapacity(l Link, capacity float64) {
	n.links[l].capacity = capacity
	n.carries(capacity)
	n.look(l)
}

// carries notes that a link carries so much.
func (n *Network) carries(capacity float64) {
	if !math.IsInf(capacity, 1) {
		n.most = max(n.most, capacity)
	}
}

// AddFlow returns a new flow over these links, at rest. Its own rate is at most
// limit; an infinite one counts as 1e15 bytes a second, or as what the widest link has ever carried if that is more: what moves in no
// time at all, where nothing on its way is limited, cannot be simulated. The ways of all flows together have fewer than 2^31 links.
func (n *Network) AddFlow(limit float64, way ...Link) Flow {
	f := Flow(len(n.flows))
	first := int32(len(n.steps))
	for _, l := range way {
		if !math.IsInf(n.links[l].capacity, 1) { // it never holds anybody back
			n.steps = append(n.steps, step{flow: f, link: l})
		}
	}
	n.flows = append(n.flows, flow{first: first, last: int32(len(n.steps)), heap: -1, cap: limit, weight: 1})
	return f
}

// Limit changes the rate that a flow has at most.
func (n *Network) Limit(f Flow, limit float64) {
	fl := &n.flows[f]
	fl.cap = limit
	if fl.on {
		for s := fl.first; s < fl.last; s++ {
			n.look(n.steps[s].link)
		}
		n.rate(f)
	}
}

// Weigh changes how much a flow counts where links are shared, which is 1 at first: one of half the weight gets half of what
// another does with which it shares a full link. The others get the rest, and where there are none it gets as much as ever.
func (n *Network) Weigh(f Flow, weight float64) {
	fl := &n.flows[f]
	if fl.on {
		for s := fl.first; s < fl.last; s++ {
			n.links[n.steps[s].link].weight += weight - fl.weight
			n.look(n.steps[s].link)
		}
		n.rate(f)
	}
	fl.weight = weight
}

// Start lets a flow move so many bytes from now on. A flow that moves goes on
// moving; what it had to go before does not count any more.
func (n *Network) Start(f Flow, bytes float64) {
	fl := &n.flows[f]
	n.settle(fl)
	fl.left, fl.there = bytes, false
	if fl.on {
		n.schedule(f)
		return
	}
	fl.on = true
	for s := fl.first; s < fl.last; s++ {
		l := &n.links[n.steps[s].link]
		n.steps[s].at = int32(len(l.on))
		l.on = append(l.on, s)
		l.weight += fl.weight
	}
	n.rate(f)
	n.schedule(f)
}

// Stop ends the moving of a flow.
func (n *Network) Stop(f Flow) {
	fl := &n.flows[f]
	if !fl.on {
		return
	}
	n.settle(fl)
	fl.on = false
	for s := fl.first; s < fl.last; s++ {
		st := &n.steps[s]
		l := &n.links[st.link]
		last := len(l.on) - 1
		moved := l.on[last]
		l.on[st.at] = moved
		n.steps[moved].at = st.at
		l.on = l.on[:last]
		if l.weight -= fl.weight; last == 0 {
			l.weight = 0 // what rounding has left
		}
		n.changed(st.link, -fl.rate)
	}
	fl.rate = 0
	n.unschedule(f)
}

// Moved is how many bytes a flow has moved since this was last asked.
func (n *Network) Moved(f Flow) float64 {
	fl := &n.flows[f]
	n.settle(fl)
	m := fl.moved
	fl.moved = 0
	return m
}

// SoFar is what Moved would say, and does not change what it will.
func (n *Network) SoFar(f Flow) float64 {
	fl := &n.flows[f]
	n.settle(fl)
	return fl.moved
}

// Moving says whether a flow was started and not stopped.
func (n *Network) Moving(f Flow) bool { return n.flows[f].on }

// Rate is what a flow moves in a second, as of the last event.
func (n *Network) Rate(f Flow) float64 { return n.flows[f].rate }

// Due is when the first of the flows that move will have moved its bytes, if nothing else happens; infinite if none moves.
func (n *Network) Due() float64 {
	_, at := n.earliest()
	return at
}

// settle accounts for what a flow has moved until now.
func (n *Network) settle(fl *flow) {
	if dt := n.now - fl.since; dt > 0 {
		if m := min(fl.rate*dt, fl.left); m > 0 {
			fl.moved += m
			fl.left -= m
		}
	}
	fl.since = n.now
}

// arrived accounts for a flow that has moved all its bytes now, whatever rounding says.
func (n *Network) arrived(f Flow) {
	fl := &n.flows[f]
	fl.moved += fl.left
	fl.left, fl.since, fl.there = 0, n.now, true
	n.unschedule(f)
}

// rate notes that a flow is to be given its rate before time goes on.
func (n *Network) rate(f Flow) {
	if fl := &n.flows[f]; !fl.waits {
		fl.waits = true
		n.rerate = append(n.rerate, f)
	}
}

// look notes that a link's level is to be computed before time goes on.
func (n *Network) look(l Link) {
	if k := &n.links[l]; !k.queued {
		k.queued = true
		n.queue = append(n.queue, l)
	}
}

// changed notes that the rate of a flow on a link has changed by d.
func (n *Network) changed(l Link, d float64) {
	k := &n.links[l]
	k.change += math.Abs(d)
	k.load += d
	if k.change > max(n.Tolerance, 1e-12)*k.capacity || d > 0 && k.load > (1+rounding)*k.capacity {
		n.look(l)
	}
}

func (n *Network) dirty() bool { return len(n.queue)+len(n.rerate) > 0 }

// share computes the levels of all links that are to be looked at and the rates that follow.
func (n *Network) share() {
	for at, give := 0, 0; at < len(n.queue) || give < len(n.rerate); {
		if give < len(n.rerate) { // rates first: they may say which links to look at
			f := n.rerate[give]
			give++
			n.give(f)
			continue
		}
		l := n.queue[at]
		at++
		n.links[l].queued = false
		n.level(l)
		if give == len(n.rerate) {
			n.rerate, give = n.rerate[:0], 0
		}
		if at > 1024 && 2*at > len(n.queue) {
			n.queue = n.queue[:copy(n.queue, n.queue[at:])]
			at = 0
		}
	}
	n.queue, n.rerate = n.queue[:0], n.rerate[:0]
}

// give gives a flow the rate that the levels allow, and looks at the links which that concerns.
func (n *Network) give(f Flow) {
	fl := &n.flows[f]
	fl.waits = false
	if !fl.on {
		return
	}
	r := n.lowest(fl)
	d := r - fl.rate
	if d == 0 {
		return
	}
	n.settle(fl)
	fl.rate = r
	for s := fl.first; s < fl.last; s++ {
		n.changed(n.steps[s].link, d)
	}
	n.schedule(f)
}

// lowest is what the lowest level on a flow's way gives it, or its own cap.
func (n *Network) lowest(fl *flow) float64 {
	level := math.Inf(1)
	for s := fl.first; s < fl.last; s++ {
		level = min(level, n.links[n.steps[s].link].level)
	}
	limit := fl.cap
	if math.IsInf(limit, 1) {
		limit = max(1e15, n.most)
	}
	return min(limit, level*fl.weight)
}

// level computes a link's level: with it, times its weight, as the most that each flow gets which is not
// held back elsewhere, the flows fill the link.
func (n *Network) level(l Link) {
	n.looks++
	k := &n.links[l]
	k.change = 0
	old := k.level
	k.level = math.Inf(1) // so that lowest is what holds a flow back elsewhere
	level := n.fill(k)
	if rise := level - old; rise >= -1e-12*old && rise <= max(n.Tolerance, 1e-12)*old && !math.IsInf(old, 1) {
		level = old
	}
	k.level, k.load = level, 0 // counted anew: what one flow had for a moment may have swallowed the others
	for _, s := range k.on {
		f := n.steps[s].flow
		k.load += n.flows[f].rate
		if n.lowest(&n.flows[f]) != n.flows[f].rate {
			n.rate(f)
		}
	}
}

// fill is the level at which link k is full. The level starts as if nobody were held back, and rises
// by what those leave who are held back below it. O(flows), rarely more than three passes.
func (n *Network) fill(k *link) float64 {
	count := len(k.on)
	if count == 0 {
		return math.Inf(1)
	}
	level := k.capacity / k.weight
	for {
		rest, sharing, weight := k.capacity, 0, 0.0
		for _, s := range k.on {
			fl := &n.flows[n.steps[s].flow]
			if e := n.lowest(fl); e < level*fl.weight {
				rest -= e
			} else {
				sharing++
				weight += fl.weight
			}
		}
		if sharing == 0 {
			return math.Inf(1)
		}
		next := max(level, rest/weight)
		if sharing == count || next == level {
			return next
		}
		count, level = sharing, next
	}
}

// schedule notes when a flow will have moved its bytes. The entry in the heap may be too early:
// earliest puts that right, which is rarer than rates change.
func (n *Network) schedule(f Flow) {
	fl := &n.flows[f]
	at := n.end(fl)
	switch {
	case math.IsInf(at, 1) || fl.there:
		n.unschedule(f)
	case fl.heap < 0:
		fl.heap = int32(len(n.heap))
		n.heap = append(n.heap, entry{at, f})
		n.up(int(fl.heap))
	case at < n.heap[fl.heap].at:
		n.heap[fl.heap].at = at
		n.up(int(fl.heap))
	}
}

func (n *Network) end(fl *flow) float64 {
	if fl.left <= 0 {
		return n.now
	}
	if fl.rate <= 0 {
		return math.Inf(1)
	}
	return fl.since + fl.left/fl.rate
}

func (n *Network) unschedule(f Flow) {
	i := int(n.flows[f].heap)
	if i < 0 {
		return
	}
	n.flows[f].heap = -1
	last := len(n.heap) - 1
	e := n.heap[last]
	n.heap = n.heap[:last]
	if i < last {
		n.heap[i] = e
		n.flows[e.flow].heap = int32(i)
		n.up(i)
		n.down(int(n.flows[e.flow].heap))
	}
}

// earliest is the flow that will have moved its bytes first, and when.
func (n *Network) earliest() (Flow, float64) {
	for len(n.heap) > 0 {
		e := &n.heap[0]
		at := n.end(&n.flows[e.flow])
		if at <= e.at {
			return e.flow, max(e.at, n.now)
		}
		e.at = at
		n.down(0)
	}
	return None, math.Inf(1)
}

func (e entry) before(o entry) bool { return e.at < o.at || e.at == o.at && e.flow < o.flow }

func (n *Network) up(i int) {
	e := n.heap[i]
	for i > 0 {
		p := (i - 1) / 2
		if !e.before(n.heap[p]) {
			break
		}
		n.heap[i] = n.heap[p]
		n.flows[n.heap[i].flow].heap = int32(i)
		i = p
	}
	n.heap[i] = e
	n.flows[e.flow].heap = int32(i)
}

func (n *Network) down(i int) {
	e := n.heap[i]
	for {
		c := 2*i + 1
		if c >= len(n.heap) {
			break
		}
		if c+1 < len(n.heap) && n.heap[c+1].before(n.heap[c]) {
			c++
		}
		if !n.heap[c].before(e) {
			break
		}
		n.heap[i] = n.heap[c]
		n.flows[n.heap[i].flow].heap = int32(i)
		i = c
	}
	n.heap[i] = e
	n.flows[e.flow].heap = int32(i)
}
