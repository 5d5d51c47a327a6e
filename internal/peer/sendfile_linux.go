package peer

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const canSendFile = true

// sendMore writes b to a socket, which waits for what follows before it sends what does not fill a packet.
func sendMore(socket syscall.RawConn, b []byte) (err error) {
	late := socket.Write(func(fd uintptr) (done bool) {
		for len(b) > 0 {
			n, e := unix.SendmsgN(int(fd), b, nil, nil, unix.MSG_MORE)
			switch e {
			case nil:
				b = b[n:]
			case unix.EINTR:
			case unix.EAGAIN:
				return false
			default:
				err = os.NewSyscallError("sendmsg", e)
				return true
			}
		}
		return true
	})
	if err == nil {
		err = late
	}
	return err
}

// sendFile writes n bytes of a file from off to a socket. sent is how many it got, also after an error, which is io.ErrUnexpectedEOF if
// the file ends before.
func sendFile(socket, file syscall.RawConn, off int64, n int) (sent int, err error) {
	gone := file.Control(func(from uintptr) {
		late := socket.Write(func(to uintptr) (done bool) {
			for sent < n {
				k, e := unix.Sendfile(int(to), int(from), &off, n-sent)
				switch {
				case e == unix.EINTR:
				case e == unix.EAGAIN:
					return false
				case e != nil:
					err = os.NewSyscallError("sendfile", e)
					return true
				case k == 0:
					err = io.ErrUnexpectedEOF
					return true
				}
				sent += max(k, 0)
			}
			return true
		})
		if err == nil {
			err = late
		}
	})
	if err == nil {
		err = gone
	}
	return sent, err
}
