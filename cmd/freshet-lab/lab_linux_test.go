package main

import (
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/freshet/freshet/internal/lab"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"freshet-lab": main})
}

// TestScript uses the command as a person would. The labs' sockets are in a
// directory of the test's own, so that labs of others are left alone.
func TestScript(t *testing.T) {
	lab.New(t, lab.Star([]string{"n0"}, lab.Link{})) // skips where there are no labs
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			dir, err := os.MkdirTemp("", "lab-") // short: it becomes a socket's address
			if err != nil {
				return err
			}
			e.Setenv("RUN", dir)
			e.Defer(func() { os.RemoveAll(dir) })
			return nil
		},
	})
}

func TestExamplesCanBeBuilt(t *testing.T) {
	names := exampleNames()
	if len(names) < 3 {
		t.Errorf("there are the examples %v, want at least three", names)
	}
	for _, name := range names {
		if _, err := lab.ParseSpec([]byte(example(name))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if help := newRoot().Long; !strings.Contains(help, "delay: 10ms") {
		t.Error("the help shows no spec")
	}
}
