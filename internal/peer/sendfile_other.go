//go:build !linux

package peer

import (
	"errors"
	"syscall"
)

const canSendFile = false

func sendMore(syscall.RawConn, []byte) error { return errors.ErrUnsupported }

func sendFile(syscall.RawConn, syscall.RawConn, int64, int) (int, error) {
	return 0, errors.ErrUnsupported
}
