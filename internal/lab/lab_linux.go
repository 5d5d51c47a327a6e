package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Lab is a network that stands. Its methods may be called at once.
type Lab struct {
	name     string // what its namespaces' names begin with
	spec     Spec
	plan     plan
	hosts    map[string]*host
	switches *namespace
	spawn    *spawner
	closed   sync.Once
	closeErr error

	mu    sync.Mutex // guards what follows
	links []*link    // as in the spec
	parts int        // bridges that partitions have made
	gone  bool       // closed
}

// host is a namespace with addresses.
type host struct {
	*namespace
	addrs []netip.Addr // in the order of its segments
}

// labs numbers the labs of this process.
var labs atomic.Int64

// New builds s for a test, and closes it when the test is through. It skips
// the test where labs cannot be built, which is without root's rights or
// without /dev/net/tun; where CI is true it fails then, so that nothing is
// left out unseen.
func New(t testing.TB, s Spec) *Lab {
	t.Helper()
	if why := missing(); why != "" {
		if os.Getenv("CI") == "true" {
			t.Fatalf("lab: %s", why)
		}
		t.Skipf("lab: %s", why)
	}
	l, err := Up(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// missing says what this process lacks to build labs.
func missing() string {
	if os.Geteuid() != 0 {
		return "namespaces need root"
	}
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return err.Error()
	}
	f.Close()
	return ""
}

// Up builds s, after it has removed what owners left that are dead.
func Up(s Spec) (*Lab, error) {
	p, err := s.plan()
	if err != nil {
		return nil, err
	}
	if why := missing(); why != "" {
		return nil, fmt.Errorf("lab: %s", why)
	}
	free, err := building()
	if err != nil {
		return nil, err
	}
	defer free()
	if _, err := sweep(); err != nil {
		return nil, err
	}
	if s.Seed == 0 {
		s.Seed = 1
	}
	l := &Lab{
		name:  fmt.Sprintf("%s%d.%d", prefix, os.Getpid(), labs.Add(1)),
		spec:  s,
		plan:  p,
		hosts: make(map[string]*host),
		spawn: newSpawner(),
	}
	if err := permitted(l.build); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Lab) build() error {
	var err error
	if l.switches, err = newNamespace(l.name, "switches", func() error { return sysctls(quiet) }); err != nil {
		return err
	}
	for _, sw := range l.spec.Switches {
		if err := l.addBridge(sw); err != nil {
			return err
		}
	}
	for _, h := range l.spec.Hosts {
		ns, err := newNamespace(l.name+"-"+h, h, func() error {
			return errors.Join(sysctls(quiet), sysctls(ofHost))
		})
		if err != nil {
			return err
		}
		l.hosts[h] = &host{namespace: ns}
		lo, err := ns.nl.LinkByName("lo")
		if err == nil {
			err = ns.nl.LinkSetUp(lo)
		}
		if err != nil {
			return fmt.Errorf("lab: host %s: lo up: %w", h, err)
		}
	}
	for i, spec := range l.spec.Links {
		k, err := l.newLink(i, spec)
		l.links = append(l.links, k) // also a half-made one, for Close
		if err != nil {
			return fmt.Errorf("lab: link %s–%s: %w", spec.A, spec.B, err)
		}
	}
	if err := l.address(); err != nil {
		return err
	}
	return l.settle()
}

// settle waits until all interfaces work: the kernel takes its time to see
// that the other end of a cable is up, and till then a switch passes nothing
// on.
func (l *Lab) settle() error {
	const patience = 20 * time.Second
	deadline := time.Now().Add(patience)
	for _, k := range l.links {
		for _, e := range k.ends {
			for {
				dev, err := e.at.nl.LinkByIndex(e.index)
				if err != nil {
					return fmt.Errorf("lab: link %s–%s: %w", k.A, k.B, err)
				}
				if s := dev.Attrs().OperState; s == netlink.OperUp || s == netlink.OperUnknown { // as TAP devices are
					break
				}
				if time.Now().After(deadline) {
					return fmt.Errorf("lab: link %s–%s: %s is %v after %v", k.A, k.B, e.name, dev.Attrs().OperState, patience)
				}
				time.Sleep(time.Millisecond)
			}
		}
	}
	return nil
}

// addBridge makes a switch. It learns where hosts are, and does nothing else.
func (l *Lab) addBridge(name string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	snoop := false
	bridge := &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snoop}
	err := l.switches.nl.LinkAdd(bridge)
	if err == nil {
		err = l.switches.nl.LinkSetUp(bridge)
	}
	if err != nil {
		return fmt.Errorf("lab: switch %s: %w", name, err)
	}
	return nil
}

// mac is the hardware address of the i-th member of a segment, from the range
// for those that give them out locally.
func mac(segment, i int) net.HardwareAddr {
	i++
	return net.HardwareAddr{0x02, 0xf1, 0, byte(segment), byte(i >> 8), byte(i)}
}

// address gives each host its addresses, and tells it those of the others in
// its segments: a question for an address that was lost in a full buffer would
// stop a connection for a second.
func (l *Lab) address() error {
	for seg, members := range l.plan.members {
		for i, h := range members {
			k := l.linkInto(h, seg)
			end := k.ends[k.side(h)]
			nl := l.hosts[h].nl
			dev := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: end.index}}
			a := addr(seg, i)
			l.hosts[h].addrs = append(l.hosts[h].addrs, a)
			err := nl.AddrAdd(dev, &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(16, 32)}})
			if err != nil {
				return fmt.Errorf("lab: host %s: address %v: %w", h, a, err)
			}
			for j := range members {
				if j == i {
					continue
				}
				err := nl.NeighSet(&netlink.Neigh{
					LinkIndex: end.index, State: netlink.NUD_PERMANENT, Family: unix.AF_INET,
					IP: addr(seg, j).AsSlice(), HardwareAddr: mac(seg, j),
				})
				if err != nil {
					return fmt.Errorf("lab: host %s: neighbour %v: %w", h, addr(seg, j), err)
				}
			}
		}
	}
	return nil
}

// linkInto is the link that joins a host to a segment.
func (l *Lab) linkInto(h string, seg int) *link {
	for _, k := range l.links {
		if k.A == h && l.plan.segment[k.B] == seg || k.B == h && l.plan.segment[k.A] == seg {
			return k
		}
	}
	panic("lab: " + h + " is a member of a segment that it has no link to")
}

// Name is what the names of the lab's namespaces begin with: host h is the
// namespace Name-h of `ip netns`.
func (l *Lab) Name() string { return l.name }

// Spec is what the lab was built from, its seed filled in.
func (l *Lab) Spec() Spec { return l.spec }

// Addr is a host's first address, in the order of the spec's switches. It
// panics if there is no such host.
func (l *Lab) Addr(host string) netip.Addr { return l.Addrs(host)[0] }

// Addrs are a host's addresses, one in each of its segments.
func (l *Lab) Addrs(host string) []netip.Addr {
	h := l.hosts[host]
	if h == nil {
		panic(fmt.Sprintf("lab: there is no host %q", host))
	}
	return slices.Clone(h.addrs)
}

func (l *Lab) host(name string) (*host, error) {
	if h := l.hosts[name]; h != nil {
		return h, nil
	}
	return nil, fmt.Errorf("lab: there is no host %q", name)
}

// Do runs f on a thread that is in the host: the sockets that f itself makes
// are the host's, and stay so. Goroutines that f starts are not in the host.
func (l *Lab) Do(host string, f func() error) error {
	h, err := l.host(host)
	if err != nil {
		return err
	}
	onThread(func() {
		if err = h.enter(); err == nil {
			err = f()
		}
	})
	return err
}

// Listen listens for TCP connections in a host. The address is one of the
// host's, or a host's name in its place, and a port: "n0:80", "10.64.0.1:0",
// ":443".
func (l *Lab) Listen(host, addr string) (net.Listener, error) {
	addr, err := l.resolve(addr)
	if err != nil {
		return nil, err
	}
	var ln net.Listener
	err = l.Do(host, func() (err error) {
		ln, err = net.Listen("tcp4", addr)
		return err
	})
	return ln, err
}

// Dial makes a TCP connection from a host. The address is as for Listen.
func (l *Lab) Dial(ctx context.Context, host, addr string) (net.Conn, error) {
	addr, err := l.resolve(addr)
	if err != nil {
		return nil, err
	}
	var conn net.Conn
	err = l.Do(host, func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp4", addr)
		return err
	})
	return conn, err
}

// resolve turns a host's name into its address. Other names are refused: the
// answer to a question for them would not come from the lab.
func (l *Lab) resolve(addr string) (string, error) {
	name, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("lab: %w", err)
	}
	if _, err := netip.ParseAddr(name); err == nil || name == "" {
		return addr, nil
	}
	h, err := l.host(name)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(h.addrs[0].String(), port), nil
}

// Close ends all processes that are in the lab, and removes all of it.
// Sockets that Do, Listen and Dial made are the caller's to close.
func (l *Lab) Close() error {
	l.closed.Do(func() {
		var errs []error
		all := []*namespace{}
		for _, h := range l.hosts {
			all = append(all, h.namespace)
		}
		if l.switches != nil {
			all = append(all, l.switches)
		}
		var inodes []uint64
		for _, n := range all {
			inodes = append(inodes, n.inode())
		}
		l.spawn.close()
		errs = append(errs, killAll(inodes))
		l.mu.Lock()
		l.gone = true
		for _, k := range l.links {
			errs = append(errs, k.close())
		}
		l.mu.Unlock()
		for _, n := range all {
			errs = append(errs, n.close())
		}
		l.closeErr = errors.Join(errs...)
	})
	return l.closeErr
}

// LinkState is a link as it is now.
type LinkState struct {
	Link
	Cut, Parted bool // by Cut, by Partition
}

// Links are all links as they are now, in the order of the spec.
func (l *Lab) Links() []LinkState {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []LinkState
	for _, k := range l.links {
		s := LinkState{Link: k.Link, Cut: k.cut}
		for e, home := range [2]string{k.A, k.B} {
			s.Parted = s.Parted || k.ends[e].port && k.ends[e].bridge != home
		}
		all = append(all, s)
	}
	return all
}
