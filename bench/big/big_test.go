package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/bench/benchtest"
	"github.com/freshet/freshet/unit"
)

// TestBroadcast: one small size from end to end: every agent's memory is
// counted, the object leaves the store once, and nothing stays behind.
func TestBroadcast(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux, which tells how much memory a process has")
	}
	dir := filepath.Join(t.TempDir(), "run")
	c := bench.Cell{Params: bench.Params{"size": "4 MiB", "nodes": "2"}, Algorithm: "steal", Seed: 1}
	got, err := broadcast(t.Context(), dir, &c)
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

// TestReport: the page is made of the results alone, its claims judge memory
// also on a busy machine, and one that is missed is an error.
func TestReport(t *testing.T) {
	sizes := []unit.Bytes{unit.GiB, 4 * unit.GiB}
	for _, tt := range []struct {
		runs         int
		small, large float64 // MiB
		rows         []string
		want         string
	}{
		{5, 100, 110, []string{"| < 200 | 110.000 | met |", "| ≤ 1.1 | 1.100 | met |", "| 4 GiB | steal | 110.0 † |"}, ""},
		{5, 100, 60, []string{"| ≤ 1.1 | 0.600 | met |"}, ""},
		{5, 100, 111, []string{"| ≤ 1.1 | 1.110 | missed |"}, "with 4 GiB over that with 1 GiB"},
		{5, 200, 200, []string{"| < 200 | 200.000 | missed |"}, "peak memory of an agent"},
		{4, 300, 900, []string{"too few runs (4 of 5)"}, ""},
	} {
		dir := t.TempDir()
		f, err := os.Create(results(dir))
		if err != nil {
			t.Fatal(err)
		}
		enc := json.NewEncoder(f)
		for _, c := range append(cells(sizes, 4, 1), cells(sizes, 8, tt.runs)...) { // of 4 nodes the first ones
			r := bench.Result{Suite: "big", Cell: c, Command: "go run it", Commit: "c0ffee", Busy: 0.95}
			most := tt.small
			if c.Params["size"] == "4 GiB" {
				most = tt.large
			}
			if c.Params["nodes"] == "4" {
				most = 1000
			}
			r.Numbers = map[string]float64{"most_mib": most, "median_mib": most - 1, "least_mib": most - 2, "makespan_s": 9, "store_multiple": 1}
			if err := enc.Encode(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		err = write(dir)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("with %v and %v MiB: error %v, want %q", tt.small, tt.large, err, tt.want)
		}
		page, err := os.ReadFile(filepath.Join(dir, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range append(tt.rows, "arrive on 8 agents", "`go run it`", "- commit: c0ffee") {
			if !strings.Contains(string(page), want) {
				t.Errorf("with %v and %v MiB the page lacks %q:\n%s", tt.small, tt.large, want, page)
			}
		}
		if strings.Contains(string(page), "1000.0") {
			t.Errorf("the page has runs of 4 nodes:\n%s", page)
		}
	}
}

// TestCells: sizes take turns.
func TestCells(t *testing.T) {
	var got []string
	for _, c := range bench.Interleave(cells([]unit.Bytes{1, 2}, 8, 2)) {
		got = append(got, c.String())
	}
	want := "nodes=8 size=1 B steal seed=1; nodes=8 size=2 B steal seed=1; nodes=8 size=1 B steal seed=2; nodes=8 size=2 B steal seed=2"
	if strings.Join(got, "; ") != want {
		t.Errorf("%s, want %s", strings.Join(got, "; "), want)
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
		{[]string{"--runs", "0"}, "and 1 run"},
		{[]string{"again"}, "want run or report"},
	} {
		err := command(t.Context(), append([]string{"--dir", dir, "--out", dir}, tt.args...))
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %v, want %q", tt.args, err, tt.want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestPublished: the page and its pictures are of the results that are there.
func TestPublished(t *testing.T) {
	benchtest.Published(t, write)
}
