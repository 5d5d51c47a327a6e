package scenario

import (
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// This file is where algorithms differ: who begins with what, over how many connections a node reads from the store, what it reads
// next, and how much it steals. What they set in the rules says steal.Policy.

// policy is what an algorithm sets in the rules.
type policy struct {
	steal.Policy
	alone       bool // every node for itself
	connections int  // to the store, of each node, at most
}

func (s *Scenario) policy(readers int) policy {
	p := policy{Policy: steal.PolicyOf(s.Algorithm, s.Layout, readers, s.PerWork), alone: s.Algorithm == steal.Flat, connections: 1}
	if p.Adapts {
		p.connections = steal.MostStreams
	}
	return p
}

// divide makes the steal.Nodes. Nodes that join later own nothing and read nothing.
func (w *world) divide() {
	var owners, late []int
	for i := range w.nodes {
		if w.nodes[i].late {
			late = append(late, i)
		} else {
			owners = append(owners, i)
		}
	}
	if w.policy.alone {
		for i := range w.nodes {
			w.nodes[i].works = steal.NewNode(0, 1, steal.Divide(w.Layout.Count(), []int{0}, w.policy.PerWork), false)
			w.nodes[i].turns, w.nodes[i].twice = &steal.Turns{}, &steal.Twice{}
		}
		return
	}
	d := steal.Divide(w.Layout.Count(), owners, w.policy.PerWork)
	for i := range w.nodes {
		w.nodes[i].twice = steal.NewTwice(w.Layout.Size, len(owners), 0)
		w.nodes[i].works = steal.NewNode(i, len(w.nodes), d, w.policy.Steals)
		w.nodes[i].turns = &steal.Turns{}
		if w.policy.Adapts {
			w.nodes[i].turns = steal.NewTurns(d, i, w.Layout)
		}
		for _, k := range late {
			w.nodes[i].works.Excuse(k)
		}
	}
}

// streams is over how many of its connections a node reads now.
func (w *world) streams(i int) int { return w.policy.Streams(w.nodes[i].appetite, w.nodes[i].turns) }

// take is what a node reads from the store next, with one request: works, and the pieces of
// them that are missing. There are no works if there is nothing to read, or not yet.
func (w *world) take(i int) (works []int, span piece.Range) {
	n := &w.nodes[i]
	if n.late && !w.policy.alone {
		return nil, span
	}
	if !n.turns.MayNext(n.works, n.ex.Held, n.ex.Had()) {
		n.waits = true
		return nil, span
	}
	most := w.policy.Request(n.appetite, n.turns, unit.Bytes(n.ex.Uncovered())*w.Layout.Piece, len(w.nodes))
	return n.works.Next(most, n.ex.Held)
}

// beg asks another node for works once a node's list is empty.
func (w *world) beg(i int) {
	n := &w.nodes[i]
	if w.policy.alone || n.late || n.ex.Covered() || !w.policy.MayAsk(n.busy(), n.resting()) {
		return
	}
	if victim, ok := n.works.Ask(n.ex.Held); ok {
		n.asked++
		w.after(answerWithin, event{kind: evGiveUp, node: int32(i), peer: n.asked})
		w.tell(i, victim, event{kind: evGiveWork, most: int32(w.policy.Theft(n.appetite)), pace: w.pace(i)})
	}
}

// give answers a thief.
func (w *world) give(i, thief, most int, pace steal.Pace) {
	works := w.nodes[i].works
	w.tell(i, thief, event{kind: evWorks, hands: works.Give(thief, steal.Loot(works.Left(), most, w.pace(i), pace))})
}
