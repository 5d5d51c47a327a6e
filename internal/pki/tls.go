package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// OtherClusterError says that the other end's certificate was issued by another
// cluster's authority than ours.
type OtherClusterError struct {
	Theirs string // fingerprint that the other end claims, hex; empty if it claims none
	Ours   string // fingerprint, hex
}

func (e *OtherClusterError) Error() string {
	theirs := "unknown"
	if e.Theirs != "" {
		theirs = Short(e.Theirs)
	}
	return fmt.Sprintf("the other end belongs to another cluster (its authority is %s, ours is %s)", theirs, Short(e.Ours))
}

// base is what all our TLS has in common. There is no resumption: connections
// are long-lived, and a session ticket would outlive a look at the certificate.
//
// Cipher suites cannot be chosen for TLS 1.3 in Go. The server takes
// AES-128-GCM if both ends have AES in hardware, else ChaCha20-Poly1305.
func base(protocols []string) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: protocols, SessionTicketsDisabled: true}
}

// ServerTLS accepts clients with a certificate of our own cluster, whatever
// their role, that ask for one of protocols (ALPN).
func (c *Credentials) ServerTLS(protocols ...string) *tls.Config {
	conf := c.JoinServerTLS(protocols...)
	conf.ClientAuth = tls.RequireAndVerifyClientCert
	conf.ClientCAs = pool(c.ca)
	conf.VerifyConnection = func(cs tls.ConnectionState) error {
		if err := checkProtocol(cs, protocols); err != nil {
			return err
		}
		_, err := PeerIdentity(cs)
		return err
	}
	return conf
}

// JoinServerTLS presents our certificate and asks for none: for clients that
// have none yet. The authority's certificate is sent along, which is what the
// fingerprint in their token is compared with.
func (c *Credentials) JoinServerTLS(protocols ...string) *tls.Config {
	conf := base(protocols)
	conf.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.cert.Load(), nil }
	conf.VerifyConnection = func(cs tls.ConnectionState) error { return checkProtocol(cs, protocols) }
	return conf
}

// OpenServerTLS is JoinServerTLS for clients that may have a certificate of our
// own cluster or none: one that they present is verified.
func (c *Credentials) OpenServerTLS(protocols ...string) *tls.Config {
	conf := c.ServerTLS(protocols...)
	conf.ClientAuth = tls.VerifyClientCertIfGiven
	verify := conf.VerifyConnection
	conf.VerifyConnection = func(cs tls.ConnectionState) error {
		if len(cs.PeerCertificates) == 0 {
			return checkProtocol(cs, protocols)
		}
		return verify(cs)
	}
	return conf
}

// ClientTLS presents our certificate and expects the other end to be exactly
// role and name of our own cluster, and to speak one of protocols, the first best.
func (c *Credentials) ClientTLS(role Role, name string, protocols ...string) *tls.Config {
	conf := base(protocols)
	conf.RootCAs = pool(c.ca)
	conf.ServerName = dnsName(role, name)
	// Not Certificates: those are held back when the server names other
	// authorities, and the server could not say whose certificate it refused.
	conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.cert.Load(), nil }
	conf.VerifyConnection = func(cs tls.ConnectionState) error {
		if err := checkProtocol(cs, protocols); err != nil {
			return err
		}
		id, err := PeerIdentity(cs)
		if err == nil && (id.Role != role || id.Name != name) {
			err = fmt.Errorf("the other end is %v, not %v", id, Identity{Name: name, Role: role})
		}
		return err
	}
	return conf
}

func checkProtocol(cs tls.ConnectionState, protocols []string) error {
	if len(protocols) > 0 && !slices.Contains(protocols, cs.NegotiatedProtocol) {
		return fmt.Errorf("the other end does not speak %s", strings.Join(protocols, " or "))
	}
	return nil
}

// JoinTLS is for a machine that has a token and no certificate: the other end
// must be the hub of the cluster whose authority has that fingerprint. If the
// hub is another cluster's the error is *OtherClusterError.
func JoinTLS(fingerprint string) *tls.Config {
	conf := base([]string{"http/1.1"})
	conf.ServerName = dnsName(Hub, HubName)
	// Nothing is trusted yet. What replaces the standard verification is below:
	// the same one, with the authority that the fingerprint identifies.
	conf.InsecureSkipVerify = true
	conf.VerifyConnection = func(cs tls.ConnectionState) error {
		return verifyHub(cs.PeerCertificates, fingerprint, time.Now())
	}
	return conf
}

func verifyHub(chain []*x509.Certificate, want string, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("the hub presented no certificate")
	}
	i := slices.IndexFunc(chain, func(c *x509.Certificate) bool { return fingerprint(c.Raw) == want })
	if i < 1 { // absent, or the leaf itself
		return &OtherClusterError{Theirs: claimed(chain), Ours: want}
	}
	leaf, ca := chain[0], chain[i]
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: pool(ca), CurrentTime: now, DNSName: dnsName(Hub, HubName), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return explainVerify(err, chain, want, now)
	}
	return nil
}

// claimed is the fingerprint of the authority that chain says it comes from.
func claimed(chain []*x509.Certificate) string {
	if last := chain[len(chain)-1]; len(chain) > 1 && last.IsCA {
		return fingerprint(last.Raw)
	}
	return ""
}

// Explain turns an error of a TLS handshake, or of the first read after one
// (which is when TLS 1.3 tells a client that it was refused), into one that
// says in a user's words who refused whom and why. Other errors stay as they
// are; the original stays wrapped.
func (c *Credentials) Explain(err error) error {
	if verr, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return explainVerify(verr.Err, verr.UnverifiedCertificates, c.id.Cluster, time.Now())
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		if why := alerts[op.Err.Error()]; why != "" {
			return fmt.Errorf("%s (we are %v of cluster %s): %w", why, c.id, Short(c.id.Cluster), err)
		}
	}
	return err
}

// alerts are what a peer tells us by number (RFC 8446, section 6), by the words
// that crypto/tls has for them: the type is not exported.
var alerts = map[string]string{
	"tls: unknown certificate authority":  "the other end refused our certificate: it belongs to another cluster",
	"tls: expired certificate":            "the other end refused our certificate: by its clock it is expired or not valid yet",
	"tls: bad certificate":                "the other end refused our certificate",
	"tls: unsupported certificate":        "the other end refused our certificate",
	"tls: certificate required":           "the other end refused us: we presented no certificate",
	"tls: no application protocol":        "the other end does not speak our protocol: it runs another version, or is not a hub",
	"tls: protocol version not supported": "the other end does not speak TLS 1.3",
	"tls: unknown certificate":            "the other end refused our certificate",
}

// explainVerify says why the certificate chain of the other end was not
// accepted by a cluster with fingerprint ours.
func explainVerify(err error, chain []*x509.Certificate, ours string, now time.Time) error {
	if len(chain) == 0 {
		return err
	}
	leaf := chain[0]
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return &OtherClusterError{Theirs: claimed(chain), Ours: ours}
	}
	if terr := checkTime(leaf, now); terr != nil {
		return fmt.Errorf("the certificate of the other end %w", terr)
	}
	if herr, ok := errors.AsType[x509.HostnameError](err); ok {
		want, found := strings.TrimSuffix(herr.Host, suffix), strings.TrimSuffix(firstName(leaf), suffix)
		return fmt.Errorf("the other end is %q, not %q: the address leads to another machine", cut(found, 80), cut(want, 80))
	}
	if ierr, ok := errors.AsType[x509.CertificateInvalidError](err); ok && ierr.Reason == x509.IncompatibleUsage {
		return fmt.Errorf("the certificate of the other end (%q) is not for this purpose: %w", cut(firstName(leaf), 80), err)
	}
	return fmt.Errorf("the certificate of the other end was refused: %w", err)
}

// firstName is the name in a certificate that says whose it is.
func firstName(leaf *x509.Certificate) string {
	if len(leaf.DNSNames) == 0 {
		return ""
	}
	return leaf.DNSNames[0]
}
