package landing

import (
	"errors"
	"io/fs"
	"os"
	"sync"
)

// mostOpen is how many files of a tree are open at a time, but for those that are just being used.
const mostOpen = 64

// handles are the open files of a tree: those that were used last.
type handles struct {
	open func(i int) (*os.File, fs.FileInfo, error)

	mu     sync.Mutex // guards what follows
	by     map[int]*handle
	infos  []fs.FileInfo // of the files in their places
	moved  bool          // all have left the directory of part files, which is gone
	kept   []fs.FileInfo // by file: what it was when it was kept; nil: it lands
	used   int           // how often any has been taken
	closed bool
}

type handle struct {
	f     direct
	was   fs.FileInfo // what the file was when it was kept, or put in its place; nil: it is a part file
	users int
	last  int  // handles.used when it was taken
	gone  bool // nobody takes it any more: the last user closes it
}

func (h *handles) take(i int) (*handle, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.by[i]
	if x == nil {
		if h.closed {
			return nil, fs.ErrClosed
		}
		f, was, err := h.open(i)
		if err != nil {
			return nil, err
		}
		x = &handle{f: directly(f), was: was}
		h.by[i] = x
		h.trim()
	}
	h.used++
	x.users, x.last = x.users+1, h.used
	return x, nil
}

func (h *handles) give(x *handle) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if x.users--; x.gone && x.users == 0 {
		x.f.Close()
	}
	h.trim()
}

// trim closes those that have not been used for longest, as long as there are too many. The mutex is held.
func (h *handles) trim() {
	for len(h.by) > mostOpen {
		oldest := -1
		for i, x := range h.by {
			if x.users == 0 && x.last > 0 && (oldest < 0 || x.last < h.by[oldest].last) {
				oldest = i
			}
		}
		if oldest < 0 {
			return
		}
		h.by[oldest].f.Close() // what was written to it is synced by Commit, over another handle
		delete(h.by, oldest)
	}
}

// placed says what the files in their places are.
func (h *handles) placed(infos []fs.FileInfo) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.infos = infos
}

// allMoved says that no part file is left.
func (h *handles) allMoved() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moved = true
}

// isKept is what a file was when it was kept, or nil.
func (h *handles) isKept(i int) fs.FileInfo {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kept[i]
}

// forget has file i opened anew by who takes it next. The mutex is held.
func (h *handles) forget(i int) {
	x := h.by[i]
	if x == nil {
		return
	}
	delete(h.by, i)
	if x.gone = true; x.users == 0 {
		x.f.Close()
	}
}

func (h *handles) close() (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, x := range h.by {
		err = errors.Join(err, x.f.Close())
	}
	clear(h.by)
	return err
}
