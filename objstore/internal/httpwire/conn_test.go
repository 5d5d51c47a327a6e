package httpwire

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// TestBodiesAreAwaited: a body that comes little by little is read in larger parts, to its end, and the
// connection is good for another request after it, over TLS too.
func TestBodiesAreAwaited(t *testing.T) {
	const size, part = 512 << 10, 2 << 10
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(size))
		for range size / part {
			w.Write(make([]byte, part))
			w.(http.Flusher).Flush()
			time.Sleep(100 * time.Microsecond)
		}
	})
	for _, secure := range []bool{false, true} {
		server := httptest.NewUnstartedServer(handler)
		transport := new(http.Transport)
		Configure(transport, nil, Limits{})
		if secure {
			server.StartTLS()
			roots := x509.NewCertPool()
			roots.AddCert(server.Certificate())
			transport.TLSClientConfig = &tls.Config{RootCAs: roots}
		} else {
			server.Start()
		}
		defer server.Close()
		defer transport.CloseIdleConnections()
		for range 2 {
			ctx, watch := NewWatch(t.Context(), time.Minute)
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			reply, err := transport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			body := Body(ctx, ctx, watch, reply.Body, size, "read")
			got, reads := 0, 0
			for p := make([]byte, 256<<10); err == nil; reads++ {
				var n int
				n, err = body.Read(p)
				got += n
			}
			if err != io.EOF || got != size {
				t.Errorf("TLS %v: read %d bytes, %v; want %d", secure, got, err, size)
			}
			if !secure && runtime.GOOS == "linux" && reads > size/part/2 { // TLS gives out a record at a time
				t.Errorf("a body of %d parts was read by %d reads", size/part, reads)
			}
			if watch.conn.Load() == nil {
				t.Errorf("TLS %v: the connection is not ours", secure)
			}
			body.Close()
			watch.Stop()
		}
	}
}
