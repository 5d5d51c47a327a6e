package cluster_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/internal/lab/cluster"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/piece"
)

// Two kinds of bad peers are real agents behind a relay that spoils what they
// say: the others reach n3, to which everybody dials, by way of it.

// behind starts a cluster in which the others reach n3 by way of a relay. It
// passes everything on, so that n3 can register, until the stage is set; then
// it does what spoil does.
func behind(t *testing.T, spoil func(from, to net.Conn)) *stage {
	var bad atomic.Bool
	s := set(t, func(c *cluster.Config) {
		l, addr := c.Lab, c.Lab.Addr("n3").String()
		ln, err := l.Listen("n3", net.JoinHostPort(addr, "7500"))
		if err != nil {
			t.Fatal(err)
		}
		c.AgentArgsOf = map[string][]string{"n3": {"--advertise", ln.Addr().String()}}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		t.Cleanup(func() { cancel(); ln.Close(); wg.Wait() })
		wg.Go(func() {
			for {
				from, err := ln.Accept()
				if err != nil {
					return
				}
				wg.Go(func() {
					defer context.AfterFunc(ctx, func() { from.Close() })()
					defer from.Close()
					to, err := l.Dial(ctx, "n3", net.JoinHostPort(addr, "7434"))
					if err != nil {
						return
					}
					defer context.AfterFunc(ctx, func() { to.Close() })()
					defer to.Close()
					if bad.Load() {
						spoil(from, to)
						return
					}
					wg.Go(func() { io.Copy(to, from); to.Close() })
					io.Copy(from, to)
				})
			}
		})
	})
	bad.Store(true)
	return s
}

// A peer that accepts connections and never answers. It hears of nobody, and
// reads the object by itself.
func TestPeerMute(t *testing.T) {
	s := behind(t, func(from, _ net.Conn) { io.Copy(io.Discard, from) })
	r := s.broadcast(s.url)()
	s.ended(r, nil)
	s.blames(r, "n3", `connect to n3 at \S+: .*i/o timeout`)
}

// overtaken is what a node is said to be whose part others had read before they
// had to wait for it long enough to drop it.
const overtaken = "hardly gets on with its part of the object"

// A peer of which half a frame arrives, and then nothing any more.
func TestPeerHalfFrame(t *testing.T) {
	s := behind(t, func(from, to net.Conn) {
		var wg sync.WaitGroup
		wg.Go(func() { io.Copy(to, from) })
		io.CopyN(from, to, 1<<20) // in the middle of its fourth block or so
		wg.Wait()                 // and silence, until the other end closes
	})
	r := s.broadcast(s.url)()
	s.ended(r, nil)
	s.blames(r, "n3", "nothing came from n3 for 20s|"+overtaken)
}

// A liar is a process of this test's own that joined with a token as node n4.
// It says at once that it has all pieces; asked for one it says nothing ("hoards") or sends wrong bytes ("forges").
// Its part of the job never ends: the job's timeout ends it.

func TestPeerHoards(t *testing.T) {
	lie(t, "hoards", `(has announced piece \d+ and has given nothing for 30s|`+overtaken+`)`)
}
func TestPeerForges(t *testing.T) { lie(t, "forges", `sent wrong bytes for piece \d+`) }

func lie(t *testing.T, how, cause string) {
	s := set(t, func(c *cluster.Config) {
		c.Nodes = []string{"n1", "n2"} // n3's host is the liar's
	})
	s.nodes = []string{"n1", "n2"}
	token, err := s.c.Token(s.ctx, 1)
	s.must(err)
	exe, err := os.Executable()
	s.must(err)
	cmd := exec.Command(exe)
	addr := s.lab.Addr("n3").String()
	cmd.Env = append(os.Environ(), "FRESHET_FAULTS_ROLE="+how, "FRESHET_FAULTS_HUB="+s.c.HubAddr(),
		"FRESHET_FAULTS_TOKEN="+token, "FRESHET_FAULTS_LISTEN="+net.JoinHostPort(addr, "7434"))
	out, err := cmd.StdoutPipe()
	s.must(err)
	cmd.Stderr = os.Stderr
	s.must(s.lab.Start("n3", cmd))
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the liar is not ready: %q, %v", line, err)
	}
	r := s.broadcast(s.url, "--share-access", "--timeout", "60s")() // with a proof of access wanted it would get no further than that
	for _, n := range s.nodes {
		if r.Node(n).State != "done" {
			s.Errorf("%s is %q: %s", n, r.Node(n).State, r.Node(n).Error)
		}
		s.has(n)
	}
	s.blames(r, "n4", cause)
	if n := r.Node("n4"); r.State != "failed" || r.Exit != 1 || n.State != "failed" || !strings.Contains(r.Stderr, "node n4: ") {
		s.Errorf("the job is %q (%d), the liar %q with %q; people are told %q", r.State, r.Exit, n.State, n.Error, r.Stderr)
	}
	if !regexp.MustCompile(`fault seen by n[12]: n4: ` + cause).MatchString(r.Stderr) {
		s.Errorf("people are not told what n4 did: %q", r.Stderr)
	}
}

// play is the liar's whole life. It returns the exit code.
func play(how string) int {
	if err := liar(how); err != nil {
		fmt.Fprintln(os.Stderr, "liar:", err)
		return 1
	}
	return 0
}

func liar(how string) error {
	ctx, cancel := context.WithTimeout(context.Background(), faultWithin)
	defer cancel()
	hub, listen := os.Getenv("FRESHET_FAULTS_HUB"), os.Getenv("FRESHET_FAULTS_LISTEN")
	creds, err := control.Join(ctx, control.JoinConfig{Hub: hub, Token: os.Getenv("FRESHET_FAULTS_TOKEN"), Name: "n4"})
	if err != nil {
		return err
	}
	port, err := peer.Listen(listen, peer.Options{Credentials: creds, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer port.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { port.Run(ctx) })
	agent := control.Agent{
		Hub: hub, Credentials: creds, Runner: fraud{how, port}, Log: slog.New(slog.DiscardHandler),
		Registration: control.Registration{Addr: listen, Version: "liar", Roots: []string{"/"}},
		Registered:   sync.OnceFunc(func() { fmt.Println("ready") }),
	}
	return agent.Run(ctx)
}

// fraud is its Runner.
type fraud struct {
	how  string
	port *peer.Port
}

func (fraud) Stat(context.Context, control.Spec) (control.Source, error) {
	return control.Source{}, errors.New("no idea")
}
func (fraud) Prepare(context.Context, control.Job) (control.Prepared, error) {
	return control.Prepared{}, nil
}
func (fraud) Recording(string) (control.Recording, error) { return nil, control.ErrNoRecording }
func (f fraud) Run(ctx context.Context, job control.Job, _ <-chan []string, report func(control.NodeStatus)) (control.NodeStatus, account.Course) {
	layout := freshet.Layout(job)
	incoming, withdraw := f.port.Offer(job.ID)
	defer withdraw()
	var wg sync.WaitGroup
	defer wg.Wait()
	report(control.NodeStatus{State: control.Running})
	for {
		select {
		case c := <-incoming:
			stop := context.AfterFunc(ctx, func() { c.Close() })
			wg.Go(func() {
				defer stop()
				f.talk(c, layout)
			})
		case <-ctx.Done():
			return control.NodeStatus{State: control.Failed, Error: "caught"}, account.Course{}
		}
	}
}

// Kinds of frames: internal/swarm/README.md.
const (
	kindBitfield = 16
	kindRequest  = 19
	kindUnchoke  = 22
	kindBlock    = 23
)

func (f fraud) talk(c *peer.Conn, l piece.Layout) {
	defer c.Close()
	all := piece.NewSet(l.Count())
	all.AddRange(piece.Range{Hi: l.Count()})
	// At once, before anybody has read a piece, and so of pieces that nobody can check yet.
	if c.WriteFrame(kindBitfield, all.Append(binary.BigEndian.AppendUint32(nil, uint32(l.Count())))) != nil || c.WriteFrame(kindUnchoke) != nil {
		return
	}
	for {
		kind, n, err := c.ReadFrame()
		if err != nil {
			return
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(c, b); err != nil {
			return
		}
		if kind != kindRequest || f.how != "forges" {
			continue
		}
		p, lo, hi := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
		for block := lo; block < hi; block++ {
			_, size := l.Span(int(p))
			length := min(int64(piece.BlockSize), int64(size)-int64(block)*int64(piece.BlockSize))
			head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, p), block)
			if c.WriteFrame(kindBlock, head, make([]byte, length)) != nil {
				return
			}
		}
	}
}
