package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Who waits until somebody opens the other end of a pipe waits no longer than ctx.
func TestReadingEnds(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	read := make(chan error, 1)
	go func() {
		_, err := readText(ctx, name)
		read <- err
	}()
	cancel()
	select {
	case err := <-read:
		if !errors.Is(err, errInterrupted) {
			t.Errorf("got %v, want %v", err, errInterrupted)
		}
	case <-time.After(patience):
		t.Errorf("it still waits after %v", patience)
	}
	other, err := os.OpenFile(name, os.O_RDWR, 0) // lets go who was left behind
	if err != nil {
		t.Fatal(err)
	}
	other.Close()
}
