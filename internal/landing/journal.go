package landing

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"

	"github.com/freshet/freshet/unit"
)

// What the state directory holds: one small JSON file a landing under way, and
// one a destination that was committed.
const (
	journalDir = "landings"
	heldDir    = "held"
)

// entry is a landing under way.
type entry struct {
	Job   string   `json:"job"`
	Root  string   `json:"root"`           // symbolic links resolved
	Part  string   `json:"part"`           // relative to the root
	Made  []string `json:"made,omitempty"` // parents that did not exist, outermost first
	Inode uint64   `json:"inode,omitzero"` // of the part file; zero: it was about to be made
	Tree  bool     `json:"tree,omitempty"` // the part file is a directory of several

	// RootInode tells the root from the directory upon which its file system is mounted. The number of the device would
	// not: after a restart many file systems have another. Zero: an older release wrote this.
	RootInode uint64 `json:"root_inode,omitzero"`

	// Names are, while the files of a tree are being put in their places, where they go; below the directory of the part file.
	Names []string `json:"names,omitempty"`
}

// name of the entry's file.
func (e entry) name() string {
	return fmt.Sprintf("%x.json", sha256.Sum256([]byte(e.Root+"\x00"+e.Part)))
}

func (r *Roots) writeEntry(name string, e entry) error {
	if err := r.writeState(filepath.Join(journalDir, name), e); err != nil {
		return fmt.Errorf("write down landing: %w", err)
	}
	return nil
}

// begin writes a landing down, makes the directories between above and its part file, and that with put, which says what it has
// made. After an error nothing of it is left. It needs p.dirs.
func (r *Roots) begin(p place, above string, e *entry, put func() (fs.FileInfo, error)) (err error) {
	e.RootInode = p.inode
	for d := filepath.Dir(e.Part); d != above; d = filepath.Dir(d) {
		e.Made = append([]string{d}, e.Made...)
	}
	if err := r.writeEntry(e.name(), *e); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			r.removeMade(p, e.Made)
			r.removeEntry(e.name())
		}
	}()
	for _, d := range e.Made {
		if err := p.r.Mkdir(d, 0o755); err != nil {
			return p.wrap(err)
		}
		r.setMade(p, []string{d}, true)
	}
	info, err := put()
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %s is there already: another process is landing the same job here", p.path, filepath.Base(e.Part))
	}
	if err != nil {
		return p.wrap(err)
	}
	e.Inode = inode(info)
	if err := r.writeEntry(e.name(), *e); err != nil {
		p.r.Remove(e.Part)
		return p.wrap(err)
	}
	return nil
}

func (r *Roots) removeEntry(name string) error {
	err := r.state.Remove(filepath.Join(journalDir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget landing: %w", err)
	}
	return nil
}

// unfinished ends the names of files of the state directory while they are written.
const unfinished = ".new"

// writeState writes v to a file of the state directory, all or nothing.
func (r *Roots) writeState(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp := path + unfinished
	f, err := r.state.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = r.state.Rename(tmp, path)
	}
	if err != nil {
		r.state.Remove(tmp) // or the next start does
	}
	return err
}

// removeUnfinished removes what a killed process was writing to the state directory. Nobody else is writing there yet.
func (r *Roots) removeUnfinished() {
	for _, dir := range []string{journalDir, heldDir} {
		names, _ := fs.Glob(r.state.FS(), dir+"/*"+unfinished)
		for _, name := range names {
			r.state.Remove(name) // or the next start does
		}
	}
}

// Sweep removes what landings of a killed process left: part files, if they
// are the ones it made, and empty directories that it made for them. Files that were just being put in their places it puts there. Landings
// of roots that this process does not have, or upon which a file system is not mounted yet, wait for one that has. What has landed and is not there any
// more is forgotten. It is called at start; landings under way in this process are not touched. After an error the roots can be used; where files
// could not be put in their places nothing else lands until they can.
func (r *Roots) Sweep() error {
	var errs []error
	for _, step := range []struct {
		dir string
		do  func(name string) error
	}{{journalDir, r.sweepAlone}, {heldDir, r.forgetGone}} {
		names, err := fs.Glob(r.state.FS(), step.dir+"/*.json")
		if err != nil {
			errs = append(errs, fmt.Errorf("sweep: %w", err))
		}
		for _, name := range names {
			if err := step.do(name); err != nil {
				errs = append(errs, fmt.Errorf("sweep: %w", err))
			}
		}
	}
	return errors.Join(errs...)
}

// sweepAlone is sweep for who has not locked the directories of the root.
func (r *Roots) sweepAlone(name string) error {
	e, err := r.readEntry(name)
	if err != nil {
		return err
	}
	if p := r.place(e); p.r != nil {
		p.dirs.Lock()
		defer p.dirs.Unlock()
	}
	return r.sweep(name)
}

// readEntry reads what was written down of a landing: nothing, if a power failure has cut it short.
func (r *Roots) readEntry(name string) (e entry, err error) {
	b, err := r.state.ReadFile(name)
	if err != nil {
		return entry{}, err
	}
	if json.Unmarshal(b, &e) != nil {
		return entry{}, nil
	}
	return e, nil
}

// place is that of the part file of a landing; it has no root if this process does not have it.
func (r *Roots) place(e entry) (p place) {
	for _, root := range r.roots {
		if root.real == e.Root {
			p = place{root: root, path: filepath.Join(root.dir, e.Part), rel: e.Part}
		}
	}
	return p
}

// setLeft notes the landing if it has files that are not in their places, and otherwise that it has none.
func (r *Roots) setLeft(name string, e entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(e.Names) > 0 {
		r.left[name] = e
	} else {
		delete(r.left, name)
	}
}

// sweep is Sweep for one landing. It needs the lock of the directories of its root.
func (r *Roots) sweep(name string) error {
	e, err := r.readEntry(name)
	if err != nil {
		return err
	}
	if e.Part == "" {
		return r.state.Remove(name) // of a power failure: nothing was made after it
	}
	p := r.place(e)
	if p.r == nil || r.active(e) || e.RootInode != 0 && e.RootInode != p.inode {
		return nil
	}
	r.setLeft(name, e)
	info, err := p.r.Lstat(e.Part)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return p.wrap(err)
	case e.Tree:
		placed, err := sweepTree(p, e, info)
		if err != nil && placed && len(e.Names) > 0 { // what cannot be removed keeps nothing back
			e.Names = nil
			r.setLeft(name, e)
			err = errors.Join(err, r.writeEntry(e.name(), e))
		}
		if err != nil {
			return err
		}
	case info.Mode().IsRegular() && (inode(info) == e.Inode || e.Inode == 0 && info.Size() == 0):
		if err := p.r.Remove(e.Part); err != nil {
			return p.wrap(err)
		}
	}
	r.removeEmpty(p, e.Made)
	e.Names = nil
	r.setLeft(name, e)
	return r.state.Remove(name)
}

// finish goes on with what Sweep could not end, before something newer lands at p, which is a file or a tree's directory. Where files of an older job
// still cannot be put in their places in the same directory nothing may: a later start would put them over it. Those of other roots, which may hang, are
// in nobody's way here. It needs p.dirs.
func (r *Roots) finish(p place) error {
	path, _, err := p.key()
	if err != nil {
		return err
	}
	r.mu.Lock()
	left := maps.Clone(r.left)
	r.mu.Unlock()
	for name, e := range left {
		if r.place(e).dirs != p.dirs {
			continue
		}
		if err := r.sweep(name); err != nil && e.overlaps(path) {
			return fmt.Errorf("job %s was cut short while it put its files in their places, and that cannot be ended: %w", e.Job, err)
		}
	}
	return nil
}

// overlaps says whether a path is at, above or below a place of one of the files of e, symbolic links resolved.
func (e entry) overlaps(path string) bool {
	dest := filepath.Join(e.Root, filepath.Dir(e.Part))
	dirs := map[string]bool{dest: true}
	for _, name := range e.Names {
		dirs[filepath.Join(dest, filepath.Dir(name))] = true
	}
	for dir := range dirs {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		if within(path, dir) || within(dir, path) {
			return true
		}
	}
	return false
}

// sweepTree removes the directory of part files that a killed process left, or, if they were just being put in their places, goes on with that. placed
// says that all are there, whatever the error.
func sweepTree(p place, e entry, info fs.FileInfo) (placed bool, err error) {
	switch {
	case !info.IsDir():
		return false, nil
	case e.Inode == 0: // it was about to be made
		p.r.Remove(e.Part) // if it is empty
		return false, nil
	case inode(info) != e.Inode:
		return false, nil
	}
	parts, info, err := openDir(p.r, e.Part)
	if err != nil {
		return false, p.wrap(err)
	}
	defer parts.Close()
	if inode(info) != e.Inode { // somebody has replaced it just now
		return false, nil
	}
	var names []string
	var failed error
	for i, name := range e.Names {
		if name == "" { // it was there before
			continue
		}
		name = filepath.FromSlash(name)
		to := place{root: p.root, path: filepath.Join(filepath.Dir(p.path), name), rel: filepath.Join(filepath.Dir(e.Part), name)}
		names = append(names, to.rel)
		failed = cmp.Or(failed, to.put(parts, i))
	}
	if failed != nil { // what is left there is the only copy
		return false, failed
	}
	if len(names) > 0 {
		for _, d := range dirsOf(names) {
			if err := syncDir(p, d); err != nil && !errors.Is(err, fs.ErrNotExist) { // somebody has removed it since
				return false, err
			}
		}
	}
	return true, p.wrap(removeDir(p.r, e.Part, parts))
}

// put renames a part file to its destination, unless that was done before.
func (p place) put(parts *os.Root, i int) error {
	err := p.move(parts, i)
	if !errors.Is(err, fs.ErrNotExist) {
		return p.wrap(err)
	}
	if _, err := parts.Lstat(strconv.Itoa(i)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// A directory above the destination is not there: somebody has removed it, or the power failed before its making was on the disk.
	if err := p.r.MkdirAll(p.parent(), 0o755); err != nil {
		return p.wrap(err)
	}
	return p.wrap(p.move(parts, i))
}

// active says whether e is a landing of this process.
func (r *Roots) active(e entry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, job := range r.busy {
		if job == e.Job {
			return true
		}
	}
	return false
}

// held is what was committed at a destination, and by what to recognise it.
type held struct {
	Path    string `json:"path"`
	Source  string `json:"source"`
	Version string `json:"version"`
	Size    int64  `json:"size"`
	ModTime int64  `json:"mtime_ns"` // Unix time
	Inode   uint64 `json:"inode"`
}

// heldAlone is what was committed by itself.
type heldAlone struct {
	held
	mount
}

func heldName(key string) string {
	return filepath.Join(heldDir, fmt.Sprintf("%x.json", sha256.Sum256([]byte(key))))
}

func (r *Roots) remember(p place, key string, m Meta, info fs.FileInfo) error {
	h := heldAlone{mount: p.mountOf(filepath.Dir(key))}
	h.held = held{Path: key, Source: m.Source, Version: m.Version, Size: info.Size(), ModTime: info.ModTime().UnixNano(), Inode: inode(info)}
	if err := r.writeState(heldName(key), h); err != nil {
		return fmt.Errorf("remember what landed at %s: %w", key, err)
	}
	return nil
}

// Held says whether the file at path is this version of source, as it was
// committed here: a file that was written, replaced or restored since then is
// not, whatever it holds. An empty version is never held. The error is about
// the path, or about a state directory that cannot be read.
func (r *Roots) Held(path, source, version string, size unit.Bytes) (bool, error) {
	p, err := r.locate(path)
	if err != nil {
		return false, err
	}
	info, err := p.occupant()
	if err != nil || info == nil {
		return false, err
	}
	return r.recorded(p, info, source, version, size)
}

// recorded is Held for a file that is what info says.
func (r *Roots) recorded(p place, info fs.FileInfo, source, version string, size unit.Bytes) (bool, error) {
	if version == "" {
		return false, nil
	}
	key, _, err := p.key()
	if err != nil {
		return false, err
	}
	b, err := r.state.ReadFile(heldName(key))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look up what landed at %s: %w", p.path, err)
	}
	var h held
	if json.Unmarshal(b, &h) != nil {
		return false, nil // cut short by a power failure: fetch again
	}
	now := held{Path: key, Source: source, Version: version, Size: int64(size), ModTime: info.ModTime().UnixNano(), Inode: inode(info)}
	return h == now && info.Size() == int64(size), nil
}
