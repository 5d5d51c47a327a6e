package control

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/pki"
)

// AdminFile is the name of the admin's credential in the hub's state directory.
//
// It is PEM as pki.Credentials.Save writes it, after a preamble of lines; of
// those "hub: HOST:PORT" says where the hub is, and the rest is for the eye.
const AdminFile = "admin.pem"

// adminName is in the certificate of the credential that the hub writes.
const adminName = "admin"

// Admin is what a Client needs to get to the hub of a cluster and to be let in.
type Admin struct {
	Hub         string // HOST:PORT
	Credentials *pki.Credentials
}

// LoadAdmin reads what Hub.WriteAdmin wrote. The error is os.ErrNotExist if
// there is no such file.
func LoadAdmin(path string) (Admin, error) {
	creds, err := pki.Load(path)
	if errors.Is(err, pki.ErrExpired) {
		return Admin{}, fmt.Errorf("admin credential in %s has expired: the control plane renews its own while it runs (%s in its state directory); copy that one", path, AdminFile)
	}
	if err != nil {
		return Admin{}, fmt.Errorf("admin credential: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return Admin{}, fmt.Errorf("admin credential: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, 64<<10))
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "-----BEGIN") {
		hub, ok := strings.CutPrefix(lines.Text(), "hub: ")
		if !ok {
			continue
		}
		if _, _, err := net.SplitHostPort(hub); err != nil {
			return Admin{}, fmt.Errorf("admin credential %s: hub %q: want HOST:PORT", path, peer.Printable(hub, 200))
		}
		return Admin{Hub: hub, Credentials: creds}, nil
	}
	return Admin{}, fmt.Errorf("admin credential %s does not say where the hub is: want a line \"hub: HOST:PORT\" on top", path)
}

// WriteAdmin writes the admin's credential into the state directory and
// returns the file's path. Whoever holds that file may submit jobs and issue
// tokens. addr is where clients reach the hub, HOST:PORT.
func (h *Hub) WriteAdmin(ctx context.Context, addr string) (path string, err error) {
	h.keys.Lock()
	defer h.keys.Unlock()
	return h.writeAdmin(ctx, addr)
}

// writeAdmin is WriteAdmin for who holds h.keys.
func (h *Hub) writeAdmin(ctx context.Context, addr string) (path string, err error) {
	path = filepath.Join(h.config.State, AdminFile)
	tmp := filepath.Join(h.config.State, ".admin-credential.pem")
	creds := h.young(path, pki.Admin, adminName)
	if creds == nil || h.Revoked(creds.Key()) {
		if creds, err = h.authority.NewCredentials(pki.Admin, adminName); err != nil {
			return "", err
		}
	}
	if err := h.noteIssued(ctx, issuedKey{pki.Admin, adminName, creds.Key(), creds.Expires()}); err != nil {
		return "", err
	}
	if err := creds.Save(tmp); err != nil {
		return "", err
	}
	defer os.Remove(tmp) // fails harmlessly once renamed
	b, err := os.ReadFile(tmp)
	if err != nil {
		return "", fmt.Errorf("write the admin's credential: %w", err)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "Freshet admin credential: whoever holds this file may submit jobs and issue tokens.\nhub: %s\n", addr)
	out.Write(b)
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return "", fmt.Errorf("write the admin's credential: %w", err)
	}
	_, err = f.Write(out.Bytes())
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return "", fmt.Errorf("write the admin's credential: %w", err)
	}
	h.mu.Lock()
	h.adminAddr, h.adminCreds = addr, creds
	h.mu.Unlock()
	return path, nil
}
