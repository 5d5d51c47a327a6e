package freshet_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/unit"
)

// TestDiagnose is what is said of what a node found.
func TestDiagnose(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	const trip = 100 * time.Millisecond // there and back
	const work = 3 * time.Second        // in between
	for _, tc := range []struct {
		name   string
		change func(c *control.CheckedNode, f *control.NodeCheck)
		want   string // WHAT fails|warns: part of the text; empty: nothing is wrong
	}{
		{"all is well", func(*control.CheckedNode, *control.NodeCheck) {}, ""},
		{"clock a little ahead", ahead(2 * time.Second), ""},
		{"clock ahead", ahead(3 * time.Second), "clock warns: 3s ahead of"},
		{"clock behind", ahead(-5 * time.Second), "clock warns: 5s behind"},
		{"clock far ahead", ahead(61 * time.Second), "clock fails: 1m1s ahead of"},
		{"clock far behind", ahead(-10 * time.Minute), "clock fails: 10m0s behind"},
		{"a slow way is no clock that is off", func(c *control.CheckedNode, f *control.NodeCheck) { // 8 s there, none back
			c.Sent = c.Sent.Add(-8 * time.Second)
		}, ""},
		{"a slow way hides only what it can", func(c *control.CheckedNode, f *control.NodeCheck) {
			ahead(20*time.Second)(c, f)
			c.Sent = c.Sent.Add(-8 * time.Second)
		}, "clock warns: 20"},
		{"unreachable", func(_ *control.CheckedNode, f *control.NodeCheck) {
			f.Missed, f.Failures = 1, []control.Fault{{Node: "n2", Cause: "connection refused"}}
		}, "reach fails: cannot reach n2: connection refused"},
		{"store", func(_ *control.CheckedNode, f *control.NodeCheck) {
			f.Source = &control.SourceCheck{Error: "access denied"}
		}, "store fails: access denied"},
		{"slow store", func(_ *control.CheckedNode, f *control.NodeCheck) {
			f.Source = &control.SourceCheck{FirstByte: control.Duration(4 * time.Second)}
		}, "store warns: waited 4s"},
		{"root not writable", func(_ *control.CheckedNode, f *control.NodeCheck) { f.Roots[0].Error = "/data: read-only" }, "space fails: /data: read-only"},
		{"little space", func(_ *control.CheckedNode, f *control.NodeCheck) { f.Roots[0].Free = unit.GiB - 1 }, "space warns: below /data"},
		{"no space", func(_ *control.CheckedNode, f *control.NodeCheck) { f.Roots[0].Free = 0 }, "space fails: below /data"},
		{"congestion", func(_ *control.CheckedNode, f *control.NodeCheck) {
			f.Congestion, f.Congestions = "bbr", []string{"reno", "bbr"}
		}, "congestion warns: bbr, not cubic; the system has reno, bbr"},
		{"few files", func(_ *control.CheckedNode, f *control.NodeCheck) { f.Files = 800 }, "files warns: 864"},
		{"too few files", func(_ *control.CheckedNode, f *control.NodeCheck) { f.Files = 100 }, "files fails: 864"},
		{"version", func(_ *control.CheckedNode, f *control.NodeCheck) { f.Version = "v0" }, "version warns: v0"},
		{"certificate", func(_ *control.CheckedNode, f *control.NodeCheck) {
			f.Expires = f.Answered.Add(10*24*time.Hour + time.Minute)
		}, "certificate warns: 240 h"},
		{"certificate of hours", func(_ *control.CheckedNode, f *control.NodeCheck) { f.Expires = f.Answered.Add(5 * time.Hour) }, "certificate fails: 5 h"},
		{"state", func(_ *control.CheckedNode, f *control.NodeCheck) { f.State = "/var/x cannot be written" }, "state fails: /var/x"},
		{"down", func(c *control.CheckedNode, f *control.NodeCheck) {
			c.Down, c.Found = "down: last heard of 3s ago", nil
		}, "down fails: 3s ago"},
		{"silent", func(c *control.CheckedNode, f *control.NodeCheck) {
			c.Error, c.Found = "did not answer within 22s", nil
		}, "down fails: 22s"},
		{"not asked", func(c *control.CheckedNode, f *control.NodeCheck) {
			c.Late, c.Error, c.Found = true, "was not asked: others took all of the 25s", nil
		}, "down fails: was not asked: others took all"},
	} {
		f := &control.NodeCheck{
			Received: at.Add(trip / 2), Answered: at.Add(trip/2 + work), Version: "v1", Congestion: "cubic", Files: 1024,
			Expires: at.Add(200 * 24 * time.Hour), Roots: []control.RootCheck{{Dir: "/data", Free: 50 * unit.GiB}}, Reached: 99,
		}
		n := control.CheckedNode{Name: "n1", Sent: at, Heard: at.Add(trip + work), Found: f}
		tc.change(&n, f)
		found := freshet.Diagnose(freshet.Check{Registered: 100, Nodes: []control.CheckedNode{n}}, "v1")
		var got []string
		for _, f := range found {
			how := "warns"
			if f.Fails {
				how = "fails"
			}
			got = append(got, fmt.Sprintf("%s %s: %s", f.What, how, f.Text))
			if f.Do == "" || f.Node != "n1" {
				t.Errorf("%s: %+v does not say where it is and what to do", tc.name, f)
			}
		}
		what, text, _ := strings.Cut(tc.want, ": ")
		switch {
		case tc.want == "" && len(got) > 0:
			t.Errorf("%s: got %q, want nothing", tc.name, got)
		case tc.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], what+": ") || !strings.Contains(got[0], text)):
			t.Errorf("%s: got %q, want one with %q", tc.name, got, tc.want)
		}
	}
}

// ahead puts a node's clock forward.
func ahead(d time.Duration) func(*control.CheckedNode, *control.NodeCheck) {
	return func(_ *control.CheckedNode, f *control.NodeCheck) {
		f.Received, f.Answered, f.Expires = f.Received.Add(d), f.Answered.Add(d), f.Expires.Add(d)
	}
}

// Where the time is up before all peers were dialed the others are not said to be out of reach: nobody knows.
func TestCheckWithoutTimeForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all, silent = 200, 128 // peers, and those of them that a firewall hides
		check := freshet.Check{Registered: all + 1}
		var peers []control.Member
		for i := range all + 1 {
			name := fmt.Sprintf("n%03d", i)
			if check.Nodes = append(check.Nodes, control.CheckedNode{Name: name, Late: true}); i > 0 {
				peers = append(peers, control.Member{Name: name})
			}
		}
		check.Nodes = append(check.Nodes, control.CheckedNode{Name: "gone", Down: "down: last heard of 3s ago"}) // which nobody was to dial
		ctx, cancel := context.WithTimeout(t.Context(), 18*time.Second)                                          // each 32 of those take 5
		defer cancel()
		reached, missed := freshet.ReachAll(ctx, peers, func(ctx context.Context, _, name string) error {
			if name <= peers[silent-1].Name {
				<-ctx.Done()
			}
			return ctx.Err()
		})
		if reached != 0 || len(missed) != 96 || missed[95].Node != peers[95].Name || missed[95].Cause != "no answer within 5s" {
			t.Errorf("reached %d, and missed %d: %v", reached, len(missed), missed)
		}
		at := time.Now()
		check.Nodes[0] = control.CheckedNode{Name: "n000", Sent: at, Heard: at, Found: &control.NodeCheck{
			Received: at, Answered: at, Expires: at.AddDate(1, 0, 0), Reached: reached, Missed: len(missed), Failures: missed[:20],
		}}
		var got []string
		for _, f := range freshet.Diagnose(check, "") {
			if f.Node == "n000" {
				got = append(got, f.Text)
			}
		}
		if len(got) != 22 || got[20] != "cannot reach 76 more nodes" || !strings.HasPrefix(got[21], "104 of 200 nodes were not asked") {
			t.Errorf("got %q", got)
		}
	})
}

// forward passes connections on from a port to addr, until the returned function ends that.
func forward(t *testing.T, addr string) (at string, cut func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	pass := func(from, to net.Conn) { io.Copy(to, from); from.Close(); to.Close() }
	wg.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", addr)
			if err != nil {
				in.Close()
				continue
			}
			wg.Go(func() { pass(in, out) })
			wg.Go(func() { pass(out, in) })
		}
	})
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { ln.Close() })
	return ln.Addr().String(), func() { ln.Close() }
}

// TestCheck is a cluster with a node whose advertised address leads nowhere any
// more and whose state directory is gone, one that is down, and an object that is not there.
func TestCheck(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := free.Addr().String()
	free.Close()
	config := c.config(t, "n2")
	at2, cut := forward(t, listen)
	config.Listen, config.Advertise = listen, at2
	c.start(t, config)

	store := newBucket(t)
	store.put(t, "o", random(5, 100_000))
	source := at(store.Endpoint, "o")
	check, err := c.client.Check(t.Context(), nil, source)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range check.Nodes {
		f := n.Found
		if f == nil || f.Reached != 2 || f.Missed != 0 || f.State != "" || f.Source == nil || f.Source.Error != "" || f.Source.FirstByte <= 0 ||
			len(f.Roots) != 1 || f.Roots[0].Free == 0 || f.Files == 0 || f.Version != "test" {
			t.Errorf("%s: got %+v, %+v", n.Name, n, f)
		}
	}
	for _, f := range freshet.Diagnose(check, "test") {
		if f.Fails && f.What != "space" { // this machine's disk is its own business
			t.Errorf("all is well, and %+v", f)
		}
	}

	cut()
	if err := os.Rename(config.State, config.State+".away"); err != nil {
		t.Fatal(err)
	}
	defer os.Rename(config.State+".away", config.State)
	if err := c.byName["n1"].Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "n1 is down", func() bool {
		nodes, err := c.client.Nodes(t.Context())
		return err == nil && !nodes[1].Up
	})
	check, err = c.client.Check(t.Context(), nil, at(store.Endpoint, "missing"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, f := range freshet.Diagnose(check, "test") {
		if f.Fails && f.What != "space" {
			got[f.Node+" "+f.What] = true
		}
	}
	want := []string{"n0 reach", "n0 store", "n1 down", "n2 state", "n2 store"}
	for _, w := range want {
		if !got[w] {
			t.Errorf("%s was not found: %v", w, got)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, err := c.client.Check(t.Context(), []string{"nobody"}, ""); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("a selector that matches nothing: got %v", err)
	}
}
