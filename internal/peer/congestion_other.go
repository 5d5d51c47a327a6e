//go:build !linux

package peer

// Elsewhere a socket's congestion control is the system's.

func setCongestion(uintptr, string) {}

func congestion(uintptr) string { return "" }
