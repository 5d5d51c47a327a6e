package bench

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSweep: what a killed run left in memory is removed, what a living one has is not.
func TestSweep(t *testing.T) {
	if fi, err := os.Stat(Memory); err != nil || !fi.IsDir() {
		t.Skip("no " + Memory)
	}
	const noProcess = "4194305" // more than the kernel gives out
	name := fmt.Sprintf("freshet-sweep%d", os.Getpid())
	for dir, stays := range map[string]bool{
		"-" + noProcess: false, "-" + noProcess + "-7": false, "-1": true, "-1-7": true, "-x": true, "-": true,
	} {
		dir = filepath.Join(Memory, name+dir)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		if err := Sweep(Memory, name); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir); os.IsNotExist(err) == stays {
			t.Errorf("%s: %v; want it kept: %v", dir, err, stays)
		}
	}
}

func TestWords(t *testing.T) {
	for _, tt := range []struct {
		args  []string
		typed string
		run   bool
		flags []string
	}{
		{nil, "go run ./bench/x", true, nil},
		{[]string{"run", "-a"}, "go run ./bench/x run -a", true, []string{"-a"}},
		{[]string{"report"}, "go run ./bench/x report", false, []string{}},
		{[]string{"-a", "report"}, "go run ./bench/x -a report", true, []string{"-a", "report"}},
		{[]string{"--only", "fresh et,b", "--dir=a/b_1", "it's", "*", ""}, `go run ./bench/x --only 'fresh et,b' --dir=a/b_1 'it'\''s' '*' ''`, true, []string{"--only", "fresh et,b", "--dir=a/b_1", "it's", "*", ""}},
	} {
		typed, run, flags := Words("x", tt.args)
		if typed != tt.typed || run != tt.run || !slices.Equal(flags, tt.flags) {
			t.Errorf("%q: got %q, %v, %q", tt.args, typed, run, flags)
		}
	}
}

// TestHelp: --help says what the experiment does and which words it has, and is no failure.
func TestHelp(t *testing.T) {
	var out strings.Builder
	f := Flags("x", RunOrReport, "x weighs nodes.")
	f.Int("nodes", 8, "`number` of nodes")
	f.SetOutput(&out)
	if err := f.Parse([]string{"--help"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v, want flag.ErrHelp", err)
	}
	for _, want := range []string{"x weighs nodes.", "Usage: go run ./bench/x [run|report] [flags]", "  report  make README.md", "-nodes number"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got no %q in\n%s", want, &out)
		}
	}
}
