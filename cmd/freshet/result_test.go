package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/internal/report"
)

// What was brought is said first, and so counts, unless the files are not known here: then it is what nodes have recorded of it that counts.
func TestUnlistedFilesAreToldLast(t *testing.T) {
	job := freshet.Job{ID: "j", Nodes: []freshet.NodeStatus{{Name: "a", State: freshet.Done}, {Name: "b", State: freshet.Failed}}}
	several := job
	several.FileCount = 3
	for _, tc := range []struct {
		job  freshet.Job
		want string // kinds of what is written, in this order
	}{
		{job, "run account done course failed course"},
		{several, "account done course failed course run"},
	} {
		var b bytes.Buffer
		if _, _, err := record(t.Context(), nil, tc.job, nil, &b); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(b.String()) {
			var e struct {
				Kind  string
				Nodes []string
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			if got = append(got, e.Kind); e.Kind == "run" && !slices.Equal(e.Nodes, []string{"a", "b"}) {
				t.Errorf("to %q", e.Nodes)
			}
		}
		if got := strings.Join(got, " "); got != tc.want {
			t.Errorf("of %d files: got %q, want %q", tc.job.FileCount, got, tc.want)
		}
	}
}

// A node that says of its recording that there is always more is not believed for ever.
func TestRecordingsAreCapped(t *testing.T) {
	var b bytes.Buffer
	full := errors.New("full")
	c := &capped{&b, 10, full}
	if n, err := c.Write([]byte("12345678")); n != 8 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if _, err := c.Write([]byte("9ab")); err != full {
		t.Errorf("got %v of more than fits, want %v", err, full)
	}
	if b.String() != "12345678" {
		t.Errorf("got %q", b.String())
	}
}

// Of what a node says that it has recorded those lines count that are of its own part of the job that was asked for.
func TestRecordingsAreOfTheirNodeAlone(t *testing.T) {
	mine := []string{`{"kind":"done","t":1,"job":"j","node":"a"}`, `{"kind":"piece","job":"j","node":"a","cause":"a \"b\""}`, `{"Node":"a","JOB":"j"}`}
	others := []string{
		`{"kind":"done","job":"j","node":"b"}`, `{"kind":"done","job":"k","node":"a"}`, `{"kind":"account","job":"j"}`, `{"kind":"bound","job":"j","bound_s":1}`,
		`{"kind":"account","job":"j","node":"a"}`, `{"kind":"bound","job":"j","node":"a","bound_s":1}`, `{"kind":"done","job":"j","node":"a","KIND":"course"}`,
		`{"job":"j","node":"a","job":"k"}`, `hello`, `[]`, `{"job":"j","node":7}`, `{"job":"j","node":"a"`,
		`{"job":"j","node":"a","cause":"` + strings.Repeat("x", report.MaxLine) + `"}`, mine[0] + strings.Repeat(" ", report.MaxLine),
	}
	var all string
	for i, line := range others {
		all += line + "\n" + mine[i%len(mine)] + "\n\n"
	}
	want := ""
	for i := range others {
		want += mine[i%len(mine)] + "\n"
	}
	for _, step := range []int{7, 4096, len(all)} {
		for _, tail := range []string{"", mine[0], mine[0] + "\n", mine[0][:9]} { // of a node that was killed
			var b bytes.Buffer
			o := &own{w: &b, job: "j", node: "a"}
			for text := all + tail; text != ""; {
				k := min(step, len(text))
				if n, err := o.Write([]byte(text[:k])); n != k || err != nil {
					t.Fatalf("got %d, %v", n, err)
				}
				text = text[k:]
			}
			o.end()
			kept, cut := want, len(others)
			switch {
			case strings.HasSuffix(tail, "}"), strings.HasSuffix(tail, "\n"):
				kept += mine[0] + "\n"
			case tail != "":
				cut++
			}
			if b.String() != kept || o.others != cut {
				t.Errorf("in steps of %d, with %q at its end: %d lines were left out and these were not:\n%s\nwant %d, and\n%s", step, tail, o.others, b.String(), cut, kept)
			}
		}
	}
}
