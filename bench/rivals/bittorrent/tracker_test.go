package bittorrent

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestTracker: every peer is told of those before it, and not of itself.
func TestTracker(t *testing.T) {
	k := &Tracker{}
	ask := func(from string, port string) (int, string) {
		r := httptest.NewRequest(http.MethodGet, "/announce?info_hash=x&compact=1&port="+port, nil)
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		k.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, c := range []struct{ from, port, want string }{
		{"10.64.0.1:5000", "6881", "5:peers0:e"},
		{"10.64.0.2:5000", "6882", "5:peers6:\x0a\x40\x00\x01\x1a\xe1e"},
		{"10.64.0.1:5001", "6881", "5:peers6:\x0a\x40\x00\x02\x1a\xe2e"},
	} {
		if code, got := ask(c.from, c.port); code != http.StatusOK || !strings.HasPrefix(got, "d8:intervali") || !strings.HasSuffix(got, c.want) {
			t.Errorf("%s announces: %d %q, want it to end with %q", c.from, code, got, c.want)
		}
	}
	for _, c := range [][2]string{{"10.64.0.1:5000", "70000"}, {"10.64.0.1:5000", ""}, {"[::1]:5000", "6881"}} {
		if code, got := ask(c[0], c[1]); code != http.StatusBadRequest {
			t.Errorf("%s with port %q announces: %d %q", c[0], c[1], code, got)
		}
	}
}
