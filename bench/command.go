package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Main is the main function of an experiment: it runs command with the command line until that
// returns or the process is told to end.
func Main(name string, command func(ctx context.Context, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// Words takes what stands before an experiment's flags: "run", which is also meant where there is
// nothing, or "report". typed is the whole command, for the results.
func Words(name string, args []string) (typed string, run bool, flags []string) {
	typed = strings.Join(append([]string{"go run ./bench/" + name}, args...), " ")
	if len(args) > 0 && (args[0] == "run" || args[0] == "report") {
		return typed, args[0] == "run", args[1:]
	}
	return typed, true, args
}

// Memory is where experiments have their files: a disk slower than all links
// together would be what is measured.
const Memory = "/dev/shm"

// Sweep removes what runs left in Memory that were killed: directories NAME-PID or NAME-PID-more of
// processes that are no more.
func Sweep(name string) error {
	left, err := filepath.Glob(filepath.Join(Memory, name+"-*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), name+"-"), "-")
		n, err := strconv.Atoi(pid)
		if err != nil || n <= 0 || !errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}
