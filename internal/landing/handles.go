package landing

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
)

// mostOpen is how many files of a tree are open at a time, but for those that are just being used.
const mostOpen = 64

// handles are the open files of a tree: those that were used last.
type handles struct {
	open func(i int) (*os.File, fs.FileInfo, error)

	mu     sync.Mutex // guards what follows
	by     map[int]*handle
	copies map[int]*copying // of files that are kept
	infos  []fs.FileInfo    // of the files in their places
	moved  bool             // all have left the directory of part files, which is gone
	kept   []fs.FileInfo    // by file: what it was when it was kept; nil: it lands
	used   int              // how often any has been taken
	closed bool
	hurry  bool // nothing is copied any more
}

type handle struct {
	f     direct
	was   fs.FileInfo // what the file was when it was kept, or put in its place; nil: it is a part file
	users int
	last  int  // handles.used when it was taken
	gone  bool // nobody takes it any more: the last user closes it
}

// copying is under way of a file that is kept and is to be written to. Nobody waits for it with the mutex.
type copying struct {
	done chan struct{} // closed when err is there
	err  error
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

// copyOf is the copying of file i. The first to come has to do it and to call copied; it is nil if the file is not kept, or with an error.
func (h *handles) copyOf(i int) (c *copying, first bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kept[i] == nil {
		return nil, false, nil
	}
	if c := h.copies[i]; c != nil {
		return c, false, nil
	}
	if h.closed || h.hurry {
		return nil, false, fs.ErrClosed
	}
	c = &copying{done: make(chan struct{})}
	h.copies[i] = c
	return c, true, nil
}

// copied says that the part file of file i is there, or why not.
func (h *handles) copied(i int, c *copying, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.copies, i)
	if err == nil {
		h.kept[i] = nil
		h.forget(i)
	}
	c.err = err
	close(c.done)
}

// ended says whether nothing is to be copied any more: all is closed, or is about to be.
func (h *handles) ended() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed || h.hurry
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

// close closes all, when no file is copied any more.
func (h *handles) close() (err error) {
	h.mu.Lock()
	h.closed = true
	copies := slices.Collect(maps.Values(h.copies))
	h.mu.Unlock()
	for _, c := range copies {
		<-c.done
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, x := range h.by {
		err = errors.Join(err, x.f.Close())
	}
	clear(h.by)
	return err
}
