package pki

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

const (
	authorityValidity = 10 * 365 * 24 * time.Hour
	validity          = 365 * 24 * time.Hour // of what the authority issues, unless its Life says otherwise
	backdate          = 15 * time.Minute     // clocks of machines that just booted differ by minutes; S3's signatures bear as much
)

// authorityFile holds certificate and key of the authority: one file, so that
// there is never one without the other.
const authorityFile = "authority.pem"

// Authority is a cluster's certificate authority. It does not change and may
// be used by several goroutines at once.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey

	// Life of what it issues; zero: a year. To be set before its first use.
	Life time.Duration
}

// NewAuthority makes the authority of a new cluster.
func NewAuthority() (*Authority, error) { return newAuthority(time.Now()) }

func newAuthority(now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the cluster's key: %w", err)
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	// The serial in the subject keeps the authorities of two clusters apart
	// where a verifier looks for issuers by subject.
	template := &x509.Certificate{
		SerialNumber:                serial,
		Subject:                     pkix.Name{CommonName: fmt.Sprintf("Freshet cluster %x", serial.Bytes()[:4])},
		NotBefore:                   now.Add(-backdate),
		NotAfter:                    now.Add(authorityValidity),
		IsCA:                        true,
		BasicConstraintsValid:       true,
		MaxPathLenZero:              true,
		KeyUsage:                    x509.KeyUsageCertSign,
		PermittedDNSDomainsCritical: true,
		PermittedDNSDomains:         []string{suffix[1:]},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("sign the cluster's certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("sign the cluster's certificate: %w", err)
	}
	return &Authority{cert: cert, key: key}, nil
}

// serialNumber is 127 random bits, the first of them one (RFC 5280, section
// 4.1.2.2: positive, at most 20 octets).
func serialNumber() (*big.Int, error) {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	b[0] = b[0]&0x7f | 0x40
	return new(big.Int).SetBytes(b[:]), nil
}

// LoadAuthority reads the authority that Save left in dir. The error is
// os.ErrNotExist if there is none.
func LoadAuthority(dir string) (*Authority, error) {
	path := filepath.Join(dir, authorityFile)
	b, err := readSmall(path)
	if err != nil {
		return nil, fmt.Errorf("load the cluster's authority: %w", err)
	}
	certs, key, err := parsePEM(b)
	if err != nil {
		return nil, fmt.Errorf("load the cluster's authority from %s: %w", path, err)
	}
	if len(certs) != 1 || !certs[0].IsCA || !key.PublicKey.Equal(certs[0].PublicKey) {
		return nil, fmt.Errorf("load the cluster's authority from %s: want one authority's certificate and its key", path)
	}
	if err := checkTime(certs[0], time.Now()); err != nil {
		return nil, fmt.Errorf("the cluster's authority in %s %w", path, err)
	}
	return &Authority{cert: certs[0], key: key}, nil
}

// Save writes the authority into dir, which it makes if need be, readable by
// its owner only. An authority that is there already is never overwritten: the
// error then is os.ErrExist.
func (a *Authority) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("save the cluster's authority: %w", err)
	}
	b, err := appendKey(pemCert(a.cert.Raw), a.key)
	if err != nil {
		return fmt.Errorf("save the cluster's authority: %w", err)
	}
	if err := writeFile(filepath.Join(dir, authorityFile), b, 0o600, false); err != nil {
		return fmt.Errorf("save the cluster's authority: %w", err)
	}
	return nil
}

// Fingerprint is the SHA-256 of the authority's certificate in hex: the name
// of the cluster.
func (a *Authority) Fingerprint() string { return fingerprint(a.cert.Raw) }

// CertificatePEM is the authority's certificate, which is public.
func (a *Authority) CertificatePEM() []byte { return pemCert(a.cert.Raw) }

// Issue signs a certificate for the key in csr, a PEM certificate signing
// request as Request.CSR makes it. Role and name are the caller's decision:
// whatever the request says about its subject is ignored.
func (a *Authority) Issue(role Role, name string, csr []byte) (certPEM []byte, err error) {
	return a.issue(role, name, csr, time.Now())
}

func (a *Authority) issue(role Role, name string, csr []byte, now time.Time) ([]byte, error) {
	if err := checkRole(role, name); err != nil {
		return nil, fmt.Errorf("issue a certificate: %w", err)
	}
	pub, err := requestedKey(csr)
	if err != nil {
		return nil, fmt.Errorf("issue a certificate to %s: %w", name, err)
	}
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	dns := dnsName(role, name)
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: dns},
		DNSNames:              dnsNames(role, name),
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(cmp.Or(a.Life, validity)),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           usages(role),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, pub, a.key)
	if err != nil {
		return nil, fmt.Errorf("issue a certificate to %s: %w", name, err)
	}
	return pemCert(der), nil
}

func usages(role Role) []x509.ExtKeyUsage {
	switch role {
	case Hub:
		return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	case Admin, Monitor:
		return []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
}

// maxCSR bounds what is decoded for somebody who has only shown a token.
const maxCSR = 8 << 10

func requestedKey(csr []byte) (*ecdsa.PublicKey, error) {
	if len(csr) > maxCSR {
		return nil, fmt.Errorf("signing request of %d bytes is too long", len(csr))
	}
	block, _ := pem.Decode(csr)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("no PEM certificate signing request")
	}
	req, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("signing request: %w", err)
	}
	if err := req.CheckSignature(); err != nil { // proves that the sender has the key
		return nil, fmt.Errorf("signing request: %w", err)
	}
	pub, ok := req.PublicKey.(*ecdsa.PublicKey)
	if !ok || pub.Curve != elliptic.P256() {
		return nil, errors.New("signing request: key is not ECDSA P-256")
	}
	return pub, nil
}

// NewCredentials makes a key here and signs it: for the hub itself and for the
// admin credential that the hub writes.
func (a *Authority) NewCredentials(role Role, name string) (*Credentials, error) {
	req, err := NewRequest()
	if err != nil {
		return nil, err
	}
	certPEM, err := a.Issue(role, name, req.CSR())
	if err != nil {
		return nil, err
	}
	return req.Accept(certPEM, a.CertificatePEM(), a.Fingerprint())
}
