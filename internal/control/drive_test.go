package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/freshet/freshet/objstore"
)

// started is a job of so many nodes that has just been started, in the records, and what is to be driven.
func started(t *testing.T, h *testHub, nodes int) (*driven, *machine) {
	t.Helper()
	now, addrs := time.Now(), map[string]string{}
	for i := range nodes {
		addrs[fmt.Sprintf("m%d", i)] = "h:1"
	}
	m := newMachine(Job{ID: "some-job", Spec: aSpec, Object: objstore.Object{Size: 10}}, addrs, nil)
	m.step(now, begun{})
	for name := range addrs {
		m.step(now, wasPrepared{node: name})
	}
	d := newDriven(m.snapshot())
	var err error
	if d.rev, err = put(testContext(t), h.store.jobs, m.job.ID, m.snapshot(), 0); err != nil {
		t.Fatal(err)
	}
	return d, m
}

// What many nodes say at the same time is written together, and told together.
func TestManyEndAtOnce(t *testing.T) {
	h := newHub(t)
	ctx := testContext(t)
	const nodes = 200
	d, m := started(t, h, nodes)
	told, err := h.nc.SubscribeSync("watch.job." + m.job.ID)
	if err != nil {
		t.Fatal(err)
	}
	first := d.rev
	for i := range nodes {
		d.offer(serving(fmt.Sprintf("m%d", i), Done))
	}
	for i := range nodes {
		d.offer(status(fmt.Sprintf("m%d", i), Done))
	}
	h.drive(ctx, d, m, false)
	var j Job
	if _, err := get(ctx, h.store.jobs, m.job.ID, &j); err != nil || j.State != Done || slices.ContainsFunc(j.Nodes, func(n NodeStatus) bool { return n.State != Done || n.Serving }) {
		t.Errorf("the record is %+v, %v", j, err)
	}
	if err := h.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	shown, _, err := told.Pending()
	if written := d.rev - first; err != nil || written > 5 || shown == 0 || shown > 5 {
		t.Errorf("the record was written %d times, and watchers were told %d times (%v); want a few", written, shown, err)
	}
}

// What a node is told to do is on disk by then.
func TestWrittenBeforeItIsDone(t *testing.T) {
	h := newHub(t)
	ctx := testContext(t)
	d, m := started(t, h, 1)
	found := make(chan string, 64)
	if _, err := h.nc.Subscribe("down.m0.cancel", func(msg *nats.Msg) {
		var j Job
		if _, err := get(ctx, h.store.jobs, m.job.ID, &j); err != nil {
			t.Error(err)
		}
		found <- j.Stopping
		msg.Respond(nil)
		d.offer(status("m0", Cancelled))
	}); err != nil {
		t.Fatal(err)
	}
	d.offer(toCancel{"enough"})
	h.drive(ctx, d, m, false)
	if got := <-found; got != "enough" {
		t.Errorf("when the node is told to stop the record says %q, want that it is stopping", got)
	}
}

// The list of a job's files goes to a node once, with the preparation, and how many nodes were selected instead of what is known of each.
func TestFilesAreToldOnce(t *testing.T) {
	h := newHub(t)
	ctx := testContext(t)
	d, m := started(t, h, 1)
	m.job.FileCount, d.files = 3, named("a", "b/c", "d")
	heard := make(chan Job, 2)
	if _, err := h.nc.Subscribe("down.m0.*", func(msg *nats.Msg) {
		var s start
		var err error
		if msg.Subject == "down.m0.start" {
			err = json.Unmarshal(msg.Data, &s)
		} else {
			err = json.Unmarshal(msg.Data, &s.Job)
		}
		if err != nil {
			t.Error(err)
		}
		heard <- s.Job
		msg.Respond(nil)
	}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		c     command
		files int
	}{{cmdPrepare{"m0"}, 3}, {cmdStart{"m0"}, 0}} {
		h.carryOut(ctx, d, m, []command{tt.c})
		if j := <-heard; j.ID != m.job.ID || len(j.Members) != 1 || j.FileCount != 3 || len(j.Files) != tt.files || j.NodeCount != 1 || j.Nodes != nil {
			t.Errorf("%T says %+v, want %d files and one node", tt.c, j, tt.files)
		}
	}
}

// A command to stop is nothing to pack thousands of files and members for.
func TestStopPacksNothing(t *testing.T) {
	d, m := newDriven(Job{}), &machine{}
	for i := range 1000 {
		d.files = append(d.files, objstore.Object{Key: fmt.Sprint(i), Size: 1, Modified: time.Unix(1e9, 0)})
		m.job.Members = append(m.job.Members, Member{Name: fmt.Sprint(i)})
	}
	h := &Hub{closed: true} // nothing is sent
	if n := testing.AllocsPerRun(10, func() { h.carryOut(t.Context(), d, m, []command{cmdStop{node: "m0"}}) }); n > 50 {
		t.Errorf("a command to stop takes %v allocations, want a few", n)
	}
}

// A node that is asked once more says what it has prepared: the answer may have come while the hub was away.
func TestPreparedIsSaidAgain(t *testing.T) {
	f := newFakeRunner()
	f.present = true
	m := &member{a: &Agent{Runner: f}, parts: map[string]*part{}}
	job := Job{ID: newID(time.Now()), Spec: aSpec}
	for range 2 {
		if p, err := m.prepare(t.Context(), job); err != nil || !p.Present {
			t.Fatalf("got %+v, %v", p, err)
		}
		f.prepErr = errors.New("prepared twice")
	}
}

// How a part ended is told at once: the beat that says it, too, may wait for an answer that has got lost.
func TestEndIsToldWithoutABeat(t *testing.T) {
	h := newHub(t)
	ctx, cancel := context.WithCancel(testContext(t))
	f := newFakeRunner()
	f.finish <- NodeStatus{State: Done}
	m := &member{a: &Agent{Runner: f}, name: "m0", nc: h.nc, urge: make(chan struct{}, 1), news: make(chan struct{}, 1), parts: map[string]*part{}}
	said, err := h.nc.SubscribeSync("up.m0.status")
	if err != nil {
		t.Fatal(err)
	}
	p := &part{job: Job{ID: newID(time.Now()), Spec: aSpec}, running: true, lost: make(chan []string, 1), cancel: func(error) {}}
	m.parts[p.job.ID] = p
	var loop sync.WaitGroup
	loop.Go(func() { m.reportLoop(ctx) })
	m.run(ctx, p, 0)
	msg, err := said.NextMsg(10 * time.Second) // nobody sends beats
	cancel()
	loop.Wait()
	if err != nil {
		t.Fatalf("no report: %v", err)
	}
	var r report
	if err := json.Unmarshal(msg.Data, &r); err != nil || len(r.Jobs) != 1 || r.Jobs[0].Status.State != Done {
		t.Errorf("reported %+v, %v; want that it is done", r, err)
	}
}
