package freshet_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet"
	"github.com/freshet/freshet/internal/account"
	"github.com/freshet/freshet/internal/control"
	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/pki"
	"github.com/freshet/freshet/objstore"
	"github.com/freshet/freshet/piece"
	"github.com/freshet/freshet/unit"
)

// TestWrongBytes has a node whose disk does not keep what was written to it, so
// that it sends wrong bytes to its peers.
func TestWrongBytes(t *testing.T) {
	t.Parallel()
	store := newBucket(t)
	data := random(11, 3<<20)
	store.put(t, "model", data)
	c := newCluster(t, 3)
	g := newGate(t, 2<<20) // n2's share
	dest := c.dest("wrong", "model")
	untouched := old(t, dest, "n1")
	job := c.submit(t, freshet.Spec{
		Source: at(store.behind(t, front{before: g.before}), "model"), Dest: dest, Algorithm: freshet.NonSteal, Piece: 256 * unit.KiB,
	})
	<-g.held
	c.await(t, job, "shares of n0 and n1", func(j freshet.Job) bool {
		return status(t, j, "n0").Have == unit.MiB && status(t, j, "n1").Have == unit.MiB
	})
	f, err := os.OpenFile(c.partFile(t, job, "n1"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(make([]byte, 1<<20), 1<<20); err != nil {
		t.Fatal(err)
	}
	close(g.open)
	job = c.watch(t, job)
	c.failedOnly(t, job, "n1", data, "disk")
	caught := false
	for _, name := range []string{"n0", "n2"} {
		n := status(t, job, name)
		named := false
		for _, f := range n.Faults { // the second may hear from n1 that it has given up before it is sent anything
			named = named || strings.Contains(f.Node, "n1")
			caught = caught || f.Node == "n1" && strings.Contains(f.Cause, "sent wrong bytes for piece")
		}
		if !named {
			t.Errorf("%s does not name n1: %s", name, describe(job))
		}
		if n.Verified != "source" {
			t.Errorf("%s is verified by %q, want source", name, n.Verified)
		}
	}
	if !caught {
		t.Errorf("nobody says that n1 sent wrong bytes: %s", describe(job))
	}
	untouched(t)
}

// TestTokens tries to join with what is not, or no longer, a token of the cluster.
func TestTokens(t *testing.T) {
	t.Parallel()
	c, other := newCluster(t, 1), newCluster(t, 1)
	mine, err := pki.ParseToken(c.token(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := pki.ParseToken(other.token(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	invented, err := pki.NewToken(mine.CAFingerprint)
	if err != nil {
		t.Fatal(err)
	}
	guessed := mine
	guessed.Secret[3] ^= 1
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	short, expires, err := c.client.NewToken(ctx, 1, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	used := c.token(t, 1)
	config := c.config(t, "first")
	config.Token = used
	c.start(t, config)
	damaged := []byte(c.token(t, 1))
	damaged[40] ^= 1
	time.Sleep(time.Until(expires) + 10*time.Millisecond) // its time is up then, by the clock that it was made with

	for _, tt := range []struct {
		name, token string
		want        []string
	}{
		{"invented", invented.Encode(), []string{"unknown to this cluster", "freshet token"}},
		{"guessed", guessed.Encode(), []string{"unknown to this cluster", "freshet token"}},
		{"expired", short, []string{"expired at", "freshet token"}},
		{"used", used, []string{"used up", "freshet token"}},
		{"damaged", string(damaged), []string{"token is damaged", "copy it again"}},
		{"cut", c.token(t, 1)[:50], []string{"token is damaged", "50 characters"}},
		{"none", "swordfish", []string{"not a token", "freshet token"}},
		{"empty", "", []string{"no credentials in", "give a token"}},
		{"other", theirs.Encode(), []string{"another cluster", pki.Short(mine.CAFingerprint), pki.Short(theirs.CAFingerprint)}},
	} {
		config := c.config(t, tt.name)
		config.Token = tt.token
		_, err := tryStart(t, config)
		if err == nil {
			t.Errorf("%s: joined", tt.name)
			continue
		}
		says(t, err.Error(), tt.want...)
		if tt.token != "" && strings.Contains(err.Error(), strings.TrimPrefix(tt.token, "freshet_")) && tt.name != "none" {
			t.Errorf("%s: %q repeats the token", tt.name, err)
		}
		if _, err := os.Stat(filepath.Join(config.State, "node.pem")); err == nil {
			t.Errorf("%s: credentials are left", tt.name)
		}
	}
	nodes, err := c.client.Nodes(ctx)
	if err != nil || len(nodes) != 2 {
		t.Errorf("nodes are %+v, %v, want n0 and first", nodes, err)
	}
}

// TestOtherClusters has credentials of one cluster used in another, on all ways in.
func TestOtherClusters(t *testing.T) {
	t.Parallel()
	c, other := newCluster(t, 2), newCluster(t, 2)
	load := func(c *nodes, name string) *pki.Credentials {
		creds, err := pki.Load(filepath.Join(c.dir, name, "state", "node.pem"))
		if err != nil {
			t.Fatal(err)
		}
		return creds
	}
	mine, stranger := load(c, "n1"), load(other, "n1")
	ours, theirs := pki.Short(mine.Identity().Cluster), pki.Short(stranger.Identity().Cluster)

	t.Run("agent without token", func(t *testing.T) {
		if err := other.byName["n1"].Close(); err != nil {
			t.Fatal(err)
		}
		config := other.config(t, "n1")
		config.Join, config.Token = c.first.Addr(), ""
		_, err := tryStart(t, config)
		if err == nil {
			t.Fatal("an agent of another cluster was taken in")
		}
		says(t, err.Error(), "another cluster", ours, theirs)
		config.Token = c.token(t, 1)
		_, err = tryStart(t, config)
		if err == nil {
			t.Fatal("an agent of another cluster was taken in")
		}
		says(t, err.Error(), "node.pem", "another state directory", ours, theirs)
		config = c.config(t, "elsewhere")
		config.State = filepath.Join(other.dir, "n1", "state")
		if _, err = tryStart(t, config); err == nil {
			t.Fatal("credentials were used under another name")
		}
	})
	t.Run("admin", func(t *testing.T) {
		b, err := os.ReadFile(other.first.AdminFile())
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "admin.pem")
		b = bytes.ReplaceAll(b, []byte("hub: "+other.first.Addr()), []byte("hub: "+c.first.Addr()))
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err = freshet.Connect(ctx, file, freshet.ClientOptions{})
		if err == nil {
			t.Fatal("an admin of another cluster was let in")
		}
		says(t, err.Error(), "another cluster", ours, theirs)
	})
	t.Run("a node is no admin", func(t *testing.T) {
		b, err := os.ReadFile(filepath.Join(c.dir, "n1", "state", "node.pem"))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "admin.pem")
		if err := os.WriteFile(file, append([]byte("hub: "+c.first.Addr()+"\n"), b...), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = freshet.Connect(t.Context(), file, freshet.ClientOptions{})
		if err == nil {
			t.Fatal("a node was let in as an admin")
		}
		says(t, err.Error(), "not an admin's credentials")
	})
	for protocol, node := range map[string]string{peer.ProtocolData: "n0", peer.ProtocolControl: "hub"} {
		t.Run(protocol, func(t *testing.T) {
			role := pki.Node
			if node == "hub" {
				role = pki.Hub
			}
			dial := func(conf *tls.Config) error {
				raw, err := net.DialTimeout("tcp", c.first.Addr(), patience)
				if err != nil {
					t.Fatal(err)
				}
				defer raw.Close()
				conn := tls.Client(raw, conf)
				conn.SetDeadline(time.Now().Add(patience))
				if err := conn.Handshake(); err != nil {
					return err
				}
				_, err = conn.Read(make([]byte, 1)) // TLS 1.3 tells a client only now that it was refused
				return err
			}
			// Who is careful notices by itself where it is.
			err := stranger.Explain(dial(stranger.ClientTLS(role, node, protocol)))
			if err == nil {
				t.Fatal("a node of another cluster trusts us")
			}
			says(t, err.Error(), "another cluster", ours, theirs)
			// Who is not, is refused.
			conf := stranger.ClientTLS(role, node, protocol)
			conf.InsecureSkipVerify, conf.VerifyConnection = true, nil
			err = stranger.Explain(dial(conf))
			if err == nil || err == io.EOF {
				t.Fatalf("a node of another cluster was let in: %v", err)
			}
			says(t, err.Error(), "refused our certificate", "another cluster")
			// So is who has no certificate, or one that nobody signed.
			conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return new(tls.Certificate), nil }
			if err := dial(conf); err == nil || err == io.EOF {
				t.Errorf("without a certificate: %v, want to be refused", err)
			}
			if err := dial(&tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}, MaxVersion: tls.VersionTLS12}); err == nil || err == io.EOF {
				t.Errorf("with TLS 1.2: %v, want to be refused", err)
			}
			if err := dial(&tls.Config{RootCAs: x509.NewCertPool(), NextProtos: []string{protocol}}); err == nil || err == io.EOF {
				t.Errorf("without trust: %v, want an error", err)
			}
		})
	}
}

// TestOtherVersion has an end that speaks another version of the protocol
// between nodes, on either side of a connection.
func TestOtherVersion(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	prefix := func(version uint16) []byte { // of a hello, the same in all versions
		return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16([]byte("FRSH"), version), 0)
	}
	creds, err := pki.Load(filepath.Join(c.dir, "n1", "state", "node.pem"))
	if err != nil {
		t.Fatal(err)
	}

	t.Run("caller", func(t *testing.T) {
		conn, err := tls.Dial("tcp", c.first.Addr(), creds.ClientTLS(pki.Node, "n0", peer.ProtocolData))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience))
		if _, err := conn.Write(prefix(7)); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(conn)
		if err != nil || len(answer) < 8 || !bytes.Equal(answer[:6], prefix(peer.Version)[:6]) {
			t.Fatalf("answer %q, %v, want a hello of version %d", answer, err, peer.Version)
		}
		if text := string(answer); !strings.Contains(text, "version 7") || !strings.Contains(text, fmt.Sprintf("version %d", peer.Version)) {
			t.Errorf("the answer does not name both versions: %q", text)
		}
		eventually(t, "the log names both versions", func() bool {
			return strings.Contains(c.log.String(), fmt.Sprintf("speaks version 7 of the protocol between nodes, we speak version %d", peer.Version))
		})
	})
	t.Run("called", func(t *testing.T) {
		token, err := pki.ParseToken(c.token(t, 1))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		creds, err := control.Join(ctx, control.JoinConfig{Hub: c.first.Addr(), Token: token.Encode(), Name: "n2"})
		if err != nil {
			t.Fatal(err)
		}
		ln, err := tls.Listen("tcp", "127.0.0.1:0", creds.ServerTLS(peer.ProtocolData))
		if err != nil {
			t.Fatal(err)
		}
		served, ran := make(chan struct{}), make(chan error, 1)
		go func() { // waited for below
			defer close(served)
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				conn.SetDeadline(time.Now().Add(patience))
				io.ReadFull(conn, make([]byte, 8))
				conn.Write(append(prefix(9), "what version 9 says next"...))
				conn.Close()
			}
		}()
		registered := make(chan struct{}, 100)
		agent := control.Agent{
			Hub: c.first.Addr(), Credentials: creds, Runner: idle{}, Registration: control.Registration{Addr: ln.Addr().String()},
			Registered: func() { registered <- struct{}{} },
		}
		go func() { ran <- agent.Run(ctx) }()
		<-registered
		data := random(12, 2<<20)
		job := c.submit(t, freshet.Spec{Source: fileSource(t, data), Dest: c.dest("version", "model")})
		job = c.await(t, job, "nodes n0 and n1", func(j freshet.Job) bool {
			return status(t, j, "n0").State == freshet.Done && status(t, j, "n1").State == freshet.Done
		})
		for _, name := range []string{"n0", "n1"} {
			holds(t, on(job.Spec.Dest, name), data)
			faults := status(t, job, name).Faults
			if len(faults) != 1 || faults[0].Node != "n2" {
				t.Errorf("%s reports %+v, want one fault, of n2", name, faults)
				continue
			}
			says(t, faults[0].Cause, "version 9", fmt.Sprintf("version %d", peer.Version), "same release", ln.Addr().String())
		}
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		ln.Close()
		<-served
	})
}

// TestLyingStat: what a source is, a node is asked when a job is submitted, and it may say what is not so. The others look themselves, and do not take
// anything from anybody for an object with that checksum.
func TestLyingStat(t *testing.T) {
	t.Parallel()
	c, s := newCluster(t, 2), newBucket(t)
	data := random(14, 1<<20)
	one, below := s.put(t, "key", data), s.put(t, "m/file", data)
	below.Key = "file"
	for name, lie := range map[string]func(*objstore.Object){
		"checksum": func(o *objstore.Object) { o.Checksum.Value = piece.CRC64NVME.Encode(7) },
		"none":     func(o *objstore.Object) { o.Checksum, o.Ranges = piece.Checksum{}, false },
		"several":  func(o *objstore.Object) { o.Checksum = piece.Checksum{} },
	} {
		t.Run(name, func(t *testing.T) {
			said, spec := control.Source{Object: one}, freshet.Spec{Source: at(s.Endpoint, "key"), Dest: c.dest(name)}
			lie(&said.Object)
			if name == "several" {
				files := control.Files{below}
				lie(&files[0])
				said, spec.Source = control.Source{Object: files.Whole("m/"), Files: files}, at(s.Endpoint, "m/")
			}
			c.pretend(t, "a-"+name, liar{source: said})
			spec.Nodes = []string{"n?", "a-" + name}
			j := c.run(t, spec)
			if j.State != freshet.Failed || j.SeenBy != "a-"+name {
				t.Errorf("the job is %s, seen by %q", j.State, j.SeenBy)
			}
			for _, honest := range []string{"n0", "n1"} {
				says(t, status(t, j, honest).Error, "a-"+name+", whose word the job was made from", "checksum CRC64NVME "+one.Checksum.Value)
				if _, err := os.Lstat(on(j.Spec.Dest, honest)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s has something: %v", honest, err)
				}
			}
		})
	}
}

// pretend has r play the part of a node of that name until the test ends.
func (c *nodes) pretend(t *testing.T, name string, r control.Runner) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	token, err := pki.ParseToken(c.token(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	creds, err := control.Join(ctx, control.JoinConfig{Hub: c.first.Addr(), Token: token.Encode(), Name: name})
	if err != nil {
		t.Fatal(err)
	}
	port, err := peer.Listen("127.0.0.1:0", peer.Options{Credentials: creds, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	runs, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() { stop(); wg.Wait() })
	registered := make(chan struct{}, 100)
	agent := control.Agent{
		Hub: c.first.Addr(), Credentials: creds, Runner: r, Registration: control.Registration{Addr: port.Addr().String()},
		Log: slog.New(slog.DiscardHandler), Registered: func() { registered <- struct{}{} },
	}
	for _, run := range []func(context.Context) error{port.Run, agent.Run} {
		wg.Go(func() {
			if err := run(runs); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	select {
	case <-registered:
	case <-ctx.Done():
		t.Fatalf("%s did not register", name)
	}
}

// liar is a node that says what is not so of a source, and then that it has it.
type liar struct {
	idle
	source control.Source
}

func (l liar) Stat(context.Context, control.Spec) (control.Source, error) { return l.source, nil }
func (liar) Run(_ context.Context, job control.Job, _ <-chan []string, _ func(control.NodeStatus)) (control.NodeStatus, account.Course) {
	return control.NodeStatus{State: control.Done, Have: job.Object.Size}, account.Course{}
}

// idle is a node that takes part in jobs and does nothing.
type idle struct{}

func (idle) Stat(context.Context, control.Spec) (control.Source, error) {
	return control.Source{}, objstore.ErrDenied
}
func (idle) Prepare(context.Context, control.Job) (control.Prepared, error) {
	return control.Prepared{}, nil
}
func (idle) Recording(string) (control.Recording, error) { return nil, control.ErrNoRecording }
func (idle) Run(ctx context.Context, _ control.Job, _ <-chan []string, _ func(control.NodeStatus)) (control.NodeStatus, account.Course) {
	<-ctx.Done()
	return control.NodeStatus{State: control.Failed, Error: "idle"}, account.Course{}
}
