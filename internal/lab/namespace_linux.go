package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// namedDir is where `ip netns` looks for namespaces.
const namedDir = "/run/netns"

// onThread runs f on an operating-system thread that is thrown away
// afterwards, so that f may leave it in any namespace. It is never the
// process's first thread: that one cannot be thrown away, and it is the one by
// which others see in which namespace this process is.
func onThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			onThread(f) // elsewhere, since this goroutine keeps the first thread meanwhile
			runtime.UnlockOSThread()
			return
		}
		f() // this goroutine ends locked, and takes its thread along
	}()
	<-done
}

// namespace is a network namespace with a name, and a hostname that goes with
// it. The owner keeps it open as long as it has the name: that is how others
// know that its owner lives.
type namespace struct {
	name string // below namedDir
	net  netns.NsHandle
	uts  int
	nl   *netlink.Handle // speaks with the kernel about what is in it

	mu     sync.RWMutex // held to enter; who dials for somebody else may come when it is closed
	closed bool
}

// newNamespace makes one, and runs setup on a thread that is in it.
func newNamespace(name, hostname string, setup func() error) (n *namespace, err error) {
	n = &namespace{name: name, net: netns.None(), uts: -1}
	onThread(func() { err = n.make(hostname, setup) })
	if err != nil {
		n.close()
		return nil, fmt.Errorf("lab: make namespace %s: %w", name, err)
	}
	return n, nil
}

func (n *namespace) make(hostname string, setup func() error) error {
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("unshare: %w (root is needed)", err)
	}
	if err := unix.Sethostname([]byte(hostname)); err != nil {
		return err
	}
	var err error
	if n.net, err = netns.GetFromPath("/proc/thread-self/ns/net"); err != nil {
		return err
	}
	if n.uts, err = unix.Open("/proc/thread-self/ns/uts", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	path := filepath.Join(namedDir, n.name)
	if err := os.WriteFile(path, nil, 0o444); err != nil {
		return err
	}
	if err := unix.Mount("/proc/thread-self/ns/net", path, "none", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind it to %s: %w", path, err)
	}
	if n.nl, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return err
	}
	return setup()
}

// enter moves the calling thread, which must be locked, into n for good.
func (n *namespace) enter() error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.closed {
		return fmt.Errorf("lab: enter %s: %w", n.name, os.ErrClosed)
	}
	if err := unix.Setns(int(n.net), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("lab: enter %s: %w", n.name, err)
	}
	if err := unix.Setns(n.uts, unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("lab: enter %s: %w", n.name, err)
	}
	return nil
}

// close takes the name away and lets go. The kernel ends the namespace when
// nothing is left in it.
func (n *namespace) close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	err := unname(n.name)
	if n.nl != nil {
		n.nl.Close()
	}
	if n.net.IsOpen() {
		err = errors.Join(err, n.net.Close())
	}
	if n.uts >= 0 {
		err = errors.Join(err, unix.Close(n.uts))
	}
	return err
}

// unname removes a namespace's name, if it has one.
func unname(name string) error {
	path := filepath.Join(namedDir, name)
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && err != unix.EINVAL && err != unix.ENOENT {
		return fmt.Errorf("lab: unmount %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("lab: %w", err)
	}
	return nil
}

// sysctls writes settings of the namespace that the calling thread is in.
func sysctls(settings map[string]string) error {
	for key, value := range settings {
		err := os.WriteFile("/proc/sys/net/"+key, []byte(value), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a kernel without IPv6 has no switch for it
			return fmt.Errorf("set %s to %s: %w", key, value, err)
		}
	}
	return nil
}

// quiet keeps the kernel from sending anything of its own accord.
var quiet = map[string]string{
	"ipv6/conf/all/disable_ipv6":     "1",
	"ipv6/conf/default/disable_ipv6": "1",
}

// ofHost are a host's settings, on top of quiet.
var ofHost = map[string]string{
	// A machine may have bbr as its default, which without the fq queue halves
	// the rate and doubles the work. See permitted.
	"ipv4/tcp_congestion_control": "cubic",
	// Fewer and larger packets on slow connections: a quarter of the work.
	"ipv4/tcp_min_tso_segs": "16",
	// A connection starts with what it finds, not with what the last one found.
	"ipv4/tcp_no_metrics_save": "1",
	// Programs without root's rights may ping, too.
	"ipv4/ping_group_range": "0 2147483647",
}

// permitted runs f while cubic may be made a namespace's default: on a machine
// whose own default is another, the kernel counts it among those that need
// permission. Sockets may still choose what they like. (A route that names
// cubic needs no permission, but overrules the sockets.) Afterwards all is as
// it was; the caller holds building, so nobody else changes it meanwhile.
func permitted(f func() error) error {
	const list = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"
	b, err := os.ReadFile(list)
	if err != nil || slices.Contains(strings.Fields(string(b)), "cubic") {
		return f() // where there is no list, f says what it lacks
	}
	if err := os.WriteFile(list, []byte(strings.TrimSpace(string(b))+" cubic"), 0); err != nil {
		return fmt.Errorf("lab: permit cubic: %w; as root, run: sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic'", err)
	}
	return errors.Join(f(), os.WriteFile(list, b, 0))
}

// building takes the lock that whoever makes or sweeps namespaces holds, and
// returns what gives it back.
func building() (free func(), err error) {
	if err := os.MkdirAll(namedDir, 0o755); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	f, err := os.Open(namedDir)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	const patience = time.Minute
	for end := time.Now().Add(patience); ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if err != unix.EWOULDBLOCK || time.Now().After(end) {
			f.Close()
			return nil, fmt.Errorf("lab: lock %s: %w; who holds it? lsof %[1]s", namedDir, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
