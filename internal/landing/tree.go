package landing

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/freshet/freshet/unit"
)

// TreeFile is a file of a Tree.
type TreeFile struct {
	Name    string // path below the tree's directory, with slashes
	Size    unit.Bytes
	Version string // token of the version of its object, as the store gave it
	Kept    bool   // it is in its place already, as HeldFiles says, and need not land
}

// Tree is files that land together below a directory. To who writes and reads they lie one behind the other, as
// one file would. WriteAt and ReadAt may be called by several goroutines at once, and not after the one that calls Abort
// or Close. Whoever created it calls Close in the end, whatever came before.
//
//	DIR/.freshet.JOB.part/0, 1, 2, …   the files while they land, their space taken as a File's
//	DIR/NAME                           after Commit, all of them; before it none
//
// Who may write in DIR may give the name of the directory of part files to another. So that is opened once, when it is made, and part files are
// made, opened, renamed and removed through it; one that is opened again has to be the one that was made.
//
// Files that belong together are of use together: half of a new model beside half of the old one is worse than the old one. So none
// is put in its place before all are whole and synced. Then they are renamed one after the other, which takes some microseconds
// each. If the process is killed just then the journal has all names, and Sweep goes on where it ended: forward, not back. The names are on
// the disk before the first of them is there, and so are the directories.
//
// Other files in DIR stay. A directory that has not been there could be renamed as a whole, and more cheaply; that would be another way
// for the first time than for all others.
type Tree struct {
	r       *Roots
	dir     place // its rel may be "."
	job     string
	source  string // URL of what the files lie below
	files   []TreeFile
	ends    []int64       // by file: where it ends
	part    string        // directory of the part files, relative to the root; empty: they were in their place before
	parts   *os.Root      // that directory, whatever has its name now
	made    []fs.FileInfo // by file: its part file as it was made; open.mu guards it once there are others who use the tree
	keys    []string
	entry   string
	note    entry
	written []atomic.Int64 // by file
	space   space
	open    handles

	stage
}

// tree is a Tree of which nothing has been made.
func (r *Roots) tree(dir string, files []TreeFile) (*Tree, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("destination %q: want an absolute path", dir)
	}
	p, err := r.under(filepath.Clean(dir))
	if err != nil {
		return nil, err
	}
	t := &Tree{r: r, dir: p, files: files, made: make([]fs.FileInfo, len(files)), written: make([]atomic.Int64, len(files))}
	t.open = handles{by: map[int]*handle{}, copies: map[int]*copying{}}
	at := int64(0)
	for _, f := range files {
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) || f.Size < 0 {
			return nil, fmt.Errorf("%s: %q, of %d bytes, cannot be a file below it", p.path, f.Name, f.Size)
		}
		at += int64(f.Size)
		t.ends = append(t.ends, at)
	}
	return t, nil
}

// place is where file i is to land.
func (t *Tree) place(i int) place {
	name := filepath.FromSlash(t.files[i].Name)
	return place{root: t.dir.root, path: filepath.Join(t.dir.path, name), rel: filepath.Join(t.dir.rel, name)}
}

// occupants are what lies at the destinations; nil where there is nothing.
func (t *Tree) occupants() ([]fs.FileInfo, error) {
	infos := make([]fs.FileInfo, len(t.files))
	for i := range t.files {
		info, err := t.place(i).occupant()
		if err != nil {
			return nil, err
		}
		infos[i] = info
	}
	return infos, nil
}

// CheckTree says whether files could land below dir. It tries with one.
func (r *Roots) CheckTree(dir string, files []TreeFile) error {
	t, err := r.tree(dir, files)
	if err != nil {
		return err
	}
	if _, err := t.occupants(); err != nil {
		return err
	}
	t.dir.dirs.Lock()
	defer t.dir.dirs.Unlock()
	if err := r.finish(t.dir); err != nil {
		return err
	}
	keys, err := t.places()
	if err != nil {
		return err
	}
	r.mu.Lock()
	err = r.taken(keys, t.place)
	r.mu.Unlock()
	if err != nil {
		return err
	}
	at := t.staged("check")
	above, err := at.ancestor()
	if err != nil {
		return err
	}
	return at.probe(above)
}

// staged is the place of a job's directory of part files.
func (t *Tree) staged(job string) place {
	return place{root: t.dir.root, path: t.dir.path, rel: filepath.Join(t.dir.rel, ".freshet."+job+".part")}
}

// places are the keys of the files in r.busy.
func (t *Tree) places() (keys []string, err error) {
	real := map[string]string{} // directories, as far as they are there with symbolic links resolved
	seen := map[string]bool{}
	for i := range t.files {
		p := t.place(i)
		dir, ok := real[p.parent()]
		if !ok {
			key, _, err := p.key()
			if err != nil {
				return nil, err
			}
			dir = filepath.Dir(key)
			real[p.parent()] = dir
		}
		key := filepath.Join(dir, filepath.Base(p.rel))
		if seen[key] {
			return nil, fmt.Errorf("%s: a symbolic link makes it the same file as another of the job", p.path)
		}
		seen[key] = true
		keys = append(keys, key)
	}
	return keys, nil
}

// CreateTree makes the part files of files of source that are to land below dir. The error is ErrBusy if another landing
// for one of them is under way, and a *ChangedError if one that is kept is not held. If the disk has no room the error says how much is needed and how much is free, and nothing is left behind.
func (r *Roots) CreateTree(job, dir, source string, files []TreeFile) (*Tree, error) {
	if err := checkJob(job); err != nil {
		return nil, err
	}
	t, err := r.tree(dir, files)
	if err != nil {
		return nil, err
	}
	there, err := t.occupants()
	if err != nil {
		return nil, err
	}
	t.job, t.source = job, source
	if err := t.make(); err != nil {
		return nil, err
	}
	t.open.open = t.openFile
	if err := t.keep(there); err != nil {
		return nil, errors.Join(err, t.Abort())
	}
	if err := t.reserve(); err != nil {
		return nil, errors.Join(err, t.Abort())
	}
	return t, nil
}

// keep notes what the files that are kept are now, and sees that they are held.
func (t *Tree) keep(there []fs.FileInfo) error {
	t.open.kept = make([]fs.FileInfo, len(t.files))
	if !slices.ContainsFunc(t.files, func(f TreeFile) bool { return f.Kept }) {
		return nil
	}
	held, err := t.recorded(t.source, there)
	if err != nil {
		return err
	}
	for i, f := range t.files {
		if !f.Kept {
			continue
		}
		if !held[i] {
			return &ChangedError{t.place(i).path}
		}
		t.open.kept[i] = there[i]
	}
	return nil
}

// make takes the destinations, and makes the directory of the part files and those above it. After an error nothing of that is left.
func (t *Tree) make() (err error) {
	r, p := t.r, t.staged(t.job)
	p.dirs.Lock()
	defer p.dirs.Unlock()
	if err := r.finish(t.dir); err != nil {
		return err
	}
	if t.keys, err = t.places(); err != nil {
		return err
	}
	above, err := p.ancestor()
	if err != nil {
		return err
	}
	if err := r.claim(t.job, t.keys, t.place); err != nil {
		return err
	}
	t.part = p.rel
	t.note = entry{Job: t.job, Root: p.real, Part: t.part, Tree: true}
	t.entry = t.note.name()
	err = r.begin(p, above, &t.note, func() (info fs.FileInfo, err error) {
		if err = p.r.Mkdir(t.part, 0o700); err != nil {
			return nil, err
		}
		if t.parts, info, err = openDir(p.r, t.part); err != nil {
			p.r.Remove(t.part)
		}
		return info, err
	})
	if err != nil {
		if t.parts != nil {
			t.parts.Close()
		}
		r.unclaim(t.keys)
	}
	return err
}

// size is that of all files.
func (t *Tree) size() unit.Bytes {
	if len(t.ends) == 0 {
		return 0
	}
	return unit.Bytes(t.ends[len(t.ends)-1])
}

// needs is how much is to land.
func (t *Tree) needs() (n unit.Bytes) {
	for _, f := range t.files {
		if !f.Kept {
			n += f.Size
		}
	}
	return n
}

// openFile opens file i where it is now. was is what it is if it is in its place, and nil of a part file.
func (t *Tree) openFile(i int) (f *os.File, was fs.FileInfo, err error) {
	p := t.place(i)
	infos := t.open.infos
	if t.part != "" && t.open.kept[i] != nil {
		infos = t.open.kept
	} else if t.part != "" && !t.open.moved { // in a directory that is gone NFS finds a stale handle
		f, err := t.openPart(i)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return f, nil, p.wrap(err)
		}
	}
	if infos == nil {
		return nil, nil, fmt.Errorf("%s: the part file is gone: somebody has removed it", p.path)
	}
	f, err = p.r.OpenFile(p.rel, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO would block
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &ChangedError{p.path}
	}
	if err != nil {
		return nil, nil, p.wrap(err)
	}
	if err := p.unchanged(f, infos[i]); err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, infos[i], nil
}

// same says whether two infos are of one file that nobody has written to in between. The number of a file may be given to another.
func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// each calls f for each file that has some of the n bytes behind off: in is where they begin in it, and lo ≤ x < hi which of the n they are.
func (t *Tree) each(off int64, n int, f func(i int, in int64, lo, hi int) error) error {
	i := sort.Search(len(t.ends), func(i int) bool { return t.ends[i] > off })
	for lo := 0; lo < n; i++ {
		start := t.ends[i] - int64(t.files[i].Size)
		hi := int(min(int64(n), t.ends[i]-off))
		if hi == lo { // an empty one
			continue
		}
		if err := f(i, off+int64(lo)-start, lo, hi); err != nil {
			return err
		}
		lo = hi
	}
	return nil
}

// WriteAt writes b at off, which must lie within the size: offsets may come from a peer.
func (t *Tree) WriteAt(b []byte, off int64) (n int, err error) {
	if off < 0 || off > int64(t.size()) || int64(len(b)) > int64(t.size())-off {
		return 0, fmt.Errorf("%s: %d bytes at %d do not lie within %d", t.dir.path, len(b), off, t.size())
	}
	if t.part == "" {
		return 0, fmt.Errorf("%s: the files were here before the job and are not written to", t.dir.path)
	}
	if err := t.space.err(); err != nil {
		return 0, t.explain(t.dir, err)
	}
	err = t.each(off, len(b), func(i int, in int64, lo, hi int) error {
		if err := t.land(i); err != nil {
			return err
		}
		h, err := t.open.take(i)
		if err != nil {
			return err
		}
		defer t.open.give(h)
		k, err := h.f.WriteAt(b[lo:hi], in)
		n += k
		if now := t.written[i].Add(int64(k)); now/writebackEvery != (now-int64(k))/writebackEvery {
			startWriteback(h.f.File)
		}
		return t.explain(t.place(i), err)
	})
	return n, err
}

// land makes a part file, a copy, of a file that was kept and is written to all the same: it is not what it should be. Who comes while it is
// copied waits for that, and has its error. Other files are read and written meanwhile, and this one is read as it was.
func (t *Tree) land(i int) error {
	c, first, err := t.open.copyOf(i)
	if c == nil {
		return err
	}
	if first {
		t.open.copied(i, c, t.copyKept(i))
	}
	<-c.done
	return c.err
}

// StopCopies has what is to be written to files that were kept fail instead of being waited for, while these are copied or later. All else goes on.
func (t *Tree) StopCopies() {
	t.open.mu.Lock()
	defer t.open.mu.Unlock()
	t.open.hurry = true
}

// ReadAt reads what was written, also after Commit. As of io.ReaderAt the error is io.EOF at the end. It is a *ChangedError where a
// file that is in its place may be another by now.
func (t *Tree) ReadAt(b []byte, off int64) (n int, err error) {
	if off < 0 || off > int64(t.size()) {
		return 0, fmt.Errorf("%s: nothing lies at %d of %d", t.dir.path, off, t.size())
	}
	have := int(min(int64(len(b)), int64(t.size())-off))
	err = t.each(off, have, func(i int, in int64, lo, hi int) error {
		h, err := t.open.take(i)
		if err != nil {
			return err
		}
		defer t.open.give(h)
		k, err := h.f.ReadAt(b[lo:hi], in)
		if h.was != nil {
			if err := t.place(i).unchanged(h.f.File, h.was); err != nil { // the bytes count only if it was the same file until now
				return err
			}
		}
		n += k
		if k == hi-lo {
			return nil
		}
		if err == io.EOF { // which it must not say before the end of all
			err = io.ErrUnexpectedEOF
		}
		return t.place(i).wrap(err)
	})
	if err == nil && have < len(b) {
		err = io.EOF
	}
	return n, err
}

// Commit puts all files in their places: when it returns nil they are there, whole, and stay there if the
// power fails; what others have put among the part files and cannot be removed is left for Sweep. Files that were there before are replaced and leave their permissions and owners as a File's do. After an error
// none has been replaced, unless the text says so. The files may still be read.
func (t *Tree) Commit() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != landing {
		return fmt.Errorf("%s: commit after commit or abort", t.dir.path)
	}
	t.space.end()
	if err := t.inPlace(); err != nil { // another start would not find what is to be put in its place
		return err
	}
	infos, err := t.sync()
	if err != nil {
		return err
	}
	if err := t.inPlace(); err != nil { // to sync may have taken minutes
		return err
	}
	dirs := t.dirs()
	var fresh []string
	defer func() {
		if t.state != landing {
			return
		}
		t.dir.dirs.Lock()
		defer t.dir.dirs.Unlock()
		t.r.removeEmpty(t.dir, fresh)
	}()
	if fresh, err = t.makeDirs(dirs); err != nil {
		return err
	}
	made := slices.Concat(t.note.Made, fresh, []string{t.part})
	if err := syncBelow(t.parts, "."); err != nil {
		return fmt.Errorf("sync directory of %w", t.dir.wrap(err))
	}
	unsynced := map[string]bool{}
	for _, d := range made {
		unsynced[filepath.Dir(d)] = true
	}
	for d := range unsynced {
		if err := syncDir(t.dir, d); err != nil {
			return err
		}
	}
	t.note.Names = nil
	for i, f := range t.files {
		if t.open.isKept(i) != nil {
			f.Name = "" // it is there
		}
		t.note.Names = append(t.note.Names, f.Name)
	}
	t.open.placed(infos)
	if err := t.r.writeEntry(t.entry, t.note); err != nil { // from here on it goes forward
		return err
	}
	if err := syncBelow(t.r.state, journalDir); err != nil { // where the state is on another disk no order holds between the two
		t.note.Names = nil // not to be gone on with at the next start
		return errors.Join(fmt.Errorf("write down landing: %w", err), t.r.writeEntry(t.entry, t.note))
	}
	for i := range t.files {
		if t.note.Names[i] == "" {
			continue
		}
		p := t.place(i)
		if err := p.move(t.parts, i); err != nil {
			t.note.Names = nil // not to be tried again at the next start
			err = errors.Join(p.wrap(err), t.r.writeEntry(t.entry, t.note))
			if i > 0 {
				err = fmt.Errorf("%d of %d files are the new ones already, and then: %w", i, len(t.files), err)
			}
			return err
		}
	}
	t.state = committed
	t.open.allMoved()
	left := removeDir(t.dir.r, t.part, t.parts)
	t.release(true)
	for _, d := range dirs {
		err = errors.Join(err, syncDir(t.dir, d))
	}
	if err != nil {
		return err
	}
	if err := t.r.rememberTree(t.dir, t.source, t.files, infos); err != nil {
		return err
	}
	if left != nil {
		t.note.Names = nil // they are in their places, and it keeps nothing back
		return t.r.writeEntry(t.entry, t.note)
	}
	return t.r.removeEntry(t.entry)
}

// sync gives the part files their permissions and makes what they hold last, several at a time.
func (t *Tree) sync() ([]fs.FileInfo, error) {
	old, err := t.occupants()
	if err != nil {
		return nil, err
	}
	const atOnce = 16 // their commits to a file system's journal go together
	infos := make([]fs.FileInfo, len(t.files))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i := range t.files {
		g.Go(func() (err error) {
			infos[i], err = t.syncFile(i, old[i])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return infos, nil
}

func (t *Tree) syncFile(i int, old fs.FileInfo) (fs.FileInfo, error) {
	if kept := t.open.isKept(i); kept != nil {
		if old == nil || !same(old, kept) {
			return nil, fmt.Errorf("%s was replaced while the others landed", t.place(i).path)
		}
		return old, nil
	}
	h, err := t.open.take(i)
	if err != nil {
		return nil, err
	}
	defer t.open.give(h)
	p := t.place(i)
	return p.seal(h.f.File, old, t.files[i].Size, func(err error) error { return t.explain(p, err) })
}

// dirs are the directories of the files, and those above them below the root, outermost first.
func (t *Tree) dirs() []string {
	var names []string
	for i := range t.files {
		names = append(names, t.place(i).rel)
	}
	return dirsOf(names)
}

// dirsOf are the directories of files of these names, and those above them, outermost first.
func dirsOf(names []string) []string {
	all := map[string]bool{".": true}
	for _, name := range names {
		for d := filepath.Dir(name); !all[d]; d = filepath.Dir(d) {
			all[d] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Abort leaves nothing behind: the part files go, and those of the directories above them that were made for them and are
// empty. After Commit it does nothing.
func (t *Tree) Abort() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != landing {
		return nil
	}
	t.state = gone
	t.space.end()
	err := errors.Join(t.open.close(), t.dir.wrap(removeDir(t.dir.r, t.part, t.parts)), t.parts.Close())
	t.release(false)
	if err != nil {
		return err // the journal keeps its entry, for Sweep
	}
	return t.r.removeEntry(t.entry)
}

// Close ends the use of the files; those that were not committed are aborted.
func (t *Tree) Close() error { return t.stage.close(t.Abort, t.closeFiles) }

func (t *Tree) closeFiles() error {
	err := t.open.close()
	if t.parts != nil {
		err = errors.Join(err, t.parts.Close())
	}
	return err
}

// makeDirs makes the directories of the files that are not there, and says which. Those that another landing has made are nobody's to remove any more.
func (t *Tree) makeDirs(dirs []string) (fresh []string, err error) {
	t.dir.dirs.Lock()
	defer t.dir.dirs.Unlock()
	for _, d := range dirs {
		if info, err := t.dir.r.Stat(d); err == nil && info.IsDir() {
			continue
		}
		if err := t.dir.r.Mkdir(d, 0o755); err != nil {
			return fresh, t.dir.wrap(err)
		}
		fresh = append(fresh, d)
	}
	t.r.setMade(t.dir, dirs, false)
	return fresh, nil
}

// release lets others land at the same paths. If nothing has landed, the directories that were made go again; otherwise they stay.
func (t *Tree) release(landed bool) {
	t.r.unclaim(t.keys)
	t.r.settle(t.dir, filepath.Dir(t.part), landed)
}

// OpenTree opens files that are all held (HeldFiles), for reading. The error is a *ChangedError if one is not.
func (r *Roots) OpenTree(dir, source string, files []TreeFile) (*Tree, error) {
	t, err := r.tree(dir, files)
	if err != nil {
		return nil, err
	}
	infos, err := t.occupants()
	if err != nil {
		return nil, err
	}
	held, err := t.recorded(source, infos)
	if err != nil {
		return nil, err
	}
	if i := slices.Index(held, false); i >= 0 {
		return nil, &ChangedError{t.place(i).path}
	}
	t.open.open = t.openFile
	t.open.placed(infos)
	t.state = committed
	return t, nil
}
