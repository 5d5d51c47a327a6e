package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/unit"
)

// suite is the comparison with what its table shows. Its cells may be results
// that are there already.
func suite(cells []bench.Cell) bench.Suite {
	return bench.Suite{Name: "rivals", Cells: cells, Columns: []bench.Column{
		{Number: "makespan_s", Title: "makespan (s)", Digits: 1},
		{Number: "ratio", Title: "over the bound", Digits: 2},
		{Number: "make_s", Title: "making of the torrent (s)", Digits: 2},
		{Number: "ratio_made", Title: "over the bound with that added", Digits: 2},
		{Number: "mean_s", Title: "mean (s)", Digits: 1},
		{Number: "ratio_others", Title: "mean of the others over the bound without the slow one", Digits: 2},
		{Number: "store_multiple", Title: "left the store (objects)", Digits: 3},
		{Number: "crossed_multiple", Title: "crossed between the sites (objects)", Digits: 3},
		{Number: "cpu_per_gb", Title: "CPU of the nodes (s/GB)", Digits: 2},
		{Number: "store_cpu_per_gb", Title: "CPU of the store (s/GB)", Digits: 2},
		{Number: busy, Title: "all CPU of the machine (s/GB)", Digits: 2},
	}}
}

// busy is the number that is not written down but follows: all time that the machine's processors were busy, for each GB delivered. Packets
// that the kernel moved for nobody in particular are in it, and the store, and the laboratory.
const busy = "busy_per_gb"

// withBusy has that number of each run.
func withBusy(rs []bench.Result) []bench.Result {
	for i := range rs {
		r := &rs[i]
		nodes, err := r.Params.Float("nodes")
		mib, err2 := r.Params.Float("mib")
		if r.Error == "" && r.Busy > 0 && err == nil && err2 == nil {
			r.Numbers[busy] = (r.Busy - r.Stolen) * r.WallS * float64(r.Machine.Cores) / (nodes * mib * float64(unit.MiB) / 1e9)
		}
	}
	return rs
}

// tried says whether a name is that of a system with other settings than those that it is compared with (see tunings), and of which.
func tried(name string) (of string, ok bool) {
	of, _, ok = strings.Cut(name, " (")
	return of, ok
}

// at is a system in a cell.
func at(system string, p bench.Params) bench.Point { return bench.Point{Algorithm: system, Params: p} }

// cellsOf are the cells that results have, in the order of kinds.
func cellsOf(rs []bench.Result) []bench.Params {
	out := bench.ParamsOf(rs)
	slices.SortStableFunc(out, func(a, b bench.Params) int { return cmp.Compare(place(a["cell"]), place(b["cell"])) })
	return out
}

// place is where a kind stands among kinds.
func place(name string) int {
	return slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
}

// ranked are the systems of a cell, the one with the least of a number first, and who has none last.
func ranked(rs []bench.Result, p bench.Params, number string) (names []string) {
	median := map[string]float64{}
	for _, r := range rs {
		if !maps.Equal(r.Params, p) || slices.Contains(names, r.Algorithm) {
			continue
		}
		names = append(names, r.Algorithm)
		s, _ := bench.Of(rs, at(r.Algorithm, p), number)
		if median[r.Algorithm] = s.Median; s.N == 0 {
			median[r.Algorithm] = math.Inf(1)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(median[a], median[b]) })
	return names
}

const (
	tight  = 1.05 // of the bound: what is level there is as good as there can be
	level  = 1.02
	behind = 2    // of the bound: who is farther from it is seen to be so with one run
	copies = 1.02 // of the object: what may leave the store, or cross between sites
)

// claims are what the results must show, in the cells that they have.
func claims(rs []bench.Result) (out []bench.Claim) {
	claim := func(name string, wanted bench.Wanted, number func(*bench.Evidence) float64) {
		out = append(out, bench.Claim{Name: name, Wanted: wanted, Number: number})
	}
	for _, p := range cellsOf(rs) {
		k, err := kindOf(p["cell"])
		if err != nil || k.fast > 0 {
			continue
		}
		us := at(best, p)
		where := k.titled(p)
		if k.store > 0 && !k.slow && !k.sites && k.files == 1 {
			claim(where+": "+best+", makespan over the bound", bench.AtMost(tight), func(e *bench.Evidence) float64 {
				return e.Span(us, "ratio").Median
			})
		}
		if k.store > 0 {
			claim(where+": "+best+", what left the store, the most of any run, in objects", bench.AtMost(copies), func(e *bench.Evidence) float64 {
				return e.Span(us, "store_multiple").Max
			})
		}
		if k.sites {
			claim(where+": "+best+", what crossed between them, the most of any run, in objects", bench.AtMost(copies), func(e *bench.Evidence) float64 {
				return e.Span(us, "crossed_multiple").Max
			})
		}
		// Of all systems with a seed the bound is the same, so that a ratio to it is as good as the time itself.
		against := func(what, ratio, rival, name string) {
			wanted := bench.Below(1)
			if tightly(rs, at(rival, p), ratio) {
				wanted = bench.AtMost(level)
			}
			claim(where+": "+what+" of "+best+" over that of "+name, wanted, func(e *bench.Evidence) float64 {
				return e.Ratio(ratio, us, at(rival, p)).Median
			})
		}
		ahead := func(what, ratio, fastest string) {
			rivals := slices.DeleteFunc(ranked(rs, p, ratio), func(name string) bool {
				s, _ := bench.Of(rs, at(name, p), ratio)
				return own(name) || s.N == 0
			})
			if len(rivals) == 0 {
				against(what, ratio, "", fastest)
				return
			}
			if n := len(rivals); n < leading {
				fastest += fmt.Sprintf(" of %d measured", n)
			}
			against(what, ratio, rivals[0], fastest+", "+rivals[0])
			// Ours need only be level with who is near the bound, but ahead of all others: of the first one of which enough runs count.
			next := slices.IndexFunc(rivals, func(name string) bool {
				s, counted := bench.Of(rs, at(name, p), ratio)
				return !tightly(rs, at(name, p), ratio) && counted && s.N >= bench.Enough
			})
			if next > 0 {
				against(what, ratio, rivals[next], "the first rival that is not near the bound, "+rivals[next])
			}
		}
		ahead("makespan", "ratio", "the fastest rival")
		if k.slow {
			ahead("mean of the others", "ratio_others", "the rival whose others are the fastest")
		}
		if flatNear(rs, p) {
			against("makespan", "ratio", flat, flat)
		}
		claim(where+": processor time per GB of "+best+" over that of "+heavy, bench.AtMost(0.5), func(e *bench.Evidence) float64 {
			return e.Ratio("cpu_per_gb", us, at(heavy, p)).Median
		})
	}
	return out
}

// heavy is the rival that ours is to take half the processor time of.
const heavy = "libtorrent web tuned"

// costs shows, by cell and kind of processor, the processor time of ours beside the heavy rival's, seed by seed. The two gain differently by another kind.
func costs(by map[string][]bench.Result) string {
	var b strings.Builder
	cpus, every := ofAll(by)
	earlier := superseded(every)
	for _, p := range cellsOf(every) {
		k, err := kindOf(p["cell"])
		if err != nil {
			continue
		}
		for _, cpu := range cpus {
			rs := slices.DeleteFunc(slices.Clone(by[cpu]), earlier)
			us, them := at(best, p), at(heavy, p)
			ratio, _ := bench.Ratio(rs, "cpu_per_gb", us, them)
			if ratio.N == 0 {
				continue
			}
			ours, _ := bench.Of(rs, us, "cpu_per_gb")
			theirs, _ := bench.Of(rs, them, "cpu_per_gb")
			fmt.Fprintf(&b, "| %s | %s | %s | %.2f | %.2f | %.2f (%.2f–%.2f) | %d | %s |\n", k.titled(p), cmp.Or(cpu, "unknown"),
				strings.Join(commits(rs, best, p), ", "), ours.Median, theirs.Median, ratio.Median, ratio.Min, ratio.Max, ratio.N, plain(rs, p))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "| cell | processor | commit | " + best + " (s/GB) | " + heavy + " (s/GB) | ratio | seeds | the cheapest plain download (s/GB) |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n" + b.String()
}

// plain is the processor time of the plain download, of all nodes by themselves, that takes the least, and its name.
func plain(rs []bench.Result, p bench.Params) string {
	for _, name := range ranked(rs, p, "cpu_per_gb") {
		if s, _ := bench.Of(rs, at(name, p), "cpu_per_gb"); s.N > 0 && slices.Contains(strings.Fields(name), "flat") {
			return fmt.Sprintf("%.2f, %s", s.Median, name)
		}
	}
	return "–"
}

// ofAll are the kinds of processors, in order, and the runs on all of them.
func ofAll(by map[string][]bench.Result) (cpus []string, every []bench.Result) {
	cpus = slices.Sorted(maps.Keys(by))
	for _, cpu := range cpus {
		every = append(every, by[cpu]...)
	}
	return cpus, every
}

// tightly says whether a system is as near the bound as ours is to be.
func tightly(rs []bench.Result, system bench.Point, ratio string) bool {
	s, _ := bench.Of(rs, system, ratio)
	return s.N > 0 && s.Median <= tight
}

// missing says which runs there are to be at this scale and are not there: a line a cell. A run of earlier settings is none, nor is one that is
// cpu-bound because others were under way beside it.
func missing(rs []bench.Result, s scale) string {
	var b strings.Builder
	earlier := superseded(rs)
	for _, k := range kinds {
		p := s.params(k)
		have := func(name string) (n int) {
			for _, r := range rs {
				crowded := r.CPUBound() && r.Beside > 0
				if r.Algorithm == name && r.Error == "" && maps.Equal(r.Params, p) && !earlier(r) && !crowded {
					n++
				}
			}
			return n
		}
		var lack, never []string
		often := s.often(rs, k)
		for _, name := range often {
			if n := have(name); n < bench.Enough {
				lack = append(lack, fmt.Sprintf("%s (%d)", name, n))
			}
		}
		others := 0
		for _, name := range systemNames() {
			if k.others() && !slices.Contains(often, name) {
				others++
				if have(name) == 0 {
					never = append(never, name)
				}
			}
		}
		if others > 0 && len(never) == others {
			never = []string{"all others"}
			if len(often) == 0 {
				never = []string{"all"}
			}
		}
		if lack = append(lack, never...); len(lack) > 0 {
			fmt.Fprintf(&b, "- %s: %s\n", k.titled(p), strings.Join(lack, ", "))
		}
	}
	return b.String()
}

// commits are those of Freshet that a system's runs in a cell are of; of others there are none.
func commits(rs []bench.Result, name string, p bench.Params) (out []string) {
	for _, r := range rs {
		if own(name) && r.Algorithm == name && r.Error == "" && maps.Equal(r.Params, p) {
			out = append(out, r.Commit)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// built is a name with commits.
func built(name string, commits []string) string {
	if len(commits) == 0 {
		return name
	}
	return name + " (" + strings.Join(commits, ", ") + ")"
}

// superseded says which runs were made with other settings than the last one of the same system.
func superseded(rs []bench.Result) func(bench.Result) bool {
	last := map[string]bench.Result{}
	for _, r := range rs {
		if r.Error == "" && !r.Start.Before(last[r.Algorithm].Start) {
			last[r.Algorithm] = r
		}
	}
	return func(r bench.Result) bool {
		l, ok := last[r.Algorithm]
		return ok && r.Notes["tuning"] != l.Notes["tuning"]
	}
}

// write makes README.md and the pictures in dir from the results in file alone, and says what they lack at a scale.
func write(file, dir string, wanted scale) error {
	all, err := bench.ReadAny(file)
	if err != nil {
		return err
	}
	all = withBusy(all)
	by, err := bench.ReadByProcessor(file)
	if err != nil {
		return err
	}
	rs := slices.DeleteFunc(slices.Clone(all), func(r bench.Result) bool { _, ok := tried(r.Algorithm); return ok })
	earlier := superseded(rs)
	s := suite(nil)
	s.Claims = claims(rs)
	type section struct{ Title, Words, Table string }
	var sections []section
	for _, p := range cellsOf(rs) {
		k, err := kindOf(p["cell"])
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		var here []bench.Result
		for _, r := range rs {
			if maps.Equal(r.Params, p) {
				label := ""
				if earlier(r) {
					label = ", earlier settings"
				}
				r.Algorithm = built(r.Algorithm, commits(rs, r.Algorithm, p)) + label
				here = append(here, r)
			}
		}
		one := suite(nil)
		for _, name := range ranked(here, p, "makespan_s") {
			one.Cells = append(one.Cells, bench.Cell{Params: p, Algorithm: name})
		}
		one.Columns = slices.DeleteFunc(one.Columns, func(c bench.Column) bool {
			return !slices.ContainsFunc(here, func(r bench.Result) bool { _, ok := r.Numbers[c.Number]; return ok })
		})
		title := k.titled(p)
		sections = append(sections, section{strings.ToUpper(title[:1]) + title[1:], words(k, p) + store(here) + processors(here), one.Table(here)})
	}
	for name, x := range map[string]bench.Rows{
		"makespan.svg": {X: "makespan over the lower bound", Limit: 1},
		"cpu.svg":      {X: "processor time of the nodes for each GB delivered (s)"},
	} {
		number, drawn := "ratio", rs
		if name == "cpu.svg" {
			number, drawn = "cpu_per_gb", alike(by, earlier)
		}
		if err := rows(x, drawn, number).SVG(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	for _, x := range sections {
		fmt.Printf("%s\n%s\n", x.Title, x.Table)
	}
	return s.Publish(dir, rs, page, map[string]any{
		"Sections": sections, "Systems": told(rs), "Tried": triedTable(by), "Failures": failures(rs), "Missing": missing(rs, wanted), "Best": best, "Flat": flat, "Behind": behind, "Heavy": heavy, "Costs": costs(by),
	})
}

// alike are the runs on one kind of processor, since processor times of others do not compare: on that on which the best ran most often in the cells that
// are drawn, and last. Without those of which the host took more than a hundredth, of earlier settings, and of settings that were only tried.
func alike(by map[string][]bench.Result, earlier func(bench.Result) bool) []bench.Result {
	runs, last := map[string]int{}, map[string]time.Time{}
	for cpu, rs := range by {
		for _, r := range rs {
			if r.Algorithm == best && r.Error == "" && place(r.Params["cell"]) < first {
				runs[cpu]++
				if r.Start.After(last[cpu]) {
					last[cpu] = r.Start
				}
			}
		}
	}
	cpus := slices.SortedFunc(maps.Keys(runs), func(a, b string) int {
		return cmp.Or(cmp.Compare(runs[b], runs[a]), last[b].Compare(last[a]))
	})
	if len(cpus) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(by[cpus[0]]), func(r bench.Result) bool {
		_, ok := tried(r.Algorithm)
		return ok || r.Stolen > 0.01 || earlier(r)
	})
}

// triedTable shows runs with other settings beside those with the settings that were chosen, of the same seeds and on the same kind of processor.
func triedTable(by map[string][]bench.Result) string {
	var here []bench.Result
	one := suite(nil)
	cpus, every := ofAll(by)
	earlier := superseded(every)
	for _, p := range cellsOf(every) {
		for _, cpu := range cpus {
			names, seeds := map[string]bool{}, map[uint64]bool{}
			rs := slices.DeleteFunc(slices.Clone(by[cpu]), earlier)
			for _, r := range rs {
				if of, ok := tried(r.Algorithm); ok && maps.Equal(r.Params, p) {
					names[of], names[r.Algorithm], seeds[r.Seed] = true, true, true
				}
			}
			with := maps.Clone(p)
			with["processor"] = cmp.Or(cpu, "unknown")
			for _, r := range rs {
				if names[r.Algorithm] && seeds[r.Seed] && maps.Equal(r.Params, p) {
					r.Params = with
					here = append(here, r)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(names)) {
				one.Cells = append(one.Cells, bench.Cell{Params: with, Algorithm: name})
			}
		}
	}
	if len(here) == 0 {
		return ""
	}
	one.Columns = slices.DeleteFunc(one.Columns, func(c bench.Column) bool {
		return !slices.Contains([]string{"makespan_s", "ratio", "store_multiple", "cpu_per_gb"}, c.Number)
	})
	return one.Table(here, "cell", "processor")
}

// rows are all systems where all were run, by what they did where the store is medium.
func rows(out bench.Rows, rs []bench.Result, number string) bench.Rows {
	var ps []bench.Params
	for _, p := range cellsOf(rs) {
		if place(p["cell"]) < first {
			ps = append(ps, p)
			out.Series = append(out.Series, "store "+p["cell"])
		}
	}
	if len(ps) > 4 { // of several scales
		ps, out.Series = ps[len(ps)-4:], out.Series[len(ps)-4:]
	}
	var names []string
	for _, p := range ps {
		for _, name := range ranked(rs, p, "makespan_s") {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	key := func(name string) float64 { // the mean of the logarithms of what there is
		sum, n := 0.0, 0
		for _, p := range ps {
			if s, _ := bench.Of(rs, at(name, p), number); s.N > 0 {
				sum, n = sum+math.Log(s.Median), n+1
			}
		}
		if n == 0 {
			return math.Inf(1)
		}
		return sum / float64(n)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(key(a), key(b)) })
	for _, name := range names {
		if math.IsInf(key(name), 1) {
			continue
		}
		row := bench.Row{Strong: own(name)}
		var others []string // commits that are not those which the best has there
		for _, p := range ps {
			s, _ := bench.Of(rs, at(name, p), number)
			row.Spans = append(row.Spans, s)
			if c := commits(rs, name, p); !slices.Equal(c, commits(rs, best, p)) {
				others = append(others, c...)
			}
		}
		slices.Sort(others)
		row.Name = built(name, slices.Compact(others))
		out.Rows = append(out.Rows, row)
	}
	return out
}

// words says what a cell is.
func words(k kind, p bench.Params) string {
	out := fmt.Sprintf("%s nodes, each with %s Mbit/s each way; an object of %s MiB", p["nodes"], p["mbit"], p["mib"])
	if k.files > 1 {
		out += fmt.Sprintf(" in %d files", k.files)
	}
	switch {
	case k.store == 0:
		out += "; the store gives every node as much as its link carries."
	case p["rates"] == "even":
		out += fmt.Sprintf("; the store gives every node %g of its link.", k.store)
	default:
		out += fmt.Sprintf("; the store gives a node %g of its link on average, drawn for each node as unevenly as the paper found it.", k.store)
	}
	switch {
	case k.slow:
		out += " The last node's link has a quarter of the rate."
	case k.sites:
		out += " Half of the nodes are in a second site, behind a link with half the rate of a node's; the store is in the first one."
	case k.fast > 0:
		out += " At these rates the heavier systems run out of processor time on this machine: the table is there to show which."
	}
	return out
}

// store is how the store of a cell was started, as far as a run says it.
func store(rs []bench.Result) string {
	for _, r := range rs {
		if s := r.Notes["store"]; s != "" {
			return fmt.Sprintf(" The store, of seed %d: `%s`.", r.Seed, s)
		}
	}
	return ""
}

// processors say on which ones the runs of a cell were made, if not all on the same.
func processors(rs []bench.Result) string {
	systems := map[string][]string{}
	for _, r := range rs {
		if cpu := r.Machine.CPU; r.Error == "" && !slices.Contains(systems[cpu], r.Algorithm) {
			systems[cpu] = append(systems[cpu], r.Algorithm)
		}
	}
	if len(systems) < 2 {
		return ""
	}
	var parts []string
	for _, cpu := range slices.Sorted(maps.Keys(systems)) {
		parts = append(parts, "on "+cmp.Or(cpu, "others")+": "+strings.Join(systems[cpu], ", "))
	}
	return " Processor times of different processors do not compare; measured were " + strings.Join(parts, "; ") + "."
}

// told is what the last runs of all systems say of themselves; where there are several files or sites,
// only where that is something else.
func told(rs []bench.Result) string {
	var names []string
	last := map[string]bench.Result{}
	for _, r := range rs {
		if _, ok := last[r.Algorithm]; !ok {
			names = append(names, r.Algorithm)
		}
		if l := last[r.Algorithm]; l.Error != "" || r.Error == "" && place(r.Params["cell"]) < first && !r.Start.Before(l.Start) || l.Algorithm == "" {
			last[r.Algorithm] = r
		}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		switch {
		case own(a) == own(b):
			return cmp.Compare(a, b)
		case own(a):
			return -1
		}
		return 1
	})
	var b strings.Builder
	for _, name := range names {
		r := last[name]
		fmt.Fprintf(&b, "### %s\n\n%s. Settings: %s.\n\n```\n%s\n```\n\n", name, cmp.Or(r.Notes["version"], r.Commit), r.Notes["tuning"], typed(r))
		for _, k := range kinds {
			if k.files == 1 && !k.sites {
				continue
			}
			special := r
			for _, o := range rs {
				if o.Algorithm == name && o.Error == "" && o.Params["cell"] == k.name {
					special = o
				}
			}
			if typed(special) != typed(r) {
				fmt.Fprintf(&b, "With %s:\n\n```\n%s\n```\n\n", k.title, typed(special))
			}
		}
	}
	return b.String()
}

// typed are the commands of a run, those of what was up beforehand first.
func typed(r bench.Result) string {
	return strings.TrimSpace(r.Notes["agents"] + "\n" + r.Notes["commands"])
}

// failures are the runs that did not end with the object on all nodes.
func failures(rs []bench.Result) string {
	var b strings.Builder
	for _, r := range rs {
		if r.Error != "" {
			fmt.Fprintf(&b, "- %s, %s, seed %d: failed: %s\n", r.Algorithm, r.Params["cell"], r.Seed, r.Error)
		}
	}
	return b.String()
}

var page = template.Must(template.New("README.md").Parse(`# Freshet beside others

*Made by ` + "`go run ./bench/rivals report`" + ` from [results.jsonl](results.jsonl); do not edit.*

Ways to bring a large object from a store to all nodes of a cluster, in a laboratory of network namespaces on one machine: on the
same links, everyone starting from the store and ending with files that were compared with the object. What is held against the
others is {{.Best}}.

![Makespan over the lower bound](makespan.svg)

![Processor time for each GB delivered](cpu.svg)

Medians, and lines from the least to the most. Less is better; the axes are logarithmic. In brackets: the commit of Freshet that was
measured, where it is not the one of {{.Best}} beside it; an older one may be slower. Processor times are drawn of the runs on one kind of processor, undisturbed by the machine's host.
They are those of the processes; what the kernel does with packets on whoever runs is in the tables' last column alone, as are the store and the laboratory.

## Claims

{{.Claims}}
A verdict takes at least {{.Enough}} runs that count at each point. A run in which the processors were busy for more than {{.Bound}} % of the
time is cpu-bound, and counts neither as met nor as missed. Ratios are taken seed by seed, and the median counts.

{{with .Costs}}## Processor time on different processors

Processor time for each GB, {{$.Best}} over {{$.Heavy}}: on each kind of processor the last runs of both, those above and those that another kind has
taken the place of. An older commit may take more. Ratios are medians (least–most) over the seeds that both have. A plain download is that of every node by itself, by http but for {{$.Flat}}, which has
to read the store for as long as that takes; what one takes by https on two nodes alone is in [bench/cpu](../cpu/README.md).

{{.}}
{{end}}## What is not measured yet

Wanted are, in each cell, {{.Enough}} runs of {{.Best}} and of the three rivals that were the fastest with the first seed where the store is as
wide, of {{.Flat}} where it takes less than {{.Behind}} times its bound, and one run of each of the others; on 32 nodes where the store is narrow none of the others, and with faster links one of all.
{{with .Missing}}These lack, in brackets how many there are with the settings that are said below:

{{.}}{{else}}All of them are there.
{{end}}
## Cell by cell

Medians over the seeds (least–most), the fastest first; in brackets the commit of Freshet. *All CPU of the machine* is of a run beside others that of all of them. † All runs of this point are cpu-bound. *Earlier settings*: not those that are
said below, which are better almost everywhere.
{{range .Sections}}
### {{.Title}}

{{.Words}}

{{.Table}}{{end}}
{{with .Failures}}## What failed

{{.}}
{{end}}What failed and was made again is in no table: the tuned libtorrent ended with a segmentation fault three times. Nor is what was cpu-bound because of runs beside it
and was made again, nor three of {{.Best}} with a wide store of a commit whose rule was taken back (7db8ee4: 1.034 to 1.049, 1.0 to 1.6 copies).

{{with .Tried}}## Settings that were tried

What is in brackets is other than in the tables above: the size of a torrent's pieces, or the order in which a web seed is asked for them. Beside it stand the runs of the same seeds
with the settings that were chosen, as far as there are any on the same kind of processor; who is faster by less than runs of one setting differ was left as it is.

{{.}}
{{end}}## Versions, settings and commands

Where the table above has no other settings of a system, none but those that are said here were tried. The store's address and keys are in the environment. Of commands that every node runs, those of two nodes are shown; of
Freshet's agents and of the store the flags that are this experiment's. What is typed for several files or two sites stands apart where it is not
the same; elsewhere only addresses, numbers and sizes are others.

{{.Systems}}
## How it was made

{{.Made}}
- **The clock** runs from the moment before the first command is started to when the last node is through: its files are complete and
  synced. Files lie in memory, in pages that a file held which shrinks as they grow: what a virtual
  machine has given back to its host costs several times as much to write to. What is a daemon anyway was up before: Freshet's agents, BitTorrent's tracker, sessions of the tuned libtorrent that have a web seed; other clients of BitTorrent,
  ranks of MPI and all other programs are started when the clock is.
- **The making of the torrent** is timed apart, on the store's own host, where the object is at hand, in a column of its own, and added in the next one. Who
  has to download the object for it waits for that, too.
- **The store** is Freshet's ` + "`freshet s3`" + `. What it gives all connections of one node together is drawn by the seed and the node's address: it is the
  same for all systems, however many connections they open. Who cannot sign requests reads the same objects by a plain URL. What left
  the store is its own count of bytes sent to nodes, headers of its answers included. What crossed between the sites is what the kernel counted on the link towards the
  second one, all packets of whatever kind, by the part of a full Ethernet frame that is payload.
- **Beside others.** Some runs of which one was wanted ran while simulations did at the lowest priority, which counts as idle.
- **The order.** Each call below runs its systems in turn, seed by seed. What was measured in one call stands beside each other; of systems of different calls the page says
  the same machine or not, and the commit.
- **Links** have a token bucket and a buffer of 512 KiB in each direction; store and control plane have no limit.
- **The lower bound** is max(F / min d, F / Σ r, N·F / (Σ r + Σ u)) with these rates as they were set, and where there is a second site F / what its link carries.
- **Processor time** is what a control group has counted of all processes of the system from the start of the clock to its end (Freshet's agents,
  its control plane and the command included), by the 10⁹ bytes delivered to all nodes. The kernel's own work for packets is in it only as far
  as it was done in these processes' name. The store's is apart.
- **Afterwards** every file on every node was read and compared with the object by its SHA-256.
`))
