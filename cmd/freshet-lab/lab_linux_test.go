package main

import (
	"net/netip"
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

func TestWhoMayRunWhat(t *testing.T) {
	for _, c := range newRoot().Commands() {
		if err := mayRun(c.Name(), 0); err != nil {
			t.Errorf("root: %v", err)
		}
		if err := mayRun(c.Name(), 1000); (err == nil) != (c.Name() == "example") {
			t.Errorf("without root's rights: %s: %v", c.Name(), err)
		}
	}
}

// TestNamesForAHost: a host knows the addresses that it reaches, and no others.
func TestNamesForAHost(t *testing.T) {
	at := netip.MustParseAddr
	a0 := host{"a0", []netip.Addr{at("10.64.0.1")}}
	relay := host{"relay", []netip.Addr{at("10.64.0.2"), at("10.65.0.1")}}
	b0 := host{"b0", []netip.Addr{at("10.65.0.2")}}
	all := []host{a0, relay, b0}
	for _, c := range []struct {
		of   host
		want string
	}{
		{a0, "10.64.0.1 a0\n10.64.0.2 relay\n"},
		{b0, "10.65.0.1 relay\n10.65.0.2 b0\n"},
	} {
		if got := namesFor(c.of, all); got != "127.0.0.1 localhost\n"+c.want {
			t.Errorf("names for %s:\n%s", c.of.Name, got)
		}
	}
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
