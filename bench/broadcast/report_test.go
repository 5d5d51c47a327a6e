package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/bench/benchtest"
	"github.com/freshet/freshet/internal/lab"
	"github.com/freshet/freshet/unit"
)

// TestCells: every algorithm of every number of nodes once a seed, and none of
// them always the first.
func TestCells(t *testing.T) {
	first := map[string]bool{}
	seen := map[string]int{}
	for i, c := range bench.Interleave(cells([]int{4, 8}, 3, 256*unit.MiB, 0.5)) {
		seen[c.String()]++
		if i%6 == 0 {
			first[c.Algorithm] = true
		}
		if want := uint64(i/6 + 1); c.Seed != want || c.Params["scale"] != "0.5" || c.Params["size"] != "256 MiB" {
			t.Errorf("cell %d is %v, want seed %d", i, c, want)
		}
	}
	if len(seen) != 18 || len(first) != 3 {
		t.Errorf("%d cells, and %v come first", len(seen), first)
	}
}

func TestParseCounts(t *testing.T) {
	if got, err := parseCounts("4,32"); err != nil || len(got) != 2 || got[1] != 32 {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "4,", "1", "65", "4,4", "four"} {
		if got, err := parseCounts(bad); err == nil {
			t.Errorf("%q is taken as %v", bad, got)
		}
	}
}

func TestPayload(t *testing.T) {
	if got := float64(lab.Payload(linkRate(2))) / 1e6; math.Abs(got-25*1448./1514) > 1e-9 {
		t.Errorf("payload of the link × 2: %v MB/s", got)
	}
}

// TestSplit: a node's first phase ends with the barrier; its rate does not
// count its wait for that; flat has no second one.
func TestSplit(t *testing.T) {
	const recording = `{"kind":"run","t":0,"job":"j","node":"a"}
{"kind":"phase","phase":1,"t":1,"job":"j","node":"a"}
{"kind":"piece","piece":0,"from":"store","bytes":4000000,"t":2,"job":"j","node":"a"}
{"kind":"piece","piece":1,"from":"store","bytes":4000000,"t":3,"job":"j","node":"a"}
{"kind":"phase","phase":2,"t":5,"job":"j","node":"a"}
{"kind":"piece","piece":2,"from":"b","bytes":8000000,"t":7,"job":"j","node":"a"}
{"kind":"done","t":8,"job":"j","node":"a"}
{"kind":"phase","phase":1,"t":1,"job":"j","node":"b"}
{"kind":"piece","piece":2,"from":"store","bytes":8000000,"t":5,"job":"j","node":"b"}
{"kind":"phase","phase":2,"t":5,"job":"j","node":"b"}
{"kind":"piece","piece":0,"from":"a","bytes":8000000,"t":6,"job":"j","node":"b"}
{"kind":"done","t":6,"job":"j","node":"b"}
{"kind":"bound","job":"j","bound_s":1}
`
	got := map[string]float64{}
	if err := split(strings.NewReader(recording), []string{"a", "b"}, got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"phase1_s": 5, "phase2_s": 2, "phase2_percent": 200. / 7, "phase1_mbps": 3, "phase2_mbps": 6} {
		if got[name] != want {
			t.Errorf("%s = %v, want %v", name, got[name], want)
		}
	}
	if err := split(strings.NewReader(recording), []string{"a", "b", "c"}, got); err == nil {
		t.Error("a node without a recording goes unnoticed")
	}

	flat := `{"kind":"phase","phase":1,"t":0,"node":"a"}
{"kind":"piece","piece":0,"from":"store","bytes":9000000,"t":3,"node":"a"}
{"kind":"done","t":4,"node":"a"}`
	got = map[string]float64{}
	if err := split(strings.NewReader(flat), []string{"a"}, got); err != nil {
		t.Fatal(err)
	}
	if _, second := got["phase2_mbps"]; second || got["phase1_s"] != 4 || got["phase2_s"] != 0 || got["phase1_mbps"] != 3 {
		t.Errorf("of flat: %v", got)
	}
}

// TestReport: what the file has is on the page, in the verdicts and in the
// pictures, and nothing of other sizes.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "results.jsonl")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	enc := json.NewEncoder(f)
	for _, c := range append(cells([]int{4}, 1, unit.GiB, 1), cells([]int{4, 16, 32}, 5, 256*unit.MiB, 0.5)...) {
		n, _ := strconv.ParseFloat(c.Params["nodes"], 64)
		mean := map[string]float64{"flat": 60 + n/4, "non-steal": 42, "steal": 38}[c.Algorithm]
		spread := map[string]float64{"flat": 30, "non-steal": 3, "steal": 1}[c.Algorithm]
		r := bench.Result{Suite: "broadcast", Cell: c, Command: "go run it", Commit: "c0ffee", Numbers: map[string]float64{
			"makespan_s": mean + spread, "mean_s": mean, "fastest_s": mean - spread, "slowest_s": mean + spread, "spread_s": 2 * spread, "bound_s": 22,
			"ratio": (mean + spread) / 22, "phase1_s": 10, "phase2_s": mean - 10, "phase1_mbps": 4, "phase2_mbps": 10, "phase2_percent": 80 + n/2, "store_multiple": 1.01, "store_sent_multiple": 1.015, "link_mbps": 12, "iperf3_mbps": 11.9,
		}}
		if c.Algorithm == "flat" && n == 32 {
			r.Busy = 0.9
		}
		if err := enc.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := write(file, dir); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"an object of 256 MiB leaves a store and arrives on 4, 16 and 32 nodes", "Rates are the paper's × 0.5.",
		"| phase 2, a node, with steal (÷ 0.5) | about 10 MB/s | 4: 20.0 MB/s, 16: 20.0 MB/s, 32: 20.0 MB/s |",
		"| mean completion at 16 nodes: flat's over steal's | ≥ 1.6 | 1.684 | met |",
		"| mean completion at 32 nodes: flat's over steal's | ≥ 1.6 | – | cpu-bound |",
		"| spread between fastest and slowest at 16 nodes: steal's over flat's | < 1 | 0.033 | met |",
		"| spread between fastest and slowest at 8 nodes: steal's over flat's | < 1 | – | not measured |",
		"| bytes sent by the store with steal at 32 nodes, by its own count, the most of any run, in objects | ≤ 1.02 | 1.015 | met |",
		"| 1.010 | 1.0150 | 0 | 5 |",
		"| 16 | 1.52 (1.52–1.52) | 1.68 (1.68–1.68) |", "| 4 | steal | 39.0 | 1.77 | 38.0 |", "| 0, 5 cpu-bound |",
		"| phase 2's part of the time with steal | about 90 % at 16 and 32 nodes | 4: 82 %, 16: 88 %, 32: 96 % |",
		"| mean completion of flat over that of steal | 1.7 at 32 nodes | 4: 1.61, 16: 1.68 |",
		"reached 99.2 % of that", "65 % 2 MB/s to 3 MB/s, 10 % 3 MB/s to 4 MB/s", "50 Mbit/s on the wire", "`go run it`", "3 runs of another size or scale",
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if t.Failed() {
		t.Logf("%s", b)
	}
	for name, wants := range map[string][]string{
		"completion.svg": {">32<", ">cpu-bound<", ">steal<"},
		"speedup.svg":    {">16<", ">steal<", ">cpu-bound<"},
		"phases.svg":     {">phase 2: from peers<"},
	} {
		svg, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(svg), want) {
				t.Errorf("%s lacks %s", name, want)
			}
		}
	}
}

// TestPublished: the page and its pictures are of the results that are there.
func TestPublished(t *testing.T) {
	benchtest.Published(t, func(dir string) error { return write(filepath.Join(dir, "results.jsonl"), dir) })
}
