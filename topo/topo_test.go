package topo

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/unit"
)

const example = `hosts: [{name: h1, site: tokyo}, {name: h2, site: kyoto}]
switches: [s0, {name: s1, site: kyoto, at: [135.77, 35.01]}]
links:
- {a: h1, b: s0, rate: 1Gbit, rate_back: 300Mbit, delay: 50us, buffer: 64KiB, duplex: full}
- {a: s0, b: s1, rate: 100Mbit, duplex: half, cost: 0.5}
- {a: s1, b: h2, rate: 0}
routes: [{from: h1, to: h2, via: [s0, s1]}]
`

func TestParse(t *testing.T) {
	want := &Network{
		Hosts: []Host{{"h1", "tokyo"}, {"h2", "kyoto"}}, Switches: []Switch{{Name: "s0"}, {"s1", "kyoto", &Coordinates{135.77, 35.01}}},
		Links: []Link{
			{A: "h1", B: "s0", Rate: unit.Gbit, Back: 300 * unit.Mbit, Delay: 50 * time.Microsecond, Buffer: 64 * unit.KiB},
			{A: "s0", B: "s1", Rate: 100 * unit.Mbit, Back: 100 * unit.Mbit, Half: true, Cost: 0.5},
			{A: "s1", B: "h2"},
		},
		Routes: []Route{{"h1", "h2", []string{"s0", "s1"}}},
	}
	got, err := Parse([]byte(example))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v", got, err)
	}
	indented, err := json.MarshalIndent(want, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range [][]byte{indented, want.JSON(), want.YAML()} {
		if again, err := Parse(text); err != nil || !reflect.DeepEqual(again, want) {
			t.Errorf("written as %s\nit is read as %+v, %v", text, again, err)
		}
	}
	if got := string(want.YAML()); got != written {
		t.Errorf("got %s\nwant %s", got, written)
	}
}

// written is example as YAML writes it.
const written = `hosts:
- {name: h1, site: tokyo}
- {name: h2, site: kyoto}
switches:
- s0
- {name: s1, site: kyoto, at: [135.77, 35.01]}
links:
- {a: h1, b: s0, rate: 1Gbit, rate_back: 300Mbit, delay: 50us, buffer: 64KiB}
- {a: s0, b: s1, rate: 100Mbit, duplex: half, cost: 0.5}
- {a: s1, b: h2, rate: 0}
routes:
- {from: h1, to: h2, via: [s0, s1]}
`

// Texts that YAML would read as something else, or not at all, are quoted.
func TestTextsAreWrittenAsTheyAre(t *testing.T) {
	want := &Network{}
	for _, name := range []string{"null", "~", "true", "1", "-", "#", "a:b", "a: b", "{", "*", "&x", "'", "\"", "\\", "über", "東京", "\U0001F600"} {
		site := name + " # in: {1}"
		if !strings.Contains(name, " ") {
			want.Hosts = append(want.Hosts, Host{name, site})
		}
	}
	for _, text := range [][]byte{want.JSON(), want.YAML()} {
		if got, err := Parse(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("written as %s\nit is read as %+v, %v", text, got, err)
		}
	}
	for _, r := range []unit.Bandwidth{0, 1.0 / 3, 1, 125e6, 123456789, unit.Kbit, 1e30, 12.5 * unit.Mbit, 100 * unit.Tbit} {
		if got, err := unit.ParseBandwidth(rate(r)); err != nil || got != r {
			t.Errorf("%v is written %s and read as %v, %v", float64(r), rate(r), float64(got), err)
		}
	}
	for b, want := range map[unit.Bytes]string{1: "1B", 1000: "1000B", 64 * unit.KiB: "64KiB", 3 * unit.GiB / 2: "1536MiB", unit.TiB: "1024GiB"} {
		if got := size(b); got != want {
			t.Errorf("%d is written %s, want %s", b, got, want)
		}
	}
}

func TestTooManyHostsAreRefused(t *testing.T) {
	text := []byte("switches: [s0]\nhosts:\n")
	for i := range maxHosts + 1 {
		text = fmt.Appendf(text, "- {name: h%d}\n", i)
	}
	if _, err := Parse(text); err == nil || err.Error() != "topology: line 3: hosts: 200001 hosts; at most 200000 are read" {
		t.Error(err)
	}
}

func TestBadFilesAreRefused(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"rate: 100Mbit", "rate: 100", `line 5: links[1].rate: rate "100": want`},
		{"rate: 100Mbit", "rate: -1Mbit", `line 5: links[1].rate: rate "-1Mbit" is negative`},
		{"rate: 100Mbit, ", "", `line 5: links[1]: rate is missing`},
		{"duplex: half", "duplex: no", `line 5: links[1].duplex: "no": want full, half`},
		{"duplex: half", "duplex: half, rate_back: 1Mbit", `line 5: links[1].rate_back: a half-duplex link has one rate`},
		{"b: h2", "b: h9", `line 6: links[2].b: there is no host or switch "h9"`},
		{"b: h2", "b: s1", `line 6: links[2].b: joins s1 to itself`},
		{"s1, b: h2", "s1, b: s0", `line 6: links[2]: there is a link between s1 and s0 already, in line 5`},
		{"name: h2", "name: h1", `line 1: hosts[1].name: the name h1 is taken already, in line 1`},
		{"a: h1, b: s0", "a: h9, b: s0", `line 4: links[0].a: there is no host or switch "h9"`},
		{"[s0, {", "[s0, h2, {", `line 2: switches[1]: the name h2 is taken already, in line 1`},
		{"name: s1", "name: s0", `line 2: switches[1].name: the name s0 is taken already, in line 2`},
		{"at: [135.77, 35.01]", "at: [135.77]", `line 2: switches[1].at: want [longitude, latitude]`},
		{"at: [135.77, 35.01]", "at: [135.77, 95]", `line 2: switches[1].at: [135.77, 95] is no place on earth`},
		{"at: [135.77, 35.01]", "at: [x, 35.01]", `line 2: switches[1].at[0]: "x": want a number`},
		{"cost: 0.5", "cost: -1", `line 5: links[1].cost: "-1": want a number`},
		{"buffer: 64KiB", "buffer: 64.5B", `line 4: links[0].buffer: size "64.5B" is not a whole number of bytes`},
		{"a: h1, b: s0", "b: s0", `line 4: links[0]: a is missing`},
		{"name: h2", "name: ''", `line 1: hosts[1].name: a name is 1 to 64 bytes, printable and without spaces, not ""`},
		{"site: tokyo", `site: "\e[2Jtokyo"`, `line 1: hosts[0].site: want a text of at most 255 bytes that can be printed, not "\x1b[2Jtokyo"`},
		{"{name: s1, site: kyoto", `{name: s1, site: "\u202Ekyoto"`, `line 2: switches[1].site: want a text of at most 255 bytes that can be printed, not "\u202ekyoto"`},
		{"site: tokyo", "site: " + strings.Repeat("t", 256), `line 1: hosts[0].site: want a text of at most 255 bytes`},
		{"site: tokyo", "site: " + strings.Repeat("t", 255), ""},
		{"hosts:", "host:", `line 1: unknown key "host"; there are hosts, switches, links, routes`},
		{"delay: 50us", "delay: 50", `line 4: links[0].delay: "50": want a time`},
		{"delay: 50us", "delay: 61m", `line 4: links[0].delay: is more than an hour`},
		{"rate: 100Mbit", "rate: 1e300Gbit", `line 5: links[1].rate: is more than 1000000 Tbit`},
		{"rate: 100Mbit", "rate: 1e-305B/s", `line 5: links[1].rate: is less than 0.001 B/s, and not 0`},
		{"rate: 1Gbit", "rate: 0.0009B/s", `line 4: links[0].rate: is less than 0.001 B/s, and not 0`},
		{"rate: 1Gbit", "rate: 0.001B/s", ""},
		{"rate_back: 300Mbit", "rate_back: 1e-305B/s", `line 4: links[0].rate_back: is less than 0.001 B/s, and not 0`},
		{"rate_back: 300Mbit", "rate_back: 0", ""},
		{"rate_back: 300Mbit", "rate_back: 1e12Mbit", ""},
		{"rate_back: 300Mbit", "rate_back: 2e12Mbit", `line 4: links[0].rate_back: is more than 1000000 Tbit`},
		{"routes: [", "routes: [{from: h1, to: h2, via: [s0, s1]}, ", `line 7: routes[1]: there is a route from h1 to h2 already, in line 7`},
		{"via: [s0, s1]", "via: [s1]", `line 7: routes[0].via[0]: there is no link between h1 and s1`},
		{"via: [s0, s1]", "via: [s0, s1, s0]", `line 7: routes[0].via[2]: comes to s0 twice`},
		{"via: [s0, s1]", "via: [s0, s1, h2]", `line 7: routes[0].via[2]: comes to h2 twice`},
		{"via: [s0, s1]", "via: [s0]", `line 7: routes[0].to: there is no link between s0 and h2`},
		{"via: [s0, s1]", "via: []", `line 7: routes[0].to: there is no link between h1 and h2`},
		{"via: [s0, s1]", "via: [s0, s2]", `line 7: routes[0].via[1]: there is no host or switch "s2"`},
		{"from: h1, to: h2", "from: h1, to: h1", `line 7: routes[0].to: comes to h1 twice`},
		{"from: h1", "from: h7", `line 7: routes[0].from: there is no host or switch "h7"`},
	} {
		text := strings.Replace(example, c.old, c.new, 1)
		_, err := Parse([]byte(text))
		if c.want == "" && err == nil {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s for %s:\n\tgot  %v\n\twant %s", c.new, c.old, err, c.want)
		}
	}
	if _, err := Parse([]byte("switches: [s]")); err == nil || !strings.Contains(err.Error(), "hosts is missing") {
		t.Errorf("without hosts: got %v", err)
	}
}

// way is a route as the names that it passes.
func way(n *Network, from, to string) string {
	r := NewRouter(n)
	a, _ := r.Place(from)
	b, _ := r.Place(to)
	path, delay, ok := r.Route(nil, a, b)
	if !ok {
		return "none"
	}
	s := from
	for _, c := range path {
		_, next := ends(n, c)
		s += " " + next
	}
	return fmt.Sprint(s, " ", delay)
}

// ends are the names of where a channel begins and ends, by its link.
func ends(n *Network, c Channel) (from, to string) {
	l := &n.Links[c.Link()]
	if c.Back() {
		return l.B, l.A
	}
	return l.A, l.B
}

func TestRoutes(t *testing.T) {
	n, err := Parse([]byte(`
hosts: [{name: a}, {name: b}, {name: c}, {name: lone}, {name: m}]
switches: [s1, s2, s3, s4]
links:
- {a: a, b: s1, rate: 1Gbit, delay: 1ms}
- {a: s1, b: s3, rate: 1Gbit, delay: 5ms}
- {a: s1, b: s4, rate: 1Gbit, delay: 1ms}
- {a: s4, b: s2, rate: 1Gbit, delay: 1ms}
- {a: s1, b: s2, rate: 1kbit, delay: 2ms}
- {a: s2, b: s3, rate: 1Gbit, delay: 3ms}
- {a: b, b: s3, rate: 1Gbit, delay: 1ms}
- {a: c, b: s2, rate: 1Gbit}
- {a: m, b: s1, rate: 1Gbit}
- {a: m, b: s3, rate: 1Gbit}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want string }{
		{"a", "c", "a s1 s2 c 3ms"}, // 1+2+0 over s2 directly and 1+1+1 over s4: the fewer links
		{"a", "b", "a s1 s3 b 7ms"}, // 1+5+1 directly, as by s2; not over m, which is a host
		{"c", "b", "c s2 s3 b 4ms"}, //
		{"a", "m", "a s1 m 1ms"},    //
		{"b", "m", "b s3 m 1ms"},    // m has two links
		{"m", "b", "m s3 b 1ms"},    //
		{"m", "c", "m s1 s2 c 2ms"}, //
		{"s4", "c", "s4 s2 c 1ms"},  // from a switch
		{"s1", "a", "s1 a 1ms"},     //
		{"a", "a", "a 0s"},          //
		{"a", "lone", "none"},       //
		{"lone", "a", "none"},       //
		{"s1", "s3", "s1 s3 5ms"},   // not over m either
	} {
		if got := way(n, c.from, c.to); got != c.want {
			t.Errorf("%s to %s: %s, want %s", c.from, c.to, got, c.want)
		}
	}
	n.Routes = []Route{{"a", "c", []string{"s1", "s4", "s2"}}}
	if got := way(n, "a", "c"); got != "a s1 s4 s2 c 3ms" {
		t.Errorf("the listed route: %s", got)
	}
	if got := way(n, "c", "a"); got != "c s2 s1 a 3ms" {
		t.Errorf("the way back is not listed: %s", got)
	}
}

// Of equal ways the first by name, from the beginning on.
func TestRoutesByName(t *testing.T) {
	n := &Network{
		Hosts:    []Host{{Name: "a"}, {Name: "z"}},
		Switches: []Switch{{Name: "p"}, {Name: "y"}, {Name: "b"}, {Name: "q"}, {Name: "x"}},
		Links: []Link{
			{A: "a", B: "p"}, {A: "z", B: "q"},
			{A: "p", B: "y"}, {A: "y", B: "q"},
			{A: "p", B: "x"}, {A: "x", B: "q"},
			{A: "p", B: "b"}, {A: "b", B: "q"},
		},
	}
	if got := way(n, "a", "z"); got != "a p b q z 0s" {
		t.Error(got)
	}
}

func TestGenerated(t *testing.T) {
	n := Sites(3, 2, Access{Rate: []unit.Bandwidth{unit.Gbit, unit.Mbit}}, Link{Rate: 10 * unit.Mbit, Back: unit.Mbit, Delay: time.Millisecond})
	if err := n.Validate(); err != nil {
		t.Fatal(err)
	}
	if got := way(n, "h1", "h6"); got != "h1 s1 wan s3 h6 2ms" {
		t.Error(got)
	}
	if n.Hosts[3] != (Host{"h4", "site2"}) || n.Links[1].Rate != unit.Mbit {
		t.Errorf("%+v", n)
	}
}

// Whatever is read is written so that it is read as the same.
func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	b, _ := json.Marshal(Sites(2, 2, Access{Rate: []unit.Bandwidth{1.0 / 3}}, Link{Half: true}))
	f.Add(b)
	f.Add([]byte("hosts: [{name: a}]\nlinks: [{a: a, b: a, rate: 1e30GB/s}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := Parse(text)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("an error of several lines: %v", err)
			}
			return
		}
		for _, b := range [][]byte{n.JSON(), n.YAML()} {
			again, err := Parse(b)
			if err != nil {
				t.Fatalf("wrote %s, which is refused: %v", b, err)
			}
			if !reflect.DeepEqual(again, n) {
				t.Fatalf("wrote %s, read %+v, not %+v", b, again, n)
			}
		}
		r := NewRouter(n)
		for a := range min(8, len(n.Hosts)) {
			for b := range min(8, len(n.Hosts)) {
				r.Route(nil, a, b)
			}
		}
	})
}
