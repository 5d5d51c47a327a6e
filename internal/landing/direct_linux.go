//go:build !race && (amd64 || arm64)

package landing

import (
	"io"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The runtime is told of a call that may wait, to run other things meanwhile; its monitor then wakes and watches the call. For some tens of blocks a second
// that is a fourteenth of all that a node's processor does. A file in memory has nothing to wait for; from another one the system takes or gives what it
// can at once (RWF_NOWAIT, where the file system knows it), and the rest goes the usual way.

// ReadAt is os.File's.
func (d direct) ReadAt(b []byte, off int64) (int, error) {
	n := d.call(unix.SYS_PREADV2, b, off)
	if n == len(b) {
		return n, nil
	}
	k, err := d.File.ReadAt(b[n:], off+int64(n))
	return n + k, err
}

// WriteAt is os.File's.
func (d direct) WriteAt(b []byte, off int64) (int, error) {
	n := d.call(unix.SYS_PWRITEV2, b, off)
	if n == len(b) {
		return n, nil
	}
	k, err := d.File.WriteAt(b[n:], off+int64(n))
	return n + k, err
}

var (
	_ io.ReaderAt = direct{}
	_ io.WriterAt = direct{}
)

// call reads or writes as much of b as it can without waiting. Why it can no more is for the usual way to say.
func (d direct) call(number uintptr, b []byte, off int64) (n int) {
	if d.raw == nil || off < 0 { // -1 is where the file stands
		return 0
	}
	flags := uintptr(unix.RWF_NOWAIT)
	if d.memory {
		flags = 0
	}
	d.raw.Control(func(fd uintptr) {
		for n < len(b) {
			v := unix.Iovec{Base: &b[n]}
			v.SetLen(len(b) - n)
			k, _, e := syscall.RawSyscall6(number, fd, uintptr(unsafe.Pointer(&v)), 1, uintptr(off)+uintptr(n), 0, flags)
			if e == syscall.EINTR {
				continue
			}
			if e != 0 || k == 0 {
				return
			}
			n += int(k)
		}
	})
	return n
}

// inMemory says whether a file lies in memory.
func inMemory(raw syscall.RawConn) (is bool) {
	raw.Control(func(fd uintptr) {
		var s unix.Statfs_t
		is = unix.Fstatfs(int(fd), &s) == nil && s.Type == unix.TMPFS_MAGIC
	})
	return is
}
