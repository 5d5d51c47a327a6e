package s3_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/objstoretest"
	"github.com/freshet/freshet/objstore/s3"
)

// crafted is the config for a server that answers as h does.
func crafted(t *testing.T, h http.HandlerFunc) s3.Config {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	return s3.Config{
		Bucket: "bucket", Region: "us-east-1", Endpoint: server.URL,
		Credentials: credentials.NewStaticCredentialsProvider("key", "s3cret", ""),
	}
}

// xmlError answers as S3 does.
func xmlError(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>%s</Message></Error>", code, message)
}

func TestWrongReplies(t *testing.T) {
	const size = 100000
	data := objstoretest.Bytes(1, size)
	part := func(w http.ResponseWriter, tag, contentRange string, length int, body []byte) {
		if tag != "" {
			w.Header().Set("ETag", tag)
		}
		if contentRange != "" {
			w.Header().Set("Content-Range", contentRange)
		}
		w.Header().Set("Content-Length", fmt.Sprint(length))
		status := http.StatusPartialContent
		if contentRange == "" {
			status = http.StatusOK
		}
		w.WriteHeader(status)
		w.Write(body)
		w.(http.Flusher).Flush()
		if len(body) < length {
			panic(http.ErrAbortHandler)
		}
	}
	for _, tt := range []struct {
		name      string
		serve     http.HandlerFunc
		want      error // nil: any
		temporary bool
	}{
		{"If-Match ignored", func(w http.ResponseWriter, r *http.Request) {
			part(w, `"new"`, "bytes 1000-1999/100000", 1000, data[1000:2000])
		}, objstore.ErrChanged, false},
		{"no tag", func(w http.ResponseWriter, r *http.Request) {
			part(w, "", "bytes 1000-1999/100000", 1000, data[1000:2000])
		}, objstore.ErrChanged, false},
		{"another total", func(w http.ResponseWriter, r *http.Request) {
			part(w, `"v"`, "bytes 1000-1999/100001", 1000, data[1000:2000])
		}, objstore.ErrChanged, false},
		{"another range", func(w http.ResponseWriter, r *http.Request) {
			part(w, `"v"`, "bytes 0-999/100000", 1000, data[:1000])
		}, nil, false},
		{"unreadable range", func(w http.ResponseWriter, r *http.Request) {
			part(w, `"v"`, "bytes 1000-/100000", 1000, data[1000:2000])
		}, nil, false},
		{"range ignored", func(w http.ResponseWriter, r *http.Request) {
			part(w, `"v"`, "", size, data)
		}, objstore.ErrNoRange, false},
		{"cut short", func(w http.ResponseWriter, r *http.Request) {
			part(w, `"v"`, "bytes 1000-1999/100000", 1000, data[1000:1500])
		}, io.ErrUnexpectedEOF, true},
		{"hung up", func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }, nil, true},
		{"412", func(w http.ResponseWriter, r *http.Request) {
			xmlError(w, 412, "PreconditionFailed", "no")
		}, objstore.ErrChanged, false},
		{"416", func(w http.ResponseWriter, r *http.Request) {
			xmlError(w, 416, "InvalidRange", "no")
		}, objstore.ErrChanged, false},
		{"404", func(w http.ResponseWriter, r *http.Request) { xmlError(w, 404, "NoSuchKey", "no") }, objstore.ErrNotExist, false},
		{"403", func(w http.ResponseWriter, r *http.Request) { xmlError(w, 403, "AccessDenied", "no") }, objstore.ErrDenied, false},
		{"403 without body", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(403) }, objstore.ErrDenied, false},
		{"expired", func(w http.ResponseWriter, r *http.Request) { xmlError(w, 400, "ExpiredToken", "no") }, objstore.ErrDenied, false},
		{"archived", func(w http.ResponseWriter, r *http.Request) { xmlError(w, 403, "InvalidObjectState", "no") }, nil, false},
		{"500", func(w http.ResponseWriter, r *http.Request) { xmlError(w, 500, "InternalError", "sorry") }, nil, true},
		{"request timeout", func(w http.ResponseWriter, r *http.Request) { xmlError(w, 400, "RequestTimeout", "sorry") }, nil, true},
		{"400", func(w http.ResponseWriter, r *http.Request) { xmlError(w, 400, "InvalidArgument", "a\nb") }, nil, false},
		{"no S3", func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "<html>hello", http.StatusMethodNotAllowed)
		}, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var calls atomic.Int32
			s := open(t, crafted(t, func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				if got := r.Header.Get("If-Match"); got != `"v"` { // so that a server that heeds it need not send a body for nothing
					t.Errorf("asked with If-Match: %s", got)
				}
				tt.serve(w, r)
			}))
			o := objstore.Object{Key: "object", Size: size, Version: `"v"`, Ranges: true}
			r, err := s.ReadRange(t.Context(), o, 1000, 1000)
			var got []byte
			if err == nil {
				got, err = io.ReadAll(r)
				r.Close()
			}
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || objstore.Temporary(err) != tt.temporary {
				t.Fatalf("got %d bytes, %v; want %v, temporary %v", len(got), err, tt.want, tt.temporary)
			}
			if text := err.Error(); strings.Contains(text, "\n") || strings.Contains(text, "s3cret") || !strings.HasPrefix(text, "read s3://bucket/object: ") {
				t.Errorf("message %q", text)
			}
			if !bytes.HasPrefix(data[1000:2000], got) {
				t.Error("wrong bytes were delivered")
			}
			if n := calls.Load(); n != 1 {
				t.Errorf("%d requests, want 1: retries are not the driver's", n)
			}
		})
	}
}

func TestBusy(t *testing.T) {
	for _, tt := range []struct {
		status int
		code   string
		after  string
		want   time.Duration
	}{
		{503, "SlowDown", "7", 7 * time.Second},
		{503, "ServiceUnavailable", "", 0},
		{429, "TooManyRequests", "1", time.Second},
		{400, "RequestLimitExceeded", "", 0},
		{503, "", "3", 3 * time.Second},
	} {
		s := open(t, crafted(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", tt.after)
			if tt.code == "" || r.Method == "HEAD" {
				w.WriteHeader(tt.status)
				return
			}
			xmlError(w, tt.status, tt.code, "please")
		}))
		_, err := s.ReadRange(t.Context(), objstore.Object{Key: "object", Size: 10, Version: `"v"`, Ranges: true}, 0, 10)
		var busy *objstore.Busy
		if !errors.As(err, &busy) || busy.After != tt.want || !objstore.Temporary(err) {
			t.Errorf("%d %s: got %v, want busy for %v", tt.status, tt.code, err, tt.want)
		}
		if tt.status != 400 && !strings.Contains(err.Error(), fmt.Sprint("HTTP ", tt.status)) {
			t.Errorf("%d %s: %v does not say what the store said", tt.status, tt.code, err)
		}
		if tt.status != 400 { // of which a HEAD shows nothing but that
			if _, err := s.Stat(t.Context(), "object"); !errors.As(err, &busy) || busy.After != tt.want {
				t.Errorf("stat, %d: got %v", tt.status, err)
			}
		}
	}
}

func TestStalls(t *testing.T) {
	c := crafted(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			w.Header().Set("ETag", `"v"`)
			w.Header().Set("Content-Range", "bytes 0-999/1000")
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(206)
			w.Write(make([]byte, 10))
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
	})
	c.HeaderTimeout, c.StallTimeout = 100*time.Millisecond, 100*time.Millisecond
	s := open(t, c)
	start := time.Now()
	if _, err := s.Stat(t.Context(), "object"); err == nil || !objstore.Temporary(err) {
		t.Errorf("stat: got %v, want a temporary error", err)
	}
	r, err := s.ReadRange(t.Context(), objstore.Object{Key: "object", Size: 1000, Version: `"v"`, Ranges: true}, 0, 1000)
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

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	c.HeaderTimeout = time.Hour
	if _, err := open(t, c).Stat(ctx, "object"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want deadline exceeded", err)
	}
}

// TestRefusalsAreShort: what a server says about a refusal is read as far as it can be of use,
// and no longer than a body may stand still.
func TestRefusalsAreShort(t *testing.T) {
	var endless atomic.Bool
	var sent atomic.Int64
	c := crafted(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, "<Error><Code>AccessDenied</Code><Message>")
		w.(http.Flusher).Flush()
		for more := bytes.Repeat([]byte("no "), 10_000); endless.Load() && r.Context().Err() == nil && sent.Load() < 256<<20; {
			n, err := w.Write(more)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
		<-r.Context().Done()
	})
	c.StallTimeout = 200 * time.Millisecond
	s := open(t, c)
	o := objstore.Object{Key: "object", Size: 10, Version: `"v"`, Ranges: true}
	for _, on := range []bool{false, true} {
		endless.Store(on)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		if _, err := s.ReadRange(ctx, o, 0, 10); err == nil || ctx.Err() != nil {
			t.Errorf("endless %v: got %v, want an error before long", on, err)
		}
		cancel()
	}
	if sent.Load() > 32<<20 { // what the sockets take in is among it
		t.Errorf("%d bytes of a refusal were read", sent.Load())
	}
}

// TestAnswersAreBounded: what a server says where it refuses nothing is kept as far as it can be of use, and not waited for longer than a body may
// stand still.
func TestAnswersAreBounded(t *testing.T) {
	var sent atomic.Int64
	flood := func(w http.ResponseWriter, r *http.Request, text string) {
		for more := []byte(strings.Repeat(text, 1000)); r.Context().Err() == nil && sent.Load() < 256<<20; {
			n, err := w.Write(more)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	}
	entry := "<Contents><Key>" + strings.Repeat("k", 1000) + "</Key><ETag>e</ETag></Contents>"
	for _, tt := range []struct {
		name, what, want string
		serve            http.HandlerFunc
	}{
		{"page without end", "list", "more than 16 MiB", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "<ListBucketResult>")
			flood(w, r, entry)
		}},
		{"name without end", "list", "more than 16 MiB", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "<ListBucketResult><Contents><Key>")
			flood(w, r, "k")
		}},
		{"page that stands still", "list", "", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "<ListBucketResult>"+entry)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}},
		{"answer to a put", "put", "more than 16 MiB", func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			io.WriteString(w, "<InitiateMultipartUploadResult><UploadId>")
			flood(w, r, "u")
		}},
		{"header", "stat", "header", func(w http.ResponseWriter, r *http.Request) {
			for i := range 1000 {
				w.Header().Set(fmt.Sprintf("X-Amz-Meta-%d", i), strings.Repeat("x", 1000))
			}
			w.Header().Set("ETag", `"v"`)
			w.Header().Set("Content-Length", "10")
		}},
		{"version", "stat", "version", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"`+strings.Repeat("v", 2000)+`"`)
			w.Header().Set("Content-Length", "10")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sent.Store(0)
			c := crafted(t, tt.serve)
			c.StallTimeout = 2 * time.Second
			s := open(t, c)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var err error
			switch tt.what {
			case "list":
				for _, err = range s.List(ctx, "") {
				}
			case "put":
				_, err = s.Put(ctx, "object", bytes.NewReader(make([]byte, 9<<20)), 9<<20)
			case "stat":
				_, err = s.Stat(ctx, "object")
			}
			if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error before long that says %q", err, tt.want)
			}
			if sent.Load() > 64<<20 { // what the sockets take in is among it
				t.Errorf("%d bytes were read", sent.Load())
			}
		})
	}
}

// signedFor is the region in a request's signature.
func signedFor(r *http.Request) string {
	_, scope, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=key/")
	if f := strings.Split(scope, "/"); len(f) > 1 {
		return f[1]
	}
	return ""
}

// TestEncodingIsNotSigned: Google's front end changes Accept-Encoding, and a signature that covers it is refused behind it. The
// header has to be there all the same.
func TestEncodingIsNotSigned(t *testing.T) {
	var mu sync.Mutex // guards asked
	asked := map[string]bool{}
	s := open(t, crafted(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		what := r.Method
		if r.URL.Query().Has("list-type") {
			what = "list"
		}
		asked[what] = true
		_, signed, _ := strings.Cut(r.Header.Get("Authorization"), "SignedHeaders=")
		signed, _, _ = strings.Cut(signed, ",")
		if names := strings.Split(signed, ";"); slices.Contains(names, "accept-encoding") || !slices.Contains(names, "host") {
			t.Errorf("%s: signed headers %q, want host and others, without accept-encoding", what, names)
		}
		if got := r.Header.Values("Accept-Encoding"); !slices.Equal(got, []string{"identity"}) {
			t.Errorf("%s: Accept-Encoding %q, want identity", what, got)
		}
		io.Copy(io.Discard, r.Body)
		if what == "list" {
			io.WriteString(w, "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
			return
		}
		w.Header().Set("ETag", `"v"`)
		if what != http.MethodPut {
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader("0123456789"))
		}
	}))
	o, err := s.Stat(t.Context(), "object")
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.ReadRange(t.Context(), o, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if _, err := s.Put(t.Context(), "object", strings.NewReader("0123456789"), 10); err != nil {
		t.Error(err)
	}
	for _, err := range s.List(t.Context(), "") {
		t.Error(err)
	}
	if len(asked) != 4 {
		t.Errorf("asked by %v, want HEAD, GET, PUT and a listing", asked)
	}
}

// A bucket of another region is found in each of the ways in which servers
// tell, and asked for there from then on.
func TestRegion(t *testing.T) {
	const there = "eu-west-1"
	for _, tt := range []struct {
		name   string
		refuse func(w http.ResponseWriter, r *http.Request)
	}{
		{"301 with header", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("x-amz-bucket-region", there)
			xmlError(w, 301, "PermanentRedirect", "elsewhere")
		}},
		{"400 with header", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("x-amz-bucket-region", there)
			w.WriteHeader(400)
		}},
		{"malformed with message", func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "HEAD" {
				w.Header().Set("x-amz-bucket-region", there)
			}
			xmlError(w, 400, "AuthorizationHeaderMalformed", "the region 'us-east-1' is wrong; expecting 'eu-west-1'")
		}},
		{"301, told by HEAD of the bucket", func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "HEAD" && strings.Trim(r.URL.Path, "/") == "bucket" {
				w.Header().Set("x-amz-bucket-region", there)
			}
			w.WriteHeader(301)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var mu sync.Mutex
			refused := 0
			s := open(t, crafted(t, func(w http.ResponseWriter, r *http.Request) {
				if signedFor(r) != there {
					mu.Lock()
					refused++
					mu.Unlock()
					tt.refuse(w, r)
					return
				}
				w.Header().Set("ETag", `"v"`)
				http.ServeContent(w, r, "", time.Time{}, strings.NewReader("0123456789"))
			}))
			for range 3 {
				o, err := s.Stat(t.Context(), "object")
				if err != nil || o.Size != 10 {
					t.Fatalf("%+v, %v", o, err)
				}
				r, err := s.ReadRange(t.Context(), o, 2, 3)
				if err != nil {
					t.Fatal(err)
				}
				if b, err := io.ReadAll(r); string(b) != "234" || err != nil {
					t.Errorf("%q, %v", b, err)
				}
				r.Close()
			}
			if refused > 2 { // the call and, perhaps, HEAD of the bucket
				t.Errorf("refused %d times, want the region to be remembered", refused)
			}
		})
	}
}

// Servers that send from one to the other end in an error that names both.
func TestRegionNowhere(t *testing.T) {
	calls := 0
	s := open(t, crafted(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		region := "eu-west-1"
		if signedFor(r) == region {
			region = "ap-south-1"
		}
		w.Header().Set("x-amz-bucket-region", region)
		w.WriteHeader(301)
	}))
	_, err := s.Stat(t.Context(), "object")
	if err == nil || !strings.Contains(err.Error(), "us-east-1") || !strings.Contains(err.Error(), "eu-west-1") || objstore.Temporary(err) {
		t.Errorf("got %v, want both regions", err)
	}
	if calls != 2 {
		t.Errorf("%d requests, want 2", calls)
	}

	// There, it is refused for another reason.
	s = open(t, crafted(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-amz-bucket-region", "eu-west-1")
		if signedFor(r) == "eu-west-1" {
			w.WriteHeader(403)
			return
		}
		w.WriteHeader(301)
	}))
	_, err = s.Stat(t.Context(), "object")
	if !errors.Is(err, objstore.ErrDenied) || !strings.Contains(err.Error(), "us-east-1") || !strings.Contains(err.Error(), "eu-west-1") {
		t.Errorf("got %v, want denied and both regions", err)
	}
}

func TestNoCredentials(t *testing.T) {
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_ENDPOINT_URL", "AWS_REGION"} {
		t.Setenv(name, "")
	}
	_, err := s3.Open(t.Context(), s3.Config{Bucket: "bucket"})
	if !errors.Is(err, objstore.ErrDenied) || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
	if _, err := s3.Open(t.Context(), s3.Config{Bucket: "bucket", Anonymous: true}); err != nil {
		t.Errorf("anonymous: %v", err)
	}
	if _, err := s3.Open(t.Context(), s3.Config{Bucket: "bucket", Profile: "nobody"}); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("unknown profile: %v", err)
	}
	for _, c := range []s3.Config{{}, {Bucket: "b", Endpoint: "localhost:9000"}, {Bucket: "b", Endpoint: "http://me:s3cret@host"}, {Bucket: "b", PartSize: 1}} {
		if _, err := s3.Open(t.Context(), c); err == nil || objstore.Temporary(err) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Where requests go: the address style, and the environment's endpoint.
func TestAddressing(t *testing.T) {
	for _, tt := range []struct {
		name      string
		c         s3.Config
		env       string
		host, uri string
	}{
		{"amazon", s3.Config{}, "", "bucket.s3.us-east-1.amazonaws.com:443", "/a%20b/c"},
		{"amazon, path", s3.Config{PathStyle: true}, "", "s3.us-east-1.amazonaws.com:443", "/bucket/a%20b/c"},
		{"amazon's own endpoint", s3.Config{Endpoint: "http://s3.eu-west-1.amazonaws.com"}, "", "bucket.s3.eu-west-1.amazonaws.com:80", "/a%20b/c"},
		{"endpoint", s3.Config{Endpoint: "http://store.test:9000"}, "", "store.test:9000", "/bucket/a%20b/c"},
		{"endpoint, virtual host", s3.Config{Endpoint: "http://store.test:9000", VirtualHost: true}, "", "bucket.store.test:9000", "/a%20b/c"},
		{"environment", s3.Config{}, "http://env.test:9000", "env.test:9000", "/bucket/a%20b/c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("AWS_CONFIG_FILE", "/dev/null")
			t.Setenv("AWS_ENDPOINT_URL", tt.env)
			var dialed, uri string
			tt.c.Bucket, tt.c.Region, tt.c.Anonymous = "bucket", "us-east-1", true
			tt.c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				dialed = address
				a, b := net.Pipe()
				go func() {
					buf := make([]byte, 4096)
					n, _ := b.Read(buf)
					if f := strings.Fields(string(buf[:n])); len(f) > 1 {
						uri = f[1]
					}
					b.Close()
				}()
				return a, nil
			}
			if _, err := open(t, tt.c).Stat(t.Context(), "a b/c"); err == nil {
				t.Error("no error")
			}
			if dialed != tt.host || !strings.HasSuffix(dialed, ":443") && uri != tt.uri {
				t.Errorf("got %s %s, want %s %s", dialed, uri, tt.host, tt.uri)
			}
		})
	}
}

// Uploads try again by themselves, and give up on servers that stand still.
func TestPutRetries(t *testing.T) {
	var puts atomic.Int32
	c := crafted(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("ETag", `"v"`)
		if r.Method == "HEAD" {
			w.Header().Set("Content-Length", "5")
			return
		}
		if puts.Add(1) == 1 {
			xmlError(w, 500, "InternalError", "once")
		} else if string(b) != "hello" {
			t.Errorf("body %q", b)
		}
	})
	if o, err := open(t, c).Put(t.Context(), "object", strings.NewReader("hello"), -1); err != nil || o.Size != 5 || puts.Load() != 2 {
		t.Errorf("%+v, %v after %d requests", o, err, puts.Load())
	}

	done := make(chan struct{})
	c = crafted(t, func(w http.ResponseWriter, r *http.Request) { <-done }) // reads nothing
	defer close(done)
	c.HeaderTimeout, c.StallTimeout = 200*time.Millisecond, 200*time.Millisecond
	c.PartSize = 64 << 20
	start := time.Now()
	if _, err := open(t, c).Put(t.Context(), "object", bytes.NewReader(make([]byte, 32<<20)), 32<<20); err == nil || !objstore.Temporary(err) {
		t.Errorf("got %v, want a temporary error", err)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
}

// The SDK neither asks for checksums nor makes its own: pieces are what is
// verified, and many stores don't know the trailers that it would send. What a
// reply says about a checksum is not what decides about a read.
func TestSDKChecksumsAreOff(t *testing.T) {
	c := crafted(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		sums := map[string]string{}
		for k, v := range r.Header {
			if k = strings.ToLower(k); strings.HasPrefix(k, "x-amz-checksum-") || strings.HasPrefix(k, "x-amz-sdk-checksum-") || k == "x-amz-trailer" {
				sums[k] = v[0]
			}
		}
		w.Header().Set("ETag", `"v"`)
		switch {
		case r.Method == "GET":
			if len(sums) > 0 {
				t.Errorf("GET asks for checksums: %v", sums)
			}
			w.Header().Set("X-Amz-Checksum-Crc32", "AAAAAA==") // it is not
			w.Header().Set("Content-Length", "5")
			w.Header().Set("Content-Range", "bytes 0-4/5")
			w.WriteHeader(http.StatusPartialContent)
			io.WriteString(w, "hello")
		case r.Method == "PUT" && r.URL.Query().Has("partNumber"):
			if len(sums) != 1 || sums["x-amz-checksum-crc64nvme"] == "" || len(b) != 5<<20 && len(b) != 1<<20 {
				t.Errorf("a part of %d bytes came with %v, want our CRC64NVME alone", len(b), sums)
			}
		case r.Method == "PUT":
			if len(sums) != 1 || sums["x-amz-checksum-crc64nvme"] == "" || string(b) != "hello" {
				t.Errorf("PUT of %q with %v, want our CRC64NVME alone", b, sums)
			}
		case r.Method == "POST" && r.URL.Query().Has("uploads"):
			io.WriteString(w, "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
		case r.Method == "POST":
			io.WriteString(w, `<CompleteMultipartUploadResult><ETag>"v"</ETag></CompleteMultipartUploadResult>`)
		}
	})
	c.PartSize = 5 << 20
	s := open(t, c)
	r, err := s.ReadRange(t.Context(), objstore.Object{Key: "object", Size: 5, Version: `"v"`, Ranges: true}, 0, 5)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); string(b) != "hello" || err != nil {
		t.Errorf("read %q, %v, want hello", b, err)
	}
	s.Put(t.Context(), "object", strings.NewReader("hello"), 5) // what it returns, others test
	s.Put(t.Context(), "object", bytes.NewReader(make([]byte, 6<<20)), 6<<20)
}

// A listing that goes round in circles ends.
func TestListForever(t *testing.T) {
	s := open(t, crafted(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken><Contents><Key>k</Key><Size>1</Size></Contents></ListBucketResult>`)
	}))
	var last error
	n := 0
	for _, err := range s.List(t.Context(), "") {
		n, last = n+1, err
	}
	if last == nil || n > 3 {
		t.Errorf("%d entries, %v; want an error", n, last)
	}
}

// The transport is ours, yet knows the bundle of certificates that AWS tools
// are told of; and it keeps its connections, which speak HTTP/1.1.
func TestTransport(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 {
			t.Errorf("protocol %s", r.Proto)
		}
		w.Header().Set("ETag", `"v"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(make([]byte, 1<<20)))
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	c := s3.Config{Bucket: "bucket", Region: "us-east-1", Endpoint: server.URL, Anonymous: true}
	if _, err := open(t, c).Stat(t.Context(), "object"); err == nil || objstore.Temporary(err) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server that nobody vouches for: got %v, want a lasting error", err)
	}

	bundle := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(bundle, block, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_CA_BUNDLE", bundle)
	dialed := 0
	c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed++
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	s := open(t, c)
	for range 3 {
		o, err := s.Stat(t.Context(), "object")
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.ReadRange(t.Context(), o, 5, 500000)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(r); len(b) != 500000 || err != nil {
			t.Errorf("%d bytes, %v", len(b), err)
		}
		r.Close()
	}
	if dialed != 1 {
		t.Errorf("dialled %d times, want once", dialed)
	}
}

// TestRefusedHead has servers that answer HEAD with a status and GET with the
// reason, as HTTP has it.
func TestRefusedHead(t *testing.T) {
	for _, tt := range []struct {
		status        int
		code, message string
		want          error
		text          string
	}{
		{403, "SignatureDoesNotMatch", "check your key", objstore.ErrDenied, "SignatureDoesNotMatch: check your key"},
		{400, "ExpiredToken", "the token has expired", objstore.ErrDenied, "ExpiredToken"},
		{404, "NoSuchBucket", "no bucket", objstore.ErrNotExist, "no such bucket"},
		{404, "XAdminUserNotFound", "no such key", objstore.ErrDenied, "XAdminUserNotFound"},
	} {
		s := open(t, crafted(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodHead {
				w.WriteHeader(tt.status)
				return
			}
			xmlError(w, tt.status, tt.code, tt.message)
		}))
		_, err := s.Stat(t.Context(), "object")
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v, want %v with %q", tt.code, err, tt.want, tt.text)
		}
	}
	// A region that only the text of a GET's reply names, between quotes of either kind.
	for _, quote := range []string{"'", `"`} {
		s := open(t, crafted(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.Contains(r.Header.Get("Authorization"), "/eu-south-2/"):
				w.Header().Set("ETag", `"v"`)
				w.Header().Set("Content-Length", "3")
			case r.Method == http.MethodHead:
				w.WriteHeader(400)
			default:
				xmlError(w, 400, "AuthorizationHeaderMalformed", "the region is wrong; expecting "+quote+"eu-south-2"+quote)
			}
		}))
		if o, err := s.Stat(t.Context(), "object"); err != nil || o.Size != 3 {
			t.Errorf("a region between %s: %+v, %v, want it followed", quote, o, err)
		}
	}
}

// TestLogOfTheSDK has a machine whose role is only told the old way, of which the
// SDK warns: in our log, in its form.
func TestLogOfTheSDK(t *testing.T) {
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const roles = "/latest/meta-data/iam/security-credentials/"
		switch {
		case r.Method != http.MethodGet: // a token for the new way
			w.WriteHeader(http.StatusMethodNotAllowed)
		case r.URL.Path == roles:
			io.WriteString(w, "role")
		case r.URL.Path == roles+"role":
			fmt.Fprintf(w, `{"Code":"Success","AccessKeyId":"key","SecretAccessKey":"s3cret","Token":"t","Expiration":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer metadata.Close()
	config := crafted(t, func(w http.ResponseWriter, r *http.Request) { xmlError(w, http.StatusNotFound, "NoSuchKey", "gone") })
	config.Credentials = nil
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_EC2_METADATA_DISABLED"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.URL)
	var out bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	store, err := s3.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	if got := out.String(); !strings.Contains(got, `level=WARN msg="AWS SDK" says="falling back to IMDSv1`) || strings.Count(got, "\n") != 1 {
		t.Errorf("the log is %q, want one line of what the SDK says", got)
	}
}
