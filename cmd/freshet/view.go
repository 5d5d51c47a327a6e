package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/unit"
)

// view draws a job on a terminal: a bar for all nodes together and one for each
// node, or, when there are more nodes than lines, for those that failed and for
// the slowest of the others.
//
//	all   [=========>          ]  48%    4.2 s  112 MB/s  store 1.00 ×  peers 0.45 ×
//	n1    [==========>         ]  52%   56 MB/s  store  33%  peers  19%
//	n2    [========>           ]  44%  waits for others to end their reading from the store
//
// What moves the cursor is mpb; each of its bars is one of these lines.
type view struct {
	out  io.Writer
	bars []*mpb.Bar // of update and end alone
	room int        // lines for nodes; zero: not known yet

	mu       sync.Mutex    // guards what follows
	progress *mpb.Progress // nil before the first snapshot
	job      freshet.Job
	rows     []int // rows[i] is the node, by its place in job.Nodes, of the i-th line
	total    meter
	meters   map[string]*meter
	told     map[string]int // faults, by node
}

func newView(out io.Writer) *view {
	return &view{out: out, meters: map[string]*meter{}, told: map[string]int{}}
}

func bytesOf(n int) unit.Bytes { return unit.Bytes(n) }

// open makes the lines, once it is known how many there will be. It is called
// without mu: mpb may draw at once, and wait for it.
func (v *view) open(j freshet.Job) {
	v.room = 16
	if f, ok := v.out.(*os.File); ok {
		if _, h, err := term.GetSize(int(f.Fd())); err == nil {
			v.room = min(max(h-4, 1), 40)
		}
	}
	fmt.Fprintln(v.out, heading(j))
	p := mpb.New(mpb.WithOutput(v.out), mpb.WithRefreshRate(150*time.Millisecond), mpb.WithAutoRefresh())
	add := func(line func(width int) string) {
		v.bars = append(v.bars, p.MustAdd(0, mpb.BarFillerFunc(func(w io.Writer, s decor.Statistics) error {
			v.mu.Lock()
			defer v.mu.Unlock()
			_, err := io.WriteString(w, fit(line(s.AvailableWidth), s.AvailableWidth-1))
			return err
		}), mpb.BarFillerTrim()))
	}
	if len(j.Nodes) > 1 {
		add(v.overall)
	}
	for i := range min(len(j.Nodes), v.room) {
		add(func(width int) string { return v.node(i, width) })
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.progress = p
}

func (v *view) update(j freshet.Job) {
	first := len(v.bars) == 0
	told := v.note(j)
	if first {
		v.open(j)
	}
	for _, line := range told {
		v.say(line)
	}
}

// note takes a snapshot in, and returns what is worth a line.
func (v *view) note(j freshet.Job) (told []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.job, v.rows = j, chosen(j, v.room)
	now := time.Now()
	have, _, _, _ := totals(j)
	v.total.note(now, have)
	for _, n := range j.Nodes {
		m := v.meters[n.Name]
		if m == nil {
			m = &meter{}
			v.meters[n.Name] = m
		}
		m.note(now, n.Have)
		for ; v.told[n.Name] < len(n.Faults); v.told[n.Name]++ {
			f := n.Faults[v.told[n.Name]]
			told = append(told, fmt.Sprintf("%s: fault of %s: %s", n.Name, f.Node, f.Cause))
		}
	}
	return told
}

// chosen are the nodes to show: all in their order if there is room, else the
// failed ones first and then those that have least.
func chosen(j freshet.Job, room int) []int {
	rows := make([]int, len(j.Nodes))
	for i := range rows {
		rows[i] = i
	}
	if room == 0 || len(rows) <= room {
		return rows
	}
	rank := func(n freshet.NodeStatus) int {
		switch n.State {
		case freshet.Failed, freshet.Cancelled:
			return 0
		case freshet.Done, freshet.Present:
			return 2
		}
		return 1
	}
	slices.SortStableFunc(rows, func(a, b int) int {
		x, y := j.Nodes[a], j.Nodes[b]
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x.Have, y.Have))
	})
	return rows[:room]
}

func (v *view) say(line string) {
	v.mu.Lock()
	p := v.progress
	v.mu.Unlock()
	if p != nil {
		// The carriage return is for a ^C that the terminal has echoed.
		if _, err := p.Write([]byte("\r" + line + "\n")); err == nil {
			return
		}
	}
	fmt.Fprintln(v.out, line)
}

func (v *view) end() {
	if len(v.bars) == 0 {
		return
	}
	for _, b := range v.bars {
		b.SetTotal(-1, true)
	}
	v.progress.Wait()
}

// nameWidth is that of the first column.
func (v *view) nameWidth() int {
	w := 5
	for _, n := range v.job.Nodes {
		w = max(w, len(n.Name))
	}
	return min(w, 24)
}

func (v *view) overall(width int) string {
	j := v.job
	have, store, peers, ended := totals(j)
	all := j.Object.Size * bytesOf(len(j.Nodes))
	took := time.Since(j.Accepted).Seconds()
	if j.State.Ended() {
		took = j.Ended.Sub(j.Accepted).Seconds()
	}
	if r := newRun(j, nil); j.State == freshet.Done {
		took = r.MakespanS
	}
	var parts []string
	if !j.State.Ended() {
		parts = append(parts, fmt.Sprintf("%10v", v.total.rate(time.Now())))
	}
	parts = append(parts, fmt.Sprintf("%5.1f s", took), fmt.Sprintf("%d/%d ended", ended, len(j.Nodes)))
	if j.Object.Size > 0 {
		parts = append(parts, fmt.Sprintf("store %.2f ×", float64(store)/float64(j.Object.Size)), fmt.Sprintf("peers %.2f ×", float64(peers)/float64(j.Object.Size)))
	}
	return v.line("all", have, all, width, parts...)
}

func (v *view) node(row, width int) string {
	if row >= len(v.rows) {
		return ""
	}
	n, size := v.job.Nodes[v.rows[row]], v.job.Object.Size
	have := n.Have
	store, peers := "store "+fmt.Sprintf("%4s", percent(n.StoreBytes, size)), "peers "+fmt.Sprintf("%4s", percent(n.PeerBytes, size))
	var parts []string
	switch {
	case n.State == freshet.Done:
		have, parts = size, []string{fmt.Sprintf("%8.2f s", n.DoneS), store, peers, "done", "verified by " + n.Verified}
	case n.State == freshet.Present:
		have, parts = size, []string{"present already"}
	case n.State == freshet.Failed, n.State == freshet.Cancelled:
		parts = []string{string(n.State)}
		if n.Error != "" && n.Error != parts[0] {
			parts[0] += ": " + n.Error
		}
	case n.State == freshet.Preparing:
		parts = []string{"preparing"}
	case n.Waiting != "":
		parts = []string{"waits for " + n.Waiting}
	default:
		parts = []string{fmt.Sprintf("%10v", v.meters[n.Name].rate(time.Now())), store, peers}
		switch n.Phase {
		case 1:
			parts = append(parts, "reads from the store")
		case 2:
			parts = append(parts, "exchanges with peers")
		}
	}
	if of := v.job.FileCount; of > 1 && n.State == freshet.Running {
		parts = append(parts, fmt.Sprintf("%d/%d files", n.Files, of))
	}
	return v.line(n.Name, have, size, width, parts...)
}

// line is a name, a bar, and of parts, the most important one first, as many
// as there is room for.
func (v *view) line(name string, have, of unit.Bytes, width int, parts ...string) string {
	bar := min(max(width/5, 10), 30)
	full := bar
	if of > 0 {
		full = int(float64(bar) * float64(min(have, of)) / float64(of))
	}
	b := strings.Repeat("=", full)
	if full < bar {
		b += ">" + strings.Repeat(" ", bar-full-1)
	}
	nw := v.nameWidth()
	s := fmt.Sprintf("%-*s [%s] %4s", nw, fit(name, nw), b, percent(min(have, of), of))
	for i, p := range parts {
		if i > 0 && utf8.RuneCountInString(s)+2+utf8.RuneCountInString(p) >= width {
			break
		}
		s += "  " + p
	}
	return s
}

// fit cuts s to so many characters.
func fit(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	r := []rune(s)
	if width < 1 {
		return ""
	}
	return string(r[:width-1]) + "…"
}
