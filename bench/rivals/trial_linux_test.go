package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/internal/lab"
	"github.com/freshet/freshet/unit"
)

// laboratory skips the test where there can be none.
func laboratory(t *testing.T) {
	t.Helper()
	lab.New(t, lab.Star([]string{"a"}, lab.Link{}))
	g, err := bench.NewGroup(fmt.Sprintf("freshet-rivals-try-%d", os.Getpid()))
	if err != nil {
		t.Skip("no control groups that we may make here: ", err)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}

// few are two nodes with fast links and 2 MiB.
var few = scale{nodes: 2, rate: 800 * unit.Mbit, size: 4 * unit.MiB}

// try runs a system once in a cell, and returns what the file then has of it.
func try(t *testing.T, s System, cell string, patience time.Duration) (bench.Result, error) {
	t.Helper()
	k, err := kindOf(cell)
	if err != nil {
		t.Fatal(err)
	}
	e := &experiment{systems: []System{s}, patience: patience}
	all := suite(few.cells([]string{s.Name}, []kind{k}, 1))
	all.Case = e.run
	file := filepath.Join(t.TempDir(), "results.jsonl")
	failed := all.Run(t.Context(), bench.Options{File: file, Log: io.Discard})
	rs, err := bench.ReadAny(file)
	if err != nil {
		t.Fatal(failed, err)
	}
	if rs[0].Error != "" {
		failed = errors.New(rs[0].Error)
	}
	return rs[0], failed
}

// TestTrial: our own and the others' programs bring one object, or 32 files of
// it, to two nodes; who reads what from the store and who uses processors is in
// the numbers.
func TestTrial(t *testing.T) {
	laboratory(t)
	flat, rival := ours("flat", "tls"), aria2("web")
	for _, c := range []struct {
		system System
		cell   string
		copies float64 // that leave the store
	}{{flat, "sites", 2}, {chain(), "shards", 1}, {rival, "wide", 0}} {
		t.Run(c.system.Name, func(t *testing.T) {
			if err := c.system.missing(); err != nil {
				t.Skip(err)
			}
			r, err := try(t, c.system, c.cell, 2*time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			got := r.Numbers
			if got["makespan_s"] < got["mean_s"] || got["mean_s"] < got["fastest_s"] || got["fastest_s"] <= 0 || got["ratio"] < 0.9 {
				t.Errorf("times: %v", got)
			}
			if got["cpu_per_gb"] <= 0 || got["store_cpu_per_gb"] <= 0 {
				t.Errorf("processor time: %v", got)
			}
			if s := got["store_multiple"]; c.copies > 0 && (s < c.copies || s > 1.1*c.copies) || s < 1 {
				t.Errorf("%v objects left the store, want %v", s, c.copies)
			}
			if x, ok := got["crossed_multiple"]; ok != (c.cell == "sites") || ok && (x < 0.9 || x > 1.2) {
				t.Errorf("%v objects crossed between the sites, want 1", x)
			}
			if _, ok := got["make_s"]; ok != (c.system.Name == rival.Name) {
				t.Errorf("a torrent was made: %v", ok)
			}
			agents := ""
			if own(c.system.Name) {
				agents = "n01$ freshet agent --security tls --site sw\nn02$ freshet agent --security tls --site far"
			}
			if got := r.Notes["agents"]; got != agents {
				t.Errorf("agents: %q, want %q", got, agents)
			}
			limited := strings.Contains(r.Notes["store"], " --rate-per-client paper*")
			if !strings.HasPrefix(r.Notes["store"], "freshet s3 --seed 1") || limited == (c.cell == "wide") || r.Notes["commands"] == "" || r.Notes["tuning"] == "" {
				t.Errorf("notes: %q", r.Notes)
			}
		})
	}
}

// TestBadSystems: who fails, hangs, or says that it was through with other bytes
// is a failure that says so, and leaves nothing behind, not even a process.
func TestBadSystems(t *testing.T) {
	laboratory(t)
	everywhere := func(script string) func(context.Context, *Trial) error {
		return func(_ context.Context, t *Trial) error {
			return t.everywhere(func(node string) string {
				return strings.NewReplacer("DIR", t.Dir(node), "MARK", t.Mark(node), "SIZE", fmt.Sprint(int64(t.Each))).Replace(script)
			})
		}
	}
	for _, c := range []struct {
		name   string
		script string
		within time.Duration
		want   string
	}{
		{"it fails", "echo no luck >&2; exit 3", time.Minute, "exit status 3: no luck"},
		{"it hangs", "setsid sleep 1000 & sleep 1000", 2 * time.Second, "these have not got it: n01, n02"},
		{"it lies", "head -c SIZE /dev/zero >DIR/part-00; : >MARK; setsid sleep 1000", time.Minute, "n01 said that it was through, and its part-00 is not what the store has"},
		{"it forgets", ": >MARK; sleep 1000", time.Minute, "n01 said that it was through"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var dir string
			run := everywhere(c.script)
			r, err := try(t, System{Name: c.name, Run: func(ctx context.Context, t *Trial) error {
				dir = t.Root
				return run(ctx, t)
			}}, "wide", c.within)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, %v; want an error with %q", r.Numbers, err, c.want)
			}
			if _, err := os.Stat(dir); dir == "" || !os.IsNotExist(err) {
				t.Errorf("%q is still there: %v", dir, err)
			}
			for _, mount := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
				if left, _ := filepath.Glob(mount + filepath.Base(dir) + "*"); len(left) > 0 {
					t.Errorf("control groups are still there: %v", left)
				}
			}
		})
	}
}

// TestChosen: systems are chosen by name and pattern, and a misspelt one is refused.
func TestChosen(t *testing.T) {
	all := systems()
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
	}
	if want := systemNames(); !slices.Equal(names, want) {
		t.Errorf("the systems are %q, and the report knows of %q", names, want)
	}
	seen := map[string]bool{}
	for _, s := range all {
		if seen[s.Name] || s.Run == nil || s.Tuning == "" || own(s.Name) == (s.Agents == nil) {
			t.Errorf("system %q: twice %v, or something lacks", s.Name, seen[s.Name])
		}
		seen[s.Name] = true
	}
	if !seen[best] {
		t.Errorf("%s is not among the systems", best)
	}
	got, err := chosen(all, tunings(), "aria2*,chain,aria2 web")
	if err != nil || len(got) != 3 || got[0].Name != "aria2 web" || got[2].Name != "chain" {
		t.Errorf("%d systems, %v", len(got), err)
	}
	if _, err := chosen(all, tunings(), "aria3"); err == nil || !strings.Contains(err.Error(), "aria2 web") {
		t.Errorf("a misspelt system: %v", err)
	}
	if err := (System{Programs: []string{"no-such-program"}}).missing(); err == nil || !strings.Contains(err.Error(), "scripts/rivals") {
		t.Errorf("a missing program: %v", err)
	}
}
