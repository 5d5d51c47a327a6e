package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/freshet/freshet/objstore/open"
	"github.com/freshet/freshet/unit"
)

func TestMain(m *testing.M) {
	// Scripts wait for each other's processes more than they compute: on two cores they use less than one, so
	// that twice as many go on at once as there are cores, unless -parallel says otherwise.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	testscript.Main(tests{m}, map[string]func(){"freshet": main})
}

// tests are all tests, and what is left to do after them.
type tests struct{ *testing.M }

func (t tests) Run() int {
	code := t.M.Run()
	if programDir != "" {
		os.RemoveAll(programDir)
	}
	return code
}

// TestScript runs the scripts in testdata/script: clusters of processes on the
// loopback interface, started, used and killed as a user would. Beside what
// testscript has there are
//
//	start NAME PROGRAM ARG…   run it in the background, output to NAME.out and NAME.err, killed at
//	                          the end; with --json among the arguments wait for the line that says
//	                          it is ready, and set $NAME_addr, $NAME_endpoint and so on from it
//	signal NAME SIGNAL        INT, TERM or KILL
//	ended NAME CODE           wait for its end, with that exit code (-1: by a signal)
//	await FILE REGEXP         wait until the file has a match
//	eventually REGEXP PROGRAM ARG…  run it until its output has a match
//	random FILE SIZE          make a file of bytes that depend on its name alone
//	shards DIR COUNT SIZE     make so many files shard-00, shard-01, …, the last the largest, of so many bytes together
//	s3put FILE URL            put it into a store, or all files of a directory below the URL
//	alike DIR DIR…            the others have all files of the first, with the same bytes
//	same FILE FILE…           all have the same bytes
//	json PATH REGEXP          a value in the JSON of the last command's output, as runs.0.nodes.1.name
//	terminal FILE PROGRAM ARG…  run it on a terminal, and write all that was sent there to a file
//	nats                      run a NATS server until the end, and set $nats to its URL
//	natshas TEXT              some record in that NATS server's buckets has the text
//	scrape DIR ADDR PATH      GET a path of a node with the certificate that "freshet monitor --out DIR" made;
//	                          with ! wait until it is refused
//	health ADDR PATH REGEXP   wait until GET PATH of a node, without a certificate, is answered with
//	                          "STATUS BODY" that matches
//	logged FILE               every line of it is a record of a log in JSON, and there are some
//	var NAME                  set $NAME to the output of the last command
//
// Everything that waits gives up after patience.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			e.Setenv("HOME", home)
			e.Setenv("FRESHET_STATE", filepath.Join(e.WorkDir, "state"))
			e.Setenv("AWS_ACCESS_KEY_ID", "script")
			e.Setenv("AWS_SECRET_ACCESS_KEY", "script-secret")
			e.Setenv("AWS_REGION", "us-east-1")
			e.Setenv("AWS_EC2_METADATA_DISABLED", "true")
			e.Values[processes{}] = map[string]*process{}
			return os.MkdirAll(home, 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"start": startProcess, "signal": signalProcess, "ended": endedProcess,
			"await": await, "eventually": eventually, "random": random, "shards": shards, "s3put": s3put, "same": same, "alike": alike, "json": jsonValue, "var": setVar,
			"terminal": onTerminal, "scrape": scrapeNode, "health": health, "logged": logged, "nats": startNATS, "natshas": natsHas,
		},
	})
}

const patience = 60 * time.Second

// process is one that a script has in the background.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

type processes struct{} // key of the script's map of them

// program is the path of a program that a script names.
func program(ts *testscript.TestScript, name string) string {
	for dir := range strings.SplitSeq(ts.Getenv("PATH"), string(os.PathListSeparator)) {
		if p := filepath.Join(dir, name); exec.Command(p).Err == nil {
			return p
		}
	}
	return name
}

// environ is the part of a script's environment that its programs get.
func environ(ts *testscript.TestScript) (env []string) {
	for _, k := range []string{"PATH", "HOME", "TMPDIR", "FRESHET_STATE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ENDPOINT_URL", "AWS_EC2_METADATA_DISABLED"} {
		if v := ts.Getenv(k); v != "" {
			env = append(env, k+"="+v)
		}
	}
	return env
}

func startProcess(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME PROGRAM ARG…")
	}
	name := args[0]
	out, err := os.Create(ts.MkAbs(name + ".out"))
	ts.Check(err)
	defer out.Close()
	errs, err := os.Create(ts.MkAbs(name + ".err"))
	ts.Check(err)
	defer errs.Close()
	cmd := exec.Command(program(ts, args[1]), args[2:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = ts.MkAbs("."), out, errs, environ(ts)
	ts.Check(cmd.Start())
	p := &process{cmd: cmd, done: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() { cmd.Wait(); close(p.done) })
	ts.Defer(func() {
		select {
		case <-p.done:
			ts.Logf("%s had ended: %v", name, cmd.ProcessState)
		default:
		}
		cmd.Process.Kill()
		wg.Wait()
		if b, _ := os.ReadFile(errs.Name()); len(b) > 0 {
			ts.Logf("%s said:\n%s", name, b)
		}
	})
	ts.Value(processes{}).(map[string]*process)[name] = p
	ready := false
	for _, a := range args {
		ready = ready || a == "--json"
	}
	if !ready {
		return
	}
	var line map[string]any
	until(ts, name+" to be ready", func() bool {
		select {
		case <-p.done:
			b, _ := os.ReadFile(errs.Name())
			ts.Fatalf("%s ended: %s", name, b)
		default:
		}
		b, _ := os.ReadFile(out.Name())
		return bytes.HasSuffix(b, []byte("\n")) && json.Unmarshal(b, &line) == nil
	})
	for k, v := range line {
		if s, ok := v.(string); ok {
			ts.Setenv(name+"_"+k, s)
		}
	}
}

// until waits for a condition, with a deadline.
func until(ts *testscript.TestScript, what string, ok func() bool) {
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("waited %v for %s", patience, what)
		}
	}
}

func running(ts *testscript.TestScript, name string) *process {
	p := ts.Value(processes{}).(map[string]*process)[name]
	if p == nil {
		ts.Fatalf("no process %s was started", name)
	}
	return p
}

func signalProcess(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]os.Signal{"INT": os.Interrupt, "TERM": syscall.SIGTERM, "KILL": os.Kill}
	if neg || len(args) != 2 || signals[args[1]] == nil {
		ts.Fatalf("usage: signal NAME INT|TERM|KILL")
	}
	ts.Check(running(ts, args[0]).cmd.Process.Signal(signals[args[1]]))
}

func endedProcess(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ended NAME CODE")
	}
	p := running(ts, args[0])
	select {
	case <-p.done:
	case <-time.After(patience):
		ts.Fatalf("%s has not ended after %v", args[0], patience)
	}
	if got := strconv.Itoa(p.cmd.ProcessState.ExitCode()); got != args[1] {
		b, _ := os.ReadFile(ts.MkAbs(args[0] + ".err"))
		ts.Fatalf("%s ended with %s, want %s: %s", args[0], got, args[1], b)
	}
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await FILE REGEXP")
	}
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	until(ts, fmt.Sprintf("%s to match %s", args[0], args[1]), func() bool {
		b, err := os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && re.Match(b)
	})
}

func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually REGEXP PROGRAM ARG…")
	}
	re, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	until(ts, args[1]+" to print "+args[0], func() bool {
		ts.Check(ts.Exec(args[1], args[2:]...))
		return re.MatchString(ts.ReadFile("stdout"))
	})
}

func random(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: random FILE SIZE")
	}
	size, err := unit.ParseBytes(args[1])
	ts.Check(err)
	var seed [32]byte
	copy(seed[:], filepath.Base(args[0]))
	b := make([]byte, size)
	_, err = io.ReadFull(rand.NewChaCha8(seed), b)
	ts.Check(err)
	ts.Check(os.MkdirAll(filepath.Dir(ts.MkAbs(args[0])), 0o755))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o644))
}

// environment guards the process's environment, which the AWS SDK reads.
var environment sync.Mutex

func s3put(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: s3put FILE URL")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	environment.Lock()
	defer environment.Unlock()
	for _, k := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ENDPOINT_URL"} {
		ts.Check(os.Setenv(k, ts.Getenv(k)))
		defer os.Unsetenv(k)
	}
	store, key, err := open.URL(ctx, args[1], open.Options{})
	ts.Check(err)
	defer store.Close()
	put := func(path, key string) {
		f, err := os.Open(path)
		ts.Check(err)
		defer f.Close()
		fi, err := f.Stat()
		ts.Check(err)
		_, err = store.Put(ctx, key, f, unit.Bytes(fi.Size()))
		ts.Check(err)
	}
	top := ts.MkAbs(args[0])
	if fi, err := os.Stat(top); err != nil || !fi.IsDir() {
		put(top, key)
		return
	}
	for _, name := range filesBelow(ts, top) {
		put(filepath.Join(top, name), key+filepath.ToSlash(name))
	}
}

// filesBelow are the files below a directory, by their paths there.
func filesBelow(ts *testscript.TestScript, top string) (names []string) {
	ts.Check(filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(top, path)
		names = append(names, name)
		return err
	}))
	return names
}

func shards(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: shards DIR COUNT SIZE")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	size, err := unit.ParseBytes(args[2])
	ts.Check(err)
	left := int(size)
	for i := range n {
		k := int(size) * (i + 1) / (n * (n + 1) / 2)
		if i == n-1 {
			k = left
		}
		left -= k
		random(ts, false, []string{filepath.Join(args[0], fmt.Sprintf("shard-%0*d", len(args[1]), i)), fmt.Sprint(k)})
	}
}

func alike(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: alike DIR DIR…")
	}
	names := filesBelow(ts, ts.MkAbs(args[0]))
	if len(names) == 0 {
		ts.Fatalf("%s has no file", args[0])
	}
	for _, name := range names {
		all := []string{}
		for _, dir := range args {
			all = append(all, filepath.Join(dir, name))
		}
		same(ts, false, all)
	}
}

func same(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: same FILE FILE…")
	}
	first, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	for _, name := range args[1:] {
		b, err := os.ReadFile(ts.MkAbs(name))
		ts.Check(err)
		if bytes.Equal(first, b) == neg {
			ts.Fatalf("%s (%d bytes) and %s (%d bytes): same is %v, want %v", args[0], len(first), name, len(b), neg, !neg)
		}
	}
}

func jsonValue(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: json PATH REGEXP")
	}
	d := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	d.UseNumber()
	var v any
	ts.Check(d.Decode(&v))
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		ts.Fatalf("there is something after the JSON document")
	}
	for step := range strings.SplitSeq(args[0], ".") {
		switch at := v.(type) {
		case map[string]any:
			got, ok := at[step]
			if !ok {
				ts.Fatalf("%s: no field %s", args[0], step)
			}
			v = got
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(at) {
				ts.Fatalf("%s: no element %s of %d", args[0], step, len(at))
			}
			v = at[i]
		default:
			ts.Fatalf("%s: %v has no %s", args[0], v, step)
		}
	}
	got := fmt.Sprint(v)
	if regexp.MustCompile("^("+args[1]+")$").MatchString(got) == neg {
		ts.Fatalf("%s is %s; want a match of %s: %v", args[0], got, args[1], !neg)
	}
}

func setVar(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: var NAME")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

func scrapeNode(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: scrape DIR ADDR PATH")
	}
	cert, err := tls.LoadX509KeyPair(ts.MkAbs(filepath.Join(args[0], "monitor.pem")), ts.MkAbs(filepath.Join(args[0], "monitor.key")))
	ts.Check(err)
	ca, err := os.ReadFile(ts.MkAbs(filepath.Join(args[0], "ca.pem")))
	ts.Check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	c := http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "metrics.freshet", Certificates: []tls.Certificate{cert}},
	}}
	once := func() (status int, body []byte) {
		resp, err := c.Get("https://" + args[1] + args[2])
		ts.Check(err)
		defer resp.Body.Close()
		body, err = io.ReadAll(resp.Body)
		ts.Check(err)
		return resp.StatusCode, body
	}
	status, body := once()
	if neg {
		until(ts, args[1]+args[2]+" to be refused", func() bool {
			status, body = once()
			return status != http.StatusOK
		})
	} else if status != http.StatusOK {
		ts.Fatalf("%s%s: %d %s", args[1], args[2], status, body)
	}
	ts.Stdout().Write(body)
}

func health(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: health ADDR PATH REGEXP")
	}
	re, err := regexp.Compile(args[2])
	ts.Check(err)
	c := http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // as curl -k
	}}
	last := ""
	until(ts, args[0]+args[1]+" to answer "+args[2], func() bool {
		got := ""
		if resp, err := c.Get("https://" + args[0] + args[1]); err != nil {
			got = err.Error()
		} else {
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			got = fmt.Sprintf("%d %s", resp.StatusCode, strings.TrimSuffix(string(b), "\n"))
		}
		if got != last {
			ts.Logf("%s%s: %s", args[0], args[1], got)
		}
		last = got
		return re.MatchString(got)
	})
}

func logged(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: logged FILE")
	}
	n := 0
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		n++
		var r struct {
			Time       time.Time
			Level, Msg string
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Time.IsZero() || r.Level == "" || r.Msg == "" {
			ts.Fatalf("%s: line %d is no record of a log: %q", args[0], n, line)
		}
	}
	if n == 0 {
		ts.Fatalf("%s is empty", args[0])
	}
}
