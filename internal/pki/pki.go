// Package pki is who is who in a cluster: one certificate authority of its
// own, certificates for its four roles, and the tokens that let a machine in.
//
//	Authority        self-signed, ECDSA P-256, 10 years, only on the hub's disk;
//	   │             its SHA-256 fingerprint is the cluster's name
//	   ├── hub.hub.freshet        server         the control plane
//	   ├── NAME.node.freshet      server+client  a machine with an agent
//	   ├── NAME.admin.freshet     client         may submit jobs and issue tokens
//	   └── NAME.monitor.freshet   client         may read metrics
//
// Role and name stand in the first DNS name of a certificate, so the standard
// library's chain and host name verification is all that decides who somebody
// is; nothing is parsed by us before it has been verified. The authority is
// constrained to names under "freshet" (RFC 5280, section 4.2.1.10): if its
// key is stolen it still cannot speak for any other host. Hub and nodes carry a
// second name, MetricsName, which says nothing about who they are: Prometheus
// verifies one name for all of its targets.
//
// A machine that joins has no certificate and does not know the authority. It
// has a Token, which names the authority by fingerprint: JoinTLS verifies the
// hub against that, before the token's secret is sent. The machine makes its
// key itself (Request); only the signing request and the certificate travel.
//
// A certificate is good for a year, and renewed at two thirds of that
// (Credentials.Replace). There is no revocation list in the X.509 sense: who
// was removed from the cluster is a list of keys (PeerKey) that the hub keeps
// and every node has, see packages control and peer.
package pki

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Role is what the holder of a certificate may do.
type Role string

// The roles.
const (
	Hub   Role = "hub"   // the control plane; its name is HubName
	Node  Role = "node"  // receives, serves, reports; neither submits jobs nor issues tokens
	Admin Role = "admin" // submits jobs, issues tokens

	// Monitor reads metrics over HTTP, and nothing else.
	Monitor Role = "monitor"
)

// HubName is the name that every hub's certificate carries.
const HubName = "hub"

// MetricsName is the name that all who serve metrics have in common. It is
// nobody's identity: NAME.ROLE has a dot more.
const MetricsName = "metrics" + suffix

// suffix ends the DNS name of every certificate.
const suffix = ".freshet"

// Identity is who a verified certificate belongs to.
type Identity struct {
	Name    string
	Role    Role
	Cluster string // fingerprint of the authority, hex
}

// String is "node-3 (node)".
func (id Identity) String() string { return id.Name + " (" + string(id.Role) + ")" }

// CheckName says whether s can be the name of a node or an admin: one label
// as of RFC 1123, in lower case.
func CheckName(s string) error {
	ok := len(s) >= 1 && len(s) <= 63 && s[0] != '-' && s[len(s)-1] != '-'
	for i := 0; ok && i < len(s); i++ {
		c := s[i]
		ok = c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-'
	}
	if !ok {
		return fmt.Errorf("name %q: want 1 to 63 lower-case letters, digits and inner hyphens, such as \"node-1\"", cut(s, 80))
	}
	return nil
}

func checkRole(role Role, name string) error {
	switch role {
	case Node, Admin, Monitor:
	case Hub:
		if name != HubName {
			return fmt.Errorf("the hub is named %q, not %q", HubName, cut(name, 80))
		}
	default:
		return fmt.Errorf("no role %q: want hub, node, admin or monitor", cut(string(role), 20))
	}
	return CheckName(name)
}

// dnsName is the DNS name that says who a certificate of that role and name belongs to.
func dnsName(role Role, name string) string { return name + "." + string(role) + suffix }

// dnsNames are all the DNS names in a certificate of that role and name.
func dnsNames(role Role, name string) []string {
	if role == Hub || role == Node {
		return []string{dnsName(role, name), MetricsName}
	}
	return []string{dnsName(role, name)}
}

// PeerIdentity is who the other end of a connection is. It is an error if that
// end presented no certificate or none that was verified.
func PeerIdentity(cs tls.ConnectionState) (Identity, error) {
	if len(cs.VerifiedChains) == 0 {
		return Identity{}, errors.New("the other end presented no certificate that could be verified")
	}
	chain := cs.VerifiedChains[0]
	return identity(chain[0], chain[len(chain)-1])
}

// PeerKey names the public key that the other end has proved to hold: its
// SHA-256 in hex. Every certificate that is issued is for a key of its own, so
// it names the certificate, too. Empty if there was none.
func PeerKey(cs tls.ConnectionState) string {
	if len(cs.PeerCertificates) == 0 {
		return ""
	}
	return keyOf(cs.PeerCertificates[0])
}

func keyOf(cert *x509.Certificate) string { return fingerprint(cert.RawSubjectPublicKeyInfo) }

// IssuedKey is what PeerKey will say of a PEM certificate that Issue made, and
// until when it is good.
func IssuedKey(certPEM []byte) (key string, expires time.Time, err error) {
	block, _ := pem.Decode(certPEM)
	if block == nil {
		return "", time.Time{}, errors.New("no PEM certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", time.Time{}, err
	}
	return keyOf(cert), cert.NotAfter, nil
}

// identity reads a verified leaf. Our authority puts one name into a
// certificate, and MetricsName after it into those of servers; anything else was
// not issued by Authority.Issue.
func identity(leaf, ca *x509.Certificate) (Identity, error) {
	second := len(leaf.DNSNames) == 2 && leaf.DNSNames[1] == MetricsName
	if len(leaf.DNSNames) != 1 && !second || len(leaf.IPAddresses)+len(leaf.URIs)+len(leaf.EmailAddresses) > 0 {
		return Identity{}, errors.New("certificate does not carry exactly one name")
	}
	dns := leaf.DNSNames[0]
	base, ok := strings.CutSuffix(dns, suffix)
	name, role, ok2 := strings.Cut(base, ".")
	if !ok || !ok2 {
		return Identity{}, fmt.Errorf("certificate carries the name %q, not NAME.ROLE%s", cut(dns, 80), suffix)
	}
	if err := checkRole(Role(role), name); err != nil {
		return Identity{}, fmt.Errorf("certificate: %w", err)
	}
	if second && len(dnsNames(Role(role), name)) != 2 {
		return Identity{}, fmt.Errorf("certificate of %s (%s) carries the name %s, which is for servers", name, role, MetricsName)
	}
	return Identity{Name: name, Role: Role(role), Cluster: fingerprint(ca.Raw)}, nil
}

// fingerprint is the SHA-256 of something in DER, in hex.
func fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// Short is as much of a fingerprint as a person compares.
func Short(fingerprint string) string { return cut(fingerprint, 12) }

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
