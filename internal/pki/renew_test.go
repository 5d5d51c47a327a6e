package pki

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRenewAt(t *testing.T) {
	const day = 24 * time.Hour
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		life   time.Duration
		spread float64
		want   time.Duration // after the issue
	}{
		{3 * time.Second, 0, 2 * time.Second},
		{3 * time.Second, 1, 2100 * time.Millisecond},
		{30 * day, 0, 20 * day},
		{30 * day, 0.5, 20*day + 12*time.Hour},
		{30 * day, 1, 21 * day},
		{360 * day, 0, 240 * day},
		{0, 0, 0},
	} {
		if got := RenewAt(t0, t0.Add(tc.life), tc.spread).Sub(t0); (got - tc.want).Abs() > time.Millisecond {
			t.Errorf("a life of %v, spread %v: renewed after %v, want %v", tc.life, tc.spread, got, tc.want)
		}
	}
	a := authority(t)
	a.Life = 90 * day
	c := credentials(t, a, Node, "n")
	if got := time.Until(c.Expires()); got > 90*day || got < 90*day-time.Minute {
		t.Errorf("certificate lasts %v, want 90 days", got)
	}
	if got := time.Until(c.RenewAt(0)); got > 60*day || got < 60*day-time.Minute {
		t.Errorf("is to be renewed in %v, want 60 days: how far it is backdated does not count", got)
	}
}

// Configurations that were made before show the new certificate from then on,
// at both ends.
func TestReplace(t *testing.T) {
	a := authority(t)
	server, client := credentials(t, a, Node, "s"), credentials(t, a, Node, "c")
	sconf, cconf, jconf := server.ServerTLS("x"), client.ClientTLS(Node, "s", "x"), credentials(t, a, Hub, HubName)
	join := jconf.JoinServerTLS("http/1.1")
	for range 3 {
		for _, c := range []*Credentials{server, client} {
			before := c.Key()
			next := credentials(t, a, Node, c.Identity().Name)
			if err := c.Replace(next); err != nil {
				t.Fatal(err)
			}
			if c.Key() == before || c.Key() != next.Key() {
				t.Errorf("key is %s, was %s, want %s", c.Key(), before, next.Key())
			}
		}
		ss, cs, serr, cerr := handshake(t, sconf, cconf)
		if serr != nil || cerr != nil {
			t.Fatalf("handshake: server %v, client %v", serr, cerr)
		}
		if got := PeerKey(ss); got != client.Key() {
			t.Errorf("server saw the client's key %s, want %s", got, client.Key())
		}
		if got := PeerKey(cs); got != server.Key() {
			t.Errorf("client saw the server's key %s, want %s", got, server.Key())
		}
		if err := jconf.Replace(credentials(t, a, Hub, HubName)); err != nil {
			t.Fatal(err)
		}
		if _, cs, _, err := handshake(t, join, JoinTLS(a.Fingerprint())); err != nil || PeerKey(cs) != jconf.Key() {
			t.Errorf("who joins saw the hub's key %s, %v, want %s", PeerKey(cs), err, jconf.Key())
		}
	}
	path := filepath.Join(t.TempDir(), "c.pem")
	if err := client.Save(path); err != nil {
		t.Fatal(err)
	}
	if got, err := Load(path); err != nil || got.Key() != client.Key() {
		t.Errorf("saved something else than the newest: %v", err)
	}

	key := client.Key()
	for what, next := range map[string]*Credentials{
		"another name": credentials(t, a, Node, "d"), "another role": credentials(t, a, Admin, "c"),
		"another cluster": credentials(t, authority(t), Node, "c"),
	} {
		if err := client.Replace(next); err == nil || client.Key() != key {
			t.Errorf("replaced by credentials of %s: %v", what, err)
		}
	}
}

// An expired certificate is refused by either end, and its holder is told what to do.
func TestExpiredIsRefused(t *testing.T) {
	a := authority(t)
	old, fresh := aged(t, a, Node, "old", time.Now().Add(-validity-time.Hour)), credentials(t, a, Node, "fresh")
	if _, _, serr, _ := handshake(t, fresh.ServerTLS("x"), old.ClientTLS(Node, "fresh", "x")); serr == nil || !errors.Is(fresh.Explain(serr), ErrExpired) {
		t.Errorf("a server let an expired client in: %v", fresh.Explain(serr))
	}
	if _, _, _, cerr := handshake(t, old.ServerTLS("x"), fresh.ClientTLS(Node, "old", "x")); cerr == nil || !errors.Is(fresh.Explain(cerr), ErrExpired) {
		t.Errorf("a client took an expired server: %v", fresh.Explain(cerr))
	}
	if err := fresh.CheckTime(time.Now()); err != nil {
		t.Error(err)
	}
	err := old.CheckTime(time.Now())
	if !errors.Is(err, ErrExpired) || !strings.Contains(err.Error(), "the certificate of old (node) has expired") || !strings.Contains(err.Error(), "join again with a new token") {
		t.Errorf("got %v", err)
	}
}

func TestIssuedKey(t *testing.T) {
	a := authority(t)
	req, err := NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	certPEM, err := a.Issue(Node, "n", req.CSR())
	if err != nil {
		t.Fatal(err)
	}
	c, err := req.Accept(certPEM, a.CertificatePEM(), a.Fingerprint())
	if err != nil {
		t.Fatal(err)
	}
	key, expires, err := IssuedKey(certPEM)
	if err != nil || key != c.Key() || !expires.Equal(c.Expires()) {
		t.Errorf("got %s, %v, %v, want %s, %v", key, expires, err, c.Key(), c.Expires())
	}
	if _, _, err := IssuedKey([]byte("x")); err == nil {
		t.Error("read no certificate")
	}
}

// Who asks for a certificate says nothing about whose it will be.
func TestSubjectOfARequestIsIgnored(t *testing.T) {
	a := authority(t)
	req, err := NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: dnsName(Admin, "root")}, DNSNames: []string{dnsName(Admin, "root"), dnsName(Hub, HubName)},
	}, req.key)
	if err != nil {
		t.Fatal(err)
	}
	req.csr = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	certPEM, err := a.Issue(Node, "n", req.CSR())
	if err != nil {
		t.Fatal(err)
	}
	c, err := req.Accept(certPEM, a.CertificatePEM(), a.Fingerprint())
	if err != nil || c.Identity().Role != Node || c.Identity().Name != "n" || strings.Contains(c.leaf().Subject.CommonName, "admin") {
		t.Errorf("got %v, %v, want the node n", c.Identity(), err)
	}
}
