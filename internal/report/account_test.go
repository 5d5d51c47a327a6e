package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/swarm"
	"github.com/freshet/freshet/unit"
)

// kept is a job of which the control plane keeps how it went and nobody recorded pieces.
type kept struct {
	nodes     int
	late      int  // the rank of the one that is far behind; -1: none
	fails     int  // likewise of one that fails
	known     bool // what networks carry
	sites     bool // nodes are of two
	name      func(rank int) string
	algorithm string
}

func (k kept) lines() []byte {
	rnd := rand.New(rand.NewPCG(3, uint64(k.nodes)))
	const size, piece = 4 << 30, 4 << 20
	facts := account.Job{Size: size, Done: k.fails < 0}
	if k.known {
		facts.Store = account.Capacity{Rate: 200e6, From: account.Declared}
	}
	if k.sites {
		facts.Sites = []account.Site{{Name: "east", Inbound: account.Capacity{Rate: 190e6, From: account.Declared}}, {Name: "west"}}
	}
	names := make([]string, k.nodes)
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	put := func(v Event) {
		if err := e.Encode(v); err != nil {
			panic(err) // no event is beyond JSON
		}
	}
	for i := range names {
		names[i] = k.name(i)
	}
	for i, name := range names {
		done := 23.0 + rnd.Float64()
		if i == k.late {
			done = 41
		}
		l := account.NewLine(account.Steps(k.nodes))
		var store, peers, sent float64
		for at := 0.0; at < done; at += 0.25 {
			share := 0.25 / done
			store += share * float64(size) / float64(k.nodes)
			peers += share * float64(size) * (1 - 1/float64(k.nodes))
			sent += share * float64(size) * rnd.Float64() * 2 * (1 - 1/float64(k.nodes))
			l.Note(min(at+0.25, done), unit.Bytes(store), unit.Bytes(peers), unit.Bytes(sent))
		}
		c := l.Course()
		c.Seconds, c.WriteS, c.CPUS = done-0.4, 1.5, 9
		d := account.NewDiary(account.Steps(k.nodes), 0.4)
		for at := 0.45; at <= done; at += 0.05 {
			d.Note(at, at < 0.6*done, at > 0.3*done && at < 0.8*done, account.ForStore)
			if at > done-0.3 {
				d.Note(at+0.04, false, false, account.ForDisk)
			}
		}
		d.End()
		c.Spent = d.Times()
		c.DoStep, c.Do = d.Line()
		if k.known {
			c.Carries = account.Capacities{In: account.Capacity{Rate: 1.19e9, From: account.NIC}, Out: account.Capacity{Rate: 1.19e9, From: account.NIC},
				Store: account.Capacity{Rate: 60e6, From: account.Probed, At: time.Date(2026, 1, 1, 3, 4, 5, 0, time.UTC)}}
		}
		n := account.Node{Name: name, DoneS: done, Store: unit.Bytes(store), Peers: unit.Bytes(peers), Sent: unit.Bytes(sent), Course: c}
		if k.sites {
			n.Site, n.Crossed = []string{"east", "west"}[i%2], unit.Bytes(peers)/2
		}
		base := swarm.Event{Job: "05hgpfg8r491", Node: name}
		run := base
		run.Kind, run.Algorithm, run.Source, run.Size, run.PieceSize, run.Nodes = "run", k.algorithm, "s3://models/llama.bin", size, piece, names
		run.Start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		put(Event{Event: run})
		end := base
		end.Kind, end.T, end.Verified = "done", done, "source"
		if i == k.fails {
			n.DoneS = 0
			end.Kind, end.Cause, end.Verified = "failed", "disk full: /data", ""
		}
		put(Event{Event: end})
		told := base
		told.Kind = "course"
		put(Event{Event: told, StoreBytes: int64(n.Store), PeerBytes: int64(n.Peers), SentBytes: int64(n.Sent), Course: &c})
		facts.Nodes = append(facts.Nodes, n)
	}
	a := account.Of(facts)
	put(Event{Event: swarm.Event{Kind: "account", Job: "05hgpfg8r491"}, Account: &a})
	if a.Bound > 0 {
		put(Event{Event: swarm.Event{Kind: "bound", Job: "05hgpfg8r491", BoundS: a.Bound, By: a.Binding().By}})
	}
	return out.Bytes()
}

// keptBeside is what is kept of a run that was recorded, too.
func keptBeside(s synthetic) []byte {
	k := kept{nodes: s.nodes, late: -1, fails: -1, known: true, algorithm: s.algorithm, name: s.name}
	return bytes.ReplaceAll(k.lines(), []byte(`"job":"05hgpfg8r491"`), []byte(`"job":"`+s.job+`"`))
}

func keptJob() kept {
	return kept{nodes: 2, late: -1, fails: -1, known: true, algorithm: "stream", name: func(i int) string { return fmt.Sprintf("gpu-%02d", i+1) }}
}

func (k kept) with(f func(*kept)) kept { f(&k); return k }

// shown is a page as text, and its tables' cells by the section that they are in.
func shown(t *testing.T, lines []byte) (text string, cells map[string][][]string) {
	t.Helper()
	rec, err := Read(t.Context(), bytes.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	if rec.Skipped > 0 {
		t.Errorf("%d lines were of no use", rec.Skipped)
	}
	var b bytes.Buffer
	if err := rec.HTML(&b); err != nil {
		t.Fatal(err)
	}
	checkMarkup(t, b.Bytes())
	cells = map[string][][]string{}
	section := ""
	var cell *strings.Builder
	dec := xml.NewDecoder(bytes.NewReader(b.Bytes()))
	dec.Entity = xml.HTMLEntity
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			return plain(b.String()), cells
		}
		if err != nil {
			t.Fatal(err)
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			switch tok.Name.Local {
			case "section", "details":
				section = tok.Name.Local
				for _, a := range tok.Attr {
					if a.Name.Local == "id" {
						section = a.Value
					}
				}
			case "tr":
				cells[section] = append(cells[section], nil)
			case "td", "th":
				cell = &strings.Builder{}
			}
		case xml.CharData:
			if cell != nil {
				cell.Write(tok)
			}
		case xml.EndElement:
			if tok.Name.Local == "td" || tok.Name.Local == "th" {
				rows := cells[section]
				rows[len(rows)-1] = append(rows[len(rows)-1], plain(cell.String()))
				cell = nil
			}
		}
	}
}

func TestPageOfAJobThatNobodyRecorded(t *testing.T) {
	text, cells := shown(t, keptJob().lines())
	for _, want := range []string{
		"stream brought the object to all 2 nodes in 23.7 s, 1.11 × the bound; each byte left the store once.",
		"1.11 × the bound, set by the store (200 MB/s, declared); held up by the store; stragglers: none.",
		"What each node was at, and when it waited", "How fast each node received", `<details open="open">`, "fill:var(--both)", "fill:var(--wait-store)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, not := range []string{"When each node had the object", "How the pieces spread", "Who gave how much to whom", "came into each site"} {
		if strings.Contains(text, not) {
			t.Errorf("the page has %q, which nobody recorded", not)
		}
	}
	want := [][]string{
		{"Resource", "Least time", "Carries", "Known from", "Used"},
		{"The links into the nodes", "3.61 s", "1.19 GB/s", "network interface", "15 %"},
		{"The store", "21.5 s", "200 MB/s", "declared", "91 %"},
		{"What the store and all nodes can send", "3.33 s", "2.58 GB/s", "network interface, declared", ""},
	}
	got := cells["bound"]
	for i := range want {
		if i >= len(got) || len(got[i]) != 5 || !slices.Equal(got[i][:4], want[i][:4]) || want[i][4] != "" && got[i][4] != want[i][4] {
			t.Errorf("line %d of the bound: got %q, want %q", i, got[i], want[i])
		}
	}
	if got := cells["details"][0]; got[0] != "No." {
		t.Errorf("the number of a node is called %q", got[0])
	}
	nodes := cells["details"] // three tables, the second with two rows of headings
	if len(nodes) != 10 || !slices.Equal(nodes[1][:5], []string{"#1", "gpu-01", "23.7 s", "–", "2 GiB"}) || len(nodes[5]) != len(nodes[4]) || nodes[5][10] != "9.00 s" ||
		!slices.Equal(nodes[8], []string{"gpu-01", "1.19 GB/s (network interface)", "1.19 GB/s (network interface)", "60 MB/s (probed 2026-01-01)"}) {
		t.Errorf("tables of the nodes: got %q", nodes)
	}
}

// What came into each site has a line in the summary and a table, and the link into one a line of the bound.
func TestPageOfSites(t *testing.T) {
	text, cells := shown(t, keptJob().with(func(k *kept) { k.sites = true }).lines())
	if !strings.Contains(text, "1.05 × the bound, set by the link into site east (190 MB/s, declared)") {
		t.Error("the page does not say what sets the bound")
	}
	got := cells["bound"][4:]
	for i, want := range [][]string{
		{"The link into site east", "22.6 s", "190 MB/s", "declared", "72 %"},
		{"The link into site westNobody knows what the link into site west carries: declare it (--declare site.west=RATE of broadcast)", "unknown", "unknown", "–", "–"},
		{"Site", "Nodes", "Came in, × the object", "From the store", "From other sites"},
		{"east", "1", "0.75 ×", "2 GiB", "1 GiB"},
		{"west", "1", "0.75 ×", "2 GiB", "1 GiB"},
	} {
		if i >= len(got) || len(got[i]) != 5 || !slices.Equal(got[i], want) {
			t.Errorf("line %d: got %q, want %q", i, got[min(i, len(got)-1)], want)
		}
	}
	if row := cells["summary"]; !slices.ContainsFunc(row, func(r []string) bool {
		return r[0] == "Came into sites, × the object" && r[1] == "east 0.75 ×, west 0.75 ×"
	}) {
		t.Errorf("the summary: got %q", row)
	}
}

func TestPageNamesTheStraggler(t *testing.T) {
	text, cells := shown(t, keptJob().with(func(k *kept) { k.nodes, k.late, k.known = 400, 7, false }).lines())
	for _, want := range []string{"the bound is unknown: nobody knows what the network carries; held up by a straggler, gpu-08; stragglers: gpu-08.", "64 of the nodes are shown"} {
		if !strings.Contains(strings.ToLower(text), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(text, `<details open`) {
		t.Error("the table of 400 nodes is not folded")
	}
	if got := cells["bound"][2]; got[1] != "unknown" || got[2] != "unknown" || got[0] != "The storeNobody knows what the store gives to gpu-01, gpu-02, gpu-03 and 397 more: measure it (freshet probe --source URL), or declare it (--declare store=RATE of broadcast)" {
		t.Errorf("the unknown store: got %q", got)
	}
	if got := len(cells["details"]); got != 3*401+1 {
		t.Errorf("%d rows of nodes, want 400 in each of three tables", got-4)
	}
}

// What names and texts hold is shown as it is, and makes nothing of the page.
func TestPageOfHostileNames(t *testing.T) {
	lines := keptJob().with(func(k *kept) {
		k.nodes, k.late = 8, 2
		k.algorithm = "<svg onload=x>"
		k.name = func(i int) string { return fmt.Sprintf(`n%d<script>alert("x")</script>&`, i) }
	}).lines()
	text, _ := shown(t, lines)
	if !strings.Contains(text, "n2&lt;script&gt;alert(") {
		t.Error("the straggler's name is not there")
	}
}

func TestSenselessAccountsAreSkipped(t *testing.T) {
	whole := keptJob().lines()
	for _, bad := range []string{
		`{"kind":"account","job":"05hgpfg8r491"}`,
		`{"kind":"account","job":"05hgpfg8r491","account":{"seconds":-1,"cause":{"what":"store"}}}`,
		`{"kind":"account","job":"05hgpfg8r491","account":{"bound":1e300}}`,
		`{"kind":"account","job":"05hgpfg8r491","account":{"parts":[{"by":"store","used":-1}]}}`,
		`{"kind":"account","job":"05hgpfg8r491","account":{"parts":[` + strings.Repeat(`{"by":"x"},`, maxNames) + `{"by":"x"}]}}`,
		`{"kind":"account","job":"05hgpfg8r491","account":{"entries":[{"site":"x","store":-1}]}}`,
		`{"kind":"account","job":"05hgpfg8r491","account":{"entries":[` + strings.Repeat(`{"site":"x"},`, maxNames) + `{"site":"x"}]}}`,
		`{"kind":"course","job":"05hgpfg8r491","node":"gpu-01","course":{"do_step_s":1e12,"do":"s"}}`,
		`{"kind":"course","job":"05hgpfg8r491","node":"gpu-01","store_bytes":-1}`,
		`{"kind":"course","job":"05hgpfg8r491","node":"gpu-01","course":{"step_s":1e12,"store":[1],"peers":[1],"sent":[1]}}`,
		`{"kind":"course","job":"05hgpfg8r491","node":"gpu-01","course":{"seconds":1e12}}`,
		`{"kind":"course","job":"05hgpfg8r491"}`,
	} {
		rec, err := Read(t.Context(), bytes.NewReader(slices.Concat([]byte(bad+"\n"), whole)))
		if err != nil {
			t.Fatal(err)
		}
		if rec.Skipped != 1 || rec.Runs[0].account == nil || rec.Runs[0].Nodes[0].course.Seconds < 20 {
			t.Errorf("%s: %d lines were skipped, want this one", bad, rec.Skipped)
		}
	}
	rec, err := Read(t.Context(), bytes.NewReader(slices.Concat(whole, whole)))
	if err != nil || rec.Skipped != 2 { // one account and one bound a job
		t.Errorf("all of it twice: %d lines skipped, %v", rec.Skipped, err)
	}
}

// Sentences that begin with a letter of several bytes, or with none, stay whole.
func TestUpper(t *testing.T) {
	for s, want := range map[string]string{"": "", "the store": "The store", "élan: 1 s": "Élan: 1 s", "東京": "東京", "7 s": "7 s", "\xe9a": "\xe9a"} {
		if got := upper(s); got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
}

// A node's stretches follow one another from the beginning to its end, whatever it says of them.
func TestStretches(t *testing.T) {
	for _, c := range []struct {
		do   string
		step float64
		done float64
		want []stretch
	}{
		{"-ssbbbbppD", 0.5, 5, []stretch{{0, 0.5, account.Other}, {0.5, 1.5, account.FromStore}, {1.5, 3.5, account.FromBoth}, {3.5, 4.5, account.FromPeers}, {4.5, 5, account.ForDisk}}},
		{"sB", 1, 1.5, []stretch{{0, 1, account.FromStore}, {1, 1.5, account.ForBarrier}}},
		{"s", 1, 3, []stretch{{0, 1, account.FromStore}, {1, 3, account.Other}}},
		{"ssss", 1, 2, []stretch{{0, 2, account.FromStore}}},
		{"", 0, 2, []stretch{{0, 2, account.Other}}},
		{"ss", 1, 0, nil},
	} {
		n := Node{DoneAt: c.done, course: account.Course{Do: c.do, DoStep: c.step}}
		if got := n.stretches(); !slices.Equal(got, c.want) {
			t.Errorf("%s in steps of %v s until %v: got %v, want %v", c.do, c.step, c.done, got, c.want)
		}
	}
}

// A bar without a node's own account says from where pieces came when: with a barrier first from the store and then
// from peers, without one from both at once.
func TestSourcesOfPieces(t *testing.T) {
	const store, peers = fromStore, 0
	for _, c := range []struct {
		name               string
		phase2             float64
		arrivals           []arrival
		peersFrom, storeTo float64
	}{
		{"two phases", 3, []arrival{{at: 1, from: store}, {at: 2, from: store}, {at: 4, from: peers}, {at: 9, from: peers}}, 3, 2},
		{"at once", 0.01, []arrival{{at: 1, from: store}, {at: 2, from: peers}, {at: 6, from: store}, {at: 9, from: peers}}, 2, 6},
		{"nothing from the store", 0.01, []arrival{{at: 2, from: peers}, {at: 9, from: peers}}, 0.01, 0},
		{"nothing from peers", 0, []arrival{{at: 2, from: store}, {at: 9, from: store}}, 10, 9},
		{"nothing", 0, nil, 10, 0},
	} {
		n := Node{Phase2At: c.phase2, arrivals: c.arrivals}
		if p, s := n.sources(10); p != c.peersFrom || s != c.storeTo {
			t.Errorf("%s: got %v and %v, want %v and %v", c.name, p, s, c.peersFrom, c.storeTo)
		}
	}
}

// Bytes are neither lost nor made where a time line's steps are not a picture's.
func TestSpreadKeepsBytes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		line := make([]int64, 1+rnd.IntN(120))
		var want float64
		for i := range line {
			line[i] = rnd.Int64N(1 << 30)
			want += float64(line[i])
		}
		step := 0.25 * float64(int(1)<<rnd.IntN(8))
		out := make([]float64, 1+rnd.IntN(200))
		width := step * float64(len(line)) / float64(len(out)) * (1 + rnd.Float64())
		spread(out, width, line, step)
		got := 0.0
		for _, v := range out {
			got += v * width
		}
		if got < want*(1-1e-9) || got > want*(1+1e-9) {
			t.Fatalf("%d steps of %v in %d of %v: got %v, want %v", len(line), step, len(out), width, got, want)
		}
	}
}
