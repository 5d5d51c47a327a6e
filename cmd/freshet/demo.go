package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/internal/report"
	"github.com/freshet/freshet/internal/s3serve"
	"github.com/freshet/freshet/objstore/limit"
	"github.com/freshet/freshet/objstore/s3"
	"github.com/freshet/freshet/unit"
)

// The demo's network is that of Chiba et al. 2010, section 5, scaled so that it
// takes seconds: a store connection gives 4 to 10.5 MB/s there, and nodes
// exchange at about 10 MB/s. A core carries about 200 MB/s of encrypted traffic, both ends and
// the checks included; with more nodes than that feeds the scale is smaller, since otherwise the processor would be
// what is shown.
const (
	demoScale   = 5.0
	demoLink    = 10 * unit.MBps
	demoPerCore = 200 * unit.MBps
	demoBucket  = "demo"
	demoKey     = "model.bin"
)

func (d *demo) scale() float64 {
	return min(demoScale, float64(demoPerCore)*float64(runtime.NumCPU())/float64(d.nodes)/float64(demoLink))
}

// link is each node's own, in both directions.
func (d *demo) link() unit.Bandwidth { return demoLink * unit.Bandwidth(d.scale()) }

// demoRun is a run as the store saw it too.
type demoRun struct {
	run
	StoreSentBytes   int64             `json:"store_sent_bytes"`  // of bodies, by the store's own count
	StoreConnections []storeConnection `json:"store_connections"` // those that carried the object, the busiest first, at most one a node
}

type storeConnection struct {
	Rate  float64 `json:"rate"` // bytes per second, as drawn
	Bytes int64   `json:"bytes"`
}

type demo struct {
	nodes  int
	size   unit.Bytes
	seed   uint64
	json   bool
	report string
	dir    string

	out, err io.Writer
}

func newDemo() *cobra.Command {
	d := &demo{nodes: 8, size: 256 * unit.MiB}
	c := &cobra.Command{
		Use:     "demo",
		GroupID: "try",
		Short:   "Broadcast an object on this machine by every algorithm, and compare them",
		Long: `Demo starts an S3 server, a control plane and a cluster of agents, each a
process of its own on the loopback interface, and broadcasts one object to all
of them: flat, non-steal, steal and stream, one after the other.

Rates are those of the paper (Chiba et al. 2010) times ` + fmt.Sprint(demoScale) + `: what a node gets from
the store differs from connection to connection and is drawn anew for each:
` + limit.Paper.Scaled(demoScale).Words() + `;
a node's own link carries ` + (demoLink * unit.Bandwidth(demoScale)).String() + ` each way. All algorithms meet the same
draws; stream may read over several connections a node, so that the links alone
bound it. With many nodes for this machine's processors the scale is smaller; it
is printed.

It needs no root and nothing installed, leaves nothing running, and writes a
report with pictures.`,
		Example: "  freshet demo\n  freshet demo --nodes 16 --size 512MiB --seed 7 --report demo.html",
		Args:    wantArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d.out, d.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return d.run(cmd.Context())
		},
	}
	f := c.Flags()
	f.IntVar(&d.nodes, "nodes", d.nodes, "number of `agents`")
	f.Var(&d.size, "size", "size of the object")
	f.Uint64Var(&d.seed, "seed", 1, "`seed` of the object's bytes and of the store's rates")
	f.BoolVar(&d.json, "json", false, "print the result as JSON")
	f.StringVar(&d.report, "report", "freshet-demo.html", "write the report with pictures to this `file`; empty: none")
	f.StringVar(&d.dir, "dir", "", "work in this `directory` (default: in memory where there is room, else the temporary one)")
	return c
}

// run sets the stage, plays the algorithms on it, and clears it away.
func (d *demo) run(ctx context.Context) (err error) {
	const most = 64
	if d.nodes < 1 || d.nodes > most {
		return usage("--nodes %d: want 1 to %d, as many processes as one machine runs well", d.nodes, most)
	}
	if d.report != "" {
		if d.report, err = filepath.Abs(d.report); err != nil {
			return err
		}
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(d.place(), "freshet-demo-")
	if err != nil {
		return fmt.Errorf("a place to work in: %w", err)
	}
	defer os.RemoveAll(dir)
	d.say("%d nodes on this machine, an object of %v, in %s", d.nodes, d.size, filepath.Dir(dir))
	rates := limit.Paper.Scaled(d.scale())
	d.say("rates are the paper's × %.3g: a store connection %v to %v, drawn anew for each (seed %d); a node's link %v each way",
		d.scale(), rates.Bands()[0].Lo, rates.Bands()[len(rates.Bands())-1].Hi, d.seed, d.link())

	served := filepath.Join(dir, "s3")
	if err := os.MkdirAll(filepath.Join(served, demoBucket), 0o755); err != nil {
		return fmt.Errorf("the store's directory: %w", err)
	}
	store, err := s3serve.Start(ctx, s3serve.Config{
		Dir: served, Listen: "127.0.0.1:0", PerConnection: rates, Seed: d.seed, Log: quiet,
	})
	if err != nil {
		return err
	}
	defer store.Close()
	access, secret := store.Keys()
	env := []string{"AWS_ENDPOINT_URL=" + store.Endpoint(), "AWS_ACCESS_KEY_ID=" + access, "AWS_SECRET_ACCESS_KEY=" + secret, "AWS_REGION=us-east-1",
		// nothing of the user's own: the store is ours
		"AWS_PROFILE=", "AWS_SESSION_TOKEN=", "AWS_CONFIG_FILE=" + os.DevNull, "AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull}
	if err := d.put(ctx, env); err != nil {
		return err
	}

	hub, err := freshet.Start(ctx, freshet.NodeConfig{
		State: filepath.Join(dir, "hub"), Listen: "127.0.0.1:0", ControlPlane: true, Version: version(), Log: quiet,
	})
	if err != nil {
		return err
	}
	defer hub.Close()
	agents, err := d.startAgents(ctx, exe, dir, hub, env)
	defer func() {
		if err != nil && ctx.Err() == nil {
			agents.explain(d.err)
		}
		agents.stop()
	}()
	if err != nil {
		return err
	}
	client, err := freshet.Connect(ctx, hub.AdminFile(), freshet.ClientOptions{})
	if err != nil {
		return err
	}
	defer client.Close()

	var runs []demoRun
	recording, err := os.Create(filepath.Join(dir, "recording.jsonl"))
	if err != nil {
		return err
	}
	defer recording.Close()
	for _, a := range freshet.Algorithms {
		store.Reseed(d.seed)
		r, err := d.play(ctx, client, store, dir, a, recording)
		if err != nil {
			return err
		}
		runs = append(runs, r)
	}
	if err := d.show(ctx, runs, recording); err != nil {
		return err
	}
	for _, r := range runs {
		if r.State != string(freshet.Done) {
			return fmt.Errorf("%s: %s", r.Algorithm, r.Error)
		}
	}
	return nil
}

func freeSpace(dir string) (unit.Bytes, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return unit.Bytes(uint64(s.Bavail) * uint64(s.Bsize)), nil
}

// place is where the demo's files are: memory if it has room for all of them, since a
// disk that is slower than all nodes' links together would be what is measured.
func (d *demo) place() string {
	const shm = "/dev/shm"
	need := unit.Bytes(d.nodes+2)*d.size + 512*unit.MiB
	if free, err := freeSpace(shm); d.dir == "" && err == nil && free > need {
		return shm
	}
	return d.dir
}

func (d *demo) say(format string, args ...any) {
	if !d.json {
		fmt.Fprintf(d.out, format+"\n", args...)
	}
}

// put makes the object, pseudo-random bytes from the seed, in the store.
func (d *demo) put(ctx context.Context, env []string) error {
	for _, kv := range env {
		k, v, _ := strings.Cut(kv, "=")
		os.Setenv(k, v)
	}
	store, err := s3.Open(ctx, s3.Config{Bucket: demoBucket})
	if err != nil {
		return err
	}
	defer store.Close()
	var seed [32]byte
	for i := range 8 {
		seed[i] = byte(d.seed >> (8 * i))
	}
	_, err = store.Put(ctx, demoKey, io.LimitReader(rand.NewChaCha8(seed), int64(d.size)), d.size)
	return err
}

// startAgents starts the nodes as processes and waits until all are in the cluster.
func (d *demo) startAgents(ctx context.Context, exe, dir string, hub *freshet.Node, env []string) (*children, error) {
	token, err := hub.NewToken(ctx, d.nodes)
	if err != nil {
		return &children{}, err
	}
	agents := &children{}
	for i := range d.nodes {
		name := fmt.Sprintf("n%02d", i+1)
		root := filepath.Join(dir, name, "data")
		if err := os.MkdirAll(root, 0o755); err != nil {
			return agents, err
		}
		err := agents.start(exe, name, filepath.Join(dir, name, "log"), token, env,
			"agent", "--join", hub.Addr(), "--token", "-", "--name", name, "--state", filepath.Join(dir, name, "state"),
			"--root", root, "--listen", "127.0.0.1:0", "--log-level", "warn",
			"--rate-in", bitRate(d.link()), "--rate-out", bitRate(d.link()))
		if err != nil {
			return agents, err
		}
	}
	client, err := freshet.Connect(ctx, hub.AdminFile(), freshet.ClientOptions{})
	if err != nil {
		return agents, err
	}
	defer client.Close()
	for deadline := time.Now().Add(30 * time.Second); ; {
		nodes, err := client.Nodes(ctx)
		if err != nil {
			return agents, err
		}
		up := 0
		for _, n := range nodes {
			if n.Up {
				up++
			}
		}
		if up == d.nodes {
			return agents, nil
		}
		if time.Now().After(deadline) {
			return agents, fmt.Errorf("%d of %d agents joined within 30 s", up, d.nodes)
		}
		select {
		case err := <-agents.ended():
			return agents, err
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return agents, ctx.Err()
		}
	}
}

// bitRate prints a rate as a flag reads it, exactly.
func bitRate(r unit.Bandwidth) string { return fmt.Sprintf("%.0fbit", float64(r)*8) }

// play runs one algorithm, collects what the nodes recorded, and removes the files again.
func (d *demo) play(ctx context.Context, client *freshet.Client, store *s3serve.Server, dir, algorithm string, recording io.Writer) (demoRun, error) {
	began, before, sent := time.Now(), len(store.Connections()), store.Bytes()
	job, err := client.Submit(ctx, freshet.Spec{
		Source: "s3://" + demoBucket + "/" + demoKey, Dest: filepath.Join(dir, "{node}", "data", "model."+algorithm), Algorithm: algorithm,
		SHA256: true, Record: true, Timeout: freshet.Duration(10 * time.Minute),
	})
	if err != nil {
		return demoRun{}, err
	}
	for j, err := range client.Watch(ctx, job.ID) {
		if err != nil {
			if ctx.Err() != nil {
				cancelCtx, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
				defer stop()
				_, cancelErr := client.Cancel(cancelCtx, job.ID)
				return demoRun{}, errors.Join(errInterrupted, cancelErr)
			}
			return demoRun{}, err
		}
		job = j
		d.progress(job, began)
	}
	d.progressEnd(job)
	conns := d.busiest(store.Connections()[before:])
	courses, err := client.Courses(ctx, job.ID)
	if err != nil {
		return demoRun{}, err
	}
	drawn := d.drawn(conns)          // known only now
	if algorithm == freshet.Stream { // a node that wants more from the store opens more connections
		drawn = d.link() * unit.Bandwidth(d.nodes)
	}
	job.Spec.Declared = map[string]unit.Bandwidth{freshet.DeclareStore: drawn}
	if _, _, err := record(ctx, client, job, courses, recording); err != nil {
		return demoRun{}, err
	}
	for _, n := range job.Nodes {
		os.Remove(strings.ReplaceAll(job.Spec.Dest, "{node}", n.Name))
	}
	r := demoRun{run: newRun(job, courses), StoreSentBytes: int64(store.Bytes() - sent)}
	for _, c := range conns {
		r.StoreConnections = append(r.StoreConnections, storeConnection{float64(c.Rate), int64(c.Bytes)})
	}
	return r, nil
}

// busiest are the connections to the store that carried the object, one a node.
func (d *demo) busiest(conns []s3serve.Connection) []s3serve.Connection {
	slices.SortFunc(conns, func(a, b s3serve.Connection) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return conns[:min(d.nodes, len(conns))]
}

// drawn is what the store gave to all nodes of a run together.
func (d *demo) drawn(conns []s3serve.Connection) (total unit.Bandwidth) {
	for _, c := range conns {
		total += min(c.Rate, d.link())
	}
	return total
}

// progress shows on a terminal how far the run is.
func (d *demo) progress(job freshet.Job, began time.Time) {
	if d.json || !isTerminal(d.out) {
		return
	}
	var have unit.Bytes
	for _, n := range job.Nodes {
		have += n.Have
	}
	share := 1.0
	if all := unit.Bytes(len(job.Nodes)) * d.size; all > 0 {
		share = float64(have) / float64(all)
	}
	const width = 30
	full := int(share * width)
	fmt.Fprintf(d.out, "\r  %-10s %s%s %3.0f %%  %4.1f s", job.Spec.Algorithm, strings.Repeat("█", full), strings.Repeat("·", width-full), 100*share, time.Since(began).Seconds())
}

func (d *demo) progressEnd(job freshet.Job) {
	if d.json {
		return
	}
	if isTerminal(d.out) {
		fmt.Fprintln(d.out)
		return
	}
	fmt.Fprintf(d.out, "  %-10s %s\n", job.Spec.Algorithm, job.State)
}

// show prints the table or the JSON, and writes the report.
func (d *demo) show(ctx context.Context, runs []demoRun, recording *os.File) error {
	if _, err := recording.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if d.report != "" {
		rec, err := report.Read(ctx, recording)
		if err != nil {
			return err
		}
		if err := writeReport(d.report, rec); err != nil {
			return err
		}
	}
	if d.json {
		return printJSON(d.out, map[string]any{"runs": runs})
	}
	w := tabwriter.NewWriter(d.out, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nalgorithm\tmakespan\tbound\tratio\tmean\tfastest\tslowest\tfrom store*\tfrom peers*\tverified\t")
	for _, r := range runs {
		fmt.Fprintf(w, "%s\t%.1f s\t%.1f s\t%.2f\t%.1f s\t%.1f s\t%.1f s\t%.2f ×\t%.2f ×\tby %s\t\n",
			r.Algorithm, r.MakespanS, value(r.BoundS), value(r.Ratio), r.meanS(), r.FastestS, r.SlowestS,
			d.multiple(r.StoreBytes), d.multiple(r.PeerBytes), r.Verified)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	d.say("* all nodes together, in multiples of the object")
	first, last := runs[0], runs[len(runs)-1]
	if last.MakespanS > 0 && last.State == string(freshet.Done) {
		d.say("\nThe last of %d nodes has the object after %.1f s with %s and after %.1f s with %s: %.1f × as fast.",
			d.nodes, last.MakespanS, last.Algorithm, first.MakespanS, first.Algorithm, first.MakespanS/last.MakespanS)
	}
	if d.report != "" {
		d.say("Report with pictures: %s", d.report)
	}
	return nil
}

func value(p *float64) float64 {
	if p == nil {
		return 0
	}
	return *p
}

// multiple is n in objects.
func (d *demo) multiple(n int64) float64 { return float64(n) / float64(max(1, d.size)) }
