package freshet_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/pki"
	"github.com/freshet/freshet/unit"
)

// scraper is an HTTP client as Prometheus is one: of one certificate, which may
// be none, and of one server name for all targets.
func scraper(t *testing.T, authority []byte, certs ...tls.Certificate) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		t.Fatal("no certificate of the authority")
	}
	tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "metrics.freshet", Certificates: certs}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

func get(t *testing.T, c *http.Client, addr, path string) (status int, body string) {
	t.Helper()
	resp, err := c.Get("https://" + addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// scraped are metrics as a scrape gives them.
type scraped map[string]*dto.MetricFamily

func scrape(t *testing.T, c *http.Client, addr string) scraped {
	t.Helper()
	status, body := get(t, c, addr, "/metrics")
	if status != http.StatusOK {
		t.Fatalf("scrape %s: %d %s", addr, status, body)
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatalf("scrape %s: %v", addr, err)
	}
	return families
}

// value is that of the metric with these labels, NAME=VALUE each; all of them
// together where several match.
func (s scraped) value(t *testing.T, name string, labels ...string) (sum float64) {
	t.Helper()
	f := s[name]
	if f == nil {
		t.Fatalf("no metric %s", name)
	}
	found := false
	for _, m := range f.Metric {
		matches := 0
		for _, l := range m.Label {
			for _, want := range labels {
				if want == l.GetName()+"="+l.GetValue() {
					matches++
				}
			}
		}
		if matches == len(labels) {
			found = true
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	if !found {
		t.Fatalf("no metric %s with %v", name, labels)
	}
	return sum
}

// monitor asks for a monitor's certificate.
func (c *nodes) monitor(t *testing.T) (client *http.Client, creds *pki.Credentials) {
	t.Helper()
	creds, err := c.client.Monitor(t.Context(), "prometheus")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, authority, err := creds.PEM()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return scraper(t, authority, pair), creds
}

// TestMetrics holds the metrics of all nodes against the record of a job.
func TestMetrics(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	store := newBucket(t)
	data := random(77, 9<<20)
	store.put(t, "model.bin", data)
	client, _ := c.monitor(t)
	before := scrape(t, client, c.first.Addr())
	if got := before.value(t, "freshet_cluster_jobs"); got != 0 {
		t.Errorf("%v jobs before the first", got)
	}
	job := c.run(t, freshet.Spec{Source: at(store.Endpoint, "model.bin"), Dest: c.dest("model.bin"), Algorithm: freshet.Steal})
	arrived(t, job, data)
	for _, name := range c.names() {
		m, n := scrape(t, client, c.byName[name].Addr()), status(t, job, name)
		for what, pair := range map[string][2]float64{
			"from the store": {m.value(t, "freshet_store_received_bytes_total"), float64(n.StoreBytes)},
			"from peers":     {m.value(t, "freshet_peer_received_bytes_total"), float64(n.PeerBytes)},
			"to peers":       {m.value(t, "freshet_peer_sent_bytes_total"), float64(n.SentBytes)},
			"pieces":         {m.value(t, "freshet_pieces_verified_total"), float64(freshet.Layout(job).Count())},
			"jobs done":      {m.value(t, "freshet_jobs_ended_total", "state=done"), 1},
			"jobs running":   {m.value(t, "freshet_jobs_running"), 0},
			"build":          {m.value(t, "freshet_build_info", "version=test"), 1},
			"free blocks":    {m.value(t, "freshet_pool_free_blocks"), m.value(t, "freshet_pool_blocks")},
			"rejected":       {m.value(t, "freshet_rejected_bytes_total", "why=digest"), 0},
			"events":         {m.value(t, "freshet_events_queued"), 0},
			"retries":        {m.value(t, "freshet_store_retries_total"), 0},
		} {
			if pair[0] != pair[1] {
				t.Errorf("%s: %s: the metrics say %v, want %v", name, what, pair[0], pair[1])
			}
		}
		if m.value(t, "go_goroutines") == 0 || m.value(t, "process_open_fds") == 0 {
			t.Errorf("%s says nothing of its process", name)
		}
		if got := m.value(t, "freshet_moving_seconds_total") + m.value(t, "freshet_wait_seconds_total"); got <= 0 {
			t.Errorf("%s has taken no time for a whole job", name)
		}
	}
	hub := scrape(t, client, c.first.Addr())
	for what, pair := range map[string][2]float64{
		"nodes":   {hub.value(t, "freshet_cluster_nodes", "state=up"), 3},
		"jobs":    {hub.value(t, "freshet_cluster_jobs", "state=done"), 1},
		"tokens":  {hub.value(t, "freshet_cluster_tokens"), 0},
		"records": {hub.value(t, "freshet_cluster_records_up"), 1},
	} {
		if pair[0] != pair[1] {
			t.Errorf("control plane: %s: got %v, want %v", what, pair[0], pair[1])
		}
	}
	c.token(t, 2)
	if got := scrape(t, client, c.first.Addr()).value(t, "freshet_cluster_tokens"); got != 1 {
		t.Errorf("%v tokens, want 1", got)
	}
}

// TestMetricsOfRetries has a store that is too busy for the first reads.
func TestMetricsOfRetries(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	store := newBucket(t)
	data := random(78, 9<<20)
	store.put(t, "model.bin", data)
	var reads, refused atomic.Int64
	endpoint := store.behind(t, front{before: func(w http.ResponseWriter, r *http.Request) bool {
		if _, _, ok := span(r); !ok || reads.Add(1) > 5 {
			return false
		}
		refused.Add(1)
		return s3Error(w, r, http.StatusServiceUnavailable, "SlowDown", "Please reduce your request rate.")
	}})
	client, _ := c.monitor(t)
	// Without stealing, which may break off a read that would be tried again.
	job := c.run(t, freshet.Spec{Source: at(endpoint, "model.bin"), Dest: c.dest("model.bin"), Algorithm: freshet.NonSteal, Piece: 256 * unit.KiB, PerWork: 1})
	arrived(t, job, data)
	var retries float64
	for _, name := range c.names() {
		retries += scrape(t, client, c.byName[name].Addr()).value(t, "freshet_store_retries_total")
	}
	if want := float64(refused.Load()); retries != want || want == 0 {
		t.Errorf("the metrics count %v retries, the store has refused %v reads; want the same, and some", retries, want)
	}
}

// TestMetricsOfRefusals has callers that a node refuses, of each kind.
func TestMetricsOfRefusals(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	client, creds := c.monitor(t)
	addr := c.byName["n1"].Addr()
	refused := func(why string) float64 {
		return scrape(t, client, addr).value(t, "freshet_callers_refused_total", "why="+why)
	}
	before := map[string]float64{}
	for _, why := range []string{"hello", "crowd"} {
		before[why] = refused(why)
	}
	dial := func(conf *tls.Config) net.Conn {
		t.Helper()
		d := net.Dialer{Timeout: patience}
		var conn net.Conn
		var err error
		if conf == nil {
			conn, err = d.Dial("tcp", addr)
		} else {
			conn, err = tls.DialWithDialer(&d, "tcp", addr, conf)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(patience))
		return conn
	}
	closed := func(conn net.Conn) { // by the node
		t.Helper()
		if _, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the node does not close the connection: %v", err)
		}
	}

	for range 2 { // what is no TLS
		conn := dial(nil)
		io.WriteString(conn, "SSH-2.0-OpenSSH_9.9\r\n")
		closed(conn)
	}
	data := dial(creds.ClientTLS(pki.Node, "n1", peer.ProtocolData)) // a certificate of the cluster, and no hello
	io.WriteString(data, "GET / HTTP/1.1\r\nHost: n1\r\n\r\n")
	closed(data)
	const places, more = 16, 3 // of one holder of a certificate, as internal/peer has them
	other, err := c.client.Monitor(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	for range places + more {
		dial(other.ClientTLS(pki.Node, "n1", peer.ProtocolHTTP))
	}
	for why, want := range map[string]float64{"hello": 1, "crowd": more} {
		var got float64
		eventually(t, fmt.Sprintf("%v callers are refused for %s", want, why), func() bool {
			got = refused(why) - before[why]
			return got >= want
		})
		if got != want {
			t.Errorf("%v callers were refused for %s, want %v", got, why, want)
		}
	}
	// The control plane looks at who registers, and its certificate is no
	// client's: the log knows of its calls, too.
	eventually(t, "as many handshakes have failed as the log tells", func() bool {
		failed, ours := 0, 0
		for line := range strings.Lines(c.log.String()) {
			if strings.Contains(line, `msg="handshake failed" at=n1`) {
				failed++
				if strings.Contains(line, "does not look like a TLS handshake") {
					ours++
				}
			}
		}
		return ours == 2 && refused("tls") == float64(failed)
	})
}

// TestMetricsAreForWhoMay sees who gets an answer over HTTP, and that a
// monitor's certificate opens nothing else.
func TestMetricsAreForWhoMay(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	monitor, creds := c.monitor(t)
	_, _, authority, err := creds.PEM()
	if err != nil {
		t.Fatal(err)
	}
	pair := func(path string) tls.Certificate {
		creds, err := pki.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		cert, key, _, err := creds.PEM()
		if err != nil {
			t.Fatal(err)
		}
		p, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	nobody := scraper(t, authority)
	node := scraper(t, authority, pair(filepath.Join(c.dir, "n1", "state", "node.pem")))
	admin := scraper(t, authority, pair(c.first.AdminFile()))
	for _, addr := range []string{c.first.Addr(), c.byName["n1"].Addr()} {
		for _, tc := range []struct {
			who    string
			client *http.Client
			path   string
			status int
			says   string
		}{
			{"nobody", nobody, "/metrics", 401, "freshet monitor"},
			{"nobody", nobody, "/healthz", 200, "ok"},
			{"nobody", nobody, "/", 404, ""},
			{"node", node, "/metrics", 403, "that of n1 (node)"},
			{"monitor", monitor, "/metrics", 200, "freshet_build_info"},
			{"admin", admin, "/metrics", 200, "freshet_build_info"},
		} {
			if status, body := get(t, tc.client, addr, tc.path); status != tc.status || !strings.Contains(body, tc.says) {
				t.Errorf("%s at %s%s: got %d %.200q, want %d with %q", tc.who, addr, tc.path, status, body, tc.status, tc.says)
			}
		}
		resp, err := nobody.Post("https://"+addr+"/metrics", "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("POST: got %s", resp.Status)
		}
	}
	// No control: the client does not even begin, and the hub refuses one that does.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := control.Connect(ctx, control.Admin{Hub: c.first.Addr(), Credentials: creds}, control.ClientOptions{}); err == nil {
		t.Error("a monitor's certificate made a client")
	}
	d := tls.Dialer{Config: creds.ClientTLS(pki.Hub, pki.HubName, peer.ProtocolControl)}
	conn, err := d.DialContext(ctx, "tcp", c.first.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	b, _ := io.ReadAll(conn) // it is closed after the refusal
	if got := string(b); !strings.HasPrefix(got, "-ERR ") || !strings.Contains(got, "monitor has no business") {
		t.Errorf("control connection: the hub said %q", b)
	}
}

// TestHealth sees that /healthz notices roots that are gone. health.txtar has
// processes, and the rest of what can be wrong.
func TestHealth(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	client, _ := c.monitor(t)
	n1 := c.byName["n1"]
	if err := os.Mkdir(filepath.Join(c.root("n1"), "x"), 0o755); err != nil { // a file of any name may lie there
		t.Fatal(err)
	}
	eventually(t, "n1 is healthy", func() bool {
		status, _ := get(t, client, n1.Addr(), "/healthz")
		return status == http.StatusOK
	})
	if err := os.Rename(c.root("n1"), c.root("n1")+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(c.root("n1") + ".away"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "/healthz answers 503 and names the root that is gone", func() bool {
		status, body := get(t, client, n1.Addr(), "/healthz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, c.root("n1"))
	})
	if err := n1.Healthy(t.Context()); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("without its root: got %v", err)
	}
	if err := os.MkdirAll(c.root("n1"), 0o755); err != nil {
		t.Fatal(err)
	}
}
