package control

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/pki"
)

func TestRetryIn(t *testing.T) {
	const day = 24 * time.Hour
	for _, tc := range []struct {
		failures int
		left     time.Duration
		want     time.Duration
	}{
		{0, 120 * day, time.Second},
		{1, 120 * day, time.Second},
		{2, 120 * day, 2 * time.Second},
		{11, 120 * day, 1024 * time.Second},
		{13, 120 * day, time.Hour},
		{1000, 120 * day, time.Hour},
		{13, 40 * time.Minute, 10 * time.Minute},
		{1, time.Second, 250 * time.Millisecond},
		{5, time.Millisecond, 100 * time.Millisecond},
		{5, -time.Hour, 100 * time.Millisecond},
	} {
		if got := retryIn(tc.failures, tc.left); got != tc.want {
			t.Errorf("failure %d, %v left: again in %v, want %v", tc.failures, tc.left, got, tc.want)
		}
	}
}

// certifiedKey is the key that the node or hub at addr shows a caller.
func certifiedKey(t *testing.T, addr string, as *pki.Credentials, role pki.Role, name, protocol string) (string, error) {
	t.Helper()
	raw, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	raw.SetDeadline(time.Now().Add(20 * time.Second))
	c := tls.Client(raw, as.ClientTLS(role, name, protocol))
	if err := c.Handshake(); err != nil {
		return "", err
	}
	key := pki.PeerKey(c.ConnectionState())
	_, err = c.Read(make([]byte, 1)) // TLS 1.3 tells a client only now that it was refused
	if ne, ok := errors.AsType[net.Error](err); ok && !ne.Timeout() {
		return key, as.Explain(err)
	}
	return key, nil
}

// copyOf are credentials that are not renewed with the original.
func copyOf(t *testing.T, c *pki.Credentials) *pki.Credentials {
	t.Helper()
	path := filepath.Join(t.TempDir(), "copy.pem")
	if err := c.Save(path); err != nil {
		t.Fatal(err)
	}
	old, err := pki.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return old
}

// A job lasts for several lives of every certificate, and nobody notices.
func TestRenewal(t *testing.T) {
	noLeaks(t)
	const life = 3 * time.Second
	h := startHub(t, Config{State: t.TempDir(), Life: life}, "127.0.0.1:0")
	agents := threeNodes(t, h)
	old := copyOf(t, agents[0].creds)
	oldAdmin, err := LoadAdmin(h.admin)
	if err != nil {
		t.Fatal(err)
	}
	oldHub := h.Credentials().Key()
	c := h.client(t, ClientOptions{}) // stays, although its certificate does not
	job := runs(t, c, agents...)
	first := map[string]time.Time{}
	views := func() []NodeView {
		nodes, err := c.Nodes(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		return nodes
	}
	for _, n := range views() {
		first[n.Name] = n.Expires
	}
	await(t, "every node has outlived three certificates", func() bool {
		for _, n := range views() {
			if n.Expires.Sub(first[n.Name]) < 3*life {
				return false
			}
		}
		return true
	})
	for _, a := range agents {
		a.finish <- done
	}
	job = watched(t, c, job.ID)
	if job.State != Done {
		t.Errorf("job is %s: %+v", job.State, job.Nodes)
	}

	// Connections that are made now carry the new certificate.
	node := agents[0]
	key, err := certifiedKey(t, node.addr, agents[1].creds, pki.Node, node.name, peer.ProtocolData)
	if err != nil || key == old.Key() {
		t.Errorf("the node still shows its first certificate, or %v", err)
	}
	await(t, "the file holds the newest certificate", func() bool { // which may be renewed just now
		kept, err := pki.Load(filepath.Join(node.files, "node.pem"))
		if err != nil {
			t.Fatal(err)
		}
		return kept.Key() == node.creds.Key()
	})
	if key, err := certifiedKey(t, h.addr, node.creds, pki.Hub, pki.HubName, peer.ProtocolControl); err != nil || key == oldHub {
		t.Errorf("the hub still shows its first certificate, or %v", err)
	}
	if info, err := os.Stat(filepath.Join(node.files, "node.pem")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("node.pem: %v, %v, want mode 0600", info, err)
	}
	// The admin's file is a new one, and works.
	h.client(t, ClientOptions{}).Close()
	// The old ones do not: with a node, with the hub, as an admin.
	if _, err := certifiedKey(t, agents[1].addr, old, pki.Node, agents[1].name, peer.ProtocolData); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("a node takes an expired certificate: %v", err)
	}
	if _, err := certifiedKey(t, h.addr, old, pki.Hub, pki.HubName, peer.ProtocolControl); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("the hub takes an expired certificate: %v", err)
	}
	if _, err := Connect(testContext(t), oldAdmin, ClientOptions{}); !errors.Is(err, ErrExpired) {
		t.Errorf("an expired admin: %v", err)
	}
	// And the holder of an old one is told in a line what to do.
	err = (&Agent{Hub: h.addr, Credentials: old, Runner: newFakeRunner(), Log: testLog(t), Registration: Registration{Addr: "127.0.0.1:7"}}).Run(testContext(t))
	if !errors.Is(err, ErrExpired) || !strings.Contains(err.Error(), "the certificate of n1 (node) has expired") || !strings.Contains(err.Error(), "join again with a new token") {
		t.Errorf("an agent with an expired certificate says %v", err)
	}
}

// The hub is away when it is time to renew: the agent tries on, and ends when
// its certificate has expired. A token lets the same name in again.
func TestRenewalWithoutHub(t *testing.T) {
	noLeaks(t)
	state := t.TempDir()
	h := startHub(t, Config{State: state, Life: 3 * time.Second}, "127.0.0.1:0")
	a := joined(t, h, "n1", Registration{})
	h.stop()
	ended := make(chan error, 1)
	go func() { ended <- a.wait() }()
	select {
	case err := <-ended:
		if !errors.Is(err, ErrExpired) {
			t.Errorf("agent ended with %v, want ErrExpired", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("an agent goes on with an expired certificate")
	}
	h = startHub(t, Config{State: state, Life: time.Hour}, h.addr)
	again := joined(t, h, "n1", Registration{})
	if again.creds.Key() == a.creds.Key() {
		t.Error("joined with the old key")
	}
	// A name whose certificate is good stays taken.
	token, _, err := h.NewToken(testContext(t), 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Join(testContext(t), JoinConfig{Hub: h.addr, Token: token, Name: "n1"}); !errors.Is(err, ErrNameTaken) {
		t.Errorf("got %v, want ErrNameTaken", err)
	}
}

// A hub issues to the name that asks, one certificate a key, and few at once.
func TestRenewIsBounded(t *testing.T) {
	h := newHub(t)
	a := joined(t, h, "n1", Registration{})
	ctx := testContext(t)
	ask := func(csr []byte) (renewAnswer, error) {
		h.mu.Lock()
		h.nodes["n1"].renewals = nil // its rate is not what is looked at here
		h.mu.Unlock()
		body, _ := json.Marshal(renewRequest{string(csr)})
		return h.renew(ctx, "n1", body)
	}
	same, err := pki.NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 * maxKeys { // as if the answers got lost
		answer, err := ask(same.CSR())
		if err != nil {
			t.Fatal(err)
		}
		next, err := a.creds.Accept(same, []byte(answer.Certificate))
		if err != nil || next.Identity() != a.creds.Identity() {
			t.Fatalf("got %v, %v", next, err)
		}
	}
	var last error
	issued := 0
	for range 2 * maxKeys {
		req, err := pki.NewRequest()
		if err != nil {
			t.Fatal(err)
		}
		if _, last = ask(req.CSR()); last == nil {
			issued++
		}
	}
	if !errors.Is(last, ErrBusy) || issued != maxKeys-2 {
		t.Errorf("%d more were issued, then %v, want %d and ErrBusy", issued, last, maxKeys-2)
	}
	if _, err := ask([]byte("x")); !errors.Is(err, ErrInvalid) {
		t.Errorf("no request: got %v", err)
	}
	if _, err := h.renew(ctx, "n2", []byte("{}")); !errors.Is(err, ErrNoSuchNode) {
		t.Errorf("nobody: got %v", err)
	}
	busy := 0
	for range 20 {
		if _, err := h.renew(ctx, "n1", []byte("{}")); errors.Is(err, ErrBusy) {
			busy++
		}
	}
	if busy == 0 {
		t.Error("requests to renew are not held back")
	}
}
