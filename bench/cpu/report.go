package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/freshet/freshet/bench"
)

// suite is the comparison with what its table shows. Its cells may be results that are there already.
func suite(cells []bench.Cell) bench.Suite {
	return bench.Suite{Name: "cpu", Cells: cells, Columns: []bench.Column{
		{Number: "first_cpu_per_gb", Title: "first node: from the store, and one copy onward (CPU s/GB)", Digits: 2},
		{Number: "second_cpu_per_gb", Title: "second node: from the first (CPU s/GB)", Digits: 2},
		{Number: "seconds", Title: "time (s)", Digits: 1},
	}}
}

func at(system string, p bench.Params) bench.Point { return bench.Point{Algorithm: system, Params: p} }

// networks are the parameters that results have: links with a rate before those without.
func networks(rs []bench.Result) []bench.Params {
	out := bench.ParamsOf(rs)
	slices.SortStableFunc(out, func(a, b bench.Params) int {
		return cmp.Or(-cmp.Compare(len(a["mbit"]), len(b["mbit"])), -cmp.Compare(a["mbit"], b["mbit"]))
	})
	return out
}

// words say what a network is.
func words(p bench.Params) string {
	if p["mbit"] == "0" {
		return "links without a rate"
	}
	return "links of " + p["mbit"] + " Mbit/s"
}

// claims are what the results must show: where links have no rate also though processors were busy, which is what those are for.
func claims(rs []bench.Result) (out []bench.Claim) {
	for _, p := range networks(rs) {
		for _, other := range []struct {
			node, system string
			most         float64
		}{{"first", libtorrent, 0.5}, {"first", curlTLS, 1.1}, {"second", curlTLS, 1.1}} {
			if len(bench.At(rs, at(other.system, p))) == 0 {
				continue
			}
			out = append(out, bench.Claim{
				Name: words(p) + ": processor time per GB of the " + other.node + " node, " + withTLS + " over " + other.system, Wanted: bench.AtMost(other.most), Busy: p["mbit"] == "0",
				Number: func(e *bench.Evidence) float64 {
					return e.Ratio(other.node+"_cpu_per_gb", at(withTLS, p), at(other.system, p)).Median
				},
			})
		}
	}
	return out
}

// write makes README.md and the pictures, one for each network, in dir from the results in file alone.
func write(file, dir string) error {
	rs, err := bench.ReadAny(file)
	if err != nil {
		return err
	}
	all := networks(rs)
	var cells []bench.Cell
	for _, p := range all {
		for _, name := range order {
			cells = append(cells, bench.Cell{Params: p, Algorithm: name})
		}
	}
	s := suite(cells)
	s.Claims = claims(rs)
	var pictures strings.Builder
	for _, p := range all {
		name := "cpu-" + p["mbit"] + ".svg"
		if err := picture(rs, p).SVG(filepath.Join(dir, name)); err != nil {
			return err
		}
		fmt.Fprintf(&pictures, "![Processor time for each GB, %s](%s)\n\n", words(p), name)
	}
	return s.Publish(dir, rs, page, map[string]any{"Table": s.Table(rs, "mbit", "mib"), "Systems": told(rs), "Pictures": pictures.String()})
}

// picture has a row for each system on a network, with both nodes.
func picture(rs []bench.Result, p bench.Params) bench.Rows {
	out := bench.Rows{X: "processor time for each GB (s), " + words(p), Series: []string{"first node", "second node"}}
	for _, name := range order {
		row := bench.Row{Name: name, Strong: strings.HasPrefix(name, "freshet ")}
		some := false
		for _, number := range []string{"first_cpu_per_gb", "second_cpu_per_gb"} {
			span, _ := bench.Of(rs, at(name, p), number)
			row.Spans = append(row.Spans, span)
			some = some || span.N > 0
		}
		if some {
			out.Rows = append(out.Rows, row)
		}
	}
	return out
}

// told is what the last runs of all systems say of themselves.
func told(rs []bench.Result) string {
	var b strings.Builder
	for _, name := range order {
		var last bench.Result
		for _, r := range rs {
			if r.Algorithm == name && (r.Error == "" || last.Error != "" || last.Algorithm == "") {
				last = r
			}
		}
		if last.Algorithm == "" {
			continue
		}
		fmt.Fprintf(&b, "### %s\n\n%s. %s.\n\n", name, cmp.Or(last.Notes["version"], last.Commit), last.Notes["tuning"])
		if last.Error != "" {
			fmt.Fprintf(&b, "Failed: %s\n\n", last.Error)
		}
	}
	return b.String()
}

var page = template.Must(template.New("README.md").Parse(`# The processor time of a node

*Made by ` + "`go run ./bench/cpu report`" + ` from [results.jsonl](results.jsonl); do not edit.*

What it takes a node to receive an object, check it, write it to a file, and give one copy to another node. The **first node** reads the object from
a store, in plain HTTP, and gives it to the **second node**, which may not read the store. So the first one does what a node
does in a swarm, and the second one receives only: over TLS with Freshet as it comes, over plain TCP with ` + "`--security trusted`" + `.

{{.Pictures}}Medians, and lines from the least to the most. Less is better; the axes are logarithmic.

## Claims

{{.Claims}}
A verdict takes at least {{.Enough}} runs that count at each point, and ratios are taken seed by seed. On links with a rate runs count in which the processors had time left; on links without one they never have, and it is their time that is compared.

The first node of curl downloads without TLS, and its server gives one copy onward with it; the second is a plain download with TLS.

## All numbers

Medians over the runs (least–most). † In all runs of this point the processors were busy for more than {{.Bound}} % of the time, which is what links without a rate (0 Mbit/s) are for.

{{.Table}}
What the time goes to by a profile, and what was done about it, is in notes of [21](../../docs/notes/2026-11-21-processor-time.md) and
[22 November](../../docs/notes/2026-11-22-the-laboratory-s-last-per-cents.md).

## What ran

{{.Systems}}
## How it was made

{{.Made}}
- **Processor time** is what a control group has counted of all processes of a node, user and system, from the start of the transfer to the second node's end. Freshet's agents
  and the web server were up before; clients of BitTorrent and curl are started with the transfer, and that is in it. Store, control plane, tracker and the making of the torrent are not. A packet that one
  host sends is taken through the other one's network at once and in the sender's name: what a node is spared when it receives, its giver pays.
- **Files** lie in memory. Another file holds as much of it before each run as both nodes' files take, and shrinks as they grow: pages that a virtual machine has given back to its host
  cost several times as much to write to.
- **Links** are pairs of virtual Ethernet interfaces and a bridge. Those with a rate have a token bucket of it in each direction, with a buffer of 512 KiB.
- **Afterwards** both nodes' files were read and compared with the object by their SHA-256.
`))
