package control

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

func TestWhichSourceIsSeveral(t *testing.T) {
	for source, want := range map[string]bool{
		"s3://b/m/": true, "s3://b/m/?endpoint=http://h/": true, "file:///data/m/": true,
		"s3://b/m": false, "s3://b/m?endpoint=http://h/": false, "file:///data/m": false, "https://h/m/": false,
	} {
		s := Spec{Source: source, Dest: "/data/m"}
		if err := s.check(); err != nil {
			t.Errorf("%s: %v", source, err)
		}
		if got := s.Several(); got != want {
			t.Errorf("%s is several: %v", source, got)
		}
		s.Dest = "/data/m/"
		if err := s.check(); (err == nil) != want || want && s.Dest != "/data/m" {
			t.Errorf("%s to %s: %v", source, s.Dest, err)
		}
	}
	for _, source := range []string{"s3://b/", "s3://b", "file:///", "file://m/"} {
		if err := (&Spec{Source: source, Dest: "/data/m"}).check(); err == nil {
			t.Errorf("%s passes", source)
		}
	}
}

func named(names ...string) (f Files) {
	for i, name := range names {
		f = append(f, objstore.Object{Key: name, Size: unit.Bytes(i), Version: "v", Ranges: true})
	}
	return f
}

func TestNamesOfFiles(t *testing.T) {
	for _, tt := range []struct {
		names []string
		bad   string // what the error names; empty: there is none
	}{
		{[]string{"a", "b/a", "b/c/d", "a.b", ".hidden", "with space", "ü"}, ""},
		{[]string{"a", "../b"}, "../b"}, {[]string{"/a"}, "/a"}, {[]string{"a/"}, "a/"}, {[]string{"a//b"}, "a//b"}, {[]string{"a/./b"}, "a/./b"},
		{[]string{"a\nb"}, "cannot be a file"}, {[]string{""}, "cannot be a file"}, {[]string{"."}, "cannot be a file"}, {[]string{"a\xff"}, "cannot be a file"},
		{[]string{"a", "a"}, "twice"}, {[]string{"a/b/c", "x", "a"}, "a/b/c"}, {[]string{"a/b/c", "a/b"}, "a/b/c"},
	} {
		err := named(tt.names...).Check()
		if (err == nil) != (tt.bad == "") || err != nil && !strings.Contains(err.Error(), tt.bad) {
			t.Errorf("%q: %v, want %q", tt.names, err, tt.bad)
		}
		if err != nil && !errors.Is(err, ErrRefused) { // the command line is not what is wrong
			t.Errorf("%q: %v is not ErrRefused", tt.names, err)
		}
	}
	if err := make(Files, MaxFiles+1).Check(); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "10000") {
		t.Errorf("too many: %v", err)
	}
}

// The list of as many files as a job can have fits into a message, and comes out as it went in.
func TestPackedFiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var f Files
	for i := range MaxFiles {
		f = append(f, objstore.Object{
			Key: fmt.Sprintf("train/shard-%05d/part-%08x.parquet", i, rng.Uint32()), Size: unit.Bytes(rng.Int64N(1 << 30)), Version: fmt.Sprintf("\"%016x%016x\"", rng.Uint64(), rng.Uint64()),
			Checksum: piece.Checksum{Algorithm: piece.CRC64NVME, Value: piece.CRC64NVME.Encode(rng.Uint64())}, Ranges: true, Modified: time.Unix(1.7e9+rng.Int64N(1e6), 0).UTC(),
		})
	}
	f.Sort()
	if !slices.IsSortedFunc(f, func(a, b objstore.Object) int { return int(b.Size - a.Size) }) {
		t.Error("small files do not lie behind each other")
	}
	b, err := json.Marshal(Source{Object: f.Whole("m/"), Files: f})
	if err != nil || len(b) > maxPackedFiles {
		t.Errorf("%d files make %d bytes (%v), more than %d", len(f), len(b), err, maxPackedFiles)
	}
	var back Source
	if err := json.Unmarshal(b, &back); err != nil || !slices.EqualFunc(back.Files, f, func(a, b objstore.Object) bool {
		return a.Modified.Equal(b.Modified) && a.Key == b.Key && a.Size == b.Size && a.Version == b.Version && a.Checksum == b.Checksum
	}) {
		t.Errorf("%d files come back as %d (%v)", len(f), len(back.Files), err)
	}
	spec := Spec{Source: "s3://b/m/"}
	if err := back.check(spec); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(s *Source){
		"no file":       func(s *Source) { s.Files = nil },
		"other size":    func(s *Source) { s.Size++ },
		"other version": func(s *Source) { s.Files = append(Files{}, s.Files...); s.Files[7].Version = "w" },
		"bad name":      func(s *Source) { s.Files = append(Files{}, s.Files...); s.Files[7].Key = "../x" },
	} {
		s := back
		change(&s)
		if s.check(spec) == nil {
			t.Errorf("%s: passes", name)
		}
	}
	if back.check(Spec{Source: "s3://b/m"}) == nil {
		t.Error("many files pass for one object")
	}
	if b, _ := json.Marshal(Job{}); bytes.Contains(b, []byte("files")) {
		t.Errorf("a job of one object tells of files: %s", b)
	}
}

// lingering is a Runner that takes its time to say what a source is.
type lingering struct {
	Runner
	takes time.Duration
}

func (l lingering) Stat(ctx context.Context, _ Spec) (Source, error) {
	select {
	case <-time.After(l.takes):
		return Source{}, nil
	case <-ctx.Done():
		return Source{}, ctx.Err()
	}
}

// A node may take longer to say what thousands of objects are than one; the control plane waits for it, and the client for as many
// nodes as are asked.
func TestSeveralTakeLonger(t *testing.T) {
	one, several := Spec{Source: "s3://b/m"}, Spec{Source: "s3://b/m/"}
	synctest.Test(t, func(t *testing.T) {
		m := &member{a: &Agent{Runner: lingering{takes: 40 * time.Second}}}
		for _, spec := range []Spec{one, several} {
			body, err := json.Marshal(spec)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.call(t.Context(), "stat", body); (err == nil) != spec.Several() {
				t.Errorf("%s: %v after 40 s", spec.Source, err)
			}
		}
	})
	for _, spec := range []Spec{one, several} {
		if all := statAsked * spec.statLimit(); spec.submitLimit() <= all+callWithin {
			t.Errorf("%s: a client waits %v, and %d nodes may take %v", spec.Source, spec.submitLimit(), statAsked, all)
		}
	}
	if one.submitLimit() != submitWithin {
		t.Errorf("a client waits %v for a job of one object, want %v", one.submitLimit(), submitWithin)
	}
}

func FuzzUnpackFiles(f *testing.F) {
	packed, _ := json.Marshal(named("a", "b/c"))
	f.Add(packed)
	f.Add([]byte(`""`))
	f.Add([]byte(`"H4sIAAAAAAAA"`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var got, again Files
		if json.Unmarshal(b, &got) != nil {
			return
		}
		out, err := json.Marshal(got)
		if err != nil {
			return // a time that JSON cannot write
		}
		if err := json.Unmarshal(out, &again); err != nil || len(again) != len(got) {
			t.Errorf("%d files come back as %d (%v)", len(got), len(again), err)
		}
	})
}

// Nodes are told of all files of a job, who watches it only how many they are; who asks for them gets them, after a restart of
// the control plane, too, and after the end.
func TestJobOfSeveral(t *testing.T) {
	noLeaks(t)
	state := t.TempDir()
	h := startHub(t, Config{State: state}, "127.0.0.1:0")
	a := joined(t, h, "n1", Registration{})
	a.several = named("a", "b/c", "d")
	a.several.Sort()
	a.object = a.several.Whole("m/")
	c := h.client(t, ClientOptions{})
	ctx := testContext(t)
	job, err := c.Submit(ctx, Spec{Source: "s3://b/m/", Dest: "/data/m/"})
	if err != nil {
		t.Fatal(err)
	}
	if job.FileCount != 3 || job.Files != nil || job.Object.Size != 3 || len(job.Challenge.Places) != 2 {
		t.Errorf("got %+v", job)
	}
	a.awaitBegun(t, job.ID)
	a.mu.Lock()
	told := a.told
	a.mu.Unlock()
	same := func(got Files, err error) {
		t.Helper()
		if err != nil || !slices.EqualFunc(got, a.several, func(x, y objstore.Object) bool { return x.Key == y.Key && x.Size == y.Size }) {
			t.Errorf("got files %v, %v", got, err)
		}
	}
	same(told, nil)
	same(c.Files(ctx, job.ID))

	h.stop()
	h = startHub(t, Config{State: state}, h.addr)
	c = h.client(t, ClientOptions{})
	same(c.Files(ctx, job.ID))
	a.finish <- NodeStatus{State: Done, Have: 3, Files: 7, Verified: "source"}
	var final Job
	for j, err := range c.Watch(ctx, job.ID) {
		if err != nil {
			t.Fatal(err)
		}
		final = j
	}
	if final.State != Done || final.Files != nil || final.Nodes[0].Files != 3 {
		t.Errorf("got %+v", final)
	}
	same(c.Files(ctx, job.ID))
	if _, err := c.Files(ctx, "zzz"); !errors.Is(err, ErrNoSuchJob) {
		t.Errorf("files of no job: %v", err)
	}
}

// A control plane starts whatever the last one was writing when it ended. A job without a list of its files that can be read is given up, and
// a list without a job goes.
func TestStartWithHalfOfARecord(t *testing.T) {
	noLeaks(t)
	ctx := testContext(t)
	config := Config{State: t.TempDir(), Log: testLog(t)}
	h, err := OpenHub(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	write := func(kv jetstream.KeyValue, key string, v any) {
		t.Helper()
		if _, err := put(ctx, kv, key, v, 0); err != nil {
			t.Fatal(err)
		}
	}
	write(h.store.nodes, "n1", nodeRecord{Joined: time.Now()})
	ids := map[State]string{}
	for i, state := range []State{Preparing, Running, Done, ""} {
		id := newID(time.Now().Add(time.Duration(i) * time.Second))
		ids[state] = id
		if state != "" {
			write(h.store.jobs, id, Job{ID: id, FileCount: 3, State: state, Members: []Member{{Name: "n1"}}, Nodes: []NodeStatus{{Name: "n1", State: state}}})
		}
		if state == "" || state == Done {
			write(h.store.files, id, named("a", "b", "c"))
			write(h.store.courses, id, []byte("packed"))
		}
	}
	garbled := newID(time.Now().Add(time.Minute))
	write(h.store.jobs, garbled, Job{ID: garbled, FileCount: 3, State: Running, Members: []Member{{Name: "n1"}}, Nodes: []NodeStatus{{Name: "n1", State: Running}}})
	write(h.store.files, garbled, []byte("no list"))
	h.Close()

	h = startHub(t, config, "127.0.0.1:0").Hub
	await(t, "the job that was being prepared is failed", func() bool {
		j, err := h.job(ctx, ids[Preparing])
		return err == nil && j.State == Failed && j.Error == errRestarted
	})
	for _, id := range []string{ids[Running], garbled} {
		await(t, "the job that ran is stopped", func() bool {
			j, err := h.job(ctx, id)
			return err == nil && j.Stopping == errNoFiles
		})
	}
	if f, err := h.files(ctx, ids[Done]); err != nil || len(f) != 3 {
		t.Errorf("files of a job that is done: got %v, %v", f, err)
	}
	for _, kv := range []jetstream.KeyValue{h.store.files, h.store.courses} {
		if _, err := kv.Get(ctx, ids[Done]); err != nil {
			t.Errorf("%s: of a job that is done: %v", kv.Bucket(), err)
		}
		if _, err := kv.Get(ctx, ids[""]); !errors.Is(err, jetstream.ErrKeyNotFound) {
			t.Errorf("%s: of no job: %v, want %v", kv.Bucket(), err, jetstream.ErrKeyNotFound)
		}
	}
}

// unanswered is a bucket that writes what it is told, and whose answer gets lost.
type unanswered struct {
	jetstream.KeyValue
	purges bool // it does that, too
}

func (u unanswered) Create(ctx context.Context, key string, value []byte, opts ...jetstream.KVCreateOpt) (uint64, error) {
	if _, err := u.KeyValue.Create(ctx, key, value, opts...); err != nil {
		return 0, err
	}
	return 0, context.DeadlineExceeded
}

func (u unanswered) Purge(ctx context.Context, key string, opts ...jetstream.KVDeleteOpt) error {
	if !u.purges {
		return context.DeadlineExceeded
	}
	return u.KeyValue.Purge(ctx, key, opts...)
}

// Of a job that was not accepted nothing is left, or all that a restart needs.
func TestRecordOfAJobThatIsNotAnswered(t *testing.T) {
	for _, purges := range []bool{true, false} {
		t.Run(fmt.Sprint(purges), func(t *testing.T) {
			noLeaks(t)
			ctx := testContext(t)
			config := Config{State: t.TempDir()}
			h := startHub(t, config, "127.0.0.1:0")
			jobs := h.store.jobs
			h.store.jobs = unanswered{jobs, purges}
			a := joined(t, h, "n1", Registration{})
			a.several = named("a", "b/c", "d")
			a.several.Sort()
			a.object = a.several.Whole("m/")
			if _, err := h.submit(ctx, Spec{Source: "s3://b/m/", Dest: "/data/m/", Algorithm: "stream"}); !errors.Is(err, ErrUnavailable) {
				t.Fatalf("got %v, want ErrUnavailable", err)
			}
			want := 1
			if purges {
				want = 0
			}
			for _, kv := range []jetstream.KeyValue{jobs, h.store.files} {
				n := 0
				if err := all(ctx, kv, func(string, []byte, uint64) { n++ }); err != nil || n != want {
					t.Errorf("%s has %d records, %v, want %d", kv.Bucket(), n, err, want)
				}
			}
			h.stop()
			h = startHub(t, config, h.addr)
			await(t, "no job is left that has not failed", func() bool {
				jobs, err := h.jobs(ctx, "")
				return err == nil && len(jobs) == want && !slices.ContainsFunc(jobs, func(j Job) bool { return j.State != Failed || j.Error != errRestarted })
			})
		})
	}
}

// A member is asked what a source is before anything is known of it, and tells of its jobs every second. What it says is read as far as it can be true.
func TestListsAreReadSoFar(t *testing.T) {
	files := func(list string) func() error {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		if _, err := io.WriteString(z, list); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		answer, err := json.Marshal(map[string]any{"files": packed.Bytes()})
		if err != nil {
			t.Fatal(err)
		}
		return func() error { return answered(&nats.Msg{Data: answer}, new(Source)) }
	}
	beats := []byte(`{"jobs":[` + strings.Repeat("{},", maxUp/3-10) + `{}]}`)
	var before, after runtime.MemStats
	for name, read := range map[string]func() error{
		"files":       files("[" + strings.Repeat("{},", maxUnpackedFiles/3-10) + "{}]"),
		"a long name": files(`[{"key":"` + strings.Repeat("x", maxUnpackedFiles-100) + `"}]`),
		"jobs":        func() error { return json.Unmarshal(beats, new(beat)) },
	} {
		runtime.ReadMemStats(&before)
		err := read()
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; err == nil || got > 32<<20 {
			t.Errorf("%s: %d MB, and %v, want less than 33 and an error", name, got>>20, err)
		}
	}
	if err := json.Unmarshal([]byte(`{"jobs":null,"running":1}`), new(beat)); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{`{"jobs":7}`, `{"jobs":{}}`, `{"jobs":[7]}`} {
		if json.Unmarshal([]byte(bad), new(beat)) == nil {
			t.Errorf("%s passes for a beat", bad)
		}
	}
}

// Nor does a node's answer take more room than any has.
func TestAnswersAreBounded(t *testing.T) {
	h := newHub(t)
	a := joined(t, h, "n1", Registration{})
	a.found = NodeCheck{Version: strings.Repeat("x", maxUp)}
	c, err := h.client(t, ClientOptions{}).Check(testContext(t), nil, "")
	if err != nil || len(c.Nodes) != 1 || c.Nodes[0].Found != nil || !strings.Contains(c.Nodes[0].Error, "more than the 1048576") {
		t.Errorf("got %+v, %v", c.Nodes, err)
	}
}
