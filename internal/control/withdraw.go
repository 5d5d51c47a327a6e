package control

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/pki"
)

// Certificates of admins and monitors stand in no node's record, so there is one
// of each that is issued. To withdraw them is to put their keys on the list of
// those who were removed (revoke.go): the hub goes by it at every control
// connection, and all that serve metrics at every scrape.

// issuedKey is a certificate of an admin or a monitor.
type issuedKey struct {
	Role    pki.Role  `json:"role"`
	Name    string    `json:"name"`
	Key     string    `json:"key"`
	Expires time.Time `json:"expires"`
}

// entry is what the list of the removed has of it.
func (k issuedKey) entry() revokedKey {
	return revokedKey{Key: k.Key, Node: pki.Identity{Name: k.Name, Role: k.Role}.String(), Expires: k.Expires}
}

// noteIssued writes down a certificate before anybody gets it. h.keys is held.
func (h *Hub) noteIssued(ctx context.Context, k issuedKey) error {
	if _, err := put(ctx, h.store.issued, k.Key, k, 0); err != nil && !errors.Is(err, errChangedByOther) { // it was noted already
		return fail(ErrUnavailable, "cannot write down the certificate of %s (%s): %s", k.Name, k.Role, oneLine(err.Error()))
	}
	return nil
}

// issuedTo are the certificates of a role that were issued, by name.
func (h *Hub) issuedTo(ctx context.Context, role pki.Role) (map[string][]issuedKey, error) {
	by := map[string][]issuedKey{}
	err := all(ctx, h.store.issued, func(key string, value []byte, _ uint64) {
		var k issuedKey
		if err := json.Unmarshal(value, &k); err != nil || k.Key != key {
			h.log.Error("unreadable record of a certificate", "key", key, "err", err)
			return
		}
		if k.Role == role {
			by[k.Name] = append(by[k.Name], k)
		}
	})
	if err != nil {
		return nil, fail(ErrUnavailable, "cannot read which certificates were issued: %s", oneLine(err.Error()))
	}
	return by, nil
}

// withdraw makes certificates useless. h.keys is held.
func (h *Hub) withdraw(ctx context.Context, issued []issuedKey) error {
	var list revocations
	for _, k := range issued {
		list = append(list, k.entry())
	}
	if err := h.writeRevoked(ctx, list); err != nil {
		return err
	}
	h.mu.Lock()
	h.setRevokedLocked(append(slices.Clone(h.revoked), list...))
	h.mu.Unlock()
	for _, k := range issued {
		if err := drop(ctx, h.store.issued, k.Key); err != nil { // it is withdrawn all the same
			h.log.Warn("cannot remove the record of a certificate that was withdrawn", "name", k.Name, "role", k.Role, "err", err)
		}
	}
	return nil
}

// withdrawMonitor makes all certificates that monitors of that name have useless.
func (h *Hub) withdrawMonitor(ctx context.Context, name string) error {
	h.keys.Lock()
	defer h.keys.Unlock()
	by, err := h.issuedTo(ctx, pki.Monitor)
	if err != nil {
		return err
	}
	if len(by[name]) == 0 {
		return fail(ErrInvalid, "no monitor %q has a certificate; those that have: %s", peer.Printable(name, 64), listed(slices.Sorted(maps.Keys(by))))
	}
	if err := h.withdraw(ctx, by[name]); err != nil {
		return err
	}
	h.log.Info("monitor's certificates withdrawn", "monitor", name, "certificates", len(by[name]))
	return nil
}

// answerFirst is how long an admin whose credential was withdrawn keeps its
// connection: one of them waits for the answer.
const answerFirst = time.Second

// withdrawAdmin makes all copies of the admin's credential useless, and writes a
// new one into the state directory.
func (h *Hub) withdrawAdmin(ctx context.Context) (path string, err error) {
	h.keys.Lock()
	defer h.keys.Unlock()
	by, err := h.issuedTo(ctx, pki.Admin)
	if err != nil {
		return "", err
	}
	h.mu.Lock()
	addr := h.adminAddr
	h.mu.Unlock()
	for _, issued := range by {
		if err := h.withdraw(ctx, issued); err != nil {
			return "", err
		}
	}
	h.spawn(func() {
		timer := time.NewTimer(answerFirst)
		defer timer.Stop()
		select {
		case <-timer.C:
			h.cutOffAdmins()
		case <-ctx.Done(): // and with it all connections
		}
	})
	if path, err = h.writeAdmin(ctx, addr); err != nil {
		return "", fail(ErrUnavailable, "the admin's credential is withdrawn, and a new one cannot be written; start the control plane again to have it tried again: %s", oneLine(err.Error()))
	}
	h.log.Info("the admin's credential is withdrawn, and a new one written", "file", path)
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return path, nil
}

// cutOffAdmins closes the control connections of admins whose credential was withdrawn.
func (h *Hub) cutOffAdmins() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for who, conns := range h.conns {
		for c := range conns {
			if who.Role == pki.Admin && h.revokedLocked(pki.PeerKey(c.ConnectionState())) {
				c.NetConn().Close()
			}
		}
	}
}

// Revoked says whether the certificate of that key (pki.PeerKey) was withdrawn, or
// its node removed.
func (h *Hub) Revoked(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.revokedLocked(key)
}

func (h *Hub) revokedLocked(key string) bool {
	return slices.ContainsFunc(h.revoked, func(r revokedKey) bool { return r.Key == key })
}

// sweepIssued forgets certificates that have expired. h.keys is held.
func (h *Hub) sweepIssued(ctx context.Context, now time.Time) {
	for _, role := range []pki.Role{pki.Admin, pki.Monitor} {
		by, err := h.issuedTo(ctx, role)
		if err != nil {
			continue // the next sweep is in an hour
		}
		for _, issued := range by {
			for _, k := range issued {
				if k.entry().over(now) {
					drop(ctx, h.store.issued, k.Key)
				}
			}
		}
	}
}

// WithdrawMonitor makes all certificates that Monitor made for that name useless,
// within seconds.
func (c *Client) WithdrawMonitor(ctx context.Context, name string) error {
	return c.call(ctx, "withdraw-monitor", nodeRequest{name}, nil, true)
}

// WithdrawAdmin makes all copies of the admin's credential useless, this client's
// included, and returns where the control plane has written a new one.
func (c *Client) WithdrawAdmin(ctx context.Context) (path string, err error) {
	var a adminAnswer
	err = c.call(ctx, "withdraw-admin", struct{}{}, &a, false)
	return a.Path, err
}
