package main

import "syscall"

// dieWithParent ends a child when this process is killed. (The signal comes
// when the starting thread ends; Go's main thread lives as long as the process,
// and others that start children are kept by the runtime.)
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
