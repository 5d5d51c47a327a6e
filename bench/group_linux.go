package bench

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

// Group is a control group (version 2). Processes are born into it, and so are
// theirs: the kernel then counts the processor time of all of them together,
// those that have ended included, whoever waited for them; and it ends them all.
type Group struct {
	path string
	dir  *os.File
}

// NewGroup makes one.
func NewGroup(name string) (*Group, error) {
	mount, err := groups()
	if err != nil {
		return nil, err
	}
	g := &Group{path: filepath.Join(mount, name)}
	if err := os.Mkdir(g.path, 0o755); err != nil {
		return nil, fmt.Errorf("control group: %w", err)
	}
	if g.dir, err = os.Open(g.path); err != nil {
		return nil, errors.Join(err, os.Remove(g.path))
	}
	return g, nil
}

// groups is where control groups are.
func groups() (mount string, err error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) >= 3 && fields[2] == "cgroup2" {
			return fields[1], nil
		}
	}
	return "", errors.New("no control groups of version 2 are mounted: mount -t cgroup2 none /sys/fs/cgroup")
}

// SweepGroups ends and removes the groups that runs left which were killed: NAME-PID or NAME-PID-more of processes that are no more.
func SweepGroups(ctx context.Context, name string) error {
	mount, err := groups()
	if err != nil {
		return err
	}
	left, err := orphans(mount, name)
	for _, path := range left {
		g := Group{path: path}
		err = errors.Join(err, g.Kill(ctx), os.Remove(path))
	}
	return err
}

// Adopt has a command that is yet to be started born into g.
func (g *Group) Adopt(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(g.dir.Fd())
}

// CPU is the processor time that all of g have used, in user and system mode.
func (g *Group) CPU() (time.Duration, error) {
	us, err := g.value("cpu.stat", "usage_usec")
	return time.Duration(us) * time.Microsecond, err
}

// value is a number in one of the group's files of lines "name number".
func (g *Group) value(file, name string) (int64, error) {
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

// Kill ends all of g, and returns when they have ended.
func (g *Group) Kill(ctx context.Context) error {
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

// Remove takes g away; nobody may be in it any more.
func (g *Group) Remove() error { return errors.Join(g.dir.Close(), os.Remove(g.path)) }
