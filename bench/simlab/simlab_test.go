package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/internal/scenario"
	"github.com/freshet/freshet/steal"
)

// The list is what it is said to be: twelve, with each algorithm but flat, each size, a death, a slow node, two sites; four for fitting.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("scenarios/*.yaml")
	if err != nil || len(files) != 12 {
		t.Fatalf("%d scenarios, %v, want 12", len(files), err)
	}
	seen := map[string]int{}
	for _, name := range files {
		s, err := scenario.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		seen[s.Algorithm]++
		seen[fmt.Sprint(len(s.Network.Hosts))]++
		if s.Network.Hosts[0].Site != "" {
			seen["sites"]++
		}
		for _, e := range s.Events {
			seen[string(e.Do)]++
		}
		if slices.Contains(fitting, title(name)) {
			seen["fitting"]++
		}
	}
	for _, k := range []string{steal.NonSteal, steal.Steal, steal.Stream, "8", "16", "32", "sites", string(scenario.Die), string(scenario.Slow)} {
		if seen[k] == 0 {
			t.Errorf("no scenario has %s", k)
		}
	}
	if seen["fitting"] != 4 {
		t.Errorf("%d scenarios are fitted, want 4", seen["fitting"])
	}
}

// What the simulation itself came to with known constants is fitted with these, and compared without error.
func TestFit(t *testing.T) {
	want := constants{share: 0.95, start: 0.3}
	var lines bytes.Buffer
	for _, k := range append(slices.Clone(fitting), "05-stream-8") {
		makespan, err := simulate(t.Context(), filepath.Join("scenarios", k+".yaml"), want)
		if err != nil {
			t.Fatal(err)
		}
		json.NewEncoder(&lines).Encode(line{Scenario: k, Makespan: makespan})
	}
	results := filepath.Join(t.TempDir(), "results.jsonl")
	if err := os.WriteFile(results, lines.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	lab, err := read(results)
	if err != nil {
		t.Fatal(err)
	}
	got, err := fit(t.Context(), "scenarios", lab)
	if err != nil || math.Abs(got.share-want.share) > 0.015 || math.Abs(got.start-want.start) > 0.15 {
		t.Fatalf("fitted %+v, %v, want %+v", got, err, want)
	}
	var out strings.Builder
	if err := show(t.Context(), "scenarios", lab, got, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "| 05-stream-8 |") || !strings.Contains(out.String(), "| 12-steal-sites-death | not run |") {
		t.Errorf("compared:\n%s", &out)
	}

	// Fast or slow, where nothing was fitted it may be no farther off than that.
	dir, one := t.TempDir(), "05-stream-8"
	text, err := os.ReadFile(filepath.Join("scenarios", one+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, one+".yaml"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		off  float64
		want string
	}{
		{0.12, ""}, {-0.12, ""},
		{0.18, one + ": the simulation is off by 1"}, {-0.18, one + ": the simulation is off by 1"},
	} {
		err := show(t.Context(), dir, map[string]float64{one: lab[one] / (1 + tt.off)}, got, io.Discard)
		if (err != nil) != (tt.want != "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("the simulation is off by %+.2f: %v, want %q", tt.off, err, tt.want)
		}
	}
}

// What has been run is no farther off than it may be, all twelve, and the README says what it came to.
func TestWhatWasRun(t *testing.T) {
	var out strings.Builder
	if err := compare(t.Context(), "scenarios", "results.jsonl", &out); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	if strings.Contains(out.String(), "not run") {
		t.Errorf("one was not run:\n%s", &out)
	}
	if runtime.GOARCH != "amd64" { // where a product and a sum are rounded at once the last digits differ
		return
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), out.String()) {
		t.Errorf("README.md does not have what go run ./bench/simlab compare prints:\n%s", &out)
	}
}
