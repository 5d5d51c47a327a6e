package pki

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func authority(t *testing.T) *Authority {
	t.Helper()
	a, err := newAuthority(time.Now().Add(-2 * validity)) // so that it can sign certificates that are old by now
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func credentials(t *testing.T, a *Authority, role Role, name string) *Credentials {
	t.Helper()
	c, err := a.NewCredentials(role, name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// aged are credentials issued at that time, which Load would refuse.
func aged(t *testing.T, a *Authority, role Role, name string, issued time.Time) *Credentials {
	t.Helper()
	req, err := NewRequest()
	if err != nil {
		t.Fatal(err)
	}
	certPEM, err := a.issue(role, name, req.CSR(), issued)
	if err != nil {
		t.Fatal(err)
	}
	b, err := appendKey(append(certPEM, a.CertificatePEM()...), req.key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := parseCredentials(b, issued)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// handshake runs both ends over a real socket and exchanges a byte each way,
// so that a client sees what TLS 1.3 tells it only after its handshake.
func handshake(t *testing.T, server, client *tls.Config) (ss, cs tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	talk := func(c *tls.Conn) (tls.ConnectionState, error) {
		defer c.Close()
		c.SetDeadline(time.Now().Add(10 * time.Second))
		if err := c.Handshake(); err != nil {
			return tls.ConnectionState{}, err
		}
		if _, err := c.Write([]byte{1}); err != nil {
			return c.ConnectionState(), err
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return c.ConnectionState(), err
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		raw, err := ln.Accept()
		if err != nil {
			serverErr = err
			return
		}
		ss, serverErr = talk(tls.Server(raw, server))
	})
	raw, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	cs, clientErr = talk(tls.Client(raw, client))
	wg.Wait()
	return ss, cs, serverErr, clientErr
}

func TestHandshakeTellsBothEndsWhoTheOtherIs(t *testing.T) {
	a := authority(t)
	for _, client := range []*Credentials{credentials(t, a, Node, "node-1"), credentials(t, a, Admin, "root")} {
		server := credentials(t, a, Node, "node-2")
		ss, cs, serr, cerr := handshake(t, server.ServerTLS("x/1", "y/1"), client.ClientTLS(Node, "node-2", "y/1"))
		if serr != nil || cerr != nil {
			t.Fatalf("handshake: server %v, client %v", serr, cerr)
		}
		if got, err := PeerIdentity(ss); err != nil || got != client.Identity() {
			t.Errorf("server sees %+v, %v, want %+v", got, err, client.Identity())
		}
		if got, err := PeerIdentity(cs); err != nil || got != server.Identity() {
			t.Errorf("client sees %+v, %v, want %+v", got, err, server.Identity())
		}
		if got := client.Identity().Cluster; got != a.Fingerprint() {
			t.Errorf("cluster is %s, want %s", got, a.Fingerprint())
		}
		if cs.Version != tls.VersionTLS13 || cs.NegotiatedProtocol != "y/1" {
			t.Errorf("negotiated version %x and %q, want TLS 1.3 and y/1", cs.Version, cs.NegotiatedProtocol)
		}
	}
}

// A connection is never taken up again by a ticket, which would pass by a look at the certificate.
func TestNoSessionTickets(t *testing.T) {
	a := authority(t)
	server := credentials(t, a, Node, "node-2").ServerTLS("x")
	client := credentials(t, a, Node, "node-1").ClientTLS(Node, "node-2", "x")
	client.SessionTicketsDisabled, client.ClientSessionCache = false, tls.NewLRUClientSessionCache(1) // a client that would like to
	for range 2 {
		ss, cs, serr, cerr := handshake(t, server, client)
		if serr != nil || cerr != nil {
			t.Fatalf("handshake: server %v, client %v", serr, cerr)
		}
		if ss.DidResume || cs.DidResume {
			t.Error("a session was resumed")
		}
	}
}

func TestHandshakeRefusals(t *testing.T) {
	a, other := authority(t), authority(t)
	node1, node2 := credentials(t, a, Node, "node-1"), credentials(t, a, Node, "node-2")
	hub, admin := credentials(t, a, Hub, HubName), credentials(t, a, Admin, "root")
	stranger := credentials(t, other, Node, "node-2")
	old := aged(t, a, Node, "node-2", time.Now().Add(-validity-time.Hour))
	young := aged(t, a, Node, "node-2", time.Now().Add(time.Hour))
	shortA, shortOther := Short(a.Fingerprint()), Short(other.Fingerprint())

	for _, tc := range []struct {
		name           string
		server, client *tls.Config
		serverC        *Credentials
		clientC        *Credentials
		atServer       []string // what the server's error says; nil: whatever
		atClient       []string
	}{
		{"server of another cluster", stranger.ServerTLS("x"), node1.ClientTLS(Node, "node-2", "x"), stranger, node1,
			nil, []string{"another cluster", shortA, shortOther}},
		{"client of another cluster", node1.ServerTLS("x"), func() *tls.Config {
			c := stranger.ClientTLS(Node, "node-1", "x")
			c.RootCAs = pool(a.cert) // so that only the server refuses
			return c
		}(), node1, stranger, []string{"another cluster", shortA, shortOther}, []string{"refused our certificate", "another cluster", shortOther}},
		{"wrong name", node2.ServerTLS("x"), node1.ClientTLS(Node, "node-3", "x"), node2, node1,
			nil, []string{`is "node-2.node", not "node-3.node"`, "another machine"}},
		{"node where a hub is expected", node2.ServerTLS("x"), node1.ClientTLS(Hub, HubName, "x"), node2, node1,
			nil, []string{`is "node-2.node", not "hub.hub"`}},
		{"admin as a server", admin.ServerTLS("x"), node1.ClientTLS(Admin, "root", "x"), admin, node1,
			nil, []string{"not for this purpose"}},
		{"hub as a client", node1.ServerTLS("x"), hub.ClientTLS(Node, "node-1", "x"), node1, hub,
			[]string{"not for this purpose", "hub.hub"}, []string{"refused our certificate"}},
		{"server expired", old.ServerTLS("x"), node1.ClientTLS(Node, "node-2", "x"), old, node1,
			nil, []string{"has expired", "clock"}},
		{"server of tomorrow", young.ServerTLS("x"), node1.ClientTLS(Node, "node-2", "x"), young, node1,
			nil, []string{"not valid yet", "clock"}},
		{"client expired", node1.ServerTLS("x"), old.ClientTLS(Node, "node-1", "x"), node1, old,
			[]string{"has expired"}, []string{"refused our certificate", "expired"}},
		{"no client certificate", node1.ServerTLS("x"), func() *tls.Config {
			c := node2.ClientTLS(Node, "node-1", "x")
			c.GetClientCertificate = nil
			return c
		}(), node1, node2, []string{"client didn't provide a certificate"}, []string{"presented no certificate"}},
		{"another protocol", node1.ServerTLS("x/2"), node2.ClientTLS(Node, "node-1", "x/1"), node1, node2,
			[]string{"x/1"}, []string{"does not speak our protocol"}},
		{"no protocol named", node1.ServerTLS("x"), func() *tls.Config {
			c := node2.ClientTLS(Node, "node-1", "x")
			c.NextProtos = nil
			return c
		}(), node1, node2, nil, []string{"does not speak x"}},
		{"TLS 1.2", node1.ServerTLS("x"), func() *tls.Config {
			c := node2.ClientTLS(Node, "node-1", "x")
			c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
			return c
		}(), node1, node2, nil, []string{"TLS 1.3"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, serr, cerr := handshake(t, tc.server, tc.client)
			check := func(end string, c *Credentials, err error, want []string) {
				if err == nil {
					t.Errorf("%s accepted, want an error", end)
					return
				}
				got := c.Explain(err).Error()
				for _, w := range want {
					if !strings.Contains(got, w) {
						t.Errorf("%s says %q, want it to say %q", end, got, w)
					}
				}
			}
			check("server", tc.serverC, serr, tc.atServer)
			check("client", tc.clientC, cerr, tc.atClient)
		})
	}
}

func TestJoin(t *testing.T) {
	a, other := authority(t), authority(t)
	hub := credentials(t, a, Hub, HubName)
	if _, cs, serr, cerr := handshake(t, hub.JoinServerTLS("http/1.1"), JoinTLS(a.Fingerprint())); serr != nil || cerr != nil {
		t.Fatalf("join: server %v, client %v", serr, cerr)
	} else if cs.NegotiatedProtocol != "http/1.1" {
		t.Errorf("negotiated %q, want http/1.1", cs.NegotiatedProtocol)
	}

	_, _, _, err := handshake(t, hub.JoinServerTLS("http/1.1"), JoinTLS(other.Fingerprint()))
	oc, ok := errors.AsType[*OtherClusterError](err)
	if !ok || oc.Theirs != a.Fingerprint() || oc.Ours != other.Fingerprint() {
		t.Errorf("joining the hub of another cluster: %v, want OtherClusterError with both fingerprints", err)
	}

	node := credentials(t, a, Node, "node-1") // in the cluster, and pretends to be its hub
	if _, _, _, err = handshake(t, node.JoinServerTLS("http/1.1"), JoinTLS(a.Fingerprint())); err == nil || !strings.Contains(err.Error(), `is "node-1.node", not "hub.hub"`) {
		t.Errorf("joining a node: %v, want that it is not the hub", err)
	}

	old := aged(t, a, Hub, HubName, time.Now().Add(-validity-time.Hour))
	if _, _, _, err = handshake(t, old.JoinServerTLS("http/1.1"), JoinTLS(a.Fingerprint())); !errors.Is(err, ErrExpired) {
		t.Errorf("joining an expired hub: %v, want ErrExpired", err)
	}

	// A stranger that sends the right authority beside a certificate of its own making.
	forged := credentials(t, other, Hub, HubName)
	forged.cert.Store(&tls.Certificate{Certificate: [][]byte{forged.leaf().Raw, a.cert.Raw}, PrivateKey: forged.cert.Load().PrivateKey, Leaf: forged.leaf()})
	if _, _, _, err = handshake(t, forged.JoinServerTLS("http/1.1"), JoinTLS(a.Fingerprint())); err == nil {
		t.Error("joined a hub whose certificate the authority did not sign")
	}
	// The authority's certificate as a leaf is no hub either.
	if err := verifyHub([]*x509.Certificate{a.cert}, a.Fingerprint(), time.Now()); err == nil {
		t.Error("the authority itself was taken for the hub")
	}
	if err := verifyHub(nil, a.Fingerprint(), time.Now()); err == nil {
		t.Error("no certificate was taken for the hub's")
	}
}

func TestAuthorityOnlySignsForItsOwnDomain(t *testing.T) {
	a := authority(t)
	req, _ := NewRequest()
	pub, _ := requestedKey(req.CSR())
	serial, _ := serialNumber()
	template := &x509.Certificate{SerialNumber: serial, DNSNames: []string{"example.org"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, pub, a.key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, _ := x509.ParseCertificate(der)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool(a.cert), DNSName: "example.org"}); err == nil {
		t.Error("a certificate for example.org was accepted, want the authority's name constraint to refuse it")
	}
}

func TestIssueRefuses(t *testing.T) {
	a := authority(t)
	good, _ := NewRequest()
	tampered := func() []byte {
		b, _ := pem.Decode(good.CSR())
		c := append([]byte(nil), b.Bytes...)
		c[len(c)-1] ^= 1
		return pem.EncodeToMemory(&pem.Block{Type: b.Type, Bytes: c})
	}()
	_, edKey, _ := ed25519.GenerateKey(rand.Reader)
	p384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	csr := func(key any) []byte {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
	for _, tc := range []struct {
		role Role
		name string
		csr  []byte
		want string
	}{
		{Node, "", good.CSR(), "want 1 to 63"},
		{Node, "Node", good.CSR(), "want 1 to 63"},
		{Node, "a.b", good.CSR(), "want 1 to 63"},
		{Node, "-a", good.CSR(), "want 1 to 63"},
		{Node, "a-", good.CSR(), "want 1 to 63"},
		{Node, "*", good.CSR(), "want 1 to 63"},
		{Node, strings.Repeat("a", 64), good.CSR(), "want 1 to 63"},
		{Node, "a\nb", good.CSR(), `"a\nb"`},
		{Hub, "node-1", good.CSR(), "the hub is named"},
		{"root", "node-1", good.CSR(), "no role"},
		{Node, "node-1", nil, "no PEM"},
		{Node, "node-1", []byte("garbage"), "no PEM"},
		{Node, "node-1", make([]byte, maxCSR+1), "too long"},
		{Node, "node-1", tampered, "signing request"},
		{Node, "node-1", csr(edKey), "not ECDSA P-256"},
		{Node, "node-1", csr(p384), "not ECDSA P-256"},
	} {
		if _, err := a.Issue(tc.role, tc.name, tc.csr); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("issue to %s %q: %v, want it to say %q", tc.role, tc.name, err, tc.want)
		}
	}
	if err := CheckName(strings.Repeat("a", 63)); err != nil {
		t.Error(err)
	}
}

func TestCertificateTimes(t *testing.T) {
	a := authority(t)
	c := credentials(t, a, Node, "node-1")
	leaf := c.leaf()
	if got := time.Since(leaf.NotBefore); got < backdate-time.Minute || got > backdate+time.Minute {
		t.Errorf("certificate began %v ago, want %v", got, backdate)
	}
	if got := time.Until(c.Expires()); got < validity-time.Minute || got > validity {
		t.Errorf("certificate lasts %v, want %v", got, validity)
	}
	if got := time.Until(a.cert.NotAfter); got < 7*365*24*time.Hour {
		t.Errorf("authority lasts %v more, want 8 of 10 years", got)
	}
}

func TestAuthoritySaveAndLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "ca")
	if _, err := LoadAuthority(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("load from nowhere: %v, want os.ErrNotExist", err)
	}
	a := authority(t)
	if err := a.Save(dir); err != nil {
		t.Fatal(err)
	}
	if err := authority(t).Save(dir); !errors.Is(err, os.ErrExist) {
		t.Errorf("save over another authority: %v, want os.ErrExist", err)
	}
	b, err := LoadAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	if b.Fingerprint() != a.Fingerprint() {
		t.Errorf("loaded %s, want %s", b.Fingerprint(), a.Fingerprint())
	}
	if _, _, serr, cerr := handshake(t, credentials(t, a, Node, "a").ServerTLS("x"), credentials(t, b, Node, "b").ClientTLS(Node, "a", "x")); serr != nil || cerr != nil {
		t.Errorf("certificates from before and after loading: server %v, client %v", serr, cerr)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 {
		t.Errorf("directory has %v, want one file", entries)
	}
	if info, _ := entries[0].Info(); info.Mode() != 0o600 {
		t.Errorf("authority file has mode %v, want -rw-------", info.Mode())
	}

	path := filepath.Join(dir, authorityFile)
	whole, _ := os.ReadFile(path)
	for _, bad := range [][]byte{nil, whole[:len(whole)/2], []byte("x"), append(whole, whole...)} {
		os.WriteFile(path, bad, 0o600)
		if _, err := LoadAuthority(dir); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("load %d bytes of a %d byte file: %v, want an error that names the file", len(bad), len(whole), err)
		}
	}
}

func TestCredentialsSaveAndLoad(t *testing.T) {
	a := authority(t)
	path := filepath.Join(t.TempDir(), "node.pem")
	for _, name := range []string{"node-1", "node-2"} { // the second replaces the first
		c := credentials(t, a, Node, name)
		if err := c.Save(path); err != nil {
			t.Fatal(err)
		}
		got, err := Load(path)
		if err != nil || got.Identity() != c.Identity() || !got.Expires().Equal(c.Expires()) {
			t.Errorf("loaded %v, %v, want %v", got, err, c.Identity())
		}
	}
	if info, _ := os.Stat(path); info.Mode() != 0o600 {
		t.Errorf("credentials file has mode %v, want -rw-------", info.Mode())
	}

	if err := aged(t, a, Node, "n", time.Now().Add(-validity-time.Hour)).Save(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); !errors.Is(err, ErrExpired) || !strings.Contains(err.Error(), "new token") || !strings.Contains(err.Error(), path) {
		t.Errorf("load expired credentials: %v, want ErrExpired, what to do and the file", err)
	}
	if err := aged(t, a, Node, "n", time.Now().Add(time.Hour)).Save(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); !errors.Is(err, ErrNotYetValid) || !strings.Contains(err.Error(), "it starts at ") || !strings.Contains(err.Error(), "; check this machine's clock") {
		t.Errorf("load credentials of the future: %v, want ErrNotYetValid and a word on the clock", err)
	}

	os.WriteFile(path, make([]byte, 1<<20), 0o600)
	if _, err := Load(path); err == nil {
		t.Error("loaded a megabyte of zeros")
	}
}

func TestAcceptRefuses(t *testing.T) {
	a, other := authority(t), authority(t)
	req, _ := NewRequest()
	mine, _ := a.Issue(Node, "node-1", req.CSR())
	foreign, _ := other.Issue(Node, "node-1", req.CSR())
	stranger, _ := NewRequest()
	theirs, _ := a.Issue(Node, "node-1", stranger.CSR())
	if _, err := req.Accept(mine, a.CertificatePEM(), a.Fingerprint()); err != nil {
		t.Fatal(err)
	}
	for name, accept := range map[string]func() (*Credentials, error){
		"for another key":          func() (*Credentials, error) { return req.Accept(theirs, a.CertificatePEM(), a.Fingerprint()) },
		"from another cluster":     func() (*Credentials, error) { return req.Accept(foreign, other.CertificatePEM(), a.Fingerprint()) },
		"with the wrong authority": func() (*Credentials, error) { return req.Accept(foreign, a.CertificatePEM(), a.Fingerprint()) },
		"without an authority":     func() (*Credentials, error) { return req.Accept(mine, nil, a.Fingerprint()) },
		"that is garbage":          func() (*Credentials, error) { return req.Accept([]byte("x"), []byte("y"), a.Fingerprint()) },
		"with two certificates for a while": func() (*Credentials, error) {
			return req.Accept(append(mine, mine...), a.CertificatePEM(), a.Fingerprint())
		},
	} {
		if _, err := accept(); err == nil {
			t.Errorf("accepted a certificate %s", name)
		}
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	token, err := NewToken(authority(t).Fingerprint())
	if err != nil {
		t.Fatal(err)
	}
	hex := fmt.Sprintf("%x", token.Secret[:])
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		if got := fmt.Sprintf(format, struct{ T Token }{token}); strings.Contains(got, hex) || strings.Contains(got, fmt.Sprint([16]byte(token.Secret))) {
			t.Errorf("%s prints %s, want no secret", format, got)
		}
	}
}
