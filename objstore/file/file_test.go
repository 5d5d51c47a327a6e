package file_test

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/file"
	"github.com/freshet/freshet/objstore/objstoretest"
)

func open(t *testing.T, dir string) *file.Store {
	t.Helper()
	s, err := file.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// set writes a file in place, as an editor or a download would.
func set(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	before, _ := os.Stat(path)
	for { // until the file system's clock has moved on
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		now, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if before == nil || !now.ModTime().Equal(before.ModTime()) {
			return
		}
	}
}

func TestConformance(t *testing.T) {
	for _, inPlace := range []bool{false, true} {
		name := "renamed"
		if inPlace {
			name = "written over"
		}
		t.Run(name, func(t *testing.T) {
			var dir string
			h := objstoretest.Harness{
				Open:   func(t *testing.T) objstore.Store { dir = t.TempDir(); return open(t, dir) },
				Reopen: func(t *testing.T) objstore.Store { return open(t, dir) },
				Keys:   2500,
				Debris: func(t *testing.T) (left []string) {
					filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
						if strings.HasPrefix(e.Name(), ".") || e.Name() == "deep" {
							left = append(left, path)
						}
						return nil
					})
					return left
				},
			}
			if inPlace {
				h.Set = func(t *testing.T, name string, data []byte) { set(t, filepath.Join(dir, name), data) }
			}
			if os.Geteuid() != 0 { // root may read everything
				h.Deny = func(t *testing.T, name string) {
					if err := os.Chmod(filepath.Join(dir, name), 0); err != nil {
						t.Fatal(err)
					}
				}
			}
			objstoretest.Run(t, h)
		})
	}
}

func TestOpen(t *testing.T) {
	if _, err := file.Open(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("got %v, want %v", err, objstore.ErrNotExist)
	}
}

func TestNothingOutside(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	set(t, filepath.Join(dir, "secret"), []byte("secret"))
	set(t, filepath.Join(root, "inner"), []byte("inner"))
	os.Symlink("../secret", filepath.Join(root, "out"))
	os.Symlink("inner", filepath.Join(root, "in"))
	os.Symlink("..", filepath.Join(root, "up"))
	s := open(t, root)
	defer s.Close()
	for _, key := range []string{"../secret", "/etc/hostname", "out", "up/secret", "a/../../secret", "", ".", "..", "a//b", "a/", "./inner"} {
		if _, err := s.Stat(t.Context(), key); err == nil || objstore.Temporary(err) {
			t.Errorf("stat %q: got %v, want a lasting error", key, err)
		}
		if key == "out" {
			continue // a link is replaced by the rename, not followed
		}
		if _, err := s.Put(t.Context(), key, strings.NewReader("x"), 1); err == nil || objstore.Temporary(err) {
			t.Errorf("put %q: got %v, want a lasting error", key, err)
		}
	}
	if o, err := s.Stat(t.Context(), "in"); err != nil || o.Size != 5 {
		t.Errorf("a link within: %+v, %v", o, err)
	}
	if got, err := list(t, s, ""); !slices.Equal(got, []string{"in", "inner"}) || err == nil || objstore.Temporary(err) || !strings.Contains(err.Error(), "root/out: is a symbolic link that leads out") {
		t.Errorf("list: got %q, %v; want in, inner, and a lasting error that names out", got, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "secret")); string(b) != "secret" || err != nil {
		t.Errorf("the file outside: %q, %v", b, err)
	}
}

// list is what a listing yields, and the error that it ends with.
func list(t *testing.T, s *file.Store, prefix string) (keys []string, err error) {
	t.Helper()
	for e, lerr := range s.List(t.Context(), prefix) {
		if err != nil {
			t.Errorf("after the error %v came %q, %v", err, e.Key, lerr)
		}
		if err = lerr; err == nil {
			keys = append(keys, e.Key)
		}
	}
	return keys, err
}

// A listing leaves out what is no file, and fails for what should have been one.
func TestListMissesNothing(t *testing.T) {
	for _, tt := range []struct {
		link string // what m/shard is a link to; empty: there is none
		want string // of the error; empty: none
	}{
		{"", ""},
		{"config", ""},
		{"../sub/x", ""}, // out of what is listed, and not of the directory
		{"../../blob", "m/shard: is a symbolic link that leads out"},
		{"/etc/hostname", "m/shard: is a symbolic link that leads out"},
		{"../sub", "m/shard: is a symbolic link to a directory"},
		{"..", "m/shard: is a symbolic link to a directory"},
		{"gone", "m/shard: is a symbolic link to what is not there"},
		{"config/x", "m/shard: is a symbolic link to what is not there"},
		{"shard", "m/shard: too many levels"},
		{"socket", ""}, // as what it leads to
	} {
		dir := t.TempDir()
		root := filepath.Join(dir, "root")
		set(t, filepath.Join(dir, "blob"), []byte("blob"))
		set(t, filepath.Join(root, "m", "config"), nil)
		set(t, filepath.Join(root, "sub", "x"), nil)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(root, "m", "socket")})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"m/config"}
		if tt.link != "" {
			if err := os.Symlink(tt.link, filepath.Join(root, "m", "shard")); err != nil {
				t.Fatal(err)
			}
			if tt.want == "" && tt.link != "socket" {
				want = append(want, "m/shard")
			}
		}
		s := open(t, root)
		got, err := list(t, s, "m/")
		if !slices.Equal(got, want) || (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), tt.want) || objstore.Temporary(err) || errors.Is(err, objstore.ErrNotExist)) {
			t.Errorf("with a link to %q: got %q, %v; want %q, %q", tt.link, got, err, want, tt.want)
		}
		if got, err := list(t, s, "m/c"); !slices.Equal(got, []string{"m/config"}) || err != nil {
			t.Errorf("with a link to %q, which is not asked for: got %q, %v", tt.link, got, err)
		}
		s.Close()
		l.Close()
	}
}

func TestNotAFile(t *testing.T) {
	dir := t.TempDir()
	set(t, filepath.Join(dir, "d", "x"), nil)
	s := open(t, dir)
	defer s.Close()
	_, err := s.Stat(t.Context(), "d")
	if err == nil || !strings.Contains(err.Error(), "is a directory") || objstore.Temporary(err) {
		t.Errorf("stat: %v", err)
	}
	_, err = s.Put(t.Context(), "d", strings.NewReader(""), 0)
	if err == nil || !strings.Contains(err.Error(), "is a directory") || objstore.Temporary(err) {
		t.Errorf("put: %v", err)
	}
	_, err = s.Put(t.Context(), "d/x/y", strings.NewReader(""), 0)
	if err == nil || objstore.Temporary(err) {
		t.Errorf("put below a file: %v", err)
	}
}

// A file that is written over or cut while it is read ends in ErrChanged.
func TestChangedInPlace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "object")
	for _, now := range [][]byte{objstoretest.Bytes(2, 1<<20), objstoretest.Bytes(2, 100), nil} {
		set(t, path, objstoretest.Bytes(1, 1<<20))
		s := open(t, dir)
		o, err := s.Stat(t.Context(), "object")
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.ReadRange(t.Context(), o, 0, o.Size)
		if err != nil {
			t.Fatal(err)
		}
		io.ReadFull(r, make([]byte, 1000))
		set(t, path, now)
		// Even a caller that counts its bytes and never looks for the end sees it.
		if n, err := io.ReadFull(r, make([]byte, 1<<20-1000)); n > 0 || !errors.Is(err, objstore.ErrChanged) {
			t.Errorf("got %d bytes, %v; want %v", n, err, objstore.ErrChanged)
		}
		r.Close()
		s.Close()
	}
}
