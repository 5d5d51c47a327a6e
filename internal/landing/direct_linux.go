//go:build !race && (amd64 || arm64)

package landing

import (
	"io"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The runtime is told of a call that may wait, to run other things meanwhile; its monitor then wakes and watches the call. For some tens of blocks a second
// that is a fourteenth of all that a node's processor does. A file in memory that is not swapped out has nothing to wait for, but for some milliseconds while
// its space is taken. Of a disk not even RWF_NOWAIT says as much: reading notes the time of access in the journal, and writing waits
// where the file system is frozen for a snapshot; who waits so without telling keeps the whole process waiting.

// ReadAt is os.File's.
func (d direct) ReadAt(b []byte, off int64) (int, error) {
	n := d.call(unix.SYS_PREAD64, b, off)
	if n == len(b) {
		return n, nil
	}
	k, err := d.File.ReadAt(b[n:], off+int64(n))
	return n + k, err
}

// WriteAt is os.File's.
func (d direct) WriteAt(b []byte, off int64) (int, error) {
	n := d.call(unix.SYS_PWRITE64, b, off)
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

// call reads or writes as much of b as it can, of a file in memory. Why it can no more is for the usual way to say.
func (d direct) call(number uintptr, b []byte, off int64) (n int) {
	if !d.memory {
		return 0
	}
	d.raw.Control(func(fd uintptr) {
		for n < len(b) {
			k, _, e := syscall.RawSyscall6(number, fd, uintptr(unsafe.Pointer(&b[n])), uintptr(len(b)-n), uintptr(off)+uintptr(n), 0, 0)
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

// inMemory says whether a file lies in memory, and stays there.
func inMemory(raw syscall.RawConn) (is bool) {
	raw.Control(func(fd uintptr) {
		var file unix.Statfs_t
		var system unix.Sysinfo_t
		is = unix.Fstatfs(int(fd), &file) == nil && file.Type == unix.TMPFS_MAGIC && unix.Sysinfo(&system) == nil && system.Totalswap == 0
	})
	return is
}
