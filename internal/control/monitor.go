package control

import (
	"context"

	"github.com/freshet/freshet/internal/pki"
)

// A monitor's certificate is asked for by an admin, who makes the key.
type (
	monitorRequest struct {
		Name string `json:"name"`
		CSR  string `json:"csr"` // PEM
	}
	monitorAnswer struct {
		Certificate string `json:"certificate"` // PEM
		Authority   string `json:"authority"`   // PEM
	}
)

// monitor signs a certificate with which metrics may be read, and nothing else.
func (h *Hub) monitor(ctx context.Context, r monitorRequest) (monitorAnswer, error) {
	h.keys.Lock()
	defer h.keys.Unlock()
	certPEM, err := h.authority.Issue(pki.Monitor, r.Name, []byte(r.CSR))
	if err != nil {
		return monitorAnswer{}, fail(ErrInvalid, "%v", err)
	}
	key, expires, err := pki.IssuedKey(certPEM)
	if err != nil {
		return monitorAnswer{}, err
	}
	if h.Revoked(key) {
		return monitorAnswer{}, fail(ErrInvalid, "the certificate for that key was withdrawn: make a new key")
	}
	if err := h.noteIssued(ctx, issuedKey{pki.Monitor, r.Name, key, expires}); err != nil {
		return monitorAnswer{}, err
	}
	h.log.Info("monitor's certificate issued", "monitor", r.Name)
	return monitorAnswer{Certificate: string(certPEM), Authority: string(h.authority.CertificatePEM())}, nil
}

// Monitor makes credentials with which metrics may be read, and nothing else.
// The key does not leave this process.
func (c *Client) Monitor(ctx context.Context, name string) (*pki.Credentials, error) {
	req, err := pki.NewRequest()
	if err != nil {
		return nil, err
	}
	var a monitorAnswer
	if err := c.call(ctx, "monitor", monitorRequest{name, string(req.CSR())}, &a, true); err != nil {
		return nil, err
	}
	return req.Accept([]byte(a.Certificate), []byte(a.Authority), c.cluster)
}
