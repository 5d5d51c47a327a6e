//go:build !race

package wake

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These never wait, so the runtime is not told of them. If it is, and its monitor slept, that wakes, too, and looks again and
// again whether the call still waits: for a socket that is read some hundred times a second that is more work than the reading.

// receive is recv(2).
func receive(fd uintptr, p []byte) (n int, e syscall.Errno) {
	r, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MSG_DONTWAIT, 0, 0)
	return int(r), e
}

// send is send(2).
func send(fd uintptr, p []byte) (n int, e syscall.Errno) {
	r, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return int(r), e
}

// setMark asks the system to say that a socket can be read when that many bytes are there, or
// its end is, or the window is full. If they are there by now it says so at once.
func setMark(fd uintptr, bytes int) bool {
	v := int32(bytes)
	_, _, e := syscall.RawSyscall6(unix.SYS_SETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, uintptr(unsafe.Pointer(&v)), unsafe.Sizeof(v), 0)
	return e == 0
}
