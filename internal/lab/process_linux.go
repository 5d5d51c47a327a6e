package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// spawner is the thread that starts all processes of a lab. The kernel kills
// a process when the thread that started it is gone, so this one must live as
// long as the lab, and no longer than the process.
type spawner struct {
	jobs       chan func()
	quit, done chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{make(chan func()), make(chan struct{}), make(chan struct{})}
	go func() { // close waits for it
		defer close(s.done)
		onThread(func() {
			for {
				select {
				case f := <-s.jobs:
					f()
				case <-s.quit:
					return
				}
			}
		})
	}()
	return s
}

// run runs f on the thread.
func (s *spawner) run(f func() error) error {
	result := make(chan error, 1)
	select {
	case s.jobs <- func() { result <- f() }:
		return <-result
	case <-s.done:
		return errors.New("the lab is closed")
	}
}

func (s *spawner) close() {
	close(s.quit)
	<-s.done
}

// Start starts cmd in a host: with its network and its hostname. The process
// is killed when this process dies, or the lab is closed; its own children are
// then killed by Close, or by the next lab. The caller must Wait for cmd.
func (l *Lab) Start(host string, cmd *exec.Cmd) error {
	h, err := l.host(host)
	if err != nil {
		return err
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	err = l.spawn.run(func() error {
		if err := h.enter(); err != nil {
			return err
		}
		return cmd.Start()
	})
	if err != nil {
		return fmt.Errorf("lab: host %s: start %s: %w", host, cmd.Path, err)
	}
	return nil
}

// Kill ends all processes in a host, without warning.
func (l *Lab) Kill(host string) error {
	h, err := l.host(host)
	if err != nil {
		return err
	}
	return killAll([]uint64{h.inode()})
}

// Stop makes all processes in a host stand still. The kernel goes on to answer
// for their sockets, as it does for a program that hangs. One that sleeps in the kernel, as who has begun a child by vfork does until
// that one, which is stopped, goes on, stops before it does anything else.
func (l *Lab) Stop(host string) error {
	h, err := l.host(host)
	if err != nil {
		return err
	}
	return signalAll([]uint64{h.inode()}, unix.SIGSTOP, func(state byte, told bool) bool { return state == 'T' || state == 't' || state == 'D' && told })
}

// Continue ends what Stop began.
func (l *Lab) Continue(host string) error {
	h, err := l.host(host)
	if err != nil {
		return err
	}
	return signalAll([]uint64{h.inode()}, unix.SIGCONT, func(state byte, _ bool) bool { return state != 'T' })
}

// killAll ends all processes in the namespaces, and waits until they are gone.
func killAll(inodes []uint64) error {
	return signalAll(inodes, unix.SIGKILL, func(byte, bool) bool { return false })
}

// patience is how long the processes of a host may take to do what a signal
// says that they cannot refuse.
const patience = 15 * time.Second

// signalAll signals all processes in the namespaces until none is left that is
// not as it should be: one that started others meanwhile is caught in the next
// round. told says whether a process has been signalled.
func signalAll(inodes []uint64, sig unix.Signal, ok func(state byte, told bool) bool) error {
	told, wait := map[int]bool{}, time.Millisecond
	for end := time.Now().Add(patience); ; {
		pids, err := processes(inodes)
		if err != nil {
			return err
		}
		pids = slices.DeleteFunc(pids, func(pid int) bool { s, alive := state(pid); return !alive || ok(s, told[pid]) })
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("lab: processes %v have not taken %v after %v", pids, sig, patience)
		}
		for _, pid := range pids {
			if err := unix.Kill(pid, sig); err != nil && err != unix.ESRCH {
				return fmt.Errorf("lab: signal process %d: %w", pid, err)
			}
			told[pid] = true
		}
		time.Sleep(wait)
		wait = min(2*wait, 50*time.Millisecond)
	}
}

// inode is the number by which a namespace is known under /proc.
func (n *namespace) inode() uint64 {
	var s unix.Stat_t
	if unix.Fstat(int(n.net), &s) != nil {
		return 0
	}
	return s.Ino
}

// processes lists who is in one of the namespaces, but for this process.
func processes(inodes []uint64) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		ino, err := linked(filepath.Join("/proc", e.Name(), "ns/net"))
		if err == nil && slices.Contains(inodes, ino) { // an error: it is gone, or a zombie
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// linked is the inode of a namespace that a link under /proc leads to.
func linked(path string) (uint64, error) {
	to, err := os.Readlink(path)
	if err != nil {
		return 0, err
	}
	num, ok := strings.CutPrefix(to, "net:[")
	if !ok {
		return 0, errors.New("not a network namespace")
	}
	return strconv.ParseUint(strings.TrimSuffix(num, "]"), 10, 64)
}

// state is the letter that says how a process is, from its stat file: the
// first field after the command's name, which is in brackets.
func state(pid int) (s byte, alive bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	i := strings.LastIndexByte(string(b), ')')
	if i < 0 || i+2 >= len(b) {
		return 0, false
	}
	s = b[i+2]
	return s, s != 'Z' && s != 'X'
}
