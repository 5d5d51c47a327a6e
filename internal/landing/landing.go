// Package landing is how an object arrives on a disk: whole and verified, or
// not at all. (Of several objects: Tree.)
//
//	Create   parents made, ".NAME.JOB.part" beside the destination, its space
//	   │     allocated or, where that takes long, begun to be (space): a full
//	   │     disk is found before a byte has moved, or soon after
//	WriteAt  blocks at their final offsets, in any order
//	   │
//	Commit ─ fsync, rename over the destination, fsync of the directory; what
//	   │     arrived is remembered, so that Held knows it the next time
//	Abort  ─ part file gone, and the parents that were made for it
//
// A node writes only under its roots. Each is an os.Root: neither ".." nor a
// symbolic link leads out of it, also if somebody changes the tree meanwhile.
//
// A part file is written down in the state directory before it is made. What a
// killed process left is therefore known by name and inode, and Sweep removes
// that and nothing else.
package landing

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/freshet/freshet/unit"
)

// ErrBusy says that another job writes the same destination. The text of an
// error that wraps it names that job.
var ErrBusy = errors.New("destination is being written")

// Roots are the directories under which this node may write. All methods may
// be called by several goroutines at once.
type Roots struct {
	roots []root
	state *os.Root
	lock  *os.File

	mu   sync.Mutex        // guards what follows, and is not held while a file system is waited for
	busy map[string]string // destination, symbolic links resolved → job that writes it
	made map[string]bool   // directories made for landings of which none has been committed
	left map[string]entry  // name in the state directory → landing whose files Sweep could not put in their places
}

type root struct {
	dir    string // as given, absolute
	real   string // dir with symbolic links resolved
	inode  uint64 // of the directory
	device uint64 // upon which it lies
	r      *os.Root

	// dirs guards the making and removing of directories below the root, and is locked before Roots.mu. A file system that hangs has it locked for as
	// long. So there is one for all roots of each file system: these may have directories in common, whatever their paths are.
	dirs *sync.Mutex
}

// place is a path under a root.
type place struct {
	root
	path string // absolute
	rel  string // to the root; "." in Writable only
}

func (p place) parent() string { return filepath.Dir(p.rel) }

// OpenRoots opens the roots dirs and the directory in which landings are
// remembered, which it makes if need be. One process at a time can have a
// state directory.
func OpenRoots(dirs []string, stateDir string) (_ *Roots, err error) {
	r := &Roots{busy: map[string]string{}, made: map[string]bool{}, left: map[string]entry{}}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if r.state, err = os.OpenRoot(stateDir); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	for _, d := range []string{journalDir, heldDir} {
		if err := r.state.Mkdir(d, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("state directory %s: %w", stateDir, err)
		}
	}
	if r.lock, err = r.state.OpenFile("landing.lock", os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, fmt.Errorf("state directory %s: %w", stateDir, err)
	}
	err = unix.Flock(int(r.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("state directory %s is in use by another process", stateDir)
	}
	if err != nil {
		return nil, fmt.Errorf("lock state directory %s: %w", stateDir, err)
	}
	r.removeUnfinished()
	for _, dir := range dirs {
		one, err := openRoot(dir)
		if err != nil {
			return nil, err
		}
		r.roots = append(r.roots, one)
	}
	locks := map[uint64]*sync.Mutex{}
	for i, one := range r.roots {
		if locks[one.device] == nil {
			locks[one.device] = new(sync.Mutex)
		}
		r.roots[i].dirs = locks[one.device]
	}
	return r, nil
}

// within says whether a path is another, or lies below it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

func openRoot(dir string) (root, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return root{}, fmt.Errorf("root %s: %w", dir, err)
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return root{}, fmt.Errorf("root %s: %w", dir, reason(err))
	}
	r, err := os.OpenRoot(real)
	if err != nil {
		return root{}, fmt.Errorf("root %s: %w", dir, reason(err))
	}
	info, err := r.Stat(".")
	if err != nil {
		r.Close()
		return root{}, fmt.Errorf("root %s: %w", dir, reason(err))
	}
	return root{dir: abs, real: real, inode: inode(info), device: device(info), r: r}, nil
}

// Close releases the roots and the state directory.
func (r *Roots) Close() error {
	var errs []error
	for _, root := range r.roots {
		errs = append(errs, root.r.Close())
	}
	if r.lock != nil {
		errs = append(errs, r.lock.Close())
	}
	if r.state != nil {
		errs = append(errs, r.state.Close())
	}
	return errors.Join(errs...)
}

// Dirs are the roots as they were given, made absolute.
func (r *Roots) Dirs() []string {
	var dirs []string
	for _, root := range r.roots {
		dirs = append(dirs, root.dir)
	}
	return dirs
}

// locate finds the root of path; the innermost, where roots lie in each other.
func (r *Roots) locate(path string) (place, error) {
	switch {
	case path == "" || strings.ContainsRune(path, 0):
		return place{}, fmt.Errorf("destination %q is not a path", path)
	case !filepath.IsAbs(path):
		return place{}, fmt.Errorf("%s: want an absolute path", path)
	case strings.HasSuffix(path, "/") || strings.HasSuffix(path, "/.") || strings.HasSuffix(path, "/.."):
		return place{}, fmt.Errorf("%s names a directory: add a file name, such as %s", path, filepath.Join(path, "NAME"))
	}
	clean := filepath.Clean(path)
	best, err := r.under(clean)
	if err == nil && best.rel == "." {
		return place{}, fmt.Errorf("%s is a directory: add a file name, such as %s", clean, filepath.Join(clean, "NAME"))
	}
	return best, err
}

// under finds the root of a clean path; the innermost, where roots lie in each other.
func (r *Roots) under(clean string) (best place, err error) {
	found := 0
	for _, root := range r.roots {
		for _, dir := range []string{root.dir, root.real} {
			rel, err := filepath.Rel(dir, clean)
			if err != nil || rel == ".." || strings.HasPrefix(rel, "../") || len(dir) <= found {
				continue
			}
			best, found = place{root: root, path: clean, rel: rel}, len(dir)
		}
	}
	switch {
	case len(r.roots) == 0:
		return place{}, fmt.Errorf("%s: this node has no root under which it may write", clean)
	case found == 0:
		return place{}, fmt.Errorf("%s is outside the roots of this node (%s): choose a place below one, or start its agent with another --root", clean, strings.Join(r.Dirs(), ", "))
	}
	return best, nil
}

// occupant is what lies at the destination: nil, or a regular file. Anything
// else cannot be replaced and is an error.
func (p place) occupant() (fs.FileInfo, error) {
	info, err := p.r.Lstat(p.rel)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, p.wrap(err)
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory: add a file name, such as %s", p.path, filepath.Join(p.path, "NAME"))
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("%s is a symbolic link, which is not replaced: name the file that it points to", p.path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s exists and is not a regular file (%v)", p.path, info.Mode().Type())
	}
	return info, nil
}

// ancestor is the innermost directory above the destination that exists.
func (p place) ancestor() (string, error) {
	for dir := p.parent(); ; dir = filepath.Dir(dir) {
		info, err := p.r.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return "", fmt.Errorf("%s: %s is not a directory", p.path, filepath.Join(p.dir, dir))
		case err == nil:
			return dir, nil
		case !errors.Is(err, fs.ErrNotExist) || dir == ".":
			return "", p.wrap(err)
		}
	}
}

// key is the destination's in Roots.busy: its path with symbolic links resolved as far as it is there. above is its ancestor.
func (p place) key() (key, above string, err error) {
	if above, err = p.ancestor(); err != nil {
		return "", "", err
	}
	real, err := filepath.EvalSymlinks(filepath.Join(p.real, above))
	if err != nil {
		return "", "", p.wrap(err)
	}
	below, err := filepath.Rel(above, p.rel)
	if err != nil {
		return "", "", p.wrap(err)
	}
	return filepath.Join(real, below), above, nil
}

// wrap names the path, and says in plain words what is usual. Nil stays nil.
func (p place) wrap(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s: the file system is read-only: %w", p.path, reason(err))
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: this node may not write there: %w", p.path, reason(err))
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fmt.Errorf("%s: a name on the path is too long: %w", p.path, reason(err))
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s: a part of the path is a file, not a directory: %w", p.path, reason(err))
	case strings.Contains(err.Error(), "path escapes from parent"): // os.Root's, not exported
		return fmt.Errorf("%s: a symbolic link on the path leads out of the root %s", p.path, p.dir)
	}
	return fmt.Errorf("%s: %w", p.path, reason(err))
}

// explain wraps an error of writing, and says for a full disk how much is needed and how much is free in dir.
func (p place) explain(err error, needs unit.Bytes, dir string) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) && !errors.Is(err, syscall.EFBIG) {
		return p.wrap(err)
	}
	room := ""
	if free, err := p.free(dir); err == nil {
		room = fmt.Sprintf(", %v free", free)
	}
	return fmt.Errorf("%s: needs %v%s: %w", p.path, needs, room, reason(err))
}

// reason is err without the operation and the path that a *fs.PathError adds,
// where the message has them already, and without the name of a system call.
func reason(err error) error {
	if perr, ok := errors.AsType[*fs.PathError](err); ok {
		err = perr.Err
	} else if lerr, ok := errors.AsType[*os.LinkError](err); ok {
		err = lerr.Err
	}
	if serr, ok := errors.AsType[*os.SyscallError](err); ok {
		err = serr.Err
	}
	return err
}

// probes counts the calls of probe: each has a name of its own, since there may be several at once.
var probes atomic.Uint64

// probe makes a file in a directory below the root, and removes it: permissions, mounts
// and quotas have more ways to forbid writing than one could ask for. What has its name
// is removed and not opened: a killed process of our number has left it, or somebody put a pipe there.
func (p place) probe(dir string) error {
	name := filepath.Join(dir, fmt.Sprintf(".freshet-check.%d.%d", os.Getpid(), probes.Add(1)))
	p.r.Remove(name) // or it is still there, which opening it finds out
	f, err := p.r.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return p.wrap(err)
	}
	if err := errors.Join(f.Close(), p.r.Remove(name)); err != nil {
		return p.wrap(err)
	}
	return nil
}

// Writable says whether files can be made in a root, one of Dirs, and how
// much an ordinary user can write there. It waits for nobody who makes or removes
// directories: the root stays.
func (r *Roots) Writable(dir string) (free unit.Bytes, err error) {
	for _, root := range r.roots {
		if root.dir != dir {
			continue
		}
		p := place{root: root, path: dir, rel: "."} // not a destination: nothing is to land there
		if err := p.probe("."); err != nil {
			return 0, err
		}
		return p.free(".")
	}
	return 0, fmt.Errorf("%s is no root of this node (%s)", dir, strings.Join(r.Dirs(), ", "))
}

// Check says whether a file could land at path. It tries.
func (r *Roots) Check(path string) error {
	p, err := r.locate(path)
	if err != nil {
		return err
	}
	if _, err := p.occupant(); err != nil {
		return err
	}
	p.dirs.Lock()
	defer p.dirs.Unlock()
	if err := r.finish(p); err != nil {
		return err
	}
	dir, err := p.ancestor()
	if err != nil {
		return err
	}
	return p.probe(dir)
}

// Free is how much can be written at path by an ordinary user.
func (r *Roots) Free(path string) (unit.Bytes, error) {
	p, err := r.locate(path)
	if err != nil {
		return 0, err
	}
	dir, err := p.ancestor()
	if err != nil {
		return 0, err
	}
	return p.free(dir)
}

// free is what is left on the file system of a directory below the root.
func (p place) free(dir string) (unit.Bytes, error) {
	d, err := p.r.Open(dir)
	if err != nil {
		return 0, p.wrap(err)
	}
	defer d.Close()
	free, err := freeSpace(d)
	if err != nil {
		return 0, p.wrap(err)
	}
	return free, nil
}

// freeSpace is what is left on the file system of f.
func freeSpace(f *os.File) (unit.Bytes, error) {
	var s unix.Statfs_t
	for {
		err := unix.Fstatfs(int(f.Fd()), &s)
		if err == nil {
			return unit.Bytes(s.Bavail) * unit.Bytes(s.Bsize), nil
		}
		if err != unix.EINTR {
			return 0, err
		}
	}
}

// What a landing asks of the file system, in the order of its use. Variables,
// so that tests can see the order and be a file system that cannot allocate.
var (
	allocate  = fallocate
	syncFile  = (*os.File).Sync
	rename    = renameBetween
	removeAll = (*os.Root).RemoveAll
	copySome  = io.CopyN
)
