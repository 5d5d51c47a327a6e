// Command scale simulates broadcasts to thousands of nodes, and says how far each is from its bound.
//
//	go run ./bench/scale [run|report] [--nodes 10000]
//
// It is the simulation of `freshet sim`: nodes on one switch, each of which gets a narrow part of its link from the store, or
// a medium one; links that are alike, or not. Without a word it makes the runs that are missing in
// bench/scale/results.jsonl, each in a process of its own, and then README.md beside it; "report" makes the latter alone. It exits
// with 1 if one is farther from its bound than it may be.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"golang.org/x/sys/unix"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/internal/scenario"
	"github.com/freshet/freshet/unit"
)

// The cells: a link has 1 Gbit/s, a piece 4 MiB.
var (
	links = map[string]string{
		alike:                   "1Gbit",
		"every second half":     "[1Gbit, 500Mbit]",
		"every tenth a quarter": "[" + strings.Repeat("1Gbit, ", 9) + "250Mbit]",
	}
	stores = map[string]string{"narrow": "60Mbit", "medium": "250Mbit"} // to each node
)

const (
	alike = "alike"
	piece = 4 // MiB
)

// most is how far from its bound a broadcast may be, by nodes and pieces.
var most = map[[2]int]float64{
	{1000, 256}: 1.12, {1000, 1024}: 1.06,
	{10000, 256}: 1.18, {10000, 1024}: 1.10,
}

// dear is what one simulation may take: seconds of processor time, of which it has one, and memory in GiB.
var dear = map[[2]int]struct{ cpu, gib float64 }{{1000, 256}: {10, 8}, {10000, 256}: {300, 8}}

func main() { bench.Main("scale", command) }

func command(ctx context.Context, args []string) error {
	if len(args) == 1 && args[0] == "cell" {
		return cell(ctx, os.Stdin, os.Stdout)
	}
	typed, run, args := bench.Words("scale", args)
	f := bench.Flags("scale", bench.RunOrReport, `scale simulates broadcasts to up to 10,000 nodes, and says how far each is from its bound. It
exits with 1 if one is farther than it may be.`)
	nodes := f.Int("nodes", 10000, "the most nodes of a run: 1000 take two minutes, 10000 an hour")
	out := f.String("out", "bench/scale", "`directory` of the results and the report")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%q: want run or report, and then flags", f.Args())
	}
	if run {
		s := bench.Suite{Name: "scale", Cells: cells(*nodes), Case: simulate}
		if err := s.Run(ctx, bench.Options{File: results(*out), Command: typed, Log: os.Stdout}); err != nil {
			return err
		}
	}
	return write(*out)
}

func results(out string) string { return filepath.Join(out, "results.jsonl") }

// cells are the runs of at most so many nodes, those that take longest last.
func cells(nodes int) (all []bench.Cell) {
	add := func(n, pieces int, link string) {
		for _, store := range []string{"narrow", "medium"} {
			if n <= nodes {
				all = append(all, bench.Cell{Seed: 1, Params: bench.Params{
					"nodes": strconv.Itoa(n), "pieces": strconv.Itoa(pieces), "links": link, "store": store,
				}})
			}
		}
	}
	uneven := []string{"every second half", "every tenth a quarter"}
	for _, n := range []int{32, 100} {
		add(n, 256, alike)
	}
	for _, n := range []int{1000, 10000} {
		add(n, 256, alike)
		add(n, 1024, alike)
		for _, pieces := range []int{256, 1024} {
			for _, link := range uneven {
				add(n, pieces, link)
			}
		}
	}
	return all
}

// text is the scenario of a cell.
func text(p bench.Params) (string, error) {
	pieces, err := p.Int("pieces")
	link, store := links[p["links"]], stores[p["store"]]
	if err != nil || link == "" || store == "" {
		return "", fmt.Errorf("there is no run with %v", p)
	}
	return fmt.Sprintf("{seed: 1, network: {generate: star, hosts: %s, rate: %s, delay: 100us}, broadcast: {size: %dMiB, piece: %dMiB, store: {per_client: %s}}}",
		p["nodes"], link, piece*pieces, piece, store), nil
}

// simulate runs a cell in a process of its own, so that memory is its own.
func simulate(ctx context.Context, c *bench.Cell) (numbers map[string]float64, err error) {
	text, err := text(c.Params)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "cell")
	cmd.Stdin, cmd.Stderr = strings.NewReader(text), os.Stderr
	said, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("simulate %s: %w", text, err)
	}
	return numbers, json.Unmarshal(said, &numbers)
}

// cell simulates the scenario that it reads, and writes what that came to.
func cell(ctx context.Context, in io.Reader, out io.Writer) error {
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	s, err := scenario.Parse(text, os.ReadFile)
	if err != nil {
		return err
	}
	began := time.Now()
	r, err := s.Run(ctx)
	if err != nil {
		return err
	}
	if r.Ratio == nil || r.Finished != len(r.Nodes) {
		return fmt.Errorf("%d of %d nodes have the object, and the bound is %v", r.Finished, len(r.Nodes), r.Bound)
	}
	wall := time.Since(began).Seconds()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return fmt.Errorf("what the process has used: %w", err)
	}
	peak := unit.Bytes(used.Maxrss)
	if runtime.GOOS != "darwin" {
		peak *= unit.KiB
	}
	return json.NewEncoder(out).Encode(map[string]float64{
		"ratio": *r.Ratio, "bound_s": *r.Bound, "makespan_s": r.Makespan, "mean_s": r.Mean,
		"store_objects": float64(r.Store) / float64(s.Layout.Size),
		"wall_s":        wall,
		"cpu_s":         float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9,
		"peak_gib":      float64(peak) / float64(unit.GiB),
	})
}

// row is what belongs together: a narrow store and a medium one.
type row struct {
	nodes, pieces  int
	links          string
	narrow, medium map[string]float64 // nil: it was not run
	commits        []string           // that they are of
}

// rows are the results as the table has them.
func rows(rs []bench.Result) (all []row, err error) {
	for _, r := range rs {
		if r.Error != "" {
			continue
		}
		to := row{links: r.Params["links"]}
		if to.nodes, err = r.Params.Int("nodes"); err == nil {
			to.pieces, err = r.Params.Int("pieces")
		}
		if err != nil {
			return nil, fmt.Errorf("a result of %v: %w", r.Params, err)
		}
		k := slices.IndexFunc(all, func(o row) bool { return o.nodes == to.nodes && o.pieces == to.pieces && o.links == to.links })
		if k < 0 {
			k, all = len(all), append(all, to)
		}
		if r.Params["store"] == "narrow" {
			all[k].narrow = r.Numbers
		} else {
			all[k].medium = r.Numbers
		}
		if !slices.Contains(all[k].commits, r.Commit) {
			all[k].commits = append(all[k].commits, r.Commit)
		}
	}
	slices.SortFunc(all, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.nodes, b.nodes), cmp.Compare(a.pieces, b.pieces), cmp.Compare(a.links, b.links))
	})
	return all, nil
}

// table is the rows in Markdown. missed is the first run that is farther from its bound than it may be, or empty.
func table(all []row) (text, missed string) {
	var b strings.Builder
	b.WriteString("| nodes | pieces | links | narrow | medium | at most | CPU | memory | commit |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range all {
		limit, limited := most[[2]int{r.nodes, r.pieces}]
		ratio := func(store string, numbers map[string]float64) string {
			if numbers == nil {
				return "not run"
			}
			if most, ok := dear[[2]int{r.nodes, r.pieces}]; ok && (numbers["cpu_s"] > most.cpu || numbers["peak_gib"] > most.gib) && missed == "" {
				missed = fmt.Sprintf("%d nodes, %d pieces, links %s, store %s: %.0f s of processor time and %.2g GiB, want %g and %g", r.nodes, r.pieces, r.links, store, numbers["cpu_s"], numbers["peak_gib"], most.cpu, most.gib)
			}
			if x := numbers["ratio"]; limited && x > limit && missed == "" {
				missed = fmt.Sprintf("%d nodes, %d pieces, links %s, store %s: %.3f times the bound, want %.2f", r.nodes, r.pieces, r.links, store, x, limit)
			}
			return fmt.Sprintf("%.3f", numbers["ratio"])
		}
		cpu, peak := 0.0, 0.0
		for _, numbers := range []map[string]float64{r.narrow, r.medium} {
			cpu, peak = max(cpu, numbers["cpu_s"]), max(peak, numbers["peak_gib"])
		}
		want := ""
		if limited {
			want = fmt.Sprintf("%.2f", limit)
		}
		fmt.Fprintf(&b, "| %d | %d | %s | %s | %s | %s | %s s | %s GiB | %s |\n", r.nodes, r.pieces, r.links, ratio("narrow", r.narrow), ratio("medium", r.medium), want, short(cpu), short(peak), strings.Join(r.commits, ", "))
	}
	return b.String(), missed
}

// short is a number with two digits, or as many as it has before the point.
func short(v float64) string {
	if v >= 10 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// write makes README.md from the results alone, and says which run is too far from its bound.
func write(out string) error {
	rs, err := bench.ReadAny(results(out))
	if err != nil {
		return err
	}
	all, err := rows(rs)
	if err != nil {
		return err
	}
	text, missed := table(all)
	fmt.Print(text)
	if err := (bench.Suite{Name: "scale"}).Publish(out, rs, page, map[string]any{"Table": text}); err != nil {
		return err
	}
	if missed != "" {
		return fmt.Errorf("missed: %s", missed)
	}
	return nil
}

var page = template.Must(template.New("README.md").Parse(`# Broadcasts to thousands of nodes, simulated

*Made by ` + "`go run ./bench/scale report`" + ` from [results.jsonl](results.jsonl); do not edit.*

Nodes on one switch, links of 1 Gbit/s with 0.1 ms, pieces of 4 MiB, ` + "`stream`" + `, one seed: makespan / bound. *Narrow*: each node gets 0.06 of a link of
1 Gbit/s from the store, *medium*: 0.25. *Every second half*: every second node's link has half of the rate. Where links are uneven the bound is that of the slowest. *At most* is
what is aimed at. CPU and memory are those of one simulation, the larger of the two; wanted with 256 pieces are at most 10 s for 1,000 nodes, minutes and 8 GiB for 10,000. The commit is that of the simulation. [docs/scenario.md](../../docs/scenario.md) says what is simulated.

{{.Table}}
## How it was made

{{.Made}}`))
