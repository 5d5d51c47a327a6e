// Package file is a directory as an object store. A key is the path of a
// regular file below the directory, with slashes; nothing outside can be
// reached, be it by "..", an absolute path or a symbolic link (os.Root).
//
// A version is the file's modification time to the nanosecond, its size and,
// where there is one, its inode number. A reader looks at them when it opens
// the file and after each read before it hands the bytes on, so a file
// written over in place is noticed as finely as the file system stamps times;
// one that was replaced by a rename is read on to its end, being still there
// under its open descriptor.
package file

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/internal/ranged"
	"github.com/freshet/freshet/unit"
)

// temporary begins the names of files that Put is still writing. Listings
// leave them out.
const temporary = ".freshet-put-"

// Store is the files below one directory.
type Store struct {
	root *os.Root
}

// Open returns the directory dir as a store.
func Open(dir string) (*Store, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open directory %s: %w", dir, sentinel(err))
	}
	return &Store{root}, nil
}

// Close gives up the directory. Readers go on.
func (s *Store) Close() error { return s.root.Close() }

// Stat says what key is now. It keeps no checksum.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Object, error) {
	o, err := s.stat(ctx, key)
	if err != nil {
		return objstore.Object{}, fmt.Errorf("stat %s: %w", s.name(key), sentinel(err))
	}
	return o, nil
}

func (s *Store) stat(ctx context.Context, key string) (objstore.Object, error) {
	f, err := s.open(ctx, key) // not root.Stat: a file that cannot be read is denied here and now
	if err != nil {
		return objstore.Object{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return objstore.Object{}, err
	}
	return objstore.Object{
		Key:      key,
		Size:     unit.Bytes(info.Size()),
		Version:  version(info),
		Ranges:   true,
		Modified: info.ModTime(),
	}, nil
}

// open opens the regular file key for reading.
func (s *Store) open(ctx context.Context, key string) (*os.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := valid(key); err != nil {
		return nil, err
	}
	// Looked at before it is opened: opening a pipe would wait for its writer.
	info, err := s.root.Stat(key)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular(info)
	}
	f, err := s.root.OpenFile(key, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	info, err = f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = notRegular(info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func notRegular(info fs.FileInfo) error {
	if info.IsDir() {
		return objstore.Permanent(errors.New("is a directory"))
	}
	return objstore.Permanent(errors.New("is not a regular file"))
}

// valid says whether key can be the key of an object.
func valid(key string) error {
	if !fs.ValidPath(key) || key == "." {
		return objstore.Permanent(fmt.Errorf("%q is no path below the directory", key))
	}
	return nil
}

// name is what errors call key.
func (s *Store) name(key string) string { return path.Join(s.root.Name(), key) }

// version is the token for a file as info describes it.
func version(info fs.FileInfo) string {
	return fmt.Sprintf("%x-%x-%x", info.ModTime().UnixNano(), info.Size(), inode(info))
}

// ReadRange reads n bytes of o from off.
func (s *Store) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	r, err := s.readRange(ctx, o, off, n)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.name(o.Key), sentinel(err))
	}
	return r, nil
}

func (s *Store) readRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	if err := ranged.Check(o, off, n); err != nil {
		return nil, err
	}
	if n == 0 {
		return io.NopCloser(strings.NewReader("")), nil
	}
	f, err := s.open(ctx, o.Key)
	if err != nil {
		return nil, err
	}
	r := &reader{ctx: ctx, f: f, name: s.name(o.Key), version: o.Version, off: off, end: off + n}
	if err := r.check(); err != nil {
		f.Close()
		return nil, err
	}
	return r, nil
}

type reader struct {
	ctx      context.Context
	f        *os.File
	name     string
	version  string
	off, end unit.Bytes
}

// check says whether the open file still is the version.
func (r *reader) check() error {
	info, err := r.f.Stat()
	if err == nil && version(info) != r.version {
		err = objstore.ErrChanged
	}
	return err
}

func (r *reader) Read(p []byte) (int, error) {
	if r.off == r.end {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := 0, r.ctx.Err()
	if err == nil {
		n, err = r.f.ReadAt(p[:min(unit.Bytes(len(p)), r.end-r.off)], int64(r.off))
		if n > 0 || err == io.EOF {
			// The bytes count only if the file was the version until now.
			if changed := r.check(); changed != nil {
				n, err = 0, changed
			} else if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
		}
	}
	r.off += unit.Bytes(n)
	if err == io.ErrUnexpectedEOF && r.off == r.end {
		err = nil
	}
	if err != nil {
		return n, fmt.Errorf("read %s: %w", r.name, sentinel(err))
	}
	return n, nil
}

func (r *reader) Close() error { return r.f.Close() }

// List yields the regular files whose keys begin with prefix, in key order.
// What is neither a file nor a directory is left out. A symbolic link that leads to no
// file below the directory is an error: who wants all files there would miss one.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		dir, _ := path.Split(prefix)
		dir = path.Clean(dir) // "." if the prefix names no directory
		if !fs.ValidPath(dir) {
			return // no key begins with it
		}
		if err := s.walk(ctx, dir, prefix, yield); err != nil && err != errStopped {
			yield(objstore.Entry{}, err)
		}
	}
}

// errStopped is walk's error when the one who ranges has had enough.
var errStopped = errors.New("stopped")

// walk lists a directory. One that is not there, or not any more, has nothing in it.
func (s *Store) walk(ctx context.Context, dir, prefix string, yield func(objstore.Entry, error) bool) error {
	entries, err := s.entries(ctx, dir)
	if err = sentinel(err); err == objstore.ErrNotExist {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", s.name(dir), err)
	}
	// A directory sorts as its keys do: with the slash that follows.
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(sortName(a), sortName(b)) })
	for _, e := range entries {
		key := path.Join(dir, e.Name())
		if e.IsDir() {
			if under := key + "/"; strings.HasPrefix(under, prefix) || strings.HasPrefix(prefix, under) {
				if err := s.walk(ctx, key, prefix, yield); err != nil {
					return err
				}
			}
			continue
		}
		if !strings.HasPrefix(key, prefix) || strings.HasPrefix(e.Name(), temporary) {
			continue
		}
		info, err := s.root.Stat(key) // through a link, if it leads to within the root
		if err != nil || !info.Mode().IsRegular() {
			if err := s.missed(key, info, err); err != nil {
				return fmt.Errorf("list %s: %w", s.name(key), err)
			}
			continue
		}
		if !yield(objstore.Entry{Key: key, Size: unit.Bytes(info.Size()), Modified: info.ModTime()}, nil) {
			return errStopped
		}
	}
	return nil
}

func (s *Store) entries(ctx context.Context, dir string) ([]fs.DirEntry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d, err := s.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.ReadDir(-1)
}

// missed says why key, of which Stat said info or err, cannot be listed although a file may be meant. Nil: it has vanished
// meanwhile, or is no file.
func (s *Store) missed(key string, info fs.FileInfo, err error) error {
	own, lerr := s.root.Lstat(key)
	var system syscall.Errno
	switch {
	case errors.Is(lerr, fs.ErrNotExist):
		return nil
	case lerr != nil:
		return sentinel(lerr)
	case own.Mode().Type() != fs.ModeSymlink, err == nil && !info.IsDir(): // a pipe, a socket or a device, or a link to one
		return sentinel(err)
	case err == nil:
		return badLink("to a directory")
	case sentinel(err) == objstore.ErrNotExist:
		return badLink("to what is not there")
	case !errors.As(err, &system): // os.Root's own
		return badLink("that leads out of the source's directory, or is absolute")
	}
	return sentinel(err)
}

func badLink(what string) error {
	return objstore.Permanent(fmt.Errorf("is a symbolic link %s, and not followed: put what it stands for in its place (cp -rL copies a whole directory so), or remove it", what))
}

func sortName(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}

// Put writes what r delivers to a file beside key, syncs it and renames it.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, size unit.Bytes) (objstore.Object, error) {
	if err := s.put(ctx, key, r, size); err != nil {
		return objstore.Object{}, fmt.Errorf("put %s: %w", s.name(key), sentinel(err))
	}
	return s.Stat(ctx, key)
}

func (s *Store) put(ctx context.Context, key string, r io.Reader, size unit.Bytes) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := valid(key); err != nil {
		return err
	}
	if info, err := s.root.Stat(key); err == nil && !info.Mode().IsRegular() {
		return notRegular(info)
	}
	dir := path.Dir(key)
	made := s.missing(dir)
	if err := s.root.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	temp := path.Join(dir, temporary+rand.Text())
	defer func() {
		if err != nil {
			s.root.Remove(temp)
			for _, d := range made {
				s.root.Remove(d) // only if it is empty
			}
		}
	}()
	f, err := s.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, contextReader{ctx, r})
	if err == nil && size >= 0 && unit.Bytes(n) != size {
		err = objstore.Permanent(fmt.Errorf("%d bytes were announced, %d came", size, n))
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = s.root.Rename(temp, key)
	}
	if err != nil {
		return err
	}
	if d, openErr := s.root.Open(dir); openErr == nil {
		defer d.Close()
		d.Sync() // best effort: not every file system syncs directories
	}
	return nil
}

// missing is dir and those of its parents that are not there, deepest first.
func (s *Store) missing(dir string) (dirs []string) {
	for ; dir != "."; dir = path.Dir(dir) {
		if _, err := s.root.Lstat(dir); err == nil {
			break
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// sentinel turns the operating system's errors into those that callers branch
// on. The path it names is dropped, since our own wrapping has the whole one.
func sentinel(err error) error {
	var at *fs.PathError
	inner := err
	if errors.As(err, &at) {
		inner = at.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return objstore.ErrNotExist
	case errors.Is(err, fs.ErrPermission):
		return objstore.ErrDenied
	case errors.Is(err, syscall.EROFS):
		return objstore.ErrReadOnly
	case at != nil && !errors.Is(err, syscall.EINTR) && !errors.Is(err, syscall.EIO):
		return objstore.Permanent(inner) // full disk, name too long, a link out of the directory
	}
	return err
}
