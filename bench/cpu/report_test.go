package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/bench/benchtest"
	"github.com/freshet/freshet/unit"
)

// TestCells: each seed has every system at every rate, and another one begins.
func TestCells(t *testing.T) {
	s := settings{size: 64 * unit.MiB, rates: []unit.Bandwidth{400 * unit.Mbit, 0}, seeds: 2}
	cells := s.cells([]string{"a", "b"})
	seen := map[string]bool{}
	for _, c := range cells {
		seen[c.String()] = true
	}
	if len(cells) != 8 || len(seen) != 8 || !seen["mbit=400 mib=64 a seed=1"] || !seen["mbit=0 mib=64 b seed=2"] {
		t.Errorf("cells: %v", cells)
	}
	if cells[0].Algorithm == cells[4].Algorithm {
		t.Errorf("both seeds begin with %s", cells[0].Algorithm)
	}
}

// TestReport: page and picture come from the file alone. Runs in which processors were busy count for the
// claims where links have no rate, and only there; one that failed is told.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "results.jsonl")
	if err := write(file, dir); err == nil {
		t.Error("a report of nothing was made")
	}
	var lines []byte
	add := func(system string, rate unit.Bandwidth, seed int, cpu float64) {
		r := bench.Result{Suite: "cpu", Cell: bench.Cell{Params: params(unit.GiB, rate), Algorithm: system, Seed: uint64(seed)}, Commit: "c", Command: "go run it", Busy: 0.99}
		if rate == 400*unit.Mbit {
			r.Busy = 0.5
		}
		r.Notes = map[string]string{"version": system + " 1.0", "tuning": "as it comes"}
		if cpu == 0 {
			r.Error = "it hung"
		} else {
			r.Numbers = map[string]float64{"first_cpu_per_gb": cpu, "second_cpu_per_gb": cpu / 2, "seconds": 10}
		}
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	for seed := range bench.Enough {
		add(withTLS, 0, seed, 2)
		add(libtorrent, 0, seed, 5)
		add(withTLS, 400*unit.Mbit, seed, 3)
		add(libtorrent, 400*unit.Mbit, seed, 5)
		add(withTLS, 800*unit.Mbit, seed, 2)
		add(libtorrent, 800*unit.Mbit, seed, 5)
	}
	add(aria, 0, 1, 0)
	if err := os.WriteFile(file, lines, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := write(file, dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, want := range []string{
		"links without a rate: processor time per GB of the first node, freshet tls over libtorrent tuned | ≤ 0.5 | 0.400 | met",
		"links of 400 Mbit/s: processor time per GB of the first node, freshet tls over libtorrent tuned | ≤ 0.5 | 0.600 | missed",
		"links of 800 Mbit/s: processor time per GB of the first node, freshet tls over libtorrent tuned | ≤ 0.5 | – | cpu-bound",
		"| 0 | 1024 | freshet tls | 2.00", "libtorrent tuned 1.0", "Failed: it hung", "go run it",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if i, j := strings.Index(page, "| 400 | 1024 |"), strings.Index(page, "| 0 | 1024 |"); i < 0 || j < i {
		t.Error("links without a rate do not come last")
	}
	for _, name := range []string{"cpu-800.svg", "cpu-400.svg", "cpu-0.svg"} {
		svg, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(svg), libtorrent) || strings.Contains(string(svg), aria) || !strings.Contains(page, "("+name+")") {
			t.Errorf("%s: %v, %d bytes", name, err, len(svg))
		}
	}
}

// TestPublished: the page and its pictures are of the results that are there.
func TestPublished(t *testing.T) {
	benchtest.Published(t, func(dir string) error { return write(filepath.Join(dir, "results.jsonl"), dir) })
}
