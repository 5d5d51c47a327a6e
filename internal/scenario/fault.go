package scenario

import "slices"

// This file does what a scenario's events say, and what follows for the others, as
// internal/swarm would (mesh.go: down, dead).

// Nothing but slow comes before a node has joined (Scenario.events).
func (w *world) do(e Event) {
	i := int(w.hostOf[e.Host])
	n := &w.nodes[i]
	if n.killed || n.dead {
		return
	}
	switch e.Do {
	case Die:
		w.halt(i)
		n.killed = true
		w.out(n)
		w.losing(i)
		w.after(reconnectFor, event{kind: evDead, node: int32(i)})
	case Stop:
		if n.stopped {
			return
		}
		w.halt(i)
		n.stopped = true
		n.stops++
		w.after(silentFor, event{kind: evSilent, node: int32(i), peer: n.stops})
	case Resume:
		if n.stopped {
			w.resume(i)
		}
	case Join:
		if n.absent {
			n.absent = false
			w.begin(i)
		}
	case Slow:
		for _, c := range w.router.Out(e.Host) {
			w.sim.SetCapacity(w.links[c], float64(e.Rate))
			w.sim.SetCapacity(w.links[c^1], float64(e.Rate))
		}
	}
}

// out notes that a node will not have the object, if it has it not.
func (w *world) out(n *node) {
	if n.done < 0 {
		w.open--
	}
}

// halt ends all that moves to and from a node. Queues and what has come of a block stay.
func (w *world) halt(i int) {
	n := &w.nodes[i]
	w.each(i, func(k int32) {
		w.settle(k)
		w.sim.Stop(w.conns[k].flow)
	})
	for k := range n.fetches {
		w.interrupt(i, k)
	}
}

// each calls f for all conns from and to a node.
func (w *world) each(i int, f func(k int32)) {
	for _, p := range w.nodes[i].peers {
		if p.in >= 0 {
			f(p.in)
		}
		if k := w.nodes[p.node].peers[p.mine].in; k >= 0 {
			f(k)
		}
	}
}

// losing is the end of all connections of a node, as the others see it.
func (w *world) losing(i int) {
	n := &w.nodes[i]
	if n.lost {
		return
	}
	n.lost = true
	w.each(i, w.cut)
	for rank := range n.peers {
		p := &n.peers[rank]
		o := &w.nodes[p.node]
		n.ex.Down(rank)
		o.ex.Down(int(p.mine))
		p.mute, p.owes = true, 0
		o.peers[p.mine].mute, o.peers[p.mine].owes = true, 0
	}
	for rank := range n.peers {
		p := &n.peers[rank]
		o := &w.nodes[p.node]
		if !o.killed && !o.dead && !o.stopped && !o.absent {
			w.step(int(p.node))
			w.slots(int(p.node))
		}
	}
	w.unanswered(i)
	for k := range w.nodes {
		w.nodes[k].works.Unanswered(i)
		if o := &w.nodes[k]; !o.killed && !o.dead && !o.stopped && !o.absent && k != i {
			w.fetch(k)
		}
		if w.policy.alone {
			break
		}
	}
}

// silent gives up the connections of a node that has been stopped for long.
func (w *world) silent(i int, stop int32) {
	n := &w.nodes[i]
	if n.killed || !n.stopped || n.stops != stop {
		return
	}
	w.losing(i)
	w.after(reconnectFor, event{kind: evDead, node: int32(i)})
}

// resume lets a stopped node go on. What came for it meanwhile comes now.
func (w *world) resume(i int) {
	n := &w.nodes[i]
	n.stopped = false
	inbox := n.inbox
	n.inbox = nil
	if n.lost { // what was sent over the old connections is not answered on new ones
		n.lost = false
		for rank := range n.peers {
			if o := &w.nodes[n.peers[rank].node]; !o.absent && !o.lost && !o.dead && !o.killed {
				w.link(i, rank)
			}
		}
		n.works.GiveUp()
		w.catchUp(i)
		inbox = slices.DeleteFunc(inbox, func(e event) bool { return !e.kind.own() })
	}
	w.each(i, func(k int32) {
		w.goOn(&w.conns[k])
	})
	for k := range n.fetches {
		if f := &n.fetches[k]; f.busy && !f.waits && !f.rests {
			w.readOn(i, k)
		}
	}
	for _, e := range inbox {
		w.handle(e)
	}
	w.opening(i)
	w.fetch(i)
	w.step(i)
}

// dead gives a node up for good.
func (w *world) dead(i int) {
	n := &w.nodes[i]
	if n.dead || !n.killed && (!n.stopped || !n.lost) {
		return
	}
	n.dead = true
	if !n.killed { // it is stopped, and nobody waits for it any more
		n.killed = true
		w.out(n)
	}
	for r := range n.ex.Have().Ranges() {
		for p := r.Lo; p < r.Hi; p++ {
			w.holders[w.group(i)][p]--
		}
	}
	if w.policy.alone {
		return
	}
	for _, p := range n.peers {
		w.nodes[p.node].ex.Gone(int(p.mine))
	}
	w.deadAt(i)
	if w.hops > 0 {
		g := w.group(i)
		for p, known := range w.known[g] {
			if !known || w.holders[g][p] > 0 {
				continue
			}
			w.known[g][p] = false
			for k := range w.nodes {
				if o := &w.nodes[k]; !o.absent {
					o.ex.Withdrawn(o.elsewhere(g), p)
				}
			}
		}
	}
	told := false
	for k := range w.nodes {
		o := &w.nodes[k]
		if k == i || o.killed || o.absent {
			continue
		}
		claims := o.works.Dead(i, o.ex.Held)
		if w.hops == 0 || !told { // a rumour reaches all; who has it first does not matter
			w.claim(k, claims)
			told = told || len(claims) > 0
		}
	}
	for k := range w.nodes {
		if o := &w.nodes[k]; k != i && !o.killed && !o.absent && !o.stopped {
			w.fetch(k)
			w.step(k)
		}
	}
}
