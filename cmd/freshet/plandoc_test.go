package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPlanDoc types what "A first plan" in docs/plan.md says, in an empty directory, and compares what is printed with what
// stands there, but for times.
func TestPlanDoc(t *testing.T) {
	text, err := os.ReadFile("../../docs/plan.md")
	if err != nil {
		t.Fatal(err)
	}
	const atLeast = 5
	commands, prints := 0, 0
	dir := t.TempDir()
	path := filepath.Dir(built(t)) + string(os.PathListSeparator) + os.Getenv("PATH")
	blocks := strings.Split(section(string(text), "## A first plan"), "\n```")
	for i := 1; i < len(blocks); i += 2 { // between them is prose
		kind, typed, _ := strings.Cut(blocks[i], "\n")
		if kind != "sh" {
			continue
		}
		commands++
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", typed)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+path)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s\n%v\n%s", typed, err, out)
		}
		if i+2 >= len(blocks) {
			break
		}
		if kind, want, _ := strings.Cut(blocks[i+2], "\n"); kind == "text" {
			prints++
			if got := timeless(string(out)); got != timeless(want) {
				t.Errorf("%s\nprints\n%s\nand not\n%s", typed, out, want)
			}
		}
	}
	if commands < atLeast || prints < atLeast {
		t.Errorf("%d blocks of commands and %d of what they print, want %d or more of each: the section was renamed, or its blocks are not ```sh and ```text", commands, prints, atLeast)
	}
}

// timeless is a text without how long planning took, and without what columns are filled up with.
func timeless(s string) string {
	s = regexp.MustCompile(`\d+\.\d{3} s\b`).ReplaceAllString(s, "some time")
	return strings.Join(strings.Fields(s), " ")
}
