package swarm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/freshet/freshet/internal/peer"
)

// proveWithin is how long a neighbour has to show its proof of access.
const proveWithin = 10 * time.Second

// forsakenFor: whoever in our site clings to a piece is passed over after 8 times as long as one takes us, and once more who imports in its place
// and does not know it (steal.Imports), so who may not read waits for longer than both.
const forsakenFor = 20

// outlasts: who may read the store gives it up two minutes after the last byte, or after it was last asked over another connection. Who may not hears of whole pieces
// only, and waits for so many times as long.
const outlasts = 3

// errUnproved is a neighbour that has shown no proof of access, or a wrong one.
var errUnproved = errors.New("has not proved that it may read")

// blind says whether a member gets at no byte of the object but by its peers.
func (m Member) blind() bool { return m.NoAccess && !m.Held }

// meet takes a new connection to the loop, once the member at its other end has
// proved that it may read the object. Until then nothing is said to it that tells of the object.
func (n *node) meet(ctx context.Context, rank int, conn *peer.Conn) {
	switch err := n.prove(ctx, rank, conn); {
	case err == nil:
		if !n.post(evUp{rank, conn}) {
			conn.Close()
		}
	case errors.Is(err, errUnproved):
		n.post(evUnproved{rank, err})
		conn.CloseWithReason(n.Members[n.Self].Name + " says of " + n.Members[rank].Name + ": " + err.Error())
	default: // the connection failed, or what we showed did not convince
		conn.Close()
		n.post(evUnmet{rank, err})
	}
}

// prove exchanges proofs of access.
func (n *node) prove(ctx context.Context, rank int, conn *peer.Conn) error {
	if n.Access == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, proveWithin)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	err := n.exchangeProofs(rank, conn)
	switch {
	case stop():
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded): // it may be slow: it is met again for as long as it may be away
		return fmt.Errorf("%v %s within %v", errUnproved, n.Source, proveWithin)
	}
	return ctx.Err()
}

// exchangeProofs shows our proof and hears the other end's, the dialing end's first.
func (n *node) exchangeProofs(rank int, conn *peer.Conn) error {
	show := func() error { return conn.WriteFrame(kindAccess, n.Access.Proof(n.Members[n.Self].Name)) }
	hear := func() error { return n.hearProof(rank, conn) }
	first, second := hear, show
	if rank > n.Self {
		first, second = show, hear
	}
	if err := first(); err != nil {
		return err
	}
	return second()
}

// hearProof reads the other end's proof, which has to be the first that it says.
func (n *node) hearProof(rank int, conn *peer.Conn) error {
	kind, size, err := conn.ReadFrame()
	if err != nil {
		return err
	}
	var b [64]byte
	if kind != kindAccess || size > len(b) {
		return fmt.Errorf("%w %s: said something else first (kind %d, %d bytes)", errUnproved, n.Source, kind, size)
	}
	if _, err := io.ReadFull(conn, b[:size]); err != nil {
		return err
	}
	proof, err := parseAccess(b[:size])
	if err != nil {
		return fmt.Errorf("%w %s: %w", errUnproved, n.Source, err)
	}
	if !n.Access.Convinced(n.Members[rank].Name, proof) {
		return fmt.Errorf("%w %s: what it shows is not what lies there", errUnproved, n.Source)
	}
	return nil
}

// evUnmet is a connection that ended before both ends were convinced.
type evUnmet struct {
	rank int
	err  error
}

// unmet notes that a member could not be met. It is called again, if it is up
// to us, for as long as one that cannot be reached.
func (n *node) unmet(ctx context.Context, ev evUnmet) {
	nb := &n.neighbours[ev.rank]
	if nb.dead || nb.link != nil {
		return
	}
	nb.why = ev.err
	if refused := new(peer.Refused); errors.As(ev.err, &refused) {
		n.dead(ev.rank, refused)
		return
	}
	nb.brief()
	if left := nb.deadline.Sub(n.now); ev.rank > n.Self && left > 0 {
		n.dial(ctx, ev.rank, nb.rest, left)
	}
}

// forsaken ends our part if we may not read the object ourselves and nobody is
// left who could give it to us, or say what of it is wrong.
func (n *node) forsaken() {
	full, patience := n.ex.Have().Full(), max(leaveAfter, forsakenFor*n.ex.ImportTook())
	if !n.ex.Covered() {
		patience = max(patience, outlasts*leaveAfter)
	}
	switch {
	case n.unproved && (n.now.Sub(n.moved) > leaveAfter || !slices.Contains(n.readers(), true)):
		n.fail(fmt.Errorf("what other nodes have given is not what the store has at %s, none of them has said what is, and this one may not read it itself: run the job again", n.Source))
	case full || !n.Members[n.Self].blind():
	case !slices.Contains(n.readers(), true) && !n.ex.Covered():
		n.fail(fmt.Errorf("no node is left that may read %s, and this one may not: give it access, or run the job again", n.Source))
	case n.since(n.moved, n.quietAll) > patience:
		n.fail(fmt.Errorf("nothing has come from other nodes for %v, and this one may not read %s itself", n.now.Sub(n.moved).Round(time.Second), n.Source))
	}
}
