package metrics

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/swarm"
)

// scrape returns what of an exposition is ours, without help.
func scrape(t *testing.T, p Process) string {
	t.Helper()
	w := httptest.NewRecorder()
	Handler(p).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if !strings.Contains(w.Body.String(), "\ngo_goroutines ") {
		t.Error("nothing of the process itself")
	}
	var b strings.Builder
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "freshet_") || strings.HasPrefix(line, "# TYPE freshet_") {
			b.WriteString(line)
		}
	}
	return strings.ReplaceAll(b.String(), `"`+runtime.Version()+`"`, `"GO"`)
}

// busy is an agent each of whose counters has a number of its own. It is to be
// called in a bubble, whose clock makes what waits take exactly so long.
func busy(t *testing.T) *Agent {
	t.Helper()
	a := &Agent{
		Swarm: new(swarm.Counters), Receive: peer.NewPool(31), Send: peer.NewPool(37),
		Retries: func() int64 { return 41 },
		Jobs: func() (int64, map[control.State]int64) {
			return 43, map[control.State]int64{control.Done: 47, control.Failed: 53}
		},
	}
	s := a.Swarm
	for i, c := range []interface{ Store(int64) }{&s.FromStore, &s.Verified, &s.Spoiled, &s.Unasked, &s.Broken, &s.Events, &s.Queued} {
		c.Store(int64(101 + i))
	}
	for i, name := range []string{"n1", "n2"} {
		s.Peer(name).Received.Store(int64(111 + i))
		s.Peer(name).Sent.Store(int64(121 + i))
	}
	for i, is := range []account.Doing{account.ForStore, account.ForBarrier, account.ForPeers, account.ForDisk, account.FromStore, account.FromBoth, account.FromPeers} {
		s.Spend(is, time.Duration(131+i)*time.Second)
	}
	for _, take := range []struct {
		pool *peer.Pool
		free int
	}{{a.Receive, 29}, {a.Send, 0}} {
		for take.pool.Free() > take.free {
			if _, err := take.pool.Get(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
	defer cancel()
	if _, err := a.Send.Get(ctx); err == nil {
		t.Fatal("an empty pool gave a block")
	}
	return a
}

func refusals(f func(why string, n int64)) { f("crowd", 59); f("hello", 61); f("tls", 67) }

// TestExposition: every counter is shown under its own name, and every name
// stands in the package's comment.
func TestExposition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Process{Version: "v1", Refusals: refusals, Agent: busy(t), Census: func(context.Context) (control.Census, error) {
			return control.Census{Nodes: map[string]int{"up": 71, "down": 73}, Jobs: map[control.State]int{control.Running: 79, control.Done: 83}, Tokens: 89}, nil
		}}
		const want = `# TYPE freshet_blocks_queued gauge
freshet_blocks_queued 107
# TYPE freshet_build_info gauge
freshet_build_info{go="GO",version="v1"} 1
# TYPE freshet_callers_refused_total counter
freshet_callers_refused_total{why="crowd"} 59
freshet_callers_refused_total{why="hello"} 61
freshet_callers_refused_total{why="tls"} 67
# TYPE freshet_cluster_jobs gauge
freshet_cluster_jobs{state="done"} 83
freshet_cluster_jobs{state="running"} 79
# TYPE freshet_cluster_nodes gauge
freshet_cluster_nodes{state="down"} 73
freshet_cluster_nodes{state="up"} 71
# TYPE freshet_cluster_records_up gauge
freshet_cluster_records_up 1
# TYPE freshet_cluster_tokens gauge
freshet_cluster_tokens 89
# TYPE freshet_events_queued gauge
freshet_events_queued 106
# TYPE freshet_jobs_ended_total counter
freshet_jobs_ended_total{state="done"} 47
freshet_jobs_ended_total{state="failed"} 53
# TYPE freshet_jobs_running gauge
freshet_jobs_running 43
# TYPE freshet_moving_seconds_total counter
freshet_moving_seconds_total{from="both"} 136
freshet_moving_seconds_total{from="peers"} 137
freshet_moving_seconds_total{from="store"} 135
# TYPE freshet_peer_received_bytes_total counter
freshet_peer_received_bytes_total{peer="n1"} 111
freshet_peer_received_bytes_total{peer="n2"} 112
# TYPE freshet_peer_sent_bytes_total counter
freshet_peer_sent_bytes_total{peer="n1"} 121
freshet_peer_sent_bytes_total{peer="n2"} 122
# TYPE freshet_pieces_verified_total counter
freshet_pieces_verified_total 102
# TYPE freshet_pool_blocks gauge
freshet_pool_blocks{pool="receive"} 31
freshet_pool_blocks{pool="send"} 37
# TYPE freshet_pool_free_blocks gauge
freshet_pool_free_blocks{pool="receive"} 29
freshet_pool_free_blocks{pool="send"} 0
# TYPE freshet_rejected_bytes_total counter
freshet_rejected_bytes_total{why="digest"} 103
freshet_rejected_bytes_total{why="protocol"} 105
freshet_rejected_bytes_total{why="unasked"} 104
# TYPE freshet_store_received_bytes_total counter
freshet_store_received_bytes_total 101
# TYPE freshet_store_retries_total counter
freshet_store_retries_total 41
# TYPE freshet_wait_seconds_total counter
freshet_wait_seconds_total{for="barrier"} 132
freshet_wait_seconds_total{for="disk"} 134
freshet_wait_seconds_total{for="peers"} 133
freshet_wait_seconds_total{for="pool"} 7
freshet_wait_seconds_total{for="store"} 131
`
		got := scrape(t, p)
		if got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		source, err := os.ReadFile("metrics.go")
		if err != nil {
			t.Fatal(err)
		}
		comment, _, _ := strings.Cut(string(source), "\npackage ")
		for _, m := range regexp.MustCompile(`# TYPE (\w+)`).FindAllStringSubmatch(got, -1) {
			if !regexp.MustCompile(`\b` + m[1] + `\b`).MatchString(comment) {
				t.Errorf("%s is not in the package's comment", m[1])
			}
		}
	})
}

// TestRecordsAway: a control plane whose records do not answer is seen in the
// metrics, and hides nothing else in them; nor does it hold up a scraper that leaves.
func TestRecordsAway(t *testing.T) {
	p := Process{Version: "v1", Refusals: refusals, Census: func(ctx context.Context) (control.Census, error) {
		return control.Census{}, errors.New("no answer")
	}}
	got := scrape(t, p)
	for _, want := range []string{"freshet_cluster_records_up 0\n", `freshet_callers_refused_total{why="tls"} 67`, "freshet_build_info"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "freshet_cluster_tokens") {
		t.Errorf("tokens are counted without records:\n%s", got)
	}
	synctest.Test(t, func(t *testing.T) {
		p.Census = func(ctx context.Context) (control.Census, error) {
			<-ctx.Done()
			return control.Census{}, ctx.Err()
		}
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		began := time.Now()
		Handler(p).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/metrics", nil))
		if took := time.Since(began); took != time.Second {
			t.Errorf("the scrape ended after %v, the scraper had left after 1s", took)
		}
		began = time.Now()
		if scrape(t, p); time.Since(began) != censusWithin {
			t.Errorf("a scrape without records took %v, want %v", time.Since(began), censusWithin)
		}
	})
}
