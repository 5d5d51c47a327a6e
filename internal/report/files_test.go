package report

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/internal/swarm"
)

// recordingOf is a recording of these events.
func recordingOf(t *testing.T, events ...swarm.Event) *Recording {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, k := range events {
		k.Job = "j"
		if err := e.Encode(k); err != nil {
			t.Fatal(err)
		}
	}
	rec, err := Read(t.Context(), &b)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// A page about a job of several files says of each how many nodes have it, and when the last of them had.
func TestFiles(t *testing.T) {
	files := []swarm.EventFile{{Name: "shard", Size: 25}, {Name: "config", Size: 4}, {Name: "vocab", Size: 5}, {Name: "empty", Size: 0}}
	var events []swarm.Event
	for i, node := range []string{"a", "b"} {
		events = append(events, swarm.Event{Kind: "run", Node: node, Size: 34, PieceSize: 10, Nodes: []string{"a", "b"}, Files: files})
		for p := range 4 { // the first three are the shard's, the others share the fourth
			if node == "b" && p == 1 {
				continue
			}
			events = append(events, swarm.Event{Kind: "piece", Node: node, T: float64(1 + p + 10*i), Piece: &p, Bytes: []int64{10, 10, 5, 9}[p], From: "store"})
		}
	}
	rec := recordingOf(t, events...)
	if rec.Skipped != 0 || rec.Runs[0].Layout.Count() != 4 {
		t.Errorf("%d lines skipped, %d pieces", rec.Skipped, rec.Runs[0].Layout.Count())
	}
	rows, left := rec.Runs[0].filesDetail()
	want := [][]string{{"shard", "25 B", "1 of 2", seconds(3)}, {"config", "4 B", "2 of 2", seconds(14)}, {"vocab", "5 B", "2 of 2", seconds(14)}, {"empty", "0 B", "2 of 2", "–"}}
	if left != 0 || !slices.EqualFunc(rows, want, slices.Equal[[]string]) {
		t.Errorf("files are told as %q, want %q", rows, want)
	}
	var page strings.Builder
	if err := rec.HTML(&page); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"34 B in 4 files to 2 nodes", "Every file", `<td data-head="File">config</td>`} {
		if !strings.Contains(page.String(), text) {
			t.Errorf("the page does not say %q", text)
		}
	}
}

// Files that are not what the run moved, or too many of them, are not believed.
func TestFilesThatCannotBe(t *testing.T) {
	for name, e := range map[string]swarm.Event{
		"other size": {Size: 35, PieceSize: 10, Files: []swarm.EventFile{{Name: "a", Size: 30}, {Name: "b", Size: 4}}},
		"negative":   {Size: 10, PieceSize: 10, Files: []swarm.EventFile{{Name: "a", Size: 20}, {Name: "b", Size: -10}}},
		"too many":   {Size: 0, PieceSize: 10, Files: make([]swarm.EventFile, maxFiles+1)},
	} {
		e.Kind, e.Node, e.Nodes = "run", "a", []string{"a"}
		if rec := recordingOf(t, e); rec.Skipped != 1 {
			t.Errorf("%s: believed", name)
		}
	}
}
