package lab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/freshet/freshet/unit"
)

// echo answers datagrams in a host, until the test ends.
func echo(t *testing.T, l *Lab, host string) (port int) {
	t.Helper()
	var pc net.PacketConn
	if err := l.Do(host, func() (err error) { pc, err = net.ListenPacket("udp4", ":0"); return err }); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 2048)
		for {
			n, from, err := pc.ReadFrom(b)
			if err != nil {
				return
			}
			pc.WriteTo(b[:n], from)
		}
	}()
	t.Cleanup(func() { pc.Close(); <-done })
	return pc.LocalAddr().(*net.UDPAddr).Port
}

// ping has the kernel of another host answer n requests, one after the other,
// and returns the round trips in order of length. They end when the kernel has
// the answer: how late this process hears of it is none of the link's delay.
func ping(l *Lab, from, to string, n int) (trips []time.Duration, err error) {
	fd := -1
	err = l.Do(from, func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}),
	); err != nil {
		return nil, err
	}
	// An echo request (RFC 792); its identifier and checksum are the kernel's to fill in.
	request := make([]byte, 64)
	request[0] = 8
	answer, control := make([]byte, 128), make([]byte, 128)
	for i := range n {
		binary.BigEndian.PutUint16(request[6:], uint16(i))
		var sent unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME, &sent); err != nil {
			return nil, err
		}
		if err := unix.Sendto(fd, request, 0, &unix.SockaddrInet4{Addr: l.Addr(to).As4()}); err != nil {
			return nil, err
		}
		got, m, _, _, err := unix.Recvmsg(fd, answer, control, 0)
		for err == unix.EINTR {
			got, m, _, _, err = unix.Recvmsg(fd, answer, control, 0)
		}
		if err != nil {
			return nil, fmt.Errorf("no answer from %s: %w", to, err)
		}
		if got < 8 || answer[0] != 0 || binary.BigEndian.Uint16(answer[6:]) != uint16(i) {
			return nil, fmt.Errorf("request %d was answered by % x", i, answer[:got])
		}
		came, err := stamp(control[:m])
		if err != nil {
			return nil, err
		}
		trips = append(trips, time.Duration(came.Nano()-sent.Nano()))
	}
	slices.Sort(trips)
	return trips, nil
}

// flights has one host send n datagrams to another, one after the other, and
// returns how long they took, in order of length: the hosts have one clock.
func flights(l *Lab, from, to string, n int) (took []time.Duration, err error) {
	socket := func(host string) (fd int, err error) {
		fd = -1
		err = l.Do(host, func() (err error) {
			fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			return err
		})
		return fd, err
	}
	in, err := socket(to)
	if err != nil {
		return nil, err
	}
	defer unix.Close(in)
	out, err := socket(from)
	if err != nil {
		return nil, err
	}
	defer unix.Close(out)
	if err := errors.Join(
		unix.SetsockoptInt(in, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.SetsockoptTimeval(in, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}),
		unix.Bind(in, &unix.SockaddrInet4{Addr: l.Addr(to).As4()}),
	); err != nil {
		return nil, err
	}
	addr, err := unix.Getsockname(in)
	if err != nil {
		return nil, err
	}
	b, control := make([]byte, 64), make([]byte, 128)
	for range n {
		var sent unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME, &sent); err != nil {
			return nil, err
		}
		if err := unix.Sendto(out, b, 0, addr); err != nil {
			return nil, err
		}
		_, m, _, _, err := unix.Recvmsg(in, b, control, 0)
		for err == unix.EINTR {
			_, m, _, _, err = unix.Recvmsg(in, b, control, 0)
		}
		if err != nil {
			return nil, fmt.Errorf("nothing came from %s to %s: %w", from, to, err)
		}
		came, err := stamp(control[:m])
		if err != nil {
			return nil, err
		}
		took = append(took, time.Duration(came.Nano()-sent.Nano()))
	}
	slices.Sort(took)
	return took, nil
}

// stamp is when the kernel received a message, from its control messages.
func stamp(control []byte) (t unix.Timespec, err error) {
	all, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return t, err
	}
	for _, m := range all {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS {
			_, err := binary.Decode(m.Data, binary.NativeEndian, &t)
			return t, err
		}
	}
	return t, errors.New("the kernel did not say when it received the answer")
}

// awake keeps the processors from idling until the test ends, with processes that
// yield to all others: a virtual processor that idles for milliseconds may be
// given away by its host, and comes back milliseconds late.
func awake(t *testing.T) {
	for range runtime.NumCPU() {
		spin := exec.Command("chrt", "--idle", "0", "sh", "-c", "while :; do :; done")
		spin.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := spin.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { spin.Process.Kill(); spin.Wait() })
	}
}

// checkDelay holds a round trip between two hosts, and each way by itself, against what is wanted, to 1 ms.
func checkDelay(t *testing.T, l *Lab, from, to string, trip time.Duration) {
	t.Helper()
	for _, c := range []struct {
		what    string
		measure func() ([]time.Duration, error)
		want    time.Duration
	}{
		{from + " to " + to + " and back", func() ([]time.Duration, error) { return ping(l, from, to, 25) }, trip},
		{from + " to " + to, func() ([]time.Duration, error) { return flights(l, from, to, 25) }, trip / 2},
		{to + " to " + from, func() ([]time.Duration, error) { return flights(l, to, from, 25) }, trip / 2},
	} {
		eventually(t, func() error {
			took, err := c.measure()
			if err != nil {
				return err
			}
			got := took[len(took)/2]
			t.Logf("%s: %v to %v, median %v, asked for %v", c.what, took[0], took[len(took)-1], got, c.want)
			if (got - c.want).Abs() <= time.Millisecond {
				return nil
			}
			err = fmt.Errorf("%s: it takes %v, want %v ± 1 ms", c.what, got, c.want)
			if got < c.want {
				return excess{err}
			}
			return err
		})
	}
}

func TestDelays(t *testing.T) {
	s := Spec{Hosts: hosts(3), Switches: []string{"sw"}, Links: []Link{
		{A: "n0", B: "sw", Delay: 10 * time.Millisecond},
		{A: "n1", B: "sw"},
		{A: "n2", B: "sw", Delay: time.Millisecond, Rate: 100 * unit.Mbit},
	}}
	l := New(t, s)
	awake(t)
	checkDelay(t, l, "n0", "n1", 20*time.Millisecond)
	checkDelay(t, l, "n2", "n1", 2*time.Millisecond)
	for _, d := range []time.Duration{50 * time.Millisecond, 300 * time.Microsecond, 0} {
		if err := l.SetDelay("sw", "n0", d); err != nil {
			t.Fatal(err)
		}
		checkDelay(t, l, "n0", "n1", 2*d)
	}
	if err := l.SetDelay("n1", "sw", time.Millisecond); err == nil || !strings.Contains(err.Error(), "built without delay") {
		t.Errorf("a delay for a link of the kernel's: got error %v", err)
	}
}
