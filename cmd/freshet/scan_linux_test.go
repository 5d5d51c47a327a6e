package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/internal/lab/cluster"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/pki"
	"github.com/freshet/freshet/unit"
)

// scanFor is how long TestScan scans: "make scan" does it for a minute.
var scanFor = flag.Duration("scan", 4*time.Second, "how long TestScan throws things at the ports of running nodes")

const (
	halfOpen       = 1000                   // connections to n1 that say nothing, and a tenth of that to each other port
	mostScanMemory = 96 * unit.MiB          // beyond what the same broadcasts take in peace
	dry            = 20 * time.Second       // for what the scanners left to be gone
	scannerWait    = 5 * time.Second        // of a scanner for an answer: longer than a port waits for it to speak
	again          = time.Second            // until one that was closed calls again
	trickle        = 200 * time.Millisecond // between the bytes of a slow ClientHello
	mostAnswer     = 140 + 8 + 8 + 4 + 512  // hello, welcome and a refusal
)

// scan is a running cluster and what is thrown at it.
type scan struct {
	until  time.Time
	ports  []string         // the hub's, then the agents'
	stolen *pki.Credentials // of a node of the cluster that takes part in no job
	other  *pki.Credentials // of a node of the same name in another cluster
	job    atomic.Pointer[string]

	mu     sync.Mutex // guards what follows
	thrown map[string]int
	wrong  []string
}

// attacks are what a scanner may do with one connection. Each returns what the
// port answered at the level at which data would travel: the plain bytes, or
// what came through TLS. Errors are what it is for.
var attacks = map[string]func(s *scan, addr string, rng *mrand.Rand) (answer []byte){
	"random bytes": func(s *scan, addr string, rng *mrand.Rand) []byte {
		b := make([]byte, 1+rng.IntN(64<<10))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return sendPlain(addr, b)
	},
	"HTTP": func(s *scan, addr string, rng *mrand.Rand) []byte {
		verbs := []string{"GET / HTTP/1.1", "POST /join HTTP/1.1", "PRI * HTTP/2.0", "CONNECT store:443 HTTP/1.1"}
		return sendPlain(addr, []byte(verbs[rng.IntN(len(verbs))]+"\r\nHost: scanner\r\n\r\n"))
	},
	"TLS without certificate": func(s *scan, addr string, rng *mrand.Rand) []byte {
		protocols := []string{peer.ProtocolData, peer.ProtocolControl, "h2", "freshet-plain/1"}
		return sendTLS(addr, &tls.Config{NextProtos: []string{protocols[rng.IntN(len(protocols))]}}, s.hello())
	},
	"old TLS": func(s *scan, addr string, rng *mrand.Rand) []byte {
		return sendTLS(addr, &tls.Config{MaxVersion: tls.VersionTLS12}, s.hello())
	},
	"certificate of another cluster": func(s *scan, addr string, rng *mrand.Rand) []byte {
		return sendTLS(addr, s.other.ClientTLS(pki.Node, "n1", peer.ProtocolData), s.hello())
	},
	"HTTP over TLS, as one that joins": func(s *scan, addr string, rng *mrand.Rand) []byte {
		return sendTLS(addr, &tls.Config{NextProtos: []string{peer.ProtocolHTTP}}, []byte("GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
	},
	"slow ClientHello": func(s *scan, addr string, rng *mrand.Rand) []byte {
		c, err := dialScanner(addr, rng)
		if err != nil {
			return nil
		}
		defer c.Close()
		for _, b := range append([]byte{22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, make([]byte, 64)...) {
			if _, err := c.Write([]byte{b}); err != nil {
				break
			}
			time.Sleep(trickle)
		}
		return readAll(c)
	},
	"a node's hello, then garbage": func(s *scan, addr string, rng *mrand.Rand) []byte {
		garbage := make([]byte, rng.IntN(4096))
		for i := range garbage {
			garbage[i] = byte(rng.Uint32())
		}
		return sendTLS(addr, s.stolen.ClientTLS(pki.Node, s.nameAt(addr), peer.ProtocolData), append(s.hello(), garbage...))
	},
	"a node's hello, then requests": func(s *scan, addr string, rng *mrand.Rand) []byte {
		b := s.hello()
		for p := range uint32(8) { // request: kind 19 of package swarm, blocks 0 and 1
			b = append(b, 19, 0, 0, 0, 0, 0, 0, 12)
			for _, x := range []uint32{p, 0, 2} {
				b = binary.BigEndian.AppendUint32(b, x)
			}
		}
		return sendTLS(addr, s.stolen.ClientTLS(pki.Node, s.nameAt(addr), peer.ProtocolData), b)
	},
}

// hello is that of the node whose credentials were stolen, for the job that runs.
func (s *scan) hello() []byte {
	name, job := s.stolen.Identity().Name, *s.job.Load()
	b := append([]byte("FRSH"), 0, peer.Version, 0, 132, 0, 0, byte(len(name)), byte(len(job)))
	b = append(b, make([]byte, 128)...)
	copy(b[12:], name)
	copy(b[76:], job)
	return b
}

func (s *scan) nameAt(addr string) string {
	for i, p := range s.ports {
		if p == addr && i > 0 {
			return fmt.Sprintf("n%d", i)
		}
	}
	return "hub"
}

// dialScanner dials from one of several addresses of this machine.
func dialScanner(addr string, rng *mrand.Rand) (net.Conn, error) {
	d := net.Dialer{Timeout: scannerWait, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+rng.IntN(16)))}}
	c, err := d.Dial("tcp", addr)
	if err == nil {
		c.SetDeadline(time.Now().Add(scannerWait))
	}
	return c, err
}

func readAll(r io.Reader) []byte {
	b, _ := io.ReadAll(io.LimitReader(r, 1<<20)) // an error ends what was answered
	return b
}

func sendPlain(addr string, b []byte) []byte {
	c, err := dialScanner(addr, mrand.New(mrand.NewPCG(1, uint64(len(b)))))
	if err != nil {
		return nil
	}
	defer c.Close()
	c.Write(b)
	return readAll(c)
}

// sendTLS says b after a handshake in which no care is taken about who answers.
func sendTLS(addr string, conf *tls.Config, b []byte) []byte {
	c, err := net.DialTimeout("tcp", addr, scannerWait)
	if err != nil {
		return nil
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(scannerWait))
	conf.InsecureSkipVerify, conf.VerifyConnection = true, nil
	t := tls.Client(c, conf)
	if t.Handshake() != nil {
		return nil
	}
	t.Write(b)
	return readAll(t)
}

// run throws at every port, by several scanners at once, until the time is over.
func (s *scan) run() {
	var wg sync.WaitGroup
	for i, addr := range s.ports {
		for name, attack := range attacks {
			for k := range 2 {
				wg.Go(func() {
					rng := mrand.New(mrand.NewPCG(uint64(i), uint64(k)))
					for time.Now().Before(s.until) {
						s.judge(name, attack(s, addr, rng))
					}
				})
			}
		}
		silent := halfOpen / 10
		if i == 1 {
			silent = halfOpen
		}
		for k := range silent {
			wg.Go(func() {
				rng := mrand.New(mrand.NewPCG(uint64(i), uint64(k)))
				for time.Now().Before(s.until) {
					if c, err := dialScanner(addr, rng); err == nil {
						s.judge("half-open", readAll(c)) // says nothing, and waits
						c.Close()
					}
					time.Sleep(again)
				}
			})
		}
	}
	wg.Wait()
}

// judge notes an attack, and an answer that is more than a refusal.
func (s *scan) judge(name string, answer []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.thrown[name]++
	ok := len(answer) == 0
	switch {
	case ok:
	case name == "random bytes" || name == "slow ClientHello":
		ok = len(answer) <= 7 && answer[0] == 21 // an alert
	case name == "HTTP":
		ok = bytes.HasPrefix(answer, []byte("HTTP/1.0 400 Bad Request\r\n")) && len(answer) < 200
	case strings.HasPrefix(name, "HTTP over TLS"): // the hub's, to those who join
		ok = bytes.HasPrefix(answer, []byte("HTTP/1.1 4")) && len(answer) < 1024
	case strings.HasPrefix(name, "a node's hello"):
		ok = len(answer) <= mostAnswer && onlyRefusal(answer)
	}
	if !ok && len(s.wrong) < 20 {
		s.wrong = append(s.wrong, fmt.Sprintf("%s: answered with %d bytes: %.200q", name, len(answer), answer))
	}
}

// onlyRefusal says whether answer is a hello and frames that hold nothing of an object: a
// verdict, pings, a refusal.
func onlyRefusal(b []byte) bool {
	if len(b) < 140 || string(b[:4]) != "FRSH" {
		return false
	}
	for b = b[140:]; len(b) >= 8; {
		kind, n := b[0], int(binary.BigEndian.Uint32(b[4:]))
		if kind != 0 && kind != 254 && kind != 255 || len(b) < 8+n {
			return false
		}
		b = b[8+n:]
	}
	return len(b) == 0
}

// goroutines are those of the control plane, as its metrics tell.
func goroutines(t *testing.T, c *cluster.Cluster) int {
	t.Helper()
	admin, err := pki.Load(c.Admin())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: admin.ClientTLS(pki.Hub, pki.HubName, peer.ProtocolHTTP)}
	defer transport.CloseIdleConnections()
	r, err := (&http.Client{Transport: transport, Timeout: patience}).Get("https://" + c.HubAddr() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	for _, line := range strings.Split(string(readAll(r.Body)), "\n") {
		if v, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			if n, err := strconv.Atoi(v); err == nil {
				return n
			}
		}
	}
	t.Fatalf("the control plane's metrics have no go_goroutines: %s", r.Status)
	return 0
}

// openFiles counts the open files of a process.
func openFiles(t *testing.T, p *cluster.Process) int {
	t.Helper()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

// TestScan throws at the ports of a running cluster what scanners and fuzzers do, while jobs run: none
// of it is answered with more than a refusal, the jobs end well, nothing but their
// files is in the roots, and memory, files and goroutines stay what they were.
func TestScan(t *testing.T) {
	c := newCluster(t, "", nil, nil, nil)
	s := &scan{thrown: map[string]int{}, ports: []string{c.HubAddr()}}
	var list struct {
		Nodes []freshet.NodeView `json:"nodes"`
	}
	out, err := c.Run(t.Context(), "nodes", "--json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatal(err)
	}
	for _, n := range list.Nodes {
		s.ports = append(s.ports, n.Addr)
	}
	token, err := c.Token(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if s.stolen, err = control.Join(t.Context(), control.JoinConfig{Hub: c.HubAddr(), Token: token, Name: "stolen"}); err != nil {
		t.Fatal(err)
	}
	elsewhere, err := pki.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	if s.other, err = elsewhere.NewCredentials(pki.Node, "n2"); err != nil {
		t.Fatal(err)
	}

	source := object(t, 64*unit.MiB)
	want, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	client, err := freshet.Connect(t.Context(), c.Admin(), freshet.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	round := 0
	broadcast := func() {
		t.Helper()
		round++
		dest := c.Dest("{node}", "object")
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		job, err := client.Submit(ctx, freshet.Spec{Source: "file://" + source, Dest: dest, Nodes: []string{"n?"}})
		if err != nil {
			t.Fatal(err)
		}
		id := job.ID // job is replaced below, while the scan reads this
		s.job.Store(&id)
		for j, err := range client.Watch(ctx, job.ID) {
			if err != nil {
				t.Fatal(err)
			}
			job = j
		}
		t.Logf("round %d: %v", round, time.Since(began).Round(time.Millisecond))
		if job.State != freshet.Done {
			t.Errorf("round %d: job is %s: %s", round, job.State, job.Error)
		}
		for _, n := range job.Nodes {
			for _, f := range n.Faults {
				t.Errorf("round %d: %s saw a fault of %s: %s", round, n.Name, f.Node, f.Cause)
			}
			path := c.Dest(n.Name, "object")
			root := filepath.Dir(path)
			if files, err := os.ReadDir(root); err != nil || len(files) != 1 {
				t.Errorf("round %d: %s: %v, %v; want the object alone", round, root, files, err)
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
				t.Errorf("round %d: %s has %d bytes, %v, that are not the object's", round, path, len(got), err)
			}
			os.Remove(path)
		}
	}
	for range 3 {
		broadcast()
	}
	processes := []*cluster.Process{c.Hub(), c.Node("n1"), c.Node("n2"), c.Node("n3")}
	before, files := highWater(t, processes), []int{}
	for _, p := range processes {
		files = append(files, openFiles(t, p))
	}
	routines := goroutines(t, c)

	s.until = time.Now().Add(*scanFor)
	var wg sync.WaitGroup
	wg.Go(s.run)
	peaceful := round
	for time.Now().Before(s.until) {
		broadcast()
	}
	wg.Wait()
	for _, w := range s.wrong {
		t.Error(w)
	}
	for name := range attacks {
		if s.thrown[name] == 0 {
			t.Errorf("%s was not thrown", name)
		}
	}
	t.Logf("%d broadcasts of %d MiB under fire for %v; thrown: %v", round-peaceful, len(want)>>20, *scanFor, s.thrown)
	for i, after := range highWater(t, processes) {
		name := processes[i].Name()
		t.Logf("%s: at most %v of memory before, %v after", name, before[i], after)
		if after > before[i]+mostScanMemory {
			t.Errorf("%s: %v of memory before, %v after; want at most %v more", name, before[i], after, mostScanMemory)
		}
	}
	back := func() (err error) {
		for i, p := range processes {
			if n := openFiles(t, p); n > files[i]+8 {
				err = errors.Join(err, fmt.Errorf("%s: %d open files, %d before", p.Name(), n, files[i]))
			}
		}
		if n := goroutines(t, c); n > routines+8 {
			err = errors.Join(err, fmt.Errorf("%d goroutines in the control plane's process, %d before", n, routines))
		}
		return err
	}
	var left error
	for deadline := time.Now().Add(dry); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if left = back(); left == nil {
			break
		}
	}
	if left != nil {
		t.Errorf("%v after the scan: %v", dry, left)
	}
	broadcast()
}
