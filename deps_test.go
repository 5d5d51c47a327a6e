package freshet

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/freshet/freshet"

// order says which of our packages may import which. In
//
//	a, b < c, d;
//
// c and d may import a, b, and whatever a and b may import; never the reverse.
// A chain a < b < c is short for a < b; b < c. A package that may import none
// of ours stands to the right of NONE. A rule's left side names only packages
// that some rule before it has on its right, so a misspelt one is noticed.
//
// Test files are not held to it, and neither is the standard library. What may
// be imported from other modules is in fences.
//
// A new package needs its place here: as far up as its imports allow, and to
// the left of those that are to use it.
const order = `
	# Rules: nothing touches the world.
	NONE < unit < piece < steal, exchange;
	NONE < internal/heap;
	unit < internal/form;
	internal/form, internal/heap < topo;
	steal < internal/account;
	NONE < sim, internal/lp;
	internal/lp < internal/lp/highs;
	topo, sim, internal/lp < planner;
	topo < internal/picture;

	# The world.
	unit < internal/pace, internal/lab;
	piece < objstore;
	NONE < internal/wake;
	objstore < objstore/internal/ranged;
	objstore/internal/ranged, internal/wake < objstore/internal/httpwire;
	objstore/internal/httpwire, internal/pace
	< objstore/file, objstore/http, objstore/mem, objstore/s3,
	  objstore/fault, objstore/limit, objstore/retry, objstore/objstoretest,
	  objstore/objstoretest/versity;
	objstore/file, objstore/http, objstore/mem, objstore/s3,
	objstore/fault, objstore/limit, objstore/retry
	< objstore/open;

	# Engines.
	NONE < internal/pki;
	piece, internal/pace, internal/pki, internal/wake < internal/peer;
	piece < internal/landing;
	objstore < internal/access;
	steal, exchange, internal/account, internal/access, internal/peer, internal/landing < internal/swarm;
	steal, internal/access, internal/peer, internal/account < internal/control;
	steal, objstore, internal/peer, internal/account < internal/probe;
	internal/swarm, internal/control < internal/metrics;

	# The front door.
	objstore/open, internal/metrics, internal/landing, internal/probe < freshet;

	# The binary, and what only the binary has.
	objstore/limit < internal/s3serve;
	internal/swarm, internal/account < internal/report;
	steal, exchange, topo, sim, objstore/limit < internal/scenario;
	internal/lab, objstore/s3 < internal/lab/cluster;
	freshet, internal/s3serve, internal/report, internal/scenario, internal/picture, planner, internal/lp/highs < cmd/freshet;
	internal/lab < cmd/freshet-lab;

	# The figures.
	unit < bench;
	NONE < bench/benchtest;
	bench, internal/lab/cluster < bench/big;
	unit < bench/rivals/bittorrent;
	bench, internal/lab/cluster < bench/trial;
	bench/trial, bench/rivals/bittorrent < bench/cpu;
	bench, internal/lab/cluster, internal/swarm, objstore/limit < bench/broadcast;
	bench/trial, bench/rivals/bittorrent, freshet < bench/rivals;
	bench, planner, internal/lp/highs < bench/planner;
	bench, internal/scenario < bench/scale;
	bench, internal/scenario, internal/lab/cluster < bench/simlab;
`

// fences says which of our packages may import from another module, by the
// longest prefix of the import path (versitygw's own interfaces speak the SDK's
// and fasthttp's types, hence internal/s3serve beside objstore/s3). Unlike order this is not handed on: who
// imports objstore/s3 does not thereby get at the SDK. EVERYONE is every
// package but the rules, which import from outside only where they are named.
const fences = `
	github.com/aws/aws-sdk-go-v2    objstore/s3, internal/s3serve, internal/lab/cluster
	github.com/aws/smithy-go        objstore/s3
	github.com/gofiber/fiber/v3     internal/s3serve
	github.com/google/uuid          internal/s3serve
	github.com/minio/crc64nvme      piece
	github.com/nats-io              internal/control
	github.com/safchain/ethtool     internal/lab
	github.com/tetratelabs/wazero   internal/lp/highs
	github.com/prometheus           internal/metrics
	github.com/coreos/go-systemd    cmd/freshet
	github.com/spf13/cobra          cmd/freshet, cmd/freshet-lab
	github.com/valyala/fasthttp     internal/s3serve
	github.com/vbauerster/mpb/v8    cmd/freshet
	github.com/versity/versitygw    internal/s3serve
	github.com/vishvananda/netlink  internal/lab
	github.com/vishvananda/netns    internal/lab
	go.yaml.in/yaml/v3              internal/lab, internal/form
	golang.org/x/sync               EVERYONE
	golang.org/x/sys                EVERYONE
	golang.org/x/term               cmd/freshet
	golang.org/x/time               internal/pace, internal/control
	gonum.org/v1/plot               internal/report, bench
`

// rules are the packages that must be pure: see impurities.
var rules = []string{"unit", "piece", "steal", "exchange", "internal/account", "internal/form", "internal/heap", "topo", "sim", "internal/picture", "internal/lp", "planner"}

func TestDependencyOrder(t *testing.T) {
	may, err := parseOrder(order)
	if err != nil {
		t.Fatal(err)
	}
	outside, err := parseFences(fences, may)
	if err != nil {
		t.Fatal(err)
	}
	tree := sourceTree(t)
	for _, p := range violations(tree, may, outside) {
		t.Error(p)
	}
	for pkg := range may {
		if tree[pkg] == nil {
			t.Errorf("the order names %s, which does not exist: take it out", pkg)
		}
	}
}

func TestRulesArePure(t *testing.T) {
	tree := sourceTree(t)
	for _, pkg := range rules {
		for _, f := range tree[pkg] {
			for _, p := range impurities(f) {
				t.Error(p)
			}
		}
	}
}

// The tests that the Makefile runs without the race detector are of packages where it has nothing to find: neither they nor their tests start
// a goroutine, or have anything that is only there for several. What they import from others of ours is in the list, too, or is run with the detector by its own tests.
func TestNothingRunsBesideWhatIsAlone(t *testing.T) {
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nALONE ")
	line, _, _ := strings.Cut(rest, "\n")
	_, list, _ := strings.Cut(line, ":=")
	alone := strings.Fields(list)
	if len(alone) == 0 {
		t.Fatal("the Makefile has no list ALONE")
	}
	for _, pkg := range alone {
		names, err := filepath.Glob(filepath.Join(filepath.FromSlash(pkg), "*.go"))
		if err != nil || len(names) == 0 {
			t.Errorf("ALONE names %s, which has %d files, %v", pkg, len(names), err)
		}
		for _, name := range names {
			fset := token.NewFileSet()
			parsed, err := parser.ParseFile(fset, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range company(file{parsed, fset}) {
				t.Errorf("%s; take %s out of ALONE in the Makefile", p, pkg)
			}
		}
	}
}

// company names what in a file runs beside other things, or is there for what does; and unsafe, since it is the race detector's build that checks pointers.
func company(f file) []string {
	var found []string
	for _, spec := range f.Imports {
		switch path := importPath(spec); {
		case strings.HasPrefix(path, "sync/"), strings.HasPrefix(path, "golang.org/x/sync"), path == "testing/synctest", path == "unsafe", path == "C":
			found = append(found, fmt.Sprintf("%s: import of %s", f.at(spec), path))
		}
	}
	ast.Inspect(f.File, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, fmt.Sprintf("%s: go statement", f.at(n)))
		case *ast.SelectorExpr:
			x, _ := n.X.(*ast.Ident)
			switch name := n.Sel.Name; {
			case name == "Parallel", name == "RunParallel", name == "AfterFunc", x != nil && x.Name == "sync" && !strings.HasPrefix(name, "Once"): // what is made once may be
				found = append(found, fmt.Sprintf("%s: %s", f.at(n), name))
			}
		}
		return true
	})
	return found
}

func TestCompanyIsSeen(t *testing.T) {
	for text, want := range map[string]int{
		"package p; func f() { go g() }":                                1,
		"package p; import \"sync\"; var mu sync.Mutex":                 1,
		"package p; import \"sync/atomic\"; var n atomic.Int32":         1,
		"package p; import \"time\"; func f() { time.AfterFunc(1, f) }": 1,
		"package p; func f(t *testing.T) { t.Parallel() }":              1,
		"package p; import \"time\"; func f() { time.Now() }":           0,
		"package p; import \"sync\"; var once = sync.OnceValue(f)":      0,
	} {
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, "p.go", text, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := company(file{parsed, fset}); len(got) != want {
			t.Errorf("%s: found %q, want %d", text, got, want)
		}
	}
}

// file is one Go file that is no test, whatever its build constraints are.
type file struct {
	*ast.File
	fset *token.FileSet
}

func (f file) at(n ast.Node) token.Position { return f.fset.Position(n.Pos()) }

// sourceTree parses the module below the working directory. Its keys are import
// paths without the module's, and "freshet" for the root package.
func sourceTree(t *testing.T) map[string][]file {
	t.Helper()
	tree := make(map[string][]file)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, nested := os.Stat(filepath.Join(path, "go.mod"))
			hidden := strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_")
			if path != "." && (nested == nil || hidden || d.Name() == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		if pkg == "." {
			pkg = "freshet"
		}
		tree[pkg] = append(tree[pkg], file{parsed, fset})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// A set of packages, by the names that order gives them.
type set map[string]bool

// parseOrder returns, for every package that the order names, all that it may
// import.
func parseOrder(text string) (map[string]set, error) {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		b.WriteString(line + " ")
	}
	may := make(map[string]set)
	for rule := range strings.SplitSeq(b.String(), ";") {
		if strings.TrimSpace(rule) == "" {
			continue
		}
		var below []string
		for i, side := range strings.Split(rule, "<") {
			var here []string
			for name := range strings.SplitSeq(side, ",") {
				name = strings.TrimSpace(name)
				switch {
				case name == "" || strings.ContainsAny(name, " \t"):
					return nil, fmt.Errorf("order: %q in the rule %q is not a package; is a , < or ; missing?", name, strings.TrimSpace(rule))
				case name == "NONE":
					continue
				case i == 0 && may[name] == nil:
					return nil, fmt.Errorf("order: %s stands on the left before any rule has it on its right; if it imports none of ours, write NONE < %[1]s", name)
				}
				here = append(here, name)
			}
			for _, name := range here {
				if may[name] == nil {
					may[name] = set{}
				}
				for _, b := range below {
					may[name][b] = true
				}
			}
			below = here
		}
	}
	for grew := true; grew; { // what a may import, whoever may import a may import
		grew = false
		for _, direct := range may {
			before := len(direct)
			for _, name := range slices.Collect(maps.Keys(direct)) {
				maps.Copy(direct, may[name])
			}
			grew = grew || len(direct) > before
		}
	}
	for _, name := range slices.Sorted(maps.Keys(may)) {
		if may[name][name] {
			return nil, fmt.Errorf("order: there is a cycle through %s", name)
		}
	}
	return may, nil
}

// parseFences returns who may import from outside, by the prefix of the path.
func parseFences(text string, may map[string]set) (map[string]set, error) {
	outside := make(map[string]set)
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		who := set{}
		for _, name := range fields[1:] {
			name = strings.TrimSuffix(name, ",")
			if name != "EVERYONE" && may[name] == nil {
				return nil, fmt.Errorf("fences: %s: the order has no package %q", fields[0], name)
			}
			who[name] = true
		}
		outside[fields[0]] = who
	}
	return outside, nil
}

// violations names every import that the order or the fences forbid, and every
// package without a place in the order.
func violations(tree map[string][]file, may, outside map[string]set) []string {
	var found []string
	for _, pkg := range slices.Sorted(maps.Keys(tree)) {
		if may[pkg] == nil {
			found = append(found, fmt.Sprintf("package %s has no place in the dependency order: give it one in deps_test.go, to the right of what it imports and to the left of those that are to use it", pkg))
			continue
		}
		for _, f := range tree[pkg] {
			for _, spec := range f.Imports {
				if why := forbidden(pkg, importPath(spec), may, outside); why != "" {
					found = append(found, fmt.Sprintf("%s: %s", f.at(spec), why))
				}
			}
		}
	}
	return found
}

// forbidden says why pkg may not import path, or "" if it may.
func forbidden(pkg, path string, may, outside map[string]set) string {
	if ours, ok := strings.CutPrefix(path, module); ok && (ours == "" || ours[0] == '/') {
		name := strings.TrimPrefix(ours, "/")
		if name == "" {
			name = "freshet"
		}
		if may[pkg][name] {
			return ""
		}
		return fmt.Sprintf("%s may not import %s: the order in deps_test.go does not have %[2]s < %[1]s", pkg, name)
	}
	if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
		return "" // the standard library
	}
	var longest string
	for prefix := range outside {
		if (path == prefix || strings.HasPrefix(path, prefix+"/")) && len(prefix) > len(longest) {
			longest = prefix
		}
	}
	switch who := outside[longest]; {
	case longest == "":
		return fmt.Sprintf("%s imports %s, for which deps_test.go has no fence: add one that names who may", pkg, path)
	case who[pkg], who["EVERYONE"] && !slices.Contains(rules, pkg):
		return ""
	default:
		return fmt.Sprintf("%s may not import %s: its fence in deps_test.go lets in %s only", pkg, path, strings.Join(slices.Sorted(maps.Keys(who)), ", "))
	}
}

func importPath(spec *ast.ImportSpec) string {
	path, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		panic(err) // the parser has let it through
	}
	return path
}

// worldly are the parts of the standard library that rules do without: sockets,
// files, locks, loggers, the machine's randomness. A name covers what lies below
// it. Only direct imports count, since fmt itself imports os.
var worldly = []string{
	"C", "crypto/rand", "database/sql", "io/fs", "io/ioutil", "log", "net", "os",
	"path/filepath", "plugin", "runtime", "sync", "syscall", "testing", "unique", "unsafe",
}

// clocks are the functions of package time that look at the clock or wait for it.
var clocks = set{
	"After": true, "AfterFunc": true, "NewTicker": true, "NewTimer": true, "Now": true,
	"Since": true, "Sleep": true, "Tick": true, "Until": true,
}

// seeded are the names in math/rand and math/rand/v2 that do not draw from the
// generator that the whole process shares.
var seeded = set{
	"ChaCha8": true, "New": true, "NewChaCha8": true, "NewPCG": true, "NewSource": true, "NewZipf": true,
	"PCG": true, "Rand": true, "Source": true, "Source64": true, "Zipf": true,
}

// impurities names what a file of a rule package must not have: goroutines and
// channels, the clock, randomness that no caller gave it, and the world.
func impurities(f file) []string {
	var found []string
	report := func(n ast.Node, format string, args ...any) {
		found = append(found, fmt.Sprintf("%s: %s; rules are values and functions, see deps_test.go", f.at(n), fmt.Sprintf(format, args...)))
	}

	imported := make(map[string]string) // the name in this file → the path
	for _, spec := range f.Imports {
		path := importPath(spec)
		for _, w := range worldly {
			if path == w || strings.HasPrefix(path, w+"/") {
				report(spec, "import of %s", path)
			}
		}
		name := strings.TrimSuffix(path, "/v2")
		name = name[strings.LastIndex(name, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "." {
			report(spec, "dot import of %s hides what is used of it", path)
		}
		imported[name] = path
	}

	ast.Inspect(f.File, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			report(n, "go statement")
		case *ast.SelectStmt:
			report(n, "select statement")
		case *ast.SendStmt:
			report(n, "send on a channel")
		case *ast.ChanType:
			report(n, "channel type")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				report(n, "receive from a channel")
			}
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok || x.Obj != nil { // Obj is nil for what this file does not declare, as is an import
				break
			}
			switch path := imported[x.Name]; path {
			case "time":
				if clocks[n.Sel.Name] {
					report(n, "time.%s: time comes in as an argument", n.Sel.Name)
				}
			case "math/rand", "math/rand/v2":
				if !seeded[n.Sel.Name] {
					report(n, "rand.%s of the process-wide generator: randomness comes in as a *rand.Rand", n.Sel.Name)
				}
			}
		}
		return true
	})
	return found
}

// The tests above are worth something only if they see what they are there to
// see: each case below is a source that must be caught, or must not.

func parse(t *testing.T, body string) file {
	t.Helper()
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, "bad.go", body, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file{parsed, fset}
}

func TestImpuritiesAreSeen(t *testing.T) {
	for _, c := range []struct {
		src  string
		want string // part of the one message; empty: pure
	}{
		{`import "time"; func f(now time.Time) time.Time { return now.Add(time.Second) }`, ""},
		{`import "math/rand/v2"; func f(r *rand.Rand) int { return r.IntN(6) + rand.New(rand.NewPCG(1, 2)).IntN(6) }`, ""},
		{`type clock struct{}; func (clock) Now() int { return 0 }; func f(time clock) int { return time.Now() }`, ""},
		{`import "time"; type clock struct{}; func (clock) Now() int { return 0 }; func f(time clock, _ int) int { return time.Now() }; var d = time.Second`, ""},
		{`func f() { go f() }`, "bad.go:1:25: go statement"},
		{`func f() { select {} }`, "select statement"},
		{`type t struct { done chan int }`, "channel type"},
		{`func f(c T) { <-c }`, "receive from a channel"},
		{`func f(c T) { c <- 1 }`, "send on a channel"},
		{`import "time"; func f() time.Time { return time.Now() }`, "time.Now: time comes in as an argument"},
		{`import t "time"; var now = t.Now`, "time.Now"},
		{`import "time"; func f() { time.AfterFunc(0, nil) }`, "time.AfterFunc"},
		{`import "math/rand"; func f() int { return rand.Intn(6) }`, "rand.Intn of the process-wide generator"},
		{`import "math/rand/v2"; func f() int { return rand.IntN(6) }`, "rand.IntN of the process-wide generator"},
		{`import r "math/rand/v2"; var f = r.Shuffle`, "rand.Shuffle of the process-wide generator"},
		{`import . "time"; func f() { Sleep(1) }`, "dot import of time"},
		{`import "net"; var _ net.Conn`, "import of net"},
		{`import "net/netip"; var _ netip.Addr`, "import of net/netip"},
		{`import "sync/atomic"; var _ atomic.Int64`, "import of sync/atomic"},
		{`import _ "log/slog"`, "import of log/slog"},
		{`import "crypto/rand"; func f(b []byte) { rand.Read(b) }`, "import of crypto/rand"},
	} {
		got := impurities(parse(t, "package bad; "+c.src))
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s\n\tgot %q, want nothing", c.src, got)
		case c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)):
			t.Errorf("%s\n\tgot %q, want one message with %q", c.src, got, c.want)
		}
	}
}

func TestForbiddenImportsAreSeen(t *testing.T) {
	may, err := parseOrder(`
		NONE < unit < store < store/s3, engine; # a comment; with < and ,
		NONE < lone;
		engine, store/s3 < freshet < cmd;
		lone < store;
	`)
	if err != nil {
		t.Fatal(err)
	}
	outside, err := parseFences(`
		example.org/sdk       store/s3
		example.org/sdk/open  store/s3, cmd
		example.org/sync      EVERYONE
	`, may)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ pkg, path, want string }{
		{"store", module + "/unit", ""},
		{"cmd", module + "/unit", ""}, // handed on along the chain
		{"cmd", module, ""},
		{"cmd", module + "/lone", ""}, // handed on from a rule further down
		{"store", "net/http", ""},
		{"store/s3", "example.org/sdk/deep/er", ""},
		{"cmd", "example.org/sdk/open", ""},
		{"engine", "example.org/sync/errgroup", ""},
		{"unit", module + "/store", "unit may not import store: the order"},
		{"engine", module + "/store/s3", "engine may not import store/s3: the order"},
		{"store", module, "store may not import freshet: the order"},
		{"store", module + "/unknown", "store may not import unknown: the order"},
		{"lone", module + "/unit", "lone may not import unit: the order"},
		{"cmd", "example.org/sdk", "cmd may not import example.org/sdk: its fence in deps_test.go lets in store/s3 only"},
		{"engine", "example.org/sdk/open", "its fence in deps_test.go lets in cmd, store/s3 only"},
		{"engine", "example.org/sdkit", "has no fence"},
		{"unit", "example.org/sync", "unit may not import example.org/sync"},
		{"new", "fmt", "package new has no place in the dependency order"},
	} {
		tree := map[string][]file{c.pkg: {parse(t, fmt.Sprintf("package p; import _ %q", c.path))}}
		got := violations(tree, may, outside)
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s imports %s: got %q, want nothing", c.pkg, c.path, got)
		case c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)):
			t.Errorf("%s imports %s: got %q, want one message with %q", c.pkg, c.path, got, c.want)
		}
	}
}

func TestBadOrdersAreRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`NONE < a < b; b < a;`, "cycle through a"},
		{`NONE < a < a;`, "cycle through a"},
		{`NONE < a; c < b;`, "c stands on the left before"},
		{`NONE < a b;`, `"a b" in the rule "NONE < a b" is not a package`},
		{"NONE < a\nNONE < b;", "is not a package"},
		{`NONE < a, < b;`, `"" in the rule`},
	} {
		if _, err := parseOrder(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n\tgot error %v, want one with %q", c.text, err, c.want)
		}
	}
	if _, err := parseFences("example.org/sdk nowhere", map[string]set{"unit": {}}); err == nil {
		t.Error("a fence that names an unknown package: got no error")
	}
}
