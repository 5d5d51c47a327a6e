package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/internal/lab"
	"github.com/freshet/freshet/unit"
)

// TestMain lets the test's binary be the web server, as the command's is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		bench.Main("cpu", command)
		return
	}
	os.Exit(m.Run())
}

// TestSystems: every system that is installed brings the object to both nodes, to the second one from the first, and
// nothing stays behind.
func TestSystems(t *testing.T) {
	lab.New(t, lab.Star([]string{"a"}, lab.Link{})) // says whether there can be one here
	g, err := bench.NewGroup(fmt.Sprintf("freshet-cpu-try-%d", os.Getpid()))
	if err != nil {
		t.Skip("no control groups that we may make here: ", err)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	if len(systems) != len(order) {
		t.Errorf("%d systems, %d in the report", len(systems), len(order))
	}
	for i, s := range systems {
		if s.name != order[i] || s.tuning == "" {
			t.Errorf("system %d is %q, %q in the report; or nothing is said of it", i, s.name, order[i])
		}
		t.Run(s.name, func(t *testing.T) {
			if err := bench.Missing(s.programs); err != nil {
				t.Skip(err)
			}
			c := bench.Cell{Params: params(8*unit.MiB, 400*unit.Mbit), Algorithm: s.name, Seed: 1}
			got, err := run(t.Context(), &c)
			if err != nil {
				t.Fatal(err)
			}
			if got["first_cpu_per_gb"] <= 0 || got["second_cpu_per_gb"] <= 0 || got["seconds"] <= 0 {
				t.Errorf("%v", got)
			}
		})
	}
	for _, pattern := range []string{filepath.Join(bench.Memory, "freshet-cpu-*"), "/sys/fs/cgroup/*/freshet-cpu-*", "/sys/fs/cgroup/freshet-cpu-*"} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			t.Errorf("still there: %v", left)
		}
	}
}
