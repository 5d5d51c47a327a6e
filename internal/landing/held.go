package landing

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/freshet/freshet/unit"
)

// ChangedError says that a file which landed here before is not what landed any more.
type ChangedError struct {
	Path string
}

func (e *ChangedError) Error() string {
	return e.Path + " was written to, replaced or removed after it had landed: broadcast again"
}

// HeldFile is a file that was held when it was opened. ReadAt may be called by several goroutines at once, and not after
// Close. What it returns is of the version that landed: a file that is written over in place is noticed as finely as the file system
// stamps times; one that was replaced by a rename is read on to its end, being still there under its open descriptor.
type HeldFile struct {
	p   place
	f   *os.File
	was fs.FileInfo
}

// OpenHeld opens the file at path for reading. The error is a *ChangedError if it is not held (Held).
func (r *Roots) OpenHeld(path, source, version string, size unit.Bytes) (*HeldFile, error) {
	p, err := r.locate(path)
	if err != nil {
		return nil, err
	}
	f, err := p.r.OpenFile(p.rel, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO would block
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &ChangedError{p.path}
	}
	if err != nil {
		return nil, p.wrap(err)
	}
	info, err := f.Stat() // of what is open: what has the name may be another by now
	if err != nil {
		f.Close()
		return nil, p.wrap(err)
	}
	held, err := r.recorded(p, info, source, version, size)
	if err == nil && !held {
		err = &ChangedError{p.path}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &HeldFile{p: p, f: f, was: info}, nil
}

// ReadAt reads what landed. The error is a *ChangedError if the file may be another by now.
func (h *HeldFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := h.f.ReadAt(b, off)
	if changed := h.p.unchanged(h.f, h.was); changed != nil { // the bytes count only if it was the same file until now
		return 0, changed
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		err = h.p.wrap(err)
	}
	return n, err
}

// WriteAt is an error.
func (h *HeldFile) WriteAt([]byte, int64) (int, error) {
	return 0, fmt.Errorf("%s: the file was here before the job and is not written to", h.p.path)
}

// SyscallConn is the file as the system knows it, to be read from. Nobody sees then whether it changes.
func (h *HeldFile) SyscallConn() (syscall.RawConn, error) { return h.f.SyscallConn() }

// Close ends the use of the file.
func (h *HeldFile) Close() error { return h.f.Close() }

// unchanged is an error unless an open file is what it was.
func (p place) unchanged(f *os.File, was fs.FileInfo) error {
	info, err := f.Stat()
	if err == nil && !same(info, was) {
		return &ChangedError{p.path}
	}
	return p.wrap(err)
}
