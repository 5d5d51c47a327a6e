package s3serve

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// congestion makes the sockets that a listener accepts use cubic, as everything
// of ours does between machines of one network: where the system's default is
// bbr without the fq scheduler, it halves the rate of loopback and doubles its
// cost. A kernel without cubic keeps what it has.
func congestion(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "cubic")
	})
}
