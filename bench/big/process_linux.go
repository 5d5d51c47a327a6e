package main

import "syscall"

// ofItsOwn keeps a terminal's Ctrl-C from a process, which we end ourselves,
// and ends it if we are killed.
func ofItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
