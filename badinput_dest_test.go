package freshet_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/unit"
)

// fileSource is an object that all nodes of a test can read.
func fileSource(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return "file://" + path
}

// TestBadDestination has places where nothing can land, on every node or on
// one of them. The others get the object.
func TestBadDestination(t *testing.T) {
	c := newCluster(t, 3)
	data := random(4, 1<<20+1)
	source := fileSource(t, data)
	outside := t.TempDir()
	all := c.names()

	// everywhere is what no node can do: the job fails and the root of each is as it was.
	everywhere := func(name, dest string, want ...string) {
		t.Run(name, func(t *testing.T) {
			before := tree(t, c.dir) + tree(t, outside)
			j := c.run(t, freshet.Spec{Source: source, Dest: dest})
			if j.State != freshet.Failed {
				t.Errorf("job is %s, want failed", j.State)
			}
			says(t, j.Error, "n0: ", "2 more nodes")
			for _, n := range j.Nodes {
				says(t, n.Error, want...)
			}
			if after := tree(t, c.dir) + tree(t, outside); withoutRecords(after) != withoutRecords(before) {
				t.Errorf("now there is\n%s\nwas\n%s", withoutRecords(after), withoutRecords(before))
			}
		})
	}
	for _, name := range all {
		root := c.root(name)
		for _, err := range []error{
			os.Mkdir(filepath.Join(root, "directory"), 0o755),
			os.WriteFile(filepath.Join(root, "file"), []byte("a file"), 0o644),
			os.Symlink(outside, filepath.Join(root, "way-out")),
			os.Symlink("file", filepath.Join(root, "link")),
			os.Symlink("/etc/passwd", filepath.Join(root, "link-out")),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	everywhere("outside the roots", filepath.Join(outside, "model"), filepath.Join(outside, "model"), "outside the roots of this node")
	everywhere("up out of the root", c.root("{node}")+"/../model", "outside the roots of this node")
	everywhere("up out of the root from below", c.dest("new")+"/../../model", "outside the roots of this node")
	everywhere("the root itself", c.dest(), "is a directory", "add a file name")
	everywhere("a directory", c.dest("directory"), "is a directory", "add a file name")
	everywhere("through a link out of the root", c.dest("way-out", "model"), "leads out of the root")
	everywhere("through a link out of the root, deeper", c.dest("way-out", "new", "model"), "leads out of the root")
	everywhere("a link", c.dest("link"), "symbolic link", "name the file that it points to")
	everywhere("a link out of the root", c.dest("link-out"), "symbolic link")
	everywhere("below a file", c.dest("file", "model"), "not a directory")
	everywhere("below a file, deeper", c.dest("file", "new", "model"), "not a directory")
	everywhere("a name that is too long", c.dest(strings.Repeat("x", 300)), "too long")

	// What is wrong on every node whatever its roots are is refused at once.
	for _, tt := range []struct{ dest, want string }{
		{"", "no destination"},
		{"data/model", "not absolute"},
		{c.dest("new") + "/", "is a directory: name the file"},
		{c.dest("new\nline"), "control character"},
		{c.dest("clears\x1b[2Jthe screen"), "control character"},
		{"/" + strings.Repeat("x", 5000), "too long"},
	} {
		says(t, c.refused(t, freshet.Spec{Source: source, Dest: tt.dest}), tt.want)
	}

	t.Run("on one node only", func(t *testing.T) {
		dest := c.dest("one", "model")
		if err := os.MkdirAll(filepath.Join(c.root("n1"), "one", "model"), 0o755); err != nil {
			t.Fatal(err)
		}
		j := c.run(t, freshet.Spec{Source: source, Dest: dest})
		c.failedOnly(t, j, "n1", data, on(dest, "n1"), "is a directory")
		if beside, err := os.ReadDir(filepath.Join(c.root("n1"), "one", "model")); err != nil || len(beside) != 0 {
			t.Errorf("in the directory: %v, %v, want nothing", beside, err)
		}
	})
	t.Run("into directories to be made", func(t *testing.T) {
		arrived(t, c.run(t, freshet.Spec{Source: source, Dest: c.dest("a", "b", "c", "model")}), data)
	})
	t.Run("over an older file", func(t *testing.T) {
		dest := c.dest("over", "model")
		old(t, dest, all...)
		arrived(t, c.run(t, freshet.Spec{Source: source, Dest: dest}), data)
		if info, err := os.Stat(on(dest, "n1")); err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%v, %v, want the permissions of the file that was here", info.Mode(), err)
		}
	})
	t.Run("a piece size that makes no sense", func(t *testing.T) {
		dest := c.dest("pieces", "model")
		untouched := old(t, dest, all...)
		says(t, c.refused(t, freshet.Spec{Source: source, Dest: dest, Piece: -1}), "piece size")
		says(t, c.refused(t, freshet.Spec{Source: source, Dest: dest, Piece: 2 * unit.GiB}), "piece size 2 GiB", "1 GiB")
		says(t, c.refused(t, freshet.Spec{Source: source, Dest: dest, PerWork: -1}), "pieces a work unit")
		untouched(t)
	})
}

// failedOnly checks that one node failed, why, and that all others have the object.
func (c *nodes) failedOnly(t *testing.T, j freshet.Job, name string, data []byte, want ...string) {
	t.Helper()
	if j.State != freshet.Failed {
		t.Errorf("job is %s, want failed", j.State)
	}
	says(t, j.Error, append(want, name+": ")...)
	for _, n := range j.Nodes {
		switch {
		case n.Name == name && n.State != freshet.Failed:
			t.Errorf("%s is %s, want failed", n.Name, n.State)
		case n.Name == name:
			says(t, n.Error, want...)
		case n.State != freshet.Done:
			t.Errorf("%s is %s, want done: %s", n.Name, n.State, n.Error)
		default:
			holds(t, on(j.Spec.Dest, n.Name), data)
		}
	}
}

// withoutRecords takes the lines of the nodes' state out of what tree returned:
// there the control plane writes of the job.
func withoutRecords(tree string) string {
	var b strings.Builder
	for line := range strings.Lines(tree) {
		if !strings.Contains(line, "/state") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// TestStateIsNoObject: who submits jobs cannot have a node give away what lies in a state
// directory, its own or that of another process on the machine, or be told to write there.
func TestStateIsNoObject(t *testing.T) {
	c := newCluster(t, 1)
	data := random(5, 1000)
	config := c.config(t, "n1")
	config.Roots = append(config.Roots, c.dir) // all states lie in it
	c.start(t, config)
	link := filepath.Join(c.root("n0"), "link.pem")
	if err := os.Symlink(filepath.Join("..", "state", "hub", "authority.pem"), link); err != nil {
		t.Fatal(err)
	}
	before := tree(t, c.dir)
	for _, path := range []string{
		filepath.Join(c.dir, "n0", "state", "hub", "authority.pem"), filepath.Join(c.dir, "n0", "data", "..", "state", "node.pem"),
		filepath.Join(c.dir, "n1", "state", "node.pem"), link,
	} {
		says(t, c.refused(t, freshet.Spec{Source: "file://" + path, Dest: c.dest("stolen"), ShareAccess: true}), path, "state directory", "no job reads")
	}
	source := fileSource(t, data)
	for _, dest := range []string{
		filepath.Join(c.dir, "n1", "state", "revoked.json"), filepath.Join(c.dir, "n0", "state", "hub", "authority.pem"),
		filepath.Join(c.dir, "n1", "state", "new", "file"),
	} {
		j := c.run(t, freshet.Spec{Source: source, Dest: dest, Nodes: []string{"n1"}})
		if j.State != freshet.Failed {
			t.Errorf("%s: the job is %s", dest, j.State)
		}
		says(t, status(t, j, "n1").Error, dest, "state directory", "no job reads")
	}
	for _, dir := range []string{c.dir, filepath.Join(c.dir, "n0", "state", "hub")} { // in the first lie all states, and a link to a key
		says(t, c.refused(t, freshet.Spec{Source: "file://" + dir + "/", Dest: c.dest("stolen"), ShareAccess: true}), "state directory", "no job reads")
	}
	below := t.TempDir()
	if err := os.MkdirAll(filepath.Join(below, "n1", "state"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(below, "n1", "state", "revoked.json"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	j := c.run(t, freshet.Spec{Source: "file://" + below + "/", Dest: c.dir, Nodes: []string{"n1"}})
	if j.State != freshet.Failed {
		t.Errorf("files that go to a state directory: the job is %s", j.State)
	}
	says(t, status(t, j, "n1").Error, "state directory", "no job reads")
	if after := tree(t, c.dir); withoutRecords(after) != withoutRecords(before) {
		t.Errorf("now there is\n%s\nwas\n%s", after, before)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	arrived(t, c.run(t, freshet.Spec{Source: source, Dest: c.dest("beside")}), data)
}

// TestDestinationLeadsElsewhereLater: who may write in a root cannot lead a job into a state directory after it was prepared.
func TestDestinationLeadsElsewhereLater(t *testing.T) {
	c, s := newCluster(t, 1), newBucket(t)
	config := c.config(t, "n1")
	config.Roots = []string{c.dir} // all states lie in it
	c.start(t, config)
	s.put(t, "key", random(15, 100<<10))
	link := filepath.Join(c.root("n1"), "link")
	if err := os.Mkdir(link, 0o755); err != nil {
		t.Fatal(err)
	}
	change := sync.OnceValue(func() error {
		return errors.Join(os.Remove(link), os.Symlink(filepath.Join("..", "state"), link))
	})
	endpoint := s.behind(t, front{before: func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet { // it proves its access, having looked at the destination
			if err := change(); err != nil {
				t.Error(err)
			}
		}
		return false
	}})
	j := c.run(t, freshet.Spec{Source: at(endpoint, "key"), Dest: filepath.Join(link, "file"), Nodes: []string{"n1"}})
	if j.State != freshet.Failed {
		t.Errorf("the job is %s", j.State)
	}
	says(t, status(t, j, "n1").Error, filepath.Join(link, "file"), "state directory", "no job reads")
	if err := os.Remove(link); err != nil {
		t.Error(err)
	}
}
