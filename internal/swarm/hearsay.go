package swarm

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/freshet/freshet/steal"
)

// This file has each node hear of every digest without all repeating all of them to all. What a node has read from the
// store it says itself, to everybody that it is connected with. Only one that has no connection to
// a reader, be it lost or never made, hears what that one read from others:
//
//	a node that does not hear some member ── unheard ──> all
//	                                      <── digests ── of what that member read, now and as they get those pieces
//	                                      <── took ───── what it claimed
//
// What works a member claims it says itself, too, and one that hears it believes nobody else about that. What is the node's own it is told by who
// gave it, and believes that of nobody whom it has not asked.

// unheardAfter is how long a connection may be missing before others are asked to say what its other end
// has read: most come up, or back, sooner, and then say it themselves.
const unheardAfter = time.Second

// unheard tells all that we do not hear these members, in order, once: in a large swarm many are not there yet at the
// beginning, and a message for each would be as many as nobody reads.
func (n *node) unheard(ranks ...int) {
	var news []int
	for _, rank := range ranks {
		if nb := &n.neighbours[rank]; !nb.unheard && !nb.done { // who is done has said all before
			nb.unheard = true
			news = append(news, rank)
		}
	}
	if len(news) > 0 {
		n.tellAll(kindUnheard, appendNumbers(nil, news...))
	}
}

// sayUnheard tells it on a new connection.
func (n *node) sayUnheard(l *link) {
	var ranks []int
	for rank := range n.neighbours {
		if n.neighbours[rank].unheard && rank != l.rank {
			ranks = append(ranks, rank)
		}
	}
	if len(ranks) > 0 {
		n.sendOn(l, kindUnheard, appendNumbers(nil, ranks...))
	}
}

// inquire asks one member after the other what all others have read, where what is here is not what the store has, we may not read that, and nobody says what is wrong: a reader
// may have told us alone something else than the others. It is hearsay, which counts only if it makes the store's checksum. One at a time, as each tells of all pieces.
func (n *node) inquire() {
	if !n.unproved || n.now.Sub(n.inquired) < unheardAfter {
		return
	}
	for range n.Members {
		n.asks = (n.asks + 1) % len(n.Members)
		if n.neighbours[n.asks].link == nil {
			continue
		}
		var of []int
		for rank := range n.Members {
			if rank != n.Self && rank != n.asks {
				of = append(of, rank)
			}
		}
		if len(of) > 0 {
			n.send(n.asks, kindUnheard, appendNumbers(nil, of...))
			n.inquired = n.now
		}
		return
	}
}

// hears says whether what a peer says of a member is hearsay, of one that we hear ourselves.
func (n *node) hears(of, from int) bool {
	return of != from && of != n.Self && of < len(n.neighbours) && n.neighbours[of].link != nil
}

// tellUnheard notes that a peer does not hear these members, in order, and tells it at once what it did not know of them. It may have ignored
// that, as it heard them again by then. So who asks again is told again, at most once a second and all at once: a few bytes ask for much.
func (n *node) tellUnheard(l *link, ranks []int) {
	nb := &n.neighbours[l.rank]
	first := map[int]bool{}
	for _, rank := range ranks {
		switch {
		case rank == n.Self || rank == l.rank:
		case nb.misses[rank]:
			nb.again[rank] = true
		default:
			if nb.misses == nil {
				nb.misses, nb.again = map[int]bool{}, map[int]bool{}
			}
			nb.misses[rank], first[rank] = true, true
		}
	}
	if len(first) > 0 {
		n.repeat(l, first)
	}
}

// repeatAgain tells those who have asked again.
func (n *node) repeatAgain() {
	for rank := range n.neighbours {
		if nb := &n.neighbours[rank]; nb.link != nil && len(nb.again) > 0 && n.now.Sub(nb.repeated) >= unheardAfter {
			n.repeat(nb.link, nb.again)
			nb.repeated = n.now
			clear(nb.again)
		}
	}
}

// repeat tells a peer that does not hear these members what they claim, and what they read, as far as we know. O(works + pieces).
func (n *node) repeat(l *link, members map[int]bool) {
	of := func(rank int) bool { return members[rank] }
	n.sayClaimed(l, of)
	n.sayRead(l, of)
}

// sayClaimed tells a peer whose works are whose, of the claimants that by picks, and, if it is of our site, who of them imports what. O(works).
func (n *node) sayClaimed(l *link, by func(claimant int) bool) {
	for _, c := range n.works.Claims() {
		if by(c.Node) {
			n.sendClaim(l, kindTook, c)
		}
	}
	if !n.mate(l.rank) {
		return
	}
	for _, c := range n.imports.Claims() {
		if by(c.Node) {
			n.sendClaim(l, kindTookImports, c)
		}
	}
}

// sayRead tells a peer the digests that we know of what was read by those that by picks. O(pieces).
func (n *node) sayRead(l *link, by func(reader int) bool) {
	var known []digest
	for p := range n.Layout.Count() {
		if e, ok := n.man.Entry(p); ok && by(e.Reader) {
			known = append(known, digest{p, e})
		}
	}
	n.sendDigests(known, l)
}

// passOn says together what was heard of the claims of the dead since the last time: each message of one that goes on claiming for them would else be a message of
// everybody to everybody.
func (n *node) passOn() {
	n.tellClaims(merged(n.claims))
	if len(n.importClaims) > 0 {
		n.tellImports(merged(n.importClaims))
	}
	n.claims, n.importClaims = nil, nil
}

// merged puts what the same node claims into one claim, each work once, in the highest of its terms: with all that it claimed one after the other we would name more works
// than there are, and be given up for it.
func merged(claims []steal.Claim) (all []steal.Claim) {
	terms := map[int]map[int]uint32{} // by rank, by work
	for _, c := range claims {
		if terms[c.Node] == nil {
			terms[c.Node] = map[int]uint32{}
		}
		for _, h := range c.Hands {
			for w := h.Lo; w < h.Hi; w++ {
				terms[c.Node][w] = max(terms[c.Node][w], h.Term)
			}
		}
	}
	for _, node := range slices.Sorted(maps.Keys(terms)) {
		c := steal.Claim{Node: node}
		for _, w := range slices.Sorted(maps.Keys(terms[node])) {
			term := terms[node][w]
			if k := len(c.Hands) - 1; k >= 0 && c.Hands[k].Hi == w && c.Hands[k].Term == term {
				c.Hands[k].Hi++
			} else {
				c.Hands = append(c.Hands, steal.Hand{Lo: w, Hi: w + 1, Term: term})
			}
		}
		all = append(all, c)
	}
	return all
}

// sendClaim says whose some works are.
func (n *node) sendClaim(l *link, kind byte, c steal.Claim) {
	for _, b := range tookFrames(c) {
		n.sendOn(l, kind, b)
	}
}

// lacks are the digests that a peer does not hear from their readers.
func (nb *neighbour) lacks(hearsay []digest) (ds []digest) {
	if nb.misses == nil {
		return nil
	}
	for _, d := range hearsay {
		if nb.misses[d.Reader] {
			ds = append(ds, d)
		}
	}
	return ds
}

// parseUnheard reads the ranks of members that the sender does not hear.
func parseUnheard(b []byte, nodes int) (ranks []int, err error) {
	if len(b)%4 != 0 || len(b) == 0 {
		return nil, errShort
	}
	if ranks, _, err = numbers(b, len(b)/4); err != nil {
		return nil, err
	}
	for i, rank := range ranks {
		if rank >= nodes || i > 0 && rank <= ranks[i-1] {
			return nil, fmt.Errorf("does not hear nodes %v of %d", ranks[:min(len(ranks), 8)], nodes)
		}
	}
	return ranks, nil
}
