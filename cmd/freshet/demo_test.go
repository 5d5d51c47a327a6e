package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// built is the program as users build it: the race detector slows encryption
// down so much that it would be all that a demo shows. TestMain removes it.
func built(t *testing.T) string {
	t.Helper()
	exe, err := theProgram()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

var theProgram = sync.OnceValues(func() (exe string, err error) {
	if programDir, err = os.MkdirTemp("", "freshet-test-"); err != nil {
		return "", err
	}
	exe = filepath.Join(programDir, "freshet")
	cmd := exec.Command("go", "build", "-trimpath", "-o", exe, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %v\n%s", err, out)
	}
	return exe, nil
})

var programDir string // where the program is; empty: nowhere

func TestDemo(t *testing.T) {
	exe, dir := built(t), t.TempDir()
	page := filepath.Join(dir, "demo.html")
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	const nodes, size = 4, 32 << 20
	cmd := exec.CommandContext(t.Context(), exe, "demo", "--nodes", "4", "--size", "32MiB", "--seed", "3", "--json", "--report", page, "--dir", work)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("demo: %v\n%s", err, errs.String())
	}
	var r struct{ Runs []demoRun }
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	if len(r.Runs) != 4 {
		t.Fatalf("%d runs, want 4", len(r.Runs))
	}
	spans := map[string]float64{}
	for _, run := range r.Runs {
		spans[run.Algorithm] = run.MakespanS
		want := int64(size)
		if run.Algorithm == "flat" {
			want *= nodes
		}
		if run.StoreBytes < want || float64(run.StoreBytes) > 1.02*float64(want) {
			t.Errorf("%s: %d bytes left the store, want %d", run.Algorithm, run.StoreBytes, want)
		}
		if sent := run.StoreSentBytes; sent < run.StoreBytes || float64(sent) > 1.02*float64(run.StoreBytes) {
			t.Errorf("%s: the store counts %d bytes, the nodes %d: want at most 2 %% more", run.Algorithm, sent, run.StoreBytes)
		}
		wantDrawn(t, run, nodes)
		if run.Verified != "source" || run.State != "done" || len(run.Nodes) != nodes {
			t.Errorf("%s: %s, verified %q, %d nodes", run.Algorithm, run.State, run.Verified, len(run.Nodes))
		}
		for _, n := range run.Nodes {
			if n.SHA256 == "" || n.SHA256 != r.Runs[0].Nodes[0].SHA256 {
				t.Errorf("%s: %s has %q, want %q", run.Algorithm, n.Name, n.SHA256, r.Runs[0].Nodes[0].SHA256)
			}
		}
		if run.BoundS == nil || run.Ratio == nil || *run.Ratio < 1 {
			t.Errorf("%s: bound %v, ratio %v: want a ratio of at least 1", run.Algorithm, run.BoundS, run.Ratio)
		}
	}
	for _, a := range []string{"steal", "stream"} {
		if spans[a] >= spans["flat"] {
			t.Errorf("%s takes %.2f s, flat %.2f s", a, spans[a], spans["flat"])
		}
	}
	html, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(html), "<svg") {
		t.Errorf("the report: %v, %d bytes, with pictures: %v", err, len(html), strings.Contains(string(html), "<svg"))
	}
	left, err := os.ReadDir(work)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// wantDrawn sees that the store's connections had rates of the paper, times 5,
// and that each kept to its own.
func wantDrawn(t *testing.T, run demoRun, nodes int) {
	t.Helper()
	if len(run.StoreConnections) != nodes {
		t.Fatalf("%s: %d connections carried the object, want %d", run.Algorithm, len(run.StoreConnections), nodes)
	}
	different := map[float64]bool{}
	for _, c := range run.StoreConnections {
		if c.Rate < 4e6*demoScale || c.Rate > 10.5e6*demoScale {
			t.Errorf("%s: a connection has %.1f MB/s, want 20 to 52.5", run.Algorithm, c.Rate/1e6)
		}
		different[c.Rate] = true
		if least := 0.9 * float64(c.Bytes) / c.Rate; run.SlowestS < least {
			t.Errorf("%s: %d bytes at %.1f MB/s within %.2f s, want at least %.2f s", run.Algorithm, c.Bytes, c.Rate/1e6, run.SlowestS, least)
		}
	}
	if len(different) < 2 {
		t.Errorf("%s: all connections have the same rate: %v", run.Algorithm, run.StoreConnections)
	}
}

// TestDemoForPeople: what it says without --json, up to the numbers.
func TestDemoForPeople(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "demo.html")
	out, err := exec.CommandContext(t.Context(), built(t), "demo", "--nodes", "2", "--size", "8MiB", "--report", page, "--dir", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("demo: %v\n%s", err, out)
	}
	rest := string(out)
	const secs, ratio = `[\d.]+ s`, `[\d.]+`
	for _, line := range []string{
		`2 nodes on this machine, an object of 8 MiB, in ` + regexp.QuoteMeta(dir),
		`rates are the paper's × 5: a store connection 20 MB/s to 52.5 MB/s, drawn anew for each \(seed 1\); a node's link 50 MB/s each way`,
		`  flat       done`, `  non-steal  done`, `  steal      done`, `  stream     done`,
		` +algorithm +makespan +bound +ratio +mean +fastest +slowest +from store\* +from peers\* +verified`,
		` +flat +` + strings.Join([]string{secs, secs, ratio, secs, secs, secs}, " +") + ` +2.0\d × +0.00 × +by source`,
		` +non-steal +.* s +1.0\d × +1.0\d × +by source`,
		` +steal +.* s +1.0\d × +\d.\d\d × +by source`,
		` +stream +.* s +1.0\d × +\d.\d\d × +by source`,
		`\* all nodes together, in multiples of the object`,
		`The last of 2 nodes has the object after ` + secs + ` with stream and after ` + secs + ` with flat: ` + ratio + ` × as fast.`,
		`Report with pictures: ` + regexp.QuoteMeta(page),
	} {
		at := regexp.MustCompile("(?m)^" + line + " *$").FindStringIndex(rest)
		if at == nil {
			t.Fatalf("no line %q in what follows of\n%s", line, out)
		}
		rest = rest[at[1]:]
	}
}

func TestDemoRefuses(t *testing.T) {
	for _, args := range [][]string{{"--nodes", "0"}, {"--nodes", "1000"}, {"--size", "much"}, {"extra"}} {
		root := newRoot()
		root.SetArgs(append([]string{"demo"}, args...))
		if err := root.Execute(); err == nil {
			t.Errorf("demo %v passes", args)
		}
	}
}
