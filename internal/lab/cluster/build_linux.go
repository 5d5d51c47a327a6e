package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
)

// Built is the path of the freshet binary, built from the module in whose tree
// this process runs: static, and without the race detector.
var Built = sync.OnceValues(func() (string, error) { return Build() })

// Build builds the binary with more flags of "go build". The file has no name
// any more when Build returns: the path leads through our own descriptor of it,
// and it is gone when this process is, however that ends.
func Build(flags ...string) (path string, err error) {
	dir, err := os.MkdirTemp("", "freshet-lab-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	exe := filepath.Join(dir, "freshet")
	cmd := exec.Command("go", slices.Concat([]string{"build", "-buildvcs=false", "-o", exe}, flags, []string{"github.com/freshet/freshet/cmd/freshet"})...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build freshet: %w: %s", err, out)
	}
	f, err := os.Open(exe)
	if err != nil {
		return "", err
	}
	keep(f)
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()), nil
}

var (
	mu   sync.Mutex // guards open
	open []*os.File // for as long as we live
)

func keep(f *os.File) {
	mu.Lock()
	defer mu.Unlock()
	open = append(open, f)
}
