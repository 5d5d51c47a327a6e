package freshet_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/unit"
)

// TestBadSource has a real S3 server, and in front of it what can go wrong
// with one.
func TestBadSource(t *testing.T) {
	store := newBucket(t)
	c := newCluster(t, 3)
	all := c.names()
	data := random(1, 3<<20+17)
	store.put(t, "model", data)

	// refusedWith is for what is seen before a job has begun.
	refusedWith := func(name string, s freshet.Spec, want ...string) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.Dest = c.dest(strings.ReplaceAll(name, " ", "-"), "model")
			untouched := old(t, s.Dest, all...)
			says(t, c.refused(t, s), want...)
			s.Dest = c.dest(strings.ReplaceAll(name, " ", "-"), "new", "directory", "model")
			says(t, c.refused(t, s), want...)
			untouched(t)
		})
	}
	refusedWith("object missing", freshet.Spec{Source: at(store.Endpoint, "no-such")}, "s3://models/no-such", "no such object")
	refusedWith("bucket missing", freshet.Spec{Source: strings.Replace(at(store.Endpoint, "model"), bucket, "nobodys", 1)}, "s3://nobodys/model", "no such")
	refusedWith("wrong keys", freshet.Spec{Source: at(store.Endpoint, "model") + "&profile=" + wrongKeys}, "s3://models/model", "access denied")
	refusedWith("no keys", freshet.Spec{Source: at(store.Endpoint, "model") + "&anonymous=true"}, "s3://models/model", "access denied")
	refusedWith("region that refuses", freshet.Spec{Source: at(store.behind(t, front{before: func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.Header.Get("Authorization"), "/us-east-1/") {
			w.Header().Set("X-Amz-Bucket-Region", "eu-west-3")
			return s3Error(w, r, http.StatusMovedPermanently, "PermanentRedirect", "elsewhere")
		}
		return s3Error(w, r, http.StatusForbidden, "AccessDenied", "Access Denied")
	}}), "model")}, "us-east-1", "eu-west-3", "access denied")
	refusedWith("nobody listens", freshet.Spec{Source: "http://127.0.0.1:9/model"}, "http://127.0.0.1:9/model", "refused")
	refusedWith("no such host", freshet.Spec{Source: "http://no-such-host.invalid/model"}, "no-such-host.invalid")
	refusedWith("no URL", freshet.Spec{Source: "models/model"}, "models/model", "s3://bucket/key")
	refusedWith("nothing below a prefix", freshet.Spec{Source: at(store.Endpoint, "all/")}, "s3://models/all/", "nothing lies below")
	refusedWith("a missing file", freshet.Spec{Source: "file:///no/such/file"}, "/no/such/file", "no such")
	refusedWith("a directory", freshet.Spec{Source: "file://" + t.TempDir()}, "directory")
	refusedWith("no algorithm", freshet.Spec{Source: at(store.Endpoint, "model"), Algorithm: "magic"}, `"magic"`, "flat, non-steal, steal")
	refusedWith("no validator", freshet.Spec{Source: serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader("abc"))
	}) + "/model"}, "neither an ETag nor a date", "--unpinned")
	refusedWith("no length", freshet.Spec{Source: serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		io.WriteString(w, "abc")
		http.NewResponseController(w).Flush() // a body in chunks, of unknown length
		io.WriteString(w, "def")
	}) + "/model"}, "does not say how long", "/model")
	refusedWith("server's error", freshet.Spec{Source: serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "<html>\nteapot\n</html>", http.StatusTeapot)
	}) + "/model"}, "418", "/model")

	t.Run("bucket of another region", func(t *testing.T) {
		t.Parallel()
		arrived(t, c.run(t, freshet.Spec{Source: at(store.Endpoint, "model") + "&region=eu-central-1", Dest: c.dest("region", "model")}), data)
	})
	t.Run("empty object", func(t *testing.T) {
		t.Parallel()
		store.put(t, "empty", nil)
		for _, a := range freshet.Algorithms {
			arrived(t, c.run(t, freshet.Spec{Source: at(store.Endpoint, "empty"), Dest: c.dest("empty-"+a, "model"), Algorithm: a}), nil)
		}
	})
	t.Run("unpinned", func(t *testing.T) {
		t.Parallel()
		endpoint := serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(data)))
		})
		j := c.run(t, freshet.Spec{Source: endpoint + "/model", Dest: c.dest("unpinned", "model"), Unpinned: true})
		arrived(t, j, data)
		if got := status(t, j, "n1").Verified; got != "peers" {
			t.Errorf("verified %q, want peers: the server has no checksum", got)
		}
	})
	t.Run("no ranges", func(t *testing.T) {
		t.Parallel()
		endpoint := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"v1"`)
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			w.Write(data)
		})
		j := c.run(t, freshet.Spec{Source: endpoint + "/model", Dest: c.dest("no-ranges", "model")})
		arrived(t, j, data)
		readers, total := 0, unit.Bytes(0)
		for _, n := range j.Nodes {
			total += n.StoreBytes
			if n.StoreBytes > 0 {
				readers++
			}
		}
		if readers != 1 || total != unit.Bytes(len(data)) {
			t.Errorf("%d nodes read %v, want 1 that reads %d bytes", readers, total, len(data))
		}
	})
	t.Run("denied when it is read", func(t *testing.T) {
		t.Parallel()
		endpoint := store.behind(t, front{before: func(w http.ResponseWriter, r *http.Request) bool {
			return r.Method == http.MethodGet && s3Error(w, r, http.StatusForbidden, "AccessDenied", "Access Denied")
		}})
		c.failsAndLeavesNothing(t, freshet.Spec{Source: at(endpoint, "model"), Dest: c.dest("denied-later", "model")}, "s3://models/model", "access denied")
	})
	t.Run("replaced during the job", func(t *testing.T) {
		for _, a := range freshet.Algorithms {
			t.Run(a, func(t *testing.T) {
				t.Parallel()
				key := "replaced-" + a
				store.put(t, key, random(2, 3<<20))
				replacedAt := int32(3)
				if a == freshet.Flat { // who has begun to read the old one may end it
					replacedAt = 1
				}
				var reads atomic.Int32
				var once sync.Once
				endpoint := store.behind(t, front{before: func(w http.ResponseWriter, r *http.Request) bool {
					if _, _, ok := span(r); ok && reads.Add(1) >= replacedAt {
						once.Do(func() { store.put(t, key, random(3, 3<<20)) }) // nobody overtakes it
					}
					return false
				}})
				c.failsAndLeavesNothing(t, freshet.Spec{
					Source: at(endpoint, key), Dest: c.dest(key, "model"), Algorithm: a, Piece: 256 * unit.KiB, PerWork: 1,
				}, "replaced in the store", key, "run the job again")
			})
		}
	})
	t.Run("busy for ten seconds", func(t *testing.T) {
		t.Parallel()
		var once sync.Once
		var from time.Time
		endpoint := store.behind(t, front{before: func(w http.ResponseWriter, r *http.Request) bool {
			if _, _, ok := span(r); !ok {
				return false
			}
			once.Do(func() { from = time.Now() })
			if time.Since(from) >= 10*time.Second {
				return false
			}
			w.Header().Set("Retry-After", "1")
			return s3Error(w, r, http.StatusServiceUnavailable, "SlowDown", "Please reduce your request rate.")
		}})
		job := c.submit(t, freshet.Spec{Source: at(endpoint, "model"), Dest: c.dest("busy", "model")})
		c.await(t, job, "node that says what it waits for", func(j freshet.Job) bool {
			for _, n := range j.Nodes {
				if strings.Contains(n.Waiting, "SlowDown") {
					says(t, n.Waiting, "the store", "s3://models/model")
					return true
				}
			}
			return false
		})
		job = c.watch(t, job)
		arrived(t, job, data)
		if d := job.Ended.Sub(job.Accepted); d < 10*time.Second {
			t.Errorf("done after %v, before the store had recovered", d)
		}
	})
	t.Run("busy at the start", func(t *testing.T) {
		t.Parallel()
		var once sync.Once
		var from time.Time
		endpoint := store.behind(t, front{before: func(w http.ResponseWriter, r *http.Request) bool {
			once.Do(func() { from = time.Now() })
			if time.Since(from) >= 10*time.Second {
				return false
			}
			w.Header().Set("Retry-After", "1")
			return s3Error(w, r, http.StatusServiceUnavailable, "SlowDown", "Please reduce your request rate.")
		}})
		arrived(t, c.run(t, freshet.Spec{Source: at(endpoint, "model"), Dest: c.dest("busy-stat", "model")}), data)
	})
	t.Run("truncated bodies", func(t *testing.T) {
		t.Parallel()
		var cuts atomic.Int32
		endpoint := store.behind(t, front{after: func(r *http.Response) error {
			if lo, hi, ok := span(r.Request); ok && hi-lo > 1000 && cuts.Add(1) <= 6 {
				body(r, func(b io.Reader) io.Reader { return io.LimitReader(b, int64(hi-lo)/2) })
			}
			return nil
		}})
		j := c.run(t, freshet.Spec{Source: at(endpoint, "model"), Dest: c.dest("truncated", "model")})
		arrived(t, j, data)
		var total unit.Bytes
		for _, n := range j.Nodes {
			total += n.StoreBytes
		}
		if cuts.Load() < 6 || total != unit.Bytes(len(data)) {
			t.Errorf("after %d cuts %v were read, want each byte once", cuts.Load(), total)
		}
	})
	const bad = 1_500_000
	flip := func(times int32) front {
		var left atomic.Int32
		left.Store(times)
		return front{after: func(r *http.Response) error {
			if lo, hi, ok := span(r.Request); ok && lo <= bad && bad < hi && left.Add(-1) >= 0 {
				body(r, func(b io.Reader) io.Reader { return &flipped{b, bad - lo} })
			}
			return nil
		}}
	}
	t.Run("a byte flipped", func(t *testing.T) {
		for _, a := range freshet.Algorithms {
			t.Run(a, func(t *testing.T) {
				t.Parallel()
				j := c.run(t, freshet.Spec{Source: at(store.behind(t, flip(1)), "model"), Dest: c.dest("flip-"+a, "model"), Algorithm: a, Piece: 256 * unit.KiB})
				arrived(t, j, data)
				var faults []string
				for _, n := range j.Nodes {
					if n.Verified != "source" {
						t.Errorf("%s verified by %q, want source", n.Name, n.Verified)
					}
					for _, f := range n.Faults {
						says(t, f.Cause, "had piece 5 wrong when it read it from the store", "read again by")
						faults = append(faults, f.Node)
					}
				}
				if len(faults) == 0 {
					t.Errorf("nobody names the reader: %s", describe(j))
				}
			})
		}
	})
	t.Run("a byte always flipped", func(t *testing.T) {
		t.Parallel()
		c.failsAndLeavesNothing(t, freshet.Spec{
			Source: at(store.behind(t, flip(1_000_000)), "model"), Dest: c.dest("damaged", "model"), Piece: 256 * unit.KiB,
		}, "s3://models/model", "damaged", "checksum")
	})
	t.Run("secrets", func(t *testing.T) {
		t.Parallel()
		const secret = "hunter2-do-not-show"
		c.secret(secret)
		for source, want := range map[string]string{
			"https://user:" + secret + "@example.com/model":       "readable without a login",
			"https://example.com/model?X-Amz-Signature=" + secret: "credentials of their own",
			"s3://user:" + secret + "@models/model":               "credentials of their own",
		} {
			text := c.refused(t, freshet.Spec{Source: source, Dest: c.dest("secrets", "model")})
			says(t, text, "record", want)
			_, err := c.client.Check(t.Context(), nil, source)
			if !errors.Is(err, freshet.ErrInvalid) || err.Error() != text {
				t.Errorf("a check says %v, and a job %s", err, text)
			}
			if strings.Contains(text, secret) {
				t.Errorf("%q repeats the secret", text)
			}
		}
	})
	t.Run("secret in a query", func(t *testing.T) { // which may be part of the address, and has to stand in the record
		t.Parallel()
		const secret = "swordfish-do-not-show"
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet || r.URL.Query().Get("key") != secret {
				http.Error(w, "no", http.StatusForbidden)
				return
			}
			w.Header().Set("ETag", `"v1"`)
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(data)))
		}))
		defer h.Close()
		j := c.run(t, freshet.Spec{Source: h.URL + "/model?key=" + secret, Dest: c.dest("query", "model"), Record: true})
		arrived(t, j, data)
		var b strings.Builder
		if err := c.client.Recording(t.Context(), j.ID, "n1", &b); err != nil || !strings.Contains(b.String(), "/model?") {
			t.Errorf("recording: %v, want one that names the source", err)
		}
		if strings.Contains(b.String(), secret) || strings.Contains(c.log.String(), secret) {
			t.Errorf("the secret stands in the recording or the log")
		}
		text := c.refused(t, freshet.Spec{Source: h.URL + "/model?key=" + secret + "-wrong", Dest: c.dest("query", "other")})
		if says(t, text, "access denied"); strings.Contains(text, secret) {
			t.Errorf("%q repeats the secret", text)
		}
	})
}

// failsAndLeavesNothing runs a job that no node can end well, once over an
// older file and once into a directory that would have to be made.
func (c *nodes) failsAndLeavesNothing(t *testing.T, s freshet.Spec, want ...string) {
	t.Helper()
	untouched := old(t, s.Dest, c.names()...)
	j := c.run(t, s)
	if j.State != freshet.Failed {
		t.Errorf("job is %s, want failed: %s", j.State, describe(j))
	}
	says(t, j.Error, "n0: ")
	for _, n := range j.Nodes {
		if n.State != freshet.Failed {
			t.Errorf("%s is %s, want failed", n.Name, n.State)
		}
		t.Logf("%s: %s", n.Name, n.Error)
	}
	for _, w := range want {
		if !strings.Contains(describe(j), w) {
			t.Errorf("the job does not say %q: %s", w, describe(j))
		}
	}
	untouched(t)
}
