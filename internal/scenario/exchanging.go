package scenario

import (
	"math"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/sim"
	"github.com/freshet/freshet/unit"
)

// This file drives a node's exchange.State as internal/swarm does (message.go, outbox.go, link.go):
//
//	got ──50 ms──> announce ──> heard ──> step: Asks ──> requested: queue of a conn
//	 ↑                                                        │ its flow moves
//	 └──── all blocks of a piece <── block <── carried <──────┘

// got notes that a node has a piece.
func (w *world) got(i, p int) {
	n := &w.nodes[i]
	if n.ex.Have().Has(p) {
		return
	}
	g := w.group(i)
	w.holders[g][p]++
	n.gained = w.sim.Now()
	w.sendCancels(i, n.ex.Got(p))
	n.news = append(n.news, int32(p))
	if w.hops > 0 && !w.known[g][p] && w.holders[g][p] == 1 {
		w.after(tickEvery+w.spread(), event{kind: evRumour, node: int32(i), pieces: []int32{int32(p)}})
	}
	if n.ex.Have().Full() && n.done < 0 {
		n.done = w.sim.Now()
		w.open--
	}
	w.opening(i)
	if !n.telling {
		if w.sim.Now()-n.told >= tickEvery {
			w.announce(i)
		} else {
			n.telling = true
			w.sim.At(n.told+tickEvery, event{kind: evTell, node: int32(i)})
		}
	}
	w.slots(i)
}

// announce tells all neighbours what was got since the last time.
func (w *world) announce(i int) {
	n := &w.nodes[i]
	if len(n.news) == 0 {
		return
	}
	n.told = w.sim.Now()
	for k := range n.waves {
		w.after(n.waves[k].delay, event{kind: evHave, node: int32(i), peer: int32(k), pieces: n.news})
	}
	n.news = nil
}

// heard brings an announcement to those whom it reaches now.
func (w *world) heard(e event) {
	from := &w.nodes[e.node]
	for _, rank := range from.waves[e.peer].ranks {
		p := &from.peers[rank]
		n := &w.nodes[p.node]
		if n.killed || n.absent || n.dead || from.dead || from.lost {
			continue
		}
		news := false
		for _, k := range e.pieces { // a stopped node will read it; that it knows it already makes no difference
			news = n.ex.Announced(int(p.mine), piece.Range{Lo: int(k), Hi: int(k) + 1}) || news
		}
		if !news || n.stopped {
			continue
		}
		w.next(int(p.node))
		if w.opening(int(p.node)) {
			continue
		}
		if at := &n.peers[p.mine]; !at.mute && n.done < 0 { // else there is nothing new to ask it for
			if at.in < 0 || int(at.owes) <= w.few(&w.conns[at.in]) {
				w.step(int(p.node))
			}
		}
		if n.ex.Stirred() {
			w.slots(int(p.node))
		}
	}
}

// opening notes that a node has passed the barrier, if it just has.
func (w *world) opening(i int) bool {
	n := &w.nodes[i]
	if n.isOpen || !n.ex.Open() {
		return false
	}
	n.isOpen, n.opened = true, w.sim.Now()
	if !n.stopped {
		w.step(i)
	}
	return true
}

// slots looks at whom a node serves.
func (w *world) slots(i int) {
	n := &w.nodes[i]
	if n.killed || n.dead || n.stopped || n.absent {
		return
	}
	for _, c := range n.ex.Rechoke(w.now) {
		p := &n.peers[c.Peer]
		k := w.nodes[p.node].peers[p.mine].in
		switch {
		case !c.Choked:
			if k >= 0 {
				w.choked(k, p.delay) // before it
			}
			w.after(p.delay, event{kind: evUnchoke, node: p.node, peer: p.mine})
		case k < 0 || !w.choke(k):
			w.after(p.delay, event{kind: evChoke, node: p.node, peer: p.mine})
		}
	}
}

// quiet is for how long nothing has arrived anywhere before nodes stop looking who is ahead, until they give again, and whom they serve, until
// something happens: a scenario may wait for days for somebody to join.
const quiet = 60

// doze has a node that has looked whom it serves look again later, unless all is quiet and it would find what it has found.
func (w *world) doze(i int) {
	if n := &w.nodes[i]; w.sim.Now()-w.moved >= quiet && !n.ex.Stirred() && !n.ex.Turning() {
		n.dozes, w.dozes = true, true
		return
	}
	w.after(turnEvery, event{kind: evTick, node: int32(i)})
}

// wake has the nodes that dozed look again.
func (w *world) wake() {
	w.dozes = false
	for i := range w.nodes {
		if n := &w.nodes[i]; n.dozes {
			n.dozes = false
			w.slots(i)
			w.after(turnEvery, event{kind: evTick, node: int32(i)})
		}
		if w.nodes[i].numb {
			w.feel(i)
		}
	}
}

// yieldLater has a node look at its next tick who is ahead.
func (w *world) yieldLater(i int) {
	if n := &w.nodes[i]; w.policy.Adapts && !n.yields {
		n.yields = true
		w.after(tickEvery, event{kind: evYield, node: int32(i)})
	}
}

// yield looks who is ahead and can wait for a moment. On a real link a block to it rests for as long as the last one took, exchange.MostRest at most
// (yield.go), so that of a link that is full it gets so much less, and others the rest; here its flow weighs so much less. How fast it
// is counts as of the moment at which it is ahead, and it is looked at again when it is no more.
func (w *world) yield(i int) {
	n := &w.nodes[i]
	for rank, ahead := range n.ex.Ahead() {
		p := &n.peers[rank]
		k := w.nodes[p.node].peers[p.mine].in
		if p.ahead == ahead || k < 0 {
			continue
		}
		weight, flow := 1.0, w.conns[k].flow
		if ahead {
			rate := w.sim.Rate(flow)
			if rate == 0 { // there is nothing for it to wait with
				continue
			}
			if block := float64(min(piece.BlockSize, w.Layout.Piece)) / rate; !math.IsInf(block, 1) { // else no rest slows it down
				weight = block / (block + min(block, mostRest))
			}
		}
		p.ahead = ahead
		w.sim.Weigh(flow, weight)
	}
}

// step sends what a node asks for now.
func (w *world) step(i int) {
	n := &w.nodes[i]
	if n.done >= 0 || !n.isOpen {
		return
	}
	ask, cancel := n.ex.Asks(w.now)
	w.sendCancels(i, cancel)
	for _, a := range ask {
		p := &n.peers[a.Peer]
		p.owes += int32(a.Hi - a.Lo)
		// The way of the blocks back is counted here, so that what arrives at the other end is at once here.
		w.after(p.delay+p.back, event{kind: evRequest, node: p.node, peer: p.mine, req: a.Request})
	}
	w.hunger(i)
}

func (w *world) sendCancels(i int, cancel []exchange.Ask) {
	n := &w.nodes[i]
	for _, a := range cancel {
		p := &n.peers[a.Peer]
		p.owes = max(0, p.owes-int32(a.Hi-a.Lo))
		w.after(p.delay+p.back, event{kind: evCancel, node: p.node, peer: p.mine, req: a.Request})
	}
}

// requested queues what a peer asks for.
func (w *world) requested(i, rank int, r exchange.Request) {
	n := &w.nodes[i]
	p := &n.peers[rank]
	if !n.ex.Serves(rank, r) || w.nodes[p.node].killed {
		return
	}
	there := &w.nodes[p.node].peers[p.mine]
	if there.in < 0 {
		links, _, ok := w.way(n.host, w.nodes[p.node].host)
		if !ok {
			return
		}
		there.in = int32(len(w.conns))
		f := w.sim.AddFlow(math.Inf(1), links...)
		w.own(f, owner{conn: there.in})
		w.conns = append(w.conns, conn{from: int32(i), to: p.node, rank: p.mine, flow: f})
	}
	c := &w.conns[there.in]
	c.queue = append(c.queue, r)
	c.queued += r.Hi - r.Lo
	if !w.sim.Moving(c.flow) {
		w.goOn(c)
	}
}

func (w *world) own(f sim.Flow, o owner) {
	for len(w.owner) <= int(f) {
		w.owner = append(w.owner, owner{})
	}
	w.owner[f] = o
}

// goOn lets a conn move until there is something to look at: the end of a request, or so
// little left in the queue that the receiver may ask for more.
func (w *world) goOn(c *conn) {
	if len(c.queue) == 0 || w.nodes[c.from].stopped || w.nodes[c.to].stopped {
		w.sim.Stop(c.flow)
		return
	}
	r := c.queue[0]
	blocks := r.Hi - r.Lo
	few := w.few(c)
	k := c.queued - few
	if k <= 0 { // it has not asked yet, since it reckons with another rate
		k = max(1, few/2)
	}
	blocks = min(blocks, k)
	bytes := unit.Bytes(0)
	for b := r.Lo; b < r.Lo+blocks; b++ {
		bytes += w.blockSize(r.Piece, b)
	}
	w.sim.Start(c.flow, max(0, float64(bytes)-c.carry))
	w.yieldLater(int(c.from))
}

func (w *world) blockSize(p, b int) unit.Bytes {
	_, n := w.Layout.Block(p, b)
	return n
}

// carried takes in what has come over a conn.
func (w *world) carried(k int32) {
	to := w.conns[k].to
	w.settle(k)
	w.goOn(&w.conns[k])
	c := &w.conns[k]
	// A peer that owes much is asked for no more. Near the end everybody may be, of what others owe.
	n := &w.nodes[to]
	if left := w.Layout.Count() - n.ex.Have().Count(); int(n.peers[c.rank].owes) <= w.few(c) || left <= 2*len(n.peers) {
		w.step(int(to))
	}
}

// few is how many blocks may be left in a queue when the receiver's State asks for more: less
// than comes in a quarter second, one at least.
func (w *world) few(c *conn) int {
	return max(1, int(math.Ceil(w.sim.Rate(c.flow)*inFlight/float64(piece.BlockSize)))-1)
}

// settle hands the blocks that have come over a conn to its receiver.
func (w *world) settle(k int32) {
	c := &w.conns[k]
	c.carry += w.sim.Moved(c.flow)
	for len(c.queue) > 0 {
		r := &c.queue[0]
		p, b := r.Piece, r.Lo
		size := float64(w.blockSize(p, b))
		if c.carry < size-0.5 { // half a byte is rounding
			return
		}
		c.carry = max(0, c.carry-size)
		c.queued--
		if r.Lo++; r.Lo == r.Hi {
			c.queue = c.queue[:copy(c.queue, c.queue[1:])]
		}
		w.block(int(c.to), int(c.rank), p, b)
		w.choked(k, 0)
		c = &w.conns[k]
	}
	c.carry = 0
}

// block notes that a block has come.
func (w *world) block(i, rank, p, b int) {
	n := &w.nodes[i]
	n.fromPeers += float64(w.blockSize(p, b))
	at := &n.peers[rank]
	w.crosses(int(at.node), i, float64(w.blockSize(p, b)))
	at.owes = max(0, at.owes-1)
	if n.ex.Have().Has(p) {
		n.ex.Discarded(rank, p, b, w.now)
		return
	}
	k := n.part(p, w.Layout.Blocks(p))
	t := &n.parts[k]
	if t.here>>b&1 == 1 {
		n.ex.Discarded(rank, p, b, w.now)
		return
	}
	t.here |= 1 << b
	t.left--
	whole := t.left == 0
	w.sendCancels(i, n.ex.Block(rank, p, b, w.now))
	if whole {
		n.drop(p)
		w.got(i, p)
	}
}

// part is the index of a piece among those partly here; it may be the first that is heard of it.
func (n *node) part(p, blocks int) int {
	for k := range n.parts {
		if n.parts[k].piece == int32(p) {
			return k
		}
	}
	n.parts = append(n.parts, part{piece: int32(p), left: int32(blocks)})
	return len(n.parts) - 1
}

func (n *node) drop(p int) {
	for k := range n.parts {
		if n.parts[k].piece == int32(p) {
			n.parts[k] = n.parts[len(n.parts)-1]
			n.parts = n.parts[:len(n.parts)-1]
			return
		}
	}
}

// cancelled takes out of a queue what a peer does not want any more. The block that is
// being sent is sent.
func (w *world) cancelled(i, rank int, r exchange.Request) {
	p := &w.nodes[i].peers[rank]
	k := w.nodes[p.node].peers[p.mine].in
	if k < 0 || w.conns[k].queued == 0 {
		return
	}
	w.settle(k)
	c := &w.conns[k]
	kept := make([]exchange.Request, 0, len(c.queue)+1)
	c.queued = 0
	keep := func(q exchange.Request) {
		if q.Lo < q.Hi {
			kept = append(kept, q)
			c.queued += q.Hi - q.Lo
		}
	}
	for at, q := range c.queue {
		if at == 0 && c.carry > 0 {
			keep(exchange.Request{Piece: q.Piece, Lo: q.Lo, Hi: q.Lo + 1})
			q.Lo++
		}
		if q.Piece != r.Piece || q.Hi <= r.Lo || r.Hi <= q.Lo {
			keep(q)
			continue
		}
		keep(exchange.Request{Piece: q.Piece, Lo: q.Lo, Hi: min(q.Hi, r.Lo)})
		keep(exchange.Request{Piece: q.Piece, Lo: max(q.Lo, r.Hi), Hi: q.Hi})
	}
	c.queue = kept
	w.goOn(c)
}

// choke empties a queue, but for the block that is being sent. The receiver is told behind that, if there is one: there is one connection for both.
func (w *world) choke(k int32) (behind bool) {
	w.settle(k)
	c := &w.conns[k]
	if c.chokes = len(c.queue) > 0 && c.carry > 0; c.chokes {
		c.queue = c.queue[:1]
		c.queue[0].Hi, c.queued = c.queue[0].Lo+1, 1
	} else {
		c.queue, c.queued, c.carry = c.queue[:0], 0, 0
	}
	w.goOn(c)
	return c.chokes
}

// choked tells a receiver what was to be told behind the block that has come, or comes no more.
func (w *world) choked(k int32, delay float64) {
	if c := &w.conns[k]; c.chokes {
		c.chokes = false
		w.after(delay, event{kind: evChoke, node: c.to, peer: c.rank})
	}
}

// cut ends what moves on a conn.
func (w *world) cut(k int32) {
	w.settle(k)
	c := &w.conns[k]
	c.queue, c.queued, c.carry = c.queue[:0], 0, 0
	w.choked(k, 0)
	w.goOn(c)
}
