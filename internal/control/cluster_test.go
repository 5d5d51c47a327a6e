package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/steal"
)

// A request to start a job that is sent again, since the agent was between two
// connections, tells the age of the job at that moment.
func TestStartTellsTheTimeOfItsAttempt(t *testing.T) {
	h := newHub(t)
	const before, away = time.Hour, 500 * time.Millisecond
	began := time.Now()
	heard := make(chan []byte, 1)
	timer := time.AfterFunc(away, func() {
		h.nc.Subscribe("down.n1.start", func(m *nats.Msg) { heard <- m.Data; m.Respond(nil) })
	})
	defer timer.Stop()
	body := startBody([]byte(`{"id":"some-job"}`), began.Add(-before), began.Add(before))
	if _, err := h.askRaw(testContext(t), "n1", "start", body, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	var s start
	if err := json.Unmarshal(<-heard, &s); err != nil {
		t.Fatal(err)
	}
	if s.Job.ID != "some-job" || time.Duration(s.Age) < before+away || time.Duration(s.Left) > before-away {
		t.Errorf("got job %q, accepted %v ago, %v left; want some-job, %v or more and %v or less", s.Job.ID, s.Age, s.Left, before+away, before-away)
	}
}

func TestJobEndToEnd(t *testing.T) {
	h := newHub(t)
	agents := threeNodes(t, h)
	agents[0].record = strings.Repeat("0123456789abcdef", 100_000) // more than one chunk
	c := h.client(t, ClientOptions{})
	ctx := testContext(t)

	nodes, err := c.Nodes(ctx)
	if err != nil || len(nodes) != 3 || !nodes[0].Up || nodes[1].Site != "here" {
		t.Fatalf("got nodes %+v, %v", nodes, err)
	}
	job, err := c.Submit(ctx, aSpec)
	if err != nil {
		t.Fatal(err)
	}
	if job.State != Preparing || len(job.Nodes) != 3 || job.Spec.Algorithm != steal.Default {
		t.Fatalf("got %+v", job)
	}
	for _, a := range agents {
		a.awaitBegun(t, job.ID)
	}
	if _, err := c.Submit(ctx, Spec{Source: "s3://bucket/other", Dest: "/data//file", Nodes: []string{"n2"}}); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), job.ID) {
		t.Errorf("second job for the same destination: got %v", err)
	}
	finished, progress := false, false
	var final Job
	for j, err := range c.Watch(ctx, job.ID[:11]) {
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range j.Nodes {
			progress = progress || n.State == Running && n.Have > 0
		}
		if progress && !finished {
			finished = true
			for _, a := range agents {
				a.finish <- done
			}
		}
		final = j
	}
	if final.State != Done || final.Error != "" || len(final.Members) != 3 || final.Members[1].Addr != agents[1].addr || !progress {
		t.Errorf("got %+v", final)
	}
	var w strings.Builder
	if err := c.Recording(ctx, job.ID, "n1", &w); err != nil || w.String() != agents[0].record {
		t.Errorf("recording: got %d bytes, %v", w.Len(), err)
	}
	if err := c.Recording(ctx, job.ID, "n2", &w); !errors.Is(err, ErrNoRecording) {
		t.Errorf("recording: got %v", err)
	}
	if jobs, err := c.Jobs(ctx); err != nil || len(jobs) != 1 || jobs[0].State != Done {
		t.Errorf("got jobs %+v, %v", jobs, err)
	}
	if _, err := c.Cancel(ctx, job.ID); !errors.Is(err, ErrEnded) {
		t.Errorf("cancel an ended job: got %v", err)
	}
	if _, err := c.Job(ctx, "zzz"); !errors.Is(err, ErrNoSuchJob) {
		t.Errorf("got %v", err)
	}
	await(t, "agents forget the job", func() bool {
		v, err := c.Nodes(ctx)
		return err == nil && v[0].Jobs == 0
	})
}

func TestRefusals(t *testing.T) {
	h := newHub(t)
	c := h.client(t, ClientOptions{})
	ctx := testContext(t)
	if _, err := c.Submit(ctx, aSpec); !errors.Is(err, ErrNoSuchNode) {
		t.Errorf("no nodes: got %v", err)
	}
	agents := threeNodes(t, h)
	for _, a := range agents {
		a.statErr = fmt.Errorf("stat s3://bucket/key: %w", objstore.ErrNotExist)
	}
	_, err := c.Submit(ctx, aSpec)
	if !errors.Is(err, objstore.ErrNotExist) || !strings.HasPrefix(err.Error(), "n1: ") {
		t.Errorf("object missing: got %v", err)
	}
	agents[1].statErr, agents[2].statErr = nil, nil
	if j, err := c.Submit(ctx, Spec{Source: "s3://b/k", Dest: "/there"}); err != nil {
		t.Errorf("one of three says that there is no such object: got %v", err)
	} else if _, err := c.Cancel(ctx, j.ID); err != nil {
		t.Error(err)
	}
	agents[0].statErr, agents[1].statErr = fmt.Errorf("stat: %w", objstore.ErrDenied), nil
	agents[1].object.Version = ""
	if _, err := c.Submit(ctx, aSpec); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "--unpinned") {
		t.Errorf("no validator: got %v", err)
	}
	for _, s := range []Spec{
		{Source: "s3://user:hunter2@bucket/key", Dest: "/d"}, {Source: "https://h/x?X-Amz-Signature=hunter2", Dest: "/d"},
		{Source: "ftp://x/y", Dest: "/d"}, {Source: "s3://b/k", Dest: "d"}, {Source: "s3://b/k", Dest: "/d/"}, {Source: "s3://b/k", Dest: "/d", Algorithm: "x"},
		{Source: "s3://b/k", Dest: "/d", Timeout: -1},
	} {
		if _, err := c.Submit(ctx, s); !errors.Is(err, ErrInvalid) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: got %v", s, err)
		}
	}
	_, err = c.Submit(ctx, Spec{Source: "s3://b/k", Dest: "/d", Nodes: []string{"n1", "n9"}})
	if got, want := fmt.Sprint(err), `no node matches "n9"; known nodes: n1, n2, n3`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What only another version knows is refused. It is not said that it makes no sense: that is for command lines.
func TestUnknownRequestsAreRefused(t *testing.T) {
	_, ofAgent := new(member).call(t.Context(), "sing", nil)
	_, ofHub := new(Hub).call(t.Context(), "sing", &nats.Msg{})
	for _, err := range []error{ofAgent, ofHub} {
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), `"sing": it runs another version`) {
			t.Errorf("got %v, want ErrRefused", err)
		}
	}
}

func TestCancelAndTimeout(t *testing.T) {
	h := newHub(t)
	agents := threeNodes(t, h)
	agents[2].prepErr = errors.New("/data is read-only")
	c := h.client(t, ClientOptions{})
	ctx := testContext(t)
	run := func(s Spec, then func(Job)) Job {
		job, err := c.Submit(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		agents[0].awaitBegun(t, job.ID)
		agents[1].awaitBegun(t, job.ID)
		then(job)
		return watched(t, c, job.ID)
	}
	j := run(aSpec, func(j Job) {
		if j, err := c.Cancel(ctx, j.ID); err != nil || j.Stopping == "" {
			t.Errorf("got %+v, %v", j, err)
		}
	})
	if j.State != Cancelled || j.Nodes[0].State != Cancelled || j.Nodes[2].State != Failed || j.Nodes[2].Error != "/data is read-only" {
		t.Errorf("got %+v", j)
	}
	s := aSpec
	s.Timeout = Duration(2 * time.Second)
	j = run(s, func(Job) {})
	if j.State != Failed || j.Error != "n1: timed out after 2s; and 2 more nodes" {
		t.Errorf("got %+v", j)
	}
}

// An agent that has just started registers once: the hub dials it for each time.
func TestAgentRegistersOnce(t *testing.T) {
	h := newHub(t)
	a := joined(t, h, "n1", Registration{})
	select {
	case <-a.registered:
		t.Error("the agent registered a second time")
	case <-time.After(registerEvery + time.Second):
	}
}

func TestAgentLossAndReturn(t *testing.T) {
	h := newHub(t)
	agents := threeNodes(t, h)
	c := h.client(t, ClientOptions{})
	ctx := testContext(t)
	job := runs(t, c, agents...)
	agents[0].kill()
	agents[1].kill() // and comes back as a new process
	agents[1].stop()
	again := startAgent(t, h.addr, agents[1].creds, newFakeRunner(), Registration{})
	select {
	case names := <-agents[2].lost:
		if !slices.Equal(names, []string{"n1"}) {
			t.Errorf("n3 is told that %q are lost, want n1", names)
		}
	case <-ctx.Done():
		t.Error("n3 is not told that n1 is lost")
	}
	agents[2].finish <- done
	final := watched(t, c, job.ID)
	if got, want := final.Error, "n1: lost: no sign of life for 10s; and 1 more node"; final.State != Failed || got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := final.Nodes[1].Error, "agent restarted during the job"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if final.Nodes[2].State != Done {
		t.Errorf("got %+v", final.Nodes[2])
	}
	// A job with a node that is down: the others go on.
	job, err := c.Submit(ctx, aSpec)
	if err != nil {
		t.Fatal(err)
	}
	if n := job.Nodes[0]; n.State != Failed || !strings.HasPrefix(n.Error, "down: last heard of ") {
		t.Errorf("got %+v", n)
	}
	again.awaitBegun(t, job.ID)
	agents[2].awaitBegun(t, job.ID)
	again.finish <- done
	agents[2].finish <- done
	// It can be removed, and then does not get in any more.
	if err := c.RemoveNode(ctx, "n1"); err != nil {
		t.Fatal(err)
	}
	agents[0].stop()
	a := startAgent(t, h.addr, agents[0].creds, newFakeRunner(), Registration{})
	if err := a.stop(); !errors.Is(err, ErrRemoved) {
		t.Errorf("removed node: got %v", err)
	}
	joined(t, h, "n1", Registration{}) // its name is free
}

// A node whose file is in its place is done for all to see while it serves
// others, and stays so when its agent ends.
func TestDoneWhileServing(t *testing.T) {
	h := newHub(t)
	agents := threeNodes(t, h)
	c := h.client(t, ClientOptions{})
	ctx := testContext(t)
	job := runs(t, c, agents...)
	agents[0].placed <- done
	agents[1].placed <- done
	await(t, "n1 and n2 are done", func() bool {
		j, err := c.Job(ctx, job.ID)
		return err == nil && j.Nodes[0].State == Done && j.Nodes[1].State == Done
	})
	if err := agents[0].stop(); err != nil {
		t.Error(err)
	}
	await(t, "n1 no longer serves", func() bool {
		j, err := c.Job(ctx, job.ID)
		return err == nil && !j.Nodes[0].Serving
	})
	// A few beats: the hub must not tell n2 to forget what it serves.
	var beat time.Time
	await(t, "n2 has beaten", func() bool {
		v, err := c.Nodes(ctx)
		if err == nil && beat.IsZero() {
			beat = v[1].Seen
		}
		return err == nil && v[1].Seen.Sub(beat) > 2*beatEvery && v[1].Jobs == 1
	})
	if j, err := c.Job(ctx, job.ID); err != nil || j.State != Running || j.Nodes[0].State != Done || !j.Nodes[1].Serving {
		t.Errorf("got %+v, %v", j, err)
	}
	last := done
	last.SentBytes = 77
	agents[2].finish <- done
	agents[1].finish <- last
	job = watched(t, c, job.ID)
	if job.State != Done || job.Nodes[0].State != Done || job.Nodes[1].SentBytes != 77 || job.Nodes[1].Serving {
		t.Errorf("got %+v", job)
	}
}

func TestHubRestart(t *testing.T) {
	noLeaks(t)
	state := t.TempDir()
	h := startHub(t, Config{State: state}, "127.0.0.1:0")
	agents := threeNodes(t, h)
	events := make(chan error, 16)
	c := h.client(t, ClientOptions{Hub: func(err error) { events <- err }})
	ctx := testContext(t)
	job := runs(t, c, agents...)
	agents[0].finish <- done
	await(t, "n1 is done", func() bool {
		j, err := c.Job(ctx, job.ID)
		return err == nil && j.Nodes[0].State == Done
	})
	final := make(chan Job, 1)
	go func() {
		var last Job
		for j, err := range c.Watch(ctx, job.ID) {
			if err != nil {
				t.Error(err)
			}
			last = j
		}
		final <- last
	}()
	h.stop()
	if err := <-events; !errors.Is(err, ErrLost) {
		t.Errorf("got %v", err)
	}
	agents[1].finish <- done // while nobody listens
	h2 := startHub(t, Config{State: state}, h.addr)
	if err := <-events; err != nil {
		t.Errorf("got %v", err)
	}
	if h2.Fingerprint() != h.Fingerprint() {
		t.Error("the cluster has another authority after a restart")
	}
	await(t, "n2 is done", func() bool {
		j, err := c.Job(ctx, job.ID)
		return err == nil && j.Nodes[1].State == Done
	})
	agents[2].finish <- done
	if j := <-final; j.State != Done || j.Nodes[0].State != Done {
		t.Errorf("got %+v", j)
	}
	for _, a := range agents {
		if a.started != 1 {
			t.Errorf("%s ran the job %d times", a.name, a.started)
		}
	}
	h2.stop()
	h3 := startHub(t, Config{State: state}, h.addr)
	if j, err := h3.job(ctx, job.ID); err != nil || j.State != Done {
		t.Errorf("after another restart: got %+v, %v", j, err)
	}
}

// A hub that has restarted counts changes from its record on, so the end may have a count that was seen before. It is the end nevertheless.
func TestEndWithACountThatWasSeen(t *testing.T) {
	h := newHub(t)
	agent := joined(t, h, "n1", Registration{})
	agent.object.Size = 1
	c, ctx := h.client(t, ClientOptions{}), testContext(t)
	job := runs(t, c, agent)
	await(t, "nothing changes any more", func() bool {
		var err error
		job, err = c.Job(ctx, job.ID)
		return err == nil && job.Nodes[0].Have == 1
	})
	seen := job // as the hub said before it restarted
	seen.Revision++
	b, err := json.Marshal(seen)
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for {
			h.nc.Publish("watch.job."+job.ID, b)
			select {
			case <-heard:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	end := sync.OnceFunc(func() {
		close(heard)
		agent.finish <- NodeStatus{State: Done, Have: 1, Verified: "source"}
	})
	defer end()
	var last Job
	for last, err = range c.Watch(ctx, job.ID) {
		if err != nil {
			t.Fatal(err)
		}
		if last.Revision == seen.Revision {
			end()
		}
	}
	if last.State != Done || last.Revision != seen.Revision {
		t.Errorf("got %+v, want the end as number %d", last, seen.Revision)
	}
}

func TestPresent(t *testing.T) {
	h := newHub(t)
	agents := threeNodes(t, h)
	for _, a := range agents {
		a.present = true
	}
	c := h.client(t, ClientOptions{})
	ctx := testContext(t)
	job, err := c.Submit(ctx, aSpec)
	if err != nil {
		t.Fatal(err)
	}
	job = watched(t, c, job.ID)
	if job.State != Done || job.Nodes[0].State != Present || job.Nodes[0].Have != 1000 || len(job.Members) != 0 {
		t.Errorf("got %+v", job)
	}
	for _, a := range agents {
		if a.started != 0 {
			t.Errorf("%s was started", a.name)
		}
	}
	// What was prepared in vain is forgotten, so the destination is free.
	agents[0].present = false
	agents[1].prepErr, agents[2].prepErr = errors.New("no"), errors.New("no")
	again, err := c.Submit(ctx, aSpec)
	if err != nil {
		t.Fatal(err)
	}
	agents[0].awaitBegun(t, again.ID)
	// An agent that is stopped says so.
	if err := agents[0].stop(); err != nil {
		t.Error(err)
	}
	again = watched(t, c, again.ID)
	if got, want := again.Error, "n1: stopped by its operator; and 2 more nodes"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestConnectEndsWithItsContext(t *testing.T) {
	h := newHub(t)
	admin, err := LoadAdmin(h.admin)
	if err != nil {
		t.Fatal(err)
	}
	mute, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	admin.Hub = mute.Addr().String()
	if _, err := Connect(ctx, admin, ClientOptions{}); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 5*time.Second {
		t.Errorf("got %v after %v", err, time.Since(start))
	}
}
