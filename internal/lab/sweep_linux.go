package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"golang.org/x/sys/unix"
)

// prefix is what the names of all labs' namespaces begin with; the owner's
// process id follows.
const prefix = "fl"

var ours = regexp.MustCompile(`^` + prefix + `([0-9]+)\.[0-9]+(-[a-z0-9-]+)?$`)

// Sweep removes what owners left that are dead: it ends the processes in their
// namespaces, and takes the namespaces' names away. It returns those names.
// Labs whose owners live are spared.
func Sweep() ([]string, error) {
	free, err := building()
	if err != nil {
		return nil, err
	}
	defer free()
	return sweep()
}

func sweep() ([]string, error) {
	entries, err := os.ReadDir(namedDir)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	var names []string
	var inodes []uint64
	held := make(map[int]map[uint64]bool) // by owner
	for _, e := range entries {
		m := ours.FindStringSubmatch(e.Name())
		if m == nil {
			continue
		}
		pid, err := strconv.Atoi(m[1])
		if err != nil {
			continue
		}
		if held[pid] == nil {
			held[pid] = holds(pid)
		}
		ino := named(e.Name())
		if ino == 0 && len(held[pid]) > 0 || held[pid][ino] {
			continue
		}
		if ino != 0 {
			inodes = append(inodes, ino)
		}
		names = append(names, e.Name())
	}
	if len(names) == 0 {
		return nil, nil
	}
	errs := []error{killAll(inodes)}
	for _, n := range names {
		errs = append(errs, unname(n))
	}
	return names, errors.Join(errs...)
}

// named is the inode of the namespace with that name; zero if the name has
// none, as while it is made.
func named(name string) uint64 {
	var fs unix.Statfs_t
	var s unix.Stat_t
	path := filepath.Join(namedDir, name)
	if unix.Statfs(path, &fs) != nil || fs.Type != unix.NSFS_MAGIC || unix.Stat(path, &s) != nil {
		return 0
	}
	return s.Ino
}

// holds are the namespaces that a process has open. An owner has all of its
// own open, and before they get their names; so a process that only came by a
// dead owner's number is told from it.
func holds(pid int) map[uint64]bool {
	open := make(map[uint64]bool)
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return open
	}
	for _, e := range entries {
		if ino, err := linked(filepath.Join(dir, e.Name())); err == nil {
			open[ino] = true
		}
	}
	return open
}
