// Package ranged holds what every driver does about a range of an object: say
// whether it lies within the object, and deliver exactly it.
package ranged

import (
	"errors"
	"fmt"
	"io"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/unit"
)

// Check says whether n bytes from off can be asked of o: they must lie within
// it, and be all of it if its store cannot read ranges (objstore.ErrNoRange).
func Check(o objstore.Object, off, n unit.Bytes) error {
	if off < 0 || n < 0 || off > o.Size || n > o.Size-off {
		return objstore.Permanent(fmt.Errorf("bytes %d+%d lie outside an object of %d", off, n, o.Size))
	}
	if !o.Ranges && n > 0 && (off != 0 || n != o.Size) {
		return objstore.ErrNoRange
	}
	return nil
}

// Reader reads exactly n bytes from r: io.ErrUnexpectedEOF if r ends before
// them, ErrLong if it goes on after them. An io.EOF is only ever returned
// after the n-th byte, together with it where possible, so that whoever counts
// bytes and whoever waits for the end see the same error.
func Reader(r io.Reader, n unit.Bytes) io.Reader {
	return &reader{r: r, left: n}
}

// ErrLong is the error of a body that goes on after its last byte.
var ErrLong = errors.New("store sent more than was asked for")

type reader struct {
	r    io.Reader
	left unit.Bytes
	err  error // sticky
}

func (r *reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if len(p) == 0 && r.left > 0 {
		return 0, nil
	}
	if r.left == 0 {
		r.err = io.EOF
		return 0, r.err
	}
	n, err := r.r.Read(p)
	switch {
	case unit.Bytes(n) > r.left:
		// Nothing of this read is delivered: a caller that only counts would
		// never see the error behind its last byte.
		r.err = ErrLong
		return 0, r.err
	case err == io.EOF && unit.Bytes(n) < r.left:
		err = io.ErrUnexpectedEOF
	case unit.Bytes(n) == r.left && (err == nil || err == io.EOF):
		err = io.EOF
	}
	r.left -= unit.Bytes(n)
	r.err = err
	return n, err
}
