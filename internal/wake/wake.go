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

// Socket is a TCP socket to read from and write to. One goroutine reads at a time, and one writes.
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
			k, e := receive(fd, p[n:])
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
			case e != 0:
				err = s.wrap("read", e)
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

// Write writes all of p.
func (s *Socket) Write(p []byte) (n int, err error) {
	late := s.raw.Write(func(fd uintptr) (done bool) {
		for n < len(p) {
			k, e := send(fd, p[n:])
			switch e {
			case 0:
				n += k
			case syscall.EINTR:
			case syscall.EAGAIN:
				return false
			default:
				err = s.wrap("write", e)
				return true
			}
		}
		return true
	})
	if err == nil {
		err = late
	}
	return n, err
}

// wrap is an error as the package net has it.
func (s *Socket) wrap(call string, e syscall.Errno) error {
	return &net.OpError{Op: call, Net: "tcp", Source: s.c.LocalAddr(), Addr: s.c.RemoteAddr(), Err: os.NewSyscallError(call, e)}
}
