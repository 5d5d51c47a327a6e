package wake

import (
	"bytes"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"
)

// TestWrite: all of it arrives, however little of it the socket takes at a time.
func TestWrite(t *testing.T) {
	near, far := pair(t)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	go func() {
		defer far.Close()
		if n, err := Of(far).Write(sent); n != len(sent) || err != nil {
			t.Errorf("%d of %d bytes written: %v", n, len(sent), err)
		}
	}()
	if got, err := io.ReadAll(near); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d have come, or others: %v", len(got), len(sent), err)
	}
}

// TestWriteWaits for whoever does not read no longer than until the deadline, and says how much has gone.
func TestWriteWaits(t *testing.T) {
	_, far := pair(t)
	sent := make([]byte, 64<<20)
	far.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
	if n, err := Of(far).Write(sent); n == 0 || n == len(sent) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestWriteToNobody fails, and raises no signal.
func TestWriteToNobody(t *testing.T) {
	near, far := pair(t)
	near.Close()
	s := Of(far)
	for range 1000 {
		if _, err := s.Write([]byte("x")); err != nil {
			if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
				t.Error(err)
			}
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("what nobody can read is written")
}
