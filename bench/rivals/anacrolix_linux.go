package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/freshet/freshet/bench"
)

// anacrolix is the Go library of that name, driven by the program in the
// directory of that name, which is a module of its own.
func anacrolix(source string) System {
	return System{
		Name: "anacrolix " + source, Programs: []string{"mktorrent", "curl"},
		Build: func() error { _, err := anacrolixClient(); return err },
		Version: func(ctx context.Context) string {
			exe, err := anacrolixClient()
			if err != nil {
				return err.Error()
			}
			return bench.Says([]string{exe, "version"}, bench.Debian("mktorrent"))(ctx)
		},
		Tuning: "TCP alone, no obfuscation, 200 connections and as many at a time as are to be made; no DHT or UPnP, which would find nobody here; " +
			"that its web seeds begin after 5 s is a constant of the library",
		Prepare: torrent(source, 0),
		Run: func(_ context.Context, t *Trial) error {
			exe, err := anacrolixClient()
			if err != nil {
				return err
			}
			t.words = append(t.words, exe, "anacrolix")
			return t.swarm(source, func(node string, _ bool) string {
				return fmt.Sprintf("exec %s %s %s %s %v", exe, t.torrent(), t.save(node), t.Mark(node), t.Lab.Addr(node))
			})
		},
	}
}

// anacrolixClient is the path of the program, built once. The file has no name
// any more then, and is gone when this process is.
var anacrolixClient = sync.OnceValues(func() (path string, err error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("build anacrolix: which is this module? %w", err)
	}
	dir, err := os.MkdirTemp("", "freshet-rivals-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	exe := filepath.Join(dir, "anacrolix")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", exe, ".")
	cmd.Dir = filepath.Join(strings.TrimSpace(string(root)), "bench", "rivals", "anacrolix")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build anacrolix: %w: %s; scripts/rivals gets what it needs", err, out)
	}
	f, err := os.Open(exe)
	if err != nil {
		return "", err
	}
	kept = append(kept, f)
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()), nil
})

var kept []*os.File // open for as long as we live
