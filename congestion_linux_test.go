package freshet_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/internal/peer"
)

// congestionOf is the congestion control of this process's TCP socket that has
// a local address; "" if it has none there.
func congestionOf(t *testing.T, local net.Addr) string {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range fds {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		a, err := unix.Getsockname(fd)
		if err != nil {
			continue // no socket
		}
		if a, ok := a.(*unix.SockaddrInet4); ok && netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)).String() == local.String() {
			name, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
			if err != nil {
				t.Fatal(err)
			}
			return name
		}
	}
	return ""
}

// TestDialBackCongestion looks at the socket with which the control plane sees
// whether it reaches a node: it is one of ours as every other.
func TestDialBackCongestion(t *testing.T) {
	c := newCluster(t, 1)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ours, err := peer.Dialer("", nil, nil)(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	accept := func() net.Conn {
		t.Helper()
		ln.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	defer accept().Close()
	want := congestionOf(t, ours.LocalAddr())

	config := c.config(t, "elsewhere")
	config.Advertise = ln.Addr().String() // where nobody speaks
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan error, 1)
	go func() { // ends with ctx
		n, err := freshet.Start(ctx, config)
		if err == nil {
			n.Close()
		}
		started <- err
	}()
	defer func() { cancel(); <-started }()
	back := accept()
	defer back.Close()
	if got := congestionOf(t, back.RemoteAddr()); got != want || got == "" {
		t.Errorf("the control plane dialled back with congestion control %q, want %q", got, want)
	}
}

// TestDoctorSeesCongestion: what a node tells the doctor is what its sockets have.
func TestDoctorSeesCongestion(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	ours, err := peer.Dialer("", nil, nil)(t.Context(), "tcp", c.first.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	want := congestionOf(t, ours.LocalAddr())
	check, err := c.client.Check(t.Context(), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(check.Nodes) != 1 || check.Nodes[0].Found == nil {
		t.Fatalf("the doctor looked at %+v", check.Nodes)
	}
	if f := check.Nodes[0].Found; want == "" || f.Congestion != want || !slices.Contains(f.Congestions, want) {
		t.Errorf("the doctor is told %q of %q, and a socket has %q", f.Congestion, f.Congestions, want)
	}
}
