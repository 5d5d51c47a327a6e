package open

import (
	"errors"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/objstore/objstoretest/versity"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		address                string
		key                    string
		bucket, endpoint, zone string
		path, virtual, anon    bool
		user                   string
	}{
		{address: "s3://b/k", key: "k", bucket: "b"},
		{address: "S3://b/a/b/c.bin", key: "a/b/c.bin", bucket: "b"},
		{address: "s3://b//k/", key: "/k/", bucket: "b"},
		{address: "s3://b/a%3Fb%23c%25d e", key: "a?b#c%d e", bucket: "b"},
		{address: "s3://b/k?endpoint=http://127.0.0.1:9000&region=eu-west-1&path_style=false", key: "k", bucket: "b",
			endpoint: "http://127.0.0.1:9000", zone: "eu-west-1", virtual: true},
		{address: "s3://b/k?endpoint=http%3A%2F%2Fhost%3A9000&path_style=1&anonymous=true", key: "k", bucket: "b",
			endpoint: "http://host:9000", path: true, anon: true},
		{address: "http://host/a?x=1&y=2#part", key: "http://host/a?x=1&y=2"},
		{address: "https://me:secret@host:8443/a%20b", key: "https://host:8443/a%20b", user: "me:secret"},
		{address: "file:///a/b c/d%20?e", key: "/a/b c/d%20?e"},
		{address: "file:///a/../b//c", key: "/b/c"},
		{address: "file:///a//b/", key: "/a/b/"},
	} {
		got, err := parse(tt.address)
		if err != nil {
			t.Errorf("%s: %v", tt.address, err)
			continue
		}
		c := got.s3
		if got.key != tt.key || c.Bucket != tt.bucket || c.Endpoint != tt.endpoint || c.Region != tt.zone ||
			c.PathStyle != tt.path || c.VirtualHost != tt.virtual || c.Anonymous != tt.anon || got.user.String() != tt.user {
			t.Errorf("%s: got %+v", tt.address, got)
		}
	}
}

func TestBad(t *testing.T) {
	for address, want := range map[string]string{
		"":                                      "want s3://",
		"/etc/hostname":                         "want s3://",
		"s3:bucket/key":                         "want s3://",
		"gs://bucket/key":                       `scheme "gs" is not known`,
		"s3://":                                 "bucket is missing",
		"s3:///key":                             "bucket is missing",
		"s3://bucket":                           "key is missing",
		"s3://bucket/":                          "key is missing",
		"s3://bucket/k?foo=bar":                 `parameter "foo" is not known`,
		"s3://bucket/k?region=":                 "want one value",
		"s3://bucket/k?region=a&region=b":       "want one value",
		"s3://bucket/k?path_style=maybe":        "want true or false",
		"s3://bucket/k?endpoint=127.0.0.1:9000": "want http://",
		"s3://bucket/k?endpoint=http://me:secret@host": "want http://",
		"s3://me:secret@bucket/k":                      "credentials do not belong",
		"s3://bucket/k#2":                              "%23",
		"s3://bucket/k?%zz":                            "cannot be read",
		"http://":                                      "host is missing",
		"http://me:secret@ho st/x":                     "cannot be read",
		"file://relative/path":                         "three slashes",
		"file:///":                                     "directory",
	} {
		err := Check(address)
		if err == nil || !strings.Contains(err.Error(), want) || objstore.Temporary(err) ||
			strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want %q", address, err, want)
		}
		if _, _, got := URL(t.Context(), address, Options{}); got == nil || got.Error() != err.Error() {
			t.Errorf("%s: URL says %v, Check %v", address, got, err)
		}
	}
}

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"s3://b/k": "s3://b/k",
		"s3://b/k?endpoint=http://me:secret@h:9/&region=r&token=secret": "s3://b/k?endpoint=http://h:9/&region=r&...",
		"s3://secret:secret@b/k?region=r":                               "s3://b/k?region=r",
		"https://me:secret@host/x?sig=secret":                           "https://host/x?...",
		"file:///a/b?c":                                                 "file:///a/b?c",
		"://secret":                                                     "://(unreadable URL)",
	} {
		if got := Redact(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"s3://b/k?region=r", "http://u:p@h/x?y", "file:///a", "s3://b/%zz", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parse(s)
		if err == nil && got.key == "" {
			t.Errorf("%q: no key", s)
		}
		if err == nil && got.user != nil {
			if p, _ := got.user.Password(); len(p) > 8 && strings.Contains(Redact(s), p) && strings.Count(s, p) == 1 {
				t.Errorf("%q: the password is in %q", s, Redact(s))
			}
		}
	})
}

func TestURL(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"real", "links"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "real", "object"), []byte("hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../real/object", filepath.Join(dir, "links", "object")); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "secret" || r.URL.RawQuery != "v=1" {
			w.WriteHeader(nethttp.StatusForbidden)
			return
		}
		nethttp.ServeFile(w, r, filepath.Join(dir, "real", "object"))
	}))
	defer server.Close()
	v := versity.Start(t)
	v.Setenv(t)
	v.MakeBucket(t, "bucket")
	inBucket := "s3://bucket/a/object?endpoint=" + v.Endpoint
	s, key, err := URL(t.Context(), inBucket, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), key, strings.NewReader("hello"), 5); err != nil {
		t.Fatal(err)
	}
	s.Close()

	for _, address := range []string{
		"file://" + dir + "/real/object",
		"file://" + dir + "/links/object",
		strings.Replace(server.URL, "://", "://me:secret@", 1) + "/x?v=1",
		inBucket,
	} {
		s, key, err := URL(t.Context(), address, Options{})
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if strings.Contains(key, "secret") {
			t.Errorf("key %s", key)
		}
		o, err := s.Stat(t.Context(), key)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		r, err := s.ReadRange(t.Context(), o, 0, o.Size)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if b, err := io.ReadAll(r); string(b) != "hello" || err != nil {
			t.Errorf("%s: %q, %v", address, b, err)
		}
		r.Close()
		s.Close()
	}
	for _, address := range []string{"file://" + dir + "/real/missing", "file://" + dir + "/missing/missing"} {
		s, key, err := URL(t.Context(), address, Options{})
		if err == nil {
			_, err = s.Stat(t.Context(), key)
			s.Close()
		}
		if !errors.Is(err, objstore.ErrNotExist) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got %v, want %v", address, err, objstore.ErrNotExist)
		}
	}
}

// A directory is a store of all that lies below it, also by a symbolic link.
func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"m/a", "m/sub/b", "other/c"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("m", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"m", "link"} {
		s, key, err := URL(t.Context(), "file://"+dir+"/"+name+"/", Options{})
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for e, err := range s.List(t.Context(), key) {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, strings.TrimPrefix(e.Key, key))
		}
		if got := strings.Join(keys, " "); got != "a sub/b" {
			t.Errorf("%s: below it lie %q, want a and sub/b", name, got)
		}
		s.Close()
	}
	if _, _, err := URL(t.Context(), "file://"+dir+"/none/", Options{}); err == nil {
		t.Error("a directory that is not there is opened")
	}
}
