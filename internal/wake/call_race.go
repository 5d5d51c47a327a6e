//go:build linux && race

package wake

import "golang.org/x/sys/unix"

// The race detector hears from calls that the runtime is told of what came before what, at the two ends of a
// connection within a process.

// setMark asks the system to say that a socket can be read when that many bytes are there.
func setMark(fd uintptr, bytes int) bool {
	return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, bytes) == nil
}
