//go:build !linux || race

package wake

import (
	"errors"
	"syscall"
)

// receive is read(2).
func receive(fd uintptr, p []byte) (n int, e syscall.Errno) {
	n, err := syscall.Read(int(fd), p)
	errors.As(err, &e)
	return n, e
}

// send is write(2).
func send(fd uintptr, p []byte) (n int, e syscall.Errno) {
	n, err := syscall.Write(int(fd), p)
	errors.As(err, &e)
	return n, e
}
