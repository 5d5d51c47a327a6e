// Command freshet moves one object from an object store to every node of a
// cluster. It parses and prints; what it does is in package freshet and below.
//
// One file holds one command, or one with those of its kind (jobs.go, nodes.go,
// plan.go and what begins with it). What several share is in
//
//	main.go      signals, exit codes, how an error is shown
//	root.go      the tree of commands and the flags of all
//	state.go     where credentials lie by default, and how they are found
//	files.go     files that are read or written whole
//	declare.go   what --declare says of the network
//	result.go    a job as the numbers that --json prints
//	outcome.go   what a job came to, in words
//	progress.go  a job while it runs: view.go draws it on a terminal, lines.go in lines
//
// Standard output has what was asked for, standard error what went wrong, and
// the log.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unicode"

	"github.com/freshet/freshet"
)

// What the process ends with.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // as a shell says of one that SIGINT ended
)

func main() { os.Exit(execute()) }

// execute runs the command line and returns the exit code.
func execute() int {
	ctx, stop := interruptible()
	defer stop()
	return code(newRoot().ExecuteContext(ctx))
}

// interruptible returns a context that the first SIGINT or SIGTERM ends. The
// second one ends the process at once, whatever it is waiting for.
func interruptible() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-signals:
			cancel()
		case <-done:
			return
		}
		select {
		case s := <-signals:
			slog.Warn("a second signal: ending at once; what was under way is cut off", "signal", s.String())
			os.Exit(exitInterrupted)
		case <-done:
		}
	})
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		wg.Wait()
		cancel()
	}
}

// usageError is a command line that makes no sense as it stands.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errInterrupted is a command that the user ended before it was through.
var errInterrupted = errors.New("interrupted")

// errShown is a failure of which everything has been said already.
var errShown = errors.New("failed")

// oneLine is a text as one line, in which what a terminal would obey is written as Go writes it: errors have names of files and what others have sent.
func oneLine(s string) string {
	var b strings.Builder
	for _, r := range strings.Join(strings.Fields(s), " ") {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// code shows err, as one line, and returns the exit code that it stands for.
func code(err error) int {
	if err == nil {
		return exitOK
	}
	if !errors.Is(err, errShown) {
		fmt.Fprintln(os.Stderr, "freshet: "+oneLine(err.Error()))
	}
	switch _, usage := errors.AsType[usageError](err); {
	case usage, errors.Is(err, freshet.ErrInvalid):
		return exitUsage
	case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitFailed
}
