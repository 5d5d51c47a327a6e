// Package metrics shows what a process has done to Prometheus. The engines count
// into counters of their own and know nothing of it; a scrape reads those.
//
//	freshet_build_info{version,go}                     1
//	freshet_store_received_bytes_total                 payload read from stores, thrown away ones included; what
//	                                                   proves access is not in it
//	freshet_peer_received_bytes_total{peer}            payload received from that node, likewise
//	freshet_peer_sent_bytes_total{peer}                payload given to that node
//	freshet_pieces_verified_total                      pieces on the disk whose digest is right
//	freshet_store_retries_total                        requests to a store that were made again
//	freshet_rejected_bytes_total{why}                  digest: pieces with another one than they should have; unasked:
//	                                                   blocks that nobody waited for any more; protocol: frames that break it
//	freshet_events_queued, freshet_blocks_queued       what waits for the jobs' loops, and to be sent to peers
//	freshet_pool_blocks{pool}, freshet_pool_free_blocks{pool}
//	freshet_moving_seconds_total{from}                 time of jobs while something came: store, both, peers
//	freshet_wait_seconds_total{for}                    time of jobs waiting, while nothing did: store, barrier, peers, disk; and for a
//	                                                   block of a pool
//	freshet_jobs_running, freshet_jobs_ended_total{state}  this node's parts
//	freshet_callers_refused_total{why}                 crowd: too many at once; tls: handshakes, one for each look that the control
//	                                                   plane takes at a node that registers; hello: data connections
//	freshet_cluster_nodes{state}, freshet_cluster_jobs{state}, freshet_cluster_tokens   of a control plane
//	freshet_cluster_records_up                         1, or 0 if its records do not answer; then the three before are not there
//
// and what the Go runtime and the system say of the process. The label peer has
// as many values as the cluster has nodes.
package metrics

import (
	"context"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/swarm"
)

// Process is what there is to read. What is nil is not shown.
type Process struct {
	Version  string
	Refusals func(f func(why string, n int64)) // of the port
	Agent    *Agent
	Census   func(ctx context.Context) (control.Census, error) // of a control plane
	Log      *slog.Logger                                      // what could not be read; nil: slog.Default()
}

// Agent is a process's part in jobs.
type Agent struct {
	Swarm         *swarm.Counters
	Receive, Send *peer.Pool
	Retries       func() int64
	Jobs          func() (running int64, ended map[control.State]int64)
}

// censusWithin is how long the control plane's records may take at a scrape.
const censusWithin = 5 * time.Second

// Handler answers scrapes. It asks for no credentials: that is its caller's
// part. What cannot be read is left out: a scrape that fails as a whole says
// less than one without a metric, when somebody wants to know what is wrong.
func Handler(p Process) http.Handler {
	if p.Log == nil {
		p.Log = slog.Default()
	}
	process := prometheus.NewRegistry()
	process.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ours := prometheus.NewRegistry()
		ours.MustRegister(collector{p, req.Context()})
		families, err := prometheus.Gatherers{process, ours}.Gather()
		if err != nil && len(families) == 0 {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if err != nil {
			p.Log.Warn("some metrics cannot be read", "err", err)
		}
		format := expfmt.Negotiate(req.Header)
		w.Header().Set("Content-Type", string(format))
		e := expfmt.NewEncoder(w, format)
		for _, f := range families {
			if e.Encode(f) != nil { // the scraper has gone
				return
			}
		}
		if c, ok := e.(expfmt.Closer); ok {
			c.Close()
		}
	})
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("freshet_"+name, help, labels, nil)
}

var (
	build        = desc("build_info", "The running version.", "version", "go")
	fromStore    = desc("store_received_bytes_total", "Payload read from stores, thrown away payload included.")
	fromPeer     = desc("peer_received_bytes_total", "Payload received from a node, thrown away payload included.", "peer")
	toPeer       = desc("peer_sent_bytes_total", "Payload given to a node.", "peer")
	verified     = desc("pieces_verified_total", "Pieces on the disk whose digest is right.")
	retries      = desc("store_retries_total", "Requests to a store that were made again.")
	rejected     = desc("rejected_bytes_total", "Bytes from peers that were thrown away, by why.", "why")
	events       = desc("events_queued", "Events that wait for the loops of running jobs.")
	blocks       = desc("blocks_queued", "Blocks that peers have asked for and wait for.")
	poolBlocks   = desc("pool_blocks", "Blocks of a pool, free ones included.", "pool")
	poolFree     = desc("pool_free_blocks", "Free blocks of a pool.", "pool")
	moving       = desc("moving_seconds_total", "Time of jobs while something came, by from where.", "from")
	waits        = desc("wait_seconds_total", "Time that jobs have waited, by what for.", "for")
	jobsRunning  = desc("jobs_running", "Jobs in which this node takes part right now.")
	jobsEnded    = desc("jobs_ended_total", "This node's parts of jobs that have ended, by outcome.", "state")
	refused      = desc("callers_refused_total", "Connections that were refused, by why.", "why")
	clusterNodes = desc("cluster_nodes", "Registered nodes, by state.", "state")
	clusterJobs  = desc("cluster_jobs", "Jobs that the control plane remembers, by state.", "state")
	tokens       = desc("cluster_tokens", "Tokens with which nodes can join right now.")
	recordsUp    = desc("cluster_records_up", "Whether the control plane's records answer.")
)

// collector reads a process, for one scrape.
type collector struct {
	p   Process
	ctx context.Context // the scrape's; Prometheus's interface has no place for it
}

func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		build, fromStore, fromPeer, toPeer, verified, retries, rejected, events, blocks, poolBlocks, poolFree, moving, waits,
		jobsRunning, jobsEnded, refused, clusterNodes, clusterJobs, tokens, recordsUp,
	} {
		out <- d
	}
}

func (c collector) Collect(out chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(build, 1, c.p.Version, runtime.Version())
	if c.p.Refusals != nil {
		c.p.Refusals(func(why string, n int64) { counter(refused, float64(n), why) })
	}
	if a := c.p.Agent; a != nil {
		s := a.Swarm
		counter(fromStore, float64(s.FromStore.Load()))
		s.Peers(func(name string, p *swarm.PeerCounters) {
			counter(fromPeer, float64(p.Received.Load()), name)
			counter(toPeer, float64(p.Sent.Load()), name)
		})
		counter(verified, float64(s.Verified.Load()))
		counter(retries, float64(a.Retries()))
		counter(rejected, float64(s.Spoiled.Load()), "digest")
		counter(rejected, float64(s.Unasked.Load()), "unasked")
		counter(rejected, float64(s.Broken.Load()), "protocol")
		gauge(events, float64(s.Events.Load()))
		gauge(blocks, float64(s.Queued.Load()))
		for name, pool := range map[string]*peer.Pool{"receive": a.Receive, "send": a.Send} {
			gauge(poolBlocks, float64(pool.Size()), name)
			gauge(poolFree, float64(pool.Free()), name)
		}
		for _, is := range account.Coming {
			counter(moving, s.Spent(is).Seconds(), is.Of())
		}
		for _, is := range account.Waiting {
			counter(waits, s.Spent(is).Seconds(), is.Of())
		}
		counter(waits, (a.Receive.Waited() + a.Send.Waited()).Seconds(), "pool")
		running, ended := a.Jobs()
		gauge(jobsRunning, float64(running))
		for state, n := range ended {
			counter(jobsEnded, float64(n), string(state))
		}
	}
	if c.p.Census != nil {
		ctx, cancel := context.WithTimeout(c.ctx, censusWithin)
		defer cancel()
		census, err := c.p.Census(ctx)
		if err != nil {
			c.p.Log.Warn("the control plane's records are not in the metrics", "err", err)
			gauge(recordsUp, 0)
			return
		}
		gauge(recordsUp, 1)
		for state, n := range census.Nodes {
			gauge(clusterNodes, float64(n), state)
		}
		for state, n := range census.Jobs {
			gauge(clusterJobs, float64(n), string(state))
		}
		gauge(tokens, float64(census.Tokens))
	}
}
