// Package objstore is what Freshet asks of an object store: what an object
// is at this moment, ranges of exactly that object, a listing, and a place to
// put one. Drivers live below it, one package a kind of store (mem, file,
// http, s3), and so do the decorators that limit, retry or break them; one
// conformance suite, objstoretest, is run against every one of them.
//
// The rule that everything else rests on: a version is pinned by Stat, and a
// reader gets bytes of that version or ErrChanged, never a mixture. Drivers
// ask for it (If-Match) and then check every reply themselves, since some
// servers ignore the condition.
package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// Object is one version of one object, as Stat found it.
type Object struct {
	Key      string         `json:"key"`
	Size     unit.Bytes     `json:"size"`
	Version  string         `json:"version,omitempty"` // opaque token of the driver's; empty: the store has no validator
	Checksum piece.Checksum `json:"checksum,omitzero"` // of the whole, where the store keeps one
	Ranges   bool           `json:"ranges"`            // false: only a read from 0 to the end is possible
	Modified time.Time      `json:"modified,omitzero"` // zero: unknown
}

// Pinned says whether a change of the object between two reads can be noticed.
func (o Object) Pinned() bool { return o.Version != "" }

// Entry is one line of a listing.
type Entry struct {
	Key      string
	Size     unit.Bytes
	Modified time.Time // zero: unknown
}

// Store reads and writes the objects of one bucket, server or directory. All
// methods may be called at once from several goroutines.
//
// Errors are wrapped with the operation and the key; a caller tells them apart
// with errors.Is and the sentinels below. Anything else is worth a retry only
// if Temporary says so.
type Store interface {
	// Stat says what key is now. ErrNotExist, ErrDenied.
	Stat(ctx context.Context, key string) (Object, error)

	// ReadRange reads n bytes of o from off. The reader delivers exactly n
	// bytes or an error (io.ErrUnexpectedEOF where the store stopped short);
	// ErrChanged, at once or while reading, if the store's object is no longer
	// o. With o.Ranges false, only off 0 and n = o.Size are possible; otherwise ErrNoRange. n = 0 is legal
	// and reads nothing. The caller closes the reader; ctx covers the reading.
	ReadRange(ctx context.Context, o Object, off, n unit.Bytes) (io.ReadCloser, error)

	// List yields the objects whose keys begin with prefix, in the store's own
	// order: that of the keys mostly, but not in S3's directory buckets, nor on
	// servers that sort by directory or by UTF-16. An error is yielded once, last.
	List(ctx context.Context, prefix string) iter.Seq2[Entry, error]

	// Put stores what r delivers under key, whole or not at all, and returns
	// what Stat would. size is the number of bytes that r will deliver, -1 if
	// unknown. ErrReadOnly where the store cannot be written.
	Put(ctx context.Context, key string, r io.Reader, size unit.Bytes) (Object, error)

	// Close gives up idle connections. Reads under way are not waited for.
	Close() error
}

// What a caller branches on.
var (
	ErrNotExist = errors.New("no such object")
	ErrDenied   = errors.New("access denied")
	ErrChanged  = errors.New("object was replaced in the store")
	ErrNoRange  = errors.New("store cannot read a range")
	ErrReadOnly = errors.New("store cannot be written")
)

// Busy is an error of a store that asks to be left alone for a while: HTTP 503
// and 429, S3 SlowDown. Other temporary failures (a broken connection, 500)
// carry no After.
type Busy struct {
	After time.Duration // what Retry-After asked for; zero: nothing
	Err   error         // never nil
}

func (e *Busy) Error() string {
	if e.After > 0 {
		return fmt.Sprintf("%v (retry after %v)", e.Err, e.After)
	}
	return e.Err.Error()
}

func (e *Busy) Unwrap() error { return e.Err }

// Temporary says whether the same call may well succeed later: not what the
// sentinels name, not the caller's own context, but everything else that a
// network and a busy server do. A driver marks what will not change by
// wrapping it with Permanent.
func Temporary(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	for _, final := range []error{ErrNotExist, ErrDenied, ErrChanged, ErrNoRange, ErrReadOnly, errPermanent} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

var errPermanent = errors.New("permanent")

// Permanent marks err as one that a retry will not mend.
func Permanent(err error) error { return permanent{err} }

type permanent struct{ error }

func (p permanent) Unwrap() error        { return p.error }
func (p permanent) Is(target error) bool { return target == errPermanent }
