package lab

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/unit"
)

func TestSpecsThatCannotBeBuilt(t *testing.T) {
	two := func(links ...Link) Spec {
		return Spec{Hosts: []string{"a", "b"}, Switches: []string{"s", "u", "w"}, Links: links}
	}
	a, b := Link{A: "a", B: "s"}, Link{A: "s", B: "b"}
	with := func(f func(*Link)) Spec { l := a; f(&l); return two(l, b) }
	for _, c := range []struct {
		spec Spec
		want string // part of the error; empty: it can be built
	}{
		{two(a, b), ""},
		{two(a, b, Link{A: "s", B: "u"}, Link{A: "w", B: "u"}), ""},
		{two(a, b, Link{A: "a", B: "u"}), ""}, // in two segments
		{Spec{}, "needs a host"},
		{two(a), "host b has no link"},
		{two(a, b, Link{A: "a", B: "x"}), `there is no host or switch "x"`},
		{two(a, b, Link{A: "a", B: "b"}), "link 3 (a–b): joins two hosts"},
		{two(a, b, Link{A: "u", B: "u"}), "joins u to itself"},
		{two(a, b, Link{A: "s", B: "a"}), "link 3 (s–a): there is such a link"},
		{two(a, b, Link{A: "s", B: "u"}, Link{A: "u", B: "w"}, Link{A: "w", B: "s"}), "link 5 (w–s): closes a loop"},
		{two(a, b, Link{A: "s", B: "u"}, Link{A: "a", B: "u"}), "host a has two links into one segment"},
		{Spec{Hosts: []string{"A"}}, `host "A": a name is`},
		{Spec{Hosts: []string{"a123456789012345"}}, "1 to 15"},
		{Spec{Hosts: []string{"a"}, Switches: []string{"a"}}, "the name a is used twice"},
		{Spec{Hosts: []string{"a"}, Switches: []string{"lo"}}, `switch "lo": the kernel has this name`},
		{with(func(l *Link) { l.Rate = 1 }), "link 1 (a–s): a rate of"},
		{with(func(l *Link) { l.Back = -1 }), "a rate of"},
		{with(func(l *Link) { l.Back = unit.Tbit }), "a rate of"},
		{with(func(l *Link) { l.Buffer = 1514 }), "a buffer of 1.48 KiB; it holds from 5.91 KiB (four frames)"},
		{with(func(l *Link) { l.Delay = -1 }), "a delay of -1ns"},
		{with(func(l *Link) { l.Loss = 1.5 }), "a loss of 1.5; it is a probability"},
	} {
		err := c.spec.Validate()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%+v\n\tgot %q, want no error", c.spec, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%+v\n\tgot %v, want one line with %q", c.spec, err, c.want)
		}
	}
}

func TestParseSpec(t *testing.T) {
	got, err := ParseSpec([]byte(`
hosts: [n0, n1]
switches: [sw]
seed: 7
links:
- {a: n0, b: sw, rate: 100Mbit, back: 5MB/s, buffer: 64KiB}
- {a: sw, b: n1, delay: 10ms, loss: 0.01}
`))
	want := Spec{Hosts: []string{"n0", "n1"}, Switches: []string{"sw"}, Seed: 7, Links: []Link{
		{A: "n0", B: "sw", Rate: 100 * unit.Mbit, Back: 5 * unit.MBps, Buffer: 64 * unit.KiB},
		{A: "sw", B: "n1", Delay: 10 * time.Millisecond, Loss: 0.01},
	}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, error %v\nwant %+v", got, err, want)
	}
	for text, want := range map[string]string{
		"":                                      "read spec: it is empty",
		"hosts: [a":                             "yaml: line 1: ",
		"hosts: [a]\nports: [b]":                "line 2: field ports not found; a spec has hosts, ",
		"hosts: [a]\nlinks: [{a: a, c: b}]":     "line 2: field c not found; a link has a, b, rate, ",
		"hosts: [a]\nlinks: [a–b]":              "line 2: cannot unmarshal !!str `a–b`",
		"hosts: [a]\nseed: -1":                  "line 2: cannot unmarshal !!int `-1` into uint64",
		"hosts: [a]\nlinks: [{a: a, rate: 5}]":  "link 1 (a–): rate: ",
		"hosts: [a]\nlinks: [{a: a, delay: 5}]": `link 1 (a–): delay: time "5": want a number with us, ms or s`,
		"hosts: [a]":                            "host a has no link",
	} {
		if _, err := ParseSpec([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\n{") {
			t.Errorf("%q: got error %v, want one in one line with %q", text, err, want)
		}
	}
}

func TestStar(t *testing.T) {
	s := Star(hosts(3), Link{Rate: unit.Gbit})
	s.Attach("sw", "store", "hub")
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintln(s.Links[2].A, s.Links[2].B, s.Links[2].Rate, len(s.Links)); got != "n2 sw 125 MB/s 5\n" {
		t.Errorf("the third link is %s", got)
	}
	if got, want := s.Links[4], (Link{A: "hub", B: "sw"}); got != want || s.Hosts[4] != "hub" {
		t.Errorf("the last of %v has the link %v, want %v", s.Hosts, got, want)
	}
}

// TestShapes holds the sizes against the reasons for them.
func TestShapes(t *testing.T) {
	for rate := minRate; rate <= maxRate; rate *= 1.7 {
		for _, buffer := range []unit.Bytes{0, minBuffer, 64 * unit.KiB, unit.MiB, maxBuffer} {
			s := newShape(rate, buffer)
			if buffer != 0 && s.buffer != buffer || s.buffer < minBuffer {
				t.Errorf("%v with a buffer of %v: it is %v", rate, buffer, s.buffer)
			}
			if b := s.burst(); b < 2*frame || b > 2*frame && b > s.buffer/8 {
				t.Errorf("%v with a buffer of %v: a bucket of %v is not small beside it", rate, s.buffer, b)
			}
			if p := s.packet(); 2*p > s.burst() {
				t.Errorf("%v with a buffer of %v: packets of %v for a bucket of %v", rate, s.buffer, p, s.burst())
			}
		}
	}
}

// FuzzParseSpec looks for a text that is not refused and yet cannot be planned.
func FuzzParseSpec(f *testing.F) {
	f.Add([]byte("hosts: [n0, n1]\nswitches: [sw, u]\nlinks:\n- {a: n0, b: sw, rate: 1Mbit}\n- {a: n1, b: u, loss: 1}\n- {a: u, b: sw}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParseSpec(text)
		if err != nil {
			return
		}
		p, err := s.plan()
		if err != nil {
			t.Fatalf("a spec that was read has %v", err)
		}
		seen := make(map[string]bool)
		for seg, members := range p.members {
			for i, h := range members {
				a := addr(seg, i).String()
				if seen[a] {
					t.Errorf("%s has the address %s of another", h, a)
				}
				seen[a] = true
			}
		}
		for _, h := range s.Hosts {
			n := 0
			for _, members := range p.members {
				for _, m := range members {
					if m == h {
						n++
					}
				}
			}
			if n == 0 {
				t.Errorf("%s is in no segment", h)
			}
		}
	})
}

func hosts(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	return names
}
