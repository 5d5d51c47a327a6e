package scenario

import (
	"fmt"
	"math"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
)

// This file is what tells one algorithm from another: who begins with what, whether there is a
// barrier, over how many connections a node reads from the store, what it reads next, and how much it
// steals. All else is the same for all. A new algorithm has a name, a policy, and a branch where
// it chooses otherwise.

// Algorithms are those of package steal that can be simulated.
var Algorithms = []string{steal.Flat, steal.NonSteal, steal.Steal}

// Default is the algorithm where a scenario does not say.
const Default = steal.Steal

// policy is what an algorithm sets in the rules, as in internal/swarm.
type policy struct {
	alone       bool // every node for itself
	steals      bool
	barrier     bool
	perWork     int // pieces
	connections int // to the store, of each node, at most
}

func (s *Scenario) policy(readers int) policy {
	p := policy{perWork: s.Layout.Count(), barrier: true, connections: 1}
	switch s.Algorithm {
	case steal.Flat:
		p.alone, p.barrier = true, false
	case steal.NonSteal:
	case steal.Steal:
		p.steals, p.perWork = true, s.PerWork
		if p.perWork == 0 {
			p.perWork = steal.DefaultPerWork(s.Layout, readers)
		}
	default:
		panic(fmt.Sprintf("scenario: algorithm %q", s.Algorithm))
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
			w.nodes[i].works = steal.NewNode(0, 1, steal.Divide(w.Layout.Count(), []int{0}, w.policy.perWork), false)
		}
		return
	}
	d := steal.Divide(w.Layout.Count(), owners, w.policy.perWork)
	for i := range w.nodes {
		w.nodes[i].works = steal.NewNode(i, len(w.nodes), d, w.policy.steals)
		for _, k := range late {
			w.nodes[i].works.Excuse(k)
		}
	}
}

// streams is over how many of its connections a node reads now.
func (w *world) streams(int) int { return w.policy.connections }

// next is what a node reads from the store next, with one request: works, and the pieces of
// them that are missing. There are no works if there is nothing to read.
func (w *world) next(i int) (works []int, span piece.Range) {
	n := &w.nodes[i]
	if n.late && !w.policy.alone {
		return nil, span
	}
	return n.works.Next(1, n.ex.Held)
}

// idle is what a node does when there is nothing for it to read: it asks another for works.
func (w *world) idle(i int) {
	n := &w.nodes[i]
	if w.policy.alone || n.late || n.ex.Covered() {
		return
	}
	if victim, ok := n.works.Ask(n.ex.Held); ok {
		n.asked++
		w.after(answerWithin, event{kind: evGiveUp, node: int32(i), peer: n.asked})
		w.tell(i, victim, event{kind: evGiveWork})
	}
}

// give answers a thief.
func (w *world) give(i, thief int) {
	w.tell(i, thief, event{kind: evWorks, hands: w.nodes[i].works.Give(thief, math.MaxInt32)})
}
