package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// children are the agents of a demo: processes of this program.
type children struct {
	all  []*child
	wg   sync.WaitGroup
	fail chan error
}

type child struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// start starts one, with input on its standard input and env beside our own environment.
func (c *children) start(exe, name, log, input string, env []string, args ...string) error {
	if c.fail == nil {
		c.fail = make(chan error, 64)
	}
	f, err := os.Create(log)
	if err != nil {
		return err
	}
	defer f.Close()
	cmd := exec.Command(exe, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), f, f
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	k := &child{name: name, cmd: cmd, log: log, done: make(chan struct{})}
	c.all = append(c.all, k)
	c.wg.Go(func() {
		defer close(k.done)
		if err := cmd.Wait(); err != nil {
			select {
			case c.fail <- fmt.Errorf("agent %s ended: %w", name, err):
			default:
			}
		}
	})
	return nil
}

// ended delivers why a child ended, if one does.
func (c *children) ended() <-chan error { return c.fail }

// stop asks all to end, and ends those that do not within five seconds.
func (c *children) stop() {
	for _, k := range c.all {
		k.cmd.Process.Signal(syscall.SIGTERM)
	}
	late := time.AfterFunc(5*time.Second, func() {
		for _, k := range c.all {
			k.cmd.Process.Kill()
		}
	})
	defer late.Stop()
	c.wg.Wait()
}

// explain shows the end of what each child had to say.
func (c *children) explain(w io.Writer) {
	for _, k := range c.all {
		b, _ := os.ReadFile(k.log)
		lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
		if last := lines[len(lines)-1]; len(last) > 0 {
			fmt.Fprintf(w, "%s: %s\n", k.name, last)
		}
	}
}
