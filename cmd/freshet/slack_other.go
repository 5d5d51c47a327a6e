//go:build !linux

package main

// slacken does nothing: elsewhere the system has no such setting.
func slacken() {}
