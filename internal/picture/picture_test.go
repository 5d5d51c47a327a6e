package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/freshet/freshet/topo"
	"github.com/freshet/freshet/unit"
)

var keep = flag.String("keep", "", "write the pictures into this directory, to look at them")

// picture is what a test asks of an SVG document.
type picture struct {
	squares, circles, diamonds int
	texts, titles              []string
	strokes                    map[string]int // by colour
	width, height              float64
}

// look reads a picture as a browser does, and checks that all is inside of it.
func look(t *testing.T, name string, text []byte) picture {
	t.Helper()
	if *keep != "" {
		if err := os.WriteFile(filepath.Join(*keep, name+".svg"), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if m := regexp.MustCompile(`NaN|Inf|%!`).Find(text); m != nil {
		t.Errorf("%s: there is a %s in it", name, m)
	}
	p := picture{strokes: map[string]int{}}
	dec := xml.NewDecoder(bytes.NewReader(text))
	in, head := "", true // shapes of the head are those of the legend
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			in = e.Name.Local
			attr := func(name string) string {
				for _, a := range e.Attr {
					if a.Name.Local == name {
						return a.Value
					}
				}
				return ""
			}
			number := func(name string) float64 {
				x, _ := strconv.ParseFloat(attr(name), 64)
				return x
			}
			inside := func(x, y float64) {
				if x < 0 || x > p.width || y < 0 || y > p.height {
					t.Errorf("%s: %s at %g, %g is outside of %g × %g", name, in, x, y, p.width, p.height)
				}
			}
			if s := attr("stroke"); s != "" && !head {
				p.strokes[s]++
			}
			switch in {
			case "svg":
				p.width, p.height = number("width"), number("height")
			case "g":
				head = head && attr("transform") == ""
			case "rect":
				if !head && attr("stroke") != "" {
					p.squares++
				}
				if !strings.HasSuffix(attr("width"), "%") {
					inside(number("x"), number("y"))
				}
			case "circle":
				p.circles++
				inside(number("cx"), number("cy"))
			case "path":
				if !head && strings.HasSuffix(attr("d"), "z") {
					p.diamonds++
				}
			case "text":
				inside(number("x"), number("y"))
			}
		case xml.CharData:
			switch in {
			case "text":
				p.texts = append(p.texts, string(e))
			case "title":
				p.titles = append(p.titles, string(e))
			}
		case xml.EndElement:
			in = ""
		}
	}
	return p
}

// send adds a transfer with one flow.
func (o *Options) send(name string, path []int, rate unit.Bandwidth) {
	o.Flows = append(o.Flows, Flow{Transfer: len(o.Transfers), Path: path, Rate: rate})
	o.Transfers = append(o.Transfers, Transfer{Name: name, Sources: path[:1], Destinations: path[1:]})
}

func shape(t *testing.T, s topo.Shape) *topo.Graph {
	t.Helper()
	n, err := s.Network()
	if err != nil {
		t.Fatal(err)
	}
	return topo.NewGraph(n)
}

// At 400 hosts every one is there, and what is drawn is folded so far that it can be read.
func TestShapes(t *testing.T) {
	for _, c := range []struct {
		s       topo.Shape
		squares int
		circles int // switches, sites
		says    []string
	}{
		{topo.Shape{Kind: "flat"}, 0, 1, []string{"s0", "400 hosts", "400 hosts, 1 switch, 400 links; a tree"}},
		{topo.Shape{Kind: "flat", Hosts: 3}, 3, 1, []string{"3 hosts", "h1, h2, h3"}},
		{topo.Shape{Kind: "flat", Hosts: 60}, 60, 1, []string{"h1 … h60"}},
		{topo.Shape{Kind: "flat", Hosts: 200}, 200, 1, []string{"200 hosts"}},
		{topo.Shape{Kind: "star"}, 400, 17, []string{"wan", "s1", "25 hosts"}},
		{topo.Shape{Kind: "intrigger"}, 400, 21, []string{"core", "region4", "site16"}},
		{topo.Shape{Kind: "intrigger", Hosts: 60}, 60, 37, []string{"s16.1"}},
		{topo.Shape{Kind: "deep"}, 400, 23, []string{"site18"}},
		{topo.Shape{Kind: "skewed", Asymmetric: true}, 400, 11, nil},
		{topo.Shape{Kind: "fattree"}, 400, 18, []string{"pod12", "c1 … c6", "c31 … c36"}},
		{topo.Shape{Kind: "fattree", Hosts: 16}, 16, 20, []string{"c4", "a1.1", "e4.2"}},
		{topo.Shape{Kind: "big", Hosts: 10_000}, 0, 0, []string{"pod1", "core"}},
		{topo.Shape{Kind: "star", Hosts: 1000, Groups: 500}, 0, 90, []string{"and 411 more", "822 hosts, 411 switches"}},
	} {
		g := shape(t, c.s)
		name := fmt.Sprintf("%s-%d", c.s.Kind, g.Hosts())
		text := Draw(g, Options{Title: name})
		p := look(t, name, text)
		if c.squares > 0 && p.squares != c.squares {
			t.Errorf("%s: %d hosts are drawn, want %d", name, p.squares, c.squares)
		}
		if c.circles > 0 && p.circles != c.circles {
			t.Errorf("%s: %d circles, want %d", name, p.circles, c.circles)
		}
		all := strings.Join(p.texts, "|") + "|"
		for _, s := range append(c.says, name) {
			if !strings.Contains(all, s+"|") && !strings.Contains(all, s+",") {
				t.Errorf("%s: %q is not in it: %s", name, s, all)
			}
		}
		if p.height > 3000 || p.width > 3000 {
			t.Errorf("%s: %g × %g", name, p.width, p.height)
		}
		if !bytes.Equal(text, Draw(shape(t, c.s), Options{Title: name})) {
			t.Errorf("%s is another picture the second time", name)
		}
	}
}

// boxes are where the texts of a picture are, about, and points those on its bent lines.
func boxes(t *testing.T, svg []byte) (texts map[string]box, points []point) {
	t.Helper()
	number := func(s string) float64 {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	_, body, _ := bytes.Cut(svg, []byte("<g transform"))
	texts = map[string]box{}
	for _, m := range regexp.MustCompile(`<text x="(.*?)" y="(.*?)" text-anchor="(.*?)" class="(.*?)">(.*?)</text>`).FindAllSubmatch(body, -1) {
		x, y, wide, says := number(string(m[1])), number(string(m[2])), textWidth(string(m[5])), string(m[5])
		if strings.HasPrefix(string(m[4]), "s") {
			wide *= 0.8
		}
		if string(m[3]) == "end" {
			x -= wide
		}
		texts[fmt.Sprintf("%s at %g, %g", says, x, y)] = box{x, y - 8, x + wide, y + 1}
	}
	for _, m := range regexp.MustCompile(`<path d="M(.*?) (.*?)C(.*?) (.*?) (.*?) (.*?) (.*?) (.*?)H(.*?)" .*?stroke-width="(.*?)"`).FindAllSubmatch(body, -1) {
		var v [10]float64
		for i := range v {
			v[i] = number(string(m[i+1]))
		}
		add := func(x, y float64) { points = append(points, point{x, y - v[9]/2}, point{x, y + v[9]/2}) }
		for i := range 201 {
			u := float64(i) / 200
			w := 1 - u
			add(w*w*w*v[0]+3*w*w*u*v[2]+3*w*u*u*v[4]+u*u*u*v[6], w*w*w*v[1]+3*w*w*u*v[3]+3*w*u*u*v[5]+u*u*u*v[7])
			add(v[6]+u*(v[8]-v[6]), v[7])
		}
	}
	return texts, points
}

// Of trees nothing that is written is cut off, or lies on a link: whether it goes up or down, carries many transfers, or leaves a switch that has hosts.
func TestLabelsAreFree(t *testing.T) {
	own := &topo.Network{
		Hosts:    []topo.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}},
		Switches: []topo.Switch{{Name: "s0"}, {Name: "s1"}, {Name: "s2"}},
		Links: []topo.Link{
			{A: "a", B: "s0", Rate: 10, Back: 10}, {A: "b", B: "s1", Rate: 10, Back: 10}, {A: "c", B: "s1", Rate: 10, Back: 10}, {A: "d", B: "s2", Rate: 10, Back: 10},
			{A: "s0", B: "s1", Rate: 10, Back: 10}, {A: "s1", B: "s2", Rate: 10, Back: 5},
		},
	}
	long, err := topo.Shape{Kind: "star", Hosts: 40, Groups: 4}.Network()
	if err != nil {
		t.Fatal(err)
	}
	root := long.Switches[0].Name
	long.Switches[0].Name = "the-switch-in-the-middle-of-all"
	for i := range long.Links {
		for _, end := range []*string{&long.Links[i].A, &long.Links[i].B} {
			if *end == root {
				*end = long.Switches[0].Name
			}
		}
	}
	for name, n := range map[string]*topo.Network{"own": own, "long": long, "sites": shape(t, topo.Shape{Kind: "intrigger"}).Network(), "deep": shape(t, topo.Shape{Kind: "deep", Hosts: 90}).Network()} {
		if err := n.Validate(); err != nil {
			t.Fatal(err)
		}
		g := topo.NewGraph(n)
		o := Options{Load: make([]float64, g.Channels())}
		for c := range o.Load {
			o.Load[c] = 1
		}
		for k := range 8 {
			o.send(fmt.Sprintf("transfer %d", k), []int{k % 2, g.Hosts() - 1 - k%2, g.Hosts() / 2, g.Hosts() / 3}, 1)
		}
		for what, o := range map[string]Options{"loads": o, "rates": {}} {
			svg := Draw(g, o)
			look(t, "free "+name+" "+what, svg)
			texts, points := boxes(t, svg)
			if len(texts) < len(n.Switches)/3 || len(points) == 0 {
				t.Errorf("%s, %s: %d texts and %d points of lines", name, what, len(texts), len(points))
			}
			for says, b := range texts {
				if b.x1 < 2 {
					t.Errorf("%s, %s: %s is cut off", name, what, says)
				}
				for _, p := range points {
					if b.meets(box{p.x, p.y, p.x, p.y}) {
						t.Errorf("%s, %s: %s is crossed at %.0f, %.0f", name, what, says, p.x, p.y)
						break
					}
				}
			}
		}
	}
}

// A link's label stands on top of all links: with many of them it is not crossed out.
func TestLabelsAreOnTop(t *testing.T) {
	text := string(Draw(shape(t, topo.Shape{Kind: "star", Hosts: 90, Groups: 9}), Options{}))
	label := strings.Index(text, `text-anchor="end"`)
	if line := strings.LastIndex(text, "<path "); label < 0 || label < line {
		t.Errorf("the first label is at %d, the last link at %d", label, line)
	}
}

// Loads are greys, and what flows use has the colour of the flow.
func TestPlan(t *testing.T) {
	for _, kind := range []string{"intrigger", "fattree"} {
		g := shape(t, topo.Shape{Kind: kind, Seed: 3})
		o := Options{Title: kind + " with a plan", Load: make([]float64, g.Channels())}
		r := g.Router()
		for k := range 4 {
			var hosts []int
			for i := range 5 {
				hosts = append(hosts, (k*97+i*61)%400)
			}
			o.send(fmt.Sprintf("transfer %d", k+1), hosts, 100)
			for i := range 4 {
				path, _, _ := r.Route(nil, hosts[i], hosts[i+1])
				for _, c := range path {
					o.Load[c] += 0.3
				}
			}
		}
		p := look(t, kind+"-plan", Draw(g, o))
		if p.diamonds != 4 || p.squares != 400-4 {
			t.Errorf("%s: %d sources of 4, %d other hosts", kind, p.diamonds, p.squares)
		}
		for k := range 4 {
			want := 5 // hosts
			if kind == "intrigger" {
				want += 4 // links
			}
			if p.strokes[transferColours[k]] < want {
				t.Errorf("%s: transfer %d is drawn %d times", kind, k, p.strokes[transferColours[k]])
			}
		}
		all := strings.Join(append(p.texts, p.titles...), "|")
		for _, s := range []string{"transfer 4", "30 % used", "source", "in use"} {
			if !strings.Contains(all, s) {
				t.Errorf("%s: %q is not in it", kind, s)
			}
		}
		// Of many transfers those that carry most have a colour, and the others are grey together.
		for k := range 20 {
			o.send(fmt.Sprintf("small transfer %d", k+1), []int{200 + 3*k, 5}, unit.Bandwidth(k+1))
		}
		p = look(t, kind+"-many", Draw(g, o))
		all = strings.Join(p.texts, "|") + "|"
		for k := range 24 {
			name := fmt.Sprintf("|transfer %d|", k+1)
			if k >= 4 {
				name = fmt.Sprintf("|small transfer %d|", k-3)
			}
			if got, want := strings.Contains(all, name), k < 4 || k >= 20; got != want {
				t.Errorf("%s: %s is in the legend: %v, want %v", kind, name, got, want)
			}
		}
		if !strings.Contains(all, "|16 others|") || p.strokes[othersColour] < 16 {
			t.Errorf("%s: others are drawn %d times, and the texts are %s", kind, p.strokes[othersColour], all)
		}
		if n := p.strokes[transferColours[7]]; n < 1 {
			t.Errorf("%s: the last colour is drawn %d times", kind, n)
		}
	}
}

// Loads are greys, the darker the fuller, and flows have colours that are told apart and are none of these, as most people see them and as those do
// who see no red, no green or no blue (Machado, Oliveira, Fernandes 2009, table 1, severity 1).
func TestColours(t *testing.T) {
	vision := map[string][3][3]float64{
		"all":      {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
		"no red":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
		"no green": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
		"no blue":  {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
	}
	lab := func(colour string, sees [3][3]float64) (lab [3]float64) {
		var rgb [3]float64
		for i := range rgb {
			x, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			if rgb[i] = float64(x) / 255; rgb[i] <= 0.04045 {
				rgb[i] /= 12.92
			} else {
				rgb[i] = math.Pow((rgb[i]+0.055)/1.055, 2.4)
			}
		}
		times := func(m [3][3]float64, v [3]float64) (w [3]float64) {
			for i, row := range m {
				w[i] = min(1, max(0, row[0]*v[0]+row[1]*v[1]+row[2]*v[2]))
			}
			return w
		}
		xyz := times([3][3]float64{{0.4339, 0.3762, 0.1899}, {0.2126, 0.7152, 0.0722}, {0.0177, 0.1095, 0.8728}}, times(sees, rgb))
		for i, x := range xyz {
			if xyz[i] = math.Cbrt(x); x < 0.008856 {
				xyz[i] = 7.787*x + 16.0/116
			}
		}
		return [3]float64{116*xyz[1] - 16, 500 * (xyz[0] - xyz[1]), 200 * (xyz[1] - xyz[2])}
	}
	apart := func(a, b string, sees [3][3]float64) float64 {
		x, y := lab(a, sees), lab(b, sees)
		return math.Hypot(math.Hypot(x[0]-y[0], x[1]-y[1]), x[2]-y[2])
	}
	const least = 18 // in CIE 1976 L*a*b*, where 2 is just seen beside each other
	flows := append(transferColours[:], othersColour)
	for who, sees := range vision {
		for i, a := range flows {
			for _, b := range flows[:i] {
				if got := apart(a, b, sees); got < least {
					t.Errorf("%s: flows of %s and of %s are %.1f apart, want %d", who, a, b, got, least)
				}
			}
			for load := range 101 {
				if b := loadColour(float64(load) / 100); apart(a, b, sees) < least {
					t.Errorf("%s: a flow of %s is %.1f from a load of %d %%, want %d", who, a, apart(a, b, sees), load, least)
				}
			}
		}
		for load := range 100 {
			if a, b := lab(loadColour(float64(load)/100), sees), lab(loadColour(float64(load+1)/100), sees); b[0] >= a[0] {
				t.Errorf("%s: %d %% is no lighter than one per cent more", who, load)
			}
		}
	}
	if idle, full := loadColour(math.NaN()), loadColour(1.5); idle != loadColour(0) || full != loadColour(1) {
		t.Errorf("beyond the ends loads are %s and %s, want %s and %s", idle, full, loadColour(0), loadColour(1))
	}
}

// Where bundles cross too often each is one line, of its fullest link, and says which transfers use it; else both ways have a line each, and so has each transfer.
func TestManyBundles(t *testing.T) {
	for _, c := range []struct {
		hosts, bundles int
		single         bool
	}{{400, 72, true}, {16, 32, false}} {
		g := shape(t, topo.Shape{Kind: "fattree", Hosts: c.hosts})
		o := Options{Load: make([]float64, g.Channels())}
		path, _, _ := g.Router().Route(nil, 0, c.hosts-1)
		for _, c := range path {
			o.Load[c] = 0.75
		}
		for k := range 8 {
			o.send(fmt.Sprintf("x%d", k), []int{0, c.hosts - 1}, 1)
		}
		svg := Draw(g, o)
		p := look(t, fmt.Sprintf("bundles-%d", c.hosts), svg)
		_, body, _ := strings.Cut(string(svg), "<g transform")
		want := c.bundles
		if !c.single {
			want = 2*c.bundles + 8*(len(path)-2)
		}
		if got := strings.Count(body, "<line "); got != want {
			t.Errorf("%d hosts: %d lines of %d bundles, want %d", c.hosts, got, c.bundles, want)
		}
		if got := strings.Contains(strings.Join(p.texts, "|"), "transfers have no lines"); got != c.single {
			t.Errorf("%d hosts: the legend says that transfers have no lines: %v, want %v", c.hosts, got, c.single)
		}
		if !strings.Contains(strings.Join(p.titles, "|"), "75 % used\n") {
			t.Errorf("%d hosts: no link says that it is used", c.hosts)
		}
		if got := strings.Count(strings.Join(p.titles, "|"), "used by x0, x1, x2, x3, x4, x5, and 2 more"); got < 2 {
			t.Errorf("%d hosts: %d lines say which transfers use them, want 2 at least", c.hosts, got)
		}
		last := body[strings.LastIndex(body, "<line "):]
		if full := fmt.Sprintf(`stroke="%s"`, loadColour(0.75)); c.single && !strings.Contains(last[:strings.Index(last, ">")], full) {
			t.Errorf("the line on top of all others is %s, want %s", last[:strings.Index(last, ">")], full)
		}
	}
}

// A host is marked as a source and as a destination if it is both, whichever is first, says what it is in the first of its transfers, and has the
// colour of the first that has one.
func TestRoles(t *testing.T) {
	for _, kind := range []string{"star", "fattree"} {
		g := shape(t, topo.Shape{Kind: kind, Hosts: 16, Groups: 4})
		o := Options{Load: make([]float64, g.Channels())}
		o.send("model", []int{0, 1, 2, 3}, 1)
		p := look(t, kind+" roles one", Draw(g, o))
		if p.diamonds != 1 || p.squares != 15 || strings.Contains(strings.Join(p.texts, "|"), "source of one") {
			t.Errorf("%s: %d diamonds and %d squares of one source among 16 hosts; the legend is %q", kind, p.diamonds, p.squares, p.texts)
		}
		o.send("logs", []int{2, 1}, 1)
		p = look(t, kind+" roles two", Draw(g, o))
		if p.diamonds != 2 || p.squares != 15 || !slices.Contains(p.texts, "source of one, destination of another") {
			t.Errorf("%s: %d diamonds and %d squares of two sources, one of them a destination, among 16 hosts; the legend is %q", kind, p.diamonds, p.squares, p.texts)
		}
		if titles := strings.Join(p.titles, "|") + "|"; !strings.Contains(titles, "\nmodel: destination\nlogs: source|") || !strings.Contains(titles, "\nmodel: destination\nlogs: destination|") {
			t.Errorf("%s: what the hosts are is not told: %s", kind, titles)
		}
		for k := range 8 { // they carry more than the first two
			o.send(fmt.Sprintf("more%d", k), []int{1, 4, 5, 6, 7, 8}, 100)
		}
		p = look(t, kind+" roles many", Draw(g, o))
		if titles := strings.Join(p.titles, "|") + "|"; !strings.Contains(titles, "\nmodel: destination\nlogs: destination\nmore0: source\nmore1: source\nmore2: source\nmore3: source\nand 4 more|") {
			t.Errorf("%s: a host in ten transfers does not say six of them: %s", kind, titles)
		}
		d := &drawing{Graph: g, Options: o}
		d.chooseColoured()
		d.giveRoles()
		if got, want := d.mark(1), (mark{source: transferColours[0], destination: othersColour}); got != want {
			t.Errorf("%s: the mark of a host in ten transfers is %+v, want %+v", kind, got, want)
		}
	}
	// A destination that is a source, and one that is there twice.
	d := &drawing{Graph: shape(t, topo.Shape{Kind: "flat", Hosts: 3}), Options: Options{Transfers: []Transfer{{Name: "x", Sources: []int{0, 0}, Destinations: []int{0, 1, 1}}}}}
	d.giveRoles()
	if got, want := fmt.Sprint(d.roles), "[[{0 true false}] [{0 false false}] []]"; got != want {
		t.Errorf("roles %s, want %s", got, want)
	}
}

// Who is without is in the picture, with a cross and the reason, whatever else it is in.
func TestStarved(t *testing.T) {
	for _, kind := range []string{"star", "fattree"} {
		g := shape(t, topo.Shape{Kind: kind, Hosts: 16, Groups: 4})
		o := Options{Load: make([]float64, g.Channels())}
		for k := range 7 {
			o.send(fmt.Sprintf("t%d", k), []int{5, 3}, 1)
		}
		p := look(t, kind+" served", Draw(g, o))
		if p.strokes[crossColour] > 0 || slices.Contains(p.texts, "starved or unreachable") {
			t.Errorf("%s: %d crosses, nobody is starved; the texts are %q", kind, p.strokes[crossColour], p.texts)
		}
		o.Transfers = append(o.Transfers, Transfer{Name: "index", Sources: []int{1}, Destinations: []int{2, 3}, Without: map[int]string{2: "unreachable: no route", 3: "starved: 1 B/s, alone 9 B/s"}})
		p = look(t, kind+" starved", Draw(g, o))
		if p.strokes[crossColour] != 2 || p.diamonds != 2 || !slices.Contains(p.texts, "starved or unreachable") || !slices.Contains(p.texts, "index") {
			t.Errorf("%s: %d crosses of 2 without, %d diamonds of 2 sources, the texts are %q", kind, p.strokes[crossColour], p.diamonds, p.texts)
		}
		titles := strings.Join(p.titles, "|") + "|"
		for _, want := range []string{"\nindex: source|", "\nindex: destination, unreachable: no route|", "\nindex: destination, starved: 1 B/s, alone 9 B/s\nt0: destination\n"} {
			if !strings.Contains(titles, want) {
				t.Errorf("%s: no %q in %s", kind, want, titles)
			}
		}
	}
}

// A diamond beside a square does not lie on it, but for half a stroke.
func TestDiamondsFit(t *testing.T) {
	d := &drawing{}
	d.shape(mark{source: "#000"}, 0, 0, square, "#fff")
	var left float64
	if _, err := fmt.Sscanf(d.b.String(), `<path d="M%f`, &left); err != nil {
		t.Fatal(err)
	}
	if room := pitch - square/2; -left > room {
		t.Errorf("a diamond is %g wide to each side, and the next square begins after %g", -left, room)
	}
}

// Rows of a tree are as high as what is drawn in them, and the legend has as many rows as it takes.
func TestRoomForFlows(t *testing.T) {
	g := shape(t, topo.Shape{Kind: "star", Hosts: 40, Groups: 4})
	draw := func(transfers int, name string) picture {
		o := Options{Load: make([]float64, g.Channels())}
		for k := range transfers {
			o.send(name, []int{k, 10 + k, 20 + k, 30 + k}, 1)
		}
		return look(t, fmt.Sprintf("room-%d-%d", transfers, len(name)), Draw(g, o))
	}
	one, eight := draw(1, "x"), draw(8, "x")
	if want := one.height + 4*(lane(8)-lane(1)); eight.height < want-20 || eight.height > want+20 {
		t.Errorf("with 8 transfers it is %g high, with one %g; want about %g", eight.height, one.height, want)
	}
	if long := draw(8, "a name of 23 characters"); long.height < eight.height+rowHeight-1 {
		t.Errorf("with long names it is %g high, want a row of the legend more than %g", long.height, eight.height)
	}
	// Others are drawn along links only where they are alone.
	ten := draw(10, "x")
	if n := ten.strokes[othersColour]; n > 2*5+1 {
		t.Errorf("2 others are drawn %d times: more than on their hosts and in the legend", n)
	}
}

// What goes one way over a half-duplex link takes from the other: it is one line, of the load of both ways together, and so is
// each of its ends.
func TestHalfDuplex(t *testing.T) {
	tree := &topo.Network{
		Hosts:    []topo.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		Switches: []topo.Switch{{Name: "s0"}, {Name: "s1"}},
		Links: []topo.Link{
			{A: "a", B: "s0", Rate: 10, Back: 10}, {A: "s0", B: "s1", Rate: 10, Back: 10, Half: true},
			{A: "b", B: "s1", Rate: 10, Back: 10, Half: true}, {A: "c", B: "s1", Rate: 10, Back: 10},
		},
	}
	ring := &topo.Network{Hosts: tree.Hosts, Switches: append(tree.Switches, topo.Switch{Name: "s2"})}
	ring.Links = append(append(ring.Links, tree.Links...),
		topo.Link{A: "s1", B: "s2", Rate: 10, Back: 10, Half: true}, topo.Link{A: "s2", B: "s0", Rate: 10, Back: 10, Half: true})
	for name, n := range map[string]*topo.Network{"tree": tree, "ring": ring} {
		if err := n.Validate(); err != nil {
			t.Fatal(err)
		}
		g := topo.NewGraph(n)
		load := make([]float64, g.Channels())
		load[2], load[3] = 0.4, 0.6 // s0 and s1
		load[5] = 0.7               // s1 to b
		p := look(t, "half "+name, Draw(g, Options{Load: load}))
		says := strings.Join(p.titles, "|")
		for _, want := range []string{"80 bit, 100 % used, half duplex", "80 bit, 70 % used, half duplex"} {
			if !strings.Contains(says, want) {
				t.Errorf("%s: no %q in %q", name, want, says)
			}
		}
		if strings.Contains(says, "40 %") || strings.Contains(says, "60 %") {
			t.Errorf("%s: the directions of a half-duplex link have loads of their own: %q", name, says)
		}
		if n := p.strokes[loadColour(1)]; n != 1 {
			t.Errorf("%s: the full link is drawn as %d lines, want 1", name, n)
		}
		if name != "tree" {
			continue
		}
		for _, want := range []string{"↕100 %", "↕ both ways together"} {
			if !slices.Contains(p.texts, want) {
				t.Errorf("%s: no %q in %q", name, want, p.texts)
			}
		}
	}
}

// Long names that differ in their ends are not alike when they are shortened.
func TestLongNames(t *testing.T) {
	g := shape(t, topo.Shape{Kind: "star", Hosts: 40, Groups: 4})
	o := Options{Load: make([]float64, g.Channels())}
	for k := range 8 {
		o.send(fmt.Sprintf("checkpoint-of-the-large-model-epoch-%d", k), []int{k, 20 + k}, 1)
	}
	texts := strings.Join(look(t, "long names", Draw(g, o)).texts, "|")
	for k := range 8 {
		if want := fmt.Sprintf("checkpoint-o…del-epoch-%d", k); strings.Count(texts, want) != 1 {
			t.Errorf("%s is %d times in %s", want, strings.Count(texts, want), texts)
		}
	}
	for s, want := range map[string]string{"abcdef": "abcdef", "abcdefg": "abc…fg", "äöüßéèê": "äöü…èê"} {
		if got := cut(s, 6); got != want {
			t.Errorf("%s is cut to %s, want %s", s, got, want)
		}
	}
}

// The legend says what arrows are, where there are any.
func TestArrows(t *testing.T) {
	n := shape(t, topo.Shape{Kind: "star", Hosts: 40, Groups: 4}).Network()
	const both, half = "↑ to the left, ↓ to the right", "↕ both ways together"
	legend := func(o Options, want ...string) {
		t.Helper()
		texts := look(t, "arrows", Draw(topo.NewGraph(n), o)).texts
		for _, s := range []string{both, half} {
			if got, want := slices.Contains(texts, s), slices.Contains(want, s); got != want {
				t.Errorf("the legend says %q: %v, want %v; the texts are %q", s, got, want, texts)
			}
		}
	}
	legend(Options{})
	loads := Options{Load: make([]float64, 2*len(n.Links))}
	legend(loads, both)
	for i := range n.Links {
		n.Links[i].Half = i%2 == 0
	}
	legend(loads, both, half)
	for i := range n.Links {
		n.Links[i].Half, n.Links[i].Back = false, n.Links[i].Rate/2
	}
	legend(Options{}, both)
}

// A box meets one of a crowd just if it meets one of the boxes in it.
func TestCrowd(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 1))
	var all []box
	c, met := crowd{}, 0
	for range 3000 {
		x, y := 2000*rng.Float64()-500, 2000*rng.Float64()-500
		b := box{x, y, x + 200*rng.Float64(), y + 20*rng.Float64()}
		want := slices.ContainsFunc(all, b.meets)
		if got := c.meets(b); got != want {
			t.Fatalf("%v meets one of %d: %v, want %v", b, len(all), got, want)
		}
		if want {
			met++
			continue
		}
		all = append(all, b)
		c.add(b)
	}
	if met < 100 || len(all) < 100 {
		t.Errorf("%d of 3000 met one", met)
	}
}

// A map of very many places, of which a part is nowhere, takes no longer for each than one of few.
func TestLargeMaps(t *testing.T) {
	const wide, nowhere = 150, 20_000
	n := &topo.Network{Hosts: []topo.Host{{Name: "h"}}}
	name := func(i int) string { return fmt.Sprintf("s%d", i) }
	for i := range wide*wide + nowhere {
		s := topo.Switch{Name: name(i)}
		switch {
		case i >= wide*wide: // a line by itself
			if i > wide*wide {
				n.Links = append(n.Links, topo.Link{A: name(i - 1), B: s.Name})
			}
		default: // a grid
			s.At = &topo.Coordinates{Lon: float64(i % wide), Lat: float64(i/wide) / 3}
			if i%wide > 0 {
				n.Links = append(n.Links, topo.Link{A: name(i - 1), B: s.Name})
			}
			if i >= wide {
				n.Links = append(n.Links, topo.Link{A: name(i - wide), B: s.Name})
			}
		}
		n.Switches = append(n.Switches, s)
	}
	n.Links = append(n.Links, topo.Link{A: "h", B: "s0"})
	if err := n.Validate(); err != nil {
		t.Fatal(err)
	}
	p := look(t, "map", Draw(topo.NewGraph(n), Options{}))
	if p.circles != wide*wide+nowhere || len(p.texts) < wide*wide/4 {
		t.Errorf("%d places and %d texts", p.circles, len(p.texts))
	}
}

// Of the hosts of a large site some are drawn, and all that are in a transfer.
func TestLargeSites(t *testing.T) {
	n := &topo.Network{}
	for i := range 3 {
		s := fmt.Sprintf("s%d", i)
		n.Switches = append(n.Switches, topo.Switch{Name: s})
		n.Links = append(n.Links, topo.Link{A: s, B: fmt.Sprintf("s%d", (i+1)%3), Rate: 5})
		for k := range 250 {
			n.Hosts = append(n.Hosts, topo.Host{Name: fmt.Sprintf("%s-h%d", s, k)})
			n.Links = append(n.Links, topo.Link{A: fmt.Sprintf("%s-h%d", s, k), B: s, Rate: 1})
		}
	}
	if err := n.Validate(); err != nil {
		t.Fatal(err)
	}
	g := topo.NewGraph(n)
	if p := look(t, "large", Draw(g, Options{})); p.squares != 3*120 {
		t.Errorf("%d of 750 hosts are drawn, want 360", p.squares)
	}
	var hosts []int
	for h := range 200 {
		hosts = append(hosts, h)
	}
	o := Options{}
	o.send("to all", hosts, 1)
	p := look(t, "large with a flow", Draw(g, o))
	titles := strings.Join(p.titles, "|") + "|"
	if p.diamonds != 1 || strings.Count(titles, "\nto all: destination|") != 199 {
		t.Errorf("%d sources and %d destinations are drawn, want 1 and 199", p.diamonds, strings.Count(titles, "\nto all: destination|"))
	}
}

// Hosts of transfers are marked in rows of very many hosts, too, those that are without before others.
func TestMarksOnStrips(t *testing.T) {
	g := shape(t, topo.Shape{Kind: "flat", Hosts: 400, Lo: 1000, Hi: 1000})
	o := Options{Load: make([]float64, g.Channels())}
	o.send("x", []int{0, 200, 201, 202}, 1)
	o.Transfers[0].Without = map[int]string{201: "starved: nothing"}
	p := look(t, "strip", Draw(g, o))
	if p.diamonds != 1 || p.squares != 1 || p.strokes[crossColour] != 1 {
		t.Errorf("%d diamonds, %d squares and %d crosses, want one of each", p.diamonds, p.squares, p.strokes[crossColour])
	}
}

// Odd networks can be drawn, and odd names.
func TestOddNetworks(t *testing.T) {
	deep := &topo.Network{Hosts: []topo.Host{{Name: "a"}}}
	at := "a"
	for i := range 3000 {
		s := fmt.Sprintf("s%d", i)
		deep.Switches = append(deep.Switches, topo.Switch{Name: s})
		deep.Links = append(deep.Links, topo.Link{A: at, B: s, Rate: 1, Back: 1})
		at = s
	}
	ring := &topo.Network{Hosts: []topo.Host{{Name: "<&\"'>", Site: "\x01"}, {Name: "b"}, {Name: "lone"}}}
	for i, a := range []string{"<&\"'>", "b"} {
		for k := range 2 {
			if s := fmt.Sprintf("s%d", k); i == 0 {
				ring.Switches = append(ring.Switches, topo.Switch{Name: s, Site: "\x00\uFFFE"})
			}
			ring.Links = append(ring.Links, topo.Link{A: a, B: fmt.Sprintf("s%d", k), Rate: unit.Bandwidth(k)})
		}
	}
	odd, err := topo.Shape{Kind: "fattree", Hosts: 150}.Network()
	if err != nil {
		t.Fatal(err)
	}
	for i := range odd.Switches {
		odd.Switches[i].Site = strings.ReplaceAll(odd.Switches[i].Site, "pod", "\x00<\uFFFE")
	}
	poles := &topo.Network{}
	for i := range 4 {
		poles.Switches = append(poles.Switches, topo.Switch{Name: fmt.Sprintf("p%d", i), At: &topo.Coordinates{Lon: 10, Lat: 90}})
		poles.Links = append(poles.Links, topo.Link{A: fmt.Sprintf("p%d", i), B: fmt.Sprintf("p%d", (i+1)%4)})
	}
	for name, n := range map[string]*topo.Network{
		"nothing": {}, "a host": {Hosts: []topo.Host{{Name: "h"}}}, "deep": deep, "ring": ring, "odd": odd, "poles": poles,
		"two hosts":   {Hosts: []topo.Host{{Name: "a"}, {Name: "b"}}, Links: []topo.Link{{A: "a", B: "b", Rate: 5, Back: 5, Half: true}}},
		"no switches": {Hosts: []topo.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}}, Links: []topo.Link{{A: "a", B: "b"}, {A: "b", B: "c"}, {A: "c", B: "a"}}},
		"many parts":  {Hosts: make([]topo.Host, 0), Switches: many(300)},
	} {
		if err := n.Validate(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		g := topo.NewGraph(n)
		look(t, name, Draw(g, Options{Title: name}))
		look(t, name, Draw(g, Options{Title: name, Load: make([]float64, g.Channels())}))
	}
}

// Rates of which no number is so many times the other can be drawn.
func TestRatesFarApart(t *testing.T) {
	n := &topo.Network{
		Hosts: []topo.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}}, Switches: []topo.Switch{{Name: "s"}},
		Links: []topo.Link{
			{A: "a", B: "s", Rate: 1e-305, Back: 1e-305}, {A: "b", B: "s", Rate: unit.Gbit, Back: unit.Gbit}, {A: "c", B: "s", Rate: topo.MostRate, Back: topo.MostRate},
		},
	}
	g := topo.NewGraph(n)
	look(t, "far apart", Draw(g, Options{Title: "far apart"}))
	d := &drawing{Graph: g}
	d.rateRange()
	if least, some, most := d.share(1e-305), d.share(unit.Gbit), d.share(topo.MostRate); least != 0 || some <= 0.9 || some >= 1 || most != 1 {
		t.Errorf("shares %g, %g and %g, want 0, somewhat less than 1, and 1", least, some, most)
	}
}

func many(n int) (ss []topo.Switch) {
	for i := range n {
		ss = append(ss, topo.Switch{Name: fmt.Sprintf("s%d", i)})
	}
	return ss
}
