// Package bench is the harness behind every published figure: it runs the cells
// of a suite, keeps what they gave in a file, and makes tables, verdicts and
// pictures from that file alone.
//
//	Suite ─ Run ─▶ results.jsonl ─ Read ─▶ Table, Verdicts         Markdown
//	  └ Case, once a cell              └▶ Picture, Rows, Panels   SVG
//
// A cell is one run: parameters, an algorithm and a seed. Cells are run
// interleaved, all of the first seed, then all of the second, so that a machine
// that grows slower in the meantime does so for every algorithm alike. Each
// result is one line of JSON, written and synced before the next run begins,
// with what it takes to judge it later: command, commit, machine, and how busy
// the processors were. A run that was cut off is taken up where it stopped.
//
// A machine that is out of processor time measures itself instead of the
// network. A run with more than CPUBound of it in use is marked, and counts
// neither for a claim nor against it.
package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CPUBound is the share of the machine's processor time beyond which a run
// tells of the machine.
const CPUBound = 0.85

// Enough is how many runs that count a claim wants of every point it hangs on.
const Enough = 5

// Suite is a set of cells and what is done with each.
type Suite struct {
	Name    string
	Cells   []Cell
	Case    Case
	Columns []Column // of the table
	Claims  []Claim
}

// Case runs one cell and returns what it measured, by name. It removes
// whatever it made. Numbers that come with an error are not kept.
type Case func(ctx context.Context, c *Cell) (map[string]float64, error)

// Cell is one run to be made.
type Cell struct {
	Params    Params `json:"params,omitempty"`
	Algorithm string `json:"algorithm,omitempty"`
	Seed      uint64 `json:"seed"`

	measured stretch
	notes    map[string]string
}

// Params are a cell's parameters as they are printed: "nodes": "8".
type Params map[string]string

// String is "nodes=8 size=256 MiB", in the order of the names.
func (p Params) String() string {
	var b strings.Builder
	for i, k := range slices.Sorted(maps.Keys(p)) {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%s", k, p[k])
	}
	return b.String()
}

// Int and Float are a parameter that is a number.
func (p Params) Int(name string) (int, error) {
	n, err := strconv.Atoi(p[name])
	return n, p.explain(name, err)
}

func (p Params) Float(name string) (float64, error) {
	v, err := strconv.ParseFloat(p[name], 64)
	return v, p.explain(name, err)
}

func (p Params) explain(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %q: %w", name, p[name], err)
}

// ParamsOf are the parameters that results have, each once, as they first appear.
func ParamsOf(rs []Result) (out []Params) {
	for _, r := range rs {
		if !slices.ContainsFunc(out, func(p Params) bool { return maps.Equal(p, r.Params) }) {
			out = append(out, r.Params)
		}
	}
	return out
}

// in says whether all of p is in q.
func (p Params) in(q Params) bool {
	for k, v := range p {
		if w, ok := q[k]; !ok || w != v {
			return false
		}
	}
	return true
}

// String is the cell as it is shown while it runs.
func (c Cell) String() string {
	return strings.TrimSpace(fmt.Sprintf("%v %s seed=%d", c.Params, c.Algorithm, c.Seed))
}

// Result is one line of the file.
type Result struct {
	Suite string `json:"suite"`
	Cell
	Numbers map[string]float64 `json:"numbers,omitempty"`
	Notes   map[string]string  `json:"notes,omitempty"`
	Error   string             `json:"error,omitempty"` // why the run failed; it is made again

	Command string    `json:"command"`
	Commit  string    `json:"commit"`
	Machine Machine   `json:"machine"`
	Start   time.Time `json:"start"`     // of what was measured
	WallS   float64   `json:"wall_s"`    // seconds that were measured
	Busy    float64   `json:"cpu_busy"`  // share of all processors' time in them, what the host took included
	Stolen  float64   `json:"cpu_steal"` // share that the host took

	Beside int `json:"-"` // the most other runs of the file that were under way at one moment, on the same machine; Read fills it in
}

// CPUBound says whether the run tells of the machine.
func (r Result) CPUBound() bool { return r.Busy > CPUBound }

// counts says whether the run's numbers are good for a claim.
func (r Result) counts() bool { return r.Error == "" && !r.CPUBound() }

// key is what makes a run the same run, whatever the commit.
func key(suite string, c Cell) string {
	b, err := json.Marshal([]any{suite, c.Params, c.Algorithm, c.Seed}) // maps are written in the order of their keys
	if err != nil {
		panic(err) // strings and a number
	}
	return string(b)
}

// Interleave orders cells by seed, the seeds as they first appear, and leaves
// those of one seed in their order.
func Interleave(cells []Cell) []Cell {
	place := map[uint64]int{}
	for _, c := range cells {
		if _, ok := place[c.Seed]; !ok {
			place[c.Seed] = len(place)
		}
	}
	out := slices.Clone(cells)
	slices.SortStableFunc(out, func(a, b Cell) int { return place[a.Seed] - place[b.Seed] })
	return out
}
