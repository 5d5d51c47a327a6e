//go:build unix

package file

import (
	"io/fs"
	"syscall"
)

// nonblock keeps the opening of a pipe, put there since we looked, from
// waiting for its writer.
const nonblock = syscall.O_NONBLOCK

// inode is the number of the file on its file system.
func inode(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino)
	}
	return 0
}
