package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/freshet/freshet/unit"
)

func read(t *testing.T, text string) *Recording {
	t.Helper()
	rec, err := Read(t.Context(), strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// Two nodes and the events out of order: everything that is worked out, by hand.
const byHand = `
{"kind":"done","t":3.5,"job":"j","node":"b","verified":"source"}
{"kind":"piece","t":2,"job":"j","node":"b","piece":0,"bytes":10,"from":"a"}
{"kind":"bound","t":0,"job":"j","bound_s":2,"by":"store"}
{"kind":"work","t":0.9,"job":"j","node":"a","lo":2,"hi":3,"from":"b"}
{"kind":"run","t":0,"job":"j","node":"b","algorithm":"steal","source":"s3://b/k","size":35,"piece_size":10,"nodes":["a","b"],"start":"2026-01-02T03:04:05Z"}
{"kind":"run","t":0,"job":"j","node":"a","algorithm":"steal","source":"s3://b/k","size":35,"piece_size":10,"nodes":["a","b"],"start":"2026-01-02T03:04:05Z"}
{"kind":"piece","t":0.5,"job":"j","node":"a","piece":0,"bytes":10,"from":"store"}
{"kind":"piece","t":0.8,"job":"j","node":"a","piece":1,"bytes":10,"from":"store"}
{"kind":"piece","t":1.2,"job":"j","node":"a","piece":2,"bytes":10,"from":"store"}
{"kind":"piece","t":1.4,"job":"j","node":"b","piece":3,"bytes":5,"from":"store"}
{"kind":"phase","t":0,"job":"j","node":"a","phase":1}
{"kind":"phase","t":1.5,"job":"j","node":"a","phase":2}
{"kind":"phase","t":1.6,"job":"j","node":"b","phase":2}
{"kind":"fault","t":1.7,"job":"j","node":"a","peer":"b","cause":"wrong bytes in piece 3"}
{"kind":"piece","t":1.9,"job":"j","node":"a","piece":3,"bytes":5,"from":"b"}
{"kind":"piece","t":2.5,"job":"j","node":"b","piece":1,"bytes":10,"from":"a"}
{"kind":"piece","t":3,"job":"j","node":"b","piece":2,"bytes":10,"from":"a"}
{"kind":"done","t":2.5,"job":"j","node":"a","verified":"source"}
`

func TestReadByHand(t *testing.T) {
	rec := read(t, byHand)
	if got, want := len(rec.Runs), 1; got != want {
		t.Fatalf("got %d runs, want %d", got, want)
	}
	if rec.Skipped != 0 || rec.Truncated {
		t.Errorf("got %d skipped, truncated %v, want none", rec.Skipped, rec.Truncated)
	}
	r := rec.Runs[0]
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"makespan", r.Makespan, 3.5}, {"fastest", r.Fastest, 2.5}, {"slowest", r.Slowest, 3.5}, {"mean", r.Mean, 3},
		{"bound", r.Bound, 2}, {"ratio", r.Ratio, 1.75}, {"store bytes", float64(r.StoreBytes), 35}, {"peer bytes", float64(r.PeerBytes), 35},
		{"multiple", r.StoreMultiple(), 1}, {"done", float64(r.Done), 2},
		{"a from store", float64(r.Nodes[0].Store), 30}, {"a from b", float64(r.Nodes[0].From["b"]), 5},
		{"b from store", float64(r.Nodes[1].Store), 5}, {"b from a", float64(r.Nodes[1].From["a"]), 30},
		{"a's phase 2", r.Nodes[0].Phase2At, 1.5}, {"b's phase 2", r.Nodes[1].Phase2At, 1.6},
	} {
		if !near(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", c.what, c.got, c.want)
		}
	}
	if got, want := fmt.Sprint(r.Algorithm, r.Source, r.Verified, r.BoundBy, r.Layout.Count(), r.Complete()), fmt.Sprint("steal", "s3://b/k", "source", "store", 4, true); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if a := r.Nodes[0]; !a.tookOver(2) || a.tookOver(1) || a.tookOver(3) || len(a.Faults) != 1 || a.Faults[0].Peer != "b" {
		t.Errorf("a: got taken %v, faults %v, want piece 2 and one fault with b", a.taken, a.Faults)
	}
	if got, want := rec.sentence(), "steal brought the object to all 2 nodes in 3.50 s, 1.75 × the bound; each byte left the store once."; plain(got) != want {
		t.Errorf("got  %s\nwant %s", plain(got), want)
	}
}

func plain(s string) string { return strings.ReplaceAll(s, "\u00a0", " ") }

// What the model makes must come out of it again, and stay as it is.
func TestSyntheticRuns(t *testing.T) {
	for _, c := range []struct {
		name, sentence string
		numbers        string // of each run: nodes, done, makespan, mean, × store, × peers
	}{
		{"eight", "steal was 2.27 × as fast as flat (4.88 s against 11.1 s); each byte left the store once with steal and 8 times with flat.",
			"flat 8 8 11.098 9.378 8.00 0.00; steal 8 8 4.879 4.728 1.00 7.00; non-steal 8 8 4.997 4.969 1.00 7.00; "},
		{"thirty-two", "steal was 2.94 × as fast as flat (4.36 s against 12.8 s); each byte left the store once with steal and 32 times with flat.",
			"flat 32 32 12.826 9.426 32.00 0.00; steal 32 32 4.361 4.311 1.00 31.00; non-steal 32 32 4.385 4.335 1.00 31.00; "},
		{"one-fails", "non-steal brought the object to 7 of 8 nodes; each byte left the store once.", "non-steal 8 7 0.000 5.205 1.00 5.62; "},
		{"single-node", "steal brought the object to its one node in 10.7 s, 2.60 × the bound; each byte left the store once.", "steal 1 1 10.679 10.679 1.00 0.00; "},
		{"unbounded", "steal brought the object to all 8 nodes in 4.88 s; each byte left the store once.", "steal 8 8 4.879 4.728 1.00 7.00; "},
		{"empty", "The recording holds no run.", ""},
		{"no-pieces", "steal brought the object to all 2 nodes in 0.50 s; there was nothing to move.", "steal 2 2 0.500 0.375 0.00 0.00; "},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec, err := Read(t.Context(), bytes.NewReader(cases()[c.name]))
			if err != nil {
				t.Fatal(err)
			}
			if rec.Skipped != 0 || rec.Truncated {
				t.Errorf("got %d skipped, truncated %v, want none", rec.Skipped, rec.Truncated)
			}
			if got := plain(rec.sentence()); got != c.sentence {
				t.Errorf("got  %s\nwant %s", got, c.sentence)
			}
			got := ""
			for _, r := range rec.Runs {
				got += fmt.Sprintf("%s %d %d %.3f %.3f %.2f %.2f; ", r.Algorithm, len(r.Nodes), r.Done, r.Makespan, r.Mean, r.StoreMultiple(), r.multiple(r.PeerBytes))
			}
			if got != c.numbers {
				t.Errorf("got  %s\nwant %s", got, c.numbers)
			}
			if c.name == "unbounded" && (rec.Runs[0].Bound != 0 || rec.Runs[0].Ratio != 0) {
				t.Errorf("got bound %v and ratio %v, want both unknown", rec.Runs[0].Bound, rec.Runs[0].Ratio)
			}
		})
	}
}

func TestReadSkipsWhatItCannotUse(t *testing.T) {
	run := `{"kind":"run","t":0,"job":"j","node":"a","algorithm":"flat","size":30,"piece_size":10,"nodes":["a"]}` + "\n"
	for _, c := range []struct{ what, line string }{
		{"not JSON", `hello`},
		{"another type", `{"kind":7}`},
		{"unknown kind", `{"kind":"moon","t":1,"job":"j","node":"a"}`},
		{"no job", `{"kind":"done","t":1,"node":"a"}`},
		{"no node", `{"kind":"done","t":1,"job":"j"}`},
		{"long name", `{"kind":"done","t":1,"job":"j","node":"` + strings.Repeat("n", 300) + `"}`},
		{"no piece", `{"kind":"piece","t":1,"job":"j","node":"a","bytes":10,"from":"store"}`},
		{"negative piece", `{"kind":"piece","t":1,"job":"j","node":"a","piece":-1,"bytes":10,"from":"store"}`},
		{"piece beyond the object", `{"kind":"piece","t":1,"job":"j","node":"a","piece":3,"bytes":10,"from":"store"}`},
		{"piece of a huge number", `{"kind":"piece","t":1,"job":"j","node":"a","piece":9223372036854775807,"bytes":10,"from":"store"}`},
		{"more bytes than a piece has", `{"kind":"piece","t":1,"job":"j","node":"a","piece":1,"bytes":11,"from":"store"}`},
		{"negative bytes", `{"kind":"piece","t":1,"job":"j","node":"a","piece":1,"bytes":-1,"from":"store"}`},
		{"from nobody", `{"kind":"piece","t":1,"job":"j","node":"a","piece":1,"bytes":1}`},
		{"far future", `{"kind":"done","t":1e300,"job":"j","node":"a"}`},
		{"phase 3", `{"kind":"phase","t":1,"job":"j","node":"a","phase":3}`},
		{"empty work", `{"kind":"work","t":1,"job":"j","node":"a","lo":4,"hi":4}`},
		{"negative size", `{"kind":"run","t":0,"job":"j","node":"a","size":-1,"piece_size":10}`},
		{"too many pieces", `{"kind":"run","t":0,"job":"j","node":"a","size":1000000000000,"piece_size":1}`},
		{"no bound", `{"kind":"bound","t":0,"job":"j"}`},
		{"a long line", `{"kind":"done","t":1,"job":"j","node":"` + strings.Repeat("n", MaxLine) + `"}`},
	} {
		t.Run(c.what, func(t *testing.T) {
			rec := read(t, run+c.line+"\n"+`{"kind":"done","t":2,"job":"j","node":"a"}`+"\n")
			if got, want := rec.Skipped, 1; got != want {
				t.Errorf("got %d skipped, want %d", got, want)
			}
			if len(rec.Runs) != 1 || rec.Runs[0].Makespan != 2 || rec.Runs[0].StoreBytes != 0 {
				t.Errorf("got %+v, want the run untouched", rec.Runs)
			}
		})
	}
}

// A node that is killed leaves a line without an end, which is no fault of the
// recording; every cut of a good one must be readable.
func TestReadEveryTruncation(t *testing.T) {
	for n := range byHand {
		rec := read(t, byHand[:n])
		if rec.Skipped != 0 {
			t.Fatalf("cut at %d: got %d skipped, want 0", n, rec.Skipped)
		}
		tail := byHand[strings.LastIndexByte(byHand[:n], '\n')+1 : n]
		if n > 0 && strings.Contains(tail, "{") && !strings.HasSuffix(tail, "}") && !rec.Truncated {
			t.Fatalf("cut at %d: got Truncated false, want true", n)
		}
	}
}

func TestReadBounds(t *testing.T) {
	var b strings.Builder
	for i := range maxRuns + 5 {
		fmt.Fprintf(&b, `{"kind":"done","t":1,"job":"j%d","node":"a"}`+"\n", i)
	}
	for i := range maxNames + 7 {
		fmt.Fprintf(&b, `{"kind":"done","t":1,"job":"j0","node":"n%d"}`+"\n", i)
	}
	for range maxFaults + 3 {
		b.WriteString(`{"kind":"fault","t":1,"job":"j1","node":"a","cause":"` + strings.Repeat("é", maxText) + `"}` + "\n")
	}
	rec := read(t, b.String())
	if got, want := len(rec.Runs), maxRuns; got != want {
		t.Errorf("got %d runs, want %d", got, want)
	}
	if got, want := rec.Skipped, 5+8; got != want { // node a of j0 is one of the names
		t.Errorf("got %d skipped, want %d", got, want)
	}
	for _, r := range rec.Runs {
		if r.Job != "j1" {
			continue
		}
		if n := r.Nodes[0]; len(n.Faults) != maxFaults || n.More != 3 || len(n.Faults[0].Cause) > maxText+3 {
			t.Errorf("got %d faults and %d more, want %d and 3", len(n.Faults), n.More, maxFaults)
		}
	}
	if err := rec.HTML(io.Discard); err != nil {
		t.Error(err)
	}
	if got, want := sum(math.MaxInt64-1, 5), unit.Bytes(math.MaxInt64); got != want {
		t.Errorf("sum past the end: got %d, want %d", got, want)
	}
}

// Files are laid out piece by piece, which costs memory: once for each run, however often the run is told of, and for
// all runs together no more than a report can hold.
func TestRunsOfFilesAreBounded(t *testing.T) {
	run := func(job string, pieces, claimed int) string {
		return fmt.Sprintf(`{"kind":"run","job":%q,"node":"a","size":%d,"piece_size":2,"nodes":["a"],"files":[{"size":%d},{"size":2}]}`+"\n", job, 2*claimed, 2*(pieces-1))
	}
	const most = maxFilePieces / 2
	for _, c := range []struct {
		what, lines string
		skipped     int
		fails       bool
	}{
		{"one run, told of three times", strings.Repeat(run("j", most, most), 3), 0, false},
		{"as many pieces as there may be", run("j", most, most) + run("k", most, most), 0, false},
		{"more", run("j", most, most) + run("k", most, most) + run("l", 2, 2), 0, true},
		{"what cannot be true", strings.Repeat(run("j", most, most+1), 3) + run("j", most, most), 3, false},
	} {
		rec, err := Read(t.Context(), strings.NewReader(c.lines))
		if c.fails {
			if !errors.Is(err, ErrTooMuch) || !strings.Contains(err.Error(), "fewer runs") {
				t.Errorf("%s: got %v, want that it is too much", c.what, err)
			}
			continue
		}
		if err != nil || rec.Skipped != c.skipped {
			t.Errorf("%s: got %v and %+v, want %d skipped", c.what, err, rec, c.skipped)
			continue
		}
		for _, r := range rec.Runs {
			if r.Layout.Count() != most || len(r.files) != 2 {
				t.Errorf("%s: run %s has %d pieces in %d files, want %d in 2", c.what, r.Job, r.Layout.Count(), len(r.files), most)
			}
		}
	}
}

// A run can take no time at all, and have a page.
func TestRunOfNoTime(t *testing.T) {
	for _, at := range []string{"0", "5e-324", "1e-300", "1e-9", "1e-6"} {
		rec := read(t, fmt.Sprintf(noTime, at, at))
		if err := rec.HTML(io.Discard); err != nil || rec.Skipped > 0 || rec.Runs[0].StoreBytes != 10 {
			t.Errorf("all after %s s: %v, %d skipped, %v from the store", at, err, rec.Skipped, rec.Runs[0].StoreBytes)
		}
	}
}

const noTime = `{"kind":"run","job":"j","node":"a","size":10,"piece_size":10,"nodes":["a"]}
{"kind":"piece","t":%s,"job":"j","node":"a","piece":0,"bytes":10,"from":"store"}
{"kind":"done","t":%s,"job":"j","node":"a"}
`

func TestReadNamesTheReadersError(t *testing.T) {
	_, err := Read(t.Context(), iotest.ErrReader(io.ErrUnexpectedEOF))
	if err == nil || !strings.Contains(err.Error(), "read recording: unexpected EOF") {
		t.Errorf("got %v, want the reader's error", err)
	}
}

// Who does not want the report any more does not wait for a recording without an end.
func TestReadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, endless{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
}

// endless is a recording of empty lines.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '\n'
	}
	return len(b), nil
}

// Whatever is read, the numbers are finite and the page is well-formed.
func FuzzRead(f *testing.F) {
	f.Add([]byte(byHand))
	f.Add([]byte(`{"kind":"failed","t":1e7,"job":"j","node":"<b>","cause":"\u0000"}`))
	f.Add([]byte(`{"kind":"done","t":-3,"job":"j","node":"a"}{"kind":"bound","job":"j","bound_s":1e-300}`))
	f.Add([]byte(`{"kind":"run","job":"j","node":"a","size":67108864000,"piece_size":1000,"nodes":["a","a","b"]}
{"kind":"piece","t":1e8,"job":"j","node":"a","piece":67000000,"bytes":1000,"from":"x"}`))
	f.Add(fmt.Appendf(nil, noTime, "5e-324", "5e-324"))
	f.Add([]byte(`{"kind":"bound","job":"j","bound_s":1e-310}
{"kind":"done","t":1,"job":"j","node":"a"}`))
	f.Add([]byte(`{"kind":"run","job":"j","node":"a","size":4,"piece_size":2,"nodes":["a"],"files":[{"size":2},{"name":"b","size":2}]}
{"kind":"run","job":"j","node":"b","size":4,"piece_size":2,"nodes":["a"],"files":[{"size":2},{"name":"b","size":2}]}
{"kind":"piece","t":1,"job":"j","node":"a","piece":1,"bytes":2,"from":"store"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := Read(t.Context(), bytes.NewReader(data))
		if errors.Is(err, ErrTooMuch) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rec.Runs {
			for _, v := range []float64{r.Makespan, r.Fastest, r.Slowest, r.Mean, r.Bound, r.Ratio} {
				if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
					t.Fatalf("run %q has a number %v", r.Job, v)
				}
			}
			if r.StoreBytes < 0 || r.PeerBytes < 0 {
				t.Fatalf("run %q has negative bytes", r.Job)
			}
		}
		var buf bytes.Buffer
		if err := rec.HTML(&buf); err != nil {
			t.Fatal(err)
		}
		checkMarkup(t, buf.Bytes())
	})
}
