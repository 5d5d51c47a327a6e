package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/freshet/freshet/internal/pki"
)

// TestMonitorInASharedDirectory has somebody put symbolic links in the way of the files all the
// time: nothing is written through them, and in the end the files are there, whole, with the key for its owner alone.
func TestMonitorInASharedDirectory(t *testing.T) {
	authority, err := pki.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	creds, err := authority.NewCredentials(pki.Monitor, "prometheus")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, ca, err := creds.PEM()
	if err != nil {
		t.Fatal(err)
	}
	files := []struct {
		name string
		mode fs.FileMode
		want []byte
	}{{"ca.pem", 0o644, ca}, {"monitor.pem", 0o644, cert}, {"monitor.key", 0o600, key}}

	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, f := range files {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					os.Symlink(victim, filepath.Join(dir, f.name)) // an error: something has the name
				}
			}
		})
	}
	for range 30 {
		if err := writeMonitor(dir, creds); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()

	if b, err := os.ReadFile(victim); err != nil || string(b) != "theirs" {
		t.Errorf("what the links lead to holds %q, %v", b, err)
	}
	if info, err := os.Stat(victim); err != nil || info.Mode() != 0o600 {
		t.Errorf("what the links lead to is %v, %v", info, err)
	}
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		if info, err := os.Lstat(path); err != nil || info.Mode() != f.mode {
			t.Errorf("%s: %v, %v, want a file of mode %v", f.name, info, err, f.mode)
		}
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, f.want) {
			t.Errorf("%s holds %d bytes, %v, want %d", f.name, len(b), err, len(f.want))
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != len(files) {
		t.Errorf("in the directory: %v, %v", all, err)
	}
}
