package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file is replaced whole, and keeps its permissions; a link leads where it led.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	holds := func(name, want string) {
		t.Helper()
		if b, err := os.ReadFile(at(name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v; want %q", name, b, err, want)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := writeFile(at(name), []byte(text)); err != nil {
			t.Error(err)
		}
	}
	write("page", "first")
	holds("page", "first")
	if err := os.Chmod(at("page"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(at("page"), at("before")); err != nil {
		t.Fatal(err)
	}
	write("page", "second")
	holds("page", "second")
	holds("before", "first") // who has it open sees no half of another
	if fi, err := os.Stat(at("page")); err != nil || fi.Mode().Perm() != 0o640 {
		t.Errorf("permissions %v, %v", fi.Mode(), err)
	}
	if err := os.Symlink("page", at("link")); err != nil {
		t.Fatal(err)
	}
	write("link", "third")
	holds("page", "third")
	for name, want := range map[string]string{"none/page": "none/page: no such file or directory", "": "is a directory"} {
		if err := writeFile(at(name), nil); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 3 {
		t.Errorf("%v, %v: want page, before and link", all, err)
	}
}
