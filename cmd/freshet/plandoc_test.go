package main

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestPlanDoc types what "A first plan" in docs/plan.md says, in an empty directory, and compares what is printed with what
// stands there, but for times.
func TestPlanDoc(t *testing.T) {
	text, err := os.ReadFile("../../docs/plan.md")
	if err != nil {
		t.Fatal(err)
	}
	const atLeast = 5
	commands, prints := 0, 0
	dir := t.TempDir()
	path := filepath.Dir(built(t)) + string(os.PathListSeparator) + os.Getenv("PATH")
	blocks := strings.Split(section(string(text), "## A first plan"), "\n```")
	for i := 1; i < len(blocks); i += 2 { // between them is prose
		kind, typed, _ := strings.Cut(blocks[i], "\n")
		if kind != "sh" {
			continue
		}
		commands++
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", typed)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+path)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s\n%v\n%s", typed, err, out)
		}
		if i+2 >= len(blocks) {
			break
		}
		if kind, want, _ := strings.Cut(blocks[i+2], "\n"); kind == "text" {
			prints++
			if got := timeless(string(out)); got != timeless(want) {
				t.Errorf("%s\nprints\n%s\nand not\n%s", typed, out, want)
			}
		}
	}
	if commands < atLeast || prints < atLeast {
		t.Errorf("%d blocks of commands and %d of what they print, want %d or more of each: the section was renamed, or its blocks are not ```sh and ```text", commands, prints, atLeast)
	}
	planNumbers(t, dir)
}

// planNumbers compares what --json says of the plan in docs/plan.md, whose files are in dir: every number that the page has, and those that it has not.
func planNumbers(t *testing.T, dir string) {
	for _, c := range []struct{ flags, want string }{
		{"", `{
			"mode": "optimal", "throughput": 212.5e6, "bound": 212.5e6, "bound_by": "pipelines with floors", "free_bound": 212.5e6, "gap": 0,
			"min_rate": 25e6, "theta": 25e6, "floor": 12.5e6, "starved": [], "unreachable": [],
			"flows": [
				{"transfer": "model", "path": ["a1", "a2", "b2", "b1"], "rate": 25e6},
				{"transfer": "model", "path": ["a1", "a2", "b1"], "rate": 37.5e6},
				{"transfer": "logs", "path": ["b1", "a2"], "rate": 62.5e6}],
			"links": [
				{"from": "a1", "to": "sa", "duplex": "full", "load": 62.5e6, "rate": 125e6},
				{"from": "a2", "to": "sa", "duplex": "full", "load": 62.5e6, "rate": 125e6},
				{"from": "sa", "to": "a2", "duplex": "full", "load": 125e6, "rate": 125e6},
				{"from": "b1", "to": "sb", "duplex": "full", "load": 62.5e6, "rate": 125e6},
				{"from": "sb", "to": "b1", "duplex": "full", "load": 62.5e6, "rate": 125e6},
				{"from": "b2", "to": "sb", "duplex": "full", "load": 25e6, "rate": 25e6},
				{"from": "sb", "to": "b2", "duplex": "full", "load": 25e6, "rate": 25e6},
				{"from": "sa", "to": "sb", "duplex": "full", "load": 62.5e6, "rate": 62.5e6},
				{"from": "sb", "to": "sa", "duplex": "full", "load": 62.5e6, "rate": 62.5e6}],
			"transfers": [
				{"name": "model", "size": 21474836480, "rate": 150e6, "finish_s": 858.9934592},
				{"name": "logs", "size": 5368709120, "rate": 62.5e6, "finish_s": 85.89934592}]}`},
		// 1 - 137.5/212.5 is missing where each transfer has one pipeline.
		{"--mode pipeline", `{"mode": "pipeline", "throughput": 137.5e6, "bound": 212.5e6, "gap": 0.3529411765, "min_rate": 25e6}`},
		// A flow that crosses a link twice loads it twice.
		{"--mode random --floor 0 --seed 10", `{
			"flows": [
				{"transfer": "model", "path": ["a1", "b1", "a2", "b2"], "rate": 25e6},
				{"transfer": "logs", "path": ["b1", "a2"], "rate": 37.5e6}],
			"links": [
				{"from": "a1", "to": "sa", "duplex": "full", "load": 25e6, "rate": 125e6},
				{"from": "a2", "to": "sa", "duplex": "full", "load": 25e6, "rate": 125e6},
				{"from": "sa", "to": "a2", "duplex": "full", "load": 62.5e6, "rate": 125e6},
				{"from": "b1", "to": "sb", "duplex": "full", "load": 62.5e6, "rate": 125e6},
				{"from": "sb", "to": "b1", "duplex": "full", "load": 25e6, "rate": 125e6},
				{"from": "sb", "to": "b2", "duplex": "full", "load": 25e6, "rate": 25e6},
				{"from": "sa", "to": "sb", "duplex": "full", "load": 50e6, "rate": 62.5e6},
				{"from": "sb", "to": "sa", "duplex": "full", "load": 62.5e6, "rate": 62.5e6}]}`},
	} {
		cmd := exec.CommandContext(t.Context(), built(t), strings.Fields("plan net.yaml transfers.yaml --json "+c.flags)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", c.flags, err, out)
		}
		var got, want map[string]any
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%s: %v\n%s", c.flags, err, out)
		}
		if err := json.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		if s, ok := got["planning_s"].(float64); !ok || s <= 0 {
			t.Errorf("%s: planned in %v", c.flags, got["planning_s"])
		}
		if delete(got, "planning_s"); c.flags == "" && len(got) != len(want) {
			t.Errorf("%d fields besides planning_s, want %d: %s", len(got), len(want), out)
		}
		for field := range want {
			if g, w := rounded(got[field]), rounded(want[field]); !reflect.DeepEqual(g, w) {
				t.Errorf("%s: %s is %v\nwant %v", c.flags, field, g, w)
			}
		}
	}
}

// rounded is a value of JSON with numbers to six digits.
func rounded(v any) any {
	switch v := v.(type) {
	case float64:
		if math.Abs(v) < 1e-9 {
			v = 0
		}
		return strconv.FormatFloat(v, 'g', 6, 64)
	case []any:
		all := []any{}
		for _, e := range v {
			all = append(all, rounded(e))
		}
		return all
	case map[string]any:
		all := map[string]any{}
		for k, e := range v {
			all[k] = rounded(e)
		}
		return all
	}
	return v
}

// timeless is a text without how long planning took, and without what columns are filled up with.
func timeless(s string) string {
	s = regexp.MustCompile(`\d+\.\d{3} s\b`).ReplaceAllString(s, "some time")
	return strings.Join(strings.Fields(s), " ")
}
