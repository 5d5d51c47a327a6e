package main

import (
	"fmt"
	"strconv"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/planner"
)

// figures are the paper's, by numbers of sources and destinations.
var figures = []struct {
	file, title, number string
	in                  func(c condition) bool
}{
	{"same.svg", "as many sources as destinations", "5, 6", func(c condition) bool { return c.sources == c.destinations }},
	{"more.svg", "more sources than destinations", "7, 8", func(c condition) bool { return c.sources > c.destinations }},
	{"fewer.svg", "fewer sources than destinations", "9, 10", func(c condition) bool { return c.sources < c.destinations }},
}

// drawn are the planners in the figures.
var drawn = []string{planner.Random, planner.Pipeline, planner.Paper, planner.Optimal}

// figure has a row of panels a network, and in it a panel for each pair of numbers of sources and destinations: a line a planner, over how many
// transfers there are, of throughput over flat's, means over problems.
func figure(rs []bench.Result, kinds []string, in func(c condition) bool) bench.Panels {
	p := bench.Panels{
		X: "transfers (panels: sources → destinations of each)", Y: "throughput (times flat's)",
		Series: drawn, Limit: 1, Legend: []bench.Key{{Name: planner.Flat, Kind: "dashed"}},
	}
	for _, t := range transferCounts {
		p.Groups = append(p.Groups, strconv.Itoa(t))
	}
	var columns []condition
	for _, c := range conditions() {
		if c.transfers == transferCounts[0] && in(c) {
			columns = append(columns, c)
			p.Columns = append(p.Columns, fmt.Sprintf("%d → %d", c.sources, c.destinations))
		}
	}
	for _, kind := range kinds {
		row := bench.Strip{Name: kind}
		for _, c := range columns {
			lines := make([][]float64, len(drawn))
			for _, c.transfers = range transferCounts {
				of := bench.At(rs, bench.Point{Params: c.on(kind)})
				for i, mode := range drawn {
					lines[i] = append(lines[i], mean(values(of, mode)))
				}
			}
			row.Lines = append(row.Lines, lines)
		}
		p.Rows = append(p.Rows, row)
	}
	return p
}
