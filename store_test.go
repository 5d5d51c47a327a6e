package freshet_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/freshet/freshet/internal/pace"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/objstoretest/versity"
	"github.com/freshet/freshet/objstore/s3"
	"github.com/freshet/freshet/unit"
)

const bucket = "models"

// bucketServer is a real S3 server with a bucket.
type bucketServer struct{ *versity.Server }

func newBucket(t *testing.T) bucketServer {
	t.Helper()
	s := bucketServer{versity.Start(t)}
	s.MakeBucket(t, bucket)
	return s
}

// put stores an object with a checksum of the whole.
func (s bucketServer) put(t *testing.T, key string, data []byte) objstore.Object {
	t.Helper()
	store, err := s3.Open(t.Context(), s3.Config{Bucket: bucket, Endpoint: s.Endpoint})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	o, err := store.Put(t.Context(), key, bytes.NewReader(data), unit.Bytes(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if o.Checksum.Value == "" {
		t.Fatalf("%s: the store keeps no checksum: %+v", key, o)
	}
	return o
}

// at is the URL of an object behind that endpoint.
func at(endpoint, key string) string {
	return "s3://" + bucket + "/" + key + "?endpoint=" + url.QueryEscape(endpoint)
}

// front stands between the nodes and the store, and misbehaves.
type front struct {
	before func(w http.ResponseWriter, r *http.Request) (answered bool) // nil: passes everything on
	after  func(*http.Response) error                                   // nil: passes replies on as they are
}

// behind returns the endpoint of s behind f.
func (s bucketServer) behind(t *testing.T, f front) string {
	t.Helper()
	target, err := url.Parse(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // it is signed
		},
		ModifyResponse: f.after,
		ErrorLog:       log.New(io.Discard, "", 0),
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { panic(http.ErrAbortHandler) },
	}
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		if f.before == nil || !f.before(w, r) {
			proxy.ServeHTTP(w, r)
		}
	})
}

// serve runs a web server until the test ends.
func serve(t *testing.T, h http.HandlerFunc) (endpoint string) {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// span is the range of bytes that a request for data asks for; ok is false for
// other requests.
func span(r *http.Request) (lo, hi int, ok bool) {
	text, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes=")
	if !ok || r.Method != http.MethodGet {
		return 0, 0, false
	}
	first, last, _ := strings.Cut(text, "-")
	lo, err := strconv.Atoi(first)
	hi, err2 := strconv.Atoi(last)
	const proof = 4 << 10 // what a node reads of objects of this size to prove its access; all else is the job's
	return lo, hi + 1, err == nil && err2 == nil && hi+1-lo != proof
}

// s3Error answers as an S3 server does.
func s3Error(w http.ResponseWriter, r *http.Request, status int, code, message string) bool {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>%s</Message></Error>`, code, message)
	}
	return true
}

// gate holds back requests for data until it is opened.
type gate struct {
	from int // only requests that begin at this byte or later
	once sync.Once
	held chan struct{} // closed when the first is held back
	open chan struct{}
}

func newGate(t *testing.T, from int) *gate {
	g := &gate{from: from, held: make(chan struct{}), open: make(chan struct{})}
	t.Cleanup(sync.OnceFunc(func() {
		select {
		case <-g.open:
		default:
			close(g.open)
		}
	}))
	return g
}

func (g *gate) before(_ http.ResponseWriter, r *http.Request) bool {
	if lo, _, ok := span(r); ok && lo >= g.from {
		g.once.Do(func() { close(g.held) })
		select {
		case <-g.open:
		case <-r.Context().Done():
		}
	}
	return false
}

// body lets f have its way with the bodies of data.
func body(r *http.Response, f func(io.Reader) io.Reader) {
	r.Body = struct {
		io.Reader
		io.Closer
	}{f(r.Body), r.Body}
}

// slow holds each body to a rate.
func slow(rate unit.Bandwidth) func(*http.Response) error {
	return func(r *http.Response) error {
		if _, _, ok := span(r.Request); ok {
			body(r, func(b io.Reader) io.Reader { return pace.Reader(r.Request.Context(), b, pace.New(rate)) })
		}
		return nil
	}
}

// flipped is a body with one bit wrong in its byte at.
type flipped struct {
	io.Reader
	at int
}

func (f *flipped) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if 0 <= f.at && f.at < n {
		p[f.at] ^= 0x10
	}
	f.at -= n
	return n, err
}
