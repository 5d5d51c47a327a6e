package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/term"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/internal/report"
	"github.com/freshet/freshet/internal/swarm"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

// result is what --json prints of broadcasts.
type result struct {
	Runs []run `json:"runs"`
}

// run is one broadcast in numbers: seconds from when the control plane accepted
// the job, and bytes of payload.
type run struct {
	Job       string   `json:"job"`
	State     string   `json:"state"`
	Error     string   `json:"error,omitempty"`
	Algorithm string   `json:"algorithm"`
	Source    string   `json:"source"`
	Dest      string   `json:"dest"`
	Bytes     int64    `json:"bytes"`      // of the object
	MakespanS float64  `json:"makespan_s"` // until the last node that got it had it
	BoundS    *float64 `json:"bound_s"`    // the fluid lower bound; nil: nothing is known to limit it
	BoundBy   string   `json:"bound_by,omitempty"`
	Ratio     *float64 `json:"ratio"`     // MakespanS / BoundS; nil without a bound, or unless the job is done
	FastestS  float64  `json:"fastest_s"` // the first node that had it; those that had it before do not count
	SlowestS  float64  `json:"slowest_s"`

	StoreBytes int64     `json:"store_bytes"` // of all nodes together
	PeerBytes  int64     `json:"peer_bytes"`
	Verified   string    `json:"verified"` // of all nodes the weakest: "peers", "source", "present", or "" unless the job is done
	Nodes      []nodeRun `json:"nodes"`
}

// nodeRun is one node's part.
type nodeRun struct {
	Name       string          `json:"name"`
	State      string          `json:"state"`
	DoneS      *float64        `json:"done_s"` // nil: it did not get the object; 0: it had it before
	StoreBytes int64           `json:"store_bytes"`
	StoreS     float64         `json:"store_s"`              // seconds for which it read from the store
	StoreSlow  string          `json:"store_slow,omitempty"` // where that gave less than a tenth of what the others got: how much
	PeerBytes  int64           `json:"peer_bytes"`
	NoAccess   bool            `json:"no_access,omitempty"`   // it may not read the source; --share-access let it have the object
	PlainPeers int             `json:"plain_peers,omitempty"` // neighbours with which it exchanged in plain TCP (--security trusted)
	SHA256     string          `json:"sha256,omitempty"`
	Verified   string          `json:"verified,omitempty"`
	Error      string          `json:"error,omitempty"`
	Faults     []freshet.Fault `json:"faults,omitempty"`
}

// newRun makes a run of a job. boundS may be nil.
func newRun(job freshet.Job, boundS *float64, boundBy string) run {
	r := run{
		Job: job.ID, State: string(job.State), Error: job.Error, Algorithm: job.Spec.Algorithm,
		Source: job.Spec.Source, Dest: job.Spec.Dest, Bytes: int64(job.Object.Size),
		BoundS: boundS, BoundBy: boundBy, Nodes: []nodeRun{},
	}
	slow := job.SlowStores()
	var verified []string
	var times []float64
	for _, n := range job.Nodes {
		k := nodeRun{
			Name: n.Name, State: string(n.State), StoreBytes: int64(n.StoreBytes), PeerBytes: int64(n.PeerBytes),
			StoreS: n.StoreS, StoreSlow: slow[n.Name], NoAccess: n.NoAccess, PlainPeers: n.PlainPeers, SHA256: n.SHA256, Verified: n.Verified, Error: n.Error, Faults: n.Faults,
		}
		switch n.State {
		case freshet.Done:
			k.DoneS = &n.DoneS
			times = append(times, n.DoneS)
			verified = append(verified, n.Verified)
		case freshet.Present:
			k.DoneS = new(float64)
			k.Verified = string(freshet.Present)
			verified = append(verified, k.Verified)
		}
		r.StoreBytes += k.StoreBytes
		r.PeerBytes += k.PeerBytes
		r.Nodes = append(r.Nodes, k)
	}
	if len(times) > 0 {
		r.FastestS, r.SlowestS = slices.Min(times), slices.Max(times)
		r.MakespanS = r.SlowestS
	}
	if job.State != freshet.Done {
		return r
	}
	for _, v := range []string{"peers", "source", string(freshet.Present)} {
		if slices.Contains(verified, v) {
			r.Verified = v
			break
		}
	}
	if boundS != nil && *boundS > 0 && r.MakespanS > 0 {
		ratio := r.MakespanS / *boundS
		r.Ratio = &ratio
	}
	return r
}

// meanS is the mean of the times at which nodes had the object.
func (r run) meanS() float64 {
	var sum float64
	var n int
	for _, k := range r.Nodes {
		if k.State == string(freshet.Done) && k.DoneS != nil {
			sum += *k.DoneS
			n++
		}
	}
	return sum / float64(max(n, 1))
}

// bound is the fluid lower bound of a job by the rates that its nodes declare,
// nil if none does.
func bound(job freshet.Job, nodes []freshet.NodeView) (*float64, string) {
	var r steal.Rates
	for _, n := range nodes {
		if i := slices.IndexFunc(job.Nodes, func(s freshet.NodeStatus) bool { return s.Name == n.Name }); i >= 0 && job.Nodes[i].State != freshet.Present {
			r.Down, r.Up = append(r.Down, n.RateIn), append(r.Up, n.RateOut)
		}
	}
	if len(r.Down) == 0 {
		return nil, ""
	}
	seconds, by := steal.Bound(job.Object.Size, len(r.Down), r)
	if seconds == 0 {
		return nil, ""
	}
	return &seconds, by
}

// record copies to w what the nodes have recorded of a job, and the bound that
// the report needs beside it. Nodes that cannot be asked are left out.
func record(ctx context.Context, c *freshet.Client, job freshet.Job, boundS *float64, boundBy string, w io.Writer) error {
	got := 0
	var missing error
	for _, n := range job.Nodes {
		if err := c.Recording(ctx, job.ID, n.Name, &capped{w, maxRecording}); err != nil {
			if n.State != freshet.Present { // such a node may have had no part in it
				slog.Warn("no recording", "job", job.ID, "node", n.Name, "err", err)
			}
			missing = err
			continue
		}
		got++
	}
	if got == 0 {
		if missing == nil {
			missing = errors.New("no node took part")
		}
		return fmt.Errorf("job %s has no recording (%w): broadcast with --record, --report or --keep-recording", job.ID, missing)
	}
	if boundS == nil {
		return nil
	}
	return json.NewEncoder(w).Encode(swarm.Event{Kind: "bound", Job: job.ID, BoundS: *boundS, By: boundBy})
}

// maxRecording is twice what a node records of the most pieces that there can be.
const maxRecording = 512 << 20

// capped takes so many bytes and no more: how long a recording is, a node says that may lie.
type capped struct {
	w    io.Writer
	left int
}

func (c *capped) Write(b []byte) (int, error) {
	if len(b) > c.left {
		return 0, fmt.Errorf("its recording is longer than %v", unit.Bytes(maxRecording))
	}
	c.left -= len(b)
	return c.w.Write(b)
}

// save writes a job's recording and its report to files, those that are asked for.
func save(ctx context.Context, c *freshet.Client, job freshet.Job, boundS *float64, boundBy, recording, html string) error {
	if recording == "" && html == "" {
		return nil
	}
	var b bytes.Buffer
	if err := record(ctx, c, job, boundS, boundBy, &b); err != nil {
		return err
	}
	if recording != "" {
		if err := os.WriteFile(recording, b.Bytes(), 0o644); err != nil {
			return fmt.Errorf("recording: %w", err)
		}
	}
	if html == "" {
		return nil
	}
	rec, err := report.Read(&b)
	if err != nil {
		return fmt.Errorf("recording of job %s: %w", job.ID, err)
	}
	return writeReport(html, rec)
}

// writeReport makes path the page of rec, all of it or nothing.
func writeReport(path string, rec *report.Recording) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".freshet-*.html")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	defer os.Remove(f.Name()) // fails harmlessly once renamed
	w := bufio.NewWriter(f)
	err = errors.Join(rec.HTML(w), w.Flush(), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// isTerminal says whether w is a terminal that can move its cursor.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// multipleOf prints n as a multiple of an object.
func multipleOf(n, object unit.Bytes) string {
	if object == 0 {
		return n.String()
	}
	return fmt.Sprintf("%v (%.2f × the object)", n, float64(n)/float64(object))
}

// quiet is the log of what is not to be heard.
var quiet = slog.New(slog.DiscardHandler)
