package freshet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/objstore/retry"
	"github.com/freshet/freshet/unit"
)

// Bounds of a node's check.
const (
	reachWithin = 5 * time.Second // a peer
	mostReaches = 32              // peers dialed at the same moment
)

// Check looks at this node, and from it at the others and at a store.
func (w *worker) Check(ctx context.Context, r control.CheckRequest) control.NodeCheck {
	c := control.NodeCheck{
		Version: w.version, Congestion: w.port.Congestion(), Congestions: congestions(),
		Files: filesLimit(), Expires: w.creds.Expires(),
	}
	if err := writable(w.state); err != nil {
		c.State = err.Error()
	}
	for _, dir := range w.roots.Dirs() {
		c.Roots = append(c.Roots, w.checkRoot(dir))
	}
	var wg sync.WaitGroup
	if r.Source != "" {
		wg.Go(func() { c.Source = w.checkSource(ctx, r.Source) })
	}
	peers := slices.DeleteFunc(r.Peers, func(p control.Member) bool { return p.Name == w.creds.Identity().Name })
	c.Reached, c.Failures = reachAll(ctx, peers, w.port.Reach)
	wg.Wait()
	return c
}

func (w *worker) checkRoot(dir string) (r control.RootCheck) {
	r.Dir = dir
	var err error
	if r.Free, err = w.roots.Writable(dir); err != nil {
		r.Error = err.Error()
	}
	return r
}

// reachAll dials every peer at its advertised address. Of those that it had no time for, since others took it all, it says nothing.
func reachAll(ctx context.Context, peers []control.Member, reach func(ctx context.Context, addr, name string) error) (reached int, missed []control.Fault) {
	var mu sync.Mutex // guards the results
	var wg sync.WaitGroup
	slots := make(chan struct{}, mostReaches)
	for _, p := range peers {
		slots <- struct{}{}
		if ctx.Err() != nil { // who was dialed gives the slots back now
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			began := time.Now()
			dial, cancel := context.WithTimeout(ctx, reachWithin)
			defer cancel()
			err := reach(dial, p.Addr, p.Name)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				reached++
				return
			}
			cause := bare(err).Error()
			if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
				if ctx.Err() != nil && time.Since(began) < reachWithin { // it had less than that to answer
					return
				}
				cause = fmt.Sprintf("no answer within %v", reachWithin)
			}
			missed = append(missed, control.Fault{Node: p.Name, Cause: cause})
		})
	}
	wg.Wait()
	slices.SortFunc(missed, func(a, b control.Fault) int { return cmp.Compare(a.Node, b.Node) })
	return reached, missed
}

// checkSource asks for an object and for its first byte, with this node's own
// credentials.
func (w *worker) checkSource(ctx context.Context, source string) *control.SourceCheck {
	c := &control.SourceCheck{}
	err := func() error {
		store, key, err := w.open(ctx, source)
		if err != nil {
			return err
		}
		defer store.Close()
		store = retry.New(hasty{store, time.Now()}, retry.Policy{Patience: reachWithin, Max: time.Second, OnRetry: w.noteRetry})
		if (control.Spec{Source: source}).Several() {
			if key, err = firstBelow(ctx, store, key, 0); err != nil {
				return err
			}
		}
		began := time.Now()
		o, err := store.Stat(ctx, key)
		if err != nil {
			return err
		}
		c.Stat = control.Duration(time.Since(began))
		if o.Size == 0 {
			return nil
		}
		began = time.Now()
		body, err := store.ReadRange(ctx, o, 0, min(o.Size, unit.KiB))
		if err != nil {
			return err
		}
		defer body.Close()
		_, err = io.ReadFull(body, make([]byte, 1))
		c.FirstByte = control.Duration(time.Since(began))
		return err
	}()
	if err != nil {
		c.Error = line(err)
	}
	return c
}

// writable says whether files can be written in a directory.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".freshet-check-*")
	if err == nil {
		_, err = f.WriteString("x") // for an empty one there is room on a full disk
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", dir, bare(err))
	}
	return nil
}

// bare is the system's word for an error, without path or address.
func bare(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}

// filesLimit is how many files this process may have open.
func filesLimit() uint64 {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return 0
	}
	return uint64(r.Cur)
}

// congestions are the congestion controls that the system has.
func congestions() []string {
	b, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}

// Check is what the nodes of a cluster have found, for Diagnose.
type Check = control.Check

// Finding is something that a check has found wrong.
type Finding struct {
	Node  string `json:"node"`
	What  string `json:"what"`  // clock, reach, store, space, congestion, files, version, certificate, state or down
	Fails bool   `json:"fails"` // else it is a warning
	Text  string `json:"text"`  // what was found
	Do    string `json:"do"`    // what to do about it
}

// Where a check begins to warn, and to fail.
const (
	clockWarn, clockFail     = 2 * time.Second, time.Minute
	spaceWarn, spaceFail     = unit.GiB, 64 * unit.MiB
	expiryWarn, expiryFail   = 14 * 24 * time.Hour, 24 * time.Hour
	firstByteWarn            = 2 * time.Second
	filesBase, filesEachWarn = 64, 8 // a job has a connection to each node, and some jobs run at once
)

// Diagnose says what is wrong with a cluster, by node; version is that of the
// program that asks.
func Diagnose(c Check, version string) (found []Finding) {
	up := 0 // each of them was to dial all of them but itself
	for _, n := range c.Nodes {
		if n.Down == "" {
			up++
		}
	}
	for _, n := range c.Nodes {
		add := func(fails bool, what, do, format string, args ...any) {
			found = append(found, Finding{Node: n.Name, What: what, Fails: fails, Text: fmt.Sprintf(format, args...), Do: do})
		}
		switch {
		case n.Down != "":
			add(true, "down", "start its agent, or \"freshet nodes remove "+n.Name+"\"; nothing else of it was checked", "%s", n.Down)
			continue
		case n.Late:
			add(true, "down", "see first what the others found, then look at fewer at a time: --nodes", "%s", n.Error)
			continue
		case n.Found == nil:
			add(true, "down", "look at its agent's log; an older version cannot check itself", "%s", cmp.Or(n.Error, "gave no answer"))
			continue
		}
		f := n.Found
		if off, by := clockOff(n); off > clockWarn {
			add(off > clockFail, "clock", "set its clock: let chrony or systemd-timesyncd keep it", "its clock is %v %s the control plane's", off.Round(100*time.Millisecond), by)
		}
		for _, p := range f.Failures {
			add(true, "reach", "open the port of "+p.Node+" for "+n.Name+" in firewalls, or give "+p.Node+" an --advertise that "+n.Name+" can reach", "cannot reach %s: %s", p.Node, p.Cause)
		}
		if more := f.Missed - len(f.Failures); more > 0 {
			add(true, "reach", "see the others first: most likely it is "+n.Name+"'s own network", "cannot reach %d more nodes", more)
		}
		if unasked := up - 1 - f.Reached - f.Missed; unasked > 0 {
			add(true, "reach", "see the others first, then look at fewer at a time: --nodes", "%d of %d nodes were not asked, or had no time to answer: others took all that a check has", unasked, up-1)
		}
		if s := f.Source; s != nil && s.Error != "" {
			add(true, "store", "give its agent credentials that may read the source, and a way to the store", "cannot read the source: %s", s.Error)
		} else if s != nil && time.Duration(s.FirstByte) > firstByteWarn {
			add(false, "store", "see what is between it and the store", "waited %v for the source's first byte", time.Duration(s.FirstByte).Round(time.Millisecond))
		}
		for _, r := range f.Roots {
			switch {
			case r.Error != "":
				add(true, "space", "let the agent's user write there, or restart it with another --root", "%s", r.Error)
			case r.Free < spaceWarn:
				add(r.Free < spaceFail, "space", "make room, or restart the agent with another --root", "%v are free below %s", r.Free, r.Dir)
			}
		}
		if f.Congestion != "" && f.Congestion != peer.DefaultCongestion {
			add(false, "congestion", "load it: modprobe tcp_"+peer.DefaultCongestion, "its connections use the congestion control %s, not %s; the system has %s", f.Congestion, peer.DefaultCongestion, cmp.Or(strings.Join(f.Congestions, ", "), "nobody knows which"))
		}
		least, want := uint64(filesBase+c.Registered), uint64(filesBase+filesEachWarn*c.Registered)
		if f.Files > 0 && f.Files < want {
			add(f.Files < least, "files", fmt.Sprintf("raise it to %d or more: LimitNOFILE= in its unit, or ulimit -n", max(1024, want)), "may have %d files open, and a cluster of %d nodes wants %d", f.Files, c.Registered, want)
		}
		if f.Version != version {
			add(false, "version", "run the same release on all nodes", "runs version %s, and this is %s", f.Version, version)
		}
		if left := f.Expires.Sub(f.Answered); left < expiryWarn {
			add(left < expiryFail, "certificate", "see in its agent's log why it is not renewed, or join it again with a new token", "its certificate expires in %d h", int(math.Floor(left.Hours())))
		}
		if f.State != "" {
			add(true, "state", "let the agent's user write there, and see whether the disk is full", "state directory: %s", f.State)
		}
	}
	return found
}

// clockOff is by how much a node's clock is off at least, and which way. The
// request was under way before the node received it, and the answer after it was given: that
// much is not known.
func clockOff(n control.CheckedNode) (off time.Duration, by string) {
	ahead := (n.Found.Received.Sub(n.Sent) + n.Found.Answered.Sub(n.Heard)) / 2
	unknown := max(0, n.Heard.Sub(n.Sent)-n.Found.Answered.Sub(n.Found.Received)) / 2
	if ahead < 0 {
		return max(0, -ahead-unknown), "behind"
	}
	return max(0, ahead-unknown), "ahead of"
}
