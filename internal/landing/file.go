package landing

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"unicode/utf8"

	"github.com/freshet/freshet/unit"
)

// Meta says which version of what has landed.
type Meta struct {
	Source  string // URL of the object
	Version string // token of its version, as the store gave it
}

// File is an object that lands. WriteAt and ReadAt may be called by several
// goroutines at once, and not after the one that calls Abort or Close.
// Whoever created it calls Close in the end, whatever came before.
type File struct {
	r     *Roots
	p     place
	job   string
	size  unit.Bytes
	part  string // relative to the root
	key   string // in r.busy
	entry string // in the journal
	f     direct

	written atomic.Int64 // bytes
	space   space

	stage
}

// stage is how far a landing has come.
type stage struct {
	mu    sync.Mutex // guards state, and makes Commit, Abort and Close take turns
	state state
}

type state int

const (
	landing state = iota
	committed
	gone
)

// maxNameBytes is NAME_MAX of all file systems in use.
const maxNameBytes = 255

// writebackEvery is after how many bytes the system is told to start writing
// them to the disk, so that Commit does not find all of them waiting. Of
// 512 MiB that came in at 1 Gbit/s in any order, Commit took 100 ms instead of
// 290 (BenchmarkCommit, ext4 on a virtual disk).
const writebackEvery = 8 << 20

// partName is ".NAME.JOB.part", with less of NAME and a digest of it where
// that would be too long for a file name.
func partName(name, job string) string {
	tail := "." + job + ".part"
	if 1+len(name)+len(tail) <= maxNameBytes {
		return "." + name + tail
	}
	tail = fmt.Sprintf("~%x%s", sha256.Sum256([]byte(name)), tail)
	const hexLeft = 8
	tail = tail[:1+hexLeft] + tail[1+2*sha256.Size:]
	keep := name[:maxNameBytes-1-len(tail)]
	for len(keep) > 0 && !utf8.RuneStart(name[len(keep)]) {
		keep = keep[:len(keep)-1]
	}
	return "." + keep + tail
}

func checkJob(job string) error {
	if job == "" || len(job) > 64 || strings.ContainsAny(job, "/\x00") {
		return fmt.Errorf("job %q cannot be part of a file name", job)
	}
	return nil
}

// Create makes the part file of an object of size bytes that is to land at
// path. The error is ErrBusy if another landing for that path is under way. If
// the disk has no room the error says how much is needed and how much is free,
// and nothing is left behind.
func (r *Roots) Create(job, path string, size unit.Bytes) (*File, error) {
	if err := checkJob(job); err != nil {
		return nil, err
	}
	p, err := r.locate(path)
	if err != nil {
		return nil, err
	}
	if size < 0 {
		return nil, fmt.Errorf("%s: size %d is negative", p.path, size)
	}
	if _, err := p.occupant(); err != nil {
		return nil, err
	}
	if len(filepath.Base(p.rel)) > maxNameBytes {
		return nil, p.wrap(syscall.ENAMETOOLONG)
	}
	f := &File{r: r, p: p, job: job, size: size, part: filepath.Join(p.parent(), partName(filepath.Base(p.rel), job))}
	if err := f.make(); err != nil {
		return nil, err
	}
	if err := f.explain(f.reserve()); err != nil {
		return nil, errors.Join(err, f.Abort())
	}
	return f, nil
}

// make takes the destination, makes its parents and the part file. After an
// error nothing of that is left.
func (f *File) make() error {
	r, p := f.r, f.p
	p.dirs.Lock()
	defer p.dirs.Unlock()
	if err := r.finish(p); err != nil {
		return err
	}
	key, above, err := p.key()
	if err != nil {
		return err
	}
	f.key = key
	if err := r.claim(f.job, []string{key}, func(int) place { return p }); err != nil {
		return err
	}
	note := entry{Job: f.job, Root: p.real, Part: f.part}
	f.entry = note.name()
	err = r.begin(p, above, &note, func() (info fs.FileInfo, err error) {
		part, err := p.r.OpenFile(f.part, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		f.f = directly(part)
		if info, err = f.f.Stat(); err != nil {
			p.r.Remove(f.part)
		}
		return info, err
	})
	if err != nil {
		f.f.Close() // does nothing to none
		r.unclaim([]string{key})
	}
	return err
}

// claim gives destinations to a job, all or none: the error is ErrBusy if another has one of them. keys are theirs in r.busy, and at says where they are.
func (r *Roots) claim(job string, keys []string, at func(i int) place) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.taken(keys, at); err != nil {
		return err
	}
	for _, key := range keys {
		r.busy[key] = job
	}
	return nil
}

// taken is ErrBusy if a job has one of the destinations. It needs r.mu.
func (r *Roots) taken(keys []string, at func(i int) place) error {
	for i, key := range keys {
		if job, taken := r.busy[key]; taken {
			return fmt.Errorf("%s: %w by job %s", at(i).path, ErrBusy, job)
		}
	}
	return nil
}

// unclaim lets others land there.
func (r *Roots) unclaim(keys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range keys {
		delete(r.busy, key)
	}
}

// reserve gives the part file its size and, where the file system can, its space, or begins to.
func (f *File) reserve() error {
	if free, err := f.p.free(f.p.parent()); err == nil && free < f.size {
		return syscall.ENOSPC
	}
	if err := f.f.Truncate(int64(f.size)); err != nil {
		return err
	}
	f.space = space{size: int64(f.size), take: func(off, n int64) error { return allocate(f.f.File, off, n) }}
	err := f.space.begin()
	if err != nil {
		f.f.Truncate(0) // what was allocated until then is free again, and is to be told so
	}
	return err
}

func (f *File) explain(err error) error { return f.p.explain(err, f.size, f.p.parent()) }

// Path is the destination.
func (f *File) Path() string { return f.p.path }

// Size is the size that the file was created with.
func (f *File) Size() unit.Bytes { return f.size }

// WriteAt writes b at off, which must lie within the size: offsets may come
// from a peer.
func (f *File) WriteAt(b []byte, off int64) (int, error) {
	if off < 0 || off > int64(f.size) || int64(len(b)) > int64(f.size)-off {
		return 0, fmt.Errorf("%s: %d bytes at %d do not lie within %d", f.p.path, len(b), off, f.size)
	}
	if err := f.space.err(); err != nil {
		return 0, f.explain(err)
	}
	n, err := f.f.WriteAt(b, off)
	if now := f.written.Add(int64(n)); now/writebackEvery != (now-int64(n))/writebackEvery {
		startWriteback(f.f.File)
	}
	return n, f.explain(err)
}

// ReadAt reads what was written, also after Commit. As of io.ReaderAt the
// error is io.EOF at the end.
func (f *File) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.f.ReadAt(b, off)
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		err = f.p.wrap(err)
	}
	return n, err
}

// SyscallConn is the file as the system knows it, to be read from.
func (f *File) SyscallConn() (syscall.RawConn, error) { return f.f.SyscallConn() }

// Commit puts the file in its place: when it returns nil the file is there,
// whole, and stays there if the power fails. A file that was there before is
// replaced and leaves its permissions, and its owner and group where this process
// may give files away; otherwise they are 0644, and its own. After an error
// the old file is untouched, unless the error is of the directory's sync or of
// remembering: then the new one is in place. The file may still be read.
func (f *File) Commit(m Meta) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state != landing {
		return fmt.Errorf("%s: commit after commit or abort", f.p.path)
	}
	f.space.end()
	old, err := f.p.occupant()
	if err != nil {
		return err
	}
	info, err := f.p.seal(f.f.File, old, f.size, f.explain)
	if err != nil {
		return err
	}
	if err := f.rename(info); err != nil {
		return f.p.wrap(err)
	}
	f.state = committed
	f.release(true)
	if err := syncDirs(f.p); err != nil {
		return err
	}
	return errors.Join(f.r.remember(f.p, f.key, m, info), f.r.removeEntry(f.entry))
}

// rename gives the part file, which is what info says, its name. Both names are looked up in one directory, which is opened once: who may
// write there and gives the directory's name to another does not have the file land in that.
func (f *File) rename(info fs.FileInfo) error {
	dir, err := f.p.r.OpenRoot(f.p.parent() + "/.")
	if err != nil {
		return err
	}
	defer dir.Close()
	part := filepath.Base(f.part)
	now, err := dir.Lstat(part)
	if err == nil && !os.SameFile(now, info) {
		err = errReplaced
	}
	if err != nil {
		return err
	}
	return rename(dir, part, dir, filepath.Base(f.p.rel))
}

// seal gives a part file the owner and the permissions of what it replaces, makes what it holds last, and returns what it is then.
func (p place) seal(f *os.File, old fs.FileInfo, size unit.Bytes, explain func(error) error) (fs.FileInfo, error) {
	mode := fs.FileMode(0o644)
	if old != nil {
		mode = old.Mode().Perm()
	}
	if err := f.Chmod(mode); err != nil { // while it is ours
		return nil, p.wrap(err)
	}
	if old != nil {
		giveAway(f, old)
	}
	if err := syncFile(f); err != nil {
		return nil, fmt.Errorf("sync %w", explain(err))
	}
	info, err := f.Stat()
	if err != nil {
		return nil, p.wrap(err)
	}
	if info.Size() != int64(size) {
		return nil, fmt.Errorf("%s: the part file has %d bytes instead of %d: somebody else changed it", p.path, info.Size(), size)
	}
	return info, nil
}

// noID stands for owners and groups that have no number here, as in a container (user_namespaces(7)).
const noID = 65534

// giveAway gives a file the owner and the group of another, if this process may, as root's may: who could read the old file can read
// the new one.
func giveAway(f *os.File, to fs.FileInfo) {
	info, err := f.Stat()
	if err != nil {
		return
	}
	is, known := info.Sys().(*syscall.Stat_t)
	want, wanted := to.Sys().(*syscall.Stat_t)
	if known && wanted && (is.Uid != want.Uid || is.Gid != want.Gid) && want.Uid != noID && want.Gid != noID {
		f.Chown(int(want.Uid), int(want.Gid)) // or it stays ours
	}
}

// syncDirs makes the renaming last, and the making of the parents.
func syncDirs(p place) error {
	for dir := p.parent(); ; dir = filepath.Dir(dir) {
		if err := syncDir(p, dir); err != nil || dir == "." {
			return err
		}
	}
}

// syncDir makes last what was renamed and made in a directory.
func syncDir(p place, dir string) error {
	if err := syncBelow(p.r, dir); err != nil {
		return fmt.Errorf("sync directory of %w", p.wrap(err))
	}
	return nil
}

// syncBelow is syncDir below any root.
func syncBelow(r *os.Root, dir string) error {
	d, err := r.Open(dir)
	if err != nil {
		return err
	}
	err = errors.Join(syncFile(d), d.Close())
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) { // some file systems cannot
		return nil
	}
	return err
}

// Abort leaves nothing behind: the part file goes, and those of its parents
// that were made for it and are empty. After Commit it does nothing.
func (f *File) Abort() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state != landing {
		return nil
	}
	f.state = gone
	f.space.end()
	err := f.p.r.Remove(f.part)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	f.release(false)
	if err != nil {
		f.f.Close()
		return f.p.wrap(err) // the journal keeps its entry, for Sweep
	}
	return errors.Join(f.f.Close(), f.r.removeEntry(f.entry))
}

// Close ends the use of the file; one that was not committed is aborted.
func (f *File) Close() error { return f.stage.close(f.Abort, f.f.Close) }

// close ends a landing: with abort, or if it was committed with last.
func (s *stage) close(abort, last func() error) error {
	if err := abort(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != committed {
		return nil
	}
	s.state = gone
	return last()
}

// release lets others land at the same path. If nothing has landed, the
// directories that were made go again; otherwise they stay.
func (f *File) release(landed bool) {
	f.r.unclaim([]string{f.key})
	f.r.settle(f.p, f.p.parent(), landed)
}

// settle leaves the directories that were made, dir and those above it, if something has landed there, and removes them otherwise. Who has landed waits for nobody: what is not empty
// is not removed.
func (r *Roots) settle(p place, dir string, landed bool) {
	var above []string // outermost first
	for d := dir; d != "."; d = filepath.Dir(d) {
		above = append([]string{d}, above...)
	}
	if landed {
		r.setMade(p, above, false)
		return
	}
	p.dirs.Lock()
	defer p.dirs.Unlock()
	r.removeMade(p, above)
}

// setMade notes of directories whether they were made for landings of which none has been committed.
func (r *Roots) setMade(p place, dirs []string, made bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range dirs {
		abs := filepath.Join(p.real, d)
		if made {
			r.made[abs] = true
		} else {
			delete(r.made, abs)
		}
	}
}

// wasMade is what setMade has noted.
func (r *Roots) wasMade(p place, dir string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.made[filepath.Join(p.real, dir)]
}

// removeMade removes those of dirs, outermost first in the list, that were
// made for landings and are empty. It needs p.dirs.
func (r *Roots) removeMade(p place, dirs []string) {
	for i := len(dirs) - 1; i >= 0; i-- {
		if !r.wasMade(p, dirs[i]) {
			continue
		}
		if info, err := p.r.Lstat(dirs[i]); err != nil || !info.IsDir() || p.r.Remove(dirs[i]) != nil {
			return
		}
		r.setMade(p, dirs[i:i+1], false)
	}
}

// removeEmpty removes those of dirs, outermost first in the list, that are empty. What is in use by now is nobody's to remove. It needs p.dirs.
func (r *Roots) removeEmpty(p place, dirs []string) {
	r.setMade(p, dirs, true)
	r.removeMade(p, dirs)
	r.setMade(p, dirs, false)
}

// inode is the number by which a file system knows a file.
func inode(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}

// device is the number of the file system upon which a file lies, as long as that is mounted.
func device(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Dev)
	}
	return 0
}
