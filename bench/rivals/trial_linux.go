package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/bench/trial"
	"github.com/freshet/freshet/internal/lab"
	"github.com/freshet/freshet/internal/lab/cluster"
	"github.com/freshet/freshet/objstore/limit"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

const (
	trials      = "freshet-rivals" // what their directories and control groups begin with
	near, far   = "sw", "far"      // switches; the second one where there are two sites
	prefix      = "model"          // what all files of the object are below, in the store and on the nodes
	buildWithin = 5 * time.Minute  // network, cluster and object of a run, and their end

	systemGroup, storeGroup = "system", "store" // the first one has agents, control plane and clients
)

// Trial is one run of one system.
//
// A node is through when it has its mark, which the system's command on that
// node makes after the files are complete and synced; where freshet runs, when it
// has the files themselves, which appear under their names when they are that.
type Trial struct {
	*trial.Trial
	System System
	Nodes  []string // the first one does what only one does
	Files  []string // names, all of the same size
	Each   unit.Bytes
	Rate   unit.Bandwidth // of a node's link, on the wire

	kind   kind
	even   bool
	source string // the object as S3 URL

	mu       sync.Mutex // guards what follows
	commands []string

	words []string // paths, and the names that they have in the report

	began time.Time
	done  map[string]time.Duration
	made  time.Duration // what Prepare took that users have to wait for
}

// trial builds the network and the cluster for a cell.
func (e *experiment) trial(ctx context.Context, c *bench.Cell, s System) (*Trial, error) {
	t := &Trial{System: s, Rate: unit.Mbit, even: c.Params["rates"] == "even", done: map[string]time.Duration{}}
	var err error
	if t.kind, err = kindOf(c.Params["cell"]); err != nil {
		return nil, err
	}
	n, err := c.Params.Int("nodes")
	if err != nil {
		return nil, err
	}
	mbit, err := c.Params.Float("mbit")
	if err != nil {
		return nil, err
	}
	t.Rate *= unit.Bandwidth(mbit)
	mib, err := c.Params.Int("mib")
	if err != nil {
		return nil, err
	}
	t.Each = unit.Bytes(mib) * unit.MiB / unit.Bytes(t.kind.files)
	for i := range n {
		t.Nodes = append(t.Nodes, fmt.Sprintf("n%02d", i+1))
	}
	config := trial.Config{
		Name: trials, Network: t.network(), Nodes: t.Nodes, Each: t.Each, Public: true,
		StoreArgs: []string{"--seed", strconv.FormatUint(c.Seed, 10)}, Agents: s.Agents, AgentsOf: map[string][]string{},
		Group: func(host string) string {
			if host == trial.Store {
				return storeGroup
			}
			return systemGroup
		},
	}
	for i := range t.kind.files {
		t.Files = append(t.Files, fmt.Sprintf("part-%02d", i))
		config.Objects = append(config.Objects, prefix+"/"+t.Files[i])
	}
	if t.kind.store > 0 {
		config.StoreArgs = append(config.StoreArgs, "--rate-per-client", t.perClient().String())
	}
	c.Note("store", strings.Join(append([]string{"freshet", "s3"}, config.StoreArgs...), " "))
	for _, node := range t.Nodes {
		if t.kind.sites {
			config.AgentsOf[node] = []string{"--site", t.switchOf(node)}
		}
	}
	if s.Agents != nil {
		var agents []string
		for _, node := range []string{t.Nodes[0], t.Nodes[n-1]} { // one of each site
			agents = append(agents, node+"$ freshet agent "+strings.Join(append(slices.Clone(s.Agents), config.AgentsOf[node]...), " "))
		}
		c.Note("agents", strings.Join(agents, "\n"))
	}
	if t.Trial, err = trial.New(ctx, config); err != nil {
		return nil, err
	}
	t.source = strings.TrimSuffix(t.URLs[0], "/"+t.Files[0])
	return t, nil
}

// network is the spec of the lab.
func (t *Trial) network() lab.Spec {
	link := lab.Link{Rate: t.Rate, Buffer: trial.Buffer}
	spec := lab.Star(t.Nodes, link)
	if t.kind.slow {
		spec.Links[len(spec.Links)-1].Rate /= 4
	}
	spec.Attach(near, trial.Store, trial.Hub)
	if t.kind.sites {
		spec.Switches = append(spec.Switches, far)
		for i := len(t.Nodes) / 2; i < len(t.Nodes); i++ {
			spec.Links[i].B = far
		}
		spec.Links = append(spec.Links, lab.Link{A: near, B: far, Rate: t.Rate / 2, Buffer: trial.Buffer})
	}
	return spec
}

// perClient is what the store gives all connections of one node together.
func (t *Trial) perClient() limit.Distribution {
	mean := unit.Bandwidth(t.kind.store) * lab.Payload(t.Rate)
	if t.even {
		return limit.Constant(mean)
	}
	return limit.Paper.Scaled(float64(mean / limit.Paper.Mean()))
}

// Dir is where a node's files are to stand; for node "{node}" as freshet takes it.
func (t *Trial) Dir(node string) string { return t.File(node, prefix) }

// Path is where a file is to stand.
func (t *Trial) Path(node, file string) string { return t.File(node, prefix+"/"+file) }

// switchOf is the switch that a node hangs on, by which its interface is called, and its site.
func (t *Trial) switchOf(node string) string {
	if t.kind.sites && slices.Index(t.Nodes, node) >= len(t.Nodes)/2 {
		return far
	}
	return near
}

// Size is that of the object, all its files together.
func (t *Trial) Size() unit.Bytes { return t.Each * unit.Bytes(len(t.Files)) }

// Fetch is a command that writes the object to standard output, one file after the other.
func (t *Trial) Fetch() string {
	var urls []string
	for _, f := range t.Files {
		urls = append(urls, t.Web(prefix+"/"+f))
	}
	return "curl -sSf " + strings.Join(urls, " ")
}

// Store is a command that writes a stream to a node's files, and marks it.
func (t *Trial) Store(node string) string {
	return fmt.Sprintf("{ split -d -a 2 -b %d - %s/part-; %s; }", t.Each, t.Dir(node), t.Through(node))
}

// Through are the last commands on a node: what every system ends with that
// does not sync its files itself.
func (t *Trial) Through(node string) string {
	return fmt.Sprintf("sync %s/*; : >%s", t.Dir(node), t.Mark(node))
}

// Start and Shell are the trial's, with the command in the report.
func (t *Trial) Start(host string, argv ...string) error {
	t.note(host, argv)
	return t.Trial.Start(host, argv...)
}

func (t *Trial) Shell(host, script string) error {
	t.note(host, []string{script})
	return t.Trial.Shell(host, script)
}

// note remembers a command for the report: of each kind those of two hosts.
func (t *Trial) note(host string, argv []string) {
	text := strings.NewReplacer(append(t.words, t.Root, "$DIR", t.Cluster.Exe(), "freshet")...).Replace(strings.Join(argv, " "))
	t.mu.Lock()
	defer t.mu.Unlock()
	if host == trial.Store || host == trial.Hub && len(t.commands) < 4 || slices.Index(t.Nodes, host) >= 0 && slices.Index(t.Nodes, host) < 2 {
		t.commands = append(t.commands, host+"$ "+text)
	}
}

// await returns when all nodes are through.
func (t *Trial) await(ctx context.Context) error {
	owed := map[string][]string{}
	for _, node := range t.Nodes {
		if t.System.Agents == nil {
			owed[node] = []string{t.Mark(node)}
			continue
		}
		for _, f := range t.Files {
			owed[node] = append(owed[node], t.Path(node, f))
		}
	}
	err := t.Await(ctx, func() bool {
		now := time.Since(t.began)
		for node, paths := range owed {
			for len(paths) > 0 {
				if _, err := os.Stat(paths[0]); err != nil {
					break
				}
				paths = paths[1:]
			}
			if owed[node] = paths; len(paths) == 0 {
				t.done[node] = now
				delete(owed, node)
			}
		}
		return len(owed) == 0
	})
	if err != nil && err == ctx.Err() {
		return fmt.Errorf("after %v these have not got it: %s: %w", time.Since(t.began).Round(time.Second), strings.Join(slices.Sorted(maps.Keys(owed)), ", "), err)
	}
	return err
}

// usage is what the kernel has counted at one moment.
type usage struct {
	system, store time.Duration
	crossed       unit.Bytes // over the link between the sites, towards the far one
}

func (t *Trial) usage() (u usage, err error) {
	used, err := t.CPU()
	if err != nil {
		return u, err
	}
	u.system, u.store = used[systemGroup], used[storeGroup]
	all, err := t.Lab.Traffic()
	for _, w := range all {
		if w.From == near && w.To == far {
			u.crossed = w.Bytes
		}
	}
	return u, err
}

// judge makes the run's numbers, and holds it against the bound of the rates
// that were set, not of what was reached.
func (t *Trial) judge(from, to usage, connections []cluster.Connection) (map[string]float64, error) {
	size, n := t.Size(), len(t.Nodes)
	link := lab.Payload(t.Rate)
	sent, byNode := unit.Bytes(0), map[string]unit.Bandwidth{}
	for _, c := range connections {
		host, _, err := net.SplitHostPort(c.Remote)
		if err != nil {
			return nil, fmt.Errorf("a connection of the store: %w", err)
		}
		for _, node := range t.Nodes {
			if t.Lab.Addr(node).String() == host {
				sent += c.Bytes
				byNode[node] = c.Client
			}
		}
	}
	var rates, others steal.Rates
	for i, node := range t.Nodes {
		own, store := link, byNode[node]
		slow := t.kind.slow && i == n-1
		if slow {
			own /= 4
		}
		switch {
		case t.kind.store == 0:
			store = own
		case store <= 0:
			return nil, fmt.Errorf("the store does not say what it had for node %s", node)
		}
		for _, r := range []*steal.Rates{&rates, &others} {
			if r == &others && slow {
				continue
			}
			r.Down, r.Up, r.Store = append(r.Down, own), append(r.Up, own), append(r.Store, min(own, store))
		}
	}
	if t.kind.sites {
		rates.Sites = []steal.Inbound{{Site: far, Rate: lab.Payload(t.Rate / 2)}}
	}
	bound, _ := steal.Bound(size, n, rates)
	var times []float64
	mean := func(times []float64) (m float64) {
		for _, v := range times {
			m += v / float64(len(times))
		}
		return m
	}
	for _, node := range t.Nodes {
		times = append(times, t.done[node].Seconds())
	}
	gb := float64(size) * float64(n) / 1e9
	makespan := slices.Max(times)
	numbers := map[string]float64{
		"makespan_s": makespan, "mean_s": mean(times), "fastest_s": slices.Min(times),
		"bound_s": bound, "ratio": makespan / bound,
		"store_multiple": float64(sent) / float64(size), // by the store's own count, headers included
		"cpu_per_gb":     (to.system - from.system).Seconds() / gb, "store_cpu_per_gb": (to.store - from.store).Seconds() / gb,
	}
	if t.made > 0 {
		numbers["make_s"], numbers["makespan_made_s"] = t.made.Seconds(), makespan+t.made.Seconds()
		numbers["ratio_made"] = (makespan + t.made.Seconds()) / bound
	}
	if t.kind.slow {
		without, _ := steal.Bound(size, n-1, others)
		numbers["mean_others_s"] = mean(times[:n-1])
		numbers["ratio_others"] = numbers["mean_others_s"] / without
	}
	if t.kind.sites {
		numbers["crossed_multiple"] = float64(lab.Payload(unit.Bandwidth(to.crossed-from.crossed))) / float64(size)
	}
	return numbers, nil
}

// experiment runs cells.
type experiment struct {
	systems  []System
	patience time.Duration // for one run
}

func (e *experiment) run(ctx context.Context, c *bench.Cell) (_ map[string]float64, err error) {
	i := slices.IndexFunc(e.systems, func(s System) bool { return s.Name == c.Algorithm })
	if i < 0 {
		return nil, fmt.Errorf("there is no system %q", c.Algorithm)
	}
	s := e.systems[i]
	whole, cancel := context.WithTimeout(ctx, e.patience+buildWithin)
	defer cancel()
	t, err := e.trial(whole, c, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	ctx, cancel = context.WithTimeout(whole, e.patience)
	defer cancel()
	if s.Version != nil {
		c.Note("version", s.Version(ctx))
	}
	c.Note("tuning", s.Tuning)
	if s.Prepare != nil {
		if err := s.Prepare(ctx, t); err != nil {
			return nil, fmt.Errorf("before the start: %w", err)
		}
	}
	if err := t.Ballast(); err != nil {
		return nil, err
	}
	from, err := t.usage()
	if err != nil {
		return nil, err
	}
	err = c.Measure(func() error {
		t.began = time.Now()
		if err := s.Run(ctx, t); err != nil {
			return err
		}
		return t.await(ctx)
	})
	c.Note("commands", strings.Join(t.commands, "\n"))
	if err != nil {
		return nil, err
	}
	to, err := t.usage()
	if err != nil {
		return nil, err
	}
	if err := t.Verify(); err != nil {
		return nil, err
	}
	// Who has not been there comes now, so that the store says what it had for him.
	for _, node := range t.Nodes {
		conn, err := t.Lab.Dial(whole, node, strings.TrimPrefix(t.Cluster.Endpoint(), "http://"))
		if err != nil {
			return nil, err
		}
		conn.Close()
	}
	if err := t.Groups[systemGroup].Kill(whole); err != nil {
		return nil, err
	}
	connections, err := t.Cluster.Reseed(whole, c.Seed)
	if err != nil {
		return nil, err
	}
	return t.judge(from, to, connections)
}
