package wake

import "golang.org/x/sys/unix"

// setMark asks the system to say that a socket can be read when that many bytes are there, or
// its end is, or the window is full. If they are there by now it says so at once.
func setMark(fd uintptr, bytes int) bool {
	return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, bytes) == nil
}
