package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/unit"
)

// TestCells: what all links carry and what all nodes get is the same in all
// cells but the fast and the large ones, and each seed begins with another system.
func TestCells(t *testing.T) {
	s := scale{nodes: 16, rate: 800 * unit.Mbit, size: 3 * unit.GiB}
	for _, k := range kinds {
		p := s.params(k)
		var n, mbit, mib float64
		for name, to := range map[string]*float64{"nodes": &n, "mbit": &mbit, "mib": &mib} {
			v, err := strconv.ParseFloat(p[name], 64)
			if err != nil {
				t.Fatalf("%s: %v", k.name, err)
			}
			*to = v
		}
		rate, size := 800., 3.*1024
		if k.fast > 0 {
			rate, size = 800*k.fast, 3*1024*k.fast/2
		}
		if k.large > 0 {
			size *= k.large
		}
		if n > 16 { // the object is no smaller
			size *= n / 16
		}
		if math.Abs(n*mbit-rate) > 1e-9 || math.Abs(n*mib-size) > 1e-9 {
			t.Errorf("%s: %v nodes with %v Mbit/s and %v MiB", k.name, n, mbit, mib)
		}
		if int(mib)*32%k.files != 0 {
			t.Errorf("%s: %v MiB are not %d files of one size", k.name, mib, k.files)
		}
	}
	firsts := map[string]bool{}
	cells := s.cells([]string{"a", "b", "c"}, kinds[:2], 1, 2, 3)
	seen := map[string]bool{}
	for i, c := range cells {
		seen[c.String()] = true
		if i%6 == 0 {
			firsts[c.Algorithm] = true
		}
	}
	if len(cells) != 18 || len(seen) != 18 || len(firsts) != 3 {
		t.Errorf("%d cells, %d of them different; %v come first", len(cells), len(seen), firsts)
	}
}

// TestSame: leaders are those of the store that a kind has.
func TestSame(t *testing.T) {
	for name, want := range map[string]string{"narrow": "narrow", "wide": "wide", "32narrow": "narrow", "32": "medium", "slow": "medium", "shards": "medium"} {
		k, err := kindOf(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := same(k).name; got != want {
			t.Errorf("%s: the leaders of %s, want of %s", name, got, want)
		}
	}
}

// TestKindOf: a misspelt cell is refused, with the names that there are.
func TestKindOf(t *testing.T) {
	if k, err := kindOf("slow"); err != nil || !k.slow {
		t.Errorf("%+v, %v", k, err)
	}
	if _, err := kindOf("slwo"); err == nil || !strings.Contains(err.Error(), "narrow") {
		t.Errorf("an unknown cell: %v", err)
	}
}

// runs are results of a cell: by system the makespans, by seed; 0 is a failure.
func runs(s scale, k kind, by map[string][]float64) (out []bench.Result) {
	for name, times := range by {
		for i, v := range times {
			r := bench.Result{Suite: "rivals", Cell: bench.Cell{Params: s.params(k), Algorithm: name, Seed: uint64(i + 1)}, Commit: "c", Command: "go run it"}
			r.Notes = map[string]string{"version": name + " 1.0", "tuning": "as it comes", "commands": "n01$ " + name}
			if v == 0 {
				r.Error = "it hung"
			} else {
				r.Numbers = map[string]float64{"makespan_s": v, "bound_s": 10, "ratio": v / 10, "mean_s": v - 1, "store_multiple": 1.01, "cpu_per_gb": v / 4, "store_cpu_per_gb": 1}
			}
			out = append(out, r)
		}
	}
	return out
}

var trialScale = scale{nodes: 4, rate: 160 * unit.Mbit, size: 64 * unit.MiB}

// TestLeaders: the fastest rivals by the first seed alone, so that more runs do
// not change who they are; neither ours nor what failed.
func TestLeaders(t *testing.T) {
	rs := runs(trialScale, kinds[0], map[string][]float64{
		best: {10}, nameOf("flat", "tls"): {11}, "a": {15, 1}, "b": {0, 2}, "c": {13}, "d": {14}, "e": {16},
	})
	rs = append(rs, runs(trialScale, kinds[1], map[string][]float64{"e": {1}})...)
	if got := trialScale.leaders(rs, kinds[0]); !slices.Equal(got, []string{"c", "d", "a"}) {
		t.Errorf("leaders %v", got)
	}
	if got := trialScale.leaders(nil, kinds[0]); len(got) != 0 {
		t.Errorf("leaders of nothing: %v", got)
	}
}

// TestClaims: ours must be ahead of the fastest rival, or level with one that is
// near the bound itself; flat is one more.
func TestClaims(t *testing.T) {
	for _, c := range []struct {
		rival float64
		ours  float64
		want  string
	}{
		{12, 11, "met"}, {12, 12.1, "missed"}, {10.4, 10.5, "met"}, {10.4, 10.7, "missed"},
	} {
		five := func(v float64) []float64 { return []float64{v, v, v, v, v} }
		rs := runs(trialScale, kinds[1], map[string][]float64{best: five(c.ours), flat: five(c.rival), "slow one": five(20), "quick one": five(c.rival)})
		s := suite(nil)
		s.Claims = claims(rs)
		said := map[string]string{}
		for _, v := range s.Verdicts(rs) {
			said[v.Name] = v.Said
		}
		for _, rival := range []string{"the fastest rival, quick one", flat} {
			if got := said["4 nodes, the store medium: makespan of "+best+" over that of "+rival]; got != c.want {
				t.Errorf("ours %v, %s %v: %q, want %q; there are %v", c.ours, rival, c.rival, got, c.want, said)
			}
		}
	}
}

// TestReport: page and pictures come from the file alone, the fastest first, and
// failures are told.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "results.jsonl")
	if err := write(file, dir); err == nil {
		t.Error("a report of nothing was made")
	}
	rs := slices.Concat(
		runs(trialScale, kinds[0], map[string][]float64{best: {10, 10.2}, "quick one": {12}, "slow one": {110}, "hung one": {0}}),
		runs(trialScale, kinds[2], map[string][]float64{best: {10}, "slow one": {20}}),
	)
	var b []byte
	for _, r := range rs {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		b = append(append(b, line...), '\n')
	}
	if err := os.WriteFile(file, b, 0o644); err != nil {
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
	for _, want := range []string{"10.1 (10.0–10.2)", "slow one 1.0", "n01$ quick one", "hung one, narrow, seed 1: failed: it hung", "0, 1 failed", "go run it"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	table := page[strings.Index(page, "### 4 nodes, the store narrow"):]
	if i, j := strings.Index(table, "| quick one"), strings.Index(table, "| slow one"); i < 0 || j < i {
		t.Errorf("the slow one does not come after the quick one:\n%s", table)
	}
	for _, name := range []string{"makespan.svg", "cpu.svg"} {
		svg, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(svg), "slow one") || strings.Contains(string(svg), "hung one") {
			t.Errorf("%s: %v, %d bytes", name, err, len(svg))
		}
	}
}
