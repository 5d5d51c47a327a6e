package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unicode"
)

// Main is the main function of an experiment: it runs command with the command line until that
// returns or the process is told to end. Who asked for help has it by then.
func Main(name string, command func(ctx context.Context, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// Words takes what stands before an experiment's flags: "run", which is also meant where there is
// nothing, or "report". typed is the whole command, for the results.
func Words(name string, args []string) (typed string, run bool, flags []string) {
	typed = "go run ./bench/" + name
	for _, arg := range args {
		typed += " " + quoted(arg)
	}
	if len(args) > 0 && (args[0] == "run" || args[0] == "report") {
		return typed, args[0] == "run", args[1:]
	}
	return typed, true, args
}

// quoted is an argument as a shell takes it.
func quoted(arg string) string {
	if arg != "" && !strings.ContainsFunc(arg, func(r rune) bool {
		return !strings.ContainsRune("+,-./:=@_", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// Flags is the set of an experiment's flags. Its --help says first what the experiment does, and which words may
// stand before the flags; about is a sentence or some, in lines that fit a terminal.
func Flags(name, words, about string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprintf(f.Output(), "%s\n\nUsage: go run ./bench/%s %s [flags]\n", about, name, words)
		if words == RunOrReport {
			fmt.Fprint(f.Output(), "\n  run     make the runs that results.jsonl does not have, and then the report (also without a word)\n"+
				"  report  make README.md and pictures from results.jsonl, and run nothing\n")
		}
		fmt.Fprint(f.Output(), "\nFlags:\n")
		f.PrintDefaults()
	}
	return f
}

// RunOrReport are the words that most experiments have.
const RunOrReport = "[run|report]"

// Memory is where experiments have their files: a disk slower than all links
// together would be what is measured.
const Memory = "/dev/shm"

// Sweep removes what runs that were killed left in a directory, such as Memory: directories NAME-PID or NAME-PID-more of
// processes that are no more.
func Sweep(place, name string) error {
	left, err := orphans(place, name)
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// orphans are the directories NAME-PID or NAME-PID-more of processes that are no more.
func orphans(place, name string) (left []string, err error) {
	all, err := filepath.Glob(filepath.Join(place, name+"-*"))
	for _, dir := range all {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), name+"-"), "-")
		if n, err := strconv.Atoi(pid); err == nil && n > 0 && errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
			left = append(left, dir)
		}
	}
	return left, err
}
