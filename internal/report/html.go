package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/freshet/freshet/unit"
)

//go:embed page.html.tmpl
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	// heads are those of a table, which on a narrow screen stand in its cells.
	"heads": func(names ...string) []string { return names },
}).Parse(pageText))

// What a page shows. More nodes than can be told apart are thinned out, evenly
// and with the first and the last; the numbers always cover all.
const (
	maxPictured = 8  // runs with pictures
	maxRows     = 64 // nodes in a picture
	maxDetailed = 512
	maxOpen     = 16 // nodes whose table need not be unfolded
)

// view is what the template shows; all text in it is escaped there.
type view struct {
	Heading, Source, Sentence string
	Job                       string // which job it is and when, if it is one
	Summary                   string // heading of the table
	Bounded                   bool   // some run has a bound
	Caveats                   []string
	Runs                      []string // column headings
	Rows                      []row
	Figures                   []figure
	Faults                    []runFaults
	Details                   []detail
	Files                     []files
	Verdict                   string // of a page about one run
	Limits                    []limits
	Recorded                  bool // some node recorded pieces
	Notes                     []string
	Classes                   []template.CSS // colours that legends name
}

type row struct {
	Name  string
	Cells []cell
	Main  bool
}

type cell struct{ Value, More string }

type figure struct {
	ID, Title, Text string
	Legend          []key
	Parts           []part
	Side            bool // parts stand side by side where there is room
}

type key struct{ Class, Text string }

type part struct {
	Title, More string
	Pictures    []template.HTML
}

type runFaults struct {
	Run    string
	Faults []fault
}

type fault struct{ At, Node, Peer, Cause string }

// files is the table of a run's files, if they are several.
type files struct {
	Run  string
	Rows [][]string
	Left int
	Open bool // few enough to be shown at once
}

type detail struct {
	Run  string
	Rows [][]string
	Left int

	Spent, Carries [][]string // of all of them; none: nobody told
	Open           bool       // few enough to be shown at once
}

// HTML writes the report as one page that needs nothing else: no script, no
// font, no picture from elsewhere. Its size is bounded by the number of runs
// and nodes that it pictures, not by that of pieces.
func (rec *Recording) HTML(w io.Writer) error {
	v := view{Heading: "Freshet report", Sentence: rec.sentence(), Caveats: rec.caveats()}
	for h := store; h <= share7; h++ {
		v.Classes = append(v.Classes, template.CSS(hueNames[h]))
	}
	if len(rec.Runs) > 0 {
		r := rec.Runs[0]
		v.Heading = fmt.Sprintf("%v%s to %s", r.Layout.Size, r.many(), plural(len(r.Nodes), "node"))
		v.Source = r.Source
		v.Summary = "The runs side by side"
		if len(rec.Runs) == 1 {
			v.Summary = "The run in numbers"
			v.Job = fmt.Sprintf("job %s, accepted %s, in pieces of %s", r.Job, r.accepted(), r.pieceSize())
		}
		if len(rec.Runs) == 1 {
			v.Verdict = r.verdict()
		}
		v.Recorded = slices.ContainsFunc(rec.Runs, func(r *Run) bool { return r.arrivals > 0 })
		v.Bounded = slices.ContainsFunc(rec.Runs, func(r *Run) bool { return r.Bound > 0 })
	}
	v.table(rec)
	v.limit(rec)
	if err := v.draw(rec.Runs[:min(len(rec.Runs), maxPictured)]); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	v.tell(rec)
	if err := page.Execute(w, v); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// accepted is the date and the time of the run's start.
func (r *Run) accepted() string {
	if r.Start.IsZero() {
		return "at a time not recorded"
	}
	return r.Start.UTC().Format("2006-01-02 15:04:05 UTC")
}

func (r *Run) pieceSize() string {
	if r.Layout.Piece <= 0 {
		return unknown
	}
	return r.Layout.Piece.String()
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// sentence is the outcome in one sentence.
func (rec *Recording) sentence() string {
	if len(rec.Runs) == 0 {
		return "The recording holds no run."
	}
	var best, flat *Run
	for _, r := range rec.Runs {
		switch {
		case !r.Complete():
		case r.Algorithm == "flat":
			if flat == nil || r.Makespan < flat.Makespan {
				flat = r
			}
		case best == nil || r.Makespan < best.Makespan:
			best = r
		}
	}
	switch {
	case best == nil && flat == nil && len(rec.Runs) == 1:
		r := rec.Runs[0]
		return fmt.Sprintf("%s brought the object to %d of %s; %s.", r.label, r.Done, plural(len(r.Nodes), "node"), r.left())
	case best == nil && flat == nil:
		return "No run brought the object to all of its nodes."
	case best != nil && flat != nil && best.Layout.Size == flat.Layout.Size && len(best.Nodes) == len(flat.Nodes):
		return fmt.Sprintf("%s was %s as fast as %s (%s against %s); %s with %s and %s with %s.",
			best.label, times(flat.Makespan/best.Makespan), flat.label, seconds(best.Makespan), seconds(flat.Makespan),
			best.left(), best.label, flat.howOften(), flat.label)
	case best == nil:
		best = flat
	}
	all := "its one node"
	if n := len(best.Nodes); n > 1 {
		all = fmt.Sprintf("all %d nodes", n)
	}
	s := fmt.Sprintf("%s brought the object to %s in %s", best.label, all, seconds(best.Makespan))
	if best.Ratio > 0 {
		s += ", " + times(best.Ratio) + " the bound"
	}
	return s + "; " + best.left() + "."
}

// left says how often each byte left the store.
func (r *Run) left() string {
	switch {
	case r.Layout.Size == 0:
		return "there was nothing to move"
	case r.StoreBytes == 0:
		return "nothing left the store"
	}
	return "each byte left the store " + r.howOften()
}

func (r *Run) howOften() string {
	switch m := r.StoreMultiple(); {
	case m == 0:
		return "never"
	case m >= 0.98 && m <= 1.02:
		return "once"
	case math.Abs(m-math.Round(m)) <= 0.02*m:
		return fmt.Sprintf("%.0f times", m)
	default:
		return fmt.Sprintf("%.2f times on average", m)
	}
}

func times(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) || v == 0 {
		return unknown
	}
	if v >= 1e5 {
		return fmt.Sprintf("%.1e\u00a0×", v)
	}
	if v >= 9.95 {
		return fmt.Sprintf("%.0f\u00a0×", v)
	}
	return fmt.Sprintf("%.2f\u00a0×", v)
}

const unknown = "unknown"

// caveats are what a reader must know before the numbers.
func (rec *Recording) caveats() (out []string) {
	for _, r := range rec.Runs {
		if missing := len(r.Nodes) - r.Done; missing > 0 {
			var names []string
			for _, n := range r.Nodes {
				if n.State != Done && len(names) < 4 {
					names = append(names, n.Name+" ("+cmp.Or(n.Cause, "no end recorded")+")")
				}
			}
			if missing > len(names) {
				names = append(names, fmt.Sprintf("and %d more", missing-len(names)))
			}
			out = append(out, fmt.Sprintf("%s: %d of %s did not get the object: %s.", r.label, missing, plural(len(r.Nodes), "node"), strings.Join(names, ", ")))
		}
		if first := rec.Runs[0]; r.Layout.Size != first.Layout.Size || len(r.Nodes) != len(first.Nodes) {
			out = append(out, fmt.Sprintf("%s moved %v to %s: it cannot be compared with %s.", r.label, r.Layout.Size, plural(len(r.Nodes), "node"), first.label))
		}
	}
	return out
}

func (v *view) table(rec *Recording) {
	if len(rec.Runs) == 0 {
		return
	}
	add := func(name string, main bool, f func(r *Run) cell) {
		w := row{Name: name, Main: main}
		for _, r := range rec.Runs {
			w.Cells = append(w.Cells, f(r))
		}
		v.Rows = append(v.Rows, w)
	}
	for _, r := range rec.Runs {
		v.Runs = append(v.Runs, r.label)
	}
	when := func(r *Run, s float64) cell {
		if r.Done == 0 {
			return cell{Value: unknown}
		}
		return cell{Value: seconds(s)}
	}
	add("Makespan", true, func(r *Run) cell {
		if !r.Complete() {
			return cell{Value: "not complete"}
		}
		return cell{Value: seconds(r.Makespan)}
	})
	add("Fluid lower bound", false, func(r *Run) cell {
		if r.Bound == 0 {
			why := "nobody knows what the network carries: measure it (freshet probe), or declare it (--declare)"
			if r.account != nil {
				why = cmp.Or(r.account.Unknown(), why)
			}
			return cell{Value: unknown, More: why}
		}
		c := cell{Value: seconds(r.Bound)}
		if r.BoundBy != "" {
			c.More = "set by " + r.BoundBy
		}
		if r.account != nil && r.account.Binding() != nil {
			p := r.account.Binding()
			c.More = fmt.Sprintf("set by %s (%s)", p.Title(), p.Sources())
		}
		return c
	})
	if v.Bounded {
		add("Makespan ÷ bound", true, func(r *Run) cell { return cell{Value: times(r.Ratio)} })
	}
	if slices.ContainsFunc(rec.Runs, func(r *Run) bool { return r.account != nil }) {
		told := func(f func(r *Run) cell) func(r *Run) cell {
			return func(r *Run) cell {
				if r.account == nil || r.account.Seconds <= 0 {
					return cell{Value: unknown}
				}
				return f(r)
			}
		}
		add("Held up by", true, told(func(r *Run) cell { return cell{Value: r.account.Cause.String(), More: r.account.Cause.Why} }))
		add("Far behind the others", false, told(func(r *Run) cell { return cell{Value: cmp.Or(named(r.account.Stragglers), "none")} }))
		add("Processor time for each GB that a node got", false, told(func(r *Run) cell {
			if r.account.CPUPerGB <= 0 {
				return cell{Value: unknown}
			}
			return cell{Value: fmt.Sprintf("%.2f\u00a0s", r.account.CPUPerGB)}
		}))
	}
	add("Nodes that have it", false, func(r *Run) cell { return cell{Value: fmt.Sprintf("%d of %d", r.Done, len(r.Nodes))} })
	add("Fastest node", false, func(r *Run) cell { return when(r, r.Fastest) })
	add("Mean of the nodes", false, func(r *Run) cell { return when(r, r.Mean) })
	add("Slowest node", false, func(r *Run) cell { return when(r, r.Slowest) })
	moved := func(r *Run, b unit.Bytes) cell {
		if r.Layout.Size == 0 {
			return cell{Value: b.String()}
		}
		if b == 0 {
			return cell{Value: "none"}
		}
		return cell{Value: fmt.Sprintf("%.2f\u00a0×", r.multiple(b)), More: b.String()}
	}
	add("Left the store, × the object", true, func(r *Run) cell { return moved(r, r.StoreBytes) })
	add("Came from peers, × the object", false, func(r *Run) cell { return moved(r, r.PeerBytes) })
	if slices.ContainsFunc(rec.Runs, func(r *Run) bool { return r.account != nil && len(r.account.Entries) > 0 }) {
		add("Came into sites, × the object", false, func(r *Run) cell {
			if r.account == nil || len(r.account.Entries) == 0 {
				return cell{Value: unknown}
			}
			return cell{Value: cameIn(r.account.Entries)}
		})
	}
	add("Verified against", false, func(r *Run) cell { return cell{Value: cmp.Or(r.Verified, unknown)} })
	if len(rec.Runs) > 1 {
		add("Job", false, func(r *Run) cell { return cell{Value: r.Job} })
		add("Accepted", false, func(r *Run) cell { return cell{Value: r.accepted()} })
		add("Size of a piece", false, func(r *Run) cell { return cell{Value: r.pieceSize()} })
	}
}

// pictured are the nodes that have a row in the pictures, in rank order. Where
// not all have, those that one asks about are among them: the slowest, the
// fastest and some that failed; the others are taken evenly.
func (r *Run) pictured() []*Node {
	if len(r.Nodes) <= maxRows {
		return r.Nodes
	}
	keep := map[int]bool{}
	for _, at := range []float64{r.Fastest, r.Slowest} {
		if i := slices.IndexFunc(r.Nodes, func(n *Node) bool { return n.State == Done && n.DoneAt == at }); i >= 0 {
			keep[i] = true
		}
	}
	for i, n := range r.Nodes {
		if n.State != Done && len(keep) < maxRows/4 {
			keep[i] = true
		}
	}
	special := len(keep)
	for want := maxRows - special; want > 0; want-- {
		i := (want - 1) * len(r.Nodes) / (maxRows - special)
		for keep[i] {
			i = (i + 1) % len(r.Nodes)
		}
		keep[i] = true
	}
	var out []*Node
	for i, n := range r.Nodes {
		if keep[i] {
			out = append(out, n)
		}
	}
	return out
}

// draw makes the pictures, each for all runs in turn.
func (v *view) draw(runs []*Run) error {
	runs = slices.DeleteFunc(slices.Clone(runs), func(r *Run) bool { return len(r.Nodes) == 0 })
	if len(runs) == 0 {
		return nil
	}
	end := endOfTime(runs) * 1.01 // the last mark is not to stick to the edge
	steps, top := scale(runs, end)
	figures := []struct {
		figure
		pieces bool            // pictures nothing where no piece was recorded
		shows  func(*Run) bool // nil: all
		panel  func(r *Run, f format) panel
	}{
		{figure: figure{ID: "completion", Title: "When each node had the object",
			Text: "One bar a node, in the order of their numbers, all runs on one time axis.",
			Legend: []key{{"store", "reads from the store"}, {"both", "and gets from peers at the same time"}, {"peers", "gets from peers"},
				{"closing", "last checks, sync and rename"}, {"fail", "failed"}}},
			shows: func(r *Run) bool { return !r.hasDoings() }, // else the next one says more
			panel: func(r *Run, f format) panel {
				room := 1.1
				if f.class == "slim" {
					room = 1.22
				}
				return completion(r, r.pictured(), end*room, f)
			}},
		{figure: figure{ID: "spent", Title: "What each node was at, and when it waited",
			Text: "One bar a node, until it had the object, in steps of which each has the colour of what took most of it. A node waits for something while nothing comes for a quarter of a second.",
			Legend: []key{{"store", "bytes come from the store"}, {"both", "from the store and from peers"}, {"peers", "from peers"},
				{"wait-store", "waits for the store"}, {"held3", "waits for others to have read"}, {"wait-peers", "waits for peers"}, {"taken", "waits for the disk"},
				{"closing", "preparation, checks, and what is not measured"}, {"fail", "failed"}}},
			shows: (*Run).hasDoings,
			panel: func(r *Run, f format) panel {
				room := 1.1
				if f.class == "slim" {
					room = 1.22
				}
				return spent(r, r.pictured(), end*room, f)
			}},
		{figure: figure{ID: "throughput", Title: "How fast each node received, and from where",
			Text: fmt.Sprintf("One row a node, all on one scale: the full height of a row is %v. Each step is the mean over %s.",
				unit.Bandwidth(top), seconds(end/float64(steps))),
			Legend: []key{{"store", "from the store"}, {"peers", "from peers, on top of it"}, {"mark", "has the object"}, {"fail", "failed"}}},
			shows: func(r *Run) bool { return r.arrivals > 0 || r.hasLines() },
			panel: func(r *Run, f format) panel { return throughput(r, r.pictured(), end, top, steps, f) }},
		{figure: figure{ID: "possession", Title: "How the pieces spread",
			Text: "Every piece of the object from top to bottom, over time. The ground says how many nodes hold the piece; " +
				"a line is a node reading from the store, steeper if it reads faster.",
			Legend: []key{{"store", "read from the store"}, {"taken", "read from the store, work taken over from another node"},
				{"held1", "under ⅓ of the nodes hold it"}, {"held2", "under ⅔"}, {"held3", "not yet all"}, {"held4", "all"}}}, pieces: true,
			panel: func(r *Run, f format) panel { return possession(r, end, f) }},
		{figure: figure{ID: "provenance", Title: "Where each node has each piece from",
			Text: "One strip a node: the object from its first piece to its last.",
			Legend: []key{{"store", "read from the store, the node’s own work"}, {"taken", "read from the store, work taken over from another node"},
				{"peers", "got from a peer"}, {"none", "never arrived"}}}, pieces: true,
			panel: func(r *Run, f format) panel { return provenance(r, r.pictured(), f) }},
		{figure: figure{ID: "matrix", Title: "Who gave how much to whom", Side: true,
			Text: "Rows receive, columns give; in per cent of the object. The classes are not even: a reader of the whole object must not hide the peers.",
			Legend: []key{{"share1", "under 1 %"}, {"share2", "1–2 %"}, {"share3", "2–5 %"}, {"share4", "5–10 %"}, {"share5", "10–20 %"},
				{"share6", "20–50 %"}, {"share7", "50 % and more"}}}, pieces: true,
			panel: func(r *Run, f format) panel { return matrix(r, r.pictured(), f) }},
	}
	if v.Bounded {
		for i := range figures[:2] {
			figures[i].Text += " The dashed line is the fluid lower bound."
			figures[i].Legend = append(figures[i].Legend, key{"dash", "bound"})
		}
	}
	for _, fig := range figures {
		shown := slices.DeleteFunc(slices.Clone(runs), func(r *Run) bool { return fig.pieces && r.arrivals == 0 || fig.shows != nil && !fig.shows(r) })
		if len(shown) == 0 {
			continue
		}
		for _, r := range shown {
			p := part{Title: r.label}
			if r.Complete() {
				p.More = seconds(r.Makespan)
			} else {
				p.More = fmt.Sprintf("%d of %s", r.Done, plural(len(r.Nodes), "node"))
			}
			if (fig.ID == "completion" || fig.ID == "spent") && r.Bound > 0 {
				p.More += ", bound " + seconds(r.Bound)
			}
			if fig.ID != "possession" && len(r.Nodes) > maxRows {
				p.More += fmt.Sprintf("; %d of the nodes are shown", maxRows)
			}
			fig.Parts = append(fig.Parts, p)
		}
		for _, f := range formats {
			var panels []panel
			for _, r := range shown {
				panels = append(panels, fig.panel(r, f))
			}
			svgs, err := render(panels, f)
			if err != nil {
				return err
			}
			for i := range svgs {
				fig.Parts[i].Pictures = append(fig.Parts[i].Pictures, svgs[i])
			}
		}
		v.Figures = append(v.Figures, fig.figure)
	}
	return nil
}

// tell adds what went wrong, every node's numbers, and what was left out.
func (v *view) tell(rec *Recording) {
	for _, r := range rec.Runs {
		fs := runFaults{Run: r.label}
		d := detail{Run: r.label, Left: max(0, len(r.Nodes)-maxDetailed), Open: len(rec.Runs) == 1 && len(r.Nodes) <= maxOpen}
		for i, n := range r.Nodes {
			for _, f := range n.Faults {
				fs.Faults = append(fs.Faults, fault{At: seconds(f.At), Node: n.Name, Peer: f.Peer, Cause: f.Cause})
			}
			if n.More > 0 {
				fs.Faults = append(fs.Faults, fault{Node: n.Name, Cause: fmt.Sprintf("and %d more", n.More)})
			}
			if i < maxDetailed {
				d.Rows = append(d.Rows, append([]string{fmt.Sprintf("#%d", i+1)}, n.detail(r)...))
				if r.hasCourses() {
					d.Spent, d.Carries = append(d.Spent, n.spending()), append(d.Carries, n.carries())
				}
			}
		}
		if len(fs.Faults) > maxDetailed {
			fs.Faults = append(fs.Faults[:maxDetailed], fault{Cause: fmt.Sprintf("and %d more", len(fs.Faults)-maxDetailed)})
		}
		if len(fs.Faults) > 0 {
			v.Faults = append(v.Faults, fs)
		}
		v.Details = append(v.Details, d)
		if rows, left := r.filesDetail(); len(rows) > 0 {
			v.Files = append(v.Files, files{Run: r.label, Rows: rows, Left: left, Open: len(rec.Runs) == 1 && len(rows) <= maxOpen})
		}
	}
	if n := len(rec.Runs) - maxPictured; n > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%s more without pictures.", plural(n, "run")))
	}
	if rec.Skipped > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%s of the recording could not be used and went into no number.", plural(rec.Skipped, "line")))
	}
	if rec.Truncated {
		v.Notes = append(v.Notes, "The recording ends in the middle of a line.")
	}
}

func (n *Node) detail(r *Run) []string {
	ended, phase := "no end recorded", "–"
	switch n.State {
	case Done:
		ended = seconds(n.DoneAt)
	case Failed:
		ended = "failed at " + seconds(n.DoneAt)
	}
	if n.Phase2At > 0 {
		phase = seconds(n.Phase2At)
	}
	var gave unit.Bytes
	for _, m := range r.Nodes {
		gave = sum(gave, int64(m.From[n.Name]))
	}
	if r.arrivals == 0 {
		gave = n.told[2]
	}
	return []string{n.Name, ended, phase, n.Store.String(), n.Peers.String(), gave.String(), cmp.Or(n.Verified, "–")}
}
