package control

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestWhatNodesFindIsBounded: what a node says when it is asked to check itself is shown on
// the terminal of an admin. It cannot act there, and does not crowd out what others say.
func TestWhatNodesFindIsBounded(t *testing.T) {
	h := newHub(t)
	bad := joined(t, h, "n1", Registration{})
	const escape = "\x1b]0;mine\a\n"
	long := escape + strings.Repeat("x", 10_000)
	bad.found = NodeCheck{
		Version: long, Congestion: long, Congestions: slices.Repeat([]string{long}, 40), State: long, Source: &SourceCheck{Error: long},
		Roots: []RootCheck{{Dir: long, Error: long}}, Failures: slices.Repeat([]Fault{{Node: long, Cause: long}}, 10),
	}
	joined(t, h, "n2", Registration{}).found = NodeCheck{Version: "v2"}
	c, err := h.client(t, ClientOptions{}).Check(testContext(t), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Nodes) != 2 || c.Nodes[0].Found == nil || c.Nodes[1].Found == nil || c.Nodes[1].Found.Version != "v2" {
		t.Fatalf("got %+v", c)
	}
	found := c.Nodes[0].Found
	b, err := json.Marshal(found)
	if err != nil {
		t.Fatal(err)
	}
	for _, sign := range []string{`\u001b`, `\u0007`, `\n`} {
		if strings.Contains(string(b), sign) {
			t.Errorf("the answer of n1 holds %s: %.200s", sign, b)
		}
	}
	if len(b) > 64<<10 {
		t.Errorf("the answer of n1 has %d bytes", len(b))
	}
	if len(found.Failures) != 10 || len(found.Roots) != 1 || found.Source == nil || !strings.Contains(found.State, "mine") {
		t.Errorf("what it said is gone: %.400s", b)
	}
}

// TestWhatNodesSayOfThemselvesFits: an admin gets what all nodes say of themselves in one message, so none may say so much that there is
// no room for the others. JSON makes six letters of some.
func TestWhatNodesSayOfThemselvesFits(t *testing.T) {
	long := strings.Repeat("<", maxDest)
	for name, c := range map[string]struct {
		r  Registration
		ok bool
	}{
		"many roots":        {Registration{Roots: slices.Repeat([]string{"/srv/" + strings.Repeat("x", 200)}, 256)}, true},
		"roots too long":    {Registration{Roots: slices.Repeat([]string{long}, 255)}, false},
		"a few, of escapes": {Registration{Roots: slices.Repeat([]string{long}, 3)}, false},
	} {
		c.r.Addr = "h:1"
		if err := c.r.check(); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want it to pass: %v", name, err, c.ok)
		}
	}
	few := NodeCheck{Roots: []RootCheck{{Dir: "/a"}, {Dir: "/b"}}, Failures: []Fault{{Node: "n1"}}}
	many := NodeCheck{
		Version: long, Congestion: long, Congestions: slices.Repeat([]string{long}, 40), State: long, Source: &SourceCheck{Error: long},
		Roots: slices.Repeat([]RootCheck{{Dir: long, Error: long}}, 300), Failures: slices.Repeat([]Fault{{Node: long, Cause: long}}, 30),
	}
	few.bound()
	many.bound()
	if len(few.Roots) != 2 || len(few.Failures) != 1 {
		t.Errorf("of a few things it found are left %+v", few)
	}
	if b, err := json.Marshal(many); err != nil || len(b) > maxSelf || len(many.Roots) == 0 {
		t.Errorf("of many are left %d bytes and %d roots (%v), want up to %d and some", len(b), len(many.Roots), err, maxSelf)
	}
}

// TestCheckThatTakesLong: where nodes take long, each because it cannot reach others, the check ends before who asked
// for it gives up. What the first have found is there, and of the others that they were not heard.
func TestCheckThatTakesLong(t *testing.T) {
	if checkAllWithin >= callWithin {
		t.Errorf("a check has %v, and who asks for it waits %v", checkAllWithin, callWithin)
	}
	defer func(most int) { mostChecks = most }(mostChecks)
	mostChecks = 1
	synctest.Test(t, func(t *testing.T) {
		nodes := []CheckedNode{{Name: "n1"}, {Name: "n2", Down: "down: never heard of since it joined"}, {Name: "n3"}, {Name: "n4"}, {Name: "n5"}}
		checkAll(t.Context(), nodes, func(ctx context.Context, name string) (NodeCheck, error) {
			select {
			case <-time.After(12 * time.Second):
				return NodeCheck{Version: name}, nil
			case <-ctx.Done():
				return NodeCheck{}, errSilent
			}
		})
		for i, want := range []struct {
			found, late bool
			text        string
		}{{true, false, ""}, {false, false, ""}, {true, false, ""}, {false, true, "had not answered when"}, {false, true, "was not asked"}} {
			n := nodes[i]
			if (n.Found != nil) != want.found || n.Late != want.late || !strings.Contains(n.Error, want.text) || (n.Error == "") != (want.text == "") {
				t.Errorf("%s: got %+v, want found %v, late %v, %q", n.Name, n, want.found, want.late, want.text)
			}
		}
	})
}
