package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/unit"
)

// Whatever sites nodes are in, in some step each has partners enough to fill its link, each way, nobody sends
// and receives at once, and who is not alone at a site stays inside it.
func TestProbeSteps(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		sites, at := map[string]string{}, map[string]int{}
		for i := range 2 + rnd.IntN(30) {
			site := fmt.Sprint("s", rnd.IntN(4))
			sites[fmt.Sprintf("n%02d", i)] = site
			at[site]++
		}
		steps := probeSteps(sites)
		if len(steps) > 6 || len(steps) == 0 {
			t.Fatalf("seed %d: %d steps", seed, len(steps))
		}
		in, out := map[string]float64{}, map[string]float64{} // of a link as fast as all others, at best
		for _, flows := range steps {
			sends, gets := map[string]int{}, map[string]int{}
			for _, f := range flows {
				sends[f.from]++
				gets[f.to]++
				if sites[f.from] != sites[f.to] && at[sites[f.from]] > 1 && at[sites[f.to]] > 1 {
					t.Fatalf("seed %d: %s sends to %s, of another site", seed, f.from, f.to)
				}
			}
			nowIn, nowOut := map[string]float64{}, map[string]float64{}
			for i, f := range flows {
				if gets[f.from] > 0 || sends[f.from] > probeFan || slices.Index(flows, f) != i {
					t.Fatalf("seed %d: %s has too much to do: %v", seed, f.from, flows)
				}
				nowIn[f.to] += 1 / float64(sends[f.from])
				nowOut[f.from] += 1 / float64(gets[f.to])
			}
			for name := range sites {
				in[name], out[name] = max(in[name], nowIn[name]), max(out[name], nowOut[name])
			}
		}
		for name := range sites {
			if in[name] < 1-1e-9 || out[name] < 1-1e-9 {
				t.Errorf("seed %d: of %s's link at most %.2f is used by what comes in, %.2f by what goes out", seed, name, in[name], out[name])
			}
		}
	}
	if got := probeSteps(map[string]string{"a": "x"}); got != nil {
		t.Errorf("of one node: got %v", got)
	}
	if got := probeSteps(map[string]string{"a": "x", "b": ""}); len(got) != 2 || got[0][0] != (probeFlow{"b", "a"}) || got[1][0] != (probeFlow{"a", "b"}) {
		t.Errorf("of two: got %v", got)
	}
}

// A probe asks the nodes that are up, adds up what they say, and believes nothing that cannot be.
func TestProbe(t *testing.T) {
	noLeaks(t)
	h := startHub(t, Config{State: t.TempDir()}, "127.0.0.1:0")
	agents := threeNodes(t, h)
	steps := make(chan ProbeStep, 100)
	for i, a := range agents {
		a.probe = func(_ context.Context, s ProbeStep) (NodeProbe, error) {
			steps <- s
			switch {
			case i == 2:
				return NodeProbe{In: 1e300, Out: 9, Store: 1e-300, Received: -7, Error: "\x1b]0;mine\a" + strings.Repeat("x", 10_000)}, nil
			case s.Source != "":
				return NodeProbe{In: 10, Store: 4, Read: 6}, nil
			}
			return NodeProbe{In: unit.Bandwidth(10 - s.Step), Out: 3, Received: 100}, nil
		}
	}
	c, ctx := h.client(t, ClientOptions{}), testContext(t)
	p, err := c.Probe(ctx, nil, "s3://bucket/key")
	if err != nil {
		t.Fatal(err)
	}
	if n := p.Nodes; len(n) != 3 || n[0].Name != "n1" || n[0].In != 10 || n[0].Out != 3 || n[0].Store != 4 || n[0].Errors != nil || p.Moved != 1200 || p.Read != 12 {
		t.Errorf("got %+v", p)
	}
	if n := p.Nodes[2]; n.In != 0 || n.Out != 9 || n.Store != 0 || len(n.Errors) != 1 || len(n.Errors[0]) > 2000 || strings.ContainsAny(n.Errors[0], "\x1b\a") {
		t.Errorf("of who says what cannot be: got %+v", n)
	}
	for _, tt := range []struct{ said, want NodeProbe }{
		{NodeProbe{In: -1, Out: 0.5, Store: 1e16, Received: math.MaxInt64, Read: -1}, NodeProbe{Received: 1 << 50}},
		{NodeProbe{In: 1, Out: 1e15, Store: 1e9, Received: 7, Read: 1e15}, NodeProbe{In: 1, Out: 1e15, Store: 1e9, Received: 7, Read: 1e15}},
	} {
		got := tt.said
		if got.bound(); got != tt.want {
			t.Errorf("of %+v there is left %+v, want %+v", tt.said, got, tt.want)
		}
	}
	close(steps)
	var ids []string
	read := 0
	for s := range steps {
		ids = append(ids, s.Probe)
		if s.Source != "" {
			read++
		}
		if (len(s.From) == 0) == (len(s.To) == 0) != (s.Source != "") {
			t.Errorf("a node was told %+v", s)
		}
		for _, m := range s.To {
			if m.Addr == "" {
				t.Errorf("%s is nowhere", m.Name)
			}
		}
	}
	if len(ids) != 7*3 || read != 3 || len(slices.Compact(ids)) != 1 {
		t.Errorf("%d parts of steps, %d of them of the store, in probes %v", len(ids), read, slices.Compact(ids))
	}
}

// Jobs go first: none is probed beside, and one that comes ends the probe of its nodes.
func TestJobsGoBeforeProbes(t *testing.T) {
	noLeaks(t)
	h := startHub(t, Config{State: t.TempDir()}, "127.0.0.1:0")
	agents := threeNodes(t, h)
	c, ctx := h.client(t, ClientOptions{}), testContext(t)
	spec := aSpec
	spec.Nodes = []string{"n3"}
	job, err := c.Submit(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	agents[2].awaitBegun(t, job.ID)
	if _, err := c.Probe(ctx, nil, ""); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "job "+job.ID+" is running on n3") {
		t.Errorf("while a job runs: got %v", err)
	}
	begun := make(chan bool, 100)
	for _, a := range agents {
		a.probe = func(ctx context.Context, _ ProbeStep) (NodeProbe, error) {
			begun <- true
			<-ctx.Done()
			return NodeProbe{In: 5}, nil
		}
	}
	body, err := json.Marshal(ProbeStep{Probe: newID(job.Accepted)})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.ask(ctx, "n3", "probe", body, stepWithin, nil); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), job.ID) {
		t.Errorf("the node itself, while a job runs: got %v", err)
	}
	probed := make(chan Probe, 1)
	failed := make(chan error, 2)
	go func() { // ends with the call, which is waited for
		p, err := c.Probe(ctx, []string{"n1", "n2"}, "")
		failed <- err
		probed <- p
	}()
	<-begun
	<-begun
	if _, err := c.Probe(ctx, []string{"n1", "n2"}, ""); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "another probe") {
		t.Errorf("two at once: got %v", err)
	}
	spec.Nodes = []string{"n1", "n2"}
	spec.Dest += "2"
	next, err := c.Submit(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range agents[:2] {
		a.awaitBegun(t, next.ID)
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	for _, n := range (<-probed).Nodes {
		if n.In != 0 || !slices.ContainsFunc(n.Errors, func(e string) bool { return strings.Contains(e, "goes first") }) {
			t.Errorf("a job came, and %+v", n)
		}
	}
	for _, a := range agents {
		a.finish <- done
	}
	for _, err := range c.Watch(ctx, next.ID) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for sel, want := range map[string]error{"nobody": ErrNoSuchNode, "n1": ErrDown} {
		if _, err := c.Probe(ctx, []string{sel}, ""); !errors.Is(err, want) {
			t.Errorf("of %v: got %v, want %v", sel, err, want)
		}
	}
	if _, err := c.Probe(ctx, nil, "moon://x"); !errors.Is(err, ErrInvalid) {
		t.Errorf("of a store that there is not: got %v", err)
	}
}
