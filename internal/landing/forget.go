package landing

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
)

// What is remembered of a destination is of use as long as something of what landed there lies there. A node that is given a new one every
// day would remember more and more.

// mount is where the file system begins upon which something landed; the root, where that lies deeper. By it a start tells what is gone from what
// lies on a disk that is not mounted yet.
type mount struct {
	Mount      string `json:"mount,omitempty"` // symbolic links resolved; empty: unknown, as of an older release
	MountInode uint64 `json:"mount_inode,omitzero"`
}

// mountOf is the mount of a directory below the root of p, whose symbolic links are resolved.
func (p place) mountOf(real string) mount {
	dir, err := filepath.Rel(p.real, real)
	if err != nil {
		return mount{}
	}
	at, err := p.r.Stat(dir)
	if err != nil {
		return mount{}
	}
	for dir != "." {
		above, err := p.r.Stat(filepath.Dir(dir))
		if err != nil || device(above) != device(at) {
			break
		}
		dir, at = filepath.Dir(dir), above
	}
	return mount{filepath.Join(p.real, dir), inode(at)}
}

// mounted says whether it is there, below a root of this process.
func (r *Roots) mounted(m mount) bool {
	if m.Mount == "" {
		return false
	}
	p, err := r.under(m.Mount)
	if err != nil {
		return false
	}
	info, err := p.r.Stat(p.rel)
	return err == nil && inode(info) == m.MountInode
}

// forgetGone removes what is remembered in a file of the state directory if nothing of what landed is there any more. In doubt it stays.
func (r *Roots) forgetGone(name string) error {
	b, err := r.state.ReadFile(name)
	if err != nil {
		return err
	}
	var h struct { // heldAlone or heldTree
		held
		mount
		Files []held `json:"files"`
	}
	if json.Unmarshal(b, &h) != nil {
		return r.state.Remove(name) // cut short by a power failure: it says nothing
	}
	if !r.mounted(h.mount) {
		return nil
	}
	there := func(f held) bool { return r.maybeThere(filepath.Join(h.Path, filepath.FromSlash(f.Path)), f) }
	if h.Files == nil {
		there = func(f held) bool { return r.maybeThere(f.Path, f) }
		h.Files = []held{h.held}
	}
	if slices.ContainsFunc(h.Files, there) {
		return nil
	}
	return r.state.Remove(name)
}

// maybeThere says whether what landed at a path may still lie there: what was written to, or replaced, does not.
func (r *Roots) maybeThere(path string, f held) bool {
	p, err := r.under(path)
	if err != nil {
		return true
	}
	info, err := p.r.Lstat(p.rel)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return info.Size() == f.Size && info.ModTime().UnixNano() == f.ModTime && inode(info) == f.Inode
}
