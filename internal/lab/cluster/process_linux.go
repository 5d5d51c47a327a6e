package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/freshet/freshet/unit"
)

// Process is one of the cluster: the store, the control plane or an agent.
type Process struct {
	name, host, exe string
	args, env       []string
	launcher        func(host string, cmd *exec.Cmd) error
	log             string // file of its standard error; its standard output is beside it

	mu    sync.Mutex // guards what follows
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended
	ready []byte        // the line that said that it was ready
}

func (p *Process) out() string { return p.log + ".out" }

// start starts it, with input on its standard input, and returns when it says that it is ready.
func (p *Process) start(ctx context.Context, input string) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	ended, err := p.launch(input)
	if err != nil {
		return err
	}
	for {
		b, err := os.ReadFile(p.out())
		if err != nil {
			return err
		}
		if line, _, whole := bytes.Cut(b, []byte("\n")); whole {
			p.mu.Lock()
			p.ready = line
			p.mu.Unlock()
			return nil
		}
		select {
		case <-ended:
			return p.explain(fmt.Errorf("%s ended before it was ready", p.name))
		case <-ctx.Done():
			return p.explain(fmt.Errorf("%s is not ready: %w", p.name, ctx.Err()))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// launch starts it, without waiting for more.
func (p *Process) launch(input string) (ended <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		select {
		case <-p.ended:
		default:
			return nil, fmt.Errorf("%s is running already", p.name)
		}
	}
	out, err := os.Create(p.out())
	if err != nil {
		return nil, err
	}
	defer out.Close()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(p.exe, p.args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.env, strings.NewReader(input), out, log
	if err := p.launcher(p.host, cmd); err != nil {
		return nil, fmt.Errorf("start %s on %s: %w", p.name, p.host, err)
	}
	done := make(chan struct{})
	p.cmd, p.ended = cmd, done
	go func() { // ends with the process; Kill and End wait for it
		cmd.Wait()
		close(done)
	}()
	return done, nil
}

// onThisMachine starts a process that a terminal's Ctrl-C does not reach, since we end it ourselves, and
// that ends when we are killed.
func onThisMachine(_ string, cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd.Start()
}

// Name is what it is called: the node's name, "hub" or "store".
func (p *Process) Name() string { return p.name }

// Signal sends it a signal.
func (p *Process) Signal(s os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return fmt.Errorf("%s was not started", p.name)
	}
	return p.cmd.Process.Signal(s)
}

// Kill ends it with SIGKILL, and returns when it has ended.
func (p *Process) Kill() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return p.End(ctx, os.Kill)
}

// End sends it a signal and waits for its end. One that has ended before is fine.
func (p *Process) End(ctx context.Context, s os.Signal) error {
	p.mu.Lock()
	cmd, ended := p.cmd, p.ended
	p.mu.Unlock()
	if cmd == nil {
		return nil
	}
	if err := cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("%v to %s: %w", s, p.name, err)
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return p.explain(fmt.Errorf("%s has not ended after %v: %w", p.name, s, ctx.Err()))
	}
}

// Ended is closed when it has ended.
func (p *Process) Ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// PID is its process's number, 0 before its start.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// PeakMemory is the most that it had in memory at any time. It has to be running.
func (p *Process) PeakMemory() (unit.Bytes, error) {
	path := fmt.Sprintf("/proc/%d/status", p.PID())
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("peak memory of %s: %w", p.name, err)
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("peak memory of %s, in %s: %w", p.name, path, err)
			}
			return unit.Bytes(kib) * unit.KiB, nil
		}
	}
	return 0, fmt.Errorf("peak memory of %s: %s has no VmHWM; has it ended?", p.name, path)
}

// Restart kills it if it still runs, starts it again with the same arguments
// but for the token, and returns when it is ready.
func (p *Process) Restart(ctx context.Context) error {
	if err := p.End(ctx, syscall.SIGKILL); err != nil {
		return err
	}
	p.mu.Lock()
	for i, a := range p.args {
		if a == "--token" {
			p.args = append(p.args[:i:i], p.args[i+2:]...)
			break
		}
	}
	p.mu.Unlock()
	return p.start(ctx, "")
}

// Log is all that it said on standard error, of all its starts.
func (p *Process) Log() string {
	b, _ := os.ReadFile(p.log)
	return string(b)
}

// tail is the last lines of its log.
func (p *Process) tail() string {
	const most = 12
	lines := strings.Split(strings.TrimSpace(p.Log()), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// explain adds to an error what the process said at last.
func (p *Process) explain(err error) error {
	return fmt.Errorf("%w; %s said at last:\n%s", err, p.name, p.tail())
}
