//go:build race

package control

// slowdown is how many times as long as a job one waits for a node under the race detector, which makes the hub take as much longer to read what nodes say.
const slowdown = 4
