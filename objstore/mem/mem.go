// Package mem is an object store in memory, for tests and simulations. It
// starts no goroutine and waits for nothing, so it can be used under
// testing/synctest, and it can be told to have what other stores lack: no
// ranges, no validator, no checksum, a composite one.
package mem

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/internal/ranged"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// Store is a bucket in memory. The zero Store is not usable; see New.
type Store struct {
	algorithm piece.Algorithm // empty: keeps no checksum
	part      unit.Bytes      // of composite checksums; 0: checksums are of the whole
	noRanges  bool
	unpinned  bool

	mu      sync.Mutex // guards what follows
	objects map[string]*version
	next    int // number of the next version
	denied  map[string]bool
}

// version is one version of one object; it never changes.
type version struct {
	objstore.Object
	number int
	data   []byte
}

// Option is a way in which a store differs from the default: versioned, with
// ranges and with a full-object CRC64NVME of each object.
type Option func(*Store)

// Checksum makes the store keep full-object checksums of algorithm a; none if
// a is empty.
func Checksum(a piece.Algorithm) Option { return func(s *Store) { s.algorithm = a } }

// Composite makes the store keep checksums of algorithm a as of a multipart
// upload in parts of the given size: the digest of the parts' digests.
func Composite(a piece.Algorithm, part unit.Bytes) Option {
	return func(s *Store) { s.algorithm, s.part = a, part }
}

// NoRanges makes the store read whole objects only.
func NoRanges() Option { return func(s *Store) { s.noRanges = true } }

// NoValidator makes the store tell no versions: readers get whatever bytes
// are there.
func NoValidator() Option { return func(s *Store) { s.unpinned = true } }

// New returns an empty store.
func New(options ...Option) *Store {
	s := &Store{
		algorithm: piece.CRC64NVME,
		objects:   make(map[string]*version),
		denied:    make(map[string]bool),
	}
	for _, o := range options {
		o(s)
	}
	return s
}

// Set makes data, which must not be changed afterwards, the content of key:
// a new object or a new version. A reader of the version before gets
// ErrChanged at its next Read.
func (s *Store) Set(key string, data []byte) objstore.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.setLocked(key, data)
}

func (s *Store) setLocked(key string, data []byte) objstore.Object {
	s.next++
	v := &version{number: s.next, data: data}
	v.Object = objstore.Object{
		Key:      key,
		Size:     unit.Bytes(len(data)),
		Checksum: s.checksum(data),
		Ranges:   !s.noRanges,
	}
	if !s.unpinned {
		v.Version = strconv.Itoa(v.number)
		v.Modified = time.Now()
	}
	s.objects[key] = v
	return v.Object
}

// Delete removes key.
func (s *Store) Delete(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
}

// Deny makes every use of key fail with ErrDenied.
func (s *Store) Deny(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied[key] = true
}

// Stat says what key is now.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Object, error) {
	v, err := s.version(ctx, key)
	if err != nil {
		return objstore.Object{}, fmt.Errorf("stat %s: %w", key, err)
	}
	return v.Object, nil
}

func (s *Store) version(ctx context.Context, key string) (*version, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.versionLocked(key)
}

func (s *Store) versionLocked(key string) (*version, error) {
	if s.denied[key] {
		return nil, objstore.ErrDenied
	}
	v := s.objects[key]
	if v == nil {
		return nil, objstore.ErrNotExist
	}
	return v, nil
}

// ReadRange reads n bytes of o from off.
func (s *Store) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	r := &reader{store: s, ctx: ctx, object: o, off: off, end: off + n}
	err := ranged.Check(o, off, n)
	if err == nil && n > 0 {
		_, err = r.current()
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.Key, err)
	}
	return r, nil
}

type reader struct {
	store    *Store
	ctx      context.Context
	object   objstore.Object
	off, end unit.Bytes
	closed   bool
}

// current is the version in the store, if it is the one that r reads.
func (r *reader) current() (*version, error) {
	v, err := r.store.version(r.ctx, r.object.Key)
	switch {
	case err != nil:
		return nil, err
	case v.Version != r.object.Version || v.Size != r.object.Size:
		return nil, objstore.ErrChanged
	}
	return v, nil
}

func (r *reader) Read(p []byte) (int, error) {
	if r.closed {
		return 0, fmt.Errorf("read %s: %w", r.object.Key, io.ErrClosedPipe)
	}
	if r.off == r.end {
		return 0, io.EOF
	}
	v, err := r.current()
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", r.object.Key, err)
	}
	n := copy(p, v.data[r.off:r.end])
	r.off += unit.Bytes(n)
	return n, nil
}

func (r *reader) Close() error {
	r.closed = true
	return nil
}

// List yields the objects whose keys begin with prefix, in key order, as they
// are when it begins.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		s.mu.Lock()
		objects := maps.Clone(s.objects)
		s.mu.Unlock()
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			if !strings.HasPrefix(key, prefix) {
				continue
			}
			if err := ctx.Err(); err != nil {
				yield(objstore.Entry{}, fmt.Errorf("list %s: %w", prefix, err))
				return
			}
			v := objects[key]
			if !yield(objstore.Entry{Key: key, Size: v.Size, Modified: v.Modified}, nil) {
				return
			}
		}
	}
}

// Put stores what r delivers under key.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, size unit.Bytes) (objstore.Object, error) {
	o, err := s.put(ctx, key, r, size)
	if err != nil {
		return objstore.Object{}, fmt.Errorf("put %s: %w", key, err)
	}
	return o, nil
}

func (s *Store) put(ctx context.Context, key string, r io.Reader, size unit.Bytes) (objstore.Object, error) {
	if key == "" {
		return objstore.Object{}, objstore.Permanent(fmt.Errorf("the key is empty"))
	}
	var data bytes.Buffer
	buf := make([]byte, 64<<10)
	for {
		if err := ctx.Err(); err != nil {
			return objstore.Object{}, err
		}
		n, err := r.Read(buf)
		data.Write(buf[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			return objstore.Object{}, err
		}
	}
	if got := unit.Bytes(data.Len()); size >= 0 && got != size {
		return objstore.Object{}, objstore.Permanent(fmt.Errorf("%d bytes were announced, %d came", size, got))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.denied[key] {
		return objstore.Object{}, objstore.ErrDenied
	}
	return s.setLocked(key, data.Bytes()), nil
}

// Close does nothing: there is no connection.
func (s *Store) Close() error { return nil }

// checksum is what the store keeps for data.
func (s *Store) checksum(data []byte) piece.Checksum {
	a := s.algorithm
	if a == "" {
		return piece.Checksum{}
	}
	if s.part <= 0 {
		return piece.Checksum{Algorithm: a, Value: a.Encode(a.Update(0, data))}
	}
	var all []byte
	parts := 0
	for part := range slices.Chunk(data, int(s.part)) {
		b := binary.BigEndian.AppendUint64(nil, a.Update(0, part))
		all = append(all, b[8-a.Size():]...)
		parts++
	}
	if parts == 0 {
		return piece.Checksum{}
	}
	b := binary.BigEndian.AppendUint64(nil, a.Update(0, all))
	value := base64.StdEncoding.EncodeToString(b[8-a.Size():]) + "-" + strconv.Itoa(parts)
	return piece.Checksum{Algorithm: a, Value: value, Part: s.part}
}
