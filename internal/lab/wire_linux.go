package lab

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/freshet/freshet/unit"
)

// wire is what lies between the ends of a link with delay or loss: two TAP
// devices, whose rates and buffers the kernel keeps as it does for all links,
// and this process, which carries packets from each to the other.
//
//	 host                                 this process                             switch
//	socket → tbf → TAP ═ read → lost? → [ due | due | … | due ] → write ═ TAP → bridge
//	               TAP ═ write ← [ due | … | due ] ← lost? ← read ═ TAP ← tbf ← bridge
//
// Packets do not overtake each other: one that is due earlier than the one
// before, because the delay has been lowered, waits for it. What is under way
// arrives even if the link is cut meanwhile.
type wire struct {
	taps [2]int
	stop int // an event that is set when the wire ends
	ways [2]*way
	done sync.WaitGroup
}

// way is a wire's one direction. Its thread owns all but what is atomic.
type way struct {
	from, to, stop int

	delay atomic.Int64  // in nanoseconds
	loss  atomic.Uint64 // the bits of a float64

	// What it did not carry: by chance, and because it could not.
	lost, lostBytes, overrun atomic.Int64

	dice  *rand.Rand
	queue queue
	late  int64 // how long after the time it asked for its thread is woken, of late
}

// underWay bounds the bytes that a way has under way; what comes on top is
// lost. It is what 10 Gbit/s are in 200 ms.
const underWay = 256 * unit.MiB

// newWire makes the TAP devices of the i-th link, which are its ends from then
// on. Which of a direction's packets are lost, by their order, depends on the
// seed alone.
func newWire(ends [2]end, seed uint64, i int) (w *wire, err error) {
	w = &wire{taps: [2]int{-1, -1}, stop: -1}
	for s, e := range ends {
		onThread(func() {
			if err = e.at.enter(); err == nil {
				w.taps[s], err = tap(e.name)
			}
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("make TAP device %s: %w", e.name, err), w.close())
		}
	}
	if w.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, errors.Join(err, w.close())
	}
	for s := range w.ways {
		v := &way{from: w.taps[s], to: w.taps[1-s], stop: w.stop, dice: rand.New(rand.NewPCG(seed, uint64(2*i+s)))}
		w.ways[s] = v
		w.done.Go(func() { onThread(v.carry) })
	}
	return w, nil
}

// tapHeader is the size of what a TAP device puts before each packet.
const tapHeader = 10

// tap makes a TAP device in the namespace that the calling thread is in.
func tap(name string) (fd int, err error) {
	fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	req, err := unix.NewIfreq(name)
	if err == nil {
		req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err == nil {
		// Packets come with a header that says what was left undone to them:
		// a checksum, a split. It goes with them, and so does what is undone.
		err = unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, unix.TUN_F_CSUM|unix.TUN_F_TSO4|unix.TUN_F_TSO_ECN)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// set changes delay and loss of what enters the wire from now on.
func (w *wire) set(delay time.Duration, loss float64) {
	for _, v := range w.ways {
		v.delay.Store(int64(delay))
		v.loss.Store(math.Float64bits(loss))
	}
}

func (w *wire) close() error {
	var errs []error
	if w.stop >= 0 {
		_, err := unix.Write(w.stop, []byte{7: 1})
		errs = append(errs, err)
		w.done.Wait()
		errs = append(errs, unix.Close(w.stop))
	}
	for _, fd := range w.taps {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}

// carry hands packets on until the wire is stopped. It has a thread to itself,
// and sleeps in ppoll: Go's own timers are up to a millisecond late. What a
// thread that slept is late by then, some tenths of a millisecond where the
// machine is a virtual one, it knows from the last times, and asks for as much earlier.
func (v *way) carry() {
	// Both are for exactness only; without them delays are late on a busy machine.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20)

	started := time.Now()
	clock := func() int64 { return int64(time.Since(started)) }
	poll := []unix.PollFd{{Fd: int32(v.stop), Events: unix.POLLIN}, {Fd: int32(v.from), Events: unix.POLLIN}}
	buf := make([]byte, 128<<10)
	timed := false // the thread was woken by the clock
	for {
		late := min(v.late, v.delay.Load()/8)
		asked := int64(math.MaxInt64) // the time to wake at: until something comes
		now := clock()
		for {
			p, due, ok := v.queue.head()
			if !ok {
				break
			}
			soon := now
			if timed { // as exact as it gets
				soon += late
			}
			if due > soon {
				asked = due - late
				break
			}
			if _, err := unix.Write(v.to, p); err != nil { // the other end does not take it
				v.overrun.Add(1)
			}
			v.queue.pop()
		}
		var timeout *unix.Timespec
		if asked < math.MaxInt64 {
			t := unix.NsecToTimespec(max(asked-now, 0))
			timeout = &t
		}
		n, err := unix.Ppoll(poll, timeout, nil)
		if err != nil && err != unix.EINTR {
			return // no such descriptor: cannot be, while the wire is not closed
		}
		woken := clock()
		if timed = n == 0 && err == nil; timed && asked > now {
			v.late += (min(woken-asked, int64(time.Millisecond)) - v.late) / 8
		}
		if poll[0].Revents != 0 {
			return
		}
		if poll[1].Revents == 0 {
			continue
		}
		came := woken
		if woken-now > late { // it slept, and whatever came was there before it woke
			came -= late
		}
		delay, loss := v.delay.Load(), math.Float64frombits(v.loss.Load())
		for range 32 { // then it is time to see what is due
			n, err := unix.Read(v.from, buf)
			if err != nil {
				break
			}
			switch {
			case loss > 0 && v.dice.Float64() < loss:
				v.lost.Add(1)
				v.lostBytes.Add(int64(n - tapHeader))
			case v.queue.bytes+n > int(underWay):
				v.overrun.Add(1)
			default:
				v.queue.push(buf[:n], came+delay)
			}
			came = clock()
		}
	}
}

// queue holds packets in the order in which they came, each with the time when
// it is due.
type queue struct {
	packets     []packet // a ring; its length is a power of two
	first, held int
	bytes       int
	last        int64        // when the last one pushed is due
	free        [20][][]byte // buffers to be used again: free[i] holds those of 1<<i bytes
}

type packet struct {
	data []byte
	due  int64
}

func (q *queue) head() (data []byte, due int64, ok bool) {
	if q.held == 0 {
		return nil, 0, false
	}
	p := q.packets[q.first]
	return p.data, p.due, true
}

// push copies data.
func (q *queue) push(data []byte, due int64) {
	if q.held == len(q.packets) {
		bigger := make([]packet, max(64, 2*q.held))
		n := copy(bigger, q.packets[q.first:])
		copy(bigger[n:], q.packets[:q.first])
		q.packets, q.first = bigger, 0
	}
	q.last = max(q.last, due)
	class := max(11, bits.Len(uint(len(data)-1)))
	var b []byte
	if n := len(q.free[class]); n > 0 {
		b = q.free[class][n-1]
		q.free[class] = q.free[class][:n-1]
	} else {
		b = make([]byte, 1<<class)
	}
	q.packets[(q.first+q.held)&(len(q.packets)-1)] = packet{b[:copy(b, data)], q.last}
	q.held++
	q.bytes += len(data)
}

// pop drops the head, whose bytes are not to be looked at any more.
func (q *queue) pop() {
	p := &q.packets[q.first]
	q.bytes -= len(p.data)
	b := p.data[:cap(p.data)]
	class := bits.Len(uint(len(b) - 1))
	q.free[class] = append(q.free[class], b)
	*p = packet{}
	q.first = (q.first + 1) & (len(q.packets) - 1)
	q.held--
}
