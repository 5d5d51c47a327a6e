package lab

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/freshet/freshet/unit"
)

// change finds the link between a and b, lets f change a copy of its spec, and
// makes the link as f left it. turned says that the link's A is b.
func (l *Lab) change(a, b string, f func(k *link, turned bool) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := l.plan.linkOf[[2]string{a, b}]
	if !ok {
		return fmt.Errorf("lab: there is no link between %q and %q", a, b)
	}
	if l.gone {
		return errors.New("lab: it is closed")
	}
	k := l.links[i]
	if err := f(k, k.A == b); err != nil {
		return fmt.Errorf("lab: link %s–%s: %w", a, b, err)
	}
	return nil
}

// SetRate changes a link's rates while it is used. Rate is that from a to b;
// zeroes mean what they mean in Link. A buffer whose size was not given is
// fitted to the new rate. What is queued stays queued, unless a limit ends.
func (l *Lab) SetRate(a, b string, rate, back unit.Bandwidth) error {
	return l.change(a, b, func(k *link, turned bool) error {
		if back == 0 {
			back = rate
		}
		next := k.Link
		if next.Rate, next.Back = rate, back; turned {
			next.Rate, next.Back = back, rate
		}
		if err := next.check(); err != nil {
			return err
		}
		k.Link = next
		return k.shape()
	})
}

// SetDelay changes a link's delay, of what enters it from now on. The link
// must have been built with a delay or a loss, however small.
func (l *Lab) SetDelay(a, b string, d time.Duration) error {
	return l.change(a, b, func(k *link, _ bool) error {
		next := k.Link
		next.Delay = d
		return k.rewire(next)
	})
}

// SetLoss changes the probability with which a link loses a packet. The link
// must have been built with a delay or a loss, however small.
func (l *Lab) SetLoss(a, b string, p float64) error {
	return l.change(a, b, func(k *link, _ bool) error {
		next := k.Link
		next.Loss = p
		return k.rewire(next)
	})
}

func (k *link) rewire(next Link) error {
	if k.wire == nil {
		return errors.New("it was built without delay and loss, so the kernel carries it; give it one of them in the spec (1ns will do) to change them later")
	}
	if err := next.check(); err != nil {
		return err
	}
	single := (next.Loss > 0) != (k.Loss > 0)
	k.Link = next
	k.wire.set(next.Delay, next.Loss)
	if single {
		return k.shape() // large packets may travel, or may not any more
	}
	return nil
}

// Cut makes a link lose everything, in both directions. Nothing tells either
// end.
func (l *Lab) Cut(a, b string) error { return l.setCut(a, b, true) }

// Mend ends what Cut began.
func (l *Lab) Mend(a, b string) error { return l.setCut(a, b, false) }

func (l *Lab) setCut(a, b string, cut bool) error {
	return l.change(a, b, func(k *link, _ bool) error {
		k.cut = cut
		return errors.Join(k.place(0), k.place(1))
	})
}

// Partition separates the named hosts and switches from all others. Those on
// one side that share a switch still reach each other: the switch is split in
// two. Over a link between switches they do if both switches are on their
// side, that is, named or not named as they are. A second partition splits
// what the first left together.
func (l *Lab) Partition(side ...string) error {
	for _, n := range side {
		if l.hosts[n] == nil && !slices.Contains(l.spec.Switches, n) {
			return fmt.Errorf("lab: there is no host or switch %q", n)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return errors.New("lab: it is closed")
	}
	split := make(map[string]string) // a bridge → that of those who leave it
	for _, k := range l.links {
		inA, inB := slices.Contains(side, k.A), slices.Contains(side, k.B)
		if inA == inB {
			continue
		}
		// The port of a switch moves, to the part of the switch that is on the
		// side of the link's other end.
		s := 0
		if !k.ends[0].port || inA && k.ends[1].port {
			s = 1
		}
		e := &k.ends[s]
		part, ok := split[e.bridge]
		if !ok {
			l.parts++
			part = fmt.Sprintf("~%d", l.parts) // no switch has such a name
			if err := l.addBridge(part); err != nil {
				return err
			}
			split[e.bridge] = part
		}
		e.bridge = part
		if err := k.place(s); err != nil {
			return fmt.Errorf("lab: link %s–%s: %w", k.A, k.B, err)
		}
	}
	return nil
}

// Heal ends all partitions. Links that were cut stay so.
func (l *Lab) Heal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return errors.New("lab: it is closed")
	}
	var errs []error
	for _, k := range l.links {
		for s, home := range [2]string{k.A, k.B} {
			if e := &k.ends[s]; e.port && e.bridge != home {
				e.bridge = home
				errs = append(errs, k.place(s))
			}
		}
	}
	for ; l.parts > 0; l.parts-- {
		bridge, err := l.switches.nl.LinkByName(fmt.Sprintf("~%d", l.parts))
		if err == nil {
			err = l.switches.nl.LinkDel(bridge)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("lab: heal: %w", err)
	}
	return nil
}
