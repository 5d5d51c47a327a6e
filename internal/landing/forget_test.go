package landing

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// What is remembered of a destination is forgotten by the start that finds nothing there any more of what landed, unless the disk may just not
// be mounted, or nobody knows.
func TestSweepForgetsWhatIsGone(t *testing.T) {
	state, above := t.TempDir(), t.TempDir()
	dir, later := filepath.Join(above, "data"), filepath.Join(above, "later")
	must(t, os.Mkdir(dir, 0o755), os.Mkdir(later, 0o755))
	r := openAt(t, state, dir, later)
	wantRecords := func(want int) {
		t.Helper()
		if got := tree(t, filepath.Join(state, heldDir)); len(got) != want {
			t.Errorf("%d destinations are remembered, want %d", len(got), want)
		}
	}
	wantHeld := func(path string, want bool) {
		t.Helper()
		if got, err := r.Held(path, "s", "v1", 1); got != want || err != nil {
			t.Errorf("%s: held is %v, %v, want %v", path, got, err, want)
		}
	}
	stays, mounted := filepath.Join(dir, "stays"), filepath.Join(later, "stays")
	for _, path := range []string{stays, mounted, filepath.Join(dir, "a", "b", "goes"), filepath.Join(dir, "overwritten")} {
		land(t, r, path, []byte("x"), Meta{"s", "v1"})
	}
	m, n := filepath.Join(dir, "m"), filepath.Join(dir, "n")
	must(t, begin(t, r, m).Commit(), begin(t, r, n).Commit())
	older, err := json.Marshal(held{Path: filepath.Join(r.roots[0].real, "older"), Source: "s", Version: "v1"})
	must(t, err, os.WriteFile(filepath.Join(state, heldDir, "older.json"), older, 0o600))
	must(t, r.Sweep())
	wantRecords(7)

	must(t, os.RemoveAll(filepath.Join(dir, "a")), os.RemoveAll(n), os.Remove(filepath.Join(m, "shard-1")))
	overwrite(t, filepath.Join(dir, "overwritten"), "y")
	must(t, r.Close(), os.Rename(later, later+".disk"), os.Mkdir(later, 0o755))
	r = openAt(t, state, dir, later)
	must(t, r.Sweep())
	wantRecords(4) // of both that stay, of the tree of which most does, and of an older release
	wantHeld(stays, true)
	rest, err := heldAll(r, m, "s", model[1:])
	if !rest || err != nil {
		t.Errorf("the rest of a tree: held is %v, %v, want true", rest, err)
	}
	must(t, r.Close(), os.Remove(later), os.Rename(later+".disk", later))
	r = openAt(t, state, dir, later)
	wantHeld(mounted, true)

	must(t, r.Close(), os.Remove(mounted))
	r = openAt(t, state, dir) // which does not have that root
	must(t, r.Sweep())
	wantRecords(4)
	must(t, r.Close())
	r = openAt(t, state, dir, later)
	must(t, r.Sweep())
	wantRecords(3)
}

// What a record says by which it can be forgotten does not keep it from being recognised, and is not needed for that.
func TestRecordsOfOlderReleases(t *testing.T) {
	state, dir := t.TempDir(), t.TempDir()
	r := openAt(t, state, dir)
	path := filepath.Join(dir, "f")
	land(t, r, path, []byte("x"), Meta{"s", "v1"})
	name := filepath.Join(state, heldName(filepath.Join(r.roots[0].real, "f")))
	b, err := os.ReadFile(name)
	must(t, err)
	var was heldAlone
	must(t, json.Unmarshal(b, &was))
	if was.Mount != r.roots[0].real || was.MountInode != r.roots[0].inode {
		t.Errorf("the file system begins at %s, %d, want %s, %d", was.Mount, was.MountInode, r.roots[0].real, r.roots[0].inode)
	}
	b, err = json.Marshal(was.held)
	must(t, err, os.WriteFile(name, b, 0o600), r.Sweep())
	if held, err := r.Held(path, "s", "v1", 1); !held || err != nil {
		t.Errorf("held is %v, %v, want true", held, err)
	}
}

// Of what could not be written to the state directory nothing is left there, nor of what a killed process was just writing.
func TestUnfinishedState(t *testing.T) {
	state, dir := t.TempDir(), t.TempDir()
	r := openAt(t, state, dir)
	name := heldName(filepath.Join(r.roots[0].real, "f"))
	must(t, os.Mkdir(filepath.Join(state, name), 0o700)) // which a file does not replace
	f, err := r.Create("j", filepath.Join(dir, "f"), 0)
	must(t, err)
	wantError(t, f.Commit(Meta{}), "remember what landed at")
	must(t, f.Close())
	wantTree(t, filepath.Join(state, heldDir), filepath.Base(name)+"/")
	must(t, os.Remove(filepath.Join(state, name)))

	for _, d := range []string{journalDir, heldDir} {
		must(t, os.WriteFile(filepath.Join(state, d, "x.json.new"), []byte("{"), 0o600))
	}
	must(t, r.Close())
	r = openAt(t, state, dir)
	must(t, r.Sweep())
	for _, d := range []string{journalDir, heldDir} {
		wantTree(t, filepath.Join(state, d))
	}
	if _, err := os.Stat(filepath.Join(dir, "f")); errors.Is(err, fs.ErrNotExist) {
		t.Error("the file that landed is gone")
	}
}
