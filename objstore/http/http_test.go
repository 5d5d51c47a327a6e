package http_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/http"
	"github.com/freshet/freshet/objstore/objstoretest"
	"github.com/freshet/freshet/unit"
)

// site is a web server's content.
type site struct {
	mu       sync.Mutex // guards what follows
	objects  map[string]object
	denied   map[string]bool
	versions int
}

type object struct {
	data     []byte
	etag     string
	modified time.Time
}

func (s *site) set(_ *testing.T, name string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions++
	s.objects[name] = object{data, fmt.Sprintf(`"v%d"`, s.versions), time.Now().Add(time.Duration(s.versions)*time.Second - time.Minute)}
}

func (s *site) deny(_ *testing.T, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied[name] = true
}

func (s *site) get(name string) (object, bool, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[name]
	return o, ok, s.denied[name]
}

// TestConformance runs the suite against Go's file server logic as it is, and
// against servers that differ from it in ways seen in the wild.
func TestConformance(t *testing.T) {
	plain := func(w nethttp.ResponseWriter, r *nethttp.Request, o object) {
		w.Header().Set("ETag", o.etag)
		nethttp.ServeContent(w, r, "", o.modified, bytes.NewReader(o.data))
	}
	for _, c := range []struct {
		name  string
		serve func(nethttp.ResponseWriter, *nethttp.Request, object)
		h     objstoretest.Harness
	}{
		{"plain", plain, objstoretest.Harness{}},
		{"only dates", func(w nethttp.ResponseWriter, r *nethttp.Request, o object) {
			nethttp.ServeContent(w, r, "", o.modified, bytes.NewReader(o.data))
		}, objstoretest.Harness{}},
		{"weak tag and date", func(w nethttp.ResponseWriter, r *nethttp.Request, o object) {
			o.etag = "W/" + o.etag
			plain(w, r, o)
		}, objstoretest.Harness{}},
		{"no validator", func(w nethttp.ResponseWriter, r *nethttp.Request, o object) {
			nethttp.ServeContent(w, r, "", time.Time{}, bytes.NewReader(o.data))
		}, objstoretest.Harness{Unpinned: true}},
		{"conditions ignored", func(w nethttp.ResponseWriter, r *nethttp.Request, o object) {
			for _, h := range []string{"If-Match", "If-Unmodified-Since", "If-Range", "If-None-Match"} {
				r.Header.Del(h)
			}
			plain(w, r, o)
		}, objstoretest.Harness{}},
		{"ranges ignored", func(w nethttp.ResponseWriter, r *nethttp.Request, o object) {
			r.Header.Del("Range")
			plain(w, r, o)
		}, objstoretest.Harness{NoRanges: true}},
		{"HEAD refused", func(w nethttp.ResponseWriter, r *nethttp.Request, o object) {
			if r.Method != "GET" {
				nethttp.Error(w, "no", nethttp.StatusMethodNotAllowed)
				return
			}
			plain(w, r, o)
		}, objstoretest.Harness{}},
		{"416 for empty", func(w nethttp.ResponseWriter, r *nethttp.Request, o object) {
			if len(o.data) == 0 && r.Header.Get("Range") != "" {
				w.Header().Set("Content-Range", "bytes */0")
				w.WriteHeader(nethttp.StatusRequestedRangeNotSatisfiable)
				return
			}
			plain(w, r, o)
		}, objstoretest.Harness{}},
		{"parts without length", func(w nethttp.ResponseWriter, r *nethttp.Request, o object) {
			plain(&chunked{ResponseWriter: w, from: r.Header.Get("Range")}, r, o)
		}, objstoretest.Harness{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var (
				content *site
				server  *httptest.Server
				open    atomic.Int64
			)
			c.h.Open = func(t *testing.T) objstore.Store {
				content = &site{objects: map[string]object{}, denied: map[string]bool{}}
				server = httptest.NewUnstartedServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
					o, ok, denied := content.get(strings.TrimPrefix(r.URL.Path, "/"))
					switch {
					case denied:
						nethttp.Error(w, "no", nethttp.StatusForbidden)
					case !ok:
						nethttp.NotFound(w, r)
					default:
						c.serve(w, r, o)
					}
				}))
				open.Store(0)
				server.Config.ConnState = func(_ net.Conn, s nethttp.ConnState) {
					switch s {
					case nethttp.StateNew:
						open.Add(1)
					case nethttp.StateClosed, nethttp.StateHijacked:
						open.Add(-1)
					}
				}
				server.Start()
				t.Cleanup(server.Close)
				return http.Open(http.Config{})
			}
			c.h.Key = func(name string) string {
				return server.URL + (&url.URL{Path: "/" + name}).EscapedPath()
			}
			c.h.Set = func(t *testing.T, name string, data []byte) { content.set(t, name, data) }
			c.h.Deny = func(t *testing.T, name string) { content.deny(t, name) }
			c.h.Connections = func() int { return int(open.Load()) }
			c.h.ReadOnly = true
			objstoretest.Run(t, c.h)
		})
	}
}

// chunked takes Content-Length away from partial replies.
type chunked struct {
	nethttp.ResponseWriter
	from string
}

func (c *chunked) WriteHeader(code int) {
	if code == nethttp.StatusPartialContent && c.from != "bytes=0-0" {
		c.Header().Del("Content-Length")
	}
	c.ResponseWriter.WriteHeader(code)
}

// serve starts a server of one handler.
func serve(t *testing.T, h nethttp.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func TestStatErrors(t *testing.T) {
	for _, tt := range []struct {
		name      string
		serve     nethttp.HandlerFunc
		want      error // nil: any
		text      string
		temporary bool
	}{
		{"no length", func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.(nethttp.Flusher).Flush()
		}, nil, "no Content-Length", false},
		{"no total", func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.Header().Set("Content-Range", "bytes 0-0/*")
			w.WriteHeader(206)
			w.Write([]byte("x"))
		}, nil, "how long", false},
		{"other range", func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.Header().Set("Content-Range", "bytes 1-1/5")
			w.WriteHeader(206)
		}, nil, "first byte", false},
		{"no range", func(w nethttp.ResponseWriter, r *nethttp.Request) { w.WriteHeader(206) }, nil, "Content-Range", false},
		{"no content", func(w nethttp.ResponseWriter, r *nethttp.Request) { w.WriteHeader(204) }, nil, "204", false},
		{"always 416", func(w nethttp.ResponseWriter, r *nethttp.Request) { w.WriteHeader(416) }, nil, "416", false},
		{"unauthorized", func(w nethttp.ResponseWriter, r *nethttp.Request) { w.WriteHeader(401) }, objstore.ErrDenied, "401", false},
		{"gone", func(w nethttp.ResponseWriter, r *nethttp.Request) { w.WriteHeader(410) }, objstore.ErrNotExist, "410", false},
		{"teapot", func(w nethttp.ResponseWriter, r *nethttp.Request) { w.WriteHeader(418) }, nil, "418", false},
		{"broken", func(w nethttp.ResponseWriter, r *nethttp.Request) { w.WriteHeader(500) }, nil, "500", true},
		{"hung up", func(w nethttp.ResponseWriter, r *nethttp.Request) { panic(nethttp.ErrAbortHandler) }, nil, "", true},
		{"long version", func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.Header().Set("ETag", `"`+strings.Repeat("v", 2000)+`"`)
			w.Header().Set("Content-Range", "bytes 0-0/5")
			w.WriteHeader(206)
		}, nil, "version", false},
		{"long header", func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.Header().Set("ETag", `"`+strings.Repeat("v", 100_000)+`"`)
		}, nil, "header", true},
		{"round and round", func(w nethttp.ResponseWriter, r *nethttp.Request) { nethttp.Redirect(w, r, "/", nethttp.StatusFound) }, nil, "redirects", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := http.Open(http.Config{})
			defer s.Close()
			address := serve(t, tt.serve)
			key := strings.Replace(address, "http://", "http://me:s3cret@", 1) + "/x?sig=s3cret"
			_, err := s.Stat(t.Context(), key)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || objstore.Temporary(err) != tt.temporary {
				t.Errorf("got %v, want %v, temporary %v", err, tt.want, tt.temporary)
				return
			}
			if got := err.Error(); !strings.Contains(got, tt.text) || !strings.Contains(got, address+"/x") || strings.Contains(got, "s3cret") || strings.Contains(got, "\n") {
				t.Errorf("message %q", got)
			}
		})
	}
}

func TestBusy(t *testing.T) {
	for _, tt := range []struct {
		code   int
		after  string
		lo, hi time.Duration
	}{
		{503, "7", 7 * time.Second, 7 * time.Second},
		{429, time.Now().Add(time.Hour).UTC().Format(nethttp.TimeFormat), 50 * time.Minute, time.Hour},
		{503, "", 0, 0},
	} {
		address := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.Header().Set("Retry-After", tt.after)
			w.WriteHeader(tt.code)
		})
		s := http.Open(http.Config{})
		_, err := s.Stat(t.Context(), address)
		_, err2 := s.ReadRange(t.Context(), objstore.Object{Key: address, Size: 5, Ranges: true}, 0, 5)
		for _, err := range []error{err, err2} {
			var busy *objstore.Busy
			if !errors.As(err, &busy) || busy.After < tt.lo || busy.After > tt.hi || !objstore.Temporary(err) {
				t.Errorf("%d, %q: got %v", tt.code, tt.after, err)
			}
		}
		s.Close()
	}
}

// Replies whose head or body is not what was asked for.
func TestWrongReplies(t *testing.T) {
	const size = 100000
	data := objstoretest.Bytes(1, size)
	for _, tt := range []struct {
		name  string
		reply func(w nethttp.ResponseWriter, r *nethttp.Request)
		want  error // nil: any
	}{
		{"another tag", func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.Header().Set("ETag", `"other"`)
			w.Header().Set("Content-Range", "bytes 1000-1999/100000")
			w.WriteHeader(206)
			w.Write(data[1000:2000])
		}, objstore.ErrChanged},
		{"no tag", func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.Header().Set("Content-Range", "bytes 1000-1999/100000")
			w.WriteHeader(206)
			w.Write(data[1000:2000])
		}, objstore.ErrChanged},
		{"another total", func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.Header().Set("ETag", `"v"`)
			w.Header().Set("Content-Range", "bytes 1000-1999/100001")
			w.WriteHeader(206)
			w.Write(data[1000:2000])
		}, objstore.ErrChanged},
		{"another range", func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.Header().Set("ETag", `"v"`)
			w.Header().Set("Content-Range", "bytes 0-999/100000")
			w.WriteHeader(206)
			w.Write(data[:1000])
		}, nil},
		{"the whole", func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.Header().Set("ETag", `"v"`)
			w.Write(data)
		}, objstore.ErrNoRange},
		{"416, shorter", func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.Header().Set("Content-Range", "bytes */500")
			w.WriteHeader(416)
		}, objstore.ErrChanged},
		{"416, same", func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.Header().Set("Content-Range", "bytes */100000")
			w.WriteHeader(416)
		}, nil},
		{"cut short", func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.Header().Set("ETag", `"v"`)
			w.Header().Set("Content-Range", "bytes 1000-1999/100000")
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(206)
			w.Write(data[1000:1500])
			w.(nethttp.Flusher).Flush()
			panic(nethttp.ErrAbortHandler)
		}, io.ErrUnexpectedEOF},
		{"chunks cut short", func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.Header().Set("ETag", `"v"`)
			w.Header().Set("Content-Range", "bytes 1000-1999/100000")
			w.WriteHeader(206)
			w.(nethttp.Flusher).Flush()
			w.Write(data[1000:1500])
			panic(nethttp.ErrAbortHandler)
		}, io.ErrUnexpectedEOF},
		{"chunks end early", func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.Header().Set("ETag", `"v"`)
			w.Header().Set("Content-Range", "bytes 1000-1999/100000")
			w.WriteHeader(206)
			w.(nethttp.Flusher).Flush()
			w.Write(data[1000:1500])
		}, io.ErrUnexpectedEOF},
		{"chunks too long", func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.Header().Set("ETag", `"v"`)
			w.Header().Set("Content-Range", "bytes 1000-1999/100000")
			w.WriteHeader(206)
			w.(nethttp.Flusher).Flush()
			w.Write(data[1000:2001])
		}, nil},
		{"two parts", func(w nethttp.ResponseWriter, r *nethttp.Request) {
			w.Header().Set("ETag", `"v"`)
			w.Header().Set("Content-Type", "multipart/byteranges; boundary=x")
			w.WriteHeader(206)
			w.Write(data[:1000])
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := http.Open(http.Config{})
			defer s.Close()
			o := objstore.Object{Key: serve(t, tt.reply), Size: size, Version: `"v"`, Ranges: true}
			r, err := s.ReadRange(t.Context(), o, 1000, 1000)
			var got []byte
			if err == nil {
				got, err = io.ReadAll(r)
				r.Close()
			}
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %d bytes, %v; want %v", len(got), err, tt.want)
			}
			if !bytes.HasPrefix(data[1000:2000], got) {
				t.Error("wrong bytes were delivered")
			}
		})
	}
}

func TestStalls(t *testing.T) {
	done := make(chan struct{})
	address := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.URL.Path == "/body" {
			w.Header().Set("Content-Length", "1000")
			w.Write(make([]byte, 10))
			w.(nethttp.Flusher).Flush()
		}
		select {
		case <-done:
		case <-r.Context().Done():
		}
	})
	defer close(done)
	s := http.Open(http.Config{HeaderTimeout: 100 * time.Millisecond, StallTimeout: 100 * time.Millisecond})
	defer s.Close()
	start := time.Now()
	if _, err := s.Stat(t.Context(), address+"/header"); err == nil || !objstore.Temporary(err) {
		t.Errorf("header: got %v, want a temporary error", err)
	}
	r, err := s.ReadRange(t.Context(), objstore.Object{Key: address + "/body", Size: 1000}, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if len(b) != 10 || err == nil || !objstore.Temporary(err) || !strings.Contains(err.Error(), "no byte came") {
		t.Errorf("body: got %d bytes, %v; want 10 and a temporary error", len(b), err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %v", took)
	}

	// Slowness of the caller is not the server's.
	address = serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) { w.Write(make([]byte, 1000)) })
	s = http.Open(http.Config{StallTimeout: 50 * time.Millisecond})
	defer s.Close()
	r, err = s.ReadRange(t.Context(), objstore.Object{Key: address, Size: 1000}, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	time.Sleep(200 * time.Millisecond)
	if b, err := io.ReadAll(r); len(b) != 1000 || err != nil {
		t.Errorf("after a pause: %d bytes, %v", len(b), err)
	}
}

// A password goes to its own host and nowhere else, and into no message.
func TestPassword(t *testing.T) {
	var seen []string
	var mu sync.Mutex
	note := func(w nethttp.ResponseWriter, r *nethttp.Request) {
		_, password, _ := r.BasicAuth()
		mu.Lock()
		seen = append(seen, password)
		mu.Unlock()
		w.Header().Set("ETag", `"v"`)
		nethttp.ServeContent(w, r, "", time.Time{}, strings.NewReader("hello"))
	}
	one, two := serve(t, note), serve(t, note)
	u, err := url.Parse(one)
	if err != nil {
		t.Fatal(err)
	}
	s := http.Open(http.Config{User: url.UserPassword("me", "s3cret"), Host: u.Host})
	defer s.Close()
	for _, key := range []string{one + "/x", two + "/x", strings.Replace(two, "://", "://you:other@", 1)} {
		if _, err := s.Stat(t.Context(), key); err != nil {
			t.Error(err)
		}
	}
	if got, want := fmt.Sprintf("%q", seen), `["s3cret" "" "other"]`; got != want {
		t.Errorf("passwords seen: %s, want %s", got, want)
	}
	for _, key := range []string{
		"http://me:s3cret@127.0.0.1:1/x", "http://me:s3cret@/x", "ftp://me:s3cret@host/x", "http://me:s3cret@ho st/x",
		"me:s3cret@host", "http://me:s3cret%zz@host/", "http://127.0.0.1:1/x?X-Amz-Signature=s3cret",
	} {
		_, statErr := s.Stat(t.Context(), key)
		_, readErr := s.ReadRange(t.Context(), objstore.Object{Key: key, Size: 1}, 0, 1)
		_, putErr := s.Put(t.Context(), key, nil, 0)
		for _, err := range []error{statErr, readErr, putErr} {
			if err == nil || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%v", err)
			}
		}
	}
}

func TestDial(t *testing.T) {
	address := serve(t, func(w nethttp.ResponseWriter, r *nethttp.Request) { w.Write([]byte("hello")) })
	dialed := 0
	s := http.Open(http.Config{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialed++
		if _, ok := ctx.Deadline(); !ok {
			t.Error("dialling has no deadline")
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}})
	defer s.Close()
	for range 3 {
		o, err := s.Stat(t.Context(), address)
		if err != nil || o.Size != unit.Bytes(5) {
			t.Fatalf("%+v, %v", o, err)
		}
	}
	if dialed != 1 {
		t.Errorf("dialled %d times, want once: connections are kept", dialed)
	}
}

func TestUntrustedServer(t *testing.T) {
	server := httptest.NewUnstartedServer(nethttp.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	s := http.Open(http.Config{})
	defer s.Close()
	if _, err := s.Stat(t.Context(), server.URL); err == nil || objstore.Temporary(err) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v, want a lasting error", err)
	}
}
