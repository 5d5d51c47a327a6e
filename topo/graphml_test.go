package topo

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/unit"
)

const zooExample = `<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="d1" />
  <key attr.name="label" attr.type="string" for="node" id="d2" />
  <key attr.name="Longitude" attr.type="double" for="node" id="d3" />
  <key attr.name="Latitude" attr.type="double" for="node" id="d4" />
  <key attr.name="Internal" attr.type="int" for="node" id="d5" />
  <key attr.name="hyperedge" attr.type="int" for="node" id="d6" />
  <key attr.name="Network" attr.type="string" for="graph" id="d7" />
  <graph edgedefault="undirected">
    <data key="d7">Example</data>
    <node id="0"><data key="d2">New,  York</data><data key="d3">-74.00597</data><data key="d4">40.71427</data></node>
    <node id="1"><data key="d2">London</data><data key="d3">-0.12574</data><data key="d4">51.50853</data><data key="d5">1</data></node>
    <node id="2"><data key="d2">London</data><data key="d5">0</data></node>
    <node id="3"><data key="d2">None</data><data key="d6">1</data></node>
    <edge source="0" target="1"><data key="d1">10000000000.0</data></edge>
    <edge source="1" target="0"><data key="d1">2500000000</data></edge>
    <edge source="1" target="2" />
    <edge source="3" target="3" />
    <edge source="3" target="1" />
  </graph>
</graphml>
`

func TestParseGraphML(t *testing.T) {
	got, err := ParseGraphML([]byte(zooExample), Zoo{Hosts: 3, Access: Access{Rate: []unit.Bandwidth{1, 2}, Delay: time.Second}, Rate: 7})
	if err != nil {
		t.Fatal(err)
	}
	want := &Network{
		Hosts: []Host{{"New-York.1", "New-York"}, {"New-York.2", "New-York"}, {"London.1", "London"}},
		Switches: []Switch{
			{"New-York", "New-York", &Coordinates{-74.00597, 40.71427}}, {"London", "London", &Coordinates{-0.12574, 51.50853}},
			{Name: "London-2"}, {Name: "n3"},
		},
		Links: []Link{
			{A: "New-York.1", B: "New-York", Rate: 1, Back: 1, Delay: time.Second},
			{A: "New-York.2", B: "New-York", Rate: 2, Back: 2, Delay: time.Second},
			{A: "London.1", B: "London", Rate: 1, Back: 1, Delay: time.Second},
			{A: "New-York", B: "London", Rate: 12.5 * unit.Gbit, Back: 12.5 * unit.Gbit, Delay: 27851 * time.Microsecond}, // 5570 km
			{A: "London", B: "London-2", Rate: 7, Back: 7, Delay: time.Millisecond},
			{A: "n3", B: "London", Rate: 7, Back: 7, Delay: time.Millisecond},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %s\nwant %s", got.YAML(), want.YAML())
	}
	got, err = ParseGraphML([]byte(strings.Replace(zooExample, "undirected", "directed", 1)), Zoo{})
	if err != nil {
		t.Fatal(err)
	}
	if l := got.Links[2]; len(got.Hosts) != 2 || l.Rate != 10*unit.Gbit || l.Back != 2.5*unit.Gbit || got.Links[3].Rate != 10*unit.Gbit || got.Links[3].Back != 0 {
		t.Errorf("directed: %s", got.YAML())
	}
}

// Names can stand in lists and on command lines, whatever labels are, and are the same however many hosts there are.
func TestNamesOfGraphML(t *testing.T) {
	labels := []string{"New  York", "London", "London", "", "?", "None", " - ", "Gary?", "Zurich (ETH)", "St. John's", "Southfield/Detroit", "[a]: {b}", "#1 & *2", "München", "東京",
		"--force", "~", "null", "\u00a0x\u200b", "London-2", "London.1", "a;$(b)|`c`", "Poti, Georgia", strings.Repeat("long ", 40)}
	want := []string{"New-York", "London", "London-2", "n3", "n4", "n5", "n6", "Gary", "Zurich-ETH", "St.-Johns", "Southfield/Detroit", "a-b", "1-2", "München", "東京",
		"force", "n16", "null", "x", "London-2-2", "London.1", "a-b-c", "Poti-Georgia", "long-long-long-long-long-long-long-long-long-lon"}
	var b strings.Builder
	b.WriteString(`<graphml><key id="l" attr.name="label"/><graph>`)
	for i, label := range labels {
		fmt.Fprintf(&b, `<node id="%d"><data key="l">`, i)
		if err := xml.EscapeText(&b, []byte(label)); err != nil {
			t.Fatal(err)
		}
		b.WriteString(`</data></node>`)
	}
	b.WriteString("</graph></graphml>")
	one, err := ParseGraphML([]byte(b.String()), Zoo{})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range one.Switches {
		if s.Name != want[i] {
			t.Errorf("%q: got %s, want %s", labels[i], s.Name, want[i])
		}
		host := want[i] + ".1"
		if want[i] == "London" {
			host += "-2" // a node is called London.1
		}
		if one.Hosts[i].Name != host {
			t.Errorf("the host of %q: got %s, want %s", labels[i], one.Hosts[i].Name, host)
		}
	}
	many, err := ParseGraphML([]byte(b.String()), Zoo{Hosts: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range one.Hosts {
		if !slices.Contains(many.Hosts, h) {
			t.Errorf("with more hosts there is no %s", h.Name)
		}
	}
}

// A file says by itself whether it is GraphML.
func TestParseAny(t *testing.T) {
	zoo, err := ParseGraphML([]byte(zooExample), Zoo{Hosts: 3})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"GraphML": zooExample, "GraphML behind a byte order mark": "\uFEFF" + zooExample,
		"YAML": string(zoo.YAML()), "JSON": string(zoo.JSON()),
	} {
		if got, err := ParseAny([]byte(text), Zoo{Hosts: 3}); err != nil || !reflect.DeepEqual(got, zoo) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestBadGraphMLIsRefused(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`<edge source="1" target="2" />`, `<edge source="1" target="9" />`, `line 18: edge: target: there is no node "9"`},
		{`<edge source="1" target="2" />`, `<edge source="8" target="2" />`, `line 18: edge: source: there is no node "8"`},
		{`<edge source="1" target="2" />`, `<edge source="1" />`, `line 18: edge: target is missing`},
		{`<node id="2">`, `<node>`, `line 14: node: id is missing`},
		{`<node id="2">`, `<node id="1">`, `line 14: node: the id "1" is used twice`},
		{`2500000000`, `fast`, `line 17: edge: LinkSpeedRaw: "fast": want a number from 0 to 1e+18`},
		{`2500000000`, `-1`, `line 17: edge: LinkSpeedRaw: "-1": want a number`},
		{`2500000000`, `1e18`, `line 17: edge: LinkSpeedRaw: all edges from "1" to "0" have more than 1000000 Tbit together`},
		{`2500000000`, `1e-300`, `line 17: edge: LinkSpeedRaw: is less than 0.008 bit/s, and not 0`},
		{`51.50853`, `151.5`, `line 13: node: Latitude: "151.5": want a number from -90 to 90`},
		{`51.50853`, `NaN`, `line 13: node: Latitude: "NaN": want a number from -90 to 90`},
		{`<data key="d5">0`, `<data key="d9">0`, `line 14: node: data: there is no key "d9"`},
		{`<edge source="3" target="3" />`, `<hyperedge/>`, `line 19: hyperedge is not read`},
		{`<edge source="3" target="3" />`, `</graph><graph>`, `line 19: graph: there is another before it, in line 10`},
		{`<edge source="3" target="3" />`, strings.Repeat("<x>", 40), `line 19: "x": more than 32 elements one in another`},
		{`</graph>`, ``, `line 22: no XML: element <graph> closed by </graphml>`},
		{"</graphml>\n", ``, `no XML: unexpected EOF`},
		{`encoding="utf-8"`, `encoding="latin-1"`, `encoding "latin-1" declared`},
		{`<graph `, `<graph x="&y;" `, `line 10: no XML: invalid character entity &y;`},
		{zooExample, ``, `line 1: there is no graph`},
		{zooExample, `<html></html>`, `line 1: want graphml, not "html"`},
		{zooExample, `<graphml><graph/></graphml>`, `line 1: graph: there are no nodes`},
		{zooExample, strings.Repeat("\x00\xff garbage", 1000), `line 1: no XML: illegal character code`},
		{zooExample, strings.Repeat(" ", maxGraphML+1), `bytes of GraphML; at most`},
	} {
		text := strings.Replace(zooExample, c.old, c.new, 1)
		_, err := ParseGraphML([]byte(text), Zoo{})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60q for %.60q:\n\tgot  %v\n\twant %s", c.new, c.old, err, c.want)
		}
	}
	for _, c := range []struct {
		zoo  Zoo
		want string
	}{
		{Zoo{Hosts: -1}, "-1 hosts"},
		{Zoo{Rate: 2 * MostRate}, "links that the file does not say: want 0 to 1000000 Tbit"},
		{Zoo{Access: Access{Rate: []unit.Bandwidth{2 * MostRate}}}, "links that the file does not say: want 0 to 1000000 Tbit"},
		{Zoo{Rate: 1e-305}, "rate 1e-305 B/s of links that the file does not say: want 0.001 B/s or more, or 0"},
		{Zoo{Access: Access{Delay: -1}}, "delay -1ns of hosts' links"},
	} {
		if _, err := ParseGraphML([]byte(zooExample), c.zoo); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	var b strings.Builder
	b.WriteString("<graphml><graph>")
	for i := range maxHosts + 1 {
		fmt.Fprintf(&b, `<node id="%d"/>`, i)
	}
	b.WriteString("</graph></graphml>")
	if _, err := ParseGraphML([]byte(b.String()), Zoo{}); err == nil || !strings.Contains(err.Error(), "line 1: graph: 200001 nodes; at most 200000 are read") {
		t.Error(err)
	}
}

// Networks of the Zoo, none of which has parts, are read, and written as what they are; every host is reached.
func TestTheZoo(t *testing.T) {
	files, err := filepath.Glob("testdata/zoo/*.graphml")
	if err != nil || len(files) != 14 {
		t.Fatalf("networks: %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n, err := ParseGraphML(text, Zoo{Hosts: 100})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if again, err := Parse(n.YAML()); err != nil || !reflect.DeepEqual(again, n) {
			t.Errorf("%s is another once written: %v", file, err)
		}
		if nodes := strings.Count(string(text), "<node "); len(n.Switches) != nodes || len(n.Hosts) != 100 {
			t.Errorf("%s: %d hosts, %d switches of %d nodes", file, len(n.Hosts), len(n.Switches), nodes)
		}
		r := NewRouter(n)
		ways := 0
		for h := range 100 {
			if _, _, ok := r.Route(nil, 0, h); ok {
				ways++
			}
		}
		if ways < 100 {
			t.Errorf("%s: host 0 reaches %d of 100", file, ways)
		}
		t.Logf("%s: %d switches, %d links, tree: %v, host 0 reaches %d of 100", filepath.Base(file), len(n.Switches), len(n.Links)-100, r.Tree() != nil, ways)
	}
}

// Whatever is read is a network, and is written so that it is read as the same.
func FuzzParseGraphML(f *testing.F) {
	f.Add([]byte(zooExample))
	f.Add([]byte(`<graphml><key id="a" attr.name="label"/><graph edgedefault="directed"><node id="x"><data key="a">?</data></node><edge source="x" target="x"/></graph></graphml>`))
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := ParseGraphML(text, Zoo{Hosts: 5})
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("an error of several lines: %v", err)
			}
			return
		}
		for _, b := range [][]byte{n.JSON(), n.YAML()} {
			if again, err := Parse(b); err != nil || !reflect.DeepEqual(again, n) {
				t.Fatalf("wrote %s, read %+v, %v, not %+v", b, again, err, n)
			}
		}
	})
}
