package swarm

import (
	"fmt"
	"time"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/steal"
)

// This file carries out what steal.Imports says: which of a site's nodes asks other sites for which piece.
//
//	a node that could ask for more ── giveImports ──> the one that has most left to ask for
//	                               <── imports ──────
//	                               ── tookImports ──> all of the site

// numberSites are the sites of members, as exchange.NumberSites has them.
func numberSites(members []Member) (sites []int, names []string) {
	of := make([]string, len(members))
	for rank, m := range members {
		of[rank] = m.Site
	}
	return exchange.NumberSites(of)
}

// mates are the ranks of those in self's site, itself included; nil if it is not in one of several.
func mates(sites []int, self int) (ranks []int) {
	for rank, k := range sites {
		if k == sites[self] && k >= 0 {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// foreign says whether what comes from another member comes into our site with it.
func (n *node) foreign(rank int) bool {
	site := n.Members[n.Self].Site
	return site != "" && n.Members[rank].Site != site
}

// mate says whether another member shares what crosses with us.
func (n *node) mate(rank int) bool {
	return n.imports != nil && rank != n.Self && n.Members[rank].Site == n.Members[n.Self].Site
}

// stealImports asks another node of our site for pieces to import, if we could ask other sites for more, or takes one
// from a node that hardly gets on with it.
func (n *node) stealImports() {
	if n.imports == nil || n.Members[n.Self].Held || n.commits || n.done {
		return
	}
	if n.imports.PassOver(n.now, n.ex.ImportTakes(), n.ex.Possesses) {
		n.ex.Importing(n.imports.Mine())
	}
	if !n.ex.Hungry() {
		return
	}
	if victim, ok := n.imports.Ask(n.now, n.ex.Importable); ok {
		n.send(victim, kindGiveImports, nil)
		return
	}
	waited := func(rank int) time.Duration { return n.now.Sub(n.neighbours[rank].gained) }
	victim, tell := n.imports.Overtake(n.now, n.ex.ImportTook(), n.ex.Importable, waited)
	for _, c := range tell {
		n.Log.Info("importing in the place of a node that hardly gets on", "job", n.Job, "node", n.Members[victim].Name,
			"for", waited(victim), "first", c.Hands[0].Lo, "runs", len(c.Hands))
	}
	n.tellImports(tell)
}

// tellImports tells our site who imports what, after anything in the pool has changed.
func (n *node) tellImports(claims []steal.Claim) {
	for _, c := range claims {
		for _, b := range tookFrames(c) {
			for rank := range n.neighbours {
				if n.mate(rank) {
					n.send(rank, kindTookImports, b)
				}
			}
		}
	}
	n.ex.Importing(n.imports.Mine())
}

// importMessage acts on what a peer says about who imports what.
func (n *node) importMessage(ev evMessage) error {
	rank := ev.link.rank
	if !n.mate(rank) {
		return fmt.Errorf("message of kind %d about pieces to import, from another site", ev.kind)
	}
	switch ev.kind {
	case kindGiveImports:
		n.send(rank, kindImports, appendWorks(nil, n.imports.Give(rank, n.ex.Importable)))
		n.tellImports(nil)
	case kindImports:
		hands, err := parseWorks(ev.payload)
		if err != nil {
			return err
		}
		tell, err := n.imports.Receive(rank, hands, n.now, n.ex.Importable)
		if err != nil {
			return err
		}
		n.tellImports(tell)
	case kindTookImports:
		c, err := parseTook(ev.payload)
		if err != nil {
			return err
		}
		if n.hears(c.Node, rank) {
			return nil
		}
		if c.Node == n.Self {
			tell, err := n.imports.Gave(rank, c.Hands)
			n.tellImports(tell)
			return err
		}
		tell, err := n.imports.Took(c)
		if err != nil {
			return err
		}
		if by := &n.neighbours[c.Node]; c.Node == rank && !by.imports {
			by.imports, by.gained = true, n.now
		}
		n.importClaims = append(n.importClaims, tell...)
		n.tellImports(nil)
	}
	return nil
}
