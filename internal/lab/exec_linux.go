package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// Exec turns this process into a command in a host of a lab that another
// process owns; name is the lab's Name, and names is what the command finds in
// /etc/hosts. It returns only if it could not. The process ends with the lab.
func Exec(name, host, names string, argv []string) error {
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
	if err := unix.Unshare(unix.CLONE_NEWUTS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("lab: unshare: %w", err)
	}
	if err := tellNames(names); err != nil {
		return fmt.Errorf("lab: host %s: /etc/hosts: %w", host, err)
	}
	if err := unix.Sethostname([]byte(host)); err != nil {
		return fmt.Errorf("lab: set hostname: %w", err)
	}
	return fmt.Errorf("lab: run %s: %w", program, unix.Exec(program, argv, os.Environ()))
}

// tellNames puts a text in the place of /etc/hosts, for those who share this
// thread's mounts. On a machine that has none there is nothing to be replaced.
func tellNames(names string) error {
	const hosts = "/etc/hosts"
	if _, err := os.Stat(hosts); err != nil {
		return nil
	}
	// What is mounted here, others must not see. What they unmount goes here,
	// too: else the names of namespaces would live on.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return err
	}
	f, err := os.CreateTemp("", "freshet-lab-hosts-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // the mount keeps what is in it
	_, err = f.WriteString(names)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return unix.Mount(f.Name(), hosts, "", unix.MS_BIND, "")
}
