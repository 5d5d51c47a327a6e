// Package http reads objects from web servers. A key is the whole URL.
//
// A server's word is not taken for it. Whether it can read ranges is found by
// asking for one; a version is its strong ETag or, where it has none, its
// Last-Modified date, which is as fine as a second (RFC 9110, section 8.8);
// and each reply's status, Content-Range and validator are held against what
// was asked, since servers and caches exist that ignore Range or If-Match.
package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/internal/httpwire"
	"github.com/freshet/freshet/objstore/internal/ranged"
	"github.com/freshet/freshet/unit"
)

// Config says how servers are reached. The zero Config is right for most.
type Config struct {
	Dial          httpwire.DialFunc // nil: a plain TCP dialer
	HeaderTimeout time.Duration     // longest wait for a reply's header; 0: 30 s
	StallTimeout  time.Duration     // longest wait for the next byte of a body; 0: 30 s

	// User is sent as basic authentication to Host ("example.com:8080"), so
	// that a password need not stand in a key. Nil: none is sent, but for that
	// of a key with user information of its own.
	User *url.Userinfo
	Host string
}

// Store reads objects over HTTP.
type Store struct {
	client *http.Client
	limits httpwire.Limits
	user   *url.Userinfo
	host   string
}

// Open returns a store. No connection is made before the first call.
func Open(c Config) *Store {
	limits := httpwire.Limits{Header: c.HeaderTimeout, Stall: c.StallTimeout}.WithDefaults()
	t := new(http.Transport)
	httpwire.Configure(t, c.Dial, limits)
	return &Store{client: &http.Client{Transport: t}, limits: limits, user: c.User, host: c.Host}
}

// Close closes idle connections.
func (s *Store) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// request prepares a GET of key.
func (s *Store) request(ctx context.Context, key string) (*http.Request, error) {
	u, err := url.Parse(key)
	if err != nil {
		return nil, objstore.Permanent(errors.New("the URL cannot be read")) // its text may hold a password
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, objstore.Permanent(errors.New("want http://host/path or https://host/path"))
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, key, nil)
	if err != nil {
		return nil, objstore.Permanent(errors.New("the URL cannot be requested"))
	}
	if s.user != nil && u.User == nil && u.Host == s.host {
		password, _ := s.user.Password()
		r.SetBasicAuth(s.user.Username(), password)
	}
	r.Header.Set("Accept-Encoding", "identity")
	r.Header.Set("User-Agent", "freshet")
	return r, nil
}

// Stat asks for the first byte of key: unlike HEAD, which some servers refuse
// and presigned URLs do not cover, that works wherever reading will, and shows
// whether ranges do.
func (s *Store) Stat(ctx context.Context, key string) (objstore.Object, error) {
	o, err := s.stat(ctx, key, "bytes=0-0")
	if err == errNoFirstByte {
		o, err = s.stat(ctx, key, "")
	}
	if err != nil {
		return objstore.Object{}, fmt.Errorf("stat %s: %w", httpwire.Redact(key), err)
	}
	return o, nil
}

var errNoFirstByte = errors.New("the object has no first byte")

func (s *Store) stat(ctx context.Context, key, span string) (objstore.Object, error) {
	watched, watch := httpwire.NewWatch(ctx, s.limits.Stall)
	defer watch.Stop()
	r, err := s.request(watched, key)
	if err != nil {
		return objstore.Object{}, err
	}
	if span != "" {
		r.Header.Set("Range", span)
	}
	reply, err := s.client.Do(r)
	if err != nil {
		return objstore.Object{}, httpwire.Failed(ctx, watched, err)
	}
	defer drain(reply, watch)
	o := objstore.Object{Key: key, Version: validator(reply.Header)}
	if err := httpwire.CheckVersion(o.Version); err != nil {
		return objstore.Object{}, err
	}
	if t, err := http.ParseTime(reply.Header.Get("Last-Modified")); err == nil {
		o.Modified = t
	}
	switch reply.StatusCode {
	case http.StatusPartialContent:
		start, end, total, err := httpwire.ContentRange(reply.Header.Get("Content-Range"))
		if err != nil {
			return objstore.Object{}, err
		}
		if span == "" || start != 0 || end != 0 {
			return objstore.Object{}, objstore.Permanent(fmt.Errorf(
				"asked for the first byte, the server sent %.60q", reply.Header.Get("Content-Range")))
		}
		if total < 0 {
			return objstore.Object{}, errNoSize
		}
		o.Size, o.Ranges = total, true
	case http.StatusOK:
		if reply.ContentLength < 0 {
			return objstore.Object{}, errNoSize
		}
		o.Size = unit.Bytes(reply.ContentLength)
		o.Ranges = o.Size == 0 // of which every range is the whole
	case http.StatusRequestedRangeNotSatisfiable:
		if _, _, total, err := httpwire.ContentRange(reply.Header.Get("Content-Range")); span != "" && (err != nil || total == 0) {
			return objstore.Object{}, errNoFirstByte // asked again without a range, for its validators
		}
		return objstore.Object{}, status(reply)
	default:
		return objstore.Object{}, status(reply)
	}
	return o, nil
}

var errNoSize = objstore.Permanent(errors.New("the server does not say how long the object is (no Content-Length)"))

// status is the error of a reply that brings no object.
func status(reply *http.Response) error {
	if reply.StatusCode/100 == 2 || reply.StatusCode/100 == 3 {
		return objstore.Permanent(fmt.Errorf("unexpected HTTP %d %s", reply.StatusCode, http.StatusText(reply.StatusCode)))
	}
	return httpwire.Status(reply.StatusCode, reply.Header, "")
}

// drain reads what little a short body still holds, so that its connection
// can serve again, and closes it; long ones are cut off.
func drain(reply *http.Response, watch *httpwire.Watch) {
	if reply.ContentLength >= 0 && reply.ContentLength <= 4096 {
		watch.Start()
		io.CopyN(io.Discard, reply.Body, reply.ContentLength)
	}
	reply.Body.Close()
}

// validator is what tells the version in a reply from others: a strong ETag
// alone; else all there is of a weak one and the date.
func validator(h http.Header) string {
	tag := strings.TrimSpace(h.Get("ETag"))
	if strings.HasPrefix(tag, `"`) {
		return tag
	}
	return strings.TrimSpace(tag + " " + h.Get("Last-Modified"))
}

// condition makes r fail with 412 if the object is no longer version.
func condition(r *http.Request, version string) {
	if strings.HasPrefix(version, `"`) {
		r.Header.Set("If-Match", version)
		return
	}
	date := version
	if strings.HasPrefix(version, "W/") {
		i := strings.LastIndexByte(version, '"')
		date = strings.TrimSpace(version[i+1:])
	}
	if _, err := http.ParseTime(date); err == nil {
		r.Header.Set("If-Unmodified-Since", date)
	}
}

// ReadRange reads n bytes of o from off.
func (s *Store) ReadRange(ctx context.Context, o objstore.Object, off, n unit.Bytes) (io.ReadCloser, error) {
	what := "read " + httpwire.Redact(o.Key)
	r, err := s.readRange(ctx, o, off, n, what)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return r, nil
}

func (s *Store) readRange(ctx context.Context, o objstore.Object, off, n unit.Bytes, what string) (_ io.ReadCloser, err error) {
	if err := ranged.Check(o, off, n); err != nil {
		return nil, err
	}
	if n == 0 {
		return io.NopCloser(strings.NewReader("")), nil
	}
	watched, watch := httpwire.NewWatch(ctx, s.limits.Stall)
	defer func() {
		if err != nil {
			watch.Stop()
		}
	}()
	r, err := s.request(watched, o.Key)
	if err != nil {
		return nil, err
	}
	if o.Ranges {
		r.Header.Set("Range", httpwire.RangeHeader(off, n))
	}
	if o.Pinned() {
		condition(r, o.Version)
	}
	reply, err := s.client.Do(r)
	if err != nil {
		return nil, httpwire.Failed(ctx, watched, err)
	}
	if err := checkReply(reply, o, off, n); err != nil {
		drain(reply, watch)
		return nil, err
	}
	return httpwire.Body(ctx, watched, watch, reply.Body, n, what), nil
}

// checkReply holds a reply's head against what was asked for.
func checkReply(reply *http.Response, o objstore.Object, off, n unit.Bytes) error {
	contentRange := ""
	switch reply.StatusCode {
	case http.StatusOK:
	case http.StatusPartialContent:
		contentRange = reply.Header.Get("Content-Range")
		if contentRange == "" {
			return objstore.Permanent(errors.New("the server sent a part and does not say which (no Content-Range)"))
		}
	case http.StatusRequestedRangeNotSatisfiable:
		_, _, total, err := httpwire.ContentRange(reply.Header.Get("Content-Range"))
		if err == nil && total != o.Size {
			return objstore.ErrChanged
		}
		return status(reply)
	default:
		return status(reply)
	}
	if validator(reply.Header) != o.Version && o.Pinned() {
		return objstore.ErrChanged
	}
	return httpwire.CheckRange(contentRange, reply.ContentLength, o, off, n)
}

// List yields an error: HTTP has no listings.
func (s *Store) List(_ context.Context, prefix string) iter.Seq2[objstore.Entry, error] {
	return func(yield func(objstore.Entry, error) bool) {
		err := objstore.Permanent(errors.New("a web server cannot list its objects; name one by its URL"))
		yield(objstore.Entry{}, fmt.Errorf("list %s: %w", httpwire.Redact(prefix), err))
	}
}

// Put fails with ErrReadOnly.
func (s *Store) Put(_ context.Context, key string, _ io.Reader, _ unit.Bytes) (objstore.Object, error) {
	return objstore.Object{}, fmt.Errorf("put %s: %w", httpwire.Redact(key), objstore.ErrReadOnly)
}
