package freshet_test

import (
	"os"
	"strings"
	"testing"
)

// TestReadmeShowsTheExample: what the README has of Go is in the Example, line by line, which is run.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(readme), "\n```go\n")
	block, _, ok := strings.Cut(block, "\n```\n")
	if !ok || block == "" {
		t.Fatal("the README has no block of Go")
	}
	in := "\n\t" + strings.ReplaceAll(block, "\n", "\n\t") + "\n" // as the body of a function
	if !strings.Contains(string(example), in) {
		t.Errorf("the Example does not have, in this form:%s", in)
	}
}
