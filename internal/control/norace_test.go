//go:build !race

package control

const slowdown = 1
