package bench

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"text/template"
)

// ReadAny is Read of a file that must have results.
func ReadAny(file string) ([]Result, error) {
	rs, err := Read(file)
	if err == nil && len(rs) == 0 {
		err = fmt.Errorf("%s has no results; run first", file)
	}
	return rs, err
}

// Publish makes README.md in a directory from results alone, and shows people what the claims come to, if there are any.
// The page has values of its own, and those that all reports have: Claims, Made, Enough and Bound.
func (s Suite) Publish(dir string, rs []Result, page *template.Template, values map[string]any) error {
	claims := s.VerdictTable(rs)
	all := map[string]any{"Claims": claims, "Made": s.Made(rs), "Enough": Enough, "Bound": 100 * CPUBound}
	maps.Copy(all, values)
	var b bytes.Buffer
	if err := page.Execute(&b, all); err != nil {
		return err
	}
	file := filepath.Join(dir, "README.md")
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if len(s.Claims) > 0 {
		fmt.Print(claims)
	}
	fmt.Println("report:", file)
	return nil
}

// Missed is an error that names the first claim that is missed; nil if none is.
func (s Suite) Missed(rs []Result) error {
	for _, v := range s.Verdicts(rs) {
		if v.Said == "missed" {
			return fmt.Errorf("missed: %s: %.3f, want %v", v.Name, v.Value, v.Wanted)
		}
	}
	return nil
}
