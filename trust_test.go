package freshet_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/pki"
	"github.com/freshet/freshet/unit"
)

// calls says how the node at addr answers a data connection with those
// credentials: nil if it is refused because they are a removed node's.
func calls(t *testing.T, creds *pki.Credentials, addr, name string) error {
	t.Helper()
	port, err := peer.Listen("127.0.0.1:0", peer.Options{Credentials: creds, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	c, err := port.Dial(ctx, addr, name, "nothing")
	if err == nil {
		c.Close()
		return errors.New("it was let in")
	}
	if r, ok := errors.AsType[*peer.Refused](err); ok && r.Code == peer.Removed {
		return nil
	}
	return err
}

// TestNodeIsRemoved removes a node in the middle of a job. Within five seconds
// the others have closed its connections and refuse it, also after a restart with nobody
// to ask. They finish without it.
func TestNodeIsRemoved(t *testing.T) {
	t.Parallel()
	store := newBucket(t)
	data := random(31, 6<<20)
	store.put(t, "model", data)
	c := newCluster(t, 1)
	stayer := c.config(t, "n1")
	n1 := c.startChild(t, stayer)
	config := c.config(t, "n2")
	victim := c.startChild(t, config)
	creds, err := pki.Load(filepath.Join(config.State, "node.pem"))
	if err != nil {
		t.Fatal(err)
	}
	dest := c.dest("removed", "model")
	job := c.submit(t, freshet.Spec{Source: at(store.behind(t, front{after: slow(0.5 * unit.MBps)}), "model"), Dest: dest, Piece: 256 * unit.KiB, PerWork: 1})
	job = c.await(t, job, "first pieces on n2", func(j freshet.Job) bool { return status(t, j, "n2").Have > 0 })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nodes, err := c.client.Nodes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	addr := map[string]string{}
	for _, n := range nodes {
		addr[n.Name] = n.Addr
	}
	ended := make(chan error, 2) // what n2 has open at n0 and n1, where it waits for another job
	for _, name := range []string{"n0", "n1"} {
		port, err := peer.Listen("127.0.0.1:0", peer.Options{Credentials: creds, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer port.Close()
		go func() { // ends with ctx at the latest
			_, err := port.Dial(ctx, addr[name], name, "another")
			ended <- err
		}()
	}
	if err := c.client.RemoveNode(ctx, "n2"); err != nil {
		t.Fatal(err)
	}
	removed := time.Now()
	const promised = 5 * time.Second // docs/security.md
	for range cap(ended) {
		select {
		case err := <-ended:
			if err == nil {
				t.Error("n2 was let in after its removal")
			}
		case <-time.After(time.Until(removed.Add(promised))):
			t.Errorf("%v after the removal n2 still has a connection", time.Since(removed))
		}
	}
	for _, name := range []string{"n0", "n1"} {
		for {
			began := time.Now()
			err := calls(t, creds, addr[name], name)
			if err == nil {
				break
			}
			if began.Sub(removed) > promised {
				t.Fatalf("%s does not refuse n2 %v after the removal: %v", name, began.Sub(removed), err)
			}
		}
	}
	job = c.watch(t, job)
	c.failedOnly(t, job, "n2", data, "removed from the cluster")
	named := false
	for _, name := range []string{"n0", "n1"} {
		for _, f := range status(t, job, name).Faults {
			named = named || f.Node == "n2" && strings.Contains(f.Cause, "removed from the cluster")
		}
	}
	if !named {
		t.Errorf("neither n0 nor n1 says that n2 was removed: %s", describe(job))
	}
	victim.stop() // it has ended already, and now its process tells with what
	if code := victim.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(c.log.String(), "node n2 was removed from the cluster") {
		t.Errorf("the removed agent ended with the code %d, and does not say why", code)
	}

	// Nobody is there to tell n1 when it is back.
	eventually(t, "n1 has the list on its disk", func() bool {
		keys, err := control.LoadRevoked(filepath.Join(stayer.State, "revoked.json"))
		return err == nil && len(keys) == 1
	})
	n1.stop()
	if err := c.first.Close(); err != nil {
		t.Fatal(err)
	}
	stayer.Token, stayer.Listen = "", addr["n1"]
	begin, abandon := context.WithCancel(t.Context())
	started := make(chan error, 1)
	go func() { // ends with begin
		n, err := freshet.Start(begin, stayer)
		if err == nil {
			n.Close()
		}
		started <- err
	}()
	eventually(t, "n1 is back, and refuses n2 without a control plane", func() bool { return calls(t, creds, addr["n1"], "n1") == nil })
	abandon()
	if err := <-started; err == nil {
		t.Error("n1 says that it has a control plane")
	}
}

// TestJoinServesNothingElse: without a certificate there is one door besides
// health, where the control plane is, and who keeps knocking there waits.
func TestJoinServesNothingElse(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{peer.ProtocolHTTP}}}}
	call := func(addr, method, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, "https://"+addr+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	hub, agent := c.first.Addr(), c.byName["n1"].Addr()
	const long = 1 << 20
	for _, tt := range []struct {
		addr, method, path, body string
		want                     int
	}{
		{hub, "GET", "/", "", 404},
		{hub, "GET", control.JoinPath, "", 404},
		{hub, "POST", "/v1/jobs", "{}", 404},
		{hub, "POST", control.JoinPath, "{", 400},
		{hub, "POST", control.JoinPath, strings.Repeat(" ", long) + "{}", 400},
		{hub, "POST", control.JoinPath, "{}", 403},
		{agent, "GET", "/", "", 404},
		{agent, "POST", "/v1/jobs", "{}", 404},
		{agent, "POST", control.JoinPath, "{}", 404},
	} {
		got, body := call(tt.addr, tt.method, tt.path, tt.body)
		if got != tt.want && !(got == 0 && len(tt.body) > long) { // who is still writing may not hear the answer
			t.Errorf("%s %s: got %d %s, want %d", tt.method, tt.path, got, body, tt.want)
		}
	}
	limited := false
	for range 12 {
		got, _ := call(hub, "POST", control.JoinPath, "{}")
		limited = limited || got == http.StatusTooManyRequests
	}
	if !limited {
		t.Error("failures are not limited")
	}
}

// TestHalfRequestsKeepNobodyOut: callers that begin a request and never end it, as many as there are places and more, keep nobody from asking whether
// the process lives, nor from joining.
func TestHalfRequestsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	hub := c.first.Addr()
	conf := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{peer.ProtocolHTTP}}
	for i := range 300 {
		half, err := tls.Dial("tcp", hub, conf)
		if err != nil {
			t.Fatal(err)
		}
		defer half.Close()
		half.Write([]byte([]string{
			"POST " + control.JoinPath + " HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n{",
			"GET /livez HTTP/1.1\r\nHost: h\r\n",
		}[i%2]))
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: conf}}
	for _, tt := range []struct {
		method, path string
		want         int
	}{{"GET", "/livez", 200}, {"POST", control.JoinPath, 403}} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, "https://"+hub+tt.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", tt.path, err)
		}
		if resp.Body.Close(); resp.StatusCode != tt.want {
			t.Errorf("%s: got %d, want %d", tt.path, resp.StatusCode, tt.want)
		}
	}
}

// TestClockRunsFromAccepted: the time that a node is said to have had the
// object after counts what came before it could begin, too.
func TestClockRunsFromAccepted(t *testing.T) {
	t.Parallel()
	const preparing = 2 * time.Second
	store := newBucket(t)
	data := random(33, 3<<20)
	store.put(t, "model", data)
	c := newCluster(t, 3)
	endpoint := store.behind(t, front{before: func(_ http.ResponseWriter, r *http.Request) bool {
		if _, _, ok := span(r); !ok && r.Method == http.MethodGet && r.Header.Get("Range") != "" { // what proves access, before the job begins
			select {
			case <-time.After(preparing):
			case <-r.Context().Done():
			}
		}
		return false
	}})
	job := c.run(t, freshet.Spec{Source: at(endpoint, "model"), Dest: c.dest("clock", "model")})
	arrived(t, job, data)
	for _, n := range job.Nodes {
		if n.DoneS < preparing.Seconds() {
			t.Errorf("%s is said to have had the object after %v s, and preparing took %v", n.Name, n.DoneS, preparing)
		}
	}
}

// TestCertificatesRenewDuringAJob has a job that lasts for several lives of
// every certificate.
func TestCertificatesRenewDuringAJob(t *testing.T) {
	t.Parallel()
	const life = 3 * time.Second
	store := newBucket(t)
	data := random(32, 3<<20)
	store.put(t, "model", data)
	c := newNodes(t)
	c.start(t, freshet.WithLife(c.config(t, "n0"), life))
	c.add(t, "n1")
	c.add(t, "n2")
	c.connect(t)
	load := func(name string) *pki.Credentials {
		creds, err := pki.Load(filepath.Join(c.dir, name, "state", "node.pem"))
		if err != nil {
			t.Fatal(err)
		}
		return creds
	}
	old := load("n1")
	expires := func() map[string]time.Time {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		nodes, err := c.client.Nodes(ctx)
		if err != nil {
			t.Fatal(err)
		}
		m := map[string]time.Time{}
		for _, n := range nodes {
			m[n.Name] = n.Expires
		}
		return m
	}
	first := expires()
	g := newGate(t, 2<<20)
	dest := c.dest("renewed", "model")
	job := c.submit(t, freshet.Spec{Source: at(store.behind(t, front{before: g.before}), "model"), Dest: dest, Algorithm: freshet.NonSteal, Piece: unit.MiB})
	<-g.held
	eventually(t, "every node has outlived three certificates", func() bool {
		for name, e := range expires() {
			if e.Sub(first[name]) < 3*life {
				return false
			}
		}
		return true
	})
	close(g.open)
	arrived(t, c.watch(t, job), data)

	// A connection that is made now carries a new certificate; the first one is refused.
	handshake := func(as *pki.Credentials) (string, error) {
		raw, err := net.Dial("tcp", c.byName["n1"].Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		raw.SetDeadline(time.Now().Add(patience / 4))
		conn := tls.Client(raw, as.ClientTLS(pki.Node, "n1", peer.ProtocolData))
		if err := conn.Handshake(); err != nil {
			return "", err
		}
		return pki.PeerKey(conn.ConnectionState()), nil
	}
	if key, err := handshake(load("n2")); err != nil || key == old.Key() {
		t.Errorf("n1 shows its first certificate, or %v", err)
	}
	if err := calls(t, old, c.byName["n2"].Addr(), "n2"); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("n2 takes n1's first certificate: %v", err)
	}
}

// TestDocsNameTests: each line of the tables in which tests are named names
// one, and all that are named anywhere are there. A test is named as `package.TestName`,
// with the package's directory, or as `TestName` if it is where the document
// says that its tests are; a script as `name.txtar`.
func TestDocsNameTests(t *testing.T) {
	defined := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") && !strings.HasSuffix(path, ".txtar") {
			return err
		}
		if strings.HasSuffix(path, ".txtar") {
			defined[filepath.Base(path)] = true
			return nil
		}
		b, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllSubmatch(b, -1) {
			defined[filepath.ToSlash(filepath.Dir(path))+"."+string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for doc, where := range map[string]string{
		"docs/security.md": ".",
		"docs/faults.md":   "internal/lab/cluster",
		"docs/papers.md":   "", // in the packages that the line names
	} {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		lines, wrong := namedTests(string(text), where, defined)
		for _, w := range wrong {
			t.Errorf("%s:%s", doc, w)
		}
		if lines < 15 {
			t.Errorf("%s has %d lines that name tests", doc, lines)
		}
	}

	// What is wrong with a table is seen.
	const bad = `| a | shown by |
| --- | --- |
| 1 | |
| 2 | nothing |
| 3 | ` + "`TestNone`" + ` |
| 4 | ` + "`piece.TestPaperShares`, `TestNone`" + ` |
| 5 | ` + "`piece.TestPaperShares`" + ` |

| package | test |
| --- | --- |
| ` + "`piece` | `TestPaperShares`" + ` |
| ` + "`steal` | `TestPaperShares`" + ` |
`
	const want = "3: names no test; 4: names no test; 5: TestNone is not there; 6: TestNone is not there; 12: TestPaperShares is not there"
	if lines, wrong := namedTests(bad, "", defined); lines != 7 || strings.Join(wrong, "; ") != want {
		t.Errorf("of a bad document: %d lines, %s; want 7, %s", lines, strings.Join(wrong, "; "), want)
	}
}

// namedTests says what is wrong with the names of tests in a document, and how
// many lines of tables should have some. Tests that are named without a
// directory are in where, or if that is empty in the packages of the line.
func namedTests(text, where string, defined map[string]bool) (lines int, wrong []string) {
	name := regexp.MustCompile("`(?:([a-z0-9/]+)\\.)?((?:Test|Fuzz)\\w+)`|`(\\w+\\.txtar)`")
	column, packages := -1, -1 // of the table that we are in
	for i, line := range strings.Split(text, "\n") {
		complain := func(what string) { wrong = append(wrong, fmt.Sprintf("%d: %s", i+1, what)) }
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for k := range cells {
			cells[k] = strings.TrimSpace(cells[k])
		}
		switch {
		case !strings.HasPrefix(line, "|"):
			column, packages = -1, -1
		case strings.HasPrefix(cells[0], "---"):
		case column < 0 && packages < 0:
			column = slices.IndexFunc(cells, func(c string) bool { return c == "test" || c == "shown by" })
			packages = slices.Index(cells, "package")
		case column >= 0:
			lines++
			if column >= len(cells) || !name.MatchString(cells[column]) {
				complain("names no test")
			}
		}
		dirs := []string{where}
		if where == "" && packages >= 0 && packages < len(cells) {
			dirs = strings.Split(strings.ReplaceAll(cells[packages], "`", ""), ", ")
		}
		for _, m := range name.FindAllStringSubmatch(line, -1) {
			in := dirs
			if m[1] != "" {
				in = []string{m[1]}
			}
			if !defined[m[3]] && !slices.ContainsFunc(in, func(dir string) bool { return defined[dir+"."+m[2]] }) {
				complain(m[2] + m[3] + " is not there")
			}
		}
	}
	return lines, wrong
}
