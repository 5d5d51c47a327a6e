package control

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/unit"
)

// How a job went is there once it has ended, and after the hub has been away.
func TestCoursesOutliveTheJob(t *testing.T) {
	noLeaks(t)
	config := Config{State: t.TempDir()}
	h := startHub(t, config, "127.0.0.1:0")
	agents := threeNodes(t, h)
	course := account.Course{Step: 0.25, Store: []int64{600, 0}, Peers: []int64{100, 300}, Sent: []int64{0, 5}, Seconds: 0.5, CPUS: 0.1,
		Carries: account.Capacities{In: account.Capacity{Rate: 2000, From: account.NIC}}}
	agents[0].course = course
	agents[1].course = account.Course{Step: 1, Store: make([]int64, 1000), Peers: make([]int64, 1000), Sent: make([]int64, 1000), Seconds: 3} // more than there is room for
	c := h.client(t, ClientOptions{})
	ctx := testContext(t)
	job := runs(t, c, agents...)
	if got, err := c.Courses(ctx, job.ID); err != nil || got != nil {
		t.Errorf("while the job runs: got %v, %v", got, err)
	}
	for _, a := range agents {
		a.finish <- done
	}
	watched(t, c, job.ID)
	want := map[string]account.Course{"n1": course, "n2": {Seconds: 3}, "n3": {}}
	if got, err := c.Courses(ctx, job.ID[:8]); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := c.Courses(ctx, "zzz"); !errors.Is(err, ErrNoSuchJob) {
		t.Errorf("of no job: got %v", err)
	}
	h.stop()
	h = startHub(t, config, h.addr)
	if got, err := h.client(t, ClientOptions{}).Courses(ctx, job.ID); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("after a restart: got %+v, %v, want %+v", got, err, want)
	}
}

// slow is a bucket that writes when it is let.
type slow struct {
	jetstream.KeyValue
	writes, let chan struct{}
}

func (s slow) Create(ctx context.Context, key string, value []byte, opts ...jetstream.KVCreateOpt) (uint64, error) {
	s.writes <- struct{}{}
	<-s.let
	return s.KeyValue.Create(ctx, key, value, opts...)
}

// While it is written how a job went, nodes are heard, also of that job.
func TestNodesAreHeardWhileCoursesAreWritten(t *testing.T) {
	h := newHub(t)
	d, m := started(t, h, 1)
	b := slow{h.store.courses, make(chan struct{}), make(chan struct{})}
	h.store.courses = b
	h.mu.Lock()
	h.active[m.job.ID] = d
	h.mu.Unlock()
	d.noteCourse("m0", account.Course{Seconds: 3})
	d.offer(status("m0", Done))
	var wg sync.WaitGroup
	ctx := testContext(t)
	wg.Go(func() { h.drive(ctx, d, m, false) })
	<-b.writes
	heard := make(chan struct{})
	wg.Go(func() {
		h.beaten("m0", beat{report: report{Jobs: []jobStatus{{Job: m.job.ID, Status: NodeStatus{State: Done}, Course: &account.Course{Seconds: 3}}}}}, nil)
		close(heard)
	})
	select {
	case <-heard:
	case <-time.After(20 * time.Second):
		t.Error("a node is not heard while it is written how a job went")
	}
	close(b.let)
	wg.Wait()
}

// Where all do not fit a message they become coarser, and their totals stay.
func TestCoursesArePacked(t *testing.T) {
	courses := map[string]account.Course{}
	for _, name := range []string{"a", "b", "c"} {
		c := account.Course{Step: 0.25, Seconds: 30}
		for i := range int64(120) {
			c.Store, c.Peers, c.Sent = append(c.Store, i*i*7919), append(c.Peers, i*104729), append(c.Sent, i*i*i)
		}
		courses[name] = c
	}
	all, err := packCourses(courses, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := unpackCourses(all); err != nil || !reflect.DeepEqual(got, courses) {
		t.Errorf("with room for all: got %v, %v", got, err)
	}
	limit := len(all)/2 + 1024
	packed, err := packCourses(courses, limit)
	if err != nil || len(packed) >= limit {
		t.Fatalf("got %d bytes, %v, want less than %d", len(packed), err, limit)
	}
	got, err := unpackCourses(packed)
	if err != nil {
		t.Fatal(err)
	}
	sum := func(line []int64) (s int64) {
		for _, v := range line {
			s += v
		}
		return s
	}
	if a := got["a"]; len(a.Store) >= 120 || a.Step <= 0.25 || a.Seconds != 30 || sum(a.Store) != sum(courses["a"].Store) {
		t.Errorf("got %+v", a)
	}
	if _, err := packCourses(courses, 1100); err == nil || !strings.Contains(err.Error(), "do not fit") {
		t.Errorf("with no room: got %v", err)
	}
	courses["d"] = account.Course{Step: 1e308, Store: make([]int64, 120), Peers: make([]int64, 120), Sent: make([]int64, 120), DoStep: 1e308, Do: strings.Repeat("s", 121), CPUS: 1.7e308}.Bounded(120)
	if _, err := packCourses(courses, limit); err != nil {
		t.Errorf("with a node that tells of times that there are not: %v", err)
	}
	for _, bad := range []string{"x", string(all[:len(all)/2])} {
		if _, err := unpackCourses([]byte(bad)); err == nil {
			t.Errorf("%d bytes of it: got no error", len(bad))
		}
	}
}

func TestDeclaredRates(t *testing.T) {
	for _, c := range []struct {
		declared map[string]unit.Bandwidth
		want     string
	}{
		{nil, ""},
		{map[string]unit.Bandwidth{"store": 1e9}, ""},
		{map[string]unit.Bandwidth{"site.east": 1e9}, ""},
		{map[string]unit.Bandwidth{"site.": 1e9}, "want store, or site.NAME"},
		{map[string]unit.Bandwidth{"store": 0}, "the rate of store is 0 B/s: want more than 0"},
		{map[string]unit.Bandwidth{"moon\n": 1}, `cannot declare a rate of "moon`},
	} {
		s := aSpec
		s.Declared = c.declared
		if err := s.check(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.declared, err, c.want)
		}
	}
}

// Files that all nodes had before need not come from the store, and the others have to, once.
func TestWhatAllHadIsTakenOffOnce(t *testing.T) {
	j := Job{State: Done, Object: objstore.Object{Size: 10e9}, Spec: Spec{Declared: map[string]unit.Bandwidth{"store": 100e6}}}
	for _, name := range []string{"a", "b", "c"} {
		j.Nodes = append(j.Nodes, NodeStatus{Name: name, State: Done, DoneS: 11, Kept: 9e9, KeptSet: "same"})
	}
	if a := j.Account(nil); math.Abs(a.Bound-10) > 1e-9 {
		t.Errorf("1 GB of 10 has to come at 100 MB/s: the bound is %v s", a.Bound)
	}
}

// A link between sites is one where there are several. The object comes in where nobody inside had it.
func TestSites(t *testing.T) {
	for _, c := range []struct {
		members string // a site each, with ! of who held it before
		want    string
	}{
		{"east east", ""}, {"- -", ""}, {"east west", "east west"}, {"east! east west", "east! west"}, {"west west east east!", "east! west"}, {"east -", "east"}, {"", ""},
	} {
		var j Job
		for s := range strings.FieldsSeq(c.members) {
			site, held := strings.CutSuffix(s, "!")
			j.Members = append(j.Members, Member{Site: strings.Trim(site, "-"), Held: held})
		}
		var got []string
		for _, s := range j.sites() {
			name := s.Name
			if s.Held {
				name += "!"
			}
			got = append(got, name)
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: got %q, want %q", c.members, got, c.want)
		}
		if c.want == "east west" {
			j.Members[0].Name = "a"
			j.State, j.Object.Size, j.Nodes = Done, 1448e6, []NodeStatus{{Name: "a", State: Done, DoneS: 11, StoreBytes: 700e6, PeerBytes: 800e6, CrossedBytes: 748e6}}
			j.Spec.Declared = map[string]unit.Bandwidth{"site.east": 151.4e6}
			a := j.Account(nil)
			if math.Abs(a.Bound-10) > 1e-9 || a.Binding().Name != "east" {
				t.Errorf("with a link into the east: got %+v", a)
			}
			if want := []account.Entry{{Site: "east", Nodes: 1, Store: 700e6, Others: 748e6, Copies: 1}, {Site: "west"}}; !reflect.DeepEqual(a.Entries, want) {
				t.Errorf("what came in: got %+v, want %+v", a.Entries, want)
			}
		}
	}
}
