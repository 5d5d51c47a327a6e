package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// What is wrong with a certificate whose time is not now. The text of an error
// that wraps them says by how much.
var (
	ErrExpired     = errors.New("has expired")
	ErrNotYetValid = errors.New("is not valid yet")
)

// Credentials are a certificate, its key and the authority that signed it: all
// that a process needs to prove who it is and to tell its own cluster from
// others. Who they are of never changes; certificate and key may be replaced by
// newer ones at any time, and every handshake from then on uses those. They may
// be used by several goroutines at once.
type Credentials struct {
	id   Identity
	ca   *x509.Certificate
	cert atomic.Pointer[tls.Certificate] // leaf and authority, with the key
}

func (c *Credentials) leaf() *x509.Certificate { return c.cert.Load().Leaf }

// Request is a key made on this machine, which never leaves it, waiting for
// its certificate.
type Request struct {
	key *ecdsa.PrivateKey
	csr []byte
}

// NewRequest makes a key and the signing request for it.
func NewRequest() (*Request, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("make a signing request: %w", err)
	}
	return &Request{key: key, csr: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}, nil
}

// CSR is the signing request in PEM: public.
func (r *Request) CSR() []byte { return r.csr }

// Accept completes the credentials with what the hub answered: the certificate
// and the authority's, both PEM. The authority must be the one with that
// fingerprint, and the certificate must be for our key.
func (r *Request) Accept(certPEM, caPEM []byte, fingerprint string) (*Credentials, error) {
	b, err := appendKey(append(append([]byte(nil), certPEM...), caPEM...), r.key)
	if err != nil {
		return nil, fmt.Errorf("accept a certificate: %w", err)
	}
	c, err := parseCredentials(b, time.Now())
	if err != nil {
		return nil, fmt.Errorf("accept a certificate: %w", err)
	}
	if c.id.Cluster != fingerprint {
		return nil, fmt.Errorf("accept a certificate: %w", &OtherClusterError{Theirs: c.id.Cluster, Ours: fingerprint})
	}
	return c, nil
}

// Accept completes, with the certificate in PEM that the hub answered, a request
// for credentials like these.
func (c *Credentials) Accept(r *Request, certPEM []byte) (*Credentials, error) {
	return r.Accept(certPEM, pemCert(c.ca.Raw), c.id.Cluster)
}

// Identity is who we are.
func (c *Credentials) Identity() Identity { return c.id }

// Expires is when the certificate stops being valid.
func (c *Credentials) Expires() time.Time { return c.leaf().NotAfter }

// Key names the certificate's public key, as PeerKey does at the other end.
func (c *Credentials) Key() string { return keyOf(c.leaf()) }

// CheckTime is nil, or says with ErrExpired or ErrNotYetValid whose certificate
// is not valid now, and what to do.
func (c *Credentials) CheckTime(now time.Time) error {
	if err := checkTime(c.leaf(), now); err != nil {
		return fmt.Errorf("the certificate of %v %w", c.id, err)
	}
	return nil
}

// Replace makes next's certificate and key ours. Handshakes from now on show
// it, also those of configurations that were made before; connections that are
// open stay as they are. The certificate has to be of the same name, role and
// cluster.
func (c *Credentials) Replace(next *Credentials) error {
	if next.id != c.id {
		return fmt.Errorf("replace the certificate of %v of cluster %s by that of %v of cluster %s", c.id, Short(c.id.Cluster), next.id, Short(next.id.Cluster))
	}
	c.cert.Store(next.cert.Load())
	return nil
}

// RenewAt is when the certificate is to be renewed, by the rule of the same
// name.
func (c *Credentials) RenewAt(spread float64) time.Time {
	leaf := c.leaf()
	return RenewAt(leaf.NotBefore.Add(backdate), leaf.NotAfter, spread)
}

// RenewAt is when a certificate issued at that time is to be renewed: at two
// thirds of its life. spread, from 0 to 1 and of each process its own, adds up
// to a thirtieth of the life, so that nodes that joined together do not all
// come back together.
func RenewAt(issued, expires time.Time, spread float64) time.Time {
	life := expires.Sub(issued)
	return issued.Add(time.Duration(float64(life) * (20 + spread) / 30))
}

// Save writes the credentials to a file that only its owner can read, in place
// of an older one if there is one.
func (c *Credentials) Save(path string) error {
	cert := c.cert.Load()
	b := append(pemCert(cert.Leaf.Raw), pemCert(c.ca.Raw)...)
	b, err := appendKey(b, cert.PrivateKey.(*ecdsa.PrivateKey))
	if err == nil {
		err = WriteFile(path, b)
	}
	if err != nil {
		return fmt.Errorf("save credentials: %w", err)
	}
	return nil
}

// PEM is what Save writes in three parts, for programs that want a file of each:
// the certificate, its key, and the authority's certificate.
func (c *Credentials) PEM() (cert, key, authority []byte, err error) {
	now := c.cert.Load()
	key, err = appendKey(nil, now.PrivateKey.(*ecdsa.PrivateKey))
	return pemCert(now.Leaf.Raw), key, pemCert(c.ca.Raw), err
}

// Load reads what Save wrote. The error is os.ErrNotExist if there is nothing,
// and ErrExpired or ErrNotYetValid if the certificate's time is not now.
func Load(path string) (*Credentials, error) {
	b, err := readSmall(path)
	if err != nil {
		return nil, fmt.Errorf("load credentials: %w", err)
	}
	c, err := parseCredentials(b, time.Now())
	if err != nil {
		return nil, fmt.Errorf("load credentials from %s: %w", path, err)
	}
	return c, nil
}

// parseCredentials reads leaf, authority and key from PEM and verifies that
// they belong together.
func parseCredentials(b []byte, now time.Time) (*Credentials, error) {
	certs, key, err := parsePEM(b)
	if err != nil {
		return nil, err
	}
	if len(certs) != 2 {
		return nil, fmt.Errorf("want a certificate and its authority's, found %d certificates", len(certs))
	}
	leaf, ca := certs[0], certs[1]
	if !key.PublicKey.Equal(leaf.PublicKey) {
		return nil, errors.New("certificate and key do not belong together")
	}
	if err := checkTime(leaf, now); err != nil {
		return nil, fmt.Errorf("certificate %w", err)
	}
	if err := checkTime(ca, now); err != nil {
		return nil, fmt.Errorf("the cluster's authority %w", err)
	}
	_, err = leaf.Verify(x509.VerifyOptions{Roots: pool(ca), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return nil, fmt.Errorf("certificate was not issued by the authority beside it: %w", err)
	}
	id, err := identity(leaf, ca)
	if err != nil {
		return nil, err
	}
	c := &Credentials{id: id, ca: ca}
	c.cert.Store(&tls.Certificate{Certificate: [][]byte{leaf.Raw, ca.Raw}, PrivateKey: key, Leaf: leaf})
	return c, nil
}

// checkTime is nil, or says with ErrExpired or ErrNotYetValid when cert is valid
// and what this machine takes for the time.
func checkTime(cert *x509.Certificate, now time.Time) error {
	stamp := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	switch {
	case now.Before(cert.NotBefore):
		return fmt.Errorf("%w: it starts at %s and here it is %s; check this machine's clock", ErrNotYetValid, stamp(cert.NotBefore), stamp(now))
	case now.After(cert.NotAfter):
		return fmt.Errorf("%w: it ended at %s and here it is %s; join again with a new token, or check this machine's clock", ErrExpired, stamp(cert.NotAfter), stamp(now))
	}
	return nil
}

// parsePEM reads certificates and exactly one P-256 key, in any order of kinds.
func parsePEM(b []byte) (certs []*x509.Certificate, key *ecdsa.PrivateKey, err error) {
	for {
		var block *pem.Block
		block, b = pem.Decode(b)
		if block == nil {
			break
		}
		switch block.Type {
		case "CERTIFICATE":
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, nil, fmt.Errorf("certificate: %w", err)
			}
			certs = append(certs, cert)
		case "PRIVATE KEY":
			k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return nil, nil, errors.New("private key: cannot be read") // nothing of a key into an error
			}
			ec, ok := k.(*ecdsa.PrivateKey)
			if !ok || ec.Curve != elliptic.P256() || key != nil {
				return nil, nil, errors.New("private key: want one ECDSA P-256 key")
			}
			key = ec
		default:
			return nil, nil, fmt.Errorf("unexpected PEM block %q", cut(block.Type, 40))
		}
	}
	if len(certs) == 0 || key == nil {
		return nil, nil, errors.New("want PEM certificates and a private key; the file is empty, cut short or something else")
	}
	return certs, key, nil
}

func pemCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func appendKey(b []byte, key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return append(b, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})...), nil
}

func pool(ca *x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(ca)
	return p
}
