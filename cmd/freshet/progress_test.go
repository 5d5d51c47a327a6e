package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/unit"
)

// fleet is a job of 100 MiB on nodes in these states; the i-th has i MiB.
func fleet(states ...freshet.State) freshet.Job {
	j := freshet.Job{ID: "05hgpfg8r491", State: freshet.Running, Accepted: time.Now(), Object: objstore.Object{Size: 100 * unit.MiB},
		Spec: freshet.Spec{Source: "s3://b/o", Dest: "/data/o", Algorithm: freshet.Steal}}
	for i, s := range states {
		j.Nodes = append(j.Nodes, freshet.NodeStatus{Name: string(rune('a' + i)), State: s, Have: unit.Bytes(i) * unit.MiB, Phase: 1})
	}
	return j
}

func TestHeading(t *testing.T) {
	for source, want := range map[string]string{
		"s3://b/models/o": "o", "https://a.example/set.tar?v=1/2": "set.tar", "file:///data/what?": "what?", "s3://b/model/": "model",
		"s3://b/o?endpoint=http://10.0.0.9:9000&region=x": "o",
	} {
		j := fleet(freshet.Running)
		j.Spec.Source = source
		if got := heading(j); !strings.HasPrefix(got, "job 05hgpfg8r491: "+want+", 100 MiB") {
			t.Errorf("of %s: %q", source, got)
		}
	}
}

func TestChosenNodes(t *testing.T) {
	const d, r, f, p = freshet.Done, freshet.Running, freshet.Failed, freshet.Present
	for _, c := range []struct {
		states []freshet.State
		room   int
		want   []int
	}{
		{[]freshet.State{d, r, f}, 3, []int{0, 1, 2}},    // room for all: their own order
		{[]freshet.State{d, r, f}, 0, []int{0, 1, 2}},    // not known yet
		{[]freshet.State{d, r, f, r}, 3, []int{2, 1, 3}}, // failed, then the slowest
		{[]freshet.State{p, d, r}, 2, []int{2, 0}},
	} {
		if got := chosen(fleet(c.states...), c.room); !slices.Equal(got, c.want) {
			t.Errorf("%v in %d lines: got %v, want %v", c.states, c.room, got, c.want)
		}
	}
}

func TestLinesFitTheTerminal(t *testing.T) {
	v := newView(&bytes.Buffer{})
	j := fleet(freshet.Running, freshet.Done, freshet.Failed, freshet.Present, freshet.Preparing)
	j.Nodes[2].Error = strings.Repeat("a long story ", 20)
	j.Nodes[4].Name = strings.Repeat("n", 63)
	v.note(j)
	for width := range 200 {
		for i := range j.Nodes {
			if n := utf8.RuneCountInString(fit(v.node(i, width), width-1)); n >= width && n > 0 {
				t.Errorf("node %d in %d columns takes %d", i, width, n)
			}
		}
	}
	for _, part := range []string{"  store   0%", "reads from the store"} {
		if got := v.node(0, 120); !strings.Contains(got, part) {
			t.Errorf("120 columns: got %q, want %q in it", got, part)
		}
	}
	if got := v.node(0, 60); strings.Contains(got, "reads") {
		t.Errorf("60 columns: %q is to leave the least important out", got)
	}
}

func TestMeter(t *testing.T) {
	var m meter
	t0 := time.Now()
	if got := m.rate(t0); got != 0 {
		t.Errorf("before anything: %v", got)
	}
	for i := range 50 {
		m.note(t0.Add(time.Duration(i)*250*time.Millisecond), unit.Bytes(i)*unit.MiB)
	}
	last := t0.Add(49 * 250 * time.Millisecond)
	if got, want := m.rate(last), unit.Bandwidth(4*unit.MiB); got < 0.99*want || got > 1.01*want {
		t.Errorf("steady: got %v, want %v", got, want)
	}
	if got := m.rate(last.Add(time.Minute)); got > unit.Bandwidth(unit.MiB) {
		t.Errorf("a minute without news: %v, want it to sink", got)
	}
}

func TestSlowStoreIsNamed(t *testing.T) {
	j := fleet(freshet.Running, freshet.Running, freshet.Running)
	for i := range j.Nodes {
		j.Nodes[i].StoreBytes, j.Nodes[i].StoreS = 4e6, 1
	}
	j.Nodes[0].StoreS = 100
	const want = "its connection to the store gives 40 kB/s"
	if got := slowest(j); !strings.Contains(got, want) {
		t.Errorf("meanwhile it is said: %q", got)
	}
	var b bytes.Buffer
	if (outcome{job: j, err: &b}).complain(); !strings.Contains(b.String(), "node a: "+want) {
		t.Errorf("of a job that failed it is said: %q", b.String())
	}
	b.Reset()
	j.State = freshet.Done
	r := newRun(j, nil)
	if (outcome{job: j, out: &b}).sum(r); strings.Count(b.String(), want) != 1 || !strings.Contains(b.String(), "node a: "+want) {
		t.Errorf("of a job that is done it is said: %q", b.String())
	}
	if !strings.Contains(r.Nodes[0].StoreSlow, want) || r.Nodes[1].StoreSlow != "" {
		t.Errorf("as JSON: %+v", r.Nodes)
	}
}

func TestLinesSayEachThingOnce(t *testing.T) {
	var b bytes.Buffer
	l := newLines(&b)
	j := fleet(freshet.Running, freshet.Running)
	l.update(j)
	j.Nodes[0].Faults = []freshet.Fault{{Node: "b", Cause: "sent a wrong piece"}}
	l.update(j)
	j.Nodes[1].State, j.Nodes[1].Error = freshet.Failed, "disk full"
	l.update(j)
	l.update(j)
	l.end() // nothing is written from here on
	for _, want := range []string{"job 05hgpfg8r491: o, 100 MiB, to 2 nodes as /data/o (steal)", "it begins", "a: fault of b: sent a wrong piece", "b: failed: disk full"} {
		if n := strings.Count(b.String(), want); n != 1 {
			t.Errorf("%q is said %d times, want once, in\n%s", want, n, b.String())
		}
	}
}

// Where nothing is heard of any more, it is told how far all is and what nodes wait for.
func TestLinesGoOnWithoutNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := newLines(&b)
		j := fleet(freshet.Running, freshet.Running, freshet.Running)
		for i := range j.Nodes {
			j.Nodes[i].Waiting = "the store: connection refused"
		}
		l.update(j)
		time.Sleep(16 * time.Second)
		l.end()
		time.Sleep(time.Minute)
		if got, want := strings.Count(b.String(), "; 3 nodes (a, b, c) wait for the store: connection refused\n"), 3; got != want {
			t.Errorf("got %d lines in 16 s, want %d, in\n%s", got, want, b.String())
		}
	})
}

func TestEqualCausesAreToldOnce(t *testing.T) {
	var b bytes.Buffer
	f, d := freshet.Failed, freshet.Done
	j := fleet(f, f, d, f, f, f, f)
	j.State, j.Error = f, "a: no room; and 5 more nodes"
	for i := range j.Nodes {
		j.Nodes[i].Error = "no room"
	}
	j.Nodes[6].Error = "down: last heard of 9s ago"
	if err := (outcome{job: j, err: &b}).complain(); err == nil {
		t.Error("got no error")
	}
	want := `freshet: 5 nodes (a, b, d, e and 1 more): no room
freshet: node g: down: last heard of 9s ago
freshet: a node that does not come back: "freshet nodes remove g" forgets it; --nodes leaves it out
freshet: job 05hgpfg8r491 failed; 1 of 7 nodes have the object.`
	if got := b.String(); !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 4 {
		t.Errorf("got\n%s\nwant\n%s…", got, want)
	}
}

func TestRunOfAJob(t *testing.T) {
	j := fleet(freshet.Done, freshet.Present, freshet.Done)
	j.State = freshet.Done
	j.Nodes[0].DoneS, j.Nodes[0].Verified = 2, "source"
	j.Nodes[2].DoneS, j.Nodes[2].Verified = 4, "peers"
	r := newRun(j, map[string]freshet.Course{"a": {CPUS: 0.1, Carries: freshet.Capacities{In: freshet.Capacity{Rate: unit.Bandwidth(50 * unit.MiB), From: "nic"}}}})
	if r.MakespanS != 4 || r.FastestS != 2 || r.SlowestS != 4 || r.Ratio == nil || *r.Ratio != 2 || r.Verified != "peers" || r.meanS() != 3 {
		t.Errorf("got %+v", r)
	}
	if d := r.Nodes[1].DoneS; d == nil || *d != 0 || r.Nodes[1].Verified != "present" {
		t.Errorf("a node that had it: %+v", r.Nodes[1])
	}
	j.State, j.Nodes[2].State = freshet.Failed, freshet.Failed
	r = newRun(j, nil)
	if r.Verified != "" || r.Ratio != nil || r.Nodes[2].DoneS != nil || r.MakespanS != 2 {
		t.Errorf("failed: got %+v", r)
	}
	if _, err := json.Marshal(result{Runs: []run{newRun(freshet.Job{}, nil)}}); err != nil {
		t.Error(err)
	}
}

func TestAccountForPeople(t *testing.T) {
	declared := func(r unit.Bytes) freshet.Capacity {
		return freshet.Capacity{Rate: unit.Bandwidth(r), From: "declared"}
	}
	all := freshet.Course{Seconds: 10, CPUS: 0.2, Carries: freshet.Capacities{In: declared(50 * unit.MiB), Out: declared(50 * unit.MiB), Store: declared(5 * unit.MiB)}}
	all.Spent = account.Times{account.FromBoth: 7, account.FromPeers: 1, account.ForDisk: 0.5}
	all.Step, all.Store, all.Peers, all.Sent, all.DoStep, all.Do = 5, []int64{30, 5}, []int64{1, 64}, []int64{0, 9}, 2.5, "-bbD"
	partly := all
	partly.Carries.Store, partly.Carries.In.From = freshet.Capacity{}, "seen"
	for _, c := range []struct {
		name    string
		courses map[string]freshet.Course
		want    string
		json    []string
	}{
		{"nothing is known", nil, "  lower bound     unknown: nobody knows what the links of a, b carry: measure them (freshet probe), or declare them (--declare in=RATE of up and agent)\n",
			[]string{`"bound_s":null`, `"bound_unknown":"nobody knows what the links of a, b carry`, `"ratio":null`, `"seconds":null,"rate":null,"from":[],"used":null,"missing":2,"unknown":"nobody`,
				`"course":null`, `"cpu_s_per_gb":null`, `"held_up_by":{"what":"",`, `"sites":[]`}},
		{"all is known", map[string]freshet.Course{"a": all, "b": all}, `  lower bound     10.00 s by the store, 10.49 MB/s (declared); this took 1.00 times as long
  held up by      the store: the store sets the bound, and it took no more than 1.00 times that
  processor time  1.91 s for each GB that a node got
`, []string{`"bound_s":10,`, `"bound_by":"store"`, `"held_up_by":{"what":"store","why":"the store sets`, `"in":{"rate":52428800,"from":"declared"}`, `"stragglers":[]`,
			`"moved_s":{"both":7,"peers":1,"store":0},"waited_s":{"barrier":0,"disk":0.5,"peers":0,"store":0}`,
			`"line":{"step_s":5,"store":[30,5],"peers":[1,64],"sent":[0,9],"do_step_s":2.5,"do":"-bbD"}`}},
		{"in part", map[string]freshet.Course{"a": partly, "b": partly}, `  lower bound     2.00 s by the links into the nodes, 52.43 MB/s (seen in another job); this took 5.00 times as long
  not known       the store, what the store and all nodes can send: the bound may be higher (freshet probe, or --declare, would tell)
  held up by      the store: the store was read from or waited for during 70 % of the time
  processor time  1.91 s for each GB that a node got
`, []string{`"bound_s":2,`, `"store":null`, `{"by":"downlink","seconds":2,"rate":52428800,"from":["seen"],"used":`}},
	} {
		j := fleet(freshet.Done, freshet.Done)
		j.State = freshet.Done
		for i := range j.Nodes {
			j.Nodes[i].DoneS = 10
		}
		r := newRun(j, c.courses)
		var b bytes.Buffer
		if tellAccount(&b, r); b.String() != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, b.String(), c.want)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.json {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: no %s in %s", c.name, want, text)
			}
		}
	}
	j := fleet(freshet.Present)
	j.State = freshet.Done
	if r := newRun(j, nil); r.BoundS != nil || r.HeldUpBy != nil {
		t.Errorf("all present: got %+v", r)
	}
}

// What is declared of the link into the site that the store is in is not believed, and it is said what to do.
func TestLinkIntoTheSiteOfTheStore(t *testing.T) {
	j := fleet(freshet.Done, freshet.Done)
	j.State, j.Spec.Declared = freshet.Done, map[string]unit.Bandwidth{"site.east": 1e6}
	for i, site := range []string{"east", "west"} {
		j.Nodes[i].DoneS = 10
		j.Members = append(j.Members, control.Member{Name: j.Nodes[i].Name, Site: site})
	}
	r := newRun(j, nil)
	var b bytes.Buffer
	if tellAccount(&b, r); !strings.Contains(b.String(), "  lower bound     unknown: ") || !strings.Contains(b.String(), "kB/s into site east cannot be what the object came over") {
		t.Errorf("got\n%s", b.String())
	}
	if p := r.BoundParts[3]; p.Name != "east" || p.Seconds != nil || p.Rate == nil || !strings.Contains(p.Unknown, "leave it out of --declare") || r.BoundS != nil {
		t.Errorf("as JSON: %+v", p)
	}
}

func TestDeclareFlag(t *testing.T) {
	got, err := declared(map[string]string{"in": "1Gbit", "store": "5MB/s"}, "in", "out", "store")
	if err != nil || got["in"] != 125e6 || got["store"] != 5e6 || len(got) != 2 {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := declared(map[string]string{"site.east": "1Gbit"}, "store", "site.NAME"); err != nil || got["site.east"] != 125e6 {
		t.Errorf("of a site: got %v, %v", got, err)
	}
	for what, rate := range map[string]string{"site.": "1Gbit", "site.x": "1Gbit", "in": "5", "moon": "1Gbit", "out": "0"} {
		if _, err := declared(map[string]string{what: rate}, "in", "out", "store"); err == nil {
			t.Errorf("--declare %s=%s: got no error", what, rate)
		}
	}
}
