package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func cells(algorithms []string, seeds ...uint64) (out []Cell) {
	for _, a := range algorithms {
		for _, s := range seeds {
			out = append(out, Cell{Params: Params{"nodes": "4"}, Algorithm: a, Seed: s})
		}
	}
	return out
}

// TestInterleave: all algorithms meet a seed before the next seed's turn.
func TestInterleave(t *testing.T) {
	var got []string
	for _, c := range Interleave(cells([]string{"a", "b", "c"}, 7, 3)) {
		got = append(got, fmt.Sprint(c.Algorithm, c.Seed))
	}
	if want := []string{"a7", "b7", "c7", "a3", "b3", "c3"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

// TestParams: a number is read, what is none is named, and parameters that are alike are the same.
func TestParams(t *testing.T) {
	p := Params{"nodes": "4", "mbit": "12.5", "cell": "narrow"}
	if n, err := p.Int("nodes"); n != 4 || err != nil {
		t.Errorf("nodes: %d, %v", n, err)
	}
	if v, err := p.Float("mbit"); v != 12.5 || err != nil {
		t.Errorf("mbit: %v, %v", v, err)
	}
	for _, name := range []string{"cell", "mib"} {
		_, err := p.Int(name)
		_, ferr := p.Float(name)
		for _, err := range []error{err, ferr} {
			if want := fmt.Sprintf("%s %q: ", name, p[name]); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%v does not begin with %s", err, want)
			}
		}
	}
	var rs []Result
	for _, n := range []string{"8", "4", "8"} {
		rs = append(rs, Result{Cell: Cell{Params: Params{"nodes": n}}})
	}
	if got, want := ParamsOf(rs), []Params{{"nodes": "8"}, {"nodes": "4"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestResume: a run that was cut off, in the middle of a line even, is taken up
// where it stopped; what failed is made again; what is there is not.
func TestResume(t *testing.T) {
	file := filepath.Join(t.TempDir(), "some", "results.jsonl")
	o := Options{File: file, Command: "go run it", Log: io.Discard}
	var made []string
	broken := "b1"
	ctx, cancel := context.WithCancel(t.Context())
	s := Suite{Name: "s", Cells: cells([]string{"a", "b"}, 1, 2), Case: func(ctx context.Context, c *Cell) (map[string]float64, error) {
		name := fmt.Sprint(c.Algorithm, c.Seed)
		made = append(made, name)
		if len(made) == 3 {
			cancel()
			return nil, ctx.Err()
		}
		if name == broken {
			return map[string]float64{"x": 1}, errors.New("no\nluck")
		}
		return map[string]float64{"x": 2}, nil
	}}
	if err := s.Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("a run that is cut off says %v", err)
	}
	rs, err := Read(file)
	if err != nil || len(rs) != 2 || rs[0].Numbers["x"] != 2 || rs[0].Command != "go run it" || rs[0].Machine.Cores == 0 || rs[0].Commit == "" {
		t.Fatalf("after the cut: %+v, %v", rs, err)
	}
	if rs[1].Error != "no luck" || rs[1].Numbers != nil {
		t.Errorf("a failed run is kept as %+v", rs[1])
	}

	// Killed while it wrote the next line.
	b, _ := os.ReadFile(file)
	if err := os.WriteFile(file, append(b, `{"suite":"s","params":{"no`...), 0o644); err != nil {
		t.Fatal(err)
	}
	if rs, err := Read(file); err != nil || len(rs) != 2 {
		t.Errorf("with a line cut short: %d results, %v", len(rs), err)
	}
	broken = ""
	if err := s.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a1", "b1", "a2", "b1", "a2", "b2"}; !slices.Equal(made, want) {
		t.Errorf("runs made: %v, want %v", made, want)
	}
	rs, err = Read(file)
	if err != nil || len(rs) != 4 {
		t.Fatalf("at the end %d results, %v", len(rs), err)
	}
	for _, r := range rs {
		if r.Error != "" || r.Numbers["x"] != 2 {
			t.Errorf("%v: %q %v", r.Cell, r.Error, r.Numbers)
		}
	}
	if err := s.Run(t.Context(), o); err != nil || len(made) != 6 {
		t.Errorf("with nothing owed %d runs were made, %v", len(made), err)
	}

	// Another suite, or another parameter, is another run.
	s.Cells = []Cell{{Params: Params{"nodes": "8"}, Algorithm: "a", Seed: 1}}
	if err := s.Run(t.Context(), o); err != nil || len(made) != 7 {
		t.Errorf("with a new parameter %d runs were made, %v", len(made), err)
	}
}

// TestOneWriter: two runs that write one file would write over each other's lines; the second is refused, and spoils nothing.
func TestOneWriter(t *testing.T) {
	o := Options{File: filepath.Join(t.TempDir(), "results.jsonl"), Command: "go run it", Log: io.Discard}
	s := Suite{Name: "s", Cells: cells([]string{"a"}, 1, 1)}
	other := s
	other.Case = func(context.Context, *Cell) (map[string]float64, error) { return nil, errors.New("was run") }
	s.Case = func(ctx context.Context, c *Cell) (map[string]float64, error) {
		if err := other.Run(ctx, o); err == nil || !strings.Contains(err.Error(), "another run writes "+o.File) {
			t.Errorf("a second run says %v", err)
		}
		return map[string]float64{"x": 1}, nil
	}
	if err := s.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if rs, err := Read(o.File); err != nil || len(rs) != 1 || rs[0].Error != "" {
		t.Errorf("results %+v, %v", rs, err)
	}
}

// TestFailures: one failure does not stop the others, and is told at the end.
func TestFailures(t *testing.T) {
	o := Options{File: filepath.Join(t.TempDir(), "r.jsonl"), Log: io.Discard}
	s := Suite{Name: "s", Cells: cells([]string{"a", "b"}, 1), Case: func(_ context.Context, c *Cell) (map[string]float64, error) {
		c.Note("by", c.Algorithm+" 1.0")
		zero := 0.0
		if c.Algorithm == "a" {
			return map[string]float64{"x": 1 / zero}, nil
		}
		return map[string]float64{"x": 1}, nil
	}}
	if err := s.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "1 of 2 runs failed") {
		t.Errorf("the run says %v", err)
	}
	rs, err := Read(o.File)
	if err != nil || len(rs) != 2 || rs[0].Error != "x came out as +Inf" || rs[1].Error != "" || rs[0].Notes["by"] != "a 1.0" || rs[1].Notes["by"] != "b 1.0" {
		t.Errorf("%+v, %v", rs, err)
	}
}

func TestReadNamesABrokenLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.jsonl")
	if err := os.WriteFile(file, []byte("{}\n{\"suite\":\n{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(file); err == nil || !strings.Contains(err.Error(), "r.jsonl:2:") {
		t.Errorf("error %v, want one that names line 2", err)
	}
}

// TestReadByProcessor: a run on another kind of processor takes the place of the one before in Read, and both stand here; of one kind the last counts.
func TestReadByProcessor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.jsonl")
	line := func(cpu string, x int) string {
		return fmt.Sprintf(`{"suite":"s","params":{},"algorithm":"a","seed":1,"numbers":{"x":%d},"machine":{"cpu":%q}}`+"\n", x, cpu)
	}
	if err := os.WriteFile(file, []byte(line("A", 1)+line("B", 2)+line("A", 3)+line("B", 4)), 0o644); err != nil {
		t.Fatal(err)
	}
	rs, err := Read(file)
	if err != nil || len(rs) != 1 || rs[0].Numbers["x"] != 4 {
		t.Errorf("read %v, %v; want the last line", rs, err)
	}
	by, err := ReadByProcessor(file)
	if err != nil || len(by) != 2 || len(by["A"]) != 1 || by["A"][0].Numbers["x"] != 3 || len(by["B"]) != 1 || by["B"][0].Numbers["x"] != 4 {
		t.Errorf("by processor %v, %v; want the last line of each", by, err)
	}
}

// TestMeasure: what a case does around its measured part is not in its figures.
func TestMeasure(t *testing.T) {
	o := Options{File: filepath.Join(t.TempDir(), "r.jsonl"), Log: io.Discard}
	inside := errors.New("inside")
	s := Suite{Name: "s", Cells: cells([]string{"a"}, 1), Case: func(_ context.Context, c *Cell) (map[string]float64, error) {
		if err := c.Measure(func() error { return inside }); err != inside {
			t.Errorf("Measure returned %v", err)
		}
		c.measured.wall = 3e9
		c.measured.used = ticks{all: 400, idle: 100, stolen: 20}
		return map[string]float64{"x": 1}, nil
	}}
	if err := s.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	rs, err := Read(o.File)
	if err != nil || rs[0].WallS != 3 || rs[0].Busy != 0.75 || rs[0].Stolen != 0.05 {
		t.Errorf("%+v, %v", rs, err)
	}
}

func TestParseTicks(t *testing.T) {
	got := parseTicks("cpu  100 5 50 800 20 3 2 20 7 1\ncpu0 1 1 1 1\n")
	if want := (ticks{all: 1000, idle: 825, stolen: 20}); got != want {
		t.Errorf("ticks %+v, want %+v", got, want)
	}
	if got.busy() != 0.175 {
		t.Errorf("busy %v, want 0.175", got.busy())
	}
	if got := parseTicks("cpu x"); got != (ticks{}) || got.busy() != 0 {
		t.Errorf("of nonsense: %+v", got)
	}
}

func TestSpan(t *testing.T) {
	for _, tt := range []struct {
		of   []float64
		want Span
	}{
		{nil, Span{}},
		{[]float64{4}, Span{4, 4, 4, 1}},
		{[]float64{9, 1, 5}, Span{1, 5, 9, 3}},
		{[]float64{9, 1, 5, 2}, Span{1, 3.5, 9, 4}},
	} {
		if got := SpanOf(tt.of); got != tt.want {
			t.Errorf("SpanOf(%v) = %v, want %v", tt.of, got, tt.want)
		}
	}
}

// results are runs of flat at 2 s and of steal at 1 s.
func results(runs int, busy func(algorithm string, seed uint64) float64) (rs []Result) {
	for seed := range uint64(runs) {
		for i, a := range []string{"steal", "flat"} {
			rs = append(rs, Result{Suite: "s", Cell: Cell{Params: Params{"nodes": "4"}, Algorithm: a, Seed: seed},
				Numbers: map[string]float64{"mean": float64(i) + 1}, Busy: busy(a, seed), Commit: "c0ffee", Command: "go run it"})
		}
	}
	return rs
}

func speedup(e *Evidence) float64 {
	n := Params{"nodes": "4"}
	return e.Ratio("mean", Point{"flat", n}, Point{"steal", n}).Median
}

// TestRatio: runs are compared with those of their own seed.
func TestRatio(t *testing.T) {
	var rs []Result
	for seed, v := range []float64{1, 2, 4, 0, 8} {
		rs = append(rs,
			Result{Cell: Cell{Algorithm: "a", Seed: uint64(seed)}, Numbers: map[string]float64{"x": 12}},
			Result{Cell: Cell{Algorithm: "b", Seed: uint64(seed)}, Numbers: map[string]float64{"x": v}})
	}
	rs[0].Busy, rs[8].Error = 0.9, "no"
	got, bound := Ratio(rs, "x", Point{"a", nil}, Point{"b", nil})
	if want := (Span{3, 4.5, 6, 2}); got != want || bound != 1 {
		t.Errorf("ratios %+v, %d cpu-bound; want %+v, 1", got, bound, want)
	}
	e := &Evidence{rs: rs, fewer: 100}
	if got := e.Span(Point{"a", nil}, "x"); got.N != 3 || e.fewer != 3 || e.bound != 1 {
		t.Errorf("evidence %+v of %+v", got, e)
	}
}

// TestVerdicts: a claim is met or missed by enough runs in which there was
// processor time left, and by nothing else.
func TestVerdicts(t *testing.T) {
	quiet := func(string, uint64) float64 { return 0.5 }
	failed := results(5, quiet)
	failed[0].Error, failed[0].Numbers = "no", nil
	for _, tt := range []struct {
		name  string
		rs    []Result
		least float64
		want  string
	}{
		{"met", results(5, quiet), 1.9, "met"},
		{"exactly", results(5, quiet), 2, "met"},
		{"missed", results(5, quiet), 2.1, "missed"},
		{"too few", results(4, quiet), 1.9, "too few runs"},
		{"one failed", failed, 1.9, "too few runs"},
		{"none", nil, 1.9, "not measured"},
		{"all busy", results(5, func(string, uint64) float64 { return 0.9 }), 1.9, "cpu-bound"},
		{"one side busy", results(5, func(a string, _ uint64) float64 { return map[string]float64{"flat": 0.86}[a] }), 2.1, "cpu-bound"},
		{"some busy, enough left", results(7, func(_ string, seed uint64) float64 {
			if seed < 2 {
				return 1
			}
			return CPUBound
		}), 1.9, "met"},
		{"another suite's", []Result{{Suite: "other", Cell: Cell{Params: Params{"nodes": "4"}, Algorithm: "flat"}}}, 1, "not measured"},
	} {
		s := Suite{Name: "s", Claims: []Claim{{Name: "c", Number: speedup, Wanted: AtLeast(tt.least)}}}
		if got := s.Verdicts(tt.rs)[0]; got.Said != tt.want {
			t.Errorf("%s: %q (%v), want %q", tt.name, got.Said, got.Value, tt.want)
		}
	}
	busy := results(5, func(string, uint64) float64 { return 1 })
	s := Suite{Name: "s", Claims: []Claim{{Name: "c", Number: speedup, Wanted: AtLeast(2.1), Busy: true}}}
	if got := s.Verdicts(busy)[0]; got.Said != "missed" || busy[0].Busy != 1 {
		t.Errorf("a claim that must hold on a busy machine, too: %q, and the results then say %v busy", got.Said, busy[0].Busy)
	}
	if AtMost(1.02).met(1.03) || !AtMost(1.02).met(1.02) || Below(1).met(1) || !Below(1).met(0.9) {
		t.Error("limits are met on the wrong side")
	}
}

func TestTables(t *testing.T) {
	rs := results(5, func(a string, seed uint64) float64 {
		if a == "flat" || seed == 4 {
			return 0.9
		}
		return 0.2
	})
	for i := range rs {
		rs[i].Numbers["mean"] += float64(rs[i].Seed) / 10
	}
	rs = append(rs, Result{Suite: "s", Cell: Cell{Params: Params{"nodes": "4"}, Algorithm: "steal", Seed: 9}, Error: "no"})
	s := Suite{Name: "s", Cells: cells([]string{"flat", "steal"}, 1),
		Columns: []Column{{"mean", "mean (s)", 2}, {"none", "none", 0}},
		Claims:  []Claim{{Name: "twice as fast", Number: speedup, Wanted: AtLeast(1.6)}}}
	const want = `| nodes | algorithm | mean (s) | none | processors busy (%) | runs |
| --- | --- | --- | --- | --- | --- |
| 4 | flat | 2.20 (2.00–2.40) † | – | 90 | 0, 5 cpu-bound |
| 4 | steal | 1.15 (1.00–1.30) | – | 20 (20–90) | 4, 1 cpu-bound, 1 failed |
`
	if got := s.Table(rs, "nodes"); got != want {
		t.Errorf("table\n%swant\n%s", got, want)
	}
	if got := s.VerdictTable(rs); !strings.Contains(got, "| twice as fast | ≥ 1.6 | – | cpu-bound |") {
		t.Errorf("verdicts\n%s", got)
	}
	if got := s.Made(rs); !strings.Contains(got, "`go run it`") || !strings.Contains(got, "c0ffee") || !strings.Contains(got, "seeds: 0, 1, 2, 3, 4, 9") ||
		!strings.Contains(got, "- schedule: one run at a time\n") {
		t.Errorf("made\n%s", got)
	}

	// A table of two commits says so; that of a run that failed is in none.
	rs[0].Commit = "decaf"
	for what, got := range map[string]string{"table": s.Table(rs, "nodes"), "verdicts": s.VerdictTable(rs)} {
		if !strings.HasSuffix(got, "|\n\n**These are results of 2 commits, of which one may be faster than another: decaf, c0ffee.**\n") {
			t.Errorf("%s of two commits\n%s", what, got)
		}
	}
}

// TestBeside: which runs had the machine to themselves is seen in the file
// alone, in which runs of several processes may stand in any order.
func TestBeside(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.jsonl")
	var text []byte
	for _, r := range []struct {
		nodes   string
		at, end float64 // seconds
		cores   int
		failed  string
	}{
		{nodes: "4", at: 0, end: 10}, {nodes: "4", at: 10, end: 20}, // one right after the other
		{nodes: "8", at: 5, end: 15}, {nodes: "16", at: 12, end: 14}, {nodes: "16", at: 14, end: 30},
		{nodes: "32", at: 30, end: 40}, {nodes: "32", at: 40, end: 50},
		{nodes: "32", at: 45, end: 60, failed: "no"}, {nodes: "32", at: 70, end: 80},
		{nodes: "32", at: 31, end: 32, cores: 2}, // of another machine
	} {
		x := Result{Suite: "s", Cell: Cell{Params: Params{"nodes": r.nodes, "size": "1"}, Seed: uint64(100 * r.at)}, Error: r.failed,
			Machine: Machine{Cores: r.cores}, Start: time.UnixMilli(int64(1000 * r.at)).UTC(), WallS: r.end - r.at + 0.0004}
		line, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, line...), '\n')
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	rs, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, r := range rs {
		got = append(got, r.Beside)
	}
	if want := []int{1, 2, 2, 2, 2, 0, 1, 1, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("runs under way beside each: %v, want %v", got, want)
	}
	const want = "7 of 10 runs were measured beside others on the same machine, up to 3 at once; processor use is that of all of them together" +
		" (nodes=4: 2 of 2, nodes=8: 1 of 1, nodes=16: 2 of 2, nodes=32: 2 of 5)"
	if got := (Suite{Name: "s"}).Made(rs); !strings.Contains(got, "- schedule: "+want+"\n") {
		t.Errorf("made\n%swant %s", got, want)
	}

	for nodes := range mostTold { // which of so many nobody reads
		rs = append(rs, Result{Suite: "s", Cell: Cell{Params: Params{"nodes": strconv.Itoa(100 + nodes)}}})
	}
	if got := (Suite{Name: "s"}).Made(rs); !strings.Contains(got, "all of them together\n") {
		t.Errorf("made\n%swant no list of %d points", got, 4+mostTold)
	}
}

// TestCommit: what a suite writes does not make the source dirty; anything else does.
func TestCommit(t *testing.T) {
	t.Chdir(t.TempDir())
	name := func(built ...debug.BuildSetting) string {
		t.Helper()
		got, err := commitOf(built)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := name(); got != "unknown" {
		t.Errorf("outside of a repository the commit is %q", got)
	}
	git := func(args ...string) {
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	put := func(path string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString("more\n"); err != nil {
			t.Fatal(err)
		}
	}
	written := []string{"bench/x/results.jsonl", "bench/x/README.md", "bench/x/p.svg"}
	for _, f := range append(written, "x.go") {
		put(f)
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "one")
	clean := name()
	for _, f := range written {
		put(f)
	}
	if got := name(); got != clean || strings.Contains(got, "dirty") {
		t.Errorf("commit %q, and with new results %q", clean, got)
	}

	// A binary that was built before, and kept.
	head, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: strings.TrimSpace(string(head))}
	if got := name(revision, debug.BuildSetting{Key: "vcs.modified", Value: "false"}); got != clean {
		t.Errorf("commit %q of a binary of this commit, want %s", got, clean)
	}
	if got := name(revision, debug.BuildSetting{Key: "vcs.modified", Value: "true"}); got != clean+"-dirty" {
		t.Errorf("commit %q of a binary of a changed source, want %s-dirty", got, clean)
	}
	put("x.go")
	if got := name(); got != clean+"-dirty" {
		t.Errorf("commit %q with a changed source, want %s-dirty", got, clean)
	}
	git("commit", "-q", "-a", "-m", "two")
	if got, err := commitOf([]debug.BuildSetting{revision}); err == nil || !strings.Contains(err.Error(), "build it anew") {
		t.Errorf("the commit of a binary of the commit before is %q, %v", got, err)
	}
}

// TestAt: a point with a part of the parameters takes in what has them.
func TestAt(t *testing.T) {
	rs := []Result{
		{Cell: Cell{Algorithm: "a", Params: Params{"nodes": "4", "size": "1"}}},
		{Cell: Cell{Algorithm: "a", Params: Params{"nodes": "8", "size": "1"}}},
		{Cell: Cell{Algorithm: "b", Params: Params{"nodes": "4", "size": "1"}}},
	}
	if got := At(rs, Point{"a", Params{"nodes": "4"}}); !reflect.DeepEqual(got, rs[:1]) {
		t.Errorf("%+v", got)
	}
}

// TestLegendHasRoom: what does not fit into a row goes into the next, and the
// data begin below.
func TestLegendHasRoom(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.svg")
	words := []string{"mean of the nodes", "lower bound", "cpu-bound", "what else there is to say"}
	p := Picture{Groups: []string{"4"}, Series: []Series{{Name: "flat", Marks: []Mark{{Low: 1, High: 2}}}, {Name: "non-steal"}, {Name: "steal"}}}
	top := map[int]float64{} // of the data, by entries
	for n := range len(words) + 1 {
		p.Legend = nil
		for _, w := range words[:n] {
			p.Legend = append(p.Legend, Key{w, "dashed"})
		}
		if err := p.SVG(file); err != nil {
			t.Fatal(err)
		}
		svg, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts := regexp.MustCompile(`<text x="([0-9.]+)" y="-([0-9.]+)"[^>]*>([^<]*)<`).FindAllStringSubmatch(string(svg), -1)
		var lowest float64
		for _, m := range texts {
			x, _ := strconv.ParseFloat(m[1], 64)
			y, _ := strconv.ParseFloat(m[2], 64)
			if slices.Contains(words, m[3]) {
				if end := x + float64(letters().Width(m[3])); end > float64(width) {
					t.Errorf("with %d entries %q ends at %.0f of %v", n, m[3], end, width)
				}
				lowest = y
			} else if m[3] == "2.5" { // the highest tick
				top[n] = y
			}
		}
		if n > 0 && top[n] > lowest-10 {
			t.Errorf("with %d entries the data begin at %.0f, and the legend ends at %.0f", n, top[n], lowest)
		}
	}
	if top[len(words)] >= top[0] {
		t.Errorf("data begin at %.0f with a long legend, and at %.0f with a short one", top[len(words)], top[0])
	}
}

// TestPicture: every name, title and tick is in the picture, and every number
// lies on its scale.
func TestPicture(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.svg")
	p := Picture{X: "nodes", Y: "completion (s)", Groups: []string{"4", "8"}, Legend: []Key{{"lower bound", "dashed"}},
		Series: []Series{
			{"flat", []Mark{{Low: 1, High: 4, Middle: Span{2, 3, 4, 5}, Limit: 1.5}, {Low: 2, High: 43, Middle: Span{2, 3, 4, 5}}}},
			{"steal", []Mark{{Stack: []float64{1, 2}, Note: "†"}, {}}},
		}}
	for _, p.Joined = range []bool{false, true} {
		if err := p.SVG(file); err != nil {
			t.Fatal(err)
		}
		svg, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{">nodes<", ">completion (s)<", ">4<", ">8<", ">flat<", ">steal<", ">lower bound<", ">†<", "#8A939E", "#D55E00"} {
			if !strings.Contains(string(svg), want) {
				t.Errorf("joined %v: no %s in the picture", p.Joined, want)
			}
		}
	}
	for _, v := range []float64{0.003, 0.9, 1, 5.9, 43, 60, 61, 99, 12345} {
		if step, top := scale(v, pictureSteps); top < v || top > 1.6*v || top/step > 7 {
			t.Errorf("scale(%v) = %v, %v", v, step, top)
		}
	}
}

// TestPanels: every row has a panel for each column, all on one scale, and in it a line for each series; every name and tick is in the picture.
func TestPanels(t *testing.T) {
	p := Panels{X: "transfers", Y: "throughput", Columns: []string{"5 → 10", "10 → 50"}, Groups: []string{"7", "70"}, Series: []string{"paper", "optimal"},
		Legend: []Key{{"flat", "dashed"}}, Limit: 1, Rows: []Strip{
			{"star", [][][]float64{{{2, 3}, {3, 8.1}}, {{2, 0}, {0, 0}}}},
			{"deep", [][][]float64{{{1, 1}, {1, 1}}, {{1, 1}, {1, 1}}}},
		}}
	file := filepath.Join(t.TempDir(), "p.svg")
	if err := p.SVG(file); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	svg := string(b)
	for want, n := range map[string]int{">transfers<": 1, ">throughput<": 1, ">5 → 10<": 1, ">10 → 50<": 1, ">star<": 1, ">deep<": 1, ">paper<": 1, ">optimal<": 1, ">flat<": 1,
		">7<": 2, ">70<": 2, ">10<": 1, ">1.5<": 1, // ticks: groups in both columns, and the ends of both scales
		"fill:none;stroke:#D55E00;stroke-width:1.8": 4, "fill:none;stroke:#009E73;stroke-width:2": 1, // lines: of a panel, one of a single point among them; and in the legend
		"stroke-dasharray:4,2": 5, // of the limit in each panel, and in the legend
	} {
		if got := strings.Count(svg, want); got != n {
			t.Errorf("%s is %d times in the picture, want %d", want, got, n)
		}
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Error("what is no number was drawn")
	}
	for _, v := range []float64{1, 1.01, 2, 3.3, 3.95, 4.05, 7.08, 9.99, 10, 12, 101} {
		if step, top := scale(v, panelSteps); top < v || top > 2*v || top/step > 4.001 || math.Abs(top/step-math.Round(top/step)) > 1e-9 {
			t.Errorf("a scale for %v has steps of %v and ends at %v", v, step, top)
		}
	}
}

// TestRows: the axis of rows has round numbers and room for all, and a row has
// its name and a mark for what was measured.
func TestRows(t *testing.T) {
	if got := round(0.9, 25); !slices.Equal(got, []float64{1, 2, 5, 10, 20}) {
		t.Errorf("from 0.9 to 25: %v", got)
	}
	p := Rows{X: "ratio", Series: []string{"narrow", "wide"}, Limit: 1, Rows: []Row{
		{Name: "quick", Strong: true, Spans: []Span{SpanOf([]float64{1.01, 1.02, 1.1}), SpanOf([]float64{1})}},
		{Name: "slow", Spans: []Span{SpanOf([]float64{16}), {}}},
	}}
	if lo, hi := p.ends(); lo >= 1 || lo < 0.5 || hi <= 16 || hi > 32 {
		t.Errorf("the axis goes from %v to %v", lo, hi)
	}
	if lo, hi := (Rows{}).ends(); !(lo > 0 && hi > lo) {
		t.Errorf("the axis of nothing goes from %v to %v", lo, hi)
	}
	draw := func(p Rows) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "rows.svg")
		if err := p.SVG(file); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	all := draw(p)
	for _, want := range []string{">quick<", ">slow<", ">narrow<", ">wide<", ">ratio<", ">10<"} {
		if !strings.Contains(all, want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	p.Rows[1].Spans[0] = Span{}
	if fewer := draw(p); strings.Count(fewer, "<path") != strings.Count(all, "<path")-1-3 { // the mark, and the lines for 2, 5 and 10
		t.Errorf("%d strokes with a mark less, %d with it", strings.Count(fewer, "<path"), strings.Count(all, "<path"))
	}
}
