package lab

import (
	"errors"
	"fmt"
	"math"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/freshet/freshet/unit"
)

// link is a link that stands. What of Link may be changed is as it is now.
type link struct {
	Link
	ends [2]end
	wire *wire // of a link with delay or loss, else nil
	cut  bool
}

// end is where a link meets a host or a switch: end 0 A, end 1 B.
type end struct {
	at     *namespace
	name   string // of the interface
	index  int
	port   bool   // of a switch
	bridge string // the one whose port it is, cut or not: the switch, or what a partition made of it
	before counts // what counters that ended had, less what those in use had when they began to count
}

// side is 0 for the link's A, and 1 for its B.
func (k *link) side(name string) int {
	if k.A == name {
		return 0
	}
	return 1
}

// newLink builds the i-th link of the spec.
func (l *Lab) newLink(i int, spec Link) (*link, error) {
	k := &link{Link: spec}
	names := [2]string{spec.A, spec.B}
	for s, name := range names {
		other := names[1-s]
		if h := l.hosts[name]; h != nil {
			k.ends[s] = end{at: h.namespace, name: other}
			continue
		}
		// Interfaces have names of 15 bytes at most. A point keeps them apart
		// from the switches'.
		port := fmt.Sprintf("%d%c.%s", i, 'a'+s, other)
		k.ends[s] = end{at: l.switches, name: port[:min(len(port), unix.IFNAMSIZ-1)], port: true, bridge: name}
	}
	if err := k.join(l.spec.Seed, i); err != nil {
		return k, err
	}
	for s := range k.ends {
		e := &k.ends[s]
		dev, err := e.at.nl.LinkByName(e.name)
		if err != nil {
			return k, fmt.Errorf("find interface %s: %w", e.name, err)
		}
		e.index = dev.Attrs().Index
		if !e.port {
			seg := l.plan.segment[names[1-s]]
			for j, h := range l.plan.members[seg] {
				if h == names[s] {
					err = e.at.nl.LinkSetHardwareAddr(dev, mac(seg, j))
				}
			}
			if err != nil {
				return k, fmt.Errorf("set hardware address of %s: %w", e.name, err)
			}
		}
		if err := k.place(s); err != nil {
			return k, err
		}
	}
	if err := k.shape(); err != nil {
		return k, err
	}
	for _, e := range k.ends {
		if err := e.at.nl.LinkSetUp(e.device()); err != nil {
			return k, fmt.Errorf("set %s up: %w", e.name, err)
		}
	}
	return k, nil
}

// join makes the two interfaces.
func (k *link) join(seed uint64, i int) error {
	if k.Delay > 0 || k.Loss > 0 {
		var err error
		if k.wire, err = newWire(k.ends, seed, i); err != nil {
			return err
		}
		k.wire.set(k.Delay, k.Loss)
		// The wire may have to wait for a processor; the device must not lose
		// what comes meanwhile.
		for _, e := range k.ends {
			dev, err := e.at.nl.LinkByName(e.name)
			if err == nil {
				err = e.at.nl.LinkSetTxQLen(dev, 16384)
			}
			if err != nil {
				return fmt.Errorf("lengthen the queue of %s: %w", e.name, err)
			}
		}
		return nil
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = k.ends[0].name
	veth := netlink.NewVeth(attrs)
	veth.PeerName = k.ends[1].name
	veth.PeerNamespace = netlink.NsFd(int(k.ends[1].at.net))
	if err := k.ends[0].at.nl.LinkAdd(veth); err != nil {
		return fmt.Errorf("add interfaces: %w", err)
	}
	return nil
}

// device is the interface as netlink wants it.
func (e *end) device() netlink.Link {
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: e.index, Name: e.name}}
}

// place makes an end the port that it should be now.
func (k *link) place(side int) error {
	e := k.ends[side]
	switch {
	case !e.port:
		return nil
	case k.cut:
		// A port of no bridge keeps its carrier and takes frames, and nobody
		// looks at them.
		if err := e.at.nl.LinkSetNoMaster(e.device()); err != nil {
			return fmt.Errorf("cut %s: %w", e.name, err)
		}
		return nil
	}
	bridge, err := e.at.nl.LinkByName(e.bridge)
	if err == nil {
		err = e.at.nl.LinkSetMaster(e.device(), bridge)
	}
	if err != nil {
		return fmt.Errorf("make %s a port of %s: %w", e.name, e.bridge, err)
	}
	return nil
}

// shape sets the rates and buffers of both directions. What is queued stays
// queued.
func (k *link) shape() error {
	for s, shape := range k.shapes() {
		e := &k.ends[s]
		if err := e.limit(shape); err != nil {
			return fmt.Errorf("limit %s: %w", e.name, err)
		}
		most := shape.packet()
		if k.Loss > 0 {
			most = frame // each is lost or not by itself
		}
		if err := e.packets(most); err != nil {
			return fmt.Errorf("limit packets of %s: %w", e.name, err)
		}
	}
	return nil
}

// limit sets what may leave by e.
func (e *end) limit(s shape) error {
	attrs := netlink.QdiscAttrs{LinkIndex: e.index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
	old, err := e.tbf()
	if err != nil {
		return err
	}
	if s.rate == 0 {
		if old == nil {
			return nil
		}
		return e.recount(func() error { return e.at.nl.QdiscDel(&netlink.Tbf{QdiscAttrs: attrs}) })
	}
	const tick = 64e-9 // seconds, the unit in which the kernel takes a burst
	tbf := &netlink.Tbf{
		QdiscAttrs: attrs,
		Rate:       uint64(math.Round(float64(s.rate))),
		Limit:      uint32(s.queue()),
		Buffer:     uint32(math.Ceil(float64(s.burst()) / float64(s.rate) / tick)),
	}
	if old != nil {
		return e.at.nl.QdiscChange(tbf)
	}
	return e.recount(func() error { return e.at.nl.QdiscAdd(tbf) })
}

// packets bounds the size of the packets that leave by e.
func (e *end) packets(most unit.Bytes) error {
	var err error
	onThread(func() {
		if err = e.at.enter(); err != nil {
			return
		}
		var tool *ethtool.Ethtool
		if tool, err = ethtool.NewEthtool(); err != nil {
			return
		}
		defer tool.Close()
		large := most > frame
		err = tool.Change(e.name, map[string]bool{
			"tx-tcp-segmentation":     large,
			"tx-generic-segmentation": large,
		})
	})
	if err != nil {
		return err
	}
	// By segments, too: ofHost's tcp_min_tso_segs goes beyond the size, and what
	// is too large the kernel hands on in single frames.
	return errors.Join(e.at.nl.LinkSetGSOMaxSize(e.device(), int(max(most, 4096))),
		e.at.nl.LinkSetGSOMaxSegs(e.device(), int(max(1, most/frame))))
}

// close ends what of a link is not ended with its namespaces.
func (k *link) close() error {
	if k.wire != nil {
		return k.wire.close()
	}
	return nil
}
