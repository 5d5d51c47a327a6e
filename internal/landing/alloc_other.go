//go:build !linux

package landing

import (
	"errors"
	"os"
)

// fallocate is not there: the file is given its size only, and the disk may
// turn out to be full later.
func fallocate(*os.File, int64, int64) error { return errors.ErrUnsupported }

// startWriteback leaves it to the system when to write.
func startWriteback(*os.File) {}
