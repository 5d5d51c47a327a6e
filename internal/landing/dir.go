package landing

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// errReplaced says that a name is not that of what was made under it.
var errReplaced = errors.New("somebody has removed what was made for the job, or put something else in its place")

// openDir opens a directory below a root, and says what it is. That its name is a symbolic link is an error.
func openDir(r *os.Root, name string) (*os.Root, fs.FileInfo, error) {
	dir, err := r.OpenRoot(name + "/.") // which does not wait at a pipe, as the name alone would
	if err != nil {
		return nil, nil, err
	}
	info, err := named(r, name, dir)
	if err != nil {
		dir.Close()
		return nil, nil, err
	}
	return dir, info, nil
}

// named says what an open directory is. It is errReplaced if another, or a symbolic link, has its name below r.
func named(r *os.Root, name string, dir *os.Root) (fs.FileInfo, error) {
	is, err := dir.Stat(".")
	if err != nil {
		return nil, err
	}
	now, err := r.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(now, is) {
		err = errReplaced
	}
	return is, err
}

// removeDir removes what is in an open directory, be it what others have put there, and then the directory if it has its name below r; what has that
// name otherwise is somebody else's.
func removeDir(r *os.Root, name string, dir *os.Root) error {
	files, err := fs.ReadDir(dir.FS(), ".")
	if errors.Is(err, fs.ErrNotExist) { // as of a directory that was removed
		err = nil
	}
	for _, f := range files {
		err = cmp.Or(err, removeAll(dir, f.Name()))
	}
	if err != nil {
		return err
	}
	if _, err := named(r, name, dir); err != nil {
		if err == errReplaced {
			return nil
		}
		return err
	}
	return r.Remove(name)
}

// move puts part file i of an open directory in its place.
func (p place) move(parts *os.Root, i int) error {
	to, err := p.r.OpenRoot(p.parent() + "/.")
	if err != nil {
		return err
	}
	defer to.Close()
	return rename(parts, strconv.Itoa(i), to, filepath.Base(p.rel))
}

// renameBetween moves a file from one open directory into another, whoever has their names by now.
func renameBetween(from *os.Root, name string, to *os.Root, as string) error {
	a, err := from.Open(".")
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := to.Open(".")
	if err != nil {
		return err
	}
	defer b.Close()
	return unix.Renameat(int(a.Fd()), name, int(b.Fd()), as)
}
