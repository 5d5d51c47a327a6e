package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// cases are recordings of every shape that a page has to bear.
var cases = sync.OnceValue(func() map[string][]byte {
	hostile := func(i int) string {
		return []string{`<script>alert(1)</script>`, `a"onload="x`, "tab\tand\x00nul", "]]>&amp;", `'--><svg>`, "名前が長いノードの名前が長い", "\u202enode", strings.Repeat("W", 200)}[i%8]
	}
	unbounded := func(s *synthetic) { s.bound = 0 }
	flat, nonSteal, steal := eight("flat"), eight("non-steal"), eight("steal")
	wide := func(s *synthetic) { s.nodes = 32 }
	return map[string][]byte{
		"eight":       recorded(flat, nonSteal, steal),
		"thirty-two":  recorded(flat.with(wide), nonSteal.with(wide), steal.with(wide)),
		"hundred":     recorded(steal.with(func(s *synthetic) { s.nodes, s.pieces = 100, 256 })),
		"one-fails":   recorded(nonSteal.with(func(s *synthetic) { s.fails = 2 })),
		"single-node": recorded(steal.with(func(s *synthetic) { s.nodes = 1 })),
		"two-nodes":   recorded(steal.with(func(s *synthetic) { s.nodes = 2 })),
		"dead-store":  deadStore(),
		"unbounded":   recorded(steal.with(unbounded)),
		"hostile": recorded(steal.with(func(s *synthetic) {
			s.name, s.source, s.algorithm, s.job = hostile, `s3://b/<img src=x onerror=alert(1)>"`, `steal</style><script>`, `j"><b>`
		}), flat.with(func(s *synthetic) { s.name = hostile })),
		"kept":          keptJob().lines(),
		"kept-sixteen":  keptJob().with(func(k *kept) { k.nodes, k.fails = 16, 3 }).lines(),
		"kept-many":     keptJob().with(func(k *kept) { k.nodes, k.late, k.known = 400, 7, false }).lines(),
		"kept-recorded": append(recorded(steal), keptBeside(steal)...),
		"empty":         nil,
		"no-pieces":     []byte(`{"kind":"run","t":0,"job":"j","node":"a","algorithm":"steal","nodes":["a","b"]}` + "\n" + `{"kind":"done","t":0.5,"job":"j","node":"a"}` + "\n" + `{"kind":"done","t":0.25,"job":"j","node":"b"}`),
		"far-off":       []byte(`{"kind":"run","t":0,"job":"j","node":"a","algorithm":"steal","nodes":["a"],"size":67108864000,"piece_size":1000}` + "\n" + `{"kind":"piece","t":1e8,"job":"j","node":"a","piece":67000000,"bytes":1000,"from":"x"}`),
	}
})

// deadStore is a run whose nodes ask a store again and again that has died, until they give up.
func deadStore() []byte {
	var b bytes.Buffer
	for _, n := range []string{"a", "b", "c"} {
		fmt.Fprintf(&b, `{"kind":"run","t":0,"job":"j","node":%q,"algorithm":"steal","nodes":["a","b","c"],"size":3000,"piece_size":1000}`+"\n", n)
		fmt.Fprintf(&b, `{"kind":"piece","t":1,"job":"j","node":%q,"piece":0,"bytes":1000,"from":"store"}`+"\n", n)
		fmt.Fprintf(&b, `{"kind":"failed","t":30,"job":"j","node":%q,"cause":"the store does not answer"}`+"\n", n)
	}
	return b.Bytes()
}

// What a picture says of the end of a node must be true of one that failed, too.
func TestWaitingIsNotClosing(t *testing.T) {
	rec, err := Read(t.Context(), bytes.NewReader(deadStore()))
	if err != nil {
		t.Fatal(err)
	}
	r := rec.Runs[0]
	svgs, err := render([]panel{completion(r, r.Nodes, 30, formats[0])}, formats[0])
	if err != nil {
		t.Fatal(err)
	}
	if s := string(svgs[0]); strings.Contains(s, "var(--closing)") || !strings.Contains(s, "var(--store)") {
		t.Error("nodes that wait for a dead store are not shown as reading from it to the end")
	}
}

func TestPageSaysWhichJobItIs(t *testing.T) {
	for name, c := range map[string]struct{ want, not []string }{
		"unbounded": {[]string{"job job-steal, accepted 2026-01-02 03:09:05 UTC, in pieces of 256 KiB", "The run in numbers", "nobody knows what the network carries: measure it (freshet probe), or declare it (--declare)"},
			[]string{"dashed line", ">bound<", "The bound is", "÷ bound", "side by side"}},
		"eight": {[]string{"The runs side by side", "<td>job-flat</td>", "2026-01-02 03:08:05 UTC", "dashed line", "The bound is"}, []string{"nobody knows"}},
	} {
		rec, err := Read(t.Context(), bytes.NewReader(cases()[name]))
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := rec.HTML(&b); err != nil {
			t.Fatal(err)
		}
		for _, s := range c.want {
			if !strings.Contains(b.String(), s) {
				t.Errorf("%s: the page lacks %q", name, s)
			}
		}
		for _, s := range c.not {
			if strings.Contains(b.String(), s) {
				t.Errorf("%s: the page has %q", name, s)
			}
		}
	}
}

func TestHTMLIsWellFormedAndAlone(t *testing.T) {
	for name, data := range cases() {
		t.Run(name, func(t *testing.T) {
			rec, err := Read(t.Context(), bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			var buf bytes.Buffer
			if err := rec.HTML(&buf); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes in %v", buf.Len(), time.Since(start))
			if got, limit := buf.Len(), 5_000_000; got > limit {
				t.Errorf("page has %d bytes, want at most %d", got, limit)
			}
			checkPage(t, buf.Bytes())
			if dir := os.Getenv("FRESHET_REPORT_DIR"); dir != "" { // to look at them
				if err := os.WriteFile(filepath.Join(dir, name+".html"), buf.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var again bytes.Buffer
			if err := rec.HTML(&again); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(again.Bytes(), buf.Bytes()) {
				t.Error("the page is another one when it is made again")
			}
		})
	}
}

var (
	address = regexp.MustCompile(`(?i)(https?:)?//[a-z]`)
	notSeen = regexp.MustCompile(`ZgotmplZ|%!|NaN|Inf\b|#0000[0-9A-Fa-f]{2}`)
	styles  = regexp.MustCompile(`(?s)<style>.*?</style>`)
)

// checkPage parses the page as XML, which it is but for the document type, and
// looks for what a self-contained page must not have.
func checkPage(t *testing.T, page []byte) {
	t.Helper()
	checkMarkup(t, page)
	text := strings.ReplaceAll(string(page), `xmlns="http://www.w3.org/2000/svg"`, "")
	if bad := notSeen.FindString(text); bad != "" {
		t.Errorf("page holds %q", bad)
	}
}

// checkMarkup holds for whatever names and texts a page shows.
func checkMarkup(t *testing.T, page []byte) {
	t.Helper()
	ids := map[string]bool{}
	dec := xml.NewDecoder(bytes.NewReader(page))
	dec.Entity = xml.HTMLEntity
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("page is not well-formed: %v", err)
		}
		el, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		switch el.Name.Local {
		case "script", "img", "iframe", "object", "embed", "link", "base", "form", "image", "use", "foreignObject", "b":
			t.Errorf("page has a <%s>", el.Name.Local)
		}
		for _, a := range el.Attr {
			switch {
			case a.Name.Local == "id":
				if ids[a.Value] {
					t.Errorf("id %q is there twice", a.Value)
				}
				ids[a.Value] = true
			case strings.HasPrefix(a.Name.Local, "on"), a.Name.Local == "href", a.Name.Local == "src":
				t.Errorf("<%s> has %s=%q", el.Name.Local, a.Name.Local, a.Value)
			case a.Name.Local != "xmlns" && a.Name.Local != "aria-label" && address.MatchString(a.Value):
				t.Errorf("<%s> refers to %q", el.Name.Local, a.Value)
			}
		}
	}
	for _, css := range styles.FindAllString(string(page), -1) {
		if strings.Contains(css, "url(") || strings.Contains(css, "@import") {
			t.Error("style sheet loads something")
		}
	}
	if strings.Contains(string(page), "<script") {
		t.Error("page has a script")
	}
}

// On a narrow screen rows are stacked and heads hidden, so that each cell has to say what it is, as its column's head does.
func TestCellsHaveHeads(t *testing.T) {
	all := 0
	pages := cases()
	for name, lines := range map[string][]byte{"eight": pages["eight"], "one-fails": pages["one-fails"], "kept": pages["kept"],
		"sites": keptJob().with(func(k *kept) { k.sites = true }).lines()} {
		rec, err := Read(t.Context(), bytes.NewReader(lines))
		if err != nil {
			t.Fatal(err)
		}
		var page bytes.Buffer
		if err := rec.HTML(&page); err != nil {
			t.Fatal(err)
		}
		dec := xml.NewDecoder(&page)
		dec.Entity = xml.HTMLEntity
		stacked, column := false, 0
		var heads []string
		for {
			tok, err := dec.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			el, ok := tok.(xml.StartElement)
			if !ok {
				continue
			}
			attr := func(name string) string {
				for _, a := range el.Attr {
					if a.Name.Local == name {
						return a.Value
					}
				}
				return ""
			}
			switch el.Name.Local {
			case "table":
				class := strings.Fields(attr("class"))
				stacked, heads = slices.Contains(class, "figures") || slices.Contains(class, "words"), nil
				if slices.Contains(class, "times") {
					stacked = false // its heads are in two rows
				}
			case "tr":
				column = 0
			case "th":
				var head string
				if err := dec.DecodeElement(&head, &el); err != nil {
					t.Fatal(err)
				}
				heads = append(heads, head)
			case "td":
				if stacked {
					if got := attr("data-head"); column >= len(heads) || got != heads[column] {
						t.Errorf("%s: cell %d is called %q, in a table of %q", name, column, got, heads)
					}
					all++
				}
				column++
			}
		}
	}
	if all < 100 {
		t.Errorf("%d cells: too few to tell", all)
	}
}

// A picture of many nodes leaves some out, but none that one would look for.
func TestPictured(t *testing.T) {
	rec, err := Read(t.Context(), bytes.NewReader(recorded(eight("non-steal").with(func(s *synthetic) { s.nodes, s.pieces, s.fails = 200, 400, 77 }))))
	if err != nil {
		t.Fatal(err)
	}
	r := rec.Runs[0]
	shown := r.pictured()
	if got, want := len(shown), maxRows; got != want {
		t.Errorf("got %d nodes, want %d", got, want)
	}
	var slowest, fastest, failed bool
	last := -1
	for _, n := range shown {
		at := slices.Index(r.Nodes, n)
		if at <= last {
			t.Fatalf("node %d comes after node %d", at, last)
		}
		last = at
		slowest = slowest || n.State == Done && n.DoneAt == r.Slowest
		fastest = fastest || n.State == Done && n.DoneAt == r.Fastest
		failed = failed || n.State == Failed
	}
	if !slowest || !fastest || !failed {
		t.Errorf("got slowest %v, fastest %v, failed %v, want all of them", slowest, fastest, failed)
	}
}

func TestPrinting(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{seconds(0), "0.00 s"}, {seconds(0.0934), "93.4 ms"}, {seconds(1.234), "1.23 s"}, {seconds(9.999), "10.0 s"}, {seconds(99.97), "100 s"},
		{times(0), "unknown"}, {times(1.304), "1.30 ×"}, {times(31.7), "32 ×"}, {times(1e12), "1.0e+12 ×"},
		{tag("node-7", 6, 9), "node-7"}, {tag("a-long-name-of-node-17", 6, 9), "a-l…de-17"}, {tag("名前", 6, 9), "#7"}, {tag("x\uFFFDy", 6, 9), "x?y"},
		{clean("a\x00b\u202ec\xff"), "a\uFFFDb\uFFFDc\uFFFD"},
		{(&Run{}).howOften(), "never"},
	} {
		if got := plain(c.got); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	for _, c := range []struct {
		v    float64
		want string
	}{{0.013, "0,0.005,0.01"}, {11, "0,5,10"}, {1000, "0,250,500,750,1000"}} {
		var got []string
		for _, k := range ticks(c.v, 4) {
			got = append(got, k.Label)
		}
		if got := strings.Join(got, ","); got != c.want {
			t.Errorf("ticks to %v: got %s, want %s", c.v, got, c.want)
		}
	}
}
