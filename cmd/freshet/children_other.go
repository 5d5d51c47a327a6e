//go:build !linux

package main

import "syscall"

// dieWithParent: only Linux ends children with their parent.
func dieWithParent() *syscall.SysProcAttr { return nil }
