package control

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/objstore"
)

// Source is what a job's source is at a moment: one object, or those below a prefix.
type Source struct {
	objstore.Object       // of several the whole, Files.Whole
	Files           Files `json:"files,omitempty"` // empty: it is one
}

// Files are the objects of a job of several. Their keys count from the prefix: they are the names of the
// files on the nodes, below the destination. They lie one behind the other, the largest first, so that small ones can share pieces.
//
// There may be thousands, so they are no part of what is said of a job again and again: its record, what watchers get. On the wire
// and in their bucket they are compressed.
type Files []objstore.Object

// MaxFiles is how many files a job has at most. Of each some 50 bytes are left when a list is compressed.
const MaxFiles = 10_000

const (
	maxPackedFiles   = 768 << 10 // on the wire, below what any NATS takes in a message
	maxUnpackedFiles = 32 << 20
	maxUnpackedFile  = 64 << 10 // one of them: a key of 4096 letters, of each of which JSON may make six, and the rest
)

// Sort puts f in order.
func (f Files) Sort() {
	slices.SortFunc(f, func(a, b objstore.Object) int { return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Key, b.Key)) })
}

// Whole is what several objects below a prefix are together.
func (f Files) Whole(prefix string) objstore.Object {
	o, version := objstore.Object{Key: prefix, Ranges: true}, sha256.New()
	for _, k := range f {
		fmt.Fprintf(version, "%q %d %q\n", k.Key, k.Size, k.Version)
		o.Size += k.Size
		o.Ranges = o.Ranges && k.Ranges
		if k.Modified.After(o.Modified) {
			o.Modified = k.Modified
		}
	}
	o.Version = fmt.Sprintf("%x", version.Sum(nil))
	return o
}

// Check says whether f can be the files of a job: names that a file system takes and that do not stand in each other's way.
func (f Files) Check() error {
	if len(f) > MaxFiles {
		return fail(ErrRefused, "%d files are more than the %d that a job can have: name a prefix with fewer below it", len(f), MaxFiles)
	}
	names, dirs := map[string]bool{}, map[string]string{}
	for _, o := range f {
		switch {
		case !fs.ValidPath(o.Key) || o.Key == "." || strings.ContainsFunc(o.Key, unicode.IsControl) || len(o.Key) > maxSource:
			return fail(ErrRefused, "object %q cannot be a file of that name: rename it", peer.Printable(o.Key, 200))
		case names[o.Key]:
			return fail(ErrRefused, "object %q is there twice", peer.Printable(o.Key, 200))
		case o.Size < 0 || len(o.Version) > 1024 || len(o.Checksum.Value) > 256:
			return fail(nil, "what is said of object %q makes no sense (%d bytes, a version of %d letters)", peer.Printable(o.Key, 200), o.Size, len(o.Version))
		}
		names[o.Key] = true
		for dir := path.Dir(o.Key); dir != "."; dir = path.Dir(dir) {
			dirs[dir] = o.Key
		}
	}
	for name := range names {
		if other, both := dirs[name]; both {
			return fail(ErrRefused, "objects %q and %q cannot be files beside each other: one name would be a file and a directory", peer.Printable(name, 200), peer.Printable(other, 200))
		}
	}
	return nil
}

// MarshalJSON makes it a string.
func (f Files) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := errors.Join(json.NewEncoder(z).Encode([]objstore.Object(f)), z.Close()); err != nil {
		return nil, err
	}
	return json.Marshal(b.Bytes())
}

// UnmarshalJSON reads what MarshalJSON made.
func (f *Files) UnmarshalJSON(b []byte) error {
	var packed []byte
	if err := json.Unmarshal(b, &packed); err != nil || len(packed) == 0 {
		*f = nil
		return err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	if *f, err = elements[objstore.Object](io.LimitReader(z, maxUnpackedFiles), MaxFiles, maxUnpackedFile); err != nil {
		return fmt.Errorf("list of files: %w", err)
	}
	return nil
}

// Several says whether the source is all that is below a prefix or a directory: it ends with a slash. A web server has no such thing.
func (s Spec) Several() bool {
	if isFile(s.Source) {
		return strings.HasSuffix(s.Source, "/")
	}
	u, err := url.Parse(s.Source)
	return err == nil && u.Scheme == "s3" && strings.HasSuffix(u.Path, "/")
}

// check says whether a node's word on a source makes sense.
func (o Source) check(spec Spec) error {
	if o.Size < 0 || len(o.Version) > 1024 || len(o.Key) > maxSource || len(o.Checksum.Value) > 256 {
		return fail(nil, "what it says of the object makes no sense (%d bytes, a version of %d letters)", o.Size, len(o.Version))
	}
	if !spec.Several() {
		if len(o.Files) > 0 {
			return fail(nil, "it says that the source is %d objects, and one was asked for", len(o.Files))
		}
		return nil
	}
	if err := o.Files.Check(); err != nil {
		return err
	}
	if packed, err := json.Marshal(o.Files); err != nil || len(packed) > maxPackedFiles {
		return fail(ErrRefused, "the list of the %d files is too long for a job (%d bytes): name a prefix with fewer below it", len(o.Files), len(packed))
	}
	if whole := o.Files.Whole(o.Key); len(o.Files) == 0 || whole.Size < 0 || whole.Size != o.Size || whole.Version != o.Version || whole.Ranges != o.Ranges {
		return fail(nil, "what it says of the %d objects makes no sense", len(o.Files))
	}
	return nil
}

// files are those of a job of several, and none of one.
func (h *Hub) files(ctx context.Context, prefix string) (f Files, err error) {
	id, d, err := h.find(prefix)
	if err != nil {
		return nil, err
	}
	if d != nil {
		return d.files, nil
	}
	_, err = get(ctx, h.store.files, id, &f)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		err = nil
	}
	return f, err
}

// Files are the files of a job of several, the largest first; of a job of one object there are none. ErrNoSuchJob.
func (c *Client) Files(ctx context.Context, id string) (Files, error) {
	var f Files
	err := c.call(ctx, "files", jobRequest{id}, &f, true)
	return f, err
}
