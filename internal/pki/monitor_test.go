package pki

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"
)

// TestMetricsNameIsNobody sees that the name which all servers share verifies
// as such and says nothing about who they are.
func TestMetricsNameIsNobody(t *testing.T) {
	a := authority(t)
	monitor := credentials(t, a, Monitor, "prometheus")
	for _, server := range []*Credentials{credentials(t, a, Node, "node-1"), credentials(t, a, Hub, HubName)} {
		id := server.Identity()
		client := monitor.ClientTLS(id.Role, id.Name, "http/1.1")
		client.ServerName = MetricsName
		ss, cs, serr, cerr := handshake(t, server.OpenServerTLS("http/1.1"), client)
		if serr != nil || cerr != nil {
			t.Fatalf("%v under the name %s: server %v, client %v", id, MetricsName, serr, cerr)
		}
		if got, err := PeerIdentity(cs); err != nil || got != id {
			t.Errorf("the server is %+v, %v, want %+v", got, err, id)
		}
		if got, err := PeerIdentity(ss); err != nil || got != monitor.Identity() {
			t.Errorf("the client is %+v, %v, want %+v", got, err, monitor.Identity())
		}
	}
	// Who has no certificate gets in, and has no identity; another cluster's does not.
	server := credentials(t, a, Node, "node-1")
	nobody := &tls.Config{RootCAs: pool(a.cert), ServerName: MetricsName, NextProtos: []string{"http/1.1"}}
	ss, _, serr, cerr := handshake(t, server.OpenServerTLS("http/1.1"), nobody)
	if serr != nil || cerr != nil {
		t.Fatalf("without a certificate: server %v, client %v", serr, cerr)
	}
	if id, err := PeerIdentity(ss); err == nil {
		t.Errorf("without a certificate the client is %v", id)
	}
	foreign := credentials(t, authority(t), Monitor, "prometheus").ClientTLS(Node, "node-1", "http/1.1")
	foreign.RootCAs = pool(a.cert)
	if _, _, serr, _ := handshake(t, server.OpenServerTLS("http/1.1"), foreign); serr == nil {
		t.Error("a certificate of another cluster was let in")
	}
}

// TestNamesOfCertificates sees which names make an identity: the first one does,
// and beside it nothing but MetricsName may stand, with servers.
func TestNamesOfCertificates(t *testing.T) {
	a := authority(t)
	key := credentials(t, a, Node, "n").cert.Load().PrivateKey.(*ecdsa.PrivateKey)
	for _, tc := range []struct {
		names []string
		want  string // the identity, or part of the error
		ok    bool
	}{
		{[]string{"n.node.freshet"}, "n (node)", true}, // as issued before there was a second name
		{[]string{"n.node.freshet", MetricsName}, "n (node)", true},
		{[]string{"hub.hub.freshet", MetricsName}, "hub (hub)", true},
		{[]string{"m.monitor.freshet"}, "m (monitor)", true},
		{[]string{MetricsName, "n.node.freshet"}, "exactly one name", false},
		{[]string{MetricsName}, "not NAME.ROLE", false},
		{[]string{MetricsName, MetricsName}, "not NAME.ROLE", false},
		{[]string{"n.node.freshet", "m.node.freshet"}, "exactly one name", false},
		{[]string{"n.node.freshet", MetricsName, MetricsName}, "exactly one name", false},
		{[]string{"a.admin.freshet", MetricsName}, "which is for servers", false},
		{[]string{"m.monitor.freshet", MetricsName}, "which is for servers", false},
	} {
		serial, err := serialNumber()
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: serial, DNSNames: tc.names, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		}, a.cert, key.Public(), a.key)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		id, err := identity(leaf, a.cert)
		got := id.String()
		if err != nil {
			got = err.Error()
		}
		if (err == nil) != tc.ok || !strings.Contains(got, tc.want) {
			t.Errorf("names %q: got %q, want %q", tc.names, got, tc.want)
		}
	}
}
