package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// group is a control group (version 2). Processes are born into it, and so are
// theirs: the kernel then counts the processor time of all of them together,
// those that have ended included, whoever waited for them; and it ends them all.
type group struct {
	path string
	dir  *os.File
}

// newGroup makes one.
func newGroup(name string) (*group, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[2] != "cgroup2" {
			continue
		}
		g := &group{path: filepath.Join(fields[1], name)}
		if err := os.Mkdir(g.path, 0o755); err != nil {
			return nil, fmt.Errorf("control group: %w", err)
		}
		if g.dir, err = os.Open(g.path); err != nil {
			return nil, errors.Join(err, os.Remove(g.path))
		}
		return g, nil
	}
	return nil, errors.New("no control groups of version 2 are mounted: mount -t cgroup2 none /sys/fs/cgroup")
}

// adopt has a command that is yet to be started born into g.
func (g *group) adopt(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(g.dir.Fd())
}

// cpu is the processor time that all of g have used, in user and system mode.
func (g *group) cpu() (time.Duration, error) {
	us, err := g.value("cpu.stat", "usage_usec")
	return time.Duration(us) * time.Microsecond, err
}

// value is a number in one of the group's files of lines "name number".
func (g *group) value(file, name string) (int64, error) {
	b, err := os.ReadFile(filepath.Join(g.path, file))
	if err != nil {
		return 0, fmt.Errorf("control group: %w", err)
	}
	for line := range bytes.Lines(b) {
		if k, v, ok := strings.Cut(strings.TrimSpace(string(line)), " "); ok && k == name {
			return strconv.ParseInt(v, 10, 64)
		}
	}
	return 0, fmt.Errorf("control group: %s/%s has no %s", g.path, file, name)
}

// kill ends all of g, and returns when they have ended.
func (g *group) kill(ctx context.Context) error {
	if err := os.WriteFile(filepath.Join(g.path, "cgroup.kill"), []byte("1"), 0); err != nil {
		return fmt.Errorf("control group: %w", err)
	}
	for {
		alive, err := g.value("cgroup.events", "populated")
		if err != nil || alive == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("processes of control group %s are still there: %w", g.path, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// remove takes g away; nobody may be in it any more.
func (g *group) remove() error { return errors.Join(g.dir.Close(), os.Remove(g.path)) }
