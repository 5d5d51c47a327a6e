//go:build !linux

package main

import "syscall"

// ofItsOwn keeps a terminal's Ctrl-C from a process, which we end ourselves.
func ofItsOwn() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
