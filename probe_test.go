package freshet_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/unit"
)

// TestProbe measures the links of a cluster and what its store gives, and holds a later job against that. Nothing is known
// before: there are no network cards behind the loopback interface.
func TestProbe(t *testing.T) {
	t.Parallel()
	const out, connection = 30 * unit.MBps, 2 * unit.MBps
	c := newNodes(t)
	for _, name := range []string{"n0", "n1", "n2"} {
		config := c.config(t, name)
		config.RateOut = out // so that the processor is not what is measured
		c.start(t, config)
	}
	c.connect(t)
	store := newBucket(t)
	data := random(90, 5<<20)
	store.put(t, "model", data)
	source := at(store.behind(t, front{after: slow(connection)}), "model")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	first := c.run(t, freshet.Spec{Source: source, Dest: c.dest("before", "model"), Algorithm: freshet.Steal, Nodes: []string{"n0"}})
	courses, err := c.client.Courses(ctx, first.ID)
	if err != nil {
		t.Fatal(err)
	}
	if k := courses["n0"].Carries; k.In.Known() || k.Store.Known() {
		t.Fatalf("before anything was measured: %+v", k)
	}

	p, err := c.client.Probe(ctx, nil, source)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Nodes) != 3 || p.Moved == 0 || p.Read == 0 {
		t.Fatalf("got %+v", p)
	}
	for _, n := range p.Nodes {
		if len(n.Errors) > 0 || n.In <= 0 || n.Out <= 0 || n.Store <= 0 {
			t.Errorf("got %+v", n)
		}
		const over = 1.25 // what a limiter lets through at once, in a second
		if n.Out > over*out || n.In > 2*over*out || n.Store > over*8*connection {
			t.Errorf("%s: more was measured than goes through: %+v", n.Name, n)
		}
	}

	job := c.run(t, freshet.Spec{Source: source, Dest: c.dest("after", "model")})
	arrived(t, job, data)
	if courses, err = c.client.Courses(ctx, job.ID); err != nil {
		t.Fatal(err)
	}
	for _, n := range p.Nodes {
		k := courses[n.Name].Carries
		if k.In.From != account.Probed || k.In.Rate < n.In || k.Out.From != account.Declared || k.Store.From != account.Probed || k.Store.Rate != n.Store {
			t.Errorf("%s: probed %+v, and a job reckons with %+v", n.Name, n, k)
		}
		if age := time.Since(k.In.At); age < -time.Minute || age > 10*time.Minute {
			t.Errorf("%s was probed at %v", n.Name, k.In.At)
		}
	}
	a := job.Account(courses)
	if b := a.Binding(); b == nil || !strings.Contains(b.Sources(), "probed 20") {
		t.Errorf("the bound does not say from where it is known: %+v", a)
	}

	store.put(t, "several/config", data[:100])
	store.put(t, "several/model", data)
	p, err = c.client.Probe(ctx, []string{"n1"}, at(store.Endpoint, "several/"))
	if err != nil || len(p.Nodes) != 1 || len(p.Nodes[0].Errors) != 0 || p.Nodes[0].Store <= 0 {
		t.Errorf("of a prefix: got %+v, %v", p, err)
	}
	p, err = c.client.Probe(ctx, []string{"n1"}, at(store.Endpoint, "missing"))
	if err != nil || len(p.Nodes) != 1 || len(p.Nodes[0].Errors) != 1 || p.Nodes[0].Store != 0 {
		t.Errorf("of an object that is not there: got %+v, %v", p, err)
	}
}
