package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Options of a run.
type Options struct {
	File    string    // where results are kept
	Command string    // that makes them, as one would type it
	Log     io.Writer // one line a run
}

// Run makes the runs that File does not have yet. A run that fails is
// recorded as such, and the others go on; the error then says how many failed.
// When ctx ends, the run under way is given up and not recorded. One Run writes a File at a time; a second is refused.
func (s Suite) Run(ctx context.Context, o Options) (err error) {
	if err := os.MkdirAll(filepath.Dir(o.File), 0o755); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	f, err := os.OpenFile(o.File, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("results: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil { // two writers would write over each other's lines
		return fmt.Errorf("results: another run writes %s (%w): wait for its end, or have --out elsewhere and join the files by hand", o.File, err)
	}
	past, whole, err := load(o.File)
	if err != nil {
		return err
	}
	if err := f.Truncate(whole); err != nil { // a line that a kill cut short
		return fmt.Errorf("results: %w", err)
	}
	if _, err := f.Seek(whole, io.SeekStart); err != nil {
		return fmt.Errorf("results: %w", err)
	}

	have := map[string]bool{}
	for _, r := range past {
		have[key(r.Suite, r.Cell)] = r.Error == ""
	}
	var owed []Cell
	for _, c := range Interleave(s.Cells) {
		if !have[key(s.Name, c)] {
			owed = append(owed, c)
		}
	}
	if n := len(s.Cells) - len(owed); n > 0 {
		fmt.Fprintf(o.Log, "%d of %d runs are in %s already; remove it to start anew\n", n, len(s.Cells), o.File)
	}
	commit, err := Commit()
	if err != nil {
		return err
	}
	machine := ThisMachine()
	failed := 0
	for i, c := range owed {
		r, err := s.one(ctx, c)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("cut off during %v: %w; what was measured before is kept", c, err)
		}
		r.Command, r.Commit, r.Machine = o.Command, commit, machine
		if err := appendLine(f, r); err != nil {
			return fmt.Errorf("results: %w", err)
		}
		said := fmt.Sprintf("%.1f s, cpu %.0f %%", r.WallS, 100*r.Busy)
		switch {
		case r.Error != "":
			failed++
			said = "failed: " + r.Error
		case r.CPUBound():
			said += ", cpu-bound"
		}
		fmt.Fprintf(o.Log, "%3d/%d  %v: %s\n", i+1, len(owed), c, said)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d runs failed; a next call makes those of the same seeds again", failed, len(owed))
	}
	return nil
}

// one makes one run.
func (s Suite) one(ctx context.Context, c Cell) (Result, error) {
	r := Result{Suite: s.Name, Cell: c}
	whole := begin()
	numbers, err := s.Case(ctx, &c)
	whole.end()
	if err == nil {
		for name, v := range numbers {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				err = fmt.Errorf("%s came out as %v", name, v)
			}
		}
	}
	if err != nil {
		r.Error = strings.Join(strings.Fields(err.Error()), " ")
	} else {
		r.Numbers = numbers
	}
	r.Notes = c.notes
	m := c.measured
	if m.wall == 0 {
		m = whole
	}
	r.Start, r.WallS = m.began.UTC().Round(time.Millisecond), m.wall.Seconds()
	r.Busy, r.Stolen = m.used.busy(), m.used.share(m.used.stolen)
	return r, err
}

// Measure runs f as the part of the case that counts: what comes before and
// after it, such as starting a cluster, is not in the run's time and CPU use.
func (c *Cell) Measure(f func() error) error {
	c.measured = begin()
	err := f()
	c.measured.end()
	return err
}

// Note keeps words about the run beside its numbers, such as the versions of
// what ran, also if the run fails.
func (c *Cell) Note(name, text string) {
	if c.notes == nil {
		c.notes = map[string]string{}
	}
	c.notes[name] = text
}

func appendLine(f *os.File, r Result) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		return err
	}
	return f.Sync()
}

// Read returns the results in a file, of each run the last, and how many of the
// others were under way meanwhile. A last line that
// was cut short is left out; any other line that cannot be read is an error.
func Read(file string) ([]Result, error) {
	all, _, err := load(file)
	besides(all)
	return latest(all), err
}

// ReadByProcessor is Read, by the processor's name, as if the file had the results of this kind alone: what was measured on
// another kind later does not take their place.
func ReadByProcessor(file string) (map[string][]Result, error) {
	all, _, err := load(file)
	besides(all)
	by := map[string][]Result{}
	for _, r := range all {
		by[r.Machine.CPU] = append(by[r.Machine.CPU], r)
	}
	for cpu, rs := range by {
		by[cpu] = latest(rs)
	}
	return by, err
}

// latest are the last results of each run.
func latest(all []Result) (out []Result) {
	last := map[string]int{}
	for _, r := range all {
		k := key(r.Suite, r.Cell)
		if i, ok := last[k]; ok {
			out[i] = r
			continue
		}
		last[k] = len(out)
		out = append(out, r)
	}
	return out
}

// load reads all whole lines of a file, and says where the last of them ends.
// No file is no lines.
func load(file string) (rs []Result, whole int64, err error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("results: %w", err)
	}
	for n := 1; ; n++ {
		line, rest, ended := bytes.Cut(b, []byte("\n"))
		if !ended {
			return rs, whole, nil
		}
		var r Result
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, 0, fmt.Errorf("results: %s:%d: %w; mend or remove the line", file, n, err)
		}
		rs = append(rs, r)
		whole += int64(len(line)) + 1
		b = rest
	}
}

// besides fills in Beside.
func besides(rs []Result) {
	const blur = 2 * time.Millisecond // times in the file are rounded
	end := func(r *Result) time.Time {
		return r.Start.Add(time.Duration(r.WallS * float64(time.Second)))
	}
	for i := range rs {
		r := &rs[i]
		var others []*Result
		for j := range rs {
			o := &rs[j]
			if j != i && o.Machine == r.Machine && o.Start.Add(blur).Before(end(r)) && r.Start.Add(blur).Before(end(o)) {
				others = append(others, o)
			}
		}
		// Most are under way at once when one of them begins.
		for _, first := range others {
			n := 0
			for _, o := range others {
				if !o.Start.After(first.Start) && first.Start.Add(blur).Before(end(o)) {
					n++
				}
			}
			r.Beside = max(r.Beside, n)
		}
	}
}

// Commit names the source that this binary was made from. What is measured is
// made from the source in the current directory, so the two must be one: a
// binary that tells of another commit is refused. (What "go run" makes
// tells of none, and is as new as the source.) Results and what is made of them do not make the
// source dirty; a binary that was kept says only whether anything did.
func Commit() (string, error) {
	var built []debug.BuildSetting
	if b, ok := debug.ReadBuildInfo(); ok {
		built = b.Settings
	}
	return commitOf(built)
}

func commitOf(built []debug.BuildSetting) (string, error) {
	stamp := map[string]string{}
	for _, s := range built {
		stamp[s.Key] = s.Value
	}
	revision := stamp["vcs.revision"]
	head, err := git("rev-parse", "HEAD")
	if err != nil {
		return "unknown", nil
	}
	if revision != "" && revision != head {
		return "", fmt.Errorf("this binary was built from commit %.12s, and the source in the current directory, which is measured, is at %.12s: build it anew", revision, head)
	}
	name, err := git("describe", "--always")
	if err != nil {
		return "unknown", nil
	}
	changed, err := git("status", "--porcelain", "--untracked-files=no", "--", ":/",
		":(top,exclude,glob)bench/**/results.jsonl", ":(top,exclude,glob)bench/**/README.md", ":(top,exclude,glob)bench/**/*.svg")
	if err != nil || changed != "" || revision != "" && stamp["vcs.modified"] == "true" {
		name += "-dirty"
	}
	return name, nil
}

func git(args ...string) (string, error) {
	out, err := exec.Command("git", args...).Output()
	return strings.TrimSpace(string(out)), err
}
