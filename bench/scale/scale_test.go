package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/bench/benchtest"
	"github.com/freshet/freshet/internal/scenario"
)

// Every run is a scenario of as many nodes and pieces as it says, and each that may be only so far from its bound is among them,
// with links that are alike and that are not.
func TestCells(t *testing.T) {
	count := map[[2]int]int{}
	for _, c := range cells(10000) {
		text, err := text(c.Params)
		if err != nil {
			t.Fatal(err)
		}
		s, err := scenario.Parse([]byte(text), os.ReadFile)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		of := [2]int{len(s.Network.Hosts), s.Layout.Count()}
		if strconv.Itoa(of[0]) != c.Params["nodes"] || strconv.Itoa(of[1]) != c.Params["pieces"] {
			t.Errorf("%v has %d nodes and %d pieces", c.Params, of[0], of[1])
		}
		count[of]++
	}
	for of := range most {
		if count[of] != 6 {
			t.Errorf("%d runs of %d nodes and %d pieces, want three kinds of links with two stores each", count[of], of[0], of[1])
		}
	}
	if len(cells(999)) != 4 {
		t.Errorf("%d runs of fewer than 1,000 nodes, want 4", len(cells(999)))
	}
	if _, err := text(bench.Params{"nodes": "3", "pieces": "8", "links": "none", "store": "narrow"}); err == nil {
		t.Error("links that there are not are simulated")
	}
}

// A run says how far it was from its bound, and what it used.
func TestCell(t *testing.T) {
	var out strings.Builder
	text, err := text(bench.Params{"nodes": "8", "pieces": "16", "links": "every second half", "store": "medium"})
	if err != nil {
		t.Fatal(err)
	}
	if err := cell(t.Context(), strings.NewReader(text), &out); err != nil {
		t.Fatal(err)
	}
	var n map[string]float64
	if err := json.Unmarshal([]byte(out.String()), &n); err != nil {
		t.Fatal(err)
	}
	if n["ratio"] < 1 || n["store_objects"] != 1 || n["cpu_s"] <= 0 || n["peak_gib"] <= 0 || n["peak_gib"] > 1000 {
		t.Errorf("%s: %v", text, n)
	}
	if err := cell(t.Context(), strings.NewReader("{}"), &out); err == nil {
		t.Error("what is no scenario is simulated")
	}
}

// The report has a row for both stores, and says what is too far from its bound.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	report := func(ratio, gib float64) (string, error) {
		t.Helper()
		var lines []byte
		for i, store := range []string{"medium", "narrow"} {
			line, err := json.Marshal(bench.Result{Suite: "scale", Commit: "c", Numbers: map[string]float64{"ratio": ratio + float64(i)/100, "cpu_s": 2, "peak_gib": gib},
				Cell: bench.Cell{Params: bench.Params{"nodes": "1000", "pieces": "256", "links": alike, "store": store}}})
			if err != nil {
				t.Fatal(err)
			}
			lines = append(append(lines, line...), '\n')
		}
		if err := os.WriteFile(results(dir), lines, 0o644); err != nil {
			t.Fatal(err)
		}
		said := command(t.Context(), []string{"report", "--out", dir})
		page, err := os.ReadFile(filepath.Join(dir, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		return string(page), said
	}
	page, err := report(1.10, 0.5)
	if want := "| 1000 | 256 | alike | 1.110 | 1.100 | 1.12 | 2 s | 0.5 GiB | c |"; err != nil || !strings.Contains(page, want) {
		t.Errorf("%v; want %s in\n%s", err, want, page)
	}
	if _, err := report(1.10, 9); err == nil || !strings.Contains(err.Error(), "2 s of processor time and 9 GiB, want 10 and 8") {
		t.Errorf("9 GiB: %v", err)
	}
	if _, err := report(1.115, 0.5); err == nil || !strings.Contains(err.Error(), "store narrow: 1.125 times the bound, want 1.12") {
		t.Errorf("1.125 of at most 1.12: %v", err)
	}
}

// TestPublished: the page and its pictures are of the results that are there.
func TestPublished(t *testing.T) {
	benchtest.Published(t, write)
}
