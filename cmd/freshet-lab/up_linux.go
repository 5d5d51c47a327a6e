package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/internal/lab"
)

func newUp(p *place) *cobra.Command {
	var detach bool
	cmd := &cobra.Command{
		Use:   "up SPEC.yaml",
		Short: "Build the network of a spec, and keep it until down or a signal",
		Long: `Build the network of a spec, and keep it until "freshet-lab down" or a signal.
A spec of - is read from standard input. What owners left that were killed is
removed first.`,
		Example: `  freshet-lab example star | freshet-lab up --detach -`,
		Args:    cobra.ExactArgs(1),
	}
	cmd.Flags().BoolVar(&detach, "detach", false, "return when it stands, and keep it in the background")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		text, err := readSpec(cmd.InOrStdin(), args[0])
		if err != nil {
			return err
		}
		spec, err := lab.ParseSpec(text)
		if err != nil {
			if args[0] == "-" {
				args[0] = "standard input"
			}
			return fmt.Errorf("%s: %w", args[0], err)
		}
		if p.lab == "" {
			p.lab = "lab"
		}
		if detach {
			return p.detached(cmd.OutOrStdout(), text)
		}
		return p.own(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), spec)
	}
	return cmd
}

func readSpec(stdin io.Reader, path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(path)
}

// own builds the lab and answers for it until ctx ends or it is told to end.
func (p *place) own(ctx context.Context, out, hint io.Writer, spec lab.Spec) (err error) {
	ln, err := p.claim(ctx, p.lab)
	if err != nil {
		return err
	}
	defer ln.Close() // also removes the socket
	l, err := lab.Up(spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()

	a, err := do(l, request{Verb: "list"})
	if err != nil {
		return err
	}
	print(out, p.lab, a)
	if f, ok := out.(*os.File); ok {
		f.Close() // whoever waits for the lab to stand, sees it now
	}
	fmt.Fprintf(hint, "The lab stands until Ctrl-C here, or freshet-lab down %s.\n", p.lab)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	end := func() {
		cancel()
		ln.Close() // now, so that its name is free when the answer arrives
	}
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	var answering sync.WaitGroup
	defer answering.Wait()
	for {
		c, err := ln.Accept()
		if ctx.Err() != nil {
			return nil
		} else if err != nil {
			return fmt.Errorf("lab %s: %w", p.lab, err)
		}
		answering.Go(func() {
			defer c.Close()
			c.SetDeadline(time.Now().Add(patience))
			serve(l, c, end)
		})
	}
}

// serve answers one request. After "down" the lab is closed, and the owner
// ends when it has said so.
func serve(l *lab.Lab, c net.Conn, end func()) {
	var r request
	var a answer
	err := json.NewDecoder(io.LimitReader(c, 1<<20)).Decode(&r)
	if err == nil {
		if r.Verb == "down" {
			err = l.Close()
			end()
		} else {
			a, err = do(l, r)
		}
	}
	if err != nil {
		a.Error = err.Error()
	}
	_ = json.NewEncoder(c).Encode(a) // who asked has gone, then
}

// detached starts an owner that outlives this process, and returns when its
// lab stands.
func (p *place) detached(out io.Writer, spec []byte) error {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	in, err := os.CreateTemp(p.dir, "spec-")
	if err != nil {
		return err
	}
	defer in.Close()
	defer os.Remove(in.Name())
	if _, err := in.Write(spec); err != nil {
		return err
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return err
	}
	log, err := os.Create(p.log(p.lab))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := &exec.Cmd{
		Path:        "/proc/self/exe",
		Args:        []string{os.Args[0], "up", "--lab", p.lab, "--run-dir", p.dir, "-"},
		Stdin:       in,
		Stderr:      log,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	stands, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	said, err := io.ReadAll(stands) // until it stands, or has failed
	if err == nil && len(said) > 0 {
		_, err = out.Write(said)
		return err
	}
	why := cmd.Wait()
	b, _ := os.ReadFile(log.Name())
	os.Remove(log.Name())
	return fmt.Errorf("the owner ended (%v): %s", why, strings.TrimSpace(string(b)))
}
