package peer

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"

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
func TestCongestionControl(t *testing.T) {
	ca := newAuthority(t)
	p, err := Listen("127.0.0.1:0", Options{Credentials: creds(t, ca, pki.Node, "a"), Congestion: "reno"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if got := p.Congestion(); got != "reno" {
		t.Errorf("listener has %q, want reno", got)
	}
	c, err := Dialer("reno", nil, nil)(t.Context(), "tcp", p.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := inForce(t, c); got != "reno" {
		t.Errorf("dialed connection has %q, want reno", got)
	}
	accepted, err := p.ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	if got := inForce(t, accepted); got != "reno" {
		t.Errorf("accepted connection has %q, want reno", got)
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
