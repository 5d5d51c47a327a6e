package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// Exec turns this process into a command in a host of a lab that another
// process owns; name is the lab's Name. It returns only if it could not. The
// process ends with the lab.
func Exec(name, host string, argv []string) error {
	runtime.LockOSThread() // it is this thread that becomes the command
	defer runtime.UnlockOSThread()
	path := filepath.Join(namedDir, name+"-"+host)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("lab: open %s: %w; is the lab still there?", path, err)
	}
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("lab: enter %s: %w", path, err)
	}
	if err := unix.Unshare(unix.CLONE_NEWUTS); err != nil {
		return fmt.Errorf("lab: unshare: %w", err)
	}
	if err := unix.Sethostname([]byte(host)); err != nil {
		return fmt.Errorf("lab: set hostname: %w", err)
	}
	return fmt.Errorf("lab: run %s: %w", program, unix.Exec(program, argv, os.Environ()))
}
