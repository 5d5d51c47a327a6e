package landing

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// fallocate gives n bytes of f from off on their blocks. The error is
// errors.ErrUnsupported if the file system cannot.
func fallocate(f *os.File, off, n int64) error {
	if n == 0 {
		return nil
	}
	for {
		err := unix.Fallocate(int(f.Fd()), 0, off, n)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return errors.ErrUnsupported
		}
		return err
	}
}

// startWriteback has the kernel write what is dirty of f, and waits only if
// the device's queue is full. It is a hint: errors of writing are Sync's.
func startWriteback(f *os.File) {
	unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
}
