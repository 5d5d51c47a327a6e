package form

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/freshet/freshet/unit"
)

func TestValues(t *testing.T) {
	for _, text := range []string{
		"name: h1\nsize: 4MiB\nrate: 1Gbit\nafter: 50us\ncount: 7\nshare: 0.5\nseed: 18446744073709551615\nlist: [a, b]\n",
		"{\n\t\"name\": \"h1\", \"size\": \"4MiB\",\n\t\"rate\": \"1Gbit\", \"after\": \"50us\", \"count\": 7, \"share\": 0.5,\n\t\"seed\": 18446744073709551615, \"list\": [\"a\", \"b\"]\n}\n",
	} {
		d := Parse([]byte(text))
		o := d.Root().Object("name", "size", "rate", "after", "count", "share", "seed", "list", "absent")
		if got := o.Need("name").Name(); got != "h1" {
			t.Errorf("name %q", got)
		}
		if got := o.Get("size").Bytes(); got != 4*unit.MiB {
			t.Errorf("size %v", got)
		}
		if got := o.Get("rate").Bandwidth(); got != unit.Gbit {
			t.Errorf("rate %v", got)
		}
		if got := o.Get("after").Duration(); got != 50*time.Microsecond {
			t.Errorf("after %v", got)
		}
		if got := o.Get("count").Int(1, 9); got != 7 {
			t.Errorf("count %v", got)
		}
		if got := o.Get("share").Number(0); got != 0.5 {
			t.Errorf("share %v", got)
		}
		if got := o.Get("seed").Seed(); got != 1<<64-1 {
			t.Errorf("seed %v", got)
		}
		if l := o.Get("list").List(); len(l) != 2 || l[1].Text() != "b" {
			t.Errorf("list %v", l)
		}
		if v := o.Get("absent"); v.Given() || v.Text() != "" || v.Bytes() != 0 {
			t.Error("a field that is not there is given")
		}
		if err := d.Err(); err != nil {
			t.Errorf("%s\n%v", text, err)
		}
	}
}

func TestErrorsNameLineAndField(t *testing.T) {
	read := func(text string) error {
		d := Parse([]byte(text))
		o := d.Root().Object("rate", "links", "n", "at")
		o.Get("rate").Bandwidth()
		o.Get("n").Int(1, 3)
		o.Get("at").Duration()
		for _, l := range o.Get("links").List() {
			l.Object("a").Need("a").Name()
		}
		return d.Err()
	}
	for _, c := range []struct{ text, want string }{
		{"rate: 5\n", `line 1: rate: rate "5": want a number with`},
		{"rate: 1Gbit\nrat: 3\n", `line 2: unknown key "rat"; there are rate, links, n, at`},
		{"n: 1\nn: 2\n", `line 2`},
		{"n: 4\n", `line 1: n: "4": want a whole number from 1 to 3`},
		{"n: [1]\n", `line 1: n: want a text, not a list`},
		{"n:\n", `line 1: n: want a text, not nothing`},
		{"at: -3s\n", `line 1: at: "-3s": want a time`},
		{"links:\n- {a: x}\n- {}\n", `line 3: links[1]: a is missing`},
		{"links:\n- {a: x}\n- {a: 'x y'}\n", `line 3: links[1].a: a name is 1 to 64 bytes, printable and without spaces, not "x y"`},
		{"links: {a: x}\n", `line 1: links: want a list, not an object`},
		{"links:\n- &x {a: x}\n- *x\n", `line 3: links[1]: want an object with a, not an alias`},
		{"", "the document is empty"},
		{"- 1\n", "line 1: want an object with"},
		{"n: 1\n\n---\nn: 2\n", "line 3: there is more than one document in the file"},
		{"n: 1\n\x00\x01\x02", "line 2: control characters are not allowed"},
		{"\xff\xfen\x00:\x00", "line 1: the text is UTF-16; save it as UTF-8"},
		{"\xfe\xff\x00n\x00:", "line 1: the text is UTF-16; save it as UTF-8"},
		{"n\x00:\x00 \x001\x00", "line 1: the text is UTF-16; save it as UTF-8"},
		{"\x00n\x00:\x00 \x001", "line 1: the text is UTF-16; save it as UTF-8"},
		{"n\x00", "line 1: control characters are not allowed"},
		{"n: 1\n\nat: \xff", "line 3: the text is not UTF-8"},
		{strings.Repeat("x", MaxText+1), "bytes of text"},
		{"n: 1\nlinks:\n[" + strings.Repeat("a,", maxValues) + "]", "line 3: more than 4000000 values"},
		{strings.Repeat("[", 60<<20), "line 1: more than 4000000 values"},
		{strings.Repeat("[", maxValues), "line 1: exceeded max depth"},
		{strings.Repeat("- ", maxValues), "line 1: exceeded max depth"},
		{strings.Repeat("x", 60<<20), "line 1: a value of more than 1 MiB"},
		{strings.Repeat(strings.Repeat("x", 63)+"\n", 1<<20), "line 16385: a value of more than 1 MiB"},
		{"n: 1\nat: \"" + strings.Repeat("x", maxValue), "line 2: a value of more than 1 MiB"},
	} {
		err := read(c.text)
		if len(c.text) > 100 {
			c.text = c.text[:100]
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q:\n\tgot  %v\n\twant %s", c.text, err, c.want)
		}
	}
}

// What would do something to a terminal is no name, and no other text that is shown.
func TestTextsCanBePrinted(t *testing.T) {
	read := func(text string) (name, words string, err error) {
		d := Parse([]byte(text))
		o := d.Root().Object("name", "words")
		return o.Get("name").Name(), o.Get("words").Words(20), d.Err()
	}
	for _, s := range []string{"a", "東京", "Zürich", "e\u0301", "\U0001F600", "1/2", "-"} {
		if name, words, err := read(fmt.Sprintf("name: %q\nwords: %q\n", s, s+" "+s)); err != nil || name != s || words != s+" "+s {
			t.Errorf("%q: got %q, %q, %v", s, name, words, err)
		}
	}
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	for _, s := range []string{`\x1b[2J`, `\a`, `\t`, `\n`, `\x7f`, `\x85`, `\x9b2J`, `\u202E`, `\u2028`, `\u200b`, `\uFEFF`, `\u00a0`, `\uFFFD`} {
		if _, _, err := read("name: ok\nwords: \"" + s + "\"\n"); err == nil || !strings.HasPrefix(err.Error(), "line 2: words: want a text of at most 20 bytes that can be printed, not \"") || strings.ContainsFunc(err.Error(), hidden) {
			t.Errorf("words %s: %q", s, err)
		}
		if _, _, err := read("name: \"" + s + "\"\n"); err == nil || !strings.HasPrefix(err.Error(), "line 1: name: a name is 1 to 64 bytes, printable and without spaces, not \"") || strings.ContainsFunc(err.Error(), hidden) {
			t.Errorf("name %s: %q", s, err)
		}
	}
	if _, _, err := read("words: twenty-one bytes long\n"); err == nil {
		t.Error("more bytes than there may be")
	}
}

// What is no YAML is an error in the line where it begins to be none, wherever what it is in began.
func TestSyntaxErrorsNameTheLine(t *testing.T) {
	list := "transfers:\n- name: x\n  sources:\n  - h1\n  - h2\n"
	long := strings.Repeat("# nothing\n\n", 300)
	for _, c := range []struct {
		text string
		line int
	}{
		{"links: [{a: x, b: y]\n", 1},
		{"links: [{a: x, b: y}\n", 1},
		{"links:\n- {a: x\n- {a: y}\n", 3},
		{"links:\n- {a: x, b: [y}\n- {a: y}\n", 2},
		{"links: [\n {a: x},\n {a: [1,\n 2]},\n {a: y}\n {a: z}]\n", 6},
		{"{\n\"links\": [\n{\"a\": \"x\"},\n{\"a\": \"y\"}\n{\"a\": \"z\"}\n]\n}\n", 5},
		{"{\n\"links\": [\n{\"a\": \"x\" \"b\": 1},\n{\"a\": \"y\"}\n]\n}\n", 3},
		{"{\n\"links\": [\n{\"a\": \"x\"},,\n{\"a\": \"y\"}\n]\n}\n", 3},
		{"{\n\"links\": [\n{\"a\": \"x\"}\n}\n", 4},
		{list + " destinations: [h3]\n", 6},
		{list + "   destinations: [h3]\n", 6},
		{list + "  destinations [h3]\n", 6},
		{list + "  destinations [h3]\n  weight: 1\n", 6},
		{list + "  destinations: h3: h4\n  weight: 1\n", 6},
		{list + "\tdestinations: [h3]\n", 6},
		{list + "  destinations: @h3\n" + long, 6},
		{list + "  destinations: *h3\n" + long, 6},
		{list + "  destinations: [h3]\n" + long + " weight: 1\n" + long, 607},
		{list + "  destinations: [h3\n" + long + "- name: y\n" + long, 607},
		{list + "  destinations: [\"h3]\n  weight: 1\n", 6},
		{list + "  destinations: h3\u0080\n  weight: 1\n", 6},
		{"\tlinks: x\n", 1},
		{"links: 'x\n", 1},
		{"links: @x\n", 1},
		{"links: a: b\n", 1},
		{"links: x\r\nn: [1,\r\n2\r\nrate: 3\r\n", 4},
		{"links: x\n--- x\n", 2},
		{"links: [a,\n  b,\n  ,\n  c]\n", 3},
		{"links: [a,\n  b,\n  {c: ]}\n  ]\n", 3},
		{"links:\n- a: ]\n- a\n", 2},
	} {
		err := Parse([]byte(c.text)).Err()
		if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("line %d: ", c.line)) || strings.Count(err.Error(), "line ") != 1 {
			t.Errorf("%.200q:\n\tgot  %v\n\twant line %d", c.text, err, c.line)
		}
	}
}

// What is wrong in an element is said with the line of that element, however the document is laid out.
func TestElementsNameTheirLine(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"links: [{a: x}, {a: y},\n  {a: z},\n  {a: 'bad one'}]\n", `line 3: links[3].a: `},
		{"links:\n- {a: x}\n- {a:\n    'bad one'}\n", `line 4: links[1].a: `},
		{"links:\n-\n  # which is bad\n\n  a: 'bad one'\n", `line 5: links[0].a: `},
		{"links:\n- a: x\n-\n\n  b: y\n", `line 5: links[1]: unknown key "b"`},
		{"links:\n- a: x\n\n- &k {}\n", `line 4: links[1]: a is missing`},
		{"links:\n- a: >\n    bad\n    one\n", `line 2: links[0].a: `},
		{"links:\n- a:\n- a: x\n", `line 2: links[0].a: want a text, not nothing`},
		{"{\"links\": [\n\t{\"a\": \"x\"},\n\t{\"a\": \"bad one\"}\n]}\n", `line 3: links[1].a: `},
		{"links:\r\n- a: x\r\n\r\n- a: bad one\r\n", `line 4: links[1].a: `},
		{"n: 1\nlinks: []\n", `line 1: more: there is none`},
	} {
		d := Parse([]byte(c.text))
		o := d.Root().Object("links", "n", "more")
		for _, l := range o.Need("links").List() {
			l.Object("a").Need("a").Name()
		}
		o.Get("more").Object("x").Fail("there is none")
		if err := d.Err(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q:\n\tgot  %v\n\twant %s", c.text, err, c.want)
		}
	}
}

// A long text costs little more to be wrong than to be right.
func BenchmarkLongWrong(b *testing.B) {
	var text strings.Builder
	text.WriteString("links:\n")
	for range 100_000 {
		text.WriteString("- {a: x, b: y, rate: 1Gbit}\n")
	}
	for _, c := range []struct{ name, end string }{{"right", ""}, {"block", " n: 1\n"}, {"flow", "- {a: x, b: y\n- x\n"}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				Parse([]byte(text.String() + c.end))
			}
		})
	}
}
