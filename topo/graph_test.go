package topo

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/unit"
)

// random is a small network, often in parts, often with equally long ways, some hosts with several links.
func random(rng *rand.Rand) *Network {
	n := &Network{}
	var names []string
	for i := range 1 + rng.IntN(4) {
		n.Hosts = append(n.Hosts, Host{Name: fmt.Sprintf("h%d", i)})
	}
	for i := range rng.IntN(6) {
		n.Switches = append(n.Switches, Switch{Name: fmt.Sprintf("%c%d", 's'+rng.IntN(8), i)})
	}
	for _, h := range n.Hosts {
		names = append(names, h.Name)
	}
	for _, s := range n.Switches {
		names = append(names, s.Name)
	}
	density := rng.Float64()
	for i := range names {
		for k := range i {
			if rng.Float64() < density {
				l := Link{A: names[i], B: names[k], Delay: time.Duration(rng.IntN(3)), Rate: 1, Back: 2, Half: rng.IntN(4) == 0}
				if l.Half {
					l.Back = l.Rate
				}
				n.Links = append(n.Links, l)
			}
		}
	}
	rng.Shuffle(len(n.Links), func(i, k int) { n.Links[i], n.Links[k] = n.Links[k], n.Links[i] })
	return n
}

// best looks at every way from one place to another, as the package comment says: delay, links, names.
func best(g *Graph, from, to int) (way []Channel, ok bool) {
	type key struct {
		delay time.Duration
		links int
		names string
	}
	var found key
	var path []Channel
	seen := make([]bool, g.Places())
	var visit func(at int, k key)
	visit = func(at int, k key) {
		if at == to {
			if !ok || k.delay < found.delay || k.delay == found.delay && (k.links < found.links || k.links == found.links && k.names < found.names) {
				way, found, ok = slices.Clone(path), k, true
			}
			return
		}
		if at != from && at < g.Hosts() {
			return
		}
		seen[at] = true
		for c := range Channel(g.Channels()) {
			if g.From(c) == at && !seen[g.To(c)] {
				path = append(path, c)
				visit(g.To(c), key{k.delay + g.Network().Links[c.Link()].Delay, k.links + 1, k.names + g.Name(g.To(c)) + " "})
				path = path[:len(path)-1]
			}
		}
		seen[at] = false
	}
	visit(from, key{})
	return way, ok
}

func TestRoutesAreTheBestOfAll(t *testing.T) {
	trees := 0
	for seed := range uint64(1500) {
		n := random(rand.New(rand.NewPCG(seed, 1)))
		if err := n.Validate(); err != nil {
			t.Fatal(err)
		}
		g := NewGraph(n)
		if g.Tree() != nil && len(n.Links) > 2 {
			trees++
		}
		r := g.Router()
		for from := range g.Places() {
			for to := range g.Places() {
				want, ok := best(g, from, to)
				before := []Channel{-7}
				got, delay, found := r.Route(before, from, to)
				var sum time.Duration
				for _, c := range want {
					sum += n.Links[c.Link()].Delay
				}
				if found != ok || !slices.Equal(got[1:], want) || got[0] != -7 || found && delay != sum {
					t.Fatalf("seed %d, %s to %s: got %v %v %v, want %v %v %v\n%s", seed, g.Name(from), g.Name(to), got[1:], delay, found, want, sum, ok, n.YAML())
				}
			}
		}
	}
	if trees < 30 {
		t.Errorf("only %d trees were among them", trees)
	}
}

func TestGraphIsTheNetworkByNumber(t *testing.T) {
	for seed := range uint64(500) {
		n := random(rand.New(rand.NewPCG(seed, 2)))
		g := NewGraph(n)
		if g.Hosts() != len(n.Hosts) || g.Places() != len(n.Hosts)+len(n.Switches) || g.Channels() != 2*len(n.Links) {
			t.Fatalf("%d hosts, %d places, %d channels of %+v", g.Hosts(), g.Places(), g.Channels(), n)
		}
		left := 0
		for p := range g.Places() {
			if q, ok := g.Place(g.Name(p)); !ok || q != p {
				t.Errorf("%s is %d, not %d", g.Name(p), q, p)
			}
			if p < g.Hosts() && g.Name(p) != n.Hosts[p].Name {
				t.Errorf("host %d is %s", p, g.Name(p))
			}
			if !slices.IsSorted(g.Out(p)) {
				t.Errorf("out of order: %v", g.Out(p))
			}
			for _, c := range g.Out(p) {
				left++
				from, to := ends(n, c)
				if g.From(c) != p || g.Name(p) != from || g.Name(g.To(c)) != to || g.Rate(c) != n.Rate(c) {
					t.Errorf("channel %d leads from %d to %d, want %s to %s", c, g.From(c), g.To(c), from, to)
				}
				if g.Half(c) != n.Links[c.Link()].Half {
					t.Errorf("channel %d is half duplex: %v", c, g.Half(c))
				}
			}
		}
		if left != g.Channels() {
			t.Errorf("%d of %d channels leave a place", left, g.Channels())
		}
	}
	for _, c := range []struct {
		links  [][2]string
		cycles bool
	}{{nil, false}, {[][2]string{{"h", "s"}, {"h", "t"}}, false}, {[][2]string{{"s", "t"}, {"t", "u"}}, false}, {[][2]string{{"s", "t"}, {"t", "u"}, {"u", "s"}}, true}} {
		n := &Network{Hosts: []Host{{Name: "h"}}, Switches: []Switch{{Name: "s"}, {Name: "t"}, {Name: "u"}}}
		for _, l := range c.links {
			n.Links = append(n.Links, Link{A: l[0], B: l[1]})
		}
		if g := NewGraph(n); g.Cycles() != c.cycles {
			t.Errorf("%v: cycles: %v, want %v", c.links, g.Cycles(), c.cycles)
		}
	}
	if _, ok := NewGraph(&Network{}).Place("x"); ok {
		t.Error("there is an x in nothing")
	}
}

// A tree has parents before children, its root in the middle, and there is one just where there are no cycles
// and hosts pass nothing on.
func TestTree(t *testing.T) {
	for seed := range uint64(1000) {
		n := random(rand.New(rand.NewPCG(seed, 3)))
		g := NewGraph(n)
		parts := make([]int, g.Places()) // by place: the smallest place that it is joined to
		for p := range parts {
			parts[p] = p
		}
		for range parts {
			for c := range Channel(g.Channels()) {
				parts[g.To(c)] = min(parts[g.To(c)], parts[g.From(c)])
			}
		}
		count := map[int]bool{}
		numbered, k := g.Parts()
		for _, p := range parts {
			count[p] = true
		}
		if k != len(count) {
			t.Fatalf("seed %d: %d parts, want %d", seed, k, len(count))
		}
		for p := range parts {
			for q := range parts {
				if (numbered[p] == numbered[q]) != (parts[p] == parts[q]) {
					t.Fatalf("seed %d: parts %v, want %v", seed, numbered, parts)
				}
			}
		}
		isTree := len(n.Links) == g.Places()-len(count)
		for h := range g.Hosts() {
			isTree = isTree && len(g.Out(h)) <= 1
		}
		tree := g.Tree()
		if (tree != nil) != isTree {
			t.Fatalf("seed %d: a tree: %v, want %v\n%s", seed, tree != nil, isTree, n.YAML())
		}
		if !isTree {
			continue
		}
		at := make([]int, g.Places())
		for i, p := range tree.Order {
			at[p] = i + 1
		}
		deepest, roots := map[int32]int32{}, map[int32]bool{}
		for p, up := range tree.Up {
			if up < 0 {
				if roots[int32(p)] = true; tree.Depth[p] != 0 || tree.Root[p] != int32(p) {
					t.Errorf("root %d is %d below %d", p, tree.Depth[p], tree.Root[p])
				}
			} else if q := g.To(up); g.From(up) != p || at[p] <= at[q] || at[q] == 0 || tree.Depth[p] != tree.Depth[q]+1 || tree.Root[p] != tree.Root[q] {
				t.Errorf("%d is below %d: %+v", p, q, tree)
			}
			deepest[tree.Root[p]] = max(deepest[tree.Root[p]], tree.Depth[p])
		}
		if len(roots) != len(count) {
			t.Errorf("%d roots of %d parts", len(roots), len(count))
		}
		r := g.Router()
		for p := range parts { // the longest way is as long as twice the depth, or one less
			for q := range parts {
				if path, _, ok := r.Route(nil, p, q); ok && len(path) >= int(2*deepest[tree.Root[p]])-1 {
					delete(deepest, tree.Root[p])
				}
			}
		}
		if len(deepest) > 0 {
			t.Fatalf("seed %d: roots are not in the middle: %v\n%s", seed, deepest, n.YAML())
		}
	}
}

// On a tree nothing is kept, elsewhere one table for the switch of each destination, over switches only.
func TestTables(t *testing.T) {
	star := Star(10000, Access{Rate: []unit.Bandwidth{unit.Gbit}, Delay: 50 * time.Microsecond})
	fat, err := Shape{Kind: "fattree", Hosts: 400}.Network()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		n      *Network
		tables int
	}{{star, 0}, {fat, 72}} {
		r := NewRouter(c.n)
		hosts := r.Hosts()
		var path []Channel
		for i := range hosts {
			var ok bool
			path, _, ok = r.Route(path[:0], i, (i+hosts/2)%hosts)
			if !ok || len(path) != 2 && len(path) != 6 {
				t.Fatalf("from %d: %v", i, path)
			}
		}
		tables := 0
		if r.core != nil {
			for _, table := range r.core.tables {
				if table != nil {
					tables++
				}
			}
			if len(r.core.tables) != len(c.n.Switches) {
				t.Errorf("tables of %d places for %d switches", len(r.core.tables), len(c.n.Switches))
			}
		}
		if tables != c.tables {
			t.Errorf("%d tables, want %d", tables, c.tables)
		}
	}
}

// ring is a ring of switches with one host each.
func ring(switches int) *Network {
	n := &Network{}
	for i := range switches {
		h, s := fmt.Sprintf("h%d", i), fmt.Sprintf("s%d", i)
		n.Hosts, n.Switches = append(n.Hosts, Host{Name: h}), append(n.Switches, Switch{Name: s})
		n.Links = append(n.Links, Link{A: h, B: s, Rate: 1, Back: 1}, Link{A: s, B: fmt.Sprintf("s%d", (i+1)%switches), Rate: 1, Back: 1})
	}
	return n
}

// However many places routes lead to, tables take no more memory than they may, and routes are the same with few of them.
func TestOldTablesAreForgotten(t *testing.T) {
	const switches, most = 1000, 5
	r := NewRouter(ring(switches))
	r.core = r.newCore()
	r.core.most = most
	var path []Channel
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for to := range r.Hosts() {
		path, _, _ = r.Route(path[:0], 0, to)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 20*4*switches {
		t.Errorf("%d tables of %d KB took %d KB", most, 4*switches/1000, got/1000)
	}
	tables := 0
	for _, table := range r.core.tables {
		if table != nil {
			tables++
		}
	}
	if tables != most {
		t.Errorf("%d tables, want %d", tables, most)
	}
	if k := NewRouter(ring(20_000)).newCore(); k.most*4*20_000 > mostTables || (k.most+1)*4*20_000 <= mostTables {
		t.Errorf("%d tables of 80 kB are kept, want as many as %d bytes hold", k.most, mostTables)
	}
	for seed := range uint64(300) {
		g := NewGraph(random(rand.New(rand.NewPCG(seed, 4))))
		if g.Tree() != nil {
			continue
		}
		all, few := g.Router(), g.Router()
		few.core = few.newCore()
		few.core.most = 1 + int(seed%3)
		for range 2 {
			for from := range g.Places() {
				for to := range g.Places() {
					want, delay, ok := all.Route(nil, from, to)
					if got, d, found := few.Route(nil, from, to); !slices.Equal(got, want) || d != delay || found != ok {
						t.Fatalf("seed %d, %s to %s: got %v %v %v, with all tables %v %v %v", seed, g.Name(from), g.Name(to), got, d, found, want, delay, ok)
					}
				}
			}
		}
		if len(few.core.kept) > few.core.most {
			t.Fatalf("seed %d: %d tables, want %d", seed, len(few.core.kept), few.core.most)
		}
	}
}

// Whatever the seed a shape has its hosts, its form, and the same rates again.
func TestShapes(t *testing.T) {
	for _, kind := range Kinds {
		for _, hosts := range []int{1, 2, 17, 400, 1000} {
			s := Shape{Kind: kind, Hosts: hosts, Seed: 5}
			n, err := s.Network()
			if err != nil {
				t.Fatalf("%+v: %v", s, err)
			}
			if err := n.Validate(); err != nil {
				t.Fatalf("%+v: %v", s, err)
			}
			g := NewGraph(n)
			if g.Hosts() != hosts || (g.Tree() == nil) != (kind == "fattree" && hosts > 2) {
				t.Errorf("%+v has %d hosts; a tree: %v", s, g.Hosts(), g.Tree() != nil)
			}
			r := g.Router()
			for h := range hosts {
				if _, _, ok := r.Route(nil, 0, h); !ok {
					t.Fatalf("%+v: no way to host %d", s, h)
				}
			}
			for _, l := range n.Links {
				if l.Rate < 100*unit.Mbit || l.Rate > unit.Gbit || l.Back != l.Rate || l.Delay == 0 {
					t.Fatalf("%+v: %+v", s, l)
				}
			}
			again, _ := s.Network()
			if string(again.YAML()) != string(n.YAML()) {
				t.Errorf("%+v is another the second time", s)
			}
			s.Seed++
			if other, _ := s.Network(); string(other.YAML()) == string(n.YAML()) {
				t.Errorf("%+v: another seed makes the same", s)
			}
		}
	}
}

func TestShapesAsDescribed(t *testing.T) {
	sizes := func(n *Network) (of []int) {
		at := map[string]int{}
		for _, h := range n.Hosts {
			if _, ok := at[h.Site]; !ok {
				at[h.Site] = len(of)
				of = append(of, 0)
			}
			of[at[h.Site]]++
		}
		return of
	}
	for _, c := range []struct {
		shape    Shape
		sites    int
		least    int
		most     int
		switches int
	}{
		{Shape{Kind: "star"}, 16, 25, 25, 17},
		{Shape{Kind: "star", Groups: 4}, 4, 100, 100, 5},
		{Shape{Kind: "skewed"}, 10, 14, 134, 11},
		{Shape{Kind: "skewed", Groups: 6}, 6, 27, 162, 7},
		{Shape{Kind: "intrigger"}, 16, 8, 50, 0},
		{Shape{Kind: "deep"}, 18, 7, 50, 0},
		{Shape{Kind: "fattree"}, 12, 33, 34, 36 + 12*12},
		{Shape{Kind: "fattree", Hosts: 3, Groups: 4}, 3, 1, 1, 4 + 4*4}, // more ports than hosts
		{Shape{Kind: "big", Hosts: 10000}, 0, 20, 40, 0},
	} {
		n, err := c.shape.Network()
		if err != nil {
			t.Fatal(err)
		}
		got := sizes(n)
		if c.sites > 0 && len(got) != c.sites || slices.Min(got[:len(got)-1]) < c.least || slices.Max(got) > c.most || c.switches > 0 && len(n.Switches) != c.switches {
			t.Errorf("%+v: sites of %v hosts, %d switches", c.shape, got, len(n.Switches))
		}
	}
	n, err := Shape{Kind: "intrigger", Lo: unit.Gbit, Hi: unit.Gbit, Backbone: 4, Asymmetric: true}.Network()
	if err != nil {
		t.Fatal(err)
	}
	g := NewGraph(n)
	for c := range Channel(g.Channels()) {
		want := unit.Gbit
		if g.From(c) >= g.Hosts() && g.To(c) >= g.Hosts() {
			want *= 4
		}
		if g.Rate(c) != want {
			t.Fatalf("%s to %s: %v, want %v", g.Name(g.From(c)), g.Name(g.To(c)), g.Rate(c), want)
		}
	}
	n, err = Shape{Kind: "deep", Asymmetric: true}.Network()
	if err != nil {
		t.Fatal(err)
	}
	if k := slices.IndexFunc(n.Links, func(l Link) bool { return l.Rate != l.Back }); k < 0 {
		t.Error("both directions of all links are alike")
	}
}

// A fat tree's routes spread over its core switches.
func TestFatTreeSpreads(t *testing.T) {
	n, err := Shape{Kind: "fattree", Seed: 1}.Network()
	if err != nil {
		t.Fatal(err)
	}
	r := NewRouter(n)
	used := map[string]bool{}
	for h := range r.Hosts() {
		path, _, _ := r.Route(nil, h, (h*7+200)%r.Hosts())
		for _, c := range path {
			if name := r.Name(r.To(c)); name[0] == 'c' {
				used[name] = true
			}
		}
	}
	if len(used) < 18 {
		t.Errorf("%d of 36 core switches are used", len(used))
	}
}

// Rates may be as small and as large as a file may have them, and from 0 on.
func TestShapesOfOddRates(t *testing.T) {
	for _, s := range []Shape{
		{Lo: unit.Kbit / 2, Hi: unit.Kbit}, {Lo: 0, Hi: unit.Kbit}, {Lo: MostRate, Hi: MostRate}, {Lo: unit.Kbit, Hi: MostRate / 4, Backbone: 4}, {Lo: unit.Mbit, Hi: unit.Mbit, Backbone: 0.001},
	} {
		for s.Seed = range 20 {
			s.Kind, s.Hosts, s.Asymmetric = "star", 100, true
			n, err := s.Network()
			if err != nil {
				t.Fatalf("%+v: %v", s, err)
			}
			if again, err := Parse(n.YAML()); err != nil || !reflect.DeepEqual(again, n) {
				t.Fatalf("%+v is another once written: %v", s, err)
			}
		}
	}
}

func TestBadShapesAreRefused(t *testing.T) {
	for _, c := range []struct {
		s    Shape
		want string
	}{
		{Shape{Kind: "ring"}, `there is no kind of network "ring": want flat, star, `},
		{Shape{Kind: "star", Hosts: -1}, "-1 hosts: want 1 to 200000"},
		{Shape{Kind: "star", Hosts: 3, Groups: 4}, "4 groups of 3 hosts"},
		{Shape{Kind: "flat", Groups: 2}, "a flat network is one switch"},
		{Shape{Kind: "star", Lo: 2, Hi: 1}, "want the smaller first"},
		{Shape{Kind: "star", Backbone: -1}, "want a number greater than 0"},
		{Shape{Kind: "star", Backbone: math.Inf(1)}, "want a number greater than 0"},
		{Shape{Kind: "star", Hi: 2 * MostRate}, "a link has at most 1000000 Tbit"},
		{Shape{Kind: "star", Hi: MostRate, Backbone: 2}, "a link has at most 1000000 Tbit"},
		{Shape{Kind: "star", Lo: 100 * unit.BitPerSecond, Hi: unit.Gbit}, "rate 100 bit × 1: rates are in whole kbit, so that it would be 0"},
		{Shape{Kind: "star", Hi: 100 * unit.BitPerSecond}, "so that it would be 0"},
		{Shape{Kind: "star", Lo: unit.Kbit, Hi: unit.Kbit, Backbone: 0.1}, "rate 1 kbit × 0.1: rates are in whole kbit"},
		{Shape{Kind: "fattree", Groups: 5}, "want an even number"},
		{Shape{Kind: "fattree", Hosts: 3, Groups: 96}, "with 96 ports: want an even number up to 94"},
		{Shape{Kind: "fattree", Groups: 4}, "has no place for 400 hosts"},
		{Shape{Kind: "fattree", Groups: -2}, "-2 groups of 400 hosts"},
		{Shape{Kind: "big", Groups: 300}, "want no more pods than racks"},
	} {
		if _, err := c.s.Network(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.s, err, c.want)
		}
	}
}

// BenchmarkLoad is what a topology of 100,000 hosts takes to be read and made a graph.
func BenchmarkLoad(b *testing.B) {
	n, err := Shape{Kind: "big", Hosts: 100_000, Asymmetric: true}.Network()
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		text []byte
	}{{"YAML", n.YAML()}, {"JSON", n.JSON()}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			b.ReportAllocs()
			for b.Loop() {
				n, err := Parse(c.text)
				if err != nil {
					b.Fatal(err)
				}
				NewGraph(n)
			}
		})
	}
}

// BenchmarkRoute is a route of a network whose tables are there.
func BenchmarkRoute(b *testing.B) {
	for _, kind := range []string{"big", "fattree"} {
		b.Run(kind, func(b *testing.B) {
			n, err := Shape{Kind: kind, Hosts: 10_000}.Network()
			if err != nil {
				b.Fatal(err)
			}
			r := NewRouter(n)
			var path []Channel
			for i := 0; b.Loop(); i++ {
				path, _, _ = r.Route(path[:0], i*31%10_000, i*17%1000)
			}
		})
	}
}

// BenchmarkKeep is what a network of 100,000 hosts takes once it is there.
func BenchmarkKeep(b *testing.B) {
	made, err := Shape{Kind: "big", Hosts: 100_000, Asymmetric: true}.Network()
	if err != nil {
		b.Fatal(err)
	}
	text := made.YAML()
	made = nil
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n, err := Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	g := NewGraph(n)
	runtime.GC()
	runtime.ReadMemStats(&after)
	for b.Loop() {
		g.Place("h1")
	}
	runtime.KeepAlive(text)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
}

// BenchmarkTable is the table of a destination in a network that is no tree.
func BenchmarkTable(b *testing.B) {
	for _, hosts := range []int{400, 10_000} {
		b.Run(fmt.Sprintf("fattree/hosts=%d", hosts), func(b *testing.B) {
			n, err := Shape{Kind: "fattree", Hosts: hosts}.Network()
			if err != nil {
				b.Fatal(err)
			}
			r := NewRouter(n)
			k := r.newCore()
			for i := 0; b.Loop(); i++ {
				to := i % len(k.tables)
				k.tables[to], k.kept = nil, k.kept[:0]
				k.table(int32(to))
			}
		})
	}
}

// Between two switches of many links a channel is looked for where there are fewer.
func TestBetween(t *testing.T) {
	n, err := Shape{Kind: "fattree", Hosts: 16}.Network()
	if err != nil {
		t.Fatal(err)
	}
	g := NewGraph(n)
	for c := range Channel(g.Channels()) {
		if got := g.between(g.From(c), g.To(c)); got != c {
			t.Fatalf("from %s to %s: channel %d, want %d", g.Name(g.From(c)), g.Name(g.To(c)), got, c)
		}
	}
}
