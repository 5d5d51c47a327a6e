package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/internal/lab"
	"github.com/freshet/freshet/internal/lab/cluster"
	"github.com/freshet/freshet/objstore/limit"
	"github.com/freshet/freshet/steal"
	"github.com/freshet/freshet/unit"
)

const (
	storeHost, hubHost = "store", "hub"
	near, far          = "sw", "far" // switches; the second one where there are two sites
	buffer             = 512 * unit.KiB
	objectSeed         = 1
	prefix             = "model" // what all files of the object are below, in the store and on the nodes
	look               = 10 * time.Millisecond
	buildWithin        = 5 * time.Minute // network, cluster and object of a run, and their end
)

// Trial is one run of one system: a network, a store with the object and a
// directory for each node, all of them new and gone afterwards.
//
// A node is through when it has its mark: the file t.Mark(node), which the
// system's command on that node makes after the files are complete and synced;
// where freshet runs, the files themselves, which appear under their names when
// they are that. What the files hold is compared with the object afterwards.
type Trial struct {
	System System
	Nodes  []string // the first one does what only one does
	Files  []string // names, all of the same size
	Each   unit.Bytes
	Rate   unit.Bandwidth // of a node's link, on the wire

	kind   kind
	even   bool
	seed   uint64
	source string // the object as S3 URL
	dir    string
	lab    *lab.Lab
	all    *cluster.Cluster
	system *bench.Group // processes of the system, agents and control plane included
	store  *bench.Group

	mu       sync.Mutex // guards what follows
	commands []string
	logs     int
	running  sync.WaitGroup
	ended    chan error // of processes that ended badly

	closers []func() error // of what Prepare has up in this process
	words   []string       // paths, and the names that they have in the report

	began time.Time
	done  map[string]time.Duration
	made  time.Duration // what Prepare took that users have to wait for
}

// trial builds the network and the cluster for a cell.
func (e *experiment) trial(ctx context.Context, c *bench.Cell, s System) (_ *Trial, err error) {
	t := &Trial{System: s, Rate: unit.Mbit, seed: c.Seed, even: c.Params["rates"] == "even", ended: make(chan error, 256), done: map[string]time.Duration{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	if t.kind, err = kindOf(c.Params["cell"]); err != nil {
		return t, err
	}
	n, err := c.Params.Int("nodes")
	if err != nil {
		return t, err
	}
	mbit, err := c.Params.Float("mbit")
	if err != nil {
		return t, err
	}
	t.Rate *= unit.Bandwidth(mbit)
	mib, err := c.Params.Int("mib")
	if err != nil {
		return t, err
	}
	t.Each = unit.Bytes(mib) * unit.MiB / unit.Bytes(t.kind.files)
	for i := range t.kind.files {
		t.Files = append(t.Files, fmt.Sprintf("part-%02d", i))
	}
	for i := range n {
		t.Nodes = append(t.Nodes, fmt.Sprintf("n%02d", i+1))
	}

	if t.dir, err = os.MkdirTemp(bench.Memory, fmt.Sprintf("freshet-rivals-%d-", os.Getpid())); err != nil {
		return t, err
	}
	if err := os.Chmod(t.dir, 0o755); err != nil {
		return t, err
	}
	for _, node := range t.Nodes {
		if err := os.MkdirAll(t.Dir(node), 0o755); err != nil {
			return t, err
		}
	}
	if t.system, err = bench.NewGroup(filepath.Base(t.dir)); err != nil {
		return t, err
	}
	if t.store, err = bench.NewGroup(filepath.Base(t.dir) + "-store"); err != nil {
		return t, err
	}
	if t.lab, err = lab.Up(t.network()); err != nil {
		return t, err
	}
	config := cluster.Config{Lab: t.lab, Hub: hubHost, Store: storeHost, Dir: t.dir, Launch: t.launch, StoreArgs: []string{"--seed", strconv.FormatUint(t.seed, 10)}}
	if t.kind.store > 0 {
		config.StoreArgs = append(config.StoreArgs, "--rate-per-client", t.perClient().String())
	}
	if s.Agents != nil {
		config.Nodes, config.AgentArgs = t.Nodes, s.Agents
		config.AgentArgsOf = map[string][]string{}
		for _, node := range t.Nodes {
			if t.kind.sites {
				config.AgentArgsOf[node] = []string{"--site", t.Interface(node)}
			}
		}
	}
	if t.all, err = cluster.Start(ctx, config); err != nil {
		return t, err
	}
	for i, f := range t.Files {
		url, err := t.all.Put(prefix+"/"+f, t.Each, objectSeed+uint64(i))
		if err != nil {
			return t, err
		}
		t.source = strings.TrimSuffix(url, "/"+f)
	}
	return t, t.all.OpenToAll(ctx)
}

// network is the spec of the lab.
func (t *Trial) network() lab.Spec {
	link := lab.Link{Rate: t.Rate, Buffer: buffer}
	spec := lab.Star(t.Nodes, link)
	if t.kind.slow {
		spec.Links[len(spec.Links)-1].Rate /= 4
	}
	spec.Attach(near, storeHost, hubHost)
	if t.kind.sites {
		spec.Switches = append(spec.Switches, far)
		for i := len(t.Nodes) / 2; i < len(t.Nodes); i++ {
			spec.Links[i].B = far
		}
		spec.Links = append(spec.Links, lab.Link{A: near, B: far, Rate: t.Rate / 2, Buffer: buffer})
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

// launch starts a process in a host, in the group of what it belongs to.
func (t *Trial) launch(host string, cmd *exec.Cmd) error {
	g := t.system
	if host == storeHost {
		g = t.store
	}
	g.Adopt(cmd)
	return t.lab.Start(host, cmd)
}

// Dir is where a node's files are to stand; for node "{node}" as freshet takes it.
func (t *Trial) Dir(node string) string { return filepath.Join(t.dir, node, "data", prefix) }

// Path is where a file is to stand.
func (t *Trial) Path(node, file string) string { return filepath.Join(t.Dir(node), file) }

// Mark is what a node makes when it is through.
func (t *Trial) Mark(node string) string { return filepath.Join(t.dir, node, "done") }

// Interface is the name of a node's network interface.
func (t *Trial) Interface(node string) string {
	if t.kind.sites && slices.Index(t.Nodes, node) >= len(t.Nodes)/2 {
		return far
	}
	return near
}

// Size is that of the object, all its files together.
func (t *Trial) Size() unit.Bytes { return t.Each * unit.Bytes(len(t.Files)) }

// Base is the URL below which the object's files can be had without a key.
func (t *Trial) Base() string { return t.all.Endpoint() + "/b/" }

// Fetch is a command that writes the object to standard output, one file after the other.
func (t *Trial) Fetch() string {
	var urls []string
	for _, f := range t.Files {
		urls = append(urls, t.Base()+prefix+"/"+f)
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

// Start starts a program in a host, in a directory of the trial. That it ends
// with another status than 0 before all nodes are through is a failure.
func (t *Trial) Start(host string, argv ...string) error {
	t.note(host, argv)
	return t.start(host, argv)
}

// Shell starts a script of bash in a host. It ends with the first command that fails.
func (t *Trial) Shell(host, script string) error {
	t.note(host, []string{script})
	return t.start(host, []string{"bash", "-euo", "pipefail", "-c", script})
}

func (t *Trial) start(host string, argv []string) error {
	ended, err := t.process(host, argv)
	if err != nil {
		return err
	}
	t.running.Go(func() { // close kills all, and waits
		if err := <-ended; err != nil {
			select {
			case t.ended <- err:
			default: // so many have failed that one more says nothing
			}
		}
	})
	return nil
}

// wait runs a program in a host to its end.
func (t *Trial) wait(ctx context.Context, host string, argv []string) error {
	t.note(host, argv)
	ended, err := t.process(host, argv)
	if err != nil {
		return err
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s: %s has not ended: %w", host, argv[0], ctx.Err())
	}
}

// process starts a program; how it ended comes through the channel.
func (t *Trial) process(host string, argv []string) (<-chan error, error) {
	path, err := bench.Program(argv[0])
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	t.logs++
	name := filepath.Join(t.dir, "log", fmt.Sprintf("%s-%d", host, t.logs))
	t.mu.Unlock()
	log, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(path, argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = t.dir, t.env(), log, log
	if err := t.launch(host, cmd); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	t.running.Go(func() { // close kills all, and waits
		err := cmd.Wait()
		if err != nil {
			err = fmt.Errorf("%s: %s: %w: %s", host, filepath.Base(path), err, saying(name))
		}
		ended <- err
	})
	return ended, nil
}

// env is what a program finds: Debian's programs, the store's address and keys.
func (t *Trial) env() (env []string) {
	for _, v := range t.all.Env() {
		if !strings.HasPrefix(v, "PATH=") {
			env = append(env, v)
		}
	}
	return append(env, "PATH="+bench.Home, "TMPDIR="+t.dir, "LANG=C.UTF-8")
}

// saying is the beginning and the end of what a process said.
func saying(log string) string {
	b, _ := os.ReadFile(log)
	b = bytes.TrimSpace(b)
	const most = 400
	if len(b) <= 2*most {
		return string(b)
	}
	return string(b[:most]) + " … " + string(b[len(b)-most:])
}

// note remembers a command for the report: of each kind those of two hosts.
func (t *Trial) note(host string, argv []string) {
	text := strings.NewReplacer(append(t.words, t.dir, "$DIR", t.all.Exe(), "freshet")...).Replace(strings.Join(argv, " "))
	t.mu.Lock()
	defer t.mu.Unlock()
	if host == storeHost || host == hubHost && len(t.commands) < 4 || slices.Index(t.Nodes, host) >= 0 && slices.Index(t.Nodes, host) < 2 {
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
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
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
		if len(owed) == 0 {
			return nil
		}
		select {
		case err := <-t.ended:
			return err
		case <-ctx.Done():
			return fmt.Errorf("after %v these have not got it: %s: %w", time.Since(t.began).Round(time.Second), strings.Join(slices.Sorted(maps.Keys(owed)), ", "), ctx.Err())
		case <-tick.C:
		}
	}
}

// verify compares every node's files with the object.
func (t *Trial) verify() error {
	var want []string
	for i := range t.Files {
		sum, err := cluster.Digest(cluster.Bytes(t.Each, objectSeed+uint64(i)))
		if err != nil {
			return err
		}
		want = append(want, sum)
	}
	for _, node := range t.Nodes {
		for i, name := range t.Files {
			f, err := os.Open(t.Path(node, name))
			if err != nil {
				return fmt.Errorf("node %s said that it was through: %w", node, err)
			}
			sum, err := cluster.Digest(f)
			f.Close()
			if err != nil {
				return err
			}
			if sum != want[i] {
				return fmt.Errorf("node %s said that it was through, and its %s is not what the store has: SHA-256 %.16s…, want %.16s…", node, name, sum, want[i])
			}
		}
	}
	return nil
}

// usage is what the kernel has counted at one moment.
type usage struct {
	system, store time.Duration
	crossed       unit.Bytes // over the link between the sites, towards the far one
}

func (t *Trial) usage() (u usage, err error) {
	if u.system, err = t.system.CPU(); err != nil {
		return u, err
	}
	if u.store, err = t.store.CPU(); err != nil {
		return u, err
	}
	all, err := t.lab.Traffic()
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
			if t.lab.Addr(node).String() == host {
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
		numbers["crossed_multiple"] = float64(to.crossed-from.crossed) * 1448 / 1514 / float64(size)
	}
	return numbers, nil
}

// close ends all that the trial started, and removes what it made.
func (t *Trial) close() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if t.system != nil {
		err = t.system.Kill(ctx)
	}
	if t.all != nil {
		err = errors.Join(err, t.all.Close())
	}
	if t.store != nil {
		err = errors.Join(err, t.store.Kill(ctx))
	}
	for _, end := range t.closers {
		err = errors.Join(err, end())
	}
	t.running.Wait()
	if t.lab != nil {
		err = errors.Join(err, t.lab.Close())
	}
	for _, g := range []*bench.Group{t.system, t.store} {
		if g != nil {
			err = errors.Join(err, g.Remove())
		}
	}
	if t.dir != "" {
		err = errors.Join(err, os.RemoveAll(t.dir))
	}
	return err
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
	defer func() { err = errors.Join(err, t.close()) }()
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
	ballast, err := bench.NewBallast(t.Size() * unit.Bytes(len(t.Nodes)))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ballast.Close()) }()
	if own(s.Name) { // its files have their blocks before their bytes come
		if err := ballast.Release(); err != nil {
			return nil, err
		}
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
	if err := t.verify(); err != nil {
		return nil, err
	}
	// Who has not been there comes now, so that the store says what it had for him.
	for _, node := range t.Nodes {
		conn, err := t.lab.Dial(whole, node, strings.TrimPrefix(t.all.Endpoint(), "http://"))
		if err != nil {
			return nil, err
		}
		conn.Close()
	}
	if err := t.system.Kill(whole); err != nil {
		return nil, err
	}
	connections, err := t.all.Reseed(whole, c.Seed)
	if err != nil {
		return nil, err
	}
	return t.judge(from, to, connections)
}
