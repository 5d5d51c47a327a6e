package landing

import (
	"os"
	"syscall"
)

// direct is a file whose reading and writing does not tell Go's runtime if it lies in memory (direct_linux.go).
type direct struct {
	*os.File
	raw    syscall.RawConn
	memory bool // it lies in memory
}

// directly is f so.
func directly(f *os.File) (d direct) {
	d.File = f
	if raw, err := f.SyscallConn(); err == nil {
		d.raw, d.memory = raw, inMemory(raw)
	}
	return d
}
