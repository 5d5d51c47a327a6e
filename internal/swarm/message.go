package swarm

import (
	"fmt"
	"slices"

	"github.com/freshet/freshet/exchange"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/steal"
)

// This file says to peers what is to be said, and hears what they say. What they say of pieces is taken up in words.go.

func (n *node) rechoke() {
	for _, c := range n.ex.Rechoke(n.now) {
		if !c.Choked {
			n.send(c.Peer, kindUnchoke, nil)
			continue
		}
		n.send(c.Peer, kindChoke, nil)
		if l := n.neighbours[c.Peer].link; l != nil {
			l.out.choke()
		}
	}
}

func (n *node) send(rank int, kind byte, payload []byte) {
	if l := n.neighbours[rank].link; l != nil {
		n.sendOn(l, kind, payload)
	}
}

func (n *node) sendOn(l *link, kind byte, payload []byte) {
	if !l.out.send(kind, payload) {
		n.deafen(l)
	}
}

// deafen notes that a peer leaves too much unread.
func (n *node) deafen(l *link) {
	if !slices.Contains(n.deaf, l.rank) {
		n.deaf = append(n.deaf, l.rank)
	}
}

func (n *node) tellAll(kind byte, payload []byte) {
	for rank := range n.neighbours {
		n.send(rank, kind, payload)
	}
}

func (n *node) tellClaims(claims []steal.Claim) {
	for _, c := range claims {
		for _, b := range tookFrames(c) {
			n.tellAll(kindTook, b)
		}
	}
}

func (n *node) sendCancels(cancel []exchange.Ask) {
	for _, a := range cancel {
		n.send(a.Peer, kindCancel, appendRequest(nil, a.Request))
	}
}

// sendDigests sends lines of the manifest in frames of legal length.
func (n *node) sendDigests(ds []digest, l *link) {
	const most = peer.MaxFrame / digestBytes
	for chunk := range slices.Chunk(ds, most) {
		n.sendOn(l, kindDigests, appendDigests(nil, chunk))
	}
}

// spread adds what we got since the last time to what all peers are to be told.
func (n *node) spread() {
	if len(n.news) == 0 && len(n.digests) == 0 {
		return
	}
	for rank := range n.neighbours {
		nb := &n.neighbours[rank]
		if nb.link == nil {
			continue
		}
		digests := n.digests
		if more := nb.lacks(n.hearsay); len(more) > 0 {
			digests = append(more, digests...)
		}
		if !nb.link.out.tell(n.news, digests, len(n.digests) > 0) {
			n.deafen(nb.link)
		}
	}
	n.news, n.digests, n.hearsay = n.news[:0], n.digests[:0], n.hearsay[:0]
	n.remind()
}

// remind has news go that nothing has taken along for long enough. What nobody else has does not wait: a digest
// has to come from who has read the piece.
func (n *node) remind() {
	for rank := range n.neighbours {
		l := n.neighbours[rank].link
		if l == nil {
			continue
		}
		patience, urgently := gatherApart, exchange.TickEvery
		switch {
		case n.ex.Have().Full():
			patience = exchange.TickEvery
		case n.ex.Fed(rank) || n.mate(rank):
			patience = gatherFor
		case n.foreign(rank):
			urgently = gatherAbroad
		}
		l.out.remind(n.now, patience, urgently)
	}
}

// message acts on a peer's message. An error means that the peer broke the protocol.
func (n *node) message(ev evMessage) error {
	rank, b := ev.link.rank, ev.payload
	nb := &n.neighbours[rank]
	switch ev.kind {
	case kindChoke, kindUnchoke, kindDone, kindGiveImports:
		if len(b) > 0 {
			return fmt.Errorf("message of kind %d with %d bytes, want none", ev.kind, len(b))
		}
	}
	switch ev.kind {
	case kindBitfield:
		set, err := parseBitfield(b, n.Layout.Count())
		if err != nil {
			return err
		}
		for r := range set.Ranges() {
			n.announced(rank, r)
		}
	case kindHave:
		rs, err := parseHave(b, n.Layout.Count())
		if err != nil {
			return err
		}
		for _, r := range rs {
			n.announced(rank, r)
		}
	case kindDigests:
		ds, err := parseDigests(b, n.Layout.Count(), len(n.Members))
		if err != nil {
			return err
		}
		for _, d := range ds {
			if err := n.learn(rank, d); err != nil {
				return err
			}
			if d.Reader == rank && d.Term == exchange.MaxTerm && nb.rereads(d.Piece, n.Layout.Count()) {
				nb.moved = n.now
				if n.Members[n.Self].NoAccess { // it is for such as we are
					n.moved = n.now
				}
			}
		}
	case kindRequest, kindCancel:
		r, err := parseRequest(b, n.Layout)
		if err != nil {
			return err
		}
		if ev.kind == kindCancel {
			ev.link.out.cancel(r)
		} else if n.ex.Serves(rank, r) && !ev.link.out.serve(r) {
			return fmt.Errorf("asks for more than %d blocks at once", maxQueued)
		}
	case kindChoke, kindUnchoke:
		n.ex.Choked(rank, ev.kind == kindChoke)
	case kindGiveWork:
		most, pace, err := parseGiveWork(b)
		if err != nil {
			return err
		}
		for hs := range inFrames(n.works.Give(rank, steal.Loot(n.works.Left(), most, n.pace(), pace))) {
			n.send(rank, kindWorks, appendWorks(nil, hs))
		}
	case kindWorks:
		hands, err := parseWorks(b)
		if err != nil {
			return err
		}
		tell, err := n.works.Receive(rank, hands, n.ex.Held)
		if err != nil {
			return err
		}
		if len(tell) == 0 { // nothing, or nothing new
			return nil
		}
		for _, h := range hands {
			n.Recorder.Record(n.now, Event{
				Kind: "work", From: n.Members[rank].Name,
				Lo: n.works.Work(h.Lo).Lo, Hi: n.works.Work(h.Hi - 1).Hi,
			})
		}
		n.tellClaims(tell)
	case kindTook:
		c, err := parseTook(b)
		if err != nil {
			return err
		}
		if n.hears(c.Node, rank) {
			return nil
		}
		if c.Node == n.Self {
			tell, err := n.works.Gave(rank, c.Hands)
			n.tellClaims(tell)
			return err
		}
		tell, err := n.works.Took(c)
		if err != nil {
			return err
		}
		if by := &n.neighbours[c.Node]; c.Node == rank && !by.took { // once for each time that it announces something; what others say is no sign of it
			by.took, by.gained = true, n.now
		}
		n.claims = append(n.claims, tell...)
	case kindGiveImports, kindImports, kindTookImports:
		return n.importMessage(ev)
	case kindBusy:
		pause, err := parseBusy(b)
		if err != nil {
			return err
		}
		n.busy(pause)
	case kindUnheard:
		ranks, err := parseUnheard(b, len(n.Members))
		if err != nil {
			return err
		}
		n.tellUnheard(ev.link, ranks)
	case kindDone:
		nb.done = true
	case kindLeave:
		if len(b) > maxLeave {
			return fmt.Errorf("leaves with %d bytes of reasons, at most %d are read", len(b), maxLeave)
		}
		if nb.done {
			n.dead(rank, nil)
		} else {
			n.dead(rank, fmt.Errorf("left the job: %s", peer.Printable(string(b), maxLeave)))
		}
	default:
		return fmt.Errorf("message of unknown kind %d", ev.kind)
	}
	return nil
}

// announced notes that a peer has pieces.
func (n *node) announced(rank int, r piece.Range) {
	if n.ex.Announced(rank, r) { // who only repeats itself makes no progress
		nb := &n.neighbours[rank]
		nb.moved, nb.gained = n.now, n.now
		nb.took, nb.imports = false, false
		n.stirs(n.rescuing && n.readsOwn(rank, r))
	}
}
