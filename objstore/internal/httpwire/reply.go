package httpwire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/internal/ranged"
	"github.com/freshet/freshet/unit"
)

// ContentRange reads a Content-Range header (RFC 9110, section 14.4):
//
//	bytes 0-99/1000    start 0, end 99 (inclusive), total 1000
//	bytes 0-99/*       total -1: the server does not know it
//	bytes */1000       start -1, end -1: no range could be satisfied
func ContentRange(s string) (start, end, total unit.Bytes, err error) {
	bad := func() (unit.Bytes, unit.Bytes, unit.Bytes, error) {
		return 0, 0, 0, objstore.Permanent(fmt.Errorf("unreadable Content-Range %.60q", s))
	}
	name, rest, ok := strings.Cut(strings.TrimSpace(s), " ")
	if !ok || !strings.EqualFold(name, "bytes") {
		return bad()
	}
	span, size, ok := strings.Cut(strings.TrimSpace(rest), "/")
	if !ok {
		return bad()
	}
	total = -1
	if size != "*" {
		if total, ok = number(size); !ok {
			return bad()
		}
	}
	if span == "*" {
		if total < 0 {
			return bad()
		}
		return -1, -1, total, nil
	}
	first, last, ok := strings.Cut(span, "-")
	if !ok {
		return bad()
	}
	start, ok = number(first)
	if !ok {
		return bad()
	}
	end, ok = number(last)
	if !ok || end < start || total >= 0 && end >= total {
		return bad()
	}
	return start, end, total, nil
}

// number reads decimal digits and nothing else.
func number(s string) (unit.Bytes, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return unit.Bytes(n), err == nil
}

// longestVersion is what the control plane takes, too. A version id of Amazon's has 32 letters, an ETag of most servers hardly more.
const longestVersion = 1024

// CheckVersion refuses a version that is longer than any is: it is kept for as long as a job lasts, for each of its objects.
func CheckVersion(v string) error {
	if len(v) > longestVersion {
		return objstore.Permanent(fmt.Errorf("the server names a version of %d letters: want %d at most", len(v), longestVersion))
	}
	return nil
}

// RangeHeader asks for n > 0 bytes from off.
func RangeHeader(off, n unit.Bytes) string {
	return fmt.Sprintf("bytes=%d-%d", off, off+n-1)
}

// CheckRange holds the Content-Range and length of a reply (-1: unknown)
// against what was asked of o: n > 0 bytes from off. A reply without
// Content-Range holds the whole object, which is right only if that was asked.
func CheckRange(contentRange string, length int64, o objstore.Object, off, n unit.Bytes) error {
	if contentRange == "" {
		switch {
		case length >= 0 && unit.Bytes(length) != o.Size:
			return objstore.ErrChanged
		case off != 0 || n != o.Size:
			return fmt.Errorf("the server ignored the range: %w", objstore.ErrNoRange)
		}
		return nil
	}
	start, end, total, err := ContentRange(contentRange)
	switch {
	case err != nil:
		return err
	case total >= 0 && total != o.Size:
		return objstore.ErrChanged
	case start != off || end != off+n-1:
		return objstore.Permanent(fmt.Errorf("asked for bytes %d-%d, the server sent %.60q", off, off+n-1, contentRange))
	case length >= 0 && unit.Bytes(length) != n:
		return objstore.Permanent(fmt.Errorf("asked for %d bytes, the server announced %d", n, length))
	}
	return nil
}

// RetryAfter reads a Retry-After header (RFC 9110, section 10.2.3), seconds or
// a date, as a time from now; 0 if there is none or it makes no sense. No wait
// is longer than a day.
func RetryAfter(s string, now time.Time) time.Duration {
	const longest = 24 * time.Hour
	s = strings.TrimSpace(s)
	if n, ok := number(s); ok {
		return time.Duration(min(int64(n), int64(longest/time.Second))) * time.Second
	}
	if t, err := http.ParseTime(s); err == nil {
		return min(max(t.Sub(now), 0), longest)
	}
	return 0
}

// Status is the error of a reply with an HTTP status that brings no object:
// the sentinel that fits, *objstore.Busy, a temporary error for the server's
// own failures, a permanent one for everything else. detail, which may be
// empty, says what the server said about it.
func Status(code int, header http.Header, detail string) error {
	text := fmt.Sprintf("HTTP %d %s", code, http.StatusText(code))
	if detail != "" {
		text += ": " + detail
	}
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return fmt.Errorf("%w (%s)", objstore.ErrDenied, text)
	case http.StatusNotFound, http.StatusGone:
		return fmt.Errorf("%w (%s)", objstore.ErrNotExist, text)
	case http.StatusPreconditionFailed:
		return objstore.ErrChanged
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return &objstore.Busy{After: RetryAfter(header.Get("Retry-After"), time.Now()), Err: errors.New(text)}
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return objstore.Permanent(errors.New(text))
	case http.StatusRequestTimeout, http.StatusTooEarly:
		return errors.New(text)
	}
	if code >= 500 {
		return errors.New(text)
	}
	return objstore.Permanent(errors.New(text))
}

// Redact is address without what may be secret in it: the user's name and
// password, and the values of its query (signed URLs hold signatures there).
func Redact(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Opaque != "" {
		// url.Parse quotes what it could not read; neither that nor address is safe to print.
		scheme, _, ok := strings.Cut(address, "://")
		if !ok || len(scheme) > 10 {
			return "(unreadable URL)"
		}
		return scheme + "://(unreadable URL)"
	}
	u.User = nil
	u.Fragment, u.RawFragment = "", ""
	if u.RawQuery != "" {
		u.RawQuery = "..."
	}
	return u.String()
}

// Body delivers exactly n bytes of a reply's body, under the watch of w, whose
// context is watched and lies below ctx. Its errors begin with what.
func Body(ctx, watched context.Context, w *Watch, body io.ReadCloser, n unit.Bytes, what string) io.ReadCloser {
	w.expect(int64(n))
	return &exact{ctx: ctx, watched: watched, watch: w, what: what, body: body, r: ranged.Reader(body, n)}
}

type exact struct {
	ctx, watched context.Context
	watch        *Watch
	what         string
	body         io.Closer
	r            io.Reader
	close        sync.Once
	closeErr     error
}

func (b *exact) Read(p []byte) (int, error) {
	b.watch.Start()
	n, err := b.r.Read(p)
	b.watch.Pause()
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%s: %w", b.what, Failed(b.ctx, b.watched, err))
	}
	return n, err
}

// Close closes the connection if the body was not read to its end, and gives
// it back if it was.
func (b *exact) Close() error {
	b.close.Do(func() {
		b.closeErr = b.body.Close()
		b.watch.Stop()
	})
	return b.closeErr
}
