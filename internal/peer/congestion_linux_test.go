package peer

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/freshet/freshet/internal/pki"
)

// inForce is the congestion control of a connection's socket.
func inForce(t *testing.T, c net.Conn) (name string) {
	t.Helper()
	rc, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	rc.Control(func(fd uintptr) { name = congestion(fd) })
	return name
}

// TestCongestionControl asks for reno, which every kernel has and none has as
// its default.
func TestCongestionControl(t *testing.T) { wantCongestion(t, "reno", "reno") }

// TestDefaultCongestionControl asks for nothing and gets cubic, whatever the
// system's default is (where that is cubic too, it shows less).
func TestDefaultCongestionControl(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "cubic"); err != nil {
		t.Skipf("cubic is not there or not allowed: %v", err)
	}
	wantCongestion(t, "", "cubic")
}

// wantCongestion sees what is in force on a port and on the two ends of a
// connection to it, if asked is asked for.
func wantCongestion(t *testing.T, asked, want string) {
	t.Helper()
	ca := newAuthority(t)
	p, err := Listen("127.0.0.1:0", Options{Credentials: creds(t, ca, pki.Node, "a"), Congestion: asked})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if got := p.Congestion(); got != want {
		t.Errorf("listener has %q, want %s", got, want)
	}
	c, err := Dialer(asked, nil, nil)(t.Context(), "tcp", p.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := inForce(t, c); got != want {
		t.Errorf("dialed connection has %q, want %s", got, want)
	}
	accepted, err := p.ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	if got := inForce(t, accepted); got != want {
		t.Errorf("accepted connection has %q, want %s", got, want)
	}
}

func TestCongestionControlThatIsNotThere(t *testing.T) {
	var log bytes.Buffer
	p, err := Listen("127.0.0.1:0", Options{
		Credentials: creds(t, newAuthority(t), pki.Node, "a"), Congestion: "absent",
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if got := log.String(); strings.Count(got, "asked=absent") != 1 || strings.Contains(got, "in_force=absent") {
		t.Errorf("log is %q, want one line on what was asked for and what is in force", got)
	}
}
