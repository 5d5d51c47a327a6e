package landing

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// fallocate gives f its size and its blocks. The error is
// errors.ErrUnsupported if the file system cannot.
func fallocate(f *os.File, size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
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
