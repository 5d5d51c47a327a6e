// Simlab runs the same scenarios in the laboratory, with the real binary, and in the simulation, and says how far
// the simulation is off.
//
//	simlab run FILE...     in the laboratory; a line each to results.jsonl
//	simlab compare         fits the simulation's two constants to the fitting scenarios, and shows all;
//	                       it exits with 1 if one of the others is farther off than it may be
//
// The constants are what the simulation leaves out: the share of a link that is payload, and the time from
// a job's acceptance until its nodes begin.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/internal/scenario"
	"github.com/freshet/freshet/unit"
)

// fitting are the scenarios to which constants are fitted. They were chosen before anything was compared.
var fitting = []string{"01-steal-8", "02-stream-16", "03-non-steal-16", "04-stream-sites"}

// most is how far the simulation may be off where nothing was fitted.
const most = 0.15

// line is one run in the laboratory.
type line struct {
	Scenario string    `json:"scenario"`
	Makespan float64   `json:"makespan_s"`
	CPU      float64   `json:"cpu"` // of all the machine's processors, the share that was busy
	Commit   string    `json:"commit"`
	Time     time.Time `json:"time"`
}

func main() {
	bench.Main("simlab", func(ctx context.Context, args []string) error { return command(ctx, args, os.Stdout) })
}

func command(ctx context.Context, args []string, out io.Writer) error {
	f := bench.Flags("simlab", "run|compare", `simlab runs the same scenarios in a laboratory of networks, with the real binary, and in the
simulation, and says how far the simulation is off.

  run      run the scenarios FILE..., named after the flags, in the laboratory, as root;
           a line each to results.jsonl
  compare  fit the simulation's two constants, and show all scenarios; exit with 1 if
           the simulation is off by more than 15 % where nothing was fitted`)
	results := f.String("results", "bench/simlab/results.jsonl", "`file` of the runs in the laboratory, one a line")
	dir := f.String("scenarios", "bench/simlab/scenarios", "`directory` of the scenarios that compare shows")
	if len(args) == 0 {
		return errors.New("say run or compare")
	}
	word := args[0]
	if strings.HasPrefix(word, "-") { // --help, most likely
		word = ""
	} else {
		args = args[1:]
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	switch word {
	case "run":
		return run(ctx, f.Args(), *results, out)
	case "compare":
		return compare(ctx, *dir, *results, out)
	}
	return fmt.Errorf("%q: say run or compare, and then flags", word)
}

// run runs scenarios in the laboratory, one after the other, and appends what they came to.
func run(ctx context.Context, files []string, results string, out io.Writer) error {
	if len(files) == 0 {
		return errors.New("name scenarios to run")
	}
	commit, err := bench.Commit()
	if err != nil {
		return err
	}
	for _, name := range files {
		s, err := scenario.Read(name)
		if err != nil {
			return err
		}
		l, err := inLab(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		l.Scenario, l.Commit, l.Time = title(name), commit, time.Now().UTC().Truncate(time.Second)
		text, err := json.Marshal(l)
		if err != nil {
			return err
		}
		w, err := os.OpenFile(results, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "%s\n", text)
		if err := errors.Join(err, w.Close()); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n", text)
	}
	return nil
}

func title(name string) string { return strings.TrimSuffix(filepath.Base(name), ".yaml") }

// read is the makespan of each scenario's last run.
func read(name string) (map[string]float64, error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("nothing was run in the laboratory: there is no %s; simlab run comes first", name)
	}
	if err != nil {
		return nil, err
	}
	last := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		last[l.Scenario] = l.Makespan
	}
	return last, lines.Err()
}

// constants are what is fitted.
type constants struct {
	share float64 // of a link's rate that is payload
	start float64 // seconds until the nodes begin
}

// simulate is a scenario's makespan in the simulation.
func simulate(ctx context.Context, name string, c constants) (float64, error) {
	s, err := scenario.Read(name)
	if err != nil {
		return 0, err
	}
	for i := range s.Network.Links {
		l := &s.Network.Links[i]
		l.Rate = unit.Bandwidth(float64(l.Rate) * c.share)
		l.Back = unit.Bandwidth(float64(l.Back) * c.share)
	}
	for i := range s.Events {
		e := &s.Events[i]
		e.Rate = unit.Bandwidth(float64(e.Rate) * c.share)
		e.At = max(0, e.At-time.Duration(c.start*1e9))
	}
	r, err := s.Run(ctx)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return c.start + r.Makespan, nil
}

// fit looks for the constants with which the squares of the errors are least, among shares a hundredth and starts
// a twentieth of a second apart. Nothing happens at a set time in the scenarios that are fitted, so that a start only adds up.
func fit(ctx context.Context, dir string, lab map[string]float64) (best constants, err error) {
	least := math.Inf(1)
	for hundredths := 80; hundredths <= 100; hundredths++ {
		c := constants{share: float64(hundredths) / 100}
		times := make([]float64, len(fitting))
		for i, k := range fitting {
			if times[i], err = simulate(ctx, filepath.Join(dir, k+".yaml"), c); err != nil {
				return best, err
			}
		}
		for c.start = 0; c.start <= 2; c.start += 0.05 {
			squares := 0.0
			for i, k := range fitting {
				off := (times[i]+c.start)/lab[k] - 1
				squares += off * off
			}
			if squares < least {
				least, best = squares, c
			}
		}
	}
	return best, nil
}

// compare prints, for each scenario, what the laboratory and the simulation came to. It fails if they are too far apart.
func compare(ctx context.Context, dir, results string, out io.Writer) error {
	lab, err := read(results)
	if err != nil {
		return err
	}
	for _, k := range fitting {
		if lab[k] == 0 {
			return fmt.Errorf("%s was not run in the laboratory, and the constants are fitted to it", k)
		}
	}
	c, err := fit(ctx, dir, lab)
	if err != nil {
		return err
	}
	return show(ctx, dir, lab, c, out)
}

// show prints the comparison as README.md has it, and fails as compare does.
func show(ctx context.Context, dir string, lab map[string]float64, c constants, out io.Writer) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Fitted: %.0f %% of a link is payload, and nodes begin %.2f s after the start.\n\n| scenario | laboratory | simulation | error | |\n| --- | --- | --- | --- | --- |\n", 100*c.share, c.start)
	worst, farthest := 0.0, ""
	for _, name := range files {
		k := title(name)
		t, err := simulate(ctx, name, c)
		if err != nil {
			return err
		}
		if lab[k] == 0 {
			fmt.Fprintf(out, "| %s | not run | %.2f s | | |\n", k, t)
			continue
		}
		off, note := t/lab[k]-1, "| |"
		if slices.Contains(fitting, k) {
			note = "| fitted |"
		} else if math.Abs(off) > worst {
			worst, farthest = math.Abs(off), k
		}
		fmt.Fprintf(out, "| %s | %.2f s | %.2f s | %s %% %s\n", k, lab[k], t, strings.ReplaceAll(fmt.Sprintf("%+.1f", 100*off), "-", "−"), note)
	}
	if _, err := fmt.Fprintf(out, "\nOf those that nothing was fitted to, none is off by more than %.1f %%.\n", 100*worst); err != nil {
		return err
	}
	if worst > most {
		return fmt.Errorf("%s: the simulation is off by %.1f %%, and may be by %.0f", farthest, 100*worst, 100*most)
	}
	return nil
}
