package httpwire

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/unit"
)

func TestContentRange(t *testing.T) {
	for _, tt := range []struct {
		s                 string
		start, end, total unit.Bytes
		ok                bool
	}{
		{"bytes 0-99/1000", 0, 99, 1000, true},
		{"bytes 999-999/1000", 999, 999, 1000, true},
		{"Bytes 5-6/*", 5, 6, -1, true},
		{"bytes */1000", -1, -1, 1000, true},
		{"bytes */0", -1, -1, 0, true},
		{"", 0, 0, 0, false},
		{"bytes", 0, 0, 0, false},
		{"bytes */*", 0, 0, 0, false},
		{"bytes 0-99", 0, 0, 0, false},
		{"bytes 9-0/100", 0, 0, 0, false},
		{"bytes 0-100/100", 0, 0, 0, false},
		{"bytes -1-5/100", 0, 0, 0, false},
		{"bytes +1-5/100", 0, 0, 0, false},
		{"bytes 1 -5/100", 0, 0, 0, false},
		{"bytes 0x1-5/100", 0, 0, 0, false},
		{"items 0-9/10", 0, 0, 0, false},
		{"bytes 0-9/99999999999999999999", 0, 0, 0, false},
	} {
		start, end, total, err := ContentRange(tt.s)
		if start != tt.start || end != tt.end || total != tt.total || (err == nil) != tt.ok {
			t.Errorf("%q: got %d, %d, %d, %v", tt.s, start, end, total, err)
		}
	}
}

func FuzzContentRange(f *testing.F) {
	for _, s := range []string{"bytes 0-99/1000", "bytes 0-0/*", "bytes */17", "bytes 5-4/3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		start, end, total, err := ContentRange(s)
		if err != nil {
			return
		}
		span, size := fmt.Sprintf("%d-%d", start, end), fmt.Sprint(int64(total))
		if start < 0 {
			span = "*"
		} else if end < start || total >= 0 && end >= total {
			t.Fatalf("%q: %d-%d of %d", s, start, end, total)
		}
		if total < 0 {
			size = "*"
		}
		a, b, c, err := ContentRange("bytes " + span + "/" + size)
		if a != start || b != end || c != total || err != nil {
			t.Errorf("%q: %d, %d, %d became %d, %d, %d, %v", s, start, end, total, a, b, c, err)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		s    string
		want time.Duration
	}{
		{"", 0}, {"0", 0}, {"7", 7 * time.Second}, {" 7 ", 7 * time.Second}, {"-7", 0}, {"soon", 0}, {"1.5", 0},
		{"Sun, 01 Mar 2026 12:01:30 GMT", 90 * time.Second},
		{"Sunday, 01-Mar-26 12:01:30 GMT", 90 * time.Second},
		{"Sun, 01 Mar 2026 11:00:00 GMT", 0},
		{"999999999999", 24 * time.Hour}, {"9223372036854775807", 24 * time.Hour},
		{"Fri, 01 Mar 2126 12:00:00 GMT", 24 * time.Hour},
	} {
		if got := RetryAfter(tt.s, now); got != tt.want {
			t.Errorf("%q: got %v, want %v", tt.s, got, tt.want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("120")
	f.Add("Sun, 01 Mar 2026 12:01:30 GMT")
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		if d := RetryAfter(s, now); d < 0 || d > 24*time.Hour {
			t.Errorf("%q: %v", s, d)
		}
	})
}

func TestStatus(t *testing.T) {
	for code := 300; code < 600; code++ {
		err := Status(code, http.Header{"Retry-After": {"3"}}, "because")
		var want error
		temporary := code >= 500
		switch code {
		case 401, 403, 407:
			want = objstore.ErrDenied
		case 404, 410:
			want = objstore.ErrNotExist
		case 412:
			want = objstore.ErrChanged
		case 408, 425, 429:
			temporary = true
		case 501, 505:
			temporary = false
		}
		if want != nil && !errors.Is(err, want) || objstore.Temporary(err) != temporary {
			t.Errorf("%d: %v, temporary %v", code, err, objstore.Temporary(err))
		}
		var busy *objstore.Busy
		if got := errors.As(err, &busy); got != (code == 429 || code == 503) || got && busy.After != 3*time.Second {
			t.Errorf("%d: %#v", code, err)
		}
	}
}

func TestCheckRange(t *testing.T) {
	o := objstore.Object{Size: 1000, Ranges: true}
	for _, tt := range []struct {
		header string
		length int64
		off, n unit.Bytes
		want   error // nil: fine
	}{
		{"bytes 0-99/1000", 100, 0, 100, nil},
		{"bytes 0-99/*", -1, 0, 100, nil},
		{"", 1000, 0, 1000, nil},
		{"", 1000, 0, 100, objstore.ErrNoRange},
		{"", -1, 5, 10, objstore.ErrNoRange},
		{"", 1001, 0, 1000, objstore.ErrChanged},
		{"bytes 0-99/1001", 100, 0, 100, objstore.ErrChanged},
		{"bytes 0-99/1000", 99, 0, 100, errAny},
		{"bytes 1-100/1000", 100, 0, 100, errAny},
		{"bytes 0-98/1000", 99, 0, 100, errAny},
		{"bytes */1000", 100, 0, 100, errAny},
		{"bytes ?", 100, 0, 100, errAny},
	} {
		err := CheckRange(tt.header, tt.length, o, tt.off, tt.n)
		switch {
		case tt.want == nil && err == nil:
		case tt.want == errAny && err != nil && !objstore.Temporary(err):
		case tt.want != nil && errors.Is(err, tt.want):
		default:
			t.Errorf("%q of %d for %d+%d: got %v, want %v", tt.header, tt.length, tt.off, tt.n, err, tt.want)
		}
	}
	if got := RangeHeader(math.MaxInt64-1, 1); got != "bytes=9223372036854775806-9223372036854775806" {
		t.Error(got)
	}
}

var errAny = errors.New("some lasting error")

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"https://host/a/b":                          "https://host/a/b",
		"https://me:s3cret@host:81/a?sig=s3cret#s3": "https://host:81/a?...",
		"https://s3cret@host/":                      "https://host/",
		"http:me:s3cret@host":                       "(unreadable URL)",
		"http://me:s3cret%zz@host/":                 "http://(unreadable URL)",
		"http://me:s3cret@ho st/":                   "http://(unreadable URL)",
		"s3cret\x7f":                                "(unreadable URL)",
		"":                                          "",
	} {
		if got := Redact(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("host", "path", "a=b")
	f.Fuzz(func(t *testing.T, host, path, query string) {
		const secret = "s3cretpassw0rd"
		got := Redact("http://user:" + secret + "@" + host + "/" + path + "?" + query)
		if strings.Contains(got, secret) {
			t.Errorf("%q", got)
		}
	})
}
