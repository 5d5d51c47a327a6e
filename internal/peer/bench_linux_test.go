package peer

import (
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkTrickle moves the same frames over many connections that are slow, in packets
// as an Ethernet carries them: what a connection is that shares a link with others.
func BenchmarkTrickle(b *testing.B) {
	const conns, rate = 32, 2 << 20 // bytes per second, of each
	for _, way := range []string{"tls", "plain-tls", "trusted"} {
		b.Run(way, func(b *testing.B) {
			benchFrames(b, way, conns, func(fd uintptr) {
				unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, 1448)
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, rate)
			})
		})
	}
}
