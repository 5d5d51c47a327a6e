package pki

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// readSmall reads a file that has no business being large.
func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const most = 64 << 10
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && len(b) > most {
		err = fmt.Errorf("%s: larger than %d bytes", path, most)
	}
	return b, err
}

// WriteFile makes path hold b, mode 0600, synced, all or nothing, in place of
// what is there: a symbolic link is replaced, not followed.
func WriteFile(path string, b []byte) error { return writeFile(path, b, 0o600, true) }

// WritePublic is WriteFile for what everybody may read, mode 0644.
func WritePublic(path string, b []byte) error { return writeFile(path, b, 0o644, true) }

// writeFile makes path hold b, with that mode, synced, all or nothing. Unless
// replace is set a file that exists stays as it is and the error is
// os.ErrExist, also when two processes write at once.
func writeFile(path string, b []byte, mode fs.FileMode, replace bool) (err error) {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails harmlessly once renamed
	_, err = tmp.Write(b)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close()) // of the file itself: its name may lead elsewhere by now
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if replace {
		err = os.Rename(tmp.Name(), path)
	} else {
		err = linkOrRename(tmp.Name(), path)
	}
	if err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}

// linkOrRename moves tmp to a path that must not exist. A hard link refuses an
// existing name atomically; file systems without links get a look and a rename.
func linkOrRename(tmp, path string) error {
	err := os.Link(tmp, path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, serr := os.Lstat(path); !errors.Is(serr, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	return os.Rename(tmp, path)
}
