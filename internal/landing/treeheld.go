package landing

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
)

// heldTree is what was committed together below a directory.
type heldTree struct {
	Path   string `json:"path"`
	Source string `json:"source"`
	Files  []held `json:"files"` // with their names as paths, and without source
	mount
}

func heldTreeName(dir, source string) string {
	return filepath.Join(heldDir, fmt.Sprintf("%x.json", sha256.Sum256([]byte(dir+"\x00"+source))))
}

// realDir is a tree's directory with symbolic links resolved.
func (p place) realDir() (string, error) {
	return filepath.EvalSymlinks(filepath.Join(p.real, p.rel))
}

func heldFile(f TreeFile, info fs.FileInfo) held {
	return held{Path: f.Name, Version: f.Version, Size: info.Size(), ModTime: info.ModTime().UnixNano(), Inode: inode(info)}
}

func (r *Roots) rememberTree(p place, source string, files []TreeFile, infos []fs.FileInfo) error {
	dir, err := p.realDir()
	if err != nil {
		return p.wrap(err)
	}
	h := heldTree{Path: dir, Source: source, mount: p.mountOf(dir)}
	for i, f := range files {
		h.Files = append(h.Files, heldFile(f, infos[i]))
	}
	if err := r.writeState(heldTreeName(dir, source), h); err != nil {
		return fmt.Errorf("remember what landed below %s: %w", p.path, err)
	}
	return nil
}

// HeldFiles says which of the files below dir are these versions of those of source, as they were committed here together:
// one that was written, replaced or restored since then is not, whatever it holds. The error is about the paths, or about a state
// directory that cannot be read.
func (r *Roots) HeldFiles(dir, source string, files []TreeFile) ([]bool, error) {
	t, err := r.tree(dir, files)
	if err != nil {
		return nil, err
	}
	infos, err := t.occupants()
	if err != nil {
		return nil, err
	}
	return t.recorded(source, infos)
}

// recorded is HeldFiles for files that are what infos say.
func (t *Tree) recorded(source string, infos []fs.FileInfo) ([]bool, error) {
	none := make([]bool, len(t.files))
	if !slices.ContainsFunc(infos, func(i fs.FileInfo) bool { return i != nil }) {
		return none, nil
	}
	real, err := t.dir.realDir()
	if err != nil {
		return nil, t.dir.wrap(err)
	}
	b, err := t.r.state.ReadFile(heldTreeName(real, source))
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up what landed below %s: %w", t.dir.path, err)
	}
	var h heldTree
	if json.Unmarshal(b, &h) != nil || h.Path != real || h.Source != source {
		return none, nil // cut short by a power failure: fetch again
	}
	was := map[string]held{}
	for _, f := range h.Files {
		was[f.Path] = f
	}
	held := none
	for i, f := range t.files {
		held[i] = infos[i] != nil && f.Version != "" && infos[i].Size() == int64(f.Size) && was[f.Name] == heldFile(f, infos[i])
	}
	return held, nil
}
