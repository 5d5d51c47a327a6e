package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	g, err := bench.NewGroup(fmt.Sprintf("freshet-trial-try-%d", os.Getpid()))
	if err != nil {
		t.Skip("no control groups that we may make here: ", err)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}

// TestTrial: programs bring an object to a node, and their group counts what that takes; a program that fails and a file that is
// another one are told; of all of it nothing stays behind, not even a process.
func TestTrial(t *testing.T) {
	laboratory(t)
	const node, object = "n01", "some/object"
	network := lab.Star([]string{node}, lab.Link{})
	network.Attach("sw", Store, Hub)
	trial, err := New(t.Context(), Config{
		Name: "freshet-trial", Network: network, Nodes: []string{node}, Objects: []string{object}, Each: unit.MiB, Public: true,
		Env: map[string][]string{node: {"LUCK=none"}}, Group: func(host string) string { return host },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer trial.Close() // if something below is fatal
	if err := trial.Ballast(); err != nil {
		t.Error(err)
	}
	if err := trial.Verify(); err == nil || !strings.Contains(err.Error(), "node n01 said that it was through") {
		t.Errorf("a node has nothing: %v", err)
	}
	if err := trial.Shell(node, fmt.Sprintf("cp %s %s; : >%s", trial.Stored(object), trial.File(node, object), trial.Mark(node))); err != nil {
		t.Fatal(err)
	}
	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := trial.Await(within, func() bool { _, err := os.Stat(trial.Mark(node)); return err == nil }); err != nil {
		t.Fatal(err)
	}
	if err := trial.Verify(); err != nil {
		t.Error(err)
	}
	if used, err := trial.CPU(); err != nil || len(used) != 3 || used[node] <= 0 || used[Store] <= 0 || used[Hub] <= 0 {
		t.Errorf("processor time: %v, %v", used, err)
	}
	if err := os.Truncate(trial.File(node, object), 3); err != nil {
		t.Fatal(err)
	}
	if err := trial.Verify(); err == nil || !strings.Contains(err.Error(), "its object is not what the store has") {
		t.Errorf("a node has something else: %v", err)
	}
	never := func() bool { return false }
	if err := trial.Shell(node, "echo luck: $LUCK >&2; exit 3"); err != nil {
		t.Fatal(err)
	}
	if err := trial.Await(within, never); err == nil || !strings.Contains(err.Error(), "n01: bash: exit status 3: luck: none") {
		t.Errorf("a program failed: %v", err)
	}
	if err := trial.Run(within, node, "bash", "-c", "exit 4"); err == nil || !strings.Contains(err.Error(), "exit status 4") {
		t.Errorf("a program failed: %v", err)
	}
	if err := trial.Start(node, "sleep", "1000"); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := trial.Await(soon, never); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("what is never so: %v", err)
	}
	if err := trial.Close(); err != nil {
		t.Error(err)
	}
	for _, pattern := range []string{trial.Root, "/sys/fs/cgroup/*/" + filepath.Base(trial.Root) + "*", "/sys/fs/cgroup/" + filepath.Base(trial.Root) + "*"} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			t.Errorf("still there: %v", left)
		}
	}
}

// TestNothingIsLeftOfHalf: a trial that cannot be built leaves nothing behind.
func TestNothingIsLeftOfHalf(t *testing.T) {
	laboratory(t)
	network := lab.Star(nil, lab.Link{})
	network.Attach("sw", Store, Hub)
	_, err := New(t.Context(), Config{Name: "freshet-trial-half", Network: network, StoreArgs: []string{"--no-such-flag"}, Group: func(string) string { return "all" }})
	if err == nil || !strings.Contains(err.Error(), "--no-such-flag") {
		t.Errorf("a store that does not start: %v", err)
	}
	for _, pattern := range []string{bench.Memory + "/freshet-trial-half-*", "/sys/fs/cgroup/*/freshet-trial-half-*", "/sys/fs/cgroup/freshet-trial-half-*"} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			t.Errorf("still there: %v", left)
		}
	}
}
