//go:build race

package swarm

func init() { detector = true }
