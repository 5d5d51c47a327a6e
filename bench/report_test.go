package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
)

// TestPublish: a page has its own values and those of all reports, and a claim that is missed is an
// error that names it.
func TestPublish(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadAny(filepath.Join(dir, "results.jsonl")); err == nil || !strings.Contains(err.Error(), "no results; run first") {
		t.Errorf("without results: %v", err)
	}
	page := template.Must(template.New("page").Parse("{{.Own}}; {{.Enough}} runs, {{.Bound}} %; {{.Claims}}{{.Made}}"))
	for _, tt := range []struct {
		least float64
		want  string
	}{{1, ""}, {1000, "missed: speedup: "}} {
		s := Suite{Name: "s", Claims: []Claim{{Name: "speedup", Number: speedup, Wanted: AtLeast(tt.least)}}}
		rs := results(Enough, func(string, uint64) float64 { return 0 })
		if err := s.Publish(dir, rs, page, map[string]any{"Own": "ours"}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "README.md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"ours; 5 runs, 85 %; ", "| speedup |", "- command: "} {
			if !strings.Contains(string(text), want) {
				t.Errorf("the page lacks %q:\n%s", want, text)
			}
		}
		if err := s.Missed(rs); (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("wanted at least %v: %v, want %q", tt.least, err, tt.want)
		}
	}
}
