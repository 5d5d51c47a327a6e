// Package benchtest holds what programs of bench have published against what they would make of the same results now.
package benchtest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

const results = "results.jsonl"

// Published fails a test of a program of bench if write, told a directory with a copy of the program's results, makes other pages
// or pictures than those that lie beside the results. The test runs in the program's own directory, as go test does it.
func Published(t *testing.T, write func(dir string) error) {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, results), text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := write(dir); err != nil {
		t.Log(err) // of a claim that is missed, which the page says as well
	}
	made, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range made {
		want, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what report makes of %s (%v): run it and keep what it makes", f.Name(), results, err)
		}
	}
	if len(made) < 2 {
		t.Error("nothing was made")
	}
}
