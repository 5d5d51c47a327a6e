package planner

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/topo"
)

const threeHosts = `
hosts: [{name: h1}, {name: h2}, {name: h3}]
switches: [s0]
links: [{a: h1, b: s0, rate: 100MB/s}, {a: h2, b: s0, rate: 50MB/s}, {a: h3, b: s0, rate: 25MB/s}]
`

func graph(t testing.TB, text string) *topo.Graph {
	t.Helper()
	n, err := topo.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return topo.NewGraph(n)
}

func TestTransfersFile(t *testing.T) {
	g := graph(t, threeHosts)
	ts, err := ParseTransfers([]byte(`
transfers:
- {name: x, size: 10GiB, sources: [h1], destinations: [h2, h3], weight: 2.5, priority: -1}
- {name: y, sources: [h3], destinations: []}
`), g)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(ts), "[{x 1.073741824e+10 [0] [1 2] 2.5 -1} {y 0 [2] [] 1 0}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, c := range []struct{ text, want string }{
		{"", "line 1: the document is empty"},
		{"{}", "transfers is missing"},
		{"transfers: x", "want a list"},
		{"transfers: [{name: x, sources: [h1]}]", "line 1: transfers[0]: destinations is missing"},
		{"transfers:\n- {name: x, sources: [], destinations: [h1]}", "line 2: transfers[0].sources: there is no source"},
		{"transfers:\n- {name: x, sources: [h9], destinations: [h1]}", `line 2: transfers[0].sources[0]: there is no host "h9" in the topology`},
		{"transfers:\n- {name: x, sources: [s0], destinations: [h1]}", "s0 is a switch; data is on hosts, such as h1"},
		{"transfers:\n- {name: x, sources: [h1], destinations: [h2]}\n- {name: x, sources: [h1], destinations: [h2]}", "line 3: transfers[1].name: there is a transfer x already, in line 2"},
		{"transfers:\n- name: x\n  sources: [h1]\n  destinations: [h2,\n    h3,\n    h9]", `line 6: transfers[0].destinations[2]: there is no host "h9" in the topology`},
		{"transfers:\n- name: x\n  sources: [h1]\n  destinations:\n  - h2\n\n  # and\n  - h9", `line 8: transfers[0].destinations[1]: there is no host "h9" in the topology`},
		{"transfers:\n- {name: x, sources: [h1], destinations: [h2]\n- {name: y, sources: [h1], destinations: [h2]}", "line 3: did not find expected"},
		{"transfers:\n- name: x\n  sources: [h1]\n destinations: [h2]", "line 4: did not find expected"},
		{"transfers: [{name: x, sources: [h1], destinations: [h2], weight: 0}]", "weight: want a number from 0.001 to 1000"},
		{"transfers: [{name: x, sources: [h1], destinations: [h2], weight: 1001}]", "weight: want a number from 0.001 to 1000"},
		{"transfers: [{name: x, sources: [h1], destinations: [h2], weight: -1}]", "weight"},
		{"transfers: [{name: x, sources: [h1], destinations: [h2], priority: 1.5}]", "priority"},
		{"transfers: [{name: x, sources: [h1], destinations: [h2], size: -1}]", `size "-1" is negative`},
		{"transfers: [{name: x, sources: [h1], destinations: [h2], sise: 1}]", `unknown key`},
	} {
		_, err := ParseTransfers([]byte(c.text), g)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v, want one line with %q", c.text, err, c.want)
		}
	}
}

// Hosts of the Internet Topology Zoo need no quotes.
func TestTransfersOfTheZoo(t *testing.T) {
	files, err := filepath.Glob("../topo/testdata/zoo/*.graphml")
	if err != nil || len(files) == 0 {
		t.Fatalf("networks: %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n, err := topo.ParseGraphML(text, topo.Zoo{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, h := range n.Hosts {
			names = append(names, h.Name)
		}
		all := strings.Join(names, ", ")
		ts, err := ParseTransfers([]byte("transfers: [{name: x, sources: ["+names[0]+"], destinations: ["+all+"]}]"), topo.NewGraph(n))
		if err != nil || len(ts[0].Destinations) != len(names) {
			t.Errorf("%s: %v", file, err)
		}
		if bad := regexp.MustCompile(`[^\pL\pN\pM._/+, -]|(^| )-`).FindString(all); bad != "" {
			t.Errorf("%s: there is a %q in %s", file, bad, all)
		}
	}
}

// What is read can be planned.
func FuzzTransfers(f *testing.F) {
	f.Add([]byte("transfers: [{name: x, size: 1MiB, sources: [h1], destinations: [h2, h3, h3, h1], weight: 1, priority: 0}]"))
	f.Add([]byte(`{"transfers": [{"name": "x", "sources": ["h1", "h2"], "destinations": ["h3"]}, {"name": "y", "sources": ["h3"], "destinations": ["h1"], "priority": 3}]}`))
	f.Add([]byte("transfers: [{}]"))
	g := graph(f, threeHosts)
	f.Fuzz(func(t *testing.T, text []byte) {
		ts, err := ParseTransfers(text, g)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("more than one line: %q", err)
			}
			return
		}
		if len(ts) > 20 {
			return
		}
		p, plan := planned(t, On(g), Options{Floor: 0.5}, ts...)
		for k, s := range p.Finish(plan) {
			if math.IsNaN(s) || s < 0 {
				t.Fatalf("transfer %d is through after %v", k, s)
			}
		}
		p.Explain(plan)
	})
}

func TestFinish(t *testing.T) {
	g := graph(t, threeHosts)
	p, plan := planned(t, On(g), Options{Floor: 0.5}, Transfer{Name: "x", Size: 1e9, Sources: []int{0}, Destinations: []int{1}}, Transfer{Name: "y", Size: 1e9, Sources: []int{0}, Destinations: []int{2}}, Transfer{Name: "z", Sources: []int{0}, Destinations: []int{2}})
	got := p.Finish(plan)
	// h2 has its link of 50 MB/s, h3's 25 are shared.
	if !near(got[0], 20) || got[1] < 40 || got[1] > 161 || got[2] != 0 {
		t.Errorf("through after %v", got)
	}
	// Who waits gets what is left over when others are through.
	p, plan = planned(t, On(g), Options{Mode: Pipeline, MaxMin: true}, Transfer{Name: "x", Size: 1e9, Sources: []int{1}, Destinations: []int{0}}, Transfer{Name: "y", Size: 2e9, Sources: []int{1}, Destinations: []int{0}})
	got = p.Finish(plan)
	if !near(got[0], 40) || !near(got[1], 60) {
		t.Errorf("through after %v, want 40 and 60 s", got)
	}
}

// What is left over when others are through is shared out by weight; and a pipeline that crosses a link twice has half of it.
func TestFinishByWeight(t *testing.T) {
	n := star([2]float64{100, 0}, [2]float64{0, 1000}, [2]float64{0, 1000}, [2]float64{0, 1000})
	p, plan := planned(t, n, Options{MaxMin: true},
		Transfer{Name: "x", Size: 500 + 2000./3, Weight: 2, Sources: []int{0}, Destinations: []int{1}}, // at 50 for 10 s, and at two thirds of 100
		Transfer{Name: "y", Size: 250 + 1000./3 + 100, Sources: []int{0}, Destinations: []int{2}},      // at 25, at one third, and alone
		Transfer{Name: "z", Size: 250, Sources: []int{0}, Destinations: []int{3}})
	if got, want := p.Finish(plan), []float64{20, 21, 10}; !slices.EqualFunc(got, want, near) {
		t.Errorf("through after %v, want %v s", got, want)
	}
	// From s over to far, back to near, over again to far2; then what goes over is narrower than it was planned for.
	n = newNetwork(4, []string{"s", "near", "far", "far2", "s0", "s1"}, []edge{
		{4, 5, 1000, 1000, false}, {0, 4, 1000, 1000, false}, {1, 4, 1000, 1000, false}, {2, 5, 1000, 1000, false}, {3, 5, 1000, 1000, false},
	}, nil)
	p, _ = planned(t, n, Options{}, Transfer{Name: "x", Size: 1000, Sources: []int{0}, Destinations: []int{1, 2, 3}})
	q, _ := n.pipe(0, []int32{0, 2, 1, 3})
	plan = p.result([]pipe{q}, []float64{500})
	for _, c := range []struct{ over, want float64 }{{1000, 2}, {100, 20}} {
		if err := p.SetRate(0, c.over); err != nil {
			t.Fatal(err)
		}
		if got := p.Finish(plan); !near(got[0], c.want) {
			t.Errorf("over a link of %v through after %v, want %v s", c.over, got[0], c.want)
		}
	}
}

// What is in use by transfers that never end, and by those of which some destination gets nothing, is not there for others.
func TestFinishBesideOthers(t *testing.T) {
	n := star([2]float64{125e6, 125e6}, [2]float64{125e6, 125e6}, [2]float64{125e6, 125e6}, [2]float64{125e6, 125e6})
	a := Transfer{Name: "a", Size: 10e9, Sources: []int{0}, Destinations: []int{2}}
	b := Transfer{Name: "b", Sources: []int{1}, Destinations: []int{2}}
	c := Transfer{Name: "c", Size: 1e9, Sources: []int{3}, Destinations: []int{2}}
	p, plan := planned(t, n, Options{MaxMin: true}, a, b, c)
	// c has 1 GB at a third of the link; then a has 9 GB left, and two thirds.
	if got := p.Finish(plan); math.Abs(got[0]-132) > 0.1 || got[1] != 0 || math.Abs(got[2]-24) > 0.1 {
		t.Errorf("through after %v, want 132, 0 and 24 s", got)
	}
	// b's other destination is starved: b is never through, and its flow to h3 ends all the same.
	n = star([2]float64{125e6, 125e6}, [2]float64{125e6, 125e6}, [2]float64{125e6, 125e6}, [2]float64{125e6, 125e6}, [2]float64{125e6, 125e6})
	b.Size, b.Destinations = 2e9, []int{2, 4}
	p, plan = planned(t, n, Options{MaxMin: true}, a, b, c)
	plan.Flows = slices.DeleteFunc(plan.Flows, func(f Flow) bool { return f.Transfer == 1 })
	plan.Flows = append(plan.Flows, Flow{Transfer: 1, Hosts: []int{1, 2}, Rate: 125e6 / 3})
	plan.rates[Pair{1, 2}], plan.Starved = 125e6/3, []Pair{{1, 4}}
	if got := p.Finish(plan); math.Abs(got[0]-104) > 0.1 || !math.IsInf(got[1], 1) || math.Abs(got[2]-24) > 0.1 {
		t.Errorf("through after %v, want 104 s, never, and 24 s", got)
	}
}
