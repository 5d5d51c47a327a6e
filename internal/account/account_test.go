package account

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/unit"
)

func declared(r unit.Bandwidth) Capacity { return Capacity{Rate: r, From: Declared} }

// probed is a capacity of that day of March 2026.
func probed(r unit.Bandwidth, day int) Capacity {
	return Capacity{r, Probed, time.Date(2026, 3, day, 23, 59, 0, 0, time.UTC)}
}

// three nodes get 300 MB, as in the paper's example: 10 + 2 + 2 MB/s from the store.
func three(change func(*Job)) Job {
	j := Job{Size: 300e6, Done: true}
	for i, r := range []unit.Bandwidth{10e6, 2e6, 2e6} {
		j.Nodes = append(j.Nodes, Node{
			Name: string(rune('a' + i)), DoneS: 22, Store: 100e6, Peers: 200e6, Sent: 200e6,
			Course: Course{Seconds: 22, Carries: Capacities{In: declared(100e6), Out: declared(100e6), Store: declared(r)}},
		})
	}
	change(&j)
	return j
}

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Job)
		bound  float64
		by     string
		node   string
		from   []Source
		unseen string // nodes missing from the parts, one part after the other
	}{
		{"the paper's store", func(*Job) {}, 300.0 / 14, "store", "", []Source{Declared}, "||"},
		{"a slow link", func(j *Job) { j.Nodes[1].Course.Carries.In = Capacity{Rate: 5e6, From: NIC} }, 60, "downlink", "b", []Source{NIC}, "||"},
		{"the job declares the store", func(j *Job) { j.Store = declared(5e6) }, 60, "store", "", []Source{Declared}, "||"},
		{"more than the nodes' connections", func(j *Job) { j.Store = declared(1e9); j.Nodes[0].Course.Carries.Store.From = NIC }, 300.0 / 14, "store", "", []Source{NIC, Declared}, "||"},
		{"more than was seen elsewhere", func(j *Job) { j.Store = declared(20e6); j.Nodes[0].Course.Carries.Store.From = Seen }, 15, "store", "", []Source{Declared}, "||"},
		{"only the job knows of the store", func(j *Job) {
			j.Store = declared(10e6)
			for i := range j.Nodes {
				j.Nodes[i].Course.Carries.Store = Capacity{}
			}
		}, 30, "store", "", []Source{Declared}, "||"},
		{"one connection is unknown", func(j *Job) { j.Nodes[2].Course.Carries.Store = Capacity{} }, 3, "downlink", "", []Source{Declared}, "|c|c"},
		{"two slow links", func(j *Job) {
			j.Nodes[1].Course.Carries.In, j.Nodes[2].Course.Carries.In = declared(5e6), Capacity{Rate: 5.01e6, From: NIC}
		}, 60, "downlink", "b, c", []Source{Declared, NIC}, "||"},
		{"one may not read", func(j *Job) { j.Nodes[0].NoAccess = true; j.Nodes[0].Course.Carries.Store = Capacity{} }, 75, "store", "", []Source{Declared}, "||"},
		{"slow uplinks", func(j *Job) {
			for i := range j.Nodes {
				j.Nodes[i].Course.Carries.Out = declared(2e6)
			}
		}, 900.0 / 20, "uplinks", "", []Source{Declared}, "||"},
		{"nothing is known", func(j *Job) {
			for i := range j.Nodes {
				j.Nodes[i].Course.Carries = Capacities{}
			}
		}, 0, "", "", nil, "a,b,c|a,b,c|a,b,c"},
		{"one had it before and gives", func(j *Job) { j.Nodes[0].Held = true }, 600.0 / 304, "", "", nil, "||"},
		{"more than was probed", func(j *Job) { j.Store = declared(20e6); j.Nodes[0].Course.Carries.Store = probed(10e6, 3) }, 15, "store", "", []Source{Declared}, "||"},
		{"a thin link between sites", func(j *Job) {
			j.Sites = []Site{{Name: "east", Inbound: declared(4e6)}, {Name: "west"}}
		}, 75, "site", "east", []Source{Declared}, "||||"},
		{"a thin link into where it was", func(j *Job) {
			j.Sites = []Site{{Name: "east", Inbound: declared(4e6), Held: true}, {Name: "west", Inbound: declared(5e6)}}
		}, 60, "site", "west", []Source{Declared}, "|||"},
		{"nobody needs it", func(j *Job) {
			for i := range j.Nodes {
				j.Nodes[i].Held = true
			}
		}, 0, "", "", nil, ""},
		{"a third is there", func(j *Job) { j.Nodes[0].Kept = 100e6 }, 200.0 / 14, "store", "", []Source{Declared}, "||"},
		{"each has another third", func(j *Job) {
			for i := range j.Nodes {
				j.Nodes[i].Kept = 100e6
			}
		}, 2, "downlink", "", []Source{Declared}, "|"},
		{"all have the same third", func(j *Job) {
			for i := range j.Nodes {
				j.Nodes[i].Kept, j.Nodes[i].KeptSet = 100e6, "a"
			}
		}, 200.0 / 14, "store", "", []Source{Declared}, "||"},
		{"each has another third, and says which", func(j *Job) {
			for i := range j.Nodes {
				j.Nodes[i].Kept, j.Nodes[i].KeptSet = 100e6, j.Nodes[i].Name
			}
		}, 2, "downlink", "", []Source{Declared}, "|"},
		{"two say the same of different parts", func(j *Job) {
			for i, kept := range []unit.Bytes{100e6, 100e6, 200e6} {
				j.Nodes[i].Kept, j.Nodes[i].KeptSet = kept, "a"
			}
			j.Nodes[0].Course.Carries.In = declared(20e6)
		}, 10, "downlink", "a", []Source{Declared}, "|"},
		{"a site has one third twice", func(j *Job) {
			j.Sites = []Site{{Name: "east", Inbound: declared(10e6)}, {Name: "west"}}
			for i, site := range []string{"east", "east", "west"} {
				j.Nodes[i].Site = site
			}
			j.Nodes[0].Kept, j.Nodes[1].Kept = 100e6, 100e6
			j.Nodes[0].KeptSet, j.Nodes[1].KeptSet = "a", "a"
		}, 20, "site", "east", []Source{Declared}, "||||"},
		{"a site has two thirds", func(j *Job) {
			j.Sites = []Site{{Name: "east", Inbound: declared(5e6)}, {Name: "west"}}
			for i, site := range []string{"east", "east", "west"} {
				j.Nodes[i].Site = site
			}
			j.Nodes[0].Kept, j.Nodes[1].Kept = 100e6, 100e6
		}, 20, "site", "east", []Source{Declared}, "||||"},
		{"a site has all", func(j *Job) {
			j.Sites = []Site{{Name: "east", Inbound: declared(1e3)}, {Name: "west"}}
			for i, site := range []string{"east", "east", "west"} {
				j.Nodes[i].Site = site
			}
			j.Nodes[0].Kept, j.Nodes[1].Kept = 150e6, 150e6
		}, 3, "downlink", "c", []Source{Declared}, "||"},
		{"one lacks an empty file", func(j *Job) { j.Nodes[2].Kept = 300e6 }, 3, "downlink", "", []Source{Declared}, "||"},
		{"one of a site lacks an empty file", func(j *Job) {
			j.Sites = []Site{{Name: "east", Inbound: declared(1e7)}, {Name: "west", Inbound: declared(2e7)}}
			for i, site := range []string{"west", "east", "east"} {
				j.Nodes[i].Site = site
			}
			j.Nodes[2].Kept = 300e6
		}, 15, "site", "west", []Source{Declared}, "|||"},
		{"all lack an empty file", func(j *Job) {
			for i := range j.Nodes {
				j.Nodes[i].Kept = 300e6
			}
		}, 0, "", "", nil, ""},
		{"who lacks more has a faster link", func(j *Job) {
			j.Nodes[0].Course.Carries.In, j.Nodes[1].Course.Carries.In = declared(5e6), declared(10e6)
			j.Nodes[0].Kept = 200e6
		}, 30, "downlink", "b", []Source{Declared}, "||"},
		{"uplinks are slow, and one has half", func(j *Job) {
			for i := range j.Nodes {
				j.Nodes[i].Course.Carries.Out = declared(2e6)
			}
			j.Nodes[0].Kept = 150e6
		}, 750.0 / 20, "uplinks", "", []Source{Declared}, "||"},
		{"an empty object", func(j *Job) { j.Size = 0 }, 0, "", "", nil, ""},
	} {
		a := Of(three(c.change))
		if c.name == "one had it before and gives" { // the slower of two links into a node, then
			if a.Bound != 3 || a.Parts[1].Seconds != 300.0/104 {
				t.Errorf("%s: got bound %v, store's %v", c.name, a.Bound, a.Parts[1].Seconds)
			}
			read, sent := 300e6+200e6, 400e6 // by all from the store and from who had it, by the others
			if got, want := a.Parts[2].Used, (read+sent)/(304e6*22); math.Abs(got-want) > 1e-9 {
				t.Errorf("%s: %v of what can be sent was, want %v", c.name, got, want)
			}
			continue
		}
		var by, node string
		var from []Source
		if p := a.Binding(); p != nil {
			by, node, from = p.By, p.Name, p.From
		}
		var unseen []string
		for _, p := range a.Parts {
			unseen = append(unseen, strings.Join(p.Missing, ","))
		}
		if math.Abs(a.Bound-c.bound) > 1e-9 || by != c.by || node != c.node || !slices.Equal(from, c.from) || strings.Join(unseen, "|") != c.unseen {
			t.Errorf("%s: got %v by %q %q from %v, unseen %q; want %v by %q %q from %v, %q", c.name, a.Bound, by, node, from, strings.Join(unseen, "|"), c.bound, c.by, c.node, c.from, c.unseen)
		}
		if c.bound == 0 && a.Ratio != 0 {
			t.Errorf("%s: ratio %v to an unknown bound", c.name, a.Ratio)
		}
	}
}

func TestCauses(t *testing.T) {
	all := func(j *Job, f func(*Node)) {
		for i := range j.Nodes {
			f(&j.Nodes[i])
		}
	}
	blind := func(n *Node) { n.Course.Carries = Capacities{} }
	slow := func(n *Node) { n.DoneS, n.Course.Seconds = 44, 44 }
	for _, c := range []struct {
		name   string
		change func(*Job)
		want   string // What and Name
		why    string // a part of Why
		late   string
	}{
		{"near the store's bound", func(*Job) {}, "store ", "the store sets the bound, and it took no more than 1.03 times that", ""},
		{"near the bound of a slow link", func(j *Job) { j.Nodes[1].Course.Carries.In = declared(300e6 / 21) }, "store ", "", ""},
		{"near the bound of a slower link", func(j *Job) { j.Nodes[1].Course.Carries.In = declared(300e6 / 22) }, "nic b", "the link into b sets the bound", ""},
		{"near the uplinks' bound", func(j *Job) { all(j, func(n *Node) { n.Course.Carries.Out = declared(9e6) }) }, "nic ", "what the store and all nodes can send", ""},
		{"faster than was seen elsewhere", func(j *Job) { all(j, func(n *Node) { n.DoneS = 20; n.Course.Carries.Store.From = Seen }) }, "store ", "more went through than seen in another job", ""},
		{"faster than was probed", func(j *Job) {
			all(j, func(n *Node) { n.DoneS = 20; n.Course.Carries.Store = probed(n.Course.Carries.Store.Rate, 3) })
		}, "store ", "more went through than probed 2026-03-03", ""},
		{"near the bound of a link between sites", func(j *Job) { j.Sites = []Site{{Name: "east", Inbound: declared(300e6 / 22)}} }, "site link east", "the link into site east sets the bound", ""},
		{"busy processors", func(j *Job) { all(j, slow); all(j, func(n *Node) { n.Course.BusyS = 30 }) }, "cpu ", "the nodes' processors were busy during 68 % of the time", ""},
		{"processors not busy enough", func(j *Job) { all(j, slow); all(j, func(n *Node) { n.Course.BusyS = 20 }) }, " ", "nothing that was measured stands out", ""},
		{"one node far behind", func(j *Job) { all(j, blind); slow(&j.Nodes[2]); j.Nodes[2].Course.Spent[FromStore] = 40 }, "straggler c",
			"c after 44.00 s, the median node after 22.00 s; the store was read from or waited for during 91 % of the time", "c"},
		{"its processors", func(j *Job) { all(j, blind); slow(&j.Nodes[2]); j.Nodes[2].Course.BusyS = 40 }, "straggler c", "its processors were busy", "c"},
		{"not far enough", func(j *Job) { all(j, blind); j.Nodes[2].DoneS = 29 }, " ", "", ""},
		{"two of three are behind", func(j *Job) { all(j, blind); slow(&j.Nodes[1]); slow(&j.Nodes[2]) }, " ", "", ""},
		{"a slow node at its own bound", func(j *Job) { slow(&j.Nodes[2]); j.Nodes[2].Course.Carries.In = declared(7e6) }, "nic c", "the link into c sets the bound", "c"},
		{"the disk", func(j *Job) {
			all(j, slow)
			all(j, func(n *Node) {
				n.Course.WriteS, n.Course.Spent[ForDisk], n.Course.Spent[ForStore] = 20, 5, 40
			})
		}, "disk ", "the disk was waited for during 57 % of the time", ""},
		{"a capacity used up", func(j *Job) {
			all(j, slow)
			all(j, func(n *Node) { n.Store = 170e6; n.Course.Spent[ForPeers] = 40 })
		}, "store ", "the store was used to 83 %", ""},
		{"waiting for the store", func(j *Job) {
			all(j, blind)
			all(j, func(n *Node) {
				n.Course.Spent[FromStore], n.Course.Spent[ForBarrier], n.Course.Spent[FromPeers] = 8, 8, 6
			})
		}, "store ", "the store was read from or waited for during 73 % of the time", ""},
		{"reading and passing on", func(j *Job) {
			all(j, blind)
			all(j, func(n *Node) {
				n.Course.Spent[FromStore], n.Course.Spent[FromBoth], n.Course.Spent[ForStore], n.Course.Spent[FromPeers] = 2, 12, 2, 6
			})
		}, "store ", "the store was read from or waited for during 73 % of the time", ""},
		{"waiting for peers", func(j *Job) {
			all(j, blind)
			all(j, func(n *Node) { n.Course.Spent[FromBoth], n.Course.Spent[FromPeers], n.Course.Spent[ForPeers] = 6, 9, 7 })
		}, "peers ", "there were only peers to wait for during 73 % of the time", ""},
		{"a used link between sites", func(j *Job) {
			all(j, slow)
			j.Sites = []Site{{Name: "east", Inbound: declared(10e6)}}
			all(j, func(n *Node) { n.Site, n.Store, n.Crossed = "east", 40e6, 90e6 })
		}, "site link east", "the link into site east was used to 89 %", ""},
		{"a job that failed", func(j *Job) { j.Done = false; j.Nodes[1].DoneS = 0 }, " ", "", ""},
	} {
		a := Of(three(c.change))
		if got := a.Cause.What + " " + a.Cause.Name; got != c.want || !strings.Contains(a.Cause.Why, c.why) || strings.Join(a.Stragglers, ",") != c.late {
			t.Errorf("%s: got %q (%s), stragglers %v; want %q (%s), %q", c.name, got, a.Cause.Why, a.Stragglers, c.want, c.why, c.late)
		}
		if a.Cause.String() == "" {
			t.Errorf("%s: no words for %q", c.name, a.Cause.What)
		}
	}
}

// Where the nodes of a site had the object much sooner than it can have come in, the store is inside, and what is declared of that link is no
// bound; where it was a little sooner it may be, and that is said.
func TestLinkIntoTheSiteOfTheStore(t *testing.T) {
	for _, c := range []struct {
		name            string
		rate            unit.Bandwidth // into east
		late            float64        // when the node of west has it
		bound           float64
		by              string
		refuted, beaten bool
	}{
		{"it takes a little longer than the link would have", 300e6 / 21.9, 22, 21.9, "site", false, false},
		{"a little less long", 300e6 / 23, 22, 23, "site", false, true},
		{"much less", 300e6 / 75, 22, 300.0 / 14, "store", true, false},
		{"much less, and others take longer", 300e6 / 75, 80, 300.0 / 14, "store", true, false},
		{"the others alone are sooner", 300e6 / 24, 1, 24, "site", false, true},
		{"it is not known", 0, 22, 300.0 / 14, "store", false, false},
	} {
		a := Of(three(func(j *Job) {
			j.Sites = []Site{{Name: "east", Inbound: declared(c.rate)}, {Name: "west"}}
			for i, site := range []string{"east", "east", "west"} {
				j.Nodes[i].Site = site
			}
			j.Nodes[2].DoneS = c.late
		}))
		p, east := a.Binding(), a.Parts[3]
		if p == nil || p.By != c.by || math.Abs(a.Bound-c.bound) > 1e-9 {
			t.Errorf("%s: the bound is %v, by %+v; want %v by the %s", c.name, a.Bound, p, c.bound, c.by)
		}
		if east.Refuted() != c.refuted || c.refuted && (east.Used != 0 || east.Rate != c.rate || !strings.Contains(east.Unknown(), "if the store is inside that site")) {
			t.Errorf("%s: got %+v (%s), want that it is refuted: %v", c.name, east, east.Unknown(), c.refuted)
		}
		if why := a.Beaten(); strings.Contains(why, "or the store is inside site east") != c.beaten || strings.Contains(a.Cause.Why, "inside") != c.beaten {
			t.Errorf("%s: it says of a bound that is not reached %q, and of the cause %q", c.name, why, a.Cause.Why)
		}
	}
}

// What came into each site, of several, is counted apart from what came from inside.
func TestEntries(t *testing.T) {
	a := Of(three(func(j *Job) {
		j.Sites = []Site{{Name: "east", Inbound: declared(20e6)}, {Name: "west"}}
		for i, site := range []string{"east", "east", "west"} {
			j.Nodes[i].Site = site
		}
		j.Nodes[0].Crossed, j.Nodes[1].Crossed, j.Nodes[2].Crossed = 70e6, 36e6, 203e6
	}))
	want := []Entry{{"east", 2, 200e6, 106e6, 1.02}, {"west", 1, 100e6, 203e6, 1.01}}
	if !reflect.DeepEqual(a.Entries, want) {
		t.Errorf("got %+v, want %+v", a.Entries, want)
	}
	if got, want := a.Parts[3].Used, 306e6/(20e6*22); math.Abs(got-want) > 1e-9 || a.Parts[4].Used != 0 {
		t.Errorf("%v and %v of the links into the sites were used, want %v and nothing", got, a.Parts[4].Used, want)
	}
	if a := Of(three(func(j *Job) {
		j.Sites, j.Nodes[0].Site, j.Nodes[0].Kept = []Site{{Name: "east"}, {Name: "west"}}, "east", 270e6
	})); math.Abs(a.Entries[0].Copies-1.0/3) > 1e-9 {
		t.Errorf("where one had nine tenths: a third of the object is said to be %v times the object", a.Entries[0].Copies)
	}
	if a := Of(three(func(*Job) {})); a.Entries != nil {
		t.Errorf("without sites: got %+v", a.Entries)
	}
}

// Every capacity is named with its source, a probe with its day, the oldest of several, and what is
// unknown with what to do.
func TestSourcesAreNamed(t *testing.T) {
	a := Of(three(func(j *Job) {
		for i := range j.Nodes {
			c := &j.Nodes[i].Course.Carries
			c.In, c.Out, c.Store = probed(100e6, 9-i), Capacity{Rate: 100e6, From: NIC}, probed(5e6, 20+i)
		}
		j.Nodes[1].Course.Carries.Store = Capacity{Rate: 5e6, From: Seen}
	}))
	for i, want := range []string{"probed 2026-03-07", "probed 2026-03-20, seen in another job", "network interface, probed 2026-03-20, seen in another job"} {
		if got := a.Parts[i].Sources(); got != want {
			t.Errorf("%s: got %q, want %q", a.Parts[i].By, got, want)
		}
		if got := a.Parts[i].Unknown(); got != "" {
			t.Errorf("%s is known, and %q", a.Parts[i].By, got)
		}
	}
	if got := probed(1, 5).Source() + declared(1).Source() + (Capacity{}).Source(); got != "probed 2026-03-05declared" {
		t.Errorf("got %q", got)
	}
	a = Of(three(func(j *Job) {
		j.Sites = []Site{{Name: "east"}}
		for i := range j.Nodes {
			j.Nodes[i].Course.Carries = Capacities{}
		}
	}))
	for i, want := range []string{"the links of a, b, c carry: measure them (freshet probe)", "the store gives to a, b, c: measure it (freshet probe --source URL)",
		"declare them (--declare out=RATE,store=RATE", "--declare site.east=RATE of broadcast"} {
		if got := a.Parts[i].Unknown(); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want it to say %q", a.Parts[i].By, got, want)
		}
	}
}

func TestCPUPerGB(t *testing.T) {
	a := Of(three(func(j *Job) { j.Nodes[0].Course.CPUS, j.Nodes[1].Course.CPUS = 0.6, 0.9 })) // the third told nothing
	if math.Abs(a.CPUPerGB-2.5) > 1e-9 {
		t.Errorf("got %v CPU-s/GB, want 2.5", a.CPUPerGB)
	}
}

// Whatever is noted when, the steps are few and add up to the totals.
func TestLineAddsUp(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		most := 2 + rnd.IntN(60)
		l := NewLine(most)
		var at float64
		var store, peers, sent unit.Bytes
		for range rnd.IntN(500) {
			at += rnd.ExpFloat64() * []float64{0, 0.1, 0.25, 30}[rnd.IntN(4)]
			store += unit.Bytes(rnd.IntN(1 << 20))
			peers += unit.Bytes(rnd.IntN(1 << 20))
			sent += unit.Bytes(rnd.IntN(1 << 20))
			l.Note(at, store, peers, sent)
		}
		c := l.Course()
		if len(c.Store) > most || float64(len(c.Store))*c.Step < at-1e-9 {
			t.Fatalf("seed %d: %d steps of %v s for %v s, want up to %d", seed, len(c.Store), c.Step, at, most)
		}
		for _, c := range []Course{c, c.Thinner(), c.Thinner().Thinner()} {
			for i, line := range [][]int64{c.Store, c.Peers, c.Sent} {
				var sum int64
				for _, v := range line {
					sum += v
				}
				if want := int64([]unit.Bytes{store, peers, sent}[i]); sum != want {
					t.Fatalf("seed %d: line %d adds up to %d, want %d", seed, i, sum, want)
				}
			}
		}
	}
}

func TestLine(t *testing.T) {
	l := NewLine(4)
	l.Note(0.5, 100, 0, 0)
	l.Note(1, 100, 40, 8)
	if got, want := l.Course(), (Course{Step: 0.25, Store: []int64{50, 50, 0, 0}, Peers: []int64{0, 0, 20, 20}, Sent: []int64{0, 0, 4, 4}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := l.Peak(), (Peak{In: 140, Out: 8, Store: 100}); got != want {
		t.Errorf("after a second: got %+v, want %+v", got, want)
	}
	l.Note(1.25, 400, 40, 8)
	l.Note(1, 300, 0, 0) // a clock or a counter that went back
	if got, want := l.Course().Store, []int64{100, 0, 300}; !slices.Equal(got, want) || l.Course().Step != 0.5 {
		t.Errorf("got %v in steps of %v, want %v", got, l.Course().Step, want)
	}
	l.Note(2, 400, 40, 8)
	if got := l.Peak().In; got != 352 { // 440 B in the 1.25 s to there; nothing faster came since
		t.Errorf("got a peak of %v, want 352 B/s", got)
	}
	short := NewLine(4)
	short.Note(0.9, 1000, 0, 0)
	if got := short.Peak(); got != (Peak{}) {
		t.Errorf("of less than a second: got %+v", got)
	}
}

func TestCoursesAreBounded(t *testing.T) {
	for _, bad := range []Course{
		{Step: 1, Store: make([]int64, 9), Peers: make([]int64, 9), Sent: make([]int64, 9)},
		{Step: 1, Store: make([]int64, 2), Peers: make([]int64, 3), Sent: make([]int64, 2)},
		{Step: -1, Store: make([]int64, 2), Peers: make([]int64, 2), Sent: make([]int64, 2)},
		{Step: math.NaN(), Seconds: math.NaN(), CPUS: math.Inf(1), Spent: Times{FromPeers: -1, ForDisk: math.NaN()}},
		{DoStep: math.Inf(1), Do: "sbp"},
		{Step: 2e8, Store: make([]int64, 2), Peers: make([]int64, 2), Sent: make([]int64, 2)},
		{DoStep: 1e308, Do: strings.Repeat("s", 121)},
		{DoStep: 6e7, Do: strings.Repeat("s", 9)}, // too much when it is made to fit
		{Seconds: 1.7e308, WriteS: 2e8, BusyS: 1e9, CPUS: 1.7e308, Spent: Times{ForStore: 1.7e308}},
		{Carries: Capacities{In: Capacity{Rate: 1e-300, From: Declared}, Out: Capacity{Rate: 1e16, From: NIC}, Store: Capacity{Rate: 0.5, From: Seen}}},
		{DoStep: 0, Do: "s"},
		{DoStep: 1, Do: "s<b>"},
		{Carries: Capacities{In: Capacity{Rate: -1, From: Declared}, Out: Capacity{Rate: 1, From: "<b>"}, Store: Capacity{Rate: unit.Bandwidth(math.Inf(1)), From: NIC}}},
	} {
		if got := bad.Bounded(8); !reflect.DeepEqual(got, Course{}) {
			t.Errorf("of %+v there is left %+v", bad, got)
		}
	}
	good := Course{Step: 1, Store: []int64{1, -2}, Peers: []int64{3, 4}, Sent: []int64{5, 6}, Seconds: 2, Spent: Times{FromBoth: 1, ForDisk: 0.5},
		DoStep: 0.5, Do: "-bbD", Carries: Capacities{In: probed(7, 1), Store: Capacity{3, Declared, time.Unix(1, 0)}}}
	want := good
	want.Store, want.Carries.Store.At = []int64{1, 0}, time.Time{}
	if got := good.Bounded(8); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	b, err := json.Marshal(want)
	var back Course
	if err != nil || json.Unmarshal(b, &back) != nil || !reflect.DeepEqual(back, want) {
		t.Errorf("through JSON: got %+v of %s, want %+v", back, b, want)
	}
	if got := (Course{DoStep: 1, Do: "--ssbbbpppD"}).Bounded(3); got.Do != "sbp" || got.DoStep != 4 {
		t.Errorf("more steps than there is room for: got %q of %v s", got.Do, got.DoStep)
	}
	if thin := want.Thinner(); thin.Do != "bb" || thin.DoStep != 1 {
		t.Errorf("half as many steps: got %q of %v s", thin.Do, thin.DoStep)
	}
	if b, _ := json.Marshal(Course{}); string(b) != "{}" {
		t.Errorf("an unknown course is %s", b)
	}
}

// Whatever a job declares, and an older record says of its nodes, there is an account of it that can be shown.
func TestAbsurdNumbersAreUnknown(t *testing.T) {
	all := func(j *Job, f func(*Node)) {
		for i := range j.Nodes {
			f(&j.Nodes[i])
		}
	}
	for name, change := range map[string]func(*Job){
		"processor time": func(j *Job) { all(j, func(n *Node) { n.Course.CPUS = 1.7e308 }) },
		"times":          func(j *Job) { all(j, func(n *Node) { n.DoneS = 1.7e308 }) },
		"one time":       func(j *Job) { j.Nodes[1].DoneS = 1.7e308 },
		"links without end": func(j *Job) {
			all(j, func(n *Node) { n.Course.Carries.In, n.Course.Carries.Out = declared(1.7e308), declared(1.7e308) })
		},
		"a link of nothing":  func(j *Job) { j.Nodes[1].Course.Carries.In = declared(1e-300) },
		"a store of nothing": func(j *Job) { j.Store = declared(1e-310) },
		"stores of nothing": func(j *Job) {
			all(j, func(n *Node) { n.Course.Carries.Store, n.Course.Carries.Out = declared(5e-324), declared(5e-324) })
		},
		"a site's link": func(j *Job) {
			j.Sites = []Site{{Name: "east", Inbound: declared(1e-310)}, {Name: "west", Inbound: declared(1e300)}}
			j.Nodes[0].Site = "east"
		},
		"bytes": func(j *Job) {
			j.Sites = []Site{{Name: "east"}, {Name: "west"}}
			all(j, func(n *Node) {
				n.Site, n.Store, n.Peers, n.Crossed, n.Sent = "east", math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64
			})
		},
	} {
		a := Of(three(change))
		if _, err := json.Marshal(a); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, p := range a.Parts {
			if p.Used < 0 || p.Seconds > a.Bound {
				t.Errorf("%s: the bound is %v, with a part %+v", name, a.Bound, p)
			}
		}
		for _, e := range a.Entries {
			if e.Store < 0 || e.Others < 0 || e.Copies < 0 {
				t.Errorf("%s: there came in %+v", name, e)
			}
		}
	}
	a := Of(three(func(j *Job) { j.Store = declared(1e-310) }))
	if p := a.Parts[1]; p.Seconds != 0 || p.Rate != 0 || a.Bound != 3 {
		t.Errorf("a store of nothing: the bound is %v, with %+v; want 3 s, and that of the store unknown", a.Bound, p)
	}
}

func TestSum(t *testing.T) {
	for _, tt := range []struct{ a, b, want unit.Bytes }{{0, 0, 0}, {1, 2, 3}, {math.MaxInt64, 1, math.MaxInt64}, {1, math.MaxInt64, math.MaxInt64}, {math.MaxInt64 - 1, 1, math.MaxInt64}} {
		if got := Sum(tt.a, tt.b); got != tt.want {
			t.Errorf("%d and %d: got %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

// A job's time lines are one record, whatever the number of its nodes.
func TestSteps(t *testing.T) {
	for nodes, want := range map[int]int{0: 120, 1: 120, 136: 120, 400: 40, 1000: 16, 100_000: 8} {
		if got := Steps(nodes); got != want {
			t.Errorf("%d nodes: got %d steps, want %d", nodes, got, want)
		}
	}
}
