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
	"time"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/bench/benchtest"
	"github.com/freshet/freshet/unit"
)

// TestCells: what all links carry and what all nodes get is the same in all
// cells but the fast one, and each seed begins with another system.
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
		for _, rival := range []string{"the fastest rival of 2 measured, quick one", flat} {
			if got := said["4 nodes, the store medium: makespan of "+best+" over that of "+rival]; got != c.want {
				t.Errorf("ours %v, %s %v: %q, want %q; there are %v", c.ours, rival, c.rival, got, c.want, said)
			}
		}
	}
}

// TestClaimsOfEachCell: a cell where no rival was run has its claims, too; the mean of the others is held against the rival whose
// own is the least; and who is near the bound does not hide one that is not.
func TestClaimsOfEachCell(t *testing.T) {
	five := func(v float64) []float64 { return []float64{v, v, v, v, v} }
	for _, c := range []struct {
		cell   string
		by     map[string][]float64
		others map[string]float64 // over the bound without the slow node
		claim  string             // what comes after "makespan of " or another number of ours
		want   string
	}{
		{"sites", map[string][]float64{best: five(10)}, nil, "makespan of " + best + " over that of the fastest rival", "not measured"},
		{"sites", map[string][]float64{best: five(10)}, nil, "processor time per GB of " + best + " over that of libtorrent web tuned", "not measured"},
		{"sites", map[string][]float64{best: five(10), "a": {12}}, nil, "makespan of " + best + " over that of the fastest rival of 1 measured, a", "too few runs"},
		{"sites", map[string][]float64{best: five(10), "a": {0, 0}}, nil, "makespan of " + best + " over that of the fastest rival", "not measured"},
		{"slow", map[string][]float64{best: five(10)}, nil, "mean of the others of " + best + " over that of the rival whose others are the fastest", "not measured"},
		{
			"slow", map[string][]float64{best: five(10), "a": five(10.1), "b": five(10.2)}, map[string]float64{best: 2, "a": 3, "b": 1.5},
			"mean of the others of " + best + " over that of the rival whose others are the fastest of 2 measured, b", "missed",
		},
		{
			"slow", map[string][]float64{best: five(10), "a": five(10.1), "b": five(10.2)}, map[string]float64{best: 1.04, "a": 3, "b": 1.03},
			"mean of the others of " + best + " over that of the rival whose others are the fastest of 2 measured, b", "met", // level
		},
		{
			"medium", map[string][]float64{best: five(10.6), "a": five(10.4), "b": five(10.55)}, nil,
			"makespan of " + best + " over that of the fastest rival of 2 measured, a", "met", // level
		},
		{
			"medium", map[string][]float64{best: five(10.6), "a": five(10.4), "b": five(10.55)}, nil,
			"makespan of " + best + " over that of the first rival that is not near the bound, b", "missed",
		},
		{
			"medium", map[string][]float64{best: five(10.6), "a": five(10.4), "b": five(10.7)}, nil,
			"makespan of " + best + " over that of the first rival that is not near the bound, b", "met",
		},
		{
			"medium", map[string][]float64{best: five(10.6), "a": five(10.4), "b": {10.7}, "c": five(11)}, nil, // one that can decide
			"makespan of " + best + " over that of the first rival that is not near the bound, c", "met",
		},
	} {
		k, err := kindOf(c.cell)
		if err != nil {
			t.Fatal(err)
		}
		rs := runs(trialScale, k, c.by)
		for i, r := range rs {
			if v := c.others[r.Algorithm]; v > 0 {
				rs[i].Numbers["ratio_others"] = v
			}
		}
		s := suite(nil)
		s.Claims = claims(rs)
		said := map[string]string{}
		for _, v := range s.Verdicts(rs) {
			said[v.Name] = v.Said
		}
		if got := said[k.titled(trialScale.params(k))+": "+c.claim]; got != c.want {
			t.Errorf("%s of %v: %s: %q, want %q; there are %v", c.cell, c.by, c.claim, got, c.want, said)
		}
	}
}

// TestMissing: ours and the three rivals that were fastest where the store is the same are wanted five times, and who reads all from the store where that takes less than twice the bound; all others once,
// but on 32 nodes where the store is narrow; what failed is missing.
func TestMissing(t *testing.T) {
	five := func(v float64) []float64 { return []float64{v, v, v, v, v} }
	complete := map[string][]float64{}
	for _, name := range systemNames() {
		complete[name] = five(20)
	}
	narrow := map[string][]float64{best: {10, 10, 10, 10, 0}, "libtorrent web tuned": five(12), "aria2 web": {13}, "udpcast": {14, 15, 14}, flat: {15}, "chain": {0}}
	for _, name := range systemNames() {
		if _, ok := narrow[name]; !ok && name != "mpi bcast" {
			narrow[name] = []float64{30}
		}
	}
	rs := slices.Concat(runs(trialScale, kinds[0], narrow), runs(trialScale, kinds[2], complete),
		runs(scale{nodes: 5, rate: trialScale.rate, size: trialScale.size}, kinds[1], complete)) // of another scale
	for i, r := range rs { // who was alone has only itself to blame for busy processors
		if r.Params["cell"] == kinds[0].name && (r.Algorithm == "flat rclone" || r.Algorithm == "flat aws-cli") {
			rs[i].Busy = 0.9
			if r.Algorithm == "flat rclone" {
				rs[i].Beside = 1
			}
		}
	}
	got := map[string]string{}
	for line := range strings.Lines(missing(rs, trialScale)) {
		title, lack, ok := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "- "), ": ")
		if got[title] = lack; !ok {
			t.Errorf("a line without what lacks: %q", line)
		}
	}
	for title, want := range map[string]string{
		"4 nodes, the store narrow":         best + " (4), aria2 web (1), udpcast (3), " + flat + " (1), flat rclone, chain, mpi bcast",
		"4 nodes, the store medium":         best + " (0), all others",
		"4 nodes, the store wide":           "",
		"32 nodes, the store narrow":        best + " (0), libtorrent web tuned (0), aria2 web (0), udpcast (0)",
		"32 nodes, the store medium":        best + " (0), all others",
		"4 nodes, links four times as fast": "all",
	} {
		if got[title] != want {
			t.Errorf("%s lacks %q, want %q", title, got[title], want)
		}
	}
	var all []bench.Result
	for _, k := range kinds {
		all = append(all, runs(trialScale, k, complete)...)
	}
	if got := missing(all, trialScale); got != "" {
		t.Errorf("where all is there this lacks:\n%s", got)
	}
}

// TestBuilds: what is of another commit than the best is not taken for it, neither in a table nor in a picture.
func TestBuilds(t *testing.T) {
	steal, trusted := nameOf("steal", "tls"), nameOf("stream", "trusted")
	rs := slices.Concat(
		runs(trialScale, kinds[0], map[string][]float64{best: {10, 10}, steal: {12}, trusted: {11}, flat: {0}, "a": {13}}),
		runs(trialScale, kinds[1], map[string][]float64{best: {10}, steal: {12}, trusted: {11}, "a": {13}}),
	)
	for i, r := range rs {
		if r.Algorithm == steal && r.Params["cell"] == "medium" || r.Algorithm == flat || r.Algorithm == "a" {
			rs[i].Commit = "old"
		}
	}
	names := map[string]bool{}
	for _, row := range rows(bench.Rows{}, rs, "cpu_per_gb").Rows {
		names[row.Name] = true
	}
	for _, want := range []string{best, steal + " (old)", trusted, "a"} {
		if !names[want] {
			t.Errorf("no row %s in the picture; there are %v", want, names)
		}
	}
	for i, r := range rs {
		if r.Algorithm == best && r.Seed == 2 {
			rs[i].Commit = "b"
		}
	}
	for _, c := range []struct{ cell, name, want string }{
		{"narrow", best, best + " (b, c)"}, {"medium", best, best + " (c)"}, {"medium", steal, steal + " (old)"},
		{"medium", "a", "a"}, {"narrow", flat, flat}, // a rival, and one that failed
	} {
		k, err := kindOf(c.cell)
		if err != nil {
			t.Fatal(err)
		}
		if got := built(c.name, commits(rs, c.name, trialScale.params(k))); got != c.want {
			t.Errorf("%s: %q, want %q", c.cell, got, c.want)
		}
	}
}

// TestReport: page and pictures come from the file alone, the fastest first, and
// failures are told.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "results.jsonl")
	if err := write(file, dir, trialScale); err == nil {
		t.Error("a report of nothing was made")
	}
	rs := slices.Concat(
		runs(trialScale, kinds[0], map[string][]float64{best: {10, 10.2}, "quick one": {12}, "slow one": {110}, "hung one": {0}}),
		runs(trialScale, kinds[2], map[string][]float64{best: {10}, "slow one": {20}}),
	)
	shards, err := kindOf("shards")
	if err != nil {
		t.Fatal(err)
	}
	several := runs(trialScale, shards, map[string][]float64{"quick one": {12}, "slow one": {20}})
	for _, r := range slices.Concat(rs, several) { // notes and numbers are maps
		switch r.Notes["store"] = "freshet s3 --seed 1"; r.Algorithm {
		case best:
			r.Notes["agents"] = "n01$ freshet agent --site sw"
		case "quick one":
			r.Numbers["make_s"], r.Numbers["ratio_made"] = 0.25, 1.23
		}
	}
	for _, r := range several {
		if r.Algorithm == "quick one" {
			r.Notes["commands"] = "n01$ quick one, all of them"
		}
	}
	rs = append(rs, several...)
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
	if err := write(file, dir, trialScale); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for want, times := range map[string]int{
		"10.1 (10.0–10.2)": 1, "hung one, narrow, seed 1: failed: it hung": 1, "0, 1 failed": 1, "`go run it`": 1,
		"slow one 1.0. Settings: as it comes.\n\n": 1, "quick one 1.0. Settings: as it comes.\n\n```\nn01$ quick one\n```\n": 1,
		"With 32 files:\n\n```\nn01$ quick one, all of them\n```\n": 1, "With ": 1, // where it is not the same
		"n01$ freshet agent --site sw\nn01$ " + best + "\n": 1, "The store, of seed 1: `freshet s3 --seed 1`.": 3,
		"making of the torrent (s)": 2, "| 0.25 | 1.23 |": 2, // where a torrent was made
		"\n| " + best + " (c) |": 2, "- 4 nodes, one slow node: " + best + " (0), all others\n": 1,
	} {
		if n := strings.Count(page, want); n != times {
			t.Errorf("%q is %d times on the page, want %d", want, n, times)
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

// TestCosts: ours and the heavy rival stand beside each other by the processor that both were measured on, a run of earlier settings nowhere.
func TestCosts(t *testing.T) {
	on := func(cpu string, hour int, tuning string, by map[string][]float64) []bench.Result {
		rs := runs(trialScale, kinds[0], by)
		for i := range rs {
			rs[i].Machine.CPU, rs[i].Notes["tuning"], rs[i].Start = cpu, tuning, time.Unix(int64(3600*hour), 0)
		}
		return rs
	}
	got := costs(map[string][]bench.Result{
		"A": on("A", 2, "new", map[string][]float64{best: {12, 16, 20}, heavy: {40, 40, 40}, "flat rclone": {30}, "flat aws-cli": {32}}),
		"B": on("B", 3, "new", map[string][]float64{best: {12}, heavy: {16, 20}}),
		"C": on("C", 1, "old", map[string][]float64{best: {12}, heavy: {16}}),
		"D": on("D", 3, "new", map[string][]float64{best: {12}}),
	})
	_, rows, _ := strings.Cut(got, "| --- |\n")
	want := "| 4 nodes, the store narrow | A | c | 4.00 | 10.00 | 0.40 (0.30–0.50) | 3 | 7.50, flat rclone |\n| 4 nodes, the store narrow | B | c | 3.00 | 4.50 | 0.75 (0.75–0.75) | 1 | – |\n"
	if rows != want {
		t.Errorf("rows:\n%swant:\n%s", rows, want)
	}
	if got := costs(nil); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

// TestProcessors: a cell says whose processor times are of another machine, and nothing if all are of one.
func TestProcessors(t *testing.T) {
	run := func(name, cpu string) bench.Result {
		return bench.Result{Cell: bench.Cell{Algorithm: name}, Machine: bench.Machine{CPU: cpu}}
	}
	failed := run("d", "C")
	failed.Error = "timeout"
	if got := processors([]bench.Result{run("a", "A"), run("b", "A"), failed}); got != "" {
		t.Errorf("on one machine: %q", got)
	}
	got := processors([]bench.Result{run("a", "A"), run("b", "B"), run("a", "A"), run("c", "")})
	if want := " Processor times of different processors do not compare; measured were on others: c; on A: a; on B: b."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestAlike: processor times are drawn of the kind of processor on which ours ran in most cells that are drawn, also of runs that another kind has
// taken the place of elsewhere, but neither of what the host disturbed nor of earlier settings.
func TestAlike(t *testing.T) {
	on := func(cpu, system, cell string) bench.Result {
		return bench.Result{Cell: bench.Cell{Params: bench.Params{"cell": cell}, Algorithm: system}, Machine: bench.Machine{CPU: cpu}}
	}
	disturbed, earlier := on("a", "chain", "medium"), on("a", "aria2 seed", "medium")
	disturbed.Stolen, earlier.Notes = 0.02, map[string]string{"tuning": "earlier"}
	got := alike(map[string][]bench.Result{
		"a": {on("a", best, "narrow"), on("a", best, "medium"), on("a", "udpcast", "wide"), on("a", heavy+" (1 MiB)", "wide"), disturbed, earlier},
		"b": {on("b", best, "medium"), on("b", best, "8"), on("b", best, "32"), on("b", "udpcast", "wide")},
	}, func(r bench.Result) bool { return r.Notes["tuning"] == "earlier" })
	var names []string
	for _, r := range got {
		names = append(names, r.Machine.CPU+" "+r.Algorithm)
	}
	if want := []string{"a " + best, "a " + best, "a udpcast"}; !slices.Equal(names, want) {
		t.Errorf("drawn are %q, want %q", names, want)
	}
	if got := alike(nil, nil); got != nil {
		t.Errorf("of nothing %v is drawn", got)
	}
}

// TestPublished: the page and its pictures are of the results that are there.
func TestPublished(t *testing.T) {
	benchtest.Published(t, func(dir string) error {
		return write(filepath.Join(dir, "results.jsonl"), dir, standard)
	})
}
