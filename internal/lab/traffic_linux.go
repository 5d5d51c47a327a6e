package lab

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/freshet/freshet/unit"
)

// Traffic is what one direction of a link has done since the lab was built.
// What a link that is cut takes, it counts as sent.
type Traffic struct {
	From, To string

	// Sent, in frames of Ethernet, as the rate counts them; of large packets
	// that came over a link with delay the kernel counts the bytes alone. A
	// direction without a rate counts as its interface does: each large packet
	// as one.
	Packets int64
	Bytes   unit.Bytes

	Queued  unit.Bytes // in the buffer now
	Dropped int64      // packets that found no room in the buffer; the kernel counts a large one as one, and no bytes

	// Of what was sent.
	Lost      int64 // packets that chance took
	LostBytes unit.Bytes
	Overrun   int64 // packets that this machine was too busy to carry on: the link would have
}

// Traffic tells what all links have carried and lost, in the order of the
// spec: of each first the direction from A to B, then the one back.
func (l *Lab) Traffic() ([]Traffic, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return nil, errors.New("lab: it is closed")
	}
	var all []Traffic
	for _, k := range l.links {
		for s := range k.ends {
			t, err := k.traffic(s)
			if err != nil {
				return nil, fmt.Errorf("lab: link %s–%s: count: %w", k.A, k.B, err)
			}
			all = append(all, t)
		}
	}
	return all, nil
}

// traffic is that of the direction that leaves by an end.
func (k *link) traffic(side int) (Traffic, error) {
	e := &k.ends[side]
	dev, err := e.at.nl.LinkByIndex(e.index)
	if err != nil {
		return Traffic{}, err
	}
	c, err := e.counts()
	if err != nil {
		return Traffic{}, err
	}
	t := Traffic{
		From: k.A, To: k.B,
		Packets: e.before.packets + c.packets, Bytes: e.before.bytes + c.bytes, Queued: c.queued,
		Dropped: e.before.dropped + c.dropped,
		Overrun: int64(dev.Attrs().Statistics.TxDropped),
	}
	if side == 1 {
		t.From, t.To = k.B, k.A
	}
	if k.wire != nil {
		v := k.wire.ways[side]
		t.Lost, t.LostBytes = v.lost.Load(), unit.Bytes(v.lostBytes.Load())
		t.Overrun += v.overrun.Load()
	}
	return t, nil
}

// counts are what the kernel has counted at an end.
type counts struct {
	packets, dropped int64
	bytes, queued    unit.Bytes
	waiting          int64 // packets queued
}

// counts reads those of the limit, or of the interface if there is none.
func (e *end) counts() (counts, error) {
	tbf, err := e.tbf()
	if err != nil {
		return counts{}, err
	}
	if tbf != nil {
		s := tbf.Attrs().Statistics
		return counts{
			packets: int64(s.Basic.Packets), bytes: unit.Bytes(s.Basic.Bytes),
			dropped: int64(s.Queue.Drops), queued: unit.Bytes(s.Queue.Backlog), waiting: int64(s.Queue.Qlen),
		}, nil
	}
	return e.handed()
}

// handed is what an end's interface has passed on, in packets as the kernel has them.
func (e *end) handed() (counts, error) {
	dev, err := e.at.nl.LinkByIndex(e.index)
	if err != nil {
		return counts{}, err
	}
	s := dev.Attrs().Statistics
	return counts{packets: int64(s.TxPackets), bytes: unit.Bytes(s.TxBytes)}, nil
}

// tbf is what limits an end; nil: nothing does.
func (e *end) tbf() (netlink.Qdisc, error) {
	all, err := e.at.nl.QdiscList(e.device())
	if err != nil {
		return nil, err
	}
	for _, q := range all {
		if q.Type() == "tbf" {
			return q, nil
		}
	}
	return nil, nil
}

// recount runs f, which makes or ends the limit of e, so that nothing is
// counted twice or forgotten: a new limit counts from zero, while the
// interface has counted all the time. What is queued when a limit ends is gone.
func (e *end) recount(f func() error) error {
	old, err := e.counts()
	if err == nil {
		err = f()
	}
	if err != nil {
		return err
	}
	now, err := e.counts()
	if err != nil {
		return err
	}
	e.before.packets += old.packets - now.packets
	e.before.bytes += old.bytes - now.bytes
	e.before.dropped += old.dropped + old.waiting - now.dropped
	return nil
}
