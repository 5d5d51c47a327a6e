package landing

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// The part files of a Tree, in a directory that is opened once and no more found by its name.

// makePart makes the part file of file i. The mutex of open is held, or nobody else uses the tree yet.
func (t *Tree) makePart(i int) (*os.File, error) {
	f, err := t.parts.OpenFile(strconv.Itoa(i), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if t.made[i], err = f.Stat(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openPart opens the part file of file i, which has to be the one that was made: what is written to it, and which owner it gets, is meant
// for no other.
func (t *Tree) openPart(i int) (*os.File, error) {
	f, err := t.parts.OpenFile(strconv.Itoa(i), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(info, t.made[i]) {
		err = errReplaced
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// copyKept makes the part file of file i, which is kept, and copies to it what the file holds. After an error there is none.
func (t *Tree) copyKept(i int) error {
	p := t.place(i)
	from, to, was, err := t.openCopy(i)
	if err != nil {
		return err
	}
	defer from.Close()
	err = errors.Join(t.fill(to, from), to.Close())
	changed := p.unchanged(from, was)
	if err == nil && changed == nil {
		return nil
	}
	t.parts.Remove(strconv.Itoa(i)) // before it is said how much is free
	return cmp.Or(p.explain(err, t.files[i].Size, t.part), changed)
}

// openCopy opens file i, which is kept and was what it says, and makes its part file.
func (t *Tree) openCopy(i int) (from, to *os.File, was fs.FileInfo, err error) {
	t.open.mu.Lock()
	defer t.open.mu.Unlock()
	if from, was, err = t.openFile(i); err != nil {
		return nil, nil, nil, err
	}
	if to, err = t.makePart(i); err != nil {
		from.Close()
		return nil, nil, nil, t.place(i).explain(err, t.files[i].Size, t.part)
	}
	return from, to, was, nil
}

// fill copies a file by steps: soon after the tree is ended it ends.
func (t *Tree) fill(to, from *os.File) error {
	for {
		_, err := copySome(to, from, writebackEvery)
		if err == io.EOF {
			return nil
		}
		if err == nil && t.open.ended() {
			err = fs.ErrClosed
		}
		if err != nil {
			return err
		}
		startWriteback(to)
	}
}

// reserve makes the part files, with their sizes and, where the file system can, their space, or begins to: that of small ones as they are made, that of
// the others behind it.
func (t *Tree) reserve() error {
	if free, err := t.dir.free(t.part); err == nil && free < t.needs() {
		return t.explain(t.dir, syscall.ENOSPC)
	}
	for i, k := range t.files {
		if k.Kept {
			continue
		}
		f, err := t.makePart(i)
		if err == nil {
			err = f.Truncate(int64(k.Size))
			if err == nil && k.small() {
				err = allocate(f, 0, int64(k.Size))
			}
			if errors.Is(err, errors.ErrUnsupported) {
				err = nil
			}
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return t.explain(t.place(i), err)
		}
	}
	t.space = space{size: int64(t.size()), take: t.allocate}
	return t.explain(t.dir, t.space.begin())
}

// small says that space for a file is taken with its being made.
func (f TreeFile) small() bool { return f.Size <= firstStep }

// allocate takes the space of n bytes from off on, as far as they are of files that have none yet.
func (t *Tree) allocate(off, n int64) error {
	return t.each(off, int(n), func(i int, in int64, lo, hi int) error {
		if t.files[i].Kept || t.files[i].small() {
			return nil
		}
		h, err := t.open.take(i)
		if err != nil {
			return err
		}
		defer t.open.give(h)
		return allocate(h.f.File, in, int64(hi-lo))
	})
}

func (t *Tree) explain(p place, err error) error {
	if err == nil { // the usual case; needs looks at all files
		return nil
	}
	return p.explain(err, t.needs(), t.part)
}

// inPlace is an error unless the directory of the part files still has its name.
func (t *Tree) inPlace() error {
	if _, err := named(t.dir.r, t.part, t.parts); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(t.dir.path, filepath.Base(t.part)), reason(err))
	}
	return nil
}
