package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/unit"
)

// TestBroadcast: one small size from end to end: every agent's memory is
// counted, the object leaves the store once, and nothing stays behind.
func TestBroadcast(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("memory as Linux tells it")
	}
	exe, err := build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	c := bench.Cell{Params: bench.Params{"size": "4 MiB", "nodes": "2"}, Algorithm: "steal", Seed: 1}
	got, err := broadcast(t.Context(), exe, dir, &c)
	if err != nil {
		t.Fatal(err)
	}
	if got["makespan_s"] <= 0 || got["store_multiple"] != 1 || got["least_mib"] < 4 || got["most_mib"] < got["least_mib"] {
		t.Errorf("numbers %v", got)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}

func TestBounded(t *testing.T) {
	sizes := []unit.Bytes{unit.GiB, 4 * unit.GiB}
	for _, tt := range []struct {
		most []float64
		want string
	}{
		{[]float64{100, 110}, ""},
		{[]float64{100, 60}, ""},
		{[]float64{100, 111}, "with 4 GiB an agent's memory reached 111.0 MiB, 11 % more than with 1 GiB"},
		{[]float64{200, 200}, "with 1 GiB an agent's memory reached 200.0 MiB, and 200 are allowed"},
		{[]float64{190, 201}, "with 4 GiB an agent's memory reached 201.0 MiB, and 200 are allowed"},
	} {
		switch err := bounded(sizes, tt.most); {
		case tt.want == "" && err != nil:
			t.Errorf("peaks %v: %v", tt.most, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("peaks %v: %v, want %q", tt.most, err, tt.want)
		}
	}
}

// TestRefuses: what cannot go well is refused in one line, before anything is made.
func TestRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--sizes", "1024TiB"}, "are needed; name a directory with more by --dir"},
		{[]string{"--sizes", "4GiB,1GiB"}, "each larger than the one before"},
		{[]string{"--sizes", "4G,x"}, "want sizes"},
		{[]string{"--nodes", "1"}, "at least 2 nodes"},
	} {
		err := command(t.Context(), append(tt.args, "--dir", dir, "--out", filepath.Join(dir, "r.jsonl")))
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v, want %q", tt.args, err, tt.want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestSeedAfter: each call is a run of its own, also after others.
func TestSeedAfter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.jsonl")
	if got := seedAfter(file); got != 1 {
		t.Errorf("first seed %d, want 1", got)
	}
	if err := os.WriteFile(file, []byte("{\"seed\":1}\n{\"seed\":4}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := seedAfter(file); got != 5 {
		t.Errorf("seed %d after 4, want 5", got)
	}
}
