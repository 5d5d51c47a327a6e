package control

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"time"

	"golang.org/x/time/rate"

	"github.com/freshet/freshet/internal/pki"
)

// A certificate is renewed at two thirds of its life (pki.RenewAt) by the one
// who holds it, with a new key: an agent asks the hub over its control
// connection, the hub asks itself. Connections that are open stay; handshakes
// from then on show the new one. Until the old one has expired both are good,
// so an answer that gets lost harms nobody.

type renewRequest struct {
	CSR string `json:"csr"` // PEM
}

type renewAnswer struct {
	Certificate string `json:"certificate"` // PEM
}

// lookAgain bounds how long is slept before the clock is looked at again: it
// may have been set, or the machine been asleep.
const lookAgain = time.Hour

// retryIn is how long to wait after that many failures of a renewal in a row,
// with left to go until the certificate expires: a second at first, an hour at
// most, and never so long that there would not be several more attempts.
func retryIn(failures int, left time.Duration) time.Duration {
	wait := min(time.Second<<min(max(failures-1, 0), 12), time.Hour)
	return max(min(wait, left/4), 100*time.Millisecond)
}

// renewLoop keeps an agent's certificate young. When it has expired all the
// same, end is told so: nobody talks to this node any more.
func (m *member) renewLoop(ctx context.Context, end func(error)) {
	creds, spread, failures := m.a.Credentials, rand.Float64(), 0
	var pending *pki.Request // the same until it is answered: one key, however often it is sent
	for {
		now := time.Now()
		if err := expired(creds, now); err != nil {
			end(err)
			return
		}
		wait := min(creds.RenewAt(spread).Sub(now), lookAgain)
		if wait <= 0 {
			err := m.renew(ctx, &pending)
			if errors.Is(err, ErrNoSuchNode) {
				end(removedFromCluster(m.name))
				return
			}
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				failures = 0
				m.log.Info("certificate renewed", "expires", creds.Expires())
				continue
			}
			if failures++; failures == 1 {
				m.log.Warn("cannot renew the certificate, trying on", "expires", creds.Expires(), "err", err)
			}
			wait = retryIn(failures, creds.Expires().Sub(now))
		}
		timer := time.NewTimer(min(wait, max(creds.Expires().Sub(now), 0)+time.Millisecond))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// expired is ErrExpired, with what to do, once the certificate of creds is over.
func expired(creds *pki.Credentials, now time.Time) error {
	if err := creds.CheckTime(now); errors.Is(err, pki.ErrExpired) {
		return fail(ErrExpired, "%v", err)
	}
	return nil
}

// renew gets a new certificate, keeps it, and puts it to use.
func (m *member) renew(ctx context.Context, pending **pki.Request) error {
	if *pending == nil {
		req, err := pki.NewRequest()
		if err != nil {
			return err
		}
		*pending = req
	}
	body, err := json.Marshal(renewRequest{CSR: string((*pending).CSR())})
	if err != nil {
		return err
	}
	var a renewAnswer
	if err := m.request(ctx, "renew", body, within, &a); err != nil {
		return err
	}
	next, err := m.a.Credentials.Accept(*pending, []byte(a.Certificate))
	if err != nil {
		return err
	}
	if m.a.CredentialsFile != "" {
		if err := next.Save(m.a.CredentialsFile); err != nil {
			return err
		}
	}
	*pending = nil
	return m.a.Credentials.Replace(next)
}

// maxKeys bounds the certificates of one node that have not expired: two, while
// it renews, and what got lost when it was restarted just then.
const maxKeys = 8

// renew issues a new certificate to the node that asks, in its own name and no
// other.
func (h *Hub) renew(ctx context.Context, name string, body []byte) (renewAnswer, error) {
	var r renewRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return renewAnswer{}, fail(ErrInvalid, "unreadable request to renew the certificate of %s: %v", name, err)
	}
	h.keys.Lock()
	defer h.keys.Unlock()
	now := time.Now()
	h.mu.Lock()
	n := h.nodes[name]
	if n == nil {
		h.mu.Unlock()
		return renewAnswer{}, fail(ErrNoSuchNode, "no node %q", name)
	}
	if n.renewals == nil {
		n.renewals = rate.NewLimiter(1, 4)
	}
	patient, live := n.renewals.Allow(), n.live(now)
	h.mu.Unlock()
	switch {
	case !patient:
		return renewAnswer{}, fail(ErrBusy, "%s asks for certificates too often", name)
	case len(live) == 0: // a connection may outlive the certificate that it was opened with
		return renewAnswer{}, fail(ErrExpired, "the certificate of %s has expired; join again with a new token", name)
	}
	certPEM, err := h.authority.Issue(pki.Node, name, []byte(r.CSR))
	if err != nil {
		return renewAnswer{}, fail(ErrInvalid, "%v", err)
	}
	key, expires, err := pki.IssuedKey(certPEM)
	if err != nil {
		return renewAnswer{}, err
	}
	keys := []nodeKey{{key, expires}}
	for _, k := range live {
		if k.Key != key { // the same request again, whose answer got lost
			keys = append(keys, k)
		}
	}
	if len(keys) > maxKeys {
		return renewAnswer{}, fail(ErrBusy, "%s has %d certificates that have not expired", name, len(live))
	}
	if err := h.changeNode(ctx, name, func(r *nodeRecord, _ *node) { r.Keys = keys }); err != nil {
		return renewAnswer{}, err
	}
	h.log.Info("certificate renewed", "node", name, "expires", expires)
	return renewAnswer{string(certPEM)}, nil
}

// keepOwn renews the hub's own certificate and the admin's file while the hub
// runs, and forgets removals that no longer matter.
func (h *Hub) keepOwn(ctx context.Context) {
	for failures := 0; ; {
		due, err := h.renewOwn(ctx, time.Now())
		wait := min(time.Until(due), lookAgain)
		if err != nil {
			if failures++; failures == 1 {
				h.log.Warn("cannot renew the control plane's certificates, trying on", "err", err)
			}
			wait = retryIn(failures, time.Until(h.creds.Expires()))
		} else {
			failures = 0
		}
		h.sweepRevoked(ctx, time.Now())
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// renewOwn renews what is to be renewed by now, and says when the next is.
func (h *Hub) renewOwn(ctx context.Context, now time.Time) (due time.Time, err error) {
	if !now.Before(h.creds.RenewAt(0)) {
		next, err := h.renewed(filepath.Join(h.config.State, hubFile), pki.Hub, pki.HubName)
		if err != nil {
			return now, err
		}
		if err := h.creds.Replace(next); err != nil {
			return now, err
		}
		h.log.Info("the control plane's certificate is renewed", "expires", h.creds.Expires())
	}
	due = h.creds.RenewAt(0)
	h.mu.Lock()
	addr, admin := h.adminAddr, h.adminCreds
	h.mu.Unlock()
	if admin == nil {
		return due, nil
	}
	if !now.Before(admin.RenewAt(0)) {
		if _, err := h.WriteAdmin(ctx, addr); err != nil {
			return now, err
		}
		h.mu.Lock()
		admin = h.adminCreds
		h.mu.Unlock()
		h.log.Info("the admin's credential is renewed", "expires", admin.Expires())
	}
	if d := admin.RenewAt(0); d.Before(due) {
		due = d
	}
	return due, nil
}
