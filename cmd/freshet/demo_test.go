package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// built is the program as users build it: the race detector slows encryption
// down so much that it would be all that a demo shows.
func built(t *testing.T) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "freshet")
	cmd := exec.Command("go", "build", "-trimpath", "-o", exe, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return exe
}

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
	var r result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	if len(r.Runs) != 3 {
		t.Fatalf("%d runs, want 3", len(r.Runs))
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
	if spans["steal"] >= spans["flat"] {
		t.Errorf("steal takes %.2f s, flat %.2f s", spans["steal"], spans["flat"])
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

func TestDemoRefuses(t *testing.T) {
	for _, args := range [][]string{{"--nodes", "0"}, {"--nodes", "1000"}, {"--size", "much"}, {"extra"}} {
		root := newRoot()
		root.SetArgs(append([]string{"demo"}, args...))
		if err := root.Execute(); err == nil {
			t.Errorf("demo %v passes", args)
		}
	}
}
