package landing

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/unit"
)

// slowDisk is a file system that takes long for space. What it is asked for waits for an answer, after the first time.
func slowDisk(t *testing.T) (answers chan error, taken *int64) {
	t.Cleanup(func() { allocate = fallocate })
	answers, taken = make(chan error), new(int64)
	allocate = func(f *os.File, off, n int64) error {
		if *taken == 0 {
			time.Sleep(2 * quick)
		} else if err := <-answers; err != nil {
			return err
		}
		*taken += n
		return fallocate(f, off, n)
	}
	return answers, taken
}

// lander is a File or a Tree.
type lander interface {
	WriteAt(b []byte, off int64) (int, error)
	Close() error
	Abort() error
}

// landers make one of this size, below dir.
var landers = map[string]func(r *Roots, dir string, size unit.Bytes) (lander, func() error, error){
	"file": func(r *Roots, dir string, size unit.Bytes) (lander, func() error, error) {
		f, err := r.Create("j", filepath.Join(dir, "f"), size)
		return f, func() error { return f.Commit(Meta{}) }, err
	},
	"tree": func(r *Roots, dir string, size unit.Bytes) (lander, func() error, error) {
		f, err := r.CreateTree("j", dir, "s", []TreeFile{{Name: "f", Size: size / 2}, {Name: "g", Size: size - size/2}})
		return f, f.Commit, err
	},
}

// TestSpaceIsTakenBesideWriting where it takes long; what is written meanwhile is what lands.
func TestSpaceIsTakenBesideWriting(t *testing.T) {
	const size = 16 * firstStep
	data := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	for name, create := range landers {
		for _, answered := range []bool{false, true} {
			answers, taken := slowDisk(t)
			if answered {
				close(answers)
			}
			r, dir := openRoots(t)
			f, commit, err := create(r, dir, size)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(data, 0); err != nil {
				t.Errorf("%s: write while space is taken: %v", name, err)
			}
			if !answered {
				close(answers) // no earlier than that all has been written
			}
			if err := commit(); err != nil {
				t.Error(err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if *taken == 0 || *taken > size {
				t.Errorf("%s: space for %d bytes of %d was taken", name, *taken, size)
			}
			var got []byte
			for _, n := range []string{"f", "g"} {
				b, err := os.ReadFile(filepath.Join(dir, n))
				if err != nil && !(name == "file" && errors.Is(err, fs.ErrNotExist)) {
					t.Error(err)
				}
				got = append(got, b...)
			}
			if !bytes.Equal(got, data) {
				t.Errorf("%s: %d bytes landed, which are not those that were written", name, len(got))
			}
		}
	}
}

// TestDiskIsFullBesideWriting: who writes next hears of it, and nothing is left.
func TestDiskIsFullBesideWriting(t *testing.T) {
	for name, create := range landers {
		answers, _ := slowDisk(t)
		r, dir := openRoots(t)
		f, commit, err := create(r, dir, 16*firstStep)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("x"), 0); err != nil {
			t.Errorf("%s: before the disk is full: %v", name, err)
		}
		answers <- syscall.ENOSPC
		deadline := time.Now().Add(10 * time.Second)
		for err = nil; err == nil && time.Now().Before(deadline); time.Sleep(quick) {
			_, err = f.WriteAt([]byte("x"), 1)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("%s: write: %v, want ENOSPC", name, err)
		}
		wantError(t, err, "needs 16 MiB", " free")
		if err := f.Abort(); err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if commit() == nil {
			t.Errorf("%s: committed after its end", name)
		}
		wantTree(t, dir)
	}
}

// TestAbortWhileSpaceIsTaken ends it, and waits for the step under way.
func TestAbortWhileSpaceIsTaken(t *testing.T) {
	for name, create := range landers {
		answers, taken := slowDisk(t)
		r, dir := openRoots(t)
		f, _, err := create(r, dir, 64*firstStep)
		if err != nil {
			t.Fatal(err)
		}
		answers <- nil // it goes on
		answered := make(chan struct{})
		go func() { // the step under way, and any that begins before the end does: slowly, so that there is not time for all
			for {
				select {
				case <-time.After(20 * slow):
				case <-answered:
					return
				}
				select {
				case answers <- nil:
				case <-answered:
					return
				}
			}
		}()
		if err := f.Abort(); err != nil {
			t.Error(err)
		}
		close(answered)
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if *taken >= 64*firstStep {
			t.Errorf("%s: all space was taken after the end", name)
		}
		wantTree(t, dir)
	}
}

// TestSpaceOnAQuickDisk is taken whole before anything is written.
func TestSpaceOnAQuickDisk(t *testing.T) { synctest.Test(t, quickDisk) } // no step takes any time

func quickDisk(t *testing.T) {
	t.Cleanup(func() { allocate = fallocate })
	for name, create := range landers {
		asked, taken := 0, int64(0)
		allocate = func(_ *os.File, _, n int64) error { asked, taken = asked+1, taken+n; return nil }
		r, dir := openRoots(t)
		f, _, err := create(r, dir, unit.GiB)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if taken != int64(unit.GiB) || asked > 20 {
			t.Errorf("%s: %d bytes of 1 GiB are taken, in %d steps", name, taken, asked)
		}
	}
}

// TestSmallFilesOfATree have their space as they are made.
func TestSmallFilesOfATree(t *testing.T) {
	t.Cleanup(func() { allocate = fallocate })
	var sizes []int64
	allocate = func(_ *os.File, off, n int64) error { sizes = append(sizes, off, n); return nil }
	r, dir := openRoots(t)
	f, err := r.CreateTree("j", dir, "s", []TreeFile{{Name: "a", Size: 7}, {Name: "b", Size: 2 * firstStep}, {Name: "c", Size: firstStep}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	taken := map[int64]bool{}
	for i := 0; i < 4; i += 2 {
		taken[sizes[i+1]] = sizes[i] == 0
	}
	if !taken[7] || !taken[firstStep] {
		t.Errorf("offsets and sizes are %v, want the small files first", sizes)
	}
	sum := int64(0)
	for i := 1; i < len(sizes); i += 2 {
		sum += sizes[i]
	}
	if sum != 7+3*firstStep {
		t.Errorf("space for %d bytes was taken, want %d", sum, 7+3*firstStep)
	}
}

// TestSpaceThatCannotBeTaken is no failure, also where it is found out late: the first steps over a Tree may be over files that need none.
func TestSpaceThatCannotBeTaken(t *testing.T) {
	for _, early := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := space{size: 64 * firstStep, take: func(off, n int64) error {
				if early || off > 0 {
					return errors.ErrUnsupported
				}
				time.Sleep(2 * quick)
				return nil
			}}
			if err := s.begin(); err != nil {
				t.Errorf("found out at once: %v; it begins with %v", early, err)
			}
			time.Sleep(time.Minute)
			if err := s.err(); err != nil {
				t.Errorf("found out at once: %v; who writes hears %v", early, err)
			}
			s.end()
		})
	}
}
