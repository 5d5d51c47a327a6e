package swarm

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"
)

// A store that asks one node to leave it alone for a while (503, 429) is asked by none of
// the job meanwhile: what one node hears it tells the others, and all read over half as many connections afterwards.

// patient is a store that knows for how long it is to be left alone. *retry.Store is one.
type patient interface {
	Quiet() time.Time     // before it no attempt begins
	Hold(until time.Time) // let none begin before it, either
}

// mostQuiet is how long one message can keep us from the store. While it does, and for as long again, no other does: the store is read
// in between, whatever the others say.
const mostQuiet = 30 * time.Second

// mostExcused is for how long pauses are an excuse for what does not move. Who says again and again that the store is to be left alone
// would else keep all from reading in the place of one that hangs. No store is waited for longer (objstore/retry).
const mostExcused = 2 * time.Minute

// comeBack is the part of a pause in which the others come back, one after the other.
const comeBack = 4

// backOff tells the others what our store has asked for since we last looked.
func (n *node) backOff() {
	store, ok := n.Store.(patient)
	if !ok {
		return
	}
	until := store.Quiet()
	if !until.After(n.quiet) || !until.After(n.now) {
		return
	}
	n.hush(until, until.Add(until.Sub(n.now)/comeBack))
	n.tellAll(kindBusy, appendBusy(nil, until.Sub(n.now)))
}

// hush notes a pause, and that it has begun. By the time of all every node is back.
func (n *node) hush(until, all time.Time) {
	if n.quiet.Before(n.now) {
		n.appetite.Refused(n.now)
	}
	n.quiet, n.quietAll = until, all
}

// busy heeds what another node's store has asked for. Not all come back at the same moment.
func (n *node) busy(pause time.Duration) {
	store, ok := n.Store.(patient)
	if !ok || n.now.Before(n.quiet) || n.now.Before(n.heeds) || pause <= 0 {
		return
	}
	pause = min(pause, mostQuiet)
	until := n.now.Add(pause + rand.N(pause/comeBack+1))
	n.hush(until, n.now.Add(pause+pause/comeBack))
	n.heeds = until.Add(pause)
	store.Hold(until)
}

// appendBusy: for how long the store asked the sender to leave it alone.
func appendBusy(b []byte, pause time.Duration) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(min(max(1, pause.Milliseconds()), 1<<31-1)))
}

func parseBusy(b []byte) (pause time.Duration, err error) {
	v, rest, err := numbers(b, 1)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes behind a pause", len(rest))
	}
	if err != nil {
		return 0, err
	}
	return time.Duration(v[0]) * time.Millisecond, nil
}
