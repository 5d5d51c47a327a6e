package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

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

// drawn are the planners in the figures. Colours are those of all pictures, and shapes are for those who see few of them.
var drawn = []struct {
	mode, colour string
	shape        func(x, y float64, colour string) string
}{
	{planner.Random, "#56B4E9", func(x, y float64, colour string) string {
		return fmt.Sprintf(`<circle cx="%.1f" cy="%.1f" r="3.2" fill="%s"/>`, x, y, colour)
	}},
	{planner.Pipeline, "#0072B2", func(x, y float64, colour string) string {
		return fmt.Sprintf(`<rect x="%.1f" y="%.1f" width="6" height="6" fill="%s"/>`, x-3, y-3, colour)
	}},
	{planner.Paper, "#D55E00", func(x, y float64, colour string) string {
		return fmt.Sprintf(`<path d="M%.1f %.1fl4 7h-8z" fill="%s"/>`, x, y-4.4, colour)
	}},
	{planner.Optimal, "#009E73", func(x, y float64, colour string) string {
		return fmt.Sprintf(`<circle cx="%.1f" cy="%.1f" r="3" fill="#FFFFFF" stroke="%s" stroke-width="1.8"/>`, x, y, colour)
	}},
}

// Lengths of a figure, in points. A page that is as wide as a phone shows letters of 12 points at 9 pixels.
const (
	figureWidth = 500.0
	figureTop   = 52.0 // the legend, and what the columns are
	figureLeft  = 50.0
	figureRight = 12.0
	figureFoot  = 44.0
	panelHigh   = 96.0
	panelsApart = 14.0
	rowsApart   = 32.0 // with the name of the network in between
)

// figure draws a row of panels a network, and in it a panel for each pair of numbers of sources and destinations: a line a planner, over how many
// transfers there are, of throughput over flat's, means over problems. A row has one scale.
func figure(rs []bench.Result, kinds []string, in func(c condition) bool) string {
	var columns []condition
	for _, c := range conditions() {
		if c.transfers == transferCounts[0] && in(c) {
			columns = append(columns, c)
		}
	}
	wide := (figureWidth - figureLeft - figureRight - panelsApart*float64(len(columns)-1)) / float64(len(columns))
	high := figureTop + float64(len(kinds))*(rowsApart+panelHigh) + figureFoot
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %g %g" font-family="Liberation Sans,Arial,Helvetica,sans-serif" font-size="12" fill="#24292F">`+"\n",
		figureWidth, high, figureWidth, high)
	fmt.Fprintf(&b, `<rect width="%g" height="%g" fill="#FFFFFF"/>`+"\n", figureWidth, high)
	at := figureLeft
	for _, d := range drawn {
		fmt.Fprintf(&b, `<path d="M%g 14h18" stroke="%s" stroke-width="1.8"/>%s<text x="%g" y="18">%s</text>`+"\n", at, d.colour, d.shape(at+9, 14, d.colour), at+24, d.mode)
		at += 24 + 7*float64(len(d.mode)) + 18
	}
	fmt.Fprintf(&b, `<path d="M%g 14h18" stroke="#6B7480" stroke-dasharray="4 3"/><text x="%g" y="18">flat</text>`+"\n", at, at+24)
	for k, c := range columns {
		fmt.Fprintf(&b, `<text x="%.1f" y="42" text-anchor="middle">%d → %d</text>`+"\n", figureLeft+float64(k)*(wide+panelsApart)+wide/2, c.sources, c.destinations)
	}
	for row, kind := range kinds {
		top := figureTop + float64(row)*(rowsApart+panelHigh) + rowsApart - 8
		bottom := top + panelHigh
		fmt.Fprintf(&b, `<text x="%g" y="%.1f" font-weight="bold">%s</text>`+"\n", figureLeft, top-8, kind)
		values := map[string]map[condition]float64{}
		most := 1.0
		for _, d := range drawn {
			values[d.mode] = map[condition]float64{}
			of, where := means(rs, kind, d.mode)
			for i, c := range where {
				if in(c) {
					values[d.mode][c] = of[i]
					most = max(most, of[i])
				}
			}
		}
		step, end := ticks(most)
		y := func(v float64) float64 { return bottom - (bottom-top)*v/end }
		for k, c := range columns {
			left := figureLeft + float64(k)*(wide+panelsApart)
			x := func(i int) float64 { return left + wide*(float64(i)+0.5)/float64(len(transferCounts)) }
			for v := 0.0; v <= end*(1+1e-9); v += step {
				fmt.Fprintf(&b, `<path d="M%.1f %.1fh%.1f" stroke="#E3E6EA"/>`, left, y(v), wide)
				if k == 0 {
					fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="end">%s</text>`, left-6, y(v)+4, strconv.FormatFloat(v, 'g', 6, 64))
				}
			}
			fmt.Fprintf(&b, `<path d="M%.1f %.1fh%.1f" stroke="#6B7480" stroke-dasharray="4 3"/>`+"\n", left, y(1), wide)
			for i, t := range transferCounts {
				if row == len(kinds)-1 {
					fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle">%d</text>`, x(i), bottom+16, t)
				}
			}
			for _, d := range drawn {
				path, shapes, pen := "", "", "M"
				for i, t := range transferCounts {
					v, ok := values[d.mode][condition{t, c.sources, c.destinations}]
					if !ok {
						continue
					}
					path += fmt.Sprintf("%s%.1f %.1f", pen, x(i), y(v))
					pen = "L"
					shapes += d.shape(x(i), y(v), d.colour)
				}
				if path != "" {
					fmt.Fprintf(&b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.8"/>%s`+"\n", path, d.colour, shapes)
				}
			}
		}
	}
	fmt.Fprintf(&b, `<text x="%g" y="%.1f" text-anchor="middle">transfers (panels: sources → destinations of each)</text>`+"\n", (figureLeft+figureWidth-figureRight)/2, high-8)
	middle := figureTop + (high-figureTop-figureFoot)/2
	fmt.Fprintf(&b, `<text x="16" y="%.1f" text-anchor="middle" transform="rotate(-90 16 %.1f)">throughput (times flat's)</text>`+"\n</svg>\n", middle, middle)
	return b.String()
}

// ticks are a round step and a round end of an axis from 0, on which v has its place: two to four steps.
func ticks(v float64) (step, end float64) {
	step = math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{0.25, 0.4, 0.5, 1, 2} {
		if n := math.Ceil(v / (m * step)); n <= 4 {
			return m * step, n * m * step
		}
	}
	return 2.5 * step, 10 * step
}

func drawFigure(file string, rs []bench.Result, kinds []string, in func(c condition) bool) error {
	if err := os.WriteFile(file, []byte(figure(rs, kinds, in)), 0o644); err != nil {
		return fmt.Errorf("picture: %w", err)
	}
	return nil
}
