package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// onTerminal runs a program with its output on a terminal of 24 lines and 100
// columns, and writes all that the terminal was sent to a file, with every
// return to the beginning of a line as its end.
func onTerminal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: terminal FILE PROGRAM ARG…")
	}
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	ts.Check(err)
	defer master.Close()
	fd := int(master.Fd())
	ts.Check(unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	ts.Check(err)
	ts.Check(unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}))
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(ts, args[1]), args[2:]...)
	cmd.Dir, cmd.Stdout, cmd.Env = ts.MkAbs("."), slave, append(environ(ts), "TERM=xterm")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	var seen bytes.Buffer
	shown := make(chan struct{})
	err = cmd.Start()
	slave.Close() // the program has it
	ts.Check(err)
	go func() { // ends when the program has let go of the terminal
		defer close(shown)
		seen.ReadFrom(master)
	}()
	err = cmd.Wait()
	<-shown
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), bytes.ReplaceAll(seen.Bytes(), []byte("\r"), []byte("\n")), 0o644))
	if err != nil {
		ts.Fatalf("%s: %v: %s\n%s", args[1], err, errs.Bytes(), seen.Bytes())
	}
}
