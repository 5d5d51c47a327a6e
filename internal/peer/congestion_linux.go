package peer

import "golang.org/x/sys/unix"

// setCongestion asks for a congestion control. One that the kernel does not
// have or allow leaves the socket as it was; congestion tells.
func setCongestion(fd uintptr, name string) {
	unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
}

// congestion is what is in force on a socket; "" if that cannot be told.
func congestion(fd uintptr) string {
	s, err := unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	if err != nil {
		return ""
	}
	return s
}
