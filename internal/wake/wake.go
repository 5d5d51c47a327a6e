// Package wake has the system wake whoever reads from a TCP socket only when enough is there.
//
// What comes over a connection that is one of many on a link comes in packets, some now and some then, and
// each would wake its reader, which takes more of a processor than the reading. Who knows how much there is still to
// come says so, and is woken when that is there, or the stream has ended, or the receive window is full
// (SO_RCVLOWAT; the system widens the window if need be).
package wake

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// Socket is a TCP socket to read from. One goroutine reads at a time.
type Socket struct {
	c    *net.TCPConn
	raw  syscall.RawConn
	mark int // at how many bytes the system wakes us; zero: as it does by itself, at one
}

// Of is the socket that c is; nil if it is none, as where rates are limited.
func Of(c net.Conn) *Socket {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return nil
	}
	return &Socket{c: t, raw: raw}
}

// Read reads as much as there is, but waits until that is at least so many bytes, which has to be known to come. It
// reads into the buffer that take returns; before it waits with nothing read it calls give, and takes anew afterwards, so
// that who waits need not hold a buffer. waited says whether it did. At the deadline it returns what there is;
// os.ErrDeadlineExceeded says that there was nothing at all. An error beside data comes again.
func (s *Socket) Read(least int, take func() []byte, give func()) (n int, waited bool, err error) {
	read := func(fd uintptr) (done bool) {
		p := take()
		least = min(least, len(p))
		for n < least {
			k, e := syscall.Read(int(fd), p[n:])
			switch {
			case e == syscall.EINTR:
				continue
			case e == syscall.EAGAIN:
				if n == 0 {
					give()
				}
				if mark := least - n; mark != s.mark && setMark(fd, mark) {
					s.mark = mark
				}
				waited = true
				return false
			case e != nil:
				err = &net.OpError{Op: "read", Net: "tcp", Source: s.c.LocalAddr(), Addr: s.c.RemoteAddr(), Err: os.NewSyscallError("read", e)}
				return true
			case k == 0:
				err = io.EOF
				return true
			}
			n += k
		}
		return true
	}
	late := s.raw.Read(read)
	if errors.Is(late, os.ErrDeadlineExceeded) && n == 0 && err == nil { // who is slow is not silent: less may be there than we waited for
		least = 1
		s.raw.Control(func(fd uintptr) { read(fd) })
	}
	if err == nil {
		err = late
	}
	if n > 0 {
		err = nil
	}
	return n, waited, err
}
