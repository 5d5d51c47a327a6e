package control

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/freshet/freshet/internal/peer"
	"github.com/freshet/freshet/internal/pki"
)

// Who is removed from the cluster is known by the keys of its certificates, so
// that a node which joins anew under the same name is none of them. The hub
// keeps the list on disk, and each answer to a beat has its version: an agent
// that has another one fetches the list, hands it to its port, and keeps it for
// a restart without the hub.
//
//	nodes remove ──> hub: record, then forget ──> answer to the next beat ──> agent: fetch, Agent.Revoke, file
//
// An entry is kept until a day after the certificate has expired, which is when
// a clock that is slow would refuse it, too.

// revokedKey is a certificate of a node that was removed.
type revokedKey struct {
	Key     string    `json:"key"`
	Node    string    `json:"node"` // or "NAME (ROLE)", of another role (withdraw.go)
	Expires time.Time `json:"expires"`
}

// over says whether nobody can take the certificate for a valid one any more.
func (r revokedKey) over(now time.Time) bool { return now.Sub(r.Expires) > 24*time.Hour }

// revocations is the list, in order of the keys.
type revocations []revokedKey

func (l revocations) keys() []string {
	keys := make([]string, len(l))
	for i, r := range l {
		keys[i] = r.Key
	}
	return keys
}

// version is equal for equal lists; "" is the empty one. It has no order, and so
// does not depend on a hub's remembering how often it changed its list.
func (l revocations) version() string {
	if len(l) == 0 {
		return ""
	}
	h := sha256.New()
	for _, r := range l {
		fmt.Fprintln(h, r.Key)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func removedFromCluster(name string) error {
	return fail(ErrRemoved, "node %s was removed from the cluster, so its certificate is no longer accepted; join again with a new token", name)
}

// loadRevoked reads the list that the last hub left.
func (h *Hub) loadRevoked(ctx context.Context) error {
	err := all(ctx, h.store.revoked, func(key string, value []byte, _ uint64) {
		var r revokedKey
		if err := json.Unmarshal(value, &r); err != nil || r.Key != key {
			h.log.Error("unreadable record of a removed node", "key", key, "err", err)
			return
		}
		h.revoked = append(h.revoked, r)
	})
	h.setRevokedLocked(h.revoked) // nobody else is there yet
	return err
}

// setRevokedLocked puts l in force: as a new slice, since others may be reading
// the old one.
func (h *Hub) setRevokedLocked(l revocations) {
	slices.SortFunc(l, func(a, b revokedKey) int { return cmp.Compare(a.Key, b.Key) })
	l = slices.CompactFunc(l, func(a, b revokedKey) bool { return a.Key == b.Key }) // where an attempt is made again
	h.revoked, h.revokedVersion = l, l.version()
}

// sweepRevoked forgets entries that no longer matter.
func (h *Hub) sweepRevoked(ctx context.Context, now time.Time) {
	h.keys.Lock()
	defer h.keys.Unlock()
	h.mu.Lock()
	var keep revocations
	var old []string
	for _, r := range h.revoked {
		if r.over(now) {
			old = append(old, r.Key)
		} else {
			keep = append(keep, r)
		}
	}
	if len(old) > 0 {
		h.setRevokedLocked(keep)
	}
	h.mu.Unlock()
	for _, key := range old {
		if err := drop(ctx, h.store.revoked, key); err != nil && ctx.Err() == nil {
			h.log.Warn("cannot remove an old record of a removed node", "err", err)
		}
	}
	h.sweepIssued(ctx, now)
}

// removeNode takes a node out of the cluster, up or down: none of its
// certificates is accepted any longer, running jobs lose it, its name is free.
func (h *Hub) removeNode(ctx context.Context, name string) error {
	jobs, err := h.forget(ctx, name)
	if err != nil {
		return err
	}
	for _, d := range jobs { // a job whose record cannot be written takes nothing, and neither the others nor the caller are to wait for it
		h.spawn(func() { d.send(ctx, wasRemoved{name}) })
	}
	h.log.Info("node removed", "node", name)
	return nil
}

// forget takes a node out of the records, and returns the jobs that are to hear of it.
func (h *Hub) forget(ctx context.Context, name string) ([]*driven, error) {
	h.keys.Lock() // no certificate is issued to it meanwhile
	defer h.keys.Unlock()
	now := time.Now()
	h.mu.Lock()
	n := h.nodes[name]
	if n == nil {
		known := slices.Sorted(maps.Keys(h.nodes))
		h.mu.Unlock()
		return nil, fail(ErrNoSuchNode, "no node %q; known nodes: %s", peer.Printable(name, 64), listed(known))
	}
	if name == h.own {
		h.mu.Unlock()
		return nil, fail(ErrRefused, "node %s runs in the control plane's own process: start that one with --no-agent first", name)
	}
	var list revocations
	for _, k := range n.live(now) {
		list = append(list, revokedKey{Key: k.Key, Node: name, Expires: k.Expires})
	}
	h.mu.Unlock()
	if err := h.writeRevoked(ctx, list); err != nil { // first of all: should we die in between, it is to be removed again, and never half forgotten
		return nil, err
	}
	if err := drop(ctx, h.store.nodes, name); err != nil {
		return nil, fail(ErrUnavailable, "cannot remove the record of node %s; try again: %s", name, oneLine(err.Error()))
	}
	h.mu.Lock()
	delete(h.nodes, name)
	h.setRevokedLocked(append(slices.Clone(h.revoked), list...))
	h.cutOffLocked(name)
	jobs := slices.Collect(maps.Values(h.active))
	h.mu.Unlock()
	drop(ctx, h.store.members, name) // it would expire by itself
	return jobs, nil
}

// writeRevoked puts certificates on the list that is on disk.
func (h *Hub) writeRevoked(ctx context.Context, list revocations) error {
	for _, r := range list {
		if _, err := put(ctx, h.store.revoked, r.Key, r, 0); err != nil && !errors.Is(err, errChangedByOther) {
			return fail(ErrUnavailable, "cannot write that the certificate of %s is revoked; try again: %s", r.Node, oneLine(err.Error()))
		}
	}
	return nil
}

// cutOffLocked closes the control connections of a node.
func (h *Hub) cutOffLocked(name string) {
	for who, conns := range h.conns {
		for c := range conns {
			if who.Role == pki.Node && who.Name == name {
				c.NetConn().Close()
			}
		}
	}
}

// LoadRevoked reads the keys of removed nodes that an agent has kept in a
// file. A file that is not there has none.
func LoadRevoked(path string) (keys []string, err error) {
	l, err := loadRevoked(path)
	return l.keys(), err
}

func loadRevoked(path string) (l revocations, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &l)
	}
	if err != nil {
		return nil, fmt.Errorf("read who was removed from the cluster: %s: %w; without that file the control plane has to be there to say it again", path, err)
	}
	return l, nil
}

// heedRemovals fetches the list whenever it has changed.
func (m *member) heedRemovals(ctx context.Context) {
	failing := false
	for {
		select {
		case <-m.removals:
		case <-ctx.Done():
			return
		}
		var l revocations
		if err := m.request(ctx, "revoked", nil, within, &l); err != nil {
			continue // the next beat says again that ours is old
		}
		if m.a.Revoke != nil {
			m.a.Revoke(l.keys())
		}
		var err error
		if m.a.RevokedFile != "" {
			var b []byte
			if b, err = json.Marshal(l); err == nil {
				err = pki.WriteFile(m.a.RevokedFile, b)
			}
		}
		if err != nil {
			if !failing {
				m.log.Warn("cannot keep the list of removed nodes, trying on", "err", err)
			}
			failing = true
			continue
		}
		failing = false
		m.mu.Lock()
		m.removed = l.version()
		m.mu.Unlock()
	}
}
